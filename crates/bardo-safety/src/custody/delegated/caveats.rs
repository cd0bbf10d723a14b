//! The limits of a session key, as caveats: a closed list, so that nothing a delegation allows is unknown here. Each is
//! encoded as its enforcer reads it, and read back from a delegation that somebody else has made.

use alloy::primitives::{Address, Bytes, U256};

use bardo_abi::delegation::Caveat;
use golem_chain::network::{AddressBook, Contract};

/// The longest list of targets or methods.
const LONGEST_LIST: usize = 64;

/// What a session key may do at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// Only these contracts are called.
    Targets(Vec<Address>),
    /// Only these functions are called; a call without data is none of them.
    Methods(Vec<[u8; 4]>),
    /// At most this much of the chain's coin goes along with a call, in wei.
    Value(U256),
    /// Only within these seconds since the Unix epoch, both exclusive; zero is no bound.
    Time {
        /// After.
        after: u64,
        /// Before.
        before: u64,
    },
    /// At most so many calls, ever.
    Calls(u64),
    /// The owner loses at most this much of a token in one call, in raw units, whatever the call does: by balance, so that a
    /// swap counts as a transfer does.
    TokenLoss {
        /// Which token.
        token: Address,
        /// Whose balance is watched.
        owner: Address,
        /// How much.
        amount: U256,
    },
    /// Whatever the owner's policy contract lets through, by the rules that the owner keeps there.
    PolicyCage,
}

/// Where the enforcers stand on one chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enforcers {
    targets: Address,
    methods: Address,
    value: Address,
    time: Address,
    calls: Address,
    token_loss: Address,
    /// The policy contract, which not every chain has.
    cage: Option<Address>,
}

/// The limits of one delegation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits(Vec<Limit>);

/// Why a call or a delegation is beyond what is allowed or known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// The chain's book has no address for an enforcer.
    #[error("the address book of this chain has no `{0}`: delegations cannot be used on it")]
    NoEnforcer(&'static str),
    /// A caveat of an enforcer that is not known here.
    #[error(
        "caveat {at} is enforced by {enforcer}, which is none of the known enforcers: nobody here could tell what it allows"
    )]
    Unknown {
        /// Which, from 0.
        at: usize,
        /// Its enforcer.
        enforcer: Address,
    },
    /// A caveat whose terms do not have the form its enforcer reads.
    #[error("the terms of caveat {at} do not have the form its enforcer reads")]
    Terms {
        /// Which, from 0.
        at: usize,
    },
    /// No list of targets, or no end.
    #[error("the delegation has no {0}: a session key without one could do anything for ever")]
    Unlimited(&'static str),
    /// The call's target is not on the list.
    #[error("the session key may not call {0}: its delegation lists other contracts")]
    Target(Address),
    /// The call's function is not on the list.
    #[error("the session key may not call this function: its delegation lists others")]
    Method,
    /// Too much of the chain's coin.
    #[error("the session key may send {most} wei along with a call, not {value}")]
    Value {
        /// The limit.
        most: U256,
        /// What was to be sent.
        value: U256,
    },
}

impl Enforcers {
    /// The enforcers of a chain.
    ///
    /// # Errors
    /// [`LimitsError::NoEnforcer`].
    pub fn of(book: &AddressBook) -> Result<Self, LimitsError> {
        let find = |key: &'static str| {
            let found = book.others().find(|(name, _)| *name == key);
            found.map(|(_, address)| address).ok_or(LimitsError::NoEnforcer(key))
        };
        Ok(Self {
            targets: find("allowedTargetsEnforcer")?,
            methods: find("allowedMethodsEnforcer")?,
            value: find("valueLteEnforcer")?,
            time: find("timestampEnforcer")?,
            calls: find("limitedCallsEnforcer")?,
            token_loss: find("erc20BalanceChangeEnforcer")?,
            cage: book.contract(Contract::PolicyCage),
        })
    }

    fn encode(&self, limit: &Limit) -> Result<Caveat, LimitsError> {
        let (enforcer, terms) = match limit {
            Limit::Targets(targets) => (self.targets, targets.iter().flat_map(|target| target.0.0).collect()),
            Limit::Methods(methods) => (self.methods, methods.iter().flatten().copied().collect()),
            Limit::Value(most) => (self.value, most.to_be_bytes_vec()),
            Limit::Time { after, before } => {
                let packed = [u128::from(*after).to_be_bytes(), u128::from(*before).to_be_bytes()];
                (self.time, packed.concat())
            }
            Limit::Calls(most) => (self.calls, U256::from(*most).to_be_bytes_vec()),
            Limit::TokenLoss { token, owner, amount } => {
                // One first: the balance may fall, by so much at most.
                let packed = [&[1][..], token.as_slice(), owner.as_slice(), &amount.to_be_bytes::<32>()];
                (self.token_loss, packed.concat())
            }
            // Its rules are in the contract, not in the terms.
            Limit::PolicyCage => (self.cage.ok_or(LimitsError::NoEnforcer("policyCage"))?, Vec::new()),
        };
        Ok(Caveat { enforcer, terms: Bytes::from(terms), args: Bytes::new() })
    }

    fn decode(&self, at: usize, caveat: &Caveat) -> Result<Limit, LimitsError> {
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
            enforcer if enforcer == self.targets => Limit::Targets(list(20)?.map(Address::from_slice).collect()),
            enforcer if enforcer == self.methods => {
                Limit::Methods(list(4)?.filter_map(|method| method.try_into().ok()).collect())
            }
            enforcer if enforcer == self.value => Limit::Value(word()?),
            enforcer if enforcer == self.calls => Limit::Calls(word()?.saturating_to()),
            enforcer if enforcer == self.time => {
                let both = word()?;
                let (after, before): (U256, U256) = (both >> 128, both & U256::from(u128::MAX));
                // Seconds beyond 64 bits lie beyond every clock.
                Limit::Time { after: after.saturating_to(), before: before.saturating_to() }
            }
            enforcer if enforcer == self.token_loss => {
                match (terms.first(), terms.get(1..21), terms.get(21..41), terms.get(41..)) {
                    (Some(1), Some(token), Some(owner), Some(amount)) => Limit::TokenLoss {
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
                Limit::PolicyCage
            }
            enforcer => return Err(LimitsError::Unknown { at, enforcer }),
        };
        Ok(limit)
    }
}

impl Limits {
    /// Limits that leave nothing open: they name the contracts that may be called, and an end.
    ///
    /// # Errors
    /// [`LimitsError::Unlimited`].
    pub fn new(limits: Vec<Limit>) -> Result<Self, LimitsError> {
        if !limits.iter().any(|limit| matches!(limit, Limit::Targets(_))) {
            return Err(LimitsError::Unlimited("list of contracts"));
        }
        if !limits.iter().any(|limit| matches!(limit, Limit::Time { before, .. } if *before != 0)) {
            return Err(LimitsError::Unlimited("end"));
        }
        Ok(Self(limits))
    }

    /// Each of them.
    pub fn all(&self) -> &[Limit] {
        &self.0
    }

    /// As caveats of a delegation.
    ///
    /// # Errors
    /// [`LimitsError::NoEnforcer`] for one that this chain has no contract for.
    pub(super) fn encode(&self, enforcers: &Enforcers) -> Result<Vec<Caveat>, LimitsError> {
        self.0.iter().map(|limit| enforcers.encode(limit)).collect()
    }

    /// Those of a delegation, every one of them understood.
    pub(super) fn decode(caveats: &[Caveat], enforcers: &Enforcers) -> Result<Self, LimitsError> {
        let limits = caveats.iter().enumerate().map(|(at, caveat)| enforcers.decode(at, caveat));
        Self::new(limits.collect::<Result<_, _>>()?)
    }

    /// Whether a call would pass the limits that can be told from it alone. What depends on the chain (time, count, balances)
    /// the simulation tells, and the enforcers have the last word on all of it.
    ///
    /// # Errors
    /// The first limit that stands against it.
    pub fn lets_through(&self, to: Address, value: U256, data: &[u8]) -> Result<(), LimitsError> {
        for limit in &self.0 {
            match limit {
                Limit::Targets(targets) if !targets.contains(&to) => return Err(LimitsError::Target(to)),
                Limit::Methods(methods) if !methods.iter().any(|method| data.get(..4) == Some(method.as_slice())) => {
                    return Err(LimitsError::Method);
                }
                Limit::Value(most) if value > *most => return Err(LimitsError::Value { most: *most, value }),
                Limit::Targets(_) | Limit::Methods(_) | Limit::Value(_) => {}
                Limit::Time { .. } | Limit::Calls(_) | Limit::TokenLoss { .. } | Limit::PolicyCage => {}
            }
        }
        Ok(())
    }
}
