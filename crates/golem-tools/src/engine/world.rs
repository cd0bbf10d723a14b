//! The world outside, as tools see it: the chains of one network, their prices, the wallet, the time.

use bardo_base::model::RuleName;
use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;

use crate::engine::acting::{Paper, PaperDesk};
use bardo_abi::erc20::Erc20;
use bardo_base::chance::Chance;
use bardo_base::clock::Clock;
use bardo_base::config::DEFAULT_INTENT_MARGIN;
use bardo_base::error::{ErrorCode, ToolError, Violation};
use bardo_base::units::{BasisPoints, Usd};
use bardo_safety::operator::OperatorRules;
use bardo_safety::orders::Orders;
use bardo_safety::policy::{ChainId, Policy, Preset, Scope};
use golem_chain::fork::{BalanceShift, Fork, NextBlock, Source};
use golem_chain::multicall::{Answers, Call, Calls};
use golem_chain::network::{Contract, Network, resolve};
use golem_chain::price::PriceChain;
use golem_chain::provider::{ChainClient, ConnectError, ProviderError};
use golem_chain::token::{self, Token, TokenId};
use golem_protocols::uniswap::discovery::{DiscoveryError, PoolReader};
use golem_protocols::uniswap::order::OrderKind;
use golem_protocols::uniswap::quote::{OwnRouter, QuoteSource};

/// The world outside, the same for every call of an executor.
#[derive(Debug, Clone)]
pub struct World {
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where the nonces of orders come from.
    pub chance: Chance,
    /// The account that tools look at where they are told no other.
    pub account: Option<Address>,
    /// Where quotes come from.
    pub quotes: Arc<dyn QuoteSource>,
    /// Margin below the fillers' bids at which a cross-chain intent asks, in basis points.
    pub intent_margin: BasisPoints,
    /// The operator's rules, where a ledger is open: they count calls, and tools can tell how they stand.
    pub rules: Option<Arc<OperatorRules>>,
    /// Signed orders and who settles them, where somebody is connected.
    pub orders: Option<Orders>,
    /// Which kind of auction is offered on which chain, where that is known without a ledger.
    auctions: BTreeMap<u64, OrderKind>,
    chains: Vec<WorldChain>,
    /// The networks of `chains`, in the same order.
    networks: Vec<Network>,
    lost: Vec<LostChain>,
    /// Paper mode, where there can be one.
    paper: Option<Paper>,
    /// The policy of calls that open no ledger.
    policy: Option<Arc<Policy>>,
    /// Chains that are there and that the policy does not allow, with its list in words.
    closed: Option<(Vec<Network>, String)>,
}

/// A chain that can be worked on.
#[derive(Debug, Clone)]
pub struct WorldChain {
    /// The way to it.
    pub client: ChainClient,
    /// What its tokens are worth.
    pub prices: PriceChain,
    /// Where simulations read from; keeps what it read.
    source: Source,
    /// Its pools, where the address book knows how to find them.
    pools: Result<Arc<PoolReader>, DiscoveryError>,
}

/// A chain that was configured and could not be reached when the world was made.
#[derive(Debug, Clone)]
pub struct LostChain {
    /// The name it was configured under.
    pub name: String,
    /// What is known of it without asking it.
    pub network: Option<Network>,
    /// Why it is not there.
    pub reason: ConnectError,
}

impl World {
    /// A world of these chains, with Bardo's own router for quotes. The first is the one that is meant where none is named.
    pub fn new(clock: Arc<dyn Clock>, account: Option<Address>, chains: Vec<WorldChain>, lost: Vec<LostChain>) -> Self {
        let networks = chains.iter().map(|chain| chain.client.network().clone()).collect();
        Self {
            clock,
            chance: Chance::machine(),
            account,
            quotes: Arc::new(OwnRouter),
            intent_margin: DEFAULT_INTENT_MARGIN,
            rules: None,
            orders: None,
            auctions: BTreeMap::new(),
            chains,
            networks,
            lost,
            paper: None,
            policy: None,
            closed: None,
        }
    }

    /// The same world with quotes from elsewhere.
    #[must_use]
    pub fn quoting_from(mut self, quotes: Arc<dyn QuoteSource>) -> Self {
        self.quotes = quotes;
        self
    }

    /// The same world under the operator's rules.
    #[must_use]
    pub fn under(mut self, rules: Arc<OperatorRules>) -> Self {
        self.rules = Some(rules);
        self
    }

    /// A copy of the world whose balances and limits are those of paper while paper mode is on.
    #[must_use]
    pub fn with_paper(mut self, paper: Option<Paper>) -> Self {
        self.paper = paper;
        self
    }

    /// The paper ledger while paper mode is on.
    pub fn paper(&self) -> Option<&PaperDesk> {
        self.paper.as_ref().and_then(Paper::in_force)
    }

    /// The operator's rules as they count now: on paper while paper mode is on.
    pub fn rules_in_force(&self) -> Option<&Arc<OperatorRules>> {
        self.paper().map(|paper| &paper.rules).or(self.rules.as_ref())
    }

    /// Shifts of an account's balances on a chain by actions on paper; empty while paper mode is off.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` where the paper ledger does not tell.
    pub fn shifts(&self, chain_id: u64, account: Address) -> Result<Vec<BalanceShift>, ToolError> {
        let Some(paper) = self.paper() else { return Ok(Vec::new()) };
        let shifts = paper.ledger.shifts(chain_id, account);
        shifts.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))
    }

    /// A balance of `account` as it counts now: on paper while paper mode is on, and otherwise `on_chain`, the chain's.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` where the paper ledger does not tell.
    pub fn balance(&self, chain_id: u64, account: Address, token: TokenId, on_chain: U256) -> Result<U256, ToolError> {
        let shifts = self.shifts(chain_id, account)?;
        let shift = shifts.iter().find(|shift| shift.token.map_or(TokenId::Native, TokenId::Erc20) == token);
        Ok(shift.map_or(on_chain, |shift| shift.apply(on_chain)))
    }

    /// The same world under a policy, for calls that open no ledger and so have no [`OperatorRules`].
    #[must_use]
    pub fn bound_by(mut self, policy: Arc<Policy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The policy in force; `None` where none is set up.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.rules.as_ref().map(|rules| rules.policy()).or_else(|| self.policy.clone())
    }

    /// The same world with only those of its chains that are allowed.
    pub(super) fn limited_to(self: &Arc<Self>, allowed: &Scope<ChainId>) -> Arc<Self> {
        let is_allowed = |network: &Network| allowed.allows(&ChainId(network.chain_id), false);
        if self.networks.iter().all(is_allowed) {
            return Arc::clone(self);
        }
        let mut limited = Self::clone(self);
        let (networks, closed) = limited.networks.into_iter().partition(is_allowed);
        limited.networks = networks;
        limited.chains.retain(|chain| is_allowed(chain.network()));
        limited.closed = Some((closed, allowed.words()));
        Arc::new(limited)
    }

    /// The world as each endpoint alone tells it, for proposals where the endpoints contradict each other without a
    /// majority. What is proposed from it is checked against all of them.
    pub(super) fn each_alone(&self) -> Vec<Arc<Self>> {
        let alone: Vec<_> = self.chains.iter().map(|chain| chain.client.each_alone()).collect();
        let most = alone.iter().map(Vec::len).max().unwrap_or(0);
        let of = |place: usize| {
            let chains = self.chains.iter().zip(&alone).map(|(chain, alone)| match alone.get(place) {
                Some((_, client)) => WorldChain::new(client.clone(), chain.prices.clone()),
                None => chain.clone(),
            });
            Arc::new(Self { chains: chains.collect(), ..self.clone() })
        };
        (0..most).map(of).collect()
    }

    /// The same world with somebody who settles signed orders.
    #[must_use]
    pub fn with_orders(mut self, orders: Option<Orders>) -> Self {
        self.orders = orders;
        self
    }

    /// The same world with the knowledge of which auctions are offered where, for calls that sign none.
    #[must_use]
    pub fn offering(mut self, auctions: BTreeMap<u64, OrderKind>) -> Self {
        self.auctions = auctions;
        self
    }

    /// The kind of auction that is offered on a chain; nothing where no order service is connected.
    pub fn auction(&self, chain_id: u64) -> Option<OrderKind> {
        let connected = self.orders.as_ref().and_then(|orders| orders.chain(chain_id).ok());
        let connected = connected.filter(|chain| chain.auctions.is_some()).map(|chain| chain.kind);
        connected.or_else(|| self.auctions.get(&chain_id).copied())
    }

    /// Dollars from which a swap that prefers an auction becomes one, by the policy; `None` for never.
    pub fn auction_from(&self) -> Option<Usd> {
        match self.policy() {
            Some(policy) => policy.rules().uniswapx_from_usd.0,
            None => Preset::DefiTrading.rules().uniswapx_from_usd.0,
        }
    }

    /// Signed orders and who settles them.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` where nobody is connected.
    pub fn orders(&self) -> Result<&Orders, ToolError> {
        self.orders.as_ref().ok_or_else(|| {
            ToolError::new(ErrorCode::ChainUnsupported, "no order service is connected, so no order can be settled")
        })
    }

    /// What signed orders of `account` may still take of a token, in raw units: by the ledger, so also where nobody is
    /// connected who would settle them. Without a ledger nothing was signed.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` where the ledger does not tell.
    pub fn promised(&self, chain_id: u64, account: Address, token: Address) -> Result<U256, ToolError> {
        if let Some(orders) = &self.orders {
            return Ok(orders.promised(chain_id, account, token)?);
        }
        let Some(rules) = &self.rules else { return Ok(U256::ZERO) };
        let promised = rules.promised(chain_id, account, token);
        promised.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))
    }

    /// Names of all configured chains, those out of reach included.
    pub fn chain_names(&self) -> impl Iterator<Item = &str> {
        let lost = self.lost.iter().map(|lost| lost.name.as_str());
        self.networks.iter().map(|network| network.name.as_str()).chain(lost)
    }

    /// The chains that can be worked on.
    pub fn chains(&self) -> &[WorldChain] {
        &self.chains
    }

    /// The same, for a caller that names no chain.
    ///
    /// # Errors
    /// `SAFETY_NOT_ALLOWED` where the policy leaves none of them.
    pub fn some_chains(&self) -> Result<&[WorldChain], ToolError> {
        match &self.closed {
            Some((closed, allowed)) if self.chains.is_empty() => match closed.first() {
                Some(network) => Err(not_allowed(network, allowed)),
                None => Ok(&self.chains),
            },
            Some(_) | None => Ok(&self.chains),
        }
    }

    /// The chains that were configured and are not there.
    pub fn lost(&self) -> &[LostChain] {
        &self.lost
    }

    /// The chain of that name, alias or decimal id.
    ///
    /// # Errors
    /// `CHAIN_UNREACHABLE` or `CHAIN_INCONSISTENT` for a chain that was configured and is not there, `SAFETY_NOT_ALLOWED`
    /// for one that the policy does not allow, `CHAIN_UNKNOWN` for any other.
    pub fn chain(&self, asked: &str) -> Result<&WorldChain, ToolError> {
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
        let meant = |lost: &&LostChain| {
            let known = lost.network.as_ref();
            lost.name.eq_ignore_ascii_case(asked.trim())
                || known.is_some_and(|network| resolve(asked, std::slice::from_ref(network)).is_ok())
        };
        match self.lost.iter().find(meant) {
            Some(lost) => Err(lost.reason.clone().into()),
            None => Err(unknown.into()),
        }
    }

    /// The account asked for, or the wallet's.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a text that is no address, `WALLET_NOT_CONFIGURED` where there is none; where no
    /// chain is there at all, why not, since which account is meant follows from the chains.
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

/// What an account holds of a token. In the order of what must not be overlooked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// There is no contract at the token's address.
    NoContract,
    /// The contract does not answer `balanceOf`.
    Unreadable,
    /// An amount in raw units.
    Amount(U256),
}

impl WorldChain {
    /// A chain with its prices.
    pub fn new(client: ChainClient, prices: PriceChain) -> Self {
        // One endpoint's pools may be its invention, and so may its latest block.
        let pools = PoolReader::new(client.agreed().clone(), client.network()).map(Arc::new);
        let source = Source::of(&client);
        Self { client, prices, source, pools }
    }

    /// The reader of its pools, which keeps what it read.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` where the address book has not what reading takes.
    pub fn pools(&self) -> Result<&Arc<PoolReader>, ToolError> {
        self.pools.as_ref().map_err(|error| error.clone().into())
    }

    /// Where simulations read from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// A fork of the chain at `block`.
    ///
    /// # Errors
    /// The chain's own failure, as a tool's error.
    pub async fn fork(&self, block: BlockId) -> Result<Fork, ToolError> {
        Ok(Fork::pin(&self.source, block, NextBlock::default()).await?)
    }

    /// The chain's name, id and address book.
    pub fn network(&self) -> &Network {
        self.client.network()
    }

    /// The token of that symbol or address.
    ///
    /// # Errors
    /// As [`token::resolve_by_majority`], as a tool's error.
    pub async fn token(&self, asked: &str) -> Result<Token, ToolError> {
        Ok(token::resolve_by_majority(asked, &self.client).await?)
    }

    /// The address of a contract on this chain.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` where the address book has none.
    pub fn contract(&self, contract: Contract) -> Result<Address, ToolError> {
        self.network().book.contract(contract).ok_or_else(|| {
            ToolError::new(
                ErrorCode::ChainUnsupported,
                format_args!("the address book of {} has no {}", self.network(), contract.key()),
            )
        })
    }

    /// Asks all calls of the newest block: with several endpoints of the newest one that two have reached, and a strict
    /// majority decides.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` without Multicall3, `CHAIN_INCONSISTENT` where the endpoints contradict each other without a
    /// majority, or the chain's own failure.
    pub async fn ask(&self, calls: Calls) -> Result<Answers, ToolError> {
        let multicall = self.contract(Contract::Multicall3)?;
        let (provider, block) = self.client.newest().await?;
        Ok(calls.send(provider, multicall, block).await?)
    }

    /// The same of the block with this hash.
    ///
    /// # Errors
    /// The same.
    pub async fn ask_at(&self, calls: Calls, block: B256) -> Result<Answers, ToolError> {
        Ok(calls.send(self.client.agreed(), self.contract(Contract::Multicall3)?, BlockId::hash(block)).await?)
    }

    /// What `owner` holds of each of `tokens` in the newest block. Where the endpoints contradict each other without a
    /// majority, the largest that any of them tells: what is to be sold or taken back must not be hidden by one, and what
    /// is not there fails in simulation.
    ///
    /// # Errors
    /// As [`Self::ask`], where no endpoint answers.
    pub async fn held(&self, owner: Address, tokens: &[Address]) -> Result<Vec<Held>, ToolError> {
        let agreed = self.balances(owner, tokens).await;
        let contradiction = match agreed {
            Err(error) if error.code() == ErrorCode::ChainInconsistent => error,
            agreed => return agreed,
        };
        let mut largest: Option<Vec<Held>> = None;
        for (_, client) in self.client.each_alone() {
            let Ok(told) = Self::new(client, self.prices.clone()).balances(owner, tokens).await else { continue };
            largest = Some(match largest {
                None => told,
                Some(known) => known.into_iter().zip(told).map(|(known, told)| known.max(told)).collect(),
            });
        }
        largest.ok_or(contradiction)
    }

    async fn balances(&self, owner: Address, tokens: &[Address]) -> Result<Vec<Held>, ToolError> {
        let mut calls = Calls::default();
        let asked: Vec<_> = tokens.iter().map(|token| calls.push(*token, &Erc20::balanceOfCall { owner })).collect();
        let answers = self.ask(calls).await?;
        let of = |call: &Call<Erc20::balanceOfCall>| match call.take(&answers) {
            Some(amount) => Held::Amount(amount),
            None if call.is_void(&answers) => Held::NoContract,
            None => Held::Unreadable,
        };
        Ok(asked.iter().map(of).collect())
    }

    /// Units of the chain's coin that `account` holds in the newest block, in wei.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn coin_of(&self, account: Address) -> Result<U256, ToolError> {
        let (provider, block) = self.client.newest().await?;
        Ok(provider.get_balance(account).block_id(block).await.map_err(ProviderError::from)?)
    }
}

/// The error of a chain that the policy does not allow; `allowed` is its list in words.
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

/// An address as a parameter carries it: 0x and 40 hexadecimal digits, the checksum of EIP-55
/// (<https://eips.ethereum.org/EIPS/eip-55>) right where the letters are of both cases.
///
/// # Errors
/// `VALIDATION_FAILED` that names the parameter.
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
