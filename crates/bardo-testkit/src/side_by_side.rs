//! Bardo's router and the sidecar's on the same pools of the same block: outputs after gas, and durations.

use std::time::{Duration, Instant};

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::providers::Provider;
use bardo_base::units::BasisPoints;
use golem_chain::network::named;
use golem_protocols::uniswap::discovery::{PoolReader, TickReach};
use golem_protocols::uniswap::pool::FixedAmount;
use golem_protocols::uniswap::quote::{LocalRouter, NOBODY, QuoteRequest, QuoteSource, QuotedRoute};
use golem_protocols::uniswap::router::RouterVersion;
use golem_protocols::uniswap::routing::{GasCost, RouteRequest};
use golem_protocols::uniswap::sidecar::Sidecar;

use crate::mainnet::{DAI, Mainnet, USDC, USDT, WBTC, WETH};

/// One request and both answers.
pub struct Row {
    pub name: &'static str,
    pub exact: FixedAmount,
    pub own: QuotedRoute,
    pub own_time: Duration,
    pub sidecar: QuotedRoute,
    pub sidecar_time: Duration,
}

/// Small and large amounts, whole and split, over one and more pools, and an exact output.
pub async fn rows(mainnet: &Mainnet) -> Vec<Row> {
    let network = named().iter().find(|network| network.chain_id == 1).expect("ethereum");
    let pools = PoolReader::new(mainnet.provider.clone(), network).expect("its book is whole");
    let sidecar = Sidecar::new(mainnet.socket.clone());
    let ether = |whole: u64| U256::from(whole) * U256::from(10).pow(U256::from(18));
    let cases: [(&str, Address, Address, [u8; 2], FixedAmount); 6] = [
        ("1 WETH to USDC", WETH, USDC, [18, 6], FixedAmount::In(ether(1))),
        ("200 WETH to USDC", WETH, USDC, [18, 6], FixedAmount::In(ether(200))),
        ("10 WBTC to DAI", WBTC, DAI, [8, 18], FixedAmount::In(U256::from(1_000_000_000_u64))),
        ("250,000 USDC to USDT", USDC, USDT, [6, 6], FixedAmount::In(U256::from(250_000_000_000_u64))),
        ("500,000 DAI to WETH", DAI, WETH, [18, 18], FixedAmount::In(ether(500_000))),
        ("WETH for 1,000 USDC", WETH, USDC, [18, 6], FixedAmount::Out(U256::from(1_000_000_000_u64))),
    ];
    let mut rows = Vec::new();
    for (name, token_in, token_out, decimals, exact) in cases {
        let mut request = RouteRequest::new(token_in, token_out, exact);
        let snapshot = pools.pools(&[token_in, token_out], BlockId::latest(), TickReach::Whole).await.expect("pools");
        let open = if matches!(exact, FixedAmount::In(_)) { token_out } else { token_in };
        let gas = mainnet.provider.get_gas_price().await.expect("a price");
        request.gas = snapshot.pools.token_per_native(WETH, open).and_then(|price| GasCost::new(gas, &price));
        let ask = QuoteRequest {
            pools: &pools,
            request: &request,
            coin: [false; 2],
            block: BlockId::from(snapshot.block_hash),
            chain_id: 1,
            swapper: NOBODY,
            decimals,
            slippage: BasisPoints::ZERO,
            permit2: None,
            routers: &[],
            router_version: RouterVersion::V2_0,
        };
        let started = Instant::now();
        let own = LocalRouter.quote(&ask).await.expect("a route");
        let own_time = started.elapsed();
        let started = Instant::now();
        let said = sidecar.quote(&ask).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        rows.push(Row { name, exact, own, own_time, sidecar: said, sidecar_time: started.elapsed() });
    }
    rows
}

/// Formats the rows as a table.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<22} {:>26} {:>26} {:>8} {:>9} {:>9} {:>9} {:>9}\n",
        "", "own router", "sidecar", "bps", "own gas", "its gas", "own ms", "its ms"
    );
    for row in rows {
        let open = |quoted: &QuotedRoute| match row.exact {
            FixedAmount::In(_) => quoted.route.amount_out,
            FixedAmount::Out(_) => quoted.route.amount_in,
        };
        let ahead = row.sidecar.claim.as_ref().and_then(|claim| claim.ahead_bps).unwrap_or_default();
        text.push_str(&format!(
            "{:<22} {:>26} {:>26} {:>8} {:>9} {:>9} {:>9.1} {:>9.1}\n",
            row.name,
            open(&row.own).to_string(),
            open(&row.sidecar).to_string(),
            ahead,
            row.own.route.gas_units,
            row.sidecar.route.gas_units,
            row.own_time.as_secs_f64() * 1_000.0,
            row.sidecar_time.as_secs_f64() * 1_000.0,
        ));
    }
    text
}
