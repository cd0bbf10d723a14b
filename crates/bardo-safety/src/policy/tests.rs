use std::path::Path;

use alloy::primitives::address;

use super::*;
use crate::approval::ApprovalNeed;
use crate::ledger::{CapPeriod, MicroUsd};
use bardo_base::model::{Check, Phase};
use golem_chain::token::TokenId;

fn text(toml: &str) -> Result<Policy, PolicyError> {
    parse(toml, Path::new("policy.toml"))
}

fn value(policy: &Policy, name: &str) -> String {
    policy.fields().into_iter().find(|field| field.name == name).unwrap_or_else(|| panic!("no field {name}")).value
}

/// Fields and defaults of source document 001's table.
const ALMANAK: [(&str, &str); 17] = [
    ("max_single_trade_usd", "\"10000\""),
    ("max_daily_spend_usd", "\"50000\""),
    ("max_position_size_usd", "\"100000\""),
    ("allowed_tools", "\"all\""),
    ("allowed_chains", "[\"arbitrum\"]"),
    ("allowed_protocols", "\"all\""),
    ("allowed_tokens", "\"bundled\""),
    ("allowed_intent_types", "\"all\""),
    ("allowed_execution_wallets", "\"all\""),
    ("require_human_approval_above_usd", "\"10000\""),
    ("require_simulation_before_execution", "true"),
    ("max_trades_per_hour", "10"),
    ("max_tool_calls_per_minute", "60"),
    ("stop_loss_pct", "\"5\""),
    ("max_consecutive_failures", "3"),
    ("min_rebalance_benefit_usd", "\"10\""),
    ("cooldown_seconds", "300"),
];

#[test]
fn defi_trading_has_the_documents_defaults() {
    let policy = Policy::preset(PolicyPreset::DefiTrading);
    for (field, default) in ALMANAK {
        assert_eq!(value(&policy, field), default, "{field}");
    }
    assert_eq!(value(&policy, "require_rebalance_check"), "true");
    for field in [
        "safe_addresses",
        "tools",
        "spending_limits.per_transaction",
        "spending_limits.per_day",
        "spending_limits.hot_lane",
    ] {
        value(&policy, field);
    }
}

#[test]
fn demo_has_the_specified_figures() {
    let policy = Policy::preset(PolicyPreset::Demo);
    for (field, figure) in [
        ("max_single_trade_usd", "\"2500\""),
        ("max_daily_spend_usd", "\"5000\""),
        ("max_monthly_spend_usd", "\"50000\""),
        ("require_human_approval_above_usd", "\"1000\""),
        ("spending_limits.hot_lane", "\"2000\""),
        ("stop_loss_pct", "\"10\""),
        ("max_consecutive_failures", "3"),
        ("max_trades_per_hour", "120"),
        ("max_tool_calls_per_minute", "60"),
        ("cooldown_seconds", "0"),
        ("max_slippage_bps", "100"),
        ("max_price_impact_bps", "200"),
        ("max_loss_bps", "200"),
        ("allowed_chains", "[\"devnet-ethereum\", \"devnet-base\"]"),
        ("phases.cautious.size_factor_bps", "5000"),
        ("phases.cautious.max_slippage_bps", "30"),
        ("phases.cautious.max_price_impact_bps", "100"),
        ("phases.defensive.size_factor_bps", "5000"),
        ("phases.survival.size_factor_bps", "5000"),
        ("phases.defensive.exit_only", "true"),
        ("phases.survival.max_position_share_bps", "2500"),
        ("phases.terminal.max_slippage_bps", "200"),
    ] {
        assert_eq!(value(&policy, field), figure, "{field}");
    }
}

#[test]
fn presets_from_demo_to_read_only_only_grow_tighter_where_they_share_a_purpose() {
    let [read_only, _, defi, paranoid] = PolicyPreset::ALL.map(Policy::preset);
    for (wide, narrow, looser) in [(&defi, &paranoid, &[][..]), (&paranoid, &read_only, &["allowed_chains"])] {
        // The list of chains also limits reads, and read-only reads every chain. It still acts on none.
        let changes = wide.changes(narrow).into_iter().filter(|change| !change.tighter);
        assert_eq!(changes.map(|change| change.field).collect::<Vec<_>>(), looser);
    }
    assert_eq!(value(&read_only, "allowed_intent_types"), "[]");
}

#[test]
fn a_file_says_where_it_differs() {
    let policy = text(
        "# mine\npreset = \"demo\"\nmax_single_trade_usd = 1_000\nstop_loss_pct = \"7.5\"\nallowed_chains = [\"base\", \"31337\"]\n\n\
         [spending_limits]\nhot_lane = \"500.50\"\n[phases.cautious]\nsize_factor_bps = 2500\n\
         [tools.uniswap_execute_swap]\nrequires_approval_above_usd = \"250\"\n\
         [token_caps.\"base:native\"]\nmax_daily_usd = \"40\"\n",
    )
    .unwrap();
    for (field, figure, set_by) in [
        ("max_single_trade_usd", "\"1000\"", "line 3"),
        ("stop_loss_pct", "\"7.5\"", "line 4"),
        ("allowed_chains", "[\"base\", \"devnet-ethereum\"]", "line 5"),
        ("spending_limits.hot_lane", "\"500.5\"", "line 8"),
        ("spending_limits.per_day", "\"5000\"", "preset demo"),
        ("phases.cautious.size_factor_bps", "2500", "line 10"),
        ("phases.cautious.max_slippage_bps", "30", "preset demo"),
        ("max_daily_spend_usd", "\"5000\"", "preset demo"),
    ] {
        assert_eq!((value(&policy, field).as_str(), policy.set_by(field).as_str()), (figure, set_by), "{field}");
    }
    let caps = policy.caps(Phase::Cautious, false);
    let single = caps.spend.iter().find(|cap| cap.rule == bardo_base::model::RuleName::MaxSingleTradeUsd).unwrap();
    assert_eq!((single.limit, single.span), (MicroUsd::new(250_000_000).unwrap(), CapPeriod::Once));
    assert_eq!(caps.tokens[&(8_453, TokenId::Native)].day, Some(MicroUsd::new(40_000_000).unwrap()));
    // Exits are not scaled, and neither are windows.
    let whole = policy.caps(Phase::Cautious, true);
    assert!(whole.spend.iter().any(|cap| cap.limit == MicroUsd::new(1_000_000_000).unwrap()));
    assert!(
        caps.spend.iter().any(|cap| cap.span == CapPeriod::Day && cap.limit == MicroUsd::new(5_000_000_000).unwrap())
    );
}

#[test]
fn an_invalid_policy_entry_is_rejected_with_its_line() {
    for (toml, line, what) in [
        ("preset = \"demo\"\n\nmax_single_trade_usdd = 5\n", 3, "did you mean `max_single_trade_usd`?"),
        ("preset = \"demo\"\n[spending_limits]\nhotlane = 5\n", 3, "did you mean `hot_lane`?"),
        ("preset = \"demo\"\nmax_gas_usd = 1.5\n", 2, "put it in quotes"),
        ("preset = \"demo\"\nmax_gas_usd = \"-5\"\n", 2, "without a sign"),
        ("preset = \"demo\"\nmax_gas_usd = true\n", 2, "dollars such as"),
        ("preset = \"demo\"\nstop_loss_pct = \"101\"\n", 2, "more than 100 percent"),
        ("preset = \"demo\"\nmax_trades_per_hour = -1\n", 2, "integer `-1`"),
        ("preset = \"demo\"\nmax_slippage_bps = 10001\n", 2, "10000"),
        ("preset = \"demo\"\nallowed_chains = [\"bse\"]\n", 2, "did you mean 'base'?"),
        ("preset = \"demo\"\nallowed_tokens = [\"USDC\"]\n", 2, "does not name a chain"),
        ("preset = \"demo\"\nallowed_tokens = [\"base:USDC\"]\n", 2, "is not an address"),
        (
            "preset = \"demo\"\nallowed_tokens = [\"base:0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266\"]\n",
            2,
            "wrong checksum",
        ),
        ("preset = \"demo\"\nallowed_tokens = \"book\"\n", 2, "\"bundled\""),
        ("preset = \"demo\"\nactive_hours = [\"Fri-Mon 08:00-18:00\"]\n", 2, "is not a time range"),
        ("preset = \"dmeo\"\n", 1, "did you mean \"demo\"?"),
        ("max_gas_usd = \"5\"\n", 1, "no preset named"),
        ("preset = \"demo\"\nmax_gas_usd = \n", 2, ""),
        ("preset = \"demo\"\n\nrequire_simulation_before_execution = false\n", 3, "cannot be switched off"),
        ("preset = \"demo\"\nmax_gas_usd = 1\nmax_gas_usd = 2\n", 3, "duplicate key"),
    ] {
        match text(toml) {
            Err(PolicyError::Line { line: found, what: told, .. }) => {
                assert_eq!(found, line, "{toml}: {told}");
                assert!(told.contains(what), "{toml}: {told}");
            }
            other => panic!("{toml}: {other:?}"),
        }
    }
}

#[test]
fn every_field_reads_back_as_it_is_shown() {
    for preset in PolicyPreset::ALL {
        let policy = Policy::preset(preset);
        // Applied over another preset, so that an ignored field would show.
        let mut toml = String::from("preset = \"paranoid\"\n");
        for field in policy.fields() {
            toml.push_str(&format!("{} = {}\n", field.name, field.value));
        }
        let back = text(&toml).unwrap();
        assert_eq!(back.rules(), policy.rules(), "{}", preset.as_str());
        assert_eq!(back.hash(), policy.hash());
    }
}

#[test]
fn a_policy_that_differs_in_anything_has_another_hash() {
    let base = text("preset = \"demo\"\n").unwrap();
    assert_eq!(base.hash(), Policy::preset(PolicyPreset::Demo).hash());
    for line in [
        "max_gas_usd = \"99\"",
        "max_fee_per_gas_gwei = \"1.5\"",
        "allowed_recipients = [\"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\"]",
        "active_hours = [\"Mon 00:00-00:01\"]",
        "token_caps = { \"1:native\" = { max_single_usd = 1 } }",
        "tools = { x = { requires_approval_above_usd = \"none\" } }",
        "phases.terminal.exit_only = false",
    ] {
        assert_ne!(text(&format!("preset = \"demo\"\n{line}\n")).unwrap().hash(), base.hash(), "{line}");
    }
}

#[test]
fn every_change_knows_whether_it_is_tighter() {
    let base = text(
        "preset = \"demo\"\nallowed_tokens = [\"1:native\", \"8453:native\"]\n\
         allowed_contracts = [\"base:0x0000000000000000000000000000000000000001\"]\nactive_hours = [\"Mon-Fri 08:00-18:00\"]\n",
    )
    .unwrap();
    for (line, tighter) in [
        ("max_gas_usd = \"99\"", true),
        ("max_gas_usd = \"none\"", false),
        ("max_hourly_spend_usd = \"1\"", true),
        ("cooldown_seconds = 1", true),
        ("always_approve = []", true),
        ("allowed_tools = [\"a\"]", true),
        ("allowed_tokens = [\"1:native\"]", true),
        ("allowed_tokens = [\"1:native\", \"10:native\"]", false),
        ("allowed_tokens = \"all\"", false),
        ("allowed_contracts = [\"base:0x0000000000000000000000000000000000000001:0x12345678\"]", true),
        ("allow_unlimited_allowance = true", false),
        ("approve_first_seen = false", false),
        ("allowed_recipients = \"self\"", true),
        ("active_hours = [\"Mon 09:00-10:00\"]", true),
        ("active_hours = [\"Sat 09:00-10:00\"]", false),
        ("active_hours = \"always\"", false),
        ("delay_seconds = 1", false),
        ("stop_loss_pct = 11", false),
        ("max_quote_age_seconds = 5", true),
        ("phases.cautious.size_factor_bps = 9000", false),
        ("tools = { x = { requires_approval_above_usd = \"5\" } }", true),
        ("token_caps = { \"1:native\" = { max_single_usd = 1 } }", true),
    ] {
        let key = line.split(" =").next().unwrap();
        let kept: String = "allowed_tokens = [\"1:native\", \"8453:native\"]\n\
            allowed_contracts = [\"base:0x0000000000000000000000000000000000000001\"]\nactive_hours = [\"Mon-Fri 08:00-18:00\"]\n"
            .lines()
            .filter(|one| !one.starts_with(key))
            .map(|one| format!("{one}\n"))
            .collect();
        let next = text(&format!("preset = \"demo\"\n{kept}{line}\n")).unwrap();
        let changes = base.changes(&next);
        assert_eq!(changes.iter().map(|change| change.tighter).collect::<Vec<_>>(), [tighter], "{line}: {changes:?}");
    }
    // From the bundled list to an explicit list: until a decision, only items on both are allowed.
    let (bundled, listed) =
        (text("preset = \"demo\"").unwrap(), text("preset = \"demo\"\nallowed_tokens = [\"1:native\"]").unwrap());
    let between = bundled.stricter(&listed);
    let native = TokenRef { chain: ChainId(1), token: TokenId::Native };
    assert!(between.rules().allowed_tokens.allows(&native, true));
    assert!(!between.rules().allowed_tokens.allows(&native, false));
}

fn write(path: &Path, toml: &str) {
    std::fs::write(path, toml).unwrap();
    // File times may be as coarse as a clock tick, so set a distinct one instead of waiting.
    let (file, at) = (std::fs::File::options().write(true).open(path).unwrap(), std::time::SystemTime::now());
    static AGE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let age = AGE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    file.set_modified(at + std::time::Duration::from_secs(age)).unwrap();
}

#[test]
fn a_tighter_file_holds_at_once_a_looser_one_waits_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    let keeper = PolicyKeeper::open(path.clone(), PolicyPreset::ReadOnly).unwrap();
    assert_eq!(keeper.current().policy.name(), "read-only");

    write(&path, "preset = \"demo\"\n");
    let keeper = PolicyKeeper::open(path.clone(), PolicyPreset::ReadOnly).unwrap();
    assert_eq!(keeper.follow(), PolicyFileCheck::Unchanged);

    write(&path, "preset = \"demo\"\nmax_gas_usd = \"50\"\n");
    assert!(matches!(keeper.follow(), PolicyFileCheck::Tightened(changes) if changes.len() == 1));
    assert_eq!((value(&keeper.current().policy, "max_gas_usd").as_str(), keeper.current().version), ("\"50\"", 2));
    assert_eq!(keeper.pending(), None);

    write(&path, "preset = \"demo\"\nmax_gas_usd = \"60\"\nmax_trades_per_hour = 7\n");
    let PolicyFileCheck::Waits(pending) = keeper.follow() else { panic!("it did not wait") };
    let now = keeper.current().policy;
    assert_eq!((value(&now, "max_gas_usd").as_str(), value(&now, "max_trades_per_hour").as_str()), ("\"50\"", "7"));
    assert_eq!(pending.changes.iter().map(|change| change.field.as_str()).collect::<Vec<_>>(), ["max_gas_usd"]);
    assert_eq!(keeper.pending(), Some(pending.clone()));

    // An approval covers exactly the policy that is waiting.
    write(&path, "preset = \"demo\"\nmax_gas_usd = \"none\"\n");
    assert!(matches!(keeper.follow(), PolicyFileCheck::Waits(_)));
    assert!(keeper.accept(pending.policy.hash()).is_none());
    let waiting = keeper.pending().unwrap();
    let adopted = keeper.accept(waiting.policy.hash()).unwrap();
    assert_eq!(value(&adopted.policy, "max_gas_usd"), "\"none\"");
    assert_eq!(keeper.pending(), None);
    assert!(keeper.accept(waiting.policy.hash()).is_none());

    // While the file is broken, the looser policy that it had before can be neither seen nor accepted.
    let looser = "preset = \"demo\"\nmax_gas_usd = \"none\"\nmax_trades_per_hour = 500\n";
    write(&path, looser);
    assert!(matches!(keeper.follow(), PolicyFileCheck::Waits(_)));
    let hash = keeper.pending().unwrap().policy.hash();
    write(&path, "preset = ");
    assert!(matches!(keeper.follow(), PolicyFileCheck::Broken(_)));
    assert!(keeper.pending().is_none() && keeper.accept(hash).is_none());
    write(&path, looser);
    keeper.follow();
    assert_eq!(keeper.pending().map(|pending| pending.policy.hash()), Some(hash));
    assert!(keeper.refuse(hash));

    let held = keeper.current().policy.hash();
    for broken in ["preset = ", "", "preset = \"demo\"\nnonsense = 1\n"] {
        write(&path, broken);
        assert!(matches!(keeper.follow(), PolicyFileCheck::Broken(_)), "{broken}");
        assert_eq!(keeper.current().policy.hash(), held);
    }
    // Without the file the preset for an absent file applies, and it is tighter.
    std::fs::remove_file(&path).unwrap();
    keeper.follow();
    assert_eq!(value(&keeper.current().policy, "max_trades_per_hour"), "0");
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_the_file_keeps_what_is_in_force_and_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (path, aside) = (folder.path().join("policy.toml"), folder.path().join("aside"));
    write(&path, "preset = \"demo\"\n");
    let keeper = std::sync::Arc::new(PolicyKeeper::open(path.clone(), PolicyPreset::ReadOnly).unwrap());
    std::fs::rename(&path, &aside).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (tell, told) = std::sync::mpsc::channel();
    let following = keeper.clone();
    std::thread::spawn(move || tell.send(following.follow()));
    let followed = told.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for the pipe");
    let PolicyFileCheck::Broken(error) = followed else { panic!("{followed:?}") };
    assert!(error.to_string().contains("policy.toml: it is a named pipe"), "{error}");
    assert_eq!((keeper.current().policy.name().as_str(), keeper.broken()), ("demo*", Some(error)));
    // The same file is back.
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!((keeper.follow(), keeper.broken()), (PolicyFileCheck::Unchanged, None));
}

#[test]
fn consent_grows_with_the_value() {
    let policy = text(
        "preset = \"demo\"\nnotify_above_usd = \"10\"\ndelay_above_usd = \"100\"\ndelay_seconds = 30\n\
         [tools.uniswap_execute_swap]\nrequires_approval_above_usd = \"500\"\n",
    )
    .unwrap();
    let consent = |tool, dollars: &str| policy.consent(tool, dollars.parse().unwrap());
    assert_eq!(consent("token_approve", "10"), ApprovalNeed::Instant);
    assert_eq!(consent("token_approve", "10.000001"), ApprovalNeed::Notify);
    assert_eq!(consent("token_approve", "100.01"), ApprovalNeed::Delay { millis: 30_000 });
    assert_eq!(consent("token_approve", "1000"), ApprovalNeed::Delay { millis: 30_000 });
    let reasons = |need| match need {
        ApprovalNeed::Approval { reasons } => reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        reasons(consent("token_approve", "1000.01")),
        ["$1,000.01 is above $1,000.00 (require_human_approval_above_usd)"]
    );
    assert_eq!(reasons(consent("uniswap_execute_swap", "2000.01")).len(), 3);
    assert!(policy.above_hot_lane("2000.01".parse().unwrap()) && !policy.above_hot_lane("2000".parse().unwrap()));
    // A standing approval covers no action that a second party must agree to: the lower of both limits counts.
    assert_eq!(policy.largest_granted(), Some(bardo_base::units::Usd::whole(2_000)));
    let second = "[second_approval]\nabove_usd = 1500\napprovers = [\"0x00000000000000000000000000000000000000AA\"]\n";
    let with_second = text(&format!("preset = \"demo\"\n{second}")).unwrap();
    assert_eq!(with_second.largest_granted(), Some(bardo_base::units::Usd::whole(1_500)));
}

#[test]
fn no_field_is_carried_in_silence() {
    let fields = Policy::preset(PolicyPreset::Demo).fields();
    for field in &fields {
        assert!(field.about.ends_with('.') || field.about.contains('…'), "{}: {}", field.name, field.about);
        match field.enforced {
            EnforcedBy::By(check) => assert!(Check::ALL.contains(&check)),
            EnforcedBy::Approval | EnforcedBy::Sending | EnforcedBy::Routing | EnforcedBy::Load => {}
            EnforcedBy::Tools(tools) => {
                assert_eq!(field.enforced_with(&["token_approve"]), Err(NotEnforced(tools[0])), "{}", field.name);
                for tool in tools {
                    let enforcer = field.enforced_with(&["token_approve", tool]).unwrap();
                    assert_eq!(enforcer, PolicyEnforcer::Tools(tools), "{}", field.name);
                }
            }
        }
    }
    // One wallet on every chain, however it is written.
    let wallet = Wallet(address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
    let policy =
        text("preset = \"demo\"\nallowed_execution_wallets = [\"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266\"]")
            .unwrap();
    assert!(policy.rules().allowed_execution_wallets.allows(&wallet, false));
}

#[test]
fn a_policy_loosened_while_no_program_ran_is_delayed_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    let held = text("preset = \"demo\"\nmax_gas_usd = \"50\"\n").unwrap();
    // One value looser, one tighter.
    write(&path, "preset = \"demo\"\nmax_gas_usd = \"60\"\nmax_trades_per_hour = 7\n");
    let keeper = PolicyKeeper::open(path.clone(), PolicyPreset::ReadOnly).unwrap();
    assert!(matches!(keeper.resume(held.clone()), PolicyFileCheck::Waits(_)));
    let now = keeper.current().policy;
    assert_eq!((value(&now, "max_gas_usd").as_str(), value(&now, "max_trades_per_hour").as_str()), ("\"50\"", "7"));
    let waiting = keeper.pending().unwrap();
    // A rejected policy is not offered again until the file changes.
    assert!(keeper.refuse(waiting.policy.hash()) && keeper.pending().is_none());
    write(&path, "preset = \"demo\"\nmax_gas_usd = \"61\"\nmax_trades_per_hour = 7\n");
    assert!(matches!(keeper.follow(), PolicyFileCheck::Waits(_)));
    assert!(!keeper.refuse(waiting.policy.hash()) && keeper.pending().is_some());

    // The policy between two files can be restored from its texts.
    let sources: Vec<&str> = now.sources().iter().map(AsRef::as_ref).collect();
    let again = Policy::from_sources(sources).unwrap().unwrap();
    assert_eq!(again.hash(), now.hash());
    assert_eq!(Policy::from_sources([]).unwrap(), None);
    assert!(Policy::from_sources(["preset = \"demo\"\nnonsense = 1\n"]).is_err());
    let tighter = PolicyKeeper::open(path, PolicyPreset::ReadOnly).unwrap();
    assert!(matches!(
        tighter.resume(Policy::preset(PolicyPreset::DefiTrading).stricter(&held)),
        PolicyFileCheck::Waits(_)
    ));
}

proptest::proptest! {
    /// Half the size in Cautious, Defensive and Survival, rounded down to a millionth of a dollar. The full size in
    /// Thriving and Terminal, and for exits.
    #[test]
    fn caution_halves_what_one_trade_may_be(micros in 2_u64..10_000_000_000_000, phase in 0_usize..5) {
        let dollars = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        let policy = text(&format!("preset = \"demo\"\nmax_single_trade_usd = \"{dollars}\"\n")).unwrap();
        let once = |exit| {
            let caps = policy.caps(Phase::ALL[phase], exit);
            caps.spend.iter().find(|cap| cap.rule == bardo_base::model::RuleName::MaxSingleTradeUsd).unwrap().limit.get()
        };
        proptest::prop_assert_eq!(once(false), if (1..=3).contains(&phase) { micros / 2 } else { micros });
        proptest::prop_assert_eq!(once(true), micros);
    }
}

#[test]
fn a_second_approval_needs_an_amount_and_other_persons() {
    let approver = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
    let file = |rules: &str| format!("preset = \"demo\"\n[second_approval]\n{rules}");
    let read = |rules: &str| parse(&file(rules), Path::new("policy.toml"));
    let policy = read(&format!("above_usd = \"500\"\napprovers = [\"{approver}\"]\n")).unwrap();
    let (above, approvers) = policy.second_approval().unwrap();
    assert_eq!((above.to_string().as_str(), approvers.len()), ("500", 1));
    let zero = "0x0000000000000000000000000000000000000000";
    for (rules, line, why) in [
        ("above_usd = 500\n".to_owned(), 3, "needs second_approval.approvers"),
        (format!("\napprovers = [\"{approver}\"]\n"), 4, "no effect without second_approval.above_usd"),
        ("above_usd = 500\napprovers = []\n".to_owned(), 4, "it names nobody"),
        (format!("above_usd = 500\napprovers = [\"{zero}\"]\n"), 4, "the zero address"),
        (
            format!("above_usd = 500\napprovers = [\"{approver}\", \"{}\"]\n", approver.to_lowercase()),
            4,
            "listed twice",
        ),
        ("above_usd = 500\napprovers = [\"0x12\"]\n".to_owned(), 4, "is not an address"),
        ("above_usd = 500\napprovers = \"all\"\n".to_owned(), 4, "write \"none\" or a list"),
    ] {
        let error = read(&rules).unwrap_err();
        let PolicyError::Line { line: at, what, .. } = &error else { panic!("{error}") };
        assert!(*at == line && what.contains(why), "{rules}: {error}");
    }
}

#[test]
fn weakening_a_second_approval_is_looser_and_one_approver_less_is_tighter() {
    let (one, two) = ("0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC");
    let of = |above: &str, approvers: &[&str]| {
        let listed = approvers.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ");
        let rules = format!("preset = \"demo\"\n[second_approval]\nabove_usd = \"{above}\"\napprovers = [{listed}]\n");
        parse(&rules, Path::new("policy.toml")).unwrap()
    };
    let none = Policy::preset(PolicyPreset::Demo);
    let looser = |from: &Policy, to: &Policy| from.changes(to).iter().any(|change| !change.tighter);
    assert!(!looser(&none, &of("500", &[one])) && looser(&of("500", &[one]), &none));
    assert!(looser(&of("500", &[one]), &of("501", &[one])) && !looser(&of("500", &[one]), &of("499", &[one])));
    assert!(
        looser(&of("500", &[one]), &of("500", &[one, two])) && !looser(&of("500", &[one, two]), &of("500", &[one]))
    );
    // Another person instead: the one in force decides about it.
    let (before, after) = (of("500", &[one]), of("500", &[two]));
    assert!(looser(&before, &after));
    assert_eq!(before.stricter(&after).second_approval(), before.second_approval());
}

#[test]
fn a_policy_without_a_second_approval_has_the_hash_of_earlier_versions() {
    // As version 0.1 prints it for its preset without a file.
    let of_demo = "0x5caec2d6f183a4e20a81e4e1a4ad425c56257efbe2cd3ef8c6395b6141e515e8";
    assert_eq!(Policy::preset(PolicyPreset::Demo).hash().to_string(), of_demo);
}

/// The preset limits one action and one day twice: raising one of both alone permits nothing more.
#[test]
fn a_lower_limit_over_the_same_period_binds_and_is_named() {
    let before = Policy::preset(PolicyPreset::Demo);
    let after = text("preset = \"demo\"\nmax_single_trade_usd = \"4000\"\n").unwrap();
    let bound = after.binding(&before.changes(&after));
    let shown: Vec<_> = bound.iter().map(|cap| (cap.field.as_str(), cap.by.as_str(), cap.limit)).collect();
    let limit = bardo_base::units::Usd::whole(2_500);
    assert_eq!(shown, [("max_single_trade_usd", "spending_limits.per_transaction", limit)]);
    // Both raised, or lowered: nothing else binds.
    let both = "preset = \"demo\"\nmax_single_trade_usd = \"4000\"\n[spending_limits]\nper_transaction = \"4000\"\n";
    for lines in [both, "preset = \"demo\"\nmax_single_trade_usd = \"100\"\n"] {
        let after = text(lines).unwrap();
        assert_eq!(after.binding(&before.changes(&after)), [], "{lines}");
    }
}
