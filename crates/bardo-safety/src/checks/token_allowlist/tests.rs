//! Allowlists for orders, wrapped calls and calls without a function. `model` covers plain calls.

use std::path::Path;

use alloy::primitives::{Bytes, U256};

use super::*;
use crate::policy::parse;
use crate::proposal::{AllowanceBound, AllowanceKind, BridgeArrival, Outflow, SignedOrder};
use crate::sample;
use crate::signing_payload::{PayloadOrder, PayloadParts};
use crate::typed::TypedMessage;
use crate::value::UnknownValue;
use alloy::sol_types::SolCall as _;
use bardo_abi::erc20::Erc20;
use bardo_abi::erc7683::AcrossOrderData;
use bardo_base::model::{Phase, SpenderRole};
use golem_chain::network::{AddressBook, Network, named};
use golem_protocols::intents;

const ME: Address = Address::repeat_byte(1);
const SETTLER: Address = Address::repeat_byte(2);
const PERMIT2: Address = Address::repeat_byte(3);
const GIVEN: Address = Address::repeat_byte(4);
const WANTED: Address = Address::repeat_byte(5);
const STRANGER: Address = Address::repeat_byte(6);

#[test]
fn selectors_are_those_of_the_contracts() {
    // From the published interfaces of the Universal Router, Permit2 and ERC-20.
    for (contract, selector) in [
        (KnownContract::UniversalRouter, "0x3593564c"),
        (KnownContract::UniversalRouter, "0x24856bc3"),
        (KnownContract::Permit2, "0x87517c45"),
        (KnownContract::Permit2, "0xcc53287f"),
        (KnownContract::WrappedNative, "0xd0e30db0"),
    ] {
        assert!(SELECTORS[&contract].contains(&selector.parse().unwrap()), "{contract:?} {selector}");
    }
    assert_eq!(*TOKEN_SELECTORS, ["0x095ea7b3".parse::<FixedBytes<4>>().unwrap(), "0xa9059cbb".parse().unwrap()]);
}

/// A bridge order from a listed token to a listed one on the other chain, without transactions.
fn bridge() -> PayloadParts {
    let intent = intents::CrossChainIntent {
        origin_settler: SETTLER,
        user: ME,
        nonce: U256::from(1),
        origin_chain_id: 31_337,
        open_deadline: 1,
        fill_deadline: 2,
        data: AcrossOrderData {
            inputToken: GIVEN,
            inputAmount: U256::from(5),
            outputToken: WANTED,
            outputAmount: U256::from(5),
            destinationChainId: U256::from(31_338),
            recipient: ME.into_word(),
            exclusiveRelayer: Address::ZERO,
            depositNonce: U256::from(1),
            exclusivityPeriod: 0,
            message: Bytes::new(),
        },
    };
    let message = TypedMessage::CrossChainOrder { permit2: PERMIT2, intent: Box::new(intent) };
    let mut proposal = sample::proposal(ME, ProposalIntent::Bridge, sample::leg(ME, Bytes::new()));
    proposal.legs.clear();
    proposal.tool.spenders = &[SpenderRole::IntentSettler];
    proposal.outflows = vec![Outflow { token: sample::token(GIVEN, "IN", 6), amount: U256::from(5) }];
    let arrival = BridgeArrival {
        chain_id: 31_338,
        token: sample::token(WANTED, "OUT", 6),
        at_least: U256::from(5),
        expected: U256::from(5),
    };
    let order = SignedOrder { message: message.clone(), holder: STRANGER, arrival: Some(arrival) };
    proposal.order = Some(Box::new(order));
    PayloadParts { order: Some(PayloadOrder { message, signer: ME }), ..sample::frame(proposal) }
}

/// A call of the router in the address book that spends a listed token.
fn call() -> PayloadParts {
    let mut proposal = sample::proposal(ME, ProposalIntent::Swap, sample::leg(SETTLER, vec![0x35, 0x93, 0x56, 0x4c]));
    proposal.outflows = vec![Outflow { token: sample::token(GIVEN, "IN", 6), amount: U256::from(5) }];
    sample::frame(proposal)
}

/// Returns the violated rules under the demo policy with these extra lines, and the error code.
fn broken(frame: PayloadParts, book: &[(&str, Address)], policy: &str) -> (Vec<String>, Option<ErrorCode>) {
    let mut known = AddressBook::default();
    for (name, at) in book {
        known.set(name, *at);
    }
    let network = Network::devnet("ethereum", 31_337, known);
    let policy = parse(&format!("preset = \"demo\"\n{policy}"), Path::new("lists.toml")).unwrap();
    let payload = SigningPayload::new(frame).unwrap();
    let given = sample::token(GIVEN, "IN", 6);
    let inputs = CheckInputs {
        asked: false,
        now_millis: 1,
        block_time: 1,
        phase: Phase::Thriving,
        stop: None,
        tokens: [(given.id, given)].into(),
        values: Ok(Default::default()),
        portfolio: Ok(Default::default()),
        simulation: None,
    };
    let unread = UnknownValue::because("not asked");
    let context = PolicyContext::new(&policy, Err(&unread), Some(&network), &payload, &inputs);
    let verdict = check(&payload, &inputs, &context);
    (verdict.violations().iter().map(|one| one.rule.to_string()).collect(), verdict.code)
}

const BRIDGES: [(&str, Address); 2] = [("originSettler", SETTLER), ("permit2", PERMIT2)];
const ROUTES: [(&str, Address); 1] = [("universalRouter", SETTLER)];

#[test]
fn an_orders_settler_and_what_arrives_are_on_their_lists() {
    let only = |rule: &str, code| (vec![rule.to_owned()], Some(code));
    assert_eq!(broken(bridge(), &BRIDGES, ""), (vec![], None));
    let (not, no_token) = (ErrorCode::SafetyNotAllowed, ErrorCode::SafetyTokenNotAllowed);
    assert_eq!(broken(bridge(), &BRIDGES, "allowed_chains = [\"31337\"]"), only("allowed_chains", not));
    let listed = format!("allowed_tokens = [\"31337:{GIVEN}\"]");
    assert_eq!(broken(bridge(), &BRIDGES, &listed), only("allowed_tokens", no_token));
    let mut unlisted = bridge();
    unlisted.proposal.order.as_mut().unwrap().arrival.as_mut().unwrap().token.listed = false;
    assert_eq!(broken(unlisted, &BRIDGES, ""), only("allowed_tokens", no_token));
    let protocols = "allowed_protocols = [\"uniswap\"]";
    assert_eq!(broken(bridge(), &BRIDGES, protocols), only("allowed_protocols", not));
    // The settler differs from the address book's, so it is neither a known contract nor a known spender.
    let elsewhere = [("originSettler", STRANGER), ("permit2", PERMIT2)];
    assert_eq!(
        broken(bridge(), &elsewhere, ""),
        (vec!["allowed_contracts".to_owned(), "allowed_spenders".to_owned()], Some(not))
    );
}

#[test]
fn a_wrapped_call_is_wrapped_by_a_known_contract_for_a_listed_account() {
    let not = Some(ErrorCode::SafetyNotAllowed);
    assert_eq!(broken(call(), &ROUTES, ""), (vec![], None));
    let delegated = || PayloadParts { kind: AccountKind::Delegated, ..call() };
    assert_eq!(broken(delegated(), &ROUTES, ""), (vec![], None));
    let (listed, other) = (format!("safe_addresses = [\"{ME}\"]"), format!("safe_addresses = [\"{STRANGER}\"]"));
    assert_eq!(broken(delegated(), &ROUTES, &listed), (vec![], None));
    assert_eq!(broken(delegated(), &ROUTES, &other), (vec!["safe_addresses".to_owned()], not));
    assert_eq!(broken(call(), &ROUTES, &other), (vec![], None), "a key of its own is no delegate");
    let wrapped = |by: Address| {
        let mut frame = delegated();
        frame.legs[0].to = by;
        frame
    };
    let book = [("universalRouter", SETTLER), ("delegationManager", PERMIT2)];
    assert_eq!(broken(wrapped(PERMIT2), &book, ""), (vec![], None));
    assert_eq!(broken(wrapped(STRANGER), &book, ""), (vec!["allowed_contracts".to_owned()], not));
    // A Safe wraps its own calls, and only exactly these.
    let by_safe = |changed: u8| {
        let mut frame = PayloadParts { kind: AccountKind::Safe, ..call() };
        let mut data = safe::execution(frame.legs[0].from, &frame.proposal.legs[0]).to_vec();
        // The last byte of the operation: 1 is a delegate call.
        data[4 + 4 * 32 - 1] = changed;
        (frame.legs[0].to, frame.legs[0].data) = (ME, data.into());
        frame
    };
    assert_eq!(broken(by_safe(0), &ROUTES, ""), (vec![], None));
    assert_eq!(broken(by_safe(0), &ROUTES, &listed), (vec![], None));
    assert_eq!(broken(by_safe(0), &ROUTES, &other), (vec!["safe_addresses".to_owned()], not));
    assert_eq!(broken(by_safe(1), &ROUTES, ""), (vec!["allowed_contracts".to_owned()], not));
}

#[test]
fn a_call_without_a_function_only_sends_the_coin() {
    let bare = |intent| {
        let mut frame = call();
        frame.proposal.intent = intent;
        frame.proposal.legs[0].data = Bytes::new();
        frame.legs[0].data = Bytes::new();
        frame
    };
    assert_eq!(broken(bare(ProposalIntent::Transfer), &ROUTES, ""), (vec![], None));
    assert_eq!(broken(bare(ProposalIntent::Swap), &ROUTES, "").0, ["allowed_contracts"]);
}

#[test]
fn a_function_is_one_of_the_list_and_named_whole() {
    let calling = |data: &'static [u8]| {
        let mut frame = call();
        frame.proposal.legs[0].data = Bytes::from_static(data);
        frame.legs[0].data = Bytes::from_static(data);
        frame
    };
    let (whole, one) = (
        format!("allowed_contracts = [\"31337:{SETTLER}\"]"),
        format!("allowed_contracts = [\"31337:{SETTLER}:0xdeadbeef\"]"),
    );
    let (unknown, cut): (&[u8], &[u8]) = (&[0xde, 0xad, 0xbe, 0xef], &[0x35, 0x93, 0x56]);
    assert_eq!(broken(calling(unknown), &ROUTES, "").0, ["allowed_contracts"], "no function of the book");
    for policy in [whole.as_str(), one.as_str(), "allowed_contracts = \"all\""] {
        assert_eq!(broken(calling(unknown), &ROUTES, policy), (vec![], None), "{policy}");
        // Three bytes are not a function selector, whatever is allowed.
        assert_eq!(broken(calling(cut), &ROUTES, policy).0, ["allowed_contracts"], "{policy}");
    }
    // A list with another function does not include this one.
    assert_eq!(broken(call(), &ROUTES, &one).0, ["allowed_contracts"]);
}

/// An allowance of five for `spender`, by a tool without spender roles.
fn allowance(spender: Address) -> PayloadParts {
    let call = Erc20::approveCall { spender, value: U256::from(5) };
    let mut proposal = sample::proposal(ME, ProposalIntent::Approve, sample::leg(GIVEN, call.abi_encode()));
    proposal.allowances = vec![AllowanceBound {
        token: sample::token(GIVEN, "IN", 6),
        spender,
        kind: AllowanceKind::Erc20,
        at_most: U256::from(5),
    }];
    sample::frame(proposal)
}

#[test]
fn of_every_book_only_roles_that_take_tokens_get_an_allowance() {
    // Written by hand, from what each contract does with tokens.
    let takes = [
        "permit2",
        "universalRouter",
        "universalRouterV2_1_0",
        "universalRouterV2_1_1",
        "universalRouterV2_1_2",
        "universalRouterV2_2_0",
        "swapRouter02",
        "v2Router",
        "v3PositionManager",
        "v4PositionManager",
        "aavePool",
        "vault",
        "feeReleaser",
    ];
    let mut walked = 0;
    for network in named() {
        for (contract, at) in network.book.contracts() {
            walked += 1;
            let entry = [(contract.key(), at)];
            let book: Vec<(&str, Address)> = entry.iter().map(|(key, at)| (key.as_str(), *at)).collect();
            let expected = takes.contains(&contract.key().as_str());
            // Neither a list nor "all" allows a contract that must not take tokens.
            for policy in ["", "allowed_spenders = \"all\""] {
                let (rules, _) = broken(allowance(at), &book, policy);
                assert_eq!(rules.is_empty(), expected, "{} on {}: {rules:?}", contract.key(), network.name);
                assert!(expected || rules.contains(&"spender_role".to_owned()), "{}: {rules:?}", contract.key());
            }
            let listed = format!("preset = \"demo\"\nallowed_spenders = [\"{at}\"]");
            // Those that only the tools take that declare them.
            let signs = [
                "v2DutchReactor",
                "v3DutchReactor",
                "priorityReactor",
                "dutchReactor",
                "originSettler",
                "acrossSpokePool",
            ];
            let loads = parse(&listed, Path::new("listed.toml")).is_ok();
            // Some addresses hold different contracts on different chains, and a list names no chain.
            let elsewhere = named().iter().any(|other| {
                let mut roles = other.book.contracts().filter(|(_, there)| *there == at).map(|(role, _)| role.key());
                roles.any(|role| takes.contains(&role.as_str()) || signs.contains(&role.as_str()))
            });
            assert_eq!(loads, elsewhere, "{}", contract.key());
            if loads && !expected {
                let (rules, _) = broken(allowance(at), &book, &format!("allowed_spenders = [\"{at}\"]"));
                assert_eq!(rules, ["spender_role"], "{}", contract.key());
            }
        }
    }
    assert!(walked > 150, "{walked}");
}

#[test]
fn an_allowance_that_only_the_bytes_tell_is_found() {
    let mut frame = allowance(STRANGER);
    frame.proposal.allowances.clear();
    assert_eq!(broken(frame.clone(), &[("multicall3", STRANGER)], "").0, ["spender_role", "allowed_spenders"]);
    assert_eq!(broken(frame, &[], "").0, ["allowed_spenders"]);
}

#[test]
fn an_order_contract_gets_no_allowance_even_from_its_own_tool() {
    let mut frame = allowance(SETTLER);
    frame.proposal.tool.spenders = &[SpenderRole::IntentSettler];
    assert!(broken(frame, &BRIDGES, "").0.contains(&"spender_role".to_owned()));
    let mut other_tool = bridge();
    other_tool.proposal.tool.spenders = &[];
    assert!(broken(other_tool, &BRIDGES, "").0.contains(&"spender_role".to_owned()));
}

#[test]
fn nothing_is_sent_to_an_entry_of_the_book() {
    let mut frame = call();
    frame.proposal.recipients = vec![ME, STRANGER];
    assert_eq!(broken(frame.clone(), &ROUTES, ""), (vec![], None));
    let book = [("universalRouter", SETTLER), ("multicall3", STRANGER)];
    assert_eq!(broken(frame, &book, "").0, ["recipient_role"]);
}
