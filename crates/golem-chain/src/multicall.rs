//! Many reads in few requests, through Multicall3, all of one block. A call that fails is that
//! call's answer and no other's.

use alloy::eips::BlockId;
use alloy::network::TransactionBuilder;
use alloy::primitives::{Address, Bytes};
use alloy::providers::bindings::IMulticall3::{self, Call3};
use alloy::providers::{DynProvider, Provider};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use futures::future::try_join_all;

use crate::provider::ProviderError;
use bardo_base::text::SafeText;

/// Calls in one request at most: endpoints bound the gas and the size of a call.
const CALLS_PER_REQUEST: usize = 600;

/// Calls that are asked together.
#[derive(Debug, Default)]
pub struct Calls(Vec<Call3>);

/// The place of one call's answer, with its type.
#[derive(Debug)]
pub struct Call<C> {
    index: usize,
    kind: std::marker::PhantomData<C>,
}

/// What the calls answered.
#[derive(Debug)]
pub struct Answers(Vec<IMulticall3::Result>);

impl Calls {
    /// Adds a call; the result finds its answer.
    pub fn push<C: SolCall>(&mut self, target: Address, call: &C) -> Call<C> {
        self.0.push(Call3 { target, allowFailure: true, callData: call.abi_encode().into() });
        Call { index: self.0.len().saturating_sub(1), kind: std::marker::PhantomData }
    }

    /// Asks all of them at `block`, several hundred to a request and the requests side by side. Name
    /// the block by its hash where the answers of several requests must belong together.
    ///
    /// # Errors
    /// If the chain does not answer, or there is no Multicall3 at `multicall`.
    pub async fn send(
        self,
        provider: &DynProvider,
        multicall: Address,
        block: BlockId,
    ) -> Result<Answers, ProviderError> {
        let requests = self.0.chunks(CALLS_PER_REQUEST).map(|calls| ask(calls.to_vec(), provider, multicall, block));
        Ok(Answers(try_join_all(requests).await?.into_iter().flatten().collect()))
    }
}

async fn ask(
    calls: Vec<Call3>,
    provider: &DynProvider,
    multicall: Address,
    block: BlockId,
) -> Result<Vec<IMulticall3::Result>, ProviderError> {
    let asked = calls.len();
    let call = IMulticall3::aggregate3Call { calls };
    let request = TransactionRequest::default().with_to(multicall).with_input(call.abi_encode());
    let output: Bytes = provider.call(request).block(block).await.map_err(ProviderError::from)?;
    IMulticall3::aggregate3Call::abi_decode_returns(&output).ok().filter(|answers| answers.len() == asked).ok_or_else(
        || ProviderError::Decode { detail: SafeText::clean("no Multicall3 answer: is the contract there?", 100) },
    )
}

impl<C: SolCall> Call<C> {
    /// The answer; `None` if the call failed, went where there is no contract, or does not decode.
    pub fn take(&self, answers: &Answers) -> Option<C::Return> {
        let answer = answers.0.get(self.index).filter(|answer| answer.success)?;
        C::abi_decode_returns_validate(&answer.returnData).ok()
    }

    /// Whether the call went through and said nothing at all, as one does to an address without code.
    pub fn is_void(&self, answers: &Answers) -> bool {
        answers.0.get(self.index).is_some_and(|answer| answer.success && answer.returnData.is_empty())
    }
}
