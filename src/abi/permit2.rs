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
