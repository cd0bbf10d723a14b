//! Typed data that a second operator signs (EIP-712).

use alloy::sol;

sol! {
    /// Approval of one action.
    #[derive(Debug, PartialEq, Eq)]
    struct SecondApproval {
        address account;
        uint256 chainId;
        string permit;
        bytes32 action;
        bytes32 policy;
        string outcome;
        uint256 deadline;
    }

    /// Approval of a policy that permits more.
    #[derive(Debug, PartialEq, Eq)]
    struct SecondApprovalOfPolicy {
        bytes32 from;
        bytes32 to;
        bytes32 entry;
        string changes;
        uint256 deadline;
    }
}
