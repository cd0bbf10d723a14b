//! State dumps in anvil's format: gzip-compressed JSON of accounts, blocks, transactions and optionally the states of
//! earlier blocks. Reading and writing are compatible with anvil (`SerializableState` in its `eth::backend::db`).
//!
//! Not here: the RPC methods (see `rpc::dump`), and the storage of a devnet between runs (see `image`).

mod format;
mod load;
mod write;

use std::io::Read as _;

use alloy::primitives::B256;
use flate2::read::GzDecoder;

use super::state::InvalidCode;
use bardo_base::text::SafeText;

/// Maximum size of a dump, in bytes of JSON.
const MAX_JSON: u64 = 256 << 20;

/// First bytes of gzip data.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Error for a dump that cannot be written or loaded. The chain is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    /// The gzip data is damaged.
    #[error("the dump's gzip data is damaged or truncated: {0}; dump the state again")]
    Compression(SafeText),
    /// The JSON exceeds [`MAX_JSON`].
    #[error("the dump has more than {} MiB of JSON; omit the historical states or dump a shorter chain", .0 >> 20)]
    TooLarge(u64),
    /// The JSON is not a dump.
    #[error("the dump is not in anvil's format: {0}; use the result of anvil_dumpState unchanged")]
    Format(SafeText),
    /// The newest block is missing from the dump.
    #[error("the dump names block {0} as its newest block but does not contain it; dump the state again")]
    NoHead(u64),
    /// A header field is outside the range with which a chain can continue.
    #[error("block {number} of the dump has {field} {value}, which is out of range; dump the state again")]
    OutOfRange {
        /// Number of the block.
        number: u64,
        /// Name of the header field.
        field: &'static str,
        /// Value of the field.
        value: u64,
    },
    /// A transaction has an invalid signature or an unsupported type.
    #[error("transaction {index} of block {block} cannot be loaded: {reason}; dump the state without it")]
    Transaction {
        /// Number of the block.
        block: u64,
        /// Position in the block.
        index: usize,
        /// Description of the error.
        reason: SafeText,
    },
    /// A transaction has no receipt.
    #[error("the dump contains transaction {0} in a block but not its receipt; dump the state again")]
    NoReceipt(B256),
    /// The code of an account is invalid.
    #[error(transparent)]
    Code(#[from] InvalidCode),
}

impl From<serde_json::Error> for DumpError {
    fn from(error: serde_json::Error) -> Self {
        Self::Format(SafeText::clean(&error.to_string(), 200))
    }
}

/// Decompresses the JSON of a dump; plain JSON is returned as it is.
fn unpack(bytes: &[u8], limit: u64) -> Result<Vec<u8>, DumpError> {
    if !bytes.starts_with(&GZIP_MAGIC) {
        let is_too_large = u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit;
        return if is_too_large { Err(DumpError::TooLarge(limit)) } else { Ok(bytes.to_vec()) };
    }
    let mut json = Vec::new();
    let unpacked = GzDecoder::new(bytes).take(limit.saturating_add(1)).read_to_end(&mut json);
    unpacked.map_err(|error| DumpError::Compression(SafeText::clean(&error.to_string(), 100)))?;
    if u64::try_from(json.len()).unwrap_or(u64::MAX) > limit {
        return Err(DumpError::TooLarge(limit));
    }
    Ok(json)
}

#[cfg(test)]
mod tests;
