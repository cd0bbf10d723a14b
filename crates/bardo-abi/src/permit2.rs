//! Permit2: allowances with an expiry, and signatures used at most once.

alloy::sol! {
    /// Permit2, <https://github.com/Uniswap/permit2>: its two halves, `AllowanceTransfer` (allowances
    /// that expire, with ordered nonces) and `SignatureTransfer` (one transfer per signature, with a
    /// bitmap of used nonces).
    #[derive(Debug, PartialEq, Eq, Hash)]
    interface Permit2 {
        /// Terms of a signed allowance for one token.
        struct PermitDetails {
            address token;
            uint160 amount;
            uint48 expiration;
            uint48 nonce;
        }
        /// Signed allowance for one token.
        struct PermitSingle {
            PermitDetails details;
            address spender;
            uint256 sigDeadline;
        }
        /// Signed allowances for several tokens and one spender.
        struct PermitBatch {
            PermitDetails[] details;
            address spender;
            uint256 sigDeadline;
        }
        /// Maximum that a signed transfer may take of one token.
        struct TokenPermissions {
            address token;
            uint256 amount;
        }
        /// Signed transfer, as in calldata: the signature covers the spender, which is not in the struct.
        struct PermitTransferFrom {
            TokenPermissions permitted;
            uint256 nonce;
            uint256 deadline;
        }
        /// Signed transfer of several tokens, as in calldata.
        struct PermitBatchTransferFrom {
            TokenPermissions[] permitted;
            uint256 nonce;
            uint256 deadline;
        }
        /// Amount that the spender takes under a signed transfer, and its recipient.
        struct SignatureTransferDetails {
            address to;
            uint256 requestedAmount;
        }
        /// Token and spender of an allowance.
        struct TokenSpenderPair {
            address token;
            address spender;
        }

        event Approval(address indexed owner, address indexed token, address indexed spender, uint160 amount, uint48 expiration);
        event Permit(address indexed owner, address indexed token, address indexed spender, uint160 amount, uint48 expiration, uint48 nonce);
        event Lockdown(address indexed owner, address token, address spender);
        event NonceInvalidation(address indexed owner, address indexed token, address indexed spender, uint48 newNonce, uint48 oldNonce);
        event UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask);

        function DOMAIN_SEPARATOR() external view returns (bytes32);
        function allowance(address owner, address token, address spender) external view returns (uint160 amount, uint48 expiration, uint48 nonce);
        function nonceBitmap(address owner, uint256 word) external view returns (uint256 bits);
        function approve(address token, address spender, uint160 amount, uint48 expiration) external;
        function lockdown(TokenSpenderPair[] approvals) external;
        function invalidateUnorderedNonces(uint256 wordPos, uint256 mask) external;
        function permit(address owner, PermitSingle permitSingle, bytes signature) external;
        function permit(address owner, PermitBatch permitBatch, bytes signature) external;
        function permitTransferFrom(PermitTransferFrom permit, SignatureTransferDetails transferDetails, address owner, bytes signature) external;
        function permitTransferFrom(PermitBatchTransferFrom permit, SignatureTransferDetails[] transferDetails, address owner, bytes signature) external;
        function permitWitnessTransferFrom(PermitTransferFrom permit, SignatureTransferDetails transferDetails, address owner, bytes32 witness, string witnessTypeString, bytes signature) external;
        function permitWitnessTransferFrom(PermitBatchTransferFrom permit, SignatureTransferDetails[] transferDetails, address owner, bytes32 witness, string witnessTypeString, bytes signature) external;
    }
}

/// Typed data that Permit2 verifies ([EIP-712](https://eips.ethereum.org/EIPS/eip-712)); its domain has
/// a name, a chain id and the contract, and no version. The type strings follow from the declarations.
pub mod typed {
    pub use super::Permit2::{PermitDetails, PermitSingle};

    alloy::sol! {
        /// Token and maximum amount of a transfer.
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct TokenPermissions { address token; uint256 amount; }

        /// Signed permission for `spender` to take `permitted` once. Calldata omits the spender, which is the caller.
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct PermitTransferFrom { TokenPermissions permitted; address spender; uint256 nonce; uint256 deadline; }
    }
}
