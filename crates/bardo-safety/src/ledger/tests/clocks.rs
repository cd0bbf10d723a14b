//! Clocks that differ from the chain's time, and the value that left the account.

use super::*;

const MINUTE: u64 = 60_000;

impl File {
    fn reserve_by_chain(&mut self, now: u64, block_time: u64, whole: u64) -> Result<ReservationId, LedgerError> {
        // Limits on trades and cooldowns are not tested here.
        let caps = LedgerCaps { cooldown: 0, trades_per_hour: 100, ..caps() };
        self.write(|transaction| reserve_by_chain(transaction, now, block_time, &caps, &party(), &request(whole)))
    }

    fn moved(&self, now: u64) -> (MicroUsd, MicroUsd) {
        let party = party();
        let usage = usage(&self.connection, now, party.chain_id, party.account, [&WETH], 0).unwrap();
        (usage.moved[&WETH], usage.tokens[&WETH])
    }
}

#[test]
fn a_clock_that_is_set_forward_frees_nothing_where_the_chain_tells_the_time() {
    let (mut file, now) = (File::new(), 1_000 * DAY);
    for minute in 0..6 {
        let at = now + minute * 61 * MINUTE;
        let id = file.reserve_by_chain(at, at, 100).unwrap();
        file.settle(at, id, ReservationOutcome::Done { spent: dollars(100) }).unwrap();
    }
    let at = now + 6 * 61 * MINUTE;
    // The day's limit is used up. Neither a machine whose clock is ahead nor a call changes that.
    for ahead in [0, HOUR, 2 * DAY, 40 * DAY] {
        file.write(|transaction| take_call(transaction, at + ahead, &GolemId::operator(), 1_000)).unwrap();
        assert_eq!(rules(file.reserve_by_chain(at + ahead, at, 1)), ["max_daily_spend_usd"], "{ahead}");
    }
    // A settlement under the wrong clock does not change it either.
    let exit = ReservationRequest { exempt: true, only_revokes: true, spend: MicroUsd::ZERO, ..request(0) };
    let id = file.write(|transaction| reserve_by_chain(transaction, at, at, &caps(), &party(), &exit)).unwrap();
    file.settle(at + 40 * DAY, id, ReservationOutcome::Done { spent: MicroUsd::ZERO }).unwrap();
    assert_eq!(rules(file.reserve_by_chain(at + 40 * DAY, at, 1)), ["max_daily_spend_usd"]);
    // A day later on the chain, there is room again.
    let id = file.reserve_by_chain(at + DAY, at + DAY, 1).unwrap();
    file.settle(at + DAY, id, ReservationOutcome::Withdrawn).unwrap();
    // A chain that is slightly behind blocks nothing.
    assert_eq!(rules(file.reserve_by_chain(at + DAY, at + DAY - CLOCK_SLACK / 2, 1)), [""; 0]);
}

#[test]
fn a_clock_that_is_behind_the_chain_counts_nothing_that_would_be_old_when_it_is_set_right() {
    let (mut file, at) = (File::new(), 1_000 * DAY);
    assert_eq!(file.reserve_by_chain(at - DAY, at, 100), Err(LedgerError::ClockBehind { by: DAY }));
    // Revocations and exits do not depend on the clock.
    let back = ReservationRequest { exempt: true, only_revokes: true, spend: MicroUsd::ZERO, ..request(0) };
    let exit = ReservationRequest { exempt: true, exit: true, ..request(1) };
    for one in [back, exit] {
        let id = file.write(|tx| reserve_by_chain(tx, at - DAY, at, &caps(), &party(), &one)).unwrap();
        file.settle(at - DAY, id, ReservationOutcome::Withdrawn).unwrap();
    }
    // A clock behind by up to the slack is accepted, and one further behind is not.
    let id = file.reserve_by_chain(at - CLOCK_SLACK, at, 100).unwrap();
    file.settle(at, id, ReservationOutcome::Done { spent: dollars(100) }).unwrap();
    let by = CLOCK_SLACK + 1;
    assert_eq!(file.reserve_by_chain(at, at + by, 100), Err(LedgerError::ClockBehind { by }));
    // An endpoint that reports a false time has not advanced the ledger's clock.
    assert_eq!(clock(&file.connection).unwrap(), at);
    // A later time that the ledger has seen counts, whatever the machine's clock shows.
    let id = file.reserve_by_chain(at - DAY, at + MINUTE, 100).unwrap();
    file.settle(at - DAY, id, ReservationOutcome::Withdrawn).unwrap();
}

#[test]
fn sales_of_another_account_do_not_count() {
    let (mut file, caps) = (File::new(), LedgerCaps { cooldown: 0, ..caps() });
    let other = Originator { account: Address::repeat_byte(0xb0), ..party() };
    for (whose, sold) in [(&other, 70), (&party(), 20)] {
        let id = file.write(|tx| reserve(tx, DAY, &caps, whose, &request(1))).unwrap();
        file.write(|tx| note_moved(tx, id, &[(WETH, dollars(sold))].into())).unwrap();
        file.settle(DAY, id, ReservationOutcome::Done { spent: dollars(sold) }).unwrap();
    }
    assert_eq!(file.moved(DAY).0, dollars(20));
}

#[test]
fn a_sale_counts_once_if_its_reservation_is_renewed() {
    let (mut file, caps) = (File::new(), LedgerCaps { cooldown: 0, ..caps() });
    let sold = |file: &mut File, outcome| {
        let id = file.reserve(DAY, &caps, &request(50)).unwrap();
        file.write(|tx| note_moved(tx, id, &[(WETH, dollars(40))].into())).unwrap();
        file.settle(DAY, id, outcome).unwrap();
        let again = file.write(|tx| reserve_again(tx, DAY + 1, id)).unwrap();
        file.settle(DAY + 2, again, ReservationOutcome::Done { spent: dollars(50) }).unwrap();
        file.moved(DAY + 2).0
    };
    assert_eq!(sold(&mut file, ReservationOutcome::Done { spent: dollars(50) }), dollars(40));
    // An amount that had not counted counts now.
    assert_eq!(sold(&mut file, ReservationOutcome::NotSent), dollars(80));
}

#[test]
fn allowances_and_unfinished_or_unfilled_trades_are_no_sales() {
    let (mut file, caps, mut now) = (File::new(), LedgerCaps { cooldown: 0, ..caps() }, DAY);
    let mut done = |moved: u64, outcome: ReservationOutcome| {
        now += HOUR;
        let request = ReservationRequest { tokens: [(WETH, dollars(50))].into(), ..request(50) };
        let id = file.reserve(now, &caps, &request).unwrap();
        let moved = if moved == 0 { [].into() } else { [(WETH, dollars(moved))].into() };
        file.write(|transaction| note_moved(transaction, id, &moved)).unwrap();
        file.settle(now, id, outcome).unwrap();
        file.moved(now)
    };
    // An allowance counts as spent, but nothing left the account.
    assert_eq!(done(0, ReservationOutcome::Done { spent: dollars(50) }), (MicroUsd::ZERO, dollars(50)));
    // An unfilled order and a plan that only began count with their cost at most.
    assert_eq!(done(50, ReservationOutcome::Done { spent: dollars(1) }).0, dollars(1));
    assert_eq!(done(50, ReservationOutcome::Reverted { gas: dollars(1) }).0, dollars(1));
    assert_eq!(done(50, ReservationOutcome::NotSent).0, dollars(1));
    // A completed sale.
    assert_eq!(done(40, ReservationOutcome::Done { spent: dollars(45) }).0, dollars(41));
}

#[test]
fn a_renewed_reservation_counts_until_it_is_settled() {
    let (mut file, caps) = (File::new(), LedgerCaps { cooldown: 0, ..caps() });
    let id = file.reserve(DAY, &caps, &request(100)).unwrap();
    file.settle(DAY, id, ReservationOutcome::NotSent).unwrap();
    assert_eq!(held(&file.connection).unwrap(), MicroUsd::ZERO);
    let again = file.write(|transaction| reserve_again(transaction, DAY + 1, id)).unwrap();
    assert_eq!(held(&file.connection).unwrap(), dollars(100));
    file.settle(DAY + 2, again, ReservationOutcome::Done { spent: dollars(90) }).unwrap();
    let party = party();
    let used = usage(&file.connection, DAY + 2, party.chain_id, party.account, [], 0).unwrap();
    assert_eq!((held(&file.connection).unwrap(), used.spent(CapPeriod::Day)), (MicroUsd::ZERO, dollars(90)));
    let unknown = file.write(|transaction| reserve_again(transaction, DAY + 3, ReservationId::stored(99)));
    assert_eq!(unknown, Err(LedgerError::Unknown(99)));
}
