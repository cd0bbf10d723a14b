//! Settings of the safety pipeline: its timeouts, and the depth a pool needs to count as a price source. The policy
//! limits the actions themselves.

use super::{Setting, SettingOrigin};
use crate::units::Usd;

/// Settings in seconds: key, default, minimum, maximum.
pub(super) const SECONDS: [(&str, u64, u64, u64); 3] = [
    ("permit_seconds", 60, 5, 600),
    ("approval_timeout_seconds", 300, 5, 86_400),
    ("receipt_patience_seconds", 60, 1, 3_600),
];

/// Default of `safety.minimum_pool_depth_usd`. To shift the 30-minute mean of a pool of this depth by 2 %, an attacker
/// must expose about this amount to every arbitrageur for half an hour.
const MINIMUM_DEPTH: u32 = 50_000;

/// Timeouts of the safety pipeline and requirements for price sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafetySettings {
    /// Lifetime of a permit, in seconds.
    pub permit_seconds: Setting<u64>,
    /// Timeout of an approval request, in seconds.
    pub approval_timeout_seconds: Setting<u64>,
    /// Timeout for a receipt, in seconds; afterwards the result is reported as not yet known.
    pub receipt_patience_seconds: Setting<u64>,
    /// Dollars that must be tradable within 2 % of a pool's mean for the pool to count as a price source.
    pub minimum_pool_depth_usd: Setting<Usd>,
}

impl Default for SafetySettings {
    fn default() -> Self {
        let [permit, approval, patience] =
            SECONDS.map(|(_, seconds, ..)| Setting { value: seconds, origin: SettingOrigin::Default });
        let depth = Usd::whole(MINIMUM_DEPTH);
        Self {
            permit_seconds: permit,
            approval_timeout_seconds: approval,
            receipt_patience_seconds: patience,
            minimum_pool_depth_usd: Setting { value: depth, origin: SettingOrigin::Default },
        }
    }
}

impl SafetySettings {
    /// All settings in seconds, with their keys.
    pub fn seconds(&self) -> [(&'static str, &Setting<u64>); 3] {
        [
            ("permit_seconds", &self.permit_seconds),
            ("approval_timeout_seconds", &self.approval_timeout_seconds),
            ("receipt_patience_seconds", &self.receipt_patience_seconds),
        ]
    }

    /// The setting with this key, for assignment.
    pub(super) fn seconds_mut(&mut self, key: &str) -> Option<&mut Setting<u64>> {
        match key {
            "permit_seconds" => Some(&mut self.permit_seconds),
            "approval_timeout_seconds" => Some(&mut self.approval_timeout_seconds),
            "receipt_patience_seconds" => Some(&mut self.receipt_patience_seconds),
            _ => None,
        }
    }
}
