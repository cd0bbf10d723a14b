//! Sample replies of the tools that read positions.

use serde_json::{Value, json};

/// Account of the samples.
const ACCOUNT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

/// Entry of `list_positions`: a WETH/USDC position with a range of 6,000 ticks and the price at tick `now` of it.
/// `symbol` stands for outside text.
pub fn position(symbol: &str, id: &str, now: i32, exit: &str) -> Value {
    let v4 = id.starts_with("v4:");
    let inside = (-200_000..-194_000).contains(&now);
    json!({
        "position_id": id, "version": if v4 { "V4" } else { "V3" }, "owner": ACCOUNT,
        "pool": "0x88e6A0c2dDD26FEEb64F039a2c41296FcB3f5640", "fee_tier": 3000,
        "hook": if exit == "open" { Value::Null } else { json!("0x00000000000000000000000000000000000000C0") },
        "exit": exit, "token0": symbol, "token1": "USDC", "tick_lower": -200_000, "tick_upper": -194_000, "tick": now,
        "price": "3412.5521", "price_lower": "2066.62", "price_upper": "3765.01", "in_range": inside,
        "liquidity": "18402738462311", "share_pct": if inside { json!("0.42") } else { Value::Null },
        "now": {"amount0": "0.2500102938", "amount1": "853.1400"},
        "at_lower_price": {"amount0": "0.6120", "amount1": "0"}, "at_upper_price": {"amount0": "0", "amount1": "1702.55"},
        "owed": {"amount0": "0.00021", "amount1": "0.7314"},
        "value_usd": if exit == "open" { json!("1708.41") } else { json!("0") }, "owed_usd": "1.4481",
    })
}

/// Data of `list_positions` with these entries.
pub fn positions_reply(entries: Vec<Value>, next_offset: Option<u64>, count: u64, unread: u64) -> Value {
    json!({
        "account": ACCOUNT, "chain": "ethereum", "block_number": 1290, "agreed_by_endpoints": true,
        "position_count": count, "unread_count": unread, "next_offset": next_offset, "empty_count": 0,
        "total_usd": "0", "all_priced": true, "positions": entries,
    })
}

/// Data of `get_lending_position`: WETH secures a debt of USDC. `health` is absent without debt.
pub fn lending_reply(symbol: &str, health: Option<&str>) -> Value {
    let token = |name: &str, amounts: [&str; 2], values: [&str; 2], at: Value| {
        json!({
            "token": name, "supplied": amounts[0], "debt": amounts[1], "supplied_usd": values[0], "debt_usd": values[1],
            "is_collateral": true, "supply_apr_pct": "1.21", "borrow_apr_pct": "4.80", "liquidation_threshold_pct": "82.5",
            "market_price_usd": if name == "USDC" { "1" } else { "3412.55" }, "price_usd": null, "liquidated_at": at,
        })
    };
    let fall = json!({"price_usd": "2630.4", "fall_pct": "22.92"});
    let rise = json!({"price_usd": "1.2974", "rise_pct": "29.74"});
    let (debt, owed) = if health.is_some() { ("900.12", "900.13") } else { ("0", "0") };
    json!({
        "account": ACCOUNT, "chain": "ethereum", "block_number": 1290, "agreed_by_endpoints": true,
        "collateral_usd": "1706.275", "debt_usd": owed, "available_to_borrow_usd": "464.88",
        "liquidation_threshold_pct": "82.5", "health_factor": health, "e_mode": 0,
        "positions": [
            token(symbol, ["0.5", "0"], ["1706.275", "0"], if health.is_some() { fall } else { Value::Null }),
            token("USDC", ["0", debt], ["0", owed], if health.is_some() { rise } else { Value::Null }),
        ],
        "liquidations": [], "liquidations_from_block": 1,
    })
}

/// Data of `vault_list`.
pub fn vaults_reply(vaults: Vec<Value>) -> Value {
    json!({"chain": "ethereum", "account": ACCOUNT, "vaults": vaults, "not_read": [], "unread_count": 0})
}

/// Entry of `vault_list` with some fields changed.
pub fn listed_vault(vault: &str, shares: &str, changed: Value) -> Value {
    let mut entry = json!({
        "vault_address": vault, "asset": "USDC", "total_assets": "1050500", "shares": shares, "is_asynchronous": false,
        "has_requests": false, "is_managed": false, "is_paused": false,
    });
    if let (Some(fields), Some(changed)) = (entry.as_object_mut(), changed.as_object()) {
        fields.extend(changed.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    entry
}

/// Data of `get_vault_state`.
pub fn vault_reply(symbol: &str, shares: &str) -> Value {
    json!({
        "vault_address": "0x5FbDB2315678afecb367f032d93F642f64180aa3", "chain": "ethereum", "block_number": 1290,
        "agreed_by_endpoints": true, "asset": symbol, "asset_address": "0x0101010101010101010101010101010101010101",
        "share_decimals": 18, "total_assets": "1050500", "total_shares": "1000476.190476", "share_price": "1.05",
        "past_share_prices": [{"block_number": 1190, "share_price": "1.05"}, {"block_number": 290, "share_price": "1.0412"}],
        "account": ACCOUNT, "shares": shares, "redeems_for": "499.999999", "max_deposit": null, "max_redeem": "476.190476",
        "findings": [],
    })
}

/// Data of `vault_simulate_withdraw`; `received` is absent if the vault does not pay out.
pub fn redemption_reply(received: Option<&str>) -> Value {
    let why = json!({"kind": "withdrawal_fails", "why": "execution reverted: paused"});
    json!({
        "vault_address": "0x5FbDB2315678afecb367f032d93F642f64180aa3", "block_number": 1291, "asset": "USDC",
        "shares": "476.190476", "previewed": "499.999999", "received": received, "gas_used": 84_000,
        "findings": if received.is_some() { json!([]) } else { json!([why]) },
    })
}
