//! Translation of the action tools: each is one write of a native tool. An action above the dialect's own threshold is
//! previewed first, and goes ahead only if the policy asks the operator about it.

use alloy::primitives::{Address, U256};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::super::{Arguments, DialectTool, HeldCall, NativeCall};
use super::reads::{in_pool_order, known_protocol, position_id, protocol_key, shown};
use super::{AlmanakSession, Answer, Failure, Outcome, native};
use crate::across::{RouteParams, quoted};
use crate::engine::{CallStatus, ConnectedChain, ToolResponse, address};
use crate::lending::LACKS_COLLATERAL;
use crate::shared::{contract_of, invalid};
use bardo_base::contracts::KnownContract;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token::TokenId;

/// Translation of an action.
#[derive(Clone, Copy)]
pub(in super::super) struct Action {
    /// Write that has to be done before, if any.
    pub(super) first: Option<First>,
    /// Write that does it.
    pub(super) plan: Plan,
    /// Result in the dialect's form, without `gas_usd`.
    pub(super) result: fn(&Arguments, &ToolResponse) -> Value,
}

/// Function that makes the native call of an action.
pub(super) type Plan = for<'a> fn(&'a AlmanakSession, &'a Arguments) -> BoxFuture<'a, Result<NativeCall, Failure>>;

/// Function that makes the native call before an action; `None` if none is needed.
pub(super) type First =
    for<'a> fn(&'a AlmanakSession, &'a Arguments) -> BoxFuture<'a, Result<Option<NativeCall>, Failure>>;

/// Value and consent of a previewed write, which decide whether it may pass a threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Weight {
    /// Value of the write in dollars; `None` if it is not known.
    spent: Option<Usd>,
    /// True if its commit waits for the operator's approval.
    asks: bool,
}

impl Weight {
    pub(super) fn of(preview: &Value) -> Self {
        Self {
            spent: preview["spent_usd"].as_str().and_then(|text| text.parse::<Usd>().ok()),
            asks: preview["approval"] == "approval",
        }
    }
}

impl AlmanakSession {
    /// Does an action, or simulates it.
    pub(super) async fn act(&self, tool: &'static DialectTool, action: Action, arguments: &Arguments) -> Outcome {
        let call = (action.plan)(self, arguments).await?;
        self.refuse_lacking(call.tool)?;
        let dry_run = arguments.flag("dry_run");
        let before = match action.first {
            Some(first) => first(self, arguments).await?,
            None => None,
        };
        let before = match before {
            Some(before) => {
                if !dry_run {
                    self.refuse_hopeless(&call).await?;
                }
                Some(self.do_first(before, dry_run).await?)
            }
            None => None,
        };
        let (native_tool, place) = (call.tool, chain_of(&call));
        let ended = if dry_run { Ok(self.native.call(call, true).await) } else { self.within(tool, call).await };
        let answer = match ended {
            Ok(response) => self.finish(native_tool, &place, action, arguments, response).await,
            Err(failure) => Err(failure),
        };
        match before {
            Some(before) => after(before, answer),
            None => answer,
        }
    }

    /// Simulates a write before the one that has to come first, so that nothing is sent for an action that is refused whatever comes
    /// first: by the policy, the phase, a stop, its parameters, or the market.
    async fn refuse_hopeless(&self, call: &NativeCall) -> Result<(), Failure> {
        let response = self.native.call(call.clone(), true).await;
        // What more collateral may mend.
        let is_mended = response.error.as_ref().is_some_and(|error| {
            matches!(error.code(), ErrorCode::SafetyHealthFactor | ErrorCode::SafetySimulationFailed)
                || error.details().get(LACKS_COLLATERAL) == Some(&Value::Bool(true))
        });
        match response.status {
            CallStatus::Blocked | CallStatus::Rejected | CallStatus::Error if !is_mended => {
                Err(Failure::Native(call.tool, Box::new(response)))
            }
            CallStatus::Blocked
            | CallStatus::Rejected
            | CallStatus::Error
            | CallStatus::Success
            | CallStatus::Simulated
            | CallStatus::Partial => Ok(()),
        }
    }

    /// Does the write that has to come before. Its failure ends the action.
    async fn do_first(&self, call: NativeCall, dry_run: bool) -> Result<ToolResponse, Failure> {
        let tool = call.tool;
        self.refuse_lacking(tool)?;
        let response = self.native.call(call, dry_run).await;
        match response.status {
            CallStatus::Success | CallStatus::Simulated => Ok(response),
            CallStatus::Partial | CallStatus::Blocked | CallStatus::Rejected | CallStatus::Error => {
                Err(Failure::Native(tool, Box::new(response)))
            }
        }
    }

    /// Does a write, unless it is above the dialect's threshold and the policy asks nobody.
    async fn within(&self, tool: &DialectTool, call: NativeCall) -> Result<ToolResponse, Failure> {
        if tool.approval_above_usd.is_none() {
            return Ok(self.native.call(call, false).await);
        }
        let preview = self.native.hold(call).await;
        match held_call(&preview) {
            Some((held, preview)) => self.commit_within(tool, held, &Weight::of(preview)).await,
            None => Ok(preview),
        }
    }

    /// Commits a previewed write, unless it is above the threshold of `tool` and the policy asks nobody. Then it is
    /// withdrawn.
    ///
    /// # Errors
    /// `SAFETY_SPENDING_LIMIT_EXCEEDED` above the threshold.
    pub(super) async fn commit_within(
        &self,
        tool: &DialectTool,
        held: HeldCall,
        weight: &Weight,
    ) -> Result<ToolResponse, Failure> {
        let over = tool.approval_above_usd.filter(|limit| {
            // An unknown value counts as above.
            !weight.asks && weight.spent.is_none_or(|spent| spent > Usd::whole(*limit))
        });
        let Some(limit) = over else { return Ok(self.native.commit(held).await) };
        self.native.withdraw(held).await;
        let worth = match weight.spent {
            Some(spent) => format!("${}", spent.to_fixed(2, Rounding::Up)),
            None => "an unknown amount".to_owned(),
        };
        let what = format_args!(
            "{} is worth {worth}; above ${limit} a person has to be asked, and the policy would do it without asking",
            tool.name
        );
        Err(ToolError::new(ErrorCode::SafetySpendingLimitExceeded, what)
            .suggest("Reduce the amount, or ask the operator to lower require_human_approval_above_usd.")
            .into())
    }

    /// Translates the end of a write.
    pub(super) async fn finish(
        &self,
        native_tool: &'static str,
        place: &str,
        action: Action,
        arguments: &Arguments,
        response: ToolResponse,
    ) -> Outcome {
        match response.status {
            CallStatus::Success | CallStatus::Simulated | CallStatus::Partial => {}
            CallStatus::Blocked | CallStatus::Rejected | CallStatus::Error => {
                return Err(Failure::Native(native_tool, Box::new(response)));
            }
        }
        let mut result = (action.result)(arguments, &response);
        let gas = self.gas_usd(place, &response).await;
        // The results of the vault tools have a message instead.
        if let Value::Object(fields) = &mut result
            && !fields.contains_key("message")
        {
            fields.insert("gas_usd".to_owned(), Value::from(gas));
        }
        Ok(Answer::new(native_tool, response, result))
    }

    /// Gas of a write in dollars: what its transactions cost, or the worst case of a simulation. Empty if it is not known.
    pub(super) async fn gas_usd(&self, place: &str, response: &ToolResponse) -> String {
        let hints = response.decision_hints.as_ref().unwrap_or(&Value::Null);
        if response.status == CallStatus::Simulated {
            return shown(&hints["permit"]["gas_usd"]);
        }
        let costs = hints["transactions"].as_array().into_iter().flatten();
        let costs = costs.filter_map(|one| one["gas_cost_wei"].as_str()?.parse::<U256>().ok());
        let wei = costs.fold(U256::ZERO, U256::saturating_add);
        let Ok(chain) = self.world().chain(place) else { return String::new() };
        let Some(wrapped) = chain.network().book.contract(KnownContract::WrappedNative) else { return String::new() };
        match chain.prices.price(wrapped).await {
            Ok(price) if !wei.is_zero() => Usd::value_of(TokenAmount::ether(wei), price.usd, Rounding::Up)
                .map(|usd| usd.to_string())
                .unwrap_or_default(),
            Ok(_) | Err(_) => String::new(),
        }
    }
}

/// Chain that a native call is on.
pub(super) fn chain_of(call: &NativeCall) -> String {
    ["chain", "source_chain"].iter().filter_map(|name| call.params.get(*name)).map(shown).next().unwrap_or_default()
}

/// The held call of a preview, with the preview.
pub(super) fn held_call(response: &ToolResponse) -> Option<(HeldCall, &Value)> {
    HeldCall::of(response).zip(response.data.as_ref())
}

/// Adds the first of two writes to the answer of the second. If the second fails, the first stays done, and the answer
/// says so.
fn after(before: ToolResponse, answer: Outcome) -> Outcome {
    let first = json!({
        "status": before.status, "call_id": before.call_id, "tx_hash": before.data.as_ref().map(|data| data["tx_hash"].clone()),
        "explanation": before.explanation,
    });
    let said = before.explanation.unwrap_or_default();
    match answer {
        Ok(answer) => Ok(answer.hint("collateral", first)),
        Err(Failure::Native(tool, mut response)) => {
            let noted = if before.status == CallStatus::Success {
                format!("The collateral stays supplied: {said} The borrowing failed")
            } else {
                "The borrowing is simulated against the collateral that is there, since a simulated supply leaves none"
                    .to_owned()
            };
            let mut hints = match response.decision_hints.take() {
                Some(Value::Object(hints)) => hints,
                Some(_) | None => serde_json::Map::new(),
            };
            hints.insert("collateral".to_owned(), first);
            response.decision_hints = Some(Value::Object(hints));
            if let Some(error) = response.error.take() {
                let mut told = ToolError::new(error.code(), format_args!("{noted}: {}", error.message()))
                    .suggest(error.suggestion());
                for (name, value) in error.details() {
                    told = told.detail(name, value.clone());
                }
                response.error = Some(told);
            }
            Err(Failure::Native(tool, response))
        }
        Err(Failure::Refused(error)) => Err(Failure::Refused(error)),
        Err(Failure::Lacking(tool)) => Err(Failure::Lacking(tool)),
    }
}

/// Field of a response's data.
fn of<'a>(response: &'a ToolResponse, name: &str) -> &'a Value {
    response.data.as_ref().map_or(&Value::Null, |data| &data[name])
}

/// An amount above zero in plain decimal digits.
///
/// # Errors
/// `VALIDATION_FAILED` for anything else.
fn positive(arguments: &Arguments, name: &'static str) -> Result<String, ToolError> {
    let text = arguments.text(name).trim();
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_decimal = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    if !is_decimal || !text.bytes().any(|byte| matches!(byte, b'1'..=b'9')) {
        let shown = SafeText::clean(text, 40);
        let what = format_args!("`{shown}`; expected an amount above zero in decimal digits, such as \"0.25\"");
        return Err(invalid(name, &what));
    }
    Ok(text.to_owned())
}

/// An amount above zero, or `max` for `all`.
fn positive_or_all(arguments: &Arguments, name: &'static str) -> Result<String, ToolError> {
    if arguments.text(name).trim().eq_ignore_ascii_case("all") {
        return Ok("max".to_owned());
    }
    positive(arguments, name)
}

pub(super) fn swap<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        session.refuse_foreign_wallet(arguments, "execution_wallet")?;
        if let Some(named) = arguments.some_text("protocol")
            && !matches!(protocol_key(named).as_str(), "uniswap" | "uniswap_v2" | "uniswap_v3" | "uniswap_v4")
        {
            let what = format_args!("`{}`; Bardo swaps on Uniswap", SafeText::clean(named, 40));
            return Err(invalid("protocol", &what).into());
        }
        let amount = positive(arguments, "amount")?;
        let here = session.chain(arguments, "chain")?;
        let there = match arguments.some_text("destination_chain") {
            Some(named) => Some(session.world().chain(named)?),
            None => None,
        };
        match there.filter(|there| there.network().chain_id != here.network().chain_id) {
            Some(there) => {
                let tokens = ["token_in", "token_out"].map(|name| arguments.value(name));
                across(session, arguments, [here, there], tokens, amount)
            }
            None => Ok(native(
                "uniswap_execute_swap",
                [
                    ("token_in", arguments.value("token_in")),
                    ("token_out", arguments.value("token_out")),
                    ("amount", Value::from(amount)),
                    ("chain", arguments.value("chain")),
                    ("slippage_bps", arguments.value("slippage_bps")),
                    // The answer of the dialect is a transaction, not an order that is open for a while.
                    ("prefer_uniswapx", Value::from(false)),
                ],
            )),
        }
    })
}

/// Order from one chain to another. The slippage bounds what the order leaves to the fillers; the policy bounds the loss.
fn across(
    session: &AlmanakSession,
    arguments: &Arguments,
    [here, there]: [&ConnectedChain; 2],
    [token_in, token_out]: [Value; 2],
    amount: String,
) -> Result<NativeCall, Failure> {
    let margin = u64::from(session.world().intent_margin.get());
    let slippage = arguments.integer("slippage_bps").unwrap_or_default();
    if margin > slippage {
        let what = format_args!("{slippage}; orders between chains leave {margin} basis points to the fillers");
        return Err(invalid("slippage_bps", &what).into());
    }
    Ok(native(
        "uniswap_submit_cross_chain_intent",
        [
            ("token_in", token_in),
            ("token_out", token_out),
            ("amount", Value::from(amount)),
            ("source_chain", Value::from(here.network().name.clone())),
            ("destination_chain", Value::from(there.network().name.clone())),
        ],
    ))
}

pub(super) fn swap_result(arguments: &Arguments, response: &ToolResponse) -> Value {
    let paid = of(response, "amount_in");
    let amount_in = if paid.is_null() { arguments.text("amount").to_owned() } else { shown(paid) };
    let received = of(response, "amount_out");
    let received = if received.is_null() { of(response, "estimated_output") } else { received };
    json!({
        "tx_hash": of(response, "tx_hash"), "amount_in": amount_in, "amount_out": shown(received),
        "effective_price": shown(of(response, "effective_price")),
        "price_impact": shown(of(response, "price_impact_pct")),
    })
}

pub(super) fn bridge<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        session.refuse_foreign_wallet(arguments, "execution_wallet")?;
        let amount = positive(arguments, "amount")?;
        let (here, there) = (session.chain(arguments, "from_chain")?, session.chain(arguments, "to_chain")?);
        if here.network().chain_id == there.network().chain_id {
            return Err(invalid("to_chain", &"name another chain than from_chain").into());
        }
        let by_pool = match arguments.some_text("preferred_bridge").map(protocol_key).as_deref() {
            Some("across") => true,
            Some("erc7683") => false,
            // Any other is a preference that Bardo cannot follow.
            Some(_) | None => {
                takes_deposits(session, [here, there], arguments.text("token")).await?
                    && brings_enough(session, arguments, &amount).await
            }
        };
        if !by_pool {
            let tokens = ["token", "token"].map(|name| arguments.value(name));
            return across(session, arguments, [here, there], tokens, amount);
        }
        Ok(native(
            "across_deposit",
            [
                ("token_in", arguments.value("token")),
                ("amount", Value::from(amount)),
                ("source_chain", Value::from(here.network().name.clone())),
                ("destination_chain", Value::from(there.network().name.clone())),
                ("max_fee_bps", arguments.value("slippage_bps")),
            ],
        ))
    })
}

/// True if Across's pools can move a token between two chains here: both have one, a service quotes, the token is none of
/// the native ones, and nothing is on paper.
async fn takes_deposits(
    session: &AlmanakSession,
    [here, there]: [&ConnectedChain; 2],
    token: &str,
) -> Result<bool, Failure> {
    let world = session.world();
    let pools =
        [here, there].iter().all(|chain| chain.network().book.contract(KnownContract::AcrossSpokePool).is_some());
    if !pools || world.paper().is_some() || world.bridge_fees(here.network().chain_id).is_none() {
        return Ok(false);
    }
    Ok(matches!(here.token(token).await?.id, TokenId::Erc20(_)))
}

/// True if all of a deposit but `slippage_bps` of its value would arrive by the service's quote now. A relayer's gas is the
/// same for any amount, so an order can be the better way for a small one.
async fn brings_enough(session: &AlmanakSession, arguments: &Arguments, amount: &str) -> bool {
    let params = RouteParams {
        token_in: arguments.text("token").to_owned(),
        token_out: None,
        amount: amount.to_owned(),
        source_chain: arguments.text("from_chain").to_owned(),
        destination_chain: arguments.text("to_chain").to_owned(),
    };
    let most = arguments.value("slippage_bps").as_u64().unwrap_or_default();
    quoted(session.world(), &params, &|_| {}).await.is_ok_and(|route| route.fee_bps() <= most)
}

pub(super) fn bridge_result(arguments: &Arguments, response: &ToolResponse) -> Value {
    // Only a deposit names the pool that took it; an order has no transaction yet.
    let is_deposit = !of(response, "pool").is_null();
    let bridge = if is_deposit { "across" } else { "erc7683" };
    let sent = if is_deposit { of(response, "tx_hash").clone() } else { Value::Null };
    json!({
        "tx_hash": sent, "amount_bridged": arguments.text("amount"), "from_chain": of(response, "source_chain"),
        "to_chain": of(response, "destination_chain"), "bridge_used": bridge, "estimated_arrival_seconds": null,
    })
}

pub(super) fn open_position<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        session.refuse_foreign_wallet(arguments, "execution_wallet")?;
        let is_v4 = known_protocol(arguments, &["uniswap_v3", "uniswap_v4"])? == "uniswap_v4";
        let chain = session.chain(arguments, "chain")?;
        let pair = [arguments.text("token_a"), arguments.text("token_b")];
        let (_, is_ordered) = in_pool_order(chain, pair, is_v4).await?;
        // Almanak's price bounds are those of the pool: its first token in its second, whatever the order of the call.
        let mut sides = [("token_a", "amount_a"), ("token_b", "amount_b")];
        if !is_ordered {
            sides.reverse();
        }
        let [(first, first_amount), (second, second_amount)] = sides;
        Ok(native(
            "add_liquidity",
            [
                ("token_a", arguments.value(first)),
                ("token_b", arguments.value(second)),
                ("amount_a", Value::from(positive(arguments, first_amount)?)),
                ("amount_b", Value::from(positive(arguments, second_amount)?)),
                ("fee_tier", arguments.value("fee_tier")),
                ("version", if is_v4 { Value::from("v4") } else { Value::Null }),
                ("price_lower", Value::from(positive(arguments, "price_lower")?)),
                ("price_upper", Value::from(positive(arguments, "price_upper")?)),
                ("chain", arguments.value("chain")),
            ],
        ))
    })
}

pub(super) fn open_result(_: &Arguments, response: &ToolResponse) -> Value {
    json!({
        "tx_hash": of(response, "tx_hash"), "position_id": of(response, "position_id"),
        "liquidity": shown(of(response, "liquidity_added")), "tick_lower": of(response, "tick_lower"),
        "tick_upper": of(response, "tick_upper"),
    })
}

pub(super) fn close_position<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        session.refuse_foreign_wallet(arguments, "execution_wallet")?;
        if !arguments.text("amount").trim().eq_ignore_ascii_case("all") {
            return Err(invalid("amount", &"only `all` is possible; a position is closed as a whole").into());
        }
        if !arguments.flag("collect_fees") {
            return Err(invalid("collect_fees", &"a closed position pays its fees with the rest").into());
        }
        let id = position_id(arguments)?;
        Ok(native("close_position", [("position_id", Value::from(id)), ("chain", arguments.value("chain"))]))
    })
}

pub(super) fn close_result(_: &Arguments, response: &ToolResponse) -> Value {
    json!({
        "tx_hash": of(response, "tx_hash"), "token_a_received": shown(of(response, "amount0")),
        "token_b_received": shown(of(response, "amount1")), "fees_collected_a": shown(of(response, "fees0")),
        "fees_collected_b": shown(of(response, "fees1")),
    })
}

/// Call of a lending tool with this amount.
fn lending(arguments: &Arguments, tool: &'static str, token: &'static str, amount: String) -> NativeCall {
    native(
        tool,
        [("token", arguments.value(token)), ("amount", Value::from(amount)), ("chain", arguments.value("chain"))],
    )
}

pub(super) fn supply<'a>(
    _: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        known_protocol(arguments, &["aave_v3"])?;
        if !arguments.flag("use_as_collateral") {
            let what = "Bardo has no tool that takes a supply out of the collateral";
            return Err(invalid("use_as_collateral", &what).into());
        }
        Ok(lending(arguments, "lending_supply", "token", positive(arguments, "amount")?))
    })
}

pub(super) fn supply_result(_: &Arguments, response: &ToolResponse) -> Value {
    json!({"tx_hash": of(response, "tx_hash"), "amount_supplied": shown(of(response, "amount"))})
}

pub(super) fn borrow<'a>(
    _: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        known_protocol(arguments, &["aave_v3"])?;
        Ok(lending(arguments, "lending_borrow", "token", positive(arguments, "amount")?))
    })
}

/// Supply of the collateral that a borrowing names; none for an amount of zero.
pub(super) fn collateral<'a>(
    _: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<Option<NativeCall>, Failure>> {
    Box::pin(async move {
        let text = arguments.text("collateral_amount").trim();
        if !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0' | b'.')) && text != "." {
            return Ok(None);
        }
        let amount = positive_or_all(arguments, "collateral_amount")?;
        Ok(Some(lending(arguments, "lending_supply", "collateral_token", amount)))
    })
}

pub(super) fn borrow_result(_: &Arguments, response: &ToolResponse) -> Value {
    json!({"tx_hash": of(response, "tx_hash"), "amount_borrowed": shown(of(response, "amount"))})
}

pub(super) fn repay<'a>(_: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        known_protocol(arguments, &["aave_v3"])?;
        Ok(lending(arguments, "lending_repay", "token", positive_or_all(arguments, "amount")?))
    })
}

pub(super) fn repay_result(_: &Arguments, response: &ToolResponse) -> Value {
    json!({"tx_hash": of(response, "tx_hash"), "amount_repaid": shown(of(response, "amount"))})
}

pub(super) fn withdraw<'a>(
    _: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        known_protocol(arguments, &["aave_v3"])?;
        Ok(lending(arguments, "lending_withdraw", "token", positive_or_all(arguments, "amount")?))
    })
}

pub(super) fn withdraw_result(_: &Arguments, response: &ToolResponse) -> Value {
    json!({"tx_hash": of(response, "tx_hash"), "amount_withdrawn": shown(of(response, "amount"))})
}

/// Call of a tool that changes the form of the native token. The token must be the chain's wrapped native one.
async fn changed_form(
    session: &AlmanakSession,
    arguments: &Arguments,
    tool: &'static str,
) -> Result<NativeCall, Failure> {
    session.refuse_foreign_wallet(arguments, "execution_wallet")?;
    let chain = session.chain(arguments, "chain")?;
    let wrapped = chain.contract(KnownContract::WrappedNative)?;
    let token = chain.token(arguments.text("token")).await?;
    if token.id != TokenId::Erc20(wrapped) {
        let what = format_args!("{} is not the wrapped native token of {}", token.symbol, chain.network());
        return Err(invalid("token", &what).into());
    }
    let amount = positive_or_all(arguments, "amount")?;
    Ok(native(tool, [("amount", Value::from(amount)), ("chain", arguments.value("chain"))]))
}

pub(super) fn wrap<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(changed_form(session, arguments, "wrap_native"))
}

pub(super) fn wrap_result(arguments: &Arguments, response: &ToolResponse) -> Value {
    json!({
        "tx_hash": of(response, "tx_hash"), "amount_wrapped": shown(of(response, "received")),
        "token": arguments.text("token"), "chain": arguments.text("chain"),
    })
}

pub(super) fn unwrap<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(changed_form(session, arguments, "unwrap_native"))
}

pub(super) fn unwrap_result(arguments: &Arguments, response: &ToolResponse) -> Value {
    json!({
        "tx_hash": of(response, "tx_hash"), "amount_unwrapped": shown(of(response, "amount")),
        "token": arguments.text("token"), "chain": arguments.text("chain"),
    })
}

/// Refuses a vault's Safe that is not the account that acts.
fn own_safe(session: &AlmanakSession, arguments: &Arguments, tool: &'static str) -> Result<Address, Failure> {
    session.refuse_lacking(tool)?;
    Ok(session.refuse_foreign_wallet(arguments, "safe_address")?)
}

pub(super) fn deploy_vault<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        own_safe(session, arguments, "vault_deploy")?;
        // The native tool makes the account everything in one.
        for role in ["deployer_address", "admin_address", "fee_receiver_address", "valuation_manager_address"] {
            session.refuse_foreign_wallet(arguments, role)?;
        }
        let names = ["chain", "name", "symbol"].map(|name| (name, arguments.value(name)));
        let token = [("token", arguments.value("underlying_token_address"))];
        Ok(native("vault_deploy", names.into_iter().chain(token)))
    })
}

pub(super) fn settle_vault<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        own_safe(session, arguments, "vault_settle")?;
        session.refuse_foreign_wallet(arguments, "valuator_address")?;
        let place = ["vault_address", "chain"].map(|name| (name, arguments.value(name)));
        let total = match arguments.value("new_total_assets") {
            Value::Null => None,
            _ => Some(whole_worth(session, arguments).await?),
        };
        let total = total.map(|total| ("new_total_assets", Value::from(total)));
        Ok(native("vault_settle", place.into_iter().chain(total)))
    })
}

/// The vault's stated worth in whole tokens. Almanak states it in the token's smallest units.
async fn whole_worth(session: &AlmanakSession, arguments: &Arguments) -> Result<String, Failure> {
    let raw = arguments.text("new_total_assets").trim();
    let Some(raw) = raw.parse::<U256>().ok().filter(|_| !raw.starts_with("0x")) else {
        return Err(invalid("new_total_assets", &"expected the token's smallest units as a whole number").into());
    };
    let place = ["vault_address", "chain"].map(|name| (name, arguments.value(name)));
    let state = session.ask("get_vault_state", place).await?;
    let asset = address(&shown(of(&state, "asset_address")), "vault_address")?;
    let token = session.chain(arguments, "chain")?.token(&asset.to_string()).await?;
    Ok(TokenAmount::new(raw, token.decimals).map_err(ToolError::from)?.to_string())
}

pub(super) fn teardown_vault<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        own_safe(session, arguments, "vault_teardown")?;
        session.refuse_foreign_wallet(arguments, "valuator_address")?;
        let names = ["vault_address", "chain"].map(|name| (name, arguments.value(name)));
        Ok(native("vault_teardown", names))
    })
}

pub(super) fn deploy_vault_result(_: &Arguments, response: &ToolResponse) -> Value {
    json!({
        "status": response.status, "vault_address": of(response, "vault_address"), "tx_hash": of(response, "tx_hash"),
        "message": response.explanation.clone().unwrap_or_default(),
    })
}

/// Settlement epochs have no number of their own in the native result, so it is left out.
pub(super) fn settle_vault_result(_: &Arguments, response: &ToolResponse) -> Value {
    let mut result = json!({
        "status": response.status, "new_total_assets": raw_worth(response), "tx_hash": of(response, "tx_hash"),
        "message": response.explanation.clone().unwrap_or_default(),
    });
    // Absent where no request was settled, since an epoch 0 would be another statement.
    if let (Value::Object(fields), Some(epoch)) = (&mut result, of(response, "epoch_id").as_u64()) {
        fields.insert("epoch_id".to_owned(), Value::from(epoch));
    }
    result
}

/// The native tool closes no liquidity positions and swaps nothing: the vault's token is all that it moves.
pub(super) fn teardown_vault_result(_: &Arguments, response: &ToolResponse) -> Value {
    let hints = response.decision_hints.as_ref();
    let sent = hints.and_then(|hints| hints["transactions"].as_array()).into_iter().flatten();
    let mut hashes: Vec<&Value> = sent.map(|one| &one["hash"]).filter(|hash| hash.is_string()).collect();
    let last = of(response, "tx_hash");
    if last.is_string() && !hashes.contains(&last) {
        hashes.push(last);
    }
    json!({
        "status": response.status, "positions_closed": 0, "swaps_executed": 0, "final_nav": raw_worth(response),
        "tx_hashes": hashes, "message": response.explanation.clone().unwrap_or_default(),
    })
}

/// Worth of a vault after its settlement, in the token's smallest units; zero unless it was settled.
fn raw_worth(response: &ToolResponse) -> Value {
    match of(response, "total_assets_after_raw") {
        Value::Null => Value::from("0"),
        raw => raw.clone(),
    }
}

pub(super) fn approve_underlying<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        own_safe(session, arguments, "token_approve")?;
        let vault = address(arguments.text("vault_address"), "vault_address")?;
        let token = address(arguments.text("underlying_token"), "underlying_token")?;
        Ok(native(
            "token_approve",
            [
                ("token", Value::from(token.to_string())),
                ("spender", Value::from(vault.to_string())),
                // Almanak names no amount; ours is never unlimited.
                ("amount", Value::from("max")),
                ("chain", arguments.value("chain")),
            ],
        ))
    })
}

pub(super) fn approve_result(_: &Arguments, response: &ToolResponse) -> Value {
    json!({
        "status": response.status, "tx_hash": of(response, "tx_hash"),
        "message": response.explanation.clone().unwrap_or_default(),
    })
}

pub(super) fn deposit_vault<'a>(
    session: &'a AlmanakSession,
    arguments: &'a Arguments,
) -> BoxFuture<'a, Result<NativeCall, Failure>> {
    Box::pin(async move {
        session.refuse_lacking("vault_deposit")?;
        session.refuse_foreign_wallet(arguments, "depositor_address")?;
        let raw = arguments.text("amount").trim();
        let raw = raw.parse::<U256>().ok().filter(|amount| !amount.is_zero()).filter(|_| !raw.starts_with("0x"));
        let Some(raw) = raw else {
            let what = "expected the token's smallest units as a whole number above zero";
            return Err(invalid("amount", &what).into());
        };
        let underlying = address(arguments.text("underlying_token"), "underlying_token")?;
        let place = ["vault_address", "chain"].map(|name| (name, arguments.value(name)));
        // Another token's decimals would make another amount of it.
        let state = session.ask("get_vault_state", place.clone()).await?;
        let asset = shown(of(&state, "asset_address"));
        if asset.parse::<Address>().ok() != Some(underlying) {
            let what = format_args!("the vault holds {}, not {underlying}", SafeText::clean(&asset, 60));
            return Err(invalid("underlying_token", &what).into());
        }
        let chain = session.chain(arguments, "chain")?;
        let token = chain.token(&underlying.to_string()).await?;
        if contract_of(chain, &token)? != underlying {
            return Err(invalid("underlying_token", &"it is read as another token").into());
        }
        let amount = TokenAmount::new(raw, token.decimals).map_err(ToolError::from)?.to_string();
        Ok(native("vault_deposit", place.into_iter().chain([("amount", Value::from(amount))])))
    })
}

pub(super) fn deposit_result(arguments: &Arguments, response: &ToolResponse) -> Value {
    json!({
        "status": response.status, "tx_hash": of(response, "tx_hash"), "amount_deposited": arguments.text("amount"),
        "message": response.explanation.clone().unwrap_or_default(),
    })
}
