//! Trust in an agent from its identity, reputation and validations, and its tier.
//!
//! The weights are this program's own and are documented at each constant; they need nothing but registries and the
//! registration file. Scores are shown and gated on; they are never amounts of money.

use super::reputation::Reputation;

/// Age from which a registration counts as established, in seconds: 30 days.
const ESTABLISHED_SECONDS: u64 = 30 * 86_400;
/// Age up to which a validation counts, in seconds: 90 days.
const VALIDATION_SECONDS: u64 = 90 * 86_400;
/// Age of a transfer up to which the old owner's reputation may mislead, in seconds: 30 days.
const TRANSFER_SECONDS: u64 = 30 * 86_400;
/// Response from which a validation counts as passed.
pub const PASSED: u8 = 80;
/// Highest trust score of an agent without any validation.
const UNVALIDATED_LIMIT: u32 = 80;
/// Highest trust score of an agent that changed its owner lately: no score above it is fit for dealings of high value. The
/// ratings are of the former owner's work, and a buyer of a good name should not be trusted for it at once.
pub const TRANSFERRED_LIMIT: u32 = 70;

/// Facts about an agent's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityFacts {
    /// Time of the registration, in seconds since the Unix epoch.
    pub registered: u64,
    /// Time of the last transfer to another owner, in seconds since the Unix epoch.
    pub transferred: Option<u64>,
    /// True if the registration file is on chain, or was read from where its content proves it.
    pub has_file: bool,
    /// Kind of the file's place, if it is outside the chain and was not read.
    pub unread: Option<UnreadFile>,
    /// True if the file's registrations name this agent in this registry.
    pub is_named_by_file: bool,
    /// True if the file names an endpoint.
    pub has_endpoint: bool,
    /// True if the file says that the agent is in service.
    pub is_active: bool,
    /// True if the agent has a wallet.
    pub has_wallet: bool,
    /// True if text of the file was altered when it was cleaned.
    pub has_hostile_text: bool,
}

/// Place of a registration file that is outside the chain and was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadFile {
    /// In IPFS, where the content's identifier proves it.
    Content,
    /// On a server, which can change it at any time, and show each reader another one. It never counts.
    Server,
}

/// Response of a validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validation {
    /// Response from 0 to 100.
    pub response: u8,
    /// Time of the response, in seconds since the Unix epoch.
    pub time: u64,
}

/// Reason for caution about an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustFlag {
    /// The agent has no registration file, or an invalid one.
    NoRegistrationFile,
    /// The file is in IPFS and was not read yet.
    FileNotRead,
    /// The file is on a server that can change it at any time.
    FileNotFixed,
    /// The file does not name this agent.
    MismatchedRegistration,
    /// The file contains control or direction characters.
    HostileText,
    /// The agent is not in service.
    Inactive,
    /// The agent has no wallet.
    NoWallet,
    /// The agent changed its owner lately.
    RecentlyTransferred,
    /// No client rated it.
    NoRatings,
    /// Its ratings fall.
    DecliningReputation,
    /// No validator responded lately.
    NoValidation,
    /// The mean response of validators is below the pass mark.
    FailedValidation,
}

impl TrustFlag {
    /// Returns the identifier that tools use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoRegistrationFile => "no_registration_file",
            Self::FileNotRead => "file_not_read",
            Self::FileNotFixed => "file_not_fixed",
            Self::MismatchedRegistration => "mismatched_registration",
            Self::HostileText => "hostile_text",
            Self::Inactive => "inactive",
            Self::NoWallet => "no_wallet",
            Self::RecentlyTransferred => "recently_transferred",
            Self::NoRatings => "no_ratings",
            Self::DecliningReputation => "declining_reputation",
            Self::NoValidation => "no_validation",
            Self::FailedValidation => "failed_validation",
        }
    }
}

/// Trust in an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct TrustEvaluation {
    /// Composite score from 0 to 100.
    pub score: u32,
    /// Score of the identity from 0 to 100.
    pub identity: u32,
    /// Score of the reputation from 0 to 100.
    pub reputation: u32,
    /// Score of the validations from 0 to 100; 0 without any.
    pub validation: u32,
    /// Certainty about the reputation from 0 to 1.
    pub confidence: f64,
    /// Reasons for caution, in the order of the enum.
    pub flags: Vec<TrustFlag>,
}

/// Score of an identity: a readable file 30, which names this agent 20, a wallet 15, an endpoint 15, in service 10,
/// established 10.
pub fn identity_score(facts: &IdentityFacts, now: u64) -> u32 {
    let established = now.saturating_sub(facts.registered) >= ESTABLISHED_SECONDS;
    let file = facts.has_file;
    [
        (file, 30),
        (file && facts.is_named_by_file, 20),
        (facts.has_wallet, 15),
        (file && facts.has_endpoint, 15),
        (file && facts.is_active, 10),
        (established, 10),
    ]
    .into_iter()
    .filter_map(|(holds, points)| holds.then_some(points))
    .sum()
}

/// Mean of the responses of the last 90 days, from 0 to 100; `None` without any.
pub fn validation_score(validations: &[Validation], now: u64) -> Option<u32> {
    let recent: Vec<u32> = validations
        .iter()
        .filter(|validation| now.saturating_sub(validation.time) <= VALIDATION_SECONDS)
        .map(|validation| u32::from(validation.response))
        .collect();
    recent.iter().sum::<u32>().checked_div(u32::try_from(recent.len()).unwrap_or(u32::MAX))
}

/// Evaluates an agent at `now`, in seconds since the Unix epoch. `validations` are the newest response of each validator.
///
/// The composite is 20 % identity, 50 % reputation and 30 % validation. Without a recent validation it is 2/7 identity and
/// 5/7 reputation, and at most 80. For 30 days after a transfer to another owner it is at most 70.
pub fn evaluate(
    facts: &IdentityFacts,
    reputation: &Reputation,
    validations: &[Validation],
    now: u64,
) -> TrustEvaluation {
    let validation = validation_score(validations, now);
    let (identity, rated) = (identity_score(facts, now), reputation.score());
    let score = match validation {
        Some(validation) => (20 * identity + 50 * rated + 30 * validation) / 100,
        None => ((2 * identity + 5 * rated) / 7).min(UNVALIDATED_LIMIT),
    };
    let transferred_lately = facts.transferred.is_some_and(|time| now.saturating_sub(time) < TRANSFER_SECONDS);
    let score = if transferred_lately { score.min(TRANSFERRED_LIMIT) } else { score };
    let flags = [
        (!facts.has_file && facts.unread.is_none(), TrustFlag::NoRegistrationFile),
        (facts.unread == Some(UnreadFile::Content), TrustFlag::FileNotRead),
        (facts.unread == Some(UnreadFile::Server), TrustFlag::FileNotFixed),
        (facts.has_file && !facts.is_named_by_file, TrustFlag::MismatchedRegistration),
        (facts.has_hostile_text, TrustFlag::HostileText),
        (facts.has_file && !facts.is_active, TrustFlag::Inactive),
        (!facts.has_wallet, TrustFlag::NoWallet),
        (transferred_lately, TrustFlag::RecentlyTransferred),
        (reputation.ratings == 0, TrustFlag::NoRatings),
        (reputation.trend == super::reputation::Trend::Declining, TrustFlag::DecliningReputation),
        (validation.is_none(), TrustFlag::NoValidation),
        (validation.is_some_and(|mean| mean < u32::from(PASSED)), TrustFlag::FailedValidation),
    ];
    TrustEvaluation {
        score,
        identity,
        reputation: rated,
        validation: validation.unwrap_or(0),
        confidence: reputation.confidence(),
        flags: flags.into_iter().filter_map(|(holds, flag)| holds.then_some(flag)).collect(),
    }
}

/// Tier of an agent by its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// From 0 points.
    Bronze,
    /// From 100 points.
    Silver,
    /// From 300 points.
    Gold,
    /// From 1,000 points.
    Platinum,
}

impl Tier {
    const ALL: [Self; 4] = [Self::Bronze, Self::Silver, Self::Gold, Self::Platinum];

    /// Returns the identifier that tools use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bronze => "bronze",
            Self::Silver => "silver",
            Self::Gold => "gold",
            Self::Platinum => "platinum",
        }
    }

    /// Minimum points of the tier.
    pub const fn threshold(self) -> u32 {
        match self {
            Self::Bronze => 0,
            Self::Silver => 100,
            Self::Gold => 300,
            Self::Platinum => 1_000,
        }
    }

    /// Highest tier that these points reach.
    pub fn of_points(points: u32) -> Self {
        Self::ALL.into_iter().rev().find(|tier| points >= tier.threshold()).unwrap_or(Self::Bronze)
    }

    /// Next higher tier; `None` for the highest.
    pub fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| *tier > self)
    }
}

/// Points of an agent: 10 for each unit of positive evidence in its reputation, 20 for each passed validation, and 1 for
/// each day since its registration, up to 100.
pub fn points(reputation: &Reputation, validations: &[Validation], registered: u64, now: u64) -> u32 {
    // At least 0, since α begins at 1; a float to integer conversion saturates.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let evidence = (10.0 * (reputation.alpha - 1.0)).round() as u32;
    let passed = validations.iter().filter(|validation| validation.response >= PASSED).count();
    let days = u32::try_from(now.saturating_sub(registered) / 86_400).unwrap_or(u32::MAX).min(100);
    let passed = u32::try_from(passed).unwrap_or(u32::MAX).saturating_mul(20);
    evidence.saturating_add(passed).saturating_add(days)
}

#[cfg(test)]
mod tests {
    use super::super::reputation::Trend;
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const DAY: u64 = 86_400;

    const SOUND: IdentityFacts = IdentityFacts {
        registered: NOW - 60 * DAY,
        transferred: None,
        has_file: true,
        unread: None,
        is_named_by_file: true,
        has_endpoint: true,
        is_active: true,
        has_wallet: true,
        has_hostile_text: false,
    };

    fn rated(alpha: f64, beta: f64) -> Reputation {
        Reputation { ratings: 3, mean: 0.9, alpha, beta, trend: Trend::Stable }
    }

    #[test]
    fn an_identity_scores_by_what_can_be_checked() {
        assert_eq!(identity_score(&SOUND, NOW), 100);
        assert_eq!(identity_score(&IdentityFacts { registered: NOW - 29 * DAY, ..SOUND }, NOW), 90);
        // Without a file nothing in it counts: the wallet's 15 and the age's 10 stay.
        assert_eq!(identity_score(&IdentityFacts { has_file: false, ..SOUND }, NOW), 25);
        assert_eq!(identity_score(&IdentityFacts { is_named_by_file: false, ..SOUND }, NOW), 80);
    }

    #[test]
    fn trust_is_the_weighted_mean_of_its_parts() {
        let validations = [Validation { response: 97, time: NOW - DAY }, Validation { response: 70, time: NOW }];
        // Reputation 56 (see there), validation (97 + 70) / 2 = 83: (20 · 100 + 50 · 56 + 30 · 83) / 100 = 72.9.
        let trust = evaluate(&SOUND, &rated(3.7, 1.3), &validations, NOW);
        assert_eq!((trust.identity, trust.reputation, trust.validation, trust.score), (100, 56, 83, 72));
        assert_eq!(trust.flags, []);
        // An old validation is none: (2 · 100 + 5 · 56) / 7 = 68.57.
        let old = [Validation { response: 97, time: NOW - 91 * DAY }];
        let trust = evaluate(&SOUND, &rated(3.7, 1.3), &old, NOW);
        assert_eq!((trust.validation, trust.score), (0, 68));
        assert_eq!(trust.flags, [TrustFlag::NoValidation]);
        // Excellent ratings alone lead to 80 at most.
        assert_eq!(evaluate(&SOUND, &rated(1_000.0, 1.0), &[], NOW).score, 80);
    }

    #[test]
    fn a_bought_agent_is_not_trusted_for_the_former_owners_ratings() {
        let passed = [Validation { response: 100, time: NOW }];
        let after = |days: u64| {
            let facts = IdentityFacts { transferred: Some(NOW - days * DAY), ..SOUND };
            evaluate(&facts, &rated(1_000.0, 1.0), &passed, NOW).score
        };
        // (20 · 100 + 50 · 99 + 30 · 100) / 100 = 99 without the limit, if the reputation's score is 99.
        assert_eq!((after(0), after(29)), (70, 70));
        assert!(after(30) >= 98, "{}", after(30));
    }

    #[test]
    fn every_flag_has_its_reason() {
        let facts = IdentityFacts {
            transferred: Some(NOW - DAY),
            is_named_by_file: false,
            is_active: false,
            has_wallet: false,
            has_hostile_text: true,
            ..SOUND
        };
        let poor = Reputation { ratings: 0, trend: Trend::Declining, ..rated(1.0, 1.0) };
        let failed = [Validation { response: 79, time: NOW }];
        use TrustFlag::*;
        assert_eq!(
            evaluate(&facts, &poor, &failed, NOW).flags,
            [
                MismatchedRegistration,
                HostileText,
                Inactive,
                NoWallet,
                RecentlyTransferred,
                NoRatings,
                DecliningReputation,
                FailedValidation
            ]
        );
        for (place, flag) in [(UnreadFile::Content, FileNotRead), (UnreadFile::Server, FileNotFixed)] {
            let elsewhere = IdentityFacts { has_file: false, unread: Some(place), ..SOUND };
            assert_eq!(evaluate(&elsewhere, &rated(3.0, 1.0), &[], NOW).flags, [flag, NoValidation]);
        }
        let bare = IdentityFacts { has_file: false, ..SOUND };
        assert_eq!(evaluate(&bare, &rated(3.0, 1.0), &[], NOW).flags, [NoRegistrationFile, NoValidation]);
    }

    #[test]
    fn points_and_tiers_follow_evidence_validations_and_age() {
        // 10 · 2.7 + 20 · 1 + 60 days.
        let validations = [Validation { response: 80, time: NOW }, Validation { response: 79, time: NOW }];
        assert_eq!(points(&rated(3.7, 1.3), &validations, SOUND.registered, NOW), 107);
        assert_eq!(points(&rated(1.0, 1.0), &[], NOW - 900 * DAY, NOW), 100);
        for (points, tier) in [
            (0, Tier::Bronze),
            (99, Tier::Bronze),
            (100, Tier::Silver),
            (299, Tier::Silver),
            (300, Tier::Gold),
            (999, Tier::Gold),
            (1_000, Tier::Platinum),
            (u32::MAX, Tier::Platinum),
        ] {
            assert_eq!(Tier::of_points(points), tier, "{points}");
        }
        assert_eq!(Tier::Gold.next(), Some(Tier::Platinum));
        assert_eq!(Tier::Platinum.next(), None);
    }
}
