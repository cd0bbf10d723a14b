//! Across's SpokePools, as far as they are called or decoded. Source: npm `@across-protocol/contracts` 4.1.12,
//! `contracts/interfaces`, of which the functions and both generations of events are the interface.

// The macro makes a function of each event, with an argument per field.
#![allow(clippy::too_many_arguments)]

alloy::sol! {
    /// Everything that identifies a deposit on its destination; its hash together with the destination's chain id is the
    /// relay's.
    #[derive(Debug, PartialEq, Eq)]
    struct AcrossRelay {
        bytes32 depositor;
        bytes32 recipient;
        bytes32 exclusiveRelayer;
        bytes32 inputToken;
        bytes32 outputToken;
        uint256 inputAmount;
        uint256 outputAmount;
        uint256 originChainId;
        uint256 depositId;
        uint32 fillDeadline;
        uint32 exclusivityDeadline;
        bytes message;
    }

    /// Recipient, amount and message of a fill: the deposit's own, unless the depositor signed others.
    #[derive(Debug, PartialEq, Eq)]
    struct AcrossFillInfo {
        bytes32 updatedRecipient;
        bytes32 updatedMessageHash;
        uint256 updatedOutputAmount;
        uint8 fillType;
    }

    /// The same of the events before bytes32.
    #[derive(Debug, PartialEq, Eq)]
    struct AcrossFillInfoV3 {
        address updatedRecipient;
        bytes updatedMessage;
        uint256 updatedOutputAmount;
        uint8 fillType;
    }

    /// Payments out of a pool's own balance: to relayers for their fills, to depositors whose deposits expired.
    #[derive(Debug, PartialEq, Eq)]
    struct AcrossRefundLeaf {
        uint256 amountToReturn;
        uint256 chainId;
        uint256[] refundAmounts;
        uint32 leafId;
        address l2TokenAddress;
        address[] refundAddresses;
    }

    /// Payment of a deposit out of the destination's pool itself, which no relayer filled.
    #[derive(Debug, PartialEq, Eq)]
    struct AcrossSlowFill {
        AcrossRelay relayData;
        uint256 chainId;
        uint256 updatedOutputAmount;
    }

    /// SpokePool: takes deposits for other chains, and lets relayers fill those of other chains here.
    #[derive(Debug, PartialEq, Eq)]
    interface AcrossSpokePool {
        event FundsDeposited(
            bytes32 inputToken,
            bytes32 outputToken,
            uint256 inputAmount,
            uint256 outputAmount,
            uint256 indexed destinationChainId,
            uint256 indexed depositId,
            uint32 quoteTimestamp,
            uint32 fillDeadline,
            uint32 exclusivityDeadline,
            bytes32 indexed depositor,
            bytes32 recipient,
            bytes32 exclusiveRelayer,
            bytes message
        );
        event FilledRelay(
            bytes32 inputToken,
            bytes32 outputToken,
            uint256 inputAmount,
            uint256 outputAmount,
            uint256 repaymentChainId,
            uint256 indexed originChainId,
            uint256 indexed depositId,
            uint32 fillDeadline,
            uint32 exclusivityDeadline,
            bytes32 exclusiveRelayer,
            bytes32 indexed relayer,
            bytes32 depositor,
            bytes32 recipient,
            bytes32 messageHash,
            AcrossFillInfo relayExecutionInfo
        );
        event V3FundsDeposited(
            address inputToken,
            address outputToken,
            uint256 inputAmount,
            uint256 outputAmount,
            uint256 indexed destinationChainId,
            uint32 indexed depositId,
            uint32 quoteTimestamp,
            uint32 fillDeadline,
            uint32 exclusivityDeadline,
            address indexed depositor,
            address recipient,
            address exclusiveRelayer,
            bytes message
        );
        event FilledV3Relay(
            address inputToken,
            address outputToken,
            uint256 inputAmount,
            uint256 outputAmount,
            uint256 repaymentChainId,
            uint256 indexed originChainId,
            uint32 indexed depositId,
            uint32 fillDeadline,
            uint32 exclusivityDeadline,
            address exclusiveRelayer,
            address indexed relayer,
            address depositor,
            address recipient,
            bytes message,
            AcrossFillInfoV3 relayExecutionInfo
        );
        event RequestedSlowFill(
            bytes32 inputToken,
            bytes32 outputToken,
            uint256 inputAmount,
            uint256 outputAmount,
            uint256 indexed originChainId,
            uint256 indexed depositId,
            uint32 fillDeadline,
            uint32 exclusivityDeadline,
            bytes32 exclusiveRelayer,
            bytes32 depositor,
            bytes32 recipient,
            bytes32 messageHash
        );
        event RequestedV3SlowFill(
            address inputToken,
            address outputToken,
            uint256 inputAmount,
            uint256 outputAmount,
            uint256 indexed originChainId,
            uint32 indexed depositId,
            uint32 fillDeadline,
            uint32 exclusivityDeadline,
            address exclusiveRelayer,
            address depositor,
            address recipient,
            bytes message
        );
        event RelayedRootBundle(
            uint32 indexed rootBundleId,
            bytes32 indexed relayerRefundRoot,
            bytes32 indexed slowRelayRoot
        );
        event ExecutedRelayerRefundRoot(
            uint256 amountToReturn,
            uint256 indexed chainId,
            uint256[] refundAmounts,
            uint32 indexed rootBundleId,
            uint32 indexed leafId,
            address l2TokenAddress,
            address[] refundAddresses,
            bool deferredRefunds,
            address caller
        );

        function depositV3(
            address depositor,
            address recipient,
            address inputToken,
            address outputToken,
            uint256 inputAmount,
            uint256 outputAmount,
            uint256 destinationChainId,
            address exclusiveRelayer,
            uint32 quoteTimestamp,
            uint32 fillDeadline,
            uint32 exclusivityParameter,
            bytes calldata message
        ) external payable;
        function fillRelay(AcrossRelay calldata relayData, uint256 repaymentChainId, bytes32 repaymentAddress) external;
        function requestSlowFill(AcrossRelay calldata relayData) external;
        function executeSlowRelayLeaf(
            AcrossSlowFill calldata slowFillLeaf,
            uint32 rootBundleId,
            bytes32[] calldata proof
        ) external;
        function relayRootBundle(bytes32 relayerRefundRoot, bytes32 slowRelayRoot) external;
        function executeRelayerRefundLeaf(
            uint32 rootBundleId,
            AcrossRefundLeaf memory relayerRefundLeaf,
            bytes32[] memory proof
        ) external payable;
        function getV3RelayHash(AcrossRelay memory relayData) external view returns (bytes32);
        function fillStatuses(bytes32 relayHash) external view returns (uint256);
        function depositQuoteTimeBuffer() external view returns (uint32);
        function fillDeadlineBuffer() external view returns (uint32);
        function pausedDeposits() external view returns (bool);
    }

    /// The pool that the devnet runs takes its admin's calls as messages of a bridge. Source: `PolygonZkEVM_SpokePool`.
    interface AcrossMessagedPool {
        function initialize(
            address bridge,
            uint32 initialDepositId,
            address crossDomainAdmin,
            address withdrawalRecipient
        ) external;
        function onMessageReceived(address originAddress, uint32 originNetwork, bytes memory data) external payable;
    }
}
