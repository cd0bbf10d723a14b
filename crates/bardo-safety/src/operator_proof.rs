//! Proof that the operator, and not a script in their terminal, made a decision that loosens a limit.
//!
//! These decisions take an [`OperatorProof`] as a parameter, so that none of them can be made without one: lowering a
//! stop, accepting a looser policy, resetting a breaker or a high-water mark, reconciling an account, leaving paper
//! mode, selling all holdings, and some approvals. A proof is bound to exactly one authorisation and to one data
//! folder. It can be used once, and expires after [`LIFETIME`] by both clocks.
//!
//! `custody::reauthentication` checks passwords and is the only maker of proofs, which `tests/pipeline/signing.rs`
//! checks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use alloy::primitives::{Address, B256, keccak256};
use tokio::time::Instant;

use super::stop::ActiveStop;
use bardo_base::id::PermitId;
use bardo_base::model::StopLevel;

/// Lifetime of a proof.
pub const LIFETIME: Duration = Duration::from_secs(60);

/// Decision that a proof authorises, including what was shown to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorisation {
    /// Lower or lift a stop.
    LowerStop {
        /// Keccak-256 hash of the stop that was shown.
        shown: B256,
        /// Level that remains; `None` to lift the stop.
        to: Option<StopLevel>,
    },
    /// Put a looser policy into force.
    AcceptPolicy {
        /// Hash of the policy.
        hash: B256,
    },
    /// Close the failure breaker.
    ResetBreaker,
    /// Delete the high-water marks of an account.
    ResetHighWater {
        /// Account whose marks are deleted.
        account: Address,
    },
    /// Continue from the chain's nonces.
    Reconcile {
        /// EIP-155 id of the chain.
        chain_id: u64,
        /// Account that is reconciled.
        account: Address,
        /// Next nonce by the chain's blocks, as shown to the operator.
        next: u64,
        /// Next nonce with pending transactions, as shown to the operator.
        pending: u64,
    },
    /// Set or clear the account's rules in PolicyCage.
    PolicyCage {
        /// Account that the rules belong to.
        account: Address,
        /// Keccak-256 hash of the chain id and the calldata that were shown.
        change: Box<B256>,
    },
    /// Approve an action from outside the process that requested it, or one that an unisolated brain proposed.
    Approve {
        /// Permit that waits for the approval.
        permit_id: PermitId,
        /// Account that would sign.
        account: Address,
    },
    /// Leave paper mode, so that transactions are signed again.
    LeavePaper {
        /// Account that would sign.
        account: Address,
    },
    /// Sell all holdings of an account, after a Golem's death or under a flatten.
    SellHoldings {
        /// Account that holds them.
        account: Address,
    },
}

impl Authorisation {
    /// Returns the authorisation to lower the stop `shown` to `to`.
    pub fn lower_stop(shown: &ActiveStop, to: Option<StopLevel>) -> Self {
        // The `Debug` text has every field and is never parsed.
        Self::LowerStop { shown: keccak256(format!("{shown:?}")), to }
    }

    /// Returns the account whose key must prove the decision; `None` if it concerns every key of the data folder.
    pub fn account(&self) -> Option<Address> {
        match self {
            Self::LowerStop { .. } | Self::AcceptPolicy { .. } | Self::ResetBreaker => None,
            // It also deletes marks that Golems of other accounts have.
            Self::ResetHighWater { .. } => None,
            Self::Reconcile { account, .. }
            | Self::PolicyCage { account, .. }
            | Self::Approve { account, .. }
            | Self::LeavePaper { account }
            | Self::SellHoldings { account } => Some(*account),
        }
    }

    /// Returns true if the decision affects every network of the data folder, devnet or not.
    pub fn is_of_every_network(&self) -> bool {
        match self {
            Self::LowerStop { .. } => true,
            Self::AcceptPolicy { .. }
            | Self::ResetBreaker
            | Self::ResetHighWater { .. }
            | Self::Reconcile { .. }
            | Self::PolicyCage { .. }
            | Self::Approve { .. }
            | Self::LeavePaper { .. }
            | Self::SellHoldings { .. } => false,
        }
    }

    /// Returns the identifier for the audit log.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::LowerStop { .. } => "lower_stop",
            Self::AcceptPolicy { .. } => "accept_policy",
            Self::ResetBreaker => "reset_breaker",
            Self::ResetHighWater { .. } => "reset_high_water",
            Self::Reconcile { .. } => "reconcile",
            Self::PolicyCage { .. } => "policy_cage",
            Self::Approve { .. } => "approve",
            Self::LeavePaper { .. } => "leave_paper",
            Self::SellHoldings { .. } => "sell_holdings",
        }
    }
}

/// Evidence that a proof is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProofBasis {
    /// Passwords of these accounts' key files.
    Passwords(Vec<Address>),
    /// The data folder has no key file, so nothing of real value can be signed from it.
    NoKeys,
    /// The decision concerns devnets only, whose keys are public.
    Devnet,
}

impl ProofBasis {
    /// Returns the identifier for the audit log.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Passwords(_) => "password",
            Self::NoKeys => "no_keys",
            Self::Devnet => "devnet",
        }
    }
}

/// Reason why a proof is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The proof has expired.
    #[error("the password confirmation has expired: nothing was changed; try again")]
    Expired,
    /// The proof authorises another decision.
    #[error("the password confirmation was for a different change: nothing was changed; review it and try again")]
    OtherAction,
    /// The proof belongs to another data folder.
    #[error("the password confirmation was for another data folder: nothing was changed")]
    OtherFolder,
    /// The evidence is too weak for this decision.
    #[error("this needs the password of the account's key: nothing was changed")]
    NoPassword,
}

/// Proof of one decision. It cannot be copied, and using it consumes it.
#[derive(Debug)]
#[must_use = "an unused proof authorises nothing"]
pub struct OperatorProof {
    authorises: Authorisation,
    basis: ProofBasis,
    folder: PathBuf,
    made_at: u64,
    expires: Instant,
}

impl OperatorProof {
    /// Creates a proof for exactly `authorises` in the data folder `folder`; `now` is in milliseconds since the Unix
    /// epoch. For `custody::reauthentication` only.
    pub(crate) fn issue(authorises: Authorisation, basis: ProofBasis, folder: &Path, now: u64) -> Self {
        Self { authorises, basis, folder: folder.to_owned(), made_at: now, expires: Instant::now() + LIFETIME }
    }

    /// Consumes the proof and returns its evidence; `now` is in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// [`ProofError`] if the proof has expired or does not authorise `wanted`.
    pub fn redeem(self, wanted: &Authorisation, now: u64) -> Result<ProofBasis, ProofError> {
        let lifetime = u64::try_from(LIFETIME.as_millis()).unwrap_or(u64::MAX);
        if now < self.made_at || now >= self.made_at.saturating_add(lifetime) || Instant::now() >= self.expires {
            return Err(ProofError::Expired);
        }
        if self.authorises != *wanted {
            return Err(ProofError::OtherAction);
        }
        match &self.basis {
            ProofBasis::Devnet if wanted.is_of_every_network() => Err(ProofError::NoPassword),
            ProofBasis::Passwords(accounts) if wanted.account().is_some_and(|account| !accounts.contains(&account)) => {
                Err(ProofError::NoPassword)
            }
            ProofBasis::Passwords(_) | ProofBasis::NoKeys | ProofBasis::Devnet => Ok(self.basis),
        }
    }

    /// Like [`Self::redeem`], for a decision in one data folder.
    ///
    /// # Errors
    /// [`ProofError`] as for [`Self::redeem`], or if the proof is for another folder.
    pub(crate) fn redeem_in(self, folder: &Path, wanted: &Authorisation, now: u64) -> Result<ProofBasis, ProofError> {
        if self.folder != folder {
            return Err(ProofError::OtherFolder);
        }
        self.redeem(wanted, now)
    }

    /// Like [`Self::redeem`], for a decision on networks of one kind: only devnets accept a proof without a key.
    ///
    /// # Errors
    /// [`ProofError`] as for [`Self::redeem`], or if a devnet's proof is used elsewhere.
    pub fn redeem_on(self, devnet: bool, wanted: &Authorisation, now: u64) -> Result<ProofBasis, ProofError> {
        if self.basis == ProofBasis::Devnet && !devnet {
            return Err(ProofError::NoPassword);
        }
        self.redeem(wanted, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(basis: ProofBasis) -> OperatorProof {
        OperatorProof::issue(Authorisation::ResetBreaker, basis, Path::new("/data"), 1_000)
    }

    #[tokio::test(start_paused = true)]
    async fn a_proof_serves_for_its_action_its_folder_and_its_minute() {
        let wanted = Authorisation::ResetBreaker;
        let by_password = || proof(ProofBasis::Passwords(vec![Address::ZERO]));
        assert!(by_password().redeem(&wanted, 1_000).is_ok() && by_password().redeem(&wanted, 60_999).is_ok());
        // By the wall clock, also if that was set back.
        assert_eq!(by_password().redeem(&wanted, 61_000), Err(ProofError::Expired));
        assert_eq!(by_password().redeem(&wanted, 999), Err(ProofError::Expired));
        let other = Authorisation::AcceptPolicy { hash: B256::ZERO };
        assert_eq!(by_password().redeem(&other, 1_000), Err(ProofError::OtherAction));
        assert_eq!(by_password().redeem_in(Path::new("/other"), &wanted, 1_000), Err(ProofError::OtherFolder));
        // By the monotonic clock.
        let old = by_password();
        tokio::time::advance(LIFETIME).await;
        assert_eq!(old.redeem(&wanted, 1_000), Err(ProofError::Expired));
    }

    #[test]
    fn a_devnets_proof_lifts_no_stop_and_serves_on_no_other_network() {
        let wanted = Authorisation::ResetBreaker;
        assert_eq!(proof(ProofBasis::Devnet).redeem_on(true, &wanted, 1_000), Ok(ProofBasis::Devnet));
        assert_eq!(proof(ProofBasis::Devnet).redeem_on(false, &wanted, 1_000), Err(ProofError::NoPassword));
        let lower = Authorisation::lower_stop(&ActiveStop::None, None);
        let forged = OperatorProof::issue(lower.clone(), ProofBasis::Devnet, Path::new("/data"), 1_000);
        assert_eq!(forged.redeem(&lower, 1_000), Err(ProofError::NoPassword));
    }

    #[test]
    fn a_proof_by_one_account_serves_for_no_other() {
        let account = Address::repeat_byte(1);
        for wanted in [
            Authorisation::Reconcile { chain_id: 1, account, next: 5, pending: 5 },
            Authorisation::PolicyCage { account, change: Box::default() },
        ] {
            let by = |basis| OperatorProof::issue(wanted.clone(), basis, Path::new("/data"), 1_000);
            let password = |proved| ProofBasis::Passwords(vec![proved]);
            assert!(by(password(account)).redeem(&wanted, 1_000).is_ok());
            assert_eq!(by(password(Address::repeat_byte(2))).redeem(&wanted, 1_000), Err(ProofError::NoPassword));
            // A devnet's proof is not valid where real money is at stake.
            assert_eq!(by(ProofBasis::Devnet).redeem_on(false, &wanted, 1_000), Err(ProofError::NoPassword));
        }
        // Only for the rules that were shown.
        let [shown, other] = [B256::ZERO, B256::repeat_byte(1)]
            .map(|change| Authorisation::PolicyCage { account, change: Box::new(change) });
        let proof = OperatorProof::issue(shown, ProofBasis::Passwords(vec![account]), Path::new("/data"), 1_000);
        assert_eq!(proof.redeem(&other, 1_000), Err(ProofError::OtherAction));
    }
}
