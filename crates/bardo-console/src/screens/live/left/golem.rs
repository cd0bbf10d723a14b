//! Panel of the Golem: its sprite, its phase and its vital signs.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use super::frame;
use crate::format::{age, amount};
use crate::painter::{Painter, line};
use crate::screens::{ScreenContext, ScreenId};
use crate::theme::{Role, Theme};
use crate::widgets::gauge::{FullMeaning, Gauge, GaugeLine};
use crate::widgets::paint::{Group, chosen};
use crate::widgets::sprite::{self, Sprite, SpriteModel};
use bardo_base::fabric::{LendingVitals, SpriteState, Vitals, health_factor};
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::{SafeText, fit, width};
use bardo_base::units::{TokenAmount, Usd};

fn body(known: &ScreenContext<'_>) -> SpriteState {
    known.feed.sprite.map_or(SpriteState::Idle, |(_, state)| state)
}

fn body_words(state: SpriteState) -> &'static str {
    match state {
        SpriteState::Idle => "idle",
        SpriteState::Thinking => "thinking ▸",
        SpriteState::Executing => "executing ▸",
        SpriteState::AwaitingApproval => "waits for you ‼",
        SpriteState::Success => "done ✓",
        SpriteState::Failure => "failed ✕",
        SpriteState::Halted => "stopped ■",
        SpriteState::Dead => "dead",
    }
}

fn phase(known: &ScreenContext<'_>) -> Phase {
    known.feed.phase.or_else(|| known.snapshot.map(|snapshot| snapshot.phase)).unwrap_or(Phase::Thriving)
}

/// Stop in force, from the snapshot, or from the events where there is none.
fn stop(known: &ScreenContext<'_>) -> Option<StopLevel> {
    match known.snapshot {
        Some(snapshot) => snapshot.stop.as_ref().map(|stop| stop.level),
        None => known.feed.stop.as_ref().and_then(|stop| stop.level),
    }
}

/// Display text of a role. The unrestricted role is shown as a plain Golem, because its name explains nothing.
fn role_words(role: &str) -> String {
    match role {
        "golem-instance" => "a Golem".to_owned(),
        other => other.to_owned(),
    }
}

/// Panel of the Golem: its sprite, phase and vital signs.
pub(super) struct GolemPanel<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
}

impl Widget for GolemPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known } = self;
        let painter = &mut Painter { buffer, theme };
        let name = known.ready.map_or_else(
            || "The Golem".to_owned(),
            |ready| format!("{} · {}", ready.name, role_words(ready.role.as_str())),
        );
        let inner = frame(painter, area, &name, false);
        let model = SpriteModel { state: body(known), phase: phase(known), letters: false };
        let picture = Rect {
            x: inner.x,
            width: sprite::COLUMNS.min(inner.width),
            height: inner.height.min(sprite::LINES),
            ..inner
        };
        painter.render(Sprite::new(model, painter.theme, known.moment()), picture);
        let words = Rect { x: inner.x + 12, width: inner.width.saturating_sub(12), ..inner };
        painter.pieces(
            line(words, 0),
            &[(sprite::phase_words(phase(known)).to_owned(), sprite::phase_role(phase(known)))],
        );
        painter.pieces(line(words, 1), &[(body_words(model.state).to_owned(), Role::Text)]);
        let vitals = known.feed.vitals.as_ref();
        if let Some(vitals) = vitals {
            let of = vitals.lifespan_seconds.map(|span| format!(" of {}", age(span))).unwrap_or_default();
            // The age changes by itself like a clock, so it is hidden without motion.
            let text =
                if known.motion { format!("age {}{of}", age(vitals.age_seconds)) } else { format!("lifespan{of}") };
            if known.motion || !of.is_empty() {
                painter.pieces(line(words, 2), &[(text, Role::TextDim)]);
            }
            // Under a stop, and on a blocked account, "nothing is wrong" would be about the vital signs alone.
            let transactions = known.snapshot.and_then(|snapshot| snapshot.transactions.as_deref());
            let blocked = transactions.and_then(|transactions| transactions.used_outside().next());
            let (why, role) = match (stop(known), blocked) {
                (Some(level), _) => (format!("stop: {level}"), Role::StateCare),
                (None, Some(chain)) => {
                    let digit = ScreenId::Transactions.key();
                    let whole = format!("{chain}: nothing is signed ({digit})");
                    // The header names the chain.
                    let short = format!("cannot sign ({digit})");
                    (if width(&whole) > usize::from(words.width) { short } else { whole }, Role::StateBad)
                }
                (None, None) => (vitals.why.to_string(), Role::TextDim),
            };
            painter.pieces(line(words, 3), &[(fit(&why, usize::from(words.width)).into_owned(), role)]);
        }
        let gauges = Rect { y: inner.y + 4, height: inner.height.saturating_sub(4), ..inner };
        for (at, gauge) in (0..gauges.height).zip(vital_gauges(known)) {
            painter.render(GaugeLine::new(&gauge, painter.theme, 7), line(gauges, at));
        }
    }
}

/// Drawdown in percent, rounded to one decimal; a value that rounds to zero has no minus sign.
fn fall(bps: u64) -> String {
    let tenths = bps.saturating_add(5) / 10;
    let sign = if tenths == 0 { "" } else { "−" };
    format!("{sign}{}.{}", tenths / 10, tenths % 10)
}

/// Drawdown of the holdings from their high-water mark, and the drawdown at which the stop-loss acts, in basis points.
struct Lost {
    /// The chain it is about, where there are several and this one fell.
    chain: Option<SafeText>,
    bps: u64,
    limit_bps: u64,
}

/// The larger of two falls: that of the whole since the session's highest equity, which moves the phase and which the
/// chart shows, and the one that comes first to a stop-loss. That is checked chain by chain and measured from the
/// ledger's mark, which begins with the first action; recordings before version 4 have no figures of it.
fn lost(known: &ScreenContext<'_>) -> Option<Lost> {
    let whole = known
        .feed
        .vitals
        .as_ref()
        .and_then(|vitals| Some(Lost { chain: None, bps: vitals.drawdown_bps?, limit_bps: vitals.stop_loss_bps }));
    let Some(limits) = known.limits().filter(|limits| !limits.stop_losses.is_empty()) else { return whole };
    // Every chain must be known: the one that is not may have fallen the furthest.
    let falls: Option<Vec<_>> = limits.stop_losses.iter().map(|one| Some((one, one.fall_bps()?))).collect();
    let (worst, bps) = falls?.into_iter().max_by_key(|(_, bps)| *bps)?;
    let chain = (limits.stop_losses.len() > 1 && bps >= 10).then(|| worst.chain.clone());
    let first = Lost { chain, bps, limit_bps: limits.stop_loss_bps.into() };
    Some(whole.filter(|whole| whole.bps > first.bps).unwrap_or(first))
}

fn vital_gauges(known: &ScreenContext<'_>) -> Vec<Gauge> {
    let Some(vitals) = &known.feed.vitals else {
        return vec![Gauge { label: "equity".to_owned(), level: None, words: String::new(), full: FullMeaning::Bad }];
    };
    let lost = lost(known);
    let equity = Gauge {
        label: "equity".to_owned(),
        level: lost.as_ref().map(|lost| (lost.bps.into(), lost.limit_bps.into())),
        words: match &lost {
            Some(Lost { chain: Some(chain), bps, limit_bps }) => format!("{chain} {}/{}%", fall(*bps), limit_bps / 100),
            Some(Lost { chain: None, bps, limit_bps }) => format!("{}% of {}%", fall(*bps), limit_bps / 100),
            None => String::new(),
        },
        full: FullMeaning::Bad,
    };
    let gas = Gauge {
        label: "gas".to_owned(),
        // Before the runway is known, the gauge shows whether there is any gas.
        level: match (vitals.gas_runway_seconds, vitals.gas_wei) {
            (Some(left), _) => Some((left.min(WEEK).into(), WEEK.into())),
            (None, Some(wei)) => Some((u128::from(!wei.is_zero()), 1)),
            (None, None) => None,
        },
        words: gas_words(known, vitals),
        full: FullMeaning::Good,
    };
    let streak = Gauge {
        label: "streak".to_owned(),
        level: Some((vitals.failures.into(), vitals.failures_limit.max(1).into())),
        words: format!("{} of {} failed", vitals.failures, vitals.failures_limit),
        full: FullMeaning::Bad,
    };
    let debt = debt_of(vitals).map(debt_gauge);
    [Some(equity), debt, Some(gas), Some(streak)].into_iter().flatten().collect()
}

/// Gauge of a debt's security: empty where it can be liquidated, half full at the policy's minimum.
fn debt_gauge(lending: &LendingVitals) -> Gauge {
    let margin = |hundredths: u64| u128::from(hundredths.saturating_sub(100));
    let full = margin(lending.least).saturating_mul(2).max(1);
    Gauge {
        label: "health".to_owned(),
        level: lending.health.map(|health| (margin(health).min(full), full)),
        words: match lending.health {
            Some(_) => format!("{}, min {}", health_factor(lending.health), health_factor(Some(lending.least))),
            None => "unknown".to_owned(),
        },
        full: FullMeaning::Good,
    }
}

/// Runway of the gas; without one, the gas balance in the native token.
fn gas_words(known: &ScreenContext<'_>, vitals: &Vitals) -> String {
    let held = || {
        // Without a unit the figure would say nothing.
        let coin = known.feed.native_symbols.values().next().or_else(|| {
            let first = known.snapshot?.holdings.first()?.rows.first()?;
            Some(&first.symbol)
        })?;
        vitals.gas_wei.map(|wei| format!("{} {coin}", amount(TokenAmount::ether(wei), 3).trim_end_matches('…')))
    };
    vitals.gas_runway_seconds.map(|left| format!("for {}", age(left))).or_else(held).unwrap_or_default()
}

/// One week, in seconds: the runway at which the gas gauge is full.
const WEEK: u64 = 7 * 86_400;

/// Line of the Golem for narrow terminals: its face, phase and vital signs.
pub(in crate::screens::live) struct FaceLine<'a> {
    pub(in crate::screens::live) theme: &'a Theme,
    pub(in crate::screens::live) known: &'a ScreenContext<'a>,
}

impl Widget for FaceLine<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known } = self;
        let painter = &mut Painter { buffer, theme };
        let name = known.ready.map_or_else(|| "Golem".to_owned(), |ready| ready.name.to_string());
        let phase = phase(known);
        let model = SpriteModel { state: body(known), phase, letters: false };
        painter.render(Sprite::new(model, painter.theme, known.moment()), Rect { width: area.width.min(5), ..area });
        let phase = (sprite::phase_words(phase).to_owned(), sprite::phase_role(phase));
        let mut groups = vec![
            Group { rank: 0, pieces: vec![(format!("{name} "), Role::TextStrong), phase] },
            // The lines below also show what the sprite shows, so this part is dropped first.
            Group::new(4, format!(" {}", body_words(model.state)), Role::Text),
        ];
        // Shorter texts than those of the gauges, so that they fit one line of 80 columns.
        let gauges = vital_gauges(known);
        for (at, (rank, words)) in short_vitals(known).into_iter().enumerate() {
            let role = gauges.get(at).map_or(Role::Text, |gauge| gauge.severity().1);
            let role = if role == Role::StateGood { Role::Text } else { role };
            groups.push(Group::new(rank, format!("   {words}"), role));
        }
        let place = Rect { x: area.x + 6, width: area.width.saturating_sub(6), ..area };
        painter.pieces(place, &chosen(groups, usize::from(place.width)));
    }
}

/// The gauges in the shortest form and in their order, each with its rank in a line that is too short.
fn short_vitals(known: &ScreenContext<'_>) -> Vec<(u8, String)> {
    let Some(vitals) = &known.feed.vitals else { return Vec::new() };
    let equity = match lost(known) {
        Some(Lost { chain: Some(chain), bps, limit_bps }) => {
            format!("equity {chain} {} of {} %", fall(bps), limit_bps / 100)
        }
        Some(Lost { chain: None, bps, limit_bps }) => format!("equity {} of {} %", fall(bps), limit_bps / 100),
        None => format!("equity ? of {} %", vitals.stop_loss_bps / 100),
    };
    let debt = debt_of(vitals).map(|lending| match lending.health {
        Some(_) => format!("health {}", health_factor(lending.health)),
        None => "health ?".to_owned(),
    });
    let gas = format!("gas {}", gas_words(known, vitals).trim_start_matches("for "));
    let streak = format!("streak {}/{}", vitals.failures, vitals.failures_limit);
    let all = [Some((1, equity)), debt.map(|words| (1, words)), Some((3, gas)), Some((2, streak))];
    all.into_iter().flatten().collect()
}

/// Supplies and debts, if something is owed.
fn debt_of(vitals: &Vitals) -> Option<&LendingVitals> {
    vitals.lending.as_ref().filter(|lending| lending.owed != Some(Usd::ZERO))
}
