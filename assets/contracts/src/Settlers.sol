// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

// Bardo's own settlers for cross-chain intents after ERC-7683 (structs of January 2025), with Across's order data.
// No messages pass between the devnet's chains, so the origin believes one attester about fills on a destination.
// They are for rehearsal: never deploy them for real use.

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

struct OnchainCrossChainOrder {
    uint32 fillDeadline;
    bytes32 orderDataType;
    bytes orderData;
}

struct Output {
    bytes32 token;
    uint256 amount;
    bytes32 recipient;
    uint256 chainId;
}

struct FillInstruction {
    uint256 destinationChainId;
    bytes32 destinationSettler;
    bytes originData;
}

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

struct TokenPermissions {
    address token;
    uint256 amount;
}

struct PermitTransferFrom {
    TokenPermissions permitted;
    uint256 nonce;
    uint256 deadline;
}

struct SignatureTransferDetails {
    address to;
    uint256 requestedAmount;
}

interface IPermit2 {
    function permitWitnessTransferFrom(
        PermitTransferFrom calldata permit,
        SignatureTransferDetails calldata transferDetails,
        address owner,
        bytes32 witness,
        string calldata witnessTypeString,
        bytes calldata signature
    ) external;
}

interface IToken {
    function balanceOf(address owner) external view returns (uint256);
}

/// What both settlers need of tokens: transfers that move exactly what was asked, or nothing.
abstract contract Mover {
    uint256 private entered;

    error Reentered();
    error NotMoved();
    error NotExact();

    modifier alone() {
        if (entered != 0) revert Reentered();
        entered = 1;
        _;
        entered = 0;
    }

    function balance(address token, address owner) internal view returns (uint256) {
        return IToken(token).balanceOf(owner);
    }

    function pull(address token, address from, address to, uint256 amount) internal {
        move(token, abi.encodeWithSignature("transferFrom(address,address,uint256)", from, to, amount));
    }

    function push(address token, address to, uint256 amount) internal {
        move(token, abi.encodeWithSignature("transfer(address,uint256)", to, amount));
    }

    /// Tokens that answer nothing are believed; those that answer false, or are none, are not.
    function move(address token, bytes memory call) private {
        (bool success, bytes memory answer) = token.call(call);
        if (!success) revert NotMoved();
        bool agreed = answer.length == 0 ? token.code.length != 0 : abi.decode(answer, (bool));
        if (!agreed) revert NotMoved();
    }
}

/// The origin: takes the input when an order is opened, and gives it to whoever filled, or back after the deadline.
contract OriginSettler is Mover {
    enum Status {
        None,
        Open,
        Repaid,
        Refunded
    }

    struct Deposit {
        address user;
        uint32 fillDeadline;
        Status status;
        address token;
        uint256 amount;
    }

    bytes private constant DATA_TYPE =
        "AcrossOrderData(address inputToken,uint256 inputAmount,address outputToken,uint256 outputAmount,uint256 destinationChainId,bytes32 recipient,address exclusiveRelayer,uint256 depositNonce,uint32 exclusivityPeriod,bytes message)";
    bytes private constant ORDER_TYPE =
        "GaslessCrossChainOrder(address originSettler,address user,uint256 nonce,uint256 originChainId,uint32 openDeadline,uint32 fillDeadline,bytes32 orderDataType,AcrossOrderData orderData)";
    bytes32 private constant DATA_TYPE_HASH = keccak256(DATA_TYPE);
    bytes32 private constant ORDER_TYPE_HASH = keccak256(abi.encodePacked(ORDER_TYPE, DATA_TYPE));

    IPermit2 public immutable permit2;
    /// Says where each destination's settler is, once.
    address public immutable owner;
    /// Says which orders were filled.
    address public immutable attester;
    /// How long after the fill deadline a refund must wait, so that a fill in the last second can still be reported.
    uint32 public immutable refundDelay;

    mapping(uint256 chainId => bytes32) public destinationSettler;
    mapping(bytes32 orderId => Deposit) public deposits;

    event Open(bytes32 indexed orderId, ResolvedCrossChainOrder resolvedOrder);
    event Repaid(bytes32 indexed orderId, address indexed repaidTo, address token, uint256 amount);
    event Refunded(bytes32 indexed orderId, address indexed user, address token, uint256 amount);

    error WrongSettler();
    error WrongChain();
    error UnknownOrderType();
    error UnknownDestination();
    error DestinationIsSet();
    error Unsupported();
    error ZeroAmount();
    error InvalidRecipient();
    error OpenDeadlinePassed();
    error FillDeadlinePassed();
    error AlreadyOpened();
    error NotOpen();
    error NotAttester();
    error NotOwner();
    error TooEarly();

    constructor(address permit2_, address owner_, address attester_, uint32 refundDelay_) {
        permit2 = IPermit2(permit2_);
        owner = owner_;
        attester = attester_;
        refundDelay = refundDelay_;
    }

    function setDestination(uint256 chainId, bytes32 settler) external {
        if (msg.sender != owner) revert NotOwner();
        if (destinationSettler[chainId] != 0 || settler == 0) revert DestinationIsSet();
        destinationSettler[chainId] = settler;
    }

    function openFor(GaslessCrossChainOrder calldata order, bytes calldata signature, bytes calldata) external alone {
        AcrossOrderData memory data = check(order);
        ResolvedCrossChainOrder memory resolved = describeFor(order, data);
        keep(resolved, data);
        uint256 before = balance(data.inputToken, address(this));
        permit2.permitWitnessTransferFrom(
            PermitTransferFrom({
                permitted: TokenPermissions({token: data.inputToken, amount: data.inputAmount}),
                nonce: order.nonce,
                deadline: order.openDeadline
            }),
            SignatureTransferDetails({to: address(this), requestedAmount: data.inputAmount}),
            order.user,
            witness(order, data),
            string(
                abi.encodePacked(
                    "GaslessCrossChainOrder witness)",
                    DATA_TYPE,
                    ORDER_TYPE,
                    "TokenPermissions(address token,uint256 amount)"
                )
            ),
            signature
        );
        if (balance(data.inputToken, address(this)) != before + data.inputAmount) revert NotExact();
        emit Open(resolved.orderId, resolved);
    }

    function open(OnchainCrossChainOrder calldata order) external alone {
        AcrossOrderData memory data = read(order.orderDataType, order.orderData, order.fillDeadline);
        ResolvedCrossChainOrder memory resolved = describeOpen(msg.sender, order, data);
        keep(resolved, data);
        uint256 before = balance(data.inputToken, address(this));
        pull(data.inputToken, msg.sender, address(this), data.inputAmount);
        if (balance(data.inputToken, address(this)) != before + data.inputAmount) revert NotExact();
        emit Open(resolved.orderId, resolved);
    }

    function resolveFor(GaslessCrossChainOrder calldata order, bytes calldata)
        external
        view
        returns (ResolvedCrossChainOrder memory)
    {
        return describeFor(order, check(order));
    }

    /// For an order that the caller would open.
    function resolve(OnchainCrossChainOrder calldata order) external view returns (ResolvedCrossChainOrder memory) {
        AcrossOrderData memory data = read(order.orderDataType, order.orderData, order.fillDeadline);
        return describeOpen(msg.sender, order, data);
    }

    /// The input of a filled order, to whom the fill said.
    function repay(bytes32 orderId, address repayTo) external alone {
        if (msg.sender != attester) revert NotAttester();
        if (repayTo == address(0)) revert InvalidRecipient();
        Deposit storage deposit = deposits[orderId];
        if (deposit.status != Status.Open) revert NotOpen();
        deposit.status = Status.Repaid;
        push(deposit.token, repayTo, deposit.amount);
        emit Repaid(orderId, repayTo, deposit.token, deposit.amount);
    }

    /// The input of an order that nobody filled, to its user; anybody may ask.
    function refund(bytes32 orderId) external alone {
        Deposit storage deposit = deposits[orderId];
        if (deposit.status != Status.Open) revert NotOpen();
        if (block.timestamp <= uint256(deposit.fillDeadline) + refundDelay) revert TooEarly();
        deposit.status = Status.Refunded;
        push(deposit.token, deposit.user, deposit.amount);
        emit Refunded(orderId, deposit.user, deposit.token, deposit.amount);
    }

    function check(GaslessCrossChainOrder calldata order) private view returns (AcrossOrderData memory) {
        if (order.originSettler != address(this)) revert WrongSettler();
        if (order.originChainId != block.chainid) revert WrongChain();
        if (order.openDeadline < block.timestamp) revert OpenDeadlinePassed();
        return read(order.orderDataType, order.orderData, order.fillDeadline);
    }

    function read(bytes32 orderDataType, bytes calldata orderData, uint32 fillDeadline)
        private
        view
        returns (AcrossOrderData memory data)
    {
        if (orderDataType != DATA_TYPE_HASH) revert UnknownOrderType();
        if (fillDeadline <= block.timestamp) revert FillDeadlinePassed();
        data = abi.decode(orderData, (AcrossOrderData));
        if (destinationSettler[data.destinationChainId] == 0) revert UnknownDestination();
        if (data.exclusiveRelayer != address(0) || data.exclusivityPeriod != 0 || data.message.length != 0) {
            revert Unsupported();
        }
        if (data.inputAmount == 0 || data.outputAmount == 0) revert ZeroAmount();
        if (data.recipient == 0 || uint256(data.recipient) > type(uint160).max) revert InvalidRecipient();
    }

    function keep(ResolvedCrossChainOrder memory resolved, AcrossOrderData memory data) private {
        Deposit storage deposit = deposits[resolved.orderId];
        if (deposit.status != Status.None) revert AlreadyOpened();
        deposit.user = resolved.user;
        deposit.fillDeadline = resolved.fillDeadline;
        deposit.status = Status.Open;
        deposit.token = data.inputToken;
        deposit.amount = data.inputAmount;
    }

    function describeFor(GaslessCrossChainOrder calldata order, AcrossOrderData memory data)
        private
        view
        returns (ResolvedCrossChainOrder memory)
    {
        uint256 depositId = uint256(keccak256(abi.encode(order.user, order.nonce)));
        return describe(order.user, order.openDeadline, order.fillDeadline, depositId, data);
    }

    function describeOpen(address user, OnchainCrossChainOrder calldata order, AcrossOrderData memory data)
        private
        view
        returns (ResolvedCrossChainOrder memory)
    {
        uint256 depositId = uint256(keccak256(abi.encode(user, data.depositNonce, true)));
        return describe(user, type(uint32).max, order.fillDeadline, depositId, data);
    }

    function describe(
        address user,
        uint32 openDeadline,
        uint32 fillDeadline,
        uint256 depositId,
        AcrossOrderData memory data
    ) private view returns (ResolvedCrossChainOrder memory order) {
        RelayData memory relay = RelayData({
            depositor: word(user),
            recipient: data.recipient,
            exclusiveRelayer: 0,
            inputToken: word(data.inputToken),
            outputToken: word(data.outputToken),
            inputAmount: data.inputAmount,
            outputAmount: data.outputAmount,
            originChainId: block.chainid,
            depositId: depositId,
            fillDeadline: fillDeadline,
            exclusivityDeadline: 0,
            message: ""
        });
        order.user = user;
        order.originChainId = block.chainid;
        order.openDeadline = openDeadline;
        order.fillDeadline = fillDeadline;
        order.orderId = keccak256(abi.encode(relay, data.destinationChainId));
        order.maxSpent = new Output[](1);
        order.maxSpent[0] = Output({
            token: relay.outputToken,
            amount: data.outputAmount,
            recipient: data.recipient,
            chainId: data.destinationChainId
        });
        order.minReceived = new Output[](1);
        order.minReceived[0] =
            Output({token: relay.inputToken, amount: data.inputAmount, recipient: 0, chainId: block.chainid});
        order.fillInstructions = new FillInstruction[](1);
        order.fillInstructions[0] = FillInstruction({
            destinationChainId: data.destinationChainId,
            destinationSettler: destinationSettler[data.destinationChainId],
            originData: abi.encode(relay)
        });
    }

    function witness(GaslessCrossChainOrder calldata order, AcrossOrderData memory data)
        private
        pure
        returns (bytes32)
    {
        bytes32 dataHash = keccak256(
            abi.encode(
                DATA_TYPE_HASH,
                data.inputToken,
                data.inputAmount,
                data.outputToken,
                data.outputAmount,
                data.destinationChainId,
                data.recipient,
                data.exclusiveRelayer,
                data.depositNonce,
                data.exclusivityPeriod,
                keccak256(data.message)
            )
        );
        return keccak256(
            abi.encode(
                ORDER_TYPE_HASH,
                order.originSettler,
                order.user,
                order.nonce,
                order.originChainId,
                order.openDeadline,
                order.fillDeadline,
                order.orderDataType,
                dataHash
            )
        );
    }

    function word(address value) private pure returns (bytes32) {
        return bytes32(uint256(uint160(value)));
    }
}

/// The destination: passes the output from a filler to the recipient, once for each order and in time.
contract DestinationSettler is Mover {
    /// To whom the origin owes the input of a filled order.
    mapping(bytes32 orderId => address) public filledFor;

    event Filled(
        bytes32 indexed orderId,
        address indexed filler,
        address indexed recipient,
        address repayTo,
        address token,
        uint256 amount,
        uint256 originChainId
    );

    error WrongOrder();
    error Unsupported();
    error FillDeadlinePassed();
    error AlreadyFilled();
    error InvalidRecipient();

    /// `fillerData` is empty, or the address to repay on the origin.
    function fill(bytes32 orderId, bytes calldata originData, bytes calldata fillerData) external alone {
        RelayData memory relay = abi.decode(originData, (RelayData));
        if (keccak256(abi.encode(relay, block.chainid)) != orderId) revert WrongOrder();
        if (relay.exclusiveRelayer != 0 || relay.exclusivityDeadline != 0 || relay.message.length != 0) {
            revert Unsupported();
        }
        if (block.timestamp > relay.fillDeadline) revert FillDeadlinePassed();
        if (filledFor[orderId] != address(0)) revert AlreadyFilled();
        address repayTo = fillerData.length == 0 ? msg.sender : abi.decode(fillerData, (address));
        if (repayTo == address(0) || uint256(relay.recipient) > type(uint160).max) revert InvalidRecipient();
        filledFor[orderId] = repayTo;
        address recipient = address(uint160(uint256(relay.recipient)));
        address token = address(uint160(uint256(relay.outputToken)));
        uint256 before = balance(token, recipient);
        pull(token, msg.sender, recipient, relay.outputAmount);
        if (balance(token, recipient) != before + relay.outputAmount) revert NotExact();
        emit Filled(
            orderId, msg.sender, recipient, repayTo, token, relay.outputAmount, relay.originChainId
        );
    }
}
