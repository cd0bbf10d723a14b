//! Names of addresses: own accounts, contracts of the address book, and the operator's labels, which stand beside the
//! whole address and never replace it. A label cannot imitate another name, and a labelled address cannot look like
//! another known one.
//!
//! Labels of all networks are in one file of the data directory, `labels.db`. Nothing is sent to an address because it
//! has a label.

use std::collections::BTreeMap;
use std::path::PathBuf;

use alloy::primitives::Address;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::data::DataFolder;
use bardo_base::text::{Lookalike, SafeText, lookalike};
use bardo_safety::custody::{Keystore, ListedKey};
use bardo_store::{Migrations, Store, StoreConfig, StoreError};
use golem_chain::network::{Network, named};

/// Migrations of the labels' database.
pub const MIGRATIONS: Migrations = Migrations {
    room: "labels",
    steps: &["
    CREATE TABLE labels_label (
        address TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        watched INTEGER NOT NULL CHECK (watched IN (0, 1)),
        added_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
"],
};

/// Name of the file in the data directory.
const DATABASE: &str = "labels.db";
/// Maximum length of a label, in characters.
const MOST_CHARS: usize = 40;
/// Maximum number of labels.
const MOST_LABELS: usize = 1_000;
/// Digits at either end that people compare, of the forty of an address.
const COMPARED: usize = 4;

/// Label of the operator's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Address that it names.
    pub address: Address,
    /// Name that the operator gave.
    pub name: SafeText,
    /// True for an account whose balances are shown, and for which nothing is ever signed.
    pub watched: bool,
    /// Time of its addition, in milliseconds since the Unix epoch.
    pub added_at: u64,
}

/// Origin of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NameOrigin {
    /// A key in the data directory.
    OwnAccount,
    /// A contract or token of an address book.
    Contract,
    /// A label of the operator's.
    Label,
}

/// Name of an address with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownName {
    /// Address that is named.
    pub address: Address,
    /// Name of the address.
    pub name: SafeText,
    /// Origin of the name.
    pub origin: NameOrigin,
}

/// Error of adding a label. Nothing was added.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// The name is empty, too long, or contains characters that cannot be shown.
    #[error("'{0}' cannot be a label: use 1 to {MOST_CHARS} letters, digits, spaces and signs")]
    Unusable(SafeText),
    /// The name could be read as an address.
    #[error("'{0}' looks like an address: a label must not stand for another address")]
    LikeAddress(SafeText),
    /// The name imitates another.
    #[error("'{name}' {what}; choose a name that cannot be confused with it")]
    Imitates {
        /// The refused name.
        name: SafeText,
        /// The imitated name and the kind of imitation.
        what: Box<Lookalike>,
    },
    /// The name belongs to another address.
    #[error("'{name}' is the name of {address} already; choose another, or remove that label first")]
    Taken {
        /// The refused name.
        name: SafeText,
        /// Address that has it.
        address: Address,
    },
    /// The address has the same first and last digits as another known one.
    #[error(
        "{address} has the same first and last digits as {other}, which is {name}: somebody may have made it to be \
         mistaken for it. Compare all digits; it gets no label"
    )]
    Resembles {
        /// The refused address.
        address: Address,
        /// The known address.
        other: Address,
        /// Name of the known address.
        name: SafeText,
    },
    /// The address is that of a key or of a contract in an address book, which has its name already.
    #[error("{address} is {name} already, and keeps that name")]
    Known {
        /// Address that was to be named.
        address: Address,
        /// Name that it has.
        name: SafeText,
    },
    /// There are too many labels.
    #[error("there are {MOST_LABELS} labels already: remove one first")]
    TooMany,
    /// The keys cannot be listed.
    #[error("the names of the keys cannot be read: {0}")]
    Keys(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The operator's labels. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Labels {
    path: PathBuf,
}

/// Names of all known addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressNames {
    names: BTreeMap<Address, (SafeText, NameOrigin)>,
}

impl AddressNames {
    /// Collects the names of keys and labels. Contracts are named by the network's address book where they are shown.
    pub fn of(own: &[(SafeText, Address)], labels: &[Label]) -> Self {
        let mut names: BTreeMap<Address, (SafeText, NameOrigin)> =
            labels.iter().map(|label| (label.address, (label.name.clone(), NameOrigin::Label))).collect();
        names.extend(own.iter().map(|(name, address)| (*address, (name.clone(), NameOrigin::OwnAccount))));
        Self { names }
    }

    /// Name of an address as it is shown: a contract's from the address book, or an own account's or a label's, which
    /// say that they are the operator's words.
    pub fn describe(&self, network: Option<&Network>, address: Address) -> Option<SafeText> {
        if let Some(contract) = network.and_then(|network| network.book.name_of(address)) {
            return Some(SafeText::clean(&contract, 60));
        }
        self.names.get(&address).map(|(name, origin)| match origin {
            NameOrigin::OwnAccount => SafeText::clean(&format!("own account {name}"), 60),
            NameOrigin::Contract | NameOrigin::Label => SafeText::clean(&format!("label “{name}”"), 60),
        })
    }
}

impl Labels {
    /// Labels of a data directory. Nothing is created before a label is added.
    pub fn of(data: &DataFolder) -> Self {
        Self { path: data.root().join(DATABASE) }
    }

    /// All labels, in the order of their names; empty if none was ever added.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or a row is invalid.
    pub fn list(&self) -> Result<Vec<Label>, StoreError> {
        if !self.path.is_file() {
            return Ok(Vec::new());
        }
        self.open()?.read(read)
    }

    /// Adds a label. `own` are the names and addresses of the keys, and `networks` the connected ones.
    ///
    /// # Errors
    /// A [`LabelError`] that says what the name or the address could be mistaken for.
    pub async fn add(
        &self,
        (address, name): (Address, &str),
        watched: bool,
        own: &[(SafeText, Address)],
        networks: &[Network],
        now_millis: u64,
    ) -> Result<Label, LabelError> {
        let store = self.open()?;
        let label = Label { address, name: SafeText::clean(name, MOST_CHARS), watched, added_at: now_millis };
        let (new, own, networks) = (label.clone(), own.to_vec(), networks.to_vec());
        let typed = name.to_owned();
        let work = move |transaction: &rusqlite::Transaction<'_>| {
            // In the transaction, so that two processes cannot add names that imitate each other.
            let labels = read(transaction)?;
            if labels.len() >= MOST_LABELS {
                return Err(LabelError::TooMany);
            }
            check(&typed, &new, &known(&own, &networks, &labels))?;
            let added_at = i64::try_from(new.added_at).unwrap_or(i64::MAX);
            transaction
                .execute(
                    "INSERT INTO labels_label (address, name, watched, added_at) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (address) DO UPDATE SET name = ?2, watched = ?3, added_at = ?4",
                    params![new.address.to_string(), new.name.as_str(), new.watched, added_at],
                )
                .map_err(StoreError::from)?;
            Ok(())
        };
        store.write(work).await?;
        Ok(label)
    }

    /// Removes a label by its name or its address. Returns it; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub async fn remove(&self, which: &str) -> Result<Option<Label>, StoreError> {
        let found = self.list()?.into_iter().find(|label| {
            label.name.as_str() == which || which.parse::<Address>().is_ok_and(|address| address == label.address)
        });
        let Some(label) = found else { return Ok(None) };
        let address = label.address.to_string();
        let work = move |transaction: &rusqlite::Transaction<'_>| {
            Ok::<_, StoreError>(transaction.execute("DELETE FROM labels_label WHERE address = ?1", [address])?)
        };
        self.open()?.write(work).await?;
        Ok(Some(label))
    }

    fn open(&self) -> Result<Store, StoreError> {
        Store::open(StoreConfig::at(&self.path), &[MIGRATIONS])
    }
}

/// Names of the keys and labels in a data directory. What cannot be read is left out: a name only stands beside an
/// address.
pub fn names(data: &DataFolder) -> AddressNames {
    let own = own_accounts(data).unwrap_or_else(|error| {
        tracing::warn!(%error, "addresses are shown without the names of the keys");
        Vec::new()
    });
    let labels = Labels::of(data).list().unwrap_or_else(|error| {
        tracing::warn!(%error, "addresses are shown without labels");
        Vec::new()
    });
    AddressNames::of(&own, &labels)
}

/// Names and addresses of the keys in a data directory.
///
/// # Errors
/// [`LabelError::Keys`] if the folder cannot be read. A broken key file is left out.
pub fn own_accounts(data: &DataFolder) -> Result<Vec<(SafeText, Address)>, LabelError> {
    let listed = Keystore::at(data.keys()).list().map_err(|error| LabelError::Keys(error.to_string()))?;
    let entry = |listed: ListedKey| {
        let entry = listed.entry.ok()?;
        Some((SafeText::clean(&entry.name.to_string(), 60), entry.address))
    };
    Ok(listed.into_iter().filter_map(entry).collect())
}

fn read(connection: &Connection) -> Result<Vec<Label>, StoreError> {
    let damaged = |what: &str| StoreError::Corrupt(format!("{what} among the labels"));
    let mut asked =
        connection.prepare_cached("SELECT address, name, watched, added_at FROM labels_label ORDER BY name")?;
    let mut rows = asked.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let name = SafeText::clean(&row.get::<_, String>(1)?, MOST_CHARS);
        all.push(Label {
            address: row.get::<_, String>(0)?.parse().map_err(|_| damaged("an invalid address"))?,
            name,
            watched: row.get(2)?,
            added_at: u64::try_from(row.get::<_, i64>(3)?).map_err(|_| damaged("an invalid time"))?,
        });
    }
    Ok(all)
}

/// Every name that a new label must not imitate: of keys, labels, and the contracts and tokens of all address books.
fn known(own: &[(SafeText, Address)], networks: &[Network], labels: &[Label]) -> Vec<KnownName> {
    let mut all: Vec<KnownName> = own
        .iter()
        .map(|(name, address)| KnownName { address: *address, name: name.clone(), origin: NameOrigin::OwnAccount })
        .collect();
    all.extend(labels.iter().map(|label| KnownName {
        address: label.address,
        name: label.name.clone(),
        origin: NameOrigin::Label,
    }));
    for network in networks.iter().chain(named()) {
        let contracts = network.book.contracts().map(|(_, address)| address);
        let others = network.book.others().map(|(_, address)| address);
        let tokens = network.book.tokens().iter().map(|token| token.address);
        for address in contracts.chain(others).chain(tokens) {
            if let Some(name) = network.book.name_of(address) {
                all.push(KnownName { address, name: SafeText::clean(&name, 60), origin: NameOrigin::Contract });
            }
        }
    }
    all
}

/// Checks a new label against everything that is known.
fn check(typed: &str, new: &Label, known: &[KnownName]) -> Result<(), LabelError> {
    let name = &new.name;
    if typed.to_ascii_lowercase().starts_with("0x") || typed.parse::<Address>().is_ok() {
        return Err(LabelError::LikeAddress(name.clone()));
    }
    let printable = name.as_str().trim() == name.as_str() && !name.is_empty();
    if name.altered() || !printable || name.as_str() != typed || typed.chars().any(|c| "\"“”".contains(c)) {
        return Err(LabelError::Unusable(name.clone()));
    }
    for one in known {
        let same = one.address == new.address;
        if same && one.origin != NameOrigin::Label {
            return Err(LabelError::Known { address: one.address, name: one.name.clone() });
        }
        if !same && resembles(one.address, new.address) {
            let name = one.name.clone();
            return Err(LabelError::Resembles { address: new.address, other: one.address, name });
        }
        if !same && one.name == *name {
            return Err(LabelError::Taken { name: name.clone(), address: one.address });
        }
    }
    let others = known.iter().filter(|one| one.address != new.address).map(|one| one.name.as_str());
    match lookalike(name, others) {
        Some(what) => Err(LabelError::Imitates { name: name.clone(), what: Box::new(what) }),
        None => Ok(()),
    }
}

/// True if two addresses show the same digits where people look: at the beginning and at the end.
pub fn resembles(one: Address, other: Address) -> bool {
    let (one, other) = (format!("{one:x}"), format!("{other:x}"));
    let digits = |text: &str| {
        let text = text.trim_start_matches("0x").to_owned();
        let end = text.len().saturating_sub(COMPARED);
        (text.get(..COMPARED).map(str::to_owned), text.get(end..).map(str::to_owned))
    };
    one != other && digits(&one) == digits(&other)
}

#[cfg(test)]
mod tests;
