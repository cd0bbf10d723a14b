use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{bardo, run};

/// A running `bardo devnet` on free ports; killed when dropped.
pub struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    pub described: Value,
    _home: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn start() -> Running {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_bardo"))
        .args(["devnet", "--port", "0", "--block-time", "0", "--seed", "7"])
        .env_clear()
        .env("BARDO_HOME", home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let described = serde_json::from_str(&line).unwrap();
    Running { child, out, described, _home: home }
}

impl Running {
    pub fn url(&self, index: usize) -> &str {
        self.described["chains"][index]["rpc"].as_str().unwrap()
    }
}

fn ask(url: &str, method: &str) -> Value {
    ask_with(url, method, json!([]))
}

/// One JSON-RPC call by plain HTTP.
pub fn ask_with(url: &str, method: &str, params: Value) -> Value {
    let address = url.strip_prefix("http://").unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST / HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str::<Value>(body).unwrap()["result"].clone()
}

#[test]
fn the_first_line_says_where_everything_is_and_a_kill_ends_it_cleanly() {
    let mut devnet = start();
    let chains = devnet.described["chains"].as_array().unwrap();
    let named: Vec<(&str, u64)> =
        chains.iter().map(|chain| (chain["name"].as_str().unwrap(), chain["chain_id"].as_u64().unwrap())).collect();
    assert_eq!(named, [("ethereum", 31_337), ("base", 31_338)]);
    // The first account of the development mnemonic.
    assert_eq!(chains[0]["accounts"][0].as_str().unwrap().to_lowercase(), "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266");
    assert_eq!(
        chains[0]["contracts"]["permit2"].as_str().unwrap().to_lowercase(),
        "0x000000000022d473030f116ddee9f6b43ac78ba3"
    );
    assert_eq!(ask(devnet.url(0), "eth_chainId"), "0x7a69");
    assert_eq!(ask(devnet.url(1), "eth_chainId"), "0x7a6a");
    for index in [0, 1] {
        assert_eq!(ask(devnet.url(index), "bardo_describe"), devnet.described);
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
    assert!(out.contains(": Uniswap V2 V3, "), "{out}");

    let book = home.path().join("book.json");
    std::fs::write(&book, devnet.described.to_string()).unwrap();
    let (out, _, code) =
        run(bardo(home.path()).args(["doctor", "--json", "--rpc", &given, "--book", book.to_str().unwrap()]));
    assert_eq!(code, 0, "{out}");
    assert!(out.contains(": Uniswap V2 V3, "), "{out}");
}

#[test]
fn a_port_that_is_taken_is_named_with_the_flag() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let (out, err, code) = run(bardo(home.path()).args(["devnet", "--port", &port.to_string()]));
    assert_eq!((out.as_str(), code), ("", 1));
    assert!(err.contains(&format!("port {port} on 127.0.0.1 is taken")) && err.contains("--port"), "{err}");
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
