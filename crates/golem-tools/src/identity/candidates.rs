//! Agents that a subgraph names, confirmed by the registries.
//!
//! A subgraph only says which agents to look at. Each one that is shown is read from the registries at the newest block:
//! that it exists, the address of its file, and its ratings. What the registries do not confirm is left out and counted.

use alloy::primitives::{Address, U256};

use super::index;
use crate::blocks::{BlockPoint, block, is_on_chain, newest};
use crate::engine::{CallContext, ConnectedChain};
use bardo_abi::erc8004::{IdentityRegistry, ReputationRegistry};
use bardo_base::error::ToolError;
use bardo_base::text::SafeText;
use golem_chain::multicall::CallBatch;
use golem_protocols::erc8004::directory::{AgentFile, RegistrySet};
use golem_protocols::erc8004::reputation::AuditedFeedback;
use golem_protocols::erc8004::subgraph::{SubgraphAgents, SubgraphError};

/// Age of a subgraph's last block, relative to the chain's newest, from which it is not used, in seconds: one hour.
const MAX_AGE_SECONDS: u64 = 3_600;
/// Number of agents whose answers are requested in one call; an address of a file can be long.
const AT_ONCE: usize = 20;
/// Maximum length of the address of a file, in characters.
const MAX_URI_CHARS: usize = 2_048;

/// Agents that a subgraph names, at a block that the chain has.
pub(super) struct Candidates {
    pub(super) named: SubgraphAgents,
    /// Newest block, at which agents are confirmed.
    pub(super) head: BlockPoint,
    registries: RegistrySet,
}

/// An agent as the registries have it.
pub(super) struct ConfirmedAgent {
    pub(super) id: U256,
    /// Account that owns it at this block.
    pub(super) owner: Address,
    /// Address of its registration file, cleaned and cut.
    pub(super) uri: SafeText,
    pub(super) file: AgentFile,
    /// Feedback that is not revoked and not by owner or wallet. Times are unknown here.
    pub(super) feedback: Vec<AuditedFeedback>,
}

/// Reason why a chain's subgraph is not used, although one is configured.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnusedSubgraph {
    /// It does not answer, or not in its published form.
    #[error(transparent)]
    Answer(#[from] SubgraphError),
    /// Its newest block is not one of the chain.
    #[error("its block {block} is not on the chain")]
    NotOnChain {
        /// Number of the block.
        block: u64,
    },
    /// Its newest block is too old.
    #[error("it is {seconds} s behind the chain")]
    Behind {
        /// Age of its newest block.
        seconds: u64,
    },
}

impl Candidates {
    /// Asks the chain's subgraph; `Ok(None)` if none is configured. The inner error says why it is not used.
    ///
    /// # Errors
    /// The errors of the chain are the outer ones; the inner one is the subgraph's.
    pub(super) async fn find(
        context: &CallContext,
        chain: &ConnectedChain,
    ) -> Result<Result<Option<Self>, UnusedSubgraph>, ToolError> {
        let Some(subgraph) = context.world.agent_files.subgraphs.get(&chain.network().chain_id) else {
            return Ok(Ok(None));
        };
        let registries = index::registries(chain)?;
        let named = match subgraph.agents(registries.identity.chain_id).await {
            Ok(named) => named,
            Err(error) => return Ok(Err(error.into())),
        };
        let head = newest(chain).await?;
        let (number, hash) = named.block;
        if number > head.number || !is_on_chain(chain, (number, hash)).await? {
            return Ok(Err(UnusedSubgraph::NotOnChain { block: number }));
        }
        let indexed = block(chain, number.into()).await?.map_or(0, |block| block.time);
        let age = head.time.saturating_sub(indexed);
        if age > MAX_AGE_SECONDS {
            return Ok(Err(UnusedSubgraph::Behind { seconds: age }));
        }
        index::check_code(chain, &registries, head.hash).await?;
        Ok(Ok(Some(Self { named, head, registries })))
    }

    /// Number of blocks that the subgraph is behind.
    pub(super) fn behind(&self) -> u64 {
        self.head.number.saturating_sub(self.named.block.0)
    }

    /// Reads these agents from the registries. Ones that are not registered are left out.
    ///
    /// # Errors
    /// The errors of [`ConnectedChain::ask_at`].
    pub(super) async fn confirm(
        &self,
        chain: &ConnectedChain,
        wanted: &[U256],
    ) -> Result<Vec<ConfirmedAgent>, ToolError> {
        let mut confirmed = Vec::new();
        for part in wanted.chunks(AT_ONCE) {
            confirmed.extend(self.confirm_part(chain, part).await?);
        }
        Ok(confirmed)
    }

    async fn confirm_part(&self, chain: &ConnectedChain, wanted: &[U256]) -> Result<Vec<ConfirmedAgent>, ToolError> {
        let RegistrySet { identity, reputation, .. } = self.registries;
        let mut calls = CallBatch::default();
        let asked: Vec<_> = wanted
            .iter()
            .map(|id| {
                let id = *id;
                let owner = calls.push(identity.address, &IdentityRegistry::ownerOfCall { tokenId: id });
                let uri = calls.push(identity.address, &IdentityRegistry::tokenURICall { tokenId: id });
                let wallet = calls.push(identity.address, &IdentityRegistry::getAgentWalletCall { agentId: id });
                let clients = calls.push(reputation, &ReputationRegistry::getClientsCall { agentId: id });
                (id, owner, uri, wallet, clients)
            })
            .collect();
        let answers = chain.ask_at(calls, self.head.hash).await?;
        let mut calls = CallBatch::default();
        let mut found = Vec::new();
        for (id, owner, uri, wallet, clients) in asked {
            let (Some(owner), Some(uri)) = (owner.take(&answers), uri.take(&answers)) else { continue };
            let wallet = wallet.take(&answers).unwrap_or_default();
            let clients = clients.take(&answers).unwrap_or_default();
            // Without clients the registry rejects the call.
            let feedback = (!clients.is_empty()).then(|| {
                let call = ReputationRegistry::readAllFeedbackCall {
                    agentId: id,
                    clientAddresses: clients,
                    tag1: String::new(),
                    tag2: String::new(),
                    includeRevoked: false,
                };
                calls.push(reputation, &call)
            });
            found.push((id, [owner, wallet], uri, feedback));
        }
        let answers = chain.ask_at(calls, self.head.hash).await?;
        let confirmed = found.into_iter().map(|(id, own, uri, feedback)| {
            let given = feedback.and_then(|call| call.take(&answers));
            let [owner, _] = own;
            ConfirmedAgent {
                id,
                owner,
                file: AgentFile::of(&uri),
                uri: SafeText::clean(&uri, MAX_URI_CHARS),
                feedback: given.map(|given| audited(&given, own)).unwrap_or_default(),
            }
        });
        Ok(confirmed.collect())
    }
}

fn audited(given: &ReputationRegistry::readAllFeedbackReturn, own: [Address; 2]) -> Vec<AuditedFeedback> {
    let both = given.clients.iter().zip(&given.values).zip(&given.valueDecimals);
    both.map(|((client, value), decimals)| AuditedFeedback {
        client: *client,
        value: *value,
        decimals: *decimals,
        time: 0,
        is_revoked: false,
        is_related: own.contains(client),
        rated_others: true,
    })
    .collect()
}
