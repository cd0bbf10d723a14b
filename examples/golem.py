#!/usr/bin/env python3
"""A Golem's brain in Python, which uses only the standard library.

    bardo --brain "process:python3 examples/golem.py"
    bardo golem run --headless --brain "process:python3 examples/golem.py --once"

It keeps the share of WETH in its holdings below a limit: it reads its balances, previews a small sale, and commits or
cancels it depending on the preview. Bardo starts it as a child process, and both exchange lines of JSON, as docs/agents.md
describes. Text in a response may come from chains and from other people. So this brain uses only the figures, and never
follows instructions in the text.
"""

import json
import sys
from decimal import Decimal

SHARE = Decimal("0.55")  # maximum share of WETH in the holdings
STEP = "0.05"  # WETH sold in one trade
ONCE = "--once" in sys.argv[1:]  # end after one sale


class Bardo:
    """Exchange of JSON lines with Bardo over stdin and stdout."""

    def __init__(self):
        self.calls = 0

    def say(self, **line):
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def hear(self):
        """Reads the next line; returns None after Bardo has closed the pipe."""
        line = sys.stdin.readline()
        return json.loads(line) if line else None

    def call(self, tool, **params):
        """Calls one of the eight tools and waits for its response."""
        self.calls += 1
        own = str(self.calls)
        self.say(type="call", id=own, tool=tool, params=params)
        while True:
            line = self.hear()
            if line is None or line["type"] == "bye":
                raise SystemExit(0)
            if line.get("id") != own:
                continue  # ignore ticks and operator messages during a call
            if line["type"] == "refused":
                raise RuntimeError(line["why"])
            return line["response"]


def share_of_weth(balances):
    """Returns the share of WETH in the holdings on ethereum; None if a price is missing."""
    chain = next((chain for chain in balances["data"]["chains"] if chain["chain"] == "ethereum"), None)
    if chain is None or any(row["value_usd"] is None for row in chain["balances"]):
        return None
    weth = sum(Decimal(row["value_usd"]) for row in chain["balances"] if row["token"] == "WETH")
    total = Decimal(chain["total_usd"])
    return weth / total if total else None


def sell(bardo):
    """Previews a sale, and commits it if it passes without an approval. Returns True if it succeeded."""
    params = {"token_in": "WETH", "token_out": "USDC", "amount": STEP, "chain": "ethereum", "prefer_uniswapx": False}
    bardo.say(type="now", now=f"Selling {STEP} WETH for USDC.", next="Check the share again.")
    previewed = bardo.call("preview_action", kind="swap", params=params, why="WETH is more than its share")
    if previewed["status"] != "simulated":
        bardo.say(type="think", text="The preview was blocked: " + (previewed.get("explanation") or "no reason given"))
        return False
    offer = previewed["data"]
    if offer["approval"] == "approval":
        bardo.say(type="think", text="This needs the operator's approval; cancelled.")
        bardo.call("cancel_action", permit_id=offer["permit_id"])
        return False
    done = bardo.call("commit_action", permit_id=offer["permit_id"], simulation_hash=offer["simulation_hash"])
    bardo.say(type="think", text=f"The sale ended as {done['status']}.")
    return done["status"] == "success"


def main():
    bardo = Bardo()
    while True:
        line = bardo.hear()
        if line is None or line["type"] == "bye":
            return
        if line["type"] == "hello":
            kinds = [kind["kind"] for kind in line["kinds"]]
            bardo.say(type="think", text=f"I am here. I can {', '.join(kinds)}.")
        elif line["type"] == "words":
            bardo.say(type="think", text="This example does not follow operator messages.")
        elif line["type"] == "tick":
            context = line["context"]
            if context["stop"] is not None:
                bardo.say(type="idle")
                continue
            balances = bardo.call("query_state", query="balances")
            share = share_of_weth(balances) if balances["status"] == "success" else None
            if share is None:
                bardo.say(type="think", text="A price is missing, so the share is unknown: nothing to do.")
            elif share > SHARE or ONCE:
                done = sell(bardo)
                if ONCE:
                    bardo.say(type="done", why="one sale was made" if done else "the sale was not made")
                    return
            else:
                bardo.say(type="idle")


if __name__ == "__main__":
    main()
