//! `hook_evaluate`: what the hook of a V4 pool may do and does, with a verdict.

use alloy::primitives::U256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{CurrencyRow, evaluate, fee_text, pool_key, tokens};
use crate::blocks;
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use golem_chain::token::TokenInfo;
use golem_protocols::uniswap::hook::report::{HookFinding, HookReport, HookVerdict, percent};
use golem_protocols::uniswap::hook::trial::{LiquidityTrial, SwapTrial};
use golem_protocols::uniswap::pool::FixedAmount;
use golem_protocols::uniswap::v4::key_hash;

/// Definition of the `hook_evaluate` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<HookEvaluate>();

/// Parameters of `hook_evaluate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Id of the pool: 64 hexadecimal digits with 0x before them. `hook_discover` lists pools.
    pool_id: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Verdict about a hook.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// The pool manager never calls the hook for swaps or changes of liquidity.
    Inert,
    /// It takes part, and these simulations found no loss.
    NoHarmFound,
    /// It takes part, and too little is known. Unknown is not safe.
    Unknown,
    /// It takes something, changes its fee, or lets no liquidity out.
    Hostile,
}

impl From<HookVerdict> for Verdict {
    fn from(verdict: HookVerdict) -> Self {
        match verdict {
            HookVerdict::Inert => Self::Inert,
            HookVerdict::NoHarmFound => Self::NoHarmFound,
            HookVerdict::Unknown => Self::Unknown,
            HookVerdict::Hostile => Self::Hostile,
        }
    }
}

/// Finding about a hook. Shares are in percent, rounded up.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Finding {
    /// A swap gives less than the pool's price and fee say.
    TakesFromSwap {
        /// Largest part that is missing.
        part_pct: String,
    },
    /// The hook sets the fee.
    SetsFee {
        /// Largest fee of the simulated swaps.
        fee_pct: String,
    },
    /// The same swap gives different amounts by time or by gas that is paid for.
    ChangesQuote {
        /// Smallest loss of a simulated swap.
        lowest_pct: String,
        /// Largest loss of a simulated swap.
        highest_pct: String,
    },
    /// The pool's price is not the one of its swaps.
    OtherCurve,
    /// A swap fails.
    SwapFails {
        /// Reason of the contract.
        why: String,
    },
    /// Adding liquidity fails.
    DepositFails {
        /// Reason of the contract.
        why: String,
    },
    /// Removing liquidity fails.
    WithdrawalFails {
        /// Reason of the contract.
        why: String,
    },
    /// Adding liquidity costs more than the pool takes.
    TakesFromDeposit {
        /// Largest part beyond it.
        part_pct: String,
    },
    /// Removing liquidity pays less than the pool gives.
    TakesFromWithdrawal {
        /// Largest part that is missing.
        part_pct: String,
    },
    /// The pool's amounts without the hook are not known.
    NoComparison {
        /// Reason of the pool.
        why: String,
    },
    /// The code can behave otherwise than in a simulation.
    DefiesSimulation,
}

impl From<&HookFinding> for Finding {
    fn from(finding: &HookFinding) -> Self {
        match finding {
            HookFinding::TakesFromSwap { part } => Self::TakesFromSwap { part_pct: percent(*part) },
            HookFinding::SetsFee { fee } => Self::SetsFee { fee_pct: percent(*fee) },
            HookFinding::ChangesQuote { lowest, highest } => {
                Self::ChangesQuote { lowest_pct: percent(*lowest), highest_pct: percent(*highest) }
            }
            HookFinding::OtherCurve => Self::OtherCurve,
            HookFinding::SwapFails { why } => Self::SwapFails { why: why.to_string() },
            HookFinding::DepositFails { why } => Self::DepositFails { why: why.to_string() },
            HookFinding::WithdrawalFails { why } => Self::WithdrawalFails { why: why.to_string() },
            HookFinding::TakesFromDeposit { part } => Self::TakesFromDeposit { part_pct: percent(*part) },
            HookFinding::TakesFromWithdrawal { part } => Self::TakesFromWithdrawal { part_pct: percent(*part) },
            HookFinding::NoComparison { why } => Self::NoComparison { why: why.to_string() },
            HookFinding::DefiesSimulation => Self::DefiesSimulation,
        }
    }
}

/// Swap that was simulated, with amounts in whole tokens.
#[derive(Debug, Serialize, JsonSchema)]
struct SwapRow {
    /// Token that is sold.
    sells: String,
    /// Token that is bought.
    buys: String,
    /// True if the amount of the sold token is fixed; false for the bought one.
    exact_in: bool,
    /// The fixed amount.
    amount: String,
    /// The other amount without the hook.
    without_hook: String,
    /// The other amount with the hook: in the next block, with gas paid for, and twelve seconds and an hour later. Absent where
    /// the swap fails.
    with_hook: Vec<Option<String>>,
}

/// Liquidity that was added and removed again, with amounts of both currencies in whole tokens.
#[derive(Debug, Serialize, JsonSchema)]
struct LiquidityRow {
    /// Amounts that adding takes without the hook.
    takes_without_hook: [String; 2],
    /// Amounts with the hook; absent if adding fails.
    takes: Option<[String; 2]>,
    /// Amounts that removing pays without the hook.
    pays_without_hook: [String; 2],
    /// Amounts with the hook; absent if removing fails.
    pays: Option<[String; 2]>,
}

/// Code of the hook.
#[derive(Debug, Serialize, JsonSchema)]
struct CodeRow {
    /// Hash of the code.
    code_hash: String,
    /// Length in bytes.
    bytes: usize,
    /// Properties of the code, by its instructions.
    traits: Vec<&'static str>,
}

/// Result of `hook_evaluate`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id of the pool.
    pool_id: String,
    /// Number of the block on whose state everything was simulated.
    block_number: u64,
    /// First currency of the pool.
    currency0: CurrencyRow,
    /// Second currency of the pool.
    currency1: CurrencyRow,
    /// Fee of the pool for a reader.
    fee: String,
    /// Address of the hook.
    hook: String,
    /// Verdict. Only `inert` is certain; `no_harm_found` holds for these simulations.
    verdict: Verdict,
    /// Reasons for the verdict, as sentences.
    reasons: Vec<String>,
    /// The same as typed findings.
    findings: Vec<Finding>,
    /// Permissions that the hook's address states.
    permissions: Vec<&'static str>,
    /// Code of the hook.
    code: CodeRow,
    /// Swaps that were simulated, in both directions.
    swaps: Vec<SwapRow>,
    /// Liquidity that was added and removed; absent if none could be.
    liquidity: Option<LiquidityRow>,
}

/// Implementation of `hook_evaluate`; see [`TOOL_DEF`].
pub struct HookEvaluate;

impl ReadTool for HookEvaluate {
    const META: ToolMeta = ToolMeta {
        name: "hook_evaluate",
        description: "Evaluates the hook of a Uniswap V4 pool: its permissions, what its code can depend on, and what it does in \
                      simulated swaps of both directions and several sizes and in a deposit and withdrawal of liquidity, each \
                      compared with the pool without the hook, now and later, with gas paid for and without. Gives a verdict with \
                      reasons. Unknown is not safe.",
        category: Category::Hook,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Reading pool", "Simulating via Revm"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "What a pool's hook takes, changes or blocks, by simulation; a verdict with reasons.",
        prompt_guidelines: Guidelines {
            thriving: "Use it before any deposit in a pool with a hook. Only inert is certain.",
            cautious: "Use nothing whose verdict is unknown or hostile.",
            declining: "Use it to learn whether a position's hook lets liquidity out.",
            terminal: "Use it to learn whether a position's hook lets liquidity out.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["pool_id", "chain"],
        summary_fields: &["verdict", "hook"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"pool_id": "0xcfce78470e081a863f6698a466595a9daeb67e70064008cc4abb9fe289b799e6", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        context.step("Reading pool");
        let head = blocks::newest(chain).await?;
        let key = pool_key(chain, &params.pool_id, &head).await?;
        context.step("Simulating via Revm");
        let report = evaluate(chain, &key, &head).await?;
        let tokens = tokens(chain, &key).await?;
        let currencies = [key.currency0, key.currency1].map(|currency| CurrencyRow::of(chain, currency));
        let reasons = reasons(&report);
        let rows = report.swaps.iter().map(|trial| swap_row(trial, &tokens, &currencies));
        let swaps = rows.collect::<Result<_, _>>()?;
        let liquidity = report.liquidity.as_ref().map(|trial| liquidity_row(trial, &tokens)).transpose()?;
        let explanation = format!("The hook {} is {}: {}.", key.hooks, spoken(judged(&report)), reasons.join("; "));
        let [currency0, currency1] = currencies;
        let output = Output {
            pool_id: key_hash(&key).to_string(),
            block_number: head.number,
            currency0,
            currency1,
            fee: fee_text(&key),
            hook: key.hooks.to_string(),
            verdict: judged(&report).into(),
            reasons,
            findings: report.findings.iter().map(Finding::from).collect(),
            permissions: report.permissions.iter().map(|one| one.name()).collect(),
            code: CodeRow {
                code_hash: report.code.hash.to_string(),
                bytes: report.code.length,
                traits: report.code.traits.iter().map(|one| one.name()).collect(),
            },
            swaps,
            liquidity,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Verdict in words.
const fn spoken(verdict: HookVerdict) -> &'static str {
    match verdict {
        HookVerdict::Inert => "inert",
        HookVerdict::NoHarmFound => "harmless in these simulations",
        HookVerdict::Unknown => "of unknown effect",
        HookVerdict::Hostile => "hostile",
    }
}

/// Verdict of a report. Without a simulated swap, as in a pool without liquidity, nothing is known of swaps.
fn judged(report: &HookReport) -> HookVerdict {
    match report.verdict {
        HookVerdict::NoHarmFound if report.swaps.is_empty() => HookVerdict::Unknown,
        verdict => verdict,
    }
}

/// Reasons for a verdict.
fn reasons(report: &HookReport) -> Vec<String> {
    let found = report.findings.iter().map(ToString::to_string);
    let mut reasons: Vec<String> = found.collect();
    if report.swaps.is_empty() {
        reasons.push("no swap could be simulated".to_owned());
    }
    match judged(report) {
        HookVerdict::Inert => {
            reasons.push("its address permits it neither swaps nor changes of liquidity".to_owned());
        }
        HookVerdict::NoHarmFound => {
            reasons.push(format!("{} swaps and a deposit with its withdrawal lost nothing", report.swaps.len()));
        }
        HookVerdict::Unknown | HookVerdict::Hostile => {}
    }
    reasons
}

fn whole(raw: U256, token: &TokenInfo) -> Result<String, ToolError> {
    Ok(TokenAmount::new(raw, token.decimals)?.to_string())
}

fn swap_row(
    trial: &SwapTrial,
    [token0, token1]: &[TokenInfo; 2],
    [currency0, currency1]: &[CurrencyRow; 2],
) -> Result<SwapRow, ToolError> {
    let (sold, bought, sells, buys) = match trial.zero_for_one {
        true => (token0, token1, currency0, currency1),
        false => (token1, token0, currency1, currency0),
    };
    let (exact_in, fixed, other) = match trial.exact {
        FixedAmount::In(_) => (true, sold, bought),
        FixedAmount::Out(_) => (false, bought, sold),
    };
    let with_hook = trial.with_hook.iter().map(|one| one.as_ref().ok().map(|raw| whole(*raw, other)).transpose());
    Ok(SwapRow {
        sells: sells.symbol.clone(),
        buys: buys.symbol.clone(),
        exact_in,
        amount: whole(trial.exact.amount(), fixed)?,
        without_hook: whole(trial.without_hook, other)?,
        with_hook: with_hook.collect::<Result<_, _>>()?,
    })
}

fn liquidity_row(trial: &LiquidityTrial, [token0, token1]: &[TokenInfo; 2]) -> Result<LiquidityRow, ToolError> {
    let both = |[first, second]: [U256; 2]| Ok::<_, ToolError>([whole(first, token0)?, whole(second, token1)?]);
    let shown = |one: &Result<[U256; 2], SafeText>| one.as_ref().ok().map(|amounts| both(*amounts)).transpose();
    Ok(LiquidityRow {
        takes_without_hook: both(trial.takes_without)?,
        takes: shown(&trial.takes)?,
        pays_without_hook: both(trial.pays_without)?,
        pays: shown(&trial.pays)?,
    })
}
