//! Profit and loss as the console shows it.

use super::{AccountingError, BalanceCheck};
use bardo_accounting::books::BookError;
use bardo_accounting::report::{Grouping, Report, Totals};
use bardo_base::text::SafeText;
use bardo_session::handle::{PnlDay, PnlState, PnlSums, PnlToken};

/// Most days that the console gets.
const MOST_DAYS: usize = 400;
/// Most tokens, and most differences, that the console gets.
const MOST_ROWS: usize = 60;

/// Summarises a report. `checks` are the compared balances.
///
/// # Errors
/// [`AccountingError`] if a figure is out of range.
pub fn summary(
    report: &Report,
    checks: &[BalanceCheck],
    paper: bool,
    chain_name: impl Fn(u64) -> SafeText,
) -> Result<PnlState, AccountingError> {
    let mut tokens = Vec::new();
    let groups = report.by(Grouping::Token)?;
    for (key, holding) in report.tokens_with_results()? {
        let symbol = report.symbol(key.0, key.1);
        let group = groups.iter().find(|group| group.name == Report::token_name(&symbol, key.0));
        tokens.push(PnlToken {
            symbol: SafeText::clean(&symbol, 40),
            chain: chain_name(key.0),
            sums: sums(&group.map(|group| group.totals).unwrap_or_default())?,
            unrealised: holding,
        });
    }
    tokens.truncate(MOST_ROWS);
    let from = report.days.len().saturating_sub(MOST_DAYS);
    let mut days = Vec::new();
    for day in report.days.iter().skip(from) {
        days.push(PnlDay {
            begins: day.begins,
            sums: sums(&day.totals)?,
            net_so_far: day.net_so_far,
            unrealised: day.unrealised,
        });
    }
    let uneven = checks.iter().filter(|check| !check.is_even());
    let line = |check: &BalanceCheck| {
        let words =
            format!("{} on {}: the chain has {} beside the books", check.symbol, check.chain, check.difference());
        SafeText::clean(&words, 160)
    };
    Ok(PnlState {
        paper,
        total: sums(&report.totals)?,
        unrealised: report.unrealised()?,
        tokens,
        days,
        even: u32::try_from(checks.iter().filter(|check| check.is_even()).count()).unwrap_or(u32::MAX),
        differences: uneven.take(MOST_ROWS).map(line).collect(),
        fault: None,
    })
}

fn sums(totals: &Totals) -> Result<PnlSums, BookError> {
    let Totals { trades, realised, gas, fees, incomplete, .. } = *totals;
    Ok(PnlSums { trades, realised, gas, fees, net: totals.net()?, incomplete })
}
