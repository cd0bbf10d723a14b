//! A Golem's death with `on_death` set to `sell` or `ask`: its allowances and keys are revoked, its last words stored,
//! and its holdings sold, with `ask` only after an approval. Whole sessions on the devnet, in simulated time.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::id::GolemId;
use bardo::base::model::Phase;
use bardo::engine::ToolResponse;
use bardo::fabric::{Event, EventKind};
use bardo::golem::scenario;
use bardo::runtime::actor::GolemActor;
use bardo::runtime::session::{Session, SessionOptions, TimeOptions, TimePace};
use bardo::session::handle::{
    AddressedCommand, LeaveMode, SessionCommand, SessionHandle, SessionNews, SessionSnapshot,
};
use bardo::session::questions::{OperatorAnswer, Question};
use tokio::sync::mpsc;

/// Scenario of a short life: the Golem buys a little UNI and gives Permit2 an allowance of five DAI, then prices fall
/// by 22 %.
const SHORT_LIFE: &str = r#"
name = "short-life"
about = "It buys, it allows, it dies."

[[beat]]
at = 2
do = "act"
params = { kind = "swap", params = { token_in = "USDC", token_out = "UNI", amount = "60", chain = "ethereum", prefer_uniswapx = false } }
expect = ["success"]

[[beat]]
at = 4
do = "act"
params = { kind = "approve", params = { token = "DAI", spender = "0x000000000022D473030F116dDEE9F6B43aC78BA3", amount = "5", chain = "ethereum" } }
expect = ["success"]

[[cue]]
at = 30
do = { market = { bps = -2200, blocks = 8 } }

[[cue]]
at = 90
do = { phase = { is = "Terminal" } }
"#;

/// Life in which the lending pool and the position manager of V3, at the addresses of the devnet's genesis, get an allowance
/// of five DAI each; then prices fall by 22 %.
const ALLOWING_LIFE: &str = r#"
name = "allowing-life"
about = "It allows, it dies."
operator = "approve"

[[beat]]
at = 2
do = "act"
params = { kind = "approve", params = { token = "DAI", spender = "0x99fde334931ce6e0878103cc05a9342d3e852711", amount = "5", chain = "ethereum" } }
expect = ["success"]

[[beat]]
at = 10
do = "act"
params = { kind = "approve", params = { token = "DAI", spender = "0x597f1e0752ca9a29449468e1422c13ffa0a0de41", amount = "5", chain = "ethereum" } }
expect = ["success"]

[[cue]]
at = 30
do = { market = { bps = -2200, blocks = 8 } }

[[cue]]
at = 90
do = { phase = { is = "Terminal" } }
"#;

/// Messages that a session has sent so far.
#[derive(Default)]
pub struct SessionLog {
    pub events: Vec<Arc<Event>>,
    pub questions: Arc<Vec<Question>>,
    pub snapshot: Option<Arc<SessionSnapshot>>,
    pub replies: Vec<ToolResponse>,
    /// Results of commands, as sentences.
    results: Vec<String>,
}

impl SessionLog {
    /// True if a thought of the Golem contains these words.
    pub fn has_thought(&self, words: &str) -> bool {
        self.thought_with(words).is_some()
    }

    /// First thought of the Golem that contains these words.
    pub fn thought_with(&self, words: &str) -> Option<&str> {
        self.events.iter().find_map(|event| match &event.kind {
            EventKind::GolemThought(thought) => Some(thought.text.as_str()).filter(|text| text.contains(words)),
            _ => None,
        })
    }

    /// True if the account holds any of this token; `None` before the first snapshot.
    pub fn holds(&self, symbol: &str) -> Option<bool> {
        let snapshot = self.snapshot.as_ref()?;
        let rows = snapshot.holdings.iter().flat_map(|chain| &chain.rows);
        Some(rows.into_iter().any(|row| row.symbol.as_str() == symbol && !row.amount.raw().is_zero()))
    }

    fn holds_uni(&self) -> Option<bool> {
        self.holds("UNI")
    }

    fn allowance_count(&self) -> Option<usize> {
        self.snapshot.as_ref().map(|snapshot| snapshot.allowances.rows.len())
    }

    /// True if the Golem has died.
    pub fn died(&self) -> bool {
        self.events.iter().any(|event| match &event.kind {
            EventKind::PhaseChanged(change) => change.to == Phase::Terminal,
            _ => false,
        })
    }
}

/// Session whose messages a test follows.
pub struct WatchedSession {
    commands: mpsc::Sender<AddressedCommand>,
    news: mpsc::Receiver<SessionNews>,
    pub log: SessionLog,
}

impl WatchedSession {
    /// Opens a session in `home` whose Golem plays the scenario `scenario_file`.
    pub fn open(home: &Path, on_death: &str, scenario_file: &str) -> Self {
        Self::open_session(home, on_death, scenario_file, false)
    }

    /// Opens a session whose scenario waits at each of its moments for [`SessionCommand::Step`].
    pub fn open_by_steps(home: &Path, on_death: &str, scenario_file: &str) -> Self {
        Self::open_session(home, on_death, scenario_file, true)
    }

    fn open_session(home: &Path, on_death: &str, scenario_file: &str, step: bool) -> Self {
        std::fs::write(home.join("config.toml"), format!("on_death = \"{on_death}\"\n")).unwrap();
        let path = home.join("short-life.toml");
        std::fs::write(&path, scenario_file).unwrap();
        let scenario = scenario::find(path.to_str().unwrap()).unwrap();
        let environment: Environment = [("BARDO_HOME", home.to_str().unwrap())].into_iter().collect();
        let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
        let time = TimeOptions { pace: TimePace::Free, tick: 1, most: None, step, operator: true };
        let options = SessionOptions { time: Some(time), keep: true, ..SessionOptions::default() };
        let SessionHandle { commands, news } =
            Session::open_with(config, options, Box::new(GolemActor::playing(scenario)));
        Self { commands, news, log: SessionLog::default() }
    }

    /// Reads the session's messages until the condition is met. `what` describes it for the error.
    pub async fn until(&mut self, what: &str, condition: impl Fn(&SessionLog) -> bool) {
        let follow = async {
            while !condition(&self.log) {
                match self.news.recv().await.expect("the session is still open") {
                    SessionNews::Events(events) => self.log.events.extend(events),
                    SessionNews::Questions(questions) => self.log.questions = questions,
                    SessionNews::Snapshot(snapshot) => self.log.snapshot = Some(snapshot),
                    SessionNews::Reply { response, .. } => self.log.replies.push(*response),
                    SessionNews::CommandResult { words, .. } => self.log.results.push(words.to_string()),
                    _ => {}
                }
            }
        };
        let over = tokio::time::timeout(Duration::from_secs(240), follow).await;
        assert!(over.is_ok(), "did not happen in time: {what}");
    }

    pub async fn send(&self, command: SessionCommand) {
        self.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    }

    /// Leaves the session and waits for its end.
    pub async fn end(mut self) {
        self.send(SessionCommand::Leave(LeaveMode::Finish)).await;
        while let Some(news) = self.news.recv().await {
            if matches!(news, SessionNews::Left(_)) {
                break;
            }
        }
    }

    /// Leaves the session and returns the Golem's stored last words.
    async fn leave(self, home: &Path) -> String {
        self.end().await;
        let mut found = BTreeSet::new();
        for connection in databases(home) {
            let words = connection.query_row("SELECT last_words FROM golem_life", [], |row| row.get::<_, String>(0));
            found.extend(words);
        }
        assert_eq!(found.len(), 1, "one Golem lived in this home: {found:?}");
        found.pop_first().unwrap()
    }
}

/// Connections to every database in a home.
pub fn databases(home: &Path) -> Vec<rusqlite::Connection> {
    database_files(home).into_iter().map(|file| rusqlite::Connection::open(file).unwrap()).collect()
}

/// Database files in a folder and its subfolders.
fn database_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let deeper = folders.iter().flat_map(|folder| database_files(folder));
    let deeper: Vec<_> = deeper.collect();
    files.into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "db")).chain(deeper).collect()
}

/// Number of exits that were reserved in a home's ledgers.
fn exit_count(home: &Path) -> u32 {
    let count = "SELECT count(*) FROM ledger_reservation WHERE trade = 1 AND exempt = 1";
    // Other databases lack this table.
    databases(home).iter().filter_map(|database| database.query_row(count, [], |row| row.get::<_, u32>(0)).ok()).sum()
}

/// Opens a session and follows its Golem until it has died and its keys and allowances are revoked.
async fn dead_golem(home: &Path, on_death: &str) -> WatchedSession {
    let mut watched = WatchedSession::open(home, on_death, SHORT_LIFE);
    watched.until("it holds UNI", |log| log.holds_uni() == Some(true)).await;
    watched.until("it dies", SessionLog::died).await;
    watched.until("its keys are revoked", |log| log.has_thought("My keys are revoked")).await;
    let words = watched.log.thought_with("My keys are revoked").unwrap();
    // The allowance of five DAI for Permit2.
    assert!(words.contains("1 allowances were revoked, none remain"), "{words}");
    watched.until("no allowance is left", |log| log.allowance_count() == Some(0)).await;
    watched
}

#[tokio::test(flavor = "multi_thread")]
async fn allowances_of_every_contract_that_takes_tokens_end_with_the_golem() {
    let home = tempfile::tempdir().unwrap();
    let mut watched = WatchedSession::open(home.path(), "keep", ALLOWING_LIFE);
    watched.until("its keys are revoked", |log| log.has_thought("My keys are revoked")).await;
    let words = watched.log.thought_with("My keys are revoked").unwrap();
    assert!(words.contains("2 allowances were revoked, none remain"), "{words}");
    watched.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_death_sell_sells_all_holdings() {
    let home = tempfile::tempdir().unwrap();
    let mut watched = dead_golem(home.path(), "sell").await;
    watched.until("UNI is sold", |log| log.has_thought("Sold all UNI on ethereum.")).await;
    watched.until("no UNI is held", |log| log.holds_uni() == Some(false)).await;
    assert!(watched.log.questions.is_empty(), "a devnet's tokens are sold without a request");
    let words = watched.leave(home.path()).await;
    assert!(words.starts_with("I end here: ") && words.contains("below peak"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_death_ask_sells_all_holdings_after_an_approval() {
    let home = tempfile::tempdir().unwrap();
    let mut watched = dead_golem(home.path(), "ask").await;
    watched.until("the sale is requested", |log| log.questions.iter().any(|one| one.about.sells_holdings())).await;
    assert!(!watched.log.has_thought("Sold all"), "nothing is sold before the answer");
    assert_eq!(watched.log.holds_uni(), Some(true));
    let key = watched.log.questions.iter().find(|one| one.about.sells_holdings()).unwrap().key;
    let command =
        SessionCommand::Answer { key, answer: OperatorAnswer::Once, confirmation: Default::default(), password: None };
    watched.send(command).await;
    watched.until("UNI is sold", |log| log.has_thought("Sold all UNI on ethereum.")).await;
    watched.until("no UNI is held", |log| log.holds_uni() == Some(false)).await;
    watched.leave(home.path()).await;
    assert_ne!(exit_count(home.path()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_death_ask_keeps_the_holdings_after_a_rejection() {
    let home = tempfile::tempdir().unwrap();
    let mut watched = dead_golem(home.path(), "ask").await;
    watched.until("the sale is requested", |log| log.questions.iter().any(|one| one.about.sells_holdings())).await;
    let key = watched.log.questions.iter().find(|one| one.about.sells_holdings()).unwrap().key;
    let answer = OperatorAnswer::Refuse { reason: bardo::base::text::SafeText::clean("I keep it", 20) };
    let command = SessionCommand::Answer { key, answer, confirmation: Default::default(), password: None };
    watched.send(command).await;
    watched.until("the request has ended", |log| log.questions.is_empty()).await;
    watched.until("the rejection is confirmed", |log| !log.results.is_empty()).await;
    assert_eq!(watched.log.results, ["nothing was changed"]);
    assert!(!watched.log.has_thought("Sold all"));
    assert_eq!(watched.log.holds_uni(), Some(true));
    watched.leave(home.path()).await;
    assert_eq!(exit_count(home.path()), 0, "nothing is reserved after the rejection");
    // Decisions about the session itself are on record like every other, with the reason.
    let answered = "SELECT json_extract(body, '$.outcome') || ': ' || json_extract(body, '$.reason') FROM audit_entry \
                    WHERE kind = 'approval:resolved' AND json_extract(body, '$.asked') LIKE '%sell what it held'";
    let found = |database: &rusqlite::Connection| database.query_row(answered, [], |row| row.get::<_, String>(0)).ok();
    assert_eq!(databases(home.path()).iter().find_map(found).as_deref(), Some("refused: I keep it"));
}

/// A loan of 300 dollars against half an ether; then prices fall by 22 %.
const INDEBTED_LIFE: &str = r#"
name = "indebted-life"
about = "It borrows, it dies."
operator = "approve"

[[beat]]
at = 2
do = "act"
params = { kind = "lending-supply", params = { token = "WETH", amount = "0.5", chain = "ethereum" } }
expect = ["success"]

[[beat]]
at = 10
do = "act"
params = { kind = "lending-borrow", params = { token = "USDC", amount = "300", chain = "ethereum" } }
expect = ["success"]

[[cue]]
at = 30
do = { market = { bps = -2200, blocks = 8 } }

[[cue]]
at = 90
do = { phase = { is = "Terminal" } }
"#;

/// Tools that began after the Golem's death, in order.
fn begun_after_death(log: &SessionLog) -> Vec<String> {
    let dead =
        |event: &&Arc<Event>| matches!(&event.kind, EventKind::PhaseChanged(change) if change.to == Phase::Terminal);
    let since = log.events.iter().find(dead).map_or(u64::MAX, |event| event.seq);
    let later = log.events.iter().filter(|event| event.seq > since);
    let begun = later.filter_map(|event| match &event.kind {
        EventKind::ToolStart(start) => Some(start.tool_name.to_string()),
        _ => None,
    });
    begun.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_golems_debt_is_repaid_and_its_supply_withdrawn_before_the_sale() {
    let home = tempfile::tempdir().unwrap();
    let mut watched = WatchedSession::open(home.path(), "sell", INDEBTED_LIFE);
    watched.until("it dies", SessionLog::died).await;
    watched.until("WETH is sold", |log| log.has_thought("Sold all WETH on ethereum")).await;
    watched.until("no WETH is held", |log| log.holds("WETH") == Some(false)).await;
    let begun = begun_after_death(&watched.log);
    let place = |tool: &str| begun.iter().position(|one| one == tool).unwrap_or_else(|| panic!("{tool}: {begun:?}"));
    assert!(place("lending_repay") < place("lending_withdraw"), "{begun:?}");
    assert!(place("lending_withdraw") < place("uniswap_execute_swap"), "{begun:?}");
    assert!(!watched.log.has_thought("to Aave stays"), "nothing stays");
    watched.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_golem_that_keeps_its_holdings_names_its_debt() {
    let home = tempfile::tempdir().unwrap();
    let mut watched = WatchedSession::open(home.path(), "keep", INDEBTED_LIFE);
    watched.until("it dies", SessionLog::died).await;
    watched.until("its debt is named", |log| log.has_thought("of debt to Aave stays, and 0.5")).await;
    assert!(!begun_after_death(&watched.log).iter().any(|tool| tool.starts_with("lending_")));
    watched.end().await;
}
