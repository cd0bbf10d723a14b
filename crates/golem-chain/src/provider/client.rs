//! Client of one chain: its network, providers, health, and the source of state for simulations.

use super::{
    answer,
    dispute::{DisputeMark, DisputesSince},
    endpoint::Endpoint,
    error::{ProviderError, join},
    health::{ChainEndpointHealth, HealthHandle, HealthThresholds},
    http::{CappedHttp, HttpLimits},
    monitor::{EndpointMonitor, MonitorGuard, MonitorRules},
    retry::RetryRules,
    stack::EndpointStack,
};
use crate::{
    devnet::Devnet,
    network::{ChainPlan, Network, NetworkDescription, NetworkKind, WrongChainId},
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

/// A connected chain. Cheap to clone; the health monitor ends with the last clone.
#[derive(Clone)]
pub struct ChainClient(Arc<Inner>);

struct Inner {
    network: Network,
    provider: DynProvider,
    /// Provider over the same endpoints that requires all of them to agree; `None` with a single endpoint.
    witnessed: Option<DynProvider>,
    /// Provider over the same endpoints that decides by majority; `None` with a single endpoint.
    majority: Option<DynProvider>,
    health: HealthHandle,
    backing: ClientBackend,
    /// `None` for a client of one endpoint, whose chain's monitor watches all endpoints.
    _monitor: Option<MonitorGuard>,
}

/// Source of a [`ChainClient`]'s data.
#[derive(Debug, Clone)]
pub enum ClientBackend {
    /// A chain inside this process; simulations read its state directly.
    Devnet(Devnet),
    /// JSON-RPC endpoints of the chain.
    Endpoints(EndpointStack),
}

/// Limits and retry rules for endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectRules {
    /// Limits of one HTTP exchange.
    pub limits: HttpLimits,
    /// Retry rules for reads.
    pub retry: RetryRules,
}

/// Error for a chain that cannot be connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// An endpoint belongs to another chain than the expected one.
    #[error("{endpoint}: {source}")]
    WrongChain {
        /// Label of the endpoint.
        endpoint: SafeText,
        /// Expected and actual chain id.
        source: WrongChainId,
    },
    /// Two endpoints of one chain return different chain ids.
    #[error(
        "the endpoints of {chain} disagree: {first} returns chain id {first_id}, {second} returns {second_id}; remove \
         the wrong one"
    )]
    Disagree {
        /// Name of the requested chain.
        chain: String,
        /// Label of the first endpoint.
        first: SafeText,
        /// Chain id that the first endpoint returned.
        first_id: u64,
        /// Label of the second endpoint.
        second: SafeText,
        /// Chain id that the second endpoint returned.
        second_id: u64,
    },
    /// No endpoint returned its chain id.
    #[error("no endpoint of {chain} responds: {}", list(failures))]
    Silent {
        /// Name of the requested chain.
        chain: String,
        /// Failures of the endpoints.
        failures: Vec<ProviderError>,
    },
    /// A chain in this process has another id than the given network.
    #[error("wrong devnet chain: expected id {expected}, found id {found}")]
    OtherDevnet {
        /// Chain id of the given network.
        expected: u64,
        /// Chain id of the devnet's chain.
        found: u64,
    },
    /// The endpoints cannot be used at all.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl ChainClient {
    /// Connects to the endpoints of a plan: reads each chain id, determines the network, and starts the health monitor.
    /// Must be called on a tokio runtime.
    ///
    /// Endpoints that do not answer now are kept if at least one other does. An endpoint with another chain's id is an
    /// error, since the configuration is wrong.
    ///
    /// # Errors
    /// A [`ConnectError`] that names the endpoint and the expected chain.
    pub async fn connect(plan: &ChainPlan, rules: ConnectRules, clock: Arc<dyn Clock>) -> Result<Self, ConnectError> {
        let transports: Vec<CappedHttp> = plan
            .endpoints
            .iter()
            .map(|url| CappedHttp::new(url.clone(), rules.limits, Arc::clone(&clock)))
            .collect::<Result<_, _>>()?;
        // The chain id is not known yet, so these endpoints expect none. The lasting ones are created afterwards.
        let probes: Vec<Endpoint> = transports
            .iter()
            .map(|http| Endpoint::new(http.label().clone(), 0, http.clone(), HealthThresholds::default()))
            .collect();
        let network = settle(plan, &probes, rules.retry).await?;

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
        Ok(Self::watch(network, (provider, witnessed, majority), ClientBackend::Endpoints(stack), watched, clock))
    }

    /// Creates a client of a chain inside this process. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// [`ConnectError::OtherDevnet`] if the network describes another chain.
    pub fn devnet(network: Network, devnet: Devnet, clock: Arc<dyn Clock>) -> Result<Self, ConnectError> {
        if network.chain_id != devnet.chain_id() {
            return Err(ConnectError::OtherDevnet { expected: network.chain_id, found: devnet.chain_id() });
        }
        let provider = devnet.provider();
        let label = SafeText::clean("in this process", 40);
        let transport = provider.client().transport().clone();
        let endpoint = Endpoint::new(label, network.chain_id, transport, thresholds(&network));
        Ok(Self::watch(network, (provider, None, None), ClientBackend::Devnet(devnet), vec![endpoint], clock))
    }

    /// Network of the chain: name, id and address book.
    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// EIP-155 id of the chain, verified at every endpoint before use.
    pub fn chain_id(&self) -> u64 {
        self.0.network.chain_id
    }

    /// Provider without fillers: the sender sets nonces, gas and fees.
    pub fn provider(&self) -> &DynProvider {
        &self.0.provider
    }

    /// Provider whose answers all endpoints must give identically, for reads that money depends on. `None` with a
    /// single endpoint. Name the block by its hash, since endpoints that are a moment apart would contradict each
    /// other.
    pub fn witnessed(&self) -> Option<&DynProvider> {
        self.0.witnessed.as_ref()
    }

    /// Provider for reads of one block that money depends on. With several endpoints, all are queried in parallel and a
    /// strict majority decides. Contradictions are recorded (see [`Self::disputes_since`]), so that the caller can
    /// refuse actions that increase risk. With one endpoint it is the same as [`Self::provider`].
    ///
    /// Name the block by its hash. For the latest block, the answer is the highest block that two endpoints have
    /// reached.
    pub fn agreed(&self) -> &DynProvider {
        self.0.majority.as_ref().unwrap_or(&self.0.provider)
    }

    /// Provider and block for reading the newest state that money depends on: [`Self::agreed`], and the latest block.
    /// With several endpoints, that is the highest block that two have reached, named by its hash.
    ///
    /// # Errors
    /// A [`ProviderError`] if the latest block cannot be read.
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

    /// Current gas price in wei, for the gas reserve in the account and for comparing routes.
    ///
    /// With several endpoints it is the middle answer; of two the higher one, since too low a price would reserve too
    /// little. It is at least the base fee on which the endpoints agree. At most, it exceeds that base fee by the
    /// highest tip, or by the base fee itself if that is more.
    ///
    /// # Errors
    /// The failure of the first endpoint if none returns a price; with several endpoints, the failure to read the block
    /// on which they agree.
    pub async fn gas_price(&self) -> Result<u128, ProviderError> {
        let base_fee = async {
            if !self.has_several_endpoints() {
                return Ok::<_, ProviderError>(None);
            }
            let head =
                self.agreed().get_block_by_number(BlockNumberOrTag::Latest).await.map_err(ProviderError::from)?;
            Ok(head.and_then(|head| head.header.base_fee_per_gas).map(u128::from))
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
        let no_price = || ProviderError::Decode { detail: SafeText::clean("no endpoint returns a gas price", 60) };
        let middle = *prices.get(prices.len() / 2).ok_or_else(|| failure.unwrap_or_else(no_price))?;
        // Without the agreed base fee nothing would bound an answer.
        Ok(base_fee?
            .map_or(middle, |base| middle.clamp(base, base.saturating_add(base.max(FeeRules::default().most_tip)))))
    }

    /// Returns true if several endpoints are configured.
    pub fn has_several_endpoints(&self) -> bool {
        self.0.majority.is_some()
    }

    /// Current position in the record of contradictions between endpoints.
    pub fn dispute_mark(&self) -> DisputeMark {
        match &self.0.backing {
            ClientBackend::Devnet(_) => DisputeMark::default(),
            ClientBackend::Endpoints(stack) => stack.mark(),
        }
    }

    /// Contradictions between endpoints since `mark`; `None` if there are none.
    pub fn disputes_since(&self, mark: DisputeMark) -> Option<DisputesSince> {
        match &self.0.backing {
            ClientBackend::Devnet(_) => None,
            ClientBackend::Endpoints(stack) => stack.disputes_since(mark),
        }
    }

    /// Creates a client for each counted endpoint, in the operator's order, with the endpoint's label. Each client
    /// shows the chain as that endpoint describes it. Empty for a chain in this process.
    pub fn each_alone(&self) -> Vec<(SafeText, Self)> {
        let ClientBackend::Endpoints(stack) = &self.0.backing else { return Vec::new() };
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
                backing: ClientBackend::Endpoints(alone),
                _monitor: None,
            };
            Some((label, Self(Arc::new(inner))))
        });
        alone.collect()
    }

    /// Sends the same request to every endpoint that currently answers, for values that one endpoint could profit from
    /// misstating and that differ between honest endpoints. A chain in this process gives a single answer.
    pub async fn ask_each<T: RpcRecv + DeserializeOwned>(
        &self,
        method: &'static str,
        params: impl RpcSend,
    ) -> Vec<Result<T, ProviderError>> {
        let endpoints = match &self.0.backing {
            ClientBackend::Endpoints(stack) if stack.endpoints().len() > 1 => stack.endpoints(),
            ClientBackend::Endpoints(_) | ClientBackend::Devnet(_) => &[],
        };
        let asked = endpoints.iter().filter(|endpoint| endpoint.answers()).map(|endpoint| async {
            endpoint.verify().await?;
            endpoint.read::<T>(method, params.clone()).await
        });
        let answers = join_all(asked).await;
        if answers.iter().any(Result::is_ok) {
            return answers;
        }
        // With one endpoint, or if all fail, the stack's retries apply.
        vec![self.0.provider.raw_request(method.into(), params).await.map_err(ProviderError::from)]
    }

    /// Reads a value that does not depend on the block, such as a token's decimals, from a strict majority of the
    /// endpoints. Without a majority, each endpoint is read alone, and answers that `is_possible` rejects are dropped.
    /// If all remaining answers are equal, they count, so that an endpoint with an impossible answer blocks nothing.
    /// The contradiction stays on record (see [`Self::disputes_since`]).
    ///
    /// # Errors
    /// Errors of `read`; [`ProviderError::Disagreement`] if possible answers differ.
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

    /// Health of the chain at the latest poll.
    pub fn health(&self) -> ChainEndpointHealth {
        self.0.health.now()
    }

    /// Handle to wait for changes of the chain's health.
    pub fn health_handle(&self) -> HealthHandle {
        self.0.health.clone()
    }

    /// Source from which fork simulations take the chain's state.
    pub fn backing(&self) -> &ClientBackend {
        &self.0.backing
    }

    fn watch(
        network: Network,
        (provider, witnessed, majority): (DynProvider, Option<DynProvider>, Option<DynProvider>),
        backing: ClientBackend,
        endpoints: Vec<Endpoint>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let block = Duration::from_millis(network.block_millis);
        let interval = block.clamp(Duration::from_secs(2), Duration::from_secs(12));
        let rules = MonitorRules { interval, ..MonitorRules::default() };
        let (monitor, health) = EndpointMonitor::new(network.chain_id, endpoints, rules, clock);
        let _monitor = Some(monitor.spawn());
        Self(Arc::new(Inner { network, provider, witnessed, majority, health, backing, _monitor }))
    }
}

/// Creates a provider without fillers over a stack of endpoints.
pub(super) fn over(stack: EndpointStack, is_local: bool, block_time: Option<Duration>) -> DynProvider {
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

/// Reads every endpoint's chain id and determines the network.
pub(super) async fn settle(plan: &ChainPlan, probes: &[Endpoint], rules: RetryRules) -> Result<Network, ConnectError> {
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

/// Description that the endpoint gives of itself, if nothing else describes the chain. `None` for an ordinary node
/// without that method, and for an invalid answer.
async fn describe(plan: &ChainPlan, found: u64, probe: &Endpoint, rules: RetryRules) -> Option<NetworkDescription> {
    if plan.network.as_ref().is_some_and(|network| network.chain_id == found) {
        return None;
    }
    let answer: Box<RawValue> = again(rules, || probe.read("bardo_describe", [(); 0])).await.ok()?;
    NetworkDescription::parse(answer.get()).ok()
}

/// Repeats a request as often as reads are repeated, if the endpoint is reachable and only its answer failed. The
/// answer is used for the lifetime of the process, so a single lost answer must not decide.
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

/// Returns true if an endpoint that failed like this may answer a moment later.
fn may_pass(error: &ProviderError) -> bool {
    match error {
        ProviderError::Interrupted { .. } | ProviderError::Malformed { .. } | ProviderError::RateLimited { .. } => true,
        ProviderError::Http { status, .. } => *status >= 500 || matches!(status, 408 | 425),
        ProviderError::Rpc { code, .. } => answer::is_trouble_code(*code),
        // An endpoint that is unreachable or silent is not waited for.
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

/// Thresholds for slow and late endpoints of this network.
pub(super) fn thresholds(network: &Network) -> HealthThresholds {
    let block = Duration::from_millis(network.block_millis);
    match network.kind {
        // A devnet has its own time, which may stop or run ahead.
        NetworkKind::Devnet => HealthThresholds::default(),
        NetworkKind::Test | NetworkKind::Real => HealthThresholds::for_block_time(block),
    }
}

fn list(failures: &[ProviderError]) -> String {
    if failures.is_empty() {
        return "none is configured. Add one with --rpc NAME=URL, or as `rpc` of the chain in the configuration"
            .to_owned();
    }
    join(failures)
}
