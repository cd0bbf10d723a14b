//! Tools and the tool engine. Each tool is one file with its `TOOL_DEF`; [`ALL_TOOL_DEFS`] is the only list. A tool
//! defines its parameters, its reads and its answer; the engine calls it.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unimplemented,
        clippy::dbg_macro
    )
)]

pub mod across;
mod allowances;
mod auction;
mod blocks;
pub mod data;
pub mod dialect;
pub mod engine;
pub mod fees;
pub mod hook;
pub mod identity;
pub mod intelligence;
pub mod lending;
pub mod lp;
mod market;
pub mod memory;
mod mev;
mod orders;
mod positions;
mod route;
pub mod safety;
pub mod schedules;
pub mod session;
mod shared;
mod swap_query;
#[cfg(test)]
mod tests;
pub mod trading;
pub mod vault;
pub mod wallet;

use crate::engine::ToolDef;

/// All built-in tools.
pub static ALL_TOOL_DEFS: &[&ToolDef] = &[
    &data::estimate_gas::TOOL_DEF,
    &data::get_balances::TOOL_DEF,
    &data::get_chain_status::TOOL_DEF,
    &data::get_indicator::TOOL_DEF,
    &data::get_lending_position::TOOL_DEF,
    &data::get_pool_info::TOOL_DEF,
    &data::get_portfolio::TOOL_DEF,
    &data::get_position::TOOL_DEF,
    &data::get_price_history::TOOL_DEF,
    &data::get_risk_metrics::TOOL_DEF,
    &data::get_token_price::TOOL_DEF,
    &data::get_transaction::TOOL_DEF,
    &data::get_vault_state::TOOL_DEF,
    &data::list_lending_reserves::TOOL_DEF,
    &data::list_pools::TOOL_DEF,
    &data::list_positions::TOOL_DEF,
    &data::search_tokens::TOOL_DEF,
    &data::vault_list::TOOL_DEF,
    &fees::claim_fees::TOOL_DEF,
    &fees::execute_burn::TOOL_DEF,
    &fees::get_tokenjar_balances::TOOL_DEF,
    &hook::get_hook_template::TOOL_DEF,
    &hook::hook_deploy::TOOL_DEF,
    &hook::hook_discover::TOOL_DEF,
    &hook::hook_evaluate::TOOL_DEF,
    &identity::identity_discover_agents::TOOL_DEF,
    &identity::identity_evaluate_agent_trust::TOOL_DEF,
    &identity::identity_get_agent_profile::TOOL_DEF,
    &identity::identity_get_credentials::TOOL_DEF,
    &identity::identity_get_reputation_summary::TOOL_DEF,
    &identity::identity_get_tier::TOOL_DEF,
    &identity::identity_get_validation_status::TOOL_DEF,
    &identity::identity_register_agent::TOOL_DEF,
    &identity::identity_submit_feedback::TOOL_DEF,
    &identity::identity_transfer_ownership::TOOL_DEF,
    &identity::identity_update_metadata::TOOL_DEF,
    &identity::identity_verify_agent::TOOL_DEF,
    &intelligence::intel_assess_mev_risk::TOOL_DEF,
    &lending::lending_borrow::TOOL_DEF,
    &lending::lending_repay::TOOL_DEF,
    &lending::lending_supply::TOOL_DEF,
    &lending::lending_withdraw::TOOL_DEF,
    &lp::add_liquidity::TOOL_DEF,
    &lp::close_position::TOOL_DEF,
    &lp::collect_fees::TOOL_DEF,
    &lp::compound_fees::TOOL_DEF,
    &lp::compute_rebalance_candidate::TOOL_DEF,
    &lp::increase_liquidity::TOOL_DEF,
    &lp::migrate_position::TOOL_DEF,
    &lp::rebalance_position::TOOL_DEF,
    &lp::remove_liquidity::TOOL_DEF,
    &memory::load_agent_state::TOOL_DEF,
    &memory::record_agent_decision::TOOL_DEF,
    &memory::save_agent_state::TOOL_DEF,
    &safety::check_safety_status::TOOL_DEF,
    &safety::simulate_transaction::TOOL_DEF,
    &session::session_get_keys::TOOL_DEF,
    &session::session_provision_key::TOOL_DEF,
    &session::session_revoke_key::TOOL_DEF,
    &trading::across_deposit::TOOL_DEF,
    &trading::across_get_deposit_status::TOOL_DEF,
    &trading::across_get_quote::TOOL_DEF,
    &trading::cancel_schedule::TOOL_DEF,
    &trading::intent_refund::TOOL_DEF,
    &trading::list_schedules::TOOL_DEF,
    &trading::token_approve::TOOL_DEF,
    &trading::token_revoke::TOOL_DEF,
    &trading::uniswap_check_allowance::TOOL_DEF,
    &trading::uniswap_execute_swap::TOOL_DEF,
    &trading::uniswap_get_quote::TOOL_DEF,
    &trading::uniswap_get_uniswapx_order_status::TOOL_DEF,
    &trading::uniswap_place_limit_order::TOOL_DEF,
    &trading::uniswap_schedule_swaps::TOOL_DEF,
    &trading::uniswap_submit_cross_chain_intent::TOOL_DEF,
    &trading::uniswap_submit_uniswapx_order::TOOL_DEF,
    &trading::uniswapx_cancel_order::TOOL_DEF,
    &trading::unwrap_native::TOOL_DEF,
    &trading::wrap_native::TOOL_DEF,
    &vault::vault_cancel_request::TOOL_DEF,
    &vault::vault_claim::TOOL_DEF,
    &vault::vault_deploy::TOOL_DEF,
    &vault::vault_deposit::TOOL_DEF,
    &vault::vault_harvest::TOOL_DEF,
    &vault::vault_pause::TOOL_DEF,
    &vault::vault_rebalance::TOOL_DEF,
    &vault::vault_resume::TOOL_DEF,
    &vault::vault_set_cap::TOOL_DEF,
    &vault::vault_settle::TOOL_DEF,
    &vault::vault_simulate_deposit::TOOL_DEF,
    &vault::vault_simulate_withdraw::TOOL_DEF,
    &vault::vault_teardown::TOOL_DEF,
    &vault::vault_withdraw::TOOL_DEF,
    &wallet::cancel_transaction::TOOL_DEF,
    &wallet::get_allowances::TOOL_DEF,
    &wallet::speed_up_transaction::TOOL_DEF,
    &wallet::wallet_configure_policy::TOOL_DEF,
    &wallet::wallet_detect_account_type::TOOL_DEF,
    &wallet::wallet_fund::TOOL_DEF,
    &wallet::wallet_get_delegation::TOOL_DEF,
    &wallet::wallet_get_gas_price::TOOL_DEF,
    &wallet::wallet_get_status::TOOL_DEF,
    &wallet::wallet_get_supported_chains::TOOL_DEF,
    &wallet::wallet_provision::TOOL_DEF,
    &wallet::wallet_transfer_token::TOOL_DEF,
];
