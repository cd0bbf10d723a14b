//! Many swaps in one program, with an endpoint that fails now and then: memory and file handles stay as they are, and
//! in the end the ledger is the chain's. `BARDO_SOAK` says how many.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use bardo::engine::Status;

use crate::fellow::Bench;
use crate::host::{Devnet, Home, ROOMY, settled};
use crate::proxy::{Fate, Proxy};

fn wanted() -> u64 {
    std::env::var("BARDO_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// Resident memory of a process in kilobytes, and its open files, by the system's word.
fn held(process: &str) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (kilobytes, std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count())
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
        // One request in a hundred or so fails, each time in another way; sends are the likeliest.
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let every = if method == "eth_sendRawTransaction" { 7 } else { 97 };
        match (number % every == 3, number % 4) {
            (false, _) => Fate::Pass,
            (true, 0) => Fate::LoseAnswer,
            (true, 1) => Fate::Status(502),
            (true, 2) => Fate::LoseRequest,
            (true, _) => Fate::Refuse(-32_603, "internal error"),
        }
    })
    .await;
    let bench = Bench::open(home.path(), Some(&proxy.url)).await;
    armed.store(true, Ordering::SeqCst);
    let (wanted, began, chain) = (wanted(), Instant::now(), devnet.id().to_string());
    let (mut made, mut refused) = (0, BTreeMap::<String, u64>::new());
    let mut warm = None;
    for number in 0..wanted {
        // Pools, caches and threads are what they will be.
        if number == wanted / 4 {
            warm = Some((held("self"), held(&chain)));
        }
        if number % (wanted / 20).max(1) == 0 {
            let ((own, files), (other, _)) = (held("self"), held(&chain));
            println!("{number} after {:?}: {own} kB here, {files} files; {other} kB in the devnet", began.elapsed());
        }
        // There and back, so that it can go on for as long as it is asked to.
        let way = if number % 2 == 0 { ("WETH", "USDC", "0.001") } else { ("USDC", "WETH", "3.4") };
        let (status, code) = bench.trade(format!("soak-{number}"), way).await;
        match status {
            Status::Success | Status::Partial => made += 1,
            // A chain that did not answer before anything was signed.
            Status::Error | Status::Blocked => *refused.entry(code).or_default() += 1,
            Status::Simulated | Status::Rejected => panic!("{number}: {status:?} {code}"),
        }
    }
    let (((memory, files), (other, _)), ((memory_now, files_now), (other_now, _))) =
        (warm.unwrap(), (held("self"), held(&chain)));
    println!("{made} made, refused {refused:?}, in {:?}", began.elapsed());
    println!("here {memory} → {memory_now} kB, {files} → {files_now} files; devnet {other} → {other_now} kB");
    assert!(made > wanted * 3 / 4, "{made} of {wanted}, refused {refused:?}");
    // A very short run still warms up.
    if wanted >= 300 {
        assert!(memory_now < memory + 10_000, "{memory} → {memory_now} kB");
        // The devnet keeps its newest 8,192 blocks, of two or three for each swap; then it is flat as well.
        let blocks = (wanted * 3 / 4 * 3).min(8_192);
        assert!(other_now < other + 20_000 + blocks * 20, "{other} → {other_now} kB in the devnet");
    }
    assert!(files_now <= files + 8, "{files} → {files_now} files");
    drop(bench);
    // The next start ends what is still open.
    let bench = Bench::open(home.path(), Some(devnet.url())).await;
    bench.swap("after".to_owned()).await;
    drop(bench);
    let swaps = settled(&home, &devnet);
    // What was answered was done; what got no answer was done once or not at all.
    let refused = refused.values().sum::<u64>();
    assert!((made + 1..=made + refused + 1).contains(&swaps), "{swaps} on the chain, {made} answered, {refused} not");
}
