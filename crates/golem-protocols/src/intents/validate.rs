//! Validation of an intent before it is signed. All faults are reported, not only the first.
//!
//! Not here: policy (see `safety`), and the health of the destination chain.

use alloy::primitives::{Address, B256, U256};

use super::CrossChainIntent;

/// Expected values of an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntentExpectation {
    /// Current time, in seconds since the Unix epoch.
    pub now: u64,
    /// EIP-155 id of the chain that the tokens leave.
    pub origin_chain_id: u64,
    /// EIP-155 id of the chain that they arrive on.
    pub destination_chain_id: u64,
    /// Settler on the origin chain.
    pub origin_settler: Address,
    /// Account that signs.
    pub user: Address,
    /// Account that must receive the output.
    pub recipient: Address,
}

/// Fault of an intent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntentFault {
    /// Another settler than expected.
    #[error("the intent names settler {found}, but {expected} is the one on that chain")]
    Settler {
        /// Settler in the intent.
        found: Address,
        /// Settler that was expected.
        expected: Address,
    },
    /// Intent of another user.
    #[error("the intent belongs to {found}, but {expected} would sign it")]
    User {
        /// User in the intent.
        found: Address,
        /// User that was expected.
        expected: Address,
    },
    /// Another origin chain than expected.
    #[error("the intent leaves chain {found}, not chain {expected}")]
    Origin {
        /// Chain id in the intent.
        found: u64,
        /// Expected chain id.
        expected: u64,
    },
    /// Another destination chain than expected.
    #[error("the intent arrives on chain {found}, not on chain {expected}")]
    Destination {
        /// Chain id in the intent.
        found: U256,
        /// Expected chain id.
        expected: u64,
    },
    /// Origin and destination are the same chain.
    #[error("the intent stays on chain {0}: use a swap instead")]
    SameChain(u64),
    /// Another recipient than expected.
    #[error("the intent pays {found}, but everything must go to {expected}")]
    Recipient {
        /// Recipient in the intent, an address padded to 32 bytes.
        found: B256,
        /// Recipient that was expected.
        expected: Address,
    },
    /// Input amount of zero.
    #[error("the input is zero: set the amount to send")]
    ZeroInput,
    /// Output amount of zero.
    #[error("the output is zero: set the minimum that must arrive")]
    ZeroOutput,
    /// Native token, which the settlers do not hold.
    #[error("the {0} token is the native token: wrap it first")]
    NativeCoin(&'static str),
    /// Deadline for opening that has passed.
    #[error("the open deadline {deadline} is not in the future: the time is {now}")]
    OpenDeadlinePassed {
        /// Deadline in the intent, in seconds since the Unix epoch.
        deadline: u32,
        /// Current time, in seconds since the Unix epoch.
        now: u64,
    },
    /// Deadline for filling that is not after the one for opening.
    #[error("the fill deadline {fill} is not after the open deadline {open}")]
    FillBeforeOpen {
        /// Deadline for filling, in seconds since the Unix epoch.
        fill: u32,
        /// Deadline for opening, in seconds since the Unix epoch.
        open: u32,
    },
    /// Exclusivity for one relayer.
    #[error("the intent is exclusive to relayer {0}: remove the exclusive relayer")]
    Exclusive(Address),
    /// Message for a call on arrival.
    #[error("the intent has a message that is called on arrival: remove it")]
    Message,
}

impl CrossChainIntent {
    /// Returns all faults of the intent.
    pub fn faults(&self, expected: &IntentExpectation) -> Vec<IntentFault> {
        let mut faults = Vec::new();
        let data = &self.data;
        let mut fault = |wrong: bool, fault: IntentFault| {
            if wrong {
                faults.push(fault);
            }
        };
        let settler = IntentFault::Settler { found: self.origin_settler, expected: expected.origin_settler };
        fault(self.origin_settler != expected.origin_settler, settler);
        fault(self.user != expected.user, IntentFault::User { found: self.user, expected: expected.user });
        let origin = IntentFault::Origin { found: self.origin_chain_id, expected: expected.origin_chain_id };
        fault(self.origin_chain_id != expected.origin_chain_id, origin);
        let destination =
            IntentFault::Destination { found: data.destinationChainId, expected: expected.destination_chain_id };
        fault(data.destinationChainId != U256::from(expected.destination_chain_id), destination);
        let stays = data.destinationChainId == U256::from(self.origin_chain_id);
        fault(stays, IntentFault::SameChain(self.origin_chain_id));
        let recipient = IntentFault::Recipient { found: data.recipient, expected: expected.recipient };
        fault(data.recipient != expected.recipient.into_word(), recipient);
        fault(data.inputAmount.is_zero(), IntentFault::ZeroInput);
        fault(data.outputAmount.is_zero(), IntentFault::ZeroOutput);
        fault(data.inputToken == Address::ZERO, IntentFault::NativeCoin("input"));
        fault(data.outputToken == Address::ZERO, IntentFault::NativeCoin("output"));
        let passed = IntentFault::OpenDeadlinePassed { deadline: self.open_deadline, now: expected.now };
        fault(u64::from(self.open_deadline) <= expected.now, passed);
        let backwards = IntentFault::FillBeforeOpen { fill: self.fill_deadline, open: self.open_deadline };
        fault(self.fill_deadline <= self.open_deadline, backwards);
        let exclusive = data.exclusiveRelayer != Address::ZERO || data.exclusivityPeriod != 0;
        fault(exclusive, IntentFault::Exclusive(data.exclusiveRelayer));
        fault(!data.message.is_empty(), IntentFault::Message);
        faults
    }
}
