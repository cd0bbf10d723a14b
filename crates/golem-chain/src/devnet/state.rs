//! The state of a devnet chain: a persistent map whose clone costs nothing, so that every recent
//! block, snapshot and fork keeps its own.
//!
//! Not here: who may change it (see `Chain`).

use alloy::primitives::map::{DefaultHashBuilder, FbBuildHasher};
use alloy::primitives::{Address, B256, Bytes, KECCAK256_EMPTY, Keccak256, U256};
use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;
use revm::database_interface::DatabaseRef;
use revm::state::{Account as TouchedAccount, AccountInfo, Bytecode, EvmState};

use crate::evm::DatabaseError;

/// How many ancestors BLOCKHASH can see.
pub(super) const BLOCK_HASH_WINDOW: u64 = 256;

type AddressMap<V> = GenericHashMap<Address, V, FbBuildHasher<20>, DefaultSharedPtr>;
type HashKeyMap<V> = GenericHashMap<B256, V, FbBuildHasher<32>, DefaultSharedPtr>;
type StorageMap = GenericHashMap<U256, U256, DefaultHashBuilder, DefaultSharedPtr>;

/// All accounts of a chain after some block. `Clone` is O(1) and the copies share what they have
/// in common; changing one never shows in another.
#[derive(Clone, Default)]
pub struct State {
    accounts: AddressMap<AccountState>,
    codes: HashKeyMap<Bytecode>,
    block_hashes: imbl::OrdMap<u64, B256>,
    commitment: U256,
}

/// One account as stored. Storage holds no zero values.
#[derive(Clone)]
struct AccountState {
    balance: U256,
    nonce: u64,
    code_hash: B256,
    code: Bytecode,
    storage: StorageMap,
}

/// An account as an image keeps it.
pub(super) struct StoredAccount {
    pub(super) nonce: u64,
    pub(super) balance: U256,
    /// Hash of a code that is stored already; `None` without code.
    pub(super) code_hash: Option<B256>,
    /// Slots that are not zero.
    pub(super) slots: Vec<(U256, U256)>,
}

/// Code that no account can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "code beginning with 0xef01 must be a delegation: 0xef0100 and 20 bytes of address (EIP-7702), these are {length} bytes"
)]
pub struct InvalidCode {
    /// Length of what was given, in bytes.
    pub length: usize,
}

impl State {
    /// Balance in wei; zero for an account that does not exist.
    pub fn balance(&self, address: Address) -> U256 {
        self.accounts.get(&address).map_or(U256::ZERO, |account| account.balance)
    }

    /// Number of transactions sent, or of contracts created plus one.
    pub fn nonce(&self, address: Address) -> u64 {
        self.accounts.get(&address).map_or(0, |account| account.nonce)
    }

    /// The code as deployed; a delegation designator for a delegated account.
    pub fn code(&self, address: Address) -> Bytes {
        self.accounts.get(&address).map_or_else(Bytes::new, |account| account.code.original_bytes())
    }

    /// Keccak hash of the code; that of no bytes where there is none.
    pub fn code_hash(&self, address: Address) -> B256 {
        self.accounts.get(&address).map_or(KECCAK256_EMPTY, |account| account.code_hash)
    }

    /// Whether the account is a contract: it has code that is no delegation
    /// ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
    pub fn has_contract_code(&self, address: Address) -> bool {
        self.accounts.get(&address).is_some_and(|account| !account.code.is_empty() && !account.code.is_eip7702())
    }

    /// One storage slot.
    pub fn storage_at(&self, address: Address, slot: U256) -> U256 {
        self.accounts.get(&address).and_then(|account| account.storage.get(&slot)).copied().unwrap_or_default()
    }

    /// All storage of an account that is not zero, in no particular order.
    pub fn storage(&self, address: Address) -> impl Iterator<Item = (U256, U256)> + '_ {
        self.accounts
            .get(&address)
            .into_iter()
            .flat_map(|account| account.storage.iter().map(|(slot, value)| (*slot, *value)))
    }

    /// All addresses that have an account, in no particular order.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.accounts.keys().copied()
    }

    /// The hash of a recent block, as BLOCKHASH would give it.
    pub fn block_hash(&self, number: u64) -> B256 {
        self.block_hashes.get(&number).copied().unwrap_or_default()
    }

    /// A commitment to all accounts: equal states have equal commitments, whatever path led there,
    /// and any difference shows. It is the sum, modulo 2^256, of one Keccak hash per account and
    /// one per storage slot, which lets a block update it at the cost of what it changed.
    ///
    /// It is **not** a Merkle Patricia root: no proof can be made against it, and no other client
    /// computes the same value.
    pub fn commitment(&self) -> B256 {
        B256::from(self.commitment)
    }

    /// Sets a balance.
    pub fn set_balance(&mut self, address: Address, balance: U256) {
        self.change(address, |account, _| account.balance = balance);
    }

    /// Sets a nonce.
    pub fn set_nonce(&mut self, address: Address, nonce: u64) {
        self.change(address, |account, _| account.nonce = nonce);
    }

    /// Sets the code; storage stays.
    pub fn set_code(&mut self, address: Address, code: Bytes) -> Result<(), InvalidCode> {
        let length = code.len();
        let code = Bytecode::new_raw_checked(code).map_err(|_| InvalidCode { length })?;
        let code_hash = code.hash_slow();
        self.codes.insert(code_hash, code.clone());
        self.change(address, |account, _| {
            account.code_hash = code_hash;
            account.code = code;
        });
        Ok(())
    }

    /// Sets one storage slot.
    pub fn set_storage_at(&mut self, address: Address, slot: U256, value: U256) {
        self.change(address, |account, commitment| account.set_slot(address, slot, value, commitment));
    }

    /// Replaces all storage of an account.
    pub fn replace_storage(&mut self, address: Address, slots: impl IntoIterator<Item = (U256, U256)>) {
        self.change(address, |account, commitment| {
            account.clear_storage(address, commitment);
            for (slot, value) in slots {
                account.set_slot(address, slot, value, commitment);
            }
        });
    }

    /// Writes what an execution changed: the `state` of an [`Execution`](crate::evm::Execution).
    pub fn apply(&mut self, changes: EvmState) {
        for (address, touched) in changes {
            if touched.is_touched() {
                self.apply_account(address, touched);
            }
        }
    }

    /// Records the hash of a sealed block, for BLOCKHASH in later ones.
    pub fn push_block_hash(&mut self, number: u64, hash: B256) {
        self.block_hashes.insert(number, hash);
        if let Some(old) = number.checked_sub(BLOCK_HASH_WINDOW) {
            self.block_hashes.remove(&old);
        }
    }

    /// An empty state that is to be filled by [`store_code`](Self::store_code) and [`store_account`](Self::store_account)
    /// until it has this commitment, which is taken on trust: computing it takes longer than reading all accounts.
    pub(super) fn committed_to(commitment: B256) -> Self {
        Self { commitment: commitment.into(), ..Self::default() }
    }

    /// Adds code that accounts can have; returns its hash.
    pub(super) fn store_code(&mut self, code: Bytes) -> Result<B256, InvalidCode> {
        let length = code.len();
        let code = Bytecode::new_raw_checked(code).map_err(|_| InvalidCode { length })?;
        let code_hash = code.hash_slow();
        self.codes.insert(code_hash, code);
        Ok(code_hash)
    }

    /// Adds an account without counting it in the commitment.
    pub(super) fn store_account(&mut self, address: Address, stored: StoredAccount) {
        let code_hash = stored.code_hash.unwrap_or(KECCAK256_EMPTY);
        let account = AccountState {
            balance: stored.balance,
            nonce: stored.nonce,
            code_hash,
            code: self.codes.get(&code_hash).cloned().unwrap_or_default(),
            storage: stored.slots.into_iter().collect(),
        };
        self.accounts.insert(address, account);
    }

    /// The commitment, computed from all accounts anew.
    pub fn computed_commitment(&self) -> B256 {
        let mut sum = U256::ZERO;
        for (address, account) in &self.accounts {
            sum = sum.wrapping_add(account.term(*address));
            for (slot, value) in &account.storage {
                sum = sum.wrapping_add(slot_term(*address, *slot, *value));
            }
        }
        sum.into()
    }

    /// The recent block hashes that BLOCKHASH can see, by number.
    pub(super) fn block_hashes(&self) -> impl Iterator<Item = (u64, B256)> + '_ {
        self.block_hashes.iter().map(|(number, hash)| (*number, *hash))
    }

    /// Replaces all block hashes, for BLOCKHASH.
    pub(super) fn replace_block_hashes(&mut self, hashes: impl IntoIterator<Item = (u64, B256)>) {
        self.block_hashes = hashes.into_iter().collect();
    }

    /// Puts a hash of the caller's in the place of a block's, for BLOCKHASH.
    pub(super) fn override_block_hash(&mut self, number: u64, hash: B256) {
        self.block_hashes.insert(number, hash);
    }

    fn apply_account(&mut self, address: Address, touched: TouchedAccount) {
        if touched.is_selfdestructed() {
            self.change(address, |account, commitment| {
                account.clear_storage(address, commitment);
                *account = AccountState::default();
            });
            return;
        }
        if let Some(code) = &touched.info.code
            && touched.info.code_hash != KECCAK256_EMPTY
            && touched.info.code_hash != self.code_hash(address)
        {
            self.codes.insert(touched.info.code_hash, code.clone());
        }
        let created = touched.is_created();
        let codes = &self.codes;
        let account = self.accounts.entry(address).or_default();
        let commitment = &mut self.commitment;
        let info = touched.info;
        if account.balance != info.balance || account.nonce != info.nonce || account.code_hash != info.code_hash {
            *commitment = commitment.wrapping_sub(account.term(address));
            account.balance = info.balance;
            account.nonce = info.nonce;
            if account.code_hash != info.code_hash {
                account.code_hash = info.code_hash;
                account.code = codes.get(&info.code_hash).cloned().unwrap_or_default();
            }
            *commitment = commitment.wrapping_add(account.term(address));
        }
        if created {
            account.clear_storage(address, commitment);
        }
        for (slot, value) in touched.storage {
            if value.is_changed() || created {
                account.set_slot(address, slot, value.present_value, commitment);
            }
        }
        // EIP-161: what is empty after being touched does not exist.
        if account.is_absent() {
            self.accounts.remove(&address);
        }
    }

    fn change(&mut self, address: Address, change: impl FnOnce(&mut AccountState, &mut U256)) {
        let account = self.accounts.entry(address).or_default();
        self.commitment = self.commitment.wrapping_sub(account.term(address));
        change(account, &mut self.commitment);
        self.commitment = self.commitment.wrapping_add(account.term(address));
        if account.is_absent() {
            self.accounts.remove(&address);
        }
    }
}

impl AccountState {
    /// Whether nothing about this account differs from one that never was.
    fn is_absent(&self) -> bool {
        self.has_no_info() && self.storage.is_empty()
    }

    fn has_no_info(&self) -> bool {
        self.balance.is_zero() && self.nonce == 0 && self.code_hash == KECCAK256_EMPTY
    }

    fn set_slot(&mut self, address: Address, slot: U256, value: U256, commitment: &mut U256) {
        let old = if value.is_zero() { self.storage.remove(&slot) } else { self.storage.insert(slot, value) };
        if let Some(old) = old {
            *commitment = commitment.wrapping_sub(slot_term(address, slot, old));
        }
        if !value.is_zero() {
            *commitment = commitment.wrapping_add(slot_term(address, slot, value));
        }
    }

    fn clear_storage(&mut self, address: Address, commitment: &mut U256) {
        for (slot, value) in &self.storage {
            *commitment = commitment.wrapping_sub(slot_term(address, *slot, *value));
        }
        self.storage = StorageMap::default();
    }

    /// What this account, without its storage, adds to the commitment: nothing if it is empty.
    fn term(&self, address: Address) -> U256 {
        if self.has_no_info() {
            return U256::ZERO;
        }
        let mut hasher = Keccak256::new();
        hasher.update(b"account");
        hasher.update(address);
        hasher.update(self.balance.to_be_bytes::<32>());
        hasher.update(self.nonce.to_be_bytes());
        hasher.update(self.code_hash);
        hasher.finalize().into()
    }
}

fn slot_term(address: Address, slot: U256, value: U256) -> U256 {
    let mut hasher = Keccak256::new();
    hasher.update(b"storage");
    hasher.update(address);
    hasher.update(slot.to_be_bytes::<32>());
    hasher.update(value.to_be_bytes::<32>());
    hasher.finalize().into()
}

impl Default for AccountState {
    fn default() -> Self {
        Self {
            balance: U256::ZERO,
            nonce: 0,
            code_hash: KECCAK256_EMPTY,
            code: Bytecode::default(),
            storage: StorageMap::default(),
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("accounts", &self.accounts.len())
            .field("commitment", &self.commitment())
            .finish_non_exhaustive()
    }
}

/// Two states are equal when every account and slot is; block hashes are not looked at.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.commitment == other.commitment
    }
}

impl DatabaseRef for State {
    type Error = DatabaseError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, Self::Error> {
        Ok(self
            .accounts
            .get(&address)
            .map(|account| AccountInfo::new(account.balance, account.nonce, account.code_hash, account.code.clone())))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, Self::Error> {
        Ok(self.codes.get(&code_hash).cloned().unwrap_or_default())
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, Self::Error> {
        Ok(self.storage_at(address, index))
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, Self::Error> {
        Ok(self.block_hash(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = Address::repeat_byte(0xaa);
    const B: Address = Address::repeat_byte(0xbb);

    #[test]
    fn a_clone_is_a_world_of_its_own() {
        let mut first = State::default();
        first.set_balance(A, U256::from(5));
        first.set_storage_at(A, U256::from(1), U256::from(2));
        let second = first.clone();
        first.set_balance(A, U256::from(6));
        first.set_storage_at(A, U256::from(1), U256::from(3));
        assert_eq!(second.balance(A), U256::from(5));
        assert_eq!(second.storage_at(A, U256::from(1)), U256::from(2));
        assert_eq!(first.balance(A), U256::from(6));
    }

    #[test]
    fn the_commitment_depends_on_the_state_and_not_on_the_path() {
        let mut first = State::default();
        first.set_balance(A, U256::from(5));
        first.set_storage_at(B, U256::from(1), U256::from(2));
        let mut second = State::default();
        second.set_storage_at(B, U256::from(1), U256::from(9));
        second.set_nonce(A, 4);
        second.set_storage_at(B, U256::from(1), U256::from(2));
        second.set_storage_at(B, U256::from(7), U256::from(7));
        second.set_storage_at(B, U256::from(7), U256::ZERO);
        second.set_balance(A, U256::from(5));
        assert_ne!(first.commitment(), second.commitment());
        second.set_nonce(A, 0);
        assert_eq!(first.commitment(), second.commitment());
        second.set_balance(A, U256::ZERO);
        second.set_storage_at(B, U256::from(1), U256::ZERO);
        assert_eq!(second.commitment(), B256::ZERO);
        assert_eq!(second.addresses().count(), 0);
    }

    #[test]
    fn code_is_kept_as_given_and_delegations_are_recognised() {
        let mut state = State::default();
        let code = Bytes::from_static(&[0x60, 0x00, 0x60, 0x00, 0xfd]);
        state.set_code(A, code.clone()).expect("plain code");
        assert_eq!(state.code(A), code);
        assert_eq!(state.code_hash(A), alloy::primitives::keccak256(&code));
        let mut designator = vec![0xef, 0x01, 0x00];
        designator.extend_from_slice(A.as_slice());
        state.set_code(B, designator.clone().into()).expect("a delegation");
        assert_eq!(state.code(B), Bytes::from(designator));
        assert_eq!(state.set_code(B, vec![0xef, 0x01, 0x00, 0x01].into()), Err(InvalidCode { length: 4 }));
    }

    #[test]
    fn only_256_block_hashes_are_remembered() {
        let mut state = State::default();
        for number in 0..=300 {
            state.push_block_hash(number, B256::with_last_byte((number % 250) as u8 + 1));
        }
        assert_eq!(state.block_hash(44), B256::ZERO);
        assert_ne!(state.block_hash(45), B256::ZERO);
        assert_ne!(state.block_hash(300), B256::ZERO);
    }
}
