//! Compares `SECURITY.md` with the attack cases by name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// `module::test` of every test function in this folder.
fn cases() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks");
    let mut cases = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_none_or(|extension| extension != "rs") || module == "named" {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let mut is_test = false;
        for line in source.lines().map(str::trim) {
            if line.starts_with("#[") {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                continue;
            }
            let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            if let Some(name) = name.and_then(|rest| rest.split('(').next()).filter(|_| is_test) {
                cases.insert(format!("{module}::{name}"));
            }
            is_test = false;
        }
    }
    cases
}

/// Every `attacks module::test` that `SECURITY.md` names in backticks.
fn documented() -> BTreeSet<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md")).unwrap();
    let quoted = page.split('`').skip(1).step_by(2);
    let names = quoted.filter_map(|text| text.strip_prefix("attacks ")).filter(|name| name.contains("::"));
    names.map(str::to_owned).collect()
}

#[test]
fn security_md_names_exactly_the_existing_cases() {
    let (cases, documented) = (cases(), documented());
    let missing: Vec<_> = cases.difference(&documented).collect();
    let invented: Vec<_> = documented.difference(&cases).collect();
    assert!(missing.is_empty(), "SECURITY.md does not name these cases: {missing:#?}");
    assert!(invented.is_empty(), "SECURITY.md names cases that do not exist: {invented:#?}");
}
