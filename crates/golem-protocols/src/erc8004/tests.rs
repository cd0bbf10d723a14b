//! Tests of ids, rules and files. Hashes, calldata and events are checked against vectors in `tests/vectors.rs`.

use alloy::primitives::{B256, Bytes, address};

use super::file::{FileError, ReadRegistration, Review, TYPE};
use super::*;

const OWNER: Address = address!("0x00000000000000000000000000000000000000a1");
const CLIENT: Address = address!("0x00000000000000000000000000000000000000a2");

fn feedback(value: i128, decimals: u8) -> RegistryCall {
    let none = String::new;
    let (endpoint, uri, hash) = (none(), none(), B256::ZERO);
    RegistryCall::GiveFeedback { agent: U256::from(1), value, decimals, tags: [none(), none()], endpoint, uri, hash }
}

#[test]
fn agents_and_registries_are_read_as_they_are_written() {
    let agent = AgentId { chain_id: 8453, number: U256::from(42) };
    assert_eq!(agent.to_string(), "8453:42");
    assert_eq!("8453:42".parse(), Ok(agent));
    for wrong in ["", ":", "8453", "8453:", ":42", "8453:-1", "+8453:1", "8453:0x2a", "8453:42 ", "8453:42:1"] {
        assert_eq!(wrong.parse::<AgentId>(), Err(AgentIdError), "{wrong:?}");
    }
    let text = "eip155:8453:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432";
    assert_eq!(text.parse::<AgentRegistry>().unwrap().to_string(), text);
    for wrong in
        ["", "eip155:8453", "solana:1:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432", "eip155:x:0x8004", "8453:42"]
    {
        assert_eq!(wrong.parse::<AgentRegistry>(), Err(RegistryError), "{wrong:?}");
    }
}

#[test]
fn an_owner_may_not_rate_its_own_agent() {
    assert_eq!(feedback(5, 0).check(OWNER, &[CLIENT, OWNER]), Err(RuleError::OwnAgent(OWNER)));
    assert_eq!(feedback(5, 0).check(CLIENT, &[OWNER]), Ok(()));
}

#[test]
fn values_beyond_what_the_registries_take_are_refused() {
    let most = 10_i128.pow(38);
    assert_eq!(feedback(most, 18).check(CLIENT, &[]), Ok(()));
    assert_eq!(feedback(-most, 18).check(CLIENT, &[]), Ok(()));
    assert_eq!(feedback(most + 1, 0).check(CLIENT, &[]), Err(RuleError::Value));
    assert_eq!(feedback(i128::MIN, 0).check(CLIENT, &[]), Err(RuleError::Value));
    assert_eq!(feedback(1, 19).check(CLIENT, &[]), Err(RuleError::Decimals(19)));
    let answer = |response| RegistryCall::RespondValidation {
        request: B256::ZERO,
        response,
        uri: String::new(),
        hash: B256::ZERO,
        tag: String::new(),
    };
    assert_eq!(answer(100).check(CLIENT, &[]), Ok(()));
    assert_eq!(answer(101).check(CLIENT, &[]), Err(RuleError::Response(101)));
    let revoke = |index| RegistryCall::RevokeFeedback { agent: U256::from(1), index };
    assert_eq!(revoke(0).check(CLIENT, &[]), Err(RuleError::IndexZero));
    assert_eq!(revoke(1).check(CLIENT, &[]), Ok(()));
    let give = RegistryCall::Transfer { agent: U256::from(1), from: OWNER, to: Address::ZERO };
    assert_eq!(give.check(OWNER, &[OWNER]), Err(RuleError::NoRecipient));
}

#[test]
fn only_a_signature_sets_the_wallet() {
    let key = || "agentWallet".to_owned();
    let value = Bytes::from_static(&[1]);
    let set = RegistryCall::SetMetadata { agent: U256::from(1), key: key(), value: value.clone() };
    assert_eq!(set.check(OWNER, &[OWNER]), Err(RuleError::ReservedKey));
    let register = RegistryCall::Register { uri: String::new(), metadata: vec![(key(), value)] };
    assert_eq!(register.check(OWNER, &[]), Err(RuleError::ReservedKey));

    let registry = AgentRegistry { chain_id: 1, address: OWNER };
    let change = WalletChange { registry, agent: U256::from(1), new_wallet: CLIENT, owner: OWNER, deadline: 1_300 };
    assert_eq!(change.check(1_000), Ok(()));
    assert_eq!(change.check(1_300), Ok(()));
    assert_eq!(change.check(1_301), Err(RuleError::DeadlinePassed { deadline: 1_300, now: 1_301 }));
    assert_eq!(change.check(999), Err(RuleError::DeadlineTooFar { latest: 1_299 }));
    let nobody = WalletChange { new_wallet: Address::ZERO, ..change };
    assert_eq!(nobody.check(1_000), Err(RuleError::NoWallet));
}

#[test]
fn a_hostile_file_is_sanitised() {
    let file = serde_json::json!({
        "type": TYPE,
        "name": "\u{1b}[2Jtrader\u{202e}",
        "services": [{"name": "MCP\n", "endpoint": "https://mcp.example/"}],
        "registrations": [
            {"agentId": 22, "agentRegistry": "eip155:8453:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432"},
            {"agentId": 1, "agentRegistry": "elsewhere"},
        ],
        "unknown": {"deep": [1, 2, 3]},
    });
    let read = ReadRegistration::read(&serde_json::to_vec(&file).unwrap()).unwrap();
    assert!(!read.name.as_str().contains(['\u{1b}', '\u{202e}']) && read.name.altered());
    assert!(read.services[0].name.altered() && !read.services[0].endpoint.altered());
    assert_eq!(read.registrations.len(), 1);
    assert!(!read.active);
}

/// Both forms occur on the public networks.
#[test]
fn one_malformed_entry_does_not_hide_the_rest_of_a_file() {
    let file = serde_json::json!({
        "type": TYPE,
        "name": ["not", "text"],
        "description": "kept",
        "active": "yes",
        "x402support": true,
        "endpoints": [
            {"name": "A2A"},
            {"type": "MCP", "value": "https://old.example/"},
            "https://bare.example/",
            {"name": "MCP", "endpoint": "https://mcp.example/", "version": 3, "mcpTools": ["swap", 7, "quote\n"]},
        ],
        "registrations": [{"agentId": "22", "agentRegistry": "eip155:1:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432"}],
        "supportedTrust": {"reputation": true},
    });
    let read = ReadRegistration::read(&serde_json::to_vec(&file).unwrap()).unwrap();
    assert_eq!((read.name.as_str(), read.description.as_str()), ("", "kept"));
    assert_eq!((read.active, read.x402_support), (false, true));
    let [service] = &read.services[..] else { panic!("{:?}", read.services) };
    assert_eq!((service.endpoint.as_str(), &service.version), ("https://mcp.example/", &None));
    let tools: Vec<_> = service.mcp_tools.iter().map(|tool| tool.altered()).collect();
    assert_eq!(tools, [false, true]);
    assert!(read.registrations.is_empty() && read.supported_trust.is_empty());
}

#[test]
fn lists_of_a_file_are_cut() {
    let tools: Vec<_> = (0..1_000).map(|number| number.to_string()).collect();
    let services: Vec<_> = (0..1_000)
        .map(|number| {
            if number == 0 {
                serde_json::json!({"name": "MCP", "endpoint": "e".repeat(10_000), "mcpTools": tools})
            } else {
                serde_json::json!({"name": "A2A", "endpoint": "https://a.example/"})
            }
        })
        .collect();
    let file = serde_json::json!({"type": TYPE, "services": services});
    let read = ReadRegistration::read(&serde_json::to_vec(&file).unwrap()).unwrap();
    assert_eq!((read.services.len(), read.services[0].mcp_tools.len()), (256, 256));
    assert!(read.services[0].endpoint.as_str().chars().count() <= 512);
}

#[test]
fn invalid_files_have_distinct_errors() {
    let long = vec![b' '; file::MAX_BYTES + 1];
    assert!(matches!(ReadRegistration::read(&long), Err(FileError::TooLong { .. })));
    assert!(matches!(ReadRegistration::read(b"[1,"), Err(FileError::NotJson(_))));
    assert!(matches!(ReadRegistration::read(b"[]"), Err(FileError::NotJson(_))));
    for untyped in [&b"{}"[..], br#"{"type": 8004}"#] {
        assert_eq!(ReadRegistration::read(untyped), Err(FileError::NoType));
    }
    let other = br#"{"type": "https://example.com/card"}"#;
    assert!(matches!(ReadRegistration::read(other), Err(FileError::AnotherType(_))));
    assert_eq!(ReadRegistration::read_data_uri("https://example.com"), Err(FileError::NotData));
    assert_eq!(ReadRegistration::read_data_uri("data:application/json;base64,%%%"), Err(FileError::NotBase64));
    let long = format!("data:application/json;base64,{}", "A".repeat(file::MAX_BYTES * 2));
    assert!(matches!(ReadRegistration::read_data_uri(&long), Err(FileError::TooLong { .. })));
}

#[test]
fn a_data_uri_without_base64_is_percent_encoded() {
    // By Python's urllib.parse.quote of {"type": …, "name": "Ärger 100%"} without spaces.
    let uri = "data:application/json;charset=utf-8,%7B%22type%22%3A%22https%3A//eips.ethereum.org/EIPS/eip-8004%23\
               registration-v1%22%2C%22name%22%3A%22%C3%84rger%20100%25%22%7D";
    assert_eq!(ReadRegistration::read_data_uri(uri).unwrap().name.as_str(), "Ärger 100%");
    for broken in ["%7", "%", "%zz", "%+1", "%é"] {
        let uri = format!("data:application/json,{broken}");
        assert_eq!(ReadRegistration::read_data_uri(&uri), Err(FileError::NotPercentEncoded), "{broken}");
    }
    let invalid_text = "data:application/json,%7B%22name%22%3A%22%FF%22%7D";
    assert!(matches!(ReadRegistration::read_data_uri(invalid_text), Err(FileError::NotJson(_))));
    let long = format!("data:application/json,{}", "%20".repeat(file::MAX_BYTES + 1));
    assert!(matches!(ReadRegistration::read_data_uri(&long), Err(FileError::TooLong { .. })));
    assert_eq!(ReadRegistration::read_data_uri("data:text/plain,%7B%7D"), Err(FileError::NotData));
}

#[test]
fn words_of_a_review_are_cleaned_and_proven() {
    let file = br#"{"agentId":1,"text":"  Paid \u202eback  "}"#;
    let words = Review::words(file).unwrap();
    assert!(words.altered() && !words.as_str().contains('\u{202e}'), "{words}");
    for none in [&b"{}"[..], b"[]", br#"{"text":7}"#, br#"{"text":"  "}"#, b"\xff"] {
        assert_eq!(Review::words(none), None);
    }
    let hash = alloy::primitives::keccak256(file);
    assert!(Review::proven_words(file, hash, false).is_some());
    assert!(Review::proven_words(file, B256::ZERO, true).is_some());
    assert_eq!(Review::proven_words(file, B256::ZERO, false), None, "a server may say anything");
    assert_eq!(Review::proven_words(file, B256::repeat_byte(1), true), None, "it is not the file of the feedback");
}

#[test]
fn calldata_is_decoded_as_it_was_encoded_and_nothing_else_is() {
    let text = |text: &str| text.to_owned();
    let calls = [
        (RegistryKind::Identity, RegistryCall::Register { uri: text(""), metadata: vec![] }),
        (RegistryKind::Identity, RegistryCall::Register { uri: text("data:,x"), metadata: vec![] }),
        (
            RegistryKind::Identity,
            RegistryCall::Register { uri: text("u"), metadata: vec![(text("k"), Bytes::from_static(b"v"))] },
        ),
        (RegistryKind::Identity, RegistryCall::SetUri { agent: U256::from(3), uri: text("u") }),
        (
            RegistryKind::Identity,
            RegistryCall::SetMetadata { agent: U256::from(3), key: text("k"), value: Bytes::from_static(b"v") },
        ),
        (RegistryKind::Identity, RegistryCall::Transfer { agent: U256::from(3), from: OWNER, to: CLIENT }),
        (RegistryKind::Reputation, feedback(-5, 2)),
        (RegistryKind::Reputation, RegistryCall::RevokeFeedback { agent: U256::from(3), index: 2 }),
        (
            RegistryKind::Validation,
            RegistryCall::RequestValidation {
                validator: CLIENT,
                agent: U256::from(3),
                uri: text("u"),
                hash: B256::repeat_byte(1),
            },
        ),
        (
            RegistryKind::Validation,
            RegistryCall::RespondValidation {
                request: B256::repeat_byte(1),
                response: 90,
                uri: text("u"),
                hash: B256::ZERO,
                tag: text("zkml"),
            },
        ),
    ];
    for (kind, call) in calls {
        let data = call.calldata();
        assert_eq!(RegistryCall::decode(kind, &data), Some(call.clone()));
        // Appended bytes are ignored by the contract, and could hide something from a reader.
        assert_eq!(RegistryCall::decode(kind, &[data.as_ref(), &[0]].concat()), None, "{call:?}");
        for other in [RegistryKind::Identity, RegistryKind::Reputation, RegistryKind::Validation] {
            assert!(other == kind || RegistryCall::decode(other, &data).is_none(), "{call:?} as {other:?}");
        }
    }
    // An approval of a whole collection is never an agent's write.
    use alloy::sol_types::SolCall;
    let approval = bardo_abi::erc8004::IdentityRegistry::setApprovalForAllCall { operator: CLIENT, approved: true };
    assert_eq!(RegistryCall::decode(RegistryKind::Identity, &approval.abi_encode()), None);
}
