//! `identity_submit_feedback`: rates another account's agent in the reputation registry.

use alloy::primitives::{Address, B256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::index;
use super::publish::PublishedFile;
use super::shared::{MAX_SCORE, feedback_id, utc};
use super::write::{self, ChainNamed, Controllers, MAX_LONG_TEXT, RegistryWrite, events, published, tag};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::shared::{CHECKS, PlanReceipt, invalid};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_protocols::erc8004::directory::RegistrySet;
use golem_protocols::erc8004::file::FeedbackFile;
use golem_protocols::erc8004::{AgentId, RegistryCall, RegistryEvent};

/// Definition of the `identity_submit_feedback` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<SubmitFeedback>();

/// Networks rate from 0 to 100, the documents from 0 to 500: a score is 20 times itself in hundredths of a point.
const VALUE_PER_SCORE: i128 = 20;
/// Number of decimals of the value.
const VALUE_DECIMALS: u8 = 2;

/// Parameters of `identity_submit_feedback`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Agent by chain id and number, such as "8453:42".
    agent_id: String,
    /// Score from 0 to 500 (0.0 to 5.0 stars).
    #[schemars(range(max = 500))]
    #[serde(deserialize_with = "score")]
    score: u32,
    /// First tag, such as "reliable" or "overpriced"; at most 32 characters.
    #[serde(default)]
    tag1: Option<String>,
    /// Second tag, of the same length at most.
    #[serde(default)]
    tag2: Option<String>,
    /// Review in words, at most 2,000 characters. It is public.
    #[serde(default)]
    review: Option<String>,
    /// Chain name, alias or id; by default the chain of the agent's id, which it must be.
    #[serde(default)]
    chain_id: Option<ChainNamed>,
}

/// Reads a score, so that a negative one is refused with the range of scores and not with that of its type.
fn score<'de, D: serde::Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    let score = i64::deserialize(input)?;
    let wrong = || serde::de::Error::custom(format_args!("{score}; expected 0 to {MAX_SCORE}"));
    u32::try_from(score).map_err(|_| wrong())
}

/// Result of `identity_submit_feedback`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Id of the feedback, by the registry's event: agent, client and index; absent before confirmation.
    feedback_id: Option<String>,
    /// Id of the agent.
    agent_id: String,
    /// Score from 0 to 500.
    score: u32,
    /// Gas used, in gas units.
    gas_used: u64,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
    /// Address of the review in IPFS; absent for a review on the chain, and without one.
    file_location: Option<String>,
    /// Reason why the review is not in IPFS although the chain names it; absent if there is none.
    file_problem: Option<String>,
}

/// Values kept from preparation for the result.
pub struct FeedbackPlan {
    registries: RegistrySet,
    id: AgentId,
    score: u32,
    review: Option<PublishedFile>,
}

/// Implementation of `identity_submit_feedback`; see [`TOOL_DEF`].
pub struct SubmitFeedback;

impl WriteTool for SubmitFeedback {
    const META: ToolMeta = ToolMeta {
        name: "identity_submit_feedback",
        description: "Rates another account's agent from 0 to 5 stars in the ERC-8004 reputation registry, with tags \
                      and a review. It is public and permanent. Owner, operators and wallet of an agent cannot rate it. \
                      Every safety check applies.",
        category: Category::Identity,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Building transaction", "Simulating", "Broadcasting"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Rates an agent on chain, in public. Rate only what you have used yourself.",
        prompt_guidelines: Guidelines {
            thriving: "Rate an agent after each dealing with it.",
            cautious: "Rate too, above all after bad experiences.",
            declining: "Rate agents that contributed to the decline, if the phase allows it.",
            terminal: "A last rating where it helps others, if the phase allows it.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: CHECKS,
        event_params: &["agent_id", "score", "chain_id"],
        summary_fields: &["tx_hash", "feedback_id", "score"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = FeedbackPlan;

    fn example() -> Value {
        json!({"agent_id": "31337:0", "score": 450, "tag1": "reliable", "tag2": "swap"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, FeedbackPlan), ToolError> {
        let account = context.world.account(None)?;
        if params.score > MAX_SCORE {
            return Err(invalid("score", &format_args!("{}; expected 0 to {MAX_SCORE}", params.score)));
        }
        let found = write::find(context, &params.agent_id, params.chain_id.as_ref()).await?;
        context.step("Building transaction");
        let registries = index::registries(found.chain)?;
        let (call, review) = feedback(context, &params, &registries, (found.id, found.now()), account).await?;
        let controllers = Controllers::read(&found, account).await?;
        call.check(account, &controllers.all).map_err(|error| invalid("agent_id", &error))?;
        let registry = registries.reputation;
        let write = RegistryWrite { chain: found.chain, account, registry, call };
        let summary = summary(found.id, params.score);
        let proposal = write.propose(context, vec![account], &summary).await?;
        let files = review.as_ref().map(PublishedFile::beside_calldata).unwrap_or_default();
        let proposal = Proposal { files, ..proposal };
        Ok((proposal, FeedbackPlan { registries, id: found.id, score: params.score, review }))
    }

    async fn complete(context: &CallContext, plan: &mut FeedbackPlan, committed: &CommitOutcome) {
        if let Some(review) = &mut plan.review {
            review.store(context, None, committed).await;
        }
    }

    fn output(
        context: &CallContext,
        plan: FeedbackPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        let sent = PlanReceipt::of(context, committed)?;
        let given = events(committed, &plan.registries).into_iter().find_map(|event| match event {
            RegistryEvent::Feedback { agent, client, index, .. } if agent == plan.id.number => {
                Some(feedback_id(plan.id, client, index))
            }
            _ => None,
        });
        let explanation = match sent.is_done() {
            true => format!("Rated agent {} with {}.", plan.id, stars(plan.score)),
            false => sent.explain(&summary(plan.id, plan.score)),
        };
        let output = Output {
            tx_hash: sent.tx_hash,
            feedback_id: given,
            agent_id: plan.id.to_string(),
            score: plan.score,
            gas_used: sent.gas_used,
            block_number: sent.block_number,
            explorer_url: sent.explorer_url,
            file_location: plan.review.as_ref().and_then(PublishedFile::location),
            file_problem: plan.review.as_ref().and_then(PublishedFile::problem),
        };
        Ok(ToolReply::new(output, explanation))
    }
}

fn summary(id: AgentId, score: u32) -> String {
    format!("Rate agent {id} with {}", stars(score))
}

fn stars(score: u32) -> String {
    format!("{}.{:02} of 5 stars", score / 100, score % 100)
}

async fn feedback(
    context: &CallContext,
    params: &Params,
    registries: &RegistrySet,
    (id, now): (AgentId, u64),
    account: Address,
) -> Result<(RegistryCall, Option<PublishedFile>), ToolError> {
    let value = i128::from(params.score) * VALUE_PER_SCORE;
    let (tag1, tag2) = (tag("tag1", params.tag1.as_deref())?, tag("tag2", params.tag2.as_deref())?);
    let (review, hash) = match &params.review {
        None => (None, B256::ZERO),
        Some(review) => {
            let file = FeedbackFile {
                agent_registry: registries.identity.to_string(),
                agent_id: id.number.to_string(),
                client_address: format!("eip155:{}:{account}", id.chain_id),
                created_at: utc(now),
                value: value.to_string(),
                value_decimals: VALUE_DECIMALS,
                tag1: tag1.clone(),
                tag2: tag2.clone(),
                text: published("review", review, MAX_LONG_TEXT)?,
            };
            let (bytes, hash) = file.bytes().map_err(|error| ToolError::new(ErrorCode::ToolPanicked, error))?;
            (Some(PublishedFile::prepare(context, bytes).await?), hash)
        }
    };
    let call = RegistryCall::GiveFeedback {
        agent: id.number,
        value,
        decimals: VALUE_DECIMALS,
        tags: [tag1, tag2],
        endpoint: String::new(),
        uri: review.as_ref().map(PublishedFile::uri).unwrap_or_default(),
        hash,
    };
    Ok((call, review))
}
