//! Harness of the integration tests and benchmarks: devnets, accounts, processes and outsiders that fail or lie.
//!
//! | module | holds |
//! |---|---|
//! | [`harness`] | a pipeline over a devnet, with a ledger in a file and rules that are simple enough to verify at sight |
//! | [`acting`] | the tool engine over that harness, under a policy |
//! | [`engine`] | the whole engine from a configuration, as `bardo call` creates it |
//! | [`golem_harness`] | a devnet with Golems in it |
//! | [`sending`] | a chain, a key and a ledger, for tests of the sender |
//! | [`devnet`] | the program under test, and `bardo devnet`, as processes |
//! | [`anvil`], [`mainnet`], [`side_by_side`] | anvil, a copy of mainnet's Uniswap on it, and the smart-order-router beside |
//! | [`rpc_proxy`], [`lying_rpc`], [`liar`], [`passing`] | servers between a client and a node that drop, delay or change answers |
//! | [`wallet_server`] | a wallet server that has a key, with a policy, and fails or lies on demand |
//! | [`safe`] | a Safe of the test chain, and changes to it by another owner |
//! | [`outside`], [`proof`], [`python`] | calls of another program, proofs of the operator's decision, detection of Python |
//!
//! Only tests and benchmarks depend on this crate. Its functions panic where a test should fail.
#![forbid(unsafe_code)]

pub mod acting;
pub mod anvil;
pub mod devnet;
pub mod engine;
pub mod golem_harness;
pub mod harness;
pub mod liar;
pub mod lying_rpc;
pub mod mainnet;
pub mod outside;
pub mod passing;
pub mod proof;
pub mod python;
pub mod rpc_proxy;
pub mod safe;
pub mod sending;
pub mod side_by_side;
pub mod wallet_server;
