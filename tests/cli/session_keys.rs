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
use bardo_testkit::python::python;

/// First account of the development mnemonic, which has tokens on the devnet.
const OWNER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const PASSWORD: &str = "battery staple";

impl Fixture {
    fn session(&self, arguments: &str) -> (String, String, i32) {
        with_secrets(self.home.path(), &format!("keys session {arguments} --rpc {}", self.given), PASSWORD, "")
    }

    /// Drafts a session key for swaps of USDC and returns its description.
    fn drafted(&self, more: &str) -> Value {
        let fixed = "draft --json --owner development:0 --swap USDC=200 --password-fd 3";
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
    // 5 calls of 200 USDC each.
    let stolen = drafted["stolen"].as_str().unwrap();
    assert!(stolen.contains("at most 1000 USDC from 0xf39F"), "{stolen}");
    // A draft signs nothing.
    let (answer, code) = fixture.swap_as(id, "100");
    assert_eq!((&answer["error"]["code"], code), (&json!("SESSION_KEY_UNVERIFIED"), 1), "{answer}");
    // The list says what the key may do, without a chain: contracts, amounts, end and count, as they were asked for.
    let (out, err, code) = run(bardo(fixture.home.path()).args(["keys", "session", "list"]));
    assert_eq!(code, 0, "{err}");
    for part in ["calls only ", "USDC", "Permit2", "Universal Router", "takes at most 200 USDC", "0 of 5 signatures"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(out.contains("sends no ETH") && out.contains(", until 20"), "{out}");
    assert_eq!(
        fixture.listed()[0]["scope"].as_array().map(Vec::len),
        Some(out.lines().filter(|line| line.starts_with("  ")).count()),
        "{out}"
    );

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

impl Fixture {
    /// A tool of session keys with its parameters, on the fixture's devnet.
    fn key_tool(&self, tool: &str, params: &Value) -> Value {
        let home = self.home.path();
        fs::write(home.join("params.json"), params.to_string()).unwrap();
        let arguments = format!("call {tool} @\"$HOME/params.json\" --rpc {} --password-fd 3", self.given);
        let (out, err, _) = with_secrets(home, &arguments, PASSWORD, "");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
    }
}

/// The tools of an agent and the commands of the operator work on the same keys.
#[test]
fn session_keys_are_provisioned_listed_and_revoked_by_tools() {
    let fixture = Fixture::new();
    let none = fixture.key_tool("session_get_keys", &json!({}));
    assert_eq!((&none["data"]["total"], &none["data"]["active"]), (&json!(0), &json!(0)), "{none}");

    // What would not bound a thief is refused before anybody is asked for a password, and leaves no key file.
    let usdc = fixture.token("USDC").to_owned();
    let approve = json!({ "contract": usdc, "methods": ["approve(address,uint256)"], "chains": [31_337] });
    let bounds = json!({ "token": "USDC", "amount": "10" });
    for (params, why) in [
        (json!({ "permissions": [approve], "max_calls": 2, "max_loss": [bounds] }), "0x095ea7b3"),
        (json!({ "swaps": [bounds] }), "number of calls"),
        (
            json!({ "permissions": [{ "contract": OWNER, "methods": ["a()"], "chains": [31_337] }], "policy_contract": true }),
            "the owner's own account",
        ),
        (json!({ "swaps": [bounds], "max_calls": 1, "expires_in": 604_801 }), "604800"),
        (
            json!({ "permissions": [{ "contract": usdc, "methods": ["transfer(address,uint256)"], "chains": [31_337, 31_338] }],
                 "max_calls": 1, "max_loss": [bounds] }),
            "one chain",
        ),
    ] {
        let answer = fixture.key_tool("session_provision_key", &params);
        assert_eq!(answer["status"], "error", "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{why}: {answer}");
    }
    let files = || fs::read_dir(fixture.home.path().join("data/keys")).map(Iterator::count).unwrap_or_default();
    assert_eq!(files(), 0);
    // Without the operator's password there is no key.
    let wanted = json!({ "swaps": [{ "token": "USDC", "amount": "200" }], "max_calls": 5, "label": "by a tool" });
    let (unasked, code) = fixture.call("session_provision_key", &wanted, &["--approve", "always"]);
    assert_eq!((&unasked["error"]["code"], code), (&json!("APPROVAL_REQUIRED"), 3), "{unasked}");
    assert_eq!(files(), 0);

    let made = fixture.key_tool("session_provision_key", &wanted);
    assert_eq!((&made["status"], &made["data"]["state"]), (&json!("success"), &json!("drafted")), "{made}");
    let (id, address) = (made["data"]["key_id"].as_str().unwrap(), made["data"]["address"].as_str().unwrap());
    // The address is the end of the public key's hash, as for every key of the network.
    let point = hex::decode(made["data"]["public_key"].as_str().unwrap()).unwrap();
    assert_eq!(&alloy::primitives::keccak256(&point)[12..], address.parse::<Address>().unwrap().as_slice());
    let listed = fixture.key_tool("session_get_keys", &json!({}));
    assert_eq!((&listed["data"]["keys"][0]["state"], &listed["data"]["active"]), (&json!("drafted"), &json!(0)));

    let (shown, code) = fixture.accepted(id);
    assert_eq!(code, 0, "{shown}");
    let listed = fixture.key_tool("session_get_keys", &json!({}));
    let key = &listed["data"]["keys"][0];
    assert_eq!((&key["state"], &key["accepted_on_chain"]), (&json!("active"), &json!(true)), "{listed}");
    assert_eq!((&key["max_calls"], &key["usage_count"]), (&json!(5), &json!(0)), "{listed}");
    let address = |text: &str| text.parse::<Address>().unwrap();
    let contract = |one: &Value| address(one["contract"].as_str().unwrap());
    let contracts: Vec<_> = key["permissions"].as_array().unwrap().iter().map(contract).collect();
    let router = address(fixture.contract("universalRouterV2_1_0"));
    assert!(contracts.contains(&address(&usdc)) && contracts.contains(&router), "{listed}");
    let credentials = fixture.key_tool("identity_get_credentials", &json!({}));
    assert_eq!(credentials["data"]["session_keys"][0]["key_id"], json!(id), "{credentials}");
    let status = fixture.key_tool("wallet_get_status", &json!({}));
    assert_eq!(status["data"]["active_session_keys"], 1, "{status}");
    let (answer, code) = fixture.swap_as(id, "100");
    assert_eq!((&answer["status"], code), (&json!("success"), 0), "{answer}");
    let listed = fixture.key_tool("session_get_keys", &json!({}));
    assert_eq!(listed["data"]["keys"][0]["usage_count"], 3, "three transactions of the swap: {listed}");

    // A revocation passes a stop; an unknown id revokes nothing.
    let (_, err, code) = run(bardo(fixture.home.path()).args(["halt"]));
    assert_eq!(code, 0, "{err}");
    let halted = fixture.key_tool("session_provision_key", &wanted);
    assert_eq!(halted["error"]["code"], "HALTED", "{halted}");
    let unknown =
        fixture.key_tool("session_revoke_key", &json!({ "key_ids": [id, "ffffffffffffffffffffffffffffffff"] }));
    assert_eq!(unknown["error"]["code"], "WALLET_NOT_CONFIGURED", "{unknown}");
    assert_eq!(fixture.listed()[0]["state"], "granted");
    let revoked = fixture.key_tool("session_revoke_key", &json!({ "key_ids": [id], "reason": "no longer needed" }));
    assert_eq!(revoked["data"]["revoked_keys"], json!([id]), "{revoked}");
    let call = &revoked["data"]["delegations"][0]["owners_call"];
    assert_eq!(call["from"].as_str().unwrap().to_lowercase(), OWNER.to_lowercase(), "{revoked}");
    let again = fixture.key_tool("session_revoke_key", &json!({}));
    assert_eq!(again["data"]["revoked_count"], 0, "{again}");
    let (answer, _) = fixture.swap_as(id, "10");
    assert_eq!(answer["error"]["code"], "SESSION_KEY_REVOKED", "{answer}");
    let listed = fixture.key_tool("session_get_keys", &json!({}));
    assert_eq!(listed["data"]["total"], 0, "{listed}");
    let listed = fixture.key_tool("session_get_keys", &json!({ "include_ended": true }));
    assert_eq!(listed["data"]["keys"][0]["state"], "revoked", "{listed}");
    let kept = fixture.listed();
    assert_eq!(kept[0]["revoked"]["reason"], "no longer needed", "{kept}");
}

#[test]
fn the_last_rung_of_the_stop_ladder_revokes_session_keys_for_good() {
    let fixture = Fixture::new();
    let drafted = fixture.drafted("--calls 12");
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
    assert!(code == 2 && err.contains("--swap"), "{err}");
    // The contracts of a swap with free arguments: `approve` would give a thief everything.
    let old = "draft --owner development:0 --allow WETH --allow permit2 --allow universalRouterV2_1_0 --max-loss WETH=0.1 \
               --calls 12 --password-fd 3";
    let refused = [
        (old.to_owned(), "every function may be called"),
        (format!("{old} --method approve(address,uint256)"), "0x095ea7b3"),
        (base.replace("USDC", "v3PositionManager --max-loss USDC=1 --calls 2"), "every function"),
        (format!("{base} --method transfer(address,uint256) --max-loss WETH=1 --calls 2"), "loss of the token"),
        ("draft --owner development:0 --swap USDC=1 --password-fd 3".to_owned(), "number of calls"),
        (base.replace("USDC", &format!("{OWNER} --cage")), "the owner's own account"),
        (base.replace("USDC", &format!("{OWNER} --unbounded")), "the owner's own account"),
    ];
    for (arguments, why) in refused {
        let (out, err, code) = fixture.session(&arguments.replace('(', "\\(").replace(')', "\\)"));
        assert!(code != 0 && err.contains(why), "{arguments}: {out}{err}");
    }
    let keys = fs::read_dir(fixture.home.path().join("data/keys")).map(Iterator::count).unwrap_or_default();
    assert_eq!(keys, 0, "a refused draft leaves no key file");
    let (_, err, code) = fixture.session(&format!("{base} --max-loss USDC=1 --expires 31d"));
    assert!(code == 2 && err.contains("30 days"), "{err}");
    let (_, err, code) =
        with_secrets(fixture.home.path(), &format!("keys session {base} --max-loss USDC=1"), PASSWORD, "");
    assert!(code == 2 && err.contains("ends with it"), "{err}");
    assert_eq!(fixture.listed(), json!([]));

    // The lifetime begins with the chain's time, here ten days ahead of the machine's.
    fixture.ask("evm_increaseTime", json!([864_000]));
    fixture.ask("evm_mine", json!([]));
    let time = || -> u64 {
        let block = fixture.ask("eth_getBlockByNumber", json!(["latest", false]));
        u64::from_str_radix(block["timestamp"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    };
    let before = time();
    let drafted = fixture.drafted("--calls 1");
    let (ends, after) = (drafted["expires_at"].as_u64().unwrap(), time());
    assert!((before + 86_400..=after + 86_400).contains(&ends), "{before} {ends} {after}");
    let (out, err, code) = fixture.session(&format!("{base} --unbounded"));
    assert!(code == 0 && out.contains("WARNING: nothing bounds"), "{out}{err}");
}

#[test]
fn a_revocation_reaches_every_key_and_claims_only_what_is_proved() {
    let fixture = Fixture::new();
    let home = fixture.home.path();
    let ids = ["a", "b"].map(|label| {
        let drafted = fixture.drafted(&format!("--calls 12 --label {label}"));
        let id = drafted["id"].as_str().unwrap().to_owned();
        let (shown, code) = fixture.accepted(&id);
        assert_eq!(code, 0, "{shown}");
        id
    });
    let ledgers = fs::read_dir(home.join("data/ledger")).unwrap();
    let path = ledgers.map(|entry| entry.unwrap().path().join("ledger.db")).next().unwrap();
    let ledger = rusqlite::Connection::open(path).unwrap();
    // An older copy of the rows; a row whose id is none; one with a damaged and one with another manager.
    ledger.execute_batch("CREATE TABLE older AS SELECT * FROM safety_session_key").unwrap();
    let columns = "label, address, owner, chain_id, manager, delegation, signature, created_at, expires_at, max_calls, \
                   uses, last_used, state, revoked_at, revoked_by, reason, tag";
    let insert = format!("INSERT INTO safety_session_key (id, {columns}) SELECT 'zz', {columns} FROM older LIMIT 1");
    ledger.execute(&insert, []).unwrap();
    let change = |set: &str, id: &str| {
        ledger.execute(&format!("UPDATE safety_session_key SET {set} WHERE id = ?1"), [id]).unwrap();
    };
    change("manager = x'01'", &ids[0]);
    change("manager = owner", &ids[1]);
    let other = home.join("data/ledger/devnet-other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("ledger.db"), "not a database, but as long as one would have to be at the very least")
        .unwrap();

    let (out, err, code) = run(bardo(home).args(["halt", "--level", "revoke"]));
    assert!(code == 1 && err.contains("devnet-other"), "{out}{err}");
    assert!(!out.contains("Session keys are revoked for good"), "{out}");
    for id in ids.iter().map(String::as_str).chain(["zz"]) {
        let said =
            format!("session key {id} was revoked: Bardo never signs with it again. Its record fits no signature");
        assert!(out.contains(&said), "{out}");
    }
    let live = || -> i64 {
        let sql = "SELECT count(*) FROM safety_session_key WHERE state <> 'revoked'";
        ledger.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(live(), 0);
    // The key files are where Bardo opens none.
    for id in &ids {
        assert!(!home.join(format!("data/keys/session-{id}.json")).exists());
        assert!(home.join(format!("data/keys/revoked/session-{id}.json")).exists());
    }

    // The rows of the older copy, with the key's own tags, and even its file: the audit log has the revocation.
    ledger.execute_batch("DELETE FROM safety_session_key; INSERT INTO safety_session_key SELECT * FROM older").unwrap();
    let (answer, _) = fixture.swap_as(&ids[0], "10");
    assert_eq!(answer["error"]["code"], "SESSION_KEY_REVOKED", "{answer}");
    fs::rename(
        home.join(format!("data/keys/revoked/session-{}.json", ids[0])),
        home.join(format!("data/keys/session-{}.json", ids[0])),
    )
    .unwrap();
    let (answer, _) = fixture.swap_as(&ids[0], "10");
    assert_eq!(answer["error"]["code"], "SESSION_KEY_REVOKED", "{answer}");
    // As a key of its own, it is none.
    fixture.configure(&format!("account = \"session-{}\"\n", ids[0]));
    let (out, _, _) = run(bardo(home).args(["doctor", "--rpc", &fixture.given]));
    assert!(out.contains("is the key file of a session key"), "{out}");
    fixture.configure("");

    // Both rows are genuine now, so that the owner's call can be named; one at a time, also by a damaged id.
    fs::remove_dir_all(&other).unwrap();
    ledger.execute(&insert, []).unwrap();
    let (out, err, code) = run(bardo(home).args(["keys", "session", "revoke", "zz"]));
    assert!(code == 0 && out.contains("session key zz was revoked") && live() == 2, "{out}{err}");
    let (out, err, code) = run(bardo(home).args(["halt", "--level", "revoke"]));
    assert!(code == 0 && out.contains("Session keys are revoked for good") && live() == 0, "{out}{err}");
    assert_eq!(out.matches("its delegation stands until").count(), 2, "{out}");
    assert!(out.contains(&format!("or {OWNER} disables it")), "{out}");
}

/// A process that can write the database hides two keys while everything is revoked: one row says that it is revoked already, the
/// other is gone. Put back with their genuine tags, both would act again; the audit log shows that neither was revoked before.
#[test]
fn a_key_that_hides_from_a_revocation_is_revoked_as_well() {
    let fixture = Fixture::new();
    let home = fixture.home.path();
    let ids = ["a", "b"].map(|label| {
        let drafted = fixture.drafted(&format!("--calls 12 --label {label}"));
        let id = drafted["id"].as_str().unwrap().to_owned();
        let (shown, code) = fixture.accepted(&id);
        assert_eq!(code, 0, "{shown}");
        id
    });
    let ledgers = fs::read_dir(home.join("data/ledger")).unwrap();
    let path = ledgers.map(|entry| entry.unwrap().path().join("ledger.db")).next().unwrap();
    let ledger = rusqlite::Connection::open(path).unwrap();
    ledger.execute_batch("CREATE TABLE older AS SELECT * FROM safety_session_key").unwrap();
    let hide = "UPDATE safety_session_key SET state = 'revoked', signature = NULL, tag = NULL, revoked_at = 1, \
                revoked_by = 'operator' WHERE id = ?1";
    ledger.execute(hide, [&ids[0]]).unwrap();
    ledger.execute("DELETE FROM safety_session_key WHERE id = ?1", [&ids[1]]).unwrap();
    // The list does not believe the row.
    let (out, err, _) = run(bardo(home).args(["keys", "session", "list"]));
    assert!(format!("{out}{err}").contains("is damaged in `state`"), "{out}{err}");
    let (out, err, code) = run(bardo(home).args(["halt", "--level", "revoke"]));
    assert_eq!(code, 0, "{out}{err}");
    for id in &ids {
        assert!(out.contains(&format!("session key {id} was revoked")), "{out}");
        assert!(home.join(format!("data/keys/revoked/session-{id}.json")).exists(), "{out}");
    }
    ledger.execute_batch("DELETE FROM safety_session_key; INSERT INTO safety_session_key SELECT * FROM older").unwrap();
    for id in &ids {
        let file = |folder: &str| home.join(format!("data/keys/{folder}session-{id}.json"));
        fs::rename(file("revoked/"), file("")).unwrap();
        let (answer, _) = fixture.swap_as(id, "10");
        assert_eq!(answer["error"]["code"], "SESSION_KEY_REVOKED", "{answer}");
    }
    // Revoked in the log too, they are not revoked again.
    ledger.execute("DELETE FROM safety_session_key WHERE id = ?1", [&ids[1]]).unwrap();
    ledger.execute(hide, [&ids[0]]).unwrap();
    let (out, err, code) = run(bardo(home).args(["keys", "session", "revoke", "--all"]));
    assert!(code == 0 && !ids.iter().any(|id| out.contains(id)), "{out}{err}");
}

#[test]
fn guessing_the_password_of_a_session_key_is_slowed_down() {
    let fixture = Fixture::new();
    let drafted = fixture.drafted("--calls 1");
    let (id, signature) = (drafted["id"].as_str().unwrap(), format!("0x{}", "11".repeat(65)));
    let guess = || {
        let arguments = format!("keys session accept {id} {signature} --password-fd 3 --rpc {}", fixture.given);
        with_secrets(fixture.home.path(), &arguments, "not the password", "").1
    };
    let err = guess();
    assert!(err.contains("the password is wrong"), "{err}");
    // The pause doubles, so that it exceeds the duration of an attempt sooner or later.
    let slowed = (0..10).any(|_| guess().contains("wrong passwords in a row"));
    assert!(slowed, "guesses are not counted");
}

#[test]
fn lifting_a_stop_asks_for_no_password_of_a_session_key_that_signs_nothing_of_value() {
    let fixture = Fixture::new();
    fixture.drafted("--calls 1");
    let (_, err, code) = with_secrets(fixture.home.path(), "keys new main --password-fd 3", PASSWORD, "");
    assert_eq!(code, 0, "{err}");
    let (_, err, code) = run(bardo(fixture.home.path()).args(["halt"]));
    assert_eq!(code, 0, "{err}");
    let answers = [("Type `resume`", "resume\n"), ("password of the key main", &*format!("{PASSWORD}\r"))];
    let (shown, code) = fixture.conversation(&["resume"], &answers);
    assert!(code == 0 && shown.contains("no stop is in force") && !shown.contains("session-"), "{shown}");
}

/// Brain that revokes every session key that it can, in a preview, and ends.
const REVOKING: &str = r#"import json, sys
def hear(wanted):
    while True:
        line = sys.stdin.readline()
        if not line: sys.exit(1)
        line = json.loads(line)
        if line["type"] == wanted: return line
hear("tick")
call = {"type": "call", "id": "1", "tool": "preview_action", "params": {"kind": "revoke-session-key", "params": {}}}
print(json.dumps(call), flush=True)
print(hear("result")["response"]["status"], file=sys.stderr, flush=True)
"#;

#[test]
fn an_agent_revokes_no_session_key_of_another_ledger() {
    if !python() {
        return;
    }
    let fixture = Fixture::new();
    fixture.drafted("--calls 5");
    // A session on another network in the same data folder, of which a program decides.
    let programs = tempfile::tempdir().unwrap();
    let brain = programs.path().join("brain.py");
    fs::write(&brain, REVOKING).unwrap();
    let brain = format!("process:python3 {}", brain.display());
    let mut session = bardo(fixture.home.path());
    session.env("PATH", std::env::var_os("PATH").unwrap());
    let (out, err, _) = run(session.args(["golem", "run", "--headless", "--ticks", "3", "--brain", &brain]));
    assert!(out.contains("session_revoke_key") && out.contains(r#""revoked_count":0"#), "{out}{err}");
    assert_eq!(fixture.listed()[0]["state"], "drafted", "{out}");
    // The operator's own call revokes it.
    let (answer, code) = fixture.call("session_revoke_key", &json!({}), &[]);
    assert_eq!((&answer["data"]["revoked_count"], code), (&json!(1), 0), "{answer}");
    assert_eq!(fixture.listed()[0]["state"], "revoked");
}
