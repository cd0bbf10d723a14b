//! The books of an account on a devnet: a month of swaps, deposits and wrapping reconciles to the wei, what Bardo did
//! not do is named, and a reorganised chain takes its entries back.

use std::sync::LazyLock;

use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use bardo::abi::erc20::{OpenMint, Weth9};
use bardo::accounting::books::PostingKind;
use bardo::accounting::entry::Origin;
use bardo::accounting::report::{Period, Report};
use bardo::accounting::tables;
use bardo::chain::devnet::{Chain, Devnet};
use bardo::chain::network::NetworkKind;
use bardo::chain::price::PriceChain;
use bardo::chain::sender::SenderRules;
use bardo::runtime::accounting::{BalanceCheck, ImportError, Importer, ReportScope, read, reconcile_chain};
use bardo::safety::approval::Consent;
use bardo::safety::chain_snapshot::SnapshotReader;
use bardo::safety::pipeline::CommitState;
use bardo::sandbox::Sandbox;

use bardo_testkit::harness::{TestHarness, sandbox};

const HUNDRED: u64 = 100_000_000;
const ETHER: u64 = 1_000_000_000_000_000_000;

/// Devnets of this file, one for each test: their time jumps, and they lose blocks.
static OWN: [LazyLock<Sandbox>; 4] = [
    LazyLock::new(|| sandbox(11)),
    LazyLock::new(|| sandbox(12)),
    LazyLock::new(|| sandbox(13)),
    LazyLock::new(|| sandbox(14)),
];

struct Fixture {
    sandbox: &'static Sandbox,
    harness: TestHarness,
    reader: SnapshotReader,
}

impl Fixture {
    /// Fixture on the devnet at this index.
    async fn new(devnet: usize) -> Self {
        let sandbox: &'static Sandbox = &OWN[devnet];
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        let harness = TestHarness::in_step(sandbox, devnet + 1, rules).await;
        let prices = PriceChain::for_chain(&harness.client, &Default::default(), harness.clock.clone()).unwrap();
        let reader = SnapshotReader::new(harness.client.clone(), prices, "10000".parse().unwrap());
        Self { sandbox, harness, reader }
    }

    fn devnet(&self) -> Devnet {
        self.sandbox.chains()[0].devnet.clone()
    }

    fn importer(&self) -> Importer<'_> {
        let account = self.harness.account();
        Importer { reader: &self.reader, store: &self.harness.store, account, confirmations: 1 }
    }

    async fn checks(&self) -> Vec<BalanceCheck> {
        reconcile_chain(&self.reader, &self.harness.store, self.harness.account()).await.unwrap()
    }

    /// Imports, and expects every balance to agree with the chain.
    async fn import(&self, when: &str) -> Report {
        self.importer().run().await.unwrap();
        let checks = self.checks().await;
        assert!(checks.len() >= 2, "{when}: {checks:?}");
        for check in checks {
            assert!(check.is_even(), "{when}: {} differs by {}", check.symbol, check.difference());
        }
        self.report()
    }

    fn report(&self) -> Report {
        let networks = [self.harness.client.network().clone()];
        let (period, money) = (Period::default(), ReportScope::money_of(&networks));
        let account = Some(self.harness.account());
        read(&self.harness.store, &ReportScope { period, account, networks: &networks, money }).unwrap().report
    }

    async fn swap(&self) {
        let preview = self.harness.preview(self.harness.swap(HUNDRED).await).await.unwrap();
        let committed = self.harness.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
        assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
    }

    /// Adds native tokens to a balance without any event, as a transfer by someone else does.
    async fn give(&self, to: Address, wei: u64) {
        let provider = self.harness.client.provider();
        let held = provider.get_balance(to).await.unwrap() + U256::from(wei);
        let set: serde_json::Value = provider.raw_request("anvil_setBalance".into(), (to, held)).await.unwrap();
        assert!(set.is_null() || set == true, "{set}");
        self.devnet().mine().await.unwrap();
    }

    async fn pass(&self, seconds: u64) {
        self.devnet().run(move |chain: &mut Chain| chain.increase_time(seconds)).await.unwrap();
        self.devnet().mine().await.unwrap();
    }
}

fn kinds(report: &Report) -> Vec<PostingKind> {
    report.posted.iter().map(|posted| posted.posting.kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_is_a_trade_with_its_gas_apart() {
    let world = Fixture::new(0).await;
    world.import("the beginning").await;
    let before = world.harness.balance(&world.harness.weth).await;
    world.swap().await;
    let bought = world.harness.balance(&world.harness.weth).await - before;
    let report = world.import("after the swap").await;
    assert_eq!(kinds(&report), [PostingKind::Opening, PostingKind::Gas, PostingKind::Trade], "allowance, then swap");
    let trade = report.posted.last().unwrap();
    let usdc = Some(world.harness.contract_of(&world.harness.usdc));
    let (given, received) = (&trade.posting.given[0], &trade.posting.received[0]);
    assert_eq!((given.asset.token, given.amount), (usdc, U256::from(HUNDRED)));
    assert_eq!((received.asset.token, received.amount), (None, bought), "WETH counts as the native token");
    // By the receipts themselves, without the code under test.
    for posted in &report.posted[1..] {
        let receipt = world.harness.client.provider().get_transaction_receipt(posted.entry.tx.unwrap()).await;
        let receipt = receipt.unwrap().unwrap();
        assert_eq!(posted.entry.gas, U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price));
        assert_eq!(posted.entry.origin, Origin::Transaction);
    }
    // Prices were witnessed by the import itself, seconds after the swap.
    assert_eq!(report.totals.incomplete, 0);
    assert_eq!(received.cost, given.value, "a dollar side values the trade");
    // Again, and nothing changes.
    let again = world.importer().run().await.unwrap();
    assert_eq!((again.entries, again.taken_back), (0, 0));
    assert_eq!(world.report().posted, report.posted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_month_reconciles_to_the_wei_and_names_what_bardo_did_not_do() {
    let world = Fixture::new(1).await;
    world.import("the beginning").await;
    world.swap().await;
    let (usdc, weth) = (world.harness.contract_of(&world.harness.usdc), world.harness.contract_of(&world.harness.weth));
    let account = world.harness.account();
    for day in 0..30_u64 {
        world.pass(86_400).await;
        match day % 5 {
            0 => world.give(account, ETHER / 10 + day).await,
            1 => world.harness.send(usdc, OpenMint::mintCall { to: account, value: U256::from(1_000 + day) }).await,
            2 => world.harness.send(weth, Weth9::withdrawCall { wad: U256::from(7 + day) }).await,
            _ => {}
        }
        // Not every day: several days are imported at once, and found apart.
        if day % 7 == 6 {
            world.import(&format!("day {day}")).await;
        }
    }
    let report = world.import("the end").await;
    let count = |kind| kinds(&report).into_iter().filter(|one| *one == kind).count();
    assert_eq!(count(PostingKind::Trade), 1);
    // Six gifts of the native token and six mints; unwrapping moves nothing of the asset, and pays gas.
    assert_eq!(count(PostingKind::Deposit), 12, "{:?}", kinds(&report));
    assert_eq!(count(PostingKind::Withdrawal), 0);
    let outside = report.posted.iter().filter(|posted| posted.entry.origin == Origin::Outside).collect::<Vec<_>>();
    assert_eq!(outside.len(), 18);
    for (posted, wei) in outside.iter().filter(|one| one.entry.tx.is_none()).zip([0, 5, 10, 15, 20, 25]) {
        assert_eq!(
            posted.posting.received[0].amount,
            U256::from(ETHER / 10 + wei),
            "found to the wei, each on its day"
        );
    }
    let days: std::collections::BTreeSet<u64> = outside.iter().map(|posted| posted.entry.at / 86_400).collect();
    assert_eq!(days.len(), 18, "every one on a day of its own");
    // Prices of days on which nobody looked are missing, and not invented.
    let unknown = outside.iter().filter(|posted| posted.posting.received.iter().any(|leg| leg.cost.is_none())).count();
    assert!(unknown > 0 && report.totals.incomplete > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_whose_receipts_vanished_are_taken_back() {
    let world = Fixture::new(2).await;
    world.import("the beginning").await;
    for _ in 0..3 {
        world.devnet().mine().await.unwrap();
    }
    let before = world.import("before").await;
    let head = world.devnet().head().borrow().header.number;
    world.swap().await;
    let after = world.import("after the swap").await;
    assert_eq!(kinds(&after).len(), kinds(&before).len() + 2);
    // The blocks with both transactions leave the chain; others take their place.
    let depth = world.devnet().head().borrow().header.number - head;
    let change = move |chain: &mut Chain| chain.reorg(depth, Vec::new()).map(|_| ());
    world.devnet().run(change).await.unwrap().unwrap();
    let done = world.importer().run().await.unwrap();
    assert_eq!(done.taken_back, 2);
    assert_eq!(kinds(&world.report()), kinds(&before));
    world.import("on the other branch").await;
    let known = world.harness.store.read(|c| tables::blocks(c, 31_337, world.harness.account())).unwrap();
    for (number, hash) in known {
        let block = world.harness.client.provider().get_block_by_number(number.into()).await.unwrap().unwrap();
        assert_eq!(block.header.hash, hash, "block {number} is on the chain");
    }
}

/// Two processes that read the same blocks: the one that stores last is refused, so nothing is in the books twice.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_imports_at_once_only_one_is_stored() {
    let world = Fixture::new(3).await;
    let mut superseded = 0;
    for round in 0..50 {
        let (first, second) = (world.importer(), world.importer());
        let runs: [Result<_, ImportError>; 2] = tokio::join!(first.run(), second.run()).into();
        for run in runs {
            match run {
                Ok(_) => {}
                Err(ImportError::Superseded) => superseded += 1,
                Err(error) => panic!("{round}: {error}"),
            }
        }
        if superseded > 0 {
            break;
        }
        world.pass(12).await;
    }
    // Both take the same steps, so they meet within a few rounds.
    assert!(superseded > 0);
    world.swap().await;
    let report = world.import("afterwards").await;
    assert_eq!(kinds(&report).iter().filter(|kind| **kind == PostingKind::Opening).count(), 1);
}
