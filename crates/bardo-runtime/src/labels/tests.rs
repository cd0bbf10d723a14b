//! Rules of labels: none can be mistaken for another name, and no labelled address for another one.

use alloy::primitives::address;

use super::*;

const ALICE: Address = address!("90F79bf6EB2c4f870365E785982E1f101E93b906");
const BOB: Address = address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65");
const OWN: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");

fn folder() -> (tempfile::TempDir, Labels) {
    let folder = tempfile::tempdir().unwrap();
    let labels = Labels::of(&DataFolder::at(folder.path()));
    (folder, labels)
}

fn own() -> Vec<(SafeText, Address)> {
    vec![(SafeText::clean("trading", 40), OWN)]
}

async fn add(labels: &Labels, address: Address, name: &str) -> Result<Label, LabelError> {
    labels.add((address, name), None, &own(), &[], 7).await
}

#[tokio::test]
async fn a_label_is_listed_renamed_and_removed() {
    let (_folder, labels) = folder();
    assert_eq!(labels.list().unwrap(), []);
    assert!(!labels.path.exists(), "looking creates nothing");
    let alice = add(&labels, ALICE, "Alice, cold wallet").await.unwrap();
    let bob = labels.add((BOB, "Bob"), Some(true), &own(), &[], 8).await.unwrap();
    assert_eq!(labels.list().unwrap(), [alice, bob.clone()]);
    let renamed = add(&labels, ALICE, "Alice").await.unwrap();
    assert_eq!(labels.list().unwrap(), [renamed.clone(), bob.clone()]);
    assert_eq!(labels.remove("Bob").await.unwrap(), Some(bob));
    assert_eq!(labels.remove("Bob").await.unwrap(), None);
    assert_eq!(labels.remove(&ALICE.to_string()).await.unwrap(), Some(renamed));
    assert_eq!(labels.list().unwrap(), []);
}

#[tokio::test]
async fn a_name_that_imitates_another_is_refused() {
    let (_folder, labels) = folder();
    add(&labels, ALICE, "Alice").await.unwrap();
    for (name, imitated) in [
        // Cyrillic А; small l for I and capital I for l; a zero for an o.
        ("\u{410}lice", "Alice"),
        ("AIice", "Alice"),
        ("alice", "Alice"),
        ("Trading", "trading"),
        ("tradlng", "trading"),
        // The names of contracts and tokens.
        ("permit2", "Permit2"),
        ("USDC.", "USDC"),
    ] {
        let error = add(&labels, BOB, name).await.unwrap_err();
        let LabelError::Imitates { what, .. } = &error else { panic!("{name}: {error}") };
        assert!(what.of.is_none() || what.of.as_deref() == Some(imitated), "{name}: {error}");
    }
    assert!(matches!(add(&labels, BOB, "Alice").await, Err(LabelError::Taken { address, .. }) if address == ALICE));
    assert_eq!(labels.list().unwrap().len(), 1, "nothing of it was added");
}

#[tokio::test]
async fn a_name_is_plain_text_and_no_address() {
    let (_folder, labels) = folder();
    for name in ["", " Bob", "Bob\u{202e}", "B\u{200b}ob", "a\nb", "“Bob”", "\x1b[31mBob", &"x".repeat(41)] {
        let error = add(&labels, BOB, name).await.unwrap_err();
        assert!(matches!(error, LabelError::Unusable(_)), "{name:?}: {error}");
    }
    for name in [
        "0xf39F…2266",
        "Ox90F7…b906",
        "90F79bf6…b906",
        "\u{ff10}\u{ff58}90F7",
        &ALICE.to_string(),
        "90F79bf6EB2c4f870365E785982E1f101E93b906",
    ] {
        let error = add(&labels, BOB, name).await.unwrap_err();
        assert!(matches!(error, LabelError::LikeAddress(_)), "{name}: {error}");
    }
}

#[tokio::test]
async fn an_address_that_looks_like_a_known_one_gets_no_label() {
    let (_folder, labels) = folder();
    add(&labels, ALICE, "Alice").await.unwrap();
    for (address, other) in [
        (address!("90F7000000000000000000000000000000000906"), None),
        (address!("90F700000000000000000000000000000000b906"), Some(ALICE)),
        (address!("f39F000000000000000000000000000000002266"), Some(OWN)),
        // Permit2: 0x0000…78BA3.
        (
            address!("0000111111111111111111111111111111118BA3"),
            Some(address!("000000000022D473030F116dDEE9F6B43aC78BA3")),
        ),
    ] {
        match (add(&labels, address, "Carol").await, other) {
            (Ok(_), None) => drop(labels.remove("Carol").await.unwrap()),
            (Err(LabelError::Resembles { other, .. }), Some(expected)) => assert_eq!(other, expected),
            (result, _) => panic!("{address}: {result:?}"),
        }
    }
    assert!(matches!(add(&labels, OWN, "Mine").await, Err(LabelError::Known { address, .. }) if address == OWN));
}

#[test]
fn a_name_stands_beside_its_address_with_its_origin() {
    let label = |name: &str, address| Label { address, name: SafeText::clean(name, 40), watched: false, added_at: 0 };
    let names = AddressNames::of(&own(), &[label("Alice", ALICE)]);
    let told = |network, address| names.describe(network, address).map(|name| name.to_string());
    assert_eq!(told(None, ALICE).as_deref(), Some("label “Alice”"));
    assert_eq!(told(None, OWN).as_deref(), Some("own account trading"));
    assert_eq!(told(None, BOB), None);
    let ethereum = golem_chain::network::by_id(1).unwrap();
    let permit2 = ethereum.book.contract(golem_chain::network::KnownContract::Permit2).unwrap();
    assert!(told(Some(ethereum), permit2).unwrap().contains("Permit2"));
}

#[test]
fn an_address_with_a_changed_character_is_refused() {
    assert!(parse_address("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266").is_ok());
    assert!(parse_address("0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266").is_ok(), "without a checksum");
    for (text, why) in [
        ("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92267", "checksum"),
        ("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "40 hexadecimal digits"),
        ("0xf39F", "40 hexadecimal digits"),
        ("alice.eth", "40 hexadecimal digits"),
        ("0x0000000000000000000000000000000000000000", "no owner"),
    ] {
        let error = parse_address(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

/// Renaming says nothing about watching, and nothing about when the address was named first.
#[tokio::test]
async fn a_renamed_label_stays_watched_until_that_is_ended() {
    let (_folder, labels) = folder();
    labels.add((BOB, "Bob"), Some(true), &own(), &[], 8).await.unwrap();
    let renamed = labels.add((BOB, "Robert"), None, &own(), &[], 9).await.unwrap();
    assert_eq!((renamed.watched, renamed.added_at), (true, 8));
    let ended = labels.add((BOB, "Robert"), Some(false), &own(), &[], 10).await.unwrap();
    assert!(!ended.watched);
    assert_eq!(labels.list().unwrap(), [ended]);
}

/// Half of the signs that fit: each of these takes two columns.
#[tokio::test]
async fn a_label_is_as_wide_as_the_screens_allow() {
    let (_folder, labels) = folder();
    let error = add(&labels, BOB, &"数".repeat(21)).await.unwrap_err();
    assert!(matches!(error, LabelError::Unusable(_)), "{error}");
    add(&labels, BOB, &"数".repeat(20)).await.unwrap();
}

#[tokio::test]
async fn a_key_that_can_be_taken_for_a_label_is_named() {
    let (_folder, labels) = folder();
    add(&labels, ALICE, "Alice").await.unwrap();
    let other = address!("1111111111111111111111111111111111111111");
    let poisoned = address!("90F700000000000000000000000000000000b906");
    let words = |name, address| labels.confusable_with_key(name, address).unwrap();
    assert!(words("AIice", other).is_some_and(|words| words.contains("Alice")));
    assert!(words("Alice", other).is_some_and(|words| words.contains("name of a label")));
    assert!(words("trading", poisoned).is_some_and(|words| words.contains(&ALICE.to_string())));
    assert_eq!(words("trading", other), None);
    assert_eq!(words("Alice", ALICE), None, "the label is its own name");
}

/// An ENS name is marked as such, gives way to the operator's own words, and is flagged if it imitates them.
#[test]
fn an_ens_name_is_no_label() {
    let label = Label { address: ALICE, name: SafeText::clean("Alice", 40), watched: false, added_at: 0 };
    let other = address!("1111111111111111111111111111111111111111");
    let ens = [(ALICE, "somebody.eth"), (BOB, "alice.eth"), (other, "bob.eth")];
    let ens = ens.map(|(address, name)| (address, SafeText::clean(name, 60))).into();
    let names = AddressNames::of(&own(), &[label]).with_ens(&ens);
    let shown = |address| names.describe(None, address).unwrap().to_string();
    assert_eq!(shown(ALICE), "label “Alice”");
    assert_eq!(shown(BOB), "ENS “alice.eth”, like the name of ANOTHER address");
    assert_eq!(shown(other), "ENS “bob.eth”");
}
