//! The OP stack's GasPriceOracle: what a rollup asks for putting a transaction on its base chain.

use alloy::sol;

sol! {
    /// A predeployed contract of every OP stack rollup.
    interface GasPriceOracle {
        /// What is asked for a transaction, in wei; `data` is the transaction without its signature, encoded.
        function getL1Fee(bytes data) external view returns (uint256 fee);
    }
}
