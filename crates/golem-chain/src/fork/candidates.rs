//! Selection of the queries that detect changes: from the caller's declarations, from storage slots with the mapping
//! keys that lead to them, and from events.
//!
//! A candidate is only a query. The claims of an event are not used, only the accounts it names;
//! [`changes`](super::changes) uses the answers alone.

use alloy::{
    primitives::{Address, Log, U256},
    sol_types::{SolEvent, SolEventInterface as _},
};

use super::{
    call::ForkCall,
    changes::{ChangeDetector, TrackedQuery, WatchList, moved},
    ownership_query::OwnershipQuery,
    storage_trace::{address_in, is_likely_hash},
};
use bardo_abi::{
    erc20::Erc20,
    nft::{Erc721, Erc1155},
    permit2::Permit2,
};

impl ChangeDetector<'_> {
    /// Adds queries from declarations, slots and events.
    pub(super) fn first_round(&mut self, calls: &[ForkCall], logs: &[Log], watch: &WatchList) {
        for &token in &watch.tokens {
            self.tokens.insert(token);
            for &owner in &watch.owners {
                self.declare(OwnershipQuery::Balance { token, holder: owner });
                for &spender in &watch.spenders {
                    self.declare(OwnershipQuery::Allowance { token, owner, spender });
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
                    self.consider(OwnershipQuery::Balance { token: account, holder }, false);
                }
            }
            if let Some(question) = questions {
                self.consider(question, false);
            }
        }
    }

    /// Adds alternative queries for writes that the first round left unexplained; false if there are none.
    pub(super) fn second_round(&mut self, calls: &[ForkCall]) -> bool {
        let before = self.queries.len();
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
            if let Some(question) = OwnershipQuery::account_nonce(account, &keys) {
                self.consider(question, false);
                continue;
            }
            let addresses: Vec<Address> = keys.iter().filter_map(|key| address_in(*key)).collect();
            match (addresses.as_slice(), keys.as_slice()) {
                (&[owner, other], _) => {
                    self.consider(OwnershipQuery::Operator { collection: account, owner, operator: other }, false);
                    self.consider(
                        OwnershipQuery::Operator { collection: account, owner: other, operator: owner },
                        false,
                    );
                    self.consider(OwnershipQuery::Allowance { token: account, owner: other, spender: owner }, false);
                    if !answers {
                        // The contract may be the storage of a token contract.
                        for &token in &answering {
                            self.consider(OwnershipQuery::Allowance { token, owner, spender: other }, false);
                        }
                    }
                }
                (&[holder], &[_]) => {
                    self.consider(OwnershipQuery::PermitNonce { token: account, owner: holder }, false);
                    if !answers {
                        for &token in &answering {
                            self.consider(OwnershipQuery::Balance { token, holder }, false);
                        }
                    }
                }
                (&[holder], &[first, second]) => {
                    let id = if address_in(first).is_some() { second } else { first };
                    self.consider(OwnershipQuery::MultiBalance { collection: account, holder, id }, false);
                }
                (&[], &[id]) if answers => {
                    self.consider(OwnershipQuery::NftOwner { collection: account, id }, false);
                    self.consider(OwnershipQuery::NftApproved { collection: account, id }, false);
                }
                (&[], &[]) if answers && !is_likely_hash(slot) => {
                    self.consider(OwnershipQuery::Supply { token: account }, false);
                }
                (&[], &[]) if answers => {
                    let involved = involved.get_or_insert_with(|| self.involved(calls));
                    for holder in involved.clone() {
                        self.consider(OwnershipQuery::Balance { token: account, holder }, false);
                    }
                }
                _ => {}
            }
        }
        self.queries.len() > before
    }

    /// All accounts that took part, and all addresses in the calldata.
    fn involved(&self, calls: &[ForkCall]) -> Vec<Address> {
        let mut involved: Vec<Address> = self.accounts.iter().map(|(address, _)| *address).collect();
        for call in calls {
            let words = call.data.get(4..).unwrap_or_default().chunks_exact(32);
            involved.extend(words.filter_map(U256::try_from_be_slice).filter_map(address_in));
        }
        involved.sort_unstable();
        involved.dedup();
        involved
    }

    /// Adds the queries that an event suggests. Only its addresses and ids are used.
    fn suggest_from(&mut self, log: &Log) {
        let contract = log.address;
        let topics = log.topics();
        match topics {
            [Erc20::Transfer::SIGNATURE_HASH, rest @ ..] => {
                self.tokens.insert(contract);
                match rest {
                    [from, to, id @ ..] => {
                        self.require_balance(contract, Address::from_word(*from));
                        self.require_balance(contract, Address::from_word(*to));
                        if let [id] = id {
                            let id = U256::from_be_bytes(id.0);
                            self.consider(OwnershipQuery::NftOwner { collection: contract, id }, true);
                            self.consider(OwnershipQuery::NftApproved { collection: contract, id }, true);
                        }
                    }
                    // Early tokens index no parameters: both addresses are in the data.
                    _ => {
                        let words = log.data.data.chunks_exact(32).take(2).filter_map(U256::try_from_be_slice);
                        for holder in words.filter_map(address_in) {
                            self.require_balance(contract, holder);
                        }
                    }
                }
            }
            [Erc20::Approval::SIGNATURE_HASH, owner, spender, id @ ..] => {
                self.tokens.insert(contract);
                match id {
                    [id] => {
                        let id = U256::from_be_bytes(id.0);
                        self.consider(OwnershipQuery::NftOwner { collection: contract, id }, true);
                        self.consider(OwnershipQuery::NftApproved { collection: contract, id }, true);
                    }
                    _ => {
                        let (owner, spender) = (Address::from_word(*owner), Address::from_word(*spender));
                        self.consider(OwnershipQuery::Allowance { token: contract, owner, spender }, true);
                    }
                }
            }
            [Erc721::ApprovalForAll::SIGNATURE_HASH, owner, operator, ..] => {
                let (owner, operator) = (Address::from_word(*owner), Address::from_word(*operator));
                self.consider(OwnershipQuery::Operator { collection: contract, owner, operator }, true);
            }
            [Erc1155::TransferSingle::SIGNATURE_HASH | Erc1155::TransferBatch::SIGNATURE_HASH, ..] => {
                let (from, to, ids) = match Erc1155::Erc1155Events::decode_log(log).map(|log| log.data) {
                    Ok(Erc1155::Erc1155Events::TransferSingle(event)) => (event.from, event.to, vec![event.id]),
                    Ok(Erc1155::Erc1155Events::TransferBatch(event)) => (event.from, event.to, event.ids),
                    Err(_) => return,
                };
                for id in ids {
                    for holder in [from, to].into_iter().filter(|holder| !holder.is_zero()) {
                        self.consider(OwnershipQuery::MultiBalance { collection: contract, holder, id }, true);
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
                self.consider(OwnershipQuery::NonceWord { permit2, owner: event.owner, word: event.word }, true);
                return;
            }
        };
        self.consider(OwnershipQuery::Permit2Allowance { permit2, owner, token, spender }, true);
    }

    fn require_balance(&mut self, token: Address, holder: Address) {
        // The zero address stands for minting and burning, and many tokens revert for it.
        if !holder.is_zero() {
            self.consider(OwnershipQuery::Balance { token, holder }, true);
        }
    }

    fn consider(&mut self, question: OwnershipQuery, must_answer: bool) {
        if self.known.insert(question) {
            self.queries.push(TrackedQuery::new(question, must_answer, false, self.points));
        }
    }

    fn declare(&mut self, question: OwnershipQuery) {
        if self.known.insert(question) {
            self.queries.push(TrackedQuery::new(question, true, true, self.points));
        }
    }
}

/// Most likely query for a slot with these mapping keys.
fn from_keys(contract: Address, keys: &[U256]) -> Option<OwnershipQuery> {
    match *keys {
        [holder] => Some(OwnershipQuery::Balance { token: contract, holder: address_in(holder)? }),
        [owner, second] => {
            let owner = address_in(owner)?;
            Some(match address_in(second) {
                Some(spender) => OwnershipQuery::Allowance { token: contract, owner, spender },
                None => OwnershipQuery::NonceWord { permit2: contract, owner, word: second },
            })
        }
        [owner, token, spender] => Some(OwnershipQuery::Permit2Allowance {
            permit2: contract,
            owner: address_in(owner)?,
            token: address_in(token)?,
            spender: address_in(spender)?,
        }),
        _ => None,
    }
}
