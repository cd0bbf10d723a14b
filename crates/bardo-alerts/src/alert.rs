//! An alert and its texts.

use serde_json::{Value, json};

use bardo_base::config::{AlertDetail, AlertRule};
use bardo_base::text::SafeText;

/// Last line of every message.
const FOOTER: &str = "Answer and act in Bardo. Nothing can be approved through this message, and replies are not read.";
/// Maximum length of a line, in characters.
const LONGEST: usize = 300;

/// Something that the operator should know.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// Id of the message, the same for every attempt and channel.
    pub id: String,
    /// Rule that applies; `None` for a test message.
    pub rule: Option<AlertRule>,
    /// Subject within the rule; the same alert is not repeated for a while.
    pub subject: String,
    /// State that the subject is in now, so that the last message about it is the present one; empty for an event.
    pub state: String,
    /// Time of the alert, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Description in one line, without amounts, accounts or holdings.
    pub brief: SafeText,
    /// Network, and the chain where one is concerned.
    pub place: SafeText,
    /// End of a decision, in milliseconds since the Unix epoch.
    pub lapses_at: Option<u64>,
    /// True if the action goes ahead at that time unless it is rejected.
    pub passes_by_itself: bool,
    /// Title, amounts and reasons, one line each.
    pub details: Vec<SafeText>,
    /// Number of equal alerts since the last one that were not sent.
    pub repeated: u64,
}

impl Alert {
    /// Alert of a rule, with a new id.
    pub fn new(rule: AlertRule, subject: String, at: u64, brief: &str, place: SafeText) -> Self {
        Self {
            id: format!("msg_{:032x}", rand::random::<u128>()),
            rule: Some(rule),
            subject,
            state: String::new(),
            at,
            brief: SafeText::clean(brief, LONGEST),
            place,
            lapses_at: None,
            passes_by_itself: false,
            details: Vec::new(),
            repeated: 0,
        }
    }

    /// Message for trying a channel.
    pub fn test(at: u64) -> Self {
        let words = "This is a test of Bardo's alerts.";
        let place = SafeText::clean("no network", LONGEST);
        Self { rule: None, ..Self::new(AlertRule::Stop, "test".to_owned(), at, words, place) }
    }

    /// Message about alerts that were held back.
    pub(crate) fn held_back(at: u64, place: SafeText) -> Self {
        let words = "Alerts were held back.";
        Self { rule: None, ..Self::new(AlertRule::Stop, "held back".to_owned(), at, words, place) }
    }

    pub(crate) fn in_state(self, state: &str) -> Self {
        Self { state: state.to_owned(), ..self }
    }

    /// True if it needs the operator at once: all others may use only half of a channel's messages per hour.
    pub(crate) fn is_urgent(&self) -> bool {
        match self.rule {
            Some(
                AlertRule::DecisionWaits
                | AlertRule::DecisionLapsed
                | AlertRule::Stop
                | AlertRule::Breaker
                | AlertRule::Endpoint,
            ) => true,
            None | Some(AlertRule::Phase | AlertRule::Gas | AlertRule::Balance | AlertRule::Price) => false,
        }
    }

    /// True for a decision that is over.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.rule == Some(AlertRule::DecisionWaits) && self.lapses_at.is_some_and(|at| at <= now)
    }

    pub(crate) fn lapsing(self, lapses_at: Option<u64>, passes_by_itself: bool) -> Self {
        Self { lapses_at, passes_by_itself, ..self }
    }

    pub(crate) fn detailed(self, details: impl IntoIterator<Item = String>) -> Self {
        let details = details.into_iter().filter(|line| !line.is_empty());
        Self { details: details.map(|line| SafeText::clean(&line, LONGEST)).collect(), ..self }
    }

    /// Type of the message, as a webhook receives it.
    fn kind(&self) -> String {
        format!("bardo.{}", self.rule.map_or("message", AlertRule::as_str))
    }
}

/// An alert as a channel sends it.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertMessage<'a> {
    /// Alert to send.
    pub alert: &'a Alert,
    /// Amount of detail.
    pub detail: AlertDetail,
    /// Number of alerts that were held back since the last message of this channel.
    pub held_back: u64,
}

impl AlertMessage<'_> {
    /// Subject in one line.
    pub fn title(&self) -> String {
        format!("Bardo: {}", self.alert.brief)
    }

    /// Text without markup, a few short lines.
    pub fn text(&self) -> String {
        let mut lines =
            vec![self.title(), format!("Where: {}", self.alert.place), format!("At: {}", time(self.alert.at))];
        if let Some(lapses) = self.lapse() {
            lines.push(lapses);
        }
        lines.extend(self.details().iter().map(ToString::to_string));
        if self.alert.repeated > 0 {
            lines.push(format!("The same happened {} more times since the last alert.", self.alert.repeated));
        }
        if self.held_back > 0 {
            lines.push(format!("Held back since the last message, because there were too many: {}.", self.held_back));
        }
        lines.push(FOOTER.to_owned());
        lines.join("\n")
    }

    /// Body of a webhook's message, by the Standard Webhooks specification: `type`, `timestamp` and `data`.
    pub fn json(&self) -> Value {
        let lapses = self.alert.lapses_at.map(|at| time(at).to_string());
        json!({
            "type": self.alert.kind(),
            "timestamp": time(self.alert.at).to_string(),
            "data": {
                "what": self.alert.brief,
                "where": self.alert.place,
                "at_millis": self.alert.at,
                "lapses_at": lapses,
                "lapses_at_millis": self.alert.lapses_at,
                "details": self.details(),
                "repeated": self.alert.repeated,
                "held_back": self.held_back,
                "text": self.text(),
            },
        })
    }

    fn details(&self) -> &[SafeText] {
        match self.detail {
            AlertDetail::Brief => &[],
            AlertDetail::Full => &self.alert.details,
        }
    }

    fn lapse(&self) -> Option<String> {
        let at = time(self.alert.lapses_at?);
        Some(match self.alert.passes_by_itself {
            true => format!("It goes ahead at {at}, unless you reject it in Bardo before."),
            false => format!("It lapses at {at}; nothing is signed without an answer in Bardo."),
        })
    }
}

/// Time in words, in UTC.
fn time(millis: u64) -> httpdate::HttpDate {
    let since = std::time::Duration::from_millis(millis.min(MOST_MILLIS));
    httpdate::HttpDate::from(std::time::UNIX_EPOCH + since)
}

/// Last moment that [`httpdate`] can write, in milliseconds since the Unix epoch: the end of the year 9999.
const MOST_MILLIS: u64 = 253_402_300_799_000;
