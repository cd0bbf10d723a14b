//! Content that a call to a registry publishes, in lines that a person reads before it is signed. Everything comes from
//! the calldata, and from files whose content identifiers the calldata contains.

use alloy::primitives::Bytes;
use serde_json::Value;

use super::call::{Metadata, RegistryCall, RegistryKind};
use super::file::data_json;
use super::location::Cid;
use bardo_base::text::SafeText;

/// Maximum length of a line's name and of its text, in characters. The longest text that the tools accept is 2,000.
const MAX_NAME: usize = 80;
const MAX_TEXT: usize = 2_400;
/// Maximum number of lines; one more says how many were left out.
const MAX_LINES: usize = 1_000;

/// Lines under construction.
#[derive(Default)]
struct Lines<'a> {
    /// Files that the calldata can name by content identifier.
    files: &'a [Bytes],
    kept: Vec<(SafeText, SafeText)>,
    left_out: usize,
}

impl Lines<'_> {
    fn line(&mut self, name: &str, text: &str) {
        if self.kept.len() >= MAX_LINES {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        self.kept.push((SafeText::clean(name, MAX_NAME), SafeText::clean(text, MAX_TEXT)));
    }

    fn line_if(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.line(name, text);
        }
    }

    /// The leaves of a JSON value, each with its path, such as `services[0].endpoint`.
    fn leaves(&mut self, path: &str, value: &Value) {
        match value {
            Value::Null => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.leaves(&path, value);
                }
            }
            Value::Array(values) => {
                for (at, value) in values.iter().enumerate() {
                    self.leaves(&format!("{path}[{at}]"), value);
                }
            }
            Value::String(text) => self.line_if(path, text),
            Value::Bool(_) | Value::Number(_) => self.line(path, &value.to_string()),
        }
    }

    /// A file: its content if the URI contains it or is the identifier of a known one, else the URI.
    fn file(&mut self, uri: &str) {
        let json = |bytes: &[u8]| match serde_json::from_slice::<Value>(bytes) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => Some(value),
            Ok(_) | Err(_) => None,
        };
        if let Some(value) = data_json(uri).and_then(|bytes| json(&bytes.ok()?)) {
            self.leaves("", &value);
            return;
        }
        self.line_if("file", uri);
        if let Some(value) = self.files.iter().find(|file| uri == content_uri(file)).and_then(|file| json(file)) {
            self.leaves("", &value);
        }
    }

    fn metadata(&mut self, (key, value): &Metadata) {
        let text = |value: &Bytes| {
            let printable = std::str::from_utf8(value).ok().filter(|text| !text.chars().any(char::is_control));
            printable.map_or_else(|| value.to_string(), str::to_owned)
        };
        self.line(&format!("metadata {key}"), &text(value));
    }

    fn done(mut self) -> Vec<(SafeText, SafeText)> {
        if self.left_out > 0 {
            let words = format!("{} more lines are published and not shown here", self.left_out);
            self.kept.push((SafeText::clean("NOT SHOWN", MAX_NAME), SafeText::clean(&words, MAX_TEXT)));
        }
        self.kept
    }
}

/// Address of a file in IPFS: the identifier of its bytes as one block.
pub fn content_uri(file: &[u8]) -> String {
    format!("ipfs://{}", Cid::of_raw(file))
}

/// True if one of these calls to registries names the file by its content identifier.
pub fn is_named<'a>(file: &[u8], mut calls: impl Iterator<Item = &'a RegistryCall>) -> bool {
    let wanted = content_uri(file);
    calls.any(|call| match call {
        RegistryCall::Register { uri, .. }
        | RegistryCall::SetUri { uri, .. }
        | RegistryCall::GiveFeedback { uri, .. }
        | RegistryCall::RequestValidation { uri, .. }
        | RegistryCall::RespondValidation { uri, .. } => *uri == wanted,
        RegistryCall::SetMetadata { .. } | RegistryCall::Transfer { .. } | RegistryCall::RevokeFeedback { .. } => false,
    })
}

/// Content that calldata for a registry of agents publishes, as lines with a name and a text; empty for any other call.
/// Of `files`, those count whose content identifiers the calldata contains: their content is computed to be theirs here.
pub fn published(data: &[u8], files: &[Bytes]) -> Vec<(SafeText, SafeText)> {
    let kinds = [RegistryKind::Identity, RegistryKind::Reputation, RegistryKind::Validation];
    let Some(call) = kinds.into_iter().find_map(|kind| RegistryCall::decode(kind, data)) else { return Vec::new() };
    let mut lines = Lines { files, ..Lines::default() };
    match call {
        RegistryCall::Register { uri, metadata } => {
            lines.line("agent", "a new one");
            lines.file(&uri);
            metadata.iter().for_each(|entry| lines.metadata(entry));
        }
        RegistryCall::SetUri { agent, uri } => {
            lines.line("agent", &agent.to_string());
            lines.file(&uri);
        }
        RegistryCall::SetMetadata { agent, key, value } => {
            lines.line("agent", &agent.to_string());
            lines.metadata(&(key, value));
        }
        RegistryCall::Transfer { agent, from: _, to } => {
            lines.line("agent", &agent.to_string());
            lines.line("new owner", &to.to_string());
        }
        RegistryCall::GiveFeedback { agent, value, decimals, tags, endpoint, uri, hash: _ } => {
            lines.line("agent", &agent.to_string());
            lines.line("rating", &scaled(value, decimals));
            tags.iter().for_each(|tag| lines.line_if("tag", tag));
            lines.line_if("endpoint", &endpoint);
            lines.file(&uri);
        }
        RegistryCall::RevokeFeedback { agent, index } => {
            lines.line("agent", &agent.to_string());
            lines.line("revokes your feedback", &index.to_string());
        }
        RegistryCall::RequestValidation { validator, agent, uri, hash: _ } => {
            lines.line("agent", &agent.to_string());
            lines.line("validator", &validator.to_string());
            lines.file(&uri);
        }
        RegistryCall::RespondValidation { request, response, uri, hash: _, tag } => {
            lines.line("request", &request.to_string());
            lines.line("response", &format!("{response} of 100"));
            lines.line_if("tag", &tag);
            lines.file(&uri);
        }
    }
    lines.done()
}

/// A rating with its decimals: 8500 with 2 decimals is `85.00`.
fn scaled(value: i128, decimals: u8) -> String {
    let (sign, digits) = (if value < 0 { "-" } else { "" }, value.unsigned_abs().to_string());
    let places = usize::from(decimals);
    if places == 0 {
        return format!("{sign}{digits}");
    }
    let padded = format!("{digits:0>width$}", width = places.saturating_add(1));
    // The text has more characters than places, all of them ASCII digits.
    let (whole, fraction) = padded.split_at(padded.len().saturating_sub(places));
    format!("{sign}{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, B256, U256};
    use serde_json::json;

    use super::*;

    fn data_uri(value: &Value) -> String {
        super::super::file::data_uri(value.to_string().as_bytes())
    }

    fn lines(call: &RegistryCall) -> Vec<(String, String)> {
        let lines = published(&call.calldata(), &[]);
        lines.into_iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
    }

    fn has(lines: &[(String, String)], name: &str, text: &str) -> bool {
        lines.contains(&(name.to_owned(), text.to_owned()))
    }

    #[test]
    fn every_leaf_of_a_file_is_a_line() {
        let file = json!({
            "name": "Careful", "active": false, "image": "",
            "services": [{"name": "A2A", "endpoint": "https://elsewhere.example/card.json"}],
            "x": {"y": ["z", 7]},
        });
        let call = RegistryCall::SetUri { agent: U256::from(13), uri: data_uri(&file) };
        let lines = lines(&call);
        for (name, text) in [
            ("agent", "13"),
            ("name", "Careful"),
            ("active", "false"),
            ("services[0].endpoint", "https://elsewhere.example/card.json"),
            ("x.y[0]", "z"),
            ("x.y[1]", "7"),
        ] {
            assert!(has(&lines, name, text), "{name}: {lines:?}");
        }
        assert_eq!(lines.len(), 7, "{lines:?}");
    }

    #[test]
    fn a_file_that_is_not_in_its_uri_is_shown_by_the_uri_and_metadata_as_text_or_bytes() {
        for uri in ["ipfs://bafy", "data:application/json;base64,%%%", "data:text/plain,hello"] {
            let call = RegistryCall::Register { uri: uri.to_owned(), metadata: Vec::new() };
            assert!(has(&lines(&call), "file", uri), "{uri}");
        }
        let entry = |key: &str, value: &[u8]| (key.to_owned(), Bytes::copy_from_slice(value));
        let metadata = vec![entry("site", b"golem.example"), entry("raw", &[0, 255])];
        let lines = lines(&RegistryCall::Register { uri: String::new(), metadata });
        assert!(has(&lines, "metadata site", "golem.example") && has(&lines, "metadata raw", "0x00ff"), "{lines:?}");
    }

    #[test]
    fn a_file_in_ipfs_is_shown_if_its_bytes_have_the_named_identifier() {
        let file = Bytes::from(json!({"name": "Careful", "active": true}).to_string().into_bytes());
        let other = Bytes::from(json!({"name": "Careless", "active": true}).to_string().into_bytes());
        let call = RegistryCall::Register { uri: content_uri(&file), metadata: Vec::new() };
        let lines = |files: &[Bytes]| -> Vec<(String, String)> {
            let lines = published(&call.calldata(), files);
            lines.into_iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
        };
        let shown = lines(&[other.clone(), file.clone()]);
        assert!(has(&shown, "name", "Careful") && has(&shown, "file", &content_uri(&file)), "{shown:?}");
        // Bytes with another identifier are none of the call's, whatever a session claims.
        assert_eq!(lines(std::slice::from_ref(&other)), lines(&[]));
        assert!(is_named(&file, [call.clone()].iter()) && !is_named(&other, [call].iter()));
    }

    #[test]
    fn a_rating_has_its_decimals_and_its_words() {
        for (value, decimals, shown) in [(8_500, 2, "85.00"), (-5, 3, "-0.005"), (7, 0, "7"), (0, 1, "0.0")] {
            let call = RegistryCall::GiveFeedback {
                agent: U256::ZERO,
                value,
                decimals,
                tags: ["fast".to_owned(), String::new()],
                endpoint: "https://golem.example".to_owned(),
                uri: data_uri(&json!({"text": "Quoted as filled."})),
                hash: B256::ZERO,
            };
            let lines = lines(&call);
            assert!(has(&lines, "rating", shown) && has(&lines, "text", "Quoted as filled."), "{lines:?}");
            assert!(has(&lines, "tag", "fast") && has(&lines, "endpoint", "https://golem.example"), "{lines:?}");
        }
    }

    #[test]
    fn what_has_no_room_is_counted_and_hostile_text_is_cleaned() {
        let many: Vec<String> = (0..1_200).map(|at| at.to_string()).collect();
        let file = json!({"a": many, "z": "\u{202e}evil\u{1b}[2J"});
        let lines = lines(&RegistryCall::SetUri { agent: U256::ZERO, uri: data_uri(&file) });
        assert_eq!(lines.len(), MAX_LINES + 1);
        // The agent, twelve hundred entries and the text, of which a thousand are kept.
        assert_eq!(lines.last().unwrap().1, "202 more lines are published and not shown here");
        let file = json!({"z": "\u{202e}evil\u{1b}[2J"});
        let lines = published(&RegistryCall::SetUri { agent: U256::ZERO, uri: data_uri(&file) }.calldata(), &[]);
        assert!(lines[1].1.altered() && !lines[1].1.as_str().contains('\u{1b}'), "{lines:?}");
    }

    #[test]
    fn other_calls_publish_nothing() {
        assert!(published(&[], &[]).is_empty());
        let transfer = [&[0xa9, 0x05, 0x9c, 0xbb][..], &[0; 64]].concat();
        assert!(published(&transfer, &[]).is_empty());
        let call = RegistryCall::Transfer { agent: U256::from(3), from: Address::ZERO, to: Address::repeat_byte(9) };
        assert!(has(&lines(&call), "new owner", &Address::repeat_byte(9).to_string()));
    }
}
