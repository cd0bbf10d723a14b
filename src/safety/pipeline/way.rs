//! What is on its way already for the same as what is to be done: an order that can still be filled, which nothing
//! replaces, since both would be settled.

use std::time::Duration;

use alloy::primitives::Address;

use super::{Pipeline, Prepared, Refusal};
use crate::base::error::ErrorCode;
use crate::chain::network::Contract;
use crate::chain::token::{Token, TokenId};
use crate::safety::framed::Framed;
use crate::safety::orders::record::{self, Pair};

/// So long an order in the way is looked at before what would replace it is given up.
const LOOKING: Duration = Duration::from_secs(3);

impl Pipeline {
    /// Looks at the order that this would replace, where there is one: it may have ended since anybody looked last, such
    /// as by a cancellation of a moment ago.
    pub(super) async fn look_at_the_way(&self, prepared: &Prepared) -> Result<(), Refusal> {
        let framed = &prepared.preview.framed;
        let Some((pair, orders)) = traded(framed).zip(self.orders()) else { return Ok(()) };
        let whose = (framed.proposal().chain_id, framed.proposal().account);
        let wrapped = prepared.ground.network().book.contract(Contract::WrappedNative);
        let found = self.inner.store.read(|connection| record::in_the_way(connection, whose, &pair, wrapped));
        let Some(order) = found.map_err(|error| Refusal::new(ErrorCode::StoreUnavailable, error))? else {
            return Ok(());
        };
        // Where that cannot be done in time, or not at all, the order stands as it is written. On a task of its own: what
        // a look finds is told to its end.
        let orders = orders.clone();
        let looking = tokio::spawn(async move { orders.look(order).await });
        if let Ok(Ok(Err(error))) = tokio::time::timeout(LOOKING, looking).await {
            tracing::debug!(%error, %order, "the order in the way was not looked at");
        }
        Ok(())
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
