//! Which methods may be asked again. Everything that is not known to be a read is asked once.

use alloy::rpc::json_rpc::RequestPacket;

/// Whether a request may be repeated, at the same endpoint or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// A read: asking twice changes nothing.
    Free,
    /// May change something, or is not known: at most one endpoint sees it, once.
    Once,
}

/// Reads of a chain's state and history, and what a node says of itself
/// (<https://ethereum.github.io/execution-apis/>). Filters are absent on purpose: they are state
/// of one endpoint, and asking for changes consumes them.
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

/// Whether one method may be asked again.
pub fn replay_of_method(method: &str) -> Replay {
    if READS.contains(&method) { Replay::Free } else { Replay::Once }
}

/// Whether a packet may be asked again: only if all its members may.
pub fn replay_of(packet: &RequestPacket) -> Replay {
    if packet.method_names().all(|method| replay_of_method(method) == Replay::Free) {
        Replay::Free
    } else {
        Replay::Once
    }
}

/// The member that forbids repeating a packet, for the error that names it.
pub(super) fn once_method(packet: &RequestPacket) -> &str {
    packet.method_names().find(|method| replay_of_method(method) == Replay::Once).unwrap_or("the batch")
}
