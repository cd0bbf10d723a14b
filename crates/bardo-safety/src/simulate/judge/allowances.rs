//! Allowances of the exposed accounts: after each transaction and at the end, compared with the declaration.

use bardo_base::model::RuleName;
use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall as _;

use super::Judge;
use crate::proposal::{AllowanceBound, AllowanceKind, ProposalIntent};
use crate::simulate::{DeclarationFault, when};
use bardo_abi::erc20::Erc20;
use golem_chain::fork::Permit2Allowance;
use golem_chain::token::TokenId;

impl Judge<'_> {
    /// Limits an allowance between two transactions to what the action needs: a spender could take it if the plan stops
    /// there.
    pub(super) fn temporary_allowance(
        &self,
        leg: usize,
        token: Address,
        spender: Address,
        is: U256,
        faults: &mut Vec<DeclarationFault>,
    ) {
        let id = TokenId::Erc20(token);
        let declared =
            self.payload.proposal().allowances.iter().filter(|bound| bound.token.id == id && bound.spender == spender);
        let Some(stays) = declared.map(|bound| self.may_stay(bound)).max() else {
            faults.push(DeclarationFault::new(
                RuleName::Allowance,
                format!("none of {} for {spender}", self.name(id)),
                format!("{} after transaction {}", self.figure(id, is), leg + 1),
            ));
            return;
        };
        // What may stay, plus what this action spends.
        let needed = stays.saturating_add(self.outflow(id));
        if is > needed {
            faults.push(DeclarationFault::new(
                RuleName::Allowance,
                format!("at most {} for {spender}", self.figure(id, needed)),
                format!("{} after transaction {}", self.figure(id, is), leg + 1),
            ));
        }
    }

    /// Returns the maximum of a declared allowance at the end, in raw units. A trade may leave Permit2 what open orders
    /// may still take, and any other spender nothing, whatever it declares.
    fn may_stay(&self, bound: &AllowanceBound) -> U256 {
        if !self.payload.proposal().is_trade() {
            return bound.at_most;
        }
        let promised = match bound.kind {
            AllowanceKind::Erc20 => self.around.promised_to(bound.token.id, bound.spender),
            AllowanceKind::Permit2 { .. } => U256::ZERO,
        };
        bound.at_most.min(promised)
    }

    pub(super) fn allowances(&self, one: Address, faults: &mut Vec<DeclarationFault>) {
        let proposal = self.payload.proposal();
        let bound = |token: Address, spender: Address, permit2: bool| {
            proposal.allowances.iter().find(|bound| {
                bound.token.id == TokenId::Erc20(token)
                    && bound.spender == spender
                    && matches!(bound.kind, AllowanceKind::Permit2 { .. }) == permit2
            })
        };
        let spends = |token: Address| !self.outflow(TokenId::Erc20(token)).is_zero();
        for change in self.changes().allowances.iter().filter(|change| change.owner == one && change.allowance.moved())
        {
            let (before, after) = (change.allowance.before, change.allowance.after);
            let id = TokenId::Erc20(change.token);
            let (whom, stands) = (change.spender, self.figure(id, after));
            match bound(change.token, whom, false) {
                Some(bound) if after > before && after > self.may_stay(bound) => {
                    let most = self.figure(id, self.may_stay(bound));
                    faults.push(DeclarationFault::new(
                        RuleName::Allowance,
                        format!("at most {most} for {whom} in the end"),
                        stands,
                    ));
                }
                None if after > before => {
                    faults.push(DeclarationFault::new(
                        RuleName::Allowance,
                        format!("none of {} for {whom}", self.name(id)),
                        stands,
                    ));
                }
                // The decrease was spent, and the spending is declared as an outflow.
                None if !spends(change.token) => {
                    let before = self.figure(id, before);
                    faults.push(DeclarationFault::new(
                        RuleName::Allowance,
                        format!("that of {whom} stays {before}"),
                        stands,
                    ));
                }
                _ => {}
            }
            let promised = self.around.promised_to(id, whom);
            // Only a revocation may lower an allowance below what open orders may take; a trade would invalidate them.
            if self.payload.proposal().is_trade() && after < before && after < promised {
                let (promised, after) = (self.figure(id, promised), self.figure(id, after));
                let declared = format!("{promised} for {whom}, reserved for open orders");
                let fault = DeclarationFault::new(RuleName::Allowance, declared, after);
                faults.push(fault.passing("the same after the open orders have ended"));
            }
        }
        for change in self.changes().permit2_allowances.iter().filter(|change| change.owner == one) {
            let (before, after) = (change.allowance.before, change.allowance.after);
            if before == after {
                continue;
            }
            let id = TokenId::Erc20(change.token);
            let (of, whom) = (self.name(id), format!("{} in Permit2", change.spender));
            if self.around.permit2 != Some(change.permit2) {
                let found = format!("{} keeps one", change.permit2);
                let declared = format!("none of {of} for {} except in the known Permit2", change.spender);
                faults.push(DeclarationFault::new(RuleName::Allowance, declared, found));
                continue;
            }
            let stands = || format!("{} until {}", self.figure(id, after.amount), when(after.expiration));
            self.permit2_nonce(one, change.token, change.spender, before, after, faults);
            let later = after.expiration > before.expiration;
            if after.amount.is_zero() || !(after.amount > before.amount || later) {
                // A change of its nonce alone is reported above.
                let moved = (after.amount, after.expiration) != (before.amount, before.expiration);
                if moved && bound(change.token, change.spender, true).is_none() && !spends(change.token) {
                    let before = self.figure(id, before.amount);
                    faults.push(DeclarationFault::new(
                        RuleName::Allowance,
                        format!("that of {whom} stays {before}"),
                        stands(),
                    ));
                }
                continue;
            }
            match bound(change.token, change.spender, true).map(|bound| (self.may_stay(bound), bound.kind)) {
                Some((at_most, AllowanceKind::Permit2 { expires_at })) => {
                    if after.amount > at_most || after.expiration > expires_at {
                        let most = self.figure(id, at_most);
                        let declared = format!("at most {most} for {whom} until {} in the end", when(expires_at));
                        faults.push(DeclarationFault::new(RuleName::Allowance, declared, stands()));
                    }
                }
                Some((_, AllowanceKind::Erc20)) | None => {
                    faults.push(DeclarationFault::new(
                        RuleName::Allowance,
                        format!("none of {of} for {whom}"),
                        stands(),
                    ));
                }
            }
        }
    }

    /// Requires that an action whose purpose is an allowance sets it: a token can accept `approve` and keep the old
    /// value.
    pub(super) fn approvals(&self, faults: &mut Vec<DeclarationFault>) {
        let proposal = self.payload.proposal();
        let revokes = match proposal.intent {
            ProposalIntent::Revoke => true,
            ProposalIntent::Approve => false,
            ProposalIntent::Swap
            | ProposalIntent::Transfer
            | ProposalIntent::PlaceOrder
            | ProposalIntent::CancelOrder
            | ProposalIntent::Bridge
            | ProposalIntent::Refund
            | ProposalIntent::Identity
            | ProposalIntent::PolicyCage
            | ProposalIntent::SpeedUp
            | ProposalIntent::CancelTransaction
            | ProposalIntent::Liquidity
            | ProposalIntent::Lending
            | ProposalIntent::Vault
            | ProposalIntent::VaultManagement
            | ProposalIntent::ProtocolFees
            | ProposalIntent::Hook
            | ProposalIntent::Wrap => return,
        };
        let calls = proposal.legs.iter().skip(self.from).filter(|leg| Some(leg.to) != self.around.permit2);
        let calls = calls.filter_map(|leg| Some((leg.to, Erc20::approveCall::abi_decode(&leg.data).ok()?)));
        // The last call for a spender takes effect.
        let asked: BTreeMap<_, _> = calls.map(|(token, call)| ((token, call.spender), call.value)).collect();
        for ((token, spender), value) in asked {
            let mut found = self.changes().allowances.iter();
            let found = found.find(|one| (one.owner, one.token, one.spender) == (proposal.account, token, spender));
            let Some(allowance) = found.map(|one| &one.allowance) else { continue };
            // Some tokens cap the approved amount; then the allowance has moved all the same.
            let fails = if revokes { allowance.after > value } else { allowance.after != value && !allowance.moved() };
            if fails {
                let id = TokenId::Erc20(token);
                let declared = format!("{} for {spender} afterwards", self.figure(id, value));
                let fault = DeclarationFault::new(RuleName::Allowance, declared, self.figure(id, allowance.after));
                faults.push(fault.passing("another token: this one does not set allowances as requested"));
            }
        }
    }

    /// Requires that an ordered Permit2 nonce advances only by the signatures in the calldata.
    fn permit2_nonce(
        &self,
        owner: Address,
        token: Address,
        spender: Address,
        before: Permit2Allowance,
        after: Permit2Allowance,
        faults: &mut Vec<DeclarationFault>,
    ) {
        let signed = self.legs().flat_map(|(_, leg, _)| &leg.slots).filter(|slot| {
            slot.signer == owner
                && slot
                    .message
                    .takes()
                    .iter()
                    .any(|takes| takes.ordered && takes.token == token && takes.spender == spender)
        });
        let expected = before.nonce.saturating_add(signed.count() as u64);
        if after.nonce != expected {
            faults.push(DeclarationFault::new(
                RuleName::Permit2Nonce,
                format!("the nonce of {} for {spender} becomes {expected}", self.name(TokenId::Erc20(token))),
                after.nonce,
            ));
        }
    }

    /// True if an address may take more from an exposed account afterwards than before.
    pub(super) fn more_allowed(&self) -> bool {
        let exposed = self.payload.exposed();
        let of_tokens = self
            .changes()
            .allowances
            .iter()
            .any(|change| exposed.contains(&change.owner) && change.allowance.after > change.allowance.before);
        let of_permit2 = self.changes().permit2_allowances.iter().any(|change| {
            let (before, after) = (change.allowance.before, change.allowance.after);
            exposed.contains(&change.owner)
                && !after.amount.is_zero()
                && (after.amount > before.amount || after.expiration > before.expiration)
        });
        let of_all =
            self.changes().operators.iter().any(|change| exposed.contains(&change.owner) && change.approved.after);
        of_tokens || of_permit2 || of_all
    }

    pub(super) fn has_revocation(&self) -> bool {
        let exposed = self.payload.exposed();
        let of_tokens = self
            .changes()
            .allowances
            .iter()
            .any(|change| exposed.contains(&change.owner) && change.allowance.after < change.allowance.before);
        let of_permit2 = self.changes().permit2_allowances.iter().any(|change| {
            exposed.contains(&change.owner) && change.allowance.after.amount < change.allowance.before.amount
        });
        let of_signatures = self.voided().next().is_some()
            && self
                .changes()
                .permit2_nonces
                .iter()
                .any(|change| exposed.contains(&change.owner) && change.bits.moved());
        of_tokens || of_permit2 || of_signatures
    }
}
