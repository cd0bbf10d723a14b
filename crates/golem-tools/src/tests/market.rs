//! Candles, indicators, pools, depth and volume, compared with raw logs, headers and contracts of the devnet. Prices and
//! intervals are computed here from the bytes of the logs, without the code under test.

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256, aliases::U24, aliases::U160, keccak256};
use alloy::providers::Provider;
use alloy::rpc::types::Filter;
use num_bigint::BigUint;
use serde_json::{Value, json};

use super::{ToolHarness, harness};
use crate::engine::CallStatus;
use bardo_abi::uniswap_v3::{QuoterV2, UniswapV3Pool};
use bardo_base::error::ErrorCode;
use golem_chain::network::KnownContract;

/// Swap as its log says: time, price of WETH in USDC times 10^36, and the moved WETH and USDC in raw units.
type RawSwap = (u64, BigUint, U256, U256);

fn big(value: U256) -> BigUint {
    BigUint::from_bytes_le(&value.to_le_bytes::<32>())
}

fn word(data: &[u8], at: usize) -> U256 {
    U256::from_be_slice(&data[at * 32..at * 32 + 32])
}

/// Size of a two's complement number.
fn size(value: U256) -> U256 {
    if value.bit(255) { U256::ZERO.wrapping_sub(value) } else { value }
}

/// Swaps of a pool of WETH (18 decimals) and USDC (6), from the raw logs, oldest first.
async fn raw_swaps(harness: &ToolHarness, pool: Address, is_pair: bool) -> Vec<RawSwap> {
    let provider = harness.ethereum().client.provider();
    let weth_first = harness.token("WETH") < harness.token("USDC");
    let signature = match is_pair {
        true => "Swap(address,uint256,uint256,uint256,uint256,address)",
        false => "Swap(address,address,int256,int256,uint160,uint128,int24)",
    };
    let topic = keccak256(signature);
    let sync = keccak256("Sync(uint112,uint112)");
    let logs = provider.get_logs(&Filter::new().address(pool).from_block(0)).await.unwrap();
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    let mut swaps = Vec::new();
    let mut reserves = (U256::ZERO, U256::ZERO);
    for log in logs {
        let data = log.data().data.clone();
        if log.topics()[0] == sync {
            reserves = (word(&data, 0), word(&data, 1));
        }
        if log.topics()[0] != topic {
            continue;
        }
        let number = log.block_number.unwrap();
        let time = match times.get(&number) {
            Some(time) => *time,
            None => provider.get_block_by_number(number.into()).await.unwrap().unwrap().header.timestamp,
        };
        times.insert(number, time);
        // Raw token1 per raw token0, as numerator and denominator.
        let (up, down, amount0, amount1) = if is_pair {
            let amounts = [word(&data, 0) + word(&data, 2), word(&data, 1) + word(&data, 3)];
            (big(reserves.1), big(reserves.0), amounts[0], amounts[1])
        } else {
            let root = big(word(&data, 2));
            (&root * &root, BigUint::from(1_u8) << 192_u32, size(word(&data, 0)), size(word(&data, 1)))
        };
        let (up, down, weth, usdc) =
            if weth_first { (up, down, amount0, amount1) } else { (down, up, amount1, amount0) };
        // 10^18 raw WETH are one, 10^6 raw USDC are one.
        let price = up * BigUint::from(10_u8).pow(36 + 18 - 6) / down;
        swaps.push((time, price, weth, usdc));
    }
    swaps
}

/// Decimal text of a price times 10^36, cut to 18 significant digits.
fn text(price: &BigUint) -> String {
    let digits = price.to_string();
    let kept: String = digits.chars().enumerate().map(|(at, digit)| if at < 18 { digit } else { '0' }).collect();
    let padded = format!("{kept:0>37}");
    let (whole, fraction) = padded.split_at(padded.len() - 36);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

fn amount(raw: U256, decimals: u8) -> String {
    bardo_base::units::TokenAmount::new(raw, decimals).unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candles_equal_those_of_the_raw_logs_of_v3_and_v2_pools() {
    let harness = harness(None);
    let pools = harness.data("list_pools", json!({"token": "WETH", "quote": "USDC", "chain": "ethereum"})).await;
    let of_version = |version: &str| {
        let rows = pools["pools"].as_array().unwrap();
        rows.iter().find(|row| row["version"] == version).unwrap()["pool"].as_str().unwrap().to_owned()
    };
    let mut with_swaps = 0;
    for (pool, interval, seconds) in
        [(of_version("V3"), "15m", 900), (of_version("V3"), "1m", 60), (of_version("V2"), "5m", 300)]
    {
        let params = json!({
            "token": "WETH", "quote": "USDC", "chain": "ethereum", "interval": interval, "lookback": 5, "pool": pool,
        });
        let data = harness.data("get_price_history", params).await;
        assert_eq!((&data["pool"], &data["agreed_by_endpoints"]), (&json!(pool), &json!(false)));
        let is_pair = data["version"] == "V2";
        let swaps = raw_swaps(&harness, pool.parse().unwrap(), is_pair).await;
        let candles = data["candles"].as_array().unwrap();
        assert_eq!(candles.len(), 5);
        let head = data["to_block"].as_u64().unwrap();
        let provider = harness.ethereum().client.provider();
        let now = provider.get_block_by_number(head.into()).await.unwrap().unwrap().header.timestamp;
        let last_start = now / seconds * seconds - seconds;
        let mut empty = 0;
        for (at, candle) in candles.iter().enumerate() {
            let start = last_start - (4 - at as u64) * seconds;
            let inside: Vec<&RawSwap> =
                swaps.iter().filter(|swap| (start..start + seconds).contains(&swap.0)).collect();
            let sum = |of: fn(&RawSwap) -> U256| inside.iter().fold(U256::ZERO, |sum, swap| sum + of(swap));
            let expected = match (inside.first(), inside.last()) {
                (Some(first), Some(last)) => {
                    let prices = inside.iter().map(|swap| &swap.1);
                    [&first.1, prices.clone().max().unwrap(), prices.min().unwrap(), &last.1].map(text)
                }
                _ => {
                    empty += 1;
                    let before = swaps.iter().rev().find(|swap| swap.0 < start).unwrap();
                    [(); 4].map(|()| text(&before.1))
                }
            };
            with_swaps += inside.len();
            let answer = ["open", "high", "low", "close"].map(|field| candle[field].as_str().unwrap().to_owned());
            assert_eq!((candle["start"].as_u64().unwrap(), &answer), (start, &expected), "{interval} {at} of {pool}");
            assert_eq!(candle["volume"], amount(sum(|swap| swap.2), 18));
            assert_eq!(candle["quote_volume"], amount(sum(|swap| swap.3), 6));
            assert_eq!(candle["swaps"], inside.len());
        }
        assert_eq!(data["empty_intervals"], empty);
    }
    assert!(with_swaps > 5, "the market traded in some of these intervals");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_little_history_is_an_error_that_says_how_much_there_is() {
    let harness = harness(None);
    let ask = |lookback: u64| json!({"token": "WETH", "chain": "ethereum", "interval": "1h", "lookback": lookback});
    let error = harness.call("get_price_history", ask(400)).await.error.unwrap();
    assert_eq!(error.code(), ErrorCode::ValidationFailed);
    let available = error.details()["available"].as_u64().unwrap();
    // The market is two hours old, so there are at most two whole hours, besides one that began before it.
    assert!((1..=3).contains(&available), "{error:?}");
    assert_eq!(error.details()["needed"], 400);
    let data = harness.data("get_price_history", ask(available)).await;
    assert_eq!(data["candles"].as_array().unwrap().len() as u64, available);
    let params = json!({"token": "WETH", "indicator": "macd", "chain": "ethereum", "interval": "1h"});
    let error = harness.call("get_indicator", params).await.error.unwrap();
    assert_eq!((&error.details()["needed"], &error.details()["available"]), (&json!(34), &json!(available)));

    for (tool, params) in [
        ("get_price_history", ask(0)),
        ("get_price_history", ask(501)),
        ("get_price_history", json!({"token": "WETH", "quote": "ETH", "chain": "ethereum"})),
        ("get_indicator", json!({"token": "WETH", "indicator": "macd", "period": 9, "chain": "ethereum"})),
        ("get_indicator", json!({"token": "WETH", "indicator": "rsi", "period": 1, "chain": "ethereum"})),
        ("list_pools", json!({"chain": "ethereum"})),
        ("list_pools", json!({"token": "WETH", "chain": "ethereum", "volume_hours": 0})),
    ] {
        let refused = harness.code(tool, params.clone()).await;
        assert_eq!(refused, (CallStatus::Error, ErrorCode::ValidationFailed), "{tool} {params}");
    }
    let stranger = json!({"token": "WETH", "chain": "ethereum", "pool": Address::repeat_byte(0x77).to_string()});
    assert_eq!(harness.code("get_price_history", stranger).await, (CallStatus::Error, ErrorCode::PoolNotFound));
}

/// RSI, ATR, averages, MACD and bands over the closes that `get_price_history` returns, in floating point, each by its
/// definition written out here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indicators_follow_from_the_candles_of_the_same_pool() {
    let harness = harness(None);
    let base = json!({"token": "WETH", "chain": "ethereum", "interval": "1m"});
    let with = |more: Value| {
        let mut params = base.clone();
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let error = harness.call("get_price_history", with(json!({"lookback": 500}))).await.error.unwrap();
    let available = error.details()["available"].as_u64().unwrap();
    assert!((100..=125).contains(&available), "{available}");
    let history = harness.data("get_price_history", with(json!({"lookback": available}))).await;
    let number = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    let rows = history["candles"].as_array().unwrap();
    let closes: Vec<f64> = rows.iter().map(|row| number(&row["close"])).collect();
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let smooth = |values: &[f64], n: usize, factor: f64| {
        let mut results = vec![average(&values[..n])];
        for value in &values[n..] {
            results.push(results.last().unwrap() * (1.0 - factor) + value * factor);
        }
        results
    };
    let changes: Vec<f64> = closes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let gains: Vec<f64> = changes.iter().map(|change| change.max(0.0)).collect();
    let losses: Vec<f64> = changes.iter().map(|change| (-change).max(0.0)).collect();
    let wilder = |values: &[f64], n: usize| *smooth(values, n, 1.0 / n as f64).last().unwrap();
    let strength = wilder(&gains, 14) / wilder(&losses, 14);
    let ranges: Vec<f64> = rows
        .windows(2)
        .map(|pair| {
            let [close, high, low] = [&pair[0]["close"], &pair[1]["high"], &pair[1]["low"]].map(number);
            high.max(close) - low.min(close)
        })
        .collect();
    let (fast, slow) = (smooth(&closes, 12, 2.0 / 13.0), smooth(&closes, 26, 2.0 / 27.0));
    let lines: Vec<f64> = fast[14..].iter().zip(&slow).map(|(fast, slow)| fast - slow).collect();
    let signal = *smooth(&lines, 9, 0.2).last().unwrap();
    let window = &closes[closes.len() - 20..];
    let variance = average(&window.iter().map(|close| (close - average(window)).powi(2)).collect::<Vec<_>>());
    let sma = average(window);
    let cases = [
        ("rsi", vec![("value", 100.0 - 100.0 / (1.0 + strength))]),
        ("atr", vec![("value", wilder(&ranges, 14))]),
        ("sma", vec![("value", sma)]),
        ("ema", vec![("value", *smooth(&closes, 20, 2.0 / 21.0).last().unwrap())]),
        (
            "macd",
            vec![("value", *lines.last().unwrap()), ("signal", signal), ("histogram", lines.last().unwrap() - signal)],
        ),
        (
            "bollinger",
            vec![("value", sma), ("lower", sma - 2.0 * variance.sqrt()), ("upper", sma + 2.0 * variance.sqrt())],
        ),
    ];
    for (indicator, expected) in cases {
        let data = harness.data("get_indicator", with(json!({"indicator": indicator}))).await;
        for (field, value) in expected {
            let answer = number(&data[field]);
            assert!((answer - value).abs() < 1e-6, "{indicator} {field}: {answer}, expected {value}");
        }
        assert_eq!((&data["pool"], &data["close"]), (&history["pool"], &rows.last().unwrap()["close"]));
    }
}

/// Depth equals the contract's own quote up to the price 2 % lower, whose output has no fee in it. Volumes equal the sums
/// of the raw logs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_have_the_depth_of_the_quoter_and_the_volume_of_the_logs() {
    let harness = harness(None);
    let params = json!({"token": "WETH", "quote": "USDC", "chain": "ethereum", "volume_hours": 1});
    let data = harness.data("list_pools", params).await;
    let rows = data["pools"].as_array().unwrap();
    assert_eq!(data["volume_complete"], true);
    let (weth, usdc) = (harness.token("WETH"), harness.token("USDC"));
    let quoter = harness.ethereum().contract(KnownContract::QuoterV2).unwrap();
    let provider = harness.ethereum().client.provider();
    let head = data["block_number"].as_u64().unwrap();
    let now = provider.get_block_by_number(head.into()).await.unwrap().unwrap().header.timestamp;
    let mut previous = f64::INFINITY;
    for row in rows {
        let pool: Address = row["pool"].as_str().unwrap().parse().unwrap();
        let is_pair = row["version"] == "V2";
        let swaps = raw_swaps(&harness, pool, is_pair).await;
        let recent: Vec<&RawSwap> = swaps.iter().filter(|swap| swap.0 >= now - 3_600).collect();
        let sum = |of: fn(&RawSwap) -> U256| recent.iter().fold(U256::ZERO, |sum, swap| sum + of(swap));
        assert_eq!(row["volume"], amount(sum(|swap| swap.2), 18), "{row:#?}");
        assert_eq!(row["quote_volume"], amount(sum(|swap| swap.3), 6));
        assert_eq!(row["swap_count"], recent.len());
        let depth: f64 = row["depth_usd"].as_str().unwrap().parse().unwrap();
        assert!(depth > 0.0 && depth <= previous, "the deepest pool is first");
        previous = depth;
        if is_pair {
            continue;
        }
        let root = harness.ask(pool, UniswapV3Pool::slot0Call {}).await.sqrtPriceX96;
        // √0.98 · 10^18; the price of WETH is 2 % lower either at a lower root, or at one that is higher by its inverse.
        let (factor, one) = (U256::from(989_949_493_661_166_534_u64), U256::from(10).pow(U256::from(18)));
        let limit = match weth < usdc {
            true => U256::from(root) * factor / one,
            false => U256::from(root) * one / factor,
        };
        let quote = harness
            .ask(
                quoter,
                QuoterV2::quoteExactInputSingleCall {
                    params: QuoterV2::QuoteExactInputSingleParams {
                        tokenIn: weth,
                        tokenOut: usdc,
                        amountIn: U256::from(10).pow(U256::from(28)),
                        fee: U24::from(row["fee_tier"].as_u64().unwrap()),
                        sqrtPriceLimitX96: U160::from(limit),
                    },
                },
            )
            .await;
        let answer = bardo_base::units::TokenAmount::parse(row["sell_depth"].as_str().unwrap(), 6).unwrap().raw();
        // The contract rounds each step down, as we do, but takes more steps: one for each word of its bitmap.
        assert!(answer.abs_diff(quote.amountOut) <= U256::from(40), "{answer} {}", quote.amountOut);
    }
    assert!(rows.len() >= 3, "{rows:#?}");

    // One pool by its address alone, and an address without a pool.
    let one = rows[0]["pool"].as_str().unwrap();
    let alone = harness.data("list_pools", json!({"pool": one, "chain": "ethereum", "volume_hours": 1})).await;
    assert_eq!((&alone["pool_count"], &alone["pools"][0]["price"]), (&json!(1), &rows[0]["price"]));
    let token = json!({"pool": weth.to_string(), "chain": "ethereum"});
    assert_eq!(harness.code("list_pools", token).await, (CallStatus::Error, ErrorCode::PoolNotFound));
}

/// Figures recomputed in floating point from the holdings that the answer lists and the candles of `get_price_history`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn risk_figures_follow_from_the_holdings_and_the_candles() {
    let harness = harness(Some(0));
    let lookback = 90;
    let params = json!({"chain": "ethereum", "interval": "1m", "lookback": lookback});
    let data = harness.data("get_risk_metrics", params).await;
    let number = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    let mut values = vec![0.0; lookback];
    let mut shares = Vec::new();
    let mut risky = 0;
    for holding in data["holdings"].as_array().unwrap() {
        let worth = number(&holding["value_usd"]);
        shares.push(worth);
        if ["USDC", "USDT", "DAI"].contains(&holding["token"].as_str().unwrap()) {
            values.iter_mut().for_each(|value| *value += worth);
            continue;
        }
        risky += 1;
        let params = json!({"token": holding["token"], "chain": "ethereum", "interval": "1m", "lookback": lookback});
        let history = harness.data("get_price_history", params).await;
        let closes: Vec<f64> =
            history["candles"].as_array().unwrap().iter().map(|candle| number(&candle["close"])).collect();
        values.iter_mut().zip(&closes).for_each(|(value, close)| *value += worth * close / closes[lookback - 1]);
    }
    assert!(risky >= 1 && shares.len() > risky, "{data:#}");
    let returns: Vec<f64> = values.windows(2).map(|pair| pair[1] / pair[0] - 1.0).collect();
    let count = returns.len() as f64;
    let mean = returns.iter().sum::<f64>() / count;
    let deviation = (returns.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
    let downside = (returns.iter().map(|one| one.min(0.0).powi(2)).sum::<f64>() / count).sqrt();
    let per_year = (365.0 * 24.0 * 60.0_f64).sqrt();
    let mut sorted = returns.clone();
    sorted.sort_by(f64::total_cmp);
    // 89 returns: the fifth worst, since a twentieth of them is 4.45.
    let at_risk = -sorted[4];
    let mut high = 0.0_f64;
    let fall = values.iter().fold(0.0_f64, |fall, value| {
        high = high.max(*value);
        fall.max(1.0 - value / high)
    });
    let total: f64 = shares.iter().sum();
    for (field, expected) in [
        ("var_95", at_risk),
        ("var_95_usd", at_risk * total),
        ("volatility", deviation * per_year),
        ("sharpe", mean / deviation * per_year),
        ("sortino", mean / downside * per_year),
        ("max_drawdown", fall),
        ("concentration", shares.iter().map(|share| (share / total).powi(2)).sum()),
        ("value_usd", total),
    ] {
        let answer = number(&data[field]);
        assert!((answer - expected).abs() <= 1e-6 * expected.abs().max(1e-3), "{field}: {answer}, expected {expected}");
    }
    assert_eq!(data["sample_count"], lookback - 1);
    assert_eq!(data["window_end"].as_u64().unwrap() - data["window_start"].as_u64().unwrap(), 60 * lookback as u64);

    let with = |more: Value| {
        let mut params = json!({"chain": "ethereum"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let nobody = with(json!({"account": Address::repeat_byte(0x41).to_string()}));
    assert_eq!(harness.code("get_risk_metrics", nobody).await, (CallStatus::Error, ErrorCode::InsufficientBalance));
    let few = with(json!({"lookback": 20}));
    assert_eq!(harness.code("get_risk_metrics", few).await, (CallStatus::Error, ErrorCode::ValidationFailed));
    let error = harness.call("get_risk_metrics", with(json!({"interval": "1h"}))).await.error.unwrap();
    assert!((1..=3).contains(&error.details()["available"].as_u64().unwrap()), "{error:?}");
}
