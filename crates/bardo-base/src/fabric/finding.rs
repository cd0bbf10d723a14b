//! Findings of the safety checks, as values with their figures. Sentences are made from them where they are shown.

use std::fmt;

use alloy_primitives::Address;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::event::CheckOutcome;
use crate::display::exceeded;
use crate::error::Violation;
use crate::format::{dollars, dollars_used, utc};
use crate::model::{ActionClass, Check, Phase, Rule, StopLevel};
use crate::text::SafeText;
use crate::units::{BasisPoints, Usd};

/// Maximum length of a finding's sentence, in characters.
const MAX_SENTENCE: usize = 400;

/// Seconds of a day, the window of spending limits.
const DAY: u64 = 86_400;
/// Seconds of an hour, the window of trade counts.
const HOUR: u64 = 3_600;

/// Finding of a safety check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    /// No stop is in force.
    NoStop,
    /// A stop is in force, and it permits the action.
    PassesStop {
        /// Stop level in force.
        level: StopLevel,
    },
    /// A stop is in force, and it blocks the action.
    Stopped {
        /// Stop level in force.
        level: StopLevel,
        /// Rule that the action violates.
        violations: Vec<Violation>,
    },
    /// A stop is in force, under which agents sign no orders.
    NoOrders {
        /// Stop level in force.
        level: StopLevel,
        /// Rule that the action violates.
        violations: Vec<Violation>,
    },
    /// The phase permits the action.
    PhaseAllows {
        /// Phase of the Golem.
        phase: Phase,
        /// Class of the action.
        class: ActionClass,
    },
    /// The action only revokes, cancels or refunds, which every phase permits.
    PhaseTakesBack {
        /// Phase of the Golem.
        phase: Phase,
    },
    /// The phase does not permit the action.
    PhaseForbids {
        /// Phase of the Golem.
        phase: Phase,
        /// Class of the action.
        class: ActionClass,
        /// Rules that the action violates.
        violations: Vec<Violation>,
    },
    /// Every token and address in the action is on its allowlist.
    Listed,
    /// Dollars that the action spends.
    Spending {
        /// Dollars of this action.
        now: Usd,
        /// Dollars of the window, including this action.
        after: Usd,
        /// Limit of the window; `None` without a limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<Usd>,
        /// Length of the window, in seconds.
        window_seconds: u64,
    },
    /// Number of trades.
    Rate {
        /// Trades in the window, without this action.
        made: u32,
        /// Limit of the window.
        limit: u32,
        /// Length of the window, in seconds.
        window_seconds: u64,
    },
    /// The circuit breaker lets exits and revocations pass.
    BreakerExempt,
    /// Value of the portfolio.
    Equity {
        /// Present value in dollars.
        now: Usd,
        /// High-water mark in dollars.
        highest: Usd,
    },
    /// Slippage and price impact of a trade.
    Slippage {
        /// Slippage tolerance of the trade.
        slippage: BasisPoints,
        /// Price impact according to its quote.
        impact: BasisPoints,
    },
    /// The minimum output is worth the input, less the permitted loss.
    ArrivalFair,
    /// The action does not trade.
    NothingTraded,
    /// The owner changes the rules of the policy contract.
    OwnRules,
    /// The account has no rules in a policy contract.
    NoCage,
    /// The action complies with the rules of the policy contract.
    InsideCage {
        /// Address of the policy contract.
        contract: Address,
    },
    /// The action only revokes, which the policy contract does not permit a delegate. The account signs with its own
    /// key, which the contract's rules do not bind.
    TakesBackBesideCage {
        /// Address of the policy contract.
        contract: Address,
    },
    /// This machine's clock and the chain's time differ by more than the tolerance.
    ClocksDiffer {
        /// Time of this machine, in seconds since the Unix epoch.
        machine: u64,
        /// Time of the chain's latest block, in seconds since the Unix epoch.
        chain: u64,
        /// Largest permitted difference, in seconds.
        tolerance_seconds: u64,
        /// Violated rule; empty for an exit or a revocation, whose deadlines follow the chain's time.
        violations: Vec<Violation>,
    },
    /// The simulation did what was declared, and nothing else.
    Simulated {
        /// Block on which the simulation ran.
        block: u64,
        /// Gas used by the simulated transactions.
        gas: u64,
        /// Number of balances of the account that change.
        balances: usize,
    },
    /// The simulation of a supply, withdrawal, borrowing or repayment did what was declared, and nothing else.
    SimulatedDebt {
        /// Block on which the simulation ran.
        block: u64,
        /// Gas used by the simulated transactions.
        gas: u64,
        /// Health factor before, in hundredths, rounded down; `None` without debt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<u64>,
        /// Health factor after, in hundredths, rounded down; `None` without debt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
        /// Changes of single prices that make the debt liquidable afterwards.
        falls: Vec<LiquidationMove>,
    },
    /// The action violates rules.
    Broken {
        /// Each violated rule with its figures.
        violations: Vec<Violation>,
    },
    /// The action violates rules, for a reason that another party gave: an endpoint, a price source, the guardian.
    BrokenBecause {
        /// Reason in the other party's words, cleaned.
        why: SafeText,
        /// Each violated rule with its figures.
        violations: Vec<Violation>,
    },
    /// A sentence of another party, or of an unknown version.
    Said {
        /// The sentence, cleaned.
        text: SafeText,
    },
}

/// Change of one token's price, all other prices the same, at which a debt can be liquidated: a fall of what secures it, or
/// a rise of what is owed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiquidationMove {
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Change of the price, rounded down.
    pub fall: BasisPoints,
    /// Price in dollars from which on the debt can be liquidated, rounded to the side of the present price.
    pub price: Usd,
    /// True if the price must rise, false if it must fall.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rises: bool,
}

/// As in `liquidated if WETH falls 23.1 % to $2,630.00`.
impl fmt::Display for LiquidationMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { symbol, fall, price, rises } = self;
        let (tenths, verb) = (fall.get() / 10, if *rises { "rises" } else { "falls" });
        write!(f, "liquidated if {symbol} {verb} {}.{} % to {}", tenths / 10, tenths % 10, dollars(*price))
    }
}

/// Health factor in hundredths as text, such as `1.62`; `none` without debt.
pub fn health_factor(hundredths: Option<u64>) -> String {
    hundredths.map_or_else(|| "none (no debt)".to_owned(), |one| format!("{}.{:02}", one / 100, one % 100))
}

impl Finding {
    /// Finding with a sentence of another party, which is cleaned.
    pub fn said(text: impl fmt::Display) -> Self {
        Self::Said { text: SafeText::clean(&text.to_string(), MAX_SENTENCE) }
    }

    /// Finding that the action violates rules, for a reason that another party gave.
    pub fn because(why: impl fmt::Display, violations: Vec<Violation>) -> Self {
        Self::BrokenBecause { why: SafeText::clean(&why.to_string(), MAX_SENTENCE), violations }
    }

    /// Finding of a spending limit, with a window of one day.
    pub fn spending(now: Usd, after: Usd, cap: Option<Usd>) -> Self {
        Self::Spending { now, after, cap, window_seconds: DAY }
    }

    /// Finding of a rate limit, with a window of one hour.
    pub fn rate(made: u32, limit: u32) -> Self {
        Self::Rate { made, limit, window_seconds: HOUR }
    }

    /// Rules that the action violates.
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Stopped { violations, .. }
            | Self::NoOrders { violations, .. }
            | Self::PhaseForbids { violations, .. }
            | Self::ClocksDiffer { violations, .. }
            | Self::Broken { violations }
            | Self::BrokenBecause { violations, .. } => violations,
            Self::NoStop
            | Self::PassesStop { .. }
            | Self::PhaseAllows { .. }
            | Self::PhaseTakesBack { .. }
            | Self::Listed
            | Self::Spending { .. }
            | Self::Rate { .. }
            | Self::BreakerExempt
            | Self::Equity { .. }
            | Self::Slippage { .. }
            | Self::ArrivalFair
            | Self::NothingTraded
            | Self::OwnRules
            | Self::NoCage
            | Self::InsideCage { .. }
            | Self::TakesBackBesideCage { .. }
            | Self::Simulated { .. }
            | Self::SimulatedDebt { .. }
            | Self::Said { .. } => &[],
        }
    }

    /// Sentence of the finding, cleaned and truncated.
    pub fn sentence(&self) -> SafeText {
        SafeText::clean(&self.to_string(), MAX_SENTENCE)
    }

    /// Parses the sentence that recordings before version 3 of the journal carry. An unknown sentence stays a sentence.
    pub fn of_earlier_versions(check: Check, sentence: &SafeText) -> Self {
        parse_earlier_sentence(check, sentence.as_str()).unwrap_or_else(|| Self::Said { text: sentence.clone() })
    }
}

/// English sentence, as in the audit log and in responses.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStop => f.write_str("no stop is in force"),
            Self::PassesStop { level } => write!(f, "allowed although {level} is in force"),
            Self::Stopped { level, .. } => write!(f, "{level} is in force"),
            Self::NoOrders { level, .. } => write!(f, "{level} is in force, and agents sign no orders under a stop"),
            Self::PhaseAllows { phase, class } => write!(f, "{phase} allows {class}"),
            Self::PhaseTakesBack { phase } => {
                write!(f, "{phase}: every phase permits revocations, cancellations and refunds")
            }
            Self::PhaseForbids { phase, class, .. } => write!(f, "{phase} does not allow this {class}"),
            Self::Listed => f.write_str("the policy permits every token and address in it"),
            Self::Spending { now, after, cap, window_seconds } => {
                write!(f, "{} now, {}", dollars_used(*now), dollars_used(*after))?;
                if let Some(cap) = cap {
                    write!(f, " of {}", dollars(*cap))?;
                }
                write!(f, " in {} hours after it", window_seconds / HOUR)
            }
            Self::Rate { made, limit, window_seconds } => {
                write!(f, "{made} of {limit} trades in {} minutes", window_seconds / 60)
            }
            Self::BreakerExempt => f.write_str("exits and revocations are exempt"),
            Self::Equity { now, highest } => {
                write!(f, "{} now, high-water mark {}", dollars(*now), dollars(*highest))
            }
            Self::Slippage { slippage, impact } => write!(f, "slippage {slippage}, impact {impact}"),
            Self::ArrivalFair => f.write_str("the minimum output is worth the input, less the permitted loss"),
            Self::NothingTraded => f.write_str("nothing is traded"),
            Self::OwnRules => f.write_str("the owner changes their own rules"),
            Self::NoCage => f.write_str("the account has set no rules in a policy contract"),
            Self::InsideCage { contract } => write!(f, "inside the rules of {contract}"),
            Self::TakesBackBesideCage { contract } => {
                write!(f, "revocations are exempt: the rules of {contract} bind only delegates")
            }
            Self::ClocksDiffer { machine, chain, tolerance_seconds, violations } => {
                let (direction, by) = (if machine < chain { "behind" } else { "ahead of" }, machine.abs_diff(*chain));
                write!(
                    f,
                    "this machine's clock ({}) is {by} s {direction} the chain's latest block ({}), and {tolerance_seconds} s \
                     are allowed",
                    utc(machine.saturating_mul(1_000)),
                    utc(chain.saturating_mul(1_000)),
                )?;
                if violations.is_empty() { f.write_str(": deadlines follow the chain's time") } else { Ok(()) }
            }
            Self::Simulated { block, gas, balances } => write!(
                f,
                "block {block}, {gas} gas, {balances} balances of the account change as declared, and nothing else changes"
            ),
            Self::SimulatedDebt { block, gas, before, after, falls } => {
                let (before, after) = (health_factor(*before), health_factor(*after));
                write!(f, "block {block}, {gas} gas, as declared; health factor {before} before, {after} after")?;
                falls.iter().try_for_each(|fall| write!(f, "; {fall}"))
            }
            Self::Broken { violations } => {
                for (at, one) in violations.iter().enumerate() {
                    let between = if at == 0 { "" } else { "; " };
                    write!(f, "{between}{}: {}", one.rule, exceeded(one))?;
                }
                Ok(())
            }
            Self::BrokenBecause { why, .. } => write!(f, "{why}"),
            Self::Said { text } => write!(f, "{text}"),
        }
    }
}

/// Decision of a safety check; payload of `safety:check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafetyCheck {
    /// Check that decided.
    pub check: Check,
    /// Decision of the check.
    pub outcome: CheckOutcome,
    /// Finding behind the decision.
    pub finding: Finding,
}

/// Adds the sentence beside the finding, for readers without wording of their own.
impl Serialize for SafetyCheck {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            check: Check,
            outcome: CheckOutcome,
            detail: SafeText,
            finding: &'a Finding,
        }
        let Self { check, outcome, finding } = self;
        Written { check: *check, outcome: *outcome, detail: finding.sentence(), finding }.serialize(serializer)
    }
}

/// Uses the sentence only if the finding is absent or unknown to this version.
impl<'de> Deserialize<'de> for SafetyCheck {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Written {
            check: Check,
            outcome: CheckOutcome,
            #[serde(default)]
            detail: SafeText,
            #[serde(default)]
            finding: Option<Value>,
        }
        let Written { check, outcome, detail, finding } = Written::deserialize(deserializer)?;
        let finding = match finding {
            None => Finding::of_earlier_versions(check, &detail),
            Some(finding) => serde_json::from_value(finding).unwrap_or(Finding::Said { text: detail }),
        };
        Ok(Self { check, outcome, finding })
    }
}

/// Parses the blocked checks from the message of a refusal, in a recording before version 3 of the journal; empty if
/// the message has another form.
pub(super) fn checks_of_earlier_versions(message: &str) -> Vec<SafetyCheck> {
    let mut found: Vec<(Check, Vec<&str>)> = Vec::new();
    for part in message.split("; ") {
        match part.split_once(": ").and_then(|(name, rest)| Some((name.parse::<Check>().ok()?, rest))) {
            Some((check, rest)) => found.push((check, vec![rest])),
            None => match found.last_mut() {
                Some((_, parts)) => parts.push(part),
                None => return Vec::new(),
            },
        }
    }
    let check = |(check, parts): (Check, Vec<&str>)| {
        let sentence = SafeText::clean(&parts.join("; "), MAX_SENTENCE);
        SafetyCheck { check, outcome: CheckOutcome::Blocked, finding: Finding::of_earlier_versions(check, &sentence) }
    };
    found.into_iter().map(check).collect()
}

/// Parses a sentence of an earlier version; `None` if no version wrote it.
fn parse_earlier_sentence(check: Check, sentence: &str) -> Option<Finding> {
    let usd = |figure: &str| figure.strip_prefix('$')?.replace(',', "").parse::<Usd>().ok();
    let bps = |figure: &str| BasisPoints::new(figure.strip_suffix(" bps")?.parse().ok()?).ok();
    let found = match check {
        Check::Halt => match sentence.split_once(" is in force") {
            None if sentence == "no stop is in force" => Finding::NoStop,
            Some(("no stop", "")) => Finding::NoStop,
            Some((level, rest)) => {
                let level = level.parse().ok()?;
                match rest {
                    "" => Finding::Stopped { level, violations: Vec::new() },
                    "; this passes it" => Finding::PassesStop { level },
                    ", and agents sign no orders under a stop" => Finding::NoOrders { level, violations: Vec::new() },
                    _ => return None,
                }
            }
            None => return None,
        },
        Check::PhaseGate => {
            if let Some((phase, class)) = sentence.split_once(" allows ") {
                Finding::PhaseAllows { phase: phase.parse().ok()?, class: class.parse().ok()? }
            } else if let Some((phase, class)) = sentence.split_once(" does not allow this ") {
                let (phase, class) = (phase.parse().ok()?, class.parse().ok()?);
                Finding::PhaseForbids { phase, class, violations: Vec::new() }
            } else {
                let phase = sentence.strip_suffix(": taking back passes in every phase")?;
                Finding::PhaseTakesBack { phase: phase.parse().ok()? }
            }
        }
        Check::TokenAllowlist if sentence == "everything it touches is on its list" => Finding::Listed,
        Check::SpendingLimit if sentence.ends_with(" in 24 hours after it") => {
            let (now, rest) = sentence.split_once(" now, ")?;
            let (after, _) = rest.split_once(" in 24 hours")?;
            let (after, cap) = match after.split_once(" of ") {
                Some((after, cap)) => (after, Some(usd(cap)?)),
                None => (after, None),
            };
            Finding::spending(usd(now)?, usd(after)?, cap)
        }
        Check::RateLimit if sentence.ends_with(" trades in 60 minutes") => {
            let (made, rest) = sentence.split_once(" of ")?;
            let (limit, _) = rest.split_once(' ')?;
            Finding::rate(made.parse().ok()?, limit.parse().ok()?)
        }
        Check::BalanceBreaker if sentence == "exits and revocations pass" => Finding::BreakerExempt,
        Check::BalanceBreaker if sentence.ends_with(" at the highest") => {
            let (now, highest) = sentence.strip_suffix(" at the highest")?.split_once(" of ")?;
            Finding::Equity { now: usd(now)?, highest: usd(highest)? }
        }
        Check::SlippageGuard if sentence == "nothing is traded" => Finding::NothingTraded,
        Check::SlippageGuard if sentence.starts_with("what must arrive is worth") => Finding::ArrivalFair,
        Check::SlippageGuard if sentence.starts_with("slippage ") => {
            let (slippage, impact) = sentence.strip_prefix("slippage ")?.split_once(", impact ")?;
            Finding::Slippage { slippage: bps(slippage)?, impact: bps(impact)? }
        }
        Check::PolicyCage if sentence == "the owner changes the rules themselves" => Finding::OwnRules,
        Check::PolicyCage if sentence == "the account has set no rules in a policy contract" => Finding::NoCage,
        Check::PolicyCage if sentence.starts_with("inside the rules of ") => {
            Finding::InsideCage { contract: sentence.strip_prefix("inside the rules of ")?.parse().ok()? }
        }
        Check::Simulation if sentence.starts_with("block ") => {
            let (block, rest) = sentence.strip_prefix("block ")?.split_once(", ")?;
            let (gas, rest) = rest.split_once(" gas, ")?;
            let (balances, _) = rest.split_once(' ')?;
            Finding::Simulated { block: block.parse().ok()?, gas: gas.parse().ok()?, balances: balances.parse().ok()? }
        }
        Check::TokenAllowlist
        | Check::SpendingLimit
        | Check::RateLimit
        | Check::BalanceBreaker
        | Check::SlippageGuard
        | Check::PolicyCage
        | Check::Simulation
        | Check::ChainHealth => parse_broken(sentence)?,
    };
    Some(found)
}

/// Parses rules with their values: `max_loss_bps: only $154.93 are certain to come in; min_out: …`.
fn parse_broken(sentence: &str) -> Option<Finding> {
    let mut violations: Vec<(Rule, String)> = Vec::new();
    for part in sentence.split("; ") {
        match part.split_once(": ").map(|(name, value)| (Rule::read(name), value)) {
            Some((rule, value)) if !matches!(rule, Rule::Other(_)) => violations.push((rule, value.to_owned())),
            // A value may itself contain a semicolon.
            _ => match violations.last_mut() {
                Some((_, value)) => {
                    value.push_str("; ");
                    value.push_str(part);
                }
                None => return None,
            },
        }
    }
    let violations = violations.into_iter().map(|(rule, value)| Violation::new(rule, "", value, "")).collect();
    Some(Finding::Broken { violations })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RuleName;

    fn usd(figure: &str) -> Usd {
        figure.parse().unwrap()
    }

    /// Sentences of passed checks in recordings of version 2 of the journal. The third field is the sentence of the
    /// current version if it differs.
    const PASSED: [(Check, &str, Option<&str>); 15] = [
        (Check::Halt, "no stop is in force", None),
        (Check::Halt, "flatten is in force; this passes it", Some("allowed although flatten is in force")),
        (Check::PhaseGate, "Thriving allows decrease-position", None),
        (
            Check::PhaseGate,
            "Defensive: taking back passes in every phase",
            Some("Defensive: every phase permits revocations, cancellations and refunds"),
        ),
        (
            Check::TokenAllowlist,
            "everything it touches is on its list",
            Some("the policy permits every token and address in it"),
        ),
        (Check::SpendingLimit, "$1,231.820359 now, $1,231.820359 of $5,000.00 in 24 hours after it", None),
        (Check::RateLimit, "3 of 120 trades in 60 minutes", None),
        (Check::BalanceBreaker, "exits and revocations pass", Some("exits and revocations are exempt")),
        (
            Check::BalanceBreaker,
            "$23,387.065845 of $24,102.717704 at the highest",
            Some("$23,387.065845 now, high-water mark $24,102.717704"),
        ),
        (Check::SlippageGuard, "slippage 50 bps, impact 15 bps", None),
        (Check::SlippageGuard, "nothing is traded", None),
        (
            Check::SlippageGuard,
            "what must arrive is worth what is given, less the allowed loss",
            Some("the minimum output is worth the input, less the permitted loss"),
        ),
        (Check::PolicyCage, "the account has set no rules in a policy contract", None),
        (Check::PolicyCage, "inside the rules of 0x4200000000000000000000000000000000000006", None),
        (
            Check::Simulation,
            "block 130, 191941 gas, 2 balances of the account move as declared and nothing else of it",
            Some("block 130, 191941 gas, 2 balances of the account change as declared, and nothing else changes"),
        ),
    ];

    #[test]
    fn sentences_of_version_2_become_findings_with_the_same_figures() {
        for (check, sentence, current) in PASSED {
            let current = current.unwrap_or(sentence);
            let json = serde_json::json!({"check": check, "outcome": "passed", "detail": sentence});
            let read: SafetyCheck = serde_json::from_value(json).unwrap();
            assert!(!matches!(read.finding, Finding::Said { .. }), "{sentence}");
            // Sentences have cents now, rounded up for what counts against a limit; the figures keep all digits.
            let current =
                [("$1,231.820359", "$1,231.83"), ("$23,387.065845", "$23,387.07"), ("$24,102.717704", "$24,102.72")]
                    .iter()
                    .fold(current.to_owned(), |text, (exact, cents)| text.replace(exact, cents));
            assert_eq!(read.finding.to_string(), current);
            // Version 3 keeps the sentence for human readers; only the finding is read back.
            let mut json = serde_json::to_value(&read).unwrap();
            assert_eq!(json["detail"], current);
            json["detail"] = "something else".into();
            assert_eq!(serde_json::from_value::<SafetyCheck>(json).unwrap(), read);
        }
    }

    #[test]
    fn a_spending_finding_has_its_figures_as_fields() {
        let finding = Finding::spending(usd("1231.820359"), usd("1500"), Some(usd("5000")));
        let json = serde_json::to_value(&finding).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "kind": "spending", "now": "1231.820359", "after": "1500", "cap": "5000", "window_seconds": 86_400
            })
        );
        assert_eq!(finding.to_string(), "$1,231.83 now, $1,500.00 of $5,000.00 in 24 hours after it");
    }

    #[test]
    fn a_finding_of_a_newer_version_stays_a_clean_sentence() {
        let json = serde_json::json!({
            "check": "halt", "outcome": "passed", "detail": "the moon is\u{1b}[2J full", "finding": {"kind": "lunar"}
        });
        let read: SafetyCheck = serde_json::from_value(json).unwrap();
        let Finding::Said { text } = read.finding else { panic!("{read:?}") };
        assert!(text.as_str().starts_with("the moon is") && !text.as_str().contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_refusal_of_version_2_becomes_its_checks() {
        let message = "phase_gate: Defensive does not allow this new-position; slippage_guard: max_loss_bps: only $154.93 \
                       are certain to come in";
        let checks = checks_of_earlier_versions(message);
        let [phase, slippage] = checks.as_slice() else { panic!("{checks:?}") };
        assert!(matches!(phase.finding, Finding::PhaseForbids { phase: Phase::Defensive, .. }), "{phase:?}");
        let [violation] = slippage.finding.violations() else { panic!("{slippage:?}") };
        assert!(violation.rule.is(RuleName::MaxLossBps));
        assert_eq!(violation.value, "only $154.93 are certain to come in");
        for other in ["no pool joins these", "it would no longer do what was permitted: simulation: it reverts"] {
            assert_eq!(checks_of_earlier_versions(other), [], "{other}");
        }
    }
}
