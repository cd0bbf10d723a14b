//! Orders that the feed keeps: found by hash, listed in order of arrival.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::B256;
use alloy_primitives::map::HashMap;

use super::{OPEN_ORDERS_KEPT, ORDERS_KEPT};
use crate::widgets::bridge::is_over;
use bardo_base::fabric::{IntentUpdate, OrderUpdate};

/// Order that an event reports.
pub trait ReportedOrder {
    /// Hash or id of the order.
    fn hash(&self) -> B256;
    /// Returns true if nothing can be spent by the order any more.
    fn has_ended(&self) -> bool;
}

impl ReportedOrder for OrderUpdate {
    fn hash(&self) -> B256 {
        self.order_hash
    }

    fn has_ended(&self) -> bool {
        self.status.is_final()
    }
}

impl ReportedOrder for IntentUpdate {
    fn hash(&self) -> B256 {
        self.intent_id
    }

    fn has_ended(&self) -> bool {
        is_over(self)
    }
}

/// Newest update of each order, with its time in milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptOrders<T> {
    /// By number of arrival.
    orders: BTreeMap<u64, (u64, T)>,
    numbers: HashMap<B256, u64>,
    ended: BTreeSet<u64>,
    next: u64,
}

impl<T> Default for KeptOrders<T> {
    fn default() -> Self {
        Self { orders: BTreeMap::new(), numbers: HashMap::default(), ended: BTreeSet::new(), next: 0 }
    }
}

impl<T> KeptOrders<T> {
    /// Orders with the time of their last update, in order of arrival.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &(u64, T)> {
        self.orders.values()
    }

    /// Orders to be changed by a test, in order of arrival.
    #[cfg(test)]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut (u64, T)> {
        self.orders.values_mut()
    }

    /// Order number `place` in order of arrival, to be changed by a test.
    #[cfg(test)]
    pub fn nth_mut(&mut self, place: usize) -> &mut (u64, T) {
        self.iter_mut().nth(place).unwrap()
    }
}

impl<T: ReportedOrder> KeptOrders<T> {
    /// Order with this hash, if it is kept.
    pub fn get(&self, hash: B256) -> Option<&T> {
        self.orders.get(self.numbers.get(&hash)?).map(|(_, order)| order)
    }

    /// Stores an update. For a new order, the oldest ended one is dropped if there are [`ORDERS_KEPT`] of them, and an open
    /// one only beyond [`OPEN_ORDERS_KEPT`].
    pub fn insert(&mut self, at: u64, order: T) {
        let number = match self.numbers.get(&order.hash()) {
            Some(number) => *number,
            None => self.make_room(),
        };
        match order.has_ended() {
            true => self.ended.insert(number),
            false => self.ended.remove(&number),
        };
        self.numbers.insert(order.hash(), number);
        self.orders.insert(number, (at, order));
    }

    /// Number for a new order.
    fn make_room(&mut self) -> u64 {
        if self.ended.len() >= ORDERS_KEPT
            && let Some(oldest) = self.ended.first().copied()
        {
            self.remove(oldest);
        }
        if self.orders.len() >= OPEN_ORDERS_KEPT
            && let Some((&oldest, _)) = self.orders.first_key_value()
        {
            self.remove(oldest);
        }
        self.next = self.next.saturating_add(1);
        self.next
    }

    fn remove(&mut self, number: u64) {
        self.ended.remove(&number);
        if let Some((_, order)) = self.orders.remove(&number) {
            self.numbers.remove(&order.hash());
        }
    }
}
