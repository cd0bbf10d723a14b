//! The command line as a shell and a person meet it: completions, man pages, parameters as words, and the report that a
//! terminal shows in place of JSON.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::{Value, json};

use crate::{bardo, run};

/// Runs the binary on a terminal of its own, and returns what it showed and its exit code.
fn on_a_terminal(home: &Path, arguments: &[&str]) -> (String, u32) {
    let pty = native_pty_system().openpty(PtySize { rows: 60, cols: 120, ..PtySize::default() }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env_clear();
    command.env("BARDO_HOME", home);
    command.args(arguments);
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut screen = pty.master.try_clone_reader().unwrap();
    let mut shown = Vec::new();
    let mut some = [0; 4_096];
    while let Ok(read @ 1..) = screen.read(&mut some) {
        shown.extend_from_slice(&some[..read]);
    }
    (String::from_utf8_lossy(&shown).into_owned(), child.wait().unwrap().exit_code())
}

#[test]
fn a_terminal_gets_a_report_and_a_pipe_gets_json() {
    let home = tempfile::tempdir().unwrap();
    let words = ["call", "search_tokens", "query=USDC", "chain=ethereum"];
    let (shown, code) = on_a_terminal(home.path(), &words);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("✓ search_tokens: done") && shown.contains("USDC"), "{shown}");
    assert!(!shown.contains('{') && shown.contains("--json prints the whole response"), "{shown}");

    let (shown, _) = on_a_terminal(home.path(), &[&words[..], &["--json"]].concat());
    let envelope: Value = serde_json::from_str(&shown[shown.find('{').unwrap()..]).unwrap();
    assert_eq!(envelope["status"], "success");

    // The same words in a pipe, and the same parameters as JSON.
    let (out, _, _) = run(bardo(home.path()).args(words));
    let by_words: Value = serde_json::from_str(&out).unwrap();
    let (out, _, _) = run(bardo(home.path()).args(["call", "search_tokens", r#"{"query":"USDC","chain":"ethereum"}"#]));
    let by_json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(by_words["data"], by_json["data"]);
}

#[test]
fn a_failed_call_suggests_a_remedy_on_a_terminal() {
    let home = tempfile::tempdir().unwrap();
    let (shown, code) = on_a_terminal(home.path(), &["call", "get_token_price", "token=NOSUCH", "chain=ethereum"]);
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("✗ get_token_price: failed") && shown.contains("Error code TOKEN_NOT_FOUND"), "{shown}");
    assert!(shown.contains('→'), "{shown}");
}

#[test]
fn words_that_are_not_parameters_are_usage_errors() {
    let home = tempfile::tempdir().unwrap();
    for (words, said) in [
        (&["query=USDC", "ethereum"][..], "write each as name=value"),
        (&["query=USDC", "query=WETH"], "given twice"),
        (&["limit=many", "query=USDC"], "limit"),
        (&["@/no/such/file"], "/no/such/file"),
    ] {
        let (out, err, code) = run(bardo(home.path()).args(["call", "search_tokens"]).args(words));
        assert_eq!((out.as_str(), code), ("", 2), "{words:?}: {err}");
        assert!(err.contains(said), "{words:?}: {err}");
    }
    // A name that the tool does not have reaches the engine, which knows the right ones.
    let (out, _, code) = run(bardo(home.path()).args(["call", "search_tokens", "quary=USDC"]));
    let envelope: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&envelope["error"]["code"], code), (&json!("VALIDATION_FAILED"), 1));
    assert!(envelope["error"]["message"].as_str().unwrap().contains("quary"), "{envelope}");
}

#[test]
fn completions_are_scripts_that_their_shells_take() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (script, err, code) = run(bardo(home.path()).args(["completions", shell]));
        assert_eq!((err.as_str(), code), ("", 0));
        assert!(script.contains("bardo") && script.contains("idempotency-key"), "{shell}: {script}");
        let path = home.path().join(shell);
        std::fs::write(&path, script).unwrap();
        // Shells that are here read their script without running it.
        if matches!(shell, "bash" | "zsh" | "fish") {
            let read = Command::new(shell).arg("-n").arg(&path).stdin(Stdio::null()).output();
            assert!(read.is_err() || read.unwrap().status.success(), "{shell} does not take its script");
        }
    }
}

#[test]
fn there_is_a_man_page_of_every_command() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("man/man1");
    let (out, err, code) = run(bardo(home.path()).arg("man").arg(&folder));
    assert_eq!((out.as_str(), code), ("", 0), "{err}");
    for name in ["bardo.1", "bardo-call.1", "bardo-policy-accept.1", "bardo-devnet-restore.1", "bardo-log-trades.1"] {
        let page = std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.starts_with(".ie") || page.contains(".TH"), "{name}");
    }
    let (_, err, code) = run(bardo(home.path()).arg("man").arg("/dev/null/man"));
    assert!(code == 1 && err.contains("/dev/null/man"), "{err}");
}
