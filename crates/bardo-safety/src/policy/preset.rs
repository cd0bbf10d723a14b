//! The four built-in policies. A policy file starts from one of them and overrides fields.

use bardo_base::model::Phase;
use bardo_base::text::{SafeText, nearest};
use bardo_base::units::{BasisPoints, Usd};
use golem_chain::network::{DEVNET_BASE, DEVNET_ETHEREUM};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::fields::{PhaseRules, Phases, Rules, SecondApprovalRules, SpendingLimits};
use super::hours::TradingHours;
use super::items::{AllowedItems, Approvers, ChainId};
use super::rules::{
    MaxBps, MaxCount, MaxGwei, MaxPercent, MaxSeconds, MaxUsd, MinFactor, MinSeconds, MinUsd, Permission, Require,
    TokenRules, ToolRules,
};

/// Built-in policy that a file can start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyPreset {
    /// Signs nothing at all.
    ReadOnly,
    /// For the devnet: limits wide enough to show every feature, and low enough to be reached.
    Demo,
    /// For trading with real money within wide limits.
    DefiTrading,
    /// For trading with real money, with approval of nearly every action.
    Paranoid,
}

impl PolicyPreset {
    /// Every preset, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::ReadOnly, Self::Demo, Self::DefiTrading, Self::Paranoid];

    /// Returns the name of the preset.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Demo => "demo",
            Self::DefiTrading => "defi-trading",
            Self::Paranoid => "paranoid",
        }
    }

    /// Returns the rules of the preset.
    pub fn rules(self) -> Rules {
        match self {
            Self::ReadOnly => read_only(),
            Self::Demo => demo(),
            Self::DefiTrading => defi_trading(),
            Self::Paranoid => paranoid(),
        }
    }
}

impl<'de> Deserialize<'de> for PolicyPreset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::ALL.into_iter().find(|preset| preset.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str);
            let near = nearest(&text, names).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            let given = SafeText::clean(&text, 60);
            D::Error::custom(format!("\"{given}\" is not a preset{near}; known: {}", names.join(", ")))
        })
    }
}

fn dollars(whole: u64) -> Usd {
    // Whole dollars always fit.
    Usd::from_scaled(alloy::primitives::U256::from(whole), 0).unwrap_or(Usd::ZERO)
}

fn most(whole: u64) -> MaxUsd {
    MaxUsd(Some(dollars(whole)))
}

fn bps(points: u32) -> MaxBps {
    // Every value here is valid; zero is the safe fallback.
    MaxBps(BasisPoints::new(points).unwrap_or(BasisPoints::ZERO))
}

const NO_LIMIT: MaxUsd = MaxUsd(None);

/// Defaults of source document 001, and Bardo's own for fields that it does not have.
fn defi_trading() -> Rules {
    Rules {
        max_single_trade_usd: most(10_000),
        max_hourly_spend_usd: NO_LIMIT,
        max_daily_spend_usd: most(50_000),
        max_monthly_spend_usd: most(500_000),
        max_borrow_usd: NO_LIMIT,
        min_health_factor: MinFactor::DEFAULT,
        max_position_size_usd: most(100_000),
        max_unfed_usd: most(100),
        max_fee_per_gas_gwei: MaxGwei(Some(300_000_000_000)),
        max_gas_usd: most(100),
        max_allowance_usd: most(10_000),
        allow_unlimited_allowance: Permission(false),
        max_allowance_seconds: MaxSeconds(3_600),
        allowed_tools: AllowedItems::ALL,
        allowed_chains: AllowedItems::only([ChainId(42_161)]),
        allowed_protocols: AllowedItems::ALL,
        allowed_tokens: AllowedItems::KNOWN,
        allowed_intent_types: AllowedItems::ALL,
        allowed_execution_wallets: AllowedItems::ALL,
        safe_addresses: AllowedItems::ALL,
        allowed_recipients: AllowedItems::KNOWN,
        allowed_contracts: AllowedItems::KNOWN,
        allowed_vaults: AllowedItems::KNOWN,
        allowed_spenders: AllowedItems::KNOWN,
        require_human_approval_above_usd: most(10_000),
        delay_above_usd: NO_LIMIT,
        delay_seconds: MinSeconds(60),
        notify_above_usd: most(1_000),
        approve_first_seen: Require(true),
        always_approve: AllowedItems::only([]),
        require_simulation_before_execution: Require(true),
        max_trades_per_hour: MaxCount(10),
        max_revocations_per_hour: MaxCount(30),
        max_tool_calls_per_minute: MaxCount(60),
        cooldown_seconds: MinSeconds(300),
        active_hours: TradingHours::ALWAYS,
        stop_loss_pct: MaxPercent(bps(500).0),
        max_consecutive_failures: MaxCount(3),
        breaker_cool_off_seconds: MinSeconds(900),
        max_slippage_bps: bps(100),
        max_price_impact_bps: bps(200),
        max_loss_bps: bps(200),
        max_quote_age_seconds: MaxSeconds(60),
        private_rpc_above_usd: most(1_000),
        uniswapx_from_usd: most(1_000),
        min_rebalance_benefit_usd: MinUsd(dollars(10)),
        require_rebalance_check: Require(true),
        tools: ToolRules::default(),
        token_caps: TokenRules::default(),
        spending_limits: SpendingLimits {
            per_transaction: most(10_000),
            per_day: most(50_000),
            hot_lane: most(10_000),
        },
        second_approval: SecondApprovalRules { above_usd: MaxUsd(None), approvers: Approvers(None) },
        phases: phases(),
    }
}

fn demo() -> Rules {
    Rules {
        max_single_trade_usd: most(2_500),
        max_daily_spend_usd: most(5_000),
        max_monthly_spend_usd: most(50_000),
        allowed_chains: AllowedItems::only([ChainId(DEVNET_ETHEREUM), ChainId(DEVNET_BASE)]),
        require_human_approval_above_usd: most(1_000),
        // First-time recipients are shown to the operator instead of being refused.
        allowed_recipients: AllowedItems::ALL,
        always_approve: AllowedItems::ALL,
        notify_above_usd: NO_LIMIT,
        max_trades_per_hour: MaxCount(120),
        max_revocations_per_hour: MaxCount(240),
        cooldown_seconds: MinSeconds(0),
        stop_loss_pct: MaxPercent(bps(1_000).0),
        spending_limits: SpendingLimits { per_transaction: most(2_500), per_day: most(5_000), hot_lane: most(2_000) },
        ..defi_trading()
    }
}

fn paranoid() -> Rules {
    Rules {
        max_single_trade_usd: most(100),
        max_hourly_spend_usd: most(200),
        max_daily_spend_usd: most(300),
        max_monthly_spend_usd: most(1_000),
        max_position_size_usd: most(1_000),
        max_unfed_usd: most(10),
        max_fee_per_gas_gwei: MaxGwei(Some(50_000_000_000)),
        max_gas_usd: most(10),
        max_allowance_usd: most(100),
        max_allowance_seconds: MaxSeconds(300),
        require_human_approval_above_usd: most(0),
        delay_above_usd: most(50),
        notify_above_usd: most(0),
        max_trades_per_hour: MaxCount(4),
        max_revocations_per_hour: MaxCount(20),
        max_tool_calls_per_minute: MaxCount(30),
        cooldown_seconds: MinSeconds(600),
        stop_loss_pct: MaxPercent(bps(200).0),
        max_consecutive_failures: MaxCount(1),
        breaker_cool_off_seconds: MinSeconds(3_600),
        max_slippage_bps: bps(30),
        max_price_impact_bps: bps(50),
        max_loss_bps: bps(50),
        max_quote_age_seconds: MaxSeconds(30),
        private_rpc_above_usd: most(0),
        spending_limits: SpendingLimits { per_transaction: most(100), per_day: most(300), hot_lane: most(100) },
        ..defi_trading()
    }
}

fn read_only() -> Rules {
    Rules {
        max_single_trade_usd: most(0),
        max_hourly_spend_usd: most(0),
        max_daily_spend_usd: most(0),
        max_monthly_spend_usd: most(0),
        // The list of chains also limits reads; every kind of action is refused below.
        allowed_chains: AllowedItems::ALL,
        allowed_intent_types: AllowedItems::only([]),
        max_trades_per_hour: MaxCount(0),
        max_revocations_per_hour: MaxCount(20),
        spending_limits: SpendingLimits { per_transaction: most(0), per_day: most(0), hot_lane: most(0) },
        ..paranoid()
    }
}

/// Figures of the phases' guidelines.
///
/// | phase | size | slippage | impact below | exits only | of a position |
/// |---|---|---|---|---|---|
/// | Thriving | 100 % | | | no | |
/// | Cautious | 50 % | 30 bps | 1 % | no | |
/// | Defensive | 50 % | | | yes | 25 % |
/// | Survival | 50 % | | | yes | 25 % |
/// | Terminal | 100 % | 200 bps | | yes | |
///
/// In a phase that allows only exits, the size has no effect, since exits are not reduced. It applies if an operator
/// allows more in such a phase. An empty cell adds no limit of its own. If both the phase and the general field have a
/// limit, the stricter applies: Terminal's 200 bps only bind under a policy that allows more.
fn phases() -> Phases {
    let open = PhaseRules {
        size_factor_bps: bps(10_000),
        max_slippage_bps: bps(10_000),
        max_price_impact_bps: bps(10_000),
        exit_only: Require(false),
        max_position_share_bps: bps(10_000),
    };
    let exits = PhaseRules { exit_only: Require(true), ..open.clone() };
    let parts = PhaseRules { size_factor_bps: bps(5_000), max_position_share_bps: bps(2_500), ..exits.clone() };
    Phases {
        thriving: open.clone(),
        cautious: PhaseRules {
            size_factor_bps: bps(5_000),
            max_slippage_bps: bps(30),
            max_price_impact_bps: bps(100),
            ..open
        },
        defensive: parts.clone(),
        survival: parts,
        terminal: PhaseRules { max_slippage_bps: bps(200), ..exits },
    }
}

impl Phases {
    /// Returns the limits of a phase.
    pub fn of(&self, phase: Phase) -> &PhaseRules {
        match phase {
            Phase::Thriving => &self.thriving,
            Phase::Cautious => &self.cautious,
            Phase::Defensive => &self.defensive,
            Phase::Survival => &self.survival,
            Phase::Terminal => &self.terminal,
        }
    }
}
