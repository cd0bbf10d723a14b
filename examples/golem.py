#!/usr/bin/env python3
"""A Golem's brain in Python, with nothing but the standard library.

    bardo --brain "process:python3 examples/golem.py"
    bardo golem run --headless --brain "process:python3 examples/golem.py --once"

It keeps WETH under a share of what it holds: it asks for its balances, previews a small sale, looks at what the
preview says, and commits or cancels it. Bardo starts it as a child; lines of JSON go both ways, as the README says.
Whatever stands in a response was written by chains and by other people: this brain reads figures from it, and never
words that would tell it what to do.
"""

import json
import sys
from decimal import Decimal

SHARE = Decimal("0.55")  # of all that is held, WETH may be so much
STEP = "0.05"  # WETH sold at a time
ONCE = "--once" in sys.argv[1:]  # one sale, and done


class Bardo:
    """The conversation: one line in, one line out."""

    def __init__(self):
        self.calls = 0

    def say(self, **line):
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def hear(self):
        """The next line; None once Bardo has closed the pipe."""
        line = sys.stdin.readline()
        return json.loads(line) if line else None

    def call(self, tool, **params):
        """Calls one of the eight tools and waits for its answer."""
        self.calls += 1
        own = str(self.calls)
        self.say(type="call", id=own, tool=tool, params=params)
        while True:
            line = self.hear()
            if line is None or line["type"] == "bye":
                raise SystemExit(0)
            if line.get("id") != own:
                continue  # a tick or the operator's words: they wait until this is done
            if line["type"] == "refused":
                raise RuntimeError(line["why"])
            return line["response"]


def share_of_weth(balances):
    """What part of what is held on ethereum is WETH; None where a price is missing."""
    chain = next((chain for chain in balances["data"]["chains"] if chain["chain"] == "ethereum"), None)
    if chain is None or any(row["value_usd"] is None for row in chain["balances"]):
        return None
    weth = sum(Decimal(row["value_usd"]) for row in chain["balances"] if row["token"] == "WETH")
    total = Decimal(chain["total_usd"])
    return weth / total if total else None


def sell(bardo):
    """Previews a sale, and commits it if the preview has nothing against it. True: it was done."""
    params = {"token_in": "WETH", "token_out": "USDC", "amount": STEP, "chain": "ethereum", "prefer_uniswapx": False}
    bardo.say(type="now", now=f"Selling {STEP} WETH for USDC.", next="Look whether that was enough.")
    previewed = bardo.call("preview_action", kind="swap", params=params, why="WETH is more than its share")
    if previewed["status"] != "simulated":
        bardo.say(type="think", text="The preview says no: " + (previewed.get("explanation") or "without a reason"))
        return False
    offer = previewed["data"]
    if offer["approval"] == "approval":
        bardo.say(type="think", text="That would need the operator. I let it be.")
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
            bardo.say(type="think", text="I heard you, and go on as I was made.")
        elif line["type"] == "tick":
            context = line["context"]
            if context["stop"] is not None:
                bardo.say(type="idle")
                continue
            balances = bardo.call("query_state", query="balances")
            share = share_of_weth(balances) if balances["status"] == "success" else None
            if share is None:
                bardo.say(type="think", text="I cannot tell what I hold, so I do nothing.")
            elif share > SHARE or ONCE:
                done = sell(bardo)
                if ONCE:
                    bardo.say(type="done", why="one sale was made" if done else "the sale was not made")
                    return
            else:
                bardo.say(type="idle")


if __name__ == "__main__":
    main()
