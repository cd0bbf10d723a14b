#!/usr/bin/env python3
"""Renames of bardo-base, bardo-store, golem-chain, golem-protocols, bardo-sandbox, bardo-safety and golem-tools.

Run at the repository root; see lib.py. Every block says what it is about; the order matters only inside a block.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import *  # noqa: E402,F403

BASE, STORE, CHAIN, PROTOCOLS = ("crates/bardo-base/**", "crates/bardo-store/**", "crates/golem-chain/**", "crates/golem-protocols/**")
SANDBOX, SAFETY, TOOLS = "crates/bardo-sandbox/**", "crates/bardo-safety/**", "crates/golem-tools/**"
RUNTIME, SESSION, CONSOLE, GOLEM = "crates/bardo-runtime/**", "crates/bardo-session/**", "crates/bardo-console/**", "crates/golem/**"
S, C, B, X, T, P = (f"crates/{c}/src/" for c in ("bardo-safety", "golem-chain", "bardo-base", "bardo-sandbox", "golem-tools", "golem-protocols"))
ALL = "**"

# --- bardo-base -----------------------------------------------------------------------------------------------------
move_module(B + "chance.rs", B + "rng.rs", globs=[BASE, RUNTIME, TOOLS, "tests/**"])
rename_words(ALL, {"Chance": "RandomSource"})
rename_words([T + "engine/world.rs", T + "orders.rs", "crates/bardo-runtime/src/session/boot.rs"], {"chance": "rng"})
move_module(B + "fabric/ask_reason.rs", B + "fabric/ask_reason.rs", globs=B + "fabric/**")
move_module(B + "fabric/tool_facts.rs", B + "fabric/tool_facts.rs", globs=B + "fabric/**")

# --- bardo-store: file locks ----------------------------------------------------------------------------------------
HOLDERS = [STORE, S + "pipeline/account_lock.rs", S + "operator/liquidation.rs", "crates/bardo-runtime/src/session/selling.rs"]
move_module("crates/bardo-store/src/file_lock.rs", "crates/bardo-store/src/file_lock.rs", globs=STORE)
rename_words(HOLDERS, {"Hold": "FileLock", "Holds": "FileLocks", "HoldError": "FileLockError"})
rename_words(STORE, {"holds": "locks", "LOOK": "POLL_INTERVAL", "LOOK_AGAIN": "RETRY_INTERVAL"})
rename_methods(STORE, {"hold": "acquire_lock"}, exclude=["crates/bardo-store/src/session.rs"])
patterns([S + "pipeline/account_lock.rs", S + "operator/liquidation.rs"], [(r"\bstore\s*\.hold\(", "store.acquire_lock(")])

# --- golem-chain: storage traces -------------------------------------------------------------------------------------
move_module(C + "fork/storage_trace.rs", C + "fork/storage_trace.rs", globs=C + "fork/**")
rename_words(C + "fork/**", {"Trails": "StorageTrace", "trails": "trace"})

# --- bardo-sandbox: actors, block builder ----------------------------------------------------------------------------
CAST = [SANDBOX, "tests/attacks/prices.rs", "tests/chain/devnet/dumps.rs", "tests/golem/death.rs", "tests/sandbox/**"]
move_module(X + "cast.rs", X + "actors.rs", globs=CAST)
rename_words(CAST, {"Cast": "Actors", "cast": "actors"})
move_module(X + "works.rs", X + "block_builder.rs", globs=SANDBOX)
rename_words(SANDBOX, {"Works": "BlockBuilder", "works": "builder"})
move_module(X + "residents.rs", X + "background_actors.rs")
rename_words(ALL, {"Residents": "BackgroundActors", "residents": "background_actors"})

# --- bardo-safety: audit log ------------------------------------------------------------------------------------------
AUDIT = [SAFETY, RUNTIME, "src/cli/**"]
move_module(S + "audit/log.rs", S + "audit/log.rs", globs=S + "audit/**")
rename_words([*AUDIT, "tests/pipeline/world.rs"], {"Trail": "AuditLog"}, exclude=[S + "audit/tests.rs"])
rename_words(AUDIT, {"trail": "audit_log", "trails": "audit_logs"}, exclude=[S + "audit/tests.rs", S + "audit/mod.rs", "src/cli/log.rs"])

patterns(S + "audit/tests.rs", [(r"\bsuper::Trail\b", "super::AuditLog")])

# --- bardo-safety: signing payload ------------------------------------------------------------------------------------
move_module(S + "framed.rs", S + "signing_payload.rs", globs=[SAFETY, RUNTIME, TOOLS, GOLEM, "tests/**", "benches/**", "src/**"])
FAILPOINTS = [B + "failpoint.rs"]
patterns(ALL, [(r"(?<!Failpoint::)(?<![\w'])Framed\b", "SigningPayload")], exclude=FAILPOINTS)
rename_words(ALL, {"FramedLeg": "PayloadLeg", "FramedSlot": "PayloadSlot", "FramedOrder": "PayloadOrder", "FrameError": "PayloadError", "FrameContext": "PayloadContext"})
patterns([SAFETY, "benches/**", "tests/pipeline/**"], [(r"(?<!RuleName::)(?<![\w'])Frame\b", "PayloadParts")])

# --- bardo-safety: check inputs, chain snapshots ----------------------------------------------------------------------
USERS = [SAFETY, RUNTIME, TOOLS, GOLEM, "src/**", "benches/**", "examples/**", "tests/attacks/**", "tests/pipeline/**", "tests/support/**", "tests/golem/**", "tests/chain/**"]
move_module(S + "facts.rs", S + "check_inputs.rs", globs=USERS)
rename_words([SAFETY, "benches/policy.rs", "tests/pipeline/**"], {"Facts": "CheckInputs"})
OWN_GROUND = ["tests/attacks/brain.rs", "tests/attacks/files.rs", "tests/sandbox/**", "tests/cli/**"]
move_module(S + "ground.rs", S + "chain_snapshot.rs", globs=[SAFETY, RUNTIME, GOLEM, TOOLS, "src/**", "tests/pipeline/**", "tests/attacks/prices.rs"])
rename_words(USERS, {"Ground": "SnapshotReader"}, exclude=OWN_GROUND)
rename_words(USERS, {"ground": "reader"}, exclude=[*OWN_GROUND, "tests/golem/**", "tests/chain/**", GOLEM])

# --- bardo-safety: policy engine, on-chain policy ---------------------------------------------------------------------
move_module(S + "rulebook.rs", S + "policy_engine.rs", globs=USERS)
rename_words(USERS, {"Rulebook": "PolicyEngine"})
rename_words(ALL, {"OperatorRules": "OperatorPolicyEngine"})
move_module(S + "operator.rs", S + "operator_policy.rs", globs=SAFETY)
rename_paths([*USERS], {"safety::operator": "safety::operator_policy", "bardo_safety::operator": "bardo_safety::operator_policy"})
patterns(ALL, [(r"(?<![\w:])operator::OperatorPolicyEngine\b", "operator_policy::OperatorPolicyEngine")])
move_module(S + "cage.rs", S + "onchain_policy.rs", globs=[SAFETY, "src/**", "tests/pipeline/**", "tests/chain/**", "crates/bardo-runtime/**"])
rename_words(SAFETY, {"Cage": "OnchainPolicy", "CagedAsset": "OnchainAsset"})
rename_words("tests/chain/simulation/policy_cage.rs", {"CagedAsset": "OnchainAsset"})
patterns("tests/chain/simulation/policy_cage.rs", [(r"\bCage as Judge\b", "OnchainPolicy as Judge")])

# --- bardo-safety: pipeline -------------------------------------------------------------------------------------------
PIPELINE = S + "pipeline/**"
move_module(S + "pipeline/chain_view.rs", S + "pipeline/chain_view.rs", globs=PIPELINE)
rename_words(PIPELINE, {"Look": "ChainView"})
move_module(S + "pipeline/open_orders.rs", S + "pipeline/open_orders.rs", globs=PIPELINE)
move_module(S + "pipeline/account_lock.rs", S + "pipeline/account_lock.rs", globs=PIPELINE)
rename_words([SAFETY, T + "engine/executor/writing.rs"], {"Turn": "AccountLock", "ByTurn": "LockSource", "TAKING_BACK_WAITS": "REVOCATION_WAIT"})
rename_words(ALL, {"look_at_given_up": "poll_dropped"})
rename_fns([SAFETY, RUNTIME, "tests/pipeline/**"], {"look_again": "reassess", "look_after": "poll_cancelled_orders"})

# --- bardo-safety: approval queue -------------------------------------------------------------------------------------
move_module(S + "approval/queue.rs", S + "approval/queue.rs", globs=S + "approval**")
move_module(S + "approval/desk/ticket.rs", S + "approval/queue/pending.rs", globs=S + "approval**")
rename_words(ALL, {"ApprovalDesk": "ApprovalQueue"})
rename_words(S + "approval**", {"Ticket": "PendingApproval"})
rename_words(S + "approval.rs", {"desk": "queue"})

# === second part: type names that are private words or that have two meanings ==========================================

# --- golem-chain ------------------------------------------------------------------------------------------------------
rename_words(C + "fork/**", {"Survey": "ChangeDetector", "Asked": "TrackedQuery", "find_silence": "find_unanswered", "insist": "must_answer", "insist_on_balance": "require_balance", "Heard": "EndpointReply"})
patterns(C + "fork/**", [(r"\bself\.asked\b", "self.queries"), (r"\basked: Vec(?=<TrackedQuery>|::with_capacity)", "queries: Vec")])
rename_words(C + "**", {"Testimony": "EndpointAnswers"})
rename_words([C + "fork/**", C + "provider/**"], {"Said": "CallAnswer"}, exclude=[C + "provider/agree.rs"])
rename_words(C + "provider/**", {"Tally": "AnswerGroups"})
rename_words(C + "provider/agree.rs", {"Said": "SampleAnswer"})
move_module(C + "provider/endpoint_answers.rs", C + "provider/endpoint_answers.rs", globs=C + "**")
rename_words(C + "price/feed.rs", {"Asked": "FeedCalls"})
rename_words(C + "service.rs", {"Told": "RequestHistory", "told": "history", "Pace": "RateLimiter"})
rename_words(C + "devnet/**", {"Kept": "RecordedParts"}, exclude=[])
SENDING = ["tests/chain/**", "tests/resilience/**", "benches/sending.rs"]
SENDER = [C + "sender/**", S + "pipeline/**", S + "custody/delegated/tests.rs", *SENDING]
rename_words([C + "sender/**", S + "pipeline/recover**", S + "pipeline/recover/**", S + "pipeline/settle.rs", "tests/chain/sending/**"], {"Standing": "TxStatus"})
rename_words([C + "sender/**", S + "pipeline/**", "tests/chain/sending/**"], {"Kept": "SendPermit", "keep_replacement": "store_replacement", "took_note": "acknowledge_late_inclusion", "is_late": "mark_late_inclusion"})
rename_words(ALL, {"keep_replacement": "store_replacement", "took_note": "acknowledge_late_inclusion"})
rename_words(C + "sender/**", {"Spender": "NonceUse", "still_untold": "is_still_unknown"})
rename_variants(C + "sender/**", {"NonceUse::Another": "ByOther", "NonceUse::Untold": "Unknown", "NonceUse::Before": "StatesPruned"})
rename_variants(ALL, {"Treatment::GiveBack": "DropAndReleaseNonce"})
patterns(ALL, [(r"\bsender::late\b(?!::)", "sender::late_inclusions")])
patterns(C + "sender/record.rs", [(r"\bfn late\(", "fn late_inclusions(")])
patterns(C + "sender/mod.rs", [(r"(?<=, )late(?=, load)", "late_inclusions")])
rename_words(ALL, {"BalanceShift": "BalanceDelta"})

# --- golem-protocols --------------------------------------------------------------------------------------------------
rename_words([P + "uniswap/**", X + "services/trading.rs", "fuzz/**", "tests/sandbox/sidecar.rs"], {"Asked": "ClaimRequest", "Wrong": "ClaimMismatch"}, exclude=[P + "uniswap/discovery.rs"])
rename_words([P + "uniswap/**", T + "swap_ask.rs"], {"Told": "SourceClaim"})
rename_words(P + "uniswap/discovery.rs", {"Kept": "CachedPools"})
rename_words(P + "uniswap/routing/**", {"Found": "ScoredPath", "Walk": "PartialPath"})
rename_words(ALL, {"Hearsay": "ServiceReport"})
BIDS = [P + "intents/**", X + "relayers/**", X + "services.rs", T + "trading/uniswap_submit_cross_chain_intent.rs", "tests/pipeline/**", "tests/sandbox/**"]
rename_words(BIDS, {"Wish": "BidRequest"})

# --- bardo-sandbox ----------------------------------------------------------------------------------------------------
rename_words(X + "market.rs", {"Wish": "TraderSwap"})
rename_words(X + "services/trading.rs", {"Desk": "ChainAccess"})
rename_words(X + "relayers/mod.rs", {"Slip": "FailureKind", "slips": "fails", "slip": "kind"})
rename_words(ALL, {"made_anew": "build_snapshot", "furnished_anew": "run_genesis"})
rename_words(X + "snapshot.rs", {"lasting": "leak_names"})
rename_methods([X + "order_service/local.rs", X + "services.rs"], {"hand_in": "submit_order"})
rename_fns([X + "services.rs", X + "services/order_info.rs"], {"hold": "validate"})

# --- bardo-safety -----------------------------------------------------------------------------------------------------
PHASES = [SAFETY, "crates/bardo-runtime/src/policy_cage.rs", "crates/bardo-runtime/src/reconcile.rs", T + "engine/executor/writing.rs", "tests/pipeline/**"]
rename_words(PHASES, {"Asked": "PhaseRequest"})
rename_words([S + "ground.rs", S + "chain_snapshot.rs", PIPELINE, "tests/pipeline/refusals.rs"], {"Untold": "ReadError"})
rename_words(PIPELINE, {"Leave": "ResendClearance", "Left": "OpenPermit", "Held": "ReservedSpend", "Truth": "OnchainOutcome", "AtWork": "InProgressGuard", "bring_on": "resolve"})
rename_words(S + "policy/**", {"Leave": "Permission"})
move_module(S + "checks/policy_context.rs", S + "checks/policy_context.rs", globs=[SAFETY, "benches/**"])
rename_words([S + "checks/**", S + "operator_policy**", S + "operator_policy/**", "benches/policy.rs"], {"Standing": "PolicyContext", "standing": "context"}, exclude=[S + "checks/model/**", S + "operator_policy/**"])
rename_words(S + "checks/model/**", {"Standing": "PolicyContext"})
rename_words(S + "checks/token_allowlist.rs", {"Found": "Violations"})
rename_words([S + "stop.rs", S + "stop/**"], {"Standing": "StopsOnDisk"})
rename_words(S + "orders/auction.rs", {"Standing": "AuctionState"})
rename_words([S + "orders/bridge.rs", S + "orders/bridge/**"], {"Standing": "BridgeState"})
rename_words(S + "orders/bridge.rs", {"Told": "DeliverySearch"})
rename_variants(S + "orders/bridge.rs", {"DeliverySearch::Untold": "Disputed"})
rename_words(S + "orders/**", {"Heard": "ServiceAnswer", "Seen": "PollResult"})
rename_words(S + "operator_policy**", {"Carried": "OpenBridgeValue"})
rename_words(S + "operator_policy/**", {"Carried": "OpenBridgeValue"})
rename_words([S + "approval**", S + "approval/**", S + "pipeline/consent.rs"], {"Said": "ApprovalSource"})
rename_variants([SAFETY, RUNTIME, TOOLS, "tests/**"], {"Consent::Yes": "Approved"})
rename_words([S + "approval**", S + "approval/**"], {"Yes": "ActionApproval"})
rename_words(S + "calldata.rs", {"Binding": "GuaranteedFlows"})
rename_words([S + "custody/**", "src/cli/keys.rs"], {"Listed": "ListedKey"})
move_module(S + "simulate/balance_changes.rs", S + "simulate/balance_changes.rs", globs=[S + "simulate.rs", S + "simulate/**"])
patterns(ALL, [(r"\bsimulated\s*\.told\(", "simulated.balance_changes(")])
patterns(S + "simulate/balance_changes.rs", [(r"\bfn told<", "fn balance_changes<")])
patterns(S + "policy/file.rs", [(r"\btold\(", "parser_message(")])
patterns(S + "pipeline/**", [(r"\bfn told_by\(", "fn error_code("), (r"(?<!fn )\btold_by\(", "error_code(")])
patterns(S + "approval/reason.rs", [(r"\bfn told\(", "fn to_ask_reason("), (r"\bself\.told\(\)", "self.to_ask_reason()")])
patterns([SAFETY, RUNTIME, "tests/**"], [(r"\bReason::told\b", "Reason::to_ask_reason")])

# --- golem-tools ------------------------------------------------------------------------------------------------------
rename_words(T + "engine/**", {"Standing": "CallConditions", "Wishes": "CallOptions"})
rename_words(T + "engine/executor/**", {"Leave": "CancelState", "Act": "WriteTask"})
rename_words([T + "allowances.rs"], {"Standing": "TokenBalances"})
rename_words([T + "auction.rs", T + "trading/uniswap_execute_swap.rs", T + "trading/uniswap_submit_uniswapx_order.rs"], {"Wish": "AuctionRequest"})
rename_words([T + "mev.rs", T + "orders.rs", T + "trading/**"], {"Way": "RouteChoice", "Wanted": "RouteCriteria"})
patterns([T + "mev.rs", T + "orders.rs", T + "trading/**"], [(r"(?<!Subject::)(?<![\w'])Sight\b(?!,\n)", "TradeVisibility")])
rename_words([T + "swap_ask.rs", T + "trading/**"], {"Found": "FoundRoute"})
rename_words(T + "engine/keys.rs", {"Found": "KeyRow"})
rename_words(T + "data/get_balances.rs", {"Held": "BlockBalances"})
patterns([T + "engine/mod.rs", T + "engine/world.rs", "crates/bardo-runtime/src/session/selling.rs", "crates/bardo-runtime/src/session/selling/parts.rs"], [(r"(?<!Offered::)(?<![\w'])Held\b", "TokenHolding")])
rename_methods([T + "engine/executor/holding.rs", RUNTIME, "tests/pipeline/**"], {"take_back": "withdraw"})
patterns(T + "wallet/wallet_transfer_token.rs", [(r"\btold\(", "transfer_summary(")])
move_module(T + "engine/executor/to_json.rs", T + "engine/executor/to_json.rs", globs=T + "engine/executor/**")
patterns([T + "engine/executor/holding.rs", GOLEM, RUNTIME], [(r"\bfn told\(&self\) -> Value", "fn to_json(&self) -> Value"), (r"\boffer\.told\(\)", "offer.to_json()")])

finish()
