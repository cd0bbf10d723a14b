// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ERC4626} from "@openzeppelin/contracts/token/ERC20/extensions/ERC4626.sol";

/// A vault as OpenZeppelin's ERC-4626 makes it: shares of all that it holds of one token. For the devnet and for tests.
contract PlainVault is ERC4626 {
    constructor(IERC20 asset_, string memory name_, string memory symbol_) ERC20(name_, symbol_) ERC4626(asset_) {}
}

/// A vault that keeps a part of every deposit for a collector without saying so in its previews. For tests.
contract HiddenFeeVault is PlainVault {
    address private immutable collector;
    uint256 private immutable basisPoints;

    constructor(IERC20 asset_, address collector_, uint256 basisPoints_) PlainVault(asset_, "Hidden fee vault", "hfV") {
        collector = collector_;
        basisPoints = basisPoints_;
    }

    function _deposit(address caller, address receiver, uint256 assets, uint256 shares) internal override {
        uint256 fee = (shares * basisPoints) / 10_000;
        super._deposit(caller, receiver, assets, shares - fee);
        _mint(collector, fee);
    }
}

/// A vault that promises withdrawals in its views and refuses each of them. For tests.
contract LockedVault is PlainVault {
    error WithdrawalsLocked();

    constructor(IERC20 asset_) PlainVault(asset_, "Locked vault", "lkV") {}

    function _withdraw(address, address, address, uint256, uint256) internal view override {
        if (totalSupply() != 0) revert WithdrawalsLocked();
    }
}

/// A vault whose view of a share's worth is ten times what it pays. For tests.
contract LyingVault is PlainVault {
    constructor(IERC20 asset_) PlainVault(asset_, "Lying vault", "lyV") {}

    function convertToAssets(uint256 shares) public view override returns (uint256) {
        return super.convertToAssets(shares) * 10;
    }
}

/// A vault that takes deposits up to a limit. For tests.
contract CappedVault is PlainVault {
    uint256 private immutable cap;

    constructor(IERC20 asset_, uint256 cap_) PlainVault(asset_, "Capped vault", "cpV") {
        cap = cap_;
    }

    function maxDeposit(address) public view override returns (uint256) {
        uint256 held = totalAssets();
        return held < cap ? cap - held : 0;
    }
}

/// A vault that anybody can tell to cheat while its views stay as they are. For tests.
contract StingyVault is PlainVault {
    /// 0: honest; 1: a redemption pays one unit; 2: it pays nothing; 3: it pays all that the vault has, if the call has no gas
    /// price, as in a simulation; 4: a deposit makes shares and takes nothing.
    uint8 public mode;

    constructor(IERC20 asset_) PlainVault(asset_, "Stingy vault", "stV") {}

    function set(uint8 mode_) external {
        mode = mode_;
    }

    function _deposit(address caller, address receiver, uint256 assets, uint256 shares) internal override {
        if (mode == 4) _mint(receiver, shares);
        else super._deposit(caller, receiver, assets, shares);
    }

    function _withdraw(address caller, address receiver, address owner, uint256 assets, uint256 shares) internal override {
        if (mode == 1) assets = 1;
        if (mode == 2) assets = 0;
        if (mode == 3 && tx.gasprice == 0) assets = totalAssets();
        super._withdraw(caller, receiver, owner, assets, shares);
    }
}
