//! Tests of holds and stops: their permitted changes, and that a stop waits for nothing.

use super::*;
use crate::session::lowering::lower;
use bardo_base::clock::SystemClock;
use bardo_base::id::PermitId;
use bardo_session::questions::QuestionKey;

fn stop_watch(folder: &std::path::Path) -> StopWatch {
    StopWatch::over(StopFile::in_folder(folder), Arc::new(SystemClock))
}

#[test]
fn a_stop_below_another_consoles_hold_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (stop_watch(folder.path()), stop_watch(folder.path()));
    other.hold().unwrap();
    own.choose(StopLevel::ExitOnly, "odd prices").unwrap();
    let set: Vec<_> = own.take_lower_stops().into_iter().map(|set| (set.level, set.reason.to_string())).collect();
    assert_eq!(set, [(StopLevel::ExitOnly, "odd prices".to_owned())]);
    assert_eq!(own.take_lower_stops(), [], "it is on record by then");
    // A stop that is in force itself is seen by reading the stop file.
    own.raise(StopLevel::Revoke, "a key may be stolen").unwrap();
    assert_eq!(own.take_lower_stops(), []);
}

#[test]
fn a_hold_becomes_exit_only_in_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let stop_watch = stop_watch(folder.path());
    stop_watch.hold().unwrap();
    assert_eq!(stop_watch.file.read().level(), Some(StopLevel::Halt));
    assert_eq!(stop_watch.choose(StopLevel::ExitOnly, "exits").unwrap().level(), Some(StopLevel::ExitOnly));
    assert!(stop_watch.own.borrow().is_none(), "it is no hold any more");
}

#[test]
fn a_higher_stop_from_before_the_hold_stays() {
    let folder = tempfile::tempdir().unwrap();
    let stop_watch = stop_watch(folder.path());
    stop_watch.raise(StopLevel::Flatten, "before").unwrap();
    stop_watch.hold().unwrap();
    assert_eq!(stop_watch.choose(StopLevel::ExitOnly, "exits").unwrap().level(), Some(StopLevel::Flatten));
}

#[test]
fn a_hold_that_became_a_halt_cannot_be_released() {
    let folder = tempfile::tempdir().unwrap();
    let stop_watch = stop_watch(folder.path());
    stop_watch.hold().unwrap();
    stop_watch.choose(StopLevel::Halt, "halt").unwrap();
    assert!(stop_watch.own.borrow().is_none());
    assert_eq!(stop_watch.file.read().level(), Some(StopLevel::Halt));
}

#[test]
fn a_halt_of_another_process_is_not_lowered_by_a_choice() {
    let folder = tempfile::tempdir().unwrap();
    let stop_watch = stop_watch(folder.path());
    stop_watch.hold().unwrap();
    stop_watch.file.raise(StopLevel::Revoke, "another terminal", "somebody", 1).unwrap();
    assert_eq!(stop_watch.choose(StopLevel::ExitOnly, "exits").unwrap().level(), Some(StopLevel::Revoke));
}

#[test]
fn a_halt_set_over_a_hold_survives_its_release() {
    let folder = tempfile::tempdir().unwrap();
    let stop_watch = stop_watch(folder.path());
    stop_watch.hold().unwrap();
    stop_watch.hold().unwrap();
    stop_watch.file.raise(StopLevel::Halt, "a key may be stolen", "somebody", 1).unwrap();
    assert!(stop_watch.release().is_err());
    let ActiveStop::Stop(stop) = stop_watch.file.read() else { panic!() };
    assert_eq!((stop.level, stop.by.as_str(), stop.over), (StopLevel::Halt, "somebody", None));
}

#[test]
fn each_console_releases_only_its_own_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (stop_watch(folder.path()), stop_watch(folder.path()));
    one.hold().unwrap();
    other.hold().unwrap();
    assert!(one.release().is_err(), "the other one still holds");
    assert_eq!(one.file.read().level(), Some(StopLevel::Halt));
    other.release().unwrap();
    assert_eq!(one.file.read().level(), Some(StopLevel::Halt), "the first still holds");
    one.release().unwrap();
    assert_eq!(one.file.read(), ActiveStop::None);
}

#[test]
fn a_stop_below_another_consoles_hold_stays_when_the_hold_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (stop_watch(folder.path()), stop_watch(folder.path()));
    one.hold().unwrap();
    assert_eq!(other.choose(StopLevel::ExitOnly, "odd prices").unwrap().level(), Some(StopLevel::Halt));
    one.release().unwrap();
    assert_eq!(one.file.read().level(), Some(StopLevel::ExitOnly));
    // By a console that itself holds, over the other's hold.
    lower(folder.path(), None, 1);
    one.hold().unwrap();
    other.hold().unwrap();
    assert_eq!(other.choose(StopLevel::ExitOnly, "odd prices").unwrap().level(), Some(StopLevel::Halt));
    one.release().unwrap();
    assert_eq!(one.file.read().level(), Some(StopLevel::ExitOnly));
}

#[test]
fn a_hold_below_another_remains_its_consoles_own_after_a_choice() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (stop_watch(folder.path()), stop_watch(folder.path()));
    one.hold().unwrap();
    other.hold().unwrap();
    assert_eq!(one.choose(StopLevel::ExitOnly, "odd prices").unwrap().level(), Some(StopLevel::Halt));
    other.release().unwrap();
    one.release().unwrap();
    assert_eq!(one.file.read().level(), Some(StopLevel::ExitOnly));
}

#[test]
fn a_chosen_stop_is_not_lower_than_one_set_below_the_hold() {
    let folder = tempfile::tempdir().unwrap();
    let stop_watch = stop_watch(folder.path());
    stop_watch.hold().unwrap();
    stop_watch.file.raise(StopLevel::ExitOnly, "odd prices", "somebody", 1).unwrap();
    let chosen = stop_watch.choose(StopLevel::Pause, "lunch").unwrap();
    assert_eq!((chosen.level(), stop_watch.own.borrow().is_none()), (Some(StopLevel::ExitOnly), true));
}

#[test]
fn a_stop_that_cannot_be_set_now_can_be_set_later() {
    let folder = tempfile::tempdir().unwrap();
    let stop_watch = stop_watch(folder.path());
    stop_watch.hold().unwrap();
    let lock = std::fs::File::open(stop_watch.file.path().with_extension("lock")).unwrap();
    lock.lock().unwrap();
    assert!(stop_watch.choose(StopLevel::ExitOnly, "exits").is_err());
    assert_eq!(stop_watch.file.read().level(), Some(StopLevel::Halt));
    drop(lock);
    assert_eq!(stop_watch.choose(StopLevel::ExitOnly, "exits").unwrap().level(), Some(StopLevel::ExitOnly));
}

/// Creates a front whose queue and messages nobody reads.
fn deaf(
    folder: &std::path::Path,
    watch_only: bool,
) -> (mpsc::Sender<AddressedCommand>, mpsc::Receiver<AddressedCommand>, StopFile) {
    let (commands, arriving) = mpsc::channel(8);
    let (on, queue) = mpsc::channel(1);
    let (news, unheard) = mpsc::channel(1);
    // Kept open and never read, like a console that hangs.
    std::mem::forget(unheard);
    let front = CommandFront { stop_watch: stop_watch(folder), watch_only, golem_id: "ada".parse().unwrap() };
    tokio::spawn(front.receive_commands(arriving, on, news));
    (commands, queue, StopFile::in_folder(folder))
}

fn sent(command: SessionCommand) -> AddressedCommand {
    AddressedCommand { golem_id: GolemId::operator(), command }
}

async fn level_within(file: &StopFile, wanted: Option<StopLevel>) -> bool {
    for _ in 0..1_000 {
        if file.read().level() == wanted {
            return true;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test]
async fn a_stop_waits_neither_for_the_session_nor_for_the_console() {
    let folder = tempfile::tempdir().unwrap();
    let (commands, mut queue, file) = deaf(folder.path(), false);
    for _ in 0..4 {
        commands.send(sent(SessionCommand::Step)).await.unwrap();
    }
    commands.send(sent(SessionCommand::Hold)).await.unwrap();
    assert!(level_within(&file, Some(StopLevel::Halt)).await, "nobody reads the queue, and it is held all the same");
    commands.send(sent(SessionCommand::ReleaseHold)).await.unwrap();
    assert!(level_within(&file, None).await);
    let reason = SafeText::clean("no", 10);
    let answer = OperatorAnswer::RefuseAndStop { reason };
    let key = QuestionKey::Action(PermitId::random());
    commands
        .send(sent(SessionCommand::Answer { key, answer, confirmation: Default::default(), password: None }))
        .await
        .unwrap();
    assert!(level_within(&file, Some(StopLevel::Halt)).await, "the stop in a refusal does not wait either");
    assert_eq!(queue.recv().await, Some(sent(SessionCommand::Step)), "what does not stop is carried out in its order");
}

#[tokio::test]
async fn a_read_only_console_can_only_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (commands, mut queue, file) = deaf(folder.path(), true);
    commands.send(sent(SessionCommand::Hold)).await.unwrap();
    assert!(level_within(&file, Some(StopLevel::Halt)).await, "the stop that every session of the folder obeys");
    commands.send(sent(SessionCommand::ReleaseHold)).await.unwrap();
    assert!(level_within(&file, None).await, "its own hold");
    let raise = SessionCommand::Raise { level: StopLevel::Halt, reason: SafeText::clean("smoke", 10) };
    commands.send(sent(raise)).await.unwrap();
    assert!(level_within(&file, Some(StopLevel::Halt)).await);
    commands.send(sent(SessionCommand::ReleaseHold)).await.unwrap();
    commands.send(sent(SessionCommand::EnterPaper)).await.unwrap();
    assert_eq!(queue.recv().await, Some(sent(SessionCommand::EnterPaper)), "the session says why not");
    assert_eq!(file.read().level(), Some(StopLevel::Halt), "what was chosen stays");
}

/// A rejection with a stop must be known before the stop: otherwise its request would be withdrawn without a comment.
#[tokio::test]
async fn a_rejection_that_stops_is_received_before_its_stop() {
    let folder = tempfile::tempdir().unwrap();
    let stop_watch = stop_watch(folder.path());
    let front = CommandFront { stop_watch: stop_watch.clone(), watch_only: false, golem_id: "ada".parse().unwrap() };
    let (permit, reason) = (PermitId::random(), SafeText::clean("not today", 20));
    let refuse = |key, reason: &SafeText| {
        sent(SessionCommand::Answer {
            key,
            answer: OperatorAnswer::RefuseAndStop { reason: reason.clone() },
            confirmation: Default::default(),
            password: None,
        })
    };
    assert!(front.stops(&refuse(QuestionKey::Action(permit), &reason)).is_none(), "it goes on for its answer");
    assert_eq!(stop_watch.file.read().level(), Some(StopLevel::Halt));
    assert_eq!(stop_watch.take_refusals(), [(permit, reason.clone())]);
    assert_eq!(stop_watch.take_refusals(), [], "once");
    front.stops(&refuse(QuestionKey::Own(1), &reason));
    assert_eq!(stop_watch.take_refusals(), [], "no action is refused by it");
    let watching = CommandFront { watch_only: true, ..front };
    watching.stops(&refuse(QuestionKey::Action(permit), &reason));
    assert_eq!(stop_watch.take_refusals(), [], "whoever watches refuses nothing");
}
