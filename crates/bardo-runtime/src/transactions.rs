//! Unconfirmed transactions and open orders of an account, from the ledger and the chains, for display. Nothing is
//! written or signed.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy::consensus::Transaction as _;
use alloy::primitives::{Address, B256};
use alloy::providers::Provider as _;
use serde_json::Value;

use bardo_base::clock::Clock;
use bardo_base::text::SafeText;
use bardo_safety::orders::Orders;
use bardo_safety::typed::TypedMessage;
use bardo_safety::waiting_plan::plan_of;
use bardo_session::handle::{
    ChainTransactions, Inclusion, NonceGap, OpenOrderRow, TransactionRow, TransactionsState, WaitingPlan,
};
use bardo_store::Store;
use golem_chain::provider::ProviderError;
use golem_chain::sender::{self, NonceLane, RecordError, SendRoute, SendState, SenderRules, TxRecord, TxSender};
use golem_tools::engine::ConnectedChain;

/// Maximum length of an error or a note, in characters.
const NOTE: usize = 300;
/// Maximum length of a name, in characters.
const NAME: usize = 60;
/// Maximum number of nonces that are searched for gaps.
const MOST_NONCES: u64 = 1_024;

/// The chain's own account of an address.
#[derive(Debug, Clone, Copy, Default)]
struct ChainCounts {
    /// Next nonce to be included.
    next: Option<u64>,
    /// Next nonce, pending transactions included.
    pending: Option<u64>,
    /// Base fee of the next block, in wei per unit of gas.
    base_fee: Option<u128>,
}

/// Reads the unconfirmed transactions that `signer` sent for `account`, and the open orders of `account`.
pub async fn read(
    chains: &[ConnectedChain],
    orders: Option<&Orders>,
    store: &Store,
    clock: &Arc<dyn Clock>,
    (account, signer): (Address, Address),
) -> TransactionsState {
    let read = chains.iter().map(|chain| of_chain(chain, store, clock, signer));
    let transactions = futures::future::join_all(read).await;
    let (orders, fault) = match orders.map(Orders::live).transpose() {
        Ok(live) => (live.unwrap_or_default(), None),
        Err(error) => (Vec::new(), Some(SafeText::clean(&error.to_string(), NOTE))),
    };
    let rows = orders.into_iter().filter(|order| order.account == account).map(|order| OpenOrderRow {
        hash: order.hash,
        chain: chain_name(chains, order.chain_id),
        bridge: matches!(order.message, TypedMessage::CrossChainOrder { .. }),
        limit: order.is_limit(),
        status: SafeText::clean(&order.status.to_string(), NAME),
        golem_id: SafeText::clean(order.golem_id.as_str(), NAME),
        permit_id: order.permit_id,
        signed_at: order.signed_at.unwrap_or(order.created_at),
        usable_until: order.usable_until(),
        reserved: Some(order.spent),
    });
    TransactionsState { at: clock.now_millis(), chains: transactions, orders: rows.collect(), fault }
}

fn chain_name(chains: &[ConnectedChain], chain_id: u64) -> SafeText {
    let known = chains.iter().map(ConnectedChain::network).find(|network| network.chain_id == chain_id);
    SafeText::clean(&known.map_or_else(|| format!("chain {chain_id}"), |network| network.name.clone()), NAME)
}

async fn of_chain(
    chain: &ConnectedChain,
    store: &Store,
    clock: &Arc<dyn Clock>,
    account: Address,
) -> ChainTransactions {
    let network = chain.network();
    let chain_id = network.chain_id;
    let mut state = ChainTransactions {
        chain: SafeText::clean(&network.name, NAME),
        chain_id,
        base_fee: None,
        next_nonce: None,
        rows: Vec::new(),
        gaps: Vec::new(),
        fault: None,
    };
    // The chain is read first: a transaction of this ledger is in it before it is on the chain.
    let counts = counts(chain, store, clock, account, &mut state.fault).await;
    state.base_fee = counts.base_fee.map(saturate);
    state.next_nonce = counts.next;
    let stored = store.read(|connection| {
        let open = sender::open(connection, chain_id)?;
        Ok::<_, RecordError>((open, sender::lane(connection, chain_id, account)?))
    });
    let (open, lane) = match stored {
        Ok(stored) => stored,
        Err(error) => {
            state.fault = Some(SafeText::clean(&error.to_string(), NOTE));
            return state;
        }
    };
    let open: Vec<TxRecord> = open.into_iter().filter(|record| record.signed.from() == account).collect();
    for record in &open {
        let known = is_known(chain, record).await;
        let newest = open.iter().rfind(|one| one.signed.nonce() == record.signed.nonce());
        let earlier = open.iter().take_while(|one| one.hash() != record.hash());
        let earlier = earlier.filter(|one| one.signed.nonce() == record.signed.nonce()).last().map(TxRecord::hash);
        let newest = newest.is_some_and(|newest| newest.hash() == record.hash());
        state.rows.push(row(store, record, inclusion(record, known, counts), newest, earlier));
    }
    for row in &mut state.rows {
        row.to_label = row.to.and_then(|to| network.book.name_of(to)).map(|name| SafeText::clean(&name, NAME));
    }
    name_replaced(&mut state.rows);
    state.gaps = gaps(&open, &lane, counts);
    state
}

/// Fees as the screens show them: no real fee per unit of gas exceeds 64 bits of wei.
fn saturate(fee: u128) -> u64 {
    u64::try_from(fee).unwrap_or(u64::MAX)
}

/// Reads nonces and base fee. What cannot be read is `None`, and its reason is added to `fault`.
async fn counts(
    chain: &ConnectedChain,
    store: &Store,
    clock: &Arc<dyn Clock>,
    account: Address,
    fault: &mut Option<SafeText>,
) -> ChainCounts {
    let network = chain.network();
    let rules = SenderRules::for_network(network.kind, network.block_millis);
    let fees = TxSender::new(chain.client.clone(), store.clone(), clock.clone(), None, rules);
    let (agreed, provider) = (chain.client.agreed(), chain.client.provider());
    let (latest, pending, quote) = futures::join!(
        async { agreed.get_transaction_count(account).latest().await.map_err(ProviderError::from) },
        async { provider.get_transaction_count(account).pending().await.map_err(ProviderError::from) },
        fees.fee_quote()
    );
    let mut note = |error: &dyn std::fmt::Display| *fault = Some(SafeText::clean(&error.to_string(), NOTE));
    ChainCounts {
        next: latest.map_err(|error| note(&error)).ok(),
        pending: pending.ok(),
        base_fee: quote.map_err(|error| note(&error)).map(|quote| quote.base_fee).ok(),
    }
}

/// Returns whether any endpoint has the transaction; `None` if none answers, or if it is private.
async fn is_known(chain: &ConnectedChain, record: &TxRecord) -> Option<bool> {
    if record.route == SendRoute::Private {
        return None;
    }
    let answers = chain.client.ask_each::<Value>("eth_getTransactionByHash", (record.hash(),)).await;
    let answers: Vec<Value> = answers.into_iter().flatten().collect();
    (!answers.is_empty()).then(|| answers.iter().any(|answer| !answer.is_null()))
}

/// Prospect of a transaction's inclusion.
fn inclusion(record: &TxRecord, known: Option<bool>, counts: ChainCounts) -> Inclusion {
    if let Some((block, _)) = record.block.filter(|_| record.state.is_mined()) {
        return Inclusion::InBlock { block };
    }
    if record.state == SendState::Replaced {
        return Inclusion::Replaced;
    }
    let (Some(next), Some(base_fee)) = (counts.next, counts.base_fee) else { return Inclusion::Unknown };
    let nonce = record.signed.nonce();
    if nonce < next {
        return Inclusion::NonceUsed;
    }
    if record.signed.transaction().max_fee_per_gas() < base_fee {
        return Inclusion::BelowBaseFee;
    }
    match (known, record.state) {
        (Some(false), SendState::Sent) => Inclusion::Forgotten,
        (Some(false), _) | (None, SendState::Stored | SendState::Unclear) => Inclusion::Unacknowledged,
        (Some(true) | None, _) if nonce > next => Inclusion::AfterNonce { next },
        (Some(true) | None, _) => Inclusion::Next,
    }
}

fn row(store: &Store, record: &TxRecord, inclusion: Inclusion, newest: bool, replaces: Option<B256>) -> TransactionRow {
    let fees = record.fees();
    // A plan that cannot be read is not shown; the transaction is.
    let plan = store.read(|connection| plan_of(connection, record.hash())).ok().flatten();
    TransactionRow {
        hash: record.hash(),
        nonce: record.signed.nonce(),
        to: record.signed.transaction().to(),
        to_label: None,
        tool: plan.as_ref().and_then(|plan| plan.tool.clone()),
        golem_id: plan.as_ref().map(|plan| plan.golem_id.clone()),
        call_id: plan.as_ref().and_then(|plan| plan.call_id).or(record.call_id),
        plan: plan.map(|plan| WaitingPlan {
            permit_id: plan.permit_id,
            leg: plan.leg,
            of: plan.of,
            reserved: plan.reserved,
        }),
        signed_at: record.stored_at,
        sends: record.sends,
        max_fee: saturate(fees.max_fee_per_gas),
        tip: saturate(fees.max_priority_fee_per_gas),
        actionable: newest && record.state.may_be_sent() && inclusion != Inclusion::NonceUsed && record.call().is_ok(),
        inclusion,
        cancels: record.only_uses_nonce(),
        replaces,
        private: record.route == SendRoute::Private,
        note: record.note.clone(),
    }
}

/// Gives a replaced transaction the tool and the requester of the one that replaces it with the same calls: the plan waits for
/// the later one alone.
fn name_replaced(rows: &mut [TransactionRow]) {
    let known: Vec<TransactionRow> = rows.iter().filter(|row| row.tool.is_some() && !row.cancels).cloned().collect();
    for row in rows.iter_mut().filter(|row| row.tool.is_none() && row.inclusion == Inclusion::Replaced) {
        if let Some(later) = known.iter().find(|later| later.nonce == row.nonce && later.to == row.to) {
            row.tool.clone_from(&later.tool);
            row.golem_id.clone_from(&later.golem_id);
        }
    }
}

/// Nonces that hold up later transactions, or that something else used.
fn gaps(open: &[TxRecord], lane: &NonceLane, counts: ChainCounts) -> Vec<NonceGap> {
    let mut gaps = Vec::new();
    let Some(next) = counts.next else { return gaps };
    let held: BTreeSet<u64> =
        open.iter().map(|record| record.signed.nonce()).chain(lane.reserved.iter().copied()).collect();
    let last = open.iter().map(|record| record.signed.nonce()).max().unwrap_or(next);
    let mut from = None;
    for nonce in (next..=last).take(usize::try_from(MOST_NONCES).unwrap_or(usize::MAX)) {
        match (held.contains(&nonce), from) {
            (false, None) => from = Some(nonce),
            (true, Some(first)) => {
                gaps.push(NonceGap::Missing { from: first, to: nonce.saturating_sub(1) });
                from = None;
            }
            (false, Some(_)) | (true, None) => {}
        }
    }
    if let Some(ledger) = lane.next {
        let chain = counts.pending.unwrap_or(next).max(next);
        let unsigned = lane.free.iter().chain(&lane.reserved).copied().filter(|nonce| *nonce < next).min();
        match unsigned {
            Some(first) => gaps.push(NonceGap::Foreign { ledger: first, chain: next }),
            None if chain > ledger => gaps.push(NonceGap::Foreign { ledger, chain }),
            None => {}
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::consensus::{SignableTransaction as _, TxEip1559, TxEnvelope};
    use alloy::primitives::TxKind;
    use alloy_signer::SignerSync as _;
    use alloy_signer_local::PrivateKeySigner;
    use golem_chain::signed::SignedTransaction;

    fn record(nonce: u64, max_fee: u128, state: SendState) -> TxRecord {
        let signer = PrivateKeySigner::from_bytes(&B256::repeat_byte(7)).unwrap();
        let transaction = TxEip1559 {
            chain_id: 31_337,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: max_fee,
            max_priority_fee_per_gas: 1,
            to: TxKind::Call(Address::repeat_byte(2)),
            ..TxEip1559::default()
        };
        let signature = signer.sign_hash_sync(&transaction.signature_hash()).unwrap();
        let signed = SignedTransaction::new(TxEnvelope::from(transaction.into_signed(signature))).unwrap();
        TxRecord {
            signed,
            route: SendRoute::Public,
            call_id: None,
            replaces: None,
            state,
            stored_at: 0,
            sends: 1,
            block: None,
            note: None,
            settled_at: None,
        }
    }

    fn lane(next: u64, free: &[u64], reserved: &[u64]) -> NonceLane {
        NonceLane { next: Some(next), free: free.to_vec(), reserved: reserved.to_vec(), open: Vec::new() }
    }

    fn at(next: u64, base_fee: u128) -> ChainCounts {
        ChainCounts { next: Some(next), pending: Some(next), base_fee: Some(base_fee) }
    }

    #[test]
    fn the_prospect_of_inclusion_follows_from_nonce_fee_and_endpoints() {
        for (nonce, fee, state, known, expected) in [
            (5, 100, SendState::Sent, Some(true), Inclusion::Next),
            (5, 99, SendState::Sent, Some(true), Inclusion::BelowBaseFee),
            (6, 100, SendState::Sent, Some(true), Inclusion::AfterNonce { next: 5 }),
            (4, 100, SendState::Sent, Some(true), Inclusion::NonceUsed),
            (5, 100, SendState::Sent, Some(false), Inclusion::Forgotten),
            (5, 100, SendState::Stored, Some(false), Inclusion::Unacknowledged),
            (5, 100, SendState::Unclear, None, Inclusion::Unacknowledged),
            (5, 100, SendState::Replaced, Some(true), Inclusion::Replaced),
        ] {
            assert_eq!(inclusion(&record(nonce, fee, state), known, at(5, 100)), expected, "{nonce} {fee} {state}");
        }
        let unread = ChainCounts::default();
        assert_eq!(inclusion(&record(5, 100, SendState::Sent), Some(true), unread), Inclusion::Unknown);
    }

    #[test]
    fn nonces_without_a_transaction_and_foreign_ones_are_named() {
        let waiting = [record(5, 1, SendState::Sent), record(8, 1, SendState::Sent), record(9, 1, SendState::Sent)];
        assert_eq!(gaps(&waiting, &lane(10, &[], &[]), at(5, 1)), [NonceGap::Missing { from: 6, to: 7 }]);
        // A reserved nonce is being signed with, so nothing is missing there.
        assert_eq!(gaps(&waiting, &lane(10, &[], &[6]), at(5, 1)), [NonceGap::Missing { from: 7, to: 7 }]);
        assert_eq!(gaps(&waiting[..1], &lane(6, &[], &[]), at(5, 1)), []);
        let pending = ChainCounts { pending: Some(7), ..at(5, 1) };
        assert_eq!(gaps(&waiting[..1], &lane(6, &[], &[]), pending), [NonceGap::Foreign { ledger: 6, chain: 7 }]);
        assert_eq!(gaps(&[], &lane(6, &[4], &[]), at(5, 1)), [NonceGap::Foreign { ledger: 4, chain: 5 }]);
    }
}
