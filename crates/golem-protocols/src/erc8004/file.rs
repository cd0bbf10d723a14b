//! Registration file of an agent: the form that Bardo writes, and the parsed form of files from other authors.
//!
//! Not here: fetching files. A `data:` URI contains the file itself and is parsed here.

use alloy::primitives::{B256, keccak256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::AgentRegistry;
use bardo_base::text::SafeText;

/// Value of the file's `type` field.
pub const TYPE: &str = "https://eips.ethereum.org/EIPS/eip-8004#registration-v1";
/// Maximum size of a parsed file, in bytes.
pub const MAX_BYTES: usize = 256 * 1024;
/// Prefix of a data URI with a file, as Bardo writes it.
const DATA_PREFIX: &str = "data:application/json;base64,";
/// Maximum number of entries of any list that are read.
const MAX_ENTRIES: usize = 256;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 4_096;
/// Maximum length of any other text, in characters.
const MAX_CHARS: usize = 512;

/// Registration file for writing. Fields are serialized in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationFile {
    /// Type of the file; always [`TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the agent.
    pub name: String,
    /// Description of the agent's purpose.
    pub description: String,
    /// Address of its image.
    pub image: String,
    /// Endpoints of the agent.
    pub services: Vec<AgentService>,
    /// True if the agent accepts payments by x402.
    pub x402_support: bool,
    /// True if the agent is in service.
    pub active: bool,
    /// Registries that contain the agent.
    pub registrations: Vec<RegistryEntry>,
    /// Names of the supported trust models.
    pub supported_trust: Vec<String>,
}

/// Endpoint of an agent. The lists of an MCP server and of an A2A agent have the names that `agent0-sdk` writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentService {
    /// Name of the protocol, such as MCP or A2A.
    pub name: String,
    /// Address of the endpoint.
    pub endpoint: String,
    /// Version of the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Names of the tools of an MCP server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_tools: Vec<String>,
    /// Names of the prompts of an MCP server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_prompts: Vec<String>,
    /// Names of the resources of an MCP server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_resources: Vec<String>,
    /// Names of the skills of an A2A agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub a2a_skills: Vec<String>,
}

/// Registration of an agent in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryEntry {
    /// Agent's token id in the registry.
    pub agent_id: u64,
    /// Identifier of the registry, in the format of [`AgentRegistry`].
    pub agent_registry: String,
}

impl RegistrationFile {
    /// Encodes the file as a data URI, which needs no server.
    ///
    /// # Errors
    /// Returns the JSON serializer's error; no value of this type causes one.
    pub fn data_uri(&self) -> Result<String, serde_json::Error> {
        Ok(data_uri(&self.bytes()?))
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// As for [`Self::data_uri`].
    pub fn bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

/// Encodes the bytes of a JSON file as a data URI.
pub fn data_uri(bytes: &[u8]) -> String {
    format!("{DATA_PREFIX}{}", STANDARD.encode(bytes))
}

/// Returns the encoded content of a data URI with a JSON file in base64; parameters of the media type, such as a charset,
/// are allowed ([RFC 2397](https://www.rfc-editor.org/rfc/rfc2397)). `None` for any other address.
pub(super) fn encoded_json(uri: &str) -> Option<&str> {
    let (head, encoded) = uri.strip_prefix("data:")?.split_once(',')?;
    let mut parts = head.split(';');
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let is_base64 = parts.next_back().is_some_and(|last| last.eq_ignore_ascii_case("base64"));
    (is_json && is_base64).then_some(encoded)
}

/// Feedback file for writing, with the names of `agent0-sdk`. Fields are serialized in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackFile {
    /// Identifier of the identity registry, in the format of [`AgentRegistry`].
    pub agent_registry: String,
    /// Agent's token id in the registry, in decimal.
    pub agent_id: String,
    /// Author of the feedback, as `eip155:CHAIN:ADDRESS`.
    pub client_address: String,
    /// Time of the feedback, in UTC.
    pub created_at: String,
    /// Feedback value in units of 10^-`value_decimals`, in decimal.
    pub value: String,
    /// Number of decimals of the value.
    pub value_decimals: u8,
    /// First tag of the feedback; left out if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tag1: String,
    /// Second tag of the feedback; left out if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tag2: String,
    /// Review in words.
    pub text: String,
}

impl FeedbackFile {
    /// Bytes of the file, with their hash.
    ///
    /// # Errors
    /// Returns the JSON serializer's error; no value of this type causes one.
    pub fn bytes(&self) -> Result<(Vec<u8>, B256), serde_json::Error> {
        let bytes = serde_json::to_vec(self)?;
        let hash = keccak256(&bytes);
        Ok((bytes, hash))
    }
}

/// Parsed registration file from any author. All text is cleaned, and none of it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRegistration {
    /// Claimed name of the agent.
    pub name: SafeText,
    /// Claimed purpose of the agent.
    pub description: SafeText,
    /// Address of its image.
    pub image: SafeText,
    /// Claimed endpoints of the agent.
    pub services: Vec<ReadService>,
    /// Claim that the agent accepts payments by x402.
    pub x402_support: bool,
    /// Claim that the agent is in service.
    pub active: bool,
    /// Claimed registrations, as token id and registry. Invalid entries are left out.
    pub registrations: Vec<(u64, AgentRegistry)>,
    /// Names of the claimed trust models.
    pub supported_trust: Vec<SafeText>,
}

/// Claimed endpoint of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadService {
    /// Name of the protocol.
    pub name: SafeText,
    /// Address of the endpoint.
    pub endpoint: SafeText,
    /// Version of the protocol.
    pub version: Option<SafeText>,
    /// Names of the tools of an MCP server.
    pub mcp_tools: Vec<SafeText>,
    /// Names of the prompts of an MCP server.
    pub mcp_prompts: Vec<SafeText>,
    /// Names of the resources of an MCP server.
    pub mcp_resources: Vec<SafeText>,
    /// Names of the skills of an A2A agent.
    pub a2a_skills: Vec<SafeText>,
}

/// Error for bytes that are not a registration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// File beyond [`MAX_BYTES`].
    #[error("{length} bytes are too long for a registration file: at most {MAX_BYTES} are accepted")]
    TooLong {
        /// Length of the input in bytes, encoded if it was a data URI.
        length: usize,
    },
    /// Address that is not a data URI.
    #[error("not a data URI of a registration: it must begin with \"data:application/json;base64,\"")]
    NotData,
    /// Data URI that is not valid base64.
    #[error("the data URI is not valid base64")]
    NotBase64,
    /// Content that is not a JSON object.
    #[error("not a registration file: {0}")]
    NotJson(SafeText),
    /// File without a type.
    #[error("not a registration file: it has no type")]
    NoType,
    /// File of another type.
    #[error("the file's type is {0}, not a registration")]
    AnotherType(SafeText),
}

impl ReadRegistration {
    /// Parses a file. Only its `type` is required; entries and fields of another form than the standard's are left out,
    /// so that one mistake of an author does not hide the rest.
    ///
    /// # Errors
    /// Returns a [`FileError`] if the bytes are not a registration file.
    pub fn read(bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.len() > MAX_BYTES {
            return Err(FileError::TooLong { length: bytes.len() });
        }
        let file: Map<String, Value> = serde_json::from_slice(bytes)
            .map_err(|error| FileError::NotJson(SafeText::clean(&error.to_string(), MAX_CHARS)))?;
        match file.get("type").and_then(Value::as_str) {
            Some(TYPE) => {}
            Some(other) => return Err(FileError::AnotherType(SafeText::clean(other, MAX_CHARS))),
            None => return Err(FileError::NoType),
        }
        // Older files have other names for two of the fields.
        let either = |name: &str, old: &str| file.get(name).or_else(|| file.get(old));
        let flag = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or_default();
        Ok(Self {
            name: text(file.get("name")),
            description: SafeText::clean(raw_text(file.get("description")), MAX_DESCRIPTION_CHARS),
            image: text(file.get("image")),
            services: entries(either("services", "endpoints")).filter_map(ReadService::read).collect(),
            x402_support: flag(either("x402Support", "x402support")),
            active: flag(file.get("active")),
            registrations: entries(file.get("registrations")).filter_map(registration).collect(),
            supported_trust: texts(file.get("supportedTrust")),
        })
    }

    /// Parses the file in a data URI.
    ///
    /// # Errors
    /// Returns a [`FileError`] if the URI does not contain a registration file.
    pub fn read_data_uri(uri: &str) -> Result<Self, FileError> {
        let encoded = encoded_json(uri).ok_or(FileError::NotData)?;
        // Four characters encode three bytes.
        if encoded.len() / 4 * 3 > MAX_BYTES {
            return Err(FileError::TooLong { length: encoded.len() });
        }
        Self::read(&STANDARD.decode(encoded).map_err(|_| FileError::NotBase64)?)
    }
}

impl ReadRegistration {
    /// Returns true if a text of the file was altered when it was cleaned: it contained control, direction or invisible
    /// characters, or was too long.
    pub fn has_altered_text(&self) -> bool {
        let services = self.services.iter().flat_map(ReadService::texts);
        [&self.name, &self.description, &self.image]
            .into_iter()
            .chain(&self.supported_trust)
            .chain(services)
            .any(SafeText::altered)
    }

    /// First service of a protocol; case does not matter.
    pub fn service(&self, protocol: &str) -> Option<&ReadService> {
        self.services.iter().find(|service| service.name.as_str().eq_ignore_ascii_case(protocol))
    }
}

impl ReadService {
    fn texts(&self) -> impl Iterator<Item = &SafeText> {
        let lists = [&self.mcp_tools, &self.mcp_prompts, &self.mcp_resources, &self.a2a_skills];
        [&self.name, &self.endpoint].into_iter().chain(&self.version).chain(lists.into_iter().flatten())
    }

    /// Reads a service; `None` without a name and an endpoint.
    fn read(service: &Value) -> Option<Self> {
        let required = |name: &str| service.get(name)?.as_str().map(clean);
        Some(Self {
            name: required("name")?,
            endpoint: required("endpoint")?,
            version: required("version"),
            mcp_tools: texts(service.get("mcpTools")),
            mcp_prompts: texts(service.get("mcpPrompts")),
            mcp_resources: texts(service.get("mcpResources")),
            a2a_skills: texts(service.get("a2aSkills")),
        })
    }
}

/// Reads a registration as token id and registry.
fn registration(entry: &Value) -> Option<(u64, AgentRegistry)> {
    let registry = entry.get("agentRegistry")?.as_str()?.parse().ok()?;
    Some((entry.get("agentId")?.as_u64()?, registry))
}

fn clean(raw: &str) -> SafeText {
    SafeText::clean(raw, MAX_CHARS)
}

fn raw_text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn text(value: Option<&Value>) -> SafeText {
    clean(raw_text(value))
}

/// First entries of a list; none for anything else.
fn entries(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten().take(MAX_ENTRIES)
}

fn texts(value: Option<&Value>) -> Vec<SafeText> {
    entries(value).filter_map(Value::as_str).map(clean).collect()
}
