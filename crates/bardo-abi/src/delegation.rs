//! Delegation framework 1.3.0 (ERC-7710), <https://github.com/MetaMask/delegation-framework>: delegations, and the call
//! that redeems them.

alloy::sol! {
    /// Limit on a delegation, enforced by a contract.
    #[derive(Debug, PartialEq, Eq)]
    struct Caveat {
        address enforcer;
        bytes terms;
        bytes args;
    }

    /// Permission for a delegate to act as the delegator.
    #[derive(Debug, PartialEq, Eq)]
    struct Delegation {
        address delegate;
        address delegator;
        bytes32 authority;
        Caveat[] caveats;
        uint256 salt;
        bytes signature;
    }

    /// Caveats of which all must pass, as one alternative of the wrapper that requires one of several.
    #[derive(Debug, PartialEq, Eq)]
    struct CaveatGroup {
        Caveat[] caveats;
    }

    /// Alternative that a redeemer selects, with the arguments of its caveats.
    #[derive(Debug, PartialEq, Eq)]
    struct SelectedGroup {
        uint256 groupIndex;
        bytes[] caveatArgs;
    }

    /// Contract that validates, redeems and disables delegations.
    #[derive(Debug, PartialEq, Eq)]
    interface DelegationManager {
        function redeemDelegations(bytes[] permissionContexts, bytes32[] modes, bytes[] executionCallDatas) external;
        function disabledDelegations(bytes32 delegationHash) external view returns (bool isDisabled);
        function getDelegationHash(Delegation delegation) external pure returns (bytes32);
        function disableDelegation(Delegation delegation) external;
        function paused() external view returns (bool);
        event RedeemedDelegation(address indexed rootDelegator, address indexed redeemer, Delegation delegation);
    }

    /// Account whose code accepts calls from a delegation manager.
    interface DeleGator {
        function delegationManager() external view returns (address);
    }
}

/// Signed form of the structs: without a caveat's `args` and without the signature.
pub mod typed {
    alloy::sol! {
        /// Limit on a delegation, as signed.
        #[derive(Debug, PartialEq, Eq)]
        struct Caveat {
            address enforcer;
            bytes terms;
        }

        /// Permission for a delegate, as signed.
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
