//! Reads of liquidity positions, compared with what the position manager would pay.

use alloy::primitives::aliases::{I24, U24, U160};

use super::*;
use bardo_abi::erc20::OpenMint;
use bardo_abi::uniswap_v3::{NonfungiblePositionManager as Manager, SwapRouter02};
use bardo_base::units::TokenAmount;

/// Account of this test.
const OWNER: usize = 4;
const FEE: u32 = 100;

/// Result that a call of the owner would have.
async fn would<C: SolCall>(harness: &ToolHarness, to: Address, call: C) -> C::Return {
    let from = SANDBOX.accounts()[OWNER];
    let request = TransactionRequest::default().with_from(from).with_to(to).with_input(call.abi_encode());
    let output = harness.ethereum().client.provider().call(request).await.unwrap();
    C::abi_decode_returns(&output).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_are_worth_what_the_manager_would_pay() {
    let harness = harness(Some(OWNER));
    let owner = SANDBOX.accounts()[OWNER];
    let book = &harness.ethereum().network().book;
    let [manager, router] = [KnownContract::V3PositionManager, KnownContract::SwapRouter02]
        .map(|contract| book.contract(contract).unwrap());
    let mut tokens = [harness.token("USDC"), harness.token("DAI")];
    let usdc = tokens[0];
    tokens.sort_unstable();
    let decimals = tokens.map(|token| if token == usdc { 6_u8 } else { 18 });
    let whole = |amount: u64, at: usize| U256::from(amount) * U256::from(10).pow(U256::from(decimals[at]));
    for (at, token) in tokens.into_iter().enumerate() {
        harness.send(OWNER, token, OpenMint::mintCall { to: owner, value: whole(200_000, at) }).await;
        for spender in [manager, router] {
            harness.send(OWNER, token, Erc20::approveCall { spender, value: U256::MAX }).await;
        }
    }
    let none = harness.data("list_positions", json!({"chain": "ethereum"})).await;
    assert_eq!((&none["position_count"], &none["total_usd"]), (&json!(0), &json!("0")));

    // A dollar in raw units of each token: the tick of the price is 0 or ±276,324, about which the ranges lie.
    let middle = if decimals[0] == decimals[1] { 0 } else { 276_324 * (i32::from(decimals[1] > decimals[0]) * 2 - 1) };
    for (lower, upper) in [(middle - 100, middle + 100), (middle + 200, middle + 300), (middle - 300, middle - 200)] {
        let params = Manager::MintParams {
            token0: tokens[0],
            token1: tokens[1],
            fee: U24::from(FEE),
            tickLower: I24::try_from(lower).unwrap(),
            tickUpper: I24::try_from(upper).unwrap(),
            amount0Desired: whole(3_000, 0),
            amount1Desired: whole(3_000, 1),
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient: owner,
            deadline: U256::MAX,
        };
        harness.send(OWNER, manager, Manager::mintCall { params }).await;
    }
    for (from, to) in [(0, 1), (1, 0)] {
        let params = SwapRouter02::ExactInputSingleParams {
            tokenIn: tokens[from],
            tokenOut: tokens[to],
            fee: U24::from(FEE),
            recipient: owner,
            amountIn: whole(50_000, from),
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: U160::ZERO,
        };
        harness.send(OWNER, router, SwapRouter02::exactInputSingleCall { params }).await;
    }

    let listed = harness.data("list_positions", json!({"chain": "ethereum"})).await;
    let rows = listed["positions"].as_array().unwrap();
    assert_eq!((rows.len(), &listed["position_count"], &listed["next_offset"]), (3, &json!(3), &Value::Null));
    let ids: Vec<&Value> = rows.iter().map(|row| &row["position_id"]).collect();
    let described = harness.data("get_position", json!({"chain": "ethereum", "position_id": ids})).await;
    assert_eq!(&described["positions"], &listed["positions"]);
    let mut fees = 0;
    for (at, row) in rows.iter().enumerate() {
        let token_id: U256 = row["position_id"].as_str().unwrap().parse().unwrap();
        let raw = |of: &str| {
            let amount =
                |field: &str, decimals| TokenAmount::parse(row[of][field].as_str().unwrap(), decimals).unwrap();
            [amount("amount0", decimals[0]).raw(), amount("amount1", decimals[1]).raw()]
        };
        let params = Manager::CollectParams {
            tokenId: token_id,
            recipient: owner,
            amount0Max: u128::MAX,
            amount1Max: u128::MAX,
        };
        let paid = would(&harness, manager, Manager::collectCall { params }).await;
        assert_eq!(raw("owed"), [paid.amount0, paid.amount1], "{row:#}");
        fees += usize::from(raw("owed") != [U256::ZERO; 2]);
        let liquidity = row["liquidity"].as_str().unwrap().parse().unwrap();
        let params = Manager::DecreaseLiquidityParams {
            tokenId: token_id,
            liquidity,
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            deadline: U256::MAX,
        };
        let paid = would(&harness, manager, Manager::decreaseLiquidityCall { params }).await;
        assert_eq!(raw("now"), [paid.amount0, paid.amount1], "{row:#}");
        assert_eq!(row["in_range"], at == 0, "{row:#}");
        assert_eq!(row["share_pct"].is_null(), at != 0);
        assert_eq!((raw("at_lower_price")[1], raw("at_upper_price")[0]), (U256::ZERO, U256::ZERO));
        assert_eq!(row["owner"], owner.to_string());
        // Both tokens are worth about a dollar: the range holds 3,000 of one or 3,000 of each.
        let usd: f64 = row["value_usd"].as_str().unwrap().parse().unwrap();
        assert!(usd > 2_900.0 && usd < 6_100.0, "{row:#}");
    }
    assert!(fees > 0, "the swaps paid fees to a position");

    let page = harness.data("list_positions", json!({"chain": "ethereum", "offset": 1, "limit": 1})).await;
    assert_eq!((&page["positions"][0], &page["next_offset"]), (&rows[1], &json!(2)));
    for (id, code) in [("999999", ErrorCode::PositionNotFound), ("0x1", ErrorCode::ValidationFailed)] {
        let params = json!({"chain": "ethereum", "position_id": id});
        assert_eq!(harness.code("get_position", params).await, (CallStatus::Error, code));
    }
}
