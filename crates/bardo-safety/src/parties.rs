//! Authenticated records of the parties to an account's earlier actions: recipients, spenders, and tokens on which the
//! account has set an allowance. Actions with known parties need less approval. A record therefore counts only if a
//! holder of the account's key made it: write access to the database does not suffice.

use std::collections::BTreeSet;

use alloy::primitives::Address;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::queue_key::QueueKey;
use bardo_base::id::CallId;
use bardo_store::StoreError;

/// Domain of the tags in the real ledger.
const IN_EARNEST: &str = "bardo party 1";
/// Domain of the tags in a paper ledger: a recipient on paper was not really paid.
const ON_PAPER: &str = "bardo party on paper 1";

/// Role of an address in an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartyRole {
    /// Recipient of something.
    Receiver,
    /// Spender that was allowed to take something.
    Spender,
    /// Token on which an allowance was set: its own answers about allowances are trusted.
    Token,
}

impl PartyRole {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Receiver => "receiver",
            Self::Spender => "spender",
            Self::Token => "token",
        }
    }
}

/// Party to an action of an account.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActionParty {
    pub role: PartyRole,
    pub chain_id: u64,
    pub address: Address,
    pub account: Address,
}

/// Creates and verifies the records of one ledger, with the key of the signing account. Without a key nothing is
/// recorded and no party is known.
#[derive(Debug, Clone)]
pub(super) struct PartyRecords {
    key: Option<QueueKey>,
    domain: &'static str,
}

impl PartyRecords {
    pub(super) fn in_earnest(key: Option<QueueKey>) -> Self {
        Self { key, domain: IN_EARNEST }
    }

    pub(super) fn on_paper(key: Option<QueueKey>) -> Self {
        Self { key, domain: ON_PAPER }
    }

    fn key_of(&self, account: Address) -> Option<&QueueKey> {
        self.key.as_ref().filter(|key| key.account() == account)
    }

    /// Records a party to a call. An existing row without a valid tag is replaced.
    pub(super) fn note(
        &self,
        transaction: &Transaction<'_>,
        party: ActionParty,
        call_id: CallId,
        now: u64,
    ) -> Result<(), StoreError> {
        let Some(key) = self.key_of(party.account) else { return Ok(()) };
        if self.knows(transaction, party)? {
            return Ok(());
        }
        let (call_id, now) = (call_id.to_string(), number(now)?);
        let tag = key.tag(self.domain, &parts(&party, &call_id, now).each_ref().map(Vec::as_slice));
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO safety_party (role, chain_id, address, account, call_id, first_at, tag)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                party.role.as_str(),
                number(party.chain_id)?,
                party.address.to_string(),
                party.account.to_string(),
                call_id,
                now,
                tag.as_slice(),
            ])?;
        Ok(())
    }

    /// Returns true if a record with a valid tag exists for `party`.
    pub(super) fn knows(&self, connection: &Connection, party: ActionParty) -> Result<bool, StoreError> {
        let Some(key) = self.key_of(party.account) else { return Ok(false) };
        let row: Option<(String, i64, Vec<u8>)> = connection
            .prepare_cached(
                "SELECT call_id, first_at, tag FROM safety_party
                 WHERE role = ?1 AND chain_id = ?2 AND address = ?3 AND account = ?4",
            )?
            .query_row(
                params![
                    party.role.as_str(),
                    number(party.chain_id)?,
                    party.address.to_string(),
                    party.account.to_string()
                ],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        Ok(row.is_some_and(|(call_id, at, tag)| self.is_genuine(key, &party, &call_id, at, &tag)))
    }

    /// Returns recipients and spenders of the account's actions on any chain, by records with a valid tag.
    pub(super) fn known(&self, connection: &Connection, account: Address) -> Result<BTreeSet<Address>, StoreError> {
        let Some(key) = self.key_of(account) else { return Ok(BTreeSet::new()) };
        let mut known = BTreeSet::new();
        for role in [PartyRole::Receiver, PartyRole::Spender] {
            let mut asked = connection.prepare_cached(
                "SELECT chain_id, address, call_id, first_at, tag FROM safety_party WHERE role = ?1 AND account = ?2",
            )?;
            let mut rows = asked.query(params![role.as_str(), account.to_string()])?;
            while let Some(row) = rows.next()? {
                let (chain_id, address): (i64, String) = (row.get(0)?, row.get(1)?);
                let (call_id, at, tag): (String, i64, Vec<u8>) = (row.get(2)?, row.get(3)?, row.get(4)?);
                let (Ok(chain_id), Ok(address)) = (u64::try_from(chain_id), address.parse()) else { continue };
                let party = ActionParty { role, chain_id, address, account };
                if self.is_genuine(key, &party, &call_id, at, &tag) {
                    known.insert(address);
                }
            }
        }
        Ok(known)
    }

    fn is_genuine(&self, key: &QueueKey, party: &ActionParty, call_id: &str, at: i64, tag: &[u8]) -> bool {
        key.verifies(self.domain, &parts(party, call_id, at).each_ref().map(Vec::as_slice), tag)
    }
}

/// Returns every recipient and spender in the database, even without a valid tag: these are the addresses that others
/// may imitate. A row that cannot be parsed is skipped.
pub(super) fn mentioned(connection: &Connection) -> Result<BTreeSet<Address>, StoreError> {
    // The first two tables are older than the tags.
    let mut asked = connection.prepare_cached(
        "SELECT address FROM safety_recipient UNION SELECT address FROM safety_spender
         UNION SELECT address FROM safety_party WHERE role <> 'token'",
    )?;
    let mut mentioned = BTreeSet::new();
    for text in asked.query_map([], |row| row.get::<_, String>(0))? {
        match text?.parse() {
            Ok(address) => {
                mentioned.insert(address);
            }
            Err(_) => tracing::warn!("the ledger has an unreadable address of a paid recipient"),
        }
    }
    Ok(mentioned)
}

/// Returns the content that a tag covers.
fn parts(party: &ActionParty, call_id: &str, at: i64) -> [Vec<u8>; 6] {
    [
        party.role.as_str().as_bytes().to_vec(),
        party.chain_id.to_be_bytes().to_vec(),
        party.address.to_vec(),
        party.account.to_vec(),
        call_id.as_bytes().to_vec(),
        at.to_be_bytes().to_vec(),
    ]
}

fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::Query(format!("{value} is too large for the database")))
}

#[cfg(test)]
mod tests {
    use alloy::primitives::address;
    use bardo_store::{Store, StoreConfig};

    use super::*;
    use crate::permit;

    const OWN: Address = Address::repeat_byte(1);
    const PAID: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
    const LOOKALIKE: Address = address!("70990000000000000000000000000000000079C8");

    fn store(folder: &tempfile::TempDir) -> Store {
        Store::open(StoreConfig::at(folder.path().join("ledger.db")), &[permit::MIGRATIONS]).unwrap()
    }

    fn key(secret: u8, account: Address) -> Option<QueueKey> {
        Some(QueueKey::derive(&[secret; 32], "real-1", account))
    }

    fn receiver(address: Address) -> ActionParty {
        ActionParty { role: PartyRole::Receiver, chain_id: 1, address, account: OWN }
    }

    async fn note(store: &Store, records: &PartyRecords, party: ActionParty) {
        let records = records.clone();
        store.write(move |transaction| records.note(transaction, party, CallId::new(7), 9)).await.unwrap();
    }

    async fn write(store: &Store, sql: &str) {
        let sql = sql.replace("LOOKALIKE", &LOOKALIKE.to_string()).replace("PAID", &PAID.to_string());
        let written: Result<usize, StoreError> =
            store.write(move |transaction| Ok(transaction.execute(&sql, [])?)).await;
        assert!(written.unwrap() > 0);
    }

    #[tokio::test]
    async fn only_the_accounts_key_makes_somebody_known_and_only_as_that() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        let records = PartyRecords::in_earnest(key(7, OWN));
        let knows = |records: &PartyRecords, party| store.read(|connection| records.knows(connection, party)).unwrap();
        note(&store, &records, receiver(PAID)).await;
        assert!(knows(&records, receiver(PAID)));
        for other in [
            receiver(LOOKALIKE),
            ActionParty { role: PartyRole::Spender, ..receiver(PAID) },
            ActionParty { role: PartyRole::Token, ..receiver(PAID) },
            ActionParty { chain_id: 2, ..receiver(PAID) },
            ActionParty { account: Address::repeat_byte(2), ..receiver(PAID) },
        ] {
            assert!(!knows(&records, other), "{other:?}");
        }
        // The same row does not count for another key, in paper mode, or without a key either.
        for other in [
            PartyRecords::in_earnest(key(8, OWN)),
            PartyRecords::in_earnest(key(7, Address::repeat_byte(2))),
            PartyRecords::in_earnest(None),
            PartyRecords::on_paper(key(7, OWN)),
        ] {
            assert!(!knows(&other, receiver(PAID)), "{other:?}");
        }
        assert_eq!(store.read(|connection| records.known(connection, OWN)).unwrap(), [PAID].into());
    }

    #[tokio::test]
    async fn without_a_key_nothing_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        note(&store, &PartyRecords::in_earnest(None), receiver(PAID)).await;
        note(&store, &PartyRecords::in_earnest(key(7, Address::repeat_byte(2))), receiver(PAID)).await;
        assert!(store.read(mentioned).unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_row_that_was_put_in_or_changed_makes_nobody_known_and_is_replaced() {
        let records = PartyRecords::in_earnest(key(7, OWN));
        // A lookalike address in three forged rows: copied, changed, and with a tag of no key.
        for forged in [
            "INSERT INTO safety_party SELECT role, chain_id, 'LOOKALIKE', account,
                 call_id, first_at, tag FROM safety_party",
            "UPDATE safety_party SET address = 'LOOKALIKE'",
            "INSERT INTO safety_party SELECT role, chain_id, 'LOOKALIKE', account,
                 call_id, first_at, zeroblob(32) FROM safety_party",
            "INSERT INTO safety_recipient VALUES (1, 'LOOKALIKE', 2)",
            "INSERT INTO safety_spender VALUES (1, 'LOOKALIKE', 2)",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let store = store(&folder);
            note(&store, &records, receiver(PAID)).await;
            write(&store, forged).await;
            let knows = || store.read(|connection| records.knows(connection, receiver(LOOKALIKE))).unwrap();
            assert!(!knows(), "{forged}");
            assert!(!store.read(|connection| records.known(connection, OWN)).unwrap().contains(&LOOKALIKE), "{forged}");
            assert!(store.read(mentioned).unwrap().contains(&LOOKALIKE), "others may imitate it: {forged}");
            note(&store, &records, receiver(LOOKALIKE)).await;
            assert!(knows(), "the genuine one counts: {forged}");
        }
        for changed in [
            "UPDATE safety_party SET first_at = first_at + 1",
            "UPDATE safety_party SET call_id = 'another'",
            "UPDATE safety_party SET tag = substr(tag, 1, 31)",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let store = store(&folder);
            note(&store, &records, receiver(PAID)).await;
            write(&store, changed).await;
            assert!(!store.read(|connection| records.knows(connection, receiver(PAID))).unwrap(), "{changed}");
        }
    }

    #[tokio::test]
    async fn a_row_that_cannot_be_read_names_nobody_and_fails_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        write(&store, "INSERT INTO safety_recipient VALUES (1, 'nobody', 2), (1, 'PAID', 2)").await;
        assert_eq!(store.read(mentioned).unwrap(), [PAID].into());
    }
}
