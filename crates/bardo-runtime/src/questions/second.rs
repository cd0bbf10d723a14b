//! Second approvals: what a second operator signs, derived again from a request as it is shown, and its delivery.

use alloy::primitives::B256;

use super::is_bound;
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::policy::{FieldChange, Policy};
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
        (RequestSubject::Policy(_), QuestionKey::Policy(_)) => {
            let (in_force, new) = policies(question).ok_or(NotSignable::Unbound)?;
            let entry = second.entry.ok_or(NotSignable::Unbound)?;
            Ok(SecondStatement::of_policy(&in_force, &new, entry, now.saturating_add(POLICY_APPROVAL_MILLIS)))
        }
        (_, QuestionKey::Action(_) | QuestionKey::Policy(_) | QuestionKey::Own(_)) => Err(NotSignable::NotNeeded),
    }
}

/// Returns the policy in force and the new one of a request about a policy, parsed from the texts that it carries.
/// `None` if their hashes are not those that would be signed: then nothing that the session shows can be believed.
fn policies(question: &Question) -> Option<(Policy, Policy)> {
    let (RequestSubject::Policy(policy), QuestionKey::Policy(to)) = (&question.about, question.key) else {
        return None;
    };
    let texts = policy.texts.as_ref()?;
    let parsed = |texts: &[String]| Policy::from_sources(texts.iter().map(String::as_str)).ok().flatten();
    let (in_force, new) = (parsed(&texts.in_force)?, parsed(&texts.new)?);
    (in_force.hash() == question.second.as_ref()?.policy && new.hash() == to).then_some((in_force, new))
}

/// Lists every change of a policy that a request asks for, uncut, computed from the texts that are signed. Empty for
/// other requests.
///
/// # Errors
/// [`NotSignable::Unbound`] if the texts are not those of the hashes.
pub fn policy_changes(question: &Question) -> Result<Vec<FieldChange>, NotSignable> {
    match question.about {
        RequestSubject::Policy(_) => {
            let (in_force, new) = policies(question).ok_or(NotSignable::Unbound)?;
            Ok(in_force.changes(&new))
        }
        _ => Ok(Vec::new()),
    }
}

/// Second approval that the waiting policy `to` needs; `None` if it needs none. Without a readable audit
/// log it names nobody, so that nothing is approved.
pub fn second_of_policy(rules: &OperatorPolicyEngine, to: &Policy) -> Option<SecondApprovalRequest> {
    let nobody = || SecondApprovalRequest { approvers: Vec::new(), policy: B256::ZERO, entry: None, given: None };
    match rules.policy_statement(to, 0) {
        Ok(Some((SecondStatement::Policy { from, entry, .. }, approvers))) => {
            let given = rules.second_given(to.hash()).map(|(by, at)| SecondApprovalGiven { by, at });
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
