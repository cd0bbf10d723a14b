//! The Universal Router: from a route to the transaction that trades it, and back from calldata to
//! what it would do.
//!
//! | file | holds |
//! |---|---|
//! | `command` | single commands and their inputs, encoded and decoded |
//! | `plan` | a [`Route`](super::routing::Route) as commands |
//!
//! Only the commands in [`Command`] exist here. The others of the contract (V4, bridges, position
//! managers, sub-plans, transfers out of Permit2) are refused by name: the devnet's router was built
//! without what they call, and nothing of Bardo's needs them.
//!
//! Not here: whether a trade is wise (see `safety`), and who signs it (see `custody`).

mod command;
mod plan;

use alloy::primitives::{Address, Bytes, U256, address};
use alloy::sol_types::{SolCall, SolInterface};

use bardo_abi::universal_router::UniversalRouter;
use golem_chain::network::Contract;

pub use command::{Command, CommandError, Exactness, Path, Swap, V3Path};
pub use plan::{PlanError, Portion, Recipient, SwapRequest, Trade, plan};

/// A recipient that means whoever calls the router.
pub const CALLER: Address = address!("0x0000000000000000000000000000000000000001");
/// A recipient that means the router itself.
pub const THE_ROUTER: Address = address!("0x0000000000000000000000000000000000000002");
/// An amount that means all the router has of the token.
pub const WHOLE_BALANCE: U256 = U256::from_limbs([0, 0, 0, 1 << 63]);

/// How a router takes the inputs of its V2 and V3 swaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// 2.0 and 2.1.0.
    V2_0,
    /// 2.1.1 and later: swaps end in `uint256[] minHopPriceX36`, empty for no bound per hop.
    V2_1_1,
}

impl Version {
    /// The form that a router of the address book takes; nothing for a contract that is no Universal Router.
    pub const fn of(contract: Contract) -> Option<Self> {
        match contract {
            Contract::UniversalRouter => Some(Self::V2_0),
            Contract::UniversalRouterV211 | Contract::UniversalRouterV212 | Contract::UniversalRouterV220 => {
                Some(Self::V2_1_1)
            }
            _ => None,
        }
    }

    /// How services that build calls for a router name the form.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2_0 => "2.0",
            Self::V2_1_1 => "2.1.1",
        }
    }
}

/// What the router is called with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// What it does, in order. Any failure undoes all of it.
    pub commands: Vec<Command>,
    /// Second since the Unix epoch after which the router refuses; nothing for never.
    pub deadline: Option<U256>,
}

/// Why calldata is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Another function, or broken encoding.
    #[error("not a call of the Universal Router's execute")]
    NotExecute,
    /// Commands and inputs differ in number.
    #[error("{commands} commands have {inputs} inputs: each command needs one input")]
    Uneven {
        /// Commands.
        commands: usize,
        /// Inputs.
        inputs: usize,
    },
    /// One command is refused or broken.
    #[error("command {index}: {error}")]
    Command {
        /// Which, from 0.
        index: usize,
        /// What is wrong.
        error: CommandError,
    },
    /// It reads well and is not what encoding what was read gives: something is hidden between the fields.
    #[error("the calldata contains more than its fields: re-encoding gives different bytes")]
    NotCanonical,
}

impl Execution {
    /// The calldata, for a router of this version.
    pub fn encode(&self, version: Version) -> Bytes {
        let commands = self.commands.iter().map(Command::code).collect::<Vec<u8>>().into();
        let inputs = self.commands.iter().map(|command| command.input(version)).collect();
        match self.deadline {
            None => UniversalRouter::execute_0Call { commands, inputs }.abi_encode(),
            Some(deadline) => UniversalRouter::execute_1Call { commands, inputs, deadline }.abi_encode(),
        }
        .into()
    }

    /// Reads calldata for a router of this version.
    ///
    /// # Errors
    /// A [`DecodeError`] for anything that this module would not have written itself.
    pub fn decode(calldata: &[u8], version: Version) -> Result<Self, DecodeError> {
        use UniversalRouter::UniversalRouterCalls as Calls;
        let (codes, inputs, deadline) = match Calls::abi_decode(calldata).map_err(|_| DecodeError::NotExecute)? {
            Calls::execute_0(call) => (call.commands, call.inputs, None),
            Calls::execute_1(call) => (call.commands, call.inputs, Some(call.deadline)),
        };
        if codes.len() != inputs.len() {
            return Err(DecodeError::Uneven { commands: codes.len(), inputs: inputs.len() });
        }
        let commands = codes.iter().zip(&inputs).enumerate().map(|(index, (code, input))| {
            Command::decode(*code, input, version).map_err(|error| DecodeError::Command { index, error })
        });
        let execution = Self { commands: commands.collect::<Result<_, _>>()?, deadline };
        if *execution.encode(version) == *calldata { Ok(execution) } else { Err(DecodeError::NotCanonical) }
    }

    /// Where in the calldata the 65 bytes of the first permit's signature stand; nothing without a
    /// permit, or with a signature of another length.
    pub fn signature_offset(&self, version: Version) -> Option<usize> {
        let at = self.commands.iter().position(|command| matches!(command, Command::Permit2Permit { .. }))?;
        let Some(Command::Permit2Permit { signature, .. }) = self.commands.get(at) else { return None };
        if signature.len() != SIGNATURE_BYTES {
            return None;
        }
        let calldata = self.encode(version);
        let word = |offset: usize| {
            let bytes = calldata.get(4 + offset..4 + offset + 32)?;
            usize::try_from(U256::try_from_be_slice(bytes)?).ok()
        };
        // The second argument is the list of inputs: its length, then where each begins, counted from there.
        let inputs = word(32)? + 32;
        let input = inputs + word(inputs + 32 * at)? + 32;
        // Six words of permit, then where the signature begins: its length, then itself.
        let signature = input + word(input + 6 * 32)? + 32;
        Some(4 + signature)
    }
}

/// Length of a signature as Permit2 takes it from a key: r, s, v.
pub const SIGNATURE_BYTES: usize = 65;

#[cfg(test)]
mod tests;
