//! Removal of credentials from a configuration file.
//!
//! Providers put their keys into the path of a URL as often as into its query. So every URL, in values and in comments,
//! keeps its host alone. What the file's parser then still reads as a URL with more than a host is an error.

use toml::Value;
use url::Url;

/// Replacement for the path, the query and the login of a URL.
pub(super) const REMOVED: &str = "REMOVED";
/// Key of the data directory.
const DATA_DIR: &str = "data_dir";
/// Schemes of URLs. The parser of URLs reads one slash and backslashes after them as two slashes.
const SCHEMES: [&str; 4] = ["https:", "http:", "wss:", "ws:"];

/// Reason why credentials cannot be removed from a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedactionFault {
    /// The text is not TOML; with the parser's message, which quotes no value.
    #[error("{0}")]
    Toml(String),
    /// The data directory cannot be turned into a comment.
    #[error("data_dir in it is not on a line of its own")]
    DataDir,
    /// A URL has kept more than its host.
    #[error("a URL in it is written in a way that hides its credential")]
    HiddenCredential,
}

/// Removes credentials from the text of a configuration file. Returns the text and the number of changed URLs. The
/// data directory becomes a comment: on the same machine, a restored configuration would otherwise lead to the copy that
/// it was made from.
///
/// # Errors
/// [`RedactionFault`].
pub(super) fn redacted(text: &str) -> Result<(String, usize), RedactionFault> {
    let mut count = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        let (line, changed) = redacted_line(line);
        count += changed;
        line
    });
    let out = without_data_dir(&lines.collect::<String>());
    let read: Value = toml::from_str::<toml::Table>(&out)
        .map(Value::Table)
        .map_err(|error| RedactionFault::Toml(error.message().to_owned()))?;
    if read.get(DATA_DIR).is_some() {
        return Err(RedactionFault::DataDir);
    }
    if has_credential(&read) {
        return Err(RedactionFault::HiddenCredential);
    }
    Ok((out, count))
}

/// Removes credentials from one line, with its end. Returns it and the number of changed URLs.
fn redacted_line(line: &str) -> (String, usize) {
    let (mut out, mut rest, mut count) = (String::with_capacity(line.len()), line, 0);
    while let Some((at, scheme)) = next_url(rest) {
        let (before, url) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let (url, after) = url.split_at_checked(end_of(url, &out)).unwrap_or((url, ""));
        let kept = host_of(url, scheme);
        count += usize::from(kept.is_some());
        out.push_str(kept.as_deref().unwrap_or(url));
        rest = after;
    }
    out.push_str(rest);
    (out, count)
}

/// Length of the URL that follows `before` in its line. It is rather too long than too short: a credential may contain
/// any sign.
fn end_of(url: &str, before: &str) -> usize {
    let quote = before.chars().last().filter(|sign| ['"', '\'', '`'].contains(sign));
    if let Some(end) = quote.and_then(|quote| url.find(quote)) {
        return end;
    }
    // In a value, what this leaves of a credential is found when the file is read.
    let in_comment = before.contains('#');
    let is_end = |sign: char| sign.is_whitespace() || (!in_comment && ['"', '\''].contains(&sign));
    url.find(is_end).unwrap_or(url.len())
}

/// Turns the line that sets the data directory into a comment.
fn without_data_dir(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    let mut at_top = true;
    for line in text.split_inclusive('\n') {
        at_top &= !line.trim_start().starts_with('[');
        let key = line.split('=').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
        if at_top && key == DATA_DIR {
            out.push('#');
        }
        out.push_str(line);
    }
    out
}

/// Position and scheme of the next URL.
fn next_url(text: &str) -> Option<(usize, &'static str)> {
    let lower = text.to_ascii_lowercase();
    let is_url = |at: usize, scheme: &str| {
        lower.get(at.saturating_add(scheme.len())..).is_some_and(|rest| {
            // `\u` is an escape of TOML, which the check of the parsed file judges.
            rest.starts_with(['/', '\\']) && !rest.starts_with("\\u")
        })
    };
    let first = |scheme: &'static str| {
        let at = lower.match_indices(scheme).map(|(at, _)| at).find(|at| is_url(*at, scheme))?;
        Some((at, scheme))
    };
    SCHEMES.into_iter().filter_map(first).min()
}

/// The URL with its host alone; `None` if it has nothing else.
fn host_of(url: &str, scheme: &str) -> Option<String> {
    if !is_more_than_host(url) {
        return None;
    }
    let parsed = Url::parse(url).ok();
    let host = parsed.as_ref().and_then(|url| url.host_str()).unwrap_or("removed.invalid");
    let port = parsed.as_ref().and_then(Url::port).map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{scheme}//{host}{port}/{REMOVED}"))
}

fn is_more_than_host(text: &str) -> bool {
    let Ok(url) = Url::parse(text.trim()) else { return true };
    let path = url.path().trim_matches('/');
    let login = !url.username().is_empty() || url.password().is_some();
    login || url.query().is_some() || url.fragment().is_some() || !(path.is_empty() || path == REMOVED)
}

fn has_credential(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let scheme_of = |text: &str| Url::parse(text.trim()).map(|url| format!("{}:", url.scheme()));
            let is_url = |text: &str| match scheme_of(text) {
                Ok(scheme) => SCHEMES.contains(&scheme.as_str()),
                Err(_) => next_url(text).is_some(),
            };
            // As a whole, too: a URL may contain spaces.
            let words = text.split_whitespace().filter(|word| is_url(word));
            words
                .chain(Some(text.as_str()).filter(|text| scheme_of(text).is_ok() && is_url(text)))
                .any(is_more_than_host)
        }
        Value::Array(all) => all.iter().any(has_credential),
        Value::Table(all) => all.values().any(has_credential),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => false,
    }
}
