//! PolicyCage, Bardo's own contract: what an owner allows a delegate to do. Source in
//! `assets/contracts/src/PolicyCage.sol`.

alloy::sol! {
    /// The owner's side, what can be read, and the refusals.
    #[derive(Debug, PartialEq, Eq)]
    interface PolicyCage {
        /// An asset that may be held; amounts in raw units, `type(uint128).max` for no bound.
        struct AssetRule {
            address token;
            address feed;
            bool exit;
            uint128 maxPerTransaction;
            uint128 maxPerDay;
            uint128 maxPosition;
        }
        /// A function that may be called; the zero selector stands for plain sends of the coin.
        struct CallRule {
            address target;
            bytes4 selector;
        }
        /// All that an owner allows.
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
