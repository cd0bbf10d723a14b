//! The `bardo call` command: one tool call, one response envelope on stdout.

use std::io::IsTerminal;
use std::sync::Arc;

use super::args::CallArguments;
use super::{
    CliExit, CommandFailure, answer, consent, dialect, load, logs, parameters, print, print_json, secret, wait,
    without_controls,
};
use futures::future::BoxFuture;
use tokio::task::AbortHandle;

use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{EventKind, Fabric, FabricConfig};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{CapabilityTier, CardKind, Category, Phase};
use bardo_base::secret::Password;
use bardo_runtime::accounting::{BookKeeper, ToolBooks};
use bardo_runtime::data::{DataFolder, Ledger};
use bardo_runtime::labels::{self, AddressNames};
use bardo_runtime::questions::answering;
use bardo_runtime::rehearsal::Rehearsal;
use bardo_runtime::rehearsed::{RehearsalRecorder, Rehearsed, rehearsed};
use bardo_runtime::session_keyring::{FolderKeyring, NewKeyPassword};
use bardo_runtime::wallets::{FolderWallets, OperatorPrompts};
use bardo_runtime::{OpenEnvironment, OpenError, SigningContext, account};
use bardo_safety::orders::Orders;
use bardo_sandbox::{BlockPace, MarketMode, SandboxChain, SandboxConfig};
use golem_chain::network::{LiveBlock, NetworkKind, NetworkPlan, NetworkPlanError};
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::data::{estimate_gas, get_portfolio};
use golem_tools::dialect::{ExecutorTools, HeldCall, NativeCall, NativeTools};
use golem_tools::engine::{
    ApprovalMode, CallStatus, Catalog, CatalogEntry, Executor, ExecutorConfig, Hook, ToolCall, ToolInput, ToolResponse,
    WalletAdministration, WriteAccess,
};
use golem_tools::trading::{list_schedules, uniswap_schedule_swaps};
use golem_tools::wallet::{wallet_configure_policy, wallet_fund, wallet_provision};

/// Number of events kept in memory, which is more than one call emits.
const RING: usize = 1_024;
/// Rate limit of the executor, which one call cannot reach.
const CALLS_PER_MINUTE: u32 = 60;

/// Note on a write to a devnet that lives in this process.
const ENDS_WITH_IT: &str = " This devnet and its state end with the call. To keep one, run `bardo devnet` and pass its \
                            endpoints with --rpc.";

/// Refusal of an idempotency key on such a devnet, whose ledger no later call has.
const KEY_ENDS_WITH_IT: &str = "--idempotency-key has no effect here: this devnet and its ledger end with the call, so a \
                                second one would be carried out again. Keep a devnet with `bardo devnet --port 8545`, and \
                                pass --rpc ethereum=http://127.0.0.1:8545";

/// Error for a schedule on a devnet that ends with the call.
const SCHEDULE_ENDS_WITH_IT: &str = "a schedule has no effect here: this devnet and its ledger end with the call. Keep a devnet \
                                     with `bardo devnet --port 8545`, pass --rpc ethereum=http://127.0.0.1:8545, and run a \
                                     session with the same option, which swaps the slices";

/// Options of a call besides its parameters.
#[derive(Default)]
pub(super) struct CallFlags {
    pub(super) idempotency_key: Option<String>,
    pub(super) dry_run: bool,
    pub(super) approve: Option<ApprovalMode>,
    pub(super) phase: Option<Phase>,
    /// File descriptor from which the key's password is read.
    pub(super) password_fd: Option<u32>,
    /// Password of the key, if it was entered already.
    pub(super) password: Option<Password>,
    /// True to wait for the end of everything that was sent.
    pub(super) wait: bool,
    /// True for paper mode: check, ask and count, never sign.
    pub(super) paper: bool,
    /// Block on which the call was rehearsed, if it is a rehearsed one. It runs on the chain of that block only.
    pub(super) rehearsed_on: Option<LiveBlock>,
}

/// Runs `bardo call`.
pub(super) fn command(
    arguments: CallArguments,
    environment: &Environment,
    flags: ConfigFlags,
    paper: bool,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let CallArguments {
        tool,
        params,
        dialect,
        from_rehearsal: rehearsed,
        idempotency_key,
        dry_run,
        approve,
        phase,
        key,
        password_fd,
        wait,
    } = arguments;
    let options =
        CallFlags { idempotency_key, dry_run, approve, phase, password_fd, wait, paper, ..CallFlags::default() };
    let flags = ConfigFlags { account: key, ..flags };
    let tool = tool.unwrap_or_default();
    match (rehearsed, dialect) {
        (Some(call_id), _) => from_rehearsal(call_id, options, environment, flags, json),
        (None, Some(dialect)) => dialect::call(dialect, &tool, &params, options, environment, &flags, json),
        (None, None) => run(&tool, &params, options, environment, &flags, json),
    }
}

pub(super) fn run(
    tool: &str,
    params: &[String],
    options: CallFlags,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let input = parameters::of_tool(params, tool, &Catalog::new(ALL_TOOL_DEFS.iter().copied())?)?;
    let config = load(environment, flags)?;
    let response = respond(&config, tool, input, options)?;
    if json || !std::io::stdout().is_terminal() {
        print_json(&response)?;
    } else {
        print(&answer::of_call(tool, &response))?;
    }
    Ok(exit(&response))
}

/// Returns the exit code for a call's response.
pub(super) fn exit(response: &ToolResponse) -> CliExit {
    exit_of(response.status)
}

pub(super) fn exit_of(status: CallStatus) -> CliExit {
    match status {
        CallStatus::Success | CallStatus::Simulated | CallStatus::Partial => CliExit::Success,
        CallStatus::Error => CliExit::Error,
        CallStatus::Blocked => CliExit::Blocked,
        CallStatus::Rejected => CliExit::Rejected,
    }
}

/// Opens the chains, makes one call, and returns its response.
pub(super) fn respond(
    config: &Config,
    tool: &str,
    input: ToolInput,
    options: CallFlags,
) -> Result<ToolResponse, CommandFailure> {
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
    let entries: Vec<_> = catalog.get(tool).cloned().into_iter().collect();
    let call = async |shell: ShellTools| {
        let response = shell.executor().call(ToolCall { tool: tool.to_owned(), input, ..shell.template.clone() }).await;
        shell.finished(tool, response).await
    };
    with_tools(config, &entries, options, call, |refused| refused)
}

/// Opens the chains for calls of these tools, makes them, and returns the answer. `refused` makes an answer of a response
/// that came before any call.
pub(super) fn with_tools<T>(
    config: &Config,
    entries: &[Arc<CatalogEntry>],
    options: CallFlags,
    call: impl AsyncFnOnce(ShellTools) -> T,
    refused: impl Fn(ToolResponse) -> T,
) -> Result<T, CommandFailure> {
    // An estimate is a dry run inside: it needs the account's address, and not its key.
    let estimates = entries.iter().any(|entry| prepares(entry)) && !entries.iter().any(|entry| writes(entry));
    let options = CallFlags { dry_run: options.dry_run || estimates, ..options };
    let mut logs = None;
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    let response = runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let OpenTools { shell, fabric, tasks } = match open_tools(config, entries, options, &clock, &mut logs).await {
            Ok(opened) => opened,
            Err(AccountError::Failure(failure)) => return Err(failure),
            Err(AccountError::Answer(error)) => return Ok(refused(not_called(&*clock, error))),
        };
        let response = call(shell).await;
        // The log reports a failure to store the last events.
        let _flushed = tokio::task::spawn_blocking(move || fabric.flush()).await;
        tasks.into_iter().for_each(|task| task.abort());
        Ok::<_, CommandFailure>(response)
    });
    // A lapsed request may still be waiting for input; the response must not wait for it.
    runtime.shutdown_background();
    // Dropped last, since the spans of the call end with it.
    drop(logs);
    response
}

/// Tools of one command, ready to be called.
struct OpenTools {
    shell: ShellTools,
    fabric: Fabric,
    /// Tasks that show progress and ask the operator meanwhile.
    tasks: Vec<AbortHandle>,
}

/// Opens what calls of these tools need: chains, ledger, account, and who is asked.
async fn open_tools(
    config: &Config,
    entries: &[Arc<CatalogEntry>],
    options: CallFlags,
    clock: &Arc<dyn Clock>,
    logs: &mut Option<logs::LogGuards>,
) -> Result<OpenTools, AccountError> {
    let any = |holds: fn(&CatalogEntry) -> bool| entries.iter().any(|entry| holds(entry));
    let mut opened = open_chains(config, entries, &options, clock).await?;
    let ends = ends_with_call(&opened);
    // Paper results are stored next to the ledger, so reads in paper mode need it.
    let ledger = match options.paper || needs_ledger(entries, options.idempotency_key.as_deref()) {
        true => Some(DataFolder::of(config).open_ledger(&opened).await.map_err(ToolError::from)?),
        false => None,
    };
    // A read that needs no ledger leaves no files behind, and therefore no log.
    if ledger.is_some() {
        *logs = logs::start(config).map_err(CommandFailure::from)?;
    }
    let fabric = fabric(config, clock.clone(), any(writes))?;
    let (acting, orders) = match &ledger {
        Some(ledger) => act(config, &mut opened, ledger, &fabric, clock.clone(), entries, &options).await?,
        None => {
            without_ledger(config, &mut opened, entries).await?;
            (None, None)
        }
    };
    let mut tasks = Vec::new();
    if let Some((acting, ledger)) = acting.as_ref().zip(ledger.as_ref()) {
        let names = labels::names(&DataFolder::of(config));
        tasks.extend(ask_operator((&opened, names), acting, ledger, clock, options.paper));
    }
    if std::io::stderr().is_terminal() {
        tasks.push(tokio::spawn(print_progress(fabric.subscribe(1_024))).abort_handle());
    }
    let embedded = opened.sandbox.is_some();
    let rehearsal = opened.rehearsal.clone();
    let inhabited = opened.inhabited().to_vec();
    let books = match (&ledger, any(reviews)) {
        (Some(ledger), true) => opened.world.account.map(|account| {
            let keeper = BookKeeper::new(config, opened.world.chains(), ledger.store.clone(), account);
            Arc::new(ToolBooks::new(keeper, opened.world.chains())) as Arc<_>
        }),
        _ => None,
    };
    if let (Some(ledger), true) = (&ledger, rehearsal.is_none() && !ends && any(records)) {
        let keyring = FolderKeyring::new(DataFolder::of(config), clock.clone());
        let ask = new_key_password(options.password_fd);
        opened.world.session_keys = Some(Arc::new(keyring.creating_in(ledger.clone(), ask)));
    }
    if let (Some(ledger), None, true) = (&ledger, &rehearsal, any(administers)) {
        opened.world.administration = administration(config, &opened, ledger, clock, options.password_fd);
    }
    let world = opened.world.with_books(books).with_paper(acting.as_ref().map(|acting| acting.paper.clone()));
    let recorder = rehearsal.as_ref().and_then(|one| RehearsalRecorder::of(one, &DataFolder::of(config)));
    let hooks = recorder.into_iter().map(|hook| Arc::new(hook) as Arc<dyn Hook>).collect();
    let executor = Executor::new(ExecutorConfig {
        catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).map_err(CommandFailure::from)?,
        world: Arc::new(world.with_orders(orders.clone())),
        fabric: fabric.clone(),
        golem_id: GolemId::operator(),
        calls_per_minute: CALLS_PER_MINUTE,
        hooks,
        store: ledger.as_ref().map(|ledger| ledger.store.clone()),
        acting,
    });
    let CallFlags { idempotency_key, dry_run, approve, phase, wait, .. } = options;
    let approve = approval_mode(approve, embedded || rehearsal.is_some(), ledger.as_ref());
    let template = ToolCall {
        idempotency_key,
        dry_run,
        approve: Some(approve),
        phase,
        ..ToolCall::new(String::new(), ToolInput::Text(String::new()))
    };
    let orders = orders.filter(|_| wait);
    let tools = ExecutorTools::new(executor, template.clone());
    let shell = ShellTools { tools, template, orders, inhabited, clock: clock.clone(), ends, rehearsal };
    Ok(OpenTools { shell, fabric, tasks })
}

/// Returns true if the chains end with the command.
fn ends_with_call(opened: &OpenEnvironment) -> bool {
    opened.sandbox.as_ref().is_some_and(|sandbox| !sandbox.is_kept())
}

/// Opens the chains, and refuses what has no effect on chains that end with the command.
async fn open_chains(
    config: &Config,
    entries: &[Arc<CatalogEntry>],
    options: &CallFlags,
    clock: &Arc<dyn Clock>,
) -> Result<OpenEnvironment, AccountError> {
    let opened = match bardo_runtime::open(config, || one_call(Arc::new(SystemClock)), clock.clone()).await {
        Ok(opened) => opened,
        // The call itself is valid, so the response reports an unreachable chain.
        Err(OpenError::Plan(error @ NetworkPlanError::NoEndpoint { .. })) => {
            return Err(ToolError::new(ErrorCode::ChainUnreachable, error).into());
        }
        Err(error) => return Err(AccountError::Failure(error.into())),
    };
    if let Some(block) = &options.rehearsed_on {
        on_rehearsed_chain(&opened, block)?;
    }
    if !ends_with_call(&opened) {
        return Ok(opened);
    }
    let schedules = |entry: &Arc<CatalogEntry>| entry.def.meta.name == uniswap_schedule_swaps::TOOL_DEF.meta.name;
    match (&options.idempotency_key, entries.iter().any(schedules)) {
        (Some(_), _) => Err(ToolError::new(ErrorCode::ValidationFailed, KEY_ENDS_WITH_IT).into()),
        (None, true) => Err(ToolError::new(ErrorCode::ValidationFailed, SCHEDULE_ENDS_WITH_IT).into()),
        (None, false) => Ok(opened),
    }
}

/// Tools of one command, with what a shell adds to their responses.
#[derive(Debug)]
pub(super) struct ShellTools {
    tools: ExecutorTools,
    /// Options of every call.
    template: ToolCall,
    /// Orders whose end is waited for; `None` without `--wait`.
    orders: Option<Orders>,
    inhabited: Vec<SandboxChain>,
    clock: Arc<dyn Clock>,
    /// True if the chain ends with the command.
    ends: bool,
    rehearsal: Option<Rehearsal>,
}

impl ShellTools {
    /// Waits for the orders of a call, and adds what its chain's end means.
    async fn finished(&self, tool: &str, mut response: ToolResponse) -> ToolResponse {
        if let Some(orders) = self.orders.as_ref().filter(|_| response.status == CallStatus::Partial) {
            response = wait::until_ended(orders, &self.inhabited, self.clock.now_seconds(), response).await;
        }
        let entry = self.tools.executor().catalog().get(tool);
        if entry.is_some_and(|entry| writes(entry) || keeps_notes(entry)) || tool == wallet_fund::TOOL_DEF.meta.name {
            let rehearsed = self.rehearsal.as_ref().map(|rehearsal| rehearsed_note(rehearsal, response.call_id));
            note_chain(&mut response, self.ends, rehearsed.filter(|_| !entry.is_some_and(|entry| keeps_notes(entry))));
        }
        response
    }
}

impl NativeTools for ShellTools {
    fn executor(&self) -> &Executor {
        self.tools.executor()
    }

    fn call(&self, call: NativeCall, dry_run: bool) -> BoxFuture<'_, ToolResponse> {
        Box::pin(async move {
            let tool = call.tool;
            let response = self.tools.call(call, dry_run).await;
            self.finished(tool, response).await
        })
    }

    fn hold(&self, call: NativeCall) -> BoxFuture<'_, ToolResponse> {
        self.tools.hold(call)
    }

    fn commit(&self, held: HeldCall) -> BoxFuture<'_, ToolResponse> {
        Box::pin(async move {
            let tool = self.tools.tool_of(held).unwrap_or_default();
            let response = self.tools.commit(held).await;
            self.finished(tool, response).await
        })
    }

    fn withdraw(&self, held: HeldCall) -> BoxFuture<'_, ()> {
        self.tools.withdraw(held)
    }
}

/// Adds to the explanation of a write that its chain ends with the process, or the note of a rehearsal.
fn note_chain(response: &mut ToolResponse, ends: bool, rehearsed: Option<String>) {
    let acted = matches!(response.status, CallStatus::Success | CallStatus::Partial);
    let mut said = response.explanation.take();
    if ends && acted {
        said = Some(format!("{}{ENDS_WITH_IT}", said.unwrap_or_default()));
    }
    if let Some(note) = rehearsed.filter(|_| acted || response.status == CallStatus::Simulated) {
        said = Some(format!("{}{note}", said.unwrap_or_default()));
    }
    response.explanation = said;
}

/// Binds the world by the policy file alone, which leaves no files behind, and offers auctions to a tool that quotes.
async fn without_ledger(
    config: &Config,
    opened: &mut OpenEnvironment,
    entries: &[Arc<CatalogEntry>],
) -> Result<(), AccountError> {
    match bardo_runtime::policy::open(config, bardo_runtime::policy::is_devnet(config).map_err(CommandFailure::from)?) {
        Ok(keeper) => opened.world = opened.world.clone().bound_by(keeper.current().policy),
        Err(error) => {
            return Err(ToolError::new(ErrorCode::ValidationFailed, format_args!("the policy: {error}")).into());
        }
    }
    if entries.iter().any(|entry| entry.def.meta.name == "across_get_quote") {
        let services = bardo_runtime::bridge_fees(config, opened).await;
        opened.world = opened.world.clone().quoting_deposits(services);
    }
    if entries.iter().any(|entry| quotes(entry)) {
        let offered = bardo_runtime::auctions(config, opened).await;
        opened.world = opened.world.clone().offering(offered);
    }
    Ok(())
}

/// Approval mode of the call. A request to ask where no terminal can answer goes to an open console on the same ledger,
/// and is refused if there is none.
fn approval_mode(wanted: Option<ApprovalMode>, embedded: bool, ledger: Option<&Ledger>) -> ApprovalMode {
    match wanted {
        Some(ApprovalMode::Ask) if as_attended() == ApprovalMode::Never => {
            // The chain and the ledger of an embedded devnet end with this process: no other one could answer.
            let others = ledger.filter(|_| !embedded);
            if !others.is_some_and(|ledger| ledger.queue.is_attended_remotely()) {
                return ApprovalMode::Never;
            }
            eprintln!("bardo: no terminal here: what needs approval is asked in your open console");
            ApprovalMode::Ask
        }
        wanted => wanted.unwrap_or_else(as_attended),
    }
}

/// Puts the world under the ledger's rules, and prepares the signing account and the orders that the tool needs.
async fn act(
    config: &Config,
    opened: &mut OpenEnvironment,
    ledger: &Ledger,
    fabric: &Fabric,
    clock: Arc<dyn Clock>,
    entries: &[Arc<CatalogEntry>],
    options: &CallFlags,
) -> Result<(Option<WriteAccess>, Option<Orders>), AccountError> {
    let rules = bardo_runtime::rules(config, opened, ledger).await?;
    opened.world = opened.world.clone().under(rules.clone());
    if !options.paper && !entries.iter().any(|entry| prepares(entry)) {
        let orders = match entries.iter().any(|entry| follows(entry) || reviews(entry)) {
            true => Some(bardo_runtime::orders(config, opened, ledger, rules, fabric, clock, || false).await),
            false => None,
        };
        return Ok((None, orders));
    }
    let Some(signing) = signing_context(config, opened, ledger, options).await? else { return Ok((None, None)) };
    let made = bardo_runtime::acting(config, opened, ledger, rules, fabric, clock, signing).await;
    let acting = made?;
    let orders = acting.pipeline.orders().cloned();
    Ok((Some(acting), orders))
}

/// Asks the operator what the call needs approved: at this terminal, and in every console on the ledger. The first
/// answer counts.
fn ask_operator(
    (opened, names): (&OpenEnvironment, AddressNames),
    acting: &WriteAccess,
    ledger: &Ledger,
    clock: &Arc<dyn Clock>,
    paper: bool,
) -> [AbortHandle; 2] {
    let networks: Vec<_> = opened.world.chains().iter().map(|chain| chain.network().clone()).collect();
    let (queue, shared) = (acting.pipeline.approval_queue().clone(), ledger.queue.clone());
    let here = tokio::spawn(consent::ask(queue.clone(), networks.clone(), paper, names.clone()));
    let elsewhere = answering::serve_queue(queue, shared, networks, names, clock.clone(), paper, |_, said| {
        eprintln!("bardo: {said}");
    });
    [here.abort_handle(), tokio::spawn(elsewhere).abort_handle()]
}

/// Creates the event fabric of the call. A write is journaled like any other run, so that it can be replayed.
fn fabric(config: &Config, clock: Arc<dyn Clock>, journaled: bool) -> Result<Fabric, ToolError> {
    if !journaled {
        return Ok(Fabric::in_memory(RING, clock));
    }
    let journal = Some(DataFolder::of(config).new_journal(&*clock)?);
    let unwritten = |error| ToolError::new(ErrorCode::StoreUnavailable, error);
    Fabric::new(FabricConfig { ring: RING, journal, clock }).map_err(unwritten)
}

/// Reason for which no account can act.
pub(super) enum AccountError {
    /// The command line is invalid, or the terminal failed.
    Failure(CommandFailure),
    /// The call's response is this error.
    Answer(ToolError),
}

impl From<CommandFailure> for AccountError {
    fn from(failure: CommandFailure) -> Self {
        Self::Failure(failure)
    }
}

impl From<ToolError> for AccountError {
    fn from(error: ToolError) -> Self {
        Self::Answer(error)
    }
}

/// Returns the account that acts, unlocked if it is to sign; `None` if none is configured.
pub(super) async fn signing_context(
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
    options: &CallFlags,
) -> Result<Option<SigningContext>, AccountError> {
    let Some(picked) = account::pick(config, &opened.world)? else { return Ok(None) };
    let mut account = account::locked(&picked, opened, ledger)?;
    // Dry runs and paper trading need no key.
    if let Some(entry) = picked.key().filter(|_| !options.dry_run && !options.paper) {
        let password = match options.password.clone() {
            Some(password) => password,
            None => {
                let asked = format!("password of the key {}", entry.name);
                secret::password(&secret::read(options.password_fd, &asked)?)
            }
        };
        account = account::unlock(config, &picked, password, (opened, ledger)).await?;
    }
    Ok(Some(SigningContext {
        paper: options.paper,
        looks_only: options.dry_run,
        wait: options.wait,
        ..SigningContext::of(account)
    }))
}

/// Returns true if the call needs the ledger. Reads without stored results write nothing to disk, so they work on
/// read-only file systems.
fn needs_ledger(entries: &[Arc<CatalogEntry>], idempotency_key: Option<&str>) -> bool {
    let kept = |entry: &Arc<CatalogEntry>| {
        prepares(entry)
            || follows(entry)
            || reviews(entry)
            || records(entry)
            || entry.def.meta.name == list_schedules::TOOL_DEF.meta.name
            || matches!(entry.def.meta.category, Category::Safety | Category::Memory)
    };
    entries.iter().any(|entry| idempotency_key.is_some() || kept(entry))
}

/// Returns true if the tool keeps the caller's notes.
fn keeps_notes(entry: &CatalogEntry) -> bool {
    entry.def.meta.category == Category::Memory && records(entry)
}

/// Returns true if the tool reads orders that the ledger tracks.
fn follows(entry: &CatalogEntry) -> bool {
    matches!(entry.def.meta.card, Some(CardKind::Order | CardKind::CrossChain))
}

/// Returns true if the tool reads the books of the account.
fn reviews(entry: &CatalogEntry) -> bool {
    entry.def.meta.name == get_portfolio::TOOL_DEF.meta.name
}

/// Returns true if the tool quotes the route of a swap.
fn quotes(entry: &CatalogEntry) -> bool {
    matches!(entry.def.meta.card, Some(CardKind::Quote))
}

/// Returns true if the tool prepares an action with the account: a write, or the estimate of one.
fn prepares(entry: &CatalogEntry) -> bool {
    writes(entry) || entry.def.meta.name == estimate_gas::TOOL_DEF.meta.name
}

fn writes(entry: &CatalogEntry) -> bool {
    entry.def.meta.signs()
}

/// Returns true if the tool changes records of this machine, or asks a service, and signs nothing.
fn records(entry: &CatalogEntry) -> bool {
    entry.def.meta.capability != CapabilityTier::Read && !writes(entry)
}

/// Returns true if the tool needs the scope `admin:wallet`.
fn administers(entry: &CatalogEntry) -> bool {
    [wallet_provision::TOOL_DEF.meta.name, wallet_configure_policy::TOOL_DEF.meta.name].contains(&entry.def.meta.name)
}

/// Asks the operator for the password of a new session key's file: at the terminal, or from a descriptor. To give it is to
/// decide that the key is created.
fn new_key_password(fd: Option<u32>) -> NewKeyPassword {
    Arc::new(move |shown| {
        if fd.is_none() && as_attended() == ApprovalMode::Never {
            let what = "a new session key needs the password of its key file, and there is no terminal to ask at";
            return Err(ToolError::new(ErrorCode::ApprovalRequired, what)
                .suggest("Run it on a terminal, or pass the password with --password-fd."));
        }
        for line in [shown, "It can sign nothing until the owner has signed its delegation."] {
            eprintln!("bardo: {}", without_controls(line).replace(['\n', '\t'], " "));
        }
        match secret::new_password(fd, "password for the new session key (Ctrl-C for none)") {
            Ok(password) => Ok(Some(password)),
            Err(CommandFailure { error, .. }) => Err(ToolError::new(ErrorCode::ApprovalRefused, error)),
        }
    })
}

/// Default approval mode: ask on a terminal, otherwise never.
fn as_attended() -> ApprovalMode {
    if consent::is_attended() { ApprovalMode::Ask } else { ApprovalMode::Never }
}

/// Access with the scope `admin:wallet`, which the operator's own command has; `None` without rules.
fn administration(
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
    clock: &Arc<dyn Clock>,
    fd: Option<u32>,
) -> Option<Arc<dyn WalletAdministration>> {
    let rules = opened.world.rules.clone()?;
    let devnet = opened.world.chains().iter().all(|chain| chain.network().kind == NetworkKind::Devnet);
    let prompts = OperatorPrompts {
        new_password: new_wallet_password(fd),
        password: Arc::new(move |shown, name| {
            if fd.is_none() {
                needs_terminal("the operator's password of a key file")?;
            }
            show_lines(shown);
            let asked = format!("password of the key {name} (Ctrl-C for none)");
            let given = secret::read(fd, &asked).map_err(refused)?;
            Ok(secret::password(&given))
        }),
        // No descriptor confirms a policy: a person has seen the lines.
        confirm: Arc::new(|shown, word| {
            needs_terminal("the operator's confirmation of every changed line")?;
            show_lines(shown);
            consent::confirm("", word).map_err(refused)
        }),
    };
    let folder = (ledger.clone(), rules);
    Some(Arc::new(FolderWallets::new(config, folder, devnet, Arc::clone(clock), prompts)))
}

/// Asks the operator for the password of a new wallet's file. To give it is to decide that the wallet is created.
fn new_wallet_password(fd: Option<u32>) -> NewKeyPassword {
    Arc::new(move |shown| {
        if fd.is_none() {
            needs_terminal("the operator's password for a new key file")?;
        }
        show_lines(&[shown.to_owned()]);
        secret::new_password(fd, "password for the new wallet's file (Ctrl-C for none)").map(Some).map_err(refused)
    })
}

/// Checks that the operator can be asked.
///
/// # Errors
/// `APPROVAL_REQUIRED` without a terminal.
fn needs_terminal(what: &str) -> Result<(), ToolError> {
    if consent::is_attended() {
        return Ok(());
    }
    let what = format_args!("this needs {what}, and there is no terminal to ask at");
    Err(ToolError::new(ErrorCode::ApprovalRequired, what).suggest("Run it on a terminal."))
}

fn refused(CommandFailure { error, .. }: CommandFailure) -> ToolError {
    ToolError::new(ErrorCode::ApprovalRefused, error)
}

fn show_lines(lines: &[String]) {
    for line in lines {
        eprintln!("bardo: {}", without_controls(line).replace(['\n', '\t'], " "));
    }
}

/// Returns the response of a call that did not reach the executor.
fn not_called(clock: &dyn Clock, error: ToolError) -> ToolResponse {
    ToolResponse::failed(CallId::new(clock.now_millis()), CallStatus::Error, error)
}

/// Configuration of a devnet for one call: one block per transaction, and no other traders.
pub(super) fn one_call(clock: Arc<dyn Clock>) -> SandboxConfig {
    SandboxConfig {
        seed: 1,
        start_time: clock.now_seconds(),
        pace: BlockPace::OnTransaction,
        clock: Some(clock),
        market: MarketMode::Off,
        keeper: true,
    }
}

/// Note on a write of a rehearsal.
fn rehearsed_note(rehearsal: &Rehearsal, call_id: CallId) -> String {
    let (network, block) = (&rehearsal.network.name, rehearsal.origin.number());
    format!(
        " This was a rehearsal of {network} at block {block}; nothing was sent there. `bardo call --from-rehearsal \
         {call_id}` proposes the same on {network}, where everything is checked again."
    )
}

/// Makes the call that was rehearsed, on the live network: from its tool and parameters alone, with all checks.
pub(super) fn from_rehearsal(
    call_id: CallId,
    options: CallFlags,
    environment: &Environment,
    flags: ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    if options.approve == Some(ApprovalMode::Always) {
        let words = "--approve always does not go with --from-rehearsal, because a Golem may have chosen the rehearsed \
                     call: remove it and approve the call on the terminal, or pass --approve ask and approve it in an \
                     open console";
        return Err(CommandFailure::usage(words.to_owned()));
    }
    let rehearsed = rehearsed(&DataFolder::of(&load(environment, &flags)?), call_id)?;
    let named = flags.network.is_some() || !flags.rpc.is_empty();
    let flags = if named { flags } else { ConfigFlags { network: Some(rehearsed.network.clone()), ..flags } };
    if NetworkPlan::from_config(&load(environment, &flags)?)? == NetworkPlan::Devnet {
        let words = "--from-rehearsal proposes on the network that was rehearsed, not on the built-in devnet: name an \
                     endpoint with --rpc NAME=URL, or remove --network";
        return Err(CommandFailure::usage(words.to_owned()));
    }
    for line in proposed(&rehearsed) {
        // A line break in a parameter must not begin a line that looks like Bardo's own.
        eprintln!("bardo: {}", without_controls(&line).replace(['\n', '\t'], " "));
    }
    let options = CallFlags { rehearsed_on: Some(rehearsed.block), ..options };
    run(&rehearsed.tool, &[rehearsed.params.to_string()], options, environment, &flags, json)
}

/// Description of a rehearsed call for the operator, who decides about it: one fact per line.
fn proposed(rehearsed: &Rehearsed) -> Vec<String> {
    let Rehearsed { golem_id, tool, params, network, block, explanation, .. } = rehearsed;
    let actor = if *golem_id == GolemId::operator() { "you".to_owned() } else { format!("the Golem {golem_id}") };
    let mut lines = vec![
        format!("proposing on the live network {network} (chain id {}) a call that was rehearsed", block.chain_id),
        format!("  rehearsed by  {actor}, at block {}", block.number),
        format!("  tool          {tool}"),
    ];
    for (name, value) in params.as_object().into_iter().flatten() {
        lines.push(format!("  {name:<12}  {value}"));
    }
    lines.extend(explanation.iter().map(|explanation| format!("on the rehearsal: {explanation}")));
    lines
}

/// Refuses a rehearsed call on any chain but the one that was rehearsed. A devnet under its name is another chain.
fn on_rehearsed_chain(opened: &OpenEnvironment, block: &LiveBlock) -> Result<(), CommandFailure> {
    for chain in opened.world.chains() {
        let network = chain.network();
        if network.chain_id == block.chain_id {
            continue;
        }
        let kind = if network.kind == NetworkKind::Devnet { "a devnet with chain id" } else { "chain id" };
        return Err(CommandFailure::usage(format!(
            "the call was rehearsed on chain id {}, but the endpoint of {} has {kind} {}: name an endpoint of the \
             rehearsed network with --rpc NAME=URL",
            block.chain_id, network.name, network.chain_id
        )));
    }
    Ok(())
}

/// Prints the progress of the call on stderr. The steps are numbered as they happen: the numbers of the tool's own list
/// would go back and forth, since not every call takes all of them, nor in the list's order.
async fn print_progress(mut events: bardo_base::fabric::Receiver) {
    let mut batch = Vec::new();
    let mut steps = 0_u32;
    while events.receive(&mut batch, 64).await {
        for event in batch.drain(..) {
            match &event.kind {
                EventKind::ToolUpdate(update) => {
                    steps = steps.saturating_add(1);
                    eprintln!("bardo: step {steps}: {}", update.step);
                }
                EventKind::ToolOverrun(overrun) => {
                    eprintln!("bardo: taking longer than {} ms", overrun.budget_ms);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::*;

    #[test]
    fn a_proposed_call_is_described_with_its_golem_and_all_that_it_would_do() {
        let rehearsed: Rehearsed = serde_json::from_value(serde_json::json!({
            "call_id": "01JDKZZZZZZZZZZZZZZZZZZZZZ", "golem_id": "ada", "tool": "wallet_transfer_token",
            "params": { "amount": "25", "recipient": "0x0000000000000000000000000000000000000abc" },
            "network": "base", "status": "success", "explanation": "sent",
            "block": { "chain_id": 8453, "number": 7, "hash": format!("0x{:064x}", 1), "timestamp": 9 },
        }))
        .unwrap();
        assert_eq!(
            proposed(&rehearsed),
            [
                "proposing on the live network base (chain id 8453) a call that was rehearsed",
                "  rehearsed by  the Golem ada, at block 7",
                "  tool          wallet_transfer_token",
                "  amount        \"25\"",
                "  recipient     \"0x0000000000000000000000000000000000000abc\"",
                "on the rehearsal: sent",
            ]
        );
    }

    /// The codes are part of the command line's specification.
    #[test]
    fn each_status_has_its_exit_code() {
        for (status, name, code) in [
            (CallStatus::Success, "success", 0),
            (CallStatus::Simulated, "simulated", 0),
            (CallStatus::Partial, "partial", 0),
            (CallStatus::Error, "error", 1),
            (CallStatus::Blocked, "blocked", 3),
            (CallStatus::Rejected, "rejected", 4),
        ] {
            assert_eq!(serde_json::to_value(status).unwrap(), name);
            assert_eq!(ExitCode::from(exit_of(status)), ExitCode::from(code), "{name}");
        }
    }
}
