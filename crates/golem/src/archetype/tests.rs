use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;
use golem_tools::ALL_TOOL_DEFS;

fn catalog() -> Catalog {
    Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap()
}

/// Loads the built-in roles with these files over them.
fn with(own: &[(&str, &str)]) -> Archetypes {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in own {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    Archetypes::load(Some(folder.path())).unwrap()
}

/// Returns the error of the first of these files.
fn refused(own: &[(&str, &str)]) -> String {
    let roles = with(own);
    roles.get(own[0].0.trim_end_matches(".toml")).unwrap_err().to_string()
}

#[test]
fn the_documents_graph_is_the_bundled_one() {
    let roles = Archetypes::load(None).unwrap();
    let roles = roles.with_tools_of(&catalog());
    assert_eq!(roles.broken().count(), 0);
    let edges = |name: &str| -> BTreeSet<String> {
        let drawn = roles.get(name).unwrap().delegates_to.iter().filter(|edge| edge.added.is_none());
        drawn.map(|edge| edge.to.clone()).collect()
    };
    // Delegation hierarchy of the specification.
    for (name, to) in [
        (
            "golem-instance",
            "trade-executor liquidity-manager vault-manager vault-strategist lp-strategist risk-assessor memory-consolidator",
        ),
        ("trade-executor", "safety-guardian risk-assessor"),
        ("liquidity-manager", "safety-guardian risk-assessor pool-researcher"),
        ("cross-chain-executor", "safety-guardian risk-assessor trade-executor"),
        ("vault-manager", "safety-guardian risk-assessor"),
        ("vault-strategist", "pool-researcher risk-assessor"),
        ("hook-builder", ""),
        ("integration-architect", ""),
        ("integration-advisor", ""),
    ] {
        assert_eq!(edges(name), to.split_whitespace().map(str::to_owned).collect(), "{name}");
    }
    let terminal: BTreeSet<_> = roles.iter().filter(|role| role.terminal).map(|role| role.name.as_str()).collect();
    let documents = "safety-guardian risk-assessor wallet-provisioner pnl-analyst pool-researcher token-analyst \
                     identity-verifier position-monitor heartbeat-monitor memory-consolidator vault-watchdog \
                     sleepwalker-observer";
    // The one role of ours is on nobody's way.
    let ours = "agent-keeper";
    assert_eq!(terminal, documents.split_whitespace().chain([ours]).collect());
    assert!(roles.iter().all(|role| role.delegates_to.iter().all(|edge| edge.to != ours)));
    // Every file in the folder is built in.
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../assets/archetypes");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), roles.iter().count());
}

#[test]
fn added_edges_say_why() {
    let roles = Archetypes::load(None).unwrap();
    let added: Vec<_> = roles
        .iter()
        .flat_map(|role| {
            role.delegates_to.iter().filter(|edge| edge.added.is_some()).map(|edge| (&*role.name, &*edge.to))
        })
        .collect();
    assert_eq!(
        added,
        [
            ("golem-instance", "cross-chain-executor"),
            ("lp-strategist", "safety-guardian"),
            ("lp-strategist", "pool-researcher"),
            ("lp-strategist", "risk-assessor"),
        ]
    );
}

#[test]
fn a_role_that_does_not_write_has_no_tool_that_signs() {
    let (roles, all) = (Archetypes::load(None).unwrap(), catalog());
    let signs = |name: &str| {
        let tools = roles.get(name).unwrap().tools(&all).unwrap();
        tools.iter().any(|entry| entry.def.meta.signs())
    };
    // Without `writes` a role changes nothing but its own notes.
    let own = roles.get("golem-instance").unwrap().tools(&all).unwrap();
    let changes = own.iter().filter(|entry| entry.def.meta.capability != CapabilityTier::Read);
    let changes: Vec<_> = changes.map(|entry| entry.def.meta.name).collect();
    assert_eq!(changes, ["record_agent_decision", "save_agent_state"]);
    assert!(signs("trade-executor"));
    // Its categories contain swaps, but the role does not write.
    assert!(!signs("position-monitor") && !signs("golem-instance"));
    assert!(roles.get("position-monitor").unwrap().tools(&all).unwrap().get("uniswap_get_quote").is_some());
}

#[test]
fn work_is_delegated_to_the_role_that_has_the_tool() {
    let (roles, all) = (Archetypes::load(None).unwrap(), catalog());
    let chain = |role: &str, tool: &str| roles.chain(role, tool, &all).unwrap_or_default().join(" ");
    assert_eq!(chain("golem-instance", "get_balances"), "golem-instance");
    assert_eq!(chain("golem-instance", "uniswap_execute_swap"), "golem-instance trade-executor");
    assert_eq!(chain("pool-researcher", "uniswap_execute_swap"), "");
    assert_eq!(chain("vault-strategist", "simulate_transaction"), "vault-strategist risk-assessor");
    assert!(roles.reach("golem-instance", &all).unwrap().get("uniswap_execute_swap").is_some());
    assert!(roles.reach("pool-researcher", &all).unwrap().get("uniswap_execute_swap").is_none());
}

#[test]
fn a_circular_handover_is_shown() {
    let own = [
        ("scout.toml", "name = \"scout\"\nabout = \"a\"\nprofile = \"data\"\ndelegates_to = [\"guide\"]\n"),
        ("guide.toml", "name = \"guide\"\nabout = \"a\"\nprofile = \"data\"\n\ndelegates_to = [\n  \"scout\",\n]\n"),
    ];
    let said = refused(&own);
    assert!(said.contains("circular, starting at `guide`"), "{said}");
    let drawn: Vec<_> = said.lines().skip(1).map(str::trim).collect();
    assert!(drawn[0].starts_with("guide  ("), "{said}");
    assert!(drawn[1].starts_with("→ scout  (") && drawn[1].contains("guide.toml, line 6)"), "{said}");
    assert!(drawn[2].starts_with("→ guide  (") && drawn[2].contains("scout.toml, line 4)"), "{said}");
    assert!(drawn[2].ends_with("← back here"), "{said}");
    let own = [("self.toml", "name = \"self\"\nabout = \"a\"\nprofile = \"data\"\ndelegates_to = [\"self\"]\n")];
    assert!(refused(&own).contains("→ self"));
}

#[test]
fn a_fourth_hop_is_shown() {
    let own =
        [("chief.toml", "name = \"chief\"\nabout = \"a\"\nprofile = \"data\"\ndelegates_to = [\"golem-instance\"]\n")];
    let said = refused(&own);
    assert!(said.contains("a chain of 4 hops from `chief`; at most 3"), "{said}");
    for name in ["→ golem-instance", "→ cross-chain-executor", "→ trade-executor"] {
        assert!(said.contains(name), "{name} in {said}");
    }
    assert!(said.lines().last().unwrap().ends_with("← too deep"), "{said}");
}

#[test]
fn a_writer_without_a_guardian_is_refused() {
    let own = |extra: &str| format!("name = \"rogue\"\nabout = \"a\"\nwrites = true\nprofile = \"trader\"\n{extra}");
    let said = refused(&[("rogue.toml", &own("delegates_to = [\"risk-assessor\"]\n"))]);
    assert!(said.contains("`rogue` writes, but no path leads to `safety-guardian`"), "{said}");
    assert!(said.contains("→ risk-assessor") && said.contains("rogue.toml, line 5)"), "{said}");
    // A path over another role is accepted, and so is a terminal role, where the guardian runs inside the pipeline.
    assert!(with(&[("rogue.toml", &own("delegates_to = [\"trade-executor\"]\n"))]).get("rogue").is_ok());
    assert!(with(&[("rogue.toml", &own("terminal = true\n"))]).get("rogue").is_ok());
    // An override that removes the edge from a built-in role violates the same rule.
    let weaker = "name = \"vault-manager\"\nabout = \"a\"\nwrites = true\nprofile = \"vault\"\n";
    assert!(refused(&[("vault-manager.toml", weaker)]).contains("`vault-manager` writes, but no path leads"));
}

#[test]
fn a_terminal_role_delegates_to_no_other() {
    let own = "name = \"safety-guardian\"\nabout = \"a\"\nterminal = true\nprofile = \"data\"\ndelegates_to = [\"risk-assessor\"]\n";
    let said = refused(&[("safety-guardian.toml", own)]);
    assert!(said.contains("`safety-guardian` is terminal and must not delegate"), "{said}");
    assert!(said.contains("safety-guardian.toml, line 5)"), "{said}");
}

#[test]
fn an_unknown_entry_is_named_with_its_line() {
    let role = |more: &str| format!("name = \"scout\"\nabout = \"a\"\n{more}\n");
    for (text, line, wanted) in [
        (role("categories = [\"data\",\n \"tradign\"]"), 4, "did you mean `trading`?"),
        (role("profile = \"trade\""), 3, "did you mean `trader`?"),
        (role("profile = \"data\"\ndelegate_to = []"), 4, "unknown field `delegate_to`"),
        (role("profile = \"data\"\ndelegates_to = [\"safety-guard\"]"), 4, "did you mean `safety-guardian`?"),
        (role("profile = \"data\"\ndelegates_to = [\"risk-assessor\", \"risk-assessor\"]"), 4, "listed twice"),
        (role(""), 1, "has no tools"),
        ("name = \"other\"\nabout = \"a\"\nprofile = \"data\"\n".to_owned(), 1, "a file named other.toml"),
        ("about = \"a\"\n\nname = \"Scout\"\n".to_owned(), 3, "lower-case"),
        ("name = \n".to_owned(), 1, ""),
    ] {
        let said = refused(&[("scout.toml", &text)]);
        assert!(said.contains(&format!("scout.toml, line {line}: ")) && said.contains(wanted), "{said}");
    }
    let roles = with(&[("scout.toml", &role("include = [\"uniswap_get_qoute\"]"))]).with_tools_of(&catalog());
    let said = roles.get("scout").unwrap_err().to_string();
    assert!(said.contains("scout.toml, line 1") && said.contains("did you mean `uniswap_get_quote`?"), "{said}");
    assert!(roles.get("trade-executer").unwrap_err().to_string().contains("did you mean `trade-executor`?"));
}

#[test]
fn a_broken_file_stops_its_own_role_alone() {
    let own =
        [("scout.toml", "name = 1"), ("trade-executor.toml", "name = \"trade-executor\"\nabout = \"a\"\nbout = 1\n")];
    let roles = with(&own).with_tools_of(&catalog());
    let broken: Vec<_> = roles.broken().map(|(name, why)| (name.to_owned(), why.to_string())).collect();
    let names: Vec<_> = broken.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["scout", "trade-executor"]);
    assert!(
        broken[0].1.contains("scout.toml, line 1") && broken[1].1.contains("trade-executor.toml, line 3"),
        "{broken:?}"
    );
    // The built-in role of that name does not replace it.
    assert_eq!(roles.get("trade-executor").unwrap_err().to_string(), broken[1].1);
    // All other roles stay usable, including those that delegate to it. The broken role's tools are out of their reach.
    let built_in = Archetypes::load(None).unwrap().iter().count();
    assert_eq!(roles.iter().count(), built_in - 1);
    assert!(roles.get("pool-researcher").is_ok());
    let reach = |roles: &Archetypes, role: &str| roles.chain(role, "uniswap_execute_swap", &catalog());
    assert_eq!(reach(&with(&[]), "golem-instance").unwrap(), ["golem-instance", "trade-executor"]);
    assert!(reach(&roles, "golem-instance").is_none_or(|way| !way.contains(&"trade-executor".to_owned())));
}

/// A role that may write only under the guardian's review must not write without it.
#[test]
fn a_broken_guardian_stops_every_writer_that_needs_it() {
    let roles = with(&[("safety-guardian.toml", "name = 1")]);
    for name in ["safety-guardian", "trade-executor", "liquidity-manager", "vault-manager"] {
        assert!(roles.get(name).is_err(), "{name}");
    }
    let said = roles.get("trade-executor").unwrap_err().to_string();
    assert!(said.contains("`trade-executor` writes, but no path leads to `safety-guardian`"), "{said}");
    assert!(roles.get("pool-researcher").is_ok() && roles.get("risk-assessor").is_ok());
}

#[test]
fn all_errors_are_reported_at_once() {
    let roles = with(&[("one.toml", "name = 1"), ("two.toml", "name = 2")]);
    let all: Vec<_> = roles.broken().map(|(name, _)| name).collect();
    assert_eq!(all, ["one", "two"]);
}
