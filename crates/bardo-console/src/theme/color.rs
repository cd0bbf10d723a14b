//! Colours of a theme file, and their reduction to the colours of a terminal. Roles decide where they are used.

use ratatui::style::Color;

/// Number of colours that the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// No colour (`NO_COLOR`, or a terminal without colours); bold, dim and reverse remain.
    None,
    /// The sixteen named colours.
    Sixteen,
    /// The 256-colour table of xterm.
    Indexed,
    /// True colour, three bytes per colour.
    True,
}

impl Depth {
    /// Detects the depth from environment variables. `read` looks up a variable, so that tests can replace it.
    ///
    /// `NO_COLOR` counts when present and not empty (<https://no-color.org>).
    pub fn detect(read: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| read(name).filter(|value| !value.is_empty());
        if variable("NO_COLOR").is_some() {
            return Self::None;
        }
        let term = variable("TERM").unwrap_or_default();
        if term == "dumb" {
            return Self::None;
        }
        if variable("COLORTERM").is_some_and(|value| value == "truecolor" || value == "24bit")
            || term.ends_with("-direct")
        {
            return Self::True;
        }
        if term.contains("256color") { Self::Indexed } else { Self::Sixteen }
    }
}

/// Colour names of a theme file, in the order of the terminal's table.
const NAMES: [(&str, Color); 16] = [
    ("black", Color::Black),
    ("red", Color::Red),
    ("green", Color::Green),
    ("yellow", Color::Yellow),
    ("blue", Color::Blue),
    ("magenta", Color::Magenta),
    ("cyan", Color::Cyan),
    ("white", Color::Gray),
    ("bright-black", Color::DarkGray),
    ("bright-red", Color::LightRed),
    ("bright-green", Color::LightGreen),
    ("bright-yellow", Color::LightYellow),
    ("bright-blue", Color::LightBlue),
    ("bright-magenta", Color::LightMagenta),
    ("bright-cyan", Color::LightCyan),
    ("bright-white", Color::White),
];

/// RGB values of xterm for the sixteen names. Terminals differ, but not enough to change the nearest one.
const SIXTEEN: [(u8, u8, u8); 16] = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
];

/// Channel values of the 6×6×6 cube of the 256-colour table.
const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// Parses `#rrggbb`, one of the sixteen names, an index of the 256-colour table, or `default`. `None` for other text.
pub fn parse(text: &str) -> Option<Color> {
    if text == "default" {
        return Some(Color::Reset);
    }
    if let Some(hex) = text.strip_prefix('#') {
        if hex.len() != 6 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let value = u32::from_str_radix(hex, 16).ok()?;
        let [_, red, green, blue] = value.to_be_bytes();
        return Some(Color::Rgb(red, green, blue));
    }
    if let Ok(index) = text.parse::<u8>() {
        return Some(Color::Indexed(index));
    }
    NAMES.iter().find(|(name, _)| *name == text).map(|(_, color)| *color)
}

/// Nearest colour that `depth` can show; `None` for a terminal without colours.
pub fn degrade(color: Color, depth: Depth) -> Option<Color> {
    match (depth, color) {
        (Depth::None, _) => None,
        (Depth::Indexed, Color::Rgb(red, green, blue)) => Some(Color::Indexed(nearest_indexed((red, green, blue)))),
        (Depth::Sixteen, Color::Rgb(..) | Color::Indexed(_)) => {
            let wanted = rgb(color)?;
            let nearest = SIXTEEN.iter().zip(NAMES).min_by_key(|(candidate, _)| distance(**candidate, wanted));
            nearest.map(|(_, (_, color))| color)
        }
        _ => Some(color),
    }
}

/// Red, green and blue of a colour; `None` for the terminal's default, which is unknown.
pub fn rgb(color: Color) -> Option<(u8, u8, u8)> {
    match color {
        Color::Rgb(red, green, blue) => Some((red, green, blue)),
        Color::Indexed(index) => Some(indexed_rgb(index)),
        Color::Reset => None,
        named => NAMES.iter().zip(SIXTEEN).find(|((_, color), _)| *color == named).map(|(_, value)| value),
    }
}

/// Contrast ratio of two colours, from 1 (equal) to 21 (black on white).
///
/// WCAG 2.2, "contrast ratio" and "relative luminance": <https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio>.
pub fn contrast(one: (u8, u8, u8), other: (u8, u8, u8)) -> f64 {
    let (a, b) = (luminance(one), luminance(other));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn luminance((red, green, blue): (u8, u8, u8)) -> f64 {
    let linear = |channel: u8| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

fn indexed_rgb(index: u8) -> (u8, u8, u8) {
    let step = |value: u8| CUBE.get(usize::from(value)).copied().unwrap_or(0);
    match index {
        0..=15 => SIXTEEN.get(usize::from(index)).copied().unwrap_or((0, 0, 0)),
        16..=231 => {
            let place = index - 16;
            (step(place / 36), step(place / 6 % 6), step(place % 6))
        }
        232..=255 => {
            let grey = 8 + 10 * (index - 232);
            (grey, grey, grey)
        }
    }
}

/// Nearest colour of the 256-colour table. The sixteen names are left out, because users change them.
fn nearest_indexed(wanted: (u8, u8, u8)) -> u8 {
    (16..=255u8).min_by_key(|index| distance(indexed_rgb(*index), wanted)).unwrap_or(15)
}

/// Squared colour distance, weighted by the eye's sensitivity near this red ("redmean").
fn distance(one: (u8, u8, u8), other: (u8, u8, u8)) -> u32 {
    let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
    let mean_red = (u32::from(one.0) + u32::from(other.0)) / 2;
    ((512 + mean_red) * square(one.0, other.0)) / 256
        + 4 * square(one.1, other.1)
        + ((767 - mean_red) * square(one.2, other.2)) / 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_in_every_form() {
        assert_eq!(parse("#0a10ff"), Some(Color::Rgb(10, 16, 255)));
        assert_eq!(parse("bright-red"), Some(Color::LightRed));
        assert_eq!(parse("208"), Some(Color::Indexed(208)));
        assert_eq!(parse("default"), Some(Color::Reset));
        for wrong in ["#12345", "#1234567", "#+12345", "256", "rouge", ""] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn degrading_finds_the_nearest() {
        // xterm's table: 196 is #ff0000, 231 is #ffffff, 244 is #808080.
        assert_eq!(degrade(Color::Rgb(255, 0, 0), Depth::Indexed), Some(Color::Indexed(196)));
        assert_eq!(degrade(Color::Rgb(255, 255, 255), Depth::Indexed), Some(Color::Indexed(231)));
        assert_eq!(degrade(Color::Rgb(128, 128, 128), Depth::Indexed), Some(Color::Indexed(244)));
        assert_eq!(degrade(Color::Rgb(10, 12, 14), Depth::Sixteen), Some(Color::Black));
        assert_eq!(degrade(Color::Indexed(231), Depth::Sixteen), Some(Color::White));
        assert_eq!(degrade(Color::Rgb(250, 20, 10), Depth::Sixteen), Some(Color::LightRed));
        assert_eq!(degrade(Color::Red, Depth::None), None);
        assert_eq!(degrade(Color::Reset, Depth::Sixteen), Some(Color::Reset));
        assert_eq!(degrade(Color::Rgb(1, 2, 3), Depth::True), Some(Color::Rgb(1, 2, 3)));
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        assert!((contrast((0, 0, 0), (255, 255, 255)) - 21.0).abs() < 1e-9);
        // #767676 on white is the lightest grey that passes 4.5:1.
        assert!(contrast((0x76, 0x76, 0x76), (255, 255, 255)) >= 4.5);
        assert!(contrast((0x77, 0x77, 0x77), (255, 255, 255)) < 4.5);
    }

    #[test]
    fn the_environment_tells_the_depth() {
        let depth = |pairs: &[(&str, &str)]| {
            Depth::detect(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]), Depth::True);
        assert_eq!(depth(&[("TERM", "xterm-256color")]), Depth::Indexed);
        assert_eq!(depth(&[("TERM", "linux")]), Depth::Sixteen);
        assert_eq!(depth(&[("TERM", "dumb"), ("COLORTERM", "truecolor")]), Depth::None);
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("NO_COLOR", "1")]), Depth::None);
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]), Depth::Indexed);
    }
}
