//! The `bardo reconcile` command: compares the account on the chain with the ledger. With the operator's approval it
//! continues from the chain's nonces, fills gaps and revokes leftover allowances.

use std::sync::Arc;

use super::call::{self, AccountError};
use super::{CliExit, CommandFailure, consent, load, password, print, print_json, print_named};
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::error::ToolError;
use bardo_base::fabric::Fabric;
use bardo_base::format;
use bardo_base::secret::Password;
use bardo_runtime::data::{DataFolder, Ledger, LedgerKind};
use bardo_runtime::reconcile::{self, AccountReconciliation};
use bardo_runtime::{OpenEnvironment, SigningContext, account, reauthentication};
use bardo_safety::audit::AuditLog;
use bardo_safety::custody::{KeyName, Reauthentication, no_account};
use bardo_safety::operator_proof::Authorisation;
use bardo_safety::orders::OrderStage;
use bardo_safety::pipeline::{CommitState, UnusedAllowance};
use golem_chain::network::NetworkPlan;
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::{ToolDef, WriteAccess};

/// Word that confirms the chain's state.
const YES: &str = "reconcile";
/// Word that confirms sending transactions.
const SEND: &str = "send";

pub(super) fn run(
    password_fd: Option<u32>,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    if NetworkPlan::from_config(&config)? == NetworkPlan::Devnet {
        let error = "a devnet inside a process is used by that process alone: name a network with --network, or a \
                     running `bardo devnet` with --rpc";
        return Err(CommandFailure::usage(error.to_owned()));
    }
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let opened = bardo_runtime::open(&config, || call::one_call(Arc::new(SystemClock)), clock.clone()).await?;
        let ledger = DataFolder::of(&config).open_ledger(&opened).await?;
        let picked = account::pick(&config, &opened.world)?.ok_or_else(no_account)?;
        let address = picked.address();
        // Finished actions are recorded first; nothing is sent before the operator approves it.
        let signing =
            SigningContext { looks_only: true, ..SigningContext::of(account::locked(&picked, &opened, &ledger)?) };
        let looking = acting(&config, &opened, &ledger, &clock, signing).await?;
        looking.pipeline.recover_unsent().await.map_err(|refusal| refusal.error())?;
        let left_over = looking.pipeline.unused_allowances().await.map_err(|refusal| refusal.error())?;
        let standings = reconcile::standings(&opened, &ledger, &clock, address, &left_over).await?;
        if json {
            let even = standings.iter().all(AccountReconciliation::is_even);
            print_json(&serde_json::json!({ "account": address, "even": even, "chains": standings }))?;
        } else {
            print_named(&standings.iter().map(describe_account).collect::<String>(), &DataFolder::of(&config))?;
        }
        let mut passwords = Passwords { fd: password_fd, read: None };
        for standing in standings.iter().filter(|standing| standing.needs_operator()) {
            agree((&config, &opened, &ledger, &clock), standing, &mut passwords).await?;
        }
        if standings.iter().any(|standing| !standing.gaps.is_empty() || !standing.left_over.is_empty()) {
            let again = again(&looking)?;
            drop(looking);
            send(&config, &opened, &ledger, &clock, passwords, (&standings, &again)).await?;
        }
        Ok(CliExit::Success)
    })
}

async fn acting(
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
    clock: &Arc<dyn Clock>,
    signing: SigningContext,
) -> Result<WriteAccess, CommandFailure> {
    let rules = bardo_runtime::rules(config, opened, ledger).await?;
    let fabric = Fabric::in_memory(256, clock.clone());
    Ok(bardo_runtime::acting(config, opened, ledger, rules, &fabric, clock.clone(), signing).await?)
}

/// Passwords of the account's key, asked for once.
struct Passwords {
    fd: Option<u32>,
    read: Option<Vec<(KeyName, Password)>>,
}

impl Passwords {
    fn ask(
        &mut self,
        gate: &Reauthentication,
        wanted: &Authorisation,
        devnet: bool,
    ) -> Result<Vec<(KeyName, Password)>, CommandFailure> {
        if self.read.is_none() {
            self.read = Some(password::ask(gate, wanted, devnet, self.fd)?);
        }
        Ok(self.read.clone().unwrap_or_default())
    }
}

/// Asks whether the chain's state is right, and adopts it.
async fn agree(
    (config, opened, ledger, clock): (&Config, &OpenEnvironment, &Ledger, &Arc<dyn Clock>),
    standing: &AccountReconciliation,
    passwords: &mut Passwords,
) -> Result<(), CommandFailure> {
    if standing.waits_outside {
        let error = format!(
            "a transaction that is not in this ledger is still pending on {}: reconcile once it is in a block",
            standing.chain
        );
        return Err(CommandFailure { exit: CliExit::Blocked, error: error.into() });
    }
    let said = if standing.outside.is_none() {
        format!(
            "If the chain is right, Bardo gives the skipped nonces to the next transactions on {}, starting at {}. A \
             wrong response of an endpoint may have moved the ledger past them.\n",
            standing.chain, standing.chain_next
        )
    } else {
        format!(
            "If these were yours, Bardo continues with nonce {} on {}. If they were not, someone else has the key of \
         {}: reject, and move its assets.\n",
            standing.chain_next, standing.chain, standing.account
        )
    };
    if !consent::confirm(&said, YES)? {
        let error = "nothing was changed: the account still signs nothing";
        return Err(CommandFailure { exit: CliExit::Rejected, error: error.into() });
    }
    let by = format!("bardo reconcile, process {}", std::process::id());
    let (data, devnet) = (DataFolder::of(config), ledger.kind == LedgerKind::Devnet);
    let picked = account::pick(config, &opened.world)?;
    let (gate, wanted) = (reauthentication::acting(&data, picked.as_ref()), standing.authorisation());
    let given = passwords.ask(&gate, &wanted, devnet)?;
    let audit_logs = [AuditLog::new(ledger.store.clone(), clock.clone())];
    let proof = reauthentication::prove(gate, &audit_logs, wanted, devnet, given, &**clock).await;
    reconcile::take_over(opened, ledger, clock, standing, &by, proof.map_err(password::refused)?).await?;
    print(&format!("{}: continues with nonce {}\n", standing.chain, standing.chain_next))
}

/// Lists everything else that will be sent with the first transaction: transactions and orders that an earlier run has
/// signed.
fn again(looking: &WriteAccess) -> Result<String, CommandFailure> {
    let waiting = looking.pipeline.to_send_again().map_err(|refusal| refusal.error())?;
    let orders = match looking.pipeline.orders() {
        Some(orders) => orders.live().map_err(ToolError::from)?,
        None => Vec::new(),
    };
    let signed = orders.iter().filter(|order| order.stage == OrderStage::Signed);
    let lines = waiting.iter().map(|left| {
        let when = if left.now { "re-sent" } else { "watched, and re-sent after the stop is lifted" };
        format!("  {when}, signed by an earlier run: {}\n", left.hash)
    });
    let orders = signed.map(|order| format!("  submitted, signed by an earlier run: order {}\n", order.hash));
    Ok(lines.chain(orders).collect())
}

/// Asks for confirmation, then sends the transactions that revoke allowances and fill gaps.
async fn send(
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
    clock: &Arc<dyn Clock>,
    passwords: Passwords,
    (standings, again): (&[AccountReconciliation], &str),
) -> Result<(), CommandFailure> {
    let mut said = String::new();
    for standing in standings {
        let (back, gaps) = (standing.left_over.len(), standing.gaps.len());
        if back + gaps > 0 {
            said.push_str(&format!(
                "On {}, these allowances are revoked and the gaps filled by {}, which cost gas and move no token.\n",
                standing.chain,
                format::counted(u64::try_from(back.max(gaps)).unwrap_or(u64::MAX), "transaction", "transactions")
            ));
        }
    }
    if !again.is_empty() {
        said.push_str(&format!("These are already signed and are sent first:\n{again}"));
    }
    if !consent::confirm(&said, SEND)? {
        return Err(CommandFailure { exit: CliExit::Rejected, error: "nothing was sent".into() });
    }
    let password = passwords.read.and_then(|read| read.into_iter().next()).map(|(_, password)| password);
    let options = call::CallFlags { password_fd: passwords.fd, password, ..call::CallFlags::default() };
    let signing = match call::signing_context(config, opened, ledger, &options).await {
        Ok(signing) => signing.ok_or_else(no_account)?,
        Err(AccountError::Failure(failure)) => return Err(failure),
        Err(AccountError::Answer(error)) => return Err(error.into()),
    };
    let acting = acting(config, opened, ledger, clock, signing).await?;
    let tool = revoking()?;
    for standing in standings {
        let Some(chain) = opened.world.chains().iter().find(|chain| chain.network().chain_id == standing.chain_id)
        else {
            continue;
        };
        for turn in 0..standing.left_over.len().max(standing.gaps.len()) {
            let left_over = standing.left_over.get(turn);
            let committed = reconcile::fill(&acting, chain, tool, &**clock, left_over).await?;
            let leg = committed.legs.last();
            let (hash, nonce) = leg
                .map_or((String::new(), String::new()), |leg| (leg.hash.to_string(), format!(", nonce {}", leg.nonce)));
            if committed.state != CommitState::Done {
                let error = format!(
                    "{}: {hash} was sent and is not settled yet; `bardo log --follow` shows when it is",
                    standing.chain
                );
                return Err(CommandFailure { exit: CliExit::Error, error: error.into() });
            }
            print(&format!("{}: done in {hash}{nonce}\n", standing.chain))?;
        }
    }
    Ok(())
}

/// Returns the tool under whose name the transactions are sent.
fn revoking() -> Result<&'static ToolDef, CommandFailure> {
    let found = ALL_TOOL_DEFS.iter().copied().find(|tool| tool.meta.name == "token_revoke");
    found.ok_or_else(|| CommandFailure { exit: CliExit::Error, error: "this build cannot revoke allowances".into() })
}

fn describe_account(standing: &AccountReconciliation) -> String {
    let AccountReconciliation { chain, chain_id, account, chain_next, chain_pending, ledger_next, .. } = standing;
    let waits = match chain_pending.saturating_sub(*chain_next) {
        0 => "none pending".to_owned(),
        some => format!("{some} pending"),
    };
    let ledger = ledger_next.map_or_else(
        || "nothing signed yet from this ledger".to_owned(),
        |next| format!("next nonce {next}, {} not settled", standing.open.len()),
    );
    let mut text =
        format!("{chain} ({chain_id})  {account}\n  chain    next nonce {chain_next}, {waits}\n  ledger   {ledger}\n");
    if let Some((first, last)) = standing.outside {
        let which = if first == last { format!("nonce {first} was") } else { format!("nonces {first} to {last} were") };
        text.push_str(&format!("  {which} used by transactions that are not in this ledger\n"));
    }
    if standing.waits_outside {
        text.push_str("  a transaction that is not in this ledger is pending\n");
    }
    for (first, last) in &standing.ahead {
        let which = if first == last { format!("nonce {first} is") } else { format!("nonces {first} to {last} are") };
        text.push_str(&format!(
            "  {which} skipped in the ledger, and nothing was signed with them: later ones wait until you confirm that \
             the chain is right\n"
        ));
    }
    for gap in &standing.gaps {
        text.push_str(&format!("  nonce {gap} is unused, and later ones are used: the next transaction fills it\n"));
    }
    for one in &standing.allowances.rows {
        let amount = one.amount.map_or_else(|| format!("{} (raw)", one.raw), |amount| amount.to_string());
        let whom =
            one.label.as_ref().map_or_else(|| one.spender.to_string(), |label| format!("{label} {}", one.spender));
        let until = one.expires_at.map_or_else(String::new, |at| {
            format!(" through Permit2, until {}", format::utc(at.saturating_mul(1_000)))
        });
        text.push_str(&format!("  {whom} may take {amount} {}{until}\n", one.symbol));
    }
    for one in &standing.allowances.silent {
        text.push_str(&format!("  {} {} did not return its allowances: run this again\n", one.symbol, one.token));
    }
    for UnusedAllowance { token, spender, amount, inside, .. } in &standing.left_over {
        let through = if inside.is_some() { " through Permit2" } else { "" };
        text.push_str(&format!("  {spender} may still take {amount} (raw) of {token}{through}: left over\n"));
    }
    if standing.is_even() {
        text.push_str("  both agree\n");
    }
    text
}
