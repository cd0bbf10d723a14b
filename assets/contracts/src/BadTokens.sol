// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

/// Bardo's own badly behaved ERC-20s for the devnet. Each keeps to the standard but for the one fault in its
/// name, so that a test that trips over it knows why. Minting is open to all; never deploy them for real use.

/// What the tokens below have in common: metadata given as bytes (so that it need not be valid UTF-8),
/// balances, allowances, open minting.
abstract contract Ledger {
    bytes private nameBytes;
    bytes private symbolBytes;
    uint8 public immutable decimals;
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    error InsufficientBalance(address owner, uint256 has, uint256 needs);
    error InsufficientAllowance(address owner, address spender, uint256 has, uint256 needs);

    constructor(bytes memory name_, bytes memory symbol_, uint8 decimals_) {
        nameBytes = name_;
        symbolBytes = symbol_;
        decimals = decimals_;
    }

    function name() external view returns (string memory) {
        return string(nameBytes);
    }

    function symbol() external view returns (string memory) {
        return string(symbolBytes);
    }

    function mint(address to, uint256 value) external {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function allow(address spender, uint256 value) internal {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
    }

    function spendAllowance(address from, uint256 value) internal {
        uint256 has = allowance[from][msg.sender];
        if (has < value) revert InsufficientAllowance(from, msg.sender, has, value);
        if (has != type(uint256).max) allowance[from][msg.sender] = has - value;
    }

    function take(address from, uint256 value) internal {
        uint256 has = balanceOf[from];
        if (has < value) revert InsufficientBalance(from, has, value);
        balanceOf[from] = has - value;
    }

    function move(address from, address to, uint256 value) internal {
        take(from, value);
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}

/// Every transfer delivers one percent less than was sent; the rest is burnt.
contract FeeOnTransferToken is Ledger {
    uint256 public constant feeBasisPoints = 100;

    constructor(bytes memory name_, bytes memory symbol_, uint8 decimals_) Ledger(name_, symbol_, decimals_) {}

    function approve(address spender, uint256 value) external returns (bool) {
        allow(spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        moveLessFee(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        spendAllowance(from, value);
        moveLessFee(from, to, value);
        return true;
    }

    function moveLessFee(address from, address to, uint256 value) private {
        uint256 fee = value * feeBasisPoints / 10_000;
        take(from, fee);
        totalSupply -= fee;
        emit Transfer(from, address(0), fee);
        move(from, to, value - fee);
    }
}

/// `transfer`, `transferFrom` and `approve` return nothing, and an allowance can only be set from or to zero.
contract NoReturnToken is Ledger {
    error AllowanceNotZero(uint256 has);

    constructor(bytes memory name_, bytes memory symbol_, uint8 decimals_) Ledger(name_, symbol_, decimals_) {}

    function approve(address spender, uint256 value) external {
        uint256 has = allowance[msg.sender][spender];
        if (value != 0 && has != 0) revert AllowanceNotZero(has);
        allow(spender, value);
    }

    function transfer(address to, uint256 value) external {
        move(msg.sender, to, value);
    }

    function transferFrom(address from, address to, uint256 value) external {
        spendAllowance(from, value);
        move(from, to, value);
    }
}

/// Behaves well; what it is called does not. Name and symbol are raw bytes: escape codes, bidi marks, broken UTF-8.
contract HostileSymbolToken is Ledger {
    constructor(bytes memory name_, bytes memory symbol_, uint8 decimals_) Ledger(name_, symbol_, decimals_) {}

    function approve(address spender, uint256 value) external returns (bool) {
        allow(spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        spendAllowance(from, value);
        move(from, to, value);
        return true;
    }
}

/// Can be minted and approved, but no transfer ever succeeds.
contract RevertingToken is Ledger {
    constructor(bytes memory name_, bytes memory symbol_, uint8 decimals_) Ledger(name_, symbol_, decimals_) {}

    function approve(address spender, uint256 value) external returns (bool) {
        allow(spender, value);
        return true;
    }

    function transfer(address, uint256) external pure returns (bool) {
        revert("transfers are closed");
    }

    function transferFrom(address, address, uint256) external pure returns (bool) {
        revert("transfers are closed");
    }
}
