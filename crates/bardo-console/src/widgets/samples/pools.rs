//! Sample replies of the tools that read pools.

use serde_json::{Value, json};

/// Data of `list_pools` for a token named `symbol`.
pub fn list_reply(symbol: &str) -> Value {
    let pool = |id: u8, version: &str, fee: u32, quote: &str, depth: Option<[&str; 3]>, volume: &str| {
        json!({
            "pool": format!("0x{}", format!("{id:02x}").repeat(20)), "version": version, "fee_tier": fee,
            "token": symbol, "quote": quote, "price": depth.map(|_| if quote == "USDC" { "3412.5521" } else { "0.0502" }),
            "buy_depth": depth.map(|depth| depth[0]), "sell_depth": depth.map(|depth| depth[1]),
            "depth_usd": depth.map(|depth| depth[2]), "volume": "14.2", "quote_volume": "48458.24", "volume_usd": volume,
            "swap_count": 117,
        })
    };
    json!({
        "chain": "ethereum", "block_number": 1290, "volume_from_block": 1, "volume_hours": 24, "volume_complete": false,
        "agreed_by_endpoints": true, "pool_count": 4,
        "pools": [
            pool(0x11, "V3", 500, "USDC", Some(["182.5", "611204.12", "611204.12"]), "48458.24"),
            pool(0x12, "V3", 3000, "USDC", Some(["41.02", "139992.4", "139981.3"]), "12019.5"),
            pool(0x13, "V2", 3000, "USDC", Some(["7.1", "24411.9", "24228.1"]), "801.02"),
            pool(0x14, "V3", 10_000, "WBTC", None, "0"),
        ],
    })
}

/// Data of `get_pool_info` between a token and another one: a V3 pool of the list, and a V4 pool with this hook.
pub fn info_reply(symbol: &str, quote: &str, hook: Option<&str>) -> Value {
    let v4 = json!({
        "pool": format!("0x{}", "a4".repeat(32)), "version": "V4", "fee_tier": 500, "price_b_per_a": "3413.01",
        "price_a_per_b": "0.000293", "held_a": "88.01", "held_b": "300411.5", "value_usd": "600799.2",
        "liquidity": "918273645546372819", "tick": -196_012, "hook": hook,
    });
    let v3 = json!({
        "pool": format!("0x{}", "11".repeat(20)), "version": "V3", "fee_tier": 500, "price_b_per_a": "3412.5521",
        "price_a_per_b": "0.000293", "held_a": "1823.01", "held_b": "6200411.5", "value_usd": "12421500.77",
        "liquidity": "1918273645546372819", "tick": -196_013,
    });
    json!({
        "token_a": symbol, "token_b": quote, "chain": "ethereum", "block_number": 1290, "pool_count": 2,
        "pools": if quote == "USDC" { json!([v3, v4]) } else { json!([]) },
    })
}
