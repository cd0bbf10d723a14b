//! Schedules: amounts by hand arithmetic, times, and what two sessions make of one row.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::engine::MIGRATIONS;
use bardo_store::StoreConfig;

const START: u64 = 1_700_000_000_000;
const NETWORK: &str = "ethereum";

fn open(folder: &Path) -> Store {
    Store::open(StoreConfig::at(folder.join("ledger.db")), &[MIGRATIONS]).unwrap()
}

fn token(symbol: &str, decimals: u8) -> ScheduledToken {
    ScheduledToken { name: symbol.to_owned(), symbol: SafeText::clean(symbol, 20), decimals }
}

fn terms(total: u64, slices: u32) -> ScheduleTerms {
    ScheduleTerms {
        chain_id: 1,
        chain: "ethereum".to_owned(),
        token_in: token("USDC", 6),
        token_out: token("WETH", 18),
        total: U256::from(total),
        slices,
        interval: 60_000,
        slippage_bps: None,
        least_per_unit: None,
        created_at: START,
        ends_at: START + 600_000,
    }
}

fn schedule(id: &str, owner: &GolemId) -> Schedule {
    Schedule {
        id: id.to_owned(),
        golem_id: owner.clone(),
        network: NETWORK.to_owned(),
        account: Address::repeat_byte(1),
        state: ScheduleState::Active,
        next_at: START,
        terms: terms(1_000, 3),
        progress: ScheduleProgress::default(),
    }
}

fn ada() -> GolemId {
    "ada".parse().unwrap()
}

async fn claimed(store: &Store, owners: &[GolemId], now: u64) -> Option<Schedule> {
    claim(store, NETWORK, Address::repeat_byte(1), owners.to_vec(), now).await.unwrap()
}

fn attempt(outcome: SliceOutcome) -> SliceAttempt {
    SliceAttempt::unsigned(1, START, outcome, "as it was")
}

proptest! {
    /// The slices pay the total together, and none but the last differs from the others.
    #[test]
    fn slices_sum_up_to_the_total(total in 2_u64.., slices in 2_u32..=1_000) {
        prop_assume!(total >= u64::from(slices));
        let terms = terms(total, slices);
        let all: Vec<U256> = (1..=slices).map(|number| terms.slice(number)).collect();
        prop_assert_eq!(all.iter().copied().fold(U256::ZERO, |sum, one| sum + one), U256::from(total));
        prop_assert!(all[..all.len() - 1].iter().all(|one| *one == all[0] && !one.is_zero()));
    }
}

#[test]
fn the_call_of_a_slice_carries_its_bounds() {
    let mut bound = schedule("a", &ada());
    let call = bound.call().unwrap();
    assert_eq!((&call["amount"], call.get("least_price"), call.get("slippage_bps")), (&json!("0.000333"), None, None));
    bound.terms.least_per_unit = Some(U256::from(300_000_000_000_000_u64));
    bound.terms.slippage_bps = Some(30);
    bound.progress.done = 2;
    let call = bound.call().unwrap();
    let wanted = (&json!("0.000334"), &json!("0.0003"), &json!(30), &json!(false));
    assert_eq!((&call["amount"], &call["least_price"], &call["slippage_bps"], &call["prefer_uniswapx"]), wanted);
}

#[test]
fn times_without_a_session_are_not_made_up_for() {
    let terms = terms(1_000, 3);
    for (now, next) in [(START, 60_000), (START + 1, 60_000), (START + 59_999, 60_000), (START + 60_000, 120_000)] {
        assert_eq!(terms.next_after(START, now), START + next, "{now}");
    }
    assert_eq!(terms.next_after(START, START + 3_599_999), START + 3_600_000);
}

#[tokio::test]
async fn a_slice_is_taken_by_one_session_and_noted_once() {
    let folder = tempfile::tempdir().unwrap();
    let (store, other) = (open(folder.path()), open(folder.path()));
    let owners = [ada()];
    assert!(insert(&store, schedule("a", &owners[0])).await.unwrap());
    assert!(claimed(&store, &owners, START - 1).await.is_none(), "not yet");
    assert!(claimed(&store, &[GolemId::operator()], START).await.is_none(), "of somebody else");
    let first = claimed(&store, &owners, START).await.unwrap();
    assert_eq!((first.key().as_str(), first.next_at), ("schedule:a:1", START + 60_000));
    assert!(claimed(&other, &owners, START + 3_600_000).await.is_none(), "it runs");
    let open = |store| {
        let owners = owners.clone();
        async move { adopt(store, NETWORK, Address::repeat_byte(1), &owners).await.unwrap() }
    };
    assert_eq!(open(&store).await, std::slice::from_ref(&first), "its own attempt, whose end could not be noted");
    assert_eq!(open(&other).await, [], "it belongs to a session that is alive");
    let paid =
        SliceAttempt { paid: Some(U256::from(333)), received: Some(U256::from(9)), ..attempt(SliceOutcome::Done) };
    for _ in 0..2 {
        finish(&store, &first, paid.clone(), START + 5).await.unwrap();
    }
    let (all, unreadable) = list(&store, NETWORK, None).unwrap();
    assert!(unreadable.is_empty());
    assert_eq!(
        (all[0].progress.done, all[0].progress.paid, all[0].progress.received),
        (1, U256::from(333), U256::from(9))
    );
    assert!(claimed(&store, &owners, START + 59_999).await.is_none());
    assert_eq!(claimed(&store, &owners, START + 60_000).await.unwrap().key(), "schedule:a:2");
}

/// The first session died in a slice: of two that begin then, one goes on with it.
#[tokio::test]
async fn the_slice_of_a_dead_session_is_taken_over_once() {
    let folder = tempfile::tempdir().unwrap();
    let owners = [ada()];
    let died = open(folder.path());
    assert!(insert(&died, schedule("a", &owners[0])).await.unwrap());
    let left = claimed(&died, &owners, START).await.unwrap();
    drop(died);
    let (store, other) = (open(folder.path()), open(folder.path()));
    let adopted = |store| {
        let owners = owners.clone();
        async move { adopt(store, NETWORK, Address::repeat_byte(1), &owners).await.unwrap() }
    };
    assert_eq!(adopt(&store, NETWORK, Address::repeat_byte(2), &owners).await.unwrap(), [], "of another account");
    assert_eq!(adopt(&store, NETWORK, Address::repeat_byte(1), &[GolemId::operator()]).await.unwrap(), []);
    let taken = adopted(&store).await;
    assert_eq!((taken.len(), taken[0].key(), taken[0].progress.attempts), (1, left.key(), 1));
    assert_eq!(adopted(&other).await, [], "the first of them has it");
    assert!(!take_over(&other, &left, left.progress.session.clone()).await.unwrap(), "nor by what it read before");
    finish(&store, &taken[0], attempt(SliceOutcome::Unclear), START).await.unwrap();
    assert_eq!(adopted(&store).await, []);
}

/// Rows of ended schedules cannot fill the disk, however many an agent makes and cancels; an open attempt keeps its row.
#[tokio::test]
async fn the_oldest_ended_schedules_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (ada, eve) = (ada(), "eve".parse::<GolemId>().unwrap());
    for (id, owner) in [("0", &ada), ("1", &eve), ("2", &ada)] {
        let mut one = schedule(id, owner);
        one.state = ScheduleState::Cancelled;
        one.progress.is_running = id == "2";
        assert!(insert(&store, one).await.unwrap());
    }
    for number in 0..KEPT_ENDED {
        let mut one = schedule(&format!("9{number:04}"), &ada);
        one.state = ScheduleState::Done;
        assert!(insert(&store, one).await.unwrap());
    }
    let (all, _) = list(&store, NETWORK, None).unwrap();
    assert_eq!(all.len(), KEPT_ENDED + 2);
    assert!(all.iter().all(|one| one.id != "0"));
    assert!(["1", "2"].iter().all(|id| all.iter().any(|one| one.id == *id)));
}

#[tokio::test]
async fn what_is_cancelled_or_late_is_not_active() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    assert!(insert(&store, schedule("a", &ada())).await.unwrap());
    assert!(is_active(&store, "a", START + 599_999).unwrap());
    assert!(!is_active(&store, "a", START + 600_000).unwrap());
    assert!(!is_active(&store, "b", START).unwrap());
    cancel(&store, "a", ada()).await.unwrap();
    assert!(!is_active(&store, "a", START).unwrap());
}

#[tokio::test]
async fn a_schedule_ends_when_it_is_done_rejected_failing_or_late() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let owners = [ada()];
    for (id, outcomes, state, done) in [
        ("a", vec![SliceOutcome::Done, SliceOutcome::BelowBound, SliceOutcome::Unclear, SliceOutcome::Done], "done", 3),
        ("b", vec![SliceOutcome::Rejected], "rejected", 0),
        ("c", vec![SliceOutcome::Failed; 5], "failed", 0),
    ] {
        assert!(insert(&store, schedule(id, &owners[0])).await.unwrap());
        for (at, outcome) in outcomes.into_iter().enumerate() {
            let now = START + 60_000 * at as u64;
            let taken = claimed(&store, &owners, now).await.unwrap_or_else(|| panic!("{id} {at}"));
            assert_eq!(taken.id, id);
            finish(&store, &taken, attempt(outcome), now).await.unwrap();
        }
        assert!(claimed(&store, &owners, START + 599_000).await.is_none(), "{id}");
        let (all, _) = list(&store, NETWORK, None).unwrap();
        let found = all.iter().find(|one| one.id == id).unwrap();
        assert_eq!((found.state.as_str(), found.progress.done), (state, done), "{id}");
    }
    // A failure in between starts the count again, and the end of its time ends it.
    assert!(insert(&store, schedule("d", &owners[0])).await.unwrap());
    assert!(claimed(&store, &owners, START + 600_000).await.is_none());
    let (all, _) = list(&store, NETWORK, Some(&owners[0])).unwrap();
    assert_eq!(all.iter().find(|one| one.id == "d").unwrap().state, ScheduleState::Expired);
}

#[tokio::test]
async fn only_its_owner_and_the_operator_cancel_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (ada, eve) = (ada(), "eve".parse::<GolemId>().unwrap());
    for id in ["a", "b"] {
        assert!(insert(&store, schedule(id, &ada)).await.unwrap());
    }
    assert!(cancel(&store, "a", eve).await.unwrap().is_none());
    let taken = claimed(&store, std::slice::from_ref(&ada), START).await.unwrap();
    assert_eq!(cancel(&store, "a", ada.clone()).await.unwrap().unwrap().state, ScheduleState::Cancelled);
    // The slice that was under way counts, and starts nothing again.
    finish(&store, &taken, attempt(SliceOutcome::Failed), START).await.unwrap();
    assert_eq!(cancel(&store, "b", GolemId::operator()).await.unwrap().unwrap().state, ScheduleState::Cancelled);
    assert!(claimed(&store, std::slice::from_ref(&ada), START + 60_000).await.is_none());
    assert!(cancel(&store, "none", ada).await.unwrap().is_none());
}

#[tokio::test]
async fn there_is_a_most_and_a_row_that_cannot_be_read_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ada = ada();
    for number in 0..MOST_ACTIVE {
        assert!(insert(&store, schedule(&format!("{number:02}"), &ada)).await.unwrap());
    }
    assert!(!insert(&store, schedule("one more", &ada)).await.unwrap());
    let forge = |column: &str, text: &str| {
        let statement = format!("UPDATE engine_schedule SET {column} = ?1 WHERE id = '00'");
        let text = text.to_owned();
        store.write(move |transaction| Ok::<_, StoreError>(transaction.execute(&statement, params![text])?))
    };
    for (column, wrong) in [("terms", "{}"), ("progress", "[]"), ("state", "activated"), ("golem_id", "")] {
        let before: String = store
            .read(|connection| {
                let select = format!("SELECT {column} FROM engine_schedule WHERE id = '00'");
                Ok::<_, StoreError>(connection.query_row(&select, [], |row| row.get(0))?)
            })
            .unwrap();
        forge(column, wrong).await.unwrap();
        let (found, unreadable) = list(&store, NETWORK, None).unwrap();
        assert_eq!((found.len(), unreadable), (15, vec!["00".to_owned()]), "{column}");
        forge(column, &before).await.unwrap();
    }
    forge("terms", "{}").await.unwrap();
    assert_eq!(claimed(&store, std::slice::from_ref(&ada), START).await.unwrap().id, "01");
}

#[tokio::test]
async fn an_account_sees_its_active_schedules_and_the_newest_ended_ones() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let account = Address::repeat_byte(1);
    let ids = |ended: u32| -> Vec<String> {
        let (found, unreadable) = of_account(&store, NETWORK, account, ended).unwrap();
        assert_eq!(unreadable, 0);
        found.into_iter().map(|one| one.id).collect()
    };
    for id in ["a", "b", "c", "d"] {
        assert!(insert(&store, schedule(id, &ada())).await.unwrap());
    }
    for id in ["a", "c", "d"] {
        assert!(cancel(&store, id, ada()).await.unwrap().is_some());
    }
    let other = Schedule { account: Address::repeat_byte(9), ..schedule("e", &ada()) };
    assert!(insert(&store, other).await.unwrap());
    assert_eq!((ids(2), ids(0)), (vec!["d".to_owned(), "c".into(), "b".into()], vec!["b".to_owned()]));
    let spoil = |transaction: &Transaction<'_>| {
        transaction.execute("UPDATE engine_schedule SET terms = '{}' WHERE id = 'b'", [])?;
        Ok::<_, StoreError>(())
    };
    store.write(spoil).await.unwrap();
    let (found, unreadable) = of_account(&store, NETWORK, account, 0).unwrap();
    assert!(found.is_empty() && unreadable == 1);
}
