use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
};

use serde_json::{Value, json};

use crate::{bardo, run};

/// Node that answers with its chain id, and block 7 as the latest.
fn node(chain_id: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                loop {
                    let mut length = 0;
                    loop {
                        let mut line = String::new();
                        if reader.read_line(&mut line).unwrap_or(0) == 0 {
                            return;
                        }
                        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap();
                        }
                        if line == "\r\n" {
                            break;
                        }
                    }
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    let request: Value = serde_json::from_slice(&body).unwrap();
                    let id = request["id"].clone();
                    let answer = match request["method"].as_str().unwrap() {
                        "eth_chainId" => json!({"jsonrpc":"2.0","id":id,"result":format!("{chain_id:#x}")}),
                        "eth_blockNumber" => json!({"jsonrpc":"2.0","id":id,"result":"0x7"}),
                        _ => json!({"jsonrpc":"2.0","id":id,"error":{"code":-32601,"message":"no such method"}}),
                    };
                    let answer = answer.to_string();
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        answer.len()
                    );
                    if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(answer.as_bytes())).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// Service that answers every request with this status and body.
fn service(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap_or(0) > 0 && line != "\r\n" {
                line.clear();
            }
            let length = body.len();
            let _gone = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    url
}

#[test]
fn doctor_checks_relays_and_models_and_names_those_that_fail() {
    const LIST: &str = r#"{"data":[{"id":"wise"}]}"#;
    const REFUSAL: &str = r#"{"error":{"message":"no such key"}}"#;
    let dead = || "http://127.0.0.1:1".to_owned();
    for (relay, model, name, wanted) in [
        (node(1), service("200 OK", LIST), "wise", [("ok", "responds"), ("ok", "responds and has wise")]),
        (node(1), service("404 Not Found", "{}"), "wise", [("ok", "responds"), ("ok", "does not list its models")]),
        (dead(), dead(), "wise", [("fail", "cannot connect"), ("fail", "error sending request")]),
        (dead(), service("200 OK", LIST), "other", [("fail", "cannot connect"), ("fail", "does not list other")]),
        (
            dead(),
            service("401 Unauthorized", REFUSAL),
            "wise",
            [("fail", "cannot connect"), ("fail", "BARDO_MODEL_KEY")],
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let config = format!(
            "[chains.ethereum]\nrpc = [{:?}]\nrelay = {relay:?}\n[golem]\nmodel_url = {:?}\nmodel_name = {name:?}\n",
            node(1),
            format!("{model}/v1")
        );
        std::fs::write(home.path().join("config.toml"), config).unwrap();
        let (out, _, _) = run(bardo(home.path()).args(["doctor", "--json"]).env("BARDO_MODEL_KEY", "sk-secret"));
        let found = findings(&out);
        for (check, (status, words)) in ["relay", "model"].into_iter().zip(wanted) {
            let (is, detail) = of(&found, check);
            assert!(is == status && detail.contains(words), "{check} {is}: {detail}");
        }
        assert!(!out.contains("sk-secret"));
    }
}

/// The devnet names its services itself, and the doctor checks them.
#[cfg(unix)]
#[test]
fn doctor_checks_the_order_services() {
    let devnet = crate::devnet::start();
    let home = tempfile::tempdir().unwrap();
    let given = format!("ethereum={}", devnet.url(0));
    let (out, err, _) = run(bardo(home.path()).args(["doctor", "--json", "--rpc", &given]));
    let found = findings(&out);
    for what in ["auctions", "bridges"] {
        let one = found.iter().find(|one| one.0 == "orders" && one.2.contains(what));
        assert!(one.is_some_and(|one| one.1 == "ok" && one.2.ends_with("responds")), "{what}: {out}{err}");
    }
}

fn findings(out: &str) -> Vec<(String, String, String)> {
    let answer: Value = serde_json::from_str(out).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let checks = answer["checks"].as_array().unwrap();
    checks.iter().map(|check| (text(&check["check"]), text(&check["status"]), text(&check["detail"]))).collect()
}

fn of(found: &[(String, String, String)], check: &str) -> (String, String) {
    let found = found.iter().find(|found| found.0 == check).unwrap();
    (found.1.clone(), found.2.clone())
}

#[test]
fn a_fresh_machine_is_healthy() {
    let home = tempfile::tempdir().unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["doctor", "--json"]));
    assert_eq!((err.as_str(), code), ("", 0), "{out}");
    let found = findings(&out);
    for chain in ["ethereum at block ", "base at block "] {
        assert!(of(&found, "devnet").1.contains(chain), "{out}");
    }
    assert_eq!(of(&found, "config").0, "ok");
    // Its memory is protected from other programs of the same user.
    #[cfg(target_os = "linux")]
    assert_eq!(of(&found, "memory").0, "ok", "{out}");
    assert_eq!(of(&found, "data").0, "ok");
    assert_eq!(of(&found, "network"), ("ok".into(), "devnet (default)".into()));
    let (out, _, _) = run(bardo(home.path()).arg("doctor"));
    assert!(out.ends_with("Bardo works here.\n"), "{out}");
}

#[test]
fn a_stop_in_force_is_named_with_the_command_that_lifts_it() {
    let home = tempfile::tempdir().unwrap();
    let (out, _, _) = run(bardo(home.path()).args(["doctor", "--json"]));
    assert!(findings(&out).iter().all(|(check, ..)| check != "stop"), "{out}");
    let (_, err, code) = run(bardo(home.path()).args(["halt", "--level", "exit-only"]));
    assert_eq!(code, 0, "{err}");
    let (out, _, code) = run(bardo(home.path()).args(["doctor", "--json"]));
    let (status, detail) = of(&findings(&out), "stop");
    assert_eq!((status.as_str(), code), ("note", 0), "{out}");
    assert!(detail.starts_with("exit-only is in force: "), "{detail}");
    assert!(out.contains("bardo resume"), "{out}");
}

#[test]
fn a_broken_config_and_a_folder_that_is_a_file_are_named() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), "theem = 1\n").unwrap();
    let (out, _, code) = run(bardo(home.path()).args(["doctor", "--json"]));
    assert_eq!(code, 1);
    let (status, detail) = of(&findings(&out), "config");
    assert!(status == "fail" && detail.contains("line 1: unknown key 'theem'"), "{detail}");

    std::fs::write(home.path().join("config.toml"), "").unwrap();
    std::fs::write(home.path().join("data"), "").unwrap();
    let (out, _, code) = run(bardo(home.path()).args(["doctor", "--json"]));
    assert_eq!((of(&findings(&out), "data").0.as_str(), code), ("fail", 1));
}

#[test]
fn a_policy_that_cannot_be_used_and_a_key_that_is_not_there_are_named() {
    let home = tempfile::tempdir().unwrap();
    let (out, _, code) = run(bardo(home.path()).args(["doctor", "--json"]));
    let found = findings(&out);
    let policies: Vec<_> = found.iter().filter(|found| found.0 == "policy").collect();
    assert!(policies.len() == 2 && policies.iter().all(|found| found.1 == "ok"), "{out}");
    assert!(policies[0].2.contains("read-only applies") && policies[1].2.contains("demo applies"), "{out}");
    assert_eq!((of(&found, "keys").0.as_str(), code), ("ok", 0), "{out}");

    std::fs::write(home.path().join("policy.toml"), "preset = \"paranoid\"\nmax_gas = 1\n").unwrap();
    std::fs::write(home.path().join("config.toml"), "account = \"trading\"\n").unwrap();
    let (out, _, code) = run(bardo(home.path()).args(["doctor", "--json"]));
    let found = findings(&out);
    let (status, detail) = of(&found, "policy");
    assert!(status == "fail" && detail.contains("max_gas"), "{out}");
    let (status, detail) = of(&found, "keys");
    assert!(status == "fail" && detail.contains("trading"), "{out}");
    assert_eq!(code, 1);
}

#[test]
fn a_console_without_endpoints_prints_the_reason_and_exits() {
    let home = tempfile::tempdir().unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["--network", "sepolia"]));
    assert_eq!((out.as_str(), code), ("", 1), "{err}");
    assert!(err.contains("no endpoint for sepolia") && err.contains("BARDO_RPC_SEPOLIA"), "{err}");
}

#[test]
fn endpoints_are_asked_for_their_chain_id() {
    let home = tempfile::tempdir().unwrap();
    let sepolia = node(11_155_111);
    let (out, _, code) = run(bardo(home.path()).args(["doctor", "--json", "--rpc", &format!("sepolia={sepolia}")]));
    let (status, detail) = of(&findings(&out), "endpoint");
    // A single endpoint of a network other than a devnet: it works, but its answers are not cross-checked.
    assert_eq!((status.as_str(), code), ("note", 0), "{detail}");
    let standing = "sepolia (11155111) at block 7: Uniswap V2 V3 V4, 3 tokens";
    assert_eq!(detail, format!("{standing}; one endpoint, so its answers are not cross-checked"));

    let (out, _, code) = run(bardo(home.path()).args(["doctor", "--json", "--rpc", &format!("base={sepolia}")]));
    let (status, detail) = of(&findings(&out), "endpoint");
    assert_eq!((status.as_str(), code), ("fail", 1));
    assert!(detail.contains("the endpoint of base returns chain id 11155111, but base is 8453"), "{detail}");
}

#[test]
fn a_dead_endpoint_and_an_unknown_chain_are_named() {
    let home = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (out, _, code) =
        run(bardo(home.path()).args(["doctor", "--json", "--rpc", &format!("base=http://127.0.0.1:{port}")]));
    let (status, detail) = of(&findings(&out), "endpoint");
    assert_eq!((status.as_str(), code), ("fail", 1));
    assert!(detail.contains(&format!("127.0.0.1:{port}")), "{detail}");

    let (out, _, code) = run(bardo(home.path()).args(["doctor", "--json", "--network", "bsae"]));
    let (status, detail) = of(&findings(&out), "network");
    assert_eq!((status.as_str(), code), ("fail", 1));
    assert!(detail.contains("unknown chain 'bsae' (did you mean 'base'?)"), "{detail}");
}

/// A rule for a tool that does not exist binds nothing: it would look like a limit, and be none.
#[test]
fn doctor_names_tools_in_the_policy_that_do_not_exist() {
    let home = tempfile::tempdir().unwrap();
    let policy = "preset = \"demo\"\n[tools]\nvault_depost = { requires_approval_above_usd = \"0\" }\n";
    std::fs::write(home.path().join("policy-devnet.toml"), policy).unwrap();
    let (out, _, _) = run(bardo(home.path()).args(["doctor", "--json"]));
    assert!(out.contains("vault_depost (did you mean vault_deposit?)"), "{out}");
}
