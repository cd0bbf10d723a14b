//! Runs `universal_router.json`: routes to calldata, and calldata back to commands.

use alloy::primitives::{Address, Bytes, U256, hex};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use bardo::base::units::BasisPoints;
use bardo::chain::permit2::{Permit2Domain, Permit2Message, PermitDetails, PermitSingle};
use bardo::uniswap::address::{V2_PAIR_INIT_CODE_HASH, V3_POOL_INIT_CODE_HASH, v2_pair, v3_pool};
use bardo::uniswap::discovery::keys_of;
use bardo::uniswap::pool::{FixedAmount, ProtocolVersion as PoolVersion};
use bardo::uniswap::pool_id::PoolId;
use bardo::uniswap::ratio::Ratio;
use bardo::uniswap::router::{
    FeePortion, OutputRecipient, RouterCommand, RouterExecution, RouterVersion, SwapAmounts, SwapCommand, SwapPath,
    SwapRequest, V4Path, plan,
};
use bardo::uniswap::routing::{Hop, Route, RouteLeg};
use bardo::uniswap::v4::key_hash;
use serde_json::{Value, json};

use super::{each, list, parse, text, u256};

/// Mainnet addresses, for the file's trades.
const PERMIT2: &str = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const V2_FACTORY: &str = "0x5C69bEe701ef814a2B6a3EDD4B1652CB9cc5aA6f";
const V3_FACTORY: &str = "0x1F98431c8aD98523631AE4a59f267346ea31F984";
const WETH: &str = "0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2";

/// Runs every top-level array of the file; an unknown one fails.
pub fn run(file: &Value) -> usize {
    for (key, value) in file.as_object().unwrap() {
        assert!(!value.is_array() || key == "vectors", "no code runs `{key}`");
    }
    let key: PrivateKeySigner = parse(&file["permitSignerPrivateKey"]);
    each(list(file, "vectors"), |case| vector(case, &key));
    list(file, "vectors").len()
}

fn vector(case: &Value, key: &PrivateKeySigner) {
    let id = text(&case["id"]);
    let version = match text(&case["urVersion"]) {
        "1.2" | "2.0" => RouterVersion::V2_0,
        "2.1" | "2.1.0" => RouterVersion::V2_1_0,
        "2.1.1" | "2.1.2" | "2.2" | "2.2.0" => RouterVersion::V2_1_1,
        other => panic!("{id}: no code runs router {other}"),
    };
    let calldata: Bytes = parse(&case["calldata"]);
    let decoded = RouterExecution::decode(&calldata, version);
    let execution = decoded.unwrap_or_else(|error| panic!("{id}: {error}"));
    envelope(case, &execution, version);
    assert_eq!(parsed(&execution, version), case["parsedCommands"], "{id}");

    let route = route(case);
    let native = |side: &str| case[side]["symbol"].is_null() || case[side]["isNative"].as_bool().unwrap_or(false);
    let trade = plan(&SwapRequest {
        route: &route,
        native_in: native("tokenIn"),
        native_out: native("tokenOut"),
        slippage: BasisPoints::new(u32::try_from(case["slippageBps"].as_u64().unwrap()).unwrap()).unwrap(),
        recipient: match case["recipient"].as_str() {
            None => OutputRecipient::Caller,
            Some(account) => OutputRecipient::Account(account.parse().unwrap()),
        },
        permit: permit(case, key),
        // The file gives the share in millionths.
        portion: (!case["fee"].is_null()).then(|| FeePortion {
            recipient: parse(&case["fee"]["recipient"]),
            share: BasisPoints::new(parse::<u32>(&case["fee"]["bps"]) / 100).unwrap(),
        }),
        one_bound: false,
        deadline: case["deadline"].as_str().map(|deadline| deadline.parse().unwrap()),
    })
    .unwrap_or_else(|error| panic!("{id}: {error}"));
    let mut made = trade.execution.clone();
    if case["note"].as_str().is_some_and(|note| note.contains("compare the commands as a set")) {
        let mut expected = execution;
        let key = |command: &RouterCommand| (command.code(), command.input(version));
        made.commands.sort_by_key(key);
        expected.commands.sort_by_key(key);
        assert_eq!(made, expected, "{id}");
    } else {
        assert_eq!(made.encode(version), calldata, "{id}: {made:#?}");
    }
    assert_eq!(trade.value, u256(&case["value"]), "{id}");
    assert_eq!(trade.amount_in_max, u256(&case["maximumAmountIn"]), "{id}");
    // A trade over two paths has a minimum per path, each rounded down.
    let short = u256(&case["minimumAmountOut"]) - trade.amount_out_min;
    assert!(short < U256::from(list(case, "routes").len()), "{id}: {short} short of the least");
}

fn envelope(case: &Value, execution: &RouterExecution, version: RouterVersion) {
    let decoded = &case["decoded"];
    let codes: Vec<u8> = execution.commands.iter().map(RouterCommand::code).collect();
    assert_eq!(hex::encode_prefixed(codes), text(&decoded["commands"]));
    let inputs: Vec<String> = execution.commands.iter().map(|c| c.input(version).to_string()).collect();
    assert_eq!(json!(inputs), decoded["inputs"]);
    let deadline = decoded["deadline"].as_str().map(|deadline| deadline.parse::<U256>().unwrap());
    assert_eq!(execution.deadline, deadline);
    assert_eq!(execution.encode(version)[..4], parse::<Bytes>(&decoded["selector"])[..]);
}

fn permit(case: &Value, key: &PrivateKeySigner) -> Option<(PermitSingle, Bytes)> {
    let given = &case["permit"];
    if given.is_null() {
        return None;
    }
    let details = &given["details"];
    let permit = PermitSingle {
        details: PermitDetails {
            token: parse(&details["token"]),
            amount: parse(&details["amount"]),
            expiration: parse(&details["expiration"]),
            nonce: parse(&details["nonce"]),
        },
        spender: parse(&given["spender"]),
        sigDeadline: u256(&given["sigDeadline"]),
    };
    let domain = Permit2Domain { chain_id: 1, permit2: PERMIT2.parse().unwrap() };
    let digest = Permit2Message::Allowance(permit.clone()).digest(&domain);
    let signature = Bytes::from(key.sign_hash_sync(&digest).unwrap().as_bytes().to_vec());
    if let Some(stated) = given["signature"].as_str() {
        assert_eq!(signature.to_string(), stated);
    }
    Some((permit, signature))
}

fn route(case: &Value) -> Route {
    let legs: Vec<RouteLeg> = list(case, "routes").iter().map(leg).collect();
    let (first, last) = (&legs[0].hops[0], legs[0].hops.last().unwrap());
    let (amount_in, amount_out) = (u256(&case["amountIn"]), u256(&case["amountOut"]));
    Route {
        token_in: first.token_in,
        token_out: last.token_out,
        exact: match text(&case["tradeType"]) {
            "EXACT_INPUT" => FixedAmount::In(amount_in),
            "EXACT_OUTPUT" => FixedAmount::Out(amount_out),
            other => panic!("trade type {other}"),
        },
        legs,
        amount_in,
        amount_out,
        gas_units: 0,
        gas_cost: None,
        price_impact: Ratio::whole(U256::ZERO),
        price_impact_with_fee: Ratio::whole(U256::ZERO),
    }
}

fn leg(route: &Value) -> RouteLeg {
    let token = |value: &Value| if text(value) == "ETH" { WETH.parse() } else { text(value).parse() };
    let tokens: Vec<Address> = list(route, "tokenPath").iter().map(|value| token(value).unwrap()).collect();
    let fees: Vec<Option<u32>> = match text(&route["protocol"]) {
        "V2" => vec![None; tokens.len() - 1],
        _ => list(route, "fees").iter().map(|fee| fee.as_u64().map(|fee| u32::try_from(fee).unwrap())).collect(),
    };
    assert_eq!(fees.len() + 1, tokens.len());
    let (amount_in, amount_out) = (u256(&route["amountIn"]), u256(&route["amountOut"]));
    let v4 = text(&route["protocol"]) == "V4";
    // The file's V4 pools trade the native token itself.
    let currency = |token: Address| if token == WETH.parse::<Address>().unwrap() { Address::ZERO } else { token };
    let key = |pair: &[Address], fee: u32| {
        let (a, b) = (currency(pair[0]), currency(pair[1]));
        keys_of(a.min(b), a.max(b)).find(|key| key.fee.to::<u32>() == fee).unwrap()
    };
    let hops = tokens.windows(2).zip(fees).map(|(pair, fee)| Hop {
        key: fee.filter(|_| v4).map(|fee| key(pair, fee)),
        pool: match fee {
            Some(fee) if v4 => PoolId::Keyed(key_hash(&key(pair, fee))),
            None => v2_pair(V2_FACTORY.parse().unwrap(), pair[0], pair[1], V2_PAIR_INIT_CODE_HASH).into(),
            Some(fee) => v3_pool(V3_FACTORY.parse().unwrap(), pair[0], pair[1], fee, V3_POOL_INIT_CODE_HASH).into(),
        },
        version: match fee {
            Some(_) if v4 => PoolVersion::V4,
            Some(_) => PoolVersion::V3,
            None => PoolVersion::V2,
        },
        fee: fee.unwrap_or(3_000),
        token_in: pair[0],
        token_out: pair[1],
        amount_in,
        amount_out,
        ticks_crossed: 0,
    });
    RouteLeg {
        share_bps: 0,
        hops: hops.collect(),
        amount_in,
        amount_out,
        gas_units: 0,
        mid_price: Ratio::whole(U256::from(1)),
    }
}

/// The commands in the form of the SDK's parser.
fn parsed(execution: &RouterExecution, version: RouterVersion) -> Value {
    execution.commands.iter().map(|command| shown(command, version)).collect()
}

fn shown(command: &RouterCommand, version: RouterVersion) -> Value {
    let number = |value: &U256| json!(value.to_string());
    let account = |value: &Address| json!(value.to_checksum(None));
    let (name, params) = match command {
        RouterCommand::Swap(swap) => shown_swap(swap, version),
        RouterCommand::Permit2Permit { permit, signature } => (
            "PERMIT2_PERMIT",
            vec![
                (
                    "permit",
                    json!({
                        "details": {
                            "token": account(&permit.details.token),
                            "amount": permit.details.amount.to_string(),
                            "expiration": permit.details.expiration.to::<u64>(),
                            "nonce": permit.details.nonce.to::<u64>(),
                        },
                        "spender": account(&permit.spender),
                        "sigDeadline": permit.sigDeadline.to_string(),
                    }),
                ),
                ("signature", json!(signature.to_string())),
            ],
        ),
        RouterCommand::WrapEth { recipient, amount } => {
            ("WRAP_ETH", vec![("recipient", account(recipient)), ("amount", number(amount))])
        }
        RouterCommand::UnwrapWeth { recipient, amount_min } => {
            ("UNWRAP_WETH", vec![("recipient", account(recipient)), ("amountMin", number(amount_min))])
        }
        RouterCommand::Sweep { token, recipient, amount_min } => (
            "SWEEP",
            vec![("token", account(token)), ("recipient", account(recipient)), ("amountMin", number(amount_min))],
        ),
        RouterCommand::PayPortion { token, recipient, bips } => {
            ("PAY_PORTION", vec![("token", account(token)), ("recipient", account(recipient)), ("bips", number(bips))])
        }
    };
    let params: Vec<Value> = params.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({"name": name, "type": command.code(), "params": params})
}

fn shown_swap(swap: &SwapCommand, version: RouterVersion) -> (&'static str, Vec<(&'static str, Value)>) {
    if let SwapPath::V4(path) = &swap.path {
        return ("V4_SWAP", shown_v4(swap, path));
    }
    let v3 = matches!(swap.path, SwapPath::V3(_));
    let (name, amounts) = match swap.exact {
        SwapAmounts::In { amount, out_min } => (
            if v3 { "V3_SWAP_EXACT_IN" } else { "V2_SWAP_EXACT_IN" },
            [("amountIn", amount), ("amountOutMin", out_min)],
        ),
        SwapAmounts::Out { amount, in_max } => (
            if v3 { "V3_SWAP_EXACT_OUT" } else { "V2_SWAP_EXACT_OUT" },
            [("amountOut", amount), ("amountInMax", in_max)],
        ),
    };
    let path: Vec<Value> = match &swap.path {
        SwapPath::V2(tokens) => tokens.iter().map(|token| json!(token.to_checksum(None))).collect(),
        SwapPath::V3(path) => {
            let before = std::iter::once(path.first()).chain(path.steps().iter().map(|(_, token)| *token));
            let hops = before.zip(path.steps()).map(|(token_in, (fee, token_out))| {
                json!({"tokenIn": token_in.to_checksum(None), "tokenOut": token_out.to_checksum(None), "fee": fee})
            });
            hops.collect()
        }
        SwapPath::V4(_) => unreachable!("it has a form of its own"),
    };
    let mut params = vec![("recipient", json!(swap.recipient.to_checksum(None)))];
    params.extend(amounts.map(|(name, amount)| (name, json!(amount.to_string()))));
    params.push(("path", json!(path)));
    params.push(("payerIsUser", json!(swap.payer_is_user)));
    if version == RouterVersion::V2_1_1 {
        params.push(("minHopPriceX36", json!(swap.min_hop_prices.iter().map(U256::to_string).collect::<Vec<_>>())));
    }
    (name, params)
}

/// Actions of a swap of an exact input.
fn shown_v4(swap: &SwapCommand, path: &V4Path) -> Vec<(&'static str, Value)> {
    let SwapAmounts::In { amount, out_min } = swap.exact else { panic!("no case buys a fixed amount") };
    let named = |values: &[(&str, Value)]| -> Value {
        values.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    let account = |address: Address| json!(address.to_checksum(None));
    let pools: Vec<Value> = path
        .steps()
        .iter()
        .map(|step| {
            json!({
                "intermediateCurrency": account(step.currency_out), "fee": step.fee.to::<u32>(),
                "tickSpacing": step.tick_spacing.as_i32(), "hooks": account(step.hooks), "hookData": "0x",
            })
        })
        .collect();
    let trade = json!({
        "currencyIn": account(path.first()), "path": pools,
        "amountIn": amount.to_string(), "amountOutMinimum": out_min.to_string(),
    });
    let settled =
        [("currency", account(path.first())), ("amount", json!("0")), ("payerIsUser", json!(swap.payer_is_user))];
    let taken = [("currency", account(path.last())), ("recipient", account(swap.recipient)), ("amount", json!("0"))];
    vec![("SWAP_EXACT_IN", named(&[("swap", trade)])), ("SETTLE", named(&settled)), ("TAKE", named(&taken))]
}
