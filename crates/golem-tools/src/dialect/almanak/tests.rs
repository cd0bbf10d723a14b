//! The table against Almanak's own catalog, and what is refused before any native call.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::{DialectResponse, ExecutorTools, HeldCall, NativeCall, NativeTools};
use super::*;
use crate::ALL_TOOL_DEFS;
use crate::engine::{Catalog, Executor, ExecutorConfig, ToolCall};
use bardo_base::clock::SystemClock;
use bardo_base::fabric::Fabric;
use bardo_base::id::GolemId;

/// Almanak's default catalog: name, category, risk tier, whether a call may be repeated, dollars above which a person is
/// asked; then each parameter with its JSON type, `*` if it is required, otherwise its default. Printed by the package
/// almanak 2.29.2 itself (`get_default_catalog`, `input_json_schema`).
const CATALOG: &str = r#"
    get_price data none repeatable -
        token:string* chain:string="arbitrum"
    get_balance data none repeatable -
        token:string* chain:string="arbitrum" wallet_address:string=""
    batch_get_balances data none repeatable -
        chain:string="arbitrum" tokens:array* wallet_address:string=""
    get_indicator data none repeatable -
        token:string* indicator:string* period:integer=14 chain:string="arbitrum"
    get_pool_state data none repeatable -
        token_a:string* token_b:string* fee_tier:integer/null=null chain:string="arbitrum"
         protocol:string="uniswap_v3" pool_address:string=""
    resolve_pool_address data none repeatable -
        address:string* chain:string="arbitrum"
    get_lp_position data none repeatable -
        position_id:string* chain:string="arbitrum" protocol:string="uniswap_v3" position_manager:string=""
         network:string=""
    list_lp_positions data none repeatable -
        chain:string="arbitrum" protocol:string="uniswap_v3" wallet_address:string="" network:string=""
         include_empty:boolean=false
    list_lending_positions data none repeatable -
        chain:string="arbitrum" protocol:string="aave_v3" wallet_address:string="" network:string=""
    list_lending_reserves data none repeatable -
        chain:string="arbitrum" protocol:string="aave_v3" asset:string="" collateral:string="" loan:string=""
         network:string=""
    list_token_pools data none repeatable -
        token:string* chain:string="arbitrum" min_liquidity_usd:number=0.0 quote_token:string/null=null
         min_volume_usd:number=0.0 sort_by:string="liquidity" limit:integer/null=null offset:integer=0
    get_portfolio data none repeatable -
        chain:string="arbitrum" wallet_address:string="" tokens:array=[] network:string=""
    resolve_token data none repeatable -
        token:string* chain:string="arbitrum"
    get_risk_metrics data none repeatable -
        chain:string="arbitrum" window_days:integer=30
    compile_intent planning none repeatable -
        intent_type:string* params:object* chain:string="arbitrum"
    simulate_intent planning none repeatable -
        bundle_id:string/null=null intent_type:string/null=null params:object/null=null chain:string="arbitrum"
    validate_risk planning none repeatable -
        intent_type:string* params:object* chain:string="arbitrum"
    estimate_gas planning none repeatable -
        intent_type:string* params:object* chain:string="arbitrum"
    compute_rebalance_candidate planning none repeatable -
        position_id:string* fee_tier:integer=3000 chain:string="base" estimated_daily_volume:string="5000"
         our_liquidity_share:string="0.1"
    swap_tokens action medium once 10000
        token_in:string* token_out:string* amount:string* slippage_bps:integer=50 chain:string="arbitrum"
         destination_chain:string/null=null protocol:string/null=null dry_run:boolean=false
         execution_wallet:string/null=null
    open_lp_position action high once 5000
        token_a:string* token_b:string* amount_a:string* amount_b:string* fee_tier:integer=3000 price_lower:string*
         price_upper:string* chain:string="arbitrum" protocol:string="uniswap_v3" dry_run:boolean=false
         execution_wallet:string/null=null
    close_lp_position action medium once -
        position_id:string* amount:string="all" collect_fees:boolean=true chain:string="arbitrum"
         protocol:string="uniswap_v3" pool:string="" dry_run:boolean=false
    supply_lending action medium once -
        token:string* amount:string* protocol:string="aave_v3" use_as_collateral:boolean=true
         market_id:string/null=null chain:string="arbitrum" dry_run:boolean=false
    borrow_lending action high once -
        token:string* amount:string* collateral_token:string* collateral_amount:string* protocol:string="aave_v3"
         market_id:string/null=null chain:string="arbitrum" dry_run:boolean=false
    repay_lending action medium once -
        token:string* amount:string* protocol:string="aave_v3" market_id:string/null=null chain:string="arbitrum"
         dry_run:boolean=false
    withdraw_lending action medium once -
        token:string* amount:string* protocol:string="aave_v3" market_id:string/null=null is_collateral:boolean=true
         chain:string="arbitrum" dry_run:boolean=false
    bridge_tokens action medium once 10000
        token:string* amount:string* from_chain:string* to_chain:string* slippage_bps:integer=50
         preferred_bridge:string/null=null dry_run:boolean=false execution_wallet:string/null=null
    unwrap_native action medium once -
        token:string* amount:string* chain:string="arbitrum" dry_run:boolean=false execution_wallet:string/null=null
    execute_compiled_bundle action high once -
        bundle_id:string* require_simulation:boolean=true chain:string="arbitrum" dry_run:boolean=false
    deploy_vault action high once -
        chain:string* name:string* symbol:string* underlying_token_address:string* safe_address:string*
         admin_address:string* fee_receiver_address:string* deployer_address:string*
         valuation_manager_address:string/null=null dry_run:boolean=false
    get_vault_state data none repeatable -
        vault_address:string* chain:string="base"
    settle_vault action medium once -
        vault_address:string* chain:string="base" new_total_assets:string/null=null safe_address:string*
         valuator_address:string* dry_run:boolean=false
    approve_vault_underlying action medium once -
        vault_address:string* underlying_token:string* safe_address:string* chain:string="base" dry_run:boolean=false
    deposit_vault action medium once -
        vault_address:string* underlying_token:string* amount:string* chain:string="base" depositor_address:string=""
         dry_run:boolean=false
    teardown_vault action high once -
        vault_address:string* safe_address:string* valuator_address:string* chain:string="base" dry_run:boolean=false
    wrap_native action medium once -
        token:string* amount:string* chain:string="arbitrum" dry_run:boolean=false execution_wallet:string/null=null
    get_wallet_overview data none repeatable -
        chain:string="arbitrum" wallet_address:string="" min_balance_usd:number=0.01 extra_tokens:array=[]
    check_protocol_support data none repeatable -
        protocol:string* chain:string=""
    save_agent_state state low repeatable -
        state:object* deployment_id:string=""
    load_agent_state state none repeatable -
        deployment_id:string=""
    record_agent_decision state low repeatable -
        decision_summary:string* tool_calls:array=[] intent_type:string/null=null deployment_id:string=""
"#;

/// Rows of [`CATALOG`]: the words of a tool, and of its parameters.
fn rows() -> BTreeMap<&'static str, (Vec<&'static str>, Vec<&'static str>)> {
    let mut rows: BTreeMap<&str, (Vec<&str>, Vec<&str>)> = BTreeMap::new();
    let mut last = "";
    for line in CATALOG.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match line.starts_with("     ") {
            true => rows.get_mut(last).unwrap().1.extend(words),
            false => {
                last = words[0];
                assert!(rows.insert(last, (words, Vec::new())).is_none(), "{last}");
            }
        }
    }
    rows
}

/// A schema's parameters in the form of [`CATALOG`].
fn written(schema: &Value) -> Vec<String> {
    let required = schema["required"].as_array().unwrap();
    let one = |(name, parameter): (&String, &Value)| {
        let kind = match &parameter["type"] {
            Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect::<Vec<_>>().join("/"),
            kind => kind.as_str().unwrap().to_owned(),
        };
        match required.contains(&json!(name)) {
            true => format!("{name}:{kind}*"),
            false => format!("{name}:{kind}={}", parameter["default"]),
        }
    };
    let mut all: Vec<String> = schema["properties"].as_object().unwrap().iter().map(one).collect();
    all.sort();
    all
}

#[test]
fn the_table_is_almanaks_catalog() {
    let expected = rows();
    assert_eq!(expected.len(), 41);
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    assert_eq!(names.len(), 41);
    for tool in TOOLS {
        let (row, parameters) = expected.get(tool.name).unwrap_or_else(|| panic!("{} is none of theirs", tool.name));
        let described = tool.describe(&Catalog::default());
        let approval = tool.approval_above_usd.map_or("-".to_owned(), |usd| usd.to_string());
        let repeats = if tool.idempotent { "repeatable" } else { "once" };
        let [category, risk] = ["category", "risk_tier"].map(|name| described[name].as_str().unwrap());
        assert_eq!([tool.name, category, risk, repeats, approval.as_str()], row[..], "{}", tool.name);
        let mut parameters: Vec<String> = parameters.iter().map(|one| (*one).to_owned()).collect();
        parameters.sort();
        assert_eq!(written(&tool.input_schema()), parameters, "{}", tool.name);
        // Both exports have the same schema, and refuse what the table does not name.
        assert_eq!(tool.openai()["function"]["parameters"], tool.input_schema());
        assert_eq!(tool.mcp(&Catalog::default())["inputSchema"], tool.input_schema());
        assert_eq!(tool.input_schema()["additionalProperties"], false);
    }
}

#[test]
fn every_native_tool_behind_it_exists() {
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    let lacking: Vec<&str> = TOOLS.iter().flat_map(|tool| tool.lacks(&catalog)).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
    // An action is a write, a data tool only reads.
    for tool in TOOLS {
        for entry in behind(tool).iter().filter_map(|name| catalog.get(name)) {
            let name = entry.def.meta.name;
            match tool.category {
                ToolGroup::Data => assert!(!entry.def.meta.signs(), "{} is behind {}", name, tool.name),
                ToolGroup::State => assert!(!entry.def.meta.signs(), "{} is behind {}", name, tool.name),
                ToolGroup::Action => {
                    let reads = name == "get_vault_state";
                    assert!(entry.def.meta.signs() || reads, "{} is behind {}", name, tool.name);
                }
                ToolGroup::Planning => {}
            }
        }
    }
}

/// Native tools that must not be called.
struct Untouched(Executor);

impl NativeTools for Untouched {
    fn executor(&self) -> &Executor {
        &self.0
    }

    fn call(&self, call: NativeCall, _: bool) -> BoxFuture<'_, ToolResponse> {
        panic!("{} was called", call.tool)
    }

    fn hold(&self, call: NativeCall) -> BoxFuture<'_, ToolResponse> {
        panic!("{} was previewed", call.tool)
    }

    fn commit(&self, _: HeldCall) -> BoxFuture<'_, ToolResponse> {
        panic!("something was committed")
    }

    fn withdraw(&self, _: HeldCall) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn executor(world: Arc<ToolEnvironment>) -> Executor {
    Executor::new(ExecutorConfig {
        catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
        world,
        fabric: Fabric::in_memory(100, Arc::new(SystemClock)),
        golem_id: GolemId::operator(),
        calls_per_minute: 10_000,
        hooks: vec![],
        store: None,
        acting: None,
    })
}

fn on_devnet(account: usize) -> Executor {
    executor(crate::tests::devnet_world(account))
}

/// Session whose native tools must stay untouched.
fn untouched() -> AlmanakSession {
    AlmanakSession::new(Arc::new(Untouched(on_devnet(0))))
}

fn input(params: Value) -> ToolInput {
    ToolInput::Json(params)
}

fn code(response: &DialectResponse) -> String {
    response.error.as_ref().map(super::super::DialectError::code).unwrap_or_default()
}

const STRANGER: &str = "0x000000000000000000000000000000000000dEaD";

#[tokio::test]
async fn what_does_not_fit_the_table_is_refused_before_any_native_call() {
    let session = untouched();
    let swap = |more: Value| {
        let mut params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.1"});
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        params
    };
    for (tool, params, said) in [
        ("swap_tokens", json!({"token_in": "WETH", "token_out": "USDC"}), "parameter `amount`: it is required"),
        ("swap_tokens", swap(json!({"amount_usd": "5"})), "unknown parameter `amount_usd`"),
        ("swap_tokens", swap(json!({"token_inn": "WETH"})), "did you mean `token_in`?"),
        ("swap_tokens", swap(json!({"slippage_bps": 0})), "expected a whole number from 1 to 1000"),
        ("swap_tokens", swap(json!({"slippage_bps": 1_001})), "expected a whole number from 1 to 1000"),
        ("swap_tokens", swap(json!({"slippage_bps": 0.5})), "expected a whole number from 1 to 1000"),
        ("swap_tokens", swap(json!({"dry_run": "true"})), "parameter `dry_run`: expected true or false"),
        ("swap_tokens", swap(json!({"dry_run": null})), "parameter `dry_run`: expected true or false"),
        ("swap_tokens", swap(json!({"amount": "-1"})), "expected an amount above zero"),
        ("swap_tokens", swap(json!({"amount": "0.000"})), "expected an amount above zero"),
        ("swap_tokens", swap(json!({"amount": "1e3"})), "expected an amount above zero"),
        ("swap_tokens", swap(json!({"amount": "all"})), "expected an amount above zero"),
        ("swap_tokens", swap(json!({"amount": "max"})), "expected an amount above zero"),
        ("swap_tokens", swap(json!({"amount": 0.1})), "parameter `amount`: expected a text"),
        ("swap_tokens", swap(json!({"protocol": "curve"})), "Bardo swaps on Uniswap"),
        ("swap_tokens", swap(json!({"token_in": "W".repeat(257)})), "257 bytes; at most 256 are taken"),
        ("swap_tokens", swap(json!({"destination_chain": "base", "slippage_bps": 1})), "basis points to the fillers"),
        ("get_price", json!({"token": null}), "parameter `token`: expected a text"),
        ("get_lp_position", json!({"position_id": "1", "network": "mainnet"}), "this session is on `anvil`"),
        ("get_lp_position", json!({"position_id": "1", "protocol": "curve"}), "Bardo has no tool for curve"),
        ("list_token_pools", json!({"token": "WETH", "sort_by": "age"}), "expected one of liquidity, volume"),
        ("list_token_pools", json!({"token": "WETH", "min_volume_usd": -1}), "expected a number of at least zero"),
        ("list_lending_reserves", json!({"collateral": "WETH"}), "Aave has no markets of pairs"),
        ("close_lp_position", json!({"position_id": "1", "amount": "0.5"}), "only `all` is possible"),
        ("close_lp_position", json!({"position_id": "1", "collect_fees": false}), "pays its fees with the rest"),
        (
            "supply_lending",
            json!({"token": "WETH", "amount": "1", "use_as_collateral": false}),
            "no tool that takes a supply",
        ),
        ("supply_lending", json!({"token": "WETH", "amount": "1", "protocol": "morpho_blue"}), "Bardo has no tool for"),
        ("repay_lending", json!({"token": "USDC", "amount": "everything"}), "expected an amount above zero"),
        (
            "bridge_tokens",
            json!({"token": "USDC", "amount": "1", "from_chain": "base", "to_chain": "31338"}),
            "another chain",
        ),
        ("wrap_native", json!({"token": "USDC", "amount": "1"}), "USDC is not the wrapped native token"),
        ("wrap_native", json!({"token": "ETH", "amount": "1"}), "ETH is not the wrapped native token"),
        ("compile_intent", json!({"intent_type": "perp", "params": {}}), "known: swap, lp_open"),
        (
            "compile_intent",
            json!({"intent_type": "swap", "params": {"amount": "1", "sign": true}}),
            "unknown parameter `sign`",
        ),
        (
            "compile_intent",
            json!({"intent_type": "swap", "params": {"from_token": "A", "token_in": "B"}}),
            "mean the same",
        ),
        (
            "compile_intent",
            json!({"intent_type": "borrow", "params": {"token": "USDC", "amount": "1", "collateral_token": "WETH",
                "collateral_amount": "1"}}),
            "the collateral is an action of its own here",
        ),
        ("simulate_intent", json!({}), "name an intent with its params, or a bundle"),
        ("execute_compiled_bundle", json!({"bundle_id": "7"}), "permit id"),
        ("save_agent_state", json!({"state": [1]}), "parameter `state`: expected an object"),
    ] {
        let response = session.call(tool, input(params.clone())).await;
        let error = response.error.clone().unwrap_or_else(|| panic!("{tool} {params}: {response:?}"));
        assert!(error.message.contains(said), "{tool} {params}: {}", error.message);
        assert_eq!(
            (response.status, code(&response).as_str()),
            (CallStatus::Error, "validation_error"),
            "{tool} {params}"
        );
        assert!(error.recoverable && error.tool_name == Some(tool) && error.error_category == "non_retryable");
    }
}

#[tokio::test]
async fn a_foreign_wallet_is_refused_whatever_the_tool_calls_it() {
    let session = untouched();
    let vault = json!({"vault_address": STRANGER, "underlying_token": STRANGER, "safe_address": STRANGER});
    let open = json!({"token_a": "WETH", "token_b": "USDC", "amount_a": "1", "amount_b": "1", "price_lower": "1",
        "price_upper": "2", "execution_wallet": STRANGER});
    for (tool, params) in [
        ("swap_tokens", json!({"token_in": "WETH", "token_out": "USDC", "amount": "1", "execution_wallet": STRANGER})),
        (
            "bridge_tokens",
            json!({"token": "USDC", "amount": "1", "from_chain": "ethereum", "to_chain": "base",
            "execution_wallet": STRANGER}),
        ),
        ("open_lp_position", open),
        ("wrap_native", json!({"token": "WETH", "amount": "1", "execution_wallet": STRANGER})),
        ("unwrap_native", json!({"token": "WETH", "amount": "1", "execution_wallet": STRANGER})),
        ("approve_vault_underlying", vault),
        (
            "compile_intent",
            json!({"intent_type": "swap", "params": {"token_in": "WETH", "token_out": "USDC",
            "amount": "1", "execution_wallet": STRANGER}}),
        ),
    ] {
        let response = session.call(tool, input(params)).await;
        assert_eq!((response.status, code(&response).as_str()), (CallStatus::Blocked, "permission_denied"), "{tool}");
        let error = response.error.unwrap();
        assert!(error.message.contains("is not the account that acts here") && !error.recoverable, "{}", error.message);
    }
}

/// Native tools that record their calls and answer nothing.
#[derive(Default)]
struct Noted(Mutex<Vec<(NativeCall, Option<bool>)>>);

struct Noting {
    executor: Executor,
    noted: Arc<Noted>,
    /// Preview that is held, if any.
    preview: Option<Value>,
}

impl Noting {
    fn respond(&self, call: NativeCall, dry_run: Option<bool>) -> ToolResponse {
        self.noted.0.lock().push((call, dry_run));
        let error = ToolError::new(ErrorCode::ToolCancelled, "only noted");
        ToolResponse::failed(self.executor.new_call_id(), CallStatus::Error, error)
    }
}

impl NativeTools for Noting {
    fn executor(&self) -> &Executor {
        &self.executor
    }

    fn call(&self, call: NativeCall, dry_run: bool) -> BoxFuture<'_, ToolResponse> {
        Box::pin(std::future::ready(self.respond(call, Some(dry_run))))
    }

    fn hold(&self, call: NativeCall) -> BoxFuture<'_, ToolResponse> {
        let mut response = self.respond(call, None);
        if let Some(preview) = &self.preview {
            let (status, data) = (CallStatus::Simulated, Some(preview.clone()));
            response = ToolResponse { status, data, error: None, ..response };
        }
        Box::pin(std::future::ready(response))
    }

    fn commit(&self, _: HeldCall) -> BoxFuture<'_, ToolResponse> {
        let call = NativeCall { tool: "commit", params: Map::new() };
        Box::pin(std::future::ready(self.respond(call, Some(false))))
    }

    fn withdraw(&self, _: HeldCall) -> BoxFuture<'_, ()> {
        self.respond(NativeCall { tool: "withdraw", params: Map::new() }, None);
        Box::pin(std::future::ready(()))
    }
}

/// Calls a tool; the native calls that it became, each with whether it was a dry run (`None` for a preview).
async fn becomes(
    tool: &str,
    params: Value,
    preview: Option<Value>,
) -> (Vec<(NativeCall, Option<bool>)>, DialectResponse) {
    let noted = Arc::new(Noted::default());
    let tools = Noting { executor: on_devnet(0), noted: Arc::clone(&noted), preview };
    let response = AlmanakSession::new(Arc::new(tools)).call(tool, input(params)).await;
    let calls = noted.0.lock().clone();
    (calls, response)
}

#[tokio::test]
async fn amounts_chains_slippage_and_dry_runs_reach_the_native_tool() {
    // The devnet has no arbitrum: its first chain stands for the default.
    let swap = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.10", "dry_run": true});
    let lend = |amount: &str| json!({"token": "USDC", "amount": amount, "chain": "ethereum", "dry_run": true});
    let native = |amount: &str| json!({"token": "USDC", "amount": amount, "chain": "ethereum"});
    for (tool, params, behind, becomes_params) in [
        (
            "swap_tokens",
            swap.clone(),
            "uniswap_execute_swap",
            json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.10", "chain": "ethereum", "slippage_bps": 50,
                "prefer_uniswapx": false}),
        ),
        (
            "swap_tokens",
            json!({"token_in": "USDC", "token_out": "USDC", "amount": "5", "chain": "base", "destination_chain": "ethereum",
                "slippage_bps": 300, "dry_run": true}),
            "uniswap_submit_cross_chain_intent",
            json!({"token_in": "USDC", "token_out": "USDC", "amount": "5", "source_chain": "base",
                "destination_chain": "ethereum"}),
        ),
        // A destination on the same chain, by whatever name, is a plain swap.
        (
            "swap_tokens",
            json!({"token_in": "WETH", "token_out": "USDC", "amount": 1, "chain": "ethereum", "destination_chain": "31337",
                "slippage_bps": "20", "dry_run": true}),
            "uniswap_execute_swap",
            json!({"token_in": "WETH", "token_out": "USDC", "amount": "1", "chain": "ethereum", "slippage_bps": 20,
                "prefer_uniswapx": false}),
        ),
        (
            "bridge_tokens",
            json!({"token": "USDC", "amount": "5", "from_chain": "ethereum", "to_chain": "base", "dry_run": true,
                "preferred_bridge": "across", "slippage_bps": 40}),
            "across_deposit",
            json!({"token_in": "USDC", "amount": "5", "source_chain": "ethereum", "destination_chain": "base",
                "max_fee_bps": 40}),
        ),
        (
            "bridge_tokens",
            json!({"token": "USDC", "amount": "5", "from_chain": "ethereum", "to_chain": "base", "dry_run": true,
                "preferred_bridge": "erc7683"}),
            "uniswap_submit_cross_chain_intent",
            json!({"token_in": "USDC", "token_out": "USDC", "amount": "5", "source_chain": "ethereum",
                "destination_chain": "base"}),
        ),
        // Nobody quotes deposits in this session, so that it is an order.
        (
            "bridge_tokens",
            json!({"token": "USDC", "amount": "5", "from_chain": "ethereum", "to_chain": "base", "dry_run": true,
                "preferred_bridge": "stargate"}),
            "uniswap_submit_cross_chain_intent",
            json!({"token_in": "USDC", "token_out": "USDC", "amount": "5", "source_chain": "ethereum",
                "destination_chain": "base"}),
        ),
        ("supply_lending", lend("2.5"), "lending_supply", native("2.5")),
        ("repay_lending", lend("all"), "lending_repay", native("max")),
        ("withdraw_lending", lend("ALL"), "lending_withdraw", native("max")),
        (
            "wrap_native",
            json!({"token": "WETH", "amount": "all", "dry_run": true}),
            "wrap_native",
            json!({"amount": "max", "chain": "ethereum"}),
        ),
        (
            "close_lp_position",
            json!({"position_id": "7", "protocol": "uniswap_v4", "chain": "base", "dry_run": true}),
            "close_position",
            json!({"position_id": "v4:7", "chain": "base"}),
        ),
        (
            "approve_vault_underlying",
            json!({"vault_address": STRANGER, "underlying_token": "0x000000000000000000000000000000000000bEEF",
                "safe_address": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "chain": "ethereum", "dry_run": true}),
            "token_approve",
            json!({"token": "0x000000000000000000000000000000000000bEEF", "spender": STRANGER, "amount": "max",
                "chain": "ethereum"}),
        ),
    ] {
        let (calls, _) = becomes(tool, params.clone(), None).await;
        let Value::Object(becomes_params) = becomes_params else { unreachable!() };
        let expected = NativeCall { tool: behind, params: becomes_params };
        assert_eq!(calls, [(expected, Some(true))], "{tool} {params}");
    }
}

/// WETH and USDC stand in the order of their addresses in a pool, and the price bounds are the pool's, whatever the order
/// of the call.
#[tokio::test]
async fn a_position_is_opened_in_the_pools_order() {
    let executor = on_devnet(0);
    let tokens = executor.world().chain("ethereum").unwrap().network().book.tokens();
    let of = |symbol: &str| tokens.iter().find(|token| token.symbol == symbol).unwrap().address;
    let weth_first = of("WETH") < of("USDC");
    let (first, second) = if weth_first { ("WETH", "USDC") } else { ("USDC", "WETH") };
    let [first_amount, second_amount] = ["11", "22"];
    for is_reversed in [false, true] {
        let [(a, amount_a), (b, amount_b)] = match is_reversed {
            false => [(first, first_amount), (second, second_amount)],
            true => [(second, second_amount), (first, first_amount)],
        };
        let params = json!({"token_a": a, "token_b": b, "amount_a": amount_a, "amount_b": amount_b, "price_lower": "3",
            "price_upper": "4", "chain": "ethereum", "dry_run": true});
        let (calls, _) = becomes("open_lp_position", params, None).await;
        let expected = json!({"token_a": first, "token_b": second, "amount_a": first_amount, "amount_b": second_amount,
            "fee_tier": 3000, "price_lower": "3", "price_upper": "4", "chain": "ethereum"});
        assert_eq!(Value::Object(calls[0].0.params.clone()), expected, "reversed: {is_reversed}");
    }
}

/// A borrowing supplies its collateral before it borrows, in a dry run as well; nothing is supplied for an amount of zero.
#[tokio::test]
async fn a_borrowing_supplies_its_collateral_first() {
    let borrow = |collateral: &str| {
        json!({"token": "USDC", "amount": "100", "collateral_token": "WETH", "collateral_amount": collateral,
            "chain": "ethereum", "dry_run": true})
    };
    let (calls, response) = becomes("borrow_lending", borrow("0.5"), None).await;
    assert_eq!((calls.len(), calls[0].0.tool, calls[0].1), (1, "lending_supply", Some(true)), "{calls:?}");
    assert_eq!(calls[0].0.params["token"], "WETH");
    assert_eq!(response.status, CallStatus::Error, "the supply failed, so nothing is borrowed");
    let mut real = borrow("0.5");
    real["dry_run"] = json!(false);
    let (calls, response) = becomes("borrow_lending", real, None).await;
    assert_eq!((calls.len(), calls[0].0.tool, calls[0].1), (1, "lending_borrow", Some(true)), "{calls:?}");
    assert_eq!(response.status, CallStatus::Error, "the borrowing cannot be, so nothing is supplied for it");
    let (calls, _) = becomes("borrow_lending", borrow("0"), None).await;
    assert_eq!((calls.len(), calls[0].0.tool), (1, "lending_borrow"), "{calls:?}");
    let (calls, response) = becomes("borrow_lending", borrow("."), None).await;
    assert!(calls.is_empty(), "{response:?}");
}

/// A preview worth so much, which waits for this consent.
fn preview(spent: Value, approval: &str) -> Option<Value> {
    Some(json!({"permit_id": format!("{:032x}", 7), "simulation_hash": format!("0x{:064x}", 9), "spent_usd": spent,
        "approval": approval}))
}

/// The dialect's thresholds only add to the policy: what the policy asks about goes on, what it would do without asking
/// above the threshold does not.
#[tokio::test]
async fn above_its_threshold_an_action_needs_a_policy_that_asks() {
    let swap = json!({"token_in": "WETH", "token_out": "USDC", "amount": "4", "chain": "ethereum"});
    for (spent, approval, goes_on) in [
        (json!("10000"), "instant", true),
        (json!("10000.01"), "instant", false),
        (json!("10000.01"), "notify", false),
        (json!("10000.01"), "delay", false),
        (json!("10000.01"), "approval", true),
        (json!(null), "instant", false),
        (json!(null), "approval", true),
    ] {
        let (calls, response) = becomes("swap_tokens", swap.clone(), preview(spent.clone(), approval)).await;
        let tools: Vec<&str> = calls.iter().map(|(call, _)| call.tool).collect();
        let last = if goes_on { "commit" } else { "withdraw" };
        assert_eq!(tools, ["uniswap_execute_swap", last], "{spent} {approval}");
        if !goes_on {
            assert_eq!((response.status, code(&response).as_str()), (CallStatus::Blocked, "risk_blocked"));
        }
    }
    // Another threshold, and none.
    let open = json!({"token_a": "WETH", "token_b": "USDC", "amount_a": "1", "amount_b": "1", "price_lower": "3",
        "price_upper": "4", "chain": "ethereum"});
    let (calls, _) = becomes("open_lp_position", open, preview(json!("5000.01"), "instant")).await;
    assert_eq!(calls.last().unwrap().0.tool, "withdraw");
    let supply = json!({"token": "WETH", "amount": "1", "chain": "ethereum"});
    let (calls, _) = becomes("supply_lending", supply, None).await;
    assert_eq!((calls.len(), calls[0].1), (1, Some(false)));
}

#[tokio::test]
async fn a_tool_whose_native_one_is_missing_says_which() {
    let vault = json!({"vault_address": STRANGER, "safe_address": STRANGER, "valuator_address": STRANGER});
    let session = AlmanakSession::new(Arc::new(Untouched(without(&["vault_settle", "vault_teardown", "list_pools"]))));
    for (tool, params, native) in [
        ("settle_vault", vault.clone(), "vault_settle"),
        ("teardown_vault", vault, "vault_teardown"),
        ("resolve_pool_address", json!({"address": STRANGER}), "list_pools"),
    ] {
        let response = session.call(tool, input(params)).await;
        let error = response.error.clone().unwrap();
        assert_eq!((code(&response).as_str(), error.recoverable), ("permission_denied", false), "{tool}");
        assert_eq!(error.message, format!("{tool} needs the native tool {native}, which this session does not have"));
    }
}

/// Executor without these tools.
fn without(missing: &[&str]) -> Executor {
    let defs = ALL_TOOL_DEFS.iter().copied().filter(|def| !missing.contains(&def.meta.name));
    Executor::new(ExecutorConfig {
        catalog: Catalog::new(defs).unwrap(),
        world: crate::tests::devnet_world(0),
        fabric: Fabric::in_memory(100, Arc::new(SystemClock)),
        golem_id: GolemId::operator(),
        calls_per_minute: 10_000,
        hooks: vec![],
        store: None,
        acting: None,
    })
}

#[tokio::test]
async fn hostile_texts_are_cleaned_in_errors() {
    let session = untouched();
    let hostile = "\u{1b}[31m\u{202e}evil\n";
    for (tool, params) in [
        (hostile, json!({})),
        ("get_price", json!({hostile: "x"})),
        ("swap_tokens", json!({"token_in": "WETH", "token_out": "USDC", "amount": hostile})),
        ("swap_tokens", json!({"token_in": "WETH", "token_out": "USDC", "amount": "1", "protocol": hostile})),
        ("compile_intent", json!({"intent_type": hostile, "params": {}})),
        ("get_lp_position", json!({"position_id": "1", "network": hostile})),
    ] {
        let response = session.call(tool, input(params.clone())).await;
        let shown = serde_json::to_string(&response).unwrap();
        let error = response.error.unwrap();
        let is_clean = |text: &str| !text.chars().any(|c| c.is_control() || c == '\u{202e}');
        assert!(is_clean(&error.message) && is_clean(error.suggestion.as_deref().unwrap()), "{params}: {shown}");
    }
}

/// Errors have Almanak's seven codes and the way it sorts them, and only failed and blocked calls have one.
#[test]
fn every_native_error_has_one_of_almanaks_codes() {
    // Code, recoverable (document 001), category of almanak 2.29.2.
    let known = [
        ("validation_error", true, "non_retryable"),
        ("risk_blocked", false, "policy_violation"),
        ("simulation_failed", true, "retryable"),
        ("timeout", true, "retryable"),
        ("upstream_unavailable", true, "retryable"),
        ("permission_denied", false, "policy_violation"),
        ("execution_failed", false, "non_retryable"),
    ];
    for native in ErrorCode::ALL {
        for status in CallStatus::ALL {
            let error = ToolError::new(*native, "x");
            let call_id = bardo_base::id::CallId::new(1);
            let answer =
                DialectResponse::of("get_price", "get_token_price", ToolResponse::failed(call_id, status, error), None);
            let shown = json!(answer);
            let fields: Vec<&String> = shown.as_object().unwrap().keys().collect();
            assert_eq!(fields, ["data", "decision_hints", "error", "explanation", "status"]);
            assert_eq!(shown["decision_hints"]["native_error"]["code"], native.as_str());
            match status {
                CallStatus::Error | CallStatus::Blocked => {
                    let error = &shown["error"];
                    let found = (
                        error["error_code"].as_str().unwrap(),
                        error["recoverable"].as_bool().unwrap(),
                        error["error_category"].as_str().unwrap(),
                    );
                    assert!(known.contains(&found), "{native}: {found:?}");
                }
                _ => assert!(shown["error"].is_null()),
            }
        }
    }
}

/// On the devnet without an account, every read answers in the form of the table.
#[tokio::test]
async fn the_reads_answer_on_the_devnet() {
    let tools = ExecutorTools::new(on_devnet(0), ToolCall::new("", ToolInput::Text(String::new())));
    let session = AlmanakSession::new(Arc::new(tools));
    let ask = async |tool: &str, params: Value| {
        let response = session.call(tool, input(params)).await;
        assert_eq!(response.status, CallStatus::Success, "{tool}: {response:#?}");
        response.data.unwrap()
    };
    let price = ask("get_price", json!({"token": "WETH"})).await;
    // The devnet's market begins at 3,400 dollars and stays near it.
    let dollars = price["price_usd"].as_f64().unwrap();
    assert!((3_200.0..3_600.0).contains(&dollars) && price["token"] == "WETH", "{price}");
    let balance = ask("get_balance", json!({"token": "WETH"})).await;
    let batch = ask("batch_get_balances", json!({"tokens": ["USDC", "WETH"]})).await;
    assert_eq!(batch["balances"][1], balance);
    assert_eq!(batch["balances"][0]["token"], "USDC");
    let pool = ask("get_pool_state", json!({"token_a": "WETH", "token_b": "USDC", "fee_tier": 3000})).await;
    assert_eq!((&pool["fee_tier"], &pool["fee_tier_source"]), (&json!(3000), &json!("explicit")));
    // The price of the pool does not depend on the order of the call.
    let turned = ask("get_pool_state", json!({"token_a": "USDC", "token_b": "WETH", "fee_tier": 3000})).await;
    assert_eq!(turned, pool);
    let (sweep, address) =
        (ask("get_pool_state", json!({"token_a": "WETH", "token_b": "USDC"})).await, &pool["pool_address"]);
    assert_eq!(sweep["fee_tier_source"], "sweep");
    let resolved = ask("resolve_pool_address", json!({"address": address})).await;
    assert_eq!((&resolved["kind"], &resolved["protocol"]), (&json!("pool"), &json!("uniswap_v3")));
    assert!(resolved["token0"].as_str().unwrap().to_lowercase() < resolved["token1"].as_str().unwrap().to_lowercase());
    let stranger = ask("resolve_pool_address", json!({"address": STRANGER})).await;
    assert_eq!((&stranger["kind"], &stranger["factory_verified"]), (&json!("unknown"), &json!("unverified")));
    let listed = ask("list_token_pools", json!({"token": "WETH", "quote_token": "USDC", "limit": 1})).await;
    assert_eq!((listed["count"].as_u64(), listed["has_more"].as_bool()), (Some(1), Some(true)), "{listed}");
    assert_ne!(listed["pools"][0]["reserve_usd"], "");
    let rich =
        ask("list_token_pools", json!({"token": "WETH", "quote_token": "USDC", "min_liquidity_usd": 1e15})).await;
    assert_eq!(
        (rich["matched_count"].as_u64(), rich["unfiltered_count"].as_u64() > Some(1)),
        (Some(0), true),
        "{rich}"
    );
    let token = ask("resolve_token", json!({"token": "usdc"})).await;
    assert_eq!((&token["symbol"], &token["decimals"]), (&json!("USDC"), &json!(6)));
    let reserves = ask("list_lending_reserves", json!({"asset": "WETH"})).await;
    assert_eq!((reserves["count"].as_u64(), &reserves["reserves"][0]["symbol"]), (Some(1), &json!("WETH")));
    let lending = ask("list_lending_positions", json!({})).await;
    assert_eq!(lending["health_factor"], "∞");
    for (protocol, supported) in [("uniswap_v3", true), ("Aave-V3", true), ("curve", false)] {
        let found = ask("check_protocol_support", json!({"protocol": protocol, "chain": "ethereum"})).await;
        assert_eq!(found["supported"], supported, "{found}");
    }
    let missing = session.call("resolve_token", input(json!({"token": "NOPE"}))).await;
    assert_eq!(code(&missing), "validation_error");
}
