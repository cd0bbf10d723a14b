use std::path::Path;

use super::{
    AlertDetail, AlertRule, Config, ConfigError, ConfigFlags, Environment, FileProblem, KEYS, LogFormat, RpcUrl,
    RpcUrlError, SettingOrigin, TEMPLATE,
};

/// Creates a temporary folder with this configuration file.
fn home(file: &str) -> (tempfile::TempDir, Environment) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.toml"), file).unwrap();
    let environment = [("BARDO_HOME", dir.path().to_str().unwrap())].into_iter().collect();
    (dir, environment)
}

fn with(dir: &Path, more: &[(&str, &str)]) -> Environment {
    [("BARDO_HOME", dir.to_str().unwrap())].into_iter().chain(more.iter().copied()).collect()
}

fn problem(file: &str) -> (usize, FileProblem, String) {
    let (_dir, environment) = home(file);
    let error = Config::load(&environment, &ConfigFlags::default()).unwrap_err();
    let message = error.to_string();
    match error {
        ConfigError::File { line, problem, .. } => (line, *problem, message),
        other => panic!("{other}"),
    }
}

#[test]
fn without_a_file_the_defaults_hold() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::load(&with(dir.path(), &[]), &ConfigFlags::default()).unwrap();
    assert_eq!((config.network.value.as_str(), config.network.origin), ("devnet", SettingOrigin::Default));
    assert!(!config.file_exists);
    assert!(config.chains.is_empty());
    assert_eq!(config.data_dir.value, dir.path().join("data"));
}

#[test]
fn flags_beat_environment_beats_file() {
    let file = "network = \"base\"\n[chains.sepolia]\nrpc = [\"https://file.example\"]\nchain_id = 11155111\n";
    let (dir, environment) = home(file);
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    assert_eq!((config.network.value.as_str(), config.network.origin), ("base", SettingOrigin::File { line: 1 }));
    assert_eq!(config.chains["sepolia"].rpc.origin, SettingOrigin::File { line: 3 });

    let environment = with(
        dir.path(),
        &[
            ("BARDO_NETWORK", "sepolia"),
            ("BARDO_RPC_SEPOLIA", "https://one.example, https://two.example"),
            ("BARDO_RPC_BASE_SEPOLIA", "wss://three.example"),
        ],
    );
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    assert_eq!(config.network.value, "sepolia");
    assert_eq!(config.chains["sepolia"].rpc.value.len(), 2);
    assert_eq!(config.chains["sepolia"].chain_id.as_ref().unwrap().value, 11_155_111);
    assert_eq!(config.chains["base-sepolia"].rpc.origin, SettingOrigin::Environment("BARDO_RPC_BASE_SEPOLIA".into()));

    let flags = ConfigFlags {
        network: Some("devnet".into()),
        rpc: vec!["Sepolia=https://flag.example".into(), "sepolia=https://second.example".into()],
        book: None,
        ..ConfigFlags::default()
    };
    let config = Config::load(&environment, &flags).unwrap();
    assert_eq!((config.network.value.as_str(), config.network.origin), ("devnet", SettingOrigin::Flag("--network")));
    let rpc = &config.chains["sepolia"].rpc;
    assert_eq!(rpc.origin, SettingOrigin::Flag("--rpc"));
    assert_eq!(
        rpc.value.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["https://flag.example", "https://second.example"]
    );
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_known_one() {
    let (line, problem, message) = problem("\n# a comment\nnetwrok = \"base\"\n");
    assert_eq!(line, 3);
    assert!(
        matches!(&problem, FileProblem::UnknownKey { key, nearest: Some(near), .. } if key == "netwrok" && near == "network")
    );
    assert!(message.contains("config.toml, line 3: unknown key 'netwrok'"), "{message}");
    assert!(message.contains("did you mean 'network'?"), "{message}");
}

#[test]
fn an_unknown_key_of_a_chain_is_refused_too() {
    let (line, problem, message) = problem("[chains.base]\nrpc = []\nrcp = []\n");
    assert_eq!(line, 3);
    assert!(matches!(problem, FileProblem::UnknownKey { .. }));
    assert!(message.contains("unknown key 'rcp' (did you mean 'rpc'?) in [chains.base]"), "{message}");
}

#[test]
fn a_wrong_type_is_refused_with_its_line() {
    for (file, at, expected, found) in [
        ("network = 1", 1, "a string such as \"devnet\"", "a whole number"),
        ("\nchains = 5", 2, "a table such as [chains.sepolia]", "a whole number"),
        ("[chains.base]\nrpc = \"http://x\"", 2, "a list of URLs such as [\"http://127.0.0.1:8545\"]", "a string"),
        ("[chains.base]\nchain_id = \"8453\"", 2, "a whole number such as 11155111", "a string"),
        ("[chains]\nbase = []", 2, "a table such as [chains.sepolia]", "a list"),
        ("[prices.sepolia]\nETH = 3400.5", 2, "a string of dollars such as \"3400.00\"", "a number with a point"),
    ] {
        let (line, problem, _) = problem(file);
        assert_eq!(line, at, "{file}");
        assert!(
            matches!(&problem, FileProblem::WrongType { expected: e, found: f, .. } if *e == expected && *f == found),
            "{file}: {problem:?}"
        );
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for file in [
        "[prices.sepolia]\nETH = \"0\"",
        "[prices.sepolia]\nETH = \"-1\"",
        "[prices.sepolia]\nETH = \"1e3\"",
        "[chains.base]\nchain_id = 0",
        "[chains.base]\nchain_id = -5",
        "[chains.base]\nrpc = [\"ftp://x\"]",
        "\nnetwork = \"\"",
    ] {
        let (line, problem, _) = problem(file);
        assert_eq!(line, 2, "{file}");
        assert!(matches!(problem, FileProblem::BadValue { .. }), "{file}: {problem:?}");
    }
    let (line, problem, _) = problem("network = \"a\"\nnetwork = \"b\"");
    assert_eq!(line, 2);
    assert!(matches!(problem, FileProblem::Syntax(_)));
}

#[test]
fn one_chain_under_two_spellings_is_refused() {
    let (_, problem, _) = problem("[chains.base]\nrpc = []\n[chains.BASE]\nrpc = []\n");
    assert!(matches!(problem, FileProblem::BadValue { .. }), "{problem:?}");
}

#[test]
fn no_error_repeats_a_credential() {
    for file in [
        "[chains.base]\nrpc = [\"https://user:hunter2@host.example/key-hunter2\"\n",
        "[chains.base]\nrpc = [\"gopher://user:hunter2@host.example/key-hunter2\"]",
        "[chains.base]\nrpc = \"https://user:hunter2@host.example/key-hunter2\"",
        "[chains.base]\nrpc = \"https://user:hunter2@host.example/\\hunter2\"",
    ] {
        let (_, problem, message) = problem(file);
        assert!(!message.contains("hunter2") && !format!("{problem:?}").contains("hunter2"), "{message}");
    }
    let flags = ConfigFlags { rpc: vec!["https://host.example/hunter2".into()], ..ConfigFlags::default() };
    let dir = tempfile::tempdir().unwrap();
    let error = Config::load(&with(dir.path(), &[]), &flags).unwrap_err();
    assert_eq!(error.to_string(), "--rpc: no chain named: write CHAIN=URL, such as ethereum=http://127.0.0.1:8545");
    let environment = with(dir.path(), &[("BARDO_RPC_BASE", "hunter2")]);
    let error = Config::load(&environment, &ConfigFlags::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "environment variable BARDO_RPC_BASE: not a URL: write one such as http://127.0.0.1:8545"
    );
}

#[test]
fn hosts_that_only_look_like_loopback_need_encryption() {
    let load = |file: &str, url: &str| {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), file).unwrap();
        let environment = [("BARDO_HOME", home.path().to_str().unwrap()), ("BARDO_RPC_BASE", url)];
        Config::load(&environment.into_iter().collect(), &ConfigFlags::default())
    };
    for url in [
        "http://rpc.example",
        "ws://rpc.example",
        "http://127.0.0.1.evil.example",
        "http://127.0.0.1@evil.example",
        "http://localhost:80@evil.example",
        "http://localhost.evil.example",
        "http://evil.localhost",
        "http://[::ffff:1.2.3.4]",
        "http://[::ffff:7f00:1]",
        "http://0.0.0.0:8545",
        "http://10.0.0.1:8545",
    ] {
        let refused = load("", url).unwrap_err().to_string();
        assert!(
            refused.contains("chains.base.rpc (BARDO_RPC_BASE)") && refused.contains("allow_insecure_rpc"),
            "{refused}"
        );
        load("allow_insecure_rpc = true", url).unwrap();
        load("[chains.base]\nallow_insecure_rpc = true", url).unwrap();
        // The setting of a chain's table overrides the general one.
        load("allow_insecure_rpc = true\n[chains.base]\nallow_insecure_rpc = false", url).unwrap_err();
    }
    for url in [
        "https://rpc.example",
        "wss://rpc.example",
        "http://127.0.0.1:1",
        "http://[::1]",
        "http://localhost",
        "http://2130706433",
    ] {
        load("", url).unwrap();
    }
    for key in ["relay", "relay_status"] {
        let refused = load(&format!("[chains.base]\n{key} = \"http://relay.example\""), "https://rpc.example");
        assert!(refused.unwrap_err().to_string().contains(&format!("chains.base.{key}")));
    }
}

#[test]
fn an_endpoint_shows_no_more_than_its_origin() {
    for (url, shown) in [
        ("https://mainnet.example/v3/0123456789abcdef", "https://mainnet.example/…"),
        ("https://user:secret@rpc.example:8443/?apikey=secret", "https://…@rpc.example:8443/…"),
        ("https://rpc.example#secret", "https://rpc.example/…"),
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("wss://[::1]:8546/", "wss://[::1]:8546"),
    ] {
        let endpoint = RpcUrl::parse(url).unwrap();
        assert_eq!(endpoint.to_string(), shown);
        assert_eq!(format!("{endpoint:?}"), format!("RpcUrl({shown})"));
    }
    assert_eq!(RpcUrl::parse("ipc:///tmp/x"), Err(RpcUrlError::Scheme));
    assert_eq!(RpcUrl::parse("127.0.0.1:8545"), Err(RpcUrlError::NotAUrl));
    assert!(RpcUrl::parse("http://localhost:1").unwrap().is_loopback());
    assert!(RpcUrl::parse("http://[::1]:1").unwrap().is_loopback());
    assert!(!RpcUrl::parse("http://127.0.0.1.example").unwrap().is_loopback());
}

#[test]
fn a_file_that_is_no_text_or_far_too_long_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    for bytes in [vec![0xff, 0xfe], vec![b'#'; (1 << 20) + 1]] {
        std::fs::write(&path, bytes).unwrap();
        let error = Config::load(&with(dir.path(), &[]), &ConfigFlags::default()).unwrap_err();
        assert!(matches!(error, ConfigError::Unreadable { .. }));
    }
}

#[test]
fn the_template_sets_nothing_and_its_examples_are_valid_and_complete() {
    let (_dir, environment) = home(TEMPLATE);
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    assert!(config.chains.is_empty() && config.prices.is_empty());

    let examples: String = TEMPLATE
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter(|line| !line.starts_with(' '))
        .map(|line| format!("{line}\n"))
        .collect();
    let (_dir, environment) = home(&examples);
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    assert_eq!(config.chains["sepolia"].rpc.value.len(), 2);
    assert_eq!(config.prices["sepolia"].value["ETH"].to_string(), "3400");
    for (key, _) in KEYS {
        let last = key.rsplit('.').next().unwrap().replace("SYMBOL", "ETH").replace("NAME", "ethereum");
        assert!(examples.lines().any(|line| line.starts_with(&format!("{last} ="))), "{key}");
    }
}

#[test]
fn the_safety_pipelines_settings_have_defaults_and_bounds() {
    let (_dir, environment) = home("");
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    let seconds = config.safety.seconds().map(|(_, setting)| setting.value);
    assert_eq!(seconds, [60, 300, 60], "SPEC, section 14");
    assert_eq!(config.safety.minimum_pool_depth_usd.value.to_string(), "50000");
    assert_eq!(config.account, None);

    let (dir, environment) = home(
        "account = \"trading\"\n[safety]\npermit_seconds = 30\nminimum_pool_depth_usd = \"2500.5\"\n\
         [chains.ethereum]\nrelay = \"https://relay.example/secret\"\nrelay_status = \"https://status.example/tx\"\n\
         confirmations = 12\n",
    );
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    assert_eq!(config.safety.permit_seconds.value, 30);
    assert_eq!(config.safety.permit_seconds.origin, SettingOrigin::File { line: 3 });
    assert_eq!(config.safety.minimum_pool_depth_usd.value.to_string(), "2500.5");
    let relay = config.chains["ethereum"].relay.as_ref().unwrap();
    assert_eq!(relay.value.to_string(), "https://relay.example/…", "a relay's path may be a credential");
    let depth = config.chains["ethereum"].confirmations.as_ref().unwrap();
    assert_eq!((depth.value, &depth.origin), (12, &SettingOrigin::File { line: 8 }));
    assert_eq!(config.account.as_ref().unwrap().value, "trading");
    let by_flag = ConfigFlags { account: Some("other".to_owned()), ..ConfigFlags::default() };
    let more = with(dir.path(), &[("BARDO_ACCOUNT", "third")]);
    assert_eq!(Config::load(&more, &ConfigFlags::default()).unwrap().account.unwrap().value, "third");
    assert_eq!(Config::load(&more, &by_flag).unwrap().account.unwrap().value, "other");

    for (file, says) in [
        ("[safety]\npermit_seconds = 4\n", "5 to 600"),
        ("[safety]\npermit_seconds = 601\n", "5 to 600"),
        ("[safety]\napproval_timeout_seconds = -5\n", "whole number of seconds"),
        ("[safety]\nreceipt_patience_seconds = \"60\"\n", "this is a string"),
        ("[safety]\nminimum_pool_depth_usd = \"0\"\n", "anyone could set its price"),
        ("[safety]\npermit_second = 30\n", "did you mean 'permit_seconds'"),
        ("[chains.ethereum]\nrelay = \"relay\"\n", "not a URL"),
        ("[chains.mine]\nconfirmations = 0\n", "0 is out of range: use 1 to 64 blocks"),
        ("[chains.mine]\nconfirmations = 65\n", "65 is out of range: use 1 to 64 blocks"),
        ("[chains.mine]\nconfirmations = \"12\"\n", "whole number of blocks"),
        ("[chains.mine]\ndata_fee_oracle = \"nobody\"\n", "nor an address"),
        ("[intents]\nmargin_bps = 101\n", "use 0 to 100"),
        ("[intents]\nmargin_bps = \"10\"\n", "this is a string"),
        ("[rehearsal]\nsize = \"0.0\"\n", "not a positive amount"),
        ("[rehearsal]\nsize = \"1.\"\n", "not a positive amount"),
        ("[rehearsal]\nsize = 0.01\n", "an amount in quotes"),
        ("[rehearsal]\nsiz = \"1\"\n", "did you mean 'size'"),
        ("[intents]\nmargin_bp = 10\n", "did you mean 'margin_bps'"),
    ] {
        let (line, _, text) = problem(file);
        assert!(line == 2 && text.contains(says), "{file}: {text}");
    }
}

#[test]
fn quotes_come_from_the_first_configured_source_unless_one_is_named() {
    use super::QuoteChoice;
    use secrecy::ExposeSecret as _;

    let (dir, environment) = home("[quotes]\nsidecar_socket = \"/run/side.sock\"\n");
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    assert_eq!(config.quotes.choice(), QuoteChoice::Sidecar);
    let with_key = with(dir.path(), &[("BARDO_UNISWAP_API_KEY", "key-secret-9")]);
    let config = Config::load(&with_key, &ConfigFlags::default()).unwrap();
    assert_eq!(config.quotes.choice(), QuoteChoice::TradingApi);
    assert_eq!(config.quotes.api_key.as_ref().unwrap().value.expose_secret(), "key-secret-9");
    assert!(!format!("{config:?} {with_key:?}").contains("key-secret"), "no Debug shows it");
    let named = with(dir.path(), &[("BARDO_UNISWAP_API_KEY", "key"), ("BARDO_QUOTE_SOURCE", "own")]);
    assert_eq!(Config::load(&named, &ConfigFlags::default()).unwrap().quotes.choice(), QuoteChoice::Own);
    for (name, value) in
        [("BARDO_QUOTE_SOURCE", "best"), ("BARDO_UNISWAP_API_KEY", "two words"), ("BARDO_UNISWAP_API_KEY", "a\nb")]
    {
        let error = Config::load(&with(dir.path(), &[(name, value)]), &ConfigFlags::default()).unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains(value), "{error}");
    }
    for (file, says) in [
        ("[quotes]\nsource = \"best\"\n", "known: trading-api, sidecar, own"),
        ("[quotes]\nkey = \"secret\"\n", "unknown key 'key'"),
        ("[quotes]\napi_url = 5\n", "must be a URL"),
    ] {
        let (line, _, text) = problem(file);
        assert!(line == 2 && text.contains(says), "{file}: {text}");
    }
}

#[test]
fn the_golems_brain_has_defaults_bounds_and_a_key_that_is_never_shown() {
    let (_dir, environment) = home("");
    let golem = Config::load(&environment, &ConfigFlags::default()).unwrap().golem;
    assert_eq!((golem.brain.value.as_str(), golem.brain.origin.clone()), ("scenario", SettingOrigin::Default));
    assert!(golem.model_key.is_none() && golem.model_url.is_none());

    let (dir, _) = home("[golem]\nbrain = \"model\"\ncalls = 7\nmodel_url = \"https://u:pw@model.example/v1?k=1\"\n");
    let environment = with(dir.path(), &[("BARDO_MODEL_KEY", "sk-very-secret"), ("BARDO_BRAIN", "process:x")]);
    let flags = ConfigFlags { brain: Some("scenario".into()), ..ConfigFlags::default() };
    let config = Config::load(&environment, &flags).unwrap();
    assert_eq!(config.golem.brain.origin, SettingOrigin::Flag("--brain"));
    assert_eq!((config.golem.calls.value, &config.golem.calls.origin), (7, &SettingOrigin::File { line: 3 }));
    let told = format!("{config:?} {:?}", config.golem.shown());
    assert!(told.contains("set, hidden") && !told.contains("very-secret") && !told.contains("pw@"), "{told}");

    assert_eq!(problem("[golem]\ncalls = 0\n").0, 2);
    // Files, variables and network that a brain process may access.
    let (_dir, environment) = home("[golem]\nread = [\"/opt/a\"]\nenvironment = [\"X\"]\nnetwork = false\n");
    let open = Config::load(&environment, &ConfigFlags::default()).unwrap().golem;
    assert_eq!(open.read.value, [std::path::PathBuf::from("/opt/a")]);
    assert_eq!((open.environment.value, open.network.value), (vec!["X".to_owned()], false));
    assert!(golem.network.value && !golem.allow_unisolated_brain.value && golem.write.value.is_empty());
    for bad in ["read = \"/x\"", "write = [5]", "network = \"no\"", "environment = [\"bardo_key\"]"] {
        assert_eq!(problem(&format!("[golem]\n{bad}\n")).0, 2, "{bad}");
    }
    // The archetype: flag over file over default, displayed like the other settings.
    let role = |golem: &super::GolemSettings| (golem.archetype.value.clone(), golem.archetype.origin.clone());
    assert_eq!(role(&golem), ("golem-instance".to_owned(), SettingOrigin::Default));
    let (_dir, environment) = home("[golem]\narchetype = \"pool-researcher\"\n");
    let written = Config::load(&environment, &ConfigFlags::default()).unwrap().golem;
    assert_eq!(role(&written), ("pool-researcher".to_owned(), SettingOrigin::File { line: 2 }));
    assert!(written.shown().iter().any(|(key, value, _)| (*key, value.as_str()) == ("archetype", "pool-researcher")));
    let flags = ConfigFlags { archetype: Some("trade-executor".into()), ..ConfigFlags::default() };
    let named = Config::load(&environment, &flags).unwrap().golem;
    assert_eq!(role(&named), ("trade-executor".to_owned(), SettingOrigin::Flag("--archetype")));
    // No lifespan by default; a configured one is in minutes and displayed as given.
    assert_eq!((golem.lifespan_seconds(), golem.shown().iter().any(|one| one.0 == "lifespan_minutes")), (None, false));
    let (_dir, environment) = home("[golem]\nlifespan_minutes = 120\n");
    let given = Config::load(&environment, &ConfigFlags::default()).unwrap().golem;
    assert_eq!(given.lifespan_seconds(), Some(7_200));
    assert!(given.shown().iter().any(|(key, value, _)| (*key, value.as_str()) == ("lifespan_minutes", "120")));
    for bad in ["0", "5256001", "\"2h\""] {
        let (line, _, said) = problem(&format!("[golem]\nlifespan_minutes = {bad}\n"));
        assert!(line == 2 && said.contains("golem.lifespan_minutes"), "{bad}: {said}");
    }
    assert!(problem("[golem]\nmodel_style = \"odd\"\n").2.contains("openai, anthropic"));
    assert!(problem("[golem]\nmodel_key = \"x\"\n").2.contains("unknown key"));
}

#[test]
fn the_size_of_a_rehearsed_swap_is_a_setting() {
    let size = |file: &str| {
        let (_dir, environment) = home(file);
        Config::load(&environment, &ConfigFlags::default()).unwrap().rehearsal_size
    };
    assert_eq!((size("").value.as_str(), size("").origin), ("0.01", SettingOrigin::Default));
    let set = size("[rehearsal]\nsize = \"1.5\"\n");
    assert_eq!((set.value.as_str(), set.origin), ("1.5", SettingOrigin::File { line: 2 }));
}

#[test]
fn the_margin_of_intents_is_a_setting_with_a_bound() {
    let margin = |file: &str| {
        let (_dir, environment) = home(file);
        Config::load(&environment, &ConfigFlags::default()).unwrap().intent_margin
    };
    assert_eq!((margin("").value.get(), margin("").origin), (10, SettingOrigin::Default));
    let set = margin("[intents]\nmargin_bps = 0\n");
    assert_eq!((set.value.get(), set.origin), (0, SettingOrigin::File { line: 2 }));
    assert_eq!(margin("[intents]\nmargin_bps = 100\n").value.get(), 100);
}

#[test]
fn the_log_format_is_set_by_flag_environment_or_file_and_nothing_else_is_one() {
    let (dir, environment) = home("log_format = \"json\"\n");
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    assert_eq!((config.log_format.value, config.log_format.origin), (LogFormat::Json, SettingOrigin::File { line: 1 }));
    let environment = with(dir.path(), &[("BARDO_LOG_FORMAT", "text")]);
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    assert_eq!(config.log_format.value, LogFormat::Text);
    let flags = ConfigFlags { log_format: Some(LogFormat::Json), ..ConfigFlags::default() };
    let config = Config::load(&environment, &flags).unwrap();
    assert_eq!(
        (config.log_format.value, config.log_format.origin),
        (LogFormat::Json, SettingOrigin::Flag("--log-format"))
    );

    let error = Config::load(&with(dir.path(), &[("BARDO_LOG_FORMAT", "xml")]), &ConfigFlags::default()).unwrap_err();
    assert_eq!(error.to_string(), "environment variable BARDO_LOG_FORMAT: not a log format: use text or json");
    let (line, problem, _) = problem("network = \"devnet\"\nlog_format = \"xml\"\n");
    assert!(line == 2 && matches!(problem, FileProblem::BadValue { .. }), "{problem:?}");
}

#[test]
fn alerts_have_defaults_and_bounds_and_show_no_secret() {
    let (_dir, environment) = home("");
    let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
    assert!(!config.alerts.is_on() && config.alerts.detail.value == AlertDetail::Brief);
    assert_eq!(config.alerts.rules.value, AlertRule::ALL);

    let (dir, _environment) = home(
        "[alerts]\nrules = [\"stop\", \"gas\"]\ngas_below = \"0.02\"\nwebhook_url = \"https://h.example/path-secret\"\n\
         telegram_chat = \"@channel\"\nemail_to = [\"a@b.example\"]\ndetail = \"full\"\n",
    );
    let environment = with(dir.path(), &[("BARDO_ALERT_WEBHOOK_SECRET", "whsec_canary")]);
    let alerts = Config::load(&environment, &ConfigFlags::default()).unwrap().alerts;
    assert!(alerts.is_on());
    assert_eq!(alerts.rules.value, [AlertRule::Stop, AlertRule::Gas]);
    assert_eq!(alerts.gas_below.as_ref().unwrap().value.to_string(), "0.02");
    let shown = format!("{alerts:?} {:?}", alerts.shown());
    assert!(!shown.contains("canary") && !shown.contains("path-secret"), "{shown}");
    assert!(shown.contains("set, hidden") && shown.contains("BARDO_ALERT_WEBHOOK_SECRET"), "{shown}");

    for (file, says) in [
        ("[alerts]\nrules = [\"stops\"]\n", "unknown rule; known: decision_waits"),
        ("[alerts]\nrule = [\"stop\"]\n", "did you mean 'rules'"),
        ("[alerts]\ndetail = \"all\"\n", "\"brief\" or \"full\""),
        ("[alerts]\nper_hour = 0\n", "1 to 600"),
        ("[alerts]\nprice_percent = 0\n", "1 to 1000"),
        ("[alerts]\ngas_below = 0.02\n", "native tokens"),
        ("[alerts]\ntelegram_chat = \"me\"\n", "not a chat"),
        ("[alerts]\nemail_tls = \"ssl\"\n", "starttls"),
        ("[alerts]\nwebhook_url = \"hooks.example/x\"\n", "not a URL"),
        ("[alerts]\ndesktop = 1\n", "true or false"),
    ] {
        let (_dir, environment) = home(file);
        let error = Config::load(&environment, &ConfigFlags::default()).unwrap_err().to_string();
        assert!(error.contains(says), "{file}: {error}");
    }
}
