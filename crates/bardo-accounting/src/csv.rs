//! CSV for tax programs, with the columns of Koinly's universal format and a type, which other programs read
//! (<https://support.koinly.io/en/articles/9489976-how-to-create-a-custom-csv-file-with-your-data>).

use crate::books::{Leg, PostingKind};
use crate::report::{Posted, Report};
use bardo_base::format;

/// First line of a file.
pub const HEADER: &str = "Date,Type,Sent Amount,Sent Currency,Received Amount,Received Currency,Fee Amount,Fee Currency,\
                          Net Worth Amount,Net Worth Currency,Label,Description,TxHash";

/// The entries of a report, oldest first. A posting with several tokens on a side takes several lines, of which the
/// first carries the fee. `paper` marks every description.
pub fn write(report: &Report, paper: bool) -> String {
    let mut text = format!("{HEADER}\n");
    for posted in &report.posted {
        lines(report, posted, paper, &mut text);
    }
    text
}

fn lines(report: &Report, posted: &Posted, paper: bool, text: &mut String) {
    let Posted { entry, posting, .. } = posted;
    let count = posting.given.len().max(posting.received.len());
    if count == 0 && posting.gas.is_none() {
        // A token that joined the books with a balance of zero.
        return;
    }
    for index in 0..count.max(1) {
        let (given, received) = (posting.given.get(index), posting.received.get(index));
        // A transaction that only paid gas is a cost; elsewhere gas is the fee of the transaction.
        let gas = posting.gas.as_ref().filter(|_| index == 0);
        let (sent, fee) = if count == 0 { (gas, None) } else { (given, gas) };
        let worth = received.or(sent).and_then(|leg| leg.value);
        let (sent_amount, sent_currency) = side(report, sent);
        let (received_amount, received_currency) = side(report, received);
        let (fee_amount, fee_currency) = side(report, fee);
        let fields = [
            // The format's own: to the second, in UTC.
            format::utc(entry.at.saturating_mul(1_000)).replace('Z', " UTC"),
            kind(posting.kind).to_owned(),
            sent_amount,
            sent_currency,
            received_amount,
            received_currency,
            fee_amount,
            fee_currency,
            worth.map(|worth| worth.to_string()).unwrap_or_default(),
            worth.map(|_| "USD".to_owned()).unwrap_or_default(),
            label(posting.kind).to_owned(),
            description(posted, paper),
            entry.tx.map(|tx| tx.to_string()).unwrap_or_default(),
        ];
        let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
        text.push_str(&fields.join(","));
        text.push('\n');
    }
}

fn side(report: &Report, leg: Option<&Leg>) -> (String, String) {
    leg.map_or_else(Default::default, |leg| {
        (report.amount(&leg.asset, leg.amount), report.symbol(leg.asset.chain_id, leg.asset.token))
    })
}

const fn kind(kind: PostingKind) -> &'static str {
    match kind {
        PostingKind::Opening | PostingKind::Deposit | PostingKind::Received | PostingKind::BridgeIn => "deposit",
        PostingKind::Trade => "trade",
        PostingKind::Sent | PostingKind::Withdrawal | PostingKind::BridgeOut => "withdrawal",
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
        | PostingKind::Withdrawal => "",
    }
}

fn description(posted: &Posted, paper: bool) -> String {
    let mark = if paper { "PAPER: " } else { "" };
    let mut text = format!("{mark}{} on chain {}", posted.posting.kind.describe(), posted.entry.chain_id);
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
