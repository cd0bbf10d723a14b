//! What is wrong with an intent before anybody signs it. Every fault is reported, not only the first.
//!
//! Not here: policy (see `safety`), and whether the destination is in health.

use alloy::primitives::{Address, B256, U256};

use super::Intent;

/// What an intent is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    /// The time, in seconds since the Unix epoch.
    pub now: u64,
    /// The chain the tokens leave.
    pub origin_chain_id: u64,
    /// The chain they arrive on.
    pub destination_chain_id: u64,
    /// The settler on the first.
    pub origin_settler: Address,
    /// Who signs.
    pub user: Address,
    /// Who must receive.
    pub recipient: Address,
}

/// One thing that is wrong with an intent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Another settler.
    #[error("the intent names settler {found}, but {expected} is the one on that chain")]
    Settler {
        /// In the intent.
        found: Address,
        /// Right.
        expected: Address,
    },
    /// Somebody else's.
    #[error("the intent belongs to {found}, but {expected} would sign it")]
    User {
        /// In the intent.
        found: Address,
        /// Right.
        expected: Address,
    },
    /// Another origin.
    #[error("the intent leaves chain {found}, not chain {expected}")]
    Origin {
        /// In the intent.
        found: u64,
        /// Right.
        expected: u64,
    },
    /// Another destination.
    #[error("the intent arrives on chain {found}, not on chain {expected}")]
    Destination {
        /// In the intent.
        found: U256,
        /// Right.
        expected: u64,
    },
    /// Nowhere to go.
    #[error("the intent stays on chain {0}: use a swap instead")]
    SameChain(u64),
    /// Somebody else receives.
    #[error("the intent pays {found}, but everything must go to {expected}")]
    Recipient {
        /// In the intent: an address in 32 bytes.
        found: B256,
        /// Right.
        expected: Address,
    },
    /// It pays nothing.
    #[error("the input is zero: set the amount to send")]
    ZeroInput,
    /// It brings nothing.
    #[error("the output is zero: set the minimum that must arrive")]
    ZeroOutput,
    /// The native coin, which the settlers do not hold.
    #[error("the {0} token is the native token: wrap it first")]
    NativeCoin(&'static str),
    /// Too late to open.
    #[error("the open deadline {deadline} is not in the future: the time is {now}")]
    OpenDeadlinePassed {
        /// In the intent.
        deadline: u32,
        /// The time.
        now: u64,
    },
    /// It would end before it can begin.
    #[error("the fill deadline {fill} is not after the open deadline {open}")]
    FillBeforeOpen {
        /// When it must be filled.
        fill: u32,
        /// When it must be opened.
        open: u32,
    },
    /// A relayer alone.
    #[error("the intent is exclusive to relayer {0}: remove the exclusive relayer")]
    Exclusive(Address),
    /// Something to be called on arrival.
    #[error("the intent has a message that is called on arrival: remove it")]
    Message,
}

impl Intent {
    /// What is wrong with it.
    pub fn faults(&self, expected: &Expectation) -> Vec<Fault> {
        let mut faults = Vec::new();
        let data = &self.data;
        let mut fault = |wrong: bool, fault: Fault| {
            if wrong {
                faults.push(fault);
            }
        };
        let settler = Fault::Settler { found: self.origin_settler, expected: expected.origin_settler };
        fault(self.origin_settler != expected.origin_settler, settler);
        fault(self.user != expected.user, Fault::User { found: self.user, expected: expected.user });
        let origin = Fault::Origin { found: self.origin_chain_id, expected: expected.origin_chain_id };
        fault(self.origin_chain_id != expected.origin_chain_id, origin);
        let destination =
            Fault::Destination { found: data.destinationChainId, expected: expected.destination_chain_id };
        fault(data.destinationChainId != U256::from(expected.destination_chain_id), destination);
        let stays = data.destinationChainId == U256::from(self.origin_chain_id);
        fault(stays, Fault::SameChain(self.origin_chain_id));
        let recipient = Fault::Recipient { found: data.recipient, expected: expected.recipient };
        fault(data.recipient != expected.recipient.into_word(), recipient);
        fault(data.inputAmount.is_zero(), Fault::ZeroInput);
        fault(data.outputAmount.is_zero(), Fault::ZeroOutput);
        fault(data.inputToken == Address::ZERO, Fault::NativeCoin("input"));
        fault(data.outputToken == Address::ZERO, Fault::NativeCoin("output"));
        let passed = Fault::OpenDeadlinePassed { deadline: self.open_deadline, now: expected.now };
        fault(u64::from(self.open_deadline) <= expected.now, passed);
        let backwards = Fault::FillBeforeOpen { fill: self.fill_deadline, open: self.open_deadline };
        fault(self.fill_deadline <= self.open_deadline, backwards);
        let exclusive = data.exclusiveRelayer != Address::ZERO || data.exclusivityPeriod != 0;
        fault(exclusive, Fault::Exclusive(data.exclusiveRelayer));
        fault(!data.message.is_empty(), Fault::Message);
        faults
    }
}
