//! CSV for tax programs, with the columns of Koinly's universal format and a type, which other programs read
//! (<https://support.koinly.io/en/articles/9489976-how-to-create-a-custom-csv-file-with-your-data>).

use alloy_primitives::{U256, U512};
use serde::Serialize;

use crate::books::{BookError, Leg, Posting, PostingKind};
use crate::money::share;
use crate::report::{Posted, Report};
use bardo_base::chains::display_name;
use bardo_base::format;
use bardo_base::units::Rounding;

/// First line of a file.
pub const HEADER: &str = "Date,Type,Sent Amount,Sent Currency,Received Amount,Received Currency,Fee Amount,Fee Currency,\
                          Net Worth Amount,Net Worth Currency,Label,Description,TxHash,Account,Chain";

/// Kind of the money in a file, which every description names unless it is real.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BooksMoney {
    /// Money of networks that are neither devnets nor test networks.
    Real,
    /// Test money of public test networks.
    Test,
    /// Play money of devnets.
    Play,
    /// Simulated money of paper trading.
    Paper,
}

impl BooksMoney {
    /// Words for titles.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Real => "real money",
            Self::Test => "TEST money of test networks, which is worth nothing",
            Self::Play => "PLAY money of a devnet, which is worth nothing",
            Self::Paper => "PAPER: simulated results; nothing of this happened on a chain",
        }
    }

    const fn mark(self) -> &'static str {
        match self {
            Self::Real => "",
            Self::Test => "TEST: ",
            Self::Play => "PLAY: ",
            Self::Paper => "PAPER: ",
        }
    }
}

/// The entries of a report, oldest first. A posting with several tokens on a side takes several lines, of which the
/// first carries the fee; the single token on the other side is divided between them.
///
/// # Errors
/// [`BookError`] if a figure is out of range.
pub fn write(report: &Report, money: BooksMoney) -> Result<String, BookError> {
    let mut text = format!("{HEADER}\n");
    for posted in &report.posted {
        lines(report, posted, money, &mut text)?;
    }
    Ok(text)
}

/// Divides the only leg of a side among the legs of the other, in proportion to their values; the last takes the rest.
/// Without values each takes an equal part.
fn split(whole: &Leg, among: &[Leg]) -> Result<Vec<Leg>, BookError> {
    let scaled = |leg: &Leg| leg.value.and_then(|value| value.scaled(12, Rounding::Down));
    let values: Option<Vec<u128>> = among.iter().map(scaled).collect();
    let weights = values.filter(|values| values.iter().any(|value| *value > 0)).unwrap_or_else(|| vec![1; among.len()]);
    let sum = weights.iter().fold(U256::ZERO, |sum, weight| sum.saturating_add(U256::from(*weight)));
    let (mut left, mut worth) = (whole.amount, whole.value);
    let mut parts = Vec::new();
    for (index, weight) in weights.iter().enumerate() {
        let is_last = index + 1 == weights.len();
        let part = U512::from(whole.amount) * U512::from(*weight) / U512::from(sum);
        let amount = if is_last { left } else { U256::saturating_from(part) };
        let value = match (worth, whole.value) {
            (Some(rest), _) if is_last => Some(rest),
            (Some(_), Some(value)) => Some(share(value, U256::from(*weight), sum)?),
            _ => None,
        };
        left = left.saturating_sub(amount);
        worth = worth.zip(value).map(|(worth, value)| worth.checked_sub(value)).transpose()?;
        parts.push(Leg { amount, value, ..whole.clone() });
    }
    Ok(parts)
}

/// Leg that was given and leg that was received, of one line.
type LineLegs = (Option<Leg>, Option<Leg>);

/// Legs of each line of a posting.
fn rows(posting: &Posting) -> Result<Vec<LineLegs>, BookError> {
    let (given, received) = (&posting.given, &posting.received);
    let (given, received) = match (given.as_slice(), received.as_slice()) {
        // Of differences that nobody traded for each other, each has its own line.
        (_, _) if posting.kind == PostingKind::Unexplained => {
            let gave = given.iter().map(|leg| (Some(leg.clone()), None));
            return Ok(gave.chain(received.iter().map(|leg| (None, Some(leg.clone())))).collect());
        }
        ([one], several @ [_, _, ..]) => (split(one, several)?, received.clone()),
        (several @ [_, _, ..], [one]) => (given.clone(), split(one, several)?),
        _ => (given.clone(), received.clone()),
    };
    let count = given.len().max(received.len()).max(1);
    Ok((0..count).map(|index| (given.get(index).cloned(), received.get(index).cloned())).collect())
}

fn lines(report: &Report, posted: &Posted, money: BooksMoney, text: &mut String) -> Result<(), BookError> {
    let Posted { entry, posting, .. } = posted;
    for (index, (given, received)) in rows(posting)?.into_iter().enumerate() {
        let (given, received) = (given.as_ref(), received.as_ref());
        // A transaction that only paid gas is a cost; elsewhere gas is the fee of the transaction.
        let gas = posting.gas.as_ref().filter(|_| index == 0);
        let (sent, fee) = if given.is_none() && received.is_none() { (gas, None) } else { (given, gas) };
        let worth = received.or(sent).and_then(|leg| leg.value);
        let (sent_amount, sent_currency) = side(report, sent);
        let (received_amount, received_currency) = side(report, received);
        let (fee_amount, fee_currency) = side(report, fee);
        let fields = [
            // The format's own: to the second, in UTC.
            format::utc(entry.at.saturating_mul(1_000)).replace('Z', " UTC"),
            kind(posting.kind, given.is_some()).to_owned(),
            sent_amount,
            sent_currency,
            received_amount,
            received_currency,
            fee_amount,
            fee_currency,
            worth.map(|worth| worth.to_string()).unwrap_or_default(),
            worth.map(|_| "USD".to_owned()).unwrap_or_default(),
            label(posting.kind).to_owned(),
            description(report, posted, money),
            entry.tx.map(|tx| tx.to_string()).unwrap_or_default(),
            entry.account.to_string(),
            display_name(entry.chain_id),
        ];
        let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    Ok(())
}

fn side(report: &Report, leg: Option<&Leg>) -> (String, String) {
    leg.map_or_else(Default::default, |leg| {
        (report.amount(&leg.asset, leg.amount), report.symbol(leg.asset.chain_id, leg.asset.token))
    })
}

const fn kind(kind: PostingKind, gave: bool) -> &'static str {
    match kind {
        PostingKind::Opening
        | PostingKind::Deposit
        | PostingKind::Received
        | PostingKind::BridgeIn
        | PostingKind::BridgeRefund
        | PostingKind::OwnIn => "deposit",
        PostingKind::Trade => "trade",
        PostingKind::Sent | PostingKind::Withdrawal | PostingKind::BridgeOut | PostingKind::OwnOut => "withdrawal",
        PostingKind::Unexplained if gave => "withdrawal",
        PostingKind::Unexplained => "deposit",
        PostingKind::Gas => "fee",
    }
}

/// Label of the format; empty where a transfer or a trade needs none.
const fn label(kind: PostingKind) -> &'static str {
    match kind {
        PostingKind::Gas => "cost",
        PostingKind::Opening
        | PostingKind::Trade
        | PostingKind::BridgeOut
        | PostingKind::BridgeIn
        | PostingKind::Sent
        | PostingKind::Received
        | PostingKind::Deposit
        | PostingKind::Withdrawal
        | PostingKind::BridgeRefund
        | PostingKind::OwnOut
        | PostingKind::OwnIn
        | PostingKind::Unexplained => "",
    }
}

fn description(report: &Report, posted: &Posted, money: BooksMoney) -> String {
    let mark = money.mark();
    let mut text = format!("{mark}{} on {}", posted.posting.kind.describe(), display_name(posted.entry.chain_id));
    let tokens = posted.posting.given.iter().chain(&posted.posting.received).filter_map(|leg| {
        let facts = report.tokens.get(&(leg.asset.chain_id, leg.asset.token))?;
        Some((facts, leg.asset.token?)).filter(|_| !facts.listed)
    });
    for (facts, token) in tokens {
        text.push_str(&format!("; {} is the unlisted token {token}", facts.symbol));
    }
    if let Some(note) = posted.entry.note {
        text.push_str(&format!("; {}", note.describe()));
    }
    if let Some(action) = &posted.entry.action {
        text.push_str(&format!("; {} {} by {}", action.tool, action.call_id, action.golem_id.as_str()));
    }
    if posted.posting.is_incomplete() {
        text.push_str("; a price or a cost is not known");
    }
    text
}

/// A field as text. A symbol comes from outside: a spreadsheet must not take it for a formula, nor a quote in it for the
/// end of the field.
fn quoted(field: &str) -> String {
    let guarded =
        if field.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{field}") } else { field.to_owned() };
    if guarded.contains([',', '"', '\n', '\r', ';']) {
        format!("\"{}\"", guarded.replace('"', "\"\""))
    } else {
        guarded
    }
}

#[cfg(test)]
mod tests;
