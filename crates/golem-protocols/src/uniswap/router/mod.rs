//! Universal Router: converts a route to a transaction, and decodes calldata.
//!
//! | file | holds |
//! |---|---|
//! | `command` | commands and their inputs, encoded and decoded |
//! | `v4_swap` | the program of actions of a swap through V4 pools |
//! | `plan` | a [`Route`](super::routing::Route) as commands |
//!
//! Only the commands in [`RouterCommand`] are supported. The contract's other commands (bridges, position managers,
//! sub-plans, transfers out of Permit2) are rejected by name; Bardo does not need them. Of V4_SWAP, only swaps of
//! Bardo's own form are accepted, through pools without a hook in swaps.
//!
//! Not here: judging a trade (see `safety`), and signing (see `custody`).

mod command;
mod plan;
mod v4_swap;

use alloy::primitives::{Address, Bytes, U256, address};
use alloy::sol_types::{SolCall, SolInterface};

use bardo_abi::universal_router::UniversalRouter;
use golem_chain::network::KnownContract;

pub use command::{CommandError, RouterCommand, SwapAmounts, SwapCommand, SwapPath, V3Path};
pub use plan::{FeePortion, OutputRecipient, RouterPlanError, RouterTrade, SwapRequest, plan};
pub use v4_swap::{V4Path, V4Step};

/// Recipient constant for the caller of the router.
pub const CALLER: Address = address!("0x0000000000000000000000000000000000000001");
/// Recipient constant for the router itself.
pub const THE_ROUTER: Address = address!("0x0000000000000000000000000000000000000002");
/// Amount constant for the router's whole balance of a token.
pub const WHOLE_BALANCE: U256 = U256::from_limbs([0, 0, 0, 1 << 63]);

/// Input encoding of a router's swaps. The address book's role names it; it is never inferred from a call, because some
/// inputs of one encoding are valid in another one with another meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouterVersion {
    /// Encoding of router 2.0.
    V2_0,
    /// Encoding of router 2.1.0: that of 2.0, except that V4 paths are followed by `uint256[] maxHopSlippage`, which is
    /// always empty here.
    V2_1_0,
    /// Encoding of routers from 2.1.1 on: V2 and V3 inputs end in `uint256[] minHopPriceX36`, and V4 paths are followed
    /// by it; empty for no bound per hop.
    V2_1_1,
}

impl RouterVersion {
    /// Returns the encoding of a router in the address book; `None` for any other contract.
    pub const fn of(contract: KnownContract) -> Option<Self> {
        match contract {
            KnownContract::UniversalRouter => Some(Self::V2_0),
            KnownContract::UniversalRouterV210 => Some(Self::V2_1_0),
            KnownContract::UniversalRouterV211
            | KnownContract::UniversalRouterV212
            | KnownContract::UniversalRouterV220 => Some(Self::V2_1_1),
            _ => None,
        }
    }

    /// Returns the version name that services use for this encoding of V2 and V3 swaps. They have none for 2.1.0.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2_0 | Self::V2_1_0 => "2.0",
            Self::V2_1_1 => "2.1.1",
        }
    }
}

/// Call of the router's `execute`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterExecution {
    /// Commands in order. The failure of any command reverts all of them.
    pub commands: Vec<RouterCommand>,
    /// Deadline in seconds since the Unix epoch; `None` for no deadline.
    pub deadline: Option<U256>,
}

/// Error in decoding calldata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouterDecodeError {
    /// Call of another function, or invalid encoding.
    #[error("not a call of the Universal Router's execute")]
    NotExecute,
    /// Different numbers of commands and inputs.
    #[error("{commands} commands have {inputs} inputs: each command needs one input")]
    Uneven {
        /// Number of commands.
        commands: usize,
        /// Number of inputs.
        inputs: usize,
    },
    /// Unsupported or invalid command.
    #[error("command {index}: {error}")]
    Command {
        /// Index of the command, from zero.
        index: usize,
        /// Error of the command.
        error: CommandError,
    },
    /// Calldata that decodes, but differs from its re-encoding: it hides data between the fields.
    #[error("the calldata contains more than its fields: re-encoding gives different bytes")]
    NotCanonical,
}

impl RouterExecution {
    /// Returns the calldata for a router of this version.
    pub fn encode(&self, version: RouterVersion) -> Bytes {
        let commands = self.commands.iter().map(RouterCommand::code).collect::<Vec<u8>>().into();
        let inputs = self.commands.iter().map(|command| command.input(version)).collect();
        match self.deadline {
            None => UniversalRouter::execute_0Call { commands, inputs }.abi_encode(),
            Some(deadline) => UniversalRouter::execute_1Call { commands, inputs, deadline }.abi_encode(),
        }
        .into()
    }

    /// Decodes calldata for a router of this version.
    ///
    /// # Errors
    /// Returns a [`RouterDecodeError`] for calldata that [`Self::encode`] would not produce.
    pub fn decode(calldata: &[u8], version: RouterVersion) -> Result<Self, RouterDecodeError> {
        use UniversalRouter::UniversalRouterCalls as Calls;
        let (codes, inputs, deadline) = match Calls::abi_decode(calldata).map_err(|_| RouterDecodeError::NotExecute)? {
            Calls::execute_0(call) => (call.commands, call.inputs, None),
            Calls::execute_1(call) => (call.commands, call.inputs, Some(call.deadline)),
        };
        if codes.len() != inputs.len() {
            return Err(RouterDecodeError::Uneven { commands: codes.len(), inputs: inputs.len() });
        }
        let commands = codes.iter().zip(&inputs).enumerate().map(|(index, (code, input))| {
            RouterCommand::decode(*code, input, version).map_err(|error| RouterDecodeError::Command { index, error })
        });
        let execution = Self { commands: commands.collect::<Result<_, _>>()?, deadline };
        if *execution.encode(version) == *calldata { Ok(execution) } else { Err(RouterDecodeError::NotCanonical) }
    }

    /// Returns the offset of the first permit's 65-byte signature in the calldata. `None` without a permit, or with a
    /// signature of another length.
    pub fn signature_offset(&self, version: RouterVersion) -> Option<usize> {
        let at = self.commands.iter().position(|command| matches!(command, RouterCommand::Permit2Permit { .. }))?;
        let Some(RouterCommand::Permit2Permit { signature, .. }) = self.commands.get(at) else { return None };
        if signature.len() != SIGNATURE_BYTES {
            return None;
        }
        let calldata = self.encode(version);
        let word = |offset: usize| {
            let bytes = calldata.get(4 + offset..4 + offset + 32)?;
            usize::try_from(U256::try_from_be_slice(bytes)?).ok()
        };
        // The second argument is the array of inputs: its length, then the offset of each element relative to the
        // position after the length.
        let inputs = word(32)? + 32;
        let input = inputs + word(inputs + 32 * at)? + 32;
        // Six words of permit precede the signature's offset; the signature starts with its length.
        let signature = input + word(input + 6 * 32)? + 32;
        Some(4 + signature)
    }
}

/// Length of a signature that Permit2 accepts from a key: r, s, v.
pub const SIGNATURE_BYTES: usize = 65;

#[cfg(test)]
mod tests;
