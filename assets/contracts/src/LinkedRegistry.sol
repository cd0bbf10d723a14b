// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

import {OwnableUpgradeable} from "@openzeppelin/contracts-upgradeable/access/OwnableUpgradeable.sol";
import {UUPSUpgradeable} from "@openzeppelin/contracts-upgradeable/proxy/utils/UUPSUpgradeable.sol";

interface IAgents {
    function ownerOf(uint256 agentId) external view returns (address);
    function getApproved(uint256 agentId) external view returns (address);
    function isApprovedForAll(address owner, address operator) external view returns (bool);
}

/// Common part of the ERC-8004 registries that build on an identity registry.
abstract contract LinkedRegistry is OwnableUpgradeable, UUPSUpgradeable {
    IAgents private agents;

    /// Initialises a proxy. The caller becomes the owner, who may upgrade it.
    function initialize(address identityRegistry_) external initializer {
        require(identityRegistry_ != address(0), "the identity registry is the zero address");
        __Ownable_init(msg.sender);
        agents = IAgents(identityRegistry_);
    }

    function getIdentityRegistry() external view returns (address) {
        return address(agents);
    }

    function getVersion() external pure returns (string memory) {
        return "2.0.0";
    }

    /// Whether the caller is the agent's owner or an operator of it. An unknown agent reverts with the identity
    /// registry's error.
    function _controls(uint256 agentId) internal view returns (bool) {
        address holder = agents.ownerOf(agentId);
        return msg.sender == holder || agents.isApprovedForAll(holder, msg.sender)
            || agents.getApproved(agentId) == msg.sender;
    }

    function _authorizeUpgrade(address) internal override onlyOwner {}
}
