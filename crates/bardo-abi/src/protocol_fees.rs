//! Uniswap's protocol fees: the jar that holds them, the contract that releases them for burnt UNI, and the adapter that collects
//! those of V3 pools. Source: `Uniswap/protocol-fees`.

alloy::sol! {
    /// Contract that holds collected fees; only its releaser lets them out.
    #[derive(Debug, PartialEq, Eq)]
    interface TokenJar {
        function releaser() external view returns (address);
        function setReleaser(address releaser) external;
    }

    /// Contract that releases assets of the jar to a caller that pays the threshold of the resource. The zero address is the native
    /// token.
    #[derive(Debug, PartialEq, Eq)]
    interface Firepit {
        event Released(uint256 indexed nonce, address indexed recipient, address[] assets);

        function RESOURCE() external view returns (address);
        function RESOURCE_RECIPIENT() external view returns (address);
        function TOKEN_JAR() external view returns (address);
        function threshold() external view returns (uint256);
        function nonce() external view returns (uint256);
        function release(uint256 nonce, address[] assets, address recipient) external;
    }

    /// Owner of the V3 factory: collects protocol fees into the jar. An amount above what a pool owes collects all but one unit.
    #[derive(Debug, PartialEq, Eq)]
    interface V3FeeAdapter {
        struct CollectParams {
            address pool;
            uint128 amount0Requested;
            uint128 amount1Requested;
        }

        struct Collected {
            uint128 amount0Collected;
            uint128 amount1Collected;
        }

        function FACTORY() external view returns (address);
        function TOKEN_JAR() external view returns (address);
        function overridePoolFee(address pool, uint8 feeOverride) external;
        function collect(CollectParams[] collectParams) external returns (Collected[] amountsCollected);
    }

    /// The part of a V3 pool that is about protocol fees.
    #[derive(Debug, PartialEq, Eq)]
    interface ProtocolFeePool {
        event CollectProtocol(address indexed sender, address indexed recipient, uint128 amount0, uint128 amount1);

        function protocolFees() external view returns (uint128 token0, uint128 token1);
    }
}
