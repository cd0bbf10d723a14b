//! Card of a call, of any kind. An activity list stores these cards and applies events to them.

use alloy_primitives::B256;

use super::allowance::AllowanceModel;
use super::bridge::BridgeModel;
use super::call::CallModel;
use super::lending::LendingModel;
use super::order::OrderModel;
use super::paint::{CardLine, Row, Title};
use super::plain::PlainModel;
use super::position_change::{PositionAction, PositionChangeModel};
use super::quote::QuoteModel;
use super::status::CardStatus;
use super::swap::SwapModel;
use super::{CardKeys, CardView, Moment};
use crate::theme::Role;
use bardo_base::fabric::{EventKind, ToolFacts, ToolStart};
use bardo_base::model::CardKind;

/// Card of a call, by the kind of its tool.
#[derive(Debug, Clone, PartialEq)]
pub enum CallCard {
    /// Card of a quote.
    Quote(Box<QuoteModel>),
    /// Card of a swap.
    Swap(Box<SwapModel>),
    /// Card of an auction order.
    Order(Box<OrderModel>),
    /// Card of a bridge order.
    Bridge(Box<BridgeModel>),
    /// Card of an allowance.
    Allowance(Box<AllowanceModel>),
    /// Card of an action in a lending market.
    Lending(Box<LendingModel>),
    /// Card of an action on a liquidity position or on shares of a vault.
    Position(Box<PositionChangeModel>),
    /// Card of a call whose tool has no widget.
    Plain(Box<PlainModel>),
}

/// Tools that cancel an order or refund its money.
const TAKES_BACK: [&str; 2] = ["uniswapx_cancel_order", "intent_refund"];

/// Kind of the card in a successful end event.
fn answered(kind: &EventKind) -> Option<CardKind> {
    match kind {
        EventKind::ToolEnd(end) if end.success => end.card.as_ref().map(|card| card.widget),
        _ => None,
    }
}

impl CallCard {
    /// Creates the card of a starting call.
    pub fn start(at: u64, start: &ToolStart) -> Self {
        let facts = start.facts();
        let mut card = Self::of_facts(at, start, &facts);
        card.call_mut().signs = facts.signs;
        card
    }

    fn of_facts(at: u64, start: &ToolStart, facts: &ToolFacts) -> Self {
        let (tool, params) = (start.tool_name.as_ref(), start.params.value().clone());
        match facts.card {
            // A cancellation or refund shows the order only once its response arrives.
            Some(_) if TAKES_BACK.contains(&tool) => Self::Plain(Box::new(PlainModel::asked(at, tool, params))),
            Some(CardKind::Quote) => Self::Quote(Box::new(QuoteModel::asked(at, tool, params))),
            Some(CardKind::Swap) => Self::Swap(Box::new(SwapModel::asked(at, tool, params, &facts.steps))),
            Some(CardKind::Order) => Self::Order(Box::new(OrderModel::asked(CallModel::asked(at, tool, params)))),
            Some(CardKind::CrossChain) => {
                Self::Bridge(Box::new(BridgeModel::asked(CallModel::asked(at, tool, params))))
            }
            Some(CardKind::Allowance) => Self::Allowance(Box::new(AllowanceModel::asked(at, tool, params))),
            Some(CardKind::Lending) => Self::Lending(Box::new(LendingModel::asked(at, tool, params))),
            None if PositionAction::of(tool).is_some() => {
                Self::Position(Box::new(PositionChangeModel::asked(at, tool, params)))
            }
            None => Self::Plain(Box::new(PlainModel::asked(at, tool, params))),
        }
    }

    /// Hash of the order that the call placed, once known. Status queries, cancellations and refunds place none.
    pub fn order_placed(&self) -> Option<B256> {
        let places = |call: &CallModel| call.signs && !TAKES_BACK.contains(&call.tool.as_str());
        match self {
            Self::Order(model) if places(&model.call) => model.order.as_ref().map(|order| order.order_hash),
            Self::Bridge(model) if places(&model.call) => model.intent.as_ref().map(|intent| intent.intent_id),
            Self::Order(_)
            | Self::Bridge(_)
            | Self::Quote(_)
            | Self::Swap(_)
            | Self::Allowance(_)
            | Self::Lending(_)
            | Self::Position(_)
            | Self::Plain(_) => None,
        }
    }

    /// Applies an event of this call. A swap that becomes an auction gets the card of an order.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        let becomes_an_order = match kind {
            EventKind::OrderUpdate(_) => true,
            EventKind::PermitIssued(permit) => permit.is_order,
            _ => false,
        };
        if let (Self::Swap(swap), true) = (&*self, becomes_an_order) {
            let reasons = swap.result.as_ref().map(|result| result.reasons.clone()).unwrap_or_default();
            let memory = swap.memory.clone();
            *self = Self::Order(Box::new(OrderModel { reasons, memory, ..OrderModel::asked(swap.call.clone()) }));
        }
        if let (Self::Plain(plain), Some(card)) = (&*self, answered(kind)) {
            let call = plain.call.clone();
            // A response without the order itself stays what it is: the result of a cancellation or refund.
            match card {
                CardKind::Order => {
                    let mut model = OrderModel::asked(call);
                    model.fold(at, kind);
                    if model.order.is_some() {
                        *self = Self::Order(Box::new(model));
                        return;
                    }
                }
                CardKind::CrossChain => {
                    let mut model = BridgeModel::asked(call);
                    model.fold(at, kind);
                    if model.intent.is_some() {
                        *self = Self::Bridge(Box::new(model));
                        return;
                    }
                }
                CardKind::Quote | CardKind::Swap | CardKind::Allowance | CardKind::Lending => {}
            }
        }
        match self {
            Self::Quote(model) => model.fold(at, kind),
            Self::Swap(model) => model.fold(at, kind),
            Self::Order(model) => model.fold(at, kind),
            Self::Bridge(model) => model.fold(at, kind),
            Self::Allowance(model) => model.fold(at, kind),
            Self::Lending(model) => model.fold(at, kind),
            Self::Position(model) => model.fold(at, kind),
            Self::Plain(model) => model.fold(at, kind),
        }
    }

    /// Call that the card shows.
    pub fn call(&self) -> &CallModel {
        match self {
            Self::Quote(model) => &model.call,
            Self::Swap(model) => &model.call,
            Self::Order(model) => &model.call,
            Self::Bridge(model) => &model.call,
            Self::Allowance(model) => &model.call,
            Self::Lending(model) => &model.call,
            Self::Position(model) => &model.call,
            Self::Plain(model) => &model.call,
        }
    }

    fn call_mut(&mut self) -> &mut CallModel {
        match self {
            Self::Quote(model) => &mut model.call,
            Self::Swap(model) => &mut model.call,
            Self::Order(model) => &mut model.call,
            Self::Bridge(model) => &mut model.call,
            Self::Allowance(model) => &mut model.call,
            Self::Lending(model) => &mut model.call,
            Self::Position(model) => &mut model.call,
            Self::Plain(model) => &mut model.call,
        }
    }

    /// Shows that the call waits for the operator until a deadline, in milliseconds since the Unix epoch, or that it
    /// goes on (`None`).
    pub fn wait_for_operator(&mut self, until: Option<Option<u64>>) {
        let call = self.call_mut();
        match until {
            Some(lapses_at) if !call.status.is_over() => {
                (call.status, call.lapses_at) = (CardStatus::Waiting, lapses_at)
            }
            None if call.status == CardStatus::Waiting => (call.status, call.lapses_at) = (CardStatus::Running, None),
            Some(_) | None => {}
        }
    }

    /// Status of the card at a moment.
    pub fn status(&self, now: Moment) -> CardStatus {
        match self {
            Self::Quote(model) => model.status(now),
            Self::Order(model) => model.status(now),
            Self::Bridge(model) => model.status(now),
            Self::Swap(_) | Self::Allowance(_) | Self::Lending(_) | Self::Position(_) | Self::Plain(_) => {
                self.call().status
            }
        }
    }

    fn sheet(&self) -> &dyn CardView {
        match self {
            Self::Quote(model) => model.as_ref(),
            Self::Swap(model) => model.as_ref(),
            Self::Order(model) => model.as_ref(),
            Self::Bridge(model) => model.as_ref(),
            Self::Allowance(model) => model.as_ref(),
            Self::Lending(model) => model.as_ref(),
            Self::Position(model) => model.as_ref(),
            Self::Plain(model) => model.as_ref(),
        }
    }
}

impl CardView for CallCard {
    fn line(&self, now: Moment) -> CardLine {
        self.sheet().line(now)
    }

    fn title(&self, now: Moment) -> Title {
        self.sheet().title(now)
    }

    fn short(&self, now: Moment) -> Vec<Row> {
        self.sheet().short(now)
    }

    fn full(&self, now: Moment, columns: usize) -> Vec<Row> {
        self.sheet().full(now, columns)
    }

    fn last(&self, now: Moment, keys: CardKeys) -> Option<Row> {
        self.sheet().last(now, keys)
    }

    fn edge(&self, now: Moment) -> Role {
        self.sheet().edge(now)
    }
}
