//! The safety pipeline on the embedded devnet: real contracts, real signatures, a real database.
//!
//! Known failures of other systems, and the tests that exclude them here (`lib` are the library's own tests, `cli` and
//! `resilience` run the binary):
//!
//! | failure | test |
//! |---|---|
//! | a composite action escapes approval | `operator::a_composite_action_counts_in_full` |
//! | the policy does not read a field that contains an amount | `refusals::a_tool_that_lies_about_what_it_does_is_refused`, `calldata::a_declared_minimum_must_be_guaranteed_by_the_calldata` |
//! | a thousand concurrent calls of two processes exceed a limit or a rate | `crowd::a_thousand_commits_of_two_processes_never_exceed_a_cap_even_after_a_restart`, the same with `rate`; `resilience processes::four_programs_never_pass_the_cap` |
//! | counters are lost on restart | the same; `operator::caps_are_enforced_across_calls_and_restarts`, `operator::rates_are_enforced_across_calls_and_restarts` |
//! | twice the daily limit around midnight | `lib ledger::a_day_is_any_24_hours` |
//! | a breaker never closes | `lib ledger::the_breaker_opens_tries_once_and_closes_again`, `operator::losses_and_failures_block_trades` |
//! | a breaker stops reads | `operator::under_an_open_breaker_everything_can_still_be_read` |
//! | the stop-loss blocks exits | `lib ledger::the_stop_loss_stops_all_but_exits`, `cli writes::each_rule_refuses_by_its_own_code_and_all_of_them_at_once` |
//! | a value is skipped when its price is unknown or the feed is down | `cli writes::failed_simulations_and_missing_prices_are_refused`, `operator::a_rollups_data_fee_is_counted_and_must_be_known`, `feeds::without_a_price_only_revocations_pass` |
//! | negative spend adds headroom | `operator::an_inflow_does_not_reduce_the_spending`, `cli writes::an_impossible_parameter_is_reported_and_nothing_is_sent` |
//! | concurrent sends collide on nonces | `swap::concurrent_commits_stay_under_the_cap_and_never_share_a_nonce`, `crowd` |
//! | concurrent swaps use up each other's allowance | `swap::of_two_concurrent_swaps_neither_uses_the_others_allowance`, `resilience processes` |
//! | arguments change after their approval | `properties::a_permit_is_valid_only_for_its_own_payload`, `properties::an_altered_permit_is_invalid`, `refusals::a_signature_over_other_bytes_is_not_sent` |

mod across;
mod almanak;
mod anvil;
mod async_vaults;
mod audit;
mod books;
mod brain_process;
mod bridges;
mod cage;
mod calldata;
mod clean_up;
mod compile_fail;
mod concurrent_polls;
mod consent;
mod crowd;
mod custody;
mod delays;
mod delegated;
mod embedded;
mod endpoint_ahead;
mod endpoints;
mod feeds;
mod figures;
mod forged;
mod funds;
mod gates;
mod guardian;
mod hooks;
mod keyed_liquidity;
mod late_inclusion;
mod ledger;
mod lending;
mod liquidity;
mod managed_vaults;
mod many_positions;
mod operator;
mod order_permits;
mod orders;
mod payloads;
mod positions;
mod properties;
mod protocol_fees;
mod rebalance;
mod recovery;
mod refusals;
mod rejected_replacements;
mod reorgs;
mod repeated_reads;
mod replacements;
mod rules;
mod sends;
mod session_policy;
mod signing;
mod stops;
mod swap;
mod tools;
mod v4;
mod vaults;
mod writes;
