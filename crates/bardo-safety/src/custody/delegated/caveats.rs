//! Limits of a session key, as caveats. The list is closed, so that every permission of a delegation is known here.
//! Each limit is encoded in the format of its enforcer, and decoded from delegations made elsewhere.

use alloy::primitives::{Address, Bytes, U256};

use super::bounds::UnboundedKey;
use super::shapes::{self, CallShape};
use bardo_abi::delegation::Caveat;
use golem_chain::network::{AddressBook, KnownContract};

/// Maximum length of a list of targets or methods.
const LONGEST_LIST: usize = 64;

/// Limit on the calls of a session key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallLimit {
    /// Only these contracts may be called.
    Targets(Vec<Address>),
    /// Only these functions may be called. A call without data matches none of them.
    Methods(Vec<[u8; 4]>),
    /// Every call must have one of these shapes.
    Shapes(Vec<CallShape>),
    /// Maximum native token value of one call, in wei.
    Value(U256),
    /// Valid only between two times, both exclusive, in seconds since the Unix epoch; zero means no bound.
    Time {
        /// Start of the period, exclusive.
        after: u64,
        /// End of the period, exclusive.
        before: u64,
    },
    /// Maximum number of calls in total.
    Calls(u64),
    /// Maximum loss of a token by the owner in one call, in raw units. The enforcer compares balances, so a swap counts
    /// like a transfer.
    TokenLoss {
        /// Address of the token.
        token: Address,
        /// Account whose balance is compared.
        owner: Address,
        /// Maximum loss, in raw units.
        amount: U256,
    },
    /// Every call must pass the owner's policy contract, by the rules stored there.
    PolicyCage,
}

/// Addresses of the enforcer contracts on one chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enforcers {
    pub(super) targets: Address,
    pub(super) methods: Address,
    /// Compares parts of the calldata; `None` if the chain has none.
    pub(super) calldata: Option<Address>,
    /// Requires one of several groups of caveats; `None` if the chain has none.
    any_of: Option<Address>,
    value: Address,
    time: Address,
    calls: Address,
    token_loss: Address,
    /// Policy contract; `None` if the chain has none.
    cage: Option<Address>,
}

/// All limits of one delegation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationLimits(Vec<CallLimit>);

/// Reason for which a call or delegation is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// The chain's address book lacks an enforcer.
    #[error("the address book of this chain has no `{0}`: delegations cannot be used on it")]
    NoEnforcer(&'static str),
    /// A caveat has an unknown enforcer.
    #[error("caveat {at} is enforced by {enforcer}, which is not a known enforcer, so its effect is unknown")]
    Unknown {
        /// Index of the caveat, from 0.
        at: usize,
        /// Address of the enforcer.
        enforcer: Address,
    },
    /// The terms of a caveat do not have its enforcer's format.
    #[error("the terms of caveat {at} do not have its enforcer's format")]
    Terms {
        /// Index of the caveat, from 0.
        at: usize,
    },
    /// The delegation has no list of targets, or no end.
    #[error("the delegation has no {0}: without it, a session key would have no limit")]
    Unlimited(&'static str),
    /// The call's target is not on the list.
    #[error("the session key may not call {0}: its delegation does not list this contract")]
    Target(Address),
    /// The call's function is not on the list.
    #[error("the session key may not call this function: its delegation does not list it")]
    Method,
    /// The call has none of the listed shapes.
    #[error(
        "the session key may not make this call: its delegation lists calls with their arguments, and not this one"
    )]
    Shape,
    /// A contract on the list could change what the owner's account or the delegation does.
    #[error(
        "a session key must not call {target}, {role}: through it, it would escape every limit on contracts, functions \
         and values"
    )]
    Escape {
        /// Address of the contract.
        target: Address,
        /// Role of the contract.
        role: &'static str,
    },
    /// Nothing bounds what a stolen session key could take.
    #[error("a stolen session key could take everything: {0}")]
    Unbounded(#[from] UnboundedKey),
    /// The call transfers too much of the native token.
    #[error("the session key may send at most {most} wei with a call, not {value}")]
    Value {
        /// Maximum value, in wei.
        most: U256,
        /// Value of the call, in wei.
        value: U256,
    },
}

impl Enforcers {
    /// Reads the enforcers from a chain's address book.
    ///
    /// # Errors
    /// [`LimitsError::NoEnforcer`] if one is missing.
    pub fn of(book: &AddressBook) -> Result<Self, LimitsError> {
        let known = |key: &str| book.others().find(|(name, _)| *name == key).map(|(_, address)| address);
        let find = |key: &'static str| known(key).ok_or(LimitsError::NoEnforcer(key));
        Ok(Self {
            targets: find("allowedTargetsEnforcer")?,
            methods: find("allowedMethodsEnforcer")?,
            calldata: known("allowedCalldataEnforcer"),
            any_of: known("logicalOrWrapperEnforcer"),
            value: find("valueLteEnforcer")?,
            time: find("timestampEnforcer")?,
            calls: find("limitedCallsEnforcer")?,
            token_loss: find("erc20BalanceChangeEnforcer")?,
            cage: book.contract(KnownContract::PolicyCage),
        })
    }

    fn encode(&self, limit: &CallLimit) -> Result<Caveat, LimitsError> {
        let (enforcer, terms) = match limit {
            CallLimit::Targets(targets) => (self.targets, targets.iter().flat_map(|target| target.0.0).collect()),
            CallLimit::Methods(methods) => (self.methods, methods.iter().flatten().copied().collect()),
            CallLimit::Shapes(shapes) => {
                let enforcer = self.any_of.ok_or(LimitsError::NoEnforcer("logicalOrWrapperEnforcer"))?;
                (enforcer, shapes::encode(shapes, self)?)
            }
            CallLimit::Value(most) => (self.value, most.to_be_bytes_vec()),
            CallLimit::Time { after, before } => {
                let packed = [u128::from(*after).to_be_bytes(), u128::from(*before).to_be_bytes()];
                (self.time, packed.concat())
            }
            CallLimit::Calls(most) => (self.calls, U256::from(*most).to_be_bytes_vec()),
            CallLimit::TokenLoss { token, owner, amount } => {
                // The leading 1 selects a limit on the decrease of the balance.
                let packed = [&[1][..], token.as_slice(), owner.as_slice(), &amount.to_be_bytes::<32>()];
                (self.token_loss, packed.concat())
            }
            // The rules are in the contract, not in the terms.
            CallLimit::PolicyCage => (self.cage.ok_or(LimitsError::NoEnforcer("policyCage"))?, Vec::new()),
        };
        Ok(Caveat { enforcer, terms: Bytes::from(terms), args: Bytes::new() })
    }

    fn decode(&self, at: usize, caveat: &Caveat) -> Result<CallLimit, LimitsError> {
        let wrong = LimitsError::Terms { at };
        let terms = caveat.terms.as_ref();
        let word = || <[u8; 32]>::try_from(terms).map(U256::from_be_bytes).map_err(|_| wrong.clone());
        let list = |size: usize| {
            let (whole, rest) = (terms.len() / size, terms.len() % size);
            if rest == 0 && (1..=LONGEST_LIST).contains(&whole) {
                Ok(terms.chunks_exact(size))
            } else {
                Err(wrong.clone())
            }
        };
        let limit = match caveat.enforcer {
            enforcer if enforcer == self.targets => CallLimit::Targets(list(20)?.map(Address::from_slice).collect()),
            enforcer if enforcer == self.methods => {
                CallLimit::Methods(list(4)?.filter_map(|method| method.try_into().ok()).collect())
            }
            enforcer if Some(enforcer) == self.any_of => CallLimit::Shapes(shapes::decode(terms, self).ok_or(wrong)?),
            enforcer if enforcer == self.value => CallLimit::Value(word()?),
            enforcer if enforcer == self.calls => CallLimit::Calls(word()?.saturating_to()),
            enforcer if enforcer == self.time => {
                let both = word()?;
                let (after, before): (U256, U256) = (both >> 128, both & U256::from(u128::MAX));
                // Times beyond 64 bits are never reached.
                CallLimit::Time { after: after.saturating_to(), before: before.saturating_to() }
            }
            enforcer if enforcer == self.token_loss => {
                match (terms.first(), terms.get(1..21), terms.get(21..41), terms.get(41..)) {
                    (Some(1), Some(token), Some(owner), Some(amount)) => CallLimit::TokenLoss {
                        token: Address::from_slice(token),
                        owner: Address::from_slice(owner),
                        amount: U256::from_be_bytes(<[u8; 32]>::try_from(amount).map_err(|_| wrong)?),
                    },
                    _ => return Err(wrong),
                }
            }
            enforcer if Some(enforcer) == self.cage => {
                if !terms.is_empty() {
                    return Err(wrong);
                }
                CallLimit::PolicyCage
            }
            enforcer => return Err(LimitsError::Unknown { at, enforcer }),
        };
        Ok(limit)
    }
}

impl DelegationLimits {
    /// Creates a list of limits that contains at least a list of targets and an end.
    ///
    /// # Errors
    /// [`LimitsError::Unlimited`] if one of the two is missing.
    pub fn new(limits: Vec<CallLimit>) -> Result<Self, LimitsError> {
        if !limits.iter().any(|limit| matches!(limit, CallLimit::Targets(_))) {
            return Err(LimitsError::Unlimited("list of contracts"));
        }
        if !limits.iter().any(|limit| matches!(limit, CallLimit::Time { before, .. } if *before != 0)) {
            return Err(LimitsError::Unlimited("end"));
        }
        Ok(Self(limits))
    }

    /// Returns all limits of the delegation.
    pub fn all(&self) -> &[CallLimit] {
        &self.0
    }

    /// Checks that no contract that may be called is one of `forbidden`, given with their roles.
    ///
    /// # Errors
    /// [`LimitsError::Escape`] for the first that is.
    pub(super) fn avoid(&self, forbidden: &[(Address, &'static str)]) -> Result<(), LimitsError> {
        let mut found = self.targets().filter_map(|target| forbidden.iter().find(|(known, _)| *known == target));
        found.next().map_or(Ok(()), |(target, role)| Err(LimitsError::Escape { target: *target, role }))
    }

    /// Returns the contracts on all lists of targets.
    pub fn targets(&self) -> impl Iterator<Item = Address> + '_ {
        let all = self.0.iter();
        let lists = all.filter_map(|limit| if let CallLimit::Targets(targets) = limit { Some(targets) } else { None });
        lists.flatten().copied()
    }

    /// Returns the arguments for each caveat that a call needs, in their order: those that select its shape.
    pub(super) fn arguments(&self, to: Address, data: &[u8]) -> impl Iterator<Item = Bytes> {
        self.0.iter().map(move |limit| match limit {
            CallLimit::Shapes(shapes) => shapes::selected(shapes, to, data).unwrap_or_default(),
            CallLimit::Targets(_)
            | CallLimit::Methods(_)
            | CallLimit::Value(_)
            | CallLimit::Time { .. }
            | CallLimit::Calls(_)
            | CallLimit::TokenLoss { .. }
            | CallLimit::PolicyCage => Bytes::new(),
        })
    }

    /// Encodes the limits as caveats of a delegation.
    ///
    /// # Errors
    /// [`LimitsError::NoEnforcer`] if the chain has no contract for one of them.
    pub(super) fn encode(&self, enforcers: &Enforcers) -> Result<Vec<Caveat>, LimitsError> {
        self.0.iter().map(|limit| enforcers.encode(limit)).collect()
    }

    /// Decodes the caveats of a delegation, all of which must be known.
    pub(super) fn decode(caveats: &[Caveat], enforcers: &Enforcers) -> Result<Self, LimitsError> {
        let limits = caveats.iter().enumerate().map(|(at, caveat)| enforcers.decode(at, caveat));
        Self::new(limits.collect::<Result<_, _>>()?)
    }

    /// Checks a call against the limits that depend on the call alone. The simulation covers those that depend on the
    /// chain (time, count, balances), and the enforcers finally decide on all of them.
    ///
    /// # Errors
    /// The first limit that the call violates.
    pub fn lets_through(&self, to: Address, value: U256, data: &[u8]) -> Result<(), LimitsError> {
        for limit in &self.0 {
            match limit {
                CallLimit::Targets(targets) if !targets.contains(&to) => return Err(LimitsError::Target(to)),
                CallLimit::Methods(methods)
                    if !methods.iter().any(|method| data.get(..4) == Some(method.as_slice())) =>
                {
                    return Err(LimitsError::Method);
                }
                CallLimit::Shapes(shapes) if !shapes.iter().any(|shape| shape.fits(to, data)) => {
                    return Err(LimitsError::Shape);
                }
                CallLimit::Value(most) if value > *most => return Err(LimitsError::Value { most: *most, value }),
                CallLimit::Targets(_) | CallLimit::Methods(_) | CallLimit::Shapes(_) | CallLimit::Value(_) => {}
                CallLimit::Time { .. } | CallLimit::Calls(_) | CallLimit::TokenLoss { .. } | CallLimit::PolicyCage => {}
            }
        }
        Ok(())
    }
}
