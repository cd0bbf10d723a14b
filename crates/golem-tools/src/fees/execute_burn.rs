//! `execute_burn`: pays the threshold of UNI and receives assets of the jar of protocol fees.

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AssetRow, Jar, dollars, sum};
use crate::allowances::{self, approve};
use crate::engine::{CallContext, ConnectedChain, ToolDef, ToolReply, WriteTool};
use crate::shared::{CHECKS, PlanReceipt, failed, insufficient, invalid};
use bardo_abi::erc20::Erc20;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::TxState;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{TokenAmount, Usd};
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent,
};
use golem_chain::fork::{ForkCall, Simulation, SimulationOptions, WatchList};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::protocol_fees::{FeeCall, MOST_ASSETS};

/// Definition of the `execute_burn` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<ExecuteBurn>();

/// Gas beside one and a half times that of the simulated call.
const GAS_ROOM: u64 = 60_000;

/// Parameters of `execute_burn`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Assets to receive, by symbol or 0x address, at most 20; all listed tokens in the jar that have a price if absent.
    #[serde(default)]
    assets: Option<Vec<String>>,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Asset that was received.
#[derive(Debug, Serialize, JsonSchema)]
struct ReceivedRow {
    /// Symbol of the token.
    symbol: String,
    /// Address of the token; the zero address is the native token.
    address: String,
    /// Amount in whole tokens, by the token's own transfers in the receipt; before inclusion, and for the native token, what the
    /// simulation gave.
    amount: String,
}

/// Result of `execute_burn`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the last transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Symbol of the token that was paid.
    paid_token: String,
    /// Amount that was paid, in whole tokens: the threshold; zero if the release failed.
    paid: String,
    /// Value of the payment in dollars at preparation; absent without a price.
    paid_usd: Option<String>,
    /// Assets that were received; none if the release failed.
    received: Vec<ReceivedRow>,
    /// Value of the assets in dollars at preparation; zero if the release failed.
    received_usd: String,
    /// Number of the release.
    nonce: String,
    /// Gas of all transactions, in gas units.
    gas_used: u64,
    /// URL of the last transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Values kept from preparation for the result.
pub struct BurnPlan {
    account: Address,
    resource: TokenInfo,
    cost: TokenAmount,
    cost_usd: Option<Usd>,
    nonce: U256,
    assets: Vec<(AssetRow, TokenInfo, U256)>,
    value: Usd,
}

/// Payment in whole tokens and dollars, and dollars that came in, as far as the action went.
#[derive(Debug, PartialEq, Eq)]
struct BurnSums {
    paid: String,
    paid_usd: Option<String>,
    received_usd: String,
}

/// True if the release failed: then what was planned must not read as what happened.
fn has_failed(state: &CommitState) -> bool {
    matches!(state, CommitState::Reverted | CommitState::Stopped { .. })
}

impl BurnPlan {
    fn sums(&self, state: &CommitState) -> BurnSums {
        let unless_failed = |usd| dollars(if has_failed(state) { Usd::ZERO } else { usd });
        BurnSums {
            paid: if has_failed(state) { "0".to_owned() } else { self.cost.to_string() },
            paid_usd: self.cost_usd.map(unless_failed),
            received_usd: unless_failed(self.value),
        }
    }

    fn sentence(&self) -> String {
        let symbols: Vec<&str> = self.assets.iter().map(|(row, ..)| row.symbol.as_str()).collect();
        let (cost, paid) = (&self.cost, &self.resource.symbol);
        format!("Burn {cost} {paid} and receive {} worth ${} from the jar", symbols.join(", "), dollars(self.value))
    }
}

/// Implementation of `execute_burn`; see [`TOOL_DEF`].
pub struct ExecuteBurn;

impl WriteTool for ExecuteBurn {
    const META: ToolMeta = ToolMeta {
        name: "execute_burn",
        description: "Releases assets of the jar of Uniswap's protocol fees: pays exactly the threshold of UNI, which is burnt, and \
                      receives the whole balance of each chosen asset. The release carries the contract's number, so it fails when \
                      somebody else is first. A release that is worth less than it costs, beyond the policy's loss limit, is \
                      refused. The allowance is exact and used up.",
        category: Category::Fees,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Medium,
        progress_steps: &[
            "Reading jar",
            "Simulating via Revm",
            "Approving token",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Burns the threshold of UNI for the assets in the protocol fee jar.",
        prompt_guidelines: Guidelines {
            thriving: "Only where get_tokenjar_balances shows a profit well above the gas; others compete for it.",
            cautious: "Only with a large profit: the UNI must be held before.",
            declining: "Not allowed.",
            terminal: "Not allowed.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: CHECKS,
        event_params: &["assets", "chain"],
        summary_fields: &["tx_hash", "paid", "received_usd"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = BurnPlan;

    fn example() -> Value {
        json!({"chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, BurnPlan), ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let account = context.world.account(None)?;
        if context.world.paper().is_some() {
            let what = "protocol fees are not released in paper mode";
            return Err(ToolError::new(ErrorCode::ValidationFailed, what));
        }
        context.step("Reading jar");
        let jar = Jar::read(chain).await?;
        let on_chain = crate::shared::balance(chain, account, &jar.resource).await?;
        let promised = context.world.promised(chain.network().chain_id, account, jar.resource_address)?;
        if on_chain.saturating_sub(promised) < jar.threshold {
            return Err(insufficient(&jar.resource, [jar.threshold, on_chain, promised])?);
        }
        let chosen = chosen(chain, &jar, params.assets.as_deref()).await?;
        let call = FeeCall::Release { nonce: jar.nonce, assets: chosen.iter().map(|row| row.asset).collect() };
        context.step("Simulating via Revm");
        let (standing, _) = allowances::read(chain, jar.resource_address, account, jar.releaser, &[]).await?;
        let mut legs = Vec::new();
        let first = !standing.of_token.is_zero()
            && allowances::needs_zero_first(chain, jar.resource_address, account, jar.releaser, jar.threshold).await?;
        if first {
            legs.push(approve(LegPurpose::Approve, jar.resource_address, jar.releaser, U256::ZERO));
        }
        legs.push(approve(LegPurpose::Approve, jar.resource_address, jar.releaser, jar.threshold));
        let mut calls: Vec<ForkCall> =
            legs.iter().map(|leg| ForkCall::new(account, leg.to, leg.data.clone())).collect();
        calls.push(ForkCall::new(account, jar.releaser, call.calldata(account)));
        let tokens: Vec<Address> = chosen.iter().map(|row| row.asset).filter(|asset| !asset.is_zero()).collect();
        let watch = WatchList { tokens, owners: vec![account], ..WatchList::default() };
        let options = SimulationOptions { watch, ..SimulationOptions::default() };
        let fork = chain.fork(BlockId::hash(jar.head.hash)).await?;
        let simulation = fork.simulate_with(&calls, &options).await?;
        if let Some(error) = failed(&simulation, "the release") {
            return Err(error);
        }
        let gas = simulation.outcomes.last().map(|outcome| outcome.gas_used).unwrap_or_default();
        let assets = received(chain, account, chosen, &simulation).await?;
        legs.push(PlanLeg {
            purpose: LegPurpose::Main,
            to: jar.releaser,
            value: U256::ZERO,
            data: call.calldata(account),
            gas_limit: gas.saturating_add(gas / 2).saturating_add(GAS_ROOM),
            slots: Vec::new(),
        });
        let value = sum(assets.iter().map(|(row, ..)| row.value))?;
        let plan = BurnPlan {
            account,
            resource: jar.resource.clone(),
            cost: jar.cost()?,
            cost_usd: jar.cost_usd(),
            nonce: jar.nonce,
            assets,
            value,
        };
        let inflows = plan.assets.iter().map(|(_, token, received)| Inflow {
            token: token.clone(),
            at_least: *received,
            expected: *received,
            recipient: account,
        });
        let (kind, at_most) = (AllowanceKind::Erc20, U256::ZERO);
        let bound = AllowanceBound { token: jar.resource.clone(), spender: jar.releaser, kind, at_most };
        let proposal = Proposal {
            legs,
            outflows: vec![Outflow { token: jar.resource, amount: jar.threshold }],
            inflows: inflows.collect(),
            allowances: vec![bound],
            ..context.proposal(chain.network().chain_id, account, ProposalIntent::ProtocolFees, &plan.sentence())
        };
        Ok((proposal, plan))
    }

    fn output(
        context: &CallContext,
        plan: BurnPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let sent = PlanReceipt::of(context, committed)?;
        let is_main = |leg: &&bardo_safety::pipeline::LegReport| {
            leg.purpose == LegPurpose::Main && leg.state == TxState::Confirmed
        };
        let main = committed.legs.iter().find(is_main);
        let sums = plan.sums(&committed.state);
        let rows = plan.assets.iter().filter(|_| !has_failed(&committed.state)).map(|(row, token, simulated)| {
            let transfers = main.filter(|_| !row.asset.is_zero()).map(|leg| {
                let own = leg.logs.iter().filter(|log| log.address == row.asset);
                let events = own.filter_map(|log| Erc20::Transfer::decode_log(log).ok());
                let ours = events.filter(|event| event.to == plan.account);
                ours.fold(U256::ZERO, |sum, event| sum.saturating_add(event.value))
            });
            let amount = TokenAmount::new(transfers.unwrap_or(*simulated), token.decimals)?;
            Ok(ReceivedRow { symbol: row.symbol.clone(), address: row.address.clone(), amount: amount.to_string() })
        });
        let received = rows.collect::<Result<Vec<_>, ToolError>>()?;
        let explanation = sent.explain(&plan.sentence());
        let output = Output {
            tx_hash: sent.tx_hash,
            block_number: sent.block_number,
            paid_token: plan.resource.symbol.to_string(),
            paid: sums.paid,
            paid_usd: sums.paid_usd,
            received,
            received_usd: sums.received_usd,
            nonce: plan.nonce.to_string(),
            gas_used: sent.gas_used,
            explorer_url: sent.explorer_url,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Assets to release: those that are named, else the first that have a price.
async fn chosen(chain: &ConnectedChain, jar: &Jar, named: Option<&[String]>) -> Result<Vec<AssetRow>, ToolError> {
    let held = jar.assets.iter().filter(|row| row.asset != jar.resource_address);
    let mut chosen: Vec<AssetRow> = Vec::new();
    match named {
        None => chosen.extend(held.filter(|row| row.value.is_some()).take(MOST_ASSETS).cloned()),
        Some(named) => {
            for name in named {
                let asset = match chain.token(name).await?.id {
                    TokenId::Native => Address::ZERO,
                    TokenId::Erc20(token) => token,
                };
                let row = held.clone().find(|row| row.asset == asset).ok_or_else(|| {
                    invalid("assets", &format_args!("the jar has nothing of {name} that can be released"))
                })?;
                if !chosen.iter().any(|one| one.asset == asset) {
                    chosen.push(row.clone());
                }
            }
        }
    }
    if chosen.is_empty() || chosen.len() > MOST_ASSETS {
        let what = format_args!("{} assets are chosen; 1 to {MOST_ASSETS} can be released", chosen.len());
        return Err(invalid("assets", &what).suggest("claim_fees collects what V3 pools owe into the jar."));
    }
    Ok(chosen)
}

/// Assets with their tokens and what the simulated release brings of each, in raw units.
async fn received(
    chain: &ConnectedChain,
    account: Address,
    chosen: Vec<AssetRow>,
    simulation: &Simulation,
) -> Result<Vec<(AssetRow, TokenInfo, U256)>, ToolError> {
    let mut assets = Vec::with_capacity(chosen.len());
    for row in chosen {
        let change = match row.asset.is_zero() {
            true => simulation.changes.account(account).map(|change| change.balance),
            false => simulation.changes.balance(row.asset, account),
        };
        let received = change.map_or(U256::ZERO, |change| change.after.saturating_sub(change.before));
        if received.is_zero() {
            let what = format_args!("a release brings nothing of {}", row.symbol);
            return Err(ToolError::new(ErrorCode::SafetySimulationFailed, what));
        }
        let token = match row.asset.is_zero() {
            true => TokenInfo::native(chain.network()),
            false => chain.token(&row.address).await?,
        };
        assets.push((row, token, received));
    }
    Ok(assets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bardo_base::text::SafeText;

    #[test]
    fn a_release_that_failed_has_paid_and_brought_nothing() {
        let usd = |text: &str| text.parse::<Usd>().unwrap();
        let token = |symbol: &str| TokenInfo {
            id: TokenId::Erc20(Address::repeat_byte(1)),
            symbol: SafeText::clean(symbol, 10),
            name: SafeText::clean(symbol, 10),
            decimals: 18,
            listed: true,
        };
        let plan = BurnPlan {
            account: Address::repeat_byte(2),
            resource: token("UNI"),
            cost: TokenAmount::new(U256::from(4), 0).unwrap(),
            cost_usd: Some(usd("30")),
            nonce: U256::ZERO,
            assets: Vec::new(),
            value: usd("40"),
        };
        let sums = |paid: &str, paid_usd: &str, received_usd: &str| BurnSums {
            paid: paid.to_owned(),
            paid_usd: Some(paid_usd.to_owned()),
            received_usd: received_usd.to_owned(),
        };
        assert_eq!(plan.sums(&CommitState::Done), sums("4", "30.00", "40.00"));
        assert_eq!(plan.sums(&CommitState::Reverted), sums("0", "0.00", "0.00"));
        let stopped = CommitState::Stopped { code: ErrorCode::Halted, why: "a stop".to_owned() };
        assert_eq!(plan.sums(&stopped), sums("0", "0.00", "0.00"));
    }
}
