//! Action catalog and queries, with the concrete tools behind each. A kind whose tool does not exist, or is not in the
//! Golem's tool set, reports the missing tool.

use golem_tools::engine::Catalog;

/// Kind of action: reads, followed by the write that is previewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionKind {
    /// Name of the kind, in kebab case.
    pub name: &'static str,
    /// Read tools that run before, in order. Each receives the parameters that it knows.
    pub reads: &'static [&'static str],
    /// Write tool that acts.
    pub acts: &'static str,
}

/// Kind of query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryKind {
    /// Name of the query, in kebab case.
    pub name: &'static str,
    /// Read tool that answers the query.
    pub tool: &'static str,
}

const fn kind(name: &'static str, reads: &'static [&'static str], acts: &'static str) -> ActionKind {
    ActionKind { name, reads, acts }
}

/// All kinds of action.
pub const ACTION_KINDS: &[ActionKind] = &[
    // Trading.
    kind("swap", &["uniswap_get_quote"], "uniswap_execute_swap"),
    kind("auction", &["uniswap_get_quote"], "uniswap_submit_uniswapx_order"),
    kind("cancel-order", &[], "uniswapx_cancel_order"),
    kind("bridge", &[], "uniswap_submit_cross_chain_intent"),
    kind("refund-bridge", &[], "intent_refund"),
    kind("across-deposit", &["across_get_quote"], "across_deposit"),
    kind("approve", &[], "token_approve"),
    kind("revoke", &[], "token_revoke"),
    kind("wrap", &[], "wrap_native"),
    kind("unwrap", &[], "unwrap_native"),
    kind("limit-order", &["uniswap_get_quote"], "uniswap_place_limit_order"),
    kind("recurring-buy", &[], "uniswap_schedule_swaps"),
    kind("cancel-schedule", &[], "cancel_schedule"),
    // Wallet and session.
    kind("transfer", &[], "wallet_transfer_token"),
    kind("provision-wallet", &[], "wallet_provision"),
    kind("fund-wallet", &[], "wallet_fund"),
    kind("set-policy", &[], "wallet_configure_policy"),
    kind("provision-session-key", &[], "session_provision_key"),
    kind("revoke-session-key", &[], "session_revoke_key"),
    // Liquidity.
    kind("add-liquidity", &["get_pool_info"], "add_liquidity"),
    kind("increase-liquidity", &["get_position"], "increase_liquidity"),
    kind("remove-liquidity", &["get_position"], "remove_liquidity"),
    kind("collect-fees", &["get_position"], "collect_fees"),
    kind("compound-fees", &["get_position"], "compound_fees"),
    kind("rebalance-position", &["get_position"], "rebalance_position"),
    kind("migrate-position", &["get_position"], "migrate_position"),
    kind("close-position", &["get_position"], "close_position"),
    // Lending.
    kind("lending-supply", &["list_lending_reserves"], "lending_supply"),
    kind("lending-withdraw", &["get_lending_position"], "lending_withdraw"),
    kind("lending-borrow", &["get_lending_position"], "lending_borrow"),
    kind("lending-repay", &["get_lending_position"], "lending_repay"),
    // Vaults.
    kind("vault-deposit", &["vault_simulate_deposit"], "vault_deposit"),
    kind("vault-withdraw", &["vault_simulate_withdraw"], "vault_withdraw"),
    kind("vault-claim", &["get_vault_state"], "vault_claim"),
    kind("vault-cancel-request", &["get_vault_state"], "vault_cancel_request"),
    kind("vault-deploy", &[], "vault_deploy"),
    kind("vault-settle", &["get_vault_state"], "vault_settle"),
    kind("vault-teardown", &["get_vault_state"], "vault_teardown"),
    kind("vault-rebalance", &[], "vault_rebalance"),
    kind("vault-harvest", &[], "vault_harvest"),
    kind("vault-pause", &[], "vault_pause"),
    kind("vault-resume", &[], "vault_resume"),
    kind("vault-set-cap", &[], "vault_set_cap"),
    // Protocol fees.
    kind("burn-fees", &["get_tokenjar_balances"], "execute_burn"),
    kind("claim-fees", &[], "claim_fees"),
    // Identity.
    kind("register-agent", &[], "identity_register_agent"),
    kind("update-agent", &["identity_get_agent_profile"], "identity_update_metadata"),
    kind("rate-agent", &["identity_evaluate_agent_trust"], "identity_submit_feedback"),
    kind("hand-over-agent", &["identity_get_agent_profile"], "identity_transfer_ownership"),
    // Memory and learning.
    kind("store-episode", &[], "store_episode"),
    kind("save-state", &[], "save_agent_state"),
    kind("record-decision", &[], "record_agent_decision"),
    kind("tune-parameters", &[], "tune_parameters"),
    kind("record-outcome", &[], "record_outcome"),
    // Hooks and test networks.
    kind("deploy-hook", &["get_hook_template"], "hook_deploy"),
    kind("deploy-mock-pool", &[], "deploy_mock_pool"),
    kind("time-travel", &[], "time_travel"),
    kind("setup-testnet", &[], "setup_local_testnet"),
];

const fn query(name: &'static str, tool: &'static str) -> QueryKind {
    QueryKind { name, tool }
}

/// All kinds of query. The name of a read tool is also accepted as a query.
pub const QUERIES: &[QueryKind] = &[
    query("balances", "get_balances"),
    query("price", "get_token_price"),
    query("price-history", "get_price_history"),
    query("indicator", "get_indicator"),
    query("pool", "get_pool_info"),
    query("pools", "list_pools"),
    query("tokens", "search_tokens"),
    query("chain", "get_chain_status"),
    query("quote", "uniswap_get_quote"),
    query("allowance", "uniswap_check_allowance"),
    query("allowances", "get_allowances"),
    query("transaction", "get_transaction"),
    query("order", "uniswap_get_uniswapx_order_status"),
    query("across-quote", "across_get_quote"),
    query("across-deposits", "across_get_deposit_status"),
    query("mev-risk", "intel_assess_mev_risk"),
    query("simulation", "simulate_transaction"),
    query("safety", "check_safety_status"),
    query("gas-estimate", "estimate_gas"),
    query("portfolio", "get_portfolio"),
    query("risk", "get_risk_metrics"),
    query("wallet", "wallet_get_status"),
    query("gas", "wallet_get_gas_price"),
    query("account-type", "wallet_detect_account_type"),
    query("delegation", "wallet_get_delegation"),
    query("supported-chains", "wallet_get_supported_chains"),
    query("session-keys", "session_get_keys"),
    query("agent", "identity_get_agent_profile"),
    query("reputation", "identity_get_reputation_summary"),
    query("positions", "list_positions"),
    query("position", "get_position"),
    query("rebalance-candidate", "compute_rebalance_candidate"),
    query("lending-position", "get_lending_position"),
    query("lending-reserves", "list_lending_reserves"),
    query("vaults", "vault_list"),
    query("agent-state", "load_agent_state"),
    query("schedules", "list_schedules"),
    query("vault", "get_vault_state"),
    query("vault-deposit", "vault_simulate_deposit"),
    query("vault-withdraw", "vault_simulate_withdraw"),
    query("fee-jar", "get_tokenjar_balances"),
    query("hooked-pools", "hook_discover"),
    query("hook", "hook_evaluate"),
    query("hook-template", "get_hook_template"),
];

/// Rewrites a tool's guideline in an agent's terms. An agent has only eight tools, so a concrete tool is replaced by
/// the query or action that leads to it. An unreachable tool is replaced by a note that the agent does not have it.
pub fn in_agent_terms(advice: &str, catalog: &Catalog) -> String {
    let is_name = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    let mut told = String::with_capacity(advice.len());
    let mut rest = advice;
    while let Some(begin) = rest.find(is_name) {
        let (before, from) = rest.split_at(begin);
        let (word, after) = from.split_at(from.find(|character| !is_name(character)).unwrap_or(from.len()));
        told.push_str(before);
        match agent_name(word, catalog) {
            Some(name) => told.push_str(&name),
            None => told.push_str(word),
        }
        rest = after;
    }
    told.push_str(rest);
    told
}

/// Returns an agent's term for a concrete tool; `None` for any other word.
fn agent_name(word: &str, catalog: &Catalog) -> Option<String> {
    let query = QUERIES.iter().find(|query| query.tool == word);
    let kind = ACTION_KINDS.iter().find(|kind| kind.acts == word);
    match (query, kind) {
        (Some(query), _) if catalog.get(word).is_some() => Some(format!("query_state \"{}\"", query.name)),
        (_, Some(kind)) if kind.lacks(catalog).is_empty() => Some(format!("preview_action \"{}\"", kind.name)),
        (Some(_), _) | (_, Some(_)) => Some("a tool that you do not have".to_owned()),
        (None, None) => catalog.get(word).map(|_| format!("query_state \"{word}\"")),
    }
}

fn plain(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace(['_', ' '], "-")
}

/// Tools that only cancel, revoke, refund or pause, whatever their parameters.
const TAKING_BACK: [&str; 6] =
    ["token_revoke", "uniswapx_cancel_order", "intent_refund", "session_revoke_key", "cancel_schedule", "vault_pause"];

/// Tools that only keep the Golem's own notes.
const NOTES: [&str; 2] = ["save_agent_state", "record_agent_decision"];

impl ActionKind {
    /// True if the action only keeps the Golem's own notes.
    pub fn keeps_notes(&self) -> bool {
        NOTES.contains(&self.acts)
    }

    /// True if the action only cancels, revokes, refunds or pauses.
    pub fn only_revokes(&self) -> bool {
        TAKING_BACK.contains(&self.acts)
    }

    /// Finds the kind with this name; case, spaces and underscores do not matter.
    pub fn named(name: &str) -> Option<&'static Self> {
        let asked = plain(name);
        ACTION_KINDS.iter().find(|kind| kind.name == asked)
    }

    /// Lists the tools that this kind needs and `catalog` does not contain.
    pub fn lacks(&self, catalog: &Catalog) -> Vec<&'static str> {
        self.reads.iter().copied().chain([self.acts]).filter(|tool| catalog.get(tool).is_none()).collect()
    }
}

impl QueryKind {
    /// Finds the query with this name; case, spaces and underscores do not matter.
    pub fn named(name: &str) -> Option<&'static Self> {
        let asked = plain(name);
        QUERIES.iter().find(|query| query.name == asked)
    }
}
