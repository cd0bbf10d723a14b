//! `bardo completions` and `bardo man`: what a shell and `man` know of the command line, made from its grammar.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::args::Cli;
use super::{CliExit, CommandFailure, print};

/// Prints the completion script of a shell.
pub(super) fn completions(shell: Shell) -> Result<CliExit, CommandFailure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "bardo", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(CliExit::Success)
}

/// Writes a man page of the program and of each subcommand into a folder, which is made where it is missing.
pub(super) fn man(folder: &Path) -> Result<CliExit, CommandFailure> {
    let failed = |error: std::io::Error| format!("cannot write the man pages into {}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
    eprintln!("bardo: wrote the man pages into {0}; read one with `man {0}/bardo.1`", folder.display());
    Ok(CliExit::Success)
}
