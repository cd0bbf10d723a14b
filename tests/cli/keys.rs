//! `bardo keys` as a shell and a person use it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{bardo, run};

/// First private key of the development mnemonic, known to every tool.
const FIRST: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const FIRST_ADDRESS: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const SECOND_ADDRESS: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const PHRASE: &str = "test test test test test test test test test test test junk";

/// Runs the binary in a shell that provides descriptors 3 and 4 with these texts.
pub fn with_secrets(home: &Path, arguments: &str, third: &str, fourth: &str) -> (String, String, i32) {
    let script = format!("exec \"$BARDO\" {arguments} 3<\"$HOME/third\" 4<\"$HOME/fourth\"");
    fs::write(home.join("third"), third).unwrap();
    fs::write(home.join("fourth"), fourth).unwrap();
    let mut command = Command::new("sh");
    command.env_clear().env("BARDO_HOME", home).env("HOME", home).env("BARDO", env!("CARGO_BIN_EXE_bardo"));
    let output = command.args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

fn list(home: &Path) -> Value {
    let (out, err, code) = run(bardo(home).args(["keys", "list", "--json"]));
    assert_eq!((err.as_str(), code), ("", 0));
    serde_json::from_str(&out).unwrap()
}

#[test]
fn keys_are_created_imported_and_listed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    assert_eq!(list(home), Value::Array(Vec::new()));
    let (out, err, code) = with_secrets(home, "keys new fresh --password-fd 3", "correct horse\n", "");
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("\nfresh  0x") && err.contains("Back up"), "{out} {err}");

    let import = "keys import first --secret-fd 3 --password-fd 4";
    let (out, err, code) = with_secrets(home, import, FIRST, "battery staple\r\n");
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(FIRST_ADDRESS) && !out.contains(FIRST) && !err.contains(FIRST), "{out} {err}");
    let phrase = "keys import second --mnemonic --index 1 --secret-fd 3 --password-fd 4";
    let (out, err, code) = with_secrets(home, phrase, PHRASE, "battery staple");
    assert!(code == 0 && out.contains(SECOND_ADDRESS), "{out} {err}");

    let listed = list(home);
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "fresh", "second"]);
    assert_eq!(listed[0]["address"], FIRST_ADDRESS);
    let ledgers: Vec<_> = listed.as_array().unwrap().iter().map(|key| key["ledger"].clone()).collect();
    assert!(ledgers[0].as_str().unwrap().starts_with("real-") && ledgers.iter().all(|one| *one == ledgers[0]));

    // A copy beside another ledger would be counted twice: nothing is overwritten, and the name is reserved at once.
    let before = fs::read(listed[0]["file"].as_str().unwrap()).unwrap();
    let (_, err, code) = with_secrets(home, import, FIRST, "another password");
    assert!(code == 1 && err.contains("already"), "{err}");
    assert_eq!(fs::read(listed[0]["file"].as_str().unwrap()).unwrap(), before);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(listed[0]["file"].as_str().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn secrets_are_read_only_from_descriptors() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for (arguments, code, words) in [
        // Neither a terminal nor a descriptor.
        ("keys new fresh", 2, "no terminal is available to ask"),
        ("keys new fresh --password hunter2222", 2, "unexpected argument"),
        ("keys import fresh 0x12", 2, "unexpected argument"),
        ("keys new fresh --password-fd 9", 2, "descriptor 9"),
        ("keys new ../fresh --password-fd 3", 2, "not a valid key name"),
        ("keys new fresh --password-fd 4", 2, "it is empty"),
        ("keys new fresh --password-fd 3", 1, "at least 8"),
        ("keys import fresh --secret-fd 3 --password-fd 3", 2, "two different descriptors"),
        ("keys import fresh --secret-fd 3 --password-fd 3", 2, "each with one secret"),
        ("keys import fresh --secret-fd 3", 1, "not a private key"),
        ("keys import fresh --mnemonic --secret-fd 3", 1, "not a mnemonic"),
        ("keys import fresh --keystore nowhere.json --secret-fd 3", 1, "nowhere.json"),
    ] {
        let (out, err, ended) = with_secrets(home, arguments, "short", "");
        assert_eq!((out.as_str(), ended), ("", code), "{arguments}: {err}");
        assert!(err.contains(words) && !err.contains("short"), "{arguments}: {err}");
    }
    let (_, err, code) = with_secrets(home, "keys new fresh --password-fd 3", &"x".repeat(2_000), "");
    assert!(code == 2 && err.contains("longer than"), "{err}");
    assert_eq!(list(home), Value::Array(Vec::new()));
}

#[test]
#[ignore = "needs cast: run by .ci/run"]
fn a_stock_cast_wallet_opens_ours_and_ours_opens_casts() {
    let cast = std::env::var("BARDO_CAST").unwrap_or_else(|_| "cast".to_owned());
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let import = "keys import first --secret-fd 3 --password-fd 4";
    let (_, err, code) = with_secrets(home, import, FIRST, "battery staple");
    assert_eq!(code, 0, "{err}");
    let file = list(home)[0]["file"].as_str().unwrap().to_owned();
    let address = |file: &str, password: &str| {
        let output = Command::new(&cast)
            .args(["wallet", "address", "--keystore", file, "--password", password])
            .output()
            .unwrap();
        (String::from_utf8(output.stdout).unwrap().trim().to_owned(), output.status.success())
    };
    assert_eq!(address(&file, "battery staple"), (FIRST_ADDRESS.to_owned(), true));
    assert!(!address(&file, "battery").1);

    let folder = home.join("cast");
    fs::create_dir(&folder).unwrap();
    let made = Command::new(&cast)
        .args(["wallet", "import", "theirs", "--private-key", FIRST, "--unsafe-password", "their password"])
        .arg("--keystore-dir")
        .arg(&folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let theirs = format!("keys import theirs --keystore {}/theirs --secret-fd 3 --password-fd 4", folder.display());
    let (out, err, code) = with_secrets(home, &theirs, "their password", "our password");
    assert!(code == 0 && out.contains(FIRST_ADDRESS), "{out} {err}");
    let (_, err, code) =
        with_secrets(home, &theirs.replace("theirs --key", "other --key"), "not theirs", "our password");
    assert!(code == 1 && err.contains("password is wrong"), "{err}");
    let rewritten: Value = serde_json::from_slice(&fs::read(home.join("data/keys/theirs.json")).unwrap()).unwrap();
    assert_eq!(rewritten["crypto"]["kdfparams"]["n"], 262_144);
}

#[test]
fn a_key_of_a_wallet_server_is_added_after_the_server_described_it() {
    use bardo_testkit::wallet_server::{APP_ID, LocalWalletServer, SECRET, ServerMode, WALLET_ID};
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let server = LocalWalletServer::start(FIRST.parse().unwrap());
    let add = |name: &str, wallet: &str, secret: &str| {
        let url = server.url();
        let place = format!("--url {url} --app-id {APP_ID} --wallet-id {wallet} --secret-fd 3 --password-fd 4");
        with_secrets(home, &format!("keys server {name} {place}"), secret, "battery staple")
    };
    let (out, err, code) = add("wrong", WALLET_ID, "another-secret");
    assert!((out.as_str(), code) == ("", 1) && err.contains("401") && !err.contains("another-secret"), "{err}");
    let (_, err, code) = add("other", "no-such-wallet", SECRET);
    assert!(code == 1 && err.contains("404"), "{err}");
    let (out, err, code) = add("far", WALLET_ID, SECRET);
    assert!(code == 0 && out.contains(FIRST_ADDRESS) && out.contains("key on http://127.0.0.1:"), "{out} {err}");
    assert!(err.contains("no policy"), "the server of this test has none: {err}");
    let listed = list(home);
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["address"]), (1, &FIRST_ADDRESS.into()));
    for hidden in [SECRET, "canary"] {
        let file = fs::read_to_string(listed[0]["file"].as_str().unwrap()).unwrap();
        assert!(![&file, &out, &err].iter().any(|text| text.contains(hidden)), "{file} {out} {err}");
    }
    // It acts on real networks only, like every key; one that does not answer is enough to see who would sign.
    fs::write(home.join("config.toml"), "network = \"sepolia\"\naccount = \"far\"\n").unwrap();
    let (out, _, _) = run(bardo(home).args(["doctor"]));
    assert!(out.contains("far acts: ") && out.contains("with the key on the wallet server http://127.0.0.1:"), "{out}");
    // A server that describes another address than it did is not used.
    server.behave(ServerMode::OtherAddress);
    let (_, err, code) = add("far", WALLET_ID, SECRET);
    assert!(code == 1 && err.contains("already"), "{err}");
}

/// Output of the terminal while a person creates a key at the prompt.
#[test]
fn a_password_prompt_shows_no_input() {
    use portable_pty::{CommandBuilder, PtySize, native_pty_system};
    use std::io::{Read as _, Write as _};
    let home = tempfile::tempdir().unwrap();
    let start = |words: &[&str]| {
        let pair =
            native_pty_system().openpty(PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 }).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bardo"));
        command.env_clear();
        command.env("BARDO_HOME", home.path());
        command.env("TERM", "xterm-256color");
        command.args(words);
        let child = pair.slave.spawn_command(command).unwrap();
        // Once the last handle of the other end is closed, reading ends with the program.
        drop(pair.slave);
        let (reader, writer) = (pair.master.try_clone_reader().unwrap(), pair.master.take_writer().unwrap());
        (pair.master, child, reader, writer)
    };
    /// Reads until the terminal has shown `words`, or to the end.
    fn until(reader: &mut dyn std::io::Read, words: Option<&str>) -> String {
        let (mut seen, mut buffer) = (String::new(), [0; 1024]);
        while words.is_none_or(|words| !seen.contains(words)) {
            match reader.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => seen.push_str(&String::from_utf8_lossy(&buffer[..count])),
            }
        }
        seen
    }

    let (_master, mut child, mut reader, mut writer) = start(&["keys", "new", "typed"]);
    let mut seen = until(&mut reader, Some("password for the new key, at least 8 characters: "));
    writer.write_all(b"wrong\x15correct hoarse\x7f\x7f\x7f\x7frse\r").unwrap();
    seen += &until(&mut reader, Some("repeat it: "));
    writer.write_all(b"correct horse\r").unwrap();
    let mut rest = String::new();
    seen += &until(&mut reader, Some("typed  0x"));
    // The program's last output may still be in transit when the other end closes.
    let _ = reader.read_to_string(&mut rest);
    assert!(child.wait().unwrap().success(), "{seen}");
    for typed in ["wrong", "correct", "horse", "hoarse"] {
        assert!(!seen.contains(typed) && !rest.contains(typed), "{seen}{rest}");
    }
    assert_eq!(list(home.path())[0]["name"], "typed");

    let (_master, mut child, mut reader, mut writer) = start(&["keys", "new", "other"]);
    until(&mut reader, Some("password for the new key, at least 8 characters: "));
    writer.write_all(b"correct horse\r").unwrap();
    until(&mut reader, Some("repeat it: "));
    writer.write_all(b"correct house\r").unwrap();
    assert!(until(&mut reader, None).contains("differ"));
    assert_eq!(child.wait().unwrap().exit_code(), 1);

    let (_master, mut child, mut reader, mut writer) = start(&["keys", "new", "other"]);
    until(&mut reader, Some("password for the new key, at least 8 characters: "));
    writer.write_all(b"correct\x03").unwrap();
    assert!(until(&mut reader, None).contains("nothing was changed"));
    assert_eq!(child.wait().unwrap().exit_code(), 1);
    assert_eq!(list(home.path()).as_array().unwrap().len(), 1);
}
