//! The pipeline under the operator's real rules: policy, stop file and ledger. One situation per check that only this
//! check refuses, with its value, its limit and a passing value.

use std::path::Path;

use alloy::primitives::{Address, U256};
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::error::{ErrorCode, Violation};
use bardo::base::format::wait;
use bardo::base::id::GolemId;
use bardo::base::model::{Phase, StopLevel};
use bardo::chain::network::{self, DataFees};
use bardo::chain::token::TokenId;
use bardo::engine::{ApprovalMode, CallStatus, Catalog, ToolCall, ToolInput};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::approval::{ApprovalNeed, Consent};
use bardo::safety::ledger::{self, LedgerError, MicroUsd, Originator, ReservationId, ReservationOutcome};
use bardo::safety::pipeline::{CommitState, PhaseRequest, Pipeline, PipelineRefusal};
use bardo::safety::policy::parse;
use bardo::safety::proposal::{LegPurpose, Proposal};
use bardo::safety::stop::StopFile;
use bardo::store::{Store, StoreConfig, StoreError};
use bardo::tools::ALL_TOOL_DEFS;
use bardo::uniswap::router::{RouterCommand, RouterExecution, RouterVersion, SwapPath as RoutePath, V3Path};
use serde_json::json;

use crate::stops::false_allowance;
use bardo_testkit::acting::{acting, executor, ruled, seen};
use bardo_testkit::harness::{ASKED, TestHarness, cents};

const HUNDRED: u64 = 100_000_000;

/// The test chain under its own policy, with its own data directory.
struct Fixture {
    world: TestHarness,
    pipeline: Pipeline,
    store: Store,
    folder: tempfile::TempDir,
}

fn made(world: &TestHarness, folder: &Path, policy: &str) -> (Pipeline, Store) {
    let store = Store::open(StoreConfig::at(folder.join("ledger.db")), ALL_MIGRATIONS).unwrap();
    (world.pipeline_under(ruled(world, folder, &store, policy), &store), store)
}

impl Fixture {
    async fn new(account: usize, policy: &str) -> Self {
        let world = TestHarness::new(account).await;
        let folder = tempfile::tempdir().unwrap();
        let (pipeline, store) = made(&world, folder.path(), policy);
        Self { world, pipeline, store, folder }
    }

    /// Starts another process on the same data directory, later.
    fn again(&mut self, policy: &str) {
        (self.pipeline, self.store) = made(&self.world, self.folder.path(), policy);
    }

    async fn refused(&self, proposal: Proposal, asked: PhaseRequest) -> PipelineRefusal {
        let looked = self.pipeline.preview(proposal, self.world.wallet.clone(), asked).await;
        looked.expect_err("nothing stands against it")
    }

    /// Asserts that a swap of 100 USDC is refused by this rule only.
    async fn refuses(&self, code: ErrorCode, rule: &str) -> Violation {
        let refusal = self.refused(self.world.swap(HUNDRED).await, ASKED).await;
        expect(&refusal, code, rule)
    }

    /// Asserts the refusal with exactly this limit, value and passing value.
    async fn refuses_exactly(&self, code: ErrorCode, [rule, limit, value, would_pass]: [&str; 4]) {
        let one = self.refuses(code, rule).await;
        assert_eq!([one.limit.as_str(), one.value.as_str(), one.would_pass.as_str()], [limit, value, would_pass]);
    }

    async fn swaps(&self) {
        let proposal = self.world.swap(HUNDRED).await;
        let preview = self.pipeline.preview(proposal, self.world.wallet.clone(), ASKED).await.unwrap();
        let committed = self.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
        assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
    }

    fn party(&self) -> Originator {
        Originator {
            call_id: bardo::base::id::CallId::new(SystemClock.now_millis()),
            golem_id: GolemId::operator(),
            chain_id: 31_337,
            account: self.world.account(),
        }
    }
}

/// Millionths of a dollar, from displayed dollars such as `$1,234.567`.
fn micros(written: &str) -> u64 {
    let (whole, fraction) = written.strip_prefix('$').unwrap().split_once('.').unwrap();
    let whole: u64 = whole.replace(',', "").parse().unwrap();
    whole * 1_000_000 + format!("{fraction:0<6}").parse::<u64>().unwrap()
}

/// Seconds until the limit of a violation leaves more.
fn frees_in(one: &Violation) -> u64 {
    one.figures.as_ref().unwrap().frees_in_seconds.unwrap()
}

/// First number in a text.
fn number(text: &str) -> u64 {
    text.split(' ').find_map(|word| word.parse().ok()).unwrap_or_else(|| panic!("no number in `{text}`"))
}

/// The only violated rule.
fn expect(refusal: &PipelineRefusal, code: ErrorCode, rule: &str) -> Violation {
    assert_eq!(refusal.code, code, "{refusal:#?}");
    let found: Vec<&str> = refusal.violations.iter().map(|one| one.rule.as_str()).collect();
    assert_eq!(found, [rule], "{refusal:#?}");
    let one = &refusal.violations[0];
    assert!(!one.limit.is_empty() && !one.value.is_empty() && !one.would_pass.is_empty(), "{one:?}");
    assert!(refusal.simulated.is_some() || code == ErrorCode::SafetySimulationFailed, "what it would do is told");
    one.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn under_the_demos_policy_a_swap_passes_and_is_counted() {
    let fixture = Fixture::new(2, "").await;
    fixture.swaps().await;
    let used = fixture
        .store
        .read(|connection| {
            let party = fixture.party();
            ledger::usage(connection, SystemClock.now_millis(), party.chain_id, party.account, [], 0)
        })
        .unwrap();
    // 100 dollars and a little gas.
    let day = used.spent(ledger::CapPeriod::Day);
    assert!(day >= MicroUsd::new(100_000_000).unwrap() && day < MicroUsd::new(115_000_000).unwrap(), "{day}");
    assert_eq!(used.trades_hour, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stop_file_blocks_actions() {
    let fixture = Fixture::new(2, "").await;
    StopFile::in_folder(fixture.folder.path()).raise(StopLevel::Halt, "test", "test", 1).unwrap();
    let refusal = fixture.refused(fixture.world.swap(HUNDRED).await, ASKED).await;
    assert_eq!(refusal.code, ErrorCode::Halted, "{refusal:#?}");
    // An unreadable stop file counts as a halt, too.
    std::fs::write(fixture.folder.path().join("STOP"), "?").unwrap();
    assert_eq!(fixture.refused(fixture.world.swap(HUNDRED).await, ASKED).await.code, ErrorCode::Halted);
    bardo_testkit::proof::lift(fixture.folder.path());
    fixture.swaps().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_halt_a_revocation_of_a_token_in_the_policy_passes() {
    let mut fixture = Fixture::new(2, "").await;
    let (stranger, revoke) = false_allowance(&fixture.world, 0x5d, "ada").await;
    StopFile::in_folder(fixture.folder.path()).raise(StopLevel::Halt, "test", "test", 1).unwrap();
    let halted = |refusal: &PipelineRefusal| refusal.violations.iter().any(|violation| violation.rule == "stop");
    assert!(halted(&fixture.refused(revoke.clone(), ASKED).await));
    // Named among others, or permitted with all: only its own name counts.
    fixture.again("allowed_tokens = \"all\"");
    assert!(halted(&fixture.refused(revoke.clone(), ASKED).await));
    fixture.again(&format!("allowed_tokens = [\"31337:{stranger}\"]"));
    let preview = fixture.pipeline.preview(revoke, fixture.world.wallet.clone(), ASKED).await.unwrap();
    assert!(preview.simulated.only_revokes);
}

/// Plans of a dead process would let parts pass and are ended; those of a live process stay.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_plans_are_ended() {
    let fixture = Fixture::new(2, "").await;
    let (account, now) = (fixture.world.account(), SystemClock.now_millis());
    let token = (31_337, TokenId::Erc20(fixture.world.contract_of(&fixture.world.weth)));
    let rules = |store: &Store| ruled(&fixture.world, fixture.folder.path(), store, "");
    let other = Store::open(StoreConfig::at(fixture.folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
    let planned = || -> Vec<String> {
        let read = fixture.store.read(|connection| -> Result<Vec<String>, StoreError> {
            let mut rows = connection.prepare("SELECT account FROM ledger_liquidation").unwrap();
            Ok(rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect())
        });
        read.unwrap()
    };
    let seller = rules(&other);
    let sells = seller.lock_liquidation(account, std::time::Duration::from_secs(60)).await.unwrap();
    seller.plan_liquidation(account, vec![token], "a stop", now).await.unwrap();
    let stranger = Address::repeat_byte(7);
    seller.plan_liquidation(stranger, vec![token], "a stop", now).await.unwrap();
    let starting = rules(&fixture.store);
    assert_eq!(starting.end_orphaned_liquidations(account, now).await.unwrap(), 0, "somebody sells by it");
    assert_eq!(planned().len(), 2);
    drop(sells);
    assert_eq!(starting.end_orphaned_liquidations(account, now).await.unwrap(), 1);
    assert_eq!(planned(), [stranger.to_string()], "another account's is not this one's affair");
}

/// A swap whose calldata routes through this token between the traded ones, as a quote source may propose.
fn by_way_of(world: &TestHarness, mut proposal: Proposal, between: Address) -> Proposal {
    let leg = proposal.legs.iter_mut().find(|leg| leg.purpose == LegPurpose::Main).unwrap();
    let router = world.client.network().book.contracts().find(|(_, address)| *address == leg.to).unwrap().0;
    let version = RouterVersion::of(router).unwrap();
    let mut execution = RouterExecution::decode(&leg.data, version).unwrap();
    for command in &mut execution.commands {
        if let RouterCommand::Swap(swap) = command {
            let (first, last) = match &swap.path {
                RoutePath::V2(path) => (path[0], *path.last().unwrap()),
                RoutePath::V3(path) => (path.first(), path.steps().last().unwrap().1),
                RoutePath::V4(path) => (path.first(), path.last()),
            };
            swap.path = RoutePath::V3(V3Path::new(first, vec![(3_000, between), (3_000, last)]).unwrap());
        }
    }
    leg.data = execution.encode(version);
    proposal
}

/// An intermediate token never enters the account, but can prevent it from getting the output.
#[tokio::test(flavor = "multi_thread")]
async fn a_route_goes_through_known_tokens_only() {
    let found = |refusal: &PipelineRefusal| {
        let hops = refusal.violations.iter().filter(|one| one.value.as_str().contains("on the route"));
        hops.map(|one| one.rule.to_string()).collect::<Vec<_>>()
    };
    let trap = Address::repeat_byte(0x77);
    let fixture = Fixture::new(2, "").await;
    let refusal = fixture.refused(by_way_of(&fixture.world, fixture.world.swap(HUNDRED).await, trap), ASKED).await;
    assert_eq!(found(&refusal), ["allowed_tokens"], "{refusal:#?}");
    // A token of the address book is known, whatever other rule is violated.
    let book = &fixture.world.client.network().book;
    let known = book.tokens().iter().find(|token| token.symbol == "UNI").unwrap().address;
    let looked = fixture.pipeline.preview(
        by_way_of(&fixture.world, fixture.world.swap(HUNDRED).await, known),
        fixture.world.wallet.clone(),
        ASKED,
    );
    assert!(looked.await.err().is_none_or(|refusal| found(&refusal).is_empty()));
    drop(fixture);
    // So is one that the operator names.
    let named = Fixture::new(2, &format!("allowed_tokens = [\"31337:{trap}\"]")).await;
    let refusal = named.refused(by_way_of(&named.world, named.world.swap(HUNDRED).await, trap), ASKED).await;
    assert!(found(&refusal).is_empty(), "{refusal:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_permits_only_its_action_classes() {
    let fixture = Fixture::new(2, "").await;
    let buy = fixture.world.swap(HUNDRED).await;
    let refusal = fixture.refused(buy, PhaseRequest { phase: Phase::Defensive, own: None }).await;
    assert_eq!(refusal.code, ErrorCode::SafetyPhaseBlocked, "{refusal:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn allowlists_are_enforced() {
    let (usdc, weth, account) = {
        let world = TestHarness::new(2).await;
        (world.contract_of(&world.usdc), world.contract_of(&world.weth), world.account())
    };
    let only_usdc = format!("allowed_tokens = [\"31337:{usdc}\", \"31337:native\"]");
    let one = Fixture::new(2, &only_usdc).await.refuses(ErrorCode::SafetyTokenNotAllowed, "allowed_tokens").await;
    let mut listed: Vec<&str> = one.limit.as_str().split(", ").collect();
    listed.sort_unstable();
    assert_eq!(listed, [format!("devnet-ethereum:{usdc}").as_str(), "devnet-ethereum:native"]);
    assert_eq!(one.value, format!("devnet-ethereum:{weth} (calls itself WETH)"));
    assert_eq!(one.would_pass, "an allowed token");
    let unlisted = ErrorCode::SafetyNotAllowed;
    Fixture::new(2, "allowed_chains = [\"31338\"]")
        .await
        .refuses_exactly(unlisted, ["allowed_chains", "devnet-base", "devnet-ethereum", "the same on an allowed chain"])
        .await;
    Fixture::new(2, "allowed_tools = [\"token_revoke\"]")
        .await
        .refuses_exactly(unlisted, ["allowed_tools", "token_revoke", "test_write", "an allowed tool"])
        .await;
    let nobody = "0x00000000000000000000000000000000000000aa";
    let (listed, own) = (nobody.parse::<Address>().unwrap().to_string(), account.to_string());
    Fixture::new(2, &format!("allowed_execution_wallets = [\"{nobody}\"]"))
        .await
        .refuses_exactly(unlisted, ["allowed_execution_wallets", &listed, &own, "the same with an allowed wallet"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_are_enforced_across_calls_and_restarts() {
    let spending = ErrorCode::SafetySpendingLimitExceeded;
    let one = Fixture::new(2, "max_single_trade_usd = \"50\"").await.refuses(spending, "max_single_trade_usd").await;
    assert_eq!(one.limit, "$50.00 in one action");
    // What an amount of fifty dollars would be refused for is its gas.
    let (besides, gas) = one.would_pass.as_str().split_once(" besides gas of ").unwrap();
    let at_most = |words: &str| micros(words.strip_prefix("at most ").unwrap());
    assert_eq!(at_most(besides) + at_most(gas), 50_000_000, "{one:?}");
    // A hundred dollars and a little gas.
    assert!((100_000_000..115_000_000).contains(&micros(one.value.as_str())), "{one:?}");
    let day = "max_daily_spend_usd = \"150\"";
    let mut fixture = Fixture::new(2, day).await;
    fixture.swaps().await;
    for _ in 0..2 {
        let one = fixture.refuses(spending, "max_daily_spend_usd").await;
        assert_eq!(one.limit, "$150.00 in any 24 hours");
        // The words have cents, the figures all digits.
        let (now, before) = one.value.as_str().split_once(" on top of ").unwrap();
        let before = micros(before.strip_suffix(" already spent or reserved").unwrap());
        assert!(micros(now) + before > 150_000_000 && before >= 100_000_000, "{one:?}");
        let figures = one.figures.as_deref().unwrap();
        let left = micros(&format!("${}", figures.left.as_deref().unwrap()));
        let (besides, gas) = one.would_pass.as_str().split_once(" now besides gas of at most ").unwrap();
        let (gas, ending) = gas.split_once("; ").unwrap();
        assert!(micros(besides.strip_prefix("at most ").unwrap()).abs_diff(left) <= 10_000, "{one:?}");
        // Each of the three is rounded to a cent.
        assert!((150_000_000 - before).abs_diff(left + micros(gas)) <= 20_000, "{one:?}");
        let frees = frees_in(&one);
        assert!((80_000..=86_400).contains(&frees), "what was spent just now frees in a day: {one:?}");
        assert_eq!(ending, format!("the window starts to free up in {}", wait(frees)));
        fixture.again(day);
    }
    // Only one test uses the account at a time.
    drop(fixture);
    let one = Fixture::new(2, "max_gas_usd = \"0.0000001\"").await.refuses(spending, "max_gas_usd").await;
    assert_eq!([one.limit.as_str(), one.would_pass.as_str()], ["$0.00000010", "at most $0.00000010"]);
    assert!(one.value.as_str().starts_with('$') && one.value.as_str().ends_with(" of gas at most"), "{one:?}");
    // A ten-millionth of 10^9 wei is 100.
    let policy = "max_fee_per_gas_gwei = \"0.0000001\"";
    let one = Fixture::new(2, policy).await.refuses(spending, "max_fee_per_gas_gwei").await;
    assert_eq!(
        [one.limit.as_str(), one.would_pass.as_str()],
        ["100 wei per unit of gas", "the same when gas is cheaper"]
    );
    assert!(number(one.value.as_str()) > 100 && one.value.as_str().ends_with(" wei"), "{one:?}");
    let one = Fixture::new(2, "max_position_size_usd = \"10\"").await.refuses(spending, "max_position_size_usd").await;
    assert_eq!([one.limit.as_str(), one.would_pass.as_str()], ["$10.00", "at most $10.00"]);
    assert!(one.value.as_str().starts_with('$') && one.value.as_str().ends_with(" of WETH held afterwards"), "{one:?}");
    // Above the hot lane a guardian must agree, and none is running.
    Fixture::new(2, "[spending_limits]\nhot_lane = \"50\"")
        .await
        .refuses_exactly(
            spending,
            [
                "spending_limits.hot_lane",
                "above it, the safety-guardian must agree",
                "it needs the safety-guardian's agreement, but no safety-guardian is running",
                "a smaller amount",
            ],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_guardian_an_exit_above_the_hot_lane_needs_approval() {
    let fixture = Fixture::new(2, "[spending_limits]\nhot_lane = \"50\"").await;
    let (acting, _phase) = acting(&fixture.world, fixture.pipeline.clone(), ApprovalMode::Never);
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    let executor = executor(catalog, seen(&fixture.world), fixture.world.fabric(), None, Some(acting));
    // A twentieth of a native token is about 170 dollars.
    let sale = json!({"token_in": "ETH", "token_out": "USDC", "amount": "0.05", "chain": "ethereum",
                      "prefer_uniswapx": false});
    let sale = || ToolCall::new("uniswap_execute_swap", ToolInput::Json(sale.clone()));
    let asked = executor.call(sale()).await;
    let error = asked.error.as_ref().unwrap();
    assert_eq!(error.code(), ErrorCode::ApprovalRequired, "{asked:#?}");
    let approved = executor.call(ToolCall { approve: Some(ApprovalMode::Always), ..sale() }).await;
    assert_eq!(approved.status, CallStatus::Success, "{approved:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rates_are_enforced_across_calls_and_restarts() {
    let policy = "max_trades_per_hour = 1";
    let mut fixture = Fixture::new(2, policy).await;
    fixture.swaps().await;
    for _ in 0..2 {
        let one = fixture.refuses(ErrorCode::SafetyRateLimited, "max_trades_per_hour").await;
        assert_eq!([one.limit.as_str(), one.value.as_str()], ["1 in any 60 minutes", "1 were made"]);
        assert!(one.would_pass.as_str().starts_with("the next one in "), "{one:?}");
        assert!((1..=3_600).contains(&frees_in(&one)), "{one:?}");
        fixture.again(policy);
    }
    fixture.again("cooldown_seconds = 600");
    let one = fixture.refuses(ErrorCode::SafetyRateLimited, "cooldown_seconds").await;
    assert_eq!(one.limit, "10 min between trades");
    let (gone, left): (u64, u64) = (one.figures.as_ref().unwrap().value.parse().unwrap(), frees_in(&one));
    // Both are rounded, one down and one up.
    assert!((600..=601).contains(&(gone + left)), "{one:?}");
    assert_eq!(one.value, format!("{} after the last one", wait(gone)));
    assert_eq!(one.would_pass, format!("the same in {}, or an exit now", wait(left)));
}

#[tokio::test(flavor = "multi_thread")]
async fn losses_and_failures_block_trades() {
    let fixture = Fixture::new(2, "stop_loss_pct = \"10\"").await;
    let (party, now) = (fixture.party(), SystemClock.now_millis());
    let most = MicroUsd::new(900_000_000_000_000).unwrap();
    fixture.store.write(move |tx| ledger::observe(tx, now, &party, most)).await.unwrap();
    let one = fixture.refuses(ErrorCode::SafetyBalanceBreaker, "stop_loss_pct").await;
    // Nine tenths of 900 million.
    assert_eq!(one.limit, "10 % below the highest, $900,000,000.00: stops at $810,000,000.00");
    assert!(micros(one.value.as_str()) < 810_000_000_000_000, "{one:?}");
    assert_eq!(one.would_pass, "exits, until the portfolio has recovered or the operator sets a new mark");
    drop(fixture);

    let fixture = Fixture::new(2, "max_consecutive_failures = 2").await;
    let party = fixture.party();
    for _ in 0..2 {
        fail(&fixture, &party, now).await;
    }
    let one = fixture.refuses(ErrorCode::SafetyBalanceBreaker, "max_consecutive_failures").await;
    assert_eq!([one.limit.as_str(), one.value.as_str()], ["2 in a row", "2 in a row"]);
    let seconds = frees_in(&one);
    assert_eq!(one.would_pass, format!("one trial in {}, or an exit now", wait(seconds)));
    assert!((1..=900).contains(&seconds), "the demo's policy has them cool off for 900 s: {one:?}");
    // After the operator's reset trades pass again.
    fixture.store.write(ledger::reset_breaker).await.unwrap();
    fixture.swaps().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_an_open_breaker_everything_can_still_be_read() {
    let fixture = Fixture::new(2, "max_consecutive_failures = 2").await;
    let party = fixture.party();
    for _ in 0..2 {
        fail(&fixture, &party, SystemClock.now_millis()).await;
    }
    fixture.refuses(ErrorCode::SafetyBalanceBreaker, "max_consecutive_failures").await;
    let rules = ruled(&fixture.world, fixture.folder.path(), &fixture.store, "max_consecutive_failures = 2\n");
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    let executor = executor(catalog, seen(&fixture.world).under(rules), fixture.world.fabric(), None, None);
    let pair = json!({"token_in": "USDC", "token_out": "WETH", "amount": "100", "chain": "ethereum"});
    for (tool, params) in [
        ("uniswap_get_quote", pair),
        ("get_balances", json!({"chain": "ethereum"})),
        ("get_token_price", json!({"token": "WETH", "chain": "ethereum"})),
        ("check_safety_status", json!({})),
    ] {
        let response = executor.call(ToolCall::new(tool, ToolInput::Json(params))).await;
        assert_eq!(response.status, CallStatus::Success, "{tool}: {response:#?}");
    }
}

/// Records a failed action in the ledger.
async fn fail(fixture: &Fixture, party: &Originator, now: u64) {
    let party = party.clone();
    let policy = parse("preset = \"demo\"", Path::new("policy.toml")).unwrap();
    let caps = policy.caps(Phase::Thriving, false);
    let request = ledger::ReservationRequest {
        spend: MicroUsd::ZERO,
        gas: MicroUsd::ZERO,
        tokens: [].into(),
        trade: true,
        only_revokes: false,
        by_operator: false,
        exit: false,
        sold: [].into(),
        asked: false,
        traded: Default::default(),
        exempt: false,
        equity: MicroUsd::ZERO,
    };
    let failed = fixture.store.write(move |tx| -> Result<(), LedgerError> {
        let id: ReservationId = ledger::reserve(tx, now, &caps, &party, &request)?;
        ledger::settle(tx, now, id, ReservationOutcome::NotSent, 2)
    });
    failed.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unfair_prices_are_blocked() {
    let slippage = ErrorCode::SafetySlippage;
    Fixture::new(2, "max_slippage_bps = 10").await.refuses(slippage, "max_slippage_bps").await;
    Fixture::new(2, "max_price_impact_bps = 0").await.refuses(slippage, "max_price_impact_bps").await;
    Fixture::new(2, "max_loss_bps = 0").await.refuses(slippage, "max_loss_bps").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollups_data_fee_is_counted_and_must_be_known() {
    let world = TestHarness::new(2).await;
    let preview = |pipeline: Pipeline, proposal: Proposal| {
        let wallet = world.wallet.clone();
        async move { pipeline.preview(proposal, wallet, ASKED).await }
    };
    let plain = preview(world.pipeline.clone(), world.approval(HUNDRED)).await.unwrap().values;
    // PUSH7 10^15, PUSH0, MSTORE, PUSH1 32, PUSH0, RETURN: a thousandth of a native token for every transaction.
    let code = alloy::primitives::bytes!("66038d7ea4c680005f5260205ff3");
    let rollup = world.as_rollup(Address::repeat_byte(0x0f), code).await;
    let asked = preview(rollup, world.approval(HUNDRED)).await.unwrap().values;
    // Twice a thousandth of a native token at 3,400 dollars, up to the market's movement.
    let more = cents(asked.gas) - cents(plain.gas);
    assert!((600..760).contains(&more), "{more} cents");
    assert_eq!(cents(asked.spent) - cents(plain.spent), more);
    // An oracle with an invalid answer: nothing is signed on a guess.
    let mute = world.as_rollup(Address::repeat_byte(0x0e), alloy::primitives::bytes!("00")).await;
    let refused = preview(mute, world.approval(HUNDRED)).await.err().map(|refusal| refusal.code);
    assert_eq!(refused, Some(ErrorCode::SafetyPriceUnknown));
    // A chain whose data fee is unknown.
    let unknown = preview(world.charging(DataFees::Unknown), world.approval(HUNDRED)).await.unwrap_err();
    assert_eq!(unknown.code, ErrorCode::SafetyPriceUnknown, "{unknown:#?}");
    assert!(unknown.why().as_str().contains("data_fee_oracle"), "{unknown:#?}");
    // Data fees of chains that Bardo knows by id, and of others.
    let known = |id| network::by_id(id).unwrap().data_fees;
    assert_eq!([known(1), known(42_161)], [DataFees::None; 2]);
    assert!([10, 130, 8_453].iter().all(|id| matches!(known(*id), DataFees::Oracle(_))));
    assert_eq!(network::Network::unknown("mine", 59_144).data_fees, DataFees::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_is_required_as_the_policy_says() {
    let fixture = Fixture::new(2, "require_human_approval_above_usd = \"50\"").await;
    let nonce = fixture.world.nonce().await;
    let proposal = fixture.world.swap(HUNDRED).await;
    let preview = fixture.pipeline.preview(proposal, fixture.world.wallet.clone(), ASKED).await.unwrap();
    assert!(matches!(preview.needs, ApprovalNeed::Approval { .. }), "{:?}", preview.needs);
    let refused = fixture.pipeline.commit(preview.permit.permit_id, Consent::None).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::ApprovalRequired));
    assert_eq!(fixture.world.nonce().await, nonce, "nothing was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_composite_action_counts_in_full() {
    let fixture = Fixture::new(2, "require_human_approval_above_usd = \"150\"").await;
    let wallet = || fixture.world.wallet.clone();
    let needs = async |proposal| fixture.pipeline.preview(proposal, wallet(), ASKED).await.unwrap().needs;
    // Two swaps of 100 dollars in one call: each alone needs no approval, together they do.
    assert!(!matches!(needs(fixture.world.swap(HUNDRED).await).await, ApprovalNeed::Approval { .. }));
    let both = fixture.world.swap_in_parts(2 * HUNDRED, None, 2).await;
    assert!(matches!(needs(both.clone()).await, ApprovalNeed::Approval { .. }));
    let permit = fixture.pipeline.preview(both.clone(), wallet(), ASKED).await.unwrap().permit.permit_id;
    let refused = fixture.pipeline.commit(permit, Consent::None).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::ApprovalRequired));

    // The same bytes, declared with the figures of one of them.
    let mut half = both.clone();
    half.outflows[0].amount = U256::from(HUNDRED);
    half.trade.as_mut().unwrap().amount_in = U256::from(HUNDRED);
    let refusal = fixture.refused(half, ASKED).await;
    let against = |refusal: &PipelineRefusal, rules: &[&str]| {
        let found = refusal.violations.iter().any(|one| rules.contains(&one.rule.as_str()));
        assert!(found, "{:?}: {:#?}", refusal.code, refusal.violations);
    };
    // The amount that its signature permits counts, whatever is declared; so does the simulated outflow.
    against(&refusal, &["max_loss_bps", "outflow", "quote_above_witnesses"]);

    // Two transactions that move tokens are not a valid plan, and the permitted amounts of both count.
    let mut twice = fixture.world.swap(HUNDRED).await;
    twice.legs.push(twice.legs[1].clone());
    against(&fixture.refused(twice, ASKED).await, &["max_loss_bps", "plan"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inflow_does_not_reduce_the_spending() {
    // Under a daily limit, a trade that returns its whole value counts like any other: nothing is ever subtracted.
    let fixture = Fixture::new(2, "max_daily_spend_usd = \"150\"").await;
    fixture.swaps().await;
    let sold = fixture.store.read(|connection| {
        let party = fixture.party();
        ledger::usage(connection, SystemClock.now_millis(), party.chain_id, party.account, [], 0)
    });
    let before = sold.unwrap().spent(ledger::CapPeriod::Day);
    let bought = fixture.world.swap(1_000_000).await;
    let preview = fixture.pipeline.preview(bought, fixture.world.wallet.clone(), ASKED).await.unwrap();
    fixture.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    let after = fixture.store.read(|connection| {
        let party = fixture.party();
        ledger::usage(connection, SystemClock.now_millis(), party.chain_id, party.account, [], 0)
    });
    assert!(after.unwrap().spent(ledger::CapPeriod::Day) > before, "it only grows");
    fixture.refuses(ErrorCode::SafetySpendingLimitExceeded, "max_daily_spend_usd").await;
}
