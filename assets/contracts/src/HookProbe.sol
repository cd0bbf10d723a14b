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

/// @notice The part of the published interface of Uniswap V4's pool manager that the probe calls. A balance delta has the
/// amount of currency 0 in its upper 128 bits and that of currency 1 in its lower ones.
interface IPoolManager {
    function unlock(bytes calldata data) external returns (bytes memory);
    function swap(PoolKey calldata key, SwapParams calldata params, bytes calldata hookData)
        external
        returns (int256 delta);
    function modifyLiquidity(PoolKey calldata key, ModifyLiquidityParams calldata params, bytes calldata hookData)
        external
        returns (int256 callerDelta, int256 feesAccrued);
}

/// @title A trial of a pool with its hook, that leaves nothing behind.
/// @notice Never deployed: it runs in simulations only. The pool manager settles at the end of an unlocking, so a trial that
/// reverts before the end needs no tokens. The manager wraps what a hook reverts with, so a hook cannot make up a result.
contract HookProbe {
    /// @notice What a trial showed, as balance deltas of the caller.
    error Shown(int256 first, int256 second);
    error NotTheManager();

    address private _manager;

    /// @notice Tries a swap. Returns the caller's delta, or what the swap reverted with.
    function trySwap(address manager, PoolKey calldata key, SwapParams calldata params)
        external
        returns (bool done, int256 delta, bytes memory reason)
    {
        (done, delta,, reason) = _try(manager, abi.encode(true, key, params));
    }

    /// @notice Tries to add liquidity, and with `exit` to remove it again. Returns the caller's deltas, or what reverted.
    function tryLiquidity(address manager, PoolKey calldata key, ModifyLiquidityParams calldata params, bool exit)
        external
        returns (bool done, int256 added, int256 removed, bytes memory reason)
    {
        return _try(manager, abi.encode(false, key, params, exit));
    }

    function unlockCallback(bytes calldata data) external returns (bytes memory) {
        if (msg.sender != _manager) revert NotTheManager();
        IPoolManager manager = IPoolManager(msg.sender);
        if (abi.decode(data, (bool))) {
            (, PoolKey memory key, SwapParams memory params) = abi.decode(data, (bool, PoolKey, SwapParams));
            revert Shown(manager.swap(key, params, ""), 0);
        }
        (, PoolKey memory pool, ModifyLiquidityParams memory change, bool exit) =
            abi.decode(data, (bool, PoolKey, ModifyLiquidityParams, bool));
        (int256 added,) = manager.modifyLiquidity(pool, change, "");
        int256 removed;
        if (exit) {
            change.liquidityDelta = -change.liquidityDelta;
            (removed,) = manager.modifyLiquidity(pool, change, "");
        }
        revert Shown(added, removed);
    }

    function _try(address manager, bytes memory data)
        private
        returns (bool done, int256 first, int256 second, bytes memory reason)
    {
        _manager = manager;
        try IPoolManager(manager).unlock(data) returns (bytes memory) {
            return (false, 0, 0, "");
        } catch (bytes memory thrown) {
            if (thrown.length != 68 || bytes4(thrown) != Shown.selector) return (false, 0, 0, thrown);
            assembly ("memory-safe") {
                first := mload(add(thrown, 36))
                second := mload(add(thrown, 68))
            }
            return (true, first, second, "");
        }
    }
}
