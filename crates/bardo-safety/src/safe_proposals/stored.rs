//! A proposal in the form in which the ledger keeps it and a file carries it to the other owners. It is a claim like any
//! proposal: each signature and each execution checks it again as a whole.

use alloy::primitives::{Address, Bytes, U256};
use serde::{Deserialize, Serialize};

use crate::proposal::{
    AllowanceBound, AllowanceKind, BridgeArrival, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent,
    TradeFigures,
};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::ToolMeta;
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, MAX_DECIMALS};
use golem_chain::token::{TokenId, TokenInfo};

/// Maximum length of a sentence or a name, in characters.
const MAX_TEXT: usize = 600;

/// Intents that a Safe's proposal can have. The others concern transactions or orders of one key alone.
const INTENTS: [ProposalIntent; 14] = [
    ProposalIntent::Swap,
    ProposalIntent::Approve,
    ProposalIntent::Revoke,
    ProposalIntent::Transfer,
    ProposalIntent::Bridge,
    ProposalIntent::Refund,
    ProposalIntent::Identity,
    ProposalIntent::Wrap,
    ProposalIntent::Liquidity,
    ProposalIntent::Lending,
    ProposalIntent::Vault,
    ProposalIntent::VaultManagement,
    ProposalIntent::ProtocolFees,
    ProposalIntent::Hook,
];

/// Reason why a stored or imported proposal cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the proposal cannot be used: {0}")]
pub struct StoredProposalError(pub &'static str);

/// Proposal of a Safe, as a file and the ledger have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredProposal {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Name of the tool that proposed it.
    pub tool: SafeText,
    /// Address of the Safe.
    pub account: Address,
    intent: SafeText,
    calls: Vec<StoredCall>,
    outflows: Vec<StoredFlow>,
    inflows: Vec<StoredInflow>,
    allowances: Vec<StoredAllowance>,
    trade: Option<StoredTrade>,
    recipients: Vec<Address>,
    files: Vec<Bytes>,
    arrival: Option<StoredArrival>,
    /// Expected outcome, in one sentence.
    pub expected_outcome: SafeText,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCall {
    purpose: SafeText,
    to: Address,
    value: U256,
    data: Bytes,
    gas_limit: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredToken {
    /// `None` for the native token.
    address: Option<Address>,
    symbol: SafeText,
    name: SafeText,
    decimals: u8,
    listed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFlow {
    token: StoredToken,
    amount: U256,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredInflow {
    token: StoredToken,
    at_least: U256,
    expected: U256,
    recipient: Address,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAllowance {
    token: StoredToken,
    spender: Address,
    /// Expiry inside Permit2, in seconds since the Unix epoch; `None` for an allowance of the token itself.
    permit2_expires_at: Option<u64>,
    at_most: U256,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredArrival {
    chain_id: u64,
    token: StoredToken,
    at_least: U256,
    expected: U256,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTrade {
    token_in: StoredToken,
    token_out: StoredToken,
    amount_in: U256,
    expected_out: U256,
    min_out: U256,
    slippage: BasisPoints,
    price_impact: BasisPoints,
    impact_reached: BasisPoints,
    quoted_at: u64,
    deadline: u64,
    pools: Vec<Address>,
    exact_output: bool,
}

impl StoredToken {
    fn of(token: &TokenInfo) -> Self {
        let TokenInfo { id, symbol, name, decimals, listed } = token.clone();
        let address = match id {
            TokenId::Native => None,
            TokenId::Erc20(address) => Some(address),
        };
        Self { address, symbol, name, decimals, listed }
    }

    fn read(&self) -> Result<TokenInfo, StoredProposalError> {
        let Self { address, symbol, name, decimals, listed } = self.clone();
        if decimals > MAX_DECIMALS {
            return Err(StoredProposalError("a token has too many decimals"));
        }
        Ok(TokenInfo { id: address.map_or(TokenId::Native, TokenId::Erc20), symbol, name, decimals, listed })
    }
}

impl StoredProposal {
    /// Returns the stored form of a proposal.
    ///
    /// # Errors
    /// [`StoredProposalError`] for an action that a Safe cannot propose: an order, a message inside calldata, or a
    /// replacement.
    pub fn of(proposal: &Proposal) -> Result<Self, StoredProposalError> {
        let signs_more = proposal.order.is_some() || proposal.replaces.is_some();
        if signs_more || proposal.legs.iter().any(|leg| !leg.slots.is_empty()) || !INTENTS.contains(&proposal.intent) {
            return Err(StoredProposalError("it needs more than the owners' signatures of calls"));
        }
        let text = |text: &str| SafeText::clean(text, MAX_TEXT);
        let allowance = |bound: &AllowanceBound| StoredAllowance {
            token: StoredToken::of(&bound.token),
            spender: bound.spender,
            permit2_expires_at: match bound.kind {
                AllowanceKind::Erc20 => None,
                AllowanceKind::Permit2 { expires_at } => Some(expires_at),
            },
            at_most: bound.at_most,
        };
        let call = |leg: &PlanLeg| StoredCall {
            purpose: text(leg.purpose.as_str()),
            to: leg.to,
            value: leg.value,
            data: leg.data.clone(),
            gas_limit: leg.gas_limit,
        };
        Ok(Self {
            chain_id: proposal.chain_id,
            tool: text(proposal.tool.name),
            account: proposal.account,
            intent: text(proposal.intent.as_str()),
            calls: proposal.legs.iter().map(call).collect(),
            outflows: proposal.outflows.iter().map(StoredFlow::of).collect(),
            inflows: proposal.inflows.iter().map(StoredInflow::of).collect(),
            allowances: proposal.allowances.iter().map(allowance).collect(),
            trade: proposal.trade.as_ref().map(StoredTrade::of),
            recipients: proposal.recipients.clone(),
            files: proposal.files.clone(),
            arrival: proposal.arrival.as_deref().map(StoredArrival::of),
            expected_outcome: proposal.expected_outcome.clone(),
        })
    }

    /// Returns the proposal again, for a call of a Golem or the operator. `tool` is the tool with the stored name.
    ///
    /// # Errors
    /// [`StoredProposalError`] if a part of it cannot be read.
    pub fn proposal(
        &self,
        tool: ToolMeta,
        (call_id, golem_id): (CallId, GolemId),
    ) -> Result<Proposal, StoredProposalError> {
        if tool.name != self.tool.as_str() {
            return Err(StoredProposalError("its tool is another one"));
        }
        let intent = INTENTS.into_iter().find(|intent| intent.as_str() == self.intent.as_str());
        let legs = self.calls.iter().map(StoredCall::read).collect::<Result<_, _>>()?;
        let flow = |flow: &StoredFlow| Ok(Outflow { token: flow.token.read()?, amount: flow.amount });
        let inflow = |one: &StoredInflow| {
            let (at_least, expected, recipient) = (one.at_least, one.expected, one.recipient);
            Ok(Inflow { token: one.token.read()?, at_least, expected, recipient })
        };
        let allowance = |one: &StoredAllowance| {
            let kind = one.permit2_expires_at.map(|expires_at| AllowanceKind::Permit2 { expires_at });
            let (spender, at_most) = (one.spender, one.at_most);
            Ok(AllowanceBound {
                token: one.token.read()?,
                spender,
                kind: kind.unwrap_or(AllowanceKind::Erc20),
                at_most,
            })
        };
        Ok(Proposal {
            chain_id: self.chain_id,
            tool,
            call_id,
            golem_id,
            account: self.account,
            intent: intent.ok_or(StoredProposalError("its purpose is none that a Safe can propose"))?,
            legs,
            outflows: self.outflows.iter().map(flow).collect::<Result<_, _>>()?,
            inflows: self.inflows.iter().map(inflow).collect::<Result<_, _>>()?,
            allowances: self.allowances.iter().map(allowance).collect::<Result<_, _>>()?,
            trade: self.trade.as_ref().map(StoredTrade::read).transpose()?,
            recipients: self.recipients.clone(),
            order: None,
            files: self.files.clone(),
            replaces: None,
            arrival: self.arrival.as_ref().map(StoredArrival::read).transpose()?.map(Box::new),
            expected_outcome: SafeText::clean(self.expected_outcome.as_str(), MAX_TEXT),
        })
    }

    /// Returns target, value and calldata of each call, in order.
    pub fn calls(&self) -> impl Iterator<Item = (Address, U256, &Bytes)> {
        self.calls.iter().map(|call| (call.to, call.value, &call.data))
    }
}

impl StoredCall {
    fn read(&self) -> Result<PlanLeg, StoredProposalError> {
        let purposes = [LegPurpose::Approve, LegPurpose::Main, LegPurpose::CleanUp];
        let purpose = purposes.into_iter().find(|purpose| purpose.as_str() == self.purpose.as_str());
        Ok(PlanLeg {
            purpose: purpose.ok_or(StoredProposalError("a call has an unknown purpose"))?,
            to: self.to,
            value: self.value,
            data: self.data.clone(),
            gas_limit: self.gas_limit,
            slots: Vec::new(),
        })
    }
}

impl StoredFlow {
    fn of(flow: &Outflow) -> Self {
        Self { token: StoredToken::of(&flow.token), amount: flow.amount }
    }
}

impl StoredInflow {
    fn of(inflow: &Inflow) -> Self {
        let Inflow { token, at_least, expected, recipient } = inflow;
        Self { token: StoredToken::of(token), at_least: *at_least, expected: *expected, recipient: *recipient }
    }
}

impl StoredArrival {
    fn of(arrival: &BridgeArrival) -> Self {
        let BridgeArrival { chain_id, token, at_least, expected } = arrival;
        Self { chain_id: *chain_id, token: StoredToken::of(token), at_least: *at_least, expected: *expected }
    }

    fn read(&self) -> Result<BridgeArrival, StoredProposalError> {
        let Self { chain_id, token, at_least, expected } = self;
        Ok(BridgeArrival { chain_id: *chain_id, token: token.read()?, at_least: *at_least, expected: *expected })
    }
}

impl StoredTrade {
    fn of(trade: &TradeFigures) -> Self {
        let TradeFigures { token_in, token_out, amount_in, expected_out, min_out, slippage, price_impact, .. } = trade;
        Self {
            token_in: StoredToken::of(token_in),
            token_out: StoredToken::of(token_out),
            amount_in: *amount_in,
            expected_out: *expected_out,
            min_out: *min_out,
            slippage: *slippage,
            price_impact: *price_impact,
            impact_reached: trade.impact_reached,
            quoted_at: trade.quoted_at,
            deadline: trade.deadline,
            pools: trade.pools.clone(),
            exact_output: trade.exact_output,
        }
    }

    fn read(&self) -> Result<TradeFigures, StoredProposalError> {
        Ok(TradeFigures {
            token_in: self.token_in.read()?,
            token_out: self.token_out.read()?,
            amount_in: self.amount_in,
            expected_out: self.expected_out,
            min_out: self.min_out,
            slippage: self.slippage,
            price_impact: self.price_impact,
            impact_reached: self.impact_reached,
            quoted_at: self.quoted_at,
            deadline: self.deadline,
            pools: self.pools.clone(),
            exact_output: self.exact_output,
        })
    }
}
