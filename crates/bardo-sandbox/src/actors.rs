//! Actors of the devnet with their keys, and submission of their transactions.
//!
//! Not here: the transactions' contents (see `genesis`, `market`, `keeper`, `faucet`).

use alloy::consensus::TxEip1559;
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};

use super::error::SandboxError;
use super::keys::{KeyError, Party};
use golem_chain::devnet::{Chain, ChainTransaction};

/// Priority fee of an actor, in wei per gas: below any user's tip, so that users come first.
pub const TIP: u128 = 1_000_000;

/// Role of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Deploys all contracts and owns the pools' liquidity.
    Treasury,
    /// Moves pools to the market's price.
    Arbitrageur,
    /// Trades at random, independently of the second trader.
    FirstTrader,
    /// Trades at random, independently of the first trader.
    SecondTrader,
    /// Updates the price feeds.
    Keeper,
    /// Sends ether and tokens on request.
    Faucet,
    /// Reports each chain's filled intents to the other chain.
    Messenger,
    /// Fills orders (see `order_service`): steady.
    FirstFiller,
    /// Fills orders: quick and with a high margin.
    SecondFiller,
    /// Fills orders: slow, with a low margin and little funds.
    ThirdFiller,
    /// Delivers intents (see `relayers`): steady.
    FirstRelayer,
    /// Delivers intents: quick and with a high margin.
    SecondRelayer,
    /// Delivers intents: unreliable, with a low margin and little funds.
    ThirdRelayer,
}

impl Role {
    /// All roles of actors.
    pub const ALL: [Self; 13] = [
        Self::Treasury,
        Self::Arbitrageur,
        Self::FirstTrader,
        Self::SecondTrader,
        Self::Keeper,
        Self::Faucet,
        Self::Messenger,
        Self::FirstFiller,
        Self::SecondFiller,
        Self::ThirdFiller,
        Self::FirstRelayer,
        Self::SecondRelayer,
        Self::ThirdRelayer,
    ];

    /// Display name of the role.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Treasury => "treasury",
            Self::Arbitrageur => "arbitrageur",
            Self::FirstTrader => "first trader",
            Self::SecondTrader => "second trader",
            Self::Keeper => "keeper",
            Self::Faucet => "faucet",
            Self::Messenger => "messenger",
            Self::FirstFiller => "first filler",
            Self::SecondFiller => "second filler",
            Self::ThirdFiller => "third filler",
            Self::FirstRelayer => "first relayer",
            Self::SecondRelayer => "second relayer",
            Self::ThirdRelayer => "third relayer",
        }
    }
}

/// Keys of all actors.
#[derive(Debug, Clone)]
pub struct Actors {
    treasury: Party,
    arbitrageur: Party,
    first_trader: Party,
    second_trader: Party,
    keeper: Party,
    faucet: Party,
    messenger: Party,
    first_filler: Party,
    second_filler: Party,
    third_filler: Party,
    first_relayer: Party,
    second_relayer: Party,
    third_relayer: Party,
    cosigner: Party,
}

impl Actors {
    /// Derives the keys, which are the same on every devnet.
    ///
    /// # Errors
    /// [`KeyError`] if a key cannot be derived.
    pub fn new() -> Result<Self, KeyError> {
        let party = |role: Role| Party::inhabitant(role.label());
        Ok(Self {
            treasury: party(Role::Treasury)?,
            arbitrageur: party(Role::Arbitrageur)?,
            first_trader: party(Role::FirstTrader)?,
            second_trader: party(Role::SecondTrader)?,
            keeper: party(Role::Keeper)?,
            faucet: party(Role::Faucet)?,
            messenger: party(Role::Messenger)?,
            first_filler: party(Role::FirstFiller)?,
            second_filler: party(Role::SecondFiller)?,
            third_filler: party(Role::ThirdFiller)?,
            first_relayer: party(Role::FirstRelayer)?,
            second_relayer: party(Role::SecondRelayer)?,
            third_relayer: party(Role::ThirdRelayer)?,
            cosigner: Party::inhabitant("order cosigner")?,
        })
    }

    /// The actor in `role`.
    pub fn party(&self, role: Role) -> &Party {
        match role {
            Role::Treasury => &self.treasury,
            Role::Arbitrageur => &self.arbitrageur,
            Role::FirstTrader => &self.first_trader,
            Role::SecondTrader => &self.second_trader,
            Role::Keeper => &self.keeper,
            Role::Faucet => &self.faucet,
            Role::Messenger => &self.messenger,
            Role::FirstFiller => &self.first_filler,
            Role::SecondFiller => &self.second_filler,
            Role::ThirdFiller => &self.third_filler,
            Role::FirstRelayer => &self.first_relayer,
            Role::SecondRelayer => &self.second_relayer,
            Role::ThirdRelayer => &self.third_relayer,
        }
    }

    /// The order service's cosigner, which sends no transactions.
    pub fn cosigner(&self) -> &Party {
        &self.cosigner
    }

    /// Address of the actor in `role`.
    pub fn address(&self, role: Role) -> Address {
        self.party(role).address()
    }
}

/// A transaction that an actor will send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Role of the sender.
    pub role: Role,
    /// Target of the transaction, or a contract creation.
    pub to: TxKind,
    /// Value to transfer, in wei.
    pub value: U256,
    /// Calldata or creation code.
    pub input: Bytes,
    /// Gas limit of the transaction.
    pub gas: u64,
    /// Priority fee, in wei per gas.
    pub tip: u128,
    /// Purpose of the transaction, for error messages.
    pub step: &'static str,
}

impl Order {
    /// Creates a call without value.
    pub fn call(role: Role, to: Address, input: Vec<u8>, gas: u64, step: &'static str) -> Self {
        Self { role, to: TxKind::Call(to), value: U256::ZERO, input: input.into(), gas, tip: TIP, step }
    }
}

/// Signs an order with its sender's next nonce and submits it to the chain.
///
/// # Errors
/// A [`SandboxError`] if signing fails or the chain refuses the transaction.
pub fn send(chain: &mut Chain, actors: &Actors, order: Order) -> Result<B256, SandboxError> {
    let party = actors.party(order.role);
    let step = order.step;
    let transaction = TxEip1559 {
        chain_id: chain.rules().chain_id,
        nonce: chain.pending_nonce(party.address()),
        gas_limit: order.gas,
        // Three times the base fee lasts for nine full blocks in a row.
        max_fee_per_gas: u128::from(chain.next_base_fee()) * 3 + order.tip,
        max_priority_fee_per_gas: order.tip,
        to: order.to,
        value: order.value,
        access_list: Default::default(),
        input: order.input,
    };
    let envelope = party.sign(transaction)?;
    // The sender is known; recovering it from the signature would cost more than signing.
    let signed = ChainTransaction { hash: *envelope.tx_hash(), envelope, sender: party.address(), impersonated: false };
    chain.submit(signed).map_err(|source| SandboxError::Refused { step, source })
}
