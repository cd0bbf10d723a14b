//! Card of a registered agent (ERC-8004): what it claims, and what registries and clients say about it.
//!
//! Every text of the model comes from outside: names and descriptions are the agent's own claims and are drawn as such.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::widgets::Widget;
use serde_json::Value;

use super::gauge::{FullMeaning, Gauge};
use super::paint::{Row, rows, wrapped};
use crate::painter::{Painter, StyledText};
use crate::scroll::ScrollOffset;
use crate::theme::{Role, Theme};
use bardo_base::format::counted;
use bardo_base::text::SafeText;

/// Width of a score's bar, in columns.
const BAR: usize = 10;
/// Maximum number of services and of feedback entries that the card keeps.
const MAX_PARTS: usize = 50;
/// Maximum length of a claimed text, in characters.
const LONGEST: usize = 600;

/// Registered agent, as far as it is known. Each part comes from the reply of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agent {
    /// Id by chain and number, such as `8453:42`.
    pub id: SafeText,
    /// Claimed name; `None` without a readable registration file.
    pub name: Option<SafeText>,
    /// Claimed purpose; `None` without a readable registration file.
    pub description: Option<SafeText>,
    /// Protocols that it claims to serve.
    pub protocols: Vec<SafeText>,
    /// Number of ratings that count.
    pub ratings: u64,
    /// Mean of these ratings in stars, such as `4.3`.
    pub average: SafeText,
    /// True if it claims to be in service.
    pub active: bool,
    /// True if the own account owns it.
    pub is_own: bool,
    /// Profile; `None` until it is read.
    pub profile: Option<AgentProfile>,
    /// Evaluation of its trustworthiness; `None` until it is read.
    pub trust: Option<AgentTrust>,
    /// Tier; `None` until it is read.
    pub tier: Option<AgentTier>,
}

/// Profile of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProfile {
    /// Address of the owner.
    pub owner: SafeText,
    /// Address of the wallet, if one is set.
    pub wallet: Option<SafeText>,
    /// Time of the registration, in UTC.
    pub registered_at: SafeText,
    /// State of the registration file, in one word.
    pub file: SafeText,
    /// Claimed services: protocol and endpoint.
    pub services: Vec<(SafeText, SafeText)>,
    /// Number of all feedback entries, counted or not.
    pub total_feedback: u64,
    /// Trend of the ratings, in one word.
    pub trend: SafeText,
    /// Feedback, newest first.
    pub feedback: Vec<AgentFeedback>,
}

/// Feedback of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFeedback {
    /// Time of its block, in UTC.
    pub at: SafeText,
    /// Address of the client.
    pub client: SafeText,
    /// Rating in stars, or the value as the client gave it.
    pub value: SafeText,
    /// Tags that are not empty.
    pub tags: Vec<SafeText>,
    /// Client's own words; `None` without a review that could be read.
    pub review: Option<SafeText>,
    /// True if it counts in the reputation.
    pub counted: bool,
    /// True if the client revoked it.
    pub revoked: bool,
}

/// Evaluation of an agent's trustworthiness; scores are from 0 to 100.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTrust {
    /// Composite of the three parts.
    pub score: u64,
    /// Scores of identity, reputation and validations.
    pub parts: [u64; 3],
    /// Reasons for caution, by their names.
    pub flags: Vec<SafeText>,
    /// Recommendation, by its name.
    pub recommendation: SafeText,
}

/// Tier of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTier {
    /// Name of the tier.
    pub name: SafeText,
    /// Points of the agent.
    pub points: u64,
    /// Points at which the next tier begins.
    pub next: u64,
}

fn text(value: &Value, field: &str, longest: usize) -> Option<SafeText> {
    value.get(field).and_then(Value::as_str).map(|text| SafeText::clean(text, longest))
}

fn number(value: &Value, field: &str) -> u64 {
    value.get(field).and_then(Value::as_u64).unwrap_or_default()
}

fn entries<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten().take(MAX_PARTS)
}

fn names(value: &Value, field: &str) -> Vec<SafeText> {
    entries(value, field).filter_map(Value::as_str).map(|name| SafeText::clean(name, 40)).collect()
}

/// Mean of ratings for display, with one decimal.
fn mean(value: &Value, field: &str) -> SafeText {
    let mean = value.get(field).and_then(Value::as_f64).unwrap_or_default();
    SafeText::clean(&format!("{mean:.1}"), 10)
}

impl Agent {
    /// Reads an entry of the data of `identity_discover_agents`. `None` if it has no id.
    pub fn from_summary(entry: &Value) -> Option<Self> {
        Some(Self {
            id: text(entry, "agent_id", 100).filter(|id| !id.is_empty())?,
            name: text(entry, "name", 100),
            description: text(entry, "description", LONGEST),
            protocols: names(entry, "protocols"),
            ratings: number(entry, "feedback_count"),
            average: mean(entry, "average_score"),
            active: entry.get("active").and_then(Value::as_bool).unwrap_or_default(),
            is_own: entry.get("is_own").and_then(Value::as_bool).unwrap_or_default(),
            ..Self::default()
        })
    }
}

impl AgentProfile {
    /// Reads the data of `identity_get_agent_profile`. `None` if it names no owner.
    pub fn from_data(data: &Value) -> Option<Self> {
        let service =
            |one: &Value| Some((text(one, "service_type", 40)?, text(one, "endpoint", 300).unwrap_or_default()));
        let engagement = data.get("engagement").unwrap_or(&Value::Null);
        Some(Self {
            owner: text(data, "owner", 60)?,
            wallet: text(data, "wallet", 60),
            registered_at: text(data, "registered_at", 40).unwrap_or_default(),
            file: text(data, "file_status", 40).unwrap_or_default(),
            services: entries(data, "services").filter_map(service).collect(),
            total_feedback: number(engagement, "total_feedback"),
            trend: text(engagement, "recent_trend", 40).unwrap_or_default(),
            feedback: entries(data, "feedback_history").map(AgentFeedback::from_entry).collect(),
        })
    }
}

impl AgentFeedback {
    fn from_entry(entry: &Value) -> Self {
        let stars = |score: u64| SafeText::clean(&format!("{}.{:02} ★", score / 100, score % 100), 20);
        let value = entry.get("value").and_then(Value::as_u64).map(stars);
        let is = |field: &str| entry.get(field).and_then(Value::as_bool).unwrap_or_default();
        Self {
            at: text(entry, "created_at", 40).unwrap_or_default(),
            client: text(entry, "client_address", 60).unwrap_or_default(),
            value: value.or_else(|| text(entry, "raw_value", 30)).unwrap_or_default(),
            tags: ["tag1", "tag2"].into_iter().filter_map(|tag| text(entry, tag, 40)).collect(),
            review: text(entry, "review", LONGEST).filter(|words| !words.is_empty()),
            counted: is("counted"),
            revoked: is("revoked"),
        }
    }
}

impl AgentTrust {
    /// Reads the data of `identity_evaluate_agent_trust`. `None` if it has no score.
    pub fn from_data(data: &Value) -> Option<Self> {
        let parts = data.get("breakdown").unwrap_or(&Value::Null);
        Some(Self {
            score: data.get("trust_score").and_then(Value::as_u64)?,
            parts: ["identity_score", "reputation_score", "validation_score"].map(|part| number(parts, part)),
            flags: names(data, "flags"),
            recommendation: text(data, "recommendation", 40).unwrap_or_default(),
        })
    }
}

impl AgentTier {
    /// Reads the data of `identity_get_tier`. `None` if it names no tier.
    pub fn from_data(data: &Value) -> Option<Self> {
        let (points, next) = (number(data, "points"), number(data, "next_tier_threshold"));
        Some(Self { name: text(data, "tier", 20)?, points, next })
    }
}

/// Reason for caution, in words.
fn flag_words(flag: &SafeText) -> String {
    match flag.as_str() {
        "no_registration_file" => "no valid registration file".to_owned(),
        "file_not_read" => "its file in IPFS was not read".to_owned(),
        "file_not_fixed" => "its file is on a server that can change it".to_owned(),
        "mismatched_registration" => "its registration file does not name it".to_owned(),
        "hostile_text" => "hostile characters in its texts".to_owned(),
        "inactive" => "says that it is out of service".to_owned(),
        "no_wallet" => "no wallet set".to_owned(),
        "recently_transferred" => "changed its owner lately".to_owned(),
        "no_ratings" => "no ratings that count".to_owned(),
        "declining_reputation" => "its ratings fall".to_owned(),
        "no_validation" => "no recent validation".to_owned(),
        "failed_validation" => "failed a validation".to_owned(),
        other => other.replace('_', " "),
    }
}

/// Recommendation in words, with its colour.
fn recommendation(name: &str) -> (&'static str, Role) {
    match name {
        "high_value" => ("high-value tier", Role::StateGood),
        "while_thriving" => ("high-value tier while THRIVING", Role::StateCare),
        _ => ("low-value tier", Role::StateBad),
    }
}

/// Row with a label and a value.
fn field(label: &str, value: impl Into<String>) -> Row {
    Row::new(format!("{label:<11}"), Role::TextDim).then(value, Role::Text)
}

/// Row with the bar of a score from 0 to 100.
fn score(label: &str, score: u64) -> Row {
    let gauge = Gauge {
        label: String::new(),
        level: Some((u128::from(score), 100)),
        words: String::new(),
        full: FullMeaning::Good,
    };
    let mut row = Row::new(format!("{label:<11}"), Role::TextDim);
    row.left.extend(gauge.bar(BAR));
    row.then(format!(" {score} of 100"), Role::Text)
}

/// Card of an agent, in a frame.
#[derive(Debug, Clone, Copy)]
pub struct IdentityCard<'a> {
    agent: &'a Agent,
    theme: &'a Theme,
    /// Last line, such as the keys that act on the card.
    below: Option<&'a str>,
    /// Scroll position, for a card with less room than it needs.
    scrolled: Option<&'a ScrollOffset>,
}

impl<'a> IdentityCard<'a> {
    /// Creates the card.
    pub const fn new(agent: &'a Agent, theme: &'a Theme) -> Self {
        Self { agent, theme, below: None, scrolled: None }
    }

    /// Adds a last line.
    #[must_use]
    pub const fn below(self, words: &'a str) -> Self {
        Self { below: Some(words), ..self }
    }

    /// Draws the card from a scroll position on.
    #[must_use]
    pub const fn scrolled(self, offset: &'a ScrollOffset) -> Self {
        Self { scrolled: Some(offset), ..self }
    }

    fn rows(&self) -> Vec<Row> {
        let agent = self.agent;
        let mut all = vec![field("agent", agent.id.as_str())];
        if let Some(words) = &agent.description {
            // The mark that stands before an agent's own words everywhere.
            all.push(
                Row::new("┆ ", Role::TextDim).then(words.as_str(), Role::Text).end("its own words", Role::TextDim),
            );
        }
        all.extend(self.trust_rows());
        if let Some(tier) = &agent.tier {
            let next = match tier.next > tier.points {
                true => format!("; next tier at {}", tier.next),
                false => String::new(),
            };
            all.push(field("tier", format!("{}, {}{next}", tier.name, counted(tier.points, "point", "points"))));
        }
        let ratings = match agent.ratings {
            0 => "none that counts".to_owned(),
            count => format!("{} ★ in {}", agent.average, counted(count, "rating", "ratings")),
        };
        let trend = agent.profile.as_ref().map(|profile| format!(", {}", profile.trend)).unwrap_or_default();
        all.push(field("ratings", format!("{ratings}{trend}")));
        match &agent.profile {
            Some(profile) => all.extend(profile_rows(profile, agent.is_own)),
            None if !agent.protocols.is_empty() => all.push(field("serves", joined(&agent.protocols))),
            None => {}
        }
        all.extend(self.below.map(|words| Row::new(words, Role::TextDim).kept()));
        all
    }

    fn trust_rows(&self) -> Vec<Row> {
        let Some(trust) = &self.agent.trust else { return Vec::new() };
        let (words, role) = recommendation(trust.recommendation.as_str());
        let mut all = vec![score("trust", trust.score).kept(), Row::new(format!("{:<11}", ""), role).then(words, role)];
        all.extend(
            ["identity", "reputation", "validation"].into_iter().zip(trust.parts).map(|(part, of)| score(part, of)),
        );
        all.extend(trust.flags.iter().map(|flag| Row::new(format!("! {}", flag_words(flag)), Role::StateCare).kept()));
        all
    }
}

fn joined(names: &[SafeText]) -> String {
    names.iter().map(SafeText::as_str).collect::<Vec<_>>().join(", ")
}

fn profile_rows(profile: &AgentProfile, is_own: bool) -> Vec<Row> {
    let wallet = profile.wallet.as_ref().map_or("not set", SafeText::as_str);
    let mut all = vec![
        field("owner", format!("{}{}", profile.owner, if is_own { " (your account)" } else { "" })),
        field("wallet", wallet),
        field("registered", profile.registered_at.as_str()),
        field("file", profile.file.as_str()),
    ];
    all.extend(profile.services.iter().map(|(kind, endpoint)| field("serves", format!("{kind} {endpoint}"))));
    let count = counted(profile.total_feedback, "entry", "entries");
    all.push(Row::new(format!("Feedback, {count}"), Role::Title));
    for entry in &profile.feedback {
        let (mark, role) = match (entry.revoked, entry.counted) {
            (true, _) => ("revoked", Role::TextDim),
            (false, false) => ("not counted", Role::TextDim),
            (false, true) => ("", Role::Text),
        };
        let mut row = Row::new(format!("{}  ", entry.at), Role::TextDim).then(format!("{:<8}", entry.value), role);
        if !entry.tags.is_empty() {
            row = row.then(format!(" {}", joined(&entry.tags)), role);
        }
        all.push(row.then(format!("  {}", entry.client), Role::TextDim).end(mark, Role::TextDim));
        if let Some(words) = &entry.review {
            all.push(Row::new("┆ ", Role::TextDim).then(words.as_str(), role));
        }
    }
    all
}

impl Widget for IdentityCard<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let painter = &mut Painter { buffer, theme: self.theme };
        if area.height < 2 || area.width < 4 {
            return;
        }
        let name = self.agent.name.as_ref().map_or("without a name", SafeText::as_str);
        let state: StyledText = match self.agent.active {
            true => ("● in service".to_owned(), Role::StateGood),
            false => ("○ out of service".to_owned(), Role::TextDim),
        };
        painter.frame(area, &[(name.to_owned(), Role::Title)], &[state], Role::Border);
        let inner = area.inner(Margin::new(2, 1));
        let mut lines = wrapped(self.rows(), usize::from(inner.width).max(1));
        let first = self.scrolled.map_or(0, |offset| offset.first(lines.len(), usize::from(inner.height)));
        lines.drain(..first.min(lines.len()));
        rows(painter, inner, &lines);
    }
}
