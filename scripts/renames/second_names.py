# --- modules and their files ---------------------------------------------------------------------------------------------
SAFETY, RUNTIME, TOOLS, GOLEM, CHAIN, CONSOLE = ("crates/bardo-safety/**", "crates/bardo-runtime/**", "crates/golem-tools/**", "crates/golem/**", "crates/golem-chain/**", "crates/bardo-console/**")
PROTOCOLS, SANDBOX, SESSION = "crates/golem-protocols/**", "crates/bardo-sandbox/**", "crates/bardo-session/**"

move_module(T + "swap_ask.rs", T + "swap_query.rs", globs=TOOLS)
replace_strings(T + "trading/**", {'"crate::swap_ask::yes"': '"crate::swap_query::yes"'})
move_module(T + "engine/acting.rs", T + "engine/write_access.rs", globs=T + "engine/**")
move_module(T + "engine/world.rs", T + "engine/environment.rs", globs=T + "engine/**")
move_module(T + "engine/executor/holding.rs", T + "engine/executor/offer.rs", globs=T + "engine/executor/**")
move_module(T + "engine/executor/ending.rs", T + "engine/executor/call_end.rs", globs=T + "engine/executor/**")
move_module(R + "acting.rs", R + "signing_context.rs", globs=R + "**", paths=False)
patterns(R + "lib.rs", [(r"\bpub use acting::", "pub use signing_context::")])
move_module(R + "world.rs", R + "environment.rs", globs=R + "**")
move_module(S + "approval/elsewhere.rs", S + "approval/remote_answers.rs", globs=S + "approval**")
move_module(S + "operator_policy/away.rs", S + "operator_policy/in_transit.rs", globs=S + "operator_policy**")
move_module(S + "operator_policy/following.rs", S + "operator_policy/policy_changes.rs", globs=S + "operator_policy**")
move_module(S + "orders/brought.rs", S + "orders/fill_amounts.rs", globs=S + "orders/**")
move_module(S + "orders/handing_in.rs", S + "orders/submission.rs", globs=S + "orders/**")
move_module(S + "orders/reach.rs", S + "orders/price_time.rs", globs=S + "orders/**")
move_module(S + "orders/ending.rs", S + "orders/order_end.rs", globs=S + "orders/**")
move_module(S + "pipeline/witness.rs", S + "pipeline/disputes.rs", globs=S + "pipeline/**")
move_module(S + "pipeline/recover/late.rs", S + "pipeline/recover/late_inclusions.rs", globs=S + "pipeline/**")
move_module(S + "pipeline/recover/left_over.rs", S + "pipeline/recover/unused_allowances.rs", globs=S + "pipeline/**")
move_module(S + "policy/held.rs", S + "policy/stored.rs", globs=[S + "policy/**", S + "operator_policy**"])
patterns(S + "operator_policy**", [(r"\bpolicy::(?:held|stored)\b(?!\s*::)", "policy::stored_policy"), (r"\bpolicy::hold\b", "policy::store_policy")])
patterns(S + "operator_policy/**", [(r"\bpolicy::(?:held|stored)\b(?!\s*::)", "policy::stored_policy"), (r"\bpolicy::hold\b", "policy::store_policy")])
patterns(S + "policy/stored.rs", [(r"\bfn held\(", "fn stored_policy("), (r"\bfn hold\(", "fn store_policy("), (r"(?<![\w.])held\(", "stored_policy("), (r"(?<![\w.])hold\(", "store_policy(")])
patterns(S + "policy/mod.rs", [(r"\bpub use (?:held|stored)::\{MIGRATIONS, held, hold\}", "pub use stored::{MIGRATIONS, store_policy, stored_policy}")])
patterns(S + "policy/tests.rs", [(r"(?<![\w.])held\(", "stored_policy("), (r"(?<![\w.])hold\(", "store_policy(")])
move_module(C + "fork/shift.rs", C + "fork/balance_delta.rs", globs=C + "fork/**")
move_module(C + "fork/silence.rs", C + "fork/unanswered.rs", globs=C + "fork/**")
move_module(C + "fork/question.rs", C + "fork/ownership_query.rs", globs=C + "fork/**")
move_module(C + "sender/spent.rs", C + "sender/nonce_use.rs", globs=C + "sender/**")
move_module(G + "scenario/when.rs", G + "scenario/condition.rs", globs=G + "scenario**")
move_module("src/cli/kept.rs", "src/cli/kept_devnets.rs", globs="src/cli/**")

import re  # noqa: E402


def fns(globs, mapping, exclude=()):
    """rename_fns, and the imports of free functions."""
    rename_fns(globs, mapping, exclude)
    for old, new in mapping.items():
        tree().code(globs, re.compile(r"\buse\s[^;]*;"), lambda m: re.sub(rf"\b{old}\b(?!\s*::)", new, m.group(0)), exclude)


# --- functions whose name is theirs alone --------------------------------------------------------------------------------
rename_words(ALL, {
    # reading the chain and the services
    "look_at_all": "poll_all", "look_at_live": "poll_live", "look_at_those_of": "poll_account", "look_with": "poll_order",
    "look_around": "poll_unwatched", "look_at_policy": "poll_policy", "look_at_stop": "poll_stop", "look_up_all": "find_all_chains",
    "looked_at_once": "wait_for_first_poll", "looks_at": "is_visible", "looks_hashed": "is_likely_hash",
    # the approval queue
    "hear_answers": "receive_remote_answers", "tell_watchers": "notify_watchers", "takes_proof": "needs_proof", "offer_takes_proof": "offer_needs_proof",
    "says_yes": "is_approval", "stand_in_line": "serve_queue", "tell_questions": "publish_requests", "elsewhere_needs_password": "remote_needs_password",
    "is_attended_elsewhere": "is_attended_remotely",
    # pipeline, ledger, orders
    "hold_again": "reserve_again", "hold_late_again": "reserve_late_inclusions", "say_found": "report_recovered", "say_leg": "emit_leg", "say_truth": "report_outcome",
    "tell_verdicts": "emit_verdicts", "have_turn": "lock_for_plan", "rest_stands": "reassess_rest", "clear_the_way": "cancel_blocking_orders",
    "goes_private": "needs_private_relay", "keep_on_paper": "record_on_paper", "give_back_all": "release_all", "weigh_away": "update_in_transit",
    "note_leaving": "record_bridged", "with_away": "with_in_transit", "hand_in_stored": "submit_stored", "took_part": "takes_part", "main_is_to_come": "includes_main",
    "in_the_way": "conflicting_orders", "takes_something_back": "has_revocation", "without_others_native": "without_foreign_native", "held_to_bounds": "check_bounds",
    "take_allowances_back": "revoke_allowances", "take_orders_back": "unwind_orders", "take_beneath": "take_lower_stops", "would_swallow": "would_hide",
    "alone_to_loosen": "lock_to_lower", "rises_over": "stop_below", "alone_liquidating": "lock_liquidation", "end_left_liquidations": "end_orphaned_liquidations",
    "forget_rises": "delete_rises", "until_nobody_acts": "wait_until_idle", "takes_its_time": "is_slow_elsewhere",
    # chain
    "given_up": "dropped", "say_the_same": "receipts_agree", "take_nonce": "reserve_nonce", "stands_still": "is_stalled", "words_mean_behind": "message_means_behind",
    "words_mean_trouble": "message_means_trouble", "turn_to": "select_state", "report_silence": "report_unanswered",
    # tools, golem
    "second_word": "compare_with_source", "leave_gas": "reserve_gas", "in_plain_words": "plain_type_names", "say_not_started": "emit_not_started", "say_refused": "emit_refused",
    "say_start": "emit_start", "take_back_all": "withdraw_offers", "take_back_own": "withdraw_own", "hear_of_ends": "record_ends", "wound_up": "mark_shut_down",
    "told_to": "leave_requested", "hold_to_delegation": "enforce_delegation", "beside_a_brain": "parse_beside_brain", "left_without_answer": "orphaned_answer",
    # runtime, program
    "tell_keys_stay": "report_keys_stay", "tell_last": "send_last_words", "tell_limits": "emit_limits", "tell_place": "send_position", "wind_up": "settle_affairs",
    "wind_up_once": "settle_affairs_once", "needs_word": "needs_operator", "worth_a_line": "text_fields", "says_the_same": "same_content", "first_word_on": "is_first_trade_event",
})

fns(S + "pipeline/**", {"at_work": "mark_in_progress"})

# --- functions of a common name, file by file ----------------------------------------------------------------------------
DATA = [R + "data/**", A + "session.rs"]
fns(DATA, {"clear_away": "remove_leftovers"})
fns(R + "data/**", {"hold": "mark_in_use"})
fns(R + "session/**", {"look_up": "run_query"})
fns(C + "network/plan.rs", {"look_up": "find_chain"})
fns(C + "sender/send.rs", {"take_in": "record_answer"})
fns(T + "engine/catalog.rs", {"take_in": "add_definition"})
fns(["benches/sending.rs", S + "pipeline/**", C + "sender/**", "tests/chain/sending/**", "tests/resilience/**"], {"give_back": "release_nonce"})
fns(S + "pipeline/recover/unused_allowances.rs", {"given": "set_allowance"})
patterns([S + "pipeline/chain_view.rs", S + "pipeline/assess.rs"], [(r"\bfn look\b", "fn read_chain"), (r"\bself\s*\.look\(", "self.read_chain(")])
# polling
fns([C + "sender/**", "tests/chain/sending/**", "tests/pipeline/endpoints.rs", "tests/resilience/endpoints.rs", "tests/resilience/reorg.rs", "tests/pipeline/once.rs", "tests/pipeline/looks.rs", "tests/pipeline/funds.rs", S + "pipeline/**", "benches/sending.rs"], {"look": "poll"})
fns([P + "uniswap/gateway.rs", P + "uniswap/service.rs", X + "order_service/local.rs", "tests/sandbox/services.rs"], {"look": "order_report"})
fns([S + "orders/**", T + "orders.rs", T + "trading/**", "tests/pipeline/bridges.rs", "tests/pipeline/bridges/**", "tests/pipeline/orders.rs", "tests/resilience/orders/**", "tests/resilience/orders.rs", R + "session/unwind.rs"], {"look": "poll"})
patterns(S + "orders/**", [(r"\bservice\s*\.(?:poll|look)\(", "service.order_report(")])
fns(T + "engine/executor/writing.rs", {"look": "run_preview"})
fns(G + "brain/process/mod.rs", {"look": "check_alive"})
fns(R + "session/offers.rs", {"look": "with_offer"})
fns([S + "stop.rs", S + "stop/**"], {"look": "read_file"})
rename_words(S + "pipeline/**", {"look": "view"})
# emitting and sending
SAY = [GOLEM, R + "actor.rs", R + "actor/**", TOOLS, S + "pipeline/**"]
fns(SAY, {"say": "emit"}, exclude=[G + "brain/process/**"])
fns(G + "brain/process/**", {"say": "send_line"})
fns(N + "replay.rs", {"say": "send_event", "tell": "publish"})
fns([R + "session/stop_watch.rs"], {"say": "send_result"})
fns("src/cli/**", {"say": "print_summary", "tell": "print_progress"}, exclude=["src/cli/halt.rs"])
fns(G + "brain/operator.rs", {"tell": "report_ends"})
fns(G + "life.rs", {"tell": "report_ends"})
fns(B + "clock/simulated.rs", {"tell": "wake_next"})
fns(T + "trading/filled.rs", {"tell": "write_fill"})
fns(R + "session/**", {"tell": "send_news"})
# receiving
fns(S + "approval/**", {"hear": "receive_answer"})
fns([C + "fork/verify.rs"], {"hear": "request_all", "heard": "replies"})
fns(C + "provider/stack.rs", {"hear": "collect_answers"})
fns(G + "brain/**", {"hear": "receive"})
fns([G + "life/planner.rs", G + "life.rs"], {"hear": "handle_command"})
fns([R + "questions/shared.rs", R + "session/commands.rs"], {"heard": "remote_answers"})
patterns(R + "questions/answering.rs", [(r"\bshared\.heard\(", "shared.remote_answers(")])
rename_words(R + "questions/answering.rs", {"heard": "report"})
# what a value is written as
fns(P + "intents/service.rs", {"told": "bid_json", "wish": "bid_request_json"})
patterns(X + "services.rs", [(r"\bintents::service::told\b", "intents::service::bid_json"), (r"\.map\(told\)", ".map(bid_json)")])
fns([G + "life.rs", G + "vitals.rs", "benches/golem.rs"], {"told": "to_event"})
fns([G + "brain/process/protocol.rs", G + "brain/process/lines.rs"], {"told": "describe"})
fns(["src/cli/golem.rs", "src/cli/kept_devnets.rs", "src/cli/log.rs", G + "archetype/file.rs", T + "intelligence/**", R + "session/queries.rs"], {"told": "describe"})
fns([S + "pipeline/mod.rs", S + "pipeline/recover.rs"], {"told": "describe"})
fns([C + "provider/endpoint_answers.rs"], {"said": "answers_of"})
fns(R + "questions/answering.rs", {"said": "answer_message"})
fns(R + "session/commands.rs", {"said": "answer_message"})
# state of something
fns([R + "allowances.rs", R + "session/queries.rs"], {"standing": "read_allowances"})
rename_words([R + "reconcile.rs"], {"untold": "read_error"})
patterns(R + "reconcile.rs", [(r"\ballowances::standing\b", "allowances::read_allowances")])
fns([X + "market.rs", "tests/sandbox/market.rs", "tests/sandbox/genesis.rs", "tests/golem/death.rs"], {"standing": "pool_sqrt_price"})
fns([T + "engine/context.rs", T + "engine/executor/**", T + "swap_query.rs", T + "trading/**"], {"standing": "conditions"})
fns([S + "orders/auction.rs"], {"standing": "auction_state"})
fns([S + "orders/bridge.rs"], {"standing": "bridge_state"})
# text
patterns(ALL, [(r"\bfn words(?=\(&?self\))", "fn describe"), (r"(?<=\.)words(?=\(\))", "describe"), (r"(?<=::)words\b(?=\))", "describe")])

# --- the account's payload -----------------------------------------------------------------------------------------------
ACCOUNTS = [SAFETY, RUNTIME, TOOLS, GOLEM, "src/**", "benches/**", "tests/**", "examples/**"]
fns([S + "account.rs", S + "custody/**", S + "pipeline/**", "benches/**", "tests/pipeline/**", "tests/support/**", "tests/attacks/**", "tests/golem/**", "tests/resilience/**", "tests/compile_fail/**"], {"frame": "prepare_payload"}, exclude=[S + "sample.rs", "tests/pipeline/properties.rs", "tests/pipeline/frames.rs", "tests/pipeline/order_permits.rs", "benches/console.rs"])
patterns([SAFETY], [(r"\bsample::prepare_payload\b", "sample::frame")])
patterns(T + "safety/check_safety_status.rs", [(r"\bcontext\s*\.standing\(", "context.conditions(")])
patterns(G + "life.rs", [(r"\bhearing\.(?:hear|handle_command)\(", "hearing.receive(")])
patterns(G + "brain/process/protocol.rs", [(r"\blet told = (?=\|length)", "let describe = ")])
patterns("src/cli/kept_devnets.rs", [(r"\bmap\(told\)", "map(describe)")])
patterns("src/cli/wait.rs", [(r"\bfilled::(?:tell|print_progress)\b", "filled::write_fill")])
patterns("tests/pipeline/orders.rs", [(r"\bfn (?:look|poll)\((?=&self, hash: B256\) -> BoxFuture)", "fn order_report("), (r"\binner\s*\.(?:look|poll)\(", "inner.order_report(")])
patterns("tests/pipeline/consent.rs", [(r"\bshared\.heard\(", "shared.remote_answers(")])
patterns(["tests/pipeline/bridges.rs", "tests/pipeline/looks.rs"], [(r"\blet look =", "let poll =")])
patterns("tests/attacks/questions.rs", [(r"\bheard\(\)\.unwrap", "remote_answers().unwrap")])
rename_words(ALL, {"ROOMS": "ALL_MIGRATIONS"})
