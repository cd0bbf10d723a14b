//! Storage traces: from a storage slot back to the mapping keys that lead to it.
//!
//! Compilers place `mapping[key]` at the hash of key and base slot, so a recorded hash input reveals the key. Solidity
//! hashes `key ‖ base`, Vyper `base ‖ key`, and hand-written code packs addresses more tightly. The shape of the words
//! therefore decides, not the compiler.

use std::cell::OnceCell;

use alloy::primitives::{Address, B256, U256, map::HashMap};

use super::machine::AccessRecorder;

/// Maximum distance, in slots, of a struct member from the struct's first slot.
const MAX_MEMBERS: U256 = U256::from_limbs([64, 0, 0, 0]);
/// Maximum depth of nested mappings.
const MAX_DEPTH: usize = 8;

/// Index of the hashes recorded during execution.
pub(super) struct StorageTrace<'a> {
    preimages: HashMap<B256, &'a [u8]>,
    sorted: OnceCell<Vec<U256>>,
}

impl<'a> StorageTrace<'a> {
    /// Creates the index of all hashes that `recorder` has.
    pub(super) fn new(recorder: &'a AccessRecorder) -> Self {
        Self { preimages: recorder.preimages().collect(), sorted: OnceCell::new() }
    }

    /// Mapping keys on the path to `slot`, outermost first; empty if no recorded hash leads to it.
    pub(super) fn keys(&self, slot: U256) -> Vec<U256> {
        let mut keys = Vec::new();
        if !self.follow(slot, &mut keys, 0) && address_in(slot).is_some() {
            keys.push(slot);
        }
        keys
    }

    /// Appends the keys of `slot`; false if no recorded hash leads to it.
    fn follow(&self, slot: U256, keys: &mut Vec<U256>, depth: usize) -> bool {
        if depth >= MAX_DEPTH || !is_likely_hash(slot) {
            return false;
        }
        let Some(preimage) = self.preimage(slot) else { return false };
        if preimage.len() == 64 {
            let (first, second) = (word(preimage, 0), word(preimage, 32));
            if self.follow(second, keys, depth + 1) {
                keys.push(first);
            } else if self.preimage(first).is_some_and(|packed| packed.len() < 64) && second.bit_len() <= 64 {
                // A mapping keyed by a hash of packed values, like the positions of pools: the packed value is the key.
                self.follow(first, keys, depth + 1);
            } else if self.follow(first, keys, depth + 1)
                || (address_in(second).is_some() && address_in(first).is_none())
            {
                keys.push(second);
            } else {
                keys.push(first);
            }
        } else if preimage.len() == 32 && !is_likely_hash(word(preimage, 0)) {
            // The data of a dynamic array, at the hash of its slot: known, but without a key.
        } else if preimage.len() == 32 && self.follow(word(preimage, 0), keys, depth + 1) {
            // The data of a dynamic array inside a mapping.
        } else if preimage.len() >= 96 && preimage.len().is_multiple_of(32) {
            keys.extend((0..preimage.len() / 32).map(|index| word(preimage, index * 32)));
        } else {
            // Packed values: an address may be first, another one last.
            keys.extend(packed_address(preimage, 0));
            if preimage.len() >= 40 {
                keys.extend(packed_address(preimage, preimage.len() - 20));
            }
        }
        true
    }

    /// Preimage of `slot`, or of a slot shortly before it (the first of a struct).
    fn preimage(&self, slot: U256) -> Option<&'a [u8]> {
        if let Some(preimage) = self.preimages.get(&B256::from(slot)) {
            return Some(preimage);
        }
        let sorted = self.sorted.get_or_init(|| {
            let mut sorted: Vec<U256> = self.preimages.keys().map(|hash| U256::from_be_bytes(hash.0)).collect();
            sorted.sort_unstable();
            sorted
        });
        let after = sorted.partition_point(|hash| *hash <= slot);
        let nearest = *sorted.get(after.checked_sub(1)?)?;
        if slot - nearest > MAX_MEMBERS {
            return None;
        }
        self.preimages.get(&B256::from(nearest)).copied()
    }
}

/// The address in a word, if it can be one: at most 20 bytes with the upper twelve not all zero, which excludes
/// counters, ticks and token ids.
pub(super) fn address_in(word: U256) -> Option<Address> {
    let bits = word.bit_len();
    (65..=160).contains(&bits).then(|| Address::from_word(B256::from(word)))
}

/// The word that holds an address.
pub(super) fn word_of(address: Address) -> U256 {
    U256::from_be_bytes(address.into_word().0)
}

/// Returns true if a slot number is most likely a hash and not a compiler's numbering.
pub(super) fn is_likely_hash(slot: U256) -> bool {
    slot.bit_len() > 160
}

fn word(bytes: &[u8], offset: usize) -> U256 {
    bytes.get(offset..offset + 32).and_then(U256::try_from_be_slice).unwrap_or_default()
}

fn packed_address(bytes: &[u8], offset: usize) -> Option<U256> {
    let number = U256::try_from_be_slice(bytes.get(offset..offset + 20)?)?;
    address_in(number).map(word_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::{address, keccak256};

    const OWNER: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    const SPENDER: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");

    /// Hashes the concatenated `parts` and records the preimage.
    fn seen(recorder: &mut AccessRecorder, parts: &[&[u8]]) -> U256 {
        let bytes = parts.concat();
        let hash = keccak256(&bytes);
        recorder.remember(hash, &bytes);
        hash.into()
    }

    fn slot(number: u64) -> [u8; 32] {
        U256::from(number).to_be_bytes()
    }

    #[test]
    fn mappings_of_mappings_give_their_keys_outermost_first() {
        let mut recorder = AccessRecorder::default();
        let inner = seen(&mut recorder, &[OWNER.into_word().as_slice(), &slot(1)]);
        let outer = seen(&mut recorder, &[SPENDER.into_word().as_slice(), &inner.to_be_bytes::<32>()]);
        let reversed = seen(&mut recorder, &[&slot(1), OWNER.into_word().as_slice()]);
        let reversed_outer = seen(&mut recorder, &[&reversed.to_be_bytes::<32>(), SPENDER.into_word().as_slice()]);
        let trace = StorageTrace::new(&recorder);
        assert_eq!(trace.keys(inner), [word_of(OWNER)]);
        assert_eq!(trace.keys(outer), [word_of(OWNER), word_of(SPENDER)]);
        assert_eq!(trace.keys(reversed), [word_of(OWNER)]);
        assert_eq!(trace.keys(reversed_outer), [word_of(OWNER), word_of(SPENDER)]);
    }

    #[test]
    fn a_mapping_by_the_hash_of_packed_values_gives_their_address() {
        let mut recorder = AccessRecorder::default();
        // `positions[keccak256(abi.encodePacked(owner, int24(-60), int24(60)))]` at slot 7, as in V3 pools.
        let packed = seen(&mut recorder, &[OWNER.as_slice(), &[0xff, 0xff, 0xc4], &[0, 0, 0x3c]]);
        let position = seen(&mut recorder, &[&packed.to_be_bytes::<32>(), &slot(7)]);
        assert_eq!(StorageTrace::new(&recorder).keys(position), [word_of(OWNER)]);
    }

    #[test]
    fn members_of_a_struct_lead_to_the_same_keys() {
        let mut recorder = AccessRecorder::default();
        let first = seen(&mut recorder, &[&slot(77), &slot(5)]);
        let trace = StorageTrace::new(&recorder);
        assert_eq!(trace.keys(first + U256::from(3)), [U256::from(77)]);
        assert!(trace.keys(first + U256::from(65)).is_empty());
        assert!(trace.keys(first - U256::from(1)).is_empty());
    }

    #[test]
    fn a_slot_that_is_an_address_is_its_own_key() {
        let recorder = AccessRecorder::default();
        let trace = StorageTrace::new(&recorder);
        assert_eq!(trace.keys(word_of(OWNER)), [word_of(OWNER)]);
        assert!(trace.keys(U256::from(3)).is_empty());
        assert!(trace.keys(U256::MAX).is_empty());
    }

    #[test]
    fn arrays_have_no_key() {
        let mut recorder = AccessRecorder::default();
        let data = seen(&mut recorder, &[&slot(9)]);
        assert!(StorageTrace::new(&recorder).keys(data + U256::from(2)).is_empty());
    }
}
