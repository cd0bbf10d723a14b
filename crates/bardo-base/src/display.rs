//! Display texts for typed values: checks and their findings, rules and fields of the policy, reasons, tools. The console,
//! the questions on a terminal, and the reports of commands use the same texts. JSON keeps the names of the documents.

pub mod figures;

use crate::error::{ErrorCode, FigureUnit, Violation};
use crate::fabric::{AskReason, Finding, PolicyChange, PolicyChanged, SafetyCheck, ToolFailed, health_factor};
use crate::format::{dollars, dollars_above, dollars_left, grouped, gwei, nearest_cent, short_hash, wait};
use crate::model::{ActionClass, Check, Phase, Rule, RuleName};
use crate::text::width;
use crate::units::{Rounding, Usd};

pub use figures::{readable, readable_figure};

/// Digits of an amount after the decimal point, in a sentence.
const PLACES: usize = 4;

/// Display name of a check.
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

/// Display name of a phase: what the Golem may still do in it.
pub const fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Thriving => "Thriving",
        Phase::Cautious => "Cautious",
        Phase::Defensive => "Exits only",
        Phase::Survival => "Last reserves",
        Phase::Terminal => "Dying",
    }
}

/// Display name of a class of actions, such as `increase position`.
fn class_word(class: ActionClass) -> String {
    class.as_str().replace('-', " ")
}

/// Display name of a rule with a fixed name.
const fn rule_name_word(name: RuleName) -> &'static str {
    match name {
        RuleName::Stop => "Stop",
        RuleName::SessionKeys => "Session keys",
        RuleName::AllowedTools => "Allowed tools",
        RuleName::AllowedIntentTypes => "Allowed intent types",
        RuleName::AllowedChains => "Allowed chains",
        RuleName::AllowedTokens => "Allowed tokens",
        RuleName::AllowedExecutionWallets => "Allowed execution wallets",
        RuleName::SafeAddresses => "Safe addresses",
        RuleName::AllowedProtocols => "Allowed protocols",
        RuleName::AllowedContracts => "Allowed contracts",
        RuleName::AllowedVaults => "Allowed vaults",
        RuleName::AllowedRecipients => "Allowed recipients",
        RuleName::AllowedSpenders => "Allowed spenders",
        RuleName::SpenderRole => "Spender role",
        RuleName::RecipientRole => "Recipient role",
        RuleName::Price => "Price",
        RuleName::Ledger => "Ledger",
        RuleName::MaxSingleTradeUsd => "One action",
        RuleName::PerTransaction => "One action, spending limits",
        RuleName::MaxHourlySpendUsd => "Hourly cap",
        RuleName::MaxDailySpendUsd => "Day cap",
        RuleName::PerDay => "Day cap, spending limits",
        RuleName::MaxMonthlySpendUsd => "30-day cap",
        RuleName::MaxPositionSizeUsd => "One holding",
        RuleName::MaxUnfedUsd => "One holding without a price feed",
        RuleName::MaxGasUsd => "Gas of one action",
        RuleName::GasReserve => "Native token that stays for gas",
        RuleName::MaxFeePerGasGwei => "Max gas price in gwei",
        RuleName::AllowUnlimitedAllowance => "Allow unlimited allowances",
        RuleName::MaxAllowanceUsd => "One allowance",
        RuleName::MaxAllowanceSeconds => "Allowance lifetime in seconds",
        RuleName::PrivateRpcAboveUsd => "Private RPC above",
        RuleName::RequireHumanApprovalAboveUsd => "Asks you above",
        RuleName::HotLane => "Without second opinion",
        RuleName::MaxTradesPerHour => "Trades an hour",
        RuleName::MaxRevocationsPerHour => "Revocations an hour",
        RuleName::MaxToolCallsPerMinute => "Calls a minute",
        RuleName::CooldownSeconds => "Cooldown between trades",
        RuleName::ActiveHours => "Active hours",
        RuleName::StopLossPct => "Stop-loss",
        RuleName::MaxConsecutiveFailures => "Failures in a row",
        RuleName::MaxSlippageBps => "Slippage",
        RuleName::MaxPriceImpactBps => "Price impact",
        RuleName::MaxLossBps => "Loss against the market",
        RuleName::MinHealthFactor => "Health factor",
        RuleName::MaxBorrowUsd => "One borrowing",
        RuleName::MinRebalanceBenefitUsd => "Benefit of moving a position",
        RuleName::RequireRebalanceCheck => "Known benefit of moving a position",
        RuleName::LendingPrices => "Prices of the lending market",
        RuleName::VaultSupply => "Shares of the vault",
        RuleName::VaultExit => "Way out of the vault",
        RuleName::VaultValuation => "Valuation of the vault",
        RuleName::PoolHook => "Hook of the pool",
        RuleName::QuoteAboveWitnesses => "Quote above the market",
        RuleName::MinOut => "Minimum output",
        RuleName::MaxQuoteAgeSeconds => "Quote age in seconds",
        RuleName::Deadline => "Deadline",
        RuleName::PolicyCage => "Policy contract",
        RuleName::CageCalls => "Policy contract: calls",
        RuleName::CageAssets => "Policy contract: assets",
        RuleName::CageSpenders => "Policy contract: spenders",
        RuleName::CageMaxPerTransaction => "Policy contract: one transaction",
        RuleName::CageMaxPerDay => "Policy contract: a day",
        RuleName::CageMaxPosition => "Policy contract: one holding",
        RuleName::CageMaxPriceAge => "Policy contract: age of a price",
        RuleName::CageMaxLossBps => "Policy contract: loss",
        RuleName::CageMaxDrawdownBps => "Policy contract: fall",
        RuleName::CageMinInterval => "Policy contract: interval",
        RuleName::RequireSimulation => "Simulation before execution",
        RuleName::EndpointsAgree => "Endpoints agree",
        RuleName::ClocksAgree => "Clocks agree",
        RuleName::Calldata => "Calldata",
        RuleName::Frame => "Frame",
        RuleName::Order => "Order",
        RuleName::Spender => "Spender",
        RuleName::Signature => "Signature",
        RuleName::Trade => "Trade",
        RuleName::Simulation => "Simulation",
        RuleName::SimulationComplete => "Simulation complete",
        RuleName::Plan => "Plan",
        RuleName::Nonce => "Nonce",
        RuleName::Code => "Code",
        RuleName::Delegation => "Delegation",
        RuleName::Inflow => "Inflow",
        RuleName::Outflow => "Outflow",
        RuleName::UndeclaredInflow => "Undeclared inflow",
        RuleName::PermitNonce => "Permit nonce",
        RuleName::Permit2Nonce => "Permit2 nonce",
        RuleName::AccountNonce => "Account nonce",
        RuleName::Operator => "Operator",
        RuleName::Nft => "NFT",
        RuleName::UnexplainedWrite => "Unexplained write",
        RuleName::Recipient => "Recipient",
        RuleName::Allowance => "Allowance",
    }
}

/// Display name of a rule.
pub fn rule_word(rule: &Rule) -> String {
    match rule {
        Rule::Named(name) => rule_name_word(*name).to_owned(),
        Rule::Phase(_) => "Phase".to_owned(),
        Rule::ExitOnly(_) => "Exits only".to_owned(),
        Rule::PositionShare(_) => "Share of a position".to_owned(),
        Rule::TokenCaps(_) => "Cap of this token".to_owned(),
        Rule::Other(name) => {
            let words = name.as_str().replace('_', " ");
            let mut letters = words.chars();
            letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
        }
    }
}

/// Display name of a policy field.
pub fn policy_word(field: &str) -> String {
    rule_word(&Rule::read(field))
}

/// Changed field of the policy, such as `Day cap: $5,000 → $8,000`.
pub fn policy_line(change: &PolicyChange) -> String {
    let field = change.field.as_str();
    let (from, to) = (policy_value(field, change.from.as_str()), policy_value(field, change.to.as_str()));
    format!("{}: {from} → {to}", policy_word(field))
}

/// Changed fields of the policy, each with the lower limit that binds in its place, such as `Day cap: $5,000 → $8,000 (still
/// at most $5,000.00)`.
pub fn policy_lines(changed: &PolicyChanged) -> String {
    let line = |change: &PolicyChange| {
        let bound = changed.binding.iter().filter(|bound| bound.field == change.field).map(|bound| bound.limit).min();
        let still = bound.map(|limit| format!(" (still at most {})", dollars(limit))).unwrap_or_default();
        format!("{}{still}", policy_line(change))
    };
    changed.changes.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Value of a policy field with its unit. `written` is the value as the policy file writes it: a number, a quoted word,
/// a list, or a list with the word that also bounds it while a decision waits.
pub fn policy_value(field: &str, written: &str) -> String {
    if let Some((list, word)) = written.split_once("] and ") {
        return format!("{}, if {}", listed(list), bare(word));
    }
    if written.starts_with('[') {
        return listed(written);
    }
    let value = bare(written);
    let is_number = !value.is_empty() && value.bytes().all(|one| one.is_ascii_digit() || one == b'.');
    let name = field.rsplit('.').next().unwrap_or(field);
    let dollars = name.ends_with("_usd") || matches!(name, "hot_lane" | "per_transaction" | "per_day");
    match value {
        "true" => "yes".to_owned(),
        "false" => "no".to_owned(),
        number if is_number && dollars => format!("${}", grouped(number)),
        number if is_number && name.ends_with("_bps") => format!("{} bps", grouped(number)),
        number if is_number && name.ends_with("_pct") => format!("{number} %"),
        number if is_number => grouped(number),
        other => other.to_owned(),
    }
}

/// Count with its noun, such as `1 call` or `1,200 calls`. The noun takes an `s`.
pub fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(&count.to_string()))
}

/// Word without the quotes around it. A value that was cut has no closing one.
fn bare(word: &str) -> &str {
    word.trim().trim_matches('"')
}

/// Items of a written list, or `none` if it is empty.
fn listed(list: &str) -> String {
    let items: Vec<&str> =
        list.trim_matches(['[', ']', ' ']).split(',').map(bare).filter(|item| !item.is_empty()).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// Value that violates a rule. A dollar limit has its limit and the amount that is left, a pause its end.
pub fn exceeded(one: &Violation) -> String {
    let said = || match one.rule {
        // The value is the class of the action.
        Rule::Phase(_) | Rule::ExitOnly(_) => one.value.as_str().replace('-', " "),
        _ => readable(one.value.as_str(), PLACES),
    };
    let Some(figures) = &one.figures else {
        return match one.rule.is(RuleName::MinHealthFactor) {
            true => format!("{}; limit: {}", said(), one.limit),
            false => said(),
        };
    };
    let frees = figures.frees_in_seconds.map(wait);
    let usd = |figure: &String| figure.parse::<Usd>().ok();
    match (figures.unit, figures.left.as_ref().and_then(usd), usd(&figures.value).zip(usd(&figures.limit))) {
        (FigureUnit::Usd, Some(left), Some((value, limit))) => {
            let more = frees.map(|time| format!(", more in {time}")).unwrap_or_default();
            // With nothing used, the limit itself is what is left. Of a limit for one action nothing is used up: gas counts.
            let rest = match left == limit {
                true => String::new(),
                false if one.rule.is(RuleName::MaxSingleTradeUsd) => {
                    format!("; at most {} besides gas", dollars_left(left))
                }
                false => format!("; {} left{more}", dollars_left(left)),
            };
            let (value, limit) = (dollars_above(value, limit), dollars(limit));
            format!("{value} is above {limit}{rest}")
        }
        (FigureUnit::Seconds, ..) => frees.map_or_else(said, |time| format!("{}; free in {time}", one.value)),
        (FigureUnit::Wei, ..) => match (figures.value.parse(), figures.limit.parse()) {
            (Ok(value), Ok(limit)) => format!("{} is above {}", gwei(value), gwei(limit)),
            _ => said(),
        },
        // Two rules about the same amount, such as one transaction and an allowance, differ by their limits alone.
        (FigureUnit::RawUnits, ..) => format!("{}; limit: {}", said(), readable(one.limit.as_str(), PLACES)),
        (FigureUnit::Usd | FigureUnit::Bps | FigureUnit::Count, ..) => said(),
    }
}

/// Violated rule with its value, such as `Day cap: $5,300.00 is above $5,000.00; $485.18 left, more in 3 h`.
///
/// For a list, the words say that the value is not on it, such as `Spender not allowed: 0x…`.
pub fn violation_words(one: &Violation) -> String {
    let unlisted = UNLISTED.iter().find(|(name, _)| one.rule.is(*name));
    let word = unlisted.map_or_else(|| rule_word(&one.rule), |(_, word)| (*word).to_owned());
    format!("{word}: {}", exceeded(one))
}

/// Words for a value that is not on a list of the policy, by the list's rule.
const UNLISTED: [(RuleName, &str); 10] = [
    (RuleName::AllowedTools, "Tool not allowed"),
    (RuleName::AllowedIntentTypes, "Kind of action not allowed"),
    (RuleName::AllowedChains, "Chain not allowed"),
    (RuleName::AllowedTokens, "Token not allowed"),
    (RuleName::AllowedExecutionWallets, "Wallet not allowed"),
    (RuleName::AllowedProtocols, "Protocol not allowed"),
    (RuleName::AllowedContracts, "Contract not allowed"),
    (RuleName::AllowedVaults, "Vault not allowed"),
    (RuleName::AllowedRecipients, "Recipient not allowed"),
    (RuleName::AllowedSpenders, "Spender not allowed"),
];

/// Violated rules with their values. The simulation rule is not named, because its check has the same name.
fn broken(violations: &[Violation]) -> String {
    let words = |one: &Violation| match one.rule {
        Rule::Named(RuleName::Simulation) => one.value.to_string(),
        _ => violation_words(one),
    };
    violations.iter().map(words).collect::<Vec<_>>().join("; ")
}

/// Finding of a check, as a sentence.
pub fn finding_words(finding: &Finding) -> String {
    match finding {
        Finding::Broken { violations } => broken(violations),
        Finding::PhaseAllows { phase, class } => format!("{} allows this: {}", phase_word(*phase), class_word(*class)),
        Finding::PhaseTakesBack { phase } => format!("{}: revocations pass in every phase", phase_word(*phase)),
        Finding::PhaseForbids { phase, class, .. } => {
            format!("{} does not allow this: {}", phase_word(*phase), class_word(*class))
        }
        Finding::NoStop
        | Finding::PassesStop { .. }
        | Finding::Stopped { .. }
        | Finding::NoOrders { .. }
        | Finding::Listed
        | Finding::Spending { .. }
        | Finding::Rate { .. }
        | Finding::BreakerExempt
        | Finding::Equity { .. }
        | Finding::Slippage { .. }
        | Finding::ArrivalFair
        | Finding::NothingTraded
        | Finding::OwnRules
        | Finding::NoCage
        | Finding::InsideCage { .. }
        | Finding::TakesBackBesideCage { .. }
        | Finding::ClocksDiffer { .. }
        | Finding::Simulated { .. }
        | Finding::SimulatedDebt { .. }
        | Finding::BrokenBecause { .. }
        | Finding::Said { .. } => finding.sentence().to_string(),
    }
}

/// Reason of a failed call: the checks that block it, else its error message. An action's permit is called a simulated
/// offer, because "permit" could be mistaken for Permit2.
pub fn failure_words(failed: &ToolFailed) -> String {
    let blocked = failed.blocked();
    if blocked.is_empty() {
        return offer_words(failed.error_code, failed.error_message.as_str());
    }
    let words = |one: &SafetyCheck| match (one.check, &one.finding) {
        (Check::Halt, finding) => finding_words(finding),
        (Check::Simulation, finding) => {
            // Some of its rules have the check's own name.
            let (name, words) = (check_word(one.check), finding_words(finding));
            if words.starts_with(name) { words } else { format!("{name}: {words}") }
        }
        (_, finding @ Finding::Broken { .. }) => finding_words(finding),
        (check, finding) => format!("{}: {}", check_word(check), finding_words(finding)),
    };
    blocked.iter().map(words).collect::<Vec<_>>().join("; ")
}

/// Reason why a simulated offer cannot be used; the error's own message for other codes.
pub fn offer_words(code: ErrorCode, sentence: &str) -> String {
    match code {
        ErrorCode::PermitExpired => {
            "the simulated offer has expired or is from an earlier run: preview the action again".to_owned()
        }
        ErrorCode::PermitConsumed => "the simulated offer was already used".to_owned(),
        _ => sentence.to_owned(),
    }
}

/// Display name of the tool that a per-tool limit belongs to; `None` for other fields.
fn tool_of(field: &str) -> Option<String> {
    Some(tool_word(field.strip_prefix("tools.")?.strip_suffix(".requires_approval_above_usd")?))
}

/// Amount and field of the policy limit that a reason names; `None` for other reasons.
fn limit_of(why: &AskReason) -> Option<(String, &str)> {
    match why {
        AskReason::AboveLimit { limit, field, .. } => {
            Some((format!("${}", grouped_cents(&limit.to_fixed(2, Rounding::Down))), field.as_str()))
        }
        AskReason::HotLane
        | AskReason::ValueUnknown
        | AskReason::Authority
        | AskReason::Publishes
        | AskReason::FirstPaid
        | AskReason::FirstAllowed
        | AskReason::Resembles { .. }
        | AskReason::NoFeed { .. }
        | AskReason::PriceDisputed { .. }
        | AskReason::Delay { .. }
        | AskReason::ByHand
        | AskReason::Elsewhere
        | AskReason::Loosens
        | AskReason::LoosensPolicy
        | AskReason::GolemDied
        | AskReason::LeavesPositions
        | AskReason::SellsUnderHalt
        | AskReason::PartOfSale { .. }
        | AskReason::FurtherStep { .. }
        | AskReason::OrderOpen { .. }
        | AskReason::NoneLeft
        | AskReason::SecondApproval { .. }
        | AskReason::Replaces { .. }
        | AskReason::Check(_)
        | AskReason::Said { .. } => None,
    }
}

/// Reason for an approval request, with the policy limit behind it.
pub fn reason(why: &AskReason) -> String {
    let Some((limit, field)) = limit_of(why) else {
        return match why {
            AskReason::HotLane => "above your limit for a second opinion".to_owned(),
            AskReason::Replaces { transaction, tool, owner, .. } => {
                let what = tool.as_ref().map(|tool| format!("{} ", tool_word(tool.as_str()))).unwrap_or_default();
                let who = match owner {
                    Some(owner) if owner.is_operator() => "your ".to_owned(),
                    Some(owner) => format!("{owner}'s "),
                    None => String::new(),
                };
                format!(
                    "it replaces {who}waiting {what}transaction {}; if that one is included first, this one never happens \
                     and costs nothing",
                    short_hash(*transaction)
                )
            }
            other => other.describe().to_string(),
        };
    };
    match (field, tool_of(field)) {
        ("require_human_approval_above_usd", _) => format!("above your {limit} approval limit"),
        ("spending_limits.hot_lane" | "hot_lane", _) => format!("above your {limit} limit for a second opinion"),
        (_, Some(tool)) => format!("above your {limit} approval limit for {tool}"),
        (other, None) => format!("above your {limit} limit ({})", policy_word(other)),
    }
}

/// Reasons for an approval request, each once: the limit that a value exceeds says more than that it exceeds one.
pub fn reasons(all: &[AskReason]) -> Vec<String> {
    let by_limit = |one: &AskReason| limit_of(one).is_some_and(|(_, field)| field.ends_with("hot_lane"));
    let named = all.iter().any(by_limit);
    let mut parts: Vec<String> = Vec::new();
    for why in all.iter().filter(|why| !(named && matches!(why, AskReason::HotLane))) {
        let words = reason(why);
        if !parts.contains(&words) {
            parts.push(words);
        }
    }
    parts
}

/// Reason for an approval request in at most `columns`, where a shorter form exists.
pub fn reason_in(why: &AskReason, columns: usize) -> String {
    let whole = reason(why);
    let Some((limit, field)) = limit_of(why).filter(|_| width(&whole) > columns) else { return whole };
    match (field, tool_of(field)) {
        ("require_human_approval_above_usd", _) => format!("above your {limit} limit"),
        ("spending_limits.hot_lane" | "hot_lane", _) => format!("above {limit}: 2nd opinion"),
        (_, Some(tool)) => format!("above {limit} for {tool}"),
        (_, None) => whole,
    }
}

/// Finding of a check for display beside its name, with readable figures.
pub fn found(finding: &Finding) -> String {
    match finding {
        Finding::Slippage { slippage, impact } => format!("{slippage}, impact {impact}"),
        Finding::Simulated { block, gas, balances } => {
            let (block, gas) = (grouped(&block.to_string()), grouped(&gas.to_string()));
            let (balances, change) = match balances {
                1 => ("1 balance".to_owned(), "changes"),
                many => (format!("{many} balances"), "change"),
            };
            format!("block #{block}, {gas} gas, {balances} of the account {change} as declared, and nothing else")
        }
        Finding::SimulatedDebt { before, after, falls, .. } => {
            let (before, after) = (health_factor(*before), health_factor(*after));
            let falls: String = falls.iter().map(|fall| format!("; {fall}")).collect();
            format!("health factor {before} before, {after} after{falls}")
        }
        other => readable(&finding_words(other), PLACES),
    }
}

/// Finding of a check as a short figure, such as `50 bps` or `$853.14`. `None` if it says no more than the name.
pub fn figure_of(finding: &Finding) -> Option<String> {
    let dollars = |value: Usd| format!("${}", grouped_cents(&nearest_cent(value)));
    // Rounded up, as the row of what counts has it.
    let used = |value: Usd| format!("${}", grouped_cents(&value.to_fixed(2, Rounding::Up)));
    match finding {
        Finding::Spending { now, after, cap, .. } => {
            let day = match cap {
                Some(cap) => format!("{}/{}", used(*after), dollars(*cap)),
                None => used(*after),
            };
            Some(format!("action {}, day {day} after", used(*now)))
        }
        Finding::Rate { made, limit, .. } => Some(format!("{made}/{limit} an hour")),
        Finding::Slippage { slippage, .. } => Some(slippage.to_string()),
        Finding::NoCage => Some("has no rules".to_owned()),
        Finding::NoStop
        | Finding::PassesStop { .. }
        | Finding::Stopped { .. }
        | Finding::NoOrders { .. }
        | Finding::PhaseAllows { .. }
        | Finding::PhaseTakesBack { .. }
        | Finding::PhaseForbids { .. }
        | Finding::Listed
        | Finding::BreakerExempt
        | Finding::Equity { .. }
        | Finding::ArrivalFair
        | Finding::NothingTraded
        | Finding::OwnRules
        | Finding::InsideCage { .. }
        | Finding::TakesBackBesideCage { .. }
        | Finding::ClocksDiffer { .. }
        | Finding::Simulated { .. }
        | Finding::SimulatedDebt { .. }
        | Finding::Broken { .. }
        | Finding::BrokenBecause { .. }
        | Finding::Said { .. } => None,
    }
}

/// Dollars with grouped thousands and at most two decimals, truncated. A leading `$` is removed.
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

/// Display name of a tool: `get_balances` becomes "Balances".
pub fn tool_word(name: &str) -> String {
    let known = match name {
        "uniswap_execute_swap" => "Swap",
        "uniswap_submit_uniswapx_order" => "Auction",
        "uniswap_place_limit_order" => "Limit order",
        "uniswap_get_uniswapx_order_status" => "Order status",
        "uniswapx_cancel_order" => "Cancel order",
        "uniswap_schedule_swaps" => "Schedule",
        "uniswap_submit_cross_chain_intent" => "Bridge",
        "intent_refund" => "Refund bridge order",
        "wallet_transfer_token" => "Transfer",
        "speed_up_transaction" => "Speed up",
        "cancel_transaction" => "Cancel transaction",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let bare = ["uniswapx_", "uniswap_", "get_", "intel_", "check_", "token_"]
        .iter()
        .fold(name, |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
    let spaced = bare.replace('_', " ");
    let mut characters = spaced.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => "Call".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RuleFigures;
    use crate::fabric::CheckOutcome;
    use crate::text::SafeText;

    fn usd(figure: &str) -> Usd {
        figure.parse().unwrap()
    }

    /// A swap that approves more than the policy contract lets out violates two rules by the same amount.
    #[test]
    fn two_rules_about_the_same_amount_differ_by_their_limits() {
        let violation = |limit| {
            let figures = RuleFigures::new(FigureUnit::RawUnits, "100000000", "500000000").leaving("100000000");
            Violation::new(RuleName::CageMaxPerTransaction, limit, "500 USDC", "100 USDC or less").with(figures)
        };
        let words = ["at most 100 USDC allowed at once", "at most 100 USDC in one transaction"]
            .map(|limit| violation_words(&violation(limit)));
        assert_ne!(words[0], words[1]);
        assert!(words[0].ends_with("500 USDC; limit: at most 100 USDC allowed at once"), "{words:?}");
        assert!(words[1].ends_with("500 USDC; limit: at most 100 USDC in one transaction"), "{words:?}");
    }

    #[test]
    fn a_refusal_lists_its_rules() {
        let blocked = |check, finding| SafetyCheck { check, outcome: CheckOutcome::Blocked, finding };
        let rules = |all: &[(RuleName, &str)]| Finding::Broken {
            violations: all.iter().map(|(rule, value)| Violation::new(*rule, "", value, "")).collect(),
        };
        let failed = |checks: Vec<SafetyCheck>| ToolFailed {
            error_code: ErrorCode::SafetySpendingLimitExceeded,
            error_message: SafeText::clean("max_single_trade_usd: for those who read it", 80),
            checks: Some(checks),
        };
        let limits = rules(&[(RuleName::MaxSingleTradeUsd, "$6,785.11"), (RuleName::MaxDailySpendUsd, "$1 too much")]);
        let stopped = Finding::Stopped { level: crate::model::StopLevel::Halt, violations: Vec::new() };
        for (checks, parts) in [
            (vec![blocked(Check::SpendingLimit, limits)], "One action: $6,785.11; Day cap: $1 too much"),
            (
                vec![
                    blocked(Check::Halt, stopped),
                    blocked(Check::Simulation, rules(&[(RuleName::Simulation, "transaction 1 reverts")])),
                    blocked(Check::ChainHealth, Finding::because("two endpoints differ", Vec::new())),
                ],
                "halt is in force; simulation: transaction 1 reverts; endpoints: two endpoints differ",
            ),
        ] {
            assert_eq!(failure_words(&failed(checks)), parts);
        }
        let none = failed(Vec::new());
        assert_eq!(failure_words(&none), none.error_message.as_str(), "without checks its own sentence");
        let used = ToolFailed { error_code: ErrorCode::PermitConsumed, ..none };
        assert_eq!(failure_words(&used), "the simulated offer was already used");
    }

    #[test]
    fn a_field_of_another_version_keeps_its_name() {
        let text = |words: &str| SafeText::clean(words, 60);
        let change =
            PolicyChange { field: text("max_daily_spend_usd"), from: text("5000"), to: text("8000"), tighter: false };
        assert_eq!(policy_line(&change), "Day cap: $5,000 → $8,000");
        assert_eq!(policy_word("max_weird_thing"), "Max weird thing");
    }

    #[test]
    fn a_policy_value_has_its_unit_and_no_quotes() {
        for (field, written, parts) in [
            ("max_daily_spend_usd", "\"5000\"", "$5,000"),
            ("spending_limits.hot_lane", "\"500.5\"", "$500.5"),
            ("max_slippage_bps", "50", "50 bps"),
            ("stop_loss_pct", "\"10\"", "10 %"),
            ("max_trades_per_hour", "1200", "1,200"),
            ("allowed_tokens", "\"bundled\"", "bundled"),
            ("allowed_tokens", "[]", "none"),
            ("allowed_tokens", "[] and \"bundled\"", "none, if bundled"),
            ("allowed_tokens", "[\"1:native\", \"1:0xab\"] and \"bundled\"", "1:native, 1:0xab, if bundled"),
            ("allowed_chains", "[\"ethereum\", \"ba…", "ethereum, ba…"),
            ("require_simulation", "true", "yes"),
        ] {
            assert_eq!(policy_value(field, written), parts, "{field} {written}");
        }
    }

    #[test]
    fn a_violation_has_readable_figures_and_no_code_names() {
        let usd = |value: &str, left: &str| {
            RuleFigures::new(FigureUnit::Usd, "5000", value).leaving(left).freeing_in(Some(86_400))
        };
        for (violation, words) in [
            (
                Violation::new(RuleName::MaxDailySpendUsd, "", "raw", "").with(usd("20001.354346", "485.189")),
                "Day cap: $20,001.35 is above $5,000.00; $485.18 left, more in 1 day",
            ),
            (
                Violation::new(RuleName::MaxDailySpendUsd, "", "raw", "").with(usd("5000.001", "0")),
                "Day cap: $5,000.01 is above $5,000.00; $0.00 left, more in 1 day",
            ),
            (
                Violation::new(RuleName::MaxSingleTradeUsd, "", "raw", "")
                    .with(RuleFigures::new(FigureUnit::Usd, "2500", "3006.89").leaving("2500")),
                "One action: $3,006.89 is above $2,500.00",
            ),
            (
                Violation::new(RuleName::MaxFeePerGasGwei, "", "raw", "").with(RuleFigures::new(
                    FigureUnit::Wei,
                    "20000000000",
                    "35500000000",
                )),
                "Max gas price in gwei: 35.5 gwei is above 20 gwei",
            ),
            (
                Violation::new(RuleName::CooldownSeconds, "", "12 s after the last one", "")
                    .with(RuleFigures::new(FigureUnit::Seconds, 60, 12).freeing_in(Some(48))),
                "Cooldown between trades: 12 s after the last one; free in 48 s",
            ),
            (Violation::new(Rule::Phase(Phase::Defensive), "", "increase-position", ""), "Phase: increase position"),
            (Violation::new(RuleName::AllowedSpenders, "[0xaa]", "0xbb", ""), "Spender not allowed: 0xbb"),
            (
                Violation::new(RuleName::MaxLossBps, "", "only $1697.220370538473 guaranteed to come in", ""),
                "Loss against the market: only $1,697.22 guaranteed to come in",
            ),
        ] {
            assert_eq!(violation_words(&violation), words);
        }
        let forbids =
            Finding::PhaseForbids { phase: Phase::Defensive, class: ActionClass::NewPosition, violations: Vec::new() };
        assert_eq!(finding_words(&forbids), "Exits only does not allow this: new position");
    }

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!(
            [counted(0_u64, "call"), counted(1_u32, "call"), counted(1_200_u64, "call")],
            ["0 calls", "1 call", "1,200 calls"]
        );
    }

    #[test]
    fn a_limit_is_given_once_as_a_reason() {
        let hot = above("2047.53", "1000", "spending_limits.hot_lane");
        assert_eq!(reasons(&[hot, AskReason::HotLane]), ["above your $1,000 limit for a second opinion"]);
        assert_eq!(reasons(&[AskReason::HotLane, AskReason::ByHand]).len(), 2);
        assert_eq!(reasons(&[AskReason::ByHand, AskReason::ByHand]).len(), 1);
    }

    #[test]
    fn a_reason_says_which_limit_it_is_about_in_plain_words() {
        for (field, parts, brief) in [
            ("require_human_approval_above_usd", "approval limit", "above your $1,000 limit"),
            ("spending_limits.hot_lane", "limit for a second opinion", "above $1,000: 2nd opinion"),
            (
                "tools.token_approve.requires_approval_above_usd",
                "approval limit for Approve",
                "above $1,000 for Approve",
            ),
        ] {
            let why = above("2047.53", "1000", field);
            assert_eq!(reason(&why), format!("above your $1,000 {parts}"));
            assert_eq!(reason_in(&why, 60), reason(&why));
            assert_eq!(reason_in(&why, 27), brief);
            assert!(brief.len() <= 27, "{brief}");
        }
        assert_eq!(
            reason(&above("2", "1.50", "max_weird_thing")),
            "above your $1.50 limit (Max weird thing)",
            "a limit nobody thought of is named all the same"
        );
        assert_eq!(reason(&AskReason::HotLane), "above your limit for a second opinion");
        assert_eq!(reason(&AskReason::said("above your limit (again)")), "above your limit (again)");
    }

    fn above(value: &str, limit: &str, field: &str) -> AskReason {
        AskReason::AboveLimit { value: usd(value), limit: usd(limit), field: SafeText::clean(field, 100) }
    }

    #[test]
    fn a_finding_is_shown_once_with_its_figures() {
        let simulated = Finding::Simulated { block: 1_285, gas: 128_412, balances: 2 };
        assert_eq!(
            found(&simulated),
            "block #1,285, 128,412 gas, 2 balances of the account change as declared, and nothing else"
        );
        assert_eq!(found(&slippage()), "50 bps, impact 2 bps");
        assert_eq!(
            found(&Finding::spending(usd("853.1439"), usd("1"), None)),
            "$853.15 now, $1.00 in 24 hours after it"
        );
    }

    fn slippage() -> Finding {
        let bps = |points| crate::units::BasisPoints::new(points).unwrap();
        Finding::Slippage { slippage: bps(50), impact: bps(2) }
    }

    #[test]
    fn limits_rate_and_slippage_have_their_figures() {
        let limits = Finding::spending(usd("853.143"), usd("1966.02"), Some(usd("5000")));
        assert_eq!(figure_of(&limits), Some("action $853.15, day $1,966.02/$5,000 after".to_owned()));
        // Rounded up, as the row of what counts: two figures of one amount must not differ.
        let up = Finding::spending(usd("1234.837"), usd("1344.432"), None);
        assert_eq!(figure_of(&up), Some("action $1,234.84, day $1,344.44 after".to_owned()));
        assert_eq!(figure_of(&Finding::rate(3, 120)), Some("3/120 an hour".to_owned()));
        assert_eq!(figure_of(&slippage()), Some("50 bps".to_owned()));
        assert_eq!(figure_of(&Finding::NothingTraded), None);
        assert_eq!(figure_of(&Finding::NoStop), None);
    }
}
