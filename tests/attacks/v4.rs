//! Swaps through Uniswap V4: the router's command for them is a program of its own, which may pay anyone. Only Bardo's
//! own form of it may be signed.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::{SolCall as _, SolValue as _};
use bardo::abi::uniswap_v4::V4Quoter;
use bardo::abi::universal_router::UniversalRouter;
use bardo::chain::network::KnownContract;
use bardo::safety::calldata::read;
use bardo::safety::proposal::Proposal;
use bardo::uniswap::discovery::keys_of;
use bardo::uniswap::router::{RouterCommand, RouterExecution, RouterVersion, SwapAmounts, SwapPath, V4Path, V4Step};
use bardo_testkit::harness::TestHarness;

const VERSION: RouterVersion = RouterVersion::V2_1_0;
const HUNDRED: u64 = 100_000_000;
const STRANGER: Address = Address::repeat_byte(0x51);

/// Command byte of V4_SWAP.
const V4_SWAP: u8 = 0x10;

/// The harness's swap of USDC for WETH, through the V4 pool of 0.3 % instead of a V3 pool, changed by `change`.
async fn swap(world: &TestHarness, change: impl Fn(&mut RouterExecution)) -> Proposal {
    let mut proposal = world.swap(HUNDRED).await;
    let main = proposal.legs.last_mut().unwrap();
    let mut execution = RouterExecution::decode(&main.data, VERSION).unwrap();
    let step = V4Step {
        fee: "3000".parse().unwrap(),
        tick_spacing: "60".parse().unwrap(),
        hooks: Address::ZERO,
        currency_out: world.contract_of(&world.weth),
    };
    for command in &mut execution.commands {
        if let RouterCommand::Swap(swap) = command {
            swap.path = SwapPath::V4(V4Path::new(world.contract_of(&world.usdc), vec![step]).unwrap());
        }
    }
    change(&mut execution);
    main.slots[0].offset = execution.signature_offset(VERSION).unwrap();
    main.data = execution.encode(VERSION);
    proposal
}

/// Replaces the input of V4_SWAP in the calldata of a proposal's swap.
fn with_program(mut proposal: Proposal, change: impl FnOnce(Vec<u8>, Vec<Bytes>) -> (Vec<u8>, Vec<Bytes>)) -> Proposal {
    let main = proposal.legs.last_mut().unwrap();
    let mut call = UniversalRouter::execute_1Call::abi_decode(&main.data).unwrap();
    let at = call.commands.iter().position(|code| *code == V4_SWAP).unwrap();
    let (actions, parameters) = <(Bytes, Vec<Bytes>)>::abi_decode_params(&call.inputs[at]).unwrap();
    let (actions, parameters) = change(actions.to_vec(), parameters);
    call.inputs[at] = (Bytes::from(actions), parameters).abi_encode_params().into();
    main.data = call.abi_encode().into();
    proposal
}

/// The whole pipeline accepts the honest swap: its calldata guarantees what it declares, and the simulation of the
/// router does what the calldata says.
#[tokio::test(flavor = "multi_thread")]
async fn an_honest_v4_swap_passes() {
    let world = TestHarness::new(3).await;
    let (usdc, weth) = (world.contract_of(&world.usdc), world.contract_of(&world.weth));
    // The pool has a higher fee than the harness's: its own quoter gives the minimum.
    let key = keys_of(usdc.min(weth), usdc.max(weth)).find(|key| key.fee.to::<u32>() == 3_000).unwrap();
    let asked = V4Quoter::QuoteExactSingleParams {
        poolKey: key,
        zeroForOne: usdc < weth,
        exactAmount: u128::from(HUNDRED),
        hookData: Bytes::new(),
    };
    let call = V4Quoter::quoteExactInputSingleCall { params: asked };
    let least = world.ask(world.contract(KnownContract::V4Quoter), call).await.amountOut;
    let mut honest = swap(&world, |execution| {
        for command in &mut execution.commands {
            if let RouterCommand::Swap(swap) = command {
                swap.exact = SwapAmounts::In { amount: U256::from(HUNDRED), out_min: least };
            }
        }
    })
    .await;
    (honest.inflows[0].at_least, honest.inflows[0].expected) = (least, least);
    let trade = honest.trade.as_mut().unwrap();
    (trade.min_out, trade.expected_out) = (least, least);
    assert_eq!(read(&honest, &world.client.network().book), []);
    let preview = world.preview(honest).await;
    assert!(preview.is_ok(), "{preview:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_v4_swap_for_somebody_else_or_for_less_is_not_signed() {
    let world = TestHarness::new(3).await;
    let each = |change: fn(&mut bardo::uniswap::router::SwapCommand)| {
        move |execution: &mut RouterExecution| {
            for command in &mut execution.commands {
                if let RouterCommand::Swap(swap) = command {
                    change(swap);
                }
            }
        }
    };
    let other = V4Step {
        fee: "3000".parse().unwrap(),
        tick_spacing: "60".parse().unwrap(),
        hooks: Address::ZERO,
        currency_out: STRANGER,
    };
    let usdc = world.contract_of(&world.usdc);
    for (what, proposal) in [
        ("another recipient", swap(&world, each(|swap| swap.recipient = STRANGER)).await),
        (
            "the router, which nobody sweeps",
            swap(&world, each(|swap| swap.recipient = Address::with_last_byte(2))).await,
        ),
        (
            "a lower minimum",
            swap(
                &world,
                each(|swap| {
                    if let SwapAmounts::In { out_min, .. } = &mut swap.exact {
                        *out_min -= U256::from(1);
                    }
                }),
            )
            .await,
        ),
        (
            "more than declared",
            swap(
                &world,
                each(|swap| {
                    if let SwapAmounts::In { amount, .. } = &mut swap.exact {
                        *amount += U256::from(1);
                    }
                }),
            )
            .await,
        ),
        (
            "another output",
            swap(&world, move |execution| {
                for command in &mut execution.commands {
                    if let RouterCommand::Swap(swap) = command {
                        swap.path = SwapPath::V4(V4Path::new(usdc, vec![other]).unwrap());
                    }
                }
            })
            .await,
        ),
    ] {
        assert_eq!(read(&proposal, &world.client.network().book).len(), 1, "{what}");
        assert!(world.preview(proposal).await.is_err(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_v4_program_that_is_not_ours_is_not_signed() {
    let world = TestHarness::new(3).await;
    let (usdc, weth) = (world.contract_of(&world.usdc), world.contract_of(&world.weth));
    let honest = swap(&world, |_| {}).await;
    let take = |to: Address, amount: u64| -> Bytes { (weth, to, U256::from(amount)).abi_encode_params().into() };
    let pool = |hook: Address, data: Bytes, shares: Vec<U256>| -> Bytes {
        let path = vec![(weth, 3_000_u32, 60_i32, hook, data)];
        ((usdc, path, shares, u128::from(HUNDRED), 1_u128),).abi_encode_params().into()
    };
    type Change<'a> = Box<dyn FnOnce(Vec<u8>, Vec<Bytes>) -> (Vec<u8>, Vec<Bytes>) + 'a>;
    let changes: Vec<(&str, Change<'_>)> = vec![
        (
            "a part is taken by a stranger first",
            Box::new(|_, p| {
                (vec![0x07, 0x0b, 0x0e, 0x0e], vec![p[0].clone(), p[1].clone(), take(STRANGER, 1), p[2].clone()])
            }),
        ),
        (
            "a portion for a stranger",
            Box::new(|_, p| {
                (vec![0x07, 0x0b, 0x10, 0x0e], vec![p[0].clone(), p[1].clone(), take(STRANGER, 100), p[2].clone()])
            }),
        ),
        (
            "TAKE_ALL",
            Box::new(|_, p| {
                (
                    vec![0x07, 0x0b, 0x0f],
                    vec![p[0].clone(), p[1].clone(), (weth, U256::ZERO).abi_encode_params().into()],
                )
            }),
        ),
        (
            "SETTLE_ALL",
            Box::new(|_, p| {
                (vec![0x07, 0x0c, 0x0e], vec![p[0].clone(), (usdc, U256::MAX).abi_encode_params().into(), p[2].clone()])
            }),
        ),
        ("a swap without payment", Box::new(|_, p| (vec![0x07, 0x0e], vec![p[0].clone(), p[2].clone()]))),
        ("an unknown action", Box::new(|_, p| (vec![0x07, 0x0b, 0x7f], p))),
        (
            "more is settled",
            Box::new(|_, mut p| {
                p[1] = (usdc, U256::from(HUNDRED) * U256::from(2), true).abi_encode_params().into();
                (vec![0x07, 0x0b, 0x0e], p)
            }),
        ),
        (
            "a hook in swaps",
            Box::new(|_, mut p| {
                p[0] = pool(Address::with_last_byte(0x40), Bytes::new(), Vec::new());
                (vec![0x07, 0x0b, 0x0e], p)
            }),
        ),
        (
            "data for a hook",
            Box::new(|_, mut p| {
                p[0] = pool(Address::ZERO, Bytes::from_static(&[1]), Vec::new());
                (vec![0x07, 0x0b, 0x0e], p)
            }),
        ),
        (
            "a share of the price for each pool, which nothing here judges",
            Box::new(|actions, mut p| {
                p[0] = pool(Address::ZERO, Bytes::new(), vec![U256::from(1)]);
                (actions, p)
            }),
        ),
        (
            "the fields of router 2.0, which this router reads as others",
            Box::new(|actions, mut p| {
                let path = vec![(weth, 3_000_u32, 60_i32, Address::ZERO, Bytes::new())];
                // The router would read the amount as the place of an array, here an empty one, and the bound as amount.
                p[0] = ((usdc, path, 0x160_u128, u128::from(HUNDRED)),).abi_encode_params().into();
                (actions, p)
            }),
        ),
        (
            "too little is taken",
            Box::new(|actions, mut p| {
                p[2] = take(world.account(), 1);
                (actions, p)
            }),
        ),
        (
            "another currency is taken",
            Box::new(|actions, mut p| {
                p[2] = (usdc, world.account(), U256::ZERO).abi_encode_params().into();
                (actions, p)
            }),
        ),
        (
            "another currency is settled",
            Box::new(|actions, mut p| {
                p[1] = (weth, U256::ZERO, true).abi_encode_params().into();
                (actions, p)
            }),
        ),
        (
            "the router's whole balance is settled, which may be another's",
            Box::new(|actions, mut p| {
                p[1] = (usdc, U256::from(1) << 255, false).abi_encode_params().into();
                (actions, p)
            }),
        ),
        (
            "trailing bytes",
            Box::new(|actions, mut p| {
                p[2] = [p[2].as_ref(), &[0; 32]].concat().into();
                (actions, p)
            }),
        ),
    ];
    for (what, change) in changes {
        let proposal = with_program(honest.clone(), change);
        let faults = read(&proposal, &world.client.network().book);
        assert_eq!(faults.len(), 1, "{what}: {faults:?}");
        assert!(format!("{faults:?}").contains("0x10"), "{what}: {faults:?}");
        assert!(world.preview(proposal).await.is_err(), "{what}");
    }
}
