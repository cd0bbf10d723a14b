//! Reputation of an agent from its feedback: a Beta posterior with weighted evidence, and its recent trend.
//!
//! The posterior is that of Jøsang and Ismail, *The Beta Reputation System* (15th Bled Electronic Commerce Conference,
//! 2002): each rating adds positive and negative evidence to a uniform prior. Their model takes evidence at face value;
//! here an audit of the client weights it, by rules that need nothing but the registries' events.
//!
//! Nothing here decides about money, so the numbers are floating point.

use std::collections::BTreeMap;

use alloy::primitives::Address;

/// Time in which a rating's weight halves, in seconds: 90 days.
const HALF_LIFE_SECONDS: f64 = 90.0 * 86_400.0;
/// Weight of a client that has rated no other agent.
const SINGLE_AGENT_WEIGHT: f64 = 0.25;
/// Weight of a client's next older rating of the same agent, relative to the newer one.
const REPETITION_WEIGHT: f64 = 0.5;
/// Length of the recent period of a trend, in seconds: 14 days.
const TREND_SECONDS: u64 = 14 * 86_400;
/// Minimum number of ratings in each period of a trend.
const TREND_RATINGS: usize = 2;
/// Minimum difference of the periods' means for a trend, on the scale of 0 to 1: a quarter of a star of five.
const TREND_STEP: f64 = 0.05;

/// One feedback with the facts about its client that its weight depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AuditedFeedback {
    /// Account that gave it.
    pub client: Address,
    /// Value in units of 10^-`decimals`; 0 to 100 is a rating, anything else some other measurement.
    pub value: i128,
    /// Number of decimals of the value, at most 18.
    pub decimals: u8,
    /// Time of its block, in seconds since the Unix epoch.
    pub time: u64,
    /// True if the client revoked it.
    pub is_revoked: bool,
    /// True if the client is or was the agent's owner, an operator or its wallet.
    pub is_related: bool,
    /// True if the client has rated another agent.
    pub rated_others: bool,
}

impl AuditedFeedback {
    /// Rating from 0 to 1; `None` for a value off the scale.
    pub fn rating(&self) -> Option<f64> {
        // Exact for every rating in use: up to 53 bits.
        #[allow(clippy::cast_precision_loss)]
        let value = self.value as f64 / 10_f64.powi(i32::from(self.decimals)) / 100.0;
        (0.0..=1.0).contains(&value).then_some(value)
    }
}

/// Recent change of an agent's ratings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// The recent mean is at least a quarter of a star above the earlier.
    Improving,
    /// The recent mean is at least a quarter of a star below the earlier.
    Declining,
    /// Neither, or too few ratings.
    Stable,
}

impl Trend {
    /// Returns the identifier that tools use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Improving => "improving",
            Self::Declining => "declining",
            Self::Stable => "stable",
        }
    }
}

/// Reputation of an agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reputation {
    /// Number of ratings that count.
    pub ratings: usize,
    /// Unweighted mean of these ratings, from 0 to 1; 0 without any.
    pub mean: f64,
    /// First parameter of the posterior: 1 plus the positive evidence.
    pub alpha: f64,
    /// Second parameter of the posterior: 1 plus the negative evidence.
    pub beta: f64,
    /// Change of the last 14 days.
    pub trend: Trend,
}

impl Reputation {
    /// Expected quality, from 0 to 1: α / (α + β).
    pub fn expected(&self) -> f64 {
        self.alpha / (self.alpha + self.beta)
    }

    /// Standard deviation of the posterior: √(αβ / ((α + β)² (α + β + 1))).
    pub fn deviation(&self) -> f64 {
        let sum = self.alpha + self.beta;
        (self.alpha * self.beta / (sum * sum * (sum + 1.0))).sqrt()
    }

    /// Certainty from 0 without evidence to nearly 1: one minus the deviation relative to the prior's, which is √(1/12).
    pub fn confidence(&self) -> f64 {
        (1.0 - self.deviation() * 12_f64.sqrt()).max(0.0)
    }

    /// Score from 0 to 100: the expected quality less one standard deviation, so that little evidence gives little trust.
    pub fn score(&self) -> u32 {
        let score = (100.0 * (self.expected() - self.deviation())).round().clamp(0.0, 100.0);
        // Between 0 and 100 after the clamp.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let score = score as u32;
        score
    }
}

/// Maximum of the documents' scale of scores, which is 0.0 to 5.0 stars in hundredths.
pub const MAX_HUNDREDTHS: u32 = 500;

/// Rating from 0 to 1 on the scale of 0 to 500.
pub fn hundredths(rating: f64) -> u32 {
    let score = (rating.clamp(0.0, 1.0) * f64::from(MAX_HUNDREDTHS)).round();
    // Between 0 and 500 after the clamp.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let score = score as u32;
    score
}

/// Reputation at `now`, in seconds since the Unix epoch. Feedback may come in any order.
pub fn reputation(feedback: &[AuditedFeedback], now: u64) -> Reputation {
    let counts = |given: &&AuditedFeedback| !given.is_revoked && !given.is_related;
    let mut rated: Vec<(&AuditedFeedback, f64)> =
        feedback.iter().filter(counts).filter_map(|given| Some((given, given.rating()?))).collect();
    rated.sort_by_key(|(given, _)| std::cmp::Reverse(given.time));

    let (mut alpha, mut beta, mut sum) = (1.0, 1.0, 0.0);
    let mut seen: BTreeMap<Address, i32> = BTreeMap::new();
    for (given, rating) in &rated {
        let earlier = seen.entry(given.client).or_default();
        // Ages of less than 2^53 seconds are exact.
        #[allow(clippy::cast_precision_loss)]
        let age = now.saturating_sub(given.time) as f64;
        let client = if given.rated_others { 1.0 } else { SINGLE_AGENT_WEIGHT };
        let weight = client * REPETITION_WEIGHT.powi(*earlier) * 0.5_f64.powf(age / HALF_LIFE_SECONDS);
        *earlier += 1;
        alpha += weight * rating;
        beta += weight * (1.0 - rating);
        sum += rating;
    }
    let mean = if rated.is_empty() { 0.0 } else { sum / count(rated.len()) };
    Reputation { ratings: rated.len(), mean, alpha, beta, trend: trend(&rated, now) }
}

fn trend(rated: &[(&AuditedFeedback, f64)], now: u64) -> Trend {
    let (recent, earlier): (Vec<_>, Vec<_>) =
        rated.iter().partition(|(given, _)| now.saturating_sub(given.time) <= TREND_SECONDS);
    if recent.len() < TREND_RATINGS || earlier.len() < TREND_RATINGS {
        return Trend::Stable;
    }
    let mean = |ratings: &[&(&AuditedFeedback, f64)]| {
        ratings.iter().map(|(_, rating)| rating).sum::<f64>() / count(ratings.len())
    };
    let change = mean(&recent) - mean(&earlier);
    if change >= TREND_STEP {
        Trend::Improving
    } else if change <= -TREND_STEP {
        Trend::Declining
    } else {
        Trend::Stable
    }
}

/// A number of ratings, which is far below 2^53.
#[allow(clippy::cast_precision_loss)]
fn count(length: usize) -> f64 {
    length as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const DAY: u64 = 86_400;

    fn given(client: u8, value: i128, days_ago: u64) -> AuditedFeedback {
        AuditedFeedback {
            client: Address::repeat_byte(client),
            value,
            decimals: 0,
            time: NOW - days_ago * DAY,
            is_revoked: false,
            is_related: false,
            rated_others: true,
        }
    }

    fn near(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-4, "{left} is not {right}");
    }

    #[test]
    fn without_evidence_the_posterior_is_the_uniform_prior() {
        let none = reputation(&[], NOW);
        near(none.expected(), 0.5);
        near(none.deviation(), 0.288_675); // √(1/12)
        near(none.confidence(), 0.0);
        assert_eq!((none.ratings, none.score(), none.trend), (0, 21, Trend::Stable)); // 100 · (0.5 − 0.2887)
    }

    #[test]
    fn ratings_add_positive_and_negative_evidence() {
        // Three new ratings of 0.9, 0.8 and 1.0 by different clients: α = 1 + 2.7, β = 1 + 0.3.
        let three = reputation(&[given(1, 90, 0), given(2, 80, 0), given(3, 100, 0)], NOW);
        near(three.alpha, 3.7);
        near(three.beta, 1.3);
        near(three.mean, 0.9);
        near(three.expected(), 0.74); // 3.7 / 5
        near(three.deviation(), 0.179_072); // √(3.7 · 1.3 / (25 · 6)) = √0.0320667
        assert_eq!(three.score(), 56); // 100 · (0.74 − 0.17907) = 56.09
    }

    #[test]
    fn weights_fall_with_age_repetition_and_a_clients_narrowness() {
        // Half after 90 days: α = 1 + 0.5 · 1.
        near(reputation(&[given(1, 100, 90)], NOW).alpha, 1.5);
        // The newer rating counts whole, the older of the same client half, before its age: 1 + 0.4 + 0.5 · 0.8.
        let twice = [given(1, 80, 0), given(1, 40, 0)];
        let repeated = reputation(&twice, NOW);
        near(repeated.alpha + repeated.beta, 3.5);
        let narrow = AuditedFeedback { rated_others: false, ..given(1, 100, 0) };
        near(reputation(&[narrow], NOW).alpha, 1.25);
        // A hundred invented clients weigh as much as twenty-five real ones, and ten repetitions less than two.
        let many: Vec<_> =
            (0..100).map(|client| AuditedFeedback { rated_others: false, ..given(client, 100, 0) }).collect();
        near(reputation(&many, NOW).alpha, 26.0);
        let loud: Vec<_> = (0..10).map(|_| given(1, 100, 0)).collect();
        assert!(reputation(&loud, NOW).alpha < 3.0);
    }

    #[test]
    fn revoked_related_and_foreign_values_do_not_count() {
        let revoked = AuditedFeedback { is_revoked: true, ..given(1, 0, 0) };
        let own = AuditedFeedback { is_related: true, ..given(2, 100, 0) };
        let counted = reputation(&[revoked, own, given(3, -1, 0), given(4, 101, 0), given(5, i128::MAX, 0)], NOW);
        assert_eq!((counted.ratings, counted.alpha, counted.beta), (0, 1.0, 1.0));
        // 87.5 with one decimal is on the scale.
        let decimal = AuditedFeedback { decimals: 1, ..given(1, 875, 0) };
        near(decimal.rating().unwrap(), 0.875);
        // A time in the future counts as now.
        let future = AuditedFeedback { time: NOW + DAY, ..given(1, 100, 0) };
        near(reputation(&[future], NOW).alpha, 2.0);
    }

    #[test]
    fn a_trend_needs_two_ratings_in_each_period_and_a_quarter_of_a_star() {
        let trend = |recent: [i128; 2], earlier: [i128; 2]| {
            let all =
                [given(1, recent[0], 1), given(2, recent[1], 14), given(3, earlier[0], 15), given(4, earlier[1], 40)];
            reputation(&all, NOW).trend
        };
        assert_eq!(trend([90, 90], [80, 80]), Trend::Improving);
        assert_eq!(trend([70, 70], [80, 80]), Trend::Declining);
        assert_eq!(trend([83, 83], [80, 80]), Trend::Stable);
        assert_eq!(reputation(&[given(1, 100, 1), given(2, 100, 1), given(3, 0, 40)], NOW).trend, Trend::Stable);
    }
}
