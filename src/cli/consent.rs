//! Approval prompt on the terminal of a command. The console has a dialog of its own.

use std::collections::HashSet;
use std::io::{BufRead, IsTerminal as _, Write};
use std::time::Duration;

use crossterm::event;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use super::{CliExit, CommandFailure};
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::text::SafeText;
use bardo_runtime::labels::AddressNames;
use bardo_runtime::questions::RequestContext;
use bardo_runtime::questions::answering::queued_at;
use bardo_safety::approval::{AnswerError, ApprovalQueue, ApprovalRequest, OperatorAnswer, OperatorReply};
use bardo_session::questions::sections::{DetailSection, raw, sections};
use bardo_session::questions::{Confirmation, Question, QuestionKey};
use golem_chain::network::Network;

/// Time for which input is ignored after a prompt appears.
const SETTLE: Duration = Duration::from_millis(500);

/// Shows each request of the approval queue on the terminal until the call is over. Requests go to stderr, so that
/// stdout contains only the result. Only a typed `yes` approves, after every warning was acknowledged and the required
/// characters were typed.
pub(super) async fn ask(queue: ApprovalQueue, networks: Vec<Network>, paper: bool, names: AddressNames) {
    let mut changes = queue.watch();
    let (mut asked, mut announced) = (HashSet::new(), HashSet::new());
    loop {
        for question in queued_at(&queue, &networks, paper, |_| RequestContext {
            names: names.clone(),
            ..RequestContext::default()
        }) {
            let QuestionKey::Action(permit_id) = question.key else { continue };
            if let Some(second) = question.second.as_ref().filter(|second| second.given.is_none()) {
                // The prompt follows once the second operator has signed.
                if announced.insert(permit_id) {
                    let approvers = second.approvers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
                    eprintln!("bardo: waiting for a second approval by {approvers}, with `bardo approve {permit_id}`");
                }
                continue;
            }
            if !asked.insert(permit_id) {
                continue;
            }
            // A failure of the terminal is not an answer: the request lapses.
            let Ok(Some(reply)) = tokio::task::spawn_blocking(move || ask_on_terminal(&question)).await else { return };
            match queue.answer(permit_id, reply) {
                Ok(()) => {}
                Err(error @ AnswerError::Unconfirmed(_)) => {
                    eprintln!("bardo: {error}");
                    asked.remove(&permit_id);
                }
                Err(error) => eprintln!("bardo: {error}"),
            }
        }
        // A request whose approval lacked its confirmation is still open.
        let askable = |request: &ApprovalRequest| request.preview.second.is_none() || request.second.is_some();
        let open = |request: &ApprovalRequest| !asked.contains(&request.preview.permit.permit_id);
        if queue.pending().iter().any(|request| askable(request) && open(request)) {
            continue;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Shows a decision with its raw calls, for a second operator.
///
/// # Errors
/// A failure if the terminal cannot be written to.
pub(super) fn review(question: &Question) -> Result<(), CommandFailure> {
    let failed = || CommandFailure::from("the decision could not be shown");
    show(&sections(question, SystemClock.now_millis())).ok_or_else(failed)?;
    show(&raw(question)).ok_or_else(failed)
}

/// Shows `said` and asks the operator to type `word`. Returns true if they did.
///
/// # Errors
/// A failure with [`CliExit::Blocked`] if there is no terminal, since only the operator may confirm.
pub(super) fn confirm(said: &str, word: &str) -> Result<bool, CommandFailure> {
    eprint!("{said}");
    attended()?;
    let line = line(&format!("Type `{word}` to confirm: "));
    Ok(line.is_some_and(|line| line.trim() == word))
}

/// Checks that there is a terminal on which the operator can answer.
///
/// # Errors
/// A failure with [`CliExit::Blocked`] if there is none.
pub(super) fn attended() -> Result<(), CommandFailure> {
    if !is_attended() {
        let error = "this needs your approval on a terminal: run it there yourself";
        return Err(CommandFailure { exit: CliExit::Blocked, error: error.into() });
    }
    Ok(())
}

/// Returns true if this process has a terminal on which the operator can answer.
pub(super) fn is_attended() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Shows a request, asks for each acknowledgement and the required characters, and reads the answer. Blocks until then;
/// `None` if the terminal fails.
pub(super) fn ask_on_terminal(question: &Question) -> Option<OperatorReply> {
    show(&sections(question, SystemClock.now_millis()))?;
    let mut confirmation = Confirmation::default();
    let refuse = |why: &str| {
        let reason = match why {
            "" | "no" => SafeText::clean("rejected by the operator", 100),
            why => SafeText::clean(why, 200),
        };
        Some(OperatorReply::from(OperatorAnswer::Refuse { reason }))
    };
    let of = question.to_read.len();
    for (at, one) in question.to_read.iter().enumerate() {
        let typed = line(&format!("  ! warning {} of {of}: {}\nType ok when you have read it: ", at + 1, one.text))?;
        match typed.trim() {
            "ok" => confirmation.read.push(one.text.clone()),
            other => return refuse(other),
        }
    }
    if let Some(confirm) = &question.confirm {
        let typed = line(&format!("To confirm, type {}: ", confirm.what))?;
        match typed.trim() {
            none @ ("" | "no") => return refuse(none),
            typed => confirmation.typed = Some(SafeText::clean(typed, 100)),
        }
    }
    loop {
        let asks =
            "Type yes to approve once, raw to see the calldata; anything else rejects and is recorded as the reason: ";
        match line(asks)?.trim() {
            "yes" => return Some(OperatorReply { answer: OperatorAnswer::Once, confirmation }),
            "raw" => show(&raw(question))?,
            other => return refuse(other),
        }
    }
}

/// Prints sections on the terminal; `None` if that fails.
fn show(sections: &[DetailSection]) -> Option<()> {
    let mut text = String::new();
    for DetailSection { title, rows } in sections {
        text.push_str(&format!("\n{title}\n"));
        for row in rows {
            text.push_str(&format!("  {:14} {}\n", row.label, row.value));
        }
    }
    let mut terminal = std::io::stderr().lock();
    terminal.write_all(text.as_bytes()).ok()
}

/// Asks for a line. Input from before the prompt is discarded.
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

/// Discards pending input of the terminal.
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
