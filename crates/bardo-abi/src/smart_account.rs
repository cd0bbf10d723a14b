//! Views by which smart accounts describe themselves. Any contract can answer them, so an answer is only a claim.

alloy::sol! {
    /// Owners of a Safe, unchanged since version 1.0 (<https://github.com/safe-global/safe-smart-account>).
    #[derive(Debug, PartialEq, Eq)]
    interface SafeOwners {
        function getOwners() external view returns (address[] memory owners);
        function getThreshold() external view returns (uint256 threshold);
    }

    /// Entry point of an account of the ERC-4337 reference implementation (`BaseAccount`), which most others follow.
    #[derive(Debug, PartialEq, Eq)]
    interface EntryPointAccount {
        function entryPoint() external view returns (address entryPoint);
    }
}
