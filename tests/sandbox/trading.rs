//! Client of the Trading API with the devnet's own services, and with a server that lies about every part of an answer:
//! statements that contradict the chain or the request are rejected with a message.

use std::sync::Arc;
use std::time::Duration;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, Bytes, U256, hex};
use alloy::providers::{DynProvider, Provider};
use bardo::base::clock::SystemClock;
use bardo::base::service::ServiceError;
use bardo::base::units::BasisPoints;
use bardo::chain::network::{KnownContract, Network};
use bardo::chain::provider::ChainClient;
use bardo::chain::service::JsonService;
use bardo::sandbox::keys::DevnetAccount;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::services::{self, ServiceServer};
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use bardo::uniswap::discovery::{PoolReader, TickReach};
use bardo::uniswap::order::{OrderKind, UniswapXOrder};
use bardo::uniswap::pool::FixedAmount;
use bardo::uniswap::quote::{
    ApprovalQuery, BuiltCall, OrderQuery, QuoteError, QuoteRequest, QuoteSource, QuotedRoute, SourceApproval,
    SourceAuction,
};
use bardo::uniswap::router::{OutputRecipient, RouterCommand, RouterExecution, RouterVersion, SwapRequest, plan};
use bardo::uniswap::routing::{GasCost, RouteRequest};
use bardo::uniswap::trading::{SwapStatus, TradingApi};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::world::START;
use bardo_testkit::liar::{Liar, Lie, with_body};

const ONE: u64 = 1_000_000_000_000_000_000;

struct Fixture {
    sandbox: Sandbox,
    services: ServiceServer,
    network: Network,
    provider: DynProvider,
    pools: PoolReader,
    me: Address,
    weth: Address,
    usdc: Address,
    routers: Vec<Address>,
}

impl Fixture {
    async fn open() -> Self {
        let config = SandboxConfig {
            seed: 4,
            start_time: START,
            pace: BlockPace::Manual,
            clock: None,
            market: MarketMode::Off,
            keeper: true,
        };
        let sandbox = Sandbox::boot(&config, &|_| {}).unwrap();
        let services = services::serve(&sandbox, 0).await.unwrap();
        let network = sandbox.description().networks().swap_remove(0);
        let chain = sandbox.chain("ethereum").unwrap();
        let client = ChainClient::devnet(network.clone(), chain.devnet.clone(), Arc::new(SystemClock)).unwrap();
        let provider = client.provider().clone();
        let pools = PoolReader::new(provider.clone(), &network).unwrap();
        let (weth, usdc) = (chain.deployment.weth, chain.deployment.token(SandboxToken::Usdc).unwrap());
        let routers = vec![network.book.contract(KnownContract::UniversalRouterV210).unwrap()];
        let me = DevnetAccount::development_accounts().unwrap().swap_remove(0).address();
        Self { sandbox, services, network, provider, pools, me, weth, usdc, routers }
    }

    fn ask<'a>(&'a self, request: &'a RouteRequest) -> QuoteRequest<'a> {
        QuoteRequest {
            pools: &self.pools,
            request,
            coin: [false; 2],
            block: BlockId::latest(),
            chain_id: 31_337,
            swapper: self.me,
            decimals: [18, 6],
            slippage: BasisPoints::new(50).unwrap(),
            permit2: self.network.book.contract(KnownContract::Permit2),
            routers: &self.routers,
            router_version: RouterVersion::V2_0,
        }
    }

    /// Request with the present gas price, as tools and the service itself weigh it.
    async fn request(&self, token_in: Address, token_out: Address, exact: FixedAmount) -> RouteRequest {
        let pools = self.pools.pools(&[token_in, token_out], BlockId::latest(), TickReach::Near).await.unwrap();
        let price = self.provider.get_gas_price().await.unwrap();
        let open = if matches!(exact, FixedAmount::In(_)) { token_out } else { token_in };
        let gas = pools.pools.token_per_native(self.weth, open).and_then(|native| GasCost::new(price, &native));
        RouteRequest { gas, ..RouteRequest::new(token_in, token_out, exact) }
    }

    async fn sale(&self) -> RouteRequest {
        self.request(self.weth, self.usdc, FixedAmount::In(U256::from(ONE))).await
    }

    fn order_ask(&self) -> OrderQuery {
        let chain = self.sandbox.chain("ethereum").unwrap();
        OrderQuery {
            kind: OrderKind::DutchV2,
            chain_id: 31_337,
            now: chain.devnet.head().borrow().header.timestamp,
            swapper: self.me,
            reactor: self.network.book.contract(KnownContract::V2DutchReactor).unwrap(),
            cosigner: chain.deployment.cosigner,
            token_in: self.usdc,
            token_out: self.weth,
            amount_in: U256::from(2_000_000_000_u64),
            slippage: BasisPoints::new(50).unwrap(),
        }
    }

    fn approval_ask(&self) -> ApprovalQuery {
        let permit2 = self.network.book.contract(KnownContract::Permit2).unwrap();
        ApprovalQuery { chain_id: 31_337, owner: self.me, token: self.usdc, amount: U256::from(5_000), permit2 }
    }

    async fn quoted(&self, api: &TradingApi) -> Result<QuotedRoute, QuoteError> {
        let request = self.sale().await;
        api.quote(&self.ask(&request)).await
    }

    /// Result of the request with a liar about `path`.
    fn behind(&self, path: &'static str, change: impl Fn(&mut Value) + Send + Sync + 'static) -> (Liar, TradingApi) {
        let liar = Liar::start(&self.services.url(), path, Lie::Changed(Box::new(change)));
        let api = api(&liar.url());
        (liar, api)
    }
}

fn api(url: &str) -> TradingApi {
    TradingApi::new(Some(url), &SecretString::from("key-secret-77".to_owned())).unwrap()
}

fn set(value: &mut Value, pointer: &str, to: Value) {
    assert!(value.pointer(pointer).is_some(), "{pointer} in {value}");
    *value.pointer_mut(pointer).unwrap() = to;
}

fn words(error: QuoteError) -> String {
    assert!(matches!(error, QuoteError::Refused { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_true_answer_is_counted_anew_and_equals_the_own_routers() {
    let fixture = Fixture::open().await;
    let api = api(&fixture.services.url());
    for exact in [
        FixedAmount::In(U256::from(ONE)),
        FixedAmount::In(U256::from(ONE) * U256::from(100)),
        FixedAmount::Out(U256::from(90_000_000_000_u64)),
    ] {
        let request = fixture.request(fixture.weth, fixture.usdc, exact).await;
        let quoted = api.quote(&fixture.ask(&request)).await.unwrap();
        let (own, _) = fixture.pools.route(&request, BlockId::latest()).await.unwrap();
        let told = quoted.claim.unwrap();
        assert_eq!((quoted.route.amount_in, quoted.route.amount_out), (own.amount_in, own.amount_out), "{exact:?}");
        let open = if matches!(exact, FixedAmount::In(_)) { own.amount_out } else { own.amount_in };
        assert_eq!((told.claimed, told.own), (open, Some(open)));
        assert_eq!(told.ahead_bps, Some(0));
        let permit = told.permit.expect("nothing is allowed yet");
        assert_eq!((permit.details.token, permit.spender), (fixture.weth, fixture.routers[0]));
        tokio::time::sleep(Duration::from_millis(350)).await;
    }

    // Every request states the router's version; the devnet's router accepts the older one only.
    let liar = Liar::start(&fixture.services.url(), "/nothing", Lie::Silence(Duration::ZERO));
    let listened = self::api(&liar.url());
    fixture.quoted(&listened).await.unwrap();
    let request = fixture.sale().await;
    let newer = QuoteRequest { router_version: RouterVersion::V2_1_1, ..fixture.ask(&request) };
    let error = listened.quote(&newer).await.unwrap_err();
    assert!(error.to_string().contains("x-universal-router-version"), "{error}");
    let heads = liar.heard();
    assert!(heads[0].contains("x-universal-router-version: 2.0\r\n"), "{heads:?}");
    assert!(heads[1].contains("x-universal-router-version: 2.1.1\r\n"), "{heads:?}");

    // A pair without pools, and an unsupported chain.
    let request = RouteRequest::new(fixture.weth, Address::repeat_byte(5), FixedAmount::In(U256::from(ONE)));
    let error = api.quote(&fixture.ask(&request)).await.unwrap_err();
    assert!(error.to_string().contains("404 ResourceNotFound No quotes available"), "{error}");
    let elsewhere = fixture.sale().await;
    let error = api.quote(&QuoteRequest { chain_id: 1, ..fixture.ask(&elsewhere) }).await.unwrap_err();
    assert!(error.to_string().contains("chain 1 is not a chain of this devnet"), "{error}");

    // Orders: the builder creates the same order from the same figures.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ask = fixture.order_ask();
    let SourceAuction { start_out, least_out } = api.order(&ask).await.unwrap().unwrap();
    let way = fixture.request(fixture.usdc, fixture.weth, FixedAmount::In(ask.amount_in)).await;
    let (own, _) = fixture.pools.route(&way, BlockId::latest()).await.unwrap();
    assert_eq!(start_out, own.amount_out);
    // 0.5 % less, rounded down.
    assert_eq!(least_out, own.amount_out * U256::from(9_950) / U256::from(10_000));
    for kind in [OrderKind::DutchV3, OrderKind::Priority] {
        let role =
            if kind == OrderKind::DutchV3 { KnownContract::V3DutchReactor } else { KnownContract::PriorityReactor };
        let ask = OrderQuery { kind, reactor: fixture.network.book.contract(role).unwrap(), ..ask };
        let said = api.order(&ask).await;
        match kind {
            OrderKind::DutchV3 => assert_eq!(said.unwrap().unwrap().start_out, own.amount_out),
            // Ethereum's service quotes V2 Dutch orders and Base's priority orders, so this is not the requested kind.
            _ => assert!(words(said.unwrap_err()).contains("PRIORITY"), "another kind"),
        }
    }

    // Approvals and swaps.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        api.approval(&fixture.approval_ask()).await.unwrap(),
        Some(SourceApproval::Needed { amount: U256::MAX, cancel_first: false })
    );
    let nothing = ApprovalQuery { amount: U256::ZERO, ..fixture.approval_ask() };
    assert_eq!(api.approval(&nothing).await.unwrap(), Some(SourceApproval::Enough));
    let unknown = B256::repeat_byte(9);
    assert_eq!(api.swaps(31_337, &[unknown]).await.unwrap(), [(unknown, SwapStatus::NotFound)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_nothing_is_told_and_the_key_is_in_no_error() {
    let fixture = Fixture::open().await;
    let bare = TradingApi::over(JsonService::new(&fixture.services.url()).unwrap());
    let error = fixture.quoted(&bare).await.unwrap_err();
    assert!(error.to_string().contains("401 UnauthorizedError"), "{error}");
    // A service that repeats the key in its errors.
    for status in ["HTTP/1.1 403 Forbidden", "HTTP/1.1 200 OK"] {
        let body = json!({"errorCode": "Forbidden", "detail": "key-secret-77 is no key", "routing": "key-secret-77"});
        let raw = with_body(status, body.to_string().as_bytes());
        let liar = Liar::start(&fixture.services.url(), "/quote", Lie::Raw(raw));
        let error = fixture.quoted(&api(&liar.url())).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("key-secret"), "{error:?}");
        assert!(error.to_string().contains("contains the API key"), "{error}");
        // The key was sent, in its header only.
        let heard = liar.heard();
        assert_eq!(heard[0].matches("key-secret-77").count(), 1, "{heard:?}");
        assert!(heard[0].to_lowercase().contains("x-api-key: key-secret-77"));
    }
    assert!(!format!("{:?}", api(&fixture.services.url())).contains("key-secret"));
    let odd = SecretString::from("key\nwith a line".to_owned());
    assert!(TradingApi::new(Some(&fixture.services.url()), &odd).is_err());
    let key = SecretString::from("key".to_owned());
    for base in ["http://example.com", "ftp://127.0.0.1", "nonsense"] {
        assert!(TradingApi::new(Some(base), &key).is_err(), "{base}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_answer_is_told_as_such() {
    let fixture = Fixture::open().await;
    let raw = |head: &str, body: &str| [head.as_bytes(), b"\r\n\r\n", body.as_bytes()].concat();
    let huge = format!("{{\"routing\":\"{}\"}}", "x".repeat(2 << 20));
    for (bytes, says) in [
        (with_body("HTTP/1.1 200 OK", b"<html>not now</html>"), "invalid response: a response that is not JSON"),
        (with_body("HTTP/1.1 200 OK", b""), "invalid response: a response that is not JSON"),
        (with_body("HTTP/1.1 200 OK", b"[1,2]"), "asked for a swap through pools, but returned nothing"),
        (with_body("HTTP/1.1 200 OK", b"{\"routing\":\"CLASSIC\",\"quote\":[]}"), "\"chainId\" is missing"),
        (with_body("HTTP/1.1 200 OK", huge.as_bytes()), "more than 1 MiB"),
        (raw("HTTP/1.1 200 OK\r\ncontent-length: 900", "{\"routing\":"), "cannot be reached"),
        (raw("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/quote\r\ncontent-length: 0", ""), "302"),
        (with_body("HTTP/1.1 500 Internal", b"{\"errorCode\":\"InternalServerError\"}"), "500 InternalServerError"),
        (with_body("HTTP/1.1 504 Timeout", b"no"), "504"),
        (
            with_body("HTTP/1.1 400 Bad", b"{\"errorCode\":\"RequestValidationError\",\"detail\":\"amount\"}"),
            "400 RequestValidationError amount",
        ),
        (with_body("HTTP/1.1 429 Many", b"{}"), "asks to wait 1 s"),
        (Vec::new(), "cannot be reached"),
    ] {
        let liar = Liar::start(&fixture.services.url(), "/quote", Lie::Raw(bytes));
        let error = fixture.quoted(&api(&liar.url())).await.unwrap_err();
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert_eq!(liar.heard().len(), 1, "{says}: nothing is asked twice by itself");
    }

    // Asked to wait, it waits: the second request is not sent.
    let busy = raw("HTTP/1.1 429 Many\r\nretry-after: 7\r\ncontent-length: 2", "{}");
    let liar = Liar::start(&fixture.services.url(), "/quote", Lie::Raw(busy));
    let api_at_rest = api(&liar.url());
    for _ in 0..2 {
        let error = fixture.quoted(&api_at_rest).await.unwrap_err();
        let QuoteError::Service { error: ServiceError::Busy { after }, .. } = error else { panic!("{error:?}") };
        assert!(after <= Duration::from_secs(7) && after > Duration::from_secs(1), "{after:?}");
    }
    assert_eq!(liar.heard().len(), 1);

    // A server that stays silent.
    let liar = Liar::start(&fixture.services.url(), "/quote", Lie::Silence(Duration::from_secs(5)));
    let service = JsonService::new(&liar.url()).unwrap().within(Duration::from_millis(300));
    let error = fixture.quoted(&TradingApi::over(service)).await.unwrap_err();
    assert!(matches!(error, QuoteError::Service { error: ServiceError::Unreachable(_), .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_that_lies_about_anything_is_refused() {
    let fixture = Fixture::open().await;
    let (usdc, stranger) = (fixture.usdc, Address::repeat_byte(0x77));
    let chain = fixture.sandbox.chain("ethereum").unwrap();
    let dai = chain.deployment.token(SandboxToken::Dai).unwrap();
    type Change = Box<dyn Fn(&mut Value) + Send + Sync>;
    let put = |pointer: &'static str, to: Value| -> Change { Box::new(move |value| set(value, pointer, to.clone())) };
    let scaled = |by: u64| -> Change {
        Box::new(move |value| {
            let said: U256 = value["quote"]["output"]["amount"].as_str().unwrap().parse().unwrap();
            set(value, "/quote/output/amount", (said * U256::from(by) / U256::from(10_000)).to_string().into());
        })
    };
    let cases: Vec<(Change, &str)> = vec![
        (put("/routing", json!("DUTCH_V2")), "returned DUTCH_V2"),
        (put("/quote/chainId", json!(1)), "\"chainId\" is 1"),
        (put("/quote/input/token", json!(usdc)), "\"input.token\""),
        (put("/quote/output/token", json!(dai)), "\"output.token\""),
        (put("/quote/output/recipient", json!(stranger)), "\"output.recipient\""),
        (put("/quote/swapper", json!(stranger)), "\"swapper\""),
        (put("/quote/input/amount", json!("999")), "\"input.amount\""),
        (put("/quote/route/0/0/address", json!(stranger)), "not a Uniswap V2 or V3 pool"),
        (put("/quote/route/0/0/type", json!("v4-pool")), "v4-pool"),
        (put("/quote/route/0/0/amountIn", json!("1")), "do not add up"),
        (put("/quote/route", json!([])), "it has 0 paths"),
        (
            Box::new(move |value| {
                let mut hop = value["quote"]["route"][0][0].clone();
                hop["amountIn"] = value["quote"]["input"]["amount"].clone();
                set(value, "/quote/route", json!([[hop, hop]]));
            }),
            "used twice",
        ),
        (put("/permitData/values/spender", json!(stranger)), "not a router of the chain"),
        (put("/permitData/values/details/token", json!(usdc)), "\"permitData.token\""),
        (put("/permitData/domain/chainId", json!(1)), "\"permitData.domain.chainId\""),
        (put("/permitData/domain/verifyingContract", json!(stranger)), "verifyingContract"),
        (put("/permitData/values/details/amount", json!("9".repeat(60))), "160 bits"),
        // More than the pools give, beyond the movement of a few blocks.
        (scaled(10_060), "it claims"),
    ];
    for (change, says) in cases {
        let (_liar, api) = fixture.behind("/quote", change);
        let said = words(fixture.quoted(&api).await.unwrap_err());
        assert!(said.contains(says), "{says}: {said}");
    }
    // Slightly more is the market's movement, and less is a harmless lie: the pools decide.
    for by in [10_049, 5_000] {
        let (_liar, api) = fixture.behind("/quote", scaled(by));
        let quoted = fixture.quoted(&api).await.unwrap();
        assert_eq!(Some(quoted.route.amount_out), quoted.claim.unwrap().own);
    }
    // A real pool that is a bad route: all of a large sale through the shallowest.
    let deep = fixture.request(fixture.weth, fixture.usdc, FixedAmount::In(U256::from(ONE) * U256::from(300))).await;
    let pair = [fixture.weth, fixture.usdc];
    let snapshot = fixture.pools.pools(&pair, BlockId::latest(), TickReach::Near).await.unwrap();
    let worst = snapshot.pools.between(fixture.weth, fixture.usdc).filter_map(|(pool, way)| {
        Some((pool.quote(way, FixedAmount::In(deep.exact.amount())).ok()?.amount_out, pool.id().contract()?))
    });
    let (given, pool) = worst.min().unwrap();
    let (_liar, api) = fixture.behind("/quote", move |value| {
        let whole = value["quote"]["input"]["amount"].clone();
        let mut hop = value["quote"]["route"][0][0].clone();
        hop["address"] = json!(pool);
        hop["type"] = json!("v3-pool");
        hop["amountIn"] = whole;
        set(value, "/quote/route", json!([[hop]]));
        set(value, "/quote/output/amount", given.to_string().into());
    });
    let said = words(api.quote(&fixture.ask(&deep)).await.unwrap_err());
    assert!(said.contains("worse than the best route over on-chain pools"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_differs_from_our_own_is_refused() {
    let fixture = Fixture::open().await;
    let stranger = Address::repeat_byte(0x77);
    let quoted = fixture.quoted(&api(&fixture.services.url())).await.unwrap();
    let trade = plan(&SwapRequest {
        route: &quoted.route,
        native_in: false,
        native_out: false,
        slippage: BasisPoints::new(50).unwrap(),
        recipient: OutputRecipient::Account(fixture.me),
        permit: None,
        portion: None,
        one_bound: true,
        deadline: Some(U256::from(START + 600)),
    })
    .unwrap();
    let hops = quoted.route.legs.iter().flat_map(|leg| &leg.hops);
    let pools: Vec<Address> = hops.filter_map(|hop| hop.pool.contract()).collect();
    let own = BuiltCall {
        chain_id: 31_337,
        account: fixture.me,
        router: fixture.routers[0],
        version: RouterVersion::V2_0,
        value: trade.value,
        execution: &trade.execution,
        pools: &pools,
    };
    let told = quoted.claim.unwrap();
    assert!(api(&fixture.services.url()).check_call(&told, &own).await.unwrap());

    let recoded = |change: fn(&mut RouterExecution, Address)| {
        move |value: &mut Value| {
            let data = hex::decode(value["swap"]["data"].as_str().unwrap()).unwrap();
            let mut execution = RouterExecution::decode(&data, RouterVersion::V2_0).unwrap();
            change(&mut execution, Address::repeat_byte(0x77));
            value["swap"]["data"] = json!(execution.encode(RouterVersion::V2_0));
        }
    };
    type Change = Box<dyn Fn(&mut Value) + Send + Sync>;
    let put = |pointer: &'static str, to: Value| -> Change { Box::new(move |value| set(value, pointer, to.clone())) };
    let cases: Vec<(Change, &str)> = vec![
        (put("/swap", json!(null)), "\"swap.chainId\"|\"chainId\""),
        (put("/swap/to", json!(stranger)), "\"swap.to\""),
        (put("/swap/from", json!(stranger)), "\"swap.from\""),
        (put("/swap/chainId", json!(1)), "\"swap.chainId\""),
        (put("/swap/value", json!("0x1")), "1 wei, but"),
        (put("/swap/data", json!("0x")), "cannot be decoded"),
        (put("/swap/data", json!("0x095ea7b3")), "cannot be decoded"),
        (put("/swap/data", json!("zz")), "hexadecimal"),
        (
            Box::new(recoded(|execution, stranger| {
                for command in &mut execution.commands {
                    if let RouterCommand::Swap(swap) = command {
                        swap.recipient = stranger;
                    }
                }
            })),
            "pays 0x7777",
        ),
        (
            Box::new(recoded(|execution, stranger| {
                execution.commands.push(RouterCommand::Sweep {
                    token: Address::ZERO,
                    recipient: stranger,
                    amount_min: U256::ZERO,
                });
            })),
            "pays 0x7777",
        ),
        (
            Box::new(recoded(|execution, stranger| {
                execution.commands.push(RouterCommand::PayPortion {
                    token: Address::ZERO,
                    recipient: stranger,
                    bips: U256::from(25),
                });
            })),
            "gives 25 bps to 0x7777",
        ),
        (Box::new(recoded(|execution, _| execution.commands.clear())), "other pools or amounts"),
        (
            Box::new(recoded(|execution, _| {
                let twice = execution.commands.clone();
                execution.commands.extend(twice);
            })),
            "other pools or amounts",
        ),
    ];
    for (change, says) in cases {
        let (_liar, api) = fixture.behind("/swap", change);
        let said = words(api.check_call(&told, &own).await.unwrap_err());
        assert!(says.split('|').any(|says| said.contains(says)), "{says}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_and_orders_that_lie_are_refused() {
    let fixture = Fixture::open().await;
    let stranger = Address::repeat_byte(0x77);
    type Change = Box<dyn Fn(&mut Value) + Send + Sync>;
    let put = |pointer: &'static str, to: Value| -> Change { Box::new(move |value| set(value, pointer, to.clone())) };
    // approve(0x7777…, 2^256 − 1), and the call of another function.
    let word = |address: Address| format!("{:0>64}", hex::encode(address));
    let approve = |spender: Address| json!(format!("0x095ea7b3{}{}", word(spender), "f".repeat(64)));
    let permit2 = fixture.approval_ask().permit2;
    let transfer = json!(format!("0xa9059cbb{}{}", word(permit2), "f".repeat(64)));
    let long = json!(format!("{}00", approve(permit2).as_str().unwrap()));
    let small = json!(format!("0x095ea7b3{}{:0>64}", word(permit2), "1"));
    let cases: Vec<(Change, &str)> = vec![
        (put("/approval/to", json!(stranger)), "\"approval.to\""),
        (put("/approval/from", json!(stranger)), "\"approval.from\""),
        (put("/approval/chainId", json!(1)), "\"approval.chainId\""),
        (put("/approval/value", json!("0x5")), "sends native tokens"),
        (put("/approval/data", approve(stranger)), "not for Permit2"),
        (put("/approval/data", transfer), "not an approve call"),
        (put("/approval/data", long), "not an approve call"),
        (put("/approval/data", small), "less than the requested 5000"),
        (Box::new(|value| *value = json!({"requestId": "1"})), "approval and cancel"),
        (Box::new(|value| value["cancel"] = value["approval"].clone()), "cancellation grants"),
    ];
    for (change, says) in cases {
        let (_liar, api) = fixture.behind("/check_approval", change);
        let said = words(api.approval(&fixture.approval_ask()).await.unwrap_err());
        assert!(said.contains(says), "{says}: {said}");
    }

    let recoded = |change: fn(&mut bardo::abi::uniswapx::EncodedV2DutchOrder)| -> Change {
        Box::new(move |value| {
            let encoded = hex::decode(value["quote"]["encodedOrder"].as_str().unwrap()).unwrap();
            let UniswapXOrder::DutchV2(mut order) = UniswapXOrder::decode(OrderKind::DutchV2, &encoded).unwrap() else {
                panic!()
            };
            change(&mut order);
            let order = UniswapXOrder::DutchV2(order);
            value["quote"]["encodedOrder"] = json!(order.encode());
            value["quote"]["orderId"] = json!(order.hash());
        })
    };
    let cases: Vec<(Change, &str)> = vec![
        (put("/quote/orderId", json!(B256::ZERO)), "not the hash"),
        (put("/quote/encodedOrder", json!("0x00")), "not an encoded"),
        (put("/routing", json!("PRIORITY")), "returned PRIORITY"),
        (recoded(|order| order.info.reactor = Address::repeat_byte(0x77)), "reactor"),
        (recoded(|order| order.info.swapper = Address::repeat_byte(0x77)), "0x7777"),
        (recoded(|order| order.info.deadline = U256::from(5)), "deadline"),
        (recoded(|order| order.info.additionalValidationContract = Address::repeat_byte(0x77)), "decide who may fill"),
        (recoded(|order| order.cosigner = Address::repeat_byte(0x77)), "cosigner"),
        (recoded(|order| order.baseInput.token = Address::repeat_byte(0x77)), "its order takes"),
        (recoded(|order| order.baseInput.endAmount += U256::from(1)), "both move|its order takes"),
        (recoded(|order| order.baseOutputs[0].token = Address::repeat_byte(0x77)), "its order pays 0x7777"),
        (recoded(|order| order.baseOutputs[0].recipient = Address::repeat_byte(0x77)), "goes to 0x7777"),
        (recoded(|order| order.baseOutputs[0].endAmount /= U256::from(2)), "further below its start"),
        (recoded(|order| order.baseOutputs.push(order.baseOutputs[0].clone())), "has several outputs"),
        (recoded(|order| order.cosignature = Bytes::from(vec![1; 65])), ""),
    ];
    for (change, says) in cases {
        let (_liar, api) = fixture.behind("/quote", change);
        let said = api.order(&fixture.order_ask()).await;
        if says.is_empty() {
            // Cosigner data are neither signed nor copied.
            assert!(said.unwrap().is_some());
            continue;
        }
        let said = words(said.unwrap_err());
        assert!(says.split('|').any(|says| said.contains(says)), "{says}: {said}");
    }

    for (change, says) in [
        (put("/swaps/0/status", json!("MAYBE")), "an unknown status"),
        (put("/swaps/0/txHash", json!(B256::ZERO)), "not requested"),
        (put("/swaps", json!({})), "not a list of swaps"),
    ] {
        let (_liar, api) = fixture.behind("/swaps", change);
        let error = api.swaps(31_337, &[B256::repeat_byte(1)]).await.unwrap_err();
        assert!(matches!(error, ServiceError::InvalidResponse(_)) && error.to_string().contains(says), "{error}");
    }
}
