//! Profit and loss as the console shows it.

use super::{AccountingError, BalanceCheck, Books};
use bardo_accounting::books::BookError;
use bardo_accounting::report::Totals;
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
    Books { report, faults }: &Books,
    checks: &[BalanceCheck],
    paper: bool,
    chain_name: impl Fn(u64) -> SafeText,
) -> Result<PnlState, AccountingError> {
    let sums_of = report.sums_of_tokens()?;
    let all = report.tokens_with_results()?;
    let mut tokens = Vec::new();
    for (key, unrealised) in all.iter().take(MOST_ROWS) {
        tokens.push(PnlToken {
            symbol: SafeText::clean(&report.symbol(key.0, key.1), 60),
            chain: chain_name(key.0),
            sums: sums(&sums_of.get(key).copied().unwrap_or_default())?,
            unrealised: *unrealised,
        });
    }
    let from = report.days.len().saturating_sub(MOST_DAYS);
    let mut days = Vec::new();
    for day in report.days.iter().skip(from) {
        days.push(PnlDay {
            begins: day.begins,
            sums: sums(&day.totals)?,
            net_so_far: day.net_so_far,
            unrealised: day.unrealised,
            entries: day.entries,
        });
    }
    let uneven = checks.iter().filter(|check| !check.is_even());
    let line = |check: &BalanceCheck| {
        SafeText::clean(&format!("{} on {}: {}", check.symbol, check.chain, check.describe()), 160)
    };
    let left_out = |(chain_id, name, why): &(u64, String, &'static str)| {
        SafeText::clean(&format!("{name} on {} {why}", chain_name(*chain_id)), 160)
    };
    Ok(PnlState {
        paper,
        account: None,
        money: None,
        total: sums(&report.totals)?,
        unrealised: report.unrealised()?,
        unvalued: report.unvalued(),
        more_tokens: u64::try_from(all.len().saturating_sub(MOST_ROWS)).unwrap_or(u64::MAX),
        tokens,
        days,
        even: u32::try_from(checks.iter().filter(|check| check.is_even()).count()).unwrap_or(u32::MAX),
        differences: uneven.take(MOST_ROWS).map(line).collect(),
        left_out: faults.iter().take(MOST_ROWS).map(left_out).collect(),
        fault: None,
    })
}

fn sums(totals: &Totals) -> Result<PnlSums, BookError> {
    let Totals { trades, realised, gas, fees, incomplete, .. } = *totals;
    Ok(PnlSums { trades, realised, gas, fees, net: totals.net()?, incomplete })
}
