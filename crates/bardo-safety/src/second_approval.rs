//! Second approval: above an amount that the policy sets, an action needs the signature of a second operator, made with
//! a key that is not the account's.
//!
//! The second operator signs typed data ([EIP-712](https://eips.ethereum.org/EIPS/eip-712)) over the exact decision: the
//! hash of the permit, which binds every byte that the account would sign, and chain, account, permit, policy and
//! deadline. The session that signs the action verifies this signature against the addresses that its policy names when
//! it arrives, before the commit, and inside the database transaction that consumes the permit. Whoever delivers it
//! needs no rights.
//!
//! A second approval is kept in memory with its request. It ends with the request, at its deadline, with any change of
//! the policy, and when another simulation finds anything worse than what was signed.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use alloy::primitives::{Address, B256, Signature, U256, hex};
use alloy::sol_types::{Eip712Domain, SolStruct, eip712_domain};
use serde::Serialize;
use serde_json::{Value, json};

use crate::approval::worsening::worsenings;
use crate::pipeline::Preview;
use crate::policy::{FieldChange, Policy};
use bardo_abi::second_approval::{SecondApproval, SecondApprovalOfPolicy};
use bardo_base::id::PermitId;
use bardo_base::signer::signer_of;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// Name of the EIP-712 domain.
const DOMAIN: &str = "Bardo second approval";
/// Version of the EIP-712 domain.
const VERSION: &str = "1";
/// Length of a signature, in bytes.
const BYTES: usize = 65;
/// Longest time between now and the deadline of an approval of a policy, in milliseconds.
pub const LONGEST_POLICY_APPROVAL: u64 = 3_600_000;

/// Maximum length of the changes of a policy in words, in characters. The hash of the policy binds the rest as well.
const LONGEST_CHANGES: usize = 20_000;

/// Second approval that an action needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondRequirement {
    /// Dollars above which the policy asks for it; `None` for an action that changes who has authority, or whose value
    /// is unknown.
    pub above: Option<Usd>,
    /// Addresses whose signature counts; one of them is enough.
    pub approvers: BTreeSet<Address>,
}

/// Decision that a second operator signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecondStatement {
    /// Approval of one action.
    Action {
        /// Account that acts.
        account: Address,
        /// EIP-155 id of the chain.
        chain_id: u64,
        /// Permit of the action.
        permit_id: PermitId,
        /// Hash of the permit, over everything that would be signed.
        action: B256,
        /// Hash of the policy.
        policy: B256,
        /// Expected outcome, in one sentence. The hash covers it, too.
        outcome: SafeText,
        /// Time at which the approval ends, in milliseconds since the Unix epoch.
        deadline: u64,
    },
    /// Approval of a policy that permits more.
    Policy {
        /// Hash of the policy in force.
        from: B256,
        /// Hash of the new policy.
        to: B256,
        /// Hash of the audit log's newest entry about a policy. It differs between ledgers, and changes with every
        /// decision about the policy, so that no approval counts twice.
        entry: B256,
        /// Every change of a field, in words: what a wallet shows to its owner.
        changes: SafeText,
        /// Time at which the approval ends, in milliseconds since the Unix epoch.
        deadline: u64,
    },
}

/// Signature of a second operator: `r ‖ s ‖ v`, with a low `s` and v 27 or 28.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecondSignature(Signature);

/// Reason that a second approval does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecondError {
    /// The text is not a signature.
    #[error(
        "not a signature: expected 0x and 130 hexadecimal digits (r, s, and v of 1b or 1c), with the lower of the two \
         values of s"
    )]
    Malformed,
    /// No key makes such a signature.
    #[error("the signature belongs to no key: sign exactly the typed data of this decision")]
    NoSigner,
    /// The signer is not named in the policy.
    #[error(
        "signed by {signer}, which second_approval.approvers does not name, or over other data than this decision. \
         Approvers: {}",
        list(approvers)
    )]
    NotApprover {
        /// Address of the key that made the signature.
        signer: Address,
        /// Addresses that the policy names.
        approvers: Vec<Address>,
    },
    /// The signer acts itself.
    #[error("{0} is the account that acts: the second approval must come from another key")]
    OwnKey(Address),
    /// The deadline has passed, or is too far away.
    #[error("the second approval's deadline has passed, or is more than an hour away")]
    Late,
    /// The request has ended, or changed for the worse since.
    #[error("this decision has ended or changed: review it again before approving")]
    Over,
    /// The request needs none.
    #[error("this decision needs no second approval")]
    NotNeeded,
    /// Another one was given already.
    #[error("{0} has given the second approval already")]
    Given(Address),
    /// It cannot be recorded.
    #[error("the second approval could not be recorded in the audit log, so it does not count: {0}")]
    Unrecorded(String),
    /// None was given.
    #[error("a second approval is missing: one of {} must sign with `bardo approve`", list(.0))]
    Missing(Vec<Address>),
}

fn list(addresses: &[Address]) -> String {
    addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(", ")
}

impl SecondRequirement {
    /// Error for an action without a second approval.
    pub fn missing(&self) -> SecondError {
        SecondError::Missing(self.approvers.iter().copied().collect())
    }
}

impl SecondStatement {
    /// Statement about the action of `preview`.
    pub fn of(preview: &Preview, deadline: u64) -> Self {
        let proposal = preview.payload.proposal();
        Self::Action {
            account: preview.payload.account(),
            chain_id: proposal.chain_id,
            permit_id: preview.permit.permit_id,
            action: preview.permit.simulation_hash,
            policy: preview.policy,
            outcome: proposal.expected_outcome.clone(),
            deadline,
        }
    }

    /// Statement about the policy `to`, which is to replace `from`. `entry` is the hash of the audit log's newest entry
    /// about a policy, and `deadline` is in milliseconds since the Unix epoch.
    pub fn of_policy(from: &Policy, to: &Policy, entry: B256, deadline: u64) -> Self {
        let change = |change: FieldChange| format!("{}: {} → {}", change.field, change.from, change.to);
        let changes = from.changes(to).into_iter().map(change).collect::<Vec<_>>().join("; ");
        Self::Policy {
            from: from.hash(),
            to: to.hash(),
            entry,
            changes: SafeText::clean(&changes, LONGEST_CHANGES),
            deadline,
        }
    }

    /// Time at which the approval ends, in milliseconds since the Unix epoch.
    pub const fn deadline(&self) -> u64 {
        match self {
            Self::Action { deadline, .. } | Self::Policy { deadline, .. } => *deadline,
        }
    }

    fn domain(&self) -> Eip712Domain {
        match self {
            Self::Action { chain_id, .. } => {
                eip712_domain! { name: DOMAIN, version: VERSION, chain_id: *chain_id, }
            }
            Self::Policy { .. } => eip712_domain! { name: DOMAIN, version: VERSION, },
        }
    }

    /// EIP-712 signing hash.
    pub fn digest(&self) -> B256 {
        let domain = self.domain();
        match self {
            Self::Action { account, chain_id, permit_id, action, policy, outcome, deadline } => SecondApproval {
                account: *account,
                chainId: U256::from(*chain_id),
                permit: permit_id.to_string(),
                action: *action,
                policy: *policy,
                outcome: outcome.to_string(),
                deadline: U256::from(*deadline),
            }
            .eip712_signing_hash(&domain),
            Self::Policy { from, to, entry, changes, deadline } => SecondApprovalOfPolicy {
                from: *from,
                to: *to,
                entry: *entry,
                changes: changes.to_string(),
                deadline: U256::from(*deadline),
            }
            .eip712_signing_hash(&domain),
        }
    }

    /// Typed data as wallets take it (`eth_signTypedData_v4`), for signing on another device.
    pub fn typed_data(&self) -> Value {
        let field = |name: &str, kind: &str| json!({ "name": name, "type": kind });
        let mut domain_type = vec![field("name", "string"), field("version", "string")];
        let mut domain = json!({ "name": DOMAIN, "version": VERSION });
        let (kind, fields, message) = match self {
            Self::Action { account, chain_id, permit_id, action, policy, outcome, deadline } => {
                domain_type.push(field("chainId", "uint256"));
                if let Some(domain) = domain.as_object_mut() {
                    domain.insert("chainId".to_owned(), json!(chain_id));
                }
                let fields = [
                    field("account", "address"),
                    field("chainId", "uint256"),
                    field("permit", "string"),
                    field("action", "bytes32"),
                    field("policy", "bytes32"),
                    field("outcome", "string"),
                    field("deadline", "uint256"),
                ];
                let message = json!({
                    "account": account, "chainId": chain_id.to_string(), "permit": permit_id, "action": action,
                    "policy": policy, "outcome": outcome, "deadline": deadline.to_string(),
                });
                ("SecondApproval", fields.to_vec(), message)
            }
            Self::Policy { from, to, entry, changes, deadline } => {
                let fields = [
                    field("from", "bytes32"),
                    field("to", "bytes32"),
                    field("entry", "bytes32"),
                    field("changes", "string"),
                    field("deadline", "uint256"),
                ];
                let message = json!({
                    "from": from, "to": to, "entry": entry, "changes": changes, "deadline": deadline.to_string(),
                });
                ("SecondApprovalOfPolicy", fields.to_vec(), message)
            }
        };
        json!({
            "types": { "EIP712Domain": domain_type, (kind): fields },
            "primaryType": kind, "domain": domain, "message": message,
        })
    }

    /// Verifies that one of `approvers`, and none of `own`, signed this statement, and that it is still valid at `now`.
    /// Returns the approver.
    ///
    /// # Errors
    /// [`SecondError`] if the signature does not count.
    pub fn verify(
        &self,
        signature: &SecondSignature,
        approvers: &BTreeSet<Address>,
        own: &[Address],
        now: u64,
    ) -> Result<Address, SecondError> {
        let signer = signer_of(&signature.0, &self.digest()).ok_or(SecondError::NoSigner)?;
        if own.contains(&signer) {
            return Err(SecondError::OwnKey(signer));
        }
        if !approvers.contains(&signer) {
            return Err(SecondError::NotApprover { signer, approvers: approvers.iter().copied().collect() });
        }
        if now >= self.deadline() {
            return Err(SecondError::Late);
        }
        Ok(signer)
    }
}

impl SecondSignature {
    /// Takes a signature with a low `s`.
    ///
    /// # Errors
    /// [`SecondError::Malformed`] for a high one: every signature has one form here.
    pub fn new(signature: Signature) -> Result<Self, SecondError> {
        match signature.normalize_s() {
            None => Ok(Self(signature)),
            Some(_) => Err(SecondError::Malformed),
        }
    }
}

impl FromStr for SecondSignature {
    type Err = SecondError;

    fn from_str(text: &str) -> Result<Self, SecondError> {
        let digits = text.strip_prefix("0x").ok_or(SecondError::Malformed)?;
        let bytes: [u8; BYTES] = hex::decode_to_array(digits).map_err(|_| SecondError::Malformed)?;
        let [.., 27 | 28] = bytes else { return Err(SecondError::Malformed) };
        Self::new(Signature::from_raw_array(&bytes).map_err(|_| SecondError::Malformed)?)
    }
}

impl fmt::Display for SecondSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode_prefixed(self.0.as_bytes()))
    }
}

impl Serialize for SecondSignature {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Second approval of an action that was given and verified.
#[derive(Debug, Clone)]
pub struct GivenApproval {
    /// Preview that was signed. A later one of the same request may take its place if nothing in it is worse.
    signed: Arc<Preview>,
    deadline: u64,
    signature: SecondSignature,
    by: Address,
    at: u64,
}

impl PartialEq for GivenApproval {
    fn eq(&self, other: &Self) -> bool {
        (self.statement(), self.signature) == (other.statement(), other.signature)
    }
}

impl Eq for GivenApproval {}

impl GivenApproval {
    /// Verifies the signature of a second operator over `signed`.
    ///
    /// # Errors
    /// [`SecondError`] if it does not count.
    pub(crate) fn new(
        signed: Arc<Preview>,
        deadline: u64,
        signature: SecondSignature,
        now: u64,
    ) -> Result<Self, SecondError> {
        let requirement = signed.second.as_ref().ok_or(SecondError::NotNeeded)?;
        let statement = SecondStatement::of(&signed, deadline);
        let by = statement.verify(&signature, &requirement.approvers, &signed.payload.exposed(), now)?;
        Ok(Self { signed, deadline, signature, by, at: now })
    }

    fn statement(&self) -> SecondStatement {
        SecondStatement::of(&self.signed, self.deadline)
    }

    /// Address that approved.
    pub fn by(&self) -> Address {
        self.by
    }

    /// Time at which it was given, in milliseconds since the Unix epoch.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Preview that was signed.
    pub(crate) fn preview(&self) -> &Preview {
        &self.signed
    }

    /// Permit that was signed for.
    pub(crate) fn permit_id(&self) -> PermitId {
        self.signed.permit.permit_id
    }

    /// Verifies again that it covers `preview` under `requirement` at `now`.
    ///
    /// # Errors
    /// [`SecondError`] if the signature does not count, or if anything is worse than what was signed.
    pub(crate) fn verify(
        &self,
        preview: &Preview,
        requirement: &SecondRequirement,
        now: u64,
    ) -> Result<(), SecondError> {
        let own = preview.payload.exposed();
        self.statement().verify(&self.signature, &requirement.approvers, &own, now)?;
        let same = SecondStatement::of(preview, self.deadline) == self.statement();
        if self.signed.policy != preview.policy || !(same || worsenings(&self.signed, preview).is_empty()) {
            return Err(SecondError::Over);
        }
        Ok(())
    }

    /// Returns what the audit log records: approver, signature and statement, from which anyone can verify it.
    pub(crate) fn to_json(&self) -> Value {
        let statement = self.statement();
        json!({
            "by": self.by, "at": self.at, "permit_id": self.permit_id(), "signature": self.signature,
            "digest": statement.digest(), "statement": statement.typed_data()["message"],
        })
    }
}

/// Second approval of a policy that was given and verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GivenPolicyApproval {
    pub statement: SecondStatement,
    pub signature: SecondSignature,
    pub by: Address,
    pub at: u64,
}

impl GivenPolicyApproval {
    /// Returns what the audit log records.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "by": self.by, "at": self.at, "signature": self.signature, "digest": self.statement.digest(),
            "statement": self.statement.typed_data()["message"],
        })
    }
}

#[cfg(test)]
mod tests;
