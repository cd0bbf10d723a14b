//! Spending limits, circuit breakers and high-water marks that an attacker tries to move.

// High-water marks, with a ledger in a file.

mod high_water_marks {
    use alloy::primitives::Address;
    use bardo::base::id::{CallId, GolemId};
    use bardo::base::units::Rounding;
    use bardo::runtime::data::ALL_MIGRATIONS;
    use bardo::safety::ledger::{self, MicroUsd, Originator};
    use bardo::store::{Store, StoreConfig};

    /// Whole dollars as the ledger stores them.
    pub fn micros(dollars: u64) -> MicroUsd {
        MicroUsd::of(dollars.to_string().parse().unwrap(), Rounding::Up).unwrap()
    }

    /// High-water mark after these readings of an account's value: each a time in seconds and a value in whole dollars.
    pub async fn mark_after(readings: &[(u64, u64)]) -> MicroUsd {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(home.path().join("bardo.db")), ALL_MIGRATIONS).unwrap();
        let account = Address::repeat_byte(7);
        for (second, dollars) in readings {
            let originator =
                Originator { call_id: CallId::new(1), golem_id: GolemId::operator(), chain_id: 1, account };
            let (at, worth) = (86_400_000 + second * 1_000, micros(*dollars));
            let observed = store.write(move |transaction| ledger::observe(transaction, at, &originator, worth)).await;
            observed.unwrap();
        }
        let used = store.read(|connection| ledger::usage(connection, 86_400_000, 1, account, [], 0)).unwrap();
        used.high_water
    }
}

#[tokio::test]
async fn a_false_value_in_one_block_does_not_raise_the_high_water_mark() {
    assert_eq!(
        high_water_marks::mark_after(&[(0, 1_700), (12, 13_500_000), (24, 1_700), (7_200, 1_700)]).await,
        high_water_marks::micros(1_700)
    );
}

#[tokio::test]
async fn a_temporary_gift_does_not_raise_the_high_water_mark() {
    assert_eq!(
        high_water_marks::mark_after(&[(0, 1_000), (12, 1_200), (48, 1_200), (71, 1_000), (90, 1_200)]).await,
        high_water_marks::micros(1_000)
    );
    assert_eq!(
        high_water_marks::mark_after(&[(0, 1_000), (12, 1_200), (72, 1_010), (73, 1_200)]).await,
        high_water_marks::micros(1_010)
    );
}

#[tokio::test]
async fn two_false_values_an_hour_apart_do_not_raise_the_high_water_mark() {
    assert_eq!(
        high_water_marks::mark_after(&[(0, 1_700), (12, 13_500_000), (3_700, 13_500_000)]).await,
        high_water_marks::micros(1_700)
    );
}

#[tokio::test]
async fn a_lasting_gain_raises_the_high_water_mark() {
    assert_eq!(
        high_water_marks::mark_after(&[(0, 1_000), (12, 1_200), (72, 1_200)]).await,
        high_water_marks::micros(1_200)
    );
    assert_eq!(
        high_water_marks::mark_after(&[(0, 1_000), (12, 3_000), (1_800, 3_000), (3_700, 3_000)]).await,
        high_water_marks::micros(3_000)
    );
}
// Exits and the circuit breaker of failures.

mod exits_and_failures {
    use bardo::base::error::ErrorCode;
    use bardo::base::id::CallId;
    use bardo::base::model::{Phase, StopLevel};
    use bardo::chain::network::KnownContract;
    use bardo::chain::token::TokenId;
    use bardo::engine::{ApprovalMode, CallStatus, ToolCall, ToolInput, ToolResponse};
    use bardo::golem::agent_api::AgentSession;
    use bardo::safety::ledger::{
        self, FailureBreaker, LedgerError, MicroUsd, Originator, ReservationOutcome, ReservationRequest,
    };
    use bardo::safety::policy::parse;
    use bardo::store::{Store, StoreConfig};
    use serde_json::{Value, json};

    use bardo_testkit::golem_harness::{GolemHarness, permit, swap};

    async fn act(golem: &AgentSession, action: Value) -> ToolResponse {
        let previewed = golem.call("preview_action", action).await;
        match previewed.status {
            CallStatus::Simulated => golem.call("commit_action", permit(&previewed)).await,
            _ => previewed,
        }
    }

    fn code(answer: &ToolResponse) -> Option<ErrorCode> {
        answer.error.as_ref().map(|error| error.code())
    }

    /// Buys until the daily limit is used up; returns the number of purchases.
    async fn round_trips(golem: &AgentSession) -> usize {
        for bought in 0..10 {
            let answer = act(golem, swap("USDC", "UNI", "60")).await;
            if answer.status != CallStatus::Success {
                assert_eq!(code(&answer), Some(ErrorCode::SafetySpendingLimitExceeded), "{answer:#?}");
                return bought;
            }
            // Half of it is sold again, so that a position remains.
            let answer = act(golem, swap("UNI", "USDC", "1")).await;
            assert_eq!(answer.status, CallStatus::Success, "{answer:#?}");
        }
        panic!("the daily limit blocks no purchase");
    }

    const DAILY_LIMIT: &str = "preset = \"demo\"\nmax_daily_spend_usd = \"150\"\ncooldown_seconds = 0\n";

    #[tokio::test(flavor = "multi_thread")]
    async fn repeated_round_trips_do_not_block_an_exit() {
        let harness = GolemHarness::with_policy(DAILY_LIMIT).await;
        let golem = harness.golem("mallory", "trade-executor");
        // 150 dollars cover two purchases of 60 with their costs and those of the sales; a third would make 180.
        assert_eq!(round_trips(&golem).await, 2);
        harness.stop.raise(StopLevel::Flatten, "a test", "operator", 1).unwrap();
        let out = act(&golem, swap("UNI", "USDC", "max")).await;
        assert_eq!(out.status, CallStatus::Success, "{out:#?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_exit_above_the_caps_needs_approval_and_is_not_refused() {
        let harness = GolemHarness::with_policy("preset = \"demo\"\nmax_daily_spend_usd = \"0\"\n").await;
        let golem = harness.golem("ada", "trade-executor");
        let out = act(&golem, swap("WETH", "USDC", "0.02")).await;
        assert_eq!(code(&out), Some(ErrorCode::ApprovalRequired), "{out:#?}");
        let more = act(&golem, swap("USDC", "WETH", "20")).await;
        assert_eq!(code(&more), Some(ErrorCode::SafetySpendingLimitExceeded), "{more:#?}");
        // The approval covers the commit: an approved action is not refused when its amount is reserved.
        let executor = harness.executor("ada", "trade-executor");
        let approved = executor.call(ToolCall { approve: Some(ApprovalMode::Always), ..sale("0.02") }).await;
        assert_eq!(approved.status, CallStatus::Success, "{approved:#?}");
        let approved = ToolCall { approve: Some(ApprovalMode::Always), ..purchase("20") };
        let refused = executor.call(approved).await;
        assert_eq!(code(&refused), Some(ErrorCode::SafetySpendingLimitExceeded), "{refused:#?}");
    }

    /// Reserved and settled amount of the only action of this home, in millionths of a dollar.
    fn only_reservation(home: &std::path::Path) -> (i64, i64) {
        let [ledger] = &std::fs::read_dir(home.join("data/ledger")).unwrap().collect::<Vec<_>>()[..] else { panic!() };
        let database = ledger.as_ref().unwrap().path().join("ledger.db");
        let database = rusqlite::Connection::open(database).unwrap();
        let query = "SELECT micros, settled_micros FROM ledger_reservation";
        let mut rows = database.prepare(query).unwrap();
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let [only] = rows.collect::<Result<Vec<_>, _>>().unwrap()[..] else { panic!() };
        only
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_exit_uses_only_its_loss_of_the_daily_limit() {
        let harness = GolemHarness::with_policy(DAILY_LIMIT).await;
        let executor = harness.executor("ada", "trade-executor");
        // A sale of about 136 dollars and a purchase of 60, under a limit of 150: the sale lost less than five.
        let sold = executor.call(sale("0.04")).await;
        assert_eq!(sold.status, CallStatus::Success, "{sold:#?}");
        // Only the gas that was paid counts; the maximum had been reserved.
        let (reserved, settled) = only_reservation(harness.folder.path());
        assert!((1..reserved).contains(&settled) && reserved < 15_000_000, "{settled} of {reserved}");
        let bought = executor.call(purchase("60")).await;
        assert_eq!(bought.status, CallStatus::Success, "{bought:#?}");
        let more = executor.call(purchase("100")).await;
        assert_eq!(code(&more), Some(ErrorCode::SafetySpendingLimitExceeded), "{more:#?}");
    }

    fn called(tool: &str, params: Value) -> ToolCall {
        ToolCall::new(tool, ToolInput::Json(params))
    }

    fn sale(amount: &str) -> ToolCall {
        called("uniswap_execute_swap", swap("WETH", "USDC", amount)["params"].clone())
    }

    fn purchase(amount: &str) -> ToolCall {
        called("uniswap_execute_swap", swap("USDC", "WETH", amount)["params"].clone())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_flood_of_calls_by_an_agent_slows_nobody_else() {
        let harness =
            GolemHarness::with_policy("preset = \"demo\"\nmax_tool_calls_per_minute = 5\n").await.counting_calls();
        let (mallory, operator) =
            (harness.executor("mallory", "trade-executor"), harness.executor("operator", "trade-executor"));
        let spender = harness.world.chains()[0].network().book.contract(KnownContract::Permit2).unwrap();
        let allowed = json!({"token": "USDC", "spender": spender, "amount": "5", "chain": "ethereum"});
        let done = operator.call(called("token_approve", allowed)).await;
        assert_eq!(done.status, CallStatus::Success, "{done:#?}");
        let read = || called("get_balances", json!({"chain": "ethereum"}));
        for _ in 0..5 {
            assert_eq!(mallory.call(read()).await.status, CallStatus::Success);
        }
        for call in [read(), sale("0.01")] {
            assert_eq!(
                code(&mallory.call(call).await),
                Some(ErrorCode::SafetyRateLimited),
                "the agent's own calls exceed the limit"
            );
        }
        harness.stop.raise(StopLevel::Flatten, "a test", "operator", 1).unwrap();
        let sold = operator.call(sale("0.01")).await;
        assert_eq!(sold.status, CallStatus::Success, "{sold:#?}");
        let revoked = json!({"token": "USDC", "spender": spender, "chain": "ethereum"});
        let revoked = operator.call(called("token_revoke", revoked)).await;
        assert_eq!(revoked.status, CallStatus::Success, "{revoked:#?}");
        let other = harness.executor("ada", "trade-executor").call(sale("0.01")).await;
        assert_eq!(other.status, CallStatus::Success, "{other:#?}");
        // The operator has made three of five calls. The sixth exceeds the limit for the operator as well.
        for _ in 0..2 {
            assert_eq!(operator.call(read()).await.status, CallStatus::Success);
        }
        assert_eq!(code(&operator.call(read()).await), Some(ErrorCode::SafetyRateLimited));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn tiny_sales_up_to_the_hourly_rate_do_not_block_the_operators_exit() {
        let policy = "preset = \"demo\"\nmax_trades_per_hour = 3\ncooldown_seconds = 0\n";
        let harness = GolemHarness::with_policy(policy).await;
        let (mallory, operator) =
            (harness.executor("mallory", "trade-executor"), harness.executor("operator", "trade-executor"));
        for _ in 0..3 {
            let tiny = mallory.call(sale("0.00001")).await;
            assert_eq!(tiny.status, CallStatus::Success, "{tiny:#?}");
        }
        // The agent's next exit needs approval, and every purchase on the account is blocked.
        let out = mallory.call(sale("0.01")).await;
        assert_eq!(code(&out), Some(ErrorCode::ApprovalRequired), "{out:#?}");
        for buyer in [&mallory, &operator] {
            let more = buyer.call(purchase("20")).await;
            assert_eq!(code(&more), Some(ErrorCode::SafetyRateLimited), "{more:#?}");
        }
        harness.stop.raise(StopLevel::Flatten, "a test", "operator", 1).unwrap();
        let out = mallory.call(sale("0.01")).await;
        assert_eq!(code(&out), Some(ErrorCode::ApprovalRequired), "{out:#?}");
        let approved = mallory.call(ToolCall { approve: Some(ApprovalMode::Always), ..sale("0.01") }).await;
        assert_eq!(approved.status, CallStatus::Success, "{approved:#?}");
        let sold = operator.call(sale("0.01")).await;
        assert_eq!(sold.status, CallStatus::Success, "{sold:#?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_exit_above_the_hot_lane_needs_approval_whatever_the_trade_limit() {
        let policy = |limit: &str| {
            format!("preset = \"demo\"\nmax_single_trade_usd = \"{limit}\"\n[spending_limits]\nhot_lane = \"50\"\n")
        };
        // 0.05 WETH are about 170 dollars. The second limit is below any gas cost.
        for (limit, guardian_objects) in [("60", false), ("0", true)] {
            let harness = GolemHarness::with_policy(&policy(limit)).await;
            let golem = harness.golem("ada", "trade-executor");
            let previewed = golem.call("preview_action", swap("WETH", "USDC", "0.05")).await;
            assert_eq!(previewed.status, CallStatus::Simulated, "{limit}: {previewed:#?}");
            let data = previewed.data.as_ref().unwrap();
            assert_eq!(data["approval"], "approval");
            let reasons = data["reasons"].to_string();
            assert!(reasons.contains("needs a second opinion"), "{reasons}");
            assert_eq!(reasons.contains("lacks the safety-guardian's agreement"), guardian_objects, "{reasons}");
            let out = golem.call("commit_action", permit(&previewed)).await;
            assert_eq!(code(&out), Some(ErrorCode::ApprovalRequired), "{out:#?}");
            let more = act(&golem, swap("USDC", "WETH", "100")).await;
            assert_eq!(code(&more), Some(ErrorCode::SafetySpendingLimitExceeded), "{more:#?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn small_exits_above_the_daily_limit_in_sum_need_approval() {
        let policy = "preset = \"demo\"\nmax_daily_spend_usd = \"150\"\ncooldown_seconds = 0\n";
        let harness = GolemHarness::with_policy(policy).await;
        let (mallory, operator) =
            (harness.executor("mallory", "trade-executor"), harness.executor("operator", "trade-executor"));
        // 0.02 WETH are about 67 dollars. Counted by their possible loss alone, a hundred of these sales would be
        // within the limit.
        for _ in 0..2 {
            let sold = mallory.call(sale("0.02")).await;
            assert_eq!(sold.status, CallStatus::Success, "{sold:#?}");
        }
        for golem in [&mallory, &harness.executor("trudy", "trade-executor")] {
            let out = golem.call(sale("0.02")).await;
            assert_eq!(code(&out), Some(ErrorCode::ApprovalRequired), "{out:#?}");
        }
        let approved = mallory.call(ToolCall { approve: Some(ApprovalMode::Always), ..sale("0.02") }).await;
        assert_eq!(approved.status, CallStatus::Success, "{approved:#?}");
        let sold = operator.call(sale("0.02")).await;
        assert_eq!(sold.status, CallStatus::Success, "a manual sale of the operator: {sold:#?}");
    }

    /// A ledger in a file, at the time `now` in milliseconds since the Unix epoch.
    struct TestLedger {
        store: Store,
        now: u64,
        _folder: tempfile::TempDir,
    }

    const NOW: u64 = 1_800_000_000_000;

    impl TestLedger {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(StoreConfig::at(folder.path().join("l.db")), &[ledger::MIGRATIONS]).unwrap();
            Self { store, now: NOW, _folder: folder }
        }

        fn originator() -> Originator {
            let account = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap();
            Originator { call_id: CallId::new(NOW), golem_id: "mallory".parse().unwrap(), chain_id: 31_337, account }
        }

        /// Ends one action with this traded value in dollars and this outcome; returns the breaker's state.
        async fn end_action(&mut self, traded: u64, outcome: ReservationOutcome) -> FailureBreaker {
            self.now += 60_000;
            let lines = "preset = \"demo\"\nmax_consecutive_failures = 3\ncooldown_seconds = 0\n";
            let caps = parse(lines, std::path::Path::new("p.toml")).unwrap().caps(Phase::Thriving, false);
            let request = ReservationRequest {
                spend: MicroUsd::ZERO,
                gas: MicroUsd::ZERO,
                tokens: [].into(),
                trade: true,
                only_revokes: false,
                by_operator: false,
                exit: false,
                sold: [].into(),
                asked: false,
                traded: MicroUsd::new(traded * 1_000_000).unwrap(),
                exempt: false,
                equity: MicroUsd::ZERO,
            };
            let (now, cool_off) = (self.now, caps.cool_off);
            let done = self.store.write(move |tx| -> Result<FailureBreaker, LedgerError> {
                let id = ledger::reserve(tx, now, &caps, &Self::originator(), &request)?;
                ledger::settle(tx, now, id, outcome, 3)?;
                let originator = Self::originator();
                Ok(ledger::usage(tx, now, originator.chain_id, originator.account, [], cool_off)?.breaker)
            });
            done.await.unwrap()
        }
    }

    impl TestLedger {
        /// Reserves `request` under the demo preset with these lines; returns the rules that block it.
        async fn reserve(&self, lines: &str, request: ReservationRequest) -> Vec<String> {
            let lines = format!("preset = \"demo\"\ncooldown_seconds = 0\n{lines}");
            let caps = parse(&lines, std::path::Path::new("p.toml")).unwrap().caps(Phase::Thriving, false);
            let now = self.now;
            let reserved = self.store.write(move |tx| -> Result<(), LedgerError> {
                let id = ledger::reserve(tx, now, &caps, &Self::originator(), &request)?;
                ledger::note_moved(tx, id, &request.sold)
            });
            match reserved.await {
                Ok(()) => Vec::new(),
                Err(LedgerError::Exceeded(violations)) => {
                    violations.into_iter().map(|one| one.rule.to_string()).collect()
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    fn dollars(whole: u64) -> MicroUsd {
        MicroUsd::new(whole * 1_000_000).unwrap()
    }

    /// A fair exit of `sold` dollars that may lose `loss`.
    fn exit(loss: u64, sold: u64) -> ReservationRequest {
        ReservationRequest {
            spend: dollars(loss),
            gas: MicroUsd::ZERO,
            tokens: [].into(),
            trade: true,
            only_revokes: false,
            by_operator: false,
            exit: true,
            sold: [((31_337, TokenId::Native), dollars(sold))].into(),
            asked: false,
            traded: dollars(sold),
            exempt: true,
            equity: MicroUsd::ZERO,
        }
    }

    /// A revocation with this gas cost.
    fn revocation(gas: u64) -> ReservationRequest {
        ReservationRequest { trade: false, only_revokes: true, exit: false, sold: [].into(), ..exit(gas, 0) }
    }

    #[tokio::test]
    async fn two_exits_checked_at_the_same_time_cannot_exceed_a_limit_together() {
        let cap = "max_daily_spend_usd = \"150\"\n";
        // By possible loss, by sold value, and by the rate of trades.
        let rate = "max_trades_per_hour = 1\n";
        for (lines, first, second, rule) in [
            (cap, exit(100, 0), exit(60, 0), "max_daily_spend_usd"),
            (cap, exit(1, 100), exit(1, 60), "max_daily_spend_usd"),
            (rate, exit(1, 1), exit(1, 1), "max_trades_per_hour"),
        ] {
            let test_ledger = TestLedger::new();
            assert_eq!(test_ledger.reserve(lines, first).await, [""; 0]);
            assert_eq!(test_ledger.reserve(lines, second.clone()).await, [rule]);
            // The same after the operator has approved it.
            assert_eq!(test_ledger.reserve(lines, ReservationRequest { asked: true, ..second }).await, [""; 0]);
        }
    }

    #[tokio::test]
    async fn revocations_checked_at_the_same_time_cannot_exceed_the_rate_together() {
        let lines = "max_revocations_per_hour = 1\n";
        let test_ledger = TestLedger::new();
        assert_eq!(test_ledger.reserve(lines, revocation(1)).await, [""; 0]);
        assert_eq!(test_ledger.reserve(lines, revocation(1)).await, ["max_revocations_per_hour"]);
        let by_operator = ReservationRequest { by_operator: true, ..revocation(1) };
        assert_eq!(test_ledger.reserve(lines, by_operator).await, [""; 0], "the operator is asked");
    }

    /// Plays another process that reserves an action of the same account right before the next reservation, after all
    /// checks of that one. The other action counts for 60 dollars, and sells the same value if it is an exit.
    fn reserve_first_for_another_process(harness: &GolemHarness, exit: bool) {
        let [ledger] = &std::fs::read_dir(harness.folder.path().join("data/ledger")).unwrap().collect::<Vec<_>>()[..]
        else {
            panic!()
        };
        let database = rusqlite::Connection::open(ledger.as_ref().unwrap().path().join("ledger.db")).unwrap();
        let (account, kind) = (harness.world.account.unwrap(), i32::from(exit));
        let (spent, year_2100) = (if exit { 1 } else { 60_000_000 }, 4_102_444_800_000_u64);
        let other_action = format!(
            "BEGIN
                 INSERT INTO ledger_reservation
                     (id, call_id, golem_id, chain_id, account, trade, exempt, micros, reserved_at, traded, state)
                 SELECT 1000000, 'beside', 'trudy', 31337, '{account}', {kind}, 1, {spent}, {year_2100}, 0, 'open'
                 WHERE NOT EXISTS (SELECT 1 FROM ledger_reservation WHERE id = 1000000);
                 INSERT INTO ledger_moved (reservation, chain_id, token, micros)
                 SELECT 1000000, 31337, 'native', 60000000
                 WHERE NOT EXISTS (SELECT 1 FROM ledger_moved WHERE reservation = 1000000);
             END"
        );
        for event in ["INSERT", "UPDATE"] {
            let trigger = format!("CREATE TRIGGER beside_{event} BEFORE {event} ON ledger_clock {other_action}");
            database.execute_batch(&trigger).unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_exit_that_another_process_pushes_over_a_limit_is_refused_at_its_reservation() {
        let harness = GolemHarness::with_policy(DAILY_LIMIT).await;
        let golem = harness.golem("mallory", "trade-executor");
        // About 136 dollars, of 150 that exits may sell in a day without approval.
        let previewed = golem.call("preview_action", swap("WETH", "USDC", "0.04")).await;
        assert_eq!(previewed.status, CallStatus::Simulated, "{previewed:#?}");
        assert_ne!(previewed.data.as_ref().unwrap()["approval"], "approval", "{previewed:#?}");
        reserve_first_for_another_process(&harness, true);
        let refused = golem.call("commit_action", permit(&previewed)).await;
        assert_eq!(code(&refused), Some(ErrorCode::SafetySpendingLimitExceeded), "{refused:#?}");
        let why = serde_json::to_string(&refused.error).unwrap();
        assert!(why.contains("sold by exits in any 24 hours without asking"), "{why}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_revocation_that_another_process_pushes_over_a_limit_is_refused_at_its_reservation() {
        for (line, code_of, rule) in [
            ("max_revocations_per_hour = 1", ErrorCode::SafetyRateLimited, "max_revocations_per_hour"),
            ("max_gas_usd = \"10\"", ErrorCode::SafetySpendingLimitExceeded, "5 times max_gas_usd"),
        ] {
            let harness =
                GolemHarness::with_policy(&format!("preset = \"demo\"\ncooldown_seconds = 0\n{line}\n")).await;
            let golem = harness.golem("mallory", "trade-executor");
            let spender = harness.world.chains()[0].network().book.contract(KnownContract::Permit2).unwrap();
            let mut action = json!({"kind": "approve", "params": {"token": "USDC", "spender": spender, "amount": "5",
                                                                  "chain": "ethereum"}});
            let allowed = act(&golem, action.clone()).await;
            assert_eq!(allowed.status, CallStatus::Success, "{allowed:#?}");
            action["kind"] = json!("revoke");
            action["params"].as_object_mut().unwrap().remove("amount");
            let previewed = golem.call("preview_action", action).await;
            assert_eq!(previewed.status, CallStatus::Simulated, "{previewed:#?}");
            reserve_first_for_another_process(&harness, false);
            let refused = golem.call("commit_action", permit(&previewed)).await;
            assert_eq!(code(&refused), Some(code_of), "{refused:#?}");
            let why = serde_json::to_string(&refused.error).unwrap();
            assert!(why.contains(rule), "{why}");
        }
    }

    #[tokio::test]
    async fn revocations_of_a_day_cost_at_most_five_times_the_gas_limit() {
        let mut test_ledger = TestLedger::new();
        let lines = "max_gas_usd = \"10\"\nmax_revocations_per_hour = 100\n";
        for _ in 0..5 {
            assert_eq!(test_ledger.reserve(lines, revocation(10)).await, [""; 0]);
            // An hour later, so that the hourly rate does not block.
            test_ledger.now += 3_600_000;
        }
        assert_eq!(test_ledger.reserve(lines, revocation(1)).await, ["max_gas_usd"]);
        let by_operator = ReservationRequest { by_operator: true, ..revocation(1) };
        assert_eq!(test_ledger.reserve(lines, by_operator).await, [""; 0], "the operator is asked");
        test_ledger.now = NOW + 24 * 3_600_000;
        assert_eq!(test_ledger.reserve(lines, revocation(9)).await, [""; 0], "the first is a day old");
    }

    const FAILED: ReservationOutcome = ReservationOutcome::Reverted { gas: MicroUsd::ZERO };
    const DONE: ReservationOutcome = ReservationOutcome::Done { spent: MicroUsd::ZERO };

    #[tokio::test]
    async fn an_approval_between_failures_does_not_reset_the_breaker() {
        let mut test_ledger = TestLedger::new();
        test_ledger.end_action(100, FAILED).await;
        test_ledger.end_action(100, FAILED).await;
        assert_eq!(test_ledger.end_action(0, DONE).await, FailureBreaker::Closed { failures: 2 });
        assert!(matches!(test_ledger.end_action(100, FAILED).await, FailureBreaker::Open { failures: 3, .. }));
    }

    #[tokio::test]
    async fn a_dust_trade_between_failures_does_not_reset_the_breaker() {
        let mut test_ledger = TestLedger::new();
        test_ledger.end_action(100, FAILED).await;
        test_ledger.end_action(40, FAILED).await;
        // A tenth of the largest failed action is 10.
        assert_eq!(test_ledger.end_action(9, DONE).await, FailureBreaker::Closed { failures: 2 });
        assert_eq!(test_ledger.end_action(10, DONE).await, FailureBreaker::Closed { failures: 0 });
    }

    #[tokio::test]
    async fn a_plan_that_stopped_half_way_does_not_reset_the_breaker() {
        let mut test_ledger = TestLedger::new();
        test_ledger.end_action(100, FAILED).await;
        assert_eq!(
            test_ledger.end_action(100, ReservationOutcome::Partly { spent: MicroUsd::ZERO }).await,
            FailureBreaker::Closed { failures: 1 }
        );
    }

    #[tokio::test]
    async fn a_dust_trade_does_not_close_the_half_open_breaker() {
        let mut test_ledger = TestLedger::new();
        for _ in 0..3 {
            test_ledger.end_action(100, FAILED).await;
        }
        test_ledger.now += 24 * 3_600_000;
        assert_eq!(test_ledger.end_action(1, DONE).await, FailureBreaker::HalfOpen);
        assert_eq!(test_ledger.end_action(50, DONE).await, FailureBreaker::Closed { failures: 0 });
    }
}
