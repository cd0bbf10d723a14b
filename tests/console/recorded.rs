//! A recorded run in the real program: a swap of `bardo call`, replayed from its journal.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::bardo;

/// Journals below a folder.
fn journals(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => journals(&path),
            false if path.extension().is_some_and(|end| end == "jsonl") => vec![path],
            false => Vec::new(),
        })
        .collect()
}

#[test]
fn a_recorded_call_is_opened_paused_stepped_sought_to_its_end_and_left_whole() {
    let home = tempfile::tempdir().unwrap();
    let params = r#"{"token_in":"WETH","token_out":"USDC","amount":"0.02","chain":"ethereum","prefer_uniswapx":false}"#;
    let mut call = Command::new(env!("CARGO_BIN_EXE_bardo"));
    call.env_clear().env("BARDO_HOME", home.path()).env("BARDO_NETWORK", "devnet").current_dir(home.path());
    let called = call.args(["call", "uniswap_execute_swap", params, "--approve", "always"]).output().unwrap();
    assert!(called.status.success(), "{}", String::from_utf8_lossy(&called.stdout));
    let recorded = journals(&home.path().join("data/runs"));
    let [journal] = &recorded[..] else { panic!("{recorded:?}") };
    let events = std::fs::read_to_string(journal).unwrap().lines().skip(1).count();
    assert!(events > 10, "{events}");

    let mut pty = bardo(&home, &["replay", journal.to_str().unwrap(), "--speed", "0.1"]);
    pty.until_shown("REPLAY");
    pty.type_keys("p");
    pty.type_keys(":seek 0\r");
    pty.until_shown(&format!("■ PAUSED  speed 10 %  0 of {events}"));
    // The notice disappears with the next key, and the position is still shown.
    for step in 1..=3 {
        pty.type_keys(".");
        pty.until_shown(&format!("■ PAUSED  speed 10 %  {step} of {events}"));
    }
    assert!(!pty.contents().contains("RUNNING"), "{}", pty.contents());
    assert!(!pty.contents().contains("✓ Swap"), "{}", pty.contents());
    pty.type_keys(">");
    pty.until_shown(&format!("■ PAUSED  speed 20 %  3 of {events}"));
    pty.type_keys(":seek 100\r");
    pty.until_shown(&format!("■ AT ITS END  speed 20 %  {events} of {events}"));
    pty.until("the swap as it was made", |screen| {
        let done = |line: &str| ["✓ Swap", "0.02 WETH", "USDC"].iter().all(|words| line.contains(words));
        screen.contents().lines().any(done)
    });
    // Back again: later events have not happened yet.
    pty.type_keys(":seek 20\r");
    pty.until_shown("■ PAUSED");
    pty.until_gone("✓ Swap");
    // Nothing can be done in a recording.
    pty.type_keys(":halt\r");
    pty.until_shown("this is a recording");
    pty.type_keys("p");
    pty.until_shown("▸ PLAYING");
    pty.type_keys(":seek 100\r");
    pty.until_shown("■ AT ITS END");
    pty.type_keys("q");
    assert!(pty.ended().success());
    pty.until_whole();
}
