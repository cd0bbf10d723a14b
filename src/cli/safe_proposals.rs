//! The `bardo safe` command: proposals of a Safe that needs several owners, the files that owners exchange, signatures and
//! executions.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use alloy::primitives::{Address, B256};
use serde_json::{Value, json};

use super::args::SafeAction;
use super::call::{self, CallFlags};
use super::{CliExit, CommandFailure, consent, load, policy_cage, print, print_json, print_named, transactions};
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::format::{dollars, utc};
use bardo_base::model::{Phase, ToolMeta};
use bardo_base::regular_file;
use bardo_base::text::SafeText;
use bardo_runtime::data::{DataFolder, Ledger};
use bardo_runtime::{OpenEnvironment, labels, operator_action};
use bardo_safety::custody::SafeState;
use bardo_safety::pipeline::{CommitOutcome, CommitState, PhaseRequest, Pipeline, PipelineRefusal, Preview};
use bardo_safety::safe_proposals::exchange::MAX_FILE;
use bardo_safety::safe_proposals::{ExchangeFile, SafeProposalRecord, StoredProposal};
use golem_chain::network::Network;
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::{Catalog, WriteAccess};

pub(super) fn run(
    action: &SafeAction,
    password_fd: Option<u32>,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    transactions::embedded(&config)?;
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let opened = bardo_runtime::open(&config, || call::one_call(Arc::new(SystemClock)), clock.clone()).await?;
        let ledger = DataFolder::of(&config).open_ledger(&opened).await?;
        let command = SafeCommand { config: &config, opened: &opened, ledger: &ledger, clock, password_fd, json };
        command.run(action).await
    })
}

/// Everything that a subcommand needs.
struct SafeCommand<'a> {
    config: &'a Config,
    opened: &'a OpenEnvironment,
    ledger: &'a Ledger,
    clock: Arc<dyn Clock>,
    password_fd: Option<u32>,
    json: bool,
}

impl SafeCommand<'_> {
    async fn run(&self, action: &SafeAction) -> Result<CliExit, CommandFailure> {
        match action {
            SafeAction::List => self.list().await,
            SafeAction::Show { id } => self.show(*id).await,
            SafeAction::Export { id, out } => self.export(*id, out.as_deref()).await,
            SafeAction::Import { file } => self.import(file).await,
            SafeAction::Reject { id } => self.reject(*id).await,
            SafeAction::Sign { proposal } => self.sign(proposal).await,
            SafeAction::Execute { id } => self.execute(*id).await,
        }
    }

    /// Opens the ledger without a key, and reads what the Safes have executed meanwhile.
    async fn looking(&self) -> Result<Pipeline, CommandFailure> {
        let looking = transactions::looking(self.config, self.opened, self.ledger, &self.clock).await?;
        looking.pipeline.follow_safe_proposals().await.map_err(failed)?;
        Ok(looking.pipeline)
    }

    /// Opens the account with its key, with everything that was left unfinished recovered.
    async fn acting(&self) -> Result<WriteAccess, CommandFailure> {
        consent::attended()?;
        let flags = CallFlags { password_fd: self.password_fd, ..CallFlags::default() };
        let acting = policy_cage::acting(self.config, self.opened, self.ledger, &self.clock, flags).await?;
        acting.pipeline.follow_safe_proposals().await.map_err(failed)?;
        Ok(acting)
    }

    async fn list(&self) -> Result<CliExit, CommandFailure> {
        let records = self.looking().await?.safe_proposals().map_err(failed)?;
        if self.json {
            print_json(&records.iter().map(|record| in_json(record, None)).collect::<Vec<_>>())?;
        } else if records.is_empty() {
            print("no proposals of a Safe\n")?;
        } else {
            let lines: String = records.iter().map(|record| format!("{}\n", head(record))).collect();
            print_named(&lines, &DataFolder::of(self.config))?;
        }
        Ok(CliExit::Success)
    }

    async fn show(&self, id: B256) -> Result<CliExit, CommandFailure> {
        let record = self.looking().await?.safe_proposal(id).map_err(failed)?;
        self.print_record(&record).await
    }

    async fn print_record(&self, record: &SafeProposalRecord) -> Result<CliExit, CommandFailure> {
        let state = match record.state.is_live() {
            true => Some(self.state(record).await?),
            false => None,
        };
        if self.json {
            print_json(&in_json(record, state.as_ref()))?;
        } else {
            print_named(&text(record, state.as_ref()), &DataFolder::of(self.config))?;
        }
        Ok(CliExit::Success)
    }

    async fn state(&self, record: &SafeProposalRecord) -> Result<SafeState, CommandFailure> {
        let chain = self.opened.world.chain(&record.proposal.chain_id.to_string())?;
        Ok(SafeState::read(&chain.client, record.proposal.account).await?)
    }

    async fn export(&self, id: B256, out: Option<&Path>) -> Result<CliExit, CommandFailure> {
        let file = self.looking().await?.export_safe_proposal(id).await.map_err(failed)?;
        let Some(out) = out else {
            print_json(&file)?;
            return Ok(CliExit::Success);
        };
        let bytes = serde_json::to_vec_pretty(&file).map_err(|error| CommandFailure::from(error.to_string()))?;
        let created = std::fs::OpenOptions::new().write(true).create_new(true).open(out);
        let written = created.and_then(|mut file| std::io::Write::write_all(&mut file, &bytes));
        written.map_err(|error| CommandFailure::from(format!("{}: {error}", out.display())))?;
        print(&format!("{} written; let the other owners sign it, and import what they return\n", out.display()))?;
        Ok(CliExit::Success)
    }

    async fn import(&self, path: &Path) -> Result<CliExit, CommandFailure> {
        let (file, asked) = parsed(&read(path)?)?;
        let pipeline = self.looking().await?;
        let (id, added) = pipeline.import_safe_signatures(&file, &asked).await.map_err(failed)?;
        let added: Vec<String> = added.iter().map(Address::to_string).collect();
        let new =
            if added.is_empty() { "no new signature".to_owned() } else { format!("signed by {}", added.join(", ")) };
        if !self.json {
            print_named(&format!("{new}\n"), &DataFolder::of(self.config))?;
        }
        self.print_record(&pipeline.safe_proposal(id).map_err(failed)?).await
    }

    async fn reject(&self, id: B256) -> Result<CliExit, CommandFailure> {
        let record = self.looking().await?.reject_safe_proposal(id).await.map_err(failed)?;
        if record.state.is_live() {
            eprintln!(
                "bardo: its signatures may be with other owners, who can still execute it: its spending stays reserved until \
                 the Safe has executed another transaction with number {}",
                record.nonce
            );
        }
        self.print_record(&record).await
    }

    async fn sign(&self, proposal: &str) -> Result<CliExit, CommandFailure> {
        let (file, asked) = match proposal.parse::<B256>() {
            Ok(id) => {
                let record = self.looking().await?.safe_proposal(id).map_err(failed)?;
                let owners = self.state(&record).await?.owners;
                let file = ExchangeFile::of(&record, &record.verified(&owners));
                (file, record.transactions())
            }
            Err(_) => parsed(&read(Path::new(proposal))?)?,
        };
        let stored = file.proposal(&asked).map_err(|error| CommandFailure::from(error.to_string()))?;
        let tool = tool(stored)?;
        let acting = self.acting().await?;
        let preview = async || {
            let account = Arc::clone(&acting.account);
            acting.pipeline.preview_safe_signature(&asked, stored, tool, account, ASKED).await
        };
        let made = self.carry_out(&acting, preview).await?;
        let id = made.proposed.ok_or("nothing was signed")?.id;
        // With it, this ledger has the signatures that the file brought as well.
        acting.pipeline.import_safe_signatures(&file, &asked).await.map_err(failed)?;
        self.print_record(&acting.pipeline.safe_proposal(id).map_err(failed)?).await
    }

    async fn execute(&self, id: B256) -> Result<CliExit, CommandFailure> {
        let acting = self.acting().await?;
        let record = acting.pipeline.safe_proposal(id).map_err(failed)?;
        let tool = tool(&record.proposal)?;
        let preview = async || {
            let account = Arc::clone(&acting.account);
            acting.pipeline.preview_safe_execution(id, tool, account, ASKED).await
        };
        let made = self.carry_out(&acting, preview).await?;
        let record = acting.pipeline.safe_proposal(id).map_err(failed)?;
        let hashes: Vec<String> = made.legs.iter().map(|leg| leg.hash.to_string()).collect();
        eprintln!("bardo: {}: transaction {}", ended(&made.state), hashes.join(", "));
        self.print_record(&record).await?;
        Ok(match made.state {
            CommitState::Done => CliExit::Success,
            CommitState::Simulated
            | CommitState::Placed
            | CommitState::Reverted
            | CommitState::Unclear
            | CommitState::Stopped { .. } => CliExit::Error,
        })
    }

    /// Carries out an action after the operator's approval on this terminal.
    async fn carry_out(
        &self,
        acting: &WriteAccess,
        preview: impl AsyncFn() -> Result<Preview, PipelineRefusal>,
    ) -> Result<CommitOutcome, CommandFailure> {
        let networks: Vec<Network> = self.opened.world.chains().iter().map(|chain| chain.network().clone()).collect();
        let names = labels::names(&DataFolder::of(self.config));
        let asking = tokio::spawn(consent::ask(acting.pipeline.approval_queue().clone(), networks, false, names));
        let made = operator_action::carry_out(acting, preview).await;
        asking.abort();
        made.map_err(policy_cage::refused)
    }
}

/// Phase in which the operator's own actions are checked.
const ASKED: PhaseRequest = PhaseRequest { phase: Phase::Thriving, own: None };

fn failed(refusal: PipelineRefusal) -> CommandFailure {
    policy_cage::refused(refusal.error())
}

fn read(path: &Path) -> Result<String, CommandFailure> {
    let failed = |error: &dyn std::fmt::Display| CommandFailure::from(format!("{}: {error}", path.display()));
    regular_file::read_text(path, MAX_FILE).map_err(|error| failed(&error))
}

fn parsed(text: &str) -> Result<(ExchangeFile, Vec<bardo_safety::custody::safe::SafeTx>), CommandFailure> {
    ExchangeFile::parse(text).map_err(|error| CommandFailure::from(error.to_string()))
}

/// Returns this program's own description of the tool that a proposal names.
fn tool(proposal: &StoredProposal) -> Result<ToolMeta, CommandFailure> {
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
    let found = catalog.get(proposal.tool.as_str()).map(|entry| entry.def.meta);
    found.ok_or_else(|| format!("this program has no tool `{}`, which the proposal names", proposal.tool).into())
}

/// Says how far an execution has come.
fn ended(state: &CommitState) -> String {
    match state {
        CommitState::Done => "executed".to_owned(),
        CommitState::Unclear => "it is not in a block yet; `bardo safe list` shows when it is".to_owned(),
        CommitState::Reverted => "the transaction reverted".to_owned(),
        CommitState::Stopped { why, .. } => format!("stopped: {why}"),
        CommitState::Placed | CommitState::Simulated => "nothing was sent".to_owned(),
    }
}

/// One line about a proposal.
fn head(record: &SafeProposalRecord) -> String {
    let SafeProposalRecord { id, state, signatures, threshold, nonce, proposal, .. } = record;
    let signed = signatures.len();
    format!(
        "{id}  {state}, {signed} of {threshold} signed  number {nonce} of {}  {}",
        proposal.account,
        outcome(record)
    )
}

fn outcome(record: &SafeProposalRecord) -> &SafeText {
    &record.proposal.expected_outcome
}

/// All of a proposal, as text.
fn text(record: &SafeProposalRecord, state: Option<&SafeState>) -> String {
    let mut text = format!("{}\n", head(record));
    let signed: Vec<String> = record.signatures.keys().map(Address::to_string).collect();
    let _infallible = writeln!(text, "  proposed   {} by {}", utc(record.created_at), record.proposal.tool);
    let _infallible = writeln!(text, "  reserved   {}", dollars(record.spent));
    let _infallible = writeln!(text, "  signed by  {}", signed.join(", "));
    if let Some(state) = state {
        let missing = state.owners.iter().filter(|owner| !record.signatures.contains_key(*owner));
        let missing: Vec<String> = missing.map(Address::to_string).collect();
        if !missing.is_empty() {
            let _infallible = writeln!(text, "  missing    {}", missing.join(", "));
        }
    }
    if let Some(tx) = record.tx {
        let _infallible = writeln!(text, "  executed   {tx}");
    }
    for transaction in record.transactions() {
        let (number, hash) = (transaction.nonce, transaction.hash());
        let (to, value, size) = (transaction.to, transaction.value, transaction.data.len());
        let _infallible = writeln!(text, "  number {number}   calls {to}, {value} wei, {size} bytes of data");
        let _infallible = writeln!(text, "             SafeTx {hash}");
    }
    text
}

fn in_json(record: &SafeProposalRecord, state: Option<&SafeState>) -> Value {
    let missing = state
        .map(|state| state.owners.iter().filter(|owner| !record.signatures.contains_key(*owner)).collect::<Vec<_>>());
    let transactions = record.transactions().into_iter().map(|one| {
        json!({
            "nonce": one.nonce.to_string(), "to": one.to, "value": one.value.to_string(), "data": one.data,
            "hash": one.hash(),
        })
    });
    json!({
        "id": record.id, "chain_id": record.proposal.chain_id, "safe": record.proposal.account,
        "state": record.state.as_str(), "tool": record.proposal.tool, "expected_outcome": outcome(record),
        "owners_needed": record.threshold.to_string(), "signed_by": record.signatures.keys().collect::<Vec<_>>(),
        "missing": missing, "reserved_usd": record.spent.to_string(), "transaction": record.tx,
        "created_at": record.created_at, "ended_at": record.ended_at, "transactions": transactions.collect::<Vec<_>>(),
    })
}
