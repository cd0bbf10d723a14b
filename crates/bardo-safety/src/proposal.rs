//! What a tool wants done, before any account has put it into bytes: calls, and what they may cost
//! and must bring.
//!
//! A proposal is a claim. Nothing in it is believed: the checks hold the declared bounds against
//! the policy, and the simulation holds what the framed bytes do against the declared bounds.

use alloy::primitives::{Address, Bytes, U256};

use super::typed::TypedMessage;
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::ToolMeta;
use bardo_base::text::SafeText;
use bardo_base::units::BasisPoints;
use golem_chain::token::Token;

/// Bytes a signature takes: `r`, `s`, `v`.
pub const SIGNATURE_BYTES: usize = 65;

/// What a tool wants done on one chain with one account.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// The tool that asks; set by the executor from its own catalog.
    pub tool: ToolMeta,
    /// The call it belongs to.
    pub call_id: CallId,
    /// On whose behalf.
    pub golem_id: GolemId,
    /// Whose money: the account that holds what goes out, and gets what comes in.
    pub account: Address,
    /// What it is for.
    pub intent: Intent,
    /// The calls, in order; each becomes one transaction. None where only an order is signed.
    pub legs: Vec<Leg>,
    /// The most that may leave the account, gas apart. A token that is not here may not leave at all.
    pub outflows: Vec<Flow>,
    /// What must come in.
    pub inflows: Vec<Inflow>,
    /// Every allowance that may stand afterwards and did not, or stood lower, before.
    pub allowances: Vec<AllowanceBound>,
    /// The figures of a trade, where it is one.
    pub trade: Option<Trade>,
    /// Everybody who is to receive something, the account itself included.
    pub recipients: Vec<Address>,
    /// What is to be signed and handed to somebody who settles it, once all calls are done.
    pub order: Option<Box<SignedOrder>>,
    /// What will be true afterwards, in one sentence.
    pub expected_outcome: SafeText,
}

impl Proposal {
    /// Whether it gives something for something once, now or through an order that others settle: nobody is left
    /// anything to take by it but what orders that were signed before may still take.
    pub fn is_trade(&self) -> bool {
        self.trade.is_some() || self.order.is_some()
    }
}

/// A message that others settle: no transaction of the account's own carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedOrder {
    /// What is signed.
    pub message: TypedMessage,
    /// Somebody who holds enough of what the order brings, such as a pool: in the simulation a filler has it from
    /// there. A wrong one lets the simulation fail, and nothing else.
    pub holder: Address,
    /// What arrives on another chain, where it does.
    pub arrival: Option<Arrival>,
}

/// What a bridge order brings, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// EIP-155 id of the chain it comes to.
    pub chain_id: u64,
    /// Which token, as that chain describes it.
    pub token: Token,
    /// The least.
    pub at_least: U256,
    /// What is thought to come.
    pub expected: U256,
}

/// What a proposal is for. A claim like the rest: what it exempts from is only ever granted on the
/// simulated changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intent {
    /// One token for another in pools.
    Swap,
    /// An allowance.
    Approve,
    /// An allowance taken back, wholly or in part.
    Revoke,
    /// A transfer to somebody.
    Transfer,
    /// An order that others may fill.
    PlaceOrder,
    /// An order made void.
    CancelOrder,
    /// An order over two chains.
    Bridge,
    /// What a bridge order did not use, taken back.
    Refund,
    /// A change of an on-chain identity.
    Identity,
    /// A change of the account's rules in PolicyCage; the operator's alone.
    PolicyCage,
}

impl Intent {
    /// The written form, as in events and the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Swap => "swap",
            Self::Approve => "approve",
            Self::Revoke => "revoke",
            Self::Transfer => "transfer",
            Self::PlaceOrder => "place_order",
            Self::CancelOrder => "cancel_order",
            Self::Bridge => "bridge",
            Self::Refund => "refund",
            Self::Identity => "identity",
            Self::PolicyCage => "policy_cage",
        }
    }
}

/// One call of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Why it is in the plan.
    pub purpose: Purpose,
    /// The contract or account called.
    pub to: Address,
    /// Wei sent along.
    pub value: U256,
    /// Calldata, with the fork's placeholder signature where a signature belongs.
    pub data: Bytes,
    /// The most gas it may use, in gas units.
    pub gas_limit: u64,
    /// Where signatures belong in `data`.
    pub slots: Vec<SignatureSlot>,
}

/// Why a leg is in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Gives an allowance that the main leg needs.
    Approve,
    /// What it is all about.
    Main,
    /// Takes back what is left over.
    CleanUp,
}

impl Purpose {
    /// The written form, as in events and the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Main => "main",
            Self::CleanUp => "clean_up",
        }
    }
}

/// A place in calldata that a signature will fill: [`SIGNATURE_BYTES`] from `offset` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureSlot {
    /// Where it begins in the leg's data, in bytes.
    pub offset: usize,
    /// What is signed.
    pub message: TypedMessage,
}

/// An amount of a token, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Which token.
    pub token: Token,
    /// The most that may leave.
    pub amount: U256,
}

/// What must come in, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inflow {
    /// Which token.
    pub token: Token,
    /// The least.
    pub at_least: U256,
    /// What is thought to come.
    pub expected: U256,
    /// Who gets it.
    pub recipient: Address,
}

/// An allowance as it may stand afterwards, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowanceBound {
    /// Which token.
    pub token: Token,
    /// Who may take it.
    pub spender: Address,
    /// Who keeps the allowance.
    pub kind: AllowanceKind,
    /// The most it may be.
    pub at_most: U256,
}

/// Who keeps an allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AllowanceKind {
    /// The token's own contract; it holds until changed.
    Erc20,
    /// Permit2.
    Permit2 {
        /// When it ends, in seconds since the Unix epoch.
        expires_at: u64,
    },
}

/// The figures of a trade. Amounts in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trade {
    /// What is given.
    pub token_in: Token,
    /// What is wanted.
    pub token_out: Token,
    /// What goes in; with `exact_output`, the most that may.
    pub amount_in: U256,
    /// What is thought to come out.
    pub expected_out: U256,
    /// The least that may come out.
    pub min_out: U256,
    /// The slippage asked for.
    pub slippage: BasisPoints,
    /// How far the trade moves the price, rounded up.
    pub price_impact: BasisPoints,
    /// The same, rounded down: it is below a whole figure exactly if this is.
    pub impact_reached: BasisPoints,
    /// When the quote was made, in milliseconds since the Unix epoch.
    pub quoted_at: u64,
    /// The last second in which it may be included, since the Unix epoch.
    pub deadline: u64,
    /// The pools it goes through: their own prices are no witness to its fairness.
    pub pools: Vec<Address>,
    /// Whether the output is what is fixed.
    pub exact_output: bool,
}
