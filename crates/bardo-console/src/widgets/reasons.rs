//! Why a trade goes the way it goes: as an auction or through pools, seen by whom, whole or better in parts. Tools give
//! these reasons with their answers; cards show them in full size.

use serde_json::Value;

use super::figure::text;
use super::paint::Row;
use crate::theme::Role;
use bardo_base::text::SafeText;

/// Reasons beyond these are not kept: no tool gives so many.
const MOST: usize = 8;

/// Why an answer's trade goes its way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reasons {
    /// Whether it goes, or would go, by an auction, and why or why not.
    pub way: Option<(bool, SafeText)>,
    /// What else protects it: what it is about, and in words.
    pub measures: Vec<(SafeText, SafeText)>,
}

impl Reasons {
    /// Reads an answer's hints.
    pub fn read(hints: &Value) -> Self {
        let told = hints.get("uniswapx").unwrap_or(&Value::Null);
        // A quote says what a swap would do, a swap what it did.
        let auction = ["used", "offered"].iter().any(|field| told.get(field).and_then(Value::as_bool) == Some(true));
        let list = hints.get("mev").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        let measure = |one: &Value| match one {
            // As recordings before version 3 of the journal have it.
            Value::String(line) => {
                let (about, words) = line.split_once(": ")?;
                Some((SafeText::clean(about, 40), SafeText::clean(words, 300)))
            }
            one => Some((text(one, "about")?, text(one, "words")?)),
        };
        Self {
            way: text(told, "why").map(|why| (auction, why)),
            measures: list.iter().take(MOST).filter_map(measure).collect(),
        }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.way.is_none() && self.measures.is_empty()
    }

    /// A row for each.
    pub fn rows(&self) -> Vec<Row> {
        let way = self.way.iter().map(|(auction, why)| {
            let how = if *auction { "by auction: " } else { "no auction: " };
            Row::new(how, Role::TextDim).then(why.as_str(), Role::TextDim)
        });
        let measures = self.measures.iter().map(|(about, words)| {
            // What only describes is dim; what advises is meant to be read.
            let role = if about.as_str() == "size" { Role::StateCare } else { Role::TextDim };
            Row::new(format!("{about}: "), role).then(words.as_str(), role)
        });
        way.chain(measures).collect()
    }
}
