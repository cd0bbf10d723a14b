//! Price feeds: the read functions of Chainlink's aggregator, and the fault injection of the devnet's own feed
//! contract.

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

    /// Functions of a Chainlink proxy and its aggregator beyond [`Aggregator`]. An aggregator never answers beyond its
    /// bounds, so an answer at a bound does not show the market price.
    #[derive(Debug, PartialEq, Eq)]
    interface BoundedAggregator {
        function aggregator() external view returns (address);
        function minAnswer() external view returns (int256);
        function maxAnswer() external view returns (int256);
    }

    /// Functions of `assets/contracts/src/PriceFeed.sol` beyond [`Aggregator`].
    #[derive(Debug, PartialEq, Eq)]
    interface PriceFeed {
        /// Injected fault: none; pushes are dropped; reads return a forced answer with a fresh time; reads revert.
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

    /// Contract in the same file that writes all feeds of a chain.
    #[derive(Debug, PartialEq, Eq)]
    interface FeedKeeper {
        error NotOperator(address sender);
        error LengthsDiffer(uint256 feeds, uint256 answers);

        function operator() external view returns (address);
        function push(address[] feeds, int192[] answers) external;
        /// Sets a feed's fault; `fault` is a `PriceFeed.Fault`.
        function setFault(address feed, uint8 fault, int192 forcedAnswer) external;
    }
}
