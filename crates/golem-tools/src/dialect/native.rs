//! The native tools as a dialect calls them.

use std::collections::HashMap;

use alloy::primitives::B256;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::engine::{CallStatus, Executor, Offer, PreviewResult, ToolCall, ToolInput, ToolResponse};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::PermitId;

/// Call of a native tool.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeCall {
    /// Name of the tool.
    pub tool: &'static str,
    /// Parameters of the tool.
    pub params: Map<String, Value>,
}

/// Previewed write that waits for its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldCall {
    /// Permit under which it is committed.
    pub permit_id: PermitId,
    /// Hash of the simulation that the permit rests on.
    pub simulation_hash: B256,
}

impl HeldCall {
    /// The held write of a preview; `None` if the call has ended.
    pub fn of(preview: &ToolResponse) -> Option<Self> {
        let data = preview.data.as_ref().filter(|_| preview.status == CallStatus::Simulated)?;
        let permit_id = data["permit_id"].as_str()?.parse().ok()?;
        let simulation_hash = data["simulation_hash"].as_str()?.parse().ok()?;
        Some(Self { permit_id, simulation_hash })
    }
}

/// Native tools of a caller. Nothing here signs: writes go through the executor and therefore through the whole pipeline.
pub trait NativeTools: Send + Sync {
    /// Executor with the caller's catalog and chains.
    fn executor(&self) -> &Executor;

    /// Calls a tool. With `dry_run`, a write stops before signing.
    fn call(&self, call: NativeCall, dry_run: bool) -> BoxFuture<'_, ToolResponse>;

    /// Previews a write and holds it. The response is `simulated`, with the preview as data, or that of a call that ended.
    fn hold(&self, call: NativeCall) -> BoxFuture<'_, ToolResponse>;

    /// Commits a held write, with the operator's approval where it is needed.
    fn commit(&self, held: HeldCall) -> BoxFuture<'_, ToolResponse>;

    /// Withdraws a held write.
    fn withdraw(&self, held: HeldCall) -> BoxFuture<'_, ()>;
}

/// Native tools of one executor.
#[derive(Debug)]
pub struct ExecutorTools {
    executor: Executor,
    template: ToolCall,
    offers: Mutex<HashMap<PermitId, Offer>>,
}

impl ExecutorTools {
    /// Calls through this executor, with the phase and approval mode of `template`. Its idempotency key is for the writes
    /// alone; each tool gets one of its own from it.
    pub fn new(executor: Executor, template: ToolCall) -> Self {
        Self { executor, template, offers: Mutex::default() }
    }

    fn tool_call(&self, call: NativeCall, dry_run: bool) -> ToolCall {
        let signs = self.executor.catalog().get(call.tool).is_some_and(|entry| entry.def.meta.signs());
        let key = self.template.idempotency_key.as_ref().filter(|_| signs);
        ToolCall {
            tool: call.tool.to_owned(),
            input: ToolInput::Json(Value::Object(call.params)),
            idempotency_key: key.map(|key| format!("{key}:{}", call.tool)),
            // A read takes no notice of it, and a change of records is refused as a dry run.
            dry_run: dry_run || self.template.dry_run,
            ..self.template.clone()
        }
    }
}

impl NativeTools for ExecutorTools {
    fn executor(&self) -> &Executor {
        &self.executor
    }

    fn call(&self, call: NativeCall, dry_run: bool) -> BoxFuture<'_, ToolResponse> {
        Box::pin(self.executor.call(self.tool_call(call, dry_run)))
    }

    fn hold(&self, call: NativeCall) -> BoxFuture<'_, ToolResponse> {
        let call = self.tool_call(call, false);
        Box::pin(async move {
            let offer = match self.executor.offer(call).await {
                PreviewResult::Held(offer) => *offer,
                PreviewResult::Over(response) => return *response,
            };
            let outcome = offer.preview().permit.expected_outcome.clone();
            let response = ToolResponse {
                call_id: offer.call_id(),
                status: CallStatus::Simulated,
                data: Some(offer.to_json()),
                error: None,
                decision_hints: None,
                explanation: Some(format!("{outcome}; valid until its permit expires")),
            };
            let mut offers = self.offers.lock();
            // Expired offers end by themselves.
            offers.retain(|_, held| !held.is_over());
            offers.insert(offer.permit_id(), offer);
            response
        })
    }

    fn commit(&self, held: HeldCall) -> BoxFuture<'_, ToolResponse> {
        Box::pin(async move {
            let offer = self.offers.lock().remove(&held.permit_id);
            match offer {
                Some(offer) if offer.preview().permit.simulation_hash == held.simulation_hash => offer.commit().await,
                Some(offer) => {
                    offer.withdraw().await;
                    self.failed(ToolError::new(ErrorCode::PermitMismatch, "the simulation hash is another one"))
                }
                None => self.failed(self.no_offer(held.permit_id)),
            }
        })
    }

    fn withdraw(&self, held: HeldCall) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let offer = self.offers.lock().remove(&held.permit_id);
            if let Some(offer) = offer {
                offer.withdraw().await;
            }
        })
    }
}

impl ExecutorTools {
    /// Name of the tool whose write is held.
    pub fn tool_of(&self, held: HeldCall) -> Option<&'static str> {
        self.offers.lock().get(&held.permit_id).map(|offer| offer.preview().payload.proposal().tool.name)
    }

    fn failed(&self, error: ToolError) -> ToolResponse {
        let status = if error.code().is_denial() { CallStatus::Blocked } else { CallStatus::Error };
        ToolResponse::failed(self.executor.new_call_id(), status, error)
    }

    /// Reason for which no offer is open under a permit.
    fn no_offer(&self, permit_id: PermitId) -> ToolError {
        match self.executor.permit_was_used(permit_id) {
            Ok(true) => ToolError::new(ErrorCode::PermitConsumed, format_args!("permit {permit_id} was already used")),
            Ok(false) => ToolError::new(
                ErrorCode::PermitExpired,
                format_args!("no offer is open under {permit_id}: it was withdrawn or has expired"),
            ),
            Err(error) => error,
        }
    }
}
