//! The devnet's contract bundle: published bytecode of the protocols as data, with properties that tests check on the
//! chain. `assets/contracts/NOTICE.md` lists the sources.
//!
//! Not here: addresses and constructor arguments of deployments (see `genesis`).

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, Bytes, address, b256, hex};

/// Error of the contract bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    /// A file is not hexadecimal.
    #[error("the bundled code of {name} is not hexadecimal: rebuild it with scripts/rebuild-contracts.mjs")]
    NotHexadecimal {
        /// Name of the contract.
        name: &'static str,
    },
    /// The slot for a library's address is outside of the code.
    #[error("the link slot at byte {offset} lies outside the {length} bytes of code")]
    LinkOutside {
        /// Position of the slot, in bytes.
        offset: usize,
        /// Length of the code, in bytes.
        length: usize,
    },
    /// A library that a contract is linked to was not given.
    #[error("{contract} is linked to {library}, which is not deployed")]
    NoLibrary {
        /// Name of the contract.
        contract: &'static str,
        /// Name of the library.
        library: &'static str,
    },
}

macro_rules! bundle {
    ($($(#[$meta:meta])* $variant:ident = $name:literal,)+) => {
        /// A contract of the bundle.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum BundledContract {
            $($(#[$meta])* $variant,)+
        }

        impl BundledContract {
            /// All contracts of the bundle, in the manifest's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Name of the contract in its source.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Bundled file: hexadecimal without prefix, ending in a newline.
            const fn file(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../../../assets/contracts/", $name, ".hex")),)+
                }
            }
        }
    };
}

bundle! {
    /// Wrapped ether (WETH9).
    Weth9 = "WETH9",
    /// Uniswap V2 factory, which contains the pair's creation code.
    UniswapV2Factory = "UniswapV2Factory",
    /// Uniswap V2 router.
    UniswapV2Router02 = "UniswapV2Router02",
    /// Uniswap V3 factory, which contains the pool's creation code.
    UniswapV3Factory = "UniswapV3Factory",
    /// Library that draws the image of a position; linked into the descriptor.
    NFTDescriptor = "NFTDescriptor",
    /// Descriptor of V3 positions; must be linked with [`link`].
    NonfungibleTokenPositionDescriptor = "NonfungibleTokenPositionDescriptor",
    /// V3 positions as ERC-721 tokens.
    NonfungiblePositionManager = "NonfungiblePositionManager",
    /// Quotes V3 swaps by running and reverting them.
    QuoterV2 = "QuoterV2",
    /// Reads the initialised ticks of a V3 pool in bulk.
    TickLens = "TickLens",
    /// Router for V2 and V3.
    SwapRouter02 = "SwapRouter02",
    /// Universal Router 2.1.0.
    UniversalRouter = "UniversalRouter",
    /// Uniswap V4 pool manager, for the devnet only (BUSL-1.1).
    PoolManager = "PoolManager",
    /// V4 positions as ERC-721 tokens.
    PositionManager = "PositionManager",
    /// Descriptor of V4 positions.
    PositionDescriptor = "PositionDescriptor",
    /// Reads the state of V4 pools.
    StateView = "StateView",
    /// Quotes V4 swaps by running and reverting them.
    V4Quoter = "V4Quoter",
    /// Permit2; canonical by CREATE2, see [`PERMIT2`].
    Permit2 = "Permit2",
    /// UniswapX reactor for V2 Dutch orders.
    V2DutchOrderReactor = "V2DutchOrderReactor",
    /// UniswapX reactor for V3 Dutch orders.
    V3DutchOrderReactor = "V3DutchOrderReactor",
    /// UniswapX reactor for Priority orders.
    PriorityOrderReactor = "PriorityOrderReactor",
    /// Simulates a UniswapX order and returns its resolved amounts.
    OrderQuoter = "OrderQuoter",
    /// A well-behaved ERC-20 that anyone may mint.
    MockERC20 = "MockERC20",
    /// ERC-4337 entry point 0.7; canonical by CREATE2, see [`ENTRY_POINT`].
    EntryPoint = "EntryPoint",
    /// Proxy with a replaceable implementation ([ERC-1967](https://eips.ethereum.org/EIPS/eip-1967)).
    ERC1967Proxy = "ERC1967Proxy",
    /// Manager of the delegation framework.
    DelegationManager = "DelegationManager",
    /// Account code to which an EIP-7702 authorization delegates.
    Eip7702StatelessDeleGator = "EIP7702StatelessDeleGator",
    /// Caveat enforcer that requires that a part of the calldata equals a given value.
    AllowedCalldataEnforcer = "AllowedCalldataEnforcer",
    /// Caveat enforcer that restricts the methods that may be called.
    AllowedMethodsEnforcer = "AllowedMethodsEnforcer",
    /// Caveat enforcer that restricts the contracts that may be called.
    AllowedTargetsEnforcer = "AllowedTargetsEnforcer",
    /// Caveat enforcer that allows only the revocation of token approvals.
    ApprovalRevocationEnforcer = "ApprovalRevocationEnforcer",
    /// Caveat enforcer that requires that the redeemer's arguments equal the terms.
    ArgsEqualityCheckEnforcer = "ArgsEqualityCheckEnforcer",
    /// Caveat enforcer that restricts the block numbers of a redemption.
    BlockNumberEnforcer = "BlockNumberEnforcer",
    /// Caveat enforcer that deploys a contract before the call if it does not exist yet.
    DeployedEnforcer = "DeployedEnforcer",
    /// Caveat enforcer that bounds the change of an ERC-1155 balance.
    ERC1155BalanceChangeEnforcer = "ERC1155BalanceChangeEnforcer",
    /// Caveat enforcer that bounds the change of an ERC-20 balance.
    ERC20BalanceChangeEnforcer = "ERC20BalanceChangeEnforcer",
    /// Caveat enforcer that limits ERC-20 transfers per period.
    ERC20PeriodTransferEnforcer = "ERC20PeriodTransferEnforcer",
    /// Caveat enforcer that limits ERC-20 transfers by an amount that grows linearly with time.
    ERC20StreamingEnforcer = "ERC20StreamingEnforcer",
    /// Caveat enforcer that limits the total amount of ERC-20 transfers.
    ERC20TransferAmountEnforcer = "ERC20TransferAmountEnforcer",
    /// Caveat enforcer that bounds the change of an ERC-721 balance.
    ERC721BalanceChangeEnforcer = "ERC721BalanceChangeEnforcer",
    /// Caveat enforcer that allows only the transfer of one ERC-721 token.
    ERC721TransferEnforcer = "ERC721TransferEnforcer",
    /// Caveat enforcer that requires the exact calldata of each call in a batch.
    ExactCalldataBatchEnforcer = "ExactCalldataBatchEnforcer",
    /// Caveat enforcer that requires the exact calldata.
    ExactCalldataEnforcer = "ExactCalldataEnforcer",
    /// Caveat enforcer that requires the exact target, value and calldata of each call in a batch.
    ExactExecutionBatchEnforcer = "ExactExecutionBatchEnforcer",
    /// Caveat enforcer that requires the exact target, value and calldata.
    ExactExecutionEnforcer = "ExactExecutionEnforcer",
    /// Caveat enforcer that allows one redemption per delegator and id.
    IdEnforcer = "IdEnforcer",
    /// Caveat enforcer that limits the number of redemptions.
    LimitedCallsEnforcer = "LimitedCallsEnforcer",
    /// Caveat enforcer that requires that one of several groups of caveats holds.
    LogicalOrWrapperEnforcer = "LogicalOrWrapperEnforcer",
    /// Caveat enforcer that limits transfers of several tokens per period.
    MultiTokenPeriodEnforcer = "MultiTokenPeriodEnforcer",
    /// Caveat enforcer that bounds the change of a native balance.
    NativeBalanceChangeEnforcer = "NativeBalanceChangeEnforcer",
    /// Caveat enforcer that requires a native token payment for the redemption.
    NativeTokenPaymentEnforcer = "NativeTokenPaymentEnforcer",
    /// Caveat enforcer that limits native token transfers per period.
    NativeTokenPeriodTransferEnforcer = "NativeTokenPeriodTransferEnforcer",
    /// Caveat enforcer that limits native token transfers by an amount that grows linearly with time.
    NativeTokenStreamingEnforcer = "NativeTokenStreamingEnforcer",
    /// Caveat enforcer that limits the total amount of native token transfers.
    NativeTokenTransferAmountEnforcer = "NativeTokenTransferAmountEnforcer",
    /// Caveat enforcer that makes the delegation revocable by incrementing a nonce.
    NonceEnforcer = "NonceEnforcer",
    /// Caveat enforcer that allows only the transfer of a contract's ownership.
    OwnershipTransferEnforcer = "OwnershipTransferEnforcer",
    /// Caveat enforcer that restricts the accounts that may redeem the delegation.
    RedeemerEnforcer = "RedeemerEnforcer",
    /// Caveat enforcer that allows one batch of a specific call and an ERC-20 transfer.
    SpecificActionERC20TransferBatchEnforcer = "SpecificActionERC20TransferBatchEnforcer",
    /// Caveat enforcer that restricts the time of a redemption.
    TimestampEnforcer = "TimestampEnforcer",
    /// Caveat enforcer that limits the native value of a call.
    ValueLteEnforcer = "ValueLteEnforcer",
    /// Library of Aave V3: borrowing and repayment.
    BorrowLogic = "BorrowLogic",
    /// Library of Aave V3: supplies that bridges mint.
    BridgeLogic = "BridgeLogic",
    /// Library of Aave V3: creation of reserves.
    ConfiguratorLogic = "ConfiguratorLogic",
    /// Library of Aave V3: categories with their own thresholds.
    EModeLogic = "EModeLogic",
    /// Library of Aave V3: flash loans; must be linked with [`link`].
    FlashLoanLogic = "FlashLoanLogic",
    /// Library of Aave V3: liquidations.
    LiquidationLogic = "LiquidationLogic",
    /// Library of Aave V3: the pool's list of reserves.
    PoolLogic = "PoolLogic",
    /// Library of Aave V3: supplies and withdrawals.
    SupplyLogic = "SupplyLogic",
    /// Registry of an Aave V3 market, which deploys the proxies of pool and configurator.
    PoolAddressesProvider = "PoolAddressesProvider",
    /// Roles of an Aave V3 market.
    AclManager = "ACLManager",
    /// Implementation of the Aave V3 pool; must be linked with [`link`].
    Pool = "Pool",
    /// Implementation of the Aave V3 configurator; must be linked with [`link`].
    PoolConfigurator = "PoolConfigurator",
    /// Interest rates of an Aave V3 reserve by its utilisation.
    DefaultReserveInterestRateStrategy = "DefaultReserveInterestRateStrategy",
    /// Implementation of the receipts of supplies to Aave V3.
    AToken = "AToken",
    /// Implementation of debts at a stable rate, which no reserve of the devnet permits.
    StableDebtToken = "StableDebtToken",
    /// Implementation of debts at the variable rate.
    VariableDebtToken = "VariableDebtToken",
    /// Price oracle of an Aave V3 market.
    AaveOracle = "AaveOracle",
    /// Read-only views of Aave V3's individual reserves.
    AaveProtocolDataProvider = "AaveProtocolDataProvider",
    /// Across's SpokePool, for the devnet only (BUSL-1.1); works only behind a proxy.
    SpokePool = "Tatara_SpokePool",
    /// Safe 1.4.1; canonical by CREATE2, see [`SAFE`].
    Safe = "Safe",
    /// Proxy of a Safe.
    SafeProxy = "SafeProxy",
    /// Factory of Safes; canonical by CREATE2, see [`SAFE_FACTORY`].
    SafeProxyFactory = "SafeProxyFactory",
    /// Handler of calls that a Safe does not know; canonical by CREATE2, see [`SAFE_HANDLER`].
    CompatibilityFallbackHandler = "CompatibilityFallbackHandler",
    /// Runtime code; its canonical address is [`MULTICALL3`].
    Multicall3 = "Multicall3",
    /// Bardo's stand-in for Lagoon's asynchronous vault.
    AsyncVault = "AsyncVault",
    /// Bardo's stand-in for Lagoon's factory of such vaults.
    AsyncVaultFactory = "AsyncVaultFactory",
    /// Contract of such a vault that keeps what is requested.
    AsyncVaultSilo = "AsyncVaultSilo",
    /// Bardo's test token that delivers one percent less than was sent.
    FeeOnTransferToken = "FeeOnTransferToken",
    /// Bardo's test token whose name and symbol are arbitrary bytes.
    HostileSymbolToken = "HostileSymbolToken",
    /// Bardo's test token whose transfer and approve return nothing.
    NoReturnToken = "NoReturnToken",
    /// Bardo's test token whose transfers always fail.
    RevertingToken = "RevertingToken",
    /// Bardo's template of a V4 hook that counts swaps.
    CountingHook = "CountingHook",
    /// Bardo's trial of a V4 pool with its hook, for simulations.
    HookProbe = "HookProbe",
    /// Bardo's hostile V4 hook that keeps a part of every deposit of liquidity.
    DepositTaxHook = "DepositTaxHook",
    /// Bardo's hostile V4 hook that lets no liquidity out.
    ExitLockHook = "ExitLockHook",
    /// Bardo's hostile V4 hook that takes another fee than it shows.
    FeeJumpHook = "FeeJumpHook",
    /// Bardo's implementation of the ERC-8004 identity registry.
    IdentityRegistry = "IdentityRegistry",
    /// Bardo's stand-in for the registry of the Ethereum Name Service.
    EnsRegistry = "EnsRegistry",
    /// Bardo's stand-in for a resolver of the Ethereum Name Service.
    EnsResolver = "EnsResolver",
    /// Bardo's stand-in for the reverse registrar of the Ethereum Name Service.
    EnsReverseRegistrar = "EnsReverseRegistrar",
    /// Bardo's template of a V4 hook that lets nobody swap before a time.
    OpeningHook = "OpeningHook",
    /// Bardo's policy contract: a caveat enforcer with the rules of an owner for a delegate.
    PolicyCage = "PolicyCage",
    /// Bardo's contract for swaps in V4 pools up to a price.
    PoolTrader = "PoolTrader",
    /// Bardo's V4 hook that counts swaps.
    SwapCountHook = "SwapCountHook",
    /// Bardo's V4 hook that takes two percent of every output.
    SwapTaxHook = "SwapTaxHook",
    /// Bardo's contract that updates all feeds of a chain in one transaction.
    FeedKeeper = "FeedKeeper",
    /// Bardo's AggregatorV3 price feed with fault switches.
    PriceFeed = "PriceFeed",
    /// Bardo's stand-in for the contract that releases Uniswap's protocol fees for burnt UNI.
    Firepit = "Firepit",
    /// Bardo's stand-in for the contract that holds Uniswap's protocol fees.
    TokenJar = "TokenJar",
    /// Bardo's stand-in for the contract that collects the protocol fees of V3 pools.
    V3FeeAdapter = "V3FeeAdapter",
    /// Bardo's implementation of the ERC-8004 reputation registry.
    ReputationRegistry = "ReputationRegistry",
    /// Bardo's contract that fills cross-chain intents on their destination chain.
    DestinationSettler = "DestinationSettler",
    /// Bardo's contract that opens cross-chain intents, and repays or refunds them.
    OriginSettler = "OriginSettler",
    /// Bardo's implementation of the ERC-8004 validation registry.
    ValidationRegistry = "ValidationRegistry",
    /// Bardo's test vault that takes deposits up to a limit.
    CappedVault = "CappedVault",
    /// Bardo's test vault that keeps a part of every deposit, which its previews do not show.
    HiddenFeeVault = "HiddenFeeVault",
    /// Bardo's test vault that promises withdrawals and refuses each of them.
    LockedVault = "LockedVault",
    /// Bardo's test vault that says ten times what its shares pay.
    LyingVault = "LyingVault",
    /// Vault of the ERC-4626 standard as OpenZeppelin makes it.
    PlainVault = "PlainVault",
    /// Bardo's test vault that cheats on demand.
    StingyVault = "StingyVault",
}

/// Arachnid's deterministic deployment proxy: CREATE2 with the caller's salt, at the same address on every chain.
pub const DEPLOYMENT_PROXY: Address = address!("0x4e59b44847b379578588920cA78FbF26c0B4956C");
/// Runtime code of [`DEPLOYMENT_PROXY`]: the first word of calldata is the salt, the rest the creation code.
pub const DEPLOYMENT_PROXY_CODE: &[u8] = &hex!(
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3"
);
/// Factory by which Safe's contracts are deployed, at the same address on every chain; its code is
/// [`DEPLOYMENT_PROXY_CODE`] too.
pub const SAFE_SINGLETON_FACTORY: Address = address!("0x914d7Fec6aaC8cd542e72Bca78B30650d45643d7");
/// Address of Safe 1.4.1 on every chain.
pub const SAFE: Address = address!("0x41675C099F32341bf84BFc5382aF534df5C7461a");
/// Address of the factory of Safes 1.4.1 on every chain.
pub const SAFE_FACTORY: Address = address!("0x4e1DCf7AD4e460CfD30791CCC4F9c8a4f820ec67");
/// Address of the fallback handler of Safe 1.4.1 on every chain.
pub const SAFE_HANDLER: Address = address!("0xfd0732Dc9E303f09fCEf3a7388Ad10A83459Ec99");
/// Address of Permit2 on every chain.
pub const PERMIT2: Address = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");
/// Salt that gives Permit2 this address.
pub const PERMIT2_SALT: B256 = b256!("0x0000000000000000000000000000000000000000d3af2663da51c10215000000");
/// Address of EntryPoint 0.7 on every chain.
pub const ENTRY_POINT: Address = address!("0x0000000071727De22E5E9d8BAf0edAc6f37da032");
/// Salt that gives EntryPoint 0.7 this address.
pub const ENTRY_POINT_SALT: B256 = b256!("0x90d8084deab30c2a37c45e8d47f49f2f7965183cb6990a98943ef94940681de3");
/// Address of Multicall3 on every chain.
pub const MULTICALL3: Address = address!("0xcA11bde05977b3631167028862bE2a173976CA11");
/// Hash of the V2 pair's creation code, which determines every pair's address.
pub const V2_PAIR_INIT_HASH: B256 = b256!("0x96e8ac4277198ff8b6f785478aa9a39f403cb768dd02cbee326c3e7da348845f");
/// Hash of the V3 pool's creation code, which determines every pool's address.
pub const V3_POOL_INIT_HASH: B256 = b256!("0xe34f199b19b2b4f47f68442619d555527d244f78a3297ea89325f843f87b8b54");

/// Places of a library's address in a contract's creation code, in bytes.
struct LibraryLink {
    contract: BundledContract,
    library: BundledContract,
    offsets: &'static [usize],
}

const fn links(contract: BundledContract, library: BundledContract, offsets: &'static [usize]) -> LibraryLink {
    LibraryLink { contract, library, offsets }
}

/// All links of the bundle, as in the manifest.
const LINKS: &[LibraryLink] = {
    use BundledContract as C;
    &[
        links(C::NonfungibleTokenPositionDescriptor, C::NFTDescriptor, &[1681]),
        links(C::FlashLoanLogic, C::BorrowLogic, &[1636]),
        links(C::Pool, C::BorrowLogic, &[4760, 5527, 8199, 8362, 11288, 13495]),
        links(C::Pool, C::BridgeLogic, &[7402, 12994]),
        links(C::Pool, C::EModeLogic, &[4279]),
        links(C::Pool, C::FlashLoanLogic, &[5426, 9943]),
        links(C::Pool, C::LiquidationLogic, &[2718]),
        links(C::Pool, C::PoolLogic, &[6686, 7760, 8315, 10252, 11413, 13111]),
        links(C::Pool, C::SupplyLogic, &[3696, 5870, 6512, 6724, 12382]),
        links(C::PoolConfigurator, C::ConfiguratorLogic, &[1111, 6183, 9570, 10638]),
    ]
};

impl BundledContract {
    /// Code of the contract: creation code without constructor arguments, except for [`BundledContract::Multicall3`],
    /// which is bundled as runtime code.
    ///
    /// # Errors
    /// [`ContractError::NotHexadecimal`] if the bundled file is damaged.
    pub fn code(self) -> Result<Bytes, ContractError> {
        match hex::decode(self.file().trim_end()) {
            Ok(code) => Ok(code.into()),
            Err(_) => Err(ContractError::NotHexadecimal { name: self.name() }),
        }
    }

    /// Creation code of the contract, followed by ABI-encoded constructor arguments.
    ///
    /// # Errors
    /// [`ContractError::NotHexadecimal`] if the bundled file is damaged.
    pub fn creation(self, arguments: &[u8]) -> Result<Bytes, ContractError> {
        let code = self.code()?;
        Ok([code.as_ref(), arguments].concat().into())
    }
}

/// Creation code of a contract with the addresses of all its libraries in their slots.
///
/// # Errors
/// [`ContractError`] if the bundled file is damaged, or a library of the contract is not in `libraries`.
pub fn link(contract: BundledContract, libraries: &BTreeMap<BundledContract, Address>) -> Result<Bytes, ContractError> {
    let mut code = contract.code()?.to_vec();
    let length = code.len();
    for needed in LINKS.iter().filter(|needed| needed.contract == contract) {
        let missing = ContractError::NoLibrary { contract: contract.name(), library: needed.library.name() };
        let library = libraries.get(&needed.library).ok_or(missing)?;
        for &offset in needed.offsets {
            let slot = code
                .get_mut(offset..offset.saturating_add(Address::len_bytes()))
                .ok_or(ContractError::LinkOutside { offset, length })?;
            slot.copy_from_slice(library.as_slice());
        }
    }
    Ok(code.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::keccak256;
    use serde_json::Value;

    fn manifest() -> Vec<Value> {
        let manifest: Value = serde_json::from_str(include_str!("../../../assets/contracts/manifest.json")).unwrap();
        manifest["contracts"].as_array().unwrap().clone()
    }

    fn entry(contract: BundledContract) -> Value {
        manifest().into_iter().find(|entry| entry["name"] == contract.name()).unwrap()
    }

    #[test]
    fn every_file_has_the_hash_its_manifest_entry_states() {
        let manifest = manifest();
        assert_eq!(manifest.len(), BundledContract::ALL.len());
        for (contract, entry) in BundledContract::ALL.iter().zip(&manifest) {
            let code = contract.code().unwrap();
            assert_eq!(entry["name"], contract.name());
            assert_eq!(entry["file"], format!("{}.hex", contract.name()));
            assert_eq!(entry["bytes"], code.len());
            assert_eq!(entry["keccak256"], keccak256(&code).to_string(), "{}", contract.name());
            assert!(!entry["spdx"].as_str().unwrap().is_empty());
            for embedded in entry["embeds"].as_array().unwrap() {
                let at = usize::try_from(embedded["offset"].as_u64().unwrap()).unwrap();
                let length = usize::try_from(embedded["length"].as_u64().unwrap()).unwrap();
                assert_eq!(embedded["keccak256"], keccak256(&code[at..at + length]).to_string());
            }
        }
    }

    #[test]
    fn creation_code_is_within_the_limit_of_eip_3860() {
        for contract in BundledContract::ALL {
            assert!(contract.code().unwrap().len() <= 49_152 - 1_024, "{}", contract.name());
        }
    }

    #[test]
    fn the_factories_hold_the_canonical_pair_and_pool() {
        assert_eq!(entry(BundledContract::UniswapV2Factory)["embeds"][0]["keccak256"], V2_PAIR_INIT_HASH.to_string());
        assert_eq!(entry(BundledContract::UniswapV3Factory)["embeds"][0]["keccak256"], V3_POOL_INIT_HASH.to_string());
    }

    #[test]
    fn create2_puts_permit2_and_the_entry_point_at_their_canonical_addresses() {
        for (contract, salt, expected) in [
            (BundledContract::Permit2, PERMIT2_SALT, PERMIT2),
            (BundledContract::EntryPoint, ENTRY_POINT_SALT, ENTRY_POINT),
        ] {
            assert_eq!(DEPLOYMENT_PROXY.create2_from_code(salt, contract.code().unwrap()), expected);
        }
    }

    #[test]
    fn the_factory_of_safe_puts_its_contracts_at_the_published_addresses() {
        for (contract, expected) in [
            (BundledContract::Safe, SAFE),
            (BundledContract::SafeProxyFactory, SAFE_FACTORY),
            (BundledContract::CompatibilityFallbackHandler, SAFE_HANDLER),
        ] {
            assert_eq!(SAFE_SINGLETON_FACTORY.create2_from_code(B256::ZERO, contract.code().unwrap()), expected);
        }
    }

    #[test]
    fn preset_codes_have_the_hashes_they_have_on_mainnet() {
        assert_eq!(
            keccak256(BundledContract::Multicall3.code().unwrap()),
            b256!("0xd5c15df687b16f2ff992fc8d767b4216323184a2bbc6ee2f9c398c318e770891")
        );
        assert_eq!(
            keccak256(DEPLOYMENT_PROXY_CODE),
            b256!("0x2fa86add0aed31f33a762c9d88e807c475bd51d0f52bd0955754b2608f7e4989")
        );
    }

    #[test]
    fn linking_fills_exactly_the_slots_the_manifest_lists() {
        let libraries: BTreeMap<_, _> = BundledContract::ALL
            .iter()
            .zip(1_u8..)
            .map(|(library, number)| (*library, Address::repeat_byte(number)))
            .collect();
        let mut linked = 0;
        for &contract in BundledContract::ALL {
            let (before, after) = (contract.code().unwrap(), link(contract, &libraries).unwrap());
            let links = entry(contract)["links"].as_array().unwrap().clone();
            let mut expected = before.to_vec();
            for slot in &links {
                let at = usize::try_from(slot["offset"].as_u64().unwrap()).unwrap();
                assert_eq!(slot["length"], 20);
                assert_eq!(before[at..at + 20], [0; 20], "{}", contract.name());
                let (_, address) = libraries.iter().find(|(library, _)| slot["library"] == library.name()).unwrap();
                expected[at..at + 20].copy_from_slice(address.as_slice());
            }
            assert!(expected == after, "{}", contract.name());
            linked += links.len();
        }
        assert_eq!(linked, 1 + 1 + 23 + 4);
        let nothing = link(BundledContract::Pool, &BTreeMap::new());
        assert!(matches!(nothing, Err(ContractError::NoLibrary { contract: "Pool", .. })), "{nothing:?}");
    }
}
