//! Gallery of the console's widgets: every card in every state, the gauges, a chart and the sprite, printed as the
//! terminal shows them: `cargo run --example gallery -- [--theme NAME] [--width N] [--lines N] [WIDGET]`.

use std::io::{self, Write};

use bardo::base::model::Phase;
use bardo::console::painter::Painter;
use bardo::console::theme::{Depth, Role, Theme};
use bardo::console::widgets::chart::LineChart;
use bardo::console::widgets::decision::{DecisionDialog, DecisionModel};
use bardo::console::widgets::gauge::GaugeLine;
use bardo::console::widgets::sprite::{self, Sprite, SpriteModel};
use bardo::console::widgets::{Card, samples};
use bardo::fabric::SpriteState;
use crossterm::queue;
use crossterm::style::{Attribute, Print, ResetColor, SetAttribute, SetBackgroundColor, SetForegroundColor};
use ratatui::backend::IntoCrossterm;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

/// Options from the command line.
struct Options {
    theme: String,
    width: u16,
    /// Number of lines of each card; `None` for as many as it needs.
    lines: Option<u16>,
    only: Option<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    let (theme, warnings) = Theme::load(&options.theme, None)?;
    for warning in warnings {
        eprintln!("{warning}");
    }
    let theme = theme.at_depth(Depth::detect(|name| std::env::var(name).ok()));
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let mut out = io::stdout().lock();
    for (widget, state, card) in samples::cards() {
        if wanted(widget) {
            writeln!(out, "{widget} · {state}")?;
            let card = Card::new(&card, &theme, samples::NOW);
            let height = options.lines.unwrap_or_else(|| card.height(options.width));
            show(&mut out, &theme, (options.width, height), |painter, area| painter.render(card, area))?;
        }
    }
    if wanted("decision") {
        for (state, decision) in samples::decisions() {
            writeln!(out, "decision · {state}")?;
            let now = samples::NOW;
            let model = DecisionModel {
                decision: &decision,
                name: Some("Ada"),
                golem: None,
                network: Some("devnet"),
                before: None,
                outcome: None,
                now,
                clock: now.millis,
                read_only: false,
            };
            let height = options.lines.unwrap_or_else(|| model.height(options.width));
            show(&mut out, &theme, (options.width, height), |painter, area| {
                painter.render(DecisionDialog::new(model, &theme), area);
            })?;
        }
    }
    if wanted("gauge") {
        for one in samples::gauges() {
            show(&mut out, &theme, (options.width, 1), |painter, area| {
                painter.render(GaugeLine::new(&one, &theme, 7), area);
            })?;
        }
    }
    if wanted("chart") {
        for lines in [1, 4, 10] {
            let model = samples::chart();
            show(&mut out, &theme, (options.width, lines), |painter, area| {
                painter.render(LineChart::new(&model, &theme, samples::NOW), area);
            })?;
        }
    }
    if wanted("sprite") {
        for phase in Phase::ALL {
            for letters in [false, true] {
                let frame = |painter: &mut Painter<'_>, area: Rect| {
                    for (at, state) in (0..).zip(SpriteState::ALL) {
                        let place = Rect { x: at * 12, width: sprite::COLUMNS, ..area };
                        let model = SpriteModel { state, phase: *phase, letters };
                        painter.render(Sprite::new(model, &theme, samples::NOW), place);
                    }
                };
                writeln!(out, "{}", sprite::phase_words(*phase))?;
                show(&mut out, &theme, (96, sprite::LINES), frame)?;
            }
        }
    }
    Ok(())
}

fn options() -> Result<Options, Box<dyn std::error::Error>> {
    let mut options = Options { theme: "dark".to_owned(), width: 58, lines: None, only: None };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--theme" => options.theme = value()?,
            "--width" => options.width = value()?.parse()?,
            "--lines" => options.lines = Some(value()?.parse()?),
            _ => options.only = Some(argument),
        }
    }
    Ok(options)
}

/// Draws into a buffer of this size and prints it.
fn show(
    out: &mut impl Write,
    theme: &Theme,
    (width, height): (u16, u16),
    draw: impl FnOnce(&mut Painter<'_>, Rect),
) -> io::Result<()> {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    let mut painter = Painter { buffer: &mut buffer, theme };
    painter.fill(area, Role::Background);
    draw(&mut painter, area);
    for row in area.rows() {
        let mut covered = 0;
        for position in row.positions() {
            let Some(cell) = buffer.cell(position) else { continue };
            // The second cell of a wide character is skipped.
            if covered > 0 {
                covered -= 1;
                continue;
            }
            covered = bardo::base::text::width(cell.symbol()).saturating_sub(1);
            queue!(out, SetForegroundColor(cell.fg.into_crossterm()), SetBackgroundColor(cell.bg.into_crossterm()))?;
            if cell.modifier.contains(Modifier::BOLD) {
                queue!(out, SetAttribute(Attribute::Bold))?;
            }
            if cell.modifier.contains(Modifier::REVERSED) {
                queue!(out, SetAttribute(Attribute::Reverse))?;
            }
            queue!(out, Print(cell.symbol()), SetAttribute(Attribute::Reset))?;
        }
        queue!(out, ResetColor, Print("\n"))?;
    }
    queue!(out, Print("\n"))?;
    out.flush()
}
