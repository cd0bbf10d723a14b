//! Who gets something by an action, or leave to take something, and was never seen here, or has an address that is easily
//! taken for one that was.

use std::collections::BTreeSet;

use alloy::primitives::Address;

use super::{Pipeline, Refusal};
use crate::approval::Reason;
use crate::facts::Facts;
use crate::framed::Framed;
use crate::grants;
use crate::ground::Ground;
use crate::paper::PaperLedger;
use crate::permit::{self, Party};
use bardo_base::error::ErrorCode;
use bardo_store::StoreError;

/// So many bytes at each end of an address are what people compare: four digits.
const COMPARED: usize = 2;

impl Pipeline {
    /// Why somebody who takes part in it is to be looked at.
    pub(super) fn parties(&self, framed: &Framed, facts: &Facts, ground: &Ground) -> Result<Vec<Reason>, Refusal> {
        // What only takes back gives nobody anything and lets nobody take.
        if facts.takes_back() {
            return Ok(Vec::new());
        }
        let proposal = framed.proposal();
        let own = framed.exposed();
        let contracts: BTreeSet<Address> = ground.network().book.contracts().map(|(_, address)| address).collect();
        let (receivers, spenders) = (grants::receivers(framed), grants::spenders(framed));
        let mut reasons = Vec::new();
        for who in receivers.iter().filter(|who| !own.contains(who)) {
            let received = |connection: &_| Party::Receiver.was(connection, proposal.chain_id, *who);
            if !self.inner.rules.knows_recipient(proposal.chain_id, *who) && !self.stored(received)?.contains(&true) {
                reasons.push(Reason::FirstPaid);
                break;
            }
        }
        let book = &ground.network().book;
        for who in spenders.iter().filter(|who| !own.contains(who) && !grants::known_spender(framed, book, **who)) {
            let taken = |connection: &_| Party::Spender.was(connection, proposal.chain_id, *who);
            if !self.inner.rules.knows_spender(proposal.chain_id, *who) && !self.stored(taken)?.contains(&true) {
                reasons.push(Reason::FirstAllowed);
                break;
            }
        }
        let mut known = self.inner.rules.acquaintances().map_err(unavailable)?;
        known.extend(self.stored(permit::parties)?.into_iter().flatten());
        known.extend(own);
        known.extend(contracts);
        known.extend(ground.network().book.tokens().iter().map(|token| token.address));
        for who in receivers.union(&spenders).filter(|who| !known.contains(*who)) {
            if let Some(known) = known.iter().find(|known| alike(*who, **known)) {
                reasons.push(Reason::Resembles { who: *who, known: *known });
            }
        }
        Ok(reasons)
    }

    /// Answers of the ledger and, on paper, of the real one too: its parties are known on paper.
    fn stored<T>(&self, ask: impl Fn(&rusqlite::Connection) -> Result<T, StoreError>) -> Result<Vec<T>, Refusal> {
        let real = self.inner.paper.as_ref().map(PaperLedger::real);
        let stores = std::iter::once(&self.inner.store).chain(real);
        stores.map(|store| store.read(&ask).map_err(unavailable)).collect()
    }
}

fn unavailable(error: StoreError) -> Refusal {
    Refusal::new(ErrorCode::StoreUnavailable, error)
}

/// Whether two addresses begin and end the same and are not the same: what somebody makes who wants theirs to be copied out
/// of a history in place of another.
fn alike(one: Address, other: Address) -> bool {
    one != other
        && one.first_chunk::<COMPARED>() == other.first_chunk()
        && one.last_chunk::<COMPARED>() == other.last_chunk()
}

#[cfg(test)]
mod tests {
    use alloy::primitives::address;

    use super::alike;

    #[test]
    fn four_digits_at_both_ends_make_a_lookalike() {
        let known = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
        assert!(alike(address!("70990000000000000000000000000000000079C8"), known));
        for other in [
            known,
            address!("70980000000000000000000000000000000079C8"),
            address!("70990000000000000000000000000000000079C9"),
            address!("07090000000000000000000000000000000079C8"),
            address!("70997970C51812dc3A010C7d01b50e0d17dc69C8"),
        ] {
            assert!(!alike(other, known), "{other}");
        }
    }
}
