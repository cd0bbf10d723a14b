//! Supplies and debts of an account in a lending market, as `get_lending_position` describes them.

use rust_decimal::Decimal;
use serde_json::Value;

use super::{dollars_of, field, marked, strong};
use crate::format::dollars;
use crate::painter::StyledText;
use crate::theme::Role;
use crate::widgets::figure::{amount, decimal, text};
use crate::widgets::paint::Row;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// Maximum number of tokens and of liquidations that are kept.
const MAX_PARTS: usize = 100;
/// Health factor below which the figure is marked: the least that the built-in policies allow.
const HEALTH_CARE: Decimal = Decimal::from_parts(15, 0, 0, false, 1);

/// Account in a lending market, at one block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LendingAccount {
    /// Name of the chain.
    pub chain: SafeText,
    /// Address of the account.
    pub account: SafeText,
    /// Value of all collateral in dollars, by the market's oracle.
    pub collateral: Option<Usd>,
    /// Value of all debts in dollars, by the market's oracle.
    pub debt: Option<Usd>,
    /// Dollars that the market would still lend.
    pub available: Option<Usd>,
    /// Mean share of the collateral at which the debt is liquidated, in percent.
    pub threshold_pct: SafeText,
    /// Health factor; `None` without debt.
    pub health: Option<Decimal>,
    /// Category that the account chose; 0 for none.
    pub e_mode: u64,
    /// Supplies and debts, one row per token.
    pub tokens: Vec<LentToken>,
    /// Liquidations in the newest blocks, as sentences; `None` if the events could not be read.
    pub liquidations: Option<Vec<SafeText>>,
}

/// Supply and debt in one token, with interest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LentToken {
    /// Symbol of the token; its address if it is not listed.
    pub token: SafeText,
    /// Supply in whole tokens.
    pub supplied: SafeText,
    /// Debt in whole tokens.
    pub debt: SafeText,
    /// Value of the supply in dollars.
    pub supplied_value: Option<Usd>,
    /// Value of the debt in dollars.
    pub debt_value: Option<Usd>,
    /// True if debts can be made against the supply.
    pub is_collateral: bool,
    /// Yearly rate that supplies earn, in percent.
    pub supply_rate: SafeText,
    /// Yearly rate that debts pay, in percent.
    pub borrow_rate: SafeText,
    /// Price by the market's oracle, in dollars.
    pub market_price: Option<Usd>,
    /// Price at which the debt can be liquidated; `None` if this price alone cannot do it.
    pub liquidated_at: Option<LiquidatedAt>,
}

/// Price of one token at which the debt can be liquidated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiquidatedAt {
    /// Price in dollars.
    pub price: Usd,
    /// Change from the present price in percent.
    pub change_pct: Decimal,
    /// True if the price must rise.
    pub rises: bool,
}

/// True for a number in text that is not zero.
fn is_some_amount(numeral: &SafeText) -> bool {
    numeral.as_str().bytes().any(|digit| (b'1'..=b'9').contains(&digit))
}

impl LentToken {
    fn from_entry(entry: &Value) -> Option<Self> {
        let or_none = |name: &str| text(entry, name).unwrap_or_default();
        let at = entry.get("liquidated_at").filter(|at| at.is_object());
        let change = |at: &Value, name: &str| text(at, name).and_then(|change| decimal(change.as_str()));
        let liquidated_at = at.and_then(|at| {
            let (change_pct, rises) = match change(at, "rise_pct") {
                Some(rise) => (rise, true),
                None => (change(at, "fall_pct")?, false),
            };
            Some(LiquidatedAt { price: dollars_of(at, "price_usd")?, change_pct, rises })
        });
        Some(Self {
            token: text(entry, "token").filter(|token| !token.is_empty())?,
            supplied: or_none("supplied"),
            debt: or_none("debt"),
            supplied_value: dollars_of(entry, "supplied_usd"),
            debt_value: dollars_of(entry, "debt_usd"),
            is_collateral: entry.get("is_collateral").and_then(Value::as_bool).unwrap_or_default(),
            supply_rate: or_none("supply_apr_pct"),
            borrow_rate: or_none("borrow_apr_pct"),
            market_price: dollars_of(entry, "market_price_usd"),
            liquidated_at,
        })
    }

    /// True if something is supplied.
    pub fn is_supplied(&self) -> bool {
        is_some_amount(&self.supplied)
    }

    /// True if something is owed.
    pub fn is_owed(&self) -> bool {
        is_some_amount(&self.debt)
    }

    /// Words for a list: what is supplied and what is owed.
    pub fn amount_text(&self) -> String {
        let supplied = || format!("{} {} supplied", amount(self.supplied.as_str()), self.token);
        let owed = || format!("{} {} owed", amount(self.debt.as_str()), self.token);
        match (self.is_supplied(), self.is_owed()) {
            (true, true) => format!("{}, {}", supplied(), owed()),
            (false, true) => owed(),
            (true | false, false) => supplied(),
        }
    }

    /// Value of the supply, or of the debt with a minus sign.
    pub fn value_words(&self) -> StyledText {
        let unpriced = || ("no price".to_owned(), Role::StateCare);
        match (self.is_supplied(), self.is_owed()) {
            (false, true) => {
                self.debt_value.map_or_else(unpriced, |value| (format!("−{}", dollars(value)), Role::StateCare))
            }
            _ => self.supplied_value.map_or_else(unpriced, |value| (dollars(value), Role::Text)),
        }
    }

    /// Change of its price that liquidates the debt, such as `liquidated if WETH falls 23 % to $2,630.00`.
    pub fn liquidation_words(&self) -> Option<String> {
        let at = self.liquidated_at.as_ref()?;
        let verb = if at.rises { "rises" } else { "falls" };
        Some(format!("liquidated if {} {verb} {} % to {}", self.token, at.change_pct.normalize(), dollars(at.price)))
    }
}

/// Sentence for a liquidation.
fn liquidation(entry: &Value) -> Option<SafeText> {
    let word = |name: &str| text(entry, name);
    let (taken, covered) = (word("taken")?, word("covered")?);
    let sentence = format!(
        "block {}: {} {} taken for {} {} of debt",
        word("block_number").unwrap_or_default(),
        amount(taken.as_str()),
        word("collateral")?,
        amount(covered.as_str()),
        word("debt")?
    );
    Some(SafeText::clean(&sentence, 300))
}

impl LendingAccount {
    /// Reads the data of `get_lending_position` on `chain`. `None` if it names no account.
    pub fn from_data(chain: &SafeText, data: &Value) -> Option<Self> {
        let entries = |name: &str| Some(data.get(name)?.as_array()?.iter().take(MAX_PARTS));
        let tokens = entries("positions")?.filter_map(LentToken::from_entry);
        Some(Self {
            chain: chain.clone(),
            account: text(data, "account")?,
            collateral: dollars_of(data, "collateral_usd"),
            debt: dollars_of(data, "debt_usd"),
            available: dollars_of(data, "available_to_borrow_usd"),
            threshold_pct: text(data, "liquidation_threshold_pct").unwrap_or_default(),
            health: text(data, "health_factor").and_then(|health| decimal(health.as_str())),
            e_mode: data.get("e_mode").and_then(Value::as_u64).unwrap_or_default(),
            tokens: tokens.filter(|token| token.is_supplied() || token.is_owed()).collect(),
            liquidations: entries("liquidations").map(|all| all.filter_map(liquidation).collect()),
        })
    }

    /// True if something is owed.
    pub fn owes(&self) -> bool {
        self.tokens.iter().any(LentToken::is_owed)
    }

    /// Mark, words and role of the debts' security.
    pub fn state(&self) -> (&'static str, String, Role) {
        match self.health {
            // Rounded down, so that no debt looks safer than it is.
            Some(health) if health < Decimal::ONE => {
                ("✕", format!("health {:.2}, can be liquidated", health.trunc_with_scale(2)), Role::StateBad)
            }
            Some(health) if health < HEALTH_CARE => {
                ("!", format!("health {:.2}", health.trunc_with_scale(2)), Role::StateCare)
            }
            Some(health) => ("●", format!("health {:.2}", health.trunc_with_scale(2)), Role::StateGood),
            None if self.owes() => ("?", "health unknown".to_owned(), Role::StateCare),
            None => ("●", "no debt".to_owned(), Role::StateGood),
        }
    }

    /// Token whose price is nearest to the one that liquidates the debt.
    pub fn nearest(&self) -> Option<&LentToken> {
        let change = |token: &&LentToken| token.liquidated_at.as_ref().map(|at| at.change_pct);
        self.tokens.iter().filter(|token| token.liquidated_at.is_some()).min_by_key(change)
    }

    /// Collateral less debts, in dollars, and whether more is owed than secured.
    pub fn net(&self) -> Option<(Usd, bool)> {
        let (held, owed) = (self.collateral?, self.debt?);
        held.checked_sub(owed).map(|net| (net, false)).or_else(|_| owed.checked_sub(held).map(|net| (net, true))).ok()
    }

    /// Net value as text, with its role.
    pub fn value_words(&self) -> StyledText {
        match self.net() {
            Some((net, false)) => (dollars(net), Role::TextStrong),
            Some((net, true)) => (format!("−{}", dollars(net)), Role::StateBad),
            None => ("no price".to_owned(), Role::StateCare),
        }
    }

    /// Rows of the card. `chosen` is the token that is marked.
    pub fn rows(&self, chosen: Option<&SafeText>) -> Vec<Row> {
        let (mark, words, role) = self.state();
        let usd = |value: Option<Usd>| value.map_or_else(|| "unknown".to_owned(), dollars);
        let (value, value_role) = self.value_words();
        let mut all = vec![Row::new(format!("{mark} {words}"), role).end(value, value_role).kept()];
        let moves = self.tokens.iter().filter_map(LentToken::liquidation_words);
        all.extend(moves.map(|words| Row::new(words, Role::TextStrong).kept()));
        for found in self.liquidations.iter().flatten() {
            all.push(marked(&format!("liquidated in {found}"), Role::StateBad).kept());
        }
        if self.liquidations.is_none() {
            all.push(marked("whether something was liquidated lately could not be read", Role::StateCare));
        }
        all.push(field(
            "collateral",
            format!("{}, liquidated at {} % of it", usd(self.collateral), self.threshold_pct),
        ));
        all.push(field("debts", usd(self.debt)));
        all.push(field("can borrow", format!("{} more by the market; the policy allows less", usd(self.available))));
        if self.e_mode != 0 {
            all.push(field("e-mode", format!("category {}: other thresholds hold", self.e_mode)));
        }
        for token in &self.tokens {
            let here = chosen == Some(&token.token);
            let (mark, role) = if here { ("▸ ", Role::TextStrong) } else { ("  ", Role::Text) };
            let (value, value_role) = token.value_words();
            all.push(Row::new(mark, Role::BorderFocus).then(token.amount_text(), role).end(value, value_role));
            let secures = match (token.is_supplied(), token.is_collateral) {
                (true, true) => "secures debts, ",
                (true, false) => "secures no debt, ",
                (false, _) => "",
            };
            let price = token.market_price.map_or(String::new(), |price| format!(", market price {}", dollars(price)));
            let rates =
                format!("    {secures}earns {} %, debts cost {} % a year{price}", token.supply_rate, token.borrow_rate);
            all.push(Row::new(rates, Role::TextDim));
        }
        all.push(strong("market", format!("Aave V3 on {}", self.chain)));
        all.push(field("account", self.account.as_str()));
        all
    }
}
