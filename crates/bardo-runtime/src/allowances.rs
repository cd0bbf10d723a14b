//! Allowances of an account as the chain reports them: the list that the screen and `bardo reconcile` show.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, U256};

use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::error::ToolError;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_safety::orders::record;
use bardo_safety::value::is_unlimited;
use bardo_session::handle::{AllowanceState, AllowancesState, SilentToken};
use bardo_store::Store;
use golem_chain::multicall::CallBatch;
use golem_chain::network::{BookToken, KnownContract, Network};
use golem_tools::engine::ConnectedChain;

/// Contracts of the address book that may get an allowance: what no other list names is not found after a crash either.
fn spenders(network: &Network) -> BTreeSet<Address> {
    let takes = network.book.contracts().filter(|(contract, _)| contract.spender_role().is_ok());
    takes.map(|(_, address)| address).collect()
}

/// Reads the allowances on the listed tokens of `owner`, on the tokens themselves and inside Permit2, and lists tokens
/// that could not be read. Adds the amount that signed orders may still take, if the ledger can be read. A listed token
/// without a contract has no allowances.
///
/// # Errors
/// An error if the chain does not answer.
pub async fn read_allowances(
    chain: &ConnectedChain,
    owner: Address,
    store: &Store,
) -> Result<AllowancesState, ToolError> {
    let network = chain.network();
    let mut calls = CallBatch::default();
    let mut asked = Vec::new();
    let spenders = spenders(network);
    for token in network.book.tokens() {
        for spender in &spenders {
            let in_token = calls.push(token.address, &Erc20::allowanceCall { owner, spender: *spender });
            let permit2 = network.book.contract(KnownContract::Permit2).filter(|permit2| permit2 != spender);
            let in_permit2 = permit2.map(|permit2| {
                calls.push(permit2, &Permit2::allowanceCall { owner, token: token.address, spender: *spender })
            });
            asked.push((token, *spender, in_token, in_permit2));
        }
    }
    let answers = chain.ask(calls).await?;
    let mut all = AllowancesState::default();
    for (token, spender, in_token, in_permit2) in asked {
        let taken = match in_token.take(&answers) {
            None if in_token.is_void(&answers) => Some(U256::ZERO),
            taken => taken,
        };
        let inside = in_permit2.map(|call| call.take(&answers));
        if taken.is_none() || inside.as_ref().is_some_and(Option::is_none) {
            all.silent.push(silent(network, token));
        }
        all.rows.extend(taken.and_then(|raw| row(network, token, spender, raw, None)));
        all.rows.extend(
            inside
                .flatten()
                .and_then(|found| row(network, token, spender, U256::from(found.amount), Some(found.expiration.to()))),
        );
    }
    all.silent.dedup();
    let promised = store.read(|connection| record::promised(connection, network.chain_id, owner));
    if let Ok(promised) = promised {
        note_promised(&mut all.rows, network.book.contract(KnownContract::Permit2), &promised);
    }
    Ok(all)
}

fn silent(network: &Network, token: &BookToken) -> SilentToken {
    SilentToken {
        chain: SafeText::clean(&network.name, 40),
        chain_id: network.chain_id,
        symbol: SafeText::clean(&token.symbol, 20),
        token: token.address,
    }
}

fn row(
    network: &Network,
    token: &BookToken,
    spender: Address,
    raw: U256,
    expires_at: Option<u64>,
) -> Option<AllowanceState> {
    if raw.is_zero() {
        return None;
    }
    Some(AllowanceState {
        chain: SafeText::clean(&network.name, 40),
        chain_id: network.chain_id,
        symbol: SafeText::clean(&token.symbol, 20),
        token: token.address,
        spender,
        label: network.book.name_of(spender).map(|label| SafeText::clean(&label, 60)),
        through_permit2: expires_at.is_some(),
        raw,
        amount: TokenAmount::new(raw, token.decimals).ok(),
        unlimited: is_unlimited(raw),
        expires_at,
        promised: None,
    })
}

/// Adds to exact allowances of Permit2 the amount that signed orders may still take, by token. The allowance of an
/// order that ended unfilled stays until it is revoked, and must not look as if it were needed.
fn note_promised(rows: &mut [AllowanceState], permit2: Option<Address>, promised: &BTreeMap<Address, U256>) {
    for row in rows {
        if !row.through_permit2 && !row.unlimited && Some(row.spender) == permit2 {
            row.promised = Some(promised.get(&row.token).copied().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowances_of_orders_are_listed_at_their_spender() {
        let (permit2, router) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let row = |spender, through_permit2, unlimited| AllowanceState {
            chain: SafeText::default(),
            chain_id: 31_337,
            symbol: SafeText::default(),
            token: Address::repeat_byte(3),
            spender,
            label: None,
            through_permit2,
            raw: U256::from(9),
            amount: None,
            unlimited,
            expires_at: None,
            promised: None,
        };
        let mut rows = [
            row(permit2, false, false),
            row(permit2, false, true),
            row(router, false, false),
            row(permit2, true, false),
        ];
        let promised = BTreeMap::from([(Address::repeat_byte(3), U256::from(9))]);
        note_promised(&mut rows, Some(permit2), &promised);
        assert_eq!(rows.map(|row| row.promised), [Some(U256::from(9)), None, None, None]);
        let mut rows = [row(permit2, false, false)];
        note_promised(&mut rows, Some(permit2), &BTreeMap::new());
        assert_eq!(rows[0].promised, Some(U256::ZERO), "nobody needs what an order left");
        let mut rows = [row(permit2, false, false)];
        note_promised(&mut rows, None, &promised);
        assert_eq!(rows[0].promised, None);
    }
}
