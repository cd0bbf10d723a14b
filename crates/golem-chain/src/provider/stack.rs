//! Several endpoints of one chain as one alloy transport; the [module page](super) lists its guarantees.

use super::{
    agree, answer,
    dispute::{Dispute, DisputeLog, DisputeMark, DisputesSince},
    endpoint::{AttemptFailure, Endpoint},
    endpoint_answers::{self, Batching, EndpointAnswers},
    error::{ProviderError, TEXT_LIMIT},
    health::RequestOutcome,
    method::{RepeatRule, once_method, repeat_rule_of},
    retry::RetryRules,
};
use alloy::{
    rpc::json_rpc::{RequestPacket, ResponsePacket},
    transports::{TransportError, TransportFut},
};
use bardo_base::text::SafeText;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::Value;
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Instant;

/// Time to answer for the other endpoints after the first answer; later ones count as absent.
const GRACE: Duration = Duration::from_secs(3);

/// A `tower` service from request packets to response packets over one or more endpoints.
#[derive(Debug, Clone)]
pub struct EndpointStack {
    inner: Arc<Inner>,
    agreement: EndpointAgreement,
}

/// Number of endpoints that must give the same answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointAgreement {
    /// One endpoint, except for nonces and receipts.
    One,
    /// All endpoints that answer.
    All,
    /// A strict majority of the endpoints that answer; contradictions are recorded. For reads of a block named by its
    /// hash.
    Majority,
}

#[derive(Debug)]
struct Inner {
    chain_id: u64,
    endpoints: Vec<Endpoint>,
    rules: RetryRules,
    disputes: DisputeLog,
}

impl EndpointStack {
    /// Creates a stack over `endpoints`; among endpoints in the same condition, the given order decides.
    ///
    /// # Errors
    /// [`ProviderError::NoEndpoint`] if `endpoints` is empty.
    pub fn new(chain_id: u64, endpoints: Vec<Endpoint>, rules: RetryRules) -> Result<Self, ProviderError> {
        if endpoints.is_empty() {
            return Err(ProviderError::NoEndpoint { chain_id });
        }
        let inner = Inner { chain_id, endpoints, rules, disputes: DisputeLog::default() };
        Ok(Self { inner: Arc::new(inner), agreement: EndpointAgreement::One })
    }

    /// All endpoints, in the operator's order.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.inner.endpoints
    }

    /// The same endpoints, all of which must give the same answer.
    pub fn witnessed(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), agreement: EndpointAgreement::All }
    }

    /// The same endpoints, of which a strict majority must give the same answer.
    pub fn by_majority(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), agreement: EndpointAgreement::Majority }
    }

    /// A stack of the endpoint at `index`; `None` if there is no such endpoint.
    pub fn alone(&self, index: usize) -> Option<Self> {
        let endpoint = self.inner.endpoints.get(index)?.clone();
        let Inner { chain_id, rules, .. } = &*self.inner;
        Self::new(*chain_id, vec![endpoint], *rules).ok()
    }

    /// Indices of the endpoints that answer and follow the chain.
    pub fn counted(&self) -> Vec<usize> {
        let abstaining = self.inner.abstaining();
        let all = self.inner.endpoints.iter().enumerate();
        let counted = all.filter(|(index, endpoint)| endpoint.answers() && !abstaining.contains(index));
        counted.map(|(index, _)| index).collect()
    }

    /// Indices of the endpoints that a decision waits for: all that are not down, including those in a pause they asked
    /// for. Stalled endpoints are excluded unless all have stalled.
    pub(crate) fn expected(&self) -> Vec<usize> {
        self.inner.expected()
    }

    /// Returns true if an endpoint of `expected` is missing from `answered` although it works: it is rate-limiting, or
    /// it returns its latest block number.
    pub(crate) async fn misses(&self, expected: &[usize], answered: &[usize]) -> bool {
        self.inner.misses(expected, answered).await
    }

    /// Current position in the record of contradictions.
    pub fn mark(&self) -> DisputeMark {
        self.inner.disputes.mark()
    }

    /// Contradictions between endpoints since `mark`; `None` if there are none.
    pub fn disputes_since(&self, mark: DisputeMark) -> Option<DisputesSince> {
        self.inner.disputes.since(mark)
    }

    /// Records a contradiction between the endpoints with these indices.
    pub(crate) fn note(&self, subject: &str, endpoints: &[usize], outvoted: bool) -> Dispute {
        self.inner.note(subject, endpoints, outvoted)
    }

    /// Sends a batch to all endpoints that answer, in parallel. `calls` builds the batch of the endpoint with an index,
    /// since one may need another form of the request. Endpoints that fail, or that take more than [`GRACE`] longer
    /// than the first, are omitted.
    pub(crate) async fn ask_each(
        &self,
        batching: Batching,
        calls: impl Fn(usize) -> Vec<(&'static str, Value)>,
    ) -> Vec<EndpointAnswers> {
        let endpoints = self.inner.endpoints.iter().enumerate().filter(|(_, endpoint)| endpoint.answers());
        let asked = endpoints
            .map(|(index, endpoint)| (endpoint.clone(), endpoint_answers::of(index, endpoint, batching, calls(index))));
        in_time(asked.collect()).await
    }
}

/// Answers within [`GRACE`] of the first one; a late endpoint counts as failed.
async fn in_time<T, F>(asked: Vec<(Endpoint, F)>) -> Vec<T>
where
    F: Future<Output = Option<T>>,
{
    let endpoints: Vec<Endpoint> = asked.iter().map(|(endpoint, _)| endpoint.clone()).collect();
    let mut open: FuturesUnordered<_> =
        asked.into_iter().enumerate().map(|(place, (_, answer))| async move { (place, answer.await) }).collect();
    let mut late: Vec<bool> = vec![true; endpoints.len()];
    let mut answers: Vec<(usize, T)> = Vec::new();
    let mut deadline = None;
    loop {
        let next = match deadline {
            None => open.next().await,
            Some(deadline) => match tokio::time::timeout_at(deadline, open.next()).await {
                Ok(next) => next,
                Err(_) => break,
            },
        };
        let Some((place, answer)) = next else { break };
        if let Some(late) = late.get_mut(place) {
            *late = false;
        }
        if let Some(answer) = answer {
            answers.push((place, answer));
            deadline.get_or_insert_with(|| Instant::now() + GRACE);
        }
    }
    for (endpoint, _) in endpoints.iter().zip(late).filter(|(_, late)| *late) {
        let error = format!("no response within {} s of another endpoint's", GRACE.as_secs());
        endpoint.observe(RequestOutcome::Failed { error: SafeText::clean(&error, TEXT_LIMIT) });
    }
    // In the operator's order, independent of response times.
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

impl tower::Service<RequestPacket> for EndpointStack {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, packet: RequestPacket) -> Self::Future {
        let (inner, agreement) = (Arc::clone(&self.inner), self.agreement);
        Box::pin(async move { inner.ask(packet, agreement).await.map_err(TransportError::from) })
    }
}

impl Inner {
    async fn ask(&self, packet: RequestPacket, agreement: EndpointAgreement) -> Result<ResponsePacket, ProviderError> {
        if packet.is_empty() {
            return Ok(ResponsePacket::Batch(Vec::new()));
        }
        match repeat_rule_of(&packet) {
            RepeatRule::Free
                if self.endpoints.len() > 1
                    && agree::is_asked_of_several(&packet, !matches!(agreement, EndpointAgreement::One)) =>
            {
                self.agreed(packet, agreement).await
            }
            RepeatRule::Free => self.read(packet, &|_| true).await.map(|(answer, _)| answer),
            RepeatRule::Once => self.once(packet).await,
        }
    }

    /// Reads in rounds over the `answered` endpoints until one answers. One endpoint answers a whole batch, so that its
    /// results are consistent. An endpoint that lacks the requested block may be behind, and one with an internal
    /// failure may recover. The others are tried, and then that endpoint again, before its refusal counts. Also returns
    /// the index of the endpoint that answered.
    async fn read(
        &self,
        packet: RequestPacket,
        answered: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<(ResponsePacket, usize), ProviderError> {
        let deadline = Instant::now() + self.rules.total;
        let mut failures: Vec<Option<ProviderError>> = vec![None; self.endpoints.len()];
        let mut refused = None;
        for round in 0..self.rules.rounds.max(1) {
            for (index, endpoint) in self.by_preference().into_iter().filter(|(index, _)| answered(*index)) {
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
                    // Other endpoints decide; this request is not repeated here.
                    Ok(answer) if self.endpoints.len() > 1 && agree::is_impossible(&packet, &answer) => {
                        let detail = SafeText::clean("a Multicall3 call failed", TEXT_LIMIT);
                        *slot = Some(ProviderError::Decode { detail });
                        refused.get_or_insert((answer, index));
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
        // If no endpoint has the block, or all fail internally, that is the answer.
        refused.ok_or_else(|| self.summary(failures))
    }

    /// A read that needs several endpoints. All are queried in parallel, so that agreement takes one round trip.
    async fn agreed(
        &self,
        packet: RequestPacket,
        agreement: EndpointAgreement,
    ) -> Result<ResponsePacket, ProviderError> {
        let mut round = 0;
        // Determined before an endpoint fails at this request: if only one endpoint can answer it, the others must
        // still count.
        let expected = self.expected();
        loop {
            let abstaining = self.abstaining();
            let answered = |index: usize| !abstaining.contains(&index);
            let mut answers = self.collect_answers(&packet, agreement, &answered).await;
            if answers.iter().all(|(_, answer)| answer::is_behind(answer)) {
                // If no endpoint answers or none has the block, the stack's retries apply.
                let (answer, by) = self.read(packet.clone(), &answered).await?;
                if answer::is_behind(&answer) && answers.len() < 2 {
                    return Ok(answer);
                }
                answers.retain(|(index, _)| *index != by);
                answers.push((by, answer));
            }
            let tally =
                agree::tally(&packet, answers, |index| self.endpoints.get(index).is_some_and(Endpoint::is_stalled));
            if matches!(agreement, EndpointAgreement::Majority)
                && let Some(head) = tally.head()
            {
                return Ok(head);
            }
            let voices = tally.voices();
            let tally = match tally.unanimous(matches!(agreement, EndpointAgreement::Majority)) {
                // A single endpoint decides only if no other works, since a caller's request might be one that only it
                // can answer.
                Ok(answer)
                    if !matches!(agreement, EndpointAgreement::Majority)
                        || voices.len() > 1
                        || !self.misses(&expected, &voices).await =>
                {
                    return Ok(answer);
                }
                Ok(_) => {
                    round += 1;
                    if round >= agree::ROUNDS {
                        let method = packet.method_names().next().unwrap_or_default();
                        let subject = format!("{method}, which only one of them answers");
                        self.note(&subject, &expected, false);
                        return Err(self.disagreement(SafeText::clean(method, TEXT_LIMIT), &expected));
                    }
                    tokio::time::sleep(self.rules.wait_after(0)).await;
                    continue;
                }
                Err(tally) => tally,
            };
            round += 1;
            if round >= agree::ROUNDS {
                let method = SafeText::clean(packet.method_names().next().unwrap_or_default(), TEXT_LIMIT);
                return match agreement {
                    EndpointAgreement::Majority => self.outvoted(method, tally),
                    EndpointAgreement::One | EndpointAgreement::All => Err(self.disagreement(method, &tally.voices())),
                };
            }
            tokio::time::sleep(self.rules.wait_after(0)).await;
        }
    }

    /// Returns the majority's answer and records the contradiction; without a majority, an error.
    fn outvoted(&self, method: SafeText, tally: agree::AnswerGroups) -> Result<ResponsePacket, ProviderError> {
        let voices = tally.voices();
        match tally.majority() {
            Some((answer, outvoted)) => {
                self.note(method.as_str(), &outvoted, true);
                Ok(answer)
            }
            None => {
                self.note(method.as_str(), &voices, false);
                Err(self.disagreement(method, &voices))
            }
        }
    }

    fn disagreement(&self, method: SafeText, voices: &[usize]) -> ProviderError {
        let label = |place: usize| {
            let endpoint = voices.get(place).and_then(|index| self.endpoints.get(*index));
            endpoint.map(|endpoint| endpoint.label().clone()).unwrap_or_default()
        };
        ProviderError::Disagreement { method, first: label(0), second: label(1) }
    }

    fn note(&self, subject: &str, endpoints: &[usize], outvoted: bool) -> Dispute {
        let named = endpoints.iter().filter_map(|index| self.endpoints.get(*index));
        let labels = named.clone().map(|endpoint| endpoint.label().clone()).collect();
        let dispute = Dispute { subject: SafeText::clean(subject, TEXT_LIMIT), endpoints: labels, outvoted };
        for endpoint in named {
            endpoint.disputed(&dispute);
        }
        tracing::warn!(chain_id = self.chain_id, %dispute, "endpoints contradict each other");
        self.disputes.note(dispute.clone());
        dispute
    }

    /// Usable answers of all `answered` endpoints that answer, by index.
    async fn collect_answers(
        &self,
        packet: &RequestPacket,
        agreement: EndpointAgreement,
        answered: &(dyn Fn(usize) -> bool + Sync),
    ) -> Vec<(usize, ResponsePacket)> {
        let all = self.endpoints.iter().enumerate();
        let asked = all.filter(|(index, endpoint)| answered(*index) && endpoint.answers()).map(|(index, endpoint)| {
            let answer = async move {
                let answer = endpoint.ask(packet.clone()).await.ok()?;
                let unusable = answer::is_rate_limited(&answer)
                    || answer::is_trouble(&answer)
                    || (matches!(agreement, EndpointAgreement::Majority) && answer::is_no_answer(&answer));
                (!unusable).then_some((index, answer))
            };
            (endpoint.clone(), answer)
        });
        in_time(asked.collect()).await
    }

    /// Indices of the endpoints that are not queried: those that have stalled by their own latest block, if at least
    /// two others have not. With only one other, an endpoint that invents a new block could silence all others whenever
    /// the chain stops. If all have stalled, all are queried.
    fn abstaining(&self) -> Vec<usize> {
        let stands = |still: bool| {
            let all = self.endpoints.iter().enumerate();
            all.filter(move |(_, endpoint)| endpoint.answers() && endpoint.is_stalled() == still)
        };
        if stands(false).count() < 2 {
            return Vec::new();
        }
        stands(true).map(|(index, _)| index).collect()
    }

    fn expected(&self) -> Vec<usize> {
        let up = self.endpoints.iter().enumerate().filter(|(_, endpoint)| !endpoint.is_down());
        let (still, moving): (Vec<_>, Vec<_>) = up.partition(|(_, endpoint)| endpoint.is_stalled());
        let counted = if moving.is_empty() { still } else { moving };
        counted.into_iter().map(|(index, _)| index).collect()
    }

    async fn misses(&self, expected: &[usize], answered: &[usize]) -> bool {
        let missing = expected.iter().filter(|index| !answered.contains(index));
        for endpoint in missing.filter_map(|index| self.endpoints.get(*index)) {
            let works = endpoint.cooling().is_some()
                || endpoint.read::<alloy::primitives::U64>("eth_blockNumber", ()).await.is_ok();
            if works {
                return true;
            }
        }
        false
    }

    /// Wait before the next round; `None` if another round cannot help.
    fn wait_after(&self, round: u32, failures: &[Option<ProviderError>]) -> Option<std::time::Duration> {
        let open = || {
            self.endpoints
                .iter()
                .zip(failures)
                .filter(|(_, failure)| !failure.as_ref().is_some_and(is_final))
                .map(|(endpoint, _)| endpoint.cooling())
        };
        // Earliest time at which an endpoint accepts a request; zero if one is not in a pause.
        let soonest = open().map(Option::unwrap_or_default).min()?;
        (soonest <= self.rules.longest_wait).then(|| soonest.max(self.rules.wait_after(round)))
    }

    /// Sends a request that is not a read. Tries the next endpoint only if no byte was sent.
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
                Err(AttemptFailure::NotSent(error)) => *slot = Some(error),
                Err(AttemptFailure::MaybeSent(cause)) => {
                    return Err(ProviderError::OutcomeUnknown { method, cause: Box::new(cause) });
                }
            }
        }
        Err(self.summary(failures))
    }

    /// Endpoints in order of preference: without a pause first, then not recently outvoted, then by condition, then in
    /// the operator's order.
    fn by_preference(&self) -> Vec<(usize, &Endpoint)> {
        let mut order: Vec<_> = self.endpoints.iter().enumerate().collect();
        order.sort_by_cached_key(|(index, endpoint)| {
            let health = endpoint.health();
            // An endpoint that a majority outvoted recently comes later.
            let outvoted = health.dispute.as_ref().is_some_and(|dispute| dispute.outvoted);
            (endpoint.cooling().is_some(), outvoted, health.condition(), *index)
        });
        order
    }

    fn summary(&self, failures: Vec<Option<ProviderError>>) -> ProviderError {
        let mut failures: Vec<ProviderError> = failures
            .into_iter()
            .zip(&self.endpoints)
            .filter_map(|(failure, endpoint)| {
                // An endpoint that was in a pause all the time has no failure of its own in this call.
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

/// Returns true if repeating the request at the same endpoint cannot help.
fn is_final(error: &ProviderError) -> bool {
    match error {
        ProviderError::WrongChain { .. }
        | ProviderError::TooLarge { .. }
        | ProviderError::Decode { .. }
        | ProviderError::Local { .. }
        | ProviderError::BadUrl { .. } => true,
        // Refused as a whole, such as a batch by one error; an endpoint with an internal failure may accept it later.
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
