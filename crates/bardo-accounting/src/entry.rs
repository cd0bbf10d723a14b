//! Entries: the amounts that an account received and gave in one transaction, or outside of any that is known.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};

use bardo_base::id::{CallId, GolemId};
use bardo_base::text::SafeText;

/// Token on one chain: a contract, or the native token as `None`.
pub type Token = Option<Address>;

/// Position of entries without a transaction in their block: after all transactions.
pub const AFTER_TRANSACTIONS: u64 = u32::MAX as u64;
/// Position of unexplained differences in their block: after everything else.
pub const UNEXPLAINED_POSITION: u64 = AFTER_TRANSACTIONS << 4;

/// Cause of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Balance of the account when its books begin.
    Opening,
    /// A transaction that Bardo signed.
    Transaction,
    /// An order that Bardo signed and others settled.
    Order,
    /// A bridge order that Bardo signed: its departure, or its arrival on another chain.
    Bridge,
    /// Something that Bardo did not do.
    Outside,
    /// Difference between the chain's balances and everything that is known, as tokens with a fee on transfers or with
    /// changing balances make it.
    Unexplained,
}

impl Origin {
    const WORDS: [(Self, &'static str); 6] = [
        (Self::Opening, "opening"),
        (Self::Transaction, "transaction"),
        (Self::Order, "order"),
        (Self::Bridge, "bridge"),
        (Self::Outside, "outside"),
        (Self::Unexplained, "unexplained"),
    ];

    /// Name of the origin in the database.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(origin, _)| *origin == self).map_or("outside", |(_, word)| word)
    }

    /// Reads a stored name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(origin, _)| *origin)
    }
}

/// Reservation about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryNote {
    /// The transaction settled several orders of the account, so its amounts belong to none of them alone.
    SeveralOrders,
    /// The native tokens that came back may include a deposit in the same block, which leaves no trace of its own.
    MayIncludeDeposit,
}

impl EntryNote {
    const WORDS: [(Self, &'static str); 2] =
        [(Self::SeveralOrders, "several_orders"), (Self::MayIncludeDeposit, "may_include_deposit")];

    /// Name of the note in the database.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(note, _)| *note == self).map_or("", |(_, word)| word)
    }

    /// Reads a stored name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(note, _)| *note)
    }

    /// Words for screens and files.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::SeveralOrders => "several orders were settled at once",
            Self::MayIncludeDeposit => "may include a deposit",
        }
    }
}

/// Amounts of one token that came into the account and left it, in raw units, without gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow {
    /// Amount that arrived, in raw units.
    pub received: U256,
    /// Amount that left, in raw units.
    pub given: U256,
}

/// Action to which an entry belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Action {
    /// Id of the tool call.
    pub call_id: CallId,
    /// Golem that acted, or the operator.
    pub golem_id: GolemId,
    /// Name of the tool; empty for an action that was made before the books existed.
    pub tool: SafeText,
}

/// Effect on an account of one transaction, or of one block outside of known transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account that received and gave.
    pub account: Address,
    /// Number and hash of the block.
    pub block: (u64, B256),
    /// Index of the transaction in the block; [`AFTER_TRANSACTIONS`] without one.
    pub position: u64,
    /// Time of the block, in seconds since the Unix epoch.
    pub at: u64,
    /// Hash of the transaction; `None` if it is not known.
    pub tx: Option<B256>,
    /// Cause of the entry.
    pub origin: Origin,
    /// Action of Bardo's; `None` if there is none, or if it is not known.
    pub action: Option<Action>,
    /// Amounts by token.
    pub flows: BTreeMap<Token, Flow>,
    /// Gas that the account paid, in wei, including a rollup's data fee.
    pub gas: U256,
    /// Reservation about the entry; `None` if there is none.
    pub note: Option<EntryNote>,
}

impl Entry {
    /// Place in time: earlier entries come first, whatever the order in which they were found. Of one transaction, the
    /// account that gave comes before the one that received.
    pub fn place(&self) -> (u64, u64, u64, u64, bool, Address) {
        let receives = self.flows.values().all(|flow| flow.given.is_zero());
        (self.at, self.chain_id, self.block.0, self.position, receives, self.account)
    }
}

/// Description of a token in the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFacts {
    /// Symbol, sanitised, as it was when the token joined the books.
    pub symbol: SafeText,
    /// Decimals of the token when it joined the books.
    pub decimals: u8,
    /// True if the address book of its network lists the token. The symbol of any other is the token's own claim.
    pub listed: bool,
    /// True for a stablecoin that counts as dollars when a trade is valued.
    pub is_dollar: bool,
    /// True for the contract that wraps the native token.
    pub wraps_native: bool,
}
