//! Several endpoints of one chain as one alloy transport. See the room's page for the promises.

use super::{
    agree, answer,
    endpoint::{Endpoint, Failure},
    error::{ProviderError, TEXT_LIMIT},
    method::{Replay, once_method, replay_of},
    retry::RetryRules,
};
use crate::base::text::SafeText;
use alloy::{
    rpc::json_rpc::{RequestPacket, ResponsePacket},
    transports::{TransportError, TransportFut},
};
use std::{
    sync::Arc,
    task::{Context, Poll},
};
use tokio::time::Instant;

/// A `tower` service from request packets to response packets over one or more endpoints.
#[derive(Debug, Clone)]
pub struct EndpointStack {
    inner: Arc<Inner>,
    /// Whether several endpoints must say the same, whatever is asked.
    witnessed: bool,
}

#[derive(Debug)]
struct Inner {
    chain_id: u64,
    endpoints: Vec<Endpoint>,
    rules: RetryRules,
}

impl EndpointStack {
    /// A stack over `endpoints`, preferred in the order given among those that are equally well.
    ///
    /// # Errors
    /// [`ProviderError::NoEndpoint`] if there is none.
    pub fn new(chain_id: u64, endpoints: Vec<Endpoint>, rules: RetryRules) -> Result<Self, ProviderError> {
        if endpoints.is_empty() {
            return Err(ProviderError::NoEndpoint { chain_id });
        }
        Ok(Self { inner: Arc::new(Inner { chain_id, endpoints, rules }), witnessed: false })
    }

    /// The endpoints, in the operator's order.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.inner.endpoints
    }

    /// The same endpoints, which must say the same to be believed.
    pub fn witnessed(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), witnessed: true }
    }
}

impl tower::Service<RequestPacket> for EndpointStack {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let (inner, witnessed) = (Arc::clone(&self.inner), self.witnessed);
        Box::pin(async move { inner.ask(packet, witnessed).await.map_err(TransportError::from) })
    }
}

impl Inner {
    async fn ask(&self, packet: RequestPacket, witnessed: bool) -> Result<ResponsePacket, ProviderError> {
        if packet.is_empty() {
            return Ok(ResponsePacket::Batch(Vec::new()));
        }
        match replay_of(&packet) {
            Replay::Free if self.endpoints.len() > 1 && agree::is_asked_of_several(&packet, witnessed) => {
                self.agreed(packet).await
            }
            Replay::Free => self.read(packet, &|_| true).await.map(|(answer, _)| answer),
            Replay::Once => self.once(packet).await,
        }
    }

    /// A read: round after round over the endpoints that are `heard` until one answers. A batch is answered whole
    /// by one endpoint, so that its members speak of one view of the chain. An endpoint that lacks the block in
    /// question may be behind, and one that has trouble of its own may soon be over it: the others are asked, and it
    /// again, before its refusal counts.
    /// Says which endpoint it was.
    async fn read(
        &self,
        packet: RequestPacket,
        heard: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<(ResponsePacket, usize), ProviderError> {
        let deadline = Instant::now() + self.rules.total;
        let mut failures: Vec<Option<ProviderError>> = vec![None; self.endpoints.len()];
        let mut refused = None;
        for round in 0..self.rules.rounds.max(1) {
            for (index, endpoint) in self.by_preference().into_iter().filter(|(index, _)| heard(*index)) {
                let Some(slot) = failures.get_mut(index) else { continue };
                if slot.as_ref().is_some_and(is_final) || endpoint.cooling().is_some() || Instant::now() >= deadline {
                    continue;
                }
                match endpoint.ask(packet.clone()).await {
                    Ok(answer) if answer::is_rate_limited(&answer) => {
                        let endpoint = endpoint.label().clone();
                        *slot = Some(ProviderError::RateLimited { endpoint, retry_after: None });
                    }
                    Ok(answer) if answer::is_behind(&answer) || answer::is_trouble(&answer) => {
                        *slot = None;
                        refused = Some((answer, index));
                    }
                    Ok(answer) => return Ok((answer, index)),
                    Err(failure) => *slot = Some(failure.into_error()),
                }
            }
            let last = round.saturating_add(1) >= self.rules.rounds;
            match self.wait_after(round, &failures) {
                Some(wait) if !last && Instant::now() + wait < deadline => tokio::time::sleep(wait).await,
                _ => break,
            }
        }
        // That nobody has the block, or can tell, is an answer.
        refused.ok_or_else(|| self.summary(failures))
    }

    /// A read that one endpoint's word is not enough for.
    async fn agreed(&self, packet: RequestPacket) -> Result<ResponsePacket, ProviderError> {
        let mut round = 0;
        loop {
            let abstaining = self.abstaining();
            let heard = |index: usize| !abstaining.contains(&index);
            let (answer, by) = self.read(packet.clone(), &heard).await?;
            let Some((first, second)) = self.contradiction(&packet, &answer, by, &heard).await else {
                return Ok(answer);
            };
            round += 1;
            if round >= agree::ROUNDS {
                let method = SafeText::clean(packet.method_names().next().unwrap_or_default(), TEXT_LIMIT);
                return Err(ProviderError::Disagreement { method, first, second });
            }
            tokio::time::sleep(self.rules.wait_after(0)).await;
        }
    }

    /// Endpoints whose word is not asked for: those that have come to a stand, by their own latest block, where at least
    /// two others have not. One alone that tells a new block would else silence all others whenever a chain itself stands
    /// still; and where all stand still, all are heard.
    fn abstaining(&self) -> Vec<usize> {
        let stands = |still: bool| {
            let all = self.endpoints.iter().enumerate();
            all.filter(move |(_, endpoint)| endpoint.answers() && endpoint.stands_still() == still)
        };
        if stands(false).count() < 2 {
            return Vec::new();
        }
        stands(true).map(|(index, _)| index).collect()
    }

    /// Two endpoints that say different things, if there are two; those that say nothing are not asked. One that is slow
    /// or behind is heard all the same: what others claim must not be able to silence it.
    async fn contradiction(
        &self,
        packet: &RequestPacket,
        answer: &ResponsePacket,
        by: usize,
        heard: &(dyn Fn(usize) -> bool + Sync),
    ) -> Option<(SafeText, SafeText)> {
        let first = self.endpoints.get(by)?.label();
        let others = self.endpoints.iter().enumerate();
        let others = others.filter(|(index, endpoint)| *index != by && heard(*index) && endpoint.answers());
        let asked = others.map(|(_, endpoint)| async { (endpoint.label(), endpoint.ask(packet.clone()).await) });
        for (second, said) in futures::future::join_all(asked).await {
            match said {
                Ok(said) if answer::is_rate_limited(&said) || answer::is_trouble(&said) => {}
                Ok(said) if agree::is_the_same(packet, answer, &said) => {}
                Ok(_) => return Some((first.clone(), second.clone())),
                Err(_) => {}
            }
        }
        None
    }

    /// How long to wait for another round, or `None` if none can help.
    fn wait_after(&self, round: u32, failures: &[Option<ProviderError>]) -> Option<std::time::Duration> {
        let open = || {
            self.endpoints
                .iter()
                .zip(failures)
                .filter(|(_, failure)| !failure.as_ref().is_some_and(is_final))
                .map(|(endpoint, _)| endpoint.cooling())
        };
        // The soonest that any endpoint may be asked; one that is not cooling may be asked at once.
        let soonest = open().map(Option::unwrap_or_default).min()?;
        (soonest <= self.rules.longest_wait).then(|| soonest.max(self.rules.wait_after(round)))
    }

    /// Anything but a read. Moves on to the next endpoint only while not a byte has left.
    async fn once(&self, packet: RequestPacket) -> Result<ResponsePacket, ProviderError> {
        let method = SafeText::clean(once_method(&packet), TEXT_LIMIT);
        let mut failures: Vec<Option<ProviderError>> = vec![None; self.endpoints.len()];
        for (index, endpoint) in self.by_preference() {
            let Some(slot) = failures.get_mut(index) else { continue };
            match endpoint.ask(packet.clone()).await {
                Ok(answer) => {
                    let open = answer.iter_errors().find(|error| answer::means_trouble(error)).map(|error| {
                        ProviderError::Rpc {
                            code: error.code,
                            message: SafeText::clean(&error.message, TEXT_LIMIT),
                            data: None,
                        }
                    });
                    return match open {
                        None => Ok(answer),
                        Some(cause) => Err(ProviderError::OutcomeUnknown { method, cause: Box::new(cause) }),
                    };
                }
                Err(Failure::NotSent(error)) => *slot = Some(error),
                Err(Failure::MaybeSent(cause)) => {
                    return Err(ProviderError::OutcomeUnknown { method, cause: Box::new(cause) });
                }
            }
        }
        Err(self.summary(failures))
    }

    /// Endpoints that ask for no silence first, then by condition, then in the operator's order.
    fn by_preference(&self) -> Vec<(usize, &Endpoint)> {
        let mut order: Vec<_> = self.endpoints.iter().enumerate().collect();
        order.sort_by_cached_key(|(index, endpoint)| {
            (endpoint.cooling().is_some(), endpoint.health().condition(), *index)
        });
        order
    }

    fn summary(&self, failures: Vec<Option<ProviderError>>) -> ProviderError {
        let mut failures: Vec<ProviderError> = failures
            .into_iter()
            .zip(&self.endpoints)
            .filter_map(|(failure, endpoint)| {
                // An endpoint that was left alone all the while has no failure of its own in this call.
                failure.or_else(|| {
                    let retry_after = endpoint.cooling();
                    retry_after
                        .is_some()
                        .then(|| ProviderError::RateLimited { endpoint: endpoint.label().clone(), retry_after })
                })
            })
            .collect();
        match failures.len() {
            1 => failures.remove(0),
            _ => ProviderError::AllFailed { chain_id: self.chain_id, failures },
        }
    }
}

/// Whether asking the same endpoint the same again cannot help.
fn is_final(error: &ProviderError) -> bool {
    match error {
        ProviderError::WrongChain { .. }
        | ProviderError::TooLarge { .. }
        | ProviderError::Decode { .. }
        | ProviderError::Local { .. }
        | ProviderError::BadUrl { .. } => true,
        // Refused as a whole, such as a batch by one error: an endpoint in trouble may take it the next time.
        ProviderError::Rpc { code, .. } => !answer::is_trouble_code(*code),
        ProviderError::Http { status, .. } => (300..500).contains(status) && !matches!(status, 408 | 425),
        ProviderError::Disagreement { .. }
        | ProviderError::NoEndpoint { .. }
        | ProviderError::Unreachable { .. }
        | ProviderError::TimedOut { .. }
        | ProviderError::Interrupted { .. }
        | ProviderError::Malformed { .. }
        | ProviderError::RateLimited { .. }
        | ProviderError::OutcomeUnknown { .. }
        | ProviderError::AllFailed { .. } => false,
    }
}
