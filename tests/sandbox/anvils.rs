//! The same contracts on two anvils. `bardo call` in its own process places orders of each kind and a bridge order
//! there, over HTTP throughout. The devnet's fillers and relayers fill them through the contracts on the anvils.
//!
//! The actors need a devnet chain to read from, so a sandbox runs in parallel, block for block. Transactions that the
//! program sends to an anvil are also given to the sandbox, and transactions of the actors to the anvil. Each
//! transaction must have the same result on both.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alloy::consensus::TxReceipt as _;
use alloy::eips::eip2718::Encodable2718 as _;
use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::network::TransactionResponse as _;
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::{Block, Filter, TransactionRequest};
use alloy::sol_types::{SolCall, SolEvent as _};
use bardo::abi::erc20::Erc20;
use bardo::abi::erc7683::OriginSettler;
use bardo::abi::permit2::Permit2;
use bardo::abi::uniswapx::Reactor;
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::units::TokenAmount;
use bardo::chain::devnet::Chain;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig, services};
use serde_json::{Value, json};

use bardo_testkit::anvil::{self, Anvil};
use bardo_testkit::passing::{Look, pass};

/// Hash and bytes of a signed transaction.
type Sent = (B256, Vec<u8>);

/// Refund delay of the devnet's settlers after an intent's deadline, in seconds.
const REFUND_DELAY: u64 = 30;

struct Anvils {
    sandbox: Sandbox,
    anvils: Vec<(Anvil, DynProvider)>,
    /// True for chains that currently make no blocks.
    halted: [AtomicBool; 2],
}

impl Anvils {
    async fn start() -> Self {
        let config = SandboxConfig {
            seed: 31,
            start_time: SystemClock.now_seconds().saturating_sub(30),
            pace: BlockPace::Manual,
            clock: None,
            market: MarketMode::Off,
            keeper: false,
        };
        let sandbox = tokio::task::spawn_blocking(move || Sandbox::boot(&config, &|_| {}).unwrap()).await.unwrap();
        let mut anvils = Vec::new();
        for chain in sandbox.chains() {
            let look = |chain: &mut Chain| {
                // Gas for the account on both chains.
                let header = &chain.head().header;
                (chain.state().clone(), chain.number(), header.timestamp, chain.rules().chain_id)
            };
            let (state, height, time, id) = chain.devnet.run(look).await.unwrap();
            // The same number of blocks as the sandbox: auctions depend on block numbers.
            let (anvil, provider) = anvil::start(&state, time - height - 1, id).await;
            let mined: Value = provider
                .raw_request("anvil_mine".into(), json!([format!("{height:#x}"), "0x1"]))
                .await
                .unwrap_or_default();
            assert!(mined.is_null(), "{mined}");
            assert_eq!(provider.get_block_number().await.unwrap(), height);
            anvils.push((anvil, provider));
        }
        Self { sandbox, anvils, halted: Default::default() }
    }

    fn halt(&self, at: usize, halted: bool) {
        self.halted[at].store(halted, Ordering::SeqCst);
    }

    /// Waits until the newest block of a chain is past a time.
    async fn past(&self, at: usize, time: u64) {
        let newest = || async {
            let block = self.anvils[at].1.get_block(BlockId::latest()).await.unwrap().unwrap();
            block.header.timestamp
        };
        let reached = async {
            while newest().await <= time {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(400), reached).await.expect("blocks are made");
    }

    async fn asked<C: SolCall>(&self, at: usize, to: Address, call: C) -> C::Return {
        let request = TransactionRequest {
            to: Some(TxKind::Call(to)),
            input: Bytes::from(call.abi_encode()).into(),
            ..Default::default()
        };
        C::abi_decode_returns(&self.anvils[at].1.call(request).await.unwrap()).unwrap()
    }

    /// State of an intent's deposit, from the origin's settler: 0 none, 1 locked, 2 repaid, 3 refunded.
    async fn deposit(&self, id: B256) -> u8 {
        let settler = self.sandbox.chains()[0].deployment.contracts["originSettler"];
        self.asked(0, settler, OriginSettler::depositsCall { orderId: id }).await.status
    }

    /// Makes blocks on both sides of a chain until both have all transactions.
    async fn block(&self, at: usize) {
        let mut late = self.one_block(at, Vec::new()).await;
        while !late.is_empty() {
            late = self.one_block(at, late).await;
        }
    }

    /// Makes one block on both sides of a chain. `late` transactions are in an earlier block of the anvil; returns
    /// those that reached the anvil after its pending block was read, and are in this block.
    async fn one_block(&self, at: usize, late: Vec<Sent>) -> Vec<Sent> {
        let (chain, provider) = (&self.sandbox.chains()[at], &self.anvils[at].1);
        let waiting = provider.get_block(BlockId::Number(BlockNumberOrTag::Pending)).full().await.unwrap().unwrap();
        let signed = |block: Block| -> Vec<Sent> {
            block.transactions.into_transactions().map(|one| (one.tx_hash(), one.inner.encoded_2718())).collect()
        };
        let mut own = late;
        own.extend(signed(waiting));
        let known: Vec<B256> = own.iter().map(|(hash, _)| *hash).collect();
        let give = move |chain: &mut Chain| {
            for (_, raw) in own {
                chain.submit_raw(&raw).unwrap();
            }
            let time = SystemClock.now_seconds().max(chain.head().header.timestamp + 1);
            chain.set_next_timestamp(time).unwrap();
            (time, chain.next_base_fee())
        };
        let (time, fee) = chain.devnet.run(give).await.unwrap();
        let block = chain.devnet.mine().await.unwrap();
        for one in block.transactions.iter().filter(|one| !known.contains(&one.hash)) {
            let _sent = provider.send_raw_transaction(&one.envelope.encoded_2718()).await.unwrap();
        }
        let ask = async |method: &'static str, params: Value| -> Value {
            provider.raw_request(method.into(), params).await.unwrap()
        };
        ask("anvil_setNextBlockBaseFeePerGas", json!([format!("{fee:#x}")])).await;
        ask("evm_setNextBlockTimestamp", json!([time])).await;
        ask("evm_mine", json!([])).await;
        assert_eq!(provider.get_block_number().await.unwrap(), block.number());
        let made = provider.get_block(BlockId::latest()).full().await.unwrap().unwrap();
        let here: Vec<B256> = block.transactions.iter().map(|one| one.hash).collect();
        for (one, receipt) in block.transactions.iter().zip(&block.receipts) {
            let there = provider.get_transaction_receipt(one.hash).await.unwrap();
            let there = there.unwrap_or_else(|| panic!("{} is in no block of the anvil", one.hash));
            assert_eq!(there.status(), receipt.is_success(), "{}", one.hash);
            assert_eq!(there.inner.logs().len(), receipt.logs().len(), "{}", one.hash);
            assert!(there.inner.status_or_post_state().coerce_status() == receipt.is_success());
        }
        signed(made).into_iter().filter(|(hash, _)| !here.contains(hash) && !known.contains(hash)).collect()
    }

    async fn balance(&self, at: usize, token: Address, owner: Address) -> U256 {
        self.asked(at, token, Erc20::balanceOfCall { owner }).await
    }
}

/// The two chains with their actors, and the data that a program needs.
struct World {
    both: Arc<Anvils>,
    /// Endpoints of the chains.
    chains: Vec<String>,
    blocks: tokio::task::JoinHandle<()>,
    _served: services::ServiceServer,
}

impl World {
    async fn start() -> Self {
        let both = Arc::new(Anvils::start().await);
        let served = services::serve(&both.sandbox, 0).await.unwrap();
        let mut description = both.sandbox.description();
        (description.order_service, description.intent_service) = (Some(served.url()), Some(served.url()));
        for (described, (anvil, _)) in description.chains.iter_mut().zip(&both.anvils) {
            described.rpc = anvil.url().to_owned();
        }
        let described = serde_json::to_value(&description).unwrap();
        // An anvil does not describe its contracts, so the proxy answers that request. All other answers are its own.
        let look: Look = Arc::new(move |_, asked| {
            let about = asked["method"] == "bardo_describe";
            about.then(|| json!({"jsonrpc": "2.0", "id": asked["id"], "result": described}))
        });
        let chains = both.anvils.iter().map(|(anvil, _)| pass(anvil.url().to_owned(), look.clone(), None)).collect();
        let going = both.clone();
        let blocks = tokio::spawn(async move {
            loop {
                for at in [0, 1] {
                    if !going.halted[at].load(Ordering::SeqCst) {
                        going.block(at).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(1_000)).await;
            }
        });
        Self { both, chains, blocks, _served: served }
    }

    fn end(self) {
        assert!(!self.blocks.is_finished(), "the anvils and the sandbox went apart");
        self.blocks.abort();
    }
}

/// Runs `bardo call --wait` in its own process; returns its answer.
async fn call(home: &tempfile::TempDir, chains: &[String], tool: &str, params: Value) -> Value {
    run(home, chains, &["--wait"], tool, params).await
}

async fn run(home: &tempfile::TempDir, chains: &[String], flags: &[&str], tool: &str, params: Value) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
    for (name, url) in ["ethereum", "base"].iter().zip(chains) {
        command.args(["--rpc", &format!("{name}={url}")]);
    }
    command.args(["call", "--approve", "always"]).args(flags).args([tool, &params.to_string()]);
    command.env_clear().env("BARDO_HOME", home.path());
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{:?}: {said}", ran.status))
}

fn raw(text: &Value, decimals: u8) -> U256 {
    TokenAmount::parse(text.as_str().unwrap(), decimals).unwrap().raw()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs anvil"]
async fn orders_of_each_kind_and_an_intent_flow_over_http() {
    let world = World::start().await;
    let (both, chains) = (world.both.clone(), world.chains.clone());
    let account = both.sandbox.accounts()[0];
    let deployment = |at: usize| both.sandbox.chains()[at].deployment.clone();
    let (usdc, weth) = (deployment(0).token(SandboxToken::Usdc).unwrap(), deployment(0).weth);
    let ethereum = &both.anvils[0].1;
    for kind in ["DUTCH_V2", "DUTCH_V3", "PRIORITY"] {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), format!("[order_type]\nethereum = \"{kind}\"\n")).unwrap();
        let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.2", "chain": "ethereum",
                            "decay_end_time": 30});
        let mut filled = None;
        // Fillers overlook a few in a hundred.
        for _ in 0..4 {
            let before = [both.balance(0, weth, account).await, both.balance(0, usdc, account).await];
            let answer = call(&home, &chains, "uniswap_submit_uniswapx_order", params.clone()).await;
            if answer["status"] == "success" {
                filled = Some((answer, before));
                break;
            }
            assert_eq!(answer["error"]["code"], "UNISWAPX_ORDER_EXPIRED", "{kind}: {answer:#}");
        }
        let (answer, before) = filled.unwrap_or_else(|| panic!("nobody fills a {kind} order"));
        let card = &answer["decision_hints"]["order"];
        assert_eq!((card["order_type"].as_str(), card["status"].as_str()), (Some(kind), Some("filled")), "{answer:#}");
        let after = [both.balance(0, weth, account).await, both.balance(0, usdc, account).await];
        assert_eq!(before[0] - after[0], U256::from(200_000_000_000_000_000u64), "{kind}");
        assert_eq!(after[1] - before[1], raw(&card["fill"]["amount_out"], 6), "{kind}: to the unit");
        assert_eq!(raw(&card["fill"]["amount_out"], 6), raw(&card["current_amount"], 6), "{kind}: what the curve says");
        let hash: B256 = card["order_hash"].as_str().unwrap().parse().unwrap();
        let fills = Filter::new().from_block(0).event_signature(Reactor::Fill::SIGNATURE_HASH).topic1(hash);
        assert_eq!(ethereum.get_logs(&fills).await.unwrap().len(), 1, "{kind}: by the anvil's own word");
    }

    let home = tempfile::tempdir().unwrap();
    let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": "150", "source_chain": "ethereum",
                        "destination_chain": "base", "deadline": 60});
    let over_there = deployment(1).token(SandboxToken::Usdc).unwrap();
    let mut delivered = None;
    for _ in 0..4 {
        let before = both.balance(1, over_there, account).await;
        let answer = call(&home, &chains, "uniswap_submit_cross_chain_intent", params.clone()).await;
        if answer["status"] == "success" {
            delivered = Some((answer, before));
            break;
        }
    }
    let (answer, before) = delivered.expect("no relayer delivers");
    let card = &answer["decision_hints"]["order"];
    assert_eq!(card["status"], "filled", "{answer:#}");
    let came = both.balance(1, over_there, account).await - before;
    assert_eq!(came, raw(&card["amount_out"], 6));
    assert!(came >= raw(&card["min_out"], 6));
    let id: B256 = card["intent_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(both.deposit(id).await, 2, "whoever delivered is repaid");
    world.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs anvil"]
async fn what_is_not_settled_ends_over_http_as_the_anvils_say() {
    let world = World::start().await;
    let (both, chains) = (world.both.clone(), world.chains.clone());
    let account = both.sandbox.accounts()[0];
    let deployment = both.sandbox.chains()[0].deployment.clone();
    let (usdc, weth) = (deployment.token(SandboxToken::Usdc).unwrap(), deployment.weth);
    let before = [both.balance(0, weth, account).await, both.balance(0, usdc, account).await];
    let home = tempfile::tempdir().unwrap();
    let allow = |amount: &str| json!({"token": "WETH", "amount": amount, "chain": "ethereum"});
    let answer = call(&home, &chains, "token_approve", allow("0.1")).await;
    assert_eq!(answer["status"], "success", "{answer:#}");

    // An intent to a chain that makes no blocks from here on is locked, and nobody can deliver it.
    let bridge = json!({"token_in": "USDC", "token_out": "USDC", "amount": "150", "source_chain": "ethereum",
                        "destination_chain": "base", "deadline": 60});
    let mut locked = None;
    for _ in 0..4 {
        both.halt(1, true);
        let answer = run(&home, &chains, &[], "uniswap_submit_cross_chain_intent", bridge.clone()).await;
        assert_eq!(answer["status"], "partial", "{answer:#}");
        let id: B256 = answer["data"]["intent_id"].as_str().unwrap().parse().unwrap();
        let over = SystemClock.now_seconds() + 40;
        while both.deposit(id).await == 0 && SystemClock.now_seconds() < over {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        if both.deposit(id).await == 1 {
            locked = Some(id);
            break;
        }
        // All relayers overlook a few in a hundred: the destination continues, and another one is tried.
        both.halt(1, false);
        both.past(1, SystemClock.now_seconds()).await;
    }
    let (id, locked_at) = (locked.expect("no relayer locks anything"), SystemClock.now_seconds());
    assert_eq!(before[1] - both.balance(0, usdc, account).await, U256::from(150_000_000));

    // Cancelled by its nonce, while it can still be filled.
    let order = |end: u64| {
        json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.1", "chain": "ethereum",
                                  "decay_end_time": end})
    };
    let place = async |end: u64| {
        let answer = run(&home, &chains, &[], "uniswap_submit_uniswapx_order", order(end)).await;
        assert_eq!(answer["status"], "partial", "{answer:#}");
        answer["data"]["order_hash"].as_str().unwrap().to_owned()
    };
    let status = async |hash: &str| {
        let answer = run(&home, &chains, &[], "uniswap_get_uniswapx_order_status", json!({ "order_hash": hash })).await;
        answer["data"]["status"].as_str().unwrap_or_else(|| panic!("{answer:#}")).to_owned()
    };
    let used = async || {
        let event = Permit2::UnorderedNonceInvalidation::SIGNATURE_HASH;
        let filter = Filter::new().from_block(0).event_signature(event).topic1(account.into_word());
        both.anvils[0].1.get_logs(&filter).await.unwrap().len()
    };
    let hash = place(3_000).await;
    assert_eq!((status(&hash).await.as_str(), used().await), ("open", 0));
    let answer = call(&home, &chains, "uniswapx_cancel_order", json!({ "order_hash": hash })).await;
    assert_eq!(answer["status"], "success", "{answer:#}");
    assert_eq!((status(&hash).await.as_str(), used().await), ("cancelled", 1));

    // Its input's allowance is revoked, and then granted again.
    let hash = place(3_000).await;
    let answer = call(&home, &chains, "token_approve", allow("0.05")).await;
    assert_eq!(answer["status"], "success", "{answer:#}");
    assert_eq!(status(&hash).await, "insufficient_funds");
    let answer = call(&home, &chains, "token_approve", allow("0.1")).await;
    assert_eq!(answer["status"], "success", "{answer:#}");
    assert_eq!(status(&hash).await, "open");
    let answer = call(&home, &chains, "uniswapx_cancel_order", json!({ "order_hash": hash })).await;
    assert_eq!((&answer["status"], used().await), (&json!("success"), 2), "{answer:#}");
    let void = hash;

    // Without blocks nobody can fill it before its deadline.
    both.halt(0, true);
    // The previous order's status was not requested since its cancellation: it still blocks nothing.
    let hash = place(20).await;
    assert_eq!(status(&void).await, "cancelled");
    let over = SystemClock.now_seconds() + 26;
    while SystemClock.now_seconds() <= over {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    both.halt(0, false);
    both.past(0, over).await;
    assert_eq!(status(&hash).await, "expired");

    // Nothing is started towards a chain that does not answer.
    let nonce = both.anvils[0].1.get_transaction_count(account).await.unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let lost = [chains[0].clone(), format!("http://{nobody}")];
    let answer = run(&home, &lost, &[], "uniswap_submit_cross_chain_intent", bridge.clone()).await;
    assert_eq!(answer["error"]["code"], "CROSS_CHAIN_DESTINATION_DEGRADED", "{answer:#}");
    assert_eq!(both.anvils[0].1.get_transaction_count(account).await.unwrap(), nonce);

    // After its deadline and the settler's refund delay the funds return.
    both.past(0, locked_at + 60 + REFUND_DELAY).await;
    both.halt(1, false);
    both.past(1, locked_at + 60).await;
    assert_eq!(status(&id.to_string()).await, "expired");
    let answer = call(&home, &chains, "intent_refund", json!({ "intent_id": id })).await;
    assert_eq!(answer["status"], "success", "{answer:#}");
    assert_eq!((both.deposit(id).await, status(&id.to_string()).await.as_str()), (3, "refunded"));
    let after = [both.balance(0, weth, account).await, both.balance(0, usdc, account).await];
    assert_eq!(after, before, "nothing was sold, and not a unit is missing");
    world.end();
}
