//! A write tool through the executor: proposed, previewed, approved, committed, and reported.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use alloy::primitives::U256;
use bardo::abi::erc20::Erc20;
use bardo::base::clock::SystemClock;
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, Phase, RiskTier, SpriteTrigger, StopLevel, TickBudget,
    ToolMeta,
};
use bardo::base::text::SafeText;
use bardo::base::units::TokenAmount;
use bardo::chain::network::KnownContract;
use bardo::engine::{
    ApprovalMode, CallContext, CallStatus, Catalog, Executor, PreviewResult, ToolCall, ToolDef, ToolInput, ToolReply,
    ToolResponse, WriteAccess, WriteTool,
};
use bardo::fabric::{CheckReason, EventKind, Fabric, Receiver};
use bardo::safety::Proposal;
use bardo::safety::approval::{ApprovalNeed, ApprovalReason, OperatorAnswer};
use bardo::safety::pipeline::CommitOutcome;
use bardo::safety::proposal::{AllowanceBound, AllowanceKind, LegPurpose, ProposalIntent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use bardo_testkit::acting::{acting, executor, keys, seen};
use bardo_testkit::harness::{Hook, TestHarness, leg};

/// Parameters of the test tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Params {
    /// Amount of USDC that Permit2 may take, in whole tokens.
    amount: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    allowed: String,
    hash: Option<String>,
}

/// Grants Permit2 an exact allowance of USDC.
struct Allow;

impl WriteTool for Allow {
    const META: ToolMeta = ToolMeta {
        name: "allow",
        description: "Lets Permit2 take some USDC.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Preparing"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Allows.",
        prompt_guidelines: Guidelines {
            thriving: "Allow.",
            cautious: "Allow little.",
            declining: "Do not.",
            terminal: "Do not.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::NewPosition,
        checks: &[Check::SpendingLimit],
        event_params: &[],
        summary_fields: &["allowed"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = String;

    fn example() -> Value {
        json!({"amount": "5"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, String), ToolError> {
        context.step("Preparing");
        let chain = context.world.chain("ethereum")?;
        let usdc = chain.token("USDC").await?;
        let (permit2, contract) = (chain.contract(KnownContract::Permit2)?, usdc.contract(chain.network()).unwrap());
        let amount = TokenAmount::parse(&params.amount, usdc.decimals)?.raw();
        let call = alloy::sol_types::SolCall::abi_encode(&Erc20::approveCall { spender: permit2, value: amount });
        let proposal = Proposal {
            chain_id: 31_337,
            // The executor sets the actual tool, whatever the proposal states.
            tool: ToolMeta { name: "somebody_else", ..*context.meta() },
            call_id: "00000000000000000000000001".parse().unwrap(),
            golem_id: "nobody".parse().unwrap(),
            account: context.world.account(None)?,
            intent: ProposalIntent::Approve,
            legs: vec![leg(LegPurpose::Main, contract, call.into())],
            outflows: vec![],
            inflows: vec![],
            allowances: vec![AllowanceBound {
                token: usdc,
                spender: permit2,
                kind: AllowanceKind::Erc20,
                at_most: amount,
            }],
            trade: None,
            recipients: vec![],
            order: None,
            files: Vec::new(),
            replaces: None,
            arrival: None,
            expected_outcome: SafeText::clean("Permit2 may take some USDC", 100),
        };
        Ok((proposal, params.amount))
    }

    fn output(_: &CallContext, allowed: String, committed: &CommitOutcome) -> Result<ToolReply<Output>, ToolError> {
        let hash = committed.legs.first().map(|leg| leg.hash.to_string());
        Ok(ToolReply::new(Output { allowed, hash }, "It was allowed.").hint(json!({"own": true})))
    }
}

static ALLOW: ToolDef = ToolDef::write::<Allow>();

/// The tool with a smaller latency budget.
struct Hasty;

impl WriteTool for Hasty {
    const META: ToolMeta = ToolMeta { name: "hasty", tick_budget: TickBudget::Medium, ..Allow::META };
    type Params = Params;
    type Output = Output;
    type Plan = String;

    fn example() -> Value {
        Allow::example()
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, String), ToolError> {
        Allow::prepare(context, params).await
    }

    fn output(context: &CallContext, plan: String, committed: &CommitOutcome) -> Result<ToolReply<Output>, ToolError> {
        Allow::output(context, plan, committed)
    }
}

static HASTY: ToolDef = ToolDef::write::<Hasty>();

/// A tool that never ends.
struct Stuck;

impl WriteTool for Stuck {
    const META: ToolMeta = ToolMeta { name: "stuck", tick_budget: TickBudget::Fast, ..Allow::META };
    type Params = Params;
    type Output = Output;
    type Plan = String;

    fn example() -> Value {
        Allow::example()
    }

    async fn prepare(context: &CallContext, _: Params) -> Result<(Proposal, String), ToolError> {
        context.step("Preparing");
        std::future::pending().await
    }

    fn output(context: &CallContext, plan: String, committed: &CommitOutcome) -> Result<ToolReply<Output>, ToolError> {
        Allow::output(context, plan, committed)
    }
}

static STUCK: ToolDef = ToolDef::write::<Stuck>();

struct Fixture {
    world: TestHarness,
    executor: Executor,
    events: std::sync::Mutex<Receiver>,
    phase: watch::Sender<Phase>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new(account: usize) -> Self {
        Self::with(account, Some).await
    }

    async fn with(account: usize, change: impl FnOnce(WriteAccess) -> Option<WriteAccess>) -> Self {
        let world = TestHarness::new(account).await;
        let (store, folder) = keys();
        let fabric = Fabric::in_memory(1_000, Arc::new(SystemClock));
        let events = std::sync::Mutex::new(fabric.subscribe(1_000));
        let (acting, phase) = acting(&world, world.pipeline.clone(), ApprovalMode::Never);
        let catalog = Catalog::new([&ALLOW, &HASTY, &STUCK]).unwrap();
        let executor = executor(catalog, seen(&world), fabric, Some(store), change(acting));
        Self { world, executor, events, phase, _folder: folder }
    }

    fn allow(amount: &str) -> ToolCall {
        ToolCall::new("allow", ToolInput::Json(json!({"amount": amount})))
    }

    async fn call(&self, call: ToolCall) -> ToolResponse {
        self.executor.call(call).await
    }

    async fn allowed(&self) -> U256 {
        self.world.allowance(self.world.contract(KnownContract::Permit2)).await
    }

    fn signatures(&self) -> usize {
        self.world.wallet.signatures.load(Ordering::SeqCst)
    }

    /// Budgets that were exceeded, in milliseconds, and results of ended calls, since the last read.
    fn overran(&self) -> (Vec<u64>, Vec<bool>) {
        let mut events = Vec::new();
        self.events.lock().unwrap().try_receive(&mut events, 1_000);
        let (mut budgets, mut ends) = (Vec::new(), Vec::new());
        for event in &events {
            match &event.kind {
                EventKind::ToolOverrun(overrun) => budgets.push(overrun.budget_ms),
                EventKind::ToolEnd(end) => ends.push(end.success),
                _ => {}
            }
        }
        (budgets, ends)
    }

    /// Results of ended calls according to the events.
    fn ends(&self) -> Vec<bool> {
        let mut events = Vec::new();
        self.events.lock().unwrap().try_receive(&mut events, 1_000);
        let ends = events.iter().filter_map(|event| match &event.kind {
            EventKind::ToolEnd(end) => Some(end.success),
            _ => None,
        });
        ends.collect()
    }

    fn needs_a_yes(&self) {
        let reasons = vec![ApprovalReason::Found(CheckReason::Transfer)];
        *self.world.book.need.lock().unwrap() = ApprovalNeed::Approval { reasons };
    }

    /// Calls in the background and waits for the approval request.
    async fn asked(&self, call: ToolCall) -> tokio::task::JoinHandle<ToolResponse> {
        let mut questions = self.world.queue.watch();
        let executor = self.executor.clone();
        let mut running =
            tokio::spawn(async move { executor.call(ToolCall { approve: Some(ApprovalMode::Ask), ..call }).await });
        while self.world.queue.pending().is_empty() {
            tokio::select! {
                changed = questions.changed() => changed.unwrap(),
                ended = &mut running => panic!("it ended without a question: {ended:?}"),
            }
        }
        running
    }

    fn answer(&self, answer: OperatorAnswer) {
        let permit = self.world.queue.pending()[0].preview.permit.permit_id;
        self.world.queue.answer(permit, answer).unwrap();
    }
}

fn code(response: &ToolResponse) -> Option<ErrorCode> {
    response.error.as_ref().map(ToolError::code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_everything_and_signs_nothing() {
    let fixture = Fixture::new(1).await;
    let before = fixture.allowed().await;
    let response = fixture.call(ToolCall { dry_run: true, ..Fixture::allow("5") }).await;
    assert_eq!(response.status, CallStatus::Simulated, "{response:?}");
    assert_eq!(response.data, Some(json!({"allowed": "5", "hash": null})));
    let hints = response.decision_hints.unwrap();
    assert_eq!((&hints["state"], &hints["own"]), (&json!("simulated"), &json!(true)));
    let permit = &hints["permit"];
    assert_eq!(permit["bounds"]["still_takeable"][0]["amount"], "5", "{permit}");
    assert_eq!(permit["legs"][0]["purpose"], "main");
    assert!(permit["checks"].as_array().unwrap().iter().any(|check| check["check"] == "simulation"), "{permit}");
    assert_eq!((fixture.signatures(), fixture.allowed().await), (0, before));
    assert_eq!(fixture.ends(), [true]);

    let paper =
        Fixture::with(2, |acting| Some(WriteAccess { paper: bardo::engine::PaperMode::new(true), ..acting })).await;
    assert_eq!(paper.call(Fixture::allow("5")).await.status, CallStatus::Simulated);
    assert_eq!(paper.signatures(), 0);
}

/// An action that was previewed on paper is a rehearsal for good; so is one that was requested in paper mode.
#[tokio::test(flavor = "multi_thread")]
async fn a_paper_preview_is_never_signed() {
    // State of the switch at the preview, and its changes before the answer.
    for (account, first, turns) in [(1, true, &[false][..]), (2, false, &[true]), (3, false, &[true, false])] {
        let paper = bardo::engine::PaperMode::new(first);
        let held = paper.clone();
        let fixture = Fixture::with(account, |acting| Some(WriteAccess { paper: held, ..acting })).await;
        let before = fixture.allowed().await;
        let PreviewResult::Held(offer) = fixture.executor.offer(Fixture::allow("5")).await else { panic!("no offer") };
        turns.iter().for_each(|on| paper.turn(*on));
        let response = offer.commit().await;
        assert_eq!(response.status, CallStatus::Simulated, "{first} {turns:?}: {response:?}");
        assert_eq!((fixture.signatures(), fixture.allowed().await), (0, before), "{first} {turns:?}");

        paper.turn(false);
        fixture.needs_a_yes();
        let running = fixture.asked(Fixture::allow("6")).await;
        paper.turn(true);
        paper.turn(false);
        fixture.answer(OperatorAnswer::Once);
        let response = running.await.unwrap();
        assert_eq!((response.status, fixture.signatures()), (CallStatus::Simulated, 0), "{response:?}");
    }
    // Actions that begin after paper mode are signed.
    let paper = bardo::engine::PaperMode::new(true);
    let held = paper.clone();
    let fixture = Fixture::with(1, |acting| Some(WriteAccess { paper: held, ..acting })).await;
    paper.turn(false);
    paper.turn(false);
    let PreviewResult::Held(offer) = fixture.executor.offer(Fixture::allow("9")).await else { panic!("no offer") };
    assert_eq!((offer.commit().await.status, fixture.signatures()), (CallStatus::Success, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_makes_a_call_act_once() {
    let fixture = Fixture::new(1).await;
    let keyed = || ToolCall { idempotency_key: Some("k".to_owned()), ..Fixture::allow("7") };
    let first = fixture.call(keyed()).await;
    assert_eq!(first.status, CallStatus::Success, "{first:?}");
    assert_eq!(fixture.allowed().await, U256::from(7_000_000));
    let hints = first.decision_hints.as_ref().unwrap();
    assert_eq!((&hints["state"], &hints["as_declared"]), (&json!("done"), &json!(true)), "{hints}");
    assert_eq!(hints["transactions"][0]["hash"], first.data.as_ref().unwrap()["hash"]);
    assert_eq!(fixture.call(keyed()).await, first);
    assert_eq!(fixture.signatures(), 1, "the second call only got the first one's answer");
    // The proposal named another tool; the actual one is recorded.
    let spent: String = fixture
        .world
        .store
        .read(|connection| {
            connection
                .query_row("SELECT call_id FROM safety_permit", [], |row| row.get(0))
                .map_err(bardo::store::StoreError::from)
        })
        .unwrap();
    assert_eq!(spent, first.call_id.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_interrupted_at_its_signature_is_not_repeated_under_its_key() {
    let fixture = Fixture::new(2).await;
    let keyed = || ToolCall { idempotency_key: Some("broke".to_owned()), ..Fixture::allow("3") };
    // Right after the signature.
    *fixture.world.wallet.on_sign.lock().unwrap() =
        Hook::new(|| panic!("something broke where nobody expected it")).into_inner().unwrap();
    let first = fixture.call(keyed()).await;
    assert_eq!(code(&first), Some(ErrorCode::ToolPanicked), "{first:?}");
    let again = fixture.call(keyed()).await;
    assert_eq!(code(&again), Some(ErrorCode::CallInProgress), "{again:?}");
    assert_eq!(fixture.signatures(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_approval_mode_blocks_requests_or_gives_approval() {
    let fixture = Fixture::new(3).await;
    fixture.needs_a_yes();
    let never = fixture.call(Fixture::allow("1")).await;
    assert_eq!((never.status, code(&never)), (CallStatus::Blocked, Some(ErrorCode::ApprovalRequired)));
    let error = never.error.unwrap();
    assert!(error.message().contains("every transfer needs your approval under this policy"), "{error}");
    assert_eq!(
        error.details()["permit"]["reasons"],
        json!([{ "kind": "check", "found": "transfer", "words": "every transfer needs your approval under this policy" }])
    );
    assert_eq!(fixture.signatures(), 0);

    let always = fixture.call(ToolCall { approve: Some(ApprovalMode::Always), ..Fixture::allow("2") }).await;
    assert_eq!(always.status, CallStatus::Success, "{always:?}");

    let running = fixture.asked(Fixture::allow("3")).await;
    fixture.answer(OperatorAnswer::Once);
    assert_eq!(running.await.unwrap().status, CallStatus::Success);
    assert_eq!(fixture.allowed().await, U256::from(3_000_000));

    let running = fixture.asked(Fixture::allow("4")).await;
    fixture.answer(OperatorAnswer::Refuse { reason: SafeText::clean("not today", 100) });
    let refused = running.await.unwrap();
    assert_eq!((refused.status, code(&refused)), (CallStatus::Rejected, Some(ErrorCode::ApprovalRefused)));
    assert!(refused.error.unwrap().message().contains("not today"));
    assert_eq!(fixture.allowed().await, U256::from(3_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_amount_is_prepared_and_requested_again() {
    let fixture = Fixture::new(4).await;
    fixture.needs_a_yes();
    let running = fixture.asked(Fixture::allow("9")).await;
    let mut questions = fixture.world.queue.watch();
    let first = fixture.world.queue.pending()[0].preview.permit.permit_id;
    fixture.answer(OperatorAnswer::Smaller { amount: "2".to_owned() });
    let second = loop {
        match fixture.world.queue.pending().first() {
            Some(open) if open.preview.permit.permit_id != first => break open.preview.clone(),
            _ => questions.changed().await.unwrap(),
        }
    };
    assert_eq!(second.payload.proposal().allowances[0].at_most, U256::from(2_000_000));
    fixture.answer(OperatorAnswer::Once);
    let response = running.await.unwrap();
    assert_eq!((response.status, &response.data.unwrap()["allowed"]), (CallStatus::Success, &json!("2")));
    assert_eq!(fixture.allowed().await, U256::from(2_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_and_stops_block_and_report_every_figure() {
    let fixture = Fixture::new(5).await;
    *fixture.world.book.cap.lock().unwrap() = "50".parse().unwrap();
    let blocked = fixture.call(Fixture::allow("100")).await;
    assert_eq!((blocked.status, code(&blocked)), (CallStatus::Blocked, Some(ErrorCode::SafetySpendingLimitExceeded)));
    let json = serde_json::to_value(&blocked).unwrap();
    assert_eq!(json["error"]["details"]["violations"][0]["rule"], "max_single_trade_usd", "{json}");
    *fixture.world.book.stop.lock().unwrap() = Some(StopLevel::Pause);
    let halted = fixture.call(Fixture::allow("1")).await;
    assert_eq!((halted.status, code(&halted)), (CallStatus::Blocked, Some(ErrorCode::Halted)));
    assert_eq!((fixture.signatures(), fixture.ends()), (0, vec![false, false]));

    let reader = Fixture::with(6, |_| None).await;
    let refused = reader.call(Fixture::allow("1")).await;
    assert_eq!((refused.status, code(&refused)), (CallStatus::Error, Some(ErrorCode::WalletNotConfigured)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_can_tighten_the_phase_and_never_loosen_it() {
    let fixture = Fixture::new(7).await;
    fixture.needs_a_yes();
    for (own, asked, decided) in [
        (Phase::Thriving, Some(Phase::Cautious), Phase::Cautious),
        (Phase::Survival, Some(Phase::Cautious), Phase::Survival),
        (Phase::Defensive, None, Phase::Defensive),
    ] {
        fixture.phase.send_replace(own);
        let running = fixture.asked(ToolCall { phase: asked, ..Fixture::allow("1") }).await;
        assert_eq!(fixture.world.queue.pending()[0].preview.phase, decided);
        fixture.answer(OperatorAnswer::Refuse { reason: SafeText::clean("", 10) });
        running.await.unwrap();
    }
}

/// A slow signature or block is reported like any other slow step, and the call continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_exceeds_its_budget_while_signing_is_reported_and_continues() {
    let fixture = Fixture::new(1).await;
    let (go_on, told) = mpsc::channel::<()>();
    let told = std::sync::Mutex::new(told);
    *fixture.world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        let _ = told.lock().unwrap().recv_timeout(Duration::from_secs(120));
    })
    .into_inner()
    .unwrap();
    let executor = fixture.executor.clone();
    let call = ToolCall::new("hasty", ToolInput::Json(json!({"amount": "8"})));
    let running = tokio::spawn(async move { executor.call(call).await });
    // The preparation is cancelled at three times the budget, the signature is not: it has begun if the call is still
    // running.
    while fixture.signatures() == 0 {
        assert!(!running.is_finished(), "{:?}", running.await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(TickBudget::Medium.limit()).await;
    go_on.send(()).unwrap();
    let response = running.await.unwrap();
    assert_eq!(response.status, CallStatus::Success, "{response:?}");
    assert_eq!(fixture.overran(), (vec![5_000], vec![true]));
}

/// The operator's thinking time does not count for the tool's budget.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_an_answer_does_not_count_against_the_time_budget() {
    let fixture = Fixture::new(2).await;
    fixture.needs_a_yes();
    let since = std::time::Instant::now();
    let running = fixture.asked(ToolCall::new("hasty", ToolInput::Json(json!({"amount": "9"})))).await;
    // On a slow machine the preparation alone may exceed the budget, which is reported.
    let in_time = since.elapsed() < TickBudget::Medium.limit();
    tokio::time::sleep(TickBudget::Medium.limit() + Duration::from_millis(500)).await;
    fixture.answer(OperatorAnswer::Once);
    let response = running.await.unwrap();
    assert_eq!(response.status, CallStatus::Success, "{response:?}");
    let (budgets, ends) = fixture.overran();
    assert_eq!(ends, [true]);
    assert!(budgets.is_empty() || !in_time, "{budgets:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_never_proposes_is_cancelled_at_three_times_its_budget() {
    let fixture = Fixture::new(3).await;
    let since = std::time::Instant::now();
    let keyed = || ToolCall {
        idempotency_key: Some("stuck".to_owned()),
        ..ToolCall::new("stuck", ToolInput::Json(json!({"amount": "1"})))
    };
    let response = fixture.call(keyed()).await;
    assert!(since.elapsed() >= TickBudget::Fast.cancel_after());
    assert_eq!((response.status, code(&response)), (CallStatus::Error, Some(ErrorCode::ToolTimeout)), "{response:?}");
    let error = response.error.unwrap();
    assert_eq!(error.message(), "stuck was cancelled after 3 s, before anything was signed");
    assert_eq!(error.details()["budget_ms"], 1_000);
    assert_eq!((fixture.overran(), fixture.signatures()), ((vec![1_000], vec![false]), 0));
    // Nothing was done, so its idempotency key is free again.
    for _ in 0..1_000 {
        let again = tokio::time::timeout(Duration::from_millis(200), fixture.call(keyed())).await;
        match again {
            Err(_) => return,
            Ok(busy) => assert_eq!(code(&busy), Some(ErrorCode::CallInProgress), "{busy:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the key stays taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_cancels_the_write_only_before_the_signature() {
    let fixture = Fixture::new(6).await;
    // Lowering an allowance needs no approval, and other tests grant allowances from this account.
    assert_eq!(fixture.call(Fixture::allow("0")).await.status, CallStatus::Success);
    let signed = fixture.signatures();
    assert_eq!(fixture.ends(), [true]);
    fixture.needs_a_yes();
    let mut questions = fixture.world.queue.watch();
    let running = fixture.asked(Fixture::allow("1")).await;
    running.abort();
    while !fixture.world.queue.pending().is_empty() {
        questions.changed().await.unwrap();
    }
    assert_eq!(
        (fixture.signatures(), fixture.ends()),
        (signed, vec![false]),
        "the question is withdrawn, nothing is signed"
    );

    // The caller disappears in the middle of the signature.
    *fixture.world.book.need.lock().unwrap() = ApprovalNeed::Instant;
    let (signing, reached) = mpsc::channel();
    let (go_on, gone) = mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    *fixture.world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        let _ = signing.send(());
        let _ = gone.lock().unwrap().recv_timeout(Duration::from_secs(60));
    })
    .into_inner()
    .unwrap();
    let keyed = || ToolCall { idempotency_key: Some("gone".to_owned()), ..Fixture::allow("6") };
    let executor = fixture.executor.clone();
    let running = tokio::spawn(async move { executor.call(keyed()).await });
    tokio::task::spawn_blocking(move || reached.recv_timeout(Duration::from_secs(60))).await.unwrap().unwrap();
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    let busy = fixture.call(keyed()).await;
    assert_eq!(code(&busy), Some(ErrorCode::CallInProgress), "{busy:?}");
    go_on.send(()).unwrap();
    // The call continues to its end, and its answer is available under the idempotency key.
    let answer = loop {
        let response = fixture.call(keyed()).await;
        if code(&response) != Some(ErrorCode::CallInProgress) {
            break response;
        }
        // Each poll is a call, and the rate of calls is limited.
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(answer.status, CallStatus::Success, "{answer:?}");
    assert_eq!((fixture.signatures(), fixture.allowed().await), (signed + 1, U256::from(6_000_000)));
}
