//! Cross-chain intents on two chains with Bardo's own settlers: opened, filled, repaid, refunded. Whatever is tried in
//! whatever order, no token is created or lost, and nobody gets another's.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::{SolCall, SolValue};
use bardo::abi::erc7683::{AcrossOrderData, DestinationSettler, OnchainCrossChainOrder, OriginSettler};
use bardo::chain::devnet::{ExecutionFailure, Receipt};
use bardo::chain::permit2::Permit2Domain;
use bardo::intents::{CrossChainIntent, IntentExpectation, OpenedIntent};
use bardo::sandbox::contracts::{BundledContract, PERMIT2};
use proptest::prelude::*;

use super::fixture::{Fixture, key};

const ORIGIN: u64 = 31_337;
const DESTINATION: u64 = 31_338;
const REFUND_DELAY: u32 = 60;
/// Initial balance of every party in each token.
const PURSE: u64 = 10_000;

/// Status values of the origin settler.
const OPEN: u8 = 1;
const REPAID: u8 = 2;
const REFUNDED: u8 = 3;

/// Change of an intent, before or after it was signed.
type Change = fn(&mut CrossChainIntent);

struct Bridge {
    origin: Fixture,
    destination: Fixture,
    user: PrivateKeySigner,
    relayers: [PrivateKeySigner; 2],
    attester: PrivateKeySigner,
    token_in: Address,
    token_out: Address,
    origin_settler: Address,
    destination_settler: Address,
}

impl Bridge {
    fn new() -> Self {
        let (user, relayers, attester) = (key(1), [key(2), key(3)], key(4));
        let people = [&user, &relayers[0], &relayers[1], &attester].map(PrivateKeySigner::address);
        let (mut origin, mut destination) = (Fixture::new(ORIGIN, &people), Fixture::new(DESTINATION, &people));
        let destination_settler = destination.create(BundledContract::DestinationSettler, &[]);
        let owner = origin.builder.address();
        let arguments = (PERMIT2, owner, attester.address(), REFUND_DELAY).abi_encode_params();
        let origin_settler = origin.create(BundledContract::OriginSettler, &arguments);
        let call = OriginSettler::setDestinationCall {
            chainId: U256::from(DESTINATION),
            settler: destination_settler.into_word(),
        };
        assert!(origin.call(&origin.builder.clone(), origin_settler, &call, 1).is_success());
        let (token_in, token_out) = (origin.token("IN", 6), destination.token("OUT", 6));
        origin.fund(token_in, &user, U256::from(PURSE), &[PERMIT2, origin_settler]);
        for relayer in &relayers {
            destination.fund(token_out, relayer, U256::from(PURSE), &[destination_settler]);
        }
        Self { origin, destination, user, relayers, attester, token_in, token_out, origin_settler, destination_settler }
    }

    fn intent(&self, nonce: u64, amount_in: u64, amount_out: u64, seconds: u32) -> CrossChainIntent {
        let now = u32::try_from(self.origin.now().max(self.destination.now())).unwrap();
        let intent = CrossChainIntent {
            origin_settler: self.origin_settler,
            user: self.user.address(),
            nonce: U256::from(nonce),
            origin_chain_id: ORIGIN,
            open_deadline: now + seconds,
            fill_deadline: now + 2 * seconds,
            data: AcrossOrderData {
                inputToken: self.token_in,
                inputAmount: U256::from(amount_in),
                outputToken: self.token_out,
                outputAmount: U256::from(amount_out),
                destinationChainId: U256::from(DESTINATION),
                recipient: self.user.address().into_word(),
                exclusiveRelayer: Address::ZERO,
                depositNonce: U256::ZERO,
                exclusivityPeriod: 0,
                message: Bytes::new(),
            },
        };
        assert_eq!(intent.faults(&self.expectation()), []);
        intent
    }

    fn expectation(&self) -> IntentExpectation {
        IntentExpectation {
            now: self.origin.now(),
            origin_chain_id: ORIGIN,
            destination_chain_id: DESTINATION,
            origin_settler: self.origin_settler,
            user: self.user.address(),
            recipient: self.user.address(),
        }
    }

    fn signature(&self, intent: &CrossChainIntent) -> Bytes {
        let domain = Permit2Domain { chain_id: ORIGIN, permit2: PERMIT2 };
        self.user.sign_hash_sync(&intent.permit().digest(&domain)).unwrap().as_bytes().into()
    }

    /// A relayer opens the user's intent.
    fn open_for(&mut self, relayer: usize, intent: &CrossChainIntent, signature: Bytes) -> Receipt {
        let call = OriginSettler::openForCall { order: intent.order(), signature, originFillerData: Bytes::new() };
        self.origin.call(&self.relayers[relayer], self.origin_settler, &call, 1)
    }

    fn fill(&mut self, relayer: usize, intent: &CrossChainIntent, id: B256) -> Receipt {
        let told = intent.relay(intent.deposit_id()).abi_encode().into();
        let call = DestinationSettler::fillCall { orderId: id, originData: told, fillerData: Bytes::new() };
        self.destination.call(&self.relayers[relayer], self.destination_settler, &call, 1)
    }

    /// The attester reports to the origin what it saw on the destination.
    fn repay(&mut self, id: B256) -> Receipt {
        let filler = self.destination.ask(self.destination_settler, DestinationSettler::filledForCall { orderId: id });
        let call = OriginSettler::repayCall { orderId: id, repayTo: filler };
        self.origin.call(&self.attester, self.origin_settler, &call, 1)
    }

    fn refund(&mut self, id: B256) -> Receipt {
        let call = OriginSettler::refundCall { orderId: id };
        self.origin.call(&self.relayers[0], self.origin_settler, &call, 1)
    }

    fn status(&self, id: B256) -> u8 {
        self.origin.ask(self.origin_settler, OriginSettler::depositsCall { orderId: id }).status
    }

    /// Moves both chains past a time.
    fn pass(&mut self, until: u64) {
        for fixture in [&mut self.origin, &mut self.destination] {
            if fixture.now() < until {
                fixture.chain.mine_at(until).unwrap();
            }
        }
    }

    fn holders(&self) -> [Address; 5] {
        let [a, b] = self.relayers.each_ref().map(PrivateKeySigner::address);
        [self.user.address(), a, b, self.attester.address(), self.origin_settler]
    }

    /// Total of both tokens, over everyone who could hold some.
    fn totals(&self) -> (U256, U256) {
        // On two chains two contracts can have the same address.
        let holders: BTreeSet<Address> = self.holders().into_iter().chain([self.destination_settler]).collect();
        holders.into_iter().fold((U256::ZERO, U256::ZERO), |(ins, outs), holder| {
            (ins + self.origin.balance(self.token_in, holder), outs + self.destination.balance(self.token_out, holder))
        })
    }
}

/// Name of the settlers' error with which a call failed.
fn refusal(receipt: &Receipt) -> String {
    let Some(ExecutionFailure::Reverted(data)) = &receipt.failure else { panic!("{receipt:?}") };
    let names = [
        "AlreadyOpened()",
        "AlreadyFilled()",
        "NotOpen()",
        "NotAttester()",
        "TooEarly()",
        "FillDeadlinePassed()",
        "OpenDeadlinePassed()",
        "WrongOrder()",
        "WrongChain()",
        "WrongSettler()",
        "UnknownDestination()",
        "UnknownOrderType()",
        "Unsupported()",
        "InvalidRecipient()",
        "ZeroAmount()",
        "NotMoved()",
        "NotExact()",
        "DestinationIsSet()",
        "NotOwner()",
        "InvalidSigner()",
        "InvalidNonce()",
    ];
    let found = names.into_iter().find(|name| data.starts_with(&alloy::primitives::keccak256(name)[..4]));
    found.map_or_else(|| data.to_string(), str::to_owned)
}

#[test]
fn an_intent_is_opened_filled_and_repaid() {
    let mut bridge = Bridge::new();
    let intent = bridge.intent(1, 1_000, 990, 300);
    let id = intent.id();
    let signature = bridge.signature(&intent);
    let receipt = bridge.open_for(0, &intent, signature.clone());
    assert!(receipt.is_success(), "{}", refusal(&receipt));
    let opened = receipt.logs().iter().find_map(|log| OpenedIntent::decode(log).ok()).unwrap();
    assert_eq!(opened.indexed_id, id);
    assert_eq!(opened.order, intent.resolve(intent.deposit_id(), bridge.destination_settler.into_word()));
    assert_eq!(bridge.status(id), OPEN);
    assert_eq!(bridge.origin.balance(bridge.token_in, bridge.user.address()), U256::from(PURSE - 1_000));
    assert_eq!(refusal(&bridge.open_for(1, &intent, signature)), "AlreadyOpened()");

    assert!(bridge.fill(1, &intent, id).is_success());
    assert_eq!(bridge.destination.balance(bridge.token_out, bridge.user.address()), U256::from(990));
    assert_eq!(refusal(&bridge.fill(0, &intent, id)), "AlreadyFilled()");

    assert!(bridge.repay(id).is_success());
    assert_eq!(bridge.status(id), REPAID);
    assert_eq!(bridge.origin.balance(bridge.token_in, bridge.relayers[1].address()), U256::from(1_000));
    assert_eq!(refusal(&bridge.repay(id)), "NotOpen()");
    bridge.pass(u64::from(intent.fill_deadline) + u64::from(REFUND_DELAY) + 1);
    assert_eq!(refusal(&bridge.refund(id)), "NotOpen()");
}

#[test]
fn an_intent_that_nobody_fills_is_refunded_after_its_deadline_and_not_before() {
    let mut bridge = Bridge::new();
    let intent = bridge.intent(1, 1_000, 990, 300);
    let id = intent.id();
    let signature = bridge.signature(&intent);
    assert!(bridge.open_for(0, &intent, signature).is_success());
    let last = u64::from(intent.fill_deadline) + u64::from(REFUND_DELAY);
    bridge.pass(last - 1);
    assert_eq!(refusal(&bridge.refund(id)), "TooEarly()", "in the last second");
    assert_eq!(bridge.origin.now(), last);
    assert_eq!(refusal(&bridge.fill(0, &intent, id)), "FillDeadlinePassed()");
    assert!(bridge.refund(id).is_success());
    assert_eq!(bridge.status(id), REFUNDED);
    assert_eq!(bridge.origin.balance(bridge.token_in, bridge.user.address()), U256::from(PURSE));
    assert_eq!(refusal(&bridge.refund(id)), "NotOpen()");
}

/// A token that keeps a hundredth of every transfer.
fn toll(fixture: &mut Fixture) -> Address {
    let name = Bytes::from_static(b"TOLL");
    fixture.create(BundledContract::FeeOnTransferToken, &(name.clone(), name, U256::from(6)).abi_encode_params())
}

#[test]
fn a_token_that_keeps_a_toll_is_neither_locked_nor_delivered() {
    let mut bridge = Bridge::new();
    let (into, out) = (toll(&mut bridge.origin), toll(&mut bridge.destination));
    let (user, relayer) = (bridge.user.clone(), bridge.relayers[0].clone());
    bridge.origin.fund(into, &user, U256::from(PURSE), &[PERMIT2, bridge.origin_settler]);
    bridge.destination.fund(out, &relayer, U256::from(PURSE), &[bridge.destination_settler]);

    // Less would be locked than the order states, with a signature or by the user's own call.
    let mut intent = bridge.intent(1, 1_000, 990, 300);
    intent.data.inputToken = into;
    let signature = bridge.signature(&intent);
    assert_eq!(refusal(&bridge.open_for(0, &intent, signature)), "NotExact()");
    let order = OnchainCrossChainOrder {
        fillDeadline: intent.fill_deadline,
        orderDataType: CrossChainIntent::data_type(),
        orderData: intent.data.abi_encode().into(),
    };
    let open = OriginSettler::openCall { order };
    assert_eq!(refusal(&bridge.origin.call(&user, bridge.origin_settler, &open, 1)), "NotExact()");
    assert_eq!(bridge.status(intent.id()), 0);
    assert_eq!(bridge.origin.balance(into, user.address()), U256::from(PURSE), "not even the toll is gone");

    // Less would arrive than requested: it counts as not delivered, nobody is repaid, and the user gets a refund.
    let mut intent = bridge.intent(2, 1_000, 990, 300);
    intent.data.outputToken = out;
    let id = intent.id();
    let signature = bridge.signature(&intent);
    assert!(bridge.open_for(0, &intent, signature).is_success());
    assert_eq!(refusal(&bridge.fill(0, &intent, id)), "NotExact()");
    assert_eq!(bridge.destination.balance(out, relayer.address()), U256::from(PURSE));
    bridge.pass(u64::from(intent.fill_deadline) + u64::from(REFUND_DELAY) + 1);
    assert!(bridge.refund(id).is_success());
    assert_eq!(bridge.status(id), REFUNDED);
    assert_eq!(bridge.origin.balance(bridge.token_in, user.address()), U256::from(PURSE));
}

#[test]
fn the_user_can_open_an_order_without_anybody() {
    let mut bridge = Bridge::new();
    let data = bridge.intent(1, 700, 690, 300).data;
    let order = OnchainCrossChainOrder {
        fillDeadline: u32::try_from(bridge.origin.now()).unwrap() + 600,
        orderDataType: CrossChainIntent::data_type(),
        orderData: data.abi_encode().into(),
    };
    let open = OriginSettler::openCall { order: order.clone() };
    let receipt = bridge.origin.call(&bridge.user, bridge.origin_settler, &open, 1);
    assert!(receipt.is_success(), "{}", refusal(&receipt));
    let opened = receipt.logs().iter().find_map(|log| OpenedIntent::decode(log).ok()).unwrap().order;
    assert_eq!((opened.user, opened.openDeadline), (bridge.user.address(), u32::MAX));
    let fill = DestinationSettler::fillCall {
        orderId: opened.orderId,
        originData: opened.fillInstructions[0].originData.clone(),
        // Repaid to another account than the filler.
        fillerData: bridge.relayers[1].address().abi_encode().into(),
    };
    assert!(bridge.destination.call(&bridge.relayers[0], bridge.destination_settler, &fill, 1).is_success());
    assert!(bridge.repay(opened.orderId).is_success());
    assert_eq!(bridge.origin.balance(bridge.token_in, bridge.relayers[1].address()), U256::from(700));
    let again = bridge.origin.call(&bridge.user, bridge.origin_settler, &open, 1);
    assert_eq!(refusal(&again), "AlreadyOpened()");
}

#[test]
fn what_the_contract_resolves_is_what_the_intent_says() {
    let bridge = Bridge::new();
    let intent = bridge.intent(77, 1_234, 1_200, 300);
    let call = OriginSettler::resolveForCall { order: intent.order(), originFillerData: Bytes::new() };
    let resolved = bridge.origin.ask(bridge.origin_settler, call);
    assert_eq!(resolved, intent.resolve(intent.deposit_id(), bridge.destination_settler.into_word()));
    assert_eq!(resolved.orderId, intent.id());
}

#[test]
fn a_changed_intent_does_not_open_with_the_signature_of_another() {
    let mut bridge = Bridge::new();
    let intent = bridge.intent(1, 1_000, 990, 300);
    let signature = bridge.signature(&intent);
    let changes: [Change; 6] = [
        |intent| intent.data.outputAmount = U256::from(1),
        |intent| intent.data.recipient = Address::repeat_byte(9).into_word(),
        |intent| intent.data.outputToken = Address::repeat_byte(9),
        |intent| intent.fill_deadline += 1,
        |intent| intent.nonce += U256::from(1),
        |intent| intent.data.depositNonce = U256::from(1),
    ];
    for change in changes {
        let mut changed = intent.clone();
        change(&mut changed);
        assert_eq!(refusal(&bridge.open_for(0, &changed, signature.clone())), "InvalidSigner()");
    }
    let settlers_own: [(Change, &str); 7] = [
        (|intent| intent.origin_settler = Address::repeat_byte(9), "WrongSettler()"),
        (|intent| intent.origin_chain_id = 1, "WrongChain()"),
        (|intent| intent.open_deadline = 1, "OpenDeadlinePassed()"),
        (|intent| intent.fill_deadline = 1, "FillDeadlinePassed()"),
        (|intent| intent.data.destinationChainId = U256::from(1), "UnknownDestination()"),
        (|intent| intent.data.message = Bytes::from_static(b"x"), "Unsupported()"),
        (|intent| intent.data.exclusivityPeriod = 1, "Unsupported()"),
    ];
    for (change, name) in settlers_own {
        let mut changed = intent.clone();
        change(&mut changed);
        assert!(!changed.faults(&bridge.expectation()).is_empty(), "{name}");
        let signature = bridge.signature(&changed);
        assert_eq!(refusal(&bridge.open_for(0, &changed, signature)), name);
    }
    assert!(bridge.open_for(0, &intent, signature).is_success());
}

#[test]
fn only_the_attester_repays_and_only_the_owner_names_destinations_once() {
    let mut bridge = Bridge::new();
    let intent = bridge.intent(1, 1_000, 990, 300);
    let id = intent.id();
    let signature = bridge.signature(&intent);
    assert!(bridge.open_for(0, &intent, signature).is_success());
    let steal = OriginSettler::repayCall { orderId: id, repayTo: bridge.relayers[0].address() };
    let receipt = bridge.origin.call(&bridge.relayers[0], bridge.origin_settler, &steal, 1);
    assert_eq!(refusal(&receipt), "NotAttester()");
    // The attester cannot repay anyone before the fill.
    assert_eq!(refusal(&bridge.repay(id)), "InvalidRecipient()");

    let set = |chain_id: u64| OriginSettler::setDestinationCall {
        chainId: U256::from(chain_id),
        settler: B256::repeat_byte(1),
    };
    let receipt = bridge.origin.call(&bridge.attester, bridge.origin_settler, &set(5), 1);
    assert_eq!(refusal(&receipt), "NotOwner()");
    let owner = bridge.origin.builder.clone();
    let receipt = bridge.origin.call(&owner, bridge.origin_settler, &set(DESTINATION), 1);
    assert_eq!(refusal(&receipt), "DestinationIsSet()");
}

#[test]
fn a_fill_must_be_of_the_order_it_names() {
    let mut bridge = Bridge::new();
    let intent = bridge.intent(1, 1_000, 990, 300);
    let mut cheaper = intent.clone();
    cheaper.data.outputAmount = U256::from(1);
    assert_eq!(refusal(&bridge.fill(0, &cheaper, intent.id())), "WrongOrder()");
    let mut elsewhere = intent.clone();
    elsewhere.data.destinationChainId = U256::from(ORIGIN);
    assert_eq!(refusal(&bridge.fill(0, &elsewhere, elsewhere.id())), "WrongOrder()");
    let mut dear = intent;
    dear.data.outputAmount = U256::from(PURSE + 1);
    assert_eq!(refusal(&bridge.fill(0, &dear, dear.id())), "NotMoved()");
}

/// A random action of a party.
#[derive(Debug, Clone)]
enum Action {
    /// The user signs another intent, and a relayer opens it.
    Open { relayer: usize, amount_in: u64, amount_out: u64, seconds: u32 },
    /// A relayer opens an old one again.
    Reopen { which: usize },
    /// A relayer fills, as far as it can.
    Fill { which: usize, relayer: usize },
    /// The attester reports what it sees.
    Repay { which: usize },
    /// Someone requests a refund.
    Refund { which: usize },
    /// Time passes by this many seconds.
    Pass { seconds: u64 },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (0..2_usize, 1..4_000_u64, 1..6_000_u64, 1..200_u32).prop_map(|(relayer, amount_in, amount_out, seconds)| {
            Action::Open { relayer, amount_in, amount_out, seconds }
        }),
        1 => (0..8_usize).prop_map(|which| Action::Reopen { which }),
        4 => (0..8_usize, 0..2_usize).prop_map(|(which, relayer)| Action::Fill { which, relayer }),
        3 => (0..8_usize).prop_map(|which| Action::Repay { which }),
        3 => (0..8_usize).prop_map(|which| Action::Refund { which }),
        2 => (1..400_u64).prop_map(|seconds| Action::Pass { seconds }),
    ]
}

/// Expected state of one intent in a simple model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    opened: bool,
    filled_by: Option<usize>,
    repaid: bool,
    refunded: bool,
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_token_is_made_or_lost_whatever_is_tried(actions in prop::collection::vec(action(), 1..40)) {
        let mut bridge = Bridge::new();
        let all = bridge.totals();
        let mut intents: Vec<CrossChainIntent> = Vec::new();
        let mut book: BTreeMap<usize, Entry> = BTreeMap::new();
        for action in actions {
            match action {
                Action::Open { relayer, amount_in, amount_out, seconds } => {
                    let intent = bridge.intent(u64::try_from(intents.len()).unwrap(), amount_in, amount_out, seconds);
                    let had = bridge.origin.balance(bridge.token_in, bridge.user.address());
                    let signature = bridge.signature(&intent);
                    let opened = bridge.open_for(relayer, &intent, signature).is_success();
                    prop_assert_eq!(opened, had >= intent.data.inputAmount);
                    book.insert(intents.len(), Entry { opened, ..Entry::default() });
                    intents.push(intent);
                }
                Action::Reopen { which } => {
                    if let Some(intent) = intents.get(which) && book[&which].opened {
                        let signature = bridge.signature(intent);
                        prop_assert!(!bridge.open_for(0, intent, signature).is_success());
                    }
                }
                Action::Fill { which, relayer } => {
                    if let Some(intent) = intents.get(which) {
                        let had = bridge.destination.balance(bridge.token_out, bridge.relayers[relayer].address());
                        let entry = book.get_mut(&which).unwrap();
                        let filled = bridge.fill(relayer, intent, intent.id()).is_success();
                        let in_time = bridge.destination.now() <= u64::from(intent.fill_deadline);
                        let expected = entry.filled_by.is_none() && in_time && had >= intent.data.outputAmount;
                        prop_assert_eq!(filled, expected);
                        if filled {
                            entry.filled_by = Some(relayer);
                        }
                    }
                }
                Action::Repay { which } => {
                    if let Some(intent) = intents.get(which) {
                        let entry = book.get_mut(&which).unwrap();
                        let repaid = bridge.repay(intent.id()).is_success();
                        let open = entry.opened && !entry.repaid && !entry.refunded;
                        prop_assert_eq!(repaid, open && entry.filled_by.is_some());
                        entry.repaid |= repaid;
                    }
                }
                Action::Refund { which } => {
                    if let Some(intent) = intents.get(which) {
                        let entry = book.get_mut(&which).unwrap();
                        let refunded = bridge.refund(intent.id()).is_success();
                        let open = entry.opened && !entry.repaid && !entry.refunded;
                        let late = bridge.origin.now() > u64::from(intent.fill_deadline) + u64::from(REFUND_DELAY);
                        prop_assert_eq!(refunded, open && late);
                        entry.refunded |= refunded;
                    }
                }
                Action::Pass { seconds } => {
                    let until = bridge.origin.now().max(bridge.destination.now()) + seconds;
                    bridge.pass(until);
                }
            }
            prop_assert_eq!(bridge.totals(), all);
        }

        // The settler holds the open intents' funds, and everyone has the model's balance.
        let sum = |counts: &dyn Fn(&Entry) -> bool, amount: &dyn Fn(&CrossChainIntent) -> U256| {
            let counted = book.iter().filter(|(_, entry)| counts(entry));
            counted.map(|(which, _)| amount(&intents[*which])).fold(U256::ZERO, |sum, amount| sum + amount)
        };
        let (paid_in, paid_out) = (|intent: &CrossChainIntent| intent.data.inputAmount, |intent: &CrossChainIntent| intent.data.outputAmount);
        let held = bridge.origin.balance(bridge.token_in, bridge.origin_settler);
        prop_assert_eq!(held, sum(&|entry| entry.opened && !entry.repaid && !entry.refunded, &paid_in));
        let user = bridge.origin.balance(bridge.token_in, bridge.user.address());
        prop_assert_eq!(user, U256::from(PURSE) - sum(&|entry| entry.opened && !entry.refunded, &paid_in));
        let received = bridge.destination.balance(bridge.token_out, bridge.user.address());
        prop_assert_eq!(received, sum(&|entry| entry.filled_by.is_some(), &paid_out));
        for (index, relayer) in bridge.relayers.iter().enumerate() {
            let repaid = bridge.origin.balance(bridge.token_in, relayer.address());
            prop_assert_eq!(repaid, sum(&|entry| entry.repaid && entry.filled_by == Some(index), &paid_in));
        }
    }
}

#[test]
fn calls_are_encoded_as_the_contract_reads_them() {
    let bridge = Bridge::new();
    let intent = bridge.intent(1, 5, 4, 300);
    let calldata = intent.open_for(Bytes::from_static(b"signature"), Bytes::new());
    let call = OriginSettler::openForCall::abi_decode(&calldata).unwrap();
    assert_eq!(CrossChainIntent::read(&call.order), Ok(intent));
}
