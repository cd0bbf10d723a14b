//! Speeding up and cancelling a transaction that waits: one effect at most, by the receipt of whichever transaction with
//! the nonce is included, and the ledger agrees with the chain.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alloy::consensus::Transaction as _;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use bardo::base::error::ErrorCode;
use bardo::base::model::StopLevel;
use bardo::chain::devnet::{Chain, MiningMode};
use bardo::chain::network::NetworkKind;
use bardo::chain::sender::{SendState, SenderRules};
use bardo::safety::approval::{ApprovalReason, Consent};
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::pipeline::{CommitOutcome, CommitState, PipelineRefusal, RecoveryState};
use bardo::safety::policy::{Policy, PolicyKeeper, PolicyPreset};
use bardo::safety::policy_engine::ActionEnd;
use bardo::safety::proposal::{Proposal, ProposalIntent};
use bardo::safety::stop::StopFile;
use bardo::sandbox::Sandbox;

use bardo_testkit::harness::{ASKED, TestHarness, sandbox};

const HUNDRED: u64 = 100_000_000;
const RAISED_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// Harness on a devnet of its own, which mines on request only, with a waiting allowance of 100 USDC.
struct Stuck {
    world: TestHarness,
    devnet: &'static Sandbox,
    waiting: B256,
    nonce: u64,
}

impl Stuck {
    async fn new(seed: u64) -> Self {
        let devnet: &'static Sandbox = Box::leak(Box::new(sandbox(seed)));
        let sending = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        let world = TestHarness::in_step(devnet, 1, sending).await;
        devnet.chains()[0].devnet.set_mining(MiningMode::Manual).await.unwrap();
        let nonce = world.nonce().await;
        let waiting = world.leave_waiting(world.approval(HUNDRED)).await;
        Self { world, devnet, waiting, nonce }
    }

    async fn mine(&self) {
        self.devnet.chains()[0].devnet.mine().await.unwrap();
    }

    async fn set_base_fee(&self, fee: u64) {
        self.devnet.chains()[0].devnet.run(move |chain: &mut Chain| chain.set_next_base_fee(fee)).await.unwrap();
    }

    fn max_fee(&self) -> u128 {
        self.record(self.waiting).signed.transaction().max_fee_per_gas()
    }

    fn record(&self, hash: B256) -> bardo::chain::sender::TxRecord {
        self.world.stored().into_iter().find(|one| one.hash() == hash).unwrap()
    }

    async fn approve(&self, proposal: Proposal) -> Result<CommitOutcome, PipelineRefusal> {
        let preview = self.world.pipeline.preview(proposal, self.world.wallet.clone(), ASKED).await?;
        let commit = self.world.pipeline.commit(preview.permit.permit_id, Consent::Always);
        tokio::pin!(commit);
        // A block comes once the endpoint has the replacement.
        loop {
            tokio::select! {
                committed = &mut commit => return committed,
                () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {
                    let stored = self.world.stored();
                    if stored.iter().any(|one| one.hash() != self.waiting && one.state == SendState::Sent) {
                        self.mine().await;
                    }
                }
            }
        }
    }

    async fn allowance(&self) -> U256 {
        self.world.included_allowance().await
    }

    /// Recovers until the plan of the waiting transaction has an end, and returns what was found.
    async fn recovered(&self) -> RecoveryState {
        for _ in 0..2_000 {
            let found = self.world.pipeline.recover().await.unwrap();
            if let Some(one) = found.iter().find(|one| one.end != ActionEnd::Unclear) {
                return one.found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("nothing ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_below_the_base_fee_is_sped_up() {
    let stuck = Stuck::new(71).await;
    let base = u64::try_from(stuck.max_fee()).unwrap() + 1;
    stuck.set_base_fee(base).await;
    stuck.mine().await;
    assert_eq!(stuck.allowance().await, U256::ZERO, "no block includes a transaction below the base fee");
    let proposal = stuck.world.replacing(stuck.waiting, ProposalIntent::SpeedUp);
    let preview = stuck.world.preview(proposal.clone()).await.unwrap();
    // The operator is asked, with the maximum cost beyond the original's: gas limit times the difference of the caps.
    let [
        ApprovalReason::Replaces {
            transaction,
            nonce,
            cancels: false,
            extra_wei,
            extra_usd: Some(usd),
            symbol,
            origin,
        },
    ] = preview.needs.reasons()
    else {
        panic!("{:?}", preview.needs)
    };
    let origin = origin.as_ref().expect("the ledger knows the call");
    assert_eq!((symbol.as_str(), &origin.golem_id), ("ETH", &proposal.golem_id));
    assert_eq!((*transaction, *nonce), (stuck.waiting, stuck.nonce));
    let gas = preview.payload.legs()[0].gas_limit;
    let more = preview.payload.fees().max_fee_per_gas - stuck.max_fee();
    assert_eq!(*extra_wei, U256::from(gas) * U256::from(more));
    assert!(*usd > bardo::base::units::Usd::ZERO && *usd < preview.values.gas, "{usd} of {}", preview.values.gas);
    let refused = stuck.world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ApprovalRequired);
    let before = stuck.world.wallet.signatures.load(Ordering::SeqCst);
    let committed = stuck.approve(proposal).await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{committed:?}");
    assert_eq!(stuck.world.wallet.signatures.load(Ordering::SeqCst), before + 1);
    let new = stuck.record(committed.legs[0].hash);
    assert_ne!(new.hash(), stuck.waiting);
    assert_eq!((new.signed.nonce(), new.replaces), (stuck.nonce, Some(stuck.waiting)));
    let old = stuck.record(stuck.waiting);
    assert_eq!(new.call(), old.call(), "nothing but the fees differs");
    // Nodes require a tenth on both fees (go-ethereum's `PriceBump`).
    let (new_fees, old_fees) = (new.fees(), old.fees());
    assert!(new_fees.max_fee_per_gas * 100 >= old_fees.max_fee_per_gas * 110);
    assert!(new_fees.max_priority_fee_per_gas * 100 >= old_fees.max_priority_fee_per_gas * 110);
    assert_eq!((new.state, old.state), (SendState::Included, SendState::Replaced));
    assert_eq!(stuck.allowance().await, U256::from(HUNDRED));
    assert_eq!(stuck.world.nonce().await, stuck.nonce + 1, "one effect");
    // The plan that waited for it ends with it.
    assert_eq!(stuck.recovered().await, RecoveryState::Whole);
    assert_eq!(stuck.world.pipeline.recover().await.unwrap(), []);
}

/// Room for later blocks is wished for and not needed: the operator's limit on fees cuts it before it forbids anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_on_fees_cuts_their_room_and_leaves_what_the_next_block_needs() {
    let stuck = Stuck::new(48).await;
    let base = u64::try_from(stuck.max_fee()).unwrap() + 1;
    stuck.set_base_fee(base).await;
    stuck.mine().await;
    let limited = async |limit: Option<u128>| {
        *stuck.world.book.gas_fee.lock().unwrap() = limit;
        let proposal = stuck.world.replacing(stuck.waiting, ProposalIntent::CancelTransaction);
        stuck.world.preview(proposal).await.unwrap().payload.fees().max_fee_per_gas
    };
    // The next block's base fee is an eighth below this one's, as the last block was empty.
    let next = stuck.world.client.provider().get_fee_history(1, Default::default(), &[]).await.unwrap();
    let next = *next.base_fee_per_gas.last().unwrap();
    let free = limited(None).await;
    assert!(free > 2 * next, "room for later blocks: {free}, {next}");
    // The old fee and an eighth, and the next block's base fee, an eighth and the tip, are needed.
    let enough = u128::from(base) * 3 / 2;
    assert_eq!(limited(Some(enough)).await, enough);
    // Where the limit does not suffice, its own check refuses with figures.
    assert_eq!(limited(Some(next)).await, free);
    *stuck.world.book.gas_fee.lock().unwrap() = Some(enough);
    let proposal = stuck.world.replacing(stuck.waiting, ProposalIntent::CancelTransaction);
    let committed = stuck.approve(proposal).await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{committed:?}");
    assert!(stuck.record(committed.legs[0].hash).fees().max_fee_per_gas <= enough);

    let fresh = async |limit: Option<u128>| {
        *stuck.world.book.gas_fee.lock().unwrap() = limit;
        stuck.world.preview(stuck.world.approval(HUNDRED)).await.unwrap().payload.fees().max_fee_per_gas
    };
    let free = fresh(None).await;
    assert_eq!(fresh(Some(free * 2 / 3)).await, free * 2 / 3, "a new action as well");
    assert_eq!(fresh(Some(free / 8)).await, free);
}

/// Waiting transactions are counted by nonce: one for a transaction and its replacement, and none once the outcome is final.
#[tokio::test(flavor = "multi_thread")]
async fn unconfirmed_transactions_are_counted_by_nonce() {
    let stuck = Stuck::new(47).await;
    let folder = tempfile::tempdir().unwrap();
    let keeper = Arc::new(PolicyKeeper::fixed(Policy::preset(PolicyPreset::Demo)));
    let networks = [stuck.world.client.network().clone()];
    let stop = StopFile::in_folder(folder.path());
    let rules = OperatorPolicyEngine::new(keeper, stop, stuck.world.store.clone(), networks);
    let (chain_id, account) = (stuck.world.client.chain_id(), stuck.world.account());
    assert_eq!(rules.unconfirmed(chain_id, account).unwrap(), 1);
    assert_eq!(rules.unconfirmed(chain_id + 1, account).unwrap(), 0, "another chain");
    assert_eq!(rules.unconfirmed(chain_id, Address::repeat_byte(1)).unwrap(), 0, "another account");
    stuck.approve(stuck.world.replacing(stuck.waiting, ProposalIntent::SpeedUp)).await.unwrap();
    assert_eq!(stuck.world.stored().len(), 2);
    assert!(rules.unconfirmed(chain_id, account).unwrap() <= 1, "two signatures for one nonce");
    stuck.recovered().await;
    assert_eq!(rules.unconfirmed(chain_id, account).unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_transaction_never_happens_and_counts_nothing() {
    // Also under the stop that lets nothing but revocations and cancellations pass.
    for (seed, stop) in [(72, None), (73, Some(StopLevel::Halt))] {
        let stuck = Stuck::new(seed).await;
        *stuck.world.book.stop.lock().unwrap() = stop;
        let proposal = stuck.world.replacing(stuck.waiting, ProposalIntent::CancelTransaction);
        let preview = stuck.world.preview(proposal.clone()).await.unwrap();
        assert!(preview.simulated.only_revokes, "{stop:?}");
        assert!(matches!(preview.needs.reasons(), [ApprovalReason::Replaces { cancels: true, .. }]), "{stop:?}");
        let committed = stuck.approve(proposal).await.unwrap();
        assert_eq!(committed.state, CommitState::Done, "{committed:?}");
        let cancel = committed.legs[0].hash;
        assert_eq!(stuck.record(stuck.waiting).state, SendState::Dropped, "{stop:?}");
        let mined = stuck.world.client.provider().get_transaction_by_hash(cancel).await.unwrap().unwrap();
        assert_eq!(
            (mined.inner.value(), mined.inner.input().len(), mined.inner.to()),
            (U256::ZERO, 0, Some(stuck.world.account()))
        );
        assert_eq!(stuck.allowance().await, U256::ZERO, "{stop:?}");
        assert_eq!(stuck.world.nonce().await, stuck.nonce + 1, "{stop:?}");
        assert_eq!(stuck.recovered().await, RecoveryState::Gone, "{stop:?}");
        // Also after a restart, a cancellation is the operator's decision and no failure.
        let ends = stuck.world.book.ends.lock().unwrap().clone();
        assert!(ends.contains(&ActionEnd::Withdrawn) && !ends.contains(&ActionEnd::NotSent), "{stop:?}: {ends:?}");
    }
}

/// The wait ends with "cancelled by the operator", and the failure breaker counts nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_is_cancelled_while_it_is_followed_ends_as_cancelled() {
    let devnet: &'static Sandbox = Box::leak(Box::new(sandbox(76)));
    let world = TestHarness::in_step(devnet, 1, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await;
    devnet.chains()[0].devnet.set_mining(MiningMode::Manual).await.unwrap();
    let nonce = world.nonce().await;
    let preview = world.preview(world.approval(HUNDRED)).await.unwrap();
    let pipeline = world.pipeline.clone();
    let followed = tokio::spawn(async move { pipeline.commit(preview.permit.permit_id, Consent::Always).await });
    let waiting = loop {
        match world.stored().first().filter(|one| one.state == SendState::Sent) {
            Some(record) => break record.hash(),
            None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    };
    let stuck = Stuck { world, devnet, waiting, nonce };
    let cancellation = stuck.world.replacing(waiting, ProposalIntent::CancelTransaction);
    assert_eq!(stuck.approve(cancellation).await.unwrap().state, CommitState::Done);
    let refused = match followed.await.unwrap() {
        Ok(CommitOutcome { state: CommitState::Stopped { code, .. }, .. }) => code,
        Ok(committed) => panic!("{committed:?}"),
        Err(refusal) => refusal.code,
    };
    assert_eq!(refused, ErrorCode::ApprovalRefused);
    let ends = stuck.world.book.ends.lock().unwrap().clone();
    assert!(ends.contains(&ActionEnd::Withdrawn) && !ends.contains(&ActionEnd::NotSent), "{ends:?}");
}

/// A raise by itself would end the operator's decision about the same transaction, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn while_a_cancellation_waits_for_its_decision_the_fee_is_not_raised() {
    let devnet: &'static Sandbox = Box::leak(Box::new(sandbox(76)));
    let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
    let world = Arc::new(TestHarness::in_step(devnet, 1, SenderRules { outbid_after: RAISED_AFTER, ..rules }).await);
    devnet.chains()[0].devnet.set_mining(MiningMode::Manual).await.unwrap();
    let preview = world.preview(world.approval(HUNDRED)).await.unwrap();
    let waits = Arc::clone(&world);
    let commit = tokio::spawn(async move { waits.pipeline.commit(preview.permit.permit_id, Consent::Always).await });
    let newest = || world.stored().into_iter().rfind(|one| one.state == SendState::Sent).map(|one| one.hash());
    // A raise in between makes the preview of the earlier transaction fail.
    let cancels = loop {
        if let Some(waiting) = newest()
            && let Ok(preview) = world.preview(world.replacing(waiting, ProposalIntent::CancelTransaction)).await
        {
            break preview;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let ticket = world.queue.ask(Arc::new(cancels));
    let before = world.stored().len();
    tokio::time::sleep(RAISED_AFTER * 3).await;
    assert!(world.stored().len() <= before + 1, "at most a raise that had begun before the question");
    let asked = world.stored().len();
    drop(ticket);
    for _ in 0..400 {
        if world.stored().len() > asked {
            break;
        }
        tokio::time::sleep(RAISED_AFTER / 20).await;
    }
    assert!(world.stored().len() > asked, "afterwards it is raised again");
    devnet.chains()[0].devnet.mine().await.unwrap();
    assert_eq!(commit.await.unwrap().unwrap().state, CommitState::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn if_the_original_is_included_first_nothing_is_signed() {
    let stuck = Stuck::new(74).await;
    for intent in [ProposalIntent::SpeedUp, ProposalIntent::CancelTransaction] {
        let proposal = stuck.world.replacing(stuck.waiting, intent);
        let before = stuck.world.wallet.signatures.load(Ordering::SeqCst);
        let preview = stuck.world.preview(proposal).await;
        stuck.mine().await;
        let refused = match preview {
            Ok(preview) => stuck.world.pipeline.commit(preview.permit.permit_id, Consent::Always).await.unwrap_err(),
            Err(refused) => refused,
        };
        assert!(!refused.message.is_empty());
        assert_eq!(stuck.world.wallet.signatures.load(Ordering::SeqCst), before, "{intent:?}: {refused:?}");
        assert_eq!(stuck.allowance().await, U256::from(HUNDRED));
    }
    assert_eq!(stuck.recovered().await, RecoveryState::Whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_stop_only_revocations_are_sped_up_or_sent_again() {
    let stuck = Stuck::new(75).await;
    *stuck.world.book.stop.lock().unwrap() = Some(StopLevel::Pause);
    let refused = stuck.world.preview(stuck.world.replacing(stuck.waiting, ProposalIntent::SpeedUp)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Halted, "{refused:?}");
    let refused = stuck.world.pipeline.rebroadcast(stuck.waiting, stuck.world.account()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Halted, "{refused:?}");
    *stuck.world.book.stop.lock().unwrap() = None;
    let sends = stuck.record(stuck.waiting).sends;
    stuck.world.pipeline.rebroadcast(stuck.waiting, stuck.world.account()).await.unwrap();
    let again = stuck.record(stuck.waiting);
    assert_eq!((again.sends, again.state), (sends + 1, SendState::Sent), "the same bytes, and no signature");
}
