//! There is one way to a signature and one way to send it: reads the sources and names every place
//! outside the rooms that may.

use std::fs;
use std::path::{Path, PathBuf};

/// Words that sign, hold a key, or hand raw bytes to a chain.
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

/// Who may sign: keys, and the devnet's own inhabitants, whose keys refuse every other chain. Who may
/// send: the sender. And the devnet itself, which answers to the names of the calls.
const ROOMS: &[(&str, &str)] = &[
    ("custody/", "keys, used by a capability alone"),
    ("sandbox/", "inhabitants of the devnet, whose keys refuse every other chain"),
    ("chain/sender/", "stored bytes, sent"),
    ("chain/devnet/rpc/", "the chain that is sent to: names of its calls"),
    ("chain/provider/method.rs", "which calls may be asked twice: their names"),
];

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

/// Lines of code that hold one of the words: neither comments nor tests count.
fn found_in(source: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        // A test module stands at a file's end.
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
    relative.ends_with("/tests.rs") || relative.contains("/tests/")
}

#[test]
fn nothing_signs_or_sends_outside_its_room() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    assert!(files.len() > 100, "found only {} files: is the path right?", files.len());
    let mut faults = Vec::new();
    let mut inside = 0;
    for file in files {
        let relative = file.strip_prefix(&source).unwrap().display().to_string();
        if is_test(&relative) {
            continue;
        }
        let found = found_in(&fs::read_to_string(&file).unwrap());
        if ROOMS.iter().any(|(room, _)| relative.starts_with(room)) {
            inside += found.len();
            continue;
        }
        faults.extend(found.into_iter().map(|(line, word)| format!("src/{relative}:{line}: `{word}`")));
    }
    assert!(inside > 0, "not even the rooms that sign were found: the words are wrong");
    assert!(faults.is_empty(), "\nsigning or sending outside of its room:\n{}\n", faults.join("\n"));
}

#[test]
fn only_the_pipeline_makes_a_capability() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let mut makers = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&source).unwrap().display().to_string();
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
    let pipeline = ["order.rs", "outbid.rs", "sign.rs"].map(|file| format!("safety/pipeline/{file}"));
    assert_eq!(makers, pipeline);
}

#[test]
fn words_are_found_and_comments_are_not() {
    assert_eq!(found_in("let s = key.sign_hash_sync(&h);").len(), 1);
    assert_eq!(found_in("// key.sign_hash(h)\n    /// eth_sign").len(), 0);
    assert_eq!(found_in("fn a() {}\n#[cfg(test)]\nmod tests {\n use x::SigningKey;\n}").len(), 0);
    assert_eq!(found_in("#[cfg(test)]\nmod tests;\nuse x::SigningKey;").len(), 1);
    assert!(is_test("chain/devnet/tests.rs") && !is_test("chain/devnet/mod.rs"));
}
