//! Events of the ERC-8004 registries, with all text cleaned.

use alloy::primitives::{Address, B256, Bytes, Log, U256};
use alloy::sol_types::SolEventInterface;

use bardo_abi::erc8004::IdentityRegistry::IdentityRegistryEvents;
use bardo_abi::erc8004::ReputationRegistry::ReputationRegistryEvents;
use bardo_abi::erc8004::ValidationRegistry::ValidationRegistryEvents;
use bardo_base::text::SafeText;

/// Maximum length of a file address, in characters. A registration may be embedded in its address as a data URI; it
/// must then be read from the chain, not from here.
const MAX_URI_CHARS: usize = 2_048;
/// Maximum length of a key or a tag, in characters.
const MAX_NAME_CHARS: usize = 128;

/// Event of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryEvent {
    /// Registration of an agent.
    Registered {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Address of its registration file.
        uri: SafeText,
        /// Owner of the agent.
        owner: Address,
    },
    /// Change of the registration file's address.
    UriUpdated {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// New address of the file.
        uri: SafeText,
        /// Account that changed it.
        by: Address,
    },
    /// Change of a metadata entry.
    MetadataSet {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Key of the entry.
        key: SafeText,
        /// Value of the entry.
        value: Bytes,
    },
    /// Transfer of an agent; from the zero address at its registration.
    Transferred {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Previous owner of the agent.
        from: Address,
        /// New owner of the agent.
        to: Address,
    },
    /// Feedback on an agent.
    Feedback {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Author of the feedback.
        client: Address,
        /// Index of the client's feedback, counted from one.
        index: u64,
        /// Feedback value, in units of 10^-`decimals`.
        value: i128,
        /// Number of decimals of the value.
        decimals: u8,
        /// Tags that classify the feedback.
        tags: [SafeText; 2],
        /// Agent's endpoint that the feedback is about; empty if the client named none.
        endpoint: SafeText,
        /// Address of a file with details; empty without one.
        uri: SafeText,
        /// Hash of the file; zero without one.
        hash: B256,
    },
    /// Revocation of feedback.
    FeedbackRevoked {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Author of the feedback.
        client: Address,
        /// Index of the client's feedback, counted from one.
        index: u64,
    },
    /// Response to feedback.
    ResponseAppended {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Author of the feedback.
        client: Address,
        /// Index of the client's feedback, counted from one.
        index: u64,
        /// Author of the response.
        responder: Address,
    },
    /// Request for a validation.
    ValidationRequested {
        /// Address of the validator.
        validator: Address,
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Address of the file that describes the validation.
        uri: SafeText,
        /// Hash of the request.
        request: B256,
    },
    /// Response of a validator.
    ValidationAnswered {
        /// Address of the validator.
        validator: Address,
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Hash of the request.
        request: B256,
        /// Response, from 0 to 100.
        response: u8,
        /// Tag that classifies the response.
        tag: SafeText,
    },
}

/// Error for a log that is not an event of the registries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the log is not an event of an ERC-8004 registry")]
pub struct UnknownEvent;

impl RegistryEvent {
    /// Decodes a log. The caller must check which contract emitted it.
    ///
    /// # Errors
    /// [`UnknownEvent`] for any other log.
    pub fn decode(log: &Log) -> Result<Self, UnknownEvent> {
        if let Ok(event) = IdentityRegistryEvents::decode_log(log) {
            return Ok(identity(event.data));
        }
        if let Ok(event) = ReputationRegistryEvents::decode_log(log) {
            return Ok(reputation(event.data));
        }
        ValidationRegistryEvents::decode_log(log).map(|event| validation(event.data)).map_err(|_| UnknownEvent)
    }
}

fn uri(raw: &str) -> SafeText {
    SafeText::clean(raw, MAX_URI_CHARS)
}

fn name(raw: &str) -> SafeText {
    SafeText::clean(raw, MAX_NAME_CHARS)
}

fn identity(event: IdentityRegistryEvents) -> RegistryEvent {
    match event {
        IdentityRegistryEvents::Registered(event) => {
            RegistryEvent::Registered { agent: event.agentId, uri: uri(&event.agentURI), owner: event.owner }
        }
        IdentityRegistryEvents::URIUpdated(event) => {
            RegistryEvent::UriUpdated { agent: event.agentId, uri: uri(&event.newURI), by: event.updatedBy }
        }
        IdentityRegistryEvents::MetadataSet(event) => RegistryEvent::MetadataSet {
            agent: event.agentId,
            key: name(&event.metadataKey),
            value: event.metadataValue,
        },
        IdentityRegistryEvents::Transfer(event) => {
            RegistryEvent::Transferred { agent: event.tokenId, from: event.from, to: event.to }
        }
    }
}

fn reputation(event: ReputationRegistryEvents) -> RegistryEvent {
    match event {
        ReputationRegistryEvents::NewFeedback(event) => RegistryEvent::Feedback {
            agent: event.agentId,
            client: event.clientAddress,
            index: event.feedbackIndex,
            value: event.value,
            decimals: event.valueDecimals,
            tags: [name(&event.tag1), name(&event.tag2)],
            endpoint: uri(&event.endpoint),
            uri: uri(&event.feedbackURI),
            hash: event.feedbackHash,
        },
        ReputationRegistryEvents::FeedbackRevoked(event) => RegistryEvent::FeedbackRevoked {
            agent: event.agentId,
            client: event.clientAddress,
            index: event.feedbackIndex,
        },
        ReputationRegistryEvents::ResponseAppended(event) => RegistryEvent::ResponseAppended {
            agent: event.agentId,
            client: event.clientAddress,
            index: event.feedbackIndex,
            responder: event.responder,
        },
    }
}

fn validation(event: ValidationRegistryEvents) -> RegistryEvent {
    match event {
        ValidationRegistryEvents::ValidationRequest(event) => RegistryEvent::ValidationRequested {
            validator: event.validatorAddress,
            agent: event.agentId,
            uri: uri(&event.requestURI),
            request: event.requestHash,
        },
        ValidationRegistryEvents::ValidationResponse(event) => RegistryEvent::ValidationAnswered {
            validator: event.validatorAddress,
            agent: event.agentId,
            request: event.requestHash,
            response: event.response,
            tag: name(&event.tag),
        },
    }
}
