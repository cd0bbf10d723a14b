//! Names of the rules that can block an action: fields of the policy, rules of the policy contract, and fixed rules
//! that no policy can waive.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Phase, UnknownName};
use crate::text::SafeText;

/// Maximum length of an unknown rule's name, in characters.
const MAX_NAME: usize = 120;

/// Prefix of the rule name for a token's caps.
const TOKEN_CAPS: &str = "token_caps.";

named! {
    /// A rule without parameters.
    RuleName ("rule") {
        /// The stop in force does not permit the action.
        Stop = "stop",
        /// The account's session keys are revoked.
        SessionKeys = "session_keys",
        /// Tools that may be called.
        AllowedTools = "allowed_tools",
        /// Kinds of action that may be taken.
        AllowedIntentTypes = "allowed_intent_types",
        /// Chains that may be used.
        AllowedChains = "allowed_chains",
        /// Tokens that may be touched.
        AllowedTokens = "allowed_tokens",
        /// Accounts that may act.
        AllowedExecutionWallets = "allowed_execution_wallets",
        /// Contract wallets and delegating accounts that may act.
        SafeAddresses = "safe_addresses",
        /// Protocols that may be used.
        AllowedProtocols = "allowed_protocols",
        /// Contracts and functions that may be called.
        AllowedContracts = "allowed_contracts",
        /// Vaults that may be deposited to.
        AllowedVaults = "allowed_vaults",
        /// Recipients that may be paid.
        AllowedRecipients = "allowed_recipients",
        /// Spenders that may get an allowance.
        AllowedSpenders = "allowed_spenders",
        /// Contracts of the address book that never receive an allowance, whatever the policy says.
        SpenderRole = "spender_role",
        /// Contracts of the address book that would lose tokens sent to them, or let anyone take them.
        RecipientRole = "recipient_role",
        /// The value must be known.
        Price = "price",
        /// The ledger must be readable.
        Ledger = "ledger",
        /// Dollars in one action.
        MaxSingleTradeUsd = "max_single_trade_usd",
        /// Dollars in one transaction plan.
        PerTransaction = "spending_limits.per_transaction",
        /// Dollars in one hour.
        MaxHourlySpendUsd = "max_hourly_spend_usd",
        /// Dollars in one day.
        MaxDailySpendUsd = "max_daily_spend_usd",
        /// Dollars in one day, in the table of spending limits.
        PerDay = "spending_limits.per_day",
        /// Dollars in 30 days.
        MaxMonthlySpendUsd = "max_monthly_spend_usd",
        /// Dollars held in one token.
        MaxPositionSizeUsd = "max_position_size_usd",
        /// Dollars held in one token without a price feed.
        MaxUnfedUsd = "max_unfed_usd",
        /// Dollars of gas in one action.
        MaxGasUsd = "max_gas_usd",
        /// Native token that stays for the gas of later actions.
        GasReserve = "gas_reserve",
        /// Gas price in gwei.
        MaxFeePerGasGwei = "max_fee_per_gas_gwei",
        /// Permission of unlimited allowances.
        AllowUnlimitedAllowance = "allow_unlimited_allowance",
        /// Dollars that an allowance may leave available.
        MaxAllowanceUsd = "max_allowance_usd",
        /// Maximum lifetime of an allowance or an order.
        MaxAllowanceSeconds = "max_allowance_seconds",
        /// Dollars above which a transaction goes to a private relay.
        PrivateRpcAboveUsd = "private_rpc_above_usd",
        /// Dollars above which the operator is asked.
        RequireHumanApprovalAboveUsd = "require_human_approval_above_usd",
        /// Dollars above which the safety-guardian is asked.
        HotLane = "spending_limits.hot_lane",
        /// Trades in one hour.
        MaxTradesPerHour = "max_trades_per_hour",
        /// Revocations in one hour.
        MaxRevocationsPerHour = "max_revocations_per_hour",
        /// Tool calls in one minute.
        MaxToolCallsPerMinute = "max_tool_calls_per_minute",
        /// Time between two trades.
        CooldownSeconds = "cooldown_seconds",
        /// Hours in which the agent may act.
        ActiveHours = "active_hours",
        /// Drawdown of the portfolio.
        StopLossPct = "stop_loss_pct",
        /// Number of consecutive failures.
        MaxConsecutiveFailures = "max_consecutive_failures",
        /// Slippage tolerance of a trade.
        MaxSlippageBps = "max_slippage_bps",
        /// Price impact of a trade.
        MaxPriceImpactBps = "max_price_impact_bps",
        /// Loss of value of a trade.
        MaxLossBps = "max_loss_bps",
        /// Minimum health factor of a debt.
        MinHealthFactor = "min_health_factor",
        /// Dollars of debt that one borrowing adds.
        MaxBorrowUsd = "max_borrow_usd",
        /// Expected benefit of moving a liquidity position.
        MinRebalanceBenefitUsd = "min_rebalance_benefit_usd",
        /// The benefit of moving a liquidity position must be known.
        RequireRebalanceCheck = "require_rebalance_check",
        /// The lending market's prices must be those of the feeds and pools.
        LendingPrices = "lending_prices",
        /// Shares that a vault must have before a deposit.
        VaultSupply = "vault_supply",
        /// The shares of a deposit must be redeemable.
        VaultExit = "vault_exit",
        /// Worth at which a vault is settled.
        VaultValuation = "vault_valuation",
        /// Behaviour of a pool's hook.
        PoolHook = "pool_hook",
        /// A quote above the value by feeds and other pools.
        QuoteAboveWitnesses = "quote_above_witnesses",
        /// Minimum output of a trade.
        MinOut = "min_out",
        /// Maximum age of a quote.
        MaxQuoteAgeSeconds = "max_quote_age_seconds",
        /// The deadline of a trade must lie in the future.
        Deadline = "deadline",
        /// The policy contract must be readable.
        PolicyCage = "policy_cage",
        /// Calls on the policy contract's list.
        CageCalls = "policy_cage.calls",
        /// Assets on the policy contract's list.
        CageAssets = "policy_cage.assets",
        /// Spenders on the policy contract's list.
        CageSpenders = "policy_cage.spenders",
        /// Policy contract's limit per transaction.
        CageMaxPerTransaction = "policy_cage.maxPerTransaction",
        /// Policy contract's limit per day.
        CageMaxPerDay = "policy_cage.maxPerDay",
        /// Policy contract's limit per position.
        CageMaxPosition = "policy_cage.maxPosition",
        /// Policy contract's maximum age of prices.
        CageMaxPriceAge = "policy_cage.maxPriceAge",
        /// Policy contract's maximum loss.
        CageMaxLossBps = "policy_cage.maxLossBps",
        /// Policy contract's maximum drawdown.
        CageMaxDrawdownBps = "policy_cage.maxDrawdownBps",
        /// Policy contract's minimum interval between executions.
        CageMinInterval = "policy_cage.minInterval",
        /// Every action must be simulated before it is signed.
        RequireSimulation = "require_simulation_before_execution",
        /// The endpoints must agree.
        EndpointsAgree = "endpoints_agree",
        /// The machine's clock and the chain's time must agree.
        ClocksAgree = "clocks_agree",
        /// Calldata must say what was declared.
        Calldata = "calldata",
        /// The signing payload must match the proposed call.
        Frame = "frame",
        /// The order must be valid.
        Order = "order",
        /// The spender must be declared.
        Spender = "spender",
        /// The signature must take only what was declared.
        Signature = "signature",
        /// The declaration of a trade must match its flows.
        Trade = "trade",
        /// Every transaction must succeed in the simulation.
        Simulation = "simulation",
        /// The simulation must have observed every change.
        SimulationComplete = "simulation_complete",
        /// Only one transaction of a plan may move tokens.
        Plan = "plan",
        /// The account's nonce must advance by the number of its transactions.
        Nonce = "nonce",
        /// The account's code must not change.
        Code = "code",
        /// The account's delegation (EIP-7702) must not change.
        Delegation = "delegation",
        /// Minimum of what must arrive.
        Inflow = "inflow",
        /// Maximum of what may leave.
        Outflow = "outflow",
        /// No token may arrive without a declaration.
        UndeclaredInflow = "undeclared_inflow",
        /// The nonces of a token's permits (ERC-2612) must not change.
        PermitNonce = "permit_nonce",
        /// Permit2 must use only the nonces that were signed here.
        Permit2Nonce = "permit2_nonce",
        /// The account's nonce at the entry point (ERC-4337) must not change.
        AccountNonce = "account_nonce",
        /// Operator approvals of collections must not change.
        Operator = "operator",
        /// Single NFTs must not move undeclared.
        Nft = "nft",
        /// Every storage write that concerns the account must be explained.
        UnexplainedWrite = "unexplained_write",
        /// Recipients must be declared.
        Recipient = "recipient",
        /// Allowances must be declared.
        Allowance = "allowance",
    }
}

/// A rule that can block an action, named in JSON as in the policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A rule without parameters.
    Named(RuleName),
    /// Classes of action that the phase permits.
    Phase(Phase),
    /// Only exits are permitted in the phase.
    ExitOnly(Phase),
    /// Maximum share of a position that one trade of the phase may sell.
    PositionShare(Phase),
    /// Caps of one token, under the full name that the policy uses.
    TokenCaps(SafeText),
    /// A rule of another version that this one does not know.
    Other(SafeText),
}

impl Rule {
    /// Rule for the caps of the token that the policy writes as `token`.
    pub fn token_caps(token: &str) -> Self {
        Self::TokenCaps(SafeText::clean(&format!("{TOKEN_CAPS}{token}"), MAX_NAME))
    }

    /// Parses the written form; an unknown name becomes [`Rule::Other`].
    pub fn read(name: &str) -> Self {
        // The conversion cannot fail.
        name.parse().unwrap_or_else(|never: Infallible| match never {})
    }

    /// Written form of the rule.
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

    /// True if this is the named rule.
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

/// Compares the written form.
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
        // Forms of journals and ledgers of earlier versions.
        for name in ["phase Defensive", "phases.defensive.exit_only", "policy_cage.maxPerDay", "token_caps.8453:native"]
        {
            assert!(!matches!(Rule::read(name), Rule::Other(_)), "{name}");
            assert_eq!(Rule::read(name).to_string(), name);
        }
        let newer = Rule::read("max_\u{1b}[2Jweird_usd");
        assert!(matches!(&newer, Rule::Other(name) if !name.as_str().contains('\u{1b}')), "{newer:?}");
    }
}
