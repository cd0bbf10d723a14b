//! Header lines: kind of money, network, chains, state, waiting requests, tabs and wallet.
//!
//! A line that is too short drops groups by priority. The badge always stays.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::{Tabs, Widget};

use super::badge;
use crate::format::{age, dollars, grouped, gwei, short_address, time_of_day};
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::screens::ScreenId;
use crate::state::State;
use crate::theme::{Role, Theme};
use crate::widgets::paint::Group;
use bardo_base::model::StopLevel;
use bardo_base::text::width;
use bardo_session::handle::{Custody, ReplayState};
use bardo_session::isolation::IsolationLevel;
use bardo_session::market::ChainIdentity;

/// Header of the console: kind of money, network, state, waiting requests; below it the tabs and the wallet.
pub(super) struct Header<'a> {
    pub(super) theme: &'a Theme,
    pub(super) state: &'a State,
}

impl Widget for Header<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, state } = self;
        let painter = &mut Painter { buffer, theme };
        let first = line(area, 0);
        painter.fill(first, Role::Header);
        let right = if state.compact() { worth(state) } else { clock(state) };
        let mut groups = groups(state);
        let whole = usize::from(first.width);
        let taken = |groups: &[Group]| groups.iter().map(|group| styled_width(&group.pieces) + 2).sum::<usize>();
        let mut right = right;
        // The last group has no gap behind it.
        while taken(&groups).saturating_sub(2) + styled_width(&right) > whole && groups.len() > 1 {
            let worst = groups.iter().map(|group| group.rank).max().unwrap_or(0);
            // The right end is dropped before any essential group.
            if worst <= 2 && !right.is_empty() {
                right = Vec::new();
                continue;
            }
            groups.retain(|group| group.rank < worst);
        }
        let mut left: Vec<StyledText> = Vec::new();
        for group in groups {
            left.extend(group.pieces);
            left.push(("  ".to_owned(), Role::Header));
        }
        painter.row(first, &left, &right);
        if !state.compact() {
            let second = line(area, 1);
            // The wallet is left out whole where the tabs leave no room for it.
            let taken: usize = tabs(state).iter().map(|tab| styled_width(tab)).sum();
            let titles: Vec<_> = tabs(state).iter().map(|tab| painter.line(tab)).collect();
            painter.render(Tabs::new(titles).select(None).padding("", "").divider(""), second);
            let wallet = wallet(state);
            if taken < usize::from(second.width).saturating_sub(styled_width(&wallet)) {
                let wallet = painter.line(&wallet).right_aligned();
                painter.render(wallet, second);
            }
        }
    }
}

fn groups(state: &State) -> Vec<Group> {
    let mut groups = Vec::new();
    match state.money() {
        Some(money) => {
            let pieces = vec![(" ".to_owned(), Role::Header), (format!("▐ {} ▌", money.describe()), badge(money))];
            groups.push(Group { rank: 0, pieces });
        }
        None => groups.push(Group { rank: 0, pieces: vec![(" BARDO".to_owned(), Role::Title)] }),
    }
    if let Some(network) = &state.session.page.network {
        groups.push(Group { rank: 5, pieces: vec![(network.name.to_string(), Role::Text)] });
        groups.push(Group { rank: 6, pieces: newest_blocks(state, &network.chains) });
    }
    // A stop is essential and never dropped before other groups.
    let running = running(state);
    let stopped = state.stop().is_some();
    let beside = width(&running.0);
    if let Some(now) = &state.session.replay {
        groups.push(Group { rank: 1, pieces: vec![replayed(now)] });
        let (played, of) = (grouped(&now.told.to_string()), grouped(&now.of.to_string()));
        let words = format!("speed {} %  {played} of {of}", grouped(&now.speed_percent.to_string()));
        groups.push(Group { rank: 3, pieces: vec![(words, Role::Text)] });
    }
    // In a recording, the running state is shown only if something is wrong.
    if state.session.replay.is_none() || running.1 != Role::StateGood {
        groups.push(Group { rank: if stopped { 1 } else { 2 }, pieces: vec![running] });
    }
    // Names endpoints that contradict others. Until they are removed, nothing that increases risk is signed.
    let disputed: Vec<&str> = state
        .session
        .page
        .chains
        .iter()
        .flat_map(|chain| &chain.endpoints.disputed)
        .map(|label| label.as_str())
        .collect();
    if let Some(first) = disputed.first() {
        let more = disputed.len() - 1;
        let more = if more > 0 { format!(" +{more}") } else { String::new() };
        groups.push(Group { rank: 2, pieces: vec![(format!("▲ {first}{more} disagrees"), Role::StateBad)] });
    }
    let transactions = state.session.snapshot.as_ref().and_then(|snapshot| snapshot.transactions.as_deref());
    if let Some(chain) = transactions.and_then(|transactions| transactions.used_outside().next()) {
        let words = format!("▲ {chain}: nothing is signed ({})", ScreenId::Transactions.key());
        groups.push(Group { rank: 3, pieces: vec![(words, Role::StateBad)] });
    }
    if let Some((rank, words, role)) = brain(state) {
        groups.push(Group { rank, pieces: vec![(words.to_owned(), role)] });
    }
    let served = state.session.ready.as_ref().is_some_and(|ready| ready.served);
    // A console that can answer nothing says so as long as it asks for anything.
    match (served, state.options.watch_only) {
        (true, true) => {
            groups.push(Group { rank: 1, pieces: vec![("ATTACHED read-only".to_owned(), Role::TextStrong)] })
        }
        (true, false) => groups.push(Group { rank: 3, pieces: vec![("ATTACHED".to_owned(), Role::TextStrong)] }),
        (false, true) => groups.push(Group { rank: 1, pieces: vec![("read-only".to_owned(), Role::TextStrong)] }),
        (false, false) => {}
    }
    let badge = groups.first().map_or(0, |group| styled_width(&group.pieces));
    let room = usize::from(state.display.size.width).saturating_sub(badge + beside + 4);
    groups.extend(frozen(state, room));
    // Beside a stop, a short line shortens this text.
    groups.extend(waiting(state, if stopped { room } else { usize::MAX }));
    groups
}

/// Number of each chain's newest block, with its age if it is old. If the terminal is too narrow for all chains, only
/// the first one's number.
fn newest_blocks(state: &State, chains: &[ChainIdentity]) -> Vec<StyledText> {
    let newest = state.session.page.chains.first().and_then(|chain| chain.blocks.front());
    if let Some(newest) = newest.filter(|_| state.compact()) {
        return vec![(format!("#{}", grouped(&newest.number.to_string())), Role::Text)];
    }
    let mut pieces: Vec<StyledText> = Vec::new();
    for (identity, chain) in chains.iter().zip(&state.session.page.chains) {
        let Some(newest) = chain.blocks.front() else { continue };
        if !pieces.is_empty() {
            pieces.push((" · ".to_owned(), Role::TextDim));
        }
        let number = grouped(&newest.number.to_string());
        pieces.push((format!("{} #{number}", identity.name), Role::Text));
        let since = (state.session_millis() / 1000).saturating_sub(newest.timestamp);
        let usual = identity.interval_millis.unwrap_or(12_000) / 1000;
        if state.clock.motion && since > 10.max(5 * usual) {
            pieces.push((format!(" {} old", age(since)), Role::StateCare));
        }
    }
    pieces
}

/// Mark of a frozen view. It is shortened to `room` columns before it is dropped, because the screen does not show the
/// current state.
fn frozen(state: &State, room: usize) -> Option<Group> {
    let frozen = state.display.frozen.as_ref()?;
    let runs = match state.replaying() {
        true => "the recording".to_owned(),
        false => name(state).to_string(),
    };
    let parts = [
        format!(" view frozen, {runs} still running, {} new ", frozen.missed),
        format!(" view frozen, {} new ", frozen.missed),
        " frozen ".to_owned(),
    ];
    let words = parts.iter().find(|words| width(words.as_str()) <= room).or(parts.last())?;
    Some(Group { rank: 2, pieces: vec![(words.clone(), Role::Frozen)] })
}

/// Number of decisions that wait, in at most `room` columns if it fits. `None` if none waits.
fn waiting(state: &State, room: usize) -> Option<Group> {
    let waiting = state.session.questions.len();
    if waiting == 0 {
        return None;
    }
    let verb = if waiting == 1 { "WAITS" } else { "WAIT" };
    let key = state.decide_key();
    let parts = match state.options.watch_only {
        // It waits for the operator of another console; here it can only be read.
        true => [
            format!("‼ {waiting} {verb} ({key} reads)"),
            format!("‼ {waiting} ({key} reads)"),
            format!("‼ {waiting} ({key})"),
        ],
        false => [
            format!("‼ {waiting} {verb} FOR YOU ({key})"),
            format!("‼ {waiting} {verb} ({key})"),
            format!("‼ {waiting} ({key})"),
        ],
    };
    let words = parts.iter().find(|words| width(words.as_str()) <= room).or(parts.last())?;
    Some(Group { rank: 1, pieces: vec![(words.clone(), Role::StateCare)] })
}

/// Warning that the brain process could act as the operator or disturb Bardo; `None` if it is fully isolated.
fn brain(state: &State) -> Option<(u8, &'static str, Role)> {
    match state.session.ready.as_ref()?.brain.as_ref()?.level() {
        IsolationLevel::Full => None,
        IsolationLevel::Partial => Some((4, "brain partly isolated", Role::StateCare)),
        IsolationLevel::None => Some((1, "brain not isolated", Role::StateBad)),
    }
}

fn name(state: &State) -> &str {
    state.session.ready.as_ref().map_or("the Golem", |ready| ready.name.as_str())
}

/// Running state of the session, as mark and word.
fn running(state: &State) -> StyledText {
    let faulty =
        state.session.page.fault.is_some() || state.session.page.chains.iter().any(|chain| chain.fault.is_some());
    let own_hold =
        state.session.snapshot.as_ref().and_then(|snapshot| snapshot.stop.as_ref()).is_some_and(|stop| stop.own_hold);
    match (state.stop(), faulty) {
        (Some(_), _) if own_hold => ("■ HELD".to_owned(), Role::StateBad),
        (Some(level), _) => (format!("■ {}", stop_word(level)), Role::StateBad),
        // Lowering the stop does not restore session keys.
        (None, _) if state.session.snapshot.as_ref().is_some_and(|snapshot| snapshot.keys_revoked) => {
            (format!("■ {}", stop_word(StopLevel::Revoke)), Role::StateBad)
        }
        (None, true) => ("▲ FAULT".to_owned(), Role::StateBad),
        (None, false) if state.booting() => ("◌ STARTING".to_owned(), Role::StateCare),
        (None, false) if state.session.leaving => ("◌ LEAVING".to_owned(), Role::StateCare),
        (None, false) => ("● RUNNING".to_owned(), Role::StateGood),
    }
}

/// State of a recording, as mark and word.
fn replayed(now: &ReplayState) -> StyledText {
    match now {
        ReplayState { told, of, .. } if told >= of => ("■ AT ITS END".to_owned(), Role::Text),
        ReplayState { paused: true, .. } => ("■ PAUSED".to_owned(), Role::StateCare),
        ReplayState { paused: false, .. } => ("▸ PLAYING".to_owned(), Role::StateGood),
    }
}

/// Display word for a stop level.
pub(super) fn stop_word(level: StopLevel) -> &'static str {
    match level {
        StopLevel::Pause => "PAUSED",
        StopLevel::ExitOnly => "EXITS ONLY",
        StopLevel::Flatten => "FLATTEN",
        StopLevel::Halt => "HALTED",
        StopLevel::Revoke => "KEYS REVOKED",
    }
}

fn clock(state: &State) -> Vec<StyledText> {
    if !state.clock.motion {
        return Vec::new();
    }
    vec![(format!("{} ", time_of_day(state.session_millis() / 1000)), Role::TextDim)]
}

fn worth(state: &State) -> Vec<StyledText> {
    let equity = state.session.snapshot.as_ref().and_then(|snapshot| snapshot.equity);
    equity.map(|equity| vec![(format!("{} ", dollars(equity)), Role::TextStrong)]).unwrap_or_default()
}

fn wallet(state: &State) -> Vec<StyledText> {
    let mut pieces = Vec::new();
    let snapshot = state.session.snapshot.as_ref();
    if let Some(account) = snapshot.and_then(|snapshot| snapshot.account) {
        // A key file is the usual case, and what the development key signs for is marked as play money.
        let by = match snapshot.and_then(|snapshot| snapshot.custody) {
            Some(Custody::SessionKey) => "session key for ",
            Some(Custody::WalletServer) => "wallet server for ",
            Some(Custody::Safe) => "Safe ",
            Some(Custody::KeyFile | Custody::DevelopmentKey) | None => "",
        };
        pieces.push((by.to_owned(), Role::TextDim));
        pieces.push((format!("{}  ", short_address(account)), Role::TextDim));
    }
    pieces.extend(worth(state));
    let fee = state.session.page.chains.first().and_then(|chain| chain.blocks.front()).map(|block| block.base_fee_wei);
    // A recording holds no base fee.
    if let Some(fee) = fee.filter(|_| !state.replaying()) {
        pieces.push((format!(" gas {} ", gwei(fee)), Role::TextDim));
    }
    pieces
}

/// Tabs of the screens, with their digits.
fn tabs(state: &State) -> Vec<[StyledText; 4]> {
    let tab = |screen: ScreenId| {
        // The active tab has brackets, so that colour is not the only sign.
        let here = screen == state.display.screen;
        let (role, before, after) = if here { (Role::Selection, "[", "]") } else { (Role::TextDim, " ", " ") };
        let edge = if here { Role::BorderFocus } else { Role::Text };
        [
            (before.to_owned(), edge),
            (screen.key().to_string(), Role::Key),
            (format!(" {}", screen.name()), role),
            (after.to_owned(), edge),
        ]
    };
    state.tabs().into_iter().map(tab).collect()
}

/// Screen whose tab is at a position.
pub(super) fn tab_at(state: &State, at: Position) -> Option<ScreenId> {
    if state.compact() || at.y != 1 {
        return None;
    }
    let mut x = 1;
    for screen in state.tabs() {
        let end = x + 2 + width(screen.name());
        if (x..end).contains(&usize::from(at.x)) {
            return Some(screen);
        }
        x = end + 2;
    }
    None
}
