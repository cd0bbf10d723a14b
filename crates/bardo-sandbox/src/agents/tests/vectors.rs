//! The vectors of `tests/vectors/erc8004.json` against the registries.

use std::str::FromStr;

use alloy::primitives::{B256, Bytes};
use serde_json::Value;

use super::*;
use bardo_abi::erc8004::{ReputationRegistry, ValidationRegistry};
use golem_chain::devnet::ChainConfig;
use golem_chain::evm::ChainRules;
use golem_protocols::erc8004::RegistryCall;
use golem_protocols::erc8004::file::ReadRegistration;

fn file() -> Value {
    serde_json::from_str(include_str!("../../../../../tests/vectors/erc8004.json")).unwrap()
}

fn parse<T: FromStr<Err: std::fmt::Debug>>(value: &Value) -> T {
    value.as_str().unwrap().parse().unwrap()
}

/// A field whose agents 0 to 22 exist; `OWNER` owns the last one, which has this URI.
fn with_agent_22(uri: &str) -> (Field, Vec<Log>) {
    let mut field = Field::new();
    while field.register(THIRD, "") < U256::from(21) {}
    let register = IdentityRegistry::register_1Call { agentURI: uri.to_owned() };
    let logs = field.identity(OWNER, register).unwrap();
    assert_eq!(field.owner(U256::from(22)), OWNER);
    (field, logs)
}

#[test]
fn every_call_of_the_vectors_does_what_it_says() {
    let file = file();
    let (mut field, _) = with_agent_22("ipfs://bafy");
    let give = RegistryCall::GiveFeedback {
        agent: U256::from(22),
        value: 87,
        decimals: 0,
        tags: ["starred".to_owned(), String::new()],
        endpoint: String::new(),
        uri: String::new(),
        hash: B256::ZERO,
    };
    field.send(OTHER, field.reputation, give.calldata()).unwrap();
    let mut run = 0;
    for case in file["calls"].as_array().unwrap() {
        let calldata: Bytes = parse(&case["calldata"]);
        run += 1;
        match case["function"].as_str().unwrap() {
            "register()" => {
                field.send(CLIENT, field.identity, calldata).unwrap();
                assert_eq!(field.owner(U256::from(23)), CLIENT);
            }
            "register(string,(string,bytes)[])" => {
                field.send(CLIENT, field.identity, calldata).unwrap();
                let uri = IdentityRegistry::tokenURICall { tokenId: U256::from(24) };
                let uri = field.read(field.identity, uri).unwrap();
                assert_eq!(uri, file["registrationDataUri"]);
                assert_eq!(ReadRegistration::read_data_uri(&uri).unwrap().name.as_str(), "trader");
                let version =
                    IdentityRegistry::getMetadataCall { agentId: U256::from(24), metadataKey: "version".to_owned() };
                assert_eq!(field.read(field.identity, version).unwrap(), Bytes::from_static(b"1.0.0"));
            }
            "setMetadata(uint256,string,bytes)" => {
                assert!(field.send(CLIENT, field.identity, calldata.clone()).is_err());
                field.send(OWNER, field.identity, calldata).unwrap();
            }
            "getAgentWallet(uint256)" => {
                let output = field.try_read(field.identity, calldata).unwrap();
                assert_eq!(IdentityRegistry::getAgentWalletCall::abi_decode_returns(&output).unwrap(), OWNER);
            }
            "tokenURI(uint256)" => {
                let output = field.try_read(field.identity, calldata).unwrap();
                assert_eq!(IdentityRegistry::tokenURICall::abi_decode_returns(&output).unwrap(), "ipfs://bafy");
            }
            "revokeFeedback(uint256,uint64)" => {
                let before = field.chain.clone();
                field.send(OTHER, field.reputation, calldata).unwrap();
                field.chain = before;
            }
            "getSummary(uint256,address[],string,string)" => {
                let output = field.try_read(field.reputation, calldata).unwrap();
                let summary = ReputationRegistry::getSummaryCall::abi_decode_returns(&output).unwrap();
                assert_eq!((summary.count, summary.summaryValue, summary.summaryValueDecimals), (1, 87, 0));
            }
            "readAllFeedback(uint256,address[],string,string,bool)" => {
                let output = field.try_read(field.reputation, calldata).unwrap();
                let all = ReputationRegistry::readAllFeedbackCall::abi_decode_returns(&output).unwrap();
                assert_eq!((all.clients, all.values), (vec![OTHER], vec![87]));
            }
            "validationRequest(address,uint256,string,bytes32)" => {
                field.send(OWNER, field.validation, calldata).unwrap();
            }
            "getValidationStatus(bytes32)" => {
                let output = field.try_read(field.validation, calldata).unwrap();
                let status = ValidationRegistry::getValidationStatusCall::abi_decode_returns(&output).unwrap();
                assert_eq!((status.validatorAddress, status.agentId), (CLIENT, U256::from(22)));
            }
            other => panic!("no code runs {other}"),
        }
    }
    assert_eq!(run, 10);
}

#[test]
fn the_registries_emit_the_logs_of_the_vectors() {
    let file = file();
    let (mut field, registered) = with_agent_22("ipfs://bafy");
    let agent = U256::from(22);
    let mut run = 0;
    for case in file["events"].as_array().unwrap() {
        let logs = match case["event"].as_str().unwrap().split(['(', ' ']).nth(1).unwrap() {
            "Registered" => registered.clone(),
            "URIUpdated" => {
                let call = RegistryCall::SetUri { agent, uri: "https://example.com/agent.json".to_owned() };
                field.send(OWNER, field.identity, call.calldata()).unwrap()
            }
            "FeedbackRevoked" => {
                let give = RegistryCall::GiveFeedback {
                    agent,
                    value: 1,
                    decimals: 0,
                    tags: [String::new(), String::new()],
                    endpoint: String::new(),
                    uri: String::new(),
                    hash: B256::ZERO,
                };
                field.send(OTHER, field.reputation, give.calldata()).unwrap();
                let revoke = RegistryCall::RevokeFeedback { agent, index: 1 };
                field.send(OTHER, field.reputation, revoke.calldata()).unwrap()
            }
            "ValidationRequest" => {
                let (validator, hash) = (parse(&case["args"][0]), parse(&case["args"][3]));
                let call = RegistryCall::RequestValidation { validator, agent, uri: "ipfs://req".to_owned(), hash };
                field.send(OWNER, field.validation, call.calldata()).unwrap()
            }
            other => panic!("no code emits {other}"),
        };
        let topics: Vec<B256> = case["topics"].as_array().unwrap().iter().map(parse).collect();
        let data: Bytes = parse(&case["data"]);
        assert!(logs.iter().any(|log| log.topics() == topics && log.data.data == data), "{}", case["event"]);
        run += 1;
    }
    assert_eq!(run, 4);
}

/// The signatures are for chains and addresses of the public networks, so the registry is put there.
#[test]
fn the_registry_accepts_the_wallet_signatures_of_the_vectors() {
    let mut run = 0;
    for case in file()["agentWalletSet"].as_array().unwrap() {
        let template = Field::new();
        let registry: Address = parse(&case["domain"]["verifyingContract"]);
        let state = template.chain.state();
        let slot = U256::from_str("0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc").unwrap();
        let implementation = Address::from_word(state.storage_at(template.identity, slot).into());
        let deadline: u64 = case["value"]["deadline"].as_str().unwrap().parse().unwrap();
        let chain = Chain::new(ChainConfig {
            rules: ChainRules::osaka(case["chainId"].as_u64().unwrap()),
            genesis_time: deadline - 290,
            balances: [OWNER, THIRD].map(|account| (account, U256::from(10).pow(U256::from(22)))).to_vec(),
            codes: vec![(implementation, state.code(implementation)), (registry, state.code(template.identity))],
            ..ChainConfig::default()
        });
        let mut field = Field { chain: chain.unwrap(), identity: registry, ..template };
        field.chain.set_storage_at(registry, slot, implementation.into_word().into());
        field.identity(THIRD, IdentityRegistry::initializeCall {}).unwrap();
        // Blocks are a second apart, and the signature is valid for 300 s: 24 blocks fit.
        let agent: U256 = parse(&case["value"]["agentId"]);
        while field.register(OWNER, "") < agent {}
        let calldata: Bytes = parse(&case["calldata"]);
        field.send(OWNER, registry, calldata).unwrap();
        assert_eq!(field.wallet(agent), parse::<Address>(&case["value"]["newWallet"]));
        run += 1;
    }
    assert_eq!(run, 2);
}
