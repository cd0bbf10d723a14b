//! Untrusted token metadata from the chain; the calls of several tokens go in one batch.

use alloy::{
    eips::BlockId,
    primitives::{Address, Bytes, U256},
    providers::Provider,
    rpc::{
        client::{BatchRequest, Waiter},
        types::TransactionRequest,
    },
    sol_types::{SolCall, SolValue},
    transports::{RpcError, TransportError},
};

use super::{TokenError, TokenId, TokenInfo};
use crate::{network::Network, provider::ProviderError};
use bardo_abi::erc20::Erc20;
use bardo_base::{text::SafeText, units::MAX_DECIMALS};

/// Maximum length of a symbol, in characters; longer ones are cut.
pub const MAX_SYMBOL: usize = 24;
/// Maximum length of a name, in characters; longer ones are cut.
pub const MAX_NAME: usize = 64;
/// Tokens per batch; each takes four calls, and endpoints limit batches to about a hundred.
const TOKENS_PER_BATCH: usize = 20;

/// Reads the metadata of `addresses` at the latest block, in the given order. Imitations of listed tokens are included.
///
/// # Errors
/// [`TokenError::Chain`] if the chain does not answer; per token, the reason why it is unusable.
pub async fn read<P: Provider>(
    addresses: &[Address],
    network: &Network,
    provider: &P,
) -> Result<Vec<Result<TokenInfo, TokenError>>, TokenError> {
    read_at(addresses, network, provider, BlockId::latest()).await
}

/// Like [`read`], at the given block.
///
/// # Errors
/// As [`read`].
pub async fn read_at<P: Provider>(
    addresses: &[Address],
    network: &Network,
    provider: &P,
    block: BlockId,
) -> Result<Vec<Result<TokenInfo, TokenError>>, TokenError> {
    let mut tokens = Vec::with_capacity(addresses.len());
    for chunk in addresses.chunks(TOKENS_PER_BATCH) {
        let mut batch = BatchRequest::new(provider.client());
        let mut waiting = Vec::with_capacity(chunk.len());
        for address in chunk {
            let mut call = |data: Vec<u8>| -> Result<Waiter<Bytes>, TransportError> {
                let request = TransactionRequest::default().to(*address).input(data.into());
                batch.add_call("eth_call", &(request, block))
            };
            let symbol = call(Erc20::symbolCall {}.abi_encode()).map_err(ProviderError::from)?;
            let name = call(Erc20::nameCall {}.abi_encode()).map_err(ProviderError::from)?;
            let decimals = call(Erc20::decimalsCall {}.abi_encode()).map_err(ProviderError::from)?;
            let code: Waiter<Bytes> = batch.add_call("eth_getCode", &(*address, block)).map_err(ProviderError::from)?;
            waiting.push((*address, symbol, name, decimals, code));
        }
        batch.send().await.map_err(ProviderError::from)?;
        for (address, symbol, name, decimals, code) in waiting {
            let code = code.await.map_err(ProviderError::from)?;
            let (symbol, name, decimals) =
                (reverted_is_none(symbol.await)?, reverted_is_none(name.await)?, reverted_is_none(decimals.await)?);
            tokens.push(if code.is_empty() {
                Err(TokenError::NoCode { address, network: network.to_string() })
            } else {
                assemble(address, network, symbol.as_ref(), name.as_ref(), decimals.as_ref())
            });
        }
    }
    Ok(tokens)
}

/// Maps a reverted call to `None`, since the contract lacks the method; other failures are the endpoint's.
fn reverted_is_none(answer: Result<Bytes, TransportError>) -> Result<Option<Bytes>, ProviderError> {
    match answer {
        Ok(output) => Ok(Some(output)),
        Err(RpcError::ErrorResp(payload)) if is_revert(&payload) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns true for the forms in which clients report a revert: code 3 (geth), revert data, or message text.
fn is_revert(payload: &alloy::rpc::json_rpc::ErrorPayload) -> bool {
    payload.code == 3
        || payload.as_revert_data().is_some()
        || ["revert", "invalid opcode", "out of gas", "stack underflow", "bad jump"]
            .iter()
            .any(|words| payload.message.to_ascii_lowercase().contains(words))
}

fn assemble(
    address: Address,
    network: &Network,
    symbol: Option<&Bytes>,
    name: Option<&Bytes>,
    decimals: Option<&Bytes>,
) -> Result<TokenInfo, TokenError> {
    let unusable = |what: &'static str| TokenError::NotAToken { address, what };
    let word = decimals.and_then(|output| output.get(..32)).ok_or_else(|| unusable("it has no decimals()"))?;
    let claimed = U256::from_be_slice(word);
    let decimals = u8::try_from(claimed)
        .ok()
        .filter(|decimals| *decimals <= MAX_DECIMALS)
        .ok_or_else(|| TokenError::AbsurdDecimals { address, decimals: claimed.to_string() })?;
    let listed = network.book.token_at(address);
    if let Some(listed) = listed.filter(|listed| listed.decimals != decimals) {
        return Err(TokenError::DecimalsDiffer {
            symbol: listed.symbol.clone(),
            address,
            network: network.to_string(),
            listed: listed.decimals,
            found: decimals,
        });
    }
    let own_symbol = symbol.and_then(|output| text(output, MAX_SYMBOL)).filter(|symbol| !symbol.is_empty());
    let symbol = match listed {
        Some(listed) => SafeText::clean(&listed.symbol, MAX_SYMBOL),
        None => own_symbol.ok_or_else(|| unusable("it has no symbol()"))?,
    };
    // The name is only displayed, so the symbol replaces a missing one.
    let name = name
        .and_then(|output| text(output, MAX_NAME))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| symbol.clone());
    Ok(TokenInfo { id: TokenId::Erc20(address), symbol, name, decimals, listed: listed.is_some() })
}

/// Decodes a text result: an ABI string, or 32 zero-padded bytes as early tokens such as Maker return.
fn text(output: &Bytes, max_chars: usize) -> Option<SafeText> {
    if output.len() == 32 {
        let end = output.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        return Some(SafeText::clean_bytes(output.get(..end)?, max_chars));
    }
    // A string has the ABI layout of bytes. String decoding would replace invalid UTF-8 before it could be marked.
    let bytes = Bytes::abi_decode(output).ok()?;
    Some(SafeText::clean_bytes(&bytes, max_chars))
}
