//! Cost of the console: a whole frame of each screen at two sizes, including the output bytes (goal: under 0.6 ms);
//! each card; folding events into the screens' state; the time from the program's start to its first frame (goal: under
//! 100 ms); and the share of a core that the running demo uses.

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, U256};
use bardo::base::id::{CallId, GolemId, PermitId};
use bardo::base::model::Phase;
use bardo::base::text::SafeText;
use bardo::base::units::{TokenAmount, Usd};
use bardo::console::keymap::Key;
use bardo::console::screen::Screen;
use bardo::console::screens::{ScreenId, ticket};
use bardo::console::state::feed::Feed;
use bardo::console::state::model::{
    BlockRow, ChainIdentity, ChainSnapshot, FeedPrice, MarketUpdate, MoneyKind, NetworkIdentity, Page, PoolRow,
    PoolVersion, TokenRow,
};
use bardo::console::state::{Effect, Input, State};
use bardo::console::theme::Theme;
use bardo::console::view;
use bardo::console::widgets::{self, samples};
use bardo::engine::Catalog;
use bardo::fabric::{
    ApprovalOutcome, ApprovalRequested, ApprovalResolved, Event, EventKind, GolemState, GolemThought, MemoryHits,
    OrderUpdate, RedactedParams, ResultCard, ToolEnd, ToolStart, ToolUpdate, TxState, TxUpdate, Vitals,
};
use bardo::runtime::tool_info;
use bardo::session::envelope::{CallStatus, ToolResponse};
use bardo::session::handle::{
    AddressedCommand, AllowanceState, AllowancesState, AuditEntry, BreakerState, ChainHoldings, GrantState, HoldingRow,
    LimitUsage, PolicyState, QueryResult, SessionCommand, SessionInfo, SessionNews, SessionSnapshot, SpendState,
};
use bardo::session::questions::Question;
use bardo::tools::ALL_TOOL_DEFS;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use portable_pty::{Child, CommandBuilder, PtyPair, PtySize, native_pty_system};
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::widgets::Widget as _;
use serde_json::{Value, json};

/// Events of a run of swaps, eight for each call.
fn events(calls: u64) -> Vec<Arc<Event>> {
    let mut all = Vec::new();
    let (data, hints) = samples::quote_answer(true, 0.3);
    let order = samples::order(bardo::fabric::DecayUnit::Seconds);
    for call in 0..calls {
        let at = samples::START_MILLIS + call * 1_000;
        let call_id = CallId::new(at);
        let tx = |state| TxUpdate {
            chain_id: 31_337,
            hash: B256::repeat_byte(7),
            leg: 1,
            of: 1,
            state,
            block: Some(9),
            gas_cost_wei: None,
            purpose: None,
        };
        let kinds = [
            EventKind::ToolStart(ToolStart {
                tool_name: "uniswap_execute_swap".into(),
                params: RedactedParams::new(&samples::swap_params(), &[]),
                params_hash: B256::ZERO,
                tick: None,
                facts: None,
            }),
            EventKind::ToolUpdate(ToolUpdate { step: SafeText::clean("Building calldata", 80), index: 3, of: 6 }),
            EventKind::ToolUpdate(ToolUpdate { step: SafeText::clean("Signing transaction", 80), index: 4, of: 6 }),
            EventKind::TxUpdate(tx(TxState::Signed)),
            EventKind::TxUpdate(tx(TxState::Sent)),
            EventKind::TxUpdate(tx(TxState::Confirmed)),
            EventKind::OrderUpdate(Box::new(OrderUpdate { order_hash: B256::from(U256::from(call)), ..order.clone() })),
            EventKind::ToolEnd(ToolEnd {
                success: true,
                state: None,
                duration_ms: 900,
                result_summary: Value::Null,
                card: Some(ResultCard {
                    widget: bardo::base::model::CardKind::Quote,
                    data: data.clone(),
                    hints: Some(hints.clone()),
                }),
            }),
        ];
        for kind in kinds {
            let seq = u64::try_from(all.len()).unwrap_or(0) + 1;
            all.push(Arc::new(Event { seq, at, golem_id: GolemId::operator(), call_id: Some(call_id), kind }));
        }
    }
    all
}

fn page() -> Page {
    let text = |words: &str| SafeText::clean(words, 40);
    let mut page = Page::default();
    let chain = |name: &str, id| ChainIdentity { name: text(name), id, interval_millis: Some(1000) };
    page.apply(MarketUpdate::Started(NetworkIdentity {
        name: text("devnet"),
        money: MoneyKind::Play,
        chains: vec![chain("ethereum", 31_337), chain("base", 31_338)],
        wallet: Address::repeat_byte(1),
    }));
    for chain in 0..2 {
        let block = |number: u64| BlockRow {
            number,
            timestamp: samples::START + number,
            base_fee_wei: 1_000_000_000,
            gas_used: number * 1_000,
            gas_limit: 30_000_000,
            transactions: 4,
        };
        let token = |seed: u8| TokenRow {
            symbol: text("WETH"),
            address: Address::repeat_byte(seed),
            price: FeedPrice::Live("3412.55".parse().unwrap_or_default()),
        };
        let pool = |seed: u8| PoolRow {
            base: text("WETH"),
            quote: text("USDC"),
            version: PoolVersion::V3,
            fee_pips: 500,
            address: Address::repeat_byte(seed),
            price: "3412.5521".parse().ok(),
            feed_price: "3411.2".parse().ok(),
            holds: "12450000".parse().ok(),
        };
        page.apply(MarketUpdate::Chain(Box::new(ChainSnapshot {
            chain,
            blocks: (1..=200).map(block).collect(),
            tokens: (1..=8).map(token).collect(),
            pools: (1..=16).map(pool).collect(),
            balances: Vec::new(),
            positions: vec![],
            lending: None,
            activity: Vec::new(),
        })));
    }
    page
}

fn snapshot() -> SessionSnapshot {
    let text = |words: &str| SafeText::clean(words, 40);
    let amount = || TokenAmount::new(U256::from(1_234_567_890_u64), 6).unwrap_or(TokenAmount::ether(U256::ZERO));
    let dollars = |figure: &str| figure.parse().unwrap_or(Usd::ZERO);
    let spend = |used: &str, limit: &str| SpendState { used: dollars(used), limit: Some(dollars(limit)) };
    let grant = |number| GrantState {
        number,
        golem_id: GolemId::operator(),
        tool: text("uniswap_execute_swap"),
        chain_id: 31_337,
        tokens: vec![text("WETH"), text("USDC")],
        recipients: vec![Address::repeat_byte(1)],
        granted: Some(dollars("500")),
        left: dollars("380"),
        lasts_millis: 1_800_000,
    };
    let held = |_| HoldingRow { symbol: text("WETH"), amount: amount(), value: "1234.5".parse().ok() };
    let allowance = |seed| AllowanceState {
        chain: text("ethereum"),
        chain_id: 31_337,
        symbol: text("USDC"),
        token: Address::repeat_byte(seed),
        spender: Address::repeat_byte(seed),
        label: None,
        through_permit2: true,
        raw: U256::from(9),
        amount: Some(amount()),
        unlimited: false,
        expires_at: Some(samples::START + 300),
        promised: None,
    };
    SessionSnapshot {
        golem_id: GolemId::operator(),
        at: samples::START_MILLIS,
        account: None,
        paper: false,
        custody: None,
        phase: Phase::Thriving,
        policy: PolicyState { name: text("demo"), version: 1, hash: B256::ZERO },
        limits: Some(LimitUsage {
            day: spend("1966.02", "5000"),
            month: spend("1966.02", "50000"),
            one: "2500".parse().ok(),
            reserved: dollars("853.14"),
            asks_above: Some(dollars("1000")),
            hot_lane: None,
            calls: (3, 10),
            trades: (1, 120),
            breaker: BreakerState::Closed { failures: 0 },
            failures_limit: 3,
            stop_loss_bps: 1_000,
            stop_losses: Vec::new(),
        }),
        fault: None,
        stop: None,
        keys_revoked: false,
        holdings: vec![ChainHoldings {
            chain: text("ethereum"),
            chain_id: 31_337,
            block: 9,
            rows: (0..12).map(held).collect(),
            positions: vec![],
            lending: None,
        }],
        equity: "25310.42".parse().ok(),
        all_priced: true,
        allowances: AllowancesState { rows: (0..10).map(allowance).collect(), silent: Vec::new() },
        grants: (0..4).map(grant).collect(),
        running: 1,
        pnl: None,
        transactions: None,
        watched: Vec::new(),
        names: Vec::new(),
        schedules: None,
        deposits: None,
    }
}

/// Events after the swaps: the Golem's state, and calls with a decision.
fn life(first: u64) -> Vec<Arc<Event>> {
    let text = |words: &str| SafeText::clean(words, 200);
    let permit_id = PermitId::random();
    let mut kinds = vec![
        (
            None,
            EventKind::GolemNow(GolemState {
                now: text("Selling 0.25 WETH for USDC, to bring WETH under 55 %."),
                next: text("Buy UNI for $2,047. Waits for you."),
                step: Some((2, 4)),
                delegation: vec![text("trade-executor"), text("safety-guardian")],
            }),
        ),
        (
            None,
            EventKind::GolemThought(GolemThought {
                thought: 2,
                text: text("WETH is 57 % of what I hold. Target is 55. Sell 0.25 now, then UNI if it stays cheap."),
                more: false,
                report: false,
            }),
        ),
        (None, EventKind::MemoryHits(MemoryHits { similar: 3, changes: Vec::new() })),
        (
            None,
            EventKind::Vitals(Box::new(Vitals {
                phase: Phase::Thriving,
                why: text("nothing is wrong"),
                equity: "25310.42".parse().ok(),
                high_water: "25400".parse().ok(),
                drawdown_bps: Some(35),
                stop_loss_bps: 1_000,
                gas_runway_seconds: Some(777_600),
                gas_wei: Some(U256::from(1_373_500_000_000_000_000_u64)),
                failures: 0,
                failures_limit: 3,
                age_seconds: 2_460,
                lifespan_seconds: Some(7_200),
                lending: None,
            })),
        ),
        (None, EventKind::IntentUpdate(Box::new(samples::intent()))),
    ];
    for number in 0..40 {
        let call = Some(CallId::new(samples::START_MILLIS + 500_000 + number));
        let title = text("Swap 0.6 WETH for >= 258.53 UNI");
        let (reasons, lapses_at) = (Vec::new(), samples::START_MILLIS);
        let asked = ApprovalRequested { permit_id, title, reasons, lapses_at, passes_by_itself: false, renewal: None };
        let reason = Some(text("wait for gas"));
        let start = ToolStart {
            tool_name: "uniswap_execute_swap".into(),
            params: RedactedParams::new(&samples::swap_params(), &[]),
            params_hash: B256::ZERO,
            tick: None,
            facts: None,
        };
        kinds.extend([
            (call, EventKind::ToolStart(start)),
            (call, EventKind::ApprovalRequested(asked)),
            (
                call,
                EventKind::ApprovalResolved(ApprovalResolved {
                    permit_id,
                    outcome: ApprovalOutcome::Refused,
                    reason,
                    amount: None,
                }),
            ),
            (
                call,
                EventKind::ToolEnd(ToolEnd {
                    success: false,
                    state: None,
                    duration_ms: 9,
                    result_summary: Value::Null,
                    card: None,
                }),
            ),
        ]);
    }
    let event = |(seq, (call_id, kind))| {
        Arc::new(Event { seq, at: samples::START_MILLIS + 600_000, golem_id: GolemId::operator(), call_id, kind })
    };
    (first..).zip(kinds).map(event).collect()
}

/// As many audit log entries as the screen requests.
fn trail() -> SessionNews {
    let text = |words: &str| SafeText::clean(words, 60);
    let bodies = [
        ("permit:issued", json!({ "expected_outcome": "Swap 0.36 WETH for >= 153.573063 UNI", "needs": "approval" })),
        ("approval:resolved", json!({ "outcome": "refused", "reason": "wait for gas" })),
        ("action:settled", json!({ "state": "done", "spent": "848.499006" })),
        ("tx:signed", json!({ "hash": B256::repeat_byte(7), "leg": 1, "of": 1, "by": "local_key" })),
    ];
    let entry = |(seq, (kind, body)): (u64, &(&str, Value))| AuditEntry {
        seq,
        at: samples::START_MILLIS + seq,
        kind: text(kind),
        call_id: None,
        golem_id: text("ada"),
        body: body.clone(),
        hash: B256::repeat_byte(9),
    };
    let entries = (1..=500).zip(bodies.iter().cycle()).map(entry).collect();
    SessionNews::Found { ticket: ticket(ScreenId::Audit, 1), found: Box::new(QueryResult::Audit { entries }) }
}

/// Shows the screen of positions, and answers its reads with five pages of a hundred.
fn read_positions(state: &mut State) {
    let mut effects = state.update(Input::Key(Key::char(ScreenId::Positions.key())));
    while let Some(effect) = effects.pop() {
        let Effect::Send(AddressedCommand { command: SessionCommand::Call { ticket, tool, params, .. }, .. }) = effect
        else {
            continue;
        };
        let offset = params.get("offset").and_then(Value::as_u64);
        let data = offset.filter(|_| tool == "list_positions").map(|offset| {
            let entry = |at: u64| samples::positions::position("WETH", &(offset + at).to_string(), -196_000, "open");
            let next = (offset < 400).then_some(offset + 100);
            samples::positions::positions_reply((0..100).map(entry).collect(), next, 500, 0)
        });
        let response = Box::new(ToolResponse {
            call_id: CallId::new(1),
            status: CallStatus::Success,
            data,
            error: None,
            decision_hints: None,
            explanation: None,
        });
        effects.extend(state.update(Input::News(Box::new(SessionNews::Reply { ticket, response }))));
    }
}

fn frames(criterion: &mut Criterion) {
    let Ok((theme, _)) = Theme::load("dark", None) else { return };
    let (page, snapshot) = (page(), snapshot());
    let mut feed = Feed::default();
    events(400).iter().for_each(|event| feed.take(event));
    life(feed.last + 1).iter().for_each(|event| feed.take(event));
    for at in 0..200 {
        feed.take_price(samples::START_MILLIS + at * 2_000, format!("34{:02}.5", at % 100).parse().unwrap_or_default());
    }
    feed.equity = (0..4_320)
        .map(|at| (samples::START_MILLIS + at * 200, format!("253{:02}.25", at % 100).parse().unwrap_or_default()))
        .collect::<VecDeque<_>>();
    // The whole screen, including header and hints, drawn and converted to bytes. Each frame follows one with a
    // different latest block.
    let mut state = State::new(Size { width: 200, height: 50 }, samples::NOW.millis + 400_000, true);
    let tools = Catalog::new(ALL_TOOL_DEFS.iter().copied());
    let tools = tools.iter().flat_map(Catalog::iter).map(|entry| tool_info(entry)).collect();
    state.session.ready = Some(Box::new(SessionInfo {
        golem_id: GolemId::operator(),
        name: SafeText::clean("Ada", 8),
        role: SafeText::clean("trade-executor", 20),
        tools,
        scenarios: Vec::new(),
        journal: None,
        commands: Vec::new(),
        brain: None,
        not_attached: None,
        own_devnet: true,
        served: false,
    }));
    (state.session.page, state.session.feed, state.session.snapshot) = (page, feed, Some(Arc::new(snapshot)));
    let asked = |number| Question { number, of: 3, ..samples::question() };
    state.update(Input::News(Box::new(SessionNews::Questions(Arc::new((1..=3).map(asked).collect())))));
    state.update(Input::News(Box::new(trail())));
    state.display.notice = None;
    let mut group = criterion.benchmark_group("frame");
    for (width, height) in [(80, 24), (200, 50)] {
        let size = Size { width, height };
        state.update(Input::Resize(size));
        for id in ScreenId::ALL {
            state.display.screen = id;
            let mut screen = Screen::new(size);
            group.bench_function(format!("{} {width}x{height}", id.name()), |bencher| {
                bencher.iter(|| {
                    state.clock.now_millis += 1_000;
                    if let Some(block) =
                        state.session.page.chains.first_mut().and_then(|chain| chain.blocks.front_mut())
                    {
                        block.number += 1;
                    }
                    black_box(screen.frame(size, |area, buffer| view::draw(&state, &theme, area, buffer)).ok())
                });
            });
        }
    }
    group.finish();
    let mut group = criterion.benchmark_group("five hundred positions (goal 0.5 ms)");
    for (width, height) in [(120, 40), (200, 50)] {
        let size = Size { width, height };
        state.update(Input::Resize(size));
        read_positions(&mut state);
        let mut screen = Screen::new(size);
        group.bench_function(format!("{width}x{height}"), |bencher| {
            bencher.iter(|| {
                state.clock.now_millis += 1_000;
                black_box(screen.frame(size, |area, buffer| view::draw(&state, &theme, area, buffer)).ok())
            });
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("card");
    let area = Rect::new(0, 0, 58, 20);
    let mut buffer = Buffer::empty(area);
    for (widget, state, card) in samples::cards() {
        if matches!(state, "done" | "open" | "filling" | "approved") {
            group.bench_function(widget, |bencher| {
                bencher.iter(|| {
                    buffer.reset();
                    widgets::Card::new(&card, &theme, samples::NOW).render(area, &mut buffer);
                    black_box(&buffer);
                });
            });
        }
    }
    group.finish();
}

fn folding(criterion: &mut Criterion) {
    let all = events(2_000);
    let mut group = criterion.benchmark_group("fold");
    group.throughput(Throughput::Elements(u64::try_from(all.len()).unwrap_or(0)));
    group.sample_size(20);
    group.bench_function("events", |bencher| {
        bencher.iter(|| {
            let mut feed = Feed::default();
            all.iter().for_each(|event| feed.take(event));
            black_box(feed.last)
        });
    });
    group.finish();
}

/// The program in a pseudo-terminal, with a data folder of its own.
struct Running {
    child: Box<dyn Child + Send + Sync>,
    reader: Option<Box<dyn Read + Send>>,
    _pair: PtyPair,
    _home: tempfile::TempDir,
}

impl Running {
    fn start(arguments: &[&str]) -> Option<Self> {
        let home = tempfile::tempdir().ok()?;
        let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).ok()?;
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
        command.args(arguments);
        command.env("BARDO_HOME", home.path());
        command.env("BARDO_NETWORK", "devnet");
        command.env("TERM", "xterm-256color");
        command.cwd(home.path());
        let reader = pair.master.try_clone_reader().ok()?;
        let child = pair.slave.spawn_command(command).ok()?;
        Some(Self { child, reader: Some(reader), _pair: pair, _home: home })
    }

    /// Reads until the first synchronized update ends, which completes the first frame.
    fn first_frame(&mut self) -> Option<()> {
        const END_OF_UPDATE: &[u8] = b"\x1b[?2026l";
        let reader = self.reader.as_mut()?;
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        while !seen.windows(END_OF_UPDATE.len()).any(|window| window == END_OF_UPDATE) {
            let count = reader.read(&mut buffer).ok().filter(|count| *count > 0)?;
            seen.extend_from_slice(buffer.get(..count)?);
        }
        Some(())
    }

    /// Processor time of each kind of thread in clock ticks, by the thread's name.
    fn ticks(&self) -> BTreeMap<String, u64> {
        let mut used = BTreeMap::new();
        let Some(id) = self.child.process_id() else { return used };
        let Ok(threads) = std::fs::read_dir(format!("/proc/{id}/task")) else { return used };
        for thread in threads.flatten() {
            let Ok(stat) = std::fs::read_to_string(thread.path().join("stat")) else { continue };
            let Some((head, tail)) = stat.rsplit_once(')') else { continue };
            let name = head.split_once('(').map_or("", |(_, name)| name).to_owned();
            // After the name, the state is the first field; user and system time are the 12th and 13th.
            let times = tail.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
            *used.entry(name).or_default() += times.sum::<u64>();
        }
        used
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process is no longer needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn first_frame(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("start");
    group.sample_size(10);
    group.bench_function("to the first frame (goal 100 ms)", |bencher| {
        bencher.iter_custom(|times| {
            let mut whole = Duration::ZERO;
            for _ in 0..times {
                let begun = Instant::now();
                let mut running = Running::start(&[]);
                let drawn = running.as_mut().and_then(Running::first_frame);
                assert!(drawn.is_some(), "no frame came");
                whole += begun.elapsed();
            }
            whole
        });
    });
    group.finish();
}

/// Processor time of the running demo, by thread, over `WATCHED`. It is printed instead of measured by criterion,
/// since it is a share and not a duration.
fn processor_share(_: &mut Criterion) {
    const BOOT: Duration = Duration::from_secs(15);
    const WATCHED: Duration = Duration::from_secs(20);
    // `cargo test` runs benches only to check that they work.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let Some(mut running) = Running::start(&[]) else { return };
    // The output must be read; otherwise the program blocks on its terminal.
    let Some(mut reader) = running.reader.take() else { return };
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while matches!(reader.read(&mut buffer), Ok(1..)) {}
    });
    std::thread::sleep(BOOT);
    let before = running.ticks();
    std::thread::sleep(WATCHED);
    let after = running.ticks();
    println!(
        "processor share of one core with the demo running, over {} s (goal: the console under 5 %):",
        WATCHED.as_secs()
    );
    let hundred = 100.0 * WATCHED.as_secs_f64();
    for (name, ticks) in &after {
        let used = ticks.saturating_sub(before.get(name).copied().unwrap_or(0));
        println!("  {:>5.1} %  {name}", used as f64 * 100.0 / hundred);
    }
}

criterion_group!(benches, frames, folding, first_frame, processor_share);
criterion_main!(benches);
