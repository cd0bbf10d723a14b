//! Faults that show without a simulation: a payload that differs from the proposal, or signatures that grant more than
//! is declared.

use bardo_base::model::RuleName;
use std::collections::BTreeMap;

use alloy::primitives::{Address, B256, U256, keccak256};

use super::{DeclarationFault, JudgeContext, figure, name, when};
use crate::account::AccountKind;
use crate::custody::safe;
use crate::proposal::{AllowanceKind, SIGNATURE_BYTES};
use crate::signing_payload::SigningPayload;
use crate::typed::TypedMessage;
use golem_chain::evm::PLACEHOLDER_SIGNATURE;
use golem_chain::token::TokenId;

/// Prefix of delegation code ([EIP-7702](https://eips.ethereum.org/EIPS/eip-7702)). The address still belongs to its
/// key.
const DELEGATION: [u8; 3] = [0xef, 0x01, 0x00];

/// Checks the on-chain code of a spender that an address book file names: it must be a contract, and its code must have
/// each of `hashes` (Keccak-256).
pub fn spender_fault(spender: Address, hashes: &[B256], code: &[u8]) -> Option<DeclarationFault> {
    let fault = |declared: String, found: String| {
        let right = "an address book and a line of trusted_entries with the contract's real address and code hash";
        Some(DeclarationFault::new(RuleName::Spender, declared, found).passing(right))
    };
    if code.is_empty() || code.starts_with(&DELEGATION) {
        let what = if code.is_empty() { "no code" } else { "a key's delegation and no code of its own" };
        return fault("a contract, according to the address book".to_owned(), format!("{spender} has {what}"));
    }
    let found = keccak256(code);
    let other = hashes.iter().find(|hash| **hash != found)?;
    fault(format!("code with the hash {other}"), format!("{spender} has code with the hash {found}"))
}

/// Returns faults that show without a simulation: a payload that does not carry the proposed calls, and signatures that
/// grant more than is declared, or for longer.
pub fn declared(payload: &SigningPayload, around: &JudgeContext) -> Vec<DeclarationFault> {
    let mut faults = Vec::new();
    let proposal = payload.proposal();
    for (at, (leg, proposed)) in payload.legs().iter().zip(&proposal.legs).enumerate() {
        let same = leg.to == proposed.to && leg.value == proposed.value && leg.data == proposed.data;
        match payload.kind() {
            AccountKind::LocalKey | AccountKind::DevelopmentKey | AccountKind::Embedded if !same => {
                faults.push(DeclarationFault::new(
                    RuleName::Frame,
                    "the proposed call as it is",
                    format!("a different call in transaction {}", at + 1),
                ));
            }
            AccountKind::Safe if !safe::carries(leg, proposed, proposal.account) => {
                faults.push(DeclarationFault::new(
                    RuleName::Frame,
                    "a plain call of the Safe that carries the proposed one",
                    format!("a different call in transaction {}", at + 1),
                ));
            }
            // A wrapped call: the simulation shows its effects.
            AccountKind::LocalKey
            | AccountKind::DevelopmentKey
            | AccountKind::Embedded
            | AccountKind::Delegated
            | AccountKind::Safe => {}
        }
        for slot in &leg.slots {
            let end = slot.offset.saturating_add(SIGNATURE_BYTES);
            if leg.data.get(slot.offset..end) != Some(&PLACEHOLDER_SIGNATURE[..]) {
                let found = format!("other bytes in transaction {}", at + 1);
                faults.push(DeclarationFault::new(
                    RuleName::Signature,
                    "the placeholder where a signature will stand",
                    found,
                ));
            }
            signature(payload, slot.signer, &slot.message, around, &mut faults);
        }
    }
    if let Some(trade) = &proposal.trade {
        let mut declared: BTreeMap<TokenId, U256> = BTreeMap::new();
        for inflow in proposal.inflows.iter().filter(|inflow| inflow.recipient == proposal.account) {
            let sum = declared.entry(inflow.token.id).or_default();
            *sum = sum.saturating_add(inflow.at_least);
        }
        let least = declared.get(&trade.token_out.id).copied().unwrap_or_default();
        if least < trade.min_out {
            let (wanted, least) =
                (figure(proposal, trade.token_out.id, trade.min_out), figure(proposal, trade.token_out.id, least));
            faults.push(DeclarationFault::new(
                RuleName::Trade,
                format!("at least {wanted} is declared to come in"),
                least,
            ));
        }
        let flows = proposal.outflows.iter().filter(|flow| flow.token.id == trade.token_in.id);
        let most = flows.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount));
        if trade.amount_in > most {
            let given = figure(proposal, trade.token_in.id, trade.amount_in);
            let most = figure(proposal, trade.token_in.id, most);
            faults.push(DeclarationFault::new(
                RuleName::Trade,
                format!("all of the {given} traded is declared to go out"),
                most,
            ));
        }
    }
    faults
}

fn signature(
    payload: &SigningPayload,
    signer: Address,
    message: &TypedMessage,
    around: &JudgeContext,
    faults: &mut Vec<DeclarationFault>,
) {
    let proposal = payload.proposal();
    if !payload.exposed().contains(&signer) {
        faults.push(DeclarationFault::new(
            RuleName::Signature,
            "a signature of the account",
            format!("one of {signer}"),
        ));
    }
    if around.permit2 != Some(message.verifier()) {
        faults.push(DeclarationFault::new(
            RuleName::Signature,
            "one for the known Permit2",
            format!("one for {}", message.verifier()),
        ));
    }
    let takes = message.takes();
    if takes.is_empty() {
        faults.push(DeclarationFault::new(RuleName::Signature, "one that states what can be taken", message.kind()));
    }
    for takes in takes {
        let id = TokenId::Erc20(takes.token);
        let bound = proposal.allowances.iter().find_map(|bound| match bound.kind {
            AllowanceKind::Permit2 { expires_at } if bound.token.id == id && bound.spender == takes.spender => {
                Some((bound.at_most, expires_at))
            }
            AllowanceKind::Permit2 { .. } | AllowanceKind::Erc20 => None,
        });
        let Some((at_most, expires_at)) = bound else {
            let declared = format!("nothing of {} for {}", name(proposal, id), takes.spender);
            faults.push(DeclarationFault::new(RuleName::Signature, declared, figure(proposal, id, takes.amount)));
            continue;
        };
        let flows = proposal.outflows.iter().filter(|flow| flow.token.id == id);
        let needed = flows.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount)).max(at_most);
        if takes.amount > needed {
            let declared = format!("at most {} for {}", figure(proposal, id, needed), takes.spender);
            let fault = DeclarationFault::new(RuleName::Signature, declared, figure(proposal, id, takes.amount));
            faults.push(fault.passing("a signature for exactly the action's amount"));
        }
        let until = takes.holds_until.max(takes.usable_until);
        if until > expires_at {
            let declared = format!("nothing after {}", when(expires_at));
            let fault =
                DeclarationFault::new(RuleName::Signature, declared, format!("it is valid until {}", when(until)));
            faults.push(fault.passing("a signature that expires with the action"));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, B256, b256};

    use super::spender_fault;

    /// Keccak-256 of the single byte 0x00, computed with another program.
    const OF_ZERO: B256 = b256!("bc36789e7a1e281436464229828f817d6612f7b477d66591ff96a9e064bcc98a");

    #[test]
    fn a_spender_of_a_book_file_is_a_contract_with_the_code_that_was_trusted() {
        let at = Address::repeat_byte(1);
        let found = |hashes: &[B256], code: &[u8]| spender_fault(at, hashes, code).map(|fault| fault.found.to_string());
        assert_eq!(found(&[], &[0]), None);
        assert_eq!(found(&[OF_ZERO], &[0]), None);
        for hashes in [&[][..], &[OF_ZERO]] {
            assert!(found(hashes, &[]).is_some_and(|found| found.ends_with("0101 has no code")));
        }
        let delegation = [[0xef, 0x01, 0x00].as_slice(), &[7; 20]].concat();
        assert!(found(&[], &delegation).is_some_and(|found| found.contains("a key's delegation")));
        assert!(found(&[B256::repeat_byte(1)], &[0]).is_some_and(|found| found.contains("0xbc36789e")));
        assert!(found(&[OF_ZERO, B256::repeat_byte(1)], &[0]).is_some());
    }
}
