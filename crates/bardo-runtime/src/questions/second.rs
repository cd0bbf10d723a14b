//! Second approvals: what a second operator signs, derived again from a request as it is shown, and its delivery.

use alloy::primitives::B256;

use super::is_bound;
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::second_approval::SecondStatement;
use bardo_session::questions::{Question, QuestionKey, RequestSubject, SecondApprovalGiven, SecondApprovalRequest};

/// Time for which a second approval of a policy counts, in milliseconds.
pub const POLICY_APPROVAL_MILLIS: u64 = 600_000;

/// Reason that a request cannot be given a second approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSignable {
    /// The request needs none.
    #[error("this decision needs no second approval")]
    NotNeeded,
    /// The shown action differs from the bytes that its hash binds.
    #[error(
        "the session shows something other than what its hash binds, so nothing is signed: do not trust that session, \
         and ask its operator"
    )]
    Unbound,
}

/// Returns what a second operator signs to approve the request. Everything about an action is computed again from the
/// bytes that would be signed; a session that shows something else is refused. `now` is in milliseconds since the Unix
/// epoch.
///
/// # Errors
/// [`NotSignable`].
pub fn statement(question: &Question, now: u64) -> Result<SecondStatement, NotSignable> {
    let second = question.second.as_ref().ok_or(NotSignable::NotNeeded)?;
    match (&question.about, question.key) {
        (RequestSubject::Action(action), QuestionKey::Action(permit_id)) => {
            let content = action.bound.as_ref().map(|bound| &bound.content).filter(|_| is_bound(question));
            let content = content.filter(|content| action.permit == permit_id && content.chain_id == action.chain_id);
            let content = content.ok_or(NotSignable::Unbound)?;
            Ok(SecondStatement::Action {
                account: content.account,
                chain_id: content.chain_id,
                permit_id,
                action: action.hash,
                policy: second.policy,
                outcome: content.expected_outcome.clone(),
                deadline: question.ends_at.ok_or(NotSignable::Unbound)?,
            })
        }
        (RequestSubject::Policy(_), QuestionKey::Policy(to)) => Ok(SecondStatement::Policy {
            from: second.policy,
            to,
            entry: second.entry.unwrap_or_default(),
            deadline: now.saturating_add(POLICY_APPROVAL_MILLIS),
        }),
        (_, QuestionKey::Action(_) | QuestionKey::Policy(_) | QuestionKey::Own(_)) => Err(NotSignable::NotNeeded),
    }
}

/// Second approval that the waiting policy with the hash `to` needs; `None` if it needs none. Without a readable audit
/// log it names nobody, so that nothing is approved.
pub fn second_of_policy(rules: &OperatorPolicyEngine, to: B256) -> Option<SecondApprovalRequest> {
    let nobody = || SecondApprovalRequest { approvers: Vec::new(), policy: B256::ZERO, entry: None, given: None };
    match rules.policy_statement(to, 0) {
        Ok(Some((SecondStatement::Policy { from, entry, .. }, approvers))) => {
            let given = rules.second_given(to).map(|(by, at)| SecondApprovalGiven { by, at });
            let approvers = approvers.into_iter().collect();
            Some(SecondApprovalRequest { approvers, policy: from, entry: Some(entry), given })
        }
        Ok(Some((SecondStatement::Action { .. }, _))) => Some(nobody()),
        Ok(None) => None,
        Err(error) => {
            tracing::warn!(%error, "cannot read what a second approval of the policy needs");
            Some(nobody())
        }
    }
}
