//! External events of a scenario: prices, chains, the actors of the devnet, and the operator's answers where no person
//! decides. The session triggers them, only on networks without real money.

use serde::Deserialize;

use super::condition::check_name;
use super::{ScenarioFlaw, StepCondition};
use bardo_base::model::{Phase, StopLevel};

/// Maximum price change of an event, in basis points.
pub(super) const MOST_BPS: i32 = 9_900;

/// External event at a fixed time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioEvent {
    /// Seconds since the start.
    pub at: u64,
    /// Name of a step; the event comes after the end of its call, or once no step is left to play.
    pub waits_for: Option<String>,
    /// Condition for the event at its time; `None` for always.
    pub when: Option<StepCondition>,
    /// Caption for viewers.
    pub caption: Option<String>,
    /// Effect of the event.
    #[serde(rename = "do")]
    pub deed: Option<EventEffect>,
}

/// Effect of an external event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EventEffect {
    /// Price change on both chains.
    Market {
        /// Asset whose price changes; absent for all except dollar stablecoins.
        #[serde(default)]
        asset: Option<String>,
        /// Size of the change, in basis points of the price.
        bps: i32,
        /// Number of ethereum blocks over which the price changes.
        #[serde(default = "five")]
        blocks: u64,
        /// True if the price returns afterwards.
        #[serde(default)]
        passes: bool,
    },
    /// Start or stop of the market's own trading, so that the scenario's effects can be the only movement.
    Trading {
        /// True if the market trades.
        on: bool,
    },
    /// Start or stop of a chain's block production.
    Chain {
        /// Name of the chain.
        name: String,
        /// True if the chain produces blocks.
        runs: bool,
    },
    /// Start or stop of the auctions' fillers.
    Fillers {
        /// True if the fillers read orders.
        look: bool,
    },
    /// Start or stop of the bridges' relayers.
    Relayers {
        /// True if the relayers deliver.
        deliver: bool,
    },
    /// Ratings of an agent by accounts of the devnet: owners of other agents, and clients.
    Rate {
        /// Name of the chain.
        chain: String,
        /// Number of the rated agent.
        agent: u64,
        /// Keys of the accounts: those of the agents that they own, such as `meridian`, or of clients, such as `ada`.
        by: Vec<String>,
        /// Rating from 0 to 100.
        value: u8,
        /// Tag of the rating.
        #[serde(default)]
        tag: String,
        /// Number of ratings by each account.
        #[serde(default = "once")]
        times: u8,
    },
    /// Operator's answer to the open approval request. Left to the person if there is one.
    Answer(ScriptedReply),
    /// Stop by the operator.
    Stop {
        /// Level of the stop.
        level: StopLevel,
        /// Reason for the stop.
        reason: String,
    },
    /// Assertion on the Golem's phase, without an effect.
    Phase {
        /// Phase that is expected.
        is: Phase,
    },
    /// Assertion on the integrity of the audit log, without an effect.
    Audit {
        /// True if the log must be intact.
        whole: bool,
    },
}

/// Operator's answer to an approval request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScriptedReply {
    /// Approves the request once.
    Approve,
    /// Approves a smaller amount.
    Smaller {
        /// Amount in whole tokens.
        amount: String,
    },
    /// Rejects the request.
    Refuse {
        /// Reason for the rejection.
        reason: String,
    },
    /// Rejects the request and halts everything.
    RefuseAndStop {
        /// Reason for the rejection.
        reason: String,
    },
}

fn once() -> u8 {
    1
}

fn five() -> u64 {
    5
}

impl ScenarioEvent {
    /// Checks that the event has a valid effect or a caption. `named` are the names of the steps that call a tool.
    pub(super) fn check(&self, named: &[&str]) -> Result<(), ScenarioFlaw> {
        if let Some(name) = &self.waits_for {
            check_name(name, named)?;
        }
        if let Some(when) = &self.when {
            when.check(named)?;
        }
        match &self.deed {
            Some(EventEffect::Market { bps, blocks, .. })
                if *bps == 0 || *bps < -MOST_BPS || *bps > MOST_BPS || *blocks == 0 =>
            {
                Err(ScenarioFlaw::Movement)
            }
            Some(EventEffect::Rate { value, .. }) if *value > 100 => Err(ScenarioFlaw::Rating(*value)),
            None if self.caption.is_none() => Err(ScenarioFlaw::EmptyCue),
            Some(_) | None => Ok(()),
        }
    }
}
