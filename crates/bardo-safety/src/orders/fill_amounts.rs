//! Amounts that a fill brought for one order, if its transaction fills several. The filler may settle orders of the
//! same account in one batch, and may pay the account for something else in the same transaction.
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

/// Raw units of `token` that a fill brought to the owner of `order`: as many transfers as the order has outputs of it
/// for the owner, right before its `Fill` and after that of any order before it. Never more than came, and of two
/// orders in one transaction never the same transfer twice.
pub(super) fn received(logs: &[Log], order: &UniswapXOrder, hash: B256, token: Address) -> U256 {
    let info = order.info();
    let is_fill = |log: &Log| log.topics().first() == Some(&Reactor::Fill::SIGNATURE_HASH);
    let own = |log: &Log| is_fill(log) && log.address == info.reactor && log.topics().get(1) == Some(&hash);
    let Some(end) = logs.iter().position(own) else { return U256::ZERO };
    let outputs = order.bounds().least_out;
    let paid = outputs.iter().filter(|output| output.token == token && output.recipient == info.swapper).count();
    let segment = logs.iter().take(end).rev().take_while(|log| !is_fill(log));
    let transfers = segment.filter(|log| log.address == token).filter_map(|log| Erc20::Transfer::decode_log(log).ok());
    let received = transfers.filter(|transfer| transfer.to == info.swapper).take(paid);
    received.fold(U256::ZERO, |sum, transfer| sum.saturating_add(transfer.value))
}

/// Raw units of the order's input that left its owner in the transaction, at most what this order may take. Exact for
/// an input that does not rise, as of every order that is placed here.
pub(super) fn paid(logs: &[Log], order: &UniswapXOrder) -> U256 {
    let (owner, token) = (order.info().swapper, order.token_in());
    let transfers =
        logs.iter().filter(|log| log.address == token).filter_map(|log| Erc20::Transfer::decode_log(log).ok());
    let left = transfers.filter(|transfer| transfer.from == owner);
    left.fold(U256::ZERO, |sum, transfer| sum.saturating_add(transfer.value)).min(order.most_in())
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

    fn of(logs: &[Log], order: &UniswapXOrder) -> u64 {
        received(logs, order, order.hash(), WETH).to()
    }

    #[test]
    fn each_order_of_a_batch_is_told_its_own_outputs_and_no_gift() {
        let (first, second) = (order(1), order(2));
        let input = |order: &UniswapXOrder| transfer(order.token_in(), OWNER, FILLER, 8);
        let logs = [
            input(&first),
            input(&second),
            // In the filler's callback: a gift, and what somebody else's order brings them.
            transfer(WETH, FILLER, OWNER, 1_000),
            transfer(WETH, FILLER, OWNER, 5),
            transfer(WETH, FILLER, Address::repeat_byte(7), 500),
            fill(REACTOR, &first),
            transfer(WETH, FILLER, OWNER, 7),
            fill(REACTOR, &second),
            transfer(WETH, FILLER, OWNER, 2_000),
        ];
        assert_eq!([of(&logs, &first), of(&logs, &second)], [5, 7]);
        assert_eq!([paid(&logs, &first), paid(&logs, &second)], [U256::from(8); 2]);
        // Another reactor's word on the same order is none, and an order that is not filled here got nothing.
        let logs = [transfer(WETH, FILLER, OWNER, 5), fill(FILLER, &first)];
        assert_eq!([of(&logs, &first), of(&logs, &second)], [0, 0]);
        // A fill that paid nothing takes nothing from the order before it.
        let logs = [transfer(WETH, FILLER, OWNER, 5), fill(REACTOR, &first), fill(REACTOR, &second)];
        assert_eq!([of(&logs, &first), of(&logs, &second)], [5, 0]);
    }
}
