//! The `bardo approve` command: a second operator reviews a decision of a served session, on this machine or another, and
//! signs its approval with a key of their own. It attaches without rights; the signature is what counts.

use std::time::Duration;

use super::{CliExit, CommandFailure, consent, print, print_json, secret, serve, without_controls};
use alloy::primitives::Address;
use bardo_attach::Connection;
use bardo_attach::wire::Rights;
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::config::Config;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_runtime::data::DataFolder;
use bardo_runtime::labels;
use bardo_runtime::questions::second;
use bardo_safety::custody::{KeyEntry, Keystore};
use bardo_safety::second_approval::{SecondSignature, SecondStatement};
use bardo_session::handle::{
    AddressedCommand, SessionCommand, SessionHandle, SessionNews, SessionQuery, name_addresses,
};
use bardo_session::questions::{Question, QuestionKey, SecondApprovalGiven, SecondApprovalRequest};

/// Timeout for the session to list its decisions, and to take the approval.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options of `bardo approve`.
#[derive(Debug)]
pub(super) struct Options {
    /// Offer of the decision, or hash of the policy.
    pub decision: Option<String>,
    /// Name of the approver's key.
    pub key: Option<String>,
    /// Descriptor of the key's password.
    pub password_fd: Option<u32>,
    /// Shell command that leads to the session.
    pub via: Option<String>,
    /// True to print the typed data only.
    pub typed_data: bool,
    /// Signature that was made elsewhere.
    pub signature: Option<String>,
    /// Deadline that was signed for a policy, in milliseconds since the Unix epoch.
    pub deadline: Option<u64>,
}

pub(super) fn run(config: &Config, options: &Options) -> Result<CliExit, CommandFailure> {
    let signature = options.signature.as_deref().map(str::parse::<SecondSignature>).transpose();
    let signature = signature.map_err(|error| CommandFailure::usage(error.to_string()))?;
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    let (connection, _tunnel) = match &options.via {
        None => (Connection::open(&serve::place(config), Rights::Watch)?, None),
        Some(command) => serve::connect_through(command).map(|(connection, tunnel)| (connection, Some(tunnel)))?,
    };
    let mut session = runtime.block_on(async { connection.into_handle() })?;
    let question = runtime.block_on(wanted(&mut session, options.decision.as_deref()))?;
    let now = SystemClock.now_millis();
    let mut statement = second::statement(&question, now)?;
    if let (SecondStatement::Policy { deadline, .. }, Some(signed)) = (&mut statement, options.deadline) {
        *deadline = signed;
    }
    if options.typed_data {
        print_json(&statement.typed_data())?;
        return Ok(CliExit::Success);
    }
    let signature = match signature {
        Some(signature) => signature,
        None => sign(config, options, &question, &statement)?,
    };
    let deadline = match statement {
        SecondStatement::Policy { deadline, .. } => Some(deadline),
        SecondStatement::Action { .. } => None,
    };
    let command = SessionCommand::ApproveSecond { key: question.key, signature: signature.to_string(), deadline };
    let given = runtime.block_on(deliver(&mut session, question.key, command))?;
    print(&format!("approved by {}; the session's operator decides now\n", given.by))?;
    Ok(CliExit::Success)
}

/// Second approval that a decision waits for.
fn open(question: &Question) -> Option<&SecondApprovalRequest> {
    question.second.as_ref().filter(|second| second.given.is_none())
}

/// Waits for the session's decisions, and returns the one that is meant.
async fn wanted(session: &mut SessionHandle, named: Option<&str>) -> Result<Question, CommandFailure> {
    // A session lists its decisions on arrival, before it answers anything; it lists none before the first one.
    let query = SessionCommand::Look { ticket: 1, query: SessionQuery::AuditTail { most: 1 } };
    let asked = AddressedCommand { golem_id: GolemId::operator(), command: query };
    session.commands.send(asked).await.map_err(|_| "the session has ended")?;
    let questions = async {
        let mut listed = None;
        loop {
            match session.news.recv().await {
                Some(SessionNews::Questions(questions)) => listed = Some(questions),
                Some(SessionNews::Found { .. }) | None => return listed,
                Some(_) => {}
            }
        }
    };
    let questions =
        tokio::time::timeout(PATIENCE, questions).await.map_err(|_| "the session does not answer in time")?;
    let questions = questions.unwrap_or_default();
    let waiting: Vec<&Question> = questions.iter().filter(|question| open(question).is_some()).collect();
    let matching: Vec<&&Question> =
        waiting.iter().filter(|question| named.is_none_or(|named| question.key.to_string() == named)).collect();
    match (matching.as_slice(), named) {
        ([one], _) => Ok((**one).clone()),
        ([], None) => Err(blocked("no decision of this session waits for a second approval".to_owned())),
        ([], Some(named)) => {
            let named = SafeText::clean(named, 80);
            Err(blocked(format!("decision {named} does not wait for a second approval{}", listed(&waiting))))
        }
        (_, _) => Err(blocked(format!("several decisions wait for a second approval: name one{}", listed(&waiting)))),
    }
}

fn blocked(error: String) -> CommandFailure {
    CommandFailure { exit: CliExit::Blocked, error: error.into() }
}

/// Decisions that wait, one line each.
fn listed(waiting: &[&Question]) -> String {
    waiting.iter().map(|question| format!("\n  {}  {}", question.key, question.title)).collect()
}

/// Shows the decision and signs its approval with the approver's key, after the second operator confirmed it.
fn sign(
    config: &Config,
    options: &Options,
    question: &Question,
    statement: &SecondStatement,
) -> Result<SecondSignature, CommandFailure> {
    let approvers = open(question).map(|second| second.approvers.clone()).unwrap_or_default();
    let keystore = Keystore::at(DataFolder::of(config).keys());
    let entry = approver_key(&keystore, options.key.as_deref(), &approvers)?;
    consent::review(question)?;
    // What the session says about a policy is cut and unchecked; these lines come from the texts that are signed.
    let mut bound = String::new();
    let names = labels::names(&DataFolder::of(config)).all();
    for change in second::policy_changes(question)? {
        let mark = if change.tighter { "tighter" } else { "LOOSER " };
        let values = name_addresses(&format!("{} → {}", change.from, change.to), &names);
        bound.push_str(&format!("  {mark}  {}: {values}\n", change.field));
    }
    if let SecondStatement::Policy { from, to, .. } = statement {
        let heading = "\nWhat you sign changes exactly this (computed here from both policies):\n";
        print(&without_controls(&format!("{heading}{bound}  from {from}\n  to   {to}\n")))?;
    } else {
        print(
            "\nYou sign the calls, amounts, spenders and receivers above. Dollars, checks and names are the session's words.\n",
        )?;
    }
    let said = format!("\nYou approve this as {}, the second operator, with the key {}.\n", entry.address, entry.name);
    if !consent::confirm(&said, "approve")? {
        return Err(CommandFailure { exit: CliExit::Rejected, error: "not approved; nothing was signed".into() });
    }
    let password = secret::read(options.password_fd, &format!("password of the key {}", entry.name))?;
    Ok(keystore.approve_second(&entry.name, &secret::password(&password), statement)?)
}

/// Returns the key of this data folder that the policy names, or the one with this name.
fn approver_key(keystore: &Keystore, named: Option<&str>, approvers: &[Address]) -> Result<KeyEntry, CommandFailure> {
    let list = || approvers.iter().map(Address::to_string).collect::<Vec<_>>().join(", ");
    if let Some(named) = named {
        let entry = keystore.entry(&named.parse()?)?;
        return match approvers.contains(&entry.address) {
            true => Ok(entry),
            false => Err(blocked(format!(
                "the key {} ({}) is not named in second_approval.approvers: {}",
                entry.name,
                entry.address,
                list()
            ))),
        };
    }
    let known = keystore.list()?.into_iter().filter_map(|listed| listed.entry.ok());
    let mut known = known.filter(|entry| approvers.contains(&entry.address));
    match (known.next(), known.next()) {
        (Some(entry), None) => Ok(entry),
        (Some(_), Some(_)) => Err(blocked("several keys here are approvers': name one with --key".to_owned())),
        (None, _) => Err(blocked(format!(
            "no key in this data folder belongs to an approver ({}): import it with `bardo keys import`, or sign the \
             output of --typed-data with another wallet and pass it with --signature",
            list()
        ))),
    }
}

/// Sends the approval and waits until the session lists it, or refuses it.
async fn deliver(
    session: &mut SessionHandle,
    key: QuestionKey,
    command: SessionCommand,
) -> Result<SecondApprovalGiven, CommandFailure> {
    let sent = AddressedCommand { golem_id: GolemId::operator(), command };
    session.commands.send(sent).await.map_err(|_| "the session has ended")?;
    let result = async {
        loop {
            match session.news.recv().await {
                Some(SessionNews::Questions(questions)) => {
                    let question = questions.iter().find(|question| question.key == key);
                    if let Some(given) = question.and_then(|question| question.second.as_ref()?.given) {
                        return Ok(given);
                    }
                }
                Some(SessionNews::CommandResult { done: false, words }) => return Err(blocked(words.to_string())),
                Some(_) => {}
                None => return Err("the session closed the connection".into()),
            }
        }
    };
    match tokio::time::timeout(PATIENCE, result).await {
        Ok(result) => result,
        Err(_) => Err("the session did not confirm the approval in time: look at the decision there".into()),
    }
}
