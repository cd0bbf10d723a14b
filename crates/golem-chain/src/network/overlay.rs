//! Checks of an address book file: the entries that it may add to a chain's book.
//!
//! A book file names contracts that receive money, and tokens, factories and feeds that prices depend on. It may add an
//! entry only if the configuration trusts that entry in a line of its own, with full address and code hash. For chains
//! with a bundled book, the file may repeat bundled entries but not change them. Only Bardo's own devnets, whose tokens
//! are worthless, are described by the file alone.

use super::book::bundled_never;
use super::{
    AddressBook, ChainDescription, DEVNET_BASE, DEVNET_ETHEREUM, KnownContract, NetworkDescription, by_id, named,
    resolve,
};
use bardo_base::text::SafeText;

/// Maximum length of an entry in a message, in characters.
const MAX_ENTRY: usize = 240;

/// Error for an address book file that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// The file gives a chain the name of another chain.
    #[error("it calls chain {chain_id} '{name}', which is another chain's name; use {right}")]
    Name {
        /// EIP-155 id of the chain.
        chain_id: u64,
        /// Chain name in the file.
        name: SafeText,
        /// Hint at an allowed name.
        right: String,
    },
    /// The file changes a bundled entry.
    #[error("it changes a bundled entry of {chain}: `{entry}`; the bundled value is {bundled}. Remove the entry")]
    Changes {
        /// Name and id of the chain.
        chain: String,
        /// The entry, in the format of a `trusted_entries` line.
        entry: SafeText,
        /// The bundled value.
        bundled: String,
    },
    /// The file gives a token-taking role to an address that a bundled book excludes from all such roles.
    #[error(
        "it allows an address of {chain} to take tokens that never may, because it is {known}: `{entry}`. Remove the \
         entry"
    )]
    NeverTakes {
        /// Name and id of the chain.
        chain: String,
        /// The entry, in the format of a `trusted_entries` line.
        entry: SafeText,
        /// Name of the address in the bundled books.
        known: &'static str,
    },
    /// The file adds entries to a bundled book that the configuration does not trust.
    #[error(
        "it extends the bundled address book of {chain}, which needs your confirmation. Compare each entry with the \
         project's documentation, and add those you trust to trusted_entries in the configuration file:{}",
        lines(entries)
    )]
    Adds {
        /// Name and id of the chain.
        chain: String,
        /// The entries, in the format of `trusted_entries` lines.
        entries: Vec<SafeText>,
    },
    /// The file describes a chain without bundled book, with entries that the configuration does not trust.
    #[error(
        "Bardo has no bundled address book for {chain}, so the file's spenders and price feeds need your confirmation. \
         Compare each entry with the project's documentation, and add those you trust to trusted_entries in the \
         configuration file:{}",
        lines(entries)
    )]
    Undecided {
        /// Name and id of the chain.
        chain: String,
        /// The entries, in the format of `trusted_entries` lines.
        entries: Vec<SafeText>,
    },
}

/// Formats entries as lines for the configuration file.
fn lines(entries: &[SafeText]) -> String {
    entries.iter().map(|entry| format!("\n  \"{entry}\",")).collect()
}

/// Checks an address book file against the bundled books and the `trusted_entries` of the configuration.
///
/// # Errors
/// An [`OverlayError`] for the first chain with a problem.
pub fn check(description: &NetworkDescription, trusted: &[&str]) -> Result<(), OverlayError> {
    description.chains.iter().try_for_each(|chain| match by_id(chain.chain_id) {
        Some(bundled) if resolve(&chain.name, std::slice::from_ref(bundled)).is_err() => Err(OverlayError::Name {
            chain_id: chain.chain_id,
            name: SafeText::clean(&chain.name, MAX_ENTRY),
            right: format!("'{}'", bundled.name),
        }),
        Some(bundled) => {
            let name = bundled.to_string();
            let entries = added(chain, &name, &bundled.book, trusted)?;
            if entries.is_empty() { Ok(()) } else { Err(OverlayError::Adds { chain: name, entries }) }
        }
        None if matches!(chain.chain_id, DEVNET_ETHEREUM | DEVNET_BASE) => Ok(()),
        None => match resolve(&chain.name, named()) {
            Ok(other) => Err(OverlayError::Name {
                chain_id: chain.chain_id,
                name: SafeText::clean(&chain.name, MAX_ENTRY),
                right: format!("a name that is not one of {other}"),
            }),
            Err(_) => {
                let name = format!("{} ({})", chain.name, chain.chain_id);
                let entries = added(chain, &name, &AddressBook::default(), trusted)?;
                if entries.is_empty() { Ok(()) } else { Err(OverlayError::Undecided { chain: name, entries }) }
            }
        },
    })
}

/// Returns the entries of `chain` that neither `book` nor `trusted` contains, in the format of `trusted_entries` lines.
///
/// # Errors
/// [`OverlayError`] for an entry that changes one of `book`, or gives a token-taking role to an excluded address.
fn added(
    chain: &ChainDescription,
    name: &str,
    book: &AddressBook,
    trusted: &[&str],
) -> Result<Vec<SafeText>, OverlayError> {
    let id = chain.chain_id;
    let clean = |entry: &str| SafeText::clean(entry, MAX_ENTRY);
    let mut added = Vec::new();
    let mut compare = |entry: String, same: Option<bool>, has: String| match same {
        Some(true) => Ok(()),
        Some(false) => Err(OverlayError::Changes { chain: name.to_owned(), entry: clean(&entry), bundled: has }),
        None => {
            if !trusted.contains(&entry.as_str()) {
                added.push(clean(&entry));
            }
            Ok(())
        }
    };
    for (key, address) in &chain.contracts {
        let role = KnownContract::from_key(key);
        let known = role.and_then(|role| book.contract(role));
        let never = bundled_never(*address).filter(|_| role.is_none_or(|role| role.spender_role().is_ok()));
        let hash = chain.code_hashes.get(key).map_or_else(String::new, |hash| format!(" {hash}"));
        let entry = format!("{id} contract {key} {address}{hash}");
        if let (None, Some((known, _))) = (known, never) {
            return Err(OverlayError::NeverTakes { chain: name.to_owned(), entry: clean(&entry), known });
        }
        let (same, has) = (known.map(|known| known == *address), known.map(|known| known.to_string()));
        // An entry with a code hash is always decided as a whole, even if its address is bundled.
        let same = if same == Some(true) && !hash.is_empty() { None } else { same };
        compare(entry, same, has.unwrap_or_default())?;
    }
    for (key, hash) in chain.code_hashes.iter().filter(|(key, _)| !chain.contracts.contains_key(*key)) {
        let same = KnownContract::from_key(key).and_then(|role| book.code_hash(role)).map(|known| known == *hash);
        compare(format!("{id} code_hash {key} {hash}"), same, "another code hash".to_owned())?;
    }
    for (symbol, token) in &chain.tokens {
        let by_symbol = book.tokens().iter().find(|known| known.symbol == *symbol);
        let known = by_symbol.or_else(|| book.token_at(token.address));
        let same = known.map(|known| {
            (&known.symbol, known.address, known.decimals) == (symbol, token.address, token.decimals)
                && (token.name.is_empty() || token.name == known.name)
        });
        let has = known.map(|known| format!("{} at {}", known.symbol, known.address)).unwrap_or_default();
        compare(format!("{id} token {symbol} {} {}", token.address, token.decimals), same, has)?;
    }
    for (pair, feed) in &chain.feeds {
        let known = book.feed(pair);
        let same = known.map(|known| (known.address, known.decimals) == (feed.address, feed.decimals));
        let has = known.map(|known| known.address.to_string()).unwrap_or_default();
        compare(format!("{id} feed {pair} {} {}", feed.address, feed.decimals), same, has)?;
    }
    Ok(added)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NEW: &str = "0x00000000000000000000000000000000000000aa";
    const HASH: &str = "0x1111111111111111111111111111111111111111111111111111111111111111";

    fn of(chain_id: u64, name: &str, more: Value) -> NetworkDescription {
        let mut chain = json!({ "name": name, "chain_id": chain_id });
        chain.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        NetworkDescription::parse(&json!({ "chains": [chain] }).to_string()).unwrap()
    }

    fn mainnet(more: Value) -> NetworkDescription {
        of(1, "ethereum", more)
    }

    fn says(found: Result<(), OverlayError>, words: &[&str]) {
        let error = found.unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }

    #[test]
    fn a_book_changes_nothing_that_is_bundled() {
        let bundled = by_id(1).unwrap();
        let multicall = bundled.book.contract(KnownContract::Multicall3).unwrap();
        let permit2 = bundled.book.contract(KnownContract::Permit2).unwrap();
        check(&mainnet(json!({ "contracts": { "multicall3": multicall, "permit2": permit2 } })), &[]).unwrap();
        let renamed = mainnet(json!({ "contracts": { "universalRouter": multicall } }));
        says(check(&renamed, &[]), &["universalRouter", "changes a bundled entry"]);
        // Mainnet has no contract with this role; Multicall3 is listed under another one.
        let free = mainnet(json!({ "contracts": { "originSettler": multicall } }));
        says(
            check(&free, &[&format!("1 contract originSettler {multicall}")]),
            &["never may, because it is Multicall3"],
        );
        let moved = mainnet(json!({ "contracts": { "permit2": NEW } }));
        says(check(&moved, &[]), &["0x000000000022D473030F116dDEE9F6B43aC78BA3"]);
        let usdc = bundled.book.tokens().iter().find(|token| token.symbol == "USDC").unwrap();
        for token in [json!({ "address": NEW, "decimals": 6 }), json!({ "address": usdc.address, "decimals": 18 })] {
            says(check(&mainnet(json!({ "tokens": { "USDC": token } })), &[]), &["USDC", "changes a bundled entry"]);
        }
        let as_other = json!({ "tokens": { "WETH2": { "address": usdc.address, "decimals": 6 } } });
        says(check(&mainnet(as_other), &[]), &["changes a bundled entry"]);
        let feed = mainnet(json!({ "feeds": { "ETH / USD": { "address": NEW, "decimals": 8 } } }));
        says(check(&feed, &[]), &["ETH / USD", "changes a bundled entry"]);
    }

    #[test]
    fn each_new_entry_needs_a_line_of_its_own_with_address_and_code_hash() {
        let book = || {
            mainnet(json!({
                "contracts": { "originSettler": NEW }, "code_hashes": { "originSettler": HASH },
                "tokens": { "NEW": { "address": NEW, "decimals": 18 } },
                "feeds": { "NEW / USD": { "address": NEW, "decimals": 8 } },
            }))
        };
        let address: alloy::primitives::Address = NEW.parse().unwrap();
        let lines = [
            format!("1 contract originSettler {address} {HASH}"),
            format!("1 token NEW {address} 18"),
            format!("1 feed NEW / USD {address} 8"),
        ];
        let all: Vec<&str> = lines.iter().map(String::as_str).collect();
        says(check(&book(), &[]), &all);
        check(&book(), &all).unwrap();
        for left in 0..all.len() {
            let mut some = all.clone();
            let missing = some.remove(left);
            says(check(&book(), &some), &[missing]);
        }
        // Another code hash needs another line, and so does a code hash for a bundled contract.
        let other = HASH.replace('1', "2");
        let hashed =
            mainnet(json!({ "contracts": { "originSettler": NEW }, "code_hashes": { "originSettler": other } }));
        says(check(&hashed, &all), &[&other]);
        let reactor = by_id(1).unwrap().book.contract(KnownContract::V2DutchReactor).unwrap();
        let vouched =
            mainnet(json!({ "contracts": { "v2DutchReactor": reactor }, "code_hashes": { "v2DutchReactor": HASH } }));
        says(check(&vouched, &[]), &[HASH]);
        says(check(&mainnet(json!({ "code_hashes": { "v2DutchReactor": HASH } })), &[]), &[HASH]);
    }

    #[test]
    fn a_book_gives_no_chain_anothers_name() {
        says(check(&of(1, "base", json!({})), &[]), &["another chain's name"]);
        says(check(&of(999_999, "ethereum", json!({})), &[]), &["another chain's name"]);
        check(&of(1, "mainnet", json!({})), &[]).unwrap();
        check(&of(999_999, "mine", json!({})), &[]).unwrap();
        check(&of(DEVNET_ETHEREUM, "ethereum", json!({ "contracts": { "permit2": NEW } })), &[]).unwrap();
    }

    #[test]
    fn on_a_chain_without_a_bundled_book_each_entry_needs_a_line() {
        let address: alloy::primitives::Address = NEW.parse().unwrap();
        // Roles of every kind: spender, Permit2, settler, reactor, key, policy contract, price source.
        let roles = [
            "v2Router",
            "permit2",
            "v3PositionManager",
            "originSettler",
            "v2DutchReactor",
            "orderCosigner",
            "policyCage",
            "v3Factory",
            "multicall3",
            "wrappedNative",
            "aNameOfItsOwn",
        ];
        for role in roles {
            let plain = of(424_242, "mine", json!({ "contracts": { role: NEW } }));
            let line = format!("424242 contract {role} {address}");
            says(check(&plain, &[]), &[&format!("\"{line}\","), "mine (424242)", "trusted_entries"]);
            check(&plain, &[&line]).unwrap();
            // The line is valid for this chain, address and code hash only.
            says(check(&plain, &[&line.replace("424242", "424243")]), &[&line]);
            says(check(&plain, &[&format!("{line} {HASH}")]), &[&line]);
            let hashed = of(424_242, "mine", json!({ "contracts": { role: NEW }, "code_hashes": { role: HASH } }));
            says(check(&hashed, &[&line]), &[&format!("{line} {HASH}")]);
        }
        let priced = of(
            424_242,
            "mine",
            json!({
                "tokens": { "USDC": { "address": NEW, "decimals": 6 } },
                "feeds": { "USDC / USD": { "address": NEW, "decimals": 8 } },
            }),
        );
        let (token, feed) = (format!("424242 token USDC {address} 6"), format!("424242 feed USDC / USD {address} 8"));
        says(check(&priced, &[]), &[&token, &feed]);
        says(check(&priced, &[&token]), &[&feed]);
        check(&priced, &[&token, &feed]).unwrap();
    }

    #[test]
    fn no_line_may_make_multicall3_a_spender_on_any_chain() {
        let multicall = by_id(1).unwrap().book.contract(KnownContract::Multicall3).unwrap();
        let router = of(424_242, "mine", json!({ "contracts": { "v2Router": multicall } }));
        says(check(&router, &[&format!("424242 contract v2Router {multicall}")]), &["because it is Multicall3"]);
        let itself = of(424_242, "mine", json!({ "contracts": { "multicall3": multicall } }));
        check(&itself, &[&format!("424242 contract multicall3 {multicall}")]).unwrap();
    }
}
