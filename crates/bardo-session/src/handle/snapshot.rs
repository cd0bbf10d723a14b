//! Snapshot of what events do not report: limits, holdings, allowances, standing approvals, stop and policy. Each
//! snapshot is complete and replaces the previous one.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::deposits::DepositsState;
use super::pnl::PnlState;
use super::schedules::SchedulesState;
use super::transactions::TransactionsState;

use crate::market::{LendingRow, LendingState, PositionRow};

pub use bardo_base::fabric::{BreakerState, LimitUsage, PolicyState, SpendState, StopLossState};
use bardo_base::id::GolemId;
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_base::units::{TokenAmount, Usd};

/// Custody of an account's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Custody {
    /// A key file on the session's machine.
    KeyFile,
    /// The public development mnemonic, on devnets only.
    DevelopmentKey,
    /// A session key, within what the account's owner has delegated.
    SessionKey,
    /// A wallet server.
    WalletServer,
    /// A Safe that acts through the key of an owner.
    Safe,
}

/// State of a session that no event reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSnapshot {
    /// Golem that the snapshot describes.
    pub golem_id: GolemId,
    /// Time of the snapshot, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Account whose assets are moved; `None` without an account.
    pub account: Option<Address>,
    /// True in paper mode, where everything is only simulated.
    pub paper: bool,
    /// Phase that applies to calls.
    pub phase: Phase,
    /// Policy in force.
    pub policy: PolicyState,
    /// Use of the limits; `None` if the ledger cannot be read, with the reason in `fault`.
    pub limits: Option<LimitUsage>,
    /// Error in the ledger or in the policy file.
    pub fault: Option<SafeText>,
    /// Stop in force; `None` if there is none.
    pub stop: Option<StopState>,
    /// True if a stop has revoked the Golem's session keys. Nothing is signed before a restart, even if the stop is
    /// lowered.
    #[serde(default)]
    pub keys_revoked: bool,
    /// Custody of the account's key; `None` without an account.
    #[serde(default)]
    pub custody: Option<Custody>,
    /// Holdings by chain.
    pub holdings: Vec<ChainHoldings>,
    /// Total value of the priced holdings, in dollars.
    pub equity: Option<Usd>,
    /// True if all holdings have a price.
    pub all_priced: bool,
    /// Allowances that others can spend from.
    pub allowances: AllowancesState,
    /// Standing approvals in force.
    pub grants: Vec<GrantState>,
    /// Number of running calls.
    pub running: u32,
    /// Profit and loss; `None` until the books were read for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pnl: Option<Arc<PnlState>>,
    /// Unconfirmed transactions and open orders; `None` until they were read for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Arc<TransactionsState>>,
    /// Schedules of swaps; `None` until they were read for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedules: Option<Arc<SchedulesState>>,
    /// Deposits with a bridge's pool; `None` until they were read for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposits: Option<Arc<DepositsState>>,
    /// Holdings of watch-only accounts. They are in no other figure: not in the equity, and in no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<WatchedHoldings>,
    /// Names of own accounts, labels and ENS, which stand beside the whole addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NamedAddress>,
}

impl SessionSnapshot {
    /// Name of an address; `None` if it has none.
    pub fn name_of(&self, address: Address) -> Option<&SafeText> {
        self.names.iter().find(|one| one.address == address).map(|one| &one.name)
    }
}

/// Address with its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedAddress {
    /// Address that is named.
    pub address: Address,
    /// Name with its origin, such as `label “Savings”`.
    pub name: SafeText,
}

/// Names of all addresses that a value contains as whole strings, in the order of the names.
pub fn names_in<'n>(value: &Value, names: &'n [NamedAddress]) -> Vec<&'n NamedAddress> {
    fn collect(value: &Value, found: &mut BTreeSet<Address>) {
        match value {
            Value::String(text) => found.extend(text.parse::<Address>().ok()),
            Value::Array(all) => all.iter().for_each(|one| collect(one, found)),
            Value::Object(fields) => fields.values().for_each(|one| collect(one, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    collect(value, &mut found);
    names.iter().filter(|name| found.contains(&name.address)).collect()
}

/// A text with the name of every whole address in it beside that address, such as `0x15d3…6A65 (label “Savings”)` with
/// all its digits.
pub fn name_addresses(text: &str, names: &[NamedAddress]) -> String {
    let mut named = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("0x") {
        let (before, from) = rest.split_at(at);
        named.push_str(before);
        // Longer digits are a hash, and fewer are no address.
        let digits = from.chars().skip(2).take_while(char::is_ascii_hexdigit).count();
        let (word, after) = from.split_at_checked(2 + digits).unwrap_or((from, ""));
        named.push_str(word);
        if let Some(address) = Some(word).filter(|_| digits == 40).and_then(|word| word.parse::<Address>().ok())
            && let Some(known) = names.iter().find(|one| one.address == address)
        {
            named.push_str(&format!(" ({})", known.name));
        }
        rest = after;
    }
    named.push_str(rest);
    named
}

/// Stop in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopState {
    /// Level of the stop.
    pub level: StopLevel,
    /// Initiator of the stop.
    pub by: SafeText,
    /// Reason for the stop.
    pub reason: SafeText,
    /// Time of the stop, in milliseconds since the Unix epoch.
    pub at: u64,
    /// True for this session's own hold, which can be released without an approval.
    pub own_hold: bool,
}

/// Holdings on one chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChainHoldings {
    /// Name of the chain.
    pub chain: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Block in which the holdings were read.
    pub block: u64,
    /// Holdings, one per token.
    pub rows: Vec<HoldingRow>,
    /// Liquidity positions, which count with their exit value.
    #[serde(default)]
    pub positions: Vec<PositionRow>,
    /// Supplies, which count, and debts, which are subtracted; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending: Option<LendingState>,
}

impl ChainHoldings {
    /// Values of everything held, with `None` for what has no price.
    pub fn values(&self) -> impl Iterator<Item = Option<Usd>> + '_ {
        let rows = self.rows.iter().filter(|row| !row.amount.raw().is_zero()).map(|row| row.value);
        let supplied = self.lent().filter(|row| !row.supplied.raw().is_zero()).map(|row| row.supplied_value);
        let unread = self.lending.iter().filter(|lending| lending.unread).map(|_| None);
        rows.chain(self.positions.iter().map(|position| position.value)).chain(supplied).chain(unread)
    }

    /// Values of everything owed to the lending market and to depositors of managed vaults, with `None` for what has no price.
    pub fn debts(&self) -> impl Iterator<Item = Option<Usd>> + '_ {
        let to_depositors = self.positions.iter().map(|one| one.owed).filter(|owed| !owed.is_zero()).map(Some);
        self.lent().filter(|row| !row.owed.raw().is_zero()).map(|row| row.owed_value).chain(to_depositors)
    }

    /// Everything priced that is held, less everything priced that is owed; zero where more is owed. `None` if a sum is out
    /// of range.
    pub fn net(&self) -> Option<Usd> {
        let sum = |sum: Usd, value: Usd| sum.checked_add(value).ok();
        let held = self.values().flatten().try_fold(Usd::ZERO, sum)?;
        let owed = self.debts().flatten().try_fold(Usd::ZERO, sum)?;
        Some(held.checked_sub(owed).unwrap_or(Usd::ZERO))
    }

    /// True if everything held and owed has a price.
    pub fn all_priced(&self) -> bool {
        self.values().chain(self.debts()).all(|value| value.is_some())
    }

    fn lent(&self) -> impl Iterator<Item = &LendingRow> {
        self.lending.iter().flat_map(|lending| &lending.rows)
    }
}

/// Holdings of a watch-only account on one chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchedHoldings {
    /// Label of the account.
    pub name: SafeText,
    /// Address of the account.
    pub address: Address,
    /// Holdings of the account on that chain.
    pub holdings: ChainHoldings,
}

/// Holding of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldingRow {
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Amount that is held.
    pub amount: TokenAmount,
    /// Value in dollars; `None` without a price.
    pub value: Option<Usd>,
}

/// Allowances, as far as they could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowancesState {
    /// Allowances, one per token and spender.
    pub rows: Vec<AllowanceState>,
    /// Tokens whose allowances could not be read, so that more may exist than are listed.
    pub silent: Vec<SilentToken>,
}

/// Listed token whose allowances could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentToken {
    /// Name of the chain.
    pub chain: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Contract of the token.
    pub token: Address,
}

/// Allowance of one spender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowanceState {
    /// Name of the chain.
    pub chain: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Symbol of the token.
    pub symbol: SafeText,
    /// Contract of the token.
    pub token: Address,
    /// Address that may spend.
    pub spender: Address,
    /// Display name of the spender, if known.
    pub label: Option<SafeText>,
    /// True for an allowance in Permit2, false for one of the token itself.
    pub through_permit2: bool,
    /// Amount in raw units.
    pub raw: U256,
    /// Amount in whole tokens; `None` if it cannot be computed.
    pub amount: Option<TokenAmount>,
    /// True if the amount is practically unlimited.
    pub unlimited: bool,
    /// Expiry in seconds since the Unix epoch; only for an allowance in Permit2.
    pub expires_at: Option<u64>,
    /// Part that signed orders may still spend, in raw units, for an exact allowance of Permit2. `None` for any other
    /// allowance, and if the ledger does not know.
    #[serde(default)]
    pub promised: Option<U256>,
}

/// Standing approval in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantState {
    /// Number that identifies the standing approval.
    pub number: u64,
    /// Golem that may act.
    pub golem_id: GolemId,
    /// Tool that may be used.
    pub tool: SafeText,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Tokens by symbol or address.
    pub tokens: Vec<SafeText>,
    /// Addresses that may receive something.
    pub recipients: Vec<Address>,
    /// Amount that was granted, in dollars; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Usd>,
    /// Amount that may still be spent, in dollars.
    pub left: Usd,
    /// Remaining duration at the time of the snapshot, in milliseconds.
    pub lasts_millis: u64,
}

impl SessionSnapshot {
    /// Returns true if both snapshots have the same content, apart from their times.
    pub fn same_content(&self, other: &Self) -> bool {
        // The remaining duration changes with time alone; consumers count it from the snapshot's time.
        let steady = |one: &Self| {
            let grants = one.grants.iter().map(|grant| GrantState { lasts_millis: 0, ..grant.clone() }).collect();
            Self { at: 0, grants, ..one.clone() }
        };
        steady(self) == steady(other)
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;

    #[test]
    fn a_name_stands_beside_each_whole_address_and_replaces_none() {
        let saved = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";
        let names =
            [NamedAddress { address: saved.parse().unwrap(), name: SafeText::clean("label “Savings”", 60) }];
        let named = format!("{saved} (label “Savings”)");
        let lower = saved.to_lowercase();
        for (text, shown) in [
            (format!("sent to {saved}."), format!("sent to {named}.")),
            (format!("{saved},{lower}"), format!("{named},{lower} (label “Savings”)")),
            // Another address, a hash that begins like it, digits that are cut, and none.
            (format!("{}64", &saved[..40]), format!("{}64", &saved[..40])),
            (format!("{saved}00"), format!("{saved}00")),
            ("0x15d3…6A65 0x 0".to_owned(), "0x15d3…6A65 0x 0".to_owned()),
            ("ends in 0x".to_owned(), "ends in 0x".to_owned()),
        ] {
            assert_eq!(name_addresses(&text, &names), shown);
        }
        assert_eq!(name_addresses(saved, &[]), saved);
    }

    fn holdings(held: &str, supplied: Option<&str>, owed: Option<&str>) -> ChainHoldings {
        let (symbol, one) = (SafeText::clean("USDC", 8), TokenAmount::new(U256::ONE, 6).unwrap());
        let usd = |text: &str| text.parse::<Usd>().unwrap();
        let row = LendingRow {
            symbol: symbol.clone(),
            supplied: one,
            supplied_value: supplied.map(usd),
            owed: one,
            owed_value: owed.map(usd),
        };
        ChainHoldings {
            chain: SafeText::clean("ethereum", 20),
            chain_id: 1,
            block: 7,
            rows: vec![HoldingRow { symbol, amount: one, value: Some(usd(held)) }],
            positions: Vec::new(),
            lending: Some(LendingState { rows: vec![row], health: Some(150), moves: Vec::new(), unread: false }),
        }
    }

    #[test]
    fn debts_are_subtracted_and_what_has_no_price_is_seen_to_be_missing() {
        let of = |found: &ChainHoldings| (found.net().unwrap().to_string(), found.all_priced());
        assert_eq!(of(&holdings("100", Some("50"), Some("30"))), ("120".to_owned(), true));
        assert_eq!(of(&holdings("100", Some("50"), Some("500"))), ("0".to_owned(), true), "never below zero");
        assert_eq!(of(&holdings("100", None, Some("30"))), ("70".to_owned(), false));
        assert_eq!(of(&holdings("100", Some("50"), None)), ("150".to_owned(), false));
        let mut unread = holdings("100", Some("50"), Some("30"));
        unread.lending = Some(LendingState::unread());
        assert_eq!(of(&unread), ("100".to_owned(), false), "a market that could not be read");
        unread.lending = None;
        assert_eq!(of(&unread), ("100".to_owned(), true));
    }
}
