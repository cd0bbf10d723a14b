//! `bardo call uniswap_get_quote` with a running devnet, compared with the protocol's own lens contracts, called with
//! `cast` at the same block, path by path.

use std::process::Command;

use alloy::primitives::{Address, B256};
use bardo::uniswap::discovery::keys_of;
use bardo::uniswap::v4::key_hash;
use serde_json::{Value, json};

use crate::clients::cast::{Chain, number};
use bardo_testkit::devnet::Devnet;

fn quote(devnet: &Devnet, home: &std::path::Path, params: &Value) -> Value {
    let rpc = format!("ethereum={}", devnet.chain("ethereum")["rpc"].as_str().unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_bardo"))
        .args(["call", "uniswap_get_quote", &params.to_string(), "--rpc", &rpc])
        .env("BARDO_HOME", home)
        .output()
        .expect("bardo runs");
    let envelope: Value = serde_json::from_slice(&output.stdout).expect("an envelope");
    assert_eq!(envelope["status"], "success", "{envelope}");
    envelope
}

/// Output for `amount` through pools of one version, according to that version's lens at a block.
fn lens(chain: &Chain<'_>, hops: &[&Value], amount: u128, block: &str) -> u128 {
    let token = |hop: &Value, side: &str| chain.token(hop[side].as_str().unwrap()).to_owned();
    let tokens: Vec<String> =
        std::iter::once(token(hops[0], "token_in")).chain(hops.iter().map(|hop| token(hop, "token_out"))).collect();
    if hops[0]["version"] == "V4" {
        let through = |amount: u128, (at, hop): (usize, &&Value)| {
            v4_lens(chain, hop, [&tokens[at], &tokens[at + 1]], amount, block)
        };
        return hops.iter().enumerate().fold(amount, through);
    }
    let amount = amount.to_string();
    if hops[0]["version"] == "V2" {
        let path = format!("[{}]", tokens.join(","));
        let signature = "getAmountsOut(uint256,address[])(uint256[])";
        let said = chain.call_at(chain.contract("v2Router"), signature, &[&amount, &path], block);
        // One line, such as `[1000 [1e3], 3401209331 [3.401e9]]`.
        let last = said[0].rsplit(", ").next().unwrap().trim_start_matches('[');
        return number(last.trim_end_matches(']'));
    }
    let mut path = tokens[0].clone();
    for (hop, token) in hops.iter().zip(&tokens[1..]) {
        path.push_str(&format!("{:06x}{}", hop["fee_tier"].as_u64().unwrap(), &token[2..]));
    }
    let signature = "quoteExactInput(bytes,uint256)(uint256,uint160[],uint32[],uint256)";
    number(&chain.call_at(chain.contract("quoterV2"), signature, &[&path, &amount], block)[0])
}

/// Output of one V4 pool according to V4's quoter; the pool's key is the usual one with the named hash.
fn v4_lens(chain: &Chain<'_>, hop: &Value, tokens: [&str; 2], amount: u128, block: &str) -> u128 {
    let id: B256 = hop["pool"].as_str().unwrap().parse().unwrap();
    let tokens: [Address; 2] = tokens.map(|token| token.parse().unwrap());
    let wrapped: Address = chain.token("WETH").parse().unwrap();
    let named = |[paid, bought]: [Address; 2]| {
        let key = keys_of(paid.min(bought), paid.max(bought)).find(|key| key_hash(key) == id)?;
        Some((key, paid < bought))
    };
    let native = tokens.map(|token| if token == wrapped { Address::ZERO } else { token });
    let (key, forward) = named(tokens).or_else(|| named(native)).expect("a usual key");
    let key = format!("({},{},{},{},{})", key.currency0, key.currency1, key.fee, key.tickSpacing, key.hooks);
    let asked = format!("({key},{forward},{amount},0x)");
    let signature =
        "quoteExactInputSingle(((address,address,uint24,int24,address),bool,uint128,bytes))(uint256,uint256)";
    number(&chain.call_at(chain.contract("v4Quoter"), signature, &[&asked], block)[0])
}

#[test]
#[ignore = "needs cast: run by .ci/run"]
fn each_path_of_a_quote_agrees_with_the_lenses_through_cast() {
    let devnet = Devnet::start("1s", 7);
    let chain = Chain(devnet.chain("ethereum"));
    let home = tempfile::tempdir().unwrap();
    let (mut paths, mut splits, mut versions) = (0, 0, std::collections::BTreeSet::new());
    for (token_in, token_out, amount) in [
        ("WETH", "USDC", "1.5"),
        ("WETH", "USDC", "400"),
        ("USDC", "WETH", "250000"),
        ("UNI", "USDT", "2000"),
        ("LINK", "DAI", "30"),
        ("WBTC", "DAI", "0.5"),
        ("UNI", "LINK", "20000"),
    ] {
        let params = json!({"token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum",
                            "prefer_uniswapx": false});
        let envelope = quote(&devnet, home.path(), &params);
        let (hints, route) = (&envelope["decision_hints"], envelope["data"]["route"].as_array().unwrap());
        let block = hints["block_number"].to_string();
        let raw = |value: &Value| value.as_str().unwrap().parse::<u128>().unwrap();
        let mut total = 0;
        for (at, leg) in hints["legs"].as_array().unwrap().iter().enumerate() {
            let hops: Vec<&Value> = route.iter().filter(|hop| hop["leg"] == at + 1).collect();
            let mut given = raw(&leg["amount_in_raw"]);
            for stretch in hops.chunk_by(|one, next| one["version"] == next["version"]) {
                given = lens(&chain, stretch, given, &block);
                versions.insert(stretch[0]["version"].to_string());
            }
            assert_eq!(given, raw(&leg["amount_out_raw"]), "leg {at} of {params}: {envelope}");
            total += given;
            paths += 1;
        }
        splits += usize::from(hints["legs"].as_array().unwrap().len() > 1);
        assert_eq!(total, raw(&hints["amount_out_raw"]), "{params}");
    }
    assert!(paths > 7 && splits > 0 && versions.len() >= 2, "{paths} paths, {splits} splits, {versions:?}");
}
