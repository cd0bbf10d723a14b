//! Texts of policy files: from a template, or from the policy in force with an agent's own limits in it.
//!
//! A template replaces the file. Only the second operator's approval stays as it is, because it belongs to the operators and
//! not to a strategy.

use std::collections::BTreeSet;
use std::fmt;

use alloy::primitives::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::units::Usd;
use bardo_safety::policy::{ChainId, ContractRef, Policy, PolicyOrigin};

/// Template of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyTemplate {
    /// Deposits in vaults and withdrawals, with the swaps and allowances that they need.
    VaultParticipant,
    /// The same, and what a vault's manager does with its assets: liquidity, lending, orders.
    VaultManager,
    /// Trading within wide limits.
    DefiTrading,
    /// No signature at all, whatever is asked.
    ReadOnly,
}

impl PolicyTemplate {
    /// Name of the template.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::VaultParticipant => "vault-participant",
            Self::VaultManager => "vault-manager",
            Self::DefiTrading => "defi-trading",
            Self::ReadOnly => "read-only",
        }
    }

    /// Kinds of action that the template allows; `None` for all of its preset.
    const fn intents(self) -> Option<&'static [&'static str]> {
        match self {
            Self::VaultParticipant => Some(&["approve", "cancel_order", "refund", "revoke", "swap", "vault", "wrap"]),
            Self::VaultManager => Some(&[
                "approve",
                "cancel_order",
                "lending",
                "liquidity",
                "place_order",
                "refund",
                "revoke",
                "swap",
                "vault",
                "wrap",
            ]),
            Self::DefiTrading | Self::ReadOnly => None,
        }
    }
}

impl fmt::Display for PolicyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Signing tools of a vault's participant.
const PARTICIPANT: [&str; 13] = [
    "cancel_transaction",
    "intent_refund",
    "speed_up_transaction",
    "token_approve",
    "token_revoke",
    "uniswap_execute_swap",
    "uniswapx_cancel_order",
    "unwrap_native",
    "vault_cancel_request",
    "vault_claim",
    "vault_deposit",
    "vault_withdraw",
    "wrap_native",
];

/// Text of a template's policy file. `others` are the names of the tools that sign nothing.
pub fn of_template<'a>(
    template: PolicyTemplate,
    chains: &[u64],
    others: impl IntoIterator<Item = &'a str>,
    in_force: &Policy,
) -> String {
    let preset = match template {
        PolicyTemplate::ReadOnly => "read-only",
        PolicyTemplate::VaultParticipant | PolicyTemplate::VaultManager | PolicyTemplate::DefiTrading => "defi-trading",
    };
    let mut text = format!("# Template {template} of wallet_configure_policy.\npreset = \"{preset}\"\n");
    match template {
        // The list also limits what may be read: without signatures it stays as it is.
        PolicyTemplate::ReadOnly if !in_force.rules().allowed_chains.is_all() => {
            let fields = in_force.fields();
            let kept = fields.iter().find(|field| field.name == "allowed_chains");
            text.extend(kept.map(|field| line(&field.name, &field.value)));
        }
        PolicyTemplate::ReadOnly => {}
        PolicyTemplate::VaultParticipant | PolicyTemplate::VaultManager | PolicyTemplate::DefiTrading => {
            text.push_str(&line("allowed_chains", &list(chains.iter().map(|id| ChainId(*id)))));
        }
    }
    if let Some(intents) = template.intents() {
        text.push_str(&line("allowed_intent_types", &list(intents)));
    }
    if template == PolicyTemplate::VaultParticipant {
        let tools: BTreeSet<&str> = others.into_iter().chain(PARTICIPANT).collect();
        text.push_str(&line("allowed_tools", &list(tools)));
    }
    // Of these vaults alone, the equity leaves out what belongs to the depositors: see `bardo_safety::vault_equity`.
    let vaults = in_force.rules().allowed_vaults.listed.as_ref().is_some_and(|listed| !listed.is_empty());
    for field in in_force.fields() {
        let second = field.name.starts_with("second_approval.") && field.value != "\"none\"";
        if second || vaults && field.name == "allowed_vaults" {
            text.push_str(&line(&field.name, &field.value));
        }
    }
    text
}

/// Policy of the caller's own.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomPolicy {
    /// Contracts that may be called: 0x addresses on every chain below, or CHAIN:0x… on one. An empty list allows none.
    pub allowed_contracts: Vec<String>,
    /// Limits in dollars, at most one for each period. A period without one keeps its limit.
    pub spending_limits: Vec<SpendingLimit>,
    /// EIP-155 ids of the chains that may be read and acted on.
    pub chain_restrictions: Vec<u64>,
}

/// Limit in dollars over a period.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpendingLimit {
    /// "transaction", "hour", "day" or "month" (30 days).
    pub period: LimitPeriod,
    /// Limit in dollars.
    pub limit_usd: String,
}

/// Period of a spending limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitPeriod {
    /// Any single action.
    Transaction,
    /// Any 60 minutes.
    Hour,
    /// Any 24 hours.
    Day,
    /// Any 30 days.
    Month,
}

impl LimitPeriod {
    /// Fields of the policy that limit the period. The lower one applies, so that both are set.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Transaction => &["max_single_trade_usd", "spending_limits.per_transaction"],
            Self::Hour => &["max_hourly_spend_usd"],
            Self::Day => &["max_daily_spend_usd", "spending_limits.per_day"],
            Self::Month => &["max_monthly_spend_usd"],
        }
    }
}

/// Text of the policy in force with the fields of `custom` in it. Every other field that its file sets stays.
///
/// # Errors
/// `VALIDATION_FAILED` for an invalid contract, amount or chain, and for a policy in force that comes from two files.
pub fn of_custom(custom: &CustomPolicy, in_force: &Policy) -> Result<String, ToolError> {
    let mut set: Vec<(&str, String)> = Vec::new();
    if custom.chain_restrictions.is_empty() {
        return Err(invalid("custom_policy", &"chain_restrictions: name at least one chain"));
    }
    let chains: BTreeSet<ChainId> = custom.chain_restrictions.iter().map(|id| ChainId(*id)).collect();
    set.push(("allowed_chains", list(&chains)));
    let mut contracts = BTreeSet::new();
    for text in &custom.allowed_contracts {
        contracts.extend(contracts_of(text, &chains)?);
    }
    set.push(("allowed_contracts", list(contracts)));
    let mut periods = BTreeSet::new();
    for limit in &custom.spending_limits {
        if !periods.insert(limit.period) {
            return Err(invalid("custom_policy", &"spending_limits: each period has one limit"));
        }
        let amount: Usd = limit
            .limit_usd
            .parse()
            .map_err(|error| invalid("custom_policy", &format_args!("spending_limits: {error}")))?;
        set.extend(limit.period.fields().iter().map(|field| (*field, format!("\"{amount}\""))));
    }
    let (preset, kept) = match in_force.origin() {
        PolicyOrigin::Preset(preset) => (*preset, BTreeSet::new()),
        PolicyOrigin::File { preset, set, .. } => (*preset, set.keys().cloned().collect()),
        PolicyOrigin::Between => {
            let what =
                "a looser policy file waits for a decision: run `bardo policy accept` or `bardo policy refuse` first";
            return Err(invalid("custom_policy", &what));
        }
    };
    let mut text = format!("# Custom policy of wallet_configure_policy.\npreset = \"{}\"\n", preset.as_str());
    for field in in_force.fields() {
        match set.iter().find(|(name, _)| *name == field.name) {
            Some((name, value)) => text.push_str(&line(name, value)),
            None if kept.contains(&field.name) => text.push_str(&line(&field.name, &field.value)),
            None => {}
        }
    }
    Ok(text)
}

/// Contracts that one entry names: an address on every chain, or one on its own chain.
fn contracts_of(text: &str, chains: &BTreeSet<ChainId>) -> Result<Vec<ContractRef>, ToolError> {
    let wrong = |error: &dyn fmt::Display| invalid("custom_policy", &format_args!("allowed_contracts: {error}"));
    if !text.starts_with("0x") {
        let one: ContractRef = text.parse().map_err(|error| wrong(&error))?;
        return match chains.contains(&one.chain) {
            true => Ok(vec![one]),
            false => Err(wrong(&format_args!("{one} is on a chain that chain_restrictions does not name"))),
        };
    }
    let address: Address = text.parse().map_err(|error| wrong(&error))?;
    Ok(chains.iter().map(|chain| ContractRef { chain: *chain, address, selector: None }).collect())
}

fn line(field: &str, value: &str) -> String {
    format!("{field} = {value}\n")
}

/// List in the syntax of the file. Every item's text has neither quotes nor line breaks.
fn list(items: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{item}\"")).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use bardo_safety::policy::{PolicyPreset, parse};

    const ROUTER: &str = "0x66a9893cC07D91D95644AEDD05D03f95e1dBA8Af";

    fn parsed(text: &str) -> Policy {
        parse(text, Path::new("test")).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn value(policy: &Policy, name: &str) -> String {
        policy.fields().into_iter().find(|field| field.name == name).unwrap().value
    }

    fn custom(contracts: &[&str], limits: &[(LimitPeriod, &str)], chains: &[u64]) -> CustomPolicy {
        CustomPolicy {
            allowed_contracts: contracts.iter().map(|text| (*text).to_owned()).collect(),
            spending_limits: limits
                .iter()
                .map(|(period, limit)| SpendingLimit { period: *period, limit_usd: (*limit).to_owned() })
                .collect(),
            chain_restrictions: chains.to_vec(),
        }
    }

    #[test]
    fn every_template_is_a_policy_and_the_second_operator_stays() {
        let guarded = "preset = \"demo\"\nmax_single_trade_usd = \"7\"\n[second_approval]\nabove_usd = \"50\"\n\
                       approvers = [\"0x70997970C51812dc3A010C7d01b50e0d17dc79C8\"]\n";
        let guarded = parsed(guarded);
        for template in [
            PolicyTemplate::VaultParticipant,
            PolicyTemplate::VaultManager,
            PolicyTemplate::DefiTrading,
            PolicyTemplate::ReadOnly,
        ] {
            let policy = parsed(&of_template(template, &[31_337, 8_453], ["get_balances"], &guarded));
            assert_eq!(policy.second_approval(), guarded.second_approval(), "{template}");
            let trades = if template == PolicyTemplate::ReadOnly { "\"0\"" } else { "\"10000\"" };
            assert_eq!(value(&policy, "max_single_trade_usd"), trades, "{template}");
        }
        let paranoid = parsed("preset = \"paranoid\"\nallowed_chains = \"all\"\n");
        let read_only = parsed(&of_template(PolicyTemplate::ReadOnly, &[1], [], &paranoid));
        assert_eq!(read_only.hash(), Policy::preset(PolicyPreset::ReadOnly).hash());
        // What limits reads is not widened by a policy that signs nothing.
        let demo = Policy::preset(PolicyPreset::Demo);
        let read_only = parsed(&of_template(PolicyTemplate::ReadOnly, &[1], [], &demo));
        assert!(demo.changes(&read_only).iter().all(|change| change.tighter));
        assert_eq!(value(&read_only, "allowed_chains"), value(&demo, "allowed_chains"));
    }

    /// Without its name in the policy, the money of a vault's depositors would count as the operator's.
    #[test]
    fn every_template_keeps_the_vaults_that_the_policy_names() {
        let named = "[\"devnet-ethereum:0x70997970C51812dc3A010C7d01b50e0d17dc79C8\"]";
        let manager = parsed(&format!("preset = \"demo\"\nallowed_vaults = {named}\n"));
        for template in [
            PolicyTemplate::VaultParticipant,
            PolicyTemplate::VaultManager,
            PolicyTemplate::DefiTrading,
            PolicyTemplate::ReadOnly,
        ] {
            let policy = parsed(&of_template(template, &[31_337], ["get_balances"], &manager));
            assert_eq!(value(&policy, "allowed_vaults"), named, "{template}");
            let from = Policy::preset(PolicyPreset::Demo);
            let without = of_template(template, &[31_337], ["get_balances"], &from);
            assert!(!without.contains("allowed_vaults"), "{template}");
        }
    }

    #[test]
    fn a_participant_has_the_tools_of_deposits_alone() {
        let demo = Policy::preset(PolicyPreset::Demo);
        let policy = parsed(&of_template(PolicyTemplate::VaultParticipant, &[31_337], ["get_balances"], &demo));
        let tools = &policy.rules().allowed_tools;
        let is_allowed =
            |name: &str| tools.allows_by(false, |listed| listed.iter().any(|item| item.to_string() == name));
        for name in ["get_balances", "vault_deposit", "vault_withdraw", "token_revoke", "cancel_transaction"] {
            assert!(is_allowed(name), "{name}");
        }
        for name in ["vault_pause", "vault_set_cap", "wallet_transfer_token", "lending_borrow", "hook_deploy"] {
            assert!(!is_allowed(name), "{name}");
        }
        let intents = value(&policy, "allowed_intent_types");
        assert!(intents.contains("\"vault\"") && !intents.contains("transfer"), "{intents}");
        assert_eq!(value(&policy, "allowed_chains"), "[\"devnet-ethereum\"]");
    }

    #[test]
    fn a_custom_policy_changes_what_it_names_and_keeps_the_rest_of_the_file() {
        let before = parsed(
            "preset = \"paranoid\"\nmax_gas_usd = \"3\"\nmax_daily_spend_usd = \"250\"\n\
             [spending_limits]\nhot_lane = \"40\"\n[phases.cautious]\nmax_slippage_bps = 12\n",
        );
        let asked = custom(&[ROUTER], &[(LimitPeriod::Day, "120.50"), (LimitPeriod::Transaction, "60")], &[1, 8_453]);
        let after = parsed(&of_custom(&asked, &before).unwrap());
        let changed: Vec<_> = before.changes(&after).into_iter().map(|change| (change.field, change.to)).collect();
        let contracts = format!("[\"ethereum:{ROUTER}\", \"base:{ROUTER}\"]");
        let expected = [
            ("max_single_trade_usd", "\"60\""),
            ("max_daily_spend_usd", "\"120.5\""),
            ("allowed_chains", "[\"ethereum\", \"base\"]"),
            ("allowed_contracts", contracts.as_str()),
            ("spending_limits.per_transaction", "\"60\""),
            ("spending_limits.per_day", "\"120.5\""),
        ];
        assert_eq!(changed, expected.map(|(field, to)| (field.to_owned(), to.to_owned())));
        // No contract is allowed, not every one.
        let none = parsed(&of_custom(&custom(&[], &[], &[1]), &before).unwrap());
        assert_eq!(value(&none, "allowed_contracts"), "[]");
    }

    #[test]
    fn a_custom_policy_that_is_not_exact_is_refused() {
        let before = Policy::preset(PolicyPreset::Demo);
        for (asked, words) in [
            (custom(&[], &[], &[]), "at least one chain"),
            (custom(&["0x12"], &[], &[1]), "allowed_contracts"),
            (custom(&["USDC\"]\npreset = \"demo"], &[], &[1]), "allowed_contracts"),
            (custom(&[&format!("base:{ROUTER}")], &[], &[1]), "chain_restrictions does not name"),
            (custom(&[], &[(LimitPeriod::Day, "-1")], &[1]), "spending_limits"),
            (custom(&[], &[(LimitPeriod::Day, "1\"\nx = \"2")], &[1]), "spending_limits"),
            (custom(&[], &[(LimitPeriod::Day, "1"), (LimitPeriod::Day, "2")], &[1]), "one limit"),
        ] {
            let error = of_custom(&asked, &before).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let between = before.stricter(&Policy::preset(PolicyPreset::Paranoid));
        let error = of_custom(&custom(&[], &[], &[1]), &between).unwrap_err().to_string();
        assert!(error.contains("waits for a decision"), "{error}");
    }
}
