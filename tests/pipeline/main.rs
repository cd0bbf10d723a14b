//! The safety pipeline on the embedded devnet: real contracts, real signatures, a real database.
//!
//! Known failures of other systems, and the tests that exclude them here (`lib` are the library's own tests, `cli` and
//! `resilience` run the binary):
//!
//! | failure | test |
//! |---|---|
//! | a composite action escapes approval | `operator::a_composite_action_is_counted_whole` |
//! | the policy does not read a field that contains an amount | `refusals::a_tool_that_lies_about_what_it_does_is_refused`, `calldata::calls_are_held_to_what_their_bytes_guarantee` |
//! | a thousand concurrent calls of two processes exceed a limit or a rate | `crowd::a_thousand_commits_of_two_processes_never_pass_a_cap_nor_after_a_restart`, the same with `rate`; `resilience processes::four_programs_never_pass_the_cap` |
//! | counters are lost on restart | the same; `operator::caps_hold_over_calls_and_restarts`, `operator::rates_hold_over_calls_and_restarts` |
//! | twice the daily limit around midnight | `lib ledger::a_day_is_any_24_hours` |
//! | a breaker never closes | `lib ledger::the_breaker_opens_tries_once_and_closes_again`, `operator::losses_and_failures_stop_trades` |
//! | a breaker stops reads | `operator::under_an_open_breaker_everything_can_still_be_read` |
//! | the stop-loss blocks exits | `lib ledger::the_stop_loss_stops_all_but_exits`, `cli writes::each_rule_refuses_by_its_own_code_and_all_of_them_at_once` |
//! | a value is skipped when its price is unknown or the feed is down | `cli writes::what_fails_in_the_simulation_or_has_no_price_is_refused`, `operator::what_a_rollup_asks_beside_gas_is_counted_and_must_be_told`, `feeds::without_a_price_nothing_is_bought_or_sold_and_everything_is_taken_back` |
//! | negative spend adds headroom | `operator::what_brings_something_in_frees_nothing`, `cli writes::a_parameter_that_cannot_be_meant_is_told_and_nothing_is_sent` |
//! | concurrent sends collide on nonces | `swap::concurrent_commits_stay_under_the_cap_and_never_share_a_nonce`, `crowd` |
//! | concurrent swaps use up each other's allowance | `swap::of_two_swaps_at_once_neither_takes_the_others_allowance`, `resilience processes` |
//! | arguments change after their approval | `properties::a_permit_serves_for_nothing_else`, `properties::a_permit_that_was_rewritten_does_not_serve`, `refusals::an_account_that_signs_something_else_gets_nothing_sent` |

mod ahead;
mod anvil;
mod audit;
mod books;
mod bridges;
mod cage;
mod calldata;
mod compile_fail;
mod consent;
mod crowd;
mod delays;
mod delegated;
mod endpoints;
mod feeds;
mod figures;
mod forged;
mod frames;
mod funds;
mod gates;
mod guardian;
mod late;
mod led;
mod ledger;
mod looks;
mod once;
mod operator;
mod order_permits;
mod orders;
mod positions;
mod properties;
mod recovery;
mod refusals;
mod refused;
mod reorgs;
mod rules;
mod sends;
mod signing;
mod stops;
mod swap;
mod tidying;
mod tools;
mod writes;
