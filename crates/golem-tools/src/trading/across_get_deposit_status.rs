//! `across_get_deposit_status`: what became of the wallet's deposits with the bridge Across.

use alloy::primitives::{B256, U256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::across::status::{DepositState, KnownDeposit, KnownDeposits, deposits};
use crate::engine::{CallContext, ReadTool, ToolDef, ToolEnvironment, ToolReply};
use crate::shared::invalid;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use golem_chain::token::TokenInfo;
use golem_protocols::across::address_of;
use golem_protocols::across::event::FillKind;

/// Definition of the `across_get_deposit_status` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<AcrossGetDepositStatus>();

/// Parameters of `across_get_deposit_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain of the deposit: name, alias or decimal id.
    source_chain: String,
    /// Id of the deposit, as across_deposit returns it; without it, the wallet's newest deposits of the last day.
    #[serde(default)]
    deposit_id: Option<String>,
}

/// A deposit and what became of it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DepositEntry {
    /// Id of the deposit on the source chain.
    deposit_id: String,
    /// Status: `pending`, `slow_fill_requested`, `filled`, `expired` or `refunded`, by the logs of both chains; `unclear` if they
    /// contradict each other or cannot be read.
    status: &'static str,
    /// Name of the destination chain; its id if it is not connected.
    destination_chain: String,
    /// Deposited amount with its token, in whole tokens.
    deposited: String,
    /// Amount that it asks for, in whole tokens, with its token; raw units and address if the destination does not answer.
    asked: String,
    /// Amount that arrived, in whole tokens, by the token's own transfers in the fill; absent unless it was filled.
    received: Option<String>,
    /// Last second in which it can be filled, since the Unix epoch, by the destination's time.
    fill_deadline: u64,
    /// Transaction of the deposit on the source chain.
    deposit_tx: String,
    /// Transaction in which the destination's pool was asked to pay it itself, without a relayer; absent if nobody asked.
    slow_fill_tx: Option<String>,
    /// Transaction of the fill on the destination; absent before.
    fill_tx: Option<String>,
    /// Way in which it was filled: `relayer`, or `slow` by the pool itself, which can bring more than was asked for; absent
    /// before.
    filled_by: Option<&'static str>,
    /// Account that is repaid for the fill; absent before, and for a slow fill.
    relayer: Option<String>,
    /// Transaction of the refund on the source chain; absent unless it was refunded.
    refund_tx: Option<String>,
    /// Reason why the status is unclear; empty if there is none.
    remark: String,
}

/// Result of `across_get_deposit_status`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Deposits, the oldest first.
    deposits: Vec<DepositEntry>,
    /// Number of deposits.
    count: usize,
    /// True if there may be others: the logs of the day could not be read whole, or there are more than are listed.
    is_partial: bool,
    /// Every deposit with its status, such as "3: filled, 4: expired"; empty if there is none.
    states: String,
}

/// Implementation of `across_get_deposit_status`; see [`TOOL_DEF`].
pub struct AcrossGetDepositStatus;

impl ReadTool for AcrossGetDepositStatus {
    const META: ToolMeta = ToolMeta {
        name: "across_get_deposit_status",
        description: "Shows the wallet's deposits with the bridge Across: filled on the destination, expired or paid back. Only \
                      the pools' and tokens' logs on both chains count, never a service's word: a fill must be of exactly this \
                      deposit, with the tokens received.",
        category: Category::Trading,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading chain state"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Shows what became of deposits with Across, by the logs of both chains.",
        prompt_guidelines: Guidelines {
            thriving: "Poll it after across_deposit until the deposit is filled.",
            cautious: "Poll it before any use of the money on the destination.",
            declining: "Poll it: a refund comes back to the source chain and can be sold there.",
            terminal: "Poll it before the last exits: what is filled or refunded can still be sold.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["source_chain", "deposit_id"],
        summary_fields: &["count", "states"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"source_chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let world = &context.world;
        let wanted = params.deposit_id.as_deref().map(id).transpose()?;
        let source = world.chain(&params.source_chain)?;
        let account = world.account(None)?;
        context.step("Reading chain state");
        let KnownDeposits { deposits: found, is_partial } =
            deposits(source, account, wanted, |chain_id| world.chain(&chain_id.to_string())).await?;
        if found.is_empty() && is_partial {
            let what = format_args!("the logs of the last day on {} could not be read whole", source.network());
            return Err(ToolError::new(ErrorCode::ChainUnreachable, what));
        }
        if let (true, Some(id)) = (found.is_empty(), wanted) {
            let what = format_args!(
                "the SpokePool of {} has no deposit {id} of {account} within the last day",
                source.network()
            );
            return Err(invalid("deposit_id", &what));
        }
        let mut entries = Vec::with_capacity(found.len());
        for deposit in &found {
            entries.push(entry(world, source.network().chain_id, deposit).await);
        }
        let words = entries.iter().map(|entry| format!("{}: {}", entry.deposit_id, entry.status));
        let states = words.collect::<Vec<_>>().join(", ");
        let explanation = match entries.is_empty() {
            true => "No deposit within the last day.".to_owned(),
            false if is_partial => format!("By the logs of both chains, deposit {states}. There may be others."),
            false => format!("By the logs of both chains, deposit {states}."),
        };
        let count = entries.len();
        Ok(ToolReply::new(Output { deposits: entries, count, is_partial, states }, explanation))
    }
}

fn id(text: &str) -> Result<U256, ToolError> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = digits.then(|| U256::from_str_radix(text, 10).ok()).flatten();
    parsed.ok_or_else(|| invalid("deposit_id", &"expected the decimal id that across_deposit returned"))
}

async fn token(world: &ToolEnvironment, chain_id: u64, word: B256) -> Option<TokenInfo> {
    let address = address_of(word)?;
    world.chain(&chain_id.to_string()).ok()?.token(&address.to_string()).await.ok()
}

fn amount(raw: U256, token: Option<&TokenInfo>, word: B256) -> String {
    let known = token.and_then(|token| Some((TokenAmount::new(raw, token.decimals).ok()?, token)));
    match known {
        Some((amount, token)) if token.listed => format!("{amount} {}", token.symbol),
        Some((amount, _)) => format!("{amount} of {}", address_of(word).map_or(word.to_string(), |at| at.to_string())),
        None => format!("{raw} raw units of {word}"),
    }
}

async fn entry(world: &ToolEnvironment, origin: u64, deposit: &KnownDeposit) -> DepositEntry {
    let relay = &deposit.relay;
    let destination = deposit.destination_chain_id;
    let given = token(world, origin, relay.inputToken).await;
    let wanted = token(world, destination, relay.outputToken).await;
    let name = world
        .chain(&destination.to_string())
        .map_or_else(|_| destination.to_string(), |chain| chain.network().name.clone());
    let text = |hash: Option<B256>| hash.map(|hash| hash.to_string());
    DepositEntry {
        deposit_id: relay.depositId.to_string(),
        status: deposit.state.as_str(),
        destination_chain: name,
        deposited: amount(relay.inputAmount, given.as_ref(), relay.inputToken),
        asked: amount(relay.outputAmount, wanted.as_ref(), relay.outputToken),
        received: deposit
            .received
            .filter(|_| deposit.state == DepositState::Filled)
            .map(|raw| amount(raw, wanted.as_ref(), relay.outputToken)),
        fill_deadline: relay.fillDeadline.into(),
        deposit_tx: deposit.deposited.0.to_string(),
        slow_fill_tx: text(deposit.slow_fill_asked_by),
        fill_tx: text(deposit.filled_by),
        filled_by: deposit.fill_kind.map(|kind| match kind {
            FillKind::Fast | FillKind::ReplacedSlow => "relayer",
            FillKind::Slow => "slow",
        }),
        relayer: deposit.relayer.map(|word| address_of(word).map_or(word.to_string(), |at| at.to_string())),
        refund_tx: text(deposit.refunded_by),
        remark: deposit.remark.unwrap_or_default().to_owned(),
    }
}
