//! The pictures of the README: `cargo run --release --example picture -- [SECONDS] [FOLDER]`.
//!
//! Runs the first tour in a temporary data folder for so many seconds (66 without a number: a decision waits then), and
//! draws the Live screen as SVG, dark and light. Each word is a `text` element of a fixed length at a fixed place, so
//! that columns stay aligned whatever font the viewer has.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::text::width;
use bardo::console::state::{Effect, Input, State};
use bardo::console::theme::{Theme, color};
use bardo::console::view;
use bardo::runtime::session::{Session, SessionOptions};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Rect, Size};
use ratatui::style::{Color, Modifier};
use tokio::time::{Instant, timeout_at};

/// Columns and rows of the picture.
const SIZE: Size = Size { width: 120, height: 40 };
/// Width and height of a cell, in the picture's units.
const CELL: (f64, f64) = (8.4, 18.0);
/// Space around the screen, in the same units.
const MARGIN: f64 = 12.0;

fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let seconds = words.next().map_or(Ok(66), |word| word.parse())?;
    let folder = words.next().map_or_else(|| PathBuf::from("docs/pictures"), PathBuf::from);

    let home = tempfile::tempdir()?;
    let environment = Environment::from_iter([("BARDO_HOME".to_owned(), home.path().display().to_string())]);
    let config = Config::load(&environment, &ConfigFlags::default())?;
    let mut handle = Session::open(config, SessionOptions::default());
    let mut state = State::new(SIZE, now_millis(), true);
    let until = Instant::now() + Duration::from_secs(seconds);
    // The console's own loop, without a terminal: news in, commands out.
    while let Ok(Some(news)) = timeout_at(until, handle.news.recv()).await {
        let mut effects = state.update(Input::Time(now_millis()));
        effects.extend(state.update(Input::News(Box::new(news))));
        for effect in effects {
            if let Effect::Send(sent) = effect {
                handle.commands.send(sent).await?;
            }
        }
    }
    state.update(Input::Time(now_millis()));

    std::fs::create_dir_all(&folder)?;
    for name in ["dark", "light"] {
        let (theme, _) = Theme::load(name, None)?;
        let area = Rect::new(0, 0, SIZE.width, SIZE.height);
        let mut buffer = Buffer::empty(area);
        view::draw(&state, &theme, area, &mut buffer);
        std::fs::write(folder.join(format!("live-{name}.svg")), svg(&buffer))?;
    }
    Ok(())
}

/// The colours of a cell, text first.
fn colors(cell: &Cell) -> (String, String) {
    let hex = |wanted: Color, otherwise: &str| {
        color::rgb(wanted).map_or_else(|| otherwise.to_owned(), |(r, g, b)| format!("#{r:02x}{g:02x}{b:02x}"))
    };
    let (text, reader) = (hex(cell.fg, "#c8c8c8"), hex(cell.bg, "#101010"));
    if cell.modifier.contains(Modifier::REVERSED) { (reader, text) } else { (text, reader) }
}

/// The dots of a braille character, of which charts are made: bit 0 to 7 as in Unicode. Fonts disagree about their
/// width.
fn braille(symbol: &str) -> Option<u32> {
    let letter = u32::from(symbol.chars().next()?);
    (0x2800..0x2900).contains(&letter).then(|| letter - 0x2800)
}

/// The dots of a braille cell as squares.
fn dots_at(dots: u32, column: u16, row: u16, fill: &str) -> String {
    let mut squares = String::new();
    let places = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)];
    for (_, (across, down)) in places.into_iter().enumerate().filter(|(bit, _)| (dots >> bit) & 1 == 1) {
        let x = MARGIN + f64::from(column) * CELL.0 + (0.25 + 0.5 * f64::from(across)) * CELL.0;
        let y = MARGIN + f64::from(row) * CELL.1 + (0.125 + 0.25 * f64::from(down)) * CELL.1;
        _ = writeln!(
            squares,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"1.8\" height=\"1.8\" fill=\"{fill}\"/>",
            x - 0.9,
            y - 0.9
        );
    }
    squares
}

/// Cells that are drawn as one text: a word of letters, or a run of other characters such as lines and braille, whose
/// glyphs often come from another font.
struct Word {
    text: String,
    begins: u16,
    columns: u16,
    letters: bool,
}

impl Word {
    /// Adds the symbol of a cell to the last word, or begins a new one.
    fn take(words: &mut Vec<Self>, symbol: &str, column: u16, columns: u16) {
        if symbol.trim().is_empty() {
            return;
        }
        let letters = symbol.chars().all(|letter| letter.is_ascii() || letter.is_alphanumeric());
        match words.last_mut() {
            Some(word) if word.letters == letters && word.begins + word.columns == column => {
                word.text.push_str(symbol);
                word.columns += columns;
            }
            _ => words.push(Self { text: symbol.to_owned(), begins: column, columns, letters }),
        }
    }
}

fn svg(buffer: &Buffer) -> String {
    let (columns, rows) = (f64::from(buffer.area.width), f64::from(buffer.area.height));
    let (wide, high) = (columns * CELL.0 + 2.0 * MARGIN, rows * CELL.1 + 2.0 * MARGIN);
    // The colour behind most cells is that of the margin.
    let mut grounds: BTreeMap<String, usize> = BTreeMap::new();
    for cell in buffer.content() {
        *grounds.entry(colors(cell).1).or_default() += 1;
    }
    let reader = grounds.into_iter().max_by_key(|(_, count)| *count).map_or_else(String::new, |(reader, _)| reader);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide:.1} {high:.1}\" font-size=\"14\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{reader}\"/>\n"
    );
    for row in 0..buffer.area.height {
        let mut column = 0;
        while column < buffer.area.width {
            let Some(first) = buffer.cell((column, row)) else { break };
            let begins = column;
            let mut words: Vec<Word> = Vec::new();
            // All cells from here that look alike.
            while let Some(cell) = buffer.cell((column, row)) {
                if colors(cell) != colors(first) || cell.modifier != first.modifier {
                    break;
                }
                let columns = u16::try_from(width(cell.symbol()).max(1)).unwrap_or(1);
                match braille(cell.symbol()) {
                    Some(dots) => picture.push_str(&dots_at(dots, column, row, &colors(cell).0)),
                    None => Word::take(&mut words, cell.symbol(), column, columns),
                }
                column += columns;
            }
            let x = |column: u16| MARGIN + f64::from(column) * CELL.0;
            let y = MARGIN + f64::from(row) * CELL.1;
            let (fill, behind) = colors(first);
            if behind != reader {
                let length = f64::from(column - begins) * CELL.0;
                _ = writeln!(
                    picture,
                    "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{:.1}\" fill=\"{behind}\"/>",
                    x(begins),
                    CELL.1
                );
            }
            let bold = if first.modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
            for word in words {
                let text = word.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                _ = writeln!(
                    picture,
                    "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
                     fill=\"{fill}\"{bold}>{text}</text>",
                    x(word.begins),
                    y + CELL.1 * 0.75,
                    f64::from(word.columns) * CELL.0
                );
            }
        }
    }
    picture.push_str("</svg>\n");
    picture
}
