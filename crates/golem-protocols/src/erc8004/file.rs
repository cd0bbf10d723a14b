//! An agent's registration file: as written by us, and as read from whoever wrote it.
//!
//! Not here: fetching it. A `data:` URI carries the file itself and is read here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::Registry;
use bardo_base::text::SafeText;

/// What the file says it is.
pub const TYPE: &str = "https://eips.ethereum.org/EIPS/eip-8004#registration-v1";
/// The largest file that is read, in bytes.
pub const MAX_BYTES: usize = 256 * 1024;
/// How a data URI of a registration begins.
const DATA_PREFIX: &str = "data:application/json;base64,";
/// Services, registrations or kinds of trust that are read at most.
const MAX_ENTRIES: usize = 256;
/// Characters kept of a description.
const MAX_DESCRIPTION_CHARS: usize = 4_096;
/// Characters kept of anything else.
const MAX_CHARS: usize = 512;

/// A registration file as we write it. The fields stand in the order in which they are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    /// [`TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// The agent's name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its picture.
    pub image: String,
    /// Where it can be reached.
    pub services: Vec<Service>,
    /// Whether it can be paid by x402.
    pub x402_support: bool,
    /// Whether it is in service.
    pub active: bool,
    /// Where it is registered.
    pub registrations: Vec<Registered>,
    /// Kinds of trust it supports.
    pub supported_trust: Vec<String>,
}

/// One way to reach an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// The protocol, such as MCP or A2A.
    pub name: String,
    /// The address.
    pub endpoint: String,
    /// The protocol's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// One place where an agent is registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// The agent's number.
    pub agent_id: u64,
    /// The registry, as [`Registry`] writes it.
    pub agent_registry: String,
}

impl Registration {
    /// The file itself as an address, so that it needs no server.
    ///
    /// # Errors
    /// What the JSON writer says; no value of this type makes it say anything.
    pub fn data_uri(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{DATA_PREFIX}{}", STANDARD.encode(serde_json::to_vec(self)?)))
    }
}

/// A registration file as somebody wrote it: every text cleaned, nothing in it believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRegistration {
    /// The agent's name.
    pub name: SafeText,
    /// What it says it does.
    pub description: SafeText,
    /// Its picture.
    pub image: SafeText,
    /// Where it says it can be reached.
    pub services: Vec<ReadService>,
    /// Whether it says it can be paid by x402.
    pub x402_support: bool,
    /// Whether it says it is in service.
    pub active: bool,
    /// Where it says it is registered; what cannot be read is left out.
    pub registrations: Vec<(u64, Registry)>,
    /// Kinds of trust it says it supports.
    pub supported_trust: Vec<SafeText>,
}

/// One way to reach an agent, as somebody wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadService {
    /// The protocol.
    pub name: SafeText,
    /// The address.
    pub endpoint: SafeText,
    /// The protocol's version.
    pub version: Option<SafeText>,
}

/// Why a file is no registration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Too long.
    #[error("{length} bytes are too long for a registration file: at most {MAX_BYTES} are accepted")]
    TooLong {
        /// How long it was.
        length: usize,
    },
    /// Not a data URI.
    #[error("not a data URI of a registration: it must begin with \"data:application/json;base64,\"")]
    NotData,
    /// Not base64.
    #[error("the data URI is not valid base64")]
    NotBase64,
    /// Not JSON, or of another shape.
    #[error("not a registration file: {0}")]
    NotJson(SafeText),
    /// Another type of file.
    #[error("the file's type is {0}, not a registration")]
    AnotherType(SafeText),
}

/// The shape that is read: what the EIP demands, and nothing more, must be there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    image: String,
    // Older files call them endpoints.
    #[serde(default, alias = "endpoints")]
    services: Vec<Service>,
    #[serde(default, alias = "x402support")]
    x402_support: bool,
    #[serde(default)]
    active: bool,
    #[serde(default)]
    registrations: Vec<Registered>,
    #[serde(default)]
    supported_trust: Vec<String>,
}

impl ReadRegistration {
    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError`] that says why it is none.
    pub fn read(bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.len() > MAX_BYTES {
            return Err(FileError::TooLong { length: bytes.len() });
        }
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| FileError::NotJson(SafeText::clean(&error.to_string(), MAX_CHARS)))?;
        if raw.kind != TYPE {
            return Err(FileError::AnotherType(SafeText::clean(&raw.kind, MAX_CHARS)));
        }
        let text = |raw: &str| SafeText::clean(raw, MAX_CHARS);
        let service = |service: &Service| ReadService {
            name: text(&service.name),
            endpoint: text(&service.endpoint),
            version: service.version.as_deref().map(text),
        };
        let registered = |entry: &Registered| Some((entry.agent_id, entry.agent_registry.parse().ok()?));
        Ok(Self {
            name: text(&raw.name),
            description: SafeText::clean(&raw.description, MAX_DESCRIPTION_CHARS),
            image: text(&raw.image),
            services: raw.services.iter().take(MAX_ENTRIES).map(service).collect(),
            x402_support: raw.x402_support,
            active: raw.active,
            registrations: raw.registrations.iter().take(MAX_ENTRIES).filter_map(registered).collect(),
            supported_trust: raw.supported_trust.iter().take(MAX_ENTRIES).map(|trust| text(trust)).collect(),
        })
    }

    /// Reads the file out of its own address.
    ///
    /// # Errors
    /// [`FileError`] that says why it is none.
    pub fn read_data_uri(uri: &str) -> Result<Self, FileError> {
        let encoded = uri.strip_prefix(DATA_PREFIX).ok_or(FileError::NotData)?;
        // Four characters for three bytes.
        if encoded.len() / 4 * 3 > MAX_BYTES {
            return Err(FileError::TooLong { length: encoded.len() });
        }
        Self::read(&STANDARD.decode(encoded).map_err(|_| FileError::NotBase64)?)
    }
}
