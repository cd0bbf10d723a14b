//! The sidecar's protocol with a test server on a Unix socket: a valid answer, and every kind of invalid one.

use std::sync::Arc;
use std::time::Duration;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use bardo::base::clock::SystemClock;
use bardo::base::service::ServiceError;
use bardo::base::units::BasisPoints;
use bardo::chain::provider::ChainClient;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use bardo::uniswap::claim::{self, ClaimRequest};
use bardo::uniswap::discovery::PoolReader;
use bardo::uniswap::pool::FixedAmount;
use bardo::uniswap::quote::{NOBODY, QuoteError, QuoteRequest, QuoteSource};
use bardo::uniswap::router::RouterVersion;
use bardo::uniswap::routing::RouteRequest;
use bardo::uniswap::sidecar::Sidecar;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;

use crate::world::START;

/// Test sidecar that writes `answer`'s bytes for each request.
fn listen(answer: impl Fn(Value) -> Vec<u8> + Send + Sync + 'static) -> (tempfile::TempDir, Sidecar) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sidecar.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (reader, mut writer) = stream.into_split();
            let mut line = String::new();
            BufReader::new(reader).read_line(&mut line).await.unwrap();
            let said = answer(serde_json::from_str(&line).unwrap());
            if said.is_empty() {
                // Silence on an open connection.
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    drop(writer);
                });
                continue;
            }
            // The client may have closed the connection.
            let _ = writer.write_all(&said).await;
        }
    });
    (folder, Sidecar::new(socket).within(Duration::from_secs(15)))
}

fn line(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_is_asked_in_a_line_and_believed_no_more_than_the_pools() {
    let config = SandboxConfig {
        seed: 4,
        start_time: START,
        pace: BlockPace::Manual,
        clock: None,
        market: MarketMode::Off,
        keeper: true,
    };
    let sandbox = Sandbox::boot(&config, &|_| {}).unwrap();
    let network = sandbox.description().networks().swap_remove(0);
    let chain = sandbox.chain("ethereum").unwrap();
    let client = ChainClient::devnet(network.clone(), chain.devnet.clone(), Arc::new(SystemClock)).unwrap();
    let pools = PoolReader::new(client.provider().clone(), &network).unwrap();
    let (weth, usdc) = (chain.deployment.weth, chain.deployment.token(SandboxToken::Usdc).unwrap());
    let request = RouteRequest::new(weth, usdc, FixedAmount::In(U256::from(10_u64.pow(18))));
    let ask = QuoteRequest {
        pools: &pools,
        request: &request,
        coin: [false; 2],
        block: BlockId::latest(),
        chain_id: 31_337,
        swapper: NOBODY,
        decimals: [18, 6],
        slippage: BasisPoints::new(50).unwrap(),
        permit2: None,
        routers: &[],
        router_version: RouterVersion::V2_0,
    };
    let (own, _) = pools.route(&request, BlockId::latest()).await.unwrap();
    let asked =
        ClaimRequest { chain_id: 31_337, token_in: weth, token_out: usdc, exact: request.exact, swapper: NOBODY };
    let truth = claim::to_json(&own, &asked, 1);

    let (_folder, sidecar) = {
        let truth = truth.clone();
        listen(move |question| {
            assert_eq!((&question["method"], &question["chainId"]), (&json!("quote"), &json!(31_337)));
            assert_eq!(question["tokenIn"], json!({"address": weth, "decimals": 18}));
            assert_eq!(question["tokenOut"], json!({"address": usdc, "decimals": 6}));
            assert_eq!(
                (&question["amount"], &question["tradeType"]),
                (&json!("1000000000000000000"), &json!("EXACT_INPUT"))
            );
            line(&json!({"id": question["id"], "quote": truth}))
        })
    };
    let quoted = sidecar.quote(&ask).await.unwrap();
    assert_eq!(quoted.route.amount_out, own.amount_out);
    assert_eq!(quoted.claim.unwrap().ahead_bps, Some(0));

    let with = |pointer: &'static str, to: Value| {
        let mut told = truth.clone();
        *told.pointer_mut(pointer).unwrap() = to;
        told
    };
    let more = (own.amount_out * U256::from(2)).to_string();
    for (quote, says) in [
        (with("/output/token", json!(weth)), "output.token"),
        (with("/output/amount", json!(more)), "it claims"),
        (with("/route/0/0/address", json!(Address::repeat_byte(7))), "not a Uniswap V2 or V3 pool"),
        (with("/route/0/0/type", json!("mixed")), "mixed"),
        (json!(null), "chainId"),
    ] {
        let (_folder, liar) = listen(move |question| line(&json!({"id": question["id"], "quote": quote})));
        let error = liar.quote(&ask).await.unwrap_err();
        assert!(matches!(error, QuoteError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }

    let huge = [vec![b'x'; 2 << 20], vec![b'\n']].concat();
    for (said, says) in [
        (b"no json\n".to_vec(), "invalid response: a response that is not JSON"),
        (b"{\"id\":\"1\"".to_vec(), "truncated response"),
        (line(&json!({"id": "another", "quote": truth})), "response to another request"),
        (line(&json!([1])), "response to another request"),
        (huge, "more than 1 MiB"),
        (Vec::new(), "cannot be reached: no response"),
    ] {
        let silent = said.is_empty();
        let (_folder, nonsense) = listen(move |_| said.clone());
        // Only silence is detected by time; other faults must not be mistaken for it on a busy machine.
        let nonsense = if silent { nonsense.within(Duration::from_millis(500)) } else { nonsense };
        let error = nonsense.quote(&ask).await.unwrap_err();
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
    let (_folder, refusing) = listen(|question| {
        line(&json!({"id": question["id"], "error": {"code": "NO_ROUTE", "detail": "none\u{1b}[2J"}}))
    });
    let error = refusing.quote(&ask).await.unwrap_err();
    assert!(matches!(&error, QuoteError::Service { error: ServiceError::Refused(_), .. }), "{error:?}");
    assert!(error.to_string().contains("NO_ROUTE none") && !error.to_string().contains('\u{1b}'), "{error}");

    let nobody = Sidecar::new("/nowhere/at/all.sock".into());
    let error = nobody.quote(&ask).await.unwrap_err();
    assert!(matches!(error, QuoteError::Service { error: ServiceError::Unreachable(_), .. }), "{error:?}");
}
