//! What the rest of the program holds of a chain: its network, a provider, its health, and where a simulation reads from.

use super::{
    answer,
    dispute::{DisputeMark, DisputesSince},
    endpoint::Endpoint,
    error::ProviderError,
    health::{ChainHealth, HealthHandle, Thresholds},
    http::{CappedHttp, HttpLimits},
    monitor::{Monitor, MonitorGuard, MonitorRules},
    retry::RetryRules,
    stack::EndpointStack,
};
use crate::{
    devnet::Devnet,
    network::{ChainPlan, Description, Network, NetworkKind, WrongChainId},
    sender::FeeRules,
};
use alloy::{
    eips::{BlockId, BlockNumberOrTag},
    primitives::U128,
    providers::{DynProvider, Provider, ProviderBuilder},
    rpc::{
        client::RpcClient,
        json_rpc::{RpcRecv, RpcSend},
    },
};
use bardo_base::{clock::Clock, config::RpcUrl, text::SafeText};
use futures::future::join_all;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::{fmt, sync::Arc, time::Duration};

/// One chain, connected. Cheap to clone; the health monitor ends with the last clone.
#[derive(Clone)]
pub struct ChainClient(Arc<Inner>);

struct Inner {
    network: Network,
    provider: DynProvider,
    /// The same endpoints, asked together; where there is one alone, nothing.
    witnessed: Option<DynProvider>,
    /// The same endpoints, asked together, of which a majority decides.
    majority: Option<DynProvider>,
    health: HealthHandle,
    backing: Backing,
    /// `None` for one endpoint of a chain whose monitor watches all of them.
    _monitor: Option<MonitorGuard>,
}

/// What stands behind a [`ChainClient`].
#[derive(Debug, Clone)]
pub enum Backing {
    /// A chain inside this process, whose state a simulation takes as it is.
    Devnet(Devnet),
    /// JSON-RPC endpoints.
    Endpoints(EndpointStack),
}

/// How endpoints are dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectRules {
    /// Limits of one exchange.
    pub limits: HttpLimits,
    /// When a read is asked again.
    pub retry: RetryRules,
}

/// Why a chain cannot be worked on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// An endpoint leads to another chain than the one that is meant.
    #[error("{endpoint}: {source}")]
    WrongChain {
        /// Which endpoint.
        endpoint: SafeText,
        /// Expected and found.
        source: WrongChainId,
    },
    /// Two endpoints of one chain lead to two chains.
    #[error(
        "the endpoints of {chain} disagree: {first} answers chain id {first_id}, {second} answers {second_id}; remove the wrong one"
    )]
    Disagree {
        /// The chain that was asked for.
        chain: String,
        /// One endpoint.
        first: SafeText,
        /// Its chain id.
        first_id: u64,
        /// Another endpoint.
        second: SafeText,
        /// Its chain id.
        second_id: u64,
    },
    /// No endpoint told its chain id.
    #[error("no endpoint of {chain} answers: {}", list(failures))]
    Silent {
        /// The chain that was asked for.
        chain: String,
        /// What happened at each.
        failures: Vec<ProviderError>,
    },
    /// A chain of this process under the name of another one.
    #[error("wrong devnet chain: expected id {expected}, found id {found}")]
    OtherDevnet {
        /// The id of the network that was meant.
        expected: u64,
        /// The chain's own.
        found: u64,
    },
    /// The endpoints cannot be used at all.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl ChainClient {
    /// Connects to the endpoints of a plan: asks each for its chain id, settles which network that
    /// is, and starts watching. Must be called on a tokio runtime.
    ///
    /// Endpoints that do not answer now are kept, as long as one does; one that answers another
    /// chain's id is an error at once, since it is a mistake in the configuration.
    ///
    /// # Errors
    /// A [`ConnectError`] that names the endpoint and what would be right.
    pub async fn connect(plan: &ChainPlan, rules: ConnectRules, clock: Arc<dyn Clock>) -> Result<Self, ConnectError> {
        let transports: Vec<CappedHttp> = plan
            .endpoints
            .iter()
            .map(|url| CappedHttp::new(url.clone(), rules.limits, Arc::clone(&clock)))
            .collect::<Result<_, _>>()?;
        let network = settle(plan, &transports, rules.retry).await?;

        let thresholds = thresholds(&network);
        let endpoints = transports
            .into_iter()
            .map(|http| Endpoint::new(http.label().clone(), network.chain_id, http, thresholds))
            .collect();
        let stack = EndpointStack::new(network.chain_id, endpoints, rules.retry)?;
        let block = Duration::from_millis(network.block_millis);
        let is_local = plan.endpoints.iter().all(RpcUrl::is_loopback);
        let provider = over(stack.clone(), is_local, Some(block));
        let watched = stack.endpoints().to_vec();
        let several = watched.len() > 1;
        let witnessed = several.then(|| over(stack.witnessed(), is_local, None));
        let majority = several.then(|| over(stack.by_majority(), is_local, None));
        Ok(Self::watch(network, (provider, witnessed, majority), Backing::Endpoints(stack), watched, clock))
    }

    /// A chain inside this process. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// [`ConnectError::OtherDevnet`] where the network describes another chain.
    pub fn devnet(network: Network, devnet: Devnet, clock: Arc<dyn Clock>) -> Result<Self, ConnectError> {
        if network.chain_id != devnet.chain_id() {
            return Err(ConnectError::OtherDevnet { expected: network.chain_id, found: devnet.chain_id() });
        }
        let provider = devnet.provider();
        let label = SafeText::clean("in this process", 40);
        let transport = provider.client().transport().clone();
        let endpoint = Endpoint::new(label, network.chain_id, transport, thresholds(&network));
        Ok(Self::watch(network, (provider, None, None), Backing::Devnet(devnet), vec![endpoint], clock))
    }

    /// The network: name, id, address book.
    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// The chain's id, proven at every endpoint before use.
    pub fn chain_id(&self) -> u64 {
        self.0.network.chain_id
    }

    /// A provider without fillers: nonces, gas and fees are the sender's business.
    pub fn provider(&self) -> &DynProvider {
        &self.0.provider
    }

    /// A provider whose every answer several endpoints have given alike, where there are several; for reads that money
    /// depends on. Name the block by its hash, or endpoints a moment apart contradict each other.
    pub fn witnessed(&self) -> Option<&DynProvider> {
        self.0.witnessed.as_ref()
    }

    /// A provider for reads of one block that money depends on. Where there are several endpoints, all are asked at the
    /// same time and a strict majority decides; every contradiction is on record (see [`Self::disputes_since`]), so that
    /// the caller can refuse what increases risk. Where there is one endpoint, the same as [`Self::provider`]. Name the
    /// block by its hash; asked for the latest block, it answers with the highest that two endpoints have reached.
    pub fn agreed(&self) -> &DynProvider {
        self.0.majority.as_ref().unwrap_or(&self.0.provider)
    }

    /// Where to read the newest state that money depends on: [`Self::agreed`], and the block to name. Of several endpoints
    /// the newest block is the highest that two have reached, named by its hash.
    ///
    /// # Errors
    /// What asking for the newest block fails with.
    pub async fn newest(&self) -> Result<(&DynProvider, BlockId), ProviderError> {
        let provider = self.agreed();
        if !self.has_several_endpoints() {
            return Ok((provider, BlockId::latest()));
        }
        let head = provider.get_block_by_number(BlockNumberOrTag::Latest).await.map_err(ProviderError::from)?;
        let head =
            head.ok_or_else(|| ProviderError::Decode { detail: SafeText::clean("there is no newest block", 60) })?;
        Ok((provider, BlockId::hash(head.header.hash)))
    }

    /// What a unit of gas costs now, in wei, for what is left in the account to pay it, and for comparing routes. Of several
    /// endpoints the middle answer counts, of two the higher one: too low a price would leave too little. One that is below
    /// the base fee on which they agree, or above it by more than the highest tip that is ever paid, counts as that bound.
    ///
    /// # Errors
    /// The failure of the first endpoint, where none answers with a price.
    pub async fn gas_price(&self) -> Result<u128, ProviderError> {
        let base_fee = async {
            if !self.has_several_endpoints() {
                return None;
            }
            let head = self.agreed().get_block_by_number(BlockNumberOrTag::Latest).await.ok().flatten()?;
            head.header.base_fee_per_gas.map(u128::from)
        };
        let (answers, base_fee) = futures::join!(self.ask_each::<U128>("eth_gasPrice", ()), base_fee);
        let mut failure = None;
        let mut prices: Vec<u128> = Vec::new();
        for answer in answers {
            match answer {
                Ok(price) => prices.push(price.to()),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        prices.sort_unstable();
        let untold = || ProviderError::Decode { detail: SafeText::clean("no endpoint tells a price of gas", 60) };
        let middle = *prices.get(prices.len() / 2).ok_or_else(|| failure.unwrap_or_else(untold))?;
        Ok(base_fee
            .map_or(middle, |base| middle.clamp(base, base.saturating_add(base.max(FeeRules::default().most_tip)))))
    }

    /// Whether several endpoints are configured.
    pub fn has_several_endpoints(&self) -> bool {
        self.0.majority.is_some()
    }

    /// A point in the record of contradictions between endpoints.
    pub fn dispute_mark(&self) -> DisputeMark {
        match &self.0.backing {
            Backing::Devnet(_) => DisputeMark::default(),
            Backing::Endpoints(stack) => stack.mark(),
        }
    }

    /// What endpoints contradicted each other about since `mark`; `None` if nothing.
    pub fn disputes_since(&self, mark: DisputeMark) -> Option<DisputesSince> {
        match &self.0.backing {
            Backing::Devnet(_) => None,
            Backing::Endpoints(stack) => stack.disputes_since(mark),
        }
    }

    /// One client for each endpoint that counts, in the operator's order, with the endpoint's label: the chain as each of
    /// them describes it. Empty for a chain in this process.
    pub fn each_alone(&self) -> Vec<(SafeText, Self)> {
        let Backing::Endpoints(stack) = &self.0.backing else { return Vec::new() };
        let is_local = self.0.provider.client().is_local();
        let alone = stack.counted().into_iter().filter_map(|index| {
            let label = stack.endpoints().get(index)?.label().clone();
            let alone = stack.alone(index)?;
            let provider = over(alone.clone(), is_local, None);
            let inner = Inner {
                network: self.0.network.clone(),
                provider,
                witnessed: None,
                majority: None,
                health: self.0.health.clone(),
                backing: Backing::Endpoints(alone),
                _monitor: None,
            };
            Some((label, Self(Arc::new(inner))))
        });
        alone.collect()
    }

    /// The same question to every endpoint that answers at all, for what one of them could gain by lying about and all
    /// cannot say alike. A chain in this process is asked alone.
    pub async fn ask_each<T: RpcRecv + DeserializeOwned>(
        &self,
        method: &'static str,
        params: impl RpcSend,
    ) -> Vec<Result<T, ProviderError>> {
        let endpoints = match &self.0.backing {
            Backing::Endpoints(stack) if stack.endpoints().len() > 1 => stack.endpoints(),
            Backing::Endpoints(_) | Backing::Devnet(_) => &[],
        };
        let asked = endpoints.iter().filter(|endpoint| endpoint.answers()).map(|endpoint| async {
            endpoint.verify().await?;
            endpoint.read::<T>(method, params.clone()).await
        });
        let answers = join_all(asked).await;
        if answers.iter().any(Result::is_ok) {
            return answers;
        }
        // One alone, or all have trouble: asked with all the patience of the stack.
        vec![self.0.provider.raw_request(method.into(), params).await.map_err(ProviderError::from)]
    }

    /// Reads by `read` what does not depend on the block, such as a token's decimals, from a strict majority of the
    /// endpoints. Where there is no majority, each endpoint is read alone, and the answer counts that is the only one
    /// possible by `is_possible`: an endpoint that gives an impossible answer holds nobody up. The contradiction stays on
    /// record (see [`Self::disputes_since`]).
    ///
    /// # Errors
    /// What `read` fails with; [`ProviderError::Disagreement`] where several possible answers differ.
    pub async fn read_possible<T: PartialEq, F: Future<Output = Result<T, ProviderError>>>(
        &self,
        read: impl Fn(DynProvider) -> F,
        is_possible: impl Fn(&T) -> bool,
    ) -> Result<T, ProviderError> {
        let agreed = read(self.agreed().clone()).await;
        if !matches!(agreed, Err(ProviderError::Disagreement { .. })) {
            return agreed;
        }
        let alone = self.each_alone().into_iter().map(|(_, client)| read(client.provider().clone()));
        let told = join_all(alone.collect::<Vec<_>>()).await;
        let mut possible = told.into_iter().flatten().filter(|told| is_possible(told));
        match possible.next() {
            Some(first) if possible.all(|other| other == first) => Ok(first),
            Some(_) | None => agreed,
        }
    }

    /// The health at the latest poll.
    pub fn health(&self) -> ChainHealth {
        self.0.health.now()
    }

    /// A handle by which to wait for changes of health.
    pub fn health_handle(&self) -> HealthHandle {
        self.0.health.clone()
    }

    /// What stands behind it: where a fork simulation takes its state from.
    pub fn backing(&self) -> &Backing {
        &self.0.backing
    }

    fn watch(
        network: Network,
        (provider, witnessed, majority): (DynProvider, Option<DynProvider>, Option<DynProvider>),
        backing: Backing,
        endpoints: Vec<Endpoint>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let block = Duration::from_millis(network.block_millis);
        let interval = block.clamp(Duration::from_secs(2), Duration::from_secs(12));
        let rules = MonitorRules { interval, ..MonitorRules::default() };
        let (monitor, health) = Monitor::new(network.chain_id, endpoints, rules, clock);
        let _monitor = Some(monitor.spawn());
        Self(Arc::new(Inner { network, provider, witnessed, majority, health, backing, _monitor }))
    }
}

/// A provider without fillers over a stack of endpoints.
fn over(stack: EndpointStack, is_local: bool, block_time: Option<Duration>) -> DynProvider {
    let mut client = RpcClient::new(stack, is_local);
    if let Some(block) = block_time {
        client = client.with_poll_interval(block.clamp(Duration::from_millis(250), Duration::from_secs(7)));
    }
    ProviderBuilder::new().disable_recommended_fillers().connect_client(client).erased()
}

impl fmt::Debug for ChainClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChainClient")
            .field("network", &self.0.network.name)
            .field("chain_id", &self.0.network.chain_id)
            .field("backing", &self.0.backing)
            .finish_non_exhaustive()
    }
}

/// Asks every endpoint for its chain id and decides which network that is.
async fn settle(plan: &ChainPlan, transports: &[CappedHttp], rules: RetryRules) -> Result<Network, ConnectError> {
    // These endpoints expect nothing yet; the lasting ones are made once the id is settled.
    let probes: Vec<Endpoint> = transports
        .iter()
        .map(|http| Endpoint::new(http.label().clone(), 0, http.clone(), Thresholds::default()))
        .collect();
    let asked = probes.iter().map(|probe| again(rules, move || probe.ask_chain_id()));
    let answers = join_all(asked).await;

    let mut failures = Vec::new();
    let mut settled: Option<(SafeText, Network)> = None;
    for (probe, answer) in probes.iter().zip(answers) {
        let found = match answer {
            Ok(found) => found,
            Err(error) => {
                failures.push(error);
                continue;
            }
        };
        match &settled {
            Some((first, network)) if network.chain_id != found => {
                return Err(ConnectError::Disagree {
                    chain: plan.name.clone(),
                    first: first.clone(),
                    first_id: network.chain_id,
                    second: probe.label().clone(),
                    second_id: found,
                });
            }
            Some(_) => {}
            None => {
                let described = describe(plan, found, probe, rules).await;
                let network = plan
                    .settle(found, described.as_ref())
                    .map_err(|source| ConnectError::WrongChain { endpoint: probe.label().clone(), source })?;
                settled = Some((probe.label().clone(), network));
            }
        }
    }
    settled.map(|(_, network)| network).ok_or_else(|| ConnectError::Silent { chain: plan.name.clone(), failures })
}

/// What the endpoint says of itself, where nothing else describes the chain. An endpoint that does
/// not know the question is an ordinary node, and an answer that cannot be read is as good as none.
async fn describe(plan: &ChainPlan, found: u64, probe: &Endpoint, rules: RetryRules) -> Option<Description> {
    if plan.network.as_ref().is_some_and(|network| network.chain_id == found) {
        return None;
    }
    let answer: Box<RawValue> = again(rules, || probe.read("bardo_describe", [(); 0])).await.ok()?;
    Description::parse(answer.get()).ok()
}

/// Asks until there is an answer, as often as a read is asked, where the endpoint is there and only this answer failed:
/// what it says now holds for as long as the program runs, so one lost answer must not decide it.
async fn again<T, F>(rules: RetryRules, ask: impl Fn() -> F) -> Result<T, ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    let mut round = 0;
    loop {
        match ask().await {
            Err(error) if may_pass(&error) && round + 1 < rules.rounds => {
                tokio::time::sleep(rules.wait_after(round)).await;
                round += 1;
            }
            told => return told,
        }
    }
}

/// Whether an endpoint that failed so may answer a moment later.
fn may_pass(error: &ProviderError) -> bool {
    match error {
        ProviderError::Interrupted { .. } | ProviderError::Malformed { .. } | ProviderError::RateLimited { .. } => true,
        ProviderError::Http { status, .. } => *status >= 500 || matches!(status, 408 | 425),
        ProviderError::Rpc { code, .. } => answer::is_trouble_code(*code),
        // One that is not there, or silent for all the time that it has, is not waited for.
        ProviderError::Unreachable { .. } | ProviderError::TimedOut { .. } => false,
        ProviderError::Disagreement { .. }
        | ProviderError::NoEndpoint { .. }
        | ProviderError::BadUrl { .. }
        | ProviderError::TooLarge { .. }
        | ProviderError::WrongChain { .. }
        | ProviderError::OutcomeUnknown { .. }
        | ProviderError::AllFailed { .. }
        | ProviderError::Decode { .. }
        | ProviderError::Local { .. } => false,
    }
}

/// From where on an endpoint of this network counts as slow or behind.
fn thresholds(network: &Network) -> Thresholds {
    let block = Duration::from_millis(network.block_millis);
    match network.kind {
        // Its time is its own: it may stand still or run ahead.
        NetworkKind::Devnet => Thresholds::default(),
        NetworkKind::Test | NetworkKind::Real => Thresholds::for_block_time(block),
    }
}

fn list(failures: &[ProviderError]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
}
