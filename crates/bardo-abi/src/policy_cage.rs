//! PolicyCage, Bardo's own contract, which limits the actions of an owner's delegate. Source in
//! `assets/contracts/src/PolicyCage.sol`.

alloy::sol! {
    /// Functions of the owner, read functions, hooks and errors.
    #[derive(Debug, PartialEq, Eq)]
    interface PolicyCage {
        /// Asset that may be held. Amounts are in raw units; `type(uint128).max` means no limit.
        struct AssetRule {
            address token;
            address feed;
            bool exit;
            uint128 maxPerTransaction;
            uint128 maxPerDay;
            uint128 maxPosition;
        }
        /// Function that may be called. The zero selector means a plain transfer of the native token; with the zero
        /// address as its target, to any address.
        struct CallRule {
            address target;
            bytes4 selector;
        }
        /// Complete rules of an owner.
        struct Rules {
            AssetRule[] assets;
            CallRule[] calls;
            address[] spenders;
            uint16 maxDrawdownBps;
            uint16 maxLossBps;
            uint32 minInterval;
            uint32 maxPriceAge;
        }

        event Configured(address indexed owner, bytes32 rulesHash);
        event Cleared(address indexed owner);
        event HighestReset(address indexed owner);

        error NotManager(address sender);
        error NoRules(address owner);
        error BadRules(string what);
        error OnlySingleCalls();
        error CallNotAllowed(address target, bytes4 selector);
        error SpenderNotAllowed(address spender);
        error AssetNotAllowed(address token);
        error OverPerTransaction(address token, uint256 amount, uint256 limit);
        error OverPerDay(address token, uint256 amount, uint256 limit);
        error OverPosition(address token, uint256 amount, uint256 limit);
        error LossTooLarge(uint256 valueOut, uint256 valueIn, uint256 maxLossBps);
        error DrawdownReached(uint256 value, uint256 floor);
        error TooSoon(uint256 nextAt);
        error PriceUnusable(address feed);
        error Nested();

        function manager() external view returns (address);
        function configured(address owner) external view returns (bool);
        function standing(address owner) external view returns (uint256 highest, uint64 lastAction);
        function rulesOf(address owner) external view returns (Rules memory);
        function leftInDay(address owner, address token) external view returns (uint256 amount);
        function valueOf(address owner) external view returns (uint256 value);
        function checkCall(address owner, address target, uint256 value, bytes calldata data) external view;
        function configure(Rules calldata set) external;
        function clear() external;
        function resetHighest() external;
        function beforeHook(bytes calldata terms, bytes calldata args, bytes32 mode, bytes calldata execution, bytes32 delegation, address owner, address redeemer) external;
        function afterHook(bytes calldata terms, bytes calldata args, bytes32 mode, bytes calldata execution, bytes32 delegation, address owner, address redeemer) external;
    }
}
