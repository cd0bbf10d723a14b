//! Subcommands: they parse, call and print. Business rules live elsewhere.
//!
//! Only a command's result goes to stdout. Messages go to stderr, and logs to a file.

/// Writes a line for people to stderr. Unlike the standard macro it does not panic if the reader is gone (`bardo … 2>&1
/// | head`). Control characters are escaped, since many errors contain file names that others chose.
macro_rules! eprintln {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _gone = writeln!(std::io::stderr().lock(), "{}", crate::cli::without_controls(&format!($($what)*)));
    }};
}

mod action_catalog;
mod alerts;
mod answer;
#[cfg(unix)]
mod approve;
mod args;
mod backup;
mod call;
mod config;
mod consent;
mod devnet;
mod dialect;
mod doctor;
mod golem;
mod halt;
mod kept_devnets;
mod keys;
mod labels;
mod log;
mod logs;
mod paper;
mod parameters;
mod password;
mod playbook;
mod pnl;
mod policy;
mod policy_cage;
mod privacy;
mod reconcile;
#[cfg(test)]
mod reference;
mod rehearsal;
mod rehearse;
mod roles;
mod safe;
mod safe_proposals;
mod secret;
#[cfg(unix)]
mod serve;
mod session_keys;
mod session_summary;
mod shell;
mod spans;
mod tools;
mod transactions;
mod wait;

use std::{error::Error, io::Write, path::PathBuf, process::ExitCode};

use clap::Parser;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

use ::golem::archetype::ArchetypeError;
use ::golem::brain::process::confinement::launch;
use ::golem::brain::{BrainChoice, BrainError};
use ::golem::scenario;
use args::{Cli, Command, DevnetArguments, GolemAction, LogAction, ToolsFormat};
use bardo_base::config::{Config, ConfigError, ConfigFlags, Environment, ForkSettings, SettingOrigin};
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_console::source::Source;
use bardo_console::{Attention, ConsoleOptions, Keymap};
use bardo_runtime::OpenError;
use bardo_runtime::account::{SafeOwner, SelectedAccount};
use bardo_runtime::data::DataFolder;
use bardo_runtime::data::devnets::DevnetName;
use bardo_runtime::session::{Session, SessionOptions};
use bardo_session::handle::{SessionSummary, name_addresses};
use golem_chain::network::NetworkPlanError;
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::Catalog;

/// Exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CliExit {
    /// The command succeeded.
    Success = 0,
    /// The command failed.
    Error = 1,
    /// The command line is invalid.
    Usage = 2,
    /// A rule blocks the command.
    Blocked = 3,
    /// The operator rejected the command, or did not answer.
    Rejected = 4,
}

impl From<CliExit> for ExitCode {
    fn from(exit: CliExit) -> Self {
        Self::from(exit as u8)
    }
}

/// Error of a command, with the exit code.
#[derive(Debug)]
struct CommandFailure {
    exit: CliExit,
    error: Box<dyn Error + Send + Sync>,
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for CommandFailure {
    fn from(error: E) -> Self {
        let error = error.into();
        let by_flag = matches!(error.downcast_ref::<ConfigError>(), Some(ConfigError::Flag { .. }))
            || matches!(
                error.downcast_ref::<OpenError>(),
                Some(OpenError::Plan(NetworkPlanError::Unknown { origin, .. })) if origin.contains("--")
            )
            || matches!(
                error.downcast_ref::<BrainError>(),
                Some(BrainError::Unknown { origin, .. } | BrainError::Command { origin, .. }) if origin.contains("--")
            );
        Self { exit: if by_flag { CliExit::Usage } else { CliExit::Error }, error }
    }
}

impl CommandFailure {
    /// Creates the failure for an invalid command line.
    fn usage(message: String) -> Self {
        Self { exit: CliExit::Usage, error: message.into() }
    }
}

/// Escapes control and format characters in a text, except line breaks and tabs.
fn without_controls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.general_category() {
            _ if matches!(letter, '\n' | '\t') => shown.push(letter),
            GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator => shown.extend(letter.escape_default()),
            _ => shown.push(letter),
        }
    }
    shown
}

/// Parses the command line, runs the command, and reports errors on stderr.
pub fn run() -> ExitCode {
    // Must come first: the launcher drops its privileges and executes another program.
    if let Some(exit) = launch::dispatch() {
        return exit;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are results and go to stdout; clap distinguishes them from errors.
            let asked_for = !error.use_stderr();
            let printed = error.print();
            return if asked_for && printed.is_ok() { CliExit::Success } else { CliExit::Usage }.into();
        }
    };
    // A devnet's keys are public, and profilers must be able to read its memory.
    if !matches!(cli.command, Some(Command::Devnet(_))) {
        privacy::keep_memory_private();
    }
    match dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(CommandFailure { exit, error }) => {
            eprintln!("bardo: {error}");
            exit.into()
        }
    }
}

/// Takes the configuration flags of the command line, without those of a subcommand.
fn config_flags(cli: &mut Cli) -> Result<ConfigFlags, CommandFailure> {
    let (holder, residents) = (cli.holder.take(), cli.residents);
    if holder.is_some() && cli.fork.is_none() {
        return Err(CommandFailure::usage("--holder belongs to a rehearsal: add --fork NAME, or remove it".to_owned()));
    }
    Ok(ConfigFlags {
        network: cli.network.take(),
        rpc: std::mem::take(&mut cli.rpc),
        book: cli.book.take(),
        account: None,
        brain: cli.brain.take(),
        archetype: cli.archetype.take(),
        log_format: cli.log_format.take(),
        fork: cli.fork.take().map(|fork| ForkSettings { holder, residents, ..fork }),
    })
}

fn dispatch(mut cli: Cli) -> Result<CliExit, CommandFailure> {
    let environment = Environment::from_process()?;
    let flags = config_flags(&mut cli)?;
    let display = DisplayOptions { theme: cli.theme, no_motion: cli.no_motion, watch: cli.watch, paper: cli.paper };
    if cli.data.is_some() && (cli.command.is_some() || cli.scenario.is_some()) {
        let words = "--data keeps the console's devnet: remove it from other commands and from scenarios; `bardo \
                     devnet` has its own --data NAME";
        return Err(CommandFailure::usage(words.to_owned()));
    }
    // A console with a devnet, a scenario or a rehearsal of its own does not belong to the session that runs already.
    let joins = cli.data.is_none() && cli.scenario.is_none() && !display.paper && flags.fork.is_none();
    match cli.command {
        Some(Command::Devnet(DevnetArguments { action: Some(action), .. })) => {
            kept_devnets::run(&action, &environment, &flags, cli.json)
        }
        Some(Command::Devnet(arguments)) => devnet::run(&arguments, &environment, &flags, cli.json),
        Some(Command::Config { action }) => config::run(&action, &environment, &flags, cli.json),
        Some(Command::Call(arguments)) => call::command(arguments, &environment, flags, cli.paper, cli.json),
        Some(Command::Tools { name, profile, category, archetype, dialect, format }) => {
            let format = if cli.json && format == ToolsFormat::Table { ToolsFormat::Json } else { format };
            match (archetype, dialect) {
                (_, Some(dialect)) => dialect::list(dialect, name.as_deref(), format),
                (Some(role), None) => tools::of_archetype(&role, category, format, &environment, &flags),
                (None, None) => tools::run(name.as_deref(), profile, category, format),
            }
        }
        Some(Command::Golem { action }) => golem_command(action, &environment, flags, display, cli.json),
        Some(Command::Keys { action }) => keys::run(&action, &environment, &flags, cli.json),
        Some(Command::Policy { action }) => policy::run(&action, &environment, &flags, cli.paper, cli.json),
        Some(Command::Halt { reason, level }) => halt::halt(level, reason.as_deref(), &environment, &flags, cli.json),
        Some(Command::Resume { level, password_fd }) => {
            halt::resume(level, password_fd, &environment, &flags, cli.json)
        }
        Some(Command::Reconcile { .. }) if display.paper => {
            let words =
                "reconcile continues from the chain's state, which paper trading does not change: remove --paper";
            Err(CommandFailure::usage(words.to_owned()))
        }
        Some(Command::Reconcile { key, password_fd }) => {
            reconcile::run(password_fd, &environment, &ConfigFlags { account: key, ..flags }, cli.json)
        }
        Some(Command::Transactions { action, key }) => {
            let flags = ConfigFlags { account: key, ..flags };
            transactions::run(action, &environment, flags, cli.json)
        }
        Some(Command::Safe { action, key, password_fd }) => {
            safe_proposals::run(&action, password_fd, &environment, &ConfigFlags { account: key, ..flags }, cli.json)
        }
        Some(Command::Labels { action }) => labels::run(&action, &environment, &flags, cli.json),
        Some(Command::Pnl { by, from, to, csv, reconcile, offline, all_accounts, key }) => {
            let (by, paper, json) = (by.into(), cli.paper, cli.json);
            let options = pnl::PnlOptions { by, from, to, csv, reconcile, offline, all_accounts, paper, json };
            pnl::run(&options, &environment, &ConfigFlags { account: key.or(flags.account), ..flags })
        }
        Some(Command::Log { action: Some(LogAction::Verify { head }), .. }) => {
            log::check(head, &environment, &flags, cli.json)
        }
        Some(Command::Log { action: Some(LogAction::Trades { file }), .. }) => log::trades(&file),
        Some(Command::Log { follow, call, action: None }) => log::show(follow, call, &environment, &flags, cli.json),
        Some(Command::Replay { file, speed }) => replay(&load(&environment, &flags)?, file, speed, display),
        Some(Command::Backup { file, with_keys, force, passphrase_fd }) => {
            let options = backup::BackupFlags { with_keys, force, passphrase_fd };
            backup::make(&file, options, &environment, &flags, cli.json)
        }
        Some(Command::Restore { file, without_config, passphrase_fd }) => {
            backup::restore(&file, !without_config, passphrase_fd, &environment, &flags, cli.json)
        }
        Some(Command::Alerts { action }) => alerts::run(&action, &environment, &flags, cli.json),
        Some(Command::Paper { action }) => paper::run(action, &environment, &flags, cli.json),
        Some(Command::Completions { shell }) => shell::completions(shell),
        Some(Command::Man { folder }) => shell::man(&folder),
        Some(Command::Doctor { rehearse, size }) => {
            doctor::run(&environment, &flags, cli.json, rehearse.then_some(size.as_deref()))
        }
        #[cfg(unix)]
        Some(Command::Serve { end: Some(end), .. }) => serve::end(&load(&environment, &flags)?, end),
        #[cfg(unix)]
        Some(Command::Serve { password_fd, metrics_port, end: None }) => {
            let config = load(&environment, &flags)?;
            let scenarios = scenarios(&config.golem.archetype.value);
            let session = SessionOptions { paper: display.paper, scenarios, ..SessionOptions::default() };
            let password = key_password(&config, &session, password_fd)?;
            serve::run(config, SessionOptions { password, ..session }, metrics_port)
        }
        #[cfg(unix)]
        Some(Command::Attach { stdio: true, .. }) => serve::stdio(&load(&environment, &flags)?, &display),
        #[cfg(unix)]
        Some(Command::Attach { via, .. }) => serve::attach(&load(&environment, &flags)?, via.as_deref(), display),
        #[cfg(unix)]
        Some(Command::Approve { decision, key, password_fd, via, typed_data, signature, deadline }) => approve::run(
            &load(&environment, &flags)?,
            &approve::Options { decision, key, password_fd, via, typed_data, signature, deadline },
        ),
        #[cfg(unix)]
        None if joins && serve::place(&load(&environment, &flags)?).is_served() => {
            serve::attach_plain(&load(&environment, &flags)?, display)
        }
        None => own_console(cli.scenario, cli.data, &environment, &flags, display),
    }
}

/// Opens a console with a session of its own: on the configured network, or with a scenario or a kept devnet.
fn own_console(
    scenario: Option<String>,
    data: Option<DevnetName>,
    environment: &Environment,
    flags: &ConfigFlags,
    display: DisplayOptions,
) -> Result<CliExit, CommandFailure> {
    let show = scenario.map(|name| golem::show(&name, environment, flags)).transpose()?;
    let time = show.as_ref().and_then(golem::time_of);
    let session = SessionOptions { show, time, ..SessionOptions::default() };
    let mut config = golem::load_for(session.show.as_ref(), environment, flags)?;
    if config.fork.is_some() && session.show.is_some() {
        let words = "scenarios run on the devnet: remove --scenario from the rehearsal, or --fork";
        return Err(CommandFailure::usage(words.to_owned()));
    }
    if let Some(name) = data {
        kept_devnets::on_embedded(&config)?;
        kept_devnets::resume_fork(&mut config, &name);
        config.kept_devnet = Some(name.to_string());
    }
    console(config, display, session)
}

/// Runs a subcommand of `bardo golem`.
fn golem_command(
    action: GolemAction,
    environment: &Environment,
    flags: ConfigFlags,
    display: DisplayOptions,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    match action {
        GolemAction::Run { scenario, headless, seed, speed, ticks, step, keep, approve, archetype } => {
            let flags = ConfigFlags { archetype: archetype.or(flags.archetype), ..flags };
            let paper = display.paper;
            let run = golem::RunOptions { scenario, seed, speed, step, ticks, keep, approve, paper };
            if headless {
                return golem::headless(&run, environment, &flags);
            }
            let session = golem::on_screen(&run, environment, &flags)?;
            let config = golem::load_for(session.show.as_ref(), environment, &flags)?;
            console(config, display, session)
        }
        GolemAction::Kinds { archetype } => action_catalog::run(archetype.as_deref(), environment, &flags, json),
        GolemAction::Protocol { schema } => roles::protocol(schema),
        GolemAction::Roles => roles::run(environment, &flags, json),
        GolemAction::Playbook { golem, action } => playbook::run(golem, action, environment, &flags, json),
    }
}

/// Display options of the console, from flags.
struct DisplayOptions {
    theme: Option<String>,
    no_motion: bool,
    watch: bool,
    paper: bool,
}

impl DisplayOptions {
    /// Combines the flags with the configuration's key bindings into the console's options.
    fn options(self, config: &Config, may_suspend: bool) -> Result<ConsoleOptions, CommandFailure> {
        let theme_folder = config.file.parent().map(|folder| folder.join("themes"));
        let wanted = config.keys.iter().map(|(name, keys)| (name.as_str(), keys.value.as_str()));
        let keys = Keymap::with(wanted).map_err(|error| {
            // For two commands on one key, name both lines if both are in the operator's file.
            let named = error.names().into_iter().filter_map(|name| config.keys.get(name));
            let mut lines: Vec<usize> = named
                .filter_map(|keys| match keys.origin {
                    SettingOrigin::File { line } => Some(line),
                    SettingOrigin::Default | SettingOrigin::Environment(_) | SettingOrigin::Flag(_) => None,
                })
                .collect();
            lines.sort_unstable();
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let lines = if lines.is_empty() { String::new() } else { format!(":{}", lines.join(" and ")) };
            CommandFailure::usage(format!("{}{lines}: {error}", config.file.display()))
        })?;
        let attention = match config.attention.as_ref().map(|attention| attention.value.as_str()) {
            Some("bell") => Attention::Bell,
            Some("notify") => Attention::Notify,
            _ => Attention::None,
        };
        let Self { theme, no_motion, watch, .. } = self;
        Ok(ConsoleOptions { theme, theme_folder, no_motion, watch, may_suspend, keys, attention })
    }
}

/// Opens the console on the configured network, or with a scenario.
fn console(config: Config, display: DisplayOptions, session: SessionOptions) -> Result<CliExit, CommandFailure> {
    // Report an unavailable brain or an unusable role here: nothing has been started yet, and stderr keeps the line
    // breaks of the error, which may draw a path from role to role.
    let _found = BrainChoice::of(&config)?;
    known_role(&config)?;
    if !display.watch {
        alerts::check(&config)?;
    }
    // Suspending the process stops the Golem, so it is allowed only with play money. This also reports an unusable
    // network before the console opens.
    let may_suspend = bardo_runtime::policy::is_devnet(&config)?;
    let scenarios = scenarios(&config.golem.archetype.value);
    let session = SessionOptions { watch: display.watch, paper: display.paper, scenarios, ..session };
    let options = display.options(&config, may_suspend)?;
    let _logs = logs::start(&config)?;
    // Asked before the console opens, so that the password never gets near the screen's content.
    let password = key_password(&config, &session, None)?;
    let session = SessionOptions { password, ..session };
    let source: Source = Box::new(move || Session::open(config, session));
    shown(bardo_console::run(&options, source), session_summary::print_summary)
}

/// Names of the scenarios that a session with this role can play: those in real time.
fn scenarios(role: &str) -> Vec<SafeText> {
    let can_play = |name: &&str| {
        scenario::find(name).is_ok_and(|scenario| {
            scenario.tick.is_none() && scenario.archetype.is_none_or(|archetype| archetype == role)
        })
    };
    scenario::names().filter(can_play).map(|name| SafeText::clean(name, 40)).collect()
}

/// Checks that the configured role exists and can be used.
fn known_role(config: &Config) -> Result<(), CommandFailure> {
    let roles = bardo_runtime::roles(config, &Catalog::new(ALL_TOOL_DEFS.iter().copied())?)?;
    let asked = &config.golem.archetype;
    match roles.get(&asked.value) {
        Ok(_) => Ok(()),
        Err(error @ ArchetypeError::Unknown { .. }) => {
            Err(CommandFailure::usage(format!("golem.archetype ({}): {error}", asked.origin)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the password of the signing key, if a key is configured for a network that needs one: from the descriptor,
/// or from the terminal.
fn key_password(
    config: &Config,
    session: &SessionOptions,
    descriptor: Option<u32>,
) -> Result<Option<Password>, CommandFailure> {
    // Read-only and paper sessions need no key.
    if session.watch || session.paper {
        return Ok(None);
    }
    let devnet = bardo_runtime::policy::is_devnet(config).unwrap_or(false);
    let named = bardo_runtime::account::named(config);
    let named = match named {
        // On devnets, a session key alone needs a password, if it acts there.
        Ok(Some(SelectedAccount::Session(session))) if !devnet || !session.is_real() => Some(session.key),
        Ok(Some(SelectedAccount::Key(entry))) if !devnet => Some(entry),
        Ok(Some(SelectedAccount::Safe(safe))) if !devnet => match safe.owner {
            SafeOwner::Key(entry) => Some(entry),
            SafeOwner::Development { .. } => None,
        },
        Ok(Some(_) | None) => None,
        Err(_) if devnet => None,
        Err(error) => return Err(error.message().to_owned().into()),
    };
    let Some(entry) = named else { return Ok(None) };
    let asked = format!("password of the key {} (empty: preview only, nothing is signed)", entry.name);
    let typed = secret::read(descriptor, &asked)?;
    Ok((!typed.is_empty()).then(|| Password::new(typed.as_str().to_owned())))
}

/// Plays a recorded run in the console.
fn replay(config: &Config, file: PathBuf, speed: u32, display: DisplayOptions) -> Result<CliExit, CommandFailure> {
    let options = DisplayOptions { watch: true, ..display }.options(config, true)?;
    let source = bardo_console::source::recording(file, speed)?;
    shown(bardo_console::run(&options, source), |_| Ok(()))
}

/// Converts the end of the console into the command's result.
fn shown(
    ended: Result<Option<SessionSummary>, bardo_console::ConsoleError>,
    say: impl FnOnce(&SessionSummary) -> Result<(), CommandFailure>,
) -> Result<CliExit, CommandFailure> {
    match ended {
        Ok(session_summary) => session_summary.as_ref().map_or(Ok(()), say).map(|()| CliExit::Success),
        Err(error) => {
            let exit = if error.is_usage() { CliExit::Usage } else { CliExit::Error };
            Err(CommandFailure { exit, error: error.into() })
        }
    }
}

/// Writes a result to stdout. A closed pipe (`bardo … | head`) is not an error.
fn print(text: &str) -> Result<(), CommandFailure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Prints a text with the names of keys and labels beside the whole addresses in it.
fn print_named(text: &str, data: &DataFolder) -> Result<(), CommandFailure> {
    print(&name_addresses(text, &bardo_runtime::labels::names(data).all()))
}

/// Writes a result to stdout as one JSON value.
fn print_json(value: &impl serde::Serialize) -> Result<(), CommandFailure> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Loads the configuration, overridden by the flags.
fn load(environment: &Environment, flags: &ConfigFlags) -> Result<Config, CommandFailure> {
    Ok(Config::load(environment, flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_cannot_be_used_are_named_with_their_lines() {
        for (keys, at) in [
            ("freeze = \"F5\"\n# between\npause = \"F5\"", ":3 and 5: F5 is bound to both"),
            ("freeze = \"F5\"\nzoom = \"nokey\"", ":4: keys.zoom: `nokey` is not a key"),
            // The other binding is the built-in one, which has no line in the file.
            ("freeze = \"/\"", ":3: / is bound to both"),
        ] {
            let home = tempfile::tempdir().unwrap();
            std::fs::write(home.path().join("config.toml"), format!("network = \"devnet\"\n[keys]\n{keys}\n")).unwrap();
            let environment = [("BARDO_HOME", home.path().to_str().unwrap())].into_iter().collect();
            let config = load(&environment, &ConfigFlags::default()).unwrap();
            let display = DisplayOptions { theme: None, no_motion: false, watch: false, paper: false };
            let said = display.options(&config, true).unwrap_err().error.to_string();
            assert!(said.contains(&format!("config.toml{at}")), "{said}");
        }
    }
}
