//! Runs `erc8004.json`: the registration file, calldata, events, and the wallet's signature.

use alloy::dyn_abi::TypedData;
use alloy::primitives::{Address, B256, Bytes, Log, Signature, U256, keccak256};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::{SolCall, SolStruct};
use bardo::abi::erc8004::{AgentWalletSet, IdentityRegistry, ReputationRegistry, ValidationRegistry};
use bardo::erc8004::file::{ReadRegistration, RegistrationFile};
use bardo::erc8004::{AgentRegistry, RegistryCall, RegistryEvent, WalletChange};
use serde_json::{Value, json};

use super::{check, each, list, parse, text};

/// Runs every top-level array of the file; an unknown one fails.
pub fn run(file: &Value) -> usize {
    let known = ["calls", "events", "agentWalletSet"];
    for (key, value) in file.as_object().unwrap() {
        assert!(!value.is_array() || known.contains(&key.as_str()), "no code runs `{key}`");
    }
    check("registrationFile", || registration(file));
    each(list(file, "calls"), call);
    each(list(file, "events"), event);
    each(list(file, "agentWalletSet"), |case| {
        assert_eq!(
            keccak256(AgentWalletSet::eip712_encode_type().as_bytes()),
            parse::<B256>(&file["agentWalletTypeHash"])
        );
        wallet(case);
    });
    1 + known.iter().map(|key| list(file, key).len()).sum::<usize>()
}

fn registration(file: &Value) {
    let stated = &file["registrationFile"];
    let uri = text(&file["registrationDataUri"]);
    let ours: RegistrationFile = serde_json::from_value(stated.clone()).unwrap();
    assert_eq!(ours.data_uri().unwrap(), uri);
    let read = ReadRegistration::read_data_uri(uri).unwrap();
    assert_eq!(read.name.as_str(), text(&stated["name"]));
    assert_eq!(read.active, stated["active"].as_bool().unwrap());
    let (agent, registry) = read.registrations[0];
    assert_eq!(json!(agent), stated["registrations"][0]["agentId"]);
    assert_eq!(registry.to_string(), text(&stated["registrations"][0]["agentRegistry"]));
}

fn number(value: &Value) -> U256 {
    value.as_u64().map_or_else(|| parse(value), U256::from)
}

fn string(value: &Value) -> String {
    text(value).to_owned()
}

fn addresses(value: &Value) -> Vec<Address> {
    value.as_array().unwrap().iter().map(parse).collect()
}

fn call(case: &Value) {
    let arguments = list(case, "args");
    let argument = |index: usize| &arguments[index];
    let small = |index: usize| u64::try_from(number(argument(index))).unwrap();
    let calldata: Vec<u8> = match text(&case["function"]) {
        "register()" => RegistryCall::Register { uri: String::new(), metadata: Vec::new() }.calldata().to_vec(),
        "register(string,(string,bytes)[])" => {
            let entry = |entry: &Value| (string(&entry["metadataKey"]), parse(&entry["metadataValue"]));
            let metadata = argument(1).as_array().unwrap().iter().map(entry).collect();
            RegistryCall::Register { uri: string(argument(0)), metadata }.calldata().to_vec()
        }
        "setMetadata(uint256,string,bytes)" => {
            let (key, value) = (string(argument(1)), parse(argument(2)));
            RegistryCall::SetMetadata { agent: number(argument(0)), key, value }.calldata().to_vec()
        }
        "getAgentWallet(uint256)" => IdentityRegistry::getAgentWalletCall { agentId: number(argument(0)) }.abi_encode(),
        "tokenURI(uint256)" => IdentityRegistry::tokenURICall { tokenId: number(argument(0)) }.abi_encode(),
        "revokeFeedback(uint256,uint64)" => {
            RegistryCall::RevokeFeedback { agent: number(argument(0)), index: small(1) }.calldata().to_vec()
        }
        "getSummary(uint256,address[],string,string)" => ReputationRegistry::getSummaryCall {
            agentId: number(argument(0)),
            clientAddresses: addresses(argument(1)),
            tag1: string(argument(2)),
            tag2: string(argument(3)),
        }
        .abi_encode(),
        "readAllFeedback(uint256,address[],string,string,bool)" => ReputationRegistry::readAllFeedbackCall {
            agentId: number(argument(0)),
            clientAddresses: addresses(argument(1)),
            tag1: string(argument(2)),
            tag2: string(argument(3)),
            includeRevoked: argument(4).as_bool().unwrap(),
        }
        .abi_encode(),
        "validationRequest(address,uint256,string,bytes32)" => {
            let (validator, agent) = (parse(argument(0)), number(argument(1)));
            let (uri, hash) = (string(argument(2)), parse(argument(3)));
            RegistryCall::RequestValidation { validator, agent, uri, hash }.calldata().to_vec()
        }
        "getValidationStatus(bytes32)" => {
            ValidationRegistry::getValidationStatusCall { requestHash: parse(argument(0)) }.abi_encode()
        }
        other => panic!("no code calls {other}"),
    };
    assert_eq!(Bytes::from(calldata.clone()), parse::<Bytes>(&case["calldata"]), "{}", case["function"]);
    assert_eq!(Bytes::copy_from_slice(&calldata[..4]), parse::<Bytes>(&case["selector"]), "{}", case["function"]);
}

fn event(case: &Value) {
    let topics: Vec<B256> = list(case, "topics").iter().map(parse).collect();
    assert_eq!(topics[0], parse::<B256>(&case["topic0"]));
    let log = Log::new(Address::ZERO, topics, parse(&case["data"])).unwrap();
    let arguments = list(case, "args");
    let address = |index: usize| parse::<Address>(&arguments[index]);
    let agent = |index: usize| number(&arguments[index]);
    let name = text(&case["event"]).trim_start_matches("event ").split('(').next().unwrap();
    match (name, RegistryEvent::decode(&log).unwrap()) {
        ("Registered", RegistryEvent::Registered { agent: found, uri, owner }) => {
            assert_eq!((found, uri.as_str(), owner), (agent(0), text(&arguments[1]), address(2)));
        }
        ("URIUpdated", RegistryEvent::UriUpdated { agent: found, uri, by }) => {
            assert_eq!((found, uri.as_str(), by), (agent(0), text(&arguments[1]), address(2)));
        }
        ("FeedbackRevoked", RegistryEvent::FeedbackRevoked { agent: found, client, index }) => {
            assert_eq!((found, client, U256::from(index)), (agent(0), address(1), agent(2)));
        }
        ("ValidationRequest", RegistryEvent::ValidationRequested { validator, agent: found, uri, request }) => {
            assert_eq!((validator, found, uri.as_str()), (address(0), agent(1), text(&arguments[2])));
            assert_eq!(request, parse::<B256>(&arguments[3]));
        }
        (name, event) => panic!("{name} was read as {event:?}"),
    }
}

fn wallet(case: &Value) {
    let (domain, value) = (&case["domain"], &case["value"]);
    let registry =
        AgentRegistry { chain_id: case["chainId"].as_u64().unwrap(), address: parse(&domain["verifyingContract"]) };
    let change = WalletChange {
        registry,
        agent: number(&value["agentId"]),
        new_wallet: parse(&value["newWallet"]),
        owner: parse(&value["owner"]),
        deadline: u64::try_from(number(&value["deadline"])).unwrap(),
    };
    assert_eq!(change.domain().hash_struct(), parse::<B256>(&case["domainSeparator"]));
    assert_eq!(change.message().eip712_hash_struct(), parse::<B256>(&case["structHash"]));
    let digest = change.digest();
    assert_eq!(digest, parse::<B256>(&case["digest"]));
    let mut types = case["types"].clone();
    types["EIP712Domain"] = json!([
        {"name": "name", "type": "string"},
        {"name": "version", "type": "string"},
        {"name": "chainId", "type": "uint256"},
        {"name": "verifyingContract", "type": "address"},
    ]);
    let typed = json!({"types": types, "primaryType": "AgentWalletSet", "domain": domain, "message": value});
    let typed: TypedData = serde_json::from_value(typed).unwrap();
    assert_eq!(typed.eip712_signing_hash().unwrap(), digest);

    // The new wallet signs, not the owner.
    assert_eq!(text(&case["signer"]), "newWallet");
    let signer: PrivateKeySigner = parse(&case["signerPrivateKey"]);
    assert_eq!(signer.address(), change.new_wallet);
    let signature: Bytes = parse(&case["signature"]);
    assert_eq!(signer.sign_hash_sync(&digest).unwrap().as_bytes()[..], signature[..]);
    let recovered = Signature::from_raw(&signature).unwrap().recover_address_from_prehash(&digest).unwrap();
    assert_eq!(recovered, change.new_wallet);
    assert_eq!(change.calldata(signature), parse::<Bytes>(&case["calldata"]));
}
