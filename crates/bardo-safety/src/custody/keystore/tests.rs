//! Key files of other wallets, our own files, and files that must not open.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

use alloy_signer::SignerSync as _;

use super::cipher::{OURS, Scrypt};
use super::*;

/// The specification's own file with PBKDF2
/// (<https://ethereum.org/en/developers/docs/data-structures-and-encoding/web3-secret-storage/>), password
/// `testpassword`. Its file with scrypt has a cost of 2^18 for a block size of 1, which RFC 7914 rules out.
const SPECIFIED: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},"ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46","kdf":"pbkdf2","kdfparams":{"c":262144,"dklen":32,"prf":"hmac-sha256","salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},"mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;
const SPECIFIED_SECRET: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";

/// go-ethereum's `very-light-scrypt.json`, with an empty password.
const OF_GETH: &str = r#"{"address":"45dea0fb0bba44f4fcf290bba71fd57d7117cbb8","crypto":{"cipher":"aes-128-ctr","ciphertext":"b87781948a1befd247bff51ef4063f716cf6c2d3481163e9a8f42e1f9bb74145","cipherparams":{"iv":"dc4926b48a105133d2f16b96833abf1e"},"kdf":"scrypt","kdfparams":{"dklen":32,"n":2,"p":1,"r":8,"salt":"004244bbdc51cadda545b1cfa43cff9ed2ae88e08c61f1479dbb45410722f8f0"},"mac":"39990c1684557447940d4c69e06b1b82b2aceacb43f284df65c956daf3046b85"},"id":"ce541d8d-c79b-40f8-9f8c-20f59616faba","version":3}"#;

fn password(text: &str) -> Password {
    Password::new(text.into())
}

fn ledger(name: &str) -> LedgerId {
    name.parse().unwrap()
}

fn name(text: &str) -> KeyName {
    text.parse().unwrap()
}

fn secret() -> SecretKey {
    SecretKey::from_hex(SPECIFIED_SECRET).unwrap()
}

/// Text of one of our files, created once because the key derivation is slow. Password `correct horse`, ledger
/// `real-1`.
static OURS_TEXT: LazyLock<String> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let entry = Keystore::at(folder.path().join("keys"))
        .create(&name("made"), &secret(), &password("correct horse"), &ledger("real-1"))
        .unwrap();
    fs::read_to_string(entry.path).unwrap()
});

/// Returns a keystore with `text` as the file of key `made`.
fn holding(text: &str) -> (tempfile::TempDir, Keystore) {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    folder::create(&keys, &keys.join("made.json"), text.as_bytes(), &name("made")).unwrap();
    (folder, Keystore::at(keys))
}

fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut file: Value = serde_json::from_str(&OURS_TEXT).unwrap();
    change(&mut file);
    file.to_string()
}

#[test]
fn files_of_others_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs.json");
    let open = |text: &str, with: &str| {
        fs::write(&path, text).unwrap();
        Keystore::read_foreign(&path, &password(with))
    };
    assert_eq!(open(SPECIFIED, "testpassword").unwrap().expose(), secret().expose());
    let refused = open(SPECIFIED, "another").unwrap_err();
    assert!(matches!(refused, KeystoreError::Password { .. }), "{refused}");
    let address = open(OF_GETH, "").unwrap().signer().unwrap().address();
    assert_eq!(address.to_string().to_lowercase(), "0x45dea0fb0bba44f4fcf290bba71fd57d7117cbb8");
    let outside = open(&OF_GETH.replace(r#""n":2,"p":1,"r":8"#, r#""n":65536,"p":1,"r":1"#), "").unwrap_err();
    assert!(outside.to_string().contains("RFC 7914"), "{outside}");
}

#[test]
fn ours_has_the_parameters_that_were_promised_and_opens_again() {
    let file: Value = serde_json::from_str(&OURS_TEXT).unwrap();
    let kdf = &file["crypto"]["kdfparams"];
    assert_eq!((&file["version"], &file["crypto"]["kdf"]), (&3.into(), &"scrypt".into()));
    assert_eq!((&kdf["n"], &kdf["r"], &kdf["p"], &kdf["dklen"]), (&262_144.into(), &8.into(), &1.into(), &32.into()));
    assert_eq!(OURS, Scrypt { log_n: 18, r: 8, p: 1 });
    assert!(!OURS_TEXT.contains(SPECIFIED_SECRET));
    let id = file["id"].as_str().unwrap();
    assert!(id.len() == 36 && id.as_bytes()[14] == b'4' && b"89ab".contains(&id.as_bytes()[19]), "{id}");

    let (_folder, keystore) = holding(&OURS_TEXT);
    let account = keystore.open(&name("made"), &password("correct horse"), &ledger("real-1")).unwrap();
    let expected = secret().signer().unwrap().address();
    assert_eq!(crate::Account::address(&account), expected);
    assert!(account.is_open());
    let listed = keystore.list().unwrap();
    assert_eq!(listed.len(), 1);
    let entry = listed[0].entry.as_ref().unwrap();
    assert_eq!((entry.address, &entry.ledger), (expected, &ledger("real-1")));
    assert!(!format!("{account:?}").to_lowercase().contains(SPECIFIED_SECRET));
}

#[test]
fn a_key_opens_for_its_own_ledger_only() {
    let (_folder, keystore) = holding(&OURS_TEXT);
    let refused = keystore.open(&name("made"), &password("correct horse"), &ledger("real-2")).unwrap_err();
    assert!(matches!(&refused, KeystoreError::OtherLedger { found, .. } if *found == ledger("real-2")), "{refused}");

    // Changing the ledger's name fails, since it is authenticated.
    let (_folder, forged) = holding(&changed(|file| file["bardo"]["ledger"] = "real-2".into()));
    let refused = forged.open(&name("made"), &password("correct horse"), &ledger("real-2")).unwrap_err();
    assert!(matches!(refused, KeystoreError::Password { .. }), "{refused}");

    // So does removing it, or the address, by which the limits count.
    for member in ["bardo", "address"] {
        let (_folder, stripped) = holding(&changed(|file| {
            file.as_object_mut().unwrap().remove(member);
        }));
        let refused = stripped.open(&name("made"), &password("correct horse"), &ledger("real-1")).unwrap_err();
        assert!(matches!(refused, KeystoreError::Unbound { .. }), "{member}: {refused}");
    }
}

#[test]
fn a_changed_file_does_not_open() {
    let flip = |text: &mut Value| {
        let old = text.as_str().unwrap().to_owned();
        let first = if old.starts_with('0') { "1" } else { "0" };
        *text = format!("{first}{}", &old[1..]).into();
    };
    type Change = Box<dyn Fn(&mut Value)>;
    let changes: [(&str, Change); 5] = [
        ("ciphertext", Box::new(move |file| flip(&mut file["crypto"]["ciphertext"]))),
        ("salt", Box::new(move |file| flip(&mut file["crypto"]["kdfparams"]["salt"]))),
        ("mac", Box::new(move |file| flip(&mut file["crypto"]["mac"]))),
        ("iv", Box::new(move |file| flip(&mut file["crypto"]["cipherparams"]["iv"]))),
        ("address", Box::new(move |file| flip(&mut file["address"]))),
    ];
    for (what, change) in changes {
        let (_folder, keystore) = holding(&changed(|file| change(file)));
        let refused = keystore.open(&name("made"), &password("correct horse"), &ledger("real-1")).unwrap_err();
        // The checksum does not cover the initialisation vector: another key results, and its address reveals that.
        assert!(
            matches!(refused, KeystoreError::Password { .. } | KeystoreError::OtherKey { .. }),
            "{what}: {refused}"
        );
    }
}

#[test]
fn a_hostile_file_costs_nothing() {
    type Change = fn(&mut Value);
    let costly: [Change; 5] = [
        |file| file["crypto"]["kdfparams"]["n"] = (1u64 << 40).into(),
        |file| file["crypto"]["kdfparams"]["n"] = (1u64 << 63).into(),
        |file| file["crypto"]["kdfparams"]["r"] = u32::MAX.into(),
        |file| file["crypto"]["kdfparams"]["p"] = u32::MAX.into(),
        |file| {
            file["crypto"]["kdf"] = "pbkdf2".into();
            file["crypto"]["kdfparams"]["prf"] = "hmac-sha256".into();
            file["crypto"]["kdfparams"]["c"] = u32::MAX.into();
        },
    ];
    for change in costly {
        let (_folder, keystore) = holding(&changed(change));
        let refused = keystore.open(&name("made"), &password("correct horse"), &ledger("real-1")).unwrap_err();
        assert!(matches!(refused, KeystoreError::TooCostly { .. }), "{refused}");
    }
    let broken: [Change; 12] = [
        |file| file["version"] = 1.into(),
        |file| file["crypto"]["cipher"] = "aes-256-cbc".into(),
        |file| file["crypto"]["kdf"] = "argon2".into(),
        |file| file["crypto"]["kdfparams"]["dklen"] = 64.into(),
        |file| file["crypto"]["kdfparams"]["n"] = 262_143.into(),
        |file| file["crypto"]["kdfparams"]["n"] = Value::Null,
        |file| file["crypto"]["kdfparams"]["r"] = 0.into(),
        |file| file["crypto"]["kdfparams"]["salt"] = "00".repeat(129).into(),
        |file| file["crypto"]["ciphertext"] = "00".into(),
        |file| file["crypto"]["cipherparams"]["iv"] = "zz".into(),
        |file| file["bardo"]["ledger"] = "a/b".into(),
        |file| *file = Value::Null,
    ];
    for change in broken {
        let (_folder, keystore) = holding(&changed(change));
        let refused = keystore.open(&name("made"), &password("correct horse"), &ledger("real-1")).unwrap_err();
        assert!(matches!(refused, KeystoreError::Form { .. }), "{refused}");
        assert!(keystore.list().unwrap()[0].entry.is_err());
    }
    let (_folder, large) = holding(&format!("{}{}", *OURS_TEXT, " ".repeat(70_000)));
    assert!(matches!(large.entry(&name("made")), Err(KeystoreError::Form { .. })));
}

#[test]
fn a_file_is_made_whole_private_and_never_over_another() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("deep/keys");
    let path = keys.join("one.json");
    let made: Vec<bool> = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..8)
            .map(|number: u8| {
                let (keys, path) = (&keys, &path);
                scope.spawn(move || folder::create(keys, path, &[b'0' + number; 3_000], &name("one")).is_ok())
            })
            .collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1, "one maker wins");
    let text = fs::read(&path).unwrap();
    let winner = made.iter().position(|made| *made).unwrap();
    assert_eq!(text, [b'0' + winner as u8; 3_000], "and its file is whole and its own");
    assert_eq!(fs::read_dir(&keys).unwrap().count(), 1, "no draft is left");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&keys)), (0o600, 0o700));
    }
    let taken = Keystore::at(&keys).create(&name("one"), &secret(), &password("correct horse"), &ledger("real-1"));
    assert!(matches!(taken, Err(KeystoreError::Exists { .. })), "{taken:?}");
    assert_eq!(fs::read(&path).unwrap(), text);
}

#[cfg(unix)]
#[test]
fn keys_accessible_to_others_are_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, keystore) = holding(&OURS_TEXT);
    let path = keystore.path(&name("made"));
    let folder = path.parent().unwrap().to_owned();
    for (what, mode, back) in [(&path, 0o640, 0o600), (&path, 0o602, 0o600), (&folder, 0o770, 0o700)] {
        fs::set_permissions(what, fs::Permissions::from_mode(mode)).unwrap();
        let refused = keystore.entry(&name("made")).unwrap_err();
        assert!(matches!(&refused, KeystoreError::Mode { .. }), "{refused}");
        fs::set_permissions(what, fs::Permissions::from_mode(back)).unwrap();
    }
    assert!(keystore.entry(&name("made")).is_ok());
}

#[test]
fn key_names_cannot_escape_the_folder_and_a_missing_key_lists_the_known_ones() {
    for bad in ["", "a/b", "..", ".hidden", "a b", "ä", &"x".repeat(41)] {
        assert!(matches!(bad.parse::<KeyName>(), Err(KeystoreError::Name(_))), "{bad}");
    }
    let (_folder, keystore) = holding(&OURS_TEXT);
    let refused = keystore.open(&name("mode"), &password("correct horse"), &ledger("real-1")).unwrap_err();
    assert_eq!(
        refused,
        KeystoreError::NotFound { name: name("mode"), known: vec![name("made")] },
        "and nothing was created"
    );
    let nowhere = Keystore::at("/nowhere/at/all");
    assert_eq!(nowhere.list(), Ok(Vec::new()));
    let short = keystore.create(&name("other"), &secret(), &password("short"), &ledger("real-1")).unwrap_err();
    assert_eq!(short, KeystoreError::Secret(SecretError::ShortPassword(5)));
}

#[test]
fn the_file_of_a_wallet_server_has_its_credential_and_no_key_to_sign_with() {
    const CREDENTIAL: &str = "canary/credential+of=the-server";
    let folder = tempfile::tempdir().unwrap();
    let keystore = Keystore::at(folder.path().join("keys"));
    let signer = alloy_signer_local::PrivateKeySigner::random();
    let address = signer.address();
    let wallet = || ServerWallet::parse("https://wallets.example/base", "app-1", "wallet_1").unwrap();
    let credential = ServerCredential::new(password(CREDENTIAL)).unwrap();
    let (made, right, real) = (name("made"), password("correct horse"), ledger("real-1"));
    let signed = |wallet: alloy::primitives::Address| {
        let enrolment = ServerEnrolment::new(wallet, real.clone()).unwrap();
        let hash = enrolment.statement().unwrap().eip712_signing_hash().unwrap();
        enrolment.signed(&signer.sign_hash_sync(&hash).unwrap().as_bytes().into())
    };
    let refused = signed(alloy::primitives::Address::repeat_byte(0x5e)).map(|_| ()).unwrap_err();
    assert!(matches!(refused, ServerWalletError::NotItsOwn(_)), "a wallet of somebody else: {refused}");
    keystore.create_server(&made, (wallet(), &credential), signed(address).unwrap(), &right).unwrap();
    let wallet = wallet().of(address);
    let entry = keystore.entry(&made).unwrap();
    assert_eq!((entry.address, entry.server.as_deref()), (address, Some(&wallet)));
    let key = keystore.open_server(&made, &right, &real).unwrap();
    assert!(key.wallet() == &wallet && key.credential() == &credential);
    assert_eq!(keystore.verify(&made, &right).unwrap(), address, "who knows the password decides for its account");
    let text = fs::read_to_string(&entry.path).unwrap();
    let hidden = [CREDENTIAL.to_owned(), alloy::primitives::hex::encode(CREDENTIAL)];
    for printed in [&text, &format!("{key:?} {credential:?} {entry:?}")] {
        assert!(!hidden.iter().any(|hidden| printed.contains(hidden.as_str())), "{printed}");
    }
    // It signs nothing by itself, and is no other account's.
    let refused = keystore.open(&made, &right, &real).unwrap_err();
    assert!(matches!(refused, KeystoreError::OnServer { .. }), "{refused}");
    let refused = Keystore::read_foreign(&entry.path, &right).map(|_| ()).unwrap_err();
    assert!(matches!(refused, KeystoreError::OnServer { .. }), "{refused}");
    let refused = keystore.open_server(&made, &right, &ledger("real-2")).unwrap_err();
    assert!(matches!(refused, KeystoreError::OtherLedger { .. }), "{refused}");
    let refused = keystore.open_server(&made, &password("wrong horse"), &real).unwrap_err();
    assert!(matches!(refused, KeystoreError::Password { .. }), "{refused}");

    // Each of its members is authenticated: another server would get the credential, another address would be shown.
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 6] = [
        ("url", |server| server["url"] = "https://elsewhere.example/".into()),
        ("app", |server| server["app_id"] = "app-2".into()),
        ("wallet", |server| server["wallet_id"] = "wallet_2".into()),
        ("iv", |server| server["iv"] = "11".repeat(16).into()),
        ("credential", |server| server["credential"] = "11".repeat(31).into()),
        ("mac", |server| server["mac"] = "11".repeat(32).into()),
    ];
    for (what, change) in changes {
        let mut file: Value = serde_json::from_str(&text).unwrap();
        change(&mut file["bardo"]["server"]);
        let (_folder, forged) = holding(&file.to_string());
        let refused = forged.open_server(&made, &right, &real).unwrap_err();
        assert!(matches!(refused, KeystoreError::Password { .. }), "{what}: {refused}");
        assert!(forged.verify(&made, &right).is_err(), "{what}");
    }
    // Whoever cannot sign with the wallet cannot claim its address, whatever password they choose: known before it is asked.
    let claims: [(&str, Change); 3] = [
        ("another wallet", |file| file["bardo"]["server"]["address"] = "11".repeat(20).into()),
        ("another file's key", |file| file["address"] = "11".repeat(20).into()),
        ("another ledger", |file| file["bardo"]["ledger"] = "real-2".into()),
    ];
    for (what, change) in claims {
        let mut file: Value = serde_json::from_str(&text).unwrap();
        change(&mut file);
        let (_folder, forged) = holding(&file.to_string());
        let refused = forged.entry(&made).unwrap_err();
        assert!(matches!(refused, KeystoreError::Form { .. }), "{what}: {refused}");
    }
    // Without the server, the secret in the file would be a key; with one, a key would be a secret.
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let server = file["bardo"].as_object_mut().unwrap().remove("server").unwrap();
    let (_folder, stripped) = holding(&file.to_string());
    let refused = stripped.open(&made, &right, &real).map(|_| ()).unwrap_err();
    assert!(matches!(refused, KeystoreError::Password { .. }), "{refused}");
    let (_folder, forged) = holding(&changed(|file| file["bardo"]["server"] = server.clone()));
    let refused = forged.open_server(&made, &right, &real).map(|_| ()).unwrap_err();
    assert!(matches!(refused, KeystoreError::Form { .. }), "the wallet signed for another key: {refused}");
}

#[test]
fn a_wallet_server_is_named_by_an_encrypted_or_local_url_without_a_login() {
    for (url, app, wallet, error) in [
        ("http://wallets.example", "app", "wallet", "https://"),
        ("ws://127.0.0.1:1", "app", "wallet", "https://"),
        ("https://me:secret@wallets.example", "app", "wallet", "no login"),
        ("https://wallets.example/?key=secret", "app", "wallet", "no login"),
        ("wallets.example", "app", "wallet", "not a URL"),
        ("https://wallets.example", "", "wallet", "not an id"),
        ("https://wallets.example", "app", "../wallets", "not an id"),
    ] {
        let refused = ServerWallet::parse(url, app, wallet).unwrap_err().to_string();
        assert!(refused.contains(error) && !refused.contains("secret"), "{url}: {refused}");
    }
    assert!(ServerWallet::parse("http://127.0.0.1:4000", "app", "wallet").is_ok());
    for credential in ["", "two words", "line\nbreak", "ümlaut"] {
        assert!(ServerCredential::new(password(credential)).is_err(), "{credential}");
    }
}
