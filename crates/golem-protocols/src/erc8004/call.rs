//! What can be asked of the registries, with the rules they enforce; breaking one is told before gas is spent.

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::sol_types::SolCall;

use bardo_abi::erc8004::{IdentityRegistry, MetadataEntry, ReputationRegistry, ValidationRegistry};

/// The metadata key that only [`super::WalletChange`] may set.
const RESERVED_KEY: &str = "agentWallet";
/// The most decimals a feedback's value can have.
const MAX_VALUE_DECIMALS: u8 = 18;
/// The largest value a feedback can have, either way: 10^38.
const MAX_VALUE: i128 = 100_000_000_000_000_000_000_000_000_000_000_000_000;
/// The best answer of a validator.
const MAX_RESPONSE: u8 = 100;

/// A key of an agent's metadata and its value.
pub type Metadata = (String, Bytes);

/// A write to one of the three registries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A new agent, owned by the sender.
    Register {
        /// Where its registration file is; none yet where empty.
        uri: String,
        /// Its metadata.
        metadata: Vec<Metadata>,
    },
    /// Another registration file.
    SetUri {
        /// The agent.
        agent: U256,
        /// Where the file is.
        uri: String,
    },
    /// One entry of metadata.
    SetMetadata {
        /// The agent.
        agent: U256,
        /// The key.
        key: String,
        /// The value.
        value: Bytes,
    },
    /// The agent gets another owner, who can do everything with it.
    Transfer {
        /// The agent.
        agent: U256,
        /// From whom.
        from: Address,
        /// To whom.
        to: Address,
    },
    /// Feedback of the sender.
    GiveFeedback {
        /// The agent.
        agent: U256,
        /// The value, in units of 10^-`decimals`.
        value: i128,
        /// Decimals of the value.
        decimals: u8,
        /// What it is about.
        tags: [String; 2],
        /// Which of the agent's endpoints.
        endpoint: String,
        /// A file with more.
        uri: String,
        /// Hash of the file.
        hash: B256,
    },
    /// The sender takes feedback back.
    RevokeFeedback {
        /// The agent.
        agent: U256,
        /// Which of the sender's, from one.
        index: u64,
    },
    /// A validator is asked.
    RequestValidation {
        /// The validator.
        validator: Address,
        /// The agent.
        agent: U256,
        /// What is to be checked.
        uri: String,
        /// Hash of that.
        hash: B256,
    },
    /// The validator, who sends this, answers.
    RespondValidation {
        /// Hash of the request.
        request: B256,
        /// 0 to 100.
        response: u8,
        /// A file with more.
        uri: String,
        /// Hash of the file.
        hash: B256,
        /// What it is about.
        tag: String,
    },
}

/// A rule of the registries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A reserved key.
    #[error("the metadata key \"agentWallet\" is reserved: the new wallet sets it by signing")]
    ReservedKey,
    /// An owner rating itself.
    #[error("{0} owns or operates this agent, so it may not rate it")]
    OwnAgent(Address),
    /// Feedback counted from zero.
    #[error("feedback indices start at 1")]
    IndexZero,
    /// Too many decimals.
    #[error("a feedback value has at most 18 decimals, not {0}")]
    Decimals(u8),
    /// A value beyond the registry's range.
    #[error("a feedback value must be between -10^38 and 10^38 before its decimals")]
    Value,
    /// An answer above 100.
    #[error("a validator's response must be 0 to 100, not {0}")]
    Response(u8),
    /// No new wallet.
    #[error("the zero address cannot be an agent's wallet: unset the wallet instead")]
    NoWallet,
    /// Too late.
    #[error("the deadline {deadline} has passed: the time is {now}")]
    DeadlinePassed {
        /// What was given.
        deadline: u64,
        /// The time.
        now: u64,
    },
    /// Too early.
    #[error("the deadline may be at most 300 s ahead: {latest} at the latest")]
    DeadlineTooFar {
        /// The latest that is taken.
        latest: u64,
    },
    /// A transfer to nobody.
    #[error("an agent cannot be transferred to the zero address")]
    NoRecipient,
}

impl Call {
    /// The calldata.
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

    /// Whether the registries' rules let `sender` do this. `controllers` are the agent's owner and operators, as far
    /// as they are known.
    ///
    /// # Errors
    /// The first [`RuleError`] that it breaks.
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
