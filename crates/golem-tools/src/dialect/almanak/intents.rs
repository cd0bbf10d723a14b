//! Intents: the words of `compile_intent` and its siblings, translated into calls of the action tools.

use serde_json::{Map, Value};

use super::super::{Arguments, DialectTool};
use super::{AlmanakSession, tool};
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::text::SafeText;
use bardo_base::units::BasisPoints;

/// Intent types and the tool that does each.
pub(super) const INTENTS: &[(&str, &str)] = &[
    ("swap", "swap_tokens"),
    ("lp_open", "open_lp_position"),
    ("lp_close", "close_lp_position"),
    ("supply", "supply_lending"),
    ("borrow", "borrow_lending"),
    ("repay", "repay_lending"),
    ("withdraw", "withdraw_lending"),
    ("bridge", "bridge_tokens"),
    ("wrap_native", "wrap_native"),
    ("unwrap_native", "unwrap_native"),
    ("vault_deposit", "deposit_vault"),
];

/// Parameters that an intent and its tool name differently: intent, name in the intent, name of the tool.
const RENAMED: &[(&str, &str, &str)] = &[
    ("swap", "from_token", "token_in"),
    ("swap", "to_token", "token_out"),
    ("lp_open", "amount0", "amount_a"),
    ("lp_open", "amount1", "amount_b"),
    ("lp_open", "range_lower", "price_lower"),
    ("lp_open", "range_upper", "price_upper"),
    ("borrow", "borrow_token", "token"),
    ("borrow", "borrow_amount", "amount"),
];

/// Parameters of an intent that stand for the amount `all` if they are true.
const WHOLE: &[(&str, &str)] = &[("repay", "repay_full"), ("withdraw", "withdraw_all")];

/// Parameter of an intent that names it and decides nothing.
const INTENT_ID: &str = "intent_id";

impl AlmanakSession {
    /// Translates an intent into a call of the tool that does it.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for an intent that Bardo has no action for, and for its parameters.
    pub(super) fn intended(
        &self,
        intent: &str,
        params: &Map<String, Value>,
        chain: &str,
    ) -> Result<(&'static DialectTool, Arguments), ToolError> {
        let asked = intent.trim().to_ascii_lowercase();
        let found =
            INTENTS.iter().find(|(name, _)| *name == asked).and_then(|(name, behind)| Some((*name, tool(behind)?)));
        let Some((name, tool)) = found else {
            let known: Vec<_> = INTENTS.iter().map(|(name, _)| *name).collect();
            let what = format_args!("`{}`; known: {}", SafeText::clean(intent, 40), known.join(", "));
            return Err(invalid("intent_type", &what));
        };
        let given = renamed(name, params.clone())?;
        let given = with_chain(tool, given, chain);
        Ok((tool, Arguments::read(tool, given, self.world())?))
    }
}

/// Gives the parameters of an intent the names of the tool.
fn renamed(intent: &str, mut given: Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
    given.remove(INTENT_ID);
    for (_, theirs, ours) in RENAMED.iter().filter(|(of, ..)| *of == intent) {
        if let Some(value) = given.remove(*theirs)
            && given.insert((*ours).to_owned(), value).is_some()
        {
            return Err(invalid("params", &format_args!("`{theirs}` and `{ours}` mean the same; leave one out")));
        }
    }
    for (_, whole) in WHOLE.iter().filter(|(of, _)| *of == intent) {
        match given.remove(*whole) {
            Some(Value::Bool(true)) => {
                given.insert("amount".to_owned(), Value::from("all"));
            }
            Some(Value::Bool(false)) | None => {}
            Some(_) => return Err(invalid("params", &format_args!("`{whole}`: expected true or false"))),
        }
    }
    if matches!(intent, "swap" | "bridge")
        && let Some(slippage) = given.remove("max_slippage")
    {
        given.insert("slippage_bps".to_owned(), Value::from(basis_points(&slippage)?));
    }
    if intent == "lp_open"
        && let Some(pool) = given.remove("pool")
    {
        let named = pool.as_str().unwrap_or_default();
        let mut parts = named.split('/');
        let (a, b, fee, more) = (parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(a), Some(b), None) = (a, b, more) else {
            return Err(invalid("params", &"`pool`: expected TOKEN/TOKEN/FEE, such as WETH/USDC/3000"));
        };
        for (name, value) in [("token_a", Some(a)), ("token_b", Some(b)), ("fee_tier", fee)] {
            if let Some(value) = value
                && given.insert(name.to_owned(), Value::from(value)).is_some()
            {
                return Err(invalid("params", &format_args!("`pool` and `{name}` say the same; leave one out")));
            }
        }
    }
    Ok(given)
}

/// Adds the chain of the planning tool under the name that the action has for it.
fn with_chain(tool: &DialectTool, mut given: Map<String, Value>, chain: &str) -> Map<String, Value> {
    let name = if tool.parameters.iter().any(|parameter| parameter.name == "chain") { "chain" } else { "from_chain" };
    given.entry(name).or_insert_with(|| Value::from(chain));
    given
}

/// Converts a slippage as a fraction, such as "0.005", into basis points.
fn basis_points(value: &Value) -> Result<u32, ToolError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let wrong = || invalid("params", &"`max_slippage`: expected a fraction in whole basis points, such as \"0.005\"");
    // A fraction of one is ten thousand basis points: the decimal point moves four places.
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() > 3 || fraction.len() > 4 || !digits(whole) || !digits(fraction) || text.is_empty() {
        return Err(wrong());
    }
    let points = format!("{whole}{fraction:0<4}").parse::<u32>().map_err(|_| wrong())?;
    BasisPoints::new(points).map(BasisPoints::get).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_slippage_is_a_fraction_in_whole_basis_points() {
        // One basis point is a ten-thousandth.
        for (fraction, points) in [
            (json!("0.005"), Some(50)),
            (json!("0.0001"), Some(1)),
            (json!("0.05000"), Some(500)),
            (json!("1"), Some(10_000)),
            (json!(0.03), Some(300)),
            (json!("0.00005"), None),
            (json!("-0.01"), None),
            (json!("1e-3"), None),
            (json!("2"), None),
            (json!(""), None),
            (json!(null), None),
        ] {
            assert_eq!(basis_points(&fraction).ok(), points, "{fraction}");
        }
    }
}
