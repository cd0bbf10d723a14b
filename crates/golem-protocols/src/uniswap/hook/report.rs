//! Findings about a hook, and the verdict that follows from them.

use bardo_base::text::SafeText;

use super::code::HookCode;
use super::permission::Permission;
use super::trial::{LiquidityTrial, SwapTrial};
use crate::uniswap::v4::DYNAMIC_FEE;
use bardo_abi::uniswap_v4::PoolKey;

/// Largest fee of a hook that is not a harm, in millionths: that of V3's highest tier.
const LARGEST_FEE: u32 = 10_000;

/// Verdict about a hook in one pool, by its address, its code and simulations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookVerdict {
    /// Its address permits it neither swaps nor changes of liquidity: the pool manager never calls it there.
    Inert,
    /// It takes part, and changed nothing to anybody's loss in these simulations.
    NoHarmFound,
    /// It takes part, and the simulations say too little.
    Unknown,
    /// It took something, changed its fee, or let no liquidity out.
    Hostile,
}

impl HookVerdict {
    /// Name of the verdict, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inert => "inert",
            Self::NoHarmFound => "no_harm_found",
            Self::Unknown => "unknown",
            Self::Hostile => "hostile",
        }
    }
}

/// Finding about a hook. Shares are in millionths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookFinding {
    /// A swap gives less, or costs more, than the pool's price and stated fee say.
    TakesFromSwap {
        /// Largest part that is missing.
        part: u32,
    },
    /// The hook sets the fee of swaps.
    SetsFee {
        /// Largest fee of the simulated swaps.
        fee: u32,
    },
    /// The same swap gives different amounts by time, or by what the transaction pays for gas.
    ChangesQuote {
        /// Smallest part that is missing from what the pool's price and stated fee say.
        lowest: u32,
        /// Largest part that is missing.
        highest: u32,
    },
    /// A swap gives more than the pool's price says: the price is not the pool's.
    OtherCurve,
    /// A swap fails.
    SwapFails {
        /// Reason of the contract.
        why: SafeText,
    },
    /// Adding liquidity fails.
    DepositFails {
        /// Reason of the contract.
        why: SafeText,
    },
    /// Removing liquidity fails.
    WithdrawalFails {
        /// Reason of the contract.
        why: SafeText,
    },
    /// Adding liquidity costs more than the pool takes.
    TakesFromDeposit {
        /// Largest part beyond it.
        part: u32,
    },
    /// Removing liquidity pays less than the pool gives.
    TakesFromWithdrawal {
        /// Largest part that is missing.
        part: u32,
    },
    /// Without the hook the pool's amounts are not known, so nothing can be compared.
    NoComparison {
        /// Reason of the pool.
        why: SafeText,
    },
    /// Its code can behave otherwise than in a simulation.
    DefiesSimulation,
}

impl HookFinding {
    /// Returns true if the finding is a harm.
    pub const fn harms(&self) -> bool {
        match self {
            Self::TakesFromSwap { .. }
            | Self::ChangesQuote { .. }
            | Self::WithdrawalFails { .. }
            | Self::TakesFromDeposit { .. }
            | Self::TakesFromWithdrawal { .. } => true,
            Self::SetsFee { fee } => *fee > LARGEST_FEE,
            Self::OtherCurve
            | Self::SwapFails { .. }
            | Self::DepositFails { .. }
            | Self::NoComparison { .. }
            | Self::DefiesSimulation => false,
        }
    }

    /// Returns true if the finding leaves the hook's behaviour open.
    const fn leaves_open(&self) -> bool {
        match self {
            Self::OtherCurve
            | Self::SwapFails { .. }
            | Self::DepositFails { .. }
            | Self::NoComparison { .. }
            | Self::DefiesSimulation => true,
            Self::TakesFromSwap { .. }
            | Self::SetsFee { .. }
            | Self::ChangesQuote { .. }
            | Self::WithdrawalFails { .. }
            | Self::TakesFromDeposit { .. }
            | Self::TakesFromWithdrawal { .. } => false,
        }
    }
}

impl std::fmt::Display for HookFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TakesFromSwap { part } => {
                write!(f, "it takes {} % of a swap beside the pool's fee", percent(*part))
            }
            Self::SetsFee { fee } => write!(f, "it sets the fee of swaps, {} % in the simulations", percent(*fee)),
            Self::ChangesQuote { lowest, highest } => write!(
                f,
                "the same swap loses {} % at one time and {} % at another, or when gas is paid for",
                percent(*lowest),
                percent(*highest)
            ),
            Self::OtherCurve => {
                f.write_str("swaps give more than the pool's price says, so the price is not the pool's")
            }
            Self::SwapFails { why } => write!(f, "a swap fails: {why}"),
            Self::DepositFails { why } => write!(f, "adding liquidity fails: {why}"),
            Self::WithdrawalFails { why } => write!(f, "liquidity that was added does not come out: {why}"),
            Self::TakesFromDeposit { part } => {
                write!(f, "adding liquidity costs {} % more than the pool takes", percent(*part))
            }
            Self::TakesFromWithdrawal { part } => {
                write!(f, "removing liquidity pays {} % less than the pool gives", percent(*part))
            }
            Self::NoComparison { why } => write!(f, "its effect on swaps is not known: {why}"),
            Self::DefiesSimulation => f.write_str("its code can tell a simulation from a transaction, or be exchanged"),
        }
    }
}

/// Millionths as percent, without needless zeros.
pub fn percent(part: u32) -> String {
    let text = format!("{}.{:04}", part / 10_000, part % 10_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Everything that is known about a pool's hook.
#[derive(Debug, Clone)]
pub struct HookReport {
    /// Key of the pool.
    pub key: PoolKey,
    /// Permissions in the hook's address.
    pub permissions: Vec<Permission>,
    /// Code of the hook.
    pub code: HookCode,
    /// Swaps that were simulated.
    pub swaps: Vec<SwapTrial>,
    /// Liquidity that was added and removed in a simulation; `None` if the pool's ticks let none be added.
    pub liquidity: Option<LiquidityTrial>,
    /// Findings, in the order of the simulations.
    pub findings: Vec<HookFinding>,
    /// Verdict that follows from permissions and findings.
    pub verdict: HookVerdict,
}

/// Verdict by permissions and findings.
pub(super) fn verdict(key: &PoolKey, permissions: &[Permission], findings: &[HookFinding]) -> HookVerdict {
    use Permission as P;
    let takes_part = key.fee.to::<u32>() == DYNAMIC_FEE
        || permissions.iter().any(|one| match one {
            P::BeforeAddLiquidity
            | P::AfterAddLiquidity
            | P::BeforeRemoveLiquidity
            | P::AfterRemoveLiquidity
            | P::BeforeSwap
            | P::AfterSwap
            | P::BeforeSwapReturnsDelta
            | P::AfterSwapReturnsDelta
            | P::AfterAddLiquidityReturnsDelta
            | P::AfterRemoveLiquidityReturnsDelta => true,
            P::BeforeInitialize | P::AfterInitialize | P::BeforeDonate | P::AfterDonate => false,
        });
    if !takes_part {
        HookVerdict::Inert
    } else if findings.iter().any(HookFinding::harms) {
        HookVerdict::Hostile
    } else if findings.iter().any(HookFinding::leaves_open) {
        HookVerdict::Unknown
    } else {
        HookVerdict::NoHarmFound
    }
}
