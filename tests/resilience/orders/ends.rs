//! Killed inside the transaction that stores an end, and right after it, for every end except a fill, and for a fill of
//! every kind of order: the end is stored once, and the reservation is freed once.

use super::*;

impl Fixture {
    fn poll(&self, hash: &str) -> Command {
        self.call("uniswap_get_uniswapx_order_status", &json!({ "order_hash": hash }), "", false)
    }

    /// Kills the process that stores the order's end inside the transaction, and the next one right after it.
    fn killed_at_the_end(&self, hash: &str, word: &str) {
        self.killed(self.poll(hash), Failpoint::OrderInsideEnd.name());
        assert_ne!(self.stage(hash).0, "ended", "{word}: nothing of it was written");
        assert_eq!(self.held(hash), 1, "{word}: it is still held");
        self.killed(self.poll(hash), Failpoint::OrderEnded.name());
        assert_eq!(self.stage(hash), ("ended".to_owned(), word.to_owned()));
        assert_eq!(self.held(hash), 0, "{word}: it is free, once");
        let told = self.status(hash).answer.unwrap();
        assert_eq!(told["data"]["status"], word, "{told}");
    }

    /// Reservations for an order. A cancellation that was killed meanwhile has its own reservation for gas.
    pub(super) fn held(&self, hash: &str) -> u64 {
        let hash = hash.trim_start_matches("0x");
        self.home.count(&format!(
            "SELECT count(*) FROM ledger_reservation JOIN safety_order ON reservation = ledger_reservation.id
             WHERE ledger_reservation.state IN ('open', 'unclear') AND lower(hex(hash)) = '{hash}'"
        ))
    }

    /// Stage and status of an order in the ledger.
    fn stage(&self, hash: &str) -> (String, String) {
        let question = "SELECT stage, status FROM safety_order WHERE lower(hex(hash)) = ?1";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.home.ledger().query_row(question, [hash.trim_start_matches("0x")], row).unwrap()
    }

    /// A signed order that only the ledger has seen.
    fn unseen(&self, key: &str, seconds: u64) -> String {
        self.killed(self.order(key, seconds, false), Failpoint::OrderSubmitting.name());
        format!("0x{}", self.last().0)
    }

    /// Advances time by this many seconds on both chains.
    pub(super) fn pass(&self, seconds: u64) {
        for chain in 0..2 {
            self.devnet.ask_of(chain, "evm_increaseTime", json!([seconds]));
            self.devnet.ask_of(chain, "evm_mine", json!([]));
        }
    }
}

#[test]
fn an_interrupted_expiry_or_cancellation_is_recorded_once() {
    let fixture = Fixture::open();
    let before = fixture.devnet.balance("WETH");
    let hash = fixture.unseen("expires", 30);
    fixture.pass(40);
    fixture.killed_at_the_end(&hash, "expired");

    let hash = fixture.unseen("cancelled", 900);
    let cancel = || fixture.call("uniswapx_cancel_order", &json!({ "order_hash": hash }), "cancel", false);
    // The cancelling process may also detect its end; in either case it is cancelled.
    let mut first = cancel();
    let ran = run(first.env("BARDO_FAILPOINT", Failpoint::OrderInsideEnd.name()));
    if !ran.killed() {
        assert!(matches!(ran.status(), "success" | "partial"), "{ran:?}");
    }
    fixture.killed_at_the_end(&hash, "cancelled");
    // The next action settles the killed one's remains; the cancellation itself is done.
    let again = run(&mut cancel());
    assert!(matches!(again.status(), "success" | "partial"), "{again:?}");
    assert_eq!(fixture.devnet.balance("WETH"), before, "neither took anything");
    settled(&fixture.home, &fixture.devnet);
}

#[test]
fn an_interrupted_refund_is_recorded_once() {
    let fixture = Fixture::open();
    let before = fixture.devnet.balance("USDC");
    // Nobody delivers on a chain without blocks. The destination is checked before a signature, so the chain stops
    // after that check, and before anyone has the signature.
    let mut locked = None;
    for attempt in 0..4 {
        let key = format!("lost-{attempt}");
        fixture.killed(fixture.intent(&key, 60, false), Failpoint::OrderStored.name());
        fixture.devnet.ask_of(1, "evm_setIntervalMining", json!([0]));
        let sent = run(&mut fixture.intent(&key, 60, false));
        assert_eq!(sent.status(), "partial", "{sent:?}");
        let (id, ..) = fixture.last();
        let until = Instant::now() + Duration::from_secs(60);
        while deposit(&fixture, &id) == 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(200));
        }
        if deposit(&fixture, &id) == 1 {
            locked = Some(format!("0x{id}"));
            break;
        }
        // All relayers overlook it: nothing is locked, and it expires.
        fixture.devnet.ask_of(1, "evm_setIntervalMining", json!([1]));
        fixture.pass(120);
        assert_eq!(fixture.status(&format!("0x{id}")).answer.unwrap()["data"]["status"], "expired");
    }
    let id = locked.expect("no relayer locks anything");
    let told = fixture.status(&id).answer.unwrap();
    assert_eq!(
        (&told["data"]["order_type"], &told["data"]["status"]),
        (&json!("ERC7683"), &json!("filling")),
        "{told}"
    );
    fixture.pass(150);
    let told = fixture.status(&id).answer.unwrap();
    assert_eq!(told["data"]["status"], "expired", "{told}");
    // A refund is permitted whatever the token's price: its feed reverts (PUSH0 PUSH0 REVERT).
    let feed = fixture.devnet.feed("USDC / USD");
    fixture.devnet.ask("anvil_setCode", json!([feed, "0x5f5ffd"]));
    let refund = || fixture.call("intent_refund", &json!({ "intent_id": id }), "back", false);
    let mut first = refund();
    let ran = run(first.env("BARDO_FAILPOINT", Failpoint::OrderInsideEnd.name()));
    if !ran.killed() {
        assert!(matches!(ran.status(), "success" | "partial"), "{ran:?}");
    }
    assert_eq!(deposit(&fixture, id.trim_start_matches("0x")), 3);
    fixture.killed_at_the_end(&id, "refunded");
    // If the first was killed, its gas reservation is left to the next action.
    let late = run(&mut fixture.call("intent_refund", &json!({ "intent_id": id }), "late", false));
    assert_eq!(late.error_code(), "VALIDATION_FAILED", "{late:?}");
    assert_eq!(fixture.devnet.balance("USDC"), before, "not a unit is missing");
    settled(&fixture.home, &fixture.devnet);
}

#[test]
fn an_interrupted_delivery_is_counted_once() {
    let fixture = Fixture::open();
    let before = fixture.devnet.balance("USDC");
    let mut delivered = None;
    // All relayers overlook a few in a hundred; the others are delivered and repaid while no process runs.
    for attempt in 0..4 {
        let sent = run(&mut fixture.intent(&format!("bridge-{attempt}"), 60, false));
        assert_eq!(sent.status(), "partial", "{sent:?}");
        let (id, ..) = fixture.last();
        let until = Instant::now() + Duration::from_secs(50);
        while deposit(&fixture, &id) != 2 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(200));
        }
        if deposit(&fixture, &id) == 2 {
            delivered = Some(id);
            break;
        }
        fixture.pass(150);
        if deposit(&fixture, &id) == 2 {
            delivered = Some(id);
            break;
        }
        let again = run(&mut fixture.call("intent_refund", &json!({ "intent_id": format!("0x{id}") }), "", false));
        eprintln!("overlooked: {again:?}");
    }
    let id = format!("0x{}", delivered.expect("no relayer delivers"));
    fixture.killed_at_the_end(&id, "filled");
    assert_eq!(before - fixture.devnet.balance("USDC"), 200_000_000, "given once");
    settled(&fixture.home, &fixture.devnet);
}

#[test]
fn an_intent_that_was_never_submitted_expires_once_and_locks_nothing() {
    let fixture = Fixture::open();
    let before = fixture.devnet.balance("USDC");
    fixture.killed(fixture.intent("unseen", 60, false), Failpoint::OrderSubmitting.name());
    let (id, ..) = fixture.last();
    fixture.pass(120);
    fixture.killed_at_the_end(&format!("0x{id}"), "expired");
    assert_eq!((deposit(&fixture, &id), fixture.devnet.balance("USDC")), (0, before), "it was never locked");
    settled(&fixture.home, &fixture.devnet);
}

fn a_fill_of(kind: &str) {
    let fixture = Fixture::open();
    std::fs::write(fixture.home.path().join("config.toml"), format!("[order_type]\nethereum = \"{kind}\"\n")).unwrap();
    let before = fixture.devnet.balance("WETH");
    let hash = format!("0x{}", fixture.filled_meanwhile("kind"));
    let question = format!("SELECT count(*) FROM safety_order WHERE kind = '{kind}'");
    assert!(fixture.home.count(&question) > 0, "{kind}");
    fixture.killed_at_the_end(&hash, "filled");
    fixture.whole(before);
}

#[test]
fn an_interrupted_fill_of_a_v3_order_is_counted_once() {
    a_fill_of("DUTCH_V3");
}

#[test]
fn an_interrupted_fill_of_a_priority_order_is_counted_once() {
    a_fill_of("PRIORITY");
}
