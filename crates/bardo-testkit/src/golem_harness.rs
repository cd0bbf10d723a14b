//! Test harness: a devnet as `bardo call` has one, with its own home, and Golems in it.

use std::sync::Arc;
use std::time::Duration;

use alloy::consensus::TxEip1559;
use alloy::network::TransactionBuilder as _;
use alloy::primitives::{Address, Bytes, TxKind, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall as _;
use bardo_abi::erc20::{Erc20, OpenMint};
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::fabric::{Event, Fabric, Receiver};
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_runtime::SigningContext;
use bardo_runtime::data::{DataFolder, Ledger};
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::stop::StopFile;
use bardo_sandbox::keys::DevnetAccount;
use bardo_sandbox::plan::SandboxToken;
use bardo_sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use golem::agent_api::{AgentConfig, AgentSession};
use golem::archetype::Archetypes;
use golem::brain::Brain;
use golem::life::{LifeConfig, ScenarioProgress, live};
use golem::memory::{Documents, Memory};
use golem::phase::PhaseRules;
use golem::scenario::Scenario;
use golem_chain::price::PriceChain;
use golem_protocols::uniswap::quote::QuoteSource;
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::{
    ApprovalMode, Catalog, ConnectedChain, Executor, ExecutorConfig, ToolEnvironment, ToolResponse, WriteAccess,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub struct GolemHarness {
    pub folder: tempfile::TempDir,
    /// Programs of brains, outside the folder that they cannot access.
    pub programs: tempfile::TempDir,
    pub fabric: Fabric,
    pub stop: StopFile,
    pub phase: watch::Sender<Phase>,
    pub acting: WriteAccess,
    pub rules: Arc<OperatorPolicyEngine>,
    pub world: Arc<ToolEnvironment>,
    catalog: Catalog,
    roles: Arc<Archetypes>,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    sandbox: Option<Sandbox>,
}

/// Goal of every Golem's owner here.
pub const GOAL: &str = "Keep half in WETH and trade little.";

/// A live Golem.
pub struct Life {
    pub agent: AgentSession,
    pub words: mpsc::Sender<SafeText>,
    pub leave: watch::Sender<bool>,
    pub stopped: watch::Sender<Option<StopLevel>>,
    played: watch::Receiver<ScenarioProgress>,
    pub running: JoinHandle<()>,
}

impl Life {
    /// Faults with which its brain ended; empty if there were none.
    pub async fn brains_end(&mut self) -> Vec<String> {
        let over = self.played.wait_for(ScenarioProgress::is_over);
        tokio::time::timeout(Duration::from_secs(120), over).await.expect("the brain goes on").unwrap().missed.clone()
    }

    /// Ends it like a session.
    pub async fn leave(self) {
        self.leave.send_replace(true);
        tokio::time::timeout(Duration::from_secs(60), self.running).await.expect("it does not leave").unwrap();
    }
}

impl GolemHarness {
    pub async fn new() -> Self {
        Self::with_policy("").await
    }

    /// Harness with this policy over the demo preset.
    pub async fn with_policy(policy: &str) -> Self {
        Self::made(policy, ApprovalMode::Never).await
    }

    /// Harness with an operator who is asked for approval.
    pub async fn asking(policy: &str) -> Self {
        Self::made(policy, ApprovalMode::Ask).await
    }

    /// Adds the settlement services for orders.
    pub fn with_orders(mut self) -> Self {
        let world = Arc::into_inner(self.world).expect("nobody has it yet");
        self.world = Arc::new(world.with_orders(self.acting.pipeline.orders().cloned()));
        self
    }

    /// Counts calls under the operator's rules.
    pub fn counting_calls(mut self) -> Self {
        let world = Arc::into_inner(self.world).expect("nobody has it yet");
        self.world = Arc::new(world.under(Arc::clone(&self.rules)));
        self
    }

    /// Uses this quote source.
    pub fn quoting_from(mut self, quotes: Arc<dyn QuoteSource>) -> Self {
        let world = Arc::into_inner(self.world).expect("nobody has it yet");
        self.world = Arc::new(world.quoting_from(quotes));
        self
    }

    async fn made(policy: &str, approve: ApprovalMode) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Self::on(Self::still(&clock), policy, approve, clock).await
    }

    /// Devnet without activity of its own.
    pub fn still(clock: &Arc<dyn Clock>) -> SandboxConfig {
        SandboxConfig {
            seed: 1,
            start_time: clock.now_seconds(),
            pace: BlockPace::OnTransaction,
            clock: Some(clock.clone()),
            market: MarketMode::Off,
            keeper: true,
        }
    }

    /// Harness in which all users of the shared price sources get these prices.
    pub async fn told(policy: &str, prices: fn(PriceChain) -> PriceChain) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Self::built(Self::still(&clock), (policy, ""), ApprovalMode::Never, clock, Some(prices)).await
    }

    /// Harness with these lines of policy over the demo preset, and of configuration.
    pub async fn configured(policy: &str, config: &str) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Self::built(Self::still(&clock), (policy, config), ApprovalMode::Never, clock, None).await
    }

    /// Harness with an operator who is asked for approval, and these lines of configuration.
    pub async fn asking_with(policy: &str, config: &str) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Self::built(Self::still(&clock), (policy, config), ApprovalMode::Ask, clock, None).await
    }

    /// Harness on another devnet, with this clock.
    pub async fn on(sandbox: SandboxConfig, policy: &str, approve: ApprovalMode, clock: Arc<dyn Clock>) -> Self {
        Self::built(sandbox, (policy, ""), approve, clock, None).await
    }

    async fn built(
        sandbox: SandboxConfig,
        (policy, lines): (&str, &str),
        approve: ApprovalMode,
        clock: Arc<dyn Clock>,
        prices: Option<fn(PriceChain) -> PriceChain>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if !policy.is_empty() {
            std::fs::write(folder.path().join("policy-devnet.toml"), policy).unwrap();
        }
        if !lines.is_empty() {
            std::fs::write(folder.path().join("config.toml"), lines).unwrap();
        }
        let environment: Environment = [("BARDO_HOME", folder.path().to_str().unwrap())].into_iter().collect();
        let config = Config::load(&environment, &ConfigFlags::default()).unwrap();
        let mut opened = bardo_runtime::open(&config, move || sandbox, clock.clone()).await.unwrap();
        if let Some(prices) = prices {
            let chains = opened.world.chains().iter();
            let chains = chains.map(|chain| ConnectedChain::new(chain.client.clone(), prices(chain.prices.clone())));
            let mut told = ToolEnvironment::new(clock.clone(), opened.world.account, chains.collect(), Vec::new());
            told.quotes = opened.world.quotes.clone();
            opened.world = told;
        }
        let data = DataFolder::of(&config);
        data.create().unwrap();
        let ledger = data.open_ledger(&opened).await.unwrap();
        let fabric = Fabric::in_memory(50_000, clock.clone());
        let (phase, own) = watch::channel(Phase::Thriving);
        let rules = bardo_runtime::rules(&config, &opened, &ledger).await.unwrap();
        let picked = bardo_runtime::account::pick(&config, &opened.world).unwrap().unwrap();
        let signing = SigningContext {
            phase: own,
            approve,
            ..SigningContext::of(bardo_runtime::account::locked(&picked, &opened, &ledger).unwrap())
        };
        let made =
            bardo_runtime::acting(&config, &opened, &ledger, Arc::clone(&rules), &fabric, clock.clone(), signing);
        let acting = made.await.unwrap();
        Self {
            stop: StopFile::in_folder(data.root()),
            folder,
            programs: tempfile::tempdir().unwrap(),
            fabric,
            phase,
            acting,
            rules,
            world: Arc::new(opened.world),
            catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
            roles: Arc::new(Archetypes::load(None).unwrap()),
            ledger,
            clock,
            sandbox: opened.sandbox,
        }
    }

    /// Executor in this Golem's name, with the tools of its archetype.
    pub fn executor(&self, name: &str, role: &str) -> Executor {
        let golem_id = bardo_base::id::GolemId::stored(name).unwrap();
        self.executor_of(golem_id, self.roles.reach(role, &self.catalog).unwrap())
    }

    /// Executor in the operator's name, with all tools.
    pub fn operators_executor(&self) -> Executor {
        self.executor_of(bardo_base::id::GolemId::operator(), self.catalog.clone())
    }

    fn executor_of(&self, golem_id: bardo_base::id::GolemId, catalog: Catalog) -> Executor {
        Executor::new(ExecutorConfig {
            catalog,
            world: Arc::clone(&self.world),
            fabric: self.fabric.clone(),
            golem_id,
            calls_per_minute: 10_000,
            hooks: Vec::new(),
            store: Some(self.ledger.store.clone()),
            acting: Some(self.acting.clone()),
        })
    }

    pub fn golem(&self, name: &str, role: &str) -> AgentSession {
        let golem_id: bardo_base::id::GolemId = name.parse().unwrap();
        let config = AgentConfig {
            all: self.catalog.clone(),
            executor: self.executor(name, role),
            roles: Arc::clone(&self.roles),
            role: role.to_owned(),
            memory: Memory::new(self.ledger.store.clone(), golem_id.clone()),
            documents: self.documents(name),
            goal: Some(bardo_base::text::SafeText::clean(GOAL, 200)),
            stop: self.stop.clone(),
            halts_as: bardo_base::text::SafeText::clean(name, 40),
            phase: self.acting.phase.clone(),
            clock: self.clock.clone(),
            fabric: self.fabric.clone(),
            golem_id,
        };
        AgentSession::new(config).unwrap()
    }

    /// A live Golem that is led by `brain`.
    pub fn life(&self, name: &str, role: &str, brain: Box<dyn Brain>) -> Life {
        let (words, heard) = mpsc::channel(16);
        let (leave, leaving) = watch::channel(false);
        let (stopped, stop) = watch::channel(None);
        let (told, played) = watch::channel(ScenarioProgress::default());
        let agent = self.golem(name, role);
        let config = LifeConfig {
            agent: agent.clone(),
            world: Arc::clone(&self.world),
            phases: PhaseRules::DEFAULT,
            phase: self.phase.clone(),
            stop,
            leaving,
            words: heard,
            scenarios: mpsc::channel(1).1,
            played: told,
            attendance: self.clock.attend(),
            clock: self.clock.clone(),
            fabric: self.fabric.clone(),
            golem_id: name.parse().unwrap(),
            heartbeat: Duration::from_secs(3_600),
            lifespan_seconds: None,
            brain: Some(brain),
        };
        let running = tokio::spawn(async move {
            let quiet = Scenario::quiet(&"led by a brain");
            live(config, quiet).await.unwrap();
        });
        Life { agent, words, leave, stopped, played, running }
    }

    /// Mints this amount of a public test token for the wallet, from another account.
    pub async fn give(&self, token: SandboxToken, raw: U256) {
        let call = OpenMint::mintCall { to: self.world.account.unwrap(), value: raw };
        self.outside(TxKind::Call(self.address(token)), call.abi_encode().into()).await;
    }

    /// Deploys a contract from another account.
    pub async fn deploy(&self, code: Bytes) -> Address {
        self.outside(TxKind::Create, code).await.unwrap()
    }

    /// Sends a transaction from another account; returns the created contract, if any.
    pub async fn outside(&self, to: TxKind, input: Bytes) -> Option<Address> {
        let party = DevnetAccount::development_accounts().unwrap().swap_remove(9);
        let provider = self.world.chains()[0].client.provider();
        let transaction = TxEip1559 {
            chain_id: 31_337,
            nonce: provider.get_transaction_count(party.address()).await.unwrap(),
            gas_limit: 3_000_000,
            max_fee_per_gas: 100_000_000_000,
            max_priority_fee_per_gas: 1_000_000_000,
            to,
            value: U256::ZERO,
            access_list: Default::default(),
            input,
        };
        let raw = alloy::eips::eip2718::Encodable2718::encoded_2718(&party.sign(transaction).unwrap());
        let receipt = provider.send_raw_transaction(&raw).await.unwrap().get_receipt().await.unwrap();
        assert!(receipt.status());
        receipt.contract_address
    }

    /// Wallet tokens with an allowance for this account, on all chains.
    pub async fn spendable_by(&self, spender: Address) -> Vec<String> {
        let mut found = Vec::new();
        let owner = self.world.account.unwrap();
        for (chain, of) in self.world.chains().iter().zip(self.sandbox.as_ref().unwrap().chains()) {
            for token in of.deployment.plan.tokens.iter().filter(|token| !token.is_bad()) {
                let input = Erc20::allowanceCall { owner, spender }.abi_encode();
                let request =
                    TransactionRequest::default().with_to(of.deployment.token(*token).unwrap()).with_input(input);
                let answer = chain.client.provider().call(request).await.unwrap();
                if Erc20::allowanceCall::abi_decode_returns(&answer).unwrap() != U256::ZERO {
                    found.push(format!("{token:?} on {}", chain.network().name));
                }
            }
        }
        found
    }

    /// Address of a devnet token.
    pub fn address(&self, token: SandboxToken) -> Address {
        self.sandbox.as_ref().unwrap().chains()[0].deployment.token(token).unwrap()
    }

    pub fn documents(&self, name: &str) -> Documents {
        let folder = self.folder.path();
        Documents::new(folder.join("golems").join(name), folder, "devnet", &name.parse().unwrap())
    }

    pub fn sandbox(&self) -> &Sandbox {
        self.sandbox.as_ref().unwrap()
    }

    pub fn events(&self) -> Receiver {
        self.fabric.subscribe(50_000)
    }

    /// Number of transactions that the wallet has sent, on all chains.
    pub async fn sent(&self) -> u64 {
        let mut sent = 0;
        for chain in self.world.chains() {
            let account = self.world.account.unwrap();
            sent += chain.client.provider().get_transaction_count(account).await.unwrap();
        }
        sent
    }
}

pub fn drain(events: &mut Receiver) -> Vec<Arc<Event>> {
    let mut all = Vec::new();
    while events.try_receive(&mut all, 10_000) {}
    all
}

pub fn swap(token_in: &str, token_out: &str, amount: &str) -> Value {
    json!({"kind": "swap", "params": {
        "token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum", "prefer_uniswapx": false,
    }})
}

/// Parameters of a commit, from a preview's answer.
pub fn permit(previewed: &ToolResponse) -> Value {
    let data = previewed.data.as_ref().unwrap_or_else(|| panic!("{previewed:#?}"));
    json!({"permit_id": data["permit_id"], "simulation_hash": data["simulation_hash"]})
}
