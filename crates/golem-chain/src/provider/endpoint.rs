//! A single endpoint: verification of its chain id, and its health.

use super::{
    answer,
    dispute::{self, Dispute},
    error::{ProviderError, TEXT_LIMIT},
    health::{BlockHead, EndpointCondition, EndpointHealth, HealthThresholds, RequestOutcome},
    http::{CappedHttp, HttpLimits},
};
use alloy::{
    primitives::U64,
    rpc::json_rpc::{Id, Request, RequestPacket, ResponsePacket, ResponsePayload, RpcSend},
    transports::{BoxTransport, IntoBoxTransport, TransportError},
};
use bardo_base::{clock::Clock, config::RpcUrl, text::SafeText};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, de::DeserializeOwned};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::Instant;
use tower::Service as _;

/// One endpoint of a chain. Clones share its statistics.
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    label: SafeText,
    transport: BoxTransport,
    chain_id: u64,
    thresholds: HealthThresholds,
    state: Mutex<State>,
    /// Locked while the chain id is read, so that concurrent first requests read it once.
    verifying: tokio::sync::Mutex<()>,
}

struct State {
    health: EndpointHealth,
    cooling_until: Option<Instant>,
    disputed_at: Option<Instant>,
}

/// Failure of an attempt, by whether the packet may have been sent.
pub(super) enum AttemptFailure {
    /// The endpoint was not reached, or refused before the packet was sent.
    NotSent(ProviderError),
    /// The packet was sent, or may have been.
    MaybeSent(ProviderError),
}

impl AttemptFailure {
    pub(super) fn into_error(self) -> ProviderError {
        match self {
            Self::NotSent(error) | Self::MaybeSent(error) => error,
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("label", &self.0.label).field("chain_id", &self.0.chain_id).finish()
    }
}

impl Endpoint {
    /// Creates an HTTP endpoint of chain `chain_id`.
    ///
    /// # Errors
    /// [`ProviderError::BadUrl`] for a URL that is not HTTP; [`ProviderError::Local`] if TLS cannot be initialised.
    pub fn http(
        url: RpcUrl,
        chain_id: u64,
        limits: HttpLimits,
        thresholds: HealthThresholds,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ProviderError> {
        let http = CappedHttp::new(url, limits, clock)?;
        Ok(Self::new(http.label().clone(), chain_id, http, thresholds))
    }

    /// Creates an endpoint behind any transport, such as the devnet's in-process one.
    pub fn new(label: SafeText, chain_id: u64, transport: impl IntoBoxTransport, thresholds: HealthThresholds) -> Self {
        let state = State { health: EndpointHealth::new(label.clone()), cooling_until: None, disputed_at: None };
        Self(Arc::new(Inner {
            label,
            transport: transport.into_box_transport(),
            chain_id,
            thresholds,
            state: Mutex::new(state),
            verifying: tokio::sync::Mutex::new(()),
        }))
    }

    /// Label of the endpoint in messages.
    pub fn label(&self) -> &SafeText {
        &self.0.label
    }

    /// EIP-155 id of the chain that the endpoint must serve.
    pub fn chain_id(&self) -> u64 {
        self.0.chain_id
    }

    /// Current health of the endpoint.
    pub fn health(&self) -> EndpointHealth {
        let mut state = self.state();
        if state.disputed_at.is_some_and(|at| at.elapsed() > dispute::KEPT_FOR) {
            state.disputed_at = None;
            state.health.dispute = None;
        }
        state.health.clone()
    }

    /// Records a contradiction with other endpoints.
    pub(super) fn disputed(&self, dispute: &Dispute) {
        let mut state = self.state();
        state.disputed_at = Some(Instant::now());
        state.health.dispute = Some(dispute.clone());
    }

    /// Remaining time of the pause that the endpoint asked for; `None` if there is none.
    pub(super) fn cooling(&self) -> Option<Duration> {
        let left = self.state().cooling_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Returns true if the endpoint is neither down nor in a pause it asked for. Slow or late endpoints count as
    /// answering.
    pub(super) fn answers(&self) -> bool {
        !self.is_down() && self.cooling().is_none()
    }

    /// Returns true after several consecutive failures.
    pub(super) fn is_down(&self) -> bool {
        match self.health().condition() {
            EndpointCondition::Healthy | EndpointCondition::Unproven | EndpointCondition::Degraded => false,
            EndpointCondition::Down => true,
        }
    }

    /// Returns true if the endpoint has stalled: its own latest block was too old at the last poll.
    pub(super) fn is_stalled(&self) -> bool {
        self.state().health.is_old(&self.0.thresholds)
    }

    /// Sends the packet once, after verifying the chain id.
    pub(super) async fn ask(&self, packet: RequestPacket) -> Result<ResponsePacket, AttemptFailure> {
        self.verify().await.map_err(AttemptFailure::NotSent)?;
        self.exchange(packet).await.map_err(|error| {
            if error.nothing_sent() { AttemptFailure::NotSent(error) } else { AttemptFailure::MaybeSent(error) }
        })
    }

    /// Verifies the chain id, reading it unless it is known.
    ///
    /// # Errors
    /// [`ProviderError::WrongChain`], or the failure of the request.
    pub async fn verify(&self) -> Result<(), ProviderError> {
        if self.known_chain()? {
            return Ok(());
        }
        let _alone = self.0.verifying.lock().await;
        if self.known_chain()? {
            return Ok(());
        }
        self.verify_again().await
    }

    /// Verifies the chain id even if it is known, since the host behind a URL can change.
    pub(super) async fn verify_again(&self) -> Result<(), ProviderError> {
        let found = self.ask_chain_id().await?;
        self.state().health.learn_chain(found, self.0.chain_id);
        self.known_chain().map(|_| ())
    }

    /// Chain id that the endpoint returns, without verification.
    pub(super) async fn ask_chain_id(&self) -> Result<u64, ProviderError> {
        let found: U64 = self.read("eth_chainId", [(); 0]).await?;
        Ok(found.to())
    }

    /// Reads number and time of the latest block.
    ///
    /// # Errors
    /// [`ProviderError`] if the endpoint does not answer or the answer does not decode.
    pub async fn head(&self) -> Result<BlockHead, ProviderError> {
        #[derive(Deserialize)]
        struct BlockFields {
            number: U64,
            timestamp: U64,
        }
        let block: BlockFields = self.read("eth_getBlockByNumber", ("latest", false)).await?;
        let head = BlockHead { number: block.number.to(), timestamp: block.timestamp.to() };
        self.state().health.head = Some(head);
        Ok(head)
    }

    /// Records lag and age of the latest block, as computed by the monitor.
    pub(super) fn judge(&self, lag_blocks: u64, age: Option<Duration>) {
        let mut state = self.state();
        state.health.lag_blocks = Some(lag_blocks);
        state.health.age = age;
    }

    /// Records the outcome of one request.
    pub(super) fn observe(&self, outcome: RequestOutcome) {
        let mut state = self.state();
        state.health.observe(&self.0.thresholds, outcome);
    }

    /// Sends a single call of the stack itself.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: impl RpcSend,
    ) -> Result<T, ProviderError> {
        let request = Request::new(method, Id::Number(1), params).serialize().map_err(TransportError::ser_err)?;
        let decode = |detail: String| ProviderError::Decode { detail: SafeText::clean(&detail, TEXT_LIMIT) };
        match self.exchange(RequestPacket::Single(request)).await? {
            ResponsePacket::Single(response) => match response.payload {
                ResponsePayload::Success(raw) => {
                    serde_json::from_str(raw.get()).map_err(|error| decode(format!("{method}: {error}")))
                }
                ResponsePayload::Failure(error) => Err(TransportError::err_resp(error).into()),
            },
            ResponsePacket::Batch(_) => Err(decode(format!("{method}: a list"))),
        }
    }

    async fn exchange(&self, packet: RequestPacket) -> Result<ResponsePacket, ProviderError> {
        let started = Instant::now();
        let mut transport = self.0.transport.clone();
        let answer = match transport.call(packet.clone()).await {
            Ok(answer) => answer::check(&packet, answer, &self.0.label),
            Err(error) => Err(error.into()),
        };
        self.account(started.elapsed(), &answer);
        answer
    }

    fn account(&self, latency: Duration, answer: &Result<ResponsePacket, ProviderError>) {
        match answer {
            Ok(packet) if answer::is_rate_limited(packet) => self.cool(None),
            Ok(_) => self.observe(RequestOutcome::Answered { latency }),
            Err(ProviderError::RateLimited { retry_after, .. }) => self.cool(*retry_after),
            // The request was too wide, which says nothing about the endpoint.
            Err(ProviderError::TooLarge { .. }) => {}
            Err(error) => {
                self.observe(RequestOutcome::Failed { error: SafeText::clean(&error.to_string(), TEXT_LIMIT) })
            }
        }
    }

    fn cool(&self, wait: Option<Duration>) {
        if let Some(wait) = wait {
            self.state().cooling_until = Some(Instant::now() + wait);
        }
        self.observe(RequestOutcome::Refused { error: SafeText::clean("rate limited", TEXT_LIMIT) });
    }

    /// Returns true if the chain id is known, and fails with [`ProviderError::WrongChain`] if it is another chain's.
    fn known_chain(&self) -> Result<bool, ProviderError> {
        match self.state().health.chain_id {
            None => Ok(false),
            Some(found) if found == self.0.chain_id => Ok(true),
            Some(found) => {
                Err(ProviderError::WrongChain { endpoint: self.0.label.clone(), expected: self.0.chain_id, found })
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}
