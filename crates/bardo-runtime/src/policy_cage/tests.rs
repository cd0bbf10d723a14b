//! Tests of the rules that a devnet inside the process has from its start, read from its contract.

use std::path::Path;

use alloy::eips::BlockId;
use alloy::primitives::{B256, address};
use alloy::sol_types::{SolCall, SolInterface as _};
use bardo_abi::erc20::Erc20;
use bardo_abi::policy_cage::PolicyCage::PolicyCageErrors as Refused;
use bardo_base::clock::SystemClock;
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_sandbox::plan::SandboxToken;
use bardo_sandbox::{BlockPace, MarketMode, SandboxChain, SandboxConfig};

use super::*;
use crate::open;

/// First account of the development mnemonic.
const ACCOUNT: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
/// An address without any role.
const STRANGER: Address = address!("1000000000000000000000000000000000000001");
/// One USDC, in raw units.
const USDC: u64 = 1_000_000;

/// Configuration of a data folder, with these lines of policy over the demo preset.
pub(crate) fn config(home: &Path, policy: &str) -> Config {
    std::fs::write(home.join("policy-devnet.toml"), format!("preset = \"demo\"\n{policy}")).unwrap();
    let environment: Environment = [("BARDO_HOME", home.to_str().unwrap())].into_iter().collect();
    Config::load(&environment, &ConfigFlags::default()).unwrap()
}

/// Devnet without trading.
fn still() -> SandboxConfig {
    SandboxConfig {
        seed: 1,
        start_time: SystemClock.now_seconds(),
        pace: BlockPace::OnTransaction,
        clock: Some(Arc::new(SystemClock)),
        market: MarketMode::Off,
        keeper: true,
    }
}

async fn opened(home: &Path, policy: &str) -> OpenEnvironment {
    open(&config(home, policy), still, Arc::new(SystemClock)).await.unwrap()
}

fn contract(chain: &SandboxChain, name: &str) -> Address {
    chain.deployment.contracts[name]
}

fn usdc(chain: &SandboxChain) -> Address {
    chain.deployment.token(SandboxToken::Usdc).unwrap()
}

/// Calls the contract as `from`; a refusal is the contract's error.
async fn ask<C: SolCall>(chain: &SandboxChain, from: Address, call: C) -> Result<C::Return, Refused> {
    let request = TransactionRequest {
        from: Some(from),
        to: Some(contract(chain, "policyCage").into()),
        input: Bytes::from(call.abi_encode()).into(),
        ..Default::default()
    };
    let answer = chain.devnet.run(move |chain| chain.call(&request, BlockId::latest(), None, None)).await.unwrap();
    match answer {
        Ok(answer) => Ok(C::abi_decode_returns(&answer.output).unwrap()),
        Err(CallError::Reverted(data)) => Err(Refused::abi_decode(&data).unwrap()),
        Err(other) => panic!("{other}"),
    }
}

/// Rules of the first account in the contract; `None` without rules.
pub(crate) async fn rules(chain: &SandboxChain) -> Option<Rules> {
    ask(chain, STRANGER, PolicyCage::rulesOfCall { owner: ACCOUNT }).await.ok()
}

/// Maximum USDC per transaction in the contract's rules, in raw units.
pub(crate) async fn most(chain: &SandboxChain) -> Option<u128> {
    let token = usdc(chain);
    let asset = rules(chain).await?.assets.into_iter().find(|asset| asset.token == token)?;
    Some(asset.maxPerTransaction)
}

/// Execution of a delegate's call by the delegation manager, as far as the contract's first hook.
async fn delegated(chain: &SandboxChain, to: Address, value: u64, data: &[u8]) -> Result<(), Refused> {
    let execution = [to.as_slice(), &U256::from(value).to_be_bytes::<32>(), data].concat().into();
    let call = PolicyCage::beforeHookCall {
        terms: Bytes::new(),
        args: Bytes::new(),
        mode: B256::ZERO,
        execution,
        delegation: B256::ZERO,
        owner: ACCOUNT,
        redeemer: STRANGER,
    };
    ask(chain, contract(chain, "delegationManager"), call).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_has_its_rules_from_genesis_and_the_account_is_untouched() {
    let home = tempfile::tempdir().unwrap();
    let opened = opened(home.path(), "").await;
    let chains = opened.sandbox.as_ref().unwrap().chains();
    assert_eq!((opened.world.account, chains.len()), (Some(ACCOUNT), 2));
    for chain in chains {
        let plan = chain.deployment.plan;
        let read = |chain: &mut golem_chain::devnet::Chain| {
            let state = chain.state();
            (state.nonce(ACCOUNT), state.balance(ACCOUNT), chain.pool().is_empty())
        };
        assert_eq!(chain.devnet.run(read).await.unwrap(), (0, plan.demo_ether, true), "{}", plan.name);
        // The demo policy: 2,500 dollars per action, 5,000 per day.
        let (rules, usdc) = (rules(chain).await.unwrap(), usdc(chain));
        let of_usdc = rules.assets.iter().find(|asset| asset.token == usdc).unwrap();
        let day = u128::from(5_000 * USDC);
        assert_eq!((most(chain).await, of_usdc.maxPerDay), (Some(u128::from(2_500 * USDC)), day), "{}", plan.name);

        // A delegate gets as far as the policy, whatever it is that Bardo checks.
        let spender = contract(chain, "permit2");
        let approve =
            |usdc: u64, more: u64| Erc20::approveCall { spender, value: U256::from(usdc * USDC + more) }.abi_encode();
        let (at, above) = (approve(2_500, 0), approve(2_500, 1));
        assert_eq!(delegated(chain, usdc, 0, &at).await, Ok(()));
        let refused = delegated(chain, usdc, 0, &above).await;
        assert!(matches!(refused, Err(Refused::OverPerTransaction(error)) if error.token == usdc), "{}", plan.name);
        assert_eq!(delegated(chain, STRANGER, 1, &[]).await, Ok(()), "a plain send to anybody");
        for (to, data) in [(STRANGER, vec![1, 2, 3, 4]), (ACCOUNT, vec![]), (contract(chain, "policyCage"), vec![])] {
            let refused = delegated(chain, to, 0, &data).await;
            assert!(matches!(refused, Err(Refused::CallNotAllowed(error)) if error.target == to), "{to}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_are_those_of_the_policy_in_force() {
    let home = tempfile::tempdir().unwrap();
    let friend = address!("2000000000000000000000000000000000000002");
    let lines = format!("max_single_trade_usd = \"100\"\nallowed_recipients = [\"{friend}\", \"{ACCOUNT}\"]\n");
    let opened = opened(home.path(), &lines).await;
    let sandbox = opened.sandbox.unwrap();
    for chain in sandbox.chains() {
        assert_eq!(most(chain).await, Some(u128::from(100 * USDC)));
        assert_eq!(delegated(chain, friend, 1, &[]).await, Ok(()));
        let refused = delegated(chain, STRANGER, 1, &[]).await;
        assert!(matches!(refused, Err(Refused::CallNotAllowed(error)) if error.target == STRANGER), "{STRANGER}");
    }
    // Another policy replaces them, and one that the contract cannot carry takes them away.
    let parse = |text: &str| bardo_safety::policy::parse(text, Path::new("policy.toml")).unwrap();
    for (lines, expected) in [
        ("max_single_trade_usd = \"2000\"\n", Some(u128::from(2_000 * USDC))),
        ("allowed_tokens = \"all\"\n", None),
        ("max_single_trade_usd = \"50\"\n", Some(u128::from(50 * USDC))),
        ("allowed_tokens = []\n", None),
    ] {
        follow_policy(&sandbox, ACCOUNT, &parse(&format!("preset = \"demo\"\n{lines}"))).await.unwrap();
        for chain in sandbox.chains() {
            assert_eq!(most(chain).await, expected, "{lines}");
            assert_eq!(rules(chain).await.is_some(), expected.is_some(), "{lines}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_devnet_and_a_broken_policy_set_no_rules() {
    let home = tempfile::tempdir().unwrap();
    let broken = opened(home.path(), "nonsense = 1\n").await;
    for chain in broken.sandbox.unwrap().chains() {
        assert_eq!(rules(chain).await, None);
    }
    let config = Config { kept_devnet: Some("kept".to_owned()), ..config(home.path(), "") };
    let kept = open(&config, still, Arc::new(SystemClock)).await.unwrap();
    for chain in kept.sandbox.unwrap().chains() {
        assert_eq!(rules(chain).await, None);
    }
}
