//! The screen's words for names of documents, code and JSON: checks, fields of the policy, and sentences that begin
//! with one of them.

use super::figure::readable;
use crate::base::model::Check;
use crate::console::format::grouped;
use crate::console::theme::Role;
use crate::fabric::{ApprovalOutcome, TxState};

/// A check, in the words of the screen.
pub fn check_word(check: Check) -> &'static str {
    match check {
        Check::Halt => "halt",
        Check::PhaseGate => "phase",
        Check::TokenAllowlist => "tokens",
        Check::SpendingLimit => "limits",
        Check::RateLimit => "rate",
        Check::BalanceBreaker => "breaker",
        Check::SlippageGuard => "slippage",
        Check::PolicyCage => "policy contract",
        Check::Simulation => "simulation",
        Check::ChainHealth => "other chain",
    }
}

/// How the operator answered, in words with a mark, and their colour.
pub const fn outcome_words(outcome: ApprovalOutcome) -> (&'static str, Role) {
    match outcome {
        ApprovalOutcome::Approved => ("✓ approved", Role::StateGood),
        ApprovalOutcome::ApprovedSimilar => ("✓ approved, and similar", Role::StateGood),
        ApprovalOutcome::Edited => ("e smaller amount", Role::Text),
        ApprovalOutcome::Refused => ("✕ refused", Role::StateBad),
        ApprovalOutcome::RefusedAndHalted => ("✕ refused, all stopped", Role::StateBad),
        ApprovalOutcome::Lapsed => ("○ nobody answered", Role::StateCare),
        ApprovalOutcome::Withdrawn => ("○ taken back", Role::TextDim),
    }
}

/// How a transaction stands, in words.
pub const fn transaction_words(state: TxState) -> &'static str {
    match state {
        TxState::Signed => "signed",
        TxState::Sent => "sent, not confirmed",
        TxState::Confirmed => "confirmed ✓",
        TxState::Reverted => "reverted ✕",
        TxState::Dropped => "never taken ✕",
        TxState::Unclear => "not known yet ?",
    }
}

/// A field of the policy, in the words of the screen.
pub fn policy_word(field: &str) -> String {
    match field {
        "max_single_trade_usd" => "One trade".to_owned(),
        "max_daily_spend_usd" => "Day cap".to_owned(),
        "max_monthly_spend_usd" => "30-day cap".to_owned(),
        "max_position_size_usd" => "One holding".to_owned(),
        "max_allowance_usd" => "One allowance".to_owned(),
        "require_human_approval_above_usd" => "Asks you above".to_owned(),
        "hot_lane" => "Without second opinion".to_owned(),
        "max_gas_usd" => "Gas of one action".to_owned(),
        "max_slippage_bps" => "Slippage".to_owned(),
        "max_price_impact_bps" => "Price impact".to_owned(),
        "max_loss_bps" => "Loss against the market".to_owned(),
        "max_trades_per_hour" => "Trades an hour".to_owned(),
        "max_tool_calls_per_minute" => "Calls a minute".to_owned(),
        "max_consecutive_failures" => "Failures in a row".to_owned(),
        other => {
            let words = other.replace('_', " ");
            let mut letters = words.chars();
            letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
        }
    }
}

/// A sentence that may begin with a name of the code, or have some behind its semicolons, in the screen's words:
/// `spending_limit: max_single_trade_usd: $6,785.11 is above …` is `One trade: $6,785.11 is above …`.
pub fn plain_words(sentence: &str) -> String {
    sentence.split("; ").map(part).collect::<Vec<_>>().join("; ")
}

fn part(said: &str) -> String {
    let named = |name: &str| !name.is_empty() && name.bytes().all(|one| one.is_ascii_lowercase() || one == b'_');
    match said.split_once(": ").filter(|(name, _)| named(name)) {
        // A check says less than the rule that it names next.
        Some((name, rest)) if name.parse::<Check>().is_ok() => {
            let rest_named = rest.split_once(": ").is_some_and(|(next, _)| named(next) && next.contains('_'));
            let word = name.parse().map_or("", check_word);
            if rest_named { part(rest) } else { format!("{word}: {rest}") }
        }
        Some((name, rest)) if name.contains('_') || name == "price" || name == "ledger" => {
            format!("{}: {rest}", policy_word(name))
        }
        _ => said.to_owned(),
    }
}

/// Why the operator is asked, without the name of the policy's field that stands behind it: `(hot_lane)`.
pub fn reason(why: &str) -> &str {
    let bare = why.strip_suffix(')').and_then(|why| why.rsplit_once(" ("));
    let field = |name: &str| name.contains('_') && name.bytes().all(|one| one.is_ascii_lowercase() || one == b'_');
    bare.filter(|(_, name)| field(name)).map_or(why, |(bare, _)| bare)
}

/// What a check found, for the eye: without the check's own name before it, and with figures one can read.
pub fn found(check: Check, detail: &str) -> String {
    let word = check_word(check);
    let bare = detail.strip_prefix(word).map_or(detail, |rest| rest.trim_start_matches([':', ' ']));
    let figures = readable(&plain_words(bare), 4);
    let told = match check {
        Check::Simulation => figures.split(' ').scan("", grouped_word).collect::<Vec<_>>().join(" "),
        _ => figures,
    };
    told.replace("block ", "block #").replace("##", "#")
}

/// A word of a simulation's sentence: a block's number and units of gas have their thousands apart.
fn grouped_word(_: &mut &str, word: &str) -> Option<String> {
    let (figure, after) = word.split_at(word.bytes().take_while(u8::is_ascii_digit).count());
    Some(if figure.len() > 3 && matches!(after, "" | ",") {
        format!("{}{after}", grouped(figure))
    } else {
        word.to_owned()
    })
}

/// What a check came to in a word or two, where its figure says more than its name: `50 bps`, `$853.14`.
pub fn figure_of(check: Check, detail: &str) -> Option<String> {
    match check {
        // `$853.14 now, $1,966.02 of $5,000.00 in 24 hours after it`
        Check::SpendingLimit => {
            let (now, rest) = detail.split_once(" now, ")?;
            let (after, _) = rest.split_once(" in 24 hours")?;
            let dollars = |figure: &str| format!("${}", grouped_cents(figure));
            let day = match after.split_once(" of ") {
                Some((used, most)) => format!("{}/{}", dollars(used), dollars(most)),
                None => dollars(after),
            };
            Some(format!("one {}, day {day} after", dollars(now)))
        }
        // `3 of 120 trades in 60 minutes`
        Check::RateLimit => {
            let (made, rest) = detail.split_once(" of ")?;
            let (most, _) = rest.split_once(" trades")?;
            Some(format!("{made}/{most} an hour"))
        }
        // `slippage 50 bps, impact 2 bps`
        Check::SlippageGuard => {
            let figure = detail.strip_prefix("slippage ")?;
            Some(figure.split([',', ';']).next()?.trim().to_owned())
        }
        Check::Halt
        | Check::PhaseGate
        | Check::TokenAllowlist
        | Check::BalanceBreaker
        | Check::PolicyCage
        | Check::Simulation
        | Check::ChainHealth => None,
    }
}

/// Dollars with their thousands apart and no more than cents, from a figure with or without its sign.
fn grouped_cents(figure: &str) -> String {
    let bare = figure.trim_start_matches('$').replace(',', "");
    match bare.split_once('.') {
        Some((whole, cents)) => {
            let cents = cents.get(..2).unwrap_or(cents);
            if cents.bytes().all(|digit| digit == b'0') {
                grouped(whole)
            } else {
                format!("{}.{cents}", grouped(whole))
            }
        }
        None => grouped(&bare),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_code_become_words() {
        for (said, told) in [
            ("max_single_trade_usd: $6,785.11 is above $2,500.00", "One trade: $6,785.11 is above $2,500.00"),
            (
                "spending_limit: max_daily_spend_usd: $1 too much; rate_limit: later",
                "Day cap: $1 too much; rate: later",
            ),
            ("phase_gate: only exits", "phase: only exits"),
            ("nobody answered in time; nothing was signed", "nobody answered in time; nothing was signed"),
            ("the pool says: no", "the pool says: no"),
            ("max_weird_thing: 3", "Max weird thing: 3"),
        ] {
            assert_eq!(plain_words(said), told);
        }
    }

    #[test]
    fn a_reason_goes_without_its_fields_name() {
        assert_eq!(reason("$2 is above $1 (require_human_approval_above_usd)"), "$2 is above $1");
        assert_eq!(reason("it pays somebody (0x12) for the first time"), "it pays somebody (0x12) for the first time");
        assert_eq!(reason("above your limit (again)"), "above your limit (again)");
    }

    #[test]
    fn what_a_check_found_is_told_once_and_with_figures() {
        let simulated = "block 1285, 128412 gas, 2 balances move as declared and nothing else";
        assert_eq!(
            found(Check::Simulation, simulated),
            "block #1,285, 128,412 gas, 2 balances move as declared and nothing else"
        );
        assert_eq!(found(Check::SlippageGuard, "slippage 50 bps, impact 2 bps"), "50 bps, impact 2 bps");
        assert_eq!(found(Check::SpendingLimit, "$853.143900 now"), "$853.14 now");
    }

    #[test]
    fn limits_rate_and_slippage_have_their_figures() {
        let limits = "$853.143 now, $1,966.02 of $5,000.00 in 24 hours after it";
        assert_eq!(figure_of(Check::SpendingLimit, limits), Some("one $853.14, day $1,966.02/$5,000 after".to_owned()));
        let rate = figure_of(Check::RateLimit, "3 of 120 trades in 60 minutes");
        assert_eq!(rate, Some("3/120 an hour".to_owned()));
        assert_eq!(figure_of(Check::SlippageGuard, "slippage 50 bps, impact 2 bps"), Some("50 bps".to_owned()));
        assert_eq!(figure_of(Check::SlippageGuard, "nothing is traded"), None);
        assert_eq!(figure_of(Check::Halt, "no stop is in force"), None);
    }
}
