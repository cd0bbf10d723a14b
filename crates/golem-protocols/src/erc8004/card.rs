//! Agent cards of the [Agent2Agent protocol](https://a2a-protocol.org/latest/specification/), as far as they are shown.

use bardo_base::text::SafeText;
use serde_json::{Map, Value};

/// Maximum size of a parsed card, in bytes.
pub const MAX_CARD: usize = 64 * 1024;
/// Maximum number of skills that are read.
const MAX_SKILLS: usize = 64;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1_024;
/// Maximum length of any other text, in characters.
const MAX_CHARS: usize = 256;

/// Parsed card of any author. All text is cleaned, and none of it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCard {
    /// Claimed name of the agent.
    pub name: SafeText,
    /// Claimed purpose of the agent.
    pub description: SafeText,
    /// Address at which it says that it takes requests; empty if it names none.
    pub endpoint: SafeText,
    /// Version of the protocol; `None` if it names none.
    pub protocol_version: Option<SafeText>,
    /// Names of its skills, or their identifiers where they have no names.
    pub skills: Vec<SafeText>,
}

/// Error for bytes that are not an agent card.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// Card beyond [`MAX_CARD`].
    #[error("{0} bytes are too long for an agent card: at most {MAX_CARD} are read")]
    TooLong(usize),
    /// Content that is not a JSON object.
    #[error("not an agent card: {0}")]
    NotJson(SafeText),
    /// Card without a name or without a list of skills, both of which the protocol requires.
    #[error("not an agent card: it has no {0}")]
    Without(&'static str),
}

impl AgentCard {
    /// Parses a card of version 0.3 or 1.0 of the protocol. Fields of another form are left out.
    ///
    /// # Errors
    /// A [`CardError`] if the bytes are not a card.
    pub fn read(bytes: &[u8]) -> Result<Self, CardError> {
        if bytes.len() > MAX_CARD {
            return Err(CardError::TooLong(bytes.len()));
        }
        let card: Map<String, Value> = serde_json::from_slice(bytes)
            .map_err(|error| CardError::NotJson(SafeText::clean(&error.to_string(), MAX_CHARS)))?;
        let text = |field: &str| card.get(field).and_then(Value::as_str).map(clean);
        let name = text("name").filter(|name| !name.is_empty()).ok_or(CardError::Without("name"))?;
        let skills = card.get("skills").and_then(Value::as_array).ok_or(CardError::Without("skills"))?;
        let skill = |skill: &Value| {
            let field = |name: &str| skill.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            field("name").or_else(|| field("id")).map(clean)
        };
        // Version 1.0 has a list of interfaces in the place of one address and one version.
        let interface = |field: &str| {
            let first = card.get("supportedInterfaces").and_then(Value::as_array)?.first()?;
            first.get(field).and_then(Value::as_str).map(clean)
        };
        let description = card.get("description").and_then(Value::as_str).unwrap_or_default();
        Ok(Self {
            name,
            description: SafeText::clean(description, MAX_DESCRIPTION_CHARS),
            endpoint: text("url").or_else(|| interface("url")).unwrap_or_default(),
            protocol_version: text("protocolVersion").or_else(|| interface("protocolVersion")),
            skills: skills.iter().take(MAX_SKILLS).filter_map(skill).collect(),
        })
    }
}

fn clean(raw: &str) -> SafeText {
    SafeText::clean(raw, MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cards_of_both_versions_are_read() {
        // The fields that both versions of the specification require.
        let old = json!({
            "protocolVersion": "0.3.0", "name": "Router", "description": "Finds routes.", "url": "https://a.example/a2a",
            "version": "1.2.0", "capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": [],
            "skills": [{"id": "route", "name": "Find a route", "description": "", "tags": []}, {"id": "quote"}, 7],
        });
        let card = AgentCard::read(old.to_string().as_bytes()).unwrap();
        let skills: Vec<_> = card.skills.iter().map(SafeText::as_str).collect();
        assert_eq!((card.name.as_str(), card.endpoint.as_str()), ("Router", "https://a.example/a2a"));
        assert_eq!(skills, ["Find a route", "quote"]);
        let new = json!({
            "name": "Router", "description": "Finds routes.", "version": "1.2.0", "skills": [],
            "supportedInterfaces": [{"url": "https://a.example/v1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        });
        let card = AgentCard::read(new.to_string().as_bytes()).unwrap();
        assert_eq!(card.protocol_version.unwrap().as_str(), "1.0");
        assert_eq!(card.endpoint.as_str(), "https://a.example/v1");
    }

    #[test]
    fn hostile_cards_are_cleaned_or_refused() {
        let hostile = json!({
            "name": "\u{202e}Router\u{1b}[2J", "description": "x".repeat(5_000),
            "skills": (0..500).map(|at| json!({"id": format!("skill {at}")})).collect::<Vec<_>>(),
        });
        let card = AgentCard::read(hostile.to_string().as_bytes()).unwrap();
        assert!(card.name.altered() && !card.name.as_str().contains('\u{1b}'));
        assert_eq!(card.skills.len(), MAX_SKILLS);
        assert!(card.description.as_str().chars().count() <= MAX_DESCRIPTION_CHARS);
        for (bytes, said) in [
            (&b"[]"[..], "not an agent card"),
            (b"{\"name\":\"x\"}", "no skills"),
            (b"{\"skills\":[]}", "no name"),
            (b"{\"name\":7,\"skills\":[]}", "no name"),
            (&vec![b' '; MAX_CARD + 1], "too long"),
        ] {
            let error = AgentCard::read(bytes).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
