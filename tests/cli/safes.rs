//! `bardo keys safe` and `bardo safe` as two owners of a Safe run them on a devnet: bind, propose, export, sign, import,
//! execute.

use std::fs;
use std::path::Path;

use alloy::primitives::{Address, U256, hex};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::sandbox::safes::devnet_safes;
use serde_json::{Value, json};

use crate::fixture::{Fixture, on_a_terminal};
use crate::{bardo, run};

/// The approval of a decision on the terminal, after its warning of a first payment.
const YES: [(&str, &str); 3] =
    [("Type ok", "ok\n"), ("type the last four characters", "7979\n"), ("Type yes", "yes\n")];

impl Fixture {
    fn in_folder(&self, home: &Path, arguments: &[&str]) -> (String, String, i32) {
        run(bardo(home).args(arguments).args(["--rpc", &self.given]))
    }

    /// The setting of the Safe that needs two owners, through this one.
    fn bound(&self, home: &Path, owner: &str) -> String {
        let safe = devnet_safes().unwrap()[1].address.to_string();
        let (out, err, code) = self.in_folder(home, &["keys", "safe", &safe, "--owner", owner, "--json"]);
        assert_eq!(code, 0, "{err}");
        let shown: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(shown["threshold"], "2");
        shown["setting"].as_str().unwrap().to_owned()
    }

    fn proposals(&self, home: &Path) -> Value {
        let (out, err, code) = self.in_folder(home, &["safe", "list", "--json"]);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).unwrap()
    }

    fn usdc_held_by(&self, owner: Address) -> U256 {
        let call = json!({
            "to": self.token("USDC"), "data": hex::encode_prefixed(Erc20::balanceOfCall { owner }.abi_encode()),
        });
        self.ask("eth_call", json!([call, "latest"])).as_str().unwrap().parse().unwrap()
    }
}

#[test]
fn two_owners_propose_sign_and_execute_a_transfer_of_their_safe() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.home.path(), tempfile::tempdir().unwrap());
    let [own, other] = [fixture.bound(first, "development:0"), fixture.bound(second.path(), "development:1")];
    let (safe, recipient) = (devnet_safes().unwrap()[1].address, Address::repeat_byte(0x79));
    let params = json!({ "token": "USDC", "amount": "25", "recipient": recipient, "chain": "ethereum" });
    let before = fixture.usdc_held_by(safe);
    let (answer, code) = fixture.call("wallet_transfer_token", &params, &["--key", &own, "--approve", "always"]);
    assert_eq!((&answer["status"], code), (&json!("partial"), 0), "{answer}");
    let id = answer["decision_hints"]["safe_proposal"]["id"].as_str().unwrap();
    assert_eq!((fixture.usdc_held_by(safe), fixture.nonce("pending")), (before, 0), "nothing was sent");
    let [one] = <[Value; 1]>::try_from(fixture.proposals(first).as_array().unwrap().clone()).unwrap();
    assert_eq!((&one["id"], &one["state"], &one["owners_needed"]), (&json!(id), &json!("waiting"), &json!("2")));

    // Nobody executes it with one signature, and nobody signs or executes without a terminal.
    let arguments = |rest: &[&str]| [&["safe"], rest, &["--rpc", &fixture.given]].concat().join(" ");
    let split = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let at_terminal = |home: &Path, rest: &[&str]| {
        let all = split(&arguments(rest));
        on_a_terminal(home, &all.iter().map(String::as_str).collect::<Vec<_>>(), &YES)
    };
    let (shown, code) = at_terminal(first, &["execute", id, "--key", &own]);
    assert!(code != 0 && shown.contains("1 of 2 owners have signed"), "{shown}");
    let file = second.path().join("proposal.json");
    let file = file.to_str().unwrap();
    let (_, err, code) = fixture.in_folder(first, &["safe", "export", id, "--out", file]);
    assert_eq!(code, 0, "{err}");
    let (_, err, code) = fixture.in_folder(second.path(), &["safe", "sign", file, "--key", &other]);
    assert_eq!(code, 3, "{err}");
    assert_eq!(fixture.proposals(second.path()), json!([]));

    // The other owner sees the decision, with the hash of what is signed.
    let (shown, code) = at_terminal(second.path(), &["sign", file, "--key", &other]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("SafeTx, verified by") && shown.contains(id) && shown.contains("25"), "{shown}");
    let back = second.path().join("returned.json");
    let (_, err, code) = fixture.in_folder(second.path(), &["safe", "export", id, "--out", back.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    // A file that another program has changed adds nothing.
    let changed = fs::read_to_string(&back).unwrap().replace("\"operation\": 0", "\"operation\": 1");
    let lie = second.path().join("lie.json");
    fs::write(&lie, changed).unwrap();
    let (_, err, code) = fixture.in_folder(first, &["safe", "import", lie.to_str().unwrap()]);
    assert!(code != 0 && err.contains("delegate call"), "{err}");
    let (out, err, code) = fixture.in_folder(first, &["safe", "import", back.to_str().unwrap()]);
    assert!(code == 0 && out.contains("2 of 2 signed"), "{out}{err}");

    let (shown, code) = at_terminal(first, &["execute", id, "--key", &own]);
    assert_eq!(code, 0, "{shown}");
    assert_eq!(before - fixture.usdc_held_by(safe), U256::from(25_000_000));
    assert_eq!(fixture.usdc_held_by(recipient), U256::from(25_000_000));
    for home in [first, second.path()] {
        assert_eq!(fixture.proposals(home)[0]["state"], "executed");
    }
    let (shown, code) = at_terminal(first, &["execute", id, "--key", &own]);
    assert!(code != 0 && shown.contains("executed"), "{shown}");
}
