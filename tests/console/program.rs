//! The real program: its own binary, its own devnet.

use portable_pty::CommandBuilder;

use crate::pty::Pty;
use crate::terminal::leave;

/// The number of the newest block of ethereum, as the header says it.
fn newest_block(shown: &str) -> Option<u64> {
    let number = shown.split("ethereum #").nth(1)?.split([' ', '\n']).next()?;
    number.replace(',', "").parse().ok()
}

#[test]
fn it_boots_its_devnet_shows_blocks_rise_and_leaves_the_terminal_whole() {
    let home = tempfile::tempdir().unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
    command.env("BARDO_HOME", home.path());
    command.env("BARDO_NETWORK", "devnet");
    let mut pty = Pty::start(command, 120, 40);
    let words = b"Starting the devnet";
    pty.until_written("the first frame", |raw| raw.windows(words.len()).any(|window| window == words));
    pty.until_shown("● RUNNING");
    for words in ["PLAY MONEY", "Tokens", "Wallet 0xf39F…2266", "Pools", "Activity", "WETH/USDC", "V3 0.05 %"] {
        pty.until_shown(words);
    }
    let first = pty.known("a block number", newest_block);
    pty.until("two later blocks", |screen| newest_block(&screen.contents()).is_some_and(|now| now >= first + 2));
    pty.type_keys("?");
    pty.until_shown("Shift-Tab");
    pty.type_keys("\x1b");
    pty.until_gone("Shift-Tab");
    pty.resize(1, 1);
    pty.until("one cell", |screen| screen.contents() == "…" || screen.contents() == "P");
    pty.resize(80, 24);
    pty.until_shown("─ Wallet 0xf39F…2266");
    let before = pty.known("a block number", newest_block);
    pty.until("a block at the new size", |screen| newest_block(&screen.contents()).is_some_and(|now| now > before));
    pty.signal("TSTP");
    pty.until_whole();
    pty.until_stopped();
    pty.signal("CONT");
    pty.until("the page again", |screen| screen.alternate_screen() && newest_block(&screen.contents()).is_some());
    leave(&mut pty);
}
