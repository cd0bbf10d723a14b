//! Profit and loss of the session's account: keeps its books up to date with the chains, compares them with balances,
//! and reads the report.

mod import;
mod native;
mod paper;
mod summary;

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use serde::Serialize;

use super::depth::{confirmations, settings_of};
use bardo_accounting::books::{BookError, Shortage};
use bardo_accounting::report::{self, Period, Report};
use bardo_accounting::tables::{self, PriceHistory};
use bardo_base::config::Config;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_safety::chain_snapshot::SnapshotReader;
use bardo_session::handle::{ChainHoldings, HoldingRow};
use bardo_store::{Store, StoreError};
use golem_chain::network::DataFees;
use golem_chain::provider::ProviderError;
use golem_chain::sender::SenderRules;
use golem_chain::token::{TokenId, TokenInfo};
use golem_tools::engine::ConnectedChain;

pub use import::{ImportError, Imported, Importer};
pub use summary::summary;

/// Error of reading the books.
#[derive(Debug, thiserror::Error)]
pub enum AccountingError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A figure is out of range.
    #[error(transparent)]
    Books(#[from] BookError),
}

/// Keeper of one account's books on all connected chains. Cheap to clone.
#[derive(Clone)]
pub struct BookKeeper {
    chains: Vec<(SnapshotReader, u64)>,
    store: Store,
    account: Address,
}

/// Balance by the books and by the chain, in raw units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BalanceCheck {
    /// Name of the chain.
    pub chain: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Block at which both were compared.
    pub block: u64,
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Address of the token; `None` for the native one.
    pub token: Option<Address>,
    /// Decimals of the token.
    pub decimals: u8,
    /// Balance by the books; `None` if more went out than ever came in.
    pub books: Option<U256>,
    /// Balance by the chain.
    pub balance: U256,
}

impl BalanceCheck {
    /// True if both are equal to the last unit.
    pub fn is_even(&self) -> bool {
        self.books == Some(self.balance)
    }

    /// Difference as text with its sign, such as `+0.5`, from the books to the chain; empty if there is none.
    pub fn difference(&self) -> String {
        let Some(books) = self.books else { return "more left than came".to_owned() };
        let (sign, raw) = match self.balance.checked_sub(books) {
            Some(more) if more.is_zero() => return String::new(),
            Some(more) => ("+", more),
            None => ("-", books.saturating_sub(self.balance)),
        };
        TokenAmount::new(raw, self.decimals)
            .map_or_else(|_| format!("{sign}{raw} raw units"), |amount| format!("{sign}{amount}"))
    }
}

impl BookKeeper {
    /// Creates the keeper of `account` on `chains`. `store` has the ledger's tables.
    pub fn new(config: &Config, chains: &[ConnectedChain], store: Store, account: Address) -> Self {
        let reader = |chain: &ConnectedChain| {
            let network = chain.network();
            let depth = config.safety.minimum_pool_depth_usd.value;
            let mut reader = SnapshotReader::new(chain.client.clone(), chain.prices.clone(), depth);
            let settings = settings_of(config, network);
            if let Some(oracle) = settings.and_then(|settings| settings.data_fee_oracle.as_ref()) {
                reader = reader.charging(oracle.value.map_or(DataFees::None, DataFees::Oracle));
            }
            let usual = SenderRules::for_network(network.kind, network.block_millis).confirmations;
            (reader, confirmations(config, network).unwrap_or(usual))
        };
        Self { chains: chains.iter().map(reader).collect(), store, account }
    }

    /// Imports what the chains have since the last time, and returns the result for each chain by its name.
    pub async fn update(&self) -> Vec<(SafeText, Result<Imported, ImportError>)> {
        let mut all = Vec::new();
        for (reader, confirmations) in &self.chains {
            let (store, account) = (&self.store, self.account);
            let importer = Importer { reader, store, account, confirmations: *confirmations };
            all.push((SafeText::clean(&reader.network().name, 40), importer.run().await));
        }
        all
    }

    /// Present holdings of another account on the chains that answer, with their values where a price is known. Tokens
    /// of which it has none are left out.
    pub async fn holdings_of(&self, account: Address) -> Vec<ChainHoldings> {
        let mut all = Vec::new();
        for (reader, _) in &self.chains {
            match holdings_on(reader, account).await {
                Ok(holdings) => all.push(holdings),
                Err(error) => tracing::debug!(%error, %account, "the holdings of a watched account cannot be read"),
            }
        }
        all
    }

    /// Compares the books with the balances at their last block, on the chains that answer. Every token in the books is
    /// listed that either of them has.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub async fn reconcile(&self) -> Result<Vec<(SafeText, Result<Vec<BalanceCheck>, ImportError>)>, StoreError> {
        let mut all = Vec::new();
        for (reader, _) in &self.chains {
            let name = SafeText::clean(&reader.network().name, 40);
            all.push((name, reconcile_chain(reader, &self.store, self.account).await));
        }
        Ok(all)
    }
}

async fn holdings_on(reader: &SnapshotReader, account: Address) -> Result<ChainHoldings, ImportError> {
    let (provider, newest) = reader.client.newest().await?;
    let block = provider.get_block(newest).await.map_err(ProviderError::from)?;
    let block = block.ok_or(ImportError::Invalid("a block is missing"))?.header;
    let balances = reader.balances(account, &BTreeMap::new(), BlockId::hash(block.hash)).await?;
    let tokens: Vec<TokenId> = balances.keys().copied().collect();
    let spreads = reader.spreads_on(block.hash, &tokens, &[]).await;
    let held = balances.into_iter().filter(|(_, (_, amount))| !amount.is_zero());
    let row = |(id, (info, amount)): (TokenId, (TokenInfo, U256))| {
        let amount = TokenAmount::new(amount, info.decimals).ok()?;
        let price = spreads.get(id).ok().map(|spread| spread.held());
        let value = price.and_then(|price| Usd::value_of(amount, price, Rounding::Down).ok());
        Some(HoldingRow { symbol: info.symbol, amount, value })
    };
    let network = reader.network();
    Ok(ChainHoldings {
        chain: SafeText::clean(&network.name, 40),
        chain_id: network.chain_id,
        block: block.number,
        rows: held.filter_map(row).collect(),
    })
}

/// Compares an account's books with its balances at their last block.
///
/// # Errors
/// [`ImportError`] if the balances or the books cannot be read.
pub async fn reconcile_chain(
    reader: &SnapshotReader,
    store: &Store,
    account: Address,
) -> Result<Vec<BalanceCheck>, ImportError> {
    let network = reader.network();
    let chain_id = network.chain_id;
    let Some((number, hash)) = store.read(|connection| tables::last_block(connection, chain_id, account))? else {
        return Ok(Vec::new());
    };
    let (entries, tokens) =
        store.read(|connection| Ok::<_, StoreError>((tables::entries(connection)?, tables::tokens(connection)?)))?;
    let also = tokens.iter().filter(|((chain, _), _)| *chain == chain_id).filter_map(|((_, token), facts)| {
        let address = (*token)?;
        let listed = network.book.tokens().iter().any(|one| one.address == address);
        let id = TokenId::Erc20(address);
        let (symbol, name) = (facts.symbol.clone(), SafeText::default());
        (!listed).then_some((id, TokenInfo { id, symbol, name, decimals: facts.decimals, listed }))
    });
    let balances = reader.balances(account, &also.collect(), BlockId::hash(hash)).await?;
    let mut checks = Vec::new();
    for (id, (info, balance)) in balances {
        let token = import::token_of(id);
        let books = report::balance(&entries, chain_id, account, token).ok();
        if books == Some(U256::ZERO) && balance.is_zero() {
            continue;
        }
        checks.push(BalanceCheck {
            chain: SafeText::clean(&network.name, 40),
            chain_id,
            block: number,
            symbol: info.symbol,
            token,
            decimals: info.decimals,
            books,
            balance,
        });
    }
    Ok(checks)
}

/// Reads the report of a period from the books in a database.
///
/// # Errors
/// [`AccountingError`] if the database fails, or a figure is out of range.
pub fn read(store: &Store, period: Period) -> Result<Report, AccountingError> {
    let (entries, prices, tokens) = store.read(|connection| {
        let tokens = tables::tokens(connection)?;
        Ok::<_, StoreError>((tables::entries(connection)?, PriceHistory::read(connection, &tokens)?, tokens))
    })?;
    Ok(report::build(entries, &prices, tokens, period, Shortage::UnknownCost)?)
}

/// Reads the report of a period from a paper ledger. Its lots begin with what the account held when it first gave
/// something. `real` is the ledger beside it, which describes the tokens; `None` if there is none.
///
/// # Errors
/// [`AccountingError`] if the database fails, or a figure is out of range.
pub fn read_paper(paper: &Store, real: Option<&Store>, period: Period) -> Result<Report, AccountingError> {
    let described = real.map(|real| real.read(tables::tokens)).transpose()?.unwrap_or_default();
    let (entries, tokens, prices) = paper.read(|connection| paper::read(connection, described))?;
    Ok(report::build(entries, &prices, tokens, period, Shortage::HeldBefore)?)
}
