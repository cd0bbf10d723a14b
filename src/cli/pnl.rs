//! The `bardo pnl` command: profit and loss from the books, which it first brings up to date with the chains.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy::primitives::Address;
use serde_json::json;

use super::{CliExit, CommandFailure, load, print, print_json};
use super::{call, log};
use bardo_accounting::csv::{self, BooksMoney};
use bardo_accounting::report::{Group, Grouping, Period, Report, Totals};
use bardo_base::chains::display_name;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::format::{counted, dollars, grouped, signed_dollars};
use bardo_base::private;
use bardo_base::text::SafeText;
use bardo_base::units::{SignedUsd, Usd};
use bardo_runtime::accounting::{self, BalanceCheck, BookKeeper, Books, ReportScope};
use bardo_runtime::data::{ALL_MIGRATIONS, DataFolder, LedgerKind, open_paper};
use bardo_runtime::labels::own_accounts;
use bardo_sandbox::boot::bundled_description;
use bardo_store::{Store, StoreConfig};
use golem_chain::network::{DEVNET_BASE, DEVNET_ETHEREUM, Network, NetworkPlan, NetworkPlanError, named};

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Options of the command.
pub(super) struct PnlOptions {
    pub by: Grouping,
    pub from: Option<u64>,
    pub to: Option<u64>,
    pub csv: Option<PathBuf>,
    pub reconcile: bool,
    pub offline: bool,
    pub all_accounts: bool,
    pub paper: bool,
    pub json: bool,
}

/// Report with what the import and the comparison with the chain found.
struct Findings {
    books: Books,
    /// Account of the report; `None` for all accounts.
    account: Option<Address>,
    money: BooksMoney,
    /// Chains that could not be read, with the reason.
    failed: Vec<(String, String)>,
    checks: Vec<BalanceCheck>,
    /// Reason why nothing was read from the chains; `None` if something was.
    stored_only: Option<&'static str>,
}

pub(super) fn run(
    options: &PnlOptions,
    environment: &Environment,
    flags: &ConfigFlags,
) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    let to = options.to.map_or(u64::MAX, |day| day.saturating_add(DAY));
    let period = Period { from: options.from.unwrap_or(0), to };
    if period.from >= period.to {
        return Err(CommandFailure::usage("--from is after --to: exchange them".to_owned()));
    }
    let findings = find(&config, flags, options, period)?;
    if let Some(file) = &options.csv {
        let text = csv::write(&findings.books.report, findings.money);
        write_csv(file, &text.map_err(|error| CommandFailure::from(error.to_string()))?)?;
    }
    if options.json {
        print_json(&as_json(options, &findings)?)?;
    } else if options.csv.as_deref() != Some(Path::new("-")) {
        print(&text(options, &findings)?)?;
    }
    // A file for a tax program must not look whole if it is not.
    for (chain, why) in &findings.failed {
        eprintln!("bardo: {chain} was not read, so only what was imported before is included: {why}");
    }
    let uneven = options.reconcile && !findings.checks.iter().all(BalanceCheck::is_even);
    Ok(if uneven || !findings.failed.is_empty() { CliExit::Error } else { CliExit::Success })
}

fn find(
    config: &Config,
    flags: &ConfigFlags,
    options: &PnlOptions,
    period: Period,
) -> Result<Findings, CommandFailure> {
    let data = DataFolder::of(config);
    let stored_only = if options.paper {
        Some("a paper ledger is not on any chain")
    } else if options.offline {
        Some("--offline")
    } else if config.fork.is_none() && NetworkPlan::from_config(config)? == NetworkPlan::Devnet {
        Some("a devnet inside a process is read by that process alone")
    } else {
        None
    };
    if let Some(why) = stored_only {
        if options.reconcile {
            let words = "--reconcile compares with the chain: name a network with --network, or a running `bardo \
                         devnet` with --rpc, and remove --offline and --paper";
            return Err(CommandFailure::usage(words.to_owned()));
        }
        return stored(config, log::named_ledger(config, flags)?, options, period, why);
    }
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let opened = bardo_runtime::open(config, || call::one_call(Arc::new(SystemClock)), clock).await?;
        let ledger = data.open_ledger(&opened).await?;
        let mut failed: Vec<(String, String)> =
            opened.world.lost().iter().map(|lost| (lost.name.clone(), lost.reason.to_string())).collect();
        let mut checks = Vec::new();
        match opened.world.account {
            Some(account) => {
                let keeper = BookKeeper::new(config, opened.world.chains(), ledger.store.clone(), account);
                for (chain, imported) in keeper.update().await {
                    failed.extend(imported.err().map(|error| (chain.to_string(), error.to_string())));
                }
                for (chain, compared) in keeper.reconcile().await? {
                    match compared {
                        Ok(found) => checks.extend(found),
                        Err(error) => failed.push((chain.to_string(), error.to_string())),
                    }
                }
            }
            None => failed.push((
                "account".to_owned(),
                "no key is configured, so nothing was imported: name one with --key or golem.account".to_owned(),
            )),
        }
        let networks: Vec<Network> = opened.world.chains().iter().map(|chain| chain.network().clone()).collect();
        let money = ReportScope::money_of(&networks);
        let account = match opened.world.account {
            Some(own) => (!options.all_accounts).then_some(own),
            None => only_account(&ledger.store, options)?,
        };
        let scope = ReportScope { period, account, networks: &networks, money };
        let books = accounting::read(&ledger.store, &scope).map_err(|error| CommandFailure::from(error.to_string()))?;
        Ok(Findings { books, account, money, failed, checks, stored_only: None })
    })
}

/// The account of a ledger in which only one has entries; `None` with `--all-accounts`, and without entries.
fn only_account(store: &Store, options: &PnlOptions) -> Result<Option<Address>, CommandFailure> {
    if options.all_accounts {
        return Ok(None);
    }
    let mut accounts = accounting::accounts(store)?.into_iter();
    match (accounts.next(), accounts.count()) {
        (only, 0) => Ok(only),
        (_, others) => Err(CommandFailure::usage(format!(
            "the ledger has entries of {} accounts: name one with --key, or sum them with --all-accounts",
            others.saturating_add(1)
        ))),
    }
}

/// Report from a ledger, or from the paper ledger beside it.
fn stored(
    config: &Config,
    ledger: Option<PathBuf>,
    options: &PnlOptions,
    period: Period,
    why: &'static str,
) -> Result<Findings, CommandFailure> {
    let data = DataFolder::of(config);
    let mut networks = match NetworkPlan::from_config(config) {
        // What is stored is read without an endpoint.
        Ok(NetworkPlan::Devnet) | Err(NetworkPlanError::NoEndpoint { .. }) => Vec::new(),
        Ok(NetworkPlan::Endpoints(plans)) => plans.into_iter().filter_map(|plan| plan.network).collect(),
        Err(error) => return Err(error.into()),
    };
    networks.extend(
        named()
            .iter()
            .filter(|known| networks.iter().all(|one| one.chain_id != known.chain_id))
            .cloned()
            .collect::<Vec<_>>(),
    );
    // A paper ledger describes no tokens: those of a devnet are in the bundled address book.
    let devnets = if options.paper { [DEVNET_ETHEREUM, DEVNET_BASE].as_slice() } else { &[] };
    for chain_id in devnets {
        let bundled = bundled_description(*chain_id).map_err(|error| CommandFailure::from(error.to_string()))?;
        networks.retain(|one| one.chain_id != *chain_id);
        networks.extend(bundled.map(|chain| chain.network()));
    }
    let of_devnet = ledger != data.newest_ledger_of(LedgerKind::Real)?;
    let money = if of_devnet { BooksMoney::Play } else { ReportScope::money_of(&networks) };
    let mut findings = Findings {
        books: Books::default(),
        account: None,
        money: if options.paper { BooksMoney::Paper } else { money },
        failed: Vec::new(),
        checks: Vec::new(),
        stored_only: Some(why),
    };
    let Some(path) = ledger else { return Ok(findings) };
    let real = Store::open(StoreConfig::at(&path), ALL_MIGRATIONS)?;
    let own = config.account.as_ref().map(|name| name.value.clone());
    let named = own_accounts(&data).map_err(|error| CommandFailure::from(error.to_string()))?;
    let named = own.and_then(|own| named.into_iter().find(|(name, _)| name.as_str() == own));
    findings.account = match named {
        Some((_, address)) => (!options.all_accounts).then_some(address),
        None if options.paper => None,
        None => only_account(&real, options)?,
    };
    let scope = ReportScope { period, account: findings.account, networks: &networks, money };
    let books = if options.paper {
        let path = path.with_file_name("paper.db");
        if !path.exists() {
            return Ok(findings);
        }
        accounting::read_paper(&open_paper(&path)?, Some(&real), &scope)
    } else {
        accounting::read(&real, &scope)
    };
    findings.books = books.map_err(|error| CommandFailure::from(error.to_string()))?;
    Ok(findings)
}

fn write_csv(file: &Path, text: &str) -> Result<(), CommandFailure> {
    if file == Path::new("-") {
        return print(text);
    }
    let written = private::file()
        .write(true)
        .create(true)
        .truncate(true)
        .open(file)
        .and_then(|mut opened| opened.write_all(text.as_bytes()));
    written.map_err(|error| CommandFailure::from(format!("cannot write {}: {error}", file.display())))
}

fn as_json(options: &PnlOptions, findings: &Findings) -> Result<serde_json::Value, CommandFailure> {
    let Findings { books: Books { report, faults }, failed, checks, .. } = findings;
    let group = |group: &Group| -> Result<serde_json::Value, CommandFailure> {
        Ok(json!({"name": group.name, "totals": group.totals, "net": net(&group.totals)?}))
    };
    let groups = groups(report, options.by)?.iter().map(group).collect::<Result<Vec<_>, _>>()?;
    let holdings = report.holdings.iter().map(|held| {
        json!({
            "chain_id": held.asset.chain_id, "account": held.asset.account, "token": held.asset.token,
            "symbol": report.symbol(held.asset.chain_id, held.asset.token),
            "amount": report.amount(&held.asset, held.amount), "amount_raw": held.amount.to_string(),
            "cost_usd": held.cost, "uncosted_raw": held.uncosted.to_string(), "value_usd": held.value,
            "unrealised_usd": held.unrealised,
        })
    });
    let checks = checks.iter().map(|check| {
        json!({
            "chain": check.chain, "chain_id": check.chain_id, "block": check.block, "symbol": check.symbol,
            "token": check.token, "books_raw": check.books.map(|books| books.to_string()),
            "balance_raw": check.balance.to_string(), "even": check.is_even(), "difference": check.difference(),
        })
    });
    Ok(json!({
        "paper": options.paper, "money": findings.money, "account": findings.account,
        "all_accounts": findings.account.is_none(), "entries_elsewhere": report.elsewhere, "by": options.by, "groups": groups, "totals": report.totals,
        "net": net(&report.totals)?, "unrealised": unrealised(report)?,
        "holdings_without_value": report.unvalued(), "holdings": holdings.collect::<Vec<_>>(),
        "reconciled": checks.collect::<Vec<_>>(),
        "left_out": faults.iter().map(|(chain_id, token, why)| json!({"chain_id": chain_id, "token": token, "reason": why}))
            .collect::<Vec<_>>(),
        "not_read": failed.iter().map(|(chain, why)| json!({"chain": chain, "reason": why})).collect::<Vec<_>>(),
    }))
}

fn groups(report: &Report, by: Grouping) -> Result<Vec<Group>, CommandFailure> {
    report.by(by).map_err(|error| CommandFailure::from(error.to_string()))
}

fn net(totals: &Totals) -> Result<SignedUsd, CommandFailure> {
    totals.net().map_err(|error| CommandFailure::from(error.to_string()))
}

fn unrealised(report: &Report) -> Result<Option<SignedUsd>, CommandFailure> {
    report.unrealised().map_err(|error| CommandFailure::from(error.to_string()))
}

fn text(options: &PnlOptions, findings: &Findings) -> Result<String, CommandFailure> {
    let Findings { books: Books { report, faults }, failed, checks, stored_only, .. } = findings;
    let of = findings.account.map_or_else(|| "all accounts".to_owned(), |account| account.to_string());
    let mut text = format!("Profit and loss of {of}, {}\n", findings.money.describe());
    if let Some(why) = stored_only.filter(|_| !options.paper) {
        text.push_str(&format!("Only what is stored already ({why})\n"));
    }
    for (chain, why) in failed {
        text.push_str(&format!("Not read: {chain}: {why}\n"));
    }
    for (chain_id, token, why) in faults {
        text.push_str(&format!("! {token} on {} {why}\n", display_name(*chain_id)));
    }
    if report.elsewhere > 0 {
        let count = counted(report.elsewhere, "entry", "entries");
        text.push_str(&format!("Not counted: {count} of other accounts, or with money of another kind\n"));
    }
    if report.posted.is_empty() && report.holdings.is_empty() {
        text.push_str("No entries in this period.\n");
        return Ok(text);
    }
    let mut table = vec![["", "trades", "realised", "gas", "fees", "net"].map(str::to_owned)];
    for group in groups(report, options.by)? {
        table
            .push(line(if group.name.is_empty() { "(not by Bardo, or unknown)" } else { &group.name }, &group.totals)?);
    }
    table.push(line("total", &report.totals)?);
    text.push_str(&aligned(&table));
    if !report.totals.uncosted_proceeds.is_zero() {
        let proceeds = dollars(report.totals.uncosted_proceeds);
        text.push_str(&format!("Apart: {proceeds} from amounts whose cost is unknown\n"));
    }
    if report.totals.incomplete > 0 {
        let lack = counted(report.totals.incomplete, "entry lacks", "entries lack");
        text.push_str(&format!("{lack} a price or a cost; the parts without them are in no sum\n"));
    }
    if report.totals.unpriced_gas > 0 {
        let payments = counted(report.totals.unpriced_gas, "payment", "payments");
        text.push_str(&format!("{payments} of gas without a price: not in the gas above\n"));
    }
    if !report.totals.untracked.is_zero() {
        let cost = dollars(report.totals.untracked);
        text.push_str(&format!("Apart: {cost} of cost given for tokens without a price\n"));
    }
    text.push('\n');
    text.push_str(&held(report));
    if let Some(all) = unrealised(report)? {
        text.push_str(&format!("Unrealised: {}\n", signed_dollars(all)));
    }
    if report.unvalued() > 0 {
        let holdings = counted(report.unvalued(), "holding", "holdings");
        text.push_str(&format!("Not in it: {holdings} of which a price or a cost is not known\n"));
    }
    text.push_str(&compared(options, checks));
    Ok(text)
}

/// Fees, which prices may turn into a gain.
fn fees(value: SignedUsd) -> String {
    if value.is_loss() { format!("-{}", dollars(value.amount())) } else { dollars(value.amount()) }
}

fn line(name: &str, totals: &Totals) -> Result<[String; 6], CommandFailure> {
    Ok([
        name.to_owned(),
        totals.trades.to_string(),
        signed_dollars(totals.realised),
        dollars(totals.gas),
        fees(totals.fees),
        signed_dollars(net(totals)?),
    ])
}

fn held(report: &Report) -> String {
    let unknown = || "unknown".to_owned();
    let mut table = vec![["held", "chain", "amount", "cost", "value", "unrealised"].map(str::to_owned)];
    for held in &report.holdings {
        let cost = if held.cost == Usd::ZERO && !held.uncosted.is_zero() { unknown() } else { dollars(held.cost) };
        table.push([
            report.symbol(held.asset.chain_id, held.asset.token),
            display_name(held.asset.chain_id),
            grouped(&report.amount(&held.asset, held.amount)),
            cost,
            held.value.map_or_else(unknown, dollars),
            held.unrealised.map_or_else(unknown, signed_dollars),
        ]);
    }
    aligned(&table)
}

/// Result of the comparison: each token with --reconcile, otherwise only the differences.
fn compared(options: &PnlOptions, checks: &[BalanceCheck]) -> String {
    let mut text = String::new();
    for check in checks {
        let name = format!("{} on {} at block {}", check.symbol, check.chain, check.block);
        if !check.is_even() {
            text.push_str(&format!("Difference: {name}: {}\n", check.describe()));
        } else if options.reconcile {
            text.push_str(&format!("Reconciled: {name}: {} raw units in both\n", check.balance));
        }
    }
    text
}

/// Columns side by side, the first to the left and the others to the right.
fn aligned(table: &[[String; 6]]) -> String {
    let mut widths = [0; 6];
    for row in table {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in table {
        let cells = row.iter().zip(widths).enumerate().map(|(index, (cell, width))| match index {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Error for a text that cannot be read as a day.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a day: write it as 2026-11-26")]
pub(super) struct NoDay(SafeText);

/// Reads a day such as `2026-11-26` as its midnight in UTC, in seconds since the Unix epoch, with Howard Hinnant's
/// `days_from_civil` (<https://howardhinnant.github.io/date_algorithms.html>).
pub(super) fn day(text: &str) -> Result<u64, NoDay> {
    let wrong = || NoDay(SafeText::clean(text, 40));
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return Err(wrong()) };
    let number = |part: &str, digits: usize| {
        let plain = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        if plain { part.parse::<u64>().map_err(|_| wrong()) } else { Err(wrong()) }
    };
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return Err(wrong()),
    };
    if year < 1970 || day == 0 || day > length {
        return Err(wrong());
    }
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted / 400, shifted % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Ok((era * 146_097 + day_of_era - 719_468) * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_its_midnight_in_utc() {
        // By `date -u -d DAY +%s`.
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400),
            ("2024-12-31", 1_735_603_200),
            ("2026-11-26", 1_795_651_200),
        ] {
            assert_eq!(day(text), Ok(seconds), "{text}");
        }
        for text in [
            "2026-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-1-1",
            "26-11-2026",
            "2026-11-31",
            "today",
            "1969-12-31",
            "2026-11-26-",
        ] {
            assert!(day(text).is_err(), "{text}");
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 6]| cells.map(str::to_owned);
        let table =
            [row(["", "a", "b", "c", "d", "e"]), row(["2026-11-26", "3", "+$600.50", "$2.50", "$1.00", "+$597.00"])];
        assert_eq!(
            aligned(&table),
            "            a         b      c      d         e\n2026-11-26  3  +$600.50  $2.50  $1.00  +$597.00\n"
        );
    }
}
