//! What an account's chain says of it and what the ledger says, side by side; and the operator's word that the chain is
//! right. An account that was used outside of this ledger signs nothing until that word is given (`chain::sender::lane`).
//!
//! Not here: the question to the operator (`cli::reconcile`).

use std::sync::Arc;

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall as _;
use serde::Serialize;
use serde_json::json;

use super::data::{Ledger, LedgerKind};
use super::{OpenWorld, allowances};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::clock::Clock;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_safety::approval::Consent;
use bardo_safety::audit::{self, AuditError, Entry, Kind};
use bardo_safety::operator_proof::{Authorisation, OperatorProof};
use bardo_safety::pipeline::{Asked, Committed, LeftOver};
use bardo_safety::proposal::{AllowanceBound, AllowanceKind, Intent, Leg, Proposal, Purpose};
use bardo_session::handle::AllowancesNow;
use bardo_store::StoreError;
use golem_chain::sender::{self, ChainNonces, LaneError, Sender, SenderError, SenderRules};
use golem_chain::token::TokenId;
use golem_tools::engine::{Acting, ToolDef, WorldChain};

/// Gas that an approval may use, in gas units; tokens behind proxies need more than plain ones.
const FILLER_GAS: u64 = 120_000;

/// One account on one chain, as both tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// The chain's name.
    pub chain: String,
    /// Its EIP-155 id.
    pub chain_id: u64,
    /// The account.
    pub account: Address,
    /// The next nonce by the chain's blocks.
    pub chain_next: u64,
    /// The same, with what waits at the endpoint.
    pub chain_pending: u64,
    /// The next nonce by the ledger; `None` where the account never signed from it.
    pub ledger_next: Option<u64>,
    /// Nonces that the chain has spent and the ledger knows nothing of, the first and the last.
    pub outside: Option<(u64, u64)>,
    /// Whether something that is not in the ledger still waits at the endpoint.
    pub waits_outside: bool,
    /// Spans of nonces, first and last, that the ledger is past and the chain is not, with nothing of the ledger's signed
    /// with them: an endpoint once told too high a nonce.
    pub ahead: Vec<(u64, u64)>,
    /// Nonces of transactions of ours without an end.
    pub open: Vec<u64>,
    /// Nonces given back below those: what waits behind them goes on with the next transaction.
    pub gaps: Vec<u64>,
    /// Allowances that a plan gave before its program ended.
    pub left_over: Vec<LeftOver>,
    /// Everything that others may take of the listed tokens, as the screen shows it.
    pub allowances: AllowancesNow,
}

impl Standing {
    /// Whether the two contradict each other, so that the operator has to say that the chain is right.
    pub fn needs_word(&self) -> bool {
        self.outside.is_some() || self.waits_outside || !self.ahead.is_empty()
    }

    /// What going on from the chain's nonces, as they are here, has to be authorised as.
    pub fn authorisation(&self) -> Authorisation {
        let Self { chain_id, account, chain_next: next, chain_pending: pending, .. } = *self;
        Authorisation::Reconcile { chain_id, account, next, pending }
    }

    /// Whether there is anything to be told.
    pub fn is_even(&self) -> bool {
        !self.needs_word() && self.gaps.is_empty() && self.left_over.is_empty()
    }
}

/// Both sides for one account, on every chain that answers.
///
/// # Errors
/// The ledger cannot be read, or a chain does not answer.
pub async fn standings(
    opened: &OpenWorld,
    ledger: &Ledger,
    clock: &Arc<dyn Clock>,
    account: Address,
    left_over: &[LeftOver],
) -> Result<Vec<Standing>, ToolError> {
    let mut all = Vec::new();
    for chain in opened.world.chains() {
        let seen = sender_to(chain, ledger, clock).nonces(account).await.map_err(untold)?;
        let chain_id = chain.network().chain_id;
        let lane = ledger.store.read(|connection| sender::lane(connection, chain_id, account)).map_err(unread)?;
        let ChainNonces { latest, pending } = seen;
        // An account that is new to the ledger is taken as the chain has it.
        let next = lane.next.unwrap_or(latest);
        // Nonces that were taken here, and that nothing of ours was signed with, may be spent as well.
        let first = lane.free.iter().chain(&lane.reserved).copied().filter(|nonce| *nonce < latest).min();
        let first = first.unwrap_or(next);
        let left_over = left_over.iter().filter(|one| one.chain_id == chain_id && one.owner == account);
        let ahead = ledger.store.read(|connection| sender::ahead(connection, chain_id, account, latest));
        let ahead = ahead.map_err(unread)?;
        all.push(Standing {
            chain: chain.network().name.clone(),
            chain_id,
            account,
            chain_next: latest,
            chain_pending: pending,
            ledger_next: lane.next,
            outside: (first < latest).then(|| (first, latest.saturating_sub(1))),
            waits_outside: pending > next.max(latest),
            ahead,
            gaps: lane.free.iter().copied().filter(|nonce| *nonce >= latest).collect(),
            open: lane.open,
            left_over: left_over.cloned().collect(),
            allowances: allowances::standing(chain, account, &ledger.store).await?,
        });
    }
    Ok(all)
}

/// Why the chain's word was not taken over.
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

/// Goes on from where the chain is, if it still says what was shown; that, and by whom, goes on the trail.
///
/// # Errors
/// It was not proved that the operator decided, the chain says something else now, transactions of ours have no end yet, or something of others still waits.
pub async fn take_over(
    opened: &OpenWorld,
    ledger: &Ledger,
    clock: &Arc<dyn Clock>,
    shown: &Standing,
    by: &str,
    proof: OperatorProof,
) -> Result<(), ToolError> {
    let Standing { chain_id, account, chain_next, chain_pending, .. } = *shown;
    let devnet = ledger.kind == LedgerKind::Devnet;
    let proved = proof.redeem_on(devnet, &shown.authorisation(), clock.now_millis());
    let basis = proved.map_err(|error| ToolError::new(ErrorCode::ApprovalRequired, error))?;
    let by = &format!("{by}, confirmed by {}", basis.as_str());
    let chain = opened.world.chains().iter().find(|chain| chain.network().chain_id == chain_id);
    let chain = chain.ok_or_else(|| ToolError::new(ErrorCode::ChainUnknown, format_args!("chain {chain_id}")))?;
    let seen = sender_to(chain, ledger, clock).nonces(account).await.map_err(untold)?;
    let (by, now, ledger_next) = (by.to_owned(), clock.now_millis(), shown.ledger_next);
    let taken = ledger.store.write(move |transaction| -> Result<(), TakeOverError> {
        if (seen.latest, seen.pending) != (chain_next, chain_pending) {
            return Err(TakeOverError::Changed);
        }
        sender::reconcile(transaction, chain_id, account, seen)?;
        let body = json!({
            "chain_id": chain_id, "account": account, "ledger_next": ledger_next, "chain_next": chain_next, "by": by,
        });
        let entry = Entry { kind: Kind::AccountReconciled, call_id: None, golem_id: &GolemId::operator(), body: &body };
        audit::append(transaction, now, &entry)?;
        Ok(())
    });
    taken.await.map_err(|error| match error {
        TakeOverError::Store(_) | TakeOverError::Audit(_) => ToolError::new(ErrorCode::StoreUnavailable, error),
        TakeOverError::Lane(_) | TakeOverError::Changed => ToolError::new(ErrorCode::ValidationFailed, error),
    })
}

/// Takes an allowance back, or, where there is none, sets to nothing what the account itself may take of its own WETH:
/// either fills the lowest gap, so that what waits behind it goes on, and no endpoint's word decides over an amount. It goes
/// through the whole pipeline like any other write.
///
/// # Errors
/// What stands against it.
pub async fn fill(
    acting: &Acting,
    chain: &WorldChain,
    tool: &ToolDef,
    clock: &dyn Clock,
    left_over: Option<&LeftOver>,
) -> Result<Committed, ToolError> {
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
        intent: Intent::Revoke,
        legs: vec![Leg {
            purpose: Purpose::Main,
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
        expected_outcome: SafeText::clean(&outcome, 200),
    };
    let asked = Asked { phase: Phase::Thriving, own: None };
    let preview = acting.pipeline.preview(proposal, acting.account.clone(), asked).await;
    let permit_id = preview.map_err(|refusal| refusal.error())?.permit.permit_id;
    acting.pipeline.commit(permit_id, Consent::Always).await.map_err(|refusal| refusal.error())
}

/// Asked for nonces only, which no depth concerns.
fn sender_to(chain: &WorldChain, ledger: &Ledger, clock: &Arc<dyn Clock>) -> Sender {
    let rules = SenderRules::for_network(chain.network().kind, chain.network().block_millis);
    Sender::new(chain.client.clone(), ledger.store.clone(), clock.clone(), None, rules)
}

fn untold(error: SenderError) -> ToolError {
    ToolError::new(ErrorCode::ChainUnreachable, error)
}

fn unread(error: LaneError) -> ToolError {
    ToolError::new(ErrorCode::StoreUnavailable, error)
}
