//! There is only one path to a signature and one path to send it: reads the sources and finds every place outside the
//! permitted modules.

use std::fs;
use std::path::{Path, PathBuf};

/// Identifiers that sign, hold a key, or submit raw bytes to a chain.
const WORDS: &[&str] = &[
    "sign_hash",
    "sign_message",
    "sign_typed",
    "sign_dynamic",
    "sign_transaction",
    "into_signed",
    "SignerSync",
    "TxSigner",
    "NetworkWallet",
    "EthereumWallet",
    "PrivateKeySigner",
    "LocalSigner",
    "SigningKey",
    "MnemonicBuilder",
    "send_raw_transaction",
    "send_transaction",
    "send_tx_envelope",
    "eth_sendRawTransaction",
    "eth_sendTransaction",
    "eth_sign",
    "personal_sign",
];

/// Modules that may sign: keys, and the devnet's own actors, whose keys refuse to sign for any other chain. Modules
/// that may send: the sender. And the devnet itself, which implements methods of these names.
const MODULES: &[(&str, &str)] = &[
    ("crates/bardo-safety/src/custody/", "keys, used by a capability alone"),
    ("crates/bardo-sandbox/src/", "inhabitants of the devnet, whose keys refuse every other chain"),
    ("crates/golem-chain/src/sender/", "stored bytes, sent"),
    ("crates/bardo-runtime/src/wallet_server.rs", "what a capability lets a wallet server sign: names of its calls"),
    ("crates/golem-chain/src/devnet/rpc/sign.rs", "the devnet's node, with the keys of the public mnemonic alone"),
    ("crates/golem-chain/src/devnet/rpc/", "the chain that is sent to: names of its calls"),
    ("crates/golem-chain/src/devnet/forked.rs", "state that calls of a local fork read ahead: names of the calls"),
    ("crates/golem-chain/src/provider/method.rs", "which calls may be asked twice: their names"),
];

/// Sources of the program and of every crate, with their paths from the root of the repository.
fn sources() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let mut found = Vec::new();
    for folder in crates.chain([root.join("src")]) {
        rust_files(&folder, &mut found);
    }
    assert!(found.len() > 100, "found only {} files: is the path right?", found.len());
    found.into_iter().map(|file| (file.strip_prefix(root).unwrap().display().to_string(), file)).collect()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Lines of code with one of these identifiers, without comments and tests.
fn found_in(source: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        // A test module is at the end of a file.
        if line.trim() == "#[cfg(test)]" && source.lines().nth(number).is_some_and(|next| next.contains("mod tests {"))
        {
            break;
        }
        if line.trim_start().starts_with("//") {
            continue;
        }
        found.extend(WORDS.iter().filter(|word| line.contains(**word)).map(|word| (number, *word)));
    }
    found
}

fn is_test(relative: &str) -> bool {
    relative.ends_with("/tests.rs") || relative.contains("/tests/") || relative.starts_with("crates/bardo-testkit/")
}

/// The harness of the tests signs with keys of its own, so no crate may be built with it.
#[test]
fn only_tests_depend_on_the_testkit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut users = 0;
    for folder in crates.chain([root.to_owned()]) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let mut section = "";
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            } else if line.starts_with("bardo-testkit") {
                assert!(matches!(section, "[dev-dependencies]" | "[workspace.dependencies]"), "{folder:?}: {section}");
                users += 1;
            }
        }
    }
    assert_eq!(users, 2, "the program's tests use it");
}

#[test]
fn nothing_signs_or_sends_outside_its_module() {
    let mut faults = Vec::new();
    let mut inside = 0;
    for (relative, file) in sources() {
        if is_test(&relative) {
            continue;
        }
        let found = found_in(&fs::read_to_string(&file).unwrap());
        if MODULES.iter().any(|(module, _)| relative.starts_with(module)) {
            inside += found.len();
            continue;
        }
        faults.extend(found.into_iter().map(|(line, word)| format!("{relative}:{line}: `{word}`")));
    }
    assert!(inside > 0, "not even the modules that sign were found: the words are wrong");
    assert!(faults.is_empty(), "\nsigning or sending outside of its module:\n{}\n", faults.join("\n"));
}

/// The devnet's crate has no keys of users and no access to them: custody is in a crate that depends on it.
#[test]
fn the_devnet_signs_only_with_the_public_mnemonic() {
    let makers = ["PrivateKeySigner", "MnemonicBuilder", "LocalSigner", "SigningKey", "SecretKey"];
    let mut found = Vec::new();
    for (relative, file) in sources() {
        let source = fs::read_to_string(file).unwrap();
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        let uses = code.clone().any(|line| makes_key(line, &makers));
        if relative.starts_with("crates/golem-chain/src/devnet/") && !is_test(&relative) && uses {
            let from: Vec<_> =
                code.filter(|line| line.contains("from_phrase") || line.contains("from_bytes")).collect();
            found.push((relative, from.join("").trim().to_owned()));
        }
    }
    let expected = "let parent = MnemonicBuilder::from_phrase(MNEMONIC).build_parent_key();";
    assert_eq!(found, [("crates/golem-chain/src/devnet/rpc/sign.rs".to_owned(), expected.to_owned())]);
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/golem-chain/Cargo.toml");
    assert!(!fs::read_to_string(manifest).unwrap().contains("bardo-safety"));
}

fn makes_key(line: &str, makers: &[&str]) -> bool {
    makers.iter().any(|word| line.contains(word))
}

#[test]
fn only_the_pipeline_creates_a_capability() {
    let mut makers = Vec::new();
    for (relative, file) in sources() {
        if is_test(&relative) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let makes = ["Capability::new(", "Capability::of_order(", "Capability {"];
        if code.clone().any(|line| makes.iter().any(|word| line.contains(word))) {
            makers.push(relative);
        }
    }
    makers.sort();
    let pipeline = ["order.rs", "outbid.rs", "sign.rs"].map(|file| format!("crates/bardo-safety/src/pipeline/{file}"));
    assert_eq!(makers, pipeline);
}

/// Only the password check creates proofs of the operator's decision; tests create their own.
#[test]
fn only_the_password_check_creates_proofs() {
    let makes = |(_, path): &(String, PathBuf)| {
        let source = fs::read_to_string(path).unwrap();
        // Everything after the last test attribute is test code.
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        !path.ends_with("tests.rs") && code.contains("OperatorProof::issue(")
    };
    let made: Vec<_> = sources().into_iter().filter(makes).map(|(relative, _)| relative).collect();
    assert_eq!(made, ["crates/bardo-safety/src/custody/reauthentication.rs"]);
}

#[test]
fn words_are_found_and_comments_are_not() {
    assert_eq!(found_in("let s = key.sign_hash_sync(&h);").len(), 1);
    assert_eq!(found_in("// key.sign_hash(h)\n    /// eth_sign").len(), 0);
    assert_eq!(found_in("fn a() {}\n#[cfg(test)]\nmod tests {\n use x::SigningKey;\n}").len(), 0);
    assert_eq!(found_in("#[cfg(test)]\nmod tests;\nuse x::SigningKey;").len(), 1);
    assert!(is_test("chain/devnet/tests.rs") && !is_test("chain/devnet/mod.rs"));
}
