//! The screen's words for names of documents, code and JSON: checks, fields of the policy, and sentences that begin
//! with one of them.

use super::figure::readable;
use super::plain::tool_word;
use crate::format::grouped;
use crate::theme::Role;
use bardo_base::fabric::{ApprovalOutcome, TxState};
use bardo_base::model::Check;
use bardo_base::text::width;

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
        Check::ChainHealth => "endpoints",
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
        "max_unfed_usd" => "One holding without a price feed".to_owned(),
        "max_allowance_usd" => "One allowance".to_owned(),
        "require_human_approval_above_usd" => "Asks you above".to_owned(),
        "spending_limits.hot_lane" | "hot_lane" => "Without second opinion".to_owned(),
        "max_quote_age_seconds" => "Age of a quote, in seconds".to_owned(),
        "max_gas_usd" => "Gas of one action".to_owned(),
        "max_slippage_bps" => "Slippage".to_owned(),
        "max_price_impact_bps" => "Price impact".to_owned(),
        "max_loss_bps" => "Loss against the market".to_owned(),
        "quote_above_witnesses" => "Quote above the market".to_owned(),
        "max_trades_per_hour" => "Trades an hour".to_owned(),
        "max_revocations_per_hour" => "Revocations an hour".to_owned(),
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
    offered(&sentence.split("; ").map(part).collect::<Vec<_>>().join("; "))
}

/// An action's permit is called a simulated offer: the word alone is too close to Permit2, which is something else.
fn offered(sentence: &str) -> String {
    let told = |word: &str| {
        let bare = word.trim_end_matches(|end: char| !end.is_alphanumeric());
        let end = word.strip_prefix(bare).unwrap_or("");
        Some(match bare {
            "permit" => format!("simulated offer{end}"),
            "permit's" => format!("simulated offer's{end}"),
            "permits" => format!("simulated offers{end}"),
            _ => return None,
        })
    };
    sentence.split(' ').map(|word| told(word).unwrap_or_else(|| word.to_owned())).collect::<Vec<_>>().join(" ")
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

/// The limit of the policy that a reason names, and its field: `$2 is above $1 (spending_limits.hot_lane)`.
fn limit_of(why: &str) -> Option<(String, &str)> {
    let (bare, field) = why.strip_suffix(')')?.rsplit_once(" (")?;
    let (_, limit) = bare.split_once(" is above $")?;
    let plain = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || matches!(one, b'_' | b'.' | b'-');
    (field.contains('_') && field.bytes().all(plain)).then(|| (format!("${}", grouped_cents(limit)), field))
}

/// The tool that has a limit of its own, as people call it.
fn tool_of(field: &str) -> Option<String> {
    Some(tool_word(field.strip_prefix("tools.")?.strip_suffix(".requires_approval_above_usd")?))
}

/// Why the operator is asked, and which limit of the policy stands behind it, in the screen's words.
pub fn reason(why: &str) -> String {
    let Some((limit, field)) = limit_of(why) else {
        return match why {
            "it is above the hot lane" => "it is above your limit without second opinion".to_owned(),
            other => other.to_owned(),
        };
    };
    match (field, tool_of(field)) {
        ("require_human_approval_above_usd", _) => format!("above your {limit} limit for acting unasked"),
        ("spending_limits.hot_lane" | "hot_lane", _) => format!("above your {limit} limit without second opinion"),
        (_, Some(tool)) => format!("above your {limit} limit for {tool} unasked"),
        (other, None) => format!("above your {limit} limit ({})", policy_word(other)),
    }
}

/// The same in so many columns: where there is no room for all of it, in fewer words.
pub fn reason_in(why: &str, columns: usize) -> String {
    let whole = reason(why);
    let Some((limit, field)) = limit_of(why).filter(|_| width(&whole) > columns) else { return whole };
    match (field, tool_of(field)) {
        ("require_human_approval_above_usd", _) => format!("above your {limit} limit"),
        ("spending_limits.hot_lane" | "hot_lane", _) => format!("above {limit}: 2nd opinion"),
        (_, Some(tool)) => format!("above {limit} for {tool}"),
        (_, None) => whole,
    }
}

/// What must be read before a yes; what a check says of itself stands without its name in the code.
pub fn warning(text: &str) -> String {
    match text.split_once(": ").and_then(|(name, rest)| Some((name.parse::<Check>().ok()?, rest))) {
        Some((check, rest)) => format!("{}: {}", check_word(check), found(check, rest)),
        None => text.to_owned(),
    }
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
pub fn grouped_cents(figure: &str) -> String {
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
            (
                "the permit's time was over; ask for a new permit.",
                "the simulated offer's time was over; ask for a new simulated offer.",
            ),
            ("Permit2 may take it", "Permit2 may take it"),
            ("max_weird_thing: 3", "Max weird thing: 3"),
        ] {
            assert_eq!(plain_words(said), told);
        }
    }

    #[test]
    fn a_reason_says_which_limit_it_is_about_in_plain_words() {
        for (field, told, brief) in [
            ("require_human_approval_above_usd", "for acting unasked", "above your $1,000 limit"),
            ("spending_limits.hot_lane", "without second opinion", "above $1,000: 2nd opinion"),
            ("tools.token_approve.requires_approval_above_usd", "for Approve unasked", "above $1,000 for Approve"),
        ] {
            let why = format!("$2,047.53 is above $1,000.00 ({field})");
            assert_eq!(reason(&why), format!("above your $1,000 limit {told}"));
            assert_eq!(reason_in(&why, 60), reason(&why));
            assert_eq!(reason_in(&why, 27), brief);
            assert!(brief.len() <= 27, "{brief}");
        }
        assert_eq!(
            reason("$2 is above $1.50 (max_weird_thing)"),
            "above your $1.50 limit (Max weird thing)",
            "a limit nobody thought of is named all the same"
        );
        assert_eq!(reason("it is above the hot lane"), "it is above your limit without second opinion");
        assert_eq!(reason("it pays somebody (0x12) for the first time"), "it pays somebody (0x12) for the first time");
        assert_eq!(reason("above your limit (again)"), "above your limit (again)");
    }

    #[test]
    fn what_must_be_read_is_told_in_the_screens_words() {
        assert_eq!(warning("slippage_guard: slippage 50 bps, impact 12 bps"), "slippage: 50 bps, impact 12 bps");
        let first = "first payment from here to 0xabAbABAbABabababABabaBABABAbaBabAbAbABab";
        assert_eq!(warning(first), first);
        assert_eq!(warning("public mempool: no filler"), "public mempool: no filler");
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
