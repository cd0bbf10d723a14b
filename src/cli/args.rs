//! Command-line grammar of the program.

use std::path::PathBuf;
use std::time::Duration;

use alloy::primitives::B256;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::devnet::block_time;
use bardo_accounting::report::Grouping;
use bardo_alerts::ChannelName;
use bardo_base::config::{ForkSettings, LogFormat};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{Category, Phase, Profile, StopLevel};
use bardo_runtime::data::devnets::DevnetName;
use bardo_sandbox::BlockPace;
use golem_tools::engine::ApprovalMode;

/// Terminal program for running an on-chain trading agent
#[derive(Debug, Parser)]
#[command(name = "bardo", version, disable_help_subcommand = true, next_help_heading = "Global options")]
pub(super) struct Cli {
    /// Use this network: devnet (two chains in this process, play money), or a chain such as sepolia
    #[arg(long, value_name = "NAME", global = true)]
    pub network: Option<String>,
    /// Use the chain at this endpoint; repeat the option for more chains or endpoints
    #[arg(long, value_name = "CHAIN=URL", global = true)]
    pub rpc: Vec<String>,
    /// Read the address book of those endpoints from a file, in the form that `bardo devnet` prints
    #[arg(long, value_name = "FILE", global = true)]
    pub book: Option<PathBuf>,
    /// Rehearse on a local copy of this live network at a block, with play money: its contracts, pools, and what you
    /// hold. The network is only read; nothing is sent there
    #[arg(long, value_name = "NAME[=URL][@BLOCK]", global = true, conflicts_with = "network")]
    pub fork: Option<ForkSettings>,
    /// Give the rehearsal's stand-in what this account holds [default: the configured key; without one, 10 of the
    /// native token]
    #[arg(long, value_name = "ADDRESS|KEY", global = true)]
    pub holder: Option<String>,
    /// Let the devnet's traders and UniswapX fillers act on the rehearsal, on the network's own pools and reactors
    #[arg(long, global = true, requires = "fork")]
    pub residents: bool,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Paper trading: check, ask and count as usual, and never sign. The results are kept between runs, except those of a
    /// scenario and of a devnet that ends with Bardo
    #[arg(long, global = true)]
    pub paper: bool,
    /// Decision maker of the Golem: scenario, operator (your commands only), process:COMMAND (a program that exchanges
    /// JSON lines) or model
    #[arg(long, value_name = "WHICH", global = true)]
    pub brain: Option<String>,
    /// Format of the log file: text, or json with one JSON object per line
    #[arg(long, value_name = "FORMAT", global = true)]
    pub log_format: Option<LogFormat>,
    /// Theme of the console: dark, light, high-contrast, sixteen, bardo, or one of your own
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
    /// Keep the console's devnet under this name and resume it the next time: chains, time, market and ledger [default:
    /// it is discarded at exit]
    #[arg(long, value_name = "NAME")]
    pub data: Option<DevnetName>,
    /// Turn off all animations of the console
    #[arg(long)]
    pub no_motion: bool,
    /// Open the console read-only: it can change nothing and runs no Golem
    #[arg(long)]
    pub watch: bool,
    /// Play this scenario in the console: a built-in name or a file
    #[arg(long, value_name = "NAME|FILE")]
    pub scenario: Option<String>,
    /// Role of the Golem in the console; `bardo tools --archetype NAME` lists the tools that it may call
    #[arg(long, value_name = "NAME")]
    pub archetype: Option<String>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the devnet's two chains, or a rehearsal, as JSON-RPC on loopback until interrupted
    #[command(long_about = "Serve the devnet's two chains as JSON-RPC on loopback, until interrupted.\n\nPiped, \
        or with --json, the first line of stdout is one JSON object with the address of each chain and the contracts on \
        it; on a terminal it is a short summary. Keys and money are for play: the accounts are those of the well-known \
        development mnemonic.\n\nWith --fork, one chain is served: a local \
        copy of a live network at a block. The network is only read, what was read is kept in the data folder, and the \
        chain has a local id, so nothing that is signed for it is valid on the live network.")]
    Devnet(DevnetArguments),
    /// Check what works on this machine, and how to fix what does not
    Doctor {
        /// Also rehearse one whole swap on a fork of the network, under its policy, and list what would be different
        /// live
        #[arg(long)]
        rehearse: bool,
        /// Amount of the native token that is swapped [default: `rehearsal.size` of the configuration, 0.01]
        #[arg(long, value_name = "AMOUNT", requires = "rehearse")]
        size: Option<String>,
    },
    /// Run a session without a screen; consoles attach to it, and it outlives them
    #[command(
        long_about = "Run a session without a screen, as the console runs one. `bardo attach`, or `bardo` alone, opens a \
        console on it: several at once, and leaving one of them changes nothing.\n\nThe key's password is asked once, at \
        the start, or read from --password-fd. SIGTERM and SIGINT finish what is signed and end; a second one ends at \
        once."
    )]
    #[cfg(unix)]
    Serve {
        /// Read the key's password from this file descriptor instead of the terminal
        #[arg(long, value_name = "FD")]
        password_fd: Option<u32>,
        /// Serve health and figures for Prometheus at http://127.0.0.1:PORT/metrics and /healthz
        #[arg(long, value_name = "PORT", conflicts_with = "end")]
        metrics_port: Option<u16>,
        /// Ask the running session to end instead
        #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "finish")]
        end: Option<super::serve::End>,
    },
    /// Open a console on the session that `bardo serve` runs
    #[cfg(unix)]
    Attach {
        /// Reach the session through this shell command, such as 'ssh HOST bardo attach --stdio'
        #[arg(long, value_name = "COMMAND", conflicts_with = "stdio")]
        via: Option<String>,
        /// Speak the protocol on stdin and stdout, for a console elsewhere
        #[arg(long)]
        stdio: bool,
    },
    /// Approve a decision as the second operator, with a key that the policy names
    #[command(long_about = "Approve a decision as the second operator, with a key that the policy names \
        (second_approval.approvers).\n\nShows the decision of the session that `bardo serve` runs, here or through --via \
        on another machine, and signs it with a key of this data folder. The signature is bound to exactly this decision \
        and ends with it. The first operator still has to approve it. --typed-data and --signature let another wallet \
        sign.")]
    #[cfg(unix)]
    Approve {
        /// Offer of the decision, or hash of the policy, if several wait
        #[arg(value_name = "DECISION")]
        decision: Option<String>,
        /// Approver's key, by its name in `bardo keys list` [default: the one that the policy names]
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Read the key's password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
        /// Reach the session through this shell command, such as 'ssh HOST bardo attach --stdio --watch'
        #[arg(long, value_name = "COMMAND")]
        via: Option<String>,
        /// Print the typed data (EIP-712) for another wallet to sign, and stop
        #[arg(long, conflicts_with_all = ["signature", "key", "password_fd"])]
        typed_data: bool,
        /// Deliver this signature over the typed data
        #[arg(long, value_name = "0x…", conflicts_with_all = ["key", "password_fd"])]
        signature: Option<String>,
        /// Deadline in the typed data that was signed, for a policy
        #[arg(long, value_name = "MILLISECONDS", requires = "signature")]
        deadline: Option<u64>,
    },
    /// Write ledgers, policies, playbooks and configuration into an encrypted file, while sessions run
    #[command(
        long_about = "Write ledgers, policies, playbooks and configuration into an encrypted file, while sessions \
        run.\n\nThe passphrase is asked twice. The file is a tar archive in age's format: `age -d FILE | tar x` reads it \
        without Bardo. URLs of the configuration keep their host alone, because providers put keys into them. Not in \
        it: recordings, logs, kept devnets, and secrets of alert channels."
    )]
    Backup {
        /// The file, which must not exist
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Include the encrypted key files; asks for confirmation on the terminal
        #[arg(long)]
        with_keys: bool,
        /// Replace the file if it exists
        #[arg(long)]
        force: bool,
        /// Read the passphrase from this file descriptor
        #[arg(long, value_name = "N")]
        passphrase_fd: Option<u32>,
    },
    /// Restore a backup into an empty data folder; the copy is halted until you confirm that the other one is stopped
    #[command(
        long_about = "Restore a backup into an empty data folder; the copy is halted until you confirm that the other \
        one is stopped.\n\nTwo copies of one account would spend the same limits and nonces twice. `bardo resume`, or \
        `:resume` in the console, asks for that confirmation. Existing files of the configuration are never replaced."
    )]
    Restore {
        /// The backup
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Restore the data folder alone, without configuration, policies and roles
        #[arg(long)]
        without_config: bool,
        /// Read the passphrase from this file descriptor
        #[arg(long, value_name = "N")]
        passphrase_fd: Option<u32>,
    },
    /// List rules and channels of the alerts, or send a message to try them
    #[command(
        long_about = "List rules and channels of the alerts, or send a message to try them.\n\nAlerts are sent while a \
        session runs: in the console, by `bardo serve`, and by headless runs. Nothing can be approved through an alert, \
        and replies are not read."
    )]
    Alerts {
        #[command(subcommand)]
        action: AlertsAction,
    },
    /// Call one tool and print its result: a short report on a terminal, JSON when piped or with --json
    Call(CallArguments),
    /// List the tools, or describe one in full
    Tools {
        /// Name of the tool
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
        /// The tools of another agent framework that Bardo answers to
        #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["profile", "category", "archetype"])]
        dialect: Option<Dialect>,
        /// Output format
        #[arg(long, value_enum, default_value = "table")]
        format: ToolsFormat,
    },
    /// Run a Golem with or without a screen, list its possible actions, or show its playbook
    Golem {
        #[command(subcommand)]
        action: GolemAction,
    },
    /// Create, import and list keys, each in an encrypted file of its own
    #[command(
        long_about = "Create, import and list keys, each in an encrypted file of its own.\n\nSecrets are entered at a \
        prompt without echo, or read from a file descriptor up to the end of the first line; never from an argument or \
        the environment. The files use the format of other wallets (Web3 Secret Storage, version 3)."
    )]
    Keys {
        #[command(subcommand)]
        action: KeysAction,
    },
    /// Show what an agent may do, or explain the fields of a policy
    Policy {
        #[command(subcommand)]
        action: PolicyAction,
    },
    /// Play a recorded run in the console
    Replay {
        /// Journal of the run; the console prints its path at exit
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Playback speed, as a multiple of the recorded speed
        #[arg(long, value_name = "X", default_value = "1", value_parser = speed)]
        speed: u32,
    },
    /// Stop signing in all processes on this data folder
    Halt {
        /// Reason that is shown to anyone who finds it stopped
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Stop level: pause, exit-only, flatten, halt or revoke; a higher one in force stays
        #[arg(long, value_name = "LEVEL", default_value = "halt")]
        level: StopLevel,
    },
    /// Lower or lift the stop; asks on the terminal for confirmation and for the password of every key
    #[command(
        long_about = "Lower or lift the stop.\n\nAsks on the terminal for confirmation and for the password of every \
        key in the data folder. A data folder without keys, which is enough for devnets, needs no password."
    )]
    Resume {
        /// Lower the stop to this level instead of lifting it
        #[arg(long, value_name = "LEVEL")]
        level: Option<StopLevel>,
        /// Read the passwords from this file descriptor, one line per key in order of name, instead of asking for them
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// Compare the chain with the ledger for the account, and continue from the chain's state with your approval
    #[command(
        long_about = "Compare the chain with the ledger for the account, and continue from the chain's state with your \
        approval.\n\nAn account whose nonces something else has used signs nothing until then. Allowances left by an \
        interrupted action and unused nonces are also listed; with your approval, the allowances are revoked and the \
        nonces filled."
    )]
    Reconcile {
        /// Key of the account, by its name in `bardo keys list`; on devnets also development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Read the key's password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// Read the audit log: requests, findings, approvals, signatures and outcomes
    #[command(
        args_conflicts_with_subcommands = true,
        long_about = "Read the audit log: requests, findings, approvals, signatures and outcomes.\n\nWith --call, the \
        spans of that call follow its entries: each step from the call to its receipt, with its duration. Spans are \
        kept for seven days in the log folder (spans.DATE.jsonl), independent of the log's format and filter. With \
        --follow, only entries are shown."
    )]
    Log {
        /// Keep printing new entries
        #[arg(long)]
        follow: bool,
        /// Only the entries of this call, followed by its spans with their durations
        #[arg(long, value_name = "ID")]
        call: Option<CallId>,
        #[command(subcommand)]
        action: Option<LogAction>,
    },
    /// Show or reset the results of paper trading
    Paper {
        #[command(subcommand)]
        action: PaperAction,
    },
    /// Show profit and loss: realised and unrealised, gas and fees apart, by trade, day, token, strategy or Golem
    #[command(
        long_about = "Show profit and loss: realised and unrealised, gas and fees apart, by trade, day, token, strategy \
        or Golem.\n\nFirst imports what the account received and gave since the last time: from the events of listed \
        tokens, the receipts of its transactions, and its balances of the native token. Lots are used first in, first \
        out, per account, chain and token; the native token and its wrapped form are one. Prices are those that were \
        witnessed at the time; where none was, the result says so. The sums are those of one account, and of networks \
        with one kind of money: real money, test networks and paper are never added up. With --paper, the results of \
        paper trading.\n\nExits with 1 if a chain could not be read: the result then has only what was imported before."
    )]
    Pnl {
        /// Grouping of the sums; strategy is the tool that traded
        #[arg(long, value_enum, value_name = "WHAT", default_value = "day")]
        by: PnlGrouping,
        /// First day, in UTC
        #[arg(long, value_name = "YYYY-MM-DD", value_parser = super::pnl::day)]
        from: Option<u64>,
        /// Last day, in UTC
        #[arg(long, value_name = "YYYY-MM-DD", value_parser = super::pnl::day)]
        to: Option<u64>,
        /// Write every entry with the columns of tax programs (Koinly's universal format) into a file; - is stdout
        #[arg(long, value_name = "FILE", conflicts_with = "json")]
        csv: Option<PathBuf>,
        /// Compare the books with every balance on the chains, and fail on a difference
        #[arg(long)]
        reconcile: bool,
        /// Read only what is stored already
        #[arg(long)]
        offline: bool,
        /// Sum the entries of all accounts in the ledger, and not only those of the account in use
        #[arg(long)]
        all_accounts: bool,
        /// Key of the account, by its name in `bardo keys list`; on devnets also development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
    },
    /// Show unconfirmed transactions and open orders; speed up, cancel or send again
    #[command(
        long_about = "Show unconfirmed transactions and open orders, with their fees against the chain's base fee, and \
        what waits for them.\n\nSpeeding up signs the same bytes again with higher fees, cancelling a transfer of \
        nothing to oneself; both take the nonce of the waiting transaction, so only one of the two can be included. Each \
        is a decision with its cost, and passes through every check. Sending again signs nothing."
    )]
    Transactions {
        #[command(subcommand)]
        action: Option<TransactionsAction>,
        /// Key of the account, by its name in `bardo keys list`; on devnets also development:N
        #[arg(long, value_name = "NAME", global = true)]
        key: Option<String>,
    },
    /// Proposals of a Safe that needs several owners: collect their signatures, execute, reject
    #[command(
        long_about = "Proposals of a Safe that needs several owners: collect their signatures, execute, reject.\n\nAn action \
        of such a Safe is checked like any other, and then signed by your owner's key instead of sent. Give the exported file \
        to the other owners. Each of them signs it with Bardo (`bardo safe sign FILE`), which checks it again as a whole, or \
        with another wallet; import what they return. Once there are enough signatures, `bardo safe execute` checks \
        everything again and sends it."
    )]
    Safe {
        #[command(subcommand)]
        action: SafeAction,
        /// The Safe as `bardo keys safe` prints it [default: `account` of the configuration]
        #[arg(long, value_name = "SETTING", global = true)]
        key: Option<String>,
        /// Read the key's password from this file descriptor
        #[arg(long, value_name = "N", global = true)]
        password_fd: Option<u32>,
    },
    /// Name addresses, and watch accounts without a key
    #[command(
        long_about = "Name addresses, and watch accounts without a key.\n\nA label stands beside the whole address and \
        never replaces it. A name that imitates a key, a contract, a token or another label is refused, and so is an \
        address with the same first and last digits as a known one. Nothing is sent to an address because it has a label."
    )]
    Labels {
        #[command(subcommand)]
        action: LabelsAction,
    },
    /// Print the completion script of a shell
    #[command(long_about = "Print the completion script of a shell.\n\nFor bash: bardo completions bash > \
        ~/.local/share/bash-completion/completions/bardo. For zsh: a file _bardo in a folder of $fpath. For fish: \
        ~/.config/fish/completions/bardo.fish.")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages of the program and its subcommands into a folder
    Man {
        /// The folder, such as ~/.local/share/man/man1
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Show or create the configuration
    Config {
        #[command(subcommand)]
        action: ConfigAction,
    },
}

#[derive(Debug, Args)]
pub(super) struct CallArguments {
    /// Name of the tool; `bardo tools` lists them
    #[arg(required_unless_present = "from_rehearsal")]
    pub tool: Option<String>,
    /// Parameters: name=value words, or one JSON object, from a file with @FILE, from stdin with -
    #[arg(value_name = "NAME=VALUE|JSON|@FILE|-")]
    pub params: Vec<String>,
    /// Call the tool of another agent framework by its name there; the result has that framework's form
    #[arg(long, value_enum, value_name = "NAME", requires = "tool")]
    pub dialect: Option<Dialect>,
    /// Propose on the live network what this call did on a rehearsal; everything is checked again
    #[arg(long, value_name = "CALL_ID", conflicts_with_all = ["tool", "fork"])]
    pub from_rehearsal: Option<CallId>,
    /// Make retries safe: run the call at most once per data folder under this key
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Stop before signing
    #[arg(long)]
    pub dry_run: bool,
    /// Approval mode: never blocks what needs approval, ask asks on this terminal, always approves where the policy
    /// permits it [default: ask on a terminal, otherwise never]
    #[arg(long, value_name = "never|ask|always")]
    pub approve: Option<ApprovalMode>,
    /// Apply the limits of this phase, if it is stricter
    #[arg(long, value_name = "PHASE")]
    pub phase: Option<Phase>,
    /// Key to act with, by its name in `bardo keys list`; on devnets also development:N
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// Read the key's password from this file descriptor
    #[arg(long, value_name = "N")]
    pub password_fd: Option<u32>,
    /// Wait until everything that was sent has ended, however long it takes
    #[arg(long)]
    pub wait: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct DevnetArguments {
    /// Port of the first chain; the second uses the next one. 0 selects any two free ports
    #[arg(long, value_name = "PORT", default_value_t = 8545)]
    pub port: u16,
    /// Time between blocks, such as 1s or 500ms; 0 makes one block per transaction [default: ethereum 2s, base 1s]
    #[arg(long, value_name = "TIME", value_parser = block_time)]
    pub block_time: Option<BlockPace>,
    /// Seed of the market; the same seed gives the same devnet
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Keep the devnet under this name, with its seed, and resume it the next time [default: it is discarded at exit]
    #[arg(long, value_name = "NAME")]
    pub data: Option<DevnetName>,
    #[command(subcommand)]
    pub action: Option<DevnetAction>,
}

/// Actions on kept devnets.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum DevnetAction {
    /// List the kept devnets with their snapshots
    List,
    /// Delete a kept devnet with its ledger and its snapshots; asks for confirmation on the terminal
    Delete {
        /// Name of the devnet
        name: DevnetName,
    },
    /// Copy a kept devnet that is not in use, with its ledger
    Snapshot {
        /// Name of the devnet
        name: DevnetName,
        /// Name of the copy
        label: DevnetName,
    },
    /// Replace the devnet and its ledger with a copy; asks for confirmation on the terminal
    Restore {
        /// Name of the devnet
        name: DevnetName,
        /// Name of the copy
        label: DevnetName,
    },
}

/// Actions on proposals of Safes.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum SafeAction {
    /// List the proposals of this ledger with their signatures
    List,
    /// Show one proposal: its transactions, who has signed, who is missing
    Show {
        /// Id of the proposal
        #[arg(value_parser = transaction_hash)]
        id: B256,
    },
    /// Write the file with which other owners sign
    Export {
        /// Id of the proposal
        #[arg(value_parser = transaction_hash)]
        id: B256,
        /// The file, which must not exist [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Add the signatures of a file that another owner returned
    Import {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Check a proposal of another owner as a whole, and sign it with your owner's key after your approval
    Sign {
        /// The file, or the id of a proposal in this ledger
        #[arg(value_name = "FILE|ID")]
        proposal: String,
    },
    /// Check everything again and send it, after your approval
    Execute {
        /// Id of the proposal
        #[arg(value_parser = transaction_hash)]
        id: B256,
    },
    /// Reject a proposal
    Reject {
        /// Id of the proposal
        #[arg(value_parser = transaction_hash)]
        id: B256,
    },
}

/// Actions on transactions under way.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum TransactionsAction {
    /// List them; the same as without an action
    List,
    /// Sign a waiting transaction again with higher fees
    SpeedUp {
        /// Hash of the transaction
        #[arg(value_parser = transaction_hash)]
        hash: B256,
        #[command(flatten)]
        how: ReplacementFlags,
    },
    /// Cancel a waiting transaction by a transfer of nothing to the account itself
    Cancel {
        /// Hash of the transaction
        #[arg(value_parser = transaction_hash)]
        hash: B256,
        #[command(flatten)]
        how: ReplacementFlags,
    },
    /// Send the signed bytes of a waiting transaction to all endpoints again
    SendAgain {
        /// Hash of the transaction
        #[arg(value_parser = transaction_hash)]
        hash: B256,
    },
}

/// Options of a replacement.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ReplacementFlags {
    /// Stop before signing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Approval mode: never blocks it, ask asks on this terminal, always approves on devnets only [default: ask on a
    /// terminal, otherwise never]
    #[arg(long, value_name = "never|ask|always")]
    pub(super) approve: Option<ApprovalMode>,
    /// Read the key's password from this file descriptor
    #[arg(long, value_name = "N")]
    pub(super) password_fd: Option<u32>,
}

/// Actions on labels.
#[derive(Debug, Clone, Subcommand)]
pub(super) enum LabelsAction {
    /// Name an address, or rename it
    Add {
        /// The address: 0x and 40 hexadecimal digits
        address: String,
        /// The name, at most 40 characters
        name: String,
        /// Show its balances on Portfolio; nothing is ever signed for it, and it counts in no limit
        #[arg(long, conflicts_with = "no_watch")]
        watch: bool,
        /// End watching. Without this and --watch, a renamed label stays as it is
        #[arg(long)]
        no_watch: bool,
    },
    /// List the labels and the own accounts
    List,
    /// Remove a label by its name or its address
    Remove {
        /// Name or address
        #[arg(value_name = "NAME|ADDRESS")]
        which: String,
    },
}

/// Grouping of profit and loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PnlGrouping {
    /// By action, or by transaction where Bardo did nothing
    Trade,
    /// By day in UTC
    Day,
    /// By chain and token
    Token,
    /// By the tool that traded
    Strategy,
    /// By the Golem that acted
    Golem,
}

impl From<PnlGrouping> for Grouping {
    fn from(grouping: PnlGrouping) -> Self {
        match grouping {
            PnlGrouping::Trade => Self::Trade,
            PnlGrouping::Day => Self::Day,
            PnlGrouping::Token => Self::Token,
            PnlGrouping::Strategy => Self::Strategy,
            PnlGrouping::Golem => Self::Golem,
        }
    }
}

/// Agent framework whose tool catalog Bardo answers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Dialect {
    /// Almanak's agent tools, package 2.29.2
    Almanak,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ToolsFormat {
    /// Table for reading
    Table,
    /// Complete description of each tool
    Json,
    /// The `tools` array of a chat completion
    Openai,
    /// Response to `tools/list` of the Model Context Protocol
    Mcp,
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum GolemAction {
    /// Play a scenario in the console; headless: print events as JSON lines, and fail if an expected event does not
    /// occur
    Run {
        /// Built-in name or file of the scenario
        #[arg(long, value_name = "NAME|FILE", default_value = ::golem::scenario::DEFAULT)]
        scenario: String,
        /// Run without a screen
        #[arg(long)]
        headless: bool,
        /// Seed of the market
        #[arg(long, value_name = "N", default_value_t = 0)]
        seed: u64,
        /// Scenario seconds per second [default: headless as fast as possible, otherwise 1]
        #[arg(long, value_name = "X", value_parser = clap::value_parser!(u32).range(1..=100))]
        speed: Option<u32>,
        /// Run for this number of heartbeats, two seconds apart, whatever the scenario's length; with a brain, end
        /// after this number of decisions
        #[arg(long, value_name = "N", requires = "headless", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
        ticks: Option<u64>,
        /// Role of the Golem; `bardo tools --archetype NAME` lists the tools that it may call
        #[arg(long, value_name = "NAME")]
        archetype: Option<String>,
        /// Approval mode with a brain: never blocks at once what needs approval, ask asks on this terminal [default: ask
        /// on a terminal, otherwise never]
        #[arg(long, value_name = "never|ask", requires = "headless")]
        approve: Option<ApprovalMode>,
        /// Keep the scenario's own data folder, under shows/ in the data folder; otherwise only its recording is kept
        #[arg(long)]
        keep: bool,
        /// Wait at each step of the scenario: headless for a line on stdin, in the console for :step
        #[arg(long)]
        step: bool,
    },
    /// List the kinds of action with the tools that each one needs, and the missing tool for unavailable ones
    Kinds {
        /// List them for this role instead of for all tools
        #[arg(long, value_name = "ROLE")]
        archetype: Option<String>,
    },
    /// Print the JSON Schemas of the response envelope and of the messages between Bardo and a brain process
    Protocol {
        /// Print only this schema
        #[arg(value_enum)]
        schema: Option<ProtocolSchema>,
    },
    /// List the roles of a Golem, and the broken role files with the reason
    Roles,
    /// Show the changes that a Golem has made to its playbook, or undo one
    Playbook {
        /// Id of the Golem [default: the one in golem.name]
        #[arg(long, value_name = "ID", global = true)]
        golem: Option<GolemId>,
        #[command(subcommand)]
        action: Option<PlaybookAction>,
    },
}

/// Published JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProtocolSchema {
    /// Response envelope of every call
    Envelope,
    /// Message from a brain process
    FromBrain,
    /// Message to a brain process
    ToBrain,
}

/// Actions on a playbook.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum PlaybookAction {
    /// Undo a change: restore the section as it was before
    Undo {
        /// Number of the change
        #[arg(value_name = "NUMBER")]
        delta: u64,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum KeysAction {
    /// Create a new key
    New {
        /// Name of the key: letters, digits, - and _
        name: String,
        /// Read the password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// Import a private key, an account of a mnemonic, or another wallet's key file
    Import {
        /// Name of the key: letters, digits, - and _
        name: String,
        /// The secret is a mnemonic of English words instead of a private key
        #[arg(long, conflicts_with = "keystore")]
        mnemonic: bool,
        /// Index of the mnemonic's account, at m/44'/60'/0'/0/INDEX
        #[arg(long, default_value_t = 0, requires = "mnemonic")]
        index: u32,
        /// Import this key file of another wallet; the secret is its password
        #[arg(long, value_name = "FILE")]
        keystore: Option<PathBuf>,
        /// Read the secret from this file descriptor
        #[arg(long, value_name = "N")]
        secret_fd: Option<u32>,
        /// Read the password for the new key file from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// Add a key that is on a wallet server, which signs what Bardo asks of it
    #[command(
        long_about = "Add a key that is on a wallet server, which signs what Bardo asks of it.\n\nThe server must speak the \
        published shape of Privy's wallet API. Its credential is stored in an encrypted file like a key, and every \
        signature that it returns is compared with what was asked. Select it with account = \"NAME\" or --key NAME."
    )]
    Server {
        /// Name of the key: letters, digits, - and _
        name: String,
        /// Base URL of the server, such as https://api.privy.io
        #[arg(long)]
        url: String,
        /// Id of the application at the server
        #[arg(long, value_name = "ID")]
        app_id: String,
        /// Id of the wallet at the server
        #[arg(long, value_name = "ID")]
        wallet_id: String,
        /// Read the application's secret from this file descriptor
        #[arg(long, value_name = "N")]
        secret_fd: Option<u32>,
        /// Read the password for the new file from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// List the keys
    List,
    /// Show a Safe as it is on chain, and print the setting that binds it so
    #[command(
        long_about = "Show a Safe as it is on chain, and print the setting that binds it so.\n\nA Safe 1.4.1 that needs one owner \
        acts through the key of that owner: every transaction is the owner's call of the Safe, and the owner pays for gas. Set \
        account (or --key) to the printed setting. It contains a fingerprint of owners, threshold, modules, guard, fallback \
        handler and code: if any of them changes, Bardo signs nothing until you bind the Safe again."
    )]
    Safe {
        /// Address of the Safe [default: on a devnet, the Safe of development:0]
        address: Option<alloy::primitives::Address>,
        /// Owner that acts: the name of a key, or development:N on a devnet
        #[arg(long)]
        owner: String,
        /// Chain of the Safe [default: the first connected chain]
        #[arg(long)]
        chain: Option<String>,
        /// Bind it although it has modules, which act without its owners, or a guard
        #[arg(long)]
        accept: bool,
    },
    /// Session keys, which act for an owner within what the owner has signed
    #[command(
        long_about = "Session keys, which act for an owner within what the owner has signed.\n\nA session key calls the \
        owner's account through the delegation framework (EIP-7702 and ERC-7710). It can do only what the owner's \
        delegation permits, even if it is stolen. Draft one, let the owner's wallet sign the typed data, accept the \
        signature, and select it with account = \"session:ID\" or --key session:ID."
    )]
    Session {
        #[command(subcommand)]
        action: SessionKeyAction,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum SessionKeyAction {
    /// Create a session key, and print the delegation that its owner has to sign
    Draft(DraftArguments),
    /// Accept the owner's signature; on a devnet, the owner may be an account of the development mnemonic
    Accept {
        /// Id of the session key
        id: String,
        /// Signature of the owner over the typed data, in hexadecimal [default: on a devnet, the owner signs here after
        /// a confirmation on the terminal]
        signature: Option<String>,
        /// Read the session key's password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// List the session keys of all ledgers, as their rows claim; a row is authenticated when its key signs
    List,
    /// Revoke session keys for good; needs no password, and the owner disables the delegation on chain
    Revoke {
        /// Ids of the session keys, as `list` shows them
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// Revoke every session key in the data folder
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        /// Reason for the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(super) struct DraftArguments {
    /// Owner of the account: an address, or development:N on a devnet
    #[arg(long, value_name = "ADDRESS")]
    pub owner: String,
    /// Chain that it acts on [default: the first one]
    #[arg(long, value_name = "NAME")]
    pub chain: Option<String>,
    /// Token that it may swap through the Universal Router, and the largest loss of it in one call: approvals for Permit2
    /// and, there, for the router alone, and the router's execution; repeat the option for more tokens
    #[arg(long, value_name = "TOKEN=AMOUNT", conflicts_with_all = ["allow", "method"])]
    pub swap: Vec<String>,
    /// Contract that it may call: an address, a token's symbol, or a name of the chain's address book such as
    /// universalRouter; repeat the option for more
    #[arg(long, value_name = "CONTRACT", required_unless_present = "swap")]
    pub allow: Vec<String>,
    /// Function that it may call, such as approve(address,uint256), or a selector [default: every function]
    #[arg(long, value_name = "FUNCTION")]
    pub method: Vec<String>,
    /// Largest loss of a token by the owner in one call; repeat the option for more tokens
    #[arg(long, value_name = "TOKEN=AMOUNT")]
    pub max_loss: Vec<String>,
    /// Largest amount of the native token that it may send with a call
    #[arg(long, value_name = "AMOUNT", default_value = "0")]
    pub max_value: String,
    /// Time until it expires, such as 90m, 24h or 7d; at most 30d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = super::session_keys::lifetime)]
    pub expires: Duration,
    /// Number of calls that it may make; without --cage or --unbounded, it is required
    #[arg(long, value_name = "N")]
    pub calls: Option<u64>,
    /// Let PolicyCage check every call by the owner's rules on chain
    #[arg(long)]
    pub cage: bool,
    /// Accept limits that do not bound what a stolen key could take
    #[arg(long)]
    pub unbounded: bool,
    /// Label, up to 40 characters
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Read the password for the key file from this file descriptor
    #[arg(long, value_name = "N")]
    pub password_fd: Option<u32>,
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum PolicyAction {
    /// Print every field with its value, its origin and where it is enforced
    Show,
    /// Print the policy as a documented file, or explain one field
    Explain {
        /// Name of the field
        field: Option<String>,
    },
    /// Check a call against the policy without making it: print the violations and what would pass
    Check {
        /// The tool; `bardo tools` lists them
        tool: String,
        /// Its parameters: name=value words, or one JSON object, from a file with @FILE, from stdin with -
        #[arg(value_name = "NAME=VALUE|JSON|@FILE|-")]
        params: Vec<String>,
        /// Apply the limits of this phase
        #[arg(long, value_name = "PHASE")]
        phase: Option<Phase>,
        /// Decide for this key, by its name in `bardo keys list`; on devnets also development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
    },
    /// Show the changes of a looser policy file and accept it; asks for confirmation on the terminal and, except on
    /// devnets, for the password of every key
    Accept {
        /// Read the passwords from this file descriptor, one line per key in order of name, instead of asking for them
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
        /// Print the typed data (EIP-712) that the second operator signs, and stop
        #[arg(long, conflicts_with = "signature")]
        typed_data: bool,
        /// Second operator's signature over the typed data, if the policy in force asks for one
        #[arg(long, value_name = "0x…", requires = "deadline")]
        signature: Option<String>,
        /// Deadline in the typed data that was signed
        #[arg(long, value_name = "MILLISECONDS", requires = "signature")]
        deadline: Option<u64>,
    },
    /// Reject a looser policy file and record that in the audit log
    Refuse,
    /// Restore the policy file from before the last wallet_configure_policy, after asking on the terminal; what that
    /// loosens waits for `accept`
    Undo,
    /// Reset a limit that has stopped trading; asks for confirmation on the terminal and, except on devnets, for the
    /// password of every key
    Reset {
        /// Read the passwords from this file descriptor, one line per key in order of name, instead of asking for them
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
        /// breaker: the count of consecutive failures starts from zero; high-water: the stop-loss measures from the
        /// account's value at its next action
        #[arg(value_enum)]
        what: ResetTarget,
        /// Key of the account with the high-water mark, by its name in `bardo keys list`; on devnets also development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
    },
    /// Show, set or clear the account's rules in the PolicyCage contract
    Cage {
        #[command(subcommand)]
        action: CageAction,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum CageAction {
    /// Print the account's rules in PolicyCage on each chain, compared with the policy
    Show {
        /// Key of the account, by its name in `bardo keys list`; on devnets also development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
    },
    /// Set the rules that follow from the policy; asks for approval on the terminal and, except on devnets, for the
    /// key's password
    Set {
        /// Key of the account, by its name in `bardo keys list`; on devnets also development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Read the key's password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
    /// Clear the rules: the contract checks nothing of the account and allows a delegate nothing; asks like `set`
    Clear {
        /// Key of the account, by its name in `bardo keys list`; on devnets also development:N
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Read the key's password from this file descriptor
        #[arg(long, value_name = "N")]
        password_fd: Option<u32>,
    },
}

/// Limits that can be reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ResetTarget {
    /// Failure breaker
    Breaker,
    /// High-water mark of the account
    HighWater,
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum LogAction {
    /// Check that no entry of the audit log was changed, removed or moved, and that its end is complete
    Verify {
        /// Head that an earlier check printed, which must still be in the audit log
        #[arg(long, value_name = "HASH")]
        head: Option<B256>,
    },
    /// Print the trades of a recorded run as CSV
    Trades {
        /// Recording of the run, as printed at exit
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum AlertsAction {
    /// List the rules with their thresholds, and the channels with their state
    List,
    /// Send one message through the channels and print the servers' answers
    Test {
        /// Only through this channel: webhook, telegram, email or desktop
        #[arg(value_name = "CHANNEL")]
        channel: Option<ChannelName>,
    },
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum PaperAction {
    /// List the balance changes in paper trading, per account and token, on every network
    Show,
    /// Discard all paper trading: balances and limits start again from the chain's state
    Reset,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum ConfigAction {
    /// Print the path of the configuration file, whether or not it exists
    Path,
    /// Print every setting with its origin
    Show,
    /// Write a configuration file with every setting commented out
    Init,
}

/// Error of an invalid playback speed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a number from 0.1 to 1000, such as 2 or 0.5")]
struct SpeedError;

/// Parses a playback speed such as 2 or 0.5 into hundredths.
fn speed(text: &str) -> Result<u32, SpeedError> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let hundredths = format!("{fraction:0<2}");
    let hundredths: u32 = hundredths.get(..2).and_then(|two| two.parse().ok()).ok_or(SpeedError)?;
    let whole: u32 = whole.parse().map_err(|_| SpeedError)?;
    let speed = whole.checked_mul(100).and_then(|whole| whole.checked_add(hundredths)).ok_or(SpeedError)?;
    if (10..=100_000).contains(&speed) { Ok(speed) } else { Err(SpeedError) }
}

/// Error of text that cannot be the hash of a transaction.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("expected 0x and 64 hexadecimal digits; `bardo transactions` lists them")]
struct HashError;

/// Reads the hash of a transaction.
fn transaction_hash(text: &str) -> Result<B256, HashError> {
    text.parse().map_err(|_| HashError)
}
