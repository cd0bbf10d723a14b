//! Storage of a chain on disk: a checkpoint, and a log of the blocks since.
//!
//! ```text
//! NAME.chain    checkpoint: magic, digest, compressed image; replaced as a whole
//! NAME.blocks   log: magic, digest of the checkpoint, then a record per block; append-only
//! ```
//!
//! A block is in the log before it is published (`DevnetThread::keep`), so everything a client has seen survives `kill
//! -9`. A record contains the inputs of a block. When the log is read, the block is executed again and must get the
//! same hash.
//!
//! Changes outside of blocks (a balance that was set, a rollback, a loaded dump) go into the next checkpoint. It is
//! written with the next block and at the end. If the process ends while a record is written, that record is incomplete
//! and is dropped; its block was not published.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy::primitives::{B256, Bytes, keccak256};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::block::Block;
use super::bytes::{ByteReader, ByteWriter, BytesError};
use super::chain::Chain;
use super::image::{ImageError, read_transaction, write_transaction};
use super::produce;
use super::time::Timekeeper;
use crate::evm::BlockContext;
use crate::fork::origin::Origin;
use bardo_base::{private, regular_file};

/// First bytes of a checkpoint, including the format version.
const CHECKPOINT_MAGIC: &[u8] = b"bardo devnet chain 1\n";
/// First bytes of a log, including the format version.
const LOG_MAGIC: &[u8] = b"bardo devnet blocks 1\n";
/// Maximum number of blocks in a log, which limits the blocks to execute again.
const MAX_LOGGED: usize = 512;
/// Maximum size of a checkpoint or log, in bytes, compressed or not.
const MAX_FILE: u64 = 1 << 30;

/// Error for a chain that cannot be stored or resumed.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The operating system reported an error.
    #[error("cannot use {}: {reason}; check that the folder is writable and the disk has free space", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// A file has been damaged.
    #[error("{} is damaged or of another version: {reason}; restore a snapshot of the devnet, or delete it", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Description of the damage.
        reason: String,
    },
    /// Execution gave another block than the recorded one.
    #[error(
        "re-executing block {number} in {} gives a different result: another version of Bardo wrote it; end the devnet \
         with that version, restore a snapshot, or delete the devnet",
        path.display()
    )]
    Diverged {
        /// Path of the log.
        path: PathBuf,
        /// Number of the block.
        number: u64,
    },
}

/// The files that store a running chain.
#[derive(Debug)]
pub struct KeptChain {
    checkpoint: PathBuf,
    log_path: PathBuf,
    log: File,
    /// Number and hash of the newest stored block.
    newest: (u64, B256),
    /// The chain's number of edits at the checkpoint.
    edits: u64,
    logged: usize,
    /// Lock on the folder, released after the last write.
    _lock: Arc<File>,
}

impl KeptChain {
    /// Starts to store a chain as `name` in a folder, replacing files of that name. The folder's `lock` is held as long
    /// as this value exists.
    ///
    /// # Errors
    /// [`KeepError::File`] if a file cannot be written.
    pub fn begin(folder: &Path, name: &str, chain: &Chain, lock: Arc<File>) -> Result<Self, KeepError> {
        let checkpoint = folder.join(name).with_extension("chain");
        let log_path = checkpoint.with_extension("blocks");
        let log = write_both(&checkpoint, &log_path, chain)?;
        let newest = (chain.number(), chain.head().hash);
        Ok(Self { checkpoint, log_path, log, newest, edits: chain.edits, logged: 0, _lock: lock })
    }

    /// Restores the stored chain, and continues its files.
    ///
    /// # Errors
    /// [`KeepError`] if a file cannot be used, is damaged, or a block executes differently. Nothing has been written
    /// then, unless writing the new checkpoint failed.
    pub fn resume(folder: &Path, name: &str, lock: Arc<File>) -> Result<(Self, Chain), KeepError> {
        Self::resume_on(folder, name, lock, None)
    }

    /// Like [`resume`](Self::resume), for a fork of the block of `origin`.
    ///
    /// # Errors
    /// As [`resume`](Self::resume); also if the fork is of another block.
    pub fn resume_on(
        folder: &Path,
        name: &str,
        lock: Arc<File>,
        origin: Option<&Arc<Origin>>,
    ) -> Result<(Self, Chain), KeepError> {
        let checkpoint = folder.join(name).with_extension("chain");
        let (digest, mut chain) = read_checkpoint(&checkpoint, origin)?;
        let log_path = checkpoint.with_extension("blocks");
        for record in read_log(&log_path, digest)? {
            let damaged = |error: BytesError| KeepError::Damaged { path: log_path.clone(), reason: error.to_string() };
            let record = BlockRecord::read(&record).map_err(damaged)?;
            let number = record.context.number;
            if !record.replay(&mut chain) {
                return Err(KeepError::Diverged { path: log_path, number });
            }
        }
        Ok((Self::begin(folder, name, &chain, lock)?, chain))
    }

    /// Stores the new blocks. Returns once they are on disk.
    ///
    /// # Errors
    /// [`KeepError::File`] if writing fails. The chain must stop then, since it would publish blocks that are not
    /// stored.
    pub fn keep(&mut self, chain: &Chain) -> Result<(), KeepError> {
        if chain.head().hash == self.newest.1 {
            return Ok(());
        }
        let blocks: Vec<&Arc<Block>> = chain.blocks(self.newest.0.saturating_add(1), chain.number()).collect();
        let follows = blocks.first().is_some_and(|block| block.header.parent_hash == self.newest.1);
        if !follows || chain.edits != self.edits || self.logged.saturating_add(blocks.len()) > MAX_LOGGED {
            return self.write_checkpoint(chain);
        }
        let mut records = Vec::new();
        for block in &blocks {
            let payload = BlockRecord::of(block, chain).write();
            records.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
            records.extend_from_slice(keccak256(&payload).as_slice());
            records.extend_from_slice(&payload);
        }
        let written = self.log.write_all(&records).and_then(|()| self.log.sync_data());
        written.map_err(failed(&self.log_path))?;
        self.logged = self.logged.saturating_add(blocks.len());
        self.newest = (chain.number(), chain.head().hash);
        Ok(())
    }

    /// Stores the complete chain, including pending transactions, direct state changes and travelled time.
    ///
    /// # Errors
    /// [`KeepError::File`] if a file cannot be written.
    pub fn write_checkpoint(&mut self, chain: &Chain) -> Result<(), KeepError> {
        self.log = write_both(&self.checkpoint, &self.log_path, chain)?;
        (self.newest, self.edits, self.logged) = ((chain.number(), chain.head().hash), chain.edits, 0);
        Ok(())
    }
}

/// Writes a checkpoint, then an empty log. Between the two writes, the old log does not match the checkpoint, which
/// already contains all its blocks.
fn write_both(checkpoint: &Path, log_path: &Path, chain: &Chain) -> Result<File, KeepError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder.write_all(&chain.to_image()).and_then(|()| encoder.finish()).map_err(failed(checkpoint))?;
    let digest = keccak256(&packed);
    private::replace(checkpoint, &[CHECKPOINT_MAGIC, digest.as_slice(), &packed].concat())
        .map_err(failed(checkpoint))?;
    private::replace(log_path, &[LOG_MAGIC, digest.as_slice()].concat()).map_err(failed(log_path))?;
    regular_file::open_with(private::file().append(true), log_path).map_err(failed(log_path))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> KeepError + use<> {
    let path = path.to_owned();
    |reason| KeepError::File { path, reason }
}

/// Reads a checkpoint; returns its digest and chain.
fn read_checkpoint(path: &Path, origin: Option<&Arc<Origin>>) -> Result<(B256, Chain), KeepError> {
    let damaged = |reason: &str| KeepError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
    let bytes = regular_file::read(path, MAX_FILE).map_err(failed(path))?;
    let (digest, packed) = headed(&bytes, CHECKPOINT_MAGIC).ok_or_else(|| damaged("its header is wrong"))?;
    if keccak256(packed) != digest {
        return Err(damaged("its digest is wrong"));
    }
    let mut image = Vec::new();
    GzDecoder::new(packed).take(MAX_FILE).read_to_end(&mut image).map_err(|error| damaged(&error.to_string()))?;
    let chain = Chain::from_image_on(&image, origin).map_err(|error: ImageError| damaged(&error.to_string()))?;
    Ok((digest, chain))
}

/// Splits a file's content into the digest after its magic, and the rest.
fn headed<'a>(bytes: &'a [u8], magic: &[u8]) -> Option<(B256, &'a [u8])> {
    let (digest, rest) = bytes.strip_prefix(magic)?.split_first_chunk::<32>()?;
    Some((B256::new(*digest), rest))
}

/// Reads the records of a log for the checkpoint with this digest; none if it belongs to another checkpoint.
fn read_log(path: &Path, checkpoint: B256) -> Result<Vec<Vec<u8>>, KeepError> {
    let bytes = match regular_file::read(path, MAX_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(failed(path))?,
    };
    let damaged = |reason: &str| KeepError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
    let (follows, mut rest) = headed(&bytes, LOG_MAGIC).ok_or_else(|| damaged("its header is wrong"))?;
    let mut records = Vec::new();
    if follows != checkpoint {
        return Ok(records);
    }
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((digest, after)) = after.split_first_chunk::<32>() else { break };
        let Some((payload, after)) = after.split_at_checked(length) else { break };
        if keccak256(payload).as_slice() != digest {
            // The last record may be incomplete. Every earlier one was on disk before its successor.
            if after.is_empty() {
                break;
            }
            return Err(damaged("the digest of a block is wrong"));
        }
        records.push(payload.to_vec());
        rest = after;
    }
    Ok(records)
}

/// Inputs of a block, and the chain's base fee and time after it.
struct BlockRecord {
    context: BlockContext,
    extra_data: Bytes,
    transactions: Vec<Arc<super::block::ChainTransaction>>,
    hash: B256,
    next_base_fee: u64,
    time: Timekeeper,
}

impl BlockRecord {
    fn of(block: &Block, chain: &Chain) -> Self {
        Self {
            context: block.context(),
            extra_data: block.header.extra_data.clone(),
            transactions: block.transactions.clone(),
            hash: block.hash,
            next_base_fee: chain.next_base_fee,
            time: chain.time,
        }
    }

    fn write(&self) -> Vec<u8> {
        let mut writer = ByteWriter::default();
        let context = &self.context;
        writer.number(context.number);
        writer.number(context.timestamp);
        writer.number(context.base_fee);
        writer.number(context.gas_limit);
        writer.address(context.coinbase);
        writer.hash(context.prevrandao);
        writer.number(context.excess_blob_gas);
        writer.bytes(&self.extra_data);
        writer.length(self.transactions.len());
        for transaction in &self.transactions {
            write_transaction(&mut writer, transaction);
        }
        writer.hash(self.hash);
        writer.number(self.next_base_fee);
        self.time.write(&mut writer);
        writer.into_bytes()
    }

    fn read(bytes: &[u8]) -> Result<Self, BytesError> {
        let mut reader = ByteReader::new(bytes);
        let context = BlockContext {
            number: reader.number()?,
            timestamp: reader.number()?,
            base_fee: reader.number()?,
            gas_limit: reader.number()?,
            coinbase: reader.address()?,
            prevrandao: reader.hash()?,
            excess_blob_gas: reader.number()?,
        };
        let extra_data = Bytes::copy_from_slice(reader.bytes()?);
        let mut transactions = Vec::new();
        for _ in 0..reader.length()? {
            transactions.push(Arc::new(read_transaction(&mut reader)?));
        }
        let (hash, next_base_fee) = (reader.hash()?, reader.number()?);
        let time = Timekeeper::read(&mut reader)?;
        reader.finish()?;
        Ok(Self { context, extra_data, transactions, hash, next_base_fee, time })
    }

    /// Executes the block again; false if the result differs.
    fn replay(self, chain: &mut Chain) -> bool {
        if self.context.number.checked_sub(1) != Some(chain.number()) {
            return false;
        }
        let (parent, state) = (chain.head().hash, chain.state.clone());
        let production = produce::replay(chain.rules(), &self.context, parent, state, &self.transactions);
        let block = chain.append(&self.context, self.extra_data, production);
        (chain.next_base_fee, chain.time) = (self.next_base_fee, self.time);
        chain.config.coinbase = self.context.coinbase;
        block.hash == self.hash
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use alloy::eips::BlockId;
    use alloy::primitives::{Address, TxKind, U256};

    use super::super::handle::{Devnet, MiningMode, RunningConfig};
    use super::super::image::tests::{call, eventful};
    use super::*;

    const ALICE: Address = Address::repeat_byte(0xa1);
    const COUNTER: Address = Address::repeat_byte(0x13);

    fn lock(folder: &Path) -> Arc<File> {
        Arc::new(File::create(folder.join("lock")).unwrap())
    }

    /// A stored chain with `blocks` blocks in its log, each with a transaction.
    fn kept(folder: &Path, blocks: u64) -> (KeptChain, Chain) {
        let mut chain = eventful();
        let mut kept = KeptChain::begin(folder, "one", &chain, lock(folder)).unwrap();
        for block in 0..blocks {
            chain.submit_as(ALICE, call(7 + block, TxKind::Call(COUNTER), Bytes::new())).unwrap();
            chain.increase_time(10);
            chain.mine();
            kept.keep(&chain).unwrap();
        }
        (kept, chain)
    }

    #[test]
    fn a_chain_that_was_killed_resumes_with_every_kept_block() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, mut chain) = kept(folder.path(), 5);
        let log = fs::metadata(&kept.log_path).unwrap().len();
        assert!(log > 500 && kept.logged == 5);
        // As after `kill -9`: nothing is written at the end.
        std::mem::forget(kept);
        let (_, mut again) = KeptChain::resume(folder.path(), "one", lock(folder.path())).unwrap();
        assert_eq!(again.head().hash, chain.head().hash);
        assert_eq!(again.to_image(), chain.to_image());
        assert_eq!(again.mine().hash, chain.mine().hash);
    }

    #[test]
    fn a_log_truncated_anywhere_gives_an_older_consistent_chain() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, chain) = kept(folder.path(), 2);
        let path = kept.log_path.clone();
        let whole = fs::read(&path).unwrap();
        let checkpoint = fs::read(&kept.checkpoint).unwrap();
        drop(kept);
        let hashes: Vec<B256> = chain.blocks(2, 4).map(|block| block.hash).collect();
        let begins = LOG_MAGIC.len() + 32;
        let mut seen = Vec::new();
        for end in begins..=whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            fs::write(path.with_extension("chain"), &checkpoint).unwrap();
            let (_, resumed) = KeptChain::resume(folder.path(), "one", lock(folder.path())).unwrap();
            let number = usize::try_from(resumed.number()).unwrap();
            assert_eq!(resumed.head().hash, hashes[number - 2], "{end}");
            seen.push(number);
        }
        assert!(seen.is_sorted() && seen.first() == Some(&2) && seen.last() == Some(&4));
        assert_eq!(seen.iter().filter(|number| **number == 4).count(), 1);
    }

    #[test]
    fn damage_is_reported_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, _) = kept(folder.path(), 2);
        let (log, checkpoint) = (kept.log_path.clone(), kept.checkpoint.clone());
        drop(kept);
        let whole = fs::read(&log).unwrap();
        let resumed = || KeptChain::resume(folder.path(), "one", lock(folder.path())).map(|(_, chain)| chain.number());
        let mut damaged = whole.clone();
        damaged[LOG_MAGIC.len() + 32 + 60] ^= 1;
        fs::write(&log, &damaged).unwrap();
        let error = resumed().unwrap_err().to_string();
        assert!(error.contains("digest of a block is wrong") && error.contains("restore a snapshot"), "{error}");
        assert_eq!(fs::read(&log).unwrap(), damaged);
        // A complete record with a correct digest, of a block that does not follow.
        let mut diverged = whole.clone();
        let at = LOG_MAGIC.len() + 32;
        let length = usize::try_from(u32::from_le_bytes(whole[at..at + 4].try_into().unwrap())).unwrap();
        // The timestamp starts at the second byte.
        diverged[at + 36 + 1] ^= 1;
        let digest = keccak256(&diverged[at + 36..at + 36 + length]);
        diverged[at + 4..at + 36].copy_from_slice(digest.as_slice());
        fs::write(&log, &diverged).unwrap();
        assert!(matches!(resumed().unwrap_err(), KeepError::Diverged { number: 3, .. }));
        fs::write(&log, &whole).unwrap();
        let good = fs::read(&checkpoint).unwrap();
        let mut damaged = good.clone();
        damaged[100] ^= 1;
        fs::write(&checkpoint, &damaged).unwrap();
        assert!(resumed().unwrap_err().to_string().contains("digest is wrong"));
        fs::write(&checkpoint, &good[..20]).unwrap();
        assert!(resumed().unwrap_err().to_string().contains("header is wrong"));
        fs::write(&checkpoint, &good).unwrap();
        assert_eq!(resumed().unwrap(), 4);
    }

    #[test]
    fn an_interrupted_checkpoint_leaves_the_older_one_or_the_newer_one() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, mut chain) = kept(folder.path(), 3);
        let (log, checkpoint) = (kept.log_path.clone(), kept.checkpoint.clone());
        let old_log = fs::read(&log).unwrap();
        // A partial new file beside the old one.
        fs::write(checkpoint.with_extension("new"), b"bardo devnet").unwrap();
        let (_, resumed) = KeptChain::resume(folder.path(), "one", lock(folder.path())).unwrap();
        assert_eq!(resumed.head().hash, chain.head().hash);
        // The new checkpoint beside the log of the old one: its blocks are not executed again.
        chain.set_balance(ALICE, U256::from(1));
        kept.write_checkpoint(&chain).unwrap();
        fs::write(&log, &old_log).unwrap();
        let (_, resumed) = KeptChain::resume(folder.path(), "one", lock(folder.path())).unwrap();
        assert_eq!(resumed.to_image(), chain.to_image());
    }

    #[test]
    fn changes_outside_blocks_are_stored_with_the_next_block() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, mut chain) = kept(folder.path(), 2);
        let snapshot = chain.save();
        chain.mine();
        kept.keep(&chain).unwrap();
        for change in [
            |chain: &mut Chain| chain.set_balance(ALICE, U256::MAX >> 1),
            |chain: &mut Chain| drop(chain.reorg(1, Vec::new()).unwrap()),
            |chain: &mut Chain| chain.set_impersonated(ALICE, true),
            |chain: &mut Chain| chain.set_coinbase(COUNTER),
            |chain: &mut Chain| chain.set_next_base_fee(3_000_000_000),
            |chain: &mut Chain| chain.set_timestamp_interval(Some(3)),
        ] {
            change(&mut chain);
            chain.mine();
            kept.keep(&chain).unwrap();
            let resumed = read_back(folder.path());
            assert_eq!(resumed.to_image(), chain.to_image());
        }
        assert!(chain.revert(snapshot));
        kept.keep(&chain).unwrap();
        assert_eq!(read_back(folder.path()).head().hash, chain.head().hash);
    }

    /// Reads the stored chain from a copy, since resuming writes.
    fn read_back(folder: &Path) -> Chain {
        let copy = tempfile::tempdir().unwrap();
        for name in ["one.chain", "one.blocks"] {
            fs::copy(folder.join(name), copy.path().join(name)).unwrap();
        }
        KeptChain::resume(copy.path(), "one", lock(copy.path())).unwrap().1
    }

    #[tokio::test]
    async fn a_block_is_on_disk_before_its_request_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, chain) = kept(folder.path(), 0);
        let running = || RunningConfig { mining: MiningMode::OnTransaction, clock: None, hook: None };
        let devnet = Devnet::adopt_kept(chain, running(), kept).unwrap();
        for nonce in 7..20 {
            let sent =
                devnet.run(move |chain| chain.submit_as(ALICE, call(nonce, TxKind::Call(COUNTER), Bytes::new())));
            let hash = sent.await.unwrap().unwrap();
            let there = devnet.run(move |chain| chain.transaction(hash).map(|it| it.block.hash)).await.unwrap();
            let resumed = read_back(folder.path());
            assert_eq!(resumed.transaction(hash).map(|it| it.block.hash), there);
            assert!(there.is_some());
        }
        let mined = devnet.mine().await.unwrap();
        assert_eq!(read_back(folder.path()).head().hash, mined.hash);
        // At the end, the checkpoint contains everything, including a pending transaction.
        devnet.set_mining(MiningMode::Manual).await.unwrap();
        let waiting = call(20, TxKind::Call(COUNTER), Bytes::new());
        let hash = devnet.run(move |chain| chain.submit_as(ALICE, waiting)).await.unwrap().unwrap();
        drop(devnet);
        assert!(read_back(folder.path()).pool().get(hash).is_some());
    }

    #[tokio::test]
    async fn a_chain_that_cannot_be_stored_stops() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, chain) = kept(folder.path(), 0);
        let before = chain.head().hash;
        let running = RunningConfig { mining: MiningMode::Manual, clock: None, hook: None };
        let devnet = Devnet::adopt_kept(chain, running, kept).unwrap();
        let head = devnet.head();
        // The next block needs a checkpoint, but the folder is gone.
        devnet.run(|chain| chain.set_balance(ALICE, U256::from(1))).await.unwrap();
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(devnet.mine().await.is_err());
        assert_eq!(head.borrow().hash, before);
        assert!(devnet.run(|chain| chain.view(BlockId::latest()).is_ok()).await.is_err());
    }
}
