//! Screen 0: agents in the ERC-8004 registries, with rating, trust, tier and feedback. It reads by tools that sign
//! nothing, and keeps what it read.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};
use ratatui::widgets::Widget;
use serde_json::{Value, json};

use super::filter::Filter;
use super::{CommandReply, ScreenContext, ScreenId, ScreenRequest, ScreenView, list, ticket};
use crate::keymap::{Action, Key};
use crate::painter::{Painter, StyledText};
use crate::scroll::ScrollOffset;
use crate::theme::{Role, Theme};
use crate::widgets::identity::{Agent, AgentProfile, AgentTier, AgentTrust, IdentityCard};
use crate::widgets::paint::{Row, rows, wrapped};
use bardo_base::text::{SafeText, fit};
use bardo_session::envelope::ToolResponse;
use bardo_session::handle::SessionCommand;

/// Width from which list and card stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 100;
/// Number of agents that are listed, own ones first and then the last active.
const LISTED: u32 = 100;
/// Age from which the list is read again while the screen is shown, in milliseconds. Reading it asks servers that
/// strangers chose for their files, so it does not follow every block.
const OLD_MILLIS: u64 = 30_000;

/// Maximum width of a name in the list, in columns; the card has it whole.
const LONGEST_NAME: usize = 24;

/// Purpose of a call of this screen.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    /// List of own and last active agents.
    List,
    /// Agents that these words find in all registries.
    Search(String),
    /// A part of the card of the agent with this id.
    Profile(SafeText),
    Trust(SafeText),
    Tier(SafeText),
}

/// Agents that a search among all registered agents found.
#[derive(Debug, Default)]
struct SearchResult {
    /// Words of the search.
    words: String,
    agents: Vec<Agent>,
    /// True once the answer is here.
    is_read: bool,
}

/// State of screen 0.
#[derive(Debug, Default)]
pub struct Agents {
    /// Own agents and then the others, each in the order of their last event; `None` until they are read.
    agents: Option<Vec<Agent>>,
    /// Number of all registered agents.
    total: u64,
    /// Newest search among all agents, for the words that Enter sent.
    search: Option<SearchResult>,
    /// Time at which the list was requested, in milliseconds since the Unix epoch.
    asked_at: Option<u64>,
    /// Reason why something could not be read.
    fault: Option<SafeText>,
    /// Running calls by their count.
    running: BTreeMap<u32, Purpose>,
    /// Id of the chosen agent.
    chosen: Option<SafeText>,
    /// Selected row, used if the chosen one is gone.
    selected: usize,
    zoomed: bool,
    /// Scroll position of the selected agent's card.
    card_offset: ScrollOffset,
    filter: Filter,
    sent: u32,
}

impl Agents {
    /// Agents that the filter lets through.
    fn listed(&self) -> Vec<&Agent> {
        let fits = |agent: &&Agent| {
            let name = agent.name.as_ref().map_or("", SafeText::as_str);
            let purpose = agent.description.as_ref().map_or("", SafeText::as_str);
            let protocols: Vec<&str> = agent.protocols.iter().map(SafeText::as_str).collect();
            self.filter.lets(&format!("{} {name} {purpose} {}", agent.id, protocols.join(" ")))
        };
        let mut listed: Vec<&Agent> = self.agents.iter().flatten().filter(fits).collect();
        for found in self.searched().into_iter().flat_map(|search| &search.agents) {
            if !listed.iter().any(|agent| agent.id == found.id) {
                listed.push(found);
            }
        }
        listed
    }

    /// Search for the words of the filter; `None` if it was not sent, or if the words changed since.
    fn searched(&self) -> Option<&SearchResult> {
        self.search.as_ref().filter(|search| self.filter.stands() && search.words == self.filter.words())
    }

    /// Sends the words of the filter to the registries' search.
    fn search_all(&mut self, known: &ScreenContext<'_>) -> Option<ScreenRequest> {
        if !known.may_read() || !self.filter.stands() || self.searched().is_some() {
            return None;
        }
        let words = self.filter.words();
        self.search = Some(SearchResult { words: words.clone(), ..SearchResult::default() });
        Some(self.call(Purpose::Search(words)))
    }

    fn row(&self, all: &[&Agent]) -> usize {
        let chosen = self.chosen.as_ref().and_then(|id| all.iter().position(|agent| agent.id == *id));
        chosen.unwrap_or_else(|| self.selected.min(all.len().saturating_sub(1)))
    }

    fn choose(&mut self, row: usize) {
        self.chosen = self.listed().get(row).map(|agent| agent.id.clone());
        self.selected = row;
        self.card_offset = ScrollOffset::default();
    }

    fn call(&mut self, purpose: Purpose) -> ScreenRequest {
        let (tool, params) = match &purpose {
            Purpose::List => ("identity_discover_agents", json!({ "limit": LISTED })),
            Purpose::Search(words) => ("identity_discover_agents", json!({ "query": words, "limit": LISTED })),
            Purpose::Profile(id) => {
                ("identity_get_agent_profile", json!({ "agent_id": id.as_str(), "include_feedback": true }))
            }
            Purpose::Trust(id) => ("identity_evaluate_agent_trust", json!({ "agent_id": id.as_str() })),
            Purpose::Tier(id) => ("identity_get_tier", json!({ "agent_id": id.as_str() })),
        };
        self.sent = self.sent.wrapping_add(1);
        self.running.insert(self.sent, purpose);
        ScreenRequest::Send(Box::new(SessionCommand::Call {
            ticket: ticket(ScreenId::Agents, self.sent),
            tool: tool.to_owned(),
            params,
            dry_run: true,
            idempotency_key: None,
            unasked: false,
        }))
    }

    /// Reads the selected agent's profile, trust and tier.
    fn read_selected(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let all = self.listed();
        let Some(id) = all.get(self.row(&all)).map(|agent| agent.id.clone()) else {
            // Nothing is listed: perhaps the registries can be read now.
            self.asked_at = None;
            return self.read_list(known);
        };
        self.chosen = Some(id.clone());
        if self.running.values().any(|purpose| *purpose == Purpose::Profile(id.clone())) {
            return Vec::new();
        }
        [Purpose::Profile(id.clone()), Purpose::Trust(id.clone()), Purpose::Tier(id)]
            .into_iter()
            .map(|purpose| self.call(purpose))
            .collect()
    }

    /// True if the list was requested lately.
    fn is_fresh(&self, known: &ScreenContext<'_>) -> bool {
        self.asked_at.is_some_and(|at| known.machine_millis < at.saturating_add(OLD_MILLIS))
    }

    fn read_list(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        if !known.may_read() || self.is_fresh(known) {
            return Vec::new();
        }
        self.asked_at = Some(known.machine_millis);
        vec![self.call(Purpose::List)]
    }

    fn receive(&mut self, purpose: &Purpose, response: &ToolResponse) {
        let Some(data) = response.data.as_ref().filter(|_| response.error.is_none()) else {
            let words = response.error.as_ref().map_or("no answer", |error| error.message());
            self.fault = Some(SafeText::clean(words, 300));
            // Enter sends it again.
            self.search.take_if(|search| *purpose == Purpose::Search(search.words.clone()));
            return;
        };
        self.fault = None;
        match purpose {
            Purpose::List => {
                let entries = data.get("agents").and_then(Value::as_array).into_iter().flatten();
                let mut read: Vec<Agent> = entries.filter_map(Agent::from_summary).collect();
                keep_cards(self.agents.take().into_iter().flatten(), &mut read);
                // Own agents come first; the others stay in their order.
                read.sort_by_key(|agent| !agent.is_own);
                self.total = data.get("total").and_then(Value::as_u64).unwrap_or_default();
                self.agents = Some(read);
            }
            Purpose::Search(words) => {
                let entries = data.get("agents").and_then(Value::as_array).into_iter().flatten();
                let mut read: Vec<Agent> = entries.filter_map(Agent::from_summary).collect();
                if let Some(search) = self.search.as_mut().filter(|search| search.words == *words) {
                    keep_cards(search.agents.drain(..), &mut read);
                    (search.agents, search.is_read) = (read, true);
                }
            }
            Purpose::Profile(id) => self.update(id, |agent| agent.profile = AgentProfile::from_data(data)),
            Purpose::Trust(id) => self.update(id, |agent| agent.trust = AgentTrust::from_data(data)),
            Purpose::Tier(id) => self.update(id, |agent| agent.tier = AgentTier::from_data(data)),
        }
    }

    fn update(&mut self, id: &SafeText, change: impl Fn(&mut Agent)) {
        let found = self.search.iter_mut().flat_map(|search| &mut search.agents);
        for agent in self.agents.iter_mut().flatten().chain(found).filter(|agent| agent.id == *id) {
            change(agent);
        }
    }

    fn plan(&self, area: Rect, count: usize) -> (Rect, Rect) {
        if self.zoomed {
            return (Rect { width: 0, height: 0, ..area }, area);
        }
        if area.width >= SIDE_BY_SIDE {
            return list::beside(area, (area.width * 2 / 5).clamp(44, 60));
        }
        let lines = u16::try_from(count).unwrap_or(u16::MAX).saturating_add(2);
        list::stacked(area, lines.clamp(3, (area.height * 2 / 5).max(3)))
    }

    /// Explanation where no agent is listed.
    fn empty_words(&self, known: &ScreenContext<'_>) -> String {
        match (&self.agents, &self.fault) {
            _ if known.replayed() => "A recording has no registries to read.".to_owned(),
            (None, None) if known.watch_only => {
                "A read-only console calls no tools, so it reads no registries.".to_owned()
            }
            (None, Some(fault)) => format!("The registries could not be read: {fault}"),
            (None, None) => "Reading the registries…".to_owned(),
            (Some(agents), _) if agents.is_empty() => "No agent is registered on the configured chains.".to_owned(),
            (Some(_), Some(fault)) => format!("The registries could not be searched: {fault}"),
            (Some(agents), None) => match self.searched() {
                Some(search) if search.is_read => "No registered agent matches these words.".to_owned(),
                Some(_) => "Searching all registered agents…".to_owned(),
                None if self.is_cut() && known.may_read() => {
                    format!("None of the {} last active matches. Enter searches all {}.", agents.len(), self.total)
                }
                None => "No agent matches the filter.".to_owned(),
            },
        }
    }

    /// True if there are more agents than the list has.
    fn is_cut(&self) -> bool {
        let read = self.agents.as_ref().map_or(0, Vec::len);
        u64::try_from(read).is_ok_and(|read| read < self.total)
    }
}

/// Keeps what was read of each agent when its entry is read again.
fn keep_cards(before: impl Iterator<Item = Agent>, read: &mut [Agent]) {
    let mut known: BTreeMap<SafeText, Agent> = before.map(|agent| (agent.id.clone(), agent)).collect();
    for agent in read {
        if let Some(before) = known.remove(&agent.id) {
            (agent.profile, agent.trust, agent.tier) = (before.profile, before.trust, before.tier);
        }
    }
}

/// Cells of a row: id, name, rating, protocols.
fn cells(agent: &Agent) -> [StyledText; 4] {
    let name = agent.name.as_ref().map_or("without a name", SafeText::as_str);
    let role = match (agent.is_own, agent.active) {
        (true, _) => Role::TextStrong,
        (false, true) => Role::Text,
        (false, false) => Role::TextDim,
    };
    let name =
        if agent.is_own { format!("{} (yours)", fit(name, LONGEST_NAME.saturating_sub(8))) } else { name.to_owned() };
    let rating = match agent.ratings {
        0 => ("–".to_owned(), Role::TextDim),
        count => (format!("{} ★ ({count})", agent.average), Role::Text),
    };
    let protocols: Vec<&str> = agent.protocols.iter().map(SafeText::as_str).collect();
    [
        (agent.id.to_string(), Role::TextDim),
        (fit(&name, LONGEST_NAME).into_owned(), role),
        rating,
        (protocols.join(" "), Role::TextDim),
    ]
}

/// Panel of the list.
struct ListPanel<'a> {
    theme: &'a Theme,
    screen: &'a Agents,
    known: &'a ScreenContext<'a>,
}

impl Widget for ListPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let all = screen.listed();
        let more = if screen.is_cut() { format!(" of {}", screen.total) } else { String::new() };
        let inner = list::framed(painter, area, true, &format!("Agents {}{more}", all.len()), &screen.filter.label());
        if all.is_empty() {
            let words = Row::new(screen.empty_words(known), Role::TextDim);
            rows(painter, inner, &wrapped(vec![words], usize::from(inner.width).max(1)));
            return;
        }
        let selected = screen.row(&all);
        let cells: Vec<[StyledText; 4]> = all.iter().map(|agent| cells(agent)).collect();
        list::draw_cells(painter, (area, inner), &cells, selected);
    }
}

impl ScreenView for Agents {
    fn id(&self) -> ScreenId {
        ScreenId::Agents
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        let all = self.listed();
        let (list, card) = self.plan(area, all.len());
        painter.render(ListPanel { theme: painter.theme, screen: self, known }, list);
        match all.get(self.row(&all)) {
            Some(agent) => {
                let below = match (&self.fault, &agent.profile) {
                    (Some(fault), _) => format!("✕ {fault}"),
                    (None, None) => "Enter reads profile, trust, tier and feedback".to_owned(),
                    (None, Some(_)) => "y copies the id · PgDn PgUp scroll".to_owned(),
                };
                painter.render(IdentityCard::new(agent, painter.theme).below(&below).scrolled(&self.card_offset), card);
            }
            None => {
                list::framed(painter, card, false, "Agent", &[]);
            }
        }
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        if matches!(action, Action::HalfPageDown | Action::HalfPageUp) {
            let rows = self.plan(area, self.listed().len()).1.height;
            self.card_offset.scroll(action, usize::from(rows.saturating_sub(2)));
            return Some(Vec::new());
        }
        let all = self.listed();
        let (at, last) = (self.row(&all), all.len().saturating_sub(1));
        let page = usize::from(self.plan(area, all.len()).0.height.saturating_sub(2)).max(2);
        if let Some(to) = list::moved(action, at, last, page) {
            self.choose(to);
            return Some(Vec::new());
        }
        match action {
            Action::Open => return Some(self.read_selected(known)),
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::Back if self.zoomed => self.zoomed = false,
            Action::Back if self.filter.stands() => self.filter.clear(),
            Action::Filter => self.filter.open(),
            Action::Copy => return Some(vec![ScreenRequest::Copy(all.get(at)?.id.to_string())]),
            _ => return None,
        }
        Some(Vec::new())
    }

    fn filter(&self) -> Option<&Filter> {
        Some(&self.filter)
    }

    fn filter_mut(&mut self) -> Option<&mut Filter> {
        Some(&mut self.filter)
    }

    fn type_key(&mut self, key: Key, known: &ScreenContext<'_>, requests: &mut Vec<ScreenRequest>) -> bool {
        let was_typing = self.filter.typing();
        let taken = self.filter.key(key);
        // Enter ends editing with the words in place.
        if was_typing && !self.filter.typing() {
            requests.extend(self.search_all(known));
        }
        taken
    }

    fn click_page(&mut self, at: Position, _known: &ScreenContext<'_>, area: Rect) -> Vec<ScreenRequest> {
        let all = self.listed();
        let (list, _) = self.plan(area, all.len());
        let inside = list.inner(Margin::new(2, 1));
        let first = list::first_shown(self.row(&all), usize::from(inside.height));
        if let Some(row) = list::row_at(at, inside, first, all.len()) {
            self.choose(row);
        }
        Vec::new()
    }

    fn wheel(&mut self, _at: Position, down: bool, _known: &ScreenContext<'_>, _area: Rect) {
        let all = self.listed();
        let (at, last) = (self.row(&all), all.len().saturating_sub(1));
        self.choose(if down { (at + 1).min(last) } else { at.saturating_sub(1) });
    }

    fn shown(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        self.read_list(known)
    }

    fn tick(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        if self.is_fresh(known) && self.running.values().any(|purpose| *purpose == Purpose::List) {
            return Vec::new();
        }
        self.read_list(known)
    }

    fn receive_reply(&mut self, count: u32, reply: CommandReply, _known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        match reply {
            // The activity lists only what the operator or the Golem asked for.
            CommandReply::Began(call) => return vec![ScreenRequest::SetAside(call)],
            CommandReply::Reply(response) => {
                if let Some(purpose) = self.running.remove(&count) {
                    self.receive(&purpose, &response);
                }
            }
            CommandReply::Found(_) => {}
        }
        Vec::new()
    }
}
