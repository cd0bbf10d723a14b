//! Help texts of keys whose effect on one screen differs from most screens.

use super::Action;
use crate::screen_id::ScreenId;

/// Screen, action and help text of each exception.
const HERE: &[(ScreenId, Action, &str)] = &[
    (ScreenId::Live, Action::Open, "details of the selected call, or of the newest"),
    (ScreenId::Live, Action::CancelSelected, "cancel the selected call if it is not signed; asks first"),
    (ScreenId::Trade, Action::Open, "focus the form; in it: preview, then decide"),
    (ScreenId::Trade, Action::Filter, "choose a form by words of its name"),
    (ScreenId::Trade, Action::Down, "next field of the form"),
    (ScreenId::Trade, Action::Up, "previous field of the form"),
    (ScreenId::Trade, Action::Left, "previous tool"),
    (ScreenId::Trade, Action::Right, "next tool"),
    (ScreenId::Trade, Action::PreviousPanel, "previous tool"),
    (ScreenId::Trade, Action::NextPanel, "next tool"),
    (ScreenId::Trade, Action::Zoom, "show only the answer, or all"),
    (ScreenId::Trade, Action::Copy, "copy the offer id, or the transaction hash once sent"),
    (ScreenId::Orders, Action::Open, "show only the order's card, or all"),
    (ScreenId::Orders, Action::Zoom, "show only the order's card, or all"),
    (ScreenId::Orders, Action::Copy, "copy the order's hash"),
    (ScreenId::Orders, Action::Explorer, "copy the explorer link of its fill or delivery"),
    (ScreenId::Portfolio, Action::Open, "profit and loss; there, Tab regroups and Esc goes back"),
    (ScreenId::Portfolio, Action::Copy, "copy the spender's address"),
    (ScreenId::Portfolio, Action::Label, "name the spender of the selected allowance"),
    (ScreenId::Portfolio, Action::CancelSelected, "revoke the selected allowance; asks first"),
    (ScreenId::Audit, Action::Follow, "load the newest entries of the audit log"),
    (ScreenId::Audit, Action::Filter, "filter the audit log: words"),
    (ScreenId::Audit, Action::Copy, "copy the selected audit log entry"),
    (ScreenId::Audit, Action::Export, "export the visible audit log to a JSON file"),
    (ScreenId::Audit, Action::CancelSelected, "revoke the selected standing approval; asks first"),
    (ScreenId::Tools, Action::Open, "run a read-only tool; open the form of one that signs"),
    (ScreenId::Tools, Action::Left, "previous tool set"),
    (ScreenId::Tools, Action::Right, "next tool set"),
    (ScreenId::Tools, Action::PreviousPanel, "previous tool set"),
    (ScreenId::Tools, Action::NextPanel, "next tool set"),
    (ScreenId::Tools, Action::HalfPageDown, "half a page down in the tool's details"),
    (ScreenId::Tools, Action::HalfPageUp, "half a page up in the tool's details"),
    (ScreenId::Tools, Action::Zoom, "show only the tool's details, or all"),
    (ScreenId::Tools, Action::Filter, "filter: words of a tool's name or description"),
    (ScreenId::Tools, Action::Copy, "copy the tool's name"),
    (ScreenId::Portfolio, Action::Filter, "filter: token, chain or spender"),
    (ScreenId::Network, Action::Filter, "filter prices and pools: token or chain"),
    (ScreenId::Network, Action::Open, "run the selected control; elsewhere recheck endpoints"),
    (ScreenId::Transactions, Action::Open, "show only the details, or all"),
    (ScreenId::Transactions, Action::Zoom, "show only the details, or all"),
    (ScreenId::Transactions, Action::Copy, "copy the hash of the transaction or order"),
    (ScreenId::Transactions, Action::CancelSelected, "cancel the transaction or order; asks first"),
    (ScreenId::Agents, Action::Open, "read profile, trust, tier and feedback of the selected agent"),
    (ScreenId::Agents, Action::Zoom, "show only the agent's card, or all"),
    (ScreenId::Agents, Action::HalfPageDown, "half a page down in the agent's card"),
    (ScreenId::Agents, Action::HalfPageUp, "half a page up in the agent's card"),
    (ScreenId::Agents, Action::Copy, "copy the agent's id"),
    (ScreenId::Agents, Action::Filter, "filter: words of id, name, purpose or protocol"),
    (ScreenId::Positions, Action::Open, "choose what to do about the position: opens a form"),
    (ScreenId::Positions, Action::Zoom, "show only the position's card, or all"),
    (ScreenId::Positions, Action::HalfPageDown, "half a page down; in a zoomed card: scroll it"),
    (ScreenId::Positions, Action::HalfPageUp, "half a page up; in a zoomed card: scroll it"),
    (ScreenId::Positions, Action::Follow, "read all positions again"),
    (ScreenId::Positions, Action::Copy, "copy the position's number, or the address"),
    (ScreenId::Positions, Action::Filter, "filter: words of chain, tokens, version or state"),
    (ScreenId::Pools, Action::Open, "choose what to do with the pool: opens a form"),
    (ScreenId::Pools, Action::Left, "pools of the previous token"),
    (ScreenId::Pools, Action::Right, "pools of the next token"),
    (ScreenId::Pools, Action::Zoom, "show only the pool's card, or all"),
    (ScreenId::Pools, Action::HalfPageDown, "half a page down; in a zoomed card: scroll it"),
    (ScreenId::Pools, Action::HalfPageUp, "half a page up; in a zoomed card: scroll it"),
    (ScreenId::Pools, Action::Follow, "read the pools again"),
    (ScreenId::Pools, Action::Copy, "copy the pool's address or id"),
    (ScreenId::Pools, Action::Filter, "filter: words of pair, version, fee or address"),
    (ScreenId::Custody, Action::Open, "show only the selected card, or all rows"),
    (ScreenId::Custody, Action::Zoom, "show only the selected card, or all rows"),
    (ScreenId::Custody, Action::CancelSelected, "revoke the selected key or allowance, or all; asks first"),
    (ScreenId::Custody, Action::HalfPageDown, "half a page down; in a zoomed card: scroll it"),
    (ScreenId::Custody, Action::HalfPageUp, "half a page up; in a zoomed card: scroll it"),
    (ScreenId::Custody, Action::Follow, "read everything again"),
    (ScreenId::Custody, Action::Copy, "copy the address of the key, spender or contract"),
    (ScreenId::Custody, Action::Filter, "filter: words of kind, token, chain or address"),
    (ScreenId::Logs, Action::ShorterRange, "more lines: also lower levels"),
    (ScreenId::Logs, Action::LongerRange, "fewer lines: only higher levels"),
    (ScreenId::Logs, Action::Open, "details of the line's call"),
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
        assert_eq!(help_on(ScreenId::Audit, Action::Filter), Some("filter the audit log: words"));
        assert_eq!(help_on(ScreenId::Live, Action::Zoom), None);
    }
}
