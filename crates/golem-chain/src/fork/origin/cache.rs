//! Cache file of one block: its header, and every value that was read and confirmed. Append-only.
//!
//! ```text
//! CHAIN_ID-HASH.state   magic, then records: length, Keccak digest, payload; the first contains the header
//! ```
//!
//! The file is created as a whole, and a record counts only if its digest is right, so an interrupted write loses at
//! most the last values, which are read again. The header's hash is checked against the file's name. A damaged record
//! ends the readable part: the file is shortened to it, and the missing values are read from the network again.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use alloy::{
    primitives::{Address, B256, Bytes, KECCAK256_EMPTY, keccak256},
    rpc::types::Header,
};
use revm::state::{AccountInfo, Bytecode};

use super::super::pinned::PinnedData;
use crate::devnet::bytes::{ByteReader, ByteWriter, BytesError};
use bardo_base::{private, regular_file};

/// First bytes of a cache file, including the format version.
const MAGIC: &[u8] = b"bardo fork cache 1\n";
/// Maximum size of a file, in bytes; later values are not stored.
const MAX_FILE: u64 = 256 << 20;
/// Maximum length of a file up to the end of its header, in bytes.
const MAX_BEGIN: u64 = 64 << 10;
/// Maximum number of cache files in a folder; the oldest unused ones are removed.
const MAX_FILES: usize = 24;
/// Extension of a cache file.
const EXTENSION: &str = "state";

/// Error for a cache file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The operating system reported an error.
    #[error("cannot use {}: {reason}; check that the folder is writable and the disk has free space", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// The header of the file is damaged.
    #[error("{} is damaged: {reason}; delete it, and connect to the network once to read it again", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Description of the damage.
        reason: &'static str,
    },
    /// The file has reached its maximum size.
    #[error("{} has reached {} MiB", .0.display(), MAX_FILE >> 20)]
    Full(PathBuf),
}

/// A cached block, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedBlock {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// Timestamp of the block, in seconds since the Unix epoch.
    pub timestamp: u64,
    /// Path of the file.
    pub path: PathBuf,
}

/// A cache file that this process writes.
#[derive(Debug)]
pub(super) struct CacheFile {
    path: PathBuf,
    file: File,
    size: u64,
}

/// Content of a cache file.
pub(super) struct Loaded {
    pub(super) header: Header,
    pub(super) data: PinnedData,
    /// `None` if another process writes the file.
    pub(super) file: Option<CacheFile>,
}

/// Path of the cache file of a block.
pub(super) fn path_of(folder: &Path, chain_id: u64, hash: B256) -> PathBuf {
    folder.join(format!("{chain_id}-{hash:x}")).with_extension(EXTENSION)
}

/// Lists the cached blocks in a folder, the most recently used first. Files that are not readable caches are skipped.
///
/// # Errors
/// [`CacheError::File`] if the folder cannot be read.
pub fn cached_blocks(folder: &Path) -> Result<Vec<CachedBlock>, CacheError> {
    let mut found = Vec::new();
    for path in files(folder)? {
        let named = path.file_stem().and_then(|name| name.to_str()).and_then(|name| name.split_once('-'));
        let Some((chain_id, hash)) = named else { continue };
        let (Ok(chain_id), Ok(hash)) = (chain_id.parse(), hash.parse::<B256>()) else { continue };
        let Ok(begin) = read_begin(&path) else { continue };
        let Ok((header, _)) = read_header(&path, hash, &begin) else { continue };
        found.push(CachedBlock { chain_id, number: header.number, hash, timestamp: header.timestamp, path });
    }
    Ok(found)
}

/// Reads the part of a cache file that contains the header.
fn read_begin(path: &Path) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    regular_file::open(path)?.take(MAX_BEGIN).read_to_end(&mut begin)?;
    Ok(begin)
}

/// Reads the cache file of a block; `None` if there is none.
///
/// # Errors
/// [`CacheError`] if the file or its header cannot be used.
pub(super) fn load(path: &Path, hash: B256) -> Result<Option<Loaded>, CacheError> {
    let bytes = match regular_file::read(path, MAX_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(failed(path))?,
    };
    let (header, mut rest) = read_header(path, hash, &bytes)?;
    let mut data = PinnedData::default();
    while let Some((payload, after)) = record(rest) {
        let Ok(values) = read_values(payload) else { break };
        data.extend(values);
        rest = after;
    }
    let file = regular_file::open_with(private::file().read(true).append(true), path).map_err(failed(path))?;
    let file = match file.try_lock() {
        Ok(()) => {
            let size = u64::try_from(bytes.len().saturating_sub(rest.len())).unwrap_or(u64::MAX);
            if !rest.is_empty() {
                tracing::warn!(path = %path.display(), "the end of the fork's cache is damaged and is read again");
                file.set_len(size).map_err(failed(path))?;
            }
            // The time of the last use decides which file is removed first.
            file.set_modified(std::time::SystemTime::now()).map_err(failed(path))?;
            Some(CacheFile { path: path.to_owned(), file, size })
        }
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(reason)) => return Err(failed(path)(reason)),
    };
    Ok(Some(Loaded { header, data, file }))
}

/// Creates the cache file of a block, and removes the oldest ones of the folder.
///
/// # Errors
/// [`CacheError::File`] if it cannot be written.
pub(super) fn create(path: &Path, header: &Header) -> Result<CacheFile, CacheError> {
    if let Some(folder) = path.parent() {
        private::folder(folder).map_err(failed(folder))?;
        remove_oldest(folder);
    }
    // A header always serialises to JSON.
    let payload = serde_json::to_vec(header).map_err(|error| failed(path)(error.into()))?;
    private::replace(path, &[MAGIC, &framed(&payload)].concat()).map_err(failed(path))?;
    let file = regular_file::open_with(private::file().read(true).append(true), path).map_err(failed(path))?;
    file.try_lock().map_err(|error| failed(path)(io::Error::other(error.to_string())))?;
    let size = file.metadata().map_err(failed(path))?.len();
    Ok(CacheFile { path: path.to_owned(), file, size })
}

impl CacheFile {
    /// Appends confirmed values.
    pub(super) fn append(&mut self, data: &PinnedData) -> Result<(), CacheError> {
        let record = framed(&write_values(data));
        let size = self.size.saturating_add(u64::try_from(record.len()).unwrap_or(u64::MAX));
        if size > MAX_FILE {
            return Err(CacheError::Full(self.path.clone()));
        }
        self.file.write_all(&record).map_err(failed(&self.path))?;
        self.size = size;
        Ok(())
    }
}

fn read_header<'a>(path: &Path, hash: B256, bytes: &'a [u8]) -> Result<(Header, &'a [u8]), CacheError> {
    let damaged = |reason| CacheError::Damaged { path: path.to_owned(), reason };
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("it is not a cache of this version"))?;
    let (payload, rest) = record(rest).ok_or_else(|| damaged("the digest of its header is wrong"))?;
    let header: Header = serde_json::from_slice(payload).map_err(|_| damaged("its header is not readable"))?;
    if header.hash != hash || header.inner.hash_slow() != hash {
        return Err(damaged("its header belongs to another block"));
    }
    Ok((header, rest))
}

/// A payload with its length and digest.
fn framed(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes();
    [length.as_slice(), keccak256(payload).as_slice(), payload].concat()
}

/// Splits the first record off; `None` if it is incomplete or damaged.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (digest, rest) = rest.split_first_chunk::<32>()?;
    let (payload, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    (keccak256(payload).as_slice() == digest).then_some((payload, rest))
}

fn write_values(data: &PinnedData) -> Vec<u8> {
    let mut writer = ByteWriter::default();
    writer.length(data.accounts.len());
    for (address, info) in &data.accounts {
        writer.address(*address);
        writer.word(info.balance);
        writer.number(info.nonce);
        let code = info.code.as_ref().map(Bytecode::original_bytes).unwrap_or_default();
        writer.bytes(&code);
    }
    writer.length(data.slots.len());
    for ((address, slot), value) in &data.slots {
        writer.address(*address);
        writer.word(*slot);
        writer.word(*value);
    }
    writer.length(data.hashes.len());
    for (number, hash) in &data.hashes {
        writer.number(*number);
        writer.hash(*hash);
    }
    writer.into_bytes()
}

fn read_values(bytes: &[u8]) -> Result<PinnedData, BytesError> {
    let mut reader = ByteReader::new(bytes);
    let mut data = PinnedData::default();
    for _ in 0..reader.length()? {
        let (address, balance, nonce): (Address, _, _) = (reader.address()?, reader.word()?, reader.number()?);
        let code = Bytes::copy_from_slice(reader.bytes()?);
        let code = Bytecode::new_raw_checked(code).map_err(|_| BytesError::Invalid("code"))?;
        let hash = if code.is_empty() { KECCAK256_EMPTY } else { code.hash_slow() };
        data.accounts.insert(address, AccountInfo::new(balance, nonce, hash, code));
    }
    for _ in 0..reader.length()? {
        let key = (reader.address()?, reader.word()?);
        data.slots.insert(key, reader.word()?);
    }
    for _ in 0..reader.length()? {
        let number = reader.number()?;
        data.hashes.insert(number, reader.hash()?);
    }
    reader.finish()?;
    Ok(data)
}

/// Cache files of a folder, the most recently used first.
fn files(folder: &Path) -> Result<Vec<PathBuf>, CacheError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(failed(folder))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed(folder))?;
        let is_file = entry.file_type().map_err(failed(folder))?.is_file();
        if is_file && entry.path().extension().is_some_and(|extension| extension == EXTENSION) {
            let used = entry.metadata().and_then(|data| data.modified()).map_err(failed(folder))?;
            found.push((used, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().rev().map(|(_, path)| path).collect())
}

/// Removes the least recently used files, so that a new one keeps the folder within its limit. Files in use stay.
fn remove_oldest(folder: &Path) {
    let Ok(found) = files(folder) else { return };
    for path in found.iter().skip(MAX_FILES.saturating_sub(1)) {
        let Ok(file) = regular_file::open(path) else { continue };
        if file.try_lock().is_ok()
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!(path = %path.display(), %error, "an old cache of a fork was not removed");
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CacheError + use<> {
    let path = path.to_owned();
    |reason| CacheError::File { path, reason }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::U256;

    use super::*;

    fn header(number: u64) -> Header {
        Header::new(alloy::consensus::Header { number, timestamp: 1_700_000_000 + number, ..Default::default() })
    }

    fn values(seed: u8) -> PinnedData {
        let mut data = PinnedData::default();
        let code = Bytecode::new_raw(Bytes::from(vec![0x5f, seed, 0x00]));
        let info = AccountInfo::new(U256::from(seed), 7, code.hash_slow(), code);
        data.accounts.insert(Address::repeat_byte(seed), info);
        data.accounts.insert(Address::ZERO, AccountInfo::default());
        data.slots.insert((Address::repeat_byte(seed), U256::from(3)), U256::MAX - U256::from(seed));
        data.slots.insert((Address::repeat_byte(seed), U256::MAX), U256::ZERO);
        data.hashes.insert(u64::from(seed), B256::repeat_byte(seed));
        data
    }

    fn same(one: &PinnedData, other: &PinnedData) -> bool {
        one.accounts == other.accounts && one.slots == other.slots && one.hashes == other.hashes
    }

    #[test]
    fn what_was_appended_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let header = header(9);
        let path = path_of(folder.path(), 1, header.hash);
        assert!(load(&path, header.hash).unwrap().is_none());
        let mut file = create(&path, &header).unwrap();
        file.append(&values(1)).unwrap();
        file.append(&values(2)).unwrap();
        // A second process reads the file and writes nothing.
        assert!(load(&path, header.hash).unwrap().unwrap().file.is_none());
        drop(file);
        let loaded = load(&path, header.hash).unwrap().unwrap();
        let mut expected = values(1);
        expected.extend(values(2));
        assert!(same(&loaded.data, &expected) && loaded.header == header && loaded.file.is_some());
        let listed = cached_blocks(folder.path()).unwrap();
        assert_eq!(
            listed,
            [CachedBlock { chain_id: 1, number: 9, hash: header.hash, timestamp: 1_700_000_009, path: path.clone() }]
        );
    }

    #[test]
    fn no_damage_anywhere_gives_a_wrong_value() {
        let folder = tempfile::tempdir().unwrap();
        let header = header(9);
        let path = path_of(folder.path(), 1, header.hash);
        let mut file = create(&path, &header).unwrap();
        let begins = usize::try_from(file.size).unwrap();
        file.append(&values(1)).unwrap();
        let second = usize::try_from(file.size).unwrap();
        file.append(&values(2)).unwrap();
        drop(file);
        let whole = fs::read(&path).unwrap();
        let mut both = values(1);
        both.extend(values(2));
        let known = [PinnedData::default(), values(1), both];
        let check = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            match load(&path, header.hash) {
                Ok(Some(loaded)) => {
                    assert!(known.iter().any(|one| same(one, &loaded.data)));
                    // The damaged end is gone, so that what follows is readable.
                    let mut file = loaded.file.unwrap();
                    file.append(&values(3)).unwrap();
                    drop(file);
                    let again = load(&path, header.hash).unwrap().unwrap().data;
                    assert!(again.accounts.contains_key(&Address::repeat_byte(3)));
                    true
                }
                Ok(None) => panic!("the file is there"),
                Err(error) => {
                    assert!(matches!(error, CacheError::Damaged { .. }), "{error}");
                    false
                }
            }
        };
        for end in 0..whole.len() {
            assert_eq!(check(&whole[..end]), end >= begins, "{end}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert_eq!(check(&damaged), at >= begins, "{at}");
        }
        assert!(begins < second);
        fs::write(&path, &whole).unwrap();
        assert!(matches!(load(&path, B256::repeat_byte(1)), Err(CacheError::Damaged { .. })));
    }

    #[test]
    fn a_folder_keeps_a_limited_number_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let used = create(&path_of(folder.path(), 1, header(0).hash), &header(0)).unwrap();
        for number in 1..40 {
            create(&path_of(folder.path(), 1, header(number).hash), &header(number)).unwrap();
        }
        let left = cached_blocks(folder.path()).unwrap();
        // The file that is in use is older than all, and stays beside as many as the folder may have.
        assert_eq!(left.len(), 24 + 1);
        assert!(left.iter().any(|block| block.path == used.path));
        assert!(left.iter().any(|block| block.number == 39) && !left.iter().any(|block| block.number == 1));
    }
}
