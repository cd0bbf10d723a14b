//! Runs every case of every vector file in the folder of `BARDO_VECTORS` (default: `tests/vectors`). A file without a
//! runner fails, and in the default folder so does a runner without its file. All failing cases are reported, not only
//! the first.

#[path = "vector_runners/almanak_policy.rs"]
mod almanak_policy;
#[path = "vector_runners/erc7683.rs"]
mod erc7683;
#[path = "vector_runners/erc8004.rs"]
mod erc8004;
#[path = "vector_runners/permit2.rs"]
mod permit2;
#[path = "vector_runners/uniswapx.rs"]
mod uniswapx;
#[path = "vector_runners/universal_router.rs"]
mod universal_router;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::str::FromStr;

use alloy::dyn_abi::TypedData;
use alloy::primitives::{Address, U256, address};
use bardo::chain::permit2::{Permit2Domain, Permit2Message};
use bardo::uniswap::address::{V2_PAIR_INIT_CODE_HASH, V3_POOL_INIT_CODE_HASH, v2_pair, v3_pool};
use bardo::uniswap::pool::{FixedAmount, Pool, maximum_in, minimum_out};
use bardo::uniswap::ratio::Ratio;
use bardo::uniswap::routing::price_impact_with_fee;
use bardo::uniswap::v2::V2Pool;
use bardo::uniswap::v3::swap_step::compute_swap_step;
use bardo::uniswap::v3::tick_math::{sqrt_price_at_tick, tick_at_sqrt_price};
use bardo::uniswap::v3::{ALL_TICKS, Tick, V3Pool, V3State};
use num_bigint::{BigInt, BigUint};
use serde_json::Value;

/// Runs every case of one parsed file; returns their number.
type Runner = fn(&Value) -> usize;

/// Vector files with their runners.
const RUNNERS: &[(&str, Runner)] = &[
    ("almanak_policy.json", almanak_policy::run),
    ("erc7683.json", erc7683::run),
    ("erc8004.json", erc8004::run),
    ("permit2.json", permit2::run),
    ("uniswapx.json", uniswapx::run),
    ("universal_router.json", universal_router::run),
    ("v3_math.json", v3_math),
];

#[test]
fn every_case_of_every_vector_file_holds() {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let named = std::env::var_os("BARDO_VECTORS").map(PathBuf::from);
    // A configured folder may contain some of the files only.
    let (folder, all) = named.map_or((own, true), |folder| (folder, false));
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        files.insert(path.file_name().unwrap().to_string_lossy().into_owned(), path);
    }
    assert!(!files.is_empty(), "no vectors in {}", folder.display());
    for (name, run) in RUNNERS {
        let Some(path) = files.remove(*name) else {
            assert!(!all, "{name} is missing in {}", folder.display());
            println!("{name}: not in {}", folder.display());
            continue;
        };
        let value: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let mut cases = 0;
        check(name, || cases = run(&value));
        check(name, || assert!(cases > 0, "no case was run"));
        println!("{name}: {cases} cases");
    }
    assert!(files.is_empty(), "no runner for {:?} in {}", files.keys(), folder.display());
    let failed = FAILED.take();
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn a_failing_case_hides_no_other() {
    each(&[Value::from(1), Value::from(2), Value::from(3)], |case| assert_eq!(case.as_u64(), Some(2)));
    let failed = FAILED.take();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed[0].starts_with("1: ") && failed[1].starts_with("3: "), "{failed:?}");
}

thread_local! {
    /// Failed cases so far, each with its name and message.
    static FAILED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Runs one case and records its failure, so that later cases run as well.
fn check(name: &str, case: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(case)) {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked");
        FAILED.with_borrow_mut(|failed| failed.push(format!("{name}: {message}")));
    }
}

/// Runs every case of a list, named by its `id` or its own text.
fn each(cases: &[Value], mut run: impl FnMut(&Value)) {
    for case in cases {
        let name = case["id"].as_str().map_or_else(|| case.to_string().chars().take(120).collect(), str::to_owned);
        check(&name, || run(case));
    }
}

/// A permit as typed data in JSON, read back as a signer elsewhere reads it; `None` if it cannot be written so.
fn reparsed(permit: &Permit2Message, domain: &Permit2Domain) -> Option<TypedData> {
    let written = serde_json::to_string(&permit.typed_data(domain)?).unwrap();
    Some(serde_json::from_str(&written).unwrap())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("no array `{key}`"))
}

fn u256(value: &Value) -> U256 {
    text(value).parse().unwrap()
}

fn parse<T: FromStr>(value: &Value) -> T
where
    T::Err: std::fmt::Debug,
{
    text(value).parse().unwrap()
}

fn int(value: &Value) -> i32 {
    i32::try_from(value.as_i64().unwrap()).unwrap()
}

fn ratio(value: &Value) -> Ratio {
    Ratio::new(parse::<BigInt>(&value["numerator"]), parse::<BigUint>(&value["denominator"])).unwrap()
}

fn exact(case: &Value, amount: U256) -> FixedAmount {
    match text(&case["tradeType"]) {
        "EXACT_INPUT" => FixedAmount::In(amount),
        "EXACT_OUTPUT" => FixedAmount::Out(amount),
        other => panic!("trade type {other}"),
    }
}

/// Runs every top-level array of the file; an unknown one fails.
fn v3_math(file: &Value) -> usize {
    let known = ["pools", "vectors", "tickMath", "swapSteps", "v2"];
    for (key, value) in file.as_object().unwrap() {
        assert!(!value.is_array() || known.contains(&key.as_str()), "no code runs `{key}`");
    }
    let pools: BTreeMap<String, Pool> = list(file, "pools").iter().map(v3_pool_of).collect();
    each(list(file, "vectors"), |case| v3_trade(case, &pools));
    each(list(file, "tickMath"), tick_math);
    each(list(file, "swapSteps"), swap_step);
    each(list(file, "v2"), v2_trade);
    known.iter().map(|key| list(file, key).len()).sum()
}

fn v3_pool_of(pool: &Value) -> (String, Pool) {
    let factory = address!("1F98431c8aD98523631AE4a59f267346ea31F984");
    let token0: Address = parse(&pool["token0"]["address"]);
    let token1: Address = parse(&pool["token1"]["address"]);
    let fee = u32::try_from(pool["fee"].as_u64().unwrap()).unwrap();
    let at: Address = parse(&pool["poolAddress"]);
    assert_eq!(v3_pool(factory, token0, token1, fee, V3_POOL_INIT_CODE_HASH), at);
    assert_eq!(v3_pool(factory, token1, token0, fee, V3_POOL_INIT_CODE_HASH), at);
    let ticks = list(pool, "ticks")
        .iter()
        .map(|tick| Tick { index: int(&tick["index"]), liquidity_net: parse(&tick["liquidityNet"]) })
        .collect();
    let state = V3State {
        id: at.into(),
        token0,
        token1,
        fee,
        tick_spacing: int(&pool["tickSpacing"]),
        sqrt_price_x96: u256(&pool["sqrtPriceX96"]),
        liquidity: parse(&pool["liquidity"]),
        tick: int(&pool["tick"]),
        ticks,
        known_ticks: ALL_TICKS,
    };
    (text(&pool["id"]).to_owned(), V3Pool::new(state).unwrap().into())
}

/// Swaps through `path` pool by pool, backwards for an exact output; returns the amounts per hop.
fn through(path: &[Pool], token_in: Address, exact: FixedAmount) -> Result<Vec<(U256, U256)>, String> {
    let mut tokens = vec![token_in];
    for pool in path {
        let (token0, token1) = pool.tokens();
        tokens.push(if *tokens.last().unwrap() == token0 { token1 } else { token0 });
    }
    let mut hops = vec![(U256::ZERO, U256::ZERO); path.len()];
    let mut amount = exact;
    let order: Vec<usize> =
        if matches!(exact, FixedAmount::In(_)) { (0..path.len()).collect() } else { (0..path.len()).rev().collect() };
    for at in order {
        let down = path[at].zero_for_one(tokens[at]).unwrap();
        let quote = path[at].quote(down, amount).map_err(|error| error.to_string())?;
        hops[at] = (quote.amount_in, quote.amount_out);
        amount = match exact {
            FixedAmount::In(_) => FixedAmount::In(quote.amount_out),
            FixedAmount::Out(_) => FixedAmount::Out(quote.amount_in),
        };
    }
    Ok(hops)
}

fn v3_trade(case: &Value, pools: &BTreeMap<String, Pool>) {
    let id = text(&case["id"]);
    let path: Vec<Pool> = list(case, "pools").iter().map(|pool| pools[text(pool)].clone()).collect();
    let token_in: Address = parse(&case["tokenIn"]);
    let exact = exact(case, u256(&case["amount"]));
    let hops = through(&path, token_in, exact);
    if case["expectError"].as_bool().unwrap() {
        let error = hops.expect_err(id);
        assert!(error.contains("too little liquidity"), "{id}: {error}");
        partial_fill(case, &path, token_in, exact);
        return;
    }
    let hops = hops.unwrap_or_else(|error| panic!("{id}: {error}"));
    let expected_hops = list(case, "hops");
    assert_eq!(hops.len(), expected_hops.len(), "{id}");
    let mut token = token_in;
    for ((pool, (amount_in, amount_out)), hop) in path.iter().zip(&hops).zip(expected_hops) {
        assert_eq!(pool.id().contract(), Some(parse(&hop["poolAddress"])), "{id}");
        assert_eq!((*amount_in, *amount_out), (u256(&hop["amountIn"]), u256(&hop["amountOut"])), "{id}");
        let Pool::V3(v3) = pool else { panic!("{id}: not V3") };
        let down = pool.zero_for_one(token).unwrap();
        let hop_exact = if matches!(exact, FixedAmount::In(_)) {
            FixedAmount::In(*amount_in)
        } else {
            FixedAmount::Out(*amount_out)
        };
        let swap = v3.swap(down, hop_exact).unwrap();
        assert_eq!(swap.sqrt_price_after, u256(&hop["sqrtPriceX96After"]), "{id}");
        assert_eq!(swap.tick_after(), Ok(int(&hop["tickAfter"])), "{id}");
        assert_eq!(u64::from(swap.ticks_crossed), hop["initializedTicksCrossed"].as_u64().unwrap(), "{id}");
        assert_eq!(swap.liquidity_after, parse::<u128>(&hop["liquidityAfter"]), "{id}");
        token = if down { pool.tokens().1 } else { pool.tokens().0 };
    }
    assert_eq!(token, parse::<Address>(&case["tokenOut"]), "{id}");
    let (paid, got) = (hops[0].0, hops[hops.len() - 1].1);
    assert_eq!((paid, got), (u256(&case["amountIn"]), u256(&case["amountOut"])), "{id}");
    let mid = mid_price(&path, token_in);
    assert_eq!(mid, ratio(&case["midPrice"]), "{id}");
    assert_eq!(Ratio::of(got, paid).unwrap(), ratio(&case["executionPrice"]), "{id}");
    let impact = price_impact_with_fee(&[(paid, mid)], got).unwrap();
    assert_eq!(impact, ratio(&case["priceImpact"]), "{id}");
    assert_eq!(impact.to_percent(18), text(&case["priceImpact"]["fixed18"]), "{id}");
    for slippage in list(case, "slippage") {
        let bps = u32::try_from(slippage["bps"].as_u64().unwrap()).unwrap();
        let (least, most) = match exact {
            FixedAmount::In(_) => (minimum_out(got, bps).unwrap(), paid),
            FixedAmount::Out(_) => (got, maximum_in(paid, bps).unwrap()),
        };
        assert_eq!(least, u256(&slippage["minimumAmountOut"]), "{id} at {bps}");
        assert_eq!(most, u256(&slippage["maximumAmountIn"]), "{id} at {bps}");
    }
}

/// Result of the pool's own code for an amount it cannot fill, with a limit at the end of the price range.
fn partial_fill(case: &Value, path: &[Pool], token_in: Address, exact: FixedAmount) {
    let [fill] = list(case, "poolBytecodePartialFill") else { panic!("one partial fill was expected") };
    let [Pool::V3(pool)] = path else { panic!("one V3 pool was expected") };
    let down = path[0].zero_for_one(token_in).unwrap();
    let swap = pool.swap_to_limit(down, exact, u256(&fill["sqrtPriceX96After"])).unwrap();
    assert_eq!((swap.amount_in, swap.amount_out), (u256(&fill["amountIn"]), u256(&fill["amountOut"])));
    assert_eq!(swap.tick_after(), Ok(int(&fill["tickAfter"])));
}

fn mid_price(path: &[Pool], token_in: Address) -> Ratio {
    let mut token = token_in;
    let mut price = Ratio::whole(U256::from(1));
    for pool in path {
        let down = pool.zero_for_one(token).unwrap();
        price = price.times(&pool.mid_price(down).unwrap());
        token = if down { pool.tokens().1 } else { pool.tokens().0 };
    }
    price
}

fn tick_math(case: &Value) {
    let price = u256(&case["sqrtRatioX96"]);
    assert_eq!(sqrt_price_at_tick(int(&case["tick"])), Ok(price));
    let at = |price, expected: &Value| match expected {
        Value::Null => assert!(tick_at_sqrt_price(price).is_err(), "{case}"),
        tick => assert_eq!(tick_at_sqrt_price(price), Ok(int(tick)), "{case}"),
    };
    at(price, &case["tickOfRatio"]);
    at(price - U256::from(1), &case["tickOfRatioMinus1"]);
}

fn swap_step(case: &Value) {
    let remaining = text(&case["amountRemaining"]);
    let exact = match remaining.strip_prefix('-') {
        Some(out) => FixedAmount::Out(out.parse().unwrap()),
        None => FixedAmount::In(remaining.parse().unwrap()),
    };
    let step = compute_swap_step(
        u256(&case["sqrtRatioCurrentX96"]),
        u256(&case["sqrtRatioTargetX96"]),
        parse(&case["liquidity"]),
        exact,
        u32::try_from(case["feePips"].as_u64().unwrap()).unwrap(),
    )
    .unwrap();
    assert_eq!(step.sqrt_price_next, u256(&case["sqrtRatioNextX96"]), "{case}");
    assert_eq!(step.amount_in, u256(&case["amountIn"]), "{case}");
    assert_eq!(step.amount_out, u256(&case["amountOut"]), "{case}");
    assert_eq!(step.fee_amount, u256(&case["feeAmount"]), "{case}");
}

fn v2_trade(case: &Value) {
    let factory = address!("5C69bEe701ef814a2B6a3EDD4B1652CB9cc5aA6f");
    let id = text(&case["id"]);
    let path: Vec<Pool> = list(case, "pairs")
        .iter()
        .map(|pair| {
            let (token0, token1) = (parse(&pair["token0"]), parse(&pair["token1"]));
            let at: Address = parse(&pair["pairAddress"]);
            assert_eq!(v2_pair(factory, token1, token0, V2_PAIR_INIT_CODE_HASH), at, "{id}");
            let (reserve0, reserve1) = (parse(&pair["reserve0"]), parse(&pair["reserve1"]));
            V2Pool { address: at, token0, token1, reserve0, reserve1 }.into()
        })
        .collect();
    let token_in: Address = parse(&case["tokenIn"]);
    let (paid, got) = (u256(&case["amountIn"]), u256(&case["amountOut"]));
    let exact = exact(case, if text(&case["tradeType"]) == "EXACT_INPUT" { paid } else { got });
    let hops = through(&path, token_in, exact).unwrap_or_else(|error| panic!("{id}: {error}"));
    assert_eq!((hops[0].0, hops[hops.len() - 1].1), (paid, got), "{id}");
    let impact = price_impact_with_fee(&[(paid, mid_price(&path, token_in))], got).unwrap();
    assert_eq!(impact, ratio(&case["priceImpact"]), "{id}");
    assert_eq!(impact.to_percent(18), text(&case["priceImpact"]["fixed18"]), "{id}");
}
