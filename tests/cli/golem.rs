//! `bardo golem`: kinds of action, an external brain, the playbook, and invalid archetypes that prevent the start.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{bardo, run};

#[test]
fn every_kind_of_action_works_or_names_the_tool_it_lacks() {
    let home = tempfile::tempdir().unwrap();
    let (tools, _, _) = run(bardo(home.path()).args(["tools", "--format", "json"]));
    let tools: Value = serde_json::from_str(&tools).unwrap();
    let tools: BTreeSet<&str> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let (kinds, err, code) = run(bardo(home.path()).args(["golem", "kinds", "--json"]));
    assert_eq!((err.as_str(), code), ("", 0));
    let kinds: Value = serde_json::from_str(&kinds).unwrap();
    let kinds = kinds.as_array().unwrap();
    assert!(kinds.len() > 40);
    for kind in kinds {
        let of =
            |field: &str| kind[field].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect::<Vec<_>>();
        let missing: Vec<_> = of("tools").into_iter().filter(|tool| !tools.contains(tool)).collect();
        assert_eq!(of("lacks"), missing, "{kind}");
    }
    let works = kinds.iter().filter(|kind| kind["lacks"] == Value::Array(Vec::new())).count();
    let (table, _, _) = run(bardo(home.path()).args(["golem", "kinds"]));
    assert_eq!(table.lines().count(), kinds.len() + 2);
    assert!(table.ends_with(&format!("{works} of {} kinds available\n", kinds.len())), "{table}");
    assert!(table.contains("lacks store_episode"), "{table}");
    // An archetype without write tools has none of them.
    let (role, _, _) = run(bardo(home.path()).args(["golem", "kinds", "--archetype", "pool-researcher"]));
    assert!(
        role.contains("not in this role: ") && role.ends_with(&format!("0 of {} kinds available\n", kinds.len())),
        "{role}"
    );
    let (_, err, code) = run(bardo(home.path()).args(["golem", "kinds", "--archetype", "trade-executer"]));
    assert!(code == 2 && err.contains("did you mean `trade-executor`?"), "{err}");
}

#[test]
fn an_unavailable_brain_prevents_the_start() {
    let home = tempfile::tempdir().unwrap();
    // A wrong flag is an error of usage; a model lacks configuration.
    for (brain, wanted, exit) in [
        ("oracle", "golem.brain (--brain): no brain is named `oracle`", 2),
        ("process:", "the command names no program", 2),
        ("process:python3 'x", "a quote is not closed", 2),
        ("model", "set golem.model_url", 1),
    ] {
        let (out, err, code) = run(bardo(home.path()).args(["golem", "run", "--headless", "--brain", brain]));
        assert!(code == exit && out.is_empty() && err.contains(wanted), "{brain}: {code} {err}");
    }
    let file = "[golem]\nbrain = \"model\"\nmodel_name = \"x\"\nmodel_url = \"http://model.example/v1\"\n";
    std::fs::write(home.path().join("config.toml"), file).unwrap();
    let (_, err, code) =
        run(bardo(home.path()).args(["golem", "run", "--headless"]).env("BARDO_MODEL_KEY", "sk-secret"));
    assert!(code == 1 && err.contains("neither https nor a local address") && !err.contains("sk-secret"), "{err}");
    let (out, _, _) = run(bardo(home.path()).args(["config", "show"]).env("BARDO_MODEL_KEY", "sk-secret"));
    assert!(out.contains("golem.model_key") && !out.contains("sk-secret"), "{out}");
}

/// Commands that need an archetype, with a screen and without one.
const STARTS: [&[&str]; 5] = [&["golem", "run", "--headless"], &["golem", "run"], &[], &["tools"], &["golem", "kinds"]];

#[test]
fn an_invalid_role_prevents_the_start_and_shows_its_handovers() {
    let home = tempfile::tempdir().unwrap();
    let roles = home.path().join("archetypes");
    std::fs::create_dir_all(&roles).unwrap();
    for (name, other) in [("guide", "scout"), ("scout", "guide")] {
        let text = format!("name = \"{name}\"\nabout = \"a\"\nprofile = \"data\"\ndelegates_to = [\"{other}\"]\n");
        std::fs::write(roles.join(format!("{name}.toml")), text).unwrap();
    }
    let file = |name: &str| roles.join(format!("{name}.toml")).display().to_string();
    for arguments in STARTS {
        let (out, err, code) = run(bardo(home.path()).args(arguments).args(["--archetype", "guide"]));
        assert_eq!((out.as_str(), code), ("", 1), "{arguments:?}: {err}");
        // The whole path, one hop per line, each with its file and line.
        let wanted = [
            "bardo: delegation is circular, starting at `guide`".to_owned(),
            format!("  guide  ({}, line 1)", file("guide")),
            format!("    → scout  ({}, line 4)", file("guide")),
            format!("      → guide  ({}, line 4)  ← back here", file("scout")),
        ];
        assert_eq!(err.lines().collect::<Vec<_>>(), wanted, "{arguments:?}");
        // Nothing else was started: no log, no journal, no ledger.
        assert!(!home.path().join("data").exists(), "{arguments:?}");
    }
}

/// Every rule about archetypes stops the archetype that violates it, whichever command needs it.
#[test]
fn each_rule_of_the_roles_stops_the_role_that_breaks_it() {
    for (file, text, words, last) in [
        (
            "scout.toml",
            "profile = \"data\"\ncategories = [\"tradign\"]\n",
            "scout.toml, line 4: ",
            "did you mean `trading`?",
        ),
        (
            "chief.toml",
            "profile = \"data\"\ndelegates_to = [\"golem-instance\"]\n",
            "a chain of 4 hops from `chief`; at most 3",
            "← too deep",
        ),
        (
            "rogue.toml",
            "writes = true\nprofile = \"trader\"\ndelegates_to = [\"risk-assessor\"]\n",
            "`rogue` writes, but no path leads to `safety-guardian`",
            "← no guardian on any path",
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let roles = home.path().join("archetypes");
        std::fs::create_dir_all(&roles).unwrap();
        let name = file.trim_end_matches(".toml");
        std::fs::write(roles.join(file), format!("name = \"{name}\"\nabout = \"a\"\n{text}")).unwrap();
        for arguments in STARTS {
            let (out, err, code) = run(bardo(home.path()).args(arguments).args(["--archetype", name]));
            assert_eq!((out.as_str(), code), ("", 1), "{arguments:?}: {err}");
            assert!(
                err.contains(words) && err.contains(file) && err.trim_end().ends_with(last),
                "{arguments:?}: {err}"
            );
            assert!(!home.path().join("data").exists(), "{arguments:?}");
        }
        // All other archetypes work; the broken one is listed with the reason, and the doctor reports it.
        let (out, err, code) = run(bardo(home.path()).args(["tools", "--archetype", "trade-executor"]));
        assert!(code == 0 && out.contains("uniswap_execute_swap"), "{err}");
        let (out, _, code) = run(bardo(home.path()).args(["golem", "roles", "--json"]));
        assert_eq!(code, 0);
        let listed: Vec<Value> = serde_json::from_str(&out).unwrap();
        let broken: Vec<&Value> = listed.iter().filter(|role| !role["error"].is_null()).collect();
        assert!(matches!(broken[..], [one] if one["name"] == name && one["error"].as_str().unwrap().contains(words)));
        assert!(listed.len() > 20 && listed.iter().any(|role| role["name"] == "trade-executor"));
        let (out, _, code) = run(bardo(home.path()).args(["doctor"]));
        assert!(code == 1 && out.contains(&format!("FAIL  roles       {name}: ")) && out.contains(words), "{out}");
        if name == "chief" {
            let (_, err, _) = run(bardo(home.path()).args(["golem", "run", "--archetype", name]));
            let drawn: Vec<_> = err.lines().skip(1).collect();
            assert_eq!(drawn.len(), 5, "the role, and four hops: {err}");
            assert!(drawn[0].starts_with("  chief  (") && drawn[0].ends_with("chief.toml, line 1)"), "{err}");
            assert!(
                drawn[1].starts_with("    → golem-instance  (") && drawn[1].ends_with("chief.toml, line 4)"),
                "{err}"
            );
            let hops = ["      → ", "        → ", "          → "];
            assert!(drawn[2..].iter().zip(hops).all(|(line, hop)| line.starts_with(hop) && line.contains(", line ")));
        }
    }
}

#[test]
fn an_unknown_role_is_a_usage_error_that_lists_the_roles() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [
        &["golem", "run", "--headless", "--archetype", "pool-reseacher"][..],
        &["golem", "run", "--archetype", "pool-reseacher"],
        &["--archetype", "pool-reseacher"],
    ] {
        let (out, err, code) = run(bardo(home.path()).args(arguments));
        assert_eq!((out.as_str(), code), ("", 2), "{arguments:?}: {err}");
        let says =
            "golem.archetype (--archetype): no archetype is named `pool-reseacher`; did you mean `pool-researcher`?";
        assert!(err.contains(says), "{err}");
        assert!(
            err.contains("known archetypes: agent-keeper, cross-chain-executor, golem-instance,")
                && err.contains("wallet-provisioner"),
            "{err}"
        );
    }
    std::fs::write(home.path().join("config.toml"), "[golem]\narchetype = \"boss\"\n").unwrap();
    let (_, err, code) = run(bardo(home.path()).args(["golem", "run", "--headless"]));
    assert!(code == 2 && err.contains("golem.archetype (file, line 2): no archetype is named `boss`"), "{err}");
}

/// Plays a scenario from a file, headless with these flags; returns its output and exit code.
fn play(text: &str, more: &[&str]) -> (String, String, i32) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("show.toml");
    std::fs::write(&file, format!("name = \"trial\"\nabout = \"a\"\n{text}")).unwrap();
    run(bardo(home.path()).args(["golem", "run", "--headless", "--scenario"]).arg(&file).args(more))
}

/// Event that queries the balances at this second of a scenario, with an expectation.
fn look(at: u64, more: &str) -> String {
    format!("[[beat]]\nat = {at}\ndo = \"query_state\"\nparams = {{ query = \"balances\" }}\n{more}\n")
}

/// Scenarios are used as tests, so a failed expectation must fail the run.
#[test]
fn a_missing_expectation_fails_a_scenario_and_is_named() {
    let good = look(1, "expect = [\"success\"]");
    let said = |name: &str| format!("bardo: trial: {name}\n");
    let (_, err, code) = play(&good, &[]);
    assert_eq!((err.as_str(), code), (said("1 step, all as expected").as_str(), 0));
    let cue = "[[cue]]\nat = 2\ndo = { phase = { is = \"Cautious\" } }\n";
    for (show, wanted) in [
        (good.clone() + &look(2, "expect = [\"blocked\"]"), "beat 2 at 2 s: expected blocked, found success"),
        (
            look(1, "expect = [\"success\"]\nwant = { nothing = 1 }"),
            "beat 1 at 1 s: expected nothing to be 1, found null",
        ),
        (format!("phases = [\"Cautious\"]\n{good}"), "expected the phases Cautious, found "),
        (format!("{good}{cue}"), "cue 1 at 2 s: expected the phase Cautious, found Thriving"),
    ] {
        let (_, err, code) = play(&show, &[]);
        assert_eq!((err.as_str(), code), (said(wanted).as_str(), 1), "{show}");
    }
}

#[test]
fn a_step_whose_condition_fails_is_skipped_and_counted_separately() {
    let first = look(1, "name = \"look\"\nexpect = [\"success\"]");
    let never = "expect = [\"blocked\"]\nwhen";
    let show = first
        + &look(2, &format!("{never} = {{ after = \"look\", status = \"error\" }}"))
        + &look(2, &format!("{never} = {{ phase = \"Cautious\" }}"))
        + &look(3, "name = \"again\"\nwhen = { after = \"look\", status = \"success\", phase = \"Thriving\" }")
        + &look(4, "expect = [\"success\"]\nwhen = { after = \"again\" }");
    let (out, err, code) = play(&show, &[]);
    let wanted = "bardo: trial: 3 steps, all as expected; 2 skipped because their conditions were not met\n";
    assert_eq!((err.as_str(), code), (wanted, 0));
    assert_eq!(out.lines().filter(|line| line.contains("\"kind\":\"tool:start\"")).count(), 3);
}

/// The archetype decides the tools of a Golem, whatever its scenario requests.
#[test]
fn a_golem_with_another_role_has_that_roles_tools() {
    let params = "{ kind = \"swap\", params = { token_in = \"WETH\", token_out = \"USDC\", amount = \"0.01\", chain = \"ethereum\", prefer_uniswapx = false } }";
    let sells = |expects: &str| format!("[[beat]]\nat = 1\ndo = \"preview_action\"\nparams = {params}\n{expects}\n");
    let (_, err, code) = play(&sells("expect = [\"simulated\"]"), &[]);
    assert_eq!(code, 0, "{err}");
    let refused = sells("expect = [\"TOOL_UNKNOWN\"]\nsays = \"the role `pool-researcher` does not have\"");
    let (_, err, code) = play(&refused, &["--archetype", "pool-researcher"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn with_the_operator_as_brain_no_scenario_is_played() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [&["golem", "run", "--headless"][..], &["golem", "run"]] {
        let (out, err, code) = run(bardo(home.path()).args(arguments).args(["--brain", "operator"]));
        assert_eq!((out.as_str(), code), ("", 2), "{err}");
        assert!(err.contains("bardo --brain operator"), "{err}");
    }
}

/// Starts the program with a scenario; returns its output line by line.
fn following(text: &str, more: &[&str]) -> (tempfile::TempDir, Child, std::io::Lines<BufReader<ChildStdout>>) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("show.toml");
    std::fs::write(&file, format!("name = \"trial\"\nabout = \"a\"\n{text}")).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bardo"));
    command.args(["golem", "run", "--headless", "--scenario"]).arg(&file).args(more);
    command.env_clear().env("BARDO_HOME", home.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (home, child, lines)
}

#[test]
fn a_show_keeps_the_pace_that_is_asked_for() {
    let beats = "[[beat]]\nat = 0\ncaption = \"first\"\n[[beat]]\nat = 20\ncaption = \"last\"\n";
    let (_home, mut child, lines) = following(beats, &["--speed", "2"]);
    let captions: Vec<Instant> =
        lines.filter(|line| line.as_ref().unwrap().contains("show:caption")).map(|_| Instant::now()).collect();
    assert_eq!((captions.len(), child.wait().unwrap().code()), (2, Some(0)));
    // Twenty seconds in ten, less the possible delay of this test at the first of them.
    let took = captions[1] - captions[0];
    assert!(took >= Duration::from_secs(7), "{took:?}");
}

#[test]
fn with_step_each_scenario_step_waits_for_a_line() {
    let beats = "[[beat]]\nat = 2\ncaption = \"first\"\n[[beat]]\nat = 4\ncaption = \"last\"\n";
    for (steps, code) in [(1, 1), (2, 0)] {
        let (_home, mut child, lines) = following(beats, &["--step"]);
        let mut stdin = child.stdin.take();
        let mut captions = Vec::new();
        let mut asked = 0;
        for line in lines {
            let line = line.unwrap();
            captions.extend(line.contains("show:caption").then_some(line.contains("last")));
            // The first once it lives, and the next once the requested one has been seen.
            if asked <= captions.len() && (line.contains("\"kind\":\"vitals\"") || asked > 0) {
                match stdin.as_mut().filter(|_| asked < steps) {
                    Some(stdin) => {
                        stdin.write_all(b"\n").unwrap();
                        asked += 1;
                    }
                    // Nobody is left to continue, with the last event still to come.
                    None if steps == 1 => drop(stdin.take()),
                    None => {}
                }
            }
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(captions, [false, true][..steps], "{said}");
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(said == "bardo: trial: the scenario was left with 1 step remaining\n", code == 1, "{said}");
    }
}

/// Under a stop that holds every Golem, no event of a scenario would ever be due, and no scenario could lift the stop.
#[test]
fn no_scenario_starts_under_a_stop_that_would_block_it() {
    for level in ["pause", "halt", "revoke"] {
        let home = tempfile::tempdir().unwrap();
        let (_, err, code) = run(bardo(home.path()).args(["halt", "--level", level, "--reason", "enough"]));
        assert_eq!(code, 0, "{err}");
        let (out, err, code) =
            run(bardo(home.path()).args(["golem", "run", "--headless", "--scenario", "rebalancing"]));
        assert_eq!((out.as_str(), code), ("", 3), "{level}: {err}");
        assert!(err.contains(&format!("{level} is in force")) && err.contains("`bardo resume`"), "{err}");
        let led = ["golem", "run", "--headless", "--approve", "never", "--ticks", "1", "--brain", "process:true"];
        let (out, err, code) = run(bardo(home.path()).args(led));
        assert_eq!((out.as_str(), code), ("", 3), "{level}: {err}");
    }
}

/// Everything below a folder, as relative paths.
fn below(folder: &std::path::Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        found.extend(below(&entry.path()).iter().map(|inner| format!("{name}/{inner}")));
        found.insert(name);
    }
    found
}

/// Effects of a scenario on stops and playbook must not reach anyone else, nor a later scenario.
#[test]
fn a_show_leaves_nothing_but_its_recording() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("show.toml");
    let note = "[[beat]]\nat = 1\ndo = \"update_directive\"\nexpect = [\"success\"]\n\
                params = { section = \"Gas\", text = \"approve everything\", reason = \"a token says so\" }\n";
    let finds = "[[beat]]\nat = 0\ndo = \"search_context\"\nparams = { query = \"approve everything\" }\n\
                 expect = [\"success\"]\nwant = { passages = [] }\n";
    let cue = "[[cue]]\nat = 2\ndo = { stop = { level = \"halt\", reason = \"enough\" } }\n";
    std::fs::write(&file, format!("name = \"stopping\"\nabout = \"a\"\n{finds}{note}{cue}")).unwrap();
    let play = |more: &[&str]| {
        let (out, err, code) =
            run(bardo(home.path()).args(["golem", "run", "--headless", "--scenario"]).arg(&file).args(more));
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("\"kind\":\"halt:raised\"") && out.contains("golem:directive"), "{out}");
    };
    // The second run sees neither the stop nor the note of the first.
    for _ in 0..2 {
        play(&[]);
        let data = home.path().join("data");
        let left: Vec<String> = below(&data).into_iter().filter(|path| !path.starts_with("logs")).collect();
        let recordings = left.iter().filter(|path| path.starts_with("runs/")).count();
        let others: Vec<_> = left.iter().filter(|path| !path.starts_with("runs")).collect();
        assert!(recordings > 0, "{left:?}");
        assert_eq!(others, ["shows", "shows/in-use"], "the lock of whoever begins a show");
    }
    play(&["--keep"]);
    assert!(below(&home.path().join("data/shows")).iter().any(|path| path.ends_with("PLAYBOOK.md")));
    assert!(!home.path().join("data/STOP").exists());
}

/// Last event of a scenario, so that only the end of the session can report it.
#[test]
fn an_emergency_halt_is_reported_once() {
    let halt =
        "[[beat]]\nat = 1\ndo = \"emergency_halt\"\nparams = { reason = \"odd prices\" }\nexpect = [\"success\"]\n";
    let (out, err, code) = play(halt, &[]);
    assert_eq!(code, 0, "{err}");
    let raised: Vec<&str> = out.lines().filter(|line| line.contains("\"kind\":\"halt:raised\"")).collect();
    assert!(
        matches!(raised[..], [one] if one.contains("odd prices") && one.contains("\"level\":\"halt\"")),
        "{raised:?}"
    );
}

/// A stop of the data directory applies to the scenarios in it, and a scenario cannot lift it.
#[test]
fn a_halt_from_outside_stops_a_running_show() {
    let beats = "[[beat]]\nat = 0\ncaption = \"first\"\n[[beat]]\nat = 600\ncaption = \"last\"\n";
    let (home, mut child, lines) = following(beats, &["--speed", "1"]);
    let mut halted = false;
    for line in lines.map(Result::unwrap) {
        if !halted && line.contains("show:caption") {
            let (_, err, code) = run(bardo(home.path()).args(["halt", "--reason", "from outside"]));
            assert_eq!(code, 0, "{err}");
            halted = true;
        }
        if line.contains("\"kind\":\"halt:raised\"") {
            assert!(line.contains("from outside"), "{line}");
            child.kill().unwrap();
            child.wait().unwrap();
            // Remains of the killed run are removed by the next one.
            let shows =
                || below(&home.path().join("data/shows")).into_iter().filter(|path| !path.contains('/')).count();
            assert_eq!(shows(), 2, "the show, and the lock");
            std::fs::remove_file(home.path().join("data/STOP")).unwrap();
            std::fs::remove_file(home.path().join("data/STOP.lock")).unwrap();
            let file = home.path().join("show.toml");
            std::fs::write(&file, format!("name = \"next\"\nabout = \"a\"\n{}", look(1, ""))).unwrap();
            let (_, err, code) = run(bardo(home.path()).args(["golem", "run", "--headless", "--scenario"]).arg(&file));
            assert_eq!(code, 0, "{err}");
            assert_eq!(shows(), 1, "the lock alone");
            return;
        }
    }
    panic!("the show ended without a stop");
}

#[cfg(unix)]
#[test]
fn a_brain_process_leads_a_run_and_its_playbook_changes_can_be_undone() {
    if !bardo_testkit::python::python() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["golem", "playbook"]));
    assert_eq!((out.as_str(), err.as_str(), code), ("", "bardo: no Golem has run here yet\n", 0));
    // Not in the configuration folder, which brains cannot access.
    let programs = tempfile::tempdir().unwrap();
    let script = programs.path().join("brain.py");
    let text = "import json, sys\n\
        def hear(wanted):\n    while True:\n        line = json.loads(sys.stdin.readline())\n        \
        if line['type'] == wanted: return line\n\
        def say(**line): print(json.dumps(line), flush=True)\n\
        one = [cap for cap in hear('hello')['caps'] if cap['rule'] == 'max_single_trade_usd']\n\
        assert [(cap['limit'], cap['used'], cap['left']) for cap in one] == [('2500', '0', '2500')], one\n\
        hear('tick')\n\
        note = dict(section='Gas', text='Wait below 20 gwei.', reason='it was dear')\n\
        say(type='call', id='1', tool='update_directive', params=note)\n\
        assert hear('result')['response']['status'] == 'success'\nsay(type='done', why='noted')\nhear('bye')\n";
    std::fs::write(&script, text).unwrap();
    let brain = format!("process:python3 {}", script.display());
    let (out, err, code) =
        run(bardo(home.path()).env("PATH", &path).args(["golem", "run", "--headless", "--brain", &brain]));
    assert!(code == 0 && err.contains("the brain has finished"), "{err}");
    assert!(out.lines().any(|line| line.contains("golem:directive") && line.contains("Gas")), "{out}");
    let ledgers = std::fs::read_dir(home.path().join("data/ledger")).unwrap();
    let ledgers: Vec<_> = ledgers.map(|entry| entry.unwrap().path()).collect();
    let [ledger] = ledgers.as_slice() else { panic!("{ledgers:?}") };
    let playbook = ledger.join("playbooks/base+ethereum/ada/PLAYBOOK.md");
    assert!(std::fs::read_to_string(&playbook).unwrap().contains("Wait below 20 gwei."));
    let (out, _, _) = run(bardo(home.path()).args(["golem", "playbook"]));
    assert!(out.starts_with("1  base+ethereum  Gas: it was dear\n") && out.contains("(no such section)"), "{out}");
    let (out, _, code) = run(bardo(home.path()).args(["golem", "playbook", "undo", "1"]));
    assert_eq!((out.as_str(), code), ("change 1 of \"Gas\" was undone\n", 0));
    assert!(!std::fs::read_to_string(&playbook).unwrap().contains("gwei"));
    let (_, err, code) = run(bardo(home.path()).args(["golem", "playbook", "undo", "1"]));
    assert!(code == 1 && err.contains("there is no change 1"), "{err}");

    // A Golem of another name has its own playbook.
    std::fs::write(home.path().join("config.toml"), "[golem]\nname = \"Bob\"\n").unwrap();
    let (out, err, code) =
        run(bardo(home.path()).env("PATH", &path).args(["golem", "run", "--headless", "--brain", &brain]));
    assert!(code == 0 && out.contains("\"golem_id\":\"bob\"") && !out.contains("\"golem_id\":\"ada\""), "{err}");
    let playbooks = below(&home.path().join("data/ledger"));
    assert!(playbooks.iter().any(|file| file.ends_with("playbooks/base+ethereum/bob/PLAYBOOK.md")), "{playbooks:?}");
    let (out, _, _) = run(bardo(home.path()).args(["golem", "playbook"]));
    assert!(out.starts_with("1  base+ethereum  Gas: it was dear\n"), "{out}");
    let (out, _, _) = run(bardo(home.path()).args(["golem", "playbook", "--golem", "ada"]));
    assert_eq!(out, "no changes\n", "the newest devnet is not one that Ada lived on");
}

/// The name `operator` has the rights of the person at the keyboard, so no Golem may have it.
#[test]
fn a_golem_has_a_name_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    for (name, wanted) in [
        ("operator", "line 2: 'golem.name': `operator` is reserved for you"),
        ("Operator", "line 2: 'golem.name': `operator` is reserved for you"),
        ("../ada", "line 2: 'golem.name': "),
        ("", "line 2: 'golem.name': empty"),
    ] {
        std::fs::write(home.path().join("config.toml"), format!("[golem]\nname = \"{name}\"\n")).unwrap();
        let (_, err, code) = run(bardo(home.path()).args(["config", "show"]));
        assert!(code == 1 && err.contains(wanted), "{name}: {err}");
    }
    let file = "[golem]\nname = \"Eve-2\"\ngoal = \"Trade little.\"\n";
    std::fs::write(home.path().join("config.toml"), file).unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["config", "show"]));
    assert!(code == 0 && out.contains("Eve-2") && out.contains("Trade little."), "{out}{err}");
}

/// Writes a brain that proposes one swap of $1,500, above the demo policy's approval limit of $1,000, until its answer is
/// not about a moved market. Its last words are each answer's status and code.
#[cfg(unix)]
fn large_swap_brain(folder: &std::path::Path) -> String {
    let script = folder.join("brain.py");
    // On a busy machine the market may move between preview and commit: that is reported and retried.
    let text = "import json, sys, time\n\
        def hear(wanted):\n    while True:\n        line = json.loads(sys.stdin.readline())\n        \
        if line['type'] == wanted: return line\n\
        def say(**line): print(json.dumps(line), flush=True)\nhear('tick')\n\
        swap = dict(token_in='USDC', token_out='WETH', amount='1500', chain='ethereum', prefer_uniswapx=False)\n\
        said = []\nfor n in range(20):\n    \
        say(type='call', id='p%d' % n, tool='preview_action', params=dict(kind='swap', params=swap))\n    \
        response = hear('result')['response']\n    offer = response['data']\n    \
        if response['error'] is None:\n        \
        permit = dict(permit_id=offer['permit_id'], simulation_hash=offer['simulation_hash'])\n        \
        say(type='call', id='c%d' % n, tool='commit_action', params=permit)\n        \
        response = hear('result')['response']\n    \
        code = (response['error'] or dict(code='none'))['code']\n    said.append(response['status'] + ' ' + code)\n    \
        if code in ('none', 'APPROVAL_REQUIRED', 'APPROVAL_REFUSED'): break\n    \
        time.sleep(1)\n\
        say(type='done', why=', '.join(said))\nhear('bye')\n";
    std::fs::write(&script, text).unwrap();
    script.display().to_string()
}

/// Nobody can be asked: an action that needs the operator's approval is blocked at once, and where `ask` was wanted, a line
/// says how to approve it.
#[cfg(unix)]
#[test]
fn a_headless_brain_does_not_wait_for_approvals_that_nobody_can_give() {
    if !bardo_testkit::python::python() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let programs = tempfile::tempdir().unwrap();
    let brain = format!("process:python3 {}", large_swap_brain(programs.path()));
    let run_with = |more: &[&str]| {
        run(bardo(home.path()).env("PATH", &path).args(["golem", "run", "--headless", "--brain", &brain]).args(more))
    };
    for (more, hint) in [(&["--approve", "never"][..], false), (&["--approve", "ask"], true), (&[], false)] {
        let begun = Instant::now();
        let (out, err, code) = run_with(more);
        assert!(code == 0 && out.contains("blocked APPROVAL_REQUIRED"), "{more:?}: {err}\n{out}");
        assert!(!out.contains("\"approval:requested\""), "{more:?}: nobody was asked: {out}");
        assert!(begun.elapsed() < Duration::from_secs(200), "a question would have waited for five minutes");
        let how = err.contains("no terminal here") && err.contains("on a terminal") && err.contains("`bardo --brain");
        assert_eq!(how, hint, "{more:?}: {err}");
    }
    for (more, wanted) in [
        (&["--approve", "always"][..], "never approved unseen"),
        (&["--approve", "never", "--brain", "scenario"], "answers as its file says"),
    ] {
        let arguments = ["golem", "run", "--headless"];
        let brain = if more.contains(&"--brain") { &[][..] } else { &["--brain", brain.as_str()][..] };
        let (_, err, code) = run(bardo(home.path()).env("PATH", &path).args(arguments).args(brain).args(more));
        assert!(code == 2 && err.contains(wanted), "{more:?}: {err}");
    }
}

/// On a terminal the operator decides, whatever the scenario beside the brain says about its own operator.
#[cfg(unix)]
#[test]
fn a_headless_brain_is_approved_on_the_terminal() {
    if !bardo_testkit::python::python() {
        return;
    }
    let programs = tempfile::tempdir().unwrap();
    let folders = std::env::var_os("PATH").unwrap();
    let python = std::env::split_paths(&folders).map(|folder| folder.join("python3")).find(|file| file.exists());
    let brain = format!("process:{} {}", python.unwrap().display(), large_swap_brain(programs.path()));
    for (typed, end) in [("yes\r", "success none"), ("too large\r", "rejected APPROVAL_REFUSED")] {
        let home = tempfile::tempdir().unwrap();
        let (shown, code) = crate::fixture::on_a_terminal(
            home.path(),
            &["golem", "run", "--headless", "--approve", "ask", "--brain", &brain],
            &[("Type yes to approve", typed)],
        );
        assert!(code == 0 && shown.contains(end), "{typed}: {shown}");
        assert!(shown.contains("above your $1,000 approval limit"), "{shown}");
    }
}

/// `bardo golem run --headless 2>&1 | head -1`: whoever reads has had enough, and that is no failure.
#[cfg(unix)]
#[test]
fn a_closed_stdout_does_not_fail_a_run() {
    let home = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bardo"));
    command.env_clear().env("BARDO_HOME", home.path());
    command.args(["golem", "run", "--headless", "--scenario", "first-tour", "--ticks", "20"]);
    // Both streams into the one pipe, as the shell's `2>&1` has them.
    command.stderr(writer.try_clone().unwrap()).stdout(writer);
    let mut run = command.spawn().unwrap();
    drop(command);
    let mut first = String::new();
    BufReader::with_capacity(1, reader).read_line(&mut first).unwrap();
    assert!(first.starts_with('{'), "{first}");
    // The pipe has no reader any more.
    assert_eq!(run.wait().unwrap().code(), Some(0));
}
