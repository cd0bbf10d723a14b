//! Shares of an ERC-4626 vault, as `get_vault_state` and `vault_simulate_withdraw` describe them.

use serde_json::Value;

use super::{field, marked, strong};
use crate::format::{dollars, grouped};
use crate::painter::StyledText;
use crate::theme::Role;
use crate::widgets::figure::{amount, text};
use crate::widgets::paint::Row;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};

/// Maximum number of past prices and of findings that are kept.
const MAX_PARTS: usize = 20;
/// Decimals that an amount of a vault's token is read with; no listed token has more.
const MOST_DECIMALS: u8 = 18;

/// Shares of an account in a vault, at one block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VaultShares {
    /// Name of the chain.
    pub chain: SafeText,
    /// Address of the vault.
    pub vault: SafeText,
    /// Symbol of the vault's token; its address if it is not listed.
    pub asset: SafeText,
    /// Address of that token.
    pub asset_address: SafeText,
    /// Account that has the shares.
    pub account: SafeText,
    /// Shares of the account, in whole shares.
    pub shares: SafeText,
    /// Tokens for one share, by the vault's own conversion.
    pub share_price: SafeText,
    /// Price at past blocks, the newest first.
    pub past: Vec<(u64, SafeText)>,
    /// Tokens that the vault says it has.
    pub total_assets: SafeText,
    /// Tokens that redeeming the shares would pay by the vault's preview; `None` if it refuses.
    pub previewed: Option<SafeText>,
    /// Most shares that can be redeemed now; `None` without a limit.
    pub most: Option<SafeText>,
    /// Reasons for caution about the vault.
    pub findings: Vec<SafeText>,
    /// Simulated redemption of all shares; `None` until it was made.
    pub redemption: Option<Redemption>,
}

/// Simulated redemption of all shares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redemption {
    /// Block on which it was simulated.
    pub block: u64,
    /// Tokens that arrived by the account's balance; `None` if the withdrawal fails.
    pub received: Option<SafeText>,
    /// Value of them in dollars; `None` without a price of the token.
    pub value: Option<Usd>,
    /// Reasons for caution.
    pub findings: Vec<SafeText>,
}

/// Sentence for a finding about a vault. A kind that is not known here is named as it is.
fn finding(entry: &Value) -> Option<SafeText> {
    let word = |name: &str| text(entry, name).unwrap_or_default();
    let kind = text(entry, "kind")?;
    let sentence = match kind.as_str() {
        "price_jump" => format!("the share price rose by {} % since block {}", word("rise_pct"), word("since_block")),
        "price_fall" => format!("the share price fell by {} % since block {}", word("fall_pct"), word("since_block")),
        "few_shares" => format!("there are only {} shares, so a donation moves their price", word("shares")),
        "no_shares" => "a deposit would give no shares".to_owned(),
        "preview_too_high" => format!(
            "it gives {} where its preview says {}, {} % less",
            word("simulated"),
            word("previewed"),
            word("less_pct")
        ),
        "round_trip_cost" => format!("withdrawing at once would lose {} %", word("cost_pct")),
        "takes_other" => format!("it takes {}, not the amount", word("taken")),
        "over_limit" => format!("the vault's limit is {} now", word("limit")),
        "deposit_fails" => format!("a deposit fails: {}", word("why")),
        "withdrawal_fails" => format!("a withdrawal fails: {}", word("why")),
        other => other.replace('_', " "),
    };
    Some(SafeText::clean(&sentence, 300))
}

pub(in crate::widgets) fn findings(data: &Value) -> Vec<SafeText> {
    let all = data.get("findings").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(finding).take(MAX_PARTS).collect()
}

impl VaultShares {
    /// Reads the data of `get_vault_state` on `chain`. `None` if it names no vault.
    pub fn from_data(chain: &SafeText, data: &Value) -> Option<Self> {
        let or_none = |name: &str| text(data, name).unwrap_or_default();
        let past = data.get("past_share_prices").and_then(Value::as_array).into_iter().flatten();
        let past = past.filter_map(|one| Some((one.get("block_number")?.as_u64()?, text(one, "share_price")?)));
        Some(Self {
            chain: chain.clone(),
            vault: text(data, "vault_address")?,
            asset: or_none("asset"),
            asset_address: or_none("asset_address"),
            account: or_none("account"),
            shares: or_none("shares"),
            share_price: or_none("share_price"),
            past: past.take(MAX_PARTS).collect(),
            total_assets: or_none("total_assets"),
            previewed: text(data, "redeems_for"),
            most: text(data, "max_redeem"),
            findings: findings(data),
            redemption: None,
        })
    }

    /// True if the account has shares.
    pub fn has_shares(&self) -> bool {
        self.shares.as_str().bytes().any(|digit| (b'1'..=b'9').contains(&digit))
    }

    /// Mark, words and role of the state: whether the shares can be redeemed.
    pub fn state(&self) -> (&'static str, String, Role) {
        match &self.redemption {
            _ if !self.has_shares() => ("○", "no shares".to_owned(), Role::TextDim),
            None => ("◌", "redemption not simulated".to_owned(), Role::StateCare),
            Some(Redemption { received: None, .. }) => ("✕", "LOCKED: cannot be redeemed".to_owned(), Role::StateBad),
            Some(found) if !found.findings.is_empty() => ("!", "redeemable, with care".to_owned(), Role::StateCare),
            Some(_) => ("●", "redeemable".to_owned(), Role::StateGood),
        }
    }

    /// Value by the simulated redemption as text, with its role.
    pub fn value_words(&self) -> StyledText {
        match &self.redemption {
            None => ("not known".to_owned(), Role::TextDim),
            Some(Redemption { received: None, .. }) => ("$0.00".to_owned(), Role::StateBad),
            Some(Redemption { value: Some(value), .. }) => (dollars(*value), Role::TextStrong),
            Some(Redemption { value: None, .. }) => ("no price".to_owned(), Role::StateCare),
        }
    }

    /// Words for a list, such as `476.19 shares of a USDC vault`.
    pub fn words(&self) -> String {
        format!("{} shares of {}", amount(self.shares.as_str()), self.asset)
    }

    /// Rows of the card.
    pub fn rows(&self) -> Vec<Row> {
        let (mark, words, role) = self.state();
        let (value, value_role) = self.value_words();
        let mut all = vec![Row::new(format!("{mark} {words}"), role).end(value, value_role).kept()];
        // Those of the redemption repeat what is known of the vault itself.
        let findings = self.redemption.as_ref().map_or(&self.findings, |found| &found.findings);
        all.extend(findings.iter().map(|words| marked(words.as_str(), Role::StateCare).kept()));
        all.push(strong("shares", amount(self.shares.as_str())));
        if let Some(found) = &self.redemption {
            let received = found.received.as_ref();
            let words =
                received.map_or_else(|| "nothing".to_owned(), |got| format!("{} {}", amount(got.as_str()), self.asset));
            all.push(strong("pays now", format!("{words}, simulated on block #{}", grouped(&found.block.to_string()))));
        }
        let previewed = self.previewed.as_ref();
        let previewed =
            previewed.map_or_else(|| "refused".to_owned(), |got| format!("{} {}", amount(got.as_str()), self.asset));
        all.push(field("preview", format!("{previewed}, by the vault's own word")));
        all.push(field("price", format!("{} {} for one share", self.share_price, self.asset)));
        for (block, price) in &self.past {
            all.push(field("", format!("{price} at block #{}", grouped(&block.to_string()))));
        }
        if let Some(most) = &self.most {
            all.push(field("redeemable", format!("at most {} shares now", amount(most.as_str()))));
        }
        all.push(field("vault has", format!("{} {}", amount(self.total_assets.as_str()), self.asset)));
        all.push(field("vault", format!("{} on {}", self.vault, self.chain)));
        all.push(field("token", self.asset_address.as_str()));
        all.push(field("account", self.account.as_str()));
        all
    }
}

impl Redemption {
    /// Reads the data of `vault_simulate_withdraw`. `price` is that of one whole token of the vault, in dollars.
    pub fn from_data(data: &Value, price: Option<Usd>) -> Self {
        let received = text(data, "received");
        let value = received.as_ref().zip(price).and_then(|(received, price)| {
            let amount = TokenAmount::parse(received.as_str(), MOST_DECIMALS).ok()?;
            Usd::value_of(amount, price, Rounding::Down).ok()
        });
        let block = data.get("block_number").and_then(Value::as_u64).unwrap_or_default();
        Self { block, received, value, findings: findings(data) }
    }
}
