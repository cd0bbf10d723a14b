//! Plan of a sale of all holdings: sales, steps before them, and the rest, as known when the operator is asked.

use alloy_primitives::{U256, U512};
use serde::{Deserialize, Serialize};

use crate::handle::ChainHoldings;
use bardo_base::display::readable_figure;
use bardo_base::format::{counted, dollars};
use bardo_base::text::SafeText;
use bardo_base::units::{TokenAmount, Usd};

/// Part of an amount by which it may move before the plan counts as another one: interest accrues with each block.
const TOLERANCE: u64 = 100;

/// Plan of a sale of all holdings. Amounts are those of the newest block that was read; each sale reads its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SalePlan {
    /// Holdings that are sold.
    pub sells: Vec<PlannedAmount>,
    /// Debts that are repaid before, as far as the wallet has their tokens.
    pub repays: Vec<PlannedAmount>,
    /// Supplies that are withdrawn before, unless they secure a debt that stays.
    pub withdraws: Vec<PlannedAmount>,
    /// Holdings that stay: native tokens and dollar stablecoins.
    pub stays: Vec<PlannedAmount>,
    /// Liquidity positions, which stay.
    pub positions: Vec<StayingPosition>,
    /// Number of open orders that are cancelled first; `None` if unknown.
    pub orders: Option<u64>,
    /// Names of the chains of which something could not be read. What is there is sold as well.
    pub unread: Vec<SafeText>,
}

/// Amount of a token on a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedAmount {
    /// Name of the chain.
    pub chain: SafeText,
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Amount of the token.
    pub amount: TokenAmount,
    /// Value in dollars; `None` without a price.
    pub value: Option<Usd>,
}

/// Liquidity position that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StayingPosition {
    /// Name of the chain.
    pub chain: SafeText,
    /// Version, number and pair of the position, such as `V3 #359 WETH/USDC`.
    pub name: SafeText,
    /// Exit value in dollars; `None` without a price of each token.
    pub value: Option<Usd>,
}

/// True if both amounts are equal, apart from what accrues while somebody reads.
fn is_near(one: U256, other: U256) -> bool {
    let most = U512::from(one.max(other));
    U512::from(one.abs_diff(other)) * U512::from(TOLERANCE) <= most
}

impl PlannedAmount {
    fn describe(&self, places: usize) -> String {
        let Self { chain, symbol, amount, value } = self;
        let worth = worth(*value);
        format!("{} {symbol} on {chain}, {worth}", readable_figure(&amount.to_string(), places))
    }
}

fn worth(value: Option<Usd>) -> String {
    value.map_or_else(|| "no price".to_owned(), dollars)
}

impl SalePlan {
    /// Adds what one chain holds. `is_kept` is true for the symbol of a token that is not sold.
    pub fn add(&mut self, held: &ChainHoldings, is_kept: impl Fn(&SafeText) -> bool) {
        let planned = |symbol: &SafeText, amount: TokenAmount, value: Option<Usd>| {
            let (chain, symbol) = (held.chain.clone(), symbol.clone());
            (!amount.raw().is_zero()).then_some(PlannedAmount { chain, symbol, amount, value })
        };
        for row in &held.rows {
            let list = if is_kept(&row.symbol) { &mut self.stays } else { &mut self.sells };
            list.extend(planned(&row.symbol, row.amount, row.value));
        }
        for row in held.lending.iter().flat_map(|lending| &lending.rows) {
            self.repays.extend(planned(&row.symbol, row.owed, row.owed_value));
            self.withdraws.extend(planned(&row.symbol, row.supplied, row.supplied_value));
        }
        self.positions.extend(held.positions.iter().map(|position| StayingPosition {
            chain: held.chain.clone(),
            name: SafeText::clean(&format!("{} {}", position.name, position.pair), 60),
            value: position.value,
        }));
        if held.lending.as_ref().is_some_and(|lending| lending.unread) {
            self.unread.push(held.chain.clone());
        }
    }

    /// Value of what is sold, in dollars; `None` if nothing of it has a price.
    pub fn value(&self) -> Option<Usd> {
        let mut values = self.sells.iter().filter_map(|one| one.value);
        let first = values.next()?;
        values.try_fold(first, |sum, value| sum.checked_add(value).ok())
    }

    /// True if the other plan sells, repays, withdraws and leaves the same, apart from dollars and accrued interest.
    pub fn is_same(&self, other: &Self) -> bool {
        let same = |one: &[PlannedAmount], other: &[PlannedAmount]| {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| {
                    (&one.chain, &one.symbol) == (&other.chain, &other.symbol)
                        && is_near(one.amount.raw(), other.amount.raw())
                })
        };
        let positions = |plan: &Self| plan.positions.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        same(&self.sells, &other.sells)
            && same(&self.repays, &other.repays)
            && same(&self.withdraws, &other.withdraws)
            && same(&self.stays, &other.stays)
            && positions(self) == positions(other)
            && (self.orders, &self.unread) == (other.orders, &other.unread)
    }

    /// Lines for people, each with a word for what happens: holdings and positions with their amounts and dollars.
    pub fn lines(&self, places: usize) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        match self.orders {
            Some(0) => {}
            Some(orders) => lines.push(("cancels", counted(orders, "open order", "open orders"))),
            None => lines.push(("cancels", "every open order".to_owned())),
        }
        let all = |word: &'static str, amounts: &[PlannedAmount], more: &str| -> Vec<(&'static str, String)> {
            amounts.iter().map(|one| (word, format!("{}{more}", one.describe(places)))).collect()
        };
        lines.extend(all("repays", &self.repays, " of debt, as far as your wallet has the token"));
        lines.extend(all("withdraws", &self.withdraws, " of supply, and sells it unless it is a dollar stablecoin"));
        lines.extend(all("sells", &self.sells, ""));
        if self.sells.is_empty() && self.withdraws.is_empty() {
            lines.push(("sells", "nothing: no token that is sold is held".to_owned()));
        }
        lines.extend(all("stays", &self.stays, ""));
        for position in &self.positions {
            let StayingPosition { chain, name, value } = position;
            lines.push(("stays", format!("liquidity position {name} on {chain}, {}", worth(*value))));
        }
        for chain in &self.unread {
            lines.push(("unknown", format!("not everything on {chain} could be read: what is there is sold as well")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::HoldingRow;
    use crate::market::{LendingRow, LendingState, PositionRow};

    fn text(words: &str) -> SafeText {
        SafeText::clean(words, 40)
    }

    fn units(whole: &str, decimals: u8) -> TokenAmount {
        TokenAmount::parse(whole, decimals).unwrap()
    }

    fn usd(dollars: &str) -> Option<Usd> {
        Some(dollars.parse().unwrap())
    }

    fn held(weth: &str, owed: &str) -> ChainHoldings {
        let row = |symbol: &str, amount: TokenAmount, value: &str| HoldingRow {
            symbol: text(symbol),
            amount,
            value: usd(value),
        };
        let lent = LendingRow {
            symbol: text("USDC"),
            supplied: units("0", 6),
            supplied_value: None,
            owed: units(owed, 6),
            owed_value: usd("150"),
        };
        let position = PositionRow {
            name: text("V3 #359"),
            pair: text("WETH/USDC"),
            fee_pips: 3_000,
            value: usd("704.1"),
            owed: Usd::ZERO,
        };
        ChainHoldings {
            chain: text("ethereum"),
            chain_id: 1,
            block: 7,
            rows: vec![
                row("ETH", units("1.3989", 18), "4700"),
                row("WETH", units(weth, 18), "12432.1"),
                row("UNI", units("1214.9", 18), "1684.3"),
                row("DAI", units("1523", 18), "1523"),
            ],
            positions: vec![position],
            lending: Some(LendingState { rows: vec![lent], health: Some(200), moves: Vec::new(), unread: false }),
        }
    }

    fn plan(weth: &str, owed: &str) -> SalePlan {
        let mut plan = SalePlan { orders: Some(2), ..SalePlan::default() };
        plan.add(&held(weth, owed), |symbol| matches!(symbol.as_str(), "ETH" | "DAI"));
        plan
    }

    #[test]
    fn a_plan_names_what_is_sold_what_is_done_before_and_what_stays() {
        let plan = plan("3.665", "150");
        // 12,432.10 and 1,684.30.
        assert_eq!(plan.value(), usd("14116.4"));
        let lines: Vec<String> = plan.lines(6).into_iter().map(|(word, line)| format!("{word} {line}")).collect();
        assert_eq!(
            lines,
            [
                "cancels 2 open orders",
                "repays 150 USDC on ethereum, $150.00 of debt, as far as your wallet has the token",
                "sells 3.665 WETH on ethereum, $12,432.10",
                "sells 1,214.9 UNI on ethereum, $1,684.30",
                "stays 1.3989 ETH on ethereum, $4,700.00",
                "stays 1,523 DAI on ethereum, $1,523.00",
                "stays liquidity position V3 #359 WETH/USDC on ethereum, $704.10",
            ]
        );
        let unread = SalePlan { unread: vec![text("base")], ..SalePlan::default() };
        let lines = unread.lines(6);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].1.contains("every open order") && lines[1].1.contains("nothing") && lines[2].0 == "unknown");
    }

    #[test]
    fn dollars_and_interest_make_no_other_plan_and_amounts_do() {
        let known = plan("3.665", "150");
        let mut dearer = known.clone();
        dearer.sells[0].value = usd("13000");
        for same in [dearer, plan("3.665", "150.9")] {
            assert!(known.is_same(&same), "{same:?}");
        }
        let gone = SalePlan { positions: Vec::new(), ..known.clone() };
        for other in [plan("3.5", "150"), plan("3.665", "160"), gone, SalePlan { orders: Some(1), ..known.clone() }] {
            assert!(!known.is_same(&other), "{other:?}");
        }
    }
}
