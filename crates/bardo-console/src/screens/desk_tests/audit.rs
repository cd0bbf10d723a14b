//! Tests of screen 5: open requests, standing approvals, past decisions, and the audit log with search, export and
//! check.

use super::*;
use bardo_session::handle::SessionQuery;

/// Screen 5 after it was shown and received its audit log entries.
fn opened(world: &TestHarness) -> Audit {
    let mut screen = Audit::default();
    open(&mut screen, world);
    screen
}

fn found(words: &str, world: &TestHarness) -> Audit {
    let mut screen = opened(world);
    screen.act(Action::Filter, &world.known(), AREA);
    typed(&mut screen, world, words);
    screen
}

fn receive_reply(screen: &mut Audit, world: &TestHarness, good: bool, entries: u64, faults: &[&str]) {
    let asked = screen.act(Action::Verify, &world.known(), AREA).unwrap();
    let [ScreenRequest::Send(command)] = &asked[..] else { panic!("{asked:?}") };
    let SessionCommand::Look { ticket, query: SessionQuery::VerifyAudit } = **command else { panic!("{command:?}") };
    let faults = faults.iter().map(|fault| safe(fault)).collect();
    let told = QueryResult::Verified { good, entries, head: B256::repeat_byte(0xab), faults };
    screen.receive_reply(holder(ticket).unwrap().1, CommandReply::Found(Box::new(told)), &world.known());
}

/// Numbers of the entries on the screen, from top to bottom.
fn numbers(shown: &str) -> Vec<u64> {
    let number = |row: &str| row.split('#').nth(1)?.split(' ').next()?.parse().ok();
    shown.lines().filter_map(number).collect()
}

#[test]
fn its_states_as_pictures() {
    let world = world();
    let mut whole = opened(&world);
    receive_reply(&mut whole, &world, true, 763, &[]);
    let mut broken = opened(&world);
    receive_reply(&mut broken, &world, false, 763, &["entry 12 does not follow entry 11", "entry 40 is missing"]);
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
    assert!(all.contains("newest 30 only, also when filtering"), "there are 733 older ones\n{all}");
    // The fourth of every six entries is a refusal: 737, 743, 749, 755, 761.
    let screen = found("LOOKALIKE refused\n", &world);
    let shown = drawn(&screen, &world, AREA);
    assert_eq!(numbers(&shown), [761, 755, 749, 743, 737], "{shown}");
    let shown = drawn(&found("nowhere", &world), &world, AREA);
    assert!(numbers(&shown).is_empty() && shown.contains("No entry contains these words."), "{shown}");
    // Esc shows all entries again.
    let mut screen = screen;
    screen.act(Action::Back, &world.known(), AREA);
    assert!(numbers(&drawn(&screen, &world, AREA)).len() > 20);
    // Without older entries, the note about them is missing.
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
    let requests = screen.act(Action::Export, &world.known(), AREA).unwrap();
    let [ScreenRequest::Write { name, text }] = &requests[..] else { panic!("{requests:?}") };
    assert!(name.starts_with("bardo-audit-") && name.ends_with(".json"), "{name}");
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
    receive_reply(&mut screen, &world, true, 763, &[]);
    let wide = Rect { width: 200, ..AREA };
    let shown = drawn(&screen, &world, wide);
    assert!(shown.contains("✓ good: 763 entries, in order and unchanged"), "{shown}");
    assert!(shown.contains(" · at ") && !shown.contains("more since"), "{shown}");
    // What was written since was not verified.
    receive_reply(&mut screen, &world, true, 1, &[]);
    let shown = drawn(&screen, &world, wide);
    assert!(shown.contains("✓ good: 1 entry, in order and unchanged") && shown.contains(" more since"), "{shown}");
    receive_reply(&mut screen, &world, false, 763, &["entry 12 does not follow entry 11", "entry 40 is missing"]);
    let shown = drawn(&screen, &world, wide);
    assert!(shown.contains("✕ NOT GOOD: entry 12 does not follow entry 11; and 1 more"), "{shown}");
    assert!(!shown.contains("good: 763"), "{shown}");
}

#[test]
fn what_stands_is_revoked_by_a_question_and_only_what_is_chosen() {
    let world = world();
    let mut screen = opened(&world);
    // From the audit log to the approval requests, and to the standing approvals.
    screen.act(Action::NextPanel, &world.known(), AREA);
    let elsewhere = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
    assert!(matches!(&elsewhere[..], [ScreenRequest::Notice(_)]), "a question cannot be revoked: {elsewhere:?}");
    screen.act(Action::NextPanel, &world.known(), AREA);
    screen.act(Action::Down, &world.known(), AREA);
    let requests = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
    let [ScreenRequest::Confirm { title, command, .. }] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(**command, SessionCommand::RevokeGrant { number: 6 });
    assert!(title.as_str().starts_with("Swap ") && title.as_str().contains(" left. Later ones"), "{title}");
    // Without any, the key says so.
    let mut world = world;
    world.snapshot.grants.clear();
    let none = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
    assert!(matches!(&none[..], [ScreenRequest::Notice(words)] if words.as_str().contains("no standing")), "{none:?}");
}

#[test]
fn a_click_chooses_the_row_below_it_whatever_is_said_above_the_rows() {
    let world = world();
    let mut screen = opened(&world);
    receive_reply(&mut screen, &world, true, 763, &[]);
    click(&mut screen, &world, "#758");
    let copied = screen.act(Action::Copy, &world.known(), AREA).unwrap();
    let [ScreenRequest::Copy(text)] = &copied[..] else { panic!("{copied:?}") };
    assert_eq!(serde_json::from_str::<Value>(text).unwrap()["seq"], 758);
}

#[test]
fn what_a_standing_approval_still_lasts_runs_down_though_nothing_is_told() {
    let mut world = world();
    let told = |world: &TestHarness| drawn(&opened(world), world, Rect { width: 200, ..AREA });
    // 29 minutes and 10 seconds were left seven seconds ago.
    assert!(told(&world).contains("$500.00 of $2,000.00 used · 30 min"), "{}", told(&world));
    world.now += 600_000;
    assert!(told(&world).contains("$500.00 of $2,000.00 used · 20 min"), "{}", told(&world));
}

/// Queries that the screen sends at that moment.
fn asks(screen: &mut Audit, world: &mut TestHarness, millis: u64) -> Vec<SessionQuery> {
    world.now = START_MILLIS + millis;
    let requests = screen.tick(&world.known()).into_iter().map(|request| match request {
        ScreenRequest::Send(command) => match *command {
            SessionCommand::Look { query, .. } => query,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    });
    requests.collect()
}

/// Entries that follow those of the test data.
fn later(world: &TestHarness, numbers: std::ops::RangeInclusive<u64>) -> Vec<bardo_session::handle::AuditEntry> {
    let entry = |seq| bardo_session::handle::AuditEntry { seq, ..world.entries[0].clone() };
    numbers.map(entry).collect()
}

fn tell(
    screen: &mut Audit,
    world: &TestHarness,
    entries: Vec<bardo_session::handle::AuditEntry>,
) -> Vec<ScreenRequest> {
    screen.receive_reply(3, CommandReply::Found(Box::new(QueryResult::Audit { entries })), &world.known())
}

#[test]
fn what_is_written_into_the_trail_comes_by_itself_a_moment_after_its_events_and_is_asked_for_no_oftener() {
    let mut world = world();
    world.feed.last = 900;
    let mut screen = opened(&world);
    assert_eq!(asks(&mut screen, &mut world, 60_000), [], "nothing has happened");
    assert_eq!(screen.wakes_at(), None, "and nothing is waited for");
    world.feed.last = 905;
    assert_eq!(asks(&mut screen, &mut world, 60_000), []);
    assert_eq!(screen.wakes_at(), Some(START_MILLIS + 61_000));
    // Further events wait for the same query.
    world.feed.last = 906;
    assert_eq!(asks(&mut screen, &mut world, 60_999), []);
    let more = SessionQuery::Audit { after: 763, call: None, most: 500 };
    assert_eq!(asks(&mut screen, &mut world, 61_000), [more]);
    // Entries of the events that came meanwhile may not have been written yet.
    assert_eq!(asks(&mut screen, &mut world, 61_100), []);
    assert_eq!(tell(&mut screen, &world, later(&world, 762..=765)), []);
    assert_eq!(numbers(&drawn(&screen, &world, AREA))[..4], [765, 764, 763, 762], "each once, the newest first");
    let more = SessionQuery::Audit { after: 765, call: None, most: 500 };
    assert_eq!(asks(&mut screen, &mut world, 62_100), [more]);
    assert_eq!(asks(&mut screen, &mut world, 90_000), []);
    assert_eq!(screen.wakes_at(), None);
}

#[test]
fn the_row_that_the_keys_are_on_stays_under_them_when_others_come() {
    let world = world();
    let mut screen = opened(&world);
    let under = |screen: &mut Audit| {
        let copied = screen.act(Action::Copy, &world.known(), AREA).unwrap();
        let [ScreenRequest::Copy(text)] = &copied[..] else { panic!("{copied:?}") };
        serde_json::from_str::<Value>(text).unwrap()["seq"].as_u64().unwrap()
    };
    // A selection at the newest entry stays at the newest.
    tell(&mut screen, &world, later(&world, 764..=764));
    assert_eq!(under(&mut screen), 764);
    screen.act(Action::Down, &world.known(), AREA);
    screen.act(Action::Down, &world.known(), AREA);
    assert_eq!(under(&mut screen), 762);
    tell(&mut screen, &world, later(&world, 765..=769));
    assert_eq!(under(&mut screen), 762);
    // The selection also stays when all newest entries are read again. Following moves it to the newest.
    open(&mut screen, &world);
    assert_eq!(under(&mut screen), 762);
    screen.act(Action::Follow, &world.known(), AREA);
    assert_eq!(under(&mut screen), 763);
}

#[test]
fn no_more_entries_are_kept_than_are_asked_for_and_none_between_two_is_left_out() {
    let world = world();
    let mut screen = opened(&world);
    assert_eq!(tell(&mut screen, &world, later(&world, 764..=1_262)), []);
    let numbers = numbers(&drawn(&screen, &world, Rect { height: 600, ..AREA }));
    assert_eq!((numbers.len(), numbers[0], numbers[499]), (500, 1_262, 763));
    // A full reply: there may be more entries behind it, so the newest are read instead.
    let requests = tell(&mut screen, &world, later(&world, 1_263..=1_762));
    let [ScreenRequest::Send(command)] = &requests[..] else { panic!("{requests:?}") };
    assert!(
        matches!(**command, SessionCommand::Look { query: SessionQuery::AuditTail { most: 500 }, .. }),
        "{command:?}"
    );
}

#[test]
fn where_there_is_no_trail_to_read_none_is_asked_for_by_itself_and_one_that_fell_silent_is_said_to_stand_still() {
    let mut world = world();
    let nothing = || CommandReply::Found(Box::new(QueryResult::Nothing { why: safe("a recording has no audit log") }));
    let mut screen = Audit::default();
    screen.shown(&world.known());
    screen.receive_reply(1, nothing(), &world.known());
    world.feed.last += 1;
    assert_eq!(asks(&mut screen, &mut world, 100_000), []);
    assert_eq!(asks(&mut screen, &mut world, 200_000), []);
    let mut screen = opened(&world);
    let wide = Rect { width: 200, ..AREA };
    assert!(!drawn(&screen, &world, wide).contains("f follows"));
    let told = screen.receive_reply(3, nothing(), &world.known());
    assert_eq!(told, [ScreenRequest::Notice(safe("a recording has no audit log"))]);
    assert!(drawn(&screen, &world, wide).contains("e exports · f follows"));
}

#[test]
fn an_entry_keeps_the_name_of_its_golem_beside_long_words() {
    let world = world();
    for (width, height) in [(120, 36), (80, 20)] {
        let shown = drawn(&opened(&world), &world, Rect { x: 0, y: 0, width, height });
        let entries: Vec<&str> = shown.lines().filter(|line| line.contains("#76")).collect();
        assert!(!entries.is_empty(), "{shown}");
        for entry in entries {
            assert!(entry.contains(" ada"), "{width}×{height}: {entry}\n{shown}");
        }
    }
}
