//! The codec against vectors that viem made from the published ABI (`tests/fixtures/across.json`), and quotes that lie.

use alloy::primitives::{Bytes, Log, LogData};
use alloy::sol_types::SolCall as _;
use serde_json::{Value, json};

use super::call::{DepositCallError, OwnDeposit};
use super::event::{DepositEvent, FillEvent, FillKind, RefundEvent, SlowFillRequest};
use super::quote::{FeeQuote, FeeRequest, QuoteFault, quote_json, read};
use super::*;
use bardo_abi::across::{AcrossRefundLeaf, AcrossSlowFill, AcrossSpokePool};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../../tests/fixtures/across.json")).unwrap()
}

fn address(value: &Value) -> Address {
    value.as_str().unwrap().parse().unwrap()
}

fn bytes(value: &Value) -> Bytes {
    value.as_str().unwrap().parse().unwrap()
}

fn log(value: &Value) -> Log {
    let topics = value["topics"].as_array().unwrap().iter().map(|topic| topic.as_str().unwrap().parse().unwrap());
    let data = LogData::new(topics.collect(), bytes(&value["data"])).unwrap();
    Log { address: Address::repeat_byte(9), data }
}

fn deposit(vectors: &Value) -> OwnDeposit {
    let told = &vectors["deposit"];
    let amount = |name: &str| told[name].as_str().unwrap().parse().unwrap();
    let time = |name: &str| u32::try_from(told[name].as_u64().unwrap()).unwrap();
    OwnDeposit {
        input_token: address(&vectors["input"]),
        output_token: address(&vectors["output"]),
        input_amount: amount("input_amount"),
        output_amount: amount("output_amount"),
        destination_chain_id: told["destination_chain_id"].as_u64().unwrap(),
        quote_timestamp: time("quote_timestamp"),
        fill_deadline: time("fill_deadline"),
    }
}

fn relay(vectors: &Value) -> AcrossRelay {
    relay_of(&deposit(vectors), address(&vectors["account"]), 1, U256::from(4_321))
}

#[test]
fn a_deposit_is_encoded_and_read_as_the_published_abi_says() {
    let vectors = vectors();
    let (account, calldata) = (address(&vectors["account"]), bytes(&vectors["deposit"]["calldata"]));
    assert_eq!(deposit(&vectors).calldata(account), calldata);
    assert_eq!(OwnDeposit::decode(&calldata, account), Ok(deposit(&vectors)));
}

#[test]
fn only_a_deposit_for_oneself_without_conditions_is_read() {
    let vectors = vectors();
    let (account, other) = (address(&vectors["account"]), address(&vectors["other"]));
    let of = |name: &str| OwnDeposit::decode(&bytes(&vectors["foreign"][name]), account);
    assert_eq!(of("depositor"), Err(DepositCallError::Beneficiary(other)));
    assert_eq!(of("recipient"), Err(DepositCallError::Beneficiary(other)));
    assert_eq!(of("exclusive"), Err(DepositCallError::Exclusive(other)));
    assert_eq!(of("exclusivity"), Err(DepositCallError::Exclusive(Address::ZERO)));
    assert_eq!(of("message"), Err(DepositCallError::Message));
    // The pool would choose the output itself.
    assert_eq!(of("output_token"), Err(DepositCallError::Token("output")));
    assert_eq!(of("input_token"), Err(DepositCallError::Token("input")));
    assert_eq!(of("output_amount"), Err(DepositCallError::Amount("output")));
    assert_eq!(of("input_amount"), Err(DepositCallError::Amount("input")));
    assert_eq!(of("destination"), Err(DepositCallError::Destination(U256::from(1) << 64)));
    assert_eq!(of("longer"), Err(DepositCallError::NotCanonical));
    assert_eq!(of("words"), Err(DepositCallError::Unknown));
    assert_eq!(OwnDeposit::decode(&[], account), Err(DepositCallError::Unknown));
    // Another account's deposit is not its own.
    let calldata = bytes(&vectors["deposit"]["calldata"]);
    assert_eq!(OwnDeposit::decode(&calldata, other), Err(DepositCallError::Beneficiary(account)));
}

#[test]
fn the_relay_hash_is_the_pools() {
    let vectors = vectors();
    let told = |name: &str| vectors["relay"][name].as_str().unwrap().parse::<B256>().unwrap();
    let relay = relay(&vectors);
    assert_eq!(relay_hash(&relay, 8_453), told("hash"));
    let another = AcrossRelay { depositId: U256::from(4_322), ..relay.clone() };
    assert_eq!(relay_hash(&another, 8_453), told("hash_of_another_id"));
    assert_ne!(relay_hash(&relay, 10), told("hash"), "a relay of another destination");
}

#[test]
fn both_generations_of_events_tell_the_same() {
    let vectors = vectors();
    let events = &vectors["events"];
    let told =
        [&events["FundsDeposited"], &events["V3FundsDeposited"]].map(|event| DepositEvent::decode(&log(event), 1));
    let expected = DepositEvent {
        relay: relay(&vectors),
        destination_chain_id: U256::from(8_453),
        quote_timestamp: 1_760_000_000,
    };
    assert_eq!(told, [Some(expected.clone()), Some(expected)]);
    let fills = [&events["FilledRelay"], &events["FilledV3Relay"]].map(|event| FillEvent::decode(&log(event)).unwrap());
    assert_eq!(fills[0], fills[1]);
    assert!(fills[0].fills(&relay(&vectors)));
    assert_eq!(fills[0].relayer, address(&vectors["relayer"]).into_word());
    assert_eq!(fills[0].repayment_chain_id, U256::from(1));
    for (event, decoded) in [("FilledRelay", false), ("FundsDeposited", true)] {
        assert_eq!(DepositEvent::decode(&log(&events[event]), 1).is_some(), decoded);
        assert_eq!(FillEvent::decode(&log(&events[event])).is_some(), !decoded);
    }
}

#[test]
fn a_fill_counts_only_if_every_field_is_the_deposits() {
    let vectors = vectors();
    let relay = relay(&vectors);
    let others = vectors["other_fills"].as_object().unwrap();
    assert_eq!(others.len(), 14);
    for (name, event) in others {
        let fill = FillEvent::decode(&log(event)).unwrap();
        assert!(!fill.fills(&relay), "{name}");
    }
}

#[test]
fn a_refund_is_read_as_the_pool_tells_it_and_its_leaf_hashes_alike() {
    let vectors = vectors();
    let (account, other) = (address(&vectors["account"]), address(&vectors["other"]));
    let event = RefundEvent::decode(&log(&vectors["refund"]["event"])).unwrap();
    assert_eq!(event.token, address(&vectors["input"]));
    assert_eq!((event.paid_to(account), event.paid_to(other)), (U256::from(500_000_000), U256::from(7)));
    assert_eq!(event.paid_to(Address::ZERO), U256::ZERO);
    let leaf = AcrossRefundLeaf {
        amountToReturn: U256::ZERO,
        chainId: U256::from(1),
        refundAmounts: vec![U256::from(500_000_000), U256::from(7)],
        leafId: 3,
        l2TokenAddress: event.token,
        refundAddresses: vec![account, other],
    };
    let told: B256 = vectors["refund"]["leaf_hash"].as_str().unwrap().parse().unwrap();
    assert_eq!(keccak256(leaf.abi_encode()), told);
}

#[test]
fn slow_fills_are_read_as_what_they_are() {
    let vectors = vectors();
    let (relay, slow) = (relay(&vectors), &vectors["slow"]);
    for name in ["RequestedSlowFill", "RequestedV3SlowFill"] {
        assert!(SlowFillRequest::decode(&log(&slow[name])).unwrap().asks_for(&relay), "{name}");
        assert_eq!(FillEvent::decode(&log(&slow[name])), None, "{name} fills nothing");
    }
    let another = SlowFillRequest::decode(&log(&slow["RequestedSlowFill_of_another_amount"])).unwrap();
    assert!(!another.asks_for(&relay));
    let of = |event: &Value| FillEvent::decode(&log(event)).unwrap();
    let paid = of(&slow["filled_slowly"]);
    assert!(paid.fills(&relay));
    assert_eq!((paid.kind, paid.relayer, paid.paid), (FillKind::Slow, B256::ZERO, U256::from(499_500_000)));
    let replaced = of(&slow["replaced"]);
    assert!(replaced.fills(&relay));
    assert_eq!((replaced.kind, replaced.relayer), (FillKind::ReplacedSlow, address(&vectors["relayer"]).into_word()));
    for name in ["FilledRelay", "FilledV3Relay"] {
        assert_eq!(of(&vectors["events"][name]).kind, FillKind::Fast, "{name}");
    }
    // An event with a kind that the interface does not have is not decoded. The kind is its last word.
    let mut unknown = log(&slow["filled_slowly"]);
    let mut data = unknown.data.data.to_vec();
    *data.last_mut().unwrap() = 3;
    unknown.data.data = data.into();
    assert_eq!(FillEvent::decode(&unknown), None);
}

#[test]
fn a_slow_fill_is_asked_for_and_paid_as_the_published_abi_says() {
    let vectors = vectors();
    let told = &vectors["slow"];
    let request = AcrossSpokePool::requestSlowFillCall { relayData: relay(&vectors) };
    assert_eq!(Bytes::from(request.abi_encode()), bytes(&told["request"]));
    let leaf = AcrossSlowFill {
        relayData: relay(&vectors),
        chainId: U256::from(8_453),
        updatedOutputAmount: U256::from(499_500_000),
    };
    assert_eq!(keccak256(leaf.abi_encode()), told["leaf_hash"].as_str().unwrap().parse::<B256>().unwrap());
    let call = AcrossSpokePool::executeSlowRelayLeafCall { slowFillLeaf: leaf, rootBundleId: 7, proof: Vec::new() };
    assert_eq!(Bytes::from(call.abi_encode()), bytes(&told["execute"]));
}

#[test]
fn a_word_with_more_than_an_address_is_none() {
    let mut word = Address::repeat_byte(7).into_word();
    assert_eq!(address_of(word), Some(Address::repeat_byte(7)));
    word.0[3] = 1;
    assert_eq!(address_of(word), None);
}

fn request() -> FeeRequest {
    FeeRequest {
        origin_chain_id: 1,
        destination_chain_id: 8_453,
        input_token: Address::repeat_byte(1),
        output_token: Address::repeat_byte(2),
        amount: U256::from(500_000_000),
        pool: Address::repeat_byte(3),
        destination_pool: Address::repeat_byte(4),
    }
}

/// Fields and forms as the API's documentation and published SDK types have them.
fn answer() -> Value {
    json!({
        "estimatedFillTimeSec": 4, "timestamp": "1760000000", "isAmountTooLow": false, "quoteBlock": "23500000",
        "spokePoolAddress": Address::repeat_byte(3), "destinationSpokePoolAddress": Address::repeat_byte(4),
        "exclusiveRelayer": Address::repeat_byte(0xee), "exclusivityDeadline": 9,
        "totalRelayFee": {"pct": "2500000000000000", "total": "1250000"},
        "limits": {"minDeposit": "500000", "maxDeposit": "4000000000000", "maxDepositInstant": "900000000000"},
        "outputAmount": "498750000",
        "inputToken": {"address": Address::repeat_byte(1), "symbol": "USDC", "decimals": 6, "chainId": 1},
        "outputToken": {"address": Address::repeat_byte(2), "symbol": "USDC", "decimals": 6, "chainId": 8_453},
        "recipient": Address::repeat_byte(0xbb), "message": "0x1234",
    })
}

fn with(change: Value) -> Result<FeeQuote, QuoteFault> {
    let mut changed = answer();
    for (name, value) in change.as_object().unwrap() {
        changed[name] = value.clone();
    }
    read(&changed, &request())
}

#[test]
fn a_quote_is_read_and_an_older_one_without_its_output() {
    let expected = FeeQuote {
        output_amount: U256::from(498_750_000),
        timestamp: 1_760_000_000,
        fill_seconds: 4,
        least: Some(U256::from(500_000)),
        most: Some(U256::from(4_000_000_000_000_u64)),
    };
    assert_eq!(with(json!({})), Ok(expected.clone()));
    let mut older = answer();
    for gone in
        ["outputAmount", "inputToken", "outputToken", "destinationSpokePoolAddress", "limits", "estimatedFillTimeSec"]
    {
        older.as_object_mut().unwrap().remove(gone);
    }
    // By hand: 500 less a fee of 1.25.
    let expected = FeeQuote { fill_seconds: 0, least: None, most: None, ..expected };
    assert_eq!(read(&older, &request()), Ok(expected));
    let own = quote_json(&request(), &with(json!({})).unwrap());
    assert_eq!(read(&own, &request()), with(json!({})), "what a devnet answers is read the same");
}

#[test]
fn a_quote_that_contradicts_its_request_is_none() {
    let another = Address::repeat_byte(0xaa);
    for (change, fault) in [
        (json!({"spokePoolAddress": another}), QuoteFault::Another("spokePoolAddress")),
        (json!({"spokePoolAddress": "0x12"}), QuoteFault::Field("spokePoolAddress")),
        (json!({"destinationSpokePoolAddress": another}), QuoteFault::Another("destinationSpokePoolAddress")),
        (json!({"inputToken": {"address": another}}), QuoteFault::Another("inputToken")),
        (json!({"outputToken": {"address": another}}), QuoteFault::Another("outputToken")),
        (
            json!({"outputToken": {"address": Address::repeat_byte(2), "chainId": 10}}),
            QuoteFault::Another("outputToken"),
        ),
        (json!({"outputToken": {}}), QuoteFault::Field("outputToken")),
        (json!({"originChainId": 10}), QuoteFault::Another("originChainId")),
        (json!({"destinationChainId": "1"}), QuoteFault::Another("destinationChainId")),
        (json!({"inputAmount": "1"}), QuoteFault::Another("inputAmount")),
        (json!({"isAmountTooLow": true}), QuoteFault::TooLow),
        (json!({"isAmountTooLow": "no"}), QuoteFault::Field("isAmountTooLow")),
        (json!({"timestamp": "-1"}), QuoteFault::Field("timestamp")),
        (json!({"timestamp": "4294967296"}), QuoteFault::Field("timestamp")),
        (json!({"timestamp": null}), QuoteFault::Field("timestamp")),
        (json!({"outputAmount": "0"}), QuoteFault::TakesAll),
        (json!({"outputAmount": "-5"}), QuoteFault::Field("outputAmount")),
        (json!({"outputAmount": 1.5}), QuoteFault::Field("outputAmount")),
        (json!({"outputAmount": "9".repeat(79)}), QuoteFault::Field("outputAmount")),
        (json!({"limits": {"maxDeposit": "many"}}), QuoteFault::Field("limits")),
        (json!({"estimatedFillTimeSec": "soon"}), QuoteFault::Field("estimatedFillTimeSec")),
    ] {
        assert_eq!(with(change.clone()), Err(fault), "{change}");
    }
    for answer in [json!(null), json!([]), json!("fees"), json!({})] {
        assert_eq!(read(&answer, &request()), Err(QuoteFault::Field("spokePoolAddress")));
    }
    let mut no_output = answer();
    no_output.as_object_mut().unwrap().remove("outputAmount");
    no_output["totalRelayFee"]["total"] = json!("500000001");
    assert_eq!(read(&no_output, &request()), Err(QuoteFault::TakesAll), "more than the amount");
}
