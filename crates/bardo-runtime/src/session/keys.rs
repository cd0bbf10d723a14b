//! The highest step of the stop ladder: the Golem's keys are taken away, at once and for as long as this program runs.
//! Lowering the stop gives them back to nobody; the operator's own hand stays, for taking back and cancelling.
//!
//! A delegation on a chain ends by its owner's own transaction. That key is never here, so it is said and not done.

use serde_json::json;

use super::stage::Stage;
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_safety::audit::{Kind, Note, Trail};
use bardo_safety::stop::InForce;
use bardo_safety::{AccountKind, Revoked};

/// Said wherever a stop is lowered that has taken the keys away.
pub(super) const STAY: &str = "the Golem's keys stay revoked until a restart";

impl Stage {
    /// Whether a stop has taken the Golem's keys away.
    pub(super) fn keys_revoked(&self) -> bool {
        self.revocation.as_ref().is_some_and(|revocation| revocation.why() == Some(Revoked::Stop))
    }

    /// The stop as it is for the Golem: whatever is in force later, without keys nothing is due.
    pub(super) fn lasting(&self, level: Option<StopLevel>) -> Option<StopLevel> {
        if self.keys_revoked() { Some(StopLevel::Revoke) } else { level }
    }

    /// Takes the keys away where the stop says so, and tells it once.
    pub(super) fn revoke_keys(&self, found: &InForce) {
        let (Some(revocation), InForce::Stop(stop)) = (&self.revocation, found) else { return };
        if self.watch_only || stop.level != StopLevel::Revoke || !revocation.revoke(Revoked::Stop) {
            return;
        }
        let delegated = match revocation.kind() {
            AccountKind::Delegated => true,
            AccountKind::LocalKey | AccountKind::DevelopmentKey | AccountKind::Embedded => false,
        };
        let words = words(delegated);
        self.tell_last(&words);
        self.tally().remark(&words);
        let body = json!({
            "account": self.world.account, "by": stop.by, "reason": stop.reason,
            "delegation": if delegated { "stands until its owner disables it" } else { "none" },
        });
        let note = Note { kind: Kind::KeysRevoked, call_id: None, golem_id: self.golem_id.clone(), body };
        let trail = Trail::new(self.ledger.store.clone(), self.clock.clone());
        self.record_to_the_end(async move { trail.record(note).await });
    }

    /// Says what a lower stop does not give back.
    pub(super) fn tell_keys_stay(&self) {
        if self.keys_revoked() {
            self.tell_last(&format!("The stop was lowered, but {STAY}."));
        }
    }

    /// What is wrong for as long as this program runs.
    pub(super) fn keys_fault(&self) -> Option<SafeText> {
        self.keys_revoked().then(|| SafeText::clean(STAY, 120))
    }
}

fn words(delegated: bool) -> String {
    let delegation = match delegated {
        true => " The on-chain delegation is still active: its owner must disable it with the owner's own wallet.",
        false => "",
    };
    format!(
        "My keys are revoked by the stop ladder: I sign nothing more in this process, even if the stop is lowered. \
         After a restart with the stop lifted, I have keys again.{delegation}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_on_a_chain_is_said_where_something_does() {
        assert!(words(true).contains("its owner must disable it") && !words(false).contains("owner"));
        // As much as the screen keeps of it.
        assert!(words(true).chars().count() <= 400);
    }
}
