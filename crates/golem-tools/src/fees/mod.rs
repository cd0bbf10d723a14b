//! Tools about Uniswap's protocol fees, and their shared part: the jar with what it holds, what a release costs, and what V3 pools owe.

pub mod claim_fees;
pub mod execute_burn;
pub mod get_tokenjar_balances;

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};
use alloy::providers::bindings::IMulticall3;
use schemars::JsonSchema;
use serde::Serialize;

use crate::blocks::{self, BlockPoint};
use crate::engine::ConnectedChain;
use bardo_abi::erc20::Erc20;
use bardo_abi::protocol_fees::{Firepit, ProtocolFeePool, TokenJar, V3FeeAdapter};
use bardo_base::contracts::KnownContract;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::multicall::CallBatch;
use golem_chain::token::TokenInfo;
use golem_protocols::uniswap::address::{V3_POOL_INIT_CODE_HASH, v3_pool};
use golem_protocols::uniswap::discovery::FEE_TIERS;

/// Maximum number of listed tokens whose pools are looked at: more would be thousands of questions.
const MOST_TOKENS: usize = 16;

/// An amount of a listed token, in whole tokens and dollars.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct AssetRow {
    /// Symbol of the token.
    pub(crate) symbol: String,
    /// Address of the token; the zero address is the native token.
    pub(crate) address: String,
    /// Amount in whole tokens.
    pub(crate) amount: String,
    /// Value in dollars; absent without a price.
    pub(crate) value_usd: Option<String>,
    #[serde(skip)]
    pub(crate) value: Option<Usd>,
    #[serde(skip)]
    pub(crate) asset: Address,
}

/// Protocol fees that a V3 pool owes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct OwedRow {
    /// Address of the pool.
    pub(crate) pool: String,
    /// Fee of the pool in hundredths of a basis point.
    pub(crate) fee: u32,
    /// Amounts that it owes of both tokens. One raw unit of each stays in the pool.
    pub(crate) owes: [AssetRow; 2],
    /// Value of both in dollars; absent without both prices.
    pub(crate) value_usd: Option<String>,
    #[serde(skip)]
    pub(crate) value: Option<Usd>,
    #[serde(skip)]
    pub(crate) address: Address,
}

/// The jar of a chain at one block. The three contracts were asked for each other.
#[derive(Debug)]
pub(crate) struct Jar {
    pub(crate) head: BlockPoint,
    pub(crate) jar: Address,
    pub(crate) releaser: Address,
    /// Adapter that collects the fees of V3 pools; `None` where the address book has none.
    pub(crate) adapter: Option<Address>,
    /// Token that a release costs.
    pub(crate) resource: TokenInfo,
    pub(crate) resource_address: Address,
    /// Cost of a release in raw units.
    pub(crate) threshold: U256,
    /// Number of the next release.
    pub(crate) nonce: U256,
    /// Listed tokens and the native token in the jar, the most valuable first; none of an amount of zero.
    pub(crate) assets: Vec<AssetRow>,
    prices: BTreeMap<Address, Usd>,
}

/// Error for contracts that contradict each other or do not answer.
fn inconsistent(chain: &ConnectedChain, what: &str) -> ToolError {
    ToolError::new(ErrorCode::ChainInconsistent, format_args!("{what} on {}", chain.network()))
}

impl Jar {
    /// Reads the jar at the newest block on which the endpoints agree.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` if the address book has no jar, `CHAIN_INCONSISTENT` if its contracts do not belong together, and the
    /// provider's errors.
    pub(crate) async fn read(chain: &ConnectedChain) -> Result<Self, ToolError> {
        let jar = chain.contract(KnownContract::TokenJar)?;
        let releaser = chain.contract(KnownContract::FeeReleaser)?;
        let adapter = chain.network().book.contract(KnownContract::V3FeeAdapter);
        let multicall = chain.contract(KnownContract::Multicall3)?;
        let head = blocks::newest(chain).await?;
        let tokens = chain.network().book.tokens();
        let mut calls = CallBatch::default();
        let of_jar = calls.push(jar, &TokenJar::releaserCall {});
        let of_releaser = calls.push(releaser, &Firepit::TOKEN_JARCall {});
        let of_adapter = adapter.map(|adapter| calls.push(adapter, &V3FeeAdapter::TOKEN_JARCall {}));
        let resource = calls.push(releaser, &Firepit::RESOURCECall {});
        let threshold = calls.push(releaser, &Firepit::thresholdCall {});
        let nonce = calls.push(releaser, &Firepit::nonceCall {});
        let coin = calls.push(multicall, &IMulticall3::getEthBalanceCall { addr: jar });
        let asked: Vec<_> = tokens
            .iter()
            .map(|token| (token.address, calls.push(token.address, &Erc20::balanceOfCall { owner: jar })))
            .collect();
        let answers = chain.ask_at(calls, head.hash).await?;
        let belongs = of_jar.take(&answers) == Some(releaser)
            && of_releaser.take(&answers) == Some(jar)
            && of_adapter.is_none_or(|asked| asked.take(&answers) == Some(jar));
        if !belongs {
            return Err(inconsistent(chain, "the contracts of protocol fees do not belong together"));
        }
        let silent = || inconsistent(chain, "the fee releaser does not answer");
        let resource_address = resource.take(&answers).ok_or_else(silent)?;
        let threshold = threshold.take(&answers).ok_or_else(silent)?;
        let nonce = nonce.take(&answers).ok_or_else(silent)?;
        let coin = coin.take(&answers).ok_or_else(silent)?;
        let mut held: Vec<(Address, U256)> =
            asked.iter().filter_map(|(token, asked)| Some((*token, asked.take(&answers)?))).collect();
        held.push((Address::ZERO, coin));
        held.retain(|(_, raw)| !raw.is_zero());
        let named = resource_address.to_string();
        let (resource, prices) = futures::join!(chain.token(&named), prices(chain, resource_address));
        let resource = resource?;
        let rows = held.iter().map(|(asset, raw)| asset_row(chain, &prices, *asset, *raw));
        let mut assets: Vec<AssetRow> = rows.collect::<Result<_, _>>()?;
        assets.sort_by(|one, other| other.value.cmp(&one.value).then_with(|| one.address.cmp(&other.address)));
        Ok(Self { head, jar, releaser, adapter, resource, resource_address, threshold, nonce, assets, prices })
    }

    /// Cost of a release in whole tokens.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for impossible decimals.
    pub(crate) fn cost(&self) -> Result<TokenAmount, ToolError> {
        Ok(TokenAmount::new(self.threshold, self.resource.decimals)?)
    }

    /// Cost of a release in dollars; `None` without a price.
    pub(crate) fn cost_usd(&self) -> Option<Usd> {
        let price = self.prices.get(&self.resource_address)?;
        Usd::value_of(self.cost().ok()?, *price, Rounding::Up).ok()
    }

    /// V3 pools of listed tokens that owe the protocol more than the unit that stays, the most valuable first. Their addresses follow
    /// from the factory's formula.
    ///
    /// # Errors
    /// The provider's errors.
    pub(crate) async fn owed(&self, chain: &ConnectedChain) -> Result<Vec<OwedRow>, ToolError> {
        let (Some(_), Some(factory)) = (self.adapter, chain.network().book.contract(KnownContract::V3Factory)) else {
            return Ok(Vec::new());
        };
        let mut tokens: Vec<Address> = chain.network().book.tokens().iter().map(|token| token.address).collect();
        tokens.truncate(MOST_TOKENS);
        tokens.sort_unstable();
        let mut calls = CallBatch::default();
        let mut asked = Vec::new();
        for (at, token0) in tokens.iter().enumerate() {
            for token1 in tokens.iter().skip(at + 1) {
                for (fee, _) in FEE_TIERS {
                    let pool = v3_pool(factory, *token0, *token1, fee, V3_POOL_INIT_CODE_HASH);
                    let call = calls.push(pool, &ProtocolFeePool::protocolFeesCall {});
                    asked.push((pool, fee, [*token0, *token1], call));
                }
            }
        }
        let answers = chain.ask_at(calls, self.head.hash).await?;
        let mut rows = Vec::new();
        for (pool, fee, tokens, call) in asked {
            let Some(owed) = call.take(&answers) else { continue };
            let left = [owed.token0, owed.token1].map(|owed| U256::from(owed.saturating_sub(1)));
            if left.iter().all(U256::is_zero) {
                continue;
            }
            let [first, second] = tokens;
            let owes =
                [asset_row(chain, &self.prices, first, left[0])?, asset_row(chain, &self.prices, second, left[1])?];
            let value = owes[0].value.zip(owes[1].value).and_then(|(first, second)| first.checked_add(second).ok());
            let value_usd = value.map(dollars);
            rows.push(OwedRow { pool: pool.to_string(), fee, owes, value_usd, value, address: pool });
        }
        rows.sort_by(|one, other| other.value.cmp(&one.value).then_with(|| one.pool.cmp(&other.pool)));
        Ok(rows)
    }
}

/// Prices of the listed tokens, of the native token under the zero address, and of the resource.
async fn prices(chain: &ConnectedChain, resource: Address) -> BTreeMap<Address, Usd> {
    let book = &chain.network().book;
    let mut tokens: Vec<Address> = book.tokens().iter().map(|token| token.address).collect();
    tokens.push(resource);
    tokens.extend(book.contract(KnownContract::WrappedNative));
    tokens.sort_unstable();
    tokens.dedup();
    let reports = chain.prices.prices(&tokens).await;
    let priced = tokens.iter().zip(reports.iter());
    let mut prices: BTreeMap<Address, Usd> =
        priced.filter_map(|(token, report)| Some((*token, report.price.as_ref()?.usd))).collect();
    let native = book.contract(KnownContract::WrappedNative).and_then(|wrapped| prices.get(&wrapped).copied());
    prices.extend(native.map(|price| (Address::ZERO, price)));
    prices
}

/// Dollars for a reader, in cents.
pub(crate) fn dollars(value: Usd) -> String {
    value.to_fixed(2, Rounding::Down)
}

fn asset_row(
    chain: &ConnectedChain,
    prices: &BTreeMap<Address, Usd>,
    asset: Address,
    raw: U256,
) -> Result<AssetRow, ToolError> {
    let network = chain.network();
    let native = TokenInfo::native(network);
    let (symbol, decimals) = match network.book.token_at(asset) {
        Some(token) => (token.symbol.clone(), token.decimals),
        None => (native.symbol.to_string(), native.decimals),
    };
    let amount = TokenAmount::new(raw, decimals)?;
    let value = prices.get(&asset).and_then(|price| Usd::value_of(amount, *price, Rounding::Down).ok());
    Ok(AssetRow {
        symbol,
        address: asset.to_string(),
        amount: amount.to_string(),
        value_usd: value.map(dollars),
        value,
        asset,
    })
}

/// Sum of the values that are known.
pub(crate) fn sum(values: impl Iterator<Item = Option<Usd>>) -> Result<Usd, ToolError> {
    let known = values.flatten().try_fold(Usd::ZERO, Usd::checked_add);
    known.map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error))
}
