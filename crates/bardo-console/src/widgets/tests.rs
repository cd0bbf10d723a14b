//! Tests of every widget in every state and size: text, styles with a meaning, and hostile text.

use alloy_primitives::U256;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rust_decimal::Decimal;
use serde_json::json;

use super::card::CallCard;
use super::chart::LineChart;
use super::decision::{DecisionDialog, DecisionModel};
use super::gauge::GaugeLine;
use super::order::OrderModel;
use super::paint::Row;
use super::plain::PlainModel;
use super::quote::QuoteModel;
use super::samples::{self, NOW, START_MILLIS};
use super::sprite::Sprite;
use super::status::CardStatus;
use super::swap::{StepState, SwapModel};
use super::text_input::TextInput;
use super::{Card as CardWidget, CardView, Moment, allowance, sprite};
use crate::keymap::Key;
use crate::painter::Painter;
use crate::theme::{Depth, Role, Theme};
use crate::widgets::decision::Decision;
use crate::widgets::text_field::TextField;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::*;
use bardo_base::model::Phase;
use bardo_base::text::{SafeText, corpus};
use bardo_session::questions::RequestSubject;

mod hostile;
mod swaps;
mod words;

fn theme(name: &str) -> Theme {
    Theme::load(name, None).unwrap().0
}

fn text_of(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    buffer.content.chunks(width.max(1)).map(|row| line(row).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn drawn_with(theme: &Theme, (width, height): (u16, u16), drawing: impl FnOnce(&mut Painter<'_>, Rect)) -> Buffer {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    drawing(&mut Painter { buffer: &mut buffer, theme }, area);
    buffer
}

fn drawn(card: &CallCard, width: u16, height: u16) -> Buffer {
    drawn_with(&theme("dark"), (width, height), |painter, area| render(card, painter, area, NOW))
}

fn render(card: &CallCard, painter: &mut Painter<'_>, area: Rect, now: Moment) {
    painter.render(CardWidget::new(card, painter.theme, now), area);
}

/// Number of lines of a full card at this width.
fn lines(card: &CallCard, width: u16) -> u16 {
    CardWidget::new(card, &theme("dark"), NOW).height(width)
}

/// Every state of a widget at one width, each in full and in one line.
fn gallery(widget: &str, width: u16) -> String {
    let mut text = String::new();
    for (name, state, card) in samples::cards() {
        if name == widget {
            text.push_str(&format!("── {state}\n"));
            text.push_str(&text_of(&drawn(&card, width, lines(&card, width))));
            text.push('\n');
            text.push_str(&text_of(&drawn(&card, width, 5)));
            text.push('\n');
            text.push_str(&text_of(&drawn(&card, width, 1)));
            text.push('\n');
        }
    }
    text
}

#[test]
fn every_state_of_every_card_at_three_widths_and_in_a_corner() {
    for widget in ["quote", "swap", "order", "bridge", "allowance", "lending", "position", "vault", "plain"] {
        for width in [40, 80, 120] {
            insta::assert_snapshot!(format!("{widget}_{width}"), gallery(widget, width));
        }
        let mut tiny = String::new();
        for (name, state, card) in samples::cards() {
            if name == widget {
                tiny.push_str(&format!("── {state}\n{}\n", text_of(&drawn(&card, 14, 6))));
            }
        }
        insta::assert_snapshot!(format!("{widget}_tiny"), tiny);
    }
}

#[test]
fn gauges_charts_and_the_sprite_as_pictures() {
    let mut text = String::new();
    for width in [40, 80, 20, 9] {
        for one in samples::gauges() {
            let buffer = drawn_with(&theme("dark"), (width, 1), |painter, area| {
                painter.render(GaugeLine::new(&one, painter.theme, 7), area)
            });
            text.push_str(&text_of(&buffer));
            text.push('\n');
        }
    }
    insta::assert_snapshot!("gauges", text);
    let mut text = String::new();
    for (width, lines) in [(80, 8), (40, 4), (120, 1), (12, 3)] {
        for model in [samples::chart(), samples::empty_chart()] {
            let buffer = drawn_with(&theme("dark"), (width, lines), |painter, area| {
                painter.render(LineChart::new(&model, painter.theme, NOW), area)
            });
            text.push_str(&format!("{}\n\n", text_of(&buffer)));
        }
    }
    insta::assert_snapshot!("charts", text);
    let mut text = String::new();
    let all = [false, true].into_iter().flat_map(|letters| Phase::ALL.iter().map(move |phase| (letters, *phase)));
    for (letters, phase) in all {
        text.push_str(&format!("═══ {}\n", sprite::phase_words(phase)));
        for state in SpriteState::ALL {
            let model = sprite::SpriteModel { state, phase, letters };
            let still = Moment { motion: false, ..NOW };
            let body = drawn_with(&theme("dark"), (10, 4), |painter, area| {
                painter.render(Sprite::new(model, painter.theme, still), area)
            });
            let face = drawn_with(&theme("dark"), (3, 1), |painter, area| {
                painter.render(Sprite::new(model, painter.theme, still), area)
            });
            text.push_str(&format!("── {state:?} {}\n{}\n", text_of(&face), text_of(&body)));
        }
    }
    insta::assert_snapshot!("sprite", text);
}

/// Style of the first occurrence of `words`.
fn style_at(buffer: &Buffer, words: &str) -> ratatui::style::Style {
    for (y, row) in (0..).zip(text_of(buffer).lines()) {
        if let Some(at) = row.find(words) {
            let x = u16::try_from(bardo_base::text::width(&row[..at])).unwrap();
            return buffer[(x, y)].style();
        }
    }
    panic!("`{words}` does not stand in\n{}", text_of(buffer));
}

fn card(widget: &str, state: &str) -> CallCard {
    samples::cards().into_iter().find(|(name, of, _)| *name == widget && *of == state).unwrap().2
}

#[test]
fn meaning_that_is_in_a_colour_is_in_a_word_too() {
    for name in ["dark", "light", "bardo", "sixteen"] {
        let theme = theme(name);
        for (widget, state, words, role) in [
            ("quote", "done", "OK", Role::StateGood),
            ("quote", "split", "CARE", Role::StateCare),
            ("quote", "high", "HIGH", Role::StateBad),
            ("quote", "stale", "! STALE", Role::StateCare),
            ("quote", "blocked", "✕ BLOCKED", Role::StateBad),
            ("swap", "done", "✓ DONE", Role::StateGood),
            ("swap", "done", "Chain agrees ✓", Role::StateGood),
            ("swap", "disagrees", "✕ CHAIN DISAGREES", Role::StateBad),
            ("swap", "disagrees", "Chain disagrees ✕", Role::StateBad),
            ("swap", "refused", "✕ REJECTED", Role::StateBad),
            ("swap", "lapsed", "○ LAPSED", Role::TextDim),
            ("swap", "failed", "✕ FAILED", Role::StateBad),
            ("swap", "unclear", "? NOT SETTLED", Role::StateCare),
            ("order", "filled", "✓ FILLED", Role::StateGood),
            ("order", "insufficient", "✕ BLOCKED", Role::StateBad),
            ("bridge", "filled", "✓ DELIVERED", Role::StateGood),
            ("bridge", "expired", "○ EXPIRED", Role::TextDim),
            ("allowance", "needed", "! Needs approval", Role::StateCare),
            ("allowance", "approved", "✓ Approved", Role::StateGood),
            ("allowance", "unlimited", "! UNLIMITED", Role::StateCare),
            ("lending", "borrowed", "Chain agrees ✓", Role::StateGood),
            ("lending", "disagrees", "Chain disagrees ✕", Role::StateBad),
            ("position", "closed", "Chain agrees ✓", Role::StateGood),
            ("position", "disagrees", "Chain disagrees ✕", Role::StateBad),
        ] {
            let card = card(widget, state);
            let size = (80, lines(&card, 80));
            let buffer = drawn_with(&theme, size, |painter, area| render(&card, painter, area, NOW));
            let (shown, meant) = (style_at(&buffer, words), theme.style(role));
            assert_eq!(shown.fg, meant.fg.or(shown.fg), "{name}: {widget} {state} {words}");
        }
    }
}

#[test]
fn every_state_is_told_apart_without_colour() {
    for widget in ["quote", "swap", "order", "bridge", "allowance", "lending", "position"] {
        let states: Vec<_> = samples::cards().into_iter().filter(|(name, ..)| *name == widget).collect();
        let texts: std::collections::BTreeSet<_> =
            states.iter().map(|(.., card)| text_of(&drawn(card, 100, 1))).collect();
        assert_eq!(texts.len(), states.len(), "{widget}: {texts:#?}");
    }
}

#[test]
fn a_card_in_flight_says_where_the_money_is_in_every_framed_size() {
    let mut seen = 0;
    for (widget, state, card) in samples::cards() {
        // Cards of reads move no money.
        let reads = widget == "quote" || card.call().tool.as_str() == "get_balances";
        if samples::in_flight(&card) && !reads {
            for height in [5, 6, 7, 9, 14, 30] {
                let text = text_of(&drawn(&card, 60, height));
                assert!(text.contains("Money:"), "{widget} {state} at {height}\n{text}");
            }
            seen += 1;
        }
    }
    // Requested swaps, auctions, bridge orders, allowances and transfers count as in flight too.
    assert!(seen >= 22, "only {seen}");
}

#[test]
fn what_has_no_room_is_counted_and_what_is_wide_goes_on_below() {
    let swap = card("swap", "done");
    let whole = text_of(&drawn(&swap, 58, lines(&swap, 58)));
    assert!(!whole.contains("more line"), "{whole}");
    let short = text_of(&drawn(&swap, 58, 8));
    assert!(short.contains("more lines"), "{short}");
    // What was paid and received stays before the steps that led there.
    for figure in ["4.25 → 4 ", "−0.25", "6,120 → 6,972.37", "+852.37"] {
        assert!(short.contains(figure), "{figure}: {short}");
    }
    // Every word of the wide card is also on the narrow one.
    for (widget, state, card) in samples::cards() {
        let words = |width: u16| {
            let mut rows = card.full(NOW, usize::from(width) - 4);
            rows.retain(|row: &Row| !row.left.iter().any(|(text, _)| text.contains(['⠁', '●', '○', '◉'])));
            super::paint::wrapped(rows, usize::from(width) - 4)
                .iter()
                .flat_map(|row| row.left.iter().chain(&row.right))
                .map(|(text, _)| text.replace(' ', ""))
                .collect::<String>()
        };
        if !matches!(widget, "order" | "bridge") {
            let (wide, narrow) = (words(200), words(24));
            assert_eq!(wide.len(), narrow.len(), "{widget} {state}\n{wide}\n{narrow}");
        }
    }
}

#[test]
fn countdowns_stand_still_without_motion() {
    let still = |millis| Moment { millis, motion: false };
    for (widget, state, card) in samples::cards() {
        let at = |millis: u64| {
            text_of(&drawn_with(&theme("dark"), (80, 30), |painter, area| render(&card, painter, area, still(millis))))
        };
        let (first, later) = (at(NOW.millis), at(NOW.millis + 1_900));
        assert_eq!(first, later, "{widget} {state}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_is_drawn_outside_its_place(
        (which, width, height, x, y) in (0usize..90, 0u16..200, 0u16..60, 0u16..8, 0u16..8),
        motion in any::<bool>(),
        later in 0u64..10_000_000,
    ) {
        let theme = theme("dark");
        let all = Rect::new(0, 0, 210, 70);
        let area = Rect::new(x, y, width, height);
        let now = Moment { millis: START_MILLIS + later, motion };
        let mut buffer = Buffer::filled(all, ratatui::buffer::Cell::new("░"));
        let cards = samples::cards();
        let mut painter = Painter { buffer: &mut buffer, theme: &theme };
        match cards.get(which) {
            Some((.., card)) => render(card, &mut painter, area, now),
            None => match which % 5 {
                4 => {
                    let all = samples::decisions();
                    let (_, decision) = &all[which % all.len()];
                    let model = DecisionModel { decision, name: Some("Ada"), golem: None, network: Some("devnet"), before: None, outcome: None, read_only: false, now, clock: now.millis };
                    painter.render(DecisionDialog::new(model, painter.theme), area);
                }
                0 => painter.render(LineChart::new(&samples::chart(), painter.theme, now), area),
                1 => painter.render(LineChart::new(&samples::empty_chart(), painter.theme, now), area),
                2 => samples::gauges().iter().for_each(|one| painter.render(GaugeLine::new(one, painter.theme, 7), area)),
                _ => SpriteState::ALL.iter().for_each(|state| {
                    let model = sprite::SpriteModel { state: *state, phase: Phase::Survival, letters: motion };
                    painter.render(Sprite::new(model, painter.theme, now), area);
                }),
            },
        }
        for position in all.positions() {
            if !area.contains(position) {
                prop_assert_eq!(buffer[position].symbol(), "░", "{:?} of {:?}", position, area);
            }
        }
    }
}

#[test]
fn the_sprite_keeps_its_first_frame_without_motion_and_turns_to_letters_without_colour() {
    let model = sprite::SpriteModel { state: SpriteState::Thinking, phase: Phase::Thriving, letters: false };
    let at = |theme: &Theme, millis, motion| {
        text_of(&drawn_with(theme, (10, 4), |painter, area| {
            painter.render(Sprite::new(model, painter.theme, Moment { millis, motion }), area)
        }))
    };
    let dark = theme("dark");
    assert_eq!(at(&dark, 0, false), at(&dark, 600, false));
    assert_ne!(at(&dark, 0, true), at(&dark, 600, true));
    assert_eq!(sprite::next_change_millis(&model, Moment { millis: 601, motion: true }), Some(1200));
    assert_eq!(sprite::next_change_millis(&model, Moment { millis: 601, motion: false }), None);
    assert!(at(&dark.at_depth(Depth::None), 0, true).is_ascii());
    // A phase shows in the cracks too, not only in the colour.
    let shades = |phase| {
        let model = sprite::SpriteModel { state: SpriteState::Idle, phase, letters: false };
        let buffer =
            drawn_with(&dark, (10, 4), |painter, area| painter.render(Sprite::new(model, painter.theme, NOW), area));
        let shade = dark.style(Role::SpriteShade).fg.unwrap();
        buffer.content.iter().filter(|cell| cell.fg == shade || cell.bg == shade).count()
    };
    assert!(shades(Phase::Thriving) < shades(Phase::Survival));
}

#[test]
fn a_chart_of_one_value_is_a_line_and_not_a_division() {
    let mut model = samples::chart();
    for point in &mut model.points {
        point.1 = Decimal::ONE;
    }
    let text = text_of(&drawn_with(&theme("dark"), (40, 6), |painter, area| {
        painter.render(LineChart::new(&model, painter.theme, NOW), area)
    }));
    assert!(text.contains('●') && text.contains("1.00"), "{text}");
}

fn model_of(decision: &Decision) -> DecisionModel<'_> {
    DecisionModel {
        read_only: false,
        decision,
        name: Some("Ada"),
        golem: None,
        network: Some("devnet"),
        before: None,
        outcome: None,
        now: NOW,
        clock: NOW.millis,
    }
}

/// Approval dialog of a decision, as text.
fn decided_as(decision: &Decision, (width, height): (u16, Option<u16>)) -> String {
    let model = model_of(decision);
    let height = height.unwrap_or_else(|| model.height(width));
    text_of(&drawn_with(&theme("dark"), (width, height), |painter, area| {
        painter.render(DecisionDialog::new(model, painter.theme), area)
    }))
}

/// Approval dialog of a sample, as text.
fn decided(state: &str, (width, height): (u16, Option<u16>)) -> String {
    let (_, decision) = samples::decisions().into_iter().find(|(name, _)| *name == state).unwrap();
    let before = SafeText::clean("Swap 0.6 WETH for >= 264.8 UNI", 60);
    let before = (state == "changed").then_some(&before);
    let resolved = samples::outcome(state);
    let model = DecisionModel { before, outcome: resolved.as_ref(), ..model_of(&decision) };
    let height = height.unwrap_or_else(|| model.height(width));
    text_of(&drawn_with(&theme("dark"), (width, height), |painter, area| {
        painter.render(DecisionDialog::new(model, painter.theme), area)
    }))
}

#[test]
fn every_state_of_a_decision_at_three_widths_and_in_a_corner() {
    let states: Vec<&str> = samples::decisions().iter().map(|(state, _)| *state).collect();
    let all = |size: (u16, Option<u16>)| {
        states.iter().map(|state| format!("── {state}\n{}\n", decided(state, size))).collect::<String>()
    };
    for width in [40, 80, 120] {
        insta::assert_snapshot!(format!("decision_{width}"), all((width, None)));
    }
    insta::assert_snapshot!("decision_tiny", all((14, Some(6))));
}

#[test]
fn a_decisions_keys_are_guarded_by_the_machines_time_and_not_by_a_shows() {
    let (_, decision) = samples::decisions().into_iter().find(|(name, _)| *name == "looked").unwrap();
    let long_ago = Moment { millis: 1_000, motion: true };
    let told = |clock| {
        let model = DecisionModel {
            read_only: false,
            decision: &decision,
            name: None,
            golem: None,
            network: Some("devnet"),
            before: None,
            outcome: None,
            now: long_ago,
            clock,
        };
        text_of(&drawn_with(&theme("dark"), (98, 40), |painter, area| {
            painter.render(DecisionDialog::new(model, painter.theme), area)
        }))
    };
    assert!(!told(NOW.millis).contains("keys act in"), "{}", told(NOW.millis));
    assert!(told(START_MILLIS).contains("keys act in 0.5 s: read it first"));
}

#[test]
fn a_decision_as_a_widget_says_what_its_state_is() {
    let told = |state| decided(state, (98, None));
    for (state, words) in [
        ("fresh", "keys act in a moment"),
        ("looked", "nothing is selected"),
        ("looked", "✓ action $2,047.53, day $4,014.02/$5,000 after"),
        ("looked", "✓ rate 3/120 an hour"),
        ("looked", "✓ slippage 50 bps"),
        ("looked", "above your $1,000 approval limit"),
        ("looked", "Permit2, on your list"),
        ("looked", "Universal Router 2.0, in address book"),
        ("looked", "offer 7c1e…  hash 0x5151…5151 │"),
        ("to read", "! slippage 50 bps"),
        ("to read", "! [x] slippage: 50 bps, impact 12 bps"),
        ("looked", "simulated on block #1,286, 22:13:25 · quoted 22:13:24"),
        ("to read", "! [ ] first buy of UNI"),
        ("to read", "! [ ] public mempool"),
        ("picked", "selected: approve once"),
        ("form", "less than 0.6 WETH"),
        ("changed", "≠ worse now    UNI at least 258.530551 → 249.017203"),
        ("changed", "Before         Swap 0.6 WETH for at least 264.8 UNI"),
        ("lapsing", "No answer      it goes ahead in 0:20 unless you reject it"),
        ("lapsing", "Esc later (it goes ahead)"),
        ("over", "it goes ahead in 0:20 unless you reject it"),
        ("looked", "Esc later (keeps waiting)"),
        ("over", "simulating again…"),
        ("struck out", "-s- approve similar"),
        // The scope of a standing approval is shown before it is given: tool, pair, recipient, size, total, time.
        ("similar", "with Swap only: WETH → UNI on ethereum"),
        ("similar", "to             your account"),
        ("similar", "up to $2,500.00, larger ones still ask; this action uses $2,047.53 of the total"),
        ("similar", "up to 50 bps, as in this action; more still asks"),
        ("similar", "minutes"),
        ("similar", "total limit in dollars"),
        ("open orders", "may take 0.85 WETH, 0.25 of it for your open orders"),
        ("on paper", "PAPER"),
        ("on paper", "nothing is signed or sent"),
        ("confirm", "to confirm, type the last four characters"),
        ("raw", "0x3593564c"),
        ("policy", "Day cap: $5,000 → $8,000"),
        ("lower", "In force now: halt. After your approval: no stop."),
        ("reset", "It opened after 3 failures in a row."),
        ("paper", "are signed and sent"),
    ] {
        assert!(told(state).contains(words), "{state}: {words}\n{}", told(state));
    }
    // The validity is shown at every width.
    for width in [40, 60, 80, 98] {
        let shown = decided("lapsing", (width, None));
        assert!(shown.contains("valid 0:04") && shown.contains("0:20"), "{width}\n{shown}");
        assert!(shown.contains("ethereum 31337") && shown.contains("PLAY MONEY"), "{width}\n{shown}");
    }
    assert!(told("picked").contains("Ada says"), "who asks is called by name");
    assert!(!told("changed").contains("selected: "), "what changed is picked no more");
}

/// The form of a bridge order asks for one deadline, that of the delivery. Its input can be taken for half of the time.
#[test]
fn a_bridge_is_decided_by_the_deadline_that_was_asked_for() {
    // 00:30:00 in UTC; the other two are half an hour and an hour later.
    const ASKED: u64 = 1_700_008_200;
    let (_, mut decision) = samples::decisions().into_iter().find(|(name, _)| *name == "looked").unwrap();
    let RequestSubject::Action(action) = &mut decision.shown.as_mut().unwrap().about else { panic!() };
    let field = |name: &str, at: u64| (SafeText::clean(name, 40), SafeText::clean(&at.to_string(), 40));
    action.order = Some(bardo_session::questions::OrderDetails {
        kind: SafeText::clean("ERC-7683 GaslessCrossChainOrder", 80),
        usable_until: ASKED + 1_800,
        fields: vec![field("openDeadline", ASKED + 1_800), field("fillDeadline", ASKED + 3_600)],
    });
    let words = decided_as(&decision, (120, None));
    assert!(words.contains("must be delivered by 01:30:00; its input can be taken"), "{words}");
    assert!(words.contains("until 01:00:00") && !words.contains("can be settled until"), "{words}");
}

#[test]
fn a_decision_that_ended_says_how() {
    use ApprovalOutcome as Outcome;
    let (_, decision) = samples::decisions().into_iter().find(|(name, _)| *name == "lapsed while typing").unwrap();
    let resolved = samples::outcome("lapsed while typing").unwrap();
    for (outcome, words) in [
        (Some(Outcome::Approved), "It was approved elsewhere."),
        (Some(Outcome::ApprovedSimilar), "It was approved elsewhere, with similar actions."),
        (Some(Outcome::Edited), "A smaller amount was requested elsewhere."),
        (Some(Outcome::Refused), "It was rejected elsewhere."),
        (Some(Outcome::RefusedAndHalted), "It was rejected elsewhere, and everything stopped."),
        (Some(Outcome::Lapsed), "Nobody answered in time: it lapsed, and nothing was signed."),
        (Some(Outcome::Withdrawn), "It was withdrawn: nothing was signed."),
        (None, "It no longer waits for an answer."),
    ] {
        let resolved = outcome.map(|outcome| ApprovalResolved { outcome, ..resolved.clone() });
        let model = DecisionModel {
            read_only: false,
            decision: &decision,
            name: None,
            golem: None,
            network: Some("devnet"),
            before: None,
            outcome: resolved.as_ref(),
            now: NOW,
            clock: NOW.millis,
        };
        let text = text_of(&drawn_with(&theme("dark"), (98, 40), |painter, area| {
            painter.render(DecisionDialog::new(model, painter.theme), area)
        }));
        assert!(text.contains(words) && text.contains("closes this. Other keys only scroll."), "{text}");
    }
}

#[test]
fn a_text_field_as_a_picture_in_its_states() {
    use crossterm::event::{KeyCode, KeyModifiers};
    let dark = theme("dark");
    let key = |modifiers, code| Key { code, modifiers };
    let (none, shift, alt) = (KeyModifiers::NONE, KeyModifiers::SHIFT, KeyModifiers::ALT);
    let mut text = String::new();
    for (state, words, keys) in [
        ("empty", "", vec![]),
        ("typed", "wait for gas", vec![]),
        ("cursor inside", "wait for gas", vec![key(alt, KeyCode::Char('b'))]),
        ("selected to the start", "wait for gas", vec![key(shift, KeyCode::Home)]),
        ("long, at its end", "sell half of the UNI tomorrow", vec![]),
        ("long, at its start", "sell half of the UNI tomorrow", vec![key(none, KeyCode::Home)]),
        ("wide", "宽宽宽宽宽宽宽宽宽宽", vec![key(none, KeyCode::Left)]),
    ] {
        text.push_str(&format!("── {state}\n"));
        for width in [40, 16, 3] {
            let mut field = TextField::holding(words);
            keys.iter().for_each(|key| assert!(field.key(*key)));
            let buffer = drawn_with(&dark, (width, 1), |painter, area| {
                painter.render(TextInput::new(&field, painter.theme), area);
            });
            // The second line marks the cursor and the selection, which are styles.
            let mark = |cell: &ratatui::buffer::Cell| match Some(cell.bg) {
                bg if bg == dark.style(Role::Frozen).bg => '^',
                bg if bg == dark.style(Role::Selection).bg => '~',
                _ => ' ',
            };
            let marks: String = buffer.content.iter().map(mark).collect();
            text.push_str(&format!("{}│\n{}\n", text_of(&buffer), marks.trim_end()));
        }
    }
    insta::assert_snapshot!("text_input", text);
}

#[test]
fn what_is_signed_is_told_with_times_and_units_and_raw_on_demand() {
    let mut question = samples::question();
    let RequestSubject::Action(action) = &mut question.about else { panic!("{:?}", question.about) };
    let fields = [
        "PermitSingle, verified by 0x22",
        "amount: 600000000000000000",
        "expiration: 1700000600",
        "sigDeadline: 1700000060",
        "nonce: 3",
    ];
    action.raw[0].signs = fields.map(|one| SafeText::clean(one, 200)).to_vec();
    let mut decision = Decision::new(question.number, 0);
    decision.follow(&question);
    let shown = |decision: &Decision| {
        let model = DecisionModel {
            read_only: false,
            decision,
            name: Some("Ada"),
            golem: None,
            network: Some("devnet"),
            before: None,
            outcome: None,
            now: NOW,
            clock: NOW.millis,
        };
        text_of(&drawn_with(&theme("dark"), (98, 60), |painter, area| {
            painter.render(DecisionDialog::new(model, painter.theme), area);
        }))
    };
    let text = shown(&decision);
    for words in [
        "allowance ends: 2023-11-14 22:23:20Z",
        "signature valid until: 2023-11-14 22:14:20Z",
        "amount: 600,000,000,000,000,000 smallest units",
        "nonce: 3",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("1700000600") && !text.contains("sigDeadline"), "{text}");
    decision.raw = true;
    let text = shown(&decision);
    assert!(text.contains("expiration: 1700000600") && text.contains("sigDeadline: 1700000060"), "{text}");
}
