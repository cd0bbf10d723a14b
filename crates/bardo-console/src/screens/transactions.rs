//! Screen 9: unconfirmed transactions and open orders, with the prospect of each, and what can be done about it. It
//! signs nothing: speeding up and cancelling are calls of tools, which ask in the full decision dialog.

use alloy_primitives::B256;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;
use serde_json::json;

use super::{CommandReply, ScreenContext, ScreenId, ScreenRequest, ScreenView, gas, list, ticket};
use crate::format::{age, gwei, wait};
use crate::keymap::Action;
use crate::painter::{Painter, StyledText};
use crate::state::call_details::transaction_link;
use crate::theme::{Role, Theme};
use crate::widgets::figure::{amount, paid};
use crate::widgets::paint::{Row, rows, wrapped};
use bardo_base::display::tool_word;
use bardo_base::format::{dollars, short_hash, utc};
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_session::handle::{
    ChainTransactions, Inclusion, NonceGap, OpenOrderRow, SessionCommand, TransactionRow, TransactionsState,
};

/// Width from which list and details stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 110;
/// Least height of the details, in lines.
const LEAST_DETAILS: u16 = 9;
/// Explanation shown while nothing is under way.
const NOTHING: &[&str] = &[
    "Nothing is under way.",
    "",
    "A signed transaction is listed here until enough blocks lie on it, an order until nobody can fill it. If one waits \
     too long, you can raise its fees, cancel it, or send it again.",
];

/// Row of the list.
#[derive(Debug, Clone, Copy)]
enum UnderWay<'a> {
    Transaction(&'a ChainTransactions, &'a TransactionRow),
    Order(&'a OpenOrderRow),
}

/// Amounts of an order.
struct Traded {
    /// Amount that it sells, with its token.
    sold: String,
    /// Token that it buys.
    bought: SafeText,
    /// Minimum amount that it buys.
    least: String,
    /// Place of delivery, where it is another chain.
    on: String,
}

/// Row that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChosenRow {
    hash: B256,
    /// Chain and nonce of a transaction that had not been replaced: if it is, the selection goes on to the one that
    /// replaces it.
    waits_at: Option<(u64, u64)>,
}

/// State of screen 9.
#[derive(Debug, Default)]
pub struct Transactions {
    /// Selected row, used if the chosen one is gone.
    selected: usize,
    chosen: Option<ChosenRow>,
    zoomed: bool,
    sent: u32,
    /// Call whose decision is opened as soon as it is asked for.
    opens: Option<CallId>,
}

/// Sentence and colour of a prospect.
fn prospect(inclusion: &Inclusion) -> (&'static str, Role) {
    match inclusion {
        Inclusion::Next => ("next block", Role::StateGood),
        Inclusion::BelowBaseFee => ("waits for the fee", Role::StateBad),
        Inclusion::AfterNonce { .. } => ("after an earlier one", Role::StateCare),
        Inclusion::Unacknowledged => ("no endpoint has it", Role::StateCare),
        Inclusion::Forgotten => ("dropped by endpoints", Role::StateBad),
        Inclusion::Replaced => ("replaced", Role::TextDim),
        Inclusion::InBlock { .. } => ("in a block", Role::StateGood),
        Inclusion::NonceUsed => ("nonce used", Role::StateBad),
        Inclusion::Unknown => ("unknown", Role::StateCare),
    }
}

/// Meaning of a prospect and possible remedies, in sentences.
fn explained(row: &TransactionRow, base_fee: Option<u64>) -> String {
    let base = base_fee.map_or_else(|| "unknown".to_owned(), |fee| gwei(fee.into()));
    match row.inclusion {
        Inclusion::Next => "Its fees suffice for the next block, and its nonce is next.".to_owned(),
        Inclusion::BelowBaseFee => format!(
            "Its fee cap of {} is below the base fee of {base}: no block includes it until the base fee falls. Within \
             the bound that was approved, it is replaced by itself; beyond that, speed it up or cancel it.",
            gwei(row.max_fee.into())
        ),
        Inclusion::AfterNonce { next } => format!(
            "Nonce {next} comes first. Higher fees do not help before that one is included; it can be cancelled."
        ),
        Inclusion::Unacknowledged => {
            "No endpoint has acknowledged it. It is sent again by itself; b sends it at once.".to_owned()
        }
        Inclusion::Forgotten => {
            "The endpoints had it and no longer do, as nodes drop cheap transactions. It can still be included if one \
             kept it. b sends the same bytes again."
                .to_owned()
        }
        Inclusion::Replaced => {
            "A later transaction with the same nonce has taken its place. Either can be included, never both."
                .to_owned()
        }
        Inclusion::InBlock { block } => format!("Block #{block} has it; more blocks must lie on it."),
        Inclusion::NonceUsed => "A transaction with its nonce is in a block; the receipts will show which.".to_owned(),
        Inclusion::Unknown => "The chain could not be read.".to_owned(),
    }
}

/// Sentence for a gap in the nonces.
fn gap_words(chain: &ChainTransactions, gap: &NonceGap) -> String {
    let on = &chain.chain;
    match gap {
        NonceGap::Missing { from, to } if from == to => {
            format!("{on}: no transaction has nonce {from}; later ones wait for it. `bardo reconcile` fills it.")
        }
        NonceGap::Missing { from, to } => {
            format!("{on}: no transaction has nonces {from} to {to}; later ones wait. `bardo reconcile` fills them.")
        }
        NonceGap::Foreign { ledger, chain } => format!(
            "{on}: the chain is at nonce {chain}, this ledger at {ledger}: something else signs with this key. Nothing \
             is signed until `bardo reconcile`."
        ),
    }
}

impl<'a> UnderWay<'a> {
    fn hash(self) -> B256 {
        match self {
            Self::Transaction(_, row) => row.hash,
            Self::Order(order) => order.hash,
        }
    }

    fn chosen(self) -> ChosenRow {
        let waits_at = match self {
            Self::Transaction(chain, row) if row.inclusion != Inclusion::Replaced => Some((chain.chain_id, row.nonce)),
            Self::Transaction(..) | Self::Order(_) => None,
        };
        ChosenRow { hash: self.hash(), waits_at }
    }

    /// Display name of the action.
    fn action(self) -> String {
        match self {
            Self::Transaction(_, row) if row.cancels => "Cancellation".to_owned(),
            Self::Transaction(_, row) => {
                row.tool.as_ref().map_or_else(|| "Transaction".to_owned(), |tool| tool_word(tool.as_str()))
            }
            Self::Order(order) if order.bridge => "Bridge order".to_owned(),
            Self::Order(order) if order.limit => "Limit order".to_owned(),
            Self::Order(_) => "Auction".to_owned(),
        }
    }

    /// Amounts of an order, as its own events report them; `None` for a transaction and before the first event.
    fn traded(self, known: &ScreenContext<'_>) -> Option<Traded> {
        let Self::Order(row) = self else { return None };
        if row.bridge {
            let order = known.feed.intents.get(row.hash)?;
            return Some(Traded {
                sold: format!("{} {}", paid(&order.amount_in), order.token_in.symbol),
                bought: order.token_out.symbol.clone(),
                least: amount(&order.min_out),
                on: format!(" on {}", order.destination_chain),
            });
        }
        let order = known.feed.order(row.hash)?;
        Some(Traded {
            sold: format!("{} {}", paid(&order.amount_in), order.token_in.symbol),
            bought: order.token_out.symbol.clone(),
            least: amount(&order.end_amount),
            on: String::new(),
        })
    }

    /// Parts of the row, the most important first.
    fn cells(self, known: &ScreenContext<'_>) -> [StyledText; 7] {
        let since = |at: u64| age(Transactions::now(known).saturating_sub(at) / 1_000);
        let dim = |text: String| (text, Role::TextDim);
        match self {
            Self::Transaction(chain, row) => {
                let (words, role) = prospect(&row.inclusion);
                let by = row.golem_id.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
                [
                    (format!("#{}", row.nonce), Role::Text),
                    (words.to_owned(), role),
                    (self.action(), Role::Text),
                    dim(since(row.signed_at)),
                    dim(chain.chain.to_string()),
                    dim(by),
                    dim(gwei(row.max_fee.into())),
                ]
            }
            Self::Order(order) => [
                ("order".to_owned(), Role::Text),
                (order.status.to_string(), Role::StateGood),
                (
                    self.traded(known).map_or_else(
                        || self.action(),
                        |traded| format!("{} {} → {}{}", self.action(), traded.sold, traded.bought, traded.on),
                    ),
                    Role::Text,
                ),
                dim(since(order.signed_at)),
                dim(order.chain.to_string()),
                dim(order.golem_id.to_string()),
                dim(String::new()),
            ],
        }
    }

    /// Text of the details.
    fn details(self, known: &ScreenContext<'_>) -> Vec<Row> {
        let now = Transactions::now(known);
        let field = |name: &str, value: String| Row::new(format!("{name:<10}"), Role::TextDim).then(value, Role::Text);
        let mut all = Vec::new();
        match self {
            Self::Transaction(chain, row) => {
                let (words, role) = prospect(&row.inclusion);
                all.push(Row::new(format!("{}: {words}", self.action()), role));
                all.push(Row::new(explained(row, chain.base_fee), Role::Text));
                all.push(keys(row.actionable, known.watch_only));
                all.push(Row::new("", Role::Text));
                all.push(field("hash", row.hash.to_string()));
                if let Some(to) = row.to {
                    let own = known.snapshot.and_then(|snapshot| snapshot.name_of(to));
                    let name = own.or(row.to_label.as_ref());
                    all.push(field("to", name.map_or_else(|| to.to_string(), |name| format!("{to}  {name}"))));
                }
                all.push(field("nonce", format!("{} on {}", row.nonce, chain.chain)));
                let base = chain.base_fee.map_or_else(|| "unknown".to_owned(), |fee| gwei(fee.into()));
                all.push(field(
                    "fee",
                    format!("cap {}, tip {}; base fee now {base}", gwei(row.max_fee.into()), gwei(row.tip.into())),
                ));
                all.push(field("waits", waiting(row)));
                let times = if row.sends == 1 { "once".to_owned() } else { format!("{} times", row.sends) };
                let by = row.golem_id.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
                let route = if row.private { "the private relay" } else { "the endpoints" };
                all.push(field("signed", format!("{} for {by}; sent {times} to {route}", utc(row.signed_at))));
                if let Some(other) = row.replaces {
                    all.push(field("rival", format!("{} has the same nonce; only one is included", short_hash(other))));
                }
                if let Some(note) = &row.note {
                    all.push(field("endpoint", note.to_string()));
                }
            }
            Self::Order(order) => {
                all.push(Row::new(format!("{}: {}", self.action(), order.status), Role::StateGood));
                let left = order.usable_until.saturating_sub(now / 1_000);
                let left = if left == 0 { "its time is over; the chain decides".to_owned() } else { wait(left) };
                if let Some(Traded { sold, bought, least, on }) = self.traded(known) {
                    all.push(field("sells", sold));
                    all.push(field("buys", format!("at least {least} {bought}{on}")));
                }
                all.push(field("order", order.hash.to_string()));
                all.push(field("chain", order.chain.to_string()));
                all.push(field("fillable", left));
                let reserved = order.reserved.map_or_else(|| "unknown".to_owned(), dollars);
                all.push(field("reserved", format!("{reserved} until it ends")));
                all.push(field("signed", format!("{} for {}", utc(order.signed_at), order.golem_id)));
                all.push(Row::new("", Role::Text));
                all.push(match known.watch_only {
                    true => Row::new("This console is read-only.", Role::TextDim),
                    false => Row::new("x", Role::Key)
                        .then(" cancel on chain   ", Role::TextDim)
                        .then("y", Role::Key)
                        .then(" copy", Role::TextDim),
                });
            }
        }
        all
    }
}

/// Plan that waits for a transaction, in words.
fn waiting(row: &TransactionRow) -> String {
    match &row.plan {
        Some(plan) => {
            let reserved = plan.reserved.map_or_else(String::new, |usd| format!("; {} reserved", dollars(usd)));
            format!("step {} of {} of permit {}{reserved}", plan.leg, plan.of, plan.permit_id)
        }
        None if row.inclusion == Inclusion::Replaced => "its plan waits for the later one".to_owned(),
        None => "no plan of this ledger".to_owned(),
    }
}

/// Keys that act on the selected transaction.
fn keys(possible: bool, watch_only: bool) -> Row {
    if watch_only {
        return Row::new("This console is read-only.", Role::TextDim);
    }
    let key =
        |row: Row, letter: &str, words: &str| row.then(letter, Role::Key).then(format!(" {words}   "), Role::TextDim);
    let row = Row::new("", Role::Text);
    if !possible {
        return key(row, "y", "copy").then("nothing else can be done about it", Role::TextDim);
    }
    let row = key(row, "u", "speed up");
    let row = key(row, "x", "cancel");
    let row = key(row, "b", "send again");
    key(row, "y", "copy")
}

impl Transactions {
    fn state<'k>(known: &ScreenContext<'k>) -> Option<&'k TransactionsState> {
        known.snapshot.and_then(|snapshot| snapshot.transactions.as_deref())
    }

    /// Time that ages are counted to, in milliseconds since the Unix epoch: that of the reading, if nothing may move.
    fn now(known: &ScreenContext<'_>) -> u64 {
        match Self::state(known) {
            Some(state) if !known.motion => state.at,
            Some(_) | None => known.now_millis,
        }
    }

    fn entries<'k>(known: &ScreenContext<'k>) -> Vec<UnderWay<'k>> {
        let Some(state) = Self::state(known) else { return Vec::new() };
        let transactions =
            state.chains.iter().flat_map(|chain| chain.rows.iter().map(move |row| UnderWay::Transaction(chain, row)));
        transactions.chain(state.orders.iter().map(UnderWay::Order)).collect()
    }

    fn row(&self, all: &[UnderWay<'_>]) -> usize {
        let chosen = self.chosen.and_then(|chosen| {
            let same = all.iter().position(|entry| entry.hash() == chosen.hash);
            let later = || {
                let at = chosen.waits_at?;
                all.iter().position(|entry| entry.chosen().waits_at == Some(at))
            };
            let still = same.filter(|row| all.get(*row).is_some_and(|entry| entry.chosen() == chosen));
            still.or_else(later).or(same)
        });
        chosen.unwrap_or_else(|| self.selected.min(all.len().saturating_sub(1)))
    }

    fn selected<'k>(&self, known: &ScreenContext<'k>) -> Option<UnderWay<'k>> {
        let all = Self::entries(known);
        all.get(self.row(&all)).copied()
    }

    fn choose(&mut self, row: usize, known: &ScreenContext<'_>) {
        self.chosen = Self::entries(known).get(row).map(|entry| entry.chosen());
        self.selected = row;
    }

    /// Lines above the list: faults and gaps.
    fn warnings(known: &ScreenContext<'_>) -> Vec<Row> {
        let Some(state) = Self::state(known) else { return Vec::new() };
        let mut all = Vec::new();
        for chain in &state.chains {
            if let Some(fault) = &chain.fault {
                all.push(Row::new(format!("! {}: {fault}", chain.chain), Role::StateBad));
            }
            all.extend(chain.gaps.iter().map(|gap| Row::new(format!("! {}", gap_words(chain, gap)), Role::StateBad)));
        }
        all.extend(state.fault.iter().map(|fault| Row::new(format!("! orders: {fault}"), Role::StateBad)));
        all
    }

    fn plan(&self, known: &ScreenContext<'_>, count: usize, area: Rect) -> (Rect, Rect) {
        let none = Rect { width: 0, height: 0, ..area };
        if count == 0 {
            // The explanation needs the room, and there is nothing to describe.
            return (area, none);
        }
        if self.zoomed {
            return (none, area);
        }
        if area.width >= SIDE_BY_SIDE {
            let details = 56.max(area.width * 2 / 5).min(80);
            return list::beside(area, area.width + 1 - details);
        }
        let inside = usize::from(area.width.saturating_sub(4)).max(1);
        let lines = wrapped(Self::warnings(known), inside).len() + count.max(1) + 2;
        let most = area.height.saturating_sub(LEAST_DETAILS).max(area.height / 2).max(3);
        list::stacked(area, u16::try_from(lines).unwrap_or(u16::MAX).min(most))
    }

    /// Calls a tool for the selected row; its decision opens by itself.
    fn call(&mut self, tool: &'static str, params: serde_json::Value) -> Vec<ScreenRequest> {
        vec![ScreenRequest::Send(Box::new(self.command(tool, params)))]
    }

    fn command(&mut self, tool: &'static str, params: serde_json::Value) -> SessionCommand {
        self.sent = self.sent.wrapping_add(1);
        SessionCommand::Call {
            ticket: ticket(ScreenId::Transactions, self.sent),
            tool: tool.to_owned(),
            params,
            dry_run: false,
            idempotency_key: None,
            unasked: false,
        }
    }

    /// Carries out an action on the selected row.
    fn act_on_selected(&mut self, action: Action, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let notice = |words: &str| vec![ScreenRequest::Notice(SafeText::clean(words, 200))];
        if known.watch_only {
            return notice("this console is read-only: it cannot change anything");
        }
        let Some(entry) = self.selected(known) else { return notice("nothing is selected") };
        self.chosen = Some(entry.chosen());
        let hash = entry.hash().to_string();
        match (entry, action) {
            // A cancellation of one's own order needs no decision of the policy's, and still costs gas.
            (UnderWay::Order(order), Action::CancelSelected) => {
                let kind = if order.bridge { "Bridge order" } else { "Order" };
                let cost = gas::cancellation_cost(known, gas::chain_named(known, order.chain.as_str()));
                let title = format!(
                    "{kind} {} on {}. The cancellation is a transaction and costs gas: {cost}. A filler may be first.",
                    short_hash(order.hash),
                    order.chain
                );
                let command = self.command("uniswapx_cancel_order", json!({ "order_hash": hash }));
                let title = SafeText::clean(&title, 240);
                vec![ScreenRequest::Confirm { asks: "Cancel this order on chain?", title, command: Box::new(command) }]
            }
            (UnderWay::Order(_), _) => notice("an order has no fees: x cancels it on chain"),
            (UnderWay::Transaction(_, row), _) if !row.actionable => {
                notice("nothing can be done about it: see its details")
            }
            (UnderWay::Transaction(..), Action::SpeedUp) => {
                self.call("speed_up_transaction", json!({ "transaction": hash }))
            }
            (UnderWay::Transaction(..), Action::CancelSelected) => {
                self.call("cancel_transaction", json!({ "transaction": hash }))
            }
            (UnderWay::Transaction(_, row), Action::Rebroadcast) => {
                vec![ScreenRequest::Send(Box::new(SessionCommand::Rebroadcast { transaction: row.hash }))]
            }
            (UnderWay::Transaction(..), _) => Vec::new(),
        }
    }

    /// Opens the decision of the call that this screen made, once it is asked for.
    fn open_own(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let Some(call) = self.opens else { return Vec::new() };
        let asked = known.questions.iter().find(|question| question.call_id == Some(call));
        let Some(question) = asked else { return Vec::new() };
        self.opens = None;
        vec![ScreenRequest::OpenQuestion(question.number)]
    }
}

/// Panel of the list, with gaps and faults above it.
struct ListPanel<'a> {
    theme: &'a Theme,
    screen: &'a Transactions,
    known: &'a ScreenContext<'a>,
}

impl Widget for ListPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let all = Transactions::entries(known);
        let selected = screen.row(&all);
        let transactions = all.iter().filter(|entry| matches!(entry, UnderWay::Transaction(..))).count();
        let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let orders = all.len() - transactions;
        let title = format!("Under way  {} · {}", count(transactions, "transaction"), count(orders, "order"));
        let inner = list::framed(painter, area, true, &title, &[]);
        if inner.is_empty() {
            return;
        }
        let warnings = wrapped(Transactions::warnings(known), inner.width.into());
        let above = u16::try_from(warnings.len()).unwrap_or(u16::MAX).min(inner.height.saturating_sub(1));
        rows(painter, Rect { height: above, ..inner }, &warnings);
        let inner = Rect { y: inner.y + above, height: inner.height - above, ..inner };
        if all.is_empty() {
            let words = match Transactions::state(known) {
                Some(_) => NOTHING,
                None if known.replayed() => &["A recording has no transactions under way."][..],
                None => &["Reading the ledger and the chains…"][..],
            };
            let words = words.iter().map(|words| Row::new(*words, Role::TextDim)).collect();
            rows(painter, inner, &wrapped(words, inner.width.into()));
            return;
        }
        let cells: Vec<[StyledText; 7]> = all.iter().map(|entry| entry.cells(known)).collect();
        list::draw_cells(painter, (area, inner), &cells, selected);
    }
}

impl ScreenView for Transactions {
    fn id(&self) -> ScreenId {
        ScreenId::Transactions
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        let all = Self::entries(known);
        let (list, details) = self.plan(known, all.len(), area);
        painter.render(ListPanel { theme: painter.theme, screen: self, known }, list);
        let inner = list::framed(painter, details, false, "Details", &[]);
        if let Some(entry) = all.get(self.row(&all)) {
            rows(painter, inner, &wrapped(entry.details(known), usize::from(inner.width).max(1)));
        }
    }

    fn open_hint(&self, known: &ScreenContext<'_>) -> Option<&'static str> {
        match (self.zoomed, Self::entries(known).is_empty()) {
            (true, _) => Some("all rows"),
            (false, true) => None,
            (false, false) => Some("open"),
        }
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        let all = Self::entries(known);
        let (at, last) = (self.row(&all), all.len().saturating_sub(1));
        let page = usize::from(self.plan(known, all.len(), area).0.height.saturating_sub(2)).max(2);
        if let Some(to) = list::moved(action, at, last, page) {
            self.choose(to, known);
            return Some(Vec::new());
        }
        match action {
            Action::Open | Action::Zoom => self.zoomed = !self.zoomed,
            Action::Back if self.zoomed => self.zoomed = false,
            Action::SpeedUp | Action::CancelSelected | Action::Rebroadcast => {
                return Some(self.act_on_selected(action, known));
            }
            Action::Copy => return Some(vec![ScreenRequest::Copy(self.selected(known)?.hash().to_string())]),
            Action::Explorer => {
                let UnderWay::Transaction(chain, row) = self.selected(known)? else { return None };
                let link = transaction_link(chain.chain_id, row.hash, known.page);
                let notice = ScreenRequest::Notice(SafeText::clean(&link, 200));
                return Some(vec![ScreenRequest::Copy(link), notice]);
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn click_page(&mut self, at: Position, known: &ScreenContext<'_>, area: Rect) -> Vec<ScreenRequest> {
        let all = Self::entries(known);
        let (list, _) = self.plan(known, all.len(), area);
        if list.contains(at) && list.height > 2 {
            let inside = list.inner(ratatui::layout::Margin::new(2, 1));
            let lines = wrapped(Self::warnings(known), usize::from(inside.width).max(1)).len();
            let above = u16::try_from(lines).unwrap_or(u16::MAX).min(inside.height.saturating_sub(1));
            let inside = Rect { y: inside.y + above, height: inside.height - above, ..inside };
            let first = list::first_shown(self.row(&all), usize::from(inside.height));
            if let Some(row) = list::row_at(at, inside, first, all.len()) {
                self.choose(row, known);
            }
        }
        Vec::new()
    }

    fn wheel(&mut self, _at: Position, down: bool, known: &ScreenContext<'_>, _area: Rect) {
        let all = Self::entries(known);
        let (at, last) = (self.row(&all), all.len().saturating_sub(1));
        self.choose(if down { (at + 1).min(last) } else { at.saturating_sub(1) }, known);
    }

    fn receive_reply(&mut self, _count: u32, reply: CommandReply, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        if let CommandReply::Began(call) = reply {
            self.opens = Some(call);
            return self.open_own(known);
        }
        self.opens = None;
        super::said(&reply)
    }

    fn tick(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        self.open_own(known)
    }
}
