//! `check_safety_status`: what may still be done, before anything is tried.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ALL_TOOL_DEFS;
use crate::engine::{CallContext, ReadTool, Reply, ToolDef};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::ledger::{Breaker, Micros, Span};
use bardo_safety::policy::Policy;
use bardo_safety::status::{CapStatus, CountStatus, Status};
use bardo_safety::stop::{InForce, meaning};

/// The tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<CheckSafetyStatus>();

/// Parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id; without it, the network's first chain.
    #[serde(default)]
    chain: Option<String>,
}

/// Result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Whether anything that opens or enlarges a position could pass now, by stop, breaker and rates. What one action
    /// costs is not in it.
    can_trade: bool,
    /// What stands against trading now; empty where nothing does.
    blocked_by: Vec<String>,
    /// The stop in force: pause, exit-only, flatten, halt or revoke; absent where there is none.
    stop: Option<StopStatus>,
    /// The phase that limits are told for.
    phase: &'static str,
    /// The policy in force.
    policy: PolicyStatus,
    /// Every cap on dollars, in the policy's order.
    caps: Vec<Cap>,
    /// Trades in any 60 minutes.
    trades_per_hour: Count,
    /// Calls of tools in any 60 seconds, this one included.
    calls_per_minute: Count,
    /// Seconds until the next trade may begin; exits do not wait.
    cooldown_seconds_left: u64,
    /// The failure breaker.
    breaker: BreakerStatus,
    /// The stop-loss.
    stop_loss: StopLoss,
    /// Standing approvals that still hold.
    standing_approvals: Vec<StandingApproval>,
    /// Fields of the policy that nothing installed enforces, because nothing installed could break them.
    unenforced: Vec<String>,
}

/// A stop.
#[derive(Debug, Serialize, JsonSchema)]
struct StopStatus {
    /// How much is stopped.
    level: &'static str,
    /// What that means.
    means: &'static str,
    /// Why, in the words of whoever stopped.
    reason: String,
    /// Who stopped.
    by: String,
}

/// The policy.
#[derive(Debug, Serialize, JsonSchema)]
struct PolicyStatus {
    /// Its name; a star where a file differs from the preset.
    name: String,
    /// Counts its changes in this program, from 1.
    version: u64,
    /// Names it exactly.
    hash: String,
    /// What a looser policy would change that waits for the operator's decision; empty where none waits.
    waiting_changes: Vec<String>,
}

/// A cap on dollars.
#[derive(Debug, Serialize, JsonSchema)]
struct Cap {
    /// The policy's field.
    rule: String,
    /// Over which time: `action`, `hour`, `day` or `month`.
    per: &'static str,
    /// The most, in dollars.
    limit_usd: String,
    /// Spent or reserved, in dollars.
    used_usd: String,
    /// What is left, in dollars.
    left_usd: String,
    /// Seconds until some of what is used is free again; absent where nothing is used.
    frees_in_seconds: Option<u64>,
}

/// A limit on how often.
#[derive(Debug, Serialize, JsonSchema)]
struct Count {
    /// The most.
    limit: u32,
    /// Made.
    used: u32,
    /// What is left.
    left: u32,
}

/// The failure breaker.
#[derive(Debug, Serialize, JsonSchema)]
struct BreakerStatus {
    /// `closed`, `open`, `half_open` (one trial may be made) or `trial` (it is under way).
    state: &'static str,
    /// Failures in a row; absent while a trial decides.
    failures: Option<u32>,
    /// Failures in a row that open it.
    limit: u32,
    /// Seconds until one trial may be made; absent where it is not open.
    trial_in_seconds: Option<u64>,
}

/// The stop-loss.
#[derive(Debug, Serialize, JsonSchema)]
struct StopLoss {
    /// The most the account was worth on this chain, in dollars; absent where nothing has been seen of it.
    high_water_usd: Option<String>,
    /// From which value on only exits pass, in dollars.
    stops_at_usd: Option<String>,
    /// How far below the highest that is, in basis points.
    stop_loss_bps: u32,
}

/// A standing approval.
#[derive(Debug, Serialize, JsonSchema)]
struct StandingApproval {
    /// By which tool.
    tool: String,
    /// EIP-155 id of the chain.
    chain_id: u64,
    /// What may still be spent under it, in dollars.
    left_usd: String,
    /// Seconds until it ends.
    ends_in_seconds: u64,
}

/// See [`TOOL_DEF`].
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

    async fn run(context: &CallContext, params: Params) -> Result<Reply<Output>, ToolError> {
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
        let phase = context.standing().phase;
        let status =
            rules.status(chain.network().chain_id, account, context.golem_id(), phase, world.clock.now_millis());
        let status = status.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?;
        let output = output(context, &rules.policy(), status);
        let said = match output.blocked_by.as_slice() {
            [] => "Nothing blocks trading now.".to_owned(),
            found => format!("At most exits and revocations pass: {}.", found.join("; ")),
        };
        Ok(Reply::new(output, said))
    }
}

fn output(context: &CallContext, policy: &Policy, status: Status) -> Output {
    let blocked_by = blocked_by(&status);
    let Status { stop, phase, waiting, caps, trades, calls, breaker, high_water, .. } = &status;
    let seen = *high_water > Micros::ZERO;
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
            high_water_usd: seen.then(|| high_water.dollars().to_string()),
            stops_at_usd: seen.then(|| status.stops_at.dollars().to_string()),
            stop_loss_bps: status.stop_loss.get(),
        },
        standing_approvals: standing(context),
        unenforced: unenforced(policy),
    }
}

fn blocked_by(status: &Status) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(level) = status.stop.level() {
        found.push(format!("{level} is in force"));
    }
    match status.breaker {
        Breaker::Closed { .. } | Breaker::HalfOpen => {}
        Breaker::Open { failures, .. } => found.push(format!("the breaker is open after {failures} failures in a row")),
        Breaker::Trial => found.push("the breaker's single trial trade is in progress".to_owned()),
    }
    if status.trades.left == 0 {
        found.push(format!("{} of {} trades in the last hour are used", status.trades.used, status.trades.limit));
    }
    if status.cooldown_left > 0 {
        found.push(format!("the next trade may start in {} s", status.cooldown_left.div_ceil(1_000)));
    }
    let full = status.caps.iter().filter(|cap| cap.left == Micros::ZERO);
    found.extend(full.map(|cap| format!("nothing is left of {}", cap.rule)));
    found
}

fn stop_status(stop: &InForce) -> Option<StopStatus> {
    let level = stop.level()?;
    let (reason, by) = match stop {
        InForce::Stop(stop) => (stop.reason.to_string(), stop.by.to_string()),
        InForce::None => (String::new(), String::new()),
        InForce::Garbled { why } => (why.clone(), "an unreadable stop file".to_owned()),
    };
    Some(StopStatus { level: level.as_str(), means: meaning(level), reason, by })
}

fn cap(cap: &CapStatus) -> Cap {
    Cap {
        rule: cap.rule.to_string(),
        per: match cap.span {
            Span::Once => "action",
            Span::Hour => "hour",
            Span::Day => "day",
            Span::Month => "month",
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

fn breaker_status(breaker: Breaker, limit: u32, now: u64) -> BreakerStatus {
    let told = |state, failures, until: Option<u64>| BreakerStatus {
        state,
        failures,
        limit,
        trial_in_seconds: until.map(|at| at.saturating_sub(now).div_ceil(1_000)),
    };
    match breaker {
        Breaker::Closed { failures } => told("closed", Some(failures), None),
        Breaker::Open { until, failures } => told("open", Some(failures), Some(until)),
        Breaker::HalfOpen => told("half_open", None, None),
        Breaker::Trial => told("trial", None, None),
    }
}

fn standing(context: &CallContext) -> Vec<StandingApproval> {
    let grants = context.standing().desk.as_ref().map(|desk| desk.grants()).unwrap_or_default();
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
    let installed: Vec<_> = ALL_TOOL_DEFS.iter().map(|tool| tool.meta.category).collect();
    let fields = policy.fields();
    fields.into_iter().filter(|field| field.enforced_with(&installed).is_err()).map(|field| field.name).collect()
}
