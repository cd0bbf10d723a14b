//! Session keys of the data folder, as tools reach them.

use std::fmt;
use std::sync::Arc;

use alloy::primitives::B512;
use futures::future::BoxFuture;

use super::data::{DataFolder, Ledger};
use super::session_keys;
use bardo_base::clock::Clock;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::GolemId;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_safety::custody::session_keys::{RevokedBy, SessionKeyRecord, SessionKeyRequest};
use golem_chain::network::Network;
use golem_tools::engine::{KeyRevocations, ListedSessionKey, SessionKeyring};

/// Asks the operator for the password of a new key file, with the description of the key; `None` if they give none. Blocks
/// until they answer.
pub type NewKeyPassword = Arc<dyn Fn(&str) -> Result<Option<Password>, ToolError> + Send + Sync>;

/// Session keys of a data folder.
pub struct FolderKeyring {
    folder: DataFolder,
    clock: Arc<dyn Clock>,
    /// Ledger for new session keys, and the operator's prompt for their passwords; `None` where no key can be created.
    creating: Option<(Ledger, NewKeyPassword)>,
    /// Name of the ledger whose keys agents may revoke; `None` where they may revoke none.
    agents_ledger: Option<String>,
}

impl fmt::Debug for FolderKeyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderKeyring").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl FolderKeyring {
    /// Returns the session keys of a folder, without a way to create one.
    pub fn new(folder: DataFolder, clock: Arc<dyn Clock>) -> Self {
        Self { folder, clock, creating: None, agents_ledger: None }
    }

    /// Lets agents revoke the keys of `ledger`, that of their session. Those of other ledgers sign for other sessions and
    /// networks, which would lose their exits with them.
    #[must_use]
    pub fn with_agents_in(mut self, ledger: &Ledger) -> Self {
        self.agents_ledger = Some(session_keys::ledger_name(ledger.store.path()));
        self
    }

    /// Creates session keys in `ledger`, with passwords that the operator gives to `ask`.
    #[must_use]
    pub fn creating_in(mut self, ledger: Ledger, ask: NewKeyPassword) -> Self {
        self.creating = Some((ledger, ask));
        self
    }
}

impl SessionKeyring for FolderKeyring {
    fn list(&self) -> Result<Vec<ListedSessionKey>, ToolError> {
        let listed = session_keys::list(&self.folder)?.into_iter().map(|found| ListedSessionKey {
            is_signed: session_keys::is_signed(&found),
            ledger: found.ledger,
            record: found.row.map(|row| row.claims().clone()).map_err(session_keys::stored),
        });
        Ok(listed.collect())
    }

    fn revoke<'k>(
        &'k self,
        ids: &'k [String],
        by: &'k GolemId,
        reason: &'k SafeText,
    ) -> BoxFuture<'k, Result<KeyRevocations, ToolError>> {
        let ids = (!ids.is_empty()).then_some(ids);
        Box::pin(async move {
            let (folder, clock) = (&self.folder, &*self.clock);
            let report = match (by.is_operator(), &self.agents_ledger) {
                (true, _) => session_keys::revoke(folder, ids, (RevokedBy::Operator, reason), by, clock).await?,
                (false, Some(own)) => {
                    session_keys::revoke_within(folder, own, ids, (RevokedBy::Agent, reason), by, clock).await?
                }
                (false, None) => {
                    let what = "an agent revokes session keys of its session's ledger, and no session is open";
                    return Err(ToolError::new(ErrorCode::StoreUnavailable, what));
                }
            };
            Ok(KeyRevocations { revoked: report.revoked, failures: report.failures })
        })
    }

    fn draft<'k>(
        &'k self,
        network: &'k Network,
        request: SessionKeyRequest,
        shown: &'k str,
    ) -> BoxFuture<'k, Result<(SessionKeyRecord, B512), ToolError>> {
        Box::pin(async move {
            let (ledger, ask) = self.creating.as_ref().ok_or_else(|| {
                let what = "a session key is created where the operator can give the password of its key file";
                ToolError::new(ErrorCode::ApprovalRequired, what).suggest(
                    "The operator runs `bardo call session_provision_key` on a terminal, or `bardo keys session draft`, on a \
                     network that outlives the command.",
                )
            })?;
            // What cannot be drafted asks nobody.
            session_keys::check_request(network, &request)?;
            let (ask, shown) = (Arc::clone(ask), shown.to_owned());
            let asked = tokio::task::spawn_blocking(move || ask(&shown)).await;
            let asked = asked.map_err(|_| ToolError::new(ErrorCode::ApprovalRefused, "the prompt failed"))?;
            let password = asked?.ok_or_else(|| {
                ToolError::new(ErrorCode::ApprovalRefused, "the operator gave no password: no session key was created")
            })?;
            session_keys::draft(&self.folder, (network, ledger), request, &password, &*self.clock).await
        })
    }
}
