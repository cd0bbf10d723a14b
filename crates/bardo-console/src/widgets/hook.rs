//! Report on the hook of a Uniswap V4 pool: when the pool calls it, and what an evaluation found.

use alloy_primitives::Address;

use super::paint::Row;
use crate::theme::Role;
use bardo_base::text::SafeText;

/// Permissions of a hook by bit of its address, the lowest first (`Hooks.sol` of Uniswap v4-core). Those marked true let
/// the hook take or keep a part of what moves.
const PERMISSIONS: [(&str, bool); 14] = [
    ("keeps a part of withdrawals", true),
    ("keeps a part of deposits", true),
    ("changes what swaps pay out", true),
    ("changes what swaps take in", true),
    ("after donations", false),
    ("before donations", false),
    ("after swaps", false),
    ("before swaps", false),
    ("after withdrawals", false),
    ("before withdrawals", false),
    ("after deposits", false),
    ("before deposits", false),
    ("after the pool begins", false),
    ("before the pool begins", false),
];

/// Result of an evaluation of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookVerdict {
    /// The evaluation found no objection.
    Passed,
    /// Something is to be read before it is used.
    Care,
    /// It is not used.
    Refused,
}

/// Evaluation of a hook, as far as there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookEvaluation {
    /// Result of the evaluation.
    pub verdict: HookVerdict,
    /// Reasons for it.
    pub reasons: Vec<SafeText>,
}

/// Hook of a pool, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookReport {
    /// Address of the hook; its lowest 14 bits are its permissions.
    pub address: Address,
    /// Evaluation of its code; `None` if there is none.
    pub evaluation: Option<HookEvaluation>,
}

impl HookReport {
    /// Reads the address of a hook; `None` for other text.
    pub fn of_address(text: &str) -> Option<Self> {
        Some(Self { address: text.parse().ok()?, evaluation: None })
    }

    /// Permissions of the hook, with those first that let it take something.
    pub fn permissions(&self) -> Vec<(&'static str, bool)> {
        let [.., high, low] = self.address.into_array();
        let bits = u16::from_be_bytes([high, low]);
        let has = |at: usize| u32::try_from(at).is_ok_and(|at| bits.checked_shr(at).is_some_and(|rest| rest & 1 == 1));
        PERMISSIONS.iter().enumerate().filter(|(at, _)| has(*at)).map(|(_, permission)| *permission).collect()
    }

    /// Rows of a card: address, permissions, and the verdict.
    pub fn rows(&self) -> Vec<Row> {
        let mut all =
            vec![Row::new(format!("{:<11}", "hook"), Role::TextDim).then(self.address.to_string(), Role::StateCare)];
        let permissions = self.permissions();
        if permissions.is_empty() {
            all.push(
                Row::new(format!("{:<11}", ""), Role::TextDim).then("its address has no permission", Role::TextDim),
            );
        }
        let (takes, called): (Vec<_>, Vec<_>) = permissions.into_iter().partition(|(_, takes)| *takes);
        all.extend(takes.iter().map(|(words, _)| Row::new(format!("! it {words}"), Role::StateCare).kept()));
        if !called.is_empty() {
            let words: Vec<&str> = called.iter().map(|(words, _)| *words).collect();
            all.push(Row::new(format!("{:<11}", "is called"), Role::TextDim).then(words.join(", "), Role::Text));
        }
        let (words, role) = match self.evaluation.as_ref().map(|found| found.verdict) {
            None => ("not evaluated: its code decides what it does", Role::StateCare),
            Some(HookVerdict::Passed) => ("✓ no objection found", Role::StateGood),
            Some(HookVerdict::Care) => ("! read before use", Role::StateCare),
            Some(HookVerdict::Refused) => ("✕ refused", Role::StateBad),
        };
        all.push(Row::new(format!("{:<11}", "verdict"), Role::TextDim).then(words, role).kept());
        let reasons = self.evaluation.iter().flat_map(|found| &found.reasons);
        all.extend(
            reasons.map(|reason| Row::new(format!("{:<11}", ""), Role::TextDim).then(reason.as_str(), Role::Text)),
        );
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(address: &str) -> Vec<&'static str> {
        HookReport::of_address(address).unwrap().permissions().into_iter().map(|(words, _)| words).collect()
    }

    /// Addresses of v4-core's own documentation and constants: `AFTER_SWAP_FLAG` is 1 << 6, `BEFORE_SWAP_FLAG` 1 << 7,
    /// `BEFORE_INITIALIZE_FLAG` 1 << 13, `AFTER_REMOVE_LIQUIDITY_RETURNS_DELTA_FLAG` 1 << 0, and
    /// `BEFORE_SWAP_RETURNS_DELTA_FLAG` 1 << 3.
    #[test]
    fn permissions_are_the_lowest_bits_of_the_address() {
        assert_eq!(words("0x00000000000000000000000000000000000000C0"), ["after swaps", "before swaps"]);
        assert_eq!(words("0x0000000000000000000000000000000000002000"), ["before the pool begins"]);
        assert_eq!(words("0x0000000000000000000000000000000000000001"), ["keeps a part of withdrawals"]);
        assert_eq!(words("0x0000000000000000000000000000000000000088"), ["changes what swaps take in", "before swaps"]);
        // Higher bits are no permissions.
        assert!(words("0xFFfFfFffFFfffFFfFFfFFFFFffFFFffffFfFC000").is_empty());
        assert_eq!(words("0x0000000000000000000000000000000000003fFF").len(), 14);
        assert!(HookReport::of_address("hook").is_none());
    }

    #[test]
    fn without_an_evaluation_nothing_is_said_to_be_safe() {
        let mut report = HookReport::of_address("0x0000000000000000000000000000000000000201").unwrap();
        let text = |report: &HookReport| {
            let rows = report.rows();
            rows.iter().flat_map(|row| &row.left).map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(" ")
        };
        let shown = text(&report);
        assert!(shown.contains("! it keeps a part of withdrawals") && shown.contains("before withdrawals"), "{shown}");
        assert!(shown.contains("not evaluated") && !shown.contains('✓'), "{shown}");
        let reasons = vec![SafeText::clean("it can change its fee to 100 %", 80)];
        report.evaluation = Some(HookEvaluation { verdict: HookVerdict::Refused, reasons });
        let shown = text(&report);
        assert!(shown.contains("✕ refused") && shown.contains("100 %") && !shown.contains("not evaluated"), "{shown}");
    }
}
