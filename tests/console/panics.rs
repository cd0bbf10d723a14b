//! A panic of the real program: on any thread, the terminal is restored, the report is readable on it, the exit code
//! signals the failure, and no secret appears.

use bardo::base::failpoint::Failpoint;
use portable_pty::CommandBuilder;

use crate::program::ASKS_AT_ONCE;
use crate::pty::Pty;

/// Secret in an endpoint's address and in a file, which must not be revealed.
const SECRET: &str = "hunter2-of-the-endpoint";

/// Program that panics when it reaches a failpoint for the `times`th time.
fn panicking(home: &tempfile::TempDir, point: Failpoint, times: u32) -> Pty {
    let show = home.path().join("show.toml");
    std::fs::write(&show, ASKS_AT_ONCE).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env("BARDO_HOME", home.path());
    command.env("BARDO_NETWORK", "devnet");
    command.env("BARDO_RPC_SEPOLIA", format!("https://endpoint.example/{SECRET}"));
    command.env("BARDO_FAILPOINT", format!("{}:{times}:panic", point.name()));
    command.cwd(home.path());
    command.args(["golem", "run", "--scenario"]);
    command.arg(show);
    Pty::start(command, 120, 44)
}

/// All output of the program, after its end and with a restored terminal.
fn ended(pty: &mut Pty, code: u32) -> String {
    assert_eq!(pty.ended().exit_code(), code);
    pty.until_whole();
    // The report is on the screen that the shell continues with, not on the alternate one.
    let left = b"\x1b[?1049l";
    let raw = pty.raw();
    let at = raw.windows(left.len()).rposition(|window| window == left).unwrap();
    let after = String::from_utf8_lossy(&raw[at..]).into_owned();
    assert!(after.contains("a panic was asked for at"), "{after}");
    assert!(after.contains("bardo-base/src/failpoint.rs"), "where it came from: {after}");
    // Nor a key of the devnet's wallets: these are public, but other keys would appear in the same places.
    let whole = String::from_utf8_lossy(&raw).into_owned();
    for secret in [SECRET, "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80", "test test test"] {
        assert!(!whole.contains(secret), "{secret}: {after}");
    }
    after
}

#[test]
fn a_panic_while_drawing_gives_the_terminal_back_whole_with_its_report_on_it() {
    for times in [1, 5] {
        let home = tempfile::tempdir().unwrap();
        let mut pty = panicking(&home, Failpoint::Drawn, times);
        // Rust's exit code after a panic on the main thread.
        ended(&mut pty, 101);
        pty.until_shown("a panic was asked for at console.drawn");
    }
}

#[test]
fn a_panic_of_work_in_the_background_is_told_and_ends_the_console_on_a_whole_terminal() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = panicking(&home, Failpoint::Framed, 1);
    let told = ended(&mut pty, 1);
    pty.until_shown("a panic was asked for at preview.framed");
    let (report, last) = told.split_once("a panic was asked for").unwrap();
    assert!(!report.contains("its report is printed above") && last.contains("its report is printed above"), "{told}");
}
