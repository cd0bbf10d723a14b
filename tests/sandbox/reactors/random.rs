//! Random orders of all kinds, valid and invalid, and moments around their limits.

use alloy::primitives::{Address, Bytes, I256, U256};
use bardo::abi::uniswapx::{
    DutchInput, DutchOutput, EncodedPriorityOrder, EncodedV2DutchOrder, EncodedV3DutchOrder, NonlinearDutchDecay,
    OrderInfo, PriorityCosignerData, PriorityInput, PriorityOutput, V2CosignerData, V3CosignerData, V3DutchInput,
    V3DutchOutput,
};
use bardo::uniswap::order::decay::curve;
use bardo::uniswap::order::{OrderKind, ResolutionPoint, UniswapXOrder};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::bare::{Bare, CHAIN_ID, STRANGER};

const START: u64 = 1_800_001_000;
const BLOCK: u64 = 5_000;

pub fn order(random: &mut ChaCha8Rng, bare: &Bare, kind: OrderKind, nonce: u64) -> UniswapXOrder {
    let info = OrderInfo {
        reactor: bare.reactor(kind),
        swapper: bare.swapper.address(),
        nonce: U256::from(nonce),
        deadline: U256::from(START + random.random_range(240..430)),
        additionalValidationContract: Address::ZERO,
        additionalValidationData: Bytes::new(),
    };
    let cosigner = bare.cosigner.address();
    let outputs = random.random_range(1..=3);
    let exclusive = [Address::ZERO, bare.quoter, STRANGER][random.random_range(0..3)];
    let bps = U256::from([0, 1, 100, 12_345][random.random_range(0..4)]);
    match kind {
        OrderKind::Dutch => panic!("the bundle has no reactor for it"),
        OrderKind::DutchV2 => {
            let moves_in = random.random();
            let input = range(random, moves_in);
            let outputs: Vec<_> = (0..outputs).map(|_| dutch_output(random, bare, !moves_in)).collect();
            let from = START + random.random_range(0..50);
            let added = V2CosignerData {
                decayStartTime: U256::from(from),
                decayEndTime: U256::from(from + random.random_range(0..200) - random.random_range(0..3)),
                exclusiveFiller: exclusive,
                exclusivityOverrideBps: bps,
                inputAmount: lowered(random, input.0),
                outputAmounts: outputs.iter().map(|output| raised(random, output.startAmount)).collect(),
            };
            UniswapXOrder::DutchV2(EncodedV2DutchOrder {
                info,
                cosigner,
                baseInput: DutchInput { token: bare.token_in, startAmount: input.0, endAmount: input.1 },
                baseOutputs: outputs,
                cosignerData: added,
                cosignature: Bytes::new(),
            })
        }
        OrderKind::DutchV3 => {
            let (start, most) = range(random, true);
            let outputs: Vec<_> = (0..outputs).map(|_| v3_output(random, bare)).collect();
            UniswapXOrder::DutchV3(EncodedV3DutchOrder {
                info,
                cosigner,
                startingBaseFee: U256::from(random.random_range(0..40_000_000_000_u64)),
                baseInput: V3DutchInput {
                    token: bare.token_in,
                    startAmount: start,
                    curve: random_curve(random, most),
                    maxAmount: most,
                    adjustmentPerGweiBaseFee: adjustment(random, start),
                },
                cosignerData: V3CosignerData {
                    decayStartBlock: U256::from(BLOCK + random.random_range(0..20)),
                    exclusiveFiller: exclusive,
                    exclusivityOverrideBps: bps,
                    inputAmount: lowered(random, start),
                    outputAmounts: outputs.iter().map(|output| raised(random, output.startAmount)).collect(),
                },
                baseOutputs: outputs,
                cosignature: Bytes::new(),
            })
        }
        OrderKind::Priority => {
            let scales_in: bool = random.random();
            let both = random.random_range(0..10) == 0;
            let mps = |random: &mut ChaCha8Rng, scales: bool| {
                U256::from(if scales || both { random.random_range(0..5_u64) } else { 0 })
            };
            UniswapXOrder::Priority(EncodedPriorityOrder {
                info,
                cosigner: if random.random_range(0..4) == 0 { Address::ZERO } else { cosigner },
                auctionStartBlock: U256::from(BLOCK + 20),
                baselinePriorityFeeWei: U256::from(random.random_range(0..100_000_u64)),
                input: PriorityInput {
                    token: bare.token_in,
                    amount: amount(random),
                    mpsPerPriorityFeeWei: mps(random, scales_in),
                },
                outputs: (0..outputs)
                    .map(|_| PriorityOutput {
                        token: bare.token_out,
                        amount: amount(random),
                        mpsPerPriorityFeeWei: mps(random, !scales_in),
                        recipient: bare.swapper.address(),
                    })
                    .collect(),
                cosignerData: PriorityCosignerData {
                    auctionTargetBlock: U256::from(BLOCK + random.random_range(0..40)),
                },
                cosignature: Bytes::new(),
            })
        }
    }
}

/// Moments before, in and after all phases of these orders.
pub fn moment(random: &mut ChaCha8Rng, bare: &Bare) -> ResolutionPoint {
    ResolutionPoint {
        chain_id: CHAIN_ID,
        timestamp: START + random.random_range(0..450),
        block: if random.random_range(0..20) == 0 { BLOCK + 70_000 } else { BLOCK + random.random_range(0..160) },
        base_fee: random.random_range(0..40_000_000_000),
        priority_fee: random.random_range(0..4_000_000),
        filler: bare.quoter,
    }
}

/// An amount of any size up to 96 bits, often a small one.
fn amount(random: &mut ChaCha8Rng) -> U256 {
    U256::from(random.random::<u128>() >> random.random_range(32..128))
}

/// A start and an end above it, or the same twice.
fn range(random: &mut ChaCha8Rng, moves: bool) -> (U256, U256) {
    let (a, b) = (amount(random), amount(random));
    match (moves, random.random_range(0..25)) {
        (true, 0) => (a.max(b), a.min(b)),
        (true, _) => (a.min(b), a.max(b)),
        (false, _) => (a, a),
    }
}

/// Usually zero, else an override of an input, occasionally one that is too high.
fn lowered(random: &mut ChaCha8Rng, start: U256) -> U256 {
    match random.random_range(0..25) {
        0 => start + U256::from(1),
        1..12 => start - start / U256::from(random.random_range(2..2_000)),
        _ => U256::ZERO,
    }
}

/// Usually zero, else an override of an output, occasionally one that is too low.
fn raised(random: &mut ChaCha8Rng, start: U256) -> U256 {
    match random.random_range(0..30) {
        0 => start.saturating_sub(U256::from(1)),
        1..12 => start + start / U256::from(random.random_range(2..2_000)),
        _ => U256::ZERO,
    }
}

fn dutch_output(random: &mut ChaCha8Rng, bare: &Bare, moves: bool) -> DutchOutput {
    let (end, start) = range(random, moves);
    DutchOutput { token: bare.token_out, startAmount: start, endAmount: end, recipient: bare.swapper.address() }
}

fn v3_output(random: &mut ChaCha8Rng, bare: &Bare) -> V3DutchOutput {
    let (least, start) = range(random, true);
    V3DutchOutput {
        token: bare.token_out,
        startAmount: start,
        curve: random_curve(random, start),
        recipient: bare.swapper.address(),
        minAmount: least,
        adjustmentPerGweiBaseFee: adjustment(random, start),
    }
}

fn adjustment(random: &mut ChaCha8Rng, of: U256) -> U256 {
    if random.random() { U256::ZERO } else { of / U256::from(random.random_range(1..5_000)) }
}

/// A curve that goes up and down; its blocks increase, with a few exceptions.
fn random_curve(random: &mut ChaCha8Rng, of: U256) -> NonlinearDutchDecay {
    let count = [0, 1, 2, 3, 16][random.random_range(0..5)];
    let mut block = 0_u16;
    let points: Vec<(u16, I256)> = (0..count)
        .map(|_| {
            block = block.saturating_add(random.random_range(1..30));
            let size = I256::try_from(of / U256::from(random.random_range(1..50_u64))).unwrap();
            (block, if random.random_range(0..3) == 0 { -size } else { size })
        })
        .collect();
    let mut curve = curve(&points);
    if random.random_range(0..25) == 0 {
        curve.relativeBlocks =
            random.random::<[u64; 4]>().into_iter().fold(U256::ZERO, |all, part| (all << 64) | U256::from(part));
    }
    if random.random_range(0..40) == 0 {
        curve.relativeAmounts.extend([I256::ONE; 17]);
    }
    curve
}
