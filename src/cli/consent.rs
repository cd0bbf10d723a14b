//! Asks the operator on the terminal that a call was made from. The console has a dialog of its own.

use std::collections::HashSet;
use std::io::{BufRead, Write};

use alloy::primitives::U256;

use crate::base::text::SafeText;
use crate::base::units::TokenAmount;
use crate::chain::token::Token;
use crate::fabric::CheckOutcome;
use crate::safety::approval::{Answer, ApprovalDesk, ApprovalRequest};

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

/// Writes the question and reads a line.
fn put(request: &ApprovalRequest) -> Option<String> {
    let preview = &request.preview;
    let proposal = preview.framed.proposal();
    let mut said = format!("\n{} on chain {}\n", proposal.expected_outcome, proposal.chain_id);
    for reason in &request.reasons {
        said.push_str(&format!("  asked because  {reason}\n"));
    }
    for change in &request.changed {
        said.push_str(&format!("  changed        {change}\n"));
    }
    for flow in &proposal.outflows {
        said.push_str(&format!("  at most        {}\n", amount(&flow.token, flow.amount)));
    }
    for inflow in &proposal.inflows {
        said.push_str(&format!(
            "  at least       {} to {}\n",
            amount(&inflow.token, inflow.at_least),
            inflow.recipient
        ));
    }
    for bound in &proposal.allowances {
        let most = amount(&bound.token, bound.at_most);
        said.push_str(&format!("  may then take  {} at most {most}\n", bound.spender));
    }
    said.push_str(&format!("  counted as     ${} and ${} of gas\n", preview.values.spent, preview.values.gas));
    for verdict in preview.verdicts.iter().filter(|verdict| verdict.outcome == CheckOutcome::Warned) {
        said.push_str(&format!("  look at        {}: {}\n", verdict.check, verdict.detail));
    }
    said.push_str(&format!("  from           {}\n", proposal.account));
    for leg in preview.framed.legs() {
        said.push_str(&format!("  calls          {}\n", leg.to));
    }
    said.push_str("Type yes to do it once; anything else refuses and is told as the reason: ");
    let mut terminal = std::io::stderr().lock();
    terminal.write_all(said.as_bytes()).and_then(|()| terminal.flush()).ok()?;
    drop(terminal);
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).ok()?;
    (read > 0).then_some(line)
}

/// An amount with its symbol; raw units where the token's decimals are out of range.
fn amount(token: &Token, raw: U256) -> String {
    match TokenAmount::new(raw, token.decimals) {
        Ok(amount) => format!("{amount} {}", token.symbol),
        Err(_) => format!("{raw} units of {}", token.symbol),
    }
}
