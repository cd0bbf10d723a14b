//! The result of a call as a short report for a terminal. `--json` and a pipe get the envelope itself.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::without_controls;
use bardo_base::display::{readable, violation_words};
use bardo_base::format::{dollars, dollars_left, dollars_used, grouped, price, signed_percent, utc};
use bardo_base::text::width;
use bardo_base::units::Usd;
use golem_tools::dialect::DialectResponse;
use golem_tools::engine::{CallStatus, ToolResponse};

/// Columns of a line of text.
const LINE_CHARS: usize = 100;
/// Digits of an amount after the decimal point.
const PLACES: usize = 6;
/// The longest value of a field; longer ones, such as calldata, are cut in the middle.
const VALUE_CHARS: usize = 76;
/// The longest sentence of a field.
const SENTENCE_CHARS: usize = 400;
/// The longest cell of a table.
const CELL_CHARS: usize = 24;
/// The longest line of a table.
const TABLE_CHARS: usize = LINE_CHARS + 20;
/// Rows of a list that are printed field by field where a table has no room for their columns.
const MAX_RECORDS: usize = 3;
/// Rows of a list that are printed.
const MAX_ROWS: usize = 20;
/// Depth to which nested objects are printed.
const MAX_DEPTH: usize = 3;

/// The report of one call of `tool`. Texts of a response can come from chains and services, so control and format
/// characters are escaped, as JSON escapes them.
pub(super) fn of_call(tool: &str, response: &ToolResponse) -> String {
    let (mark, outcome) = outcome(response.status);
    let mut text = format!("{mark} {tool}: {outcome}\n");
    // The list of violated rules says what the explanation says.
    let listed = response.error.as_ref().is_some_and(|error| !error.violations().is_empty());
    if let Some(explanation) = response.explanation.as_deref().filter(|_| !listed) {
        paragraph(&mut text, &readable(explanation, PLACES), "");
    }
    if let Some(error) = &response.error {
        for violation in error.violations() {
            let passes = match violation.would_pass.as_str() {
                "" => String::new(),
                passes => format!("; would pass: {}", readable(passes, PLACES)),
            };
            paragraph(&mut text, &format!("{}{passes}", violation_words(&violation)), "- ");
        }
        paragraph(&mut text, error.suggestion(), "→ ");
        _ = writeln!(text, "Error code {}.", error.code());
    }
    if let Some(Value::Object(data)) = &response.data {
        text.push('\n');
        fields(&mut text, data, 1);
    }
    _ = writeln!(text, "\nCall {}. --json prints the whole response.", response.call_id);
    without_controls(&text)
}

/// The report of one call of a dialect's tool.
pub(super) fn of_dialect(tool: &str, response: &DialectResponse) -> String {
    let (mark, outcome) = outcome(response.status);
    let mut text = format!("{mark} {tool}: {outcome}\n");
    if let Some(explanation) = response.explanation.as_deref() {
        paragraph(&mut text, &readable(explanation, PLACES), "");
    }
    if let Some(error) = &response.error {
        if let Some(suggestion) = &error.suggestion {
            paragraph(&mut text, suggestion, "→ ");
        }
        _ = writeln!(text, "Error code {}.", error.code());
    }
    if let Some(Value::Object(data)) = &response.data {
        text.push('\n');
        fields(&mut text, data, 1);
    }
    text.push_str("\n--json prints the whole response.\n");
    without_controls(&text)
}

/// The mark and the words of a status.
fn outcome(status: CallStatus) -> (char, &'static str) {
    match status {
        CallStatus::Success => ('✓', "done"),
        CallStatus::Simulated => ('○', "simulated, nothing was signed"),
        CallStatus::Partial => ('▸', "under way"),
        CallStatus::Blocked => ('✗', "blocked by a rule"),
        CallStatus::Rejected => ('✗', "not approved"),
        CallStatus::Error => ('✗', "failed"),
    }
}

/// Appends the text, wrapped, with `lead` before its first line and as much space before the others.
fn paragraph(text: &mut String, words: &str, lead: &str) {
    let indent = lead.chars().count();
    text.push_str(lead);
    let mut column = indent;
    for (index, word) in words.split_whitespace().enumerate() {
        let columns = width(word);
        if index > 0 && column + 1 + columns > LINE_CHARS {
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            column = indent;
        } else if index > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += columns;
    }
    text.push('\n');
}

/// Appends the fields of an object, one a line; nulls and empty lists are left out.
fn fields(text: &mut String, object: &Map<String, Value>, depth: usize) {
    let indent = "  ".repeat(depth);
    let labels = object
        .iter()
        .filter(|(name, value)| figure(name, value).is_some())
        .map(|(name, _)| label(name).chars().count());
    let widest = labels.max().unwrap_or(0);
    for (name, value) in object {
        // The same figure in a token and in dollars.
        let is_twin = name
            .strip_suffix("_usd")
            .is_some_and(|bare| object.keys().any(|other| label(other) == label(bare) && other != name));
        let label = if is_twin { format!("{} in dollars", label(name)) } else { label(name) };
        match (figure(name, value), value) {
            (Some(line), _) => {
                let gap = " ".repeat(widest.saturating_sub(label.chars().count()));
                // Sentences are whole; only what nobody reads to its end, such as calldata, is cut.
                let most = if line.contains(' ') { SENTENCE_CHARS } else { VALUE_CHARS };
                _ = writeln!(text, "{indent}{label}{gap}  {}", cut(&line, most));
            }
            (None, Value::Object(inner)) if !inner.is_empty() && depth < MAX_DEPTH => {
                _ = writeln!(text, "{indent}{label}");
                fields(text, inner, depth + 1);
            }
            (None, Value::Array(rows)) if !rows.is_empty() && depth < MAX_DEPTH => {
                _ = writeln!(text, "{indent}{label}");
                table(text, rows, depth + 1);
            }
            _ => {}
        }
    }
}

/// Fields that stand first in a table, since the right end of a long line is left out.
const FIRST: [&str; 10] =
    ["chain", "position_id", "agent_id", "name", "token", "symbol", "amount", "value", "value_usd", "price_usd"];

/// Appends a list of objects as a table of their plain fields, and below it each list of objects that a row contains.
fn table(text: &mut String, rows: &[Value], depth: usize) {
    let indent = "  ".repeat(depth);
    let mut columns: Vec<(&str, usize)> = Vec::new();
    let shown: Vec<&Map<String, Value>> = rows.iter().take(MAX_ROWS).filter_map(Value::as_object).collect();
    for (name, value) in shown.iter().flat_map(|row| row.iter()) {
        let Some(line) = figure(name, value) else { continue };
        let columns_needed = width(&line).min(CELL_CHARS).max(label(name).chars().count());
        match columns.iter_mut().find(|(known, _)| *known == name) {
            Some((_, widest)) => *widest = columns_needed.max(*widest),
            None => columns.push((name, columns_needed)),
        }
    }
    let whole = columns.iter().fold(indent.len(), |sum, (_, wide)| sum + wide + 2);
    if whole > TABLE_CHARS && rows.len() <= MAX_RECORDS {
        for (at, row) in shown.iter().enumerate() {
            if at > 0 {
                text.push('\n');
            }
            fields(text, row, depth);
        }
        return;
    }
    columns.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    // Columns that would make the line too long are left out from the right.
    let mut taken = indent.len();
    let mut left_out: Vec<String> = Vec::new();
    columns.retain(|(name, wide)| {
        taken += wide + 2;
        let fits = taken <= TABLE_CHARS;
        if !fits {
            left_out.push(label(name).to_lowercase());
        }
        fits
    });
    let mut line = |cells: Vec<String>| {
        let cells: Vec<String> = cells
            .iter()
            .zip(&columns)
            .map(|(cell, (_, wide))| format!("{cell}{}", " ".repeat(wide.saturating_sub(width(cell)))))
            .collect();
        _ = writeln!(text, "{indent}{}", cells.join("  ").trim_end());
    };
    line(columns.iter().map(|(name, _)| label(name)).collect());
    for row in &shown {
        let cell = |name: &str| row.get(name).and_then(|value| figure(name, value));
        let cell = |name: &str| cell(name).map_or_else(String::new, |cell| cut(&cell, CELL_CHARS));
        line(columns.iter().map(|(name, _)| cell(name)).collect());
    }
    if rows.len() > MAX_ROWS {
        _ = writeln!(text, "{indent}… and {} more", rows.len() - MAX_ROWS);
    }
    if !left_out.is_empty() {
        let words = format!("not shown for lack of room: {}", left_out.join(", "));
        _ = writeln!(text, "{indent}{}", cut(&words, LINE_CHARS));
    }
    for row in shown {
        let title = FIRST.iter().find_map(|name| row.get(*name)?.as_str());
        for (name, value) in row {
            let Some(inner) = value.as_array().filter(|inner| inner.iter().any(Value::is_object)) else { continue };
            let of = title.map_or_else(String::new, |title| format!(" of {}", cut(title, CELL_CHARS)));
            _ = writeln!(text, "{indent}{}{of}", label(name));
            table(text, inner, depth + 1);
        }
    }
}

/// Value of a field that fits on a line, with its figures as a person reads them: dollars to cents, amounts to useful
/// digits, basis points as a percentage, Unix times as dates. `None` as in [`one_line`].
fn figure(name: &str, value: &Value) -> Option<String> {
    let line = one_line(value)?;
    if let Some(points) = value.as_i64().filter(|_| name.ends_with("_bps")) {
        return Some(signed_percent(points).trim_start_matches('+').to_owned());
    }
    if let Some(number) = value.as_u64() {
        return Some(match name {
            "gas_used" | "block_number" | "block" => grouped(&line),
            _ if is_time(name) && number >= FIRST_MILLIS => utc(number),
            _ if is_time(name) && number >= FIRST_SECONDS => utc(number.saturating_mul(1_000)),
            _ if name.ends_with("_pct") => format!("{line} %"),
            _ => line,
        });
    }
    Some(match line.parse::<Usd>() {
        // What is left of a limit is never more than that, and what is used never less.
        Ok(value) if name.ends_with("left_usd") => dollars_left(value),
        Ok(value) if name.ends_with("used_usd") => dollars_used(value),
        // As the sentences of the tools: a price is not rounded up.
        Ok(value) if name.ends_with("price_usd") => price(value),
        Ok(value) if name.ends_with("_usd") => dollars(value),
        Ok(_) if name.contains("amount") => readable(&line, PLACES),
        Ok(_) if name.ends_with("_pct") => format!("{line} %"),
        Ok(_) | Err(_) => line,
    })
}

/// The least numbers that are shown as times, in seconds and in milliseconds: 2001-09-09 and the same day. Smaller ones
/// are durations.
const FIRST_SECONDS: u64 = 1_000_000_000;
const FIRST_MILLIS: u64 = FIRST_SECONDS * 1_000;

/// Returns true for a field that holds a time.
fn is_time(name: &str) -> bool {
    matches!(name, "deadline" | "timestamp" | "expires" | "at" | "since")
        || ["_at", "_deadline", "_timestamp"].iter().any(|end| name.ends_with(end))
}

/// A value that fits on a line: a word, a number, or a list of those. `None` for null, objects and empty lists.
fn one_line(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Object(_) => None,
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) => Some("no".to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(words) => (!words.is_empty()).then(|| words.split_whitespace().collect::<Vec<_>>().join(" ")),
        Value::Array(all) => {
            let words: Option<Vec<String>> = all.iter().map(one_line).collect();
            words.filter(|words| !words.is_empty()).map(|words| words.join(", "))
        }
    }
}

/// A field's name in words: `amount_out_min` is "Amount out min". The unit of dollars and percentages stands with the
/// value.
fn label(name: &str) -> String {
    let name = ["_usd", "_bps", "_pct"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    let words: Vec<&str> = name
        .split('_')
        .map(|word| match word {
            "id" => "ID",
            "url" => "URL",
            "tx" => "transaction",
            other => other,
        })
        .collect();
    let joined = words.join(" ");
    let mut letters = joined.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Shortens the text to at most `most` characters: `…` replaces its middle. The ends of addresses and hashes tell them
/// apart.
fn cut(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_owned();
    }
    let head = most.saturating_sub(1) * 2 / 3;
    let tail = most.saturating_sub(1 + head);
    letters.iter().take(head).chain(&['…']).chain(letters.iter().skip(letters.len() - tail)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use bardo_base::error::{ErrorCode, FigureUnit, RuleFigures, ToolError, Violation};
    use bardo_base::model::RuleName;

    fn response(status: CallStatus, data: Value) -> ToolResponse {
        ToolResponse {
            call_id: "00000000000000000000000001".parse().unwrap(),
            status,
            data: Some(data),
            error: None,
            decision_hints: None,
            explanation: Some("1.5 WETH gives about 5,115 USDC.".to_owned()),
        }
    }

    #[test]
    fn a_list_within_a_row_is_a_table_of_its_own() {
        let data = json!({"chains": [
            {"block": 7, "chain": "ethereum", "balances": [
                {"address": null, "amount": "1.4", "token": "ETH", "value_usd": "4736.995"},
                {"address": "0xfD3d08FE6A8E959082f19C26C86519284977FAe5", "amount": "5000", "token": "USDC"},
            ]},
            {"block": 9, "chain": "base", "balances": []},
        ]});
        let shown = of_call("get_balances", &response(CallStatus::Success, data));
        let rows: Vec<&str> = shown.lines().skip(3).map(str::trim_end).collect();
        assert_eq!(
            rows[..8],
            [
                "  Chains",
                "    Chain     Block",
                "    ethereum  7",
                "    base      9",
                "    Balances of ethereum",
                "      Token  Amount  Value      Address",
                "      ETH    1.4     $4,737.00",
                "      USDC   5000               0xfD3d08FE6A8E9…4977FAe5",
            ],
            "{shown}"
        );
    }

    #[test]
    fn a_result_is_its_explanation_and_its_fields() {
        let data = json!({
            "amount_out": "5115.34", "gas_usd": "0.12", "note": null, "route": ["WETH", "USDC"], "matched": true,
            "pools": [{"fee": 500, "address": "0x88e6A0c2dDD26FEEb64F039a2c41296FcB3f5640"}, {"fee": 3000}],
            "limits": {"left_usd": "2500"},
        });
        assert_eq!(
            of_call("uniswap_get_quote", &response(CallStatus::Success, data)),
            "✓ uniswap_get_quote: done\n\
             1.5 WETH gives about 5,115 USDC.\n\
             \n\
             \x20 Amount out  5,115.34\n\
             \x20 Gas         $0.12\n\
             \x20 Limits\n\
             \x20   Left  $2,500.00\n\
             \x20 Matched     yes\n\
             \x20 Pools\n\
             \x20   Address                   Fee\n\
             \x20   0x88e6A0c2dDD26…cB3f5640  500\n\
             \x20                             3000\n\
             \x20 Route       WETH, USDC\n\
             \n\
             Call 00000000000000000000000001. --json prints the whole response.\n"
        );
    }

    #[test]
    fn times_and_percentages_are_written_out() {
        let data = json!({
            "deadline": 1_795_817_690, "expires_at": 1_795_817_690_000_u64, "since": 12, "gas_used": 138_295,
            "slippage_actual_bps": -4, "stop_loss_bps": 1_000, "price_impact_pct": 0.0008, "chain_id": 31_337,
        });
        let shown = of_call("get_transaction", &response(CallStatus::Success, data));
        let rows: Vec<_> =
            shown.lines().skip(3).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        // 2026-11-27 22:14:50 is 1,795,817,690 seconds after the epoch (`date -u -d @1795817690`).
        assert_eq!(
            rows[..8],
            [
                "Chain ID 31337",
                "Deadline 2026-11-27 22:14:50Z",
                "Expires at 2026-11-27 22:14:50Z",
                "Gas used 138,295",
                "Price impact 0.0008 %",
                "Since 12",
                "Slippage actual −0.04 %",
                "Stop loss 10.00 %",
            ],
            "{shown}"
        );
    }

    #[test]
    fn nothing_from_outside_reaches_the_terminal_as_a_command() {
        let data = json!({"symbol": "\u{1b}[2JUSDC\u{7}", "rows": [{"name": "\u{9b}31m\u{202e}x"}]});
        let mut hostile = response(CallStatus::Success, data);
        hostile.explanation = Some("paid\u{1b}]0;title\u{7} \u{200b}".to_owned());
        let text = of_call("search_tokens", &hostile);
        assert!(text.contains("USDC") && text.contains("paid"), "{text}");
        let harmless = |letter: char| matches!(letter, '\n') || !letter.is_control();
        assert!(text.chars().all(harmless) && !text.contains(['\u{202e}', '\u{200b}']), "{text:?}");
    }

    #[test]
    fn an_error_says_what_to_do() {
        let error = ToolError::new(ErrorCode::TokenNotFound, "no token `FOO` on ethereum");
        let failed = ToolResponse::failed("00000000000000000000000001".parse().unwrap(), CallStatus::Error, error);
        let text = of_call("get_token_info", &failed);
        let suggestion = ErrorCode::TokenNotFound.suggestion();
        assert!(text.starts_with("✗ get_token_info: failed\nno token `FOO` on ethereum\n"), "{text}");
        assert!(text.contains(&format!("→ {suggestion}\nError code TOKEN_NOT_FOUND.\n")), "{text}");
    }

    #[test]
    fn a_refusal_lists_its_rules_once_in_words_and_with_figures() {
        let figures =
            RuleFigures::new(FigureUnit::Usd, "5000", "20001.354346").leaving("485.189").freeing_in(Some(86_400));
        let violation = Violation::new(RuleName::MaxDailySpendUsd, "", "raw", "at most $485.18 now").with(figures);
        let error = ToolError::new(ErrorCode::SafetySpendingLimitExceeded, "spending_limit: max_daily_spend_usd: raw")
            .violating(&[violation]);
        let refused = ToolResponse::failed("00000000000000000000000001".parse().unwrap(), CallStatus::Blocked, error);
        let text = of_call("uniswap_execute_swap", &refused);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let rule =
            "- Day cap: $20,001.35 is above $5,000.00; $485.18 left, more in 1 day; would pass: at most $485.18 now";
        assert!(words.contains(rule) && !text.contains("max_daily"), "{text}");
    }

    #[test]
    fn no_line_is_longer_than_a_terminal_is_wide_and_long_lists_are_counted() {
        let rows: Vec<Value> = (0..30).map(|row| json!({"n": row, "text": "x".repeat(300)})).collect();
        let mut long =
            response(CallStatus::Simulated, json!({"calldata": format!("0x{}", "ab".repeat(400)), "rows": rows}));
        long.explanation = Some("word ".repeat(100));
        let text = of_call("t", &long);
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        assert!(text.contains("… and 10 more"), "{text}");
    }
}
