//! Amounts that a fill moved for one order. A filler may settle several orders of the same account in one transaction,
//! and may pay the account for something else in it.
//!
//! A reactor takes the inputs of all orders of a batch first. Then it pays the outputs of one order after the other,
//! and emits `Fill` after those of each (`_prepare` and `_fill` of UniswapX's `BaseReactor`, the same in every version:
//! <https://github.com/Uniswap/UniswapX/blob/main/src/reactors/BaseReactor.sol>). So the outputs of an order are the
//! last transfers before its own `Fill`.

use alloy::primitives::{Address, B256, Log, U256};
use alloy::sol_types::SolEvent as _;

use bardo_abi::erc20::Erc20;
use bardo_abi::uniswapx::Reactor;
use golem_protocols::uniswap::order::UniswapXOrder;

/// Amount of `token` that the fill of `order` brought its owner, in raw units.
///
/// It sums the last transfers to the owner before the order's `Fill`, as many as the order has outputs of the token for
/// the owner. Transfers before another order's `Fill` are left out, so no transfer counts for two orders.
pub(super) fn received(logs: &[Log], order: &UniswapXOrder, hash: B256, token: Address) -> U256 {
    let info = order.info();
    let is_fill = |log: &Log| log.topics().first() == Some(&Reactor::Fill::SIGNATURE_HASH);
    let is_own_fill = |log: &Log| is_fill(log) && log.address == info.reactor && log.topics().get(1) == Some(&hash);
    let Some(end) = logs.iter().position(is_own_fill) else { return U256::ZERO };
    let outputs = order.bounds().least_out;
    let expected = outputs.iter().filter(|output| output.token == token && output.recipient == info.swapper).count();
    let segment = logs.iter().take(end).rev().take_while(|log| !is_fill(log));
    let transfers = segment.filter(|log| log.address == token).filter_map(|log| Erc20::Transfer::decode_log(log).ok());
    let received = transfers.filter(|transfer| transfer.to == info.swapper).take(expected);
    received.fold(U256::ZERO, |sum, transfer| sum.saturating_add(transfer.value))
}

/// Amount of the order's input token that left its owner in the transaction, in raw units, at most the order's maximum.
/// It is exact for an order with a fixed input, which all orders placed by Bardo have.
pub(super) fn paid(logs: &[Log], order: &UniswapXOrder) -> U256 {
    let (owner, token) = (order.info().swapper, order.token_in());
    let transfers =
        logs.iter().filter(|log| log.address == token).filter_map(|log| Erc20::Transfer::decode_log(log).ok());
    let outgoing = transfers.filter(|transfer| transfer.from == owner);
    outgoing.fold(U256::ZERO, |sum, transfer| sum.saturating_add(transfer.value)).min(order.most_in())
}

#[cfg(test)]
mod tests {
    use alloy::sol_types::SolEvent;

    use super::*;
    use golem_protocols::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft};

    const OWNER: Address = Address::repeat_byte(1);
    const REACTOR: Address = Address::repeat_byte(2);
    const WETH: Address = Address::repeat_byte(5);
    const FILLER: Address = Address::repeat_byte(9);

    fn order(nonce: u64) -> UniswapXOrder {
        let draft = OrderDraft {
            reactor: REACTOR,
            swapper: OWNER,
            recipient: OWNER,
            nonce: U256::from(nonce),
            deadline: 2_000_000_000,
            cosigner: Address::repeat_byte(3),
            token_in: Address::repeat_byte(4),
            token_out: WETH,
            legs: OrderAmounts::ExactIn {
                amount_in: U256::from(8),
                start_out: U256::from(9),
                least_out: U256::from(1),
            },
            auction: AuctionTerms::CosignedTimes,
        };
        draft.order().unwrap()
    }

    fn log(address: Address, event: impl SolEvent) -> Log {
        Log { address, data: event.encode_log_data() }
    }

    fn transfer(token: Address, from: Address, to: Address, value: u64) -> Log {
        log(token, Erc20::Transfer { from, to, value: U256::from(value) })
    }

    fn fill(reactor: Address, order: &UniswapXOrder) -> Log {
        let event =
            Reactor::Fill { orderHash: order.hash(), filler: FILLER, swapper: OWNER, nonce: order.info().nonce };
        log(reactor, event)
    }

    fn received_for(logs: &[Log], order: &UniswapXOrder) -> u64 {
        received(logs, order, order.hash(), WETH).to()
    }

    #[test]
    fn each_order_of_a_batch_counts_its_own_outputs_and_no_gift() {
        let (first, second) = (order(1), order(2));
        let input = |order: &UniswapXOrder| transfer(order.token_in(), OWNER, FILLER, 8);
        let logs = [
            input(&first),
            input(&second),
            // In the filler's callback: a gift to the owner.
            transfer(WETH, FILLER, OWNER, 1_000),
            // The first order's output, and a payment to another account.
            transfer(WETH, FILLER, OWNER, 5),
            transfer(WETH, FILLER, Address::repeat_byte(7), 500),
            fill(REACTOR, &first),
            transfer(WETH, FILLER, OWNER, 7),
            fill(REACTOR, &second),
            transfer(WETH, FILLER, OWNER, 2_000),
        ];
        assert_eq!([received_for(&logs, &first), received_for(&logs, &second)], [5, 7]);
        assert_eq!([paid(&logs, &first), paid(&logs, &second)], [U256::from(8); 2]);
        // A `Fill` event from another contract does not count, and an order without a `Fill` received nothing.
        let logs = [transfer(WETH, FILLER, OWNER, 5), fill(FILLER, &first)];
        assert_eq!([received_for(&logs, &first), received_for(&logs, &second)], [0, 0]);
        // An order whose fill paid nothing does not count a transfer of the order before it.
        let logs = [transfer(WETH, FILLER, OWNER, 5), fill(REACTOR, &first), fill(REACTOR, &second)];
        assert_eq!([received_for(&logs, &first), received_for(&logs, &second)], [5, 0]);
    }
}
