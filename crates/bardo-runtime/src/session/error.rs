//! Errors of starting a session and of carrying out its commands.

use bardo_base::error::ToolError;
use bardo_base::fabric::JournalError;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_safety::custody::reauthentication::ReauthenticationError;
use bardo_safety::ledger::LedgerError;
use bardo_safety::operator_policy::AcceptError;
use bardo_safety::operator_proof::ProofError;
use bardo_safety::second_approval::SecondError;
use bardo_safety::stop::StopError;
use bardo_sandbox::SandboxError;
use bardo_session::confirmation::Unconfirmed;
use golem::archetype::ArchetypeError;
use golem::scenario::ScenarioError;
use golem_chain::devnet::DevnetStopped;
use golem_tools::engine::CatalogError;

use crate::OpenError;
use crate::data::DataError;
use crate::labels::LabelError;
use crate::questions::answering::AnswerRefused;
use crate::questions::shared::ShareError;

/// Error that prevents the start of a session.
#[derive(Debug, thiserror::Error)]
pub(super) enum BootError {
    /// The data folder cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Events cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The network does not come up.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Rules or the account cannot be used.
    #[error("{}", .0.message())]
    Tool(ToolError),
    /// A simulated clock needs the devnet of this process.
    #[error("only a devnet inside this process can run on its own clock")]
    OwnTime,
    /// The plan of an earlier process cannot be closed.
    #[error(transparent)]
    Rules(#[from] AcceptError),
    /// The tools contradict each other.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The Golem's role cannot be used.
    #[error(transparent)]
    Archetype(#[from] ArchetypeError),
    /// The shared queue of decisions cannot be used.
    #[error(transparent)]
    Share(#[from] ShareError),
}

impl From<ToolError> for BootError {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

/// Error of controlling the devnet of this process.
#[derive(Debug, thiserror::Error)]
pub(super) enum SteerError {
    /// The network is not a devnet of this process.
    #[error("only a devnet inside this process, or a rehearsal with --residents, can be controlled")]
    NoDevnet,
    /// No chain has this id.
    #[error("the devnet has no chain {0}")]
    NoChain(u64),
    /// No chain has this name.
    #[error("the devnet has no chain {0}")]
    NoChainNamed(SafeText),
    /// The market does not trade this.
    #[error("the market has no asset {0}")]
    NoAsset(SafeText),
    /// The devnet has no bridges.
    #[error("this devnet has no relayers")]
    NoRelayers,
    /// The devnet's accounts could not rate an agent.
    #[error("the rating was not sent: {0}")]
    Rating(#[from] SandboxError),
    /// The chain's thread has ended.
    #[error(transparent)]
    Gone(#[from] DevnetStopped),
}

/// Error: the operator's offer cannot be committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OfferError {
    /// No such offer is held any more.
    #[error("this offer has expired: preview it again")]
    Over,
    /// The permit has another simulation hash than the one that was shown.
    #[error("the shown action does not match this permit; nothing was signed")]
    Changed,
    /// Offers take no standing and no smaller approval.
    #[error("a manual action can only be approved once or refused")]
    OnceOnly,
    /// Something was not read or typed.
    #[error("not approved: {0}")]
    Unconfirmed(#[from] Unconfirmed),
}

/// Error: a command to the session was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// The session is ending.
    #[error("not started: the session is ending")]
    Ends,
    /// A transaction was not sent again.
    #[error("not sent again: {0}")]
    NotSent(String),
    /// A second approval does not count.
    #[error("not approved: {0}")]
    Second(SecondError),
    /// The session's queue of commands is full.
    #[error("not done: the command queue is full. Try again")]
    Busy,
    /// The console may only stop.
    #[error("this console is read-only: only Ctrl-X (stop) works")]
    WatchOnly,
    /// The label was not added.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The command names another Golem.
    #[error("no Golem named {0} runs here")]
    OtherGolem(GolemId),
    /// The call is over, or being signed.
    #[error("cannot cancel: it has ended or is being signed")]
    NotCancelled,
    /// Paper mode is off.
    #[error("paper mode is not on")]
    NoPaper,
    /// The session has no signing account.
    #[error("this session cannot sign anything anyway")]
    NoSigner,
    /// Nobody takes the operator's words.
    #[error("the Golem is not taking messages right now. Try again")]
    NobodyListens,
    /// No standing approval has this number.
    #[error("there is no standing approval with that number")]
    NoGrant,
    /// The show is not played step by step.
    #[error("this scenario runs by itself; `bardo golem run --step` plays it step by step")]
    GoesByItself,
    /// The session is live and not a recording.
    #[error("this is a live session, not a recording")]
    NoRecording,
    /// Shows need the devnet of this process.
    #[error("scenarios run only on a devnet inside this process")]
    NoShowsHere,
    /// The show cannot be read.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The show needs a simulated clock.
    #[error("this scenario runs on its own clock: quit, then start it with bardo --scenario {0}")]
    OwnTime(String),
    /// The show belongs to another role.
    #[error("this scenario is played by the role {role}: quit, then start it with bardo --scenario {show}")]
    OtherRole {
        /// Name of the show.
        show: String,
        /// Name of its role.
        role: String,
    },
    /// The Golem plays no shows.
    #[error("this session no longer plays scenarios")]
    NoPlayer,
    /// There is no approval queue.
    #[error("this session has no approval queue")]
    NoQueue,
    /// The answer does not count.
    #[error(transparent)]
    Answer(#[from] AnswerRefused),
    /// The shared queue does not take the answer.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// The offer is not committed.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// There is no account with a password.
    #[error("this session has no account, so no password can be checked")]
    NoPassword,
    /// The password was not proved.
    #[error(transparent)]
    Reauthentication(#[from] ReauthenticationError),
    /// The operator's decision was not proved.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// No policy is in force.
    #[error("this session has no policy")]
    NoPolicy,
    /// Something was not read or typed.
    #[error(transparent)]
    Unconfirmed(#[from] Unconfirmed),
    /// The decision is not on record.
    #[error(transparent)]
    Rules(#[from] AcceptError),
    /// The policy that waits is not the one that was shown.
    #[error("the policy has changed again: open the decision again")]
    OtherPolicy,
    /// A policy takes no partial approval.
    #[error("a policy can only be accepted or refused as a whole")]
    WholePolicy,
    /// The session's own question is over.
    #[error("this decision has ended")]
    QuestionOver,
    /// The operator's approval lacks its proof.
    #[error("it was not confirmed by the operator")]
    NotConfirmed,
    /// The session's own questions take no partial approval.
    #[error("it can only be approved once or refused")]
    OnceOnly,
    /// The stop file does not take it.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// This console has set no hold.
    #[error("this console has no hold to release")]
    NoHold,
    /// State left by an earlier process cannot be recovered, so paper mode stays on; the reason.
    #[error("paper mode stays on: {0}")]
    PaperStays(SafeText),
    /// No stop is above the level asked for.
    #[error("no higher stop is in force")]
    NoHigherStop,
    /// The session has no account.
    #[error("this session has no account")]
    NoAccount,
    /// The session has no chain.
    #[error("this session has no chain")]
    NoChain,
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The devnet is not steered.
    #[error(transparent)]
    Steer(#[from] SteerError),
}
