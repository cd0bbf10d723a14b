//! UniswapX, <https://github.com/Uniswap/UniswapX>: orders as signed (EIP-712), orders in the reactors' encoding (with
//! the cosigner's data), the reactors and the quoter.

alloy::sol! {
    /// Common fields of all orders: reactor, swapper, Permit2 nonce, deadline and an optional validation contract.
    #[derive(Debug, PartialEq, Eq)]
    struct OrderInfo {
        address reactor;
        address swapper;
        uint256 nonce;
        uint256 deadline;
        address additionalValidationContract;
        bytes additionalValidationData;
    }

    /// Input with an amount that rises over time.
    #[derive(Debug, PartialEq, Eq)]
    struct DutchInput {
        address token;
        uint256 startAmount;
        uint256 endAmount;
    }

    /// Output with an amount that falls over time; the zero address is the native token.
    #[derive(Debug, PartialEq, Eq)]
    struct DutchOutput {
        address token;
        uint256 startAmount;
        uint256 endAmount;
        address recipient;
    }

    /// Dutch order of the first version, as signed.
    #[derive(Debug, PartialEq, Eq)]
    struct ExclusiveDutchOrder {
        OrderInfo info;
        uint256 decayStartTime;
        uint256 decayEndTime;
        address exclusiveFiller;
        uint256 exclusivityOverrideBps;
        address inputToken;
        uint256 inputStartAmount;
        uint256 inputEndAmount;
        DutchOutput[] outputs;
    }

    /// Dutch order of the first version, in the reactor's encoding.
    #[derive(Debug, PartialEq, Eq)]
    struct EncodedExclusiveDutchOrder {
        OrderInfo info;
        uint256 decayStartTime;
        uint256 decayEndTime;
        address exclusiveFiller;
        uint256 exclusivityOverrideBps;
        DutchInput input;
        DutchOutput[] outputs;
    }

    /// V2 Dutch order, as signed.
    #[derive(Debug, PartialEq, Eq)]
    struct V2DutchOrder {
        OrderInfo info;
        address cosigner;
        address baseInputToken;
        uint256 baseInputStartAmount;
        uint256 baseInputEndAmount;
        DutchOutput[] baseOutputs;
    }

    /// Cosigner's data of a V2 Dutch order; an amount of zero overrides nothing.
    #[derive(Debug, PartialEq, Eq, Default)]
    struct V2CosignerData {
        uint256 decayStartTime;
        uint256 decayEndTime;
        address exclusiveFiller;
        uint256 exclusivityOverrideBps;
        uint256 inputAmount;
        uint256[] outputAmounts;
    }

    /// V2 Dutch order, in the reactor's encoding.
    #[derive(Debug, PartialEq, Eq)]
    struct EncodedV2DutchOrder {
        OrderInfo info;
        address cosigner;
        DutchInput baseInput;
        DutchOutput[] baseOutputs;
        V2CosignerData cosignerData;
        bytes cosignature;
    }

    /// Points of a decay curve: up to 16 block distances of 16 bits each, the first in the lowest bits, and the
    /// reduction of the start amount at each.
    #[derive(Debug, PartialEq, Eq, Default)]
    struct NonlinearDutchDecay {
        uint256 relativeBlocks;
        int256[] relativeAmounts;
    }

    /// Input of a V3 Dutch order.
    #[derive(Debug, PartialEq, Eq)]
    struct V3DutchInput {
        address token;
        uint256 startAmount;
        NonlinearDutchDecay curve;
        uint256 maxAmount;
        uint256 adjustmentPerGweiBaseFee;
    }

    /// Output of a V3 Dutch order.
    #[derive(Debug, PartialEq, Eq)]
    struct V3DutchOutput {
        address token;
        uint256 startAmount;
        NonlinearDutchDecay curve;
        address recipient;
        uint256 minAmount;
        uint256 adjustmentPerGweiBaseFee;
    }

    /// V3 Dutch order, as signed.
    #[derive(Debug, PartialEq, Eq)]
    struct V3DutchOrder {
        OrderInfo info;
        address cosigner;
        uint256 startingBaseFee;
        V3DutchInput baseInput;
        V3DutchOutput[] baseOutputs;
    }

    /// Cosigner's data of a V3 Dutch order; an amount of zero overrides nothing.
    #[derive(Debug, PartialEq, Eq, Default)]
    struct V3CosignerData {
        uint256 decayStartBlock;
        address exclusiveFiller;
        uint256 exclusivityOverrideBps;
        uint256 inputAmount;
        uint256[] outputAmounts;
    }

    /// V3 Dutch order, in the reactor's encoding.
    #[derive(Debug, PartialEq, Eq)]
    struct EncodedV3DutchOrder {
        OrderInfo info;
        address cosigner;
        uint256 startingBaseFee;
        V3DutchInput baseInput;
        V3DutchOutput[] baseOutputs;
        V3CosignerData cosignerData;
        bytes cosignature;
    }

    /// Input of a Priority order, scaled in ten-millionths per wei of priority fee.
    #[derive(Debug, PartialEq, Eq)]
    struct PriorityInput {
        address token;
        uint256 amount;
        uint256 mpsPerPriorityFeeWei;
    }

    /// Output of a Priority order, scaled in ten-millionths per wei of priority fee.
    #[derive(Debug, PartialEq, Eq)]
    struct PriorityOutput {
        address token;
        uint256 amount;
        uint256 mpsPerPriorityFeeWei;
        address recipient;
    }

    /// Priority order, as signed.
    #[derive(Debug, PartialEq, Eq)]
    struct PriorityOrder {
        OrderInfo info;
        address cosigner;
        uint256 auctionStartBlock;
        uint256 baselinePriorityFeeWei;
        PriorityInput input;
        PriorityOutput[] outputs;
    }

    /// Cosigner's data of a Priority order: a block before the auction's own start from which it may be filled.
    #[derive(Debug, PartialEq, Eq, Default)]
    struct PriorityCosignerData {
        uint256 auctionTargetBlock;
    }

    /// Priority order, in the reactor's encoding.
    #[derive(Debug, PartialEq, Eq)]
    struct EncodedPriorityOrder {
        OrderInfo info;
        address cosigner;
        uint256 auctionStartBlock;
        uint256 baselinePriorityFeeWei;
        PriorityInput input;
        PriorityOutput[] outputs;
        PriorityCosignerData cosignerData;
        bytes cosignature;
    }

    /// Encoded order with the swapper's signature.
    #[derive(Debug, PartialEq, Eq)]
    struct SignedOrder {
        bytes order;
        bytes sig;
    }

    /// Input of an order at one point in time, and its maximum.
    #[derive(Debug, PartialEq, Eq)]
    struct InputToken {
        address token;
        uint256 amount;
        uint256 maxAmount;
    }

    /// Output of an order at one point in time.
    #[derive(Debug, PartialEq, Eq)]
    struct OutputToken {
        address token;
        uint256 amount;
        address recipient;
    }

    /// Order with its amounts at one point in time.
    #[derive(Debug, PartialEq, Eq)]
    struct ResolvedOrder {
        OrderInfo info;
        InputToken input;
        OutputToken[] outputs;
        bytes sig;
        bytes32 hash;
    }

    /// Contract that validates an order, takes the input from the swapper, calls the filler, and pays the outputs from
    /// the filler.
    #[derive(Debug, PartialEq, Eq)]
    interface Reactor {
        event Fill(bytes32 indexed orderHash, address indexed filler, address indexed swapper, uint256 nonce);

        function execute(SignedOrder order) external payable;
        function executeWithCallback(SignedOrder order, bytes callbackData) external payable;
        function executeBatch(SignedOrder[] orders) external payable;
        function executeBatchWithCallback(SignedOrder[] orders, bytes callbackData) external payable;
    }

    /// Contract that runs an order against its reactor and reverts it, to return its current amounts.
    #[derive(Debug, PartialEq, Eq)]
    interface OrderQuoter {
        function quote(bytes order, bytes sig) external returns (ResolvedOrder result);
    }
}
