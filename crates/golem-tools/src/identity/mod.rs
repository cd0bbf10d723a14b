//! Identity tools: agents of the ERC-8004 registries, their reputation, and their validation.

mod candidates;
pub mod identity_discover_agents;
pub mod identity_evaluate_agent_trust;
pub mod identity_get_agent_profile;
pub mod identity_get_credentials;
pub mod identity_get_reputation_summary;
pub mod identity_get_tier;
pub mod identity_get_validation_status;
pub mod identity_register_agent;
pub mod identity_submit_feedback;
pub mod identity_transfer_ownership;
pub mod identity_update_metadata;
pub mod identity_verify_agent;
pub(crate) mod index;
mod outside;
mod publish;
mod shared;
mod write;

pub use index::AgentIndex;
pub use shared::Credential;
pub(crate) use shared::own_agent;
