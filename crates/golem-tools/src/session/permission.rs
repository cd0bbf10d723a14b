//! Permissions of a session key: contracts with their functions, as the documents write them.

use alloy::primitives::{Address, hex, keccak256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bardo_base::error::ToolError;
use bardo_safety::custody::delegated::{CallLimit, DelegationLimits};

use crate::shared::invalid;

/// Contract that a session key may call, with its functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct SessionPermission {
    /// Address of the contract.
    pub(super) contract: String,
    /// Selectors of its functions, as 0x and eight digits; empty if every function may be called.
    pub(super) methods: Vec<String>,
    /// EIP-155 ids of the chains; a delegation has exactly one.
    pub(super) chains: Vec<u64>,
}

/// Permission that a caller asks for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestedPermission {
    /// Contract, as a 0x address, a listed token's symbol, or a contract's name in the address book.
    pub(super) contract: String,
    /// Functions: signatures such as "approve(address,uint256)", or selectors as 0x and eight digits.
    pub(super) methods: Vec<String>,
    /// Chains, as EIP-155 ids. All permissions of one key name the same single chain.
    pub(super) chains: Vec<u64>,
}

/// Contracts and functions that the limits of a delegation permit.
pub(super) fn permissions(limits: &DelegationLimits, chain_id: u64) -> Vec<SessionPermission> {
    let mut all = limits.all().iter();
    let shapes = all.find_map(|limit| if let CallLimit::Shapes(shapes) = limit { Some(shapes) } else { None });
    let mut all = limits.all().iter();
    let methods = all.find_map(|limit| if let CallLimit::Methods(methods) = limit { Some(methods) } else { None });
    let of = |contract: Address, methods: Vec<[u8; 4]>| SessionPermission {
        contract: contract.to_string(),
        methods: methods.iter().map(hex::encode_prefixed).collect(),
        chains: vec![chain_id],
    };
    limits
        .targets()
        .map(|target| match (shapes, methods) {
            (Some(shapes), _) => {
                let mut methods: Vec<[u8; 4]> = Vec::new();
                for shape in shapes.iter().filter(|shape| shape.target == target) {
                    if !methods.contains(&shape.method) {
                        methods.push(shape.method);
                    }
                }
                of(target, methods)
            }
            (None, Some(methods)) => of(target, methods.clone()),
            (None, None) => of(target, Vec::new()),
        })
        .collect()
}

/// Selector of a function, from its signature or from the selector itself.
///
/// # Errors
/// `VALIDATION_FAILED` for any other text; `parameter` is its name.
pub(crate) fn selector(text: &str, parameter: &str) -> Result<[u8; 4], ToolError> {
    let fail = || {
        let what = "write a signature such as transfer(address,uint256), without spaces and names, or 0x and 8 digits";
        invalid(parameter, &what)
    };
    if let Some(digits) = text.strip_prefix("0x") {
        let bytes = hex::decode(digits).map_err(|_| fail())?;
        return bytes.try_into().map_err(|_| fail());
    }
    let known = |character: char| character.is_ascii_alphanumeric() || "_$(),[]".contains(character);
    let shaped = text.ends_with(')') && text.find('(').is_some_and(|at| at > 0) && text.chars().all(known);
    if !shaped {
        return Err(fail());
    }
    let [first, second, third, fourth, ..] = keccak256(text).0;
    Ok([first, second, third, fourth])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::U256;
    use bardo_safety::custody::delegated::CallShape;

    #[test]
    fn every_contract_has_the_functions_that_its_limits_name() {
        let [router, token, owner] = [0x11, 0x22, 0x33].map(Address::repeat_byte);
        let time = CallLimit::Time { after: 0, before: 2_000_000_000 };
        let loss = CallLimit::TokenLoss { token, owner, amount: U256::from(1) };
        let plain = DelegationLimits::new(vec![
            CallLimit::Targets(vec![router, token]),
            CallLimit::Methods(vec![[1, 2, 3, 4]]),
            time.clone(),
        ]);
        let shown = permissions(&plain.unwrap(), 7);
        assert_eq!(shown.len(), 2);
        assert!(shown.iter().all(|one| one.methods == ["0x01020304"] && one.chains == [7]), "{shown:?}");
        // A list of whole calls gives each contract only its own functions, once each.
        let shape = |target, method, fixed| CallShape { target, method, fixed };
        let shaped = DelegationLimits::new(vec![
            CallLimit::Targets(vec![router, token]),
            CallLimit::Shapes(vec![
                shape(router, [9, 9, 9, 9], Vec::new()),
                shape(token, [1, 2, 3, 4], vec![(0, router)]),
                shape(token, [1, 2, 3, 4], vec![(0, owner)]),
            ]),
            time.clone(),
            loss,
        ]);
        let shown = permissions(&shaped.unwrap(), 7);
        let methods: Vec<_> = shown.iter().map(|one| (one.contract.clone(), one.methods.clone())).collect();
        assert_eq!(
            methods,
            [(router.to_string(), vec!["0x09090909".to_owned()]), (token.to_string(), vec!["0x01020304".to_owned()]),]
        );
        let open = DelegationLimits::new(vec![CallLimit::Targets(vec![router]), time]).unwrap();
        assert!(permissions(&open, 7)[0].methods.is_empty(), "every function");
    }

    /// The selectors of ERC-20 (<https://eips.ethereum.org/EIPS/eip-20>) are published with the standard's signatures.
    #[test]
    fn a_function_is_its_signature_or_its_selector() {
        let transfer = [0xa9, 0x05, 0x9c, 0xbb];
        assert_eq!(selector("transfer(address,uint256)", "method").unwrap(), transfer);
        assert_eq!(selector("0xa9059cbb", "method").unwrap(), transfer);
        for wrong in ["transfer", "transfer(address to)", "(address)", "0xa9059c", "0xa9059cbb00", "0xzz059cbb", ""] {
            assert!(selector(wrong, "method").is_err(), "{wrong}");
        }
    }
}
