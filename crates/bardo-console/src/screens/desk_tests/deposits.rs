//! Screen 3: deposits with a bridge's pool among the orders.

use std::sync::Arc;

use alloy_primitives::B256;
use ratatui::layout::Rect;

use super::world::{TestHarness, world};
use super::{AREA, drawn, safe};
use crate::keymap::Action;
use crate::screens::orders::Orders;
use crate::screens::{ScreenRequest, ScreenView};
use crate::widgets::samples::START_MILLIS;
use bardo_base::fabric::TxPlace;
use bardo_session::handle::{DepositRow, DepositStage, DepositsState};

fn place(chain_id: u64, byte: u8) -> TxPlace {
    TxPlace { chain_id, hash: B256::repeat_byte(byte), block: None }
}

fn deposit(id: &str, stage: DepositStage) -> DepositRow {
    DepositRow {
        id: safe(id),
        source_chain: safe("ethereum"),
        destination_chain: safe("base"),
        stage,
        amount_in: "500".to_owned(),
        token_in: safe("USDC"),
        amount_asked: "499.25".to_owned(),
        amount_received: None,
        token_out: safe("USDC"),
        fill_deadline: START_MILLIS / 1_000 + 3_600,
        deposited_at: START_MILLIS - 30_000,
        deposited: TxPlace { block: Some(1_234), ..place(31_337, 0xd1) },
        slow_fill_asked: None,
        filled: None,
        relayer: None,
        refunded: None,
        remark: safe(""),
    }
}

/// A deposit in each stage.
fn stages() -> Vec<(&'static str, DepositRow)> {
    use DepositStage::*;
    let fill = Some(place(31_338, 0xf1));
    let relayer = Some(safe("0x07aE8551Be970cB1cCa11Dd7a11F47Ae82e70E67"));
    let asked = Some(place(31_338, 0xa1));
    let got = |amount: &str| Some(amount.to_owned());
    vec![
        ("waiting", deposit("3", Waiting)),
        ("slow_fill_asked", DepositRow { slow_fill_asked: asked.clone(), ..deposit("3", SlowFillAsked) }),
        (
            "filled",
            DepositRow { filled: fill.clone(), relayer, amount_received: got("499.25"), ..deposit("3", Filled) },
        ),
        (
            "filled_slowly",
            DepositRow {
                slow_fill_asked: asked,
                filled: fill,
                amount_received: got("499.95"),
                ..deposit("3", FilledSlowly)
            },
        ),
        ("expired", DepositRow { fill_deadline: START_MILLIS / 1_000 - 5, ..deposit("3", Expired) }),
        (
            "refunded",
            DepositRow {
                fill_deadline: START_MILLIS / 1_000 - 60,
                refunded: Some(place(31_337, 0xb1)),
                ..deposit("3", Refunded)
            },
        ),
        ("unclear", DepositRow { remark: safe("the destination does not answer"), ..deposit("3", Unclear) }),
    ]
}

fn with(rows: Vec<DepositRow>) -> TestHarness {
    let mut world = world();
    world.snapshot.deposits = Some(Arc::new(DepositsState { rows, fault: None }));
    world
}

#[test]
fn a_deposit_is_shown_in_every_stage_with_what_arrived_where_and_by_which_transaction() {
    for (name, row) in stages() {
        let mut world = with(vec![row]);
        (world.feed.orders, world.feed.intents) = Default::default();
        for (width, height) in [(120, 24), (80, 20)] {
            let text = drawn(&Orders::default(), &world, Rect { x: 0, y: 0, width, height });
            insta::assert_snapshot!(format!("deposit_{name}_{width}x{height}"), text);
        }
    }
}

#[test]
fn open_deposits_are_listed_before_settled_ones_and_nothing_takes_one_back() {
    let older = DepositRow { deposited_at: START_MILLIS - 60_000, ..deposit("1", DepositStage::Expired) };
    let mut world = with(vec![deposit("2", DepositStage::Filled), older]);
    (world.feed.orders, world.feed.intents) = Default::default();
    let text = drawn(&Orders::default(), &world, AREA);
    assert!(text.contains("1 open · 1 past"), "{text}");
    let mut screen = Orders::default();
    assert_eq!(screen.act(Action::Copy, &world.known(), AREA), Some(vec![ScreenRequest::Copy("1".to_owned())]));
    let said = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
    assert!(
        matches!(&said[..], [ScreenRequest::Notice(words)] if words.as_str().contains("cannot be cancelled")),
        "{said:?}"
    );
}

#[test]
fn deposits_that_cannot_be_read_are_said() {
    let mut world = with(Vec::new());
    let fault = Some(safe("base: it does not answer"));
    world.snapshot.deposits = Some(Arc::new(DepositsState { rows: Vec::new(), fault }));
    assert!(drawn(&Orders::default(), &world, AREA).contains("! deposits: base: it does not answer"));
}
