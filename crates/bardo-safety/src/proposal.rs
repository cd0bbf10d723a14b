//! A tool's proposal, before an account turns it into bytes: calls, and limits on their cost and result.
//!
//! A proposal is a claim that nothing relies on. The checks compare the declared bounds with the policy, and the
//! simulation compares the effect of the prepared bytes with the declared bounds.

use alloy::primitives::{Address, Bytes, U256};

use super::typed::TypedMessage;
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::ToolMeta;
use bardo_base::text::SafeText;
use bardo_base::units::BasisPoints;
use golem_chain::token::Token;

/// Length of a signature in bytes: `r`, `s`, `v`.
pub const SIGNATURE_BYTES: usize = 65;

/// Action that a tool proposes for one account on one chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Tool that proposes the action; set by the executor from its own catalog.
    pub tool: ToolMeta,
    /// Tool call that the proposal belongs to.
    pub call_id: CallId,
    /// Golem that acts.
    pub golem_id: GolemId,
    /// Account that pays the outflows and receives the inflows.
    pub account: Address,
    /// Purpose of the action.
    pub intent: Intent,
    /// Calls in order, each of which becomes one transaction; empty if only an order is signed.
    pub legs: Vec<Leg>,
    /// Maximum outflows, gas excluded. A token that is not listed must not leave the account.
    pub outflows: Vec<Flow>,
    /// Minimum inflows of the action.
    pub inflows: Vec<Inflow>,
    /// Every allowance that may be new or higher after the action.
    pub allowances: Vec<AllowanceBound>,
    /// Figures of a trade; `None` if the action is not one.
    pub trade: Option<Trade>,
    /// Every recipient of the action, including the account itself.
    pub recipients: Vec<Address>,
    /// Order to sign and submit after all calls, for others to settle.
    pub order: Option<Box<SignedOrder>>,
    /// State after the action, in one sentence.
    pub expected_outcome: SafeText,
}

impl Proposal {
    /// Returns true if the action exchanges tokens once, now or through an order that others settle. It leaves no new
    /// allowance beyond that order.
    pub fn is_trade(&self) -> bool {
        self.trade.is_some() || self.order.is_some()
    }
}

/// Signed message that others settle, without a transaction of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedOrder {
    /// Typed data to sign.
    pub message: TypedMessage,
    /// Holder of enough of the order's output token, such as a pool, from which the filler takes it in the simulation.
    /// A wrong holder only makes the simulation fail.
    pub holder: Address,
    /// Arrival on another chain; `None` for an order on one chain.
    pub arrival: Option<Arrival>,
}

/// Output of a bridge order on the destination chain, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// EIP-155 id of the destination chain.
    pub chain_id: u64,
    /// Token, as the destination chain describes it.
    pub token: Token,
    /// Minimum amount that must arrive.
    pub at_least: U256,
    /// Expected amount that arrives.
    pub expected: U256,
}

/// Purpose of a proposal. It is a claim as well: exemptions depend on the simulated changes only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Exchange of one token for another in pools.
    Swap,
    /// Grant of an allowance.
    Approve,
    /// Full or partial revocation of an allowance.
    Revoke,
    /// Transfer to a recipient.
    Transfer,
    /// Order that others may fill.
    PlaceOrder,
    /// Cancellation of an order.
    CancelOrder,
    /// Order across two chains.
    Bridge,
    /// Refund of a bridge order's unused money.
    Refund,
    /// Change of an on-chain identity.
    Identity,
    /// Change of the account's rules in PolicyCage, for the operator only.
    PolicyCage,
}

impl Intent {
    /// Returns the name that events and the ledger contain.
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

/// One call of a plan, which becomes one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Role of the call in the plan.
    pub purpose: Purpose,
    /// Contract or account to call.
    pub to: Address,
    /// Native token value of the call, in wei.
    pub value: U256,
    /// Calldata, with the fork's placeholder in place of each signature.
    pub data: Bytes,
    /// Gas limit, in gas units.
    pub gas_limit: u64,
    /// Positions of signatures in `data`.
    pub slots: Vec<SignatureSlot>,
}

/// Role of a call in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Grants an allowance that the main call needs.
    Approve,
    /// Executes the action itself.
    Main,
    /// Revokes an allowance that is left over.
    CleanUp,
}

impl Purpose {
    /// Returns the name that events and the ledger contain.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Main => "main",
            Self::CleanUp => "clean_up",
        }
    }
}

/// Position in calldata for a signature: [`SIGNATURE_BYTES`] from `offset`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureSlot {
    /// Start within the call's data, in bytes.
    pub offset: usize,
    /// Typed data to sign.
    pub message: TypedMessage,
}

/// Amount of a token, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Token that leaves the account.
    pub token: Token,
    /// Maximum amount that may leave.
    pub amount: U256,
}

/// Required inflow of a token, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inflow {
    /// Token that arrives.
    pub token: Token,
    /// Minimum amount that must arrive.
    pub at_least: U256,
    /// Expected amount that arrives.
    pub expected: U256,
    /// Address that receives the token.
    pub recipient: Address,
}

/// Allowance that may remain after the action, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowanceBound {
    /// Token of the allowance.
    pub token: Token,
    /// Address that may take the token.
    pub spender: Address,
    /// Contract that keeps the allowance.
    pub kind: AllowanceKind,
    /// Maximum of the allowance.
    pub at_most: U256,
}

/// Contract that keeps an allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AllowanceKind {
    /// The token's contract; the allowance has no expiry.
    Erc20,
    /// The Permit2 contract.
    Permit2 {
        /// Expiry of the allowance, in seconds since the Unix epoch.
        expires_at: u64,
    },
}

/// Figures of a trade. Amounts in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trade {
    /// Token that the account gives.
    pub token_in: Token,
    /// Token that the account receives.
    pub token_out: Token,
    /// Input amount; the maximum if `exact_output` is set.
    pub amount_in: U256,
    /// Expected output amount.
    pub expected_out: U256,
    /// Minimum output amount.
    pub min_out: U256,
    /// Requested slippage tolerance.
    pub slippage: BasisPoints,
    /// Price impact of the trade, rounded up.
    pub price_impact: BasisPoints,
    /// Price impact of the trade, rounded down, for comparisons with a limit in whole basis points.
    pub impact_reached: BasisPoints,
    /// Time of the quote, in milliseconds since the Unix epoch.
    pub quoted_at: u64,
    /// Last second in which the trade may be included, since the Unix epoch.
    pub deadline: u64,
    /// Pools on the route. Their prices are not used to judge the trade.
    pub pools: Vec<Address>,
    /// True if the output amount is fixed, rather than the input.
    pub exact_output: bool,
}
