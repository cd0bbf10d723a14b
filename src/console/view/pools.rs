//! The pools' table: pair, version and fee, the pool's price, the feeds', the gap between them, what the pool holds.

use ratatui::layout::Rect;

use crate::console::format::{fee, ratio, round_dollars, signed_bps};
use crate::console::pen::{Cell, Pen};
use crate::console::state::model::{PoolRow, PoolVersion};
use crate::console::theme::Role;

/// Columns from which the whole table fits.
const ROOMY: u16 = 72;

/// The column names.
pub(super) fn heading(pen: &mut Pen<'_>, place: Rect) {
    let dim = Role::TextDim;
    pen.cells(place, &columns(place.width, ["pair", "kind", "in the pool", "by the feeds", "gap", "holds"], [dim; 6]));
}

/// One pool.
pub(super) fn row(pen: &mut Pen<'_>, pool: &PoolRow, place: Rect) {
    let version = match pool.version {
        PoolVersion::V2 => "V2",
        PoolVersion::V3 => "V3",
    };
    let fee = fee(pool.fee_pips);
    let pair = format!("{}/{}", pool.base, pool.quote);
    let kind = format!("{version} {fee}");
    let kind = if place.width < ROOMY { kind.trim_end_matches(" %").to_owned() } else { kind };
    let price = pool.price.map_or("empty".to_owned(), ratio);
    let feed = pool.feed_price.map_or("no price".to_owned(), ratio);
    let gap = pool.gap_bps().map_or("–".to_owned(), signed_bps);
    let holds = pool.holds.map_or("–".to_owned(), round_dollars);
    let known = |known: bool| if known { Role::Text } else { Role::StateCare };
    let roles = [
        Role::Text,
        Role::TextDim,
        if pool.price.is_some() { Role::TextStrong } else { Role::StateCare },
        known(pool.feed_price.is_some()),
        gap_role(pool),
        Role::Text,
    ];
    pen.cells(place, &columns(place.width, [&pair, &kind, &price, &feed, &gap, &holds], roles));
}

/// Within the fee nobody can profit from the gap, so it is quiet; a gap of more than 2 % is wrong.
fn gap_role(pool: &PoolRow) -> Role {
    let fee_bps = u64::from(pool.fee_pips / 100);
    match pool.gap_bps().map(i64::unsigned_abs) {
        None => Role::TextDim,
        Some(gap) if gap <= fee_bps + 10 => Role::StateGood,
        Some(gap) if gap <= 200 => Role::StateCare,
        Some(_) => Role::StateBad,
    }
}

fn columns(width: u16, texts: [&str; 6], roles: [Role; 6]) -> Vec<Cell> {
    let [pair, kind, price, feed, gap, holds] = texts;
    let [pair_role, kind_role, price_role, feed_role, gap_role, holds_role] = roles;
    if width < ROOMY {
        // Fewest columns of a page less a frame: 34.
        let spare = width.saturating_sub(34);
        return vec![
            Cell::left(pair, pair_role, 9 + spare.min(4)),
            Cell::left(kind, kind_role, 7),
            Cell::right(price, price_role, 8 + spare.saturating_sub(4).min(5)),
            Cell::right(gap, gap_role, 7 + spare.saturating_sub(9).min(3)),
        ];
    }
    // 72 columns at least; what is over goes to the pair and between the figures, so that the eye can follow.
    let spare = (width - ROOMY).min(24);
    vec![
        Cell::left(pair, pair_role, 12 + spare / 4),
        Cell::left(kind, kind_role, 9),
        Cell::right(price, price_role, 13 + spare / 4),
        Cell::right(feed, feed_role, 13 + spare / 4),
        Cell::right(gap, gap_role, 10),
        Cell::right(holds, holds_role, 9 + spare / 4),
    ]
}
