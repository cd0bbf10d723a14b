//! Custody of an account: who can move what it has. Plain models of session keys, delegations and allowances, read from
//! replies of tools, and the rows of their cards.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use serde_json::Value;

use super::Moment;
use super::figure::{amount, left, text};
use super::paint::Row;
use super::positions::{dollars_of, field, framed_card, marked, strong};
use crate::format::dollars;
use crate::scroll::ScrollOffset;
use crate::theme::{Role, Theme};
use bardo_base::format::counted;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// Maximum number of limits, functions and reasons that are kept of one entry.
const MAX_PARTS: usize = 40;
/// Seconds before the end of a key from which its countdown is marked.
const NEAR_END: u64 = 600;

/// Account on one chain, as `wallet_get_status` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountOnChain {
    /// Name of the chain.
    pub chain: SafeText,
    /// Kind of the account by its code: `eoa`, `eip7702` or `contract`.
    pub kind: SafeText,
    /// Contract whose code it runs; `None` without one.
    pub delegate: Option<SafeText>,
    /// Value on this chain in dollars.
    pub value: Option<Usd>,
    /// Number of transactions that it has sent.
    pub nonce: u64,
    /// State of the Safe; `None` for another account.
    pub safe: Option<SafeOnChain>,
}

/// State of a Safe on its chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SafeOnChain {
    /// Version of its contract.
    pub version: SafeText,
    /// Number of owners that must agree.
    pub threshold: SafeText,
    /// Addresses of the owners.
    pub owners: Vec<SafeText>,
    /// Modules, which may act without any owner.
    pub modules: Vec<SafeText>,
    /// Guard; `None` without one.
    pub guard: Option<SafeText>,
    /// Handler of calls that the Safe does not know; `None` without one.
    pub handler: Option<SafeText>,
    /// Proposals that the Safe can still execute.
    pub proposals: Vec<WaitingProposal>,
}

/// Proposal that was signed for the other owners of a Safe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitingProposal {
    /// Hash of its first transaction.
    pub id: SafeText,
    /// State in one word.
    pub state: SafeText,
    /// Outcome that the proposing call expects.
    pub outcome: SafeText,
    /// Number of owners that have signed.
    pub signed: usize,
    /// Owners that have not signed.
    pub missing: Vec<SafeText>,
}

impl WaitingProposal {
    fn from_data(data: &Value) -> Option<Self> {
        let list = |name: &str| -> Vec<SafeText> {
            let entries = data.get(name).and_then(Value::as_array).into_iter().flatten().take(MAX_PARTS);
            entries.filter_map(Value::as_str).map(|one| SafeText::clean(one, 60)).collect()
        };
        let id = SafeText::clean(data.get("id").and_then(Value::as_str)?, 80);
        let (state, outcome) = (text(data, "state")?, text(data, "expected_outcome").unwrap_or_default());
        Some(Self { id, state, outcome, signed: list("signed_by").len(), missing: list("missing") })
    }

    fn rows(&self, threshold: &SafeText) -> Vec<Row> {
        let Self { id, state, outcome, signed, missing } = self;
        let mut all = vec![
            field("proposal", format!("{state}, {signed} of {threshold} signed")),
            field("", outcome.to_string()),
            field("", format!("bardo safe show {id}")),
        ];
        all.extend(missing.iter().map(|owner| field("missing", owner.to_string())));
        all
    }
}

impl SafeOnChain {
    fn from_data(data: &Value) -> Option<Self> {
        let list = |name: &str| {
            let entries = data.get(name).and_then(Value::as_array).into_iter().flatten().take(MAX_PARTS);
            entries.filter_map(Value::as_str).map(|one| SafeText::clean(one, 60)).collect()
        };
        Some(Self {
            version: text(data, "version")?,
            threshold: text(data, "threshold")?,
            owners: list("owners"),
            modules: list("modules"),
            guard: text(data, "guard"),
            handler: text(data, "fallback_handler"),
            proposals: data
                .get("proposals")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .take(MAX_PARTS)
                .filter_map(WaitingProposal::from_data)
                .collect(),
        })
    }

    fn rows(&self) -> Vec<Row> {
        let one = |address: &Option<SafeText>| address.as_ref().map_or_else(|| "none".to_owned(), SafeText::to_string);
        let mut all = vec![field("Safe", format!("version {}", self.version))];
        all.push(field(
            "needs",
            format!(
                "{} of {}",
                self.threshold,
                counted(u64::try_from(self.owners.len()).unwrap_or(u64::MAX), "owner", "owners")
            ),
        ));
        all.extend(self.owners.iter().map(|owner| field("owner", owner.to_string())));
        match self.modules.is_empty() {
            true => all.push(field("modules", "none".to_owned())),
            false => all.extend(
                self.modules
                    .iter()
                    .map(|module| marked(&format!("module {module} acts without the owners"), Role::StateCare)),
            ),
        }
        all.push(field("guard", one(&self.guard)));
        all.push(field("handler", one(&self.handler)));
        all.extend(self.proposals.iter().flat_map(|proposal| proposal.rows(&self.threshold)));
        all
    }
}

/// Account with its custody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CustodyAccount {
    /// Address of the account.
    pub address: SafeText,
    /// Kind of custody, by its name; `None` if it is not known.
    pub provider: Option<SafeText>,
    /// Account on each chain that was read.
    pub chains: Vec<AccountOnChain>,
    /// Chains that could not be read, with the reason.
    pub unread: Vec<(SafeText, SafeText)>,
}

impl CustodyAccount {
    /// Reads the data of `wallet_get_status`. `None` if it names no account.
    pub fn from_data(data: &Value) -> Option<Self> {
        let entries = |name: &str| data.get(name).and_then(Value::as_array).into_iter().flatten().take(MAX_PARTS);
        let chain = |entry: &Value| {
            Some(AccountOnChain {
                chain: text(entry, "chain")?,
                kind: text(entry, "account_type").unwrap_or_default(),
                delegate: text(entry, "delegate"),
                value: dollars_of(entry, "total_usd"),
                nonce: entry.get("nonce").and_then(Value::as_u64).unwrap_or_default(),
                safe: entry.get("safe").and_then(SafeOnChain::from_data),
            })
        };
        let unread = |entry: &Value| Some((text(entry, "chain")?, text(entry, "reason").unwrap_or_default()));
        Some(Self {
            address: text(data, "address")?,
            provider: text(data, "provider"),
            chains: entries("balances").filter_map(chain).collect(),
            unread: entries("not_read").filter_map(unread).collect(),
        })
    }

    /// Custody in words, with its role.
    pub fn custody(&self) -> (&'static str, Role) {
        match self.provider.as_ref().map(SafeText::as_str) {
            Some("local_key") => ("key file on this machine", Role::Text),
            Some("development_key") => ("public development key: anybody can sign", Role::StateCare),
            Some("delegated") => ("session key within the owner's delegation", Role::Text),
            Some("embedded") => ("wallet server", Role::Text),
            Some("safe") => ("Safe, through the key of an owner", Role::Text),
            Some(_) | None => ("custody not known", Role::StateCare),
        }
    }

    /// Rows of the card.
    pub fn rows(&self) -> Vec<Row> {
        let (words, role) = self.custody();
        let mut all = vec![strong("account", self.address.as_str())];
        all.push(Row::new(format!("{:<11}", "custody"), Role::TextDim).then(words, role).kept());
        for one in &self.chains {
            let value = one.value.map_or_else(|| "no price".to_owned(), dollars);
            let kind = match one.kind.as_str() {
                "eoa" => "plain account".to_owned(),
                "eip7702" => "runs a contract's code (EIP-7702)".to_owned(),
                "contract" => "contract".to_owned(),
                other => other.to_owned(),
            };
            let sent = counted(one.nonce, "transaction", "transactions");
            all.push(field(one.chain.as_str(), format!("{kind}, {sent} sent")).end(value, Role::TextStrong));
            if let Some(safe) = &one.safe {
                all.extend(safe.rows());
            }
            if let Some(delegate) = &one.delegate {
                all.push(marked(&format!("on {} it runs the code of {delegate}", one.chain), Role::StateCare));
            }
        }
        all.extend(
            self.unread
                .iter()
                .map(|(chain, why)| marked(&format!("{chain} could not be read: {why}"), Role::StateCare)),
        );
        all
    }
}

/// Session key of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionKey {
    /// Id of the key.
    pub id: SafeText,
    /// Label for people.
    pub label: Option<SafeText>,
    /// State by its name: `active`, `drafted`, `unverified`, `expired`, `used_up` or `revoked`.
    pub state: SafeText,
    /// Address of the key.
    pub address: SafeText,
    /// Owner of the account that it acts for.
    pub owner: SafeText,
    /// EIP-155 id of its chain.
    pub chain_id: u64,
    /// End of its validity in UTC, as text.
    pub ends: SafeText,
    /// End of its validity in seconds since the Unix epoch; `None` for text in another form.
    pub ends_at: Option<u64>,
    /// Number of signatures that it made.
    pub used: u64,
    /// Maximum number of signatures; `None` without a limit.
    pub most: Option<u64>,
    /// Time of its last signature in UTC; `None` if it made none.
    pub last_used: Option<SafeText>,
    /// Every limit of its delegation in words; empty if they cannot be read.
    pub limits: Vec<SafeText>,
    /// Number of contracts that it may call.
    pub contracts: usize,
    /// True if the chain accepts its delegation now; `None` if that is not known.
    pub accepted: Option<bool>,
    /// Reason why the chain does not accept it, or could not be asked.
    pub problem: Option<SafeText>,
    /// Name of the ledger that it belongs to.
    pub ledger: SafeText,
}

/// Seconds since the Unix epoch of a time such as `2026-11-22 01:19:10Z`; `None` for other text. Days are counted with
/// Howard Hinnant's `days_from_civil` (<https://howardhinnant.github.io/date_algorithms.html>).
pub fn unix_seconds(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once([' ', 'T'])?;
    let part = |text: Option<&str>| text?.parse::<i64>().ok();
    let mut date = date.split('-');
    let (year, month, day) = (part(date.next())?, part(date.next())?, part(date.next())?);
    let mut time = time.split(':');
    let (hour, minute, second) = (part(time.next())?, part(time.next())?, part(time.next())?);
    let fits = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !fits || date.next().is_some() || time.next().is_some() {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    u64::try_from(days * 86_400 + hour * 3_600 + minute * 60 + second).ok()
}

impl SessionKey {
    /// Reads an entry of `session_get_keys`. `None` if it has no id.
    pub fn from_entry(entry: &Value) -> Option<Self> {
        let or_none = |name: &str| text(entry, name).unwrap_or_default();
        let number = |name: &str| entry.get(name).and_then(Value::as_u64);
        let list = |name: &str| entry.get(name).and_then(Value::as_array).into_iter().flatten();
        let ends = or_none("expires_at");
        Some(Self {
            id: text(entry, "key_id").filter(|id| !id.is_empty())?,
            label: text(entry, "label"),
            state: or_none("state"),
            address: or_none("address"),
            owner: or_none("owner"),
            chain_id: number("chain_id").unwrap_or_default(),
            ends_at: unix_seconds(ends.as_str()),
            ends,
            used: number("usage_count").unwrap_or_default(),
            most: number("max_calls"),
            last_used: text(entry, "last_used"),
            limits: list("limits")
                .filter_map(Value::as_str)
                .take(MAX_PARTS)
                .map(|one| SafeText::clean(one, 300))
                .collect(),
            contracts: list("permissions").count(),
            accepted: entry.get("accepted_on_chain").and_then(Value::as_bool),
            problem: text(entry, "on_chain_problem"),
            ledger: or_none("ledger"),
        })
    }

    /// True if it can act by the records of this machine. A state that is not understood counts as one that can.
    pub fn can_act(&self) -> bool {
        !matches!(self.state.as_str(), "drafted" | "unverified" | "expired" | "used_up" | "revoked")
    }

    /// Mark, words and role of its state, with the countdown while it can act.
    pub fn status(&self, now: Moment) -> (&'static str, String, Role) {
        if !self.can_act() {
            let words = self.state.as_str().replace('_', " ");
            return ("○", words, Role::TextDim);
        }
        let Some(ends) = self.ends_at else { return ("?", format!("end not known: {}", self.ends), Role::StateBad) };
        let seconds = ends.saturating_sub(now.millis / 1_000);
        match (self.accepted, seconds) {
            (_, 0) if now.motion => ("○", "expired".to_owned(), Role::TextDim),
            (Some(false), _) => ("!", format!("not accepted on chain, {}", left(ends, now)), Role::StateCare),
            (_, ..NEAR_END) => ("!", left(ends, now), Role::StateCare),
            _ => ("●", left(ends, now), Role::StateGood),
        }
    }

    /// Use of its signatures, such as `3 of 20 used`.
    pub fn use_words(&self) -> String {
        match self.most {
            Some(most) => format!("{} of {most} used", self.used),
            None => format!("{} used, no limit", self.used),
        }
    }

    /// Rows of the card.
    pub fn rows(&self, now: Moment) -> Vec<Row> {
        let (mark, words, role) = self.status(now);
        let mut all = vec![Row::new(format!("{mark} {words}"), role).end(self.use_words(), Role::TextStrong).kept()];
        if let Some(problem) = &self.problem {
            all.push(marked(problem.as_str(), Role::StateCare));
        }
        if let Some(label) = &self.label {
            all.push(field("label", label.as_str()));
        }
        all.push(strong("key", self.address.as_str()));
        all.push(field("acts for", self.owner.as_str()));
        all.push(field("chain", self.chain_id.to_string()));
        all.push(field("until", self.ends.as_str()));
        all.push(field("last used", self.last_used.as_ref().map_or("never", SafeText::as_str)));
        let contracts = u64::try_from(self.contracts).unwrap_or(u64::MAX);
        all.push(field("may call", counted(contracts, "contract", "contracts")));
        if self.limits.is_empty() {
            all.push(marked("its limits cannot be read here", Role::StateCare));
        }
        all.extend(self.limits.iter().map(|limit| Row::new("  ", Role::TextDim).then(limit.as_str(), Role::Text)));
        all.push(field("ledger", self.ledger.as_str()));
        all.push(field("id", self.id.as_str()));
        all
    }
}

/// Delegation that the account's contract was used with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delegation {
    /// Hash by which the manager knows it.
    pub hash: SafeText,
    /// Address that may act.
    pub delegate: SafeText,
    /// True if it works now.
    pub in_force: bool,
    /// True if the owner has revoked it.
    pub revoked: bool,
    /// End in seconds since the Unix epoch; `None` if it is unknown.
    pub ends_at: Option<u64>,
    /// Limits of what it permits; empty if they are not understood.
    pub limits: Vec<SafeText>,
    /// Reason why the limits are not understood.
    pub not_understood: Option<SafeText>,
}

/// Delegation of the account on one chain, with those that were used below it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainDelegation {
    /// Name of the chain.
    pub chain: SafeText,
    /// Contract whose code the account runs.
    pub contract: SafeText,
    /// Name of the contract; `None` for an unknown one.
    pub label: Option<SafeText>,
    /// True if its delegations can be read.
    pub understood: bool,
    /// True if no delegation works, because the manager is paused.
    pub paused: bool,
    /// True if the whole chain was searched.
    pub complete: bool,
    /// Delegations that were used.
    pub used: Vec<Delegation>,
}

impl ChainDelegation {
    /// Reads the data of `wallet_get_delegation`. `None` if the account runs no contract's code.
    pub fn from_data(chain: &SafeText, data: &Value) -> Option<Self> {
        let is = |name: &str| data.get(name).and_then(Value::as_bool).unwrap_or_default();
        let contract = text(data, "delegate_address").filter(|_| is("delegated"))?;
        let used = data.get("permissions").and_then(Value::as_array).into_iter().flatten().take(MAX_PARTS);
        Some(Self {
            chain: chain.clone(),
            contract,
            label: text(data, "delegate_label"),
            understood: is("understood"),
            paused: is("paused"),
            complete: is("complete"),
            used: used.filter_map(Delegation::from_entry).collect(),
        })
    }

    /// Rows of the card: the contract, and the delegations below it as a tree.
    pub fn rows(&self, now: Moment) -> Vec<Row> {
        let name = self.label.as_ref().map_or("an unknown contract", SafeText::as_str);
        let mut all = vec![strong("runs", name).kept(), field("", self.contract.as_str())];
        if !self.understood {
            all.push(marked("what it lets others do cannot be read", Role::StateBad).kept());
        }
        if self.paused {
            all.push(marked("the manager is paused: no delegation works", Role::StateCare));
        }
        if self.understood && !self.complete {
            all.push(marked("the chain was not searched whole: more delegations may exist", Role::StateCare));
        }
        let last = self.used.len().saturating_sub(1);
        for (at, one) in self.used.iter().enumerate() {
            let (branch, below) = if at == last { ("└ ", "    ") } else { ("├ ", "│   ") };
            let (mark, words, role) = one.status(now);
            all.push(
                Row::new(branch, Role::TextDim)
                    .then(format!("{mark} {words}  "), role)
                    .then(one.delegate.as_str(), Role::Text),
            );
            let limits =
                one.limits.iter().map(|limit| Row::new(below, Role::TextDim).then(limit.as_str(), Role::TextDim));
            all.extend(limits);
            let unclear = one.not_understood.iter();
            all.extend(unclear.map(|why| Row::new(below, Role::TextDim).then(format!("! {why}"), Role::StateCare)));
        }
        if self.understood && self.used.is_empty() {
            all.push(Row::new("No delegation was used.", Role::TextDim));
        }
        all.push(Row::new("A delegation that was signed and never used is in no chain's records.", Role::TextDim));
        all
    }
}

impl Delegation {
    fn from_entry(entry: &Value) -> Option<Self> {
        let is = |name: &str| entry.get(name).and_then(Value::as_bool).unwrap_or_default();
        let limits = entry.get("limits").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        Some(Self {
            hash: text(entry, "hash")?,
            delegate: text(entry, "delegate").unwrap_or_default(),
            in_force: is("in_force"),
            revoked: is("revoked"),
            ends_at: entry.get("expires_at").and_then(Value::as_u64),
            limits: limits.take(MAX_PARTS).map(|one| SafeText::clean(one, 300)).collect(),
            not_understood: text(entry, "not_understood"),
        })
    }

    /// Mark, words and role of its state.
    pub fn status(&self, now: Moment) -> (&'static str, String, Role) {
        match (self.revoked, self.in_force, self.ends_at) {
            (true, ..) => ("○", "revoked".to_owned(), Role::TextDim),
            (false, false, _) => ("○", "not in force".to_owned(), Role::TextDim),
            (false, true, Some(ends)) => ("●", left(ends, now), Role::StateCare),
            (false, true, None) => ("!", "in force, no known end".to_owned(), Role::StateBad),
        }
    }
}

/// Allowance with what its spender could take now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowanceAtRisk {
    /// Name of the chain.
    pub chain: SafeText,
    /// Symbol of the token; its address if it is not listed.
    pub token: SafeText,
    /// Address of the token.
    pub token_address: SafeText,
    /// Address that may spend.
    pub spender: SafeText,
    /// Name of the spender; `None` for an unknown one.
    pub label: Option<SafeText>,
    /// True for an allowance in Permit2.
    pub in_permit2: bool,
    /// Allowed amount in whole tokens.
    pub allowed: SafeText,
    /// True if it exceeds any possible balance.
    pub unlimited: bool,
    /// Expiry in seconds since the Unix epoch; `None` for one that never ends.
    pub ends_at: Option<u64>,
    /// Amount that the spender could take now, in whole tokens.
    pub at_risk: SafeText,
    /// Value of that amount in dollars; `None` without a price.
    pub at_risk_value: Option<Usd>,
}

impl AllowanceAtRisk {
    /// Reads an entry of `get_allowances`. `None` if it names no token or no spender.
    pub fn from_entry(chain: &SafeText, entry: &Value) -> Option<Self> {
        let or_none = |name: &str| text(entry, name).unwrap_or_default();
        Some(Self {
            chain: chain.clone(),
            token: or_none("token"),
            token_address: text(entry, "token_address")?,
            spender: text(entry, "spender")?,
            label: text(entry, "spender_label"),
            in_permit2: entry.get("kept_by").and_then(Value::as_str) == Some("permit2"),
            allowed: or_none("allowance"),
            unlimited: entry.get("unlimited").and_then(Value::as_bool).unwrap_or(true),
            ends_at: entry.get("expires_at").and_then(Value::as_u64),
            at_risk: or_none("at_risk"),
            at_risk_value: dollars_of(entry, "at_risk_usd"),
        })
    }

    /// Name of the spender, or its address.
    pub fn who(&self) -> &str {
        self.label.as_ref().unwrap_or(&self.spender).as_str()
    }

    /// Allowed amount in words.
    pub fn scope(&self) -> String {
        if self.unlimited { "any amount".to_owned() } else { amount(self.allowed.as_str()) }
    }

    /// Value at risk in words.
    pub fn risk(&self) -> (String, Role) {
        match self.at_risk_value {
            Some(value) if value.is_zero() => (dollars(value), Role::TextDim),
            Some(value) => (dollars(value), Role::StateCare),
            None => ("no price".to_owned(), Role::StateCare),
        }
    }

    /// Rows of the card.
    pub fn rows(&self, now: Moment) -> Vec<Row> {
        let (value, role) = self.risk();
        let words = format!("{} may take {} {}", self.who(), self.scope(), self.token);
        let mut all =
            vec![Row::new(words, if self.unlimited { Role::StateCare } else { Role::Text }).end(value, role).kept()];
        all.push(strong("at risk", format!("{} {} could be taken now", amount(self.at_risk.as_str()), self.token)));
        if self.label.is_none() {
            all.push(marked("the spender is not in the address book", Role::StateBad).kept());
        }
        let end = self.ends_at.map_or_else(|| "never ends by itself".to_owned(), |ends| left(ends, now));
        all.push(field("ends", end));
        all.push(field("kept by", if self.in_permit2 { "Permit2" } else { "the token" }));
        all.push(field("spender", self.spender.as_str()));
        all.push(field("token", self.token_address.as_str()));
        all.push(field("chain", self.chain.as_str()));
        all
    }
}

/// Part of custody that a card shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CustodyView<'a> {
    /// Account with its custody.
    Account(&'a CustodyAccount),
    /// Session key of this machine.
    Key(&'a SessionKey),
    /// Delegation of the account on a chain.
    Delegation(&'a ChainDelegation),
    /// Allowance with its value at risk.
    Allowance(&'a AllowanceAtRisk),
}

impl CustodyView<'_> {
    /// Title of the card.
    fn title(self) -> String {
        match self {
            Self::Account(_) => "Account".to_owned(),
            Self::Key(key) => format!("Session key {}", key.label.as_ref().unwrap_or(&key.id)),
            Self::Delegation(found) => format!("Delegation on {}", found.chain),
            Self::Allowance(one) => format!("Allowance  {} → {}", one.token, one.who()),
        }
    }

    fn rows(self, now: Moment) -> Vec<Row> {
        match self {
            Self::Account(account) => account.rows(),
            Self::Key(key) => key.rows(now),
            Self::Delegation(found) => found.rows(now),
            Self::Allowance(one) => one.rows(now),
        }
    }
}

/// Card of a part of custody, in a frame.
#[derive(Debug, Clone, Copy)]
pub struct CustodyCard<'a> {
    view: CustodyView<'a>,
    theme: &'a Theme,
    now: Moment,
    below: Option<&'a str>,
    scrolled: Option<&'a ScrollOffset>,
}

impl<'a> CustodyCard<'a> {
    /// Creates the card for a moment, from which countdowns are counted.
    pub const fn new(view: CustodyView<'a>, theme: &'a Theme, now: Moment) -> Self {
        Self { view, theme, now, below: None, scrolled: None }
    }

    /// Adds a last line, such as the keys that act on the card.
    #[must_use]
    pub const fn below(self, words: &'a str) -> Self {
        Self { below: Some(words), ..self }
    }

    /// Draws the card from a scroll position on.
    #[must_use]
    pub const fn scrolled(self, offset: &'a ScrollOffset) -> Self {
        Self { scrolled: Some(offset), ..self }
    }
}

impl Widget for CustodyCard<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        framed_card(
            (self.theme, buffer, area),
            (&self.view.title(), None),
            |_| self.view.rows(self.now),
            (self.below, self.scrolled),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::widgets::samples::{NOW, START};

    #[test]
    fn times_are_read_as_they_are_written() {
        // Reference values: `date -u -d @…` of coreutils.
        for (text, seconds) in [
            ("1970-01-01 00:00:00Z", 0),
            ("2023-11-14 22:13:20Z", 1_700_000_000),
            ("2024-02-29 12:00:00Z", 1_709_208_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(unix_seconds(text), Some(seconds), "{text}");
        }
        for text in
            ["", "2023-11-14", "2023-13-14 22:13:20Z", "2023-11-14 24:00:00Z", "2023-11-14 22:13:20", "x-y-z a:b:cZ"]
        {
            assert_eq!(unix_seconds(text), None, "{text}");
        }
        for at in (0..200).map(|step| step * 9_876_543) {
            assert_eq!(unix_seconds(&crate::format::utc(at * 1_000)), Some(at));
        }
    }

    /// A state or an end that is not understood is never shown as harmless.
    #[test]
    fn a_key_that_may_still_act_says_so() {
        let status = |change: &dyn Fn(&mut Value)| {
            let mut entry =
                json!({"key_id": "k1", "state": "active", "expires_at": "2023-11-14 23:13:20Z", "usage_count": 3});
            change(&mut entry);
            let key = SessionKey::from_entry(&entry).unwrap();
            let (mark, words, _) = key.status(NOW);
            (mark, words, key.can_act())
        };
        // The sample moment is 22:13:27.
        assert_eq!(status(&|_| {}), ("●", "59:53 left".to_owned(), true));
        assert_eq!(status(&|entry| entry["state"] = json!("revoked")), ("○", "revoked".to_owned(), false));
        assert!(status(&|entry| entry["state"] = json!("resting")).2);
        assert_eq!(status(&|entry| entry["expires_at"] = json!("soon")).0, "?");
        assert_eq!(status(&|entry| entry["expires_at"] = json!("2023-11-14 22:20:00Z")).0, "!");
        assert_eq!(status(&|entry| entry["expires_at"] = json!("2023-11-14 22:13:00Z")).1, "expired");
        assert!(status(&|entry| entry["accepted_on_chain"] = json!(false)).1.starts_with("not accepted"));
    }

    #[test]
    fn an_allowance_or_delegation_without_an_end_is_marked() {
        let chain = SafeText::clean("ethereum", 20);
        let entry = json!({"token": "USDC", "token_address": "0x1", "spender": "0x2", "at_risk_usd": "12.5"});
        let allowance = AllowanceAtRisk::from_entry(&chain, &entry).unwrap();
        assert!(allowance.unlimited, "an amount that is not named counts as any");
        assert_eq!(allowance.risk().0, "$12.50");
        let open = json!({"hash": "0x1", "delegate": "0x2", "in_force": true});
        assert_eq!(Delegation::from_entry(&open).unwrap().status(NOW).0, "!");
        let ends = json!({"hash": "0x1", "delegate": "0x2", "in_force": true, "expires_at": START + 67});
        assert_eq!(Delegation::from_entry(&ends).unwrap().status(NOW).1, "1:00 left");
        let none = json!({"delegated": false, "delegate_address": "0x1"});
        assert!(ChainDelegation::from_data(&chain, &none).is_none());
    }
}
