// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

import {OwnableUpgradeable} from "@openzeppelin/contracts-upgradeable/access/OwnableUpgradeable.sol";
import {UUPSUpgradeable} from "@openzeppelin/contracts-upgradeable/proxy/utils/UUPSUpgradeable.sol";
import {ERC721URIStorageUpgradeable} from
    "@openzeppelin/contracts-upgradeable/token/ERC721/extensions/ERC721URIStorageUpgradeable.sol";
import {EIP712Upgradeable} from "@openzeppelin/contracts-upgradeable/utils/cryptography/EIP712Upgradeable.sol";
import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ERC721Utils} from "@openzeppelin/contracts/token/ERC721/utils/ERC721Utils.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// Bardo's own implementation of the ERC-8004 identity registry, for the devnet. Functions, events and errors are
/// those of the published ABI.
///
/// An agent is an ERC-721 token. Its URI leads to its registration file. Metadata are arbitrary bytes by key, except
/// `agentWallet`, the address that the agent is paid at: only a signature of that wallet sets it, and every transfer
/// clears it, so that a new owner never inherits it.
contract IdentityRegistry is ERC721URIStorageUpgradeable, OwnableUpgradeable, UUPSUpgradeable, EIP712Upgradeable {
    struct MetadataEntry {
        string metadataKey;
        bytes metadataValue;
    }

    string private constant WALLET_KEY = "agentWallet";
    bytes32 private constant WALLET_TYPE_HASH =
        keccak256("AgentWalletSet(uint256 agentId,address newWallet,address owner,uint256 deadline)");
    /// Longest validity of a wallet's signature from now, in seconds.
    uint256 private constant MAX_DEADLINE_SECONDS = 300;

    /// Id of the next agent. As on the public networks, the first is 0.
    uint256 private nextAgentId;
    mapping(uint256 agentId => mapping(string metadataKey => bytes)) private metadataOf;

    event Registered(uint256 indexed agentId, string agentURI, address indexed owner);
    event MetadataSet(
        uint256 indexed agentId, string indexed indexedMetadataKey, string metadataKey, bytes metadataValue
    );
    event URIUpdated(uint256 indexed agentId, string newURI, address indexed updatedBy);

    /// The implementation itself stays unusable; only proxies are initialised.
    constructor() {
        _disableInitializers();
    }

    /// Initialises a proxy. The caller becomes the owner, who may upgrade it.
    function initialize() external initializer {
        __ERC721_init("AgentIdentity", "AGENT");
        __Ownable_init(msg.sender);
        __EIP712_init("ERC8004IdentityRegistry", "1");
    }

    // ---- registration ---------------------------------------------------------------------------

    function register() external returns (uint256 agentId) {
        return _register("", new MetadataEntry[](0));
    }

    function register(string memory agentURI) external returns (uint256 agentId) {
        return _register(agentURI, new MetadataEntry[](0));
    }

    function register(string memory agentURI, MetadataEntry[] memory metadata) external returns (uint256 agentId) {
        return _register(agentURI, metadata);
    }

    // ---- changes by the owner or an operator ----------------------------------------------------

    function setAgentURI(uint256 agentId, string calldata newURI) external {
        _requireControl(agentId);
        _setTokenURI(agentId, newURI);
        emit URIUpdated(agentId, newURI, msg.sender);
    }

    function setMetadata(uint256 agentId, string memory metadataKey, bytes memory metadataValue) external {
        _requireControl(agentId);
        _requireFreeKey(metadataKey);
        _store(agentId, metadataKey, metadataValue);
    }

    /// Makes `newWallet` the agent's wallet. It signs for the agent and its present owner: an account by EIP-712, a
    /// contract by ERC-1271, and a delegated account (EIP-7702) by either.
    function setAgentWallet(uint256 agentId, address newWallet, uint256 deadline, bytes calldata signature) external {
        address holder = _requireControl(agentId);
        require(newWallet != address(0), "the new wallet is the zero address");
        require(block.timestamp <= deadline, "the signature's deadline has passed");
        require(deadline <= block.timestamp + MAX_DEADLINE_SECONDS, "the signature's deadline is too far ahead");
        bytes32 digest =
            _hashTypedDataV4(keccak256(abi.encode(WALLET_TYPE_HASH, agentId, newWallet, holder, deadline)));
        require(_isSignedBy(newWallet, digest, signature), "the new wallet has not signed this change");
        _store(agentId, WALLET_KEY, abi.encodePacked(newWallet));
    }

    function unsetAgentWallet(uint256 agentId) external {
        _requireControl(agentId);
        _store(agentId, WALLET_KEY, "");
    }

    // ---- reads ----------------------------------------------------------------------------------

    /// Value of a metadata entry; empty if there is none.
    function getMetadata(uint256 agentId, string memory metadataKey) external view returns (bytes memory) {
        return metadataOf[agentId][metadataKey];
    }

    /// Wallet of an agent; the zero address after a transfer, until the new owner sets one.
    function getAgentWallet(uint256 agentId) external view returns (address) {
        _requireOwned(agentId);
        return address(bytes20(metadataOf[agentId][WALLET_KEY]));
    }

    function getVersion() external pure returns (string memory) {
        return "2.0.0";
    }

    // ---- inside ---------------------------------------------------------------------------------

    /// The receiver is asked last, when the agent is complete and all of its events are emitted: it may call back.
    function _register(string memory agentURI, MetadataEntry[] memory entries) private returns (uint256 agentId) {
        agentId = nextAgentId++;
        _mint(msg.sender, agentId);
        _store(agentId, WALLET_KEY, abi.encodePacked(msg.sender));
        if (bytes(agentURI).length != 0) _setTokenURI(agentId, agentURI);
        for (uint256 i; i < entries.length; ++i) {
            _requireFreeKey(entries[i].metadataKey);
            _store(agentId, entries[i].metadataKey, entries[i].metadataValue);
        }
        emit Registered(agentId, agentURI, msg.sender);
        ERC721Utils.checkOnERC721Received(msg.sender, address(0), msg.sender, agentId, "");
    }

    function _store(uint256 agentId, string memory metadataKey, bytes memory metadataValue) private {
        metadataOf[agentId][metadataKey] = metadataValue;
        emit MetadataSet(agentId, metadataKey, metadataKey, metadataValue);
    }

    /// Reverts unless the caller is the agent's owner or an operator of it; returns the owner.
    function _requireControl(uint256 agentId) private view returns (address holder) {
        holder = _requireOwned(agentId);
        require(_isAuthorized(holder, msg.sender, agentId), "the caller is neither the agent's owner nor an operator");
    }

    function _requireFreeKey(string memory metadataKey) private pure {
        require(
            keccak256(bytes(metadataKey)) != keccak256(bytes(WALLET_KEY)),
            "the metadata key agentWallet is reserved"
        );
    }

    function _isSignedBy(address wallet, bytes32 digest, bytes calldata signature) private view returns (bool) {
        if (wallet.code.length == 0) return ECDSA.recover(digest, signature) == wallet;
        (address signer, ECDSA.RecoverError problem,) = ECDSA.tryRecover(digest, signature);
        if (problem == ECDSA.RecoverError.NoError && signer == wallet) return true;
        bytes memory question = abi.encodeCall(IERC1271.isValidSignature, (digest, signature));
        (bool ok, bytes memory answer) = wallet.staticcall(question);
        return ok && answer.length >= 32 && bytes32(answer) == bytes32(IERC1271.isValidSignature.selector);
    }

    function _update(address to, uint256 agentId, address authorized) internal override returns (address from) {
        from = super._update(to, agentId, authorized);
        if (from != address(0) && from != to) _store(agentId, WALLET_KEY, "");
    }

    function _authorizeUpgrade(address) internal override onlyOwner {}
}
