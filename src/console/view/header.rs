//! The first line: whose money, which network, how far its chains are, whether all is well, what time it is.
//!
//! Where the line is too short it drops by priority; the badge stays, whatever else goes.

use ratatui::layout::Rect;

use super::badge;
use crate::console::format::{age, grouped, time_of_day};
use crate::console::pen::{Pen, Piece, pieces_width};
use crate::console::state::State;
use crate::console::state::model::Money;
use crate::console::theme::Role;

/// A group of pieces that stays or goes as one; the highest rank goes first.
struct Group {
    rank: u8,
    pieces: Vec<Piece>,
}

/// Draws the header.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, line: Rect) {
    pen.fill(line, Role::Header);
    let mut groups = groups(state);
    let mut clock = clock(state);
    let fits = |groups: &[Group], clock: &[Piece]| {
        groups.iter().map(|group| pieces_width(&group.pieces) + 2).sum::<usize>() + pieces_width(clock)
            <= usize::from(line.width)
    };
    while !fits(&groups, &clock) && groups.len() > 1 {
        let worst = groups.iter().map(|group| group.rank).max().unwrap_or(0);
        if worst < CLOCK_RANK && !clock.is_empty() {
            clock.clear();
        } else {
            groups.retain(|group| group.rank != worst);
        }
    }
    let mut left = Vec::new();
    for group in groups {
        left.push((" ".to_owned(), Role::Header));
        left.extend(group.pieces);
        left.push((" ".to_owned(), Role::Header));
    }
    pen.row(line, &left, &clock);
}

/// The clock goes after groups of a higher rank and before all others.
const CLOCK_RANK: u8 = 4;

fn groups(state: &State) -> Vec<Group> {
    let live = &state.live;
    // Before the network stands there is only the devnet it could be.
    let money = live.network.as_ref().map_or(Money::Play, |network| network.money);
    let mut groups = vec![
        Group { rank: 5, pieces: vec![("BARDO".to_owned(), Role::Title)] },
        Group { rank: 0, pieces: vec![(format!(" {} ", money.words()), badge(money))] },
    ];
    let Some(network) = &live.network else {
        groups.push(Group { rank: 1, pieces: vec![state_words(state)] });
        return groups;
    };
    groups.push(Group { rank: 3, pieces: vec![(network.name.to_string(), Role::Text)] });
    let mut chains: Vec<Piece> = Vec::new();
    for (at, (identity, chain)) in network.chains.iter().zip(&live.chains).enumerate() {
        let Some(block) = chain.blocks.front() else { continue };
        if at > 0 {
            chains.push((" · ".to_owned(), Role::TextDim));
        }
        chains.push((format!("{} ", identity.name), Role::TextDim));
        chains.push((format!("#{}", grouped(&block.number.to_string())), Role::TextStrong));
        if let Some(quiet) = quiet_for(state, at) {
            chains.push((format!(" quiet {}", age(quiet)), Role::StateCare));
        }
    }
    if !chains.is_empty() {
        groups.push(Group { rank: 2, pieces: chains });
    }
    groups.push(Group { rank: 1, pieces: vec![state_words(state)] });
    groups
}

fn state_words(state: &State) -> Piece {
    if let Some(frozen) = &state.frozen {
        let words = format!(" VIEW FROZEN, chains still running, {} new ", frozen.missed);
        return (words, Role::Frozen);
    }
    let faulty = state.live.fault.is_some() || state.live.chains.iter().any(|chain| chain.fault.is_some());
    match (faulty, state.booting()) {
        (true, _) => ("▲ TROUBLE".to_owned(), Role::StateBad),
        (false, true) => ("◌ STARTING".to_owned(), Role::StateCare),
        (false, false) => ("● RUNNING".to_owned(), Role::StateGood),
    }
}

/// The clock runs, so it is hidden where nothing may move.
fn clock(state: &State) -> Vec<Piece> {
    if !state.motion {
        return Vec::new();
    }
    vec![(format!("{} UTC ", time_of_day(state.now_millis / 1000)), Role::TextDim)]
}

/// Seconds since the newest block of a chain, where that is suspiciously long; never told where nothing may move.
pub(super) fn quiet_for(state: &State, chain: usize) -> Option<u64> {
    let identity = state.live.network.as_ref()?.chains.get(chain)?;
    let newest = state.live.chains.get(chain)?.blocks.front()?;
    let since = (state.now_millis / 1000).saturating_sub(newest.timestamp);
    let usual = identity.interval_millis? / 1000;
    (state.motion && since > 10.max(5 * usual)).then_some(since)
}
