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
use bardo_base::text::{Lookalike, SafeText, addresses_look_alike, lookalike, reads_like_address, width};
use bardo_safety::custody::{Keystore, ListedKey};
use bardo_session::handle::NamedAddress;
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
/// Maximum length of a label, in columns of a terminal.
const MOST_CHARS: usize = 40;
/// Maximum number of labels.
const MOST_LABELS: usize = 1_000;

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
        "{address} has the same first and last digits as {other}, which is {name}: possible address poisoning. Compare \
         all 40 digits; no label was added"
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
    /// The text is not an address.
    #[error("'{0}' is not an address: write 0x and 40 hexadecimal digits")]
    NoAddress(SafeText),
    /// The checksum of the address is wrong.
    #[error("the checksum of {0} is wrong: a character was changed. Copy the address again")]
    Checksum(SafeText),
    /// The zero address has no owner.
    #[error("no label was added: the zero address has no owner, and what is sent to it is lost")]
    ZeroAddress,
    /// The data directory cannot be created.
    #[error("the data directory cannot be created: {0}")]
    Folder(String),
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
    names: BTreeMap<Address, (SafeText, OperatorName)>,
}

/// Kind of a name. Those of contracts stand in their network's address book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperatorName {
    OwnAccount,
    Label,
    Ens,
    /// A name of the Ethereum Name Service that can be taken for the operator's name of another address.
    EnsLikeAnother,
}

impl OperatorName {
    /// True for the operator's own words.
    const fn is_operators(self) -> bool {
        match self {
            Self::OwnAccount | Self::Label => true,
            Self::Ens | Self::EnsLikeAnother => false,
        }
    }
}

/// Words for a name, with its origin.
fn words_of(name: &SafeText, kind: OperatorName) -> SafeText {
    match kind {
        OperatorName::OwnAccount => SafeText::clean(&format!("own account {name}"), 60),
        OperatorName::Label => SafeText::clean(&format!("label “{name}”"), 60),
        OperatorName::Ens => SafeText::clean(&format!("ENS “{name}”"), 80),
        OperatorName::EnsLikeAnother => {
            SafeText::clean(&format!("ENS “{name}”, like the name of ANOTHER address"), 120)
        }
    }
}

impl AddressNames {
    /// Collects the names of keys and labels. Contracts are named by the network's address book where they are shown.
    pub fn of(own: &[(SafeText, Address)], labels: &[Label]) -> Self {
        let mut names: BTreeMap<Address, (SafeText, OperatorName)> =
            labels.iter().map(|label| (label.address, (label.name.clone(), OperatorName::Label))).collect();
        names.extend(own.iter().map(|(name, address)| (*address, (name.clone(), OperatorName::OwnAccount))));
        Self { names }
    }

    /// Name of an address as it is shown: a contract's from the address book, or an own account's or a label's, which
    /// say that they are the operator's words.
    pub fn describe(&self, network: Option<&Network>, address: Address) -> Option<SafeText> {
        if let Some(contract) = network.and_then(|network| network.book.name_of(address)) {
            return Some(SafeText::clean(&contract, 60));
        }
        self.names.get(&address).map(|(name, kind)| words_of(name, *kind))
    }

    /// Adds the names of the Ethereum Name Service, of addresses without a name of the operator's.
    pub fn with_ens(mut self, names: &BTreeMap<Address, SafeText>) -> Self {
        let kinds: Vec<OperatorName> = names.iter().map(|(address, name)| self.kind_of_ens(*address, name)).collect();
        for ((address, name), kind) in names.iter().zip(kinds) {
            self.names.entry(*address).or_insert_with(|| (name.clone(), kind));
        }
        self
    }

    /// A name of the Ethereum Name Service as it is shown: it says whose words it is, and whether it is like the operator's
    /// name of another address.
    pub fn describe_ens(&self, address: Address, name: &SafeText) -> SafeText {
        words_of(name, self.kind_of_ens(address, name))
    }

    fn kind_of_ens(&self, address: Address, name: &SafeText) -> OperatorName {
        let others = || {
            let own = self.names.iter().filter(|(at, (_, kind))| **at != address && kind.is_operators());
            own.map(|(_, (other, _))| other.as_str())
        };
        let like = |text: &str| {
            let text = SafeText::clean(text, MOST_CHARS);
            others().any(|other| other == text.as_str())
                || lookalike(&text, others()).is_some_and(|what| what.of.is_some())
        };
        // `alice.eth` is as near to the label `Alice` as `alice` is.
        let first = name.as_str().split('.').next().unwrap_or_default();
        if like(name.as_str()) || like(first) { OperatorName::EnsLikeAnother } else { OperatorName::Ens }
    }

    /// Addresses with their names, as they are shown.
    pub fn all(&self) -> Vec<NamedAddress> {
        let named = |address: &Address| Some(NamedAddress { address: *address, name: self.describe(None, *address)? });
        self.names.keys().filter_map(named).collect()
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

    /// Adds a label, or renames it: then it stays watched or not, unless `watched` says otherwise. `own` are the names and
    /// addresses of the keys, and `networks` the connected ones.
    ///
    /// # Errors
    /// A [`LabelError`] that says what the name or the address could be mistaken for.
    pub async fn add(
        &self,
        (address, name): (Address, &str),
        watched: Option<bool>,
        own: &[(SafeText, Address)],
        networks: &[Network],
        now_millis: u64,
    ) -> Result<Label, LabelError> {
        let store = self.open()?;
        let name_of = SafeText::clean(name, MOST_CHARS);
        let mut new = Label { address, name: name_of, watched: watched.unwrap_or(false), added_at: now_millis };
        let (own, networks) = (own.to_vec(), networks.to_vec());
        let typed = name.to_owned();
        let work = move |transaction: &rusqlite::Transaction<'_>| {
            // In the transaction, so that two processes cannot add names that imitate each other.
            let labels = read(transaction)?;
            let known = labels.iter().find(|label| label.address == new.address);
            if labels.len() >= MOST_LABELS && known.is_none() {
                return Err(LabelError::TooMany);
            }
            if let Some(known) = known {
                new.watched = watched.unwrap_or(known.watched);
                new.added_at = known.added_at;
            }
            check(&typed, &new, &all_known(&own, &networks, &labels))?;
            let added_at = i64::try_from(new.added_at).unwrap_or(i64::MAX);
            transaction
                .execute(
                    "INSERT INTO labels_label (address, name, watched, added_at) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (address) DO UPDATE SET name = ?2, watched = ?3, added_at = ?4",
                    params![new.address.to_string(), new.name.as_str(), new.watched, added_at],
                )
                .map_err(StoreError::from)?;
            Ok(new)
        };
        store.write(work).await
    }

    /// Removes a label by its name or its address. Returns it; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails.
    pub async fn remove(&self, which: &str) -> Result<Option<Label>, StoreError> {
        if !self.path.is_file() {
            return Ok(None);
        }
        let which = which.to_owned();
        // In one transaction: a rename in between must not delete another name.
        let work = move |transaction: &rusqlite::Transaction<'_>| {
            let address = which.parse::<Address>().ok();
            let named = |label: &Label| label.name.as_str() == which || Some(label.address) == address;
            let Some(label) = read(transaction)?.into_iter().find(named) else { return Ok(None) };
            transaction.execute("DELETE FROM labels_label WHERE address = ?1", [label.address.to_string()])?;
            Ok::<_, StoreError>(Some(label))
        };
        self.open()?.write(work).await
    }

    /// Reason why a new key's name or address can be mistaken for a labelled one; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the labels cannot be read.
    pub fn confusable_with_key(&self, name: &str, address: Address) -> Result<Option<String>, StoreError> {
        let labels = self.list()?;
        if let Some(label) = labels.iter().find(|label| addresses_look_alike(label.address, address)) {
            let words = format!(
                "its address {address} has the same first and last digits as {}, which has the label '{}': compare all \
                 40 digits before you send anything to it",
                label.address, label.name
            );
            return Ok(Some(words));
        }
        let others = || labels.iter().filter(|label| label.address != address);
        let shown = SafeText::clean(name, MOST_CHARS);
        let same = others().any(|label| label.name == shown).then(|| format!("'{shown}' is also the name of a label"));
        let alike =
            lookalike(&shown, others().map(|label| label.name.as_str())).map(|what| format!("'{shown}' {what}"));
        Ok(same
            .or(alike)
            .map(|words| format!("{words}: remove or rename that label, so that neither is taken for the other")))
    }

    fn open(&self) -> Result<Store, StoreError> {
        Store::open(StoreConfig::at(&self.path), &[MIGRATIONS])
    }
}

impl Label {
    /// The label as a line: the whole address, the name, and whether it is watched.
    pub fn describe(&self) -> String {
        let watched = if self.watched { " (watch-only: its balances are on Portfolio)" } else { "" };
        format!("{}  {}{watched}", self.address, self.name)
    }
}

/// Reads an address as people write it; one with a wrong checksum has a changed character.
///
/// # Errors
/// [`LabelError::NoAddress`], [`LabelError::Checksum`] or [`LabelError::ZeroAddress`].
pub fn parse_address(text: &str) -> Result<Address, LabelError> {
    let wrong = || LabelError::NoAddress(SafeText::clean(text, 80));
    let address: Address = text.parse().map_err(|_| wrong())?;
    let digits = text.strip_prefix("0x").ok_or_else(wrong)?;
    let mixed = digits.contains(|c: char| c.is_ascii_lowercase()) && digits.contains(|c: char| c.is_ascii_uppercase());
    if mixed && address.to_checksum(None) != text {
        return Err(LabelError::Checksum(SafeText::clean(text, 80)));
    }
    if address.is_zero() {
        return Err(LabelError::ZeroAddress);
    }
    Ok(address)
}

/// Adds or renames a label in a data directory, by the address and the name as they were typed. `watched` is `None` to
/// leave it as it is.
///
/// # Errors
/// A [`LabelError`] that says what is wrong with the address, or what the name or the address could be mistaken for.
pub async fn add(
    data: &DataFolder,
    (address, name): (&str, &str),
    watched: Option<bool>,
    networks: &[Network],
    now_millis: u64,
) -> Result<Label, LabelError> {
    let address = parse_address(address)?;
    data.create().map_err(|error| LabelError::Folder(error.to_string()))?;
    Labels::of(data).add((address, name), watched, &own_accounts(data)?, networks, now_millis).await
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
fn all_known(own: &[(SafeText, Address)], networks: &[Network], labels: &[Label]) -> Vec<KnownName> {
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
    if reads_like_address(typed) || typed.parse::<Address>().is_ok() {
        return Err(LabelError::LikeAddress(name.clone()));
    }
    let printable = name.as_str().trim() == name.as_str() && !name.is_empty();
    if name.altered()
        || !printable
        || width(typed) > MOST_CHARS
        || name.as_str() != typed
        || typed.chars().any(|c| "\"“”".contains(c))
    {
        return Err(LabelError::Unusable(name.clone()));
    }
    for one in known {
        let same = one.address == new.address;
        if same && one.origin != NameOrigin::Label {
            return Err(LabelError::Known { address: one.address, name: one.name.clone() });
        }
        if !same && addresses_look_alike(one.address, new.address) {
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

#[cfg(test)]
mod tests;
