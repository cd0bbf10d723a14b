//! The same contracts on two anvils: `bardo call` in a process of its own places orders of each kind and a bridge order
//! there, over HTTP throughout, and they are filled by the devnet's fillers and relayers through the contracts on the
//! anvils.
//!
//! The inhabitants need a chain of ours to look at. So a sandbox goes along, block for block: what the program sends to an
//! anvil is also given to the sandbox, what the inhabitants send there is also given to the anvil, and each transaction
//! must end the same on both.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use alloy::consensus::TxReceipt as _;
use alloy::eips::eip2718::Encodable2718 as _;
use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::network::TransactionResponse as _;
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::{Filter, TransactionRequest};
use alloy::sol_types::{SolCall, SolEvent as _};
use bardo::abi::erc20::Erc20;
use bardo::abi::erc7683::OriginSettler;
use bardo::abi::uniswapx::Reactor;
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::units::TokenAmount;
use bardo::chain::devnet::Chain;
use bardo::sandbox::plan::Token;
use bardo::sandbox::{MarketMode, Pace, Sandbox, SandboxConfig, services};
use serde_json::{Value, json};

use crate::anvil::{self, Anvil};
use crate::passing::{Look, pass};

struct Anvils {
    sandbox: Sandbox,
    anvils: Vec<(Anvil, DynProvider)>,
}

impl Anvils {
    async fn start() -> Self {
        let config = SandboxConfig {
            seed: 31,
            start_time: SystemClock.now_seconds().saturating_sub(30),
            pace: Pace::Manual,
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
            // As many blocks as the sandbox has: auctions go by their number.
            let (anvil, provider) = anvil::start(&state, time - height - 1, id).await;
            let mined: Value = provider
                .raw_request("anvil_mine".into(), json!([format!("{height:#x}"), "0x1"]))
                .await
                .unwrap_or_default();
            assert!(mined.is_null(), "{mined}");
            assert_eq!(provider.get_block_number().await.unwrap(), height);
            anvils.push((anvil, provider));
        }
        Self { sandbox, anvils }
    }

    /// One block on both sides of a chain.
    async fn block(&self, at: usize) {
        let (chain, provider) = (&self.sandbox.chains()[at], &self.anvils[at].1);
        let waiting = provider.get_block(BlockId::Number(BlockNumberOrTag::Pending)).full().await.unwrap().unwrap();
        let own: Vec<(B256, Vec<u8>)> =
            waiting.transactions.into_transactions().map(|one| (one.tx_hash(), one.inner.encoded_2718())).collect();
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
        for (one, receipt) in block.transactions.iter().zip(&block.receipts) {
            let there = provider.get_transaction_receipt(one.hash).await.unwrap();
            let there = there.unwrap_or_else(|| panic!("{} is in no block of the anvil", one.hash));
            assert_eq!(there.status(), receipt.is_success(), "{}", one.hash);
            assert_eq!(there.inner.logs().len(), receipt.logs().len(), "{}", one.hash);
            assert!(there.inner.status_or_post_state().coerce_status() == receipt.is_success());
        }
    }

    async fn balance(&self, at: usize, token: Address, owner: Address) -> U256 {
        let request = TransactionRequest {
            to: Some(TxKind::Call(token)),
            input: Bytes::from(Erc20::balanceOfCall { owner }.abi_encode()).into(),
            ..Default::default()
        };
        Erc20::balanceOfCall::abi_decode_returns(&self.anvils[at].1.call(request).await.unwrap()).unwrap()
    }
}

/// `bardo call --wait` in a process of its own; its answer.
async fn call(home: &tempfile::TempDir, chains: &[String], tool: &str, params: Value) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
    for (name, url) in ["ethereum", "base"].iter().zip(chains) {
        command.args(["--rpc", &format!("{name}={url}")]);
    }
    command.args(["call", "--approve", "always", "--wait", tool, &params.to_string()]);
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
    let both = Arc::new(Anvils::start().await);
    let served = services::serve(&both.sandbox, 0).await.unwrap();
    let mut description = both.sandbox.description();
    (description.order_service, description.intent_service) = (Some(served.url()), Some(served.url()));
    for (described, (anvil, _)) in description.chains.iter_mut().zip(&both.anvils) {
        described.rpc = anvil.url().to_owned();
    }
    let described = serde_json::to_value(&description).unwrap();
    // An anvil does not say what stands where: that is said for it. Everything else is its own word.
    let look: Look = Arc::new(move |_, asked| {
        let about = asked["method"] == "bardo_describe";
        about.then(|| json!({"jsonrpc": "2.0", "id": asked["id"], "result": described}))
    });
    let chains: Vec<String> =
        both.anvils.iter().map(|(anvil, _)| pass(anvil.url().to_owned(), look.clone(), None)).collect();
    let going = both.clone();
    let blocks = tokio::spawn(async move {
        loop {
            for at in [0, 1] {
                going.block(at).await;
            }
            tokio::time::sleep(Duration::from_millis(1_000)).await;
        }
    });

    let account = both.sandbox.accounts()[0];
    let deployment = |at: usize| both.sandbox.chains()[at].deployment.clone();
    let (usdc, weth) = (deployment(0).token(Token::Usdc).unwrap(), deployment(0).weth);
    let ethereum = &both.anvils[0].1;
    for kind in ["DUTCH_V2", "DUTCH_V3", "PRIORITY"] {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), format!("[order_type]\nethereum = \"{kind}\"\n")).unwrap();
        let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.2", "chain": "ethereum",
                            "decay_start_time": 1, "decay_end_time": 30});
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
    let over_there = deployment(1).token(Token::Usdc).unwrap();
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
    let request = TransactionRequest {
        to: Some(TxKind::Call(deployment(0).contracts["originSettler"])),
        input: Bytes::from(OriginSettler::depositsCall { orderId: id }.abi_encode()).into(),
        ..Default::default()
    };
    let deposit = OriginSettler::depositsCall::abi_decode_returns(&ethereum.call(request).await.unwrap()).unwrap();
    assert_eq!(deposit.status, 2, "whoever delivered is repaid");
    assert!(!blocks.is_finished(), "the anvils and the sandbox went apart");
    blocks.abort();
}
