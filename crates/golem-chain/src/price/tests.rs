//! Tests of failing feeds behind a fake Multicall3, and of the order of price sources.
//!
//! Answers of the fake and expected dollars are written by hand. Tests with the devnet's own feed contract are in
//! `tests/`.

use super::*;
use alloy::{
    primitives::{Bytes, U256, address, aliases::U80},
    providers::{Provider, ProviderBuilder, bindings::IMulticall3},
    rpc::{
        client::RpcClient,
        json_rpc::{RequestPacket, ResponsePacket},
    },
    sol_types::SolCall,
    transports::{TransportError, TransportErrorKind, TransportFut},
};
use bardo_abi::feed::{Aggregator, BoundedAggregator};
use bardo_base::clock::Clock;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    task::{Context, Poll},
};

const NOW: u64 = 1_790_000_000;
const MULTICALL: Address = address!("0xcA11bde05977b3631167028862bE2a173976CA11");
const TOKEN: Address = address!("0x00000000000000000000000000000000000000aa");
const OTHER: Address = address!("0x00000000000000000000000000000000000000bb");
const FEED: Address = address!("0x00000000000000000000000000000000000000fe");
const SEQUENCER: Address = address!("0x00000000000000000000000000000000000000ce");

/// A feed contract of the fake chain.
#[derive(Clone)]
struct FakeFeed {
    pair: &'static str,
    decimals: u8,
    round: u64,
    answer: i128,
    started: u64,
    updated: u64,
    answered_in: u64,
    reverts: bool,
    /// Aggregator behind the feed; `None` if the feed is its own aggregator.
    aggregator: Option<Address>,
    bounds: Option<(i128, i128)>,
}

impl Default for FakeFeed {
    fn default() -> Self {
        Self {
            pair: "ETH / USD",
            decimals: 8,
            round: 7,
            answer: 340_012_345_678,
            started: NOW - 30,
            updated: NOW - 30,
            answered_in: 7,
            reverts: false,
            aggregator: None,
            bounds: None,
        }
    }
}

impl FakeFeed {
    fn call(&self, input: &[u8]) -> Option<Vec<u8>> {
        let selector: [u8; 4] = input[..4].try_into().unwrap();
        match selector {
            _ if self.reverts => None,
            Aggregator::descriptionCall::SELECTOR => {
                Some(Aggregator::descriptionCall::abi_encode_returns(&self.pair.to_string()))
            }
            BoundedAggregator::aggregatorCall::SELECTOR => {
                Some(BoundedAggregator::aggregatorCall::abi_encode_returns(&self.aggregator?))
            }
            BoundedAggregator::minAnswerCall::SELECTOR => {
                Some(I256::try_from(self.bounds?.0).unwrap().to_be_bytes::<32>().to_vec())
            }
            BoundedAggregator::maxAnswerCall::SELECTOR => {
                Some(I256::try_from(self.bounds?.1).unwrap().to_be_bytes::<32>().to_vec())
            }
            Aggregator::decimalsCall::SELECTOR => Some(Aggregator::decimalsCall::abi_encode_returns(&self.decimals)),
            Aggregator::latestRoundDataCall::SELECTOR => {
                let round = Aggregator::latestRoundDataReturn {
                    roundId: U80::from(self.round),
                    answer: I256::try_from(self.answer).unwrap(),
                    startedAt: U256::from(self.started),
                    updatedAt: U256::from(self.updated),
                    answeredInRound: U80::from(self.answered_in),
                };
                Some(Aggregator::latestRoundDataCall::abi_encode_returns(&round))
            }
            _ => None,
        }
    }
}

/// Fake chain with a Multicall3 and feeds; records the number of calls per request.
#[derive(Clone, Default)]
struct FakeChain {
    feeds: Arc<Mutex<Vec<(Address, FakeFeed)>>>,
    asked: Arc<Mutex<Vec<usize>>>,
    dead: bool,
}

impl FakeChain {
    fn with(feeds: Vec<(Address, FakeFeed)>) -> Self {
        Self { feeds: Arc::new(Mutex::new(feeds)), ..Self::default() }
    }

    fn answer(&self, question: &Value) -> Value {
        let input: Bytes = serde_json::from_value(question["params"][0]["input"].clone()).unwrap();
        let call = IMulticall3::aggregate3Call::abi_decode(&input).unwrap();
        self.asked.lock().push(call.calls.len());
        let one = |call: &IMulticall3::Call3| {
            let output = if call.target == MULTICALL {
                Some(U256::from(NOW).to_be_bytes_vec())
            } else {
                match self.feeds.lock().iter().find(|(address, _)| *address == call.target) {
                    Some((_, feed)) => feed.call(&call.callData),
                    // As in the EVM, a call to an address without code succeeds with empty data.
                    None => Some(Vec::new()),
                }
            };
            IMulticall3::Result { success: output.is_some(), returnData: output.unwrap_or_default().into() }
        };
        let results: Vec<_> = call.calls.iter().map(one).collect();
        json!(Bytes::from(IMulticall3::aggregate3Call::abi_encode_returns(&results)))
    }
}

impl tower::Service<RequestPacket> for FakeChain {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        if self.dead {
            return Box::pin(std::future::ready(Err(TransportErrorKind::custom_str("dead"))));
        }
        let question = serde_json::to_value(&packet).unwrap();
        assert_eq!(question["method"], "eth_call");
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": self.answer(&question)});
        Box::pin(std::future::ready(Ok(serde_json::from_value(answer).unwrap())))
    }
}

#[derive(Debug)]
struct At(u64);

impl Clock for At {
    fn now_millis(&self) -> u64 {
        self.0 * 1000
    }
}

fn spec() -> FeedSpec {
    FeedSpec {
        token: TOKEN,
        address: FEED,
        pair: SafeText::clean("ETH / USD", 40),
        decimals: 8,
        heartbeat: Duration::from_secs(3600),
    }
}

fn source_at(chain: &FakeChain, sequencer: Option<SequencerSpec>, wall: u64) -> FeedPrices {
    let provider = ProviderBuilder::new()
        .disable_recommended_fillers()
        .connect_client(RpcClient::new(chain.clone(), true))
        .erased();
    let max_block_age = Some(Duration::from_secs(60));
    FeedPrices::new(provider, MULTICALL, [spec()], sequencer, max_block_age, Arc::new(At(wall)))
}

async fn read(feed: FakeFeed) -> PriceResult {
    let chain = FakeChain::with(vec![(FEED, feed)]);
    source_at(&chain, None, NOW + 5).prices(&[TOKEN]).await.remove(0)
}

#[tokio::test]
async fn a_live_feed_gives_exact_dollars_with_round_and_age() {
    let price = read(FakeFeed::default()).await.unwrap();
    // 340012345678 with 8 decimals.
    assert_eq!(price.usd.to_string(), "3400.12345678");
    assert_eq!(price.observed_at, Some(NOW - 30));
    assert_eq!(price.age, Some(Duration::from_secs(30)));
    let PriceOrigin::Feed { address, pair, round } = price.source else { panic!("{:?}", price.source) };
    assert_eq!((address, pair.as_str(), round), (FEED, "ETH / USD", 7));
}

#[tokio::test]
async fn every_way_to_fail_is_named_and_never_a_price() {
    let feed = FakeFeed::default;
    let cases = [
        (FakeFeed { answer: 0, ..feed() }, "the feed returns 0"),
        (FakeFeed { answer: -1, ..feed() }, "the feed returns -1"),
        (FakeFeed { updated: 0, ..feed() }, "incomplete"),
        (FakeFeed { round: 0, ..feed() }, "incomplete"),
        (FakeFeed { answered_in: 6, ..feed() }, "incomplete"),
        (FakeFeed { updated: NOW + 1, ..feed() }, "is 1 s after its block"),
        (FakeFeed { updated: NOW - 4501, ..feed() }, "stale: updated 4501 s ago, at most 4500 s"),
        (FakeFeed { pair: "BTC / USD", ..feed() }, "found \"BTC / USD\" with 8 decimals"),
        (FakeFeed { decimals: 18, ..feed() }, "found \"ETH / USD\" with 18 decimals"),
        (FakeFeed { pair: "ETH / USD\u{202e}", ..feed() }, "wrong feed"),
        (FakeFeed { reverts: true, ..feed() }, "does not respond"),
    ];
    for (feed, expected) in cases {
        let reason = read(feed).await.unwrap_err().to_string();
        assert!(reason.contains(expected), "expected {expected:?} in {reason:?}");
        assert!(!reason.contains('\u{202e}'));
    }
    // The highest accepted age.
    assert!(read(FakeFeed { updated: NOW - 4500, ..feed() }).await.is_ok());
}

#[tokio::test]
async fn a_missing_contract_entry_or_endpoint_have_different_errors() {
    let empty = FakeChain::with(vec![]);
    let source = source_at(&empty, None, NOW);
    assert_eq!(source.prices(&[TOKEN, OTHER]).await, [Err(NoPrice::NoAnswer), Err(NoPrice::UnknownToken)]);
    let asked = empty.asked.lock().len();
    assert_eq!(source.prices(&[OTHER]).await, [Err(NoPrice::UnknownToken)]);
    assert_eq!(empty.asked.lock().len(), asked, "the chain was asked about a token without a feed");

    let dead = FakeChain { dead: true, ..FakeChain::default() };
    let answers = source_at(&dead, None, NOW).prices(&[TOKEN]).await;
    assert!(matches!(answers[..], [Err(NoPrice::Unreachable(_))]), "{answers:?}");
}

#[tokio::test]
async fn a_stopped_endpoint_has_no_prices() {
    let chain = FakeChain::with(vec![(FEED, FakeFeed::default())]);
    let answers = source_at(&chain, None, NOW + 61).prices(&[TOKEN]).await;
    let (age, limit) = (Duration::from_secs(61), Duration::from_secs(60));
    assert_eq!(answers, [Err(NoPrice::OldBlock { age, limit })]);
    assert!(source_at(&chain, None, NOW + 60).prices(&[TOKEN]).await[0].is_ok());
}

#[tokio::test]
async fn the_sequencer_must_have_been_up_for_a_while() {
    let spec = Some(SequencerSpec { address: SEQUENCER, grace: Duration::from_secs(3600) });
    let with = |answer, started| {
        let uptime = FakeFeed { answer, started, ..FakeFeed::default() };
        FakeChain::with(vec![(FEED, FakeFeed::default()), (SEQUENCER, uptime)])
    };
    let read = |chain: FakeChain| async move { source_at(&chain, spec, NOW).prices(&[TOKEN]).await.remove(0) };
    assert_eq!(read(with(1, NOW - 9000)).await, Err(NoPrice::SequencerDown));
    assert_eq!(read(with(2, NOW - 9000)).await, Err(NoPrice::SequencerDown));
    assert_eq!(read(with(0, 0)).await, Err(NoPrice::IncompleteRound));
    let (since, grace) = (Duration::from_secs(3599), Duration::from_secs(3600));
    assert_eq!(read(with(0, NOW - 3599)).await, Err(NoPrice::SequencerGrace { since, grace }));
    assert!(read(with(0, NOW - 3600)).await.is_ok());
    assert_eq!(read(FakeChain::with(vec![(FEED, FakeFeed::default())])).await, Err(NoPrice::NoAnswer));
}

#[tokio::test]
async fn several_feeds_are_one_request_and_identity_is_read_once() {
    let chain = FakeChain::with(vec![(FEED, FakeFeed::default())]);
    let source = source_at(&chain, None, NOW);
    source.prices(&[TOKEN, TOKEN]).await;
    source.prices(&[TOKEN]).await;
    // First the time, then description, decimals, both bounds, aggregator and round of each feed; the second request
    // skips description and decimals.
    assert_eq!(*chain.asked.lock(), [13, 5]);
}

#[tokio::test]
async fn an_answer_at_the_aggregators_bounds_is_no_price() {
    let behind = |answer: i128, aggregator: Address, bounds: (i128, i128)| {
        let proxy = FakeFeed { answer, aggregator: Some(aggregator), ..FakeFeed::default() };
        vec![(FEED, proxy), (aggregator, FakeFeed { bounds: Some(bounds), ..FakeFeed::default() })]
    };
    let (first, second) = (Address::repeat_byte(0xa1), Address::repeat_byte(0xa2));
    let chain = FakeChain::with(behind(1_000_000, first, (1_000_000, 1_000_000_000_000)));
    let source = source_at(&chain, None, NOW);
    for (answer, at_bound) in [
        (999_999, true),
        (1_000_000, true),
        (1_000_001, false),
        (999_999_999_999, false),
        (1_000_000_000_000, true),
        (1_000_000_000_001, true),
    ] {
        *chain.feeds.lock() = behind(answer, first, (1_000_000, 1_000_000_000_000));
        let read = source.prices(&[TOKEN]).await.remove(0);
        assert_eq!(matches!(read, Err(NoPrice::AtBound { .. })), at_bound, "{answer}: {read:?}");
    }
    // Another aggregator behind the same proxy has other bounds.
    *chain.feeds.lock() = behind(1_000_001, second, (1_000_001, 1_000_000_000_000));
    assert!(matches!(source.prices(&[TOKEN]).await.remove(0), Err(NoPrice::AtBound { .. })));
    // A feed without a proxy may have bounds of its own.
    let own = FakeFeed { answer: 5, bounds: Some((5, 10)), ..FakeFeed::default() };
    let read = source_at(&FakeChain::with(vec![(FEED, own)]), None, NOW).prices(&[TOKEN]).await.remove(0);
    assert!(matches!(read, Err(NoPrice::AtBound { .. })), "{read:?}");
}

#[tokio::test]
async fn sources_are_asked_in_order_and_every_refusal_is_kept() {
    let chain = FakeChain::with(vec![(FEED, FakeFeed { answer: 0, ..FakeFeed::default() })]);
    let feeds: Arc<dyn PriceSource> = Arc::new(source_at(&chain, None, NOW));
    let fixed = FixedPrices::new(11_155_111, true, [(OTHER, "2.5".parse::<Usd>().unwrap())]).unwrap();
    let prices = PriceChain::new(vec![feeds, Arc::new(fixed)]);

    let reports = prices.prices(&[TOKEN, OTHER]).await;
    assert_eq!(reports[0].price, None);
    let unknown = reports[0].require().unwrap_err().to_string();
    assert!(unknown.contains("price feeds: the feed returns 0"), "{unknown}");
    assert!(unknown.contains("fixed test prices: no entry for this token"), "{unknown}");

    let price = reports[1].require().unwrap();
    assert_eq!((price.usd.to_string().as_str(), &price.source), ("2.5", &PriceOrigin::Fixed));
    assert!(!price.source.is_live());
    assert_eq!(reports[1].refusals, [("price feeds", NoPrice::UnknownToken)]);

    let none = PriceChain::default().price(TOKEN).await.unwrap_err();
    assert!(none.to_string().contains("no price source is configured"));
}

#[test]
fn fixed_prices_are_refused_where_money_is_real_and_when_zero() {
    let one = [(TOKEN, "1".parse::<Usd>().unwrap())];
    let error = FixedPrices::new(1, false, one).unwrap_err().to_string();
    assert!(error.contains("test networks only") && error.contains("chain 1"), "{error}");
    assert!(FixedPrices::new(11_155_111, true, [(TOKEN, Usd::ZERO)]).is_err());
}

#[test]
fn tokens_of_the_bundled_books_get_the_feeds_that_price_them() {
    // Written by hand from reference/addresses.json and reference/chainlink-feeds.json.
    let cases = [
        ("ethereum", "0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2", Some(("ETH / USD", 3_600))),
        ("ethereum", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", Some(("USDC / USD", 86_400))),
        ("ethereum", "0x2260FAC5E5542a773Aa44fBCfeDf7C193bc2C599", Some(("BTC / USD", 3_600))),
        ("arbitrum", "0x2f2a2543B76A4166549F7aaB2e75Bef0aefC5B0f", Some(("WBTC / USD", 3_600))),
        ("polygon", "0x0d500B1d8E8eF31E21C99d1Db9A6444d3ADf1270", Some(("MATIC / USD", 3_600))),
        ("polygon", "0x7ceB23fD6bC0adD59E62ac25578270cFf1b9f619", Some(("ETH / USD", 3_600))),
        // Bridged stablecoins can lose their peg while the original keeps it.
        ("arbitrum", "0xFF970A61A04b1cA14834A43f5dE4533eBDDB5CC8", None),
        ("base", "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA", None),
    ];
    for (name, token, expected) in cases {
        let network = crate::network::resolve(name, crate::network::named()).unwrap();
        let specs = feed_specs(network);
        let token: Address = token.parse().unwrap();
        let found: Vec<_> = specs.iter().filter(|spec| spec.token == token).collect();
        assert!(found.len() <= 1, "{name} {token} has several feeds");
        let found = found.first().map(|spec| (spec.pair.as_str(), spec.heartbeat.as_secs()));
        assert_eq!(found, expected, "{name} {token}");
    }
}

#[test]
fn fixed_prices_are_looked_up_by_symbol_or_address() {
    let sepolia = crate::network::by_id(11_155_111).unwrap();
    let table = |name: &str| BTreeMap::from([(name.to_owned(), "2".parse::<Usd>().unwrap())]);
    assert!(fixed_prices(sepolia, &table("usdc")).is_ok());
    assert!(fixed_prices(sepolia, &table("0x00000000000000000000000000000000000000aa")).is_ok());
    let error = fixed_prices(sepolia, &table("USDD\u{1b}")).unwrap_err().to_string();
    assert!(error.contains("unknown token 'USDD") && !error.contains('\u{1b}'), "{error}");
    let real = crate::network::by_id(8_453).unwrap();
    assert!(matches!(fixed_prices(real, &table("USDC")), Err(FixedPriceError::NotATestNetwork { chain_id: 8_453 })));
}
