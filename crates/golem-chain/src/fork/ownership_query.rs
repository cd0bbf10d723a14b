//! Queries to token contracts: their calldata, and the parsing of answers.

use alloy::{
    primitives::{Address, Bytes, U256, address, aliases::U192},
    sol_types::SolCall,
};

use super::{
    machine::QueryAnswer,
    outcome::{Permit2Allowance, QueryFailure},
    storage_trace::{address_in, word_of},
};
use bardo_abi::{
    erc20::{Erc20, Erc2612},
    erc4337::EntryPointNonces,
    nft::{Erc721, Erc1155},
    permit2::Permit2,
};

/// The ERC-4337 entry points of versions 0.6, 0.7 and 0.8. Their addresses depend on their code, so the contracts there
/// certainly implement nonces. A claim of another contract about nonces would explain nothing.
const ENTRY_POINTS: [Address; 3] = [
    address!("0x5FF137D4b0FDCD49DcA30c7CF57E578a026d2789"),
    address!("0x0000000071727De22E5E9d8BAf0edAc6f37da032"),
    address!("0x4337084D9E255Ff0702461CF8895CE9E3b5Ff108"),
];

/// A query about ownership or the right to take assets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum OwnershipQuery {
    /// Calls `balanceOf(holder)`.
    Balance { token: Address, holder: Address },
    /// Calls `allowance(owner, spender)`.
    Allowance { token: Address, owner: Address, spender: Address },
    /// Calls `allowance(owner, token, spender)`.
    Permit2Allowance { permit2: Address, owner: Address, token: Address, spender: Address },
    /// Calls `nonceBitmap(owner, word)`.
    NonceWord { permit2: Address, owner: Address, word: U256 },
    /// Calls `totalSupply()`.
    Supply { token: Address },
    /// Calls `nonces(owner)`.
    PermitNonce { token: Address, owner: Address },
    /// Calls `getNonce(account, key)`.
    AccountNonce { entry_point: Address, account: Address, key: U192 },
    /// Calls `isApprovedForAll(owner, operator)`.
    Operator { collection: Address, owner: Address, operator: Address },
    /// Calls `ownerOf(id)`.
    NftOwner { collection: Address, id: U256 },
    /// Calls `getApproved(id)`.
    NftApproved { collection: Address, id: U256 },
    /// Calls `balanceOf(holder, id)`.
    MultiBalance { collection: Address, holder: Address, id: U256 },
}

/// Result of a query at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryReading {
    /// The value. A contract without code yields zero for everything.
    Value(QueryValue),
    /// The query failed.
    Failed(QueryFailure),
}

/// A value: a number, an address, a boolean, or Permit2's three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct QueryValue {
    words: [U256; 3],
}

impl QueryValue {
    pub(super) fn number(&self) -> U256 {
        self.words[0]
    }

    pub(super) fn address(&self) -> Address {
        Address::from_word(self.words[0].into())
    }

    pub(super) fn as_bool(&self) -> bool {
        !self.words[0].is_zero()
    }

    /// The value as Permit2's three numbers, whose widths [`OwnershipQuery::read`] has checked.
    pub(super) fn permit2(&self) -> Permit2Allowance {
        let [amount, expiration, nonce] = self.words;
        Permit2Allowance { amount, expiration: expiration.saturating_to(), nonce: nonce.saturating_to() }
    }

    /// The storage word for this value if the slot holds nothing else.
    pub(super) fn stored(&self) -> U256 {
        let [first, expiration, nonce] = self.words;
        first | (expiration << 160) | (nonce << 208)
    }
}

impl OwnershipQuery {
    /// Query for a slot of `contract` with these keys, if `contract` is an entry point and the keys lead to a nonce.
    pub(super) fn account_nonce(contract: Address, keys: &[U256]) -> Option<Self> {
        let &[account, key] = keys else { return None };
        let key = (key.bit_len() <= 192).then(|| key.to::<U192>())?;
        let account = address_in(account).filter(|_| ENTRY_POINTS.contains(&contract))?;
        Some(Self::AccountNonce { entry_point: contract, account, key })
    }

    pub(super) fn contract(&self) -> Address {
        match *self {
            Self::Balance { token, .. } | Self::Allowance { token, .. } | Self::PermitNonce { token, .. } => token,
            Self::Supply { token } => token,
            Self::Permit2Allowance { permit2, .. } | Self::NonceWord { permit2, .. } => permit2,
            Self::AccountNonce { entry_point, .. } => entry_point,
            Self::Operator { collection, .. }
            | Self::NftOwner { collection, .. }
            | Self::NftApproved { collection, .. }
            | Self::MultiBalance { collection, .. } => collection,
        }
    }

    pub(super) fn calldata(&self) -> Bytes {
        match *self {
            Self::Balance { holder, .. } => Erc20::balanceOfCall { owner: holder }.abi_encode(),
            Self::Allowance { owner, spender, .. } => Erc20::allowanceCall { owner, spender }.abi_encode(),
            Self::Permit2Allowance { owner, token, spender, .. } => {
                Permit2::allowanceCall { owner, token, spender }.abi_encode()
            }
            Self::NonceWord { owner, word, .. } => Permit2::nonceBitmapCall { owner, word }.abi_encode(),
            Self::Supply { .. } => Erc20::totalSupplyCall {}.abi_encode(),
            Self::PermitNonce { owner, .. } => Erc2612::noncesCall { owner }.abi_encode(),
            Self::AccountNonce { account, key, .. } => {
                EntryPointNonces::getNonceCall { sender: account, key }.abi_encode()
            }
            Self::Operator { owner, operator, .. } => Erc721::isApprovedForAllCall { owner, operator }.abi_encode(),
            Self::NftOwner { id, .. } => Erc721::ownerOfCall { tokenId: id }.abi_encode(),
            Self::NftApproved { id, .. } => Erc721::getApprovedCall { tokenId: id }.abi_encode(),
            Self::MultiBalance { holder, id, .. } => Erc1155::balanceOfCall { account: holder, id }.abi_encode(),
        }
        .into()
    }

    /// The query as text, for a report that it failed.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Balance { holder, .. } => format!("balanceOf({holder})"),
            Self::Allowance { owner, spender, .. } => format!("allowance({owner}, {spender})"),
            Self::Permit2Allowance { owner, token, spender, .. } => format!("allowance({owner}, {token}, {spender})"),
            Self::NonceWord { owner, word, .. } => format!("nonceBitmap({owner}, {word})"),
            Self::Supply { .. } => "totalSupply()".to_owned(),
            Self::PermitNonce { owner, .. } => format!("nonces({owner})"),
            Self::AccountNonce { account, key, .. } => format!("getNonce({account}, {key})"),
            Self::Operator { owner, operator, .. } => format!("isApprovedForAll({owner}, {operator})"),
            Self::NftOwner { id, .. } => format!("ownerOf({id})"),
            Self::NftApproved { id, .. } => format!("getApproved({id})"),
            Self::MultiBalance { holder, id, .. } => format!("balanceOf({holder}, {id})"),
        }
    }

    /// Returns true if a slot with these mapping keys may hold the answer, so that a change of the slot stays unknown
    /// if the query fails. `answering` contracts return balances, so their slots per holder and number are something
    /// else, such as vote checkpoints or a token index.
    pub(super) fn is_suggested_by(&self, keys: &[U256], answering: bool) -> bool {
        match *self {
            Self::Balance { holder, .. } => keys == [word_of(holder)],
            Self::Allowance { owner, spender, .. } => keys == [word_of(owner), word_of(spender)],
            Self::Operator { owner, operator, .. } => keys == [word_of(owner), word_of(operator)],
            Self::Permit2Allowance { owner, token, spender, .. } => {
                keys == [word_of(owner), word_of(token), word_of(spender)]
            }
            Self::NftOwner { id, .. } | Self::NftApproved { id, .. } => keys == [id],
            Self::MultiBalance { holder, id, .. } => {
                !answering && (keys == [word_of(holder), id] || keys == [id, word_of(holder)])
            }
            // A used nonce or a supply moves no assets.
            Self::NonceWord { .. } | Self::PermitNonce { .. } | Self::AccountNonce { .. } | Self::Supply { .. } => {
                false
            }
        }
    }

    /// Parses an answer strictly: enough bytes, and each number within its width.
    pub(super) fn read(&self, answer: &QueryAnswer) -> QueryReading {
        let output = match answer {
            QueryAnswer::Returned(output) => output,
            QueryAnswer::NoCode => return QueryReading::Value(QueryValue::default()),
            // A token that is not minted yet, or is burnt, has no owner to return.
            QueryAnswer::Reverted if matches!(self, Self::NftOwner { .. }) => {
                return QueryReading::Value(QueryValue::default());
            }
            QueryAnswer::Reverted => return QueryReading::Failed(QueryFailure::Reverted),
            QueryAnswer::OutOfGas => return QueryReading::Failed(QueryFailure::OutOfGas),
            QueryAnswer::Halted => return QueryReading::Failed(QueryFailure::Halted),
        };
        let widths: &[usize] = match self {
            Self::Permit2Allowance { .. } => &[160, 48, 48],
            Self::NftOwner { .. } | Self::NftApproved { .. } => &[160],
            Self::Operator { .. } => &[1],
            _ => &[256],
        };
        let mut value = QueryValue::default();
        for ((slot, bits), bytes) in value.words.iter_mut().zip(widths).zip(output.chunks_exact(32)) {
            // 32 bytes always fit a word.
            let word = U256::try_from_be_slice(bytes).unwrap_or(U256::MAX);
            if word.bit_len() > *bits {
                return QueryReading::Failed(QueryFailure::Malformed);
            }
            *slot = word;
        }
        if output.len() < 32 * widths.len() {
            return QueryReading::Failed(QueryFailure::Malformed);
        }
        QueryReading::Value(value)
    }
}
