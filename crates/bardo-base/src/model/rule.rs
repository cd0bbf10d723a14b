//! Names of the rules that can stand against an action: fields of the policy, rules of the policy contract, and what no
//! policy can waive.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Phase, UnknownName};
use crate::text::SafeText;

/// Characters kept of a rule's name that is not known here.
const MAX_NAME: usize = 120;

/// What stands before a token in the name of its caps.
const TOKEN_CAPS: &str = "token_caps.";

named! {
    /// A rule of which there is one.
    RuleName ("rule") {
        /// A stop is in force.
        Stop = "stop",
        /// The account's keys are revoked.
        SessionKeys = "session_keys",
        /// Tools that may be called.
        AllowedTools = "allowed_tools",
        /// Kinds of action.
        AllowedIntentTypes = "allowed_intent_types",
        /// Chains.
        AllowedChains = "allowed_chains",
        /// Tokens.
        AllowedTokens = "allowed_tokens",
        /// Accounts that may act.
        AllowedExecutionWallets = "allowed_execution_wallets",
        /// Delegated accounts that may act.
        SafeAddresses = "safe_addresses",
        /// Protocols.
        AllowedProtocols = "allowed_protocols",
        /// Contracts and their functions.
        AllowedContracts = "allowed_contracts",
        /// Receivers.
        AllowedRecipients = "allowed_recipients",
        /// Who may be given an allowance.
        AllowedSpenders = "allowed_spenders",
        /// Contracts of the address book that get no allowance, whatever the policy says.
        SpenderRole = "spender_role",
        /// Contracts of the address book that lose what is sent to them.
        RecipientRole = "recipient_role",
        /// A value must be known.
        Price = "price",
        /// The ledger must be readable.
        Ledger = "ledger",
        /// Dollars of one trade.
        MaxSingleTradeUsd = "max_single_trade_usd",
        /// Dollars of one transaction.
        PerTransaction = "spending_limits.per_transaction",
        /// Dollars of an hour.
        MaxHourlySpendUsd = "max_hourly_spend_usd",
        /// Dollars of a day.
        MaxDailySpendUsd = "max_daily_spend_usd",
        /// Dollars of a day, in the table of spending limits.
        PerDay = "spending_limits.per_day",
        /// Dollars of 30 days.
        MaxMonthlySpendUsd = "max_monthly_spend_usd",
        /// Dollars held of one token.
        MaxPositionSizeUsd = "max_position_size_usd",
        /// Dollars held of one token without a price feed.
        MaxUnfedUsd = "max_unfed_usd",
        /// Dollars of gas of one action.
        MaxGasUsd = "max_gas_usd",
        /// Fee per unit of gas.
        MaxFeePerGasGwei = "max_fee_per_gas_gwei",
        /// Allowances without a limit.
        AllowUnlimitedAllowance = "allow_unlimited_allowance",
        /// Dollars that may be left to be taken.
        MaxAllowanceUsd = "max_allowance_usd",
        /// Time for which an allowance or an order may serve.
        MaxAllowanceSeconds = "max_allowance_seconds",
        /// Dollars from which a transaction goes to a private relay.
        PrivateRpcAboveUsd = "private_rpc_above_usd",
        /// Dollars from which the operator is asked.
        RequireHumanApprovalAboveUsd = "require_human_approval_above_usd",
        /// Dollars from which the safety-guardian is asked.
        HotLane = "spending_limits.hot_lane",
        /// Trades of an hour.
        MaxTradesPerHour = "max_trades_per_hour",
        /// Revocations of an hour.
        MaxRevocationsPerHour = "max_revocations_per_hour",
        /// Calls of a minute.
        MaxToolCallsPerMinute = "max_tool_calls_per_minute",
        /// Time between two trades.
        CooldownSeconds = "cooldown_seconds",
        /// Hours in which it may act.
        ActiveHours = "active_hours",
        /// Fall of the portfolio.
        StopLossPct = "stop_loss_pct",
        /// Failures in a row.
        MaxConsecutiveFailures = "max_consecutive_failures",
        /// Slippage.
        MaxSlippageBps = "max_slippage_bps",
        /// Price impact.
        MaxPriceImpactBps = "max_price_impact_bps",
        /// Loss against the market.
        MaxLossBps = "max_loss_bps",
        /// A quote that feeds and other pools do not explain.
        QuoteAboveWitnesses = "quote_above_witnesses",
        /// Least output of a trade.
        MinOut = "min_out",
        /// Age of a quote.
        MaxQuoteAgeSeconds = "max_quote_age_seconds",
        /// Time after which a trade is void.
        Deadline = "deadline",
        /// The policy contract must be readable.
        PolicyCage = "policy_cage",
        /// Calls that the policy contract lists.
        CageCalls = "policy_cage.calls",
        /// Assets that the policy contract lists.
        CageAssets = "policy_cage.assets",
        /// Spenders that the policy contract lists.
        CageSpenders = "policy_cage.spenders",
        /// The policy contract's most in one transaction.
        CageMaxPerTransaction = "policy_cage.maxPerTransaction",
        /// The policy contract's most in a day.
        CageMaxPerDay = "policy_cage.maxPerDay",
        /// The policy contract's most held.
        CageMaxPosition = "policy_cage.maxPosition",
        /// Age of the policy contract's prices.
        CageMaxPriceAge = "policy_cage.maxPriceAge",
        /// The policy contract's most lost.
        CageMaxLossBps = "policy_cage.maxLossBps",
        /// The policy contract's deepest fall.
        CageMaxDrawdownBps = "policy_cage.maxDrawdownBps",
        /// The policy contract's time between two executions.
        CageMinInterval = "policy_cage.minInterval",
        /// Nothing is signed that was not simulated.
        RequireSimulation = "require_simulation_before_execution",
        /// Endpoints must agree.
        EndpointsAgree = "endpoints_agree",
        /// The machine's clock and the chain's time must agree.
        ClocksAgree = "clocks_agree",
        /// Calldata must say what was declared.
        Calldata = "calldata",
        /// The account must sign the proposed call.
        Frame = "frame",
        /// An order must be sound.
        Order = "order",
        /// A spender must be declared.
        Spender = "spender",
        /// A signature must take what was declared.
        Signature = "signature",
        /// A trade must be declared by its flows.
        Trade = "trade",
        /// Every transaction must succeed.
        Simulation = "simulation",
        /// Every change must be seen.
        SimulationComplete = "simulation_complete",
        /// One transaction moves tokens.
        Plan = "plan",
        /// Nonces of transactions.
        Nonce = "nonce",
        /// Code stays.
        Code = "code",
        /// Delegations stay.
        Delegation = "delegation",
        /// What must come in.
        Inflow = "inflow",
        /// What may go out.
        Outflow = "outflow",
        /// What comes in undeclared.
        UndeclaredInflow = "undeclared_inflow",
        /// Nonces of a token's permits.
        PermitNonce = "permit_nonce",
        /// Nonces of Permit2.
        Permit2Nonce = "permit2_nonce",
        /// The account's nonce.
        AccountNonce = "account_nonce",
        /// Operators of collections.
        Operator = "operator",
        /// Single tokens.
        Nft = "nft",
        /// Writes that cannot be explained.
        UnexplainedWrite = "unexplained_write",
        /// Receivers must be declared.
        Recipient = "recipient",
        /// Allowances must be declared.
        Allowance = "allowance",
    }
}

/// A rule that can stand against an action, named in JSON as in the policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// One of which there is one.
    Named(RuleName),
    /// The matrix of phases and classes of action.
    Phase(Phase),
    /// Exits only in a phase.
    ExitOnly(Phase),
    /// Share of a position that one trade of a phase may sell.
    PositionShare(Phase),
    /// The caps of one token; the whole name, as in the policy.
    TokenCaps(SafeText),
    /// A rule that this version does not know, from a file of another one.
    Other(SafeText),
}

impl Rule {
    /// The caps of the token that the policy writes as `token`.
    pub fn token_caps(token: &str) -> Self {
        Self::TokenCaps(SafeText::clean(&format!("{TOKEN_CAPS}{token}"), MAX_NAME))
    }

    /// The rule of that written form.
    pub fn read(name: &str) -> Self {
        // The conversion cannot fail.
        name.parse().unwrap_or_else(|never: Infallible| match never {})
    }

    /// The written form.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Named(name) => name.as_str(),
            Self::Phase(phase) => match phase {
                Phase::Thriving => "phase Thriving",
                Phase::Cautious => "phase Cautious",
                Phase::Defensive => "phase Defensive",
                Phase::Survival => "phase Survival",
                Phase::Terminal => "phase Terminal",
            },
            Self::ExitOnly(phase) => match phase {
                Phase::Thriving => "phases.thriving.exit_only",
                Phase::Cautious => "phases.cautious.exit_only",
                Phase::Defensive => "phases.defensive.exit_only",
                Phase::Survival => "phases.survival.exit_only",
                Phase::Terminal => "phases.terminal.exit_only",
            },
            Self::PositionShare(phase) => match phase {
                Phase::Thriving => "phases.thriving.max_position_share_bps",
                Phase::Cautious => "phases.cautious.max_position_share_bps",
                Phase::Defensive => "phases.defensive.max_position_share_bps",
                Phase::Survival => "phases.survival.max_position_share_bps",
                Phase::Terminal => "phases.terminal.max_position_share_bps",
            },
            Self::TokenCaps(name) | Self::Other(name) => name.as_str(),
        }
    }

    /// Whether it is this one.
    pub fn is(&self, name: RuleName) -> bool {
        *self == Self::Named(name)
    }
}

impl FromStr for Rule {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        let known = RuleName::ALL.iter().find(|one| one.as_str() == name).copied().map(Self::Named);
        let phases =
            Phase::ALL.iter().flat_map(|one| [Self::Phase(*one), Self::ExitOnly(*one), Self::PositionShare(*one)]);
        let known = known.or_else(|| phases.into_iter().find(|one| one.as_str() == name));
        Ok(known.unwrap_or_else(|| {
            let text = SafeText::clean(name, MAX_NAME);
            if name.starts_with(TOKEN_CAPS) { Self::TokenCaps(text) } else { Self::Other(text) }
        }))
    }
}

impl From<RuleName> for Rule {
    fn from(name: RuleName) -> Self {
        Self::Named(name)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// By the written form.
impl PartialEq<&str> for Rule {
    fn eq(&self, name: &&str) -> bool {
        self.as_str() == *name
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer).map(|name| Self::read(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_reads_back_as_written_and_an_unknown_one_is_kept_clean() {
        let named = RuleName::ALL.iter().copied().map(Rule::Named);
        let of_phases =
            Phase::ALL.iter().flat_map(|one| [Rule::Phase(*one), Rule::ExitOnly(*one), Rule::PositionShare(*one)]);
        for rule in named.chain(of_phases).chain([Rule::token_caps("8453:native")]) {
            let json = serde_json::to_value(&rule).unwrap();
            assert_eq!(serde_json::from_value::<Rule>(json).unwrap(), rule);
        }
        // As journals and ledgers of earlier versions have them.
        for name in ["phase Defensive", "phases.defensive.exit_only", "policy_cage.maxPerDay", "token_caps.8453:native"]
        {
            assert!(!matches!(Rule::read(name), Rule::Other(_)), "{name}");
            assert_eq!(Rule::read(name).to_string(), name);
        }
        let newer = Rule::read("max_\u{1b}[2Jweird_usd");
        assert!(matches!(&newer, Rule::Other(name) if !name.as_str().contains('\u{1b}')), "{newer:?}");
    }
}
