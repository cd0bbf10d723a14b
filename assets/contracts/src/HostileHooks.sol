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

/// @notice Parameters of the pool manager's change of liquidity.
struct ModifyLiquidityParams {
    int24 tickLower;
    int24 tickUpper;
    int256 liquidityDelta;
    bytes32 salt;
}

/// @notice The part of the published interface of Uniswap V4's pool manager that the hooks call.
interface IPoolManager {
    function take(address currency, address to, uint256 amount) external;
}

/// @title A hook that lets liquidity in and never out.
/// @notice Its address must have the flag of `beforeRemoveLiquidity` only.
contract ExitLockHook {
    error NoWayOut();

    function beforeRemoveLiquidity(address, PoolKey calldata, ModifyLiquidityParams calldata, bytes calldata)
        external
        pure
        returns (bytes4)
    {
        revert NoWayOut();
    }
}

/// @title A hook that keeps five percent of every deposit of liquidity.
/// @notice Its address must have the flags of `afterAddLiquidity` and of its returned delta only.
contract DepositTaxHook {
    error NotTheManager();

    /// @notice Parts of a hundred that the hook keeps.
    uint256 public constant TAX = 5;

    IPoolManager public immutable manager;

    constructor(IPoolManager manager_) {
        manager = manager_;
    }

    receive() external payable {}

    function afterAddLiquidity(
        address,
        PoolKey calldata key,
        ModifyLiquidityParams calldata,
        int256 delta,
        int256,
        bytes calldata
    ) external returns (bytes4, int256) {
        if (msg.sender != address(manager)) revert NotTheManager();
        int256 kept0 = _keep(key.currency0, int128(delta >> 128));
        int256 kept1 = _keep(key.currency1, int128(delta));
        return (this.afterAddLiquidity.selector, (kept0 << 128) | kept1);
    }

    function _keep(address currency, int128 amount) private returns (int256 kept) {
        if (amount >= 0) return 0;
        uint256 taken = uint256(-int256(amount)) * TAX / 100;
        if (taken == 0) return 0;
        manager.take(currency, address(this), taken);
        return int256(taken);
    }
}

/// @title A hook that shows a fee of 0.05 % to whoever asks without paying for gas, and takes 20 % in a transaction that pays.
/// @notice Its address must have the flag of `beforeSwap` only, and its pool a fee that the hook sets.
contract FeeJumpHook {
    error NotTheManager();

    uint24 public constant SHOWN = 500;
    uint24 public constant TAKEN = 200_000;
    /// @notice Bit of a returned fee by which it holds instead of the pool's.
    uint24 private constant OVERRIDE = 0x400000;

    address public immutable manager;

    constructor(address manager_) {
        manager = manager_;
    }

    function beforeSwap(address, PoolKey calldata, SwapParams calldata, bytes calldata)
        external
        view
        returns (bytes4, int256, uint24)
    {
        if (msg.sender != manager) revert NotTheManager();
        return (this.beforeSwap.selector, 0, (tx.gasprice == 0 ? SHOWN : TAKEN) | OVERRIDE);
    }
}
