//! Permit2: allowances with an expiry, and signatures used at most once.

alloy::sol! {
    /// Permit2, <https://github.com/Uniswap/permit2>: what is read, and the events of its two halves.
    #[derive(Debug, PartialEq, Eq)]
    interface Permit2 {
        event Approval(address indexed owner, address indexed token, address indexed spender, uint160 amount, uint48 expiration);
        event Permit(address indexed owner, address indexed token, address indexed spender, uint160 amount, uint48 expiration, uint48 nonce);
        event Lockdown(address indexed owner, address token, address spender);
        event NonceInvalidation(address indexed owner, address indexed token, address indexed spender, uint48 newNonce, uint48 oldNonce);
        event UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask);

        function allowance(address owner, address token, address spender) external view returns (uint160 amount, uint48 expiration, uint48 nonce);
        function nonceBitmap(address owner, uint256 word) external view returns (uint256 bits);
        function approve(address token, address spender, uint160 amount, uint48 expiration) external;
        function invalidateUnorderedNonces(uint256 wordPos, uint256 mask) external;
    }
}

/// Typed data that Permit2 verifies ([EIP-712](https://eips.ethereum.org/EIPS/eip-712)); its domain has
/// a name, a chain id and the contract, and no version. The type strings follow from the declarations.
pub mod typed {
    alloy::sol! {
        /// One token's allowance, as it is to be.
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct PermitDetails { address token; uint160 amount; uint48 expiration; uint48 nonce; }

        /// Lets `spender` take what `details` say; anyone may hand it in until `sigDeadline`.
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct PermitSingle { PermitDetails details; address spender; uint256 sigDeadline; }

        /// A token and how much of it.
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct TokenPermissions { address token; uint256 amount; }

        /// Lets `spender` take `permitted` once. In calldata the spender is left out: it is the caller.
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct PermitTransferFrom { TokenPermissions permitted; address spender; uint256 nonce; uint256 deadline; }
    }
}
