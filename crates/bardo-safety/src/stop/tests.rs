use super::*;

fn file() -> (tempfile::TempDir, StopFile) {
    let folder = tempfile::tempdir().unwrap();
    let file = StopFile::in_folder(folder.path());
    (folder, file)
}

fn stop(in_force: ActiveStop) -> Stop {
    match in_force {
        ActiveStop::Stop(stop) => stop,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_yes_to_a_hold_leaves_what_it_rose_above() {
    let folder = tempfile::tempdir().unwrap();
    let file = StopFile::in_folder(folder.path());
    file.raise(StopLevel::ExitOnly, "carefully", "somebody", 1).unwrap();
    file.hold("a look", "operator", 2).unwrap();
    let shown = file.read();
    assert!(shown.is_hold());
    // The hold's owner is gone, and the operator approves lifting the shown stop.
    assert_eq!(file.lower_in_tests(&shown, None, "over", "operator", 3).unwrap().level(), Some(StopLevel::ExitOnly));
    assert_eq!(file.lower_in_tests(&file.read(), None, "over", "operator", 4).unwrap(), ActiveStop::None);
}

#[test]
fn an_unreadable_stop_file_is_a_halt() {
    let (_folder, file) = file();
    assert_eq!(file.read(), ActiveStop::None);
    for text in [
        "",
        "stop!",
        "{}",
        r#"{"level":"pause"}"#,
        "\u{0}\u{1}",
        r#"{"level":"nothing","reason":"","by":"","at":0,"id":""}"#,
    ] {
        fs::write(file.path(), text).unwrap();
        assert_eq!(file.read().level(), Some(StopLevel::Halt), "{text:?}");
    }
    fs::write(file.path(), [0xff, 0xfe]).unwrap();
    assert_eq!(file.read().level(), Some(StopLevel::Halt));
    fs::remove_file(file.path()).unwrap();
    fs::create_dir(file.path()).unwrap();
    assert_eq!(file.read().level(), Some(StopLevel::Halt));
    fs::remove_dir(file.path()).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/nowhere/at/all", file.path()).unwrap();
        assert_eq!(file.read().level(), Some(StopLevel::Halt));
    }
}

#[test]
fn raising_a_stop_never_lowers_it() {
    let (_folder, file) = file();
    let first = stop(file.raise(StopLevel::ExitOnly, "looks odd\u{1b}[2J", "console", 7).unwrap());
    assert_eq!((first.level, first.at, first.by.as_str()), (StopLevel::ExitOnly, 7, "console"));
    assert!(!first.reason.as_str().contains('\u{1b}'));
    assert_eq!(file.read(), ActiveStop::Stop(first.clone()));
    assert_eq!(stop(file.raise(StopLevel::Pause, "", "other", 8).unwrap()), first);
    let higher = stop(file.raise(StopLevel::Halt, "worse", "other", 9).unwrap());
    assert_eq!((higher.level, higher.over.as_deref()), (StopLevel::Halt, Some(&first)));

    fs::write(file.path(), "garbled").unwrap();
    assert!(matches!(file.raise(StopLevel::Flatten, "", "me", 1).unwrap(), ActiveStop::Garbled { .. }));
    assert_eq!(stop(file.raise(StopLevel::Revoke, "", "me", 1).unwrap()).level, StopLevel::Revoke);
}

#[test]
fn only_ones_own_hold_is_released_without_a_decision() {
    let (_folder, file) = file();
    let pause = stop(file.raise(StopLevel::Pause, "", "console", 1).unwrap());
    let hold = stop(file.raise(StopLevel::Halt, "", "console", 2).unwrap());
    assert!(matches!(file.release(&pause), Err(StopError::NotYours { level: StopLevel::Halt, .. })));
    assert_eq!(file.release(&hold).unwrap(), ActiveStop::Stop(pause.clone()));
    // A second release: the hold is no longer in force.
    assert!(matches!(file.release(&hold), Err(StopError::NotYours { level: StopLevel::Pause, .. })));
    assert_eq!(file.release(&pause).unwrap(), ActiveStop::None);
    assert_eq!(file.release(&pause).unwrap(), ActiveStop::None);

    let hold = stop(file.raise(StopLevel::Pause, "", "console", 3).unwrap());
    fs::write(file.path(), "garbled").unwrap();
    assert!(matches!(file.release(&hold), Err(StopError::NotYours { level: StopLevel::Halt, by: None })));
}

#[test]
fn a_stop_is_lowered_by_a_decision() {
    let (_folder, file) = file();
    file.raise(StopLevel::Halt, "", "a", 1).unwrap();
    assert_eq!(
        stop(file.lower_in_tests(&file.read(), Some(StopLevel::ExitOnly), "sell", "operator", 2).unwrap()).level,
        StopLevel::ExitOnly
    );
    assert_eq!(
        stop(file.lower_in_tests(&file.read(), Some(StopLevel::Revoke), "", "operator", 2).unwrap()).level,
        StopLevel::ExitOnly
    );
    assert_eq!(file.lower_in_tests(&file.read(), None, "", "operator", 3).unwrap(), ActiveStop::None);
    fs::write(file.path(), "garbled").unwrap();
    assert_eq!(file.lower_in_tests(&file.read(), None, "", "operator", 3).unwrap(), ActiveStop::None);
    assert_eq!(file.read(), ActiveStop::None);
}

#[test]
fn a_yes_lowers_the_stop_it_was_given_for_and_no_other() {
    let (_folder, file) = file();
    let shown = file.raise(StopLevel::Halt, "a feed is late", "golem", 1).unwrap();
    file.lower_in_tests(&shown, None, "", "somebody", 2).unwrap();
    // Same level, different reason.
    let other = file.raise(StopLevel::Halt, "a key may be stolen", "operator", 3).unwrap();
    assert!(matches!(file.lower_in_tests(&shown, None, "", "operator", 4), Err(StopError::Changed)));
    assert!(matches!(file.lower_in_tests(&ActiveStop::None, None, "", "operator", 4), Err(StopError::Changed)));
    assert_eq!(file.read(), other);
}

#[test]
fn of_concurrent_raises_the_highest_remains() {
    let (_folder, file) = file();
    for round in 0..20 {
        std::thread::scope(|scope| {
            for level in StopLevel::ALL {
                let file = file.clone();
                scope.spawn(move || file.raise(*level, "", "many", round).unwrap());
            }
        });
        assert_eq!(file.read().level(), Some(StopLevel::Revoke));
        file.lower_in_tests(&file.read(), None, "", "operator", round).unwrap();
    }
    let left: Vec<_> =
        fs::read_dir(_folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // On a slow machine the folder for stops without the lock exists, and is empty.
    let left: Vec<_> = left.into_iter().filter(|name| name != "STOP.d").collect();
    assert_eq!(left, ["STOP.lock"]);
    assert!(fs::read_dir(file.beside()).is_ok_and(|mut left| left.next().is_none()) || !file.beside().exists());
}

#[test]
fn a_folder_that_cannot_be_written_says_how_to_stop_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("data"), "in the way").unwrap();
    let file = StopFile::in_folder(&folder.path().join("data"));
    assert_eq!(file.read().level(), Some(StopLevel::Halt), "what cannot be looked for counts as one");
    let error = file.raise(StopLevel::Revoke, "", "me", 1).unwrap_err().to_string();
    assert!(error.contains("create any file with that name"), "{error}");
}

#[test]
fn the_ladder_is_the_documented_table() {
    let table = [
        (None, [true, true, true]),
        (Some(StopLevel::Pause), [true, false, false]),
        (Some(StopLevel::ExitOnly), [true, true, false]),
        (Some(StopLevel::Flatten), [true, true, false]),
        (Some(StopLevel::Halt), [true, false, false]),
        (Some(StopLevel::Revoke), [true, false, false]),
    ];
    for (level, allowed) in table {
        for (passage, allowed) in StopCategory::ALL.iter().zip(allowed) {
            assert_eq!(lets_through(level, *passage), allowed, "{level:?} {passage:?}");
        }
    }
}

/// A process that holds the lock and does not proceed.
fn stalled(file: &StopFile) -> fs::File {
    let lock = private().open(file.path().with_extension("lock")).unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn a_held_lock_delays_no_stop() {
    let (_folder, file) = file();
    let lock = stalled(&file);
    let (tell, told) = std::sync::mpsc::channel();
    let raised = file.clone();
    std::thread::spawn(move || tell.send(raised.raise(StopLevel::Halt, "now", "operator", 1)));
    let raised = told.recv_timeout(Duration::from_secs(60)).expect("it waits for the lock");
    assert_eq!((raised.unwrap().level(), file.read().level()), (Some(StopLevel::Halt), Some(StopLevel::Halt)));
    drop(lock);
}

#[test]
fn a_stop_is_not_lowered_while_another_process_changes_it() {
    let (_folder, file) = file();
    let pause = stop(file.raise(StopLevel::Pause, "", "console", 1).unwrap());
    let before = fs::read(file.path()).unwrap();
    let lock = stalled(&file);
    assert!(matches!(file.lower_in_tests(&file.read(), None, "", "operator", 2), Err(StopError::Busy)));
    assert!(matches!(file.release(&pause), Err(StopError::Busy)));
    assert_eq!(fs::read(file.path()).unwrap(), before);
    drop(lock);
    assert_eq!(file.release(&pause).unwrap(), ActiveStop::None);
}

#[test]
fn an_unusable_lock_file_is_not_reported_as_another_process() {
    let (_folder, file) = file();
    fs::create_dir(file.lock()).unwrap();
    // The stop is set nevertheless.
    let hold = file.hold("choose", "console", 1).unwrap().unwrap();
    assert_eq!(file.read(), ActiveStop::Stop(hold.clone()));
    for refused in [file.lower_in_tests(&file.read(), None, "", "operator", 2), file.release(&hold)] {
        assert!(matches!(&refused, Err(StopError::Lock { path, .. }) if *path == file.lock()), "{refused:?}");
    }
    assert_eq!(file.read(), ActiveStop::Stop(hold));
}

#[test]
fn a_lower_stop_that_was_under_way_does_not_write_over_a_higher_one() {
    let (folder, file) = file();
    // A writer that read "no stop" is about to rename this into place.
    let lock = stalled(&file);
    let aside = file.aside(&Stop::new(StopLevel::Pause, "lunch", "somebody", 1)).unwrap();
    let halt = stop(file.raise(StopLevel::Halt, "a key may be stolen", "operator", 2).unwrap());
    fs::rename(&aside.0, file.path()).unwrap();
    assert_eq!(file.read(), ActiveStop::Stop(halt.clone()));
    drop(lock);
    assert_eq!(file.read(), ActiveStop::Stop(halt.clone()));
    assert!(matches!(file.release(&stop(read_file(file.path()))), Err(StopError::NotYours { .. })));
    // It is lowered as a whole, by a decision about the shown stop.
    assert_eq!(file.lower_in_tests(&ActiveStop::Stop(halt), None, "", "operator", 3).unwrap(), ActiveStop::None);
    assert_eq!(fs::read_dir(folder.path().join("STOP.d")).unwrap().count(), 0);
}

#[test]
fn a_decision_that_was_under_way_does_not_lower_what_was_raised_meanwhile() {
    let (_folder, file) = file();
    let shown = file.raise(StopLevel::Halt, "", "a", 1).unwrap();
    let lock = stalled(&file);
    let aside = file.aside(&Stop::new(StopLevel::ExitOnly, "sell", "operator", 2)).unwrap();
    file.raise(StopLevel::Revoke, "stolen", "bardo halt", 3).unwrap();
    fs::rename(&aside.0, file.path()).unwrap();
    drop(lock);
    assert_eq!(file.read().level(), Some(StopLevel::Revoke));
    assert!(matches!(file.lower_in_tests(&shown, None, "", "operator", 4), Err(StopError::Changed)));
    assert_eq!(file.read().level(), Some(StopLevel::Revoke));
}

#[test]
fn a_hold_that_could_not_wait_is_released_like_any_other() {
    let (_folder, file) = file();
    let pause = file.raise(StopLevel::Pause, "", "operator", 1).unwrap();
    let lock = stalled(&file);
    let hold = file.hold("choose", "console", 2).unwrap().unwrap();
    assert_eq!(file.read(), ActiveStop::Stop(hold.clone()));
    drop(lock);
    assert_eq!(file.release(&hold).unwrap(), pause);
}

#[test]
fn a_stop_in_earnest_stays_where_a_hold_is_released() {
    for late in [false, true] {
        let (_folder, file) = file();
        let pause = stop(file.raise(StopLevel::Pause, "", "operator", 1).unwrap());
        let hold = file.hold("choose", "console", 2).unwrap().unwrap();
        let lock = late.then(|| stalled(&file));
        let halt = stop(file.raise(StopLevel::Halt, "stolen", "bardo halt", 3).unwrap());
        drop(lock);
        assert_eq!((halt.by.as_str(), halt.hold, halt.over.as_deref()), ("bardo halt", false, Some(&pause)));
        assert!(matches!(file.release(&hold), Err(StopError::NotYours { level: StopLevel::Halt, .. })));
        assert_eq!(file.read(), ActiveStop::Stop(halt.clone()));
        // In the reverse order no hold is set: releasing it would not lift the halt.
        assert_eq!(file.hold("choose", "console", 4).unwrap(), None);
    }
}

#[test]
fn a_lower_stop_in_earnest_stays_where_a_hold_is_released() {
    for late in [false, true] {
        let (_folder, file) = file();
        let hold = file.hold("choose", "console", 1).unwrap().unwrap();
        let lock = late.then(|| stalled(&file));
        let (in_force, set) = file.raise_own(StopLevel::ExitOnly, "odd prices", "bardo halt", 2).unwrap();
        drop(lock);
        let set = set.unwrap();
        assert_eq!(
            (in_force, set.level, set.by.as_str()),
            (ActiveStop::Stop(hold.clone()), StopLevel::ExitOnly, "bardo halt")
        );
        // A stop that remains anyway is not set again.
        for level in [StopLevel::Pause, StopLevel::ExitOnly] {
            assert_eq!(file.raise_own(level, "", "bardo halt", 3).unwrap(), (ActiveStop::Stop(hold.clone()), None));
        }
        assert_eq!(file.release(&hold).unwrap(), ActiveStop::Stop(set.clone()));
        assert_eq!(file.lower_in_tests(&ActiveStop::Stop(set), None, "", "operator", 4).unwrap(), ActiveStop::None);
    }
}

#[test]
fn a_lower_stop_is_not_set_again_beneath_a_hold() {
    let (_folder, file) = file();
    let flatten = file.raise(StopLevel::Flatten, "", "operator", 1).unwrap();
    file.hold("choose", "one console", 2).unwrap().unwrap();
    let hold = file.hold("choose", "another", 3).unwrap().unwrap();
    let (in_force, set) = file.raise_own(StopLevel::ExitOnly, "", "somebody", 4).unwrap();
    assert_eq!((in_force, set), (ActiveStop::Stop(hold.clone()), None));
    let before = stop(file.release(&hold).unwrap());
    assert_eq!(file.release(&before).unwrap(), flatten);
}

#[test]
fn a_hold_does_not_write_over_a_stop_in_earnest_that_is_not_in_force() {
    // Ids are random: the order of the two holds in the folder must not matter.
    for _ in 0..16 {
        let (_folder, file) = file();
        // A late pause is renamed into place below a hold that did not wait for the lock.
        let lock = stalled(&file);
        let pause = Stop::new(StopLevel::Pause, "lunch", "somebody", 1);
        let aside = file.aside(&pause).unwrap();
        let one = file.hold("choose", "one console", 2).unwrap().unwrap();
        fs::rename(&aside.0, file.path()).unwrap();
        drop(lock);
        let other = file.hold("choose", "another", 3).unwrap().unwrap();
        assert_eq!(file.read(), ActiveStop::Stop(other.clone()), "the one that rose above the other");
        assert_eq!(file.release(&other).unwrap(), ActiveStop::Stop(one.clone()));
        assert_eq!(file.release(&one).unwrap(), ActiveStop::Stop(pause));
    }
}

#[test]
fn a_yes_to_the_end_of_a_hold_is_none_to_the_end_of_what_lies_beneath() {
    for level in [None, Some(StopLevel::Pause)] {
        let (_folder, file) = file();
        let shown = ActiveStop::Stop(file.hold("choose", "console", 1).unwrap().unwrap());
        let (_, set) = file.raise_own(StopLevel::ExitOnly, "odd prices", "bardo halt", 2).unwrap();
        let set = ActiveStop::Stop(set.unwrap());
        assert_eq!(file.lower_in_tests(&shown, level, "", "operator", 3).unwrap(), set);
        assert_eq!(file.lower_in_tests(&set, None, "", "operator", 4).unwrap(), ActiveStop::None);
        // Also if the stop file itself is below.
        let lock = stalled(&file);
        let late = Stop::new(StopLevel::ExitOnly, "odd prices", "somebody", 5);
        let aside = file.aside(&late).unwrap();
        let shown = ActiveStop::Stop(file.hold("choose", "console", 6).unwrap().unwrap());
        fs::rename(&aside.0, file.path()).unwrap();
        drop(lock);
        assert_eq!(file.lower_in_tests(&shown, level, "", "operator", 7).unwrap(), ActiveStop::Stop(late));
    }
}

#[test]
fn an_unreadable_file_beside_the_stop_file_is_a_halt() {
    let (_folder, file) = file();
    fs::create_dir(file.beside()).unwrap();
    assert_eq!(file.read(), ActiveStop::None);
    fs::write(file.beside().join("x"), "?").unwrap();
    assert_eq!(file.read().level(), Some(StopLevel::Halt));
    assert_eq!(file.lower_in_tests(&file.read(), None, "", "operator", 1).unwrap(), ActiveStop::None);
    fs::remove_dir(file.beside()).unwrap();
    fs::write(file.beside(), "in the way").unwrap();
    assert_eq!(file.read().level(), Some(StopLevel::Halt));
}

/// Stop file in a folder in which a stop cannot be written: the path leaves no room for the name of the prepared file.
#[cfg(target_os = "linux")]
fn without_room() -> (tempfile::TempDir, StopFile) {
    let folder = tempfile::tempdir().unwrap();
    // A path of the maximum length leaves no room for the longer name of the prepared file.
    let mut deep = folder.path().to_owned();
    let longest = 4_095 - "/STOP.d".len();
    while longest - deep.as_os_str().len() > 1 {
        let left = longest - deep.as_os_str().len() - 1;
        // Avoid a rest of one character, which would be a slash with no name after it.
        let name = if left > 200 { left.min(202) - 2 } else { left };
        deep.push("d".repeat(name));
    }
    fs::create_dir_all(&deep).unwrap();
    let file = StopFile::in_folder(&deep);
    assert_eq!(file.read(), ActiveStop::None);
    (folder, file)
}

#[cfg(target_os = "linux")]
#[test]
fn a_hold_that_cannot_be_written_is_a_halt_that_no_owner_releases() {
    let (_folder, file) = without_room();
    assert_eq!(file.hold("choose", "console", 1).unwrap(), None);
    assert_eq!((file.read().level(), file.read().is_hold()), (Some(StopLevel::Halt), false));
    // The same over a lower stop, which it must not leave in force.
    let (_folder, file) = without_room();
    fs::write(file.path(), serde_json::to_vec(&Stop::new(StopLevel::Pause, "", "operator", 1)).unwrap()).unwrap();
    assert_eq!(file.hold("choose", "console", 2).unwrap(), None);
    assert_eq!(file.read().level(), Some(StopLevel::Halt));
}

#[cfg(target_os = "linux")]
#[test]
fn a_stop_that_cannot_be_written_is_a_halt() {
    let (_folder, file) = without_room();
    let raised = file.raise(StopLevel::Pause, "no room", "operator", 1).unwrap();
    assert!(matches!(raised, ActiveStop::Garbled { .. }), "{raised:?}");
    assert_eq!(file.read().level(), Some(StopLevel::Halt));
    // It could not be raised above a halt, which is reported; the halt stays with its own reason.
    let halt = Stop::new(StopLevel::Halt, "a key may be stolen", "operator", 1);
    fs::write(file.path(), serde_json::to_vec(&halt).unwrap()).unwrap();
    assert!(matches!(file.raise(StopLevel::Revoke, "", "operator", 2), Err(StopError::File { .. })));
    assert_eq!(file.read(), ActiveStop::Stop(halt));
}

#[test]
fn a_golems_halt_spares_the_operators_flatten_alone() {
    let by_hand = |stop: &Stop| stop.by.as_str() == "operator";
    let halts = |file: &StopFile| file.raise_emergency("the feed looks wrong", "ada", 9, by_hand).unwrap();
    for level in [None, Some(StopLevel::Pause), Some(StopLevel::ExitOnly)] {
        let (_folder, file) = file();
        if let Some(level) = level {
            file.raise(level, "", "operator", 1).unwrap();
        }
        assert_eq!(halts(&file), EmergencyOutcome::Raised(file.read()), "{level:?}");
        assert_eq!(file.read().level(), Some(StopLevel::Halt), "{level:?}");
    }
    let (_folder, file) = file();
    file.raise(StopLevel::Flatten, "", "some program", 1).unwrap();
    assert_eq!(halts(&file), EmergencyOutcome::Raised(file.read()));
    assert_eq!(file.read().level(), Some(StopLevel::Halt));
}

#[test]
fn a_golems_halt_spares_the_operators_flatten_beneath_a_hold_and_in_the_folder_above() {
    let by_hand = |stop: &Stop| stop.by.as_str() == "operator";
    let halts = |file: &StopFile| file.raise_emergency("the feed looks wrong", "ada", 9, by_hand).unwrap();
    // The hold above the flatten, and the flatten below an earlier hold.
    for is_held_first in [false, true] {
        let (_folder, file) = file();
        let hold = || file.hold("", "operator", 2).unwrap().unwrap();
        let first = is_held_first.then(hold);
        let flatten = file.raise_own(StopLevel::Flatten, "", "operator", 1).unwrap().1.unwrap();
        let held = first.unwrap_or_else(hold);
        assert_eq!(halts(&file), EmergencyOutcome::Spared(flatten.clone()), "{is_held_first}");
        assert_eq!(file.release(&held).unwrap(), ActiveStop::Stop(flatten), "{is_held_first}");
    }
    let ((_above, above), (_folder, own)) = (file(), file());
    let own = own.beneath(above.path().parent().unwrap());
    let ActiveStop::Stop(flatten) = above.raise(StopLevel::Flatten, "", "operator", 1).unwrap() else { panic!() };
    assert_eq!(halts(&own), EmergencyOutcome::Spared(flatten));
    own.raise(StopLevel::Revoke, "", "operator", 2).unwrap();
    assert_eq!(halts(&own), EmergencyOutcome::Raised(own.read()));
    assert_eq!(own.read().level(), Some(StopLevel::Revoke));
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_the_lock_holds_up_no_stop() {
    let (_folder, file) = file();
    stop(file.raise(StopLevel::ExitOnly, "first", "somebody", 1).unwrap());
    fs::remove_file(file.lock()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(file.lock()).status().unwrap().success());
    let (tell, told) = std::sync::mpsc::channel();
    let raising = file.clone();
    std::thread::spawn(move || tell.send(raising.raise(StopLevel::Halt, "second", "somebody", 2)));
    let raised = told.recv_timeout(Duration::from_secs(60)).expect("it waits for the pipe").unwrap();
    assert_eq!((stop(raised).reason.as_str(), file.read().level()), ("second", Some(StopLevel::Halt)));
    let shown = file.read();
    let lowered = file.lower_in_tests(&shown, None, "over", "operator", 3);
    assert!(matches!(lowered, Err(StopError::Lock { .. })), "{lowered:?}");
    assert_eq!(file.read(), shown);
}
