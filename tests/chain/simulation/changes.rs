//! Changes that the simulation reports, for honest and for deceptive tokens.

use alloy::eips::eip7702::Authorization;
use alloy::primitives::{
    Address, B256, KECCAK256_EMPTY, U256,
    aliases::{I24, U24, U48, U160, U192},
    keccak256,
};
use alloy::sol;
use alloy::sol_types::SolValue;
use bardo::abi::erc20::{Erc20, OpenMint, Weth9};
use bardo::abi::erc4337::EntryPointNonces;
use bardo::abi::nft::Erc721;
use bardo::abi::permit2::Permit2;
use bardo::abi::uniswap_v3::NonfungiblePositionManager;
use bardo::chain::devnet::WorldState;
use bardo::chain::evm::{self, CheckMode};
use bardo::chain::fork::{
    CallFees, CodeDelegation, DetectionGap, DetectionLimits, ExecutionStatus, ForkCall, ForkError, GasPayment,
    Permit2Allowance, QueryFailure, RevertReason, SimulationOptions, ValueChange, WatchList, WriteExplanation,
};
use bardo::sandbox::contracts::{BundledContract, ENTRY_POINT};
use revm::context::TxEnv;

use futures::FutureExt as _;

use crate::simulation::world::{ALICE, BOB, CAROL, RULES, TestHarness, block_on, call, ether, odd};

sol! {
    interface Odd {
        function transfer(address victim, address to, address claimed) external;
        function poke(uint256 slot, uint256 value) external;
        function move(address to, uint256 id, uint256 value) external;
        function useNonce(address owner) external;
        function approve(address to, uint256 id) external;
        function message() external;
        function divide() external;
        function custom() external;
        function loop() external;
        function lend(address owner, address to, uint256 value) external;
        function entitle(address owner, address token, address to, uint256 value) external;
        function hold(address owner, uint256 id, uint256 value) external;
        function deposit(address owner, uint256 value) external;
        function transferNoted(address to, uint256 value) external;
    }
}

fn number(n: u64) -> U256 {
    U256::from(n)
}

fn moved<T>(before: T, after: T) -> ValueChange<T> {
    ValueChange { before, after }
}

/// Well-behaved token, with 1000 units held by the first account.
fn token(world: &mut TestHarness) -> Address {
    let arguments = ("Mock".to_string(), "MOCK".to_string(), U256::from(18)).abi_encode_params();
    let token = world.deploy(BundledContract::MockERC20.creation(&arguments).expect("bundled"));
    world.send(ALICE, token, OpenMint::mintCall { to: ALICE, value: number(1000) });
    token
}

#[test]
fn a_transfer_changes_two_balances_and_every_write_is_explained() {
    let mut world = TestHarness::new();
    let token = token(&mut world);
    let simulation = world.simulate(&[call(ALICE, token, Erc20::transferCall { to: BOB, value: number(30) })]);
    let changes = &simulation.changes;
    assert!(simulation.succeeded());
    assert!(changes.complete());
    assert_eq!(changes.balance(token, ALICE), Some(moved(number(1000), number(970))));
    assert_eq!(changes.balance(token, BOB), Some(moved(number(0), number(30))));
    assert_eq!(changes.balances.len(), 2);
    assert!(changes.allowances.is_empty());
    assert_eq!(changes.writes.len(), 2);
    assert_eq!(changes.unexplained().count(), 0);
    assert_eq!(simulation.outcomes[0].logs.len(), 1);
    // No gas was paid, but a transaction was sent.
    let sender = changes.account(ALICE).expect("the sender changed");
    assert!(!sender.balance.moved());
    assert_eq!(sender.nonce.after, sender.nonce.before + 1);
}

#[test]
fn an_approval_is_reported_with_its_allowance() {
    let mut world = TestHarness::new();
    let token = token(&mut world);
    let plan = [
        call(ALICE, token, Erc20::approveCall { spender: BOB, value: number(50) }),
        call(BOB, token, Erc20::transferFromCall { from: ALICE, to: CAROL, value: number(20) }),
    ];
    let simulation = world.simulate(&plan);
    assert!(simulation.succeeded(), "{:?}", simulation.failure());
    let total = &simulation.changes;
    assert_eq!(total.allowance(token, ALICE, BOB), Some(moved(number(0), number(30))));
    assert_eq!(total.balance(token, CAROL), Some(moved(number(0), number(20))));
    assert_eq!(total.unexplained().count(), 0);
    let first = simulation.changes_of(0).expect("two calls");
    assert_eq!(first.allowance(token, ALICE, BOB), Some(moved(number(0), number(50))));
    assert!(first.balances.is_empty());
    assert_eq!(first.unexplained().count(), 0);
    let second = simulation.changes_of(1).expect("two calls");
    assert_eq!(second.allowance(token, ALICE, BOB), Some(moved(number(50), number(30))));
    assert_eq!(second.balance(token, ALICE), Some(moved(number(1000), number(980))));
    assert_eq!(second.unexplained().count(), 0);
    assert!(simulation.changes_of(2).is_none());
}

#[test]
fn minting_raises_the_supply() {
    let mut world = TestHarness::new();
    let token = token(&mut world);
    let changes = world.simulate(&[call(BOB, token, OpenMint::mintCall { to: CAROL, value: number(5) })]).changes;
    assert_eq!(changes.balance(token, CAROL), Some(moved(number(0), number(5))));
    let [supply] = changes.supplies.as_slice() else { panic!("{changes:?}") };
    assert_eq!((supply.token, supply.supply), (token, moved(number(1000), number(1005))));
    assert_eq!(changes.unexplained().count(), 0);
}

#[test]
fn wrapping_turns_native_balance_into_tokens() {
    let mut world = TestHarness::new();
    let weth = world.deploy(BundledContract::Weth9.code().expect("bundled"));
    let simulation = world.simulate(&[call(ALICE, weth, Weth9::depositCall {}).with_value(ether(3))]);
    let changes = &simulation.changes;
    assert_eq!(changes.balance(weth, ALICE), Some(moved(number(0), ether(3))));
    assert_eq!(changes.account(weth).expect("received ether").balance, moved(number(0), ether(3)));
    assert_eq!(changes.account(ALICE).expect("sent ether").balance, moved(ether(100), ether(97)));
    assert_eq!(changes.unexplained().count(), 0);
}

#[test]
fn permit2_allowances_and_nonces_are_read() {
    let mut world = TestHarness::new();
    let token = token(&mut world);
    let permit2 = world.deploy(BundledContract::Permit2.code().expect("bundled"));
    let approve =
        Permit2::approveCall { token, spender: BOB, amount: U160::from(77), expiration: U48::from(1_900_000_000) };
    let cancel = Permit2::invalidateUnorderedNoncesCall { wordPos: number(5), mask: number(0b101) };
    let simulation = world.simulate(&[call(ALICE, permit2, approve), call(ALICE, permit2, cancel)]);
    assert!(simulation.succeeded());
    let changes = &simulation.changes;
    assert_eq!(changes.unexplained().count(), 0, "{:?}", changes.writes);
    let [allowance] = changes.permit2_allowances.as_slice() else { panic!("{changes:?}") };
    assert_eq!((allowance.permit2, allowance.owner, allowance.token, allowance.spender), (permit2, ALICE, token, BOB));
    assert_eq!(allowance.allowance.before, Permit2Allowance::default());
    assert_eq!(allowance.allowance.after, Permit2Allowance { amount: number(77), expiration: 1_900_000_000, nonce: 0 });
    let [word] = changes.permit2_nonces.as_slice() else { panic!("{changes:?}") };
    assert_eq!((word.owner, word.word, word.bits), (ALICE, number(5), moved(number(0), number(5))));
}

#[test]
fn operators_of_the_position_manager_are_read() {
    let mut world = TestHarness::new();
    let arguments = (Address::repeat_byte(1), Address::repeat_byte(2), Address::repeat_byte(3)).abi_encode_params();
    let positions = world.deploy(BundledContract::NonfungiblePositionManager.creation(&arguments).expect("bundled"));
    let approve = Erc721::setApprovalForAllCall { operator: BOB, approved: true };
    let simulation = world.simulate(&[call(ALICE, positions, approve)]);
    let [operator] = simulation.changes.operators.as_slice() else { panic!("{:?}", simulation.changes) };
    assert_eq!((operator.collection, operator.owner, operator.operator), (positions, ALICE, BOB));
    assert_eq!(operator.approved, moved(false, true));
    assert_eq!(simulation.changes.unexplained().count(), 0);
}

#[test]
fn a_token_without_events_hides_nothing() {
    let mut world = TestHarness::new();
    let token = world.deploy(odd!("SilentToken", (ALICE, number(10)).abi_encode_params()));
    let plan = [
        call(ALICE, token, Erc20::transferCall { to: BOB, value: number(4) }),
        call(ALICE, token, Erc20::approveCall { spender: CAROL, value: U256::MAX }),
    ];
    let simulation = world.simulate(&plan);
    let changes = &simulation.changes;
    assert_eq!(changes.balance(token, ALICE), Some(moved(number(10), number(6))));
    assert_eq!(changes.balance(token, BOB), Some(moved(number(0), number(4))));
    assert_eq!(changes.allowance(token, ALICE, CAROL), Some(moved(number(0), U256::MAX)));
    assert_eq!(changes.unexplained().count(), 0);
    assert!(changes.complete());
}

#[test]
fn forged_events_convince_nobody() {
    let mut world = TestHarness::new();
    let token = world.deploy(odd!("ForgingToken", (CAROL, number(10)).abi_encode_params()));
    // The event names BOB as payer; CAROL paid.
    let steal = Odd::transferCall { victim: CAROL, to: ALICE, claimed: BOB };
    let simulation = world.simulate(&[call(ALICE, token, steal)]);
    let changes = &simulation.changes;
    assert_eq!(changes.balance(token, CAROL), Some(moved(number(10), number(0))));
    assert_eq!(changes.balance(token, ALICE), Some(moved(number(0), number(10))));
    assert_eq!(changes.balance(token, BOB), None);
    assert_eq!(changes.unexplained().count(), 0);
}

#[test]
fn packed_hashes_of_storage_keys_are_recognised() {
    let mut world = TestHarness::new();
    let token = world.deploy(odd!("TightToken", (ALICE, number(10)).abi_encode_params()));
    let plan = [
        call(ALICE, token, Erc20::transferCall { to: BOB, value: number(4) }),
        call(ALICE, token, Erc20::approveCall { spender: CAROL, value: number(9) }),
    ];
    let changes = world.simulate(&plan).changes;
    assert_eq!(changes.balance(token, BOB), Some(moved(number(0), number(4))));
    assert_eq!(changes.allowance(token, ALICE, CAROL), Some(moved(number(0), number(9))));
    assert_eq!(changes.unexplained().count(), 0);
}

#[test]
fn the_reverse_order_of_hashing_is_recognised() {
    let mut world = TestHarness::new();
    let token = world.deploy(odd!("ReversedToken", (ALICE, number(10)).abi_encode_params()));
    let changes = world.simulate(&[call(ALICE, token, Erc20::approveCall { spender: BOB, value: number(9) })]).changes;
    assert_eq!(changes.allowance(token, ALICE, BOB), Some(moved(number(0), number(9))));
    assert_eq!(changes.unexplained().count(), 0);
}

#[test]
fn a_proxy_is_the_token() {
    let mut world = TestHarness::new();
    let code = world.deploy(odd!("SilentToken", (CAROL, number(1)).abi_encode_params()));
    let proxy = world.deploy(odd!("Proxy", (code, ALICE, number(10)).abi_encode_params()));
    let changes = world.simulate(&[call(ALICE, proxy, Erc20::transferCall { to: BOB, value: number(4) })]).changes;
    assert_eq!(changes.balance(proxy, ALICE), Some(moved(number(10), number(6))));
    assert_eq!(changes.balance(proxy, BOB), Some(moved(number(0), number(4))));
    assert_eq!(changes.balances.len(), 2);
    assert_eq!(changes.unexplained().count(), 0);
}

#[test]
fn balances_stored_in_another_contract_are_found() {
    let mut world = TestHarness::new();
    let books = world.deploy(odd!("Books", []));
    let token = world.deploy(odd!("SplitToken", (books, ALICE, number(10)).abi_encode_params()));
    let changes = world.simulate(&[call(ALICE, token, Erc20::transferCall { to: BOB, value: number(4) })]).changes;
    assert_eq!(changes.balance(token, ALICE), Some(moved(number(10), number(6))));
    assert_eq!(changes.balance(token, BOB), Some(moved(number(0), number(4))));
    // The rest is the token's own counter.
    let left: Vec<_> = changes.unexplained().collect();
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].account, left[0].slot), (token, U256::ZERO));
}

#[test]
fn a_token_that_does_not_answer_makes_the_report_incomplete() {
    for (manner, failure) in [(0u64, QueryFailure::Reverted), (1, QueryFailure::OutOfGas), (2, QueryFailure::Malformed)]
    {
        let mut world = TestHarness::new();
        let token = world.deploy(odd!("MuteToken", (number(manner),).abi_encode_params()));
        let changes = world.simulate(&[call(ALICE, token, Erc20::transferCall { to: BOB, value: number(4) })]).changes;
        assert!(!changes.complete());
        let asked: Vec<_> = changes.unreadable.iter().map(|entry| entry.question.clone()).collect();
        assert!(asked.contains(&format!("balanceOf({ALICE})")), "{asked:?}");
        assert!(asked.contains(&format!("balanceOf({BOB})")), "{asked:?}");
        assert!(changes.unreadable.iter().all(|entry| entry.contract == token && entry.failure == failure));
    }
}

/// Simulates one call with a silent contract: completeness of the report, and unanswered requests.
fn silence(world: &TestHarness, call: ForkCall) -> (bool, Vec<String>) {
    let simulation = world.simulate(&[call]);
    assert!(simulation.succeeded(), "{:?}", simulation.failure());
    let changes = simulation.changes;
    (changes.complete(), changes.unreadable.into_iter().map(|entry| entry.question).collect())
}

#[test]
fn an_unexplained_write_about_an_account_makes_the_report_incomplete() {
    let mut world = TestHarness::new();
    let register = world.deploy(odd!("MuteRegister", []));
    let token = token(&mut world);
    // For any sender, including the contract itself: a disguised allowance may be in any slot.
    let lend = Odd::lendCall { owner: ALICE, to: BOB, value: number(5) };
    let expected = (false, vec![format!("allowance({ALICE}, {BOB})")]);
    assert_eq!(silence(&world, call(ALICE, register, lend.clone())), expected);
    assert_eq!(silence(&world, call(CAROL, register, lend)), expected);
    let entitle = Odd::entitleCall { owner: ALICE, token, to: BOB, value: number(5) };
    let expected = (false, vec![format!("allowance({ALICE}, {token}, {BOB})")]);
    assert_eq!(silence(&world, call(ALICE, register, entitle)), expected);
    let hold = Odd::holdCall { owner: BOB, id: number(3), value: number(5) };
    let expected = (false, vec![format!("balanceOf({BOB}, 3)")]);
    assert_eq!(silence(&world, call(ALICE, register, hold)), expected);
    let deposit = Odd::depositCall { owner: BOB, value: number(5) };
    assert_eq!(silence(&world, call(ALICE, register, deposit)), (false, vec![format!("balanceOf({BOB})")]));
    // Relations between contracts are nobody's asset.
    let lend = Odd::lendCall { owner: token, to: BOB, value: number(5) };
    assert_eq!(silence(&world, call(ALICE, register, lend)), (true, vec![]));
    // A declared owner counts even if it is a contract.
    let lend = call(ALICE, register, Odd::lendCall { owner: token, to: BOB, value: number(5) });
    let watch = WatchList { owners: vec![token], ..WatchList::default() };
    assert!(
        !world.simulate_with(&[lend], &SimulationOptions { watch, ..SimulationOptions::default() }).changes.complete()
    );
    // An account with delegated code still belongs to a person.
    world.state.set_code(CAROL, [&[0xef, 0x01, 0x00], token.as_slice()].concat().into()).expect("a designator");
    let lend = Odd::lendCall { owner: CAROL, to: BOB, value: number(5) };
    assert!(!silence(&world, call(ALICE, register, lend)).0);
}

#[test]
fn each_call_is_incomplete_only_through_its_own_writes() {
    let mut world = TestHarness::new();
    let register = world.deploy(odd!("MuteRegister", []));
    let token = token(&mut world);
    let simulation = world.simulate(&[
        call(ALICE, token, Erc20::transferCall { to: BOB, value: number(30) }),
        call(ALICE, register, Odd::lendCall { owner: ALICE, to: BOB, value: number(5) }),
    ]);
    assert!(simulation.changes_of(0).expect("two calls").complete());
    assert!(!simulation.changes_of(1).expect("two calls").complete());
    assert!(!simulation.changes.complete());
}

#[test]
fn an_approval_a_collection_does_not_report_makes_the_report_incomplete() {
    let mut world = TestHarness::new();
    let collection = world.deploy(odd!("MuteCollection", (ALICE, number(7)).abi_encode_params()));
    let approve = Odd::approveCall { to: CAROL, id: number(7) };
    assert_eq!(silence(&world, call(ALICE, collection, approve)), (false, vec!["getApproved(7)".to_owned()]));
    // Nobody owns this one, so no token can be taken.
    let approve = Odd::approveCall { to: CAROL, id: number(8) };
    assert_eq!(silence(&world, call(ALICE, collection, approve)), (true, vec![]));
}

#[test]
fn other_records_of_a_token_leave_the_report_complete() {
    let mut world = TestHarness::new();
    let token = world.deploy(odd!("VotingToken", (ALICE, number(10)).abi_encode_params()));
    let transfer = Odd::transferNotedCall { to: BOB, value: number(4) };
    let simulation = world.simulate(&[call(ALICE, token, transfer)]);
    assert_eq!(simulation.changes.balance(token, BOB), Some(moved(number(0), number(4))));
    assert!(simulation.changes.unexplained().count() > 0, "the checkpoints");
    assert!(simulation.changes.complete(), "{:?}", simulation.changes.unreadable);
}

#[test]
fn pools_and_positions_leave_the_report_complete() {
    let (world, market) = TestHarness::with_market();
    let positions = market.positions;
    let [token0, token1] = market.tokens;
    let create = NonfungiblePositionManager::createAndInitializePoolIfNecessaryCall {
        token0,
        token1,
        fee: U24::from(500),
        sqrtPriceX96: U160::from(1) << 96,
    };
    let params = |fee: u32| NonfungiblePositionManager::MintParams {
        token0,
        token1,
        fee: U24::from(fee),
        tickLower: I24::try_from(-1_200).expect("a tick"),
        tickUpper: I24::try_from(1_200).expect("a tick"),
        amount0Desired: ether(100),
        amount1Desired: ether(100),
        amount0Min: U256::ZERO,
        amount1Min: U256::ZERO,
        recipient: ALICE,
        deadline: U256::MAX,
    };
    let plan = [
        market.swap(ALICE, market.deep()),
        call(ALICE, positions, create).with_gas_limit(10_000_000),
        call(ALICE, positions, NonfungiblePositionManager::mintCall { params: params(500) }),
        call(ALICE, positions, NonfungiblePositionManager::mintCall { params: params(3_000) }),
        call(ALICE, positions, Odd::approveCall { to: BOB, id: number(1) }),
        call(ALICE, positions, Erc721::transferFromCall { from: ALICE, to: CAROL, tokenId: number(2) }),
    ];
    let simulation = world.simulate(&plan);
    assert!(simulation.succeeded(), "{:?}", simulation.failure());
    for step in 0..plan.len() {
        let changes = simulation.changes_of(step).expect("a step");
        assert!(changes.complete(), "call {step}: {:?} {:?}", changes.gaps, changes.unreadable);
    }
    assert!(simulation.changes.complete());
    assert_eq!(simulation.changes.balance(positions, ALICE), Some(moved(number(3), number(4))));
}

#[test]
fn a_slot_without_a_hash_is_attributed_to_its_holder_or_left_unexplained() {
    let mut world = TestHarness::new();
    let token = world.deploy(odd!("Poker", (ALICE, number(10)).abi_encode_params()));
    // The balance of ALICE is at keccak(ALICE ‖ 1); no execution computes that hash.
    let slot = U256::from_be_bytes(keccak256((ALICE, number(1)).abi_encode()).0);
    let changes = world.simulate(&[call(BOB, token, Odd::pokeCall { slot, value: number(1) })]).changes;
    // BOB sends and ALICE is not involved: the slot's owner is unknown, so it is reported unnamed.
    assert_eq!(changes.unexplained().count(), 1);
    // With ALICE declared it has a name.
    let watch = WatchList { tokens: vec![token], owners: vec![ALICE, CAROL], spenders: vec![] };
    let options = SimulationOptions { watch, ..SimulationOptions::default() };
    let changes = world.simulate_with(&[call(BOB, token, Odd::pokeCall { slot, value: number(1) })], &options).changes;
    assert_eq!(changes.balance(token, ALICE), Some(moved(number(10), number(1))));
    assert_eq!(changes.unexplained().count(), 0);
    // Declared pairs are reported even if nothing moved.
    assert_eq!(changes.balance(token, CAROL), Some(moved(number(0), number(0))));
    // A sender is always queried.
    let changes = world.simulate(&[call(ALICE, token, Odd::pokeCall { slot, value: number(1) })]).changes;
    assert_eq!(changes.balance(token, ALICE), Some(moved(number(10), number(1))));
    // A slot that nothing reads has no explanation; the report names the account it concerns.
    let slot = U256::from_be_bytes(ALICE.into_word().0);
    let changes = world.simulate(&[call(BOB, token, Odd::pokeCall { slot, value: number(1) })]).changes;
    let [write] = changes.writes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(write.explained, WriteExplanation::No);
    assert!(write.concerns(ALICE) && write.concerns(token) && !write.concerns(CAROL));
}

#[test]
fn a_balance_computed_from_a_slot_explains_it_partly() {
    let mut world = TestHarness::new();
    let token = world.deploy(odd!("ScaledToken", (ALICE, number(100)).abi_encode_params()));
    let changes = world.simulate(&[call(ALICE, token, Erc20::transferCall { to: BOB, value: number(40) })]).changes;
    assert_eq!(changes.balance(token, ALICE), Some(moved(number(50), number(30))));
    assert!(changes.writes.iter().all(|write| write.explained == WriteExplanation::Partly));
    assert_eq!(changes.unexplained().count(), 2);
}

#[test]
fn erc721_tokens_are_tracked_without_events() {
    let mut world = TestHarness::new();
    let collection = world.deploy(odd!("SilentCollection", (ALICE, number(7)).abi_encode_params()));
    let plan = [
        call(ALICE, collection, Odd::approveCall { to: CAROL, id: number(7) }),
        call(ALICE, collection, Erc721::setApprovalForAllCall { operator: CAROL, approved: true }),
        call(CAROL, collection, Erc721::transferFromCall { from: ALICE, to: BOB, tokenId: number(7) }),
    ];
    let changes = world.simulate(&plan).changes;
    assert_eq!(changes.balance(collection, ALICE), Some(moved(number(1), number(0))));
    assert_eq!(changes.balance(collection, BOB), Some(moved(number(0), number(1))));
    let [owner] = changes.nft_owners.as_slice() else { panic!("{changes:?}") };
    assert_eq!((owner.id, owner.who), (number(7), moved(ALICE, BOB)));
    let [approved] = changes.nft_approvals.as_slice() else { panic!("{changes:?}") };
    assert_eq!(approved.who, moved(Address::ZERO, CAROL));
    let [operator] = changes.operators.as_slice() else { panic!("{changes:?}") };
    assert_eq!((operator.operator, operator.approved), (CAROL, moved(false, true)));
    assert_eq!(changes.unexplained().count(), 0);
}

#[test]
fn erc1155_tokens_and_permit_nonces_are_tracked_without_events() {
    let mut world = TestHarness::new();
    let kinds = world.deploy(odd!("SilentKinds", (ALICE, number(3), number(10)).abi_encode_params()));
    let counter = world.deploy(odd!("PermitCounter", []));
    let plan = [
        call(ALICE, kinds, Odd::moveCall { to: BOB, id: number(3), value: number(4) }),
        call(ALICE, counter, Odd::useNonceCall { owner: CAROL }),
    ];
    let changes = world.simulate(&plan).changes;
    let mut held: Vec<_> = changes.multi_balances.iter().map(|entry| (entry.holder, entry.id, entry.balance)).collect();
    held.sort_by_key(|(holder, ..)| *holder);
    assert_eq!(held, [(BOB, number(3), moved(number(0), number(4))), (ALICE, number(3), moved(number(10), number(6)))]);
    let [nonce] = changes.permit_nonces.as_slice() else { panic!("{changes:?}") };
    assert_eq!((nonce.owner, nonce.nonce), (CAROL, moved(number(0), number(1))));
    assert_eq!(changes.unexplained().count(), 0);
}

#[test]
fn entry_point_nonces_leave_the_report_complete_and_those_of_a_lookalike_do_not() {
    let mut world = TestHarness::new();
    let lookalike = world.deploy(BundledContract::EntryPoint.creation(&[]).expect("bundled"));
    let code = world.state.code(lookalike);
    world.state.set_code(ENTRY_POINT, code).expect("sound code");
    // A 192-bit key that is not an address, and the usual key.
    for key in [U192::from(9) << 170, U192::ZERO] {
        let use_one = EntryPointNonces::incrementNonceCall { key };
        world.send(ALICE, ENTRY_POINT, use_one.clone());
        let changes = world.simulate(&[call(ALICE, ENTRY_POINT, use_one.clone())]).changes;
        assert!(changes.complete(), "{changes:?}");
        assert_eq!(changes.unexplained().count(), 0);
        let [found] = changes.account_nonces.as_slice() else { panic!("{changes:?}") };
        assert_eq!((found.entry_point, found.account, found.key), (ENTRY_POINT, ALICE, key));
        // The sequence's key above, its position in the 64 bits below.
        let above = U256::from(key) << 64;
        assert_eq!(found.nonce, moved(above + number(1), above + number(2)));
        // The same contract at another address: its own statement about an account is not trusted.
        let changes = world.simulate(&[call(ALICE, lookalike, use_one)]).changes;
        assert!(!changes.complete() && changes.account_nonces.is_empty(), "{changes:?}");
    }
}

#[test]
fn revert_reasons_are_decoded() {
    let mut world = TestHarness::new();
    let failing = world.deploy(odd!("Failing", []));
    let status = |call: ForkCall| {
        let mut simulation = world.simulate(&[call]);
        assert!(!simulation.succeeded());
        assert!(simulation.changes.writes.is_empty());
        simulation.outcomes.remove(0).status
    };
    let ExecutionStatus::Reverted(RevertReason::Message(message)) = status(call(ALICE, failing, Odd::messageCall {}))
    else {
        panic!("a message")
    };
    assert_eq!(message.as_str(), "Too little received");
    let ExecutionStatus::Reverted(RevertReason::Panic { code, .. }) = status(call(ALICE, failing, Odd::divideCall {}))
    else {
        panic!("a panic")
    };
    assert_eq!(code, number(0x12));
    let ExecutionStatus::Reverted(reason) = status(call(ALICE, failing, Odd::customCall {})) else {
        panic!("a custom error")
    };
    let told = format!(
        "the balance is below the amount; by the contract: ERC20InsufficientBalance(sender: {ALICE}, balance: 1, \
         needed: 2)"
    );
    assert_eq!(reason.to_string(), told);
    let halted = status(call(ALICE, failing, Odd::loopCall {}).with_gas_limit(100_000));
    assert!(matches!(halted, ExecutionStatus::Halted(_)), "{halted:?}");
}

#[test]
fn a_transaction_no_block_would_include_is_an_error() {
    let mut world = TestHarness::new();
    let token = token(&mut world);
    let plain = call(ALICE, token, Erc20::transferCall { to: BOB, value: number(1) });
    let fees = CallFees::Dynamic { max_fee: 2_000_000_000, max_priority_fee: 1 };
    let nonce = world.state.nonce(ALICE);
    let wrong = [
        ("a nonce that is not next", plain.clone().paid(nonce + 1, fees)),
        ("a fee below the base fee", plain.clone().paid(nonce, CallFees::Legacy { gas_price: 1 })),
        ("more value than the account has", plain.clone().with_value(ether(1000)).paid(nonce, fees)),
        ("more value than the account has, gas being free", plain.clone().with_value(ether(1000))),
        ("more gas than EIP-7825 allows", plain.clone().with_gas_limit(20_000_000).paid(nonce, fees)),
        ("less gas than the transaction costs before it runs", plain.clone().with_gas_limit(21_000)),
        ("a sender that is a contract", ForkCall { from: token, ..plain.clone() }.paid(1, fees)),
    ];
    for (what, call) in wrong {
        let result = block_on(world.fork().simulate(&[call]));
        assert!(matches!(result, Err(ForkError::Rejected { index: 0, .. })), "{what}: {result:?}");
    }
    // The second call of a plan finds the nonce used.
    let twice = [plain.clone().paid(nonce, fees), plain.paid(nonce, fees)];
    let result = block_on(world.fork().simulate(&twice));
    assert!(matches!(result, Err(ForkError::Rejected { index: 1, .. })), "{result:?}");
}

#[test]
fn an_exact_transaction_costs_what_the_chain_charges() {
    let mut world = TestHarness::new();
    let token = token(&mut world);
    let nonce = world.state.nonce(ALICE);
    let fees = CallFees::Dynamic { max_fee: 3_000_000_000, max_priority_fee: 500_000_000 };
    let transfer =
        call(ALICE, token, Erc20::transferCall { to: BOB, value: number(1) }).with_gas_limit(90_000).paid(nonce, fees);
    let simulation = world.simulate(std::slice::from_ref(&transfer));
    // The same transaction, executed by the code that produces blocks.
    let tx = TxEnv {
        tx_type: 2,
        caller: ALICE,
        gas_limit: 90_000,
        gas_price: 3_000_000_000,
        gas_priority_fee: Some(500_000_000),
        kind: transfer.to,
        data: transfer.data,
        nonce,
        chain_id: Some(RULES.chain_id),
        ..TxEnv::default()
    };
    let execution = evm::transact(&world.state, &RULES, &world.block, CheckMode::Transaction, tx).expect("sound");
    assert_eq!(simulation.outcomes[0].gas_used, execution.result.tx_gas_used());
    assert_eq!(simulation.outcomes[0].logs, execution.result.into_logs());
    // Base fee 1 gwei, tip 0.5 gwei.
    let price = number(1_500_000_000);
    let gas = number(simulation.gas_used());
    let sender = simulation.changes.account(ALICE).expect("paid");
    assert_eq!(sender.balance.before - sender.balance.after, gas * price);
    let coinbase = simulation.changes.account(world.block.coinbase).expect("earned");
    assert_eq!(coinbase.balance.after, gas * number(500_000_000));
    let mut after: WorldState = world.state.clone();
    after.apply(execution.state);
    for account in &simulation.changes.accounts {
        assert_eq!(account.balance.after, after.balance(account.account));
        assert_eq!(account.nonce.after, after.nonce(account.account));
        assert_eq!(account.code_hash.after, after.code_hash(account.account));
    }
    for write in &simulation.changes.writes {
        assert_eq!(write.value.after, after.storage_at(write.account, write.slot));
    }
}

#[test]
fn creations_and_delegations_are_changes_of_code() {
    let mut world = TestHarness::new();
    let code = world.deploy(odd!("Failing", []));
    let created = ALICE.create(world.state.nonce(ALICE));
    let simulation = world.simulate(&[ForkCall::create(ALICE, odd!("Failing", []))]);
    assert_eq!(simulation.outcomes[0].created, Some(created));
    let change = simulation.changes.account(created).expect("created");
    assert_eq!(change.code_hash, moved(KECCAK256_EMPTY, world.state.code_hash(code)));
    assert_eq!(change.nonce, moved(0, 1));

    let authorization = Authorization { chain_id: number(RULES.chain_id), address: code, nonce: 0 };
    let mut delegate = ForkCall::new(ALICE, CAROL, []);
    delegate.authorizations = vec![CodeDelegation::Unsigned { authority: BOB, authorization }];
    let simulation = world.simulate(&[delegate]);
    let change = simulation.changes.account(BOB).expect("delegated");
    assert_eq!(change.delegation, moved(None, Some(code)));
    assert_eq!(change.nonce, moved(0, 1));
    let designator = [&[0xef, 0x01, 0x00], code.as_slice()].concat();
    assert_eq!(change.code_hash.after, keccak256(designator));

    // Cleared again by a delegation to the zero address.
    let mut with_delegate = TestHarness { state: world.state.clone(), block: world.block };
    with_delegate.state.set_code(BOB, [&[0xef, 0x01, 0x00], code.as_slice()].concat().into()).expect("a designator");
    let authorization = Authorization { chain_id: number(RULES.chain_id), address: Address::ZERO, nonce: 0 };
    let mut clear = ForkCall::new(ALICE, CAROL, []);
    clear.authorizations = vec![CodeDelegation::Unsigned { authority: BOB, authorization }];
    let simulation = with_delegate.simulate(&[clear]);
    assert_eq!(simulation.changes.account(BOB).expect("cleared").delegation, moved(Some(code), None));
}

#[test]
fn exceeded_bounds_are_always_reported() {
    let mut world = TestHarness::new();
    let token = token(&mut world);
    let transfer = call(ALICE, token, Erc20::transferCall { to: BOB, value: number(1) });
    let few = DetectionLimits { questions: 1, ..DetectionLimits::default() };
    let changes = world
        .simulate_with(
            std::slice::from_ref(&transfer),
            &SimulationOptions { limits: few, ..SimulationOptions::default() },
        )
        .changes;
    assert!(matches!(changes.gaps.as_slice(), [DetectionGap::Questions(_)]));
    assert!(!changes.complete());
    let poor = DetectionLimits { total_gas: 10, ..DetectionLimits::default() };
    let changes =
        world.simulate_with(&[transfer], &SimulationOptions { limits: poor, ..SimulationOptions::default() }).changes;
    assert!(changes.gaps.iter().any(|gap| matches!(gap, DetectionGap::Gas(_))), "{:?}", changes.gaps);
    assert!(!changes.complete());
}

#[test]
fn slow_queries_run_off_the_callers_thread() {
    let mut world = TestHarness::new();
    let token = token(&mut world);
    let mute = world.deploy(odd!("MuteToken", (number(1),).abi_encode_params()));
    let transfer =
        |token| [call(ALICE, token, Erc20::transferCall { to: BOB, value: number(4) }).with_gas_limit(200_000)];
    let fork = world.fork();
    block_on(async {
        // Ready at once: no other thread was involved.
        let simulation = fork.simulate(&transfer(token)).now_or_never().expect("small").expect("a simulation");
        assert!(simulation.changes.complete());
        // The plan is as small, but its token burns its gas: two holders, each queried twice with a million gas.
        let plan = transfer(mute);
        let waiting = fork.simulate(&plan);
        tokio::pin!(waiting);
        assert!((&mut waiting).now_or_never().is_none());
        let changes = waiting.await.expect("a simulation").changes;
        // Moving the work used nothing of the query budget.
        assert!(changes.gaps.is_empty(), "{:?}", changes.gaps);
        assert_eq!(changes.unreadable.len(), 2);
    });
}

#[test]
fn later_calls_of_a_plan_see_its_new_contracts() {
    let world = TestHarness::new();
    let created = ALICE.create(0);
    let plan = [
        ForkCall::create(ALICE, odd!("SilentToken", (ALICE, number(10)).abi_encode_params())),
        call(ALICE, created, Erc20::transferCall { to: BOB, value: number(4) }),
    ];
    let simulation = world.simulate(&plan);
    assert!(simulation.succeeded());
    let changes = &simulation.changes;
    assert_eq!(changes.balance(created, ALICE), Some(moved(number(0), number(6))));
    assert_eq!(changes.balance(created, BOB), Some(moved(number(0), number(4))));
    assert_eq!(changes.unexplained().count(), 0);
    assert_eq!(simulation.pinned.hash, B256::repeat_byte(0x11));
    assert_eq!(plan[0].payment, GasPayment::Free);
}
