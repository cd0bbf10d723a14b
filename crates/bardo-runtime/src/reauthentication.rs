//! Password check before a restriction is loosened, with every failed attempt in the audit log.

use super::account::{SafeOwner, SelectedAccount};
use super::data::DataFolder;
use super::session_keys;
use bardo_base::clock::Clock;
use bardo_base::id::GolemId;
use bardo_base::secret::Password;
use bardo_safety::audit::{AuditKind, AuditLog, AuditNote};
use bardo_safety::custody::{KeyName, Reauthentication, ReauthenticationError};
use bardo_safety::operator_proof::{Authorisation, OperatorProof};

/// Password check of a data directory, for commands that concern the whole folder.
pub fn of(folder: &DataFolder) -> Reauthentication {
    Reauthentication::new(folder.root(), folder.keys()).without(session_keys::idle(folder))
}

/// Password check of a data directory, in which the selected account acts: a session key proves decisions about its
/// owner's account, if the owner has signed for it.
pub fn acting(folder: &DataFolder, selected: Option<&SelectedAccount>) -> Reauthentication {
    match selected {
        Some(SelectedAccount::Session(session)) if session.is_signed => {
            of(folder).acting(session.owner, session.key.name.clone())
        }
        // The owner's key proves decisions about the Safe that acts through it.
        Some(SelectedAccount::Safe(safe)) => match &safe.owner {
            SafeOwner::Key(entry) => of(folder).acting(safe.address, entry.name.clone()),
            SafeOwner::Development { .. } => of(folder),
        },
        Some(SelectedAccount::Session(_) | SelectedAccount::Key(_) | SelectedAccount::Development { .. }) | None => {
            of(folder)
        }
    }
}

/// Creates a proof for `wanted` if the passwords are correct by `gate`. `devnet`: it concerns devnets only. A failed
/// attempt is recorded in the audit logs `audit_logs`.
///
/// # Errors
/// A [`ReauthenticationError`] if no proof could be created.
pub async fn prove(
    gate: Reauthentication,
    audit_logs: &[AuditLog],
    wanted: Authorisation,
    devnet: bool,
    passwords: Vec<(KeyName, Password)>,
    clock: &dyn Clock,
) -> Result<OperatorProof, ReauthenticationError> {
    let (now, authorises) = (clock.now_millis(), wanted.as_str());
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
