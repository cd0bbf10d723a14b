//! Comparison of an account's on-chain state with the ledger, and the operator's confirmation that the chain is right.
//! An account that was used outside of this ledger signs nothing until that confirmation (`chain::sender::lane`).
//!
//! The operator's prompt is in `cli::reconcile`.

use std::sync::Arc;

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall as _;
use serde::Serialize;
use serde_json::json;

use super::data::{Ledger, LedgerKind};
use super::{OpenEnvironment, allowances};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::clock::Clock;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_safety::approval::Consent;
use bardo_safety::audit::{self, AuditError, AuditKind, LogEntry};
use bardo_safety::operator_proof::{Authorisation, OperatorProof};
use bardo_safety::pipeline::{CommitOutcome, PhaseRequest, UnusedAllowance};
use bardo_safety::proposal::{AllowanceBound, AllowanceKind, LegPurpose, PlanLeg, Proposal, ProposalIntent};
use bardo_session::handle::AllowancesState;
use bardo_store::StoreError;
use golem_chain::sender::{self, ChainNonces, LaneError, SenderRules, TxSender};
use golem_chain::token::TokenId;
use golem_tools::engine::{ConnectedChain, ToolDef, WriteAccess};

/// Gas limit of an approval, in gas units; tokens behind proxies need more than plain ones.
const FILLER_GAS: u64 = 120_000;

/// State of one account on one chain, by chain and by ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccountReconciliation {
    /// Name of the chain.
    pub chain: String,
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Address of the account.
    pub account: Address,
    /// Next nonce by the chain's blocks.
    pub chain_next: u64,
    /// Next nonce including the endpoint's pending transactions.
    pub chain_pending: u64,
    /// Next nonce by the ledger; `None` if the account never signed from it.
    pub ledger_next: Option<u64>,
    /// First and last nonce that the chain has used without the ledger's knowledge.
    pub outside: Option<(u64, u64)>,
    /// True if the endpoint has a pending transaction that is not in the ledger.
    pub waits_outside: bool,
    /// Ranges of nonces (first, last) that the ledger has passed and the chain has not, without a signed transaction:
    /// an endpoint once reported too high a nonce.
    pub ahead: Vec<(u64, u64)>,
    /// Nonces of the ledger's transactions without a final result.
    pub open: Vec<u64>,
    /// Freed nonces below those: transactions behind them continue with the next transaction.
    pub gaps: Vec<u64>,
    /// Allowances that a plan granted before its process ended.
    pub left_over: Vec<UnusedAllowance>,
    /// Allowances on the listed tokens, as the screen shows them.
    pub allowances: AllowancesState,
}

impl AccountReconciliation {
    /// True if chain and ledger contradict each other, so that the operator must confirm the chain's state.
    pub fn needs_operator(&self) -> bool {
        self.outside.is_some() || self.waits_outside || !self.ahead.is_empty()
    }

    /// Authorisation for continuing from the nonces shown here.
    pub fn authorisation(&self) -> Authorisation {
        let Self { chain_id, account, chain_next: next, chain_pending: pending, .. } = *self;
        Authorisation::Reconcile { chain_id, account, next, pending }
    }

    /// True if there is nothing to report.
    pub fn is_even(&self) -> bool {
        !self.needs_operator() && self.gaps.is_empty() && self.left_over.is_empty()
    }
}

/// State of one account on every connected chain.
///
/// # Errors
/// An error if the ledger cannot be read or a chain does not answer.
pub async fn standings(
    opened: &OpenEnvironment,
    ledger: &Ledger,
    clock: &Arc<dyn Clock>,
    account: Address,
    left_over: &[UnusedAllowance],
) -> Result<Vec<AccountReconciliation>, ToolError> {
    let mut all = Vec::new();
    for chain in opened.world.chains() {
        // The nonces are those of the key that signs: a Safe's own number counts its calls.
        let signer = opened.world.signer_of(account);
        let seen = sender_to(chain, ledger, clock).nonces(signer).await?;
        let chain_id = chain.network().chain_id;
        let lane = ledger.store.read(|connection| sender::lane(connection, chain_id, signer)).map_err(unread)?;
        let ChainNonces { latest, pending } = seen;
        // For an account that is new to the ledger, the chain's nonce applies.
        let next = lane.next.unwrap_or(latest);
        // Nonces that were reserved here but never signed with may have been used elsewhere, too.
        let first = lane.free.iter().chain(&lane.reserved).copied().filter(|nonce| *nonce < latest).min();
        let first = first.unwrap_or(next);
        let left_over = left_over.iter().filter(|one| one.chain_id == chain_id && one.owner == account);
        let ahead = ledger.store.read(|connection| sender::ahead(connection, chain_id, signer, latest));
        let ahead = ahead.map_err(unread)?;
        all.push(AccountReconciliation {
            chain: chain.network().name.clone(),
            chain_id,
            account: signer,
            chain_next: latest,
            chain_pending: pending,
            ledger_next: lane.next,
            outside: (first < latest).then(|| (first, latest.saturating_sub(1))),
            waits_outside: pending > next.max(latest),
            ahead,
            gaps: lane.free.iter().copied().filter(|nonce| *nonce >= latest).collect(),
            open: lane.open,
            left_over: left_over.cloned().collect(),
            allowances: allowances::read_allowances(chain, account, &ledger.store).await?,
        });
    }
    Ok(all)
}

/// Errors of adopting the chain's nonces.
#[derive(Debug, thiserror::Error)]
enum TakeOverError {
    #[error(transparent)]
    Lane(#[from] LaneError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error("the chain's state has changed since it was shown: read it again and answer again")]
    Changed,
}

/// Continues from the chain's nonces if they are still those that were shown. The change and its author are recorded in
/// the audit log.
///
/// # Errors
/// An error if the proof is invalid, the chain's state has changed, a transaction of the ledger has no final result, or
/// a foreign transaction is still pending.
pub async fn take_over(
    opened: &OpenEnvironment,
    ledger: &Ledger,
    clock: &Arc<dyn Clock>,
    shown: &AccountReconciliation,
    by: &str,
    proof: OperatorProof,
) -> Result<(), ToolError> {
    let AccountReconciliation { chain_id, account, chain_next, chain_pending, .. } = *shown;
    let devnet = ledger.kind == LedgerKind::Devnet;
    let proved = proof.redeem_on(devnet, &shown.authorisation(), clock.now_millis());
    let basis = proved.map_err(|error| ToolError::new(ErrorCode::ApprovalRequired, error))?;
    let by = &format!("{by}, confirmed by {}", basis.as_str());
    let chain = opened.world.chains().iter().find(|chain| chain.network().chain_id == chain_id);
    let chain = chain.ok_or_else(|| ToolError::new(ErrorCode::ChainUnknown, format_args!("chain {chain_id}")))?;
    let seen = sender_to(chain, ledger, clock).nonces(account).await?;
    let (by, now, ledger_next) = (by.to_owned(), clock.now_millis(), shown.ledger_next);
    let taken = ledger.store.write(move |transaction| -> Result<(), TakeOverError> {
        if (seen.latest, seen.pending) != (chain_next, chain_pending) {
            return Err(TakeOverError::Changed);
        }
        sender::reconcile(transaction, chain_id, account, seen)?;
        let body = json!({
            "chain_id": chain_id, "account": account, "ledger_next": ledger_next, "chain_next": chain_next, "by": by,
        });
        let entry =
            LogEntry { kind: AuditKind::AccountReconciled, call_id: None, golem_id: &GolemId::operator(), body: &body };
        audit::append(transaction, now, &entry)?;
        Ok(())
    });
    taken.await.map_err(|error| match error {
        TakeOverError::Store(_) | TakeOverError::Audit(_) => ToolError::new(ErrorCode::StoreUnavailable, error),
        TakeOverError::Lane(_) | TakeOverError::Changed => ToolError::new(ErrorCode::ValidationFailed, error),
    })
}

/// Fills the lowest gap in the nonces, so that later transactions continue. Revokes the given allowance, or else sets
/// the account's WETH allowance to itself to zero, so that no endpoint's answer determines an amount. The write passes
/// the whole pipeline.
///
/// # Errors
/// The refusal of the pipeline.
pub async fn fill(
    acting: &WriteAccess,
    chain: &ConnectedChain,
    tool: &ToolDef,
    clock: &dyn Clock,
    left_over: Option<&UnusedAllowance>,
) -> Result<CommitOutcome, ToolError> {
    let account = acting.account.address();
    let network = chain.network();
    let token = match left_over {
        Some(one) => chain.token(&one.token.to_string()).await?,
        None => chain.token("WETH").await?,
    };
    let TokenId::Erc20(contract) = token.id else {
        return Err(ToolError::new(
            ErrorCode::ValidationFailed,
            "there is no token for a transaction that fills the nonce gap",
        ));
    };
    let spender = left_over.map_or(account, |one| one.spender);
    let inside = left_over.and_then(|one| one.inside);
    let (to, kind, data): (_, _, Bytes) = match inside {
        None => (contract, AllowanceKind::Erc20, Erc20::approveCall { spender, value: U256::ZERO }.abi_encode().into()),
        Some(permit2) => {
            let approvals = vec![Permit2::TokenSpenderPair { token: contract, spender }];
            let data = Permit2::lockdownCall { approvals }.abi_encode().into();
            (permit2, AllowanceKind::Permit2 { expires_at: 0 }, data)
        }
    };
    let through = if inside.is_some() { " through Permit2" } else { "" };
    let outcome = format!("{spender} may take nothing of {contract}{through}");
    let proposal = Proposal {
        chain_id: network.chain_id,
        tool: tool.meta,
        call_id: CallId::new(clock.now_millis()),
        golem_id: GolemId::operator(),
        account,
        intent: ProposalIntent::Revoke,
        legs: vec![PlanLeg {
            purpose: LegPurpose::Main,
            to,
            value: U256::ZERO,
            data,
            gas_limit: FILLER_GAS,
            slots: Vec::new(),
        }],
        outflows: Vec::new(),
        inflows: Vec::new(),
        allowances: vec![AllowanceBound { token, spender, kind, at_most: U256::ZERO }],
        trade: None,
        recipients: vec![account],
        order: None,
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: SafeText::clean(&outcome, 200),
    };
    let asked = PhaseRequest { phase: Phase::Thriving, own: None };
    let preview = acting.pipeline.preview(proposal, acting.account.clone(), asked).await;
    let permit_id = preview.map_err(|refusal| refusal.error())?.permit.permit_id;
    acting.pipeline.commit(permit_id, Consent::Always).await.map_err(|refusal| refusal.error())
}

/// Reads nonces only, for which confirmations are irrelevant.
fn sender_to(chain: &ConnectedChain, ledger: &Ledger, clock: &Arc<dyn Clock>) -> TxSender {
    let rules = SenderRules::for_network(chain.network().kind, chain.network().block_millis);
    TxSender::new(chain.client.clone(), ledger.store.clone(), clock.clone(), None, rules)
}

fn unread(error: LaneError) -> ToolError {
    ToolError::new(ErrorCode::StoreUnavailable, error)
}
