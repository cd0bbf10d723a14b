//! Tests of the decoder against programs that are put together here by hand. The vectors hold the encoder.

use super::super::{RouterCommand, THE_ROUTER};
use super::*;

const A: Address = Address::repeat_byte(0xaa);
const B: Address = Address::repeat_byte(0xbb);
const ME: Address = Address::repeat_byte(0x33);

/// Pool of a contract's path: currency on the other side, fee, tick spacing, hook, data for the hook.
type Pool = (Address, u32, i32, Address, Bytes);

/// Program of V4_SWAP, part by part.
#[derive(Clone)]
struct Program {
    actions: Vec<u8>,
    currency: Address,
    pools: Vec<Pool>,
    amount: u128,
    bound: u128,
    settle: (Address, U256, bool),
    take: (Address, Address, U256),
}

impl Program {
    /// Sale of 1,000 units of A for at least 990 of B, by the caller, for `ME`.
    fn sale() -> Self {
        Self {
            actions: vec![0x07, 0x0b, 0x0e],
            currency: A,
            pools: vec![(B, 500, 10, Address::ZERO, Bytes::new())],
            amount: 1_000,
            bound: 990,
            settle: (A, U256::ZERO, true),
            take: (B, ME, U256::ZERO),
        }
    }

    fn parameters(&self) -> Vec<Bytes> {
        // A struct with dynamic parts is one dynamic value: its encoding starts with its offset.
        let trade = ((self.currency, self.pools.clone(), self.amount, self.bound),).abi_encode_params();
        vec![trade.into(), self.settle.abi_encode_params().into(), self.take.abi_encode_params().into()]
    }

    fn input(&self) -> Vec<u8> {
        (Bytes::from(self.actions.clone()), self.parameters()).abi_encode_params()
    }

    fn decoded(&self) -> Option<SwapCommand> {
        decode(&self.input(), RouterVersion::V2_0)
    }

    fn with(change: impl FnOnce(&mut Self)) -> Option<SwapCommand> {
        let mut program = Self::sale();
        change(&mut program);
        program.decoded()
    }
}

fn step(currency_out: Address) -> V4Step {
    V4Step { fee: U24::from(500), tick_spacing: I24::try_from(10).unwrap(), hooks: Address::ZERO, currency_out }
}

#[test]
fn our_own_programs_are_read_back() {
    let swap = Program::sale().decoded().unwrap();
    let expected = SwapCommand {
        path: SwapPath::V4(V4Path::new(A, vec![step(B)]).unwrap()),
        exact: SwapAmounts::In { amount: U256::from(1_000), out_min: U256::from(990) },
        recipient: ME,
        payer_is_user: true,
        min_hop_prices: vec![],
    };
    assert_eq!(swap, expected);
    // Every form, over two pools and through the native token, for both versions.
    let path = V4Path::new(A, vec![step(Address::ZERO), step(B)]).unwrap();
    let (amount, bound) = (U256::from(7), U256::from(u128::MAX));
    for version in [RouterVersion::V2_0, RouterVersion::V2_1_0, RouterVersion::V2_1_1] {
        for (exact, payer_is_user) in [
            (SwapAmounts::In { amount, out_min: bound }, true),
            (SwapAmounts::In { amount, out_min: bound }, false),
            (SwapAmounts::In { amount: WHOLE_BALANCE, out_min: bound }, false),
            (SwapAmounts::Out { amount, in_max: bound }, true),
        ] {
            let swap = SwapCommand {
                path: SwapPath::V4(path.clone()),
                exact,
                recipient: THE_ROUTER,
                payer_is_user,
                min_hop_prices: vec![],
            };
            let input = RouterCommand::Swap(swap.clone()).input(version);
            assert_eq!(RouterCommand::decode(0x10, &input, version), Ok(RouterCommand::Swap(swap)));
            // The struct has a field more from 2.1.0 on.
            let others: &[_] = match version {
                RouterVersion::V2_0 => &[RouterVersion::V2_1_0, RouterVersion::V2_1_1],
                RouterVersion::V2_1_0 | RouterVersion::V2_1_1 => &[RouterVersion::V2_0],
            };
            for other in others {
                assert!(RouterCommand::decode(0x10, &input, *other).is_err());
            }
        }
    }
}

/// v4-periphery (`V4Router._swapExactOutput`) walks the path from its end: each pool has the currency of its input.
#[test]
fn a_purchase_names_the_inputs_of_its_pools() {
    let path = V4Path::new(A, vec![step(Address::ZERO), step(B)]).unwrap();
    let others: Vec<Address> = path.encoded(true).iter().map(|key| key.intermediateCurrency).collect();
    assert_eq!(others, [A, Address::ZERO]);
    let others: Vec<Address> = path.encoded(false).iter().map(|key| key.intermediateCurrency).collect();
    assert_eq!(others, [Address::ZERO, B]);
    let keys: Vec<_> = path.keys().map(|key| (key.currency0, key.currency1)).collect();
    assert_eq!(keys, [(Address::ZERO, A), (Address::ZERO, B)]);
}

#[test]
fn any_other_program_is_refused() {
    assert!(Program::with(|_| {}).is_some());
    // Single swaps, SETTLE_ALL, TAKE_ALL, TAKE_PORTION, TAKE_PAIR, WRAP, SWEEP, MINT_POSITION, an unknown one.
    for action in [0x06, 0x08, 0x0c, 0x0f, 0x10, 0x11, 0x15, 0x14, 0x02, 0xff] {
        for at in 0..3 {
            assert!(Program::with(|program| program.actions[at] = action).is_none(), "{action:#x} at {at}");
        }
    }
    for actions in
        [vec![], vec![0x07, 0x0b], vec![0x07, 0x0e, 0x0b], vec![0x07, 0x0b, 0x0e, 0x0e], vec![0x0e, 0x0b, 0x07]]
    {
        assert!(Program::with(|program| program.actions.clone_from(&actions)).is_none(), "{actions:?}");
    }
    for (what, refused) in [
        ("another currency settled", Program::with(|program| program.settle.0 = B)),
        ("a fixed amount settled", Program::with(|program| program.settle.1 = U256::from(1_000))),
        ("the balance settled after the swap", Program::with(|program| program.settle.1 = WHOLE_BALANCE)),
        ("another currency taken", Program::with(|program| program.take.0 = A)),
        ("a part taken", Program::with(|program| program.take.2 = U256::from(1))),
        ("the input taken", Program::with(|program| program.take.2 = U256::from(1_000))),
        ("an open amount", Program::with(|program| program.amount = 0)),
        ("no pool", Program::with(|program| program.pools.clear())),
        ("data for a hook", Program::with(|program| program.pools[0].4 = Bytes::from_static(&[1]))),
        ("a fee above 24 bits", Program::with(|program| program.pools[0].1 = 1 << 24)),
        ("a fee that the hook sets", Program::with(|program| program.pools[0].1 = 0x80_0000)),
        (
            "back to its currency",
            Program::with(|program| {
                program.pools.push((A, 500, 10, Address::ZERO, Bytes::new()));
                program.take.0 = A;
            }),
        ),
    ] {
        assert_eq!(refused, None, "{what}");
    }
    // v4-core: before and after a swap, and their returned amounts.
    for bit in [2, 3, 6, 7] {
        let hook = Address::with_last_byte(1 << bit);
        assert!(Program::with(|program| program.pools[0].3 = hook).is_none(), "permission {bit}");
    }
}

/// v4-core stops a swap where liquidity ends, so a purchase takes what it is for, and not what there is.
#[test]
fn a_purchase_takes_its_whole_amount() {
    let purchase = |taken: u64| {
        Program::with(|program| {
            program.actions[0] = 0x09;
            // The path of a purchase of 1,000 units of B starts at B, and its pool has A on the other side.
            (program.currency, program.pools[0].0) = (B, A);
            program.take.2 = U256::from(taken);
        })
    };
    let swap = purchase(1_000).unwrap();
    assert_eq!(swap.exact, SwapAmounts::Out { amount: U256::from(1_000), in_max: U256::from(990) });
    assert_eq!(swap.path, SwapPath::V4(V4Path::new(A, vec![step(B)]).unwrap()));
    for less in [0, 1, 999] {
        assert_eq!(purchase(less), None, "{less}");
    }
}

/// Universal Router 2.1.0 and later: `IV4Router.ExactInputParams` has an array after the path.
#[test]
fn later_routers_have_bounds_for_each_pool() {
    let input = |bounds: &[u64], version| {
        let program = Program::sale();
        let bounds: Vec<U256> = bounds.iter().copied().map(U256::from).collect();
        let trade = ((program.currency, program.pools.clone(), bounds, program.amount, program.bound),);
        let mut parameters = program.parameters();
        parameters[0] = trade.abi_encode_params().into();
        decode(&(Bytes::from(program.actions), parameters).abi_encode_params(), version)
    };
    let plain = Program::sale().decoded();
    assert!(plain.is_some());
    for version in [RouterVersion::V2_1_0, RouterVersion::V2_1_1] {
        assert_eq!(input(&[], version), plain);
    }
    assert_eq!(input(&[], RouterVersion::V2_0), None);
    // Shares in 2.1.0, prices from 2.1.1 on.
    assert_eq!(input(&[5], RouterVersion::V2_1_0), None);
    let prices = input(&[5], RouterVersion::V2_1_1).map(|swap| swap.min_hop_prices);
    assert_eq!(prices, Some(vec![U256::from(5)]));
}

#[test]
fn a_swap_of_the_balance_is_paid_by_the_router_alone() {
    let by_balance = |user, amount, settled| {
        let mut program = Program::sale();
        (program.actions, program.amount) = (vec![0x0b, 0x07, 0x0e], amount);
        program.settle = (A, settled, user);
        let [trade, settle, take] = <[Bytes; 3]>::try_from(program.parameters()).unwrap();
        let input = (Bytes::from(program.actions), vec![settle, trade, take]).abi_encode_params();
        decode(&input, RouterVersion::V2_0)
    };
    let swap = by_balance(false, 0, WHOLE_BALANCE).unwrap();
    assert_eq!(swap.exact, SwapAmounts::In { amount: WHOLE_BALANCE, out_min: U256::from(990) });
    assert_eq!(by_balance(true, 0, WHOLE_BALANCE), None, "the caller's whole balance");
    assert_eq!(by_balance(false, 5, WHOLE_BALANCE), None, "a part of the balance");
    assert_eq!(by_balance(false, 0, U256::ZERO), None, "nothing is settled");
}

#[test]
fn bytes_outside_the_fields_are_refused() {
    let input = Program::sale().input();
    let longer = |bytes: &[u8]| [bytes, &[0; 32]].concat();
    assert_eq!(decode(&longer(&input), RouterVersion::V2_0), None);
    assert_eq!(decode(&input[..input.len() - 32], RouterVersion::V2_0), None);
    for at in 0..3 {
        let program = Program::sale();
        let mut parameters = program.parameters();
        parameters[at] = longer(&parameters[at]).into();
        let input = (Bytes::from(program.actions), parameters).abi_encode_params();
        assert_eq!(decode(&input, RouterVersion::V2_0), None, "parameter {at}");
    }
    // A fourth parameter without an action.
    let program = Program::sale();
    let mut parameters = program.parameters();
    parameters.push(Bytes::new());
    assert_eq!(decode(&(Bytes::from(program.actions), parameters).abi_encode_params(), RouterVersion::V2_0), None);
    // Every single changed bit gives another swap, or none: no bit is without meaning.
    let whole = decode(&input, RouterVersion::V2_0).unwrap();
    for at in 0..input.len() {
        for bit in 0..8 {
            let mut changed = input.clone();
            changed[at] ^= 1 << bit;
            assert_ne!(decode(&changed, RouterVersion::V2_0), Some(whole.clone()), "bit {bit} of byte {at}");
        }
    }
}
