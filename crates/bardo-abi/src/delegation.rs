//! The delegation framework 1.3.0 (ERC-7710), <https://github.com/MetaMask/delegation-framework>: who lets whom do what, and
//! the call that makes use of it.

alloy::sol! {
    /// A limit on a delegation.
    #[derive(Debug, PartialEq, Eq)]
    struct Caveat {
        address enforcer;
        bytes terms;
        bytes args;
    }

    /// Somebody's leave for somebody else to act as them.
    #[derive(Debug, PartialEq, Eq)]
    struct Delegation {
        address delegate;
        address delegator;
        bytes32 authority;
        Caveat[] caveats;
        uint256 salt;
        bytes signature;
    }

    /// What is called, and what is asked about a delegation.
    #[derive(Debug, PartialEq, Eq)]
    interface DelegationManager {
        function redeemDelegations(bytes[] permissionContexts, bytes32[] modes, bytes[] executionCallDatas) external;
        function disabledDelegations(bytes32 delegationHash) external view returns (bool isDisabled);
        function getDelegationHash(Delegation delegation) external pure returns (bytes32);
        function disableDelegation(Delegation delegation) external;
        function paused() external view returns (bool);
    }

    /// An account whose code knows the manager.
    interface DeleGator {
        function delegationManager() external view returns (address);
    }
}

/// The same as they are signed: without a caveat's `args` and without the signature.
pub mod typed {
    alloy::sol! {
        /// A limit on a delegation, as it is signed.
        #[derive(Debug, PartialEq, Eq)]
        struct Caveat {
            address enforcer;
            bytes terms;
        }

        /// A delegation, as it is signed.
        #[derive(Debug, PartialEq, Eq)]
        struct Delegation {
            address delegate;
            address delegator;
            bytes32 authority;
            Caveat[] caveats;
            uint256 salt;
        }
    }
}
