//! What others may take of the exposed, before, on the way and afterwards, against what was declared.

use alloy::primitives::{Address, U256};

use super::Judge;
use crate::chain::fork::Permit2Allowance;
use crate::chain::token::TokenId;
use crate::safety::proposal::{AllowanceBound, AllowanceKind};
use crate::safety::simulate::Fault;

impl Judge<'_> {
    /// Between two legs an allowance may be what the action needs, and no more: whoever stops the
    /// plan there could take it.
    pub(super) fn allowance_on_the_way(
        &self,
        leg: usize,
        token: Address,
        spender: Address,
        is: U256,
        faults: &mut Vec<Fault>,
    ) {
        let id = TokenId::Erc20(token);
        let declared =
            self.framed.proposal().allowances.iter().filter(|bound| bound.token.id == id && bound.spender == spender);
        let Some(stays) = declared.map(|bound| self.may_stay(bound)).max() else {
            faults.push(Fault::new(
                "allowance",
                format!("none of {token} for {spender}"),
                format!("{is} after transaction {}", leg + 1),
            ));
            return;
        };
        // What may stay stays, and what this action takes comes on top.
        let needed = stays.saturating_add(self.outflow(id));
        if is > needed {
            faults.push(Fault::new(
                "allowance",
                format!("at most {needed} of {token} for {spender}"),
                format!("{is} after transaction {}", leg + 1),
            ));
        }
    }

    /// The most that a declared allowance may be in the end. A trade is made once: it leaves Permit2 what open orders
    /// may still take, everybody else nothing, and it cannot declare more for itself.
    fn may_stay(&self, bound: &AllowanceBound) -> U256 {
        if !self.framed.proposal().is_trade() {
            return bound.at_most;
        }
        let promised = match bound.kind {
            AllowanceKind::Erc20 => self.around.promised_to(bound.token.id, bound.spender),
            AllowanceKind::Permit2 { .. } => U256::ZERO,
        };
        bound.at_most.min(promised)
    }

    pub(super) fn allowances(&self, one: Address, faults: &mut Vec<Fault>) {
        let proposal = self.framed.proposal();
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
            let of = format!("{} for {}", change.token, change.spender);
            match bound(change.token, change.spender, false) {
                Some(bound) if after > before && after > self.may_stay(bound) => {
                    faults.push(Fault::new("allowance", format!("at most {} of {of}", self.may_stay(bound)), after));
                }
                None if after > before => faults.push(Fault::new("allowance", format!("none of {of}"), after)),
                // Used up by what is spent: that is declared as spent.
                None if !spends(change.token) => {
                    faults.push(Fault::new("allowance", format!("that of {of} stays {before}"), after));
                }
                _ => {}
            }
            let promised = self.around.promised_to(TokenId::Erc20(change.token), change.spender);
            // Taking back is the operator's to do, a trade's it is not: it would make open orders void.
            if self.framed.proposal().is_trade() && after < before && after < promised {
                faults.push(Fault::new("allowance", format!("{promised} of {of}, which open orders may take"), after));
            }
        }
        for change in self.changes().permit2_allowances.iter().filter(|change| change.owner == one) {
            let (before, after) = (change.allowance.before, change.allowance.after);
            if before == after {
                continue;
            }
            let of = format!("{} for {} in Permit2", change.token, change.spender);
            if self.around.permit2 != Some(change.permit2) {
                let found = format!("{} keeps one", change.permit2);
                faults.push(Fault::new("allowance", format!("none of {of} but in the known Permit2"), found));
                continue;
            }
            self.permit2_nonce(one, change.token, change.spender, before, after, faults);
            let later = after.expiration > before.expiration;
            if after.amount.is_zero() || !(after.amount > before.amount || later) {
                if bound(change.token, change.spender, true).is_none() && !spends(change.token) {
                    faults.push(Fault::new("allowance", format!("that of {of} stays"), after.amount));
                }
                continue;
            }
            match bound(change.token, change.spender, true).map(|bound| (self.may_stay(bound), bound.kind)) {
                Some((at_most, AllowanceKind::Permit2 { expires_at })) => {
                    if after.amount > at_most || after.expiration > expires_at {
                        let declared = format!("at most {at_most} of {of} until {expires_at}");
                        faults.push(Fault::new(
                            "allowance",
                            declared,
                            format!("{} until {}", after.amount, after.expiration),
                        ));
                    }
                }
                Some((_, AllowanceKind::Erc20)) | None => {
                    let found = format!("{} until {}", after.amount, after.expiration);
                    faults.push(Fault::new("allowance", format!("none of {of}"), found));
                }
            }
        }
    }

    /// An ordered nonce of Permit2 moves by the signatures in the calldata and by nothing else.
    fn permit2_nonce(
        &self,
        owner: Address,
        token: Address,
        spender: Address,
        before: Permit2Allowance,
        after: Permit2Allowance,
        faults: &mut Vec<Fault>,
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
            faults.push(Fault::new(
                "permit2_nonce",
                format!("the nonce of {token} for {spender} becomes {expected}"),
                after.nonce,
            ));
        }
    }

    /// Whether somebody may take more of the exposed afterwards than before.
    pub(super) fn more_allowed(&self) -> bool {
        let exposed = self.framed.exposed();
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

    pub(super) fn takes_something_back(&self) -> bool {
        let exposed = self.framed.exposed();
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
