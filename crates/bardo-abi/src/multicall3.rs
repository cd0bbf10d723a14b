//! Multicall3.

alloy::sol! {
    /// Many calls in one, and a few facts about the chain.
    #[derive(Debug, PartialEq, Eq)]
    interface Multicall3 {
        struct Call3 {
            address target;
            bool allowFailure;
            bytes callData;
        }
        struct Result {
            bool success;
            bytes returnData;
        }

        function aggregate3(Call3[] calls) external payable returns (Result[] returnData);
        function getEthBalance(address owner) external view returns (uint256 balance);
        function getBlockNumber() external view returns (uint256 blockNumber);
        function getChainId() external view returns (uint256 chainid);
    }
}
