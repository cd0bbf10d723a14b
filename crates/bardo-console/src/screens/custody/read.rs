//! Reads of the screen of custody, and their results.

use serde_json::{Value, json};

use crate::screens::reading::{ReadPurpose, ReadValue, failure};
use crate::widgets::custody::{AllowanceAtRisk, ChainDelegation, CustodyAccount, SessionKey};
use bardo_base::format::counted;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_session::envelope::ToolResponse;

/// Maximum number of session keys, and of allowances of a chain, that are kept.
const MOST_ROWS: usize = 500;

/// Read of this screen. Chains are named by their index in the network.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    /// Account with its custody.
    Account,
    /// Session keys of this machine.
    Keys,
    /// Delegation of the account on a chain.
    Delegation { chain: usize, name: SafeText },
    /// Allowances on a chain.
    Allowances { chain: usize, name: SafeText },
}

impl ReadPurpose for Purpose {
    fn call(&self) -> (&'static str, Value) {
        match self {
            Self::Account => ("wallet_get_status", json!({})),
            Self::Keys => ("session_get_keys", json!({ "include_ended": true })),
            Self::Delegation { name, .. } => ("wallet_get_delegation", json!({ "chain_id": name.as_str() })),
            Self::Allowances { name, .. } => ("get_allowances", json!({ "chain": name.as_str() })),
        }
    }
}

/// Session keys of this machine.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyList {
    /// Keys, those that can act first.
    pub(super) keys: Vec<SessionKey>,
    /// Ledgers that could not be read, with the reason.
    unreadable: Vec<(SafeText, SafeText)>,
}

/// Allowances on a chain.
#[derive(Debug, Clone, Default)]
pub(super) struct AllowanceList {
    /// Allowances, the largest value at risk first.
    pub(super) rows: Vec<AllowanceAtRisk>,
    /// Dollars that spenders could take now; `None` if the reply does not say.
    pub(super) at_risk: Option<Usd>,
    /// True if the whole chain was searched.
    pub(super) complete: bool,
    /// Number of approvals of unknown contracts that could not be read.
    strangers: u64,
}

/// Custody on one chain.
#[derive(Debug, Default)]
pub(super) struct ChainCustody {
    pub(super) name: SafeText,
    /// `None` inside if the account runs no contract's code.
    pub(super) delegation: ReadValue<Option<ChainDelegation>>,
    pub(super) allowances: ReadValue<AllowanceList>,
}

/// Everything that was read.
#[derive(Debug, Default)]
pub(super) struct CustodyReadings {
    pub(super) account: ReadValue<CustodyAccount>,
    pub(super) keys: ReadValue<KeyList>,
    pub(super) chains: Vec<ChainCustody>,
}

impl CustodyReadings {
    /// Starts over if the chains of the network have changed.
    pub(super) fn follow<'a>(&mut self, names: impl Iterator<Item = &'a SafeText> + Clone) {
        if !self.chains.iter().map(|chain| &chain.name).eq(names.clone()) {
            self.chains = names.map(|name| ChainCustody { name: name.clone(), ..ChainCustody::default() }).collect();
        }
    }

    /// Time of the oldest part, in milliseconds of the machine's clock.
    pub(super) fn oldest(&self) -> Option<u64> {
        let chains = self.chains.iter().flat_map(|chain| [chain.delegation.read_at(), chain.allowances.read_at()]);
        [self.account.read_at(), self.keys.read_at()].into_iter().chain(chains).flatten().min()
    }

    /// Failures of the newest reading, as sentences. Parts with the same reason are named together.
    pub(super) fn faults(&self) -> Vec<String> {
        let own = [("account".to_owned(), &self.account.fault), ("session keys".to_owned(), &self.keys.fault)];
        let chains = self.chains.iter().flat_map(|chain| {
            [
                (format!("{} delegations", chain.name), &chain.delegation.fault),
                (format!("{} allowances", chain.name), &chain.allowances.fault),
            ]
        });
        let all = own.into_iter().chain(chains).filter_map(|(name, why)| Some((why.as_ref()?, name)));
        let mut joined: Vec<(&SafeText, String)> = Vec::new();
        for (why, name) in all {
            match joined.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push_str(&format!(", {name}")),
                None => joined.push((why, name)),
            }
        }
        joined.into_iter().map(|(why, names)| format!("! {names}: {why}")).collect()
    }

    /// Parts that the replies say are missing, as sentences.
    pub(super) fn gaps(&self) -> Vec<String> {
        let keys = self.keys.value.iter().flat_map(|keys| &keys.unreadable);
        let mut all: Vec<String> = keys.map(|(ledger, why)| format!("! session keys of {ledger}: {why}")).collect();
        for chain in &self.chains {
            let Some(found) = &chain.allowances.value else { continue };
            if !found.complete {
                all.push(format!("! {}: not all allowances could be searched", chain.name));
            }
            if found.strangers > 0 {
                let words = counted(found.strangers, "approval", "approvals");
                all.push(format!("! {}: {words} of unknown contracts could not be read", chain.name));
            }
        }
        all
    }

    /// Records that a read brought nothing.
    pub(super) fn fail(&mut self, purpose: &Purpose, why: &str) {
        match purpose {
            Purpose::Account => self.account.fail(why),
            Purpose::Keys => self.keys.fail(why),
            Purpose::Delegation { chain, .. } => {
                if let Some(chain) = self.chains.get_mut(*chain) {
                    chain.delegation.fail(why);
                }
            }
            Purpose::Allowances { chain, .. } => {
                if let Some(chain) = self.chains.get_mut(*chain) {
                    chain.allowances.fail(why);
                }
            }
        }
    }

    /// Stores a reply.
    pub(super) fn receive(&mut self, purpose: &Purpose, response: &ToolResponse, now: u64) {
        let Some(data) = response.data.as_ref().filter(|_| response.error.is_none()) else {
            self.fail(purpose, failure(response));
            return;
        };
        let entries = |name: &str| data.get(name).and_then(Value::as_array).into_iter().flatten().take(MOST_ROWS);
        match purpose {
            Purpose::Account => match CustodyAccount::from_data(data) {
                Some(account) => self.account.set(account, now),
                None => self.account.fail("the reply names no account"),
            },
            Purpose::Keys => {
                let mut keys: Vec<SessionKey> = entries("keys").filter_map(SessionKey::from_entry).collect();
                // Stable, so that both groups keep the order of the reply.
                keys.sort_by_key(|key| !key.can_act());
                let word = |entry: &Value, name: &str| crate::widgets::figure::text(entry, name).unwrap_or_default();
                let unreadable = entries("unreadable").map(|one| (word(one, "ledger"), word(one, "reason"))).collect();
                self.keys.set(KeyList { keys, unreadable }, now);
            }
            Purpose::Delegation { chain, name } => {
                if let Some(chain) = self.chains.get_mut(*chain) {
                    chain.delegation.set(ChainDelegation::from_data(name, data), now);
                }
            }
            Purpose::Allowances { chain, name } => {
                let Some(chain) = self.chains.get_mut(*chain) else { return };
                let rows = entries("allowances").filter_map(|entry| AllowanceAtRisk::from_entry(name, entry)).collect();
                let at_risk = crate::widgets::figure::text(data, "value_at_risk_usd");
                let list = AllowanceList {
                    rows,
                    at_risk: at_risk.and_then(|value| value.as_str().parse().ok()),
                    complete: data.get("complete").and_then(Value::as_bool).unwrap_or_default(),
                    strangers: data.get("unread_of_strangers").and_then(Value::as_u64).unwrap_or_default(),
                };
                chain.allowances.set(list, now);
            }
        }
    }
}
