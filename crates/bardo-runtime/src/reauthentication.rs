//! Password check before a restriction is loosened, with every failed attempt in the audit log.

use super::data::DataFolder;
use bardo_base::clock::Clock;
use bardo_base::id::GolemId;
use bardo_base::secret::Password;
use bardo_safety::audit::{AuditKind, AuditLog, AuditNote};
use bardo_safety::custody::{KeyName, Reauthentication, ReauthenticationError};
use bardo_safety::operator_proof::{Authorisation, OperatorProof};

/// Password check of a data directory.
pub fn of(folder: &DataFolder) -> Reauthentication {
    Reauthentication::new(folder.root(), folder.keys())
}

/// Creates a proof for `wanted` if the passwords are correct. `devnet`: it concerns devnets only. A failed attempt is
/// recorded in the audit logs `audit_logs`.
///
/// # Errors
/// A [`ReauthenticationError`] if no proof could be created.
pub async fn prove(
    folder: &DataFolder,
    audit_logs: &[AuditLog],
    wanted: Authorisation,
    devnet: bool,
    passwords: Vec<(KeyName, Password)>,
    clock: &dyn Clock,
) -> Result<OperatorProof, ReauthenticationError> {
    let (gate, now, authorises) = (of(folder), clock.now_millis(), wanted.as_str());
    let checking = tokio::task::spawn_blocking(move || gate.prove(wanted, devnet, &passwords, now));
    let proved = checking.await.map_err(|_| ReauthenticationError::Interrupted)?;
    if let Some(why) = proved.as_ref().err().and_then(ReauthenticationError::attempt) {
        let body = serde_json::json!({
            "authorises": authorises, "why": why, "by": format!("process {}", std::process::id()),
        });
        for audit_log in audit_logs {
            let body = body.clone();
            let note =
                AuditNote { kind: AuditKind::PasswordRefused, call_id: None, golem_id: GolemId::operator(), body };
            if let Err(error) = audit_log.record(note).await {
                tracing::warn!(%error, "cannot record a refused password in the audit log");
            }
        }
    }
    proved
}
