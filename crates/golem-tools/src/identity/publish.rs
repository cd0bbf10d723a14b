//! Files that writes publish: on the chain, or in IPFS, where the operator has named a node.
//!
//! A file goes to IPFS only after the operator has read and allowed it, and the chain has its identifier, or may have it:
//! a transaction whose end is not known can still be included, and would then name a file that nobody has. What nobody
//! allowed is never stored there, and nothing is stored for a call that failed.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Bytes;

use crate::engine::CallContext;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use golem_protocols::erc8004::file::{self, ReadRegistration};
use golem_protocols::erc8004::files::{IpfsNode, UploadError};
use golem_protocols::erc8004::publication::content_uri;

/// Number of attempts to store a file whose identifier is on the chain.
const ATTEMPTS: usize = 3;
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(700);

/// File that a call publishes.
pub(super) struct PublishedFile {
    bytes: Bytes,
    /// Node that stores it; `None` for a file on the chain.
    node: Option<Arc<IpfsNode>>,
    /// Outcome at the node; `None` before one.
    stored: Option<Result<(), UploadError>>,
}

impl PublishedFile {
    /// Prepares to publish these bytes of a JSON file. Nothing is sent; an IPFS node is only asked whether it answers.
    ///
    /// # Errors
    /// `NOT_YET` if the operator's IPFS node does not answer.
    pub(super) async fn prepare(context: &CallContext, bytes: Vec<u8>) -> Result<Self, ToolError> {
        let node = context.world.agent_files.upload.clone();
        if let Some(node) = &node {
            node.answers().await.map_err(|error| {
                let what = format_args!("the IPFS node of [agents] upload does not answer: {error}");
                ToolError::new(ErrorCode::NotYet, what)
                    .suggest("Start the node, or remove the setting to write the file to the chain.")
            })?;
        }
        Ok(Self { bytes: bytes.into(), node, stored: None })
    }

    /// Address of the file, which goes into the calldata.
    pub(super) fn uri(&self) -> String {
        if self.node.is_some() { content_uri(&self.bytes) } else { file::data_uri(&self.bytes) }
    }

    /// Files that a proposal must show beside its calldata.
    pub(super) fn beside_calldata(&self) -> Vec<Bytes> {
        if self.node.is_some() { vec![self.bytes.clone()] } else { Vec::new() }
    }

    /// Stores the file in IPFS once the chain has its identifier, or may have it.
    pub(super) async fn store(&mut self, context: &CallContext, step: Option<&'static str>, committed: &CommitOutcome) {
        let Some(node) = &self.node else { return };
        let chain_id = committed.payload.proposal().chain_id;
        if committed.on_paper || !matches!(committed.state, CommitState::Done | CommitState::Unclear) {
            return;
        }
        if let Some(step) = step {
            context.step(step);
        }
        for attempt in 1..=ATTEMPTS {
            match node.store(&self.bytes).await {
                Ok(cid) => {
                    self.stored = Some(Ok(()));
                    // The own agent is found by its words at once.
                    if ReadRegistration::read(&self.bytes).is_ok()
                        && let Ok(chain) = context.world.chain(&chain_id.to_string())
                    {
                        chain.agents.keep(&[(cid, self.bytes.to_vec())]).await;
                    }
                    return;
                }
                Err(error) => self.stored = Some(Err(error)),
            }
            if attempt < ATTEMPTS {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Address of the file in IPFS; `None` for a file on the chain.
    pub(super) fn location(&self) -> Option<String> {
        self.node.as_ref().map(|_| content_uri(&self.bytes))
    }

    /// Reason why the file is not in IPFS although the chain names it; `None` if there is none.
    pub(super) fn problem(&self) -> Option<String> {
        match &self.stored {
            Some(Err(why)) => Some(format!("{why}. The chain names the file; repeat the change once the node works")),
            Some(Ok(())) | None => None,
        }
    }
}
