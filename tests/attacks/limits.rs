//! Spending caps, breakers and high-water marks that an attacker moves.

// High-water marks, against the ledger in a file.

mod marks {
    use alloy::primitives::Address;
    use bardo::base::id::{CallId, GolemId};
    use bardo::base::units::Rounding;
    use bardo::runtime::data::ROOMS;
    use bardo::safety::ledger::{self, Micros, Party};
    use bardo::store::{Store, StoreConfig};

    /// Whole dollars as the ledger counts them.
    pub fn micros(dollars: u64) -> Micros {
        Micros::of(dollars.to_string().parse().unwrap(), Rounding::Up).unwrap()
    }

    /// The mark after these readings of an account's worth: seconds, and whole dollars.
    pub async fn after(readings: &[(u64, u64)]) -> Micros {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(home.path().join("bardo.db")), ROOMS).unwrap();
        let account = Address::repeat_byte(7);
        for (second, dollars) in readings {
            let party = Party { call_id: CallId::new(1), golem_id: GolemId::operator(), chain_id: 1, account };
            let (at, worth) = (86_400_000 + second * 1_000, micros(*dollars));
            let noted = store.write(move |transaction| ledger::observe(transaction, at, &party, worth)).await;
            noted.unwrap();
        }
        let used = store.read(|connection| ledger::usage(connection, 86_400_000, 1, account, [], 0)).unwrap();
        used.high_water
    }
}

#[tokio::test]
async fn a_lie_about_one_block_raises_no_high_water_mark() {
    assert_eq!(marks::after(&[(0, 1_700), (12, 13_500_000), (24, 1_700), (7_200, 1_700)]).await, marks::micros(1_700));
}

#[tokio::test]
async fn a_gift_that_is_withdrawn_again_raises_no_high_water_mark() {
    assert_eq!(
        marks::after(&[(0, 1_000), (12, 1_200), (48, 1_200), (71, 1_000), (90, 1_200)]).await,
        marks::micros(1_000)
    );
    assert_eq!(marks::after(&[(0, 1_000), (12, 1_200), (72, 1_010), (73, 1_200)]).await, marks::micros(1_010));
}

#[tokio::test]
async fn two_lies_an_hour_apart_raise_no_high_water_mark() {
    assert_eq!(marks::after(&[(0, 1_700), (12, 13_500_000), (3_700, 13_500_000)]).await, marks::micros(1_700));
}

#[tokio::test]
async fn what_really_stands_raises_the_high_water_mark() {
    assert_eq!(marks::after(&[(0, 1_000), (12, 1_200), (72, 1_200)]).await, marks::micros(1_200));
    assert_eq!(marks::after(&[(0, 1_000), (12, 3_000), (1_800, 3_000), (3_700, 3_000)]).await, marks::micros(3_000));
}
// Exits and the failure breaker.

mod exits_and_failures {
    use bardo::base::error::ErrorCode;
    use bardo::base::id::CallId;
    use bardo::base::model::{Phase, StopLevel};
    use bardo::engine::{Status, ToolResponse};
    use bardo::golem::pi::PiSession;
    use bardo::safety::ledger::{self, Breaker, LedgerError, Micros, Outcome, Party, Request};
    use bardo::safety::policy::parse;
    use bardo::store::{Store, StoreConfig};
    use serde_json::Value;

    use crate::golem_world::{House, permit, swap};

    async fn act(golem: &PiSession, action: Value) -> ToolResponse {
        let previewed = golem.call("preview_action", action).await;
        match previewed.status {
            Status::Simulated => golem.call("commit_action", permit(&previewed)).await,
            _ => previewed,
        }
    }

    fn code(answer: &ToolResponse) -> Option<ErrorCode> {
        answer.error.as_ref().map(|error| error.code())
    }

    /// Buys until the day's cap is used up; how often it could.
    async fn round_trips(golem: &PiSession) -> usize {
        for bought in 0..10 {
            let answer = act(golem, swap("USDC", "UNI", "60")).await;
            if answer.status != Status::Success {
                assert_eq!(code(&answer), Some(ErrorCode::SafetySpendingLimitExceeded), "{answer:#?}");
                return bought;
            }
            // Half of it goes back, so that there is something to leave in the end.
            let answer = act(golem, swap("UNI", "USDC", "1")).await;
            assert_eq!(answer.status, Status::Success, "{answer:#?}");
        }
        panic!("the cap holds nobody");
    }

    const CAP: &str = "preset = \"demo\"\nmax_daily_spend_usd = \"150\"\ncooldown_seconds = 0\n";

    #[tokio::test(flavor = "multi_thread")]
    async fn round_trips_lock_no_position_in() {
        let house = House::with_policy(CAP).await;
        let golem = house.golem("mallory", "trade-executor");
        // 150 dollars hold two purchases of 60 and what they and the sales cost; the third would be 180.
        assert_eq!(round_trips(&golem).await, 2);
        house.stop.raise(StopLevel::Flatten, "a test", "operator", 1).unwrap();
        let out = act(&golem, swap("UNI", "USDC", "max")).await;
        assert_eq!(out.status, Status::Success, "{out:#?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_exit_above_the_caps_is_asked_about_and_not_refused() {
        let house = House::with_policy("preset = \"demo\"\nmax_daily_spend_usd = \"0\"\n").await;
        let golem = house.golem("ada", "trade-executor");
        let out = act(&golem, swap("WETH", "USDC", "0.02")).await;
        assert_eq!(code(&out), Some(ErrorCode::ApprovalRequired), "{out:#?}");
        let more = act(&golem, swap("USDC", "WETH", "20")).await;
        assert_eq!(code(&more), Some(ErrorCode::SafetySpendingLimitExceeded), "{more:#?}");
    }

    struct Book {
        store: Store,
        now: u64,
        _folder: tempfile::TempDir,
    }

    const NOW: u64 = 1_800_000_000_000;

    impl Book {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(StoreConfig::at(folder.path().join("l.db")), &[ledger::MIGRATIONS]).unwrap();
            Self { store, now: NOW, _folder: folder }
        }

        fn party() -> Party {
            let account = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap();
            Party { call_id: CallId::new(NOW), golem_id: "mallory".parse().unwrap(), chain_id: 31_337, account }
        }

        /// One action of this worth in trades, in dollars, that ends so; the breaker afterwards.
        async fn ends(&mut self, traded: u64, outcome: Outcome) -> Breaker {
            self.now += 60_000;
            let lines = "preset = \"demo\"\nmax_consecutive_failures = 3\ncooldown_seconds = 0\n";
            let caps = parse(lines, std::path::Path::new("p.toml")).unwrap().caps(Phase::Thriving, false);
            let request = Request {
                spend: Micros::ZERO,
                tokens: [].into(),
                trade: true,
                takes_back: false,
                by_operator: false,
                exit: false,
                traded: Micros::new(traded * 1_000_000).unwrap(),
                exempt: false,
                equity: Micros::ZERO,
            };
            let (now, cool_off) = (self.now, caps.cool_off);
            let done = self.store.write(move |tx| -> Result<Breaker, LedgerError> {
                let id = ledger::reserve(tx, now, &caps, &Self::party(), &request)?;
                ledger::settle(tx, now, id, outcome, 3)?;
                let party = Self::party();
                Ok(ledger::usage(tx, now, party.chain_id, party.account, [], cool_off)?.breaker)
            });
            done.await.unwrap()
        }
    }

    const FAILED: Outcome = Outcome::Reverted { gas: Micros::ZERO };
    const DONE: Outcome = Outcome::Done { spent: Micros::ZERO };

    #[tokio::test]
    async fn an_approval_between_failures_resets_no_breaker() {
        let mut book = Book::new();
        book.ends(100, FAILED).await;
        book.ends(100, FAILED).await;
        assert_eq!(book.ends(0, DONE).await, Breaker::Closed { failures: 2 });
        assert!(matches!(book.ends(100, FAILED).await, Breaker::Open { failures: 3, .. }));
    }

    #[tokio::test]
    async fn a_dust_trade_between_failures_resets_no_breaker() {
        let mut book = Book::new();
        book.ends(100, FAILED).await;
        book.ends(40, FAILED).await;
        // A tenth of the largest that failed is 10.
        assert_eq!(book.ends(9, DONE).await, Breaker::Closed { failures: 2 });
        assert_eq!(book.ends(10, DONE).await, Breaker::Closed { failures: 0 });
    }

    #[tokio::test]
    async fn a_plan_that_stopped_half_way_resets_no_breaker() {
        let mut book = Book::new();
        book.ends(100, FAILED).await;
        assert_eq!(book.ends(100, Outcome::Partly { spent: Micros::ZERO }).await, Breaker::Closed { failures: 1 });
    }

    #[tokio::test]
    async fn a_dust_trade_is_no_trial_that_closes_the_breaker() {
        let mut book = Book::new();
        for _ in 0..3 {
            book.ends(100, FAILED).await;
        }
        book.now += 24 * 3_600_000;
        assert_eq!(book.ends(1, DONE).await, Breaker::HalfOpen);
        assert_eq!(book.ends(50, DONE).await, Breaker::Closed { failures: 0 });
    }
}
