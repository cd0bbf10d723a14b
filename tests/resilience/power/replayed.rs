//! A whole swap and an order of the real program, recorded and cut at any moment: the tables are always consistent,
//! acknowledged results are present, and the next process brings the swap to its one end.

use rusqlite::Connection;

use super::*;

/// States that never occur, whenever the power fails: a transaction is stored completely or not at all.
const NEVER: [(&str, &str); 8] = [
    (
        "permits without a reservation",
        "SELECT count(*) FROM safety_permit WHERE reservation NOT IN (SELECT id FROM ledger_reservation)",
    ),
    (
        "reservations without a permit",
        "SELECT count(*) FROM ledger_reservation WHERE id NOT IN (SELECT reservation FROM safety_permit)",
    ),
    (
        "orders without a permit",
        "SELECT count(*) FROM safety_order WHERE permit_id NOT IN (SELECT permit_id FROM safety_permit)",
    ),
    (
        "orders that went out and have no signature",
        "SELECT count(*) FROM safety_order WHERE stage IN ('signed', 'submitting', 'submitted') AND signature IS NULL",
    ),
    (
        "orders that may take something and hold nothing",
        "SELECT count(*) FROM safety_order JOIN safety_permit USING (permit_id)
         JOIN ledger_reservation ON id = safety_permit.reservation WHERE stage <> 'ended' AND state NOT IN ('open', 'unclear')",
    ),
    (
        "legs without their bytes",
        "SELECT count(*) FROM safety_leg WHERE hash NOT IN (SELECT hash FROM sender_transaction)",
    ),
    (
        "bytes without their nonce",
        "SELECT count(*) FROM sender_transaction AS sent LEFT JOIN sender_nonce USING (chain_id, account, nonce)
         WHERE sender_nonce.state IS NOT 'signed'",
    ),
    (
        "permits that ended and still hold something",
        "SELECT count(*) FROM safety_permit JOIN ledger_reservation ON id = safety_permit.reservation
         WHERE ended IS NOT NULL AND state = 'open'",
    ),
];

/// Ledger of a folder, opened like by a program; `None` if none was created yet.
fn ledger(home: &Path) -> Option<Connection> {
    let folders = fs::read_dir(home.join("data/ledger")).ok()?;
    let database = folders.map(|entry| entry.unwrap().path().join("ledger.db")).find(|path| path.exists())?;
    let connection = Connection::open(database).unwrap();
    let question =
        "SELECT count(*) FROM sqlite_master WHERE name IN ('safety_order', 'sender_transaction', 'safety_leg')";
    (count(&connection, question) == 3).then_some(connection)
}

fn count(connection: &Connection, question: &str) -> i64 {
    connection.query_row(question, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{question}: {error}"))
}

fn holds(connection: &Connection, what: &str) {
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok", "{what}");
    for (wrong, question) in NEVER {
        assert_eq!(count(connection, question), 0, "{what}: {wrong}");
    }
}

const DONE: &str = "SELECT count(*) FROM safety_permit JOIN ledger_reservation ON id = safety_permit.reservation
                    WHERE ended = 'done' AND state = 'done'";
const PLACED: &str = "SELECT count(*) FROM safety_order WHERE stage = 'submitted'";

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn after_a_power_cut_at_any_time_the_tables_of_a_swap_and_an_order_agree() {
    let (devnet, home, recorder) = (Devnet::start(), Home::new(ROOMY), Recorder::new());
    let start = Disk::of(home.path());
    let mut swap = home.swap(devnet.url(), "recorded");
    let record = recorder.watch(&mut swap, home.path());
    let ran = run(&mut swap);
    assert_eq!((ran.status(), ran.code), ("success", Some(0)), "{ran:?}");
    let mut noted = notes(&record);
    let answered = noted.len();
    let params = r#"{"token_in":"USDC","token_out":"UNI","amount":"20","chain":"ethereum","decay_end_time":3000}"#;
    let given = format!("ethereum={}", devnet.url());
    let arguments = ["--rpc", &given, "call", "--approve", "always", "uniswap_submit_uniswapx_order", params];
    let mut order = home.command(&arguments);
    let record = recorder.watch(&mut order, home.path());
    let ran = run(&mut order);
    assert_eq!((ran.status(), ran.code), ("partial", Some(0)), "{ran:?}");
    noted.extend(notes(&record));

    let seed = drawn();
    println!("seed {seed}, {answered} notes of a swap, {} in all", noted.len());
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut looked_at = 0;
    for run in 0..runs() {
        let until = if run == 0 { noted.len() } else { random.random_range(1..=noted.len()) };
        let mut disk = start.clone();
        noted[..until].iter().for_each(|note| disk.take(note));
        let folder = tempfile::tempdir().unwrap();
        restore(folder.path(), &disk.cut(&mut random));
        let what = format!("seed {seed}, run {run}, cut at {until} of {answered}");
        let Some(ledger) = ledger(folder.path()) else {
            assert!(until < answered, "{what}: what was answered is gone");
            continue;
        };
        looked_at += 1;
        holds(&ledger, &what);
        // Acknowledged results are present and done.
        if until >= answered {
            assert!(count(&ledger, DONE) >= 1, "{what}: the swap was answered");
        }
        if until == noted.len() {
            assert_eq!(count(&ledger, PLACED), 1, "{what}: the order was answered");
        }
    }
    assert!(looked_at > runs() / 4, "{looked_at} of {} had a ledger", runs());
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn after_a_power_cut_in_a_swap_the_next_program_completes_it_once() {
    let (devnet, home, recorder) = (Devnet::start(), Home::new(ROOMY), Recorder::new());
    let start = Disk::of(home.path());
    // A swap of the native token, which takes one transaction: the chain has it or not.
    let given = format!("ethereum={}", devnet.url());
    let params = r#"{"token_in":"ETH","token_out":"USDC","amount":"0.01","chain":"ethereum","prefer_uniswapx":false}"#;
    let key =
        ["--rpc", &given, "call", "--approve", "always", "--idempotency-key", "once", "uniswap_execute_swap", params];
    let mut beginning = devnet.ask("evm_snapshot", serde_json::json!([]));
    let usdc = devnet.balance("USDC");
    let mut swap = home.command(&key);
    let record = recorder.watch(&mut swap, home.path());
    let ran = run(&mut swap);
    assert_eq!((ran.status(), ran.code), ("success", Some(0)), "{ran:?}");
    let noted = notes(&record);
    assert_eq!(settled(&home, &devnet), 1);
    let raw: Vec<u8> = home.ledger().query_row("SELECT raw FROM sender_transaction", [], |row| row.get(0)).unwrap();
    let raw = format!("0x{}", alloy::hex::encode(raw));

    let seed = drawn();
    println!("seed {seed}, {} notes", noted.len());
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    for cut in 0..(runs() / 20).max(3) {
        let until = random.random_range(1..=noted.len());
        let mut disk = start.clone();
        noted[..until].iter().for_each(|note| disk.take(note));
        restore(home.path(), &disk.cut(&mut random));
        let states: Vec<String> = ledger(home.path()).map_or_else(Vec::new, |ledger| {
            let mut rows = ledger.prepare("SELECT state FROM sender_transaction").unwrap();
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        });
        // Bytes that are not on the disk were not sent; others may have been, unless they were seen in a block.
        let has = match states.first().map(String::as_str) {
            None => false,
            Some("stored" | "sent" | "unclear") => random.random_bool(0.5),
            Some(_) => true,
        };
        assert_eq!(devnet.ask("evm_revert", serde_json::json!([beginning])), true);
        beginning = devnet.ask("evm_snapshot", serde_json::json!([]));
        if has {
            devnet.ask("eth_sendRawTransaction", serde_json::json!([raw]));
        }
        let what = format!("seed {seed}, {cut}: cut at {until} of {}, {states:?}, on the chain {has}", noted.len());
        assert_eq!(devnet.nonce(), u64::from(has), "{what}");
        let ran = run(&mut home.command(&key));
        assert!(matches!(ran.status(), "success" | "partial") && ran.code == Some(0), "{what}: {ran:?}");
        assert_eq!(settled(&home, &devnet), 1, "{what}");
        assert_eq!(devnet.nonce(), 1, "{what}");
        assert!(devnet.balance("USDC") > usdc, "{what}");
    }
}
