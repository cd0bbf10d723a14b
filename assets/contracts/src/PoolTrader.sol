// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

/// @notice A Uniswap V4 pool. The zero address as `currency0` is the native token.
struct PoolKey {
    address currency0;
    address currency1;
    uint24 fee;
    int24 tickSpacing;
    address hooks;
}

/// @notice Parameters of the pool manager's swap; a negative amount is an exact input.
struct SwapParams {
    bool zeroForOne;
    int256 amountSpecified;
    uint160 sqrtPriceLimitX96;
}

/// @notice The part of the published interface of Uniswap V4's pool manager that these contracts call. A balance delta
/// has the amount of currency 0 in its upper 128 bits and that of currency 1 in its lower ones.
interface IPoolManager {
    function unlock(bytes calldata data) external returns (bytes memory);
    function swap(PoolKey calldata key, SwapParams calldata params, bytes calldata hookData)
        external
        returns (int256 delta);
    function sync(address currency) external;
    function settle() external payable returns (uint256 paid);
    function take(address currency, address to, uint256 amount) external;
}

interface IToken {
    function transferFrom(address from, address to, uint256 amount) external returns (bool);
}

/// @title Swaps in V4 pools up to a price.
/// @notice For the devnet's market, as the Universal Router has no price limit. The caller approves its tokens to this
/// contract and sends native tokens with the call; what is left of them goes back.
contract PoolTrader {
    /// @notice A swap of at most `amountIn` that ends at the price limit and gives at least `leastOut`.
    struct Trade {
        PoolKey key;
        bool zeroForOne;
        uint128 amountIn;
        uint160 sqrtPriceLimitX96;
        uint128 leastOut;
    }

    error NotTheManager();
    error TooLittle(uint256 received, uint256 least);
    error NotPaid();

    IPoolManager public immutable manager;

    constructor(IPoolManager manager_) {
        manager = manager_;
    }

    receive() external payable {}

    function trade(Trade[] calldata trades) external payable {
        manager.unlock(abi.encode(msg.sender, trades));
        uint256 left = address(this).balance;
        if (left != 0) {
            (bool paid,) = msg.sender.call{value: left}("");
            if (!paid) revert NotPaid();
        }
    }

    function unlockCallback(bytes calldata data) external returns (bytes memory) {
        if (msg.sender != address(manager)) revert NotTheManager();
        (address payer, Trade[] memory trades) = abi.decode(data, (address, Trade[]));
        for (uint256 at = 0; at < trades.length; ++at) {
            Trade memory one = trades[at];
            SwapParams memory params =
                SwapParams(one.zeroForOne, -int256(uint256(one.amountIn)), one.sqrtPriceLimitX96);
            int256 delta = manager.swap(one.key, params, "");
            int128 delta0 = int128(delta >> 128);
            int128 delta1 = int128(delta);
            _settle(one.key.currency0, delta0, payer);
            _settle(one.key.currency1, delta1, payer);
            int128 received = one.zeroForOne ? delta1 : delta0;
            if (received < int128(one.leastOut)) revert TooLittle(uint256(int256(received)), one.leastOut);
        }
        return "";
    }

    function _settle(address currency, int128 delta, address payer) private {
        if (delta > 0) {
            manager.take(currency, payer, uint128(delta));
        } else if (delta < 0) {
            uint256 owed = uint256(-int256(delta));
            if (currency == address(0)) {
                manager.settle{value: owed}();
            } else {
                manager.sync(currency);
                if (!IToken(currency).transferFrom(payer, address(manager), owed)) revert NotPaid();
                manager.settle();
            }
        }
    }
}

/// @title A hook that counts the swaps of each pool, and changes nothing.
/// @notice Its address must have the flag of `afterSwap` only.
contract SwapCountHook {
    error NotTheManager();

    address public immutable manager;
    mapping(bytes32 poolId => uint256) public swaps;

    constructor(address manager_) {
        manager = manager_;
    }

    function afterSwap(address, PoolKey calldata key, SwapParams calldata, int256, bytes calldata)
        external
        returns (bytes4, int128)
    {
        if (msg.sender != manager) revert NotTheManager();
        ++swaps[keccak256(abi.encode(key))];
        return (this.afterSwap.selector, 0);
    }
}

/// @title A hook that takes two percent of every output for itself: its pool's price promises more than a swap gives.
/// @notice Its address must have the flags of `afterSwap` and of its returned delta only.
contract SwapTaxHook {
    error NotTheManager();

    /// @notice Parts of a hundred that the hook takes.
    uint256 public constant TAX = 2;

    IPoolManager public immutable manager;

    constructor(IPoolManager manager_) {
        manager = manager_;
    }

    receive() external payable {}

    function afterSwap(address, PoolKey calldata key, SwapParams calldata params, int256 delta, bytes calldata)
        external
        returns (bytes4, int128)
    {
        if (msg.sender != address(manager)) revert NotTheManager();
        bool unspecifiedIs1 = (params.amountSpecified < 0) == params.zeroForOne;
        int128 amount = unspecifiedIs1 ? int128(delta) : int128(delta >> 128);
        uint256 size = uint256(int256(amount < 0 ? -amount : amount));
        uint256 taken = size * TAX / 100;
        if (taken == 0) return (this.afterSwap.selector, 0);
        manager.take(unspecifiedIs1 ? key.currency1 : key.currency0, address(this), taken);
        return (this.afterSwap.selector, int128(int256(taken)));
    }
}
