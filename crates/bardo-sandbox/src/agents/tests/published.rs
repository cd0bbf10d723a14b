//! The shipped code against the published ABIs of `erc-8004/erc-8004-contracts` at commit `b9e466c`.

use alloy::dyn_abi::{DynSolType, DynSolValue, JsonAbiExt, Specifier};
use alloy::json_abi::JsonAbi;
use alloy::primitives::{Address, Bytes, I256, U256};

use super::*;
use crate::contracts::BundledContract;

const IDENTITY: &str = include_str!("../../../../../tests/fixtures/erc8004/IdentityRegistry.json");
const REPUTATION: &str = include_str!("../../../../../tests/fixtures/erc8004/ReputationRegistry.json");
const VALIDATION: &str = include_str!("../../../../../tests/fixtures/erc8004/ValidationRegistry.json");

fn empty(kind: &DynSolType) -> DynSolValue {
    match kind {
        DynSolType::Bool => DynSolValue::Bool(false),
        DynSolType::Int(bits) => DynSolValue::Int(I256::ZERO, *bits),
        DynSolType::Uint(bits) => DynSolValue::Uint(U256::ZERO, *bits),
        DynSolType::FixedBytes(size) => DynSolValue::FixedBytes(Default::default(), *size),
        DynSolType::Address => DynSolValue::Address(Address::ZERO),
        DynSolType::Bytes => DynSolValue::Bytes(Vec::new()),
        DynSolType::String => DynSolValue::String(String::new()),
        DynSolType::Array(_) => DynSolValue::Array(Vec::new()),
        other => panic!("{other}"),
    }
}

#[test]
fn the_registries_have_every_function_event_and_error_of_the_published_abis() {
    let field = Field::new();
    for (abi, at, contract) in [
        (IDENTITY, field.identity, BundledContract::IdentityRegistry),
        (REPUTATION, field.reputation, BundledContract::ReputationRegistry),
        (VALIDATION, field.validation, BundledContract::ValidationRegistry),
    ] {
        let abi: JsonAbi = serde_json::from_str(abi).unwrap();
        // The compiler answers an unknown function with an empty revert.
        assert_eq!(field.try_read(at, Bytes::from_static(&[1, 2, 3, 4])), Err(Bytes::new()));
        for function in abi.functions() {
            let arguments: Vec<_> = function.inputs.iter().map(|input| empty(&input.resolve().unwrap())).collect();
            let input = function.abi_encode_input(&arguments).unwrap();
            match field.try_read(at, input.into()) {
                Ok(output) if function.outputs.is_empty() => assert!(output.is_empty(), "{}", function.name),
                Ok(output) => {
                    let kinds = function.outputs.iter().map(|output| output.resolve().unwrap()).collect();
                    DynSolType::Tuple(kinds).abi_decode_params(&output).unwrap();
                }
                Err(data) => assert!(!data.is_empty(), "{}", function.signature()),
            }
        }
        let code = contract.code().unwrap();
        let has = |bytes: &[u8]| code.windows(bytes.len()).any(|window| window == bytes);
        // Declared by ERC-4906 and ERC-5267 for changes that never happen: of several agents at once, and of the domain.
        let never = ["BatchMetadataUpdate", "EIP712DomainChanged"];
        for event in abi.events().filter(|event| !never.contains(&event.name.as_str())) {
            assert!(has(event.selector().as_slice()), "{}", event.signature());
        }
        for error in abi.errors() {
            // The optimiser pushes a constant without its trailing zero bits, and shifts it.
            let selector = u32::from_be_bytes(error.selector().0);
            let shifted = (selector >> selector.trailing_zeros()).to_be_bytes();
            let start = shifted.iter().position(|byte| *byte != 0).unwrap();
            assert!(has(&selector.to_be_bytes()) || has(&shifted[start..]), "{}", error.signature());
        }
    }
}
