//! Tests beyond the vectors: reversed paths, mixed paths, splits, and rejected calldata.

use alloy::primitives::aliases::{U48, U160};

use super::*;
use crate::uniswap::pool::{FixedAmount, ProtocolVersion as PoolVersion};
use crate::uniswap::ratio::Ratio;
use crate::uniswap::routing::{Hop, Route, RouteLeg};
use bardo_base::units::BasisPoints;
use golem_chain::permit2::{PermitDetails, PermitSingle};

const A: Address = Address::repeat_byte(0xaa);
const B: Address = Address::repeat_byte(0xbb);
const C: Address = Address::repeat_byte(0xcc);
const ME: Address = Address::repeat_byte(0x33);

fn number(value: u64) -> U256 {
    U256::from(value)
}

fn hop(version: PoolVersion, token_in: Address, token_out: Address) -> Hop {
    Hop {
        pool: Address::repeat_byte(if version == PoolVersion::V2 { 0x02 } else { 0x03 }).into(),
        version,
        key: None,
        fee: 500,
        token_in,
        token_out,
        amount_in: U256::ZERO,
        amount_out: U256::ZERO,
        ticks_crossed: 0,
    }
}

fn route(exact: fn(U256) -> FixedAmount, legs: Vec<(Vec<Hop>, u64, u64)>) -> Route {
    let legs: Vec<RouteLeg> = legs
        .into_iter()
        .map(|(hops, amount_in, amount_out)| RouteLeg {
            share_bps: 0,
            hops,
            amount_in: number(amount_in),
            amount_out: number(amount_out),
            gas_units: 0,
            mid_price: Ratio::whole(number(1)),
        })
        .collect();
    let (amount_in, amount_out) = (legs.iter().map(|l| l.amount_in).sum(), legs.iter().map(|l| l.amount_out).sum());
    let side = match exact(U256::ZERO) {
        FixedAmount::In(_) => amount_in,
        FixedAmount::Out(_) => amount_out,
    };
    Route {
        token_in: A,
        token_out: C,
        exact: exact(side),
        legs,
        amount_in,
        amount_out,
        gas_units: 0,
        gas_cost: None,
        price_impact: Ratio::whole(U256::ZERO),
        price_impact_with_fee: Ratio::whole(U256::ZERO),
    }
}

fn request(route: &Route) -> SwapRequest<'_> {
    SwapRequest {
        route,
        native_in: false,
        native_out: false,
        slippage: BasisPoints::new(50).unwrap(),
        recipient: OutputRecipient::Account(ME),
        permit: None,
        portion: None,
        one_bound: false,
        deadline: Some(number(1_800_000_000)),
    }
}

#[test]
fn an_exact_output_path_is_packed_backwards() {
    let path = V3Path::new(A, vec![(500, B), (3_000, C)]).unwrap();
    let packed = path.pack(true);
    assert_eq!(packed[..20], C[..]);
    assert_eq!(packed[20..23], [0x00, 0x0b, 0xb8]);
    assert_eq!(packed[23..43], B[..]);
    assert_eq!(packed[43..46], [0x00, 0x01, 0xf4]);
    assert_eq!(packed[46..], A[..]);
    assert_eq!(V3Path::unpack(&packed, true), Some(path.clone()));
    assert_eq!(V3Path::unpack(&path.pack(false), false), Some(path));
    assert_eq!(V3Path::unpack(&packed[..65], true), None);
    assert_eq!(V3Path::unpack(&packed[..20], true), None);
    assert_eq!(V3Path::new(A, vec![(1 << 24, B)]), None);
}

#[test]
fn a_mixed_path_pays_the_pair_and_keeps_the_bound_for_the_end() {
    let hops = vec![hop(PoolVersion::V3, A, B), hop(PoolVersion::V2, B, C)];
    let there = route(FixedAmount::In, vec![(hops.clone(), 1_000, 2_000)]);
    let trade = plan(&request(&there)).unwrap();
    let swaps: Vec<&SwapCommand> = trade
        .execution
        .commands
        .iter()
        .map(|c| match c {
            RouterCommand::Swap(swap) => swap,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(swaps[0].recipient, Address::repeat_byte(0x02));
    assert_eq!(swaps[0].exact, SwapAmounts::In { amount: number(1_000), out_min: U256::ZERO });
    assert!(swaps[0].payer_is_user);
    assert_eq!(swaps[1].recipient, ME);
    assert_eq!(swaps[1].exact, SwapAmounts::In { amount: U256::from(1) << 255, out_min: number(1_990) });
    assert!(!swaps[1].payer_is_user);
    assert_eq!(trade.amount_out_min, number(1_990));

    let back = route(FixedAmount::Out, vec![(hops, 1_000, 2_000)]);
    assert_eq!(plan(&request(&back)), Err(RouterPlanError::MixedExactOutput));
}

#[test]
fn split_routes_can_have_one_bound_for_the_total() {
    let one = |amount_in, amount_out| (vec![hop(PoolVersion::V3, A, C)], amount_in, amount_out);
    // 0.5 % off 199 is 198.005 and off 201 is 199.995: each path is rounded down.
    let two = route(FixedAmount::In, vec![one(100, 199), one(100, 201)]);
    let trade = plan(&request(&two)).unwrap();
    assert_eq!(trade.amount_out_min, number(198 + 199));
    assert_eq!(trade.execution.commands.len(), 2);
    let trade = plan(&SwapRequest { one_bound: true, ..request(&two) }).unwrap();
    assert_eq!(trade.amount_out_min, number(398));
    let sweep = RouterCommand::Sweep { token: C, recipient: ME, amount_min: number(398) };
    assert_eq!(trade.execution.commands.last(), Some(&sweep));

    let three = route(FixedAmount::In, vec![one(100, 199), one(100, 201), one(100, 200)]);
    let trade = plan(&request(&three)).unwrap();
    assert_eq!(trade.amount_out_min, number(597));
    let sweep = RouterCommand::Sweep { token: C, recipient: ME, amount_min: number(597) };
    assert_eq!(trade.execution.commands.last(), Some(&sweep));
}

#[test]
fn unspent_native_coin_is_returned() {
    let there = route(FixedAmount::Out, vec![(vec![hop(PoolVersion::V3, A, C)], 1_000, 2_000)]);
    let trade = plan(&SwapRequest { native_in: true, ..request(&there) }).unwrap();
    assert_eq!(trade.value, number(1_005));
    assert_eq!(trade.execution.commands[0], RouterCommand::WrapEth { recipient: THE_ROUTER, amount: number(1_005) });
    let back = RouterCommand::UnwrapWeth { recipient: ME, amount_min: U256::ZERO };
    assert_eq!(trade.execution.commands.last(), Some(&back));
}

#[test]
fn recipients_reserved_by_the_router_are_rejected() {
    let there = route(FixedAmount::In, vec![(vec![hop(PoolVersion::V3, A, C)], 1_000, 2_000)]);
    for account in [Address::ZERO, CALLER, THE_ROUTER] {
        let refused = plan(&SwapRequest { recipient: OutputRecipient::Account(account), ..request(&there) });
        assert_eq!(refused, Err(RouterPlanError::ReservedRecipient(account)));
    }
}

fn permit(token: Address) -> PermitSingle {
    PermitSingle {
        details: PermitDetails { token, amount: U160::from(1_000), expiration: U48::from(9), nonce: U48::from(4) },
        spender: B,
        sigDeadline: number(9),
    }
}

#[test]
fn the_permit_signature_is_at_its_reported_offset() {
    let there = route(FixedAmount::In, vec![(vec![hop(PoolVersion::V3, A, C)], 1_000, 2_000)]);
    let signature: Vec<u8> = (1..=65).collect();
    let with = |permit, signature: &[u8]| SwapRequest {
        permit: Some((permit, Bytes::copy_from_slice(signature))),
        ..request(&there)
    };
    let mut execution = plan(&with(permit(A), &signature)).unwrap().execution;
    for version in [RouterVersion::V2_0, RouterVersion::V2_1_0, RouterVersion::V2_1_1] {
        for deadline in [Some(number(7)), None] {
            execution.deadline = deadline;
            for extra in 0..3 {
                // Commands before the permit shift its position.
                let mut moved = execution.clone();
                let filler = RouterCommand::WrapEth { recipient: THE_ROUTER, amount: number(1) };
                (0..extra).for_each(|_| moved.commands.insert(0, filler.clone()));
                let at = moved.signature_offset(version).unwrap();
                assert_eq!(moved.encode(version)[at..at + 65], signature[..]);
            }
        }
    }
    assert_eq!(plan(&with(permit(A), &[1; 64])).unwrap().execution.signature_offset(RouterVersion::V2_0), None);
    assert_eq!(plan(&request(&there)).unwrap().execution.signature_offset(RouterVersion::V2_0), None);
    assert_eq!(plan(&with(permit(B), &signature)), Err(RouterPlanError::PermitForAnother { permitted: B, paid: A }));
    let coin = SwapRequest { native_in: true, ..with(permit(A), &signature) };
    assert_eq!(plan(&coin), Err(RouterPlanError::PermitForCoin));
}

#[test]
fn calldata_that_is_not_ours_is_refused() {
    let there = route(FixedAmount::In, vec![(vec![hop(PoolVersion::V3, A, C)], 1_000, 2_000)]);
    let execution = plan(&request(&there)).unwrap().execution;
    let calldata = execution.encode(RouterVersion::V2_0);
    assert_eq!(RouterExecution::decode(&calldata, RouterVersion::V2_0), Ok(execution.clone()));
    assert_eq!(RouterExecution::decode(&calldata[4..], RouterVersion::V2_0), Err(RouterDecodeError::NotExecute));
    // Bytes after the end, which the contract would ignore.
    let longer = [calldata.as_ref(), &[0; 32]].concat();
    assert_eq!(RouterExecution::decode(&longer, RouterVersion::V2_0), Err(RouterDecodeError::NotCanonical));

    // A sub-plan, a command that may fail, and commands of unsupported protocols.
    let with_code = |code: u8| {
        let call = UniversalRouter::execute_0Call {
            commands: vec![code].into(),
            inputs: vec![execution.commands[0].input(RouterVersion::V2_0)],
        };
        RouterExecution::decode(&call.abi_encode(), RouterVersion::V2_0)
    };
    for (code, name) in [
        (0x11, "V3_POSITION_MANAGER_PERMIT"),
        (0x21, "EXECUTE_SUB_PLAN"),
        (0x02, "PERMIT2_TRANSFER_FROM"),
        (0x40, "ACROSS_V4_DEPOSIT_V3"),
    ] {
        let refused = RouterDecodeError::Command { index: 0, error: CommandError::Refused { code, name } };
        assert_eq!(with_code(code), Err(refused));
    }
    let may_fail = RouterDecodeError::Command { index: 0, error: CommandError::MayFail { code: 0x80 } };
    assert_eq!(with_code(0x80), Err(may_fail));
    assert!(matches!(
        with_code(0x0b),
        Err(RouterDecodeError::Command { error: CommandError::Malformed { .. }, .. })
            | Err(RouterDecodeError::NotCanonical)
    ));
    let uneven = UniversalRouter::execute_0Call { commands: vec![0x0b].into(), inputs: Vec::new() }.abi_encode();
    assert_eq!(
        RouterExecution::decode(&uneven, RouterVersion::V2_0),
        Err(RouterDecodeError::Uneven { commands: 1, inputs: 0 })
    );
}
