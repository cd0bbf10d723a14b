//! One endpoint: the proof that it is the right chain, and what is known of how well it works.

use super::{
    answer,
    dispute::{self, Dispute},
    error::{ProviderError, TEXT_LIMIT},
    health::{Condition, EndpointHealth, Head, Outcome, Thresholds},
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

/// One endpoint of a chain. Cloning shares its statistics.
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    label: SafeText,
    transport: BoxTransport,
    chain_id: u64,
    thresholds: Thresholds,
    state: Mutex<State>,
    /// Held while the chain id is being asked, so that many first requests ask once.
    verifying: tokio::sync::Mutex<()>,
}

struct State {
    health: EndpointHealth,
    cooling_until: Option<Instant>,
    disputed_at: Option<Instant>,
}

/// How an attempt failed: whether the packet itself may have left.
pub(super) enum Failure {
    /// The endpoint was not reached, or refused before the packet was sent.
    NotSent(ProviderError),
    /// The packet left, or may have.
    MaybeSent(ProviderError),
}

impl Failure {
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
    /// An HTTP endpoint of chain `chain_id`.
    ///
    /// # Errors
    /// [`ProviderError::BadUrl`] for a WebSocket URL; [`ProviderError::Local`] if TLS cannot be set
    /// up on this machine.
    pub fn http(
        url: RpcUrl,
        chain_id: u64,
        limits: HttpLimits,
        thresholds: Thresholds,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ProviderError> {
        let http = CappedHttp::new(url, limits, clock)?;
        Ok(Self::new(http.label().clone(), chain_id, http, thresholds))
    }

    /// An endpoint behind any transport, such as the devnet's in-process one.
    pub fn new(label: SafeText, chain_id: u64, transport: impl IntoBoxTransport, thresholds: Thresholds) -> Self {
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

    /// Its name in messages.
    pub fn label(&self) -> &SafeText {
        &self.0.label
    }

    /// The chain it must be an endpoint of.
    pub fn chain_id(&self) -> u64 {
        self.0.chain_id
    }

    /// What is known of it now.
    pub fn health(&self) -> EndpointHealth {
        let mut state = self.state();
        if state.disputed_at.is_some_and(|at| at.elapsed() > dispute::KEPT_FOR) {
            state.disputed_at = None;
            state.health.dispute = None;
        }
        state.health.clone()
    }

    /// Puts a contradiction with other endpoints on its record.
    pub(super) fn disputed(&self, dispute: &Dispute) {
        let mut state = self.state();
        state.disputed_at = Some(Instant::now());
        state.health.dispute = Some(dispute.clone());
    }

    /// How long it still asks to be left alone, if it does.
    pub(super) fn cooling(&self) -> Option<Duration> {
        let left = self.state().cooling_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Whether it answers at all, as far as is known: neither down nor asking to be left alone. One that is slow or behind
    /// does.
    pub(super) fn answers(&self) -> bool {
        !self.is_down() && self.cooling().is_none()
    }

    /// True after so many failures in a row that nobody waits for it.
    pub(super) fn is_down(&self) -> bool {
        match self.health().condition() {
            Condition::Healthy | Condition::Unproven | Condition::Degraded => false,
            Condition::Down => true,
        }
    }

    /// Whether its own latest block was too old when it was told last: it has come to a stand.
    pub(super) fn stands_still(&self) -> bool {
        self.state().health.is_old(&self.0.thresholds)
    }

    /// Asks the packet once, after the chain id has been proven.
    pub(super) async fn ask(&self, packet: RequestPacket) -> Result<ResponsePacket, Failure> {
        self.verify().await.map_err(Failure::NotSent)?;
        self.exchange(packet)
            .await
            .map_err(|error| if error.nothing_sent() { Failure::NotSent(error) } else { Failure::MaybeSent(error) })
    }

    /// Asks for the chain id unless it is known, and compares.
    ///
    /// # Errors
    /// [`ProviderError::WrongChain`], or why no answer came.
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

    /// Asks for the chain id even if it is known: the host behind an URL can change.
    pub(super) async fn verify_again(&self) -> Result<(), ProviderError> {
        let found = self.ask_chain_id().await?;
        self.state().health.learn_chain(found, self.0.chain_id);
        self.known_chain().map(|_| ())
    }

    /// The chain id as the endpoint tells it, compared with nothing.
    pub(super) async fn ask_chain_id(&self) -> Result<u64, ProviderError> {
        let found: U64 = self.read("eth_chainId", [(); 0]).await?;
        Ok(found.to())
    }

    /// Number and time of the latest block.
    ///
    /// # Errors
    /// [`ProviderError`] if it does not answer, or with something else.
    pub async fn head(&self) -> Result<Head, ProviderError> {
        #[derive(Deserialize)]
        struct Block {
            number: U64,
            timestamp: U64,
        }
        let block: Block = self.read("eth_getBlockByNumber", ("latest", false)).await?;
        let head = Head { number: block.number.to(), timestamp: block.timestamp.to() };
        self.state().health.head = Some(head);
        Ok(head)
    }

    /// Takes in how far behind it is, judged by the monitor.
    pub(super) fn judge(&self, lag_blocks: u64, age: Option<Duration>) {
        let mut state = self.state();
        state.health.lag_blocks = Some(lag_blocks);
        state.health.age = age;
    }

    /// Takes in one outcome.
    pub(super) fn observe(&self, outcome: Outcome) {
        let mut state = self.state();
        state.health.observe(&self.0.thresholds, outcome);
    }

    /// One call of our own, outside any packet of the program.
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
            Ok(_) => self.observe(Outcome::Answered { latency }),
            Err(ProviderError::RateLimited { retry_after, .. }) => self.cool(*retry_after),
            // The question was too wide, which says nothing about the endpoint.
            Err(ProviderError::TooLarge { .. }) => {}
            Err(error) => self.observe(Outcome::Failed { error: SafeText::clean(&error.to_string(), TEXT_LIMIT) }),
        }
    }

    fn cool(&self, wait: Option<Duration>) {
        if let Some(wait) = wait {
            self.state().cooling_until = Some(Instant::now() + wait);
        }
        self.observe(Outcome::Refused { error: SafeText::clean("rate limited", TEXT_LIMIT) });
    }

    /// Whether the chain id is known.
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
