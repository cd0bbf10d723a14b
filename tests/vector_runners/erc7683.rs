//! Runs `erc7683.json`: types, hashes, the witness and its signature, encodings, and the event in both forms.

use alloy::dyn_abi::TypedData;
use alloy::primitives::{Address, B256, Bytes, Log, U256, keccak256};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::{SolCall, SolEvent, SolStruct, SolValue};
use bardo::abi::erc7683::{
    AcrossOrderData, DestinationSettler, GaslessCrossChainOrder, OrderData, OriginSettler, RelayData,
    ResolvedCrossChainOrder, older, witness,
};
use bardo::chain::permit2::Permit2Domain;
use bardo::intents::{CrossChainIntent, OpenedIntent, order_id, read_relay};
use serde_json::{Value, json};

use super::{check, each, list, parse, reparsed, text};

/// Runs every top-level array of the file; an unknown one fails.
pub fn run(file: &Value) -> usize {
    for (key, value) in file.as_object().unwrap() {
        assert!(!value.is_array() || key == "vectors", "no code runs `{key}`");
    }
    check("typeStrings", || types(&file["typeStrings"]));
    check("selectors", || selectors(&file["selectors"]));
    assert_eq!(OriginSettler::Open::SIGNATURE_HASH, parse::<B256>(&file["openEventTopic0"]["finalV1_uint256"]));
    assert_eq!(
        older::OriginSettler::Open::SIGNATURE_HASH,
        parse::<B256>(&file["openEventTopic0"]["olderAcross_uint64"])
    );
    check("hyperlaneOrderDataSample", || another_services_data(&file["hyperlaneOrderDataSample"]));
    each(list(file, "vectors"), vector);
    4 + list(file, "vectors").len()
}

fn types(stated: &Value) {
    let root = |encoded: &str| encoded.split_inclusive(')').next().unwrap().to_owned();
    let known: [(&str, String); 5] = [
        ("acrossOrderDataType", AcrossOrderData::eip712_encode_type().into_owned()),
        ("gaslessOrderAcross", {
            // As Across writes it, with referenced structs after the struct itself.
            let order = root(&witness::GaslessCrossChainOrder::eip712_encode_type());
            format!("{order}{}", witness::AcrossOrderData::eip712_encode_type())
        }),
        ("gaslessOrderPlain", GaslessCrossChainOrder::eip712_encode_type().into_owned()),
        ("hyperlaneOrderData", OrderData::eip712_encode_type().into_owned()),
        (
            "hyperlaneResolved",
            ResolvedCrossChainOrder::eip712_encode_type()
                .replace("uint256 destinationChainId", "uint64 destinationChainId"),
        ),
    ];
    for (key, ours) in &known {
        assert_eq!(ours, text(&stated[*key]));
        if let Some(hash) = stated.get(format!("{key}Hash")).or_else(|| stated.get(format!("{key}TypeHash"))) {
            assert_eq!(keccak256(ours), parse::<B256>(hash), "{key}");
        }
    }
    for key in stated.as_object().unwrap().keys() {
        let base = key.trim_end_matches("Hash").trim_end_matches("Type");
        assert!(known.iter().any(|(known, _)| known.trim_end_matches("Type") == base), "no code checks `{key}`");
    }
    assert_eq!(CrossChainIntent::data_type(), parse::<B256>(&stated["acrossOrderDataTypeHash"]));
}

fn selectors(stated: &Value) {
    let known: [(&str, [u8; 4]); 5] = [
        (OriginSettler::openForCall::SIGNATURE, OriginSettler::openForCall::SELECTOR),
        (OriginSettler::openCall::SIGNATURE, OriginSettler::openCall::SELECTOR),
        (OriginSettler::resolveForCall::SIGNATURE, OriginSettler::resolveForCall::SELECTOR),
        (OriginSettler::resolveCall::SIGNATURE, OriginSettler::resolveCall::SELECTOR),
        (DestinationSettler::fillCall::SIGNATURE, DestinationSettler::fillCall::SELECTOR),
    ];
    assert_eq!(stated.as_object().unwrap().len(), known.len());
    for (signature, selector) in known {
        assert_eq!(Bytes::copy_from_slice(&selector), parse::<Bytes>(&stated[signature]), "{signature}");
    }
}

fn another_services_data(sample: &Value) {
    let data = &sample["data"];
    let small = |key: &str| u32::try_from(data[key].as_u64().unwrap()).unwrap();
    let order = OrderData {
        sender: parse(&data["sender"]),
        recipient: parse(&data["recipient"]),
        inputToken: parse(&data["inputToken"]),
        outputToken: parse(&data["outputToken"]),
        amountIn: number(&data["amountIn"]),
        amountOut: number(&data["amountOut"]),
        senderNonce: number(&data["senderNonce"]),
        originDomain: small("originDomain"),
        destinationDomain: small("destinationDomain"),
        destinationSettler: parse(&data["destinationSettler"]),
        fillDeadline: small("fillDeadline"),
        data: parse(&data["data"]),
    };
    assert_eq!(Bytes::from(order.abi_encode()), parse::<Bytes>(&sample["encoded"]));
    assert_eq!(keccak256(order.abi_encode()), parse::<B256>(&sample["orderId_keccakOfEncoded"]));
}

/// A number, given as such or as a string.
fn number(value: &Value) -> U256 {
    value.as_u64().map_or_else(|| parse(value), U256::from)
}

fn seconds(value: &Value) -> u32 {
    u32::try_from(number(value)).unwrap()
}

fn intent(case: &Value) -> CrossChainIntent {
    let (order, data) = (&case["order"], &case["acrossOrderData"]);
    CrossChainIntent {
        origin_settler: parse(&order["originSettler"]),
        user: parse(&order["user"]),
        nonce: number(&order["nonce"]),
        origin_chain_id: u64::try_from(number(&order["originChainId"])).unwrap(),
        open_deadline: seconds(&order["openDeadline"]),
        fill_deadline: seconds(&order["fillDeadline"]),
        data: AcrossOrderData {
            inputToken: parse(&data["inputToken"]),
            inputAmount: number(&data["inputAmount"]),
            outputToken: parse(&data["outputToken"]),
            outputAmount: number(&data["outputAmount"]),
            destinationChainId: number(&data["destinationChainId"]),
            recipient: parse(&data["recipient"]),
            exclusiveRelayer: parse(&data["exclusiveRelayer"]),
            depositNonce: number(&data["depositNonce"]),
            exclusivityPeriod: seconds(&data["exclusivityPeriod"]),
            message: parse(&data["message"]),
        },
    }
}

fn vector(case: &Value) {
    let id = text(&case["id"]);
    let intent = intent(case);
    let order = intent.order();
    assert_eq!(order.orderDataType, parse::<B256>(&case["order"]["orderDataType"]), "{id}");
    assert_eq!(order.orderData, parse::<Bytes>(&case["order"]["orderData"]), "{id}");
    assert_eq!(order.orderData, parse::<Bytes>(&case["orderDataEncoded"]), "{id}");
    let encoded: Bytes = parse(&case["orderAbiEncoded"]);
    assert_eq!(intent.encode(), encoded, "{id}");
    assert_eq!(CrossChainIntent::decode(&encoded).as_ref(), Ok(&intent), "{id}");

    assert_eq!(intent.plain_hash(), parse::<B256>(&case["plainStructHash"]), "{id}");
    assert_eq!(intent.data_hash(), parse::<B256>(&case["acrossOrderDataHash"]), "{id}");
    assert_eq!(intent.witness().hash(), parse::<B256>(&case["acrossWitnessHash"]), "{id}");
    permit(id, case, &intent);
    resolved(id, case, &intent);
}

fn permit(id: &str, case: &Value, intent: &CrossChainIntent) {
    let permit = intent.permit();
    assert_eq!(intent.witness().type_string(), text(&case["permit2WitnessTypeString"]), "{id}");
    assert_eq!(permit.type_string(), text(&case["permitTypeString"]), "{id}");
    assert_eq!(permit.spender(), parse::<Address>(&case["permit"]["spender"]), "{id}");
    assert_eq!(permit.deadline(), number(&case["permit"]["deadline"]), "{id}");
    let stated = &case["domain"];
    let domain =
        Permit2Domain { chain_id: stated["chainId"].as_u64().unwrap(), permit2: parse(&stated["verifyingContract"]) };
    let digest = permit.digest(&domain);
    assert_eq!(digest, parse::<B256>(&case["digest"]), "{id}");

    // The same with an independent parser of typed data.
    let mut types = case["types"].clone();
    types["EIP712Domain"] = json!([
        {"name": "name", "type": "string"},
        {"name": "chainId", "type": "uint256"},
        {"name": "verifyingContract", "type": "address"},
    ]);
    let mut message = case["permit"].clone();
    message["witness"] = case["order"].clone();
    message["witness"]["orderData"] = case["acrossOrderData"].clone();
    let typed =
        json!({"types": types, "primaryType": "PermitWitnessTransferFrom", "domain": stated, "message": message});
    let typed: TypedData = serde_json::from_value(typed).unwrap();
    assert_eq!(typed.eip712_signing_hash().unwrap(), digest, "{id}");
    assert_eq!(reparsed(&permit, &domain).unwrap().eip712_signing_hash().unwrap(), digest, "{id}");

    let signer: PrivateKeySigner = parse(&case["signerPrivateKey"]);
    assert_eq!(signer.address(), intent.user, "{id}");
    let signature: Bytes = parse(&case["signature"]);
    assert_eq!(signer.sign_hash_sync(&digest).unwrap().as_bytes()[..], signature[..], "{id}");
    let calldata: Bytes = parse(&case["openForCalldata"]);
    let stated = OriginSettler::openForCall::abi_decode(&calldata).unwrap();
    assert_eq!(intent.open_for(signature, stated.originFillerData), calldata, "{id}");
}

fn resolved(id: &str, case: &Value, intent: &CrossChainIntent) {
    let relay = &case["relayData"];
    let deposit_id = number(&relay["depositId"]);
    let ours = intent.relay(deposit_id);
    let theirs = RelayData {
        depositor: parse(&relay["depositor"]),
        recipient: parse(&relay["recipient"]),
        exclusiveRelayer: parse(&relay["exclusiveRelayer"]),
        inputToken: parse(&relay["inputToken"]),
        outputToken: parse(&relay["outputToken"]),
        inputAmount: number(&relay["inputAmount"]),
        outputAmount: number(&relay["outputAmount"]),
        originChainId: number(&relay["originChainId"]),
        depositId: deposit_id,
        fillDeadline: seconds(&relay["fillDeadline"]),
        exclusivityDeadline: seconds(&relay["exclusivityDeadline"]),
        message: parse(&relay["message"]),
    };
    assert_eq!(ours, theirs, "{id}");

    let stated = &case["resolvedOrder"];
    let instruction = &stated["fillInstructions"][0];
    let order = intent.resolve(deposit_id, parse(&instruction["destinationSettler"]));
    assert_eq!(order.orderId, parse::<B256>(&stated["orderId"]), "{id}");
    assert_eq!(order.orderId, order_id(&ours, intent.data.destinationChainId), "{id}");
    assert_eq!(read_relay(&parse::<Bytes>(&instruction["originData"])), Ok(ours), "{id}");
    // This settler indexes the event by another hash than the one it puts into the order.
    let indexed: B256 = parse(&case["openEventOrderId"]);
    assert_eq!(keccak256(&order.fillInstructions[0].originData), indexed, "{id}");

    let forms = &case["openLog_by_destinationChainId_type"];
    assert_eq!(forms.as_object().unwrap().len(), 2, "{id}");
    for form in ["uint256", "uint64"] {
        let topics: Vec<B256> = list(&forms[form], "topics").iter().map(parse).collect();
        let log = Log::new(Address::ZERO, topics, parse(&forms[form]["data"])).unwrap();
        let opened = OpenedIntent::decode(&log).unwrap();
        assert_eq!(opened.indexed_id, indexed, "{id} {form}");
        assert_eq!(opened.order, order, "{id} {form}");
    }
    let newest = &forms["uint256"];
    let event = OriginSettler::Open { orderId: indexed, resolvedOrder: order };
    assert_eq!(Bytes::from(event.encode_data()), parse::<Bytes>(&newest["data"]), "{id}");
}
