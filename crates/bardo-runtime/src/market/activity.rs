//! Activity of a block, one line per notable event: swaps, feed updates, transfers, and unknown calls.

use alloy::consensus::Transaction;
use alloy::network::TransactionResponse;
use alloy::primitives::{Address, I256, U256};
use alloy::rpc::types::{Block, Log, TransactionReceipt};
use alloy::sol_types::SolEvent;

use super::reader::{KnownPool, symbol};
use bardo_abi::erc20::Erc20;
use bardo_abi::feed::Aggregator;
use bardo_abi::uniswap_v2::UniswapV2Pair;
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_base::format::{amount, fee, price, short_address};
use bardo_base::text::SafeText;
use bardo_base::units::{TokenAmount, Usd};
use bardo_session::market::{ActivityKind, ActivityRow, PoolVersion};
use golem_chain::network::{BookToken, Network};

/// Decimals of an amount in a line.
const PLACES: usize = 4;

/// Activity of a block, in the order of its transactions.
pub(super) fn activity_of(
    chain: usize,
    network: &Network,
    pools: &[KnownPool],
    block: &Block,
    receipts: &[TransactionReceipt],
) -> Vec<ActivityRow> {
    let mut rows = Vec::new();
    for receipt in receipts {
        let row = |kind, failed, text: String| ActivityRow {
            at: block.header.timestamp,
            block: block.header.number,
            chain,
            kind,
            failed,
            text: SafeText::clean(&text, 160),
            transaction: receipt.transaction_hash,
        };
        if !receipt.status() {
            rows.push(row(ActivityKind::Call, true, between(network, receipt)));
            continue;
        }
        let logs = receipt.inner.logs();
        let told: Vec<_> =
            logs.iter().filter_map(|log| swap_line(pools, log).or_else(|| feed_line(network, log))).collect();
        if told.is_empty() {
            let (kind, text) = plain_line(network, block, receipt, logs);
            rows.push(row(kind, false, text));
        }
        rows.extend(told.into_iter().map(|(kind, text)| row(kind, false, text)));
    }
    rows
}

fn swap_line(pools: &[KnownPool], log: &Log) -> Option<(ActivityKind, String)> {
    let pool = pools.iter().find(|pool| pool.place.address == log.address())?;
    let (paid, got) = match pool.place.version {
        PoolVersion::V3 => {
            let swap = UniswapV3Pool::Swap::decode_log(&log.inner).ok()?.data;
            // Positive amounts were received by the pool.
            if swap.amount0 > I256::ZERO {
                ((&pool.token0, swap.amount0.unsigned_abs()), (&pool.token1, swap.amount1.unsigned_abs()))
            } else {
                ((&pool.token1, swap.amount1.unsigned_abs()), (&pool.token0, swap.amount0.unsigned_abs()))
            }
        }
        PoolVersion::V2 => {
            let swap = UniswapV2Pair::Swap::decode_log(&log.inner).ok()?.data;
            if swap.amount0In.is_zero() {
                ((&pool.token1, swap.amount1In), (&pool.token0, swap.amount0Out))
            } else {
                ((&pool.token0, swap.amount0In), (&pool.token1, swap.amount1Out))
            }
        }
    };
    let version = match pool.place.version {
        PoolVersion::V2 => "V2",
        PoolVersion::V3 => "V3",
    };
    let words = format!("{} → {}  {version} {}", some(paid)?, some(got)?, fee(pool.place.fee_pips));
    Some((ActivityKind::Swap, words))
}

fn some((token, raw): (&BookToken, U256)) -> Option<String> {
    let value = TokenAmount::new(raw, token.decimals).ok()?;
    Some(format!("{} {}", amount(value, PLACES), symbol(token)))
}

fn feed_line(network: &Network, log: &Log) -> Option<(ActivityKind, String)> {
    let feed = network.book.feeds().iter().find(|feed| feed.address == log.address())?;
    let answer = Aggregator::AnswerUpdated::decode_log(&log.inner).ok()?.data.current;
    let told = Usd::from_scaled(U256::try_from(answer).ok()?, feed.decimals).ok()?;
    Some((ActivityKind::Feed, format!("{} is {}", feed.pair, price(told))))
}

/// Line for a transaction that is neither a swap nor a feed update.
fn plain_line(network: &Network, block: &Block, receipt: &TransactionReceipt, logs: &[Log]) -> (ActivityKind, String) {
    if let Some(created) = receipt.contract_address {
        return (ActivityKind::Create, format!("{} by {}", named(network, created), short_address(receipt.from)));
    }
    let token = |address: Address| network.book.token_at(address);
    if let [log] = logs {
        let known = token(log.address());
        if let (Some(token), Ok(moved)) = (known, Erc20::Transfer::decode_log(&log.inner))
            && let Some(what) = some((token, moved.value))
        {
            return (ActivityKind::Transfer, format!("{what} to {}", named(network, moved.to)));
        }
        if let (Some(token), Ok(given)) = (known, Erc20::Approval::decode_log(&log.inner)) {
            let what = if given.value == U256::MAX {
                format!("any {}", symbol(token))
            } else {
                some((token, given.value)).unwrap_or_default()
            };
            return (ActivityKind::Approval, format!("{what} for {}", named(network, given.spender)));
        }
    }
    let sent = block.transactions.txns().find(|sent| sent.tx_hash() == receipt.transaction_hash);
    match sent.map(|sent| sent.value()) {
        Some(wei) if !wei.is_zero() && logs.is_empty() => {
            let what = format!("{} {}", amount(TokenAmount::ether(wei), PLACES), network.native_symbol);
            (ActivityKind::Transfer, format!("{what}  {}", between(network, receipt)))
        }
        _ => (ActivityKind::Call, between(network, receipt)),
    }
}

fn between(network: &Network, receipt: &TransactionReceipt) -> String {
    let to = receipt.to.map_or("a new contract".to_owned(), |to| named(network, to));
    format!("{} → {to}", short_address(receipt.from))
}

/// Name in the address book, or else the shortened address.
fn named(network: &Network, address: Address) -> String {
    network.book.name_of(address).unwrap_or_else(|| short_address(address))
}
