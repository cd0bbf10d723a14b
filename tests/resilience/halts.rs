//! Stopped by another process at every stage of a swap. Once the stop file exists, only revocations are signed. An
//! earlier signature is stored or sent only if it was stored already. The audit log can be read and verified.

use std::process::{Child, Stdio};

use bardo::base::failpoint::Failpoint;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};

use crate::host::{ACCOUNT, Devnet, Home, ROOMY, finish, run, settled};

/// Progress of a swap at a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is signed yet, and nothing will be.
    Unsigned,
    /// Signed, in memory only: it is dropped.
    InMemory,
    /// The allowance is signed and stored: it is sent, and revoked; the swap is not signed.
    Allowed,
    /// The swap is signed and stored: it is sent.
    Signed,
}

/// Every failpoint between the idempotency key and the sending, with the number of the pass.
const PLACES: [(Failpoint, u32, Stage); 15] = [
    (Failpoint::KeyClaimed, 1, Stage::Unsigned),
    (Failpoint::Framed, 1, Stage::Unsigned),
    (Failpoint::Assessed, 1, Stage::Unsigned),
    (Failpoint::Permitted, 1, Stage::Unsigned),
    (Failpoint::Acting, 1, Stage::Unsigned),
    (Failpoint::LookedAgain, 1, Stage::Unsigned),
    (Failpoint::InsideGate, 1, Stage::Unsigned),
    (Failpoint::Gated, 1, Stage::Unsigned),
    (Failpoint::Signed, 1, Stage::InMemory),
    (Failpoint::InsideStore, 1, Stage::Allowed),
    (Failpoint::Stored, 1, Stage::Allowed),
    (Failpoint::Sending, 1, Stage::Allowed),
    (Failpoint::Mined, 1, Stage::Allowed),
    (Failpoint::Signed, 2, Stage::Allowed),
    (Failpoint::Stored, 2, Stage::Signed),
];

/// Waits until a process has stopped itself.
fn until_stopped(child: &Child, place: &str) -> Pid {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped(), "{place} is not on the way: {status:?}");
    pid
}

/// Permit2's allowance on the account's WETH, according to the token.
fn allowed(devnet: &Devnet) -> String {
    let padded = |address: &str| format!("{:0>64}", address.trim_start_matches("0x").to_lowercase());
    let permit2 = "0x000000000022d473030f116ddee9f6b43ac78ba3";
    // allowance(address,address) selector.
    let data = format!("0xdd62ed3e{}{}", padded(ACCOUNT), padded(permit2));
    let answer = devnet.ask("eth_call", json!([{ "to": devnet.token("WETH"), "data": data }, "latest"]));
    answer.as_str().unwrap().trim_start_matches("0x").trim_start_matches('0').to_owned()
}

#[test]
fn after_a_stop_by_another_process_at_every_stage_nothing_is_signed() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let stop = home.path().join("data/STOP");
    // Signatures since then that are not revocations.
    let signatures = || {
        if !home.path().join("data/ledger").exists() {
            return 0;
        }
        home.count("SELECT count(*) FROM audit_entry WHERE kind IN ('tx:signed', 'tx:outbid')")
    };
    for (point, pass, stage) in PLACES {
        let place = format!("{}:{pass}", point.name());
        let (nonce, weth, before) = (devnet.nonce(), devnet.balance("WETH"), signatures());
        let mut command = home.swap(devnet.url(), &place);
        let child = command.env("BARDO_FAILPOINT", format!("{place}:stop")).stdout(Stdio::piped()).spawn().unwrap();
        let pid = until_stopped(&child, &place);
        // The stop works even while the audit log cannot be written, because the stopped process is inside a
        // transaction.
        let halted = run(&mut home.command(&["halt", "--reason", "a test"]));
        assert!(stop.exists(), "{place}: {halted:?}");
        kill_process(pid, Signal::CONT).unwrap();
        let ran = finish(child);
        let signed = signatures() - before;
        let sent = devnet.nonce() - nonce;
        match stage {
            Stage::Unsigned | Stage::InMemory => {
                assert_eq!((ran.error_code(), ran.code), ("HALTED", Some(3)), "{place}: {ran:?}");
                assert_eq!((signed, sent), (0, 0), "{place}: nothing is kept, nothing is sent");
            }
            Stage::Allowed => {
                assert_eq!(ran.error_code(), "HALTED", "{place}: {ran:?}");
                assert_eq!((signed, sent), (2, 2), "{place}: the allowance, and that it is taken back: {ran:?}");
            }
            Stage::Signed => {
                assert_eq!(ran.status(), "success", "{place}: {ran:?}");
                assert_eq!((signed, sent), (2, 2), "{place}: what was stored before the stop settles");
            }
        }
        let sold = weth - devnet.balance("WETH");
        assert_eq!(sold > 0, stage == Stage::Signed, "{place}: {sold} was sold");
        assert_eq!(allowed(&devnet), "", "{place}: nothing is left to take");
        // Under the stop the audit log is readable and intact.
        let log = run(&mut home.command(&["log", "--json"]));
        assert_eq!(log.code, Some(0), "{place}: {log:?}");
        let verified = run(&mut home.command(&["log", "verify", "--json"]));
        assert_eq!(verified.code, Some(0), "{place}: {verified:?}");
        // Lifting it needs the operator's approval on a terminal; here a folder without keys proves it.
        bardo_testkit::proof::lift(stop.parent().unwrap());
    }
    let again: Value = run(&mut home.swap(devnet.url(), "after")).answer.unwrap();
    assert_eq!(again["status"], "success", "{again}");
    settled(&home, &devnet);
}
