//! An answer of the operator's, taken to the approval desk that asked; the desk alone decides whether it counts. And the
//! place of a program without a session, such as a single call, in the ledger's one queue of decisions.

use std::sync::Arc;
use std::time::Duration;

use super::shared::{Heard, Shared};
use super::{Told, mirror};
use bardo_base::clock::Clock;
use bardo_base::id::PermitId;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_safety::approval::{Answer, ApprovalDesk, Confirmation, Reply};
use bardo_safety::operator_proof::OperatorProof;
use bardo_session::questions::{AnswerKind, OperatorAnswer, Question};
use golem_chain::network::Network;

/// The longest that a standing approval may last, in milliseconds: a day.
const MOST_GRANT: u64 = 86_400_000;

/// Between two looks for an answer that was given in another program, while something is asked.
const LOOKS_EVERY: Duration = Duration::from_millis(250);

/// Why an answer of this kind counts only where the question is asked, while a program of its own leads in some session on
/// the ledger. That program runs as the operator's user and can write there: what lets something through could be its own
/// word. A refusal is heard from anywhere.
pub fn only_here(led: impl FnOnce() -> bool, kind: AnswerKind) -> Option<&'static str> {
    (kind.lets_through() && led()).then_some("a brain process runs there: approve in the console that asks")
}

/// Takes an answer to the desk; what there is to say of it.
///
/// # Errors
/// Why it does not count, in a sentence.
pub fn answer(
    desk: &ApprovalDesk,
    permit: PermitId,
    answer: OperatorAnswer,
    confirmation: Confirmation,
    proof: Option<OperatorProof>,
) -> Result<String, String> {
    if let OperatorAnswer::Smaller { amount } = &answer {
        is_smaller(desk, permit, amount)?;
    }
    let said = said(&answer);
    let reply = Reply { answer: of_operator(answer)?, confirmation };
    desk.answer_proved(permit, reply, proof).map(|()| said).map_err(|error| error.to_string())
}

/// What was answered, in words.
pub fn said(answer: &OperatorAnswer) -> String {
    match answer.kind() {
        AnswerKind::Once => "approved once",
        AnswerKind::Similar => "approved, with similar actions for a while",
        AnswerKind::Smaller => "a smaller amount was requested",
        AnswerKind::Refuse => "refused",
        AnswerKind::RefuseAndStop => "refused, and everything was stopped",
    }
    .to_owned()
}

fn of_operator(answer: OperatorAnswer) -> Result<Answer, String> {
    Ok(match answer {
        OperatorAnswer::Once => Answer::Once,
        OperatorAnswer::Similar { millis, total } => {
            if millis == 0 || millis > MOST_GRANT {
                return Err("a standing approval lasts at most 24 hours".to_owned());
            }
            Answer::Similar { millis, total }
        }
        OperatorAnswer::Smaller { amount } => Answer::Edit { amount },
        OperatorAnswer::Refuse { reason } => Answer::Refuse { reason },
        OperatorAnswer::RefuseAndStop { reason } => Answer::RefuseAndHalt { reason },
    })
}

/// An edited amount may only be smaller: the operator agrees to less, never to more.
fn is_smaller(desk: &ApprovalDesk, permit: PermitId, amount: &str) -> Result<(), String> {
    // What is over already the desk refuses itself, and remembers that somebody wanted less.
    let Some(preview) = desk.asked(permit) else { return Ok(()) };
    let trade = preview.framed.proposal().trade.as_ref().filter(|trade| !trade.exact_output);
    let trade = trade.ok_or("this action has no amount to reduce")?;
    let wanted = TokenAmount::parse(amount, trade.token_in.decimals).map_err(|error| error.to_string())?;
    if wanted.raw().is_zero() || wanted.raw() >= trade.amount_in {
        return Err("the amount must be above zero and below the requested one".to_owned());
    }
    Ok(())
}

/// What a desk asks, as plain data without places. `told` says what is known of whoever asks.
pub fn asked_at(
    desk: &ApprovalDesk,
    networks: &[Network],
    paper: bool,
    told: impl Fn(&bardo_base::id::GolemId) -> Told,
) -> Vec<Question> {
    let pending = desk.pending();
    let questions = pending.iter().map(|request| {
        let proposal = request.preview.framed.proposal();
        let network = networks.iter().find(|network| network.chain_id == proposal.chain_id);
        let asked = mirror(request, network, 0, paper, told(&proposal.golem_id));
        Question { needs_password: desk.takes_proof(), ..asked }
    });
    questions.collect()
}

/// Keeps the questions of a program without a session in the queue of all programs on the ledger, until it is dropped:
/// lays down what its desk asks, and takes to the desk what is answered elsewhere. `heard` is told of each such answer:
/// whether it was taken, and what there is to say.
pub async fn stand_in_line(
    desk: ApprovalDesk,
    shared: Shared,
    networks: Vec<Network>,
    clock: Arc<dyn Clock>,
    paper: bool,
    heard: impl Fn(bool, String) + Send,
) {
    let mut changes = desk.watch();
    let mut laid = Vec::new();
    loop {
        let mut asked = asked_at(&desk, &networks, paper, |_| Told::default());
        for offered in asked.iter_mut().flat_map(|question| &mut question.answers) {
            if let Some(why) = only_here(|| shared.is_led(), offered.kind) {
                offered.why_not = Some(SafeText::clean(why, 80));
            }
        }
        if asked != laid {
            match shared.lay(&asked).await {
                Ok(()) => laid = asked,
                // Tried again at the next look; it can be answered here all the same.
                Err(error) => tracing::warn!(%error, "cannot show this process's decisions to other processes"),
            }
        }
        match shared.report(clock.now_millis()).await {
            Ok(rejected) => {
                for one in rejected {
                    laid.clear();
                    heard(false, format!("{} (offer {}); `bardo log` has the entry", one.why, one.permit_id));
                }
            }
            Err(error) => tracing::warn!(%error, "cannot report invalid rows of the shared queue"),
        }
        match shared.heard() {
            Ok(answers) if answers.is_empty() => {}
            Ok(answers) => {
                let answered = answers.iter().map(|one| one.permit_id).collect();
                for Heard { permit_id, answer: given, confirmation, by } in answers {
                    let taken = match only_here(|| shared.is_led(), given.kind()) {
                        Some(why) => Err(why.to_owned()),
                        None => answer(&desk, permit_id, given, confirmation, None),
                    };
                    match taken {
                        Ok(said) => heard(true, format!("{said}, in another process ({by})")),
                        Err(why) => {
                            heard(false, format!("an answer from another process ({by}) was rejected: {why}"));
                        }
                    }
                }
                // Only now: until the desk has them the ledger does.
                match shared.forget(answered).await {
                    // What the desk did not take is still asked, and the others must see it again.
                    Ok(()) => laid.clear(),
                    Err(error) => {
                        tracing::warn!(%error, "cannot remove handled answers of other processes; they are read again")
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "cannot read the answers of other processes"),
        }
        let asks = !desk.pending().is_empty();
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(LOOKS_EVERY), if asks || !laid.is_empty() => {}
        }
    }
}
