//! Shared parts of the write tools: checks, parameter errors, the outcome of a plan without a trade, and explorer URLs.

use alloy::eips::BlockNumberOrTag;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::{CallContext, ConnectedChain};
use bardo_abi::erc20::Erc20;
use bardo_base::contracts::KnownContract;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::grouped;
use bardo_base::model::Check;
use bardo_base::units::TokenAmount;
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use golem_chain::fork::{ExecutionStatus, Simulation};
use golem_chain::multicall::CallBatch;
use golem_chain::network::Network;
use golem_chain::provider::ProviderError;
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::ratio::Ratio;

/// Checks for a write that does not trade.
pub(super) const CHECKS: &[Check] = &[
    Check::Halt,
    Check::PhaseGate,
    Check::TokenAllowlist,
    Check::SpendingLimit,
    Check::RateLimit,
    Check::BalanceBreaker,
    Check::PolicyCage,
    Check::Simulation,
];

/// Price impact shown in percent if the exact value does not parse as a float: the worst case. JSON has no NaN, and
/// `null` would read as no impact.
pub(super) const WORST_IMPACT: f64 = 100.0;

/// Chain parameter of the tools that the specification types as a number, while all others use a name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ChainNamed {
    /// EIP-155 id as a number.
    Id(u64),
    /// Name, alias, or id in decimal digits.
    Name(String),
}

impl ChainNamed {
    /// Name or id, as `ToolEnvironment::chain` accepts it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Id(id) => id.to_string(),
            Self::Name(name) => name.clone(),
        }
    }
}

/// Returns the named chain, or the network's first.
///
/// # Errors
/// The errors of [`ToolEnvironment::chain`](crate::engine::ToolEnvironment::chain); `SAFETY_NOT_ALLOWED` if the policy
/// forbids every chain, the connection error or `CHAIN_UNKNOWN` if none is connected.
pub(super) fn chain_or_first<'a>(
    context: &'a CallContext,
    named: Option<&ChainNamed>,
) -> Result<&'a ConnectedChain, ToolError> {
    let world = &context.world;
    match named {
        Some(named) => world.chain(&named.text()),
        None => world.some_chains()?.first().ok_or_else(|| match world.lost().first() {
            Some(lost) => lost.reason.clone().into(),
            None => ToolError::new(ErrorCode::ChainUnknown, "no chain is connected"),
        }),
    }
}

/// Returns the URL of a transaction in the network's explorer; on a devnet, a `bardo://` link.
pub(super) fn explorer_url(network: &Network, hash: &B256) -> String {
    match network.explorer {
        Some(explorer) => format!("{explorer}/tx/{hash}"),
        None => format!("bardo://tx/{hash}"),
    }
}

/// Outcome of a plan that does not trade.
pub(super) struct PlanReceipt {
    state: CommitState,
    on_paper: bool,
    /// Hash of the last transaction; `None` if none was sent.
    pub(super) tx_hash: Option<String>,
    /// Block of the last transaction; `None` before inclusion.
    pub(super) block_number: Option<u64>,
    /// Gas of all transactions, in gas units; the simulated gas if none is known.
    pub(super) gas_used: u64,
    /// URL of the last transaction; `None` if none was sent.
    pub(super) explorer_url: Option<String>,
}

impl PlanReceipt {
    /// Reads the outcome of a committed plan.
    ///
    /// # Errors
    /// `CHAIN_UNKNOWN` or a connection error if the plan's chain is not available.
    pub(super) fn of(context: &CallContext, committed: &CommitOutcome) -> Result<Self, ToolError> {
        let network = context.world.chain(&committed.payload.proposal().chain_id.to_string())?.network();
        let last = committed.legs.last();
        let gas = committed.legs.iter().filter_map(|leg| leg.gas_used).fold(0, u64::saturating_add);
        Ok(Self {
            state: committed.state.clone(),
            on_paper: committed.on_paper,
            tx_hash: last.map(|leg| leg.hash.to_string()),
            block_number: last.and_then(|leg| leg.block),
            gas_used: if gas == 0 { committed.simulated.gas_used } else { gas },
            explorer_url: last.map(|leg| explorer_url(network, &leg.hash)),
        })
    }

    /// True if the chain has done it: neither on paper nor simulated.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, CommitState::Done | CommitState::Placed)
    }

    /// Describes the outcome; `done` is the sentence for success.
    pub(super) fn explain(&self, done: &str) -> String {
        match &self.state {
            CommitState::Done | CommitState::Placed => format!("{done}."),
            CommitState::Simulated if self.on_paper => format!("{done}, on paper."),
            CommitState::Simulated => format!("Dry run: {done}."),
            CommitState::Unclear => format!("Sent and not settled yet: {done}."),
            CommitState::Reverted => "The transaction reverted; only gas was spent.".to_owned(),
            CommitState::Stopped { why, .. } => format!("Stopped partway: {why}."),
        }
    }
}

/// Whole tokens with all digits, in a sentence for people.
pub(super) fn whole(amount: &TokenAmount) -> String {
    grouped(&amount.to_string())
}

/// Builds the error for a simulation in which a call fails; `None` if none does.
pub(super) fn failed(simulation: &Simulation, what: &str) -> Option<ToolError> {
    let (_, outcome) = simulation.failure()?;
    let why = match &outcome.status {
        ExecutionStatus::Success => String::new(),
        ExecutionStatus::Reverted(why) => why.to_string(),
        ExecutionStatus::Halted(why) => why.to_string(),
    };
    Some(ToolError::new(ErrorCode::SafetySimulationFailed, format_args!("{what} fails: {why}")))
}

/// Builds the error for an invalid parameter.
pub(super) fn invalid(parameter: &str, what: &dyn std::fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::ValidationFailed, format_args!("parameter `{parameter}`: {what}"))
        .detail("parameter", parameter)
}

/// Display name of a contract that an address book or a label names: its own name for a known contract, else the label.
pub(super) fn contract_name(label: &str) -> String {
    let known = serde_json::from_value::<KnownContract>(serde_json::Value::from(label));
    known.map_or_else(|_| label.to_owned(), |contract| contract.name().to_owned())
}

/// Returns the contract of a token to pools and feeds: its own, or the wrapped token's for the native token.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` if the address book has no wrapped native token.
pub(super) fn contract_of(chain: &ConnectedChain, token: &TokenInfo) -> Result<Address, ToolError> {
    let network = chain.network();
    token.contract(network).ok_or_else(|| {
        let what = format_args!("the address book of {network} has no wrapped {}", token.symbol);
        ToolError::new(ErrorCode::ChainUnsupported, what)
    })
}

/// Converts a price in raw units to whole tokens of `out` for one whole token of `paid`, with 12 decimals.
pub(super) fn per_whole(raw: Option<Ratio>, paid: &TokenInfo, out: &TokenInfo) -> Option<String> {
    let ten = |decimals: u8| U256::from(10).checked_pow(U256::from(decimals)).map(Ratio::whole);
    Some(raw?.times(&ten(paid.decimals)?).over(&ten(out.decimals)?)?.to_fixed(12))
}

/// Builds the error for a balance that does not cover an action together with the open orders. Amounts in raw units.
pub(super) fn insufficient(token: &TokenInfo, [needed, held, promised]: [U256; 3]) -> Result<ToolError, ToolError> {
    let [needed, held, promised] = [needed, held, promised].map(|raw| TokenAmount::new(raw, token.decimals));
    let (needed, held, promised) = (needed?, held?, promised?);
    let [of_needed, of_held, of_promised] = [&needed, &held, &promised].map(|amount| grouped(&amount.to_string()));
    let what = format_args!(
        "parameter `amount`: not enough {}: {of_needed} needed, {of_held} held, {of_promised} reserved for orders",
        token.symbol
    );
    Ok(ToolError::new(ErrorCode::InsufficientBalance, what)
        .detail("parameter", "amount")
        .detail("token", token.symbol.as_str())
        .detail("needed", needed.to_string())
        .detail("held", held.to_string())
        .detail("promised", promised.to_string()))
}

/// Returns the balance of an account, in raw units.
///
/// # Errors
/// `TOKEN_INVALID` if the token does not answer, and the errors of the chain.
pub(super) async fn balance(chain: &ConnectedChain, account: Address, token: &TokenInfo) -> Result<U256, ToolError> {
    let TokenId::Erc20(contract) = token.id else {
        return chain.native_balance(account).await;
    };
    let mut calls = CallBatch::default();
    let balance = calls.push(contract, &Erc20::balanceOfCall { owner: account });
    let answers = chain.ask(calls).await?;
    balance.take(&answers).ok_or_else(|| {
        ToolError::new(
            ErrorCode::TokenInvalid,
            format_args!("the contract at {contract} does not respond to balanceOf"),
        )
    })
}

/// Returns the timestamp of a chain's latest block, in seconds since the Unix epoch.
///
/// # Errors
/// `CHAIN_INCONSISTENT` if there is no latest block, or the provider's error.
pub(super) async fn head_time(chain: &ConnectedChain) -> Result<u64, ToolError> {
    let head =
        chain.client.agreed().get_block_by_number(BlockNumberOrTag::Latest).await.map_err(ProviderError::from)?;
    head.map(|block| block.header.timestamp).ok_or_else(|| {
        ToolError::new(ErrorCode::ChainInconsistent, format_args!("{} has no latest block", chain.network()))
    })
}

#[cfg(test)]
mod tests {
    use super::contract_name;

    #[test]
    fn a_contract_has_its_own_name_and_a_label_stays() {
        assert_eq!(contract_name("universalRouterV2_1_0"), "Universal Router 2.1.0");
        assert_eq!(contract_name("permit2"), "Permit2");
        assert_eq!(contract_name("my vault"), "my vault");
    }
}
