//! Contracts that Bardo speaks to or recognises, by the role each plays.

use serde::{Deserialize, Serialize};

use crate::model::SpenderRole;

/// The contracts Bardo speaks to or recognises, each by the role it plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Contract {
    /// Approvals with an expiry, and transfers by signature.
    Permit2,
    /// Many reads in one call, at one address on all chains.
    Multicall3,
    /// The network's wrapped coin; not always called WETH.
    WrappedNative,
    /// Universal Router that takes commands in the 2.0 form (2.0 and 2.1.0).
    UniversalRouter,
    /// Universal Router 2.1.1: its swap commands end in `uint256[] minHopPriceX36`.
    #[serde(rename = "universalRouterV2_1_1")]
    UniversalRouterV211,
    /// Universal Router 2.1.2, in the form of 2.1.1.
    #[serde(rename = "universalRouterV2_1_2")]
    UniversalRouterV212,
    /// Universal Router 2.2.0, in the form of 2.1.1.
    #[serde(rename = "universalRouterV2_2_0")]
    UniversalRouterV220,
    /// The router for V2 and V3 without Permit2.
    SwapRouter02,
    /// Uniswap V2.
    V2Factory,
    /// Uniswap V2.
    V2Router,
    /// Uniswap V3.
    V3Factory,
    /// Uniswap V3: positions as NFTs.
    V3PositionManager,
    /// Uniswap V3: exact quotes by simulating the swap. Never the first Quoter.
    QuoterV2,
    /// Uniswap V3: initialised ticks by the word.
    TickLens,
    /// Uniswap V4: recognised, not routed.
    V4PoolManager,
    /// Uniswap V4.
    V4PositionManager,
    /// Uniswap V4.
    V4StateView,
    /// Uniswap V4.
    V4Quoter,
    /// Uniswap's own batch reader, with a gas limit per call.
    UniswapMulticall,
    /// UniswapX, first Dutch orders.
    DutchReactor,
    /// UniswapX, Dutch orders with a cosigner.
    V2DutchReactor,
    /// UniswapX, Dutch orders that decay by block.
    V3DutchReactor,
    /// UniswapX, orders by priority fee.
    PriorityReactor,
    /// UniswapX: resolves an order without filling it.
    OrderQuoter,
    /// ERC-8004.
    IdentityRegistry,
    /// ERC-8004.
    ReputationRegistry,
    /// ERC-4337, version 0.7.
    EntryPoint,
    /// Delegation framework (ERC-7710).
    DelegationManager,
    /// Delegation framework: what a 7702 account delegates to.
    #[serde(rename = "eip7702StatelessDeleGator")]
    Eip7702Delegator,
    /// Bardo's own: what an owner allows a delegate.
    PolicyCage,
    /// Bardo's own: opens cross-chain intents, and repays or refunds them.
    OriginSettler,
    /// Bardo's own: fills cross-chain intents.
    DestinationSettler,
    /// UniswapX: whose signature the order service's additions carry. No contract, but known by its role like one.
    OrderCosigner,
}

impl Contract {
    /// Its key in a description: the name it is serialised with.
    pub fn key(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(key)) => key,
            // A unit variant serialises to its name and to nothing else.
            _ => String::new(),
        }
    }

    /// Its name as people write it, for screens and questions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Permit2 => "Permit2",
            Self::Multicall3 => "Multicall3",
            Self::WrappedNative => "wrapped native token",
            Self::UniversalRouter => "Universal Router",
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
            Self::UniswapMulticall => "Uniswap multicall",
            Self::DutchReactor => "UniswapX Dutch reactor",
            Self::V2DutchReactor => "UniswapX Dutch V2 reactor",
            Self::V3DutchReactor => "UniswapX Dutch V3 reactor",
            Self::PriorityReactor => "UniswapX priority reactor",
            Self::OrderQuoter => "UniswapX order quoter",
            Self::IdentityRegistry => "identity registry",
            Self::ReputationRegistry => "reputation registry",
            Self::EntryPoint => "ERC-4337 entry point",
            Self::DelegationManager => "delegation manager",
            Self::Eip7702Delegator => "EIP-7702 delegator",
            Self::PolicyCage => "policy contract",
            Self::OriginSettler => "bridge settler, source",
            Self::DestinationSettler => "bridge settler, destination",
            Self::OrderCosigner => "order cosigner",
        }
    }

    /// Role in which it takes an allowance. An error for contracts that must never get one.
    ///
    /// # Errors
    /// [`NoSpender`].
    pub const fn spender_role(self) -> Result<SpenderRole, NoSpender> {
        match self {
            Self::Permit2 => Ok(SpenderRole::Permit2),
            Self::UniversalRouter
            | Self::UniversalRouterV211
            | Self::UniversalRouterV212
            | Self::UniversalRouterV220
            | Self::SwapRouter02
            | Self::V2Router => Ok(SpenderRole::Router),
            Self::V3PositionManager | Self::V4PositionManager => Ok(SpenderRole::PositionManager),
            Self::DutchReactor | Self::V2DutchReactor | Self::V3DutchReactor | Self::PriorityReactor => {
                Ok(SpenderRole::OrderReactor)
            }
            Self::OriginSettler => Ok(SpenderRole::IntentSettler),
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
            | Self::OrderQuoter
            | Self::IdentityRegistry
            | Self::ReputationRegistry
            | Self::PolicyCage
            | Self::DestinationSettler => Err(NoSpender::NeverTakes),
        }
    }

    /// The contract a description's key names, if it is one of these.
    pub fn from_key(key: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(key.to_owned())).ok()
    }
}

/// Reason that an entry of an address book must never get an allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum NoSpender {
    /// It makes any call that anyone asks for.
    #[error("it makes arbitrary calls for anyone, so anyone could take what it may take")]
    CallsForAnyone,
    /// A key, not a contract.
    #[error("it is not a contract but a private key's address, so the key's holder could take everything at once")]
    BareKey,
    /// Nothing Bardo does needs it to take tokens.
    #[error("Bardo never lets it take tokens")]
    NeverTakes,
}
