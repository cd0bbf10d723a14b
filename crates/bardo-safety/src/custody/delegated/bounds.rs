//! Bounds of the loss by a stolen session key. A loss limit compares balances around one call, so it says nothing about
//! an allowance that the call sets and somebody uses later, and nothing about tokens without such a limit. A delegation
//! is bounded only if every call that it permits is one of those understood here; of all others it is unknown.
//!
//! Not here: tokens for which the owner has left an allowance elsewhere, such as in Permit2 for a router.

use alloy::primitives::{Address, U256, hex};
use alloy::sol_types::SolCall as _;

use super::caveats::{CallLimit, DelegationLimits};
use super::shapes::{CallShape, EXECUTE, ROUTERS};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use golem_chain::network::{AddressBook, KnownContract};

/// Upper bound of what a stolen session key can take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyExposure {
    /// Calls that the owner's rules in the policy contract let pass.
    PolicyCage,
    /// Sums over all calls.
    AtMost {
        /// Native tokens, in wei.
        native: U256,
        /// Tokens, in raw units.
        tokens: Vec<(Address, U256)>,
        /// True if a router can be called, which can take other tokens for which the owner has left an allowance.
        router: bool,
    },
}

/// Reason for which nothing bounds what a stolen session key can take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnboundedKey {
    /// The number of calls has no limit.
    #[error("the number of calls has no limit, so that a limit of one call bounds nothing")]
    Calls,
    /// The native token value of a call has no limit.
    #[error("the native token value of a call has no limit")]
    Value,
    /// The functions are not listed.
    #[error(
        "every function may be called: an allowance that a call sets costs that call nothing, and takes everything later"
    )]
    Methods,
    /// A call is allowed whose effect is not bounded.
    #[error(
        "the function {} of {target} may be called: nothing bounds what it gives away, now or by an allowance later",
        hex::encode_prefixed(method)
    )]
    Call {
        /// Contract that may be called.
        target: Address,
        /// Selector of the function.
        method: [u8; 4],
    },
    /// A token may be spent without a limit.
    #[error("nothing limits the owner's loss of the token {0}")]
    Token(Address),
}

impl DelegationLimits {
    /// Returns what a stolen session key of `owner` could take.
    ///
    /// # Errors
    /// [`UnboundedKey`] if nothing that is understood here bounds it.
    pub fn exposure(&self, owner: Address, book: &AddressBook) -> Result<KeyExposure, UnboundedKey> {
        if self.all().contains(&CallLimit::PolicyCage) && book.contract(KnownContract::PolicyCage).is_some() {
            return Ok(KeyExposure::PolicyCage);
        }
        let most = |find: fn(&CallLimit) -> Option<U256>| self.all().iter().filter_map(find).min();
        let calls = most(|limit| if let CallLimit::Calls(most) = limit { Some(U256::from(*most)) } else { None });
        let calls = calls.ok_or(UnboundedKey::Calls)?;
        let value = most(|limit| if let CallLimit::Value(most) = limit { Some(*most) } else { None });
        let native = value.ok_or(UnboundedKey::Value)?.saturating_mul(calls);
        let mut router = false;
        for shape in self.shapes().ok_or(UnboundedKey::Methods)? {
            router |= self.is_bounded(&shape, owner, book)?;
        }
        let mut tokens: Vec<(Address, U256)> = Vec::new();
        for limit in self.all() {
            let CallLimit::TokenLoss { token, owner: of, amount } = limit else { continue };
            if *of == owner && !tokens.iter().any(|(known, _)| known == token) {
                tokens.push((*token, amount.saturating_mul(calls)));
            }
        }
        // A token among the contracts needs a limit, whichever of its functions may be called.
        for target in self.targets() {
            let is_token = book.tokens().iter().any(|token| token.address == target);
            if is_token && !tokens.iter().any(|(token, _)| *token == target) {
                return Err(UnboundedKey::Token(target));
            }
        }
        Ok(KeyExposure::AtMost { native, tokens, router })
    }

    /// Checks that a call of this shape takes no more than the loss limits say. Returns true for a router.
    fn is_bounded(&self, shape: &CallShape, owner: Address, book: &AddressBook) -> Result<bool, UnboundedKey> {
        let CallShape { target, method, fixed } = shape;
        let limited = |token: &Address| {
            let is_its = |limit: &CallLimit| matches!(limit, CallLimit::TokenLoss { token: of, owner: whose, .. } if of == token && *whose == owner);
            let has = self.all().iter().any(is_its);
            has.then_some(()).ok_or(UnboundedKey::Token(*token))
        };
        let routers: Vec<Address> = ROUTERS.into_iter().filter_map(|router| book.contract(router)).collect();
        let permit2 = book.contract(KnownContract::Permit2);
        let unknown = UnboundedKey::Call { target: *target, method: *method };
        if routers.contains(target) && *method == EXECUTE {
            return Ok(true);
        }
        if Some(*target) == permit2 && *method == Permit2::approveCall::SELECTOR {
            // Token and spender; the router spends for its caller alone.
            return match fixed.as_slice() {
                [(0, token), (1, spender)] if routers.contains(spender) => limited(token).map(|()| false),
                _ => Err(unknown),
            };
        }
        if *method == Erc20::approveCall::SELECTOR {
            // Permit2 moves a token only by an allowance in it or by the owner's signature.
            return match fixed.as_slice() {
                [(0, spender)] if Some(*spender) == permit2 => limited(target).map(|()| false),
                _ => Err(unknown),
            };
        }
        if *method == Erc20::transferCall::SELECTOR {
            return limited(target).map(|()| false);
        }
        Err(unknown)
    }

    /// Every shape of call that the limits permit; `None` if functions are not listed.
    fn shapes(&self) -> Option<Vec<CallShape>> {
        let mut all = self.all().iter();
        let listed = all.find_map(|limit| if let CallLimit::Shapes(shapes) = limit { Some(shapes) } else { None });
        if let Some(shapes) = listed {
            return Some(shapes.clone());
        }
        let mut all = self.all().iter();
        let methods =
            all.find_map(|limit| if let CallLimit::Methods(methods) = limit { Some(methods) } else { None })?;
        let every = self.targets().flat_map(|target| {
            methods.iter().map(move |method| CallShape { target, method: *method, fixed: Vec::new() })
        });
        Some(every.collect())
    }
}
