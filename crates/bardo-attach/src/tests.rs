//! A served session and its consoles over a real socket. The session behind it is the test's own end of a handle.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::place::{Place, PlaceError};
use super::wire::{FromConsole, MAX_FROM_CONSOLE, Rights};
use super::{AttachError, Connection, serve};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::model::StopLevel;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_session::envelope::{CallStatus, ToolResponse};
use bardo_session::handle::{
    AddressedCommand, COMMANDS_WAITING, LeaveMode, QueryResult, SessionCommand, SessionEnd, SessionHandle, SessionLeft,
    SessionNews, SessionQuery, SessionSummary,
};
use bardo_session::market::{BlockRow, ChainSnapshot, MarketUpdate, MoneyKind};
use bardo_session::questions::{Confirmation, OperatorAnswer, Question, QuestionKey, RequestSubject};

/// A served session, and the test's end of it.
struct Served {
    place: Place,
    session: SessionEnd,
    ends: mpsc::Sender<LeaveMode>,
    served: tokio::task::JoinHandle<Option<Box<SessionSummary>>>,
    _data: tempfile::TempDir,
}

impl Served {
    fn begin() -> Self {
        let data = tempfile::tempdir().unwrap();
        let place = Place::in_data(data.path());
        let serving = place.clone().serve().unwrap();
        let (handle, session) = SessionHandle::pair();
        let (ends, ending) = mpsc::channel(1);
        let served = tokio::spawn(serve(serving, handle, ending, None));
        Self { place, session, ends, served, _data: data }
    }

    async fn attach(&self, rights: Rights) -> SessionHandle {
        let place = self.place.clone();
        let connection = tokio::task::spawn_blocking(move || Connection::open(&place, rights)).await.unwrap().unwrap();
        connection.into_handle().unwrap()
    }

    async fn tell(&self, news: SessionNews) {
        self.session.news.send(news).await.unwrap();
    }

    async fn command(&mut self) -> SessionCommand {
        timeout(WAIT, self.session.commands.recv()).await.unwrap().unwrap().command
    }

    /// True if no command has reached the session.
    fn is_quiet(&mut self) -> bool {
        self.session.commands.try_recv().is_err()
    }

    /// A connection without a greeting.
    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.place.socket()).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream
    }
}

const WAIT: Duration = Duration::from_secs(30);

async fn heard(handle: &mut SessionHandle) -> SessionNews {
    timeout(WAIT, handle.news.recv()).await.unwrap().unwrap()
}

async fn send(handle: &SessionHandle, command: SessionCommand) {
    handle.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
}

fn said(words: &str) -> SessionNews {
    SessionNews::CommandResult { done: true, words: SafeText::clean(words, 100) }
}

fn chain(numbers: &[u64]) -> SessionNews {
    let row = |number: &u64| BlockRow {
        number: *number,
        timestamp: *number,
        base_fee_wei: u128::MAX,
        gas_used: 1,
        gas_limit: 2,
        transactions: 0,
    };
    SessionNews::Market(MarketUpdate::Chain(Box::new(ChainSnapshot {
        chain: 0,
        blocks: numbers.iter().map(row).collect(),
        tokens: Vec::new(),
        pools: Vec::new(),
        balances: Vec::new(),
        positions: Vec::new(),
        lending: None,
        activity: Vec::new(),
    })))
}

fn numbers(news: &SessionNews) -> Vec<u64> {
    let SessionNews::Market(MarketUpdate::Chain(snapshot)) = news else { panic!("{news:?}") };
    snapshot.blocks.iter().map(|block| block.number).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_console_is_told_the_present_state_and_then_what_follows() {
    let served = Served::begin();
    let mut first = served.attach(Rights::Operate).await;
    served.tell(chain(&[1, 2, 3])).await;
    assert_eq!(numbers(&heard(&mut first).await), [1, 2, 3]);
    served.tell(SessionNews::Questions(Default::default())).await;
    assert!(matches!(heard(&mut first).await, SessionNews::Questions(_)));
    // Block 3 is replaced and not repeated.
    served.tell(chain(&[3, 4])).await;
    assert_eq!(numbers(&heard(&mut first).await), [3, 4]);
    let mut later = served.attach(Rights::Watch).await;
    assert_eq!(numbers(&heard(&mut later).await), [1, 2, 3, 4]);
    assert!(matches!(heard(&mut later).await, SessionNews::Questions(_)));
    served.tell(said("to all")).await;
    assert_eq!(heard(&mut first).await, said("to all"));
    assert_eq!(heard(&mut later).await, said("to all"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_reaches_the_console_that_asked_under_its_own_ticket() {
    let mut served = Served::begin();
    let (mut one, mut other) = (served.attach(Rights::Operate).await, served.attach(Rights::Watch).await);
    // Both use the same ticket, as two consoles do.
    let query = || SessionCommand::Look { ticket: 7, query: SessionQuery::VerifyAudit };
    send(&one, query()).await;
    let SessionCommand::Look { ticket: of_one, .. } = served.command().await else { panic!() };
    send(&other, query()).await;
    let SessionCommand::Look { ticket: of_other, .. } = served.command().await else { panic!() };
    assert_ne!(of_one, of_other);
    let found = |why: &str| Box::new(QueryResult::Nothing { why: SafeText::clean(why, 40) });
    served.tell(SessionNews::Found { ticket: of_other, found: found("other") }).await;
    served.tell(SessionNews::Found { ticket: of_one, found: found("one") }).await;
    // A second reply under a used ticket belongs to nobody.
    served.tell(SessionNews::Found { ticket: of_one, found: found("again") }).await;
    served.tell(said("end")).await;
    assert_eq!(heard(&mut one).await, SessionNews::Found { ticket: 7, found: found("one") });
    assert_eq!(heard(&mut one).await, said("end"));
    assert_eq!(heard(&mut other).await, SessionNews::Found { ticket: 7, found: found("other") });
    assert_eq!(heard(&mut other).await, said("end"));
}

/// An offer comes after the preview's reply, and its result in a second reply.
#[tokio::test(flavor = "multi_thread")]
async fn an_offer_and_its_result_reach_the_console_that_asked() {
    let mut served = Served::begin();
    let (mut one, mut other) = (served.attach(Rights::Operate).await, served.attach(Rights::Operate).await);
    let call_id = CallId::new(1);
    let reply = |ticket| {
        let error = ToolError::new(ErrorCode::ValidationFailed, "no");
        let response = Box::new(ToolResponse::failed(call_id, CallStatus::Error, error));
        SessionNews::Reply { ticket, response }
    };
    let offered = |ticket| SessionNews::Offered { ticket, question: Box::new(question()) };
    let mut tickets = Vec::new();
    // More offers than a console may keep: the oldest ends.
    for own in 0..9 {
        send(&one, SessionCommand::Offer { ticket: own, tool: "swap".into(), params: serde_json::json!({}) }).await;
        let SessionCommand::Offer { ticket, .. } = served.command().await else { panic!() };
        served.tell(reply(ticket)).await;
        assert_eq!(heard(&mut one).await, reply(own));
        served.tell(offered(ticket)).await;
        assert_eq!(heard(&mut one).await, offered(own));
        tickets.push(ticket);
    }
    served.tell(reply(tickets[0])).await;
    served.tell(reply(tickets[8])).await;
    assert_eq!(heard(&mut one).await, reply(8));
    // The result is the last of it.
    served.tell(reply(tickets[8])).await;
    served.tell(said("end")).await;
    assert_eq!(heard(&mut one).await, said("end"));
    assert_eq!(heard(&mut other).await, said("end"));
}

fn question() -> Question {
    Question {
        key: QuestionKey::Own(1),
        number: 1,
        golem_id: GolemId::operator(),
        call_id: None,
        place: 1,
        of: 1,
        title: SafeText::clean("Leave paper", 20),
        value: None,
        money: MoneyKind::Play,
        asked_at: 0,
        ends_at: None,
        passes_by_itself: false,
        needs_password: false,
        reasons: vec![],
        changed: vec![],
        revision: 0,
        second: None,
        to_read: vec![],
        confirm: None,
        answers: vec![],
        about: RequestSubject::LeavePaper,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_and_losing_the_connection_detach_and_the_session_goes_on() {
    let mut served = Served::begin();
    let mut left = served.attach(Rights::Operate).await;
    send(&left, SessionCommand::Leave(LeaveMode::CancelOrders)).await;
    let SessionNews::Left(summary) = heard(&mut left).await else { panic!() };
    assert_eq!(summary.left, SessionLeft::Detached);
    let lost = served.attach(Rights::Operate).await;
    drop(lost);
    let mut again = served.attach(Rights::Operate).await;
    served.tell(said("still here")).await;
    assert_eq!(heard(&mut again).await, said("still here"));
    assert!(served.is_quiet(), "no console has ended the session");
    // The process itself is to end: the session is asked, and reports when it has.
    served.ends.send(LeaveMode::Finish).await.unwrap();
    assert_eq!(served.command().await, SessionCommand::Leave(LeaveMode::Finish));
    let summary = SessionSummary { trades: 3, ..SessionSummary::default() };
    served.tell(SessionNews::Left(Box::new(summary.clone()))).await;
    assert_eq!(heard(&mut again).await, SessionNews::Left(Box::new(summary.clone())));
    assert_eq!(timeout(WAIT, served.served).await.unwrap().unwrap().as_deref(), Some(&summary));
    assert!(!served.place.socket().exists());
    assert!(matches!(Connection::open(&served.place, Rights::Watch), Err(AttachError::Place(PlaceError::NotServed))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watching_console_may_stop_signing_and_nothing_else() {
    let mut served = Served::begin();
    let mut watching = served.attach(Rights::Watch).await;
    let raise = SessionCommand::Raise { level: StopLevel::Halt, reason: SafeText::clean("seen", 20) };
    for command in [SessionCommand::Hold, raise] {
        send(&watching, command.clone()).await;
        assert_eq!(served.command().await, command);
    }
    let key = QuestionKey::Action(PermitId::random());
    let answer = SessionCommand::Answer {
        key,
        answer: OperatorAnswer::Once,
        confirmation: Confirmation::default(),
        password: None,
    };
    let say = SessionCommand::Say { words: SafeText::clean("buy", 20) };
    let lower = SessionCommand::AskToLower { level: None };
    // Levels that do more than stop: they sell holdings, or end session keys for good.
    let [sell, revoke] = [StopLevel::Flatten, StopLevel::Revoke]
        .map(|level| SessionCommand::Raise { level, reason: SafeText::clean("seen", 20) });
    let others = [SessionCommand::ReleaseHold, SessionCommand::EnterPaper, SessionCommand::Step];
    // Not even a hold is released by it: an operator may have set it.
    for command in [answer, say, lower, sell, revoke].into_iter().chain(others) {
        send(&watching, command).await;
        let SessionNews::CommandResult { done, words } = heard(&mut watching).await else { panic!() };
        assert!(!done && words.as_str().contains("read-only"), "{words}");
    }
    assert!(served.is_quiet());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_arrives_with_its_answer_and_stands_nowhere_else() {
    let mut served = Served::begin();
    let console = served.attach(Rights::Operate).await;
    let key = QuestionKey::Action(PermitId::random());
    let answer = SessionCommand::Answer {
        key,
        answer: OperatorAnswer::Once,
        confirmation: Confirmation::default(),
        password: Some(Password::new("correct \"horse\"\n".to_owned())),
    };
    send(&console, answer.clone()).await;
    assert_eq!(served.command().await, answer);
    assert!(!serde_json::to_string(&answer).unwrap().contains("horse"));
    let command = FromConsole { sent: AddressedCommand { golem_id: GolemId::operator(), command: answer } };
    assert!(!format!("{command:?}").contains("horse"));
    let beside = command.to_line().unwrap().replace("\"do\":\"answer\"", "\"do\":\"hold\"");
    assert!(FromConsole::parse(&beside).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_learn_nothing_and_hold_nothing_up() {
    let mut served = Served::begin();
    served.tell(chain(&[1])).await;
    let mut console = served.attach(Rights::Operate).await;
    assert_eq!(numbers(&heard(&mut console).await), [1]);
    let token = served.place.token().unwrap().to_string();
    let other = match token.strip_prefix('0') {
        Some(rest) => format!("1{rest}"),
        None => format!("0{}", &token[1..]),
    };
    let hello =
        |token: &str, version: u32| format!("{{\"bardo\":{version},\"token\":\"{token}\",\"rights\":\"operate\"}}\n");
    let hold = "{\"sent\":{\"golem_id\":\"operator\",\"command\":{\"do\":\"hold\"}}}\n";
    for (first, why) in [
        (hello(&other, 1), "token"),
        (hello(&token[..63], 1), "token"),
        (hello("", 1), "token"),
        (hello(&token, 2), "version"),
        (hold.to_owned(), "greeting"),
        ("GET / HTTP/1.1\n".to_owned(), "greeting"),
        ("\u{1b}[2J\n".to_owned(), "greeting"),
    ] {
        let mut raw = served.raw();
        raw.write_all(format!("{first}{hold}").as_bytes()).unwrap();
        let mut answer = String::new();
        // The connection ends after the refusal, or with it.
        let _reset = raw.read_to_string(&mut answer);
        assert!(answer.contains("refused") && answer.contains(why) && answer.lines().count() == 1, "{answer:?}");
        assert!(!answer.contains(&token), "{answer:?}");
    }
    // A line without an end, and one in the middle of which the stranger leaves.
    let mut raw = served.raw();
    let long = vec![b'x'; usize::try_from(MAX_FROM_CONSOLE).unwrap() + 1];
    let _refused = raw.write_all(&long);
    let mut answer = String::new();
    let _reset = raw.read_to_string(&mut answer);
    assert!(!answer.contains("welcome"), "{answer}");
    drop(served.raw());
    // Nonsense after the greeting ends that connection only.
    let mut raw = served.raw();
    raw.write_all(format!("{}{{\"do\":\"everything\"}}\n", hello(&token, 1)).as_bytes()).unwrap();
    let mut reading = BufReader::new(raw);
    let mut line = String::new();
    reading.read_line(&mut line).unwrap();
    assert!(line.contains("welcome"), "{line}");
    let _reset = reading.read_to_string(&mut line);
    assert!(served.is_quiet());
    served.tell(said("unharmed")).await;
    assert_eq!(heard(&mut console).await, said("unharmed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_that_does_not_read_is_detached_and_the_others_go_on() {
    let served = Served::begin();
    let token = served.place.token().unwrap().to_string();
    let mut stuck = served.raw();
    stuck.write_all(format!("{{\"bardo\":1,\"token\":\"{token}\",\"rights\":\"watch\"}}\n").as_bytes()).unwrap();
    let mut console = served.attach(Rights::Operate).await;
    // More than the socket's buffer and the hub's queue hold.
    let long = said(&"x".repeat(100));
    let text = "y".repeat(4_000);
    for number in 0..1_500_u32 {
        let found = SessionNews::Market(MarketUpdate::Fault {
            chain: None,
            message: SafeText::clean(&format!("{number}{text}"), 5_000),
        });
        served.tell(if number % 2 == 0 { found } else { long.clone() }).await;
        heard(&mut console).await;
    }
    served.tell(said("end")).await;
    assert_eq!(heard(&mut console).await, said("end"));
    // The greeting and some lines are still in its buffer, and then the connection ends.
    let mut rest = Vec::new();
    let ended = stuck.read_to_end(&mut rest);
    assert!(ended.is_err() || !rest.ends_with(b"end\"}}\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_owner_finds_the_session_and_only_one_is_served() {
    let served = Served::begin();
    let folder = served.place.socket().parent().unwrap().to_owned();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for name in ["session.sock", "token", "lock"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
    assert!(matches!(served.place.clone().serve(), Err(PlaceError::Served)));
    assert!(served.place.is_served());
    // Files of a killed process are not a session: the next one takes its place, with another token.
    let data = tempfile::tempdir().unwrap();
    let place = Place::in_data(data.path());
    assert!(matches!(Connection::open(&place, Rights::Watch), Err(AttachError::Place(PlaceError::NotServed))));
    let first = place.clone().serve().unwrap();
    let token = place.token().unwrap();
    std::mem::drop(first);
    std::fs::write(place.socket(), "left behind").unwrap();
    let _second = place.clone().serve().unwrap();
    assert_ne!(place.token().unwrap(), token);
    let long = Place::in_data(&data.path().join("x".repeat(120)));
    assert!(matches!(long.serve(), Err(PlaceError::TooLong { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_detaches_at_once_arrives_whatever_the_session_has_to_say() {
    let mut served = Served::begin();
    // More news than the socket holds: they cannot all be written before the command is read.
    for chain in 0..200 {
        let SessionNews::Market(MarketUpdate::Chain(mut snapshot)) = chain_of(chain) else { panic!() };
        snapshot.chain = usize::try_from(chain).unwrap();
        served.tell(SessionNews::Market(MarketUpdate::Chain(snapshot))).await;
    }
    let mut console = served.attach(Rights::Watch).await;
    heard(&mut console).await;
    for _ in 0..10 {
        let place = served.place.clone();
        let sent =
            AddressedCommand { golem_id: GolemId::operator(), command: SessionCommand::Leave(LeaveMode::Finish) };
        let sending = move || Connection::open(&place, Rights::Operate).unwrap().send(&FromConsole { sent });
        tokio::task::spawn_blocking(sending).await.unwrap().unwrap();
        assert_eq!(served.command().await, SessionCommand::Leave(LeaveMode::Finish));
    }
}

fn chain_of(number: u64) -> SessionNews {
    chain(&(number..number + 200).collect::<Vec<_>>())
}

#[test]
fn a_leave_is_read_as_it_was_written() {
    let command = FromConsole {
        sent: AddressedCommand { golem_id: GolemId::operator(), command: SessionCommand::Leave(LeaveMode::Finish) },
    };
    let line = command.to_line().unwrap();
    let read = FromConsole::parse(line.trim_end()).unwrap();
    assert_eq!(read.sent, command.sent, "{}", *line);
}

/// A program that controls the folder could serve a session of their own there.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_may_be_anothers_is_not_trusted() {
    let served = Served::begin();
    let folder = served.place.socket().parent().unwrap().to_owned();
    let refused = |place: &Place| {
        assert!(place.is_served(), "a plain console must not begin beside it in silence");
        let why = Connection::open(place, Rights::Operate).unwrap_err().to_string();
        assert!(why.contains("not trusted"), "{why}");
    };
    // A link to a served place.
    let data = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&folder, data.path().join("serve")).unwrap();
    refused(&Place::in_data(data.path()));
    // A folder that others can enter.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    refused(&served.place);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let place = served.place.clone();
    tokio::task::spawn_blocking(move || Connection::open(&place, Rights::Operate).map(drop)).await.unwrap().unwrap();
    // A token or a lock that leads elsewhere.
    for name in ["token", "lock"] {
        let (own, kept) = (folder.join(name), folder.join("kept"));
        std::fs::rename(&own, &kept).unwrap();
        std::os::unix::fs::symlink(&kept, &own).unwrap();
        assert!(served.place.token().is_err(), "{name}");
        std::fs::remove_file(&own).unwrap();
        std::fs::rename(&kept, &own).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_console_floods_the_session_or_the_others() {
    let mut served = Served::begin();
    let token = served.place.token().unwrap().to_string();
    let mut console = served.attach(Rights::Operate).await;
    let mut flood = served.raw();
    let hold = "{\"sent\":{\"golem_id\":\"operator\",\"command\":{\"do\":\"hold\"}}}\n".repeat(500);
    let _ended =
        flood.write_all(format!("{{\"bardo\":1,\"token\":\"{token}\",\"rights\":\"watch\"}}\n{hold}").as_bytes());
    let mut rest = Vec::new();
    let _reset = flood.read_to_end(&mut rest);
    // The hub has all that was taken of it before it has the next command.
    send(&console, SessionCommand::Step).await;
    let mut taken = 0;
    while served.command().await != SessionCommand::Step {
        taken += 1;
    }
    assert!((1..=50).contains(&taken), "{taken}");
    // Queries beyond those that wait for an answer are refused, and answered ones make room.
    for ticket in 0..9 {
        send(&console, SessionCommand::Look { ticket, query: SessionQuery::VerifyAudit }).await;
    }
    let SessionNews::CommandResult { done: false, words } = heard(&mut console).await else { panic!() };
    assert!(words.as_str().contains("too many replies"), "{words}");
    let SessionCommand::Look { ticket, .. } = served.command().await else { panic!() };
    let found = Box::new(QueryResult::Nothing { why: SafeText::clean("none", 10) });
    served.tell(SessionNews::Found { ticket, found }).await;
    assert!(matches!(heard(&mut console).await, SessionNews::Found { ticket: 0, .. }));
    send(&console, SessionCommand::Look { ticket: 9, query: SessionQuery::VerifyAudit }).await;
    for _ in 0..8 {
        assert!(matches!(served.command().await, SessionCommand::Look { .. }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_without_a_greeting_take_no_consoles_place() {
    let served = Served::begin();
    let silent: Vec<UnixStream> = (0..40).map(|_| served.raw()).collect();
    let mut consoles = Vec::new();
    for _ in 0..16 {
        consoles.push(served.attach(Rights::Watch).await);
    }
    let place = served.place.clone();
    let attach = move || Connection::open(&place, Rights::Watch).map(drop).map_err(|error| error.to_string());
    let refused = tokio::task::spawn_blocking(attach.clone()).await.unwrap().unwrap_err();
    assert!(refused.contains("too many consoles are attached"), "{refused}");
    // Its place is free again as soon as the session has noticed that a console left.
    consoles.pop();
    let freed = async {
        while tokio::task::spawn_blocking(attach.clone()).await.unwrap().is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(WAIT, freed).await.unwrap();
    drop(silent);
}

/// Connections that say nothing cannot keep a console out, however many there are: the oldest of them gives way.
#[tokio::test(flavor = "multi_thread")]
async fn a_console_is_let_in_at_once_among_silent_connections() {
    let served = Served::begin();
    let mut silent: Vec<UnixStream> = (0..200).map(|_| served.raw()).collect();
    let begun = std::time::Instant::now();
    let _console = served.attach(Rights::Watch).await;
    // Their own time is two seconds.
    assert!(begun.elapsed() < Duration::from_millis(1_500), "{:?}", begun.elapsed());
    let mut refusal = String::new();
    silent[0].set_read_timeout(Some(WAIT)).unwrap();
    std::io::Read::read_to_string(&mut silent[0], &mut refusal).unwrap();
    assert!(refusal.contains("too many connections wait"), "{refusal}");
}

#[test]
fn a_greeting_in_pieces_gets_one_deadline_for_all_of_them() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let trickle = std::thread::spawn(move || {
        // Ends when the console has given up.
        for _ in 0..250 {
            if theirs.write_all(b" ").is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let failed = |error| AttachError::Connection { socket: "it".to_owned(), error };
    let error = Connection::greeted(ours, Duration::from_millis(300), failed).unwrap_err().to_string();
    assert!(error.contains("no greeting came within 0.3 s"), "{error}");
    trickle.join().unwrap();
    // A greeting in two pieces, and what comes with it.
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let answer = std::thread::spawn(move || {
        theirs.write_all(b"{\"welcome\":{\"rig").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        theirs.write_all(b"hts\":\"watch\"}}\nmore").unwrap();
    });
    let connection = Connection::greeted(ours, WAIT, failed).unwrap();
    answer.join().unwrap();
    let mut copied = Vec::new();
    connection.copy(std::io::empty(), &mut copied).unwrap();
    assert!(copied.ends_with(b"\nmore"), "{}", String::from_utf8_lossy(&copied));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_console_is_bounded_by_its_bytes() {
    let served = Served::begin();
    let token = served.place.token().unwrap().to_string();
    let mut stuck = served.raw();
    stuck.write_all(format!("{{\"bardo\":1,\"token\":\"{token}\",\"rights\":\"watch\"}}\n").as_bytes()).unwrap();
    let mut console = served.attach(Rights::Operate).await;
    // 60 lines of half a megabyte: fewer than the queue holds, and more bytes than it may.
    let chain = chain(&(0..4_000).collect::<Vec<_>>());
    for _ in 0..60 {
        served.tell(chain.clone()).await;
        heard(&mut console).await;
    }
    stuck.set_read_timeout(Some(WAIT)).unwrap();
    let mut rest = Vec::new();
    let ended = stuck.read_to_end(&mut rest);
    assert!(ended.is_err() || rest.len() < 24 << 20, "{ended:?} after {} bytes", rest.len());
}

/// A busy session drops what consoles send beyond its room, but never the request to end: nobody repeats that.
#[tokio::test(flavor = "multi_thread")]
async fn the_request_to_end_reaches_a_busy_session() {
    let mut served = Served::begin();
    for _ in 0..2 {
        let mut console = served.attach(Rights::Operate).await;
        for _ in 0..40 {
            send(&console, SessionCommand::Hold).await;
        }
        // Its last command has arrived once a later one is answered.
        send(&console, SessionCommand::Look { ticket: 1, query: SessionQuery::VerifyAudit }).await;
        drop(timeout(Duration::from_millis(500), console.news.recv()).await);
    }
    let place = served.place.clone();
    let command = SessionCommand::Leave(LeaveMode::Finish);
    let sent = AddressedCommand { golem_id: GolemId::operator(), command: command.clone() };
    let asking = tokio::task::spawn_blocking(move || {
        Connection::open(&place, Rights::Operate).unwrap().send(&FromConsole { sent }).unwrap();
    });
    asking.await.unwrap();
    let mut before = 0;
    while served.command().await != command {
        before += 1;
    }
    assert_eq!(before, COMMANDS_WAITING, "as many as the session has room for");
}
