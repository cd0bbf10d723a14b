//! Orders: building, hashing, signing, cosigning and resolving; a ledger with a thousand open orders, followed over
//! blocks of the devnet; and the screen that shows them.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, Bytes, U256, address};
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::id::{CallId, GolemId, PermitId};
use bardo::base::text::SafeText;
use bardo::chain::network::KnownContract;
use bardo::chain::permit2::Permit2Domain;
use bardo::console::painter::Painter;
use bardo::console::screens::{ScreenContext, ScreenId, Screens};
use bardo::console::state::feed::Feed;
use bardo::console::state::model::Page;
use bardo::console::theme::Theme;
use bardo::console::widgets::samples;
use bardo::fabric::{CardToken, DecayUnit, Event, EventKind, Fabric};
use bardo::safety::orders::record::OrderFigures;
use bardo::safety::orders::{OrderChain, Orders, OrdersConfig};
use bardo::sandbox::keys::DevnetAccount;
use bardo::sandbox::order_service::LocalOrders;
use bardo::session::handle::SessionInfo;
use bardo::store::StoreError;
use bardo::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft, OrderKind, ResolutionPoint, UniswapXOrder};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rusqlite::params;

use bardo_testkit::harness::{TestHarness, devnet};

/// Number of open orders to follow.
const OPEN: u64 = 1_000;

const PERMIT2: Address = address!("000000000022D473030F116dDEE9F6B43aC78BA3");

fn draft(kind: OrderKind, nonce: u64) -> OrderDraft {
    OrderDraft {
        reactor: Address::repeat_byte(1),
        swapper: Address::repeat_byte(2),
        recipient: Address::repeat_byte(2),
        nonce: U256::from(nonce),
        deadline: 2_000,
        cosigner: Address::repeat_byte(3),
        token_in: Address::repeat_byte(4),
        token_out: Address::repeat_byte(5),
        legs: OrderAmounts::ExactIn {
            amount_in: U256::from(1_000_000_000u64),
            start_out: U256::from(1_010_000_000u64),
            least_out: U256::from(990_000_000u64),
        },
        auction: match kind {
            OrderKind::Dutch => AuctionTerms::Times { from: 1_000, until: 1_900 },
            OrderKind::DutchV2 => AuctionTerms::CosignedTimes,
            OrderKind::DutchV3 => AuctionTerms::CosignedBlocks { over: 40, base_fee: 0, per_gwei: U256::ZERO },
            OrderKind::Priority => {
                AuctionTerms::PriorityFee { start_block: 1, baseline: 0, mps_per_wei: U256::from(1) }
            }
        },
    }
}

/// An order of a kind as a filler receives it, in the middle of its auction at second 1,400 and block 20.
fn cosigned(kind: OrderKind, party: &DevnetAccount) -> UniswapXOrder {
    let mut order = OrderDraft { cosigner: party.address(), ..draft(kind, 1) }.order().expect("an order");
    match &mut order {
        UniswapXOrder::Dutch(_) => {}
        UniswapXOrder::DutchV2(order) => {
            order.cosignerData.decayStartTime = U256::from(1_000);
            order.cosignerData.decayEndTime = U256::from(1_900);
            order.cosignerData.outputAmounts = vec![U256::ZERO; order.baseOutputs.len()];
        }
        UniswapXOrder::DutchV3(order) => {
            order.cosignerData.decayStartBlock = U256::from(1);
            order.cosignerData.outputAmounts = vec![U256::ZERO; order.baseOutputs.len()];
        }
        UniswapXOrder::Priority(order) => order.cosignerData.auctionTargetBlock = U256::from(1),
    }
    let digest = order.cosigner_digest(31_337).expect("a cosigner's digest");
    order.with_cosignature(party.sign_digest(31_337, digest).expect("a signature"))
}

fn orders(criterion: &mut Criterion) {
    let domain = Permit2Domain { chain_id: 31_337, permit2: PERMIT2 };
    let party = DevnetAccount::development_accounts().expect("the development accounts").swap_remove(0);
    for kind in [OrderKind::DutchV2, OrderKind::DutchV3, OrderKind::Priority] {
        criterion.bench_function(&format!("{kind} built"), |bench| {
            bench.iter(|| draft(kind, black_box(1)).order().unwrap())
        });
        let order = draft(kind, 1).order().unwrap();
        criterion.bench_function(&format!("{kind} hashed"), |bench| bench.iter(|| black_box(&order).hash()));
        criterion.bench_function(&format!("{kind} digest to sign"), |bench| {
            bench.iter(|| black_box(&order).permit().digest(&domain))
        });
        let digest = order.permit().digest(&domain);
        criterion.bench_function(&format!("{kind} signed"), |bench| {
            bench.iter(|| party.sign_digest(31_337, black_box(digest)).unwrap())
        });
        let encoded = order.encode();
        criterion.bench_function(&format!("{kind} decoded and compared"), |bench| {
            bench.iter(|| UniswapXOrder::decode(kind, black_box(&encoded)).unwrap())
        });
    }
    // With the cosigner's signature, which every resolution verifies as the reactor does.
    for kind in [OrderKind::DutchV2, OrderKind::DutchV3, OrderKind::Priority] {
        let order = cosigned(kind, &party);
        let at = ResolutionPoint {
            chain_id: 31_337,
            timestamp: 1_400,
            block: 20,
            base_fee: 7,
            priority_fee: 3,
            filler: Address::ZERO,
        };
        order.resolve(&at).expect("an order in the midst of its auction");
        criterion.bench_function(&format!("{kind} resolved"), |bench| {
            bench.iter(|| black_box(&order).resolve(black_box(&at)).unwrap())
        });
    }
    // A first-version Dutch order needs no cosigner, so only the resolution is measured.
    let order = draft(OrderKind::Dutch, 1).order().unwrap();
    let at = ResolutionPoint {
        chain_id: 31_337,
        timestamp: 1_400,
        block: 9,
        base_fee: 7,
        priority_fee: 0,
        filler: Address::ZERO,
    };
    criterion.bench_function("a Dutch order resolved", |bench| bench.iter(|| black_box(&order).resolve(&at).unwrap()));
    let many: Vec<UniswapXOrder> = (0..1_000).map(|nonce| draft(OrderKind::Dutch, nonce).order().unwrap()).collect();
    criterion.bench_function("1,000 open orders resolved", |bench| {
        bench.iter(|| many.iter().filter(|order| order.resolve(&at).is_ok()).count())
    });
}

/// Stores [`OPEN`] open orders in the ledger, as if each had been signed and submitted. None can be filled, since no
/// service has them.
async fn open_orders(world: &TestHarness) {
    let (permit2, account) = (world.contract(KnownContract::Permit2), world.account());
    let (reactor, cosigner) =
        (world.contract(KnownContract::V2DutchReactor), world.contract(KnownContract::OrderCosigner));
    let (given, wanted) = (world.contract_of(&world.usdc), world.contract_of(&world.weth));
    let now = SystemClock.now_millis();
    let asset = |symbol: &str, address, decimals| CardToken { symbol: SafeText::clean(symbol, 8), address, decimals };
    let figures = OrderFigures {
        expected_outcome: SafeText::clean("what is expected", 40),
        token_in: asset("USDC", given, 6),
        token_out: asset("WETH", wanted, 18),
        quoted_out: U256::from(1_000_000_000_000_000u64),
        from_block: devnet().devnet.head().borrow().number(),
        arrival_from_block: None,
        arrival_before: None,
    };
    let facts = serde_json::to_string(&figures).expect("figures");
    let rows: Vec<(B256, Bytes, PermitId)> = (0..OPEN)
        .map(|nonce| {
            let order = OrderDraft {
                reactor,
                swapper: account,
                recipient: account,
                deadline: now / 1_000 + 80_000,
                cosigner,
                token_in: given,
                token_out: wanted,
                ..draft(OrderKind::DutchV2, nonce)
            };
            let order = order.order().expect("an order");
            (order.hash(), order.encode(), PermitId::random())
        })
        .collect();
    let written = world.store.write(move |transaction| -> Result<(), StoreError> {
        let mut statement = transaction.prepare(
            "INSERT INTO safety_order (hash, permit_id, call_id, golem_id, kind, chain_id, account, permit2, token_in,
             token_out, destination, encoded, signature, stage, status, facts, card, reservation, spent_usd, gas_usd,
             created_at, changed_at)
             VALUES (?1, ?2, ?3, 'operator', 'DUTCH_V2', 31337, ?4, ?5, ?6, ?7, NULL, ?8, ?9, 'submitted', 'open', ?10,
                     NULL, 1, '1', '0', ?11, ?11)",
        )?;
        for (hash, encoded, permit) in &rows {
            statement.execute(params![
                hash.as_slice(),
                permit.to_string(),
                CallId::new(now).to_string(),
                account.to_string(),
                permit2.to_string(),
                given.to_string(),
                wanted.to_string(),
                encoded.as_ref(),
                [7u8; 65].as_slice(),
                facts,
                i64::try_from(now).expect("a date"),
            ])?;
        }
        Ok(())
    });
    written.await.expect("rows");
}

/// Cost of a block with [`OPEN`] open orders: each is polled on the chain and at the service, and changes are stored
/// durably and published.
fn followed(criterion: &mut Criterion) {
    let runtime = bardo::base::runtime::multi_threaded(None).expect("a runtime");
    let world = runtime.block_on(TestHarness::new(3));
    runtime.block_on(open_orders(&world));
    let service = LocalOrders::new(devnet().devnet.clone(), devnet().background_actors.clone());
    let orders = Orders::new(OrdersConfig {
        chains: vec![OrderChain {
            client: world.client.clone(),
            kind: OrderKind::DutchV2,
            auctions: Some(Arc::new(service)),
            bridges: None,
            deposits: None,
            confirmations: None,
        }],
        store: world.store.clone(),
        rules: world.book.clone(),
        clock: Arc::new(SystemClock),
        fabric: Fabric::in_memory(4_096, Arc::new(SystemClock)),
    });
    let round = |mined: bool| {
        runtime.block_on(async {
            if mined {
                devnet().devnet.mine().await.expect("a block");
            }
            let begun = Instant::now();
            assert_eq!(orders.round().await.expect("a round"), 1_000);
            begun.elapsed()
        })
    };
    round(true);
    let mut group = criterion.benchmark_group("1,000 open orders");
    group.sample_size(10).throughput(Throughput::Elements(OPEN));
    group.bench_function("followed over a block", |bench| {
        bench.iter_custom(|times| (0..times).fold(Duration::ZERO, |sum, _| sum + round(true)))
    });
    group.bench_function("looked at again, no block between", |bench| {
        bench.iter_custom(|times| (0..times).fold(Duration::ZERO, |sum, _| sum + round(false)))
    });
    group.finish();
}

/// A frame of the orders screen with [`OPEN`] orders.
fn screen(criterion: &mut Criterion) {
    let Ok((theme, _)) = Theme::load("dark", None) else { return };
    let (page, mut feed) = (Page::default(), Feed::default());
    for seq in 1..=OPEN {
        let mut update = samples::order(DecayUnit::Seconds);
        update.order_hash = B256::from(U256::from(seq));
        let at = samples::START_MILLIS + seq;
        let call_id = Some(CallId::new(at));
        let kind = EventKind::OrderUpdate(Box::new(update));
        feed.take(&Arc::new(Event { seq, at, golem_id: GolemId::operator(), call_id, kind }));
    }
    let ready = SessionInfo {
        golem_id: GolemId::operator(),
        name: SafeText::clean("Ada", 8),
        role: SafeText::clean("trade-executor", 20),
        tools: Vec::new(),
        scenarios: Vec::new(),
        journal: None,
        commands: Vec::new(),
        brain: None,
        not_attached: None,
        own_devnet: true,
        served: false,
    };
    let known = ScreenContext {
        now_millis: samples::NOW.millis,
        live_millis: samples::NOW.millis,
        machine_millis: samples::NOW.millis,
        motion: true,
        money: None,
        page: &page,
        feed: &feed,
        live_feed: &feed,
        questions: &[],
        offer: None,
        snapshot: None,
        ready: Some(&ready),
        watch_only: false,
        away: None,
    };
    let screens = Screens::new();
    let Some(orders) = screens.get(ScreenId::Orders) else { return };
    for (width, height) in [(80, 24), (200, 50)] {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        criterion.bench_function(&format!("1,000 open orders on screen, {width}x{height}"), |bench| {
            bench.iter(|| {
                buffer.reset();
                orders.draw(&known, &mut Painter { buffer: &mut buffer, theme: &theme }, area);
                black_box(&buffer);
            });
        });
    }
}

criterion_group!(benches, orders, followed, screen);
criterion_main!(benches);
