//! Reasons for a trade's routing: auction or pools, protection from MEV, splitting. Tools return them with their
//! results, and full cards show them.

use serde_json::Value;

use super::figure::text;
use super::paint::Row;
use crate::theme::Role;
use bardo_base::text::SafeText;

/// Maximum number of reasons kept; no tool returns more.
const MOST: usize = 8;

/// Reasons for the routing of a trade.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reasons {
    /// True for an auction, with the reason for or against one.
    pub way: Option<(bool, SafeText)>,
    /// Other protective measures: subject and description.
    pub measures: Vec<(SafeText, SafeText)>,
}

impl Reasons {
    /// Reads the hints of a tool's response.
    pub fn read(hints: &Value) -> Self {
        let choice = hints.get("uniswapx").unwrap_or(&Value::Null);
        // `offered` is set by a quote, `used` by a swap.
        let auction = ["used", "offered"].iter().any(|field| choice.get(field).and_then(Value::as_bool) == Some(true));
        let list = hints.get("mev").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        let measure = |one: &Value| match one {
            // Format of recordings before version 3 of the journal.
            Value::String(line) => {
                let (about, words) = line.split_once(": ")?;
                Some((SafeText::clean(about, 40), SafeText::clean(words, 300)))
            }
            one => Some((text(one, "about")?, text(one, "words")?)),
        };
        Self {
            way: text(choice, "why").map(|why| (auction, why)),
            measures: list.iter().take(MOST).filter_map(measure).collect(),
        }
    }

    /// Returns true if no reasons are known.
    pub fn is_empty(&self) -> bool {
        self.way.is_none() && self.measures.is_empty()
    }

    /// One row per reason.
    pub fn rows(&self) -> Vec<Row> {
        let way = self.way.iter().map(|(auction, why)| {
            let how = if *auction { "by auction: " } else { "no auction: " };
            Row::new(how, Role::TextDim).then(why.as_str(), Role::TextDim)
        });
        let measures = self.measures.iter().map(|(about, words)| {
            // Descriptions are dim; advice is highlighted.
            let role = if about.as_str() == "size" { Role::StateCare } else { Role::TextDim };
            Row::new(format!("{about}: "), role).then(words.as_str(), role)
        });
        way.chain(measures).collect()
    }
}
