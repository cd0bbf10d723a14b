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
/// Maximum length of a review, in characters.
const MAX_REVIEW_CHARS: usize = 2_000;
/// Maximum length of the address of a file, in characters.
const MAX_URI_CHARS: usize = 2_048;
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

/// Decodes the content of a data URI with a JSON file, in base64 or percent-encoded; parameters of the media type, such as
/// a charset, are allowed ([RFC 2397](https://www.rfc-editor.org/rfc/rfc2397)). `None` for any other address.
pub(super) fn data_json(uri: &str) -> Option<Result<Vec<u8>, FileError>> {
    let (head, encoded) = uri.strip_prefix("data:")?.split_once(',')?;
    let mut parts = head.split(';');
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    if !is_json {
        return None;
    }
    let is_base64 = parts.next_back().is_some_and(|last| last.eq_ignore_ascii_case("base64"));
    // Four characters of base64 encode three bytes; at most three characters encode one byte otherwise.
    let least = if is_base64 { encoded.len() / 4 * 3 } else { encoded.len() / 3 };
    if least > MAX_BYTES {
        return Some(Err(FileError::TooLong { length: encoded.len() }));
    }
    Some(match is_base64 {
        true => STANDARD.decode(encoded).map_err(|_| FileError::NotBase64),
        false => percent_decoded(encoded).ok_or(FileError::NotPercentEncoded),
    })
}

/// Decodes percent-encoding ([RFC 3986, section 2.1](https://www.rfc-editor.org/rfc/rfc3986#section-2.1)). `None` if a
/// percent sign is not followed by two hexadecimal digits.
fn percent_decoded(encoded: &str) -> Option<Vec<u8>> {
    let mut parts = encoded.split('%');
    let mut decoded = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
        decoded.extend_from_slice(rest.as_bytes());
    }
    Some(decoded)
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

/// Review in words of a feedback on an agent, as far as the chain has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Review {
    /// The feedback names no file, or one without words.
    Absent,
    /// Words of the file in the feedback's data URI, cleaned.
    Read(Box<SafeText>),
    /// The file is elsewhere and is not read here.
    Elsewhere {
        /// Address of the file, cleaned and cut.
        uri: Box<SafeText>,
        /// Keccak-256 of the file by the feedback; zero for content in IPFS, whose address proves it.
        hash: B256,
    },
}

impl Review {
    /// Reads what the address of a feedback file contains.
    pub fn of(uri: &str, hash: B256) -> Self {
        match data_json(uri) {
            _ if uri.is_empty() => Self::Absent,
            Some(Ok(bytes)) => Self::words(&bytes).map_or(Self::Absent, |words| Self::Read(Box::new(words))),
            Some(Err(_)) => Self::Absent,
            None => Self::Elsewhere { uri: Box::new(SafeText::clean(uri, MAX_URI_CHARS)), hash },
        }
    }

    /// Words of a feedback file, cleaned and cut; `None` without any.
    pub fn words(bytes: &[u8]) -> Option<SafeText> {
        if bytes.len() > MAX_BYTES {
            return None;
        }
        let file: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
        let words = SafeText::clean(file.get("text")?.as_str()?.trim(), MAX_REVIEW_CHARS);
        Some(words).filter(|words| !words.is_empty())
    }

    /// Words of a file that was read from elsewhere. `None` if nothing proves that the bytes are those that the client
    /// gave: neither an identifier, which the reader has verified, nor the feedback's hash.
    pub fn proven_words(bytes: &[u8], hash: B256, is_content: bool) -> Option<SafeText> {
        let is_proven = if hash.is_zero() { is_content } else { keccak256(bytes) == hash };
        is_proven.then(|| Self::words(bytes)).flatten()
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
    #[error("not a data URI of a registration: it must begin with \"data:application/json\"")]
    NotData,
    /// Data URI that is not valid base64.
    #[error("the data URI is not valid base64")]
    NotBase64,
    /// Data URI without base64 whose percent-encoding is broken.
    #[error("the data URI has a percent sign without two hexadecimal digits")]
    NotPercentEncoded,
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
        Self::read(&data_json(uri).ok_or(FileError::NotData)??)
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
