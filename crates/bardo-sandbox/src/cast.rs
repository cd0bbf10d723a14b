//! Who lives on the devnet, and how they send.
//!
//! Not here: what they send (see `genesis`, `market`, `keeper`, `faucet`).

use alloy::consensus::TxEip1559;
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};

use super::error::SandboxError;
use super::keys::{KeyError, Party};
use golem_chain::devnet::{Chain, ChainTransaction};

/// What an inhabitant adds to the base fee, wei per gas: less than any user's tip, so that users go first.
pub const TIP: u128 = 1_000_000;

/// A part somebody plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Deploys everything and owns the pools' liquidity.
    Treasury,
    /// Brings pools to the market's price.
    Arbitrageur,
    /// Trades at random.
    FirstTrader,
    /// Trades at random.
    SecondTrader,
    /// Writes the price feeds.
    Keeper,
    /// Gives to whoever asks.
    Faucet,
    /// Tells each chain which of its intents were filled on the other.
    Messenger,
    /// Fills orders, see `order_service`.
    FirstFiller,
    /// Fills orders.
    SecondFiller,
    /// Fills orders.
    ThirdFiller,
    /// Delivers intents, see `relayers`.
    FirstRelayer,
    /// Delivers intents.
    SecondRelayer,
    /// Delivers intents.
    ThirdRelayer,
}

impl Role {
    /// Everybody.
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

    /// What it is called.
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

/// Everybody's keys.
#[derive(Debug, Clone)]
pub struct Cast {
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

impl Cast {
    /// The same people on every devnet.
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

    /// Who plays `role`.
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

    /// The order service's cosigner, who sends no transactions.
    pub fn cosigner(&self) -> &Party {
        &self.cosigner
    }

    /// The address of who plays `role`.
    pub fn address(&self, role: Role) -> Address {
        self.party(role).address()
    }
}

/// Something an inhabitant wants to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Who.
    pub role: Role,
    /// To whom; creation has no target.
    pub to: TxKind,
    /// Wei.
    pub value: U256,
    /// Calldata or creation code.
    pub input: Bytes,
    /// Gas limit.
    pub gas: u64,
    /// What it pays above the base fee, wei per gas.
    pub tip: u128,
    /// What it is for, in words for an error.
    pub step: &'static str,
}

impl Order {
    /// A call that sends no ether.
    pub fn call(role: Role, to: Address, input: Vec<u8>, gas: u64, step: &'static str) -> Self {
        Self { role, to: TxKind::Call(to), value: U256::ZERO, input: input.into(), gas, tip: TIP, step }
    }
}

/// Signs an order with the next nonce of its sender and hands it to the chain.
pub fn send(chain: &mut Chain, cast: &Cast, order: Order) -> Result<B256, SandboxError> {
    let party = cast.party(order.role);
    let step = order.step;
    let transaction = TxEip1559 {
        chain_id: chain.rules().chain_id,
        nonce: chain.pending_nonce(party.address()),
        gas_limit: order.gas,
        // Room for nine full blocks in a row.
        max_fee_per_gas: u128::from(chain.next_base_fee()) * 3 + order.tip,
        max_priority_fee_per_gas: order.tip,
        to: order.to,
        value: order.value,
        access_list: Default::default(),
        input: order.input,
    };
    let envelope = party.sign(transaction)?;
    // Whoever signed knows the sender; recovering it from the signature would cost more than the signing did.
    let signed = ChainTransaction { hash: *envelope.tx_hash(), envelope, sender: party.address(), impersonated: false };
    chain.submit(signed).map_err(|source| SandboxError::Refused { step, source })
}
