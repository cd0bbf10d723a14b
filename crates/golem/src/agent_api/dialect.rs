//! The native tools as a Golem's dialect calls them: with the rights of its eight tools and no more. Writes go through
//! preview and commit, reads through the executor of its role.

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::action_catalog::ACTION_KINDS;
use super::answers::lacking;
use super::session::AgentSession;
use bardo_base::error::ToolError;
use bardo_base::model::CapabilityTier;
use golem_tools::dialect::{HeldCall, NativeCall, NativeTools};
use golem_tools::engine::{CallStatus, Executor, ToolCall, ToolResponse};

/// Native tools of one Golem.
#[derive(Debug)]
pub struct AgentTools(AgentSession);

impl AgentTools {
    /// Calls through the eight tools of this session.
    pub fn new(agent: AgentSession) -> Self {
        Self(agent)
    }

    /// The preview of a write, by the kind of action that it is.
    async fn preview(&self, call: NativeCall) -> ToolResponse {
        let Some(kind) = ACTION_KINDS.iter().find(|kind| kind.acts == call.tool) else {
            return self.refused(lacking(call.tool, &[call.tool], self.0.config()));
        };
        self.0.call("preview_action", json!({"kind": kind.name, "params": call.params})).await
    }

    async fn commit_held(&self, held: HeldCall) -> ToolResponse {
        let HeldCall { permit_id, simulation_hash } = held;
        self.0.call("commit_action", json!({"permit_id": permit_id, "simulation_hash": simulation_hash})).await
    }

    async fn run(&self, call: NativeCall, dry_run: bool) -> ToolResponse {
        let tool = call.tool;
        let meta = self.0.catalog().get(tool).map(|entry| entry.def.meta);
        match meta {
            Some(meta) if meta.capability == CapabilityTier::Read => {
                self.0.executor().call(self.0.call_of(tool, Value::Object(call.params))).await
            }
            Some(meta) if meta.signs() && dry_run => match self.0.refuse_if_stopped(false) {
                Ok(()) => {
                    let call = self.0.call_of(tool, Value::Object(call.params));
                    self.0.executor().call(ToolCall { dry_run, ..call }).await
                }
                Err(error) => self.refused(error),
            },
            // A change of records acts at once, and has no permit.
            Some(_) | None => {
                let preview = self.preview(call).await;
                match HeldCall::of(&preview) {
                    Some(held) => self.commit_held(held).await,
                    None => preview,
                }
            }
        }
    }

    fn refused(&self, error: ToolError) -> ToolResponse {
        ToolResponse::failed(self.0.executor().new_call_id(), CallStatus::Blocked, error)
    }
}

impl NativeTools for AgentTools {
    fn executor(&self) -> &Executor {
        self.0.executor()
    }

    fn call(&self, call: NativeCall, dry_run: bool) -> BoxFuture<'_, ToolResponse> {
        Box::pin(self.run(call, dry_run))
    }

    fn hold(&self, call: NativeCall) -> BoxFuture<'_, ToolResponse> {
        Box::pin(self.preview(call))
    }

    fn commit(&self, held: HeldCall) -> BoxFuture<'_, ToolResponse> {
        Box::pin(self.commit_held(held))
    }

    fn withdraw(&self, held: HeldCall) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // An offer that is gone needs no withdrawal.
            let _withdrawn = self.0.call("cancel_action", json!({"permit_id": held.permit_id})).await;
        })
    }
}
