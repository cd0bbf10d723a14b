//! Model test of standing approvals. Each history mixes actions that match the approved one or differ in one property,
//! time that passes, and events that end a standing approval.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::*;
use crate::approval::model::{preview, proposal, usd};
use crate::approval::{ApprovalReason, AskedBy};
use crate::proposal::{Inflow, Outflow, Proposal, ReplacedTx};
use crate::sample;
use crate::signing_payload::FeeBound;
use crate::value::ValuedAmount;
use alloy::primitives::{Address, U256};
use bardo_base::clock::SimulatedClock;
use bardo_base::id::GolemId;
use bardo_base::model::CapabilityTier;

/// Properties in which an action can differ from the approved one.
const DIFFERENCES: [&str; 16] = [
    "nothing",
    "golem",
    "tool",
    "chain",
    "account",
    "given token",
    "wanted token",
    "recipient",
    "policy",
    "phase",
    "stop",
    "authority",
    "first paid",
    "first allowed",
    "hot lane",
    "allowance left",
];

fn granted() -> Proposal {
    let mut proposal = proposal();
    let token = |number: u8, symbol: &str| sample::token(Address::repeat_byte(number), symbol, 18);
    proposal.outflows = vec![Outflow { token: token(20, "IN"), amount: U256::from(1) }];
    let recipient = proposal.account;
    let (at_least, expected) = (U256::from(1), U256::from(1));
    proposal.inflows = vec![Inflow { token: token(21, "OUT"), at_least, expected, recipient }];
    proposal
}

fn action(difference: &str, dollars: u64) -> Preview {
    let mut proposal = granted();
    let other = sample::token(Address::repeat_byte(22), "OTHER", 18);
    match difference {
        "golem" => proposal.golem_id = "another".parse::<GolemId>().unwrap(),
        "tool" => proposal.tool.name = "token_approve",
        "chain" => proposal.chain_id = 31_338,
        "account" => proposal.account = Address::repeat_byte(9),
        "given token" => proposal.outflows[0].token = other,
        "wanted token" => proposal.inflows[0].token = other,
        "recipient" => proposal.recipients = vec![Address::repeat_byte(8)],
        "authority" => proposal.tool.capability = CapabilityTier::Privileged,
        _ => {}
    }
    let mut preview = preview(proposal, dollars, 1_000);
    match difference {
        "policy" => preview.policy = B256::repeat_byte(1),
        "phase" => preview.phase = Phase::Cautious,
        "stop" => preview.last_stop = Some(SafeText::clean("another", 20)),
        "first paid" => preview.first_seen = true,
        "first allowed" => preview.parties = vec![ApprovalReason::FirstAllowed],
        "hot lane" => preview.above_hot_lane = true,
        "allowance left" => {
            let token = sample::token(Address::repeat_byte(20), "IN", 18);
            preview.values.takeable = vec![ValuedAmount { token, amount: U256::from(1), usd: usd(1) }];
        }
        _ => {}
    }
    preview
}

#[tokio::test(start_paused = true)]
async fn standing_approvals_agree_with_a_small_model_of_them() {
    const HISTORIES: usize = 10_000;
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(9);
    let clock = Arc::new(SimulatedClock::at(1_000));
    let (mut covered, mut refused, mut never) = (0, 0, 0);
    for history in 0..HISTORIES {
        let queue = ApprovalQueue::new(clock.clone(), Fabric::in_memory(4, clock.clone()), Duration::from_secs(300));
        let (phase, own) = watch::channel(Phase::Thriving);
        let difference = if random.random_bool(0.8) { "nothing" } else { DIFFERENCES.choose(&mut random).unwrap() };
        let (first, total) = (random.random_range(1..100), random.random_range(50..600));
        let seconds: u64 = random.random_range(1..200);
        let asked = Arc::new(Preview { own: Some(own), ..action(difference, first) });
        let ticket = queue.ask(Arc::clone(&asked));
        let similar = OperatorAnswer::Similar { millis: seconds * 1_000, total: usd(total) };
        let given = queue.answer(asked.permit.permit_id, similar).is_ok();
        // Model: some actions never get a standing approval, and the total must cover at least the first action.
        let may = !["authority", "first paid", "first allowed", "hot lane", "allowance left"].contains(&difference)
            && total >= first;
        assert_eq!(given, may, "history {history}: {difference}, {first} of {total}");
        let number = queue.state().unrecorded.first().map(ApprovalGrant::number);
        assert_eq!(number.is_some(), may);
        if let Some(number) = number {
            assert!(queue.granted(&action(difference, 0)).is_none(), "it stands before its yes is on record");
            queue.state().settle_grant(number, true);
        } else {
            never += 1;
        }
        drop(ticket);
        let (mut left, mut lives, mut passed) = (total.saturating_sub(first), may, 0);
        for _ in 0..10 {
            match random.random_range(0..40) {
                0 => {
                    queue.withdraw_all("a halt");
                    lives = false;
                }
                1 => {
                    phase.send_replace(Phase::Cautious);
                    phase.send_replace(Phase::Thriving);
                    lives = false;
                }
                2 => {
                    queue.revoke_grant(number.unwrap_or_default());
                    lives = false;
                }
                3 => {
                    let (policy, phase) = *[
                        (B256::ZERO, Phase::Thriving),
                        (B256::repeat_byte(1), Phase::Thriving),
                        (B256::ZERO, Phase::Cautious),
                    ]
                    .choose(&mut random)
                    .unwrap();
                    queue.keep_grants_of(policy, phase);
                    let own = (asked.policy, asked.phase);
                    lives &= (policy, phase) == own;
                }
                _ => {}
            }
            let pause = random.random_range(0..40);
            tokio::time::advance(Duration::from_secs(pause)).await;
            passed += pause;
            let next = if random.random_bool(0.5) { difference } else { DIFFERENCES.choose(&mut random).unwrap() };
            let dollars = random.random_range(0..120);
            let covers = lives && passed < seconds && next == difference && dollars <= left;
            let yes = queue.granted(&action(next, dollars));
            assert_eq!(yes.is_some(), covers, "history {history}: {next} after {difference}, {dollars} of {left}");
            if covers {
                left -= dollars;
                covered += 1;
            } else {
                refused += 1;
            }
        }
    }
    assert!(covered > 5_000 && refused > 5_000 && never > 500, "{covered}, {refused}, {never}");
}

/// An agent that asks to replace its own transaction would otherwise keep its fee low for as long as it wants to be asked,
/// and the operator's later transactions behind it.
#[tokio::test(start_paused = true)]
async fn an_agents_request_to_replace_a_transaction_holds_its_fee_for_a_minute() {
    let clock = Arc::new(SimulatedClock::at(1_000));
    let queue = ApprovalQueue::new(clock.clone(), Fabric::in_memory(4, clock.clone()), Duration::from_secs(600));
    let fees = FeeBound { max_fee_per_gas: 10, max_priority_fee_per_gas: 1 };
    let replaced = |nonce| Some(ReplacedTx { hash: B256::repeat_byte(7), nonce, fees });
    let asked = |nonce| Arc::new(preview(Proposal { replaces: replaced(nonce), ..proposal() }, 1, 600_000));
    let (chain_id, account) = (proposal().chain_id, proposal().account);
    let _agents = queue.ask_for(asked(3), AskedBy::default());
    let _operators = queue.ask_for(asked(4), AskedBy::Operator);
    for (millis, agents) in [(1_000, true), (60_999, true), (61_000, false), (600_000, false)] {
        clock.set(millis);
        assert_eq!(queue.asks_to_replace(chain_id, account, 3), agents, "{millis}");
        assert!(queue.asks_to_replace(chain_id, account, 4), "{millis}");
    }
    assert!(!queue.asks_to_replace(chain_id, account, 5));
    assert!(!queue.asks_to_replace(chain_id + 1, account, 4));
}
