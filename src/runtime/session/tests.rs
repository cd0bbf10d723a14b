//! What a hold may become, and what it may not.

use super::*;

fn brake(folder: &std::path::Path) -> Brake {
    Brake { file: StopFile::in_folder(folder), clock: Arc::new(SystemClock), own: watch::Sender::new(None) }
}

#[test]
fn a_hold_becomes_exits_only_in_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let brake = brake(folder.path());
    brake.hold().unwrap();
    assert_eq!(brake.file.read().level(), Some(StopLevel::Halt));
    assert_eq!(brake.choose(StopLevel::ExitOnly, "exits").unwrap().level(), Some(StopLevel::ExitOnly));
    assert!(brake.own.borrow().is_none(), "it is no hold any more");
}

#[test]
fn what_was_higher_before_the_hold_stays() {
    let folder = tempfile::tempdir().unwrap();
    let brake = brake(folder.path());
    brake.raise(StopLevel::Flatten, "before").unwrap();
    brake.hold().unwrap();
    assert_eq!(brake.choose(StopLevel::ExitOnly, "exits").unwrap().level(), Some(StopLevel::Flatten));
}

#[test]
fn a_hold_that_became_a_halt_is_not_released_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let brake = brake(folder.path());
    brake.hold().unwrap();
    brake.choose(StopLevel::Halt, "halt").unwrap();
    assert!(brake.own.borrow().is_none());
    assert_eq!(brake.file.read().level(), Some(StopLevel::Halt));
}

#[test]
fn somebody_elses_halt_is_not_lowered_by_a_choice() {
    let folder = tempfile::tempdir().unwrap();
    let brake = brake(folder.path());
    brake.hold().unwrap();
    brake.file.raise(StopLevel::Revoke, "another terminal", "somebody", 1).unwrap();
    assert_eq!(brake.choose(StopLevel::ExitOnly, "exits").unwrap().level(), Some(StopLevel::Revoke));
}
