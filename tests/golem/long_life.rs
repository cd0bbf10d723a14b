//! A whole life in simulated time, by the program itself: six hours of trades, auctions and bridges in both directions,
//! through the phases of age to death by age. Nothing may be left unfinished, and the reported vitals are recomputed
//! here.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Lifespan in minutes. By the documents the Golem spends 80 % of it in Thriving, then Cautious until 90 %, Defensive
/// until 95 %, and Survival.
const GIVEN: u64 = 360;

/// Seconds of one round of actions, and the number of rounds.
const ROUND: u64 = 900;
const ROUNDS: u64 = GIVEN * 60 / ROUND;

/// Seconds per tick.
const TICK: u64 = 15;

/// The demo preset, with higher limits for a day of such a life.
const POLICY: &str = "preset = \"demo\"\nmax_daily_spend_usd = \"50000\"\n[spending_limits]\nper_day = \"50000\"\n";

/// Actions of a round: second, description, acting tool, and the lines of the event.
const DOES: [(u64, &str, &str); 5] = [
    (
        0,
        "uniswap_execute_swap",
        r#"kind = "swap", params = { token_in = "USDC", token_out = "UNI", amount = "40", chain = "ethereum", prefer_uniswapx = false, slippage_bps = 30 }"#,
    ),
    (
        60,
        "uniswap_submit_uniswapx_order",
        r#"kind = "auction", params = { token_in = "WETH", token_out = "USDC", amount = "0.03", chain = "ethereum" }"#,
    ),
    (
        300,
        "uniswap_submit_cross_chain_intent",
        r#"kind = "bridge", params = { token_in = "USDC", token_out = "USDC", amount = "100", source_chain = "ethereum", destination_chain = "base" }"#,
    ),
    (
        480,
        "uniswap_submit_cross_chain_intent",
        r#"kind = "bridge", params = { token_in = "USDC", token_out = "USDC", amount = "45", source_chain = "base", destination_chain = "ethereum" }"#,
    ),
    (
        660,
        "uniswap_execute_swap",
        r#"kind = "swap", params = { token_in = "UNI", token_out = "USDC", amount = "max", chain = "ethereum", prefer_uniswapx = false, slippage_bps = 30 }"#,
    ),
];

/// Text of the scenario. It ends with an event after the Golem's death.
fn show() -> String {
    let mut text =
        format!("name = \"a-life\"\nabout = \"From birth to death.\"\noperator = \"approve\"\ntick = {TICK}\n");
    let mut beat = |at: u64, does: &str, params: &str, more: &str| {
        text.push_str(&format!("[[beat]]\nat = {at}\ndo = \"{does}\"\nparams = {{ {params} }}\n{more}\n"));
    };
    let mut cues = String::new();
    for round in 0..ROUNDS {
        let begins = round * ROUND;
        for (at, tool, params) in DOES {
            beat(begins + at, "act", params, "");
            // Memory reduces slippage that no swap has needed, down to a tenth of a percent. Blocks are as far apart
            // here as ticks: the market is still between quote and swap, so that no price moves away.
            if tool == "uniswap_execute_swap" {
                for (second, on) in [((begins + at).saturating_sub(TICK), false), (begins + at + 3 * TICK, true)] {
                    cues.push_str(&format!("[[cue]]\nat = {second}\ndo = {{ trading = {{ on = {on} }} }}\n"));
                }
            }
        }
        // Between two rounds the router has no allowance.
        for token in ["USDC", "WETH", "UNI"] {
            let asks = format!("query = \"allowance\", params = {{ token = \"{token}\", chain = \"ethereum\" }}");
            beat(begins + 800, "query_state", &asks, "expect = [\"success\"]\nwant = { allowance = \"0\" }");
        }
        beat(begins + 850, "query_grimoire", "query = \"swap USDC UNI\"", "expect = [\"success\"]");
    }
    beat(GIVEN * 60 + 600, "query_state", "query = \"balances\"", "expect = [\"success\"]");
    text + &cues
}

fn of_kind<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["kind"] == kind)
}

/// Dollars from a decimal string in millionths, rounded down.
fn micros(usd: &Value) -> u128 {
    let text = usd.as_str().unwrap_or_else(|| panic!("{usd}"));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<6.6}").parse().unwrap()
}

/// Number of rows of a ledger's table that satisfy a condition.
fn count(ledger: &rusqlite::Connection, what: &str) -> i64 {
    ledger.query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get(0)).unwrap()
}

pub fn ledger_in(home: &Path) -> rusqlite::Connection {
    let shows = std::fs::read_dir(home.join("data/shows")).unwrap().map(|entry| entry.unwrap().path());
    let ledgers = shows.filter(|show| show.is_dir()).map(|show| show.join("ledger"));
    let mut found = ledgers.flat_map(|ledgers| std::fs::read_dir(ledgers).unwrap());
    let folder = found.next().unwrap().unwrap().path();
    assert!(found.next().is_none(), "one devnet was lived on");
    rusqlite::Connection::open(folder.join("ledger.db")).unwrap()
}

#[test]
fn a_life_goes_through_its_phases_to_its_end_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("a-life.toml");
    std::fs::write(&file, show()).unwrap();
    let config = format!("on_death = \"sell\"\n[golem]\nlifespan_minutes = {GIVEN}\n");
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    std::fs::write(home.path().join("policy-devnet.toml"), POLICY).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
    command.args(["golem", "run", "--headless", "--seed", "31", "--keep", "--scenario"]).arg(&file);
    let played = command.env("BARDO_HOME", home.path()).env_remove("BARDO_NETWORK").output().unwrap();
    let said = String::from_utf8(played.stderr).unwrap();
    assert_eq!(played.status.code(), Some(1), "{said}");
    // All expectations were met, except for the event after the death.
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines, ["bardo: a-life: the Golem died with 1 step remaining"]);
    let events: Vec<Value> =
        String::from_utf8(played.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();

    // The phases begin when the documents say, for the documented reason.
    let born = of_kind(&events, "vitals").next().unwrap()["at"].as_u64().unwrap();
    let lived = |event: &Value| (event["at"].as_u64().unwrap() - born) / 1_000;
    let changes: Vec<_> = of_kind(&events, "phase:changed").collect();
    let walked: Vec<_> = changes.iter().map(|event| event["to"].as_str().unwrap()).collect();
    assert_eq!(walked, ["Cautious", "Defensive", "Survival", "Terminal"]);
    assert!(changes.iter().all(|event| event["why"].as_str().unwrap().starts_with("age ")), "{changes:#?}");
    let phase_at = |seconds: u64| match seconds * 100 / (GIVEN * 60) {
        0..80 => "Thriving",
        80..90 => "Cautious",
        90..95 => "Defensive",
        _ => "Survival",
    };
    let mut high = 0;
    let mut of_phase = BTreeMap::<&str, u64>::new();
    for vitals in of_kind(&events, "vitals") {
        let seconds = lived(vitals);
        let phase = vitals["phase"].as_str().unwrap();
        *of_phase.entry(phase).or_default() += 1;
        // The end comes after the minimum phase time, which is ten seconds in a scenario: with the next tick.
        let wanted = if seconds > GIVEN * 60 { "Terminal" } else { phase_at(seconds) };
        assert_eq!(phase, wanted, "{vitals}");
        assert_eq!((&vitals["age_seconds"], &vitals["lifespan_seconds"]), (&seconds.into(), &(GIVEN * 60).into()));
        // The high-water mark never falls, is never above the highest equity, and determines the drawdown.
        let (equity, best) = (micros(&vitals["equity"]), micros(&vitals["high_water"]));
        assert!(best >= high && best > 20_000_000_000, "{vitals}");
        high = best;
        let lost = (best.saturating_sub(equity)) * 10_000 / best;
        assert!(lost.abs_diff(vitals["drawdown_bps"].as_u64().unwrap().into()) <= 1, "{vitals}");
    }
    let most = of_kind(&events, "vitals").map(|vitals| micros(&vitals["equity"])).max().unwrap();
    assert!(high <= most, "{high} of {most}");
    assert!(of_phase.values().all(|beats| *beats > 0) && of_phase.len() == 5, "{of_phase:?}");

    // Actions and their results, by the phase in which they began: opening positions and other non-exits pass until
    // Defensive, exits in every phase. An auction without a slippage parameter uses its phase's limit.
    let mut ends = BTreeMap::<&str, Option<&str>>::new();
    for event in &events {
        match (event["kind"].as_str().unwrap(), event["call_id"].as_str()) {
            ("tool:end", Some(call)) => drop(ends.entry(call).or_default()),
            ("tool:error", Some(call)) => drop(ends.insert(call, event["error_code"].as_str())),
            _ => {}
        }
    }
    let mut outcomes = BTreeMap::<(&str, &str), i64>::new();
    for start in of_kind(&events, "tool:start").filter(|event| event["golem_id"] == "ada") {
        let tool = start["tool_name"].as_str().unwrap();
        let Some((_, name, _)) = DOES.iter().find(|(_, name, _)| *name == tool) else { continue };
        let phase = phase_at(lived(start));
        let exits = start["params"]["token_in"] == "WETH" || start["params"]["token_in"] == "UNI";
        let wanted = match phase {
            "Thriving" | "Cautious" => None,
            _ if exits => None,
            _ => Some("SAFETY_PHASE_BLOCKED"),
        };
        assert_eq!(ends[start["call_id"].as_str().unwrap()], wanted, "{phase}: {start}");
        *outcomes.entry((phase, name)).or_default() += 1;
    }
    for (_, name, _) in DOES {
        assert!(outcomes[&("Thriving", name)] >= 19, "{name}: {outcomes:?}");
        assert!(["Cautious", "Defensive", "Survival"].iter().all(|phase| outcomes.contains_key(&(*phase, name))));
    }
    // After its death no allowance remains, and its holdings are dollars.
    let last: Vec<_> = of_kind(&events, "golem:thought").filter(|event| lived(event) > GIVEN * 60).collect();
    let says = |words: &str| last.iter().any(|event| event["text"].as_str().unwrap().contains(words));
    assert!(says("I have no open orders.") && says("none remain.") && says("Sold all WETH on ethereum."), "{last:#?}");

    // Its ledger: nothing is reserved, pending, open or half done, and each write was remembered once.
    let ledger = ledger_in(home.path());
    for stranded in [
        "ledger_reservation WHERE state IN ('open', 'unclear')",
        "ledger_reservation_token WHERE held = 1",
        "safety_order WHERE stage <> 'ended'",
        "sender_nonce WHERE state = 'reserved'",
        "golem_episode WHERE outcome = 'open'",
        "ledger_liquidation",
    ] {
        assert_eq!(count(&ledger, stranded), 0, "{stranded}");
    }
    // Records of calls and idempotency keys do not grow with its age, and the search index contains its memories: each
    // write once, and a lesson for each activity.
    assert!(count(&ledger, "ledger_call") <= 60, "those of a minute");
    assert_eq!(count(&ledger, "golem_episode"), outcomes.values().sum::<i64>());
    let notes = count(&ledger, "golem_note");
    assert!((1..=10).contains(&notes), "{notes}");
    assert_eq!(count(&ledger, "golem_words"), count(&ledger, "golem_episode") + notes);
    assert_eq!(count(&ledger, "golem_life WHERE died_at IS NOT NULL AND wound_up_at IS NOT NULL"), 1);
}
