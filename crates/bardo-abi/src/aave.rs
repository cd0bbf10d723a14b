//! Aave V3: the pool with its tokens, its oracle, and what sets a market up. Of the interfaces that versions 3.0 to 3.5 of
//! the deployed contracts have in common.

alloy::sol! {
    /// State of a reserve. Indexes and rates are in ray (27 decimals), rates per year.
    #[derive(Debug, PartialEq, Eq)]
    struct AaveReserveData {
        /// Bits of the configuration: `ReserveConfiguration` of aave-v3-core.
        uint256 configuration;
        uint128 liquidityIndex;
        uint128 currentLiquidityRate;
        uint128 variableBorrowIndex;
        uint128 currentVariableBorrowRate;
        uint128 currentStableBorrowRate;
        uint40 lastUpdateTimestamp;
        uint16 id;
        address aTokenAddress;
        address stableDebtTokenAddress;
        address variableDebtTokenAddress;
        address interestRateStrategyAddress;
        uint128 accruedToTreasury;
        uint128 unbacked;
        uint128 isolationModeTotalDebt;
    }

    /// The pool. Amounts are in raw units of the asset; the rate mode 2 is the variable one.
    #[derive(Debug, PartialEq, Eq)]
    interface AavePool {
        event Supply(address indexed reserve, address user, address indexed onBehalfOf, uint256 amount, uint16 indexed referralCode);
        event Withdraw(address indexed reserve, address indexed user, address indexed to, uint256 amount);
        event Borrow(address indexed reserve, address user, address indexed onBehalfOf, uint256 amount, uint8 interestRateMode, uint256 borrowRate, uint16 indexed referralCode);
        event Repay(address indexed reserve, address indexed user, address indexed repayer, uint256 amount, bool useATokens);
        event LiquidationCall(address indexed collateralAsset, address indexed debtAsset, address indexed user, uint256 debtToCover, uint256 liquidatedCollateralAmount, address liquidator, bool receiveAToken);

        function supply(address asset, uint256 amount, address onBehalfOf, uint16 referralCode) external;
        function withdraw(address asset, uint256 amount, address to) external returns (uint256 withdrawn);
        function borrow(address asset, uint256 amount, uint256 interestRateMode, uint16 referralCode, address onBehalfOf) external;
        function repay(address asset, uint256 amount, uint256 interestRateMode, address onBehalfOf) external returns (uint256 repaid);
        function liquidationCall(address collateralAsset, address debtAsset, address user, uint256 debtToCover, bool receiveAToken) external;

        function getReservesList() external view returns (address[] memory assets);
        function getReserveData(address asset) external view returns (AaveReserveData memory data);
        function getReserveNormalizedIncome(address asset) external view returns (uint256 index);
        function getReserveNormalizedVariableDebt(address asset) external view returns (uint256 index);
        /// Bits of the account's reserves, two for each by its id: borrowed, used as collateral.
        function getUserConfiguration(address user) external view returns (uint256 data);
        function getUserEMode(address user) external view returns (uint256 category);
        /// Sums in the oracle's base currency, thresholds in basis points, health factor with 18 decimals.
        function getUserAccountData(address user) external view returns (
            uint256 totalCollateralBase,
            uint256 totalDebtBase,
            uint256 availableBorrowsBase,
            uint256 currentLiquidationThreshold,
            uint256 ltv,
            uint256 healthFactor
        );
    }

    /// Registry of a market's contracts.
    #[derive(Debug, PartialEq, Eq)]
    interface AaveAddressesProvider {
        function getPool() external view returns (address pool);
        function getPoolConfigurator() external view returns (address configurator);
        function getPriceOracle() external view returns (address oracle);
        function setPoolImpl(address implementation) external;
        function setPoolConfiguratorImpl(address implementation) external;
        function setPriceOracle(address oracle) external;
        function setACLManager(address manager) external;
        function setACLAdmin(address admin) external;
        function setPoolDataProvider(address provider) external;
    }

    /// Prices of a market's assets in its base currency.
    #[derive(Debug, PartialEq, Eq)]
    interface AaveOracle {
        /// Value of one unit of the base currency: 1e8 where it is the dollar.
        function BASE_CURRENCY_UNIT() external view returns (uint256 unit);
        /// Zero address where the base currency is the dollar.
        function BASE_CURRENCY() external view returns (address currency);
        function getAssetPrice(address asset) external view returns (uint256 price);
    }

    /// Receipt of a supply, or record of a debt. Both grow with interest; neither debt token can be transferred.
    #[derive(Debug, PartialEq, Eq)]
    interface AaveBalance {
        /// Growth of a balance, with the interest since the holder's last one.
        event Mint(address indexed caller, address indexed onBehalfOf, uint256 value, uint256 balanceIncrease, uint256 index);
        event Burn(address indexed from, address indexed target, uint256 value, uint256 balanceIncrease, uint256 index);

        function scaledBalanceOf(address user) external view returns (uint256 scaled);
        function balanceOf(address user) external view returns (uint256 balance);
        function totalSupply() external view returns (uint256 supply);
        function POOL() external view returns (address pool);
        function UNDERLYING_ASSET_ADDRESS() external view returns (address asset);
        /// Contract that rewards holders and notes each change of a balance; the zero address for none.
        function getIncentivesController() external view returns (address controller);
    }

    /// Aave's own views of single reserves.
    #[derive(Debug, PartialEq, Eq)]
    interface AaveProtocolDataProvider {
        function getUserReserveData(address asset, address user) external view returns (
            uint256 currentATokenBalance,
            uint256 currentStableDebt,
            uint256 currentVariableDebt,
            uint256 principalStableDebt,
            uint256 scaledVariableDebt,
            uint256 stableBorrowRate,
            uint256 liquidityRate,
            uint40 stableRateLastUpdated,
            bool usageAsCollateralEnabled
        );
        function getReserveConfigurationData(address asset) external view returns (
            uint256 decimals,
            uint256 ltv,
            uint256 liquidationThreshold,
            uint256 liquidationBonus,
            uint256 reserveFactor,
            bool usageAsCollateralEnabled,
            bool borrowingEnabled,
            bool stableBorrowRateEnabled,
            bool isActive,
            bool isFrozen
        );
        function getReserveCaps(address asset) external view returns (uint256 borrowCap, uint256 supplyCap);
    }

    /// Roles of a market.
    #[derive(Debug, PartialEq, Eq)]
    interface AaveAclManager {
        function addPoolAdmin(address admin) external;
    }

    /// Contracts and names of a new reserve.
    #[derive(Debug, PartialEq, Eq)]
    struct AaveReserveInput {
        address aTokenImpl;
        address stableDebtTokenImpl;
        address variableDebtTokenImpl;
        uint8 underlyingAssetDecimals;
        address interestRateStrategyAddress;
        address underlyingAsset;
        address treasury;
        address incentivesController;
        string aTokenName;
        string aTokenSymbol;
        string variableDebtTokenName;
        string variableDebtTokenSymbol;
        string stableDebtTokenName;
        string stableDebtTokenSymbol;
        bytes params;
    }

    /// Configurator of a market's reserves. Shares are in basis points, caps in whole tokens.
    #[derive(Debug, PartialEq, Eq)]
    interface AavePoolConfigurator {
        function initReserves(AaveReserveInput[] calldata input) external;
        function setReserveBorrowing(address asset, bool enabled) external;
        function configureReserveAsCollateral(address asset, uint256 ltv, uint256 liquidationThreshold, uint256 liquidationBonus) external;
        function setReserveFactor(address asset, uint256 newReserveFactor) external;
        function setLiquidationProtocolFee(address asset, uint256 newFee) external;
        function setReservePause(address asset, bool paused) external;
        function setReserveFreeze(address asset, bool freeze) external;
        function setSupplyCap(address asset, uint256 newSupplyCap) external;
        function setBorrowCap(address asset, uint256 newBorrowCap) external;
    }
}
