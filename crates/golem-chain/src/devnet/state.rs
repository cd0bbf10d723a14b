//! State of a devnet chain: a persistent map that is cheap to clone, so that every recent block, snapshot and fork
//! keeps its own.
//!
//! Not here: the permitted changes (see `Chain`).

use alloy::primitives::map::{DefaultHashBuilder, FbBuildHasher};
use alloy::primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use alloy_trie::TrieAccount;
use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;
use revm::database_interface::DatabaseRef;
use revm::state::{Account as TouchedAccount, AccountInfo, Bytecode, EvmState};

use super::trie::Trie;
use crate::evm::DatabaseError;
use crate::fork::origin::{OriginError, OriginView};

/// Number of ancestors that BLOCKHASH can read.
pub(super) const BLOCK_HASH_WINDOW: u64 = 256;

type AddressMap<V> = GenericHashMap<Address, V, FbBuildHasher<20>, DefaultSharedPtr>;
type HashKeyMap<V> = GenericHashMap<B256, V, FbBuildHasher<32>, DefaultSharedPtr>;
type StorageMap = GenericHashMap<U256, U256, DefaultHashBuilder, DefaultSharedPtr>;

/// All accounts of a chain after some block. `Clone` is O(1) and clones share unchanged parts; a change to one never
/// affects another.
///
/// The state of a fork contains only what changed since the origin's block; everything else is read from the origin
/// (see `forked`).
#[derive(Clone, Default)]
pub struct WorldState {
    /// Block of a live network below this state; `None` for a chain of its own.
    pub(super) origin: Option<OriginView>,
    accounts: AddressMap<AccountState>,
    codes: HashKeyMap<Bytecode>,
    block_hashes: imbl::OrdMap<u64, B256>,
    trie: Trie,
    /// Accounts that changed since the trie was last updated.
    outdated: imbl::OrdSet<Address>,
}

/// A stored account. Its storage contains no zero values, except on a fork, where zero overrides the origin's value.
#[derive(Clone)]
struct AccountState {
    /// True if the storage is complete: the origin has no part in it.
    is_whole: bool,
    balance: U256,
    nonce: u64,
    code_hash: B256,
    code: Bytecode,
    storage: StorageMap,
    storage_trie: Trie,
}

/// Proof of an account and some of its slots for a state root.
#[derive(Debug, Clone)]
pub struct AccountProof {
    /// The account in the state trie; an empty one if it does not exist.
    pub account: TrieAccount,
    /// Nodes of the state trie, root first.
    pub nodes: Vec<Bytes>,
    /// For each requested slot its value and the nodes of the storage trie, root first.
    pub slots: Vec<(U256, Vec<Bytes>)>,
}

/// An account in an image.
pub(super) struct StoredAccount {
    pub(super) nonce: u64,
    pub(super) balance: U256,
    /// Hash of code that is already stored; `None` without code.
    pub(super) code_hash: Option<B256>,
    /// True if the slots are complete; always true without an origin.
    pub(super) is_whole: bool,
    /// Slots with nonzero values; on a fork, also slots that are zero here and may not be at the origin.
    pub(super) slots: Vec<(U256, U256)>,
}

/// Error for code that no account can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "code beginning with 0xef01 must be a delegation: 0xef0100 and 20 bytes of address (EIP-7702), these are {length} bytes"
)]
pub struct InvalidCode {
    /// Length of the code, in bytes.
    pub length: usize,
}

impl WorldState {
    /// Balance in wei; zero for an account that does not exist.
    pub fn balance(&self, address: Address) -> U256 {
        match self.accounts.get(&address) {
            Some(account) => account.balance,
            None => self.origin_info(address).balance,
        }
    }

    /// Nonce of an account; zero for one that does not exist.
    pub fn nonce(&self, address: Address) -> u64 {
        match self.accounts.get(&address) {
            Some(account) => account.nonce,
            None => self.origin_info(address).nonce,
        }
    }

    /// Deployed code, or the delegation designator of a delegated account.
    pub fn code(&self, address: Address) -> Bytes {
        match self.accounts.get(&address) {
            Some(account) => account.code.original_bytes(),
            None => self.origin_info(address).code.map(|code| code.original_bytes()).unwrap_or_default(),
        }
    }

    /// Keccak hash of the code; the hash of empty bytes if there is none.
    pub fn code_hash(&self, address: Address) -> B256 {
        match self.accounts.get(&address) {
            Some(account) => account.code_hash,
            None => self.origin_info(address).code_hash,
        }
    }

    /// Returns true if the account is a contract: it has code that is not a delegation
    /// ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)).
    pub fn has_contract_code(&self, address: Address) -> bool {
        let is_contract = |code: &Bytecode| !code.is_empty() && !code.is_eip7702();
        match self.accounts.get(&address) {
            Some(account) => is_contract(&account.code),
            None => self.origin_info(address).code.as_ref().is_some_and(is_contract),
        }
    }

    /// Value of a storage slot.
    pub fn storage_at(&self, address: Address, slot: U256) -> U256 {
        let value = self.read_slot(address, slot);
        match &self.origin {
            None => value.unwrap_or_default(),
            Some(origin) => origin.or_recorded(value),
        }
    }

    /// All nonzero storage slots of an account, in no particular order. On a fork, the slots that were written.
    pub fn storage(&self, address: Address) -> impl Iterator<Item = (U256, U256)> + '_ {
        self.accounts
            .get(&address)
            .into_iter()
            .flat_map(|account| account.storage.iter().map(|(slot, value)| (*slot, *value)))
    }

    /// Addresses of all accounts, in no particular order. On a fork, the accounts that changed.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.accounts.keys().copied()
    }

    /// Hash of a recent block as BLOCKHASH returns it; zero if it is not available.
    pub fn block_hash(&self, number: u64) -> B256 {
        let hash = self.read_block_hash(number);
        match &self.origin {
            None => hash.unwrap_or_default(),
            Some(origin) => origin.or_recorded(hash),
        }
    }

    /// Root of the Merkle Patricia trie of all accounts, for a block's header. On a fork it covers only the accounts
    /// that changed, since the origin's trie is not known.
    pub fn root(&mut self) -> B256 {
        for address in std::mem::take(&mut self.outdated) {
            let key = keccak256(address);
            match self.accounts.get(&address) {
                Some(account) => self.trie.insert(key, alloy::rlp::encode(account.leaf())),
                None => self.trie.remove(key),
            }
        }
        self.trie.root()
    }

    /// Proof of an account and its `slots` for [`root`](Self::root)
    /// ([EIP-1186](https://eips.ethereum.org/EIPS/eip-1186)).
    pub fn prove(&mut self, address: Address, slots: &[U256]) -> AccountProof {
        self.root();
        let nodes = self.trie.prove(keccak256(address));
        let Some(account) = self.accounts.get(&address) else {
            let slots = slots.iter().map(|_| (U256::ZERO, Vec::new())).collect();
            return AccountProof { account: TrieAccount::default(), nodes, slots };
        };
        let prove = |slot: &U256| {
            let value = account.storage.get(slot).copied().unwrap_or_default();
            (value, account.storage_trie.prove(keccak256(slot.to_be_bytes::<32>())))
        };
        AccountProof { account: account.leaf(), nodes, slots: slots.iter().map(prove).collect() }
    }

    /// Sets a balance, in wei.
    pub fn set_balance(&mut self, address: Address, balance: U256) {
        self.change(address, |account| account.balance = balance);
    }

    /// Sets an account's nonce.
    pub fn set_nonce(&mut self, address: Address, nonce: u64) {
        self.change(address, |account| account.nonce = nonce);
    }

    /// Sets the code; storage stays unchanged.
    ///
    /// # Errors
    /// [`InvalidCode`] if it starts like a delegation and is none.
    pub fn set_code(&mut self, address: Address, code: Bytes) -> Result<(), InvalidCode> {
        let length = code.len();
        let code = Bytecode::new_raw_checked(code).map_err(|_| InvalidCode { length })?;
        let code_hash = code.hash_slow();
        self.codes.insert(code_hash, code.clone());
        self.change(address, |account| {
            account.code_hash = code_hash;
            account.code = code;
        });
        Ok(())
    }

    /// Sets a storage slot; zero removes it.
    pub fn set_storage_at(&mut self, address: Address, slot: U256, value: U256) {
        self.change(address, |account| account.set_slot(slot, value));
    }

    /// Replaces all storage of an account.
    pub fn replace_storage(&mut self, address: Address, slots: impl IntoIterator<Item = (U256, U256)>) {
        self.change(address, |account| {
            account.clear_storage();
            for (slot, value) in slots {
                account.set_slot(slot, value);
            }
        });
    }

    /// Applies the changes of an execution: the `state` of an [`Execution`](crate::evm::Execution).
    pub fn apply(&mut self, changes: EvmState) {
        for (address, touched) in changes {
            if touched.is_touched() {
                self.apply_account(address, touched);
            }
        }
    }

    /// Records the hash of a sealed block for BLOCKHASH in later ones.
    pub fn push_block_hash(&mut self, number: u64, hash: B256) {
        self.block_hashes.insert(number, hash);
        if let Some(old) = number.checked_sub(BLOCK_HASH_WINDOW) {
            self.block_hashes.remove(&old);
        }
    }

    /// Stores code for accounts; returns its hash.
    pub(super) fn store_code(&mut self, code: Bytes) -> Result<B256, InvalidCode> {
        let length = code.len();
        let code = Bytecode::new_raw_checked(code).map_err(|_| InvalidCode { length })?;
        let code_hash = code.hash_slow();
        self.codes.insert(code_hash, code);
        Ok(code_hash)
    }

    /// Stores an account from an image; its code must be stored already.
    pub(super) fn store_account(&mut self, address: Address, stored: StoredAccount) {
        let code_hash = stored.code_hash.unwrap_or(KECCAK256_EMPTY);
        let code = self.codes.get(&code_hash).cloned().unwrap_or_default();
        let account = AccountState { is_whole: stored.is_whole, ..AccountState::default() };
        self.accounts.insert(address, account);
        self.change(address, |account| {
            account.balance = stored.balance;
            account.nonce = stored.nonce;
            account.code_hash = code_hash;
            account.code = code;
            for (slot, value) in stored.slots {
                account.set_slot(slot, value);
            }
        });
    }

    /// Returns true if the account's stored slots are complete.
    pub(super) fn is_whole(&self, address: Address) -> bool {
        self.accounts.get(&address).is_none_or(|account| account.is_whole)
    }

    /// Block hashes that BLOCKHASH can read, by number.
    pub(super) fn block_hashes(&self) -> impl Iterator<Item = (u64, B256)> + '_ {
        self.block_hashes.iter().map(|(number, hash)| (*number, *hash))
    }

    /// Replaces all block hashes for BLOCKHASH.
    pub(super) fn replace_block_hashes(&mut self, hashes: impl IntoIterator<Item = (u64, B256)>) {
        self.block_hashes = hashes.into_iter().collect();
    }

    /// Overrides a block hash for BLOCKHASH.
    pub(super) fn override_block_hash(&mut self, number: u64, hash: B256) {
        self.block_hashes.insert(number, hash);
    }

    fn apply_account(&mut self, address: Address, touched: TouchedAccount) {
        if touched.is_selfdestructed() {
            self.accounts.insert(address, AccountState::default());
            self.change(address, |_| {});
            return;
        }
        if let Some(code) = &touched.info.code
            && touched.info.code_hash != KECCAK256_EMPTY
            && touched.info.code_hash != self.code_hash(address)
        {
            self.codes.insert(touched.info.code_hash, code.clone());
        }
        let created = touched.is_created();
        if self.origin.is_some() {
            // An account of the origin keeps its code and its other slots.
            self.change(address, |_| {});
        }
        let codes = &self.codes;
        let account = self.accounts.entry(address).or_default();
        let info = touched.info;
        account.balance = info.balance;
        account.nonce = info.nonce;
        if account.code_hash != info.code_hash {
            account.code_hash = info.code_hash;
            account.code = codes.get(&info.code_hash).cloned().or(info.code).unwrap_or_default();
        }
        if created {
            account.clear_storage();
        }
        for (slot, value) in touched.storage {
            if value.is_changed() || created {
                account.set_slot(slot, value.present_value);
            }
        }
        self.outdated.insert(address);
        // EIP-161: an empty account that was touched does not exist. On a fork it hides the origin's account.
        if account.is_absent() && self.origin.is_none() {
            self.accounts.remove(&address);
        }
    }

    fn change(&mut self, address: Address, change: impl FnOnce(&mut AccountState)) {
        if let Some(origin) = &self.origin
            && !self.accounts.contains_key(&address)
        {
            match origin.account(address) {
                Ok(info) => drop(self.accounts.insert(address, AccountState::of_origin(info.unwrap_or_default()))),
                // Without the account's other parts, the change would make a wrong account.
                Err(error) => return origin.record(error),
            }
        }
        let account = self.accounts.entry(address).or_default();
        change(account);
        self.outdated.insert(address);
        if account.is_absent() && self.origin.is_none() {
            self.accounts.remove(&address);
        }
    }

    /// Account at the origin; an empty one without an origin.
    fn origin_info(&self, address: Address) -> AccountInfo {
        let Some(origin) = &self.origin else { return AccountInfo::default() };
        origin.or_recorded(origin.account(address).map(Option::unwrap_or_default))
    }

    fn read_slot(&self, address: Address, slot: U256) -> Result<U256, OriginError> {
        let account = self.accounts.get(&address);
        if let Some(value) = account.and_then(|account| account.storage.get(&slot)) {
            return Ok(*value);
        }
        match &self.origin {
            Some(origin) if account.is_none_or(|account| !account.is_whole) => origin.slot(address, slot),
            Some(_) | None => Ok(U256::ZERO),
        }
    }

    fn read_block_hash(&self, number: u64) -> Result<B256, OriginError> {
        match (self.block_hashes.get(&number), &self.origin) {
            (Some(hash), _) => Ok(*hash),
            (None, Some(origin)) if number < origin.origin().number() => origin.block_hash(number),
            (None, _) => Ok(B256::ZERO),
        }
    }
}

impl AccountState {
    /// An account of the origin before its first change.
    fn of_origin(info: AccountInfo) -> Self {
        let AccountInfo { balance, nonce, code_hash, code, .. } = info;
        Self { is_whole: false, balance, nonce, code_hash, code: code.unwrap_or_default(), ..Self::default() }
    }

    /// Returns true if the account is the same as one that never existed.
    fn is_absent(&self) -> bool {
        self.has_no_info() && self.storage.is_empty()
    }

    fn has_no_info(&self) -> bool {
        self.balance.is_zero() && self.nonce == 0 && self.code_hash == KECCAK256_EMPTY
    }

    fn set_slot(&mut self, slot: U256, value: U256) {
        let key = || keccak256(slot.to_be_bytes::<32>());
        if !value.is_zero() {
            if self.storage.insert(slot, value) != Some(value) {
                self.storage_trie.insert(key(), alloy::rlp::encode(value));
            }
        } else if !self.is_whole {
            if self.storage.insert(slot, value).is_some_and(|old| !old.is_zero()) {
                self.storage_trie.remove(key());
            }
        } else if self.storage.remove(&slot).is_some() {
            self.storage_trie.remove(key());
        }
    }

    fn clear_storage(&mut self) {
        self.is_whole = true;
        self.storage = StorageMap::default();
        self.storage_trie = Trie::default();
    }

    /// Value of this account in the state trie.
    fn leaf(&self) -> TrieAccount {
        TrieAccount::new(self.nonce, self.balance, self.storage_trie.root(), self.code_hash)
    }
}

impl Default for AccountState {
    fn default() -> Self {
        Self {
            is_whole: true,
            balance: U256::ZERO,
            nonce: 0,
            code_hash: KECCAK256_EMPTY,
            code: Bytecode::default(),
            storage: StorageMap::default(),
            storage_trie: Trie::default(),
        }
    }
}

impl std::fmt::Debug for WorldState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorldState").field("accounts", &self.accounts.len()).finish_non_exhaustive()
    }
}

/// Two states are equal if all their accounts and slots are equal; block hashes are ignored.
impl PartialEq for WorldState {
    fn eq(&self, other: &Self) -> bool {
        self.clone().root() == other.clone().root()
    }
}

impl DatabaseRef for WorldState {
    type Error = DatabaseError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, Self::Error> {
        let info = |account: &AccountState| {
            AccountInfo::new(account.balance, account.nonce, account.code_hash, account.code.clone())
        };
        match (self.accounts.get(&address), &self.origin) {
            // On a fork, an empty account takes the place of one that no longer exists.
            (Some(account), Some(_)) if account.has_no_info() => Ok(None),
            (Some(account), _) => Ok(Some(info(account))),
            (None, Some(origin)) => Ok(origin.account(address)?),
            (None, None) => Ok(None),
        }
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, Self::Error> {
        Ok(self.codes.get(&code_hash).cloned().unwrap_or_default())
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, Self::Error> {
        Ok(self.read_slot(address, index)?)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, Self::Error> {
        Ok(self.read_block_hash(number)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = Address::repeat_byte(0xaa);
    const B: Address = Address::repeat_byte(0xbb);

    #[test]
    fn a_cloned_state_is_independent() {
        let mut first = WorldState::default();
        first.set_balance(A, U256::from(5));
        first.set_storage_at(A, U256::from(1), U256::from(2));
        let second = first.clone();
        first.set_balance(A, U256::from(6));
        first.set_storage_at(A, U256::from(1), U256::from(3));
        assert_eq!(second.balance(A), U256::from(5));
        assert_eq!(second.storage_at(A, U256::from(1)), U256::from(2));
        assert_eq!(first.balance(A), U256::from(6));
    }

    /// State root computed by alloy's trie builder from all accounts.
    fn expected_root(state: &WorldState) -> B256 {
        alloy_trie::root::state_root_unhashed(state.addresses().map(|address| {
            let slots = state.storage(address).map(|(slot, value)| (B256::from(slot), value));
            let storage_root = alloy_trie::root::storage_root_unhashed(slots);
            let (nonce, balance) = (state.nonce(address), state.balance(address));
            (address, TrieAccount::new(nonce, balance, storage_root, state.code_hash(address)))
        }))
    }

    #[test]
    fn the_state_root_is_independent_of_the_order_of_changes() {
        let mut first = WorldState::default();
        first.set_balance(A, U256::from(5));
        first.set_storage_at(B, U256::from(1), U256::from(2));
        let mut second = WorldState::default();
        second.set_storage_at(B, U256::from(1), U256::from(9));
        second.set_nonce(A, 4);
        second.set_storage_at(B, U256::from(1), U256::from(2));
        second.set_storage_at(B, U256::from(7), U256::from(7));
        assert_eq!(second.root(), expected_root(&second));
        second.set_storage_at(B, U256::from(7), U256::ZERO);
        second.set_balance(A, U256::from(5));
        assert_ne!(first.root(), second.root());
        second.set_nonce(A, 0);
        assert_eq!(first.root(), second.root());
        assert_eq!(first.root(), expected_root(&first));
        assert_eq!(first, second);
        second.replace_storage(B, (0..40).map(|slot| (U256::from(slot), U256::from(slot) << 200)));
        second.set_code(B, Bytes::from_static(&[0x5f])).expect("plain code");
        assert_eq!(second.root(), expected_root(&second));
        second.set_code(B, Bytes::new()).expect("no code");
        second.replace_storage(B, []);
        second.set_balance(A, U256::ZERO);
        assert_eq!(second.root(), alloy_trie::EMPTY_ROOT_HASH);
        assert_eq!(second.addresses().count(), 0);
    }

    proptest::proptest! {
        #[test]
        fn writes_of_an_execution_change_the_state_root(
            writes in proptest::collection::vec((0_u8..6, 0_u8..5, 0_u8..4, proptest::bool::weighted(0.1), proptest::bool::weighted(0.1)), 1..40),
        ) {
            let mut state = WorldState::default();
            for (who, slot, value, destroyed, created) in writes {
                let mut account = TouchedAccount::default();
                account.info = state.basic_ref(Address::repeat_byte(who)).unwrap().unwrap_or_default();
                account.info.balance = U256::from(value);
                account.mark_touch();
                if destroyed {
                    account.mark_selfdestruct();
                }
                if created {
                    account.mark_created();
                }
                let old = state.storage_at(Address::repeat_byte(who), U256::from(slot));
                let written = revm::state::EvmStorageSlot::new_changed(old, U256::from(value), Default::default());
                account.storage.insert(U256::from(slot), written);
                state.apply(std::iter::once((Address::repeat_byte(who), account)).collect());
                proptest::prop_assert_eq!(state.root(), expected_root(&state));
            }
        }
    }

    #[test]
    fn code_is_kept_as_given_and_delegations_are_recognised() {
        let mut state = WorldState::default();
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
        let mut state = WorldState::default();
        for number in 0..=300 {
            state.push_block_hash(number, B256::with_last_byte((number % 250) as u8 + 1));
        }
        assert_eq!(state.block_hash(44), B256::ZERO);
        assert_ne!(state.block_hash(45), B256::ZERO);
        assert_ne!(state.block_hash(300), B256::ZERO);
    }
}
