//! Errors and answers of the eight tools.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::action_catalog::ACTION_KINDS;
use super::session::AgentConfig;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{CallId, PermitId};
use bardo_base::text::{SafeText, nearest};
use golem_tools::engine::{CallStatus, CatalogEntry, ToolInput, ToolResponse};

/// Selects the parameters that a read tool knows.
pub(super) fn known_of(entry: &CatalogEntry, params: &Map<String, Value>) -> Value {
    let known = entry.input_schema["properties"].as_object();
    let has = |name: &str| known.is_some_and(|known| known.contains_key(name));
    // The executor takes either spelling of the chain.
    let kept = params.iter().filter(|(name, _)| match name.as_str() {
        "chain" | "chain_id" => has("chain") || has("chain_id"),
        name => has(name),
    });
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Error for an unknown kind of action, with the closest known name.
pub(super) fn no_kind(asked: &str) -> ToolError {
    let known: Vec<_> = ACTION_KINDS.iter().map(|kind| kind.name).collect();
    let near = nearest(asked, known.iter().copied());
    let what = format!("there is no action kind `{}`", SafeText::clean(asked, 40));
    let error = ToolError::new(ErrorCode::ValidationFailed, what).detail("parameter", "kind").detail("known", known);
    match near {
        Some(near) => error.suggest(format_args!("Did you mean `{near}`?")),
        None => error,
    }
}

/// Error for an action or query whose tools are missing: they do not exist, or the role does not have them.
pub(super) fn lacking(what: &str, missing: &[&str], config: &AgentConfig) -> ToolError {
    let exist = missing.iter().all(|tool| config.all.get(tool).is_some());
    let why = match exist {
        true => format!("which the role `{}` does not have", config.role),
        false => "which this version does not have".to_owned(),
    };
    ToolError::new(ErrorCode::ToolUnknown, format_args!("`{what}` needs {}, {why}", missing.join(", ")))
        .detail("lacks", missing.iter().map(|tool| Value::from(*tool)).collect::<Vec<_>>())
        .suggest("Choose another kind of action.")
}

/// Parses a permit id given by a brain.
///
/// # Errors
/// `VALIDATION_FAILED` with the parameter's name.
pub(super) fn permit_id(text: &str) -> Result<PermitId, ToolError> {
    text.parse().map_err(|error| {
        let what = format!("parameter `permit_id`: {error}");
        ToolError::new(ErrorCode::ValidationFailed, what).detail("parameter", "permit_id")
    })
}

/// Successful answer of one of the eight tools.
pub(super) fn success(call_id: CallId, data: Value, explanation: &str) -> ToolResponse {
    ToolResponse {
        call_id,
        status: CallStatus::Success,
        data: Some(data),
        error: None,
        decision_hints: None,
        explanation: Some(explanation.to_owned()),
    }
}

/// Parses the parameters of one of the eight tools.
///
/// # Errors
/// `VALIDATION_FAILED` with the path of the parameter.
pub(super) fn typed<T: DeserializeOwned>(params: Value) -> Result<T, ToolError> {
    let params = ToolInput::Json(params).into_object()?;
    serde_path_to_error::deserialize(params).map_err(|error| {
        let path = error.path().to_string();
        let at = if path == "." { String::new() } else { format!("parameter `{path}`: ") };
        ToolError::new(ErrorCode::ValidationFailed, SafeText::clean(&format!("{at}{}", error.inner()), 300))
    })
}
