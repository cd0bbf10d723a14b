//! The devnet's order service and its fillers: orders are accepted, cosigned, competed for and filled through the real
//! reactors, at the curve's price for that block; others expire, are cancelled, or lack funds.

use std::collections::BTreeSet;

use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::sol_types::SolValue as _;
use bardo::abi::erc20::Erc20;
use bardo::abi::permit2::Permit2;
use bardo::chain::permit2::{Permit2Domain, nonce_position};
use bardo::sandbox::actors::ActorRole;
use bardo::sandbox::contracts::PERMIT2;
use bardo::sandbox::order_service::{BookStatus, OnchainFill, OrderSubmitError};
use bardo::sandbox::plan::{BASE, ChainSetup, ETHEREUM, SandboxToken};
use bardo::uniswap::order::{
    AuctionTerms, OrderAmounts, OrderDraft, OrderFault, OrderKind, ResolutionPoint, UniswapXOrder,
};

use super::world::World;

/// Chain where the demo wallet has granted Permit2 its WETH, and has some WETH.
fn world(plan: &'static ChainSetup) -> World {
    let mut world = World::quiet(plan);
    let weth = world.token(SandboxToken::Weth);
    let value = U256::from(10).pow(U256::from(18));
    // Second development account, which has ether on both chains.
    world.wrap(1, value * U256::from(100));
    assert!(world.transact(1, weth, Erc20::approveCall { spender: PERMIT2, value: U256::MAX }).is_success());
    world
}

fn swapper(world: &World) -> Address {
    world.accounts[1].address()
}

/// Sells thousandths of an ether for dollars, from `start` down to `least`.
fn draft(world: &World, kind: OrderKind, nonce: u64, milliether: u64, start: u64, least: u64) -> OrderDraft {
    let next = world.chain.next_context();
    let service = world.background_actors.order_service();
    let dollars = |dollars: u64| U256::from(dollars) * U256::from(1_000_000);
    OrderDraft {
        reactor: service.reactor(kind).unwrap(),
        swapper: swapper(world),
        recipient: swapper(world),
        nonce: U256::from(nonce),
        deadline: next.timestamp + 60,
        cosigner: service.cosigner(),
        token_in: world.token(SandboxToken::Weth),
        token_out: world.token(SandboxToken::Usdc),
        legs: OrderAmounts::ExactIn {
            amount_in: U256::from(milliether) * U256::from(10).pow(U256::from(15)),
            start_out: dollars(start),
            least_out: dollars(least),
        },
        auction: match kind {
            OrderKind::Dutch => panic!("the devnet has no reactor for it"),
            OrderKind::DutchV2 => AuctionTerms::CosignedTimes,
            OrderKind::DutchV3 => {
                AuctionTerms::CosignedBlocks { over: 40, base_fee: next.base_fee.into(), per_gwei: U256::ZERO }
            }
            OrderKind::Priority => {
                AuctionTerms::PriorityFee { start_block: next.number + 3, baseline: 0, mps_per_wei: U256::from(1) }
            }
        },
    }
}

fn signed(world: &World, order: &UniswapXOrder) -> Bytes {
    let chain_id = world.chain.rules().chain_id;
    let digest = order.permit().digest(&Permit2Domain { chain_id, permit2: PERMIT2 });
    world.accounts[1].sign_digest(chain_id, digest).unwrap()
}

fn submit(world: &World, order: &UniswapXOrder) -> Result<B256, OrderSubmitError> {
    let signature = signed(world, order);
    world.background_actors.order_service().submit(&world.chain, order.kind(), &order.encode(), &signature)
}

/// Makes blocks with the actors until the order has ended; returns its end, and the number of failed fills.
fn until_it_ends(world: &mut World, hash: B256) -> (BookStatus, usize) {
    let mut failed = 0;
    for _ in 0..90 {
        failed += world.busy_block();
        world.background_actors.order_service().follow(&world.chain);
        let entry = world.background_actors.order_service().entry(hash).unwrap();
        if !entry.can_fill() {
            return (entry.status, failed);
        }
    }
    panic!("the order did not end: {:?}", world.background_actors.order_service().entry(hash));
}

/// Submits an order, waits for its end, and compares the swapper's output with the order's value for that block. `None`
/// if every filler overlooked the order.
fn fill(world: &mut World, draft: OrderDraft) -> Option<(OnchainFill, usize)> {
    let order = draft.order().unwrap();
    let (weth, usdc) = (SandboxToken::Weth, SandboxToken::Usdc);
    let had = (world.balance(weth, swapper(world)), world.balance(usdc, swapper(world)));
    let hash = submit(world, &order).unwrap();
    assert_eq!(hash, order.hash());
    let (status, failed) = until_it_ends(world, hash);
    let fill = match status {
        BookStatus::Filled(fill) => fill,
        BookStatus::Expired => return None,
        other => panic!("{other:?}"),
    };

    let cosigned = world.background_actors.order_service().entry(hash).unwrap().order;
    assert_eq!(cosigned.hash(), hash, "what the cosigner adds is not part of what was signed");
    let block = world.chain.block(fill.block.into()).unwrap().clone();
    let index = block.transactions.iter().position(|transaction| transaction.hash == fill.transaction).unwrap();
    let base_fee = u128::from(block.header.base_fee_per_gas.unwrap());
    let at = ResolutionPoint {
        chain_id: world.chain.rules().chain_id,
        timestamp: block.header.timestamp,
        block: fill.block,
        base_fee,
        priority_fee: block.receipts[index].effective_gas_price - base_fee,
        filler: fill.filler,
    };
    let said = cosigned.resolve(&at).unwrap();
    let paid = had.0 - world.balance(weth, swapper(world));
    let got = world.balance(usdc, swapper(world)) - had.1;
    assert_eq!((paid, got), (said.amount_in, said.outputs[0].amount));
    assert_eq!(fill.resolved, Some(said));
    assert!(got >= cosigned.bounds().least_out[0].amount);
    Some((fill, failed))
}

#[test]
fn an_order_of_each_kind_is_filled_at_what_its_curve_says_for_that_block() {
    let mut world = world(&ETHEREUM);
    let fillers = [ActorRole::FirstFiller, ActorRole::SecondFiller, ActorRole::ThirdFiller]
        .map(|role| world.background_actors.address(role));
    let worth = u64::try_from(
        world.background_actors.price(&world.chain, bardo::sandbox::target::PricedAsset::Eth) / 100_000_000,
    )
    .unwrap();
    for (nonce, kind) in [OrderKind::DutchV2, OrderKind::DutchV3, OrderKind::Priority].into_iter().enumerate() {
        let nonce = u64::try_from(nonce).unwrap();
        // Begins above the value of an ether, so that nobody fills at once; ends below it.
        let start = if kind == OrderKind::Priority { worth * 98 / 100 } else { worth * 102 / 100 };
        let draft = draft(&world, kind, nonce, 1_000, start, worth * 98 / 100);
        let (fill, _) = fill(&mut world, draft).unwrap_or_else(|| panic!("nobody filled the {kind} order"));
        assert!(fillers.contains(&fill.filler));
        let got = fill.resolved.unwrap().outputs[0].amount;
        // A filler leaves no more than a percent.
        assert!(got > U256::from(worth * 99 / 100) * U256::from(1_000_000), "{kind}: {got} for {worth}");
    }
}

#[test]
fn fillers_compete_and_do_not_always_win() {
    let mut world = world(&BASE);
    let worth = u64::try_from(
        world.background_actors.price(&world.chain, bardo::sandbox::target::PricedAsset::Eth) / 100_000_000,
    )
    .unwrap();
    let (mut winners, mut lost, mut filled) = (BTreeSet::new(), 0, 0);
    for nonce in 0..24 {
        let kind = [OrderKind::DutchV3, OrderKind::Priority, OrderKind::DutchV2][usize::try_from(nonce % 3).unwrap()];
        let draft = draft(&world, kind, nonce, 500, worth * 49 / 100, worth * 48 / 100);
        let Some((fill, failed)) = fill(&mut world, draft) else { continue };
        winners.insert(fill.filler);
        lost += failed;
        filled += 1;
    }
    assert!(filled >= 20, "{filled}");
    assert!(winners.len() >= 2, "{winners:?}");
    assert!(lost > 0, "no filler ever lost a race");
}

#[test]
fn what_nobody_wants_expires() {
    let mut world = world(&ETHEREUM);
    let order = draft(&world, OrderKind::DutchV2, 1, 1_000, 9_000_000, 8_000_000).order().unwrap();
    let hash = submit(&world, &order).unwrap();
    assert_eq!(until_it_ends(&mut world, hash), (BookStatus::Expired, 0));
}

/// Sets a USDC balance in the mapping of the token's storage.
fn set_usdc(world: &mut World, owner: Address, amount: U256) {
    let token = world.token(SandboxToken::Usdc);
    for slot in 0_u64..16 {
        let place = U256::from_be_bytes(keccak256((owner, U256::from(slot)).abi_encode()).0);
        let had = world.chain.state().storage_at(token, place);
        world.chain.set_storage_at(token, place, amount);
        if world.balance(SandboxToken::Usdc, owner) == amount {
            return;
        }
        world.chain.set_storage_at(token, place, had);
    }
    panic!("the token keeps its balances elsewhere");
}

#[test]
fn a_filler_whose_purse_is_empty_fills_no_more_and_another_does_or_nobody() {
    let mut world = world(&ETHEREUM);
    let roles = [ActorRole::FirstFiller, ActorRole::SecondFiller, ActorRole::ThirdFiller];
    let fillers = roles.map(|role| world.background_actors.address(role));
    let worth = u64::try_from(
        world.background_actors.price(&world.chain, bardo::sandbox::target::PricedAsset::Eth) / 100_000_000,
    )
    .unwrap();
    let mut nonces = 0..40;
    let mut sold = |world: &mut World| {
        // Half an ether, from two percent above its value to four percent below.
        let draft = draft(world, OrderKind::DutchV2, nonces.next().unwrap(), 500, worth * 51 / 100, worth * 48 / 100);
        fill(world, draft)
    };
    // A filler's purse is funded once, when it first wants to pay with the token.
    for _ in 0..16 {
        if fillers.iter().all(|filler| world.balance(SandboxToken::Usdc, *filler) > U256::ZERO) {
            break;
        }
        sold(&mut world);
    }
    for filler in fillers {
        assert!(world.balance(SandboxToken::Usdc, filler) > U256::ZERO, "{filler} never wanted to fill");
        set_usdc(&mut world, filler, U256::ZERO);
    }
    // Nobody can pay: the orders expire, and no fill is attempted in vain.
    for _ in 0..3 {
        assert_eq!(sold(&mut world), None);
    }
    // One of them has funds again and fills, as long as they last.
    let half = U256::from(worth) * U256::from(500_000);
    set_usdc(&mut world, fillers[1], half * U256::from(5) / U256::from(2));
    let mut filled = 0;
    for _ in 0..12 {
        if let Some((fill, _)) = sold(&mut world) {
            assert_eq!(fill.filler, fillers[1], "whoever has nothing does not fill");
            filled += 1;
        }
    }
    assert_eq!(filled, 2, "what is left does not pay for a third");
}

#[test]
fn a_used_up_nonce_cancels() {
    let mut world = world(&ETHEREUM);
    let order = draft(&world, OrderKind::DutchV2, 300, 1_000, 9_000_000, 8_000_000).order().unwrap();
    let hash = submit(&world, &order).unwrap();
    let (word, bit) = nonce_position(order.info().nonce);
    let cancel = Permit2::invalidateUnorderedNoncesCall { wordPos: word, mask: U256::from(1) << bit };
    assert!(world.transact(1, PERMIT2, cancel).is_success());
    assert_eq!(until_it_ends(&mut world, hash).0, BookStatus::Cancelled);
}

#[test]
fn funds_can_run_out_and_come_back() {
    let mut world = world(&ETHEREUM);
    let worth = u64::try_from(
        world.background_actors.price(&world.chain, bardo::sandbox::target::PricedAsset::Eth) / 100_000_000,
    )
    .unwrap();
    let order = draft(&world, OrderKind::DutchV2, 1, 1_000, worth * 98 / 100, worth * 97 / 100).order().unwrap();
    let hash = submit(&world, &order).unwrap();
    let weth = world.token(SandboxToken::Weth);
    assert!(world.transact(1, weth, Erc20::approveCall { spender: PERMIT2, value: U256::ZERO }).is_success());
    for _ in 0..6 {
        world.busy_block();
    }
    let service = world.background_actors.order_service().clone();
    service.follow(&world.chain);
    assert_eq!(service.entry(hash).unwrap().status, BookStatus::InsufficientFunds);
    assert!(world.transact(1, weth, Erc20::approveCall { spender: PERMIT2, value: U256::MAX }).is_success());
    let (status, _) = until_it_ends(&mut world, hash);
    assert!(matches!(status, BookStatus::Filled(_)), "{status:?}");
}

#[test]
fn the_service_takes_nothing_that_is_not_sound_and_nothing_twice() {
    let world = world(&ETHEREUM);
    let service = world.background_actors.order_service();
    let sound = draft(&world, OrderKind::DutchV2, 1, 1_000, 3_500, 3_300);
    let order = sound.order().unwrap();
    let (encoded, signature) = (order.encode(), signed(&world, &order));
    let take = |kind, encoded: &[u8], signature: &Bytes| service.submit(&world.chain, kind, encoded, signature);

    assert!(matches!(take(OrderKind::Priority, &encoded, &signature), Err(OrderSubmitError::Decode(_))));
    let mut forged = signature.to_vec();
    forged[40] ^= 1;
    assert!(matches!(take(OrderKind::DutchV2, &encoded, &forged.into()), Err(OrderSubmitError::Signature { .. })));
    assert!(matches!(take(OrderKind::DutchV2, &encoded, &Bytes::new()), Err(OrderSubmitError::Signature { .. })));
    let faulty = |draft: OrderDraft| match submit(&world, &draft.order().unwrap()) {
        Err(OrderSubmitError::Faults(faults)) => faults,
        other => panic!("{other:?}"),
    };
    let stranger = Address::repeat_byte(7);
    let cosigner = faulty(OrderDraft { cosigner: stranger, ..sound.clone() });
    assert!(matches!(cosigner[..], [OrderFault::Cosigner { .. }]));
    let reactor = faulty(OrderDraft { reactor: stranger, ..sound.clone() });
    assert!(matches!(reactor[..], [OrderFault::Reactor { .. }]));
    let late = faulty(OrderDraft { deadline: 1, ..sound.clone() });
    assert!(matches!(late[..], [OrderFault::DeadlinePassed { .. }]));
    let limit = OrderDraft { auction: AuctionTerms::Times { from: 1, until: 2 }, ..sound };
    assert!(matches!(submit(&world, &limit.order().unwrap()), Err(OrderSubmitError::NotSettledHere { .. })));

    let hash = take(OrderKind::DutchV2, &encoded, &signature).unwrap();
    let first = service.entry(hash).unwrap();
    assert_eq!(first.order.cosigner_faults(31_337), []);
    assert_eq!(take(OrderKind::DutchV2, &encoded, &signature).unwrap(), hash);
    assert_eq!(service.entry(hash).unwrap(), first);
    assert_eq!(service.entries_of(swapper(&world)).len(), 1);
}
