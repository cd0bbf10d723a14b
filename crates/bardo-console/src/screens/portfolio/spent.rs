//! Spending rows: gas, amounts that count toward the limits, and amounts reserved for pending actions.

use std::collections::BTreeMap;

use alloy_primitives::U256;

use super::super::ScreenContext;
use super::super::gas::worth_of;
use crate::format::{dollars, dollars_used, time_of_day};
use crate::theme::Role;
use crate::widgets::figure::paid;
use crate::widgets::paint::Row;
use bardo_base::units::{TokenAmount, Usd};
use bardo_session::handle::{LimitUsage, StopLossState};

/// Rows of the spending panel: gas, amounts that count toward the limits, and reservations.
pub(super) fn spent_rows(known: &ScreenContext<'_>) -> Vec<Row> {
    let mut all = gas_rows(known);
    if let Some(limits) = known.limits() {
        let limit = |limit: Option<Usd>| limit.map_or("no limit".to_owned(), dollars);
        all.push(
            Row::new("today    ", Role::TextDim)
                .then(dollars_used(limits.day.used), Role::Text)
                .end(format!("counted, of {}", limit(limits.day.limit)), Role::TextDim),
        );
        all.push(
            Row::new("30 days  ", Role::TextDim)
                .then(dollars_used(limits.month.used), Role::Text)
                .end(format!("counted, of {}", limit(limits.month.limit)), Role::TextDim),
        );
        if let Some(one) = limits.one {
            // A fair sale into an exit asset passes whatever its size.
            let whom = "for one action; a fair sale counts its possible loss only";
            all.push(Row::new("up to    ", Role::TextDim).then(dollars(one), Role::Text).end(whom, Role::TextDim));
        }
        all.push(
            Row::new("reserved ", Role::TextDim)
                .then(dollars_used(limits.reserved), Role::Text)
                .end("being signed or not yet settled", Role::TextDim),
        );
        all.extend(stop_rows(limits));
    }
    if let Some(most) = known.feed.vitals.as_ref().and_then(|vitals| vitals.high_water) {
        all.push(
            Row::new("highest  ", Role::TextDim).then(dollars(most), Role::Text).end("peak equity", Role::TextDim),
        );
    }
    if let Some(snapshot) = known.snapshot {
        let at = time_of_day(snapshot.at / 1000);
        all.push(Row::new("read at  ", Role::TextDim).then(at, Role::Text));
    }
    all
}

/// Rows with the stop-loss level of each chain, in dollars. Below it only exits are allowed on that chain.
fn stop_rows(limits: &LimitUsage) -> Vec<Row> {
    let marked = limits.stop_losses.iter().filter(|one| one.high_water > Usd::ZERO);
    let row = |(at, one): (usize, &StopLossState)| {
        let share = limits.stop_loss_bps / 100;
        Row::new(if at == 0 { "stop-loss " } else { "          " }, Role::TextDim)
            .then(dollars(one.stops_at), Role::Text)
            .then(format!(" on {}", one.chain), Role::TextDim)
            .end(format!("{share} % under its highest {}", dollars(one.high_water)), Role::TextDim)
    };
    marked.enumerate().map(row).collect()
}

/// Gas cost per chain in the native token and in dollars, over all calls in the feed.
fn gas_rows(known: &ScreenContext<'_>) -> Vec<Row> {
    let mut spent: BTreeMap<u64, (usize, U256)> = BTreeMap::new();
    for call in &known.feed.calls {
        for (chain_id, cost) in call.gas_costs() {
            let (count, sum) = spent.entry(chain_id).or_default();
            *count += 1;
            *sum = sum.saturating_add(cost);
        }
    }
    let since = known.feed.calls.front().map(|call| format!(" since {}", time_of_day(call.started_at / 1000)));
    let since = since.unwrap_or_default();
    if spent.is_empty() {
        return vec![
            Row::new("gas      ", Role::TextDim)
                .then("nothing", Role::Text)
                .end(since.trim_start().to_owned(), Role::TextDim),
        ];
    }
    let row = |(at, (chain_id, (count, sum))): (usize, (u64, (usize, U256)))| {
        let chain = known.snapshot.and_then(|snapshot| snapshot.holdings.iter().find(|one| one.chain_id == chain_id));
        let coin = chain.and_then(|chain| chain.rows.first());
        let symbol = known.native_symbol(chain_id).map_or("native token", |symbol| symbol.as_str());
        let coins = TokenAmount::ether(sum).to_string();
        let worth = coin.and_then(|coin| worth_of(&coins, coin)).map(|cents| format!("  {cents}")).unwrap_or_default();
        let on = known.feed.chains.get(&chain_id).map_or_else(|| chain_id.to_string(), ToString::to_string);
        let transactions = if count == 1 { "transaction" } else { "transactions" };
        Row::new(if at == 0 { "gas      " } else { "         " }, Role::TextDim)
            .then(format!("{} {symbol}", paid(&coins)), Role::TextStrong)
            .then(format!(" on {on}"), Role::TextDim)
            .then(worth, Role::Text)
            .end(format!("{count} {transactions}{since}"), Role::TextDim)
    };
    spent.into_iter().enumerate().map(row).collect()
}
