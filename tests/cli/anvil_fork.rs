//! A rehearsal over anvil, which carries a devnet's state: another program's endpoint, the same quotes and swaps.

use serde_json::json;

use crate::rehearsal::{Quiet, call, result, swap, written};
use bardo::chain::devnet::WorldState;
use bardo_testkit::anvil;
use bardo_testkit::devnet::ask;

#[test]
#[ignore = "needs anvil: run by .ci/run"]
fn a_fork_of_anvil_with_a_devnets_state_quotes_and_swaps_as_the_devnet_does() {
    let home = tempfile::tempdir().unwrap();
    let quiet = Quiet::start();
    let runtime = bardo::base::runtime::multi_threaded(Some(2)).unwrap();
    let (anvil, _) = runtime.block_on(anvil::start(&WorldState::default(), 1_800_000_000, 31_337));
    let dump = ask(&quiet.url, "anvil_dumpState", json!([]));
    assert_eq!(ask(anvil.url(), "anvil_loadState", json!([dump])), json!(true));
    let head = ask(anvil.url(), "eth_blockNumber", json!([]));
    assert_eq!(head, ask(&quiet.url, "eth_blockNumber", json!([])));
    let mut book = quiet.book.clone();
    book["chains"][0]["rpc"] = json!(anvil.url());
    let book = written(home.path(), &book);
    let (fork, live) = (format!("ethereum={}", anvil.url()), format!("ethereum={}", quiet.url));
    let rehearsed = ["--fork", &fork, "--book", &book, "--approve", "always"];
    let network = ["--rpc", &live, "--approve", "always"];
    let pairs = [("WETH", "USDC", "0.1"), ("USDC", "UNI", "25"), ("ETH", "DAI", "0.01"), ("LINK", "USDC", "3")];
    for (from, to, amount) in pairs {
        let wanted = swap(from, to, amount);
        let quoted = |more: &[&str]| {
            let (response, code) = call(home.path(), "uniswap_get_quote", &wanted, more);
            assert_eq!((code, &response["status"]), (0, &json!("success")), "{response}");
            (response["data"]["amount_out"].clone(), response["data"]["route"].clone())
        };
        assert_eq!(quoted(&rehearsed), quoted(&network), "{wanted}");
    }
    let wanted = swap("WETH", "USDC", "0.1");
    let swapped = |more: &[&str]| {
        let (response, code) = call(home.path(), "uniswap_execute_swap", &wanted, more);
        assert_eq!(code, 0, "{response}");
        result(&response)
    };
    // On the rehearsal first: the devnet goes on by its own swap.
    let (there, here) = (swapped(&rehearsed), swapped(&network));
    assert_eq!(there, here);
    assert_eq!(ask(anvil.url(), "eth_blockNumber", json!([])), head, "anvil was only read");
}
