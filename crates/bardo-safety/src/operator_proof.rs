//! Proof that the operator, and not a script in their terminal, gives a command that permits more.
//!
//! The following take an [`OperatorProof`] as a parameter, so that they cannot be called without one: lowering a stop,
//! accepting a looser policy, resetting a breaker or a high-water mark, reconciling an account, leaving paper mode,
//! selling all holdings, and some approvals. A proof is bound to exactly what it authorises and to one data folder. It
//! is consumed by its use, and expires after [`LIFETIME`] by both clocks.
//!
//! Not here: passwords. `custody::reauthentication` checks them and is the only creator of proofs, which
//! `tests/pipeline/signing.rs` verifies.

use std::path::{Path, PathBuf};
use std::time::Duration;

use alloy::primitives::{Address, B256, keccak256};
use tokio::time::Instant;

use super::stop::InForce;
use bardo_base::id::PermitId;
use bardo_base::model::StopLevel;

/// Lifetime of a proof.
pub const LIFETIME: Duration = Duration::from_secs(60);

/// Action that a proof authorises. It includes everything that was shown to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorisation {
    /// Lowers or lifts a stop.
    LowerStop {
        /// Hash of the stop that was shown.
        shown: B256,
        /// Level that stays in force; `None` lifts the stop.
        to: Option<StopLevel>,
    },
    /// Puts a looser policy into force.
    AcceptPolicy {
        /// Hash of the policy.
        hash: B256,
    },
    /// Closes the failure breaker.
    ResetBreaker,
    /// Deletes the high-water marks of an account.
    ResetHighWater {
        /// Account with the marks.
        account: Address,
    },
    /// Continues from the chain's nonces.
    Reconcile {
        /// EIP-155 id of the chain.
        chain_id: u64,
        /// Account to reconcile.
        account: Address,
        /// Next nonce that was shown, by the chain's blocks.
        next: u64,
        /// Next nonce that was shown, including pending transactions.
        pending: u64,
    },
    /// Sets or clears the account's rules in PolicyCage.
    PolicyCage {
        /// Account with the rules.
        account: Address,
        /// Hash of the chain id and the calldata that were shown.
        change: Box<B256>,
    },
    /// Approves an action from outside the requesting process, or one that an unisolated brain proposed.
    Approve {
        /// Permit of the open request.
        permit_id: PermitId,
        /// Account that would sign.
        account: Address,
    },
    /// Leaves paper mode, so that transactions are signed again.
    LeavePaper {
        /// Account that would sign.
        account: Address,
    },
    /// Sells everything that an account holds, after a Golem's death or under the stop level flatten.
    SellHoldings {
        /// Account with the holdings.
        account: Address,
    },
}

impl Authorisation {
    /// Creates the authorisation to lower the stop `shown` to `to`.
    pub fn lower_stop(shown: &InForce, to: Option<StopLevel>) -> Self {
        // The Debug form contains every field and is never parsed.
        Self::LowerStop { shown: keccak256(format!("{shown:?}")), to }
    }

    /// Returns the account whose key must prove it; `None` if every key of the data folder must.
    pub fn account(&self) -> Option<Address> {
        match self {
            Self::LowerStop { .. } | Self::AcceptPolicy { .. } | Self::ResetBreaker => None,
            // It also resets the marks that Golems of every account use.
            Self::ResetHighWater { .. } => None,
            Self::Reconcile { account, .. }
            | Self::PolicyCage { account, .. }
            | Self::Approve { account, .. }
            | Self::LeavePaper { account }
            | Self::SellHoldings { account } => Some(*account),
        }
    }

    /// Returns true if the command affects every network of the data folder, devnet or not.
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

    /// Returns the name that the audit log contains.
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

/// Evidence behind a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// Passwords of these accounts' key files.
    Passwords(Vec<Address>),
    /// The data folder has no key file, so nothing of real value can be signed from it.
    NoKeys,
    /// The command concerns only devnets, whose keys are public.
    Devnet,
}

impl Basis {
    /// Returns the name that the audit log contains.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Passwords(_) => "password",
            Self::NoKeys => "no_keys",
            Self::Devnet => "devnet",
        }
    }
}

/// Reason for which a proof is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The proof has expired.
    #[error("the confirmation by password has expired: nothing was changed, do it again")]
    Expired,
    /// The proof authorises another action.
    #[error("the confirmation by password was for something else: nothing was changed, look again and repeat it")]
    OtherAction,
    /// The proof is for another data folder.
    #[error("the confirmation by password was for another data folder: nothing was changed")]
    OtherFolder,
    /// The proof's evidence is not sufficient for this action.
    #[error("this needs the password of the account's key: nothing was changed")]
    NoPassword,
}

/// Proof of the operator's command. It cannot be copied and is consumed by its use.
#[derive(Debug)]
#[must_use = "a proof that is not used authorises nothing"]
pub struct OperatorProof {
    authorises: Authorisation,
    basis: Basis,
    folder: PathBuf,
    made_at: u64,
    expires: Instant,
}

impl OperatorProof {
    /// Creates a proof for exactly `authorises` in the data folder `folder`; `now` is in milliseconds since the Unix
    /// epoch. Only `custody::reauthentication` may call this.
    pub(crate) fn issue(authorises: Authorisation, basis: Basis, folder: &Path, now: u64) -> Self {
        Self { authorises, basis, folder: folder.to_owned(), made_at: now, expires: Instant::now() + LIFETIME }
    }

    /// Consumes the proof and returns its evidence.
    ///
    /// # Errors
    /// [`ProofError`] if it does not authorise `wanted` now.
    pub fn redeem(self, wanted: &Authorisation, now: u64) -> Result<Basis, ProofError> {
        let lifetime = u64::try_from(LIFETIME.as_millis()).unwrap_or(u64::MAX);
        if now < self.made_at || now >= self.made_at.saturating_add(lifetime) || Instant::now() >= self.expires {
            return Err(ProofError::Expired);
        }
        if self.authorises != *wanted {
            return Err(ProofError::OtherAction);
        }
        match &self.basis {
            Basis::Devnet if wanted.is_of_every_network() => Err(ProofError::NoPassword),
            Basis::Passwords(accounts) if wanted.account().is_some_and(|account| !accounts.contains(&account)) => {
                Err(ProofError::NoPassword)
            }
            Basis::Passwords(_) | Basis::NoKeys | Basis::Devnet => Ok(self.basis),
        }
    }

    /// Consumes the proof like [`Self::redeem`], and requires the data folder to match.
    ///
    /// # Errors
    /// [`ProofError`] if it does not authorise `wanted` in `folder` now.
    pub(crate) fn redeem_in(self, folder: &Path, wanted: &Authorisation, now: u64) -> Result<Basis, ProofError> {
        if self.folder != folder {
            return Err(ProofError::OtherFolder);
        }
        self.redeem(wanted, now)
    }

    /// Consumes the proof like [`Self::redeem`]. A proof with [`Basis::Devnet`] is accepted only if `devnet` is true.
    ///
    /// # Errors
    /// [`ProofError`] if it does not authorise `wanted` on such networks now.
    pub fn redeem_on(self, devnet: bool, wanted: &Authorisation, now: u64) -> Result<Basis, ProofError> {
        if self.basis == Basis::Devnet && !devnet {
            return Err(ProofError::NoPassword);
        }
        self.redeem(wanted, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(basis: Basis) -> OperatorProof {
        OperatorProof::issue(Authorisation::ResetBreaker, basis, Path::new("/data"), 1_000)
    }

    #[tokio::test(start_paused = true)]
    async fn a_proof_serves_for_its_action_its_folder_and_its_minute() {
        let wanted = Authorisation::ResetBreaker;
        let by_password = || proof(Basis::Passwords(vec![Address::ZERO]));
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
        assert_eq!(proof(Basis::Devnet).redeem_on(true, &wanted, 1_000), Ok(Basis::Devnet));
        assert_eq!(proof(Basis::Devnet).redeem_on(false, &wanted, 1_000), Err(ProofError::NoPassword));
        let lower = Authorisation::lower_stop(&InForce::None, None);
        let forged = OperatorProof::issue(lower.clone(), Basis::Devnet, Path::new("/data"), 1_000);
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
            let password = |proved| Basis::Passwords(vec![proved]);
            assert!(by(password(account)).redeem(&wanted, 1_000).is_ok());
            assert_eq!(by(password(Address::repeat_byte(2))).redeem(&wanted, 1_000), Err(ProofError::NoPassword));
            // A devnet's proof is not accepted where real money is concerned.
            assert_eq!(by(Basis::Devnet).redeem_on(false, &wanted, 1_000), Err(ProofError::NoPassword));
        }
        // The proof covers the rules that were shown, and no others.
        let [shown, other] = [B256::ZERO, B256::repeat_byte(1)]
            .map(|change| Authorisation::PolicyCage { account, change: Box::new(change) });
        let proof = OperatorProof::issue(shown, Basis::Passwords(vec![account]), Path::new("/data"), 1_000);
        assert_eq!(proof.redeem(&other, 1_000), Err(ProofError::OtherAction));
    }
}
