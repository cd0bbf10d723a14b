//! The `bardo doctor` command: checks of this machine and the configuration, with fixes.
//!
//! Every check runs, whatever the earlier ones found. Only the checks that need a configuration are skipped if it
//! cannot be loaded.

use std::{
    collections::BTreeSet,
    env, fmt, fs,
    io::IsTerminal,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use alloy::{
    eips::{BlockId, BlockNumberOrTag},
    network::TransactionBuilder as _,
    primitives::{B256, U256},
    providers::Provider,
    rpc::types::TransactionRequest,
    sol_types::SolCall as _,
};
use serde::Serialize;

use super::{CliExit, CommandFailure, call, devnet::sandbox, print, print_json, privacy};
use ::golem::brain::{
    BrainChoice,
    process::confinement::{self, IsolationLevel},
};
use bardo_abi::erc20::Erc20;
use bardo_alerts::StatusFile;
use bardo_base::private;
use bardo_base::{
    clock::{Clock, SystemClock},
    config::{Config, ConfigFlags, Environment, QuoteChoice},
    service::ServiceError,
    text::SafeText,
};
use bardo_runtime::account::{SelectedAccount, SelectedSafe, SelectedSession};
use bardo_runtime::data::DataFolder;
use bardo_safety::custody::{Keystore, SafeState};
use bardo_safety::policy::Rules;
use bardo_safety::stop::{StopFile, meaning};
use bardo_sandbox::{BlockPace, MarketMode, Sandbox};
use golem_chain::{
    network::{ChainPlan, Network, NetworkKind, NetworkPlan},
    provider::{ChainClient, ClientBackend, ConnectRules, Dispute, HealthThresholds, HttpLimits},
    sender::PrivateRelay,
};
use golem_protocols::uniswap::sidecar::Sidecar;
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::Catalog;

/// Timeout for a chain or service, after which it is reported as silent.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of storage slots of each listed token to compare between endpoints. Names, supply and switches are in the
/// first ones.
const SLOTS_COMPARED: u64 = 4;
/// Minimum terminal size that the screens support, in columns and rows.
const SMALLEST: (u16, u16) = (80, 24);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum DoctorStatus {
    /// The check passed.
    Ok,
    /// The check passed, with a suggestion.
    Note,
    /// The check failed.
    Fail,
}

#[derive(Debug, Serialize)]
pub(super) struct DoctorFinding {
    check: &'static str,
    status: DoctorStatus,
    detail: String,
    /// Suggested fix for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl DoctorFinding {
    fn new(check: &'static str, status: DoctorStatus, detail: impl fmt::Display, fix: Option<&str>) -> Self {
        let clean = |text: &str| SafeText::clean(text, 1_000).to_string();
        Self { check, status, detail: clean(&detail.to_string()), fix: fix.map(clean) }
    }

    pub(super) fn ok(check: &'static str, detail: impl fmt::Display) -> Self {
        Self::new(check, DoctorStatus::Ok, detail, None)
    }

    pub(super) fn note(check: &'static str, detail: impl fmt::Display, fix: &str) -> Self {
        Self::new(check, DoctorStatus::Note, detail, Some(fix))
    }

    pub(super) fn fail(check: &'static str, detail: impl fmt::Display, fix: &str) -> Self {
        Self::new(check, DoctorStatus::Fail, detail, Some(fix))
    }
}

/// Runs all checks. `rehearse` asks for a swap on a fork of the network as well, of this size.
pub(super) fn run(
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
    rehearse: Option<Option<&str>>,
) -> Result<CliExit, CommandFailure> {
    let runtime = bardo_base::runtime::multi_threaded(Some(2))?;
    let mut findings = vec![terminal(), colours(), letters(), memory(), isolation(), devnet()];
    match Config::load(environment, flags) {
        Ok(config) => {
            findings.push(config_file(&config));
            findings.push(data_folder(&config.data_dir.value));
            findings.extend(stop(&config.data_dir.value));
            findings.extend(unfinished_restore(&config.data_dir.value));
            findings.push(network(&config));
            findings.extend([false, true].map(|devnet| policy(&config, devnet)));
            findings.extend(roles(&config));
            findings.extend(keys(&config));
            findings.extend(alerts(&config));
            findings.extend(runtime.block_on(endpoints(&config)));
            findings.extend(runtime.block_on(safe(&config)));
            findings.push(runtime.block_on(quotes(&config)));
            findings.extend(runtime.block_on(settling(&config)));
            findings.extend(runtime.block_on(relays(&config)));
            findings.extend(runtime.block_on(model(&config)));
            if let Some(size) = rehearse {
                findings.extend(super::rehearse::run(&config, size)?);
            }
        }
        Err(error) => {
            findings.push(DoctorFinding::fail("config", error, "correct it; `bardo config path` prints its location"))
        }
    }
    report(&findings, json)
}

fn report(findings: &[DoctorFinding], json: bool) -> Result<CliExit, CommandFailure> {
    let healthy = findings.iter().all(|finding| finding.status != DoctorStatus::Fail);
    if json {
        print_json(&serde_json::json!({ "ok": healthy, "checks": findings }))?;
    } else {
        let mut text = String::new();
        for DoctorFinding { check, status, detail, fix } in findings {
            let word = match status {
                DoctorStatus::Ok => "ok  ",
                DoctorStatus::Note => "note",
                DoctorStatus::Fail => "FAIL",
            };
            text.push_str(&format!("{word}  {check:<10}  {detail}\n"));
            if let Some(fix) = fix {
                text.push_str(&format!("{:18}→ {fix}\n", ""));
            }
        }
        text.push_str(if healthy { "\nBardo works here.\n" } else { "\nSomething is missing: see FAIL above.\n" });
        print(&text)?;
    }
    Ok(if healthy { CliExit::Success } else { CliExit::Error })
}

fn terminal() -> DoctorFinding {
    const CHECK: &str = "terminal";
    if !std::io::stdout().is_terminal() {
        return DoctorFinding::note(
            CHECK,
            "stdout is not a terminal, so the console cannot be shown",
            "run it in a terminal; commands with --json work anywhere",
        );
    }
    let kind = env::var("TERM").unwrap_or_default();
    if kind.is_empty() || kind == "dumb" {
        return DoctorFinding::fail(
            CHECK,
            "TERM does not name a terminal that can show the console",
            "use a terminal emulator that sets TERM, such as xterm-256color",
        );
    }
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns < SMALLEST.0 || rows < SMALLEST.1 => DoctorFinding::note(
            CHECK,
            format!("{kind}, {columns}×{rows}: the console needs at least {}×{}", SMALLEST.0, SMALLEST.1),
            "enlarge the window or reduce the font size",
        ),
        Ok((columns, rows)) => DoctorFinding::ok(CHECK, format!("{kind}, {columns}×{rows}")),
        Err(error) => {
            DoctorFinding::fail(CHECK, format!("cannot read its size: {error}"), "use another terminal emulator")
        }
    }
}

fn memory() -> DoctorFinding {
    const CHECK: &str = "memory";
    if privacy::is_memory_private() {
        return DoctorFinding::ok(
            CHECK,
            "other processes of this user cannot read this one's memory, and core dumps are off",
        );
    }
    DoctorFinding::note(
        CHECK,
        "other processes of this user can read this one's memory, including keys",
        "do not run untrusted programs as this user; on Linux the system isolates processes",
    )
}

/// Checks whether brain processes are isolated from the operator's account.
fn isolation() -> DoctorFinding {
    const CHECK: &str = "brain";
    let available = confinement::available();
    match available.level() {
        IsolationLevel::Full => DoctorFinding::ok(CHECK, "brain processes run isolated (Landlock, seccomp)"),
        IsolationLevel::Partial => DoctorFinding::note(
            CHECK,
            available,
            "a brain process can send signals to your other processes; use Linux 6.12 or later",
        ),
        IsolationLevel::None => DoctorFinding::note(
            CHECK,
            available,
            "real networks refuse brain processes here unless golem.allow_unisolated_brain = true; such a program can \
             act as you",
        ),
    }
}

fn colours() -> DoctorFinding {
    const CHECK: &str = "colours";
    if env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        return DoctorFinding::ok(CHECK, "off (NO_COLOR); nothing is shown by colour alone");
    }
    let deep = env::var("COLORTERM").unwrap_or_default();
    if matches!(deep.as_str(), "truecolor" | "24bit") {
        return DoctorFinding::ok(CHECK, "16 million");
    }
    let kind = env::var("TERM").unwrap_or_default();
    let count = if kind.contains("256color") { "256" } else { "16" };
    DoctorFinding::note(
        CHECK,
        format!("{count}, according to TERM and COLORTERM"),
        "if the terminal supports more, set COLORTERM=truecolor",
    )
}

fn letters() -> DoctorFinding {
    const CHECK: &str = "letters";
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(|name| env::var(name).ok())
        .find(|value| !value.is_empty())
        .unwrap_or_default();
    let folded = locale.to_lowercase().replace('-', "");
    if folded.contains("utf8") {
        DoctorFinding::ok(CHECK, format!("UTF-8 ({locale})"))
    } else {
        let said = if locale.is_empty() { "no locale is set".to_owned() } else { format!("the locale is {locale}") };
        DoctorFinding::note(
            CHECK,
            format!("{said}, so lines and symbols may be drawn incorrectly"),
            "set LANG to a UTF-8 locale, such as C.UTF-8",
        )
    }
}

fn devnet() -> DoctorFinding {
    const CHECK: &str = "devnet";
    let started = Instant::now();
    match Sandbox::boot(&sandbox(1, BlockPace::Manual, MarketMode::Off), &|_| {}) {
        Ok(built) => {
            let heads = built.chains().iter().map(|chain| {
                format!("{} at block {}", chain.deployment.plan.name, chain.devnet.head().borrow().number())
            });
            let heads: Vec<String> = heads.collect();
            DoctorFinding::ok(CHECK, format!("{}, after {} ms", heads.join(", "), started.elapsed().as_millis()))
        }
        Err(error) => DoctorFinding::fail(CHECK, error, "this is a bug in Bardo: please report it with this message"),
    }
}

fn config_file(config: &Config) -> DoctorFinding {
    const CHECK: &str = "config";
    if !config.file_exists {
        return DoctorFinding::ok(CHECK, format!("none at {}; the defaults apply", config.file.display()));
    }
    if readable_by_others(&config.file) {
        return DoctorFinding::note(
            CHECK,
            format!("{} is valid, but other users of this machine can read it", config.file.display()),
            "endpoints in it may carry credentials: chmod 600 it",
        );
    }
    DoctorFinding::ok(CHECK, format!("{} is valid", config.file.display()))
}

#[cfg(unix)]
fn readable_by_others(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn readable_by_others(_: &Path) -> bool {
    false
}

fn data_folder(folder: &Path) -> DoctorFinding {
    const CHECK: &str = "data";
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    let written = private::folder(folder).and_then(|()| fs::write(&probe, b"ok"));
    // Remove the file even if it was written only in part.
    let removed = fs::remove_file(&probe);
    match written.and(removed) {
        Ok(()) => DoctorFinding::ok(CHECK, format!("{} is writable", folder.display())),
        Err(error) => DoctorFinding::fail(
            CHECK,
            format!("cannot write {}: {error}", folder.display()),
            "make it writable, or choose another with BARDO_DATA_DIR or data_dir in the config file",
        ),
    }
}

/// Reports a restore that was interrupted, since no session starts before it is finished.
fn unfinished_restore(folder: &Path) -> Option<DoctorFinding> {
    let detail = format!("a restore into {} was interrupted before the configuration was in place", folder.display());
    let remedy = "`bardo resume` finishes it, with your approval on a terminal";
    bardo_runtime::backup::is_configuration_waiting(folder).then(|| DoctorFinding::note("restore", detail, remedy))
}

/// Reports a stop in force, since a forgotten stop looks like a malfunction.
fn stop(folder: &Path) -> Option<DoctorFinding> {
    let file = StopFile::in_folder(folder);
    let level = file.read().level()?;
    let restored = if file.restored().is_some() { "; this data folder was restored from a backup" } else { "" };
    let detail = format!("{level} is in force: {}{restored}", meaning(level));
    Some(DoctorFinding::note("stop", detail, "`bardo resume` lifts it, with your approval on a terminal"))
}

/// Reports whether the alert channels can be opened, and whether their last alert was delivered. Sends nothing.
fn alerts(config: &Config) -> Vec<DoctorFinding> {
    const CHECK: &str = "alerts";
    let channels = match bardo_alerts::channels(&config.alerts) {
        Ok(channels) => channels,
        Err(error) => {
            return vec![DoctorFinding::fail(CHECK, error, "correct it; `bardo alerts list` shows the channels")];
        }
    };
    let status = StatusFile::in_data(&config.data_dir.value).read();
    let finding = |channel: Arc<dyn bardo_alerts::Channel>| {
        let (name, destination) = (channel.name(), channel.destination());
        match status.get(name.as_str()).filter(|status| status.failing_since.is_some()) {
            Some(failing) => DoctorFinding::note(
                CHECK,
                format!("{name} to {destination}: the last alert was not delivered: {}", failing.why),
                &format!("correct it, and try it with `bardo alerts test {name}`"),
            ),
            None => DoctorFinding::ok(CHECK, format!("{name} to {destination}")),
        }
    };
    channels.into_iter().map(finding).collect()
}

fn network(config: &Config) -> DoctorFinding {
    const CHECK: &str = "network";
    match NetworkPlan::from_config(config) {
        Ok(NetworkPlan::Devnet) => DoctorFinding::ok(CHECK, format!("devnet ({})", config.network.origin)),
        Ok(NetworkPlan::Endpoints(chains)) => {
            let names: Vec<&str> = chains.iter().map(|chain| chain.name.as_str()).collect();
            DoctorFinding::ok(CHECK, names.join(", "))
        }
        Err(error) => DoctorFinding::fail(CHECK, error, "see `bardo config show` for every setting and its origin"),
    }
}

/// Checks the policy file of devnets, or of all other networks.
fn policy(config: &Config, devnet: bool) -> DoctorFinding {
    const CHECK: &str = "policy";
    let (file, absent) = bardo_runtime::policy::place(config, devnet);
    let of = if devnet { "devnets" } else { "real and test networks" };
    match bardo_runtime::policy::open(config, devnet) {
        Ok(_) if !file.exists() => {
            DoctorFinding::ok(CHECK, format!("of {of}: none at {}; {} applies", file.display(), absent.as_str()))
        }
        Ok(keeper) => match unknown_tools(keeper.current().policy.rules()).as_slice() {
            [] => DoctorFinding::ok(
                CHECK,
                format!("of {of}: {} is valid ({})", file.display(), keeper.current().policy.name()),
            ),
            unknown => DoctorFinding::note(
                CHECK,
                format!("of {of}: {} names tools that do not exist: {}", file.display(), unknown.join(", ")),
                "correct the names: what it says of them binds nothing",
            ),
        },
        Err(error) => {
            DoctorFinding::fail(CHECK, format!("of {of}: {error}"), "correct it; until then nothing is signed there")
        }
    }
}

/// Names of tools in a policy that no tool has, each with the one that may be meant.
fn unknown_tools(rules: &Rules) -> Vec<String> {
    // The built-in tools are unique, by test.
    let Ok(catalog) = Catalog::new(ALL_TOOL_DEFS.iter().copied()) else { return Vec::new() };
    let listed = rules.allowed_tools.listed.iter().flatten().map(|name| name.0.as_str());
    let names: BTreeSet<&str> = rules.tools.0.keys().map(String::as_str).chain(listed).collect();
    let unknown = names.into_iter().filter(|name| catalog.get(name).is_none());
    let told = unknown.map(|name| match catalog.nearest(name) {
        Some(near) => format!("{name} (did you mean {near}?)"),
        None => name.to_owned(),
    });
    told.collect()
}

/// Reports every role with a broken file, or a summary if there is none.
fn roles(config: &Config) -> Vec<DoctorFinding> {
    const CHECK: &str = "roles";
    let unusable = |error: &dyn std::error::Error| {
        vec![DoctorFinding::fail(CHECK, error.to_string(), "correct the folder; until then no Golem starts")]
    };
    let catalog = match Catalog::new(ALL_TOOL_DEFS.iter().copied()) {
        Ok(catalog) => catalog,
        Err(error) => return unusable(&error),
    };
    let roles = match bardo_runtime::roles(config, &catalog) {
        Ok(roles) => roles,
        Err(error) => return unusable(&error),
    };
    let fix = "correct its file; until then only the other roles can be used";
    let broken = roles.broken().map(|(name, fault)| DoctorFinding::fail(CHECK, format!("{name}: {fault}"), fix));
    let mut findings: Vec<_> = broken.collect();
    if findings.is_empty() {
        let own = roles.iter().filter(|role| !role.is_built_in()).count();
        findings.push(DoctorFinding::ok(CHECK, format!("{} roles, {own} of them your own", roles.iter().count())));
    }
    findings
}

/// Checks the key files, and the account that the configuration names.
fn keys(config: &Config) -> Vec<DoctorFinding> {
    const CHECK: &str = "keys";
    const FIX: &str = "`bardo keys list` shows the keys; `bardo keys import NAME` imports a key again";
    let listed = match Keystore::at(DataFolder::of(config).keys()).list() {
        Ok(listed) => listed,
        Err(error) => return vec![DoctorFinding::fail(CHECK, error, FIX)],
    };
    let broken = listed.iter().filter_map(|one| one.entry.as_ref().err().map(|error| (&one.name, error)));
    let mut found: Vec<_> =
        broken.map(|(name, error)| DoctorFinding::fail(CHECK, format!("{name}: {error}"), FIX)).collect();
    match bardo_runtime::account::named(config) {
        Ok(Some(SelectedAccount::Session(session))) => {
            let SelectedSession { id, key, owner, chain_id, ledger, state, is_signed } = &*session;
            let names = bardo_runtime::labels::names(&DataFolder::of(config));
            let name = names.describe(None, *owner).map(|name| format!(", {name},")).unwrap_or_default();
            let detail = format!(
                "delegated: session key {id} ({}) acts for {owner}{name} on chain {chain_id} (ledger {ledger})",
                key.address
            );
            let fix = "`bardo keys session list` shows the session keys; `bardo keys session accept` takes an owner's signature";
            found.push(match (*state, is_signed) {
                ("granted", true) => DoctorFinding::ok(CHECK, detail),
                ("granted", false) => {
                    DoctorFinding::fail(CHECK, format!("{detail}, but its record fits no signature of its owner"), fix)
                }
                (state, _) => DoctorFinding::fail(CHECK, format!("{detail}, but it is {state} and signs nothing"), fix),
            });
        }
        Ok(Some(SelectedAccount::Safe(safe))) => {
            let SelectedSafe { address, chain_id, owner, .. } = &*safe;
            let detail = format!(
                "Safe {address} on chain {chain_id} acts through its owner {} ({})",
                owner.name(),
                owner.address()
            );
            found.push(DoctorFinding::ok(CHECK, detail));
        }
        Ok(Some(named @ (SelectedAccount::Key(_) | SelectedAccount::Development { .. }))) => {
            let name = named.key().map(|entry| entry.name.to_string()).unwrap_or_default();
            let server = named.key().and_then(|entry| entry.server.as_ref());
            let server = server.map(|wallet| format!(", with the key on the wallet server {}", wallet.url));
            let acts = format!("{name} acts: {}{}", named.address(), server.unwrap_or_default());
            found.push(DoctorFinding::ok(CHECK, acts));
        }
        Ok(None) if found.is_empty() => {
            let (count, files) = (listed.len(), if listed.len() == 1 { "key file" } else { "key files" });
            found.push(DoctorFinding::ok(CHECK, format!("{count} {files}; none is selected to sign")));
        }
        Ok(None) => {}
        Err(error) => found.push(DoctorFinding::fail(CHECK, error.message(), FIX)),
    }
    found
}

/// Compares the configured Safe with what the operator has bound; nothing if none is configured.
async fn safe(config: &Config) -> Vec<DoctorFinding> {
    const CHECK: &str = "safe";
    let Ok(Some(SelectedAccount::Safe(safe))) = bardo_runtime::account::named(config) else { return Vec::new() };
    let fix = format!(
        "`bardo keys safe {} --owner {}` shows the Safe as it is and prints the setting that binds it so",
        safe.address,
        safe.owner.name()
    );
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let read = async {
        let opened = bardo_runtime::open(config, || call::one_call(Arc::new(SystemClock)), clock).await;
        let opened = opened.map_err(|error| error.to_string())?;
        let chain = opened.world.chain(&safe.chain_id.to_string()).map_err(|error| error.message().to_owned())?;
        SafeState::read(&chain.client, safe.address).await.map_err(|refusal| refusal.to_string())
    };
    let finding = match read.await {
        Err(error) => DoctorFinding::fail(CHECK, error, &fix),
        Ok(state) => match state.check_owner(safe.owner.address()) {
            Err(refusal) => DoctorFinding::fail(CHECK, refusal, &fix),
            Ok(()) if state.fingerprint() != safe.bound => {
                DoctorFinding::fail(CHECK, format!("the Safe is not as it was bound: {}", state.describe()), &fix)
            }
            Ok(()) => DoctorFinding::ok(CHECK, format!("as it was bound: {}", state.describe())),
        },
    };
    vec![finding]
}

/// Checks every chain with endpoints, including those that are not in use.
async fn endpoints(config: &Config) -> Vec<DoctorFinding> {
    // `network` has reported faults of the settings themselves.
    let Ok(plans) = ChainPlan::all(config) else { return Vec::new() };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    futures::future::join_all(plans.iter().map(|plan| endpoint(plan, Arc::clone(&clock)))).await
}

/// Checks the configured source of quotes.
async fn quotes(config: &Config) -> DoctorFinding {
    const CHECK: &str = "quotes";
    const OWN: &str = "or remove the setting to use Bardo's own router, which quotes from on-chain pools";
    let settings = &config.quotes;
    match settings.choice() {
        QuoteChoice::Own => DoctorFinding::ok(CHECK, "Bardo's own router, which quotes from on-chain pools"),
        QuoteChoice::Sidecar => {
            let Some(socket) = &settings.sidecar_socket else {
                let fix = format!("set BARDO_SIDECAR_SOCKET to the path of its socket, {OWN}");
                return DoctorFinding::fail(CHECK, "the sidecar is selected, but no socket is set", &fix);
            };
            let place = socket.value.display();
            // The sidecar refuses this invalid request, which shows that it is running.
            match Sidecar::new(socket.value.clone()).ask(&serde_json::json!({ "method": "hello" })).await {
                Ok(_) | Err(ServiceError::Refused(_)) => {
                    DoctorFinding::ok(CHECK, format!("the smart-order-router sidecar responds at {place}"))
                }
                Err(error) => {
                    let fix = format!("start it as described in assets/sidecar, {OWN}");
                    DoctorFinding::fail(CHECK, format!("the smart-order-router sidecar at {place}: {error}"), &fix)
                }
            }
        }
        QuoteChoice::TradingApi => {
            let api = match bardo_runtime::quotes::trading_api(config) {
                Ok(Some(api)) => api,
                Ok(None) => {
                    let fix = format!("set the key in BARDO_UNISWAP_API_KEY, {OWN}");
                    return DoctorFinding::fail(CHECK, "the Trading API is selected, but no key is set", &fix);
                }
                Err(error) => return DoctorFinding::fail(CHECK, error, &format!("correct the setting, {OWN}")),
            };
            let place = api.service().origin();
            // No such transaction exists, so the response only shows that the key is accepted.
            match api.swaps(1, &[B256::ZERO]).await {
                Ok(_) => DoctorFinding::ok(CHECK, format!("the Uniswap Trading API at {place} accepts the key")),
                Err(ServiceError::Refused(said)) if !said.as_str().starts_with("40") => {
                    DoctorFinding::note(CHECK, format!("the Uniswap Trading API at {place}: {said}"), OWN)
                }
                // A devnet's services respond like this for a chain that is not theirs.
                Err(ServiceError::Refused(said)) if said.as_str().starts_with("400") => DoctorFinding::ok(
                    CHECK,
                    format!("a service with the Uniswap Trading API's format responds at {place}"),
                ),
                Err(error) => {
                    let fix = format!("check the key and the address, {OWN}");
                    DoctorFinding::fail(CHECK, format!("the Uniswap Trading API at {place}: {error}"), &fix)
                }
            }
        }
    }
}

/// Checks every service that would settle signed orders on the configured network.
async fn settling(config: &Config) -> Vec<DoctorFinding> {
    const CHECK: &str = "orders";
    // The embedded devnet settles in this process. `endpoints` has reported faults of endpoints.
    if !matches!(NetworkPlan::from_config(config), Ok(NetworkPlan::Endpoints(_))) {
        return Vec::new();
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = bardo_runtime::open(config, || sandbox(1, BlockPace::Manual, MarketMode::Off), clock);
    let Ok(Ok(opened)) = tokio::time::timeout(PATIENCE, opened).await else { return Vec::new() };
    let services = bardo_runtime::settling_services(config, &opened).await;
    let found = services.iter().map(|service| async move {
        let place = format!("{} at {}", service.settles, service.place);
        match service.check().await {
            Ok(()) => DoctorFinding::ok(CHECK, format!("the service for {place} responds")),
            Err(error) => {
                let fix = "check its address and that it is running; until then no such order is placed";
                DoctorFinding::fail(CHECK, format!("the service for {place}: {error}"), fix)
            }
        }
    });
    futures::future::join_all(found).await
}

/// Checks every configured private relay, with its status service.
async fn relays(config: &Config) -> Vec<DoctorFinding> {
    const CHECK: &str = "relay";
    const FIX: &str = "check the URL in [chains.NAME] of the configuration; private transactions are not sent until it \
                       responds";
    let configured = config.chains.iter().filter_map(|(name, chain)| Some((name, chain, chain.relay.as_ref()?)));
    let found = configured.map(|(name, chain, relay)| async move {
        let status = chain.relay_status.as_ref().map(|status| status.value.clone());
        let with = if status.is_some() { " and its status service" } else { "" };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let id = chain.chain_id.as_ref().map_or(1, |id| id.value);
        let asked =
            async { PrivateRelay::new(relay.value.clone(), status, id, HttpLimits::default(), clock)?.check().await };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(())) => DoctorFinding::ok(CHECK, format!("{name}: {}{with} responds", relay.value)),
            Ok(Err(error)) => DoctorFinding::fail(CHECK, format!("{name}: {error}"), FIX),
            Err(_) => DoctorFinding::fail(CHECK, format!("{name}: no response within {} s", PATIENCE.as_secs()), FIX),
        }
    });
    futures::future::join_all(found).await
}

/// Checks the configured model, if there is one.
async fn model(config: &Config) -> Option<DoctorFinding> {
    const CHECK: &str = "model";
    const FIX: &str = "correct golem.model_url, golem.model_style, golem.model_name or BARDO_MODEL_KEY";
    let brain = match BrainChoice::model(&config.golem) {
        Ok(brain) => brain?,
        Err(error) => return Some(DoctorFinding::fail(CHECK, error, FIX)),
    };
    let (url, name) = (config.golem.model_url.as_ref()?, config.golem.model_name.as_ref()?);
    let (place, name) = (&url.value, SafeText::clean(&name.value, 80));
    Some(match tokio::time::timeout(PATIENCE, brain.check()).await {
        Ok(Ok(Some(true))) => DoctorFinding::ok(CHECK, format!("{place} responds and has {name}")),
        Ok(Ok(None)) => DoctorFinding::ok(CHECK, format!("{place} responds; it does not list its models")),
        Ok(Ok(Some(false))) => DoctorFinding::fail(CHECK, format!("{place} responds but does not list {name}"), FIX),
        Ok(Err(error)) => DoctorFinding::fail(CHECK, format!("{place}: {error}"), FIX),
        Err(_) => DoctorFinding::fail(CHECK, format!("{place}: no response within {} s", PATIENCE.as_secs()), FIX),
    })
}

async fn endpoint(plan: &ChainPlan, clock: Arc<dyn Clock>) -> DoctorFinding {
    const CHECK: &str = "endpoint";
    const FIX: &str = "check the URL and that the node is running; `bardo config show` prints where it is set";
    let asked = async {
        let client = ChainClient::connect(plan, ConnectRules::default(), clock).await?;
        let block = client.provider().get_block_number().await.map_err(golem_chain::provider::ProviderError::from)?;
        let (heads, dispute) = (heads(&client).await, dispute(&client).await);
        let several = client.has_several_endpoints();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((client.network().clone(), block, heads, several, dispute))
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok((network, _, _, _, Some(dispute)))) => {
            let fix = "find the wrong endpoint and remove it; until then only exits and revocations are signed";
            DoctorFinding::fail(CHECK, format!("{network}: {dispute}"), fix)
        }
        Ok(Ok((network, block, heads, several, None))) => {
            let alone = if several { "" } else { "; one endpoint, so its answers are not cross-checked" };
            let detail = format!("{network} at block {block}: {}{alone}", connection_state(&network));
            match behind(&heads) {
                faults if faults.is_empty() && !several && network.kind != NetworkKind::Devnet => {
                    DoctorFinding::note(CHECK, detail, "add a second endpoint of another provider")
                }
                faults if faults.is_empty() => DoctorFinding::ok(CHECK, detail),
                faults => DoctorFinding::note(CHECK, format!("{detail}; {}", faults.join("; ")), FIX),
            }
        }
        Ok(Err(error)) => DoctorFinding::fail(CHECK, error, FIX),
        Err(_) => {
            DoctorFinding::fail(CHECK, format!("{}: no response within {} s", plan.name, PATIENCE.as_secs()), FIX)
        }
    }
}

/// Returns the last contradiction between endpoints about one block: its header, and the code, native balance, first
/// slots, decimals and supply of every listed token. `None` if they agree, or if there is one endpoint.
async fn dispute(client: &ChainClient) -> Option<Dispute> {
    if !client.has_several_endpoints() {
        return None;
    }
    let mark = client.dispute_mark();
    let provider = client.agreed();
    // Failed reads are reported elsewhere; the client records contradictions.
    let head = provider.get_block_by_number(BlockNumberOrTag::Latest).await.ok()??;
    let block = BlockId::hash(head.header.hash);
    let _header = provider.get_block_by_hash(head.header.hash).await;
    let read = client.network().book.tokens().iter().map(|token| async move {
        let ask =
            |input: Vec<u8>| provider.call(TransactionRequest::default().with_to(token.address).with_input(input));
        let slots = (0..SLOTS_COMPARED).map(|slot| {
            let asked = provider.get_storage_at(token.address, U256::from(slot)).block_id(block);
            async move { asked.await }
        });
        let _read = futures::join!(
            async { provider.get_code_at(token.address).block_id(block).await },
            async { provider.get_balance(token.address).block_id(block).await },
            async { ask(Erc20::decimalsCall {}.abi_encode()).block(block).await },
            async { ask(Erc20::totalSupplyCall {}.abi_encode()).block(block).await },
            futures::future::join_all(slots)
        );
    });
    futures::future::join_all(read).await;
    client.disputes_since(mark).map(|disputes| disputes.last)
}

/// Returns the latest block of each endpoint if there are several; `None` for one that does not answer.
async fn heads(client: &ChainClient) -> Vec<(SafeText, Option<u64>)> {
    let ClientBackend::Endpoints(stack) = client.backing() else { return Vec::new() };
    if stack.endpoints().len() < 2 {
        return Vec::new();
    }
    let asked = stack
        .endpoints()
        .iter()
        .map(|endpoint| async { (endpoint.label().clone(), endpoint.head().await.ok().map(|head| head.number)) });
    futures::future::join_all(asked).await
}

/// Describes the endpoints that do not answer, or that lag behind another one by more than a healthy one does. It does
/// not decide which is right: one may be stuck, or the other may be on a chain of its own.
fn behind(heads: &[(SafeText, Option<u64>)]) -> Vec<String> {
    let told = heads.iter().filter_map(|(label, head)| Some((label, (*head)?)));
    let Some((furthest, most)) = told.max_by_key(|(_, head)| *head) else { return Vec::new() };
    let fault = |(label, head): &(SafeText, Option<u64>)| {
        let Some(head) = head else { return Some(format!("{label} does not respond")) };
        let behind = most.saturating_sub(*head);
        let stands = behind > HealthThresholds::default().lag_blocks;
        stands.then(|| format!("{label} is at block {head}, {behind} behind {furthest}: it may have stalled"))
    };
    heads.iter().filter_map(fault).collect()
}

/// Summarises the protocols on a network, by its address book.
fn connection_state(network: &Network) -> String {
    let versions: Vec<String> = network.uniswap_versions().into_iter().map(|version| format!("{version:?}")).collect();
    if versions.is_empty() {
        "no Uniswap contracts in its address book (set one with --book)".into()
    } else {
        format!("Uniswap {}, {} tokens", versions.join(" "), network.book.tokens().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_stands_still_or_is_silent_is_named() {
        let heads = |all: &[(&str, Option<u64>)]| {
            all.iter().map(|(label, head)| (SafeText::clean(label, 40), *head)).collect::<Vec<_>>()
        };
        assert_eq!(behind(&heads(&[("one", Some(303)), ("two", Some(300))])), [""; 0], "three blocks are a moment");
        assert_eq!(
            behind(&heads(&[("one", Some(304)), ("two", Some(300)), ("three", None)])),
            ["two is at block 300, 4 behind one: it may have stalled", "three does not respond"]
        );
        assert_eq!(behind(&[]), [""; 0]);
    }
}
