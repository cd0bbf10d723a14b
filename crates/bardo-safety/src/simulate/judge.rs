//! Comparison of every change in a simulation with the declaration. Pure functions.

mod allowances;

use std::collections::BTreeSet;

use alloy::primitives::{Address, U256};

use alloy::sol_types::SolCall as _;

use super::class::{classify, declared_class};
use super::figures::{figure, name};
use super::{DeclarationFault, JudgeContext, SimulatedEffects, TokenMove};
use crate::account::AccountKind;
use crate::across_calls;
use crate::custody::safe;
use crate::lending_calls;
use crate::position_calls;
use crate::proposal::{LegPurpose, ProposalIntent};
use crate::registry_calls;
use crate::revocation;
use crate::signing_payload::{PayloadLeg, SigningPayload};
use crate::typed::TypedMessage;
use crate::vault_calls;
use crate::vault_management;
use crate::wrapping::only_wraps;
use bardo_abi::permit2::Permit2;
use bardo_base::model::{ActionClass, RuleName};
use golem_chain::fork::{
    ExecutionStatus, NftChange, RevertReason, SimulatedOutcome, Simulation, StateChanges, StorageWrite,
};
use golem_chain::token::TokenId;
use golem_protocols::aave::call::LendingCall;
use golem_protocols::uniswap::positions::{ChangeKind, PositionChange};

/// Compares a simulation of the transactions from index `from` with the declaration. The returned [`SimulatedEffects`]
/// is valid even if there are faults, so that both can be shown.
pub fn judge(
    payload: &SigningPayload,
    from: usize,
    mut simulation: Simulation,
    base_fee: u64,
    around: &JudgeContext,
) -> (SimulatedEffects, Vec<DeclarationFault>) {
    let proposal = payload.proposal();
    if proposal.intent == ProposalIntent::PolicyCage {
        // The contract is not a token and does not answer a token's queries; `safety::calldata` reads its calldata
        // back.
        let cage = |contract| proposal.legs.iter().any(|leg| leg.to == contract);
        simulation.changes.unreadable.retain(|silent| !cage(silent.contract));
    }
    // The registries of agents have no allowances, and two of them no tokens, so they do not answer a token's queries
    // either. Their calls are decoded, and the agents that move must be seen to move.
    let registries = &around.registries;
    simulation.changes.unreadable.retain(|silent| !registry_calls::is_called(proposal, registries, silent.contract));
    // A position manager's tokens are single ones, so it does not answer a token's queries.
    let is_manager = |contract| around.position_managers.contains(contract);
    let withdraws = position_calls::plan(proposal, around.position_managers).is_some();
    simulation.changes.unreadable.retain(|silent| !(withdraws && is_manager(silent.contract)));
    // Nor do the lending pool and its debts, which have no allowances; what they note is compared with the calldata.
    simulation.changes.unreadable.retain(|silent| !lending_calls::writes(silent.contract, proposal, around));
    // What an asynchronous vault notes of a request looks like a balance of several tokens, which it does not have. Over its own
    // shares it has all power anyway.
    simulation.changes.unreadable.retain(|silent| !vault_calls::notes(silent.contract, proposal));
    let judge = Judge { payload, from, simulation: &simulation, base_fee, around };
    let mut faults = Vec::new();
    judge.outcomes(&mut faults);
    judge.plan(&mut faults);
    let (moves, paid) = (judge.moves(payload.account()), judge.paid());
    // An action that did not run to its end has no inflows. Reporting that as well would hide the cause.
    if judge.ran() {
        for one in payload.exposed() {
            judge.account(one, &mut faults);
            judge.balances(one, &mut faults);
            judge.allowances(one, &mut faults);
            judge.everything_else(one, &mut faults);
        }
        judge.approvals(&mut faults);
        judge.agents(&mut faults);
        faults.extend(judge.lending());
        judge.inflows_of_others(&mut faults);
        judge.recipients(&paid, &mut faults);
    }
    let (class, leaves, only_revokes) = judge.class(&moves);
    let gas_cost = judge.gas_cost();
    let (pinned, gas_used) = (simulation.pinned, judge.gas_used());
    let simulated = SimulatedEffects {
        pinned,
        gas_used,
        gas_cost,
        class,
        leaves: leaves && faults.is_empty(),
        reduce_only: false,
        only_revokes: only_revokes && faults.is_empty(),
        lending: None,
        moves,
        paid,
        simulation,
    };
    (simulated, faults)
}

/// Alternative that would pass where a contract reverts.
fn passes(reason: &RevertReason) -> &'static str {
    reason
        .meaning()
        .map_or("the same when the contract no longer refuses it, or another action", |known| known.would_pass)
}

struct Judge<'a> {
    payload: &'a SigningPayload,
    from: usize,
    simulation: &'a Simulation,
    base_fee: u64,
    around: &'a JudgeContext,
}

impl Judge<'_> {
    fn changes(&self) -> &StateChanges {
        &self.simulation.changes
    }

    fn legs(&self) -> impl Iterator<Item = (usize, &PayloadLeg, Option<&SimulatedOutcome>)> {
        let outcomes = self.simulation.outcomes.iter().map(Some).chain(std::iter::repeat(None));
        self.payload.legs().iter().enumerate().skip(self.from).zip(outcomes).map(|((at, leg), end)| (at, leg, end))
    }

    /// Gas cost of the simulated transactions in wei, at the payload's maximum priority fee, as the chain charges it
    /// ([EIP-1559](https://eips.ethereum.org/EIPS/eip-1559)).
    fn gas_cost(&self) -> U256 {
        let bound = self.payload.fees();
        let tipped = u128::from(self.base_fee).saturating_add(bound.max_priority_fee_per_gas);
        let price = U256::from(bound.max_fee_per_gas.min(tipped));
        U256::from(self.gas_used()).saturating_mul(price)
    }

    /// Gas used by the account's own transactions. A filler pays for an order's settlement.
    fn gas_used(&self) -> u64 {
        let own = self.legs().filter_map(|(_, _, end)| end);
        own.fold(0, |sum, end| sum.saturating_add(end.gas_used))
    }

    /// True if every transaction, and the settlement of an order, succeeded. Otherwise [`Self::outcomes`] reports a
    /// fault.
    fn ran(&self) -> bool {
        let ended = &self.simulation.outcomes;
        let own = self.legs().count();
        let all = if self.payload.order().is_some() { ended.len() > own } else { ended.len() >= own };
        all && ended.iter().all(|end| end.status == ExecutionStatus::Success)
    }

    /// Requires that every transaction is simulated and succeeds, and that every change could be read.
    fn outcomes(&self, faults: &mut Vec<DeclarationFault>) {
        for (at, leg, end) in self.legs() {
            match end.map(|end| &end.status) {
                Some(ExecutionStatus::Success) => {}
                Some(ExecutionStatus::Reverted(reason)) => {
                    let found = format!("transaction {} reverts: {reason}", at + 1);
                    let fault = DeclarationFault::new(RuleName::Simulation, "every transaction succeeds", found);
                    faults.push(fault.passing(passes(reason)));
                }
                Some(ExecutionStatus::Halted(why)) => {
                    let found = format!("transaction {} halts within its {} gas: {why}", at + 1, leg.gas_limit);
                    let fault = DeclarationFault::new(RuleName::Simulation, "every transaction succeeds", found);
                    faults.push(fault.passing("an action that can run within its gas"));
                }
                None => faults.push(DeclarationFault::new(
                    RuleName::Simulation,
                    "every transaction is simulated",
                    format!("transaction {} was not", at + 1),
                )),
            }
        }
        let own = self.legs().count();
        if self.payload.order().is_some() && self.simulation.outcomes.len() <= own {
            faults.push(DeclarationFault::new(
                RuleName::Simulation,
                "the order's settlement is simulated",
                "it was not",
            ));
        }
        for end in self.simulation.outcomes.iter().skip(own) {
            // Without an order, these are the reads of the lending market.
            let (what, other) = match self.payload.order() {
                Some(_) => ("the order can be settled at its worst", "an order that can be settled"),
                None => ("the debt can be read afterwards", "the same when the lending market can be read"),
            };
            let (why, would_pass) = match &end.status {
                ExecutionStatus::Success => continue,
                ExecutionStatus::Reverted(reason) => (format!("it reverts: {reason}"), passes(reason)),
                ExecutionStatus::Halted(why) => (format!("it halts: {why}"), other),
            };
            faults.push(DeclarationFault::new(RuleName::Simulation, what, why).passing(would_pass));
        }
        for gap in &self.changes().gaps {
            faults.push(DeclarationFault::new(
                RuleName::SimulationComplete,
                "every change is traced",
                format!("{gap:?}"),
            ));
        }
        for silent in &self.changes().unreadable {
            let found = format!("{} does not respond to {}: {:?}", silent.contract, silent.question, silent.failure);
            faults.push(DeclarationFault::new(RuleName::SimulationComplete, "every token responds", found));
        }
    }

    /// Allows one main transaction at most; the others may only set and revoke allowances.
    fn plan(&self, faults: &mut Vec<DeclarationFault>) {
        let mains = self.payload.legs().iter().filter(|leg| leg.purpose == LegPurpose::Main).count();
        let mains = mains + usize::from(self.payload.order().is_some());
        if mains > 1 {
            faults.push(DeclarationFault::new(
                RuleName::Plan,
                "one transaction that moves tokens",
                format!("{mains} of them"),
            ));
        }
        for (at, leg, end) in self.legs() {
            let Some(changes) = end.and_then(|end| end.changes.as_ref()) else { continue };
            let gained_or_lost = changes
                .balances
                .iter()
                .filter(|change| self.payload.exposed().contains(&change.holder) && change.balance.moved());
            if leg.purpose != LegPurpose::Main {
                for change in gained_or_lost {
                    faults.push(DeclarationFault::new(
                        RuleName::Plan,
                        "transactions beside the main one move no tokens",
                        format!("transaction {} moves {}", at + 1, self.name(TokenId::Erc20(change.token))),
                    ));
                }
            }
            for change in &changes.allowances {
                if self.payload.exposed().contains(&change.owner) && change.allowance.after > change.allowance.before {
                    self.temporary_allowance(at, change.token, change.spender, change.allowance.after, faults);
                }
            }
            for change in &changes.permit2_allowances {
                let (before, after) = (&change.allowance.before, &change.allowance.after);
                if self.payload.exposed().contains(&change.owner) && after.amount > before.amount {
                    self.temporary_allowance(at, change.token, change.spender, after.amount, faults);
                }
            }
        }
    }

    fn outflow(&self, token: TokenId) -> U256 {
        if !self.includes_main() {
            return U256::ZERO;
        }
        let flows = self.payload.proposal().outflows.iter().filter(|flow| flow.token.id == token);
        flows.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount))
    }

    /// Returns the least amount of a token that an address must receive; `None` if none is declared.
    fn inflow(&self, token: TokenId, to: Address) -> Option<U256> {
        let to_come = self.includes_main();
        let inflows = self.payload.proposal().inflows.iter();
        inflows
            .filter(|inflow| to_come && inflow.token.id == token && inflow.recipient == to)
            .fold(None, |sum, inflow| Some(sum.unwrap_or(U256::ZERO).saturating_add(inflow.at_least)))
    }

    /// True if the main transaction, or an order, is part of the simulation.
    fn includes_main(&self) -> bool {
        self.payload.order().is_some()
            || self.payload.legs().iter().skip(self.from).any(|leg| leg.purpose == LegPurpose::Main)
    }

    /// Balance change of `holder` in `token`, without gas; `None` if the token was not seen to move.
    fn moved(&self, token: TokenId, holder: Address) -> Option<TokenMove> {
        match token {
            TokenId::Native => {
                let change = self.changes().account(holder)?;
                let gas = if holder == self.payload.payer() { self.gas_cost() } else { U256::ZERO };
                // A native balance cannot come near 2^256.
                let after = change.balance.after.saturating_add(gas);
                Some(TokenMove { token, before: change.balance.before, after })
            }
            TokenId::Erc20(address) => {
                let change = self.changes().balance(address, holder)?;
                Some(TokenMove { token, before: change.before, after: change.after })
            }
        }
    }

    /// Checks native balance, nonce, code and delegation of an exposed account.
    fn account(&self, one: Address, faults: &mut Vec<DeclarationFault>) {
        let sent = if one == self.payload.signer() { self.legs().count() as u64 } else { 0 };
        let Some(change) = self.changes().account(one) else {
            if sent > 0 {
                faults.push(DeclarationFault::new(
                    RuleName::Nonce,
                    format!("{sent} transactions sent by {one}"),
                    "none",
                ));
            }
            return;
        };
        let used = change.nonce.after.checked_sub(change.nonce.before);
        if used != Some(sent) {
            faults.push(DeclarationFault::new(
                RuleName::Nonce,
                format!("{sent} transactions sent by {one}"),
                format!("its nonce goes from {} to {}", change.nonce.before, change.nonce.after),
            ));
        }
        if change.code_hash.moved() {
            faults.push(DeclarationFault::new(RuleName::Code, format!("the code of {one} stays"), "it changes"));
        }
        if change.delegation.moved() {
            let to = change.delegation.after.map_or("nobody".to_owned(), |to| to.to_string());
            faults.push(DeclarationFault::new(
                RuleName::Delegation,
                format!("the delegation of {one} stays"),
                format!("to {to}"),
            ));
        }
        self.check_bounds(one, TokenId::Native, faults);
    }

    fn balances(&self, one: Address, faults: &mut Vec<DeclarationFault>) {
        let proposal = self.payload.proposal();
        let declared = proposal.outflows.iter().map(|flow| flow.token.id);
        let declared = declared.chain(proposal.inflows.iter().map(|inflow| inflow.token.id));
        let found = self.changes().balances.iter().filter(|change| change.holder == one);
        let tokens: BTreeSet<TokenId> = declared
            .filter(|token| *token != TokenId::Native)
            .chain(
                found
                    .filter(|change| !self.counts_agents(change.token, one) && !self.is_record(change.token, one))
                    .map(|change| TokenId::Erc20(change.token)),
            )
            .collect();
        for token in tokens {
            self.check_bounds(one, token, faults);
        }
        // Without an account entry, the native balance was not touched.
        if self.changes().account(one).is_none()
            && let Some(least) = self.inflow(TokenId::Native, one).filter(|least| !least.is_zero())
        {
            let declared = format!("at least {} to {one}", self.figure(TokenId::Native, least));
            faults.push(DeclarationFault::new(RuleName::Inflow, declared, "nothing"));
        }
    }

    /// Formats an amount of a token for display.
    fn figure(&self, token: TokenId, raw: U256) -> String {
        figure(self.payload.proposal(), token, raw)
    }

    fn name(&self, token: TokenId) -> String {
        name(self.payload.proposal(), token)
    }

    /// Requires that no more leaves than declared, that no less arrives, and that nothing undeclared arrives.
    fn check_bounds(&self, one: Address, token: TokenId, faults: &mut Vec<DeclarationFault>) {
        let is_account = one == self.payload.account();
        let out = if is_account { self.outflow(token) } else { U256::ZERO };
        let least = self.inflow(token, one);
        let Some(moved) = self.moved(token, one) else {
            if let Some(least) = least.filter(|least| !least.is_zero()) {
                let declared = format!("at least {} to {one}", self.figure(token, least));
                faults.push(DeclarationFault::new(RuleName::Inflow, declared, "nothing"));
            }
            return;
        };
        if moved.after < moved.before && least.is_none_or(|least| least.is_zero()) {
            let lost = moved.before.saturating_sub(moved.after);
            if lost > out {
                let declared = format!("at most {} from {one}", self.figure(token, out));
                faults.push(DeclarationFault::new(RuleName::Outflow, declared, self.figure(token, lost)));
            }
            return;
        }
        match least {
            Some(least) => {
                // Both bounds of one token are checked together: after + out ≥ before + least.
                let enough = moved.after.saturating_add(out) >= moved.before.saturating_add(least);
                if !enough {
                    let added = moved.after.saturating_sub(moved.before);
                    let (told, declared) = (self.figure(token, added), self.figure(token, least));
                    let fault = DeclarationFault::new(RuleName::Inflow, format!("at least {declared} to {one}"), &told);
                    faults.push(match added.is_zero() {
                        true => fault,
                        false => fault.passing(format_args!("a minimum of {told} or less, as in a new quote")),
                    });
                }
            }
            None if moved.after > moved.before => {
                let added = self.figure(token, moved.after.saturating_sub(moved.before));
                faults.push(DeclarationFault::new(
                    RuleName::UndeclaredInflow,
                    format!("nothing of {} to {one}", self.name(token)),
                    added,
                ));
            }
            None => {}
        }
    }

    /// Checks declared inflows of addresses that are not exposed.
    fn inflows_of_others(&self, faults: &mut Vec<DeclarationFault>) {
        let exposed = self.payload.exposed();
        let mut seen = BTreeSet::new();
        for inflow in &self.payload.proposal().inflows {
            let key = (inflow.token.id, inflow.recipient);
            if !exposed.contains(&inflow.recipient) && seen.insert(key) {
                self.check_bounds(inflow.recipient, inflow.token.id, faults);
            }
        }
    }

    /// Rejects changes to anything else that an account can own or approve. No tool declares such changes.
    fn everything_else(&self, one: Address, faults: &mut Vec<DeclarationFault>) {
        let changes = self.changes();
        for change in changes.permit2_nonces.iter().filter(|change| change.owner == one && change.bits.moved()) {
            let used = change.bits.before ^ change.bits.after;
            if used != self.signed_bits(one, change.word) {
                faults.push(DeclarationFault::new(
                    RuleName::Permit2Nonce,
                    "only the nonces signed here are used",
                    format!("word {}: {used:#x}", change.word),
                ));
            }
        }
        for change in changes.permit_nonces.iter().filter(|change| change.owner == one && change.nonce.moved()) {
            faults.push(DeclarationFault::new(
                RuleName::PermitNonce,
                format!("that of {} stays", change.token),
                change.nonce.after,
            ));
        }
        for change in changes.account_nonces.iter().filter(|change| change.account == one && change.nonce.moved()) {
            let rule = format!("that at {} stays", change.entry_point);
            faults.push(DeclarationFault::new(RuleName::AccountNonce, rule, change.nonce.after));
        }
        for change in changes.operators.iter().filter(|change| change.owner == one && change.approved.moved()) {
            let found = format!("{} becomes {}", change.operator, change.approved.after);
            faults.push(DeclarationFault::new(
                RuleName::Operator,
                format!("the operators of {} stay", change.collection),
                found,
            ));
        }
        let mut is_registered = false;
        for change in &changes.nft_owners {
            if change.who.moved() && (change.who.before == one || change.who.after == one) {
                // One registration creates one agent.
                let is_new = change.who.before.is_zero();
                if self.declares_agent(change) && !(is_new && is_registered) {
                    is_registered |= is_new;
                    continue;
                }
                let found = format!("{} {} goes to {}", change.collection, change.id, change.who.after);
                faults.push(DeclarationFault::new(RuleName::Nft, "no single token (NFT) moves", found));
            }
        }
        for change in &changes.nft_approvals {
            // The token's owner is not known here, so every approval counts.
            if change.who.moved() && !change.who.after.is_zero() {
                let found = format!("{} may take {} {}", change.who.after, change.collection, change.id);
                faults.push(DeclarationFault::new(RuleName::Nft, "no allowance for a single token (NFT)", found));
            }
        }
        for change in changes.multi_balances.iter().filter(|change| change.holder == one && change.balance.moved()) {
            let found = format!("{} {}: {}", change.collection, change.id, change.balance.after);
            faults.push(DeclarationFault::new(RuleName::Nft, "no multi-token (ERC-1155) moves", found));
        }
        // PolicyCage stores the rules that its calldata contains; `safety::calldata` reads them back.
        let legs = &self.payload.proposal().legs;
        let by_policy_cage = |at: Address| {
            self.payload.proposal().intent == ProposalIntent::PolicyCage && legs.iter().any(|leg| leg.to == at)
        };
        // A registry of agents stores what its calldata contains, which was decoded.
        let by_registry = |at: Address| registry_calls::is_called(self.payload.proposal(), &self.around.registries, at);
        // So does the position manager, whose tokens were compared one by one.
        let by_manager = |at: Address| self.around.position_managers.contains(at) && self.position_plan().is_some();
        // And the lending pool with its records, whose balances were compared.
        let by_pool = |at: Address| lending_calls::writes(at, self.payload.proposal(), self.around);
        // And an asynchronous vault with its requests; its shares were compared.
        let by_vault = |at: Address| vault_calls::notes(at, self.payload.proposal());
        let is_declared =
            |at: Address| by_policy_cage(at) || by_registry(at) || by_manager(at) || by_pool(at) || by_vault(at);
        // A Safe counts its calls; each other slot decides who may act for it.
        let simulated = self.payload.legs().len().saturating_sub(self.from);
        let by_safe = |write: &StorageWrite| {
            self.payload.kind() == AccountKind::Safe && safe::counts(self.payload.account(), write, simulated)
        };
        let unexplained = changes.unexplained().filter(|write| write.concerns(one) && !is_declared(write.account));
        let unexplained = unexplained.filter(|write| !by_safe(write));
        for write in unexplained {
            let found = format!("{} writes slot {:#x}", write.account, write.slot);
            faults.push(DeclarationFault::new(
                RuleName::UnexplainedWrite,
                format!("no unexplained write concerns {one}"),
                found,
            ));
        }
    }

    /// Requires that the agent of a registration or a transfer is seen to move.
    fn agents(&self, faults: &mut Vec<DeclarationFault>) {
        let (proposal, registries) = (self.payload.proposal(), &self.around.registries);
        let is_seen = self.changes().nft_owners.iter().any(|change| change.who.moved() && self.declares_agent(change));
        if self.includes_main() && registry_calls::moves_an_agent(proposal, registries) && !is_seen {
            faults.push(DeclarationFault::new(
                RuleName::Nft,
                "the agent goes to its declared owner",
                "it does not move",
            ));
        }
        let managers = self.around.position_managers;
        if let Some(declared) = position_calls::moves_a_token(proposal, managers)
            && self.includes_main()
            && !is_seen
        {
            faults.push(DeclarationFault::new(RuleName::Nft, declared, "it does not move"));
        }
    }

    /// Returns true if the calldata declares that a single token moves so.
    fn declares_agent(&self, change: &NftChange) -> bool {
        let proposal = self.payload.proposal();
        registry_calls::declares(proposal, &self.around.registries, change)
            || position_calls::declares(proposal, self.around.position_managers, change)
    }

    /// Returns the faults of a lending action's changes.
    fn lending(&self) -> Vec<DeclarationFault> {
        let shows = self.includes_main() && self.ran();
        lending_calls::faults(self.payload.proposal(), self.around, self.simulation, shows)
    }

    /// Returns true if `token` stands for a supply or a debt of `holder` that the action changes.
    fn is_record(&self, token: Address, holder: Address) -> bool {
        holder == self.payload.account() && lending_calls::is_record(token, self.payload.proposal(), self.around)
    }

    /// Change of a liquidity position that the calldata declares.
    fn position_plan(&self) -> Option<PositionChange> {
        position_calls::plan(self.payload.proposal(), self.around.position_managers)
    }

    /// Returns true for a deposit into a position that the account has.
    fn increases(&self) -> bool {
        let kind = self.position_plan().map(|plan| plan.kind());
        matches!(kind, Some(ChangeKind::Increase | ChangeKind::Compound))
    }

    /// Returns true if the balance of `holder` in `collection` is the number of agents or positions that it has by the
    /// calldata. They themselves are checked one by one.
    fn counts_agents(&self, collection: Address, holder: Address) -> bool {
        let Some(balance) = self.changes().balance(collection, holder) else { return false };
        let (proposal, registries) = (self.payload.proposal(), &self.around.registries);
        let counted = (collection, holder);
        let after = registry_calls::agents_after(proposal, registries, counted, balance.before).or_else(|| {
            position_calls::positions_after(proposal, self.around.position_managers, counted, balance.before)
        });
        after == Some(balance.after)
    }

    /// Bits of one word of Permit2's nonce bitmap that the payload's signatures use up.
    fn signed_bits(&self, owner: Address, word: U256) -> U256 {
        let slots = self.legs().flat_map(|(_, leg, _)| &leg.slots).filter(|slot| slot.signer == owner);
        let order = self.payload.order().filter(|order| order.signer == owner);
        let nonces = slots.map(|slot| &slot.message).chain(order.map(|order| &order.message));
        let nonces = nonces.filter_map(TypedMessage::unordered_nonce);
        // Nonces that the account invalidates itself are declared by that call.
        let void = self.voided().filter(|call| call.wordPos == word).fold(U256::ZERO, |bits, call| bits | call.mask);
        nonces
            .filter(|nonce| (*nonce >> 8usize) == word)
            .fold(void, |bits, nonce| bits | (U256::from(1u8) << (nonce & U256::from(0xffu8)).saturating_to::<usize>()))
    }

    /// Returns the calls by which the account invalidates its own signatures.
    fn voided(&self) -> impl Iterator<Item = Permit2::invalidateUnorderedNoncesCall> {
        let own = self.payload.proposal().legs.iter().filter(|leg| Some(leg.to) == self.around.permit2);
        own.filter_map(|leg| Permit2::invalidateUnorderedNoncesCall::abi_decode(&leg.data).ok())
    }

    /// Returns every balance of `holder` that moved, without gas.
    fn moves(&self, holder: Address) -> Vec<TokenMove> {
        let tokens = self.changes().balances.iter().filter(|change| change.holder == holder);
        let tokens =
            tokens.filter(|change| !self.counts_agents(change.token, holder) && !self.is_record(change.token, holder));
        let tokens = tokens.map(|change| TokenId::Erc20(change.token));
        let all: BTreeSet<TokenId> = std::iter::once(TokenId::Native).chain(tokens).collect();
        let moves = all.into_iter().filter_map(|token| self.moved(token, holder));
        moves.filter(|moved| moved.before != moved.after).collect()
    }

    /// Returns every address that is not exposed and owns more of something than before.
    fn paid(&self) -> Vec<Address> {
        let exposed = self.payload.exposed();
        let tokens = self.changes().balances.iter().filter(|change| change.balance.after > change.balance.before);
        let coins = self.changes().accounts.iter().filter(|change| change.balance.after > change.balance.before);
        let all: BTreeSet<Address> =
            tokens.map(|change| change.holder).chain(coins.map(|change| change.account)).collect();
        all.into_iter().filter(|one| !exposed.contains(one)).collect()
    }

    /// If nothing comes back to the account, every address that receives an outgoing token must be a named recipient.
    fn recipients(&self, paid: &[Address], faults: &mut Vec<DeclarationFault>) {
        let proposal = self.payload.proposal();
        let comes_back = proposal.inflows.iter().any(|inflow| inflow.recipient == proposal.account);
        if comes_back || proposal.outflows.is_empty() {
            return;
        }
        let given: BTreeSet<TokenId> = proposal.outflows.iter().map(|flow| flow.token.id).collect();
        // The settler holds the tokens until the order is filled; its code is known.
        let settler = self.payload.order().and_then(|order| super::settler(&order.message)).map(|(_, at)| at);
        // A deposit goes to the pool of its tokens and fee, whose address follows from them.
        let pool = self.around.deposit_pool.filter(|_| self.position_plan().is_some_and(|plan| !plan.is_exit()));
        // A bridge's pool keeps the deposit until it is filled or paid back.
        let bridge = across_calls::keeper(proposal);
        let keeps = |one: Address| {
            settler == Some(one)
                || pool == Some(one)
                || bridge == Some(one)
                || lending_calls::keeps(one, proposal, self.around)
                || vault_calls::keeps(one, proposal)
                || vault_management::keeps(one, proposal)
        };
        for one in paid.iter().filter(|one| !proposal.recipients.contains(one) && !keeps(**one)) {
            let gets = given.iter().any(|token| {
                let gain =
                    self.moved(*token, *one).map_or(U256::ZERO, |moved| moved.after.saturating_sub(moved.before));
                // The block's fee recipient receives tips, which are not a payment.
                let tips = *token == TokenId::Native && self.around.producer == Some(*one) && gain <= self.gas_cost();
                !gain.is_zero() && !tips
            });
            if gets {
                faults.push(DeclarationFault::new(
                    RuleName::Recipient,
                    "only the declared recipients receive anything",
                    one,
                ));
            }
        }
    }

    /// Returns true if the action only wraps or unwraps the native token, and the simulation moved exactly its amount.
    fn wraps(&self, lost: &[&TokenMove], gained: &[&TokenMove]) -> bool {
        let (Some(found), [out], [into]) = (only_wraps(self.payload.proposal(), self.around.wrapped), lost, gained)
        else {
            return false;
        };
        (out.token, out.before.saturating_sub(out.after)) == (found.given, found.amount)
            && (into.token, into.after.saturating_sub(into.before)) == (found.received, found.amount)
    }

    /// Returns the class, and whether the action is an exit and whether it only revokes. Calldata and intent bound all
    /// three: data from an endpoint can make an action stricter, never looser.
    fn class(&self, moves: &[TokenMove]) -> (ActionClass, bool, bool) {
        let more_allowed = self.more_allowed();
        let lost: Vec<&TokenMove> = moves.iter().filter(|moved| moved.after < moved.before).collect();
        let gained: Vec<&TokenMove> = moves.iter().filter(|moved| moved.after > moved.before).collect();
        let arrives = self.payload.proposal().bridged().is_some();
        let class = match self.payload.proposal().intent {
            // The outflow arrives on another chain; its value is checked like a trade's.
            ProposalIntent::Bridge if arrives && gained.is_empty() && !more_allowed => ActionClass::Rebalance,
            // The same holding in another form, unit for unit.
            ProposalIntent::Wrap if self.wraps(&lost, &gained) && !more_allowed => ActionClass::ReadOnly,
            // What leaves goes into a position that the account has.
            ProposalIntent::Liquidity if self.increases() && gained.is_empty() && !more_allowed => {
                ActionClass::IncreasePosition
            }
            // What the calldata says, once the changes of supply and debt were found to be those.
            ProposalIntent::Lending if self.includes_main() => {
                let shown = self.ran() && !more_allowed && self.lending().is_empty();
                let class = lending_calls::class(self.payload.proposal(), self.around).filter(|_| shown);
                class.unwrap_or(ActionClass::NewPosition)
            }
            // What the calldata says; how much of the shares goes, the simulation shows.
            ProposalIntent::Vault if self.includes_main() => match vault_calls::plan(self.payload.proposal()) {
                Some(plan) if plan.is_exit() && self.ran() && !more_allowed => {
                    let all = lost.iter().any(|moved| moved.token == plan.share() && moved.after.is_zero());
                    if all || plan.is_claim() && lost.is_empty() {
                        ActionClass::ClosePosition
                    } else {
                        ActionClass::DecreasePosition
                    }
                }
                Some(_) | None => ActionClass::NewPosition,
            },
            // A settlement that takes more than it brings gives up a part of what the vault is worth.
            ProposalIntent::VaultManagement if self.includes_main() => {
                let quiet = self.ran() && !more_allowed;
                match vault_management::class(self.payload.proposal()).filter(|_| quiet) {
                    Some(ActionClass::ReadOnly) if lost.is_empty() && gained.is_empty() => ActionClass::ReadOnly,
                    Some(ActionClass::ClosePosition) if lost.is_empty() => ActionClass::ClosePosition,
                    Some(ActionClass::ClosePosition) => ActionClass::DecreasePosition,
                    Some(_) | None => ActionClass::NewPosition,
                }
            }
            ProposalIntent::ProtocolFees | ProposalIntent::Hook => ActionClass::NewPosition,
            ProposalIntent::Swap
            | ProposalIntent::Approve
            | ProposalIntent::Revoke
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
            | ProposalIntent::Wrap => classify(&lost, &gained, more_allowed, self.around),
        };
        let revokes = revocation::only_revokes(self.payload.proposal(), self.from, self.around);
        let declared = declared_class(self.payload.proposal(), revokes, self.around);
        // Ordered from the riskiest class.
        let class = class.min(declared);
        let leaves = matches!(class, ActionClass::DecreasePosition | ActionClass::ClosePosition)
            && declared == ActionClass::ClosePosition
            && !revokes
            && !lost.is_empty()
            && !more_allowed;
        // A withdrawal from a position takes nothing from the account.
        let withdraws = matches!(class, ActionClass::DecreasePosition | ActionClass::ClosePosition)
            && self.position_plan().is_some_and(|plan| plan.is_exit())
            && lost.is_empty()
            && !more_allowed;
        // A withdrawal of a supply takes nothing from the account either, and a repayment no more than it owes less
        // afterwards. What they leave of the debt's security, `checks::lending` judges.
        let unwinds = matches!(class, ActionClass::DecreasePosition | ActionClass::ClosePosition)
            && !more_allowed
            && match lending_calls::plan_in(self.payload.proposal(), self.around) {
                Some(LendingCall::Withdraw { .. }) => lost.is_empty(),
                Some(LendingCall::Repay { .. }) => true,
                Some(LendingCall::Supply { .. } | LendingCall::Borrow { .. }) | None => false,
            };
        // A settled or cancelled request is the account's own.
        let claims = class == ActionClass::ClosePosition
            && vault_calls::plan(self.payload.proposal()).is_some_and(|plan| plan.is_claim())
            && lost.is_empty()
            && !more_allowed;
        let leaves = leaves || withdraws || unwinds || claims;
        // By the calldata, so that a refund or a cancellation may also be sped up under a stop.
        let refunds = revocation::only_refunds(self.payload.proposal(), self.from, self.around);
        // A transaction that only uses a nonce revokes nothing that a simulation could show.
        let uses_nonce = revocation::only_uses_nonces(self.payload.proposal(), self.from, self.around);
        let revoked = refunds || gained.is_empty() && (uses_nonce || self.has_revocation());
        let only_revokes = revokes && lost.is_empty() && !more_allowed && revoked;
        (class, leaves, only_revokes)
    }
}
