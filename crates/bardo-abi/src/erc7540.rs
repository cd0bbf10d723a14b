//! Asynchronous vaults of ERC-7540, as far as they are called or decoded, with the manager's side and the factory of Lagoon's
//! published interface (version 0.5.0; the cap is of 0.6.0).

alloy::sol! {
    /// Asynchronous vault, <https://eips.ethereum.org/EIPS/eip-7540>. A request with the id 0 is the controller's last one.
    #[derive(Debug, PartialEq, Eq)]
    interface Erc7540 {
        event DepositRequest(
            address indexed controller,
            address indexed owner,
            uint256 indexed requestId,
            address sender,
            uint256 assets
        );
        event RedeemRequest(
            address indexed controller,
            address indexed owner,
            uint256 indexed requestId,
            address sender,
            uint256 shares
        );

        function supportsInterface(bytes4 interfaceId) external view returns (bool);
        function requestDeposit(uint256 assets, address controller, address owner) external returns (uint256);
        function requestRedeem(uint256 shares, address controller, address owner) external returns (uint256);
        function deposit(uint256 assets, address receiver, address controller) external returns (uint256);
        function pendingDepositRequest(uint256 requestId, address controller) external view returns (uint256);
        function claimableDepositRequest(uint256 requestId, address controller) external view returns (uint256);
        function pendingRedeemRequest(uint256 requestId, address controller) external view returns (uint256);
        function claimableRedeemRequest(uint256 requestId, address controller) external view returns (uint256);
    }

    /// Lagoon's vaults beyond the standard.
    #[derive(Debug, PartialEq, Eq)]
    interface LagoonVault {
        struct RolesStorage {
            address whitelistManager;
            address feeReceiver;
            address safe;
            address feeRegistry;
            address valuationManager;
        }

        event DepositRequestCanceled(uint256 indexed requestId, address indexed controller);
        event NewTotalAssetsUpdated(uint256 totalAssets);
        event TotalAssetsUpdated(uint256 totalAssets);
        event Paused(address account);
        event Unpaused(address account);
        event MaxCapUpdated(uint256 previousMaxCap, uint256 maxCap);

        function cancelRequestDeposit() external;
        function convertToShares(uint256 assets) external view returns (uint256);
        function getRolesStorage() external view returns (RolesStorage memory);
        function owner() external view returns (address);
        function safe() external view returns (address);
        function paused() external view returns (bool);
        function maxCap() external view returns (uint256);
        function updateNewTotalAssets(uint256 newTotalAssets) external;
        function settleDeposit(uint256 newTotalAssets) external;
        function settleRedeem(uint256 newTotalAssets) external;
        function pause() external;
        function unpause() external;
        function updateMaxCap(uint256 maxCap) external;
    }

    /// Parameters of a new vault.
    #[derive(Debug, PartialEq, Eq)]
    struct LagoonInit {
        address underlying;
        string name;
        string symbol;
        address safe;
        address whitelistManager;
        address valuationManager;
        address admin;
        address feeReceiver;
        uint16 managementRate;
        uint16 performanceRate;
        bool enableWhitelist;
        uint256 rateUpdateCooldown;
    }

    /// Lagoon's factory of vaults.
    #[derive(Debug, PartialEq, Eq)]
    interface LagoonFactory {
        event ProxyDeployed(address proxy, address deployer);

        function createVaultProxy(
            address logic,
            address initialOwner,
            uint256 initialDelay,
            LagoonInit init,
            bytes32 salt
        ) external returns (address);
        function isInstance(address vault) external view returns (bool);
    }
}
