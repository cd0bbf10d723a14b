//! `bardo doctor --rehearse`: one whole swap on a fork of the configured network, under the policy of the live network,
//! and what would be different there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy::primitives::Address;
use serde_json::json;
use toml::{Table, Value};

use super::call::{self, CallFlags};
use super::devnet::sandbox;
use super::doctor::DoctorFinding;
use super::{CommandFailure, without_controls};
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{Config, ForkSettings};
use bardo_base::error::ErrorCode;
use bardo_base::id::InstanceId;
use bardo_base::{private, removal};
use bardo_runtime::data::DataFolder;
use bardo_runtime::policy::{open, place};
use bardo_runtime::rehearsal::{Rehearsal, start};
use bardo_safety::policy::ChainId;
use bardo_sandbox::{BlockPace, MarketMode};
use golem_chain::network::{ChainPlan, DataFees, NetworkKind, NetworkPlan};
use golem_tools::engine::{ApprovalMode, CallStatus, ToolInput, ToolResponse};

const CHECK: &str = "rehearsal";
/// Field of a policy with the chains on which it lets Bardo sign.
const ALLOWED_CHAINS: &str = "allowed_chains";
/// Tokens to buy, the first that the network lists.
const BOUGHT: [&str; 4] = ["USDC", "USDT", "DAI", "WETH"];

/// Folder of one rehearsal's policy and ledger, removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = removal::folder(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a rehearsal's folder was not removed");
        }
    }
}

/// Rehearses a swap of `size` native tokens, by default the configured amount, on a fork of the configured network, and
/// reports each step.
///
/// # Errors
/// A [`CommandFailure`] if no live network is configured, or files cannot be written. A swap that fails is a finding.
pub(super) fn run(config: &Config, size: Option<&str>) -> Result<Vec<DoctorFinding>, CommandFailure> {
    let planned = match NetworkPlan::from_config(config) {
        Ok(planned) => planned,
        Err(error) => {
            let fix = "correct it; a rehearsal reads the network through your endpoints";
            return Ok(vec![DoctorFinding::fail(CHECK, error, fix)]);
        }
    };
    let NetworkPlan::Endpoints(plans) = planned else {
        let words = "--rehearse needs a live network: add --network NAME, or set `network` in the configuration";
        return Err(CommandFailure::usage(words.to_owned()));
    };
    let [plan] = plans.as_slice() else {
        return Err(CommandFailure::usage(
            "--rehearse rehearses one network at a time: name it with --network".to_owned(),
        ));
    };
    let mut findings = Vec::new();
    let holder = custody(config, &mut findings);
    let root = DataFolder::of(config).root().join(format!("rehearse-{}", InstanceId::random()));
    DataFolder::of(config).create()?;
    private::folder(&root)?;
    let scratch = Scratch(root);
    let fork = ForkSettings { network: plan.name.clone(), url: None, block: None, holder, residents: false };
    let mut inside = config.clone();
    inside.file = scratch.0.join("config.toml");
    inside.data_dir.value = scratch.0.join("data");
    inside.outer_data_dir = Some(config.data_dir.value.clone());
    inside.account = None;
    inside.fork = Some(fork.clone());
    let runtime = bardo_base::runtime::multi_threaded(Some(2))?;
    let started = runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        start(&inside, &fork, sandbox(1, BlockPace::Manual, MarketMode::Off), clock).await
    });
    let rehearsal = match started {
        Ok(rehearsal) => rehearsal,
        Err(error) => {
            let fix = "check the endpoints above; a rehearsal reads them and sends nothing";
            findings.push(DoctorFinding::fail(CHECK, error, fix));
            return Ok(findings);
        }
    };
    let (network, number) = (&rehearsal.network.name, rehearsal.origin.number());
    findings.push(DoctorFinding::ok(
        CHECK,
        format!("a fork of {network} at block {number}, with chain id {}", rehearsal.network.chain_id),
    ));
    if !policy(config, &rehearsal, &scratch.0, &mut findings)? {
        return Ok(findings);
    }
    // The same block for both calls; it is in the cache.
    inside.fork = Some(ForkSettings { block: Some(rehearsal.origin.hash().to_string()), ..fork });
    swap(&inside, &rehearsal, size.unwrap_or(&config.rehearsal_size.value), &mut findings)?;
    findings.extend(differences(config, plan, &rehearsal));
    drop(runtime);
    Ok(findings)
}

/// Reports the key that would sign, and returns its address for the stand-in.
fn custody(config: &Config, findings: &mut Vec<DoctorFinding>) -> Option<String> {
    match bardo_runtime::account::named(config) {
        Ok(Some(named)) => {
            let name = named.key().map(|entry| entry.name.to_string()).unwrap_or_default();
            let detail = format!("the stand-in gets what {name} ({}) holds; the key stays locked", named.address());
            findings.push(DoctorFinding::ok(CHECK, detail));
            Some(named.address().to_string())
        }
        Ok(None) => {
            let fix =
                "name one with `account` in the configuration (`bardo keys list`); until then nothing is signed there";
            findings.push(DoctorFinding::note(
                CHECK,
                "no key is selected, so the stand-in has 10 of the native token",
                fix,
            ));
            None
        }
        Err(error) => {
            findings.push(DoctorFinding::fail(CHECK, error.message(), "`bardo keys list` shows the keys"));
            None
        }
    }
}

/// Writes the live network's policy for the local chain. False if no swap could pass it.
fn policy(
    config: &Config,
    rehearsal: &Rehearsal,
    folder: &Path,
    findings: &mut Vec<DoctorFinding>,
) -> Result<bool, CommandFailure> {
    let devnet = rehearsal.origin.network().kind == NetworkKind::Devnet;
    let (file, absent) = place(config, devnet);
    let keeper = match open(config, devnet) {
        Ok(keeper) => keeper,
        Err(error) => {
            findings.push(DoctorFinding::fail(
                CHECK,
                format!("the policy: {error}"),
                "correct it; until then nothing is signed",
            ));
            return Ok(false);
        }
    };
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && devnet => return Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let fix = "write one with `bardo policy explain > policy.toml`, beside the configuration file, and edit it";
            let detail =
                format!("there is no policy at {}: {} applies, and nothing is signed", file.display(), absent.as_str());
            findings.push(DoctorFinding::fail(CHECK, detail, fix));
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    let live = rehearsal.origin.network().chain_id;
    let allows = keeper.current().policy.rules().allowed_chains.allows(&ChainId(live), false);
    let names = LocalNames {
        live,
        local: ChainId(rehearsal.network.chain_id).to_string(),
        holder: rehearsal.holder,
        stand_in: rehearsal.stand_in,
    };
    let mapped = for_local_chain(text.parse()?, &names, allows);
    fs::write(folder.join("policy-devnet.toml"), toml::to_string(&mapped)?)?;
    findings.push(DoctorFinding::ok(CHECK, format!("under {} ({})", file.display(), keeper.current().policy.name())));
    Ok(true)
}

/// Names of a policy that the local chain needs another form of.
struct LocalNames {
    /// Id of the live chain.
    live: u64,
    /// Local chain as policies name it.
    local: String,
    holder: Option<Address>,
    stand_in: Address,
}

impl LocalNames {
    /// Text with the local chain in place of the live one, and the stand-in in place of its holder.
    fn of(&self, text: &str) -> String {
        let is_live = |text: &str| text.parse::<ChainId>().is_ok_and(|chain| chain.0 == self.live);
        if text.parse().is_ok_and(|address: Address| Some(address) == self.holder) {
            return self.stand_in.to_string();
        }
        match text.split_once(':') {
            Some((chain, rest)) if is_live(chain) => format!("{}:{rest}", self.local),
            None if is_live(text) => self.local.clone(),
            Some(_) | None => text.to_owned(),
        }
    }

    fn apply(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.of(&text)),
            Value::Array(values) => Value::Array(values.into_iter().map(|value| self.apply(value)).collect()),
            Value::Table(table) => Value::Table(self.table(table)),
            other @ (Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_)) => other,
        }
    }

    fn table(&self, table: Table) -> Table {
        table.into_iter().map(|(key, value)| (self.of(&key), self.apply(value))).collect()
    }
}

/// The policy with its names for the local chain. `allows` tells whether it allows the live chain, which its preset may
/// do by the live chain's own id.
fn for_local_chain(policy: Table, names: &LocalNames, allows: bool) -> Table {
    let mut mapped = names.table(policy);
    if allows && !mapped.contains_key(ALLOWED_CHAINS) {
        mapped.insert(ALLOWED_CHAINS.to_owned(), Value::Array(vec![Value::String(names.local.clone())]));
    }
    mapped
}

/// Makes the swap, first with what would need an approval, then in full.
fn swap(
    inside: &Config,
    rehearsal: &Rehearsal,
    size: &str,
    findings: &mut Vec<DoctorFinding>,
) -> Result<(), CommandFailure> {
    let network = &rehearsal.network;
    let listed = |symbol: &&&str| network.book.tokens().iter().any(|token| token.symbol == **symbol);
    let Some(bought) = BOUGHT.iter().find(listed) else {
        let fix = "add its tokens with --book FILE";
        findings.push(DoctorFinding::fail(CHECK, format!("no stablecoin of {} is known to buy", network.name), fix));
        return Ok(());
    };
    let params = json!({
        "token_in": network.native_symbol, "token_out": bought, "amount": size, "chain": network.name,
    });
    let ask = |approve| -> Result<ToolResponse, CommandFailure> {
        let options = CallFlags { approve: Some(approve), ..CallFlags::default() };
        call::respond(inside, "uniswap_execute_swap", ToolInput::Json(params.clone()), options)
    };
    let asked = ask(ApprovalMode::Never)?;
    let response = match needs_approval(&asked) {
        true => {
            let why = asked.explanation.as_deref().unwrap_or("the policy requires it");
            let fix = "answer it in the console or on the terminal; the rehearsal goes on as if you had approved";
            findings.push(DoctorFinding::note(CHECK, format!("needs your approval: {}", without_controls(why)), fix));
            ask(ApprovalMode::Always)?
        }
        false => asked,
    };
    let explanation = response.explanation.as_deref().map(without_controls).unwrap_or_default();
    let what = format!("{size} {} for {bought}", network.native_symbol);
    findings.push(match response.status {
        CallStatus::Success | CallStatus::Partial => DoctorFinding::ok(CHECK, format!("swapped {what}: {explanation}")),
        CallStatus::Simulated | CallStatus::Blocked | CallStatus::Rejected | CallStatus::Error => {
            let fix = response.error.as_ref().map_or("see the reason", |error| error.suggestion());
            DoctorFinding::fail(CHECK, format!("did not swap {what}: {explanation}"), fix)
        }
    });
    Ok(())
}

fn needs_approval(response: &ToolResponse) -> bool {
    let code = response.error.as_ref().map(|error| error.code());
    response.status == CallStatus::Blocked && code == Some(ErrorCode::ApprovalRequired)
}

/// Differences to the live network.
fn differences(config: &Config, plan: &ChainPlan, rehearsal: &Rehearsal) -> Vec<DoctorFinding> {
    let live = rehearsal.origin.network();
    let mut differences = vec![
        format!("its chain id is {}: the stand-in signed for {}, which is worthless there", live.chain_id, rehearsal.network.chain_id),
        "others trade there: the price moves between quote and execution, and transactions can be reordered around yours"
            .to_owned(),
        "the base fee there follows the demand; here it falls while nobody else sends".to_owned(),
    ];
    match live.data_fees {
        DataFees::None => {}
        DataFees::Oracle(_) => {
            differences.push("it also charges a data fee per transaction, which is not charged here".to_owned())
        }
        DataFees::Unknown => differences
            .push("its data fee is not known, so nothing is signed there until `data_fee_oracle` is set".to_owned()),
    }
    if live.kind == NetworkKind::Real {
        differences
            .push("it is real money, so approvals must be typed out, and the key's password is needed".to_owned());
    }
    let settings = config.chains.iter().find(|(name, _)| **name == plan.name).map(|(_, settings)| settings);
    if settings.is_some_and(|settings| settings.relay.is_some()) {
        differences.push("private transactions go through the configured relay, which was not used here".to_owned());
    }
    if plan.endpoints.len() < 2 {
        differences.push("one endpoint is configured, so neither here nor there is anything cross-checked".to_owned());
    }
    if !rehearsal.not_copied.is_empty() {
        let names: Vec<_> = rehearsal.not_copied.iter().map(ToString::to_string).collect();
        differences.push(format!("the stand-in lacks {}", names.join(", ")));
    }
    differences.into_iter().map(|difference| DoctorFinding::ok("live", difference)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::address;

    const HOLDER: Address = address!("0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC");
    const STAND_IN: Address = address!("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");

    fn mapped(text: &str, allows: bool) -> Table {
        let names =
            LocalNames { live: 8_453, local: "devnet-ethereum".to_owned(), holder: Some(HOLDER), stand_in: STAND_IN };
        let mapped = for_local_chain(text.parse().unwrap(), &names, allows);
        // The written form means the same.
        assert_eq!(toml::to_string(&mapped).unwrap().parse::<Table>().unwrap(), mapped);
        mapped
    }

    #[test]
    fn a_policy_means_the_local_chain_and_the_stand_in_where_it_named_the_live_ones() {
        let text = r#"
            preset = "paranoid" # "base" in a comment
            allowed_chains = [
                "base", # the one
                'arbitrum', "8453",
            ]
            allowed_tokens = ["base:native", "arbitrum:native"]
            allowed_execution_wallets = ["0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"]
            max_trades_per_hour = 3
            [token_caps."base:native"]
            per_day_usd = "5"
        "#;
        let expected = r#"
            preset = "paranoid"
            allowed_chains = ["devnet-ethereum", "arbitrum", "devnet-ethereum"]
            allowed_tokens = ["devnet-ethereum:native", "arbitrum:native"]
            allowed_execution_wallets = ["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"]
            max_trades_per_hour = 3
            [token_caps."devnet-ethereum:native"]
            per_day_usd = "5"
        "#;
        assert_eq!(mapped(text, true), expected.parse::<Table>().unwrap());
    }

    #[test]
    fn a_chain_that_only_the_preset_allows_stays_allowed_and_no_other() {
        let text = "preset = \"defi-trading\"\nmax_single_trade_usd = \"50\"\n[token_caps.\"8453:native\"]\n";
        let expected = "preset = \"defi-trading\"\nallowed_chains = [\"devnet-ethereum\"]\n\
                        max_single_trade_usd = \"50\"\n[token_caps.\"devnet-ethereum:native\"]\n";
        assert_eq!(mapped(text, true), expected.parse::<Table>().unwrap());
        let plain = "preset = \"defi-trading\"\nmax_single_trade_usd = \"50\"\n";
        assert_eq!(mapped(plain, false), plain.parse::<Table>().unwrap());
    }
}
