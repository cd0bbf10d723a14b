//! Test fixture: a devnet in its own process, a home for the program under test, and checks that ledger and chain
//! agree. The checks read database and chain directly, without the code under test.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use bardo_testkit::devnet::{self, ask};

/// First account of the development mnemonic, with which the program signs on devnets.
pub const ACCOUNT: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";

/// Amount that is sold each time: a thousandth of a WETH, in wei.
pub const AMOUNT: u128 = 1_000_000_000_000_000;

/// Seed for random choices: that of the property tests if it is set, so that a run of `.ci/run` can be repeated;
/// otherwise a new one. Its user prints it.
pub fn drawn() -> u64 {
    let given = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(rand::random)
}

/// Policy with limits beyond every test, and every check in force.
pub const ROOMY: &str = r#"preset = "demo"
max_daily_spend_usd = "1000000"
max_monthly_spend_usd = "1000000"
max_trades_per_hour = 100000
max_consecutive_failures = 100000
max_tool_calls_per_minute = 100000
max_loss_bps = 1000

[spending_limits]
per_day = "1000000"
"#;

/// A `bardo devnet` that makes a block for each transaction; killed on drop.
pub struct Devnet(devnet::Devnet);

impl Devnet {
    pub fn start() -> Self {
        Self::paced("0")
    }

    /// Devnet with a block each second, for tests that wait for other actors.
    pub fn ticking() -> Self {
        Self::paced("1s")
    }

    fn paced(block_time: &str) -> Self {
        let devnet = Self(devnet::Devnet::start(block_time, 11));
        // Gas for the transactions of a long test: ten thousand ether.
        devnet.ask("anvil_setBalance", json!([ACCOUNT, "0x21e19e0c9bab2400000"]));
        devnet
    }

    /// Id of its process.
    pub fn id(&self) -> u32 {
        self.0.child.id()
    }

    pub fn url(&self) -> &str {
        self.url_of(0)
    }

    /// Endpoint of a chain: ethereum is the first, base the second.
    pub fn url_of(&self, chain: usize) -> &str {
        self.0.url(chain)
    }

    /// URL of the services for orders and intents.
    pub fn services(&self) -> &str {
        self.0.described["order_service"].as_str().unwrap()
    }

    pub fn token(&self, symbol: &str) -> &str {
        let token = &self.0.described["chains"][0]["tokens"][symbol];
        token.as_str().or_else(|| token["address"].as_str()).unwrap_or_else(|| panic!("no {symbol}: {token}"))
    }

    pub fn ask(&self, method: &str, params: Value) -> Value {
        ask(self.url(), method, params)
    }

    /// As [`Self::ask`], for one of the two chains.
    pub fn ask_of(&self, chain: usize, method: &str, params: Value) -> Value {
        ask(self.url_of(chain), method, params)
    }

    /// Address of a contract of ethereum, by its name in the address book.
    pub fn contract(&self, name: &str) -> &str {
        self.0.described["chains"][0]["contracts"][name].as_str().unwrap()
    }

    /// Address of a price feed of ethereum, by its pair.
    pub fn feed(&self, pair: &str) -> &str {
        self.0.described["chains"][0]["feeds"][pair]["address"].as_str().unwrap()
    }

    pub fn nonce(&self) -> u64 {
        self.nonce_of(ACCOUNT)
    }

    pub fn nonce_of(&self, account: &str) -> u64 {
        let answer = self.ask("eth_getTransactionCount", json!([account, "latest"]));
        u64::from_str_radix(answer.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    }

    /// Balance of the account according to the token.
    pub fn balance(&self, symbol: &str) -> u128 {
        // balanceOf(address) selector.
        let data = format!("0x70a08231{:0>64}", ACCOUNT.trim_start_matches("0x"));
        let answer = self.ask("eth_call", json!([{ "to": self.token(symbol), "data": data }, "latest"]));
        u128::from_str_radix(answer.as_str().unwrap().trim_start_matches("0x").trim_start_matches('0'), 16).unwrap_or(0)
    }
}

/// Result of one run of the program.
#[derive(Debug)]
#[allow(dead_code)] // Its output is for a failed test's message.
pub struct Ran {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub answer: Option<Value>,
    pub said: String,
}

impl Ran {
    pub fn killed(&self) -> bool {
        self.signal == Some(9)
    }

    /// Status in its envelope; empty without one.
    pub fn status(&self) -> &str {
        self.answer.as_ref().and_then(|answer| answer["status"].as_str()).unwrap_or_default()
    }

    pub fn error_code(&self) -> &str {
        self.answer.as_ref().and_then(|answer| answer["error"]["code"].as_str()).unwrap_or_default()
    }
}

/// A data directory and a policy, for programs that are started and killed.
pub struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub fn new(policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("policy-devnet.toml"), policy).unwrap();
        Self { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(devnet::program());
        command.args(arguments).env_clear().env("BARDO_HOME", self.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A swap under an idempotency key, through the endpoint at `url`.
    pub fn swap(&self, url: &str, key: &str) -> Command {
        let given = format!("ethereum={url}");
        let params = r#"{"token_in":"WETH","token_out":"USDC","amount":"0.001","chain":"ethereum"}"#;
        let arguments =
            ["--rpc", &given, "call", "--approve", "always", "--idempotency-key", key, "uniswap_execute_swap", params];
        self.command(&arguments)
    }

    /// Ledger of the only devnet that this home has used.
    pub fn database(&self) -> PathBuf {
        let ledgers = self.path().join("data/ledger");
        let mut found = std::fs::read_dir(ledgers).unwrap().map(|entry| entry.unwrap().path().join("ledger.db"));
        let database = found.next().unwrap();
        assert!(found.next().is_none(), "one devnet, one ledger");
        database
    }

    pub fn ledger(&self) -> Connection {
        Connection::open_with_flags(self.database(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
    }

    /// Hashes of the orders that have not ended.
    pub fn open_orders(&self) -> Vec<String> {
        let ledger = self.ledger();
        let mut rows = ledger.prepare("SELECT lower(hex(hash)) FROM safety_order WHERE stage <> 'ended'").unwrap();
        rows.query_map([], |row| row.get::<_, String>(0)).unwrap().map(|hash| format!("0x{}", hash.unwrap())).collect()
    }

    pub fn count(&self, question: &str) -> u64 {
        let count: i64 = self.ledger().query_row(question, [], |row| row.get(0)).unwrap();
        u64::try_from(count).unwrap()
    }
}

pub fn run(command: &mut Command) -> Ran {
    finish(command.spawn().unwrap())
}

pub fn finish(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = serde_json::from_slice(&output.stdout).ok();
    Ran { code: output.status.code(), signal: output.status.signal(), answer, said }
}

/// Runs the program on a terminal. Once it shows `asked`, and `when` has signalled, types `answer`; returns the exit
/// code and the output.
pub fn on_terminal(
    home: &Path,
    arguments: &[&str],
    asked: &str,
    answer: &str,
    when: &mpsc::Receiver<()>,
) -> (u32, String) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let pty = native_pty_system().openpty(PtySize { cols: 200, ..PtySize::default() }).unwrap();
    let mut command = CommandBuilder::new(devnet::program());
    command.env_clear();
    command.env("BARDO_HOME", home);
    command.args(arguments);
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut screen = pty.master.try_clone_reader().unwrap();
    let (shows, shown) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0_u8; 4096];
        // A closed terminal is an error on Linux.
        while let Ok(read) = screen.read(&mut buffer) {
            if read == 0 || shows.send(buffer[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    let (mut writer, mut text, mut typed) = (pty.master.take_writer().unwrap(), String::new(), false);
    while let Ok(more) = shown.recv_timeout(PATIENCE) {
        text.push_str(&String::from_utf8_lossy(&more));
        if !typed && text.contains(asked) {
            typed = true;
            when.recv_timeout(PATIENCE).unwrap();
            writer.write_all(format!("{answer}\r").as_bytes()).unwrap();
        }
    }
    (child.wait().unwrap().exit_code(), text)
}

/// Asserts the invariants between runs: nothing is reserved or open, each nonce was used once by a transaction that the
/// chain has, and the audit log is intact. Returns the number of swaps on the chain.
pub fn settled(home: &Home, devnet: &Devnet) -> u64 {
    settled_of(home, devnet, &[ACCOUNT])
}

/// The same for several accounts that have signed, each with its own nonces.
pub fn settled_of(home: &Home, devnet: &Devnet, accounts: &[&str]) -> u64 {
    let ledger = home.ledger();
    let whole: String = ledger.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    for (what, question) in [
        ("reservations held", "SELECT count(*) FROM ledger_reservation WHERE state IN ('open', 'unclear')"),
        ("permits without an end", "SELECT count(*) FROM safety_permit WHERE ended IS NULL"),
        ("nonces without a transaction", "SELECT count(*) FROM sender_nonce WHERE state <> 'signed'"),
        ("transactions without an end", "SELECT count(*) FROM sender_transaction WHERE settled_at IS NULL"),
        (
            "permits without a reservation",
            "SELECT count(*) FROM safety_permit WHERE reservation NOT IN (SELECT id FROM ledger_reservation)",
        ),
        (
            "reservations without a permit",
            "SELECT count(*) FROM ledger_reservation WHERE id NOT IN (SELECT reservation FROM safety_permit)",
        ),
    ] {
        assert_eq!(home.count(question), 0, "{what}");
    }
    let mut included: BTreeMap<(String, u64), (String, bool)> = BTreeMap::new();
    let mut rows =
        ledger.prepare("SELECT lower(hex(account)), nonce, lower(hex(hash)), state FROM sender_transaction").unwrap();
    let rows = rows.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
    });
    for row in rows.unwrap() {
        let (account, nonce, hash, state) = row.unwrap();
        let one = (format!("0x{account}"), u64::try_from(nonce).unwrap());
        match state.as_str() {
            "included" | "reverted" => {
                let before = included.insert(one.clone(), (format!("0x{hash}"), state == "included"));
                assert!(before.is_none(), "two transactions of one nonce: {one:?}");
            }
            "dropped" | "replaced" => {}
            other => panic!("{one:?} is {other}"),
        }
    }
    let mut whole: Vec<(String, u64)> = Vec::new();
    for account in accounts {
        whole.extend((0..devnet.nonce_of(account)).map(|nonce| ((*account).to_owned(), nonce)));
    }
    whole.sort();
    assert_eq!(included.keys().cloned().collect::<Vec<_>>(), whole, "each nonce of the chain");
    for ((account, nonce), (hash, succeeded)) in &included {
        let receipt = devnet.ask("eth_getTransactionReceipt", json!([hash]));
        assert_eq!(receipt["status"], if *succeeded { "0x1" } else { "0x0" }, "nonce {nonce}: {receipt}");
        assert_eq!(receipt["from"].as_str().unwrap().to_lowercase(), *account);
    }
    let log = run(&mut home.command(&["log", "verify", "--json"]));
    assert_eq!(log.code, Some(0), "{log:?}");
    // The main step of a plan counts, and each one on the chain was counted.
    home.count(
        "SELECT count(*) FROM safety_leg JOIN sender_transaction USING (hash) WHERE main = 1 AND state = 'included'",
    )
}
