//! Typed messages that an approval would sign, as an operator reads them: amounts in whole tokens, times as dates. The
//! console and the terminal show the same; the raw calls keep the figures as they are signed.

use alloy_primitives::aliases::U160;
use alloy_primitives::{Address, U256};

use super::{ActionAddress, ActionRequest, OrderDetails};
use crate::content::SignedMessage;
use bardo_base::format::{grouped, utc};
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;

/// Message that an approval would sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadableMessage {
    /// Type of the message and the contract that verifies it.
    pub heading: String,
    /// Names and values of the fields, in the order in which they are signed.
    pub fields: Vec<(String, String)>,
}

/// Tokens and addresses that the request knows by name.
struct KnownNames<'a> {
    tokens: Vec<KnownToken<'a>>,
    places: &'a [ActionAddress],
}

/// Token of an action, with what an amount of it needs.
struct KnownToken<'a> {
    address: Address,
    symbol: &'a SafeText,
    decimals: u8,
}

/// Messages inside the calls of an action, in order.
pub fn inside_calls(action: &ActionRequest) -> Vec<ReadableMessage> {
    let known = known(action);
    match &action.bound {
        Some(bound) => {
            let messages = bound.content.calls.iter().flat_map(|call| &call.messages);
            messages.map(|message| of_message(message, &known)).collect()
        }
        None => action.raw.iter().flat_map(|call| of_lines(&call.signs, &known)).collect(),
    }
}

/// Fields of an order that others would settle.
pub fn order_fields(action: &ActionRequest, order: &OrderDetails) -> Vec<(String, String)> {
    fields(&order.fields, &known(action))
}

fn of_message(message: &SignedMessage, known: &KnownNames<'_>) -> ReadableMessage {
    ReadableMessage {
        heading: format!("{}, verified by {}", message.kind, known.named(&message.verifier.to_string())),
        fields: fields(&message.fields, known),
    }
}

/// Messages of a recording, which keeps them as lines: a heading, then one `name: value` per field.
fn of_lines(lines: &[SafeText], known: &KnownNames<'_>) -> Vec<ReadableMessage> {
    let mut all: Vec<(String, Vec<(SafeText, SafeText)>)> = Vec::new();
    for line in lines {
        let field = line.as_str().split_once(": ");
        match (field, all.last_mut()) {
            (Some((name, value)), Some((_, fields))) => {
                fields.push((SafeText::clean(name, 200), SafeText::clean(value, 400)));
            }
            (_, _) => all.push((line.to_string(), Vec::new())),
        }
    }
    all.into_iter().map(|(heading, raw)| ReadableMessage { heading, fields: fields(&raw, known) }).collect()
}

impl KnownNames<'_> {
    /// The value as it is; if it is an address of the action with a label, with that label behind it. A token's symbol is not
    /// a label: its contract chooses it.
    fn named(&self, value: &str) -> String {
        let Ok(address) = value.parse::<Address>() else { return value.to_owned() };
        let of_action = self.places.iter().filter(|place| place.address == address);
        let label = of_action.clone().find_map(|place| place.label.as_ref()).map(SafeText::as_str);
        let own = of_action.into_iter().any(|place| place.is_from).then_some("your account");
        match label.or(own) {
            Some(name) => format!("{value} ({name})"),
            None => value.to_owned(),
        }
    }
}

/// Names that the request has: its labelled addresses, and the tokens whose decimals it knows.
fn known(action: &ActionRequest) -> KnownNames<'_> {
    let content = action.bound.as_ref().map(|bound| &bound.content);
    let flows = content.into_iter().flat_map(|content| content.most_out.iter().chain(&content.least_in));
    let flows = flows.map(|flow| (flow.token, &flow.symbol, flow.decimals));
    let allowances = content.into_iter().flat_map(|content| &content.allowances);
    let allowances = allowances.map(|one| (one.token, &one.symbol, one.decimals));
    let arrival = action.arrival.iter().filter_map(|one| Some((one.address, &one.symbol, one.decimals?)));
    let all = flows.chain(allowances).chain(arrival);
    let tokens = all.filter_map(|(address, symbol, decimals)| Some(KnownToken { address: address?, symbol, decimals }));
    KnownNames { tokens: tokens.collect(), places: &action.places }
}

/// Names and values for reading. An amount is of the token that was named last.
fn fields(raw: &[(SafeText, SafeText)], known: &KnownNames<'_>) -> Vec<(String, String)> {
    let mut named: Option<&KnownToken<'_>> = None;
    let mut all = Vec::with_capacity(raw.len());
    for (name, value) in raw {
        let (name, value) = (name.as_str(), value.as_str());
        let shown = match name {
            "token" | "input token" | "inputToken" | "output token" | "outputToken" => {
                let address = value.parse::<Address>().ok();
                named = known.tokens.iter().find(|token| Some(token.address) == address);
                named.map_or_else(|| value.to_owned(), |token| format!("{value} ({})", token.symbol))
            }
            "amount" | "maximum input" | "inputAmount" | "minimum output" | "outputAmount" => amount(value, named),
            "expiration" | "sigDeadline" | "deadline" | "openDeadline" | "fillDeadline" => match value.parse::<u64>() {
                Ok(seconds) => utc(seconds.saturating_mul(1_000)),
                Err(_) => value.to_owned(),
            },
            _ => known.named(value),
        };
        all.push((field_word(name).to_owned(), shown));
    }
    all
}

/// Display name of a field of a signed message; others keep that of the contract.
fn field_word(name: &str) -> &str {
    match name {
        "expiration" => "allowance ends",
        "sigDeadline" | "deadline" => "signature valid until",
        "originSettler" => "settler",
        "originChainId" => "from chain id",
        "destinationChainId" => "to chain id",
        "openDeadline" => "opened by",
        "fillDeadline" => "delivered by",
        "inputToken" => "input token",
        "inputAmount" => "input",
        "outputToken" => "output token",
        "outputAmount" => "minimum output",
        other => other,
    }
}

/// Amount in whole tokens if the token is known, else in its smallest units.
fn amount(value: &str, token: Option<&KnownToken<'_>>) -> String {
    let Ok(raw) = value.parse::<U256>() else { return value.to_owned() };
    // Permit2 takes the largest number of 160 bits as an allowance without limit.
    if raw == U256::from(U160::MAX) || raw == U256::MAX {
        return "WITHOUT LIMIT".to_owned();
    }
    let whole = token.and_then(|token| Some((TokenAmount::new(raw, token.decimals).ok()?, token.symbol)));
    match whole {
        Some((amount, symbol)) => format!("{} {symbol}", grouped(&amount.to_string())),
        None => format!("{} smallest units", grouped(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::AddressPart;

    fn text(words: &str) -> SafeText {
        SafeText::clean(words, 400)
    }

    #[test]
    fn amounts_are_in_whole_tokens_and_times_are_dates() {
        let (weth, dai) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let symbol = text("WETH");
        let (router, me) = (Address::repeat_byte(3), Address::repeat_byte(4));
        let place = |address, label: Option<&str>, is_from| ActionAddress {
            part: AddressPart::Spender,
            address,
            label: label.map(text),
            listed: false,
            in_book: false,
            is_from,
            first_seen: false,
        };
        let places = [place(router, Some("Universal Router"), false), place(me, None, true)];
        let tokens = vec![KnownToken { address: weth, symbol: &symbol, decimals: 18 }];
        let known = KnownNames { tokens, places: &places };
        let read = |raw: &[(&str, String)]| {
            let raw: Vec<_> = raw.iter().map(|(name, value)| (text(name), text(value))).collect();
            fields(&raw, &known).into_iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
        };
        assert_eq!(
            read(&[
                ("token", weth.to_string()),
                ("amount", "400000000000000000".to_owned()),
                ("expiration", "1795721328".to_owned()),
                ("nonce", "1".to_owned()),
            ]),
            [
                format!("token: {weth} (WETH)"),
                "amount: 0.4 WETH".to_owned(),
                // `date -u -d @1795721328`
                "allowance ends: 2026-11-26 19:28:48Z".to_owned(),
                "nonce: 1".to_owned(),
            ]
        );
        let parties = read(&[("spender", router.to_string()), ("swapper", me.to_string()), ("to", dai.to_string())]);
        assert_eq!(
            parties,
            [
                format!("spender: {router} (Universal Router)"),
                format!("swapper: {me} (your account)"),
                format!("to: {dai}"),
            ]
        );
        // The decimals of another token are unknown, and those of the token before it do not count.
        assert_eq!(
            read(&[
                ("token", weth.to_string()),
                ("output token", dai.to_string()),
                ("minimum output", "1234567".to_owned()),
            ])[2],
            "minimum output: 1,234,567 smallest units"
        );
        assert_eq!(read(&[("token", weth.to_string()), ("amount", U160::MAX.to_string())])[1], "amount: WITHOUT LIMIT");
    }

    #[test]
    fn lines_of_a_recording_are_its_messages() {
        let lines = ["A, verified by 0x1", "amount: 1000", "B, verified by 0x2", "sigDeadline: 0"].map(text);
        let read = of_lines(&lines, &KnownNames { tokens: Vec::new(), places: &[] });
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].heading, "A, verified by 0x1");
        assert_eq!(read[0].fields, [("amount".to_owned(), "1,000 smallest units".to_owned())]);
        assert_eq!(read[1].fields[0].1, "1970-01-01 00:00:00Z");
    }
}
