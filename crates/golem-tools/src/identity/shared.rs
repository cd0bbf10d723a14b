//! Shared parts of the identity tools: agents by id, evaluations, and their forms in results.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy::primitives::{Address, U256};
use schemars::JsonSchema;
use serde::Serialize;

use super::index::AgentView;
use super::outside;
use crate::engine::{CallContext, ConnectedChain};
use crate::shared::invalid;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format;
use golem_protocols::erc8004::AgentId;
use golem_protocols::erc8004::directory::{AgentRecord, FeedbackRecord};
use golem_protocols::erc8004::file::Review;
use golem_protocols::erc8004::reputation::{AuditedFeedback, MAX_HUNDREDTHS, Reputation, hundredths, reputation};
use golem_protocols::erc8004::trust::{self, TrustEvaluation, Validation};

/// Maximum of the documents' scale of scores, which is 0.0 to 5.0 stars in hundredths.
pub(super) const MAX_SCORE: u32 = MAX_HUNDREDTHS;
/// Maximum number of tags and of clients in a summary.
const MAX_LISTED: usize = 20;

/// Timeout for finding the account's agent. The first reading of a network takes longer, and credentials do not need it.
const OWN_AGENT_TIMEOUT: Duration = Duration::from_millis(800);

/// Credential that this machine holds, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Name of the credential.
    pub name: String,
    /// Purposes that it serves.
    pub scopes: Vec<String>,
    /// Expiry in seconds since the Unix epoch; `None` if it does not expire by itself.
    pub expires_at: Option<u64>,
}

/// Agent found in the registries of its chain.
pub(super) struct FoundAgent<'a> {
    pub(super) id: AgentId,
    pub(super) chain: &'a ConnectedChain,
    view: AgentView,
}

impl<'a> FoundAgent<'a> {
    /// Finds an agent by its id, such as `8453:42`.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a malformed id or an agent that is not registered, and the errors of the index.
    pub(super) async fn find(context: &'a CallContext, agent_id: &str) -> Result<Self, ToolError> {
        let (id, chain) = chain_of(context, agent_id)?;
        let view = chain.agents.read(chain).await?;
        if view.directory.agent(id.number).is_none() {
            return Err(not_registered(id, chain));
        }
        Ok(Self { id, chain, view })
    }

    /// Reads the agent's registration file if it is in IPFS and was not read before, so that it counts. A file that cannot
    /// be read stays unread.
    ///
    /// # Errors
    /// The errors of the index.
    pub(super) async fn with_file(mut self, context: &CallContext) -> Result<Self, ToolError> {
        let record = self.record()?;
        let Some(files) = context.world.agent_files(self.chain.network()) else { return Ok(self) };
        if record.unread_content().is_none() || outside::registration(files, self.chain, &record.uri).await.is_err() {
            return Ok(self);
        }
        self.view = self.chain.agents.read(self.chain).await?;
        match self.view.directory.agent(self.id.number) {
            Some(_) => Ok(self),
            None => Err(not_registered(self.id, self.chain)),
        }
    }

    /// The agent's record.
    ///
    /// # Errors
    /// None in practice: [`Self::find`] has found it.
    pub(super) fn record(&self) -> Result<&AgentRecord, ToolError> {
        self.view.directory.agent(self.id.number).ok_or_else(|| not_registered(self.id, self.chain))
    }

    /// Time of the newest block, in seconds since the Unix epoch. Ages are counted from it.
    pub(super) fn now(&self) -> u64 {
        self.view.head.time
    }

    /// Everything that is computed about the agent.
    ///
    /// # Errors
    /// As for [`Self::record`].
    pub(super) fn evaluate(&self) -> Result<Evaluation, ToolError> {
        Ok(Evaluation::of(&self.view, self.id.number, self.record()?))
    }

    /// True if the account controls or controlled the agent, so that its opinion of it never counts.
    pub(super) fn is_related(&self, agent: &AgentRecord, account: Address) -> bool {
        self.view.directory.is_related(agent, account)
    }

    /// True on a network without a validation registry.
    pub(super) fn lacks_validations(&self) -> bool {
        self.view.directory.registries().validation.is_none()
    }
}

fn not_registered(id: AgentId, chain: &ConnectedChain) -> ToolError {
    invalid("agent_id", &format_args!("no agent {} is registered on {}", id.number, chain.network()))
        .suggest("Find agents with identity_discover_agents.")
}

/// Parses an agent's id and finds its chain.
///
/// # Errors
/// `VALIDATION_FAILED` for a malformed id, and the errors of [`crate::engine::ToolEnvironment::chain`].
pub(super) fn chain_of<'a>(
    context: &'a CallContext,
    agent_id: &str,
) -> Result<(AgentId, &'a ConnectedChain), ToolError> {
    let id: AgentId = agent_id.trim().parse().map_err(|error| invalid("agent_id", &error))?;
    Ok((id, context.world.chain(&id.chain_id.to_string())?))
}

/// Chains with registries, or the named one.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` if no chain has registries, and the errors of [`crate::engine::ToolEnvironment::chain`].
pub(super) fn chains<'a>(context: &'a CallContext, named: Option<&str>) -> Result<Vec<&'a ConnectedChain>, ToolError> {
    if let Some(name) = named {
        return Ok(vec![context.world.chain(name)?]);
    }
    let all = context.world.some_chains()?;
    let with: Vec<_> = all.iter().filter(|chain| super::index::registries(chain).is_ok()).collect();
    if with.is_empty() {
        let what = "no connected chain has registries of agents in its address book";
        return Err(ToolError::new(ErrorCode::ChainUnsupported, what));
    }
    Ok(with)
}

/// First agent that the account owns or serves as a wallet, and whether it owns it; `None` if none is found in time. A
/// chain that cannot be read has none: the account's state does not depend on it.
pub(crate) async fn own_agent(context: &CallContext) -> Option<(AgentId, bool)> {
    tokio::time::timeout(OWN_AGENT_TIMEOUT, find_own_agent(context)).await.ok().flatten()
}

async fn find_own_agent(context: &CallContext) -> Option<(AgentId, bool)> {
    let account = context.world.account(None).ok()?;
    for chain in chains(context, None).unwrap_or_default() {
        let Ok(view) = chain.agents.read(chain).await else { continue };
        let mut agents = view.directory.agents();
        if let Some((number, agent)) = agents.find(|(_, agent)| agent.owner == account || agent.wallet == Some(account))
        {
            return Some((AgentId { chain_id: chain.network().chain_id, number }, agent.owner == account));
        }
    }
    None
}

/// Results of the formulas for an agent.
pub(super) struct Evaluation {
    pub(super) reputation: Reputation,
    pub(super) feedback: Vec<AuditedFeedback>,
    pub(super) validations: Vec<Validation>,
    pub(super) trust: TrustEvaluation,
    pub(super) points: u32,
}

impl Evaluation {
    pub(super) fn of(view: &AgentView, id: U256, agent: &AgentRecord) -> Self {
        let (directory, now) = (&view.directory, view.head.time);
        let feedback = directory.audited(agent);
        let reputation = reputation(&feedback, now);
        let validations = directory.validations(agent);
        let trust = trust::evaluate(&directory.identity_facts(id, agent), &reputation, &validations, now);
        let points = trust::points(&reputation, &validations, agent.registered, now);
        Self { reputation, feedback, validations, trust, points }
    }

    /// Feedback that counts: not revoked, not by a related account, and on the scale of ratings.
    pub(super) fn counted(&self) -> impl Iterator<Item = (usize, f64)> {
        self.feedback.iter().enumerate().filter_map(|(at, given)| Some((at, counted_rating(given)?)))
    }
}

fn counted_rating(given: &AuditedFeedback) -> Option<f64> {
    given.rating().filter(|_| !given.is_revoked && !given.is_related)
}

/// Client that rated an agent.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FeedbackProvider {
    /// Address of the client.
    client_address: String,
    /// Number of its ratings that count.
    feedback_count: u32,
    /// Mean of these ratings, from 0.0 to 5.0.
    average_score: f64,
}

/// Feedback on an agent.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Feedback {
    /// Id of the feedback: agent, client and index.
    id: String,
    /// Score from 0 to 500 (0.0 to 5.0 stars); absent if the value is another measurement than a rating.
    value: Option<u32>,
    /// Value as the client gave it, in decimal.
    raw_value: String,
    /// First tag; absent if empty.
    tag1: Option<String>,
    /// Second tag; absent if empty.
    tag2: Option<String>,
    /// Address of the client.
    client_address: String,
    /// Time of its block, in UTC.
    created_at: String,
    /// True if the client revoked it.
    revoked: bool,
    /// True if it counts in the reputation: not revoked, on the scale of ratings, and not given by the agent's own
    /// accounts.
    counted: bool,
    /// Client's own words, cleaned; absent without a review, or if its file could not be read or proven.
    review: Option<String>,
}

impl Feedback {
    /// Describes feedback with its audit. `elsewhere` is the review that was read from outside the chain.
    pub(super) fn of(
        agent: AgentId,
        record: &FeedbackRecord,
        audited: &AuditedFeedback,
        elsewhere: Option<&bardo_base::text::SafeText>,
    ) -> Self {
        let tag = |tag: &bardo_base::text::SafeText| (!tag.is_empty()).then(|| tag.to_string());
        let [tag1, tag2] = &record.tags;
        Self {
            id: feedback_id(agent, record.client, record.index),
            value: audited.rating().map(hundredths),
            raw_value: decimal(record.value, record.decimals),
            tag1: tag(tag1),
            tag2: tag(tag2),
            client_address: record.client.to_string(),
            created_at: utc(record.time),
            revoked: record.is_revoked,
            counted: counted_rating(audited).is_some(),
            review: match &record.review {
                Review::Read(words) => Some(words.to_string()),
                Review::Elsewhere { .. } => elsewhere.map(ToString::to_string),
                Review::Absent => None,
            },
        }
    }
}

/// Id of feedback: `8453:42:0x…:1`, by agent, client and index.
pub(super) fn feedback_id(agent: AgentId, client: Address, index: u64) -> String {
    format!("{agent}:{client}:{index}")
}

/// Time in seconds since the Unix epoch, in UTC.
pub(super) fn utc(seconds: u64) -> String {
    format::utc(seconds.saturating_mul(1_000))
}

/// Value of feedback in decimal digits, without trailing zeros after the point.
fn decimal(value: i128, decimals: u8) -> String {
    let digits = value.unsigned_abs().to_string();
    let places = usize::from(decimals);
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, part) = padded.split_at(padded.len() - places);
    let part = part.trim_end_matches('0');
    let sign = if value < 0 { "-" } else { "" };
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

/// Rating from 0 to 1 as stars from 0.0 to 5.0, rounded to hundredths.
pub(super) fn stars(rating: f64) -> f64 {
    f64::from(hundredths(rating)) / 100.0
}

/// Number of items as the results have it.
pub(super) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Frequency of each tag in the feedback that counts; the most frequent, at most twenty.
pub(super) fn tag_breakdown(agent: &AgentRecord, evaluation: &Evaluation) -> BTreeMap<String, u32> {
    let mut tags: BTreeMap<String, u32> = BTreeMap::new();
    for (at, _) in evaluation.counted() {
        let given = agent.feedback.get(at).into_iter().flat_map(|record| &record.tags);
        for tag in given.filter(|tag| !tag.is_empty()) {
            *tags.entry(tag.to_string()).or_default() += 1;
        }
    }
    let mut frequent: Vec<_> = tags.into_iter().collect();
    frequent.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    frequent.truncate(MAX_LISTED);
    frequent.into_iter().collect()
}

/// Clients with the most ratings that count; at most twenty.
pub(super) fn top_providers(evaluation: &Evaluation) -> Vec<FeedbackProvider> {
    let mut clients: BTreeMap<Address, (u32, f64)> = BTreeMap::new();
    for (at, rating) in evaluation.counted() {
        let Some(given) = evaluation.feedback.get(at) else { continue };
        let (times, sum) = clients.entry(given.client).or_default();
        *times += 1;
        *sum += rating;
    }
    let mut clients: Vec<_> = clients.into_iter().collect();
    clients.sort_by_key(|(_, (times, _))| std::cmp::Reverse(*times));
    clients.truncate(MAX_LISTED);
    let provider = |(client, (times, sum)): (Address, (u32, f64))| FeedbackProvider {
        client_address: client.to_string(),
        feedback_count: times,
        average_score: stars(sum / f64::from(times.max(1))),
    };
    clients.into_iter().map(provider).collect()
}

/// Number of ratings that count in each fifth of the scale, from the lowest.
pub(super) fn score_distribution(evaluation: &Evaluation) -> [u32; 5] {
    let mut fifths = [0; 5];
    for (_, rating) in evaluation.counted() {
        // 5.0 stars belong to the highest fifth.
        let fifth = usize::try_from(hundredths(rating).saturating_sub(1) / 100).unwrap_or_default();
        if let Some(times) = fifths.get_mut(fifth) {
            *times += 1;
        }
    }
    fifths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_with_their_decimals() {
        for (value, decimals, wanted) in [
            (91, 0, "91"),
            (9_250, 2, "92.5"),
            (5, 3, "0.005"),
            (-1_250, 2, "-12.5"),
            (0, 18, "0"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ] {
            assert_eq!(decimal(value, decimals), wanted);
        }
    }

    #[test]
    fn stars_are_a_twentieth_of_the_networks_scale() {
        assert_eq!((stars(0.0), stars(0.85), stars(1.0)), (0.0, 4.25, 5.0));
        assert_eq!((hundredths(0.925), hundredths(7.0)), (463, 500));
    }
}
