//! Uniswap's smart-order-router behind Bardo's sidecar, with an anvil that has the contracts at their mainnet
//! addresses: the same pools, quoted by its code and by Bardo's.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::clients::process::tool;
use bardo::uniswap::pool::FixedAmount;
use bardo_testkit::{mainnet, side_by_side};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs anvil, Node.js and the sidecar's packages: run by .ci/run"]
async fn the_smart_order_router_and_ours_quote_the_same_pools() {
    let mainnet = mainnet::start(&tool("BARDO_ANVIL"), Path::new(&tool("BARDO_SIDECAR"))).await;
    let rows = side_by_side::rows(&mainnet).await;
    println!("{}", side_by_side::table(&rows));
    let mut split = 0;
    for row in &rows {
        let (route, told) = (&row.sidecar.route, row.sidecar.claim.as_ref().unwrap());
        let counted = match row.exact {
            FixedAmount::In(_) => route.amount_out,
            FixedAmount::Out(_) => route.amount_in,
        };
        // Its figures come from the quoter contract, Bardo's from its own arithmetic on the pools' state.
        assert_eq!(told.claimed, counted, "{}", row.name);
        // Bardo considers more routes; if both find the same, the difference is zero.
        assert!(told.ahead_bps.unwrap() <= 0, "{}: {told:?}", row.name);
        split += usize::from(route.legs.len() > 1);
    }
    assert!(split > 0, "a large sale is split");

    // With the real program: the quote is the sidecar's, and the card can show the comparison.
    let home = tempfile::tempdir().unwrap();
    let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "200", "chain": "ethereum"});
    let output = Command::new(env!("CARGO_BIN_EXE_bardo"))
        .args(["call", "uniswap_get_quote", &params.to_string(), "--rpc", &format!("ethereum={}", mainnet.url)])
        .env("BARDO_HOME", home.path())
        .env("BARDO_SIDECAR_SOCKET", &mainnet.socket)
        .output()
        .unwrap();
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(envelope["status"], "success", "{envelope}");
    let hints = &envelope["decision_hints"];
    assert_eq!(hints["source"], "the smart-order-router sidecar");
    assert!(hints["source_compared"]["ahead_of_own_router_bps"].as_i64().unwrap() <= 0, "{hints}");
}
