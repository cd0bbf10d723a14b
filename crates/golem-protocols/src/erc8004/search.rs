//! Search for agents in a directory: filters, relevance of words, and order.

use std::cmp::Reverse;

use alloy::primitives::U256;

use super::directory::AgentDirectory;
use super::file::{ReadRegistration, ReadService};
use super::reputation::{hundredths, reputation};
use bardo_base::text::SafeText;

/// Maximum number of words of a query that count.
const MAX_WORDS: usize = 16;
/// Weight of a word in the name, in a service, skill or tool, and in the description.
const WEIGHTS: [u32; 3] = [3, 2, 1];

/// Order of found agents. Equal ones follow in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentOrder {
    /// Weight of the words that an agent matches, then its reputation.
    Relevance,
    /// Score of the reputation, which little feedback lowers, then the weight of the words.
    Reputation,
    /// Time of the last event, the newest first.
    Activity,
}

/// Filters of a search, and its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentQuery {
    words: Vec<String>,
    /// Protocol that the agent must serve, in any case; `None` for any.
    pub protocol: Option<&'static str>,
    /// Minimum mean rating, from 0 to 500; `None` for agents without ratings too.
    pub min_rating: Option<u32>,
    /// Order of the results.
    pub order: AgentOrder,
}

/// Agent that matches a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundAgent {
    /// Token id of the agent.
    pub id: U256,
    /// Weight of the words that it matches; 0 without words.
    pub relevance: u32,
    /// Score of its reputation, from 0 to 100; 0 where the query does not depend on it.
    pub score: u32,
    /// Time of its last event, in seconds since the Unix epoch.
    pub last_event: u64,
}

impl AgentQuery {
    /// Creates a query with the words of `text`, of which the first sixteen count. Without an order, agents are ordered by
    /// relevance if there are words, and by activity otherwise.
    pub fn new(text: &str, protocol: Option<&'static str>, min_rating: Option<u32>, order: Option<AgentOrder>) -> Self {
        let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<String> = words.take(MAX_WORDS).map(str::to_lowercase).collect();
        let usual = if words.is_empty() { AgentOrder::Activity } else { AgentOrder::Relevance };
        Self { words, protocol, min_rating, order: order.unwrap_or(usual) }
    }

    /// True if the query has words.
    pub fn has_words(&self) -> bool {
        !self.words.is_empty()
    }

    /// True if the content of registration files decides which agents are found.
    pub fn depends_on_files(&self) -> bool {
        self.has_words() || self.protocol.is_some()
    }

    /// True if ratings decide which agents are found, or which is first.
    pub fn depends_on_ratings(&self) -> bool {
        self.min_rating.is_some() || self.order == AgentOrder::Reputation
    }

    /// Greatest possible weight of the words.
    pub fn most(&self) -> u32 {
        let [of_name, ..] = WEIGHTS;
        of_name.saturating_mul(u32::try_from(self.words.len()).unwrap_or(u32::MAX))
    }

    /// Weight of the words that a file matches; `None` if it does not match words or protocol. A file that could not be
    /// read matches neither.
    pub fn relevance(&self, file: Option<&ReadRegistration>) -> Option<u32> {
        if let Some(protocol) = self.protocol {
            file?.service(protocol)?;
        }
        let weight = file.map_or(0, |file| self.words.iter().map(|word| weight(file, word)).sum());
        (self.words.is_empty() || weight > 0).then_some(weight)
    }

    /// As [`Self::relevance`], by texts that were prepared when the file was read.
    fn prepared_relevance(&self, file: Option<&ReadRegistration>, texts: Option<&SearchText>) -> Option<u32> {
        if let Some(protocol) = self.protocol {
            file?.service(protocol)?;
        }
        let weight = texts.map_or(0, |texts| self.words.iter().map(|word| texts.weight(word)).sum());
        (self.words.is_empty() || weight > 0).then_some(weight)
    }

    /// Agents of a directory that match, in order. Ratings count at `now`, in seconds since the Unix epoch.
    pub fn search(&self, directory: &AgentDirectory, now: u64) -> Vec<FoundAgent> {
        let scored = self.depends_on_ratings() || (self.has_words() && self.order == AgentOrder::Relevance);
        let mut found = Vec::new();
        for (id, agent) in directory.agents() {
            let relevance = self.prepared_relevance(agent.file.read(), agent.words.as_ref());
            let Some(relevance) = relevance else { continue };
            let mut score = 0;
            if scored {
                let rated = reputation(&directory.audited(agent), now);
                let is_enough = |least: u32| rated.ratings > 0 && hundredths(rated.mean) >= least;
                if !self.min_rating.is_none_or(is_enough) {
                    continue;
                }
                score = rated.score();
            }
            found.push(FoundAgent { id, relevance, score, last_event: agent.last_event });
        }
        found.sort_unstable_by_key(|agent| (self.rank(agent), agent.id));
        found
    }

    /// Rank of an agent, the best of which is the least.
    pub fn rank(&self, agent: &FoundAgent) -> (Reverse<u32>, Reverse<u64>) {
        match self.order {
            AgentOrder::Relevance => (Reverse(agent.relevance), Reverse(u64::from(agent.score))),
            AgentOrder::Reputation => (Reverse(agent.score), Reverse(u64::from(agent.relevance))),
            AgentOrder::Activity => (Reverse(0), Reverse(agent.last_event)),
        }
    }
}

/// Texts of a registration file in lower case, so that a search among thousands only compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchText {
    /// Name, services and description, in the order of [`WEIGHTS`]. The texts of the services are one per line, which no
    /// word of a query contains.
    places: [Box<str>; 3],
}

impl SearchText {
    /// Prepares the texts of a file.
    pub(super) fn of(file: &ReadRegistration) -> Self {
        let lower = |text: &SafeText| text.as_str().to_lowercase();
        let services: Vec<String> = file.services.iter().flat_map(service_texts).map(lower).collect();
        Self { places: [lower(&file.name), services.join("\n"), lower(&file.description)].map(String::into_boxed_str) }
    }

    /// Weight of a lower-case word, by the best place that contains it.
    fn weight(&self, word: &str) -> u32 {
        let places = self.places.iter().zip(WEIGHTS);
        places.filter(|(text, _)| text.contains(word)).map(|(_, weight)| weight).next().unwrap_or_default()
    }
}

/// Texts of a service in which words are searched.
fn service_texts(service: &ReadService) -> impl Iterator<Item = &SafeText> {
    let lists = [&service.mcp_tools, &service.mcp_prompts, &service.mcp_resources, &service.a2a_skills];
    std::iter::once(&service.name).chain(lists.into_iter().flatten())
}

/// Weight of a lower-case word, by the best place that contains it.
fn weight(file: &ReadRegistration, word: &str) -> u32 {
    let has = |text: &SafeText| contains(text.as_str(), word);
    let mut services = file.services.iter().flat_map(service_texts);
    let [of_name, of_service, of_description] = WEIGHTS;
    if has(&file.name) {
        of_name
    } else if services.any(has) {
        of_service
    } else if has(&file.description) {
        of_description
    } else {
        0
    }
}

/// True if `text` contains the lower-case `word` in any case.
fn contains(text: &str, word: &str) -> bool {
    if text.is_ascii() && word.is_ascii() {
        // Without an allocation: most texts are ASCII, and thousands are compared.
        let (text, word) = (text.as_bytes(), word.as_bytes());
        return text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    }
    text.to_lowercase().contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case_and_any_script() {
        for (text, word, wanted) in [
            ("Meridian ROUTER", "router", true),
            ("route", "router", false),
            ("", "a", false),
            ("Straßen ÜBER Köln", "über", true),
            ("İstanbul", "istanbul", false),
        ] {
            assert_eq!(contains(text, word), wanted, "{text} {word}");
        }
    }

    /// Files whose texts are drawn from few words, so that many of them match somewhere.
    fn file(words: &[String]) -> ReadRegistration {
        let [name, description, service, tool, prompt, resource, skill] = words else { panic!("{words:?}") };
        let file = serde_json::json!({
            "type": super::super::file::TYPE, "name": name, "description": description, "active": true,
            "services": [
                {"name": service, "endpoint": "https://a.example", "mcpTools": [tool, skill], "mcpPrompts": [prompt]},
                {"name": "A2A", "endpoint": "https://a.example", "mcpResources": [resource], "a2aSkills": [skill, tool]},
            ],
        });
        ReadRegistration::read(&serde_json::to_vec(&file).unwrap()).unwrap()
    }

    proptest::proptest! {
        /// Prepared texts weigh as the file itself, read text by text: also where two texts end and begin with a word, in
        /// other scripts, and where lower case is longer or depends on what follows.
        #[test]
        fn prepared_texts_weigh_as_the_file(
            words in proptest::collection::vec("[a-cA-C ΣσςİßÜü_-]{0,12}", 7),
            asked in "[a-cA-C ΣσςİßÜü]{0,6}",
            protocol in proptest::option::of(proptest::sample::select(vec!["a2a", "mcp"])),
        ) {
            let file = file(&words);
            let query = AgentQuery::new(&asked, protocol, None, None);
            let prepared = SearchText::of(&file);
            proptest::prop_assert_eq!(query.prepared_relevance(Some(&file), Some(&prepared)), query.relevance(Some(&file)));
            proptest::prop_assert_eq!(query.prepared_relevance(None, None), query.relevance(None));
        }
    }

    #[test]
    fn a_word_is_weighed_by_its_best_place_and_never_across_two_texts() {
        let texts = ["Alpha", "beta", "gamma", "one", "two", "three", "Four"].map(str::to_owned);
        let prepared = SearchText::of(&file(&texts));
        for (word, weight) in [("alpha", 3), ("gamma", 2), ("four", 2), ("beta", 1), ("onefour", 0), ("delta", 0)] {
            assert_eq!(prepared.weight(word), weight, "{word}");
        }
    }
}
