// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

import {LinkedRegistry} from "./LinkedRegistry.sol";

/// Bardo's own implementation of the ERC-8004 validation registry, for the devnet. Functions, events and errors are
/// those of the published ABI.
///
/// An agent's owner or operator asks one validator to check its work; the validator alone responds, with 0 to 100, and
/// may respond again.
contract ValidationRegistry is LinkedRegistry {
    struct Validation {
        address validator; // the zero address where there is no request
        bool hasResponse;
        uint8 response;
        uint256 agentId;
        bytes32 responseHash;
        string tag;
        uint256 lastUpdate; // seconds; of the request until there is a response
    }

    uint8 private constant MAX_RESPONSE = 100;

    mapping(bytes32 requestHash => Validation) private validations;
    mapping(uint256 agentId => bytes32[]) private validationsOfAgent;
    mapping(address validator => bytes32[]) private requestsOfValidator;

    event ValidationRequest(
        address indexed validatorAddress, uint256 indexed agentId, string requestURI, bytes32 indexed requestHash
    );
    event ValidationResponse(
        address indexed validatorAddress,
        uint256 indexed agentId,
        bytes32 indexed requestHash,
        uint8 response,
        string responseURI,
        bytes32 responseHash,
        string tag
    );

    /// The implementation itself stays unusable; only proxies are initialised.
    constructor() {
        _disableInitializers();
    }

    function validationRequest(
        address validatorAddress,
        uint256 agentId,
        string calldata requestURI,
        bytes32 requestHash
    ) external {
        require(validatorAddress != address(0), "the validator is the zero address");
        require(_controls(agentId), "the caller is neither the agent's owner nor an operator");
        Validation storage validation = validations[requestHash];
        require(validation.validator == address(0), "the request exists already");
        validation.validator = validatorAddress;
        validation.agentId = agentId;
        validation.lastUpdate = block.timestamp;
        validationsOfAgent[agentId].push(requestHash);
        requestsOfValidator[validatorAddress].push(requestHash);
        emit ValidationRequest(validatorAddress, agentId, requestURI, requestHash);
    }

    function validationResponse(
        bytes32 requestHash,
        uint8 response,
        string calldata responseURI,
        bytes32 responseHash,
        string calldata tag
    ) external {
        Validation storage validation = _known(requestHash);
        require(msg.sender == validation.validator, "the caller is not the request's validator");
        require(response <= MAX_RESPONSE, "the response is above 100");
        validation.hasResponse = true;
        validation.response = response;
        validation.responseHash = responseHash;
        validation.tag = tag;
        validation.lastUpdate = block.timestamp;
        emit ValidationResponse(
            msg.sender, validation.agentId, requestHash, response, responseURI, responseHash, tag
        );
    }

    function getValidationStatus(bytes32 requestHash)
        external
        view
        returns (
            address validatorAddress,
            uint256 agentId,
            uint8 response,
            bytes32 responseHash,
            string memory tag,
            uint256 lastUpdate
        )
    {
        Validation storage validation = _known(requestHash);
        return (
            validation.validator,
            validation.agentId,
            validation.response,
            validation.responseHash,
            validation.tag,
            validation.lastUpdate
        );
    }

    /// Number and average, rounded down, of the responses about an agent. No validators stand for all validators, an
    /// empty tag for all tags.
    function getSummary(uint256 agentId, address[] calldata validatorAddresses, string calldata tag)
        external
        view
        returns (uint64 count, uint8 avgResponse)
    {
        bytes32[] storage requests = validationsOfAgent[agentId];
        uint256 sum;
        for (uint256 i; i < requests.length; ++i) {
            Validation storage validation = validations[requests[i]];
            if (!validation.hasResponse || !_isNamed(validation.validator, validatorAddresses)) continue;
            if (bytes(tag).length != 0 && keccak256(bytes(tag)) != keccak256(bytes(validation.tag))) continue;
            sum += validation.response;
            ++count;
        }
        if (count != 0) avgResponse = uint8(sum / count);
    }

    function getAgentValidations(uint256 agentId) external view returns (bytes32[] memory) {
        return validationsOfAgent[agentId];
    }

    function getValidatorRequests(address validatorAddress) external view returns (bytes32[] memory) {
        return requestsOfValidator[validatorAddress];
    }

    function _known(bytes32 requestHash) private view returns (Validation storage validation) {
        validation = validations[requestHash];
        require(validation.validator != address(0), "there is no such request");
    }

    function _isNamed(address validator, address[] calldata named) private pure returns (bool) {
        for (uint256 i; i < named.length; ++i) {
            if (named[i] == validator) return true;
        }
        return named.length == 0;
    }
}
