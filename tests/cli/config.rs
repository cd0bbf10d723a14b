use serde_json::Value;

use crate::{bardo, run};

#[test]
fn the_path_is_under_the_home_that_was_given() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    let (out, err, code) = run(bardo(home.path()).args(["config", "path"]));
    assert_eq!((out, err.as_str(), code), (format!("{}\n", file.display()), "", 0));
    let (out, _, _) = run(bardo(home.path()).args(["config", "path", "--json"]));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((answer["config_file"].as_str(), answer["exists"].as_bool()), (file.to_str(), Some(false)));
}

#[test]
fn init_writes_a_file_that_is_valid_private_and_never_overwritten() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    let (_, err, code) = run(bardo(home.path()).args(["config", "init"]));
    assert_eq!((err.as_str(), code), ("", 0));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let (out, err, code) = run(bardo(home.path()).args(["config", "show"]));
    assert_eq!((err.as_str(), code), ("", 0));
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["network", "devnet", "default"]), "{out}");
    assert!(rows.contains(&vec!["safety.permit_seconds", "60", "default"]), "{out}");

    std::fs::write(&file, "network = \"base\"\n").unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["config", "init"]));
    assert_eq!((out.as_str(), code), ("", 1));
    assert!(err.contains("is there already and stays as it is"), "{err}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "network = \"base\"\n");
}

#[test]
fn show_says_who_set_what_and_hides_credentials() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("config.toml"),
        "network = \"base\"\n[chains.base]\nrpc = [\"https://rpc.example/hunter2\"]\n",
    )
    .unwrap();
    let (out, _, code) = run(bardo(home.path())
        .env("BARDO_RPC_SEPOLIA", "https://user:hunter2@other.example/?key=hunter2")
        .args(["config", "show", "--json", "--network", "sepolia"]));
    assert_eq!(code, 0);
    assert!(!out.contains("hunter2"), "{out}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    let setting = |key: &str| {
        let found = answer["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap();
        (found["value"].as_str().unwrap().to_owned(), found["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(setting("network"), ("sepolia".into(), "--network".into()));
    assert_eq!(setting("chains.base.rpc"), ("https://rpc.example/…".into(), "file, line 3".into()));
    assert_eq!(setting("chains.sepolia.rpc"), ("https://…@other.example/…".into(), "BARDO_RPC_SEPOLIA".into()));
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), "# mine\nnetwrok = \"base\"\n").unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["config", "show"]));
    assert_eq!((out.as_str(), code), ("", 1));
    assert!(
        err.contains("config.toml, line 2: unknown key 'netwrok'") && err.contains("did you mean 'network'?"),
        "{err}"
    );
    // Its path can still be printed.
    let (_, _, code) = run(bardo(home.path()).args(["config", "path"]));
    assert_eq!(code, 0);
}
