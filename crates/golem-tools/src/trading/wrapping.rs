//! Shared parts of `wrap_native` and `unwrap_native`.

use alloy::primitives::U256;
use alloy::sol_types::SolCall as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::{CallContext, ConnectedChain, ToolReply};
use crate::shared::{PlanReceipt, balance, insufficient, invalid, whole};
use bardo_abi::erc20::Weth9;
use bardo_base::error::ToolError;
use bardo_base::units::TokenAmount;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::{Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent};
use bardo_safety::wrapping::GAS_RESERVE;
use golem_chain::network::KnownContract;
use golem_chain::token::{TokenId, TokenInfo};

/// Steps of both tools.
pub(super) const STEPS: &[&str] =
    &["Reading balance", "Simulating via Revm", "Signing transaction", "Broadcasting", "Confirming receipt"];

/// Checks of both tools.
pub(super) use crate::shared::CHECKS;

/// Gas limit of a deposit or withdrawal. WETH9 uses 45,000; an account with code may need more to receive ether.
const WRAPPING_GAS: u64 = 100_000;

/// Parameters of `wrap_native` and `unwrap_native`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Amount in whole tokens, such as "0.5". "max" is the wallet's whole balance; for wrapping, minus a reserve
    /// for gas.
    amount: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Result of `wrap_native` and `unwrap_native`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Symbol of the token given.
    token_in: String,
    /// Symbol of the token received.
    token_out: String,
    /// Amount given, in whole tokens.
    amount: String,
    /// Amount received by the chain's balances, in whole tokens; of the last simulation before inclusion.
    received: String,
    /// Gas used, or the simulated gas, in gas units.
    gas_used: u64,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Direction of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Native token to wrapped token.
    Wrap,
    /// Wrapped token to native token.
    Unwrap,
}

/// Values kept from preparation for the result.
pub struct WrappingPlan {
    given: TokenInfo,
    received: TokenInfo,
    amount: TokenAmount,
}

impl WrappingPlan {
    fn summary(&self) -> String {
        format!("{} {} for as much {}", whole(&self.amount), self.given.symbol, self.received.symbol)
    }
}

pub(super) async fn prepare(
    context: &CallContext,
    params: &Params,
    direction: Direction,
) -> Result<(Proposal, WrappingPlan), ToolError> {
    let chain = context.world.chain(&params.chain)?;
    let account = context.world.account(None)?;
    context.step("Reading balance");
    let contract = chain.contract(KnownContract::WrappedNative)?;
    let wrapped = chain.token(&contract.to_string()).await?;
    let native = TokenInfo::native(chain.network());
    let (given, received) = match direction {
        Direction::Wrap => (native, wrapped),
        Direction::Unwrap => (wrapped, native),
    };
    let held = balance(chain, account, &given).await?;
    let held = context.world.balance(chain.network().chain_id, account, given.id, held)?;
    let promised = match given.id {
        // Open orders keep their input: unwrapping it would make them fail.
        TokenId::Erc20(token) => context.world.promised(chain.network().chain_id, account, token)?,
        TokenId::Native => U256::ZERO,
    };
    let amount = parse_amount(chain, &given, &params.amount, [held, promised]).await?;
    let (value, data) = match direction {
        Direction::Wrap => (amount, Weth9::depositCall {}.abi_encode()),
        Direction::Unwrap => (U256::ZERO, Weth9::withdrawCall { wad: amount }.abi_encode()),
    };
    let plan = WrappingPlan {
        amount: TokenAmount::new(amount, given.decimals)?,
        given: given.clone(),
        received: received.clone(),
    };
    let expected = format!("Exchange {}", plan.summary());
    let proposal = Proposal {
        legs: vec![PlanLeg {
            purpose: LegPurpose::Main,
            to: contract,
            value,
            data: data.into(),
            gas_limit: WRAPPING_GAS,
            slots: Vec::new(),
        }],
        outflows: vec![Outflow { token: given, amount }],
        inflows: vec![Inflow { token: received, at_least: amount, expected: amount, recipient: account }],
        ..context.proposal(chain.network().chain_id, account, ProposalIntent::Wrap, &expected)
    };
    Ok((proposal, plan))
}

/// Parses the amount into raw units, of the balance without what open orders may take. Of the native token, a reserve
/// for gas stays: without it, nothing could be unwrapped again.
///
/// # Errors
/// An error if the amount is zero or exceeds what is free.
async fn parse_amount(
    chain: &ConnectedChain,
    token: &TokenInfo,
    amount: &str,
    [held, promised]: [U256; 2],
) -> Result<U256, ToolError> {
    let price = U256::from(chain.client.gas_price().await?);
    let reserve = match token.id {
        // At four times the current price: the pipeline bounds fees by three times the base fee plus twice the tip, and
        // checks that the reserve stays.
        TokenId::Native => U256::from(GAS_RESERVE + WRAPPING_GAS).saturating_mul(price).saturating_mul(U256::from(4)),
        TokenId::Erc20(_) => U256::ZERO,
    };
    let owned = held.saturating_sub(promised);
    let free = owned.saturating_sub(reserve);
    let wanted = match amount.trim().eq_ignore_ascii_case("max") {
        true => free,
        false => TokenAmount::parse(amount, token.decimals)?.raw(),
    };
    if wanted.is_zero() {
        return Err(invalid("amount", &format_args!("there is no {} to exchange", token.symbol)));
    }
    // Both tokens are worth the same per unit.
    let cost = U256::from(WRAPPING_GAS).saturating_mul(price);
    if wanted < cost {
        let cost = TokenAmount::new(cost, token.decimals)?;
        let what =
            format_args!("the gas of the exchange can cost as much as {cost} {}, more than this amount", token.symbol);
        return Err(invalid("amount", &what));
    }
    if wanted > owned {
        return Err(insufficient(token, [wanted, held, promised])?);
    }
    if wanted > free {
        let [free, reserve] = [free, reserve].map(|raw| TokenAmount::new(raw, token.decimals));
        let what = format_args!(
            "at most {} {} can be wrapped now, because {} stay for gas; use that or \"max\"",
            free?, token.symbol, reserve?
        );
        return Err(invalid("amount", &what));
    }
    Ok(wanted)
}

pub(super) fn output(
    context: &CallContext,
    plan: &WrappingPlan,
    committed: &CommitOutcome,
) -> Result<ToolReply<Output>, ToolError> {
    let sent = PlanReceipt::of(context, committed)?;
    let moves = committed.truth.as_ref().map_or(committed.simulated.moves.as_slice(), |truth| &truth.moves);
    let received = moves.iter().find(|moved| moved.token == plan.received.id);
    let received = received.map_or(U256::ZERO, |moved| moved.after.saturating_sub(moved.before));
    let explanation = sent.explain(&format!("Exchanged {}", plan.summary()));
    let output = Output {
        tx_hash: sent.tx_hash,
        block_number: sent.block_number,
        token_in: plan.given.symbol.to_string(),
        token_out: plan.received.symbol.to_string(),
        amount: plan.amount.to_string(),
        received: TokenAmount::new(received, plan.received.decimals)?.to_string(),
        gas_used: sent.gas_used,
        explorer_url: sent.explorer_url,
    };
    Ok(ToolReply::new(output, explanation))
}
