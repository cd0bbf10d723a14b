//! What happens around a Golem in a show: prices, chains, the parties of the devnet, and what an operator does where no
//! person does. Given by the session, and only where the money is for play.

use serde::Deserialize;

use bardo_base::model::{Phase, StopLevel};

/// The furthest that a cue may push prices, in basis points.
const MOST_BPS: i32 = 9_900;

/// One cue.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cue {
    /// Seconds into the show.
    pub at: u64,
    /// A line for whoever watches.
    pub caption: Option<String>,
    /// What happens.
    #[serde(rename = "do")]
    pub deed: Option<Deed>,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Deed {
    /// Prices move, on both chains.
    Market {
        /// What; absent: everything but the dollar coins.
        #[serde(default)]
        asset: Option<String>,
        /// How far, in basis points of the price.
        bps: i32,
        /// Over so many blocks of ethereum.
        #[serde(default = "five")]
        blocks: u64,
        /// Whether it passes again.
        #[serde(default)]
        passes: bool,
    },
    /// The market stands still where it is, or trades again: what a show is about can then be all that moves.
    Trading {
        /// Whether it trades.
        on: bool,
    },
    /// A chain stops making blocks, or goes on.
    Chain {
        /// Which.
        name: String,
        /// Whether it makes blocks.
        runs: bool,
    },
    /// The fillers of auctions look away, or look again.
    Fillers {
        /// Whether they look.
        look: bool,
    },
    /// The relayers of bridges take their time, or deliver again.
    Relayers {
        /// Whether they deliver.
        deliver: bool,
    },
    /// The operator answers the open question. Left to the person where there is one.
    Answer(Reply),
    /// The stop ladder is raised.
    Stop {
        /// To this level.
        level: StopLevel,
        /// Why.
        reason: String,
    },
    /// Nothing happens: the Golem must be in this phase.
    Phase {
        /// Which.
        is: Phase,
    },
    /// Nothing happens: the audit trail must be whole.
    Audit {
        /// Whether it is.
        whole: bool,
    },
}

/// What an operator answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// Yes, once.
    Approve,
    /// Yes, to so much.
    Smaller {
        /// In whole tokens.
        amount: String,
    },
    /// No.
    Refuse {
        /// Why.
        reason: String,
    },
    /// No, and stop everything.
    RefuseAndStop {
        /// Why.
        reason: String,
    },
}

fn five() -> u64 {
    5
}

impl Cue {
    /// What is wrong with it.
    pub(super) fn check(&self) -> Result<(), String> {
        match &self.deed {
            Some(Deed::Market { bps, blocks, .. })
                if *bps == 0 || *bps < -MOST_BPS || *bps > MOST_BPS || *blocks == 0 =>
            {
                Err(format!("prices move by 1 to {MOST_BPS} basis points, up or down, over at least a block"))
            }
            None if self.caption.is_none() => Err("a cue needs a caption or a `do`".to_owned()),
            Some(_) | None => Ok(()),
        }
    }
}
