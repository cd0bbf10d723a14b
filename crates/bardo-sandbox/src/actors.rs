//! Actors of the devnet with their keys, and submission of their transactions.
//!
//! Not here: the transactions' contents (see `genesis`, `market`, `keeper`, `faucet`).

use alloy::consensus::TxEip1559;
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};

use super::error::SandboxError;
use super::keys::{DevnetAccount, KeyError};
use golem_chain::devnet::{Chain, ChainTransaction};

/// Priority fee of an actor, in wei per gas: below any user's tip, so that users come first.
pub const TIP: u128 = 1_000_000;

/// Role of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActorRole {
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
    /// Liquidates debts in the lending market (see `liquidator`).
    Liquidator,
    /// Manages the asynchronous vaults (see `async_vaults`).
    VaultManager,
}

impl ActorRole {
    /// Roles whose accounts hold ether from genesis on: all but the liquidator, which gets its own from the faucet when it
    /// first has something to do.
    pub const FUNDED: [Self; 14] = [
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
        Self::VaultManager,
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
            Self::Liquidator => "liquidator",
            Self::VaultManager => "vault manager",
        }
    }
}

/// Keys of all actors.
#[derive(Debug, Clone)]
pub struct Actors {
    treasury: DevnetAccount,
    arbitrageur: DevnetAccount,
    first_trader: DevnetAccount,
    second_trader: DevnetAccount,
    keeper: DevnetAccount,
    faucet: DevnetAccount,
    messenger: DevnetAccount,
    first_filler: DevnetAccount,
    second_filler: DevnetAccount,
    third_filler: DevnetAccount,
    first_relayer: DevnetAccount,
    second_relayer: DevnetAccount,
    third_relayer: DevnetAccount,
    liquidator: DevnetAccount,
    vault_manager: DevnetAccount,
    cosigner: DevnetAccount,
}

impl Actors {
    /// Derives the keys, which are the same on every devnet.
    ///
    /// # Errors
    /// [`KeyError`] if a key cannot be derived.
    pub fn new() -> Result<Self, KeyError> {
        let party = |role: ActorRole| DevnetAccount::inhabitant(role.label());
        Ok(Self {
            treasury: party(ActorRole::Treasury)?,
            arbitrageur: party(ActorRole::Arbitrageur)?,
            first_trader: party(ActorRole::FirstTrader)?,
            second_trader: party(ActorRole::SecondTrader)?,
            keeper: party(ActorRole::Keeper)?,
            faucet: party(ActorRole::Faucet)?,
            messenger: party(ActorRole::Messenger)?,
            first_filler: party(ActorRole::FirstFiller)?,
            second_filler: party(ActorRole::SecondFiller)?,
            third_filler: party(ActorRole::ThirdFiller)?,
            first_relayer: party(ActorRole::FirstRelayer)?,
            second_relayer: party(ActorRole::SecondRelayer)?,
            third_relayer: party(ActorRole::ThirdRelayer)?,
            liquidator: party(ActorRole::Liquidator)?,
            vault_manager: party(ActorRole::VaultManager)?,
            cosigner: DevnetAccount::inhabitant("order cosigner")?,
        })
    }

    /// The actor in `role`.
    pub fn party(&self, role: ActorRole) -> &DevnetAccount {
        match role {
            ActorRole::Treasury => &self.treasury,
            ActorRole::Arbitrageur => &self.arbitrageur,
            ActorRole::FirstTrader => &self.first_trader,
            ActorRole::SecondTrader => &self.second_trader,
            ActorRole::Keeper => &self.keeper,
            ActorRole::Faucet => &self.faucet,
            ActorRole::Messenger => &self.messenger,
            ActorRole::FirstFiller => &self.first_filler,
            ActorRole::SecondFiller => &self.second_filler,
            ActorRole::ThirdFiller => &self.third_filler,
            ActorRole::FirstRelayer => &self.first_relayer,
            ActorRole::SecondRelayer => &self.second_relayer,
            ActorRole::ThirdRelayer => &self.third_relayer,
            ActorRole::Liquidator => &self.liquidator,
            ActorRole::VaultManager => &self.vault_manager,
        }
    }

    /// The order service's cosigner, which sends no transactions.
    pub fn cosigner(&self) -> &DevnetAccount {
        &self.cosigner
    }

    /// Address of the actor in `role`.
    pub fn address(&self, role: ActorRole) -> Address {
        self.party(role).address()
    }
}

/// A transaction that an actor will send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorTransaction {
    /// Role of the sender.
    pub role: ActorRole,
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

impl ActorTransaction {
    /// Creates a call without value.
    pub fn call(role: ActorRole, to: Address, input: Vec<u8>, gas: u64, step: &'static str) -> Self {
        Self { role, to: TxKind::Call(to), value: U256::ZERO, input: input.into(), gas, tip: TIP, step }
    }
}

/// A transaction without its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnsentTransaction {
    /// Target of the transaction, or a contract creation.
    pub(super) to: TxKind,
    /// Value to transfer, in wei.
    pub(super) value: U256,
    /// Calldata or creation code.
    pub(super) input: Bytes,
    /// Gas limit of the transaction.
    pub(super) gas: u64,
    /// Priority fee, in wei per gas.
    pub(super) tip: u128,
    /// Purpose of the transaction, for error messages.
    pub(super) step: &'static str,
}

/// Signs an order with its sender's next nonce and submits it to the chain.
///
/// # Errors
/// A [`SandboxError`] if signing fails or the chain refuses the transaction.
pub fn send(chain: &mut Chain, actors: &Actors, order: ActorTransaction) -> Result<B256, SandboxError> {
    let ActorTransaction { role, to, value, input, gas, tip, step } = order;
    send_from(chain, actors.party(role), UnsentTransaction { to, value, input, gas, tip, step })
}

/// Signs a transaction with the next nonce of `party` and submits it to the chain.
///
/// # Errors
/// As for [`send`].
pub(super) fn send_from(
    chain: &mut Chain,
    party: &DevnetAccount,
    unsent: UnsentTransaction,
) -> Result<B256, SandboxError> {
    let step = unsent.step;
    let transaction = TxEip1559 {
        chain_id: chain.rules().chain_id,
        nonce: chain.pending_nonce(party.address()),
        gas_limit: unsent.gas,
        // Three times the base fee lasts for nine full blocks in a row.
        max_fee_per_gas: u128::from(chain.next_base_fee()) * 3 + unsent.tip,
        max_priority_fee_per_gas: unsent.tip,
        to: unsent.to,
        value: unsent.value,
        access_list: Default::default(),
        input: unsent.input,
    };
    let envelope = party.sign(transaction)?;
    // The sender is known; recovering it from the signature would cost more than signing.
    let signed = ChainTransaction { hash: *envelope.tx_hash(), envelope, sender: party.address(), impersonated: false };
    chain.submit(signed).map_err(|source| SandboxError::Refused { step, source })
}
