//! Records of what was done on a rehearsal, so that the operator can propose the same on the live network.
//!
//! ```text
//! rehearsed/CALL_ID.json   actor, tool, parameters and result of one write, with the live network and the block
//! ```
//!
//! A record is a suggestion and nothing more: the live call is made from the tool and the parameters alone, with a new
//! quote, new checks, a new simulation and a new approval. Nothing that was signed on the rehearsal is kept here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::data::DataFolder;
use super::rehearsal::Rehearsal;
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::CapabilityTier;
use bardo_base::{private, regular_file};
use golem_chain::network::{LiveBlock, Network};
use golem_tools::engine::{CallStatus, Hook, HookCall, ToolResponse};

/// Folder of the records, in the data directory.
const REHEARSED: &str = "rehearsed";
/// Maximum number of records; the oldest are removed.
const MOST_RECORDS: usize = 500;
/// Maximum size of a record, in bytes.
const MAX_RECORD: u64 = 1 << 20;
/// Parameters that select a chain.
const CHAIN_PARAMETERS: [&str; 4] = ["chain", "chain_id", "from_chain", "to_chain"];

/// One write on a rehearsal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rehearsed {
    /// Id of the call on the rehearsal.
    pub call_id: CallId,
    /// Golem that made the call, or the operator.
    pub golem_id: GolemId,
    /// Name of the tool.
    pub tool: String,
    /// Parameters of the call; chains are named as on the live network.
    pub params: Value,
    /// Name of the live network.
    pub network: String,
    /// Block of the live network that the rehearsal continued from.
    pub block: LiveBlock,
    /// Status of the call on the rehearsal.
    pub status: CallStatus,
    /// Explanation of its result, for a person.
    pub explanation: Option<String>,
}

/// Error for a record that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RehearsedError {
    /// There is no record of this call.
    #[error("no call {0} was rehearsed with this data folder: the response of a rehearsed call has its `call_id`")]
    None(CallId),
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        reason: io::Error,
    },
}

/// Hook that records the writes of a rehearsal.
#[derive(Debug)]
pub struct RehearsalRecorder {
    folder: PathBuf,
    network: Network,
    block: LiveBlock,
}

impl RehearsalRecorder {
    /// Recorder for the rehearsal's calls; `None` if its chain is not a rehearsal.
    pub fn of(rehearsal: &Rehearsal, data: &DataFolder) -> Option<Self> {
        let block = rehearsal.network.rehearses?;
        Some(Self { folder: data.root().join(REHEARSED), network: rehearsal.network.clone(), block })
    }

    fn record(&self, call: HookCall<'_>, response: &ToolResponse) -> io::Result<()> {
        private::folder(&self.folder)?;
        remove_oldest(&self.folder)?;
        let rehearsed = Rehearsed {
            call_id: call.call_id,
            golem_id: call.golem_id.clone(),
            tool: call.meta.name.to_owned(),
            params: self.live_params(call.params),
            network: self.network.name.clone(),
            block: self.block,
            status: response.status,
            explanation: response.explanation.clone(),
        };
        let text = serde_json::to_vec_pretty(&rehearsed)?;
        private::replace(&path_of(&self.folder, call.call_id), &text)
    }

    /// The parameters with the live network's name where they contain the local chain's id.
    fn live_params(&self, params: &Value) -> Value {
        let mut params = params.clone();
        let local = [Value::from(self.network.chain_id), Value::from(self.network.chain_id.to_string())];
        for name in CHAIN_PARAMETERS {
            if let Some(chain) = params.get_mut(name)
                && local.contains(chain)
            {
                *chain = Value::from(self.network.name.clone());
            }
        }
        params
    }
}

impl Hook for RehearsalRecorder {
    fn after(&self, call: HookCall<'_>, response: &ToolResponse) {
        let worked = matches!(response.status, CallStatus::Success | CallStatus::Partial | CallStatus::Simulated);
        if !worked || call.meta.capability == CapabilityTier::Read {
            return;
        }
        if let Err(error) = self.record(call, response) {
            tracing::warn!(call_id = %call.call_id, %error, "a rehearsed call was not recorded");
        }
    }
}

/// Reads the record of a rehearsed call.
///
/// # Errors
/// [`RehearsedError`] if there is none, or it cannot be read.
pub fn rehearsed(data: &DataFolder, call_id: CallId) -> Result<Rehearsed, RehearsedError> {
    let path = path_of(&data.root().join(REHEARSED), call_id);
    let failed = |reason| RehearsedError::File { path: path.clone(), reason };
    let bytes = match regular_file::read(&path, MAX_RECORD) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RehearsedError::None(call_id)),
        read => read.map_err(failed)?,
    };
    serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))
}

fn path_of(folder: &Path, call_id: CallId) -> PathBuf {
    folder.join(call_id.to_string()).with_extension("json")
}

/// Removes the oldest records, so that there is room for one more.
fn remove_oldest(folder: &Path) -> io::Result<()> {
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort();
    let surplus = found.len().saturating_sub(MOST_RECORDS - 1);
    for (_, path) in found.iter().take(surplus) {
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bardo_base::error::{ErrorCode, ToolError};
    use golem_tools::ALL_TOOL_DEFS;

    #[test]
    fn a_record_names_the_golem_that_made_the_call() {
        let home = tempfile::tempdir().unwrap();
        let block = LiveBlock { chain_id: 8_453, number: 7, hash: Default::default(), timestamp: 9 };
        let network = Network { rehearses: Some(block), ..Network::unknown("base", 31_337) };
        let recorder = RehearsalRecorder { folder: home.path().join(REHEARSED), network, block };
        let meta = &ALL_TOOL_DEFS.iter().find(|tool| tool.meta.name == "wallet_transfer_token").unwrap().meta;
        let (call_id, golem_id): (CallId, GolemId) = (CallId::new(7), "ada".parse().unwrap());
        let params = serde_json::json!({ "amount": "25", "chain_id": "31337" });
        let failed =
            ToolResponse::failed(call_id, CallStatus::Error, ToolError::new(ErrorCode::ValidationFailed, "no"));
        let call = HookCall { call_id, golem_id: &golem_id, meta, params: &params };
        recorder.after(call, &failed);
        assert!(!recorder.folder.exists(), "a failed call is nothing to propose");
        recorder.after(call, &ToolResponse { status: CallStatus::Success, ..failed });
        let text = fs::read_to_string(path_of(&recorder.folder, call_id)).unwrap();
        let record: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["golem_id"], "ada");
        assert_eq!(record["tool"], "wallet_transfer_token");
        assert_eq!(record["params"], serde_json::json!({ "amount": "25", "chain_id": "base" }));
    }
}
