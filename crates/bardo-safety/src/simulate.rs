//! Simulation of a signing payload on a fork of the current chain state, and comparison with its declaration. The
//! action's class and its exemptions follow from here, not from the tool.
//!
//! | file | contents |
//! |---|---|
//! | here | simulation requests and results |
//! | `judge` | every change compared with the declaration; `judge::allowances` for allowances |
//! | `class` | action classes |
//! | `declared` | faults that show without a simulation |
//! | `figures` | amounts in faults, for display |
//! | `order` | faults of an order, and its worst settlement |
//! | `balance_changes` | simulation results for display and the audit log |
//!
//! An account that a signature exposes (account, signer, payer) must not lose, gain, allow or set anything that the
//! proposal does not declare.

mod balance_changes;
mod class;
mod declared;
mod figures;
mod judge;
mod order;
pub(crate) use balance_changes::least_out;

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, U256};

use super::custody::safe;
use super::lending_calls::{self, LendingContext, LendingEffects};
use super::position_calls::PositionManagers;
use super::proposal::Proposal;
use super::registry_calls::Registries;
use super::signing_payload::SigningPayload;
use bardo_base::error::Violation;
use bardo_base::model::ActionClass;
use bardo_base::model::RuleName;
use bardo_base::text::SafeText;
use golem_chain::evm::SignaturePlaceholder;
use golem_chain::fork::{
    BalanceDelta, CallFees, Fork, ForkCall, ForkError, PinnedBlock, Simulation, SimulationOptions, SlotOverride,
    WatchList,
};
use golem_chain::token::TokenId;

pub use declared::{declared, spender_fault};
pub(crate) use figures::{figure, figure_of, name, when};
pub use judge::judge;
pub use order::{order_faults, reactor_role, settler};

/// Maximum length of a fault's text, in characters.
const MAX_FAULT: usize = 500;

/// Passing alternative for an action that does something undeclared.
const HONEST: &str = "an action that does only what it declares";

/// Effects of a signing payload.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedEffects {
    /// Block that the simulation ran on.
    pub pinned: PinnedBlock,
    /// Gas used by all transactions together, in gas units. An order's settlement is not included.
    pub gas_used: u64,
    /// Cost of that gas in wei, at the payload's maximum priority fee and the current base fee.
    pub gas_cost: U256,
    /// Action class, derived from the changes.
    pub class: ActionClass,
    /// True for an exit: the account itself receives an exit asset, or what it withdraws from its own position, and no
    /// allowance increases. The price may be unfair.
    pub leaves: bool,
    /// True for a fair exit: [`Self::leaves`], and the price is fair.
    pub reduce_only: bool,
    /// True if the action only revokes, cancels or refunds: by its intent and calldata ([`super::revocation`]), and the
    /// simulation shows nothing else.
    pub only_revokes: bool,
    /// Balance changes of the account, without gas.
    pub moves: Vec<TokenMove>,
    /// Other addresses that own more of something afterwards.
    pub paid: Vec<Address>,
    /// Changes of the account's debt and its security in the lending market; `None` for any other action.
    pub lending: Option<LendingEffects>,
    /// Complete result of the fork.
    pub simulation: Simulation,
}

/// Balance of one token before and after, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenMove {
    /// Token of the balance.
    pub token: TokenId,
    /// Balance before the action.
    pub before: U256,
    /// Balance after the action; for the native token without its gas cost.
    pub after: U256,
}

/// Returns true if the proposal declares an exit: the account receives an exit asset for a risky token or ETH.
pub fn declares_exit(proposal: &Proposal, around: &JudgeContext) -> bool {
    class::declared_class(proposal, false, around) == ActionClass::ClosePosition
}

/// Context for judging a simulation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JudgeContext {
    /// Permit2 contract whose allowances a proposal may declare.
    pub permit2: Option<Address>,
    /// Contract that wraps the native token.
    pub wrapped: Option<Address>,
    /// Dollar stablecoins of the chain.
    pub stables: BTreeSet<Address>,
    /// Fee recipient of the simulated block, which receives the transactions' tips.
    pub producer: Option<Address>,
    /// Amounts that signed orders of the account may still take through Permit2, by token, in raw units.
    pub promised: BTreeMap<Address, U256>,
    /// Settler of bridge orders in the address book.
    pub settler: Option<Address>,
    /// Tokens whose `approve` sets an allowance: those of the address book, those that the policy names, those on which
    /// this ledger's account has set one, and any contract that the operator calls directly. Other contracts of the
    /// address book are excluded: in a position manager the same calldata approves one position.
    pub known_tokens: BTreeSet<Address>,
    /// Registries of agents in the address book.
    pub registries: Registries,
    /// Position managers in the address book.
    pub position_managers: PositionManagers,
    /// Pool that a deposit into a liquidity position goes to, by its tokens and fee.
    pub deposit_pool: Option<Address>,
    /// Lending market in the address book.
    pub lending: Option<LendingContext>,
    /// Shifts of the account's balances by paper actions; empty for a real action.
    pub shifts: Vec<BalanceDelta>,
}

impl JudgeContext {
    /// Returns the amount that signed orders may still take through the allowance of `spender`, in raw units. Only
    /// Permit2 has such an amount.
    pub fn promised_to(&self, token: TokenId, spender: Address) -> U256 {
        match token {
            TokenId::Erc20(token) if self.permit2 == Some(spender) => {
                self.promised.get(&token).copied().unwrap_or_default()
            }
            TokenId::Erc20(_) | TokenId::Native => U256::ZERO,
        }
    }
}

/// Difference between an action and its declaration, which blocks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclarationFault {
    /// Rule that the action violates.
    pub rule: RuleName,
    /// Declared or required state.
    pub declared: SafeText,
    /// State that was found.
    pub found: SafeText,
    /// Alternative that would pass.
    pub would_pass: SafeText,
}

impl DeclarationFault {
    pub(super) fn new(rule: RuleName, declared: impl ToString, found: impl ToString) -> Self {
        let clean = |text: String| SafeText::clean(&text, MAX_FAULT);
        let would_pass = clean(HONEST.to_owned());
        Self { rule, declared: clean(declared.to_string()), found: clean(found.to_string()), would_pass }
    }

    /// Replaces the alternative that would pass.
    #[must_use]
    pub(super) fn passing(mut self, would_pass: impl ToString) -> Self {
        self.would_pass = SafeText::clean(&would_pass.to_string(), MAX_FAULT);
        self
    }

    /// Converts the fault into a violation of an error response.
    pub fn violation(&self) -> Violation {
        Violation::new(self.rule, self.declared.to_string(), self.found.to_string(), self.would_pass.to_string())
    }
}

/// Simulates the transactions from index `from`, then the worst settlement of the order if there is one. Every declared
/// token and spender is queried, whether it changes or not. `nonce` is the signer's nonce on the pinned block.
///
/// # Errors
/// [`ForkError`] if the simulation cannot be run; then nothing is known of the action's effects.
pub async fn run(
    fork: &Fork,
    payload: &SigningPayload,
    from: usize,
    nonce: u64,
    around: &JudgeContext,
) -> Result<Simulation, ForkError> {
    let mut calls = transactions(payload, from, nonce);
    let slots = payload.legs().iter().flat_map(|leg| &leg.slots);
    let chain_id = payload.proposal().chain_id;
    let mut signatures: Vec<SignaturePlaceholder> =
        slots.map(|slot| SignaturePlaceholder { digest: slot.message.digest(chain_id), signer: slot.signer }).collect();
    let unlikely = |error: order::SettlementError| ForkError::Machine(SafeText::clean(&error.to_string(), MAX_FAULT));
    if let Some(settlement) = order::worst(payload, &fork.next_block(), around).map_err(unlikely)? {
        calls.extend(settlement.calls);
        signatures.extend(settlement.signatures);
    }
    calls.extend(lending_calls::probes(payload, from, around));
    let judged = calls.len();
    calls.extend(lending_calls::reads_ahead(payload, from, around));
    let shifts = around.shifts.clone();
    let (watch, slots) = (watch(payload), agreeing(payload));
    let options = SimulationOptions { watch, signatures, shifts, slots, ..SimulationOptions::default() };
    let mut simulation = fork.simulate_with(&calls, &options).await?;
    simulation.outcomes.truncate(judged);
    Ok(simulation)
}

/// Returns the storage with which a simulation counts the other owners of a Safe as agreeing to a proposal: as if the Safe
/// needed one owner. Empty for any other action: an execution is simulated with its real signatures.
pub(crate) fn agreeing(payload: &SigningPayload) -> Vec<SlotOverride> {
    match payload.proposes_to_safe() {
        true => vec![SlotOverride { contract: payload.account(), slot: safe::THRESHOLD_SLOT, value: U256::ONE }],
        false => Vec::new(),
    }
}

/// Returns the transactions from index `from` as the signer would send them from this nonce on.
pub(crate) fn transactions(payload: &SigningPayload, from: usize, nonce: u64) -> Vec<ForkCall> {
    let bound = payload.fees();
    let fees = CallFees::Dynamic { max_fee: bound.max_fee_per_gas, max_priority_fee: bound.max_priority_fee_per_gas };
    let legs = (nonce..).zip(payload.legs().iter().skip(from));
    legs.map(|(nonce, leg)| {
        ForkCall::new(leg.from, leg.to, leg.data.clone())
            .with_value(leg.value)
            .with_gas_limit(leg.gas_limit)
            .paid(nonce, fees)
    })
    .collect()
}

/// Watches every declared token and spender, and every exposed or receiving address.
fn watch(payload: &SigningPayload) -> WatchList {
    let proposal = payload.proposal();
    let flows = proposal.outflows.iter().map(|flow| flow.token.id);
    let inflows = proposal.inflows.iter().map(|inflow| inflow.token.id);
    let allowances = proposal.allowances.iter().map(|bound| bound.token.id);
    let tokens: BTreeSet<Address> = flows
        .chain(inflows)
        .chain(allowances)
        .filter_map(|id| match id {
            TokenId::Native => None,
            TokenId::Erc20(address) => Some(address),
        })
        .collect();
    let receivers = proposal.inflows.iter().map(|inflow| inflow.recipient).chain(proposal.recipients.iter().copied());
    let owners: BTreeSet<Address> = payload.exposed().into_iter().chain(receivers).collect();
    let spenders: BTreeSet<Address> = proposal.allowances.iter().map(|bound| bound.spender).collect();
    WatchList {
        tokens: tokens.into_iter().collect(),
        owners: owners.into_iter().collect(),
        spenders: spenders.into_iter().collect(),
    }
}
