//! Calls to the ERC-8004 registries, with the registries' rules. Checking the rules in advance saves the gas of a
//! revert.

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;

use bardo_abi::erc8004::{IdentityRegistry, MetadataEntry, ReputationRegistry, ValidationRegistry};

/// Metadata key that only [`super::WalletChange`] may set.
const RESERVED_KEY: &str = "agentWallet";
/// Maximum number of decimals of a feedback value.
const MAX_VALUE_DECIMALS: u8 = 18;
/// Maximum absolute value of a feedback, before its decimals: 10^38.
const MAX_VALUE: i128 = 100_000_000_000_000_000_000_000_000_000_000_000_000;
/// Maximum response of a validator.
const MAX_RESPONSE: u8 = 100;

/// Key and value of an agent's metadata entry.
pub type Metadata = (String, Bytes);

/// Write call to one of the three registries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryCall {
    /// Registers a new agent, owned by the sender.
    Register {
        /// Address of its registration file; empty for none yet.
        uri: String,
        /// Initial metadata entries.
        metadata: Vec<Metadata>,
    },
    /// Sets the address of the registration file.
    SetUri {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Address of the registration file.
        uri: String,
    },
    /// Sets one metadata entry.
    SetMetadata {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Key of the entry.
        key: String,
        /// Value of the entry.
        value: Bytes,
    },
    /// Transfers an agent to another owner, who gains full control.
    Transfer {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Current owner of the agent.
        from: Address,
        /// New owner of the agent.
        to: Address,
    },
    /// Submits the sender's feedback on an agent.
    GiveFeedback {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Feedback value, in units of 10^-`decimals`.
        value: i128,
        /// Number of decimals of the value.
        decimals: u8,
        /// Tags that classify the feedback.
        tags: [String; 2],
        /// Agent's endpoint that the feedback is about.
        endpoint: String,
        /// Address of a file with details.
        uri: String,
        /// Hash of the file.
        hash: B256,
    },
    /// Revokes the sender's earlier feedback.
    RevokeFeedback {
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Index of the sender's feedback, counted from one.
        index: u64,
    },
    /// Requests a validation of an agent.
    RequestValidation {
        /// Address of the validator.
        validator: Address,
        /// Agent's token id in the identity registry.
        agent: U256,
        /// Address of the file that describes the validation.
        uri: String,
        /// Hash of the request.
        hash: B256,
    },
    /// Submits a validation response; the sender is the validator.
    RespondValidation {
        /// Hash of the request.
        request: B256,
        /// Response, from 0 to 100.
        response: u8,
        /// Address of a file with details.
        uri: String,
        /// Hash of the file.
        hash: B256,
        /// Tag that classifies the response.
        tag: String,
    },
}

/// Violated rule of the registries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Use of the reserved metadata key.
    #[error("the metadata key \"agentWallet\" is reserved: the new wallet sets it by signing")]
    ReservedKey,
    /// Feedback by the owner or an operator of the agent.
    #[error("{0} owns or operates this agent, so it may not rate it")]
    OwnAgent(Address),
    /// Feedback index of zero; indices start at one.
    #[error("feedback indices start at 1")]
    IndexZero,
    /// Feedback with too many decimals.
    #[error("a feedback value has at most 18 decimals, not {0}")]
    Decimals(u8),
    /// Feedback value beyond the registry's range.
    #[error("a feedback value must be between -10^38 and 10^38 before its decimals")]
    Value,
    /// Validation response above 100.
    #[error("a validator's response must be 0 to 100, not {0}")]
    Response(u8),
    /// Wallet change to the zero address.
    #[error("the zero address cannot be an agent's wallet: unset the wallet instead")]
    NoWallet,
    /// Deadline that has passed.
    #[error("the deadline {deadline} has passed: the time is {now}")]
    DeadlinePassed {
        /// Given deadline, in seconds since the Unix epoch.
        deadline: u64,
        /// Current time, in seconds since the Unix epoch.
        now: u64,
    },
    /// Deadline too far in the future.
    #[error("the deadline may be at most 300 s ahead: {latest} at the latest")]
    DeadlineTooFar {
        /// Latest accepted deadline, in seconds since the Unix epoch.
        latest: u64,
    },
    /// Transfer to the zero address.
    #[error("an agent cannot be transferred to the zero address")]
    NoRecipient,
}

/// Registry of ERC-8004.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegistryKind {
    /// Agents as ERC-721 tokens.
    Identity,
    /// Feedback of clients.
    Reputation,
    /// Requests for validations, and validators' responses.
    Validation,
}

impl RegistryCall {
    /// Decodes calldata for a registry; `None` for any other call, and for calldata in another encoding than that of
    /// [`Self::calldata`], which could hide something.
    pub fn decode(kind: RegistryKind, data: &[u8]) -> Option<Self> {
        let call = match kind {
            RegistryKind::Identity => Self::decode_identity(data)?,
            RegistryKind::Reputation => Self::decode_reputation(data)?,
            RegistryKind::Validation => Self::decode_validation(data)?,
        };
        (call.calldata().as_ref() == data).then_some(call)
    }

    fn decode_identity(data: &[u8]) -> Option<Self> {
        if IdentityRegistry::register_0Call::abi_decode_validate(data).is_ok() {
            return Some(Self::Register { uri: String::new(), metadata: Vec::new() });
        }
        if let Ok(call) = IdentityRegistry::register_1Call::abi_decode_validate(data) {
            return Some(Self::Register { uri: call.agentURI, metadata: Vec::new() });
        }
        if let Ok(call) = IdentityRegistry::register_2Call::abi_decode_validate(data) {
            let entry = |entry: MetadataEntry| (entry.metadataKey, entry.metadataValue);
            return Some(Self::Register {
                uri: call.agentURI,
                metadata: call.metadata.into_iter().map(entry).collect(),
            });
        }
        if let Ok(call) = IdentityRegistry::setAgentURICall::abi_decode_validate(data) {
            return Some(Self::SetUri { agent: call.agentId, uri: call.newURI });
        }
        if let Ok(call) = IdentityRegistry::setMetadataCall::abi_decode_validate(data) {
            return Some(Self::SetMetadata { agent: call.agentId, key: call.metadataKey, value: call.metadataValue });
        }
        let call = IdentityRegistry::safeTransferFromCall::abi_decode_validate(data).ok()?;
        Some(Self::Transfer { agent: call.tokenId, from: call.from, to: call.to })
    }

    fn decode_reputation(data: &[u8]) -> Option<Self> {
        if let Ok(call) = ReputationRegistry::giveFeedbackCall::abi_decode_validate(data) {
            return Some(Self::GiveFeedback {
                agent: call.agentId,
                value: call.value,
                decimals: call.valueDecimals,
                tags: [call.tag1, call.tag2],
                endpoint: call.endpoint,
                uri: call.feedbackURI,
                hash: call.feedbackHash,
            });
        }
        let call = ReputationRegistry::revokeFeedbackCall::abi_decode_validate(data).ok()?;
        Some(Self::RevokeFeedback { agent: call.agentId, index: call.feedbackIndex })
    }

    fn decode_validation(data: &[u8]) -> Option<Self> {
        if let Ok(call) = ValidationRegistry::validationRequestCall::abi_decode_validate(data) {
            return Some(Self::RequestValidation {
                validator: call.validatorAddress,
                agent: call.agentId,
                uri: call.requestURI,
                hash: call.requestHash,
            });
        }
        let call = ValidationRegistry::validationResponseCall::abi_decode_validate(data).ok()?;
        Some(Self::RespondValidation {
            request: call.requestHash,
            response: call.response,
            uri: call.responseURI,
            hash: call.responseHash,
            tag: call.tag,
        })
    }

    /// Returns the calldata.
    pub fn calldata(&self) -> Bytes {
        match self.clone() {
            Self::Register { uri, metadata } if uri.is_empty() && metadata.is_empty() => {
                IdentityRegistry::register_0Call {}.abi_encode()
            }
            Self::Register { uri, metadata } if metadata.is_empty() => {
                IdentityRegistry::register_1Call { agentURI: uri }.abi_encode()
            }
            Self::Register { uri, metadata } => {
                let entry = |(key, value)| MetadataEntry { metadataKey: key, metadataValue: value };
                let metadata = metadata.into_iter().map(entry).collect();
                IdentityRegistry::register_2Call { agentURI: uri, metadata }.abi_encode()
            }
            Self::SetUri { agent, uri } => {
                IdentityRegistry::setAgentURICall { agentId: agent, newURI: uri }.abi_encode()
            }
            Self::SetMetadata { agent, key, value } => {
                IdentityRegistry::setMetadataCall { agentId: agent, metadataKey: key, metadataValue: value }
                    .abi_encode()
            }
            Self::Transfer { agent, from, to } => {
                IdentityRegistry::safeTransferFromCall { from, to, tokenId: agent }.abi_encode()
            }
            Self::GiveFeedback { agent, value, decimals, tags: [tag1, tag2], endpoint, uri, hash } => {
                ReputationRegistry::giveFeedbackCall {
                    agentId: agent,
                    value,
                    valueDecimals: decimals,
                    tag1,
                    tag2,
                    endpoint,
                    feedbackURI: uri,
                    feedbackHash: hash,
                }
                .abi_encode()
            }
            Self::RevokeFeedback { agent, index } => {
                ReputationRegistry::revokeFeedbackCall { agentId: agent, feedbackIndex: index }.abi_encode()
            }
            Self::RequestValidation { validator, agent, uri, hash } => ValidationRegistry::validationRequestCall {
                validatorAddress: validator,
                agentId: agent,
                requestURI: uri,
                requestHash: hash,
            }
            .abi_encode(),
            Self::RespondValidation { request, response, uri, hash, tag } => {
                ValidationRegistry::validationResponseCall {
                    requestHash: request,
                    response,
                    responseURI: uri,
                    responseHash: hash,
                    tag,
                }
                .abi_encode()
            }
        }
        .into()
    }

    /// Checks the call against the registries' rules. `controllers` are the agent's owner and operators, as far as they
    /// are known.
    ///
    /// # Errors
    /// Returns the first violated rule.
    pub fn check(&self, sender: Address, controllers: &[Address]) -> Result<(), RuleError> {
        match self {
            Self::Register { metadata, .. } => {
                let reserved = metadata.iter().any(|(key, _)| key == RESERVED_KEY);
                if reserved { Err(RuleError::ReservedKey) } else { Ok(()) }
            }
            Self::SetMetadata { key, .. } if key == RESERVED_KEY => Err(RuleError::ReservedKey),
            Self::SetMetadata { .. } | Self::SetUri { .. } | Self::RequestValidation { .. } => Ok(()),
            Self::Transfer { to, .. } if *to == Address::ZERO => Err(RuleError::NoRecipient),
            Self::Transfer { .. } => Ok(()),
            Self::GiveFeedback { .. } if controllers.contains(&sender) => Err(RuleError::OwnAgent(sender)),
            Self::GiveFeedback { decimals, .. } if *decimals > MAX_VALUE_DECIMALS => {
                Err(RuleError::Decimals(*decimals))
            }
            Self::GiveFeedback { value, .. } if value.unsigned_abs() > MAX_VALUE.unsigned_abs() => {
                Err(RuleError::Value)
            }
            Self::GiveFeedback { .. } => Ok(()),
            Self::RevokeFeedback { index: 0, .. } => Err(RuleError::IndexZero),
            Self::RevokeFeedback { .. } => Ok(()),
            Self::RespondValidation { response, .. } if *response > MAX_RESPONSE => Err(RuleError::Response(*response)),
            Self::RespondValidation { .. } => Ok(()),
        }
    }
}
