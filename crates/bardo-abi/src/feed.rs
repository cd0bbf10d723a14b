//! Price feeds: the read side of Chainlink's aggregator, and the switches of the devnet's own feed contract.

alloy::sol! {
    /// Chainlink's AggregatorV3Interface. Times are in seconds; the answer has `decimals` decimals.
    #[derive(Debug, PartialEq, Eq)]
    interface Aggregator {
        event AnswerUpdated(int256 indexed current, uint256 indexed roundId, uint256 updatedAt);

        function decimals() external view returns (uint8);
        function description() external view returns (string);
        function version() external view returns (uint256);
        function getRoundData(uint80 round) external view
            returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound);
        function latestRoundData() external view
            returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound);
    }

    /// What a Chainlink proxy and the aggregator behind it have beyond [`Aggregator`]: an aggregator never answers beyond
    /// its bounds, so that an answer at one of them says nothing of the market.
    #[derive(Debug, PartialEq, Eq)]
    interface BoundedAggregator {
        function aggregator() external view returns (address);
        function minAnswer() external view returns (int256);
        function maxAnswer() external view returns (int256);
    }

    /// `assets/contracts/src/PriceFeed.sol`, what it has beyond [`Aggregator`].
    #[derive(Debug, PartialEq, Eq)]
    interface PriceFeed {
        /// None; pushes dropped; reads give a forced answer with a fresh time; reads revert.
        enum Fault { None, Frozen, Forced, Broken }

        event FaultChanged(Fault fault, int256 forcedAnswer);

        error NotKeeper(address sender);
        error NoSuchRound(uint80 round);
        error FeedBroken();

        function keeper() external view returns (address);
        function fault() external view returns (Fault);
        function push(int192 answer) external;
        function setFault(Fault fault, int192 forcedAnswer) external;
    }

    /// The contract that writes all feeds of a chain, in the same file.
    #[derive(Debug, PartialEq, Eq)]
    interface FeedKeeper {
        error NotOperator(address sender);
        error LengthsDiffer(uint256 feeds, uint256 answers);

        function operator() external view returns (address);
        function push(address[] feeds, int192[] answers) external;
        /// `fault` is a `PriceFeed.Fault`.
        function setFault(address feed, uint8 fault, int192 forcedAnswer) external;
    }
}
