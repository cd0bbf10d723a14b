//! Liquidity position of Uniswap V3 or V4, as `list_positions` and `get_position` describe it.

use serde_json::Value;

use super::range_bar::{LEAST_BAR, PricePlace, TickRange};
use super::{dollars_of, field, marked, pair_of, strong, texts};
use crate::format::{dollars, fee};
use crate::painter::StyledText;
use crate::theme::Role;
use crate::widgets::figure::{amount, text};
use crate::widgets::hook::HookReport;
use crate::widgets::paint::Row;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// Fee of a pool whose hook sets it (`LPFeeLibrary.DYNAMIC_FEE_FLAG` of Uniswap V4).
const FEE_BY_HOOK: u64 = 0x80_0000;
/// Widest range bar, in columns.
const WIDEST_BAR: usize = 48;

/// Prospect of a withdrawal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExitState {
    /// Nothing but the pool takes part.
    Open,
    /// A hook or a subscriber takes part, and no withdrawal was simulated. Also any state that is not understood.
    #[default]
    Untried,
    /// A simulated withdrawal reverts, or pays less than the pool owes.
    Locked,
}

/// Liquidity position at one block. Amounts and prices are decimal numbers as text; pairs are in the order of the pool's
/// tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LiquidityPosition {
    /// Name of the chain.
    pub chain: SafeText,
    /// Number of the position's token, of V4 with `v4:` before it.
    pub id: SafeText,
    /// Uniswap version, such as `V3`.
    pub version: SafeText,
    /// Account that owns it.
    pub owner: SafeText,
    /// Address of the pool; its id in V4.
    pub pool: SafeText,
    /// Symbols of the tokens; addresses of those that are not listed.
    pub tokens: [SafeText; 2],
    /// Tokens whose contract does not answer as one, so that their amounts are raw units.
    pub unreadable: Vec<SafeText>,
    /// Fee of the pool in hundredths of a basis point; `None` if its hook sets it.
    pub fee_pips: Option<u32>,
    /// Address of the pool's hook; `None` without one.
    pub hook: Option<SafeText>,
    /// Prospect of a withdrawal.
    pub exit: ExitState,
    /// Range and current price as ticks; `None` if the reply names none that fit.
    pub range: Option<TickRange>,
    /// Lower price of the range, current price, and upper price: of one first token in second tokens.
    pub prices: [SafeText; 3],
    /// Liquidity in the pool's units.
    pub liquidity: SafeText,
    /// Part of the pool's liquidity at the current price, in percent; `None` outside the range.
    pub share_pct: Option<SafeText>,
    /// Amounts that a withdrawal pays now, without fees.
    pub now: [SafeText; 2],
    /// Amounts at the lower price of the range.
    pub at_lower: [SafeText; 2],
    /// Amounts at the upper price of the range.
    pub at_upper: [SafeText; 2],
    /// Amounts that can be collected.
    pub owed: [SafeText; 2],
    /// Exit value with what can be collected, in dollars; `None` without a price of each token.
    pub value: Option<Usd>,
    /// Value of what can be collected, in dollars.
    pub owed_value: Option<Usd>,
}

impl LiquidityPosition {
    /// Reads an entry of a reply about positions on `chain`. `None` if it has no number.
    pub fn from_entry(chain: &SafeText, entry: &Value) -> Option<Self> {
        let tick = |name: &str| entry.get(name).and_then(Value::as_i64).and_then(|tick| i32::try_from(tick).ok());
        let range = || Some(TickRange { lower: tick("tick_lower")?, upper: tick("tick_upper")?, now: tick("tick")? });
        let or_none = |name: &str| text(entry, name).unwrap_or_default();
        let pips = entry.get("fee_tier").and_then(Value::as_u64);
        Some(Self {
            chain: chain.clone(),
            id: text(entry, "position_id").filter(|id| !id.is_empty())?,
            version: or_none("version"),
            owner: or_none("owner"),
            pool: or_none("pool"),
            tokens: [or_none("token0"), or_none("token1")],
            unreadable: texts(entry, "unreadable_tokens"),
            fee_pips: pips.filter(|pips| *pips != FEE_BY_HOOK).and_then(|pips| u32::try_from(pips).ok()),
            hook: text(entry, "hook"),
            exit: match entry.get("exit").and_then(Value::as_str) {
                Some("open") => ExitState::Open,
                Some("locked") => ExitState::Locked,
                Some(_) | None => ExitState::Untried,
            },
            range: range(),
            prices: ["price_lower", "price", "price_upper"].map(or_none),
            liquidity: or_none("liquidity"),
            share_pct: text(entry, "share_pct"),
            now: pair_of(entry, "now"),
            at_lower: pair_of(entry, "at_lower_price"),
            at_upper: pair_of(entry, "at_upper_price"),
            owed: pair_of(entry, "owed"),
            value: dollars_of(entry, "value_usd"),
            owed_value: dollars_of(entry, "owed_usd"),
        })
    }

    /// Version and number, such as `V3 #42`.
    pub fn name(&self) -> String {
        let number = self.id.as_str();
        format!("{} #{}", self.version, number.strip_prefix("v4:").unwrap_or(number))
    }

    /// Tokens and fee, such as `WETH/USDC 0.3 %`.
    pub fn pair(&self) -> String {
        let [first, second] = &self.tokens;
        let fee = self.fee_pips.map_or_else(|| "fee by hook".to_owned(), fee);
        format!("{first}/{second} {fee}")
    }

    /// True if it has liquidity.
    pub fn has_liquidity(&self) -> bool {
        self.liquidity.as_str().bytes().any(|digit| (b'1'..=b'9').contains(&digit))
    }

    /// True if something can be collected.
    pub fn is_owed(&self) -> bool {
        self.owed.iter().any(|owed| owed.as_str().bytes().any(|digit| (b'1'..=b'9').contains(&digit)))
    }

    /// Mark, words and role of its state: what matters most about it.
    pub fn state(&self) -> (&'static str, &'static str, Role) {
        match (self.exit, self.range.map(TickRange::place)) {
            (ExitState::Locked, _) => ("✕", "LOCKED", Role::StateBad),
            (ExitState::Untried, _) => ("?", "exit not tried", Role::StateCare),
            (ExitState::Open, None) => ("?", "range unknown", Role::StateCare),
            (ExitState::Open, Some(_)) if !self.has_liquidity() => ("○", "no liquidity", Role::TextDim),
            (ExitState::Open, Some(PricePlace::Inside)) => ("●", "in range", Role::StateGood),
            (ExitState::Open, Some(PricePlace::Below)) => ("○", "below range", Role::StateCare),
            (ExitState::Open, Some(PricePlace::Above)) => ("○", "above range", Role::StateCare),
        }
    }

    /// Value as text, with its role.
    pub fn value_words(&self) -> StyledText {
        match (self.exit, self.value) {
            (ExitState::Locked, _) => ("$0.00".to_owned(), Role::StateBad),
            (ExitState::Untried, _) => ("not counted".to_owned(), Role::StateCare),
            (ExitState::Open, Some(value)) => (dollars(value), Role::TextStrong),
            (ExitState::Open, None) => ("no price".to_owned(), Role::StateCare),
        }
    }

    /// Amounts of both tokens, such as `0.5 WETH + 1,200 USDC`.
    fn both(&self, amounts: &[SafeText; 2]) -> String {
        let [first, second] = amounts;
        let [one, other] = &self.tokens;
        format!("{} {one} + {} {other}", amount(first.as_str()), amount(second.as_str()))
    }

    /// Rows of the card, for this width in columns.
    pub fn rows(&self, columns: usize) -> Vec<Row> {
        let (mark, words, role) = self.state();
        let mut all =
            vec![Row::new(format!("{mark} {words}"), role).end(self.value_words().0, self.value_words().1).kept()];
        match self.exit {
            ExitState::Locked => all.push(marked(
                "a simulated withdrawal reverts or pays less than the pool owes: it counts as nothing until it does not",
                Role::StateBad,
            )),
            ExitState::Untried => all.push(marked(
                "the pool's hook or a subscriber takes part in a withdrawal, and none was simulated: it counts as nothing",
                Role::StateCare,
            )),
            ExitState::Open => {}
        }
        let unreadable = self.unreadable.iter();
        all.extend(unreadable.map(|token| {
            marked(&format!("{token} does not answer as a token: its amounts are raw units"), Role::StateCare)
        }));
        let [lower, now, upper] = &self.prices;
        let [first, second] = &self.tokens;
        let bar = columns.saturating_sub(11).min(WIDEST_BAR);
        if let Some(range) = self.range.filter(|_| bar >= LEAST_BAR) {
            let mut row = Row::new(format!("{:<11}", "range"), Role::TextDim);
            row.left.extend(range.pieces(bar));
            all.push(row.kept());
        }
        all.push(field("from, to", format!("{} to {}", amount(lower.as_str()), amount(upper.as_str()))));
        all.push(strong("price", format!("{} {second} for one {first}", amount(now.as_str()))));
        all.push(field("holds", self.both(&self.now)));
        let worth = self.owed_value.map_or(String::new(), |value| format!("  {}", dollars(value)));
        all.push(strong("fees owed", format!("{}{worth}", self.both(&self.owed))));
        if let Some(share) = &self.share_pct {
            all.push(field("share", format!("{share} % of the pool's liquidity at this price")));
        }
        all.push(field("at lower", self.both(&self.at_lower)));
        all.push(field("at upper", self.both(&self.at_upper)));
        all.push(field("pool", format!("{} on {}", self.pair(), self.chain)));
        all.push(field("", self.pool.as_str()));
        match &self.hook {
            Some(hook) => match HookReport::of_address(hook.as_str()) {
                Some(report) => all.extend(report.rows()),
                None => all.push(field("hook", hook.as_str())),
            },
            None => all.push(field("hook", "none")),
        }
        all.push(field("owner", self.owner.as_str()));
        all
    }
}
