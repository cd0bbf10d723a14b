//! Simulation on state that comes over JSON-RPC: the same answers as on the state itself, few round trips, and an error
//! for every inconsistency.

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::sol;
use alloy::sol_types::SolValue;
use bardo::abi::erc20::Erc20;
use bardo::chain::fork::{
    DetectionGap, DetectionLimits, Fork, ForkCall, ForkError, NextBlock, PrefetchHints, RemoteLimits, RemoteState,
    Simulation, SimulationOptions,
};
use std::sync::Arc;

use crate::simulation::endpoint::{Endpoint, Fault};
use crate::simulation::world::{ALICE, BOB, RULES, TestHarness, block_on, call, odd};

sol! {
    interface Ancestor {
        function look(uint256 back) external;
    }
}

fn remote(endpoint: &Endpoint) -> Arc<RemoteState> {
    RemoteState::new(endpoint.provider(), RULES, RemoteLimits::default())
}

async fn pin(remote: &Arc<RemoteState>) -> Result<Fork, ForkError> {
    remote.pin(BlockId::latest(), NextBlock::default()).await
}

/// Parts that do not depend on the block's hash, for comparison with a fork of the state itself.
fn comparable(simulation: &Simulation) -> (&[bardo::chain::fork::SimulatedOutcome], &bardo::chain::fork::StateChanges) {
    (&simulation.outcomes, &simulation.changes)
}

#[test]
fn remote_simulations_match_local_ones_in_at_most_six_round_trips() {
    let (world, market) = TestHarness::with_market();
    let swap = [market.swap(ALICE, U256::from(1_000_000_000_u64))];
    let expected = world.simulate(&swap);
    assert!(expected.succeeded(), "{:?}", expected.failure());
    let endpoint = Endpoint::new(&world);
    for hinted in [false, true] {
        let remote = remote(&endpoint);
        let accounts = if hinted { vec![market.pool, market.weth] } else { vec![] };
        let options =
            SimulationOptions { hints: PrefetchHints { accounts, slots: vec![] }, ..SimulationOptions::default() };
        let (simulation, again) = block_on(async {
            let fork = pin(&remote).await.expect("a fork");
            assert_eq!(fork.pinned().hash, endpoint.hash());
            let simulation = fork.simulate_with(&swap, &options).await.expect("a simulation");
            let after_first = remote.round_trips();
            assert!(after_first <= if hinted { 5 } else { 6 }, "{after_first} round trips, hinted: {hinted}");
            let again = fork.simulate_with(&swap, &options).await.expect("a simulation");
            assert_eq!(remote.round_trips(), after_first, "the second time nothing is asked");
            (simulation, again)
        });
        assert_eq!(comparable(&simulation), comparable(&expected));
        assert_eq!(simulation, again);
    }
    // Only state was requested.
    let (_, methods) = endpoint.seen();
    let allowed = [
        "eth_chainId",
        "eth_getBlockByNumber",
        "eth_getBalance",
        "eth_getTransactionCount",
        "eth_getCode",
        "eth_getStorageAt",
    ];
    assert!(methods.iter().all(|method| allowed.contains(&method.as_str())), "{methods:?}");
}

#[test]
fn swaps_that_cross_ticks_converge_too() {
    let (world, market) = TestHarness::with_market();
    let swap = [market.swap(ALICE, market.deep())];
    let expected = world.simulate(&swap);
    assert!(expected.succeeded(), "{:?}", expected.failure());
    let endpoint = Endpoint::new(&world);
    let remote = remote(&endpoint);
    let simulation =
        block_on(async { pin(&remote).await.expect("a fork").simulate(&swap).await.expect("a simulation") });
    assert_eq!(comparable(&simulation), comparable(&expected));
    assert!(remote.round_trips() <= 10, "{}", remote.round_trips());
}

#[test]
fn an_endpoint_without_block_hashes_is_read_by_number_and_checked() {
    let (world, market) = TestHarness::with_market();
    let swap = [market.swap(ALICE, U256::from(1_000_000_000_u64))];
    let expected = world.simulate(&swap);
    let endpoint = Endpoint::new(&world);
    endpoint.fail(Fault::NoBlockHashes);
    let remote = remote(&endpoint);
    let simulation =
        block_on(async { pin(&remote).await.expect("a fork").simulate(&swap).await.expect("a simulation") });
    assert_eq!(comparable(&simulation), comparable(&expected));
    let (_, methods) = endpoint.seen();
    assert_eq!(methods.last().map(String::as_str), Some("eth_getBlockByNumber"), "the hash is checked at the end");
}

#[test]
fn a_reorganisation_under_the_pin_is_an_error() {
    let (world, market) = TestHarness::with_market();
    let swap = [market.swap(ALICE, U256::from(1_000_000_000_u64))];
    // At any time during the reads, by hash or by number.
    for (fault, packets) in [(Fault::None, 1), (Fault::None, 2), (Fault::NoBlockHashes, 2), (Fault::NoBlockHashes, 4)] {
        let endpoint = Endpoint::new(&world);
        endpoint.fail(fault);
        endpoint.reorg_in(packets);
        let remote = remote(&endpoint);
        block_on(async {
            let fork = pin(&remote).await.expect("a fork");
            let error = fork.simulate(&swap).await.expect_err("the block is gone");
            if fault == Fault::NoBlockHashes {
                assert!(matches!(error, ForkError::Reorganised { .. }), "{error}");
                // Data of the replaced block are not used again.
                assert!(matches!(fork.simulate(&swap).await, Err(ForkError::Reorganised { .. })));
            } else {
                assert!(matches!(error, ForkError::Endpoint(_)), "{error}");
                assert!(fork.simulate(&swap).await.is_err());
            }
            // The new block is another fork, which works.
            let simulation = pin(&remote).await.expect("a fork").simulate(&swap).await.expect("a simulation");
            assert!(simulation.succeeded());
        });
    }
}

#[test]
fn reads_of_a_cancelled_simulation_are_checked_by_the_next_one() {
    let (world, market) = TestHarness::with_market();
    let swap = [market.swap(ALICE, U256::from(1_000_000_000_u64))];
    let endpoint = Endpoint::new(&world);
    endpoint.fail(Fault::NoBlockHashes);
    // Number of packets of a simulation, the last being the final check.
    let packets = block_on(async {
        let fork = pin(&remote(&endpoint)).await.expect("a fork");
        let (before, _) = endpoint.seen();
        fork.simulate(&swap).await.expect("a simulation");
        endpoint.seen().0 - before
    });
    let remote = remote(&endpoint);
    block_on(async {
        let fork = pin(&remote).await.expect("a fork");
        endpoint.hang_in(packets - 1);
        // Cancelled while the check is unanswered.
        tokio::select! {
            result = fork.simulate(&swap) => panic!("ended before it was given up: {result:?}"),
            () = endpoint.hanging() => {}
        }
        // Everything is cached now, and all of it may belong to another block.
        endpoint.reorg_in(0);
        let error = fork.simulate(&swap).await.expect_err("the block is gone");
        assert!(matches!(error, ForkError::Reorganised { .. }), "{error}");
    });
}

#[test]
fn a_check_covers_all_reads_before_it_and_none_after() {
    let (world, market) = TestHarness::with_market();
    let endpoint = Endpoint::new(&world);
    endpoint.fail(Fault::NoBlockHashes);
    let remote = remote(&endpoint);
    block_on(async {
        let fork = pin(&remote).await.expect("a fork");
        let swap = [market.swap(ALICE, U256::from(1_000_000_000_u64))];
        fork.simulate(&swap).await.expect("a simulation");
        let after_first = remote.round_trips();
        fork.simulate(&swap).await.expect("a simulation");
        assert_eq!(remote.round_trips(), after_first, "checked already");
        // Another simulation reads more, from a block that has been replaced.
        endpoint.reorg_in(0);
        let error = fork.simulate(&[ForkCall::new(ALICE, BOB, [])]).await.expect_err("the block is gone");
        assert!(matches!(error, ForkError::Reorganised { .. }), "{error}");
    });
}

#[test]
fn hashes_of_earlier_blocks_are_checked_too() {
    let mut world = TestHarness::new();
    let ancestor = world.deploy(odd!("Ancestor", []));
    let endpoint = Endpoint::new(&world);
    let look = [call(ALICE, ancestor, Ancestor::lookCall { back: U256::from(5) })];
    let packets = block_on(async {
        let fork = pin(&remote(&endpoint)).await.expect("a fork");
        let (before, _) = endpoint.seen();
        fork.simulate(&look).await.expect("a simulation");
        endpoint.seen().0 - before
    });
    // State is read by hash here; the hash of an ancestor can only be requested by number.
    let remote = remote(&endpoint);
    block_on(async {
        let fork = pin(&remote).await.expect("a fork");
        endpoint.reorg_in(packets - 1);
        let error = fork.simulate(&look).await.expect_err("the block is gone");
        assert!(matches!(error, ForkError::Reorganised { .. }), "{error}");
    });
}

#[test]
fn endpoint_faults_are_errors_and_never_empty_values() {
    let (world, market) = TestHarness::with_market();
    let swap = [market.swap(ALICE, U256::from(1_000_000_000_u64))];
    for method in ["eth_getBalance", "eth_getTransactionCount", "eth_getCode", "eth_getStorageAt"] {
        let mut faults = vec![Fault::Refuse(method), Fault::Garble(method), Fault::Forget(method), Fault::Dead];
        // Empty code is "0x", but a number never is.
        if method != "eth_getCode" {
            faults.push(Fault::Empty(method));
        }
        for fault in faults {
            let endpoint = Endpoint::new(&world);
            let remote = remote(&endpoint);
            block_on(async {
                let fork = pin(&remote).await.expect("a fork");
                endpoint.fail(fault);
                let error = fork.simulate(&swap).await.expect_err("a fault");
                assert!(matches!(error, ForkError::Endpoint(_) | ForkError::Malformed { .. }), "{fault:?}: {error}");
                assert!(!error.to_string().contains('\u{1b}'), "{error}");
                // Once the endpoint works again, so does the fork.
                endpoint.fail(Fault::None);
                assert!(fork.simulate(&swap).await.expect("a simulation").succeeded());
            });
        }
    }
    let endpoint = Endpoint::new(&world);
    endpoint.fail(Fault::OtherChain);
    let error = block_on(pin(&remote(&endpoint))).expect_err("another chain");
    assert!(matches!(error, ForkError::WrongChain { expected: 31337, found: 1 }), "{error}");
    endpoint.fail(Fault::None);
    let unknown = BlockId::from(B256::repeat_byte(9));
    let error = block_on(remote(&endpoint).pin(unknown, NextBlock::default())).expect_err("no such block");
    assert!(matches!(error, ForkError::UnknownBlock { .. }), "{error}");
}

#[test]
fn an_endless_chain_of_storage_reads_ends_in_an_error() {
    let mut world = TestHarness::new();
    let chase = world.deploy(odd!("Chase", []));
    // Each slot contains the next slot to read, as an unpredictable hash.
    let mut slot = U256::ZERO;
    for step in 0..40_u64 {
        let next = U256::from_be_bytes(alloy::primitives::keccak256(step.to_be_bytes()).0);
        world.state.set_storage_at(chase, slot, next);
        slot = next;
    }
    let endpoint = Endpoint::new(&world);
    let follow = |steps: u64| {
        let data = [alloy::primitives::keccak256("follow(uint256)")[..4].to_vec(), U256::from(steps).abi_encode()];
        [ForkCall::new(ALICE, chase, data.concat())]
    };
    let remote = remote(&endpoint);
    block_on(async {
        let fork = pin(&remote).await.expect("a fork");
        let error = fork.simulate(&follow(40)).await.expect_err("too far");
        assert!(matches!(error, ForkError::NotConverging { rounds: 24 }), "{error}");
        // A shorter chain ends.
        let fork = RemoteState::new(endpoint.provider(), RULES, RemoteLimits::default());
        let fork = pin(&fork).await.expect("a fork");
        assert!(fork.simulate(&follow(5)).await.expect("a simulation").succeeded());
    });
}

#[test]
fn queries_share_one_budget_over_all_rounds() {
    let mut world = TestHarness::new();
    let mute = world.deploy(odd!("MuteToken", (U256::from(1),).abi_encode_params()));
    let chase = world.deploy(odd!("Chase", []));
    let first = U256::from_be_bytes(alloy::primitives::keccak256("elsewhere").0);
    world.state.set_storage_at(chase, U256::ZERO, first);
    world.state.set_storage_at(chase, first, first + U256::from(1_000));
    let endpoint = Endpoint::new(&world);
    let follow = [alloy::primitives::keccak256("follow(uint256)")[..4].to_vec(), U256::from(3).abi_encode()].concat();
    let plan = [
        call(ALICE, mute, Erc20::transferCall { to: BOB, value: U256::from(4) }),
        // The reads are not known in advance, so one run is not enough.
        ForkCall::new(ALICE, chase, follow),
    ];
    // Two holders are queried at three points in time, and each answer burns a million gas: six million per run.
    let limits = DetectionLimits { total_gas: 10_000_000, ..DetectionLimits::default() };
    let options = SimulationOptions { limits, ..SimulationOptions::default() };
    let remote = remote(&endpoint);
    block_on(async {
        let fork = pin(&remote).await.expect("a fork");
        let cold = fork.simulate_with(&plan, &options).await.expect("a simulation").changes;
        assert!(cold.gaps.iter().any(|gap| matches!(gap, DetectionGap::Gas(_))), "{:?}", cold.gaps);
        // With everything cached one run is enough, and each simulation has its own budget.
        let warm = fork.simulate_with(&plan, &options).await.expect("a simulation").changes;
        assert!(warm.gaps.is_empty(), "{:?}", warm.gaps);
    });
}

#[test]
fn split_batches_count_as_one_round_trip() {
    let (world, market) = TestHarness::with_market();
    let swap = [market.swap(ALICE, U256::from(1_000_000_000_u64))];
    let expected = world.simulate(&swap);
    let endpoint = Endpoint::new(&world);
    let limits = RemoteLimits { batch: 7, ..RemoteLimits::default() };
    let remote = RemoteState::new(endpoint.provider(), RULES, limits);
    let simulation =
        block_on(async { pin(&remote).await.expect("a fork").simulate(&swap).await.expect("a simulation") });
    assert_eq!(comparable(&simulation), comparable(&expected));
    let (packets, _) = endpoint.seen();
    assert!(remote.round_trips() <= 6, "{}", remote.round_trips());
    assert!(packets as u64 > remote.round_trips());
}

#[test]
fn missing_accounts_read_as_on_the_chain() {
    let mut world = TestHarness::new();
    let token = world.deploy(odd!("SilentToken", (ALICE, U256::from(10)).abi_encode_params()));
    let nobody = Address::repeat_byte(0x99);
    let plan = [
        call(ALICE, token, Erc20::transferCall { to: nobody, value: U256::from(1) }),
        ForkCall::new(ALICE, nobody, []).with_value(U256::from(5)),
        ForkCall::new(BOB, nobody, [1, 2, 3]),
    ];
    let expected = world.simulate(&plan);
    let endpoint = Endpoint::new(&world);
    let remote = remote(&endpoint);
    let simulation =
        block_on(async { pin(&remote).await.expect("a fork").simulate(&plan).await.expect("a simulation") });
    assert_eq!(comparable(&simulation), comparable(&expected));
}
