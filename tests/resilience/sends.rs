//! A process is killed with a signed, unsent transaction, and the endpoint fails when the next process sends it.
//! Whatever it answers, the action is done once, under its idempotency key.

use bardo::base::failpoint::Failpoint;

use crate::host::{AMOUNT, Devnet, Home, ROOMY, run, settled};
use bardo_testkit::rpc_proxy::{Fate, Proxy};

const SEND: &str = "eth_sendRawTransaction";

/// One failure of each class of sending failures.
fn classes() -> [Fate; 9] {
    [
        Fate::Refuse(-32_000, "nonce too low"),
        Fate::Refuse(-32_000, "nonce too high"),
        Fate::Refuse(-32_000, "transaction underpriced"),
        Fate::Refuse(-32_000, "already known"),
        Fate::Refuse(-32_000, "insufficient funds for gas * price + value"),
        Fate::Refuse(3, "execution reverted"),
        Fate::Status(504),
        Fate::LoseAnswer,
        Fate::LoseRequest,
    ]
}

/// A kill with transaction number `leg` of a swap stored, then each failure at the next process's first send.
async fn each_fault_after_a_kill_at(leg: usize) {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    for (number, fault) in (1..).zip(classes()) {
        let (key, what) = (format!("wish-{number}"), format!("{fault:?} at transaction {leg}"));
        let weth = devnet.balance("WETH");
        let place = format!("{}:{leg}", Failpoint::Stored.name());
        let killed = run(home.swap(devnet.url(), &key).env("BARDO_FAILPOINT", &place));
        assert!(killed.killed(), "{what}: {killed:?}");
        let nonce = devnet.nonce();
        let proxy = Proxy::start(devnet.url().to_owned(), move |method, before| {
            if method == SEND && before == 0 { fault.clone() } else { Fate::Pass }
        })
        .await;
        // The same call until it is answered: a transaction in progress is not repeated.
        let mut tries = 0;
        let done = loop {
            let ran = run(&mut home.swap(&proxy.url, &key));
            tries += 1;
            if matches!(ran.status(), "success" | "partial") {
                break ran;
            }
            assert!(tries < 5, "{what}: {ran:?}");
        };
        assert_eq!(done.code, Some(0), "{what}: {done:?}");
        assert!(proxy.count(SEND) > 0 && devnet.nonce() > nonce, "{what}: what was left was sent");
        assert_eq!(settled(&home, &devnet), number, "{what}");
        assert_eq!(weth - devnet.balance("WETH"), AMOUNT, "{what}: sold once");
        // Nothing was dropped: a transaction that may have left keeps its nonce, whatever an endpoint reports.
        let dropped = "SELECT count(*) FROM sender_transaction WHERE state = 'dropped'";
        assert_eq!(home.count(dropped), 0, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_send_after_a_kill_before_the_approval_was_sent_ends_in_one_swap() {
    each_fault_after_a_kill_at(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_send_after_a_kill_before_the_swap_was_sent_ends_in_one_swap() {
    each_fault_after_a_kill_at(2).await;
}
