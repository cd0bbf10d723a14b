//! Runs `permit2.json`: types, hashes, signatures and calldata, and each call on the real contract.

use std::collections::BTreeMap;

use alloy::dyn_abi::TypedData;
use alloy::primitives::{Address, B256, Bytes, Signature};
use alloy::rpc::types::{TransactionInput, TransactionRequest};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::{SolCall, SolInterface};
use bardo::abi::permit2::Permit2;
use bardo::chain::devnet::WorldState;
use bardo::chain::evm::{BlockContext, ChainRules, CheckMode, call_env, transact};
use bardo::chain::permit2::{
    Permit2Domain, Permit2Message, PermitBatch, PermitBatchTransferFrom, PermitDetails, PermitSingle,
    PermitTransferFrom, PermitWitness, SignatureTransferDetails, TokenPermissions,
};
use bardo::sandbox::contracts::{BundledContract, DEPLOYMENT_PROXY, DEPLOYMENT_PROXY_CODE, PERMIT2, PERMIT2_SALT};
use revm::state::EvmState;
use serde_json::{Value, json};

use super::{each, list, parse, reparsed, text, u256};

/// Time at which the file's signatures were tested.
const TRIED_AT: u64 = 1_790_000_000;

/// Runs every top-level array of the file; an unknown one fails.
pub fn run(file: &Value) -> usize {
    let known = ["domains", "vectors"];
    for (key, value) in file.as_object().unwrap() {
        assert!(!value.is_array() || known.contains(&key.as_str()), "no code runs `{key}`");
    }
    each(list(file, "domains"), |case| {
        assert_eq!(domain(case).separator(), parse::<B256>(&case["domainSeparator"]), "{case}");
    });
    let mut contracts = Contracts::default();
    each(list(file, "vectors"), |case| vector(case, &mut contracts));
    known.iter().map(|key| list(file, key).len()).sum()
}

fn domain(case: &Value) -> Permit2Domain {
    Permit2Domain { chain_id: case["chainId"].as_u64().unwrap(), permit2: parse(&case["permit2"]) }
}

fn vector(case: &Value, contracts: &mut Contracts) {
    let id = text(&case["id"]);
    let domain = domain(case);
    let witness = witness(case);
    let stated = |key: &str| (!case[key].is_null()).then(|| text(&case[key]).to_owned());
    assert_eq!(witness.as_ref().map(|w| w.type_string().to_owned()), stated("witnessTypeString"), "{id}");
    assert_eq!(witness.as_ref().map(|w| w.hash().to_string()), stated("witnessHash"), "{id}");

    let permit = permit(case, witness);
    assert_eq!(domain.separator(), parse::<B256>(&case["domainSeparator"]), "{id}");
    assert_eq!(permit.type_string(), text(&case["typeString"]), "{id}");
    assert_eq!(permit.type_hash(), parse::<B256>(&case["typeHash"]), "{id}");
    assert_eq!(permit.struct_hash(), parse::<B256>(&case["structHash"]), "{id}");
    let digest = permit.digest(&domain);
    assert_eq!(digest, parse::<B256>(&case["digest"]), "{id}");
    // A witness of which only the hash is known cannot be written as JSON.
    let written = reparsed(&permit, &domain).map(|typed| typed.eip712_signing_hash().unwrap());
    assert_eq!(written, case["witnessHash"].is_null().then_some(digest), "{id}");

    let owner: Address = parse(&case["signer"]);
    let signature: Bytes = parse(&case["signature"]);
    let key: PrivateKeySigner = parse(&case["signerPrivateKey"]);
    assert_eq!(key.address(), owner, "{id}");
    let accepted = case["contractAccepts"].as_bool().unwrap();
    let recovers = Signature::try_from(signature.as_ref())
        .is_ok_and(|s| s.recover_address_from_prehash(&digest).ok() == Some(owner));
    if accepted {
        assert!(recovers, "{id}: the signature is not the signer's");
        assert_eq!(key.sign_hash_sync(&digest).unwrap().as_bytes()[..], signature[..], "{id}");
    }

    let calldata: Bytes = parse(&case["contractCalldata"]);
    assert_eq!(permit.calldata(owner, &transfers(&calldata), signature).unwrap(), calldata, "{id}");
    assert_eq!(contracts.accept(&domain, &permit, calldata), accepted, "{id}: on the contract");
}

fn permit(case: &Value, witness: Option<PermitWitness>) -> Permit2Message {
    let fields = &case["permit"];
    let details = |one: &Value| PermitDetails {
        token: parse(&one["token"]),
        amount: parse(&one["amount"]),
        expiration: parse(&one["expiration"]),
        nonce: parse(&one["nonce"]),
    };
    let permissions = |one: &Value| TokenPermissions { token: parse(&one["token"]), amount: u256(&one["amount"]) };
    let spender: Address = parse(&fields["spender"]);
    match text(&case["primaryType"]) {
        "PermitSingle" => Permit2Message::Allowance(PermitSingle {
            details: details(&fields["details"]),
            spender,
            sigDeadline: u256(&fields["sigDeadline"]),
        }),
        "PermitBatch" => Permit2Message::AllowanceBatch(PermitBatch {
            details: list(fields, "details").iter().map(details).collect(),
            spender,
            sigDeadline: u256(&fields["sigDeadline"]),
        }),
        "PermitTransferFrom" | "PermitWitnessTransferFrom" => Permit2Message::Transfer {
            permit: PermitTransferFrom {
                permitted: permissions(&fields["permitted"]),
                nonce: u256(&fields["nonce"]),
                deadline: u256(&fields["deadline"]),
            },
            spender,
            witness,
        },
        "PermitBatchTransferFrom" | "PermitBatchWitnessTransferFrom" => Permit2Message::TransferBatch {
            permit: PermitBatchTransferFrom {
                permitted: list(fields, "permitted").iter().map(permissions).collect(),
                nonce: u256(&fields["nonce"]),
                deadline: u256(&fields["deadline"]),
            },
            spender,
            witness,
        },
        other => panic!("no code runs the type {other}"),
    }
}

/// Witness of the file's own types, hashed by alloy's parser of typed data as JSON.
fn witness(case: &Value) -> Option<PermitWitness> {
    let given = case["witness"].as_object()?;
    let name = text(&given["witnessTypeName"]);
    let typed: TypedData = serde_json::from_value(json!({
        "types": given["witnessType"], "primaryType": name, "domain": {}, "message": given["witness"],
    }))
    .unwrap();
    let definitions: Vec<String> = given["witnessType"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, members)| {
            let members: Vec<String> = members
                .as_array()
                .unwrap()
                .iter()
                .map(|member| format!("{} {}", text(&member["type"]), text(&member["name"])))
                .collect();
            format!("{name}({})", members.join(","))
        })
        .collect();
    Some(PermitWitness::new(name, definitions.iter().map(String::as_str), typed.hash_struct().unwrap()))
}

/// Recipients and amounts, which the file contains only inside the calldata.
fn transfers(calldata: &[u8]) -> Vec<SignatureTransferDetails> {
    use Permit2::Permit2Calls as Calls;
    match Calls::abi_decode(calldata).unwrap() {
        Calls::permitTransferFrom_0(call) => vec![call.transferDetails],
        Calls::permitTransferFrom_1(call) => call.transferDetails,
        Calls::permitWitnessTransferFrom_0(call) => vec![call.transferDetails],
        Calls::permitWitnessTransferFrom_1(call) => call.transferDetails,
        _ => Vec::new(),
    }
}

/// The real Permit2, deployed once per chain id, since its code contains the domain.
#[derive(Default)]
struct Contracts {
    states: BTreeMap<u64, WorldState>,
}

impl Contracts {
    /// True if the contract accepts `calldata` from the permit's spender at the file's time.
    fn accept(&mut self, domain: &Permit2Domain, permit: &Permit2Message, calldata: Bytes) -> bool {
        assert_eq!(domain.permit2, PERMIT2);
        let mut state = self.states.entry(domain.chain_id).or_insert_with(|| deployed(domain)).clone();
        let tokens: Vec<Address> = match permit {
            Permit2Message::Transfer { permit, .. } => vec![permit.permitted.token],
            Permit2Message::TransferBatch { permit, .. } => permit.permitted.iter().map(|one| one.token).collect(),
            Permit2Message::Allowance(_) | Permit2Message::AllowanceBatch(_) => Vec::new(),
        };
        for token in tokens {
            // PUSH1 1 PUSH0 MSTORE PUSH1 32 PUSH0 RETURN: a token that returns true for every transfer.
            state.set_code(token, Bytes::from_static(&[0x60, 1, 0x5f, 0x52, 0x60, 32, 0x5f, 0xf3])).unwrap();
        }
        run_call(&state, domain.chain_id, permit.spender(), PERMIT2, calldata).0
    }
}

fn deployed(domain: &Permit2Domain) -> WorldState {
    let mut state = WorldState::default();
    state.set_code(DEPLOYMENT_PROXY, Bytes::from_static(DEPLOYMENT_PROXY_CODE)).unwrap();
    let creation = [PERMIT2_SALT.as_slice(), &BundledContract::Permit2.code().unwrap()].concat().into();
    let (created, changes) = run_call(&state, domain.chain_id, Address::ZERO, DEPLOYMENT_PROXY, creation);
    assert!(created);
    state.apply(changes);
    assert!(state.has_contract_code(PERMIT2));
    let separator = Permit2::DOMAIN_SEPARATORCall {}.abi_encode();
    let call = call_of(Address::ZERO, PERMIT2, separator.into());
    let rules = ChainRules::osaka(domain.chain_id);
    let tx = call_env(&call, &rules, &block(), 30_000_000).unwrap();
    let answer = transact(&state, &rules, &block(), CheckMode::Call, tx).unwrap().result;
    assert_eq!(answer.output().unwrap()[..], domain.separator()[..]);
    state
}

fn run_call(state: &WorldState, chain_id: u64, from: Address, to: Address, data: Bytes) -> (bool, EvmState) {
    let rules = ChainRules::osaka(chain_id);
    let tx = call_env(&call_of(from, to, data), &rules, &block(), 16_000_000).unwrap();
    let execution = transact(state, &rules, &block(), CheckMode::Call, tx).unwrap();
    (execution.result.is_success(), execution.state)
}

fn call_of(from: Address, to: Address, data: Bytes) -> TransactionRequest {
    TransactionRequest { input: TransactionInput::new(data), ..TransactionRequest::default() }.from(from).to(to)
}

fn block() -> BlockContext {
    BlockContext {
        number: 1,
        timestamp: TRIED_AT,
        base_fee: 0,
        gas_limit: 30_000_000,
        coinbase: Address::ZERO,
        prevrandao: B256::ZERO,
        excess_blob_gas: 0,
    }
}
