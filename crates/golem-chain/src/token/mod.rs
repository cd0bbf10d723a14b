//! Lookup of tokens by symbol or address, with sanitised metadata from the chain.
//!
//! A symbol selects a token of the network's list only. Any other token is selected by its address, and is refused if
//! it imitates a listed one.
//!
//! Not here: balances, prices (see `chain::price`), and token policy.

mod read;

use std::fmt;

use alloy::primitives::{Address, address};
use alloy::providers::DynProvider;

use super::network::{BookToken, KnownContract, Network};
use super::provider::{ChainClient, ProviderError};
use bardo_base::text::{Lookalike, SafeText, lookalike, nearest};

pub use read::{MAX_NAME, MAX_SYMBOL, read, read_at};

/// Address that many applications use for a chain's native token.
const NATIVE_PLACEHOLDER: Address = address!("EeeeeEeeeEeEeeEeEeEeeEEEeeeeEeeeeeeeEEeE");

/// The native token or an ERC-20 contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TokenId {
    /// The token that pays for gas.
    Native,
    /// An ERC-20 token at this address.
    Erc20(Address),
}

/// Metadata of a usable token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenInfo {
    /// The native token or the contract's address.
    pub id: TokenId,
    /// Symbol: the list's for a listed token, else the contract's own, sanitised.
    pub symbol: SafeText,
    /// Name of the contract, sanitised.
    pub name: SafeText,
    /// Decimals, at most [`bardo_base::units::MAX_DECIMALS`].
    pub decimals: u8,
    /// True for the native token and for tokens on the network's list.
    pub listed: bool,
}

/// A listed token, suggested when the requested name is ambiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenCandidate {
    /// Symbol in the network's list.
    pub symbol: String,
    /// Address of the token contract.
    pub address: Address,
}

/// Error for a token that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The request is empty.
    #[error("no token given: write a symbol such as USDC, or an address")]
    Empty,
    /// The symbol is not on the network's list.
    #[error("unknown token '{asked}'{} on {network}; known by symbol: {known}; name any other by its address", nearest.as_ref().map(|near| format!(" (did you mean {near}?)")).unwrap_or_default())]
    UnknownSymbol {
        /// The requested symbol.
        asked: SafeText,
        /// Name and id of the chain.
        network: String,
        /// The most similar listed symbol.
        nearest: Option<String>,
        /// All listed symbols.
        known: String,
    },
    /// The symbol matches several tokens.
    #[error("'{asked}' matches several tokens on {network}; use the address of the intended one: {}", list(candidates))]
    Ambiguous {
        /// The requested symbol.
        asked: SafeText,
        /// Name and id of the chain.
        network: String,
        /// The matching tokens.
        candidates: Vec<TokenCandidate>,
    },
    /// The requested symbol, or the symbol of a contract, can be mistaken for another.
    #[error("'{symbol}'{} {what}; it is not used{}", at(*address), candidate.as_ref().map(|real| format!(". The listed one is {real}")).unwrap_or_default())]
    Lookalike {
        /// The suspicious symbol.
        symbol: SafeText,
        /// Contract with that symbol; `None` if a symbol was requested.
        address: Option<Address>,
        /// The imitated symbol and the kind of imitation.
        what: Box<Lookalike>,
        /// The listed token that it imitates.
        candidate: Option<TokenCandidate>,
    },
    /// A contract that uses the symbol of a listed token.
    #[error("the token at {address} calls itself '{symbol}', but on {network} that is {candidate}; it is not used")]
    Impostor {
        /// Address of the imitating contract.
        address: Address,
        /// Symbol of the imitating contract.
        symbol: SafeText,
        /// Name and id of the chain.
        network: String,
        /// The listed token with that symbol.
        candidate: TokenCandidate,
    },
    /// The text starts with `0x` but is not an address.
    #[error("'{asked}' is not an address: 0x and 40 hexadecimal digits, this has {digits}")]
    NotAnAddress {
        /// The requested text.
        asked: SafeText,
        /// Number of hexadecimal digits after `0x`.
        digits: usize,
    },
    /// A mixed-case address with a wrong checksum ([EIP-55](https://eips.ethereum.org/EIPS/eip-55)).
    #[error("the checksum of {asked} is wrong: a character was changed; copy the address again from its source")]
    Checksum {
        /// The requested address.
        asked: SafeText,
    },
    /// The zero address was requested.
    #[error("the zero address is not a token; write {native} for the native token")]
    ZeroAddress {
        /// Symbol of the native token.
        native: &'static str,
    },
    /// There is no contract at the address.
    #[error("there is no contract at {address} on {network}; is it an address of another chain, or an account?")]
    NoCode {
        /// The requested address.
        address: Address,
        /// Name and id of the chain.
        network: String,
    },
    /// A contract that does not implement ERC-20 metadata.
    #[error("the contract at {address} is not a usable ERC-20: {what}")]
    NotAToken {
        /// Address of the contract.
        address: Address,
        /// The missing method.
        what: &'static str,
    },
    /// More decimals than any honest token has.
    #[error(
        "the token at {address} claims impossible decimals: {decimals}; at most {} are accepted",
        bardo_base::units::MAX_DECIMALS
    )]
    AbsurdDecimals {
        /// Address of the contract.
        address: Address,
        /// The claimed decimals, as a decimal number.
        decimals: String,
    },
    /// The list and the contract report different decimals.
    #[error(
        "{symbol} at {address} has {found} decimals on {network}, but the list says {listed}; is the address book of this network?"
    )]
    DecimalsDiffer {
        /// The listed symbol.
        symbol: String,
        /// Address of the contract.
        address: Address,
        /// Name and id of the chain.
        network: String,
        /// Decimals in the list.
        listed: u8,
        /// Decimals on chain.
        found: u8,
    },
    /// Failure of the chain request.
    #[error(transparent)]
    Chain(#[from] ProviderError),
}

impl fmt::Display for TokenCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.symbol, self.address)
    }
}

impl From<&BookToken> for TokenCandidate {
    fn from(token: &BookToken) -> Self {
        Self { symbol: token.symbol.clone(), address: token.address }
    }
}

impl TokenInfo {
    /// The native token of `network`.
    pub fn native(network: &Network) -> Self {
        let symbol = SafeText::clean(network.native_symbol, MAX_SYMBOL);
        let name = match network.native_symbol {
            "ETH" => SafeText::clean("Ether", MAX_NAME),
            _ => symbol.clone(),
        };
        Self { id: TokenId::Native, symbol, name, decimals: 18, listed: true }
    }

    /// Address of the ERC-20 contract to call: the token's own, or the wrapped native token for the native one. `None`
    /// if the address book lists no wrapper.
    pub fn contract(&self, network: &Network) -> Option<Address> {
        match self.id {
            TokenId::Native => network.book.contract(KnownContract::WrappedNative),
            TokenId::Erc20(address) => Some(address),
        }
    }
}

/// Meaning of a requested token name before the chain is queried.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NamedToken<'a> {
    Native,
    Listed(&'a BookToken),
    Unlisted(Address),
}

/// Finds the token that `asked` names on `network`: a listed symbol, the native token's symbol, or an address.
///
/// Costs one round trip, or none for the native token.
///
/// # Errors
/// A [`TokenError`] with the reason, and with candidates where there are any.
pub async fn resolve<P: alloy::providers::Provider>(
    asked: &str,
    network: &Network,
    provider: &P,
) -> Result<TokenInfo, TokenError> {
    match address_of(asked, network)? {
        None => Ok(TokenInfo::native(network)),
        Some(address) => accepted(read(&[address], network, provider).await?, address, network),
    }
}

/// Like [`resolve`], by a majority of the chain's endpoints. If two endpoints contradict each other, an answer that
/// describes a valid token in accordance with the list is preferred. The pipeline reads the token again before it signs
/// anything, and after a contradiction it allows only exits and revocations.
///
/// # Errors
/// As [`resolve`].
pub async fn resolve_by_majority(asked: &str, client: &ChainClient) -> Result<TokenInfo, TokenError> {
    let network = client.network();
    let Some(address) = address_of(asked, network)? else { return Ok(TokenInfo::native(network)) };
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

/// Address of the token that `asked` names; `None` for the native token.
fn address_of(asked: &str, network: &Network) -> Result<Option<Address>, TokenError> {
    Ok(match named(asked, network)? {
        NamedToken::Native => None,
        NamedToken::Listed(token) => Some(token.address),
        NamedToken::Unlisted(address) => Some(address),
    })
}

/// Returns the token read at `address` unless it imitates another one.
fn accepted(
    mut found: Vec<Result<TokenInfo, TokenError>>,
    address: Address,
    network: &Network,
) -> Result<TokenInfo, TokenError> {
    let token = found.pop().unwrap_or(Err(TokenError::NoCode { address, network: network.to_string() }))?;
    refuse_imitation(&token, address, network)?;
    Ok(token)
}

/// Canonical spelling of the token that `asked` names on `network`: its listed symbol or else its address. Uses the
/// list only. `None` if it names no token.
pub fn spelled(asked: &str, network: &Network) -> Option<String> {
    Some(match named(asked, network).ok()? {
        NamedToken::Native => network.native_symbol.to_owned(),
        NamedToken::Listed(token) => token.symbol.clone(),
        NamedToken::Unlisted(address) => address.to_string(),
    })
}

/// Interprets `asked` by the list alone.
fn named<'a>(asked: &str, network: &'a Network) -> Result<NamedToken<'a>, TokenError> {
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
            return Ok(NamedToken::Native);
        }
        let listed = network.book.token_at(address);
        return Ok(listed.map_or(NamedToken::Unlisted(address), NamedToken::Listed));
    }
    if asked.eq_ignore_ascii_case(network.native_symbol) {
        return Ok(NamedToken::Native);
    }
    let tokens = network.book.tokens();
    let exact: Vec<&BookToken> = tokens.iter().filter(|token| token.symbol == asked).collect();
    // Users type in lower case; that is not an imitation if it matches exactly one token.
    let fitting = if exact.is_empty() {
        tokens.iter().filter(|token| token.symbol.eq_ignore_ascii_case(asked)).collect()
    } else {
        exact
    };
    let clean = SafeText::clean(asked, MAX_SYMBOL);
    match fitting.as_slice() {
        [token] => return Ok(NamedToken::Listed(token)),
        [] => {}
        several => {
            return Err(TokenError::Ambiguous {
                asked: clean,
                network: network.to_string(),
                candidates: several.iter().map(|token| TokenCandidate::from(*token)).collect(),
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

/// Parses an address that is either all of one case or has a correct checksum
/// (<https://eips.ethereum.org/EIPS/eip-55>).
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
    // `to_checksum` writes `0x` before the digits.
    if lower && upper && address.to_checksum(None).get(2..) != Some(digits) {
        return Err(TokenError::Checksum { asked: clean() });
    }
    Ok(address)
}

/// Refuses an unlisted token whose symbol equals or imitates a listed one.
fn refuse_imitation(token: &TokenInfo, address: Address, network: &Network) -> Result<(), TokenError> {
    if token.listed {
        return Ok(());
    }
    let same = network.book.tokens().iter().find(|listed| listed.symbol == token.symbol.as_str());
    if let Some(candidate) = same.map(TokenCandidate::from) {
        return Err(TokenError::Impostor {
            address,
            symbol: token.symbol.clone(),
            network: network.to_string(),
            candidate,
        });
    }
    // A contract with the native token's symbol is an imitation too.
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

/// Imitation by an unlisted symbol: of a listed symbol or the native token's, or through deceptive characters in an
/// unknown symbol.
fn imitation(symbol: &SafeText, network: &Network) -> Option<Lookalike> {
    let known = network.book.tokens().iter().map(|token| token.symbol.as_str());
    let of_coin = (symbol.as_str() == network.native_symbol).then(|| Lookalike {
        of: Some(network.native_symbol.to_owned()),
        why: bardo_base::text::lookalike::LookalikeReason::SameSymbol,
    });
    of_coin.or_else(|| lookalike(symbol, known.chain([network.native_symbol])))
}

fn listed_candidate(symbol: Option<&str>, network: &Network) -> Option<TokenCandidate> {
    let symbol = symbol?;
    network.book.tokens().iter().find(|token| token.symbol == symbol).map(TokenCandidate::from)
}

fn list(candidates: &[TokenCandidate]) -> String {
    candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn at(address: Option<Address>) -> String {
    address.map(|address| format!(", the symbol of {address},")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
