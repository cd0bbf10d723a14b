//! Planning: intents are compiled to previewed actions, which are simulated, validated, estimated or executed. A bundle is
//! a preview of the pipeline: its id is the permit's, and it ends with the permit or the session.

use alloy::primitives::U256;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::super::{Arguments, DialectTool, HeldCall, NativeCall};
use super::actions::{Weight, chain_of, held_call};
use super::reads::shown;
use super::{AlmanakSession, Answer, Failure, Outcome, Run};
use crate::engine::{CallStatus, ToolResponse};
use crate::shared::invalid;
use bardo_base::error::{ErrorCategory, ErrorCode, ToolError};
use bardo_base::id::PermitId;
use bardo_base::units::TokenAmount;

/// Compiled intent, with the native write that executes it.
#[derive(Debug, Clone)]
pub(super) struct Bundle {
    held: HeldCall,
    tool: &'static DialectTool,
    arguments: Arguments,
    call: NativeCall,
    weight: Weight,
    /// Expiry of the permit, in milliseconds since the Unix epoch.
    expires_at: u64,
}

/// An intent as a call of a native write.
struct Compiled {
    tool: &'static DialectTool,
    arguments: Arguments,
    call: NativeCall,
}

impl AlmanakSession {
    /// Translates the intent that a planning tool names.
    async fn compiled(&self, arguments: &Arguments) -> Result<Compiled, Failure> {
        let none = serde_json::Map::new();
        let params = arguments.object("params").unwrap_or(&none);
        let (tool, named) = self.intended(arguments.text("intent_type"), params, arguments.text("chain"))?;
        let Run::Act(action) = tool.run else {
            return Err(invalid("intent_type", &"it names something that does not act").into());
        };
        let call = (action.plan)(self, &named).await?;
        self.refuse_lacking(call.tool)?;
        if let Some(first) = action.first
            && first(self, &named).await?.is_some()
        {
            let what = "the collateral is an action of its own here: supply it first, then borrow with a \
                        collateral_amount of \"0\"; borrow_lending does both";
            return Err(invalid("params", &what).into());
        }
        Ok(Compiled { tool, arguments: named, call })
    }

    /// The open bundle of this id.
    ///
    /// # Errors
    /// `PERMIT_CONSUMED` for one that was executed, `PERMIT_EXPIRED` for one that is not open here.
    fn bundle(&self, named: &str) -> Result<Bundle, ToolError> {
        let permit_id: PermitId = named.trim().parse().map_err(|error| invalid("bundle_id", &error))?;
        let mut bundles = self.bundles.lock();
        let now = self.world().clock.now_millis();
        bundles.retain(|_, bundle| bundle.expires_at > now);
        if let Some(bundle) = bundles.get(&permit_id) {
            return Ok(bundle.clone());
        }
        drop(bundles);
        if self.native.executor().permit_was_used(permit_id)? {
            return Err(ToolError::new(
                ErrorCode::PermitConsumed,
                format_args!("bundle {permit_id} was already executed"),
            ));
        }
        let what = format_args!(
            "no bundle {permit_id} is open: it has expired, or another process compiled it. A bundle is a permit of the \
             session that compiled it; each `bardo call` is a session of its own, so it cannot execute what an earlier \
             one compiled"
        );
        Err(ToolError::new(ErrorCode::PermitExpired, what)
            .suggest("Call the action's own tool, or compile and execute in one session."))
    }

    /// Keeps a bundle until its permit expires.
    fn keep(&self, bundle: Bundle) {
        let now = self.world().clock.now_millis();
        let mut bundles = self.bundles.lock();
        bundles.retain(|_, kept| kept.expires_at > now);
        bundles.insert(bundle.held.permit_id, bundle);
    }

    /// The native write of a bundle or an intent.
    async fn named_write(&self, arguments: &Arguments) -> Result<NativeCall, Failure> {
        if let Some(id) = arguments.some_text("bundle_id") {
            return Ok(self.bundle(id)?.call);
        }
        if arguments.some_text("intent_type").is_none() {
            return Err(invalid("intent_type", &"name an intent with its params, or a bundle").into());
        }
        Ok(self.compiled(arguments).await?.call)
    }
}

pub(super) fn compile_intent<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let Compiled { tool, arguments, call } = session.compiled(arguments).await?;
        let mut response = session.native.hold(call.clone()).await;
        let Some((held, preview)) = held_call(&response) else {
            return Err(Failure::Native(call.tool, Box::new(response)));
        };
        let expires_at = preview["expires_at"].as_u64().unwrap_or_default();
        let warnings: Vec<Value> = match preview["approval"].as_str() {
            Some("approval") => vec![json!("executing it waits for the operator's approval")],
            Some("delay") => vec![json!("executing it waits for a delay in which the operator can reject it")],
            _ => Vec::new(),
        };
        let result = json!({
            "bundle_id": held.permit_id, "actions": preview["legs"], "gas_estimate_usd": shown(&preview["gas_usd"]),
            "warnings": warnings,
        });
        let native_tool = call.tool;
        let (weight, preview) = (Weight::of(preview), preview.clone());
        session.keep(Bundle { held, tool, arguments, call, weight, expires_at });
        // The dialect's success of a compilation: nothing is signed, and the explanation says so.
        response.status = CallStatus::Success;
        let said = response.explanation.take().unwrap_or_default();
        response.explanation = Some(format!("{said}. Nothing is signed before execute_compiled_bundle."));
        Ok(Answer::new(native_tool, response, result).hint("preview", preview))
    })
}

pub(super) fn simulate_intent<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let call = session.named_write(arguments).await?;
        let tool = call.tool;
        let response = session.native.call(call, true).await;
        let failed = response.error.as_ref().filter(|error| error.code().category() == ErrorCategory::SimulationFailed);
        if let Some(error) = failed {
            let said = error.message().to_owned();
            let result = json!({
                "success": false, "estimated_output": {}, "price_impact": "", "gas_estimate_usd": "", "revert_reason": said,
            });
            // The simulation itself was done, and this is its result.
            let response = ToolResponse {
                status: CallStatus::Simulated,
                error: None,
                data: None,
                explanation: Some(said),
                ..response
            };
            return Ok(Answer::new(tool, response, result));
        }
        if response.status != CallStatus::Simulated {
            return Err(Failure::Native(tool, Box::new(response)));
        }
        let hints = response.decision_hints.as_ref().unwrap_or(&Value::Null);
        let received = hints["permit"]["bounds"]["receives_at_least"].as_array().into_iter().flatten();
        let data = response.data.as_ref().unwrap_or(&Value::Null);
        let mut output: serde_json::Map<String, Value> =
            received.map(|one| (shown(&one["token"]), one["amount"].clone())).collect();
        for name in ["amount_out", "estimated_output", "amount0", "amount1", "received"] {
            if !data[name].is_null() {
                output.insert(name.to_owned(), data[name].clone());
            }
        }
        let result = json!({
            "success": true, "estimated_output": output, "price_impact": shown(&data["price_impact_pct"]),
            "gas_estimate_usd": shown(&hints["permit"]["gas_usd"]), "revert_reason": null,
        });
        Ok(Answer::new(tool, response, result))
    })
}

pub(super) fn validate_risk<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let call = session.compiled(arguments).await?.call;
        let tool = call.tool;
        let response = session.native.call(call, true).await;
        let Some(error) = &response.error else {
            let result = json!({"allowed": true, "violations": [], "suggestions": []});
            let needs = response.decision_hints.as_ref().map(|hints| hints["permit"]["approval"].clone());
            let response = ToolResponse { status: CallStatus::Success, ..response };
            return Ok(Answer::new(tool, response, result).hint("approval", needs.unwrap_or_default()));
        };
        let violations = error.violations();
        let is_policy = matches!(error.code().category(), ErrorCategory::RiskBlocked | ErrorCategory::PermissionDenied);
        if violations.is_empty() && !is_policy {
            return Err(Failure::Native(tool, Box::new(response)));
        }
        let mut found: Vec<String> =
            violations.iter().map(|one| format!("{}: limit {}, found {}", one.rule, one.limit, one.value)).collect();
        let mut advice: Vec<String> =
            violations.iter().map(|one| one.would_pass.to_string()).filter(|text| !text.is_empty()).collect();
        if found.is_empty() {
            found.push(error.message().to_owned());
            advice.push(error.suggestion().to_owned());
        }
        let listed = json!(violations);
        let said = error.message().to_owned();
        let result = json!({"allowed": false, "violations": found, "suggestions": advice});
        let response =
            ToolResponse { status: CallStatus::Success, error: None, data: None, explanation: Some(said), ..response };
        Ok(Answer::new(tool, response, result).hint("violations", listed))
    })
}

pub(super) fn estimate_gas<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let call = session.compiled(arguments).await?.call;
        let asked = [("tool", Value::from(call.tool)), ("params", Value::Object(call.params))];
        let response = session.ask("estimate_gas", asked).await?;
        let found = response.data.as_ref().unwrap_or(&Value::Null);
        let units = found["gas_used"].as_u64().unwrap_or_default();
        let cost = TokenAmount::parse(&shown(&found["gas_cost"]), 18).map_err(ToolError::from)?;
        // Wei for each unit of gas, in gwei: nine decimals.
        let price = cost.raw().checked_div(U256::from(units)).and_then(|wei| TokenAmount::new(wei, 9).ok());
        let result = json!({
            "gas_units": units, "gas_price_gwei": price.map(|price| price.to_string()).unwrap_or_default(),
            "cost_usd": shown(&found["gas_cost_usd"]), "cost_native": shown(&found["gas_cost"]),
        });
        let native = found.clone();
        Ok(Answer::new("estimate_gas", response, result).hint("estimate", native))
    })
}

pub(super) fn rebalance_candidate<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let asked = ["position_id", "chain"].map(|name| (name, arguments.value(name)));
        let response = session.ask("compute_rebalance_candidate", asked).await?;
        let found = response.data.as_ref().unwrap_or(&Value::Null);
        let result = json!({
            "viable": found["reaches_minimum"], "reason": response.explanation.clone().unwrap_or_default(),
            "breakdown": found["figures"],
        });
        let minimum = found["min_benefit_usd"].clone();
        // The pool's swaps and the position's share are measured, so that the caller's own guesses have no use.
        let unused = ["fee_tier", "estimated_daily_volume", "our_liquidity_share"];
        Ok(Answer::new("compute_rebalance_candidate", response, result)
            .hint("min_benefit_usd", minimum)
            .hint("measured_instead_of", unused.to_vec()))
    })
}

pub(super) fn execute_bundle<'a>(session: &'a AlmanakSession, arguments: &'a Arguments) -> BoxFuture<'a, Outcome> {
    Box::pin(async move {
        let bundle = session.bundle(arguments.text("bundle_id"))?;
        let place = chain_of(&bundle.call);
        if arguments.gives("chain") {
            let (named, own) = (session.chain(arguments, "chain")?, session.world().chain(&place)?);
            if named.network().chain_id != own.network().chain_id {
                let what = format_args!("the bundle is on {}", own.network());
                return Err(invalid("chain", &what).into());
            }
        }
        let (tool, dry_run) = (bundle.call.tool, arguments.flag("dry_run"));
        let response = if dry_run {
            session.native.call(bundle.call, true).await
        } else {
            session.bundles.lock().remove(&bundle.held.permit_id);
            session.commit_within(bundle.tool, bundle.held, &bundle.weight).await?
        };
        match response.status {
            CallStatus::Success | CallStatus::Simulated | CallStatus::Partial => {}
            CallStatus::Blocked | CallStatus::Rejected | CallStatus::Error => {
                return Err(Failure::Native(tool, Box::new(response)));
            }
        }
        let sent = response.decision_hints.as_ref().map(|hints| hints["transactions"].clone()).unwrap_or_default();
        let hashes = sent.as_array().into_iter().flatten().map(|one| one["hash"].clone()).collect::<Vec<_>>();
        let gas = session.gas_usd(&place, &response).await;
        let own = match bundle.tool.run {
            Run::Act(action) => (action.result)(&bundle.arguments, &response),
            Run::Query(_) => Value::Null,
        };
        let result = json!({
            "tx_hashes": hashes, "success": response.status == CallStatus::Success, "gas_used_usd": gas,
            "receipts": if sent.is_array() { sent } else { json!([]) },
        });
        let name = bundle.tool.name;
        Ok(Answer::new(tool, response, result).hint("tool", name).hint("result", own))
    })
}
