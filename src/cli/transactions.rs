//! The `bardo transactions` command: unconfirmed transactions and open orders, and what can be done about them. Speeding
//! up and cancelling are calls of tools.

use std::fmt::Write as _;
use std::sync::Arc;

use alloy::primitives::B256;
use serde_json::json;

use super::args::TransactionsAction;
use super::call::{self, CallFlags};
use super::{CliExit, CommandFailure, load, print, print_json, print_named};
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::fabric::Fabric;
use bardo_base::format::{age, dollars, gwei, utc, wait};
use bardo_runtime::data::{DataFolder, Ledger};
use bardo_runtime::{OpenEnvironment, SigningContext, account, transactions};
use bardo_safety::custody::no_account;
use bardo_session::handle::{ChainTransactions, Inclusion, NonceGap, OpenOrderRow, TransactionRow, TransactionsState};
use golem_chain::network::NetworkPlan;
use golem_tools::engine::WriteAccess;

pub(super) fn run(
    action: Option<TransactionsAction>,
    environment: &Environment,
    flags: ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let (tool, hash, options) = match action {
        None | Some(TransactionsAction::List) => return list(environment, &flags, json),
        Some(TransactionsAction::SendAgain { hash }) => return send_again(hash, environment, &flags, json),
        Some(TransactionsAction::SpeedUp { hash, how }) => ("speed_up_transaction", hash, how),
        Some(TransactionsAction::Cancel { hash, how }) => ("cancel_transaction", hash, how),
    };
    embedded(&load(environment, &flags)?)?;
    let call = CallFlags {
        dry_run: options.dry_run,
        approve: options.approve,
        password_fd: options.password_fd,
        ..CallFlags::default()
    };
    call::run(tool, &[format!("transaction={hash}")], call, environment, &flags, json)
}

/// Refuses the embedded devnet, whose transactions are those of one process.
pub(super) fn embedded(config: &Config) -> Result<(), CommandFailure> {
    if config.fork.is_none() && NetworkPlan::from_config(config)? == NetworkPlan::Devnet {
        let error = "a devnet inside a process is used by that process alone: its transactions are on screen 9; or name \
                     a network with --network, or a running `bardo devnet` with --rpc";
        return Err(CommandFailure::usage(error.to_owned()));
    }
    Ok(())
}

/// Opens the ledger for reading and resending: no key is opened.
pub(super) async fn looking(
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
    clock: &Arc<dyn Clock>,
) -> Result<WriteAccess, CommandFailure> {
    let picked = account::pick(config, &opened.world)?.ok_or_else(no_account)?;
    let signing = SigningContext { looks_only: true, ..SigningContext::of(account::locked(&picked, opened, ledger)?) };
    let rules = bardo_runtime::rules(config, opened, ledger).await?;
    let fabric = Fabric::in_memory(256, clock.clone());
    Ok(bardo_runtime::acting(config, opened, ledger, rules, &fabric, clock.clone(), signing).await?)
}

fn list(environment: &Environment, flags: &ConfigFlags, json: bool) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    embedded(&config)?;
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    let (account, state) = runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let opened = bardo_runtime::open(&config, || call::one_call(Arc::new(SystemClock)), clock.clone()).await?;
        let ledger = DataFolder::of(&config).open_ledger(&opened).await?;
        let looking = looking(&config, &opened, &ledger, &clock).await?;
        let (account, orders) = (looking.account.address(), looking.pipeline.orders());
        let read = transactions::read(
            opened.world.chains(),
            orders,
            &ledger.store,
            &clock,
            (account, looking.account.signer()),
        )
        .await;
        Ok::<_, CommandFailure>((account, read))
    })?;
    if json {
        print_json(&json!({ "account": account, "transactions": state.chains, "orders": state.orders }))?;
    } else {
        print_named(&text(&state), &DataFolder::of(&config))?;
    }
    let failed = state.fault.is_some() || state.chains.iter().any(|chain| chain.fault.is_some());
    Ok(if failed { CliExit::Error } else { CliExit::Success })
}

fn send_again(
    hash: B256,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    embedded(&config)?;
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let opened = bardo_runtime::open(&config, || call::one_call(Arc::new(SystemClock)), clock.clone()).await?;
        let ledger = DataFolder::of(&config).open_ledger(&opened).await?;
        let looking = looking(&config, &opened, &ledger, &clock).await?;
        let sent = looking.pipeline.rebroadcast(hash, looking.account.address()).await;
        let sent = sent.map_err(|refusal| refusal.error())?;
        let answer = sent.fault.as_ref().map(|(_, words)| words.clone());
        if json {
            print_json(&json!({ "transaction": hash, "state": sent.state.as_str(), "answer": answer }))?;
        } else {
            let answer = answer.map_or_else(String::new, |words| format!("; an endpoint answered: {words}"));
            print(&format!("{hash} was sent to all endpoints again ({}){answer}\n", sent.state))?;
        }
        Ok(CliExit::Success)
    })
}

/// List for people: one paragraph for each transaction.
fn text(state: &TransactionsState) -> String {
    let mut out = String::new();
    let now = state.at / 1_000;
    for chain in &state.chains {
        for gap in &chain.gaps {
            let _infallible = writeln!(out, "! {}", gap_words(chain, gap));
        }
        if let Some(fault) = &chain.fault {
            let _infallible = writeln!(out, "! {}: {fault}", chain.chain);
        }
        for row in &chain.rows {
            out.push_str(&row_text(chain, row, now));
        }
    }
    for order in &state.orders {
        let left = order.usable_until.saturating_sub(now);
        let left = if left == 0 { "its time is over".to_owned() } else { format!("fillable for {}", wait(left)) };
        let what = match order {
            OpenOrderRow { bridge: true, .. } => "Bridge order",
            OpenOrderRow { limit: true, .. } => "Limit order",
            OpenOrderRow { .. } => "Auction",
        };
        let _infallible = writeln!(
            out,
            "{what} {} on {}: {}, {left}\n  cancel it with `bardo call uniswapx_cancel_order order_hash={}`",
            order.hash, order.chain, order.status, order.hash
        );
    }
    if let Some(fault) = &state.fault {
        let _infallible = writeln!(out, "! orders: {fault}");
    }
    if out.is_empty() {
        out.push_str("Nothing is under way.\n");
    }
    out
}

fn row_text(chain: &ChainTransactions, row: &TransactionRow, now: u64) -> String {
    let base = chain.base_fee.map_or_else(|| "unknown".to_owned(), |fee| gwei(fee.into()));
    let what = row.tool.as_ref().map_or_else(|| "transaction".to_owned(), ToString::to_string);
    let what = if row.cancels { "cancellation".to_owned() } else { what };
    let by = row.golem_id.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
    let waits = match &row.plan {
        Some(plan) => {
            let reserved = plan.reserved.map_or_else(String::new, |usd| format!(", {} reserved", dollars(usd)));
            format!("step {} of {} of permit {}{reserved}", plan.leg, plan.of, plan.permit_id)
        }
        None => "no plan waits for it".to_owned(),
    };
    format!(
        "nonce {} on {}: {what} by {by}, {} old, {}\n  {}\n  fee cap {}, tip {}, base fee {base}; sent {} times; signed \
         {}\n  {waits}\n",
        row.nonce,
        chain.chain,
        age(now.saturating_sub(row.signed_at / 1_000)),
        prospect(&row.inclusion),
        row.hash,
        gwei(row.max_fee.into()),
        gwei(row.tip.into()),
        row.sends,
        utc(row.signed_at),
    )
}

fn prospect(inclusion: &Inclusion) -> String {
    match inclusion {
        Inclusion::Next => "can be in the next block".to_owned(),
        Inclusion::BelowBaseFee => "waits for the base fee to fall below its cap".to_owned(),
        Inclusion::AfterNonce { next } => format!("waits for nonce {next}"),
        Inclusion::Unacknowledged => "no endpoint has acknowledged it".to_owned(),
        Inclusion::Forgotten => "the endpoints no longer have it".to_owned(),
        Inclusion::Replaced => "replaced by a later transaction with its nonce".to_owned(),
        Inclusion::InBlock { block } => format!("in block {block}, not confirmed yet"),
        Inclusion::NonceUsed => "a transaction with its nonce is in a block".to_owned(),
        Inclusion::Unknown => "the chain could not be read".to_owned(),
    }
}

fn gap_words(chain: &ChainTransactions, gap: &NonceGap) -> String {
    match gap {
        NonceGap::Missing { from, to } => format!(
            "{}: no transaction has nonces {from} to {to}, and later ones wait for them: `bardo reconcile` fills them",
            chain.chain
        ),
        NonceGap::Foreign { ledger, chain: count } => format!(
            "{}: the chain is at nonce {count}, this ledger at {ledger}: something else signs with this key, and \
             nothing is signed until `bardo reconcile`",
            chain.chain
        ),
    }
}
