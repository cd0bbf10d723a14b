//! What write tools of any topic share: the checks they run under, parameters that cannot be used, what became of a plan
//! that trades nothing, and where to look at it.

use alloy::eips::BlockNumberOrTag;
use alloy::primitives::{B256, U256};
use alloy::providers::Provider as _;

use crate::engine::{CallContext, WorldChain};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::grouped;
use bardo_base::model::Check;
use bardo_base::units::TokenAmount;
use bardo_safety::pipeline::{Committed, State};
use golem_chain::network::Network;
use golem_chain::provider::ProviderError;
use golem_chain::token::Token;

/// The checks that a write runs under which trades nothing.
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

/// What a price impact is shown as, in percent, that could not be written as a figure: the worst. No number would be none
/// in JSON, and read as nothing.
pub(super) const WORST_IMPACT: f64 = 100.0;

/// Where to look at a transaction: the network's explorer, or, on a devnet, this program's own page of it.
pub(super) fn explorer_url(network: &Network, hash: &B256) -> String {
    match network.explorer {
        Some(explorer) => format!("{explorer}/tx/{hash}"),
        None => format!("bardo://tx/{hash}"),
    }
}

/// What can be told of a plan that trades nothing.
pub(super) struct Sent {
    state: State,
    on_paper: bool,
    /// Hash of the last transaction.
    pub(super) tx_hash: Option<String>,
    /// Block it is in.
    pub(super) block_number: Option<u64>,
    /// Gas of all of them, in units.
    pub(super) gas_used: u64,
    /// Where to look at it.
    pub(super) explorer_url: Option<String>,
}

impl Sent {
    /// Of what became of a plan.
    pub(super) fn of(context: &CallContext, committed: &Committed) -> Result<Self, ToolError> {
        let network = context.world.chain(&committed.framed.proposal().chain_id.to_string())?.network();
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

    /// `done` as it stands: done, rehearsed, or not known.
    pub(super) fn explain(&self, done: &str) -> String {
        match &self.state {
            State::Done | State::Placed => format!("{done}."),
            State::Simulated if self.on_paper => format!("{done}, on paper."),
            State::Simulated => format!("Dry run: {done}."),
            State::Unclear => format!("Sent and not settled yet: {done}."),
            State::Reverted => "The transaction reverted; only gas was spent.".to_owned(),
            State::Stopped { why, .. } => format!("Stopped partway: {why}."),
        }
    }
}

/// A parameter that cannot be used.
pub(super) fn invalid(parameter: &str, what: &dyn std::fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::ValidationFailed, format_args!("parameter `{parameter}`: {what}"))
        .detail("parameter", parameter)
}

/// The wallet holds less of a token than an action and the open orders need together. Amounts in raw units.
pub(super) fn insufficient(token: &Token, [needed, held, promised]: [U256; 3]) -> Result<ToolError, ToolError> {
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

/// The time of a chain's latest block.
pub(super) async fn head_time(chain: &WorldChain) -> Result<u64, ToolError> {
    let head =
        chain.client.agreed().get_block_by_number(BlockNumberOrTag::Latest).await.map_err(ProviderError::from)?;
    head.map(|block| block.header.timestamp).ok_or_else(|| {
        ToolError::new(ErrorCode::ChainInconsistent, format_args!("{} has no latest block", chain.network()))
    })
}
