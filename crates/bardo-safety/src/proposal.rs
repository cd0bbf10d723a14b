//! Proposal of a tool, before an account turns it into bytes: calls, maximum costs and minimum results.
//!
//! A proposal is an unverified claim. The checks compare the declared bounds with the policy, and the simulation
//! compares the effects of the signing payload with the declared bounds.

use alloy::primitives::{Address, B256, Bytes, U256};

use super::signing_payload::FeeBound;
use super::typed::TypedMessage;
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::ToolMeta;
use bardo_base::text::SafeText;
use bardo_base::units::BasisPoints;
use golem_chain::token::TokenInfo;

/// Length of a signature in bytes: `r`, `s`, `v`.
pub const SIGNATURE_BYTES: usize = 65;

/// Action that a tool proposes, on one chain with one account.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Tool that proposes the action; the executor sets it from its own catalog.
    pub tool: ToolMeta,
    /// Call that the proposal belongs to.
    pub call_id: CallId,
    /// Golem that acts, or the operator.
    pub golem_id: GolemId,
    /// Account that pays the outflows and receives the inflows.
    pub account: Address,
    /// Claimed purpose of the action.
    pub intent: ProposalIntent,
    /// Calls in order; each becomes one transaction. Empty if only an order is signed.
    pub legs: Vec<PlanLeg>,
    /// Maximum outflows of the account, without gas. A token that is not listed must not leave at all.
    pub outflows: Vec<Outflow>,
    /// Minimum and expected inflows, by recipient.
    pub inflows: Vec<Inflow>,
    /// Allowances that may be higher afterwards than before.
    pub allowances: Vec<AllowanceBound>,
    /// Figures of the trade, if the action is one.
    pub trade: Option<TradeFigures>,
    /// Every recipient, including the account itself.
    pub recipients: Vec<Address>,
    /// Order to sign and submit once all calls are done; others settle it.
    pub order: Option<Box<SignedOrder>>,
    /// Files that calls to registries of agents name by content identifier, outside the chain. They are shown and bound
    /// like the calldata, and stored only after it is on the chain.
    pub files: Vec<Bytes>,
    /// Waiting transaction whose nonce the action takes. Set for [`ProposalIntent::SpeedUp`] and
    /// [`ProposalIntent::CancelTransaction`], and for nothing else.
    pub replaces: Option<ReplacedTx>,
    /// Output on another chain of a deposit with a bridge's pool, which the calldata names; see `across_calls`. A bridge order
    /// has its own in [`Self::order`].
    pub arrival: Option<Box<BridgeArrival>>,
    /// Expected outcome, in one sentence.
    pub expected_outcome: SafeText,
}

/// Waiting transaction whose nonce an action takes. The pipeline compares all of it with the signed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplacedTx {
    /// Hash of the transaction.
    pub hash: B256,
    /// Nonce of the transaction.
    pub nonce: u64,
    /// Fees of the transaction, in wei per unit of gas.
    pub fees: FeeBound,
}

impl Proposal {
    /// Returns what a bridge order or a deposit with a bridge's pool brings on another chain.
    pub fn bridged(&self) -> Option<&BridgeArrival> {
        self.arrival.as_deref().or_else(|| self.order.as_ref().and_then(|order| order.arrival.as_ref()))
    }

    /// Returns true for a single exchange, now or by an order that others settle. After it, nobody may take anything
    /// but what earlier signed orders still allow.
    pub fn is_trade(&self) -> bool {
        self.trade.is_some() || self.order.is_some()
    }

    /// Amount that the operator can ask to reduce, in raw units, with its token: the input of a trade, and what a
    /// transfer or a bridge order sends, or a wrapping takes. `None` for a trade of a fixed output, and for actions without an amount.
    pub fn reducible_amount(&self) -> Option<(&TokenInfo, U256)> {
        if let Some(trade) = &self.trade {
            return (!trade.exact_output).then_some((&trade.token_in, trade.amount_in));
        }
        match (self.intent, self.outflows.as_slice()) {
            (
                ProposalIntent::Transfer
                | ProposalIntent::Bridge
                | ProposalIntent::Wrap
                | ProposalIntent::Lending
                | ProposalIntent::Vault
                | ProposalIntent::ProtocolFees,
                [sent],
            ) => Some((&sent.token, sent.amount)),
            _ => None,
        }
    }
}

/// Order message that others settle, without a transaction of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedOrder {
    /// Typed message to sign.
    pub message: TypedMessage,
    /// Address with enough of the order's output token, such as a pool, from which the simulated filler gets it. A
    /// wrong address only makes the simulation fail.
    pub holder: Address,
    /// Output on another chain, for a bridge order.
    pub arrival: Option<BridgeArrival>,
}

/// Output of a bridge order or deposit on its destination chain, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeArrival {
    /// EIP-155 id of the destination chain.
    pub chain_id: u64,
    /// Token as the destination chain describes it.
    pub token: TokenInfo,
    /// Minimum output amount.
    pub at_least: U256,
    /// Expected output amount.
    pub expected: U256,
}

/// Claimed purpose of a proposal. Exemptions depend on the simulated changes, never on this claim alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProposalIntent {
    /// Swap of one token for another in pools.
    Swap,
    /// Approval of an allowance.
    Approve,
    /// Full or partial revocation of an allowance.
    Revoke,
    /// Transfer to another address.
    Transfer,
    /// Placement of an order that others may fill.
    PlaceOrder,
    /// Cancellation of an order.
    CancelOrder,
    /// Bridge order between two chains, or deposit with a bridge's pool.
    Bridge,
    /// Refund of a bridge order's unused input.
    Refund,
    /// Change of an on-chain identity.
    Identity,
    /// Change of the account's rules in PolicyCage, by the operator only.
    PolicyCage,
    /// Waiting transaction of the account again, with higher fees.
    SpeedUp,
    /// Transaction that only uses the nonce of a waiting one.
    CancelTransaction,
    /// Exchange of the native token for its wrapped form, or back.
    Wrap,
    /// Change of a liquidity position.
    Liquidity,
    /// Supply, withdrawal, borrowing or repayment in a lending market.
    Lending,
    /// Deposit to a vault, or withdrawal from one.
    Vault,
    /// Management of an asynchronous vault of the account's own.
    VaultManagement,
    /// Collection or release of Uniswap's protocol fees.
    ProtocolFees,
    /// Deployment of a hook.
    Hook,
}

impl ProposalIntent {
    /// Returns the identifier that events and the ledger use.
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
            Self::SpeedUp => "speed_up",
            Self::CancelTransaction => "cancel_transaction",
            Self::Wrap => "wrap",
            Self::Liquidity => "liquidity",
            Self::Lending => "lending",
            Self::Vault => "vault",
            Self::VaultManagement => "vault_management",
            Self::ProtocolFees => "protocol_fees",
            Self::Hook => "hook",
        }
    }
}

/// One call of a plan, which becomes one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanLeg {
    /// Role of the call in the plan.
    pub purpose: LegPurpose,
    /// Contract or account that is called.
    pub to: Address,
    /// Value sent along, in wei.
    pub value: U256,
    /// Calldata, with the fork's placeholder in place of each signature.
    pub data: Bytes,
    /// Gas limit, in gas units.
    pub gas_limit: u64,
    /// Places of signatures in `data`.
    pub slots: Vec<SignatureSlot>,
}

/// Role of a call in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LegPurpose {
    /// Sets an allowance that the main call needs.
    Approve,
    /// Does what the plan is for.
    Main,
    /// Revokes a remaining allowance.
    CleanUp,
}

impl LegPurpose {
    /// Returns the identifier that events and the ledger use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Main => "main",
            Self::CleanUp => "clean_up",
        }
    }
}

/// Place in calldata that a signature will fill: [`SIGNATURE_BYTES`] bytes from `offset`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureSlot {
    /// Offset in the call's data, in bytes.
    pub offset: usize,
    /// Typed message to sign.
    pub message: TypedMessage,
}

/// Maximum outflow of a token, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outflow {
    /// Token that leaves the account.
    pub token: TokenInfo,
    /// Maximum amount that may leave.
    pub amount: U256,
}

/// Required inflow of a token, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inflow {
    /// Token that comes in.
    pub token: TokenInfo,
    /// Minimum amount that must come in.
    pub at_least: U256,
    /// Expected amount, in raw units.
    pub expected: U256,
    /// Address that receives it.
    pub recipient: Address,
}

/// Allowance that may remain afterwards, in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowanceBound {
    /// Token that may be taken.
    pub token: TokenInfo,
    /// Address that may take it.
    pub spender: Address,
    /// Contract that keeps the allowance.
    pub kind: AllowanceKind,
    /// Maximum amount of the allowance.
    pub at_most: U256,
}

/// Contract that keeps an allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AllowanceKind {
    /// The token's own contract; the allowance holds until it is changed.
    Erc20,
    /// Permit2; the allowance expires.
    Permit2 {
        /// Expiry of the allowance, in seconds since the Unix epoch.
        expires_at: u64,
    },
}

/// Figures of a trade. Amounts are in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TradeFigures {
    /// Token that is sold.
    pub token_in: TokenInfo,
    /// Token that is bought.
    pub token_out: TokenInfo,
    /// Input amount; with `exact_output`, its maximum.
    pub amount_in: U256,
    /// Expected output amount.
    pub expected_out: U256,
    /// Minimum output amount.
    pub min_out: U256,
    /// Slippage tolerance of the trade.
    pub slippage: BasisPoints,
    /// Price impact, rounded up.
    pub price_impact: BasisPoints,
    /// Price impact, rounded down: it is below a whole basis point exactly if the real impact is.
    pub impact_reached: BasisPoints,
    /// Time of the quote, in milliseconds since the Unix epoch.
    pub quoted_at: u64,
    /// Last second in which the trade may be included, since the Unix epoch.
    pub deadline: u64,
    /// Pools that the trade uses. Their own prices do not count as evidence of a fair price.
    pub pools: Vec<Address>,
    /// True for a fixed output amount, false for a fixed input amount.
    pub exact_output: bool,
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, Bytes, U256};

    use super::{Outflow, Proposal, ProposalIntent};
    use crate::sample;

    #[test]
    fn what_is_sent_or_bridged_can_be_less() {
        let token = sample::token(Address::repeat_byte(1), "USDC", 6);
        let of = |intent, outflows: usize| {
            let outflow = Outflow { token: token.clone(), amount: U256::from(25_000_000) };
            let leg = sample::leg(Address::repeat_byte(2), Bytes::new());
            let proposal = Proposal {
                outflows: vec![outflow; outflows],
                ..sample::proposal(Address::repeat_byte(3), intent, leg)
            };
            proposal.reducible_amount().map(|(token, amount)| (token.symbol.to_string(), amount))
        };
        for intent in [ProposalIntent::Transfer, ProposalIntent::Bridge] {
            assert_eq!(of(intent, 1), Some(("USDC".to_owned(), U256::from(25_000_000))));
            assert_eq!(of(intent, 2), None, "which of the two would be less?");
        }
        for intent in [ProposalIntent::Approve, ProposalIntent::Revoke, ProposalIntent::Refund] {
            assert_eq!(of(intent, 1), None, "{intent:?}");
        }
    }
}
