//! Events of the registries, with every text in them cleaned.

use alloy::primitives::{Address, B256, Bytes, Log, U256};
use alloy::sol_types::SolEventInterface;

use bardo_abi::erc8004::IdentityRegistry::IdentityRegistryEvents;
use bardo_abi::erc8004::ReputationRegistry::ReputationRegistryEvents;
use bardo_abi::erc8004::ValidationRegistry::ValidationRegistryEvents;
use bardo_base::text::SafeText;

/// Characters kept of a file's address. A registration can be in its own address, as a data URI, and is then read
/// from the chain, not from here.
const MAX_URI_CHARS: usize = 2_048;
/// Characters kept of a key or a tag.
const MAX_NAME_CHARS: usize = 128;

/// What happened in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An agent was registered.
    Registered {
        /// The agent.
        agent: U256,
        /// Its registration file.
        uri: SafeText,
        /// Its owner.
        owner: Address,
    },
    /// An agent has another registration file.
    UriUpdated {
        /// The agent.
        agent: U256,
        /// The file.
        uri: SafeText,
        /// Who changed it.
        by: Address,
    },
    /// An entry of metadata was set.
    MetadataSet {
        /// The agent.
        agent: U256,
        /// The key.
        key: SafeText,
        /// The value.
        value: Bytes,
    },
    /// An agent changed hands; from nobody when it was registered.
    Transferred {
        /// The agent.
        agent: U256,
        /// From whom.
        from: Address,
        /// To whom.
        to: Address,
    },
    /// Feedback was given.
    Feedback {
        /// The agent.
        agent: U256,
        /// Who gave it.
        client: Address,
        /// Which of the client's, from one.
        index: u64,
        /// The value, in units of 10^-`decimals`.
        value: i128,
        /// Decimals of the value.
        decimals: u8,
        /// What it is about.
        tags: [SafeText; 2],
    },
    /// Feedback was taken back.
    FeedbackRevoked {
        /// The agent.
        agent: U256,
        /// Who gave it.
        client: Address,
        /// Which of the client's, from one.
        index: u64,
    },
    /// Somebody answered feedback.
    ResponseAppended {
        /// The agent.
        agent: U256,
        /// Who gave the feedback.
        client: Address,
        /// Which of the client's, from one.
        index: u64,
        /// Who answered.
        responder: Address,
    },
    /// A validator was asked.
    ValidationRequested {
        /// The validator.
        validator: Address,
        /// The agent.
        agent: U256,
        /// What is to be checked.
        uri: SafeText,
        /// Hash of that.
        request: B256,
    },
    /// A validator answered.
    ValidationAnswered {
        /// The validator.
        validator: Address,
        /// The agent.
        agent: U256,
        /// Hash of the request.
        request: B256,
        /// 0 to 100.
        response: u8,
        /// What it is about.
        tag: SafeText,
    },
}

/// A log that is none of the registries'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the log is not an event of an ERC-8004 registry")]
pub struct UnknownEvent;

impl Event {
    /// Reads a log. Which contract wrote it is the caller's to check.
    ///
    /// # Errors
    /// [`UnknownEvent`] for every other log.
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

fn identity(event: IdentityRegistryEvents) -> Event {
    match event {
        IdentityRegistryEvents::Registered(event) => {
            Event::Registered { agent: event.agentId, uri: uri(&event.agentURI), owner: event.owner }
        }
        IdentityRegistryEvents::URIUpdated(event) => {
            Event::UriUpdated { agent: event.agentId, uri: uri(&event.newURI), by: event.updatedBy }
        }
        IdentityRegistryEvents::MetadataSet(event) => {
            Event::MetadataSet { agent: event.agentId, key: name(&event.metadataKey), value: event.metadataValue }
        }
        IdentityRegistryEvents::Transfer(event) => {
            Event::Transferred { agent: event.tokenId, from: event.from, to: event.to }
        }
    }
}

fn reputation(event: ReputationRegistryEvents) -> Event {
    match event {
        ReputationRegistryEvents::NewFeedback(event) => Event::Feedback {
            agent: event.agentId,
            client: event.clientAddress,
            index: event.feedbackIndex,
            value: event.value,
            decimals: event.valueDecimals,
            tags: [name(&event.tag1), name(&event.tag2)],
        },
        ReputationRegistryEvents::FeedbackRevoked(event) => {
            Event::FeedbackRevoked { agent: event.agentId, client: event.clientAddress, index: event.feedbackIndex }
        }
        ReputationRegistryEvents::ResponseAppended(event) => Event::ResponseAppended {
            agent: event.agentId,
            client: event.clientAddress,
            index: event.feedbackIndex,
            responder: event.responder,
        },
    }
}

fn validation(event: ValidationRegistryEvents) -> Event {
    match event {
        ValidationRegistryEvents::ValidationRequest(event) => Event::ValidationRequested {
            validator: event.validatorAddress,
            agent: event.agentId,
            uri: uri(&event.requestURI),
            request: event.requestHash,
        },
        ValidationRegistryEvents::ValidationResponse(event) => Event::ValidationAnswered {
            validator: event.validatorAddress,
            agent: event.agentId,
            request: event.requestHash,
            response: event.response,
            tag: name(&event.tag),
        },
    }
}
