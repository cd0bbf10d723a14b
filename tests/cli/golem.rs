//! `bardo golem`: kinds of action, a brain that is a program, the playbook, and roles that stop the start.

use std::collections::BTreeSet;

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
    assert!(table.ends_with(&format!("{works} of {} kinds work\n", kinds.len())), "{table}");
    assert!(table.contains("lacks vault_deposit") || table.contains("lacks vault_simulate_deposit, vault_deposit"));
    // A role that does not write has none of them.
    let (role, _, _) = run(bardo(home.path()).args(["golem", "kinds", "--archetype", "pool-researcher"]));
    assert!(
        role.contains("not this role's: ") && role.ends_with(&format!("0 of {} kinds work\n", kinds.len())),
        "{role}"
    );
    let (_, err, code) = run(bardo(home.path()).args(["golem", "kinds", "--archetype", "trade-executer"]));
    assert!(code == 2 && err.contains("did you mean `trade-executor`?"), "{err}");
}

#[test]
fn a_brain_that_cannot_be_had_stops_the_start() {
    let home = tempfile::tempdir().unwrap();
    for (brain, wanted) in [
        ("oracle", "golem.brain (--brain): no brain is called `oracle`"),
        ("process:", "no program is named"),
        ("process:python3 'x", "a quote is not closed"),
        ("model", "set golem.model_url"),
    ] {
        let (out, err, code) = run(bardo(home.path()).args(["golem", "run", "--headless", "--brain", brain]));
        assert!(code == 1 && out.is_empty() && err.contains(wanted), "{brain}: {err}");
    }
    let file = "[golem]\nbrain = \"model\"\nmodel_name = \"x\"\nmodel_url = \"http://model.example/v1\"\n";
    std::fs::write(home.path().join("config.toml"), file).unwrap();
    let (_, err, code) =
        run(bardo(home.path()).args(["golem", "run", "--headless"]).env("BARDO_MODEL_KEY", "sk-secret"));
    assert!(code == 1 && err.contains("neither https nor http on this machine") && !err.contains("sk-secret"), "{err}");
    let (out, _, _) = run(bardo(home.path()).args(["config", "show"]).env("BARDO_MODEL_KEY", "sk-secret"));
    assert!(out.contains("golem.model_key") && !out.contains("sk-secret"), "{out}");
}

#[test]
fn wrong_roles_stop_the_start_with_the_way_drawn() {
    let home = tempfile::tempdir().unwrap();
    let roles = home.path().join("archetypes");
    std::fs::create_dir_all(&roles).unwrap();
    for (name, other) in [("guide", "scout"), ("scout", "guide")] {
        let text = format!("name = \"{name}\"\nabout = \"a\"\nprofile = \"data\"\ndelegates_to = [\"{other}\"]\n");
        std::fs::write(roles.join(format!("{name}.toml")), text).unwrap();
    }
    for arguments in [&["golem", "run", "--headless"][..], &["tools", "--archetype", "trade-executor"]] {
        let (out, err, code) = run(bardo(home.path()).args(arguments));
        assert!(code == 1 && out.lines().all(|line| !line.contains("golem:")), "{arguments:?}: {out}");
        assert!(err.contains("in a circle from `guide`") && err.contains("→ scout"), "{arguments:?}: {err}");
    }
}

/// Every rule of the roles stops the start, whichever command needs them.
#[test]
fn each_rule_of_the_roles_stops_the_start() {
    for (file, text, words) in [
        ("scout.toml", "profile = \"data\"\ncategories = [\"tradign\"]\n", "did you mean `trading`?"),
        (
            "chief.toml",
            "profile = \"data\"\ndelegates_to = [\"golem-instance\"]\n",
            "a chain of 4 hops from `chief`; at most 3",
        ),
        (
            "rogue.toml",
            "writes = true\nprofile = \"trader\"\ndelegates_to = [\"risk-assessor\"]\n",
            "`rogue` writes and has no way to `safety-guardian`",
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let roles = home.path().join("archetypes");
        std::fs::create_dir_all(&roles).unwrap();
        let name = file.trim_end_matches(".toml");
        std::fs::write(roles.join(file), format!("name = \"{name}\"\nabout = \"a\"\n{text}")).unwrap();
        for arguments in [&["golem", "run", "--headless"][..], &["tools", "--archetype", "trade-executor"]] {
            let (out, err, code) = run(bardo(home.path()).args(arguments));
            assert!(code == 1 && out.lines().all(|line| !line.contains("golem:")), "{arguments:?}: {out}");
            assert!(err.contains(words) && err.contains(file), "{arguments:?}: {err}");
        }
    }
}

/// A show that has raised a stop leaves it standing, like anybody: the next one says so instead of waiting for its end.
#[test]
fn no_show_is_begun_under_a_stop_that_would_hold_it_for_ever() {
    for level in ["pause", "halt", "revoke"] {
        let home = tempfile::tempdir().unwrap();
        let (_, err, code) = run(bardo(home.path()).args(["halt", "--level", level, "--reason", "enough"]));
        assert_eq!(code, 0, "{err}");
        let (out, err, code) =
            run(bardo(home.path()).args(["golem", "run", "--headless", "--scenario", "rebalancing"]));
        assert_eq!((out.as_str(), code), ("", 3), "{level}: {err}");
        assert!(err.contains(&format!("{level} is in force")) && err.contains("`bardo resume`"), "{err}");
    }
}

/// Whoever has watched a show that ends with a stop is told that it stands, and for whom.
#[test]
fn a_stop_that_a_show_leaves_is_told_at_its_end() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("show.toml");
    let beat = "[[beat]]\nat = 1\ndo = \"query_state\"\nparams = { query = \"balances\" }\nexpect = [\"success\"]\n";
    let cue = "[[cue]]\nat = 2\ndo = { stop = { level = \"exit-only\", reason = \"enough\" } }\n";
    let play = |text: &str| {
        std::fs::write(&file, format!("name = \"stopping\"\nabout = \"a\"\n{text}")).unwrap();
        run(bardo(home.path()).args(["golem", "run", "--headless", "--scenario"]).arg(&file))
    };
    let (_, err, code) = play(beat);
    assert!(code == 0 && !err.contains("in force"), "{err}");
    let (_, err, code) = play(&format!("{beat}{cue}"));
    assert!(code == 0 && err.contains("exit-only is in force and stays so") && err.contains("`bardo resume`"), "{err}");
}

#[cfg(unix)]
#[test]
fn a_program_leads_a_run_and_what_it_writes_can_be_taken_back() {
    if !crate::python::python() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["golem", "playbook"]));
    assert_eq!((out.as_str(), err.as_str(), code), ("", "bardo: no Golem has lived here yet\n", 0));
    let script = home.path().join("brain.py");
    let text = "import json, sys\n\
        def hear(wanted):\n    while True:\n        line = json.loads(sys.stdin.readline())\n        \
        if line['type'] == wanted: return line\n\
        def say(**line): print(json.dumps(line), flush=True)\nhear('tick')\n\
        note = dict(section='Gas', text='Wait below 20 gwei.', reason='it was dear')\n\
        say(type='call', id='1', tool='update_directive', params=note)\n\
        assert hear('result')['response']['status'] == 'success'\nsay(type='done', why='noted')\nhear('bye')\n";
    std::fs::write(&script, text).unwrap();
    let brain = format!("process:python3 {}", script.display());
    let (out, err, code) =
        run(bardo(home.path()).env("PATH", &path).args(["golem", "run", "--headless", "--brain", &brain]));
    assert!(code == 0 && err.contains("the brain is done"), "{err}");
    assert!(out.lines().any(|line| line.contains("golem:directive") && line.contains("Gas")), "{out}");
    let playbook = home.path().join("data/golems/ada/PLAYBOOK.md");
    assert!(std::fs::read_to_string(&playbook).unwrap().contains("Wait below 20 gwei."));
    let (out, _, _) = run(bardo(home.path()).args(["golem", "playbook"]));
    assert!(out.starts_with("1  Gas: it was dear\n") && out.contains("(no such section)"), "{out}");
    let (out, _, code) = run(bardo(home.path()).args(["golem", "playbook", "undo", "1"]));
    assert_eq!((out.as_str(), code), ("change 1 of \"Gas\" is taken back\n", 0));
    assert!(!std::fs::read_to_string(&playbook).unwrap().contains("gwei"));
    let (_, err, code) = run(bardo(home.path()).args(["golem", "playbook", "undo", "1"]));
    assert!(code == 1 && err.contains("there is no change 1"), "{err}");
}
