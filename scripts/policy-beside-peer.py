"""How many decisions about one swap a second the peer's policy makes, to stand beside `cargo bench --bench policy`.

Needs Python 3.12 or newer and the peer from its registry: `pip install almanak==2.29.2`. Where either is missing it says
so and ends well: nothing depends on it. The swap is the bench's: 500 dollars of one token for another, under limits that
let it pass, and then over its daily cap; what is asked of both is to say which rules stand against it.
"""

import sys
import time
from decimal import Decimal

SECONDS = 2.0

try:
    from almanak.framework.agent_tools.catalog import get_default_catalog
    from almanak.framework.agent_tools.policy import AgentPolicy, PolicyEngine
except (ImportError, SyntaxError) as error:
    print(f"skipped: the peer is not installed for Python {sys.version.split()[0]} ({error})")
    sys.exit(0)

SWAP = {"token_in": "USDC", "token_out": "ETH", "amount": "500", "chain": "arbitrum", "slippage_bps": 50}
PRICES = {"USDC": Decimal(1), "ETH": Decimal(3400)}


def engine(spent):
    policy = AgentPolicy(
        max_single_trade_usd=Decimal(2500),
        max_daily_spend_usd=Decimal(5000),
        require_human_approval_above_usd=Decimal(1000),
        allowed_tokens={"USDC", "ETH"},
        max_trades_per_hour=120,
        max_tool_calls_per_minute=60,
        stop_loss_pct=Decimal(10),
        cooldown_seconds=0,
        require_rebalance_check=False,
    )
    made = PolicyEngine(policy, price_lookup=PRICES.get)
    made.update_portfolio_value(Decimal(25400))
    if spent:
        made.record_trade(Decimal(spent), success=True)
    return made


def measure(what, made, allowed):
    tool = get_default_catalog().get("swap_tokens")
    decision = made.check(tool, SWAP)
    if decision.allowed is not allowed:
        sys.exit(f"{what}: allowed is {decision.allowed}: {decision.violations}")
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        for _ in range(100):
            made.check(tool, SWAP)
        count += 100
    each = (time.perf_counter() - begun) / count
    print(f"{what}: {1 / each:,.0f} a second, {each * 1e6:.2f} µs each")


measure("the peer's decision, a swap that passes", engine(0), True)
measure("the peer's decision, a swap over its caps", engine(5000), False)
