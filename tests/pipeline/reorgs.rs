//! Reorganisations of one to twelve blocks that contain a transaction of a swap: the plan continues, and in the end
//! ledger, nonces, audit log and cards agree with the chain.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use alloy::consensus::TxEip1559;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use bardo::chain::devnet::{Chain, ChainTransaction, Devnet};
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::{self, SendState, SenderRules};
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::CommitState;
use bardo::safety::policy_engine::ActionEnd;
use bardo::sandbox::Sandbox;

use bardo_testkit::harness::{TestHarness, sandbox};

const HUNDRED: u64 = 100_000_000;
/// Enough confirmations for a reorganisation of twelve blocks, plus one block that may be made while a transaction
/// arrives.
const CONFIRMATIONS: u64 = 14;

/// Devnet of this file: no other test must lose blocks.
static DEEP: LazyLock<Sandbox> = LazyLock::new(|| sandbox(5));

fn devnet() -> Devnet {
    DEEP.chains()[0].devnet.clone()
}

async fn world() -> TestHarness {
    let rules = SenderRules {
        confirmations: CONFIRMATIONS,
        resend_after: Duration::from_millis(40),
        ..SenderRules::for_network(NetworkKind::Devnet, 1_000)
    };
    TestHarness::in_step(&DEEP, 0, rules).await
}

/// Makes blocks until it is dropped. It stops by itself at its goal, so that a late test does not see more blocks than
/// are to be removed.
struct Miner {
    goal: Arc<Mutex<Option<Goal>>>,
    task: tokio::task::JoinHandle<()>,
}

/// Number of blocks, including the one with this nonce.
#[derive(Clone, Copy)]
struct Goal {
    nonce: u64,
    depth: u64,
    reached: bool,
}

impl Drop for Miner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Miner {
    fn start(world: &TestHarness, nonce: u64, depth: u64) -> Self {
        let goal = Arc::new(Mutex::new(Some(Goal { nonce, depth, reached: false })));
        let (shared, provider, account) = (goal.clone(), world.client.provider().clone(), world.account());
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                let goal = *shared.lock().unwrap();
                if goal.is_some_and(|goal| goal.reached) {
                    continue;
                }
                devnet().mine().await.unwrap();
                let Some(goal) = goal else { continue };
                if provider.get_transaction_count(account).await.unwrap() > goal.nonce {
                    // Its block, or the next: the chain makes one itself for transactions that arrive meanwhile.
                    for _ in 1..goal.depth {
                        devnet().mine().await.unwrap();
                    }
                    *shared.lock().unwrap() = Some(Goal { reached: true, ..goal });
                }
            }
        });
        Self { goal, task }
    }

    async fn stands(&self) {
        let reached = async {
            while !self.goal.lock().unwrap().is_some_and(|goal| goal.reached) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), reached).await.expect("its transaction comes into a block");
    }

    fn goes_on(&self) {
        *self.goal.lock().unwrap() = None;
    }
}

/// Transactions of this test's ledger at a nonce: hash, state, block.
fn at_nonce(world: &TestHarness, nonce: u64) -> Vec<(B256, SendState, Option<u64>)> {
    let found = world.store.read(|connection| -> Result<_, sender::RecordError> {
        let mut statement = connection.prepare("SELECT hash FROM sender_transaction WHERE nonce = ?1")?;
        let hashes: Vec<Vec<u8>> = statement.query_map([nonce as i64], |row| row.get(0))?.collect::<Result<_, _>>()?;
        hashes.iter().map(|hash| Ok(sender::load(connection, B256::from_slice(hash))?.unwrap())).collect()
    });
    let found: Vec<sender::TxRecord> = found.unwrap();
    found.iter().map(|record| (record.hash(), record.state, record.block.map(|(number, _)| number))).collect()
}

/// Waits until the ledger has a transaction with that nonce in a block; returns the block.
async fn in_a_block(world: &TestHarness, nonce: u64) -> u64 {
    for _ in 0..3_000 {
        if let Some(block) =
            at_nonce(world, nonce).iter().find_map(|(_, state, block)| block.filter(|_| state.is_mined()))
        {
            return block;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nonce {nonce} is in no block: {:?}", at_nonce(world, nonce));
}

/// Once the miner has stopped and the ledger knows the nonce's block: removes this many blocks including that one, and
/// adds `instead`.
async fn lose(world: &TestHarness, miner: &Miner, nonce: u64, depth: u64, instead: Option<ChainTransaction>) {
    miner.stands().await;
    let block = in_a_block(world, nonce).await;
    let head = devnet().run(|chain: &mut Chain| chain.head().header.number).await.unwrap();
    let gone = head - block + 1;
    assert!(gone == depth || gone == depth + 1, "{gone} blocks, and {depth} were wanted");
    let replacements = instead.into_iter().map(|transaction| (transaction, 0)).collect();
    devnet().run(move |chain: &mut Chain| chain.reorg(gone, replacements).map(|_| ())).await.unwrap().unwrap();
    miner.goes_on();
}

/// Asserts that everything agrees after a completed swap: the ledger with the chain, and the audit log with both.
async fn agree(world: &TestHarness, before: (u64, U256), state: &CommitState, what: &str) {
    let (nonce, usdc) = before;
    assert_eq!(*state, CommitState::Done, "{what}");
    assert_eq!(world.nonce().await, nonce + 2, "{what}: two nonces, each used once");
    assert_eq!(usdc - world.balance(&world.usdc).await, U256::from(HUNDRED), "{what}: sold once");
    for nonce in [nonce, nonce + 1] {
        let [(hash, SendState::Included, block)] = at_nonce(world, nonce)[..] else {
            panic!("{what}: {:?}", at_nonce(world, nonce));
        };
        let receipt = world.client.provider().get_transaction_receipt(hash).await.unwrap().unwrap();
        assert_eq!((receipt.block_number, receipt.status()), (block, true), "{what}: the block as it is now");
    }
    assert!(matches!(world.book.ends.lock().unwrap()[..], [ActionEnd::Done { .. }]), "{what}");
    let log = world.trail();
    let entries = |kind: &str| log.iter().filter(|(found, _)| found == kind).map(|(_, body)| body).collect::<Vec<_>>();
    assert_eq!(entries("tx:signed").len(), 2, "{what}: nothing was signed anew");
    let [verified] = entries("action:verified")[..] else { panic!("{what}: {log:?}") };
    assert_eq!(verified["matched"], true, "{what}: {verified}");
    // No card reported a confirmation too early.
    let told = world.events().iter().filter(|kind| *kind == "tool:verified").count();
    assert_eq!(told, 1, "{what}");
    let status = world.store.read(|connection| sender::lane(connection, 31_337, world.account())).unwrap();
    assert_eq!((status.next, status.open.len() + status.free.len() + status.reserved.len()), (Some(nonce + 2), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reorganised_swap_happens_once_at_every_depth() {
    for depth in 1..=12 {
        // While its approval is in a block, and while the swap itself is.
        for leg in 0..2 {
            let what = format!("leg {leg} at depth {depth}");
            let world = world().await;
            let before = (world.nonce().await, world.balance(&world.usdc).await);
            let (pipeline, nonce) = (world.pipeline.clone(), before.0 + leg);
            let miner = Miner::start(&world, nonce, depth);
            let permit = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
            let commit = tokio::spawn(async move { pipeline.commit(permit, Consent::None).await });
            lose(&world, &miner, nonce, depth, None).await;
            let committed = commit.await.unwrap().unwrap_or_else(|refusal| panic!("{what}: {refusal:?}"));
            agree(&world, before, &committed.state, &what).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reorganised_swap_whose_nonce_is_taken_does_not_happen() {
    for depth in 1..=12 {
        let what = format!("depth {depth}");
        let world = world().await;
        let (nonce, usdc) = (world.nonce().await, world.balance(&world.usdc).await);
        let miner = Miner::start(&world, nonce, depth);
        let permit = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
        let pipeline = world.pipeline.clone();
        let commit = tokio::spawn(async move { pipeline.commit(permit, Consent::None).await });
        let outside = TxEip1559 {
            chain_id: 31_337,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: 100_000_000_000,
            max_priority_fee_per_gas: 1_000_000_000,
            to: Address::repeat_byte(0x77).into(),
            value: U256::from(1),
            ..Default::default()
        };
        let outside = world.wallet.sign_outside(outside);
        lose(&world, &miner, nonce, depth, Some(ChainTransaction::decode(&outside).unwrap())).await;
        let refusal = commit.await.unwrap().expect_err("its nonce was taken");
        assert!(refusal.message.contains("another transaction has used its nonce"), "{what}: {refusal:?}");
        assert_eq!((world.nonce().await, world.balance(&world.usdc).await), (nonce + 1, usdc), "{what}");
        assert_eq!(
            at_nonce(&world, nonce).iter().map(|(_, state, _)| *state).collect::<Vec<_>>(),
            [SendState::Dropped]
        );
        assert!(matches!(world.book.ends.lock().unwrap()[..], [ActionEnd::NotSent]), "{what}");
        assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO, "{what}");
        // The next action is not blocked.
        let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
        let committed = world.pipeline.commit(permit, Consent::None).await.unwrap();
        assert_eq!((committed.state, committed.legs[0].nonce), (CommitState::Done, nonce + 1), "{what}");
        let permit = world.preview(world.revocation()).await.unwrap().permit.permit_id;
        assert_eq!(world.pipeline.commit(permit, Consent::None).await.unwrap().state, CommitState::Done, "{what}");
    }
}
