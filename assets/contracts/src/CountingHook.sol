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

/// @title A hook that counts the swaps of each pool and changes nothing.
/// @notice Permissions in its address: afterSwap (0x0040).
contract CountingHook {
    error NotTheManager();

    /// @notice The pool manager, the only caller of the hook.
    address public immutable manager;
    /// @notice Swaps by pool id, the hash of the pool's encoded key.
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
