//! A chain with only Permit2, and helpers for acting there.

use alloy::consensus::{SignableTransaction, TxEip1559};
use alloy::eips::BlockId;
use alloy::primitives::{Address, Bytes, TxKind, U256};
use alloy::rpc::types::TransactionRequest;
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::{SolCall, SolValue};
use bardo::abi::erc20::Erc20;
use bardo::chain::devnet::{Chain, ChainConfig, ChainTransaction, Receipt};
use bardo::chain::evm::ChainRules;
use bardo::sandbox::contracts::{BundledContract, DEPLOYMENT_PROXY, DEPLOYMENT_PROXY_CODE, PERMIT2_SALT};

pub const GENESIS_TIME: u64 = 1_800_000_000;
/// Amount of a token that a minter gets.
pub const PLENTY: U256 = U256::from_limbs([0, 0, 1 << 40, 0]);

alloy::sol! {
    function mint(address to, uint256 amount) external;
}

pub struct Fixture {
    pub chain: Chain,
    /// Account that deploys and mints.
    pub builder: PrivateKeySigner,
}

pub fn key(number: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_slice(&[number; 32]).unwrap()
}

impl Fixture {
    /// Chain on which the builder and `rich` have ether.
    pub fn new(chain_id: u64, rich: &[Address]) -> Self {
        let builder = key(9);
        let ether = U256::from(10).pow(U256::from(30));
        let chain = Chain::new(ChainConfig {
            rules: ChainRules::osaka(chain_id),
            genesis_time: GENESIS_TIME,
            balances: rich.iter().chain([&builder.address()]).map(|address| (*address, ether)).collect(),
            codes: vec![(DEPLOYMENT_PROXY, Bytes::from_static(DEPLOYMENT_PROXY_CODE))],
            ..ChainConfig::default()
        })
        .unwrap();
        let mut fixture = Self { chain, builder };
        let permit2 = [PERMIT2_SALT.as_slice(), &BundledContract::Permit2.code().unwrap()].concat();
        fixture.build(TxKind::Call(DEPLOYMENT_PROXY), permit2.into());
        fixture
    }

    pub fn chain_id(&self) -> u64 {
        self.chain.rules().chain_id
    }

    pub fn now(&self) -> u64 {
        self.chain.head().header.timestamp
    }

    pub fn create(&mut self, contract: BundledContract, arguments: &[u8]) -> Address {
        self.build(TxKind::Create, contract.creation(arguments).unwrap()).contract_address.unwrap()
    }

    pub fn token(&mut self, name: &str, decimals: u64) -> Address {
        let arguments = (name.to_owned(), name.to_owned(), U256::from(decimals)).abi_encode_params();
        self.create(BundledContract::MockERC20, &arguments)
    }

    /// Gives `amount` of a token to `owner`, who grants allowances to all `spenders`.
    pub fn fund(&mut self, token: Address, owner: &PrivateKeySigner, amount: U256, spenders: &[Address]) {
        self.build(TxKind::Call(token), mintCall { to: owner.address(), amount }.abi_encode().into());
        for spender in spenders {
            let call = Erc20::approveCall { spender: *spender, value: U256::MAX };
            assert!(self.call(owner, token, &call, 1).is_success());
        }
    }

    /// Sends one transaction of the builder, which must succeed.
    pub fn build(&mut self, to: TxKind, input: Bytes) -> Receipt {
        let receipt = self.send(&self.builder.clone(), to, input, 1);
        assert!(receipt.is_success(), "{:?}", receipt.failure);
        receipt
    }

    /// Sends one call in its own block.
    pub fn call<C: SolCall>(&mut self, signer: &PrivateKeySigner, to: Address, call: &C, tip: u128) -> Receipt {
        self.send(signer, TxKind::Call(to), call.abi_encode().into(), tip)
    }

    /// Sends one transaction in its own block; `tip` is the priority fee per gas.
    pub fn send(&mut self, signer: &PrivateKeySigner, to: TxKind, input: Bytes, tip: u128) -> Receipt {
        let transaction = TxEip1559 {
            chain_id: self.chain_id(),
            nonce: self.chain.pending_nonce(signer.address()),
            gas_limit: 8_000_000,
            max_fee_per_gas: 1_000_000_000_000 + tip,
            max_priority_fee_per_gas: tip,
            to,
            value: U256::ZERO,
            access_list: Default::default(),
            input,
        };
        let signature = signer.sign_hash_sync(&transaction.signature_hash()).unwrap();
        let signed = ChainTransaction::signed(transaction.into_signed(signature).into()).unwrap();
        self.chain.submit(signed).unwrap();
        self.chain.mine().receipts[0].clone()
    }

    pub fn ask<C: SolCall>(&self, to: Address, call: C) -> C::Return {
        let request = TransactionRequest {
            to: Some(TxKind::Call(to)),
            input: Bytes::from(call.abi_encode()).into(),
            ..Default::default()
        };
        let outcome = self.chain.call(&request, BlockId::latest(), None, None).unwrap();
        C::abi_decode_returns(&outcome.output).unwrap()
    }

    pub fn balance(&self, token: Address, owner: Address) -> U256 {
        self.ask(token, Erc20::balanceOfCall { owner })
    }
}
