#!/usr/bin/env python3
"""Second round: types, modules, functions that are private words or have two meanings. Run at the repository root; see lib.py
and resolve.py. Afterwards: `cargo fmt --all`, `cargo check --workspace --all-targets`.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import *  # noqa: E402,F403
from resolve import rename_types, apply_types  # noqa: E402

R, N, K, G = (f"crates/{c}/src/" for c in ("bardo-runtime", "bardo-session", "bardo-console", "golem"))
S, C, B, X, T, P = (f"crates/{c}/src/" for c in ("bardo-safety", "golem-chain", "bardo-base", "bardo-sandbox", "golem-tools", "golem-protocols"))
A = "crates/bardo-store/src/"
ALL = "**"

for _old, _new in __import__("re").findall(r'move_module\((?:(\w \+ "[^"]+")|"[^"]+"), (?:(\w \+ "[^"]+"))', open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "second_names.py")).read()):
    if _old and _new:
        tree().moved[eval(_old)] = eval(_new)  # a tree on which the modules were moved already
exec(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "second_types.py")).read())
apply_types()
exec(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "second_names.py")).read())

finish()
