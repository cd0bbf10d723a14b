//! ERC-7683 in its first form (structs of January 2025), with Across's order data, and our own settlers.
//! The draft has since become a resolver design; whatever follows it has only this file and `intents` to change.
//!
//! Sources: <https://eips.ethereum.org/EIPS/eip-7683>; `AcrossOrderData` and its Permit2 witness as in
//! Across's `ERC7683Permit2Lib`.

alloy::sol! {
    /// An order that anybody may open with the user's signature.
    #[derive(Debug, PartialEq, Eq)]
    struct GaslessCrossChainOrder {
        address originSettler;
        address user;
        uint256 nonce;
        uint256 originChainId;
        uint32 openDeadline;
        uint32 fillDeadline;
        bytes32 orderDataType;
        bytes orderData;
    }

    /// An order that the user opens with a transaction.
    #[derive(Debug, PartialEq, Eq)]
    struct OnchainCrossChainOrder {
        uint32 fillDeadline;
        bytes32 orderDataType;
        bytes orderData;
    }

    /// A token on a chain, how much of it, and for whom.
    #[derive(Debug, PartialEq, Eq)]
    struct Output {
        bytes32 token;
        uint256 amount;
        bytes32 recipient;
        uint256 chainId;
    }

    /// What a filler is to do on a destination.
    #[derive(Debug, PartialEq, Eq)]
    struct FillInstruction {
        uint256 destinationChainId;
        bytes32 destinationSettler;
        bytes originData;
    }

    /// An order as every filler can read it.
    #[derive(Debug, PartialEq, Eq)]
    struct ResolvedCrossChainOrder {
        address user;
        uint256 originChainId;
        uint32 openDeadline;
        uint32 fillDeadline;
        bytes32 orderId;
        Output[] maxSpent;
        Output[] minReceived;
        FillInstruction[] fillInstructions;
    }

    /// The order data: one token for another, on another chain.
    #[derive(Debug, PartialEq, Eq)]
    struct AcrossOrderData {
        address inputToken;
        uint256 inputAmount;
        address outputToken;
        uint256 outputAmount;
        uint256 destinationChainId;
        bytes32 recipient;
        address exclusiveRelayer;
        uint256 depositNonce;
        uint32 exclusivityPeriod;
        bytes message;
    }

    /// What the destination is told of an order.
    #[derive(Debug, PartialEq, Eq)]
    struct RelayData {
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

    /// Another service's order data, which is recognised and not used.
    #[derive(Debug, PartialEq, Eq)]
    struct OrderData {
        bytes32 sender;
        bytes32 recipient;
        bytes32 inputToken;
        bytes32 outputToken;
        uint256 amountIn;
        uint256 amountOut;
        uint256 senderNonce;
        uint32 originDomain;
        uint32 destinationDomain;
        bytes32 destinationSettler;
        uint32 fillDeadline;
        bytes data;
    }

    /// Where orders are opened. From `Repaid` on it is our own settler's.
    #[derive(Debug, PartialEq, Eq)]
    interface OriginSettler {
        event Open(bytes32 indexed orderId, ResolvedCrossChainOrder resolvedOrder);
        event Repaid(bytes32 indexed orderId, address indexed repaidTo, address token, uint256 amount);
        event Refunded(bytes32 indexed orderId, address indexed user, address token, uint256 amount);

        function openFor(GaslessCrossChainOrder order, bytes signature, bytes originFillerData) external;
        function open(OnchainCrossChainOrder order) external;
        function resolveFor(GaslessCrossChainOrder order, bytes originFillerData) external view returns (ResolvedCrossChainOrder);
        function resolve(OnchainCrossChainOrder order) external view returns (ResolvedCrossChainOrder);

        function repay(bytes32 orderId, address repayTo) external;
        function refund(bytes32 orderId) external;
        function setDestination(uint256 chainId, bytes32 settler) external;
        function destinationSettler(uint256 chainId) external view returns (bytes32);
        function deposits(bytes32 orderId) external view returns (address user, uint32 fillDeadline, uint8 status, address token, uint256 amount);
        function refundDelay() external view returns (uint32);
        function attester() external view returns (address);
    }

    /// Where orders are filled. From `Filled` on it is our own settler's.
    #[derive(Debug, PartialEq, Eq)]
    interface DestinationSettler {
        event Filled(
            bytes32 indexed orderId,
            address indexed filler,
            address indexed recipient,
            address repayTo,
            address token,
            uint256 amount,
            uint256 originChainId
        );

        function fill(bytes32 orderId, bytes originData, bytes fillerData) external;
        function filledFor(bytes32 orderId) external view returns (address repayTo);
    }
}

/// The order as Permit2 binds a transfer to it: its data typed instead of as bytes.
pub mod witness {
    alloy::sol! {
        /// The order data.
        #[derive(Debug, PartialEq, Eq)]
        struct AcrossOrderData {
            address inputToken;
            uint256 inputAmount;
            address outputToken;
            uint256 outputAmount;
            uint256 destinationChainId;
            bytes32 recipient;
            address exclusiveRelayer;
            uint256 depositNonce;
            uint32 exclusivityPeriod;
            bytes message;
        }

        /// The order.
        #[derive(Debug, PartialEq, Eq)]
        struct GaslessCrossChainOrder {
            address originSettler;
            address user;
            uint256 nonce;
            uint256 originChainId;
            uint32 openDeadline;
            uint32 fillDeadline;
            bytes32 orderDataType;
            AcrossOrderData orderData;
        }
    }
}

/// The event in the form that some settlers still emit: the destination's chain id has 64 bits there, so that the
/// event has another hash.
pub mod older {
    alloy::sol! {
        /// A token on a chain, how much of it, and for whom.
        #[derive(Debug, PartialEq, Eq)]
        struct Output {
            bytes32 token;
            uint256 amount;
            bytes32 recipient;
            uint256 chainId;
        }

        /// What a filler is to do on a destination.
        #[derive(Debug, PartialEq, Eq)]
        struct FillInstruction {
            uint64 destinationChainId;
            bytes32 destinationSettler;
            bytes originData;
        }

        /// An order as every filler can read it.
        #[derive(Debug, PartialEq, Eq)]
        struct ResolvedCrossChainOrder {
            address user;
            uint256 originChainId;
            uint32 openDeadline;
            uint32 fillDeadline;
            bytes32 orderId;
            Output[] maxSpent;
            Output[] minReceived;
            FillInstruction[] fillInstructions;
        }

        /// Where orders are opened.
        #[derive(Debug, PartialEq, Eq)]
        interface OriginSettler {
            event Open(bytes32 indexed orderId, ResolvedCrossChainOrder resolvedOrder);
        }
    }
}
