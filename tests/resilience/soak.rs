//! Many swaps in one process, with an endpoint that fails occasionally: memory and file handles stay constant, and in
//! the end the ledger agrees with the chain. `BARDO_SOAK` sets the number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use alloy::primitives::{U256, keccak256};
use alloy::sol_types::SolValue as _;
use bardo::engine::CallStatus;
use serde_json::json;

use crate::fellow::Bench;
use crate::host::{ACCOUNT, Devnet, Home, ROOMY, settled_of};
use bardo_testkit::rpc_proxy::{Fate, Proxy};

fn wanted() -> u64 {
    std::env::var("BARDO_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

/// Resident memory of a process in kilobytes, and its number of open files, from `/proc`.
fn held(process: &str) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (kilobytes, std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count())
}

/// Second account of the development mnemonic, which has no balance on a devnet.
const SECOND: &str = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";

/// State that the traders share.
struct Soak {
    wanted: u64,
    began: Instant,
    /// Process id of the devnet.
    chain: String,
    next: AtomicU64,
    /// Resources of this process and of the devnet after warming up.
    warm: Mutex<Option<[(u64, usize); 2]>>,
}

impl Soak {
    /// Swaps in both directions, so that it can continue for any time; returns the number of successes, and of refusals
    /// by code.
    async fn trade(self: Arc<Self>, bench: Bench) -> (Bench, u64, BTreeMap<String, u64>) {
        let (mut made, mut refused, mut back) = (0, BTreeMap::<String, u64>::new(), false);
        loop {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            if number >= self.wanted {
                return (bench, made, refused);
            }
            // Pools, caches and threads have reached their final size.
            if number == self.wanted / 4 {
                *self.warm.lock().unwrap() = Some([held("self"), held(&self.chain)]);
            }
            if number.is_multiple_of((self.wanted / 20).max(1)) {
                let ((own, files), (other, _)) = (held("self"), held(&self.chain));
                let passed = self.began.elapsed();
                println!("{number} after {passed:?}: {own} kB here, {files} files; {other} kB in the devnet");
            }
            let way = if back { ("USDC", "WETH", "3.3") } else { ("WETH", "USDC", "0.001") };
            let response = bench.respond(format!("soak-{number}"), way).await;
            match response.status {
                CallStatus::Success | CallStatus::Partial => (made, back) = (made + 1, !back),
                // A chain that did not answer before anything was signed.
                CallStatus::Error | CallStatus::Blocked => {
                    let error = response.error.as_ref().unwrap();
                    println!("{number}: {} {}", error.code(), error.message());
                    *refused.entry(error.code().as_str().to_owned()).or_default() += 1;
                }
                CallStatus::Simulated | CallStatus::Rejected => panic!("{number}: {response:?}"),
            }
        }
    }
}

/// Gives the second account ether for gas, and ten WETH.
fn furnish(devnet: &Devnet) {
    devnet.ask("anvil_setBalance", json!([SECOND, "0x21e19e0c9bab2400000"]));
    // WETH9 keeps balances in its fourth slot.
    let owner: alloy::primitives::Address = SECOND.parse().unwrap();
    let slot = keccak256((owner, U256::from(3)).abi_encode());
    let ten = format!("{:#066x}", U256::from(10_u128.pow(19)));
    devnet.ask("anvil_setStorageAt", json!([devnet.token("WETH"), slot, ten]));
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_swaps_leave_nothing_behind() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let (asked, armed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let ready = Arc::clone(&armed);
    let proxy = Proxy::forgetting(devnet.url().to_owned(), move |method, _| {
        if !ready.load(Ordering::SeqCst) {
            return Fate::Pass;
        }
        // About one request in a hundred fails, each time in another way; sends are the likeliest.
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let every = if method == "eth_sendRawTransaction" { 7 } else { 97 };
        match (number % every == 3, number % 7) {
            (false, _) => Fate::Pass,
            (true, 0) => Fate::LoseAnswer,
            (true, 1) => Fate::Status(502),
            (true, 2) => Fate::LoseRequest,
            (true, 3) => Fate::Refuse(-32_603, "internal error"),
            (true, 4) => Fate::Delay(Duration::from_millis(200)),
            (true, 5) => Fate::Twice,
            (true, _) => Fate::StaleHead(2),
        }
    })
    .await;
    // Two accounts concurrently, each with its own session of the ledger.
    furnish(&devnet);
    let first = Bench::of(0, home.path(), Some(&proxy.url)).await;
    let benches = [first, Bench::of(1, home.path(), Some(&proxy.url)).await];
    armed.store(true, Ordering::SeqCst);
    let soak = Arc::new(Soak {
        wanted: wanted(),
        began: Instant::now(),
        chain: devnet.id().to_string(),
        next: AtomicU64::new(0),
        warm: Mutex::new(None),
    });
    let traders = benches.map(|bench| tokio::spawn(Arc::clone(&soak).trade(bench)));
    let (mut made, mut refused) = (0, BTreeMap::<String, u64>::new());
    let mut idle = Vec::new();
    for trader in traders {
        let (bench, more, others) = trader.await.unwrap();
        idle.push(bench);
        made += more;
        for (code, count) in others {
            *refused.entry(code).or_default() += count;
        }
    }
    let (wanted, chain, began) = (soak.wanted, &soak.chain, soak.began);
    let warm = soak.warm.lock().unwrap().take();
    let ([(memory, files), (other, _)], [(memory_now, files_now), (other_now, _)]) =
        (warm.unwrap(), [held("self"), held(chain)]);
    println!("{made} made, refused {refused:?}, in {:?}", began.elapsed());
    println!("here {memory} → {memory_now} kB, {files} → {files_now} files; devnet {other} → {other_now} kB");
    assert!(made > wanted * 3 / 4, "{made} of {wanted}, refused {refused:?}");
    // A short run is still warming up, and shares its process with other tests.
    if wanted >= 300 {
        assert!(memory_now < memory + 10_000, "{memory} → {memory_now} kB");
        // The devnet keeps its newest 8,192 blocks, two or three per swap; then its memory is constant, too.
        let blocks = (wanted * 3 / 4 * 3).min(8_192);
        assert!(other_now < other + 20_000 + blocks * 20, "{other} → {other_now} kB in the devnet");
        assert!(files_now <= files + 40, "{files} → {files_now} files");
    }
    drop(idle);
    // The next start completes open actions.
    let bench = Bench::open(home.path(), Some(devnet.url())).await;
    bench.swap("after".to_owned()).await;
    drop(bench);
    let swaps = settled_of(&home, &devnet, &[ACCOUNT, SECOND]);
    // Answered swaps were done; a swap without an answer was done once or not at all.
    let refused = refused.values().sum::<u64>();
    assert!((made + 1..=made + refused + 1).contains(&swaps), "{swaps} on the chain, {made} answered, {refused} not");
}
