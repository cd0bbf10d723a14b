//! A Python program that drives the dialect with Almanak's own catalog and schemas, package 2.29.2.

use std::process::Command;

use crate::clients::process::tool;
use crate::fixture::Fixture;

#[test]
#[ignore = "needs Python 3.12 and Almanak's package: run by .ci/run"]
fn almanaks_own_schemas_accept_every_answer() {
    let (packages, python) = (tool("BARDO_ALMANAK"), tool("BARDO_ALMANAK_PYTHON"));
    if python.is_empty() {
        eprintln!("skipped: no Python of version 3.12 or newer on this machine");
        return;
    }
    let fixture = Fixture::new();
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/almanak_schemas.py"))
        .args([env!("CARGO_BIN_EXE_bardo"), &fixture.given, fixture.account()])
        .arg("0x000000000000000000000000000000000000dEaD")
        .env("PYTHONPATH", packages)
        .env("BARDO_HOME", fixture.home.path())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let calls: u32 = out.trim().parse().unwrap();
    assert!(calls > 30, "{calls} calls");
}
