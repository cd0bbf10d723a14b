//! Spending caps, breakers and high-water marks that an attacker moves.

// High-water marks, against the ledger in a file.

mod marks {
    use alloy::primitives::Address;
    use bardo::base::id::{CallId, GolemId};
    use bardo::base::units::Rounding;
    use bardo::runtime::data::ROOMS;
    use bardo::safety::ledger::{self, Micros, Party};
    use bardo::store::{Store, StoreConfig};

    /// Whole dollars as the ledger counts them.
    pub fn micros(dollars: u64) -> Micros {
        Micros::of(dollars.to_string().parse().unwrap(), Rounding::Up).unwrap()
    }

    /// The mark after these readings of an account's worth: seconds, and whole dollars.
    pub async fn after(readings: &[(u64, u64)]) -> Micros {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(home.path().join("bardo.db")), ROOMS).unwrap();
        let account = Address::repeat_byte(7);
        for (second, dollars) in readings {
            let party = Party { call_id: CallId::new(1), golem_id: GolemId::operator(), chain_id: 1, account };
            let (at, worth) = (86_400_000 + second * 1_000, micros(*dollars));
            let noted = store.write(move |transaction| ledger::observe(transaction, at, &party, worth)).await;
            noted.unwrap();
        }
        let used = store.read(|connection| ledger::usage(connection, 86_400_000, 1, account, [], 0)).unwrap();
        used.high_water
    }
}

#[tokio::test]
async fn a_lie_about_one_block_raises_no_high_water_mark() {
    assert_eq!(marks::after(&[(0, 1_700), (12, 13_500_000), (24, 1_700), (7_200, 1_700)]).await, marks::micros(1_700));
}

#[tokio::test]
async fn a_gift_that_is_withdrawn_again_raises_no_high_water_mark() {
    assert_eq!(
        marks::after(&[(0, 1_000), (12, 1_200), (48, 1_200), (71, 1_000), (90, 1_200)]).await,
        marks::micros(1_000)
    );
    assert_eq!(marks::after(&[(0, 1_000), (12, 1_200), (72, 1_010), (73, 1_200)]).await, marks::micros(1_010));
}

#[tokio::test]
async fn two_lies_an_hour_apart_raise_no_high_water_mark() {
    assert_eq!(marks::after(&[(0, 1_700), (12, 13_500_000), (3_700, 13_500_000)]).await, marks::micros(1_700));
}

#[tokio::test]
async fn what_really_stands_raises_the_high_water_mark() {
    assert_eq!(marks::after(&[(0, 1_000), (12, 1_200), (72, 1_200)]).await, marks::micros(1_200));
    assert_eq!(marks::after(&[(0, 1_000), (12, 3_000), (1_800, 3_000), (3_700, 3_000)]).await, marks::micros(3_000));
}
