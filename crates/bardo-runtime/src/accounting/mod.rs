//! Profit and loss of the session's account: keeps its books up to date with the chains, compares them with balances,
//! and reads the report.

mod import;
mod native;
mod paper;
mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use futures::future::BoxFuture;
use serde::Serialize;

use super::depth::{confirmations, settings_of};
use bardo_accounting::books::{BookError, Shortage};
use bardo_accounting::csv::BooksMoney;
use bardo_accounting::entry::Entry;
use bardo_accounting::report::{self, Balance, Period, Report, Selection, Totals};
use bardo_accounting::tables::{self, PriceHistory, TokenFault};
use bardo_base::config::Config;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_safety::chain_snapshot::SnapshotReader;
use bardo_session::handle::{ChainHoldings, HoldingRow};
use bardo_store::{Store, StoreError};
use golem_chain::network::{self, DataFees, Network, NetworkKind};
use golem_chain::provider::ProviderError;
use golem_chain::sender::SenderRules;
use golem_chain::token::{TokenId, TokenInfo};
use golem_tools::engine::{AccountBooks, BooksSums, ConnectedChain};

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

/// Books of an account as tools see them.
#[derive(Clone)]
pub struct ToolBooks {
    keeper: BookKeeper,
    networks: Vec<Network>,
}

impl ToolBooks {
    /// Creates the books that `keeper` keeps on `chains`.
    pub fn new(keeper: BookKeeper, chains: &[ConnectedChain]) -> Self {
        Self { keeper, networks: chains.iter().map(|chain| chain.network().clone()).collect() }
    }
}

impl fmt::Debug for ToolBooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolBooks").field("account", &self.keeper.account).finish_non_exhaustive()
    }
}

impl AccountBooks for ToolBooks {
    fn account(&self) -> Address {
        self.keeper.account
    }

    fn since(&self, from: u64) -> BoxFuture<'_, Result<BooksSums, ToolError>> {
        Box::pin(async move {
            let updated = self.keeper.update().await.into_iter();
            let faults = updated.filter_map(|(chain, imported)| {
                imported.err().map(|error| SafeText::clean(&format!("{chain}: {error}"), 200))
            });
            let faults = faults.collect();
            let scope = ReportScope {
                period: Period { from, to: u64::MAX },
                account: Some(self.keeper.account),
                networks: &self.networks,
                money: ReportScope::money_of(&self.networks),
            };
            let unreadable = |error: AccountingError| ToolError::new(ErrorCode::StoreUnavailable, error);
            let Books { report, .. } = read(&self.keeper.store, &scope).map_err(unreadable)?;
            let net = report.totals.net().map_err(|error| unreadable(error.into()))?;
            let unrealised = report.unrealised().map_err(|error| unreadable(error.into()))?;
            let Totals { trades, realised, gas, fees, incomplete, .. } = report.totals;
            Ok(BooksSums { trades, realised, gas, fees, net, unrealised, incomplete, faults })
        })
    }
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
    /// Balance by the books; `None` if more went out than ever came in, or a sum does not fit 256 bits.
    pub books: Option<U256>,
    /// Balance by the chain.
    pub balance: U256,
}

impl BalanceCheck {
    /// True if both are equal to the last unit.
    pub fn is_even(&self) -> bool {
        self.books == Some(self.balance)
    }

    /// Difference as a sentence without its subject, such as `the chain has 0.5 more than the books`.
    pub fn describe(&self) -> String {
        let difference = self.difference();
        match (difference.strip_prefix('+'), difference.strip_prefix('-')) {
            (Some(more), _) => format!("the chain has {more} more than the books"),
            (_, Some(less)) => format!("the chain has {less} less than the books"),
            (None, None) if difference.is_empty() => "the chain and the books agree".to_owned(),
            (None, None) => format!("the books have no balance: {difference}"),
        }
    }

    /// Difference as text with its sign, such as `+0.5`, from the books to the chain; empty if there is none.
    pub fn difference(&self) -> String {
        let Some(books) = self.books else { return "more left than came, or a sum exceeds 256 bits".to_owned() };
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
        let asked = self.chains.iter().map(|(reader, _)| holdings_on(reader, account));
        let mut all = Vec::new();
        for answer in futures::future::join_all(asked).await {
            match answer {
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
        // Liquidity positions, supplies and debts of other accounts are not read.
        positions: Vec::new(),
        lending: None,
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
    let (entries, tokens) = store.read(|connection| {
        Ok::<_, StoreError>((tables::entries_of(connection, chain_id, account)?, tables::tokens(connection)?))
    })?;
    let mut books = report::balances(&entries);
    let listed: BTreeSet<Address> = network.book.tokens().iter().map(|token| token.address).collect();
    let also = books.keys().flatten().filter(|token| !listed.contains(*token)).filter_map(|address| {
        let facts = tokens.get(&(chain_id, Some(*address)))?;
        let id = TokenId::Erc20(*address);
        let (symbol, name) = (facts.symbol.clone(), SafeText::default());
        Some((id, TokenInfo { id, symbol, name, decimals: facts.decimals, listed: false }))
    });
    let balances = reader.readable_balances(account, &also.collect(), BlockId::hash(hash)).await?;
    let mut checks = Vec::new();
    for (id, (info, balance)) in balances {
        let token = import::token_of(id);
        let books = books.remove(&token).unwrap_or(Some(Balance::default())).and_then(Balance::held);
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

/// Kind of the money on a chain. Sums of different kinds mean nothing.
fn kind_of_money(chain_id: u64, networks: &[Network]) -> BooksMoney {
    let known = networks.iter().find(|network| network.chain_id == chain_id);
    match known.or_else(|| network::by_id(chain_id)).map(|network| network.kind) {
        Some(NetworkKind::Devnet) => BooksMoney::Play,
        Some(NetworkKind::Test) => BooksMoney::Test,
        // Unknown chains are assumed to be of this kind, as everywhere.
        Some(NetworkKind::Real) | None => BooksMoney::Real,
    }
}

/// Part of the books that a report is about: an account, and the networks with one kind of money.
#[derive(Debug, Clone)]
pub struct ReportScope<'a> {
    /// Period of the report.
    pub period: Period,
    /// Account of the report; `None` for all accounts.
    pub account: Option<Address>,
    /// Networks of the configuration.
    pub networks: &'a [Network],
    /// Kind of the money of the report. A devnet's ledger has no other, whatever its chains are.
    pub money: BooksMoney,
}

impl ReportScope<'_> {
    /// Kind of the money on the networks of a session.
    pub fn money_of(networks: &[Network]) -> BooksMoney {
        networks.first().map_or(BooksMoney::Real, |network| kind_of_money(network.chain_id, networks))
    }

    fn has_chain(&self, chain_id: u64) -> bool {
        match self.money {
            BooksMoney::Play => true,
            BooksMoney::Real | BooksMoney::Test | BooksMoney::Paper => {
                kind_of_money(chain_id, self.networks) == self.money
            }
        }
    }

    fn selection(&self, entries: &[Entry]) -> Selection {
        let chains: BTreeSet<u64> = entries.iter().map(|entry| entry.chain_id).collect();
        let chains = chains.into_iter().filter(|chain_id| self.has_chain(*chain_id)).collect();
        Selection { period: self.period, account: self.account, chains: Some(chains) }
    }
}

/// Report from the books, with the faults of tokens that concern it.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// Profit and loss.
    pub report: Report,
    /// Tokens that are not, or not wholly, in the report: chain, name and reason.
    pub faults: Vec<(u64, String, &'static str)>,
}

/// Reads the report of a period from the books in a database.
///
/// # Errors
/// [`AccountingError`] if the database fails, or a figure is out of range.
pub fn read(store: &Store, scope: &ReportScope<'_>) -> Result<Books, AccountingError> {
    let (entries, prices, tokens, faults) = store.read(|connection| {
        let tokens = tables::tokens(connection)?;
        let prices = PriceHistory::read(connection, &tokens)?;
        Ok::<_, StoreError>((tables::entries(connection)?, prices, tokens, tables::faults(connection)?))
    })?;
    let selection = scope.selection(&entries);
    let concerns = |chain_id: &u64, account: &Address| {
        scope.account.is_none_or(|own| own == *account) && scope.has_chain(*chain_id)
    };
    let report = report::build(entries, &prices, tokens, selection, Shortage::UnknownCost)?;
    let faults = faults.into_iter().filter(|((chain_id, account, _), _)| concerns(chain_id, account));
    let mut faults: Vec<(u64, String, &'static str)> = faults
        .map(|((chain_id, _, token), fault)| (chain_id, report.symbol(chain_id, token), fault.describe()))
        .collect();
    faults.extend(report.overflowed.iter().map(|asset| {
        let name = report.symbol(asset.chain_id, asset.token);
        (asset.chain_id, name, TokenFault::Overflow.describe())
    }));
    Ok(Books { report, faults })
}

/// Accounts that have entries in a ledger.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn accounts(store: &Store) -> Result<BTreeSet<Address>, StoreError> {
    Ok(store.read(tables::entries)?.into_iter().map(|entry| entry.account).collect())
}

/// Reads the report of a period from a paper ledger. Its lots begin with what the account held when it first gave
/// something. `real` is the ledger beside it, which describes the tokens and has prices of times without an action;
/// `None` if there is none.
///
/// # Errors
/// [`AccountingError`] if the database fails, or a figure is out of range.
pub fn read_paper(paper: &Store, real: Option<&Store>, scope: &ReportScope<'_>) -> Result<Books, AccountingError> {
    let described = real.map(|real| real.read(tables::tokens)).transpose()?.unwrap_or_default();
    let (entries, tokens, mut prices) = paper.read(|connection| paper::read(connection, described, scope.networks))?;
    if let Some(real) = real {
        prices.merge(real.read(|connection| PriceHistory::read(connection, &tokens))?);
    }
    let selection = scope.selection(&entries);
    let report = report::build(entries, &prices, tokens, selection, Shortage::HeldBefore)?;
    Ok(Books { report, faults: Vec::new() })
}
