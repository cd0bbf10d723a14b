//! A chain with the reactors, the quoter and two tokens, and the parties of an order.

use alloy::eips::BlockId;
use alloy::primitives::{Address, Bytes, TxKind, U256, address};
use alloy::rpc::types::{BlockOverrides, TransactionRequest};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::{SolCall, SolValue};
use bardo::abi::uniswapx::{OrderQuoter, Reactor, ResolvedOrder, SignedOrder};
use bardo::chain::devnet::Receipt;
use bardo::chain::devnet::error::CallError;
use bardo::chain::permit2::Permit2Domain;
use bardo::sandbox::contracts::{BundledContract, PERMIT2};
use bardo::uniswap::order::{OrderKind, ResolutionPoint, UniswapXOrder};

use super::fixture::{Fixture, PLENTY, key};

pub const CHAIN_ID: u64 = 31_337;

pub struct Bare {
    pub fixture: Fixture,
    pub swapper: PrivateKeySigner,
    pub filler: PrivateKeySigner,
    pub cosigner: PrivateKeySigner,
    pub token_in: Address,
    pub token_out: Address,
    pub quoter: Address,
    reactors: [Address; 3],
}

impl Bare {
    pub fn new() -> Self {
        let (swapper, filler, cosigner) = (key(1), key(2), key(3));
        let mut fixture = Fixture::new(CHAIN_ID, &[swapper.address(), filler.address()]);
        let arguments = (PERMIT2, fixture.builder.address()).abi_encode_params();
        let reactors = [
            BundledContract::V2DutchOrderReactor,
            BundledContract::V3DutchOrderReactor,
            BundledContract::PriorityOrderReactor,
        ]
        .map(|reactor| fixture.create(reactor, &arguments));
        let quoter = fixture.create(BundledContract::OrderQuoter, &[]);
        let (token_in, token_out) = (fixture.token("IN", 18), fixture.token("OUT", 6));
        for signer in [&swapper, &filler] {
            for token in [token_in, token_out] {
                fixture.fund(token, signer, PLENTY, &[PERMIT2, reactors[0], reactors[1], reactors[2]]);
            }
        }
        Self { fixture, swapper, filler, cosigner, token_in, token_out, quoter, reactors }
    }

    pub fn reactor(&self, kind: OrderKind) -> Address {
        match kind {
            OrderKind::Dutch => panic!("the bundle has no reactor for the first Dutch order"),
            OrderKind::DutchV2 => self.reactors[0],
            OrderKind::DutchV3 => self.reactors[1],
            OrderKind::Priority => self.reactors[2],
        }
    }

    /// The order with the cosigner's signature over its cosigner data.
    pub fn cosigned(&self, order: UniswapXOrder) -> UniswapXOrder {
        let digest = order.cosigner_digest(CHAIN_ID).unwrap();
        let signature = self.cosigner.sign_hash_sync(&digest).unwrap();
        order.with_cosignature(signature.as_bytes().into())
    }

    /// The swapper's Permit2 signature.
    pub fn signature(&self, order: &UniswapXOrder) -> Bytes {
        let domain = Permit2Domain { chain_id: CHAIN_ID, permit2: PERMIT2 };
        self.swapper.sign_hash_sync(&order.permit().digest(&domain)).unwrap().as_bytes().into()
    }

    /// OrderQuoter's answer at a moment; the filler is the quoter.
    pub fn quote(&self, order: &UniswapXOrder, at: &ResolutionPoint) -> Result<ResolvedOrder, Bytes> {
        let quote = OrderQuoter::quoteCall { order: order.encode(), sig: self.signature(order) };
        let surroundings = BlockOverrides {
            number: Some(U256::from(at.block)),
            time: Some(at.timestamp),
            base_fee: Some(U256::from(at.base_fee)),
            ..Default::default()
        };
        let request = TransactionRequest {
            from: Some(self.filler.address()),
            to: Some(TxKind::Call(self.quoter)),
            input: Bytes::from(quote.abi_encode()).into(),
            gas_price: Some(at.base_fee + at.priority_fee),
            gas: Some(1_000_000),
            ..Default::default()
        };
        match self.fixture.chain.call(&request, BlockId::latest(), None, Some(&surroundings)) {
            Ok(outcome) => Ok(OrderQuoter::quoteCall::abi_decode_returns(&outcome.output).unwrap()),
            Err(CallError::Reverted(data)) => Err(data),
            Err(other) => panic!("{other} at {at:?}"),
        }
    }

    /// Fills an order with the filler's own tokens.
    pub fn fill(&mut self, order: &UniswapXOrder, tip: u128) -> Receipt {
        let signed = SignedOrder { order: order.encode(), sig: self.signature(order) };
        self.fixture.call(&self.filler, order.info().reactor, &Reactor::executeCall { order: signed }, tip)
    }
}

/// Account that is not a party of the order.
pub const STRANGER: Address = address!("0x00000000000000000000000000000000000000f1");
