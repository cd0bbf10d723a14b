//! `bardo devnet` as a process: its first line, its end, and another program that uses its output.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::Command;

use serde_json::json;

use crate::{bardo, run};
pub use bardo_testkit::devnet::Devnet as Running;
use bardo_testkit::devnet::ask;

pub fn start() -> Running {
    Running::start("0", 7)
}

#[test]
fn the_first_line_lists_all_addresses_and_a_signal_ends_the_devnet_cleanly() {
    let mut devnet = start();
    let chains = devnet.described["chains"].as_array().unwrap();
    let named: Vec<(&str, u64)> =
        chains.iter().map(|chain| (chain["name"].as_str().unwrap(), chain["chain_id"].as_u64().unwrap())).collect();
    assert_eq!(named, [("ethereum", 31_337), ("base", 31_338)]);
    // First account of the development mnemonic.
    assert_eq!(chains[0]["accounts"][0].as_str().unwrap().to_lowercase(), "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266");
    assert_eq!(
        chains[0]["contracts"]["permit2"].as_str().unwrap().to_lowercase(),
        "0x000000000022d473030f116ddee9f6b43ac78ba3"
    );
    assert_eq!(ask(devnet.url(0), "eth_chainId", json!([])), "0x7a69");
    assert_eq!(ask(devnet.url(1), "eth_chainId", json!([])), "0x7a6a");
    for index in [0, 1] {
        assert_eq!(ask(devnet.url(index), "bardo_describe", json!([])), devnet.described);
    }

    let pid = devnet.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(devnet.child.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    devnet.out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "one line and no more");
}

#[test]
fn another_bardo_learns_its_contracts_from_it() {
    let devnet = start();
    let home = tempfile::tempdir().unwrap();
    let given = format!("ethereum={}", devnet.url(0));
    let (out, _, code) = run(bardo(home.path()).args(["doctor", "--json", "--rpc", &given]));
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("ethereum (31337) at block "), "{out}");
    assert!(out.contains(": Uniswap V2 V3 V4, "), "{out}");

    let book = home.path().join("book.json");
    std::fs::write(&book, devnet.described.to_string()).unwrap();
    let (out, _, code) =
        run(bardo(home.path()).args(["doctor", "--json", "--rpc", &given, "--book", book.to_str().unwrap()]));
    assert_eq!(code, 0, "{out}");
    assert!(out.contains(": Uniswap V2 V3 V4, "), "{out}");
}

#[test]
fn a_port_that_is_taken_is_named_with_the_flag() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (out, err, code) = run(bardo(home.path()).args(["devnet", "--port", &port.to_string()]));
    assert_eq!((out.as_str(), code), ("", 1));
    assert!(err.contains(&format!("port {port} on 127.0.0.1 is in use")) && err.contains("--port"), "{err}");
}

#[test]
fn arguments_that_make_no_sense_are_usage_errors() {
    let home = tempfile::tempdir().unwrap();
    for (arguments, says) in [
        (["--port", "65535"], "leaves no port for the second chain"),
        (["--port", "70000"], "70000"),
        (["--block-time", "1"], "1s, 500ms"),
        (["--block-time", "5ms"], "between 100ms and 3600s"),
        (["--seed", "-1"], "-1"),
    ] {
        let (out, err, code) = run(bardo(home.path()).arg("devnet").args(arguments));
        assert_eq!((out.as_str(), code), ("", 2), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
}
