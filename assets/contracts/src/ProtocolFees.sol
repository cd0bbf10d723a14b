// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

interface IToken {
    function balanceOf(address owner) external view returns (uint256);
    function transfer(address to, uint256 amount) external returns (bool);
    function transferFrom(address from, address to, uint256 amount) external returns (bool);
}

interface IPool {
    function setFeeProtocol(uint8 feeProtocol0, uint8 feeProtocol1) external;
    function collectProtocol(address recipient, uint128 amount0Requested, uint128 amount1Requested)
        external
        returns (uint128 amount0, uint128 amount1);
}

/// @dev Tokens that return nothing are paid as well.
function pay(address token, address to, uint256 amount) {
    (bool sent, bytes memory answer) = token.call(abi.encodeCall(IToken.transfer, (to, amount)));
    require(sent && (answer.length == 0 || abi.decode(answer, (bool))), "not paid");
}

/// @title The devnet's stand-in for Uniswap's TokenJar: collects fees, which only the releaser lets out.
/// @notice Written to the published interface; not Uniswap's code.
contract TokenJar {
    error Unauthorized();

    address public owner;
    /// @notice The contract that may release.
    address public releaser;

    constructor(address owner_) {
        owner = owner_;
    }

    receive() external payable {}

    function setReleaser(address releaser_) external {
        if (msg.sender != owner) revert Unauthorized();
        releaser = releaser_;
    }

    /// @notice Sends the whole balance of each asset; the zero address is the native token.
    function release(address[] calldata assets, address recipient) external {
        if (msg.sender != releaser) revert Unauthorized();
        for (uint256 at = 0; at < assets.length; ++at) {
            address asset = assets[at];
            if (asset == address(0)) {
                (bool sent,) = recipient.call{value: address(this).balance}("");
                require(sent, "not paid");
            } else {
                uint256 balance = IToken(asset).balanceOf(address(this));
                if (balance != 0) pay(asset, recipient, balance);
            }
        }
    }
}

/// @title The devnet's stand-in for Uniswap's Firepit: whoever burns the threshold gets the assets of the jar that it names.
/// @notice Written to the published interface; not Uniswap's code.
contract Firepit {
    error InvalidNonce();
    error TooManyAssets();
    error Unauthorized();

    event Released(uint256 indexed nonce, address indexed recipient, address[] assets);

    uint256 public constant MAX_RELEASE_LENGTH = 20;
    address public constant RESOURCE_RECIPIENT = address(0xdead);
    address public immutable RESOURCE;
    address public immutable TOKEN_JAR;

    address public thresholdSetter;
    /// @notice Amount of the resource that a release costs, in raw units.
    uint256 public threshold;
    /// @notice Number of the next release.
    uint256 public nonce;

    constructor(address resource, uint256 threshold_, address tokenJar, address thresholdSetter_) {
        RESOURCE = resource;
        threshold = threshold_;
        TOKEN_JAR = tokenJar;
        thresholdSetter = thresholdSetter_;
    }

    function setThreshold(uint256 threshold_) external {
        if (msg.sender != thresholdSetter) revert Unauthorized();
        threshold = threshold_;
    }

    function release(uint256 nonce_, address[] calldata assets, address recipient) external {
        if (nonce_ != nonce) revert InvalidNonce();
        if (assets.length > MAX_RELEASE_LENGTH) revert TooManyAssets();
        ++nonce;
        require(IToken(RESOURCE).transferFrom(msg.sender, RESOURCE_RECIPIENT, threshold), "not paid");
        TokenJar(payable(TOKEN_JAR)).release(assets, recipient);
        emit Released(nonce_, recipient, assets);
    }
}

/// @title The devnet's stand-in for Uniswap's V3FeeAdapter: owns the V3 factory, and collects protocol fees into the jar.
/// @notice Written to the part of the published interface that collects and that sets one pool's fee; not Uniswap's code.
contract V3FeeAdapter {
    error Unauthorized();

    struct CollectParams {
        address pool;
        uint128 amount0Requested;
        uint128 amount1Requested;
    }

    struct Collected {
        uint128 amount0Collected;
        uint128 amount1Collected;
    }

    address public immutable FACTORY;
    address public immutable TOKEN_JAR;
    address public feeSetter;

    constructor(address factory, address tokenJar, address feeSetter_) {
        FACTORY = factory;
        TOKEN_JAR = tokenJar;
        feeSetter = feeSetter_;
    }

    /// @notice Sets the part of a pool's fees that goes to the protocol: for currency 0 in the lower four bits, for currency 1
    /// in the upper ones, as the divisor.
    function overridePoolFee(address pool, uint8 feeOverride) external {
        if (msg.sender != feeSetter) revert Unauthorized();
        IPool(pool).setFeeProtocol(feeOverride % 16, feeOverride >> 4);
    }

    /// @notice Collects the protocol's fees of pools into the jar; anybody may.
    function collect(CollectParams[] calldata collectParams) external returns (Collected[] memory amountsCollected) {
        amountsCollected = new Collected[](collectParams.length);
        for (uint256 at = 0; at < collectParams.length; ++at) {
            CollectParams calldata one = collectParams[at];
            (uint128 amount0, uint128 amount1) =
                IPool(one.pool).collectProtocol(TOKEN_JAR, one.amount0Requested, one.amount1Requested);
            amountsCollected[at] = Collected(amount0, amount1);
        }
    }
}
