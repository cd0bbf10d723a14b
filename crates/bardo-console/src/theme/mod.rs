//! Themes: which role of the screen looks how. TOML files with a palette, roles, and inheritance.
//!
//! A role that a theme leaves out falls back along its dots (`badge.play` → `badge` → `text`). A mistake in a
//! theme never stops the console: it is a [`Warning`] with the file and the line, and the rest of the theme holds.
//! Not here: layout, or what a role is used for.

pub mod color;
mod parse;

use std::path::Path;

use bardo_base::regular_file;
use ratatui::style::{Color, Modifier, Style};

pub use color::Depth;
pub use parse::Warning;

/// The largest theme file that is read.
const MAX_BYTES: u64 = 256 << 10;

/// Makes the list of roles once: the enum, its names and the list of all.
macro_rules! roles {
    ($($(#[$doc:meta])* $role:ident = $name:literal,)*) => {
        /// What a piece of the screen means; themes say how each looks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Role { $($(#[$doc])* $role,)* }
        impl Role {
            /// Every role.
            pub const ALL: &'static [Role] = &[$(Role::$role,)*];
            /// The name a theme file uses.
            pub const fn name(self) -> &'static str { match self { $(Role::$role => $name,)* } }
        }
    };
}

roles! {
    /// The ground everything is drawn on.
    Background = "background",
    /// Ordinary text.
    Text = "text",
    /// Labels and what matters less.
    TextDim = "text.dim",
    /// The figure a reader looks for.
    TextStrong = "text.strong",
    /// What the agent says: its own words, which nobody has checked.
    TextAgent = "text.agent",
    /// A panel's title.
    Title = "title",
    /// A panel's frame.
    Border = "border",
    /// The frame of the panel that has the keys.
    BorderFocus = "border.focus",
    /// The frame of a card among others.
    BorderCard = "border.card",
    /// The header line.
    Header = "header",
    /// The badge that says whose money it is, where no closer role is given.
    Badge = "badge",
    /// PLAY MONEY.
    BadgePlay = "badge.play",
    /// TEST MONEY.
    BadgeTest = "badge.test",
    /// REAL MONEY.
    BadgeReal = "badge.real",
    /// PAPER.
    BadgePaper = "badge.paper",
    /// REPLAY.
    BadgeReplay = "badge.replay",
    /// All is well.
    StateGood = "state.good",
    /// Worth a look.
    StateCare = "state.care",
    /// Wrong.
    StateBad = "state.bad",
    /// Rose since the block before.
    PriceUp = "price.up",
    /// Fell since the block before.
    PriceDown = "price.down",
    /// Sparklines and charts.
    Chart = "chart",
    /// What is marked on a chart: now, a fill, a trade.
    ChartMark = "chart.mark",
    /// A phase's word and the sprite's body, where no closer role is given.
    Phase = "phase",
    /// All the policy allows.
    PhaseThriving = "phase.thriving",
    /// Smaller and tighter.
    PhaseCautious = "phase.cautious",
    /// Exits only.
    PhaseDefensive = "phase.defensive",
    /// Last reserves.
    PhaseSurvival = "phase.survival",
    /// Dying, or dead.
    PhaseTerminal = "phase.terminal",
    /// The sprite's shadow side.
    SpriteShade = "sprite.shade",
    /// The sprite's eyes and what glows about it.
    SpriteGlow = "sprite.glow",
    /// A key one can press.
    Key = "key",
    /// The row the keys act on.
    Selection = "selection",
    /// The ground and text of a dialog.
    Dialog = "dialog",
    /// A dialog's frame.
    DialogBorder = "dialog.border",
    /// The mark that the view stands still while the chains go on.
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

/// Whether a theme is meant for a dark or a light room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Light text on a dark ground.
    Dark,
    /// Dark text on a light ground.
    Light,
}

/// A theme, resolved: one style per role, in full colour.
#[derive(Debug, Clone)]
pub struct Theme {
    name: String,
    kind: Kind,
    styles: Vec<Style>,
}

/// A theme that cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum ThemeError {
    /// No theme of that name is built in or in the folder.
    #[error("there is no theme `{name}`; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that would work.
        known: String,
    },
    /// The file is there and cannot be read.
    #[error("the theme file {path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("the theme `{name}` is not valid TOML, line {line}: {message}")]
    Syntax {
        /// The theme's name.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// `inherits` leads back to a theme already on the way.
    #[error("the theme `{name}` inherits itself: {chain}")]
    Circle {
        /// The theme that was asked for.
        name: String,
        /// The way round.
        chain: String,
    },
}

/// The themes that are part of the program.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("dark", include_str!("../../../../themes/dark.toml")),
    ("light", include_str!("../../../../themes/light.toml")),
    ("high-contrast", include_str!("../../../../themes/high-contrast.toml")),
    ("sixteen", include_str!("../../../../themes/sixteen.toml")),
    ("bardo", include_str!("../../../../themes/bardo.toml")),
];

impl Theme {
    /// Loads the theme `name`: from `folder` if there is such a file, else from those built in.
    ///
    /// # Errors
    /// [`ThemeError`] when there is no such theme, its file cannot be read or is not TOML, or it inherits itself.
    pub fn load(name: &str, folder: Option<&Path>) -> Result<(Self, Vec<Warning>), ThemeError> {
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

    /// A theme in which every role has a colour of its own: what was drawn can be told from the cells.
    pub(crate) fn told_apart() -> Self {
        let colour = |at: usize| Color::Rgb(1, 1, u8::try_from(at).unwrap_or(u8::MAX));
        let styles = Role::ALL.iter().map(|role| Style::new().fg(colour(role.index()))).collect();
        Self { name: String::new(), kind: Kind::Dark, styles }
    }

    /// The name it was loaded by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is dark or light.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The style of a role.
    pub fn style(&self, role: Role) -> Style {
        self.styles.get(role.index()).copied().unwrap_or_default()
    }

    /// The same theme in the colours that `depth` can show.
    ///
    /// Without colours, a role that stood out by its ground stands out by reversal.
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

/// The theme for a terminal nobody chose one for: sixteen colours where there are no more, else dark,
/// or light where the terminal says that its ground is (`COLORFGBG`, as rxvt and Konsole set it).
pub fn default_name(depth: Depth, read: impl Fn(&str) -> Option<String>) -> &'static str {
    if depth <= Depth::Sixteen {
        return "sixteen";
    }
    let ground = read("COLORFGBG").and_then(|value| value.rsplit(';').next().and_then(|last| last.parse::<u8>().ok()));
    if matches!(ground, Some(7 | 15)) { "light" } else { "dark" }
}

fn source_of(name: &str, folder: Option<&Path>) -> Result<String, ThemeError> {
    // A name is one path component: a theme cannot point out of its folder.
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
                        // The row the keys act on keeps the colours of what it says.
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

    /// On a ground of the terminal's own nobody can say; where a theme names both colours, they must differ.
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
        for (name, kind) in [("dark", Kind::Dark), ("light", Kind::Light), ("bardo", Kind::Dark)] {
            let theme = built_in(name);
            assert_eq!(theme.kind(), kind);
            let ground = color::rgb(theme.style(Role::Background).bg.unwrap()).unwrap();
            let (on_black, on_white) = (color::contrast(ground, (0, 0, 0)), color::contrast(ground, (255, 255, 255)));
            assert_eq!(on_black < on_white, kind == Kind::Dark, "{name}");
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
