//! Calls with fixed arguments, as alternatives of one delegation: each is a group of caveats (contract, function, and
//! parts of the calldata), and every call names the group that it belongs to. The arguments of a caveat are not signed, so
//! that the session key chooses the group, and the enforcer checks the call against it.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::{SolCall as _, SolValue as _};

use super::caveats::{Enforcers, LimitsError};
use bardo_abi::delegation::{Caveat, CaveatGroup, SelectedGroup};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_abi::universal_router::UniversalRouter;
use golem_chain::network::{AddressBook, KnownContract};

/// Maximum number of shapes in one delegation.
const MOST_SHAPES: usize = 64;

/// Maximum number of fixed arguments of one shape.
const MOST_FIXED: usize = 8;

/// Universal Routers in the order in which swaps prefer them.
pub(super) const ROUTERS: [KnownContract; 5] = [
    KnownContract::UniversalRouter,
    KnownContract::UniversalRouterV210,
    KnownContract::UniversalRouterV211,
    KnownContract::UniversalRouterV212,
    KnownContract::UniversalRouterV220,
];

/// Selector of a router's `execute` with a deadline, the one that swaps use.
pub(super) const EXECUTE: [u8; 4] = UniversalRouter::execute_1Call::SELECTOR;

/// Function of a contract that may be called, with arguments that must be certain addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallShape {
    /// Contract that may be called.
    pub target: Address,
    /// Selector of the function.
    pub method: [u8; 4],
    /// Index of an argument, from 0, and the address that it must be. The arguments up to the last of them are values
    /// of one word each.
    pub fixed: Vec<(u8, Address)>,
}

impl CallShape {
    /// Returns the calls of a swap of `token` through the chain's Universal Router: its allowance for Permit2 and no other
    /// spender, the allowance there for the router and no other spender, and the router's execution. `None` if the
    /// address book lacks a contract.
    pub fn swap(book: &AddressBook, token: Address) -> Option<[Self; 3]> {
        let permit2 = book.contract(KnownContract::Permit2)?;
        let router = ROUTERS.into_iter().find_map(|router| book.contract(router))?;
        Some([
            Self { target: token, method: Erc20::approveCall::SELECTOR, fixed: vec![(0, permit2)] },
            Self { target: permit2, method: Permit2::approveCall::SELECTOR, fixed: vec![(0, token), (1, router)] },
            Self { target: router, method: EXECUTE, fixed: Vec::new() },
        ])
    }

    /// Returns true if a call has this shape.
    pub fn fits(&self, to: Address, data: &[u8]) -> bool {
        to == self.target
            && data.get(..4) == Some(self.method.as_slice())
            && self.fixed.iter().all(|(argument, address)| {
                let start = start_of(*argument);
                data.get(start..start + 32) == Some(address.into_word().as_slice())
            })
    }

    fn encode(&self, enforcers: &Enforcers, calldata: Address) -> CaveatGroup {
        let caveat = |enforcer, terms: Vec<u8>| Caveat { enforcer, terms: terms.into(), args: Bytes::new() };
        let fixed = self.fixed.iter().map(|(argument, address)| {
            let start = U256::from(start_of(*argument)).to_be_bytes::<32>();
            caveat(calldata, [start, address.into_word().0].concat())
        });
        let first = [caveat(enforcers.targets, self.target.to_vec()), caveat(enforcers.methods, self.method.to_vec())];
        CaveatGroup { caveats: first.into_iter().chain(fixed).collect() }
    }

    /// Decodes a group; `None` unless it has exactly the form that [`Self::encode`] gives it.
    fn decode(group: &CaveatGroup, enforcers: &Enforcers, calldata: Address) -> Option<Self> {
        let [targets, methods, fixed @ ..] = group.caveats.as_slice() else { return None };
        if fixed.len() > MOST_FIXED {
            return None;
        }
        let fixed = fixed.iter().map(|caveat| {
            let start: u64 = U256::try_from_be_slice(caveat.terms.get(..32)?)?.try_into().ok()?;
            let argument = u8::try_from(start.checked_sub(4)? / 32).ok()?;
            Some((argument, Address::try_from(caveat.terms.get(44..)?).ok()?))
        });
        let shape = Self {
            target: Address::try_from(targets.terms.as_ref()).ok()?,
            method: methods.terms.as_ref().try_into().ok()?,
            fixed: fixed.collect::<Option<_>>()?,
        };
        // Everything that was not looked at is compared here: enforcers, paddings, arguments of the group's caveats.
        (shape.encode(enforcers, calldata) == *group).then_some(shape)
    }
}

/// Encodes the alternatives as the terms of their enforcer.
pub(super) fn encode(shapes: &[CallShape], enforcers: &Enforcers) -> Result<Vec<u8>, LimitsError> {
    let calldata = enforcers.calldata.ok_or(LimitsError::NoEnforcer("allowedCalldataEnforcer"))?;
    let groups: Vec<CaveatGroup> = shapes.iter().map(|shape| shape.encode(enforcers, calldata)).collect();
    Ok(groups.abi_encode())
}

/// Decodes the alternatives; `None` if anything in them is not a shape.
pub(super) fn decode(terms: &[u8], enforcers: &Enforcers) -> Option<Vec<CallShape>> {
    let calldata = enforcers.calldata?;
    let groups = Vec::<CaveatGroup>::abi_decode(terms).ok()?;
    if !(1..=MOST_SHAPES).contains(&groups.len()) || groups.abi_encode() != terms {
        return None;
    }
    groups.iter().map(|group| CallShape::decode(group, enforcers, calldata)).collect()
}

/// Arguments that select the alternative of a call; `None` if it has none.
pub(super) fn selected(shapes: &[CallShape], to: Address, data: &[u8]) -> Option<Bytes> {
    let (index, shape) = shapes.iter().enumerate().find(|(_, shape)| shape.fits(to, data))?;
    let selected = SelectedGroup {
        groupIndex: U256::from(index),
        // Contract and function come before the fixed arguments, and none takes arguments.
        caveatArgs: vec![Bytes::new(); shape.fixed.len() + 2],
    };
    Some(selected.abi_encode().into())
}

fn start_of(argument: u8) -> usize {
    4 + 32 * usize::from(argument)
}
