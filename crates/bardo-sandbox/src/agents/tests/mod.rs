//! Tests of the registries through their ABI, on the devnet.

mod identity;
mod population;
mod proxy;
mod published;
mod reputation;
mod validation;
mod vectors;
mod wallet;

use alloy::consensus::{TxEip1559, TypedTransaction};
use alloy::eips::BlockId;
use alloy::primitives::{Address, Bytes, Log, TxKind, U256, address};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::{Revert, SolCall, SolError};

use crate::plan::ETHEREUM;
use crate::snapshot::furnished;
use bardo_abi::erc8004::{IdentityRegistry, MetadataEntry};
use golem_chain::devnet::{Chain, ExecutionFailure};

/// Development accounts of the devnet.
const OWNER: Address = address!("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const CLIENT: Address = address!("0x70997970C51812dc3A010C7d01b50e0d17dc79C8");
const OTHER: Address = address!("0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC");
const THIRD: Address = address!("0x90F79bf6EB2c4f870365E785982E1f101E93b906");

/// A chain with the registries, on which only the test acts.
struct Field {
    chain: Chain,
    identity: Address,
    reputation: Address,
    validation: Address,
}

/// Result of a transaction: its logs, or the data that it reverted with.
type Outcome = Result<Vec<Log>, Bytes>;

impl Field {
    fn new() -> Self {
        let populated = furnished(&ETHEREUM).unwrap();
        let at = |name: &str| populated.deployment.contracts[name];
        let (identity, reputation, validation) =
            (at("identityRegistry"), at("reputationRegistry"), at("validationRegistry"));
        Self { chain: populated.chain, identity, reputation, validation }
    }

    /// Sends calldata in a block of its own.
    fn send(&mut self, from: Address, to: Address, input: Bytes) -> Outcome {
        let transaction = TxEip1559 {
            chain_id: self.chain.rules().chain_id,
            nonce: self.chain.pending_nonce(from),
            gas_limit: 16_000_000,
            max_fee_per_gas: 10_000_000_000,
            max_priority_fee_per_gas: 1,
            to: TxKind::Call(to),
            value: U256::ZERO,
            access_list: Default::default(),
            input,
        };
        self.chain.submit_as(from, TypedTransaction::Eip1559(transaction)).unwrap();
        let block = self.chain.mine();
        assert_eq!(block.receipts.len(), 1);
        match &block.receipts[0].failure {
            None => Ok(block.receipts[0].logs().to_vec()),
            Some(ExecutionFailure::Reverted(data)) => Err(data.clone()),
            Some(other) => panic!("{other:?}"),
        }
    }

    fn call<C: SolCall>(&mut self, from: Address, to: Address, call: C) -> Outcome {
        self.send(from, to, call.abi_encode().into())
    }

    fn identity<C: SolCall>(&mut self, from: Address, call: C) -> Outcome {
        self.call(from, self.identity, call)
    }

    fn reputation<C: SolCall>(&mut self, from: Address, call: C) -> Outcome {
        self.call(from, self.reputation, call)
    }

    fn validation<C: SolCall>(&mut self, from: Address, call: C) -> Outcome {
        self.call(from, self.validation, call)
    }

    /// Output of an `eth_call`, or the data that it reverted with.
    fn try_read(&self, to: Address, input: Bytes) -> Result<Bytes, Bytes> {
        let request = TransactionRequest {
            from: Some(OWNER),
            to: Some(TxKind::Call(to)),
            input: input.into(),
            ..Default::default()
        };
        match self.chain.call(&request, BlockId::latest(), None, None) {
            Ok(outcome) => Ok(outcome.output),
            Err(golem_chain::devnet::error::CallError::Reverted(data)) => Err(data),
            Err(other) => panic!("{other}"),
        }
    }

    fn read<C: SolCall>(&self, to: Address, call: C) -> Result<C::Return, Bytes> {
        self.try_read(to, call.abi_encode().into()).map(|output| C::abi_decode_returns_validate(&output).unwrap())
    }

    /// Timestamp of the next block, in seconds since the Unix epoch.
    fn next_time(&self) -> u64 {
        self.chain.next_context().timestamp
    }

    /// Registers an agent of `owner`; returns its id.
    fn register(&mut self, owner: Address, uri: &str) -> U256 {
        let logs = self.identity(owner, IdentityRegistry::register_1Call { agentURI: uri.to_owned() }).unwrap();
        U256::from_be_bytes(logs.last().unwrap().topics()[1].0)
    }

    fn approve(&mut self, owner: Address, to: Address, agent: U256) {
        self.identity(owner, IdentityRegistry::approveCall { to, tokenId: agent }).unwrap();
    }

    fn set_operator(&mut self, owner: Address, operator: Address, approved: bool) {
        self.identity(owner, IdentityRegistry::setApprovalForAllCall { operator, approved }).unwrap();
    }

    fn transfer(&mut self, from: Address, to: Address, agent: U256) -> Outcome {
        self.identity(from, IdentityRegistry::safeTransferFromCall { from, to, tokenId: agent })
    }

    fn wallet(&self, agent: U256) -> Address {
        self.read(self.identity, IdentityRegistry::getAgentWalletCall { agentId: agent }).unwrap()
    }

    fn owner(&self, agent: U256) -> Address {
        self.read(self.identity, IdentityRegistry::ownerOfCall { tokenId: agent }).unwrap()
    }
}

fn entry(key: &str, value: &[u8]) -> MetadataEntry {
    MetadataEntry { metadataKey: key.to_owned(), metadataValue: Bytes::copy_from_slice(value) }
}

/// Asserts a revert with exactly this reason.
#[track_caller]
fn rejected<T: std::fmt::Debug>(outcome: Result<T, Bytes>, reason: &str) {
    let data = outcome.expect_err(reason);
    assert_eq!(Revert::abi_decode(&data).expect("a reason").reason, reason);
}

/// Asserts a revert with exactly this error.
#[track_caller]
fn failed<T: std::fmt::Debug, E: SolError>(outcome: Result<T, Bytes>, error: E) {
    assert_eq!(outcome.expect_err("an error"), Bytes::from(error.abi_encode()));
}

alloy::sol! {
    /// Errors of the published ABIs.
    #[derive(Debug)]
    interface Errors {
        error AddressEmptyCode(address target);
        error ECDSAInvalidSignature();
        error ECDSAInvalidSignatureLength(uint256 length);
        error ECDSAInvalidSignatureS(bytes32 s);
        error ERC1967InvalidImplementation(address implementation);
        error ERC1967NonPayable();
        error ERC721IncorrectOwner(address sender, uint256 tokenId, address owner);
        error ERC721InsufficientApproval(address operator, uint256 tokenId);
        error ERC721InvalidApprover(address approver);
        error ERC721InvalidOperator(address operator);
        error ERC721InvalidOwner(address owner);
        error ERC721InvalidReceiver(address receiver);
        error ERC721NonexistentToken(uint256 tokenId);
        error FailedCall();
        error InvalidInitialization();
        error OwnableInvalidOwner(address owner);
        error OwnableUnauthorizedAccount(address account);
        error UUPSUnauthorizedCallContext();
        error UUPSUnsupportedProxiableUUID(bytes32 slot);
    }
}
