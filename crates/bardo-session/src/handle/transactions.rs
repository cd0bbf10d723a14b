//! Unconfirmed transactions and open orders of the session's account, as screens show them. They are read elsewhere.

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use bardo_base::id::{CallId, PermitId};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// Unconfirmed transactions and open orders of one account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionsState {
    /// Time of the reading, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Transactions by chain, in the order of the configuration. A chain without any is listed too.
    pub chains: Vec<ChainTransactions>,
    /// Orders that can still be filled.
    pub orders: Vec<OpenOrderRow>,
    /// Reason why the orders could not be read; `None` if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<SafeText>,
}

impl TransactionsState {
    /// Names of the chains on which something else has sent from the account, so that nothing is signed there until the
    /// operator accepts it.
    pub fn used_outside(&self) -> impl Iterator<Item = &SafeText> {
        let foreign = |chain: &&ChainTransactions| {
            chain.gaps.iter().any(|gap| match gap {
                NonceGap::Foreign { .. } => true,
                NonceGap::Missing { .. } => false,
            })
        };
        self.chains.iter().filter(foreign).map(|chain| &chain.chain)
    }
}

/// Unconfirmed transactions on one chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainTransactions {
    /// Name of the chain.
    pub chain: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Base fee of the next block, in wei per unit of gas; `None` if it could not be read.
    pub base_fee: Option<u64>,
    /// Next nonce that the chain will include, by the majority of the endpoints; `None` if it could not be read.
    pub next_nonce: Option<u64>,
    /// Transactions, ordered by nonce and then by the time of their signature.
    pub rows: Vec<TransactionRow>,
    /// Nonces that hold up others, or that something else used.
    pub gaps: Vec<NonceGap>,
    /// Reason why chain or ledger could not be read; `None` if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<SafeText>,
}

/// Signed transaction without a final outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionRow {
    /// Hash of the transaction.
    pub hash: B256,
    /// Nonce that the transaction uses.
    pub nonce: u64,
    /// Contract or account that it calls; `None` in what older sessions send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Address>,
    /// Name of that contract in the address book; `None` if it is not in it.
    #[serde(default)]
    pub to_label: Option<SafeText>,
    /// Tool that asked for it; `None` if the ledger does not say.
    pub tool: Option<SafeText>,
    /// Golem, or the operator, for which it was signed; `None` if the ledger does not say.
    pub golem_id: Option<SafeText>,
    /// Call that it belongs to.
    pub call_id: Option<CallId>,
    /// Plan that waits for it; `None` if the ledger has none.
    pub plan: Option<WaitingPlan>,
    /// Time of its signature, in milliseconds since the Unix epoch.
    pub signed_at: u64,
    /// Number of times that it was sent.
    pub sends: u64,
    /// Maximum fee, base fee included, in wei per unit of gas.
    pub max_fee: u64,
    /// Maximum priority fee, in wei per unit of gas.
    pub tip: u64,
    /// Prospect of its inclusion.
    pub inclusion: Inclusion,
    /// True if it does nothing but use its nonce, so that an earlier transaction with it can never be included.
    pub cancels: bool,
    /// Earlier transaction with the same nonce that it takes the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<B256>,
    /// True if it goes to the private relay alone.
    pub private: bool,
    /// True if speed up, cancel and rebroadcast are possible.
    pub actionable: bool,
    /// Last message about it from an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<SafeText>,
}

/// Plan that waits for a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingPlan {
    /// Permit of the plan.
    pub permit_id: PermitId,
    /// Number of the transaction in the plan, from 1.
    pub leg: u32,
    /// Number of transactions in the plan.
    pub of: u32,
    /// Dollars that stay reserved until the outcome is final.
    pub reserved: Option<Usd>,
}

/// Prospect of a transaction's inclusion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Inclusion {
    /// Its fees suffice for the next block, and its nonce is next.
    Next,
    /// Its maximum fee is below the base fee, so no block includes it until the base fee falls or it is replaced.
    BelowBaseFee,
    /// Transactions with earlier nonces come first.
    AfterNonce {
        /// Next nonce that the chain will include.
        next: u64,
    },
    /// No endpoint has acknowledged it.
    Unacknowledged,
    /// The endpoints no longer have it. It can still be included if somebody kept it.
    Forgotten,
    /// A later transaction with the same nonce has taken its place; either can still be included.
    Replaced,
    /// A block has it; too few blocks lie on it.
    InBlock {
        /// Number of the block.
        block: u64,
    },
    /// Its nonce is used by a transaction that is not known yet.
    NonceUsed,
    /// The chain could not be read.
    Unknown,
}

/// Nonces that hold up others, or that something else used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "gap", rename_all = "snake_case")]
pub enum NonceGap {
    /// No transaction exists for these nonces, and later ones wait for them.
    Missing {
        /// First of the nonces.
        from: u64,
        /// Last of the nonces.
        to: u64,
    },
    /// The chain counts more transactions of the account than this ledger signed.
    Foreign {
        /// Next nonce by this ledger.
        ledger: u64,
        /// Next nonce by the chain, pending transactions included.
        chain: u64,
    },
}

/// Order that can still be filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenOrderRow {
    /// Hash of the order, or id of the bridge order.
    pub hash: B256,
    /// Name of the chain.
    pub chain: SafeText,
    /// True for a bridge order.
    pub bridge: bool,
    /// True for a limit order.
    #[serde(default)]
    pub limit: bool,
    /// Status of the order.
    pub status: SafeText,
    /// Golem, or the operator, for which it was signed.
    pub golem_id: SafeText,
    /// Permit under which it was signed.
    pub permit_id: PermitId,
    /// Time of its signature, in milliseconds since the Unix epoch.
    pub signed_at: u64,
    /// Time until which it can be filled, in seconds since the Unix epoch.
    pub usable_until: u64,
    /// Dollars that stay reserved until it ends.
    pub reserved: Option<Usd>,
}
