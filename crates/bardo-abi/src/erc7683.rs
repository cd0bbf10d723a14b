//! ERC-7683 in its first form (structs of January 2025), with Across's order data, and our own settlers. The draft has
//! since become a resolver design. Adopting it would change only this file and `intents`.
//!
//! Sources: <https://eips.ethereum.org/EIPS/eip-7683>; `AcrossOrderData` and its Permit2 witness as in Across's
//! `ERC7683Permit2Lib`.

alloy::sol! {
    /// Order that anyone may open with the user's signature.
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

    /// Amount of a token on a chain, with its recipient.
    #[derive(Debug, PartialEq, Eq)]
    struct Output {
        bytes32 token;
        uint256 amount;
        bytes32 recipient;
        uint256 chainId;
    }

    /// Instruction for the filler on a destination chain.
    #[derive(Debug, PartialEq, Eq)]
    struct FillInstruction {
        uint256 destinationChainId;
        bytes32 destinationSettler;
        bytes originData;
    }

    /// Resolved form of an order, which every filler can read.
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

    /// Across's order data: one token in exchange for another on another chain.
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

    /// Order data that the destination receives.
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

    /// Order data of another service, which is recognised but not used.
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

    /// Contract that opens orders on the origin chain. `Repaid`, `Refunded`, and the functions from `repay` on belong
    /// to our own settler.
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

    /// Contract that fills orders on the destination chain. `Filled` and `filledFor` belong to our own settler.
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

/// Order as the witness of a Permit2 transfer, with typed order data instead of bytes.
pub mod witness {
    alloy::sol! {
        /// Across's order data, typed.
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

        /// Order that anyone may open, with typed data.
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

/// Older form of the `Open` event, which some settlers still emit. The destination's chain id has 64 bits there, so the
/// event has another signature hash.
pub mod older {
    alloy::sol! {
        /// Amount of a token on a chain, with its recipient.
        #[derive(Debug, PartialEq, Eq)]
        struct Output {
            bytes32 token;
            uint256 amount;
            bytes32 recipient;
            uint256 chainId;
        }

        /// Instruction for the filler on a destination chain.
        #[derive(Debug, PartialEq, Eq)]
        struct FillInstruction {
            uint64 destinationChainId;
            bytes32 destinationSettler;
            bytes originData;
        }

        /// Resolved form of an order, which every filler can read.
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

        /// Contract that opens orders on the origin chain.
        #[derive(Debug, PartialEq, Eq)]
        interface OriginSettler {
            event Open(bytes32 indexed orderId, ResolvedCrossChainOrder resolvedOrder);
        }
    }
}
