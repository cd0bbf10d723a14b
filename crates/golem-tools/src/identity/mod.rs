//! Identity tools: agents of the ERC-8004 registries, their reputation, and their validation.

pub mod identity_discover_agents;
pub mod identity_evaluate_agent_trust;
pub mod identity_get_agent_profile;
pub mod identity_get_credentials;
pub mod identity_get_reputation_summary;
pub mod identity_get_tier;
pub mod identity_get_validation_status;
pub(crate) mod index;
mod shared;

pub use index::AgentIndex;
pub use shared::Credential;
