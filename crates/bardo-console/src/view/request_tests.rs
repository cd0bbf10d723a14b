//! Property tests of approval dialogs with arbitrary content: every row can be scrolled into view, and hidden rows are
//! counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::Address;
use proptest::prelude::*;

use super::tests::{drawn, news, question, running, text};
use crate::keymap::Key;
use crate::state::{Input, Layer, State};
use bardo_base::fabric::{CheckOutcome, Finding, SafetyCheck};
use bardo_base::model::Check;
use bardo_session::handle::SessionNews;
use bardo_session::questions::{
    ActionAddress, AddressPart, AllowanceAfter, OrderDetails, Question, RawCall, RequestSubject, TokenChange,
    WarningToRead,
};

/// Number of items in each part of a request.
#[derive(Debug, Clone)]
struct Sizes {
    changes: usize,
    places: usize,
    checks: usize,
    to_read: usize,
    calls: usize,
    bytes: usize,
    fields: usize,
    allowances: usize,
    /// Length of long names, in characters.
    long: usize,
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let counts = (0_usize..7, 0_usize..9, 0_usize..11, 0_usize..7);
    let more = (0_usize..4, 0_usize..300, 0_usize..9, 0_usize..4, 1_usize..60);
    (counts, more).prop_map(|((changes, places, checks, to_read), (calls, bytes, fields, allowances, long))| Sizes {
        changes,
        places,
        checks,
        to_read,
        calls,
        bytes,
        fields,
        allowances,
        long,
    })
}

/// Unique name with `long` extra letters.
fn name(of: &str, at: usize, long: usize) -> String {
    format!("{of}{at}q{}", "x".repeat(long))
}

/// Request of these sizes, with the texts that its page must show, and those that the page of raw calls must show.
fn asked(sizes: &Sizes) -> (Question, Vec<String>, Vec<String>) {
    let mut question = question(&text("Buy UNI"));
    let (mut told, mut raw) = (Vec::new(), Vec::new());
    let seed = |base: u8, at: usize| Address::repeat_byte(base.wrapping_add(u8::try_from(at).unwrap()));
    let RequestSubject::Action(action) = &mut question.about else { panic!() };
    let change = |at: usize| TokenChange {
        symbol: text(&name("sym", at, sizes.long)),
        address: None,
        expected: format!("+{}.25", 1_000 + at),
        dollars: Some(format!("+${}.75", 2_000 + at)),
        before: format!("{}", 3_000 + at),
        after: format!("{}.25", 4_000 + at),
        worst: Some(format!("+{}.125", 5_000 + at)),
        gas: false,
    };
    action.changes = (0..sizes.changes).map(change).collect();
    for one in &action.changes {
        told.extend([one.symbol.to_string(), one.expected.clone(), one.before.clone(), one.after.clone()]);
        told.extend(one.worst.clone());
    }
    let parts = [AddressPart::From, AddressPart::Calls, AddressPart::Spender, AddressPart::Receiver];
    let place = |at: usize| ActionAddress {
        part: parts[at % parts.len()],
        address: seed(0x10, at),
        label: at.is_multiple_of(2).then(|| text(&name("label", at, sizes.long))),
        listed: at.is_multiple_of(3),
        in_book: at.is_multiple_of(2),
        is_from: false,
        first_seen: at % 4 == 3,
    };
    action.places = (0..sizes.places).map(place).collect();
    for one in &action.places {
        told.push(one.address.to_string());
        told.extend(one.label.as_ref().map(ToString::to_string));
    }
    let outcomes = [CheckOutcome::Passed, CheckOutcome::Warned];
    let check = |at: usize| SafetyCheck {
        check: Check::ALL[at % Check::ALL.len()],
        outcome: outcomes[at % outcomes.len()],
        finding: Finding::said("fine"),
    };
    action.checks = (0..sizes.checks).map(check).collect();
    told.extend(action.checks.iter().map(|one| crate::widgets::words::check_word(one.check).to_owned()));
    question.to_read = (0..sizes.to_read).map(|at| WarningToRead::plain(text(&name("read", at, sizes.long)))).collect();
    told.extend(question.to_read.iter().map(|one| one.text.to_string()));
    let allowance = |at: usize| AllowanceAfter {
        symbol: text(&name("may", at, sizes.long)),
        spender: seed(0x40, at),
        label: None,
        amount: format!("{}.5", 6_000 + at),
        unlimited: at % 2 == 1,
        through_permit2: false,
        expires_at: None,
        before: Some(format!("{}.5", 7_000 + at)),
        before_unlimited: false,
        for_open_orders: None,
        until_settled: None,
    };
    action.allowances = (0..sizes.allowances).map(allowance).collect();
    for one in &action.allowances {
        told.extend([one.symbol.to_string(), one.spender.to_string(), one.before.clone().unwrap()]);
    }
    let call = |at: usize| RawCall {
        purpose: text(&name("for", at, sizes.long.min(20))),
        to: seed(0x70, at),
        value_wei: format!("{}", 8_000 + at),
        gas_limit: 300_000,
        data: format!("0x{at}{}", "ab".repeat(sizes.bytes)),
        signs: vec![text(&name("signs", at, sizes.long))],
    };
    action.raw = (0..sizes.calls).map(call).collect();
    for one in &action.raw {
        raw.extend([one.purpose.to_string(), one.to.to_string(), one.value_wei.clone(), one.data.clone()]);
        raw.extend(one.signs.iter().map(ToString::to_string));
    }
    action.order = (sizes.fields > 0).then(|| OrderDetails {
        kind: text("kindq"),
        usable_until: 1_700_000_200,
        fields: (0..sizes.fields).map(|at| (text(&name("key", at, 3)), text(&name("val", at, sizes.long)))).collect(),
    });
    if let Some(order) = &action.order {
        told.push(order.kind.to_string());
        raw.extend(order.fields.iter().flat_map(|(name, value)| [name.to_string(), value.to_string()]));
    }
    raw.extend([action.permit.to_string(), action.hash.to_string()]);
    (question, told, raw)
}

/// Numbers in the dialog's edge: first line, last line, total.
fn counted(row: &str) -> Option<(usize, usize, usize)> {
    let told = row.split(" lines ").nth(1)?;
    let (first, rest) = told.split_once('–')?;
    let (last, rest) = rest.split_once(" of ")?;
    Some((first.parse().ok()?, last.parse().ok()?, rest.split([' ', '─']).next()?.parse().ok()?))
}

/// Text of a row without blanks, frame characters, and the commas between thousands.
fn words(row: &str) -> String {
    row.chars().filter(|one| !one.is_whitespace() && !",│─├┤┌┐└┘".contains(*one)).collect()
}

/// All lines of the dialog, collected by scrolling through it. Checks the count of hidden lines at each step.
fn scrolled(state: &mut State) -> Result<String, TestCaseError> {
    let mut lines: BTreeMap<usize, String> = BTreeMap::new();
    let press = |state: &mut State, letter: char| {
        state.update(Input::Key(Key::char(letter)));
        state.update(crate::view::drawn(state));
    };
    press(state, 'g');
    for _ in 0..600 {
        let rows = drawn(state);
        let shown = rows.join("\n");
        let Some(Layer::Decision(decision)) = state.display.layers.last() else { panic!("{shown}") };
        let fit = super::decision_fit(state).unwrap();
        // Leaves out the text beside the dialog.
        let before = rows.iter().find_map(|row| Some(row[..row.find("┌─ DECISION")?].chars().count())).unwrap();
        let within = |row: &str| row.chars().skip(before).take(fit.columns + 4).collect::<String>();
        let Some((at, (first, last, of))) = rows.iter().enumerate().find_map(|(at, row)| Some((at, counted(row)?)))
        else {
            prop_assert!(
                fit.above + fit.shown == fit.lines.len(),
                "{} of {} lines, and not a word of it\n{}",
                fit.shown,
                fit.lines.len(),
                shown
            );
            return Ok(rows.iter().map(|row| words(&within(row))).collect());
        };
        prop_assert_eq!(
            (first, last, of),
            (fit.first + 1 - fit.above, fit.first + fit.shown - fit.above, fit.lines.len() - fit.above),
            "{}",
            shown
        );
        prop_assert!(decision.full || fit.above + fit.shown < fit.lines.len(), "{}", shown);
        for (index, row) in (first..=last).zip(&rows[at + 1..]) {
            lines.insert(index, words(&within(row)));
        }
        if last == of {
            prop_assert!((1..=of).all(|line| lines.contains_key(&line)), "a line was never shown\n{}", shown);
            return Ok(lines.into_values().collect());
        }
        press(state, 'j');
    }
    Err(TestCaseError::fail("the end was never reached"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_is_asked_every_row_of_it_can_be_reached_and_what_is_hidden_is_counted(
        sizes in sizes(), width in 40_u16..140, height in 14_u16..60, full in any::<bool>(),
    ) {
        let (question, told, raw) = asked(&sizes);
        let mut state = running(width, height, &text("Selling."));
        news(&mut state, SessionNews::Questions(Arc::new(vec![question])));
        state.update(Input::Key(Key::char('a')));
        if full {
            state.update(Input::Key(Key::char('z')));
        }
        state.update(crate::view::drawn(&state));
        // Without room for the answers nothing is accepted; another test covers that.
        prop_assume!(super::decision_fit(&state).is_some());
        for (page, expected) in [(' ', told), ('d', raw)] {
            if page == 'd' {
                state.update(Input::Key(Key::char('d')));
            }
            let shown = scrolled(&mut state)?;
            for one in expected {
                let bare = words(&one);
                prop_assert!(shown.contains(&bare), "{}×{}: no {} in\n{}\n{}", width, height, one, shown, drawn(&state).join("\n"));
            }
        }
    }
}
