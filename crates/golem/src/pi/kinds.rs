//! Kinds of action and of question, and the concrete tools behind each. A kind whose tool does not exist, or is not in
//! the Golem's tool set, names the tool it lacks.

use golem_tools::engine::Catalog;

/// A kind of action: reads first, and at last the write that is previewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionKind {
    /// Its name.
    pub name: &'static str,
    /// What is read before, in order. Each gets those of the parameters that it knows.
    pub reads: &'static [&'static str],
    /// What acts.
    pub acts: &'static str,
}

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// Its name.
    pub name: &'static str,
    /// What answers it.
    pub tool: &'static str,
}

const fn kind(name: &'static str, reads: &'static [&'static str], acts: &'static str) -> ActionKind {
    ActionKind { name, reads, acts }
}

/// Every kind of action.
pub const ACTION_KINDS: &[ActionKind] = &[
    // trading
    kind("swap", &["uniswap_get_quote"], "uniswap_execute_swap"),
    kind("auction", &["uniswap_get_quote"], "uniswap_submit_uniswapx_order"),
    kind("cancel-order", &[], "uniswapx_cancel_order"),
    kind("bridge", &[], "uniswap_submit_cross_chain_intent"),
    kind("refund-bridge", &[], "intent_refund"),
    kind("approve", &[], "token_approve"),
    kind("revoke", &[], "token_revoke"),
    kind("limit-order", &["uniswap_get_quote"], "uniswap_place_limit_order"),
    kind("recurring-buy", &["uniswap_get_quote"], "uniswap_schedule_swaps"),
    // wallet and session
    kind("transfer", &[], "wallet_transfer_token"),
    kind("provision-wallet", &[], "wallet_provision"),
    kind("fund-wallet", &[], "wallet_fund"),
    kind("set-policy", &[], "wallet_configure_policy"),
    kind("provision-session-key", &[], "session_provision_key"),
    kind("revoke-session-key", &[], "session_revoke_key"),
    // liquidity
    kind("add-liquidity", &["get_pool_info"], "add_liquidity"),
    kind("increase-liquidity", &["get_pool_info"], "increase_liquidity"),
    kind("remove-liquidity", &["get_pool_info"], "remove_liquidity"),
    kind("collect-fees", &[], "collect_fees"),
    kind("compound-fees", &["get_pool_info"], "compound_fees"),
    kind("rebalance-position", &["get_pool_info"], "rebalance_position"),
    kind("migrate-position", &["get_pool_info"], "migrate_position"),
    kind("close-position", &["get_pool_info"], "close_position"),
    // vaults
    kind("vault-deposit", &["vault_simulate_deposit"], "vault_deposit"),
    kind("vault-withdraw", &["vault_simulate_withdraw"], "vault_withdraw"),
    kind("vault-rebalance", &[], "vault_rebalance"),
    kind("vault-harvest", &[], "vault_harvest"),
    kind("vault-pause", &[], "vault_pause"),
    kind("vault-resume", &[], "vault_resume"),
    kind("vault-set-cap", &[], "vault_set_cap"),
    // protocol fees
    kind("burn-fees", &["get_tokenjar_balances"], "execute_burn"),
    kind("claim-fees", &[], "claim_fees"),
    // identity
    kind("register-agent", &[], "identity_register_agent"),
    kind("update-agent", &["identity_get_agent_profile"], "identity_update_metadata"),
    kind("rate-agent", &["identity_evaluate_agent_trust"], "identity_submit_feedback"),
    kind("hand-over-agent", &["identity_get_agent_profile"], "identity_transfer_ownership"),
    // memory and learning
    kind("store-episode", &[], "store_episode"),
    kind("tune-parameters", &[], "tune_parameters"),
    kind("record-outcome", &[], "record_outcome"),
    // hooks and test networks
    kind("deploy-hook", &["hook_evaluate"], "hook_deploy"),
    kind("deploy-mock-pool", &[], "deploy_mock_pool"),
    kind("time-travel", &[], "time_travel"),
    kind("setup-testnet", &[], "setup_local_testnet"),
];

const fn query(name: &'static str, tool: &'static str) -> Query {
    Query { name, tool }
}

/// Every kind of question. A read tool's own name is one too.
pub const QUERIES: &[Query] = &[
    query("balances", "get_balances"),
    query("price", "get_token_price"),
    query("pool", "get_pool_info"),
    query("tokens", "search_tokens"),
    query("chain", "get_chain_status"),
    query("quote", "uniswap_get_quote"),
    query("allowance", "uniswap_check_allowance"),
    query("order", "uniswap_get_uniswapx_order_status"),
    query("mev-risk", "intel_assess_mev_risk"),
    query("simulation", "simulate_transaction"),
    query("safety", "check_safety_status"),
    query("wallet", "wallet_get_status"),
    query("gas", "wallet_get_gas_price"),
    query("session-keys", "session_get_keys"),
    query("agent", "identity_get_agent_profile"),
    query("reputation", "identity_get_reputation_summary"),
    query("positions", "get_positions"),
    query("vaults", "vault_list"),
];

/// A tool's advice in an agent's own terms. An agent has eight tools and no others, so a concrete tool is named by the kind
/// of question or of action that leads to it; one that nothing leads to is named as what it is.
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

/// What an agent calls a concrete tool; `None` for a word that is none.
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

/// Tools that only take something back, whatever their parameters are.
const TAKING_BACK: [&str; 3] = ["token_revoke", "uniswapx_cancel_order", "intent_refund"];

impl ActionKind {
    /// Whether it only takes something back.
    pub fn takes_back(&self) -> bool {
        TAKING_BACK.contains(&self.acts)
    }

    /// The kind of that name, in any spelling of its words.
    pub fn named(name: &str) -> Option<&'static Self> {
        let asked = plain(name);
        ACTION_KINDS.iter().find(|kind| kind.name == asked)
    }

    /// The tools it needs and `catalog` does not have.
    pub fn lacks(&self, catalog: &Catalog) -> Vec<&'static str> {
        self.reads.iter().copied().chain([self.acts]).filter(|tool| catalog.get(tool).is_none()).collect()
    }
}

impl Query {
    /// The kind of that name, in any spelling of its words.
    pub fn named(name: &str) -> Option<&'static Self> {
        let asked = plain(name);
        QUERIES.iter().find(|query| query.name == asked)
    }
}
