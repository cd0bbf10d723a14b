//! Value that bridges carry away, and the high-water marks that move with it.

use super::*;

const HERE: u64 = 31_337;
const THERE: u64 = 31_338;

impl File {
    /// Reserves a bridge order that carries `worth` away while the account has `whole` on the source chain.
    fn bridge(&mut self, whole: u64, worth: u64) -> ReservationId {
        self.bridge_beside(whole, worth, &[])
    }

    /// Reserves such an order while `others` are known.
    fn bridge_beside(&mut self, whole: u64, worth: u64, others: &[(ReservationId, u64)]) -> ReservationId {
        let others: Vec<_> = others.iter().map(|(id, worth)| (*id, dollars(*worth))).collect();
        self.write(|transaction| {
            let caps = LedgerCaps { cooldown: 0, trades_per_hour: 100, ..caps() };
            let request = ReservationRequest { equity: dollars(whole), ..request(1) };
            let id = reserve(transaction, DAY, &caps, &party(), &request)?;
            update_in_transit(transaction, &party(), dollars(whole), &others)?;
            let leaving = BridgedValue { worth: dollars(worth), whole: dollars(whole), to: THERE };
            record_bridged(transaction, id, &party(), leaving)?;
            Ok(id)
        })
        .unwrap()
    }

    fn weigh(&mut self, whole: u64, away: &[(ReservationId, u64)]) {
        let away: Vec<_> = away.iter().map(|(id, worth)| (*id, dollars(*worth))).collect();
        self.write(|transaction| update_in_transit(transaction, &party(), dollars(whole), &away)).unwrap();
    }

    fn arrives(&mut self, id: ReservationId) -> Option<(u64, u64)> {
        let moved = self.write(|transaction| {
            let moved = note_arrived(transaction, DAY, id)?;
            settle(transaction, DAY, id, ReservationOutcome::Done { spent: dollars(1) }, 3)?;
            Ok(moved)
        });
        moved.unwrap().map(|moved| (moved.before.get(), moved.after.get()))
    }

    fn sees(&mut self, chain_id: u64, whole: u64) {
        self.write(|transaction| observe(transaction, DAY, &Originator { chain_id, ..party() }, dollars(whole)))
            .unwrap();
    }

    /// Returns the high-water marks of both chains, in whole dollars.
    fn marks(&self) -> [u64; 2] {
        [HERE, THERE].map(|chain| {
            let usage = usage(&self.connection, DAY, chain, party().account, [], 0).unwrap();
            assert_eq!(usage.high_water.get() % 1_000_000, 0, "whole dollars");
            usage.high_water.get() / 1_000_000
        })
    }

    fn noted(&self) -> i64 {
        self.connection.query_row("SELECT count(*) FROM ledger_bridged", [], |row| row.get(0)).unwrap()
    }
}

#[test]
fn the_mark_goes_with_the_money_and_a_fall_in_percent_stays_what_it_was() {
    let mut file = File::new();
    file.sees(HERE, 1_000);
    file.sees(THERE, 100);
    // A twentieth was lost before; nine tenths of the rest leave.
    let id = file.bridge(950, 855);
    assert_eq!(file.marks(), [1_000, 100], "nothing moves before it has arrived");
    let carried = |file: &File, chain_id| carried(&file.connection, chain_id, party().account).unwrap();
    assert_eq!(
        (carried(&file, HERE), carried(&file, THERE)),
        (dollars(855), MicroUsd::ZERO),
        "it is no loss meanwhile"
    );
    assert_eq!(file.arrives(id), Some((1_000_000_000, 100_000_000)));
    assert_eq!(carried(&file, HERE), MicroUsd::ZERO);
    // 95 of 100 here, 955 of 1,000 there: what was lost is left behind nowhere.
    assert_eq!(file.marks(), [100, 1_000]);
    assert_eq!(file.noted(), 0);
    // A second arrival of the same order has no effect.
    assert_eq!(file.write(|transaction| note_arrived(transaction, DAY, id)).unwrap(), None);
    assert_eq!(file.marks(), [100, 1_000]);
}

#[test]
fn a_delivery_before_the_orders_end_raises_the_mark_once() {
    let mut file = File::new();
    file.sees(HERE, 1_000);
    file.sees(THERE, 100);
    let id = file.bridge(1_000, 500);
    file.sees(THERE, 600);
    file.arrives(id);
    assert_eq!(file.marks(), [500, 600]);
    // Without an earlier reading, the mark is the value that arrived.
    let mut file = File::new();
    let id = file.bridge(1_000, 500);
    file.arrives(id);
    assert_eq!(file.marks(), [500, 500]);
}

#[test]
fn the_first_reading_after_an_arrival_adds_what_was_held_there_before_and_forgets_no_loss() {
    let shown = |file: &File| observed_high_water(&file.connection, THERE, party().account).unwrap();
    // 1,180 were there before 100 arrived: the mark is that of all of it, at once.
    let mut file = File::new();
    let id = file.bridge(1_000, 100);
    file.arrives(id);
    assert_eq!((file.marks(), shown(&file)), ([900, 100], MicroUsd::ZERO));
    file.sees(THERE, 1_280);
    assert_eq!((file.marks(), shown(&file)), ([900, 1_280], dollars(1_280)));
    // From then on a jump has to stand, as everywhere.
    file.sees(THERE, 13_000);
    assert_eq!(file.marks(), [900, 1_280]);
    // A twentieth was lost before it left, and nothing was there: the loss stays in the mark.
    let mut file = File::new();
    file.sees(HERE, 1_000);
    let id = file.bridge(950, 950);
    file.arrives(id);
    file.sees(THERE, 950);
    assert_eq!(file.marks(), [0, 1_000]);
    // Two arrivals before the first reading.
    let mut file = File::new();
    let first = file.bridge(1_000, 500);
    let second = file.bridge(1_000, 400);
    file.weigh(1_000, &[(first, 500), (second, 400)]);
    file.arrives(first);
    file.arrives(second);
    file.sees(THERE, 1_500);
    assert_eq!(file.marks(), [100, 1_500]);
}

#[test]
fn of_two_orders_in_transit_each_moves_its_own_part() {
    let mut file = File::new();
    let first = file.bridge(1_000, 500);
    // The first order is locked and counted when the second is reserved.
    let second = file.bridge(1_000, 400);
    file.weigh(1_000, &[(first, 500), (second, 400)]);
    file.arrives(first);
    assert_eq!(file.marks(), [500, 500]);
    file.arrives(second);
    assert_eq!(file.marks(), [100, 900]);

    // The same holds if the first order's value is still in the wallet, since the total includes it.
    let mut file = File::new();
    let first = file.bridge(1_000, 500);
    file.weigh(1_000, &[(first, 500)]);
    let second = file.bridge_beside(1_000, 400, &[(first, 500)]);
    file.arrives(first);
    file.arrives(second);
    assert_eq!(file.marks(), [100, 900]);

    // The first order may or may not have been part of the total: 100 or 300 stay here, and 700 or 900 leave. Neither
    // mark becomes too low.
    let mut file = File::new();
    let first = file.bridge(1_000, 500);
    let second = file.bridge(1_000, 400);
    file.weigh(1_000, &[(second, 400)]);
    file.arrives(first);
    file.arrives(second);
    assert_eq!(file.marks(), [300, 900]);
}

#[test]
fn an_order_moves_the_part_of_its_latest_value() {
    let mut file = File::new();
    let id = file.bridge(1_000, 500);
    // The value fell to 300 in transit, of 800 in total: three eighths of the mark move.
    file.weigh(800, &[(id, 300)]);
    file.arrives(id);
    assert_eq!(file.marks(), [625, 375]);
    // An order cannot carry away more than the whole.
    let mut file = File::new();
    let id = file.bridge(1_000, 2_000);
    file.arrives(id);
    assert_eq!(file.marks(), [0, 1_000]);
}

#[test]
fn a_refund_moves_no_mark_and_a_reset_mark_is_not_restored() {
    let mut file = File::new();
    file.sees(THERE, 100);
    let id = file.bridge(1_000, 500);
    file.settle(DAY, id, ReservationOutcome::Withdrawn).unwrap();
    assert_eq!((file.marks(), file.noted()), ([1_000, 100], 0));
    assert_eq!(file.write(|transaction| note_arrived(transaction, DAY, id)).unwrap(), None);

    let id = file.bridge(1_000, 500);
    file.write(|transaction| forget_high_water(transaction, party().account)).unwrap();
    assert_eq!(file.arrives(id), None, "there is none to move");
    assert_eq!(file.marks(), [0, 0]);
    file.sees(THERE, 100);
    let id = file.bridge(1_000, 500);
    file.write(|transaction| forget_high_water(transaction, party().account)).unwrap();
    file.sees(HERE, 900);
    file.arrives(id);
    assert_eq!(file.marks(), [450, 450], "the hundred over there is forgotten");
}

#[test]
fn what_leaves_where_something_is_to_arrive_takes_its_part_of_the_mark_along() {
    let mut file = File::new();
    file.sees(THERE, 400);
    let id = file.bridge(1_000, 500);
    let back = file
        .write(|transaction| {
            let party = Originator { chain_id: THERE, ..party() };
            let caps = LedgerCaps { cooldown: 0, ..caps() };
            let id =
                reserve(transaction, DAY, &caps, &party, &ReservationRequest { equity: dollars(400), ..request(1) })?;
            let leaving = BridgedValue { worth: dollars(300), whole: dollars(400), to: HERE };
            record_bridged(transaction, id, &party, leaving)?;
            Ok(id)
        })
        .unwrap();
    file.arrives(back);
    assert_eq!(file.marks(), [1_300, 100]);
    file.arrives(id);
    // Half of the total leaves, and with it half of the mark of 1,300; the sum of the marks stays the same.
    assert_eq!(file.marks(), [650, 750]);
}
