//! Session summary, printed after the console has closed.

use super::{CommandFailure, print};
use bardo_base::format::dollars;
use bardo_session::handle::SessionSummary;

/// Prints the session summary.
pub(super) fn print_summary(told: &SessionSummary) -> Result<(), CommandFailure> {
    print(&text(told))
}

fn text(told: &SessionSummary) -> String {
    // Trades on paper are signed by nobody and are not counted.
    let trades = match (told.trades, told.paper) {
        (0, true) => "no signed trades".to_owned(),
        (1, true) => "1 signed trade".to_owned(),
        (many, true) => format!("{many} signed trades"),
        (1, false) => "1 trade".to_owned(),
        (many, false) => format!("{many} trades"),
    };
    let mut text = format!(
        "{}{trades}, {} blocked, {} rejected, {} unanswered, {} failed.\n",
        if told.paper { "PAPER: " } else { "" },
        told.blocked,
        told.refused,
        told.lapsed,
        told.failed
    );
    if let Some(short) = told.average_short {
        let side = if short < 0 { "above" } else { "below" };
        match short.unsigned_abs() {
            0 => text.push_str("On average at the quote.\n"),
            short if short < 100 => text.push_str(&format!("On average less than 0.01 % {side} the quote.\n")),
            short => {
                let hundredths = short.saturating_add(50) / 100;
                text.push_str(&format!(
                    "On average {}.{:02} % {side} the quote.\n",
                    hundredths / 100,
                    hundredths % 100
                ));
            }
        }
    }
    if let Some((before, after)) = told.equity {
        let change = match after.checked_sub(before) {
            Ok(more) => format!("+{}", dollars(more)),
            Err(_) => match before.checked_sub(after) {
                Ok(less) => format!("-{}", dollars(less)),
                Err(_) => "unknown".to_owned(),
            },
        };
        text.push_str(&format!(
            "All holdings: {} at the start, {} at the end, at market prices and after gas: {change}.\n",
            dollars(before),
            dollars(after)
        ));
    }
    for line in &told.unsettled {
        let then = if told.chains_ended { "it ended with the devnet" } else { "it is followed up at the next start" };
        text.push_str(&format!("Not settled: {line}; {then}.\n"));
    }
    for line in &told.remarks {
        text.push_str(&format!("{line}\n"));
    }
    if let Some(journal) = &told.journal {
        text.push_str(&format!("The run is recorded in {journal}\n"));
        if told.trades > 0 {
            text.push_str(&format!("Its trades as CSV: bardo log trades {journal} > trades.csv\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_compares_trades_with_their_quotes_and_names_the_csv() {
        let journal = Some(bardo_base::text::SafeText::clean("/data/run.jsonl", 60));
        let told = SessionSummary { trades: 3, average_short: Some(450), journal, ..SessionSummary::default() };
        let text = text(&told);
        assert!(text.contains("3 trades, ") && text.contains("On average 0.05 % below the quote."), "{text}");
        assert!(text.contains("bardo log trades /data/run.jsonl > trades.csv"), "{text}");
        let at_quote = super::text(&SessionSummary { average_short: Some(0), ..told.clone() });
        assert!(at_quote.contains("On average at the quote.") && !at_quote.contains("0.0"), "{at_quote}");
        let paper = super::text(&SessionSummary { paper: true, ..SessionSummary::default() });
        assert!(paper.starts_with("PAPER: no signed trades, "), "{paper}");
        let none = super::text(&SessionSummary { journal: told.journal, ..SessionSummary::default() });
        assert!(!none.contains("CSV") && !none.contains("quoted"), "{none}");
    }
}
