//! Runs `uniswapx.json`: hashes, typed data, signatures, encodings, and every moment as the contract resolved it.

use alloy::dyn_abi::TypedData;
use alloy::primitives::{Address, B256, Bytes, I256, Signature, U256, keccak256};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use bardo::abi::uniswapx::{
    DutchInput, DutchOutput, EncodedExclusiveDutchOrder, EncodedPriorityOrder, EncodedV2DutchOrder,
    EncodedV3DutchOrder, NonlinearDutchDecay, OrderInfo, PriorityCosignerData, PriorityInput, PriorityOutput,
    V2CosignerData, V3CosignerData, V3DutchInput, V3DutchOutput,
};
use bardo::chain::permit2::Permit2Domain;
use bardo::uniswap::order::decay::{curve, points};
use bardo::uniswap::order::{OrderKind, OutputAmount, ResolutionPoint, UniswapXOrder};
use serde_json::{Value, json};

use super::{each, list, parse, reparsed, text};

/// Runs every top-level array of the file; an unknown one fails.
pub fn run(file: &Value) -> usize {
    for (key, value) in file.as_object().unwrap() {
        assert!(!value.is_array() || key == "vectors", "no code runs `{key}`");
    }
    let mut resolutions = 0;
    each(list(file, "vectors"), |case| resolutions += vector(case));
    list(file, "vectors").len() + resolutions
}

/// Runs one vector; returns the number of resolved moments.
fn vector(case: &Value) -> usize {
    let id = text(&case["id"]);
    let chain_id = case["chainId"].as_u64().unwrap();
    let kind = OrderKind::named(text(&case["type"])).unwrap_or_else(|| panic!("{id}: no kind {}", case["type"]));
    let order = order_of(kind, &case["order"]);
    assert_eq!(order.kind(), kind, "{id}");
    assert_eq!(case["order"]["chainId"].as_u64(), Some(chain_id), "{id}");
    assert_eq!(order.info().reactor, parse::<Address>(&case["reactor"]), "{id}");

    assert_eq!(order.type_string(), text(&case["orderTypeString"]), "{id}");
    assert_eq!(keccak256(order.type_string()), parse::<B256>(&case["orderTypeHash"]), "{id}");
    assert_eq!(order.hash(), parse::<B256>(&case["orderHash"]), "{id}");
    permit(id, case, &order, Permit2Domain { chain_id, permit2: parse(&case["permit2"]) });
    cosigner(id, case, &order, chain_id);
    encodings(id, case, &order);
    curves(id, &order);
    each(list(case, "resolved"), |moment| resolved(id, moment, &order, chain_id));
    list(case, "resolved").len()
}

fn permit(id: &str, case: &Value, order: &UniswapXOrder, domain: Permit2Domain) {
    let permit = order.permit();
    assert_eq!(domain.separator(), parse::<B256>(&case["domainSeparator"]), "{id}");
    assert_eq!(permit.type_string(), text(&case["permitTypeString"]), "{id}");
    assert_eq!(permit.type_hash(), parse::<B256>(&case["permitTypeHash"]), "{id}");
    assert_eq!(order.witness().type_string(), text(&case["permit2WitnessTypeString"]), "{id}");
    assert_eq!(permit.struct_hash(), parse::<B256>(&case["permitStructHash"]), "{id}");
    let digest = permit.digest(&domain);
    assert_eq!(digest, parse::<B256>(&case["permitDigest"]), "{id}");
    let signature: Bytes = parse(&case["signature"]);
    let signer: PrivateKeySigner = parse(&case["swapperPrivateKey"]);
    assert_eq!(signer.address(), order.info().swapper, "{id}");
    assert_eq!(signer.sign_hash_sync(&digest).unwrap().as_bytes()[..], signature[..], "{id}");

    // The same with an independent parser of typed data.
    let stated = &case["permit"];
    let mut types = stated["types"].clone();
    types["EIP712Domain"] = json!([
        {"name": "name", "type": "string"},
        {"name": "chainId", "type": "uint256"},
        {"name": "verifyingContract", "type": "address"},
    ]);
    let typed: TypedData = serde_json::from_value(json!({
        "types": types,
        "primaryType": stated["primaryType"],
        "domain": stated["domain"],
        "message": stated["values"],
    }))
    .unwrap();
    assert_eq!(typed.eip712_signing_hash().unwrap(), digest, "{id}");
    // Ours in JSON is the same message to that parser.
    assert_eq!(reparsed(&permit, &domain).unwrap().eip712_signing_hash().unwrap(), digest, "{id}");
}

fn cosigner(id: &str, case: &Value, order: &UniswapXOrder, chain_id: u64) {
    let digest = order.cosigner_digest(chain_id);
    assert_eq!(digest, stated(&case["cosignatureDigest"]), "{id}");
    assert_eq!(order.cosignature().cloned(), stated(&case["cosignature"]), "{id}");
    // The zero address means no cosigner, so no cosignature is checked.
    let named = stated::<Address>(&case["order"]["cosigner"]).filter(|cosigner| !cosigner.is_zero());
    assert_eq!(order.cosigner(), named, "{id}");
    if named.is_none() {
        assert!(case["cosignerPrivateKey"].is_null(), "{id}");
        return;
    }
    let Some((digest, cosignature)) = digest.zip(order.cosignature()) else { return };
    assert_eq!(case["cosignerData"], case["order"]["cosignerData"], "{id}");
    let signer: PrivateKeySigner = parse(&case["cosignerPrivateKey"]);
    assert_eq!(Some(signer.address()), order.cosigner(), "{id}");
    let signature = Signature::from_raw(cosignature).unwrap();
    assert_eq!(signature.recover_address_from_prehash(&digest).unwrap(), signer.address(), "{id}");
    assert_eq!(signer.sign_hash_sync(&digest).unwrap().as_bytes()[..], cosignature[..], "{id}");
    // A signed override that the contract rejects is the cosigner's fault; other rejections are not.
    let refused = |moment: &Value| moment["contract"]["revert"].as_str() == Some("InvalidCosignerOutput()");
    let faults = order.cosigner_faults(chain_id);
    assert_eq!(faults.is_empty(), !list(case, "resolved").iter().any(refused), "{id}: {faults:?}");
}

fn stated<T: std::str::FromStr>(value: &Value) -> Option<T>
where
    T::Err: std::fmt::Debug,
{
    (!value.is_null()).then(|| parse(value))
}

fn encodings(id: &str, case: &Value, order: &UniswapXOrder) {
    let encoded: Bytes = parse(&case["encoded"]);
    assert_eq!(order.encode(), encoded, "{id}");
    assert_eq!(UniswapXOrder::decode(order.kind(), &encoded).as_ref(), Ok(order), "{id}");
    for other in OrderKind::ALL.into_iter().filter(|kind| *kind != order.kind()) {
        assert!(UniswapXOrder::decode(other, &encoded).is_err(), "{id} is no {other} order");
    }
    if let Some(unsigned) = stated::<Bytes>(&case["encodedUnsigned"]) {
        assert_eq!(without_cosigner(order.clone()).encode(), unsigned, "{id}");
    }
}

/// The order as an SDK encodes it before the cosigner acted: one empty override, however many outputs there are.
fn without_cosigner(mut order: UniswapXOrder) -> UniswapXOrder {
    match &mut order {
        UniswapXOrder::Dutch(_) => {}
        UniswapXOrder::DutchV2(order) => {
            let none = vec![U256::ZERO];
            order.cosignerData = V2CosignerData { outputAmounts: none, ..Default::default() };
        }
        UniswapXOrder::DutchV3(order) => {
            let none = vec![U256::ZERO];
            order.cosignerData = V3CosignerData { outputAmounts: none, ..Default::default() };
            // The SDK writes the input's blocks into the outputs' curves here; the signed order has the correct ones.
            for output in &mut order.baseOutputs {
                output.curve.relativeBlocks = order.baseInput.curve.relativeBlocks;
            }
        }
        UniswapXOrder::Priority(order) => order.cosignerData = PriorityCosignerData::default(),
    }
    order.with_cosignature(Bytes::new())
}

/// Packing and unpacking a curve returns the same points.
fn curves(id: &str, order: &UniswapXOrder) {
    let UniswapXOrder::DutchV3(order) = order else { return };
    for packed in order.baseOutputs.iter().map(|output| &output.curve).chain([&order.baseInput.curve]) {
        assert_eq!(&curve(&points(packed)), packed, "{id}");
    }
}

fn resolved(id: &str, moment: &Value, order: &UniswapXOrder, chain_id: u64) {
    let at = &moment["at"];
    let small = |key: &str| u64::try_from(number(&at[key])).unwrap();
    let at = ResolutionPoint {
        chain_id,
        timestamp: small("timestamp"),
        block: small("block"),
        base_fee: small("baseFee").into(),
        priority_fee: small("txPriorityFee").into(),
        filler: parse(&at["filler"]),
    };
    let expected = &moment["contract"];
    let found = order.resolve(&at);
    if let Some(revert) = expected["revert"].as_str() {
        let name = revert.split('(').next().unwrap();
        assert_eq!(format!("{:?}", found.expect_err(id)), name, "{id} at {at:?}");
        return;
    }
    let found = found.unwrap_or_else(|revert| panic!("{id} at {at:?}: {revert:?}"));
    assert_eq!(found.token_in, parse::<Address>(&expected["input"]["token"]), "{id} at {at:?}");
    assert_eq!(found.amount_in, number(&expected["input"]["amount"]), "{id} at {at:?}");
    assert_eq!(found.most_in, number(&expected["input"]["maxAmount"]), "{id} at {at:?}");
    let amount = |output: &Value| OutputAmount {
        token: parse(&output["token"]),
        amount: number(&output["amount"]),
        recipient: parse(&output["recipient"]),
    };
    let outputs: Vec<OutputAmount> = list(expected, "outputs").iter().map(amount).collect();
    assert_eq!(found.outputs, outputs, "{id} at {at:?}");
    let bounds = order.bounds();
    assert!(found.amount_in <= bounds.most_in, "{id} at {at:?}");
    for (found, least) in found.outputs.iter().zip(&bounds.least_out) {
        assert!(found.amount >= least.amount, "{id} at {at:?}");
    }
}

/// A number, given as such or as a string.
fn number(value: &Value) -> U256 {
    value.as_u64().map_or_else(|| parse(value), U256::from)
}

fn order_of(kind: OrderKind, order: &Value) -> UniswapXOrder {
    let info = OrderInfo {
        reactor: parse(&order["reactor"]),
        swapper: parse(&order["swapper"]),
        nonce: number(&order["nonce"]),
        deadline: number(&order["deadline"]),
        additionalValidationContract: parse(&order["additionalValidationContract"]),
        additionalValidationData: parse(&order["additionalValidationData"]),
    };
    let input = &order["input"];
    let outputs = list(order, "outputs");
    let added = &order["cosignerData"];
    match kind {
        OrderKind::Dutch => UniswapXOrder::Dutch(EncodedExclusiveDutchOrder {
            info,
            decayStartTime: number(&order["decayStartTime"]),
            decayEndTime: number(&order["decayEndTime"]),
            exclusiveFiller: parse(&order["exclusiveFiller"]),
            exclusivityOverrideBps: number(&order["exclusivityOverrideBps"]),
            input: dutch_input(input),
            outputs: outputs.iter().map(dutch_output).collect(),
        }),
        OrderKind::DutchV2 => UniswapXOrder::DutchV2(EncodedV2DutchOrder {
            info,
            cosigner: parse(&order["cosigner"]),
            baseInput: dutch_input(input),
            baseOutputs: outputs.iter().map(dutch_output).collect(),
            cosignerData: V2CosignerData {
                decayStartTime: number(&added["decayStartTime"]),
                decayEndTime: number(&added["decayEndTime"]),
                exclusiveFiller: parse(&added["exclusiveFiller"]),
                exclusivityOverrideBps: number(&added["exclusivityOverrideBps"]),
                inputAmount: number(&added["inputOverride"]),
                outputAmounts: list(added, "outputOverrides").iter().map(number).collect(),
            },
            cosignature: parse(&order["cosignature"]),
        }),
        OrderKind::DutchV3 => UniswapXOrder::DutchV3(EncodedV3DutchOrder {
            info,
            cosigner: parse(&order["cosigner"]),
            startingBaseFee: number(&order["startingBaseFee"]),
            baseInput: V3DutchInput {
                token: parse(&input["token"]),
                startAmount: number(&input["startAmount"]),
                curve: decay_curve(&input["curve"]),
                maxAmount: number(&input["maxAmount"]),
                adjustmentPerGweiBaseFee: number(&input["adjustmentPerGweiBaseFee"]),
            },
            baseOutputs: outputs.iter().map(v3_output).collect(),
            cosignerData: V3CosignerData {
                decayStartBlock: number(&added["decayStartBlock"]),
                exclusiveFiller: parse(&added["exclusiveFiller"]),
                exclusivityOverrideBps: number(&added["exclusivityOverrideBps"]),
                inputAmount: number(&added["inputOverride"]),
                outputAmounts: list(added, "outputOverrides").iter().map(number).collect(),
            },
            cosignature: parse(&order["cosignature"]),
        }),
        OrderKind::Priority => UniswapXOrder::Priority(EncodedPriorityOrder {
            info,
            cosigner: parse(&order["cosigner"]),
            auctionStartBlock: number(&order["auctionStartBlock"]),
            baselinePriorityFeeWei: number(&order["baselinePriorityFeeWei"]),
            input: PriorityInput {
                token: parse(&input["token"]),
                amount: number(&input["amount"]),
                mpsPerPriorityFeeWei: number(&input["mpsPerPriorityFeeWei"]),
            },
            outputs: outputs.iter().map(priority_output).collect(),
            cosignerData: PriorityCosignerData { auctionTargetBlock: number(&added["auctionTargetBlock"]) },
            cosignature: parse(&order["cosignature"]),
        }),
    }
}

fn dutch_input(input: &Value) -> DutchInput {
    DutchInput {
        token: parse(&input["token"]),
        startAmount: number(&input["startAmount"]),
        endAmount: number(&input["endAmount"]),
    }
}

fn dutch_output(output: &Value) -> DutchOutput {
    DutchOutput {
        token: parse(&output["token"]),
        startAmount: number(&output["startAmount"]),
        endAmount: number(&output["endAmount"]),
        recipient: parse(&output["recipient"]),
    }
}

fn v3_output(output: &Value) -> V3DutchOutput {
    V3DutchOutput {
        token: parse(&output["token"]),
        startAmount: number(&output["startAmount"]),
        curve: decay_curve(&output["curve"]),
        recipient: parse(&output["recipient"]),
        minAmount: number(&output["minAmount"]),
        adjustmentPerGweiBaseFee: number(&output["adjustmentPerGweiBaseFee"]),
    }
}

fn priority_output(output: &Value) -> PriorityOutput {
    PriorityOutput {
        token: parse(&output["token"]),
        amount: number(&output["amount"]),
        mpsPerPriorityFeeWei: number(&output["mpsPerPriorityFeeWei"]),
        recipient: parse(&output["recipient"]),
    }
}

fn decay_curve(value: &Value) -> NonlinearDutchDecay {
    let blocks = list(value, "relativeBlocks").iter().map(|block| u16::try_from(number(block)).unwrap());
    let amounts = list(value, "relativeAmounts").iter().map(parse::<I256>);
    let (blocks, amounts): (Vec<_>, Vec<_>) = (blocks.collect(), amounts.collect());
    assert_eq!(blocks.len(), amounts.len());
    curve(&blocks.into_iter().zip(amounts).collect::<Vec<_>>())
}
