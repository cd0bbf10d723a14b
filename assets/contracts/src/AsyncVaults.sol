// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Metadata} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Metadata.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

/// @dev Parameters of a vault, in the form of Lagoon's factory. Fees and the whitelist have to be off here.
struct InitStruct {
    address underlying;
    string name;
    string symbol;
    address safe;
    address whitelistManager;
    address valuationManager;
    address admin;
    address feeReceiver;
    uint16 managementRate;
    uint16 performanceRate;
    bool enableWhitelist;
    uint256 rateUpdateCooldown;
}

/// @title Keeps what is requested until it is settled or cancelled.
contract AsyncVaultSilo {
    constructor(IERC20 asset) {
        SafeERC20.forceApprove(asset, msg.sender, type(uint256).max);
    }
}

/// @title The devnet's stand-in for Lagoon's asynchronous vault (ERC-7540): request, settlement by its manager, claim.
/// @notice Written to the published interface; not Lagoon's code. Without fees, whitelist, synchronous deposits, closing and
/// upgrades. The cap is that of the interface's version 0.6.0, all else is of 0.5.0.
contract AsyncVault is ERC20 {
    using SafeERC20 for IERC20;
    using Math for uint256;

    struct Roles {
        address whitelistManager;
        address feeReceiver;
        address safe;
        address feeRegistry;
        address valuationManager;
    }

    /// @dev Sums before a settlement, with the virtual ones of both; zero before it.
    struct Rate {
        uint256 assets;
        uint256 shares;
    }

    event DepositRequest(
        address indexed controller, address indexed owner, uint256 indexed requestId, address sender, uint256 assets
    );
    event DepositRequestCanceled(uint256 indexed requestId, address indexed controller);
    event RedeemRequest(
        address indexed controller, address indexed owner, uint256 indexed requestId, address sender, uint256 shares
    );
    event Deposit(address indexed sender, address indexed owner, uint256 assets, uint256 shares);
    event Withdraw(
        address indexed sender, address indexed receiver, address indexed owner, uint256 assets, uint256 shares
    );
    event NewTotalAssetsUpdated(uint256 totalAssets);
    event TotalAssetsUpdated(uint256 totalAssets);
    event SettleDeposit(
        uint40 indexed epochId,
        uint40 indexed settledId,
        uint256 totalAssets,
        uint256 totalSupply,
        uint256 assetsDeposited,
        uint256 sharesMinted
    );
    event SettleRedeem(
        uint40 indexed epochId,
        uint40 indexed settledId,
        uint256 totalAssets,
        uint256 totalSupply,
        uint256 assetsWithdrawed,
        uint256 sharesBurned
    );
    event Paused(address account);
    event Unpaused(address account);
    event MaxCapUpdated(uint256 previousMaxCap, uint256 maxCap);
    event OperatorSet(address indexed controller, address indexed operator, bool approved);

    error CantDepositNativeToken();
    error ERC7540InvalidOperator();
    error ERC7540PreviewDepositDisabled();
    error ERC7540PreviewRedeemDisabled();
    error EnforcedPause();
    error ExpectedPause();
    error MaxCapReached();
    error NewTotalAssetsMissing();
    error OnlyOneRequestAllowed();
    error OnlySafe(address safe);
    error OnlyValuationManager(address valuationManager);
    error OwnableUnauthorizedAccount(address account);
    error RequestIdNotClaimable();
    error RequestNotCancelable(uint256 requestId);
    error Unsupported();
    error WrongNewTotalAssets();

    uint256 private constant NONE = type(uint256).max;

    address public immutable asset;
    address public immutable owner;
    address public immutable safe;
    address private immutable feeReceiver;
    address private immutable valuationManager;
    address private immutable silo;
    /// @dev Virtual shares, which also make up the difference in decimals: shares have eighteen.
    uint256 private immutable virtualShares;

    bool public paused;
    uint256 public totalAssets;
    uint256 public maxCap = type(uint256).max;
    uint256 private newTotalAssets = NONE;

    /// @dev Requests of an epoch share one settlement. A valuation ends an epoch that has requests. Deposits have odd ids.
    uint40 private depositEpochId = 1;
    uint40 private redeemEpochId = 2;
    uint256 private openAssets;
    uint256 private closedAssets;
    uint256 private openShares;
    uint256 private closedShares;
    mapping(uint256 epoch => mapping(address controller => uint256)) private requested;
    mapping(uint256 epoch => uint256 settlement) private settlementOf;
    mapping(uint256 settlement => Rate) private rates;
    uint256 private depositSettleId = 1;
    uint256 private redeemSettleId = 2;
    mapping(address controller => uint40) private lastDeposit;
    mapping(address controller => uint40) private lastRedeem;
    mapping(address controller => mapping(address operator => bool)) public isOperator;

    constructor(InitStruct memory init) ERC20(init.name, init.symbol) {
        if (init.managementRate != 0 || init.performanceRate != 0 || init.enableWhitelist) revert Unsupported();
        silo = address(new AsyncVaultSilo(IERC20(init.underlying)));
        asset = init.underlying;
        owner = init.admin;
        safe = init.safe;
        feeReceiver = init.feeReceiver;
        valuationManager = init.valuationManager;
        virtualShares = 10 ** (18 - IERC20Metadata(init.underlying).decimals());
    }

    modifier whenNotPaused() {
        if (paused) revert EnforcedPause();
        _;
    }

    modifier onlyOwner() {
        if (msg.sender != owner) revert OwnableUnauthorizedAccount(msg.sender);
        _;
    }

    modifier onlySafe() {
        if (msg.sender != safe) revert OnlySafe(safe);
        _;
    }

    // --- what anybody may ask ---

    function share() external view returns (address) {
        return address(this);
    }

    function version() external pure returns (string memory) {
        return "v0.5.0";
    }

    function getRolesStorage() external view returns (Roles memory) {
        return Roles(address(0), feeReceiver, safe, address(0), valuationManager);
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0xce3bbe50 || id == 0x620ee8e4 || id == 0xe3bc4e65 || id == 0x2f0a18c5;
    }

    function convertToShares(uint256 assets) public view returns (uint256) {
        return assets.mulDiv(totalSupply() + virtualShares, totalAssets + 1);
    }

    function convertToAssets(uint256 shares) public view returns (uint256) {
        return shares.mulDiv(totalAssets + 1, totalSupply() + virtualShares);
    }

    function previewDeposit(uint256) external pure returns (uint256) {
        revert ERC7540PreviewDepositDisabled();
    }

    function previewRedeem(uint256) external pure returns (uint256) {
        revert ERC7540PreviewRedeemDisabled();
    }

    /// @notice Requests that are not settled yet; the id 0 stands for the controller's last one.
    function pendingDepositRequest(uint256 requestId, address controller) public view returns (uint256) {
        uint256 epoch = requestId == 0 ? lastDeposit[controller] : requestId;
        return isSettled(epoch) ? 0 : requested[epoch][controller];
    }

    function claimableDepositRequest(uint256 requestId, address controller) public view returns (uint256) {
        uint256 epoch = requestId == 0 ? lastDeposit[controller] : requestId;
        return isSettled(epoch) ? requested[epoch][controller] : 0;
    }

    function pendingRedeemRequest(uint256 requestId, address controller) public view returns (uint256) {
        uint256 epoch = requestId == 0 ? lastRedeem[controller] : requestId;
        return isSettled(epoch) ? 0 : requested[epoch][controller];
    }

    function claimableRedeemRequest(uint256 requestId, address controller) public view returns (uint256) {
        uint256 epoch = requestId == 0 ? lastRedeem[controller] : requestId;
        return isSettled(epoch) ? requested[epoch][controller] : 0;
    }

    function maxDeposit(address controller) external view returns (uint256) {
        return paused ? 0 : claimableDepositRequest(0, controller);
    }

    function maxRedeem(address controller) external view returns (uint256) {
        return paused ? 0 : claimableRedeemRequest(0, controller);
    }

    function isSettled(uint256 epoch) private view returns (bool) {
        return rates[settlementOf[epoch]].shares != 0;
    }

    // --- what a depositor does ---

    function setOperator(address operator, bool approved) external returns (bool) {
        isOperator[msg.sender][operator] = approved;
        emit OperatorSet(msg.sender, operator, approved);
        return true;
    }

    function requestDeposit(uint256 assets, address controller, address owner_)
        external
        payable
        whenNotPaused
        returns (uint256)
    {
        if (msg.value != 0) revert CantDepositNativeToken();
        onlyFor(owner_);
        // What is settled already is claimed first, so that a controller has one request.
        uint256 claimable = claimableDepositRequest(0, controller);
        if (claimable != 0) claimShares(claimable, controller, controller);
        if (lastDeposit[controller] != depositEpochId && pendingDepositRequest(0, controller) != 0) {
            revert OnlyOneRequestAllowed();
        }
        openAssets += assets;
        if (maxCap - Math.min(maxCap, totalAssets + closedAssets) < openAssets) revert MaxCapReached();
        lastDeposit[controller] = depositEpochId;
        requested[depositEpochId][controller] += assets;
        IERC20(asset).safeTransferFrom(owner_, silo, assets);
        emit DepositRequest(controller, owner_, depositEpochId, msg.sender, assets);
        return depositEpochId;
    }

    /// @notice Takes a request back that no valuation has reached yet.
    function cancelRequestDeposit() external whenNotPaused {
        uint256 epoch = lastDeposit[msg.sender];
        if (epoch != depositEpochId) revert RequestNotCancelable(epoch);
        uint256 assets = requested[epoch][msg.sender];
        requested[epoch][msg.sender] = 0;
        openAssets -= assets;
        IERC20(asset).safeTransferFrom(silo, msg.sender, assets);
        emit DepositRequestCanceled(epoch, msg.sender);
    }

    function deposit(uint256 assets, address receiver) external whenNotPaused returns (uint256) {
        return claimShares(assets, receiver, msg.sender);
    }

    function deposit(uint256 assets, address receiver, address controller) external whenNotPaused returns (uint256) {
        onlyFor(controller);
        return claimShares(assets, receiver, controller);
    }

    function requestRedeem(uint256 shares, address controller, address owner_)
        external
        whenNotPaused
        returns (uint256)
    {
        if (owner_ != msg.sender && !isOperator[owner_][msg.sender]) _spendAllowance(owner_, msg.sender, shares);
        uint256 claimable = claimableRedeemRequest(0, controller);
        if (claimable != 0) claimAssets(claimable, controller, controller);
        if (lastRedeem[controller] != redeemEpochId && pendingRedeemRequest(0, controller) != 0) {
            revert OnlyOneRequestAllowed();
        }
        openShares += shares;
        lastRedeem[controller] = redeemEpochId;
        requested[redeemEpochId][controller] += shares;
        _transfer(owner_, silo, shares);
        emit RedeemRequest(controller, owner_, redeemEpochId, msg.sender, shares);
        return redeemEpochId;
    }

    function redeem(uint256 shares, address receiver, address controller) external whenNotPaused returns (uint256) {
        onlyFor(controller);
        return claimAssets(shares, receiver, controller);
    }

    function onlyFor(address controller) private view {
        if (controller != msg.sender && !isOperator[controller][msg.sender]) revert ERC7540InvalidOperator();
    }

    function claimShares(uint256 assets, address receiver, address controller) private returns (uint256 shares) {
        Rate memory rate = taken(lastDeposit[controller], controller, assets);
        shares = assets.mulDiv(rate.shares, rate.assets);
        _transfer(address(this), receiver, shares);
        emit Deposit(controller, receiver, assets, shares);
    }

    function claimAssets(uint256 shares, address receiver, address controller) private returns (uint256 assets) {
        Rate memory rate = taken(lastRedeem[controller], controller, shares);
        assets = shares.mulDiv(rate.assets, rate.shares);
        IERC20(asset).safeTransfer(receiver, assets);
        emit Withdraw(msg.sender, receiver, controller, assets, shares);
    }

    function taken(uint256 epoch, address controller, uint256 amount) private returns (Rate memory rate) {
        rate = rates[settlementOf[epoch]];
        if (rate.shares == 0) revert RequestIdNotClaimable();
        requested[epoch][controller] -= amount;
    }

    // --- what the manager does ---

    function updateNewTotalAssets(uint256 newTotalAssets_) external whenNotPaused {
        if (msg.sender != valuationManager) revert OnlyValuationManager(valuationManager);
        if (openAssets != 0) {
            settlementOf[depositEpochId] = depositSettleId;
            depositEpochId += 2;
            closedAssets += openAssets;
            openAssets = 0;
        }
        if (openShares != 0) {
            settlementOf[redeemEpochId] = redeemSettleId;
            redeemEpochId += 2;
            closedShares += openShares;
            openShares = 0;
        }
        newTotalAssets = newTotalAssets_;
        emit NewTotalAssetsUpdated(newTotalAssets_);
    }

    function settleDeposit(uint256 newTotalAssets_) external onlySafe whenNotPaused {
        valued(newTotalAssets_);
        uint256 assets = closedAssets;
        if (assets != 0) {
            uint256 shares = convertToShares(assets);
            rates[depositSettleId] = Rate(totalAssets + 1, totalSupply() + virtualShares);
            depositSettleId += 2;
            closedAssets = 0;
            totalAssets += assets;
            _mint(address(this), shares);
            IERC20(asset).safeTransferFrom(silo, safe, assets);
            uint40 settled = depositEpochId - 2;
            emit SettleDeposit(settled, uint40(depositSettleId - 2), totalAssets, totalSupply(), assets, shares);
        }
        settleRedeems();
    }

    function settleRedeem(uint256 newTotalAssets_) external onlySafe whenNotPaused {
        valued(newTotalAssets_);
        settleRedeems();
    }

    function pause() external onlyOwner whenNotPaused {
        paused = true;
        emit Paused(msg.sender);
    }

    function unpause() external onlyOwner {
        if (!paused) revert ExpectedPause();
        paused = false;
        emit Unpaused(msg.sender);
    }

    function updateMaxCap(uint256 maxCap_) external onlyOwner {
        emit MaxCapUpdated(maxCap, maxCap_);
        maxCap = maxCap_;
    }

    function valued(uint256 newTotalAssets_) private {
        if (newTotalAssets == NONE) revert NewTotalAssetsMissing();
        if (newTotalAssets != newTotalAssets_) revert WrongNewTotalAssets();
        newTotalAssets = NONE;
        totalAssets = newTotalAssets_;
        emit TotalAssetsUpdated(newTotalAssets_);
    }

    /// @dev Withdrawals that the Safe cannot pay wait for another settlement.
    function settleRedeems() private {
        uint256 shares = closedShares;
        if (shares == 0) return;
        uint256 assets = convertToAssets(shares);
        if (IERC20(asset).balanceOf(safe) < assets) return;
        rates[redeemSettleId] = Rate(totalAssets + 1, totalSupply() + virtualShares);
        redeemSettleId += 2;
        closedShares = 0;
        totalAssets -= assets;
        _burn(silo, shares);
        IERC20(asset).safeTransferFrom(safe, address(this), assets);
        uint40 settled = redeemEpochId - 2;
        emit SettleRedeem(settled, uint40(redeemSettleId - 2), totalAssets, totalSupply(), assets, shares);
    }
}

/// @title The devnet's stand-in for Lagoon's factory: deploys {AsyncVault}.
/// @notice Written to the published interface; not Lagoon's code.
contract AsyncVaultFactory {
    event ProxyDeployed(address proxy, address deployer);

    error Unsupported();

    mapping(address vault => bool) public isInstance;

    /// @notice There is one logic, without a proxy: `logic` must be zero, and owner and delay of the proxy do nothing.
    function createVaultProxy(address logic, address, uint256, InitStruct calldata init, bytes32 salt)
        external
        returns (address vault)
    {
        if (logic != address(0)) revert Unsupported();
        vault = address(new AsyncVault{salt: keccak256(abi.encode(msg.sender, salt))}(init));
        isInstance[vault] = true;
        emit ProxyDeployed(vault, msg.sender);
    }
}
