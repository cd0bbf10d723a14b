//! `simulate_transaction`: effect of a call on the current chain state, without signing or sending it.

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::primitives::{Address, Bytes, TxKind, U256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply, address};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use golem_chain::fork::{ExecutionStatus, ForkCall, SimulatedOutcome, Simulation, StateChanges, ValueChange};
use golem_chain::token::{self, TokenInfo};

/// Definition of the `simulate_transaction` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<SimulateTransaction>();

/// Maximum number of listed changes, per list.
const MOST_CHANGES: usize = 40;
/// Maximum length of the shown output, in bytes.
const MOST_OUTPUT: usize = 1_024;

/// Parameters of `simulate_transaction`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id.
    chain: String,
    /// Target contract or account, as a 0x address; absent to create a contract from `data`.
    #[serde(default)]
    to: Option<String>,
    /// Calldata as 0x and hexadecimal digits.
    #[serde(default = "nothing")]
    data: String,
    /// Native tokens sent with the call, in whole tokens, such as "0.1".
    #[serde(default = "zero")]
    value: String,
    /// Sender, as a 0x address; defaults to the wallet's account.
    #[serde(default)]
    from: Option<String>,
}

fn nothing() -> String {
    "0x".to_owned()
}

fn zero() -> String {
    "0".to_owned()
}

/// Result of `simulate_transaction`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Number of the block whose state was used.
    block_number: u64,
    /// Address of the sender.
    from: String,
    /// Outcome: `success`, `reverted` or `halted`.
    outcome: &'static str,
    /// Reason for a failure; absent after success.
    reason: Option<String>,
    /// Gas used, in gas units.
    gas_used: u64,
    /// Return data as 0x and hexadecimal digits, or revert data after a revert; truncated if long.
    output: String,
    /// Address of the created contract, if any.
    created: Option<String>,
    /// Changed balances, the sender's first.
    balances: Vec<BalanceMoved>,
    /// Changed allowances, the sender's first.
    allowances: Vec<AllowanceMoved>,
    /// Other changes of the sender's state, as sentences.
    also_changed: Vec<String>,
    /// True if the lists above are complete: no limit was reached, and every token answered.
    complete: bool,
}

/// Balance before and after the call.
#[derive(Debug, Serialize, JsonSchema)]
struct BalanceMoved {
    /// Address of the holder.
    account: String,
    /// Symbol of the token, or its address without a symbol.
    token: String,
    /// Signed change in whole tokens; in raw units if the decimals are unknown.
    change: String,
    /// Balance before, in raw units.
    before_raw: String,
    /// Balance after, in raw units.
    after_raw: String,
}

/// Allowance after the call.
#[derive(Debug, Serialize, JsonSchema)]
struct AllowanceMoved {
    /// Address of the token's owner.
    owner: String,
    /// Address of the spender.
    spender: String,
    /// Symbol of the token, or its address without a symbol.
    token: String,
    /// Location of the allowance: `token` for the token contract, `permit2` for Permit2.
    kept_by: &'static str,
    /// Allowance after, in raw units.
    after_raw: String,
}

/// Implementation of `simulate_transaction`; see [`TOOL_DEF`].
pub struct SimulateTransaction;

impl ReadTool for SimulateTransaction {
    const META: ToolMeta = ToolMeta {
        name: "simulate_transaction",
        description: "Runs a call on an in-process fork of the chain's latest block, and returns whether it succeeds \
                      or why not, the gas it uses and what it changes. Nothing is signed or sent, and no endpoint sees \
                      the call.",
        category: Category::Safety,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Pinning the block", "Simulating", "Decoding changes"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Simulates a call without signing it: success or revert reason, gas, and every balance and \
                         allowance it changes.",
        prompt_guidelines: Guidelines {
            thriving: "Simulate any call whose effect is uncertain.",
            cautious: "Simulate every call before proposing it, and drop it if it changes anything unexpected.",
            declining: "Simulate exits before proposing them; a revert costs gas you need.",
            terminal: "Use only for an exit that might revert.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain", "to", "value", "from"],
        summary_fields: &["outcome", "gas_used", "complete"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        // Permit2 has the same address on every chain; the call reads its domain separator.
        json!({
            "chain": "ethereum", "to": "0x000000000022D473030F116dDEE9F6B43aC78BA3", "data": "0x3644e515",
            "from": "0x00000000000000000000000000000000000000A1",
        })
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let call = call(context, &params)?;
        context.step("Pinning the block");
        let fork = chain.fork(BlockId::latest()).await?;
        context.step("Simulating");
        let simulation = fork.simulate(std::slice::from_ref(&call)).await?;
        context.step("Decoding changes");
        let [outcome] = &simulation.outcomes[..] else {
            return Err(ToolError::new(ErrorCode::SafetySimulationFailed, "the simulation ended without an outcome"));
        };
        let names = Names::of(chain, &simulation.changes).await?;
        answer(chain, &call, &simulation, outcome, &names)
    }
}

fn call(context: &CallContext, params: &Params) -> Result<ForkCall, ToolError> {
    let wrong = |parameter: &str, what: &str| {
        ToolError::new(ErrorCode::ValidationFailed, format_args!("parameter `{parameter}`: {what}"))
            .detail("parameter", parameter)
    };
    let from = match &params.from {
        Some(text) => address(text, "from")?,
        None => context.world.account(None)?,
    };
    let data: Bytes = params
        .data
        .trim()
        .strip_prefix("0x")
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| wrong("data", "not calldata: expected 0x and an even number of hexadecimal digits"))?;
    let value = TokenAmount::parse(&params.value, 18).map_err(|error| wrong("value", &error.to_string()))?;
    let to = params.to.as_deref().map(|to| address(to, "to")).transpose()?;
    if to.is_none() && data.is_empty() {
        return Err(wrong("to", "a target address or the code of a new contract is required"));
    }
    Ok(match to {
        Some(to) => ForkCall::new(from, to, data),
        None => ForkCall::create(from, data),
    }
    .with_value(value.raw()))
}

/// Tokens whose balances or allowances changed, if their contracts answer as tokens.
struct Names(BTreeMap<Address, TokenInfo>);

impl Names {
    async fn of(chain: &ConnectedChain, changes: &StateChanges) -> Result<Self, ToolError> {
        let balances = changes.balances.iter().map(|change| change.token);
        let allowances = changes.allowances.iter().map(|change| change.token);
        let permits = changes.permit2_allowances.iter().map(|change| change.token);
        let mut tokens: Vec<Address> = balances.chain(allowances).chain(permits).collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens.truncate(3 * MOST_CHANGES);
        let read = match &tokens[..] {
            [] => Vec::new(),
            some => token::read(some, chain.network(), chain.client.agreed()).await?,
        };
        Ok(Self(tokens.into_iter().zip(read).filter_map(|(at, token)| Some((at, token.ok()?))).collect()))
    }

    fn symbol(&self, token: Address) -> String {
        self.0.get(&token).map_or_else(|| token.to_string(), |token| token.symbol.to_string())
    }

    fn change(&self, token: Address, moved: &ValueChange<U256>) -> String {
        signed(moved, |raw| match self.0.get(&token).map(|token| TokenAmount::new(raw, token.decimals)) {
            Some(Ok(amount)) => amount.to_string(),
            Some(Err(_)) | None => raw.to_string(),
        })
    }
}

/// Formats the signed difference, with the magnitude formatted by `form`.
fn signed(moved: &ValueChange<U256>, form: impl Fn(U256) -> String) -> String {
    if moved.after >= moved.before {
        format!("+{}", form(moved.after - moved.before))
    } else {
        format!("-{}", form(moved.before - moved.after))
    }
}

fn answer(
    chain: &ConnectedChain,
    call: &ForkCall,
    simulation: &Simulation,
    outcome: &SimulatedOutcome,
    names: &Names,
) -> Result<ToolReply<Output>, ToolError> {
    let changes = &simulation.changes;
    let coin = chain.network().native_symbol;
    let (word, reason) = match &outcome.status {
        ExecutionStatus::Success => ("success", None),
        ExecutionStatus::Reverted(reason) => ("reverted", Some(reason.to_string())),
        ExecutionStatus::Halted(reason) => ("halted", Some(reason.to_string())),
    };
    let coins = changes.accounts.iter().filter(|change| change.balance.moved()).map(|change| BalanceMoved {
        account: change.account.to_string(),
        token: coin.to_owned(),
        change: signed(&change.balance, |wei| TokenAmount::ether(wei).to_string()),
        before_raw: change.balance.before.to_string(),
        after_raw: change.balance.after.to_string(),
    });
    let tokens = changes.balances.iter().filter(|change| change.balance.moved()).map(|change| BalanceMoved {
        account: change.holder.to_string(),
        token: names.symbol(change.token),
        change: names.change(change.token, &change.balance),
        before_raw: change.balance.before.to_string(),
        after_raw: change.balance.after.to_string(),
    });
    let own = call.from.to_string();
    let mut balances: Vec<BalanceMoved> = coins.chain(tokens).collect();
    balances.sort_by_key(|change| change.account != own);
    let of_tokens = changes.allowances.iter().filter(|change| change.allowance.moved()).map(|change| AllowanceMoved {
        owner: change.owner.to_string(),
        spender: change.spender.to_string(),
        token: names.symbol(change.token),
        kept_by: "token",
        after_raw: change.allowance.after.to_string(),
    });
    let of_permit2 =
        changes.permit2_allowances.iter().filter(|change| change.allowance.moved()).map(|change| AllowanceMoved {
            owner: change.owner.to_string(),
            spender: change.spender.to_string(),
            token: names.symbol(change.token),
            kept_by: "permit2",
            after_raw: change.allowance.after.amount.to_string(),
        });
    let mut allowances: Vec<AllowanceMoved> = of_tokens.chain(of_permit2).collect();
    allowances.sort_by_key(|change| change.owner != own);
    let mut also_changed = also_changed(call.from, changes);
    let cut = balances.len() > MOST_CHANGES || allowances.len() > MOST_CHANGES || also_changed.len() > MOST_CHANGES;
    balances.truncate(MOST_CHANGES);
    allowances.truncate(MOST_CHANGES);
    also_changed.truncate(MOST_CHANGES);
    let complete = changes.complete() && !cut;
    let mut explanation = match &reason {
        None => format!("It would succeed and use {} gas.", outcome.gas_used),
        Some(reason) => format!("It would fail: {reason}."),
    };
    for change in balances.iter().filter(|change| change.account == own) {
        explanation.push_str(&format!(" {} {}.", change.change, change.token));
    }
    if !complete {
        explanation.push_str(" Some of its changes could not be decoded.");
    }
    let shown = outcome.output.get(..outcome.output.len().min(MOST_OUTPUT)).unwrap_or_default();
    let hints = json!({
        "block_hash": simulation.pinned.hash,
        "events": outcome.logs.len(),
        "output_bytes": outcome.output.len(),
        "creates": matches!(call.to, TxKind::Create),
    });
    let output = Output {
        chain: chain.network().name.clone(),
        block_number: simulation.pinned.number,
        from: own,
        outcome: word,
        reason,
        gas_used: outcome.gas_used,
        output: alloy::hex::encode_prefixed(shown),
        created: outcome.created.map(|created| created.to_string()),
        balances,
        allowances,
        also_changed,
        complete,
    };
    Ok(ToolReply::new(output, explanation).hint(hints))
}

/// Describes other changes of the sender: collection approvals, NFTs, code and delegation.
fn also_changed(from: Address, changes: &StateChanges) -> Vec<String> {
    let mut told = Vec::new();
    for change in changes.operators.iter().filter(|change| change.owner == from && change.approved.moved()) {
        let may = if change.approved.after { "may now" } else { "may no longer" };
        told.push(format!("{} {may} move all of {}", change.operator, change.collection));
    }
    for change in changes.nft_owners.iter().filter(|change| change.who.before == from || change.who.after == from) {
        told.push(format!(
            "{} of {} goes from {} to {}",
            change.id, change.collection, change.who.before, change.who.after
        ));
    }
    for change in changes.multi_balances.iter().filter(|change| change.holder == from && change.balance.moved()) {
        told.push(format!(
            "{} of {} changes by {}",
            change.id,
            change.collection,
            signed(&change.balance, |raw| raw.to_string())
        ));
    }
    if let Some(own) = changes.account(from) {
        if own.delegation.moved() {
            told.push(match own.delegation.after {
                Some(to) => format!("the account's code is delegated to {to}"),
                None => "the account's delegation is removed".to_owned(),
            });
        } else if own.code_hash.moved() {
            told.push("the account's code changes".to_owned());
        }
    }
    told
}
