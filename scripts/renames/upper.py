#!/usr/bin/env python3
"""Renames of golem, bardo-session, bardo-runtime, bardo-console, src and tests. Applied after 1-lower.py.

Run at the repository root; see lib.py. Every block says what it is about; the order matters only inside a block.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import *  # noqa: E402,F403

RUNTIME, SESSION, CONSOLE, GOLEM = "crates/bardo-runtime/**", "crates/bardo-session/**", "crates/bardo-console/**", "crates/golem/**"
R, N, K, G = (f"crates/{c}/src/" for c in ("bardo-runtime", "bardo-session", "bardo-console", "golem"))
ALL = "**"

# --- golem: the agent's API -------------------------------------------------------------------------------------------
AGENT = [GOLEM, RUNTIME, "src/**", "tests/**", "benches/**"]
move_module(G + "agent_api/mod.rs", G + "agent_api/mod.rs", globs=AGENT)
move_module(G + "agent_api/action_catalog.rs", G + "agent_api/action_catalog.rs", globs=G + "agent_api/**")
rename_words(ALL, {"PiSession": "AgentSession", "PiConfig": "AgentConfig", "PiTool": "AgentTool", "PI_TOOLS": "AGENT_TOOLS", "Nerves": "AgentSignals"})
rename_words([GOLEM, "tests/golem/**"], {"nerves": "signals"})
rename_words([GOLEM, RUNTIME, "tests/golem/**"], {"pi": "agent"}, exclude=["tests/golem/main.rs"])

# --- golem: memory ----------------------------------------------------------------------------------------------------
move_module(G + "memory/documents.rs", G + "memory/documents.rs", globs=GOLEM)
move_module(G + "memory/tuning.rs", G + "memory/tuning.rs", globs=GOLEM)
move_module(G + "memory/outcomes.rs", G + "memory/outcomes.rs", globs=GOLEM)
rename_words(ALL, {"Papers": "Documents"})
rename_words([GOLEM, R + "actor/golem_actor.rs", "src/cli/playbook.rs", "tests/golem/**", "tests/attacks/**"], {"papers": "documents", "PaperError": "DocumentError"})

# --- golem: life ------------------------------------------------------------------------------------------------------
move_module(G + "life/planner.rs", G + "life/planner.rs", globs=G + "life**")
rename_words(G + "life**", {"Mind": "Planner", "mind": "planner", "Heart": "HealthMonitor", "heart": "health_monitor"})

# --- golem: scenario, step, event (the TOML format keeps [[beat]] and [[cue]]) -------------------------------------------
move_module(G + "scenario/event.rs", G + "scenario/event.rs", globs=G + "scenario**")
SCENARIO = [G + "scenario**", G + "life/planner.rs", G + "life/planner.rs", RUNTIME, "tests/golem/**"]
rename_words(SCENARIO, {"Beat": "ScenarioStep", "Cue": "ScenarioEvent", "Deed": "EventEffect", "Came": "PlayedStep"})
rename_words(G + "scenario**", {"beats": "steps", "cues": "events"})
rename_fields([GOLEM, RUNTIME, "src/cli/golem.rs", "tests/golem/shows.rs", "tests/golem/moments.rs"], {"beats": "steps"})
move_module(R + "data/scenario_folder.rs", R + "data/scenario_folder.rs", globs=RUNTIME)
rename_words(RUNTIME, {"ShowFolder": "ScenarioFolder"})

# --- runtime: session -------------------------------------------------------------------------------------------------
RS = R + "session/**"
for old, new in {"doing": "commands", "looking": "queries", "asking": "prompts", "dying": "shutdown", "taking_back": "unwind", "tally": "stats", "brake": "stop_watch", "stage": "state", "cues": "scenario_events"}.items():
    move_module(R + f"session/{old}.rs", R + f"session/{new}.rs", globs=RS)
patterns(RS, [(r"(?<!genesis::)\bStage\b(?! as )", "SessionState")])
patterns([R + "session/watching.rs"], [(r"(?<![\w.'#])stage\b(?!\s*::|:\s*\w+::)", "session")])
patterns(RS, [(r"(?<![\w.'#])stage\b(?!\s*::|:\s*\w+::)", "state")])
patterns(RS, [(r"\b(stage|state|self)\.cues\b", r"\1.script"), (r"\bcues(?=: watch::)", "script"), (r"\b(show|scenario)\.cues\b", r"\1.events")])
rename_words(RS, {"Cues": "ScenarioEvents"})
rename_words(RUNTIME, {"Tally": "SessionStats", "tally": "stats", "Brake": "StopWatch", "brake": "stop_watch"})
move_module(R + "actor/golem_actor.rs", R + "actor/golem_actor.rs", globs=R + "actor**")
rename_words(ALL, {"Living": "GolemActor"})
rename_words([RUNTIME, "src/**", "tests/**"], {"Seat": "ActorContext"}, exclude="tests/attacks/endpoints.rs")
rename_words(RUNTIME, {"seat": "context"})
rename_words([RUNTIME, "src/**", "tests/resilience/**", "tests/golem/**", "tests/attacks/**", "tests/support/**"], {"Hands": "SigningContext"})

# --- runtime: questions -----------------------------------------------------------------------------------------------
move_module(R + "questions/view_model.rs", R + "questions/view_model.rs", globs=R + "questions**")
rename_words([RUNTIME, "tests/pipeline/orders.rs"], {"mirror": "view_model"})

# --- console: call details, session summary ---------------------------------------------------------------------------
move_module(K + "state/call_details.rs", K + "state/call_details.rs", globs=CONSOLE)
move_module(K + "view/call_details.rs", K + "view/call_details.rs", globs=CONSOLE)
rename_words(CONSOLE, {"Story": "CallDetails", "story": "call_details"})
patterns(CONSOLE, [(r"(?<![\w'])Story\b", "CallDetails")])
move_module("src/cli/session_summary.rs", "src/cli/session_summary.rs", globs="src/cli/**")
move_module("src/cli/action_catalog.rs", "src/cli/action_catalog.rs", globs="src/cli/**")
rename_words(ALL, {"Farewell": "SessionSummary", "farewell": "session_summary"})

# --- console: painter -------------------------------------------------------------------------------------------------
PAINT = [CONSOLE, "benches/**", "examples/**", "tests/**", "src/**"]
move_module(K + "pen.rs", K + "painter.rs", globs=PAINT)
patterns([K + "painter.rs", K + "pen.rs", K + "screens/network.rs", K + "screens/portfolio.rs"], [(r"(?<!cell::)(?<!buffer::)\bCell\b", "TableCell")])
rename_words(PAINT, {"Pen": "Painter", "pen": "painter", "Piece": "StyledText", "Sheet": "CardView"})
rename_words(CONSOLE, {"pieces_width": "styled_width"})
move_module(K + "view/text_tests.rs", K + "view/text_tests.rs", globs=K + "view/**")

# --- tests ------------------------------------------------------------------------------------------------------------
ATTACKS = [f"tests/attacks/{name}.rs" for name in ("operator", "oracle", "prices", "tokens")]
HARNESS = ["tests/pipeline/**", "tests/console/**", "tests/chain/**", "tests/resilience/**", *ATTACKS, "benches/orders.rs", "benches/safety.rs", "benches/sending.rs"]
ENGINE = ["tests/pipeline/bridges.rs"]
patterns(HARNESS, [(r"(?<!engine::)(?<![\w'#])World\b", "TestHarness")], exclude=ENGINE)
rename_words(["tests/golem/**", "tests/attacks/**"], {"House": "GolemHarness"})

# --- names that were used twice or say nothing ------------------------------------------------------------------------
patterns([R + "questions**", RS, "src/cli/consent.rs", "tests/pipeline/consent.rs", "tests/pipeline/orders.rs"], [(r"(?<!News::)(?<![\w'#])Told\b", "RequestContext")])
rename_methods([R + "session/stats.rs", R + "session/stats.rs"], {"told": "request_context"})
patterns(RS, [(r"(?<=stats\(\)\.)told\(", "request_context(")])
rename_words(G + "brain/process/**", {"Told": "BrainLimits"})
rename_paths(ALL, {"News::Told": "News::CommandResult"})
patterns(N + "handle.rs", [(r"^(    )Told(?= \{)", r"\1CommandResult")])
keep_written(N + "handle.rs", "News", "CommandResult", "told")
rename_words(ALL, {
    "ActionAsked": "ActionRequest", "PolicyAsked": "PolicyRequest", "OpinionTold": "OpinionDetails", "ArrivalTold": "ArrivalDetails", "OrderTold": "OrderDetails",
    "AllowanceNow": "AllowanceState", "AllowancesNow": "AllowancesState", "BreakerNow": "BreakerState", "GrantNow": "GrantState", "PolicyNow": "PolicyState",
    "ReplayNow": "ReplayState", "SpendNow": "SpendState", "StopNow": "StopState", "NoHands": "AccountError",
})

finish()
