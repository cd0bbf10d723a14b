//! Tests of the approval dialog: when it acts and when it must not.

use crossterm::event::KeyCode;
use proptest::prelude::*;

use super::*;
use crate::widgets::decision::numbered_lines;
use bardo_base::id::GolemId;
use bardo_session::market::MoneyKind;
use bardo_session::questions::{AnswerOption, QuestionKey, RequestSubject, TypedConfirmation, WarningToRead};

fn text(words: &str) -> SafeText {
    SafeText::clean(words, 200)
}

fn question() -> Question {
    Question {
        key: QuestionKey::Own(1),
        number: 1,
        golem_id: GolemId::operator(),
        call_id: None,
        place: 1,
        of: 1,
        title: text("Buy UNI"),
        value: None,
        money: MoneyKind::Play,
        asked_at: 0,
        ends_at: None,
        passes_by_itself: false,
        needs_password: false,
        reasons: vec![],
        changed: vec![],
        revision: 0,
        second: None,
        to_read: vec![],
        confirm: None,
        answers: AnswerKind::ALL.into_iter().map(|kind| AnswerOption { kind, why_not: None }).collect(),
        about: RequestSubject::LeavePaper,
    }
}

/// Dialog that was opened at 0 and drawn at 10.
fn shown(question: &Question) -> Decision {
    let mut decision = Decision::new(question.number, 0);
    decision.follow(question);
    decision.drawn(10, Some(whole()));
    decision
}

/// Drawing in which all lines are in view.
fn whole() -> VisiblePart {
    VisiblePart { columns: 80, lines: numbered_lines(9), above: 0, first: 0, shown: 9, raw: false }
}

fn approve(decision: &mut Decision, from: u64) -> DecisionOutcome {
    decision.act(Action::Pick(AnswerKind::Once), from, 40);
    decision.act(Action::DoIt, from + GUARD_MILLIS, 40)
}

#[test]
fn nothing_acts_before_it_was_drawn() {
    let mut decision = Decision::new(1, 0);
    decision.follow(&question());
    decision.act(Action::Pick(AnswerKind::Once), 1_000_000, 40);
    assert_eq!(decision.picked, None);
    assert_eq!(decision.act(Action::DoIt, 2_000_000, 40), DecisionOutcome::Stays);
}

#[test]
fn a_letter_picks_and_enter_does_it_each_after_half_a_second() {
    let mut decision = shown(&question());
    assert_eq!(decision.acts_from(), Some(10 + GUARD_MILLIS));
    decision.act(Action::Pick(AnswerKind::Once), 10 + GUARD_MILLIS - 1, 40);
    assert_eq!(decision.picked, None, "one millisecond too early");
    // The early key counts as a keystroke, so the guard time restarts.
    decision.act(Action::Pick(AnswerKind::Once), 10 + GUARD_MILLIS, 40);
    assert_eq!(decision.picked, None);
    decision.act(Action::Pick(AnswerKind::Once), 10 + 2 * GUARD_MILLIS, 40);
    assert_eq!(decision.picked, Some(AnswerKind::Once));
    assert_eq!(decision.act(Action::DoIt, 10 + 3 * GUARD_MILLIS - 1, 40), DecisionOutcome::Stays);
    assert_eq!(decision.act(Action::DoIt, 10 + 4 * GUARD_MILLIS, 40), DecisionOutcome::Answer(OperatorAnswer::Once));
}

#[test]
fn a_key_that_came_too_soon_is_named_until_the_next_one() {
    let mut decision = shown(&question());
    decision.act(Action::Pick(AnswerKind::Once), 10 + GUARD_MILLIS, 40);
    decision.act(Action::DoIt, 10 + GUARD_MILLIS + 100, 40);
    assert!(decision.hurried && decision.hint.is_some(), "the answer was not given");
    decision.act(Action::DoIt, 10 + 3 * GUARD_MILLIS, 40);
    assert!(!decision.hurried);
}

#[test]
fn a_held_key_never_acts() {
    let mut decision = shown(&question());
    // A terminal repeats a held key every 30 ms, for a minute.
    for at in (10..60_000).step_by(30) {
        assert_eq!(decision.act(Action::Pick(AnswerKind::Once), at, 40), DecisionOutcome::Stays);
        assert_eq!(decision.act(Action::DoIt, at + 1, 40), DecisionOutcome::Stays);
    }
    assert_eq!(decision.picked, None);
}

#[test]
fn a_paste_starts_the_guard_anew() {
    let mut decision = shown(&question());
    decision.pasted(5_000);
    decision.act(Action::Pick(AnswerKind::Once), 5_000 + GUARD_MILLIS - 1, 40);
    assert_eq!(decision.picked, None);
}

#[test]
fn what_must_be_read_is_read_before_a_yes_and_not_before_a_no() {
    let asked =
        Question { to_read: vec![WarningToRead::plain(text("one")), WarningToRead::plain(text("two"))], ..question() };
    let mut decision = shown(&asked);
    decision.act(Action::Pick(AnswerKind::Once), 10_000, 40);
    assert_eq!(decision.picked, None);
    decision.act(Action::Pick(AnswerKind::Similar), 20_000, 40);
    assert_eq!(decision.picked, None);
    decision.act(Action::MarkRead, 30_000, 40);
    decision.act(Action::Pick(AnswerKind::Once), 40_000, 40);
    assert_eq!(decision.picked, None, "one is still unread");
    decision.act(Action::MarkRead, 50_000, 40);
    assert_eq!(approve(&mut decision, 60_000), DecisionOutcome::Answer(OperatorAnswer::Once));
    let mut decision = shown(&asked);
    decision.act(Action::Pick(AnswerKind::Refuse), 10_000, 40);
    assert_eq!(
        decision.act(Action::DoIt, 20_000, 40),
        DecisionOutcome::Answer(OperatorAnswer::Refuse { reason: SafeText::default() })
    );
}

#[test]
fn a_changed_question_clears_what_was_picked_and_read() {
    let asked = Question { to_read: vec![WarningToRead::plain(text("one"))], ..question() };
    let mut decision = shown(&asked);
    decision.act(Action::MarkRead, 10_000, 40);
    decision.act(Action::Pick(AnswerKind::Once), 20_000, 40);
    assert_eq!(decision.picked, Some(AnswerKind::Once));
    let anew = Question { key: QuestionKey::Own(2), changed: vec![text("price: 1 → 2")], ..asked.clone() };
    decision.follow(&anew);
    assert_eq!((decision.picked, decision.unread(&anew)), (None, 1));
    assert_eq!(decision.changed, [text("price: 1 → 2")]);
    assert_eq!(decision.act(Action::DoIt, 30_000, 40), DecisionOutcome::Stays, "it was not drawn since");
    decision.act(Action::Pick(AnswerKind::Refuse), 40_000, 40);
    assert_eq!(decision.picked, None, "it was not drawn since");
    // A change of the place in the queue changes nothing else.
    let mut decision = shown(&asked);
    decision.act(Action::MarkRead, 10_000, 40);
    decision.follow(&Question { place: 2, of: 7, ..asked.clone() });
    assert_eq!(decision.unread(&asked), 0);
}

#[test]
fn an_answer_that_is_not_offered_cannot_be_picked() {
    let mut asked = question();
    for offered in &mut asked.answers {
        offered.why_not = Some(text("not now"));
    }
    let mut decision = shown(&asked);
    for (at, kind) in (1..).zip(AnswerKind::ALL) {
        decision.act(Action::Pick(kind), at * 10_000, 40);
        assert_eq!(decision.picked, None);
    }
}

#[test]
fn a_standing_approval_asks_a_second_time() {
    let mut decision = shown(&question());
    decision.act(Action::Pick(AnswerKind::Similar), 10_000, 40);
    decision.type_key(Key::plain(KeyCode::Tab), 11_000);
    for (at, digit) in (12_000..).zip("1500".chars()) {
        decision.type_key(Key::char(digit), at);
    }
    assert_eq!(decision.act(Action::DoIt, 20_000, 40), DecisionOutcome::Stays);
    assert!(decision.again);
    let total = "1500".parse().unwrap();
    let given = OperatorAnswer::Similar { millis: 3_600_000, total };
    assert_eq!(decision.act(Action::DoIt, 30_000, 40), DecisionOutcome::Answer(given));
}

#[test]
fn a_total_below_the_action_itself_is_not_sent_and_keeps_what_was_typed() {
    // The sample spends $2,047.53.
    let asked = Question { to_read: Vec::new(), confirm: None, ..crate::widgets::samples::question() };
    for (total, is_enough) in [("2047.52", false), ("2047.53", true), ("0", false)] {
        let mut decision = shown(&asked);
        decision.act(Action::Pick(AnswerKind::Similar), 10_000, 40);
        assert_eq!(decision.picked, Some(AnswerKind::Similar));
        decision.type_key(Key::plain(KeyCode::Tab), 11_000);
        for (at, digit) in (12_000..).zip(total.chars()) {
            decision.type_key(Key::char(digit), at);
        }
        assert_eq!(decision.act(Action::DoIt, 20_000, 40), DecisionOutcome::Stays);
        assert_eq!(decision.again, is_enough, "{total}");
        let typed = decision.form.as_ref().unwrap().fields[1].1.text().to_owned();
        assert_eq!(typed, total);
        let hint = decision.hint.as_ref().unwrap().to_string();
        assert_eq!(hint.contains("type 2047.53 or more"), !is_enough, "{hint}");
    }
}

#[test]
fn the_second_time_is_for_what_was_shown_the_first_time() {
    let typed = |decision: &mut Decision, text: &str, from: u64| {
        for (at, letter) in (from..).zip(text.chars()) {
            decision.type_key(Key::char(letter), at);
        }
    };
    let mut decision = shown(&question());
    decision.act(Action::Pick(AnswerKind::Similar), 10_000, 40);
    decision.type_key(Key::plain(KeyCode::Tab), 11_000);
    typed(&mut decision, "15", 12_000);
    assert_eq!(decision.act(Action::DoIt, 20_000, 40), DecisionOutcome::Stays);
    // More text follows the first confirmation, which therefore no longer applies.
    typed(&mut decision, "00", 21_000);
    assert_eq!(decision.act(Action::DoIt, 30_000, 40), DecisionOutcome::Stays);
    assert!(decision.again);
    // Choosing the answer again requires both confirmations again.
    decision.act(Action::Pick(AnswerKind::Similar), 50_000, 40);
    assert!(!decision.again);
}

#[test]
fn enter_right_after_a_letter_of_the_text_does_nothing() {
    let mut decision = shown(&question());
    decision.act(Action::Pick(AnswerKind::Refuse), 10_000, 40);
    decision.type_key(Key::char('x'), 20_000);
    assert_eq!(decision.act(Action::DoIt, 20_000 + GUARD_MILLIS - 1, 40), DecisionOutcome::Stays);
    let reason = text("x");
    assert_eq!(decision.act(Action::DoIt, 30_000, 40), DecisionOutcome::Answer(OperatorAnswer::Refuse { reason }));
}

#[test]
fn the_last_four_characters_must_be_the_right_ones() {
    let confirm = TypedConfirmation { what: text("the last four"), expected: text("2266") };
    let mut decision = shown(&Question { confirm: Some(confirm), ..question() });
    decision.act(Action::Pick(AnswerKind::Once), 10_000, 40);
    for (at, digit) in (11_000..).zip("2267".chars()) {
        decision.type_key(Key::char(digit), at);
    }
    assert_eq!(decision.act(Action::DoIt, 20_000, 40), DecisionOutcome::Stays);
    decision.type_key(Key::plain(KeyCode::Backspace), 21_000);
    decision.type_key(Key::char('6'), 22_000);
    assert_eq!(decision.act(Action::DoIt, 30_000, 40), DecisionOutcome::Answer(OperatorAnswer::Once));
}

#[test]
fn escape_never_refuses() {
    let mut decision = shown(&question());
    decision.act(Action::Pick(AnswerKind::Refuse), 10_000, 40);
    assert_eq!(decision.act(Action::Back, 20_000, 40), DecisionOutcome::Stays, "it takes the pick back");
    assert_eq!((decision.picked, decision.typing()), (None, false));
    assert_eq!(decision.act(Action::Back, 30_000, 40), DecisionOutcome::Later);
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::DoIt),
        Just(Action::MarkRead),
        Just(Action::Down),
        Just(Action::RawCall),
        Just(Action::Zoom),
        prop::sample::select(AnswerKind::ALL.to_vec()).prop_map(Action::Pick),
    ]
}

proptest! {
    /// Keys closer together than the guard time never answer, choose or mark anything.
    #[test]
    fn keys_in_a_hurry_never_answer(keys in prop::collection::vec((any_action(), 0..GUARD_MILLIS), 1..200)) {
        let asked = Question { to_read: vec![WarningToRead::plain(text("one"))], ..question() };
        let mut decision = shown(&asked);
        let mut now = 10;
        for (action, pause) in keys {
            now += pause;
            prop_assert_eq!(decision.act(action, now, 40), DecisionOutcome::Stays);
            prop_assert_eq!(decision.picked, None);
            prop_assert_eq!(decision.unread(&asked), 1);
        }
    }

    /// Every answer follows a choice of its kind and a confirmation, each after the guard time.
    #[test]
    fn every_answer_was_picked_and_done_on_purpose(keys in prop::collection::vec((any_action(), 0..2_000_u64), 1..100)) {
        let mut decision = shown(&question());
        let (mut now, mut last) = (10, 10);
        let mut picked = None;
        for (action, pause) in keys {
            now += pause;
            let calm = now - last >= GUARD_MILLIS;
            match decision.act(action, now, 40) {
                DecisionOutcome::Answer(answer) => {
                    prop_assert!(calm && action == Action::DoIt);
                    prop_assert_eq!(picked, Some(answer.kind()));
                    return Ok(());
                }
                _ => {
                    if let (Action::Pick(kind), true) = (action, calm) {
                        picked = Some(kind);
                    }
                }
            }
            last = now;
        }
    }
}

/// Drawing of `shown` of the nine lines, starting at `first`.
fn part(first: usize, shown: usize) -> Option<VisiblePart> {
    Some(VisiblePart { first, shown, ..whole() })
}

#[test]
fn a_yes_waits_until_all_of_it_was_on_the_screen_and_a_no_does_not() {
    let asked = question();
    let mut decision = Decision::new(1, 0);
    decision.follow(&asked);
    decision.drawn(10, part(0, 4));
    for (kind, now) in [(AnswerKind::Once, 10_000), (AnswerKind::Similar, 15_000)] {
        decision.act(Action::Pick(kind), now, 40);
        assert_eq!(decision.picked, None, "{kind:?}");
        assert!(
            decision.hint.as_ref().is_some_and(|hint| hint.as_str().contains("5 more lines")),
            "{:?}",
            decision.hint
        );
    }
    decision.act(Action::Pick(AnswerKind::Refuse), 20_000, 40);
    assert_eq!(decision.picked, Some(AnswerKind::Refuse));
    decision.act(Action::Back, 30_000, 40);
    // Jumping to the end shows the end, but not the lines between.
    decision.drawn(30_000, part(6, 3));
    decision.act(Action::Pick(AnswerKind::Once), 40_000, 40);
    assert_eq!((decision.picked, decision.unseen()), (None, Some(2)));
    // The raw call does not replace its description.
    decision.drawn(40_000, Some(VisiblePart { raw: true, ..whole() }));
    assert_eq!(decision.unseen(), Some(2));
    decision.drawn(40_000, part(3, 4));
    assert_eq!(approve(&mut decision, 50_000), DecisionOutcome::Answer(OperatorAnswer::Once));
}

#[test]
fn what_was_seen_counts_only_as_it_is() {
    let asked = question();
    // Six of the nine lines were seen, then the terminal gets another size and shows other lines: the six stay read.
    let mut decision = Decision::new(1, 0);
    decision.follow(&asked);
    decision.drawn(10, part(0, 6));
    decision.moved();
    decision.drawn(1_000, part(5, 2));
    assert_eq!(decision.unseen(), Some(2));
    // A new simulation adds lines. What was read stays read, and the new lines must be seen before an approval.
    let longer = || VisiblePart { columns: 80, lines: numbered_lines(12), above: 0, first: 0, shown: 9, raw: false };
    let mut decision = shown(&asked);
    decision.act(Action::Pick(AnswerKind::Once), 10_000, 40);
    decision.follow(&Question { place: 2, ..asked.clone() });
    decision.drawn(11_000, Some(longer()));
    assert_eq!(decision.unseen(), Some(3));
    assert_eq!(decision.act(Action::DoIt, 20_000, 40), DecisionOutcome::Stays);
    assert!(decision.hint.as_ref().is_some_and(|hint| hint.as_str().contains("to approve, see")));
    // Without a new simulation, the longer form is only another drawing of what was read.
    let mut decision = shown(&asked);
    decision.drawn(11_000, Some(longer()));
    assert_eq!(decision.unseen(), Some(0));
    // After a different request under the same number, all lines must be seen again.
    let mut decision = shown(&asked);
    decision.follow(&Question { key: QuestionKey::Own(2), ..asked });
    assert_eq!(decision.unseen(), None);
}

#[test]
fn a_dialog_that_cannot_be_seen_takes_no_answer() {
    let mut decision = shown(&question());
    decision.act(Action::Pick(AnswerKind::Refuse), 10_000, 40);
    decision.drawn(11_000, None);
    assert_eq!(decision.act(Action::DoIt, 20_000, 40), DecisionOutcome::Stays);
    // When visible again, the guard time restarts.
    decision.drawn(30_000, Some(whole()));
    assert_eq!(decision.act(Action::DoIt, 30_000 + GUARD_MILLIS - 1, 40), DecisionOutcome::Stays);
    let refused = OperatorAnswer::Refuse { reason: SafeText::default() };
    assert_eq!(decision.act(Action::DoIt, 40_000, 40), DecisionOutcome::Answer(refused));
}

#[test]
fn a_click_marks_the_one_it_hits_and_takes_it_back_with_the_yes_that_counted_on_it() {
    let asked =
        Question { to_read: vec![WarningToRead::plain(text("one")), WarningToRead::plain(text("two"))], ..question() };
    let mut decision = shown(&asked);
    decision.mark_one(1, 10_000);
    assert!(decision.read.contains(&text("two")) && !decision.read.contains(&text("one")));
    decision.mark_one(0, 10_001);
    assert_eq!(decision.unread(&asked), 1, "too soon after the click before");
    decision.mark_one(0, 20_000);
    decision.act(Action::Pick(AnswerKind::Once), 30_000, 40);
    assert_eq!(decision.picked, Some(AnswerKind::Once));
    decision.mark_one(0, 40_000);
    assert_eq!((decision.picked, decision.unread(&asked)), (None, 1));
    decision.mark_one(7, 50_000);
    assert_eq!(decision.unread(&asked), 1, "nothing stands there");
}

/// Request about an action after `times` new simulations that were no worse.
fn simulated_again(times: u64) -> Question {
    let mut asked = crate::widgets::samples::question();
    if let RequestSubject::Action(action) = &mut asked.about {
        action.block += times;
        action.valid_since += times * 60_000;
        action.valid_until += times * 60_000;
        action.permit = bardo_base::id::PermitId::random();
        action.words = Some(text(&format!("thought {times}")));
        action.changes[1].expected = format!("+{}", 259 + times);
    }
    asked.to_read = vec![WarningToRead::plain(text("one"))];
    asked
}

#[test]
fn a_new_simulation_that_is_no_worse_leaves_what_was_typed_picked_read_and_scrolled() {
    let typed = |decision: &Decision| decision.form.as_ref().map(|form| form.fields[0].1.text().to_owned());
    // A rejection in progress.
    let mut decision = shown(&simulated_again(0));
    decision.act(Action::Pick(AnswerKind::Refuse), 10_000, 40);
    for (at, letter) in (11_000..).zip("gas is high".chars()) {
        decision.type_key(Key::char(letter), at);
    }
    decision.act(Action::Down, 12_000, 40);
    for times in 1..4 {
        decision.follow(&simulated_again(times));
        assert_eq!((decision.picked, typed(&decision).as_deref()), (Some(AnswerKind::Refuse), Some("gas is high")));
        assert_eq!((decision.offset, decision.unseen(), &decision.hint), (1, Some(0), &None));
    }
    // The answer applies to the newest state, with the agent's words from the first display.
    let Some(RequestSubject::Action(action)) = decision.shown.as_ref().map(|question| &question.about) else {
        panic!()
    };
    assert_eq!((action.block, action.words.as_ref().map(SafeText::as_str)), (1_289, Some("thought 0")));
    assert_eq!(
        decision.act(Action::DoIt, 20_000, 40),
        DecisionOutcome::Answer(OperatorAnswer::Refuse { reason: text("gas is high") })
    );
    // An approval in progress.
    let mut decision = shown(&simulated_again(0));
    decision.act(Action::MarkRead, 10_000, 40);
    decision.act(Action::Pick(AnswerKind::Once), 20_000, 40);
    decision.follow(&simulated_again(1));
    assert_eq!(decision.act(Action::DoIt, 30_000, 40), DecisionOutcome::Answer(OperatorAnswer::Once));
}

#[test]
fn a_worse_simulation_takes_an_approval_back_and_keeps_a_refusal() {
    let worse = || Question { revision: 1, changed: vec![text("least UNI in: 258 → 249")], ..simulated_again(1) };
    let mut decision = shown(&simulated_again(0));
    decision.act(Action::MarkRead, 10_000, 40);
    decision.act(Action::Pick(AnswerKind::Similar), 20_000, 40);
    decision.follow(&worse());
    assert_eq!((decision.picked, decision.typing(), decision.unread(&worse())), (None, false, 1));
    assert_eq!((decision.unseen(), &decision.changed), (None, &worse().changed));
    assert_eq!(decision.act(Action::DoIt, 30_000, 40), DecisionOutcome::Stays);
    // A smaller amount stays typed, and is guarded again.
    let mut decision = shown(&simulated_again(0));
    decision.act(Action::Pick(AnswerKind::Smaller), 10_000, 40);
    decision.type_key(Key::char('0'), 11_000);
    decision.follow(&worse());
    assert_eq!(decision.act(Action::DoIt, 20_000, 40), DecisionOutcome::Stays);
    assert_eq!(decision.form.as_ref().map(|form| form.fields[0].1.text()), Some("0"));
    let mut decision = shown(&simulated_again(0));
    decision.act(Action::Pick(AnswerKind::Refuse), 10_000, 40);
    decision.type_key(Key::char('x'), 11_000);
    decision.follow(&worse());
    assert_eq!(decision.act(Action::DoIt, 20_000, 40), DecisionOutcome::Stays, "it is guarded again");
    decision.drawn(21_000, Some(whole()));
    let reason = text("x");
    assert_eq!(decision.act(Action::DoIt, 30_000, 40), DecisionOutcome::Answer(OperatorAnswer::Refuse { reason }));
}

#[test]
fn a_warning_in_other_words_is_read_again_before_an_approval() {
    let mut decision = shown(&simulated_again(0));
    decision.act(Action::MarkRead, 10_000, 40);
    decision.act(Action::Pick(AnswerKind::Once), 20_000, 40);
    let other = Question { to_read: vec![WarningToRead::plain(text("another"))], ..simulated_again(1) };
    decision.follow(&other);
    assert_eq!((decision.picked, decision.unread(&other)), (None, 1));
    assert_eq!(decision.act(Action::DoIt, 30_000, 40), DecisionOutcome::Stays);
}

#[test]
fn whatever_is_more_than_a_figure_counts_as_worse_whoever_counts() {
    use crate::widgets::samples::question as sample;
    use bardo_base::fabric::CheckOutcome;
    use bardo_session::questions::ActionRequest;
    fn of(question: &mut Question) -> &mut ActionRequest {
        match &mut question.about {
            RequestSubject::Action(action) => action,
            other => panic!("{other:?}"),
        }
    }
    let other = alloy_primitives::Address::repeat_byte(0x99);
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Question));
    let cases: [Change<'_>; 9] = [
        ("another receiver", &|question| of(question).places[3].address = other),
        ("another spender", &|question| of(question).places[2].address = other),
        ("a first payment", &|question| of(question).places[3].first_seen = true),
        ("no limit", &|question| of(question).allowances[0].unlimited = true),
        ("a check", &|question| of(question).checks[6].outcome = CheckOutcome::Warned),
        ("another chain", &|question| of(question).chain_id = 1),
        ("what is not seen", &|question| of(question).nothing_else = Err(text("more may move"))),
        ("another confirmation", &|question| {
            question.confirm = Some(TypedConfirmation { what: text("the last four"), expected: text("2266") });
        }),
        ("it passes by itself", &|question| question.passes_by_itself = true),
    ];
    for (name, change) in cases {
        let mut decision = shown(&sample());
        decision.act(Action::Pick(AnswerKind::Once), 10_000, 40);
        let mut again = sample();
        change(&mut again);
        decision.follow(&again);
        assert_eq!(decision.picked, None, "{name}");
    }
}

#[test]
fn a_smaller_amount_that_is_none_stays_in_the_dialog_with_its_text() {
    let mut asked = question();
    asked.about = crate::widgets::samples::question().about;
    let RequestSubject::Action(action) = &mut asked.about else { panic!("the sample asks about an action") };
    action.amount = Some(("0.36".to_owned(), text("WETH")));
    for (typed, why) in [
        ("0.5", "type less than the requested amount"),
        ("0.36", "type less than the requested amount"),
        ("0", "above zero"),
        ("-1", "above zero"),
        ("much less", "a number such as 0.25"),
    ] {
        let mut decision = shown(&asked);
        decision.act(Action::Pick(AnswerKind::Smaller), 10 + GUARD_MILLIS, 40);
        for letter in typed.chars() {
            decision.type_key(Key::char(letter), 20 + GUARD_MILLIS);
        }
        assert_eq!(decision.act(Action::DoIt, 20 + 2 * GUARD_MILLIS, 40), DecisionOutcome::Stays, "{typed}");
        assert!(decision.hint.as_ref().is_some_and(|hint| hint.as_str().contains(why)), "{typed}: {:?}", decision.hint);
        assert!(decision.typing(), "{typed}");
    }
    let mut decision = shown(&asked);
    decision.act(Action::Pick(AnswerKind::Smaller), 10 + GUARD_MILLIS, 40);
    for letter in "0.1".chars() {
        decision.type_key(Key::char(letter), 20 + GUARD_MILLIS);
    }
    let taken = decision.act(Action::DoIt, 20 + 2 * GUARD_MILLIS, 40);
    assert_eq!(taken, DecisionOutcome::Answer(OperatorAnswer::Smaller { amount: "0.1".to_owned() }));
}

#[test]
fn what_is_as_good_again_as_it_was_is_not_said_to_be_worse_any_more() {
    let words = text("least UNI in: 258 → 249");
    let worse = Question { revision: 1, changed: vec![words.clone()], ..simulated_again(1) };
    let mut decision = shown(&simulated_again(0));
    decision.follow(&worse);
    assert_eq!(decision.changed, [words]);
    decision.drawn(11_000, Some(whole()));
    decision.act(Action::MarkRead, 20_000, 40);
    decision.act(Action::Pick(AnswerKind::Once), 30_000, 40);
    // Still worse, but by less: the line has the new figure.
    let less = text("least UNI in: 258 → 251");
    decision.follow(&Question { revision: 1, changed: vec![less.clone()], ..simulated_again(2) });
    assert_eq!((&decision.changed[..], decision.picked), (&[less][..], Some(AnswerKind::Once)));
    decision.follow(&Question { revision: 1, changed: vec![], ..simulated_again(3) });
    assert!(decision.changed.is_empty(), "{:?}", decision.changed);
    assert_eq!(decision.picked, Some(AnswerKind::Once), "what is better takes nothing back");
}

#[test]
fn a_request_that_ends_leaves_no_password_behind() {
    let asked = Question { needs_password: true, ..question() };
    for ends in [false, true] {
        let mut decision = shown(&asked);
        decision.act(Action::Pick(AnswerKind::Once), 10 + GUARD_MILLIS, 40);
        assert!(decision.typing(), "the password has a field");
        "secret".chars().for_each(|letter| decision.type_key(Key::char(letter), 20 + GUARD_MILLIS));
        if ends {
            decision.end(30 + GUARD_MILLIS);
        }
        assert_eq!(decision.take_password().is_none(), ends);
    }
}

#[test]
fn a_page_down_shows_the_next_lines_and_scrolling_back_starts_at_the_visible_ones() {
    let part =
        |first| Some(VisiblePart { columns: 76, lines: numbered_lines(39), above: 0, first, shown: 18, raw: false });
    let mut decision = Decision::new(1, 0);
    decision.follow(&question());
    decision.drawn(20, part(0));
    decision.act(Action::HalfPageDown, 1_000, 40);
    assert_eq!(decision.offset, 18, "the line after the last visible one");
    decision.drawn(1_010, part(18));
    decision.act(Action::HalfPageDown, 2_000, 40);
    // The drawing stops at the last line.
    decision.drawn(2_010, part(21));
    assert_eq!((decision.unseen(), decision.offset), (Some(0), 21));
    decision.act(Action::Up, 3_000, 40);
    assert_eq!(decision.offset, 20);
    decision.act(Action::Bottom, 4_000, 40);
    decision.drawn(4_010, part(21));
    decision.act(Action::HalfPageUp, 5_000, 40);
    assert_eq!(decision.offset, 3);
}
