//! UniswapX, <https://github.com/Uniswap/UniswapX>: orders as signed (EIP-712), orders as a reactor takes
//! them (with what a cosigner added), the reactors and the quoter.

alloy::sol! {
    /// What every order has: its reactor, whose it is, a Permit2 nonce, a deadline and an optional check of its own.
    #[derive(Debug, PartialEq, Eq)]
    struct OrderInfo {
        address reactor;
        address swapper;
        uint256 nonce;
        uint256 deadline;
        address additionalValidationContract;
        bytes additionalValidationData;
    }

    /// An input whose amount rises over time.
    #[derive(Debug, PartialEq, Eq)]
    struct DutchInput {
        address token;
        uint256 startAmount;
        uint256 endAmount;
    }

    /// An output whose amount falls over time; the token zero is the native coin.
    #[derive(Debug, PartialEq, Eq)]
    struct DutchOutput {
        address token;
        uint256 startAmount;
        uint256 endAmount;
        address recipient;
    }

    /// The first Dutch order, as signed.
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

    /// The first Dutch order, as its reactor takes it.
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

    /// A V2 Dutch order, as signed.
    #[derive(Debug, PartialEq, Eq)]
    struct V2DutchOrder {
        OrderInfo info;
        address cosigner;
        address baseInputToken;
        uint256 baseInputStartAmount;
        uint256 baseInputEndAmount;
        DutchOutput[] baseOutputs;
    }

    /// What the cosigner of a V2 Dutch order adds; amounts of zero override nothing.
    #[derive(Debug, PartialEq, Eq, Default)]
    struct V2CosignerData {
        uint256 decayStartTime;
        uint256 decayEndTime;
        address exclusiveFiller;
        uint256 exclusivityOverrideBps;
        uint256 inputAmount;
        uint256[] outputAmounts;
    }

    /// A V2 Dutch order, as its reactor takes it.
    #[derive(Debug, PartialEq, Eq)]
    struct EncodedV2DutchOrder {
        OrderInfo info;
        address cosigner;
        DutchInput baseInput;
        DutchOutput[] baseOutputs;
        V2CosignerData cosignerData;
        bytes cosignature;
    }

    /// Points of a decay curve: up to 16 block distances of 16 bits each, the first in the lowest bits, and how
    /// much is taken off the start amount at each.
    #[derive(Debug, PartialEq, Eq, Default)]
    struct NonlinearDutchDecay {
        uint256 relativeBlocks;
        int256[] relativeAmounts;
    }

    /// An input of a V3 Dutch order.
    #[derive(Debug, PartialEq, Eq)]
    struct V3DutchInput {
        address token;
        uint256 startAmount;
        NonlinearDutchDecay curve;
        uint256 maxAmount;
        uint256 adjustmentPerGweiBaseFee;
    }

    /// An output of a V3 Dutch order.
    #[derive(Debug, PartialEq, Eq)]
    struct V3DutchOutput {
        address token;
        uint256 startAmount;
        NonlinearDutchDecay curve;
        address recipient;
        uint256 minAmount;
        uint256 adjustmentPerGweiBaseFee;
    }

    /// A V3 Dutch order, as signed.
    #[derive(Debug, PartialEq, Eq)]
    struct V3DutchOrder {
        OrderInfo info;
        address cosigner;
        uint256 startingBaseFee;
        V3DutchInput baseInput;
        V3DutchOutput[] baseOutputs;
    }

    /// What the cosigner of a V3 Dutch order adds; amounts of zero override nothing.
    #[derive(Debug, PartialEq, Eq, Default)]
    struct V3CosignerData {
        uint256 decayStartBlock;
        address exclusiveFiller;
        uint256 exclusivityOverrideBps;
        uint256 inputAmount;
        uint256[] outputAmounts;
    }

    /// A V3 Dutch order, as its reactor takes it.
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

    /// An input of a Priority order; scaled by ten-millionths per wei of priority fee.
    #[derive(Debug, PartialEq, Eq)]
    struct PriorityInput {
        address token;
        uint256 amount;
        uint256 mpsPerPriorityFeeWei;
    }

    /// An output of a Priority order.
    #[derive(Debug, PartialEq, Eq)]
    struct PriorityOutput {
        address token;
        uint256 amount;
        uint256 mpsPerPriorityFeeWei;
        address recipient;
    }

    /// A Priority order, as signed.
    #[derive(Debug, PartialEq, Eq)]
    struct PriorityOrder {
        OrderInfo info;
        address cosigner;
        uint256 auctionStartBlock;
        uint256 baselinePriorityFeeWei;
        PriorityInput input;
        PriorityOutput[] outputs;
    }

    /// What the cosigner of a Priority order adds: a block before the auction's own from which it may fill.
    #[derive(Debug, PartialEq, Eq, Default)]
    struct PriorityCosignerData {
        uint256 auctionTargetBlock;
    }

    /// A Priority order, as its reactor takes it.
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

    /// An encoded order with the swapper's signature.
    #[derive(Debug, PartialEq, Eq)]
    struct SignedOrder {
        bytes order;
        bytes sig;
    }

    /// What an order takes at one moment, and the most it could.
    #[derive(Debug, PartialEq, Eq)]
    struct InputToken {
        address token;
        uint256 amount;
        uint256 maxAmount;
    }

    /// What an order pays at one moment.
    #[derive(Debug, PartialEq, Eq)]
    struct OutputToken {
        address token;
        uint256 amount;
        address recipient;
    }

    /// An order at one moment.
    #[derive(Debug, PartialEq, Eq)]
    struct ResolvedOrder {
        OrderInfo info;
        InputToken input;
        OutputToken[] outputs;
        bytes sig;
        bytes32 hash;
    }

    /// A reactor: checks an order, takes the input from the swapper, lets the filler act, pays the outputs from it.
    #[derive(Debug, PartialEq, Eq)]
    interface Reactor {
        event Fill(bytes32 indexed orderHash, address indexed filler, address indexed swapper, uint256 nonce);

        function execute(SignedOrder order) external payable;
        function executeWithCallback(SignedOrder order, bytes callbackData) external payable;
        function executeBatch(SignedOrder[] orders) external payable;
        function executeBatchWithCallback(SignedOrder[] orders, bytes callbackData) external payable;
    }

    /// Runs an order against its reactor and reverts it, to say what it would take and pay.
    #[derive(Debug, PartialEq, Eq)]
    interface OrderQuoter {
        function quote(bytes order, bytes sig) external returns (ResolvedOrder result);
    }
}
