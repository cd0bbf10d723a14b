//! Safe 1.4.1: an account of several owners (`Safe.sol`, `SafeProxyFactory.sol`, `GuardManager.sol`).

alloy::sol! {
    /// Functions and events of a Safe that Bardo uses.
    #[derive(Debug, PartialEq, Eq)]
    interface Safe {
        /// Sets up a new Safe; only once.
        function setup(address[] _owners, uint256 _threshold, address to, bytes data, address fallbackHandler, address paymentToken, uint256 payment, address paymentReceiver) external;
        /// Executes a transaction that enough owners have signed or send themselves.
        function execTransaction(address to, uint256 value, bytes data, uint8 operation, uint256 safeTxGas, uint256 baseGas, uint256 gasPrice, address gasToken, address refundReceiver, bytes signatures) external payable returns (bool success);
        /// Contract whose code the proxy runs. The proxy itself answers.
        function masterCopy() external view returns (address singleton);
        /// Owners, in the order of the contract's list.
        function getOwners() external view returns (address[] owners);
        /// Number of owners that must agree.
        function getThreshold() external view returns (uint256 threshold);
        /// Number of the next transaction.
        function nonce() external view returns (uint256 number);
        /// Hash of a transaction, which its owners sign.
        function getTransactionHash(address to, uint256 value, bytes data, uint8 operation, uint256 safeTxGas, uint256 baseGas, uint256 gasPrice, address gasToken, address refundReceiver, uint256 _nonce) external view returns (bytes32 hash);
        /// Checks the signatures of as many owners as must agree; reverts if one is wrong.
        function checkSignatures(bytes32 dataHash, bytes data, bytes signatures) external view;
        /// Agrees to the transaction with this hash; only an owner may.
        function approveHash(bytes32 hashToApprove) external;
        /// Not zero if the owner has agreed to the transaction with this hash by `approveHash`.
        function approvedHashes(address owner, bytes32 hash) external view returns (uint256 approved);
        /// Modules, which may act without any owner.
        function getModulesPaginated(address start, uint256 pageSize) external view returns (address[] array, address next);
        /// Words of the contract's storage.
        function getStorageAt(uint256 offset, uint256 length) external view returns (bytes words);
        /// Makes a contract a module; only the Safe itself may.
        function enableModule(address module) external;
        /// Sets the guard; only the Safe itself may.
        function setGuard(address guard) external;
        /// Sets the handler of calls that the Safe does not know; only the Safe itself may.
        function setFallbackHandler(address handler) external;
        /// Adds an owner and sets the threshold; only the Safe itself may.
        function addOwnerWithThreshold(address owner, uint256 _threshold) external;
        /// Replaces an owner; only the Safe itself may.
        function swapOwner(address prevOwner, address oldOwner, address newOwner) external;
        /// A transaction was executed.
        event ExecutionSuccess(bytes32 indexed txHash, uint256 payment);
        /// A transaction's call failed.
        event ExecutionFailure(bytes32 indexed txHash, uint256 payment);
    }

    /// Factory of Safes.
    interface SafeProxyFactory {
        /// Creates a Safe and sets it up.
        function createProxyWithNonce(address _singleton, bytes initializer, uint256 saltNonce) external returns (address proxy);
    }
}

/// Transaction of a Safe as its owners sign it, in a module of its own: the message has the interface's names.
pub mod typed {
    alloy::sol! {
        /// Typed data of a transaction (EIP-712), for the domain of the chain's id and the Safe's address.
        #[derive(Debug, PartialEq, Eq)]
        struct SafeTx {
            address to;
            uint256 value;
            bytes data;
            uint8 operation;
            uint256 safeTxGas;
            uint256 baseGas;
            uint256 gasPrice;
            address gasToken;
            address refundReceiver;
            uint256 nonce;
        }
    }
}
