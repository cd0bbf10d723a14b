//! The real binary, run as a shell runs it.

#[cfg(unix)]
mod across;
mod agents;
mod answers;
#[cfg(unix)]
mod anvil_fork;
#[cfg(unix)]
mod bad_tokens;
#[cfg(unix)]
mod cage;
#[cfg(unix)]
mod call;
#[cfg(unix)]
mod canary;
#[cfg(unix)]
mod clients;
mod config;
#[cfg(unix)]
mod decisions;
#[cfg(unix)]
mod desktop;
#[cfg(unix)]
mod devnet;
#[cfg(unix)]
mod dialect;
mod doctor;
mod documents;
#[cfg(unix)]
mod figures;
#[cfg(unix)]
mod fixture;
#[cfg(unix)]
mod funds;
mod golem;
mod ground;
mod halt;
#[cfg(unix)]
mod hands;
#[cfg(unix)]
mod kept;
#[cfg(unix)]
mod keys;
#[cfg(unix)]
mod lending;
mod month;
mod names;
#[cfg(unix)]
mod notes;
#[cfg(unix)]
mod paper;
#[cfg(unix)]
mod permits;
mod policy;
mod portfolio;
mod positions;
mod quotes;
#[cfg(unix)]
mod rare;
#[cfg(unix)]
mod rehearsal;
mod safes;
mod schedules;
mod schemas;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod session_keys;
mod shell;
mod tools;
#[cfg(unix)]
mod trails;
mod usage;
mod vaults;
#[cfg(unix)]
mod waits;
#[cfg(unix)]
mod writes;

use std::path::Path;

use assert_cmd::Command;

/// The binary with its own home and an empty environment.
fn bardo(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
    command.env_clear().env("BARDO_HOME", home);
    command
}

/// Both streams as text, and the exit code.
fn run(command: &mut Command) -> (String, String, i32) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}
