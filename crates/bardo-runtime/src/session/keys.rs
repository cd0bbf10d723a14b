//! Highest stop level: the Golem's session keys are removed at once, until this process restarts. Lowering the stop
//! does not restore them. The operator can still revoke allowances and cancel orders.
//!
//! Session keys of the ledger are revoked for good. A delegation on chain ends only with a transaction of its owner. That
//! key is never in this process, so the session only reports it.

use serde_json::json;

use super::state::SessionState;
use crate::session_keys;
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_safety::audit::{AuditKind, AuditLog, AuditNote};
use bardo_safety::custody::session_keys::RevokedBy;
use bardo_safety::stop::ActiveStop;
use bardo_safety::{AccountKind, RevocationCause};

/// Message for lowering a stop that has removed the keys.
pub(super) const STAY: &str = "the Golem's keys stay revoked until a restart";

impl SessionState {
    /// True if a stop has removed the Golem's keys.
    pub(super) fn keys_revoked(&self) -> bool {
        self.control.revocation.as_ref().is_some_and(|revocation| revocation.why() == Some(RevocationCause::Stop))
    }

    /// Stop level that applies to the Golem: `Revoke` while its keys are removed, whatever is in force.
    pub(super) fn lasting(&self, level: Option<StopLevel>) -> Option<StopLevel> {
        if self.keys_revoked() { Some(StopLevel::Revoke) } else { level }
    }

    /// Removes the keys if the stop requires it, and reports it once.
    pub(super) fn revoke_keys(&self, found: &ActiveStop) {
        let (Some(revocation), ActiveStop::Stop(stop)) = (&self.control.revocation, found) else { return };
        if self.watch_only || stop.level != StopLevel::Revoke || !revocation.revoke(RevocationCause::Stop) {
            return;
        }
        let delegated = match revocation.kind() {
            AccountKind::Delegated => true,
            AccountKind::LocalKey | AccountKind::DevelopmentKey | AccountKind::Embedded | AccountKind::Safe => false,
        };
        let words = revoked_sentence(delegated);
        self.report(&words);
        self.stats().remark(&words);
        let body = json!({
            "account": self.sources.world.account, "by": stop.by, "reason": stop.reason,
            "delegation": if delegated { "stands until its owner disables it" } else { "none" },
        });
        let note = AuditNote { kind: AuditKind::KeysRevoked, call_id: None, golem_id: self.golem_id.clone(), body };
        let audit_log = AuditLog::new(self.sources.ledger.store.clone(), self.sources.clock.clone());
        let (store, reason) = (self.sources.ledger.store.clone(), stop.reason.clone());
        let (golem_id, now) = (self.golem_id.clone(), self.sources.clock.now_millis());
        let folder = self.data_folder();
        self.record_to_the_end(async move {
            // The stop stands even if a row cannot be written; no key signs while it does.
            let by = (RevokedBy::Stop, &reason);
            if let Err(error) = session_keys::revoke_in(&store, None, by, &golem_id, now).await {
                tracing::error!(%error, "cannot revoke the session keys: `bardo keys session revoke --all` does");
            }
            for error in session_keys::retire(&folder) {
                tracing::warn!(%error, "a revoked session key's file stays in the keystore");
            }
            audit_log.record(note).await
        });
    }

    /// Reports that a lower stop does not restore the keys.
    pub(super) fn report_keys_stay(&self) {
        if self.keys_revoked() {
            self.report(&format!("The stop was lowered, but {STAY}."));
        }
    }

    /// Fault that is shown until this process restarts.
    pub(super) fn keys_fault(&self) -> Option<SafeText> {
        self.keys_revoked().then(|| SafeText::clean(STAY, 120))
    }
}

fn revoked_sentence(delegated: bool) -> String {
    let after = match delegated {
        true => {
            "The session key is revoked for good. The on-chain delegation is still active until it expires: its owner must \
             disable it with the owner's own wallet."
        }
        false => "After a restart with the stop lifted, I have keys again.",
    };
    format!(
        "My keys are revoked by the stop ladder: I sign nothing more in this process, even if the stop is lowered. {after}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowances_and_orders_are_listed_only_for_chains_that_have_some() {
        assert!(revoked_sentence(true).contains("revoked for good") && !revoked_sentence(true).contains("again"));
        assert!(
            revoked_sentence(true).contains("its owner must disable it") && !revoked_sentence(false).contains("owner")
        );
        // The screen keeps at most this many characters.
        assert!(revoked_sentence(true).chars().count() <= 400);
    }
}
