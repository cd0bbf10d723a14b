// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

/// @notice A Uniswap V4 pool, as in v4-core. The zero address as `currency0` is the native token.
struct PoolKey {
    address currency0;
    address currency1;
    uint24 fee;
    int24 tickSpacing;
    address hooks;
}

/// @notice Parameters of the pool manager's swap, as in v4-core; a negative amount is an exact input.
struct SwapParams {
    bool zeroForOne;
    int256 amountSpecified;
    uint160 sqrtPriceLimitX96;
}

/// @title A hook that lets nobody swap before a time that is fixed at deployment. Liquidity comes and goes at any time.
/// @notice Permissions in its address: beforeSwap (0x0080).
contract OpeningHook {
    error NotTheManager();
    error NotOpenUntil(uint256 time);

    /// @notice The pool manager, the only caller of the hook.
    address public immutable manager;
    /// @notice First second in which pools of this hook trade, since the Unix epoch.
    uint256 public immutable opensAt;

    constructor(address manager_, uint256 opensAt_) {
        manager = manager_;
        opensAt = opensAt_;
    }

    function beforeSwap(address, PoolKey calldata, SwapParams calldata, bytes calldata)
        external
        view
        returns (bytes4, int256, uint24)
    {
        if (msg.sender != manager) revert NotTheManager();
        if (block.timestamp < opensAt) revert NotOpenUntil(opensAt);
        return (this.beforeSwap.selector, 0, 0);
    }
}
