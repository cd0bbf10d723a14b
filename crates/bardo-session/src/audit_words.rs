//! Audit log entries as text, for the console and for `bardo log`. The body is untrusted, because it was read back from
//! a file.

use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::audit::AuditKind;
use crate::recovery::{RecoveryState, RecoveryStep};
use bardo_base::display::{readable, reasons, violation_words};
use bardo_base::error::Violation;
use bardo_base::fabric::AskReason;
use bardo_base::format::{dollars as cents, short_hash};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// Maximum length of a line, in characters.
const LONGEST: usize = 400;
/// Digits after the decimal point.
const PLACES: usize = 4;

/// Description of an entry of this stored kind. An unknown kind is described by its fields, so that nothing is hidden.
pub fn sentence_of(kind: &str, body: &Value) -> SafeText {
    let none = Map::new();
    let body = body.as_object().unwrap_or(&none);
    let sentence = match AuditKind::of(kind) {
        Some(kind) if body.get("paper").map(plain).as_deref() == Some("true") => {
            format!("PAPER: {}", sentence(kind, body))
        }
        Some(kind) => sentence(kind, body),
        None => fields(body),
    };
    SafeText::clean(&readable(&sentence, PLACES), LONGEST)
}

/// Sentence about an entry of this kind, from its fields.
fn sentence(kind: AuditKind, body: &Map<String, Value>) -> String {
    let text = |field: &str| body.get(field).map(plain).unwrap_or_default();
    let value_of = |field: &str| {
        let value = text(field);
        if value.is_empty() { String::new() } else { format!(": {value}") }
    };
    match kind {
        AuditKind::PermitIssued => simulated(body, &text),
        AuditKind::PermitConsumed => signing_started(&text),
        AuditKind::PermitRehearsed => format!("dry run, nothing was signed: {}", text("expected_outcome")),
        AuditKind::PermitRefused => format!("the offer was refused: {}", why_refused(body)),
        AuditKind::ActionRefused => format!("✕ {} refused: {}", text("wanted"), why_refused(body)),
        AuditKind::ActionOvertaken => "overtaken by another action; prepared again".to_owned(),
        AuditKind::ActionReserved => {
            format!("{} counted against the limits for {}", dollars(&text("spend")), text("expected_outcome"))
        }
        AuditKind::ActionSettled => settled(&text("state"), &text("spent")),
        AuditKind::ActionVerified if text("matched") == "true" => "chain agrees ✓".to_owned(),
        // Nothing disagrees: the action ended before its own transaction.
        AuditKind::ActionVerified if text("unfilled") == "true" => "not completed; the chain agrees".to_owned(),
        AuditKind::ActionVerified => format!("chain disagrees ✕{}", value_of("mismatches")),
        AuditKind::ApprovalRequested if text("passes_by_itself") == "true" => {
            format!("you were asked; it goes ahead unless you reject it: {}", text("asked"))
        }
        AuditKind::ApprovalRequested => format!("you were asked{}: {}", why_asked(body), text("asked")),
        AuditKind::ApprovalResolved => {
            let answer = answered(&text("outcome"), &text("amount"));
            let asked = body.get("asked").map(|_| format!(" \"{}\"", text("asked"))).unwrap_or_default();
            format!("{answer}{asked}{}", value_of("reason"))
        }
        AuditKind::ApprovalSeconded => format!("second approval by {}: {}", text("by"), text("asked")),
        AuditKind::TxRebroadcast => format!("{} sent again: {}", short(&text("hash")), text("state")),
        AuditKind::TxSigned => {
            let by = text("by").replace('_', " ");
            format!("signed {}, {} of {}, by {by}", short(&text("hash")), text("leg"), text("of"))
        }
        AuditKind::TxOutbid => {
            format!("replaced {} by {}, with a higher fee", short(&text("replaces")), short(&text("hash")))
        }
        AuditKind::OrderSigned => {
            format!("order signed by {}: {}", text("by").replace('_', " "), text("expected_outcome"))
        }
        AuditKind::OrderEnded => order_ended(&text),
        AuditKind::SafeSigned => safe_signed(&text),
        AuditKind::SafeEnded => {
            format!("Safe proposal {}: {}", short(&text("proposal")), text("state").replace('_', " "))
        }
        AuditKind::HaltRaised => format!("{} raised the stop to {}{}", text("by"), text("level"), value_of("reason")),
        AuditKind::HaltLowered => match text("level").as_str() {
            "" | "none" => format!("{} lifted the stop", text("by")),
            level => format!("{} lowered the stop to {level}", text("by")),
        },
        AuditKind::KeysGranted => {
            format!("session key {} was granted by its owner {}", text("session_key"), text("owner"))
        }
        AuditKind::KeysRevoked => {
            let keys = match text("session_key") {
                none if none.is_empty() => "the Golem's session keys were".to_owned(),
                key => format!("session key {key} was"),
            };
            format!("{keys} revoked by {}{}", text("by"), value_of("reason"))
        }
        AuditKind::WalletCreation => wallet_creation(&text),
        AuditKind::PolicyAdopted => format!("policy {} in force", text("name")),
        AuditKind::PolicyTightened | AuditKind::PolicyAccepted => {
            format!("policy {} changed{}", text("name"), value_of("changes"))
        }
        AuditKind::PolicyRefused => format!("a looser policy was refused by {}", text("by")),
        AuditKind::BreakerReset => format!("failure breaker closed by {}", text("by")),
        AuditKind::RecoveryStep => recovered(&text),
        AuditKind::ApprovalAnswered => {
            format!("another console answered: {}, by {}", text("answer").replace('_', " "), text("by"))
        }
        AuditKind::ApprovalForged => {
            format!("a row of the shared queue failed authentication: {}", text("why").replace('_', " "))
        }
        AuditKind::ActionHeldAgain => {
            format!("reserved again as {}, in place of {}", text("reservation"), text("before"))
        }
        AuditKind::TxLate => {
            format!("{} is in a block after all; its spending is reserved again", short(&text("hash")))
        }
        AuditKind::HighWaterReset => format!("high-water marks of {} reset by {}", text("account"), text("by")),
        AuditKind::LiquidationPlanned => format!("sale of holdings planned, by {}: {}", text("by"), text("holdings")),
        AuditKind::LiquidationEnded => format!("sale of {} ended{}", text("holding"), value_of("told")),
        AuditKind::AccountReconciled => {
            let (account, next, before) = (text("account"), text("chain_next"), text("ledger_next"));
            format!("{account} continues at the chain's nonce {next} instead of {before}, by {}", text("by"))
        }
        AuditKind::LendingLiquidated => liquidated(&text),
        AuditKind::AgentDecided => match text("intent_type").as_str() {
            "" => format!("the agent's own words: “{}”", text("words")),
            kind => format!("the agent's own words about {kind}: “{}”", text("words")),
        },
        AuditKind::GolemDied => died(body),
        AuditKind::PasswordRefused => {
            format!("password refused for {}, by {}: {}", text("authorises").replace('_', " "), text("by"), text("why"))
        }
    }
}

/// Description of an action that was simulated, with the consent that it needs.
fn simulated(body: &Map<String, Value>, text: &dyn Fn(&str) -> String) -> String {
    let outcome = text("expected_outcome");
    match text("needs").as_str() {
        "approval" => format!("simulated, needs your approval{}: {outcome}", why_asked(body)),
        "delay" => format!("simulated, goes ahead unless you reject it: {outcome}"),
        "notify" => format!("simulated, you are notified afterwards: {outcome}"),
        _ => format!("simulated {outcome}"),
    }
}

/// Description of an action whose signing started, from the texts of its entry's fields.
fn signing_started(text: &dyn Fn(&str) -> String) -> String {
    let consent = match text("consent").as_str() {
        "none" => "within the limits".to_owned(),
        "always" => "by --approve always".to_owned(),
        other => format!("approval: {}", other.replace('_', " ")),
    };
    format!("signing started, {consent}; nonce {}", text("nonce"))
}

/// Description of a liquidation of the account's debt, from the texts of its entry's fields.
fn liquidated(text: &dyn Fn(&str) -> String) -> String {
    let taken = format!("{} {} taken", text("taken"), text("collateral"));
    let debt = format!("{} {} of debt", text("covered"), text("debt"));
    format!("✕ liquidated on chain {}: {taken} for {debt}, in {}", text("chain_id"), short(&text("tx_hash")))
}

/// Description of a wallet that is being created, or was.
fn wallet_creation(text: &impl Fn(&str) -> String) -> String {
    let (wallet, provider) = (text("wallet"), text("provider"));
    match text("address").as_str() {
        "" => format!("creation of the wallet {wallet} began: {provider}"),
        address => format!("the wallet {wallet} was created: {address}, {provider}"),
    }
}

/// Sentence about a signature for the other owners of a Safe.
fn safe_signed(text: &dyn Fn(&str) -> String) -> String {
    format!("Safe proposal {} signed by {}: {}", short(&text("proposal")), text("by"), text("expected_outcome"))
}

/// Description of an order that ended, from the texts of its entry's fields.
fn order_ended(text: &dyn Fn(&str) -> String) -> String {
    let agrees = if text("matched") == "false" { "; not as declared ✕" } else { "" };
    // Entries of orders that were placed elsewhere have no expected outcome.
    let what = match text("expected_outcome") {
        none if none.is_empty() => short_words(&text("actual_outcome")),
        expected => expected,
    };
    let amount = text("amount_out");
    let received = if amount.is_empty() { String::new() } else { format!("; received {amount}") };
    format!("order {}: {what}{received}{agrees}", text("status").replace('_', " "))
}

/// Description of a step of recovery, from the texts of its entry's fields.
fn recovered(text: &dyn Fn(&str) -> String) -> String {
    let (found, step, nonce) = (text("found"), text("step"), text("nonce"));
    let found = RecoveryState::named(&found).map_or(found.as_str(), |found| found.describe());
    let step = RecoveryStep::named(&step).map_or(step.as_str(), |step| step.describe());
    let which = if nonce.is_empty() { String::new() } else { format!(" ({nonce})") };
    format!("recovery found {found}{which}: {step}")
}

/// Description of a settled reservation. The amount is the part of the limits that it used, not what left the wallet.
fn settled(state: &str, counted: &str) -> String {
    let state = if state == "partly" { "not completed".to_owned() } else { state.replace('_', " ") };
    if counted.is_empty() {
        format!("{state}, nothing counted")
    } else {
        format!("{state}, {} counted", dollars(counted))
    }
}

/// Dollars to the nearest cent; another text is unchanged.
fn dollars(figure: &str) -> String {
    figure.parse::<Usd>().map_or_else(|_| figure.to_owned(), cents)
}

/// Rules that refused an action, by their display names; the stored sentence where no rule is named.
fn why_refused(body: &Map<String, Value>) -> String {
    let all = body.get("violations").and_then(Value::as_array).into_iter().flatten();
    let rules: Vec<String> =
        all.filter_map(|one| Violation::deserialize(one).ok()).map(|one| violation_words(&one)).collect();
    if rules.is_empty() { body.get("why").map(plain).unwrap_or_default() } else { rules.join("; ") }
}

/// Reasons for asking the operator, in brackets; empty if none can be read.
fn why_asked(body: &Map<String, Value>) -> String {
    let all = body.get("reasons").and_then(Value::as_array).into_iter().flatten();
    let all: Vec<AskReason> = all.filter_map(|one| AskReason::deserialize(one).ok()).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", reasons(&all).join("; ")) }
}

/// Description of how an approval request ended, by its name in the log.
fn answered(outcome: &str, amount: &str) -> String {
    match outcome {
        "approved" => "you approved".to_owned(),
        "approved_similar" => "you approved, with similar actions for a while".to_owned(),
        "edited" => format!("you asked for a smaller amount, {amount}"),
        "refused" => "you rejected".to_owned(),
        "refused_and_halted" => "you rejected, and stopped everything".to_owned(),
        "lapsed" => "nobody answered".to_owned(),
        other => other.replace('_', " "),
    }
}

/// Description of what remained when the Golem died.
fn died(body: &Map<String, Value>) -> String {
    let count = |field: &str| body.get(field).and_then(Value::as_u64);
    let mut sentence = "the Golem has died".to_owned();
    if body.get("keys").and_then(Value::as_str) == Some("revoked") {
        sentence.push_str("; its keys were revoked");
    }
    for (field, words) in [
        ("allowances_taken_back", "allowances revoked"),
        ("allowances_left", "allowances left"),
        ("tokens_silent", "tokens with unreadable allowances"),
        ("orders_left_open", "orders left open"),
        ("bridges_locked", "bridges locked"),
    ] {
        if let Some(many) = count(field).filter(|many| *many > 0) {
            sentence.push_str(&format!("; {many} {words}"));
        }
    }
    sentence
}

/// Shortened hash; any other text is unchanged.
fn short(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), short_hash)
}

/// Sentence with its hashes shortened, whatever punctuation follows them.
fn short_words(sentence: &str) -> String {
    let short = sentence.split(' ').map(|word| {
        let hash = word.trim_end_matches([',', '.', ':', ';']);
        format!("{}{}", short(hash), word.get(hash.len()..).unwrap_or(""))
    });
    short.collect::<Vec<_>>().join(" ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join("; "),
        Value::Object(fields) => self::fields(fields),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn fields(body: &Map<String, Value>) -> String {
    let sentence = body.iter().filter(|(_, value)| !value.is_null());
    sentence.map(|(name, value)| format!("{} {}", name.replace('_', " "), plain(value))).collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use alloy_primitives::B256;
    use serde_json::json;

    use super::*;

    fn told(kind: &str, body: Value) -> String {
        sentence_of(kind, &body).to_string()
    }

    #[test]
    fn an_entry_is_shown_in_words() {
        let issued = json!({ "expected_outcome": "Swap 0.36 WETH for >= 153.573063227136 UNI", "needs": "approval" });
        assert_eq!(
            told("permit:issued", issued),
            "simulated, needs your approval: Swap 0.36 WETH for at least 153.5730… UNI"
        );
        assert_eq!(told("action:settled", json!({ "state": "done", "spent": "848.499006" })), "done, $848.50 counted");
        assert_eq!(told("action:settled", json!({ "state": "not_sent", "spent": null })), "not sent, nothing counted");
        assert_eq!(
            told("action:settled", json!({ "state": "partly", "spent": "0.16" })),
            "not completed, $0.16 counted"
        );
        let stopped = json!({ "matched": false, "unfilled": true, "mismatches": [] });
        assert_eq!(told("action:verified", stopped), "not completed; the chain agrees");
        assert_eq!(told("action:verified", json!({ "matched": true, "moves": ["0x1b 4500000000"] })), "chain agrees ✓");
        let held = json!({ "spend": "1234.713456", "expected_outcome": "Swap" });
        assert_eq!(told("action:reserved", held), "$1,234.71 counted against the limits for Swap");
        let violation = json!({ "rule": "max_daily_spend_usd", "limit": "", "value": "raw", "would_pass": "",
            "figures": { "unit": "usd", "limit": "5000", "value": "5646.986814", "left": "485.189516",
                         "frees_in_seconds": 86_400 } });
        let refused = json!({ "wanted": "Swap 1 WETH", "why": "spending_limit: raw", "violations": [violation] });
        assert_eq!(
            told("action:refused", refused),
            "✕ Swap 1 WETH refused: Day cap: $5,646.99 is above $5,000.00; $485.18 left, more in 1 day"
        );
        let above = json!({ "kind": "above_limit", "value": "1234.56", "limit": "1000", "words": "raw",
            "field": "require_human_approval_above_usd" });
        let asked = json!({ "asked": "Swap 1 WETH", "reasons": [above] });
        assert_eq!(told("approval:requested", asked), "you were asked (above your $1,000 approval limit): Swap 1 WETH");
        let wrong = json!({ "matched": false, "mismatches": ["WETH fell by 2"] });
        assert_eq!(told("action:verified", wrong), "chain disagrees ✕: WETH fell by 2");
        let order =
            json!({ "by": "development_key", "expected_outcome": "Sell 1 WETH", "order": "0x01", "chain_id": 1 });
        assert_eq!(told("order:signed", order), "order signed by development key: Sell 1 WETH");
        let hash = format!("0x7b9b{}5942", "ab".repeat(28));
        let ended = |matched| json!({ "status": "filled", "matched": matched, "actual_outcome": format!("Intent {hash}: done") });
        assert_eq!(told("order:ended", ended(true)), "order filled: Intent 0x7b9b…5942: done");
        assert_eq!(told("order:ended", ended(false)), "order filled: Intent 0x7b9b…5942: done; not as declared ✕");
        let filled = json!({ "status": "filled", "matched": true, "amount_out": "237.958307",
            "expected_outcome": "Auction 0.07 WETH for >= 237.6266 USDC",
            "actual_outcome": format!("Order {hash} status: filled") });
        let words = "order filled: Auction 0.07 WETH for at least 237.6266 USDC; received 237.9583…";
        assert_eq!(told("order:ended", filled), words);
        let outbid = json!({ "hash": hash, "replaces": B256::repeat_byte(0x11), "nonce": 4 });
        assert_eq!(told("tx:outbid", outbid), "replaced 0x1111…1111 by 0x7b9b…5942, with a higher fee");
        let refused = json!({ "outcome": "refused", "reason": "wait for gas" });
        assert_eq!(told("approval:resolved", refused), "you rejected: wait for gas");
        let flatten =
            json!({ "outcome": "refused", "reason": "not today", "asked": "Cancel open orders and sell holdings" });
        let words = "you rejected \"Cancel open orders and sell holdings\": not today";
        assert_eq!(told("approval:resolved", flatten), words);
        let on_paper = json!({ "outcome": "approved", "paper": true });
        assert_eq!(told("approval:resolved", on_paper), "PAPER: you approved");
    }

    #[test]
    fn a_recovery_step_is_shown_in_words() {
        let step = |found: &str, step: &str| told("recovery:step", json!({ "found": found, "step": step }));
        for found in RecoveryState::ALL {
            for next in RecoveryStep::ALL {
                let sentence = step(found.as_str(), next.as_str());
                assert_eq!(sentence, format!("recovery found {}: {}", found.describe(), next.describe()));
            }
        }
        let nonce = json!({ "found": "loose_nonce", "step": "give_back", "nonce": 7, "chain_id": 1 });
        let words =
            "recovery found a reserved nonce that is no longer needed (7): the nonce goes to the next transaction";
        assert_eq!(told("recovery:step", nonce), words);
        // A kind of another version is described by its fields.
        assert_eq!(step("later", "else"), "recovery found later: else");
    }

    #[test]
    fn each_written_kind_has_its_own_words() {
        // No real body has a field of this name. Where it appears, the fields were listed instead of described.
        let body = json!({ "a_field_of_none": 3, "by": "operator", "hash": B256::repeat_byte(1), "outcome": "lapsed" });
        for kind in AuditKind::ALL {
            let sentence = told(kind.as_str(), body.clone());
            assert!(!sentence.is_empty() && !sentence.contains("a field of none"), "{kind}: {sentence}");
        }
        let died = json!({ "keys": "revoked", "allowances_left": 2, "orders_left_open": 0, "on_death": "hold" });
        assert_eq!(told("golem:died", died), "the Golem has died; its keys were revoked; 2 allowances left");
        let (account, by) = ("0xf39F…2266", "operator");
        let taken = json!({ "account": account, "ledger_next": 4, "chain_next": 6, "by": by });
        let words = "0xf39F…2266 continues at the chain's nonce 6 instead of 4, by operator";
        assert_eq!(told("account:reconciled", taken), words);
        let late = json!({ "hash": B256::repeat_byte(0x11) });
        assert_eq!(told("tx:late", late), "0x1111…1111 is in a block after all; its spending is reserved again");
    }

    #[test]
    fn an_unknown_kind_is_shown_by_its_fields() {
        assert_eq!(told("later:kind", json!({ "some_field": 3, "nothing": null })), "some field 3");
        assert_eq!(told("later:kind", json!("no object")), "");
    }

    #[test]
    fn text_that_was_written_into_the_file_stays_text() {
        let sentence = told("approval:requested", json!({ "asked": "Swap\u{202e}\u{7} 1 \u{200b}WETH" }));
        assert!(!sentence.contains(['\u{202e}', '\u{7}', '\u{200b}']), "{sentence:?}");
    }
}
