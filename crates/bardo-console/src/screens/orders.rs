//! Screen 3: auctions, limit orders, bridge orders, deposits with a bridge's pool and schedules of swaps, open and past, each
//! with a card; cancellation and refund.

use std::fmt;

use alloy_primitives::B256;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;
use serde_json::{Map, Value, json};

use super::filter::{Filter, since};
use super::screen_dialog::{DialogOption, ScreenDialog, ScreenDialogView};
use super::{CommandReply, ScreenContext, ScreenId, ScreenRequest, ScreenView, call, gas, list};
use crate::format::grouped;
use crate::keymap::{Action, Key};
use crate::painter::{Painter, line};
use crate::state::call_details::transaction_link;
use crate::theme::{Role, Theme};
use crate::widgets::bridge::{BridgeModel, is_over, is_voidable, refund_ahead, refund_words};
use crate::widgets::deposit::DepositModel;
use crate::widgets::order::OrderModel;
use crate::widgets::paint::{Row, one_line, rows, wrapped};
use crate::widgets::schedule::ScheduleModel;
use crate::widgets::{self, CardKeys, CardView, CrossChainProgress, DepositCard, Moment, OrderCard, ScheduleCard};
use bardo_base::fabric::{IntentStatus, IntentUpdate, OrderUpdate, TxPlace};
use bardo_base::text::SafeText;
use bardo_session::handle::{DepositRow, ScheduleRow};

/// Width from which list and card stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 110;
/// Maximum number of extra lines for the price curve of a card.
const MOST_TALLER: usize = 12;
/// Explanation shown while there is no order.
const HOW: &[&str] = &[
    "An auction: you sign the amount you pay and the minimum you accept. Fillers bid while the price falls; the filler \
     pays the gas.",
    "",
    "A bridge order: your payment is locked on one chain, and a filler delivers on the other. If nobody delivers, you \
     get a refund.",
    "",
    "A deposit with the bridge Across: a relayer or the pool pays you on the other chain, or the pool pays it back.",
    "",
    "A limit order waits for its price. A schedule swaps a total in slices, each with its own checks and approval.",
    "",
    "You can start all of them on screen 2; the Golem can start them too.",
];

/// Entry of the list, with the time of its last update in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
enum OrderRow<'k> {
    Auction(u64, &'k OrderUpdate),
    Bridge(u64, &'k IntentUpdate),
    Deposit(&'k DepositRow),
    Schedule(&'k ScheduleRow),
}

/// Identity of an entry, however the list is sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OrderKey {
    /// Hash of an order, or id of a bridge order.
    Order(B256),
    /// Transaction of a deposit, and its id.
    Deposit(B256, SafeText),
    /// Id of a schedule.
    Schedule(SafeText),
}

impl fmt::Display for OrderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(hash) => hash.fmt(f),
            Self::Deposit(_, id) | Self::Schedule(id) => id.fmt(f),
        }
    }
}

/// Tool and parameters that a confirmation runs.
type Then = (&'static str, Value);

/// Title, facts and the one option of a confirmation.
type Confirmation = (&'static str, Vec<Row>, DialogOption<Then>);

/// State of screen 3.
#[derive(Debug, Default)]
pub struct Orders {
    /// Selected row, used if the chosen order is gone.
    selected: usize,
    /// Key of the chosen entry. The list is sorted again whenever an order ends, and the selection follows the order.
    chosen: Option<OrderKey>,
    filter: Filter,
    zoomed: bool,
    ask: Option<ScreenDialog>,
    sent: u32,
}

impl OrderRow<'_> {
    /// Time of its signature, or of its last update where that is unknown, in milliseconds since the Unix epoch.
    fn at(&self) -> u64 {
        match self {
            Self::Auction(at, order) => order.signed_at.unwrap_or(*at),
            Self::Bridge(at, intent) => intent.signed_at.unwrap_or(*at),
            Self::Deposit(deposit) => deposit.deposited_at,
            Self::Schedule(schedule) => schedule.created_at,
        }
    }

    fn open(&self) -> bool {
        match self {
            Self::Auction(_, order) => !order.status.is_final(),
            Self::Bridge(_, intent) => !is_over(intent),
            Self::Deposit(deposit) => !deposit.stage.is_final(),
            Self::Schedule(schedule) => schedule.is_active,
        }
    }

    /// Text that the filter searches.
    fn describe(&self) -> String {
        match self {
            Self::Auction(_, order) => format!(
                "{} {} {} {} {} token:{} token:{} status:{}",
                order.kind_word(),
                order.order_hash,
                order.order_type,
                order.token_in.symbol,
                order.token_out.symbol,
                order.token_in.symbol,
                order.token_out.symbol,
                order.status.as_str()
            ),
            Self::Bridge(_, intent) => format!(
                "bridge {} {} {} token:{} token:{} status:{}",
                intent.intent_id,
                intent.source_chain,
                intent.destination_chain,
                intent.token_in.symbol,
                intent.token_out.symbol,
                intent.status.as_str()
            ),
            Self::Deposit(deposit) => format!(
                "deposit across {} {} {} {} {} token:{} token:{} status:{}",
                deposit.id,
                deposit.source_chain,
                deposit.destination_chain,
                deposit.token_in,
                deposit.token_out,
                deposit.token_in,
                deposit.token_out,
                deposit.stage.as_str()
            ),
            Self::Schedule(schedule) => format!(
                "schedule {} {} {} {} token:{} token:{} status:{}",
                schedule.id,
                schedule.chain,
                schedule.token_in,
                schedule.token_out,
                schedule.token_in,
                schedule.token_out,
                schedule.state
            ),
        }
    }

    /// Transaction to show for the entry: the fill or delivery, else the one that ended it, else the one that began it.
    fn settled(&self) -> Option<&TxPlace> {
        match self {
            Self::Auction(_, order) => order.fill.as_ref().map(|fill| &fill.tx).or(order.cancelled_by.as_ref()),
            Self::Bridge(_, intent) => intent
                .delivered
                .as_ref()
                .or(intent.refunded.as_ref())
                .or(intent.repaid.as_ref())
                .or(intent.locked.as_ref()),
            Self::Deposit(deposit) => deposit
                .filled
                .as_ref()
                .or(deposit.refunded.as_ref())
                .or(deposit.slow_fill_asked.as_ref())
                .or(Some(&deposit.deposited)),
            Self::Schedule(_) => None,
        }
    }

    fn key(&self) -> OrderKey {
        match self {
            Self::Auction(_, order) => OrderKey::Order(order.order_hash),
            Self::Bridge(_, intent) => OrderKey::Order(intent.intent_id),
            Self::Deposit(deposit) => OrderKey::Deposit(deposit.deposited.hash, deposit.id.clone()),
            Self::Schedule(schedule) => OrderKey::Schedule(schedule.id.clone()),
        }
    }
}

/// Card model of an entry.
enum OrderCardModel {
    Auction(OrderModel),
    Bridge(BridgeModel),
    Deposit(DepositModel),
    Schedule(ScheduleModel),
}

impl OrderCardModel {
    fn of(entry: OrderRow<'_>) -> Self {
        match entry {
            OrderRow::Auction(at, order) => Self::Auction(OrderModel::known(at, order)),
            OrderRow::Bridge(at, intent) => Self::Bridge(BridgeModel::known(at, intent)),
            OrderRow::Deposit(deposit) => Self::Deposit(DepositModel::of(deposit)),
            OrderRow::Schedule(schedule) => Self::Schedule(ScheduleModel::of(schedule)),
        }
    }

    fn draw(&self, painter: &mut Painter<'_>, area: Rect, now: Moment, keys: CardKeys) {
        match self {
            Self::Auction(model) => painter.render(OrderCard::new(model, painter.theme, now).keys(keys), area),
            Self::Bridge(model) => painter.render(CrossChainProgress::new(model, painter.theme, now).keys(keys), area),
            Self::Deposit(model) => painter.render(DepositCard::new(model, painter.theme, now).keys(keys), area),
            Self::Schedule(model) => painter.render(ScheduleCard::new(model, painter.theme, now).keys(keys), area),
        }
    }

    fn line(&self, now: Moment) -> widgets::paint::CardLine {
        match self {
            Self::Auction(model) => model.line(now),
            Self::Bridge(model) => model.line(now),
            Self::Deposit(model) => model.line(now),
            Self::Schedule(model) => model.line(now),
        }
    }
}

/// Error: the order can be neither cancelled nor refunded now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Unavailable {
    #[error("this order has ended; there is nothing to cancel")]
    OrderOver,
    #[error("this schedule has ended; there is nothing to cancel")]
    ScheduleOver,
    #[error("this build has no tool to cancel schedules")]
    NoScheduleTool,
    #[error("a deposit cannot be cancelled: it is filled, or paid back by itself after its deadline")]
    Deposit,
    #[error("this bridge order has ended; there is nothing to refund")]
    BridgeOver,
    #[error("this build has no tool to cancel orders")]
    NoCancelTool,
    #[error("this build has no tool for bridge refunds")]
    NoRefundTool,
    #[error("a refund is possible only after the deadline, if nobody delivered")]
    NotExpired,
    /// The settler pays back only later; when.
    #[error("the settler still waits for a late proof of delivery: {0}")]
    RefundAhead(String),
}

/// Row of a question with the estimated cost of a cancellation on a chain.
fn gas_row(known: &ScreenContext<'_>, chain_id: Option<u64>) -> Row {
    Row::new("gas   ", Role::TextDim).then(gas::cancellation_cost(known, chain_id), Role::Dialog)
}

/// Confirmation for the end of a schedule.
fn cancels_schedule(schedule: &ScheduleRow, then: Then) -> Confirmation {
    let left = schedule.slices.saturating_sub(schedule.done);
    let facts = vec![
        Row::new(
            format!("Schedule {} {} → {}", grouped(schedule.total.as_str()), schedule.token_in, schedule.token_out),
            Role::Dialog,
        ),
        Row::new(
            format!("{} of {} slices are done, {left} would follow.", schedule.done, schedule.slices),
            Role::Dialog,
        ),
        Row::new("Nothing is signed. A slice that is being swapped ends as it does; none follows it.", Role::Dialog),
    ];
    let way = DialogOption { letter: 'c', words: "cancel it".to_owned(), then };
    ("Cancel this schedule?", facts, way)
}

impl Orders {
    /// Entries that match the filter: open ones first, each group newest first.
    fn entries<'k>(&self, known: &ScreenContext<'k>) -> Vec<OrderRow<'k>> {
        let wanted: Vec<String> = self.filter.describe().collect();
        let auctions = known.feed.orders.iter().map(|(at, order)| OrderRow::Auction(*at, order));
        let bridges = known.feed.intents.iter().map(|(at, intent)| OrderRow::Bridge(*at, intent));
        // The texts are built only if there is a filter.
        let fits = |entry: &OrderRow<'_>| {
            wanted.is_empty() || {
                let words = entry.describe().to_lowercase();
                wanted.iter().all(|word| match word.strip_prefix("since:") {
                    Some(span) => since(span).is_none_or(|span| entry.at() >= known.now_millis.saturating_sub(span)),
                    None => words.contains(word.as_str()),
                })
            }
        };
        let schedules = known.snapshot.and_then(|snapshot| snapshot.schedules.as_deref());
        let schedules = schedules.into_iter().flat_map(|state| state.rows.iter().map(OrderRow::Schedule));
        let deposits = known.snapshot.and_then(|snapshot| snapshot.deposits.as_deref());
        let deposits = deposits.into_iter().flat_map(|state| state.rows.iter().map(OrderRow::Deposit));
        let mut all: Vec<_> = auctions.chain(bridges).chain(deposits).chain(schedules).filter(fits).collect();
        all.sort_by_key(|entry| (!entry.open(), u64::MAX - entry.at()));
        all
    }

    fn selected<'k>(&self, known: &ScreenContext<'k>) -> Option<OrderRow<'k>> {
        let all = self.entries(known);
        all.get(self.row(&all)).copied()
    }

    /// Row of the selected entry.
    fn row(&self, all: &[OrderRow<'_>]) -> usize {
        let chosen = self.chosen.as_ref().and_then(|key| all.iter().position(|entry| entry.key() == *key));
        chosen.unwrap_or_else(|| self.selected.min(all.len().saturating_sub(1)))
    }

    fn choose(&mut self, row: usize, known: &ScreenContext<'_>) {
        self.chosen = self.entries(known).get(row).map(OrderRow::key);
        self.selected = row;
    }

    /// Line above the list about deposits or schedules that could not be read.
    fn warning(known: &ScreenContext<'_>) -> Option<String> {
        let deposits = known.snapshot?.deposits.as_deref().and_then(|state| state.fault.as_ref());
        if let Some(fault) = deposits {
            return Some(format!("! deposits: {fault}"));
        }
        let state = known.snapshot?.schedules.as_deref()?;
        match (&state.fault, state.unreadable) {
            (Some(fault), _) => Some(format!("! schedules: {fault}")),
            (None, 0) => None,
            (None, 1) => Some("! 1 stored schedule cannot be read, and does not run".to_owned()),
            (None, many) => Some(format!("! {many} stored schedules cannot be read, and do not run")),
        }
    }

    /// Area of the rows in the panel of the list.
    fn rows_in(list: Rect, known: &ScreenContext<'_>) -> Rect {
        let above = u16::from(Self::warning(known).is_some());
        Rect {
            x: list.x + 1,
            y: list.y + 1 + above,
            width: list.width.saturating_sub(2),
            height: list.height.saturating_sub(2 + above),
        }
    }

    fn plan(&self, count: usize, area: Rect) -> (Rect, Rect) {
        let none = Rect { width: 0, height: 0, ..area };
        if self.zoomed {
            return (none, area);
        }
        if area.width >= SIDE_BY_SIDE {
            // The card has its own column. On a wide terminal its curve can be longer.
            let card = 60.max(area.width * 2 / 5).min(84);
            return list::beside(area, area.width + 1 - card);
        }
        // A short list leaves its lines to the card.
        let wanted = u16::try_from(count).unwrap_or(u16::MAX).saturating_add(2).max(5);
        list::stacked(area, wanted.min(area.height / 2).min(10))
    }

    /// Confirmation dialog for the action that an entry allows, or the reason why there is none. Tools that this build
    /// does not have are not offered.
    fn question(&self, entry: OrderRow<'_>, known: &ScreenContext<'_>) -> Result<Confirmation, Unavailable> {
        let has = |name: &str| known.ready.and_then(|ready| ready.tools.iter().find(|tool| tool.name.as_str() == name));
        let params = |tool: &str, id: String, chain: String| {
            let mut params = Map::new();
            let schema = has(tool).and_then(|tool| tool.input_schema.get("properties")).and_then(Value::as_object);
            for name in schema.into_iter().flat_map(|schema| schema.keys()) {
                if name.contains("hash") || name.ends_with("_id") && name != "chain_id" {
                    params.insert(name.clone(), Value::from(id.clone()));
                } else if name == "chain" || name == "chain_id" || name == "source_chain" {
                    params.insert(name.clone(), Value::from(chain.clone()));
                }
            }
            Value::Object(params)
        };
        match entry {
            OrderRow::Schedule(schedule) if !schedule.is_active => Err(Unavailable::ScheduleOver),
            OrderRow::Schedule(schedule) => {
                let tool = "cancel_schedule";
                has(tool).ok_or(Unavailable::NoScheduleTool)?;
                Ok(cancels_schedule(schedule, (tool, json!({ "schedule_id": schedule.id.as_str() }))))
            }
            OrderRow::Deposit(_) => Err(Unavailable::Deposit),
            OrderRow::Auction(_, order) => {
                if order.status.is_final() {
                    return Err(Unavailable::OrderOver);
                }
                // An order that no service confirmed may still have reached one, so its signature is invalidated on
                // chain.
                let tool = "uniswapx_cancel_order";
                has(tool).ok_or(Unavailable::NoCancelTool)?;
                let hash = order.order_hash.to_string();
                let facts = vec![
                    Row::new(
                        format!(
                            "{} {} {} → {}",
                            order.kind_word(),
                            order.amount_in,
                            order.token_in.symbol,
                            order.token_out.symbol
                        ),
                        Role::Dialog,
                    ),
                    Row::new("order ", Role::TextDim).then(hash.clone(), Role::Dialog),
                    Row::new(
                        "The cancellation is a transaction and costs gas. A filler may fill the order first.",
                        Role::Dialog,
                    ),
                    gas_row(known, Some(order.chain_id)),
                ];
                let then = (tool, params(tool, hash, order.chain_id.to_string()));
                let way = DialogOption { letter: 'c', words: "cancel it on chain".to_owned(), then };
                Ok(("Cancel this order?", facts, way))
            }
            OrderRow::Bridge(_, intent) => {
                if is_over(intent) {
                    return Err(Unavailable::BridgeOver);
                }
                let id = intent.intent_id.to_string();
                if is_voidable(intent) {
                    let tool = "uniswapx_cancel_order";
                    has(tool).ok_or(Unavailable::NoCancelTool)?;
                    let facts = vec![
                        Row::new(
                            format!(
                                "Bridge {} {}  {} → {}",
                                intent.amount_in, intent.token_in.symbol, intent.source_chain, intent.destination_chain
                            ),
                            Role::Dialog,
                        ),
                        Row::new("order ", Role::TextDim).then(id.clone(), Role::Dialog),
                        Row::new(
                            "The cancellation is a transaction and costs gas. Nothing is locked yet.",
                            Role::Dialog,
                        ),
                        gas_row(known, gas::chain_named(known, intent.source_chain.as_str())),
                        Row::new("A relayer may lock the funds first.", Role::Dialog),
                    ];
                    let then = (tool, params(tool, id, intent.source_chain.to_string()));
                    let way = DialogOption { letter: 'c', words: "cancel it on chain".to_owned(), then };
                    return Ok(("Cancel this bridge order?", facts, way));
                }
                if intent.status != IntentStatus::Expired {
                    return Err(Unavailable::NotExpired);
                }
                if let Some(from) = refund_ahead(intent, known.moment()) {
                    return Err(Unavailable::RefundAhead(refund_words(from, known.moment())));
                }
                let tool = "intent_refund";
                has(tool).ok_or(Unavailable::NoRefundTool)?;
                let facts = vec![
                    Row::new(
                        format!("{} {} locked on {}", intent.amount_in, intent.token_in.symbol, intent.source_chain),
                        Role::Dialog,
                    ),
                    Row::new("order   ", Role::TextDim).then(id.clone(), Role::Dialog),
                    Row::new("settler ", Role::TextDim).then(intent.settler.to_string(), Role::Dialog),
                ];
                let then = (tool, params(tool, id, intent.source_chain.to_string()));
                let way = DialogOption { letter: 'r', words: "refund it".to_owned(), then };
                Ok(("Refund this bridge order?", facts, way))
            }
        }
    }

    /// Copies the address of the entry's transaction and shows it.
    fn copy_explorer_link(entry: OrderRow<'_>, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let notice = |words: &str| ScreenRequest::Notice(SafeText::clean(words, 200));
        let Some(place) = entry.settled() else { return vec![notice("it has no transaction on chain yet")] };
        let link = transaction_link(place.chain_id, place.hash, known.page);
        vec![ScreenRequest::Copy(link.clone()), notice(&link)]
    }

    fn ask_about(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let notice = |words: &str| vec![ScreenRequest::Notice(SafeText::clean(words, 200))];
        if known.watch_only {
            return notice("this console is read-only: it cannot change anything");
        }
        let Some(entry) = self.selected(known) else { return notice("no order is selected") };
        self.chosen = Some(entry.key());
        match self.question(entry, known) {
            Ok((title, facts, way)) => {
                self.sent = self.sent.wrapping_add(1);
                let DialogOption { letter, words, then: (tool, params) } = way;
                let then = vec![call(ScreenId::Orders, self.sent, tool, params)];
                let ways = vec![DialogOption { letter, words, then }];
                self.ask = Some(ScreenDialog::new(title, facts, ways).opened(known.machine_millis));
                Vec::new()
            }
            Err(why) => notice(&why.to_string()),
        }
    }
}

/// Card of the selected order, or instructions without one.
struct OrderDetails<'a> {
    theme: &'a Theme,
    screen: &'a Orders,
    known: &'a ScreenContext<'a>,
}

impl Widget for OrderDetails<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let (now, all) = (known.moment(), screen.entries(known));
        let selected = screen.row(&all);
        if let Some(entry) = all.get(selected) {
            let mut model = OrderCardModel::of(*entry);
            let open = if screen.zoomed { "all orders" } else { "details" };
            let keys = CardKeys { copy: true, explorer: false, open, cancel: !known.watch_only };
            // The card fills its area; the curve gets the spare lines.
            if let OrderCardModel::Auction(order) = &mut model {
                let reasons = order.order.as_ref().and_then(|order| known.feed.reasons(order.order_hash));
                order.reasons = reasons.cloned().unwrap_or_default();
                let lines = OrderCard::new(order, painter.theme, now).keys(keys).height(area.width);
                let spare = area.height.saturating_sub(lines);
                order.taller = usize::from(spare).min(MOST_TALLER);
            }
            model.draw(painter, area, now, keys);
        } else {
            painter.frame(area, &[("How orders work".to_owned(), Role::Title)], &[], Role::Border);
            let inner = Rect {
                x: area.x + 2.min(area.width),
                y: area.y + 1.min(area.height),
                width: area.width.saturating_sub(4),
                height: area.height.saturating_sub(2),
            };
            // What cannot be started here is not explained.
            let how = if known.may_read() { HOW } else { HOW.get(..HOW.len().saturating_sub(2)).unwrap_or(HOW) };
            let instructions = how.iter().map(|words| Row::new(*words, Role::TextDim)).collect();
            rows(painter, inner, &wrapped(instructions, inner.width.into()));
        }
    }
}

/// Panel of the orders, open ones first.
struct OrderList<'a> {
    theme: &'a Theme,
    screen: &'a Orders,
    known: &'a ScreenContext<'a>,
}

impl Widget for OrderList<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let (now, all) = (known.moment(), screen.entries(known));
        let selected = screen.row(&all);
        let open = all.iter().filter(|entry| entry.open()).count();
        let right = screen.filter.label();
        let title = format!("▸ Orders  {open} open · {} past", all.len() - open);
        painter.frame(area, &[(title, Role::Title)], &right, Role::BorderFocus);
        let inner = Orders::rows_in(area, known);
        if let Some(words) = Orders::warning(known) {
            let above = Rect { y: area.y + 1, height: area.height.saturating_sub(2).min(1), ..inner };
            rows(painter, above, &[Row::new(words, Role::StateBad)]);
        }
        let offset = (selected + 1).saturating_sub(usize::from(inner.height));
        for (at, (index, entry)) in (0..inner.height).zip(all.iter().enumerate().skip(offset)) {
            let place = line(inner, at);
            if index == selected {
                painter.fill(place, Role::Selection);
                painter.text(place, place.x, "▸", Role::BorderFocus);
            }
            // One blank between the two marks, which may look alike.
            let place = Rect { x: place.x + 2, width: place.width.saturating_sub(2), ..place };
            one_line(painter, place, OrderCardModel::of(*entry).line(now), now);
        }
        if all.is_empty() {
            let words = if screen.filter.stands() {
                "No order matches the filter; Esc clears it."
            } else {
                "No orders yet. Auctions, limit orders, bridge orders, deposits and schedules are listed here, open and past."
            };
            rows(painter, inner, &wrapped(vec![Row::new(words, Role::TextDim)], inner.width.into()));
        }
        let visible = usize::from(inner.height);
        if all.len() > visible && visible > 0 {
            let words = format!(" {}–{} of {} ", offset + 1, offset + visible, all.len());
            let below = line(area, area.height - 1);
            painter.text(below, below.x + 2, &words, Role::TextDim);
        }
    }
}

impl ScreenView for Orders {
    fn id(&self) -> ScreenId {
        ScreenId::Orders
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        let (list, details) = self.plan(self.entries(known).len(), area);
        if list.height >= 2 && list.width >= 4 {
            painter.render(OrderList { theme: painter.theme, screen: self, known }, list);
        }
        painter.render(OrderDetails { theme: painter.theme, screen: self, known }, details);
        if let Some(ask) = &self.ask {
            painter.render(ScreenDialogView::new(ask, painter.theme), area);
        }
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        let all = self.entries(known);
        let (at, last) = (self.row(&all), all.len().saturating_sub(1));
        let page = usize::from(self.plan(all.len(), area).0.height.saturating_sub(2)).max(2);
        if let Some(to) = list::moved(action, at, last, page) {
            self.choose(to, known);
            return Some(Vec::new());
        }
        match action {
            Action::Open | Action::Zoom => self.zoomed = !self.zoomed,
            Action::Back if self.zoomed => self.zoomed = false,
            Action::Back if self.filter.stands() => self.filter.clear(),
            Action::Filter => self.filter.open(),
            Action::CancelSelected => return Some(self.ask_about(known)),
            Action::Copy => return Some(vec![ScreenRequest::Copy(self.selected(known)?.key().to_string())]),
            Action::Explorer => return Some(Self::copy_explorer_link(self.selected(known)?, known)),
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

    fn dialog(&self) -> Option<&ScreenDialog> {
        self.ask.as_ref()
    }

    fn dialog_slot(&mut self) -> Option<&mut Option<ScreenDialog>> {
        Some(&mut self.ask)
    }

    fn open_hint(&self, known: &ScreenContext<'_>) -> Option<&'static str> {
        match (self.zoomed, self.entries(known).is_empty()) {
            (true, _) => Some("all orders"),
            (false, true) => None,
            (false, false) => Some("open"),
        }
    }

    fn type_key(&mut self, key: Key, known: &ScreenContext<'_>, requests: &mut Vec<ScreenRequest>) -> bool {
        if let Some(answer) = super::answered(&mut self.ask, |dialog| dialog.key(key, known.machine_millis)) {
            requests.extend(answer);
            return true;
        }
        // A changed filter selects the first matching row.
        (self.selected, self.chosen) = (0, None);
        self.filter.key(key)
    }

    fn click_page(&mut self, at: Position, known: &ScreenContext<'_>, area: Rect) -> Vec<ScreenRequest> {
        let all = self.entries(known);
        let (list, details) = self.plan(all.len(), area);
        if list.contains(at) {
            let inside = Self::rows_in(list, known);
            let visible = usize::from(inside.height);
            let (count, selected) = (all.len(), self.row(&all));
            let offset = (selected + 1).saturating_sub(visible);
            if at.y == list.y {
                self.filter.open();
            } else if let Some(row) = list::row_at(at, inside, offset, count) {
                self.choose(row, known);
            }
        } else if details.contains(at) {
            return self.ask_about(known);
        }
        Vec::new()
    }

    fn wheel(&mut self, _at: Position, down: bool, known: &ScreenContext<'_>, _area: Rect) {
        let all = self.entries(known);
        let (at, last) = (self.row(&all), all.len().saturating_sub(1));
        self.choose(if down { (at + 1).min(last) } else { at.saturating_sub(1) }, known);
    }

    fn receive_reply(&mut self, _count: u32, reply: CommandReply, _known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        super::said(&reply)
    }
}
