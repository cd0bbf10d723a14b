//! What is on its way already for the same as what is to be done: an order that can still be filled, which nothing
//! replaces, since both would be settled. Orders of agents give way to the operator's fair exits: they are cancelled first.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::SolCall as _;

use super::{Asked, Pipeline, Preview, Refusal};
use crate::account::Account;
use crate::framed::Framed;
use crate::orders::record::{self, ExitByHand, Pair, Record};
use crate::proposal::{Intent, Leg, Proposal, Purpose};
use crate::simulate::Simulated;
use bardo_abi::permit2::Permit2;
use bardo_base::error::ErrorCode;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use golem_chain::network::Contract;
use golem_chain::permit2::nonce_position;
use golem_chain::token::{Token, TokenId};

/// So long orders are looked at after one was made void.
const LOOKING: Duration = Duration::from_secs(3);

/// Gas limit of the transaction that uses up an order's nonce, in gas units.
const CANCEL_GAS: u64 = 120_000;

/// Cancellation of an agent's order that holds up an exit of the operator's.
#[derive(Debug, Clone)]
pub struct Clearing {
    /// Preview of the cancellation.
    pub preview: Preview,
    /// Hash of the order.
    pub order: B256,
}

impl Pipeline {
    /// After an order was made void, has the ledger know it: until then it would stand in the way of the next one.
    pub(super) async fn look_after(&self, framed: &Framed) {
        let Some(orders) = self.orders().cloned().filter(|_| framed.proposal().intent == Intent::CancelOrder) else {
            return;
        };
        // On a task of its own: what a look finds is told to its end. Where that cannot be done in time, or not at all,
        // the order stands as it is written until somebody looks.
        let (chain_id, account) = (framed.proposal().chain_id, framed.account());
        let looking = tokio::spawn(async move { orders.look_at_those_of(chain_id, account).await });
        if let Ok(Ok(Err(error))) = tokio::time::timeout(LOOKING, looking).await {
            tracing::debug!(%error, "the orders were not looked at after one was made void");
        }
    }

    /// Previews the cancellation of the oldest order that holds up `preview`, a fair exit by the operator's own hand. To be
    /// asked and committed in the account's turn: no other order is signed meanwhile. `None` where nothing holds it up, and
    /// where an order of the operator's own does: that one is theirs to cancel.
    ///
    /// # Errors
    /// [`Refusal`] where the orders cannot be read, or where something is against the cancellation.
    pub async fn preview_clearing(
        &self,
        preview: &Preview,
        account: Arc<dyn Account>,
        asked: Asked,
    ) -> Result<Option<Clearing>, Refusal> {
        let framed = &preview.framed;
        let (chain_id, owner) = (framed.proposal().chain_id, framed.account());
        let (Some(pair), Some(exit)) = (traded(framed), exit_by_hand(framed, &preview.simulated)) else {
            return Ok(None);
        };
        // On paper nothing is signed, orders included.
        if self.inner.paper.is_some() {
            return Ok(None);
        }
        let wrapped = self.ground(chain_id)?.network().book.contract(Contract::WrappedNative);
        let open = self
            .inner
            .store
            .read(|connection| record::in_the_way(connection, (chain_id, owner), &pair, wrapped, Some(exit)));
        let open = open.map_err(|error| Refusal::new(ErrorCode::StoreUnavailable, error))?;
        if open.iter().any(Record::is_by_hand) {
            return Ok(None);
        }
        let Some((order, cancellation)) = open.first().and_then(|order| Some((order.hash, cancellation(order)?)))
        else {
            return Ok(None);
        };
        let proposal = Proposal {
            intent: Intent::CancelOrder,
            legs: vec![cancellation],
            outflows: Vec::new(),
            inflows: Vec::new(),
            allowances: Vec::new(),
            trade: None,
            recipients: vec![owner],
            order: None,
            expected_outcome: SafeText::clean("an agent's order that holds up this exit is cancelled", 200),
            ..framed.proposal().clone()
        };
        let preview = self.preview(proposal, account, asked).await?;
        Ok(Some(Clearing { preview, order }))
    }
}

/// The call that uses up the nonce of an order; `None` where it has none.
fn cancellation(order: &Record) -> Option<Leg> {
    let (word, bit) = nonce_position(order.message.unordered_nonce()?);
    let call = Permit2::invalidateUnorderedNoncesCall { wordPos: word, mask: U256::from(1) << bit };
    Some(Leg {
        purpose: Purpose::Main,
        to: order.message.verifier(),
        value: U256::ZERO,
        data: call.abi_encode().into(),
        gas_limit: CANCEL_GAS,
        slots: Vec::new(),
    })
}

/// What an action gives of its one token, and what the account has of it, where it is a fair exit by the operator's own hand.
pub(super) fn exit_by_hand(framed: &Framed, simulated: &Simulated) -> Option<ExitByHand> {
    let proposal = framed.proposal();
    if proposal.golem_id != GolemId::operator() || !simulated.reduce_only {
        return None;
    }
    let token = proposal.outflows.first()?.token.id;
    let outflows = proposal.outflows.iter().filter(|flow| flow.token.id == token);
    let gives = outflows.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount));
    let balance = simulated.moves.iter().find(|moved| moved.token == token)?.before;
    Some(ExitByHand { balance, gives })
}

/// What a trade, or an order, gives and wants: while an order for the same can still be filled, nothing replaces it.
pub(super) fn traded(framed: &Framed) -> Option<Pair> {
    let proposal = framed.proposal();
    if let Some(pair) = proposal.order.as_ref().and_then(|order| Pair::of(&order.message)) {
        return Some(pair);
    }
    let contract = |token: &Token| match token.id {
        TokenId::Native => Address::ZERO,
        TokenId::Erc20(address) => address,
    };
    let trade = proposal.trade.as_ref()?;
    Some(Pair { given: contract(&trade.token_in), wanted: vec![contract(&trade.token_out)], destination: None })
}
