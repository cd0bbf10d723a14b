//! Several endpoints of one chain as one alloy transport. See the room's page for the promises.

use super::{
    agree, answer,
    dispute::{Dispute, DisputeLog, DisputeMark, DisputesSince},
    endpoint::{Endpoint, Failure},
    error::{ProviderError, TEXT_LIMIT},
    health::Outcome,
    method::{Replay, once_method, replay_of},
    retry::RetryRules,
    testimony::{self, Batching, Testimony},
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

/// Time that endpoints have to answer once one of them has. One that takes longer is treated as absent.
const GRACE: Duration = Duration::from_secs(3);

/// A `tower` service from request packets to response packets over one or more endpoints.
#[derive(Debug, Clone)]
pub struct EndpointStack {
    inner: Arc<Inner>,
    agreement: Agreement,
}

/// How many endpoints an answer takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    /// One, except for nonces and receipts.
    One,
    /// All that answer.
    All,
    /// A strict majority of those that answer; a contradiction goes on record. For reads of one block by its hash.
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
    /// A stack over `endpoints`, preferred in the order given among those that are equally well.
    ///
    /// # Errors
    /// [`ProviderError::NoEndpoint`] if there is none.
    pub fn new(chain_id: u64, endpoints: Vec<Endpoint>, rules: RetryRules) -> Result<Self, ProviderError> {
        if endpoints.is_empty() {
            return Err(ProviderError::NoEndpoint { chain_id });
        }
        let inner = Inner { chain_id, endpoints, rules, disputes: DisputeLog::default() };
        Ok(Self { inner: Arc::new(inner), agreement: Agreement::One })
    }

    /// The endpoints, in the operator's order.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.inner.endpoints
    }

    /// The same endpoints, which must say the same to be believed.
    pub fn witnessed(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), agreement: Agreement::All }
    }

    /// The same endpoints, of which a strict majority must say the same to be believed.
    pub fn by_majority(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), agreement: Agreement::Majority }
    }

    /// A stack of one of these endpoints, by its index. `None` where there is no such endpoint.
    pub fn alone(&self, index: usize) -> Option<Self> {
        let endpoint = self.inner.endpoints.get(index)?.clone();
        let Inner { chain_id, rules, .. } = &*self.inner;
        Self::new(*chain_id, vec![endpoint], *rules).ok()
    }

    /// Endpoints that answer and follow the chain, by index: those whose readings count.
    pub fn counted(&self) -> Vec<usize> {
        let abstaining = self.inner.abstaining();
        let all = self.inner.endpoints.iter().enumerate();
        let counted = all.filter(|(index, endpoint)| endpoint.answers() && !abstaining.contains(index));
        counted.map(|(index, _)| index).collect()
    }

    /// Endpoints whose reading a decision waits for, by index: all that are not down, those included that ask to be left
    /// alone for a while, and without those that have come to a stand while another has not.
    pub(crate) fn expected(&self) -> Vec<usize> {
        self.inner.expected()
    }

    /// True if an endpoint of `expected` is missing from `heard` although it works: it is rate-limiting, or it gives the
    /// number of its latest block. An endpoint that fails at that too is absent.
    pub(crate) async fn misses(&self, expected: &[usize], heard: &[usize]) -> bool {
        self.inner.misses(expected, heard).await
    }

    /// A point in the record of contradictions.
    pub fn mark(&self) -> DisputeMark {
        self.inner.disputes.mark()
    }

    /// What endpoints contradicted each other about since `mark`; `None` if nothing.
    pub fn disputes_since(&self, mark: DisputeMark) -> Option<DisputesSince> {
        self.inner.disputes.since(mark)
    }

    /// Puts a contradiction on record, with the endpoints it names by index.
    pub(crate) fn note(&self, subject: &str, endpoints: &[usize], outvoted: bool) -> Dispute {
        self.inner.note(subject, endpoints, outvoted)
    }

    /// Asks every endpoint that answers the same batch at the same time: one round trip. `calls` differ by endpoint
    /// where one needs another form of the question. Endpoints that fail, or that take more than [`GRACE`] longer than
    /// the first, are left out.
    pub(crate) async fn testimonies(
        &self,
        batching: Batching,
        calls: impl Fn(usize) -> Vec<(&'static str, Value)>,
    ) -> Vec<Testimony> {
        let endpoints = self.inner.endpoints.iter().enumerate().filter(|(_, endpoint)| endpoint.answers());
        let asked = endpoints
            .map(|(index, endpoint)| (endpoint.clone(), testimony::of(index, endpoint, batching, calls(index))));
        in_time(asked.collect()).await
    }
}

/// The answers of those that answer within [`GRACE`] of the first; a late endpoint counts as failed.
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
        let error = format!("no answer within {} s of another endpoint's", GRACE.as_secs());
        endpoint.observe(Outcome::Failed { error: SafeText::clean(&error, TEXT_LIMIT) });
    }
    // In the operator's order, whoever was first.
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
    async fn ask(&self, packet: RequestPacket, agreement: Agreement) -> Result<ResponsePacket, ProviderError> {
        if packet.is_empty() {
            return Ok(ResponsePacket::Batch(Vec::new()));
        }
        match replay_of(&packet) {
            Replay::Free
                if self.endpoints.len() > 1
                    && agree::is_asked_of_several(&packet, !matches!(agreement, Agreement::One)) =>
            {
                self.agreed(packet, agreement).await
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
                    // What the others say decides; it is not asked the same again.
                    Ok(answer) if self.endpoints.len() > 1 && agree::is_impossible(&packet, &answer) => {
                        let detail = SafeText::clean("a call of Multicall3 came to nothing", TEXT_LIMIT);
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
        // That nobody has the block, or can tell, is an answer.
        refused.ok_or_else(|| self.summary(failures))
    }

    /// A read for which one endpoint is not enough. All endpoints are asked at the same time, so that it takes one round
    /// trip where they agree.
    async fn agreed(&self, packet: RequestPacket, agreement: Agreement) -> Result<ResponsePacket, ProviderError> {
        let mut round = 0;
        // Before anybody fails at this question: an answer that only one can give must not make it the only one.
        let expected = self.expected();
        loop {
            let abstaining = self.abstaining();
            let heard = |index: usize| !abstaining.contains(&index);
            let mut answers = self.hear(&packet, agreement, &heard).await;
            if answers.iter().all(|(_, answer)| answer::is_behind(answer)) {
                // Nobody answers, or nobody has the block: asked with all the patience of the stack.
                let (answer, by) = self.read(packet.clone(), &heard).await?;
                if answer::is_behind(&answer) && answers.len() < 2 {
                    return Ok(answer);
                }
                answers.retain(|(index, _)| *index != by);
                answers.push((by, answer));
            }
            let tally =
                agree::tally(&packet, answers, |index| self.endpoints.get(index).is_some_and(Endpoint::stands_still));
            if matches!(agreement, Agreement::Majority)
                && let Some(head) = tally.head()
            {
                return Ok(head);
            }
            let voices = tally.voices();
            let tally = match tally.unanimous(matches!(agreement, Agreement::Majority)) {
                // One alone decides only where no other works: it could have asked for what only it can answer.
                Ok(answer)
                    if !matches!(agreement, Agreement::Majority)
                        || voices.len() > 1
                        || !self.misses(&expected, &voices).await =>
                {
                    return Ok(answer);
                }
                Ok(_) => {
                    round += 1;
                    if round >= agree::ROUNDS {
                        let method = packet.method_names().next().unwrap_or_default();
                        let subject = format!("{method}, to which only one of them gives an answer");
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
                    Agreement::Majority => self.outvoted(method, tally),
                    Agreement::One | Agreement::All => Err(self.disagreement(method, &tally.voices())),
                };
            }
            tokio::time::sleep(self.rules.wait_after(0)).await;
        }
    }

    /// The majority's answer, with the contradiction on record; without a majority, the error.
    fn outvoted(&self, method: SafeText, tally: agree::Tally) -> Result<ResponsePacket, ProviderError> {
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

    /// The usable answers of all endpoints that are `heard` and answer, by index.
    async fn hear(
        &self,
        packet: &RequestPacket,
        agreement: Agreement,
        heard: &(dyn Fn(usize) -> bool + Sync),
    ) -> Vec<(usize, ResponsePacket)> {
        let all = self.endpoints.iter().enumerate();
        let asked = all.filter(|(index, endpoint)| heard(*index) && endpoint.answers()).map(|(index, endpoint)| {
            let answer = async move {
                let answer = endpoint.ask(packet.clone()).await.ok()?;
                let unusable = answer::is_rate_limited(&answer)
                    || answer::is_trouble(&answer)
                    || (matches!(agreement, Agreement::Majority) && answer::is_no_answer(&answer));
                (!unusable).then_some((index, answer))
            };
            (endpoint.clone(), answer)
        });
        in_time(asked.collect()).await
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

    fn expected(&self) -> Vec<usize> {
        let up = self.endpoints.iter().enumerate().filter(|(_, endpoint)| !endpoint.is_down());
        let (still, moving): (Vec<_>, Vec<_>) = up.partition(|(_, endpoint)| endpoint.stands_still());
        let counted = if moving.is_empty() { still } else { moving };
        counted.into_iter().map(|(index, _)| index).collect()
    }

    async fn misses(&self, expected: &[usize], heard: &[usize]) -> bool {
        let missing = expected.iter().filter(|index| !heard.contains(index));
        for endpoint in missing.filter_map(|index| self.endpoints.get(*index)) {
            let works = endpoint.cooling().is_some()
                || endpoint.read::<alloy::primitives::U64>("eth_blockNumber", ()).await.is_ok();
            if works {
                return true;
            }
        }
        false
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
            let health = endpoint.health();
            // One that a majority has outvoted lately is asked last.
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
