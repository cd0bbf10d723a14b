//! The real program: its binary, its devnet, the actor in it, and an operator at the keys.

use std::time::{Duration, Instant};

use bardo_testkit::lying_rpc::{Heard, LyingRpc};
use portable_pty::CommandBuilder;

use crate::pty::Pty;

/// Longer than a decision ignores keys after it was drawn, and after a key.
pub const GUARD: Duration = Duration::from_millis(800);

/// Number of the newest block of ethereum, from the header.
fn newest_block(shown: &str) -> Option<u64> {
    let number = shown.split("ethereum #").nth(1)?.split([' ', '\n']).next()?;
    number.replace(',', "").parse().ok()
}

/// The program with its own home, at a size that shows everything.
pub fn bardo(home: &tempfile::TempDir, arguments: &[&str]) -> Pty {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env("BARDO_HOME", home.path());
    command.env("BARDO_NETWORK", "devnet");
    command.cwd(home.path());
    command.args(arguments);
    Pty::start(command, 120, 44)
}

/// Scenario that asks at once: the same request as the first tour makes after a minute, through the same pipeline.
pub const ASKS_AT_ONCE: &str = r#"
name = "asks-at-once"
about = "One decision, at once."
operator = "wait"

[[beat]]
at = 0
now = "Buying UNI for 0.36 WETH. That is above your limit, so it waits for you."
next = "Watch the market."
think = "I want some UNI for 0.36 WETH, if you agree."
do = "act"
params = { kind = "swap", why = "UNI is what I hold least of", params = { token_in = "WETH", token_out = "UNI", amount = "0.36", chain = "ethereum", slippage_bps = 100, prefer_uniswapx = false } }
expect = ["success", "partial", "rejected"]

[[beat]]
at = 1
now = "Watching the market."
"#;

/// The program with that scenario.
pub fn asking(home: &tempfile::TempDir, size: (u16, u16)) -> Pty {
    playing(home, ASKS_AT_ONCE, size)
}

/// The program with a scenario, with its home as working directory.
fn playing(home: &tempfile::TempDir, text: &str, size: (u16, u16)) -> Pty {
    let show = home.path().join("show.toml");
    std::fs::write(&show, text).unwrap();
    // Offers that expire while they are read are tested elsewhere, without a terminal.
    std::fs::write(home.path().join("config.toml"), "[safety]\npermit_seconds = 600\n").unwrap();
    // Losses are irrelevant, too: the market drifts while a slow machine gets to the trade.
    std::fs::write(home.path().join("policy-devnet.toml"), "preset = \"demo\"\nmax_loss_bps = 1000\n").unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env("BARDO_HOME", home.path());
    command.env("BARDO_NETWORK", "devnet");
    command.cwd(home.path());
    command.args(["golem", "run", "--scenario"]);
    command.arg(show);
    Pty::start(command, size.0, size.1)
}

/// The program with a scenario in which the Golem shows one message and then does nothing.
pub fn resting(home: &tempfile::TempDir, arguments: &[&str], size: (u16, u16)) -> Pty {
    let show = home.path().join("resting.toml");
    let quiet =
        "name = \"resting\"\nabout = \"Nothing.\"\noperator = \"wait\"\n\n[[beat]]\nat = 0\nnow = \"Resting.\"\n";
    std::fs::write(&show, quiet).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env("BARDO_HOME", home.path());
    command.env("BARDO_NETWORK", "devnet");
    command.args(arguments);
    command.args(["golem", "run", "--scenario"]);
    command.arg(show);
    let pty = Pty::start(command, size.0, size.1);
    pty.until_shown("Resting.");
    pty
}

/// Presses a key after the guard interval, so that it acts.
pub fn press(pty: &mut Pty, keys: &str) {
    std::thread::sleep(GUARD);
    pty.type_keys(keys);
}

/// Waits for the actor's request and opens it.
fn open_decision(pty: &mut Pty) {
    pty.until_shown("‼ 1 WAITS FOR YOU");
    pty.type_keys("a");
    pty.until_shown("DECISION 1 of 1");
    // Parts that must be read are marked as read, one key each.
    while pty.contents().contains("[ ]") {
        let before = pty.contents().matches("[ ]").count();
        press(pty, " ");
        pty.until("one less to read", |screen| screen.contents().matches("[ ]").count() < before);
    }
}

/// Leaves and lets transactions in progress finish.
pub fn leave(pty: &mut Pty) {
    // It prompts in every view; `q` would only go back from a zoomed, filtered or selected one.
    pty.type_keys("\x03");
    let mut asked = false;
    let ended = pty.ended_after(|pty| {
        if !asked && pty.contents().contains("Quit Bardo?") {
            asked = true;
            std::thread::sleep(GUARD);
            pty.type_keys("f");
        }
    });
    assert!(ended.success());
    pty.until_whole();
}

#[test]
fn it_boots_lives_is_resized_stopped_and_leaves_the_terminal_whole() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = bardo(&home, &[]);
    // It passes quickly: the written bytes are searched, not the present screen.
    let words = b"two chains inside this process";
    pty.until_written("the first step of the boot", |raw| raw.windows(words.len()).any(|window| window == words));
    pty.until_shown("● RUNNING");
    for words in ["PLAY MONEY", "Ada · a Golem", "Limits · policy demo", "Activity", "0xf39F…2266"] {
        pty.until_shown(words);
    }
    let first = pty.known("a block number", newest_block);
    pty.until("two later blocks", |screen| newest_block(&screen.contents()).is_some_and(|now| now >= first + 2));
    pty.resize(1, 1);
    pty.until("one cell", |screen| screen.contents() == "…" || screen.contents() == "P");
    pty.resize(80, 24);
    pty.until_shown("0-9 screens");
    pty.resize(120, 44);
    pty.until_shown("Ada · a Golem");
    pty.signal("TSTP");
    pty.until_whole();
    pty.until_stopped();
    pty.signal("CONT");
    pty.until("the page again", |screen| screen.alternate_screen() && newest_block(&screen.contents()).is_some());
    pty.signal("TERM");
    assert!(pty.ended().success());
    pty.until_whole();
}

#[test]
fn the_first_tour_shows_every_card_by_itself_while_each_screen_works_and_then_it_lives_on() {
    let home = tempfile::tempdir().unwrap();
    // However long it takes to view eight screens, the request stays open.
    let patient = "[safety]\npermit_seconds = 600\napproval_timeout_seconds = 1800\n";
    std::fs::write(home.path().join("config.toml"), patient).unwrap();
    let mut pty = bardo(&home, &[]);
    // No key is pressed until all five kinds of cards and the request are shown.
    for words in ["✓ Quote", " Allowance", "✓ Swap", " Auction", " Bridge", "‼ 1 WAITS FOR YOU"] {
        pty.until_shown(words);
    }
    for (screen, words) in [
        ("2", "token in*"),
        ("3", "Orders  "),
        ("4", "Allowances "),
        ("5", "Standing approvals"),
        ("6", "uniswap_get_quote"),
        ("7", "Chains of devnet"),
        ("8", "Buying UNI for 0.36 WETH"),
        ("1", "Activity"),
    ] {
        press(&mut pty, screen);
        pty.until(screen, |screen_now| {
            let shown = screen_now.contents();
            shown.contains(words) && shown.contains(&format!("[{screen} ")) && shown.contains("‼ 1 WAITS FOR YOU")
        });
    }
    press(&mut pty, "a");
    pty.until_shown("DECISION 1 of 1");
    press(&mut pty, "r");
    pty.until_shown("selected: reject");
    press(&mut pty, "\r");
    pty.until_gone("WAITS FOR YOU");
    // The tour is over, and the Golem goes on by itself.
    pty.until_shown("Watching what 0.1 WETH would bring in LINK");
    pty.until_shown("0.1 WETH → ");
    leave(&mut pty);
}

#[test]
fn an_approved_trade_is_done_and_changes_what_is_held() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = asking(&home, (120, 44));
    open_decision(&mut pty);
    for words in ["Asked because", "What changes", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "worst case"] {
        pty.until_shown(words);
    }
    // A key within the guard interval, and a pasted novel, have no effect.
    let novel = format!("\x1b[200~{}\x1b[201~", "a\r".repeat(2_000));
    pty.type_keys(&novel);
    pty.until_shown("pasted text is ignored here");
    // In one write, so that the program reads the keys with the paste that guards against them.
    pty.type_keys("\x1b[200~x\x1b[201~a\r");
    pty.until_shown("too soon");
    assert!(pty.contents().contains("nothing is selected"), "{}", pty.contents());
    press(&mut pty, "a");
    pty.until_shown("selected: approve once");
    press(&mut pty, "\r");
    pty.until_gone("DECISION");
    // UNI is held now: the wallet had none before.
    pty.until("UNI among the holdings", |screen| {
        screen.contents().lines().any(|line| line.contains("│ UNI ") && line.contains('$'))
    });
    leave(&mut pty);
}

/// The agents' scenario, decided at the keys: what is published and who gets the agent is shown in full before it is approved,
/// and the browser of agents shows what became of it.
#[test]
fn an_agent_is_registered_and_given_away_by_decisions_on_the_screen() {
    let home = tempfile::tempdir().unwrap();
    let patient = "[safety]\npermit_seconds = 600\napproval_timeout_seconds = 1800\n";
    std::fs::write(home.path().join("config.toml"), patient).unwrap();
    let mut pty = bardo(&home, &["golem", "run", "--scenario", "known-agent", "--speed", "4"]);
    for (words, typed, done) in [
        ("https://golem.example/card.json", "", "Registered, as you approved."),
        ("0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "79C8", "Given away, as you approved."),
    ] {
        open_decision(&mut pty);
        pty.until_shown(words);
        press(&mut pty, "a");
        // What must be seen may go on below.
        pty.until("an answer to the key", |screen| {
            let shown = screen.contents();
            shown.contains("selected: approve once") || shown.contains("to approve, see")
        });
        if pty.contents().contains("to approve, see") {
            press(&mut pty, "\x1b[6~");
            pty.until_gone("to approve, see");
            press(&mut pty, "a");
        }
        pty.until_shown("selected: approve once");
        // The last digits of the new owner are typed, as it cannot be undone.
        pty.type_keys(typed);
        press(&mut pty, "\r");
        pty.until_gone("DECISION");
        pty.until_shown(done);
    }
    press(&mut pty, "0");
    pty.until_shown("Careful Golem");
    leave(&mut pty);
}

#[test]
fn a_refusal_reaches_the_golem_in_the_operators_words() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = asking(&home, (120, 44));
    open_decision(&mut pty);
    press(&mut pty, "r");
    pty.until_shown("selected: reject, say why");
    pty.type_keys("wait for gas");
    pty.until_shown("wait for gas");
    press(&mut pty, "\r");
    pty.until_gone("DECISION");
    pty.until_shown("the operator rejected it: wait for gas");
    leave(&mut pty);
}

#[test]
fn a_smaller_amount_is_prepared_and_asked_anew_or_needs_no_question() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = asking(&home, (120, 44));
    open_decision(&mut pty);
    press(&mut pty, "e");
    pty.until_shown("selected: smaller amount");
    // More than the requested amount is rejected, and the request stays open.
    pty.type_keys("0.5");
    pty.until_shown(" 0.5▏");
    press(&mut pty, "\r");
    pty.until_shown("type less than the requested amount");
    // The typed text stays, and so does every key after it.
    pty.until_shown(" 0.5▏");
    pty.type_keys("\x7f01");
    pty.until_shown(" 0.01▏");
    press(&mut pty, "\r");
    // 0.01 WETH is far below the approval threshold: it is done without another request.
    pty.until("the smaller swap done", |screen| {
        let done = |line: &str| ["✓ Swap", "0.01 WETH", "UNI"].iter().all(|words| line.contains(words));
        screen.contents().lines().any(done)
    });
    leave(&mut pty);
}

#[test]
fn a_hold_stops_at_once_and_a_halt_is_lifted_by_a_decision_only() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = resting(&home, &[], (120, 44));
    pty.until_shown("● RUNNING");
    pty.type_keys("\x18");
    pty.until_shown("No new signatures are made");
    pty.until("a stop file", |_| find(home.path(), "STOP"));
    press(&mut pty, "\x1b");
    pty.until_gone("No new signatures are made");
    pty.until("no stop file", |_| !find(home.path(), "STOP"));
    pty.until_shown("● RUNNING");
    pty.type_keys("\x18");
    pty.until_shown("No new signatures are made");
    press(&mut pty, "\r");
    pty.until_shown("■ HALTED");
    pty.type_keys("p");
    pty.until_shown("‼ 1 WAITS FOR YOU");
    assert!(find(home.path(), "STOP"), "asking lifts nothing");
    pty.type_keys("a");
    pty.until_shown("DECISION 1 of 1");
    pty.until_shown("Lift the stop");
    press(&mut pty, "a");
    pty.until_shown("selected: approve once");
    press(&mut pty, "\r");
    pty.until("no stop file", |_| !find(home.path(), "STOP"));
    pty.until_shown("● RUNNING");
    pty.signal("HUP");
    assert!(pty.ended().success());
    pty.until_whole();
}

/// Lines of a decision in view, as the screen states: first, last, and total.
fn lines_in_view(shown: &str) -> Option<(usize, usize, usize)> {
    let told = shown.lines().filter(|line| line.contains(" · Pg")).find_map(|line| line.split("lines ").nth(1))?;
    let (first, rest) = told.split_once('–')?;
    let (last, rest) = rest.split_once(" of ")?;
    let of = rest.split([' ', '─']).next()?;
    Some((first.parse().ok()?, last.parse().ok()?, of.parse().ok()?))
}

/// Left click on the first occurrence of `words`.
pub fn click(pty: &mut Pty, words: &str) {
    pty.until_shown(words);
    std::thread::sleep(GUARD);
    let (column, row) = pty.known(words, |shown| {
        let found = shown.lines().enumerate().find_map(|(row, line)| Some((line.find(words)?, row, line)));
        found.map(|(at, row, line)| (line[..at].chars().count() + 1, row + 1))
    });
    pty.type_keys(&format!("\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m"));
}

#[test]
fn on_a_small_terminal_a_yes_waits_until_all_was_seen_and_a_no_does_not() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = asking(&home, (80, 24));
    // The header counts the requests that `a` opens; a call's card may show its request a moment earlier.
    pty.until_shown("1 WAITS FOR YOU (a)");
    pty.type_keys("a");
    pty.until_shown(" · PgDn");
    press(&mut pty, "a");
    pty.until_shown("to approve, see");
    pty.until_shown("PgDn to the end, then approve");
    // At one cell nothing can be read, so nothing is done, whatever is typed.
    press(&mut pty, "r");
    pty.until_shown("reason (sent to the Golem");
    pty.resize(1, 1);
    pty.until("one cell", |screen| screen.contents().chars().count() <= 1);
    press(&mut pty, "\r");
    pty.resize(80, 24);
    pty.until_shown("DECISION 1 of 1");
    press(&mut pty, "\x1b");
    pty.until_shown("PgDn to the end, then approve");
    // After scrolling to the end it can be approved.
    while let Some((first, last, of)) = lines_in_view(&pty.contents()).filter(|(_, last, of)| last < of) {
        pty.type_keys("\x1b[6~");
        pty.until("the next page", |screen| lines_in_view(&screen.contents()).is_some_and(|(now, ..)| now != first));
        assert!(last < of);
    }
    press(&mut pty, "a");
    pty.until_shown("selected: approve once");
    press(&mut pty, "\r");
    pty.until_gone("DECISION");
    pty.until("the swap done", |screen| {
        screen.contents().lines().any(|line| line.contains("✓ Swap") && line.contains("UNI"))
    });
    leave(&mut pty);
}

#[test]
fn by_mouse_alone_a_decision_is_answered_a_swap_is_made_and_the_stop_ladder_climbed() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = asking(&home, (120, 44));
    click(&mut pty, "WAITS FOR YOU");
    pty.until_shown("DECISION 1 of 1");
    while pty.contents().contains("[ ]") {
        let before = pty.contents().matches("[ ]").count();
        click(&mut pty, "! [ ]");
        pty.until("one less to read", |screen| screen.contents().matches("[ ]").count() < before);
    }
    click(&mut pty, "a approve once");
    pty.until_shown("selected: approve once");
    click(&mut pty, "Enter confirms");
    pty.until_gone("DECISION");
    // A quote and a swap from screen 2, without a key.
    click(&mut pty, "2 Trade");
    for (field, value) in [("token in*", "[WETH]"), ("token out*", "[USDC]"), ("amount*", "[0.2")] {
        click(&mut pty, field);
        click(&mut pty, value);
    }
    click(&mut pty, "prefer auction");
    click(&mut pty, "[no]");
    pty.until_shown("Quote 0.2");
    click(&mut pty, "[ Preview ]");
    pty.until_shown("gets at least");
    click(&mut pty, "[ Decide… ]");
    pty.until_shown("YOUR DECISION");
    click(&mut pty, "a approve once");
    pty.until_shown("selected: approve once");
    click(&mut pty, "Enter confirms");
    pty.until_shown("Chain agrees");
    click(&mut pty, "1 Live");
    pty.until("the swap on Live", |screen| {
        screen.contents().lines().any(|line| line.contains("✓ Swap") && line.contains("USDC"))
    });
    click(&mut pty, "Ctrl-X STOP");
    pty.until_shown("No new signatures are made");
    click(&mut pty, "Esc release");
    pty.until_gone("No new signatures are made");
    leave(&mut pty);
}

#[test]
fn leaving_with_something_in_flight_asks_and_writes_the_trades_where_that_is_wanted() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = playing(&home, &trades_then_asks(), (120, 44));
    pty.until("the swap done", |screen| {
        let done = |line: &str| ["✓ Swap", "0.02 WETH", "USDC"].iter().all(|words| line.contains(words));
        screen.contents().lines().any(done)
    });
    pty.until_shown("WAITS FOR YOU");
    pty.type_keys("q");
    pty.until_shown("Quit Bardo?");
    pty.until_shown("waits for you");
    press(&mut pty, "\x1b");
    pty.until_gone("Quit Bardo?");
    assert!(pty.contents().contains("● RUNNING"));
    assert!(trades(&home).is_empty(), "nothing is written before it is wanted");
    pty.type_keys("q");
    pty.until_shown("Quit Bardo?");
    pty.type_keys("e");
    pty.until_shown(".csv is written");
    // The one completed swap, not the waiting one.
    let files = trades(&home);
    let [file] = &files[..] else { panic!("{files:?}") };
    let rows: Vec<Vec<&str>> = file.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 2, "{file}");
    let cell = |name: &str| rows[1][rows[0].iter().position(|one| *one == name).unwrap()];
    assert_eq!((cell("paid"), cell("paid_token"), cell("got_token")), ("0.02", "WETH", "USDC"), "{file}");
    assert!(cell("got").parse::<f64>().is_ok_and(|got| got > 1.0), "{file}");
    assert!(cell("transaction").len() == 66 && cell("chain_agrees") == "true", "{file}");
    press(&mut pty, "f");
    assert!(pty.ended().success());
    pty.until_whole();
}

/// A swap within the limits, then the scenario's request.
fn trades_then_asks() -> String {
    let (_, beats) = ASKS_AT_ONCE.split_once("[[beat]]").unwrap();
    format!(
        "{TRADES}\n[[beat]]{}",
        beats.replacen("at = 0", "at = 1", 1).replacen("at = 1\nnow = \"Watching", "at = 2\nnow = \"Watching", 1)
    )
}

/// A swap within the limits.
const TRADES: &str = r#"
name = "trades-then-asks"
about = "A swap, then a decision."
operator = "wait"

[[beat]]
at = 0
now = "Selling 0.02 WETH."
do = "act"
params = { kind = "swap", why = "a little", params = { token_in = "WETH", token_out = "USDC", amount = "0.02", chain = "ethereum", prefer_uniswapx = false } }
expect = ["success", "partial"]
"#;

/// Files of exported trades in a folder.
fn trades(folder: &tempfile::TempDir) -> Vec<String> {
    let files = std::fs::read_dir(folder.path()).unwrap().flatten();
    let named = files.filter(|file| file.file_name().to_string_lossy().starts_with("bardo-trades-"));
    named.map(|file| std::fs::read_to_string(file.path()).unwrap()).collect()
}

/// Time for which nothing may be written: short in every run, longer with `BARDO_LONG`.
fn silence() -> Duration {
    if std::env::var_os("BARDO_LONG").is_some() { Duration::from_secs(30) } else { Duration::from_secs(4) }
}

#[test]
fn without_motion_and_with_the_blocks_stopped_not_a_byte_is_written() {
    for size in [(80, 24), (120, 40)] {
        let home = tempfile::tempdir().unwrap();
        let mut pty = resting(&home, &["--no-motion"], size);
        pty.type_keys(":blocks off\r");
        pty.until_shown("blocks are produced only on request");
        // Work in progress at the stop comes to rest: allowances are read every few seconds.
        let mut before = 0;
        while before != pty.raw().len() {
            before = pty.raw().len();
            std::thread::sleep(Duration::from_secs(9));
        }
        std::thread::sleep(silence());
        let written = pty.raw()[before..].to_vec();
        assert!(written.is_empty(), "{size:?}: {}", String::from_utf8_lossy(&written));
        leave(&mut pty);
    }
}

/// True if a file of that name exists anywhere below a folder.
pub fn find(folder: &std::path::Path, name: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| entry.file_name() == name || find(&entry.path(), name))
}

/// A read-only console shows what it is not attached to, offers no pause, and its Ctrl-X stops everything.
#[test]
fn a_console_that_watches_says_what_it_shows_and_stops_in_earnest() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = bardo(&home, &["--watch"]);
    pty.until_shown("watching a devnet of its own");
    pty.until_shown("read-only");
    assert!(!pty.contents().contains("p pause"), "{}", pty.contents());
    pty.type_keys("p");
    pty.until_shown("this console is read-only");
    assert!(!find(home.path(), "STOP"));
    pty.type_keys("\u{18}");
    pty.until("a stop file", |_| find(home.path(), "STOP"));
    pty.until_shown("No new signatures are made");
    press(&mut pty, "\r");
    pty.until_shown("■ HALTED");
    let mut other = std::process::Command::new(env!("CARGO_BIN_EXE_bardo"));
    other.env("BARDO_HOME", home.path()).env("BARDO_NETWORK", "devnet").args(["call", "check_safety_status", "{}"]);
    let said = String::from_utf8(other.output().unwrap().stdout).unwrap();
    assert!(said.contains("\"level\": \"halt\""), "another process does not see the stop: {said}");
    pty.signal("HUP");
    assert!(pty.ended().success());
}

/// `bardo attach` needs a served session, says how to start one, and says so when it loses it.
#[test]
fn a_console_says_that_there_is_no_session_and_that_it_lost_it() {
    use std::io::BufRead as _;
    use std::process::{Command, Stdio};

    let home = tempfile::tempdir().unwrap();
    let program = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
        command.env("BARDO_HOME", home.path()).env("BARDO_NETWORK", "devnet").args(arguments).stdin(Stdio::null());
        command
    };
    let ended = program(&["attach"]).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.code() == Some(1) && said.contains("no session of this data directory"), "{said}");
    assert!(said.contains("start one with `bardo serve`"), "{said}");

    let mut session = program(&["--brain", "operator", "serve"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(session.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("serving at"), "{line}");
    let mut pty = bardo(&home, &["attach"]);
    pty.until_shown("ATTACHED");
    session.kill().unwrap();
    session.wait().unwrap();
    pty.until_shown("the session closed the connection. The state on screen is no longer current");
    pty.signal("HUP");
    let _status = pty.ended();
}

/// A console that watches a network beside a session that is not served says what it can show, and what it cannot.
#[test]
fn a_console_that_watches_a_network_says_what_it_is_not_attached_to() {
    let devnet = bardo_testkit::devnet::Devnet::start("0", 7);
    let home = tempfile::tempdir().unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env("BARDO_HOME", home.path());
    command.cwd(home.path());
    command.args(["--watch", "--rpc", &format!("ethereum={}", devnet.url(0))]);
    let mut pty = Pty::start(command, 120, 44);
    pty.until_shown("watching the chains, the ledger and its decisions");
    let shown = pty.contents();
    assert!(shown.contains("`bardo serve`") && shown.contains("Ctrl-X stops it"), "{shown}");
    assert!(!shown.contains("devnet of its own"), "{shown}");
    pty.signal("HUP");
    assert!(pty.ended().success());
}

/// Delay of each answer of the network that is rehearsed.
const FAR: Duration = Duration::from_millis(50);

/// Number of times that somebody waited for the network: requests that were under way together count once.
fn rounds(heard: &[Heard]) -> u32 {
    let mut times: Vec<Instant> = heard.iter().map(|one| one.at).collect();
    times.sort_unstable();
    let (mut rounds, mut until) = (0, None);
    for at in times {
        if until.is_none_or(|until| at >= until) {
            rounds += 1;
            until = Some(at + FAR);
        }
    }
    rounds
}

/// Time until the first screen of a rehearsal shows what the wallet holds, with its value, and the rounds to the network.
fn first_screen(home: &tempfile::TempDir, far: &LyingRpc) -> (Duration, u32) {
    let before = far.heard().len();
    let start = Instant::now();
    let mut pty = bardo(home, &["--fork", &format!("ethereum={}", far.url()), "--brain", "operator"]);
    pty.until("what the wallet holds", |screen| {
        let shown = screen.contents();
        shown.contains("REHEARSAL") && shown.lines().any(|line| line.contains("│ WETH ") && line.contains('$'))
    });
    let (took, rounds) = (start.elapsed(), rounds(&far.heard()[before..]));
    leave(&mut pty);
    (took, rounds)
}

/// The goals are 3 s cold over an endpoint that answers after 50 ms, and 0.5 s from the cache. A busy machine's own time
/// says little, so what is compared is the time that the network costs: its rounds.
#[test]
fn the_first_screen_of_a_rehearsal_costs_few_rounds_and_almost_none_from_the_cache() {
    let devnet = bardo_testkit::devnet::Devnet::start("0", 7);
    let far = LyingRpc::slow(devnet.url(0), Box::new(|_, _| {}), FAR);
    let home = tempfile::tempdir().unwrap();
    let (cold, cold_rounds) = first_screen(&home, &far);
    let (cached, cached_rounds) = first_screen(&home, &far);
    println!("cold {cold:?} in {cold_rounds} rounds, from the cache {cached:?} in {cached_rounds} rounds");
    assert!(cold_rounds * FAR < Duration::from_secs(3), "{cold_rounds} rounds, {cold:?}");
    assert!(cached_rounds * FAR < Duration::from_millis(500), "{cached_rounds} rounds, {cached:?}");
}
