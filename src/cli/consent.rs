//! Asks the operator on the terminal that a call was made from. The console has a dialog of its own.

use std::collections::HashSet;
use std::io::{BufRead, IsTerminal as _, Write};
use std::time::Duration;

use alloy::primitives::U256;
use crossterm::event;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use super::{Exit, Failure};
use crate::base::clock::{Clock as _, SystemClock};
use crate::base::text::SafeText;
use crate::base::units::TokenAmount;
use crate::chain::network::NetworkKind;
use crate::chain::token::{Token, TokenId};
use crate::fabric::CheckOutcome;
use crate::safety::approval::{Answer, ApprovalDesk, ApprovalRequest};
use crate::safety::simulate::Move;

/// How long a question stands there before anything that is typed counts.
const SETTLE: Duration = Duration::from_millis(500);

/// Puts each question of `desk` to the terminal until the call is over. The question goes to stderr, so that
/// stdout holds the result alone; only `yes`, written out, is a yes.
pub(super) async fn ask(desk: ApprovalDesk) {
    let mut changes = desk.watch();
    let mut asked = HashSet::new();
    loop {
        for request in desk.pending() {
            let permit_id = request.preview.permit.permit_id;
            if !asked.insert(permit_id) {
                continue;
            }
            // Whatever goes wrong with the terminal is no answer: the question lapses.
            let Ok(Some(line)) = tokio::task::spawn_blocking(move || put(&request)).await else { return };
            let answer = match line.trim() {
                "yes" => Answer::Once,
                "" | "no" => Answer::Refuse { reason: SafeText::clean("the operator said no", 100) },
                reason => Answer::Refuse { reason: SafeText::clean(reason, 200) },
            };
            if let Err(error) = desk.answer(permit_id, answer) {
                eprintln!("bardo: {error}");
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Shows `said` and asks for `word`; whether it was given.
///
/// # Errors
/// Blocked where there is no terminal: nobody else may say it.
pub(super) fn confirm(said: &str, word: &str) -> Result<bool, Failure> {
    eprint!("{said}");
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let error = "this needs your yes on a terminal: run it there yourself";
        return Err(Failure { exit: Exit::Blocked, error: error.into() });
    }
    let line = line(&format!("Type `{word}` to do it: "));
    Ok(line.is_some_and(|line| line.trim() == word))
}

/// Writes the question and reads a line.
fn put(request: &ApprovalRequest) -> Option<String> {
    let mut terminal = std::io::stderr().lock();
    terminal.write_all(question(request, SystemClock.now_millis()).as_bytes()).ok()?;
    drop(terminal);
    line("Type yes to do it once; anything else refuses and is told as the reason: ")
}

/// Asks for a line. What was typed before there was something to answer is no answer.
fn line(asked: &str) -> Option<String> {
    std::thread::sleep(SETTLE);
    discard().ok()?;
    let mut terminal = std::io::stderr().lock();
    terminal.write_all(asked.as_bytes()).and_then(|()| terminal.flush()).ok()?;
    drop(terminal);
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).ok()?;
    (read > 0).then_some(line)
}

/// Throws away what waits in the terminal.
fn discard() -> std::io::Result<()> {
    enable_raw_mode()?;
    let drained = || -> std::io::Result<()> {
        while event::poll(Duration::ZERO)? {
            event::read()?;
        }
        Ok(())
    };
    let drained = drained();
    disable_raw_mode()?;
    drained
}

/// The whole question: whose money, what changes at best and at worst, where it goes, every check.
fn question(request: &ApprovalRequest, now_millis: u64) -> String {
    let preview = &request.preview;
    let proposal = preview.framed.proposal();
    let money = match preview.network {
        NetworkKind::Devnet => "PLAY MONEY",
        NetworkKind::Test => "TEST MONEY",
        NetworkKind::Real => "REAL MONEY",
    };
    let (place, of, chain_id) = (request.place, request.of, proposal.chain_id);
    let mut said = format!("\nDECISION {place} of {of} · {money} · chain {chain_id}\n{}\n", proposal.expected_outcome);
    let mut row = |what: &str, value: &dyn std::fmt::Display| said.push_str(&format!("  {what:14} {value}\n"));
    row("asked by", &format_args!("{} with {}", proposal.golem_id, proposal.tool.name));
    for reason in &request.reasons {
        row("asked because", reason);
    }
    for change in &request.changed {
        row("CHANGED", change);
    }
    row("simulated on", &format_args!("block {}", preview.simulated.pinned.number));
    for moved in &preview.simulated.moves {
        row("balance", &balance(request, moved));
    }
    for flow in &proposal.outflows {
        row("at most", &amount(&flow.token, flow.amount));
    }
    for inflow in &proposal.inflows {
        row("at least", &format_args!("{} to {}", amount(&inflow.token, inflow.at_least), inflow.recipient));
    }
    for bound in &proposal.allowances {
        let most = amount(&bound.token, bound.at_most);
        row("may then take", &format_args!("{} at most {most}", bound.spender));
    }
    if let Some(order) = &proposal.order {
        if let Some(arrival) = &order.arrival {
            let (least, expected) =
                (amount(&arrival.token, arrival.at_least), amount(&arrival.token, arrival.expected));
            row("arrives", &format_args!("{expected} on chain {}, at worst {least}", arrival.chain_id));
        }
        row("SIGNS", &order.message.kind());
        for (name, value) in order.message.fields() {
            row("", &format_args!("{name}: {value}"));
        }
    }
    let gas = TokenAmount::ether(preview.permit.bounds.worst_gas);
    row("gas at most", &format_args!("{gas} (${})", preview.values.gas));
    row("counted as", &format_args!("${}, of which ${} is gas", preview.values.spent, preview.values.gas));
    row("from", &proposal.account);
    for leg in preview.framed.legs() {
        row("calls", &leg.to);
    }
    if let Some(opinion) = &preview.opinion {
        let agrees = if opinion.agrees { "agrees" } else { "does not agree" };
        row("guardian", &format_args!("{agrees}: {}", opinion.why));
    }
    for verdict in &preview.verdicts {
        let mark = match verdict.outcome {
            CheckOutcome::Passed => "ok",
            CheckOutcome::Warned => "LOOK AT",
            CheckOutcome::Blocked => "BLOCKED",
        };
        row(mark, &format_args!("{}: {}", verdict.check, verdict.detail));
    }
    let seconds = |millis: u64| millis / 1_000;
    if let Some(trade) = &proposal.trade {
        row("quote is", &format_args!("{} s old", seconds(now_millis.saturating_sub(trade.quoted_at))));
    }
    let offer = seconds(preview.permit.expires_at.saturating_sub(now_millis));
    row("holds for", &format_args!("{offer} s; after that it is simulated and asked anew"));
    let left = seconds(request.ends_at.saturating_sub(now_millis));
    let then = if request.passes_by_itself { "it passes by itself" } else { "it lapses" };
    row("answer within", &format_args!("{left} s, or {then}"));
    said
}

/// A balance before and after, and at worst where it is one that grows.
fn balance(request: &ApprovalRequest, moved: &Move) -> String {
    let proposal = request.preview.framed.proposal();
    let flows = proposal.outflows.iter().map(|flow| &flow.token);
    let inflows = proposal.inflows.iter().map(|inflow| &inflow.token);
    let token = flows.chain(inflows).find(|token| token.id == moved.token);
    let show = |raw: U256| match (token, moved.token) {
        (Some(token), _) => amount(token, raw),
        (None, TokenId::Native) => format!("{} of the chain's coin", TokenAmount::ether(raw)),
        (None, TokenId::Erc20(address)) => format!("{raw} units of {address}"),
    };
    let mut said = format!("{} → {}", show(moved.before), show(moved.after));
    let own = |inflow: &&crate::safety::proposal::Inflow| {
        inflow.token.id == moved.token && inflow.recipient == proposal.account
    };
    if let Some(inflow) = proposal.inflows.iter().find(own) {
        said.push_str(&format!(", at worst → {}", show(moved.before.saturating_add(inflow.at_least))));
    }
    said
}

/// An amount with its symbol; raw units where the token's decimals are out of range.
fn amount(token: &Token, raw: U256) -> String {
    match TokenAmount::new(raw, token.decimals) {
        Ok(amount) => format!("{amount} {}", token.symbol),
        Err(_) => format!("{raw} units of {}", token.symbol),
    }
}
