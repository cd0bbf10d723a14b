//! Calls through V4 pools and of their position manager, compared byte by byte with those of Uniswap's v4-sdk.

use std::io::Write as _;
use std::process::{Command, Stdio};

use alloy::primitives::{Address, U256, address};
use bardo::abi::uniswap_v4::PoolKey;
use bardo::uniswap::discovery::FEE_TIERS;
use bardo::uniswap::router::{RouterCommand, RouterVersion, SwapAmounts, SwapCommand, SwapPath, V4Path, V4Step};
use bardo::uniswap::v3::position::TickRange;
use bardo::uniswap::v4::manager::{KeyedChange, KeyedDeposit, KeyedPlan};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::clients::process::tool;

/// Hook whose address has the flag of `afterSwap` alone.
const HOOK: Address = address!("0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a0040");

#[test]
#[ignore = "needs Node.js and the sidecar's packages: run by .ci/run"]
fn v4_swaps_are_encoded_like_those_of_the_v4_sdk() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let (mut asked, mut ours) = (Vec::new(), Vec::new());
    for at in 0..300 {
        let hops = random.random_range(1..=3);
        let mut tokens: Vec<Address> = (0..=hops).map(|_| Address::from(random.random::<[u8; 20]>())).collect();
        if random.random() {
            let native = random.random_range(0..tokens.len());
            tokens[native] = Address::ZERO;
        }
        let pools: Vec<(u32, i32)> = (0..hops).map(|_| FEE_TIERS[random.random_range(0..FEE_TIERS.len())]).collect();
        let (amount_in, amount_out): (u128, u128) = (random.random::<u128>() | 1, random.random::<u128>() | 1);
        let (exact_output, payer_is_user): (bool, bool) = (random.random(), random.random());
        let recipient = Address::from(random.random::<[u8; 20]>());
        // The SDK has left out 2.1.0, whose fields are those of 2.1.1.
        let (version, name) =
            [(RouterVersion::V2_0, "2.0"), (RouterVersion::V2_1_0, "2.1.1"), (RouterVersion::V2_1_1, "2.1.1")][at % 3];
        let steps = pools.iter().zip(&tokens[1..]).map(|((fee, spacing), token)| V4Step {
            fee: fee.to_string().parse().unwrap(),
            tick_spacing: spacing.to_string().parse().unwrap(),
            hooks: Address::ZERO,
            currency_out: *token,
        });
        let (amount_in_raw, amount_out_raw) = (U256::from(amount_in), U256::from(amount_out));
        let swap = SwapCommand {
            path: SwapPath::V4(V4Path::new(tokens[0], steps.collect()).unwrap()),
            exact: if exact_output {
                SwapAmounts::Out { amount: amount_out_raw, in_max: amount_in_raw }
            } else {
                SwapAmounts::In { amount: amount_in_raw, out_min: amount_out_raw }
            },
            recipient,
            payer_is_user,
            min_hop_prices: Vec::new(),
        };
        ours.push(RouterCommand::Swap(swap).input(version).to_string());
        asked.push(json!({
            "version": name,
            "tokens": tokens,
            "pools": pools.iter().map(|(fee, spacing)| json!({"fee": fee, "spacing": spacing})).collect::<Vec<_>>(),
            "exactOutput": exact_output,
            "amountIn": amount_in.to_string(),
            "amountOut": amount_out.to_string(),
            "payerIsUser": payer_is_user,
            "recipient": recipient,
            // All of it (zero), or exactly what was to be bought.
            "taken": if exact_output { amount_out.to_string() } else { "0".to_owned() },
        }));
    }
    compare(&asked, &ours);
}

#[test]
#[ignore = "needs Node.js and the sidecar's packages: run by .ci/run"]
fn changes_of_v4_positions_are_encoded_like_those_of_the_v4_sdk() {
    let mut random = ChaCha8Rng::seed_from_u64(26);
    let (mut asked, mut ours) = (Vec::new(), Vec::new());
    for at in 0..300 {
        let mut currencies = [(); 2].map(|()| Address::from(random.random::<[u8; 20]>()));
        currencies.sort_unstable();
        if random.random() {
            currencies[0] = Address::ZERO;
        }
        let (fee, spacing) = FEE_TIERS[random.random_range(0..FEE_TIERS.len())];
        // The SDK lets a pool have a hook only if it knows all of its permissions: this one counts swaps.
        let hooks = if random.random() { Address::ZERO } else { HOOK };
        let (lower, upper) = (-spacing * random.random_range(1..400), spacing * random.random_range(1..400));
        let (liquidity, amounts): (u128, [u128; 2]) = (random.random::<u128>() | 1, random.random());
        let account = Address::from(random.random::<[u8; 20]>());
        let (token_id, deadline) = (U256::from(random.random::<u64>()), U256::from(random.random::<u32>()));
        let deposit = KeyedDeposit { liquidity, most: amounts };
        let key = PoolKey {
            currency0: currencies[0],
            currency1: currencies[1],
            fee: fee.to_string().parse().unwrap(),
            tickSpacing: spacing.to_string().parse().unwrap(),
            hooks,
        };
        let (name, change) = [
            ("collect", KeyedChange::Collect { token_id }),
            ("remove", KeyedChange::Remove { token_id, liquidity, least: amounts }),
            ("close", KeyedChange::Close { token_id, least: amounts }),
            ("mint", KeyedChange::Mint { key, range: TickRange::new(lower, upper).unwrap(), deposit }),
            ("increase", KeyedChange::Increase { token_id, deposit }),
            ("compound", KeyedChange::Compound { token_id, deposit }),
        ][at % 6];
        ours.push(KeyedPlan { currencies, change, deadline }.calldata(account).to_string());
        asked.push(json!({
            "change": name, "tokens": currencies, "fee": fee, "spacing": spacing, "hooks": hooks, "lower": lower,
            "upper": upper, "tokenId": token_id.to_string(), "liquidity": liquidity.to_string(),
            "amounts": amounts.map(|amount| amount.to_string()), "account": account,
            "deadline": deadline.to_string(),
        }));
    }
    compare(&asked, &ours);
}

/// Compares encodings with those of the SDK.
fn compare(asked: &[Value], ours: &[String]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/v4_sdk.cjs");
    let mut node = Command::new("node")
        .arg(script)
        .env("BARDO_SIDECAR", tool("BARDO_SIDECAR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node runs");
    node.stdin.take().unwrap().write_all(Value::from(asked).to_string().as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    let theirs: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(theirs.len(), ours.len());
    for ((one, theirs), ours) in asked.iter().zip(&theirs).zip(ours) {
        assert_eq!(ours, theirs, "{one}");
    }
}
