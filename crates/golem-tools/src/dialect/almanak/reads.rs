//! Translation of the data tools. A figure that Bardo does not measure is an empty text or absent, never zero.

use std::collections::BTreeMap;

use alloy::primitives::Address;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::super::Arguments;
use super::{AlmanakSession, Answer, Failure, Outcome, text_or_null};
use crate::engine::{CallStatus, ConnectedChain, ToolResponse};
use crate::shared::{contract_of, invalid};
use bardo_base::contracts::KnownContract;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::positions::PositionContracts;

/// RSI above which a token counts as overbought, and below which as oversold (J. Welles Wilder, New Concepts in Technical
/// Trading Systems, 1978).
const RSI_LIMITS: [f64; 2] = [70.0, 30.0];
/// Largest number of intervals that `get_risk_metrics` reads.
const MOST_INTERVALS: u64 = 500;
/// Most pools that `list_pools` lists.
const MOST_POOLS: usize = 50;
/// Address that stands for the native token in many interfaces; it has no contract.
const NATIVE_ADDRESS: &str = "0xEeeeeEeeeEeEeeEeEeEeeEEEeeeeEeeeeeeeEEeE";

/// Data of a response, as an object.
fn data(response: &ToolResponse) -> &Value {
    response.data.as_ref().unwrap_or(&Value::Null)
}

fn rows<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Text of a value: itself, a number's digits, or nothing for null.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The figure of a decimal text as a number, for display; null if it is none.
fn number(value: &Value) -> Value {
    value.as_str().and_then(|text| text.parse::<f64>().ok()).map_or(Value::Null, Value::from)
}

/// Basis points of a decimal text in percent; null if it is none.
fn points(percent: &Value) -> Value {
    // A fixed point number of two decimals, whatever it is a number of.
    let percent = percent.as_str().and_then(|text| text.parse::<Usd>().ok());
    percent.and_then(|percent| u64::try_from(percent.scaled(2, Rounding::Down)?).ok()).map_or(Value::Null, Value::from)
}

/// Name of a Uniswap version in the dialect: `uniswap_v3` for `V3`.
fn protocol_of(version: &Value) -> String {
    format!("uniswap_{}", shown(version).to_lowercase())
}

/// A protocol's name as the dialect's capability tables have it.
pub(super) fn protocol_key(named: &str) -> String {
    named.trim().to_ascii_lowercase().replace(['-', ' '], "_")
}

/// Refuses a protocol that is not among `known`.
pub(super) fn known_protocol<'k>(arguments: &Arguments, known: &'k [&'k str]) -> Result<&'k str, ToolError> {
    let asked = protocol_key(arguments.text("protocol"));
    known.iter().copied().find(|one| *one == asked).ok_or_else(|| {
        let shown = SafeText::clean(&asked, 40);
        invalid("protocol", &format_args!("Bardo has no tool for {shown} here; it has {}", known.join(", ")))
    })
}

pub(super) fn get_price<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let asked = [("token", arguments.value("token")), ("chain", arguments.value("chain"))];
        let response = session.ask("get_token_price", asked).await?;
        let found = data(&response);
        let result = json!({
            "token": arguments.text("token"), "price_usd": number(&found["price_usd"]), "source": found["source"],
            "timestamp": shown(&found["observed_at"]), "change_24h_pct": null, "high_24h": null, "low_24h": null,
        });
        // The number is for display; the exact price is a text.
        let exact = found["price_usd"].clone();
        Ok(Answer::new("get_token_price", response, result).hint("price_usd", exact))
    })
}

/// Reads balances of `tokens`; the rows of the answer in the order of the request.
async fn balances(
    session: &AlmanakSession,
    arguments: &Arguments,
    tokens: &[&str],
) -> Result<(ToolResponse, Vec<Value>), Failure> {
    let asked = [
        ("chain", arguments.value("chain")),
        ("tokens", json!(tokens)),
        ("account", text_or_null(arguments.some_text("wallet_address"))),
    ];
    let response = session.ask("get_balances", asked).await?;
    let chains = rows(data(&response), "chains");
    let found = chains.first().map_or(&[][..], |chain| rows(chain, "balances"));
    if found.len() != tokens.len() {
        let what = format_args!("{} balances were read, and {} were asked for", found.len(), tokens.len());
        return Err(invalid("tokens", &what).into());
    }
    let balances = tokens
        .iter()
        .zip(found)
        .map(|(token, row)| json!({"token": token, "balance": row["amount"], "balance_usd": shown(&row["value_usd"])}));
    let balances = balances.collect();
    Ok((response, balances))
}

pub(super) fn get_balance<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let (response, mut balances) = balances(session, arguments, &[arguments.text("token")]).await?;
        Ok(Answer::new("get_balances", response, balances.pop().unwrap_or_default()))
    })
}

pub(super) fn batch_get_balances<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let tokens = arguments.texts("tokens");
        if tokens.is_empty() {
            return Err(invalid("tokens", &"name at least one token").into());
        }
        let (response, balances) = balances(session, arguments, &tokens).await?;
        let total = data(&response)["total_usd"].clone();
        Ok(Answer::new("get_balances", response, json!({"balances": balances, "total_usd": total})))
    })
}

pub(super) fn get_indicator<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let named = arguments.text("indicator").trim().to_ascii_lowercase();
        let indicator = if named == "bb" { "bollinger" } else { named.as_str() };
        // The periods of MACD are fixed.
        let period = if indicator == "macd" { Value::Null } else { arguments.value("period") };
        let asked = [
            ("token", arguments.value("token")),
            ("indicator", Value::from(indicator)),
            ("period", period),
            ("chain", arguments.value("chain")),
        ];
        let response = session.ask("get_indicator", asked).await?;
        let found = data(&response);
        let value = number(&found["value"]);
        let [above, below] = RSI_LIMITS;
        let signal = match value.as_f64().filter(|_| indicator == "rsi") {
            Some(value) if value > above => json!("overbought"),
            Some(value) if value < below => json!("oversold"),
            Some(_) => json!("neutral"),
            None => Value::Null,
        };
        let names = [
            "quote",
            "interval",
            "signal",
            "histogram",
            "lower",
            "upper",
            "close",
            "as_of",
            "candle_count",
            "swap_count",
            "pool",
        ];
        let extra = names.iter().filter(|name| !found[**name].is_null());
        let extra: Map<String, Value> = extra.map(|name| ((*name).to_owned(), found[*name].clone())).collect();
        let result = json!({"indicator": named, "value": value, "signal": signal, "extra": extra});
        Ok(Answer::new("get_indicator", response, result))
    })
}

/// The two tokens of a pair in the order of a pool: by the address of their contracts. True if that is their given order.
pub(super) async fn in_pool_order(
    chain: &ConnectedChain,
    [a, b]: [&str; 2],
    native_is_zero: bool,
) -> Result<([TokenInfo; 2], bool), ToolError> {
    let (a, b) = futures::try_join!(chain.token(a), chain.token(b))?;
    let place = |token: &TokenInfo| match token.id {
        TokenId::Native if native_is_zero => Ok(Address::ZERO),
        TokenId::Native | TokenId::Erc20(_) => contract_of(chain, token),
    };
    let is_ordered = place(&a)? < place(&b)?;
    Ok(([a, b], is_ordered))
}

pub(super) fn get_pool_state<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let protocol = known_protocol(arguments, &["uniswap_v3", "uniswap_v2", "uniswap_v4"])?;
        let chain = session.chain(arguments, "chain")?;
        let pair = [arguments.text("token_a"), arguments.text("token_b")];
        let (_, is_ordered) = in_pool_order(chain, pair, protocol == "uniswap_v4").await?;
        // All pools of V2 have the same fee.
        let fee = if protocol == "uniswap_v2" { Value::Null } else { arguments.value("fee_tier") };
        let asked = [
            ("token_a", arguments.value("token_a")),
            ("token_b", arguments.value("token_b")),
            ("chain", arguments.value("chain")),
            ("fee_tier", fee.clone()),
        ];
        let response = session.ask("get_pool_info", asked).await?;
        let wanted = arguments.some_text("pool_address");
        let pools = rows(data(&response), "pools");
        let mut of_protocol = pools.iter().filter(|pool| protocol_of(&pool["version"]) == protocol);
        let pool = of_protocol.find(|pool| {
            wanted.is_none_or(|wanted| pool["pool"].as_str().is_some_and(|pool| pool.eq_ignore_ascii_case(wanted)))
        });
        let Some(pool) = pool else {
            let what = format_args!("there is no {protocol} pool of this pair with that fee and address");
            return Err(ToolError::new(ErrorCode::PoolNotFound, what).into());
        };
        // The price of the pool's first token in its second.
        let price = if is_ordered { &pool["price_b_per_a"] } else { &pool["price_a_per_b"] };
        let result = json!({
            "pool_address": pool["pool"], "current_price": shown(price),
            "tick": pool["tick"].as_i64().unwrap_or_default(), "liquidity": shown(&pool["liquidity"]),
            "fee_tier": pool["fee_tier"], "fee_tier_source": if fee.is_null() { "sweep" } else { "explicit" },
            "volume_24h_usd": "", "fee_apr": "", "tvl_usd": shown(&pool["value_usd"]),
        });
        Ok(Answer::new("get_pool_info", response, result))
    })
}

pub(super) fn resolve_pool_address<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let asked = [("pool", arguments.value("address")), ("chain", arguments.value("chain"))];
        let response = match session.ask("list_pools", asked).await {
            Ok(response) => response,
            Err(Failure::Native(tool, mut response)) => {
                let is_none = response.error.as_ref().is_some_and(|error| error.code() == ErrorCode::PoolNotFound);
                if !is_none {
                    return Err(Failure::Native(tool, response));
                }
                // That no factory of Uniswap made it is an answer.
                let said = response.error.take().map(|error| error.message().to_owned()).unwrap_or_default();
                response.status = CallStatus::Success;
                let result = json!({
                    "address": arguments.text("address"), "kind": "unknown", "factory_verified": "unverified",
                    "identified_via": "factory address formula", "notes": [said],
                });
                return Ok(Answer::new("list_pools", *response, result));
            }
            Err(other) => return Err(other),
        };
        let found = rows(data(&response), "pools").first().cloned().unwrap_or_default();
        let chain = session.chain(arguments, "chain")?;
        let pair = [shown(&found["token"]), shown(&found["quote"])];
        let ([a, b], is_ordered) = in_pool_order(chain, [&pair[0], &pair[1]], false).await?;
        let [first, second] = if is_ordered { [a, b] } else { [b, a] };
        let address = |token: &TokenInfo| contract_of(chain, token).map(|address| address.to_string());
        let is_v2 = found["version"] == "V2";
        let result = json!({
            "address": found["pool"], "kind": "pool", "family": if is_v2 { Value::Null } else { json!("clamm") },
            "protocol": protocol_of(&found["version"]), "token0": address(&first)?, "token1": address(&second)?,
            "fee_tier": found["fee_tier"], "lp_token": if is_v2 { found["pool"].clone() } else { Value::Null },
            "factory_verified": "verified", "identified_via": "factory address formula",
            "notes": [format!("the pool pairs {} with {}", first.symbol, second.symbol)],
        });
        Ok(Answer::new("list_pools", response, result))
    })
}

/// Identity of a position in the native tools: the number, of V4 with `v4:` before it.
pub(super) fn position_id(arguments: &Arguments) -> Result<String, ToolError> {
    let named = arguments.text("position_id").trim();
    Ok(match known_protocol(arguments, &["uniswap_v3", "uniswap_v4"])? {
        "uniswap_v4" if !named.starts_with("v4:") => format!("v4:{named}"),
        _ => named.to_owned(),
    })
}

pub(super) fn get_lp_position<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let id = position_id(arguments)?;
        let chain = session.chain(arguments, "chain")?;
        let manager = if id.starts_with("v4:") {
            chain.contract(KnownContract::V4PositionManager)?
        } else {
            chain.contract(KnownContract::V3PositionManager)?
        };
        if let Some(named) = arguments.some_text("position_manager")
            && !named.eq_ignore_ascii_case(&manager.to_string())
        {
            let what = format_args!("the position manager of {} is {manager}", chain.network());
            return Err(invalid("position_manager", &what).into());
        }
        let asked = [("position_id", Value::from(id)), ("chain", arguments.value("chain"))];
        let response = session.ask("get_position", asked).await?;
        let found = rows(data(&response), "positions").first().cloned().unwrap_or_default();
        let result = json!({
            "position_id": arguments.text("position_id"), "position_manager": manager.to_string(),
            "token_a": found["token0"], "token_b": found["token1"], "fee_tier": found["fee_tier"],
            "tick_lower": found["tick_lower"], "tick_upper": found["tick_upper"], "liquidity": found["liquidity"],
            "tokens_owed_a": found["owed"]["amount0"], "tokens_owed_b": found["owed"]["amount1"],
            "in_range": found["in_range"], "current_tick": found["tick"], "fees_a_usd": null, "fees_b_usd": null,
            "total_fees_usd": number(&found["owed_usd"]),
        });
        let value = found["value_usd"].clone();
        Ok(Answer::new("get_position", response, result).hint("value_usd", value))
    })
}

/// Address of a token that a native row names by its symbol, as listed, or by its address.
async fn token_address(
    chain: &ConnectedChain,
    known: &mut BTreeMap<String, String>,
    named: &str,
) -> Result<String, ToolError> {
    if let Some(address) = known.get(named) {
        return Ok(address.clone());
    }
    let address = match named.parse::<Address>() {
        Ok(address) => address,
        Err(_) => contract_of(chain, &chain.token(named).await?)?,
    };
    let address = address.to_string().to_lowercase();
    known.insert(named.to_owned(), address.clone());
    Ok(address)
}

/// Compact rows of positions.
async fn position_rows(chain: &ConnectedChain, found: &[Value]) -> Result<Vec<Value>, ToolError> {
    let mut known = BTreeMap::new();
    let mut listed = Vec::new();
    for one in found {
        let [a, b] = ["token0", "token1"].map(|name| shown(&one[name]));
        let token0 = token_address(chain, &mut known, &a).await?;
        let token1 = token_address(chain, &mut known, &b).await?;
        listed.push(json!({
            "position_id": shown(&one["position_id"]).trim_start_matches("v4:"), "token0": token0, "token1": token1,
            "token0_symbol": a, "token1_symbol": b, "fee_tier": one["fee_tier"], "liquidity": shown(&one["liquidity"]),
        }));
    }
    Ok(listed)
}

pub(super) fn list_lp_positions<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let protocol = known_protocol(arguments, &["uniswap_v3", "uniswap_v4"])?;
        let chain = session.chain(arguments, "chain")?;
        let asked = [
            ("chain", arguments.value("chain")),
            ("account", text_or_null(arguments.some_text("wallet_address"))),
            ("include_empty", arguments.value("include_empty")),
        ];
        let response = session.ask("list_positions", asked).await?;
        let found = data(&response);
        let all = rows(found, "positions").iter().filter(|one| protocol_of(&one["version"]) == protocol);
        let all: Vec<Value> = all.cloned().collect();
        let positions = position_rows(chain, &all).await?;
        let result = json!({
            "chain": found["chain"], "protocol": protocol, "wallet_address": found["account"],
            "count": positions.len(), "positions": positions,
        });
        Ok(Answer::new("list_positions", response, result))
    })
}

/// Loan to value of an account in basis points: Aave lends `collateral · ltv − debt`, so it is known where that is above
/// zero (`calculateAvailableBorrows` of GenericLogic).
fn loan_to_value(found: &Value) -> Option<u64> {
    let usd = |name: &str| found[name].as_str()?.parse::<Usd>().ok();
    let (available, debt, collateral) = (usd("available_to_borrow_usd")?, usd("debt_usd")?, usd("collateral_usd")?);
    if available.is_zero() {
        return None;
    }
    let (lent, collateral) =
        (available.checked_add(debt).ok()?.scaled(8, Rounding::Down)?, collateral.scaled(8, Rounding::Down)?);
    // To the nearest basis point: the figures are rounded to eight digits.
    let points = lent.checked_mul(10_000)?.checked_add(collateral / 2)?.checked_div(collateral)?;
    u64::try_from(points).ok()
}

pub(super) fn list_lending_positions<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let protocol = known_protocol(arguments, &["aave_v3"])?;
        let asked =
            [("chain", arguments.value("chain")), ("account", text_or_null(arguments.some_text("wallet_address")))];
        let response = session.ask("get_lending_position", asked).await?;
        let found = data(&response);
        let health = match &found["health_factor"] {
            Value::Null => "∞".to_owned(),
            factor => shown(factor),
        };
        let mut result = json!({
            "chain": found["chain"], "protocol": protocol, "wallet_address": found["account"],
            "total_collateral_usd": found["collateral_usd"], "total_debt_usd": found["debt_usd"],
            "available_borrows_usd": found["available_to_borrow_usd"],
            "current_liquidation_threshold_bps": points(&found["liquidation_threshold_pct"]), "health_factor": health,
        });
        if let (Some(points), Value::Object(fields)) = (loan_to_value(found), &mut result) {
            fields.insert("ltv_bps".to_owned(), Value::from(points));
        }
        Ok(Answer::new("get_lending_position", response, result))
    })
}

pub(super) fn list_lending_reserves<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let protocol = known_protocol(arguments, &["aave_v3"])?;
        for name in ["collateral", "loan"] {
            if arguments.some_text(name).is_some() {
                return Err(invalid(name, &"Aave has no markets of pairs; leave it out").into());
            }
        }
        let asked = [("chain", arguments.value("chain")), ("token", text_or_null(arguments.some_text("asset")))];
        let response = session.ask("list_lending_reserves", asked).await?;
        let found = data(&response);
        let reserves = rows(found, "reserves").iter().map(|one| {
            let threshold = points(&one["liquidation_threshold_pct"]);
            json!({
                "symbol": one["token"], "address": shown(&one["address"]).to_lowercase(),
                "borrowing_enabled": one["can_borrow"],
                "usage_as_collateral_enabled": threshold.as_i64().map(|points| points > 0),
                "ltv_bps": points(&one["max_ltv_pct"]), "liquidation_threshold_bps": threshold,
                "supply_cap": one["supply_cap"].as_u64().unwrap_or_default(),
                "borrow_cap": one["borrow_cap"].as_u64().unwrap_or_default(),
                "detail": {
                    "supply_apr_pct": shown(&one["supply_apr_pct"]), "borrow_apr_pct": shown(&one["borrow_apr_pct"]),
                    "available": shown(&one["available"]), "can_supply": shown(&one["can_supply"]),
                    "can_exit": shown(&one["can_exit"]), "isolated": shown(&one["isolated"]),
                },
            })
        });
        let reserves: Vec<Value> = reserves.collect();
        let result = json!({
            "schema_version": 1, "chain": found["chain"], "protocol": protocol, "count": reserves.len(),
            "total_matched": reserves.len(), "truncated": false, "truncation_reason": "", "enumeration_source": "live",
            "reserves": reserves,
        });
        Ok(Answer::new("list_lending_reserves", response, result))
    })
}

/// A floor in dollars; `None` for zero.
fn floor(arguments: &Arguments, name: &str) -> Result<Option<Usd>, ToolError> {
    let text = arguments.value(name).to_string();
    let floor = text.parse::<Usd>().map_err(|_| invalid(name, &"expected dollars as plain decimal digits"))?;
    Ok(Some(floor).filter(|floor| !floor.is_zero()))
}

/// True if a figure is known and not below the floor.
fn reaches(figure: &Value, floor: Option<Usd>) -> bool {
    floor.is_none_or(|floor| figure.as_str().and_then(|text| text.parse::<Usd>().ok()).is_some_and(|usd| usd >= floor))
}

pub(super) fn list_token_pools<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let (least_held, least_volume) = (floor(arguments, "min_liquidity_usd")?, floor(arguments, "min_volume_usd")?);
        let by_volume = arguments.text("sort_by") == "volume";
        let quote = arguments.some_text("quote_token");
        let asked = [
            ("token", arguments.value("token")),
            ("quote", text_or_null(quote)),
            ("chain", arguments.value("chain")),
            ("sort_by", Value::from(if by_volume { "volume" } else { "depth" })),
            ("limit", Value::from(MOST_POOLS)),
        ];
        let response = session.ask("list_pools", asked).await?;
        let chain = session.chain(arguments, "chain")?;
        let found = rows(data(&response), "pools");
        // What the pools hold comes from the pair's own tool, once for each other token.
        let mut held: BTreeMap<String, Value> = BTreeMap::new();
        let mut pairs: Vec<&Value> = Vec::new();
        for pool in found {
            if !pairs.contains(&&pool["quote"]) {
                pairs.push(&pool["quote"]);
                let pair = [
                    ("token_a", arguments.value("token")),
                    ("token_b", pool["quote"].clone()),
                    ("chain", arguments.value("chain")),
                ];
                let read = session.ask("get_pool_info", pair).await?;
                let values = rows(data(&read), "pools").iter();
                held.extend(values.map(|one| (shown(&one["pool"]).to_lowercase(), one["value_usd"].clone())));
            }
        }
        let mut known = BTreeMap::new();
        let mut listed: Vec<Value> = Vec::new();
        for pool in found {
            let reserve = held.get(&shown(&pool["pool"]).to_lowercase()).cloned().unwrap_or_default();
            if !reaches(&reserve, least_held) || !reaches(&pool["volume_usd"], least_volume) {
                continue;
            }
            let protocol = protocol_of(&pool["version"]);
            let [base, other] = ["token", "quote"].map(|name| shown(&pool[name]));
            let intents: &[&str] = if pool["version"] == "V2" { &["SWAP"] } else { &["SWAP", "LP_OPEN", "LP_CLOSE"] };
            listed.push(json!({
                "pool_address": pool["pool"], "dex_id": protocol, "name": format!("{base} / {other}"),
                "reserve_usd": shown(&reserve), "volume_24h_usd": shown(&pool["volume_usd"]),
                "base_token_address": token_address(chain, &mut known, &base).await?,
                "quote_token_address": token_address(chain, &mut known, &other).await?,
                "execution_support": "supported", "protocols": [protocol], "supported_intents": intents,
            }));
        }
        if !by_volume {
            let reserve = |pool: &Value| pool["reserve_usd"].as_str().and_then(|text| text.parse::<Usd>().ok());
            listed.sort_by_key(|one| std::cmp::Reverse(reserve(one)));
        }
        let matched = listed.len();
        let offset = usize::try_from(arguments.integer("offset").unwrap_or_default()).unwrap_or(usize::MAX);
        let limit = arguments.integer("limit").and_then(|limit| usize::try_from(limit).ok());
        let page: Vec<Value> = listed.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX)).collect();
        let total = data(&response)["pool_count"].as_u64().unwrap_or_default();
        let floors = |name: &str| if arguments.gives(name) { arguments.value(name).to_string() } else { String::new() };
        let token = contract_of(chain, &chain.token(arguments.text("token")).await?)?.to_string();
        let quote_address = match quote {
            Some(quote) => contract_of(chain, &chain.token(quote).await?)?.to_string(),
            None => String::new(),
        };
        let result = json!({
            "schema_version": 1, "chain": chain.network().name, "token": arguments.text("token"),
            "token_address": token, "count": page.len(), "source": "uniswap contracts",
            // Without the other token, only the usual ones are looked through.
            "complete": quote.is_some() && total <= u64::try_from(found.len()).unwrap_or(u64::MAX),
            "product_distinct_dex_id": true, "venue_support_complete": true,
            "supported_pool_protocols": ["uniswap_v2", "uniswap_v3", "uniswap_v4"],
            "has_more": offset.saturating_add(page.len()) < matched, "pools": page,
            "unfiltered_count": total, "matched_count": matched, "sort_by": arguments.text("sort_by"),
            "quote_token_address": quote_address, "min_liquidity_usd": floors("min_liquidity_usd"),
            "min_volume_usd": floors("min_volume_usd"), "offset": offset, "limit": arguments.value("limit"),
        });
        Ok(Answer::new("list_pools", response, result))
    })
}

/// Reads the portfolio of an account on one chain.
async fn portfolio(session: &AlmanakSession, arguments: &Arguments) -> Result<ToolResponse, Failure> {
    let asked = [("chain", arguments.value("chain")), ("account", text_or_null(arguments.some_text("wallet_address")))];
    session.ask("get_portfolio", asked).await
}

pub(super) fn get_portfolio<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let response = portfolio(session, arguments).await?;
        let chain = session.chain(arguments, "chain")?;
        let found = data(&response);
        let held = rows(found, "chains").first().cloned().unwrap_or_default();
        let all = rows(&held, "balances");
        let is_native = |row: &&Value| row["address"].is_null();
        let native = all.iter().find(is_native);
        let wanted = arguments.texts("tokens");
        let names = |row: &Value, token: &str| {
            [&row["token"], &row["address"]].iter().any(|name| shown(name).eq_ignore_ascii_case(token))
        };
        let described = |row: &Value| json!({"token": row["token"], "balance": row["amount"], "balance_usd": shown(&row["value_usd"])});
        let mut balances: Vec<Value> = all
            .iter()
            .filter(|row| !is_native(row) && (wanted.is_empty() || wanted.iter().any(|token| names(row, token))))
            .map(described)
            .collect();
        let others: Vec<&str> =
            wanted.iter().copied().filter(|token| !all.iter().any(|row| names(row, token))).collect();
        if !others.is_empty() {
            balances.extend(self::balances(session, arguments, &others).await?.1);
        }
        let lending = rows(found, "lending").first().map(|one| {
            json!({
                "total_collateral_usd": one["supplied_usd"], "total_debt_usd": one["debt_usd"],
                "health_factor": match &one["health_factor"] { Value::Null => "∞".to_owned(), factor => shown(factor) },
            })
        });
        let result = json!({
            "chain": chain.network().name, "wallet_address": found["account"],
            "native_balance": native.map(|row| shown(&row["amount"])).unwrap_or_default(),
            "native_symbol": chain.network().native_symbol, "token_balances": balances,
            "lp_positions": position_rows(chain, rows(found, "positions")).await?, "lending": lending,
        });
        let total = found["total_usd"].clone();
        Ok(Answer::new("get_portfolio", response, result).hint("total_usd", total))
    })
}

pub(super) fn get_wallet_overview<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let least = floor(arguments, "min_balance_usd")?;
        let response = portfolio(session, arguments).await?;
        let found = data(&response);
        let held = rows(found, "chains").first().cloned().unwrap_or_default();
        let all = rows(&held, "balances");
        let extra = arguments.texts("extra_tokens");
        let extra: Vec<&str> = extra
            .into_iter()
            .filter(|token| !all.iter().any(|row| shown(&row["token"]).eq_ignore_ascii_case(token)))
            .collect();
        let mut tokens: Vec<Value> = all
            .iter()
            .map(|row| json!({"symbol": row["token"], "balance": row["amount"], "balance_usd": shown(&row["value_usd"])}))
            .collect();
        if !extra.is_empty() {
            let more = balances(session, arguments, &extra).await?.1;
            tokens.extend(more.into_iter().map(
                |row| json!({"symbol": row["token"], "balance": row["balance"], "balance_usd": row["balance_usd"]}),
            ));
        }
        // A token without a price may be worth anything.
        let counts = |row: &Value| match row["balance_usd"].as_str() {
            Some("") | None => shown(&row["balance"]) != "0",
            Some(_) => reaches(&row["balance_usd"], least),
        };
        tokens.retain(counts);
        let values = tokens.iter().filter_map(|row| row["balance_usd"].as_str()?.parse::<Usd>().ok());
        let total = values.fold(Usd::ZERO, |sum, value| sum.checked_add(value).unwrap_or(sum));
        let result = json!({
            "wallet_address": found["account"], "chain": held["chain"], "tokens": tokens, "total_usd": total.to_string(),
        });
        let own = session.world().account.map(|account| account.to_string());
        let is_own = own.is_some_and(|own| found["account"].as_str() == Some(own.as_str()));
        let answer = Answer::new("get_portfolio", response, result);
        if !is_own {
            return Ok(answer);
        }
        let status = session.ask("wallet_get_status", []).await?;
        let status = data(&status);
        let kept = ["provider", "account_type", "pending_transactions", "policy_summary"];
        let kept: Map<String, Value> = kept.iter().map(|name| ((*name).to_owned(), status[*name].clone())).collect();
        Ok(answer.hint("wallet", Value::Object(kept)))
    })
}

pub(super) fn resolve_token<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let asked = [("query", arguments.value("token")), ("chain", arguments.value("chain"))];
        let response = session.ask("search_tokens", asked).await?;
        let chain = session.chain(arguments, "chain")?;
        // A search lists what comes near; only what the other tools would take is an answer.
        let token = chain.token(arguments.text("token")).await?;
        let address = match token.id {
            TokenId::Native => NATIVE_ADDRESS.to_owned(),
            TokenId::Erc20(address) => address.to_string(),
        };
        let result = json!({
            "symbol": token.symbol, "address": address, "decimals": token.decimals, "chain": chain.network().name,
            "source": if token.listed { "static" } else { "gateway" },
        });
        let warnings = rows(data(&response), "tokens").iter().filter(|one| {
            one["address"].as_str().is_some_and(|found| found.eq_ignore_ascii_case(&address))
                && !one["warning"].is_null()
        });
        let warnings: Vec<Value> = warnings.map(|one| one["warning"].clone()).collect();
        Ok(Answer::new("search_tokens", response, result).hint("warnings", warnings))
    })
}

pub(super) fn get_risk_metrics<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let days = arguments.integer("window_days").unwrap_or_default();
        // The shortest interval in which the window fits.
        let per_day = [("1h", 24), ("4h", 6), ("1d", 1)];
        let fitting = per_day.into_iter().find(|(_, count)| days.saturating_mul(*count) <= MOST_INTERVALS);
        let Some((interval, count)) = fitting else {
            return Err(invalid("window_days", &format_args!("at most {MOST_INTERVALS} days are read")).into());
        };
        let asked = [
            ("chain", arguments.value("chain")),
            ("interval", Value::from(interval)),
            ("lookback", Value::from(days.saturating_mul(count))),
        ];
        let response = session.ask("get_risk_metrics", asked).await?;
        let found = data(&response);
        let percent = number(&found["max_drawdown"]).as_f64().map(|fraction| format!("{:.2}", fraction * 100.0));
        let result = json!({
            "portfolio_value_usd": found["value_usd"], "var_95": found["var_95"],
            "sharpe_ratio": shown(&found["sharpe"]), "volatility_annualized": found["volatility"],
            "max_drawdown_pct": percent.unwrap_or_default(), "data_points": found["sample_count"],
            "data_sufficient": true, "warnings": [],
        });
        let interval = found["interval"].clone();
        Ok(Answer::new("get_risk_metrics", response, result).hint("var_interval", interval))
    })
}

pub(super) fn get_vault_state<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let asked = [("vault_address", arguments.value("vault_address")), ("chain", arguments.value("chain"))];
        let response = session.ask("get_vault_state", asked).await?;
        let found = data(&response);
        let chain = session.chain(arguments, "chain")?;
        let asset = chain.token(&shown(&found["asset_address"])).await?;
        let total = TokenAmount::parse(&shown(&found["total_assets"]), asset.decimals).map_err(ToolError::from)?;
        let result = json!({
            "status": "success", "total_assets": total.raw().to_string(), "share_price": found["share_price"],
        });
        let native = found.clone();
        Ok(Answer::new("get_vault_state", response, result).hint("vault", native))
    })
}

/// Protocols by the contracts of an address book: name, contract, what can be done.
const PROTOCOLS: [(&str, KnownContract, &[&str]); 6] = [
    ("uniswap_v2", KnownContract::V2Factory, &["swap"]),
    ("uniswap_v3", KnownContract::V3Factory, &["swap"]),
    ("uniswap_v4", KnownContract::V4PoolManager, &["swap"]),
    ("aave_v3", KnownContract::AavePool, &["lending"]),
    ("erc7683", KnownContract::OriginSettler, &["bridge"]),
    ("across", KnownContract::AcrossSpokePool, &["bridge"]),
];

pub(super) fn check_protocol_support<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let asked = protocol_key(arguments.text("protocol"));
        let named = arguments.some_text("chain");
        if let Some(named) = named {
            session.world().chain(named)?;
        }
        let response = session.ask("get_chain_status", [("chain", text_or_null(named))]).await?;
        let known = PROTOCOLS.iter().find(|(name, ..)| *name == asked);
        let mut chains = Vec::new();
        let mut actions: Vec<&str> = Vec::new();
        if let Some((_, contract, can)) = known {
            for chain in session.world().chains() {
                let network = chain.network();
                if network.book.contract(*contract).is_none() {
                    continue;
                }
                chains.push(network.name.clone());
                let positions = match contract {
                    KnownContract::V3Factory => network.book.contract(KnownContract::V3PositionManager).is_some(),
                    KnownContract::V4PoolManager => PositionContracts::of(network)
                        .is_ok_and(|_| network.book.contract(KnownContract::V4PositionManager).is_some()),
                    _ => false,
                };
                for action in can.iter().copied().chain(positions.then_some("lp")) {
                    if !actions.contains(&action) {
                        actions.push(action);
                    }
                }
            }
        }
        let here = match named {
            Some(named) => Some(session.world().chain(named)?.network().name.clone()),
            None => None,
        };
        let supported = match &here {
            Some(here) => chains.contains(here),
            None => !chains.is_empty(),
        };
        let notes = match known {
            Some(_) => "by the address books of the connected chains".to_owned(),
            None => {
                let names: Vec<_> = PROTOCOLS.iter().map(|(name, ..)| *name).collect();
                format!("Bardo knows {}", names.join(", "))
            }
        };
        let result = json!({
            "supported": supported, "protocol": SafeText::clean(&asked, 60), "chain": here.unwrap_or_default(),
            "supported_chains": chains, "supported_actions": actions, "sdk_template": null, "notes": notes,
        });
        Ok(Answer::new("get_chain_status", response, result))
    })
}
