//! Tools about hooks of Uniswap V4 pools, and their shared parts: a pool's key by its id, and rows of a report.

pub mod get_hook_template;
pub mod hook_deploy;
pub mod hook_discover;
pub mod hook_evaluate;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256};
use alloy::providers::Provider as _;
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::blocks::BlockPoint;
use crate::engine::ConnectedChain;
use crate::market::logs::{LogBudget, LogQuery, read_backwards};
use crate::positions;
use crate::shared::invalid;
use bardo_abi::uniswap_v4::{PoolKey, PoolManager};
use bardo_base::contracts::KnownContract;
use bardo_base::error::{ErrorCode, ToolError};
use golem_chain::provider::ProviderError;
use golem_chain::token::{self, TokenInfo};
use golem_protocols::uniswap::hook::{HookReport, trial};
use golem_protocols::uniswap::v4::{DYNAMIC_FEE, key_hash};

/// Maximum number of requests for logs, and of logs.
pub(crate) const MOST_REQUESTS: u32 = 60;
pub(crate) const MOST_LOGS: usize = 50_000;

/// A currency of a pool.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CurrencyRow {
    /// Symbol of the token as listed, or of the native token; its address if it is not listed.
    pub(crate) symbol: String,
    /// Address of the token; the zero address is the native token.
    pub(crate) address: String,
}

impl CurrencyRow {
    /// Describes a currency by the address book alone.
    pub(crate) fn of(chain: &ConnectedChain, currency: Address) -> Self {
        let network = chain.network();
        let symbol = match currency.is_zero() {
            true => TokenInfo::native(network).symbol.to_string(),
            false => network.book.symbol_at(currency),
        };
        Self { symbol, address: currency.to_string() }
    }
}

/// Fee of a pool for a reader, in percent.
pub(crate) fn fee_text(key: &PoolKey) -> String {
    match key.fee.to::<u32>() {
        DYNAMIC_FEE => "set by the hook".to_owned(),
        fee => format!("{} %", golem_protocols::uniswap::hook::report::percent(fee)),
    }
}

/// Pool manager of a chain.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` without one.
pub(crate) fn manager(chain: &ConnectedChain) -> Result<Address, ToolError> {
    let none = || ToolError::new(ErrorCode::ChainUnsupported, format_args!("{} has no Uniswap V4", chain.network()));
    chain.network().book.contract(KnownContract::V4PoolManager).ok_or_else(none)
}

/// Key of a pool in an event of its creation. That the key has this id is checked.
pub(crate) fn key_of(log: &alloy::primitives::Log) -> Option<(B256, PoolKey)> {
    let event = PoolManager::Initialize::decode_log(log).ok()?;
    let key = PoolKey {
        currency0: event.currency0,
        currency1: event.currency1,
        fee: event.fee,
        tickSpacing: event.tickSpacing,
        hooks: event.hooks,
    };
    (key_hash(&key) == event.id).then_some((event.id, key))
}

/// Reads the key of a pool: from the position manager, which knows pools with positions, or from the log of its creation.
///
/// # Errors
/// `VALIDATION_FAILED` for a text other than an id, `POOL_NOT_FOUND` if no such pool is found, and the provider's errors.
pub(crate) async fn pool_key(chain: &ConnectedChain, id: &str, head: &BlockPoint) -> Result<PoolKey, ToolError> {
    let what = "use the id of a V4 pool: 64 hexadecimal digits with 0x before them";
    let id: B256 = id.trim().parse().map_err(|_| invalid("pool_id", &what))?;
    let contracts = positions::contracts(chain)?;
    let held = contracts.pool_key(chain.client.agreed(), id, BlockId::hash(head.hash)).await?;
    if let Some(key) = held {
        return Ok(key);
    }
    let query = LogQuery {
        addresses: vec![manager(chain)?],
        events: vec![PoolManager::Initialize::SIGNATURE_HASH],
        first: Some(id),
        second: None,
        third: None,
    };
    let mut budget = LogBudget::new(MOST_REQUESTS, MOST_LOGS);
    let range = read_backwards(chain, &query, (0, head.number), &mut budget, |found| !found.is_empty()).await?;
    let found = range.logs.iter().find_map(|placed| key_of(&placed.log));
    let found = found.filter(|(found, _)| *found == id).map(|(_, key)| key);
    found.ok_or_else(|| {
        let what = format_args!("no V4 pool of this id was found on {} back to block {}", chain.network(), range.from);
        ToolError::new(ErrorCode::PoolNotFound, what).suggest("hook_discover lists pools with hooks.")
    })
}

/// Evaluates the hook of a pool at a block.
///
/// # Errors
/// `VALIDATION_FAILED` for a pool without a hook, `POOL_NOT_FOUND` for one that has no price, and the chain's errors.
pub(crate) async fn evaluate(
    chain: &ConnectedChain,
    key: &PoolKey,
    head: &BlockPoint,
) -> Result<HookReport, ToolError> {
    if key.hooks.is_zero() {
        return Err(invalid("pool_id", &"this pool has no hook"));
    }
    let block = BlockId::hash(head.hash);
    let pool = chain.pools()?.hooked_pool(key, block).await?;
    let pool = pool.ok_or_else(|| ToolError::new(ErrorCode::PoolNotFound, "this pool was never given a price"))?;
    let code = chain.client.agreed().get_code_at(key.hooks).block_id(block).await.map_err(ProviderError::from)?;
    Ok(trial::evaluate(&chain.fork(block).await?, &pool, &code).await?)
}

/// Descriptions of a pool's currencies.
///
/// # Errors
/// The provider's errors, and `TOKEN_INVALID` for a contract that does not answer as a token.
pub(crate) async fn tokens(chain: &ConnectedChain, key: &PoolKey) -> Result<[TokenInfo; 2], ToolError> {
    let asked: Vec<Address> = [key.currency0, key.currency1].into_iter().filter(|one| !one.is_zero()).collect();
    let mut read = token::read(&asked, chain.network(), chain.client.agreed()).await?.into_iter();
    let mut next = |currency: Address| match currency.is_zero() {
        true => Ok(TokenInfo::native(chain.network())),
        false => match read.next() {
            Some(Ok(info)) => Ok(info),
            Some(Err(error)) => Err(ToolError::new(ErrorCode::TokenInvalid, error)),
            None => Err(ToolError::new(ErrorCode::TokenInvalid, format_args!("{currency} does not answer as a token"))),
        },
    };
    Ok([next(key.currency0)?, next(key.currency1)?])
}
