//! Several processes on one data directory share one approval queue: each shows the requests of all, the first answer
//! counts, and a stop that comes with an answer reaches every process.

use std::process::Command as Process;
use std::sync::{Arc, Mutex, mpsc as line};
use std::time::Duration;

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::fabric::AskReason;
use bardo::base::id::GolemId;
use bardo::base::text::SafeText;
use bardo::engine::{CallStatus, ToolResponse};
use bardo::runtime::actor::{Actor, ActorContext};
use bardo::runtime::session::{Session, SessionOptions};
use bardo::session::handle::{
    AddressedCommand, AllowanceState, LeaveMode, SessionCommand, SessionHandle, SessionNews, SessionSnapshot,
};
use bardo::session::questions::{OperatorAnswer, Question, QuestionKey};
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;

use crate::host::{Devnet, Home, ROOMY, Ran, finish, on_terminal};

/// Actor that does nothing.
struct Nobody;

impl Actor for Nobody {
    fn live(self: Box<Self>, mut seat: ActorContext) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // An ended session counts as leaving, too.
            let _left = seat.leaving.wait_for(|leaving| *leaving).await;
        })
    }
}

#[derive(Default)]
pub struct Seen {
    ready: bool,
    allowances: Vec<AllowanceState>,
    pub questions: Arc<Vec<Question>>,
    pub replies: Vec<(u64, ToolResponse)>,
    /// Held manual actions, by the tickets of their commands.
    pub offers: Vec<(u64, Question)>,
    pub told: Vec<(bool, String)>,
    pub snapshot: Option<Arc<SessionSnapshot>>,
}

/// A session with its own store on the folder's ledger, like a separate process.
pub struct Console {
    commands: mpsc::Sender<AddressedCommand>,
    pub seen: Arc<Mutex<Seen>>,
}

impl Console {
    pub async fn open(home: &Home, devnet: &Devnet) -> Self {
        Self::open_as(home, devnet, None, SessionOptions::default()).await
    }

    /// Opens a session with this brain in its configuration.
    pub async fn open_as(home: &Home, devnet: &Devnet, brain: Option<&str>, options: SessionOptions) -> Self {
        let variables = [("BARDO_HOME".to_owned(), home.path().to_str().unwrap().to_owned())];
        let brain = brain.map(ToOwned::to_owned);
        let flags = ConfigFlags { rpc: vec![format!("ethereum={}", devnet.url())], brain, ..ConfigFlags::default() };
        let config = Config::load(&Environment::from_iter(variables), &flags).unwrap();
        let SessionHandle { commands, mut news } = Session::open_with(config, options, Box::new(Nobody));
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let keeps = seen.clone();
        tokio::spawn(async move {
            while let Some(news) = news.recv().await {
                let mut seen = keeps.lock().unwrap();
                match news {
                    SessionNews::Ready(_) => seen.ready = true,
                    SessionNews::Questions(questions) => seen.questions = questions,
                    SessionNews::Offered { ticket, question } => seen.offers.push((ticket, *question)),
                    SessionNews::Reply { ticket, response } => seen.replies.push((ticket, *response)),
                    SessionNews::CommandResult { done, words } => seen.told.push((done, words.to_string())),
                    SessionNews::Snapshot(snapshot) => {
                        seen.allowances = snapshot.allowances.rows.clone();
                        seen.snapshot = Some(snapshot);
                    }
                    SessionNews::Market(_)
                    | SessionNews::Events(_)
                    | SessionNews::Began { .. }
                    | SessionNews::Found { .. }
                    | SessionNews::Replay(_)
                    | SessionNews::Left(_) => {}
                }
            }
        });
        let console = Self { commands, seen };
        console.until("it stands", |seen| seen.ready.then_some(())).await;
        console
    }

    pub async fn send(&self, command: SessionCommand) {
        self.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    }

    /// Requests a swap that needs approval.
    pub async fn swap(&self, ticket: u64) {
        let params = json!({
            "token_in": "USDC", "token_out": "WETH", "amount": "1500", "chain": "ethereum", "prefer_uniswapx": false,
        });
        let tool = "uniswap_execute_swap".to_owned();
        self.send(SessionCommand::Call { ticket, tool, params, dry_run: false, idempotency_key: None, unasked: false })
            .await;
    }

    pub async fn answer(&self, key: QuestionKey, answer: OperatorAnswer) {
        // Reads and types everything that the request requires, as an operator does.
        let shown = self.seen.lock().unwrap().questions.clone();
        let shown = shown.iter().find(|question| question.key == key);
        let confirmation = shown.map(|question| question.requirement().met()).unwrap_or_default();
        self.send(SessionCommand::Answer { key, answer, confirmation, password: None }).await;
    }

    pub async fn until<T>(&self, what: &str, look: impl Fn(&Seen) -> Option<T>) -> T {
        for _ in 0..6_000 {
            if let Some(found) = look(&self.seen.lock().unwrap()) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let seen = self.seen.lock().unwrap();
        panic!("{what}: {:?} {:?} {} questions", seen.told, seen.replies, seen.questions.len());
    }

    /// Waits for the only open request other than `before`.
    pub async fn question(&self, before: Option<QuestionKey>) -> Question {
        let new = |seen: &Seen| match seen.questions.as_slice() {
            [one] if Some(one.key) != before => Some(one.clone()),
            _ => None,
        };
        self.until("a question", new).await
    }

    pub async fn reply(&self, ticket: u64) -> ToolResponse {
        let of = |seen: &Seen| seen.replies.iter().find(|(found, _)| *found == ticket).map(|(_, reply)| reply.clone());
        self.until("a reply", of).await
    }

    /// Waits until the answer is removed and the request is stored again, or is still stored.
    async fn laid_again(&self, home: &Home, key: QuestionKey) {
        let open = "SELECT count(*) FROM shared_question WHERE permit_id NOT IN (SELECT permit_id FROM shared_answer)";
        for _ in 0..2_400 {
            if home.count(open) == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.until("the question is there", |seen| {
            seen.questions.iter().any(|question| question.key == key).then_some(())
        })
        .await;
    }

    async fn nothing_asked(&self) {
        self.until("nothing is asked", |seen| seen.questions.is_empty().then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_shown_in_all_consoles_and_the_first_answer_counts() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let asks = Console::open(&home, &devnet).await;
    let other = Console::open(&home, &devnet).await;
    let third = Console::open(&home, &devnet).await;

    // Answered in another process than the asking one.
    asks.swap(1).await;
    let question = asks.question(None).await;
    let shown = other.question(None).await;
    assert_eq!((shown.key, &shown.title, shown.value), (question.key, &question.title, question.value));
    assert!(shown.reasons.contains(&AskReason::Elsewhere), "{:?}", shown.reasons);
    let usdc = devnet.balance("USDC");
    // An answer that the approval queue rejects leaves the request open for other answers.
    let total = "1".parse().unwrap();
    other.answer(shown.key, OperatorAnswer::Similar { millis: 60_000, total }).await;
    asks.until("it is not taken", |seen| {
        seen.told.iter().any(|(_, words)| words.contains("was rejected")).then_some(())
    })
    .await;
    third.question(None).await;
    other.laid_again(&home, shown.key).await;
    other.answer(shown.key, OperatorAnswer::Once).await;
    let reply = asks.reply(1).await;
    assert_eq!(reply.status, CallStatus::Success, "{reply:?}");
    assert_eq!(usdc - devnet.balance("USDC"), 1_500_000_000);
    for console in [&asks, &other, &third] {
        console.nothing_asked().await;
    }
    let answered = || home.count("SELECT count(*) FROM audit_entry WHERE kind = 'approval:answered'");
    assert_eq!(answered(), 2, "the one that was not taken, and the one that was");

    // Two answer at once: one counts, and the other gets an error.
    asks.swap(2).await;
    let key = other.question(Some(shown.key)).await.key;
    third.question(Some(shown.key)).await;
    let reason = SafeText::clean("wait for gas", 40);
    tokio::join!(
        other.answer(key, OperatorAnswer::Refuse { reason: reason.clone() }),
        third.answer(key, OperatorAnswer::Refuse { reason })
    );
    let reply = asks.reply(2).await;
    assert_eq!(reply.status, CallStatus::Rejected, "{reply:?}");
    let told = |console: &Console| {
        let seen = console.seen.lock().unwrap();
        seen.told.iter().filter(|(done, words)| *done && words == "rejected").count()
    };
    let both = |_: &Seen| (told_in_all(&[&other, &third]) == 4).then_some(());
    asks.until("both are told", both).await;
    assert_eq!(told(&other) + told(&third), 1, "one was heard");
    assert_eq!(answered(), 3);

    // A rejection with a stop stops the asking process.
    asks.swap(3).await;
    let question = third.question(Some(key)).await;
    third.answer(question.key, OperatorAnswer::RefuseAndStop { reason: SafeText::clean("smoke", 20) }).await;
    let reply = asks.reply(3).await;
    assert!(matches!(reply.status, CallStatus::Rejected | CallStatus::Blocked), "{reply:?}");
    other.swap(4).await;
    let reply = other.reply(4).await;
    let code = reply.error.as_ref().map(|error| error.code().as_str().to_owned());
    assert_eq!((reply.status, code.as_deref()), (CallStatus::Blocked, Some("HALTED")), "{reply:?}");
    assert_eq!(usdc - devnet.balance("USDC"), 1_500_000_000, "one of three was made");
    for console in [asks, other, third] {
        console.send(SessionCommand::Leave(LeaveMode::Now)).await;
    }
}

/// Number of messages about answers that these consoles received; what became of an approved action comes at any time.
fn told_in_all(consoles: &[&Console]) -> usize {
    let about_answers =
        |told: &[(bool, String)]| told.iter().filter(|(_, words)| !words.starts_with("another process: ")).count();
    consoles.iter().map(|console| about_answers(&console.seen.lock().unwrap().told)).sum()
}

/// Arguments of a single call that needs approval for its swap.
fn asking(devnet: &Devnet) -> Vec<String> {
    let params = r#"{"token_in":"USDC","token_out":"WETH","amount":"1500","chain":"ethereum","prefer_uniswapx":false}"#;
    let given = format!("ethereum={}", devnet.url());
    ["--rpc", &given, "call", "--approve", "ask", "uniswap_execute_swap", params].map(str::to_owned).to_vec()
}

/// Waits for a process in the background.
async fn ended(mut call: Process) -> Ran {
    let child = call.spawn().unwrap();
    tokio::task::spawn_blocking(move || finish(child)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_of_a_single_call_is_shown_in_all_consoles_and_the_first_answer_counts() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let (console, other) = (Console::open(&home, &devnet).await, Console::open(&home, &devnet).await);
    let (usdc, arguments) = (devnet.balance("USDC"), asking(&devnet));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let each = 1_500_000_000;

    // Nobody is at the call's own terminal; another console answers.
    let call = tokio::spawn(ended(home.command(&arguments)));
    let question = console.question(None).await;
    assert_eq!(other.question(None).await.key, question.key);
    assert!(question.reasons.contains(&AskReason::Elsewhere), "{question:?}");
    assert!(question.value.unwrap() > "1400".parse().unwrap(), "{question:?}");
    console.answer(question.key, OperatorAnswer::Once).await;
    let ran = call.await.unwrap();
    assert_eq!((ran.status(), ran.code), ("success", Some(0)), "{ran:?}");
    assert!(ran.said.contains("approved once, in another process"), "{ran:?}");
    assert_eq!(usdc - devnet.balance("USDC"), each);
    // The console in which it was approved learns what became of it; the other one has nothing to do with it.
    let reported = |words: &str| words.starts_with("another process: ") && words.contains(" is done in 0x");
    console
        .until("the outcome is reported", |seen| {
            seen.told.iter().any(|(done, words)| *done && reported(words.as_str())).then_some(())
        })
        .await;
    assert!(!other.seen.lock().unwrap().told.iter().any(|(_, words)| reported(words.as_str())));
    console.nothing_asked().await;
    other.nothing_asked().await;

    // Two answer at once: one counts, the other gets an error, and the call ends as a rejected one.
    let call = tokio::spawn(ended(home.command(&arguments)));
    let key = console.question(Some(question.key)).await.key;
    other.question(Some(question.key)).await;
    let reason = SafeText::clean("wait for gas", 40);
    tokio::join!(
        console.answer(key, OperatorAnswer::Refuse { reason: reason.clone() }),
        other.answer(key, OperatorAnswer::Refuse { reason })
    );
    let ran = call.await.unwrap();
    assert_eq!((ran.status(), ran.code), ("rejected", Some(4)), "{ran:?}");
    assert!(ran.answer.as_ref().unwrap().to_string().contains("wait for gas"), "{ran:?}");
    let told = |console: &Console, words: &str| {
        let seen = console.seen.lock().unwrap();
        seen.told.iter().filter(|(_, told)| told.contains(words)).count()
    };
    console.until("it is told", |seen| (seen.told.len() >= 2).then_some(())).await;
    other.until("it is told", |seen| (!seen.told.is_empty()).then_some(())).await;
    assert_eq!(told(&console, "rejected") + told(&other, "rejected"), 1, "one was heard");
    assert_eq!(home.count("SELECT count(*) FROM audit_entry WHERE kind = 'approval:answered'"), 2);
    console.nothing_asked().await;

    // Answered on the call's own terminal while the consoles show it: the call proceeds, and their answers come too
    // late.
    let (go, when) = line::channel();
    let (folder, typed) = (home.path().to_owned(), asking(&devnet));
    let terminal = std::thread::spawn(move || {
        let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        on_terminal(&folder, &typed, "is recorded as the reason:", "yes", &when)
    });
    let late = console.question(Some(key)).await.key;
    go.send(()).unwrap();
    let (code, shown) = tokio::task::spawn_blocking(move || terminal.join().unwrap()).await.unwrap();
    assert_eq!(code, 0, "{shown}");
    console.nothing_asked().await;
    console.answer(late, OperatorAnswer::Refuse { reason: SafeText::clean("no", 10) }).await;
    let over = |seen: &Seen| seen.told.iter().find(|(done, words)| !done && words.contains("has ended")).cloned();
    console.until("it is told that it came too late", over).await;
    assert_eq!(usdc - devnet.balance("USDC"), 2 * each, "two of three were made");
    for console in [console, other] {
        console.send(SessionCommand::Leave(LeaveMode::Now)).await;
    }
}

/// Allowances that a console on the folder shows, once it shows this many rows.
pub async fn allowances_shown(home: &Home, devnet: &Devnet, rows: usize) -> Vec<AllowanceState> {
    let console = Console::open(home, devnet).await;
    let all = |seen: &Seen| (seen.allowances.len() == rows).then(|| seen.allowances.clone());
    let shown = console.until("what others may take", all).await;
    console.send(SessionCommand::Leave(LeaveMode::Now)).await;
    shown
}
