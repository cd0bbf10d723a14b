//! Shared parts of the identity tools that write: the proposal of one call to a registry, and the events of its receipt.

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};

use super::index;
use super::shared::FoundAgent;
use crate::engine::{CallContext, ConnectedChain};
use crate::shared::invalid;
pub(super) use crate::shared::{ChainNamed, chain_or_first};
use bardo_abi::erc8004::IdentityRegistry;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::TxState;
use bardo_base::text::SafeText;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use golem_chain::fork::{ExecutionStatus, ForkCall, SimulatedOutcome, SimulationOptions};
use golem_chain::multicall::CallBatch;
use golem_protocols::erc8004::directory::RegistrySet;
use golem_protocols::erc8004::{AgentId, RegistryCall, RegistryEvent};

/// Gas limit of the simulation that finds out how much a call needs.
const TRIAL_GAS: u64 = 12_000_000;
/// Gas in addition to a quarter more than the simulation used.
const SPARE_GAS: u64 = 20_000;
/// Maximum length of a text in a registration, in characters.
pub(super) const MAX_TEXT: usize = 512;
/// Maximum length of a description or review, in characters.
pub(super) const MAX_LONG_TEXT: usize = 2_000;
/// Maximum length of a tag, in characters.
pub(super) const MAX_TAG: usize = 32;

/// Finds the agent of a write. A named chain must be the one in the agent's id.
///
/// # Errors
/// As for [`FoundAgent::find`]; `VALIDATION_FAILED` for another chain.
pub(super) async fn find<'a>(
    context: &'a CallContext,
    agent_id: &str,
    named: Option<&ChainNamed>,
) -> Result<FoundAgent<'a>, ToolError> {
    let found = FoundAgent::find(context, agent_id).await?;
    if let Some(named) = named {
        let chain = context.world.chain(&named.text())?.network();
        if chain.chain_id != found.id.chain_id {
            return Err(invalid("chain_id", &format_args!("agent {} is not on {chain}; leave it out", found.id)));
        }
    }
    Ok(found)
}

/// Accounts that control an agent, read from the chain.
pub(super) struct Controllers {
    pub(super) owner: Address,
    /// Owner, wallet and approved account, and the asking account if it is an operator.
    pub(super) all: Vec<Address>,
    /// True if the account may change the agent.
    pub(super) may_change: bool,
}

impl Controllers {
    /// Reads who controls the agent, with respect to `account`.
    ///
    /// # Errors
    /// `CHAIN_INCONSISTENT` if the registry does not answer, and the errors of [`ConnectedChain::ask`].
    pub(super) async fn read(found: &FoundAgent<'_>, account: Address) -> Result<Self, ToolError> {
        let registry = index::registries(found.chain)?.identity.address;
        let agent = found.id.number;
        let mut calls = CallBatch::default();
        let owner = calls.push(registry, &IdentityRegistry::ownerOfCall { tokenId: agent });
        let wallet = calls.push(registry, &IdentityRegistry::getAgentWalletCall { agentId: agent });
        let approved = calls.push(registry, &IdentityRegistry::getApprovedCall { tokenId: agent });
        let answers = found.chain.ask(calls).await?;
        let silent = || ToolError::new(ErrorCode::ChainInconsistent, "the identity registry does not respond");
        let owner = owner.take(&answers).ok_or_else(silent)?;
        let wallet = wallet.take(&answers).ok_or_else(silent)?;
        let approved = approved.take(&answers).ok_or_else(silent)?;
        let mut calls = CallBatch::default();
        let operator = calls.push(registry, &IdentityRegistry::isApprovedForAllCall { owner, operator: account });
        let answers = found.chain.ask(calls).await?;
        let is_operator = operator.take(&answers).ok_or_else(silent)?;
        let all = [owner, wallet, approved].into_iter().chain(is_operator.then_some(account));
        let may_change = account == owner || account == approved || is_operator;
        Ok(Self { owner, all: all.filter(|one| !one.is_zero()).collect(), may_change })
    }

    /// Requires that the account may change the agent.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` if not.
    pub(super) fn require(&self, id: AgentId, account: Address) -> Result<(), ToolError> {
        if self.may_change {
            return Ok(());
        }
        let what = format_args!("agent {id} belongs to {}, and {account} does not operate it", self.owner);
        Err(invalid("agent_id", &what).suggest("Name an agent of this account."))
    }
}

/// Call to a registry that a tool proposes.
pub(super) struct RegistryWrite<'a> {
    pub(super) chain: &'a ConnectedChain,
    pub(super) account: Address,
    /// Address of the called registry.
    pub(super) registry: Address,
    pub(super) call: RegistryCall,
}

impl RegistryWrite<'_> {
    /// Simulates the call.
    ///
    /// # Errors
    /// `SAFETY_SIMULATION_FAILED` if the registry rejects it, and the errors of the chain.
    pub(super) async fn simulate(&self) -> Result<SimulatedOutcome, ToolError> {
        let fork = self.chain.fork(BlockId::latest()).await?;
        let call = ForkCall::new(self.account, self.registry, self.call.calldata()).with_gas_limit(TRIAL_GAS);
        let simulation = fork.simulate_with(&[call], &SimulationOptions::default()).await?;
        let failed = |what: String| ToolError::new(ErrorCode::SafetySimulationFailed, what);
        let outcome = simulation.outcomes.into_iter().next();
        let outcome = outcome.ok_or_else(|| failed("the call was not simulated".to_owned()))?;
        match &outcome.status {
            ExecutionStatus::Success => Ok(outcome),
            ExecutionStatus::Reverted(why) => Err(failed(format!("the registry rejects the call: {why}"))),
            ExecutionStatus::Halted(why) => Err(failed(format!("the call halts: {why}"))),
        }
    }

    /// Proposes the call. `recipients` receive an agent, and `expected` is the expected outcome in one sentence.
    ///
    /// # Errors
    /// As for [`Self::simulate`].
    pub(super) async fn propose(
        &self,
        context: &CallContext,
        recipients: Vec<Address>,
        expected: &str,
    ) -> Result<Proposal, ToolError> {
        context.step("Simulating");
        let used = self.simulate().await?.gas_used;
        let leg = PlanLeg {
            purpose: LegPurpose::Main,
            to: self.registry,
            value: U256::ZERO,
            data: self.call.calldata(),
            gas_limit: used.saturating_add(used / 4).saturating_add(SPARE_GAS),
            slots: Vec::new(),
        };
        Ok(Proposal {
            legs: vec![leg],
            recipients,
            ..context.proposal(self.chain.network().chain_id, self.account, ProposalIntent::Identity, expected)
        })
    }
}

/// Events of the registries in the receipt of a confirmed call; empty before confirmation.
pub(super) fn events(committed: &CommitOutcome, registries: &RegistrySet) -> Vec<RegistryEvent> {
    let confirmed = committed.legs.iter().filter(|leg| leg.state == TxState::Confirmed);
    let logs = confirmed.flat_map(|leg| &leg.logs).filter(|log| registries.kind_of(log.address).is_some());
    logs.filter_map(|log| RegistryEvent::decode(log).ok()).collect()
}

/// Checks a text that will be published.
///
/// # Errors
/// `VALIDATION_FAILED` if it is empty, too long, or contains control, direction or invisible characters.
pub(super) fn published(parameter: &str, text: &str, max_chars: usize) -> Result<String, ToolError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(invalid(parameter, &"it is empty"));
    }
    if text.chars().count() > max_chars {
        return Err(invalid(parameter, &format_args!("longer than {max_chars} characters")));
    }
    if SafeText::clean(text, max_chars).altered() {
        return Err(invalid(parameter, &"it contains control, direction or invisible characters"));
    }
    Ok(text.to_owned())
}

/// Checks the address of an endpoint that will be published.
///
/// # Errors
/// `VALIDATION_FAILED` for anything but an https URL.
pub(super) fn endpoint(parameter: &str, text: &str) -> Result<String, ToolError> {
    let text = published(parameter, text, MAX_TEXT)?;
    let host = text.strip_prefix("https://").and_then(|rest| rest.split(['/', '?', '#']).next());
    match host {
        Some(host) if !host.is_empty() && !text.contains(char::is_whitespace) => Ok(text),
        _ => Err(invalid(parameter, &"it must be an https:// URL")),
    }
}

/// Checks the address of an image: an http(s) URL, an ipfs:// URL, or the hash of a file in IPFS.
///
/// # Errors
/// `VALIDATION_FAILED` for anything else.
pub(super) fn image(parameter: &str, text: &str) -> Result<String, ToolError> {
    let text = published(parameter, text, MAX_TEXT)?;
    if text.contains(char::is_whitespace) {
        return Err(invalid(parameter, &"it contains a space"));
    }
    if ["https://", "http://", "ipfs://"].iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(text);
    }
    // CIDv0 and CIDv1 in their usual encodings, <https://docs.ipfs.tech/concepts/content-addressing/>.
    let is_hash = (text.starts_with("Qm") && text.len() == 46) || (text.starts_with("baf") && text.len() >= 59);
    if is_hash && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(format!("ipfs://{text}"));
    }
    Err(invalid(parameter, &"it must be an https:// or ipfs:// URL, or the hash of a file in IPFS"))
}

/// Checks an optional tag.
///
/// # Errors
/// As for [`published`].
pub(super) fn tag(parameter: &str, text: Option<&str>) -> Result<String, ToolError> {
    text.map_or(Ok(String::new()), |text| published(parameter, text, MAX_TAG))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_files_are_urls_or_hashes() {
        let hash = "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPbdG";
        assert_eq!(image("image", hash).unwrap(), format!("ipfs://{hash}"));
        assert_eq!(image("image", "https://a.example/x.png").unwrap(), "https://a.example/x.png");
        for bad in ["javascript:alert(1)", "Qm", "data:image/png;base64,x", "https://a b", "", "\u{202e}https://x"] {
            assert!(image("image", bad).is_err(), "{bad:?}");
        }
        assert!(endpoint("tool_endpoint", "https://a.example/mcp").is_ok());
        for bad in ["http://a.example", "https://", "https:///x", "https://a b", "javascript:x"] {
            assert!(endpoint("tool_endpoint", bad).is_err(), "{bad:?}");
        }
    }
}
