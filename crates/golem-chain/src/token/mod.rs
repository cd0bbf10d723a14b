//! Tokens by symbol or address, with metadata read from the chain and sanitised.
//!
//! A symbol means a token of the network's list and nothing else; any other token is named by its address, and
//! is refused where it passes itself off as a listed one.
//!
//! Not here: balances, prices (see `chain::price`), and whether a policy allows a token.

mod read;

use std::fmt;

use alloy::primitives::{Address, address};
use alloy::providers::DynProvider;

use super::network::{BookToken, Contract, Network};
use super::provider::{ChainClient, ProviderError};
use bardo_base::text::{Lookalike, SafeText, lookalike, nearest};

pub use read::{MAX_NAME, MAX_SYMBOL, read, read_at};

/// The address many programs write for a chain's own coin.
const NATIVE_PLACEHOLDER: Address = address!("EeeeeEeeeEeEeeEeEeEeeEEEeeeeEeeeeeeeEEeE");

/// A chain's own coin, or an ERC-20 contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TokenId {
    /// What gas is paid in.
    Native,
    /// A contract.
    Erc20(Address),
}

/// A token that can be worked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Which one.
    pub id: TokenId,
    /// The list's symbol for a listed token, else the contract's own, cleaned.
    pub symbol: SafeText,
    /// The contract's name, cleaned.
    pub name: SafeText,
    /// Decimals, at most [`bardo_base::units::MAX_DECIMALS`].
    pub decimals: u8,
    /// Whether it is the chain's coin or on the network's list.
    pub listed: bool,
}

/// A listed token, as offered where a name was not clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its symbol.
    pub symbol: String,
    /// Its address.
    pub address: Address,
}

/// Why there is no such token to work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Nothing was given.
    #[error("no token given: write a symbol such as USDC, or an address")]
    Empty,
    /// A symbol that is on no list.
    #[error("unknown token '{asked}'{} on {network}; known by symbol: {known}; name any other by its address", nearest.as_ref().map(|near| format!(" (did you mean {near}?)")).unwrap_or_default())]
    UnknownSymbol {
        /// What was asked for.
        asked: SafeText,
        /// Where.
        network: String,
        /// The symbol most like it.
        nearest: Option<String>,
        /// All listed symbols.
        known: String,
    },
    /// A symbol that fits several tokens.
    #[error("'{asked}' fits several tokens on {network}; give the address of the one you mean: {}", list(candidates))]
    Ambiguous {
        /// What was asked for.
        asked: SafeText,
        /// Where.
        network: String,
        /// Those it fits.
        candidates: Vec<Candidate>,
    },
    /// A symbol, or a contract's symbol, that can be taken for another.
    #[error("'{symbol}'{} {what}; it is not used{}", at(*address), candidate.as_ref().map(|real| format!(". The listed one is {real}")).unwrap_or_default())]
    Lookalike {
        /// The suspicious symbol.
        symbol: SafeText,
        /// The contract that bears it, if one was asked for.
        address: Option<Address>,
        /// What it imitates and how.
        what: Box<Lookalike>,
        /// The token it can be taken for.
        candidate: Option<Candidate>,
    },
    /// A contract that bears a listed token's symbol.
    #[error("the token at {address} calls itself '{symbol}', but on {network} that is {candidate}; it is not used")]
    Impostor {
        /// The contract.
        address: Address,
        /// Its symbol.
        symbol: SafeText,
        /// Where.
        network: String,
        /// The listed token of that symbol.
        candidate: Candidate,
    },
    /// Not an address although it begins like one.
    #[error("'{asked}' is not an address: 0x and 40 hexadecimal digits, this has {digits}")]
    NotAnAddress {
        /// What was asked for.
        asked: SafeText,
        /// Digits found after `0x`.
        digits: usize,
    },
    /// Mixed case that fails the checksum of EIP-55.
    #[error("the checksum of {asked} is wrong: a character was changed; copy the address again from its source")]
    Checksum {
        /// What was asked for.
        asked: SafeText,
    },
    /// The zero address.
    #[error("the zero address is no token; write {native} for the chain's own coin")]
    ZeroAddress {
        /// Symbol of the chain's coin.
        native: &'static str,
    },
    /// No contract there.
    #[error("there is no contract at {address} on {network}; is it an address of another chain, or an account?")]
    NoCode {
        /// The address.
        address: Address,
        /// Where.
        network: String,
    },
    /// A contract that does not answer as a token does.
    #[error("the contract at {address} is no usable ERC-20: {what}")]
    NotAToken {
        /// The contract.
        address: Address,
        /// What it failed to answer.
        what: &'static str,
    },
    /// Decimals no honest token has.
    #[error(
        "the token at {address} claims absurd decimals: {decimals}; at most {} make sense",
        bardo_base::units::MAX_DECIMALS
    )]
    AbsurdDecimals {
        /// The contract.
        address: Address,
        /// What it claims, in decimal.
        decimals: String,
    },
    /// The list and the chain disagree.
    #[error(
        "{symbol} at {address} has {found} decimals on {network}, but the list says {listed}; is the address book of this network?"
    )]
    DecimalsDiffer {
        /// The listed symbol.
        symbol: String,
        /// The contract.
        address: Address,
        /// Where.
        network: String,
        /// What the list says.
        listed: u8,
        /// What the chain says.
        found: u8,
    },
    /// The chain did not answer.
    #[error(transparent)]
    Chain(#[from] ProviderError),
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.symbol, self.address)
    }
}

impl From<&BookToken> for Candidate {
    fn from(token: &BookToken) -> Self {
        Self { symbol: token.symbol.clone(), address: token.address }
    }
}

impl Token {
    /// The coin that pays for gas on `network`.
    pub fn native(network: &Network) -> Self {
        let symbol = SafeText::clean(network.native_symbol, MAX_SYMBOL);
        let name = match network.native_symbol {
            "ETH" => SafeText::clean("Ether", MAX_NAME),
            _ => symbol.clone(),
        };
        Self { id: TokenId::Native, symbol, name, decimals: 18, listed: true }
    }

    /// The contract to call for it: its own, or for the coin the one it wraps to.
    pub fn contract(&self, network: &Network) -> Option<Address> {
        match self.id {
            TokenId::Native => network.book.contract(Contract::WrappedNative),
            TokenId::Erc20(address) => Some(address),
        }
    }
}

/// What a text names, before the chain is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named<'a> {
    Native,
    Listed(&'a BookToken),
    Unlisted(Address),
}

/// Finds the token that `asked` names on `network`: a listed symbol, the coin's symbol, or an address.
///
/// Costs one round trip, none for the coin.
///
/// # Errors
/// A [`TokenError`] that says why not, with candidates where there are some.
pub async fn resolve<P: alloy::providers::Provider>(
    asked: &str,
    network: &Network,
    provider: &P,
) -> Result<Token, TokenError> {
    match address_of(asked, network)? {
        None => Ok(Token::native(network)),
        Some(address) => accepted(read(&[address], network, provider).await?, address, network),
    }
}

/// [`resolve`] by a majority of a chain's endpoints. Where two contradict each other, the one counts that describes a token
/// at all, in accordance with the list: the pipeline reads the token again before anything is signed, and lets nothing but
/// exits and revocations pass there.
///
/// # Errors
/// As [`resolve`].
pub async fn resolve_by_majority(asked: &str, client: &ChainClient) -> Result<Token, TokenError> {
    let network = client.network();
    let Some(address) = address_of(asked, network)? else { return Ok(Token::native(network)) };
    let read = |provider: DynProvider| async move {
        match read(&[address], network, &provider).await {
            Ok(read) => Ok(read),
            Err(TokenError::Chain(error)) => Err(error),
            Err(other) => Ok(vec![Err(other)]),
        }
    };
    let found = client.read_possible(read, |read| read.iter().all(Result::is_ok)).await?;
    accepted(found, address, network)
}

/// Where to look for what `asked` names; `None` for the chain's own coin.
fn address_of(asked: &str, network: &Network) -> Result<Option<Address>, TokenError> {
    Ok(match named(asked, network)? {
        Named::Native => None,
        Named::Listed(token) => Some(token.address),
        Named::Unlisted(address) => Some(address),
    })
}

/// The token that was read at `address`, if it is none that imitates another.
fn accepted(
    mut found: Vec<Result<Token, TokenError>>,
    address: Address,
    network: &Network,
) -> Result<Token, TokenError> {
    let token = found.pop().unwrap_or(Err(TokenError::NoCode { address, network: network.to_string() }))?;
    refuse_imitation(&token, address, network)?;
    Ok(token)
}

/// The one spelling of what `asked` names on `network`, by the list alone: the symbol as it is listed, or else the
/// address. `None` where it names nothing.
pub fn spelled(asked: &str, network: &Network) -> Option<String> {
    Some(match named(asked, network).ok()? {
        Named::Native => network.native_symbol.to_owned(),
        Named::Listed(token) => token.symbol.clone(),
        Named::Unlisted(address) => address.to_string(),
    })
}

/// What `asked` names, by the list alone.
fn named<'a>(asked: &str, network: &'a Network) -> Result<Named<'a>, TokenError> {
    let asked = asked.trim();
    if asked.is_empty() {
        return Err(TokenError::Empty);
    }
    if asked.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x")) {
        let address = parse_address(asked)?;
        if address.is_zero() {
            return Err(TokenError::ZeroAddress { native: network.native_symbol });
        }
        if address == NATIVE_PLACEHOLDER {
            return Ok(Named::Native);
        }
        let listed = network.book.tokens().iter().find(|token| token.address == address);
        return Ok(listed.map_or(Named::Unlisted(address), Named::Listed));
    }
    if asked.eq_ignore_ascii_case(network.native_symbol) {
        return Ok(Named::Native);
    }
    let tokens = network.book.tokens();
    let exact: Vec<&BookToken> = tokens.iter().filter(|token| token.symbol == asked).collect();
    // People type in lower case; that is no imitation when it fits one token only.
    let fitting = if exact.is_empty() {
        tokens.iter().filter(|token| token.symbol.eq_ignore_ascii_case(asked)).collect()
    } else {
        exact
    };
    let clean = SafeText::clean(asked, MAX_SYMBOL);
    match fitting.as_slice() {
        [token] => return Ok(Named::Listed(token)),
        [] => {}
        several => {
            return Err(TokenError::Ambiguous {
                asked: clean,
                network: network.to_string(),
                candidates: several.iter().map(|token| Candidate::from(*token)).collect(),
            });
        }
    }
    if let Some(what) = imitation(&clean, network) {
        let candidate = listed_candidate(what.of.as_deref(), network);
        return Err(TokenError::Lookalike { symbol: clean, address: None, what: Box::new(what), candidate });
    }
    let symbols = || tokens.iter().map(|token| token.symbol.as_str());
    Err(TokenError::UnknownSymbol {
        nearest: nearest(asked, symbols()).map(str::to_owned),
        asked: clean,
        network: network.to_string(),
        known: std::iter::once(network.native_symbol).chain(symbols()).collect::<Vec<_>>().join(", "),
    })
}

/// An address as people paste it: all of one case, or with the checksum of EIP-55
/// (<https://eips.ethereum.org/EIPS/eip-55>), which then must be right.
fn parse_address(asked: &str) -> Result<Address, TokenError> {
    let digits = asked.get(2..).unwrap_or_default();
    let clean = || SafeText::clean(asked, 64);
    if digits.len() != 40 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let digits = digits.chars().filter(char::is_ascii_hexdigit).count();
        return Err(TokenError::NotAnAddress { asked: clean(), digits });
    }
    let lower = digits.bytes().any(|byte| byte.is_ascii_lowercase());
    let upper = digits.bytes().any(|byte| byte.is_ascii_uppercase());
    let address: Address = digits.parse().map_err(|_| TokenError::NotAnAddress { asked: clean(), digits: 40 })?;
    // `to_checksum` writes `0x`, then the digits.
    if lower && upper && address.to_checksum(None).get(2..) != Some(digits) {
        return Err(TokenError::Checksum { asked: clean() });
    }
    Ok(address)
}

/// Refuses a token off the list that bears, or imitates, the symbol of one on it.
fn refuse_imitation(token: &Token, address: Address, network: &Network) -> Result<(), TokenError> {
    if token.listed {
        return Ok(());
    }
    let same = network.book.tokens().iter().find(|listed| listed.symbol == token.symbol.as_str());
    if let Some(candidate) = same.map(Candidate::from) {
        return Err(TokenError::Impostor {
            address,
            symbol: token.symbol.clone(),
            network: network.to_string(),
            candidate,
        });
    }
    // The coin's own symbol on a contract imitates the coin, whatever the letters are.
    if let Some(what) = imitation(&token.symbol, network) {
        let candidate = listed_candidate(what.of.as_deref(), network);
        return Err(TokenError::Lookalike {
            symbol: token.symbol.clone(),
            address: Some(address),
            what: Box::new(what),
            candidate,
        });
    }
    Ok(())
}

/// What a symbol that is not on the list imitates: a listed symbol, the coin's, or with letters made to deceive
/// something unknown.
fn imitation(symbol: &SafeText, network: &Network) -> Option<Lookalike> {
    let known = network.book.tokens().iter().map(|token| token.symbol.as_str());
    let of_coin = (symbol.as_str() == network.native_symbol).then(|| Lookalike {
        of: Some(network.native_symbol.to_owned()),
        why: bardo_base::text::lookalike::Why::SameSymbol,
    });
    of_coin.or_else(|| lookalike(symbol, known.chain([network.native_symbol])))
}

fn listed_candidate(symbol: Option<&str>, network: &Network) -> Option<Candidate> {
    let symbol = symbol?;
    network.book.tokens().iter().find(|token| token.symbol == symbol).map(Candidate::from)
}

fn list(candidates: &[Candidate]) -> String {
    candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn at(address: Option<Address>) -> String {
    address.map(|address| format!(", the symbol of {address},")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
