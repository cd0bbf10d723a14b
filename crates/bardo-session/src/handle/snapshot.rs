//! What is not an event: limits, holdings, allowances, standing approvals, the stop, the policy. Told whole, again and
//! again; the newest is the truth.

use alloy_primitives::{Address, U256};
use serde::{Deserialize, Serialize};

pub use bardo_base::fabric::{BreakerNow, Limits, PolicyNow, SpendNow, StopLossNow};
use bardo_base::id::GolemId;
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_base::units::{TokenAmount, Usd};

/// Everything a screen needs that no event tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The Golem it is about.
    pub golem_id: GolemId,
    /// When it was made, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Whose money moves; `None` where there is no account.
    pub account: Option<Address>,
    /// Whether everything is only rehearsed.
    pub paper: bool,
    /// The phase calls are decided in.
    pub phase: Phase,
    /// The policy in force.
    pub policy: PolicyNow,
    /// What of it is used; `None` where the ledger cannot be read, and `fault` says why.
    pub limits: Option<Limits>,
    /// What is wrong with ledger or policy file.
    pub fault: Option<SafeText>,
    /// The stop in force.
    pub stop: Option<StopNow>,
    /// Whether a stop has taken the Golem's keys away: lowered or not, nothing is signed before a new start.
    #[serde(default)]
    pub keys_revoked: bool,
    /// What is held, chain by chain.
    pub holdings: Vec<ChainHoldings>,
    /// What of it has a price, in dollars.
    pub equity: Option<Usd>,
    /// Whether everything held has a price.
    pub all_priced: bool,
    /// What others may take.
    pub allowances: AllowancesNow,
    /// Standing approvals.
    pub grants: Vec<GrantNow>,
    /// Calls that run.
    pub running: u32,
}

/// The stop in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopNow {
    /// How much is stopped.
    pub level: StopLevel,
    /// Who stopped.
    pub by: SafeText,
    /// Why.
    pub reason: SafeText,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Whether it is this session's own hold, which can be taken back without a decision.
    pub own_hold: bool,
}

/// What is held on one chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChainHoldings {
    /// The chain's name.
    pub chain: SafeText,
    /// Its id.
    pub chain_id: u64,
    /// The block it was read in.
    pub block: u64,
    /// A row per token held.
    pub rows: Vec<Holding>,
}

/// One token held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Its symbol.
    pub symbol: SafeText,
    /// How much.
    pub amount: TokenAmount,
    /// What it is worth; `None` without a price.
    pub value: Option<Usd>,
}

/// What others may take, as far as the chains told it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowancesNow {
    /// A row per token and spender.
    pub rows: Vec<AllowanceNow>,
    /// Tokens of which it could not be read: there may be more than `rows` has.
    pub silent: Vec<SilentToken>,
}

/// A listed token that did not say what others may take of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentToken {
    /// The chain's name.
    pub chain: SafeText,
    /// Its id.
    pub chain_id: u64,
    /// The token's symbol.
    pub symbol: SafeText,
    /// Its contract.
    pub token: Address,
}

/// What somebody may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowanceNow {
    /// The chain's name.
    pub chain: SafeText,
    /// Its id.
    pub chain_id: u64,
    /// The token's symbol.
    pub symbol: SafeText,
    /// Its contract.
    pub token: Address,
    /// Who may take.
    pub spender: Address,
    /// Who that is, where it is known.
    pub label: Option<SafeText>,
    /// Whether it stands inside Permit2, rather than in the token.
    pub through_permit2: bool,
    /// Raw units.
    pub raw: U256,
    /// How much, in whole tokens; `None` where that cannot be told.
    pub amount: Option<TokenAmount>,
    /// Whether it is as good as unlimited.
    pub unlimited: bool,
    /// When it ends, in seconds since the Unix epoch; only inside Permit2.
    pub expires_at: Option<u64>,
    /// How much of it signed orders may still take, in raw units: of an exact amount that Permit2 may take of a token.
    /// `None` for any other, and where the ledger does not tell.
    #[serde(default)]
    pub promised: Option<U256>,
}

/// A standing approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantNow {
    /// Names it.
    pub number: u64,
    /// Who may act.
    pub golem_id: GolemId,
    /// By which tool.
    pub tool: SafeText,
    /// Where.
    pub chain_id: u64,
    /// Which tokens, by symbol or address.
    pub tokens: Vec<SafeText>,
    /// Who may receive.
    pub recipients: Vec<Address>,
    /// What might be spent when it was given; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Usd>,
    /// What may still be spent.
    pub left: Usd,
    /// Milliseconds it still holds.
    pub lasts_millis: u64,
}

impl Snapshot {
    /// Whether it says the same as another, but for when it was made.
    pub fn says_the_same(&self, other: &Self) -> bool {
        // What a standing approval still lasts runs by itself; whoever shows it counts from when the snapshot was made.
        let steady = |one: &Self| {
            let grants = one.grants.iter().map(|grant| GrantNow { lasts_millis: 0, ..grant.clone() }).collect();
            Self { at: 0, grants, ..one.clone() }
        };
        steady(self) == steady(other)
    }
}
