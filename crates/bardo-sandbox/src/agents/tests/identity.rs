//! Registration, changes and transfers of agents.

use alloy::primitives::{B256, Bytes, keccak256};
use alloy::sol_types::{SolEvent, SolValue};

use super::*;
use bardo_abi::erc8004::IdentityRegistry::{MetadataSet, Registered, Transfer, URIUpdated};

const NO_CONTROL: &str = "the caller is neither the agent's owner nor an operator";
const RESERVED: &str = "the metadata key agentWallet is reserved";

fn metadata(field: &Field, agent: U256, key: &str) -> Bytes {
    let call = IdentityRegistry::getMetadataCall { agentId: agent, metadataKey: key.to_owned() };
    field.read(field.identity, call).unwrap()
}

fn uri(field: &Field, agent: U256) -> String {
    field.read(field.identity, IdentityRegistry::tokenURICall { tokenId: agent }).unwrap()
}

/// Names of the events, in order.
fn names(logs: &[Log]) -> Vec<&'static str> {
    let name = |log: &Log| match log.topics()[0] {
        topic if topic == Transfer::SIGNATURE_HASH => "Transfer",
        topic if topic == MetadataSet::SIGNATURE_HASH => "MetadataSet",
        topic if topic == Registered::SIGNATURE_HASH => "Registered",
        topic if topic == URIUpdated::SIGNATURE_HASH => "URIUpdated",
        topic if topic == keccak256("MetadataUpdate(uint256)") => "MetadataUpdate",
        topic => panic!("{topic}"),
    };
    logs.iter().map(name).collect()
}

#[test]
fn a_registration_gives_the_next_id_and_emits_everything_that_it_sets() {
    let mut field = Field::new();
    let first = field.register(OWNER, "ipfs://first");
    let logs = field.identity(OWNER, IdentityRegistry::register_0Call {}).unwrap();
    assert_eq!(names(&logs), ["Transfer", "MetadataSet", "Registered"]);
    let registered = Registered::decode_log(&logs[2]).unwrap();
    assert_eq!(registered.agentId, first + U256::from(1));
    assert_eq!((registered.agentURI.as_str(), registered.owner), ("", OWNER));
    assert_eq!(uri(&field, registered.agentId), "");

    let entries = vec![entry("version", b"1.0.0"), entry("", b""), entry("version", b"2")];
    let call = IdentityRegistry::register_2Call { agentURI: "ipfs://third".to_owned(), metadata: entries };
    let logs = field.identity(CLIENT, call).unwrap();
    let expected =
        ["Transfer", "MetadataSet", "MetadataUpdate", "MetadataSet", "MetadataSet", "MetadataSet", "Registered"];
    assert_eq!(names(&logs), expected);
    assert!(logs.iter().all(|log| log.address == field.identity));
    let agent = first + U256::from(2);
    let transfer = Transfer::decode_log(&logs[0]).unwrap();
    assert_eq!((transfer.from, transfer.to, transfer.tokenId), (Address::ZERO, CLIENT, agent));
    let wallet = MetadataSet::decode_log(&logs[1]).unwrap();
    assert_eq!(wallet.indexedMetadataKey, keccak256("agentWallet"));
    assert_eq!((wallet.metadataKey.as_str(), &wallet.metadataValue[..]), ("agentWallet", CLIENT.as_slice()));
    assert_eq!((field.owner(agent), field.wallet(agent)), (CLIENT, CLIENT));
    assert_eq!(uri(&field, agent), "ipfs://third");
    assert_eq!(metadata(&field, agent, "version"), Bytes::from_static(b"2"));
    assert_eq!(metadata(&field, agent, "absent"), Bytes::new());
    let balance = field.read(field.identity, IdentityRegistry::balanceOfCall { owner: CLIENT }).unwrap();
    assert_eq!(balance, U256::from(1));
}

#[test]
fn the_owner_an_approved_account_and_an_operator_change_an_agent_and_nobody_else() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let changes = |value: &str| {
        let set_uri = IdentityRegistry::setAgentURICall { agentId: agent, newURI: value.to_owned() };
        let set_metadata = IdentityRegistry::setMetadataCall {
            agentId: agent,
            metadataKey: "k".to_owned(),
            metadataValue: value.as_bytes().to_vec().into(),
        };
        (set_uri, set_metadata)
    };
    let unset = || IdentityRegistry::unsetAgentWalletCall { agentId: agent };
    let (set_uri, set_metadata) = changes("x");
    rejected(field.identity(CLIENT, set_uri), NO_CONTROL);
    rejected(field.identity(CLIENT, set_metadata), NO_CONTROL);
    rejected(field.identity(CLIENT, unset()), NO_CONTROL);
    field.approve(OWNER, CLIENT, agent);
    field.set_operator(OWNER, OTHER, true);
    for (account, value) in [(OWNER, "owner"), (CLIENT, "approved"), (OTHER, "operator")] {
        let (set_uri, set_metadata) = changes(value);
        let logs = field.identity(account, set_uri).unwrap();
        assert_eq!(names(&logs), ["MetadataUpdate", "URIUpdated"]);
        let updated = URIUpdated::decode_log(&logs[1]).unwrap();
        assert_eq!((updated.agentId, updated.newURI.as_str(), updated.updatedBy), (agent, value, account));
        let logs = field.identity(account, set_metadata).unwrap();
        let set = MetadataSet::decode_log(&logs[0]).unwrap();
        assert_eq!((set.agentId, set.metadataKey.as_str(), &set.metadataValue[..]), (agent, "k", value.as_bytes()));
        assert_eq!((uri(&field, agent).as_str(), &metadata(&field, agent, "k")[..]), (value, value.as_bytes()));
        let logs = field.identity(account, unset()).unwrap();
        assert!(MetadataSet::decode_log(&logs[0]).unwrap().metadataValue.is_empty());
        assert_eq!(field.wallet(agent), Address::ZERO);
    }
    field.set_operator(OWNER, OTHER, false);
    rejected(field.identity(OTHER, changes("late").0), NO_CONTROL);
}

#[test]
fn an_unknown_agent_is_an_error_of_its_own() {
    let mut field = Field::new();
    let agent = U256::from(1_000);
    let missing = || Errors::ERC721NonexistentToken { tokenId: agent };
    failed(
        field.identity(OWNER, IdentityRegistry::setAgentURICall { agentId: agent, newURI: String::new() }),
        missing(),
    );
    failed(field.identity(OWNER, IdentityRegistry::unsetAgentWalletCall { agentId: agent }), missing());
    failed(field.read(field.identity, IdentityRegistry::getAgentWalletCall { agentId: agent }), missing());
    failed(field.read(field.identity, IdentityRegistry::tokenURICall { tokenId: agent }), missing());
    failed(field.read(field.identity, IdentityRegistry::ownerOfCall { tokenId: agent }), missing());
    failed(field.read(field.identity, IdentityRegistry::getApprovedCall { tokenId: agent }), missing());
    let set =
        IdentityRegistry::setMetadataCall { agentId: agent, metadataKey: "k".to_owned(), metadataValue: Bytes::new() };
    failed(field.identity(OWNER, set), missing());
    assert_eq!(metadata(&field, agent, "k"), Bytes::new());
}

#[test]
fn the_wallets_key_is_reserved_also_at_registration() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let set = IdentityRegistry::setMetadataCall {
        agentId: agent,
        metadataKey: "agentWallet".to_owned(),
        metadataValue: CLIENT.to_vec().into(),
    };
    rejected(field.identity(OWNER, set), RESERVED);
    let entries = vec![entry("a", b"1"), entry("agentWallet", CLIENT.as_slice())];
    let register = IdentityRegistry::register_2Call { agentURI: String::new(), metadata: entries };
    rejected(field.identity(OWNER, register), RESERVED);
    assert_eq!(field.wallet(agent), OWNER);
    // Other spellings are ordinary keys.
    let entries = vec![entry("agentwallet", b"1"), entry("agentWallet\0", b"2")];
    let register = IdentityRegistry::register_2Call { agentURI: String::new(), metadata: entries };
    field.identity(OWNER, register).unwrap();
    assert_eq!(field.wallet(agent + U256::from(1)), OWNER);
}

#[test]
fn a_transfer_clears_the_wallet_and_ends_the_old_owners_control() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    field.approve(OWNER, THIRD, agent);
    let wrong = IdentityRegistry::safeTransferFromCall { from: CLIENT, to: OTHER, tokenId: agent };
    failed(field.identity(OWNER, wrong), Errors::ERC721IncorrectOwner { sender: CLIENT, tokenId: agent, owner: OWNER });
    let stolen = IdentityRegistry::safeTransferFromCall { from: OWNER, to: CLIENT, tokenId: agent };
    failed(field.identity(CLIENT, stolen), Errors::ERC721InsufficientApproval { operator: CLIENT, tokenId: agent });
    failed(field.transfer(OWNER, Address::ZERO, agent), Errors::ERC721InvalidReceiver { receiver: Address::ZERO });

    // To the same owner nothing changes but the approval.
    field.transfer(OWNER, OWNER, agent).unwrap();
    assert_eq!(field.wallet(agent), OWNER);
    field.approve(OWNER, THIRD, agent);

    let logs = field.transfer(OWNER, CLIENT, agent).unwrap();
    assert_eq!(names(&logs), ["Transfer", "MetadataSet"]);
    let cleared = MetadataSet::decode_log(&logs[1]).unwrap();
    assert_eq!((cleared.metadataKey.as_str(), cleared.metadataValue.len()), ("agentWallet", 0));
    assert_eq!((field.owner(agent), field.wallet(agent)), (CLIENT, Address::ZERO));
    let approved = field.read(field.identity, IdentityRegistry::getApprovedCall { tokenId: agent }).unwrap();
    assert_eq!(approved, Address::ZERO);
    for former in [OWNER, THIRD] {
        let set = IdentityRegistry::setAgentURICall { agentId: agent, newURI: "ipfs://stolen".to_owned() };
        rejected(field.identity(former, set), NO_CONTROL);
    }
    assert_eq!(uri(&field, agent), "ipfs://a");
}

#[test]
fn huge_metadata_and_uris_are_stored_whole() {
    let mut field = Field::new();
    let agent = field.register(OWNER, &"u".repeat(10_000));
    assert_eq!(uri(&field, agent).len(), 10_000);
    let value: Bytes = (0..12_000_u32).map(|byte| byte.to_be_bytes()[3]).collect();
    let key = "k".repeat(5_000);
    let set =
        IdentityRegistry::setMetadataCall { agentId: agent, metadataKey: key.clone(), metadataValue: value.clone() };
    field.identity(OWNER, set).unwrap();
    assert_eq!(metadata(&field, agent, &key), value);
    // A shorter value leaves nothing of the longer one.
    let set = IdentityRegistry::setMetadataCall {
        agentId: agent,
        metadataKey: key.clone(),
        metadataValue: Bytes::from_static(b"short"),
    };
    field.identity(OWNER, set).unwrap();
    assert_eq!(metadata(&field, agent, &key), Bytes::from_static(b"short"));
}

/// Code of a receiver that calls `target` with `input` at its first call, and always accepts a token.
fn receiver(target: Address, input: &[u8]) -> Bytes {
    let length = u16::try_from(input.len()).unwrap().to_be_bytes();
    let mut code = vec![0x5f, 0x54, 0x60, 0x32, 0x57]; // SLOAD(0): called before → accept
    code.extend([0x60, 0x01, 0x5f, 0x55]); // SSTORE(0, 1)
    code.extend([0x61, length[0], length[1], 0x60, 0x43, 0x5f, 0x39]); // CODECOPY(0, input)
    code.extend([0x5f, 0x5f, 0x61, length[0], length[1], 0x5f, 0x5f, 0x73]);
    code.extend(target.as_slice());
    code.extend([0x5a, 0xf1, 0x15, 0x60, 0x41, 0x57]); // CALL, and revert if it failed
    assert_eq!(code.len(), 0x32);
    code.extend([0x5b, 0x63, 0x15, 0x0b, 0x7a, 0x02, 0x60, 0xe0, 0x1b, 0x5f, 0x52, 0x60, 0x20, 0x5f, 0xf3]);
    assert_eq!(code.len(), 0x41);
    code.extend([0x5b, 0xfe]);
    assert_eq!(code.len(), 0x43);
    code.extend(input);
    code.into()
}

/// A contract with this code and ether for gas.
fn contract(field: &mut Field, code: Bytes) -> Address {
    let at = Address::repeat_byte(0xc7);
    field.chain.set_code(at, code).unwrap();
    field.chain.set_balance(at, U256::from(10).pow(U256::from(20)));
    at
}

#[test]
fn a_receiver_that_registers_again_finds_its_first_agent_complete() {
    let mut field = Field::new();
    let first = field.register(OWNER, "ipfs://before") + U256::from(1);
    let again = IdentityRegistry::register_1Call { agentURI: "ipfs://second".to_owned() };
    let code = receiver(field.identity, &again.abi_encode());
    let receiver = contract(&mut field, code);
    let logs = field.identity(receiver, IdentityRegistry::register_1Call { agentURI: "ipfs://first".to_owned() });
    let one = ["Transfer", "MetadataSet", "MetadataUpdate", "Registered"];
    assert_eq!(names(&logs.unwrap()), [one, one].concat());
    let second = first + U256::from(1);
    assert_eq!((uri(&field, first).as_str(), uri(&field, second).as_str()), ("ipfs://first", "ipfs://second"));
    assert_eq!((field.owner(first), field.wallet(second)), (receiver, receiver));
}

#[test]
fn a_receiver_that_gives_the_agent_away_at_once_leaves_it_no_wallet() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://before") + U256::from(1);
    let away = Address::repeat_byte(0xc7);
    let give = IdentityRegistry::safeTransferFromCall { from: away, to: OTHER, tokenId: agent };
    let code = receiver(field.identity, &give.abi_encode());
    let receiver = contract(&mut field, code);
    field.identity(receiver, IdentityRegistry::register_0Call {}).unwrap();
    assert_eq!((field.owner(agent), field.wallet(agent)), (OTHER, Address::ZERO));
}

#[test]
fn a_contract_that_does_not_accept_tokens_gets_none() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let (revert, wrong) = (Bytes::from_static(&[0x5f, 0x5f, 0xfd]), Bytes::from_static(&[0x60, 0x20, 0x5f, 0xf3]));
    for code in [revert, wrong] {
        let deaf = contract(&mut field, code);
        failed(field.transfer(OWNER, deaf, agent), Errors::ERC721InvalidReceiver { receiver: deaf });
        failed(
            field.identity(deaf, IdentityRegistry::register_0Call {}),
            Errors::ERC721InvalidReceiver { receiver: deaf },
        );
    }
    assert_eq!(field.owner(agent), OWNER);
    // The reverted registrations used up no id.
    assert_eq!(field.register(OWNER, "ipfs://b"), agent + U256::from(1));
}

#[test]
fn the_registry_names_its_interfaces() {
    let field = Field::new();
    let ask = |interface: [u8; 4]| {
        let padded = B256::right_padding_from(&interface);
        let input = [&[0x01, 0xff, 0xc9, 0xa7][..], &padded.abi_encode()].concat();
        bool::abi_decode(&field.try_read(field.identity, input.into()).unwrap()).unwrap()
    };
    // ERC-165, ERC-721, its metadata, and ERC-4906 (metadata updates).
    for interface in
        [[0x01, 0xff, 0xc9, 0xa7], [0x80, 0xac, 0x58, 0xcd], [0x5b, 0x5e, 0x13, 0x9f], [0x49, 0x06, 0x49, 0x06]]
    {
        assert!(ask(interface), "{interface:x?}");
    }
    assert!(!ask([0xff; 4]));
}
