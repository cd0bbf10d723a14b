//! Batched contract reads through Multicall3, all at the same block. A call that fails does not affect the other calls.

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

/// Calls per request at most: endpoints limit the gas and the size of a call.
const CALLS_PER_REQUEST: usize = 600;

/// Calls to send in one batch.
#[derive(Debug, Default)]
pub struct CallBatch(Vec<Call3>);

/// Typed index of one call's result in [`BatchResults`].
#[derive(Debug)]
pub struct CallIndex<C> {
    index: usize,
    kind: std::marker::PhantomData<C>,
}

/// Results of a batch of calls.
#[derive(Debug)]
pub struct BatchResults(Vec<IMulticall3::Result>);

impl CallBatch {
    /// Adds a call and returns the handle with which its result is read.
    pub fn push<C: SolCall>(&mut self, target: Address, call: &C) -> CallIndex<C> {
        self.0.push(Call3 { target, allowFailure: true, callData: call.abi_encode().into() });
        CallIndex { index: self.0.len().saturating_sub(1), kind: std::marker::PhantomData }
    }

    /// Sends all calls at `block`, up to 600 per request, with the requests in parallel. Name the block by its hash if
    /// the results of several requests must be consistent.
    ///
    /// # Errors
    /// If the chain does not answer, or if there is no Multicall3 contract at `multicall`.
    pub async fn send(
        self,
        provider: &DynProvider,
        multicall: Address,
        block: BlockId,
    ) -> Result<BatchResults, ProviderError> {
        let requests = self.0.chunks(CALLS_PER_REQUEST).map(|calls| ask(calls.to_vec(), provider, multicall, block));
        Ok(BatchResults(try_join_all(requests).await?.into_iter().flatten().collect()))
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
        || ProviderError::Decode {
            detail: SafeText::clean("Multicall3 did not respond: is the contract deployed?", 100),
        },
    )
}

impl<C: SolCall> CallIndex<C> {
    /// Decodes the result; `None` if the call failed, the target has no contract, or the data does not decode.
    pub fn take(&self, answers: &BatchResults) -> Option<C::Return> {
        let answer = answers.0.get(self.index).filter(|answer| answer.success)?;
        C::abi_decode_returns_validate(&answer.returnData).ok()
    }

    /// Returns true if the call succeeded with empty return data, as a call to an address without code does.
    pub fn is_void(&self, answers: &BatchResults) -> bool {
        answers.0.get(self.index).is_some_and(|answer| answer.success && answer.returnData.is_empty())
    }
}
