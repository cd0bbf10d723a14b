//! Manual actions of an operator, beside the Golem: a swap with the keys, a revoked allowance, a change of the policy
//! file while the program runs, another scenario while a request is open.

use std::cell::RefCell;

use crate::program::{click, press, resting};
use crate::pty::Pty;

/// Amount after `→` in the row of a card that begins with a token: the balance afterwards, as the card shortens it.
fn afterwards(shown: &str, token: &str) -> Option<String> {
    let row = shown
        .lines()
        .find(|line| line.contains(&format!(" {token} ")) && line.contains(" → ") && !line.contains("Swap"))?;
    let held = row.split(" → ").nth(1)?.split_whitespace().next()?;
    Some(held.trim_end_matches('…').to_owned())
}

/// Balance of a token on the first chain, as the portfolio shows it.
fn held(shown: &str, token: &str) -> Option<String> {
    let row = shown.lines().find(|line| line.contains(&format!("│ {token} ")) && line.contains('$'))?;
    Some(row.split_once(token)?.1.split_whitespace().next()?.to_owned())
}

/// Writes the operator's policy: the demo preset with another limit per trade and a wide limit on losses, because the
/// market drifts while a slow machine gets to the trade.
fn allow_one_trade_of(home: &tempfile::TempDir, most: &str) {
    // Replaced atomically: the program reads the file while it is written.
    let aside = home.path().join("written-aside.toml");
    std::fs::write(&aside, format!("preset = \"demo\"\nmax_single_trade_usd = \"{most}\"\nmax_loss_bps = 1000\n"))
        .unwrap();
    std::fs::rename(aside, home.path().join("policy-devnet.toml")).unwrap();
}

#[test]
fn by_keys_alone_a_swap_is_quoted_and_made_and_the_portfolio_changes_by_what_its_card_says() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = resting(&home, &[], (120, 44));
    pty.type_keys("2");
    pty.until_shown("token in*");
    pty.type_keys("\rWETH\tUSDC\t0.1");
    // The quote follows the typed input without a command.
    pty.until_shown("Quote 0.1 WETH → USDC");
    pty.until_shown("slippage 0.50 %");
    // Past chain, deadline and least price to the route: without an auction, so that it is done at once.
    pty.type_keys("\t\t\t\t ");
    pty.until("through pools", |screen| {
        screen.contents().lines().any(|line| line.contains("prefer auction") && line.contains(" no▏"))
    });
    pty.type_keys("\r");
    pty.until_shown("gets at least");
    pty.type_keys("\r");
    pty.until_shown("YOUR DECISION");
    press(&mut pty, "a");
    pty.until_shown("selected: approve once");
    press(&mut pty, "\r");
    pty.until_shown("Chain agrees");
    let (weth, usdc) =
        pty.known("what the card says", |shown| Some((afterwards(shown, "WETH")?, afterwards(shown, "USDC")?)));
    // The wallet had 4.5.
    assert_eq!(weth, "4.4");
    pty.type_keys("\x1b");
    // Wait before the next key: both together are another key.
    pty.until_shown("Enter types");
    press(&mut pty, "4");
    pty.until_shown("Holding, confirmed");
    pty.until("the portfolio as the card says", |screen| {
        let shown = screen.contents();
        held(&shown, "WETH").is_some_and(|held| held == weth)
            && held(&shown, "USDC").is_some_and(|held| held.starts_with(&usdc))
    });
    end(pty);
}

/// Grants the Universal Router an allowance of 25 USDC, with the keys of screen 2.
fn give_an_allowance(pty: &mut Pty) {
    pty.type_keys("2");
    pty.until_shown("token in*");
    // To the right, up to the tool for allowances.
    let chosen = RefCell::new(String::new());
    loop {
        let before = chosen.borrow().clone();
        pty.until("another tool", |screen| {
            let text = screen.contents();
            let word: Option<String> = text.find("▸ ").map(|at| text[at..].chars().take(20).collect());
            let Some(word) = word.filter(|word| *word != before) else { return false };
            chosen.replace(word);
            true
        });
        if chosen.borrow().starts_with("▸ Approve") {
            break;
        }
        pty.type_keys("\x1b[C");
    }
    pty.type_keys("\rUSDC\t25\r");
    pty.until_shown("allowance after");
    pty.type_keys("\r");
    pty.until_shown("YOUR DECISION");
    press(pty, "a");
    pty.until_shown("selected: approve once");
    press(pty, "\r");
    // The spender is displayed by its name.
    pty.until_shown("USDC → Universal Router");
    pty.until_shown("✓ Approved");
    pty.type_keys("\x1b");
    pty.until_shown("Enter types");
}

#[test]
fn by_keys_alone_an_allowance_is_given_and_taken_back() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = resting(&home, &[], (120, 44));
    give_an_allowance(&mut pty);
    press(&mut pty, "4");
    pty.until_shown("25 USDC → Permit2");
    press(&mut pty, "\t");
    pty.until_shown("▸ Allowances ");
    // The prompt is cancelled: nothing happens.
    press(&mut pty, "x");
    pty.until_shown("Revoke this allowance?");
    press(&mut pty, "\x1b");
    pty.until_gone("Revoke this allowance?");
    pty.until_shown("25 USDC → Permit2");
    press(&mut pty, "x");
    pty.until_shown("Revoke this allowance?");
    press(&mut pty, "r");
    press(&mut pty, "\r");
    pty.until_gone("25 USDC → Permit2");
    end(pty);
}

#[test]
fn by_mouse_alone_an_allowance_is_taken_back() {
    let home = tempfile::tempdir().unwrap();
    let mut pty = resting(&home, &[], (120, 44));
    give_an_allowance(&mut pty);
    click(&mut pty, "4 Portfolio");
    // A click selects the row, and the label at the edge prompts; neither revokes anything.
    click(&mut pty, "25 USDC → Permit2");
    click(&mut pty, "x revokes");
    pty.until_shown("Revoke this allowance?");
    click(&mut pty, "Esc back");
    pty.until_gone("Revoke this allowance?");
    pty.until_shown("25 USDC → Permit2");
    click(&mut pty, "x revokes");
    pty.until_shown("Revoke this allowance?");
    click(&mut pty, "r revoke it");
    click(&mut pty, "Enter confirms");
    pty.until_gone("25 USDC → Permit2");
    end(pty);
}

#[test]
fn by_mouse_alone_a_looser_policy_is_refused_and_another_accepted() {
    let home = tempfile::tempdir().unwrap();
    allow_one_trade_of(&home, "1500");
    let mut pty = resting(&home, &[], (120, 44));
    pty.until_shown("up to $1,500");
    allow_one_trade_of(&home, "2400");
    pty.until_shown("One action $1,500 → $2,400");
    click(&mut pty, "WAITS FOR YOU");
    pty.until_shown("DECISION 1 of 1");
    click(&mut pty, "r reject, say why");
    pty.until_shown("selected: reject");
    click(&mut pty, "Enter confirms");
    pty.until_gone("DECISION");
    pty.until_gone("WAITS FOR YOU");
    assert!(pty.contents().contains("up to $1,500"), "a refused one does not hold");
    allow_one_trade_of(&home, "2300");
    pty.until_shown("One action $1,500 → $2,300");
    click(&mut pty, "WAITS FOR YOU");
    pty.until_shown("DECISION 1 of 1");
    click(&mut pty, "a approve once");
    pty.until_shown("selected: approve once");
    click(&mut pty, "Enter confirms");
    pty.until_shown("up to $2,300");
    end(pty);
}

#[test]
fn a_tighter_policy_holds_at_once_and_a_looser_one_asks() {
    let home = tempfile::tempdir().unwrap();
    allow_one_trade_of(&home, "2000");
    let mut pty = resting(&home, &[], (120, 44));
    pty.until_shown("up to $2,000");
    allow_one_trade_of(&home, "1500");
    pty.until_shown("up to $1,500");
    assert!(!pty.contents().contains("WAITS FOR YOU"), "what is tighter asks nobody");
    allow_one_trade_of(&home, "2400");
    pty.until_shown("‼ 1 WAITS FOR YOU");
    pty.until_shown("One action $1,500 → $2,400");
    assert!(pty.contents().contains("up to $1,500"), "what is looser does not hold yet");
    pty.type_keys("a");
    pty.until_shown("DECISION 1 of 1");
    pty.until_shown("loosens the policy");
    press(&mut pty, "a");
    pty.until_shown("selected: approve once");
    press(&mut pty, "\r");
    pty.until_shown("up to $2,400");
    end(pty);
}

#[test]
fn the_cues_of_a_show_wait_until_the_golem_begins_it() {
    let home = tempfile::tempdir().unwrap();
    let show = home.path().join("cued.toml");
    let text = "name = \"cued\"\nabout = \"A cue.\"\noperator = \"wait\"\n\n[[beat]]\nat = 0\nnow = \"The other show.\"\n\n[[cue]]\nat = 0\ncaption = \"A cue was given.\"\n";
    std::fs::write(&show, text).unwrap();
    let mut pty = crate::program::asking(&home, (120, 44));
    pty.until_shown("‼ 1 WAITS FOR YOU");
    pty.type_keys(&format!(":scenario {}\r", show.display()));
    pty.until_shown("starts once");
    // The Golem must not ask yet: its cues come with the scenario.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let shown = pty.contents();
    assert!(!shown.contains("A cue was given.") && shown.contains("WAITS FOR YOU"), "{shown}");
    pty.type_keys("a");
    pty.until_shown("DECISION 1 of 1");
    press(&mut pty, "r");
    pty.until_shown("selected: reject");
    press(&mut pty, "\r");
    pty.until_shown("A cue was given.");
    pty.until_shown("The other show.");
    end(pty);
}

#[test]
fn first_come_is_first_served_whoever_asks() {
    let home = tempfile::tempdir().unwrap();
    allow_one_trade_of(&home, "2400");
    let mut pty = resting(&home, &[], (120, 44));
    pty.until_shown("up to $2,400");
    // True if the Golem's request is displayed, at that position in the queue.
    let asks = |screen: &vt100::Screen, place: &str| {
        let shown = screen.contents();
        shown.contains(place) && shown.contains("Asked because") && !shown.contains("Asked because  loosens")
    };
    // The policy file asks first, then the Golem, whose requests come first among those of one process.
    allow_one_trade_of(&home, "2450");
    pty.until_shown("‼ 1 WAITS FOR YOU");
    let show = home.path().join("asks.toml");
    std::fs::write(&show, crate::program::ASKS_AT_ONCE).unwrap();
    pty.type_keys(&format!(":scenario {}\r", show.display()));
    pty.until_shown("‼ 2 WAIT FOR YOU");
    pty.type_keys("a");
    pty.until_shown("DECISION 1 of 2");
    pty.until_shown("Asked because  it loosens the policy");
    press(&mut pty, "n");
    pty.until("the other question", |screen| asks(screen, "DECISION 2 of 2"));
    press(&mut pty, "\x1b");
    pty.until_gone("DECISION");
    // The first is answered: the second is now the first, and the only one.
    pty.type_keys("a");
    pty.until_shown("DECISION 1 of 2");
    press(&mut pty, "r");
    pty.until_shown("selected: reject");
    press(&mut pty, "\r");
    pty.until_shown("‼ 1 WAITS FOR YOU");
    pty.until_gone("DECISION");
    pty.type_keys("a");
    pty.until("the other question", |screen| asks(screen, "DECISION 1 of 1"));
    end(pty);
}

/// Ends the program like a closed terminal.
fn end(mut pty: Pty) {
    pty.signal("TERM");
    assert!(pty.ended().success());
}
