// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

/// Bardo's own reference-price feed for the devnet: the read side of Chainlink's AggregatorV3Interface, and the
/// latestAnswer of its older interface, which lending markets read; written by one keeper, with switches for the
/// ways in which a feed fails. Never deploy it for real use.
contract PriceFeed {
    enum Fault {
        None,
        Frozen, // pushes are accepted and dropped: answer and time stay as they were
        Forced, // reads give `forcedAnswer` with a fresh time, whatever is pushed
        Broken // reads revert
    }

    struct Round {
        int192 answer;
        uint64 updatedAt;
    }

    uint256 public constant version = 1;
    uint8 public immutable decimals;
    address public immutable keeper;
    string public description;

    Fault public fault;
    uint80 public latestRound;
    int192 public forcedAnswer;
    mapping(uint80 => Round) private rounds;

    event AnswerUpdated(int256 indexed current, uint256 indexed roundId, uint256 updatedAt);
    event FaultChanged(Fault fault, int256 forcedAnswer);

    error NotKeeper(address sender);
    error NoSuchRound(uint80 round);
    error FeedBroken();

    constructor(string memory description_, uint8 decimals_, address keeper_) {
        description = description_;
        decimals = decimals_;
        keeper = keeper_;
    }

    modifier onlyKeeper() {
        if (msg.sender != keeper) revert NotKeeper(msg.sender);
        _;
    }

    function push(int192 answer) external onlyKeeper {
        if (fault == Fault.Frozen) return;
        uint80 round = ++latestRound;
        rounds[round] = Round(answer, uint64(block.timestamp));
        emit AnswerUpdated(answer, round, block.timestamp);
    }

    function setFault(Fault fault_, int192 forcedAnswer_) external onlyKeeper {
        fault = fault_;
        forcedAnswer = forcedAnswer_;
        emit FaultChanged(fault_, forcedAnswer_);
    }

    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        return read(latestRound);
    }

    function latestAnswer() external view returns (int256 answer) {
        (, answer,,,) = read(latestRound);
    }

    function getRoundData(uint80 round) external view returns (uint80, int256, uint256, uint256, uint80) {
        return read(round);
    }

    function read(uint80 round) private view returns (uint80, int256, uint256, uint256, uint80) {
        if (fault == Fault.Broken) revert FeedBroken();
        if (fault == Fault.Forced) return (round, forcedAnswer, block.timestamp, block.timestamp, round);
        if (round == 0 || round > latestRound) revert NoSuchRound(round);
        Round memory found = rounds[round];
        return (round, found.answer, found.updatedAt, found.updatedAt, round);
    }
}

/// Writes many feeds in one transaction: the keeper of all of a chain's feeds, itself commanded by one account.
contract FeedKeeper {
    address public immutable operator;

    error NotOperator(address sender);
    error LengthsDiffer(uint256 feeds, uint256 answers);

    constructor(address operator_) {
        operator = operator_;
    }

    modifier onlyOperator() {
        if (msg.sender != operator) revert NotOperator(msg.sender);
        _;
    }

    function push(PriceFeed[] calldata feeds, int192[] calldata answers) external onlyOperator {
        if (feeds.length != answers.length) revert LengthsDiffer(feeds.length, answers.length);
        for (uint256 index = 0; index < feeds.length; index++) feeds[index].push(answers[index]);
    }

    function setFault(PriceFeed feed, PriceFeed.Fault fault, int192 forcedAnswer) external onlyOperator {
        feed.setFault(fault, forcedAnswer);
    }
}
