//! Environment of tool calls: the chains of one network, their prices, the account, the rules and the clock.

use bardo_base::model::RuleName;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;

use crate::engine::books::AccountBooks;
use crate::engine::keyring::{Faucet, SessionKeyring};
use crate::engine::wallets::WalletAdministration;
use crate::engine::write_access::{PaperMode, PaperTrading};
use crate::identity::{AgentIndex, Credential};
use bardo_abi::erc20::Erc20;
use bardo_base::clock::Clock;
use bardo_base::config::DEFAULT_INTENT_MARGIN;
use bardo_base::error::{ErrorCode, ToolError, Violation};
use bardo_base::rng::RandomSource;
use bardo_base::units::{BasisPoints, Usd};
use bardo_safety::AccountKind;
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::orders::Orders;
use bardo_safety::policy::{AllowedItems, ChainId, Policy, PolicyPreset};
use golem_chain::fork::{BalanceDelta, Fork, ForkSource, NextBlock};
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};
use golem_chain::network::{DataFees, KnownContract, Network, NetworkKind, resolve};
use golem_chain::price::PriceChain;
use golem_chain::provider::{ChainClient, ConnectError, ProviderError};
use golem_chain::token::{self, TokenId, TokenInfo};
use golem_protocols::aave::receipts::ReceiptTokens;
use golem_protocols::across::quote::FeeGateway;
use golem_protocols::erc8004::files::{AgentFiles, IpfsNode};
use golem_protocols::erc8004::subgraph::Subgraph;
use golem_protocols::uniswap::discovery::{DiscoveryError, PoolReader};
use golem_protocols::uniswap::order::OrderKind;
use golem_protocols::uniswap::positions::PositionKeys;
use golem_protocols::uniswap::quote::{LocalRouter, QuoteSource};

/// Environment shared by all calls of an executor.
#[derive(Debug, Clone)]
pub struct ToolEnvironment {
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Source of randomness for order nonces.
    pub rng: RandomSource,
    /// Account that tools use by default; `None` without a wallet.
    pub account: Option<Address>,
    /// Kind of that account, as far as it is known without its password.
    pub custody: Option<AccountKind>,
    /// Address that pays for its gas: itself, an owner of a Safe, or a session key.
    pub payer: Option<Address>,
    /// Source of swap quotes.
    pub quotes: Arc<dyn QuoteSource>,
    /// Margin of a cross-chain intent below the fillers' bids, in basis points.
    pub intent_margin: BasisPoints,
    /// Operator's rules, which count calls and report limits; `None` without a ledger.
    pub rules: Option<Arc<OperatorPolicyEngine>>,
    /// Registry of signed orders and connected order services; `None` without a ledger.
    pub orders: Option<Orders>,
    /// Books of the account; `None` without a ledger.
    pub books: Option<Arc<dyn AccountBooks>>,
    /// Credentials that this machine holds, without their values.
    pub credentials: Vec<Credential>,
    /// Session keys of the data folder; `None` without one.
    pub session_keys: Option<Arc<dyn SessionKeyring>>,
    /// Wallets and policy file of this machine; `None` for everyone without the scope `admin:wallet`.
    pub administration: Option<Arc<dyn WalletAdministration>>,
    /// Faucet of a devnet in this process; `None` elsewhere.
    pub faucet: Option<Arc<dyn Faucet>>,
    /// Auction kind per chain id, for calls without a ledger.
    auctions: BTreeMap<u64, OrderKind>,
    bridge_fees: BTreeMap<u64, Arc<dyn FeeGateway>>,
    chains: Vec<ConnectedChain>,
    /// Networks of `chains`, in the same order.
    networks: Vec<Network>,
    lost: Vec<UnavailableChain>,
    /// Readers of agents' files outside the chain.
    pub agent_files: AgentFileReaders,
    /// Paper mode switch; `None` if paper mode is not available.
    paper: Option<PaperMode>,
    /// Policy for calls that open no ledger.
    policy: Option<Arc<Policy>>,
    /// Connected chains that the policy forbids, with the policy's list as text.
    closed: Option<(Vec<Network>, String)>,
}

/// Connected chain with its client, prices and pools.
#[derive(Debug, Clone)]
pub struct ConnectedChain {
    /// RPC client of the chain.
    pub client: ChainClient,
    /// Price feeds of the chain's tokens.
    pub prices: PriceChain,
    /// Index of the chain's agents.
    pub agents: AgentIndex,
    /// Data fee that the chain charges in addition to gas; the network's default or the operator's setting.
    pub data_fees: DataFees,
    /// State source for simulations, with a cache.
    source: ForkSource,
    /// Reader of the chain's pools, or the reason why the address book does not support one.
    pools: Result<Arc<PoolReader>, DiscoveryError>,
    /// Pools and ranges of liquidity positions that earlier reads found.
    positions: Arc<PositionKeys>,
    /// Tokens that stand for supplies in the lending market.
    receipts: Arc<ReceiptTokens>,
}

/// Services for agents outside the chain: readers of their files by the kind of network, `None` where none are read; the
/// node that stores own ones; and subgraphs.
#[derive(Debug, Clone, Default)]
pub struct AgentFileReaders {
    /// Reader on public networks.
    pub public: Option<Arc<AgentFiles>>,
    /// Reader on devnets.
    pub devnet: Option<Arc<AgentFiles>>,
    /// IPFS node that stores the files of own agents; `None` where they are written to the chain.
    pub upload: Option<Arc<IpfsNode>>,
    /// Subgraphs of the registries by the EIP-155 id of their chain.
    pub subgraphs: BTreeMap<u64, Arc<Subgraph>>,
}

/// Configured chain that could not be reached at start.
#[derive(Debug, Clone)]
pub struct UnavailableChain {
    /// Configured name of the chain.
    pub name: String,
    /// Static description of the network, if known without a connection.
    pub network: Option<Network>,
    /// Reason why the connection failed.
    pub reason: ConnectError,
}

impl ToolEnvironment {
    /// Creates an environment with these chains and Bardo's own router as quote source. The first chain is the default
    /// for calls that name none.
    pub fn new(
        clock: Arc<dyn Clock>,
        account: Option<Address>,
        chains: Vec<ConnectedChain>,
        lost: Vec<UnavailableChain>,
    ) -> Self {
        let networks = chains.iter().map(|chain| chain.client.network().clone()).collect();
        Self {
            clock,
            rng: RandomSource::machine(),
            account,
            custody: None,
            payer: None,
            quotes: Arc::new(LocalRouter),
            intent_margin: DEFAULT_INTENT_MARGIN,
            rules: None,
            orders: None,
            books: None,
            credentials: Vec::new(),
            session_keys: None,
            administration: None,
            faucet: None,
            agent_files: AgentFileReaders::default(),
            auctions: BTreeMap::new(),
            bridge_fees: BTreeMap::new(),
            chains,
            networks,
            lost,
            paper: None,
            policy: None,
            closed: None,
        }
    }

    /// Replaces the quote source.
    #[must_use]
    pub fn quoting_from(mut self, quotes: Arc<dyn QuoteSource>) -> Self {
        self.quotes = quotes;
        self
    }

    /// Sets the operator's rules.
    #[must_use]
    pub fn under(mut self, rules: Arc<OperatorPolicyEngine>) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Sets the paper mode switch. While paper mode is on, balances and limits come from the paper ledger.
    #[must_use]
    pub fn with_paper(mut self, paper: Option<PaperMode>) -> Self {
        self.paper = paper;
        self
    }

    /// Returns the paper ledger while paper mode is on.
    pub fn paper(&self) -> Option<&PaperTrading> {
        self.paper.as_ref().and_then(PaperMode::in_force)
    }

    /// True while paper mode is on, with or without a paper ledger.
    pub fn is_on_paper(&self) -> bool {
        self.paper.as_ref().is_some_and(PaperMode::on)
    }

    /// Returns the operator's rules that apply now: those of the paper ledger while paper mode is on.
    pub fn rules_in_force(&self) -> Option<&Arc<OperatorPolicyEngine>> {
        self.paper().map(|paper| &paper.rules).or(self.rules.as_ref())
    }

    /// Returns the balance changes that paper actions made to an account on a chain; empty while paper mode is off.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the paper ledger cannot be read.
    pub fn shifts(&self, chain_id: u64, account: Address) -> Result<Vec<BalanceDelta>, ToolError> {
        let Some(paper) = self.paper() else { return Ok(Vec::new()) };
        let shifts = paper.ledger.shifts(chain_id, account);
        shifts.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))
    }

    /// Returns the effective balance of `account` in raw units: `on_chain`, adjusted by the paper ledger while paper
    /// mode is on.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the paper ledger cannot be read.
    pub fn balance(&self, chain_id: u64, account: Address, token: TokenId, on_chain: U256) -> Result<U256, ToolError> {
        let shifts = self.shifts(chain_id, account)?;
        let shift = shifts.iter().find(|shift| shift.token.map_or(TokenId::Native, TokenId::Erc20) == token);
        Ok(shift.map_or(on_chain, |shift| shift.apply(on_chain)))
    }

    /// Sets the policy for calls that open no ledger and therefore have no [`OperatorPolicyEngine`].
    #[must_use]
    pub fn bound_by(mut self, policy: Arc<Policy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Returns the reader of agents' files outside the chain; `None` where none are read.
    pub fn agent_files(&self, network: &Network) -> Option<&AgentFiles> {
        let AgentFileReaders { public, devnet, .. } = &self.agent_files;
        if network.kind == NetworkKind::Devnet { devnet.as_deref() } else { public.as_deref() }
    }

    /// Returns the address whose key signs the transactions of `account` and pays for their gas: itself, or, for the account
    /// that acts, an owner of a Safe or a session key.
    pub fn signer_of(&self, account: Address) -> Address {
        self.payer.filter(|_| self.account == Some(account)).unwrap_or(account)
    }

    /// Returns the policy in force; `None` if none is set up.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.rules.as_ref().map(|rules| rules.policy()).or_else(|| self.policy.clone())
    }

    /// Returns an environment with only the allowed chains.
    pub(super) fn limited_to(self: &Arc<Self>, allowed: &AllowedItems<ChainId>) -> Arc<Self> {
        let is_allowed = |network: &Network| allowed.allows(&ChainId(network.chain_id), false);
        if self.networks.iter().all(is_allowed) {
            return Arc::clone(self);
        }
        let mut limited = Self::clone(self);
        let (networks, closed) = limited.networks.into_iter().partition(is_allowed);
        limited.networks = networks;
        limited.chains.retain(|chain| is_allowed(chain.network()));
        limited.closed = Some((closed, allowed.describe()));
        Arc::new(limited)
    }

    /// Returns one environment per endpoint, each of which reads from that endpoint alone. Used for proposals when the
    /// endpoints contradict each other without a majority. The pipeline still checks such proposals against all
    /// endpoints.
    pub(super) fn each_alone(&self) -> Vec<Arc<Self>> {
        let alone: Vec<_> = self.chains.iter().map(|chain| chain.client.each_alone()).collect();
        let most = alone.iter().map(Vec::len).max().unwrap_or(0);
        let of = |place: usize| {
            let chains = self.chains.iter().zip(&alone).map(|(chain, alone)| match alone.get(place) {
                Some((_, client)) => {
                    ConnectedChain::new(client.clone(), chain.prices.clone()).charging(chain.data_fees)
                }
                None => chain.clone(),
            });
            Arc::new(Self { chains: chains.collect(), ..self.clone() })
        };
        (0..most).map(of).collect()
    }

    /// Keeps the indexes of agents in this database, which is created at the first reading of one.
    #[must_use]
    pub fn keeping_agents(self, database: &Path) -> Self {
        self.chains.iter().for_each(|chain| chain.agents.keep_in(database.to_owned()));
        self
    }

    /// Sets the registry of signed orders and order services.
    #[must_use]
    pub fn with_orders(mut self, orders: Option<Orders>) -> Self {
        self.orders = orders;
        self
    }

    /// Sets the books of the account.
    #[must_use]
    pub fn with_books(mut self, books: Option<Arc<dyn AccountBooks>>) -> Self {
        self.books = books;
        self
    }

    /// Sets the auction kinds per chain id, for calls that sign no orders.
    #[must_use]
    pub fn offering(mut self, auctions: BTreeMap<u64, OrderKind>) -> Self {
        self.auctions = auctions;
        self
    }

    /// Sets the services that quote bridge deposits, by the chain id of the source, for calls that sign nothing.
    #[must_use]
    pub fn quoting_deposits(mut self, services: BTreeMap<u64, Arc<dyn FeeGateway>>) -> Self {
        self.bridge_fees = services;
        self
    }

    /// Returns the service that quotes deposits from a chain; `None` if none is connected.
    pub fn bridge_fees(&self, chain_id: u64) -> Option<Arc<dyn FeeGateway>> {
        let connected = self.orders.as_ref().and_then(|orders| orders.chain(chain_id).ok());
        let connected = connected.and_then(|chain| chain.deposits.clone());
        connected.or_else(|| self.bridge_fees.get(&chain_id).cloned())
    }

    /// Returns the auction kind on a chain; `None` if no order service is connected.
    pub fn auction(&self, chain_id: u64) -> Option<OrderKind> {
        let connected = self.orders.as_ref().and_then(|orders| orders.chain(chain_id).ok());
        let connected = connected.filter(|chain| chain.auctions.is_some()).map(|chain| chain.kind);
        connected.or_else(|| self.auctions.get(&chain_id).copied())
    }

    /// Returns the policy's minimum value of a swap that prefers an auction, in dollars; `None` if the policy allows no
    /// auctions.
    pub fn auction_from(&self) -> Option<Usd> {
        match self.policy() {
            Some(policy) => policy.rules().uniswapx_from_usd.0,
            None => PolicyPreset::DefiTrading.rules().uniswapx_from_usd.0,
        }
    }

    /// Returns the registry of signed orders and order services.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` if no order service is connected.
    pub fn orders(&self) -> Result<&Orders, ToolError> {
        self.orders.as_ref().ok_or_else(|| {
            ToolError::new(ErrorCode::ChainUnsupported, "no order service is connected, so no order can be settled")
        })
    }

    /// Returns the amount of a token that signed open orders of `account` may still take, in raw units. The figure
    /// comes from the ledger, so it needs no order service. Without a ledger no order was signed, and the amount is
    /// zero.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the ledger cannot be read.
    pub fn promised(&self, chain_id: u64, account: Address, token: Address) -> Result<U256, ToolError> {
        if let Some(orders) = &self.orders {
            return Ok(orders.promised(chain_id, account, token)?);
        }
        let Some(rules) = &self.rules else { return Ok(U256::ZERO) };
        let promised = rules.promised(chain_id, account, token);
        promised.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))
    }

    /// Iterates over the names of all configured chains, including unreachable ones.
    pub fn chain_names(&self) -> impl Iterator<Item = &str> {
        let lost = self.lost.iter().map(|lost| lost.name.as_str());
        self.networks.iter().map(|network| network.name.as_str()).chain(lost)
    }

    /// Name of the network that the session is on: its configured chains, reached or not and allowed or not, in
    /// alphabetical order.
    pub fn network_name(&self) -> String {
        let mut names: Vec<&str> = self.chain_names().collect();
        names.sort_unstable();
        names.dedup();
        names.join("+")
    }

    /// Returns the connected chains.
    pub fn chains(&self) -> &[ConnectedChain] {
        &self.chains
    }

    /// Returns the connected chains, for a caller that names no chain.
    ///
    /// # Errors
    /// `SAFETY_NOT_ALLOWED` if the policy forbids all of them.
    pub fn some_chains(&self) -> Result<&[ConnectedChain], ToolError> {
        match &self.closed {
            Some((closed, allowed)) if self.chains.is_empty() => match closed.first() {
                Some(network) => Err(not_allowed(network, allowed)),
                None => Ok(&self.chains),
            },
            Some(_) | None => Ok(&self.chains),
        }
    }

    /// Returns the configured chains that could not be reached.
    pub fn lost(&self) -> &[UnavailableChain] {
        &self.lost
    }

    /// Finds a chain by name, alias or decimal id.
    ///
    /// # Errors
    /// The connection error for a configured but unreachable chain, `SAFETY_NOT_ALLOWED` for a chain that the policy
    /// forbids, `CHAIN_UNKNOWN` for any other.
    pub fn chain(&self, asked: &str) -> Result<&ConnectedChain, ToolError> {
        let unknown = match resolve(asked, &self.networks) {
            Ok(found) => {
                let chain = self.chains.iter().find(|chain| chain.client.chain_id() == found.chain_id);
                return chain.ok_or_else(|| ToolError::new(ErrorCode::ChainUnknown, format_args!("no chain {found}")));
            }
            Err(unknown) => unknown,
        };
        if let Some((closed, allowed)) = &self.closed
            && let Ok(network) = resolve(asked, closed)
        {
            return Err(not_allowed(network, allowed));
        }
        let meant = |lost: &&UnavailableChain| {
            let known = lost.network.as_ref();
            lost.name.eq_ignore_ascii_case(asked.trim())
                || known.is_some_and(|network| resolve(asked, std::slice::from_ref(network)).is_ok())
        };
        match self.lost.iter().find(meant) {
            Some(lost) => Err(lost.reason.clone().into()),
            None => Err(unknown.into()),
        }
    }

    /// Returns the account named by `asked`, or the wallet's account.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for text that is not an address, `WALLET_NOT_CONFIGURED` without a wallet. If no chain is
    /// connected at all, the connection error, because the account depends on the chains.
    pub fn account(&self, asked: Option<&str>) -> Result<Address, ToolError> {
        match asked {
            Some(text) => address(text, "account"),
            None => self.account.ok_or_else(|| match self.lost.first() {
                Some(lost) if self.chains.is_empty() => lost.reason.clone().into(),
                _ => ToolError::new(ErrorCode::WalletNotConfigured, "no account is set up, and the call names none"),
            }),
        }
    }
}

/// Token balance of an account. Ordered by precedence when the endpoints' answers are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenHolding {
    /// No contract exists at the token's address.
    NoContract,
    /// The contract does not answer `balanceOf`.
    Unreadable,
    /// Balance in raw units.
    Amount(U256),
}

impl ConnectedChain {
    /// Creates a chain with its price feeds.
    pub fn new(client: ChainClient, prices: PriceChain) -> Self {
        // Pools are read by agreement of the endpoints: a single endpoint could invent pools, and its latest block too.
        let pools = PoolReader::new(client.agreed().clone(), client.network()).map(Arc::new);
        let source = ForkSource::of(&client);
        let data_fees = client.network().data_fees;
        let (positions, receipts) = (Arc::default(), Arc::default());
        Self { client, prices, agents: AgentIndex::default(), data_fees, source, pools, positions, receipts }
    }

    /// Sets how the chain charges data fees.
    #[must_use]
    pub fn charging(mut self, data_fees: DataFees) -> Self {
        self.data_fees = data_fees;
        self
    }

    /// Returns the pool reader, which caches pools.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` if the address book lacks a contract that the reader needs.
    pub fn pools(&self) -> Result<&Arc<PoolReader>, ToolError> {
        self.pools.as_ref().map_err(|error| error.clone().into())
    }

    /// Pools and ranges of liquidity positions that earlier reads found, which make a reading one round trip.
    pub fn positions(&self) -> &PositionKeys {
        &self.positions
    }

    /// Tokens that stand for supplies in the lending market, with which a reading shows in one round trip whether an
    /// account uses the market.
    pub fn receipts(&self) -> &ReceiptTokens {
        &self.receipts
    }

    /// Returns the state source for simulations.
    pub fn source(&self) -> &ForkSource {
        &self.source
    }

    /// Forks the chain at `block`.
    ///
    /// # Errors
    /// Returns the provider's error, as a tool error.
    pub async fn fork(&self, block: BlockId) -> Result<Fork, ToolError> {
        Ok(Fork::pin(&self.source, block, NextBlock::default()).await?)
    }

    /// Returns the chain's name, id and address book.
    pub fn network(&self) -> &Network {
        self.client.network()
    }

    /// Moment from which the deadlines and expirations of what is signed here run, in seconds since the Unix epoch.
    /// `chain` is the time of the chain's latest block; see
    /// [`BlockTimes::moment`](bardo_base::clock::BlockTimes::moment).
    pub fn deadline_time(&self, clock: &dyn Clock, chain: u64) -> u64 {
        self.network().times(clock.now_seconds(), chain).deadline_time()
    }

    /// The token of that symbol or address.
    ///
    /// # Errors
    /// The errors of [`token::resolve_by_majority`], as tool errors.
    pub async fn token(&self, asked: &str) -> Result<TokenInfo, ToolError> {
        Ok(token::resolve_by_majority(asked, &self.client).await?)
    }

    /// Returns the address of a contract on this chain.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` if the address book does not contain it.
    pub fn contract(&self, contract: KnownContract) -> Result<Address, ToolError> {
        self.network().book.contract(contract).ok_or_else(|| {
            ToolError::new(
                ErrorCode::ChainUnsupported,
                format_args!("the address book of {} has no {}", self.network(), contract.key()),
            )
        })
    }

    /// Sends all calls in one Multicall3 call to the newest block. With several endpoints, it is the newest block that
    /// two endpoints have reached, and a strict majority decides each answer.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` without Multicall3, `CHAIN_INCONSISTENT` if the endpoints contradict each other without a
    /// majority, or the provider's error.
    pub async fn ask(&self, calls: CallBatch) -> Result<BatchResults, ToolError> {
        let multicall = self.contract(KnownContract::Multicall3)?;
        let (provider, block) = self.client.newest().await?;
        Ok(calls.send(provider, multicall, block).await?)
    }

    /// Sends all calls in one Multicall3 call to the block with this hash.
    ///
    /// # Errors
    /// The same as for [`Self::ask`].
    pub async fn ask_at(&self, calls: CallBatch, block: B256) -> Result<BatchResults, ToolError> {
        Ok(calls.send(self.client.agreed(), self.contract(KnownContract::Multicall3)?, BlockId::hash(block)).await?)
    }

    /// Reads the balances of `owner` in the newest block, in the order of `tokens`. If the endpoints contradict each
    /// other without a majority, the largest answer of any endpoint counts. One endpoint must not hide a balance that
    /// is to be sold or an allowance that is to be revoked; a balance that does not exist fails in simulation.
    ///
    /// # Errors
    /// The same as for [`Self::ask`], if no endpoint answers.
    pub async fn held(&self, owner: Address, tokens: &[Address]) -> Result<Vec<TokenHolding>, ToolError> {
        let agreed = self.balances(owner, tokens).await;
        let contradiction = match agreed {
            Err(error) if error.code() == ErrorCode::ChainInconsistent => error,
            agreed => return agreed,
        };
        let mut largest: Option<Vec<TokenHolding>> = None;
        for (_, client) in self.client.each_alone() {
            let Ok(told) = Self::new(client, self.prices.clone()).balances(owner, tokens).await else { continue };
            largest = Some(match largest {
                None => told,
                Some(known) => known.into_iter().zip(told).map(|(known, told)| known.max(told)).collect(),
            });
        }
        largest.ok_or(contradiction)
    }

    async fn balances(&self, owner: Address, tokens: &[Address]) -> Result<Vec<TokenHolding>, ToolError> {
        let mut calls = CallBatch::default();
        let asked: Vec<_> = tokens.iter().map(|token| calls.push(*token, &Erc20::balanceOfCall { owner })).collect();
        let answers = self.ask(calls).await?;
        let of = |call: &CallIndex<Erc20::balanceOfCall>| match call.take(&answers) {
            Some(amount) => TokenHolding::Amount(amount),
            None if call.is_void(&answers) => TokenHolding::NoContract,
            None => TokenHolding::Unreadable,
        };
        Ok(asked.iter().map(of).collect())
    }

    /// Returns the native token balance of `account` in the newest block, in wei.
    ///
    /// # Errors
    /// Returns the provider's error.
    pub async fn native_balance(&self, account: Address) -> Result<U256, ToolError> {
        let (provider, block) = self.client.newest().await?;
        Ok(provider.get_balance(account).block_id(block).await.map_err(ProviderError::from)?)
    }
}

/// Builds the error for a chain that the policy forbids; `allowed` is the policy's list as text.
fn not_allowed(network: &Network, allowed: &str) -> ToolError {
    let chain = ChainId(network.chain_id).to_string();
    ToolError::new(
        ErrorCode::SafetyNotAllowed,
        format_args!("the policy allows only these chains: {allowed}; {chain} is not one of them"),
    )
    .suggest("Name an allowed chain, or ask the operator to add this one to allowed_chains.")
    .violating(&[Violation::new(
        RuleName::AllowedChains,
        allowed.to_owned(),
        chain,
        "the same call on an allowed chain",
    )])
}

/// Parses an address parameter: 0x and 40 hexadecimal digits. Mixed-case input must have a valid checksum (EIP-55,
/// <https://eips.ethereum.org/EIPS/eip-55>).
///
/// # Errors
/// `VALIDATION_FAILED`, with the name of the parameter.
pub fn address(text: &str, parameter: &str) -> Result<Address, ToolError> {
    let text = text.trim();
    let bad = |what: &str| {
        ToolError::new(ErrorCode::ValidationFailed, format_args!("parameter `{parameter}`: '{text}' {what}"))
            .detail("parameter", parameter)
    };
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let address: Address = digits
        .filter(|digits| digits.len() == 40)
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| bad("is not an address: expected 0x and 40 hexadecimal digits"))?;
    let digits = digits.unwrap_or_default();
    let mixed = digits.bytes().any(|b| b.is_ascii_lowercase()) && digits.bytes().any(|b| b.is_ascii_uppercase());
    if mixed && address.to_checksum(None).get(2..) != Some(digits) {
        return Err(bad("has a wrong checksum: a character was changed; copy the address again from its source"));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_their_checksum() {
        // The examples of EIP-55.
        for good in [
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "0XFB6916095CA1DF60BB79CE92CE3EA74C37C5D359",
        ] {
            assert!(address(good, "spender").is_ok(), "{good}");
        }
        for (bad, wanted) in [
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", "wrong checksum"),
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeA", "40 hexadecimal digits"),
            ("permit2", "40 hexadecimal digits"),
            ("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg", "40 hexadecimal digits"),
        ] {
            let error = address(bad, "spender").unwrap_err();
            assert!(error.message().contains(wanted) && error.message().contains("`spender`"), "{error}");
        }
    }
}
