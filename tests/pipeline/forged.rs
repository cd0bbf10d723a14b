//! Orders that Bardo's tools would never make. Each field is changed alone in an otherwise valid proposal, and each
//! time the error names the fault.

use alloy::primitives::{Address, B256, U256};
use bardo::abi::erc7683::AcrossOrderData;
use bardo::abi::uniswapx::{
    DutchOutput, EncodedPriorityOrder, EncodedV2DutchOrder, EncodedV3DutchOrder, OrderInfo, PriorityOutput,
    V3DutchOutput,
};
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::error::ErrorCode;
use bardo::base::units::BasisPoints;
use bardo::chain::network::KnownContract;
use bardo::intents;
use bardo::safety::account::{Account as _, PayloadContext};
use bardo::safety::proposal::{
    AllowanceBound, AllowanceKind, BridgeArrival, Inflow, LegPurpose, Outflow, Proposal, ProposalIntent, SignedOrder,
};
use bardo::safety::signing_payload::FeeBound;
use bardo::safety::simulate::{order_faults, reactor_role};
use bardo::safety::typed::TypedMessage;
use bardo::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft, OrderKind, UniswapXOrder};

use bardo_testkit::harness::{TestHarness, devnet, trade};

const AMOUNT: u64 = 100_000_000;

fn stranger() -> Address {
    Address::repeat_byte(0x5a)
}

/// A V2 order as the tool proposes it.
async fn auction(world: &TestHarness) -> Proposal {
    auction_of(world, OrderKind::DutchV2).await
}

/// An order of this kind as the tool proposes it.
async fn auction_of(world: &TestHarness, kind: OrderKind) -> Proposal {
    let amount = U256::from(AMOUNT);
    let expected = world.quote(amount).await;
    let slippage = BasisPoints::new(50).unwrap();
    let least = slippage.minimum_out(expected);
    let (permit2, account) = (world.contract(KnownContract::Permit2), world.account());
    let (usdc, weth) = (world.contract_of(&world.usdc), world.contract_of(&world.weth));
    let deadline = SystemClock.now_seconds() + 300;
    let draft = OrderDraft {
        reactor: world.contract(reactor_role(kind).unwrap()),
        swapper: account,
        recipient: account,
        nonce: U256::from_be_bytes(rand::random::<[u8; 32]>()),
        deadline,
        cosigner: world.contract(KnownContract::OrderCosigner),
        token_in: usdc,
        token_out: weth,
        legs: OrderAmounts::ExactIn {
            amount_in: amount,
            // A priority order asks for its minimum, and fillers' bids come on top.
            start_out: if kind == OrderKind::Priority { least } else { expected },
            least_out: least,
        },
        auction: match kind {
            OrderKind::Dutch => panic!("the devnet has no reactor for it"),
            OrderKind::DutchV2 => AuctionTerms::CosignedTimes,
            OrderKind::DutchV3 => AuctionTerms::CosignedBlocks { over: 20, base_fee: 0, per_gwei: U256::ZERO },
            OrderKind::Priority => {
                AuctionTerms::PriorityFee { start_block: 1, baseline: 0, mps_per_wei: U256::from(1) }
            }
        },
    };
    let message = TypedMessage::UniswapxOrder { permit2, order: Box::new(draft.order().unwrap()) };
    let pools = &devnet().deployment.pools;
    let holder = pools.iter().find(|pool| [pool.token0.address, pool.token1.address].contains(&weth)).unwrap().address;
    Proposal {
        outflows: vec![Outflow { token: world.usdc.clone(), amount }],
        inflows: vec![Inflow { token: world.weth.clone(), at_least: least, expected, recipient: account }],
        allowances: vec![AllowanceBound {
            token: world.usdc.clone(),
            spender: permit2,
            kind: AllowanceKind::Erc20,
            at_most: U256::ZERO,
        }],
        trade: Some(trade(
            (world.usdc.clone(), amount),
            (world.weth.clone(), expected, least),
            slippage,
            SystemClock.now_millis(),
            deadline,
        )),
        recipients: vec![account],
        order: Some(Box::new(SignedOrder { message, holder, arrival: None })),
        ..world.proposal(ProposalIntent::PlaceOrder, vec![world.approve(LegPurpose::Approve, permit2, amount)])
    }
}

/// A bridge order as the tool proposes it.
fn bridge(world: &TestHarness) -> Proposal {
    let (permit2, account) = (world.contract(KnownContract::Permit2), world.account());
    let settler = world.contract(KnownContract::OriginSettler);
    let usdc = world.contract_of(&world.usdc);
    let now = u32::try_from(SystemClock.now_seconds()).unwrap();
    let intent = intents::CrossChainIntent {
        origin_settler: settler,
        user: account,
        nonce: U256::from_be_bytes(rand::random::<[u8; 32]>()),
        origin_chain_id: 31_337,
        open_deadline: now + 300,
        fill_deadline: now + 600,
        data: AcrossOrderData {
            inputToken: usdc,
            inputAmount: U256::from(AMOUNT),
            outputToken: usdc,
            outputAmount: U256::from(AMOUNT * 99 / 100),
            destinationChainId: U256::from(31_338),
            recipient: account.into_word(),
            exclusiveRelayer: Address::ZERO,
            depositNonce: U256::ZERO,
            exclusivityPeriod: 0,
            message: Default::default(),
        },
    };
    let least = intent.data.outputAmount;
    let arrival = BridgeArrival { chain_id: 31_338, token: world.usdc.clone(), at_least: least, expected: least };
    let message = TypedMessage::CrossChainOrder { permit2, intent: Box::new(intent) };
    Proposal {
        outflows: vec![Outflow { token: world.usdc.clone(), amount: U256::from(AMOUNT) }],
        recipients: vec![account],
        order: Some(Box::new(SignedOrder { message, holder: settler, arrival: Some(arrival) })),
        ..world.proposal(ProposalIntent::Bridge, vec![])
    }
}

/// Faults of a proposal's order, if the settling contract's code has this hash. One fault per line.
fn order_faults_of(world: &TestHarness, proposal: Proposal, code: Option<B256>) -> String {
    let fees = FeeBound { max_fee_per_gas: 1_000_000_000, max_priority_fee_per_gas: 1 };
    let payload = world.wallet.prepare_payload(proposal, &PayloadContext { chain_id: 31_337, fees }).unwrap();
    let faults = order_faults(&payload, &world.client.network().book, SystemClock.now_seconds(), code);
    faults.iter().map(|fault| format!("{fault:?}")).collect::<Vec<_>>().join("\n")
}

/// Code hash of a contract in the address book.
fn code_hash(world: &TestHarness, contract: KnownContract) -> Option<B256> {
    let hash = world.client.network().book.code_hash(contract);
    assert!(hash.is_some());
    hash
}

type ChangeAuction = fn(&mut EncodedV2DutchOrder);
type ChangeBridge = fn(&mut intents::CrossChainIntent);
type ChangeProposal = fn(&mut SignedOrder);

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_an_auction_order_is_checked() {
    let world = TestHarness::new(5).await;
    let code = code_hash(&world, KnownContract::V2DutchReactor);
    assert_eq!(order_faults_of(&world, auction(&world).await, code), "", "the order is valid");
    let valid = auction(&world).await;
    world.preview(valid).await.expect("the pipeline accepts the valid order");

    let changes: [(&str, ChangeAuction, &str); 17] = [
        ("reactor", |order| order.info.reactor = stranger(), "the v2DutchReactor of the address book"),
        ("swapper", |order| order.info.swapper = stranger(), "would sign it"),
        ("past deadline", |order| order.info.deadline = U256::from(1), "not in the future"),
        ("late deadline", |order| order.info.deadline += U256::from(1), "expires after 2"),
        ("endless deadline", |order| order.info.deadline = U256::MAX, "expires after the end of time"),
        ("validation", |order| order.info.additionalValidationContract = stranger(), "validation contract"),
        ("validation data", |order| order.info.additionalValidationData = vec![1].into(), "validation data"),
        ("cosigner", |order| order.cosigner = stranger(), "names cosigner"),
        ("no cosigner", |order| order.cosigner = Address::ZERO, "names cosigner"),
        ("input", |order| order.baseInput.startAmount = U256::MAX, "may only rise"),
        ("more input", |order| order.baseInput.endAmount += U256::from(1), "at most 100 USDC ("),
        ("no input", |order| order.baseInput.endAmount = U256::ZERO, "input"),
        ("no output", |order| order.baseOutputs.clear(), "no output"),
        ("less output", |order| order.baseOutputs[0].endAmount -= U256::from(1), "guaranteed by the order"),
        (
            "rising output",
            |order| order.baseOutputs[0].startAmount = order.baseOutputs[0].endAmount - U256::from(1),
            "may only fall",
        ),
        ("recipient", |order| order.baseOutputs[0].recipient = stranger(), "everything must go to"),
        (
            "second output",
            |order| {
                let other = DutchOutput { recipient: stranger(), ..order.baseOutputs[0].clone() };
                order.baseOutputs.push(other);
            },
            "everything must go to",
        ),
    ];
    for (name, change, words) in changes {
        let mut proposal = auction(&world).await;
        let signed = proposal.order.as_mut().unwrap();
        let TypedMessage::UniswapxOrder { order, .. } = &mut signed.message else { unreachable!() };
        let UniswapXOrder::DutchV2(inner) = order.as_mut() else { unreachable!() };
        change(inner);
        let faults = order_faults_of(&world, proposal, code);
        assert!(faults.contains(words), "{name}: {faults:?}");
    }
    let changes: [(&str, ChangeProposal, &str); 3] = [
        ("holder is the account", |signed| signed.holder = Address::ZERO, "a filler other than the account"),
        (
            "permit2",
            |signed| {
                if let TypedMessage::UniswapxOrder { permit2, .. } = &mut signed.message {
                    *permit2 = stranger();
                }
            },
            "known Permit2",
        ),
        (
            "kind of auction",
            |signed| {
                if let TypedMessage::UniswapxOrder { order, .. } = &mut signed.message {
                    let info = order.info().clone();
                    let draft = OrderDraft {
                        reactor: info.reactor,
                        swapper: info.swapper,
                        recipient: info.swapper,
                        nonce: info.nonce,
                        deadline: info.deadline.to(),
                        cosigner: Address::ZERO,
                        token_in: order.token_in(),
                        token_out: order.bounds().least_out[0].token,
                        legs: OrderAmounts::ExactIn {
                            amount_in: order.most_in(),
                            start_out: order.bounds().least_out[0].amount,
                            least_out: order.bounds().least_out[0].amount,
                        },
                        auction: AuctionTerms::Times { from: 1, until: 2 },
                    };
                    **order = draft.order().unwrap();
                }
            },
            "an order that a known contract settles",
        ),
    ];
    for (name, change, words) in changes {
        let mut proposal = auction(&world).await;
        let account = proposal.account;
        let signed = proposal.order.as_mut().unwrap();
        change(signed);
        if name.starts_with("holder") {
            signed.holder = account;
        }
        let faults = order_faults_of(&world, proposal, code);
        assert!(faults.contains(words), "{name}: {faults:?}");
    }
    // The reactor's code has another hash, or is missing.
    for found in [Some(B256::repeat_byte(1)), None] {
        let faults = order_faults_of(&world, auction(&world).await, found);
        assert!(faults.contains("code with the hash"), "{found:?}: {faults:?}");
    }
    // The pipeline uses the check: it rejects an order with a foreign cosigner.
    let mut proposal = auction(&world).await;
    let TypedMessage::UniswapxOrder { order, .. } = &mut proposal.order.as_mut().unwrap().message else {
        unreachable!()
    };
    let UniswapXOrder::DutchV2(inner) = order.as_mut() else { unreachable!() };
    inner.cosigner = stranger();
    let (refused, rules) = world.refused(proposal).await;
    assert!(
        matches!(refused, ErrorCode::SafetySimulationFailed | ErrorCode::ValidationFailed),
        "{refused:?} {rules:?}"
    );
    assert!(rules.contains("order"), "{rules:?}");
}

/// Fields that all kinds of orders have: the order info and the cosigner.
fn common_fields(order: &mut UniswapXOrder) -> (&mut OrderInfo, &mut Address) {
    match order {
        UniswapXOrder::Dutch(_) => panic!("Bardo does not place such orders"),
        UniswapXOrder::DutchV2(order) => (&mut order.info, &mut order.cosigner),
        UniswapXOrder::DutchV3(order) => (&mut order.info, &mut order.cosigner),
        UniswapXOrder::Priority(order) => (&mut order.info, &mut order.cosigner),
    }
}

fn v3(order: &mut UniswapXOrder) -> &mut EncodedV3DutchOrder {
    let UniswapXOrder::DutchV3(order) = order else { panic!("{order:?}") };
    order
}

fn priority(order: &mut UniswapXOrder) -> &mut EncodedPriorityOrder {
    let UniswapXOrder::Priority(order) = order else { panic!("{order:?}") };
    order
}

type FieldChange = (&'static str, fn(&mut UniswapXOrder), &'static str);

/// Changes of fields that all kinds of orders have: name, change, and part of the fault.
const COMMON_CHANGES: [FieldChange; 8] = [
    ("reactor", |order| common_fields(order).0.reactor = stranger(), "of the address book"),
    ("swapper", |order| common_fields(order).0.swapper = stranger(), "would sign it"),
    ("past deadline", |order| common_fields(order).0.deadline = U256::from(1), "not in the future"),
    ("late deadline", |order| common_fields(order).0.deadline += U256::from(1), "expires after 2"),
    ("endless deadline", |order| common_fields(order).0.deadline = U256::MAX, "expires after the end of time"),
    ("validation", |order| common_fields(order).0.additionalValidationContract = stranger(), "validation contract"),
    ("validation data", |order| common_fields(order).0.additionalValidationData = vec![1].into(), "validation data"),
    ("cosigner", |order| *common_fields(order).1 = stranger(), "names cosigner"),
];

/// Changes of fields of a V3 order.
const V3_CHANGES: [FieldChange; 11] = [
    ("no cosigner", |order| v3(order).cosigner = Address::ZERO, "names cosigner"),
    ("input", |order| v3(order).baseInput.startAmount = U256::MAX, "may only rise"),
    ("more input", |order| v3(order).baseInput.maxAmount += U256::from(1), "at most 100 USDC ("),
    ("no input", |order| v3(order).baseInput.maxAmount = U256::ZERO, "input"),
    ("no output", |order| v3(order).baseOutputs.clear(), "no output"),
    ("less output", |order| v3(order).baseOutputs[0].minAmount -= U256::from(1), "guaranteed by the order"),
    ("output of nothing", |order| v3(order).baseOutputs[0].minAmount = U256::ZERO, "can become zero"),
    (
        "rising output",
        |order| {
            let output = &mut v3(order).baseOutputs[0];
            output.startAmount = output.minAmount - U256::from(1);
        },
        "may only fall",
    ),
    ("recipient", |order| v3(order).baseOutputs[0].recipient = stranger(), "everything must go to"),
    (
        "second output",
        |order| {
            let order = v3(order);
            let other = V3DutchOutput { recipient: stranger(), ..order.baseOutputs[0].clone() };
            order.baseOutputs.push(other);
        },
        "everything must go to",
    ),
    (
        "curve",
        |order| v3(order).baseOutputs[0].curve.relativeAmounts = vec![Default::default(); 17],
        "a decay curve must have at most 16 points",
    ),
];

/// Changes of fields of a priority order.
const PRIORITY_CHANGES: [FieldChange; 9] = [
    // The reactor would accept an order without a cosigner from the first filler.
    ("no cosigner", |order| priority(order).cosigner = Address::ZERO, "one without a cosigner"),
    ("more input", |order| priority(order).input.amount += U256::from(1), "at most 100 USDC ("),
    ("no input", |order| priority(order).input.amount = U256::ZERO, "the input is zero"),
    ("both move", |order| priority(order).input.mpsPerPriorityFeeWei = U256::from(1), "one side must be fixed"),
    ("no output", |order| priority(order).outputs.clear(), "no output"),
    ("less output", |order| priority(order).outputs[0].amount -= U256::from(1), "guaranteed by the order"),
    ("output of nothing", |order| priority(order).outputs[0].amount = U256::ZERO, "can become zero"),
    ("recipient", |order| priority(order).outputs[0].recipient = stranger(), "everything must go to"),
    (
        "second output",
        |order| {
            let order = priority(order);
            let other = PriorityOutput { recipient: stranger(), ..order.outputs[0].clone() };
            order.outputs.push(other);
        },
        "everything must go to",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_other_auction_kinds_is_checked() {
    let world = TestHarness::new(5).await;
    for (kind, own) in [(OrderKind::DutchV3, &V3_CHANGES[..]), (OrderKind::Priority, &PRIORITY_CHANGES[..])] {
        let code = code_hash(&world, reactor_role(kind).unwrap());
        assert_eq!(order_faults_of(&world, auction_of(&world, kind).await, code), "", "{kind}: the order is valid");
        for (name, change, words) in COMMON_CHANGES.iter().chain(own) {
            let mut proposal = auction_of(&world, kind).await;
            let signed = proposal.order.as_mut().unwrap();
            let TypedMessage::UniswapxOrder { order, .. } = &mut signed.message else { unreachable!() };
            change(order);
            let faults = order_faults_of(&world, proposal, code);
            assert!(faults.contains(words), "{kind}, {name}: {faults:?}");
        }
        for found in [Some(B256::repeat_byte(1)), None] {
            let faults = order_faults_of(&world, auction_of(&world, kind).await, found);
            assert!(faults.contains("code with the hash"), "{kind}, {found:?}: {faults:?}");
        }
        // The pipeline uses the check.
        let mut proposal = auction_of(&world, kind).await;
        let TypedMessage::UniswapxOrder { order, .. } = &mut proposal.order.as_mut().unwrap().message else {
            unreachable!()
        };
        *common_fields(order).1 = stranger();
        let (_, rules) = world.refused(proposal).await;
        assert!(rules.contains("order"), "{kind}: {rules:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_a_bridge_order_is_checked() {
    let world = TestHarness::new(5).await;
    let code = code_hash(&world, KnownContract::OriginSettler);
    assert_eq!(order_faults_of(&world, bridge(&world), code), "", "the order is valid");
    let changes: [(&str, ChangeBridge, &str); 17] = [
        ("settler", |intent| intent.origin_settler = stranger(), "the originSettler of the address book"),
        ("user", |intent| intent.user = stranger(), "would sign it"),
        ("origin", |intent| intent.origin_chain_id = 1, "leaves chain 1"),
        ("destination", |intent| intent.data.destinationChainId = U256::from(1), "arrives on chain 1"),
        ("same chain", |intent| intent.data.destinationChainId = U256::from(31_337), "stays on chain"),
        ("no chain", |intent| intent.data.destinationChainId = U256::MAX, "arrives on chain"),
        ("open deadline", |intent| intent.open_deadline = 1, "not in the future"),
        ("fill before open", |intent| intent.fill_deadline = intent.open_deadline, "not after the open deadline"),
        ("recipient", |intent| intent.data.recipient = stranger().into_word(), "everything must go to"),
        ("no input", |intent| intent.data.inputAmount = U256::ZERO, "the input is zero"),
        ("more input", |intent| intent.data.inputAmount += U256::from(1), "at most 100 USDC ("),
        ("no output", |intent| intent.data.outputAmount = U256::ZERO, "the output is zero"),
        ("less output", |intent| intent.data.outputAmount -= U256::from(1), "at least 99 USDC ("),
        ("native input", |intent| intent.data.inputToken = Address::ZERO, "native token"),
        ("other token", |intent| intent.data.outputToken = stranger(), "arrive"),
        ("exclusive relayer", |intent| intent.data.exclusiveRelayer = stranger(), "exclusive relayer"),
        ("message", |intent| intent.data.message = vec![1].into(), "message"),
    ];
    for (name, change, words) in changes {
        let mut proposal = bridge(&world);
        let signed = proposal.order.as_mut().unwrap();
        let TypedMessage::CrossChainOrder { intent, .. } = &mut signed.message else { unreachable!() };
        change(intent);
        let faults = order_faults_of(&world, proposal, code);
        assert!(faults.contains(words), "{name}: {faults:?}");
    }
    let mut without_arrival = bridge(&world);
    without_arrival.order.as_mut().unwrap().arrival = None;
    assert!(order_faults_of(&world, without_arrival, code).contains("states what arrives"));
    for found in [Some(B256::repeat_byte(1)), None] {
        assert!(order_faults_of(&world, bridge(&world), found).contains("code with the hash"));
    }
}
