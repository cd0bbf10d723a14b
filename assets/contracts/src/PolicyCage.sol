// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

interface IToken {
    function balanceOf(address owner) external view returns (uint256);
    function decimals() external view returns (uint8);
}

interface IPriceFeed {
    function decimals() external view returns (uint8);
    function latestRoundData() external view returns (uint80, int256 answer, uint256, uint256 updatedAt, uint80);
}

/// Bardo's own. What an owner allows an agent to do with the owner's account, kept on chain and changed by
/// the owner alone.
///
/// As a caveat enforcer of the delegation framework it judges each execution of a delegate: which contract
/// and function may be called, who may be approved, and, by the balances before and after, what may leave
/// in one transaction and in a day, how much of an asset may be held, how much value an execution may
/// lose, how often it may happen, and how far the account may fall below its highest value. It counts
/// balances and not transfers, so that it does not matter by which way a token left.
///
/// An account that has set no rules allows nothing. Anything that cannot be told, such as a stale price,
/// refuses. It is not upgradeable and has no administrator.
contract PolicyCage {
    /// An asset that may be held. Amounts in raw units; type(uint128).max stands for no bound.
    struct AssetRule {
        address token; // the zero address is the chain's coin
        address feed; // dollars per whole token, Chainlink's AggregatorV3Interface
        bool exit; // what a fallen account may still move into
        uint128 maxPerTransaction;
        uint128 maxPerDay;
        uint128 maxPosition;
    }

    /// A function that may be called. The zero selector stands for calls without data, which are plain sends of
    /// the coin; with the zero address as their target, they may go to anybody.
    struct CallRule {
        address target;
        bytes4 selector;
    }

    struct Rules {
        AssetRule[] assets;
        CallRule[] calls;
        address[] spenders; // who may be approved
        uint16 maxDrawdownBps; // below the highest value seen, only exits
        uint16 maxLossBps; // value that may be lost of what leaves
        uint32 minInterval; // seconds between two executions that are not exits
        uint32 maxPriceAge; // seconds
    }

    struct Standing {
        uint256 highest; // highest value seen, in dollars with 18 decimals
        uint64 lastAction; // when something last left that was not an exit
    }

    struct Snapshot {
        bool open;
        bytes32 execution;
        uint256[] balances;
        uint256[] prices;
    }

    uint256 private constant BPS = 10_000;
    /// A day is the bucket of now and the six before it: 24 to 28 hours, never less than a day.
    uint256 private constant BUCKET = 4 hours;
    uint256 private constant BUCKETS = 7;

    bytes4 private constant APPROVE = 0x095ea7b3; // approve(address,uint256)
    bytes4 private constant PERMIT2_APPROVE = 0x87517c45; // approve(address,address,uint160,uint48)

    /// The only caller of the hooks.
    address public immutable manager;

    mapping(address owner => Rules) private rules;
    mapping(address owner => bool) public configured;
    mapping(address owner => Standing) public standing;
    mapping(address owner => mapping(address token => mapping(uint256 bucket => uint256))) private left;
    mapping(address owner => Snapshot) private snapshots;

    event Configured(address indexed owner, bytes32 rulesHash);
    event Cleared(address indexed owner);
    event HighestReset(address indexed owner);

    error NotManager(address sender);
    error NoRules(address owner);
    error BadRules(string what);
    error OnlySingleCalls();
    error CallNotAllowed(address target, bytes4 selector);
    error SpenderNotAllowed(address spender);
    error AssetNotAllowed(address token);
    error OverPerTransaction(address token, uint256 amount, uint256 limit);
    error OverPerDay(address token, uint256 amount, uint256 limit);
    error OverPosition(address token, uint256 amount, uint256 limit);
    error LossTooLarge(uint256 valueOut, uint256 valueIn, uint256 maxLossBps);
    error DrawdownReached(uint256 value, uint256 floor);
    error TooSoon(uint256 nextAt);
    error PriceUnusable(address feed);
    error Nested();

    constructor(address manager_) {
        manager = manager_;
    }

    modifier onlyManager() {
        if (msg.sender != manager) revert NotManager(msg.sender);
        _;
    }

    // ---- the owner ------------------------------------------------------------------------------

    /// Sets all rules of the caller's account. A delegate cannot: no execution may call this contract. A rule of
    /// the zero address and the zero selector allows plain sends to anybody except this contract, the manager and
    /// the account itself.
    function configure(Rules calldata set) external {
        if (set.assets.length == 0 || set.assets.length > 32) revert BadRules("1 to 32 assets");
        if (set.maxDrawdownBps > BPS || set.maxLossBps > BPS) revert BadRules("more than 10000 bps");
        if (set.maxPriceAge == 0) revert BadRules("maxPriceAge is zero");
        for (uint256 i; i < set.assets.length; ++i) {
            if (set.assets[i].feed == address(0)) revert BadRules("an asset without a feed");
            for (uint256 j; j < i; ++j) {
                if (set.assets[i].token == set.assets[j].token) revert BadRules("an asset twice");
            }
        }
        for (uint256 i; i < set.calls.length; ++i) {
            address target = set.calls[i].target;
            if (target == address(this) || target == manager || target == msg.sender) {
                revert BadRules("a call of the cage, the manager or the account itself");
            }
        }
        if (snapshots[msg.sender].open) revert Nested();
        rules[msg.sender] = set;
        configured[msg.sender] = true;
        emit Configured(msg.sender, keccak256(abi.encode(set)));
    }

    /// Takes all rules away: nothing is allowed from then on.
    function clear() external {
        if (snapshots[msg.sender].open) revert Nested();
        delete rules[msg.sender];
        configured[msg.sender] = false;
        emit Cleared(msg.sender);
    }

    /// Forgets the highest value: the drawdown counts from the next execution on.
    function resetHighest() external {
        if (snapshots[msg.sender].open) revert Nested();
        standing[msg.sender].highest = 0;
        emit HighestReset(msg.sender);
    }

    // ---- to be read -----------------------------------------------------------------------------

    function rulesOf(address owner) external view returns (Rules memory) {
        if (!configured[owner]) revert NoRules(owner);
        return rules[owner];
    }

    /// What left within the last day, counted by buckets: up to four hours more than a day.
    function leftInDay(address owner, address token) public view returns (uint256 amount) {
        uint256 bucket = block.timestamp / BUCKET;
        for (uint256 i; i < BUCKETS && i <= bucket; ++i) {
            amount += left[owner][token][bucket - i];
        }
    }

    /// The account's value in dollars with 18 decimals, of its allowed assets.
    function valueOf(address owner) external view returns (uint256 value) {
        if (!configured[owner]) revert NoRules(owner);
        Rules storage set = rules[owner];
        for (uint256 i; i < set.assets.length; ++i) {
            value += _value(_balance(set.assets[i].token, owner), _price(set.assets[i], set.maxPriceAge));
        }
    }

    /// Reverts unless this call is one that the owner's rules allow, balances aside.
    function checkCall(address owner, address target, uint256 value, bytes calldata data) public view {
        if (!configured[owner]) revert NoRules(owner);
        Rules storage set = rules[owner];
        bool plain = data.length == 0;
        bytes4 selector = plain ? bytes4(0) : bytes4(data);
        // The zero selector stands for no data, never for a function of that name.
        if (!plain && (data.length < 4 || selector == bytes4(0))) revert CallNotAllowed(target, selector);
        if (target == address(this) || target == manager || target == owner) revert CallNotAllowed(target, selector);
        bool allowed;
        for (uint256 i; i < set.calls.length && !allowed; ++i) {
            address listed = set.calls[i].target;
            allowed = set.calls[i].selector == selector && (listed == target || (plain && listed == address(0)));
        }
        if (!allowed) revert CallNotAllowed(target, selector);
        if (value != 0) _asset(set, address(0));
        if (selector == APPROVE) {
            (address spender, uint256 amount) = abi.decode(data[4:], (address, uint256));
            _checkApproval(set, target, spender, amount);
        } else if (selector == PERMIT2_APPROVE) {
            (address token, address spender, uint160 amount,) =
                abi.decode(data[4:], (address, address, uint160, uint48));
            _checkApproval(set, token, spender, amount);
        }
    }

    // ---- the delegation manager's hooks ---------------------------------------------------------

    function beforeAllHook(bytes calldata, bytes calldata, bytes32, bytes calldata, bytes32, address, address) external {}

    function beforeHook(
        bytes calldata,
        bytes calldata,
        bytes32 mode,
        bytes calldata execution,
        bytes32,
        address owner,
        address
    ) external onlyManager {
        // ERC-7579: one call, and its failure undoes everything.
        if (mode != bytes32(0) || execution.length < 52) revert OnlySingleCalls();
        Snapshot storage taken = snapshots[owner];
        if (taken.open) revert Nested();
        checkCall(owner, address(bytes20(execution[:20])), uint256(bytes32(execution[20:52])), execution[52:]);

        Rules storage set = rules[owner];
        uint256 value;
        delete taken.balances;
        delete taken.prices;
        for (uint256 i; i < set.assets.length; ++i) {
            uint256 price = _price(set.assets[i], set.maxPriceAge);
            uint256 balance = _balance(set.assets[i].token, owner);
            value += _value(balance, price);
            taken.balances.push(balance);
            taken.prices.push(price);
        }
        taken.open = true;
        taken.execution = keccak256(execution);
        Standing storage stands = standing[owner];
        if (value > stands.highest) stands.highest = value;
    }

    function afterHook(
        bytes calldata,
        bytes calldata,
        bytes32,
        bytes calldata execution,
        bytes32,
        address owner,
        address
    ) external onlyManager {
        Snapshot storage taken = snapshots[owner];
        if (!taken.open || taken.execution != keccak256(execution)) revert Nested();
        taken.open = false;
        _judge(owner, taken);
    }

    function afterAllHook(bytes calldata, bytes calldata, bytes32, bytes calldata, bytes32, address, address) external {}

    // ---- inside ---------------------------------------------------------------------------------

    function _judge(address owner, Snapshot storage taken) private {
        Rules storage set = rules[owner];
        uint256 valueOut;
        uint256 valueIn;
        uint256 value;
        bool exits = true;
        for (uint256 i; i < set.assets.length; ++i) {
            AssetRule storage asset = set.assets[i];
            uint256 before = taken.balances[i];
            uint256 price = taken.prices[i];
            uint256 balance = _balance(asset.token, owner);
            value += _value(balance, price);
            if (balance < before) {
                uint256 out = before - balance;
                valueOut += _value(out, price);
                _spend(owner, asset, out);
            } else if (balance > before) {
                valueIn += _value(balance - before, price);
                if (!asset.exit) exits = false;
                if (balance > asset.maxPosition && asset.maxPosition != type(uint128).max) {
                    revert OverPosition(asset.token, balance, asset.maxPosition);
                }
            }
        }
        if (valueIn * BPS < valueOut * (BPS - set.maxLossBps)) {
            revert LossTooLarge(valueOut, valueIn, set.maxLossBps);
        }
        if (valueOut == 0) return;
        // Something left and only exit assets came: a fallen account may do that, and at any time. Nothing
        // coming in is no exit.
        if (exits && valueIn != 0) return;
        Standing storage stands = standing[owner];
        uint256 floor = stands.highest * (BPS - set.maxDrawdownBps) / BPS;
        if (value < floor) revert DrawdownReached(value, floor);
        uint256 nextAt = uint256(stands.lastAction) + set.minInterval;
        if (stands.lastAction != 0 && block.timestamp < nextAt) revert TooSoon(nextAt);
        stands.lastAction = uint64(block.timestamp);
    }

    function _spend(address owner, AssetRule storage asset, uint256 amount) private {
        if (amount > asset.maxPerTransaction && asset.maxPerTransaction != type(uint128).max) {
            revert OverPerTransaction(asset.token, amount, asset.maxPerTransaction);
        }
        left[owner][asset.token][block.timestamp / BUCKET] += amount;
        uint256 day = leftInDay(owner, asset.token);
        if (day > asset.maxPerDay && asset.maxPerDay != type(uint128).max) {
            revert OverPerDay(asset.token, day, asset.maxPerDay);
        }
    }

    /// An approval is at most what may leave in one transaction; taking one back is always allowed.
    function _checkApproval(Rules storage set, address token, address spender, uint256 amount) private view {
        if (amount == 0) return;
        AssetRule storage asset = _asset(set, token);
        if (amount > asset.maxPerTransaction) revert OverPerTransaction(token, amount, asset.maxPerTransaction);
        for (uint256 i; i < set.spenders.length; ++i) {
            if (set.spenders[i] == spender) return;
        }
        revert SpenderNotAllowed(spender);
    }

    function _asset(Rules storage set, address token) private view returns (AssetRule storage) {
        for (uint256 i; i < set.assets.length; ++i) {
            if (set.assets[i].token == token) return set.assets[i];
        }
        revert AssetNotAllowed(token);
    }

    function _balance(address token, address owner) private view returns (uint256) {
        return token == address(0) ? owner.balance : IToken(token).balanceOf(owner);
    }

    function _value(uint256 amount, uint256 price) private pure returns (uint256) {
        return amount * price / 1e18;
    }

    /// Dollars with 18 decimals for 1e18 raw units of the token.
    function _price(AssetRule storage asset, uint256 maxAge) private view returns (uint256) {
        (, int256 answer,, uint256 updatedAt,) = IPriceFeed(asset.feed).latestRoundData();
        if (answer <= 0 || updatedAt > block.timestamp || block.timestamp - updatedAt > maxAge) {
            revert PriceUnusable(asset.feed);
        }
        uint256 decimals = asset.token == address(0) ? 18 : IToken(asset.token).decimals();
        return uint256(answer) * 1e36 / 10 ** (IPriceFeed(asset.feed).decimals() + decimals);
    }
}
