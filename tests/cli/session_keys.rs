//! `bardo keys session` as a new user runs it on a devnet: draft, accept, swap under the session key, revoke.

use std::fs;

use alloy::primitives::{Address, B256, U256, hex};
use alloy::sol_types::SolCall as _;
use bardo::abi::delegation::DelegationManager;
use bardo::abi::erc20::Erc20;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::keys::with_secrets;
use crate::{bardo, run};

/// First account of the development mnemonic, which has tokens on the devnet.
const OWNER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const PASSWORD: &str = "battery staple";

impl Fixture {
    fn session(&self, arguments: &str) -> (String, String, i32) {
        with_secrets(self.home.path(), &format!("keys session {arguments} --rpc {}", self.given), PASSWORD, "")
    }

    /// Drafts a session key for swaps of USDC and returns its description.
    fn drafted(&self, more: &str) -> Value {
        let fixed = "draft --json --owner development:0 --allow USDC --allow permit2 --allow universalRouterV2_1_0 \
                     --max-loss USDC=200 --password-fd 3";
        let (out, err, code) = self.session(&format!("{fixed} {more}"));
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).unwrap()
    }

    /// The devnet's owner signs on the terminal.
    fn accepted(&self, id: &str) -> (String, u32) {
        let arguments = ["keys", "session", "accept", id, "--rpc", &self.given];
        self.conversation(
            &arguments,
            &[("Type `sign`", "sign\n"), ("password of the session key", &format!("{PASSWORD}\r"))],
        )
    }

    fn swap_as(&self, id: &str, amount: &str) -> (Value, i32) {
        let params = json!({ "token_in": "USDC", "token_out": "WETH", "amount": amount, "chain": "ethereum" });
        let home = self.home.path();
        fs::write(home.join("params.json"), params.to_string()).unwrap();
        let arguments = format!(
            "call uniswap_execute_swap @\"$HOME/params.json\" --rpc {} --key session:{id} --password-fd 3 --approve always",
            self.given
        );
        let (out, err, code) = with_secrets(home, &arguments, PASSWORD, "");
        (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")), code)
    }

    fn listed(&self) -> Value {
        let (out, err, code) = run(bardo(self.home.path()).args(["keys", "session", "list", "--json"]));
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).unwrap()
    }

    fn usdc_of(&self, account: &str) -> U256 {
        let owner: Address = account.parse().unwrap();
        let call = json!({
            "to": self.token("USDC"), "data": hex::encode_prefixed(Erc20::balanceOfCall { owner }.abi_encode()),
        });
        self.ask("eth_call", json!([call, "latest"])).as_str().unwrap().parse().unwrap()
    }

    fn nonce_of(&self, account: &str) -> Value {
        self.ask("eth_getTransactionCount", json!([account, "latest"]))
    }
}

#[test]
fn a_new_user_drafts_accepts_uses_and_revokes_a_session_key() {
    let fixture = Fixture::new();
    let drafted = fixture.drafted("--calls 5 --label swaps");
    let (id, address) = (drafted["id"].as_str().unwrap(), drafted["address"].as_str().unwrap());
    let owner = json!(OWNER.to_lowercase());
    assert_eq!((&drafted["state"], &drafted["owner"]), (&json!("drafted"), &owner));
    assert_eq!(drafted["max_calls"], 5);
    // A draft signs nothing.
    let (answer, code) = fixture.swap_as(id, "100");
    assert_eq!((&answer["error"]["code"], code), (&json!("SESSION_KEY_UNVERIFIED"), 1), "{answer}");

    // A signature of somebody else is refused; the devnet's owner signs after a confirmation.
    let wrong = format!("0x{}", "11".repeat(65));
    let (_, err, code) = fixture.session(&format!("accept {id} {wrong} --password-fd 3"));
    assert!(code != 0 && err.contains("not signed by its owner"), "{err}");
    let (_, err, code) = fixture.session(&format!("accept {id} --password-fd 3"));
    assert_eq!(code, 3, "only a person on a terminal: {err}");
    let (shown, code) = fixture.accepted(id);
    assert!(code == 0 && shown.contains(&format!("--key session:{id}")), "{shown}");

    // Too much of a token at once is refused before anything is signed.
    let (answer, _) = fixture.swap_as(id, "201");
    assert_eq!(answer["error"]["code"], "SESSION_KEY_OUT_OF_SCOPE", "{answer}");
    assert_eq!((fixture.nonce_of(address), &fixture.listed()[0]["uses"]), (json!("0x0"), &json!(0)));

    // The owner's tokens move, and the session key signs and pays.
    let (before, nonce) = (fixture.usdc_of(OWNER), fixture.nonce_of(OWNER));
    let (answer, code) = fixture.swap_as(id, "100");
    assert_eq!((&answer["status"], code), (&json!("success"), 0), "{answer}");
    assert_eq!(before - fixture.usdc_of(OWNER), U256::from(100_000_000));
    assert_eq!(fixture.nonce_of(OWNER), nonce);
    assert_eq!(fixture.nonce_of(address), "0x3", "an allowance for Permit2, one inside it, and the swap");
    let listed = fixture.listed();
    assert_eq!((&listed[0]["uses"], &listed[0]["state"]), (&json!(3), &json!("granted")), "{listed}");

    // Too many calls are refused before the first of them is signed.
    let (answer, _) = fixture.swap_as(id, "100");
    assert_eq!(answer["error"]["code"], "SESSION_KEY_USED_UP", "{answer}");
    assert_eq!((fixture.nonce_of(address), &fixture.listed()[0]["uses"]), (json!("0x3"), &json!(3)));

    // The wallet's state and the doctor name the custody.
    fixture.configure(&format!("account = \"session:{id}\"\n"));
    let (out, _, _) = run(bardo(fixture.home.path()).args(["doctor", "--rpc", &fixture.given]));
    assert!(out.contains(&format!("delegated: session key {id}")), "{out}");
    let (out, _, _) = with_secrets(
        fixture.home.path(),
        &format!("call wallet_get_status --rpc {} --key session:{id}", fixture.given),
        PASSWORD,
        "",
    );
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status["data"]["provider"], "delegated", "{status}");

    let (out, err, code) = run(bardo(fixture.home.path()).args(["keys", "session", "revoke", id, "--json"]));
    assert_eq!(code, 0, "{err}");
    let revoked: Value = serde_json::from_str(&out).unwrap();
    let (answer, code) = fixture.swap_as(id, "10");
    assert_eq!((&answer["error"]["code"], code), (&json!("SESSION_KEY_REVOKED"), 1), "{answer}");
    assert_eq!(fixture.nonce_of(address), "0x3");

    // The call that `revoke` names does disable the delegation on chain.
    let call = &revoked[0]["owners_call"];
    let data = hex::decode(call["data"].as_str().unwrap()).unwrap();
    let delegation = DelegationManager::disableDelegationCall::abi_decode(&data).unwrap().delegation;
    let asks = |data: Vec<u8>| -> Value {
        let asked = json!({ "to": call["to"], "data": hex::encode_prefixed(data) });
        fixture.ask("eth_call", json!([asked, "latest"]))
    };
    let hash: B256 =
        asks(DelegationManager::getDelegationHashCall { delegation }.abi_encode()).as_str().unwrap().parse().unwrap();
    let disabled = || asks(DelegationManager::disabledDelegationsCall { delegationHash: hash }.abi_encode());
    assert_eq!(disabled().as_str().unwrap().parse::<U256>().unwrap(), U256::ZERO, "on chain it stands");
    let sent = json!([{ "from": call["from"], "to": call["to"], "data": call["data"], "gas": "0x30d40" }]);
    fixture.ask("eth_sendTransaction", sent);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while disabled().as_str().unwrap().parse::<U256>().unwrap().is_zero() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(disabled().as_str().unwrap().parse::<U256>().unwrap(), U256::ONE);
}

#[test]
fn the_last_rung_of_the_stop_ladder_revokes_session_keys_for_good() {
    let fixture = Fixture::new();
    let drafted = fixture.drafted("");
    let id = drafted["id"].as_str().unwrap();
    let (shown, code) = fixture.accepted(id);
    assert_eq!(code, 0, "{shown}");
    let (out, err, code) = run(bardo(fixture.home.path()).args(["halt", "--level", "revoke"]));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(&format!("session key {id} was revoked")) && out.contains("its delegation stands"), "{out}");
    let listed = fixture.listed();
    assert_eq!((&listed[0]["state"], &listed[0]["revoked"]["by"]), (&json!("revoked"), &json!("stop")), "{listed}");
    let (answer, _) = fixture.swap_as(id, "10");
    assert_eq!(answer["error"]["code"], "SESSION_KEY_REVOKED", "{answer}");
}

#[test]
fn a_draft_needs_a_bound_and_a_lasting_network() {
    let fixture = Fixture::new();
    let base = "draft --owner development:0 --allow USDC --password-fd 3";
    let (_, err, code) = fixture.session(base);
    assert!(code == 2 && err.contains("--max-loss"), "{err}");
    let (_, err, code) = fixture.session(&format!("{base} --max-loss USDC=1 --expires 31d"));
    assert!(code == 2 && err.contains("30 days"), "{err}");
    let (_, err, code) =
        with_secrets(fixture.home.path(), &format!("keys session {base} --max-loss USDC=1"), PASSWORD, "");
    assert!(code == 2 && err.contains("ends with it"), "{err}");
    assert_eq!(fixture.listed(), json!([]));
}
