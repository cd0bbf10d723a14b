//! Entries of a paper ledger. They are simulated, and kept apart from what the chain shows.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, U256};
use rusqlite::Connection;

use super::import::token_of;
use bardo_accounting::books::TokenBook;
use bardo_accounting::entry::{Action, Entry, Flow, Origin, Token, TokenFacts};
use bardo_accounting::tables::PriceHistory;
use bardo_base::text::SafeText;
use bardo_safety::chain_snapshot::stables;
use bardo_safety::paper::{self, RecordedAction};
use bardo_store::StoreError;
use golem_chain::network::{KnownContract, Network};

/// Reads the entries of a paper ledger, the descriptions of their tokens, and the prices. `tokens` are known already; the
/// address books of `networks` describe others.
pub(super) fn read(
    connection: &Connection,
    mut tokens: TokenBook,
    networks: &[Network],
) -> Result<(Vec<Entry>, TokenBook, PriceHistory), StoreError> {
    let mut entries = Vec::new();
    for (position, action) in (0..).zip(paper::actions(connection)?) {
        // Gas is priced by the token that wraps the native one, which an action need not move.
        let network = networks.iter().find(|network| network.chain_id == action.chain_id);
        let wrapped = network.and_then(wrapped_native);
        tokens.extend(wrapped.into_iter().filter(|(key, _)| !tokens.contains_key(key)).collect::<Vec<_>>());
        for moved in &action.moves {
            let token = token_of(moved.token.id);
            let network = networks.iter().find(|network| network.chain_id == moved.chain_id);
            let is = |of: &dyn Fn(&Network, Address) -> bool| network.zip(token).is_some_and(|(all, one)| of(all, one));
            let facts = TokenFacts {
                symbol: moved.token.symbol.clone(),
                decimals: moved.token.decimals,
                listed: token.is_none()
                    || is(&|network, token| network.book.tokens().iter().any(|one| one.address == token)),
                is_dollar: is(&|network, token| stables(network).contains(&token)),
                wraps_native: is(&|network, token| network.book.contract(KnownContract::WrappedNative) == Some(token)),
            };
            tokens.entry((moved.chain_id, token)).or_insert(facts);
        }
        entries.extend(entries_of(position, &action));
    }
    let prices = PriceHistory::read(connection, &tokens)?;
    Ok((entries, tokens, prices))
}

/// Description of the token that wraps a network's native one; `None` if the address book has none.
fn wrapped_native(network: &Network) -> Option<((u64, Token), TokenFacts)> {
    let address = network.book.contract(KnownContract::WrappedNative)?;
    let listed = network.book.token_at(address)?;
    let facts = TokenFacts {
        symbol: SafeText::clean(&listed.symbol, 40),
        decimals: listed.decimals,
        listed: true,
        is_dollar: false,
        wraps_native: true,
    };
    Some(((network.chain_id, Some(address)), facts))
}

/// One entry for each chain that the action moved something on: a bridge order has two.
fn entries_of(position: u64, action: &RecordedAction) -> Vec<Entry> {
    let mut by_chain: BTreeMap<u64, BTreeMap<Token, Flow>> = BTreeMap::new();
    for moved in &action.moves {
        let gas = if moved.chain_id == action.chain_id && token_of(moved.token.id).is_none() {
            action.gas
        } else {
            U256::ZERO
        };
        let flow = Flow { received: moved.added, given: moved.removed.saturating_sub(gas) };
        by_chain.entry(moved.chain_id).or_default().insert(token_of(moved.token.id), flow);
    }
    let bridges = by_chain.len() > 1;
    let entry = |(chain_id, flows): (u64, BTreeMap<Token, Flow>)| Entry {
        chain_id,
        account: action.account,
        block: (action.block, B256::ZERO),
        position,
        at: action.at / 1_000,
        tx: None,
        origin: if bridges { Origin::Bridge } else { Origin::Transaction },
        action: Some(Action { call_id: action.call_id, golem_id: action.golem_id.clone(), tool: action.tool.clone() }),
        gas: if chain_id == action.chain_id { action.gas } else { U256::ZERO },
        flows,
        note: None,
    };
    by_chain.into_iter().map(entry).collect()
}
