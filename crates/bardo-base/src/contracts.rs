//! Contracts that Bardo calls or recognises, by role.

use serde::{Deserialize, Serialize};

use crate::model::SpenderRole;

/// A contract that Bardo calls or recognises, by its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KnownContract {
    /// Permit2: allowances with an expiry, and transfers by signature.
    Permit2,
    /// Multicall3: many reads in one call, at the same address on all chains.
    Multicall3,
    /// The network's wrapped native token; not always called WETH.
    WrappedNative,
    /// Universal Router 2.0.
    UniversalRouter,
    /// Universal Router 2.1.0: the format of 2.0, but V4 paths with `uint256[] maxHopSlippage`.
    #[serde(rename = "universalRouterV2_1_0")]
    UniversalRouterV210,
    /// Universal Router 2.1.1: its swap commands end in `uint256[] minHopPriceX36`.
    #[serde(rename = "universalRouterV2_1_1")]
    UniversalRouterV211,
    /// Universal Router 2.1.2, with the format of 2.1.1.
    #[serde(rename = "universalRouterV2_1_2")]
    UniversalRouterV212,
    /// Universal Router 2.2.0, with the format of 2.1.1.
    #[serde(rename = "universalRouterV2_2_0")]
    UniversalRouterV220,
    /// SwapRouter02: router for V2 and V3 without Permit2.
    SwapRouter02,
    /// Uniswap V2 factory.
    V2Factory,
    /// Uniswap V2 router (Router02).
    V2Router,
    /// Uniswap V3 factory.
    V3Factory,
    /// Uniswap V3 `NonfungiblePositionManager`: positions as NFTs.
    V3PositionManager,
    /// Uniswap V3 `QuoterV2`: exact quotes by simulating the swap. Never the first `Quoter`.
    QuoterV2,
    /// Uniswap V3 `TickLens`: initialised ticks by bitmap word.
    TickLens,
    /// Uniswap V4 pool manager, which holds all V4 pools.
    V4PoolManager,
    /// Uniswap V4 position manager.
    V4PositionManager,
    /// Uniswap V4 `StateView`.
    V4StateView,
    /// Uniswap V4 quoter.
    V4Quoter,
    /// Aave V3 pool: supplies and debts of one market.
    AavePool,
    /// Aave V3 registry of a market's contracts, such as its oracle.
    AaveAddressesProvider,
    /// Vault of the ERC-4626 standard; its shares are a token of the same address.
    Vault,
    /// Asynchronous vault of ERC-7540, with Lagoon's interface; its shares are a token of the same address.
    AsyncVault,
    /// Asynchronous vault of the devnet that takes little.
    CappedAsyncVault,
    /// Asynchronous vault of the devnet whose manager never settles.
    StuckAsyncVault,
    /// Asynchronous vault of the devnet that is paused.
    PausedAsyncVault,
    /// Lagoon's factory of asynchronous vaults.
    AsyncVaultFactory,
    /// Uniswap's `TokenJar`, which holds collected protocol fees.
    TokenJar,
    /// Contract that releases assets of the jar for a threshold of UNI: `Firepit` on Ethereum.
    FeeReleaser,
    /// Uniswap's `V3FeeAdapter`, which collects the protocol fees of V3 pools into the jar.
    V3FeeAdapter,
    /// Uniswap's own batch reader, with a gas limit per call.
    UniswapMulticall,
    /// UniswapX reactor of the first Dutch orders.
    DutchReactor,
    /// UniswapX reactor of Dutch orders with a cosigner.
    V2DutchReactor,
    /// UniswapX reactor of Dutch orders that decay by block.
    V3DutchReactor,
    /// UniswapX reactor of priority-fee orders.
    PriorityReactor,
    /// UniswapX `OrderQuoter`: resolves an order without filling it.
    OrderQuoter,
    /// ERC-8004 identity registry.
    IdentityRegistry,
    /// ERC-8004 reputation registry.
    ReputationRegistry,
    /// ERC-8004 validation registry.
    ValidationRegistry,
    /// ERC-4337 entry point, version 0.7.
    EntryPoint,
    /// Delegation manager of the delegation framework (ERC-7710).
    DelegationManager,
    /// Implementation that EIP-7702 accounts delegate to, of the delegation framework.
    #[serde(rename = "eip7702StatelessDeleGator")]
    Eip7702Delegator,
    /// Bardo's policy contract: limits that an owner sets for a delegate.
    PolicyCage,
    /// Bardo's settler that opens cross-chain intents, and repays or refunds them (ERC-7683).
    OriginSettler,
    /// Bardo's settler that fills cross-chain intents (ERC-7683).
    DestinationSettler,
    /// Across's SpokePool: takes deposits for other chains, and lets relayers fill those of other chains.
    AcrossSpokePool,
    /// UniswapX: account that signs the order service's cosigner data. Not a contract, but known by its role like one.
    OrderCosigner,
}

impl KnownContract {
    /// Key of the contract in an address book: the name it is serialised with.
    pub fn key(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(key)) => key,
            // A unit variant always serialises to a string.
            _ => String::new(),
        }
    }

    /// Display name, for screens and approval requests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Permit2 => "Permit2",
            Self::Multicall3 => "Multicall3",
            Self::WrappedNative => "wrapped native token",
            Self::UniversalRouter => "Universal Router",
            Self::UniversalRouterV210 => "Universal Router 2.1.0",
            Self::UniversalRouterV211 => "Universal Router 2.1.1",
            Self::UniversalRouterV212 => "Universal Router 2.1.2",
            Self::UniversalRouterV220 => "Universal Router 2.2.0",
            Self::SwapRouter02 => "Swap Router 02",
            Self::V2Factory => "V2 factory",
            Self::V2Router => "V2 router",
            Self::V3Factory => "V3 factory",
            Self::V3PositionManager => "V3 position manager",
            Self::QuoterV2 => "V3 quoter",
            Self::TickLens => "V3 tick lens",
            Self::V4PoolManager => "V4 pool manager",
            Self::V4PositionManager => "V4 position manager",
            Self::V4StateView => "V4 state view",
            Self::V4Quoter => "V4 quoter",
            Self::AavePool => "Aave pool",
            Self::AaveAddressesProvider => "Aave addresses provider",
            Self::Vault => "ERC-4626 vault",
            Self::AsyncVault => "ERC-7540 vault",
            Self::CappedAsyncVault => "capped vault",
            Self::StuckAsyncVault => "forgotten vault",
            Self::PausedAsyncVault => "paused vault",
            Self::AsyncVaultFactory => "vault factory",
            Self::TokenJar => "token jar",
            Self::FeeReleaser => "fee releaser",
            Self::V3FeeAdapter => "V3 fee adapter",
            Self::UniswapMulticall => "Uniswap multicall",
            Self::DutchReactor => "UniswapX Dutch reactor",
            Self::V2DutchReactor => "UniswapX Dutch V2 reactor",
            Self::V3DutchReactor => "UniswapX Dutch V3 reactor",
            Self::PriorityReactor => "UniswapX priority reactor",
            Self::OrderQuoter => "UniswapX order quoter",
            Self::IdentityRegistry => "identity registry",
            Self::ReputationRegistry => "reputation registry",
            Self::ValidationRegistry => "validation registry",
            Self::EntryPoint => "ERC-4337 entry point",
            Self::DelegationManager => "delegation manager",
            Self::Eip7702Delegator => "EIP-7702 delegator",
            Self::PolicyCage => "policy contract",
            Self::OriginSettler => "bridge settler, source",
            Self::DestinationSettler => "bridge settler, destination",
            Self::AcrossSpokePool => "Across SpokePool",
            Self::OrderCosigner => "order cosigner",
        }
    }

    /// Role in which the contract receives an allowance.
    ///
    /// # Errors
    /// [`NoSpender`] for contracts that must never receive one.
    pub const fn spender_role(self) -> Result<SpenderRole, NoSpender> {
        match self {
            Self::Permit2 => Ok(SpenderRole::Permit2),
            Self::UniversalRouter
            | Self::UniversalRouterV210
            | Self::UniversalRouterV211
            | Self::UniversalRouterV212
            | Self::UniversalRouterV220
            | Self::SwapRouter02
            | Self::V2Router => Ok(SpenderRole::Router),
            Self::V3PositionManager | Self::V4PositionManager => Ok(SpenderRole::PositionManager),
            Self::AavePool => Ok(SpenderRole::LendingPool),
            Self::Vault
            | Self::AsyncVault
            | Self::CappedAsyncVault
            | Self::StuckAsyncVault
            | Self::PausedAsyncVault => Ok(SpenderRole::Vault),
            Self::FeeReleaser => Ok(SpenderRole::FeeReleaser),
            Self::DutchReactor | Self::V2DutchReactor | Self::V3DutchReactor | Self::PriorityReactor => {
                Ok(SpenderRole::OrderReactor)
            }
            Self::OriginSettler => Ok(SpenderRole::IntentSettler),
            Self::AcrossSpokePool => Ok(SpenderRole::BridgePool),
            Self::Multicall3
            | Self::UniswapMulticall
            | Self::EntryPoint
            | Self::DelegationManager
            | Self::Eip7702Delegator => Err(NoSpender::CallsForAnyone),
            Self::OrderCosigner => Err(NoSpender::BareKey),
            Self::WrappedNative
            | Self::V2Factory
            | Self::V3Factory
            | Self::QuoterV2
            | Self::TickLens
            | Self::V4PoolManager
            | Self::V4StateView
            | Self::V4Quoter
            | Self::AaveAddressesProvider
            | Self::AsyncVaultFactory
            | Self::TokenJar
            | Self::V3FeeAdapter
            | Self::OrderQuoter
            | Self::IdentityRegistry
            | Self::ReputationRegistry
            | Self::ValidationRegistry
            | Self::PolicyCage
            | Self::DestinationSettler => Err(NoSpender::NeverTakes),
        }
    }

    /// Returns the contract with this key of an address book.
    pub fn from_key(key: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(key.to_owned())).ok()
    }
}

/// Reason that an entry of an address book must never receive an allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum NoSpender {
    /// It makes arbitrary calls on anyone's behalf.
    #[error("it makes arbitrary calls for anyone, so anyone could take what it may take")]
    CallsForAnyone,
    /// A private key's address, not a contract.
    #[error("it is not a contract but a private key's address, so the key's holder could take everything at once")]
    BareKey,
    /// It needs no allowance in any action of Bardo.
    #[error("Bardo never lets it take tokens")]
    NeverTakes,
}
