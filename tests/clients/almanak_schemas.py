"""Drives `bardo --dialect almanak` with Almanak's own catalog and schemas (package 2.29.2, Python 3.12 or newer).

Only the catalog, the schemas and the errors of the package are imported: its package files would import its gateway.
Arguments: the binary, the value of --rpc, the account, an address that owns nothing. Prints the number of calls.
"""

import json
import pathlib
import subprocess
import sys
import types

import almanak

FOLDER = pathlib.Path(almanak.__file__).parent / "framework"
for name, folder in (("almanak.framework", FOLDER), ("almanak.framework.agent_tools", FOLDER / "agent_tools")):
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package
# The table of protocols with isolated markets, which the schemas of lending ask; here is only Aave, which has none.
vocabulary = types.ModuleType("almanak.framework.intents.vocabulary")
vocabulary.PROTOCOL_CAPABILITIES = {"aave_v3": {}}
sys.modules["almanak.framework.intents"] = types.ModuleType("almanak.framework.intents")
sys.modules["almanak.framework.intents.vocabulary"] = vocabulary

from almanak.framework.agent_tools.catalog import get_default_catalog  # noqa: E402
from almanak.framework.agent_tools.errors import AgentErrorCode, get_error_category  # noqa: E402
from almanak.framework.agent_tools.schemas import ToolResponse  # noqa: E402

BINARY, RPC, ACCOUNT, STRANGER = sys.argv[1:5]
CATALOG = get_default_catalog()
CODES = {
    "validation_error", "risk_blocked", "simulation_failed", "timeout", "upstream_unavailable", "permission_denied",
    "execution_failed",
}


def bardo(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, check=False)
    return json.loads(done.stdout), done.returncode


def parameters(schema):
    """Name, JSON types, default and whether it is required, of each parameter."""
    required = set(schema.get("required", []))

    def kinds(one):
        kind = one.get("type") or [other["type"] for other in one["anyOf"]]
        return {kind} if isinstance(kind, str) else set(kind)

    def default(one):
        # A list that pydantic makes anew has no default in its schema.
        return one.get("default", [] if kinds(one) == {"array"} else None)

    return {
        name: (frozenset(kinds(one)), None if name in required else default(one), name in required)
        for name, one in schema["properties"].items()
    }


def compare_catalogs():
    ours, code = bardo("tools", "--dialect", "almanak", "--format", "json")
    assert code == 0
    by_name = {tool["name"]: tool for tool in ours}
    assert set(by_name) == set(CATALOG.list_names()), set(by_name) ^ set(CATALOG.list_names())
    openai, _ = bardo("tools", "--dialect", "almanak", "--format", "openai")
    mcp, _ = bardo("tools", "--dialect", "almanak", "--format", "mcp")
    exported = {tool["function"]["name"]: tool["function"]["parameters"] for tool in openai}
    served = {tool["name"]: tool["inputSchema"] for tool in mcp["tools"]}
    for tool in CATALOG.list_tools():
        mine = by_name[tool.name]
        theirs = parameters(tool.input_json_schema())
        for schema in (mine["input_schema"], exported[tool.name], served[tool.name]):
            assert parameters(schema) == theirs, (tool.name, parameters(schema), theirs)
        facts = (tool.category, tool.risk_tier, tool.idempotent, tool.requires_approval_above_usd)
        own = tuple(mine[name] for name in ("category", "risk_tier", "idempotent", "requires_approval_above_usd"))
        assert facts == own, (tool.name, facts, own)


def call(name, /, *, status, **arguments):
    """Calls a tool with arguments that Almanak's own schema accepts; checks the answer by its own schemas."""
    tool = CATALOG.get(name)
    sent = tool.request_schema(**arguments).model_dump(mode="json", exclude_unset=True)
    answer, code = bardo(
        "call", "--dialect", "almanak", name, json.dumps(sent), "--rpc", RPC, "--approve", "always"
    )
    # Strict: no field that the envelope does not have, and an error exactly where there is one.
    response = ToolResponse.model_validate(answer)
    assert response.status in status, (name, answer)
    assert response.is_error == (code != 0), (name, code, answer)
    if response.error is not None:
        error = response.error
        assert error.error_code in CODES, error
        assert error.error_category == get_error_category(AgentErrorCode(error.error_code)), error
        assert error.tool_name == name, error
    elif response.data is not None:
        # Every field that is sent is one of the response's, and of its type.
        tool.response_schema.model_validate(response.data)
        unknown = set(response.data) - set(tool.response_schema.model_fields)
        assert not unknown, (name, unknown)
    return response


def main():
    compare_catalogs()
    done = ["success"]
    on = {"chain": "ethereum"}
    count = 0

    def ok(name, /, **arguments):
        nonlocal count
        count += 1
        return call(name, status=done, **arguments).data

    price = ok("get_price", token="WETH", **on)["price_usd"]
    assert price > 1000
    weth = ok("get_balance", token="WETH", **on)
    assert ok("batch_get_balances", tokens=["WETH", "USDC"], **on)["balances"][0] == weth
    pool = ok("get_pool_state", token_a="WETH", token_b="USDC", fee_tier=3000, **on)
    assert ok("resolve_pool_address", address=pool["pool_address"], **on)["kind"] == "pool"
    ok("list_token_pools", token="WETH", quote_token="USDC", sort_by="volume", limit=3, **on)
    ok("resolve_token", token="USDC", **on)
    ok("get_portfolio", tokens=["USDC"], **on)
    ok("get_wallet_overview", wallet_address=ACCOUNT, **on)
    ok("check_protocol_support", protocol="uniswap_v3", **on)
    ok("list_lending_reserves", **on)
    ok("list_lending_positions", **on)
    swap = {"token_in": "WETH", "token_out": "USDC", "amount": "0.05"}
    ok("estimate_gas", intent_type="swap", params=swap, **on)
    ok("compile_intent", intent_type="swap", params=swap, **on)
    assert ok("validate_risk", intent_type="swap", params=swap, **on)["allowed"] is True
    call("simulate_intent", status=["simulated"], intent_type="swap", params=swap, **on)
    call("swap_tokens", status=["simulated"], dry_run=True, **swap, **on)
    before = float(ok("get_balance", token="USDC", **on)["balance"])
    sold = ok("swap_tokens", **swap, **on)
    assert abs(float(ok("get_balance", token="USDC", **on)["balance"]) - before - float(sold["amount_out"])) < 1e-6
    ok("wrap_native", token="WETH", amount="0.1", **on)
    ok("unwrap_native", token="WETH", amount="0.1", **on)
    ok("borrow_lending", token="USDC", amount="50", collateral_token="WETH", collateral_amount="0.2", **on)
    assert float(ok("list_lending_positions", **on)["health_factor"]) > 1
    ok("repay_lending", token="USDC", amount="all", **on)
    ok("withdraw_lending", token="WETH", amount="all", **on)
    current = float(pool["current_price"])
    opened = ok(
        "open_lp_position", token_a="USDC", token_b="WETH", amount_a="300", amount_b="0.1", fee_tier=3000,
        price_lower=f"{current * 0.8:.18f}", price_upper=f"{current * 1.2:.18f}", **on,
    )
    ok("get_lp_position", position_id=opened["position_id"], **on)
    ok("list_lp_positions", **on)
    ok("close_lp_position", position_id=opened["position_id"], **on)
    usdc = ok("resolve_token", token="USDC", **on)["address"]
    own = {"safe_address": ACCOUNT, "valuator_address": ACCOUNT}
    vault = ok(
        "deploy_vault", name="A", symbol="A", underlying_token_address=usdc, safe_address=ACCOUNT, admin_address=ACCOUNT,
        fee_receiver_address=ACCOUNT, deployer_address=ACCOUNT, **on,
    )["vault_address"]
    # The policy does not name it, so nobody's money is settled there.
    unnamed = call("settle_vault", status=["blocked"], vault_address=vault, new_total_assets="0", **own, **on)
    assert unnamed.error.error_code == "permission_denied", unnamed
    ok("save_agent_state", state={"step": 2, "seen": ["WETH"]})
    assert ok("load_agent_state")["state"] == {"step": 2, "seen": ["WETH"]}
    ok("record_agent_decision", decision_summary="hold", tool_calls=[{"name": "get_price"}])

    # Refusals, in Almanak's form.
    foreign = call("swap_tokens", status=["blocked"], execution_wallet=STRANGER, **swap, **on)
    assert foreign.error.error_code == "permission_denied" and not foreign.error.recoverable
    unknown = call("get_price", status=["error"], token="NOPE", **on)
    assert unknown.error.error_code == "validation_error" and unknown.error.recoverable
    lost = call("execute_compiled_bundle", status=["blocked"], bundle_id="0" * 32, **on)
    assert lost.error.error_code == "timeout"
    much = call("swap_tokens", status=["blocked", "error"], token_in="WETH", token_out="USDC", amount="4000", **on)
    assert much.error is not None
    print(count)


main()
