//! Steps after a Golem's death: allowances and keys revoked, its last entry, and the treatment of its holdings by
//! `on_death`. Whole sessions on the devnet, in simulated time.

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
use bardo::session::questions::{OperatorAnswer, Question, RequestSubject};
use tokio::sync::mpsc;

/// A life of seconds: it buys a little UNI, gives Permit2 an allowance of five DAI, and its prices fall by 22 %.
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

/// Messages of a session so far.
#[derive(Default)]
pub struct Told {
    pub events: Vec<Arc<Event>>,
    pub questions: Arc<Vec<Question>>,
    snapshot: Option<Arc<SessionSnapshot>>,
    pub replies: Vec<ToolResponse>,
    /// Answers to commands.
    answers: Vec<String>,
}

impl Told {
    pub fn says(&self, words: &str) -> bool {
        self.words_with(words).is_some()
    }

    /// Thought that contains these words.
    pub fn words_with(&self, words: &str) -> Option<&str> {
        self.events.iter().find_map(|event| match &event.kind {
            EventKind::GolemThought(thought) => Some(thought.text.as_str()).filter(|text| text.contains(words)),
            _ => None,
        })
    }

    /// True if it holds any of this token; `None` if that was not reported yet.
    pub fn holds(&self, symbol: &str) -> Option<bool> {
        let snapshot = self.snapshot.as_ref()?;
        let rows = snapshot.holdings.iter().flat_map(|chain| &chain.rows);
        Some(rows.into_iter().any(|row| row.symbol.as_str() == symbol && !row.amount.raw().is_zero()))
    }

    fn uni(&self) -> Option<bool> {
        self.holds("UNI")
    }

    fn allowances(&self) -> Option<usize> {
        self.snapshot.as_ref().map(|snapshot| snapshot.allowances.rows.len())
    }

    pub fn died(&self) -> bool {
        self.events.iter().any(|event| match &event.kind {
            EventKind::PhaseChanged(change) => change.to == Phase::Terminal,
            _ => false,
        })
    }
}

pub struct Watched {
    commands: mpsc::Sender<AddressedCommand>,
    news: mpsc::Receiver<SessionNews>,
    pub told: Told,
}

impl Watched {
    /// Session in this home whose Golem plays this scenario.
    pub fn open(home: &Path, on_death: &str, show_file: &str) -> Self {
        Self::opened(home, on_death, show_file, false)
    }

    /// Session whose scenario waits at each of its moments for [`SessionCommand::Step`].
    pub fn open_by_steps(home: &Path, on_death: &str, show_file: &str) -> Self {
        Self::opened(home, on_death, show_file, true)
    }

    fn opened(home: &Path, on_death: &str, show_file: &str, step: bool) -> Self {
        std::fs::write(home.join("config.toml"), format!("on_death = \"{on_death}\"\n")).unwrap();
        let show = home.join("short-life.toml");
        std::fs::write(&show, show_file).unwrap();
        let show = scenario::find(show.to_str().unwrap()).unwrap();
        let environment: Environment = [("BARDO_HOME", home.to_str().unwrap())].into_iter().collect();
        let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
        let time = TimeOptions { pace: TimePace::Free, tick: 1, most: None, step, operator: true };
        let options = SessionOptions { time: Some(time), keep: true, ..SessionOptions::default() };
        let SessionHandle { commands, news } = Session::open_with(config, options, Box::new(GolemActor::playing(show)));
        Self { commands, news, told: Told::default() }
    }

    /// Follows the session until the condition is met.
    pub async fn until(&mut self, what: &str, is_so: impl Fn(&Told) -> bool) {
        let follow = async {
            while !is_so(&self.told) {
                match self.news.recv().await.expect("the session goes on") {
                    SessionNews::Events(events) => self.told.events.extend(events),
                    SessionNews::Questions(questions) => self.told.questions = questions,
                    SessionNews::Snapshot(snapshot) => self.told.snapshot = Some(snapshot),
                    SessionNews::Reply { response, .. } => self.told.replies.push(*response),
                    SessionNews::CommandResult { words, .. } => self.told.answers.push(words.to_string()),
                    _ => {}
                }
            }
        };
        let over = tokio::time::timeout(Duration::from_secs(240), follow).await;
        assert!(over.is_ok(), "it never came: {what}");
    }

    pub async fn send(&self, command: SessionCommand) {
        self.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    }

    /// Leaves and waits for the end.
    pub async fn end(mut self) {
        self.send(SessionCommand::Leave(LeaveMode::Finish)).await;
        while let Some(news) = self.news.recv().await {
            if matches!(news, SessionNews::Left(_)) {
                break;
            }
        }
    }

    /// Leaves and reads its stored last words.
    async fn leave(self, home: &Path) -> String {
        self.end().await;
        let mut found = BTreeSet::new();
        for connection in databases(home) {
            let words = connection.query_row("SELECT last_words FROM golem_life", [], |row| row.get::<_, String>(0));
            found.extend(words);
        }
        assert_eq!(found.len(), 1, "one Golem lived here: {found:?}");
        found.pop_first().unwrap()
    }
}

/// Connections to every database in a home.
pub fn databases(home: &Path) -> Vec<rusqlite::Connection> {
    walk(home).into_iter().map(|file| rusqlite::Connection::open(file).unwrap()).collect()
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let deeper = folders.iter().flat_map(|folder| walk(folder));
    let deeper: Vec<_> = deeper.collect();
    files.into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "db")).chain(deeper).collect()
}

/// Number of exits that were reserved in a home's ledgers.
fn exits(home: &Path) -> u32 {
    let count = "SELECT count(*) FROM ledger_reservation WHERE trade = 1 AND exempt = 1";
    // Databases of other kinds lack this table.
    databases(home).iter().filter_map(|database| database.query_row(count, [], |row| row.get::<_, u32>(0)).ok()).sum()
}

/// Lives and dies, up to the revocation of its allowances.
async fn dies(home: &Path, on_death: &str) -> Watched {
    let mut watched = Watched::open(home, on_death, SHORT_LIFE);
    watched.until("it holds UNI", |told| told.uni() == Some(true)).await;
    watched.until("it dies", Told::died).await;
    watched.until("its keys are revoked", |told| told.says("My keys are revoked")).await;
    let words = watched.told.words_with("My keys are revoked").unwrap();
    // The allowance of five DAI for Permit2.
    assert!(words.contains("1 allowances were revoked, none remain"), "{words}");
    watched.until("no allowance is left", |told| told.allowances() == Some(0)).await;
    watched
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_it_sold_finds_it_sold() {
    let home = tempfile::tempdir().unwrap();
    let mut watched = dies(home.path(), "sell").await;
    watched.until("UNI is sold", |told| told.says("Sold all UNI on ethereum.")).await;
    watched.until("none is held", |told| told.uni() == Some(false)).await;
    assert!(watched.told.questions.is_empty(), "play money is sold without a question");
    let words = watched.leave(home.path()).await;
    assert!(words.starts_with("I end here: ") && words.contains("below its peak"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_asked_says_whether_it_is_sold() {
    let home = tempfile::tempdir().unwrap();
    let mut watched = dies(home.path(), "ask").await;
    watched
        .until("it is asked", |told| told.questions.iter().any(|one| one.about == RequestSubject::SellHoldings))
        .await;
    assert!(!watched.told.says("Sold all"), "nothing is sold before the answer");
    assert_eq!(watched.told.uni(), Some(true));
    let key = watched.told.questions.iter().find(|one| one.about == RequestSubject::SellHoldings).unwrap().key;
    let command =
        SessionCommand::Answer { key, answer: OperatorAnswer::Once, confirmation: Default::default(), password: None };
    watched.send(command).await;
    watched.until("UNI is sold", |told| told.says("Sold all UNI on ethereum.")).await;
    watched.until("none is held", |told| told.uni() == Some(false)).await;
    watched.leave(home.path()).await;
    assert_ne!(exits(home.path()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_refuses_keeps_it() {
    let home = tempfile::tempdir().unwrap();
    let mut watched = dies(home.path(), "ask").await;
    watched
        .until("it is asked", |told| told.questions.iter().any(|one| one.about == RequestSubject::SellHoldings))
        .await;
    let key = watched.told.questions.iter().find(|one| one.about == RequestSubject::SellHoldings).unwrap().key;
    let answer = OperatorAnswer::Refuse { reason: bardo::base::text::SafeText::clean("I keep it", 20) };
    let command = SessionCommand::Answer { key, answer, confirmation: Default::default(), password: None };
    watched.send(command).await;
    watched.until("the question is gone", |told| told.questions.is_empty()).await;
    watched.until("the refusal is taken", |told| !told.answers.is_empty()).await;
    assert_eq!(watched.told.answers, ["nothing was changed"]);
    assert!(!watched.told.says("Sold all"));
    assert_eq!(watched.told.uni(), Some(true));
    watched.leave(home.path()).await;
    assert_eq!(exits(home.path()), 0, "nothing is sold behind the refusal either");
}
