//! The command line's grammar.

use std::path::PathBuf;

use alloy::primitives::B256;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::devnet::block_time;
use bardo_base::config::LogFormat;
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{Category, Phase, Profile, StopLevel};
use bardo_runtime::data::devnets::DevnetName;
use bardo_sandbox::Pace;
use golem_tools::engine::ApprovalMode;

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
    /// Do everything on paper: checked, asked and counted as in earnest, kept between runs, and never signed
    #[arg(long, global = true)]
    pub paper: bool,
    /// Who decides in the Golem: scenario, operator (your words alone), process:COMMAND (a program that speaks JSON lines) or model
    #[arg(long, value_name = "WHICH", global = true)]
    pub brain: Option<String>,
    /// Write the log file as text, or as json: one JSON object per line
    #[arg(long, value_name = "FORMAT", global = true)]
    pub log_format: Option<LogFormat>,
    /// Draw the console with this theme: dark, light, high-contrast, sixteen, bardo, or one of your own
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
    /// Keep the console's devnet under this name, and go on with it the next time: chains, time, market and ledger
    /// [default: it ends with the program]
    #[arg(long, value_name = "NAME")]
    pub data: Option<DevnetName>,
    /// Let nothing on the console's screen move by itself
    #[arg(long)]
    pub no_motion: bool,
    /// Let the console only watch: nothing can be changed from it, and no Golem lives in it
    #[arg(long)]
    pub watch: bool,
    /// Play this show in the console: a name that is built in, or a file
    #[arg(long, value_name = "NAME|FILE")]
    pub scenario: Option<String>,
    /// Give the Golem in the console this role; `bardo tools --archetype NAME` lists what it may call
    #[arg(long, value_name = "NAME")]
    pub archetype: Option<String>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the devnet's two chains as JSON-RPC on loopback, until interrupted
    #[command(
        long_about = "Serve the devnet's two chains as JSON-RPC on loopback, until interrupted.\n\nThe first line of \
        stdout is one JSON object that says where each chain answers and what stands on it. Keys and money are for \
        play: the accounts are those of the well-known development mnemonic."
    )]
    Devnet(DevnetArguments),
    /// Say what works here, what is missing and how to get it
    Doctor,
    /// Call one tool and print its answer as JSON
    Call {
        /// Which tool; `bardo tools` lists them
        tool: String,
        /// Its parameters as JSON, from a file with @FILE, or from stdin with -
        #[arg(value_name = "JSON|@FILE|-")]
        params: Option<String>,
        /// Make the call once, however often it is asked for under this key
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
        /// Go as far as a signature, and stop before it
        #[arg(long)]
        dry_run: bool,
        /// What needs your yes: never is blocked, ask asks here, always passes where the policy lets it
        /// [default: ask on a terminal, else never]
        #[arg(long, value_name = "never|ask|always")]
        approve: Option<ApprovalMode>,
        /// Decide as in this phase, if it is the stricter one
        #[arg(long, value_name = "PHASE")]
        phase: Option<Phase>,
        /// Act with this key, as `bardo keys list` names it; on devnets with development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Read the key's password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
        /// Wait until what was sent has reached its end, however long that takes
        #[arg(long)]
        wait: bool,
    },
    /// List the tools, or tell all about one
    Tools {
        /// Which tool
        name: Option<String>,
        /// Only the tools of this profile
        #[arg(long, conflicts_with = "name")]
        profile: Option<Profile>,
        /// Only the tools of this category
        #[arg(long, conflicts_with = "name")]
        category: Option<Category>,
        /// Only the tools of this archetype
        #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "profile"])]
        archetype: Option<String>,
        /// In which form
        #[arg(long, value_enum, default_value = "table")]
        format: ToolsFormat,
    },
    /// Run a Golem, on the screen or without one; list what it can do; look at its playbook
    Golem {
        #[command(subcommand)]
        action: GolemAction,
    },
    /// Make, bring in and list keys, each in an encrypted file of its own
    #[command(
        long_about = "Make, bring in and list keys, each in an encrypted file of its own.\n\nSecrets are asked for at a \
        prompt that shows nothing, or read from a file descriptor up to the first line's end; never from an argument or \
        the environment. Files are in the form that other wallets read (web3 secret storage, version 3)."
    )]
    Keys {
        #[command(subcommand)]
        action: KeysAction,
    },
    /// Show what an agent may do here, or what each field of a policy means
    Policy {
        #[command(subcommand)]
        action: PolicyAction,
    },
    /// Play a recorded run in the console
    Replay {
        /// The run's journal; the console says on leaving where it is
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// How fast, as a multiple of the recording's own pace
        #[arg(long, value_name = "X", default_value = "1", value_parser = speed)]
        speed: u32,
    },
    /// Stop signing, from any terminal
    Halt {
        /// Why, for whoever finds it stopped
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// How much: pause, exit-only, flatten, halt or revoke; a higher one that is in force stays
        #[arg(long, value_name = "LEVEL", default_value = "halt")]
        level: StopLevel,
    },
    /// Lower the stop ladder, or lift the stop; asks for confirmation and for the password of every key on the terminal
    #[command(
        long_about = "Lower the stop ladder, or lift the stop.\n\nAsks for confirmation on the terminal, and for the \
        password of every key in the data folder. Without a key in it, which is enough for devnets, it asks for none."
    )]
    Resume {
        /// Lower it only so far
        #[arg(long, value_name = "LEVEL")]
        level: Option<StopLevel>,
        /// Read the passwords from this file descriptor, one line for each key by name, instead of asking for them
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// Show what the chain and the ledger say of the account, and go on from where the chain is with your yes
    #[command(
        long_about = "Show what the chain and the ledger say of the account, and go on from where the chain is with your \
        yes.\n\nAn account that something else has sent from signs nothing until then. Allowances that a broken-off \
        action has left, and nonces that nothing was signed with, are shown too, and taken back and filled with your yes."
    )]
    Reconcile {
        /// Which account: a key, as `bardo keys list` names it; on devnets development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Read the key's password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// Read the audit trail: what was asked, found, agreed, signed, and how it ended
    #[command(
        args_conflicts_with_subcommands = true,
        long_about = "Read the audit trail: what was asked, found, agreed, signed, and how it ended.\n\nWith --call, the \
        spans of that call follow its entries: each step from the call to its receipt, with its duration. They are \
        kept for seven days in the log folder (spans.DATE.jsonl), whatever the format and the filter of the log. \
        With --follow only entries are shown."
    )]
    Log {
        /// Go on as entries are made
        #[arg(long)]
        follow: bool,
        /// Only the entries of this call, and then its spans with their durations
        #[arg(long, value_name = "ID")]
        call: Option<CallId>,
        #[command(subcommand)]
        action: Option<LogAction>,
    },
    /// Show what has moved in paper mode, or forget it
    Paper {
        #[command(subcommand)]
        action: PaperAction,
    },
    /// Show or create the configuration
    Config {
        #[command(subcommand)]
        action: ConfigAction,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct DevnetArguments {
    /// Port of the first chain; the second answers on the next one. 0 takes any two that are free
    #[arg(long, value_name = "PORT", default_value_t = 8545)]
    pub port: u16,
    /// Time between blocks, such as 1s or 500ms; 0 makes one per transaction [default: ethereum 2s, base 1s]
    #[arg(long, value_name = "TIME", value_parser = block_time)]
    pub block_time: Option<Pace>,
    /// Decides everything the market does; the same seed gives the same devnet
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Keep the devnet under this name, and go on with it the next time; it keeps its seed [default: it ends with the
    /// program]
    #[arg(long, value_name = "NAME")]
    pub data: Option<DevnetName>,
    #[command(subcommand)]
    pub action: Option<DevnetAction>,
}

/// What can be done to kept devnets.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum DevnetAction {
    /// List the devnets that are kept, with their snapshots
    List,
    /// Delete a kept devnet with its ledger and its snapshots; asks for confirmation on the terminal
    Delete {
        /// Its name
        name: DevnetName,
    },
    /// Copy a kept devnet that nobody uses, with its ledger
    Snapshot {
        /// The devnet's name
        name: DevnetName,
        /// Name of the copy
        label: DevnetName,
    },
    /// Put a copy in the devnet's place, with its ledger; asks for confirmation on the terminal
    Restore {
        /// The devnet's name
        name: DevnetName,
        /// Name of the copy
        label: DevnetName,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ToolsFormat {
    /// For people
    Table,
    /// Everything about each tool
    Json,
    /// As `tools` of a chat completion
    Openai,
    /// As an answer to `tools/list` of the Model Context Protocol
    Mcp,
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum GolemAction {
    /// Play a scenario in the console; headless: events as JSON lines on stdout, and it fails where something did not
    /// come as the scenario expects
    Run {
        /// Which: a name that is built in, or a file
        #[arg(long, value_name = "NAME|FILE", default_value = ::golem::scenario::DEFAULT)]
        scenario: String,
        /// Without a screen
        #[arg(long)]
        headless: bool,
        /// Decides everything the market does
        #[arg(long, value_name = "N", default_value_t = 0)]
        seed: u64,
        /// So many seconds of the show in one second [default: headless as fast as it goes, else 1]
        #[arg(long, value_name = "X", value_parser = clap::value_parser!(u32).range(1..=100))]
        speed: Option<u32>,
        /// Live for so many heartbeats, two seconds apart, however long the show is; with a brain, ask it so many times
        #[arg(long, value_name = "N", requires = "headless", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
        ticks: Option<u64>,
        /// Give the Golem this role; `bardo tools --archetype NAME` lists what it may call
        #[arg(long, value_name = "NAME")]
        archetype: Option<String>,
        /// What needs your approval while a brain leads: never is blocked at once, ask waits for an answer [default: ask]
        #[arg(long, value_name = "never|ask", requires = "headless")]
        approve: Option<ApprovalMode>,
        /// Keep the show's own data folder, below shows/ in the data folder; without it nothing but its recording stays
        #[arg(long)]
        keep: bool,
        /// Let each moment of the show wait for you: headless for a line on stdin, in the console for :step
        #[arg(long)]
        step: bool,
    },
    /// List the kinds of action: the tools behind each, and for one that cannot be had the tool it lacks
    Kinds {
        /// For this role, rather than for all tools there are
        #[arg(long, value_name = "ROLE")]
        archetype: Option<String>,
    },
    /// Print the JSON Schemas of the envelope and of the lines between Bardo and a brain process
    Protocol {
        /// Only this one
        #[arg(value_enum)]
        schema: Option<ProtocolSchema>,
    },
    /// List the roles that a Golem can have, and those whose files are broken with the reason
    Roles,
    /// Show what a Golem has changed in its playbook, or take a change back
    Playbook {
        /// Whose [default: the one that golem.name names]
        #[arg(long, value_name = "ID", global = true)]
        golem: Option<GolemId>,
        #[command(subcommand)]
        action: Option<PlaybookAction>,
    },
}

/// A published schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProtocolSchema {
    /// What every call answers with
    Envelope,
    /// A line that a brain process writes
    FromBrain,
    /// A line that a brain process reads
    ToBrain,
}

/// What can be done to a playbook.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum PlaybookAction {
    /// Take a change back: the section is again as it was before
    Undo {
        /// Which change
        #[arg(value_name = "NUMBER")]
        delta: u64,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum KeysAction {
    /// Make a new key
    New {
        /// What it is to be called: letters, digits, - and _
        name: String,
        /// Read the password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// Bring in a private key, a mnemonic's account or another wallet's key file
    Import {
        /// What it is to be called: letters, digits, - and _
        name: String,
        /// The secret is a mnemonic of English words, not a private key
        #[arg(long, conflicts_with = "keystore")]
        mnemonic: bool,
        /// Which account of the mnemonic, at m/44'/60'/0'/0/INDEX
        #[arg(long, default_value_t = 0, requires = "mnemonic")]
        index: u32,
        /// The key is in this file of another wallet, whose password is the secret
        #[arg(long, value_name = "FILE")]
        keystore: Option<PathBuf>,
        /// Read the secret from this file descriptor
        #[arg(long, value_name = "N")]
        secret_fd: Option<u32>,
        /// Read the password that the key is encrypted with here from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// List the keys
    List,
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum PolicyAction {
    /// Print every field, its value, who set it and who enforces it
    Show,
    /// Print the policy as a documented file, or what one field means
    Explain {
        /// Which field
        field: Option<String>,
    },
    /// Say what the policy makes of a call, without making it: what stands against it, and what would pass
    Check {
        /// Which tool
        tool: String,
        /// Its parameters as JSON, from a file with @FILE, or from stdin with -
        #[arg(value_name = "JSON|@FILE|-")]
        params: Option<String>,
        /// Decide as in this phase
        #[arg(long, value_name = "PHASE")]
        phase: Option<Phase>,
        /// Decide for this key, as `bardo keys list` names it; on devnets for development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
    },
    /// Show what a loosened policy file would change, and let it hold; asks for confirmation on the terminal and, on
    /// networks that are no devnet, for the password of every key
    Accept {
        /// Read the passwords from this file descriptor, one line for each key by name, instead of asking for them
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// Leave a loosened policy file without effect, and put that on record
    Refuse,
    /// Set back what has stopped trading; asks for confirmation on the terminal and, on networks that are no devnet, for
    /// the password of every key
    Reset {
        /// Read the passwords from this file descriptor, one line for each key by name, instead of asking for them
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
        /// breaker: failures in a row count from nothing; high-water: the stop-loss measures from what the account is
        /// worth at its next action
        #[arg(value_enum)]
        what: Reset,
        /// Whose high-water mark: a key, as `bardo keys list` names it; on devnets development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
    },
    /// Show, set or clear the rules that the contract PolicyCage keeps of the account
    Cage {
        #[command(subcommand)]
        action: CageAction,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum CageAction {
    /// Print the account's rules in PolicyCage on each chain, and how they compare with the policy
    Show {
        /// Whose rules: a key, as `bardo keys list` names it; on devnets development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
    },
    /// Set the rules that follow from the policy; asks for approval on the terminal and, on networks that are no devnet,
    /// for the key's password
    Set {
        /// Whose rules: a key, as `bardo keys list` names it; on devnets development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Read the key's password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// Clear the rules: the contract checks nothing of the account, and allows a delegate nothing; asks as `set` does
    Clear {
        /// Whose rules: a key, as `bardo keys list` names it; on devnets development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Read the key's password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
}

/// What can be set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Reset {
    /// The failure breaker
    Breaker,
    /// The most the account was worth
    HighWater,
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum LogAction {
    /// Check that nothing in the trail was changed, taken out, moved or cut off
    Verify {
        /// A head that an earlier check printed: it must still be in the trail
        #[arg(long, value_name = "HASH")]
        head: Option<B256>,
    },
    /// Print the trades of a recorded run as CSV
    Trades {
        /// The run's recording, as it was named on leaving
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum PaperAction {
    /// List what moved on paper of each account's tokens, on every network
    Show,
    /// Forget everything that was done on paper: balances and limits begin again from the chain's
    Reset,
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

/// The argument is no speed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a number from 0.1 to 1000, such as 2 or 0.5")]
struct SpeedError;

/// A pace such as 2 or 0.5, in hundredths.
fn speed(text: &str) -> Result<u32, SpeedError> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let hundredths = format!("{fraction:0<2}");
    let hundredths: u32 = hundredths.get(..2).and_then(|two| two.parse().ok()).ok_or(SpeedError)?;
    let whole: u32 = whole.parse().map_err(|_| SpeedError)?;
    let speed = whole.checked_mul(100).and_then(|whole| whole.checked_add(hundredths)).ok_or(SpeedError)?;
    if (10..=100_000).contains(&speed) { Ok(speed) } else { Err(SpeedError) }
}
