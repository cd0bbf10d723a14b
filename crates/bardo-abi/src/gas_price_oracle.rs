//! GasPriceOracle of the OP stack: a rollup's fee for publishing a transaction on its base chain.

use alloy::sol;

sol! {
    /// Predeployed contract of every OP stack rollup.
    interface GasPriceOracle {
        /// Returns the fee in wei; `data` is the encoded transaction without its signature.
        function getL1Fee(bytes data) external view returns (uint256 fee);
    }
}
