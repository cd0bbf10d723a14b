//! Help texts of keys whose effect on one screen differs from most screens.

use super::Action;
use crate::screens::ScreenId;

/// Screen, action and help text of each exception.
const HERE: &[(ScreenId, Action, &str)] = &[
    (ScreenId::Live, Action::Open, "the whole story of the selected call; without one, of the newest"),
    (ScreenId::Live, Action::CancelSelected, "cancel the selected call, while it can be; asks first"),
    (ScreenId::Trade, Action::Open, "give the keys to the form; there it previews, asks and does"),
    (ScreenId::Trade, Action::Down, "to the form's next field"),
    (ScreenId::Trade, Action::Up, "to the form's field before"),
    (ScreenId::Trade, Action::Left, "the tool before"),
    (ScreenId::Trade, Action::Right, "the next tool"),
    (ScreenId::Trade, Action::PreviousPanel, "the tool before"),
    (ScreenId::Trade, Action::NextPanel, "the next tool"),
    (ScreenId::Trade, Action::Zoom, "the answer alone, and back"),
    (ScreenId::Trade, Action::Copy, "copy the offer, or the transaction's hash once it is done"),
    (ScreenId::Orders, Action::Open, "the order's card alone, and back"),
    (ScreenId::Orders, Action::Zoom, "the order's card alone, and back"),
    (ScreenId::Orders, Action::Copy, "copy the order's hash"),
    (ScreenId::Orders, Action::Explorer, "where to look at its fill or its delivery; copied"),
    (ScreenId::Portfolio, Action::Copy, "copy the address of who may take"),
    (ScreenId::Portfolio, Action::CancelSelected, "take the selected allowance back; asks first"),
    (ScreenId::Audit, Action::Follow, "read the newest entries of the trail"),
    (ScreenId::Audit, Action::Filter, "filter the trail: words"),
    (ScreenId::Audit, Action::Copy, "copy the selected entry of the trail"),
    (ScreenId::Audit, Action::Export, "the trail, as it is shown, to a JSON file"),
    (ScreenId::Audit, Action::CancelSelected, "revoke the selected standing approval; asks first"),
    (ScreenId::Tools, Action::Open, "fill in a tool that reads, and run it"),
    (ScreenId::Tools, Action::Left, "the tool set before"),
    (ScreenId::Tools, Action::Right, "the next tool set"),
    (ScreenId::Tools, Action::PreviousPanel, "the tool set before"),
    (ScreenId::Tools, Action::NextPanel, "the next tool set"),
    (ScreenId::Tools, Action::HalfPageDown, "half a page down in what is told of the tool"),
    (ScreenId::Tools, Action::HalfPageUp, "half a page up in what is told of the tool"),
    (ScreenId::Tools, Action::Zoom, "what is told of the tool alone, and back"),
    (ScreenId::Tools, Action::Filter, "filter: words of a tool's name and of what it does"),
    (ScreenId::Tools, Action::Copy, "copy the tool's name"),
    (ScreenId::Portfolio, Action::Filter, "filter: a token, a chain, or who may take"),
    (ScreenId::Network, Action::Filter, "filter prices and pools: a token or a chain"),
    (ScreenId::Network, Action::Open, "do the selected control; elsewhere ask the endpoints again"),
    (ScreenId::Logs, Action::ShorterRange, "more lines: those of a lower level, too"),
    (ScreenId::Logs, Action::LongerRange, "fewer lines: those of a higher level only"),
    (ScreenId::Logs, Action::Open, "the whole story of the call that the line is of"),
    (ScreenId::Logs, Action::Filter, "filter: words, kind: call: level:"),
];

/// Help text of an action on this screen; `None` if the general text applies.
pub fn help_on(screen: ScreenId, action: Action) -> Option<&'static str> {
    HERE.iter().find(|(on, of, _)| *on == screen && *of == action).map(|(.., words)| *words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_and_of_a_key_that_does_something_there() {
        for (at, (screen, action, words)) in HERE.iter().enumerate() {
            assert!(screen.does(*action) && !words.is_empty(), "{screen:?} {action:?}");
            let twice = HERE.iter().skip(at + 1).any(|(on, of, _)| (on, of) == (screen, action));
            assert!(!twice, "{screen:?} {action:?}");
        }
    }

    #[test]
    fn the_words_are_those_of_the_screen() {
        assert_eq!(help_on(ScreenId::Audit, Action::Filter), Some("filter the trail: words"));
        assert_eq!(help_on(ScreenId::Live, Action::Zoom), None);
    }
}
