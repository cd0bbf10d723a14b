//! The `bardo policy` command: the fields of the policy, their origin and their enforcement.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::primitives::B256;
use serde::Deserialize;
use serde_json::Value;

use super::args::{CageAction, PolicyAction, ResetTarget};
use super::{
    CliExit, CommandFailure, call, consent, load, log, parameters, password, policy_cage, print, print_json,
    without_controls,
};
use ::golem::memory::Memory;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::display::{self, check_word, failure_words, found};
use bardo_base::fabric::{AskReason, CheckOutcome, SafetyCheck, ToolFailed};
use bardo_base::model::Phase;
use bardo_base::text::{SafeText, nearest, width};
use bardo_runtime::data::{DataFolder, Ledger, LedgerKind};
use bardo_runtime::labels;
use bardo_runtime::policy::{PolicyRewrite, is_devnet, open, place};
use bardo_runtime::questions::second::POLICY_APPROVAL_MILLIS;
use bardo_runtime::wallets::described;
use bardo_runtime::{OpenEnvironment, account, reauthentication};
use bardo_safety::audit::AuditLog;
use bardo_safety::custody::no_account;
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::operator_proof::{Authorisation, OperatorProof};
use bardo_safety::policy::{self, Policy, PolicyField, PolicyPreset};
use bardo_safety::second_approval::{SecondError, SecondSignature};
use bardo_session::handle::name_addresses;
use golem_chain::network::{NetworkKind, NetworkPlan, NetworkPlanError};
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::{ApprovalMode, Catalog};

pub(super) fn run(
    action: &PolicyAction,
    environment: &Environment,
    flags: &ConfigFlags,
    paper: bool,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let key = match action {
        PolicyAction::Check { key, .. } | PolicyAction::Reset { key, .. } => key.clone(),
        PolicyAction::Cage {
            action: CageAction::Show { key } | CageAction::Set { key, .. } | CageAction::Clear { key, .. },
        } => key.clone(),
        PolicyAction::Show
        | PolicyAction::Explain { .. }
        | PolicyAction::Accept { .. }
        | PolicyAction::Refuse
        | PolicyAction::Undo => None,
    };
    let config = load(environment, &ConfigFlags { account: key, ..flags.clone() })?;
    match action {
        PolicyAction::Show => {
            let meant = meant(&config)?;
            show(&config, meant, &open(&config, meant.devnet)?.current().policy, json)
        }
        PolicyAction::Explain { field } => {
            explain(&open(&config, meant(&config)?.devnet)?.current().policy, field.as_deref(), json)
        }
        PolicyAction::Check { tool, params, phase, .. } => check(&config, tool, params, *phase, json),
        PolicyAction::Accept { password_fd, typed_data, signature, deadline } => {
            let signed = signature.as_deref().zip(*deadline).map(|(text, deadline)| Ok((text.parse()?, deadline)));
            let signed = signed.transpose().map_err(|error: SecondError| CommandFailure::usage(error.to_string()))?;
            let second = if *typed_data { SecondStep::Print } else { SecondStep::Accept(signed) };
            decide(&config, Some(second), *password_fd)
        }
        PolicyAction::Cage { action } => policy_cage::run(&config, action, paper, json),
        PolicyAction::Refuse => decide(&config, None, None),
        PolicyAction::Undo => undo(&config),
        PolicyAction::Reset { what, password_fd, .. } => reset(&config, *what, *password_fd),
    }
}

/// Selection of one of the two policies, with its basis.
#[derive(Debug, Clone, Copy)]
struct PolicySelection {
    devnet: bool,
    /// True if an endpoint reported the type of network; false if only its name is known.
    asked: bool,
}

/// Selects the policy that applies to a call on the same network. `--rpc ethereum=URL` may mean the real chain or a
/// devnet, which only the endpoint can tell.
fn meant(config: &Config) -> Result<PolicySelection, CommandFailure> {
    match NetworkPlan::from_config(config) {
        Ok(NetworkPlan::Devnet) => return Ok(PolicySelection { devnet: true, asked: false }),
        // A network that is known by name is no devnet, and its policy is a file: no endpoint is needed to read it.
        Err(NetworkPlanError::NoEndpoint { .. }) => return Ok(PolicySelection { devnet: false, asked: false }),
        plan => {
            plan?;
        }
    }
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = runtime.block_on(bardo_runtime::open(config, || call::one_call(Arc::new(SystemClock)), clock))?;
    let chains = opened.world.chains();
    if chains.is_empty() {
        return Ok(PolicySelection { devnet: is_devnet(config)?, asked: false });
    }
    Ok(PolicySelection { devnet: chains.iter().all(|chain| chain.network().kind == NetworkKind::Devnet), asked: true })
}

/// Prints the policy's result for a call, from a dry run.
fn check(
    config: &Config,
    tool: &str,
    params: &[String],
    phase: Option<Phase>,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let input = parameters::of_tool(params, tool, &Catalog::new(ALL_TOOL_DEFS.iter().copied())?)?;
    let approve = Some(ApprovalMode::Never);
    let options = call::CallFlags { dry_run: true, approve, phase, ..call::CallFlags::default() };
    let response = call::respond(config, tool, input, options)?;
    let exit = call::exit(&response);
    let passes = exit == CliExit::Success;
    let details = response.error.as_ref().map(serde_json::to_value).transpose()?.unwrap_or_default();
    let hints = response.decision_hints.clone().unwrap_or_default();
    let checks = [&hints["checks"], &details["details"]["checks"]].into_iter().find(|checks| checks.is_array());
    let checks = checks.cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    let violations = match &details["details"]["violations"] {
        Value::Array(found) => found.clone(),
        _ => Vec::new(),
    };
    let (needs, reasons) = (&hints["permit"]["approval"], &hints["permit"]["reasons"]);
    if json {
        print_json(&serde_json::json!({
            "tool": tool, "passes": passes, "needs": needs, "reasons": reasons, "error": response.error,
            "violations": violations, "checks": checks, "spent_usd": hints["permit"]["spent_usd"],
        }))?;
        return Ok(exit);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut said = match &response.error {
        None => format!("{tool} would pass"),
        Some(error) => {
            format!("{tool} would not pass: {} {}", error.code(), failure_words(&ToolFailed::of(error)))
        }
    };
    match needs.as_str() {
        Some("approval") => {
            let told = Vec::<AskReason>::deserialize(reasons).unwrap_or_default();
            let why = display::reasons(&told).join("; ");
            said.push_str(&format!(", with your approval: {why}"));
        }
        Some("delay") => said.push_str(", after a delay in which you can cancel it"),
        Some("notify") => said.push_str(", and you would be notified"),
        _ => {}
    }
    said.push('\n');
    for one in checks.as_array().into_iter().flatten().filter_map(|one| SafetyCheck::deserialize(one).ok()) {
        let mark = match one.outcome {
            CheckOutcome::Passed => "ok",
            CheckOutcome::Warned => "!",
            CheckOutcome::Blocked => "NO",
        };
        said.push_str(&format!("  {mark:2}  {:16}  {}\n", check_word(one.check), found(&one.finding)));
    }
    for one in &violations {
        said.push_str(&format!(
            "  {}\n      limit       {}\n      found       {}\n      would pass  {}\n",
            text(&one["rule"]),
            text(&one["limit"]),
            text(&one["value"]),
            text(&one["would_pass"])
        ));
    }
    print(&said)?;
    Ok(exit)
}

/// Opens the policy engine of the configured chains with their ledger. A devnet inside this process is refused, since
/// its ledger ends with the process.
async fn rules(config: &Config) -> Result<(Arc<OperatorPolicyEngine>, OpenEnvironment, Ledger), CommandFailure> {
    if NetworkPlan::from_config(config)? == NetworkPlan::Devnet {
        let error = "a devnet inside a process reads its policy file at start and has a ledger of its own: name a \
                     network with --network, or a running `bardo devnet` with --rpc";
        return Err(CommandFailure::usage(error.to_owned()));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = bardo_runtime::open(config, || call::one_call(Arc::new(SystemClock)), clock).await?;
    let ledger = DataFolder::of(config).open_ledger(&opened).await?;
    let rules = bardo_runtime::rules(config, &opened, &ledger).await?;
    Ok((rules, opened, ledger))
}

/// Treatment of the second operator's approval.
enum SecondStep {
    /// Prints what the second operator signs, and accepts nothing.
    Print,
    /// Accepts, with the signature and its deadline if there is one.
    Accept(Option<(SecondSignature, u64)>),
}

/// Prints the typed data for a second approval of this policy.
fn print_second(rules: &OperatorPolicyEngine, policy: &Policy, now: u64) -> Result<CliExit, CommandFailure> {
    match rules.policy_statement(policy, now.saturating_add(POLICY_APPROVAL_MILLIS))? {
        Some((statement, _)) => print_json(&statement.typed_data())?,
        None => return Err("the policy in force asks for no second approval".into()),
    }
    Ok(CliExit::Success)
}

/// Accepts a looser policy file, or rejects it without a step.
fn decide(config: &Config, accept: Option<SecondStep>, password_fd: Option<u32>) -> Result<CliExit, CommandFailure> {
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    runtime.block_on(async {
        let (rules, ledger) = match NetworkPlan::from_config(config) {
            Err(NetworkPlanError::NoEndpoint { .. }) => {
                let now = SystemClock.now_millis();
                let ledger = DataFolder::of(config).open_real_ledger(now).await?;
                (bardo_runtime::rules_of_real_networks(config, &ledger, now).await?, ledger)
            }
            _ => {
                let (rules, _, ledger) = rules(config).await?;
                (rules, ledger)
            }
        };
        let Some(waiting) = rules.pending() else {
            print(&format!("no change is pending: {} is in force\n", rules.policy().name()))?;
            return Ok(CliExit::Success);
        };
        let mut said = "The policy file would change this:\n".to_owned();
        let names = labels::names(&DataFolder::of(config)).all();
        for change in &waiting.changes {
            let mark = if change.tighter { "tighter" } else { "LOOSER " };
            let values = name_addresses(&format!("{} → {}", change.from, change.to), &names);
            said.push_str(&format!("  {mark}  {}: {values}\n", change.field));
        }
        let (hash, now) = (waiting.policy.hash(), SystemClock.now_millis());
        let by = format!("bardo policy, process {}", std::process::id());
        let Some(accept) = accept else {
            eprint!("{said}");
            rules.refuse(hash, &by, now).await?;
            print("rejected; the previous policy stays in force\n")?;
            return Ok(CliExit::Success);
        };
        match accept {
            SecondStep::Print => return print_second(&rules, &waiting.policy, now),
            SecondStep::Accept(Some((signature, deadline))) => {
                let by = rules.approve_second(hash, deadline, signature, now)?;
                eprintln!("bardo: second approval by {by}");
            }
            SecondStep::Accept(None) => {}
        }
        if !consent::confirm(&said, "loosen")? {
            let error = "not accepted; the previous policy stays in force";
            return Err(CommandFailure { exit: CliExit::Rejected, error: error.into() });
        }
        let proof = prove(config, &ledger, Authorisation::AcceptPolicy { hash }, password_fd).await?;
        // The approval covers only the policy that was shown.
        match rules.accept(hash, &by, SystemClock.now_millis(), proof).await? {
            Some(adopted) => print(&format!("{} is now in force\n", adopted.policy.name()))?,
            None => {
                let error = "the file has changed since; review it and run `bardo policy accept` again";
                return Err(CommandFailure { exit: CliExit::Blocked, error: error.into() });
            }
        }
        Ok(CliExit::Success)
    })
}

/// Restores the policy file from before the last change by a tool. A session follows the file; what it loosens waits.
fn undo(config: &Config) -> Result<CliExit, CommandFailure> {
    let devnet = meant(config)?.devnet;
    let (path, absent) = place(config, devnet);
    let Some((rewrite, from)) = PolicyRewrite::undo(path.clone(), absent)? else {
        print("no previous policy file is kept: nothing to undo\n")?;
        return Ok(CliExit::Success);
    };
    let restored = policy::parse(rewrite.text(), &from)?;
    let now = open(config, devnet)?.current().policy;
    let mut said = format!("{} becomes what it was before:\n", path.display());
    for line in rewrite.lines().into_iter().chain(described(&now.changes(&restored))) {
        said.push_str(&format!("{}\n", without_controls(&line).replace(['\n', '\t'], " ")));
    }
    if !consent::confirm(&said, "undo")? {
        let error = "nothing was restored";
        return Err(CommandFailure { exit: CliExit::Rejected, error: error.into() });
    }
    rewrite.restore(&from)?;
    print(&format!("{} is restored\n", path.display()))?;
    Ok(CliExit::Success)
}

/// Resets the failure breaker or a high-water mark.
fn reset(config: &Config, what: ResetTarget, password_fd: Option<u32>) -> Result<CliExit, CommandFailure> {
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    runtime.block_on(async {
        let (rules, opened, ledger) = rules(config).await?;
        let refused = || CommandFailure { exit: CliExit::Rejected, error: "nothing was reset".into() };
        let by = format!("bardo policy reset, process {}", std::process::id());
        match what {
            ResetTarget::Breaker => {
                let said = "The count of consecutive failures starts again from zero, and trades pass at once.\n";
                if !consent::confirm(said, "reset")? {
                    return Err(refused());
                }
                let proof = prove(config, &ledger, Authorisation::ResetBreaker, password_fd).await?;
                rules.reset_breaker(&by, SystemClock.now_millis(), proof).await?;
                print("the breaker is closed\n")?;
            }
            ResetTarget::HighWater => {
                let picked = account::pick(config, &opened.world)?;
                let address = picked.map(|picked| picked.address()).ok_or_else(no_account)?;
                let said = format!(
                    "The stop-loss of {address} will measure from its value at its next action, and that of every \
                     Golem in this data folder from its holdings at its next heartbeat.\n"
                );
                if !consent::confirm(&said, "reset")? {
                    return Err(refused());
                }
                let wanted = Authorisation::ResetHighWater { account: address };
                let proof = prove(config, &ledger, wanted, password_fd).await?;
                let marks = rules.forget_high_water(address, &by, SystemClock.now_millis(), proof).await?;
                let lives = Memory::forget_high_waters(&ledger.store).await?;
                print(&format!("{} high-water marks were reset\n", marks.saturating_add(lives)))?;
            }
        }
        Ok(CliExit::Success)
    })
}

/// Asks for the passwords that `wanted` requires on this ledger's networks, and checks them.
async fn prove(
    config: &Config,
    ledger: &Ledger,
    wanted: Authorisation,
    password_fd: Option<u32>,
) -> Result<OperatorProof, CommandFailure> {
    let (data, devnet) = (DataFolder::of(config), ledger.kind == LedgerKind::Devnet);
    let gate = reauthentication::of(&data);
    let passwords = password::ask(&gate, &wanted, devnet, password_fd)?;
    let audit_logs = [AuditLog::new(ledger.store.clone(), Arc::new(SystemClock))];
    let proved = reauthentication::prove(gate, &audit_logs, wanted, devnet, passwords, &SystemClock).await;
    proved.map_err(password::refused)
}

/// Returns the names of the installed tools.
fn installed() -> Vec<&'static str> {
    ALL_TOOL_DEFS.iter().map(|tool| tool.meta.name).collect()
}

fn enforced(field: &PolicyField, installed: &[&str]) -> String {
    field.enforced_with(installed).map_or_else(|nobody| nobody.to_string(), |enforcer| enforcer.to_string())
}

/// Hash of the policy that the ledger of real networks holds as the one in force; `None` without such a ledger.
fn in_force(config: &Config) -> Result<Option<B256>, CommandFailure> {
    let Some(database) = DataFolder::of(config).newest_ledger_of(LedgerKind::Real)? else { return Ok(None) };
    Ok(policy::stored_policy(&log::read_only(&database)?)?.map(|(hash, _)| hash))
}

fn show(config: &Config, meant: PolicySelection, policy: &Policy, json: bool) -> Result<CliExit, CommandFailure> {
    let (path, _) = place(config, meant.devnet);
    let networks = if meant.devnet { "devnets" } else { "test networks and real ones" };
    let other_in_force = if meant.devnet { None } else { in_force(config)?.filter(|hash| *hash != policy.hash()) };
    let installed = installed();
    let fields = policy.fields();
    if json {
        let fields: Vec<_> = fields
            .iter()
            .map(|field| {
                serde_json::json!({
                    "field": field.name, "value": field.value, "set_by": policy.set_by(&field.name),
                    "enforced_by": enforced(field, &installed), "enforced": field.enforced_with(&installed).is_ok(),
                })
            })
            .collect();
        print_json(&serde_json::json!({
            "policy": policy.name(), "hash": policy.hash(), "file": path, "exists": path.exists(),
            "for": networks, "endpoint_asked": meant.asked, "fields": fields, "other_in_force": other_in_force,
        }))?;
        return Ok(CliExit::Success);
    }
    let there = if path.exists() { "" } else { " (missing)" };
    let mut text =
        format!("{}  {}\n{}{there}\napplies to {networks}\n\n", policy.name(), policy.hash(), path.display());
    if let Some(other) = other_in_force {
        text.push_str(&format!(
            "Not all of this file is in force: the ledger of real networks holds the policy {other}, and what is looser\n\
             here waits. `bardo policy accept` shows the changes and asks; a session takes over what is tighter.\n\n"
        ));
    }
    let rows: Vec<[String; 4]> = fields
        .iter()
        .map(|field| [field.name.clone(), field.value.clone(), policy.set_by(&field.name), enforced(field, &installed)])
        .collect();
    let column = |at: usize| rows.iter().map(|row| row.get(at).map_or(0, |cell| width(cell))).max().unwrap_or(0);
    let (names, values, origins) = (column(0), column(1).min(40), column(2));
    for [name, value, origin, enforced] in &rows {
        text.push_str(&format!("{name:names$}  {value:values$}  {origin:origins$}  {enforced}\n"));
    }
    print(&text)?;
    Ok(CliExit::Success)
}

/// Prints the policy as an equivalent file: its preset, then every field with its description, value and enforcement. A
/// field with the preset's value is commented out.
fn explain(policy: &Policy, asked: Option<&str>, json: bool) -> Result<CliExit, CommandFailure> {
    let installed = installed();
    let fields = policy.fields();
    let wanted: Vec<&PolicyField> =
        fields.iter().filter(|field| asked.is_none_or(|asked| field.name == asked)).collect();
    if let Some(asked) = asked.filter(|_| wanted.is_empty()) {
        let near = nearest(asked, fields.iter().map(|field| field.name.as_str()));
        let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        return Err(CommandFailure::usage(format!(
            "unknown policy field `{}`{near} (`bardo policy explain` lists the fields)",
            SafeText::clean(asked, 60)
        )));
    }
    if json {
        let all: Vec<_> = wanted
            .iter()
            .map(|field| {
                serde_json::json!({
                    "field": field.name, "about": field.about, "value": field.value,
                    "enforced_by": enforced(field, &installed),
                })
            })
            .collect();
        print_json(&all)?;
        return Ok(CliExit::Success);
    }
    let preset = policy.begins_with().unwrap_or(PolicyPreset::ReadOnly);
    let usual: BTreeMap<String, String> =
        Policy::preset(preset).fields().into_iter().map(|field| (field.name, field.value)).collect();
    let mut text = String::new();
    if asked.is_none() {
        text.push_str(
            "# What an agent may do. A file names a preset and then the fields that differ from it; an unknown\n\
             # field is an error. Dollars and percentages are quoted, so that no digit is lost.\n\
             # Presets: read-only (signs nothing), demo (for the devnet), defi-trading, paranoid.\n\
             # Tighter values apply as soon as the file is saved; looser ones wait for your approval.\n\
             # This is the policy in force: values of its preset are commented out.\n\n",
        );
        text.push_str(&format!("preset = \"{}\"\n", preset.as_str()));
    }
    for field in wanted {
        let by = enforced(field, &installed);
        let mark = if usual.get(&field.name) == Some(&field.value) { "#" } else { "" };
        text.push_str(&format!("\n# {}\n# Enforced by: {by}\n{mark}{} = {}\n", field.about, field.name, field.value));
    }
    print(&text)?;
    Ok(CliExit::Success)
}
