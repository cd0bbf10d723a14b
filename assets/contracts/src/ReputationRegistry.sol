// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

import {LinkedRegistry} from "./LinkedRegistry.sol";

/// Bardo's own implementation of the ERC-8004 reputation registry, for the devnet. Functions, events and errors are
/// those of the published ABI.
///
/// Anyone may rate an agent, except its owner and operators. A client's feedback about one agent is numbered from 1.
/// It can be revoked, but never changed or deleted.
contract ReputationRegistry is LinkedRegistry {
    struct Feedback {
        int128 value; // in units of 10^-valueDecimals
        uint8 valueDecimals;
        bool isRevoked;
        string tag1;
        string tag2;
    }

    struct Responses {
        address[] responders; // each once
        mapping(address responder => uint64) count;
    }

    /// Feedback that a read is limited to. An empty tag matches every tag.
    struct Filter {
        uint256 agentId;
        string tag1;
        string tag2;
        bool includeRevoked;
    }

    /// Sum of feedback, for an average.
    struct Tally {
        int256 sum; // with MAX_DECIMALS decimals
        uint64 count;
        uint64[19] uses; // by number of decimals, 0 to MAX_DECIMALS
    }

    /// Columns of a list of feedback.
    struct Table {
        address[] clients;
        uint64[] feedbackIndexes;
        int128[] values;
        uint8[] valueDecimals;
        string[] tag1s;
        string[] tag2s;
        bool[] revokedStatuses;
    }

    uint8 private constant MAX_DECIMALS = 18;
    int128 private constant MAX_VALUE = 1e38;

    mapping(uint256 agentId => address[]) private clientsOf;
    mapping(uint256 agentId => mapping(address client => Feedback[])) private feedback;
    mapping(uint256 agentId => mapping(address client => mapping(uint64 feedbackIndex => Responses))) private responses;

    event NewFeedback(
        uint256 indexed agentId,
        address indexed clientAddress,
        uint64 feedbackIndex,
        int128 value,
        uint8 valueDecimals,
        string indexed indexedTag1,
        string tag1,
        string tag2,
        string endpoint,
        string feedbackURI,
        bytes32 feedbackHash
    );
    event FeedbackRevoked(
        uint256 indexed agentId, address indexed clientAddress, uint64 indexed feedbackIndex
    );
    event ResponseAppended(
        uint256 indexed agentId,
        address indexed clientAddress,
        uint64 feedbackIndex,
        address indexed responder,
        string responseURI,
        bytes32 responseHash
    );

    /// The implementation itself stays unusable; only proxies are initialised.
    constructor() {
        _disableInitializers();
    }

    // ---- writes ---------------------------------------------------------------------------------

    function giveFeedback(
        uint256 agentId,
        int128 value,
        uint8 valueDecimals,
        string memory tag1,
        string memory tag2,
        string memory endpoint,
        string memory feedbackURI,
        bytes32 feedbackHash
    ) external {
        require(valueDecimals <= MAX_DECIMALS, "the value has more than 18 decimals");
        require(value >= -MAX_VALUE && value <= MAX_VALUE, "the value is beyond 10^38");
        require(!_controls(agentId), "the agent's owner and operators may not rate it");
        emit NewFeedback(
            agentId,
            msg.sender,
            _add(agentId, Feedback(value, valueDecimals, false, tag1, tag2)),
            value,
            valueDecimals,
            tag1,
            tag1,
            tag2,
            endpoint,
            feedbackURI,
            feedbackHash
        );
    }

    function revokeFeedback(uint256 agentId, uint64 feedbackIndex) external {
        Feedback storage given = _at(agentId, msg.sender, feedbackIndex);
        require(!given.isRevoked, "the feedback is already revoked");
        given.isRevoked = true;
        emit FeedbackRevoked(agentId, msg.sender, feedbackIndex);
    }

    /// Appends a response to feedback. Anyone may respond, any number of times.
    function appendResponse(
        uint256 agentId,
        address clientAddress,
        uint64 feedbackIndex,
        string calldata responseURI,
        bytes32 responseHash
    ) external {
        require(bytes(responseURI).length != 0, "the response has no URI");
        _at(agentId, clientAddress, feedbackIndex);
        Responses storage given = responses[agentId][clientAddress][feedbackIndex];
        if (given.count[msg.sender]++ == 0) given.responders.push(msg.sender);
        emit ResponseAppended(agentId, clientAddress, feedbackIndex, msg.sender, responseURI, responseHash);
    }

    // ---- reads ----------------------------------------------------------------------------------

    /// Number and average of the clients' feedback that is not revoked. The average has the most frequent number of
    /// decimals, the smallest of several, and fewer where it would not fit. It is rounded towards zero.
    ///
    /// The clients must be named: an average over everyone is worth what it costs to invent clients.
    function getSummary(uint256 agentId, address[] calldata clientAddresses, string calldata tag1, string calldata tag2)
        external
        view
        returns (uint64 count, int128 summaryValue, uint8 summaryValueDecimals)
    {
        require(clientAddresses.length != 0, "name the clients whose feedback counts");
        Filter memory filter = Filter(agentId, tag1, tag2, false);
        Tally memory tally;
        for (uint256 i; i < clientAddresses.length; ++i) {
            _count(filter, clientAddresses[i], tally);
        }
        count = tally.count;
        if (count != 0) (summaryValue, summaryValueDecimals) = _average(tally);
    }

    function readFeedback(uint256 agentId, address clientAddress, uint64 feedbackIndex)
        external
        view
        returns (int128 value, uint8 valueDecimals, string memory tag1, string memory tag2, bool isRevoked)
    {
        Feedback storage given = _at(agentId, clientAddress, feedbackIndex);
        return (given.value, given.valueDecimals, given.tag1, given.tag2, given.isRevoked);
    }

    /// Feedback of the clients, or of all clients if none is named.
    function readAllFeedback(
        uint256 agentId,
        address[] memory clientAddresses,
        string memory tag1,
        string memory tag2,
        bool includeRevoked
    )
        external
        view
        returns (
            address[] memory clients,
            uint64[] memory feedbackIndexes,
            int128[] memory values,
            uint8[] memory valueDecimals,
            string[] memory tag1s,
            string[] memory tag2s,
            bool[] memory revokedStatuses
        )
    {
        if (clientAddresses.length == 0) clientAddresses = clientsOf[agentId];
        Table memory table = _read(Filter(agentId, tag1, tag2, includeRevoked), clientAddresses);
        clients = table.clients;
        feedbackIndexes = table.feedbackIndexes;
        values = table.values;
        valueDecimals = table.valueDecimals;
        tag1s = table.tag1s;
        tag2s = table.tag2s;
        revokedStatuses = table.revokedStatuses;
    }

    /// Number of responses. The zero address stands for all clients, the index 0 for all feedback of a client, and no
    /// responders for all responders.
    function getResponseCount(
        uint256 agentId,
        address clientAddress,
        uint64 feedbackIndex,
        address[] calldata responders
    ) external view returns (uint64 count) {
        if (clientAddress != address(0)) return _countOf(agentId, clientAddress, feedbackIndex, responders);
        address[] storage clients = clientsOf[agentId];
        for (uint256 i; i < clients.length; ++i) {
            count += _countOf(agentId, clients[i], 0, responders);
        }
    }

    function getClients(uint256 agentId) external view returns (address[] memory) {
        return clientsOf[agentId];
    }

    /// Index of the client's latest feedback; 0 if there is none.
    function getLastIndex(uint256 agentId, address clientAddress) external view returns (uint64) {
        return uint64(feedback[agentId][clientAddress].length);
    }

    // ---- inside ---------------------------------------------------------------------------------

    function _add(uint256 agentId, Feedback memory given) private returns (uint64 feedbackIndex) {
        Feedback[] storage all = feedback[agentId][msg.sender];
        if (all.length == 0) clientsOf[agentId].push(msg.sender);
        all.push(given);
        return uint64(all.length);
    }

    function _at(uint256 agentId, address client, uint64 feedbackIndex) private view returns (Feedback storage) {
        Feedback[] storage all = feedback[agentId][client];
        require(feedbackIndex != 0 && feedbackIndex <= all.length, "the client gave no feedback of this index");
        return all[feedbackIndex - 1];
    }

    function _matches(Filter memory filter, Feedback storage given) private view returns (bool) {
        return (filter.includeRevoked || !given.isRevoked) && _hasTag(filter.tag1, given.tag1)
            && _hasTag(filter.tag2, given.tag2);
    }

    function _hasTag(string memory wanted, string memory tag) private pure returns (bool) {
        return bytes(wanted).length == 0 || keccak256(bytes(wanted)) == keccak256(bytes(tag));
    }

    function _count(Filter memory filter, address client, Tally memory tally) private view {
        Feedback[] storage all = feedback[filter.agentId][client];
        for (uint256 i; i < all.length; ++i) {
            Feedback storage given = all[i];
            if (!_matches(filter, given)) continue;
            tally.sum += int256(given.value) * _power(MAX_DECIMALS - given.valueDecimals);
            ++tally.uses[given.valueDecimals];
            ++tally.count;
        }
    }

    function _average(Tally memory tally) private pure returns (int128 value, uint8 decimals) {
        for (uint8 other = 1; other <= MAX_DECIMALS; ++other) {
            if (tally.uses[other] > tally.uses[decimals]) decimals = other;
        }
        int256 average = tally.sum / int256(uint256(tally.count)) / _power(MAX_DECIMALS - decimals);
        // Without decimals an average is at most MAX_VALUE, so the loop ends.
        while (average > type(int128).max || average < type(int128).min) {
            average /= 10;
            --decimals;
        }
        value = int128(average);
    }

    function _power(uint8 exponent) private pure returns (int256) {
        return int256(10 ** uint256(exponent));
    }

    function _read(Filter memory filter, address[] memory clients) private view returns (Table memory table) {
        uint256 length;
        for (uint256 i; i < clients.length; ++i) {
            Feedback[] storage all = feedback[filter.agentId][clients[i]];
            for (uint256 j; j < all.length; ++j) {
                if (_matches(filter, all[j])) ++length;
            }
        }
        table.clients = new address[](length);
        table.feedbackIndexes = new uint64[](length);
        table.values = new int128[](length);
        table.valueDecimals = new uint8[](length);
        table.tag1s = new string[](length);
        table.tag2s = new string[](length);
        table.revokedStatuses = new bool[](length);
        uint256 row;
        for (uint256 i; i < clients.length; ++i) {
            Feedback[] storage all = feedback[filter.agentId][clients[i]];
            for (uint256 j; j < all.length; ++j) {
                Feedback storage given = all[j];
                if (!_matches(filter, given)) continue;
                table.clients[row] = clients[i];
                table.feedbackIndexes[row] = uint64(j + 1);
                table.values[row] = given.value;
                table.valueDecimals[row] = given.valueDecimals;
                table.tag1s[row] = given.tag1;
                table.tag2s[row] = given.tag2;
                table.revokedStatuses[row] = given.isRevoked;
                ++row;
            }
        }
    }

    function _countOf(uint256 agentId, address client, uint64 feedbackIndex, address[] calldata responders)
        private
        view
        returns (uint64 count)
    {
        if (feedbackIndex != 0) return _countAt(agentId, client, feedbackIndex, responders);
        uint256 last = feedback[agentId][client].length;
        for (uint64 index = 1; index <= last; ++index) {
            count += _countAt(agentId, client, index, responders);
        }
    }

    function _countAt(uint256 agentId, address client, uint64 feedbackIndex, address[] memory responders)
        private
        view
        returns (uint64 count)
    {
        Responses storage given = responses[agentId][client][feedbackIndex];
        if (responders.length == 0) responders = given.responders;
        for (uint256 i; i < responders.length; ++i) {
            count += given.count[responders[i]];
        }
    }
}
