//! Subcommands: parse, call, print. No rule of the product lives here.
//!
//! Nothing but a command's result goes to stdout; what it has to say besides goes to stderr, and logs to a file.

mod args;
mod call;
mod config;
mod consent;
mod devnet;
mod doctor;
mod farewell;
mod golem;
mod halt;
mod keys;
mod kinds;
mod log;
mod logs;
mod playbook;
mod policy;
mod reconcile;
mod secret;
mod tools;
mod wait;

use std::{error::Error, io::Write, path::PathBuf, process::ExitCode};

use clap::Parser;

use crate::base::config::{Config, ConfigError, Environment, Flags};
use crate::chain::network::PlanError;
use crate::console::ConsoleOptions;
use crate::golem::brain::Choice;
use crate::runtime::session::SessionOptions;
use crate::runtime::{self, OpenError};
use args::{Cli, Command, GolemAction, LogAction, ToolsFormat};

/// How a command ended, as the process says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// Done.
    Success = 0,
    /// Not done.
    Error = 1,
    /// Asked in a way that makes no sense.
    Usage = 2,
    /// A rule stands against it.
    Blocked = 3,
    /// The operator refused, or did not answer.
    Rejected = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command could not do what it was asked to, and with which code it ends.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    error: Box<dyn Error + Send + Sync>,
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let by_flag = matches!(error.downcast_ref::<ConfigError>(), Some(ConfigError::Flag { .. }))
            || matches!(
                error.downcast_ref::<OpenError>(),
                Some(OpenError::Plan(PlanError::Unknown { origin, .. })) if origin.contains("--")
            );
        Self { exit: if by_flag { Exit::Usage } else { Exit::Error }, error }
    }
}

impl Failure {
    /// Asked in a way that makes no sense.
    fn usage(message: String) -> Self {
        Self { exit: Exit::Usage, error: message.into() }
    }
}

/// Parses the command line, runs what it asks for, and reports what went wrong on stderr.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are results and go to stdout; clap knows which is which.
            let asked_for = !error.use_stderr();
            let printed = error.print();
            return if asked_for && printed.is_ok() { Exit::Success } else { Exit::Usage }.into();
        }
    };
    match dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(Failure { exit, error }) => {
            eprintln!("bardo: {error}");
            exit.into()
        }
    }
}

fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let environment = Environment::from_process()?;
    let flags = Flags { network: cli.network, rpc: cli.rpc, book: cli.book, account: None, brain: cli.brain };
    match cli.command {
        Some(Command::Devnet(arguments)) => devnet::run(&arguments, &environment, &flags),
        Some(Command::Config { action }) => config::run(&action, &environment, &flags, cli.json),
        Some(Command::Call { tool, params, idempotency_key, dry_run, approve, phase, key, password_fd, wait }) => {
            let paper = cli.paper;
            let wishes = call::Wishes { idempotency_key, dry_run, approve, phase, password_fd, wait, paper };
            call::run(&tool, params.as_deref(), wishes, &environment, &Flags { account: key, ..flags })
        }
        Some(Command::Tools { name, profile, category, archetype, format }) => {
            let format = if cli.json && format == ToolsFormat::Table { ToolsFormat::Json } else { format };
            match archetype {
                Some(role) => tools::of_archetype(&role, category, format, &environment, &flags),
                None => tools::run(name.as_deref(), profile, category, format),
            }
        }
        Some(Command::Golem { action: GolemAction::Run { scenario, headless, seed, speed } }) => {
            golem::run(&golem::Run { scenario, headless, seed, speed }, &environment, &flags)
        }
        Some(Command::Golem { action: GolemAction::Kinds { archetype } }) => {
            kinds::run(archetype.as_deref(), &environment, &flags, cli.json)
        }
        Some(Command::Golem { action: GolemAction::Playbook { golem, action } }) => {
            playbook::run(golem, action, &environment, &flags, cli.json)
        }
        Some(Command::Keys { action }) => keys::run(&action, &environment, &flags, cli.json),
        Some(Command::Policy { action }) => policy::run(&action, &environment, &flags, cli.json),
        Some(Command::Halt { reason, level }) => halt::halt(level, reason.as_deref(), &environment, &flags, cli.json),
        Some(Command::Resume { level }) => halt::resume(level, &environment, &flags, cli.json),
        Some(Command::Reconcile { key, password_fd }) => {
            reconcile::run(password_fd, &environment, &Flags { account: key, ..flags }, cli.json)
        }
        Some(Command::Log { action: Some(LogAction::Verify { head }), .. }) => {
            log::check(head, &environment, &flags, cli.json)
        }
        Some(Command::Log { follow, call, action: None }) => log::show(follow, call, &environment, &flags, cli.json),
        Some(Command::Replay { file, speed }) => {
            replay(&load(&environment, &flags)?, file, speed, cli.theme, cli.no_motion)
        }
        Some(Command::Doctor) => doctor::run(&environment, &flags, cli.json),
        None => console(load(&environment, &flags)?, cli.theme, cli.no_motion, cli.watch, cli.paper),
    }
}

/// Opens the console on the network that the configuration asks for.
fn console(config: Config, theme: Option<String>, no_motion: bool, watch: bool, paper: bool) -> Result<Exit, Failure> {
    // A brain that cannot be had is better told here than by a Golem without one.
    Choice::of(&config.golem)?;
    let theme_folder = config.file.parent().map(|folder| folder.join("themes"));
    // Stopping the process stops the Golem: only where it trades with play money.
    let may_suspend = runtime::policy::is_devnet(&config).unwrap_or(false);
    let options = ConsoleOptions { theme, theme_folder, no_motion, watch, may_suspend };
    let session = SessionOptions { watch, paper, ..SessionOptions::default() };
    match crate::console::run(&options, config, session) {
        Ok(farewell) => {
            if let Some(farewell) = farewell {
                farewell::say(&farewell)?;
            }
            Ok(Exit::Success)
        }
        Err(error) => {
            let exit = if error.is_usage() { Exit::Usage } else { Exit::Error };
            Err(Failure { exit, error: error.into() })
        }
    }
}

/// Plays a recorded run in the console.
fn replay(config: &Config, file: PathBuf, speed: u32, theme: Option<String>, no_motion: bool) -> Result<Exit, Failure> {
    let theme_folder = config.file.parent().map(|folder| folder.join("themes"));
    let options = ConsoleOptions { theme, theme_folder, no_motion, watch: true, may_suspend: true };
    let source = crate::console::source::recording(file, speed)?;
    match crate::console::run_with(&options, source) {
        Ok(_) => Ok(Exit::Success),
        Err(error) => {
            let exit = if error.is_usage() { Exit::Usage } else { Exit::Error };
            Err(Failure { exit, error: error.into() })
        }
    }
}

/// Writes a result. A reader that has gone (`bardo … | head`) is no error worth words.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes a result as JSON, one object.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// The configuration with the given flags over it.
fn load(environment: &Environment, flags: &Flags) -> Result<Config, Failure> {
    Ok(Config::load(environment, flags)?)
}
