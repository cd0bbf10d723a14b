//! Results of a simulation: the outcome of every call, and the changes that matter to an owner.

use alloy::primitives::{Address, B256, Bytes, Log, U256, aliases::U192};

use super::revert::RevertReason;
use bardo_base::text::SafeText;

/// Result of [`Fork::simulate`](super::Fork::simulate): one outcome per call, and the changes of all calls together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation {
    /// Block whose state the simulation used.
    pub pinned: PinnedBlock,
    /// Outcomes of the calls, in order.
    pub outcomes: Vec<SimulatedOutcome>,
    /// Changes from the pinned state to the state after the last call.
    pub changes: StateChanges,
}

/// The block that a fork is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinnedBlock {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Height of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
}

/// Outcome of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedOutcome {
    /// Final status of the call.
    pub status: ExecutionStatus,
    /// Gas charged to the transaction, in gas units: includes the intrinsic cost, after refunds.
    pub gas_used: u64,
    /// Return data (the deployed code for a creation), or the raw revert data.
    pub output: Bytes,
    /// Address of the created contract; `None` if the call created none.
    pub created: Option<Address>,
    /// Events of the call, in order; empty unless it succeeded.
    pub logs: Vec<Log>,
    /// Changes made by this call alone. `None` if the simulation had only this call; [`Simulation::changes`] applies
    /// then.
    pub changes: Option<StateChanges>,
}

/// Final status of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutionStatus {
    /// The call succeeded.
    Success,
    /// The call reverted for this reason; its changes are undone, but gas is paid.
    Reverted(RevertReason),
    /// The call halted abnormally, such as out of gas or at an invalid instruction. All gas is used.
    Halted(SafeText),
}

/// Changes detected between two states. Amounts are in raw token units (wei for the native token). An entry exists only
/// if the value changed or the caller declared it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateChanges {
    /// Native balances, nonces, code and delegations.
    pub accounts: Vec<AccountChange>,
    /// Results of `balanceOf`: ERC-20 amounts, or numbers of ERC-721 tokens.
    pub balances: Vec<BalanceChange>,
    /// ERC-20 allowances by owner and spender.
    pub allowances: Vec<AllowanceChange>,
    /// Allowances inside Permit2.
    pub permit2_allowances: Vec<Permit2AllowanceChange>,
    /// Words of Permit2's bitmap of used signature nonces.
    pub permit2_nonces: Vec<NonceWordChange>,
    /// Total supplies of tokens that were minted or burnt.
    pub supplies: Vec<SupplyChange>,
    /// Nonces of ERC-2612 permits.
    pub permit_nonces: Vec<PermitNonceChange>,
    /// Account nonces at an ERC-4337 entry point.
    pub account_nonces: Vec<AccountNonceChange>,
    /// Approvals of operators for all tokens of an owner (ERC-721, ERC-1155).
    pub operators: Vec<OperatorChange>,
    /// Owners of single tokens (ERC-721).
    pub nft_owners: Vec<NftChange>,
    /// Approved addresses of single tokens (ERC-721).
    pub nft_approvals: Vec<NftChange>,
    /// ERC-1155 and ERC-6909 balances per id.
    pub multi_balances: Vec<MultiBalanceChange>,
    /// All storage slots with a changed value, explained or not.
    pub writes: Vec<StorageWrite>,
    /// Queries that a token did not answer, and unanswered queries about an account that a storage write suggests.
    pub unreadable: Vec<UnansweredQuery>,
    /// Reasons why this list may be incomplete. Empty if no limit was reached.
    pub gaps: Vec<DetectionGap>,
}

/// A value before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ValueChange<T> {
    /// Value in the earlier state.
    pub before: T,
    /// Value in the later state.
    pub after: T,
}

/// Changes of one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountChange {
    /// Address of the account.
    pub account: Address,
    /// Native balance in wei, after payment of gas.
    pub balance: ValueChange<U256>,
    /// Account nonce: number of sent transactions or created contracts.
    pub nonce: ValueChange<u64>,
    /// Keccak hash of the code; the hash of empty bytes if there is none.
    pub code_hash: ValueChange<B256>,
    /// Target of the account's delegation ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
    pub delegation: ValueChange<Option<Address>>,
}

/// Change of `balanceOf(holder)` of `token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BalanceChange {
    /// Address of the token contract.
    pub token: Address,
    /// Holder of the balance.
    pub holder: Address,
    /// Balance in raw units.
    pub balance: ValueChange<U256>,
}

/// Change of `allowance(owner, spender)` of `token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowanceChange {
    /// Address of the token contract.
    pub token: Address,
    /// Owner of the tokens.
    pub owner: Address,
    /// Account that may take the tokens.
    pub spender: Address,
    /// Allowance in raw units.
    pub allowance: ValueChange<U256>,
}

/// Change of `allowance(owner, token, spender)` of a Permit2 contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit2AllowanceChange {
    /// Address of the Permit2 contract.
    pub permit2: Address,
    /// Owner of the tokens.
    pub owner: Address,
    /// Address of the token contract.
    pub token: Address,
    /// Account that may take the tokens.
    pub spender: Address,
    /// Amount, expiration and nonce of the allowance.
    pub allowance: ValueChange<Permit2Allowance>,
}

/// An allowance as stored in Permit2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permit2Allowance {
    /// Amount in raw units.
    pub amount: U256,
    /// Time after which the allowance is invalid, in seconds since the Unix epoch.
    pub expiration: u64,
    /// Nonce that the next signed permit for it must carry.
    pub nonce: u64,
}

/// Change of `nonceBitmap(owner, word)` of a Permit2 contract: a set bit is a used signature nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonceWordChange {
    /// Address of the Permit2 contract.
    pub permit2: Address,
    /// Account that signs the permits.
    pub owner: Address,
    /// Index of the word: the nonce without its lowest eight bits.
    pub word: U256,
    /// The 256 bits of the word.
    pub bits: ValueChange<U256>,
}

/// Change of `totalSupply()` of `token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupplyChange {
    /// Address of the token contract.
    pub token: Address,
    /// Total supply in raw units.
    pub supply: ValueChange<U256>,
}

/// Change of `getNonce(account, key)` of an entry point ([ERC-4337](https://eips.ethereum.org/EIPS/eip-4337)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountNonceChange {
    /// Address of the entry point.
    pub entry_point: Address,
    /// Account that the nonce belongs to.
    pub account: Address,
    /// Key of the account's nonce sequence.
    pub key: U192,
    /// Nonce of the next operation: the key, followed by the position in its sequence.
    pub nonce: ValueChange<U256>,
}

/// Change of `nonces(owner)` of `token` ([ERC-2612](https://eips.ethereum.org/EIPS/eip-2612)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitNonceChange {
    /// Address of the token contract.
    pub token: Address,
    /// Account that signs the permits.
    pub owner: Address,
    /// Nonce of the next permit.
    pub nonce: ValueChange<U256>,
}

/// Change of `isApprovedForAll(owner, operator)` of `collection`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorChange {
    /// Address of the token collection.
    pub collection: Address,
    /// Owner of the tokens.
    pub owner: Address,
    /// Account that may move all of them.
    pub operator: Address,
    /// True if the operator is approved.
    pub approved: ValueChange<bool>,
}

/// Change of `ownerOf(id)` or `getApproved(id)` of `collection`; the zero address stands for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NftChange {
    /// Address of the token collection.
    pub collection: Address,
    /// Id of the token.
    pub id: U256,
    /// Owner or approved address of the token.
    pub who: ValueChange<Address>,
}

/// Change of `balanceOf(holder, id)` of `collection`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiBalanceChange {
    /// Address of the token collection.
    pub collection: Address,
    /// Holder of the balance.
    pub holder: Address,
    /// Id of the token.
    pub id: U256,
    /// Balance in raw units.
    pub balance: ValueChange<U256>,
}

/// A storage slot with a changed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageWrite {
    /// Address of the contract.
    pub account: Address,
    /// Number of the slot.
    pub slot: U256,
    /// Value of the slot.
    pub value: ValueChange<U256>,
    /// Mapping keys that lead to the slot, outermost first, as far as recorded hashes show. They are raw words; an
    /// address is its number.
    pub keys: Vec<U256>,
    /// Degree to which the reported changes explain the write.
    pub explained: WriteExplanation,
}

/// Degree to which the reported changes explain a storage write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteExplanation {
    /// A reported value is computed from this slot and changed by exactly the same amount.
    Exactly,
    /// A changed value is computed from this slot but changed by another amount; the slot may hold other data too.
    Partly,
    /// No reported value explains the write.
    No,
}

/// A query that a contract did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnansweredQuery {
    /// Address of the contract.
    pub contract: Address,
    /// The query as text, such as `balanceOf(0x…)`.
    pub question: String,
    /// The kind of failure.
    pub failure: QueryFailure,
}

/// Failure of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryFailure {
    /// The contract reverted.
    Reverted,
    /// The contract exceeded the query's gas limit.
    OutOfGas,
    /// The contract halted abnormally, such as at an invalid instruction.
    Halted,
    /// The contract returned too few bytes or a value out of range.
    Malformed,
}

/// A limit that was reached while changes were detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetectionGap {
    /// Number of queries beyond the limit, which were not made.
    Questions(usize),
    /// Number of queries that were not made because the gas for queries was used up.
    Gas(usize),
    /// Some hashes were not recorded, so that some slots cannot be identified.
    Preimages,
}

impl Simulation {
    /// Returns true if every call succeeded.
    pub fn succeeded(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.status == ExecutionStatus::Success)
    }

    /// Index and outcome of the first call that did not succeed.
    pub fn failure(&self) -> Option<(usize, &SimulatedOutcome)> {
        self.outcomes.iter().enumerate().find(|(_, outcome)| outcome.status != ExecutionStatus::Success)
    }

    /// Gas used by all calls together, in gas units.
    pub fn gas_used(&self) -> u64 {
        self.outcomes.iter().fold(0, |sum, outcome| sum.saturating_add(outcome.gas_used))
    }

    /// Changes made by call `index` alone; `None` if there is no such call.
    pub fn changes_of(&self, index: usize) -> Option<&StateChanges> {
        self.outcomes.get(index).map(|outcome| outcome.changes.as_ref().unwrap_or(&self.changes))
    }
}

impl StateChanges {
    /// Returns true if no limit was reached and no relevant query failed. Only then does a missing entry mean that
    /// nothing changed.
    pub fn complete(&self) -> bool {
        self.gaps.is_empty() && self.unreadable.is_empty()
    }

    /// Storage writes that the reported changes do not explain exactly.
    pub fn unexplained(&self) -> impl Iterator<Item = &StorageWrite> {
        self.writes.iter().filter(|write| write.explained != WriteExplanation::Exactly)
    }

    /// Change of the balance of `holder` in `token`; `None` if there is no entry.
    pub fn balance(&self, token: Address, holder: Address) -> Option<ValueChange<U256>> {
        self.balances.iter().find(|entry| entry.token == token && entry.holder == holder).map(|entry| entry.balance)
    }

    /// Change of an allowance; `None` if there is no entry.
    pub fn allowance(&self, token: Address, owner: Address, spender: Address) -> Option<ValueChange<U256>> {
        self.allowances
            .iter()
            .find(|entry| entry.token == token && entry.owner == owner && entry.spender == spender)
            .map(|entry| entry.allowance)
    }

    /// Changes of an account; `None` if there is no entry.
    pub fn account(&self, account: Address) -> Option<&AccountChange> {
        self.accounts.iter().find(|entry| entry.account == account)
    }
}

impl StorageWrite {
    /// Returns true if `account` is the contract, the slot number, or one of the mapping keys.
    pub fn concerns(&self, account: Address) -> bool {
        let key = U256::from_be_bytes(account.into_word().0);
        self.account == account || self.slot == key || self.keys.contains(&key)
    }
}

impl<T: PartialEq> ValueChange<T> {
    /// Returns true if the two values differ.
    pub fn moved(&self) -> bool {
        self.before != self.after
    }
}
