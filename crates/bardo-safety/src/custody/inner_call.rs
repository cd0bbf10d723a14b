//! Calls as an account makes them, out of the transactions that carry them. What a transaction does is read here from its
//! bytes alone, so that no reader takes the wrapper of a Safe or of a session key for the action.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::{SolCall as _, SolValue as _};

use bardo_abi::delegation::{Delegation, DelegationManager};
use bardo_abi::safe::Safe;

/// Call that an account makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerCall {
    /// Account that makes the call: the sender of the transaction, a Safe, or the owner whose session key sends it.
    pub account: Address,
    /// Contract or account that is called.
    pub to: Address,
    /// Value sent along, in wei.
    pub value: U256,
    /// Calldata of that call, without the wrapper.
    pub data: Bytes,
}

impl InnerCall {
    /// Returns the call inside a transaction of `from`: what `execTransaction` makes a Safe call, and what
    /// `redeemDelegations` makes the owner's account call. Any other transaction is the call itself.
    pub fn of(from: Address, to: Address, value: U256, data: &Bytes) -> Self {
        of_safe(to, data).or_else(|| of_session(data)).unwrap_or_else(|| Self {
            account: from,
            to,
            value,
            data: data.clone(),
        })
    }

    /// Returns the call of `account` inside a transaction to `to`; the transaction's own call if it carries none of that
    /// account.
    pub fn of_account(account: Address, to: Address, value: U256, data: &Bytes) -> Self {
        let inside = Self::of(account, to, value, data);
        match inside.account == account {
            true => inside,
            false => Self { account, to, value, data: data.clone() },
        }
    }
}

fn of_safe(safe: Address, data: &Bytes) -> Option<InnerCall> {
    if !data.starts_with(&Safe::execTransactionCall::SELECTOR) {
        return None;
    }
    let call = Safe::execTransactionCall::abi_decode(data).ok()?;
    // A delegate call runs foreign code as the Safe: nothing says what it calls.
    (call.operation == 0).then_some(InnerCall { account: safe, to: call.to, value: call.value, data: call.data })
}

/// Returns the single call that one delegation redeems (ERC-7579 single execution: target, value and calldata, packed).
fn of_session(data: &Bytes) -> Option<InnerCall> {
    if !data.starts_with(&DelegationManager::redeemDelegationsCall::SELECTOR) {
        return None;
    }
    let call = DelegationManager::redeemDelegationsCall::abi_decode(data).ok()?;
    let ([context], [execution]) = (call.permissionContexts.as_slice(), call.executionCallDatas.as_slice()) else {
        return None;
    };
    // The last delegation of the chain is the owner's.
    let owner = Vec::<Delegation>::abi_decode(context).ok()?.last()?.delegator;
    let (to, value, data) = (execution.get(..20)?, execution.get(20..52)?, execution.get(52..)?);
    Some(InnerCall {
        account: owner,
        to: Address::from_slice(to),
        value: U256::from_be_slice(value),
        data: data.to_vec().into(),
    })
}

#[cfg(test)]
mod tests {
    use alloy::primitives::address;

    use super::*;

    const SAFE: Address = address!("0x5afe5afe5afe5afe5afe5afe5afe5afe5afe5afe");
    const TARGET: Address = address!("0x7a67000000000000000000000000000000000001");
    const SENDER: Address = address!("0x5e4de40000000000000000000000000000000001");

    fn executes(operation: u8) -> Bytes {
        let call = Safe::execTransactionCall {
            to: TARGET,
            value: U256::from(5),
            data: vec![1, 2, 3].into(),
            operation,
            safeTxGas: U256::ZERO,
            baseGas: U256::ZERO,
            gasPrice: U256::ZERO,
            gasToken: Address::ZERO,
            refundReceiver: Address::ZERO,
            signatures: Bytes::new(),
        };
        call.abi_encode().into()
    }

    fn redeems(executions: usize) -> Bytes {
        let delegation = Delegation {
            delegate: SENDER,
            delegator: SAFE,
            authority: Default::default(),
            caveats: Vec::new(),
            salt: U256::ZERO,
            signature: Bytes::new(),
        };
        let execution: Bytes = [TARGET.as_slice(), &U256::from(5).to_be_bytes::<32>(), &[1, 2, 3]].concat().into();
        let call = DelegationManager::redeemDelegationsCall {
            permissionContexts: vec![vec![delegation].abi_encode().into()],
            modes: vec![Default::default()],
            executionCallDatas: vec![execution; executions],
        };
        call.abi_encode().into()
    }

    #[test]
    fn the_call_inside_a_wrapper_is_that_of_the_account() {
        let inside = InnerCall { account: SAFE, to: TARGET, value: U256::from(5), data: vec![1, 2, 3].into() };
        assert_eq!(InnerCall::of(SENDER, SAFE, U256::ZERO, &executes(0)), inside);
        assert_eq!(InnerCall::of(SENDER, TARGET, U256::ZERO, &redeems(1)), inside);
        assert_eq!(InnerCall::of_account(SAFE, SAFE, U256::ZERO, &executes(0)), inside);
    }

    #[test]
    fn what_is_no_plain_call_of_the_account_stays_as_it_is() {
        let plain = |data: &Bytes| InnerCall { account: SENDER, to: SAFE, value: U256::ZERO, data: data.clone() };
        for data in [Bytes::new(), vec![1, 2, 3, 4].into(), executes(1), redeems(0), redeems(2)] {
            assert_eq!(InnerCall::of(SENDER, SAFE, U256::ZERO, &data), plain(&data));
        }
        // The wrapper of another account is a call like any other.
        assert_eq!(InnerCall::of_account(SENDER, SAFE, U256::ZERO, &executes(0)), plain(&executes(0)));
    }
}
