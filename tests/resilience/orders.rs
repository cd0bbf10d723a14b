//! Orders and intents, killed in every state: signed but not submitted, submitted, open, filled but not settled, being
//! cancelled, locked, to be refunded. The next process finds the chain's state, nothing is submitted twice, and the
//! ledger counts what the chain moved.

mod ends;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use alloy::primitives::hex;
use alloy::sol_types::{SolCall as _, SolEvent as _};
use bardo::abi::erc7683::OriginSettler;
use bardo::abi::uniswapx::Reactor;
use bardo::base::failpoint::Failpoint;
use serde_json::{Value, json};

use crate::host::{ACCOUNT, Devnet, Home, ROOMY, Ran, run, settled};
use bardo_testkit::devnet::ask;
use bardo_testkit::passing::{Look, pass};

/// Sold amount of an order: a tenth of a WETH, in wei.
const SOLD: u128 = 100_000_000_000_000_000;

/// Number of submissions by id.
type HandedIn = Arc<Mutex<BTreeMap<String, usize>>>;

/// Proxy in front of the devnet and its services: forwards everything, and counts submissions.
struct Fixture {
    devnet: Devnet,
    home: Home,
    chains: [String; 2],
    handed_in: HandedIn,
}

/// Counts submissions and lets them pass.
fn counting(handed_in: HandedIn) -> Look {
    Arc::new(move |line, said| {
        let name = match line {
            "POST /order HTTP/1.1" => said["quote"]["orderId"].as_str(),
            "POST /intents HTTP/1.1" => said["encodedOrder"].as_str(),
            _ => None,
        };
        if let Some(name) = name {
            *handed_in.lock().unwrap().entry(name.to_owned()).or_default() += 1;
        }
        None
    })
}

impl Fixture {
    fn open() -> Self {
        let (devnet, home, handed_in) = (Devnet::ticking(), Home::new(ROOMY), HandedIn::default());
        let services = pass(devnet.services().to_owned(), counting(handed_in.clone()), None);
        let chains = [0, 1].map(|chain| {
            let instead = (devnet.services().to_owned(), services.clone());
            pass(devnet.url_of(chain).to_owned(), Arc::new(|_, _| None), Some(instead))
        });
        Self { devnet, home, chains, handed_in }
    }

    fn call(&self, tool: &str, params: &Value, key: &str, wait: bool) -> Command {
        let [ethereum, base] = &self.chains;
        let (ethereum, base, params) = (format!("ethereum={ethereum}"), format!("base={base}"), params.to_string());
        let mut arguments = vec!["--rpc", &ethereum, "--rpc", &base, "call", "--approve", "always"];
        if !key.is_empty() {
            arguments.extend(["--idempotency-key", key]);
        }
        if wait {
            arguments.push("--wait");
        }
        arguments.extend([tool, &params]);
        self.home.command(&arguments)
    }

    fn order(&self, key: &str, seconds: u64, wait: bool) -> Command {
        let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.1", "chain": "ethereum",
                            "decay_end_time": seconds});
        self.call("uniswap_submit_uniswapx_order", &params, key, wait)
    }

    fn intent(&self, key: &str, seconds: u64, wait: bool) -> Command {
        let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "200", "source_chain": "ethereum",
                            "destination_chain": "base", "deadline": seconds});
        self.call("uniswap_submit_cross_chain_intent", &params, key, wait)
    }

    /// Runs a command until it is killed at `point`.
    fn killed(&self, mut command: Command, point: &str) {
        let ran = run(command.env("BARDO_FAILPOINT", point));
        assert!(ran.killed(), "{point} is not on the way: {ran:?}");
    }

    /// Ledger data of the latest order.
    fn last(&self) -> (String, String, String, bool) {
        let question = "SELECT lower(hex(hash)), stage, status, signature IS NOT NULL FROM safety_order
                        ORDER BY created_at DESC LIMIT 1";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        self.home.ledger().query_row(question, [], row).unwrap()
    }

    fn status(&self, hash: &str) -> Ran {
        run(&mut self.call("uniswap_get_uniswapx_order_status", &json!({ "order_hash": hash }), "", false))
    }

    /// Fills of the account's orders on the chain, by their hash.
    fn fills(&self) -> Vec<String> {
        let swapper = format!("0x{:0>64}", ACCOUNT.trim_start_matches("0x"));
        let event = Reactor::Fill::SIGNATURE_HASH.to_string();
        let filter = json!([{"fromBlock": "0x0", "toBlock": "latest", "topics": [event, null, null, swapper]}]);
        let logs = self.devnet.ask("eth_getLogs", filter);
        let logs = logs.as_array().unwrap().iter();
        logs.map(|log| log["topics"][1].as_str().unwrap().trim_start_matches("0x").to_owned()).collect()
    }

    /// Timestamp of the chain's newest block.
    fn time(&self) -> u64 {
        let block = self.devnet.ask("eth_getBlockByNumber", json!(["latest", false]));
        u64::from_str_radix(block["timestamp"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    }

    /// Places an order that is filled while no process runs: its process was killed before it polled, or has polled
    /// before the fill.
    fn filled_meanwhile(&self, key: &str) -> String {
        for attempt in 0..6 {
            let mut order = self.order(&format!("{key}-{attempt}"), 40, false);
            let placed = run(order.env("BARDO_FAILPOINT", Failpoint::OrderSubmitted.name()));
            assert!(placed.killed() || placed.status() == "partial", "{placed:?}");
            let (hash, stage, ..) = self.last();
            if stage == "ended" {
                // Its own round was faster, and has seen the fill: then a process was running.
                continue;
            }
            let over = self.time() + 44;
            loop {
                let past = self.time() > over;
                if self.fills().contains(&hash) {
                    return hash;
                }
                if past {
                    break;
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            // Overlooked by all fillers: it has expired, and the ledger is updated.
            assert_eq!(self.status(&format!("0x{hash}")).answer.unwrap()["data"]["status"], "expired");
        }
        panic!("nobody fills anything");
    }

    /// Asserts the final invariants, whichever process was killed.
    fn whole(&self, before: u128) {
        settled(&self.home, &self.devnet);
        assert_eq!(self.home.count("SELECT count(*) FROM safety_order WHERE stage <> 'ended'"), 0);
        let filled = self.home.count("SELECT count(*) FROM safety_order WHERE status = 'filled' AND kind <> 'ERC7683'");
        let fills = self.fills();
        assert_eq!(fills.len() as u64, filled, "each fill of the chain is one of the ledger's");
        let known = self.home.count("SELECT count(*) FROM safety_order WHERE status = 'filled'");
        assert!(known >= filled);
        assert_eq!(
            before - self.devnet.balance("WETH"),
            SOLD * u128::from(filled),
            "sold by fills, and by nothing else"
        );
        let handed_in = self.handed_in.lock().unwrap();
        assert!(!handed_in.is_empty());
        for (what, times) in handed_in.iter() {
            assert_eq!(*times, 1, "{what} was handed in {times} times");
        }
    }
}

/// Failpoints of an order up to its answer, with the expected state of the ledger at each.
const PLACES: [(Failpoint, &str, bool); 8] = [
    (Failpoint::Gated, "reserved", false),
    (Failpoint::OrderSigned, "reserved", false),
    (Failpoint::OrderInsideStore, "reserved", false),
    (Failpoint::OrderStored, "signed", true),
    (Failpoint::OrderSubmitting, "submitting", true),
    (Failpoint::OrderAnswered, "submitting", true),
    (Failpoint::OrderSubmitted, "submitted", true),
    (Failpoint::OrderPolled, "submitted", true),
];

#[test]
fn an_order_ends_as_on_the_chain_after_a_kill_anywhere() {
    let fixture = Fixture::open();
    let before = fixture.devnet.balance("WETH");
    for (place, stage, signed) in PLACES {
        let key = place.name();
        // The next process submits a signed order, so there must be time left for it.
        let seconds = 24;
        fixture.killed(fixture.order(key, seconds, false), key);
        let (hash, found, _, has_signature) = fixture.last();
        assert_eq!((found.as_str(), has_signature), (stage, signed), "{key}");
        let ended = run(&mut fixture.order(key, seconds, true));
        let (next, stage, status, _) = fixture.last();
        assert_eq!(stage, "ended", "{key}: {ended:?}");
        // An unsigned order is created again; a signed one is tracked to its end.
        assert_eq!(next == hash, signed, "{key}: {ended:?}");
        let on_chain = fixture.fills().contains(&next);
        assert_eq!(status == "filled", on_chain, "{key}: the chain counts, and says {on_chain}");
        let answer = ended.answer.as_ref().unwrap();
        match status.as_str() {
            "filled" => assert_eq!((ended.status(), ended.code), ("success", Some(0)), "{key}: {ended:?}"),
            "expired" => assert_eq!(answer["error"]["code"], "UNISWAPX_ORDER_EXPIRED", "{key}: {ended:?}"),
            other => panic!("{key}: {other}: {ended:?}"),
        }
        let times = fixture.handed_in.lock().unwrap().get(&format!("0x{next}")).copied().unwrap_or_default();
        // Killed between the record of the submission and the submission itself, nobody ever has it.
        assert_eq!(times, usize::from(place != Failpoint::OrderSubmitting), "{key}");
        if place == Failpoint::OrderSubmitting {
            assert_eq!(status, "expired");
        }
        assert_eq!(fixture.home.count("SELECT count(*) FROM ledger_reservation WHERE state IN ('open', 'unclear')"), 0);
    }
    fixture.whole(before);
    // Some were filled: with eight orders and fillers that overlook a few in a hundred, anything else is a fault.
    assert!(fixture.fills().len() >= 3, "{:?}", fixture.fills());
}

fn fills_and_cancellations(fixture: &Fixture) {
    // Filled, and the polling process is killed before the write, inside the transaction, and after it.
    let hash = fixture.filled_meanwhile("filled");
    let hash = format!("0x{hash}");
    for place in [Failpoint::OrderPolled, Failpoint::OrderInsideEnd] {
        let params = json!({ "order_hash": hash });
        fixture.killed(fixture.call("uniswap_get_uniswapx_order_status", &params, "", false), place.name());
        assert_ne!(fixture.last().1, "ended", "{place:?}");
        assert_eq!(fixture.held(&hash), 1, "{place:?}");
    }
    let params = json!({ "order_hash": hash });
    fixture.killed(fixture.call("uniswap_get_uniswapx_order_status", &params, "", false), Failpoint::OrderEnded.name());
    assert_eq!((fixture.last().1.as_str(), fixture.last().2.as_str()), ("ended", "filled"));
    let told = fixture.status(&hash).answer.unwrap();
    assert_eq!(told["data"]["status"], "filled");
    assert!(told["data"]["filler_name"].as_str().unwrap().ends_with("filler"), "{told}");

    // During the cancellation: in whichever state the transaction was left, the order is cancelled in the end.
    for place in ["commit.gated", "commit.stored", "send.answered", "settle.seen", "settle.inside"] {
        let placed = run(&mut fixture.order(&format!("open-{place}"), 900, false));
        assert_eq!(placed.status(), "partial", "{placed:?}");
        let hash = format!("0x{}", fixture.last().0);
        let cancel =
            || fixture.call("uniswapx_cancel_order", &json!({ "order_hash": hash }), &format!("cancel-{place}"), false);
        fixture.killed(cancel(), place);
        let again = run(&mut cancel());
        assert!(matches!(again.status(), "success" | "partial"), "{place}: {again:?}");
        let told = fixture.status(&hash).answer.unwrap();
        assert_eq!(told["data"]["status"], "cancelled", "{place}: {told}");
        assert!(told["data"]["tx_hash"].is_string(), "{place}: {told}");
    }
}

/// State of an intent's deposit on the origin, from the settler: 0 none, 1 locked, 2 repaid, 3 refunded.
fn deposit(fixture: &Fixture, id: &str) -> u64 {
    let settler = fixture.devnet.contract("originSettler");
    let selector = hex::encode(OriginSettler::depositsCall::SELECTOR);
    let data = format!("0x{selector}{id}");
    let answer = fixture.devnet.ask("eth_call", json!([{ "to": settler, "data": data }, "latest"]));
    let words = hex::decode(answer.as_str().unwrap()).unwrap();
    u64::from(OriginSettler::depositsCall::abi_decode_returns(&words).unwrap().status)
}

/// An intent that is killed before its signature is on disk: nobody has it, now or later; another one replaces it.
fn unsigned_ones(fixture: &Fixture, key: &str) {
    let mut begun = Vec::new();
    for place in [Failpoint::Gated, Failpoint::OrderSigned, Failpoint::OrderInsideStore] {
        fixture.killed(fixture.intent(key, 60, false), place.name());
        let (id, stage, _, signed) = fixture.last();
        assert_eq!((stage.as_str(), signed), ("reserved", false), "{place:?}");
        assert!(!begun.contains(&id), "{place:?}: what was never signed is made anew");
        let held = "SELECT count(*) FROM ledger_reservation WHERE state IN ('open', 'unclear')";
        assert_eq!(fixture.home.count(held), 1, "{place:?}: what the one before held is free");
        begun.push(id);
    }
    assert!(fixture.handed_in.lock().unwrap().is_empty(), "nobody has seen any of them");
}

#[test]
fn an_intent_is_delivered_or_refunded_after_a_kill_anywhere() {
    let fixture = Fixture::open();
    let (weth, usdc) = (fixture.devnet.balance("WETH"), fixture.devnet.balance("USDC"));
    fixture.devnet.ask_of(1, "anvil_setBalance", json!([ACCOUNT, "0x56bc75e2d63100000"]));
    // Signed but not submitted, submitted without an answer, open: the next process tracks it to its end.
    let (mut delivered, mut kills) = (0, 0);
    for place in [Failpoint::OrderStored, Failpoint::OrderAnswered, Failpoint::OrderSubmitted] {
        let key = format!("bridge-{}", place.name());
        if place == Failpoint::OrderStored {
            unsigned_ones(&fixture, &key);
        }
        let ran = run(fixture.intent(&key, 60, false).env("BARDO_FAILPOINT", place.name()));
        if ran.killed() {
            kills += 1;
        } else {
            // The process's own round has submitted it before the call could, and the answer came first.
            assert_eq!(ran.status(), "partial", "{key}: {ran:?}");
        }
        let (id, ..) = fixture.last();
        // Locked, delivered, repaid; polled by processes that are killed as they poll, the first at its first poll.
        let looks = [1, 3, 6].map(|looks| {
            let mut command = fixture.intent(&key, 60, true);
            run(command.env("BARDO_FAILPOINT", format!("order.looked:{looks}"))).killed()
        });
        assert!(looks[0] || !ran.killed(), "{key}: nobody was killed while looking: {looks:?}");
        // Past its deadline nobody locks it any more: the next one's allowance is added to what this one may take.
        let until = Instant::now() + Duration::from_secs(75);
        while deposit(&fixture, &id) != 2 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(300));
        }
        if deposit(&fixture, &id) != 2 {
            // The relayers overlook it, as they do with a few in a hundred: its end is checked below.
            continue;
        }
        delivered += 1;
        let ended = run(&mut fixture.intent(&key, 60, true));
        let (last, stage, status, _) = fixture.last();
        assert_eq!((last, stage.as_str(), status.as_str()), (id, "ended", "filled"), "{key}: {ended:?}");
        assert_eq!(ended.status(), "success", "{key}: {ended:?}");
    }
    assert!(delivered > 0, "the relayers deliver nothing");
    assert!(kills >= 2, "of three that were to be killed {kills} were");

    // The destination stops: nobody can deliver an order that is locked from here on.
    fixture.devnet.ask_of(1, "evm_setIntervalMining", json!([0]));
    let sent = run(&mut fixture.intent("lost", 60, false));
    assert_eq!(sent.status(), "partial", "{sent:?}");
    let (id, ..) = fixture.last();
    let until = Instant::now() + Duration::from_secs(40);
    while deposit(&fixture, &id) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(300));
    }
    let locked = deposit(&fixture, &id) == 1;
    fills_and_cancellations(&fixture);
    // Past its deadline and the settler's refund delay, on both chains.
    fixture.pass(96);
    fixture.devnet.ask_of(1, "evm_setIntervalMining", json!([1]));
    fixture.devnet.ask_of(1, "evm_mine", json!([]));
    let id = format!("0x{id}");
    if locked {
        let refund =
            |place: &str| fixture.call("intent_refund", &json!({ "intent_id": id }), &format!("back-{place}"), false);
        fixture.killed(refund("commit.gated"), "commit.gated");
        fixture.killed(refund("commit.stored"), "commit.stored");
        // The next process sends the remaining transaction, which completes the refund.
        let next = run(&mut refund("commit.stored"));
        assert!(matches!(next.status(), "success" | "partial"), "{next:?}");
        assert_eq!(deposit(&fixture, id.trim_start_matches("0x")), 3);
        let again = run(&mut refund("once-more"));
        assert_eq!(again.error_code(), "VALIDATION_FAILED", "{again:?}");
    }
    // Overlooked orders are ended by the rounds of a waiting process.
    let rows = "SELECT count(*) FROM safety_order WHERE stage <> 'ended'";
    let until = Instant::now() + Duration::from_secs(180);
    while fixture.home.count(rows) > 0 && Instant::now() < until {
        let open = fixture.home.open_orders();
        for hash in open {
            let _ = run(&mut fixture.call("intent_refund", &json!({ "intent_id": hash }), "", false));
        }
    }
    fixture.whole(weth);
    let filled = fixture.home.count("SELECT count(*) FROM safety_order WHERE status = 'filled' AND kind = 'ERC7683'");
    let left = u128::from(filled) * 200_000_000;
    let came = fixture.devnet.balance("USDC") + left - usdc;
    // Besides the bridged amount, only auctions brought something.
    assert_eq!(came > 0, !fixture.fills().is_empty());
    assert!(ask(fixture.devnet.url(), "eth_blockNumber", json!([])).is_string());
}
