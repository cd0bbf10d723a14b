//! The command line's grammar.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// A terminal from which a person runs an on-chain trading agent.
#[derive(Debug, Parser)]
#[command(name = "bardo", version, disable_help_subcommand = true)]
pub(super) struct Cli {
    /// Work on this network: devnet (two chains inside the process, play money), or a chain such as sepolia
    #[arg(long, value_name = "NAME", global = true)]
    pub network: Option<String>,
    /// Work on the chain behind this endpoint; give it several times for several chains or endpoints
    #[arg(long, value_name = "CHAIN=URL", global = true)]
    pub rpc: Vec<String>,
    /// Read the address book of those endpoints from a file, as `bardo devnet` prints one
    #[arg(long, value_name = "FILE", global = true)]
    pub book: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Say what works here, what is missing and how to get it
    Doctor,
    /// Show or create the configuration
    Config {
        #[command(subcommand)]
        action: ConfigAction,
    },
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum ConfigAction {
    /// Print where the configuration file is, or would be
    Path,
    /// Print every setting and where it comes from
    Show,
    /// Write a configuration file with every setting in it, commented out
    Init,
}
