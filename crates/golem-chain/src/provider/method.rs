//! Classification of JSON-RPC methods by whether they may be repeated. Every method that is not a known read is sent
//! once.

use alloy::rpc::json_rpc::RequestPacket;

/// Permission to repeat a request at the same or another endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatRule {
    /// A read, which may be repeated freely.
    Free,
    /// A request that may change state, or is unknown: at most one endpoint receives it, once.
    Once,
}

/// Reads of a chain's state and history, and of a node's own properties (<https://ethereum.github.io/execution-apis/>).
/// Filter methods are excluded because filters are state of one endpoint, and reading changes consumes them.
const READS: &[&str] = &[
    "bardo_describe",
    "eth_accounts",
    "eth_blobBaseFee",
    "eth_blockNumber",
    "eth_call",
    "eth_callMany",
    "eth_chainId",
    "eth_createAccessList",
    "eth_estimateGas",
    "eth_feeHistory",
    "eth_gasPrice",
    "eth_getAccount",
    "eth_getBalance",
    "eth_getBlockByHash",
    "eth_getBlockByNumber",
    "eth_getBlockReceipts",
    "eth_getBlockTransactionCountByHash",
    "eth_getBlockTransactionCountByNumber",
    "eth_getCode",
    "eth_getHeaderByHash",
    "eth_getHeaderByNumber",
    "eth_getLogs",
    "eth_getProof",
    "eth_getRawTransactionByHash",
    "eth_getStorageAt",
    "eth_getTransactionByBlockHashAndIndex",
    "eth_getTransactionByBlockNumberAndIndex",
    "eth_getTransactionByHash",
    "eth_getTransactionBySenderAndNonce",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
    "eth_getUncleByBlockHashAndIndex",
    "eth_getUncleByBlockNumberAndIndex",
    "eth_getUncleCountByBlockHash",
    "eth_getUncleCountByBlockNumber",
    "eth_maxPriorityFeePerGas",
    "eth_simulateV1",
    "eth_syncing",
    "debug_traceCall",
    "debug_traceTransaction",
    "net_listening",
    "net_peerCount",
    "net_version",
    "trace_block",
    "trace_call",
    "trace_transaction",
    "web3_clientVersion",
    "web3_sha3",
];

/// Returns whether a method may be repeated.
pub fn repeat_rule_of_method(method: &str) -> RepeatRule {
    if READS.contains(&method) { RepeatRule::Free } else { RepeatRule::Once }
}

/// Returns whether a packet may be repeated, which requires that all its methods may.
pub fn repeat_rule_of(packet: &RequestPacket) -> RepeatRule {
    if packet.method_names().all(|method| repeat_rule_of_method(method) == RepeatRule::Free) {
        RepeatRule::Free
    } else {
        RepeatRule::Once
    }
}

/// The method that forbids repeating the packet, for error messages.
pub(super) fn once_method(packet: &RequestPacket) -> &str {
    packet.method_names().find(|method| repeat_rule_of_method(method) == RepeatRule::Once).unwrap_or("the batch")
}
