//! Screen 9: transactions and orders under way.

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use ratatui::layout::Rect;
use serde_json::json;

use super::world::{TestHarness, world};
use super::{AREA, calls, drawn, safe};
use crate::keymap::Action;
use crate::screens::transactions::Transactions;
use crate::screens::{CommandReply, ScreenRequest, ScreenView};
use crate::widgets::samples::{START, START_MILLIS};
use bardo_base::id::{CallId, PermitId};
use bardo_session::handle::{
    ChainTransactions, Inclusion, NamedAddress, NonceGap, OpenOrderRow, SessionCommand, TransactionRow,
    TransactionsState, WaitingPlan,
};

pub(super) fn row(nonce: u64, tool: &str, inclusion: Inclusion) -> TransactionRow {
    TransactionRow {
        hash: B256::repeat_byte(u8::try_from(nonce).unwrap()),
        nonce,
        to: Some(Address::repeat_byte(0x70)),
        to_label: (tool == "uniswap_execute_swap").then(|| safe("Universal Router 2.1.0")),
        tool: Some(safe(tool)),
        golem_id: Some(safe("ada")),
        call_id: None,
        plan: Some(WaitingPlan {
            permit_id: "7c1e0000000040008000000000000001".parse::<PermitId>().unwrap(),
            leg: 1,
            of: 2,
            reserved: Some("853.14".parse().unwrap()),
        }),
        signed_at: START_MILLIS - 1_000 * nonce,
        sends: 3,
        max_fee: 20_000_000_000,
        tip: 100_000_000,
        inclusion,
        cancels: false,
        replaces: None,
        private: false,
        actionable: true,
        note: None,
    }
}

/// One transaction in each state, gaps of both kinds, and an order.
pub(crate) fn sample(chain: &str, tool: &str) -> TransactionsState {
    let replaced =
        TransactionRow { actionable: false, plan: None, ..row(44, "wallet_transfer_token", Inclusion::Replaced) };
    let cancel = TransactionRow {
        hash: B256::repeat_byte(0xca),
        cancels: true,
        replaces: Some(B256::repeat_byte(44)),
        note: Some(safe(chain)),
        ..row(44, tool, Inclusion::AfterNonce { next: 41 })
    };
    let ethereum = ChainTransactions {
        chain: safe("ethereum"),
        chain_id: 31_337,
        base_fee: Some(31_000_000_000),
        next_nonce: Some(41),
        rows: vec![
            row(41, "uniswap_execute_swap", Inclusion::BelowBaseFee),
            TransactionRow { note: Some(safe("txpool is full")), ..row(43, "token_approve", Inclusion::Forgotten) },
            replaced,
            cancel,
        ],
        gaps: vec![NonceGap::Missing { from: 42, to: 42 }],
        fault: None,
    };
    let base = ChainTransactions {
        chain: safe(chain),
        chain_id: 31_338,
        base_fee: Some(7),
        next_nonce: Some(9),
        rows: vec![
            row(9, "token_revoke", Inclusion::Next),
            row(10, "token_revoke", Inclusion::Unacknowledged),
            TransactionRow { actionable: false, ..row(8, "token_revoke", Inclusion::InBlock { block: 1_284 }) },
        ],
        gaps: Vec::new(),
        fault: None,
    };
    let order = OpenOrderRow {
        hash: B256::repeat_byte(0x4b),
        chain: safe(chain),
        bridge: false,
        limit: false,
        status: safe("open"),
        golem_id: safe("operator"),
        permit_id: "7c1e0000000040008000000000000002".parse().unwrap(),
        signed_at: START_MILLIS - 20_000,
        usable_until: START + 70,
        reserved: Some("1700.62".parse().unwrap()),
    };
    TransactionsState { at: START_MILLIS, chains: vec![ethereum, base], orders: vec![order], fault: None }
}

fn with(change: impl FnOnce(&mut TransactionsState)) -> TestHarness {
    let mut world = world();
    let mut state = sample("base", "wallet_transfer_token");
    state.chains[1].gaps = vec![NonceGap::Foreign { ledger: 11, chain: 12 }];
    change(&mut state);
    world.snapshot.transactions = Some(Arc::new(state));
    let name = safe("label “Savings”");
    world.snapshot.names.push(NamedAddress { address: Address::repeat_byte(0x70), name });
    world
}

#[test]
fn each_state_is_explained_at_each_size() {
    let world = with(|_| ());
    let mut screen = Transactions::default();
    let rows = ["below", "forgotten", "replaced", "cancel", "next", "unacknowledged", "included", "order"];
    for name in rows {
        for (width, height) in [(120, 30), (80, 20), (40, 20)] {
            let text = drawn(&screen, &world, Rect { x: 0, y: 0, width, height });
            insta::assert_snapshot!(format!("under_way_{name}_{width}x{height}"), text);
        }
        screen.act(Action::Down, &world.known(), AREA);
    }
    let empty = with(|state| *state = TransactionsState::default());
    insta::assert_snapshot!(
        "under_way_nothing_80x20",
        drawn(&screen, &empty, Rect { x: 0, y: 0, width: 80, height: 20 })
    );
    let unread = with(|state| {
        state.chains.truncate(1);
        state.chains[0] = ChainTransactions {
            base_fee: None,
            next_nonce: None,
            rows: vec![row(41, "uniswap_execute_swap", Inclusion::Unknown)],
            gaps: Vec::new(),
            fault: Some(safe("no endpoint answers: connection refused")),
            ..state.chains[0].clone()
        };
    });
    let text = drawn(&Transactions::default(), &unread, Rect { x: 0, y: 0, width: 80, height: 20 });
    insta::assert_snapshot!("under_way_unread_80x20", text);
}

#[test]
fn keys_call_the_tools_and_the_decision_opens_by_itself() {
    let mut world = with(|_| ());
    let mut screen = Transactions::default();
    let hash = B256::repeat_byte(41).to_string();
    for (action, tool) in [(Action::SpeedUp, "speed_up_transaction"), (Action::CancelSelected, "cancel_transaction")] {
        let sent = screen.act(action, &world.known(), AREA).unwrap();
        let done = calls(&sent);
        assert!(
            matches!(&done[..], [(_, called, params, false)] if called == tool && *params == json!({"transaction": hash})),
            "{done:?}"
        );
    }
    let sent = screen.act(Action::Rebroadcast, &world.known(), AREA).unwrap();
    let [ScreenRequest::Send(command)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(**command, SessionCommand::Rebroadcast { transaction: B256::repeat_byte(41) });
    // The question of the call is opened as soon as it is asked, and no other one.
    let call = CallId::new(START_MILLIS);
    assert!(screen.receive_reply(2, CommandReply::Began(call), &world.known()).is_empty());
    assert!(screen.tick(&world.known()).is_empty());
    let number = world.questions[0].number;
    world.questions[0].call_id = Some(call);
    assert_eq!(screen.tick(&world.known()), [ScreenRequest::OpenQuestion(number)]);
    assert!(screen.tick(&world.known()).is_empty(), "once");
    // A row that ended, and an order.
    screen.act(Action::Down, &world.known(), AREA);
    screen.act(Action::Down, &world.known(), AREA);
    let sent = screen.act(Action::SpeedUp, &world.known(), AREA).unwrap();
    assert!(matches!(sent[..], [ScreenRequest::Notice(_)]), "{sent:?}");
    screen.act(Action::Bottom, &world.known(), AREA);
    // The cancellation of an order is sent by no key alone: its question comes first.
    let asked = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
    let [ScreenRequest::Confirm { title, command, .. }] = &asked[..] else { panic!("{asked:?}") };
    assert!(title.as_str().starts_with("Order 0x") && title.as_str().contains("costs gas"), "{title}");
    // 46,000 units of gas at 7 wei; what is held on that chain is not known, and so is no price.
    assert!(title.as_str().contains(": about 0.000000000000322 native token at the present"), "{title}");
    let then = ScreenRequest::Send(command.clone());
    assert!(matches!(&calls(&[then])[..], [(_, tool, _, false)] if tool == "uniswapx_cancel_order"));
    let title = |world: &TestHarness| {
        let mut screen = Transactions::default();
        screen.act(Action::Bottom, &world.known(), AREA);
        let asked = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
        let [ScreenRequest::Confirm { title, .. }] = &asked[..] else { panic!("{asked:?}") };
        title.as_str().to_owned()
    };
    // 31 gwei, and 4.25 WETH that are worth $14,503.34.
    let mut world = with(|state| state.orders[0].chain = safe("ethereum"));
    assert!(
        title(&world).contains(": about 0.001426 WETH ($4.87) at the present base fee. A filler"),
        "{}",
        title(&world)
    );
    // Without that reading, the base fee of the newest block: 1.2 gwei.
    let unread = |state: &mut TransactionsState| state.chains[0].base_fee = None;
    unread(Arc::make_mut(world.snapshot.transactions.as_mut().unwrap()));
    assert!(title(&world).contains(": about 0.0000552 WETH ($0.19) at"), "{}", title(&world));
    world.page.chains[0].blocks.clear();
    assert!(title(&world).contains("costs gas: an unknown amount"), "{}", title(&world));
}

#[test]
fn the_selection_follows_its_transaction() {
    let mut world = with(|_| ());
    let mut screen = Transactions::default();
    screen.act(Action::Down, &world.known(), AREA);
    let mut state = sample("base", "wallet_transfer_token");
    state.chains[0].rows.remove(0);
    world.snapshot.transactions = Some(Arc::new(state));
    let copied = screen.act(Action::Copy, &world.known(), AREA).unwrap();
    assert_eq!(copied, [ScreenRequest::Copy(B256::repeat_byte(43).to_string())]);
}

/// A fee raise replaces the selected transaction: keys go on to act on the one that waits, not on the one that is over.
#[test]
fn the_selection_goes_on_to_the_transaction_that_replaces_the_selected_one() {
    let mut world = with(|state| state.chains[0].rows.truncate(1));
    let mut screen = Transactions::default();
    screen.act(Action::Top, &world.known(), AREA);
    let speed_up = |screen: &mut Transactions, world: &TestHarness| {
        let sent = screen.act(Action::SpeedUp, &world.known(), AREA).unwrap();
        calls(&sent).into_iter().map(|(_, _, params, _)| params["transaction"].as_str().unwrap().to_owned()).next_back()
    };
    assert_eq!(speed_up(&mut screen, &world), Some(B256::repeat_byte(41).to_string()));
    let mut state = sample("base", "wallet_transfer_token");
    let first = state.chains[0].rows[0].clone();
    let later = TransactionRow { hash: B256::repeat_byte(0xfe), replaces: Some(first.hash), ..first.clone() };
    let replaced = TransactionRow { inclusion: Inclusion::Replaced, actionable: false, plan: None, ..first };
    state.chains[0].rows = vec![replaced, later];
    world.snapshot.transactions = Some(Arc::new(state));
    assert_eq!(speed_up(&mut screen, &world), Some(B256::repeat_byte(0xfe).to_string()));
    // The replaced one can still be read.
    screen.act(Action::Up, &world.known(), AREA);
    let copied = screen.act(Action::Copy, &world.known(), AREA).unwrap();
    assert_eq!(copied, [ScreenRequest::Copy(B256::repeat_byte(41).to_string())]);
}
