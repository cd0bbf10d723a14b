//! MEV protection of a trade: the choice between auction and pools, the visibility of the transaction, and advice to
//! split large trades.

use alloy::primitives::U256;
use serde::Serialize;

use crate::engine::{ConnectedChain, ToolEnvironment};
use bardo_abi::erc20::Erc20;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::dollars;
use bardo_base::units::Usd;
use golem_chain::multicall::CallBatch;
use golem_chain::sender;
use golem_protocols::uniswap::discovery::PoolSnapshot;
use golem_protocols::uniswap::order::OrderKind;
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::routing::Route;

/// Share of a pool's token balance above which a trade should be split, in basis points.
pub(super) const SPLIT_ABOVE: u64 = 100;

/// Chosen route type of a swap, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RouteChoice {
    /// Auction kind; `None` if the swap goes through pools.
    pub(super) auction: Option<OrderKind>,
    /// Reason for the choice, shown to the caller.
    pub(super) why: String,
}

/// Criteria for the choice between auction and pools.
#[derive(Debug, Clone, Copy)]
pub(super) struct RouteCriteria {
    /// True if the caller prefers an auction.
    pub(super) preferred: bool,
    /// True if the account signs messages.
    pub(super) signs: bool,
    /// True if the swap pays with the native token.
    pub(super) native_in: bool,
    /// Value of the swap in dollars; `None` without a price.
    pub(super) value: Option<Usd>,
}

impl RouteCriteria {
    /// Chooses the route type of the swap on a chain.
    pub(super) fn choose_route(self, world: &ToolEnvironment, chain_id: u64) -> RouteChoice {
        self.decided(world.auction(chain_id), world.auction_from())
    }

    /// Makes the choice. `service` is the auction kind of the connected order service; `from` is the policy's
    /// `uniswapx_from_usd`.
    fn decided(self, service: Option<OrderKind>, from: Option<Usd>) -> RouteChoice {
        let pools = |why: String| RouteChoice { auction: None, why };
        if !self.preferred {
            return pools("no auction was requested".to_owned());
        }
        let Some(kind) = service else {
            return pools("no order service is connected, so no filler would fill an auction".to_owned());
        };
        if !self.signs {
            return pools(
                "the owner of the tokens must sign an order, and this account acts for another one".to_owned(),
            );
        }
        if self.native_in {
            return pools("an order sells ERC-20 tokens, and this swap pays with the native token".to_owned());
        }
        let Some(from) = from else {
            return pools("the policy turns auctions off (uniswapx_from_usd)".to_owned());
        };
        match self.value {
            Some(value) if value >= from => RouteChoice {
                auction: Some(kind),
                why: "fillers compete for it outside the public mempool, and the filler pays the gas".to_owned(),
            },
            Some(_) => pools(format!(
                "this swap is worth less than {} (uniswapx_from_usd), so a filler's margin for gas would outweigh the \
                 protection",
                dollars(from)
            )),
            None => pools("its dollar value is unknown, so an auction cannot be compared".to_owned()),
        }
    }
}

/// Returns the largest share of a pool's token balance that the route takes. In-range liquidity of V3 is virtual and
/// can far exceed a narrow position's balance, so actual balances count. A V4 pool has no balance of its own: what the
/// ticks of the snapshot hold counts, which is no more than the pool holds.
///
/// # Errors
/// `TOKEN_INVALID` if a token does not answer `balanceOf` or a pool holds none of it, and the errors of the chain.
pub(super) async fn liquidity_share(
    chain: &ConnectedChain,
    route: &Route,
    snapshot: &PoolSnapshot,
) -> Result<Ratio, ToolError> {
    let mut calls = CallBatch::default();
    let hops: Vec<_> = route.legs.iter().flat_map(|leg| &leg.hops).collect();
    let held: Vec<_> = hops
        .iter()
        .map(|hop| Some(calls.push(hop.token_out, &Erc20::balanceOfCall { owner: hop.pool.contract()? })))
        .collect();
    let answers = chain.ask_at(calls, snapshot.block_hash).await?;
    let mut largest = Ratio::whole(U256::ZERO);
    for (hop, held) in hops.into_iter().zip(held) {
        let held = match held {
            Some(held) => held.take(&answers),
            None => snapshot.pools.get(hop.pool).and_then(|pool| pool.held(hop.token_out)),
        };
        let share = held.and_then(|held| Ratio::of(hop.amount_out, held)).ok_or_else(|| {
            ToolError::new(
                ErrorCode::TokenInvalid,
                format_args!("{} does not return the balance of {}", hop.token_out, hop.pool),
            )
        })?;
        largest = largest.max(share);
    }
    Ok(largest)
}

/// Subject of a protective measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MeasureSubject {
    /// Minimum output of the trade.
    Slippage,
    /// Visibility of the trade before it settles.
    Visibility,
    /// Time after which the trade can no longer settle.
    Deadline,
    /// Trade size relative to the pools.
    Size,
}

/// Measure that protects a trade, or advice for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct MevMeasure {
    /// Subject of the measure.
    pub about: MeasureSubject,
    /// Sentence that describes the measure.
    pub words: String,
}

impl MevMeasure {
    fn of(about: MeasureSubject, words: impl Into<String>) -> Self {
        Self { about, words: words.into() }
    }
}

/// Returns advice to split a trade that is large for its pools; `None` if it is small enough. Without the pools'
/// balances, the price impact decides. It says less: a pool can be deep at the current price and still hold little.
pub(super) fn size_advice(share: Option<&Ratio>, impact: &Ratio) -> Option<MevMeasure> {
    let above = |part: &Ratio| Ratio::of(U256::from(SPLIT_ABOVE), U256::from(10_000)).is_none_or(|most| *part > most);
    let advice = "intel_assess_mev_risk shows how to split it";
    let words = match share {
        Some(share) if above(share) => {
            format!("it takes {} % of the balance of a pool on its route; {advice}", share.to_percent(2))
        }
        None if above(impact) => {
            format!("it moves the price by {} %, and the pools' balances are unknown; {advice}", impact.to_percent(2))
        }
        Some(_) | None => return None,
    };
    Some(MevMeasure::of(MeasureSubject::Size, words))
}

/// Visibility of a trade before it settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TradeVisibility {
    /// Order submitted to its service.
    Order,
    /// Order that was not submitted.
    Unplaced,
    /// Transaction sent by this route.
    Sent(sender::SendRoute),
    /// Nothing was sent.
    Nothing,
}

/// Lists all protective measures of a trade.
pub(super) fn measures(sight: TradeVisibility, size: Option<&MevMeasure>) -> Vec<MevMeasure> {
    let floor = match sight {
        TradeVisibility::Order | TradeVisibility::Unplaced => "the minimum output is signed in the order",
        TradeVisibility::Sent(_) | TradeVisibility::Nothing => "the minimum output is in the calldata",
    };
    let seen = match sight {
        TradeVisibility::Order => "the order goes to its service, not to a mempool",
        TradeVisibility::Sent(sender::SendRoute::Private) => {
            "sent through the private relay only, because it is large for mainnet"
        }
        TradeVisibility::Sent(sender::SendRoute::Public) => "sent through the public mempool",
        TradeVisibility::Nothing | TradeVisibility::Unplaced => "nothing was sent",
    };
    let told = [
        MevMeasure::of(MeasureSubject::Slippage, floor),
        MevMeasure::of(MeasureSubject::Visibility, seen),
        MevMeasure::of(MeasureSubject::Deadline, "nobody can settle it later"),
    ];
    told.into_iter().chain(size.cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Option<Usd> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn an_auction_is_chosen_where_it_is_possible_and_pays() {
        let all = RouteCriteria { preferred: true, signs: true, native_in: false, value: usd("1000") };
        let (service, from) = (Some(OrderKind::DutchV2), usd("1000"));
        let taken = all.decided(service, from);
        assert_eq!(taken.auction, service);
        assert!(taken.why.contains("compete"), "{}", taken.why);
        for kind in [OrderKind::DutchV3, OrderKind::Priority] {
            assert_eq!(all.decided(Some(kind), from).auction, Some(kind));
        }
        // Each obstacle alone, with its reason.
        for (wanted, service, why) in [
            (RouteCriteria { preferred: false, ..all }, service, "no auction was requested"),
            (all, None, "no order service"),
            (RouteCriteria { signs: false, ..all }, service, "acts for another"),
            (RouteCriteria { native_in: true, ..all }, service, "native token"),
            (RouteCriteria { value: None, ..all }, service, "value is unknown"),
            (RouteCriteria { value: usd("999.99"), ..all }, service, "less than $1,000.00"),
        ] {
            let way = wanted.decided(service, from);
            assert_eq!(way.auction, None, "{wanted:?}");
            assert!(way.why.contains(why), "{}", way.why);
        }
    }

    #[test]
    fn an_auction_begins_at_the_policys_dollars_and_not_a_cent_below() {
        let of = |value| RouteCriteria { preferred: true, signs: true, native_in: false, value: usd(value) };
        let goes = |value, from: Option<Usd>| of(value).decided(Some(OrderKind::DutchV2), from).auction.is_some();
        for (value, auction) in [("0", false), ("999.999999", false), ("1000", true), ("1000.01", true)] {
            assert_eq!(goes(value, usd("1000")), auction, "{value}");
        }
        assert_eq!([goes("0", usd("0")), goes("249.99", usd("250")), goes("250", usd("250"))], [true, false, true]);
        assert!(!goes("1000000", None), "a policy that says none");
    }

    #[test]
    fn splitting_is_advised_above_a_hundredth_of_a_pool() {
        let part = |points: u64| Ratio::of(U256::from(points), U256::from(10_000)).unwrap();
        let (small, large) = (part(100), part(101));
        // If the pools' balances are known, they decide, whatever the price impact.
        assert_eq!(size_advice(Some(&small), &large), None);
        assert!(size_advice(Some(&large), &small).unwrap().words.contains("takes 1.01 % of the balance of a pool"));
        assert_eq!(size_advice(None, &small), None);
        assert!(size_advice(None, &large).unwrap().words.contains("moves the price by 1.01 %"));
        let told = measures(TradeVisibility::Order, size_advice(Some(&large), &small).as_ref());
        let about: Vec<_> = told.iter().map(|one| one.about).collect();
        assert_eq!(
            about,
            [MeasureSubject::Slippage, MeasureSubject::Visibility, MeasureSubject::Deadline, MeasureSubject::Size]
        );
        assert_eq!(
            serde_json::to_value(&told[2]).unwrap(),
            serde_json::json!({ "about": "deadline", "words": "nobody can settle it later" })
        );
    }

    #[test]
    fn the_visibility_of_an_action_is_described_as_it_is() {
        for (sight, words) in [
            (TradeVisibility::Order, "not to a mempool"),
            (TradeVisibility::Sent(sender::SendRoute::Private), "private relay only"),
            (TradeVisibility::Sent(sender::SendRoute::Public), "public mempool"),
            (TradeVisibility::Nothing, "nothing was sent"),
            (TradeVisibility::Unplaced, "nothing was sent"),
        ] {
            let told = measures(sight, None);
            assert!(
                told.iter().any(|one| one.about == MeasureSubject::Visibility && one.words.contains(words)),
                "{told:?}"
            );
            let by_order = matches!(sight, TradeVisibility::Order | TradeVisibility::Unplaced);
            assert_eq!(told.iter().any(|one| one.words.contains("calldata")), !by_order, "{told:?}");
        }
    }
}
