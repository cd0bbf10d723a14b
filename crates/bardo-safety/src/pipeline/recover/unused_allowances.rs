//! Allowances that a plan set before it ended early: found in the ledger, and checked on chain.
//!
//! A running plan revokes its unused allowances itself. If its process ended between the allowance and the main
//! transaction, it cannot, and recovery signs nothing. Such allowances are listed here, and the operator decides.

use std::collections::HashSet;

use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::{TransactionInput, TransactionRequest};
use alloy::sol_types::SolCall;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::super::{Pipeline, PipelineRefusal};
use super::unavailable;
use crate::custody::InnerCall;
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::error::{ErrorCode, ToolError};
use golem_chain::provider::ProviderError;
use golem_chain::sender::{self, RecordError, SendState};

/// Number of the newest transactions that are searched.
const MAX_SEARCHED: u32 = 400;

/// Unused allowance of a plan that ended early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnusedAllowance {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account that the allowance is on.
    pub owner: Address,
    /// Address of the token.
    pub token: Address,
    /// Address that may take the token.
    pub spender: Address,
    /// Permit2 contract that keeps the allowance; `None` if the token itself keeps it.
    pub inside: Option<Address>,
    /// Current allowance on chain, in raw units.
    pub amount: U256,
}

/// Allowance that a transaction's calldata sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SetAllowance {
    chain_id: u64,
    owner: Address,
    token: Address,
    spender: Address,
    inside: Option<Address>,
}

impl Pipeline {
    /// Returns the allowances that were set for a plan that never reached its purpose, and that are still above zero.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the ledger cannot be read, or if a chain does not answer.
    pub async fn unused_allowances(&self) -> Result<Vec<UnusedAllowance>, PipelineRefusal> {
        let given = self.inner.store.read(abandoned_allowances).map_err(unavailable)?;
        let mut unused = Vec::new();
        for one in given {
            // A chain that is not connected cannot be polled, and nothing is signed there either.
            let Ok(reader) = self.reader(one.chain_id) else { continue };
            let (to, question) = match one.inside {
                None => (one.token, Erc20::allowanceCall { owner: one.owner, spender: one.spender }.abi_encode()),
                Some(permit2) => {
                    let SetAllowance { owner, token, spender, .. } = one;
                    (permit2, Permit2::allowanceCall { owner, token, spender }.abi_encode())
                }
            };
            let request = TransactionRequest::default().to(to).input(TransactionInput::new(question.into()));
            let read_error = |error: ProviderError| {
                let error = ToolError::from(error);
                PipelineRefusal::new(error.code(), error.message())
            };
            let (provider, block) = reader.client.newest().await.map_err(read_error)?;
            let answer = provider.call(request).block(block).await.map_err(|error| read_error(error.into()))?;
            let amount = match one.inside {
                None => Erc20::allowanceCall::abi_decode_returns(&answer).ok(),
                Some(_) => {
                    Permit2::allowanceCall::abi_decode_returns(&answer).ok().map(|reported| reported.amount.to())
                }
            };
            let unreadable = || {
                PipelineRefusal::new(ErrorCode::ChainInconsistent, format_args!("{to} does not return an allowance"))
            };
            let amount = amount.ok_or_else(unreadable)?;
            if !amount.is_zero() {
                let SetAllowance { chain_id, owner, token, spender, inside } = one;
                unused.push(UnusedAllowance { chain_id, owner, token, spender, inside, amount });
            }
        }
        Ok(unused)
    }
}

/// Returns the allowances whose newest transaction belongs to a plan that ended before its purpose.
fn abandoned_allowances(connection: &Connection) -> Result<Vec<SetAllowance>, RecordError> {
    // A plan is over once its permit has an end. Its purpose is its main transaction, or an order that was submitted.
    let mut statement = connection.prepare(
        "SELECT leg.hash, leg.main, leg.permit_id FROM safety_leg AS leg
         JOIN safety_permit AS used ON used.permit_id = leg.permit_id
         WHERE used.ended IS NOT NULL
         ORDER BY used.consumed_at DESC, leg.leg DESC LIMIT ?1",
    )?;
    let rows: Vec<(Vec<u8>, bool, String)> = statement
        .query_map(params![MAX_SEARCHED], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let (mut served, mut decided, mut found) = (HashSet::new(), HashSet::new(), Vec::new());
    for (hash, main, permit_id) in rows {
        let Ok(hash) = B256::try_from(hash.as_slice()) else { continue };
        let Some(record) = sender::load(connection, hash)?.filter(|record| record.state == SendState::Included) else {
            continue;
        };
        // Newest first, so a plan's main transaction comes before the ones that prepared it.
        if main || was_ordered(connection, &permit_id)? {
            served.insert(permit_id.clone());
        }
        let Some(given) = set_allowance(record.signed.chain_id(), record.signed.from(), record.signed.transaction())
        else {
            continue;
        };
        if decided.insert(given) && !served.contains(&permit_id) {
            found.push(given);
        }
    }
    Ok(found)
}

/// Returns true if one of the newest [`MAX_SEARCHED`] transactions set an allowance of `owner` on `token`.
pub(in crate::pipeline) fn allowed_before(
    connection: &Connection,
    chain_id: u64,
    owner: Address,
    token: Address,
) -> Result<bool, RecordError> {
    let mut statement = connection.prepare_cached(
        "SELECT leg.hash FROM safety_leg AS leg JOIN safety_permit AS used ON used.permit_id = leg.permit_id
         ORDER BY used.consumed_at DESC, leg.leg DESC LIMIT ?1",
    )?;
    let hashes: Vec<Vec<u8>> = statement.query_map([MAX_SEARCHED], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for hash in hashes.iter().filter_map(|hash| B256::try_from(hash.as_slice()).ok()) {
        let Some(record) = sender::load(connection, hash)?.filter(|record| record.state == SendState::Included) else {
            continue;
        };
        let signed = &record.signed;
        let Some(call) = inner(signed.from(), signed.transaction()) else { continue };
        let ours = (signed.chain_id(), call.account, call.to) == (chain_id, owner, token);
        if ours && Erc20::approveCall::abi_decode(&call.data).is_ok_and(|approve| !approve.value.is_zero()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if the permit's order has used its allowance, or still may.
fn was_ordered(connection: &Connection, permit_id: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM safety_order
             WHERE permit_id = ?1 AND stage <> 'reserved' AND status IS NOT 'error'
             AND (stage <> 'ended' OR status IN ('filled', 'refunded')))",
        )?
        .query_row([permit_id], |row| row.get(0))
}

/// Returns the call inside a transaction of `from`; `None` for a deployment.
fn inner(from: Address, transaction: &impl alloy::consensus::Transaction) -> Option<InnerCall> {
    Some(InnerCall::of(from, transaction.to()?, transaction.value(), transaction.input()))
}

/// Returns the allowance that a transaction of `from` sets for the account that it acts for; `None` for any other one.
fn set_allowance(
    chain_id: u64,
    from: Address,
    transaction: &impl alloy::consensus::Transaction,
) -> Option<SetAllowance> {
    let InnerCall { account: owner, to, data, .. } = inner(from, transaction)?;
    if let Ok(approve) = Erc20::approveCall::abi_decode(&data) {
        return Some(SetAllowance { chain_id, owner, token: to, spender: approve.spender, inside: None });
    }
    let approve = Permit2::approveCall::abi_decode(&data).ok()?;
    Some(SetAllowance { chain_id, owner, token: approve.token, spender: approve.spender, inside: Some(to) })
}

#[cfg(test)]
mod tests {
    use alloy::consensus::TxEip1559;

    use super::*;
    use crate::permit;
    use bardo_base::id::PermitId;
    use bardo_sandbox::keys::DevnetAccount;
    use bardo_store::{Store, StoreConfig, StoreError};
    use golem_chain::sender::{ChainNonces, SendRoute};
    use golem_chain::signed::SignedTransaction;

    const TOKEN: Address = Address::repeat_byte(1);
    const SPENDER: Address = Address::repeat_byte(2);
    const ROUTER: Address = Address::repeat_byte(3);

    /// A plan: how its permit ended, and for each transaction its state, whether it is the main one, and whether it
    /// sets an allowance or calls the router.
    type Plan<'a> = (Option<&'static str>, &'a [(&'static str, bool, bool)]);

    /// Creates a ledger with these plans in order, and with an order in this state under the last of them.
    async fn ledger(plans: &[Plan<'_>], order: Option<&'static str>) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let rooms = [sender::MIGRATIONS, permit::MIGRATIONS];
        let store = Store::open(StoreConfig::at(folder.path().join("l.db")), &rooms).unwrap();
        let key = DevnetAccount::inhabitant("a test").unwrap();
        let mut nonce = 0;
        for (number, (ended, transactions)) in (1_i64..).zip(plans) {
            let (permit_id, ended, transactions) = (PermitId::random(), *ended, transactions.to_vec());
            let (own, first) = (key.clone(), nonce);
            nonce += u64::try_from(transactions.len()).unwrap();
            let written = store.write(move |transaction| {
                transaction.execute(
                    "INSERT INTO safety_permit (permit_id, simulation_hash, call_id, chain_id, account, reservation,
                     gas_usd, spent_usd, consumed_at, ended) VALUES (?1, x'', '', 1, '', 1, '', '', ?2, ?3)",
                    params![permit_id.to_string(), number, ended],
                )?;
                for (leg, (state, main, allows)) in transactions.iter().copied().enumerate() {
                    let nonce = first + leg as u64;
                    let call = Erc20::approveCall { spender: SPENDER, value: U256::from(5) }.abi_encode();
                    let (to, input) = if allows { (TOKEN, call) } else { (ROUTER, vec![1, 2, 3, 4]) };
                    let call =
                        TxEip1559 { chain_id: 31_337, nonce, to: to.into(), input: input.into(), ..Default::default() };
                    let signed = SignedTransaction::new(own.sign(call).unwrap()).unwrap();
                    let seen = ChainNonces { latest: 0, pending: 0 };
                    let ticket = sender::allocate(transaction, 31_337, own.address(), seen, 1).unwrap();
                    let kept = sender::keep(transaction, &ticket, &signed, SendRoute::Public, None, 1).unwrap();
                    let noted = permit::NotedLeg { leg, of: transactions.len(), main, only_revokes: false };
                    permit::note_leg(transaction, permit_id, noted, kept.hash())?;
                    let hash = kept.hash();
                    transaction.execute(
                        "UPDATE sender_transaction SET state = ?1 WHERE hash = ?2",
                        params![state, hash.as_slice()],
                    )?;
                }
                if let Some(stage) = order {
                    transaction.execute(
                        "INSERT INTO safety_order (hash, permit_id, call_id, golem_id, kind, chain_id, account, permit2,
                         token_in, token_out, encoded, stage, status, facts, reservation, spent_usd, gas_usd,
                         created_at, changed_at)
                         VALUES (x'01', ?1, '', '', '', 1, '', '', '', '', x'', ?2, 'open', '', 1, '', '', 1, 1)",
                        params![permit_id.to_string(), stage],
                    )?;
                }
                Ok::<_, StoreError>(())
            });
            written.await.unwrap();
        }
        (folder, store)
    }

    #[tokio::test]
    async fn only_unused_allowances_of_failed_actions_are_left_over() {
        let (given, called) = (("included", false, true), ("included", true, false));
        let served: Plan<'_> = (Some("done"), &[given, called]);
        let cases: [(&str, &[Plan<'_>], Option<&'static str>, bool); 9] = [
            ("it was never signed", &[(Some("withdrawn"), &[given])], None, true),
            ("it failed", &[(Some("reverted"), &[given, ("reverted", true, false)])], None, true),
            ("it goes on", &[(None, &[given])], None, false),
            ("the allowance itself failed", &[(Some("reverted"), &[("reverted", false, true)])], None, false),
            ("the allowance never was", &[(Some("not_sent"), &[("dropped", false, true)])], None, false),
            ("it was what was wanted", &[(Some("done"), &[("included", true, true)])], None, false),
            ("it was used", &[served], None, false),
            ("an order has it", &[(Some("done"), &[given])], Some("submitted"), false),
            ("a later plan used what an earlier left", &[(Some("withdrawn"), &[given]), served], None, false),
        ];
        for (what, plans, order, stands) in cases {
            let (_folder, store) = ledger(plans, order).await;
            let found: Vec<_> =
                store.read(abandoned_allowances).unwrap().into_iter().map(|one| (one.token, one.spender)).collect();
            let expected = if stands { vec![(TOKEN, SPENDER)] } else { vec![] };
            assert_eq!(found, expected, "{what}");
        }
    }

    #[tokio::test]
    async fn an_order_that_took_nothing_has_served_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(folder.path().join("l.db")), &[permit::MIGRATIONS]).unwrap();
        // Stage, status, and whether the allowance was used or may still be.
        let cases = [
            ("reserved", "pending", false),
            ("signed", "pending", true),
            ("submitted", "open", true),
            ("submitted", "expired", true),
            ("refused", "error", false),
            ("ended", "filled", true),
            ("ended", "refunded", true),
            ("ended", "expired", false),
            ("ended", "cancelled", false),
            ("ended", "error", false),
        ];
        for (at, (stage, status, serves)) in cases.into_iter().enumerate() {
            let permit = format!("permit {at}");
            let named = permit.clone();
            let found = store.write(move |transaction| {
                transaction.execute(
                    "INSERT INTO safety_order (hash, permit_id, call_id, golem_id, kind, chain_id, account, permit2,
                     token_in, token_out, encoded, stage, status, facts, reservation, spent_usd, gas_usd, created_at,
                     changed_at) VALUES (?1, ?2, '', '', '', 1, '', '', '', '', x'', ?3, ?4, '', 1, '', '', 1, 1)",
                    params![vec![u8::try_from(at).unwrap(); 32], named, stage, status],
                )?;
                Ok::<_, StoreError>(was_ordered(transaction, &named)?)
            });
            assert_eq!(found.await.unwrap(), serves, "{stage} {status}");
        }
    }
}
