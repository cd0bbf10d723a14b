//! Compares the Network screen with the chain: every fact is read again directly, and computed independently.

use std::str::FromStr;

use alloy::consensus::TxEip1559;
use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use rust_decimal::Decimal;

use super::pools_of;
use super::reader::ChainReader;
use bardo_abi::erc20::Erc20;
use bardo_abi::feed::Aggregator;
use bardo_abi::uniswap_v2::UniswapV2Pair;
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::units::Usd;
use bardo_sandbox::genesis::GenesisPool;
use bardo_sandbox::keys::DevnetAccount;
use bardo_sandbox::plan::Venue;
use bardo_sandbox::target::PricedAsset;
use bardo_sandbox::{BlockPace, MarketMode, Sandbox, SandboxChain, SandboxConfig};
use bardo_session::market::{ActivityKind, BlockRow, ChainSnapshot, FeedPrice};
use golem_chain::devnet::{Block, ChainTransaction};

const ASSETS: [(&str, PricedAsset); 7] = [
    ("DAI", PricedAsset::Dai),
    ("LINK", PricedAsset::Link),
    ("UNI", PricedAsset::Uni),
    ("USDC", PricedAsset::Usdc),
    ("USDT", PricedAsset::Usdt),
    ("WBTC", PricedAsset::Btc),
    ("WETH", PricedAsset::Eth),
];

async fn ask<C: SolCall>(chain: &SandboxChain, to: Address, call: C) -> C::Return {
    let request = TransactionRequest {
        to: Some(TxKind::Call(to)),
        input: Bytes::from(call.abi_encode()).into(),
        ..Default::default()
    };
    let answer = chain.devnet.run(move |chain| chain.call(&request, BlockId::latest(), None, None).unwrap().output);
    C::abi_decode_returns(&answer.await.unwrap()).unwrap()
}

async fn block(chain: &SandboxChain, number: u64) -> Block {
    let id = BlockId::Number(BlockNumberOrTag::Number(number));
    let block = chain.devnet.run(move |chain| Block::clone(chain.block(id).unwrap()));
    block.await.unwrap()
}

async fn head(chain: &SandboxChain) -> u64 {
    chain.devnet.run(|chain| chain.number()).await.unwrap()
}

fn float(raw: U256, decimals: u8) -> f64 {
    f64::from_str(&raw.to_string()).unwrap() / 10_f64.powi(decimals.into())
}

fn of_decimal(value: Decimal) -> f64 {
    value.to_string().parse().unwrap()
}

fn of_usd(value: Usd) -> f64 {
    value.to_string().parse().unwrap()
}

fn same(one: f64, other: f64, tolerance: f64, what: &str) {
    assert!((one / other - 1.0).abs() < tolerance, "{what}: {one} against {other}");
}

/// Answer of a token's feed, read from the feed itself; all feeds have eight decimals.
async fn feed(chain: &SandboxChain, symbol: &str) -> U256 {
    let asset = ASSETS.iter().find(|(known, _)| *known == symbol).unwrap().1;
    let round = ask(chain, chain.deployment.feeds[&asset], Aggregator::latestRoundDataCall {}).await;
    U256::try_from(round.answer).unwrap()
}

async fn blocks_are_true(chain: &SandboxChain, rows: &[BlockRow]) {
    for row in rows {
        let true_block = block(chain, row.number).await;
        let header = &true_block.header;
        let truth = (header.timestamp, header.base_fee_per_gas.unwrap(), header.gas_used, header.gas_limit);
        assert_eq!(
            (row.timestamp, row.base_fee_wei, row.gas_used, row.gas_limit),
            (truth.0, truth.1.into(), truth.2, truth.3)
        );
        assert_eq!(row.transactions, true_block.transactions.len());
    }
}

async fn prices_are_true(chain: &SandboxChain, snapshot: &ChainSnapshot) {
    let known = ASSETS.iter().filter(|(symbol, _)| chain.deployment.plan.name == "ethereum" || *symbol != "WBTC");
    let symbols: Vec<&str> = snapshot.tokens.iter().map(|token| token.symbol.as_str()).collect();
    assert_eq!(symbols, known.map(|(symbol, _)| *symbol).collect::<Vec<_>>());
    for token in &snapshot.tokens {
        let answer = feed(chain, token.symbol.as_str()).await;
        assert_eq!(token.price, FeedPrice::Live(Usd::from_scaled(answer, 8).unwrap()), "{}", token.symbol);
        assert!(chain.deployment.tokens.values().any(|address| *address == token.address));
    }
}

async fn pools_are_true(chain: &SandboxChain, snapshot: &ChainSnapshot) {
    let on_page = |address| snapshot.tokens.iter().any(|token| token.address == address);
    let both = |pool: &&GenesisPool| on_page(pool.token0.address) && on_page(pool.token1.address);
    assert_eq!(snapshot.pools.len(), chain.deployment.pools.iter().filter(both).count());
    for row in &snapshot.pools {
        let pool = chain.deployment.pools.iter().find(|pool| pool.address == row.address).unwrap();
        let what = format!("{}/{} {:?} {}", row.base, row.quote, row.version, row.fee_pips);
        let mut whole = Vec::new();
        for token in [pool.token0.address, pool.token1.address] {
            let decimals = ask(chain, token, Erc20::decimalsCall {}).await;
            let held = ask(chain, token, Erc20::balanceOfCall { owner: pool.address }).await;
            let symbol = &snapshot.tokens.iter().find(|known| known.address == token).unwrap().symbol;
            let dollars = float(feed(chain, symbol.as_str()).await, 8);
            whole.push((symbol.to_string(), decimals, float(held, decimals), dollars));
        }
        let [(symbol0, decimals0, held0, dollars0), (symbol1, decimals1, held1, dollars1)] = &whole[..] else {
            unreachable!()
        };
        let price0 = match pool.venue {
            Venue::V2 => {
                let reserves = ask(chain, pool.address, UniswapV2Pair::getReservesCall {}).await;
                float(U256::from(reserves.reserve1), *decimals1) / float(U256::from(reserves.reserve0), *decimals0)
            }
            Venue::V3(_) => {
                let slot0 = ask(chain, pool.address, UniswapV3Pool::slot0Call {}).await;
                let root = float(U256::from(slot0.sqrtPriceX96), 0) / 2_f64.powi(96);
                root * root * 10_f64.powi(i32::from(*decimals0) - i32::from(*decimals1))
            }
        };
        let (price, by_feeds) = if row.base.as_str() == symbol0 {
            assert_eq!(row.quote.as_str(), symbol1);
            (price0, dollars0 / dollars1)
        } else {
            assert_eq!((row.base.as_str(), row.quote.as_str()), (symbol1.as_str(), symbol0.as_str()));
            (1.0 / price0, dollars1 / dollars0)
        };
        same(of_decimal(row.price.unwrap()), price, 1e-9, &what);
        same(of_decimal(row.feed_price.unwrap()), by_feeds, 1e-9, &what);
        same(of_usd(row.holds.unwrap()), held0 * dollars0 + held1 * dollars1, 1e-6, &what);
        assert_eq!(row.fee_pips, pool.venue.fee());
        let gap = (price / by_feeds - 1.0) * 10_000.0;
        assert!((row.gap_bps().unwrap() as f64 - gap).abs() <= 0.51, "{what}: {gap}");
    }
}

async fn balances_are_true(chain: &SandboxChain, wallet: Address, snapshot: &ChainSnapshot) {
    let coins = chain.devnet.run(move |chain| chain.state().balance(wallet)).await.unwrap();
    let mut truth = vec![("ETH".to_owned(), coins, 18, "WETH")];
    for (symbol, _) in ASSETS {
        let Some(token) = snapshot.tokens.iter().find(|token| token.symbol.as_str() == symbol) else { continue };
        let held = ask(chain, token.address, Erc20::balanceOfCall { owner: wallet }).await;
        if !held.is_zero() {
            let decimals = ask(chain, token.address, Erc20::decimalsCall {}).await;
            truth.push((symbol.to_owned(), held, decimals, symbol));
        }
    }
    assert_eq!(snapshot.balances.len(), truth.len());
    for (symbol, raw, decimals, priced_as) in truth {
        let row = snapshot.balances.iter().find(|row| row.symbol.as_str() == symbol).unwrap();
        assert_eq!((row.amount.raw(), row.amount.decimals()), (raw, decimals), "{symbol}");
        let worth = float(raw, decimals) * float(feed(chain, priced_as).await, 8);
        same(of_usd(row.value.unwrap()), worth, 1e-9, &symbol);
    }
}

/// Every log of these blocks with `event` as its first topic: contract, transaction and data.
async fn logs(chain: &SandboxChain, from: u64, to: u64, event: &str) -> Vec<(Address, B256, Bytes)> {
    let mut found = Vec::new();
    for number in from..=to {
        let block = block(chain, number).await;
        for (transaction, receipt) in block.transactions.iter().zip(&block.receipts) {
            for log in receipt.envelope.logs() {
                if log.topics().first() == Some(&keccak256(event)) {
                    found.push((log.address, transaction.hash, log.data.data.clone()));
                }
            }
        }
    }
    found
}

const V2_SWAP: &str = "Swap(address,uint256,uint256,uint256,uint256,address)";
const V3_SWAP: &str = "Swap(address,address,int256,int256,uint160,uint128,int24)";
const ANSWER: &str = "AnswerUpdated(int256,uint256,uint256)";

/// Parses the amount before the symbol in `1,234.5678… USDC`.
fn told(words: &str) -> (f64, &str) {
    let (amount, symbol) = words.split_once(' ').unwrap();
    (amount.replace([',', '…'], "").parse().unwrap(), symbol.split(' ').next().unwrap())
}

async fn activity_is_true(chain: &SandboxChain, snapshot: &ChainSnapshot) -> usize {
    let (from, to) = (snapshot.blocks[0].number, snapshot.blocks[snapshot.blocks.len() - 1].number);
    let mut swaps = logs(chain, from, to, V2_SWAP).await;
    swaps.extend(logs(chain, from, to, V3_SWAP).await);
    let rows: Vec<_> = snapshot.activity.iter().filter(|row| row.kind == ActivityKind::Swap).collect();
    assert_eq!(rows.len(), swaps.len());
    for (pool, transaction, data) in &swaps {
        let pool = chain.deployment.pools.iter().find(|known| known.address == *pool).unwrap();
        let word = |at: usize| U256::from_be_slice(&data[at * 32..at * 32 + 32]);
        // Absolute amounts that the pool received and paid, for either token.
        let plain = |word: U256| if word.bit(255) { (U256::ZERO, word.wrapping_neg()) } else { (word, U256::ZERO) };
        let [(in0, out0), (in1, out1)] = match pool.venue {
            Venue::V2 => [(word(0), word(2)), (word(1), word(3))],
            Venue::V3(_) => [plain(word(0)), plain(word(1))],
        };
        let ((paid, paid_raw), (got, got_raw)) = if in1.is_zero() {
            ((pool.token0, in0), (pool.token1, out1))
        } else {
            ((pool.token1, in1), (pool.token0, out0))
        };
        let mut truth = Vec::new();
        for (token, raw) in [(paid, paid_raw), (got, got_raw)] {
            let decimals = ask(chain, token.address, Erc20::decimalsCall {}).await;
            truth.push((float(raw, decimals), ask(chain, token.address, Erc20::symbolCall {}).await));
        }
        let agrees = |text: &str| {
            let (paid, got) = text.split_once(" → ").unwrap();
            [told(paid), told(got)].iter().zip(&truth).all(|((amount, symbol), (true_amount, true_symbol))| {
                // Four decimals are shown, the others are cut.
                symbol == true_symbol && *amount <= true_amount + 1e-9 && true_amount - amount < 0.000_100_001
            })
        };
        let one = |row: &&&bardo_session::market::ActivityRow| {
            row.transaction == *transaction && !row.failed && agrees(row.text.as_str())
        };
        assert!(rows.iter().any(|row| one(&row)), "{truth:?} in {transaction} is not on the page");
    }
    let feeds = chain.deployment.feeds.values().collect::<Vec<_>>();
    let answers = logs(chain, from, to, ANSWER).await;
    let answers = answers.iter().filter(|(feed, _, _)| feeds.contains(&feed)).count();
    let told = snapshot.activity.iter().filter(|row| row.kind == ActivityKind::Feed).count();
    assert_eq!(told, answers);
    swaps.len()
}

/// Transactions of the wallet in one block: a payment, a transfer, an allowance and a failing transfer.
async fn act(chain: &SandboxChain, usdc: Address, friend: Address, spender: Address) -> Vec<B256> {
    let wallet = DevnetAccount::development_accounts().unwrap().remove(0);
    let transfer = |whole: u64| Erc20::transferCall { to: friend, value: U256::from(whole) * U256::from(1_000_000) };
    let calls: Vec<(Address, U256, Vec<u8>)> = vec![
        (friend, U256::from(5) * U256::from(10).pow(U256::from(16)), Vec::new()),
        (usdc, U256::ZERO, transfer(100).abi_encode()),
        (usdc, U256::ZERO, Erc20::approveCall { spender, value: U256::MAX }.abi_encode()),
        (usdc, U256::ZERO, transfer(10_000_000).abi_encode()),
    ];
    let chain_id = chain.devnet.chain_id();
    let sent = chain.devnet.run(move |chain| {
        let mut sent = Vec::new();
        for (to, value, input) in calls {
            let signed = wallet.sign(TxEip1559 {
                chain_id,
                nonce: chain.pending_nonce(wallet.address()),
                gas_limit: 200_000,
                max_fee_per_gas: 20_000_000_000,
                max_priority_fee_per_gas: 1_000_000_000,
                to: TxKind::Call(to),
                value,
                access_list: Default::default(),
                input: input.into(),
            });
            sent.push(chain.submit(ChainTransaction::signed(signed.unwrap()).unwrap()).unwrap());
        }
        assert_eq!(chain.mine().transactions.len(), sent.len());
        sent
    });
    sent.await.unwrap()
}

#[test]
fn the_page_agrees_with_the_chain() {
    // The feeds' ages are checked against the system clock, so the chain starts at the present time.
    let start_time = SystemClock.now_seconds();
    let (pace, market) = (BlockPace::Manual, MarketMode::On);
    let config = SandboxConfig { seed: 5, start_time, pace, clock: None, market, keeper: true };
    let sandbox = Sandbox::boot(&config, &|_| {}).unwrap();
    let runtime = bardo_base::runtime::multi_threaded(None).unwrap();
    runtime.block_on(async {
        let wallet = sandbox.accounts()[0];
        for (place, (network, chain)) in sandbox.description().networks().into_iter().zip(sandbox.chains()).enumerate()
        {
            let provider = chain.devnet.provider();
            let mut reader = ChainReader::new(place, network, provider, wallet, pools_of(&chain.deployment)).unwrap();
            let first = reader.read(head(chain).await).await.unwrap();
            let numbers: Vec<u64> = first.blocks.iter().map(|row| row.number).collect();
            assert_eq!(numbers, (head(chain).await - 63..=head(chain).await).collect::<Vec<_>>(), "sixty-four at once");
            for _ in 0..20 {
                chain.devnet.mine().await.unwrap();
            }
            let second = reader.read(head(chain).await).await.unwrap();
            let numbers: Vec<u64> = second.blocks.iter().map(|row| row.number).collect();
            assert_eq!(
                numbers,
                (head(chain).await - 19..=head(chain).await).collect::<Vec<_>>(),
                "those that are new, no more"
            );
            assert!(activity_is_true(chain, &second).await > 0, "nobody traded");

            let usdc = second.tokens.iter().find(|token| token.symbol.as_str() == "USDC").unwrap().address;
            let friend = Address::repeat_byte(0xbe);
            let sent = act(chain, usdc, friend, Address::repeat_byte(0xca)).await;
            let third = reader.read(head(chain).await).await.unwrap();
            let told: Vec<_> = third.activity.iter().map(|row| (row.kind, row.failed, row.transaction)).collect();
            use ActivityKind::{Approval, Call, Transfer};
            let kinds = [(Transfer, false), (Transfer, false), (Approval, false), (Call, true)];
            let truth: Vec<_> = kinds.iter().zip(&sent).map(|((kind, failed), hash)| (*kind, *failed, *hash)).collect();
            assert_eq!(told, truth);
            let ends = |address: Address| {
                let text = address.to_checksum(None);
                format!("{}…{}", &text[..6], &text[38..])
            };
            assert_eq!(third.activity[0].text.as_str(), format!("0.05 ETH {} → {}", ends(wallet), ends(friend)));
            assert_eq!(third.activity[1].text.as_str(), format!("100 USDC to {}", ends(friend)));
            assert_eq!(third.activity[2].text.as_str(), format!("any USDC for {}", ends(Address::repeat_byte(0xca))));

            for snapshot in [&first, &second, &third] {
                assert_eq!(snapshot.chain, place);
                blocks_are_true(chain, &snapshot.blocks).await;
            }
            prices_are_true(chain, &third).await;
            pools_are_true(chain, &third).await;
            balances_are_true(chain, wallet, &third).await;
        }
    });
}
