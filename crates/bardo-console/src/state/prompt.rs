//! Commands of the prompt and the palette. Lines that are not commands are sent to the Golem as messages.

use crate::keymap::Action;
use crate::screens::ScreenId;
use bardo_base::chains::{DEVNET_BASE, DEVNET_ETHEREUM};
use bardo_base::model::StopLevel;
use bardo_base::text::{SafeText, nearest};
use bardo_session::handle::{DevnetControl, ReplayControl, SessionCommand};

/// Meaning of a typed line.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptCommand {
    /// Line without any text.
    Nothing,
    /// Command for the session.
    Send(Box<SessionCommand>),
    /// Switches to a screen.
    GoTo(ScreenId),
    /// Action of a key.
    Act(Action),
    /// Shows the list of scenarios.
    Shows,
    /// Asks for the rest of a command that begins like this.
    Begins(&'static str),
    /// Lists the forms of the trade screen.
    Forms,
    /// Opens the form of this tool.
    Form(String),
    /// Plays the current scenario from its start.
    Again,
    /// Command with an error, with a message for the operator.
    Wrong(String),
}

/// Entry of the command palette.
#[derive(Debug, Clone, PartialEq)]
pub struct PaletteEntry {
    /// Text to type for it.
    pub name: String,
    /// Description of the effect.
    pub about: String,
    /// Meaning of the entry.
    pub command: PromptCommand,
}

/// Commands without arguments or with common ones: text to type, and effect.
const ENTRIES: &[(&str, &str)] = &[
    ("halt", "sign only revocations, cancellations and refunds"),
    ("pause", "start no new actions"),
    ("exit-only", "allow only sales and revocations"),
    ("flatten", "sell all holdings; asks first with real money"),
    ("stop", "hold: stop all new signatures, then choose"),
    ("stop revoke", "revoke the Golem's session keys until a restart"),
    ("resume", "lift the stop; asks for a decision"),
    ("paper", "simulate every action, sign nothing"),
    ("paper off", "resume signing; asks for a decision"),
    ("breaker reset", "close the failure breaker; asks for a decision"),
    ("form", "choose a form of the trade screen: form TOOL"),
    ("label", "name an address: label ADDRESS NAME; with --watch its balances are shown"),
    ("mine", "mine a block on ethereum (devnet): mine [BLOCKS] [base]"),
    ("advance 3600", "advance ethereum by an hour (devnet): advance SECONDS [base]"),
    ("market off", "stop the market's trades (devnet)"),
    ("market on", "resume the market's trades (devnet)"),
    ("crash 300", "drop prices by 3 % (devnet): crash BPS"),
    ("spike 300", "raise prices by 3 % for a while (devnet): spike BPS"),
    ("blocks off", "produce blocks only on request (devnet)"),
    ("blocks on", "produce blocks by the clock (devnet)"),
    ("seek 50", "go to the middle of a recording: seek PERCENT"),
    ("scenario", "choose a scenario: scenario NAME"),
    ("restart", "restart the current scenario"),
    ("step", "play the next step of a scenario run with --step"),
    ("export trades", "write all trades to a CSV file"),
    ("help", "list the keys"),
    ("quit", "leave"),
];

/// Commands that stop something. A line that begins with one of them, or nearly, is never sent to the Golem, because
/// the operator expects a stop.
const LADDER: &[&str] = &["stop", "hold", "halt", "pause", "exit-only", "flatten", "revoke"];

/// First word of every command, once each, with its effect.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut last = "";
    ENTRIES.iter().filter_map(move |(name, about)| {
        let word = name.split_whitespace().next()?;
        let known = std::mem::replace(&mut last, word) == word;
        (!known).then_some((word, *about))
    })
}

/// Command that names an address. What it names is checked by the session, as `bardo labels add` does.
fn label(words: &[&str]) -> PromptCommand {
    let watched = words.iter().find_map(|word| match *word {
        "--watch" => Some(true),
        "--no-watch" => Some(false),
        _ => None,
    });
    let mut rest = words.iter().filter(|word| !word.starts_with("--"));
    let (address, name) = (rest.next(), rest.copied().collect::<Vec<_>>().join(" "));
    match address {
        Some(address) if !name.is_empty() => {
            PromptCommand::Send(Box::new(SessionCommand::Label { address: (*address).to_owned(), name, watched }))
        }
        _ => PromptCommand::Wrong("nothing is named: write label ADDRESS NAME, with the whole address".to_owned()),
    }
}

/// Level of the stop ladder by its name, except the last, which has a command of its own.
fn stop_level(word: &str) -> Option<StopLevel> {
    let levels = [StopLevel::Pause, StopLevel::ExitOnly, StopLevel::Flatten, StopLevel::Halt];
    levels.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(word))
}

/// Parses a typed line.
pub fn parse(line: &str) -> PromptCommand {
    let line = line.trim();
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return PromptCommand::Nothing };
    let rest: Vec<&str> = words.collect();
    // Punctuation is ignored: "STOP!" is a stop.
    let verb = first.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
    let send = |command| PromptCommand::Send(Box::new(command));
    let raise = |level, why: &[&str]| {
        let reason = if why.is_empty() { "typed by the operator".to_owned() } else { why.join(" ") };
        send(SessionCommand::Raise { level, reason: SafeText::clean(&reason, 300) })
    };
    if verb == "stop"
        && let Some((level, why)) = rest.split_first().and_then(|(word, why)| Some((stop_level(word)?, why)))
    {
        return raise(level, why);
    }
    match (verb.as_str(), rest.as_slice()) {
        // Session keys stay revoked until a restart, so this step must be typed in full.
        ("stop", [level, why @ ..]) if level.eq_ignore_ascii_case("revoke") => raise(StopLevel::Revoke, why),
        ("stop" | "hold", _) => PromptCommand::Act(Action::Hold),
        ("halt", why) => raise(StopLevel::Halt, why),
        ("pause", why) => raise(StopLevel::Pause, why),
        ("exit-only", why) => raise(StopLevel::ExitOnly, why),
        ("flatten", why) => raise(StopLevel::Flatten, why),
        ("revoke", _) => PromptCommand::Wrong(
            "nothing is revoked and nothing is stopped: `stop revoke` revokes the Golem's session keys; to revoke an \
             allowance, select it and press x"
                .to_owned(),
        ),
        ("resume", []) => send(SessionCommand::AskToLower { level: None }),
        ("paper", [] | ["on"]) => send(SessionCommand::EnterPaper),
        ("paper", ["off"]) => send(SessionCommand::AskToLeavePaper),
        ("breaker", ["reset"]) => send(SessionCommand::AskToResetBreaker),
        ("form", []) => PromptCommand::Forms,
        // More words than a name are for the Golem.
        ("form", [tool]) => PromptCommand::Form((*tool).to_owned()),
        ("label", []) => PromptCommand::Begins("label "),
        ("label", words) => label(words),
        ("step", []) => send(SessionCommand::Step),
        ("scenario", []) => PromptCommand::Shows,
        ("restart", []) => PromptCommand::Again,
        ("scenario", name) => send(SessionCommand::Scenario { name: name.join(" ") }),
        ("mine", rest) => devnet(rest, "1", |chain_id, count| DevnetControl::Mine { chain_id, blocks: count }),
        ("advance", rest) => {
            devnet(rest, "60", |chain_id, seconds| DevnetControl::Advance { chain_id, seconds: seconds.into() })
        }
        ("market", ["on"]) => send(SessionCommand::Devnet(DevnetControl::Market { on: true })),
        ("market", ["off"]) => send(SessionCommand::Devnet(DevnetControl::Market { on: false })),
        ("crash", [bps]) => shock(bps, |bps| DevnetControl::Crash { bps }),
        ("spike", [bps]) => shock(bps, |bps| DevnetControl::Spike { bps }),
        ("seek", [percent]) => match percent.trim_end_matches('%').parse() {
            Ok(percent @ 0..=100) => send(SessionCommand::Replay(ReplayControl::Seek { percent })),
            _ => PromptCommand::Wrong(format!("`{percent}` is not a percentage from 0 to 100")),
        },
        ("blocks", ["on"]) => send(SessionCommand::Devnet(DevnetControl::Blocks { running: true })),
        ("blocks", ["off"]) => send(SessionCommand::Devnet(DevnetControl::Blocks { running: false })),
        ("export", [] | ["trades"]) => PromptCommand::Act(Action::Export),
        ("help", []) => PromptCommand::Act(Action::Help),
        ("quit" | "q", []) => PromptCommand::Act(Action::AskToQuit),
        (word, []) => match ScreenId::ALL.into_iter().find(|screen| screen.name().eq_ignore_ascii_case(word)) {
            Some(screen) => PromptCommand::GoTo(screen),
            None => match near_miss(word) {
                Some(near) => PromptCommand::Wrong(format!(
                    "no command `{word}`; did you mean `{near}`? For a message to the Golem, write more words"
                )),
                None => message_to_golem(line),
            },
        },
        (word, _) => match nearest(word, LADDER.iter().copied()) {
            Some(near) => PromptCommand::Wrong(format!(
                "`{word}` looks like `{near}`; nothing was stopped. For a message to the Golem, begin with another word"
            )),
            None => message_to_golem(line),
        },
    }
}

fn message_to_golem(line: &str) -> PromptCommand {
    PromptCommand::Send(Box::new(SessionCommand::Say { words: SafeText::clean(line, 400) }))
}

/// Command closest to a single mistyped word. A mistyped stop must not become a message to the Golem.
fn near_miss(word: &str) -> Option<&'static str> {
    let names = ENTRIES.iter().filter_map(|(name, _)| name.split_whitespace().next());
    let names = names.chain(LADDER.iter().copied());
    nearest(word, names)
}

fn devnet(rest: &[&str], usual: &str, control: impl FnOnce(u64, u32) -> DevnetControl) -> PromptCommand {
    let chain = if rest.contains(&"base") { DEVNET_BASE } else { DEVNET_ETHEREUM };
    let count = rest.iter().find(|word| **word != "base" && **word != "ethereum").copied().unwrap_or(usual);
    match count.parse() {
        Ok(count) => PromptCommand::Send(Box::new(SessionCommand::Devnet(control(chain, count)))),
        Err(_) => PromptCommand::Wrong(format!("`{count}` is not a number")),
    }
}

fn shock(bps: &str, control: impl FnOnce(u32) -> DevnetControl) -> PromptCommand {
    match bps.parse() {
        Ok(bps @ 1..=9_900) => PromptCommand::Send(Box::new(SessionCommand::Devnet(control(bps)))),
        _ => PromptCommand::Wrong(format!("`{bps}` is not a number of basis points from 1 to 9900")),
    }
}

/// Names that the palette lists besides the commands and screens.
#[derive(Debug, Clone, Default)]
pub struct PaletteNames<'a> {
    /// Names of the scenarios that can be played.
    pub shows: &'a [SafeText],
    /// Name and description of each tool with a form on the trade screen.
    pub forms: Vec<(&'a str, &'a str)>,
}

/// Palette entries whose name or description matches the text letter by letter, closest first. Includes one entry per
/// scenario and per form.
pub fn find(typed: &str, names: &PaletteNames<'_>) -> Vec<PaletteEntry> {
    let shows = names.shows.iter().map(|show| {
        let name = format!("scenario {show}");
        PaletteEntry { about: "play this scenario from its beginning".to_owned(), command: parse(&name), name }
    });
    let forms = names.forms.iter().map(|(tool, about)| PaletteEntry {
        name: format!("form {tool}"),
        about: (*about).to_owned(),
        command: PromptCommand::Form((*tool).to_owned()),
    });
    let commands = ENTRIES.iter().map(|(name, about)| PaletteEntry {
        name: (*name).to_owned(),
        about: (*about).to_owned(),
        command: parse(name),
    });
    let screens = ScreenId::ALL.into_iter().map(|screen| PaletteEntry {
        name: screen.name().to_lowercase(),
        about: "go to this screen".to_owned(),
        command: PromptCommand::GoTo(screen),
    });
    let wanted = typed.trim().to_lowercase();
    // While the scenarios or forms are listed, the entry that lists them is left out.
    let lists = |entry: &PaletteEntry| match entry.command {
        PromptCommand::Shows => wanted == "scenario" && !names.shows.is_empty(),
        PromptCommand::Forms => wanted == "form" && !names.forms.is_empty(),
        _ => false,
    };
    let mut found: Vec<(usize, PaletteEntry)> = commands
        .chain(shows)
        .chain(forms)
        .chain(screens)
        .filter(|entry| !lists(entry))
        .filter_map(|entry| {
            let score = score(&joined(&entry.name), &joined(&wanted))
                .or_else(|| entry.about.to_lowercase().contains(&wanted).then_some(1_000))?;
            Some((score, entry))
        })
        .collect();
    found.sort_by_key(|(score, _)| *score);
    found.into_iter().map(|(_, entry)| entry).collect()
}

/// A name with one sign for what stands between its words: nobody remembers whether a tool has `-`, `_` or a space.
fn joined(name: &str) -> String {
    name.replace(['-', ' '], "_")
}

/// Distance between the letters of `wanted` in `name`; lower is closer. `None` if a letter is missing.
fn score(name: &str, wanted: &str) -> Option<usize> {
    let mut from = 0;
    let mut apart = 0;
    for letter in wanted.chars() {
        let rest = name.get(from..)?;
        let at = rest.find(letter)?;
        apart += at;
        from += at + letter.len_utf8();
    }
    Some(apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_command_is_said_to_the_golem() {
        let PromptCommand::Send(said) = parse("wait for gas, please") else { panic!() };
        assert_eq!(*said, SessionCommand::Say { words: SafeText::clean("wait for gas, please", 400) });
        assert_eq!(parse("  "), PromptCommand::Nothing);
    }

    #[test]
    fn a_mistyped_stop_is_not_said_to_the_golem() {
        assert!(matches!(parse("hatl"), PromptCommand::Wrong(_)));
        assert!(matches!(parse("puase"), PromptCommand::Wrong(_)));
    }

    #[test]
    fn a_stop_with_words_behind_it_stops() {
        let raised = |line: &str| match parse(line) {
            PromptCommand::Send(command) => match *command {
                SessionCommand::Raise { level, reason } => Some((level, reason.to_string())),
                _ => None,
            },
            _ => None,
        };
        for line in ["stop everything now", "Stop!", "STOP, the key is stolen", "hold on", "hold"] {
            assert_eq!(parse(line), PromptCommand::Act(Action::Hold), "{line}");
        }
        assert_eq!(
            raised("stop flatten the feed is wrong"),
            Some((StopLevel::Flatten, "the feed is wrong".to_owned()))
        );
        assert_eq!(raised("stop exit-only").map(|(level, _)| level), Some(StopLevel::ExitOnly));
        assert_eq!(raised("stop revoke key stolen"), Some((StopLevel::Revoke, "key stolen".to_owned())));
        assert_eq!(raised("STOP Revoke"), Some((StopLevel::Revoke, "typed by the operator".to_owned())));
        // A plain `revoke` keeps the session keys, and the message explains how to revoke them.
        for line in ["revoke", "revoke the UNI allowance", "revoke key stolen"] {
            let PromptCommand::Wrong(why) = parse(line) else { panic!("{line}") };
            assert!(why.contains("nothing is stopped") && why.contains("`stop revoke`"), "{why}");
        }
        assert_eq!(raised("Halt: price is wrong"), Some((StopLevel::Halt, "price is wrong".to_owned())));
        assert_eq!(raised("exit-only now").map(|(level, _)| level), Some(StopLevel::ExitOnly));
    }

    #[test]
    fn a_line_that_begins_with_a_mistyped_stop_is_no_remark() {
        for line in ["hlat price is wrong", "sotp everything", "revok the key", "Puase until noon", "flaten all", "stp"]
        {
            assert!(matches!(parse(line), PromptCommand::Wrong(_)), "{line}: {:?}", parse(line));
        }
        for line in ["wait for gas, please", "sell half of the UNI", "why did you stop?"] {
            let said =
                matches!(parse(line), PromptCommand::Send(command) if matches!(*command, SessionCommand::Say { .. }));
            assert!(said, "{line}");
        }
    }

    #[test]
    fn what_loosens_only_asks() {
        assert_eq!(parse("resume"), PromptCommand::Send(Box::new(SessionCommand::AskToLower { level: None })));
        assert_eq!(parse("paper off"), PromptCommand::Send(Box::new(SessionCommand::AskToLeavePaper)));
        let address = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65".to_owned();
        for (line, name, watched) in [
            ("label ADDRESS Bob", "Bob", None),
            ("label ADDRESS Bob, cold wallet --watch", "Bob, cold wallet", Some(true)),
            ("label --no-watch ADDRESS Bob", "Bob", Some(false)),
        ] {
            let label = SessionCommand::Label { address: address.clone(), name: name.to_owned(), watched };
            assert_eq!(parse(&line.replace("ADDRESS", &address)), PromptCommand::Send(Box::new(label)), "{line}");
        }
        assert_eq!(parse("label"), PromptCommand::Begins("label "));
        assert!(matches!(parse("label 0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65"), PromptCommand::Wrong(_)));
        assert_eq!(parse("breaker reset"), PromptCommand::Send(Box::new(SessionCommand::AskToResetBreaker)));
    }

    #[test]
    fn every_entry_of_the_palette_means_something() {
        for (name, _) in ENTRIES {
            assert!(!matches!(parse(name), PromptCommand::Wrong(_) | PromptCommand::Nothing), "{name}");
            let said =
                matches!(parse(name), PromptCommand::Send(command) if matches!(*command, SessionCommand::Say { .. }));
            assert!(!said, "{name}");
        }
    }

    #[test]
    fn the_palette_finds_by_letters_in_order() {
        assert_eq!(
            find("hlt", &PaletteNames::default()).first().map(|entry| entry.name.clone()),
            Some("halt".to_owned())
        );
        assert_eq!(
            find("lgs", &PaletteNames::default()).first().map(|entry| entry.name.clone()),
            Some("logs".to_owned())
        );
        assert!(find("zzzz", &PaletteNames::default()).is_empty());
    }

    #[test]
    fn every_form_has_an_entry_and_the_bare_word_lists_them() {
        assert_eq!(parse("form"), PromptCommand::Forms);
        assert_eq!(parse("form lending_supply"), PromptCommand::Form("lending_supply".to_owned()));
        assert!(matches!(parse("form an opinion of UNI"), PromptCommand::Send(_)), "a remark");
        let forms = vec![("lending_supply", "Supplies a token to Aave."), ("vault_deposit", "Deposits a token.")];
        let names = PaletteNames { shows: &[], forms };
        let found = |typed: &str| find(typed, &names).into_iter().map(|one| one.name).collect::<Vec<_>>();
        for typed in ["lending sup", "lending-sup", "lending_sup"] {
            assert_eq!(found(typed), ["form lending_supply"], "{typed}");
        }
        assert_eq!(found("form "), ["form lending_supply", "form vault_deposit"]);
        assert_eq!(found("supply").first().map(String::as_str), Some("form lending_supply"));
        assert_eq!(found("to aave"), ["form lending_supply"], "words of the description");
    }

    #[test]
    fn every_show_has_an_entry_and_the_bare_word_is_no_remark() {
        assert_eq!((parse("scenario"), parse("restart")), (PromptCommand::Shows, PromptCommand::Again));
        let shows = ["first-tour", "price-moved"].map(|name| SafeText::clean(name, 40));
        let all: Vec<PaletteEntry> = find("scenario ", &PaletteNames { shows: &shows, forms: Vec::new() })
            .into_iter()
            .filter(|one| one.name.contains(' '))
            .collect();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["scenario first-tour", "scenario price-moved"]);
        let play = SessionCommand::Scenario { name: "price-moved".to_owned() };
        assert_eq!(all[1].command, PromptCommand::Send(Box::new(play)));
        for word in ["scenario", "restart", "step"] {
            assert!(names_of_commands().contains(&word), "Tab does not know {word}");
        }
    }

    fn names_of_commands() -> Vec<&'static str> {
        names().map(|(name, _)| name).collect()
    }
}
