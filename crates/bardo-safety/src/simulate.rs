//! What the framed bytes do on a fork of the chain as it is, held against what was declared. The
//! class of an action and what it is exempt from follow from here, not from what a tool says.
//!
//! | file | holds |
//! |---|---|
//! | here | what is asked of the fork, and what an answer is |
//! | `judge` | every change against the declaration; `judge::allowances` what others may take |
//! | `class` | what a set of moves is |
//! | `declared` | what shows before anything is run |
//! | `figures` | amounts in faults, for a person |
//! | `order` | the same for an order that others settle, and its worst settlement |
//! | `told` | what was found, for people and for the trail |
//!
//! Whoever is exposed by a signature (account, signer,
//! payer) may lose, gain, allow or set nothing that the proposal does not declare.

mod class;
mod declared;
mod figures;
mod judge;
mod order;
mod told;
pub(crate) use told::least_out;

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, U256};

use super::framed::Framed;
use super::proposal::Proposal;
use bardo_base::error::Violation;
use bardo_base::model::ActionClass;
use bardo_base::model::RuleName;
use bardo_base::text::SafeText;
use golem_chain::evm::StandIn;
use golem_chain::fork::{BalanceShift, Call, Fees, Fork, ForkError, Options, Pinned, Simulation, Watch};
use golem_chain::token::TokenId;

pub use declared::{declared, spender_fault};
pub(crate) use figures::{figure, figure_of, name, when};
pub use judge::judge;
pub use order::{order_faults, reactor_role, settler};

/// Characters kept of one fault.
const MAX_FAULT: usize = 500;

/// What would pass where an action does something that it does not declare.
const HONEST: &str = "an action that does what it declares and nothing else";

/// What the framed bytes do.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The block it was run on.
    pub pinned: Pinned,
    /// Gas of all legs together, in gas units.
    pub gas_used: u64,
    /// What that gas costs at the frame's bound, in wei.
    pub gas_cost: U256,
    /// The class of the action, derived from the changes.
    pub class: ActionClass,
    /// Whether it only leaves positions: what comes in is an exit asset, it comes to the account
    /// itself, and no allowance is left that was not there. Whether the price is fair is not in it.
    pub leaves: bool,
    /// [`Self::leaves`], and the price is fair.
    pub reduce_only: bool,
    /// Whether it only revokes, cancels or refunds: by its intent and calldata ([`super::revocation`]), with nothing in
    /// the simulation against it.
    pub takes_back: bool,
    /// What every balance of the account moved by, gas apart.
    pub moves: Vec<Move>,
    /// Who else has more of something afterwards.
    pub paid: Vec<Address>,
    /// The whole answer of the fork.
    pub simulation: Simulation,
}

/// A balance of the account before and after, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Which token.
    pub token: TokenId,
    /// Before.
    pub before: U256,
    /// After; for the native coin as if gas were free.
    pub after: U256,
}

/// Whether a proposal declares that it only leaves positions: for a risky token, or ETH, an exit asset comes to the account.
pub fn declares_exit(proposal: &Proposal, around: &Surroundings) -> bool {
    class::declared_class(proposal, false, around) == ActionClass::ClosePosition
}

/// What is known of the chain, for judging what changed on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// The one Permit2 contract whose allowances a proposal may declare.
    pub permit2: Option<Address>,
    /// The contract that wraps the native coin.
    pub wrapped: Option<Address>,
    /// Dollar coins.
    pub stables: BTreeSet<Address>,
    /// Who makes the block that was simulated, and has the tips of its transactions.
    pub producer: Option<Address>,
    /// What signed orders of the account may still take through Permit2, by token, in raw units.
    pub promised: BTreeMap<Address, U256>,
    /// The settler of bridge orders in the address book.
    pub settler: Option<Address>,
    /// Tokens whose `approve` sets an allowance: those of the address book, those that the policy names, those of which
    /// the account has allowed something from this ledger, and any that the operator's own hand calls. No other contract
    /// of the address book is among them: in a position manager the same bytes approve one position.
    pub known_tokens: BTreeSet<Address>,
    /// Shifts of the account's balances by actions on paper; empty for a real action.
    pub shifts: Vec<BalanceShift>,
}

impl Surroundings {
    /// What signed orders may still take of a token by the allowance that `spender` has of it: Permit2's alone.
    pub fn promised_to(&self, token: TokenId, spender: Address) -> U256 {
        match token {
            TokenId::Erc20(token) if self.permit2 == Some(spender) => {
                self.promised.get(&token).copied().unwrap_or_default()
            }
            TokenId::Erc20(_) | TokenId::Native => U256::ZERO,
        }
    }
}

/// Something that stands against an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What, in a word.
    pub rule: RuleName,
    /// What was declared.
    pub declared: SafeText,
    /// What happens.
    pub found: SafeText,
    /// What would pass.
    pub would_pass: SafeText,
}

impl Fault {
    pub(super) fn new(rule: RuleName, declared: impl ToString, found: impl ToString) -> Self {
        let clean = |text: String| SafeText::clean(&text, MAX_FAULT);
        let would_pass = clean(HONEST.to_owned());
        Self { rule, declared: clean(declared.to_string()), found: clean(found.to_string()), would_pass }
    }

    /// The same, where something nearer would pass than another action.
    #[must_use]
    pub(super) fn passing(mut self, would_pass: impl ToString) -> Self {
        self.would_pass = SafeText::clean(&would_pass.to_string(), MAX_FAULT);
        self
    }

    /// As an envelope carries it.
    pub fn violation(&self) -> Violation {
        Violation::new(self.rule, self.declared.to_string(), self.found.to_string(), self.would_pass.to_string())
    }
}

/// Runs the legs from number `from` on, as the transactions that they would be, then the worst settlement of the
/// order where there is one, and asks of every
/// declared token and spender whether it changes or not. `nonce` is the signer's on the pinned block.
///
/// # Errors
/// [`ForkError`]: then nothing is known of what the legs would do.
pub async fn run(
    fork: &Fork,
    framed: &Framed,
    from: usize,
    nonce: u64,
    around: &Surroundings,
) -> Result<Simulation, ForkError> {
    let bound = framed.fees();
    let fees = Fees::Dynamic { max_fee: bound.max_fee_per_gas, max_priority_fee: bound.max_priority_fee_per_gas };
    let calls: Vec<Call> = (nonce..)
        .zip(framed.legs().iter().skip(from))
        .map(|(nonce, leg)| {
            Call::new(leg.from, leg.to, leg.data.clone())
                .with_value(leg.value)
                .with_gas_limit(leg.gas_limit)
                .paid(nonce, fees)
        })
        .collect();
    let mut calls = calls;
    let slots = framed.legs().iter().flat_map(|leg| &leg.slots);
    let chain_id = framed.proposal().chain_id;
    let mut signatures: Vec<StandIn> =
        slots.map(|slot| StandIn { digest: slot.message.digest(chain_id), signer: slot.signer }).collect();
    let unlikely = |error: order::SettlementError| ForkError::Machine(SafeText::clean(&error.to_string(), MAX_FAULT));
    if let Some(settlement) = order::worst(framed, &fork.next_block(), around).map_err(unlikely)? {
        calls.extend(settlement.calls);
        signatures.extend(settlement.signatures);
    }
    let shifts = around.shifts.clone();
    let options = Options { watch: watch(framed), signatures, shifts, ..Options::default() };
    fork.simulate_with(&calls, &options).await
}

/// Every declared token, everybody exposed or to receive something, every declared spender.
fn watch(framed: &Framed) -> Watch {
    let proposal = framed.proposal();
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
    let owners: BTreeSet<Address> = framed.exposed().into_iter().chain(receivers).collect();
    let spenders: BTreeSet<Address> = proposal.allowances.iter().map(|bound| bound.spender).collect();
    Watch {
        tokens: tokens.into_iter().collect(),
        owners: owners.into_iter().collect(),
        spenders: spenders.into_iter().collect(),
    }
}
