//! Finds what a simulation changed for owners, without taking a token's events at their word.
//!
//! Which questions to ask comes from the storage slots that changed (through the hashes that lead
//! to them), from events, and from what the caller declares. What counts is only what the contracts
//! answer before and after. A storage write that no answer accounts for is reported as such.

use alloy::{
    primitives::{Address, B256, KECCAK256_EMPTY, Log, U256, map::HashSet},
    sol_types::{SolEvent, SolEventInterface as _},
};
use revm::state::AccountInfo;

use super::{
    call::Call,
    machine::Machine,
    outcome::{
        AccountChange, AllowanceChange, BalanceChange, Change, Changes, Explained, Failure, Gap, MultiBalanceChange,
        NftChange, NonceWordChange, OperatorChange, Permit2AllowanceChange, PermitNonceChange, StorageWrite,
        SupplyChange, Unreadable,
    },
    question::{Question, Reading},
    trail::{Trails, address_in, looks_hashed},
};
use crate::{
    abi::{
        erc20::Erc20,
        nft::{Erc721, Erc1155},
        permit2::Permit2,
    },
    chain::evm::EvmError,
};

/// What a caller wants to know about in any case: every declared token's balance of every declared
/// owner, and its allowance to every declared spender, whether they change or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// Token contracts.
    pub tokens: Vec<Address>,
    /// Holders of them.
    pub owners: Vec<Address>,
    /// Who could be allowed to take them.
    pub spenders: Vec<Address>,
}

/// Bounds on the questions asked to find changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Questions, each asked once per point in time.
    pub questions: usize,
    /// Gas one question may use.
    pub question_gas: u64,
    /// Gas all questions may use together.
    pub total_gas: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { questions: 1024, question_gas: 1_000_000, total_gas: 100_000_000 }
    }
}

/// Changes of each call, and of all together as the last element.
pub(super) fn find(
    machine: &mut Machine<'_>,
    calls: &[Call],
    logs: &[Log],
    watch: &Watch,
    limits: &Limits,
) -> Result<Vec<Changes>, EvmError> {
    let mut survey = Survey::new(machine, calls, limits)?;
    survey.first_round(calls, logs, watch);
    survey.ask(machine)?;
    survey.explain();
    if survey.second_round(calls) {
        survey.ask(machine)?;
        survey.explain();
    }
    let steps = calls.len();
    let mut found = Vec::with_capacity(steps + 1);
    if steps > 1 {
        found.extend((0..steps).map(|step| survey.changes(step, step + 1)));
    }
    found.push(survey.changes(0, steps));
    Ok(found)
}

struct Survey<'l> {
    limits: &'l Limits,
    /// Points in time: before the first call, and after each.
    points: usize,
    caller: Address,
    accounts: Vec<(Address, Vec<AccountInfo>)>,
    writes: Vec<Write>,
    asked: Vec<Asked>,
    /// Questions known, asked or not, to ask none twice.
    known: HashSet<Question>,
    /// Contracts that a caller or an event names as tokens, or that answered a balance question.
    tokens: HashSet<Address>,
    answering: HashSet<Address>,
    /// How many of `asked` have been asked and looked at.
    answered: usize,
    explained_up_to: usize,
    gas: u64,
    gaps: Vec<Gap>,
}

struct Write {
    account: Address,
    slot: U256,
    values: Vec<U256>,
    keys: Vec<U256>,
    /// Questions whose moving answer is computed from this slot.
    read_by: Vec<usize>,
}

struct Asked {
    question: Question,
    /// Whether no answer is worth a report even from a contract not known to be a token.
    insist: bool,
    /// The caller wants the answer even if nothing moved.
    declared: bool,
    readings: Vec<Reading>,
    reads: Vec<(Address, U256)>,
}

impl<'l> Survey<'l> {
    fn new(machine: &mut Machine<'_>, calls: &[Call], limits: &'l Limits) -> Result<Self, EvmError> {
        let mut touched: Vec<Address> = Vec::new();
        let mut slots: Vec<(Address, U256)> = Vec::new();
        for (address, account) in machine.calls().iter().flatten() {
            if account.is_touched() {
                touched.push(*address);
            }
            slots.extend(account.changed_storage_slots().map(|(slot, _)| (*address, *slot)));
        }
        touched.sort_unstable();
        touched.dedup();
        slots.sort_unstable();
        slots.dedup();
        let points = calls.len() + 1;
        let mut survey = Self {
            limits,
            points,
            caller: calls.first().map(|call| call.from).unwrap_or_default(),
            accounts: touched.into_iter().map(|address| (address, Vec::with_capacity(points))).collect(),
            writes: Vec::with_capacity(slots.len()),
            asked: Vec::with_capacity(16),
            known: HashSet::default(),
            tokens: HashSet::default(),
            answering: HashSet::default(),
            answered: 0,
            explained_up_to: 0,
            gas: 0,
            gaps: Vec::new(),
        };
        for point in 0..points {
            machine.turn_to(point);
            for (address, infos) in &mut survey.accounts {
                infos.push(machine.account(*address)?.unwrap_or_default());
            }
        }
        let mut writes: Vec<Write> = slots
            .into_iter()
            .map(|(account, slot)| Write {
                account,
                slot,
                values: Vec::with_capacity(points),
                keys: Vec::new(),
                read_by: Vec::new(),
            })
            .collect();
        for point in 0..points {
            machine.turn_to(point);
            for write in &mut writes {
                write.values.push(machine.storage(write.account, write.slot)?);
            }
        }
        if machine.recorder().overflowed() {
            survey.gaps.push(Gap::Preimages);
        }
        let trails = Trails::new(machine.recorder());
        for write in &mut writes {
            write.keys = trails.keys(write.slot);
        }
        survey.writes = writes;
        Ok(survey)
    }

    /// Questions from declarations, slots and events.
    fn first_round(&mut self, calls: &[Call], logs: &[Log], watch: &Watch) {
        for &token in &watch.tokens {
            self.tokens.insert(token);
            for &owner in &watch.owners {
                self.declare(Question::Balance { token, holder: owner });
                for &spender in &watch.spenders {
                    self.declare(Question::Allowance { token, owner, spender });
                }
            }
        }
        for log in logs {
            self.suggest_from(log);
        }
        let mut senders: Vec<Address> = Vec::new();
        for call in calls {
            if !senders.contains(&call.from) {
                senders.push(call.from);
            }
        }
        let mut contract = None;
        for index in 0..self.writes.len() {
            let Some(write) = self.writes.get(index) else { break };
            let account = write.account;
            let questions = from_keys(account, &write.keys);
            if contract != Some(account) {
                contract = Some(account);
                for &holder in &senders {
                    self.consider(Question::Balance { token: account, holder }, false);
                }
            }
            if let Some(question) = questions {
                self.consider(question, false);
            }
        }
    }

    /// Other readings of what the first round left unexplained; false if there is nothing to ask.
    fn second_round(&mut self, calls: &[Call]) -> bool {
        let before = self.asked.len();
        let mut involved: Option<Vec<Address>> = None;
        let answering: Vec<Address> = {
            let mut answering: Vec<Address> = self.answering.iter().copied().collect();
            answering.sort_unstable();
            answering
        };
        for index in 0..self.writes.len() {
            let Some(write) = self.writes.get(index) else { break };
            if !moved(&write.values) || !write.read_by.is_empty() {
                continue;
            }
            let (account, slot, keys) = (write.account, write.slot, write.keys.clone());
            let answers = self.answering.contains(&account);
            let addresses: Vec<Address> = keys.iter().filter_map(|key| address_in(*key)).collect();
            match (addresses.as_slice(), keys.as_slice()) {
                (&[owner, other], _) => {
                    self.consider(Question::Operator { collection: account, owner, operator: other }, false);
                    self.consider(Question::Operator { collection: account, owner: other, operator: owner }, false);
                    self.consider(Question::Allowance { token: account, owner: other, spender: owner }, false);
                    if !answers {
                        // A token that keeps its books in another contract.
                        for &token in &answering {
                            self.consider(Question::Allowance { token, owner, spender: other }, false);
                        }
                    }
                }
                (&[holder], &[_]) => {
                    self.consider(Question::PermitNonce { token: account, owner: holder }, false);
                    if !answers {
                        for &token in &answering {
                            self.consider(Question::Balance { token, holder }, false);
                        }
                    }
                }
                (&[holder], &[first, second]) => {
                    let id = if address_in(first).is_some() { second } else { first };
                    self.consider(Question::MultiBalance { collection: account, holder, id }, false);
                }
                (&[], &[id]) if answers => {
                    self.consider(Question::NftOwner { collection: account, id }, false);
                    self.consider(Question::NftApproved { collection: account, id }, false);
                }
                (&[], &[]) if answers && !looks_hashed(slot) => {
                    self.consider(Question::Supply { token: account }, false);
                }
                (&[], &[]) if answers => {
                    let involved = involved.get_or_insert_with(|| self.involved(calls));
                    for holder in involved.clone() {
                        self.consider(Question::Balance { token: account, holder }, false);
                    }
                }
                _ => {}
            }
        }
        self.asked.len() > before
    }

    /// Every account that took part, and every address in the calldata.
    fn involved(&self, calls: &[Call]) -> Vec<Address> {
        let mut involved: Vec<Address> = self.accounts.iter().map(|(address, _)| *address).collect();
        for call in calls {
            let words = call.data.get(4..).unwrap_or_default().chunks_exact(32);
            involved.extend(words.filter_map(U256::try_from_be_slice).filter_map(address_in));
        }
        involved.sort_unstable();
        involved.dedup();
        involved
    }

    /// Questions that an event suggests. Its claims are not used, only its addresses.
    fn suggest_from(&mut self, log: &Log) {
        let contract = log.address;
        let topics = log.topics();
        match topics {
            [Erc20::Transfer::SIGNATURE_HASH, rest @ ..] => {
                self.tokens.insert(contract);
                match rest {
                    [from, to, id @ ..] => {
                        self.insist_on_balance(contract, Address::from_word(*from));
                        self.insist_on_balance(contract, Address::from_word(*to));
                        if let [id] = id {
                            let id = U256::from_be_bytes(id.0);
                            self.consider(Question::NftOwner { collection: contract, id }, true);
                            self.consider(Question::NftApproved { collection: contract, id }, true);
                        }
                    }
                    // From before topics were agreed on: both addresses stand in the data.
                    _ => {
                        let words = log.data.data.chunks_exact(32).take(2).filter_map(U256::try_from_be_slice);
                        for holder in words.filter_map(address_in) {
                            self.insist_on_balance(contract, holder);
                        }
                    }
                }
            }
            [Erc20::Approval::SIGNATURE_HASH, owner, spender, id @ ..] => {
                self.tokens.insert(contract);
                match id {
                    [id] => {
                        let id = U256::from_be_bytes(id.0);
                        self.consider(Question::NftApproved { collection: contract, id }, true);
                    }
                    _ => {
                        let (owner, spender) = (Address::from_word(*owner), Address::from_word(*spender));
                        self.consider(Question::Allowance { token: contract, owner, spender }, true);
                    }
                }
            }
            [Erc721::ApprovalForAll::SIGNATURE_HASH, owner, operator, ..] => {
                let (owner, operator) = (Address::from_word(*owner), Address::from_word(*operator));
                self.consider(Question::Operator { collection: contract, owner, operator }, true);
            }
            [Erc1155::TransferSingle::SIGNATURE_HASH | Erc1155::TransferBatch::SIGNATURE_HASH, ..] => {
                let (from, to, ids) = match Erc1155::Erc1155Events::decode_log(log).map(|log| log.data) {
                    Ok(Erc1155::Erc1155Events::TransferSingle(event)) => (event.from, event.to, vec![event.id]),
                    Ok(Erc1155::Erc1155Events::TransferBatch(event)) => (event.from, event.to, event.ids),
                    Err(_) => return,
                };
                for id in ids {
                    for holder in [from, to].into_iter().filter(|holder| !holder.is_zero()) {
                        self.consider(Question::MultiBalance { collection: contract, holder, id }, true);
                    }
                }
            }
            _ => self.suggest_from_permit2(log),
        }
    }

    fn suggest_from_permit2(&mut self, log: &Log) {
        let permit2 = log.address;
        let Ok(event) = Permit2::Permit2Events::decode_log(log) else { return };
        let (owner, token, spender) = match event.data {
            Permit2::Permit2Events::Approval(event) => (event.owner, event.token, event.spender),
            Permit2::Permit2Events::Permit(event) => (event.owner, event.token, event.spender),
            Permit2::Permit2Events::Lockdown(event) => (event.owner, event.token, event.spender),
            Permit2::Permit2Events::NonceInvalidation(event) => (event.owner, event.token, event.spender),
            Permit2::Permit2Events::UnorderedNonceInvalidation(event) => {
                self.consider(Question::NonceWord { permit2, owner: event.owner, word: event.word }, true);
                return;
            }
        };
        self.consider(Question::Permit2Allowance { permit2, owner, token, spender }, true);
    }

    fn insist_on_balance(&mut self, token: Address, holder: Address) {
        // The zero address stands for minting and burning; many tokens refuse to speak of it.
        if !holder.is_zero() {
            self.consider(Question::Balance { token, holder }, true);
        }
    }

    fn consider(&mut self, question: Question, insist: bool) {
        if self.known.insert(question) {
            self.asked.push(Asked {
                question,
                insist,
                declared: false,
                readings: Vec::with_capacity(self.points),
                reads: Vec::new(),
            });
        }
    }

    fn declare(&mut self, question: Question) {
        if self.known.insert(question) {
            self.asked.push(Asked {
                question,
                insist: true,
                declared: true,
                readings: Vec::with_capacity(self.points),
                reads: Vec::new(),
            });
        }
    }

    /// Asks what has not been asked yet, at every point in time, within the limits.
    fn ask(&mut self, machine: &mut Machine<'_>) -> Result<(), EvmError> {
        if self.asked.len() > self.limits.questions {
            self.gap(Gap::Questions(self.asked.len() - self.limits.questions));
            self.asked.truncate(self.limits.questions);
        }
        let calldata: Vec<_> = self.asked.iter().skip(self.answered).map(|asked| asked.question.calldata()).collect();
        for point in 0..self.points {
            machine.turn_to(point);
            let mut left = 0;
            for (asked, calldata) in self.asked.iter_mut().skip(self.answered).zip(&calldata) {
                if self.gas >= self.limits.total_gas {
                    asked.readings.push(Reading::Failed(Failure::OutOfGas));
                    left += 1;
                    continue;
                }
                let contract = asked.question.contract();
                let (answer, gas) = machine.ask(self.caller, contract, calldata.clone(), self.limits.question_gas)?;
                self.gas = self.gas.saturating_add(gas);
                asked.reads.extend_from_slice(machine.reads());
                asked.readings.push(asked.question.read(&answer));
            }
            if left > 0 {
                self.gap(Gap::Gas(left));
            }
        }
        for asked in self.asked.iter().skip(self.answered) {
            if let Question::Balance { token, .. } = asked.question
                && asked
                    .readings
                    .iter()
                    .any(|reading| matches!(reading, Reading::Value(value) if !value.number().is_zero()))
            {
                self.answering.insert(token);
            }
        }
        self.answered = self.asked.len();
        Ok(())
    }

    /// Notes a bound that was hit; one of a kind, with the larger number.
    fn gap(&mut self, gap: Gap) {
        for known in &mut self.gaps {
            match (known, gap) {
                (Gap::Questions(known), Gap::Questions(left)) | (Gap::Gas(known), Gap::Gas(left)) => {
                    *known = left.max(*known);
                    return;
                }
                _ => {}
            }
        }
        self.gaps.push(gap);
    }

    /// Connects writes with the questions whose answers moved and are computed from them.
    fn explain(&mut self) {
        for (index, asked) in self.asked.iter().enumerate().skip(self.explained_up_to) {
            if !moved(&asked.readings) {
                continue;
            }
            for (account, slot) in &asked.reads {
                let at = self.writes.binary_search_by_key(&(*account, *slot), |write| (write.account, write.slot));
                if let Some(write) = at.ok().and_then(|at| self.writes.get_mut(at))
                    && write.read_by.last() != Some(&index)
                {
                    write.read_by.push(index);
                }
            }
        }
        self.explained_up_to = self.asked.len();
    }

    /// What differs between two points in time.
    fn changes(&self, from: usize, to: usize) -> Changes {
        let mut changes = Changes { gaps: self.gaps.clone(), ..Changes::default() };
        for (account, infos) in &self.accounts {
            let (Some(before), Some(after)) = (infos.get(from), infos.get(to)) else { continue };
            let change = AccountChange {
                account: *account,
                balance: Change { before: before.balance, after: after.balance },
                nonce: Change { before: before.nonce, after: after.nonce },
                code_hash: Change { before: code_hash(before), after: code_hash(after) },
                delegation: Change { before: delegation(before), after: delegation(after) },
            };
            if change.balance.moved() || change.nonce.moved() || change.code_hash.moved() {
                changes.accounts.push(change);
            }
        }
        for asked in &self.asked {
            self.report(asked, from, to, &mut changes);
        }
        for write in &self.writes {
            let (Some(&before), Some(&after)) = (write.values.get(from), write.values.get(to)) else { continue };
            if before != after {
                changes.writes.push(StorageWrite {
                    account: write.account,
                    slot: write.slot,
                    value: Change { before, after },
                    keys: write.keys.clone(),
                    explained: self.explanation(write, after.wrapping_sub(before), from, to),
                });
            }
        }
        changes
    }

    fn explanation(&self, write: &Write, delta: U256, from: usize, to: usize) -> Explained {
        let mut best = Explained::No;
        for asked in write.read_by.iter().filter_map(|index| self.asked.get(*index)) {
            let (Some(Reading::Value(before)), Some(Reading::Value(after))) =
                (asked.readings.get(from), asked.readings.get(to))
            else {
                continue;
            };
            if before == after {
                continue;
            }
            if after.stored().wrapping_sub(before.stored()) == delta {
                return Explained::Exactly;
            }
            best = Explained::Partly;
        }
        best
    }

    fn report(&self, asked: &Asked, from: usize, to: usize, changes: &mut Changes) {
        let (Some(earlier), Some(later)) = (asked.readings.get(from), asked.readings.get(to)) else { return };
        let (before, after) = match (earlier, later) {
            (Reading::Value(before), Reading::Value(after)) => (before, after),
            (Reading::Failed(failure), _) | (_, Reading::Failed(failure)) => {
                let contract = asked.question.contract();
                let of_a_token = matches!(asked.question, Question::Balance { .. })
                    && (self.tokens.contains(&contract) || self.answering.contains(&contract));
                if asked.insist || of_a_token {
                    changes.unreadable.push(Unreadable {
                        contract,
                        question: asked.question.describe(),
                        failure: *failure,
                    });
                }
                return;
            }
        };
        if before == after && !asked.declared {
            return;
        }
        let number = Change { before: before.number(), after: after.number() };
        match asked.question {
            Question::Balance { token, holder } => {
                changes.balances.push(BalanceChange { token, holder, balance: number });
            }
            Question::Allowance { token, owner, spender } => {
                changes.allowances.push(AllowanceChange { token, owner, spender, allowance: number });
            }
            Question::Permit2Allowance { permit2, owner, token, spender } => {
                let allowance = Change { before: before.permit2(), after: after.permit2() };
                changes.permit2_allowances.push(Permit2AllowanceChange { permit2, owner, token, spender, allowance });
            }
            Question::NonceWord { permit2, owner, word } => {
                changes.permit2_nonces.push(NonceWordChange { permit2, owner, word, bits: number });
            }
            Question::Supply { token } => changes.supplies.push(SupplyChange { token, supply: number }),
            Question::PermitNonce { token, owner } => {
                changes.permit_nonces.push(PermitNonceChange { token, owner, nonce: number });
            }
            Question::Operator { collection, owner, operator } => {
                let approved = Change { before: before.truth(), after: after.truth() };
                changes.operators.push(OperatorChange { collection, owner, operator, approved });
            }
            Question::NftOwner { collection, id } => {
                let who = Change { before: before.address(), after: after.address() };
                changes.nft_owners.push(NftChange { collection, id, who });
            }
            Question::NftApproved { collection, id } => {
                let who = Change { before: before.address(), after: after.address() };
                changes.nft_approvals.push(NftChange { collection, id, who });
            }
            Question::MultiBalance { collection, holder, id } => {
                changes.multi_balances.push(MultiBalanceChange { collection, holder, id, balance: number });
            }
        }
    }
}

/// The question that mapping keys suggest at first sight.
fn from_keys(contract: Address, keys: &[U256]) -> Option<Question> {
    match *keys {
        [holder] => Some(Question::Balance { token: contract, holder: address_in(holder)? }),
        [owner, second] => {
            let owner = address_in(owner)?;
            Some(match address_in(second) {
                Some(spender) => Question::Allowance { token: contract, owner, spender },
                None => Question::NonceWord { permit2: contract, owner, word: second },
            })
        }
        [owner, token, spender] => Some(Question::Permit2Allowance {
            permit2: contract,
            owner: address_in(owner)?,
            token: address_in(token)?,
            spender: address_in(spender)?,
        }),
        _ => None,
    }
}

fn moved<T: PartialEq>(values: &[T]) -> bool {
    values.windows(2).any(|pair| pair.first() != pair.last())
}

/// An account that does not exist has the hash of no code, as one without code has.
fn code_hash(info: &AccountInfo) -> B256 {
    if info.code_hash.is_zero() { KECCAK256_EMPTY } else { info.code_hash }
}

fn delegation(info: &AccountInfo) -> Option<Address> {
    info.code.as_ref().and_then(|code| code.eip7702_address())
}
