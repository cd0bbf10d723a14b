//! Strict parser for a quote service's answer, which must match the request. The format is a classic quote of Uniswap's
//! Trading API, which the sidecar also uses.
//!
//! A claim is not a quote yet: only its choice of pools is used, and all amounts are recomputed (`quote::rebuilt`).

use std::collections::BTreeSet;
use std::str::FromStr as _;

use alloy::primitives::{Address, U256};
use serde_json::Value;

use super::pool::FixedAmount;
use super::routing::{MAX_HOPS, MAX_PATHS, NamedPath};
use bardo_base::text::SafeText;

/// Maximum number of intermediate tokens over all paths. The cost of reading pools grows with the square of it.
const MAX_INTERMEDIATE_TOKENS: usize = 12;
/// Maximum length of quoted text from an answer, in characters.
const MAX_QUOTED_CHARS: usize = 80;

/// Request for a quote, whose values the answer must repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRequest {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Token that is paid.
    pub token_in: Address,
    /// Token that is received.
    pub token_out: Address,
    /// Fixed amount of the trade.
    pub exact: FixedAmount,
    /// Account that trades.
    pub swapper: Address,
}

/// Unverified quote of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuoteClaim {
    /// Claimed input, in raw units.
    pub amount_in: U256,
    /// Claimed output, in raw units.
    pub amount_out: U256,
    /// Paths through pools, each with its share of the fixed amount.
    pub paths: Vec<NamedPath>,
    /// Intermediate tokens, sorted by address.
    pub tokens: Vec<Address>,
    /// Block number of the claim, if stated.
    pub block: Option<u64>,
}

/// Error for an answer that does not match the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimMismatch {
    /// Field that is missing or of another type.
    #[error("\"{0}\" is missing or invalid; expected: {1}")]
    Field(&'static str, &'static str),
    /// Field that differs from the request.
    #[error("\"{field}\" is {found}, but {expected} was requested")]
    Other {
        /// Name of the field.
        field: &'static str,
        /// Value in the answer.
        found: SafeText,
        /// Value in the request.
        expected: String,
    },
    /// Part of the output for another recipient.
    #[error("it gives part of the output to {0}, which was not requested")]
    Share(SafeText),
    /// Unsupported protocol on the route.
    #[error("it goes through a {0}, which is not supported here")]
    Protocol(SafeText),
    /// Too many paths, pools or tokens.
    #[error("it has more {0} than are supported")]
    TooMany(&'static str),
}

impl ClaimMismatch {
    fn other(field: &'static str, found: impl std::fmt::Display, expected: impl std::fmt::Display) -> Self {
        Self::Other { field, found: quoted(&found.to_string()), expected: expected.to_string() }
    }
}

fn quoted(text: &str) -> SafeText {
    SafeText::clean(text, MAX_QUOTED_CHARS)
}

/// Returns the value at `path`; `None` if it is missing or null.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(*name)).filter(|value| !value.is_null())
}

/// Parses an amount in raw units, given as decimal digits.
pub(super) fn amount(value: Option<&Value>, field: &'static str) -> Result<U256, ClaimMismatch> {
    let text = value.and_then(Value::as_str).filter(|text| (1..=78).contains(&text.len()));
    let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits
        .and_then(|digits| U256::from_str_radix(digits, 10).ok())
        .ok_or(ClaimMismatch::Field(field, "amount in decimal digits"))
}

/// Parses an address of 40 hexadecimal digits, with or without 0x.
pub(super) fn address(value: Option<&Value>, field: &'static str) -> Result<Address, ClaimMismatch> {
    let text = value.and_then(Value::as_str).filter(|text| matches!(text.len(), 40 | 42));
    text.and_then(|text| Address::from_str(text).ok()).ok_or(ClaimMismatch::Field(field, "address"))
}

/// Checks that a chain id matches the request.
pub(super) fn check_chain(value: Option<&Value>, field: &'static str, expected: u64) -> Result<(), ClaimMismatch> {
    let found = value.and_then(Value::as_u64).ok_or(ClaimMismatch::Field(field, "chain id"))?;
    if found == expected { Ok(()) } else { Err(ClaimMismatch::other(field, found, expected)) }
}

/// Checks that an address matches the request.
pub(super) fn check_address(
    value: Option<&Value>,
    field: &'static str,
    expected: Address,
) -> Result<(), ClaimMismatch> {
    let found = address(value, field)?;
    if found == expected { Ok(()) } else { Err(ClaimMismatch::other(field, found, expected)) }
}

/// Parses a classic quote.
///
/// # Errors
/// Returns the first problem as [`ClaimMismatch`].
pub fn parse(quote: &Value, expected: &ClaimRequest) -> Result<QuoteClaim, ClaimMismatch> {
    check_chain(at(quote, &["chainId"]), "chainId", expected.chain_id)?;
    check_address(at(quote, &["input", "token"]), "input.token", expected.token_in)?;
    check_address(at(quote, &["output", "token"]), "output.token", expected.token_out)?;
    let kind = match expected.exact {
        FixedAmount::In(_) => "EXACT_INPUT",
        FixedAmount::Out(_) => "EXACT_OUTPUT",
    };
    if let Some(found) = at(quote, &["tradeType"]).map(|found| found.as_str().unwrap_or_default())
        && found != kind
    {
        return Err(ClaimMismatch::other("tradeType", found, kind));
    }
    for (field, path) in [("swapper", &["swapper"] as &[&str]), ("output.recipient", &["output", "recipient"])] {
        if let Some(found) = at(quote, path) {
            check_address(Some(found), field, expected.swapper)?;
        }
    }
    check_shares(quote, expected.swapper)?;
    let amount_in = amount(at(quote, &["input", "amount"]), "input.amount")?;
    let amount_out = amount(at(quote, &["output", "amount"]), "output.amount")?;
    let (field, fixed) = match expected.exact {
        FixedAmount::In(_) => ("input.amount", amount_in),
        FixedAmount::Out(_) => ("output.amount", amount_out),
    };
    if fixed != expected.exact.amount() {
        return Err(ClaimMismatch::other(field, fixed, expected.exact.amount()));
    }
    let listed =
        at(quote, &["route"]).and_then(Value::as_array).ok_or(ClaimMismatch::Field("route", "list of paths"))?;
    if listed.len() > MAX_PATHS {
        return Err(ClaimMismatch::TooMany("paths"));
    }
    let mut tokens = BTreeSet::new();
    let paths = listed.iter().map(|listed| parse_path(listed, expected, &mut tokens)).collect::<Result<_, _>>()?;
    tokens.remove(&expected.token_in);
    tokens.remove(&expected.token_out);
    if tokens.len() > MAX_INTERMEDIATE_TOKENS {
        return Err(ClaimMismatch::TooMany("tokens"));
    }
    let block = at(quote, &["blockNumber"]).and_then(|found| found.as_u64().or_else(|| found.as_str()?.parse().ok()));
    Ok(QuoteClaim { amount_in, amount_out, paths, tokens: tokens.into_iter().collect(), block })
}

/// Checks that no recipient other than the swapper gets a part of the output.
fn check_shares(quote: &Value, swapper: Address) -> Result<(), ClaimMismatch> {
    let is_share = |value: &Value| match value {
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => text.bytes().any(|byte| byte != b'0'),
        Value::Null => false,
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => true,
    };
    if ["portionBips", "portionAmount"].iter().any(|name| quote.get(*name).is_some_and(is_share)) {
        let who = at(quote, &["portionRecipient"]).and_then(Value::as_str).unwrap_or("an undeclared recipient");
        return Err(ClaimMismatch::Share(quoted(who)));
    }
    let outputs = at(quote, &["aggregatedOutputs"]).and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    for output in outputs {
        let who = address(at(output, &["recipient"]), "aggregatedOutputs.recipient")?;
        if who != swapper {
            return Err(ClaimMismatch::Share(quoted(&who.to_string())));
        }
    }
    Ok(())
}

/// Parses one path, and adds its tokens to `tokens`.
fn parse_path(
    listed: &Value,
    expected: &ClaimRequest,
    tokens: &mut BTreeSet<Address>,
) -> Result<NamedPath, ClaimMismatch> {
    let hops = listed.as_array().ok_or(ClaimMismatch::Field("route", "list of paths"))?;
    if hops.len() > MAX_HOPS {
        return Err(ClaimMismatch::TooMany("pools on a path"));
    }
    let mut pools = Vec::with_capacity(hops.len());
    for hop in hops {
        let kind = at(hop, &["type"]).and_then(Value::as_str).ok_or(ClaimMismatch::Field("route.type", "word"))?;
        if !matches!(kind, "v2-pool" | "v3-pool") {
            return Err(ClaimMismatch::Protocol(quoted(kind)));
        }
        pools.push(address(at(hop, &["address"]), "route.address")?.into());
        tokens.insert(address(at(hop, &["tokenIn", "address"]), "route.tokenIn.address")?);
        tokens.insert(address(at(hop, &["tokenOut", "address"]), "route.tokenOut.address")?);
    }
    let part = match expected.exact {
        FixedAmount::In(_) => amount(hops.first().and_then(|hop| at(hop, &["amountIn"])), "route.amountIn")?,
        FixedAmount::Out(_) => amount(hops.last().and_then(|hop| at(hop, &["amountOut"])), "route.amountOut")?,
    };
    Ok(NamedPath { pools, amount: part })
}

/// Serializes `route` as a classic quote that [`parse`] accepts.
pub fn to_json(route: &super::routing::Route, expected: &ClaimRequest, block: u64) -> Value {
    let token = |address: Address| serde_json::json!({ "address": address, "chainId": expected.chain_id });
    let path = |leg: &super::routing::RouteLeg| {
        let last = leg.hops.len().saturating_sub(1);
        let hop = |(at, hop): (usize, &super::routing::Hop)| {
            let kind = match hop.version {
                super::pool::ProtocolVersion::V2 => "v2-pool",
                super::pool::ProtocolVersion::V3 => "v3-pool",
                super::pool::ProtocolVersion::V4 => "v4-pool",
            };
            let mut entry = serde_json::json!({
                "type": kind, "address": hop.pool.to_string(), "fee": hop.fee.to_string(),
                "tokenIn": token(hop.token_in), "tokenOut": token(hop.token_out),
            });
            if let Value::Object(fields) = &mut entry {
                if at == 0 {
                    fields.insert("amountIn".to_owned(), leg.amount_in.to_string().into());
                }
                if at == last {
                    fields.insert("amountOut".to_owned(), leg.amount_out.to_string().into());
                }
            }
            entry
        };
        Value::from(leg.hops.iter().enumerate().map(hop).collect::<Vec<_>>())
    };
    serde_json::json!({
        "chainId": expected.chain_id,
        "swapper": expected.swapper,
        "tradeType": if matches!(expected.exact, FixedAmount::In(_)) { "EXACT_INPUT" } else { "EXACT_OUTPUT" },
        "input": { "token": expected.token_in, "amount": route.amount_in.to_string() },
        "output": { "token": expected.token_out, "amount": route.amount_out.to_string(), "recipient": expected.swapper },
        "route": route.legs.iter().map(path).collect::<Vec<_>>(),
        "gasUseEstimate": route.gas_units.to_string(),
        "blockNumber": block.to_string(),
        "txFailureReasons": [],
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::uniswap::pool_id::PoolId;

    fn claim_request() -> ClaimRequest {
        ClaimRequest {
            chain_id: 31_337,
            token_in: Address::repeat_byte(1),
            token_out: Address::repeat_byte(2),
            exact: FixedAmount::In(U256::from(1_000)),
            swapper: Address::repeat_byte(9),
        }
    }

    /// Classic quote in the format of the API's documentation: two paths, one of them through a third token.
    fn quote() -> Value {
        let [one, two, three] = [1, 2, 3].map(|byte| json!({"address": Address::repeat_byte(byte), "chainId": 31_337}));
        json!({
            "chainId": 31_337, "swapper": Address::repeat_byte(9), "tradeType": "EXACT_INPUT", "blockNumber": "77",
            "input": {"token": Address::repeat_byte(1), "amount": "1000"},
            "output": {"token": Address::repeat_byte(2), "amount": "2000", "recipient": Address::repeat_byte(9)},
            "aggregatedOutputs": [{"recipient": Address::repeat_byte(9), "amount": "2000", "bps": 10_000}],
            "portionBips": 0, "portionAmount": "0",
            "route": [
                [{"type": "v3-pool", "address": Address::repeat_byte(0x31), "tokenIn": one, "tokenOut": two,
                  "amountIn": "700", "amountOut": "1400"}],
                [{"type": "v2-pool", "address": Address::repeat_byte(0x32), "tokenIn": one, "tokenOut": three,
                  "amountIn": "300"},
                 {"type": "v3-pool", "address": Address::repeat_byte(0x33), "tokenIn": three, "tokenOut": two,
                  "amountOut": "600"}],
            ],
        })
    }

    #[test]
    fn a_documented_quote_is_parsed() {
        let claim = parse(&quote(), &claim_request()).unwrap();
        assert_eq!((claim.amount_in, claim.amount_out), (U256::from(1_000), U256::from(2_000)));
        assert_eq!(claim.tokens, [Address::repeat_byte(3)]);
        assert_eq!(claim.paths.iter().map(|path| path.amount.to::<u64>()).collect::<Vec<_>>(), [700, 300]);
        assert_eq!(claim.paths[1].pools, [0x32, 0x33].map(|byte| PoolId::from(Address::repeat_byte(byte))));
        assert_eq!(claim.block, Some(77));
    }

    #[test]
    fn a_mismatch_with_the_request_is_refused_and_names_its_field() {
        let five_times = |text: &str| Value::from(text.repeat(5));
        for (pointer, value, says) in [
            ("/chainId", json!(1), "\"chainId\" is 1, but 31337"),
            ("/chainId", json!("31337"), "expected: chain id"),
            ("/input/token", json!(Address::repeat_byte(7)), "\"input.token\""),
            ("/output/token", json!(Address::repeat_byte(7)), "\"output.token\""),
            ("/output/recipient", json!(Address::repeat_byte(7)), "\"output.recipient\""),
            ("/swapper", json!(Address::repeat_byte(7)), "\"swapper\""),
            ("/tradeType", json!("EXACT_OUTPUT"), "\"tradeType\""),
            ("/input/amount", json!("999"), "\"input.amount\" is 999, but 1000"),
            ("/input/amount", json!(1_000), "decimal digits"),
            ("/output/amount", json!("0x7d0"), "decimal digits"),
            ("/output/amount", five_times("99999999999999999999"), "decimal digits"),
            ("/portionBips", json!(25), "part of the output"),
            ("/portionAmount", json!("1"), "part of the output"),
            ("/aggregatedOutputs/0/recipient", json!(Address::repeat_byte(7)), "part of the output"),
            ("/route", json!("none"), "expected: list of paths"),
            ("/route/0", json!(null), "expected: list of paths"),
            ("/route/0/0/type", json!("v4-pool"), "v4-pool"),
            ("/route/0/0/address", json!("0x12"), "address"),
            ("/route/1/0/amountIn", json!(null), "route.amountIn"),
            ("/route/1/0/tokenOut", json!(5), "route.tokenOut.address"),
        ] {
            let mut quote = quote();
            *quote.pointer_mut(pointer).unwrap() = value.clone();
            let wrong = parse(&quote, &claim_request()).expect_err(pointer).to_string();
            assert!(wrong.contains(says), "{pointer} {value}: {wrong}");
        }
        let mut long = quote();
        let path = long["route"][0].clone();
        long["route"] = json!(vec![path; 9]);
        assert_eq!(parse(&long, &claim_request()), Err(ClaimMismatch::TooMany("paths")));
        let hop = quote()["route"][0][0].clone();
        long["route"] = json!([vec![hop; 4]]);
        assert_eq!(parse(&long, &claim_request()), Err(ClaimMismatch::TooMany("pools on a path")));
        // Text from an answer is cleaned before it is shown.
        let mut escape = quote();
        escape["tradeType"] = json!("\u{1b}[2Jgone");
        assert!(!parse(&escape, &claim_request()).unwrap_err().to_string().contains('\u{1b}'));
    }
}
