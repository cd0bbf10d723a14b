//! Themes: styles of the screen's roles. TOML files with a palette, roles and inheritance.
//!
//! A role that a theme leaves out falls back along its dots (`badge.play` → `badge` → `text`). A mistake in a theme
//! never stops the console: it is a [`ThemeWarning`] with file and line, and the rest of the theme is used. Layout and
//! the use of roles are handled elsewhere.

pub mod color;
mod parse;

use std::path::Path;

use bardo_base::regular_file;
use ratatui::style::{Color, Modifier, Style};

pub use color::Depth;
pub use parse::ThemeWarning;

/// Maximum size of a theme file, in bytes.
const MAX_BYTES: u64 = 256 << 10;

/// Defines the roles once: the enum, the names, and the list of all roles.
macro_rules! roles {
    ($($(#[$doc:meta])* $role:ident = $name:literal,)*) => {
        /// Meaning of a piece of the screen. Themes assign a style to each role.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Role { $($(#[$doc])* $role,)* }
        impl Role {
            /// All roles, in the order of their declaration.
            pub const ALL: &'static [Role] = &[$(Role::$role,)*];
            /// Name of the role in theme files.
            pub const fn name(self) -> &'static str { match self { $(Role::$role => $name,)* } }
        }
    };
}

roles! {
    /// Background of the whole screen.
    Background = "background",
    /// Text without a special meaning.
    Text = "text",
    /// Labels and less important text.
    TextDim = "text.dim",
    /// Figures that a reader looks for.
    TextStrong = "text.strong",
    /// The agent's own words, which were not checked.
    TextAgent = "text.agent",
    /// Title of a panel.
    Title = "title",
    /// Frame of a panel.
    Border = "border",
    /// Frame of the focused panel.
    BorderFocus = "border.focus",
    /// Frame of a card.
    BorderCard = "border.card",
    /// Line of the header.
    Header = "header",
    /// Badge of the kind of money, if no closer role is set.
    Badge = "badge",
    /// Badge of play money.
    BadgePlay = "badge.play",
    /// Badge of test money.
    BadgeTest = "badge.test",
    /// Badge of real money.
    BadgeReal = "badge.real",
    /// Badge of paper trading.
    BadgePaper = "badge.paper",
    /// Badge of a recording.
    BadgeReplay = "badge.replay",
    /// State without problems.
    StateGood = "state.good",
    /// State that deserves attention.
    StateCare = "state.care",
    /// State that is wrong.
    StateBad = "state.bad",
    /// Price that rose since the previous block.
    PriceUp = "price.up",
    /// Price that fell since the previous block.
    PriceDown = "price.down",
    /// Sparklines and charts.
    Chart = "chart",
    /// Mark on a chart: current time, fill, trade.
    ChartMark = "chart.mark",
    /// Name of a phase and body of the sprite, if no closer role is set.
    Phase = "phase",
    /// Phase in which the policy's full limits apply.
    PhaseThriving = "phase.thriving",
    /// Phase with smaller and tighter limits.
    PhaseCautious = "phase.cautious",
    /// Phase in which only exits are allowed.
    PhaseDefensive = "phase.defensive",
    /// Phase of the last reserves.
    PhaseSurvival = "phase.survival",
    /// Phase in which the Golem dies or is dead.
    PhaseTerminal = "phase.terminal",
    /// Shaded side of the sprite.
    SpriteShade = "sprite.shade",
    /// Eyes and glow of the sprite.
    SpriteGlow = "sprite.glow",
    /// Key that can be pressed.
    Key = "key",
    /// Row that is selected.
    Selection = "selection",
    /// Background and text of a dialog.
    Dialog = "dialog",
    /// Frame of a dialog.
    DialogBorder = "dialog.border",
    /// Mark of a frozen view, while the chains go on.
    Frozen = "frozen",
}

impl Role {
    fn index(self) -> usize {
        self as usize
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|role| role.name() == name)
    }
}

/// Brightness that a theme is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThemeKind {
    /// Light text on a dark background.
    Dark,
    /// Dark text on a light background.
    Light,
}

/// Resolved theme with one style per role, in true colour.
#[derive(Debug, Clone)]
pub struct Theme {
    name: String,
    kind: ThemeKind,
    styles: Vec<Style>,
}

/// Error that makes a theme unusable.
#[derive(Debug, thiserror::Error)]
pub enum ThemeError {
    /// No theme of that name is built in or in the folder.
    #[error("there is no theme `{name}`. Available: {known}")]
    Unknown {
        /// Name of the requested theme.
        name: String,
        /// Names of the built-in themes, separated by commas.
        known: String,
    },
    /// The theme file exists but cannot be read.
    #[error("cannot read the theme file {path}: {source}")]
    Unreadable {
        /// Path of the theme file.
        path: String,
        /// Error of the file system.
        source: std::io::Error,
    },
    /// The file is not valid TOML.
    #[error("the theme `{name}` is not valid TOML, line {line}: {message}")]
    Syntax {
        /// Name of the theme.
        name: String,
        /// Line of the error, starting at 1.
        line: usize,
        /// Message of the TOML parser.
        message: String,
    },
    /// `inherits` leads back to a theme that is already in the chain.
    #[error("the theme `{name}` inherits itself: {chain}")]
    Circle {
        /// Name of the requested theme.
        name: String,
        /// Names along the chain of inheritance, in order.
        chain: String,
    },
}

/// Built-in themes: name and TOML text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("dark", include_str!("../../../../themes/dark.toml")),
    ("light", include_str!("../../../../themes/light.toml")),
    ("high-contrast", include_str!("../../../../themes/high-contrast.toml")),
    ("sixteen", include_str!("../../../../themes/sixteen.toml")),
    ("bardo", include_str!("../../../../themes/bardo.toml")),
];

impl Theme {
    /// Loads the theme `name` from `folder` if the file exists, else from the built-in themes. Returns the theme with
    /// the mistakes that were found.
    ///
    /// # Errors
    /// [`ThemeError`] if there is no such theme, if its file cannot be read or is not TOML, or if it inherits itself.
    pub fn load(name: &str, folder: Option<&Path>) -> Result<(Self, Vec<ThemeWarning>), ThemeError> {
        let mut warnings = Vec::new();
        let mut chain: Vec<String> = Vec::new();
        let mut layers = Vec::new();
        let mut next = Some(name.to_owned());
        while let Some(current) = next.take() {
            if chain.contains(&current) {
                chain.push(current);
                return Err(ThemeError::Circle { name: name.to_owned(), chain: chain.join(" → ") });
            }
            let source = source_of(&current, folder)?;
            let layer = parse::layer(&current, &source, &mut warnings)?;
            next.clone_from(&layer.inherits);
            chain.push(current);
            layers.push(layer);
        }
        layers.reverse();
        let (kind, styles) = parse::resolve(&layers, &mut warnings);
        let place = |theme: &str| chain.iter().position(|name| name == theme);
        warnings.sort_by_key(|warning| (place(&warning.theme), warning.line));
        Ok((Self { name: name.to_owned(), kind, styles }, warnings))
    }

    /// Theme with a distinct colour per role, so that a drawn cell shows its role.
    pub(crate) fn role_colours() -> Self {
        let colour = |at: usize| Color::Rgb(1, 1, u8::try_from(at).unwrap_or(u8::MAX));
        let styles = Role::ALL.iter().map(|role| Style::new().fg(colour(role.index()))).collect();
        Self { name: String::new(), kind: ThemeKind::Dark, styles }
    }

    /// Name by which the theme was loaded.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Brightness that the theme is made for.
    pub fn kind(&self) -> ThemeKind {
        self.kind
    }

    /// Style of a role.
    pub fn style(&self, role: Role) -> Style {
        self.styles.get(role.index()).copied().unwrap_or_default()
    }

    /// Theme reduced to the colours that `depth` can show. Without colours, roles with their own background are
    /// reversed.
    #[must_use]
    pub fn at_depth(&self, depth: Depth) -> Self {
        let ground = self.style(Role::Background).bg;
        let quiet = [ground, self.style(Role::Header).bg, self.style(Role::Dialog).bg, Some(Color::Reset), None];
        let styles = self.styles.iter().map(|style| {
            let mut lowered = *style;
            lowered.fg = style.fg.and_then(|color| color::degrade(color, depth));
            lowered.bg = style.bg.and_then(|color| color::degrade(color, depth));
            if depth == Depth::None && !quiet.contains(&style.bg) {
                lowered = lowered.add_modifier(Modifier::REVERSED);
            }
            lowered
        });
        Self { name: self.name.clone(), kind: self.kind, styles: styles.collect() }
    }
}

/// Default theme for a terminal: `sixteen` for few colours, else `dark`. It is `light` if the terminal reports a light
/// background (`COLORFGBG`, as set by rxvt and Konsole).
pub fn default_name(depth: Depth, read: impl Fn(&str) -> Option<String>) -> &'static str {
    if depth <= Depth::Sixteen {
        return "sixteen";
    }
    let ground = read("COLORFGBG").and_then(|value| value.rsplit(';').next().and_then(|last| last.parse::<u8>().ok()));
    if matches!(ground, Some(7 | 15)) { "light" } else { "dark" }
}

fn source_of(name: &str, folder: Option<&Path>) -> Result<String, ThemeError> {
    // Only plain names are looked up in the folder, so that a theme cannot point outside it.
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if let (Some(folder), true) = (folder, plain) {
        let path = folder.join(format!("{name}.toml"));
        match regular_file::read_text(&path, MAX_BYTES) {
            Ok(source) => return Ok(source),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(ThemeError::Unreadable { path: path.display().to_string(), source }),
        }
    }
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, source)| (*source).to_owned());
    built_in.ok_or_else(|| {
        let known: Vec<_> = BUILT_IN.iter().map(|(known, _)| *known).collect();
        ThemeError::Unknown { name: name.to_owned(), known: known.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in(name: &str) -> Theme {
        let (theme, warnings) = Theme::load(name, None).unwrap();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
        theme
    }

    #[test]
    fn every_role_resolves_in_every_theme_without_a_warning() {
        for (name, _) in BUILT_IN {
            let theme = built_in(name);
            for role in Role::ALL {
                let style = theme.style(*role);
                assert!(style.fg.is_some() || style.bg.is_some(), "{name}: {} has no colour", role.name());
            }
        }
    }

    #[test]
    fn text_can_be_read_on_its_ground() {
        for (name, least_text, least_other) in
            [("dark", 7.0, 4.5), ("light", 7.0, 4.5), ("high-contrast", 15.0, 7.0), ("bardo", 7.0, 4.5)]
        {
            for depth in [Depth::True, Depth::Indexed] {
                let theme = built_in(name).at_depth(depth);
                let ground = theme.style(Role::Background).bg.unwrap();
                for role in Role::ALL {
                    let style = theme.style(*role);
                    let Some(front) = style.fg.and_then(color::rgb) else { continue };
                    let least: f64 = match role {
                        Role::Border | Role::BorderCard | Role::SpriteShade => 1.5,
                        Role::Text | Role::TextStrong => least_text,
                        _ => least_other,
                    };
                    let mut grounds = vec![style.bg.unwrap_or(ground)];
                    if style.bg.is_none() && !matches!(role, Role::Border | Role::BorderCard | Role::SpriteShade) {
                        grounds.push(theme.style(Role::Dialog).bg.unwrap());
                        grounds.push(theme.style(Role::Header).bg.unwrap());
                        // The selected row keeps the colours of its text.
                        grounds.push(theme.style(Role::Selection).bg.unwrap());
                    }
                    for back in grounds {
                        let ratio = color::contrast(front, color::rgb(back).unwrap());
                        let others = if name == "high-contrast" { 7.0 } else { 4.5 };
                        let least = if back == ground { least } else { least.min(others) };
                        assert!(ratio >= least, "{name} at {depth:?}: {} {ratio:.2} < {least}", role.name());
                    }
                }
            }
        }
    }

    /// The terminal's own background is unknown, but where a theme sets both colours, they must be readable.
    #[test]
    fn among_sixteen_colours_what_has_a_ground_can_be_read_on_it() {
        let theme = built_in("sixteen");
        let mut counted = 0;
        for role in Role::ALL {
            let style = theme.style(*role);
            let (Some(front), Some(back)) = (style.fg.and_then(color::rgb), style.bg.and_then(color::rgb)) else {
                continue;
            };
            let ratio = color::contrast(front, back);
            assert!(ratio >= 4.5, "{} {ratio:.2}", role.name());
            counted += 1;
        }
        assert!(counted >= 5, "the badges at least: {counted}");
    }

    #[test]
    fn light_is_light_and_dark_is_dark() {
        for (name, kind) in [("dark", ThemeKind::Dark), ("light", ThemeKind::Light), ("bardo", ThemeKind::Dark)] {
            let theme = built_in(name);
            assert_eq!(theme.kind(), kind);
            let ground = color::rgb(theme.style(Role::Background).bg.unwrap()).unwrap();
            let (on_black, on_white) = (color::contrast(ground, (0, 0, 0)), color::contrast(ground, (255, 255, 255)));
            assert_eq!(on_black < on_white, kind == ThemeKind::Dark, "{name}");
        }
    }

    #[test]
    fn what_is_left_out_falls_back_along_its_dots() {
        let folder = tempfile::tempdir().unwrap();
        let source = "kind = \"dark\"\n[roles]\ntext = \"red\"\nbadge = { fg = \"blue\", bg = \"white\" }\n";
        std::fs::write(folder.path().join("mine.toml"), source).unwrap();
        let (theme, warnings) = Theme::load("mine", Some(folder.path())).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(theme.style(Role::BadgePlay).fg, Some(Color::Blue));
        assert_eq!(theme.style(Role::PriceUp).fg, Some(Color::Red));
    }

    #[test]
    fn mistakes_warn_with_their_line_and_the_rest_holds() {
        let folder = tempfile::tempdir().unwrap();
        let source = "inherits = \"dark\"\n[palette]\nsea = \"#12\"\n[roles]\ntext = \"#ffffff\"\n\"txet\" = \"#fff000\"\nkey = \"seaa\"\ntitle = { fg = \"#010203\", bald = true }\nwhat = 3\n";
        std::fs::write(folder.path().join("mine.toml"), source).unwrap();
        let (theme, warnings) = Theme::load("mine", Some(folder.path())).unwrap();
        let lines: Vec<_> = warnings.iter().map(|warning| warning.line).collect();
        assert_eq!(lines, [3, 6, 7, 8, 9], "{warnings:?}");
        assert!(warnings[1].to_string().contains("mine, line 6: there is no role `txet`"), "{}", warnings[1]);
        assert_eq!(theme.style(Role::Text).fg, Some(Color::Rgb(255, 255, 255)));
        assert_eq!(theme.style(Role::Title).fg, Some(Color::Rgb(1, 2, 3)));
        assert_eq!(theme.style(Role::Key), built_in("dark").style(Role::Key), "a bad colour leaves the inherited one");
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_in_place_of_a_theme_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("mine.toml");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(Theme::load("mine", Some(folder.path())).map(|_| ())));
        let error = told.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for the pipe").unwrap_err();
        assert!(error.to_string().contains("mine.toml"), "{error}");
    }

    #[test]
    fn a_theme_that_cannot_be_used_says_why() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.toml"), "inherits = \"b\"").unwrap();
        std::fs::write(folder.path().join("b.toml"), "inherits = \"a\"").unwrap();
        std::fs::write(folder.path().join("broken.toml"), "kind = \"dark\"\nroles = [\n").unwrap();
        let error = |name: &str| Theme::load(name, Some(folder.path())).unwrap_err().to_string();
        assert_eq!(error("a"), "the theme `a` inherits itself: a → b → a");
        assert!(error("nope").contains("dark, light, high-contrast"), "{}", error("nope"));
        assert!(error("../a").contains("there is no theme"));
        assert!(error("broken").contains("line"), "{}", error("broken"));
    }

    #[test]
    fn without_colours_a_badge_is_reversed_and_text_is_not() {
        let theme = built_in("dark").at_depth(Depth::None);
        for role in Role::ALL {
            let style = theme.style(*role);
            assert_eq!((style.fg, style.bg), (None, None));
        }
        assert!(theme.style(Role::BadgePlay).add_modifier.contains(Modifier::REVERSED));
        assert!(!theme.style(Role::Text).add_modifier.contains(Modifier::REVERSED));
        assert!(!theme.style(Role::Background).add_modifier.contains(Modifier::REVERSED));
    }

    #[test]
    fn the_default_fits_the_terminal() {
        let says = |value: &'static str| move |name: &str| (name == "COLORFGBG").then(|| value.to_owned());
        assert_eq!(default_name(Depth::True, says("0;15")), "light");
        assert_eq!(default_name(Depth::True, says("15;0")), "dark");
        assert_eq!(default_name(Depth::Indexed, |_| None), "dark");
        assert_eq!(default_name(Depth::Sixteen, says("0;15")), "sixteen");
    }
}
