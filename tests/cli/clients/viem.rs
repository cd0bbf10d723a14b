//! viem with the devnet: the script makes the calls and fails on a wrong answer.

use crate::clients::process::{MNEMONIC, tool};
use bardo_testkit::devnet::Devnet;
use std::process::Command;

#[test]
#[ignore = "needs node and viem: run by .ci/run"]
fn viem_reads_sends_and_watches_blocks() {
    let devnet = Devnet::start("1s", 7);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/viem/devnet.mjs");
    let output = Command::new("node")
        .arg(script)
        .env("BARDO_NODE_MODULES", tool("BARDO_NODE_MODULES"))
        .env("DEVNET", devnet.described.to_string())
        .env("MNEMONIC", MNEMONIC)
        .output()
        .expect("node runs");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{errors}");
    assert_eq!(out.lines().last(), Some("all answers are right"), "{out}\n{errors}");
}
