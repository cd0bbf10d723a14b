//! Items of a policy's lists: chains, tokens, contracts, addresses, words. Tokens and contracts are named by chain and
//! address, never by a symbol.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use alloy::primitives::{Address, FixedBytes};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::rules::PolicyValue;
use bardo_base::text::SafeText;
use golem_chain::network::{DEVNET_BASE, DEVNET_ETHEREUM, NoSpender, UnknownChain, bundled_never, named, resolve};
use golem_chain::token::TokenId;

/// Error of an invalid item in a policy's list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// A chain that is not known.
    #[error(transparent)]
    Chain(#[from] UnknownChain),
    /// No chain stands before the address.
    #[error("`{text}` does not name a chain: write {form}")]
    NoChain {
        /// Text of the item.
        text: SafeText,
        /// Expected form of the item.
        form: &'static str,
    },
    /// No selector of a function.
    #[error("`{0}` is not a selector: expected 0x and 8 hexadecimal digits")]
    Selector(SafeText),
    /// The text is not an address.
    #[error("`{0}` is not an address: expected 0x and 40 hexadecimal digits")]
    Address(SafeText),
    /// An address whose letters do not agree with its digits (EIP-55).
    #[error("`{0}` has a wrong checksum: a character was changed")]
    Checksum(SafeText),
    /// A contract that must never take tokens.
    #[error("`{address}` is {name} and may never get an allowance: {why}. Remove it from allowed_spenders")]
    NoSpender {
        /// Address of the contract.
        address: Address,
        /// Its name in the address book.
        name: &'static str,
        /// Reason that the contract must never take tokens.
        why: NoSpender,
    },
    /// No name of a tool, a protocol or a kind of action.
    #[error("`{0}` is not a plain name")]
    Word(SafeText),
}

/// Type of item that a policy list can contain.
pub(super) trait Item: Clone + Ord + fmt::Display + FromStr<Err = ItemError> {
    /// Word for the built-in set of items; `None` if the type has none.
    const KNOWN: Option<&'static str>;

    /// Returns the item that covers exactly what both cover; `None` if nothing.
    fn both(&self, other: &Self) -> Option<Self> {
        (self == other).then(|| self.clone())
    }
}

/// Allowed items: all, the built-in set, or a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedItems<T> {
    /// True to allow only the built-in set: bundled tokens, address book contracts, or the account itself.
    pub known: bool,
    /// Allowed items; `None` for no list.
    pub listed: Option<BTreeSet<T>>,
}

impl<T> AllowedItems<T> {
    /// Allows every item.
    pub const ALL: Self = Self { known: false, listed: None };
    /// Allows the built-in set.
    pub const KNOWN: Self = Self { known: true, listed: None };

    /// Returns true if every item is allowed.
    pub const fn is_all(&self) -> bool {
        !self.known && self.listed.is_none()
    }
}

impl<T: Ord> AllowedItems<T> {
    /// Allows the listed items only.
    pub fn only(items: impl IntoIterator<Item = T>) -> Self {
        Self { known: false, listed: Some(items.into_iter().collect()) }
    }

    /// Returns true if `item` is allowed; `known` says whether it is in the built-in set.
    pub fn allows(&self, item: &T, known: bool) -> bool {
        self.allows_by(known, |listed| listed.contains(item))
    }

    /// Like [`Self::allows`], with a custom lookup in the list.
    pub fn allows_by(&self, known: bool, listed: impl FnOnce(&BTreeSet<T>) -> bool) -> bool {
        (!self.known || known) && self.listed.as_ref().is_none_or(listed)
    }
}

#[expect(private_bounds, reason = "lists are made here alone")]
impl<T: Item> AllowedItems<T> {
    /// Describes the allowed items for display.
    pub fn describe(&self) -> String {
        match (self.known, &self.listed) {
            (false, None) => "all".to_owned(),
            (true, None) => T::KNOWN.unwrap_or("none").to_owned(),
            (_, Some(listed)) if listed.is_empty() => "none".to_owned(),
            (_, Some(listed)) => {
                let listed = listed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                if self.known { format!("{listed}, if {}", T::KNOWN.unwrap_or("known")) } else { listed }
            }
        }
    }
}

impl<T: Item> PolicyValue for AllowedItems<T> {
    fn stricter(&self, other: &Self) -> Self {
        let listed = match (&self.listed, &other.listed) {
            (Some(one), Some(two)) => {
                Some(one.iter().flat_map(|one| two.iter().filter_map(|two| one.both(two))).collect())
            }
            (one, two) => one.as_ref().or(two.as_ref()).cloned(),
        };
        Self { known: self.known || other.known, listed }
    }

    fn shown(&self) -> String {
        let listed = self.listed.as_ref().map(|listed| {
            let all: Vec<_> = listed.iter().map(|item| format!("\"{item}\"")).collect();
            format!("[{}]", all.join(", "))
        });
        match (self.known, listed) {
            (false, None) => "\"all\"".to_owned(),
            (true, None) => format!("\"{}\"", T::KNOWN.unwrap_or("known")),
            (false, Some(listed)) => listed,
            // Only in force between a policy and a looser one that waits for a decision.
            (true, Some(listed)) => format!("{listed} and \"{}\"", T::KNOWN.unwrap_or("known")),
        }
    }
}

impl<'de, T: Item> Deserialize<'de> for AllowedItems<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a list of strings, or \"all\" (some fields accept another word: `bardo policy explain`)"
        )]
        enum ItemsForm {
            Word(String),
            List(Vec<String>),
        }
        match ItemsForm::deserialize(deserializer)? {
            ItemsForm::Word(word) if word == "all" => Ok(Self::ALL),
            ItemsForm::Word(word) if Some(word.as_str()) == T::KNOWN => Ok(Self::KNOWN),
            ItemsForm::Word(word) => {
                let known = T::KNOWN.map(|known| format!(", \"{known}\"")).unwrap_or_default();
                let word = SafeText::clean(&word, 60);
                Err(D::Error::custom(format!("\"{word}\" is not valid: write \"all\"{known} or a list")))
            }
            ItemsForm::List(list) => {
                let items: Result<BTreeSet<T>, ItemError> = list.iter().map(|text| text.parse()).collect();
                items.map(|items| Self { known: false, listed: Some(items) }).map_err(D::Error::custom)
            }
        }
    }
}

/// EIP-155 id of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(pub u64);

impl Item for ChainId {
    const KNOWN: Option<&'static str> = None;
}

impl FromStr for ChainId {
    type Err = ItemError;

    /// Parses a decimal id, the name of a public network, `devnet-ethereum` or `devnet-base`.
    fn from_str(text: &str) -> Result<Self, ItemError> {
        match text {
            "devnet-ethereum" => Ok(Self(DEVNET_ETHEREUM)),
            "devnet-base" => Ok(Self(DEVNET_BASE)),
            _ => {
                // Any id is accepted: a chain need not have a known name.
                let id = text.parse::<u64>().ok().filter(|id| *id > 0 && id.to_string() == text);
                id.map_or_else(|| Ok(Self(resolve(text, named())?.chain_id)), |id| Ok(Self(id)))
            }
        }
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DEVNET_ETHEREUM => f.write_str("devnet-ethereum"),
            DEVNET_BASE => f.write_str("devnet-base"),
            id => match golem_chain::network::by_id(id) {
                Some(network) => f.write_str(&network.name),
                None => write!(f, "{id}"),
            },
        }
    }
}

/// Token on a chain: `base:0x…` or `base:native`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenRef {
    /// Chain of the token.
    pub chain: ChainId,
    /// Token on that chain.
    pub token: TokenId,
}

impl Item for TokenRef {
    const KNOWN: Option<&'static str> = Some("bundled");
}

impl FromStr for TokenRef {
    type Err = ItemError;

    fn from_str(text: &str) -> Result<Self, ItemError> {
        let (chain, token) = chain_and(text, "base:0x… or base:native")?;
        let token = if token == "native" { TokenId::Native } else { TokenId::Erc20(address(token)?) };
        Ok(Self { chain, token })
    }
}

impl fmt::Display for TokenRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.token {
            TokenId::Native => write!(f, "{}:native", self.chain),
            TokenId::Erc20(address) => write!(f, "{}:{address}", self.chain),
        }
    }
}

/// Contract on a chain, or one function of it: `base:0x…` or `base:0x…:0x3593564c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContractRef {
    /// Chain of the contract.
    pub chain: ChainId,
    /// Address of the contract.
    pub address: Address,
    /// Selector of the function; `None` for all functions.
    pub selector: Option<FixedBytes<4>>,
}

impl Item for ContractRef {
    const KNOWN: Option<&'static str> = Some("book");

    fn both(&self, other: &Self) -> Option<Self> {
        let same = (self.chain, self.address) == (other.chain, other.address);
        match (self.selector, other.selector) {
            (Some(one), Some(two)) if one != two => None,
            (one, two) => same.then_some(Self { selector: one.or(two), ..*self }),
        }
    }
}

impl FromStr for ContractRef {
    type Err = ItemError;

    fn from_str(text: &str) -> Result<Self, ItemError> {
        let (chain, rest) = chain_and(text, "base:0x… or base:0x…:0x3593564c")?;
        let (contract, selector) = match rest.split_once(':') {
            Some((contract, selector)) => {
                let parsed = selector.parse().ok().filter(|_| selector.starts_with("0x"));
                (contract, Some(parsed.ok_or_else(|| ItemError::Selector(SafeText::clean(selector, 40)))?))
            }
            None => (rest, None),
        };
        Ok(Self { chain, address: address(contract)?, selector })
    }
}

impl fmt::Display for ContractRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.chain, self.address)?;
        self.selector.map_or(Ok(()), |selector| write!(f, ":{selector}"))
    }
}

/// Declares an address type with its own built-in set.
macro_rules! addresses {
    ($($(#[$about:meta])* $name:ident, $known:expr $(, $checked:ident)?;)+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Address);

        impl Item for $name {
            const KNOWN: Option<&'static str> = $known;
        }

        impl FromStr for $name {
            type Err = ItemError;

            fn from_str(text: &str) -> Result<Self, ItemError> {
                let found = address(text)?;
                $($checked(found)?;)?
                Ok(Self(found))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )+};
}

addresses! {
    /// Wallet address, on any chain.
    Wallet, None;
    /// Address that may receive. The built-in set is the acting account itself.
    Recipient, Some("self");
    /// Address that may get an allowance. The built-in set is the address book's contracts whose role is to take
    /// tokens.
    Spender, Some("book"), usable_spender;
}

/// Addresses that can give a second approval; `None` for no rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvers(pub Option<BTreeSet<Address>>);

impl PolicyValue for Approvers {
    /// Takes the other list only if it names nobody new. Two lists that differ in both ways have no useful strictest
    /// value: an empty one would leave nobody who can approve the change.
    fn stricter(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) if !two.is_subset(one) => self.clone(),
            (_, Some(_)) => other.clone(),
            (_, None) => self.clone(),
        }
    }

    fn shown(&self) -> String {
        let Some(listed) = &self.0 else { return "\"none\"".to_owned() };
        let all: Vec<_> = listed.iter().map(|address| format!("\"{address}\"")).collect();
        format!("[{}]", all.join(", "))
    }
}

impl<'de> Deserialize<'de> for Approvers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a list of addresses, or \"none\"")]
        enum ApproversForm {
            Word(String),
            List(Vec<String>),
        }
        let list = match ApproversForm::deserialize(deserializer)? {
            ApproversForm::Word(word) if word == "none" => return Ok(Self(None)),
            ApproversForm::Word(word) => {
                let word = SafeText::clean(&word, 60);
                return Err(D::Error::custom(format!("\"{word}\" is not valid: write \"none\" or a list")));
            }
            ApproversForm::List(list) => list,
        };
        if list.is_empty() {
            let why = "it names nobody, so nothing could be approved: list at least one address, or write \"none\"";
            return Err(D::Error::custom(why));
        }
        let mut approvers = BTreeSet::new();
        for text in &list {
            let approver = address(text).map_err(D::Error::custom)?;
            if approver.is_zero() {
                return Err(D::Error::custom("nobody has the key of the zero address: name an approver's address"));
            }
            if !approvers.insert(approver) {
                return Err(D::Error::custom(format!("{approver} is listed twice: one signature counts once")));
            }
        }
        Ok(Self(Some(approvers)))
    }
}

/// Name of a tool, protocol or kind of action, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemName(pub String);

impl Item for ItemName {
    const KNOWN: Option<&'static str> = None;
}

impl FromStr for ItemName {
    type Err = ItemError;

    fn from_str(text: &str) -> Result<Self, ItemError> {
        let lower = text.to_ascii_lowercase();
        let plain = (1..=64).contains(&lower.len())
            && lower.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if plain { Ok(Self(lower)) } else { Err(ItemError::Word(SafeText::clean(text, 60))) }
    }
}

impl fmt::Display for ItemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn chain_and<'a>(text: &'a str, form: &'static str) -> Result<(ChainId, &'a str), ItemError> {
    let wrong = || ItemError::NoChain { text: SafeText::clean(text, 80), form };
    let (chain, rest) = text.split_once(':').ok_or_else(wrong)?;
    Ok((chain.parse()?, rest))
}

/// Rejects an address that a bundled address book lists as never taking tokens. The checks reject it as well.
fn usable_spender(address: Address) -> Result<(), ItemError> {
    match bundled_never(address) {
        Some((name, why)) => Err(ItemError::NoSpender { address, name, why }),
        None => Ok(()),
    }
}

/// Parses an address, and checks its checksum if it has one.
fn address(text: &str) -> Result<Address, ItemError> {
    let given = || SafeText::clean(text, 64);
    let wrong = || ItemError::Address(given());
    let digits = text.strip_prefix("0x").ok_or_else(wrong)?;
    let address: Address = text.parse().map_err(|_| wrong())?;
    let mixed =
        digits.bytes().any(|byte| byte.is_ascii_lowercase()) && digits.bytes().any(|byte| byte.is_ascii_uppercase());
    if mixed && address.to_checksum(None) != text {
        return Err(ItemError::Checksum(given()));
    }
    Ok(address)
}
