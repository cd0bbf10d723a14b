//! Do this machine's clock and the chain's time agree? Deadlines, expirations, windows of the limits and the age of
//! prices all rest on the time. Where the two differ, one of them is wrong, and nobody can tell which: nothing is
//! signed that could lose more. An exit or a revocation goes by the chain's time, which is what the chain compares its
//! deadlines with. An order is not such an exit: one whose deadline follows a time that an endpoint made up could be
//! filled for years.

use bardo_base::error::{ErrorCode, FigureUnit, RuleFigures, Violation};
use bardo_base::fabric::Finding;
use bardo_base::model::{Check, RuleName};
use golem_chain::network::{Network, NetworkKind};

use crate::check_inputs::CheckInputs;
use crate::signing_payload::SigningPayload;
use crate::verdict::Verdict;

/// Suggested remedy if the clocks differ.
const SUGGESTION: &str = "Set this machine's clock by a time server. If it is right, the endpoint has stopped following the \
                          chain or lies about the time: remove it from the configuration.";

/// Returns the verdict on the clocks; `None` where they agree, and on devnets, whose time is their own.
pub fn check(payload: &SigningPayload, inputs: &CheckInputs, network: &Network) -> Option<Verdict> {
    let times = inputs.times(network);
    if network.kind == NetworkKind::Devnet || times.agree() {
        return None;
    }
    let finding = |violations| Finding::ClocksDiffer {
        machine: times.machine,
        chain: times.chain,
        tolerance_seconds: times.tolerance,
        violations,
    };
    let exit = inputs.reduce_only() && payload.order().is_none();
    if exit || inputs.only_revokes() {
        return Some(Verdict::warned(Check::ChainHealth, finding(Vec::new())));
    }
    let by = times.machine.abs_diff(times.chain);
    let violation = Violation::new(
        RuleName::ClocksAgree,
        format_args!("this machine's clock and the chain's latest block within {} s", times.tolerance),
        format_args!("{by} s apart: {} by this machine, {} by the chain", times.machine, times.chain),
        "the same once both show the same time; an exit by a swap, or a revocation, now",
    )
    .with(Some(RuleFigures::new(FigureUnit::Seconds, times.tolerance, by)));
    let blocked = Verdict::blocked(Check::ChainHealth, ErrorCode::ChainInconsistent, finding(vec![violation]));
    Some(blocked.suggesting(SUGGESTION))
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, B256, Bytes, U256};

    use super::*;
    use crate::proposal::{ProposalIntent, SignedOrder};
    use crate::sample;
    use crate::signing_payload::{PayloadOrder, PayloadParts};
    use crate::simulate::SimulatedEffects;
    use crate::typed::TypedMessage;
    use bardo_base::model::{ActionClass, Phase};
    use golem_chain::fork::{PinnedBlock, Simulation, StateChanges};
    use golem_chain::network::named;
    use golem_protocols::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft};

    const ME: Address = Address::repeat_byte(1);

    /// An exit by a swap, or by an order for fillers.
    fn exit(by_order: bool) -> SigningPayload {
        let proposal = sample::proposal(ME, ProposalIntent::Swap, sample::leg(ME, Bytes::from_static(&[1, 2, 3, 4])));
        if !by_order {
            return SigningPayload::new(sample::frame(proposal)).unwrap();
        }
        let draft = OrderDraft {
            reactor: Address::repeat_byte(2),
            swapper: ME,
            recipient: ME,
            nonce: U256::from(1),
            deadline: 2_000_000_000,
            cosigner: Address::repeat_byte(3),
            token_in: Address::repeat_byte(4),
            token_out: Address::repeat_byte(5),
            legs: OrderAmounts::ExactIn {
                amount_in: U256::from(8),
                start_out: U256::from(9),
                least_out: U256::from(1),
            },
            auction: AuctionTerms::CosignedTimes,
        };
        let message =
            TypedMessage::UniswapxOrder { permit2: Address::repeat_byte(6), order: Box::new(draft.order().unwrap()) };
        let mut proposal = proposal;
        let order = SignedOrder { message: message.clone(), holder: Address::repeat_byte(7), arrival: None };
        proposal.order = Some(Box::new(order));
        let frame = PayloadParts { order: Some(PayloadOrder { message, signer: ME }), ..sample::frame(proposal) };
        SigningPayload::new(frame).unwrap()
    }

    /// Verdict of the check on a fair exit at these times: `None` for no verdict, else whether it blocks.
    fn blocks(by_order: bool, machine: u64, chain: u64) -> Option<bool> {
        let pinned = PinnedBlock { chain_id: 1, number: 1, hash: B256::ZERO };
        let inputs = CheckInputs {
            asked: false,
            now_millis: machine * 1_000,
            block_time: chain,
            phase: Phase::Thriving,
            stop: None,
            tokens: Default::default(),
            values: Ok(Default::default()),
            portfolio: Ok(Default::default()),
            simulation: Some(SimulatedEffects {
                pinned,
                gas_used: 1,
                gas_cost: U256::ZERO,
                class: ActionClass::ClosePosition,
                leaves: false,
                reduce_only: true,
                only_revokes: false,
                moves: vec![],
                paid: vec![],
                lending: None,
                simulation: Simulation { pinned, outcomes: vec![], changes: StateChanges::default() },
            }),
        };
        let network = named().iter().find(|network| network.chain_id == 1).unwrap();
        check(&exit(by_order), &inputs, network).map(|verdict| verdict.blocks())
    }

    #[test]
    fn an_order_is_no_exit_by_a_time_that_one_of_two_clocks_denies() {
        let (now, years) = (1_800_000_000, 3 * 365 * 86_400);
        for by_order in [false, true] {
            assert_eq!(blocks(by_order, now, now + 100), None, "the two agree");
        }
        for (machine, chain) in [(now, now + years), (now + years, now)] {
            assert_eq!(blocks(false, machine, chain), Some(false), "a swap is an exit by any clock");
            assert_eq!(blocks(true, machine, chain), Some(true), "fillers would have until the later time");
        }
    }
}
