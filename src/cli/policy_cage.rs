//! The `bardo policy cage` command: compares the account's rules in the PolicyCage contract with the policy, and sets
//! or clears them.

use std::sync::Arc;

use alloy::primitives::Address;
use serde_json::{Value, json};

use super::args::CageAction;
use super::call::{self, AccountError};
use super::{CliExit, CommandFailure, consent, password, print, print_json};
use bardo_abi::policy_cage::PolicyCage::Rules;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::Config;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::Fabric;
use bardo_runtime::data::{DataFolder, Ledger, LedgerKind};
use bardo_runtime::labels;
use bardo_runtime::policy_cage::{self, CageChange, CageState, CageStatus};
use bardo_runtime::{OpenEnvironment, account, reauthentication};
use bardo_safety::audit::AuditLog;
use bardo_safety::custody::no_account;
use bardo_safety::onchain_policy::{RuleDifference, UnenforcedRule, amount};
use bardo_safety::pipeline::CommitState;
use bardo_safety::policy::Policy;
use golem_chain::network::{Network, NetworkKind, NetworkPlan};

/// Number of events kept in memory, which is more than one change emits.
const RING: usize = 256;

pub(super) fn run(config: &Config, action: &CageAction, paper: bool, json: bool) -> Result<CliExit, CommandFailure> {
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    let (clear, password_fd) = match action {
        CageAction::Show { .. } => return runtime.block_on(show(config, json)),
        CageAction::Set { password_fd, .. } => (false, *password_fd),
        CageAction::Clear { password_fd, .. } => (true, *password_fd),
    };
    if paper {
        let error = "the rules are set by a transaction, and --paper signs nothing: run it without --paper";
        return Err(CommandFailure::usage(error.to_owned()));
    }
    if NetworkPlan::from_config(config)? == NetworkPlan::Devnet {
        let error = "a devnet inside a process ends with it, and its rules follow the policy by themselves: name a \
                     network with --network, or a running `bardo devnet` with --rpc";
        return Err(CommandFailure::usage(error.to_owned()));
    }
    consent::attended()?;
    runtime.block_on(change(config, clear, password_fd))
}

/// Prints the rules on every chain, compared with the policy.
async fn show(config: &Config, json: bool) -> Result<CliExit, CommandFailure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = bardo_runtime::open(config, || call::one_call(Arc::new(SystemClock)), clock).await?;
    let address = account::pick(config, &opened.world)?.ok_or_else(no_account)?.address();
    let devnet = opened.world.chains().iter().all(|chain| chain.network().kind == NetworkKind::Devnet);
    let policy = bardo_runtime::policy::open(config, devnet)?.current().policy;
    let states = policy_cage::states(&opened, address, &policy).await?;
    if json {
        let chains: Vec<Value> = states.iter().map(|state| in_json(&opened, state)).collect();
        print_json(&json!({
            "account": address, "policy": policy.name(), "policy_hash": policy.hash(), "chains": chains,
        }))?;
    } else {
        print(&states.iter().map(|state| in_words(&opened, state, &policy)).collect::<String>())?;
    }
    Ok(CliExit::Success)
}

/// Sets or clears the rules on every chain where they differ from the wanted state.
async fn change(config: &Config, clear: bool, password_fd: Option<u32>) -> Result<CliExit, CommandFailure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = bardo_runtime::open(config, || call::one_call(Arc::new(SystemClock)), clock.clone()).await?;
    let ledger = DataFolder::of(config).open_ledger(&opened).await?;
    let rules = bardo_runtime::rules(config, &opened, &ledger).await?;
    let picked = account::pick(config, &opened.world)?.ok_or_else(no_account)?;
    let address = picked.address();
    // The policy in force: a looser file that awaits a decision must not loosen the rules on the chain either.
    let policy = rules.policy();
    let mut wanted = Vec::new();
    for state in policy_cage::states(&opened, address, &policy).await? {
        let change = match (clear, &state.on_chain, state.status()) {
            (true, None, _) | (false, _, CageStatus::Agrees) => None,
            (true, Some(_), _) => Some(CageChange::Clear),
            (false, _, CageStatus::None | CageStatus::Differs) => {
                let derived =
                    state.by_policy.clone().map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error))?;
                Some(CageChange::Set(derived.rules))
            }
        };
        match change {
            Some(change) => wanted.push((state, change)),
            None if clear => print(&format!("{}: PolicyCage has no rules for {address}\n", state.chain))?,
            None => print(&format!("{}: PolicyCage agrees with the policy {}\n", state.chain, policy.name()))?,
        }
    }
    let (data, devnet) = (DataFolder::of(config), ledger.kind == LedgerKind::Devnet);
    let mut passwords = None;
    for (state, change) in wanted {
        eprint!("{}", in_words(&opened, &state, &policy));
        let (gate, wanted) = (reauthentication::acting(&data, Some(&picked)), change.authorisation(&state));
        let given = match &passwords {
            Some(given) => Clone::clone(given),
            None => password::ask(&gate, &wanted, devnet, password_fd)?,
        };
        passwords = Some(given.clone());
        let audit_logs = [AuditLog::new(ledger.store.clone(), clock.clone())];
        let proof = reauthentication::prove(gate, &audit_logs, wanted, devnet, given.clone(), &*clock).await;
        let proof = proof.map_err(password::refused)?;
        let password = given.into_iter().next().map(|(_, password)| password);
        let acting =
            acting(config, &opened, &ledger, &clock, call::CallFlags { password_fd, password, ..Default::default() });
        let acting = acting.await?;
        let networks: Vec<Network> = opened.world.chains().iter().map(|chain| chain.network().clone()).collect();
        let asking =
            tokio::spawn(consent::ask(acting.pipeline.approval_queue().clone(), networks, false, labels::names(&data)));
        let made = policy_cage::change(&acting, &opened, &*clock, devnet, (&state, &change, proof)).await;
        asking.abort();
        let made = made.map_err(refused)?;
        let hash = made.legs.last().map(|leg| leg.hash.to_string()).unwrap_or_default();
        if made.state != CommitState::Done {
            let error = format!("{}: {hash} has not taken effect: {}", state.chain, ended(&made.state));
            return Err(CommandFailure { exit: CliExit::Error, error: error.into() });
        }
        let done = match change {
            CageChange::Set(_) => format!("PolicyCage now has the rules of the policy {}", policy.name()),
            CageChange::Clear => "PolicyCage has no rules".to_owned(),
        };
        print(&format!("{}: {done} (transaction {hash})\n", state.chain))?;
    }
    Ok(CliExit::Success)
}

/// Opens the configured account with everything that a signature needs.
pub(super) async fn acting(
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
    clock: &Arc<dyn Clock>,
    options: call::CallFlags,
) -> Result<golem_tools::engine::WriteAccess, CommandFailure> {
    let signing = match call::signing_context(config, opened, ledger, &options).await {
        Ok(signing) => signing.ok_or_else(no_account)?,
        Err(AccountError::Failure(failure)) => return Err(failure),
        Err(AccountError::Answer(error)) => return Err(error.into()),
    };
    let rules = bardo_runtime::rules(config, opened, ledger).await?;
    let fabric = Fabric::in_memory(RING, clock.clone());
    Ok(bardo_runtime::acting(config, opened, ledger, rules, &fabric, clock.clone(), signing).await?)
}

/// Converts the error of an action into the command's failure.
pub(super) fn refused(error: ToolError) -> CommandFailure {
    let exit = match error.code() {
        ErrorCode::ApprovalRefused | ErrorCode::ApprovalLapsed => CliExit::Rejected,
        code if code.is_denial() => CliExit::Blocked,
        _ => CliExit::Error,
    };
    CommandFailure { exit, error: error.into() }
}

/// Describes the state of a change that did not complete.
fn ended(state: &CommitState) -> String {
    match state {
        CommitState::Unclear => "it is not in a block yet; `bardo log --follow` shows when it is".to_owned(),
        CommitState::Reverted => "the transaction reverted".to_owned(),
        CommitState::Stopped { why, .. } => format!("stopped before it was sent: {why}"),
        CommitState::Done | CommitState::Placed | CommitState::Simulated => "nothing was sent".to_owned(),
    }
}

const fn status(status: CageStatus) -> &'static str {
    match status {
        CageStatus::None => "none: the contract checks nothing for this account",
        CageStatus::Agrees => "set, and equal to the policy's",
        CageStatus::Differs => "set, but different from the policy's",
    }
}

fn in_words(opened: &OpenEnvironment, state: &CageState, policy: &Policy) -> String {
    let CageState { chain, chain_id, account, contract, .. } = state;
    let network = opened.world.chains().iter().map(|chain| chain.network()).find(|one| one.chain_id == *chain_id);
    let mut text = format!(
        "{chain} ({chain_id})  {account}\n  PolicyCage  {contract}\n  policy      {} {}\n  rules       {}\n",
        policy.name(),
        policy.hash(),
        status(state.status())
    );
    if let (Some(rules), Some(network)) = (&state.on_chain, network) {
        text.push_str(&limits("on chain", rules, network));
    }
    match &state.by_policy {
        Ok(derived) => {
            if let Some(network) = network.filter(|_| state.status() != CageStatus::Agrees) {
                text.push_str(&limits("in policy", &derived.rules, network));
            }
            for RuleDifference { rule, of, on_chain, by_policy } in &state.differences {
                let none = || "not allowed".to_owned();
                let of = of.as_ref().map(|of| format!(" {of}")).unwrap_or_default();
                let (chain, policy) = (on_chain.clone().unwrap_or_else(none), by_policy.clone().unwrap_or_else(none));
                text.push_str(&format!("  differs     {rule}{of}: {chain} on chain, {policy} in the policy\n"));
            }
            for gap in &derived.gaps {
                text.push_str(&format!("  note        {}\n", gap_in_words(gap)));
            }
        }
        Err(error) => text.push_str(&format!("  note        {error}\n")),
    }
    text.push_str(
        "  note        Bardo checks these rules before it signs; the contract enforces them only for delegated \
         accounts\n",
    );
    text
}

/// Summarises the rules as text.
fn limits(title: &str, rules: &Rules, network: &Network) -> String {
    let symbol = |token: Address| match token.is_zero() {
        true => network.native_symbol.to_owned(),
        false => network.book.name_of(token).unwrap_or_else(|| token.to_string()),
    };
    // All of it may be lost: the contract then compares nothing.
    let share = |bps: u16| match bps {
        10_000.. => "no limit".to_owned(),
        bps => format!("at most {}.{:02} %", bps / 100, bps % 100),
    };
    let pause = match rules.minInterval {
        0 => "no pause between actions".to_owned(),
        seconds => format!("{seconds} s between actions"),
    };
    let mut text = format!(
        "  {title:10}  {} assets, {} functions, {} spenders; drawdown: {}; loss of a trade: {}; {pause}; prices up to {} s old\n",
        rules.assets.len(),
        rules.calls.len(),
        rules.spenders.len(),
        share(rules.maxDrawdownBps),
        share(rules.maxLossBps),
        rules.maxPriceAge
    );
    for asset in &rules.assets {
        let limit = |raw| amount(network, asset.token, raw);
        text.push_str(&format!(
            "    {:8}  per transaction {}, per day {}, held {}{}\n",
            symbol(asset.token),
            limit(asset.maxPerTransaction),
            limit(asset.maxPerDay),
            limit(asset.maxPosition),
            // The contract counts the wrapped native token, too, which a flatten sells.
            if asset.exit { ", exit asset of the contract" } else { "" }
        ));
    }
    text
}

fn gap_in_words(gap: &UnenforcedRule) -> String {
    match gap {
        UnenforcedRule::Unpriced { tokens } => {
            format!(
                "the policy allows {}, but the contract will reject them: they have no price feed",
                tokens.join(", ")
            )
        }
        UnenforcedRule::ValueMayLeave => {
            "the contract does not limit loss or drawdown, because the policy allows transfers or bridges, which it \
                               would count as losses; Bardo's own checks limit both"
                .to_owned()
        }
        UnenforcedRule::Unlisted { fields } => format!(
            "{} of the policy allows anything, but the contract will reject what its rules do not list",
            fields.join(", ")
        ),
    }
}

fn in_json(opened: &OpenEnvironment, state: &CageState) -> Value {
    let network = opened.world.chains().iter().map(|chain| chain.network()).find(|one| one.chain_id == state.chain_id);
    let (rules, gaps, error) = match &state.by_policy {
        Ok(derived) => (Some(&derived.rules), json!(derived.gaps), None),
        Err(error) => (None, json!([]), Some(error.to_string())),
    };
    json!({
        "chain": state.chain, "chain_id": state.chain_id, "contract": state.contract, "status": state.status(),
        "on_chain": state.on_chain.as_ref().map(|rules| rules_in_json(rules, network)),
        "by_policy": rules.map(|rules| rules_in_json(rules, network)),
        "differences": state.differences, "gaps": gaps, "error": error,
    })
}

/// Converts the rules to JSON, with raw amounts as decimal strings and null for no limit.
fn rules_in_json(rules: &Rules, network: Option<&Network>) -> Value {
    let raw = |limit: u128| (limit != u128::MAX).then(|| limit.to_string());
    let symbol = |token: Address| match (token.is_zero(), network) {
        (true, Some(network)) => Some(network.native_symbol.to_owned()),
        (_, network) => network.and_then(|network| network.book.name_of(token)),
    };
    let assets = rules.assets.iter().map(|asset| {
        json!({
            "token": asset.token, "symbol": symbol(asset.token), "feed": asset.feed, "exit": asset.exit,
            "max_per_transaction": raw(asset.maxPerTransaction), "max_per_day": raw(asset.maxPerDay),
            "max_position": raw(asset.maxPosition),
        })
    });
    let calls = rules.calls.iter().map(|call| json!({ "target": call.target, "selector": call.selector }));
    json!({
        "assets": assets.collect::<Vec<_>>(), "calls": calls.collect::<Vec<_>>(), "spenders": rules.spenders,
        "max_drawdown_bps": rules.maxDrawdownBps, "max_loss_bps": rules.maxLossBps,
        "min_interval_seconds": rules.minInterval, "max_price_age_seconds": rules.maxPriceAge,
    })
}
