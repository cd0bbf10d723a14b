//! Attacks on the approval queue that processes share through the ledger. The attacker can only write to the database;
//! the victim is the real binary, which requests approval of a $1,500 swap or of a first payment.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use alloy::primitives::Address;
use bardo::base::id::PermitId;
use bardo::base::text::SafeText;
use bardo::base::units::Usd;
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::runtime::questions::shared::{Forgery, ShareError, SharedQueue};
use bardo::safety::operator_proof::{Authorisation, OperatorProof, ProofError};
use bardo::safety::queue_key::QueueKey;
use bardo::session::questions::{Confirmation, OperatorAnswer, Question};
use bardo::store::{Store, StoreConfig};
use parking_lot::{Mutex, MutexGuard};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use bardo_testkit::devnet::{Devnet, ask, program};
use bardo_testkit::proof::proof;

/// First account of the development mnemonic, with which the binary signs on devnets.
const ACCOUNT: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
/// Timeout for a condition on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Policy that permits everything except actions that need approval.
const POLICY: &str = "preset = \"demo\"\nmax_loss_bps = 1000\nmax_daily_spend_usd = \"1000000\"\n\
                      max_monthly_spend_usd = \"1000000\"\n[spending_limits]\nper_day = \"1000000\"\n";
const NOW: u64 = 1;

/// One devnet for all cases; each case has its own home, and one at a time signs with the account.
static ALONE: Mutex<()> = Mutex::new(());
/// The devnet ends with the last case that uses it.
static DEVNET: Mutex<Weak<Devnet>> = Mutex::new(Weak::new());

/// The devnet, and the lock for signing.
struct Turn {
    devnet: Arc<Devnet>,
    _alone: MutexGuard<'static, ()>,
}

fn turn() -> Turn {
    let devnet = {
        let mut shared = DEVNET.lock();
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Devnet::start("0", 23));
            *shared = Arc::downgrade(&started);
            started
        })
    };
    Turn { devnet, _alone: ALONE.lock() }
}

/// Home with a call that waits for approval in its own process, which is ended on drop.
struct Victim {
    home: tempfile::TempDir,
    child: Child,
    nonce: u64,
    url: String,
    _turn: Turn,
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("policy-devnet.toml"), POLICY).unwrap();
    home
}

fn swap() -> (&'static str, Value) {
    let params = json!({ "token_in": "USDC", "token_out": "WETH", "amount": "1500", "chain": "ethereum",
                         "prefer_uniswapx": false });
    ("uniswap_execute_swap", params)
}

/// Payment of 300 USDC to an address that was never paid.
fn payment(to: &str) -> (&'static str, Value) {
    ("wallet_transfer_token", json!({ "token": "USDC", "recipient": to, "amount": "300", "chain_id": "ethereum" }))
}

fn nonce(url: &str) -> u64 {
    let count = ask(url, "eth_getTransactionCount", json!([ACCOUNT, "pending"]));
    u64::from_str_radix(count.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

fn arguments(url: &str, (tool, params): &(&str, Value)) -> Vec<String> {
    let given = format!("ethereum={url}");
    ["--rpc", &given, "call", "--json", "--approve", "ask", tool, &params.to_string()].map(str::to_owned).to_vec()
}

impl Victim {
    fn asking(call: (&str, Value)) -> Self {
        let turn = turn();
        let (home, url) = (home(), turn.devnet.url(0).to_owned());
        let nonce = nonce(&url);
        let child = start(home.path(), &url, &call);
        let victim = Self { home, child, nonce, url, _turn: turn };
        victim.until("a question", || victim.question_row().is_some());
        victim
    }

    fn database(&self) -> PathBuf {
        let mut found = std::fs::read_dir(self.home.path().join("data/ledger")).into_iter().flatten();
        found.next().map(|entry| entry.unwrap().path().join("ledger.db")).unwrap_or_default()
    }

    fn ledger_id(&self) -> String {
        self.database().parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
    }

    fn secret_file(&self) -> PathBuf {
        self.home.path().join("data/queue-secrets").join(self.ledger_id())
    }

    /// The attacker's database connection.
    fn attacker(&self) -> Connection {
        let database = Connection::open(self.database()).unwrap();
        database.busy_timeout(PATIENCE).unwrap();
        database
    }

    /// Second process that holds the key of `account`.
    fn console_of(&self, account: Address) -> SharedQueue {
        let shared = SharedQueue::new(Store::open(StoreConfig::at(self.database()), ALL_MIGRATIONS).unwrap());
        shared.unlock(self.key(account));
        shared
    }

    fn console(&self) -> SharedQueue {
        self.console_of(ACCOUNT.parse().unwrap())
    }

    fn key(&self, account: Address) -> QueueKey {
        let secret: [u8; 32] = std::fs::read(self.secret_file()).unwrap().try_into().unwrap();
        QueueKey::derive(&secret, &self.ledger_id(), account)
    }

    fn question_row(&self) -> Option<String> {
        let database = Connection::open(self.database()).ok()?;
        let sql = "SELECT permit_id FROM shared_question WHERE permit_id NOT IN (SELECT permit_id FROM shared_answer)";
        database.query_row(sql, [], |row| row.get(0)).ok()
    }

    fn permit(&self) -> String {
        self.question_row().unwrap()
    }

    fn permit_id(&self) -> PermitId {
        self.permit().parse().unwrap()
    }

    /// Proof of the operator's approval, as on a devnet.
    fn proof(&self, now: u64) -> Option<OperatorProof> {
        let (permit_id, account) = (self.permit_id(), ACCOUNT.parse().unwrap());
        Some(proof(self.home.path(), Authorisation::Approve { permit_id, account }, now))
    }

    fn count(&self, sql: &str) -> u64 {
        self.attacker().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().try_into().unwrap()
    }

    fn forged(&self) -> u64 {
        self.count("SELECT count(*) FROM audit_entry WHERE kind = 'approval:forged'")
    }

    fn until(&self, what: &str, is: impl Fn() -> bool) {
        let since = Instant::now();
        while !is() {
            assert!(since.elapsed() < PATIENCE, "no {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the victim has noticed and reported the attack, removed the row and still waits; nothing was signed.
    fn still_asks_and_has_reported(&mut self) {
        self.until("report", || self.forged() > 0);
        self.until("question", || self.question_row().is_some());
        self.has_signed_nothing();
    }

    fn has_signed_nothing(&mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "the call has ended");
        assert_eq!(nonce(&self.url), self.nonce, "something was signed");
        assert_eq!(self.count("SELECT count(*) FROM audit_entry WHERE kind = 'approval:resolved'"), 0);
    }

    /// Result of the call: its status and its error's message.
    fn ended(mut self) -> (String, u64) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let envelope: Value = serde_json::from_str(&out).unwrap();
        (envelope["status"].as_str().unwrap().to_owned(), nonce(&self.url) - self.nonce)
    }
}

fn start(home: &Path, url: &str, call: &(&str, Value)) -> Child {
    let mut command = Command::new(program());
    command.args(arguments(url, call)).env_clear().env("BARDO_HOME", home);
    let (stdin, stderr) = terminal();
    command.stdin(stdin).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap()
}

/// Both ends of a terminal on which nobody types: without one a call that would ask is refused at once. It stays open
/// until the tests end.
fn terminal() -> (Stdio, Stdio) {
    let pty = native_pty_system().openpty(PtySize { rows: 50, cols: 200, ..PtySize::default() }).unwrap();
    let open = || std::fs::File::options().read(true).write(true).open(pty.master.tty_name().unwrap()).unwrap();
    let ends = (Stdio::from(open()), Stdio::from(open()));
    std::mem::forget(pty);
    ends
}

/// Everything that a request requires to be read and typed.
fn confirmed(question: &Question) -> Confirmation {
    question.requirement().met()
}

fn shown(console: &SharedQueue) -> Question {
    let since = Instant::now();
    loop {
        if let Some(question) = console.others().unwrap().pop() {
            return question;
        }
        assert!(since.elapsed() < PATIENCE, "no question");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn refuse() -> OperatorAnswer {
    OperatorAnswer::Refuse { reason: SafeText::clean("enough", 40) }
}

#[tokio::test]
async fn an_inserted_approval_approves_nothing_and_a_genuine_answer_still_counts() {
    let mut victim = Victim::asking(swap());
    let permit = victim.permit();
    let insert = "INSERT INTO shared_answer (permit_id, answer, said_by) VALUES (?1, ?2, ?3)";
    victim.attacker().execute(insert, params![permit, r#"{"answer":"once"}"#, "operator"]).unwrap();
    victim.still_asks_and_has_reported();
    // An answer in the form of a genuine one, with a tag of zeros, which blocks the genuine one.
    let text = json!({ "question": format!("0x{}", "00".repeat(32)), "answer": { "answer": "once" },
                       "confirmation": {}, "session": "x", "by": "operator", "at": 1 });
    let insert = "INSERT INTO shared_answer (permit_id, answer, said_by, tag, entry) VALUES (?1, ?2, ?3, ?4, 1)";
    let row = params![permit, text.to_string(), "operator", [0_u8; 32]];
    victim.attacker().execute(insert, row).unwrap();
    let console = victim.console();
    console.answer(permit.parse().unwrap(), &refuse(), &Confirmation::default(), "process 2", NOW, None).await.unwrap();
    assert_eq!(victim.ended(), ("rejected".to_owned(), 0));
}

#[tokio::test]
async fn a_genuine_approval_from_another_process_counts_once() {
    let victim = Victim::asking(swap());
    let console = victim.console();
    let question = shown(&console);
    console
        .answer(victim.permit_id(), &OperatorAnswer::Once, &confirmed(&question), "process 2", NOW, victim.proof(NOW))
        .await
        .unwrap();
    let (status, signed) = victim.ended();
    assert_eq!(status, "success");
    assert!(signed >= 1);
}

#[tokio::test]
async fn an_approval_from_another_terminal_needs_a_proof_for_that_request() {
    let mut victim = Victim::asking(swap());
    let console = victim.console();
    let full = confirmed(&shown(&console));
    let answer = async |proof| {
        console.answer(victim.permit_id(), &OperatorAnswer::Once, &full, "process 2", NOW, proof).await.unwrap_err()
    };
    assert!(matches!(answer(None).await, ShareError::Proof(ProofError::NoPassword)));
    let account = ACCOUNT.parse().unwrap();
    let other = Authorisation::Approve { permit_id: PermitId::random(), account };
    let other = proof(victim.home.path(), other, NOW);
    assert!(matches!(answer(Some(other)).await, ShareError::Proof(ProofError::OtherAction)));
    // For this very request, but for another account than the one that signs.
    let other = Authorisation::Approve { permit_id: victim.permit_id(), account: Address::repeat_byte(9) };
    let other = proof(victim.home.path(), other, NOW);
    assert!(matches!(answer(Some(other)).await, ShareError::Proof(ProofError::OtherAction)));
    victim.has_signed_nothing();
}

#[tokio::test]
async fn an_approval_with_a_copied_tag_and_a_forged_audit_entry_approves_nothing() {
    let mut victim = Victim::asking(swap());
    let permit = victim.permit();
    let attacker = victim.attacker();
    // The request's own tag, which everyone can read in the row, and an entry that imitates a genuine one.
    let tag: Vec<u8> = attacker
        .query_row("SELECT tag FROM shared_question WHERE permit_id = ?1", [&permit], |row| row.get(0))
        .unwrap();
    let hex = alloy::hex::encode_prefixed(&tag);
    let entry = "INSERT INTO audit_entry SELECT max(seq) + 1, 1, 'approval:answered', NULL, 'operator', ?1, \
                 zeroblob(32), zeroblob(32) FROM audit_entry";
    attacker.execute(entry, [json!({ "permit_id": permit, "answer": "once", "tag": hex }).to_string()]).unwrap();
    let seq = attacker.last_insert_rowid();
    let text = json!({ "question": hex, "answer": { "answer": "once" }, "confirmation": {}, "session": "x",
                       "by": "operator", "at": 1 });
    let insert =
        "INSERT INTO shared_answer (permit_id, answer, said_by, tag, entry) VALUES (?1, ?2, 'operator', ?3, ?4)";
    attacker.execute(insert, params![permit, text.to_string(), tag, seq]).unwrap();
    victim.still_asks_and_has_reported();
}

#[tokio::test]
async fn an_approval_by_another_accounts_key_approves_nothing() {
    let mut victim = Victim::asking(swap());
    let permit = victim.permit();
    let other = victim.key(Address::repeat_byte(0x42));
    let attacker = victim.attacker();
    let tag: Vec<u8> = attacker
        .query_row("SELECT tag FROM shared_question WHERE permit_id = ?1", [&permit], |row| row.get(0))
        .unwrap();
    let text = json!({ "question": alloy::hex::encode_prefixed(&tag), "answer": { "answer": "once" },
                       "confirmation": {}, "session": "x", "by": "process 2", "at": 1 })
    .to_string();
    let tag = other.tag("bardo shared answer 1", &[permit.as_bytes(), text.as_bytes()]);
    let insert = "INSERT INTO shared_answer (permit_id, answer, said_by, tag, entry) VALUES (?1, ?2, 'x', ?3, 1)";
    attacker.execute(insert, params![permit, text, tag.as_slice()]).unwrap();
    victim.still_asks_and_has_reported();

    // A console of that account neither sees the request nor answers it: the operator's proof is for the asking
    // account.
    let console = victim.console_of(Address::repeat_byte(0x42));
    assert!(console.others().unwrap().is_empty());
    let answered = console
        .answer(victim.permit_id(), &OperatorAnswer::Once, &Confirmation::default(), "x", NOW, victim.proof(NOW))
        .await;
    assert!(matches!(answered, Err(ShareError::Proof(_))), "{answered:?}");
    victim.has_signed_nothing();
}

#[tokio::test]
async fn a_process_without_the_accounts_key_neither_sees_nor_answers() {
    let mut victim = Victim::asking(swap());
    let locked = SharedQueue::new(Store::open(StoreConfig::at(victim.database()), ALL_MIGRATIONS).unwrap());
    assert!(locked.others().unwrap().is_empty());
    let answered = locked
        .answer(victim.permit_id(), &OperatorAnswer::Once, &Confirmation::default(), "x", NOW, victim.proof(NOW))
        .await;
    assert!(matches!(answered, Err(ShareError::Locked)), "{answered:?}");
    victim.has_signed_nothing();
}

/// Changes a value of the stored request, if `path` leads to it.
fn rewrite(victim: &Victim, permit: &str, path: &str, value: Value) {
    let attacker = victim.attacker();
    let select = "SELECT question FROM shared_question WHERE permit_id = ?1";
    let text: String = attacker.query_row(select, [permit], |row| row.get(0)).unwrap();
    let mut stored: Value = serde_json::from_str(&text).unwrap();
    let place = stored.pointer_mut(path).unwrap_or_else(|| panic!("{path}: {text}"));
    assert_ne!(*place, value, "{path}");
    *place = value;
    let update = "UPDATE shared_question SET question = ?2 WHERE permit_id = ?1";
    attacker.execute(update, [permit, &stored.to_string()]).unwrap();
}

#[tokio::test]
async fn a_request_with_any_altered_field_is_not_shown() {
    let mut victim = Victim::asking(payment("0x00000000000000000000000000000000000000aa"));
    let console = victim.console();
    let genuine = shown(&console);
    for (path, value) in [
        ("/question/title", json!("Send 1 USDC to 0x7099…79C8")),
        ("/question/value", json!("1")),
        ("/question/ends_at", json!(u64::MAX)),
        ("/question/passes_by_itself", json!(true)),
        ("/question/to_read", json!([])),
        ("/question/confirm/expected", json!("79C8")),
        ("/question/about/places/0/address", json!("0x70997970C51812dc3A010C7d01b50e0d17dc79C8")),
        ("/question/about/raw/0/data", json!("0x")),
        ("/question/about/hash", json!(format!("0x{}", "11".repeat(32)))),
        ("/nonce", json!("another")),
    ] {
        let (permit, reports) = (victim.permit(), victim.forged());
        rewrite(&victim, &permit, path, value);
        // The victim detects the change and stores the request again; until then nobody displays it.
        if let Some(drawn) = console.others().unwrap().pop() {
            assert_eq!(drawn, genuine, "{path}");
        }
        victim.until("report", || victim.forged() > reports);
        victim.until("question", || victim.question_row().is_some());
        assert_eq!(shown(&console), genuine, "{path}");
    }
    victim.has_signed_nothing();
}

#[tokio::test]
async fn requests_with_swapped_permits_or_tags_are_not_shown() {
    let victim = Victim::asking(swap());
    let console = victim.console();
    let genuine = shown(&console);
    let attacker = victim.attacker();
    // A copy under another permit, with text and tag.
    let copy = "INSERT INTO shared_question (permit_id, session, question, account, tag)
                SELECT ?1, session, question, account, tag FROM shared_question";
    attacker.execute(copy, [PermitId::random().to_string()]).unwrap();
    let drawn = console.others().unwrap();
    assert!(drawn.iter().all(|one| *one == genuine) && drawn.len() <= 1, "{drawn:?}");
    // The same with another text of the attacker, and without an account, as an older version stored it.
    let insert = "INSERT INTO shared_question (permit_id, session, question) SELECT ?1, session, '{}' FROM shared_question LIMIT 1";
    attacker.execute(insert, [PermitId::random().to_string()]).unwrap();
    let drawn = console.others().unwrap();
    assert!(drawn.iter().all(|one| *one == genuine) && drawn.len() <= 1, "{drawn:?}");
}

#[tokio::test]
async fn the_console_reports_a_forged_request_once() {
    let victim = Victim::asking(swap());
    let console = victim.console();
    shown(&console);
    // For a live session other than the asking one: the console's session file exists, and so does another store's.
    let third = Store::open(StoreConfig::at(victim.database()), ALL_MIGRATIONS).unwrap();
    let insert =
        "INSERT INTO shared_question (permit_id, session, question, account, tag) VALUES (?1, ?2, '{}', ?3, ?4)";
    let row = params![PermitId::random().to_string(), third.session(), ACCOUNT, [9_u8; 32]];
    victim.attacker().execute(insert, row).unwrap();
    let reported: Vec<_> = console.report(NOW).await.unwrap().iter().map(|one| one.why).collect();
    assert_eq!(reported, [Forgery::Question]);
    assert!(console.report(NOW).await.unwrap().is_empty());
    assert_eq!(console.others().unwrap().len(), 1);
}

#[tokio::test]
async fn a_request_whose_calldata_does_not_match_its_hash_is_not_shown_even_with_a_valid_tag() {
    let victim = Victim::asking(swap());
    let console = victim.console();
    shown(&console);
    let (permit, key) = (victim.permit(), victim.key(ACCOUNT.parse().unwrap()));
    let attacker = victim.attacker();
    let select = "SELECT question FROM shared_question WHERE permit_id = ?1";
    let text: String = attacker.query_row(select, [&permit], |row| row.get(0)).unwrap();
    let third = Store::open(StoreConfig::at(victim.database()), ALL_MIGRATIONS).unwrap();
    let store = |stored: &Value| {
        let text = stored.to_string();
        let parts: [&[u8]; 3] = [permit.as_bytes(), third.session().as_bytes(), text.as_bytes()];
        let tag = key.tag("bardo shared question 1", &parts);
        let update = "UPDATE shared_question SET session = ?2, question = ?3, tag = ?4 WHERE permit_id = ?1";
        attacker.execute(update, params![permit, third.session(), text, tag.as_slice()]).unwrap();
        console.others().unwrap().len()
    };
    let genuine: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(store(&genuine), 1, "the tag is right");
    for (path, value) in [
        ("/question/about/raw/0/data", json!("0xdeadbeef")),
        ("/question/about/raw/0/to", json!("0x70997970C51812dc3A010C7d01b50e0d17dc79C8")),
        ("/question/about/places/0/address", json!("0x70997970C51812dc3A010C7d01b50e0d17dc79C8")),
        ("/question/about/bound/content/calls/0/data", json!("0xdeadbeef")),
        ("/question/about/bound/content/least_in/0/amount", json!("0x1")),
        ("/question/title", json!("Swap nothing")),
        ("/question/about/hash", json!(format!("0x{}", "11".repeat(32)))),
    ] {
        let mut changed = genuine.clone();
        *changed.pointer_mut(path).unwrap() = value;
        assert_eq!(store(&changed), 0, "{path}");
    }
}

#[tokio::test]
async fn a_replayed_answer_counts_neither_for_the_same_request_nor_for_another() {
    let mut victim = Victim::asking(payment("0x00000000000000000000000000000000000000ab"));
    let console = victim.console();
    // A genuine approval that the approval queue rejects, because nothing was read or typed; the attacker keeps it.
    let attacker = victim.attacker();
    attacker
        .execute_batch(
            "CREATE TABLE stolen (answer TEXT, tag BLOB, entry INTEGER);
             CREATE TRIGGER steal AFTER INSERT ON shared_answer WHEN (SELECT count(*) FROM stolen) = 0 BEGIN
             INSERT INTO stolen VALUES (NEW.answer, NEW.tag, NEW.entry); END",
        )
        .unwrap();
    let read_only = Confirmation { typed: None, ..confirmed(&shown(&console)) };
    console.answer(victim.permit_id(), &OperatorAnswer::Once, &read_only, "x", NOW, victim.proof(NOW)).await.unwrap();
    victim.until("question", || victim.question_row().is_some());
    let replay = "INSERT INTO shared_answer (permit_id, answer, said_by, tag, entry)
                  SELECT ?1, answer, 'x', tag, entry FROM stolen";
    let first = victim.permit();
    attacker.execute(replay, [&first]).unwrap();
    victim.still_asks_and_has_reported();
    assert_eq!(victim.count(OTHER_ANSWER), 1);

    // The same answer for another process's request.
    let reports = victim.forged();
    let second = start(victim.home.path(), &victim.url, &swap());
    let mut second = Ending(second);
    victim.until("second question", || victim.count("SELECT count(*) FROM shared_question") == 2);
    let other = "INSERT INTO shared_answer (permit_id, answer, said_by, tag, entry)
                 SELECT q.permit_id, s.answer, 'x', s.tag, s.entry FROM stolen s, shared_question q
                 WHERE q.session <> (SELECT session FROM shared_question WHERE permit_id = ?1)";
    attacker.execute(other, [&first]).unwrap();
    victim.until("report", || victim.forged() > reports);
    assert!(second.0.try_wait().unwrap().is_none());
    victim.has_signed_nothing();
}

/// Reports of authentic answers to another request, or to an earlier version of this one.
const OTHER_ANSWER: &str =
    "SELECT count(*) FROM audit_entry WHERE kind = 'approval:forged' AND body LIKE '%other_answer%'";

/// Process that is ended on drop.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn an_answer_whose_audit_entry_was_deleted_or_changed_does_not_count() {
    for tamper in [
        "DELETE FROM audit_entry WHERE kind = 'approval:answered'",
        "UPDATE audit_entry SET body = '{}' WHERE kind = 'approval:answered'",
    ] {
        let mut victim = Victim::asking(swap());
        let console = victim.console();
        let question = shown(&console);
        let attacker = victim.attacker();
        // Both at the moment in which the answer is written, before the asking process can read it.
        attacker
            .execute_batch(&format!("CREATE TRIGGER tamper AFTER INSERT ON shared_answer BEGIN {tamper}; END"))
            .unwrap();
        console
            .answer(victim.permit_id(), &OperatorAnswer::Once, &confirmed(&question), "x", NOW, victim.proof(NOW))
            .await
            .unwrap();
        victim.still_asks_and_has_reported();
    }
}

#[tokio::test]
async fn an_altered_answer_does_not_count() {
    // The rejection turned into an approval, the standing approval's total raised, and the confirmation filled in.
    let similar = OperatorAnswer::Similar { millis: 60_000, total: "1600".parse::<Usd>().unwrap() };
    for (answer, from, to) in [
        (refuse(), r#"{"answer":"refuse","reason":"enough"}"#, r#"{"answer":"once"}"#),
        (similar, "\"1600\"", "\"1600000\""),
    ] {
        let mut victim = Victim::asking(swap());
        let console = victim.console();
        let question = shown(&console);
        victim
            .attacker()
            .execute_batch(&format!(
                "CREATE TRIGGER tamper AFTER INSERT ON shared_answer BEGIN
             UPDATE shared_answer SET answer = replace(answer, '{from}', '{to}'); END"
            ))
            .unwrap();
        console.answer(victim.permit_id(), &answer, &confirmed(&question), "x", NOW, victim.proof(NOW)).await.unwrap();
        victim.still_asks_and_has_reported();
    }
}

#[tokio::test]
async fn a_request_is_answered_at_most_once_and_never_after_its_process_has_ended() {
    let victim = Victim::asking(swap());
    let mut question = shown(&victim.console());
    question.reasons.pop().expect("that another process asks it");
    // The same request in another ledger, from a process that has not received an answer yet.
    let folder = tempfile::tempdir().unwrap();
    let process = || {
        let shared =
            SharedQueue::new(Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap());
        shared.unlock(victim.key(ACCOUNT.parse().unwrap()));
        shared
    };
    let (asking, first, second) = (process(), process(), process());
    asking.publish(std::slice::from_ref(&question)).await.unwrap();
    let permit_id = victim.permit_id();
    assert_eq!(second.others().unwrap().len(), 1);
    let none = Confirmation::default();
    first.answer(permit_id, &refuse(), &none, "process 2", NOW, None).await.unwrap();
    for answer in [refuse(), OperatorAnswer::Once] {
        let again = second.answer(permit_id, &answer, &confirmed(&question), "process 3", NOW, victim.proof(NOW)).await;
        assert!(matches!(again, Err(ShareError::Answered)), "{again:?}");
    }
    let heard: Vec<_> =
        asking.remote_answers().unwrap().into_iter().map(|one| (one.answer, one.by.to_string())).collect();
    assert_eq!(heard, [(refuse(), "process 2".to_owned())]);
    // Requested once more, by a process that then ends.
    asking.forget(vec![permit_id]).await.unwrap();
    asking.publish(std::slice::from_ref(&question)).await.unwrap();
    drop(asking);
    let late = second.answer(permit_id, &refuse(), &none, "process 3", NOW, None).await;
    assert!(matches!(late, Err(ShareError::Over)), "{late:?}");
}

#[tokio::test]
async fn an_answer_to_an_expired_request_is_refused() {
    let mut victim = Victim::asking(swap());
    let console = victim.console();
    let question = shown(&console);
    let late = question.ends_at.unwrap();
    let answered = console
        .answer(victim.permit_id(), &OperatorAnswer::Once, &confirmed(&question), "x", late, victim.proof(late))
        .await;
    assert!(matches!(answered, Err(ShareError::Over)), "{answered:?}");
    victim.has_signed_nothing();
}

#[tokio::test]
async fn an_approval_from_another_process_needs_the_same_reading_and_typing() {
    let mut victim = Victim::asking(payment("0x00000000000000000000000000000000000000ac"));
    let console = victim.console();
    let question = shown(&console);
    let expected = question.confirm.clone().expect("a first payment must be confirmed").expected;
    assert_eq!(expected.as_str().to_lowercase(), "00ac");
    let full = confirmed(&question);
    let typed = |text: &str| Some(SafeText::clean(text, 40));
    for lacking in [
        Confirmation::default(),
        Confirmation { typed: None, ..full.clone() },
        Confirmation { typed: typed(""), ..full.clone() },
        Confirmation { typed: typed("00ab"), ..full.clone() },
        Confirmation { read: Vec::new(), ..full.clone() },
    ] {
        let answers = victim.count("SELECT count(*) FROM audit_entry WHERE kind = 'approval:answered'");
        shown(&console);
        console.answer(victim.permit_id(), &OperatorAnswer::Once, &lacking, "x", NOW, victim.proof(NOW)).await.unwrap();
        // Read, rejected, and requested again.
        victim.until("question", || victim.question_row().is_some());
        assert_eq!(victim.count("SELECT count(*) FROM audit_entry WHERE kind = 'approval:answered'"), answers + 1);
        victim.has_signed_nothing();
    }
    shown(&console);
    console.answer(victim.permit_id(), &OperatorAnswer::Once, &full, "x", NOW, victim.proof(NOW)).await.unwrap();
    assert_eq!(victim.ended(), ("success".to_owned(), 1));
}

/// Runs a call on a terminal; at each prompt the next line is typed. Returns the output and the exit code.
fn on_a_terminal(url: &str, home: &Path, call: &(&str, Value), lines: &[(&str, &str)]) -> (String, u32) {
    let pty = native_pty_system().openpty(PtySize { rows: 60, cols: 200, ..PtySize::default() }).unwrap();
    let mut command = CommandBuilder::new(program());
    command.env_clear();
    command.env("BARDO_HOME", home);
    command.args(arguments(url, call));
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut screen = pty.master.try_clone_reader().unwrap();
    let mut keys = pty.master.take_writer().unwrap();
    let (mut shown, mut from, mut lines) = (String::new(), 0, lines.iter());
    let mut next = lines.next();
    loop {
        let mut some = [0; 4_096];
        match screen.read(&mut some) {
            Ok(0) | Err(_) => break,
            Ok(read) => shown.push_str(&String::from_utf8_lossy(&some[..read])),
        }
        while let Some((prompt, line)) = next
            && let Some(at) = shown[from..].find(prompt)
        {
            from += at + prompt.len();
            keys.write_all(format!("{line}\r").as_bytes()).unwrap();
            next = lines.next();
        }
    }
    (shown, child.wait().unwrap().exit_code())
}

#[test]
fn on_the_command_line_a_plain_yes_does_not_approve_a_first_payment() {
    let turn = turn();
    let (url, home) = (turn.devnet.url(0).to_owned(), home());
    let (before, call) = (nonce(&url), payment("0x00000000000000000000000000000000000000ad"));
    // The first prompt is for a warning; `yes` does not acknowledge it.
    let (shown, code) = on_a_terminal(&url, home.path(), &call, &[("Type ok when you have read it: ", "yes")]);
    assert_ne!(code, 0, "{shown}");
    assert_eq!(nonce(&url), before, "{shown}");
    assert!(
        shown.to_lowercase().contains("0x00000000000000000000000000000000000000ad"),
        "the receiver is whole: {shown}"
    );
}

#[test]
fn on_the_command_line_only_the_right_digits_approve() {
    let turn = turn();
    let (url, home) = (turn.devnet.url(0).to_owned(), home());
    let (before, call) = (nonce(&url), payment("0x00000000000000000000000000000000000000ae"));
    let ok = ("Type ok when you have read it: ", "ok");
    let (typed, yes) = ("To confirm, type the last four characters", "recorded as the reason: ");
    // Digits of another address, then once more from the beginning.
    let lines = [ok, (typed, "00ad"), (yes, "yes"), ok, (typed, "00AE"), (yes, "raw"), (yes, "yes")];
    let (shown, code) = on_a_terminal(&url, home.path(), &call, &lines);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("it must be confirmed by typing"), "{shown}");
    assert!(shown.contains("calldata       0xa9059cbb"), "the calldata is shown on demand: {shown}");
    assert_eq!(nonce(&url), before + 1, "{shown}");
}

#[test]
fn a_lookalike_of_a_known_address_is_paid_only_after_typing_the_differing_digits() {
    let turn = turn();
    let (url, home) = (turn.devnet.url(0).to_owned(), home());
    // The known address is paid first without a request: on devnets everything may be approved in advance.
    let (tool, params) = payment("0x70997970C51812dc3A010C7d01b50e0d17dc79C8");
    let given = format!("ethereum={url}");
    let mut known = Command::new(program());
    known.args(["--rpc", &given, "call", "--approve", "always", tool, &params.to_string()]);
    let known = known.env_clear().env("BARDO_HOME", home.path()).stdin(Stdio::null()).output().unwrap();
    assert!(known.status.success(), "{}", String::from_utf8_lossy(&known.stdout));
    let (before, call) = (nonce(&url), payment("0x70990000000000000000000000000000000079C8"));
    let (read, typed) = ("Type ok when you have read it: ", "To confirm, type the four characters after 0x7099");
    let yes = "recorded as the reason: ";
    // Read and approved with the last characters typed, in which the two addresses do not differ.
    let lines = [(read, "ok"), (read, "ok"), (typed, "79C8"), (yes, "yes"), (read, "no")];
    let (shown, code) = on_a_terminal(&url, home.path(), &call, &lines);
    assert_ne!(code, 0, "{shown}");
    assert!(shown.contains("it must be confirmed by typing the four characters after 0x7099"), "{shown}");
    assert_eq!(nonce(&url), before, "{shown}");
}

#[test]
fn a_queue_secret_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let victim = Victim::asking(swap());
    let (path, url) = (victim.secret_file(), victim.url.clone());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert!(!path.starts_with(victim.database().parent().unwrap()), "the secret is outside the ledger's folder");
    // A call with the secret requests approval and would wait for an answer.
    let said = || {
        let mut child = start(victim.home.path(), &url, &swap());
        let since = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if since.elapsed() > Duration::from_secs(30) {
                child.kill().unwrap();
                child.wait().unwrap();
                return "it waits: the secret was used".to_owned();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
        envelope["error"].to_string()
    };
    for exposed in [0o640, 0o604, 0o620] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(exposed)).unwrap();
        let said = said();
        assert!(said.contains("STORE_UNAVAILABLE") && said.contains("other users can access"), "{said}");
    }
    // A link to a file of the attacker's choice, and a file of another length.
    std::fs::remove_file(&path).unwrap();
    let own = victim.home.path().join("own");
    std::fs::write(&own, [7; 32]).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&own, &path).unwrap();
    assert!(said().contains("STORE_UNAVAILABLE"), "{}", said());
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, [7; 31]).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(said().contains("is damaged"), "{}", said());
}

#[test]
fn the_ledger_holds_no_standing_approvals() {
    // Standing approvals live in the memory of the process that received them, so no row can create or raise one.
    let victim = Victim::asking(swap());
    let grants = "SELECT count(*) FROM sqlite_master WHERE name LIKE '%grant%' OR name LIKE '%standing%'";
    assert_eq!(victim.count(grants), 0);
}

const KNOWN: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const LOOKALIKE: &str = "0x70990000000000000000000000000000000079C8";

/// Runs a call without approval; returns its envelope, and the number of signed transactions.
fn unasked(url: &str, home: &Path, approve: &str, (tool, params): &(&str, Value)) -> (Value, u64) {
    let (given, before) = (format!("ethereum={url}"), nonce(url));
    let mut call = Command::new(program());
    call.args(["--rpc", &given, "call", "--approve", approve, tool, &params.to_string()]);
    let output = call.env_clear().env("BARDO_HOME", home).stdin(Stdio::null()).output().unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), nonce(url) - before)
}

/// Payment that needs approval only because of its recipient.
fn small(to: &str) -> (&'static str, Value) {
    ("wallet_transfer_token", json!({ "token": "USDC", "recipient": to, "amount": "5", "chain_id": "ethereum" }))
}

fn ledger_of(home: &Path) -> Connection {
    let mut found = std::fs::read_dir(home.join("data/ledger")).unwrap();
    let database = Connection::open(found.next().unwrap().unwrap().path().join("ledger.db")).unwrap();
    database.busy_timeout(PATIENCE).unwrap();
    database
}

#[test]
fn an_inserted_row_does_not_make_a_recipient_known() {
    let turn = turn();
    let (url, home) = (turn.devnet.url(0).to_owned(), home());
    // Only the recipient of a small payment needs approval.
    let policy = format!("{POLICY}[tools.wallet_transfer_token]\nrequires_approval_above_usd = \"1000\"\n");
    std::fs::write(home.path().join("policy-devnet.toml"), policy).unwrap();
    let pays = |approve, to| {
        let (answer, signed) = unasked(&url, home.path(), approve, &small(to));
        assert_eq!(signed == 1, answer["status"] == "success", "{answer}");
        signed
    };
    assert_eq!(pays("never", KNOWN), 0, "a first payment takes an approval");
    assert_eq!(pays("always", KNOWN), 1);
    assert_eq!(pays("never", KNOWN), 1, "another process knows whom this one has paid");
    let ledger = ledger_of(home.path());
    for forged in [
        "INSERT INTO safety_recipient VALUES (31337, ?1, 2)",
        "INSERT INTO safety_spender VALUES (31337, ?1, 2)",
        "INSERT INTO ledger_recipient SELECT 31337, ?1, id FROM ledger_reservation WHERE state = 'done' LIMIT 1",
        "INSERT INTO safety_party SELECT role, chain_id, ?1, account, call_id, first_at, zeroblob(32) FROM safety_party
             WHERE role = 'receiver'",
        "INSERT OR REPLACE INTO safety_party SELECT role, chain_id, ?1, account, call_id, first_at, tag FROM safety_party
             WHERE role = 'receiver' AND address <> ?1",
        "UPDATE safety_party SET chain_id = 31338 WHERE address = ?1",
    ] {
        // Addresses appear as they are displayed, in mixed case.
        let lookalike = LOOKALIKE.parse::<Address>().unwrap().to_string();
        assert!(ledger.execute(forged, [lookalike]).unwrap() > 0, "{forged}");
        assert_eq!(pays("never", LOOKALIKE), 0, "{forged}");
    }
    // An address that such a row names may be imitated: that makes more approvals necessary, never fewer.
    let named = "0x52be222222222222222222222222222222222e05".parse::<Address>().unwrap().to_string();
    ledger.execute("INSERT INTO safety_recipient VALUES (31337, ?1, 3)", [&named]).unwrap();
    let imitation = "0x52be333333333333333333333333333333332e05";
    let (answer, signed) = unasked(&url, home.path(), "never", &small(imitation));
    assert_eq!((signed, answer["error"]["code"].as_str()), (0, Some("APPROVAL_REQUIRED")), "{answer}");
    assert!(answer.to_string().contains(&named), "{answer}");
    // All of them together, and a bare `yes` still pays nobody.
    let (read, typed) = ("Type ok when you have read it: ", "To confirm, type the four characters after 0x7099");
    let lines = [(read, "ok"), (read, "ok"), (typed, "79C8"), ("recorded as the reason: ", "yes"), (read, "no")];
    let before = nonce(&url);
    let (shown, code) = on_a_terminal(&url, home.path(), &small(LOOKALIKE), &lines);
    assert_ne!(code, 0, "{shown}");
    assert!(shown.contains("it must be confirmed by typing the four characters after 0x7099"), "{shown}");
    assert_eq!(nonce(&url), before, "{shown}");
}

#[test]
fn unreadable_rows_do_not_block_an_exit() {
    let turn = turn();
    let (url, home) = (turn.devnet.url(0).to_owned(), home());
    let exit = json!({ "token_in": "WETH", "token_out": "USDC", "amount": "0.01", "chain": "ethereum",
                       "prefer_uniswapx": false });
    let sell = ("uniswap_execute_swap", exit);
    let (answer, _) = unasked(&url, home.path(), "never", &sell);
    assert_eq!(answer["status"], "success", "{answer}");
    let ledger = ledger_of(home.path());
    let account: Address = ACCOUNT.parse().unwrap();
    for garbage in [
        "INSERT INTO ledger_liquidation VALUES (31337, ?1, 'nonsense', 1)",
        "INSERT INTO safety_recipient VALUES (31337, 'nonsense', ?1 IS NULL)",
        "INSERT INTO safety_party VALUES ('receiver', 31337, 'nonsense', ?1, 'nonsense', 1, x'00')",
        "INSERT INTO ledger_recipient SELECT 31337, 'nonsense', id FROM ledger_reservation
             WHERE state = 'done' AND ?1 IS NOT NULL LIMIT 1",
    ] {
        assert_eq!(ledger.execute(garbage, [account.to_string()]).unwrap(), 1, "{garbage}");
        let (answer, _) = unasked(&url, home.path(), "never", &sell);
        assert_eq!(answer["status"], "success", "{garbage}: {answer}");
    }
}
