//! Test fixture: a devnet, a pipeline over a database in a file, an account that signs like custody, and rules that are
//! simple enough to verify at sight.

use bardo_base::fabric::Finding;
use bardo_base::model::RuleName;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use alloy::consensus::TxEip1559;
use alloy::eips::BlockNumberOrTag;
use alloy::network::TransactionBuilder as _;
use alloy::primitives::aliases::{U24, U48, U160};
use alloy::primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall;
use bardo_abi::erc20::{Erc20, OpenMint};
use bardo_abi::permit2::Permit2;
use bardo_abi::uniswap_v3::QuoterV2;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::{self, Event, EventKind, Fabric, Receiver};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, Phase, RiskTier, SpriteTrigger, StopLevel, TickBudget,
    ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Usd};
use bardo_runtime::data::ALL_MIGRATIONS;
use bardo_safety::account::{Account, AccountKind, PayloadContext, SignError};
use bardo_safety::approval::{ApprovalNeed, ApprovalQueue, Consent};
use bardo_safety::audit::{self, AuditLog};
use bardo_safety::chain_snapshot::SnapshotReader;
use bardo_safety::checks::slippage::SlippageLimits;
use bardo_safety::custody::development::DevelopmentAccount;
use bardo_safety::ledger::MarkChange;
use bardo_safety::pipeline::{
    Capability, PhaseRequest, Pipeline, PipelineChain, PipelineConfig, PipelineRefusal, Preview,
};
use bardo_safety::policy_engine::{ActionEnd, PolicyEngine, Reservation, ReserveError};
use bardo_safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent, ReplacedTx,
    SignatureSlot, TradeFigures,
};
use bardo_safety::queue_key::QueueKey;
use bardo_safety::second_approval::SecondRequirement;
use bardo_safety::signing_payload::FeeBound;
use bardo_safety::typed::TypedMessage;
use bardo_safety::{CheckInputs, PayloadError, SigningPayload, Verdict};
use bardo_sandbox::keys::DevnetAccount;
use bardo_sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use bardo_store::{Migrations, Store, StoreConfig, StoreError};
use futures::future::BoxFuture;
use golem_chain::devnet::{Chain, WorldState};
use golem_chain::evm::PLACEHOLDER_SIGNATURE;
use golem_chain::network::{DataFees, KnownContract, Network, NetworkDescription, NetworkKind};
use golem_chain::permit2::{PermitDetails, PermitSingle};
use golem_chain::price::PriceChain;
use golem_chain::provider::{ChainClient, ClientBackend};
use golem_chain::sender::{self, PrivateRelay, SendState, SenderRules, TxRecord, TxSender};
use golem_chain::signed::SignedTransaction;
use golem_chain::token::{self, TokenInfo};
use golem_protocols::uniswap::router::{
    CALLER, RouterCommand, RouterExecution, RouterVersion, SwapAmounts, SwapCommand, SwapPath, V3Path,
};
use rusqlite::Transaction;

/// One devnet for all tests; each uses accounts of its own.
static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| sandbox(1));

/// Devnet without trading, with a block for each transaction.
pub fn sandbox(seed: u64) -> Sandbox {
    let config = SandboxConfig {
        seed,
        start_time: SystemClock.now_seconds(),
        pace: BlockPace::OnTransaction,
        clock: Some(Arc::new(SystemClock)),
        market: MarketMode::Off,
        keeper: true,
    };
    Sandbox::boot(&config, &|_| {}).unwrap()
}

/// Chain that all tests use.
pub fn devnet() -> &'static bardo_sandbox::SandboxChain {
    &SANDBOX.chains()[0]
}

/// The devnet's address book, only for the chain that all tests use.
pub fn description() -> NetworkDescription {
    let mut description = SANDBOX.description();
    description.chains.truncate(1);
    description
}

/// Lock per account, so that one test at a time uses it.
static ALONE: LazyLock<Vec<Arc<tokio::sync::Mutex<()>>>> = LazyLock::new(|| (0..10).map(|_| Arc::default()).collect());

/// Fee of the pool that tests trade in, in hundredths of a basis point.
pub const FEE: u32 = 500;

/// Lifetime of permits here.
const TTL: Duration = Duration::from_secs(60);

pub const ASKED: PhaseRequest = PhaseRequest { phase: Phase::Thriving, own: None };

/// A tool like those of the catalog; its declared class is as lax as possible, so that the derived one counts.
pub const TOOL: ToolMeta = ToolMeta {
    name: "test_write",
    description: "Writes, for a test.",
    category: Category::Trading,
    capability: CapabilityTier::Write,
    risk_tier: RiskTier::Layer3,
    tick_budget: TickBudget::Slow,
    progress_steps: &[],
    sprite_trigger: SpriteTrigger::Executing,
    prompt_snippet: "",
    prompt_guidelines: Guidelines { thriving: "", cautious: "", declining: "", terminal: "", memory: None },
    idempotent: false,
    action_class: ActionClass::ClosePosition,
    checks: &[],
    event_params: &[],
    summary_fields: &[],
    card: None,
    spenders: &[],
};

/// System clock with an offset that a test sets.
#[derive(Debug, Default)]
pub struct Shifted(AtomicI64);

impl Shifted {
    pub fn shift(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Shifted {
    fn now_millis(&self) -> u64 {
        SystemClock.now_millis().saturating_add_signed(self.0.load(Ordering::SeqCst))
    }
}

/// A function that a test runs in the middle of an operation.
pub struct Hook(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl Hook {
    pub fn new(does: impl Fn() + Send + Sync + 'static) -> Mutex<Option<Self>> {
        Mutex::new(Some(Self(Box::new(does))))
    }

    pub fn run(hook: &Mutex<Option<Self>>) {
        if let Some(Self(does)) = hook.lock().unwrap().as_ref() {
            does();
        }
    }
}

/// Custody's account of the development mnemonic, with changes by the test.
#[derive(Debug)]
pub struct Wallet {
    account: DevelopmentAccount,
    party: DevnetAccount,
    /// Modifies a transaction before it is signed; `None` for an honest account.
    pub falsify: Mutex<Option<fn(&mut TxEip1559)>>,
    pub on_sign: Mutex<Option<Hook>>,
    pub signatures: AtomicUsize,
}

impl Account for Wallet {
    fn address(&self) -> Address {
        self.account.address()
    }

    fn signer(&self) -> Address {
        self.account.signer()
    }

    fn kind(&self) -> AccountKind {
        self.account.kind()
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), PayloadError>> {
        self.account.refresh()
    }

    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError> {
        self.account.prepare_payload(proposal, context)
    }

    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<SignedTransaction, SignError>> {
        Box::pin(async move {
            self.signatures.fetch_add(1, Ordering::SeqCst);
            let falsify = *self.falsify.lock().unwrap();
            let signed = match falsify {
                None => self.account.sign(capability).await?,
                Some(falsify) => self.forge(capability, falsify)?,
            };
            Hook::run(&self.on_sign);
            Ok(signed)
        })
    }

    fn sign_order(
        &self,
        capability: Capability<bardo_safety::pipeline::Order>,
    ) -> BoxFuture<'_, Result<Bytes, SignError>> {
        self.signatures.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let signature = self.account.sign_order(capability).await?;
            Hook::run(&self.on_sign);
            let of_nothing = self.falsify.lock().unwrap().is_some();
            Ok(if of_nothing { self.party.sign_digest(31_337, B256::ZERO).unwrap() } else { signature })
        })
    }
}

impl Wallet {
    /// Signs as another program with the same key would.
    pub fn sign_outside(&self, transaction: TxEip1559) -> Vec<u8> {
        alloy::eips::eip2718::Encodable2718::encoded_2718(&self.party.sign(transaction).unwrap())
    }

    /// Signs something else than the capability permits.
    fn forge(&self, capability: Capability, falsify: fn(&mut TxEip1559)) -> Result<SignedTransaction, SignError> {
        let to_sign = capability.into_parts();
        let mut transaction = TxEip1559 {
            chain_id: to_sign.chain_id,
            nonce: to_sign.nonce,
            gas_limit: to_sign.transaction.gas_limit,
            max_fee_per_gas: to_sign.fees.max_fee_per_gas,
            max_priority_fee_per_gas: to_sign.fees.max_priority_fee_per_gas,
            to: TxKind::Call(to_sign.transaction.to),
            value: to_sign.transaction.value,
            access_list: Default::default(),
            input: to_sign.transaction.data.clone(),
        };
        falsify(&mut transaction);
        let refused = |error: &dyn std::fmt::Display| SignError::Refused(error.to_string());
        let signed = self.party.sign(transaction).map_err(|error| refused(&error))?;
        SignedTransaction::new(signed).map_err(|error| refused(&error))
    }
}

/// Simple rules: a stop, a limit on everything reserved or spent, and a need for approval.
#[derive(Debug)]
pub struct Book {
    pub version: Mutex<B256>,
    pub stop: Mutex<Option<StopLevel>>,
    pub limits: Mutex<SlippageLimits>,
    pub cap: Mutex<Usd>,
    /// Largest fee per gas unit, in wei; `None` for no limit.
    pub gas_fee: Mutex<Option<u128>>,
    pub need: Mutex<ApprovalNeed>,
    pub hot_lane: Mutex<Usd>,
    pub second: Mutex<Option<SecondRequirement>>,
    pub on_reserve: Mutex<Option<Hook>>,
    /// Called before every read of the policy version, or of the stop.
    pub on_version: Mutex<Option<Hook>>,
    pub on_stop: Mutex<Option<Hook>>,
    /// Sends everything by a private relay, and lets a standing approval cover everything.
    pub private: AtomicBool,
    pub always: AtomicBool,
    /// Addresses that the rules know.
    pub acquaintances: Mutex<BTreeSet<Address>>,
    pub ends: Mutex<Vec<ActionEnd>>,
}

const BOOK: Migrations = Migrations {
    room: "book",
    steps: &["CREATE TABLE book_held (
        id INTEGER PRIMARY KEY AUTOINCREMENT, cents INTEGER NOT NULL, reserved INTEGER NOT NULL
    ) STRICT"],
};

/// Dollars in cents, rounded up.
pub fn cents(usd: Usd) -> i64 {
    usd.to_fixed(2, bardo_base::units::Rounding::Up).replace('.', "").parse().unwrap()
}

impl Book {
    fn spending(&self, spent: Usd, before: i64) -> Verdict {
        let cap = *self.cap.lock().unwrap();
        if before + cents(spent) <= cents(cap) {
            return Verdict::passed(Check::SpendingLimit, Finding::said("inside the cap"));
        }
        let violation =
            Violation::new(RuleName::MaxSingleTradeUsd, cap.to_string(), spent.to_string(), cap.to_string());
        Verdict::because(Check::SpendingLimit, ErrorCode::SafetySpendingLimitExceeded, "above the cap", vec![violation])
    }
}

impl PolicyEngine for Book {
    fn version(&self) -> B256 {
        Hook::run(&self.on_version);
        *self.version.lock().unwrap()
    }

    fn largest_granted(&self) -> Option<Usd> {
        None
    }

    fn largest_gas_fee(&self) -> Option<u128> {
        *self.gas_fee.lock().unwrap()
    }

    fn stop(&self) -> Option<StopLevel> {
        Hook::run(&self.on_stop);
        *self.stop.lock().unwrap()
    }

    fn last_stop(&self) -> Option<SafeText> {
        None
    }

    fn slippage(&self, _: Phase) -> SlippageLimits {
        *self.limits.lock().unwrap()
    }

    fn check(&self, _: &SigningPayload, inputs: &CheckInputs) -> Vec<Verdict> {
        let halt = match inputs.stop {
            Some(level) if !inputs.only_revokes() => {
                Verdict::because(Check::Halt, ErrorCode::Halted, format_args!("{level} is in force"), vec![])
            }
            _ => Verdict::passed(Check::Halt, Finding::said("no stop")),
        };
        let spending = match &inputs.values {
            Ok(values) => self.spending(values.spent, 0),
            Err(doubt) => Verdict::because(Check::SpendingLimit, ErrorCode::SafetyPriceUnknown, doubt, vec![]),
        };
        vec![halt, spending]
    }

    fn consent(&self, _: &SigningPayload, _: &CheckInputs) -> ApprovalNeed {
        self.need.lock().unwrap().clone()
    }

    fn second_approval(&self, _: &SigningPayload, _: &CheckInputs) -> Option<SecondRequirement> {
        self.second.lock().unwrap().clone()
    }

    fn above_hot_lane(&self, _: &SigningPayload, inputs: &CheckInputs) -> bool {
        inputs.values.as_ref().is_ok_and(|values| values.spent > *self.hot_lane.lock().unwrap())
    }

    fn always_covers(&self, _: &SigningPayload, _: &CheckInputs) -> bool {
        self.always.load(Ordering::SeqCst)
    }

    fn needs_private_relay(&self, _: &SigningPayload, _: &CheckInputs) -> bool {
        self.private.load(Ordering::SeqCst)
    }

    fn reserve(
        &self,
        transaction: &Transaction<'_>,
        _: u64,
        _: &SigningPayload,
        inputs: &CheckInputs,
    ) -> Result<Reservation, ReserveError> {
        Hook::run(&self.on_reserve);
        let spent = inputs.values.as_ref().map_err(|doubt| ReserveError::Ledger(doubt.to_string()))?.spent;
        let held: i64 = transaction.query_row("SELECT coalesce(sum(cents), 0) FROM book_held", [], |row| row.get(0))?;
        let verdict = self.spending(spent, held);
        if verdict.blocks() {
            return Err(ReserveError::Refused(vec![verdict]));
        }
        transaction.execute("INSERT INTO book_held (cents, reserved) VALUES (?1, ?1)", [cents(spent)])?;
        Ok(Reservation(transaction.last_insert_rowid()))
    }

    fn settle(
        &self,
        transaction: &Transaction<'_>,
        _: u64,
        reservation: Reservation,
        end: ActionEnd,
    ) -> Result<(), ReserveError> {
        self.ends.lock().unwrap().push(end);
        let cents = match end {
            ActionEnd::Done { spent } | ActionEnd::Partly { spent } | ActionEnd::MaybeSigned { spent } => cents(spent),
            ActionEnd::Reverted { gas } => cents(gas),
            ActionEnd::NotSent | ActionEnd::Withdrawn => 0,
            ActionEnd::Unclear => return Ok(()),
        };
        transaction.execute("UPDATE book_held SET cents = ?2 WHERE id = ?1", (reservation.0, cents))?;
        Ok(())
    }

    fn reserve_again(
        &self,
        transaction: &Transaction<'_>,
        _: u64,
        reservation: Reservation,
    ) -> Result<Reservation, ReserveError> {
        let Reservation(before) = reservation;
        transaction.execute(
            "INSERT INTO book_held (cents, reserved) SELECT reserved, reserved FROM book_held WHERE id = ?1",
            [before],
        )?;
        Ok(Reservation(transaction.last_insert_rowid()))
    }

    fn arrived(&self, _: &Transaction<'_>, _: u64, _: Reservation) -> Result<Option<MarkChange>, ReserveError> {
        Ok(None)
    }

    fn names_token(&self, _: u64, _: Address) -> bool {
        false
    }

    fn named_vaults(&self, _: u64) -> BTreeSet<Address> {
        BTreeSet::new()
    }

    fn knows_recipient(&self, _: Address) -> bool {
        false
    }

    fn knows_spender(&self, _: Address) -> bool {
        false
    }

    fn named(&self) -> BTreeSet<Address> {
        self.acquaintances.lock().unwrap().clone()
    }

    fn acquaintances(&self) -> Result<BTreeSet<Address>, StoreError> {
        Ok(self.acquaintances.lock().unwrap().clone())
    }
}

pub struct TestHarness {
    pub pipeline: Pipeline,
    pub book: Arc<Book>,
    pub wallet: Arc<Wallet>,
    pub store: Store,
    pub queue: ApprovalQueue,
    pub client: ChainClient,
    pub usdc: TokenInfo,
    pub weth: TokenInfo,
    pub clock: Arc<Shifted>,
    sending: SenderRules,
    events: Mutex<Receiver>,
    fabric: Fabric,
    folder: tempfile::TempDir,
    _alone: tokio::sync::OwnedMutexGuard<()>,
}

impl TestHarness {
    /// Fixture for the devnet's account of that number, which gets 10,000 USDC.
    pub async fn new(account: usize) -> Self {
        Self::over(&SANDBOX, account, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await
    }

    /// Fixture on the devnet that tests share, with a clock in step with its chain.
    pub async fn in_step_with_shared(account: usize) -> Self {
        Self::in_step(&SANDBOX, account, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await
    }

    /// Fixture on another devnet, with a clock in step with its chain, whose many blocks are ahead of the system clock.
    pub async fn in_step(sandbox: &'static Sandbox, account: usize, sending: SenderRules) -> Self {
        let world = Self::over(sandbox, account, sending).await;
        let look = |chain: &mut Chain| chain.head().header.timestamp;
        let head = sandbox.chains()[0].devnet.run(look).await.unwrap();
        let ahead = (head * 1_000).saturating_sub(SystemClock.now_millis());
        world.clock.shift(i64::try_from(ahead).unwrap());
        world
    }

    /// Fixture on another devnet, with these rules for sending.
    pub async fn over(sandbox: &'static Sandbox, account: usize, sending: SenderRules) -> Self {
        let alone = Arc::clone(&ALONE[account]).lock_owned().await;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (network, chain) = sandbox.description().networks().into_iter().zip(sandbox.chains()).next().unwrap();
        let client = ChainClient::devnet(network, chain.devnet.clone(), clock.clone()).unwrap();
        let usdc = token::resolve("USDC", client.network(), client.provider()).await.unwrap();
        let weth = token::resolve("WETH", client.network(), client.provider()).await.unwrap();
        let party = DevnetAccount::development_accounts().unwrap().swap_remove(account);
        let folder = tempfile::tempdir().unwrap();
        let fabric = Fabric::in_memory(10_000, clock.clone());
        let dollars = |text: &str| text.parse::<Usd>().unwrap();
        let book = Arc::new(Book {
            version: Mutex::new(keccak256("rules")),
            stop: Mutex::new(None),
            limits: Mutex::new(SlippageLimits {
                max_slippage: BasisPoints::new(200).unwrap(),
                max_price_impact: BasisPoints::new(200).unwrap(),
                impact_below: None,
                max_loss: BasisPoints::new(400).unwrap(),
                max_quote_age: 60_000,
            }),
            cap: Mutex::new(dollars("100000")),
            gas_fee: Mutex::new(None),
            need: Mutex::new(ApprovalNeed::Instant),
            hot_lane: Mutex::new(dollars("100000")),
            second: Mutex::new(None),
            on_reserve: Mutex::new(None),
            on_version: Mutex::new(None),
            on_stop: Mutex::new(None),
            private: AtomicBool::new(false),
            always: AtomicBool::new(false),
            acquaintances: Mutex::default(),
            ends: Mutex::default(),
        });
        let wallet = Arc::new(Wallet {
            account: DevelopmentAccount::new(account as u32, [&client]).unwrap(),
            party,
            falsify: Mutex::new(None),
            on_sign: Mutex::new(None),
            signatures: AtomicUsize::new(0),
        });
        let store = open(&folder);
        let shifted = Arc::<Shifted>::default();
        let events = Mutex::new(fabric.subscribe(10_000));
        let log = AuditLog::new(store.clone(), clock.clone());
        let queue = ApprovalQueue::recording(clock.clone(), fabric.clone(), Duration::from_secs(300), log);
        let world = Self {
            pipeline: Pipeline::new(config(
                &client,
                &store,
                book.clone(),
                &fabric,
                &queue,
                (sending, wallet.address()),
                shifted.clone(),
            )),
            sending,
            book,
            wallet,
            store,
            queue,
            client,
            usdc,
            weth,
            clock: shifted,
            events,
            fabric,
            folder,
            _alone: alone,
        };
        world.mint(10_000_000_000).await;
        world.disallow().await;
        world.events();
        world
    }

    /// The same pipeline with permits that expire at once.
    pub fn with_permits_of_no_time(&self) -> Pipeline {
        self.with_permits_of(Duration::ZERO)
    }

    /// The same pipeline with this lifetime of permits.
    pub fn with_permits_of(&self, time: Duration) -> Pipeline {
        Pipeline::new(PipelineConfig { permit_ttl: time, ..self.config(&self.client) })
    }

    /// The same pipeline over another client of the chain, with this timeout for receipts.
    pub fn through(&self, client: &ChainClient, patience: Duration) -> Pipeline {
        Pipeline::new(PipelineConfig { patience, ..self.config(client) })
    }

    /// The same pipeline over another client of the chain, with a private relay.
    pub fn with_relay(&self, client: &ChainClient, relay: PrivateRelay) -> Pipeline {
        let mut config = self.config(client);
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let sender = TxSender::new(client.clone(), store, clock, Some(relay), self.sending);
        for chain in &mut config.chains {
            chain.sender = sender.clone();
        }
        Pipeline::new(config)
    }

    /// Another process on the same ledger.
    pub fn program(&self, client: &ChainClient) -> Pipeline {
        let (fabric, queue, clock) = (&self.fabric, &self.queue, self.clock.clone());
        Pipeline::new(config(client, &open(&self.folder), self.book.clone(), fabric, queue, self.signing(), clock))
    }

    /// Signs and sends the proposal's first transaction as a process that ends before a block includes it; the devnet
    /// must not mine by itself. Returns the transaction's hash.
    pub async fn leave_waiting(&self, proposal: Proposal) -> B256 {
        let before = self.stored();
        // The process is a runtime of its own, and ends with it.
        let runtime = bardo_base::runtime::multi_threaded(Some(1)).unwrap();
        let (program, wallet) = (self.program(&self.client), self.wallet.clone());
        runtime.spawn(async move {
            let preview = program.preview(proposal, wallet, ASKED).await.unwrap();
            let _never = program.commit(preview.permit.permit_id, Consent::Always).await;
        });
        let waiting = loop {
            let new = self.stored().into_iter().find(|one| !before.iter().any(|old| old.hash() == one.hash()));
            match new.filter(|one| one.state == SendState::Sent) {
                Some(record) => break record.hash(),
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(Duration::from_secs(60))).await.unwrap();
        waiting
    }

    /// Every transaction of the ledger, by nonce and time of its signature.
    pub fn stored(&self) -> Vec<TxRecord> {
        let read =
            |connection: &rusqlite::Connection| sender::signed_for(connection, 31_337, self.account(), 0..1 << 40);
        self.store.read(read).unwrap()
    }

    /// Proposal that takes the nonce of a waiting transaction, as the tools make it.
    pub fn replacing(&self, hash: B256, intent: ProposalIntent) -> Proposal {
        let record = self.stored().into_iter().find(|one| one.hash() == hash).unwrap();
        let call = match intent {
            ProposalIntent::CancelTransaction => record.cancellation(),
            _ => record.call().unwrap(),
        };
        let fees = record.fees();
        let leg = PlanLeg {
            purpose: LegPurpose::Main,
            to: call.to,
            value: call.value,
            data: call.data,
            gas_limit: call.gas_limit,
            slots: Vec::new(),
        };
        let fees =
            FeeBound { max_fee_per_gas: fees.max_fee_per_gas, max_priority_fee_per_gas: fees.max_priority_fee_per_gas };
        let nonce = record.signed.nonce();
        let replaces = Some(ReplacedTx { hash, nonce, fees });
        Proposal { replaces, recipients: vec![self.account()], ..self.proposal(intent, vec![leg]) }
    }

    fn signing(&self) -> (SenderRules, Address) {
        (self.sending, self.account())
    }

    fn config(&self, client: &ChainClient) -> PipelineConfig {
        let rules = self.book.clone();
        config(client, &self.store, rules, &self.fabric, &self.queue, self.signing(), self.clock.clone())
    }

    /// The same chain and account under other rules, with another database.
    pub fn pipeline_under(&self, rules: Arc<dyn PolicyEngine>, store: &Store) -> Pipeline {
        self.pipeline_with(rules, store, TTL)
    }

    /// The same with this lifetime of permits.
    pub fn pipeline_with(&self, rules: Arc<dyn PolicyEngine>, store: &Store, permits: Duration) -> Pipeline {
        let (fabric, queue, clock) = (&self.fabric, &self.queue, self.clock.clone());
        let config = config(&self.client, store, rules, fabric, queue, self.signing(), clock);
        Pipeline::new(PipelineConfig { permit_ttl: permits, ..config })
    }

    /// The same account over another client of the chain, under other rules on another database.
    pub fn pipeline_of(&self, client: &ChainClient, rules: Arc<dyn PolicyEngine>, store: &Store) -> Pipeline {
        Pipeline::new(config(client, store, rules, &self.fabric, &self.queue, self.signing(), self.clock.clone()))
    }

    /// The same chain as one of this kind.
    pub fn as_kind(&self, kind: NetworkKind) -> Pipeline {
        let mut network = self.client.network().clone();
        network.kind = kind;
        self.as_network(network)
    }

    fn as_network(&self, network: Network) -> Pipeline {
        let client = ChainClient::devnet(network, devnet().devnet.clone(), Arc::new(SystemClock)).unwrap();
        Pipeline::new(self.config(&client))
    }

    /// The same chain over this client.
    pub fn over_client(&self, client: &ChainClient) -> Pipeline {
        Pipeline::new(self.config(client))
    }

    /// The same chain as a rollup whose fee oracle is at `oracle`, with this code.
    pub async fn as_rollup(&self, oracle: Address, code: Bytes) -> Pipeline {
        let devnet = SANDBOX.chains()[0].devnet.clone();
        devnet.run(move |chain: &mut Chain| chain.set_code(oracle, code)).await.unwrap().unwrap();
        // In a block, where reads by block hash find it.
        self.mint(1).await;
        self.charging(DataFees::Oracle(oracle))
    }

    /// The same chain with these data fees.
    pub fn charging(&self, data_fees: DataFees) -> Pipeline {
        let mut network = self.client.network().clone();
        network.data_fees = data_fees;
        self.as_network(network)
    }

    /// Event fabric of the fixture.
    pub fn fabric(&self) -> Fabric {
        self.fabric.clone()
    }

    /// Entries of the audit log, in order: kinds and bodies.
    pub fn trail(&self) -> Vec<(String, serde_json::Value)> {
        let found = self.store.read(|connection| audit::entries(connection, 0, None, 1_000)).unwrap();
        found.into_iter().map(|entry| (entry.kind, serde_json::from_str(&entry.body).unwrap())).collect()
    }

    /// State of the chain, timestamp of its latest block, and its id.
    pub async fn state(&self) -> (WorldState, u64, u64) {
        let look = |chain: &mut Chain| (chain.state().clone(), chain.head().header.timestamp, chain.rules().chain_id);
        SANDBOX.chains()[0].devnet.run(look).await.unwrap()
    }

    /// Restarts the program: nothing in memory remains.
    pub fn restart(&mut self) {
        self.store = open(&self.folder);
        let log = AuditLog::new(self.store.clone(), Arc::new(SystemClock));
        self.queue =
            ApprovalQueue::recording(Arc::new(SystemClock), self.fabric.clone(), Duration::from_secs(300), log);
        self.pipeline = Pipeline::new(self.config(&self.client));
    }

    pub fn account(&self) -> Address {
        self.wallet.address()
    }

    /// Kinds of all events since the last call, without those that only report time.
    pub fn events(&self) -> Vec<String> {
        let mut events: Vec<Arc<Event>> = Vec::new();
        self.events.lock().unwrap().try_receive(&mut events, 10_000);
        let kind = |event: &Arc<Event>| serde_json::to_value(&event.kind).unwrap()["kind"].as_str().unwrap().to_owned();
        events.iter().map(kind).collect()
    }

    /// True if a check has blocked something since the last read of events.
    pub fn blocked(&self) -> bool {
        let mut events: Vec<Arc<Event>> = Vec::new();
        self.events.lock().unwrap().try_receive(&mut events, 10_000);
        let blocks = |event: &Arc<Event>| match &event.kind {
            EventKind::SafetyCheck(check) => check.outcome == fabric::CheckOutcome::Blocked,
            _ => false,
        };
        events.iter().any(blocks)
    }

    /// Transaction states that were reported since the last read of events.
    pub fn reported_states(&self) -> Vec<(B256, fabric::TxState)> {
        let mut events: Vec<Arc<Event>> = Vec::new();
        self.events.lock().unwrap().try_receive(&mut events, 10_000);
        let of = |event: &Arc<Event>| match &event.kind {
            EventKind::TxUpdate(update) => Some((update.hash, update.state)),
            _ => None,
        };
        events.iter().filter_map(of).collect()
    }

    /// Changes the chain directly.
    pub async fn run(&self, change: impl FnOnce(&mut Chain) + Send + 'static) {
        let ClientBackend::Devnet(devnet) = self.client.backing() else { panic!("no devnet") };
        devnet.run(change).await.unwrap();
    }

    /// Answer of the contract itself, without the code under test.
    pub async fn ask<C: SolCall>(&self, to: Address, call: C) -> C::Return {
        let request = TransactionRequest::default().with_to(to).with_input(call.abi_encode());
        let output = self.client.provider().call(request).await.unwrap();
        C::abi_decode_returns(&output).unwrap()
    }

    pub async fn balance(&self, token: &TokenInfo) -> U256 {
        let contract = token.contract(self.client.network()).unwrap();
        self.ask(contract, Erc20::balanceOfCall { owner: self.account() }).await
    }

    pub async fn nonce(&self) -> u64 {
        self.client.provider().get_transaction_count(self.account()).await.unwrap()
    }

    /// Permit2's allowance of USDC in the latest block, without transactions that wait.
    pub async fn included_allowance(&self) -> U256 {
        let (owner, spender) = (self.account(), self.contract(KnownContract::Permit2));
        let call = Erc20::allowanceCall { owner, spender };
        let request = TransactionRequest::default().with_to(self.contract_of(&self.usdc)).with_input(call.abi_encode());
        let output = self.client.provider().call(request).block(BlockNumberOrTag::Latest.into()).await.unwrap();
        Erc20::allowanceCall::abi_decode_returns(&output).unwrap()
    }

    pub async fn allowance(&self, spender: Address) -> U256 {
        let usdc = self.contract_of(&self.usdc);
        self.ask(usdc, Erc20::allowanceCall { owner: self.account(), spender }).await
    }

    pub fn contract(&self, contract: KnownContract) -> Address {
        self.client.network().book.contract(contract).unwrap()
    }

    pub fn contract_of(&self, token: &TokenInfo) -> Address {
        token.contract(self.client.network()).unwrap()
    }

    async fn mint(&self, raw: u64) {
        self.send(self.contract_of(&self.usdc), OpenMint::mintCall { to: self.account(), value: U256::from(raw) })
            .await;
    }

    /// Sends a transaction of the account outside of Bardo.
    pub async fn send(&self, to: Address, call: impl SolCall) {
        self.send_for(1_000_000_000, to, call).await;
    }

    /// The same with this tip, in wei per unit of gas.
    pub async fn send_for(&self, tip: u128, to: Address, call: impl SolCall) {
        self.send_with(tip, to, call, U256::ZERO).await;
    }

    /// Sends a transaction of the account with a value, outside of Bardo.
    pub async fn pay(&self, to: Address, call: impl SolCall, value: U256) {
        self.send_with(1_000_000_000, to, call, value).await;
    }

    async fn send_with(&self, tip: u128, to: Address, call: impl SolCall, value: U256) {
        let provider = self.client.provider();
        let mut transaction = crate::outside::call(self.nonce().await, to, call);
        transaction.max_priority_fee_per_gas = tip;
        transaction.value = value;
        let raw = self.wallet.sign_outside(transaction);
        assert!(provider.send_raw_transaction(&raw).await.unwrap().get_receipt().await.unwrap().status());
    }

    /// Sends a transaction of one of the devnet's inhabitants, which may send others meanwhile.
    pub async fn send_by(&self, sender: &DevnetAccount, to: Address, call: impl SolCall + Clone) {
        let provider = self.client.provider();
        for _ in 0..5 {
            let nonce = provider.get_transaction_count(sender.address()).pending().await.unwrap();
            let signed = sender.sign(crate::outside::call(nonce, to, call.clone())).unwrap();
            let raw = alloy::eips::eip2718::Encodable2718::encoded_2718(&signed);
            // Refused where its nonce was taken meanwhile.
            if let Ok(sent) = provider.send_raw_transaction(&raw).await {
                assert!(sent.get_receipt().await.unwrap().status());
                return;
            }
        }
        panic!("an inhabitant's transaction was refused");
    }

    /// Deploys a contract from the account, outside of Bardo.
    pub async fn deploy(&self, creation: Bytes) -> Address {
        let nonce = self.nonce().await;
        let transaction = TxEip1559 {
            to: TxKind::Create,
            gas_limit: 8_000_000,
            input: creation,
            ..crate::outside::call(nonce, Address::ZERO, OpenMint::mintCall { to: Address::ZERO, value: U256::ZERO })
        };
        let raw = self.wallet.sign_outside(transaction);
        let sent = self.client.provider().send_raw_transaction(&raw).await.unwrap();
        assert!(sent.get_receipt().await.unwrap().status());
        self.account().create(nonce)
    }

    /// Revokes the allowance that an earlier user of the account may have left: an action that only lowers an allowance
    /// needs no approval.
    pub async fn disallow(&self) {
        let permit2 = self.contract(KnownContract::Permit2);
        if !self.allowance(permit2).await.is_zero() {
            let nothing = Erc20::approveCall { spender: permit2, value: U256::ZERO };
            self.send(self.contract_of(&self.usdc), nothing).await;
        }
    }

    /// Present output of a pool for this amount of USDC, from the quoter.
    pub async fn quote(&self, usdc: U256) -> U256 {
        let params = QuoterV2::QuoteExactInputSingleParams {
            tokenIn: self.contract_of(&self.usdc),
            tokenOut: self.contract_of(&self.weth),
            amountIn: usdc,
            fee: U24::from(FEE),
            sqrtPriceLimitX96: Default::default(),
        };
        self.ask(self.contract(KnownContract::QuoterV2), QuoterV2::quoteExactInputSingleCall { params }).await.amountOut
    }

    /// Plain proposal of these calls.
    pub fn proposal(&self, intent: ProposalIntent, legs: Vec<PlanLeg>) -> Proposal {
        Proposal {
            chain_id: 31_337,
            tool: TOOL,
            call_id: CallId::new(SystemClock.now_millis()),
            golem_id: GolemId::operator(),
            account: self.account(),
            intent,
            legs,
            outflows: vec![],
            inflows: vec![],
            allowances: vec![],
            trade: None,
            recipients: vec![],
            order: None,
            files: Vec::new(),
            replaces: None,
            arrival: None,
            expected_outcome: SafeText::clean("what the test says", 100),
        }
    }

    pub fn approve(&self, purpose: LegPurpose, spender: Address, amount: U256) -> PlanLeg {
        let call = Erc20::approveCall { spender, value: amount };
        leg(purpose, self.contract_of(&self.usdc), call.abi_encode().into())
    }

    /// Exact allowance of USDC for Permit2.
    pub fn approval(&self, usdc: u64) -> Proposal {
        let (permit2, amount) = (self.contract(KnownContract::Permit2), U256::from(usdc));
        Proposal {
            allowances: vec![AllowanceBound {
                token: self.usdc.clone(),
                spender: permit2,
                kind: AllowanceKind::Erc20,
                at_most: amount,
            }],
            ..self.proposal(ProposalIntent::Approve, vec![self.approve(LegPurpose::Main, permit2, amount)])
        }
    }

    /// Revocation of that allowance.
    pub fn revocation(&self) -> Proposal {
        Proposal { intent: ProposalIntent::Revoke, ..self.approval(0) }
    }

    /// USDC for WETH in one pool: an exact allowance for Permit2, then the swap with a signed permit in it.
    pub async fn swap(&self, usdc: u64) -> Proposal {
        self.swap_enforcing(usdc, None).await
    }

    /// The swap with another minimum output in the calldata than declared.
    pub async fn swap_enforcing(&self, usdc: u64, enforced: Option<U256>) -> Proposal {
        self.swap_in_parts(usdc, enforced, 1).await
    }

    /// The swap as several swaps in one call.
    pub async fn swap_in_parts(&self, usdc: u64, enforced: Option<U256>, parts: u64) -> Proposal {
        let amount = U256::from(usdc);
        let parts = U256::from(parts);
        // The remainder of the division is not promised.
        let expected = self.quote(amount).await - U256::from(1_000) * (parts - U256::from(1));
        let slippage = BasisPoints::new(50).unwrap();
        let least = slippage.minimum_out(expected).div_ceil(parts) * parts;
        let (router, permit2) =
            (self.contract(KnownContract::UniversalRouterV210), self.contract(KnownContract::Permit2));
        let (from, to) = (self.contract_of(&self.usdc), self.contract_of(&self.weth));
        let now = self.clock.now_millis();
        // The shared chain is ahead of the system clock by a second for each block of one second.
        let head = self.client.provider().get_block_by_number(BlockNumberOrTag::Latest).await.unwrap().unwrap();
        let deadline = (now / 1_000).max(head.header.timestamp) + 3_000;
        let standing =
            self.ask(permit2, Permit2::allowanceCall { owner: self.account(), token: from, spender: router });
        let permit = PermitSingle {
            details: PermitDetails {
                token: from,
                amount: U160::from(usdc),
                expiration: U48::from(deadline),
                nonce: standing.await.nonce,
            },
            spender: router,
            sigDeadline: U256::from(deadline),
        };
        let part = RouterCommand::Swap(SwapCommand {
            path: SwapPath::V3(V3Path::new(from, vec![(FEE, to)]).unwrap()),
            exact: SwapAmounts::In { amount: amount / parts, out_min: enforced.unwrap_or(least) / parts },
            recipient: CALLER,
            payer_is_user: true,
            min_hop_prices: vec![],
        });
        let permits = RouterCommand::Permit2Permit { permit: permit.clone(), signature: PLACEHOLDER_SIGNATURE.into() };
        let commands = std::iter::once(permits).chain(std::iter::repeat_n(part, parts.to())).collect();
        let execution = RouterExecution { commands, deadline: Some(U256::from(deadline)) };
        let message = TypedMessage::Permit2Allowance { permit2, permit };
        let offset = execution.signature_offset(RouterVersion::V2_0).unwrap();
        let main = PlanLeg {
            slots: vec![SignatureSlot { offset, message }],
            ..leg(LegPurpose::Main, router, execution.encode(RouterVersion::V2_0))
        };
        let bound = |spender, kind| AllowanceBound { token: self.usdc.clone(), spender, kind, at_most: U256::ZERO };
        Proposal {
            outflows: vec![Outflow { token: self.usdc.clone(), amount }],
            inflows: vec![Inflow { token: self.weth.clone(), at_least: least, expected, recipient: self.account() }],
            allowances: vec![
                bound(permit2, AllowanceKind::Erc20),
                bound(router, AllowanceKind::Permit2 { expires_at: deadline }),
            ],
            trade: Some(trade(
                (self.usdc.clone(), amount),
                (self.weth.clone(), expected, least),
                slippage,
                now,
                deadline,
            )),
            recipients: vec![self.account()],
            ..self.proposal(ProposalIntent::Swap, vec![self.approve(LegPurpose::Approve, permit2, amount), main])
        }
    }

    pub async fn preview(&self, proposal: Proposal) -> Result<Preview, PipelineRefusal> {
        self.pipeline.preview(proposal, self.wallet.clone(), ASKED).await
    }

    /// Error code and violated rules of a proposal.
    pub async fn refused(&self, proposal: Proposal) -> (ErrorCode, BTreeSet<String>) {
        let refusal = self.preview(proposal).await.expect_err("nothing stands against it");
        (refusal.code, refusal.violations.iter().map(|violation| violation.rule.to_string()).collect())
    }
}

/// Trade of an exact input for the expected output, or at least the minimum.
pub fn trade(
    (token_in, amount_in): (TokenInfo, U256),
    (token_out, expected_out, min_out): (TokenInfo, U256, U256),
    slippage: BasisPoints,
    quoted_at: u64,
    deadline: u64,
) -> TradeFigures {
    TradeFigures {
        token_in,
        token_out,
        amount_in,
        expected_out,
        min_out,
        slippage,
        price_impact: BasisPoints::new(1).unwrap(),
        impact_reached: BasisPoints::new(1).unwrap(),
        quoted_at,
        deadline,
        pools: vec![],
        exact_output: false,
    }
}

pub fn leg(purpose: LegPurpose, to: Address, data: Bytes) -> PlanLeg {
    PlanLeg { purpose, to, value: U256::ZERO, data, gas_limit: 300_000, slots: vec![] }
}

pub fn open(folder: &tempfile::TempDir) -> Store {
    let rooms: Vec<Migrations> = ALL_MIGRATIONS.iter().copied().chain([BOOK]).collect();
    Store::open(StoreConfig::at(folder.path().join("ledger.db")), &rooms).unwrap()
}

/// Key of an account for the fixture's ledgers.
pub fn party_key(account: Address) -> QueueKey {
    QueueKey::derive(&[7; 32], "test", account)
}

fn config(
    client: &ChainClient,
    store: &Store,
    rules: Arc<dyn PolicyEngine>,
    fabric: &Fabric,
    queue: &ApprovalQueue,
    (sending, account): (SenderRules, Address),
    clock: Arc<dyn Clock>,
) -> PipelineConfig {
    let prices = PriceChain::for_chain(client, &Default::default(), clock.clone()).unwrap();
    let sender = TxSender::new(client.clone(), store.clone(), clock.clone(), None, sending);
    let reader = SnapshotReader::new(client.clone(), prices, "10000".parse().unwrap());
    PipelineConfig {
        chains: vec![PipelineChain { reader, sender }],
        store: store.clone(),
        rules,
        clock,
        fabric: fabric.clone(),
        queue: queue.clone(),
        key: Some(party_key(account)),
        guardian: None,
        permit_ttl: TTL,
        patience: Duration::from_secs(60),
    }
}
