//! Screen 5: what waits, what stands, what was decided, and the trail: searched, exported, checked.

use super::*;
use crate::runtime::handle::Query;

/// The screen, in front, with the trail's entries.
fn opened(world: &World) -> Audit {
    let mut screen = Audit::default();
    open(&mut screen, world);
    screen
}

fn found(words: &str, world: &World) -> Audit {
    let mut screen = opened(world);
    screen.act(Action::Filter, &world.known(), AREA);
    typed(&mut screen, world, words);
    screen
}

fn hear(screen: &mut Audit, world: &World, good: bool, entries: u64, faults: &[&str]) {
    let asked = screen.act(Action::Zoom, &world.known(), AREA).unwrap();
    let [Wish::Send(command)] = &asked[..] else { panic!("{asked:?}") };
    let Command::Look { ticket, query: Query::VerifyAudit } = **command else { panic!("{command:?}") };
    let faults = faults.iter().map(|fault| safe(fault)).collect();
    let told = Found::Verified { good, entries, head: B256::repeat_byte(0xab), faults };
    screen.hear(holder(ticket).unwrap().1, Heard::Found(Box::new(told)), &world.known());
}

/// The numbers of the entries that are shown, the first first.
fn numbers(shown: &str) -> Vec<u64> {
    let number = |row: &str| row.split('#').nth(1)?.split(' ').next()?.parse().ok();
    shown.lines().filter_map(number).collect()
}

#[test]
fn its_states_as_pictures() {
    let world = world();
    let mut whole = opened(&world);
    hear(&mut whole, &world, true, 763, &[]);
    let mut broken = opened(&world);
    hear(&mut broken, &world, false, 763, &["entry 12 does not follow entry 11", "entry 40 is missing"]);
    let states = [
        ("hits", found("lookalike\n", &world)),
        ("none", found("nowhere", &world)),
        ("whole", whole),
        ("broken", broken),
    ];
    for (name, screen) in states {
        for (width, height) in [(80, 20), (120, 36), (40, 20), (14, 5)] {
            let text = drawn(&screen, &world, Rect { x: 0, y: 0, width, height });
            insta::assert_snapshot!(format!("audit_{name}_{width}x{height}"), text);
        }
    }
}

#[test]
fn a_search_finds_every_entry_with_its_words_and_says_how_far_it_sees() {
    let world = world();
    let all = drawn(&opened(&world), &world, AREA);
    assert_eq!(numbers(&all).first(), Some(&763), "the newest comes first\n{all}");
    assert!(all.contains("newest 30 only, also for a search"), "there are 733 older ones\n{all}");
    // The fourth of each six is the one that was refused: 737, 743, 749, 755, 761.
    let screen = found("LOOKALIKE refused\n", &world);
    let shown = drawn(&screen, &world, AREA);
    assert_eq!(numbers(&shown), [761, 755, 749, 743, 737], "{shown}");
    let shown = drawn(&found("nowhere", &world), &world, AREA);
    assert!(numbers(&shown).is_empty() && shown.contains("No entry holds these words."), "{shown}");
    // Esc shows all again.
    let mut screen = screen;
    screen.act(Action::Back, &world.known(), AREA);
    assert!(numbers(&drawn(&screen, &world, AREA)).len() > 20);
    // Nothing is said of older ones where there are none.
    let mut young = world;
    young.entries.retain(|entry| entry.seq < 740);
    young.entries.iter_mut().for_each(|entry| entry.seq -= 733);
    let shown = drawn(&opened(&young), &young, AREA);
    assert!(numbers(&shown) == [6, 5, 4, 3, 2, 1] && !shown.contains("newest"), "{shown}");
}

#[test]
fn an_export_holds_the_entries_that_are_shown_with_their_bodies() {
    let world = world();
    let mut screen = found("lookalike\n", &world);
    let wishes = screen.act(Action::Export, &world.known(), AREA).unwrap();
    let [Wish::Write { name, text }] = &wishes[..] else { panic!("{wishes:?}") };
    assert!(name.starts_with("bardo-trail-") && name.ends_with(".json"), "{name}");
    let written: Value = serde_json::from_str(text).unwrap();
    let entries = written["entries"].as_array().unwrap();
    let numbers: Vec<_> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [761, 755, 749, 743, 737]);
    for entry in entries {
        assert_eq!(entry["kind"], "action:refused");
        assert_eq!(entry["body"], json!({ "wanted": "swap", "why": "the symbol is a lookalike" }));
    }
    assert_eq!(entries[0]["hash"], json!(B256::repeat_byte(161)), "761 of 200 and 161");
}

#[test]
fn the_check_says_what_the_command_says() {
    let world = world();
    let mut screen = opened(&world);
    hear(&mut screen, &world, true, 763, &[]);
    let wide = Rect { width: 200, ..AREA };
    let shown = drawn(&screen, &world, wide);
    assert!(shown.contains("✓ good: 763 entries, in order and as they were written"), "{shown}");
    hear(&mut screen, &world, false, 763, &["entry 12 does not follow entry 11", "entry 40 is missing"]);
    let shown = drawn(&screen, &world, wide);
    assert!(shown.contains("✕ NOT GOOD: entry 12 does not follow entry 11; and 1 more"), "{shown}");
    assert!(!shown.contains("good: 763"), "{shown}");
}

#[test]
fn what_stands_is_revoked_by_a_question_and_only_what_is_chosen() {
    let world = world();
    let mut screen = opened(&world);
    // From the trail to the questions, and to what stands.
    screen.act(Action::NextPanel, &world.known(), AREA);
    assert!(screen.act(Action::CancelSelected, &world.known(), AREA).is_none(), "a question is no approval");
    screen.act(Action::NextPanel, &world.known(), AREA);
    screen.act(Action::Down, &world.known(), AREA);
    let wishes = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
    let [Wish::Confirm { title, command }] = &wishes[..] else { panic!("{wishes:?}") };
    assert_eq!(**command, Command::RevokeGrant { number: 6 });
    assert_eq!(title.as_str(), "Revoke the standing approval for Swap?");
}

#[test]
fn a_click_chooses_the_row_below_it_whatever_is_said_above_the_rows() {
    let world = world();
    let mut screen = opened(&world);
    hear(&mut screen, &world, true, 763, &[]);
    click(&mut screen, &world, "#758");
    let copied = screen.act(Action::Copy, &world.known(), AREA).unwrap();
    let [Wish::Copy(text)] = &copied[..] else { panic!("{copied:?}") };
    assert_eq!(serde_json::from_str::<Value>(text).unwrap()["seq"], 758);
}
