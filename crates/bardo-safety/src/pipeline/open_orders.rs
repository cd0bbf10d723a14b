//! Open orders for the same pair. An order that can still be filled blocks a new trade or order, since both could be
//! settled. Orders of agents are cancelled for the operator's fair exits.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolCall as _;

use super::{PhaseRequest, Pipeline, PipelineRefusal, Preview};
use crate::account::Account;
use crate::orders::record::{self, ManualExit, OrderRecord, TradedPair};
use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use crate::signing_payload::SigningPayload;
use crate::simulate::SimulatedEffects;
use bardo_abi::permit2::Permit2;
use bardo_base::error::ErrorCode;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use golem_chain::network::KnownContract;
use golem_chain::permit2::nonce_position;
use golem_chain::token::{TokenId, TokenInfo};

/// Longest wait for the order poll after a cancellation.
const MAX_WAIT_FOR_POLL: Duration = Duration::from_secs(3);

/// Gas limit of the transaction that invalidates an order's nonce, in gas units.
const CANCEL_GAS: u64 = 120_000;

/// Cancellation of an agent's order that blocks an exit of the operator.
#[derive(Debug, Clone)]
pub struct BlockingOrderCancel {
    /// Preview of the cancellation.
    pub preview: Preview,
    /// Hash of the order to cancel.
    pub order: B256,
}

impl Pipeline {
    /// Polls the account's orders after a cancellation, so that the ledger does not keep the cancelled order as open.
    pub(super) async fn poll_cancelled_orders(&self, payload: &SigningPayload) {
        let Some(orders) = self.orders().cloned().filter(|_| payload.proposal().intent == ProposalIntent::CancelOrder)
        else {
            return;
        };
        // On its own task, because a poll must finish and report what it finds. If it takes too long or fails, the
        // order stays open in the ledger until the next poll.
        let (chain_id, account) = (payload.proposal().chain_id, payload.account());
        let looking = tokio::spawn(async move { orders.poll_account(chain_id, account).await });
        if let Ok(Ok(Err(error))) = tokio::time::timeout(MAX_WAIT_FOR_POLL, looking).await {
            tracing::debug!(%error, "the orders were not read after one was cancelled");
        }
    }

    /// Previews the cancellation of the oldest order that blocks `preview`, a fair exit by the operator. Call it and
    /// commit the result under the account lock, so that no other order is signed meanwhile. `None` if nothing blocks
    /// the exit, or if an order of the operator's own does: only the operator cancels that one.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the orders cannot be read, or if the cancellation is blocked.
    pub async fn preview_clearing(
        &self,
        preview: &Preview,
        account: Arc<dyn Account>,
        phase_request: PhaseRequest,
    ) -> Result<Option<BlockingOrderCancel>, PipelineRefusal> {
        let payload = &preview.payload;
        let (chain_id, owner) = (payload.proposal().chain_id, payload.account());
        let (Some(pair), Some(exit)) = (traded(payload), exit_by_hand(payload, &preview.simulated)) else {
            return Ok(None);
        };
        // Paper mode signs nothing, so there is no order to cancel.
        if self.inner.paper.is_some() {
            return Ok(None);
        }
        let wrapped = self.reader(chain_id)?.network().book.contract(KnownContract::WrappedNative);
        let open = self
            .inner
            .store
            .read(|connection| record::conflicting_orders(connection, (chain_id, owner), &pair, wrapped, Some(exit)));
        let open = open.map_err(|error| PipelineRefusal::new(ErrorCode::StoreUnavailable, error))?;
        if open.iter().any(OrderRecord::is_manual) {
            return Ok(None);
        }
        let Some((order, cancellation)) = open.first().and_then(|order| Some((order.hash, cancellation(order)?)))
        else {
            return Ok(None);
        };
        let proposal = Proposal {
            intent: ProposalIntent::CancelOrder,
            legs: vec![cancellation],
            outflows: Vec::new(),
            inflows: Vec::new(),
            allowances: Vec::new(),
            trade: None,
            recipients: vec![owner],
            order: None,
            arrival: None,
            expected_outcome: SafeText::clean("an agent's order that delays this exit is cancelled", 200),
            ..payload.proposal().clone()
        };
        let preview = Box::pin(self.preview(proposal, account, phase_request)).await?;
        Ok(Some(BlockingOrderCancel { preview, order }))
    }
}

impl Pipeline {
    /// Returns the account's open orders for the pair that the action trades, the oldest first: an operator who trades it
    /// again can have both filled.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the orders cannot be read.
    pub fn open_orders_of_pair(&self, preview: &Preview) -> Result<Vec<OrderRecord>, PipelineRefusal> {
        let payload = &preview.payload;
        let (chain_id, owner) = (payload.proposal().chain_id, payload.account());
        let Some(pair) = traded(payload).filter(|_| self.inner.paper.is_none()) else { return Ok(Vec::new()) };
        let wrapped = self.reader(chain_id)?.network().book.contract(KnownContract::WrappedNative);
        let read = |connection: &rusqlite::Connection| {
            record::conflicting_orders(connection, (chain_id, owner), &pair, wrapped, None)
        };
        self.inner.store.read(read).map_err(|error| PipelineRefusal::new(ErrorCode::StoreUnavailable, error))
    }
}

/// Returns the call that invalidates an order's Permit2 nonce; `None` if the order has no such nonce.
fn cancellation(order: &OrderRecord) -> Option<PlanLeg> {
    let (word, bit) = nonce_position(order.message.unordered_nonce()?);
    let call = Permit2::invalidateUnorderedNoncesCall { wordPos: word, mask: U256::from(1) << bit };
    Some(PlanLeg {
        purpose: LegPurpose::Main,
        to: order.message.verifier(),
        value: U256::ZERO,
        data: call.abi_encode().into(),
        gas_limit: CANCEL_GAS,
        slots: Vec::new(),
    })
}

/// Returns the amount given and the balance of the action's first outflow token, in raw units. `None` unless it is a
/// fair exit by the operator.
pub(super) fn exit_by_hand(payload: &SigningPayload, simulated: &SimulatedEffects) -> Option<ManualExit> {
    let proposal = payload.proposal();
    if proposal.golem_id != GolemId::operator() || !simulated.reduce_only {
        return None;
    }
    let token = proposal.outflows.first()?.token.id;
    let outflows = proposal.outflows.iter().filter(|flow| flow.token.id == token);
    let gives = outflows.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount));
    let balance = simulated.moves.iter().find(|moved| moved.token == token)?.before;
    Some(ManualExit { balance, gives })
}

/// Returns the token pair of a trade or order; `None` for any other action.
pub(super) fn traded(payload: &SigningPayload) -> Option<TradedPair> {
    let proposal = payload.proposal();
    if let Some(pair) = proposal.order.as_ref().and_then(|order| TradedPair::of(&order.message)) {
        return Some(pair);
    }
    let contract = |token: &TokenInfo| match token.id {
        TokenId::Native => Address::ZERO,
        TokenId::Erc20(address) => address,
    };
    let trade = proposal.trade.as_ref()?;
    Some(TradedPair { given: contract(&trade.token_in), wanted: vec![contract(&trade.token_out)], destination: None })
}
