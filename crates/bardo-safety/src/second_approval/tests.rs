use std::time::Duration;

use alloy::dyn_abi::eip712::TypedData;
use alloy::primitives::{address, b256, uint};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;

use super::*;
use crate::approval::model::{preview, proposal, usd};
use crate::approval::{AnswerError, ApprovalNeed, ApprovalQueue, ApprovalReason, Decision, OperatorAnswer};
use crate::proposal::Inflow;
use crate::sample;
use bardo_base::clock::{Clock as _, SimulatedClock};
use bardo_base::fabric::Fabric;

/// Order of the group, from [SEC 2](https://www.secg.org/sec2-v2.pdf).
const ORDER: U256 = uint!(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141_U256);

fn key(number: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(number)).unwrap()
}

fn signed(statement: &SecondStatement, key: &PrivateKeySigner) -> SecondSignature {
    SecondSignature::new(key.sign_hash_sync(&statement.digest()).unwrap()).unwrap()
}

fn action() -> SecondStatement {
    SecondStatement::Action {
        account: address!("1111111111111111111111111111111111111111"),
        chain_id: 8_453,
        permit_id: "00112233445566778899aabbccddeeff".parse().unwrap(),
        action: B256::repeat_byte(0x22),
        policy: B256::repeat_byte(0x33),
        outcome: SafeText::clean("Swap 1 WETH for at least 2,900 USDC", 100),
        deadline: 1_800_000_000_000,
    }
}

fn policy() -> SecondStatement {
    let byte = B256::repeat_byte;
    let changes = SafeText::clean("max_gas_usd: 5 → 6", 100);
    SecondStatement::Policy {
        from: byte(0x44),
        to: byte(0x55),
        entry: byte(0x66),
        changes,
        deadline: 1_800_000_000_000,
    }
}

#[test]
fn digests_are_those_of_another_implementation() {
    // By the definitions of EIP-712 with a Keccak-256 written for this purpose in Python, and by Python's eth-account.
    let expected = b256!("a8a60abd7f24b00da1370a7379ef2eb68f3fb64c86d114590fd68612faa262bf");
    assert_eq!(action().digest(), expected);
    let expected = b256!("45e42685004d42e458924d431dfe0df60c0513b1e384bd4c48f431acefc1f7dd");
    assert_eq!(policy().digest(), expected);
    // The printed typed data is what a wallet signs.
    for statement in [action(), policy()] {
        let printed: TypedData = serde_json::from_value(statement.typed_data()).unwrap();
        assert_eq!(printed.eip712_signing_hash().unwrap(), statement.digest());
    }
}

#[test]
fn a_signature_counts_for_exactly_one_statement() {
    let (approver, account) = (key(1), key(2));
    let approvers = BTreeSet::from([approver.address(), key(3).address()]);
    let own = [account.address()];
    let signature = signed(&action(), &approver);
    let verify = |statement: &SecondStatement| statement.verify(&signature, &approvers, &own, 1_000);
    assert_eq!(verify(&action()), Ok(approver.address()));
    let changed: [fn(&mut SecondStatement); 7] = [
        |one| {
            if let SecondStatement::Action { account, .. } = one {
                *account = Address::repeat_byte(9);
            }
        },
        |one| {
            if let SecondStatement::Action { chain_id, .. } = one {
                *chain_id = 1;
            }
        },
        |one| {
            if let SecondStatement::Action { permit_id, .. } = one {
                *permit_id = PermitId::random();
            }
        },
        |one| {
            if let SecondStatement::Action { action, .. } = one {
                *action = B256::ZERO;
            }
        },
        |one| {
            if let SecondStatement::Action { policy, .. } = one {
                *policy = B256::ZERO;
            }
        },
        |one| {
            if let SecondStatement::Action { outcome, .. } = one {
                *outcome = SafeText::clean("Swap 1 WETH for at least 29 USDC", 100);
            }
        },
        |one| {
            if let SecondStatement::Action { deadline, .. } = one {
                *deadline += 1;
            }
        },
    ];
    for change in changed {
        let mut other = action();
        change(&mut other);
        assert!(matches!(verify(&other), Err(SecondError::NotApprover { .. })), "{other:?}");
    }
    assert!(matches!(verify(&policy()), Err(SecondError::NotApprover { .. })));
    assert_eq!(action().verify(&signature, &approvers, &own, 1_799_999_999_999), Ok(approver.address()));
    assert_eq!(action().verify(&signature, &approvers, &own, 1_800_000_000_000), Err(SecondError::Late));
}

#[test]
fn keys_that_the_policy_does_not_name_and_the_acting_key_do_not_count() {
    let (approver, account, stranger) = (key(1), key(2), key(4));
    // A policy that names the acting account makes one person into two.
    let approvers = BTreeSet::from([approver.address(), account.address()]);
    let by = |key: &PrivateKeySigner| {
        action().verify(&signed(&action(), key), &approvers, &[account.address()], 1_000).map(|_| ())
    };
    assert_eq!(by(&approver), Ok(()));
    assert_eq!(by(&account), Err(SecondError::OwnKey(account.address())));
    assert!(matches!(by(&stranger), Err(SecondError::NotApprover { signer, .. }) if signer == stranger.address()));
}

#[test]
fn a_signature_has_one_written_form() {
    let written = signed(&action(), &key(1)).to_string();
    assert_eq!(written.parse::<SecondSignature>().unwrap().to_string(), written);
    let signature = written.parse::<SecondSignature>().unwrap().0;
    let mirrored = Signature::new(signature.r(), ORDER - signature.s(), !signature.v());
    let mirrored = hex::encode_prefixed(mirrored.as_bytes());
    let end = |v: &str| format!("{}{v}", &written[..written.len() - 2]);
    for bad in [
        mirrored,
        end("00"),
        end("01"),
        end("1d"),
        written[2..].to_owned(),
        format!("{written}00"),
        end(""),
        "0x".to_owned(),
        format!("0x{}", "0".repeat(130)),
    ] {
        assert_eq!(bad.parse::<SecondSignature>(), Err(SecondError::Malformed), "{bad}");
    }
}

fn seconded(dollars: u64, at_least: u64, now: u64) -> Arc<Preview> {
    let mut proposal = proposal();
    let (token, recipient) = (sample::token(Address::repeat_byte(21), "OUT", 18), proposal.account);
    let (at_least, expected) = (U256::from(at_least), U256::from(at_least));
    proposal.inflows = vec![Inflow { token, at_least, expected, recipient }];
    let mut preview = preview(proposal, dollars, now);
    let approvers = BTreeSet::from([key(1).address()]);
    preview.second = Some(SecondRequirement { above: Some(usd(500)), approvers });
    preview.needs = ApprovalNeed::Approval { reasons: vec![ApprovalReason::SecondApproval { limit: Some(usd(500)) }] };
    Arc::new(preview)
}

struct Asked {
    queue: ApprovalQueue,
    clock: Arc<SimulatedClock>,
}

impl Asked {
    fn new() -> Self {
        let clock = Arc::new(SimulatedClock::at(1_000_000));
        let queue = ApprovalQueue::new(clock.clone(), Fabric::in_memory(4, clock.clone()), Duration::from_secs(300));
        Self { queue, clock }
    }

    /// Signature of the second operator over the preview, as the queue asks for it now.
    fn sign(&self, preview: &Preview, key: &PrivateKeySigner) -> SecondSignature {
        let ends_at = self.queue.pending()[0].ends_at;
        signed(&SecondStatement::of(preview, ends_at), key)
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_alone_is_refused_and_counts_with_the_second_one() {
    let asked = Asked::new();
    let preview = seconded(1_000, 100, asked.clock.now_millis());
    let permit_id = preview.permit.permit_id;
    let mut ticket = asked.queue.ask(Arc::clone(&preview));
    let missing = Err(AnswerError::Second(SecondError::Missing(vec![key(1).address()])));
    assert_eq!(asked.queue.answer(permit_id, OperatorAnswer::Once), missing);
    let similar = OperatorAnswer::Similar { millis: 1_000, total: usd(10_000) };
    assert_eq!(asked.queue.answer(permit_id, similar.clone()), missing);
    let by_stranger = asked.queue.approve_second(permit_id, asked.sign(&preview, &key(4))).await;
    assert!(matches!(by_stranger, Err(SecondError::NotApprover { .. })), "{by_stranger:?}");
    assert_eq!(asked.queue.answer(permit_id, OperatorAnswer::Once), missing);
    let signature = asked.sign(&preview, &key(1));
    assert_eq!(asked.queue.approve_second(PermitId::random(), signature).await, Err(SecondError::Over));
    assert_eq!(asked.queue.approve_second(permit_id, signature).await, Ok(key(1).address()));
    let given = asked.queue.pending()[0].second.clone().unwrap();
    assert_eq!((given.by(), given.at()), (key(1).address(), 1_000_000));
    assert_eq!(asked.queue.approve_second(permit_id, signature).await, Err(SecondError::Given(key(1).address())));
    // The second approval covers this action and never another one.
    assert!(matches!(asked.queue.answer(permit_id, similar), Err(AnswerError::NoGrant(_))));
    asked.queue.answer(permit_id, OperatorAnswer::Once).unwrap();
    let Decision::Approved(yes) = ticket.decision().await else { panic!() };
    assert_eq!(yes.second().map(GivenApproval::by), Some(key(1).address()));
    assert_eq!(asked.queue.approve_second(permit_id, signature).await, Err(SecondError::Over));
}

#[tokio::test(start_paused = true)]
async fn a_second_approval_survives_a_renewal_only_if_nothing_is_worse() {
    let asked = Asked::new();
    let first = seconded(1_000, 100, asked.clock.now_millis());
    let mut ticket = asked.queue.ask(Arc::clone(&first));
    let signature = asked.sign(&first, &key(1));
    asked.queue.approve_second(first.permit.permit_id, signature).await.unwrap();
    let better = seconded(1_000, 101, asked.clock.now_millis());
    ticket.replace(Arc::clone(&better));
    assert!(asked.queue.pending()[0].second.is_some());
    // Less arrives: what was signed is not what happens.
    let worse = seconded(1_000, 99, asked.clock.now_millis());
    ticket.replace(Arc::clone(&worse));
    assert!(asked.queue.pending()[0].second.is_none());
    let missing = Err(AnswerError::Second(SecondError::Missing(vec![key(1).address()])));
    assert_eq!(asked.queue.answer(worse.permit.permit_id, OperatorAnswer::Once), missing);
    assert_eq!(asked.queue.approve_second(first.permit.permit_id, signature).await, Err(SecondError::Over));
    assert_eq!(asked.queue.approve_second(worse.permit.permit_id, signature).await.unwrap_err(), {
        let signer = signer_of(&signature.0, &SecondStatement::of(&worse, asked.queue.pending()[0].ends_at).digest());
        SecondError::NotApprover { signer: signer.unwrap(), approvers: vec![key(1).address()] }
    });
    // A signature over the preview before a harmless renewal still counts.
    let signature = asked.sign(&worse, &key(1));
    ticket.replace(seconded(1_000, 99, asked.clock.now_millis()));
    asked.queue.approve_second(worse.permit.permit_id, signature).await.unwrap();
    let now = asked.queue.pending()[0].preview.permit.permit_id;
    asked.queue.answer(now, OperatorAnswer::Once).unwrap();
    let Decision::Approved(yes) = ticket.decision().await else { panic!() };
    let preview = seconded(1_000, 98, asked.clock.now_millis());
    let requirement = preview.second.clone().unwrap();
    let given = yes.second().unwrap();
    assert_eq!(given.verify(&preview, &requirement, asked.clock.now_millis()), Err(SecondError::Over));
    assert_eq!(given.verify(&worse, &requirement, asked.clock.now_millis()), Ok(()));
    assert_eq!(given.verify(&worse, &requirement, 1_300_000), Err(SecondError::Late));
    let nobody = SecondRequirement { approvers: BTreeSet::from([key(3).address()]), ..requirement };
    let refused = given.verify(&worse, &nobody, asked.clock.now_millis());
    assert!(matches!(refused, Err(SecondError::NotApprover { .. })), "{refused:?}");
}
