//! Account abstraction (ERC-4337, <https://eips.ethereum.org/EIPS/eip-4337>): the entry point's nonces.

alloy::sol! {
    /// Nonce functions of an entry point, unchanged since version 0.6.
    #[derive(Debug, PartialEq, Eq)]
    interface EntryPointNonces {
        function getNonce(address sender, uint192 key) external view returns (uint256 nonce);
        function incrementNonce(uint192 key) external;
    }
}
