//! `get_transaction`: what a transaction did, from its receipt and, where the endpoint offers one, its call trace.

use std::collections::BTreeMap;

use alloy::consensus::Transaction as _;
use alloy::network::TransactionResponse as _;
use alloy::primitives::{Address, B256, I256, Log, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionReceipt;
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply};
use crate::orders::hash;
use crate::shared::explorer_url;
use bardo_abi::erc20::{Erc20, Weth9};
use bardo_abi::multicall3::Multicall3;
use bardo_abi::permit2::Permit2;
use bardo_abi::uniswap_v2::{UniswapV2Factory, UniswapV2Pair, UniswapV2Router02};
use bardo_abi::uniswap_v3::{NonfungiblePositionManager, SwapRouter02, UniswapV3Factory, UniswapV3Pool};
use bardo_abi::uniswap_v4::{PoolManager, PoolTrader, PositionManager};
use bardo_abi::uniswapx::Reactor;
use bardo_abi::universal_router::UniversalRouter;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::network::KnownContract;
use golem_chain::provider::ProviderError;
use golem_chain::token::{self, TokenInfo};

/// Definition of the `get_transaction` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetTransaction>();

/// Maximum number of listed calls, events and balance changes, per list.
const MOST_ROWS: usize = 100;

/// Maximum depth of calls that is followed; the chain's own limit is 1,024.
const MOST_DEPTH: usize = 64;

/// Maximum length of a text from an endpoint, in characters.
const MOST_TEXT: usize = 200;

/// Parameters of `get_transaction`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Hash of the transaction: 0x and 64 hexadecimal digits.
    tx_hash: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Result of `get_transaction`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Hash of the transaction.
    tx_hash: String,
    /// Outcome: `success`, `reverted` or `pending`.
    status: &'static str,
    /// Number of its block; absent while pending.
    block_number: Option<u64>,
    /// Timestamp of its block, in seconds since the Unix epoch; absent while pending.
    block_timestamp: Option<u64>,
    /// Address of the sender.
    from: String,
    /// Address that is called; absent for a contract creation.
    to: Option<String>,
    /// Name of that address in the address book; absent for an unknown one.
    to_label: Option<String>,
    /// Address of the created contract, if any.
    created: Option<String>,
    /// Function that is called, if it is a known one; otherwise its four-byte selector. Absent for a plain transfer.
    function: Option<String>,
    /// Native tokens sent with the call, in whole tokens.
    value: String,
    /// Nonce of the sender.
    nonce: u64,
    /// Gas used, in gas units; absent while pending.
    gas_used: Option<u64>,
    /// Cost of the gas in whole native tokens, with the data fee of a rollup where the receipt names it; absent while
    /// pending.
    cost: Option<String>,
    /// The same in dollars at the present price; absent without a price. For display.
    cost_usd: Option<String>,
    /// Changed balances by the tokens' own events and the traced transfers of the native token, the sender's first.
    /// Gas is not included.
    balances: Vec<BalanceMoved>,
    /// Events in order.
    events: Vec<EventRow>,
    /// Calls in order, each with its depth; empty without a trace.
    calls: Vec<CallRow>,
    /// True if the endpoint traced the transaction. Without a trace, transfers of the native token between contracts
    /// are missing from the balances.
    traced: bool,
    /// True if the lists above are not cut.
    complete: bool,
    /// URL of the transaction.
    explorer_url: String,
}

/// Balance change of one account.
#[derive(Debug, Serialize, JsonSchema)]
struct BalanceMoved {
    /// Address of the holder.
    account: String,
    /// Name of the holder in the address book; absent for an unknown one.
    account_label: Option<String>,
    /// Symbol of the native or a listed token; otherwise its address.
    token: String,
    /// Signed change in whole tokens; in raw units if the decimals are unknown.
    change: String,
}

/// Event of the transaction, decoded where its signature is known.
#[derive(Debug, Serialize, JsonSchema)]
struct EventRow {
    /// Address of the contract.
    contract: String,
    /// Name of the contract in the address book; absent for an unknown one.
    contract_label: Option<String>,
    /// Signature of a known event; otherwise its first topic.
    event: String,
    /// Fields of an event that is decoded; amounts in raw units.
    fields: BTreeMap<&'static str, String>,
}

/// Call of the trace.
#[derive(Debug, Serialize, JsonSchema)]
struct CallRow {
    /// Depth below the transaction's own call, which has depth 0.
    depth: usize,
    /// Kind of the call, such as `CALL`, `DELEGATECALL` or `CREATE`.
    kind: String,
    /// Address that is called or created.
    to: String,
    /// Name of that address in the address book; absent for an unknown one.
    to_label: Option<String>,
    /// Function that is called, if it is a known one; otherwise its selector. Absent for a plain transfer.
    function: Option<String>,
    /// Native tokens sent with the call, in whole tokens; absent if none.
    value: Option<String>,
    /// Gas used, in gas units.
    gas_used: u64,
    /// Reason of a failure; absent after success.
    error: Option<String>,
}

/// Frame of go-ethereum's `callTracer`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TraceFrame {
    #[serde(rename = "type")]
    kind: String,
    from: Address,
    #[serde(default)]
    to: Option<Address>,
    #[serde(default)]
    value: Option<U256>,
    #[serde(default)]
    gas_used: U256,
    #[serde(default)]
    input: alloy::primitives::Bytes,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    revert_reason: Option<String>,
    #[serde(default)]
    calls: Vec<TraceFrame>,
}

/// Implementation of `get_transaction`; see [`TOOL_DEF`].
pub struct GetTransaction;

impl ReadTool for GetTransaction {
    const META: ToolMeta = ToolMeta {
        name: "get_transaction",
        description: "Shows what a transaction did: status, decoded call, call tree where the endpoint traces, balance \
                      changes of every account, events and cost.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading the transaction", "Tracing calls", "Decoding changes"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "What a transaction did: balance changes, events, calls and cost. Use it to find out why one \
                         failed or what it really paid.",
        prompt_guidelines: Guidelines {
            thriving: "Read it after a trade whose result surprises you.",
            cautious: "Read it after every trade.",
            declining: "Read it where an exit reverted, before trying again.",
            terminal: "Use only for an exit that reverted.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["tx_hash", "chain"],
        summary_fields: &["status", "block_number", "cost"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"tx_hash": format!("0x{}", "00".repeat(32)), "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let hash = hash(&params.tx_hash, "tx_hash")?;
        context.step("Reading the transaction");
        let provider = chain.client.agreed();
        let (sent, receipt) = futures::join!(
            provider.get_transaction_by_hash(hash).into_future(),
            provider.get_transaction_receipt(hash).into_future()
        );
        let (sent, receipt) = (sent.map_err(ProviderError::from)?, receipt.map_err(ProviderError::from)?);
        let Some(sent) = sent else {
            let what = format_args!("parameter `tx_hash`: {} has no transaction {hash}", chain.network());
            return Err(ToolError::new(ErrorCode::ValidationFailed, what).detail("parameter", "tx_hash"));
        };
        context.step("Tracing calls");
        let (trace, time) = match &receipt {
            Some(receipt) => futures::join!(trace(chain, hash), time_of(chain, receipt)),
            None => (None, None),
        };
        context.step("Decoding changes");
        let moves = moves(chain, &sent, receipt.as_ref(), trace.as_ref());
        let (names, price) = futures::join!(names(chain, &moves), native_price(chain));
        let mut balances = rows_of(chain, &moves, &names?, sent.from());
        let (logs, mut calls) = (receipt.as_ref().map_or(&[][..], |receipt| receipt.logs()), Vec::new());
        if let Some(trace) = &trace {
            flatten(chain, trace, 0, &mut calls);
        }
        let complete = [balances.len(), logs.len(), calls.len()].into_iter().all(|rows| rows <= MOST_ROWS);
        balances.truncate(MOST_ROWS);
        calls.truncate(MOST_ROWS);
        let cost = receipt.as_ref().map(|receipt| TokenAmount::ether(cost_of(receipt)));
        let status = match &receipt {
            None => "pending",
            Some(receipt) if receipt.status() => "success",
            Some(_) => "reverted",
        };
        let label = |address: Address| chain.network().book.name_of(address);
        let value = |cost: TokenAmount| Some(Usd::value_of(cost, price?, Rounding::Up).ok()?.to_string());
        let output = Output {
            chain: chain.network().name.clone(),
            tx_hash: hash.to_string(),
            status,
            block_number: receipt.as_ref().and_then(|receipt| receipt.block_number),
            block_timestamp: time,
            from: sent.from().to_string(),
            to: sent.to().map(|to| to.to_string()),
            to_label: sent.to().and_then(label),
            created: receipt.as_ref().and_then(|receipt| receipt.contract_address).map(|at| at.to_string()),
            function: sent.to().and_then(|_| function_of(sent.input())),
            value: TokenAmount::ether(sent.value()).to_string(),
            nonce: sent.nonce(),
            gas_used: receipt.as_ref().map(|receipt| receipt.gas_used),
            cost: cost.map(|cost| cost.to_string()),
            cost_usd: cost.and_then(value),
            balances,
            events: logs.iter().take(MOST_ROWS).map(|log| event_row(chain, &log.inner)).collect(),
            calls,
            traced: trace.is_some(),
            complete,
            explorer_url: explorer_url(chain.network(), &hash),
        };
        let explanation = summary(&output, chain.network().native_symbol);
        Ok(ToolReply::new(output, explanation))
    }
}

/// Describes the outcome and the sender's changes in a few sentences.
fn summary(output: &Output, native: &str) -> String {
    let mut told = match (output.status, &output.cost) {
        ("success", Some(cost)) => format!("The transaction succeeded and cost {cost} {native}."),
        ("reverted", Some(cost)) => format!("The transaction reverted and cost {cost} {native}."),
        _ => "The transaction is pending.".to_owned(),
    };
    for moved in output.balances.iter().filter(|moved| moved.account == output.from) {
        told.push_str(&format!(" {} {}.", moved.change, moved.token));
    }
    if !output.traced && output.status != "pending" {
        told.push_str(" The endpoint offers no trace, so internal transfers of the native token are not listed.");
    }
    told
}

/// Call tree of a transaction; `None` if the endpoint does not offer one or its answer is invalid.
async fn trace(chain: &ConnectedChain, hash: B256) -> Option<TraceFrame> {
    let options = (hash, json!({ "tracer": "callTracer" }));
    let answer: Result<Value, _> = chain.client.agreed().raw_request("debug_traceTransaction".into(), options).await;
    serde_json::from_value(answer.ok()?).ok()
}

async fn time_of(chain: &ConnectedChain, receipt: &TransactionReceipt) -> Option<u64> {
    let block = receipt.block_hash?;
    let block = chain.client.agreed().get_block_by_hash(block).await.ok()??;
    Some(block.header.timestamp)
}

async fn native_price(chain: &ConnectedChain) -> Option<Usd> {
    let wrapped = chain.network().book.contract(KnownContract::WrappedNative)?;
    let reports = chain.prices.prices(&[wrapped]).await;
    Some(reports.first()?.price.as_ref()?.usd)
}

/// Cost of a transaction in wei, with the data fee of a rollup.
fn cost_of(receipt: &TransactionReceipt) -> U256 {
    let gas = U256::from(receipt.gas_used).saturating_mul(U256::from(receipt.effective_gas_price));
    let fields = serde_json::to_value(receipt).unwrap_or_default();
    let data_fee = fields.get("l1Fee").and_then(Value::as_str).and_then(|fee| fee.parse::<U256>().ok());
    gas.saturating_add(data_fee.unwrap_or_default())
}

/// Net change of each account's balance of each token, in raw units; `None` as a token is the native one. An amount
/// beyond 255 bits can only come from a dishonest token, and counts as the largest.
type Moves = BTreeMap<(Address, Option<Address>), I256>;

fn moves(
    chain: &ConnectedChain,
    sent: &alloy::rpc::types::Transaction,
    receipt: Option<&TransactionReceipt>,
    trace: Option<&TraceFrame>,
) -> Moves {
    let mut moves = Moves::new();
    let Some(receipt) = receipt else { return moves };
    let mut shift = |account: Address, token: Option<Address>, amount: U256, gains: bool| {
        let amount = I256::try_from(amount).unwrap_or(I256::MAX);
        let sum = moves.entry((account, token)).or_default();
        *sum = if gains { sum.saturating_add(amount) } else { sum.saturating_sub(amount) };
    };
    let wrapped = chain.network().book.contract(KnownContract::WrappedNative);
    for log in receipt.logs().iter().map(|log| &log.inner) {
        let token = Some(log.address);
        if let Ok(moved) = Erc20::Transfer::decode_log(log) {
            shift(moved.data.from, token, moved.data.value, false);
            shift(moved.data.to, token, moved.data.value, true);
        } else if token != wrapped {
        } else if let Ok(deposit) = Weth9::Deposit::decode_log(log) {
            shift(deposit.data.dst, token, deposit.data.wad, true);
        } else if let Ok(withdrawal) = Weth9::Withdrawal::decode_log(log) {
            shift(withdrawal.data.src, token, withdrawal.data.wad, false);
        }
    }
    match trace {
        Some(trace) => native_moves(trace, 0, &mut shift),
        None if receipt.status() => {
            shift(sent.from(), None, sent.value(), false);
            if let Some(to) = sent.to().or(receipt.contract_address) {
                shift(to, None, sent.value(), true);
            }
        }
        None => {}
    }
    moves.retain(|(account, _), sum| !sum.is_zero() && !account.is_zero());
    moves
}

/// Adds the transfers of the native token in a frame and in those below it; a failed frame moves nothing.
fn native_moves(frame: &TraceFrame, depth: usize, shift: &mut impl FnMut(Address, Option<Address>, U256, bool)) {
    if frame.error.is_some() || depth > MOST_DEPTH {
        return;
    }
    // Other kinds of call repeat a value that the call above them has moved.
    let moves_value = matches!(frame.kind.as_str(), "CALL" | "CREATE" | "CREATE2" | "SELFDESTRUCT");
    if let (true, Some(value), Some(to)) = (moves_value, frame.value, frame.to) {
        shift(frame.from, None, value, false);
        shift(to, None, value, true);
    }
    frame.calls.iter().for_each(|call| native_moves(call, depth + 1, shift));
}

/// Tokens of the moves, if their contracts answer as tokens.
async fn names(chain: &ConnectedChain, moves: &Moves) -> Result<BTreeMap<Address, TokenInfo>, ToolError> {
    let mut tokens: Vec<Address> = moves.keys().filter_map(|(_, token)| *token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    tokens.truncate(MOST_ROWS);
    if tokens.is_empty() {
        return Ok(BTreeMap::new());
    }
    let read = token::read(&tokens, chain.network(), chain.client.agreed()).await?;
    Ok(tokens.into_iter().zip(read).filter_map(|(at, token)| Some((at, token.ok()?))).collect())
}

fn rows_of(
    chain: &ConnectedChain,
    moves: &Moves,
    names: &BTreeMap<Address, TokenInfo>,
    from: Address,
) -> Vec<BalanceMoved> {
    let network = chain.network();
    let mut rows: Vec<(bool, BalanceMoved)> = moves
        .iter()
        .map(|((account, token), sum)| {
            let info = token.and_then(|token| names.get(&token));
            let decimals = if token.is_none() { Some(18) } else { info.map(|info| info.decimals) };
            let raw = sum.unsigned_abs();
            let whole = decimals.and_then(|decimals| TokenAmount::new(raw, decimals).ok());
            let shown = whole.map_or_else(|| raw.to_string(), |amount| amount.to_string());
            let row = BalanceMoved {
                account: account.to_string(),
                account_label: network.book.name_of(*account),
                token: match (token, info) {
                    (None, _) => network.native_symbol.to_owned(),
                    (Some(_), Some(info)) if info.listed => info.symbol.to_string(),
                    (Some(token), _) => token.to_string(),
                },
                change: format!("{}{shown}", if sum.is_negative() { "-" } else { "+" }),
            };
            (*account != from, row)
        })
        .collect();
    rows.sort_by_key(|(other, _)| *other);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Appends a frame and those below it in the order of execution, up to the limits.
fn flatten(chain: &ConnectedChain, frame: &TraceFrame, depth: usize, calls: &mut Vec<CallRow>) {
    // One more than is shown, so that the cut can be reported.
    if depth > MOST_DEPTH || calls.len() > MOST_ROWS {
        return;
    }
    let cleaned = |text: &String| SafeText::clean(text, MOST_TEXT).to_string();
    let creates = frame.kind.starts_with("CREATE");
    let value = frame.value.filter(|value| !value.is_zero() && frame.kind != "DELEGATECALL");
    calls.push(CallRow {
        depth,
        kind: cleaned(&frame.kind),
        to: frame.to.unwrap_or_default().to_string(),
        to_label: frame.to.and_then(|to| chain.network().book.name_of(to)),
        function: if creates { None } else { function_of(&frame.input) },
        value: value.map(|value| TokenAmount::ether(value).to_string()),
        gas_used: frame.gas_used.saturating_to(),
        error: frame.revert_reason.as_ref().or(frame.error.as_ref()).map(cleaned),
    });
    frame.calls.iter().for_each(|call| flatten(chain, call, depth + 1, calls));
}

/// Signature of a known function, or the selector; `None` without calldata.
fn function_of(input: &[u8]) -> Option<String> {
    let selector = *input.first_chunk::<4>()?;
    let known = [
        Erc20::Erc20Calls::signature_by_selector(selector),
        Weth9::Weth9Calls::signature_by_selector(selector),
        Permit2::Permit2Calls::signature_by_selector(selector),
        UniversalRouter::UniversalRouterCalls::signature_by_selector(selector),
        SwapRouter02::SwapRouter02Calls::signature_by_selector(selector),
        UniswapV2Router02::UniswapV2Router02Calls::signature_by_selector(selector),
        UniswapV2Pair::UniswapV2PairCalls::signature_by_selector(selector),
        UniswapV2Factory::UniswapV2FactoryCalls::signature_by_selector(selector),
        UniswapV3Pool::UniswapV3PoolCalls::signature_by_selector(selector),
        UniswapV3Factory::UniswapV3FactoryCalls::signature_by_selector(selector),
        NonfungiblePositionManager::NonfungiblePositionManagerCalls::signature_by_selector(selector),
        PoolManager::PoolManagerCalls::signature_by_selector(selector),
        PositionManager::PositionManagerCalls::signature_by_selector(selector),
        PoolTrader::PoolTraderCalls::signature_by_selector(selector),
        Reactor::ReactorCalls::signature_by_selector(selector),
        Multicall3::Multicall3Calls::signature_by_selector(selector),
    ];
    let name = known.into_iter().flatten().next();
    Some(name.map_or_else(|| alloy::hex::encode_prefixed(selector), str::to_owned))
}

fn event_row(chain: &ConnectedChain, log: &Log) -> EventRow {
    let (event, fields) = decode(log);
    EventRow {
        contract: log.address.to_string(),
        contract_label: chain.network().book.name_of(log.address),
        event,
        fields,
    }
}

/// Signature and fields of a known event; otherwise its first topic.
fn decode(log: &Log) -> (String, BTreeMap<&'static str, String>) {
    macro_rules! known {
        ($($event:ty { $($field:ident),+ }),+ $(,)?) => {
            $(if let Ok(found) = <$event>::decode_log(log) {
                let fields = BTreeMap::from([$((stringify!($field), found.data.$field.to_string())),+]);
                return (<$event>::SIGNATURE.to_owned(), fields);
            })+
        };
    }
    known! {
        Erc20::Transfer { from, to, value },
        Erc20::Approval { owner, spender, value },
        Weth9::Deposit { dst, wad },
        Weth9::Withdrawal { src, wad },
        Permit2::Approval { owner, token, spender, amount, expiration },
        Permit2::Permit { owner, token, spender, amount, expiration, nonce },
        Permit2::Lockdown { owner, token, spender },
        UniswapV2Pair::Swap { sender, amount0In, amount1In, amount0Out, amount1Out, to },
        UniswapV2Pair::Sync { reserve0, reserve1 },
        UniswapV3Pool::Swap { sender, recipient, amount0, amount1, sqrtPriceX96, liquidity, tick },
        UniswapV3Pool::Mint { owner, tickLower, tickUpper, amount, amount0, amount1 },
        UniswapV3Pool::Burn { owner, tickLower, tickUpper, amount, amount0, amount1 },
        PoolManager::Swap { id, sender, amount0, amount1, sqrtPriceX96, liquidity, tick, fee },
        PoolManager::ModifyLiquidity { id, sender, tickLower, tickUpper, liquidityDelta },
        Reactor::Fill { orderHash, filler, swapper, nonce },
    }
    let topic = log.topics().first().map_or_else(|| "anonymous".to_owned(), |topic| topic.to_string());
    (topic, BTreeMap::new())
}
