//! `check_safety_status`: current state of all limits, before any attempt to trade.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ALL_TOOL_DEFS;
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::ledger::{CapPeriod, FailureBreaker, MicroUsd};
use bardo_safety::policy::Policy;
use bardo_safety::status::{CapStatus, CountStatus, RuleStatus};
use bardo_safety::stop::{ActiveStop, meaning};
use golem_chain::network::Network;

/// Definition of the `check_safety_status` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<CheckSafetyStatus>();

/// Parameters of `check_safety_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id; defaults to the network's first chain.
    #[serde(default)]
    chain: Option<String>,
}

/// Result of `check_safety_status`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// True if an action that opens or increases a position could pass now, given stop, breaker, rates and caps. The
    /// cost of a single action is not considered.
    can_trade: bool,
    /// Reasons that block trading now; empty if nothing does.
    blocked_by: Vec<String>,
    /// Stop in force: pause, exit-only, flatten, halt or revoke; absent without a stop.
    stop: Option<StopStatus>,
    /// Phase that the limits apply to.
    phase: &'static str,
    /// Policy in force.
    policy: PolicyStatus,
    /// All caps in dollars, in the policy's order.
    caps: Vec<Cap>,
    /// Trades in any 60 minutes.
    trades_per_hour: Count,
    /// Tool calls in any 60 seconds, including this one.
    calls_per_minute: Count,
    /// Seconds until the next trade may begin. Exits are not delayed.
    cooldown_seconds_left: u64,
    /// Failure breaker, which opens after consecutive failures.
    breaker: BreakerStatus,
    /// Stop-loss of the account on the chain that it names.
    stop_loss: StopLoss,
    /// Standing approvals that are still valid.
    standing_approvals: Vec<StandingApproval>,
    /// Policy fields that are not enforced, because no installed tool could violate them.
    unenforced: Vec<String>,
}

/// Stop in force.
#[derive(Debug, Serialize, JsonSchema)]
struct StopStatus {
    /// Level of the stop.
    level: &'static str,
    /// Meaning of the level.
    means: &'static str,
    /// Reason given by the person or process that set the stop.
    reason: String,
    /// Person or process that set the stop.
    by: String,
}

/// Policy in force.
#[derive(Debug, Serialize, JsonSchema)]
struct PolicyStatus {
    /// Name of the policy; a star marks a file that differs from the preset.
    name: String,
    /// Number of the policy version in this process, counted from 1.
    version: u64,
    /// Hash of the policy.
    hash: String,
    /// Loosening changes that wait for the operator's approval; empty if there are none.
    waiting_changes: Vec<String>,
}

/// Cap in dollars.
#[derive(Debug, Serialize, JsonSchema)]
struct Cap {
    /// Name of the policy field.
    rule: String,
    /// Period of the cap: `action`, `hour`, `day` or `month`.
    per: &'static str,
    /// Limit in dollars.
    limit_usd: String,
    /// Amount spent or reserved, in dollars.
    used_usd: String,
    /// Amount left, in dollars.
    left_usd: String,
    /// Seconds until part of the used amount is free again; absent if nothing is used.
    frees_in_seconds: Option<u64>,
}

/// Limit on a number of events.
#[derive(Debug, Serialize, JsonSchema)]
struct Count {
    /// Maximum number in the period.
    limit: u32,
    /// Number used in the period.
    used: u32,
    /// Number left in the period.
    left: u32,
}

/// State of the failure breaker.
#[derive(Debug, Serialize, JsonSchema)]
struct BreakerStatus {
    /// State: `closed`, `open`, `half_open` (one trial is allowed) or `trial` (the trial is running).
    state: &'static str,
    /// Number of consecutive failures; absent while a trial decides.
    failures: Option<u32>,
    /// Number of consecutive failures that opens the breaker.
    limit: u32,
    /// Seconds until a trial is allowed; absent unless the breaker is open.
    trial_in_seconds: Option<u64>,
}

/// State of the stop-loss.
#[derive(Debug, Serialize, JsonSchema)]
struct StopLoss {
    /// Name of the chain. Each chain has a stop-loss of its own.
    chain: String,
    /// EIP-155 id of the chain.
    chain_id: u64,
    /// True if the account's holdings on the chain were read before. Until then no fall can be measured: the first
    /// reading sets the mark.
    observed: bool,
    /// High-water mark of the account on the chain, in dollars; null unless observed.
    high_water_usd: Option<String>,
    /// Account value at which only exits are allowed, in dollars; null unless observed.
    stops_at_usd: Option<String>,
    /// Distance of that value below the high-water mark, in basis points.
    stop_loss_bps: u32,
}

/// Standing approval of the operator.
#[derive(Debug, Serialize, JsonSchema)]
struct StandingApproval {
    /// Name of the tool that may act under it.
    tool: String,
    /// EIP-155 id of the chain.
    chain_id: u64,
    /// Remaining amount, in dollars.
    left_usd: String,
    /// Seconds until the approval expires.
    ends_in_seconds: u64,
}

/// Implementation of `check_safety_status`; see [`TOOL_DEF`].
pub struct CheckSafetyStatus;

impl ReadTool for CheckSafetyStatus {
    const META: ToolMeta = ToolMeta {
        name: "check_safety_status",
        description: "Shows the state of the operator's rules: the stop in force, the phase, every cap with its use \
                      and remainder, rates, cooldown, the failure breaker, the stop-loss, standing approvals, and the \
                      policy in force. Changes nothing.",
        category: Category::Safety,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Reading limits"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "The remainder of every limit, and what blocks trading now. Read-only; check it before \
                         planning several trades.",
        prompt_guidelines: Guidelines {
            thriving: "Check before planning several trades, and after a rejection.",
            cautious: "Check before every trade; the limits are halved.",
            declining: "Check which exits are open, and how much one may sell at once.",
            terminal: "Check once before the last exits.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["can_trade", "blocked_by"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Reading limits");
        let world = &context.world;
        let chain = match &params.chain {
            Some(asked) => world.chain(asked)?,
            None => world.some_chains()?.first().ok_or_else(|| match world.lost().first() {
                Some(lost) => lost.reason.clone().into(),
                None => ToolError::new(ErrorCode::ChainUnknown, "no chain is configured"),
            })?,
        };
        let rules = world.rules_in_force().ok_or_else(|| {
            ToolError::new(ErrorCode::StoreUnavailable, "no ledger is open, so past spending is unknown")
        })?;
        let account = world.account(None)?;
        let phase = context.conditions().phase;
        let status =
            rules.status(chain.network().chain_id, account, context.golem_id(), phase, world.clock.now_millis());
        let status = status.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?;
        let output = output(context, &rules.policy(), (chain.network(), status));
        let said = match output.blocked_by.as_slice() {
            [] => "Nothing blocks trading now.".to_owned(),
            found => format!("At most exits and revocations pass: {}.", found.join("; ")),
        };
        let unmarked = match output.stop_loss.observed {
            true => String::new(),
            false => format!(
                " No high-water mark was observed on {} yet: the first valuation there sets it.",
                output.stop_loss.chain
            ),
        };
        Ok(ToolReply::new(output, format!("{said}{unmarked}")))
    }
}

fn output(context: &CallContext, policy: &Policy, (network, status): (&Network, RuleStatus)) -> Output {
    let blocked_by = blocked_by(&status);
    let RuleStatus { stop, phase, waiting, caps, trades, calls, breaker, .. } = &status;
    let dollars = |value: Option<MicroUsd>| value.map(|value| value.dollars().to_string());
    Output {
        can_trade: blocked_by.is_empty(),
        blocked_by,
        stop: stop_status(stop),
        phase: phase.as_str(),
        policy: PolicyStatus {
            name: status.policy.clone(),
            version: status.policy_version,
            hash: status.policy_hash.to_string(),
            waiting_changes: waiting
                .iter()
                .flatten()
                .map(|change| format!("{}: {} → {}", change.field, change.from, change.to))
                .collect(),
        },
        caps: caps.iter().map(cap).collect(),
        trades_per_hour: count(*trades),
        calls_per_minute: count(*calls),
        cooldown_seconds_left: status.cooldown_left.div_ceil(1_000),
        breaker: breaker_status(*breaker, status.breaker_limit, context.world.clock.now_millis()),
        stop_loss: StopLoss {
            chain: network.name.clone(),
            chain_id: network.chain_id,
            observed: status.high_water.is_some(),
            high_water_usd: dollars(status.high_water),
            stops_at_usd: dollars(status.stops_at),
            stop_loss_bps: status.stop_loss.get(),
        },
        standing_approvals: standing_approvals(context),
        unenforced: unenforced(policy),
    }
}

fn blocked_by(status: &RuleStatus) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(level) = status.stop.level() {
        found.push(format!("{level} is in force"));
    }
    match status.breaker {
        FailureBreaker::Closed { .. } | FailureBreaker::HalfOpen => {}
        FailureBreaker::Open { failures, .. } => {
            found.push(format!("the breaker is open after {failures} failures in a row"))
        }
        FailureBreaker::Trial => found.push("the breaker's single trial trade is in progress".to_owned()),
    }
    if status.trades.left == 0 {
        found.push(format!("{} of {} trades in the last hour are used", status.trades.used, status.trades.limit));
    }
    if status.cooldown_left > 0 {
        found.push(format!("the next trade may start in {} s", status.cooldown_left.div_ceil(1_000)));
    }
    let full = status.caps.iter().filter(|cap| cap.left == MicroUsd::ZERO);
    found.extend(full.map(|cap| format!("nothing is left of {}", cap.rule)));
    found
}

fn stop_status(stop: &ActiveStop) -> Option<StopStatus> {
    let level = stop.level()?;
    let (reason, by) = match stop {
        ActiveStop::Stop(stop) => (stop.reason.to_string(), stop.by.to_string()),
        ActiveStop::None => (String::new(), String::new()),
        ActiveStop::Garbled { why } => (why.clone(), "an unreadable stop file".to_owned()),
    };
    Some(StopStatus { level: level.as_str(), means: meaning(level), reason, by })
}

fn cap(cap: &CapStatus) -> Cap {
    Cap {
        rule: cap.rule.to_string(),
        per: match cap.span {
            CapPeriod::Once => "action",
            CapPeriod::Hour => "hour",
            CapPeriod::Day => "day",
            CapPeriod::Month => "month",
        },
        limit_usd: cap.limit.dollars().to_string(),
        used_usd: cap.used.dollars().to_string(),
        left_usd: cap.left.dollars().to_string(),
        frees_in_seconds: cap.frees_in.map(|millis| millis.div_ceil(1_000)),
    }
}

fn count(CountStatus { limit, used, left }: CountStatus) -> Count {
    Count { limit, used, left }
}

fn breaker_status(breaker: FailureBreaker, limit: u32, now: u64) -> BreakerStatus {
    let told = |state, failures, until: Option<u64>| BreakerStatus {
        state,
        failures,
        limit,
        trial_in_seconds: until.map(|at| at.saturating_sub(now).div_ceil(1_000)),
    };
    match breaker {
        FailureBreaker::Closed { failures } => told("closed", Some(failures), None),
        FailureBreaker::Open { until, failures } => told("open", Some(failures), Some(until)),
        FailureBreaker::HalfOpen => told("half_open", None, None),
        FailureBreaker::Trial => told("trial", None, None),
    }
}

fn standing_approvals(context: &CallContext) -> Vec<StandingApproval> {
    let grants = context.conditions().queue.as_ref().map(|queue| queue.grants()).unwrap_or_default();
    let live = grants.iter();
    live.map(|(grant, lasts)| StandingApproval {
        tool: grant.scope().tool.to_owned(),
        chain_id: grant.scope().chain_id,
        left_usd: grant.left().to_string(),
        ends_in_seconds: lasts.as_secs(),
    })
    .collect()
}

fn unenforced(policy: &Policy) -> Vec<String> {
    let installed: Vec<_> = ALL_TOOL_DEFS.iter().map(|tool| tool.meta.name).collect();
    let fields = policy.fields();
    fields.into_iter().filter(|field| field.enforced_with(&installed).is_err()).map(|field| field.name).collect()
}
