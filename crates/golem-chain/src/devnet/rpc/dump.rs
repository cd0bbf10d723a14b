//! The methods `anvil_dumpState` and `anvil_loadState`.

use alloy::primitives::{Bytes, hex};

use super::super::dump::DumpError;
use super::super::handle::DevnetThread;
use super::error::RpcError;
use super::params::Params;
use super::{RpcResult, json};

/// `anvil_dumpState`: the compressed dump in hexadecimal; with `true`, it includes states of earlier blocks.
pub(super) fn dump_state(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let historical_states = params.optional(0, "preserve historical states")?.unwrap_or(false);
    json(&hex::encode_prefixed(engine.chain.dump(historical_states)?))
}

/// `anvil_loadState`: returns true once the dump is loaded.
pub(super) fn load_state(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.load_dump(&params.required::<Bytes>(0, "dump")?)?;
    json(&true)
}

impl From<DumpError> for RpcError {
    fn from(error: DumpError) -> Self {
        Self::invalid_params(error.to_string())
    }
}
