//! What is on its way already for the same as what is to be done: an order that can still be filled, which nothing
//! replaces, since both would be settled.

use std::time::Duration;

use alloy::primitives::Address;

use super::Pipeline;
use crate::framed::Framed;
use crate::orders::record::Pair;
use crate::proposal::Intent;
use golem_chain::token::{Token, TokenId};

/// So long orders are looked at after one was made void.
const LOOKING: Duration = Duration::from_secs(3);

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
