//! Settings of the safety pipeline: how long it waits for what, and how deep a pool must be before it counts as a
//! price. What may be done at all is the policy's affair.

use super::{Origin, Setting};
use crate::units::Usd;

/// The seconds that can be set: key, default, least, most.
pub(super) const SECONDS: [(&str, u64, u64, u64); 3] = [
    ("permit_seconds", 60, 5, 600),
    ("approval_timeout_seconds", 300, 5, 86_400),
    ("receipt_patience_seconds", 60, 1, 3_600),
];

/// Default of `safety.minimum_pool_depth_usd`. To bend the half-hour mean of a pool of this depth by 2 %, about as much has
/// to be put at risk against every arbitrageur, for half an hour.
const MINIMUM_DEPTH: u32 = 50_000;

/// How long the safety pipeline waits for what, and what it takes for a price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafetySettings {
    /// How long a permit serves, in seconds.
    pub permit_seconds: Setting<u64>,
    /// How long a question to the operator waits before it lapses, in seconds.
    pub approval_timeout_seconds: Setting<u64>,
    /// How long a receipt is waited for before the answer is that it is not known yet, in seconds.
    pub receipt_patience_seconds: Setting<u64>,
    /// Dollars that can be traded within 2 % of a pool's mean before that is a price.
    pub minimum_pool_depth_usd: Setting<Usd>,
}

impl Default for SafetySettings {
    fn default() -> Self {
        let [permit, approval, patience] =
            SECONDS.map(|(_, seconds, ..)| Setting { value: seconds, origin: Origin::Default });
        let depth = Usd::whole(MINIMUM_DEPTH);
        Self {
            permit_seconds: permit,
            approval_timeout_seconds: approval,
            receipt_patience_seconds: patience,
            minimum_pool_depth_usd: Setting { value: depth, origin: Origin::Default },
        }
    }
}

impl SafetySettings {
    /// Every setting in seconds, by its key.
    pub fn seconds(&self) -> [(&'static str, &Setting<u64>); 3] {
        [
            ("permit_seconds", &self.permit_seconds),
            ("approval_timeout_seconds", &self.approval_timeout_seconds),
            ("receipt_patience_seconds", &self.receipt_patience_seconds),
        ]
    }

    /// The setting of that key, to be set.
    pub(super) fn seconds_mut(&mut self, key: &str) -> Option<&mut Setting<u64>> {
        match key {
            "permit_seconds" => Some(&mut self.permit_seconds),
            "approval_timeout_seconds" => Some(&mut self.approval_timeout_seconds),
            "receipt_patience_seconds" => Some(&mut self.receipt_patience_seconds),
            _ => None,
        }
    }
}
