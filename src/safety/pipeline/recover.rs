//! What a crash left behind: permits that were used and never ended. Bytes that were stored are
//! followed, and sent again where no stop is in force; what was never stored was never sent. Nothing
//! is ever signed anew.

use alloy::primitives::B256;
use rusqlite::params;

use super::commit::Held;
use super::settle::end_of;
use super::{Pipeline, Refusal};
use crate::base::error::ErrorCode;
use crate::base::id::PermitId;
use crate::base::units::Usd;
use crate::chain::sender::{self, WaitRules};
use crate::safety::orders::record;
use crate::safety::permit::note_end;
use crate::safety::rulebook::{End, Reservation, ReserveError};
use crate::store::StoreError;

/// A nonce or a permit that nothing was stored for is left alone for so long, in milliseconds: another
/// program may be signing with it. Were it slower, storing its bytes would fail, and nothing be sent.
const LEAVE_ALONE: u64 = 30_000;

/// What became of one permit that a run before this one had used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Which.
    pub permit_id: PermitId,
    /// Its last transaction; `None` if nothing was ever signed under it, or kept.
    pub hash: Option<B256>,
    /// How it ended.
    pub end: End,
}

struct Left {
    permit_id: PermitId,
    chain_id: u64,
    held: Held,
    last: Option<B256>,
    consumed_at: u64,
}

impl Pipeline {
    /// Settles what earlier runs have left open. To be called once, before anything is committed, by
    /// the one program that works on this ledger.
    ///
    /// # Errors
    /// [`Refusal`]: the ledger cannot be read or written, or a chain does not answer.
    pub async fn recover(&self) -> Result<Vec<Recovered>, Refusal> {
        let unavailable = |error: &dyn std::fmt::Display| Refusal::new(ErrorCode::StoreUnavailable, error);
        let left = self.inner.store.read(left_open).map_err(|error| unavailable(&error))?;
        let old = self.inner.clock.now_millis().saturating_sub(LEAVE_ALONE);
        let freed = self.inner.store.write(move |transaction| free_nonces(transaction, old)).await;
        freed.map_err(|error| unavailable(&error))?;
        let mut recovered = Vec::new();
        for one in left.into_iter().filter(|one| one.last.is_some() || one.consumed_at <= old) {
            let end = match one.last {
                // Bytes are stored before they are sent: without any, nothing was sent.
                None => End::Withdrawn,
                Some(hash) => {
                    let sender = self.sender(one.chain_id)?;
                    let unreachable = |error: sender::SenderError| Refusal::new(ErrorCode::ChainUnreachable, error);
                    let mut standing = sender.look(hash).await.map_err(unreachable)?;
                    let stopped = self.inner.rules.stop().is_some();
                    if !standing.settled && !stopped {
                        sender.resend(hash).await.map_err(unreachable)?;
                        let rules = WaitRules { patience: self.inner.patience, resend: false };
                        standing = sender.wait(hash, rules).await.map_err(unreachable)?;
                    }
                    if standing.settled { end_of(&standing, one.held) } else { End::Unclear }
                }
            };
            self.write_end(&one, end).await.map_err(|error| unavailable(&error))?;
            recovered.push(Recovered { permit_id: one.permit_id, hash: one.last, end });
        }
        Ok(recovered)
    }

    async fn write_end(&self, one: &Left, end: End) -> Result<(), ReserveError> {
        let ended = match end {
            End::Done { .. } => "done",
            End::Reverted { .. } => "reverted",
            End::NotSent => "not_sent",
            End::Withdrawn => "withdrawn",
            End::Unclear => return Ok(()),
        };
        let (rules, clock) = (self.inner.rules.clone(), self.inner.clock.clone());
        let (permit_id, reservation) = (one.permit_id, one.held.reservation);
        self.inner
            .store
            .write(move |transaction| {
                let now = clock.now_millis();
                rules.settle(transaction, now, reservation, end)?;
                note_end(transaction, permit_id, ended)?;
                // An order that was written down and never signed.
                if let Some(order) = record::of_permit(transaction, permit_id)? {
                    record::end(transaction, order.hash, "error", now)?;
                }
                Ok(())
            })
            .await
    }
}

/// Gives back the nonces that were taken at `until` or before, and never signed with.
fn free_nonces(transaction: &rusqlite::Transaction<'_>, until: u64) -> Result<(), ReserveError> {
    let lost = |error: sender::LaneError| ReserveError::Ledger(error.to_string());
    for (ticket, at) in sender::reserved(transaction).map_err(lost)? {
        if at <= until {
            sender::give_back(transaction, &ticket).map_err(lost)?;
        }
    }
    Ok(())
}

fn left_open(connection: &rusqlite::Connection) -> Result<Vec<Left>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT permit_id, chain_id, reservation, spent_usd, gas_usd, consumed_at,
                (SELECT hash FROM safety_leg WHERE safety_leg.permit_id = used.permit_id ORDER BY leg DESC LIMIT 1)
         FROM safety_permit AS used WHERE ended IS NULL AND NOT EXISTS (
             SELECT 1 FROM safety_order
             WHERE safety_order.permit_id = used.permit_id AND stage NOT IN ('reserved', 'ended'))
         ORDER BY consumed_at",
    )?;
    let rows = statement.query_map(params![], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, i64>(2)?,
            row.get::<_, String>(3)?,
            row.get::<_, String>(4)?,
            row.get::<_, i64>(5)?,
            row.get::<_, Option<Vec<u8>>>(6)?,
        ))
    })?;
    let garbled = |what: &str| StoreError::Corrupt(format!("a used permit has no readable {what}"));
    rows.map(|row| {
        let (permit_id, chain_id, reservation, spent, gas, consumed_at, hash) = row?;
        let usd = |text: String, what| text.parse::<Usd>().map_err(|_| garbled(what));
        Ok(Left {
            permit_id: permit_id.parse().map_err(|_| garbled("id"))?,
            chain_id: u64::try_from(chain_id).map_err(|_| garbled("chain"))?,
            held: Held { reservation: Reservation(reservation), spent: usd(spent, "value")?, gas: usd(gas, "gas")? },
            last: hash.map(|hash| B256::try_from(hash.as_slice()).map_err(|_| garbled("hash"))).transpose()?,
            consumed_at: u64::try_from(consumed_at).map_err(|_| garbled("time"))?,
        })
    })
    .collect()
}
