//! An independent JSON Schema validator with the schemas of all tools.

use std::process::{Command, Stdio};

use crate::{bardo, run};

/// The published schemas are those that the program prints.
#[test]
fn the_published_schemas_are_what_the_program_prints() {
    let home = tempfile::tempdir().unwrap();
    for name in ["envelope", "from-brain", "to-brain"] {
        let (printed, err, code) = run(bardo(home.path()).args(["golem", "protocol", name]));
        assert_eq!((err.as_str(), code), ("", 0));
        let file = format!("{}/assets/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let published = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(published == printed, "write it anew: cargo run -- golem protocol {name} > assets/schemas/{name}.json");
    }
}

#[test]
#[ignore = "needs node and ajv: run by .ci/run"]
fn ajv_accepts_every_schema_and_every_example() {
    let home = tempfile::tempdir().unwrap();
    let (tools, _, code) = run(bardo(home.path()).args(["tools", "--format", "json"]));
    assert_eq!(code, 0);
    let listed = home.path().join("tools.json");
    std::fs::write(&listed, tools).unwrap();
    let modules = std::env::var("BARDO_NODE_MODULES")
        .expect("BARDO_NODE_MODULES is not set: run eval \"$(.ci/tools/install)\" first");
    let output = Command::new("node")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemas/validate.mjs"))
        .env("BARDO_NODE_MODULES", modules)
        .stdin(Stdio::from(std::fs::File::open(&listed).unwrap()))
        .output()
        .expect("node runs");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{errors}");
    let all = bardo::tools::ALL_TOOL_DEFS.len();
    assert!(out.contains(&format!("{all} tools have sound schemas")), "{out}\n{errors}");
}
