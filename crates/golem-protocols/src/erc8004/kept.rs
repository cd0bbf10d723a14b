//! Blocks of agents' files in IPFS that were read before. An identifier proves its block, so a kept block never becomes
//! wrong, and a directory can be filled from them after every reading of the logs.

use std::collections::{BTreeMap, VecDeque};

use super::location::{Cid, FileStep, IpfsPath, LocationError};

/// Maximum number of blocks that are kept; beyond it, the oldest is dropped.
pub const MAX_KEPT: usize = 1_024;
/// Maximum size of a block that is kept, in bytes. The files of honest agents are much smaller than the largest file that
/// is read.
pub const MAX_KEPT_BYTES: usize = 32 * 1_024;

/// Verified blocks by their identifiers, bounded in number and size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptBlocks {
    blocks: BTreeMap<Cid, Vec<u8>>,
    /// Identifiers in the order in which the blocks were kept.
    order: VecDeque<Cid>,
}

impl KeptBlocks {
    /// Keeps a block. Returns true if it is new; false if it is known, too large, or not the block that `cid` names.
    pub fn keep(&mut self, cid: Cid, bytes: &[u8]) -> bool {
        if bytes.len() > MAX_KEPT_BYTES || self.blocks.contains_key(&cid) || cid.verify(bytes).is_err() {
            return false;
        }
        self.blocks.insert(cid, bytes.to_vec());
        self.order.push_back(cid);
        while self.order.len() > MAX_KEPT {
            if let Some(oldest) = self.order.pop_front() {
                self.blocks.remove(&oldest);
            }
        }
        true
    }

    /// Number of kept blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// True without blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Content of the file at `path`; `None` if a block on the way to it is not kept.
    ///
    /// # Errors
    /// [`LocationError`] if the blocks do not lead to a file of one block.
    pub fn content(&self, path: &IpfsPath) -> Result<Option<Vec<u8>>, LocationError> {
        // The usual case, a file that is not kept, copies nothing.
        if !self.blocks.contains_key(&path.cid) {
            return Ok(None);
        }
        let mut path = path.clone();
        loop {
            let Some(block) = self.blocks.get(&path.cid) else { return Ok(None) };
            // Each step shortens the path, which is bounded.
            match path.step(block)? {
                FileStep::Content(bytes) => return Ok(Some(bytes)),
                FileStep::Below(below) => path = below,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_block_that_an_identifier_names_is_kept() {
        let mut kept = KeptBlocks::default();
        // By `ipfs add --cid-version=1 --only-hash` of "hello world\n".
        let cid = Cid::parse("bafkreifjjcie6lypi6ny7amxnfftagclbuxndqonfipmb64f2km2devei4").unwrap();
        let path = IpfsPath { cid, path: vec![] };
        assert!(!kept.keep(cid, b"hello world!") && kept.is_empty(), "a gateway lies");
        assert_eq!(kept.content(&path), Ok(None));
        assert!(kept.keep(cid, b"hello world\n") && !kept.keep(cid, b"hello world\n"));
        assert_eq!(kept.content(&path), Ok(Some(b"hello world\n".to_vec())));
        let below = IpfsPath { path: vec!["agent.json".to_owned()], ..path };
        assert_eq!(kept.content(&below), Err(LocationError::NotInFolder));
    }

    #[test]
    fn blocks_are_bounded_in_number_and_size() {
        let mut kept = KeptBlocks::default();
        let large = vec![b'x'; MAX_KEPT_BYTES + 1];
        assert!(!kept.keep(Cid::of_raw(&large), &large));
        let block = |number: usize| number.to_le_bytes();
        for number in 0..=MAX_KEPT {
            assert!(kept.keep(Cid::of_raw(&block(number)), &block(number)));
        }
        assert_eq!(kept.len(), MAX_KEPT);
        let content = |number: usize| kept.content(&IpfsPath { cid: Cid::of_raw(&block(number)), path: vec![] });
        assert_eq!(content(0), Ok(None), "the oldest is dropped");
        assert_eq!(content(MAX_KEPT), Ok(Some(block(MAX_KEPT).to_vec())));
    }
}
