//! What a simulation says: the end of every call and each change that matters to an owner.

use alloy::primitives::{Address, B256, Bytes, Log, U256, aliases::U192};

use super::revert::Reason;
use bardo_base::text::SafeText;

/// The answer of [`Fork::simulate`](super::Fork::simulate): one outcome per call, and what all of
/// them changed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation {
    /// The block whose state this ran on.
    pub pinned: Pinned,
    /// One per call, in order.
    pub outcomes: Vec<Outcome>,
    /// Changes from the pinned state to the state after the last call.
    pub changes: Changes,
}

/// The block a fork stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// Id of the chain.
    pub chain_id: u64,
    /// Height of the block whose state was read.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
}

/// How one call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Success or not.
    pub status: Status,
    /// Gas the transaction is charged for: intrinsic cost included, refunds taken off, in gas units.
    pub gas_used: u64,
    /// What it returned (the deployed code of a creation), or the raw data of its revert.
    pub output: Bytes,
    /// The contract it created.
    pub created: Option<Address>,
    /// Events, in order. None unless it succeeded.
    pub logs: Vec<Log>,
    /// What this call changed, from the state right before it to the state right after. `None`
    /// where the simulation had this one call only: then it is [`Simulation::changes`].
    pub changes: Option<Changes>,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It ran to its end.
    Success,
    /// It gave up and said why; what it had changed is undone, gas is paid.
    Reverted(Reason),
    /// It broke: out of gas, an invalid instruction. All gas is gone.
    Halted(SafeText),
}

/// Everything found to have changed between two states. Amounts are raw token units (wei for the
/// native currency). An entry stands here only if it changed, or if the caller declared it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Native balances, nonces, code and delegations.
    pub accounts: Vec<AccountChange>,
    /// What `balanceOf` says: ERC-20 amounts, or the number of ERC-721 tokens.
    pub balances: Vec<BalanceChange>,
    /// ERC-20 allowances.
    pub allowances: Vec<AllowanceChange>,
    /// Allowances inside Permit2.
    pub permit2_allowances: Vec<Permit2AllowanceChange>,
    /// Words of Permit2's bitmap of used signature nonces.
    pub permit2_nonces: Vec<NonceWordChange>,
    /// Total supplies, where tokens were minted or burnt.
    pub supplies: Vec<SupplyChange>,
    /// Nonces of ERC-2612 permits.
    pub permit_nonces: Vec<PermitNonceChange>,
    /// Nonces that accounts use at an ERC-4337 entry point.
    pub account_nonces: Vec<AccountNonceChange>,
    /// Approvals for everything (ERC-721, ERC-1155).
    pub operators: Vec<OperatorChange>,
    /// Owners of single tokens (ERC-721).
    pub nft_owners: Vec<NftChange>,
    /// Who may take a single token (ERC-721).
    pub nft_approvals: Vec<NftChange>,
    /// ERC-1155 and ERC-6909 balances per id.
    pub multi_balances: Vec<MultiBalanceChange>,
    /// Every storage slot that ended with another value, explained or not.
    pub writes: Vec<StorageWrite>,
    /// Questions a token did not answer, and those that a storage write suggests about an account
    /// and its contract does not answer.
    pub unreadable: Vec<Unreadable>,
    /// Why this list may be incomplete. Empty: every bound was kept.
    pub gaps: Vec<Gap>,
}

/// A value before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change<T> {
    /// On the earlier state.
    pub before: T,
    /// On the later state.
    pub after: T,
}

/// An account that is not what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountChange {
    /// Whose.
    pub account: Address,
    /// Native balance in wei, gas paid included.
    pub balance: Change<U256>,
    /// Transactions sent, or contracts created.
    pub nonce: Change<u64>,
    /// Keccak hash of the code; that of no bytes where there is none.
    pub code_hash: Change<B256>,
    /// Where the account delegates to ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
    pub delegation: Change<Option<Address>>,
}

/// `balanceOf(holder)` of `token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BalanceChange {
    /// The contract that keeps the balance.
    pub token: Address,
    /// Whose balance.
    pub holder: Address,
    /// Raw units.
    pub balance: Change<U256>,
}

/// `allowance(owner, spender)` of `token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowanceChange {
    /// The contract that keeps the allowance.
    pub token: Address,
    /// Whose tokens.
    pub owner: Address,
    /// Who may take them.
    pub spender: Address,
    /// Raw units.
    pub allowance: Change<U256>,
}

/// `allowance(owner, token, spender)` of a Permit2 contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit2AllowanceChange {
    /// The Permit2 contract.
    pub permit2: Address,
    /// Whose tokens.
    pub owner: Address,
    /// Which token.
    pub token: Address,
    /// Who may take them.
    pub spender: Address,
    /// What is allowed.
    pub allowance: Change<Permit2Allowance>,
}

/// An allowance as Permit2 keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permit2Allowance {
    /// Raw units.
    pub amount: U256,
    /// Seconds since the Unix epoch after which it is void.
    pub expiration: u64,
    /// The next nonce a signed permit for it must carry.
    pub nonce: u64,
}

/// `nonceBitmap(owner, word)` of a Permit2 contract: a set bit is a used signature nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonceWordChange {
    /// The Permit2 contract.
    pub permit2: Address,
    /// Whose signatures.
    pub owner: Address,
    /// Which word: the nonce without its last eight bits.
    pub word: U256,
    /// The 256 bits.
    pub bits: Change<U256>,
}

/// `totalSupply()` of `token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupplyChange {
    /// The token.
    pub token: Address,
    /// Raw units.
    pub supply: Change<U256>,
}

/// `getNonce(account, key)` of an entry point ([ERC-4337](https://eips.ethereum.org/EIPS/eip-4337)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountNonceChange {
    /// The entry point.
    pub entry_point: Address,
    /// Whose nonce.
    pub account: Address,
    /// Which of the account's sequences.
    pub key: U192,
    /// The next operation's nonce: the key, and the place in its sequence below it.
    pub nonce: Change<U256>,
}

/// `nonces(owner)` of `token` ([ERC-2612](https://eips.ethereum.org/EIPS/eip-2612)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitNonceChange {
    /// The contract that keeps the nonce.
    pub token: Address,
    /// Whose permits.
    pub owner: Address,
    /// The next permit's nonce.
    pub nonce: Change<U256>,
}

/// `isApprovedForAll(owner, operator)` of `collection`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorChange {
    /// The contract of the tokens.
    pub collection: Address,
    /// Whose tokens.
    pub owner: Address,
    /// Who may move all of them.
    pub operator: Address,
    /// Whether it is approved.
    pub approved: Change<bool>,
}

/// `ownerOf(id)` or `getApproved(id)` of `collection`; the zero address is nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NftChange {
    /// The contract of the token.
    pub collection: Address,
    /// Which token.
    pub id: U256,
    /// Who owns it, or may take it.
    pub who: Change<Address>,
}

/// `balanceOf(holder, id)` of `collection`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiBalanceChange {
    /// The contract of the tokens.
    pub collection: Address,
    /// Whose.
    pub holder: Address,
    /// Which kind.
    pub id: U256,
    /// Raw units.
    pub balance: Change<U256>,
}

/// A storage slot that ended with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageWrite {
    /// Whose storage.
    pub account: Address,
    /// The slot.
    pub slot: U256,
    /// Its 256 bits.
    pub value: Change<U256>,
    /// Mapping keys that lead to the slot, outermost first, as far as hashes seen while executing
    /// tell. Words as they are: an address is its number.
    pub keys: Vec<U256>,
    /// Whether the changes listed beside account for it.
    pub explained: Explained,
}

/// How well the other changes account for a storage write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explained {
    /// A listed value is computed from this slot and moved by exactly what the slot moved.
    Exactly,
    /// A listed value that moved is computed from this slot, but not one to one: the slot may hold
    /// something else too.
    Partly,
    /// Nothing listed accounts for it.
    No,
}

/// A contract that did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The contract asked.
    pub contract: Address,
    /// The question in words, such as `balanceOf(0x…)`.
    pub question: String,
    /// What happened instead.
    pub failure: Failure,
}

/// How a question failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It reverted.
    Reverted,
    /// It used more gas than a question may.
    OutOfGas,
    /// It stopped on an invalid instruction or the like.
    Halted,
    /// It returned fewer bytes than its answer has, or a value out of its range.
    Malformed,
}

/// A bound that was hit while looking for changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// More questions than the limit (the number left unasked).
    Questions(usize),
    /// Questions used up their gas together (the number left unasked).
    Gas(usize),
    /// More hashes than are remembered, so that some slots cannot be told apart.
    Preimages,
}

impl Simulation {
    /// Whether every call succeeded.
    pub fn succeeded(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.status == Status::Success)
    }

    /// The first call that did not succeed, with its place in the plan.
    pub fn failure(&self) -> Option<(usize, &Outcome)> {
        self.outcomes.iter().enumerate().find(|(_, outcome)| outcome.status != Status::Success)
    }

    /// Gas of all calls together.
    pub fn gas_used(&self) -> u64 {
        self.outcomes.iter().fold(0, |sum, outcome| sum.saturating_add(outcome.gas_used))
    }

    /// What call number `index` changed by itself; `None` if there is no such call.
    pub fn changes_of(&self, index: usize) -> Option<&Changes> {
        self.outcomes.get(index).map(|outcome| outcome.changes.as_ref().unwrap_or(&self.changes))
    }
}

impl Changes {
    /// Whether no bound was hit, no token refused to answer, and no write keyed by an account is left
    /// that its contract will not speak about. Only then is the absence of an entry a statement.
    pub fn complete(&self) -> bool {
        self.gaps.is_empty() && self.unreadable.is_empty()
    }

    /// Storage writes that the listed changes do not account for exactly.
    pub fn unexplained(&self) -> impl Iterator<Item = &StorageWrite> {
        self.writes.iter().filter(|write| write.explained != Explained::Exactly)
    }

    /// How the balance of `holder` in `token` changed; `None` if it did not.
    pub fn balance(&self, token: Address, holder: Address) -> Option<Change<U256>> {
        self.balances.iter().find(|entry| entry.token == token && entry.holder == holder).map(|entry| entry.balance)
    }

    /// How an allowance changed; `None` if it did not.
    pub fn allowance(&self, token: Address, owner: Address, spender: Address) -> Option<Change<U256>> {
        self.allowances
            .iter()
            .find(|entry| entry.token == token && entry.owner == owner && entry.spender == spender)
            .map(|entry| entry.allowance)
    }

    /// How an account changed; `None` if it did not.
    pub fn account(&self, account: Address) -> Option<&AccountChange> {
        self.accounts.iter().find(|entry| entry.account == account)
    }
}

impl StorageWrite {
    /// Whether `account` is among the mapping keys, or is the account written to.
    pub fn concerns(&self, account: Address) -> bool {
        let key = U256::from_be_bytes(account.into_word().0);
        self.account == account || self.slot == key || self.keys.contains(&key)
    }
}

impl<T: PartialEq> Change<T> {
    /// Whether before and after differ.
    pub fn moved(&self) -> bool {
        self.before != self.after
    }
}
