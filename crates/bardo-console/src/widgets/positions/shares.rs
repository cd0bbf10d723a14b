//! Shares of a vault and requests in an asynchronous one, as `vault_list`, `get_vault_state` and `vault_simulate_withdraw` describe
//! them.

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
    /// True if its deposits or withdrawals are requests.
    pub is_asynchronous: bool,
    /// Requests of the account that are open; `None` without any.
    pub requests: Option<VaultRequests>,
    /// True if requests of the account were listed that are not read yet.
    pub has_unread_requests: bool,
    /// True if the account manages the vault, by the vault's own answer.
    pub is_managed: bool,
    /// True if the vault says that it is paused.
    pub is_paused: bool,
}

/// Requests of an account in an asynchronous vault. Amounts are texts of whole tokens or shares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VaultRequests {
    /// Tokens of a request to deposit that is not settled.
    pub pending_deposit: SafeText,
    /// True if that request can still be cancelled, by a simulation.
    pub cancellable: Option<bool>,
    /// Tokens whose shares can be claimed.
    pub claimable_deposit: SafeText,
    /// Shares of a request to withdraw that is not settled.
    pub pending_withdrawal: SafeText,
    /// Shares whose tokens can be claimed.
    pub claimable_withdrawal: SafeText,
}

/// True if an amount is not zero.
fn is_some(amount: &SafeText) -> bool {
    amount.as_str().bytes().any(|digit| (b'1'..=b'9').contains(&digit))
}

impl VaultRequests {
    fn from_data(data: &Value) -> Option<Self> {
        let open = data.get("requests").filter(|open| open.is_object())?;
        let or_none = |name: &str| text(open, name).unwrap_or_default();
        Some(Self {
            pending_deposit: or_none("pending_deposit"),
            cancellable: open.get("cancellable").and_then(Value::as_bool),
            claimable_deposit: or_none("claimable_deposit"),
            pending_withdrawal: or_none("pending_withdrawal"),
            claimable_withdrawal: or_none("claimable_withdrawal"),
        })
    }

    /// True if shares can be claimed.
    pub fn has_claimable_deposit(&self) -> bool {
        is_some(&self.claimable_deposit)
    }

    /// True if tokens can be claimed.
    pub fn has_claimable_withdrawal(&self) -> bool {
        is_some(&self.claimable_withdrawal)
    }

    /// True if a request to deposit waits that nobody can cancel any more.
    pub fn is_stuck(&self) -> bool {
        is_some(&self.pending_deposit) && self.cancellable == Some(false)
    }
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
    /// Reads an entry of `vault_list` on `chain`. `None` if it names no vault.
    pub fn from_entry(chain: &SafeText, entry: &Value) -> Option<Self> {
        let flag = |name: &str| entry.get(name).and_then(Value::as_bool).unwrap_or_default();
        Some(Self {
            chain: chain.clone(),
            vault: text(entry, "vault_address")?,
            asset: text(entry, "asset").unwrap_or_default(),
            shares: text(entry, "shares").unwrap_or_default(),
            total_assets: text(entry, "total_assets").unwrap_or_default(),
            is_asynchronous: flag("is_asynchronous"),
            has_unread_requests: flag("has_requests"),
            is_managed: flag("is_managed"),
            is_paused: flag("is_paused"),
            ..Self::default()
        })
    }

    /// The same with the figures of a newer list; what the list does not have stays.
    pub fn as_listed(self, newer: Self) -> Self {
        let redemption = self.redemption.filter(|_| self.shares == newer.shares);
        Self {
            shares: newer.shares,
            total_assets: newer.total_assets,
            is_asynchronous: newer.is_asynchronous,
            has_unread_requests: newer.has_unread_requests,
            is_managed: newer.is_managed,
            is_paused: newer.is_paused,
            redemption,
            ..self
        }
    }

    /// True if the account has shares or requests, or manages the vault.
    pub fn concerns(&self) -> bool {
        self.has_shares() || self.has_unread_requests || self.requests.is_some() || self.is_managed
    }

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
            is_asynchronous: data.get("is_asynchronous").and_then(Value::as_bool).unwrap_or_default(),
            requests: VaultRequests::from_data(data),
            ..Self::default()
        })
    }

    /// True if the account has shares.
    pub fn has_shares(&self) -> bool {
        self.shares.as_str().bytes().any(|digit| (b'1'..=b'9').contains(&digit))
    }

    /// Mark, words and role of the state: whether the shares can be redeemed.
    pub fn state(&self) -> (&'static str, String, Role) {
        if let Some(requests) = &self.requests {
            if requests.is_stuck() {
                return ("!", "STUCK request".to_owned(), Role::StateBad);
            }
            if requests.has_claimable_deposit() || requests.has_claimable_withdrawal() {
                return ("●", "claimable".to_owned(), Role::StateGood);
            }
            return ("◌", "requested".to_owned(), Role::StateCare);
        }
        match &self.redemption {
            _ if self.is_managed && self.is_paused => ("!", "managed, paused".to_owned(), Role::StateCare),
            _ if self.is_managed => ("●", "managed by you".to_owned(), Role::StateGood),
            _ if self.has_unread_requests => ("◌", "requests not read".to_owned(), Role::StateCare),
            _ if self.is_asynchronous && self.has_shares() => ("●", "on request".to_owned(), Role::StateGood),
            _ if !self.has_shares() => ("○", "no shares".to_owned(), Role::TextDim),
            None => ("◌", "redemption not simulated".to_owned(), Role::StateCare),
            Some(Redemption { received: None, .. }) => ("✕", "LOCKED: cannot be redeemed".to_owned(), Role::StateBad),
            Some(found) if !found.findings.is_empty() => ("!", "redeemable, with care".to_owned(), Role::StateCare),
            Some(_) => ("●", "redeemable".to_owned(), Role::StateGood),
        }
    }

    /// Value by the simulated redemption as text, with its role.
    pub fn value_words(&self) -> StyledText {
        // Its manager sets the price of what waits there.
        if self.is_asynchronous {
            return ("price open".to_owned(), Role::TextDim);
        }
        match &self.redemption {
            None => ("not known".to_owned(), Role::TextDim),
            Some(Redemption { received: None, .. }) => ("$0.00".to_owned(), Role::StateBad),
            Some(Redemption { value: Some(value), .. }) => (dollars(*value), Role::TextStrong),
            Some(Redemption { value: None, .. }) => ("no price".to_owned(), Role::StateCare),
        }
    }

    /// Words for a list, such as `476.19 shares of a USDC vault`.
    pub fn amount_text(&self) -> String {
        let Some(requests) = &self.requests else {
            return match self.is_managed && !self.has_shares() {
                true => format!("{} {}", amount(self.total_assets.as_str()), self.asset),
                false => format!("{} shares of {}", amount(self.shares.as_str()), self.asset),
            };
        };
        let asset = self.asset.as_str();
        let each = [
            (&requests.claimable_deposit, asset, "claimable"),
            (&requests.claimable_withdrawal, "shares", "paid"),
            (&requests.pending_deposit, asset, "in"),
            (&requests.pending_withdrawal, "shares", "out"),
        ];
        let open = each.into_iter().filter(|(amount, ..)| is_some(amount));
        let open: Vec<String> =
            open.map(|(figure, unit, way)| format!("{} {unit} {way}", amount(figure.as_str()))).collect();
        open.join(", ")
    }

    /// Rows of the card.
    pub fn rows(&self) -> Vec<Row> {
        let (mark, words, role) = self.state();
        let (value, value_role) = self.value_words();
        let mut all = vec![Row::new(format!("{mark} {words}"), role).end(value, value_role).kept()];
        // Those of the redemption repeat what is known of the vault itself.
        let findings = self.redemption.as_ref().map_or(&self.findings, |found| &found.findings);
        all.extend(findings.iter().map(|words| marked(words.as_str(), Role::StateCare).kept()));
        if let Some(requests) = &self.requests {
            let asset = self.asset.as_str();
            let each = [
                ("claim", &requests.claimable_deposit, format!("{asset} settled: their shares can be claimed")),
                ("claim", &requests.claimable_withdrawal, format!("shares settled: their {asset} can be claimed")),
                (
                    "requested",
                    &requests.pending_deposit,
                    match requests.cancellable {
                        Some(true) => format!("{asset} to deposit, can be cancelled"),
                        Some(false) => format!("{asset} to deposit, CANNOT be cancelled any more"),
                        None => format!("{asset} to deposit"),
                    },
                ),
                ("requested", &requests.pending_withdrawal, "shares to withdraw, cannot be cancelled".to_owned()),
            ];
            let open = each.into_iter().filter(|(_, figure, _)| is_some(figure));
            all.extend(open.map(|(name, figure, words)| strong(name, format!("{} {words}", amount(figure.as_str())))));
        }
        if self.is_managed {
            let words =
                if self.is_paused { "you manage this vault, and it is paused" } else { "you manage this vault" };
            all.push(strong("role", words.to_owned()));
        }
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
