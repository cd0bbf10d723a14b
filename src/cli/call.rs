//! `bardo call`: one tool call, one envelope on stdout.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::sync::Arc;

use super::{Exit, Failure, consent, load, print_json};
use crate::base::clock::{Clock, SystemClock};
use crate::base::config::{Environment, Flags};
use crate::base::error::{ErrorCode, ToolError};
use crate::base::id::{CallId, GolemId};
use crate::base::model::{CapabilityTier, Category, Phase};
use crate::chain::network::PlanError;
use crate::engine::{ApprovalMode, Call, Catalog, Entry, Executor, ExecutorConfig, Input, Status, ToolResponse, World};
use crate::fabric::{EventKind, Fabric};
use crate::runtime::data::DataFolder;
use crate::runtime::{self, OpenError};
use crate::sandbox::{MarketMode, Pace, SandboxConfig};
use crate::tools::ALL_TOOL_DEFS;
use crate::uniswap::quote::AbsentSource;

/// The longest file or stream that is read at all; what is too long for a tool the engine says.
const MOST_BYTES: u64 = 64 << 20;
/// Calls a minute; one process makes one.
const CALLS_PER_MINUTE: u32 = 60;

/// What a call wants beside its parameters.
pub(super) struct Wishes {
    pub(super) idempotency_key: Option<String>,
    pub(super) dry_run: bool,
    pub(super) approve: Option<ApprovalMode>,
    pub(super) phase: Option<Phase>,
}

pub(super) fn run(
    tool: &str,
    params: Option<&str>,
    wishes: Wishes,
    environment: &Environment,
    flags: &Flags,
) -> Result<Exit, Failure> {
    let Wishes { idempotency_key, dry_run, approve, phase } = wishes;
    let input = Input::Text(read(params)?);
    let config = load(environment, flags)?;
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let response = runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let opened = match runtime::open(&config, || one_call(Arc::new(SystemClock)), clock.clone()).await {
            Ok(opened) => opened,
            // Nothing is wrong with the call: it is answered as one whose chain is out of reach.
            Err(OpenError::Plan(error @ PlanError::NoEndpoint { .. })) => {
                return Ok(not_called(&*clock, ToolError::new(ErrorCode::ChainUnreachable, error)));
            }
            Err(error) => return Err(error.into()),
        };
        let ledger = match needs_ledger(catalog.get(tool), idempotency_key.as_deref()) {
            true => match DataFolder::of(&config).open_ledger(&opened).await {
                Ok(ledger) => Some(ledger),
                Err(error) => return Ok(not_called(&*clock, error.into())),
            },
            false => None,
        };
        let fabric = Fabric::in_memory(1_024, clock.clone());
        let acting = match ledger.as_ref().filter(|_| catalog.get(tool).is_some_and(|entry| writes(entry))) {
            Some(ledger) => match runtime::acting(&config, &opened, ledger, &fabric, clock.clone()).await {
                Ok(acting) => acting,
                Err(error) => return Ok(not_called(&*clock, error)),
            },
            None => None,
        };
        let asking = acting.as_ref().map(|acting| tokio::spawn(consent::ask(acting.pipeline.desk().clone())));
        let telling = std::io::stderr().is_terminal().then(|| tokio::spawn(tell(fabric.subscribe(1_024))));
        let executor = Executor::new(ExecutorConfig {
            catalog,
            world: Arc::new(quoting_as_asked(opened.world)),
            fabric,
            golem_id: GolemId::operator(),
            calls_per_minute: CALLS_PER_MINUTE,
            hooks: Vec::new(),
            store: ledger.as_ref().map(|ledger| ledger.store.clone()),
            acting,
        });
        let approve = Some(approve.unwrap_or_else(as_attended));
        let call = Call { idempotency_key, dry_run, approve, phase, ..Call::new(tool, input) };
        let response = executor.call(call).await;
        for task in [telling, asking].into_iter().flatten() {
            task.abort();
        }
        Ok::<_, Failure>(response)
    })?;
    print_json(&response)?;
    Ok(match response.status {
        Status::Success | Status::Simulated | Status::Partial => Exit::Success,
        Status::Error => Exit::Error,
        Status::Blocked => Exit::Blocked,
        Status::Rejected => Exit::Rejected,
    })
}

/// Reads that are not kept touch no disk: they work where nothing can be written, and leave nothing behind.
fn needs_ledger(entry: Option<&Arc<Entry>>, idempotency_key: Option<&str>) -> bool {
    let kept = |entry: &Arc<Entry>| writes(entry) || entry.def.meta.category == Category::Safety;
    entry.is_some_and(|entry| idempotency_key.is_some() || kept(entry))
}

fn writes(entry: &Entry) -> bool {
    entry.def.meta.capability != CapabilityTier::Read
}

/// A person at a terminal can be asked; nobody else can.
fn as_attended() -> ApprovalMode {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        ApprovalMode::Ask
    } else {
        ApprovalMode::Never
    }
}

/// The answer to a call that never reached the executor.
fn not_called(clock: &dyn Clock, error: ToolError) -> ToolResponse {
    ToolResponse::failed(CallId::new(clock.now_millis()), Status::Error, error)
}

/// A key for the Trading API asks for quotes from there, and another source must not answer in its name.
fn quoting_as_asked(world: World) -> World {
    if std::env::var_os("BARDO_UNISWAP_API_KEY").is_none_or(|key| key.is_empty()) {
        return world;
    }
    let why = "this version has no client for it; unset BARDO_UNISWAP_API_KEY to quote from on-chain pools";
    world.quoting_from(Arc::new(AbsentSource { name: "the Uniswap Trading API", why }))
}

/// A devnet for one call: a block per transaction, and nobody who trades meanwhile.
fn one_call(clock: Arc<dyn Clock>) -> SandboxConfig {
    SandboxConfig {
        seed: 1,
        start_time: clock.now_seconds(),
        pace: Pace::OnTransaction,
        clock: Some(clock),
        market: MarketMode::Off,
        keeper: true,
    }
}

/// The parameters: as written, from a file (`@file`), or from stdin (`-`).
fn read(params: Option<&str>) -> Result<String, Failure> {
    let mut text = String::new();
    match params {
        None => text.push_str("{}"),
        Some("-") => {
            let read = std::io::stdin().lock().take(MOST_BYTES).read_to_string(&mut text);
            read.map_err(|error| Failure::usage(format!("cannot read the parameters from stdin: {error}")))?;
        }
        Some(given) => match given.strip_prefix('@') {
            None => text.push_str(given),
            Some(path) => {
                let read = File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
                read.map_err(|error| Failure::usage(format!("cannot read the parameters from {path}: {error}")))?;
            }
        },
    }
    Ok(text)
}

/// Says on stderr how far the call is.
async fn tell(mut events: crate::fabric::Receiver) {
    let mut batch = Vec::new();
    while events.receive(&mut batch, 64).await {
        for event in batch.drain(..) {
            match &event.kind {
                EventKind::ToolUpdate(update) => eprintln!("bardo: {} ({}/{})", update.step, update.index, update.of),
                EventKind::ToolOverrun(overrun) => {
                    eprintln!("bardo: taking longer than {} ms", overrun.budget_ms);
                }
                _ => {}
            }
        }
    }
}
