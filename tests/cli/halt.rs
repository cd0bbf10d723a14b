use bardo::base::model::StopLevel;
use bardo::safety::stop::StopFile;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{bardo, run};

#[test]
fn halting_works_at_once_and_resuming_needs_a_terminal() {
    let home = tempfile::tempdir().unwrap();
    let json = |arguments: &[&str]| {
        let (out, err, code) = run(bardo(home.path()).args(arguments).arg("--json"));
        assert_eq!((err.as_str(), code), ("", 0), "{arguments:?}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let first = json(&["halt", "--level", "exit-only", "--reason", "odd prices"]);
    assert_eq!((first["level"].as_str(), first["stop"]["reason"].as_str()), (Some("exit-only"), Some("odd prices")));
    let file = home.path().join("data/STOP");
    assert_eq!(first["file"].as_str(), file.to_str());
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written, first["stop"]);
    assert_eq!(json(&["halt", "--level", "pause"])["level"], "exit-only");
    assert_eq!(json(&["halt"])["level"], "halt");

    // Without a terminal nothing is lowered.
    let (out, err, code) = run(bardo(home.path()).arg("resume").write_stdin("resume\n"));
    assert_eq!((out.as_str(), code), ("", 3));
    assert!(err.contains("needs your approval on a terminal"), "{err}");
    assert!(file.exists());
    std::fs::write(&file, "no stop at all").unwrap();
    assert_eq!(json(&["halt", "--level", "exit-only"])["level"], "halt");
    // Removing the file does not lift it.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(json(&["halt", "--level", "exit-only"])["level"], "halt");
    let (_, err, code) = run(bardo(home.path()).arg("resume"));
    assert!(code == 3 && err.contains("removed or replaced"), "{err}");
}

#[test]
fn a_halt_works_with_a_broken_configuration() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), "nonsense = 1\n").unwrap();
    let (_, err, code) = run(bardo(home.path()).args(["halt"]));
    assert_eq!(code, 0);
    assert!(err.contains("set the stop there too"), "{err}");
    assert!(home.path().join("data/STOP").exists());
}

/// Answers `bardo resume` on a terminal; returns the exit code.
#[cfg(unix)]
fn resume_on_a_terminal(home: &std::path::Path, answer: &str) -> u32 {
    use std::io::{Read, Write};

    use portable_pty::{CommandBuilder, PtySize, native_pty_system};

    let pty = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env_clear();
    command.env("BARDO_HOME", home);
    command.arg("resume");
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut screen = pty.master.try_clone_reader().unwrap();
    pty.master.take_writer().unwrap().write_all(answer.as_bytes()).unwrap();
    // Read to its end, so that a full terminal never blocks the program; on Linux a closed terminal is an error.
    let mut shown = Vec::new();
    let _ended = screen.read_to_end(&mut shown);
    child.wait().unwrap().exit_code()
}

#[cfg(unix)]
#[test]
fn only_the_right_word_resumes_on_a_terminal() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("data/STOP");
    run(bardo(home.path()).args(["halt"]));
    assert_eq!(resume_on_a_terminal(home.path(), "yes\n"), 4);
    assert!(file.exists());
    assert_eq!(resume_on_a_terminal(home.path(), "resume\n"), 0);
    assert!(!file.exists());
}

#[test]
fn a_halt_over_a_hold_is_a_separate_stop_in_the_audit_log() {
    let fixture = Fixture::new();
    let (answer, exit) = fixture.swap(json!({}), &[]);
    assert_eq!(exit, 0, "{answer}");
    let file = StopFile::in_folder(&fixture.home.path().join("data"));
    let hold = file.hold("held", "operator", 1).unwrap().unwrap();
    let (_, err, code) = run(bardo(fixture.home.path()).args(["halt", "--reason", "the key may be stolen"]));
    assert_eq!((err.as_str(), code), ("", 0));
    let (out, _, _) = run(bardo(fixture.home.path()).args(["log", "--json"]));
    assert!(out.contains("halt:raised") && out.contains("the key may be stolen"), "{out}");
    assert!(file.release(&hold).is_err());
    assert_eq!(file.read().level(), Some(StopLevel::Halt));
}

#[test]
fn a_lower_stop_below_a_hold_is_reported_and_in_the_audit_log() {
    let fixture = Fixture::new();
    let (answer, exit) = fixture.swap(json!({}), &[]);
    assert_eq!(exit, 0, "{answer}");
    let file = StopFile::in_folder(&fixture.home.path().join("data"));
    let hold = file.hold("held", "operator", 1).unwrap().unwrap();
    let halt = ["halt", "--level", "exit-only", "--reason", "odd prices"];
    let (out, err, code) = run(bardo(fixture.home.path()).args(halt));
    assert_eq!((err.as_str(), code), ("", 0));
    assert!(out.contains("halt is in force") && out.contains("exit-only is also set"), "{out}");
    let (out, _, _) = run(bardo(fixture.home.path()).args(["log", "--json"]));
    assert!(out.contains("halt:raised") && out.contains("odd prices"), "{out}");
    assert_eq!(file.release(&hold).unwrap().level(), Some(StopLevel::ExitOnly));
}

#[test]
fn with_revoked_keys_a_call_only_revokes() {
    let fixture = Fixture::new();
    let (allowed, exit) =
        fixture.call("token_approve", &json!({"token": "DAI", "amount": "5", "chain": "ethereum"}), &[]);
    assert_eq!(exit, 0, "{allowed}");
    let said = |more: &[&str]| run(bardo(fixture.home.path()).args(["halt", "--level", "revoke"]).args(more));
    let (out, err, code) = said(&[]);
    assert_eq!((err.as_str(), code), ("", 0));
    assert!(out.contains("drops its Golem's keys at once") && out.contains("Lowering the stop does not"), "{out}");
    let (out, _, _) = said(&["--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert!(told["meaning"].as_str().unwrap().contains("drops its session keys"), "{told}");
    let (refused, exit) = fixture.swap(json!({}), &[]);
    assert_eq!((&refused["error"]["code"], exit), (&json!("HALTED"), 3), "{refused}");
    // The stop is named once, and not as the name of a check before itself.
    assert_eq!(refused["error"]["message"].as_str().unwrap().matches("in force").count(), 1, "{refused}");
    assert!(!refused["error"]["message"].as_str().unwrap().contains("halt: "), "{refused}");
    let (back, exit) = fixture.call("token_revoke", &json!({"token": "DAI", "chain": "ethereum"}), &[]);
    assert_eq!((&back["status"], exit), (&json!("success"), 0), "{back}");
}

/// A scenario's stop file is beneath the data directory's: the higher of the two applies, and the upper one cannot be
/// changed from below.
#[test]
fn a_stop_of_an_outer_folder_applies_inside_and_is_not_changed_from_there() {
    let home = tempfile::tempdir().unwrap();
    let (above, below) = (home.path().join("data"), home.path().join("data/shows/one"));
    std::fs::create_dir_all(&below).unwrap();
    let upper = StopFile::in_folder(&above);
    let lower = StopFile::in_folder(&below).beneath(&above);
    assert_eq!(lower.read().level(), None);
    upper.raise(StopLevel::ExitOnly, "from above", "operator", 1).unwrap();
    assert_eq!(lower.read().level(), Some(StopLevel::ExitOnly));
    // A stop raised from below stays below.
    assert_eq!(lower.raise(StopLevel::Halt, "from below", "operator", 2).unwrap().level(), Some(StopLevel::Halt));
    assert_eq!((upper.read().level(), lower.read().level()), (Some(StopLevel::ExitOnly), Some(StopLevel::Halt)));
    // Releasing a hold from below leaves the stop that applies above.
    let third = home.path().join("data/shows/two");
    std::fs::create_dir_all(&third).unwrap();
    let third = StopFile::in_folder(&third).beneath(&above);
    let own = third.hold("a look", "operator", 3).unwrap().unwrap();
    assert_eq!(third.release(&own).unwrap().level(), Some(StopLevel::ExitOnly));
    // An unreadable stop file above is a halt below as well.
    std::fs::write(above.join("STOP"), "no stop").unwrap();
    assert_eq!(third.read().level(), Some(StopLevel::Halt));
}

#[test]
fn raising_the_stop_ladder_reports_the_change() {
    let home = tempfile::tempdir().unwrap();
    let halt = |level: &str| {
        let (out, err, code) = run(bardo(home.path()).args(["halt", "--level", level]));
        assert_eq!((err.as_str(), code), ("", 0));
        out.lines().last().unwrap().to_owned()
    };
    assert_eq!(halt("exit-only"), "Changed: from no stop to exit-only.");
    assert_eq!(halt("halt"), "Changed: from exit-only to halt.");
    assert_eq!(halt("halt"), "Nothing changed: halt was in force already.");
    let flatten = halt("flatten");
    assert!(flatten.starts_with("Nothing changed: halt was in force already") && flatten.contains("--level flatten`"));
}
