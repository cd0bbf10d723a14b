//! Quotes of external sources, as a Bardo in another process receives them: the devnet's services with the Trading
//! API's format, and a liar in front of them. A rejected quote leads to no signature.

use serde_json::{Value, json};

use crate::devnet::{Running, start};
use crate::{bardo, run};
use bardo_testkit::liar::{Liar, Lie, with_body};

const KEY: &str = "key-secret-41";

struct Fixture {
    devnet: Running,
    home: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { devnet: start(), home: tempfile::tempdir().unwrap() }
    }

    fn services(&self) -> String {
        self.devnet.described["order_service"].as_str().unwrap().to_owned()
    }

    /// A call with the API at `url`; its key must not appear in any output.
    fn call(&self, tool: &str, params: &Value, url: &str, more: &[(&str, &str)]) -> (Value, i32) {
        let given = format!("ethereum={}", self.devnet.url(0));
        let mut command = bardo(self.home.path());
        command.env("BARDO_UNISWAP_API_KEY", KEY).env("BARDO_UNISWAP_API_URL", url);
        for (name, value) in more {
            command.env(name, value);
        }
        command.args(["call", tool, &params.to_string(), "--rpc", &given, "--approve", "always"]);
        let (out, err, code) = run(&mut command);
        assert!(!out.contains(KEY) && !err.contains(KEY), "{out}{err}");
        (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")), code)
    }

    /// Number of transactions that the first development account has sent.
    fn sent(&self) -> Value {
        let account = self.devnet.described["chains"][0]["accounts"][0].clone();
        bardo_testkit::devnet::ask(self.devnet.url(0), "eth_getTransactionCount", json!([account, "latest"]))
    }
}

fn sale() -> Value {
    json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.1", "chain": "ethereum"})
}

fn swap() -> Value {
    let mut params = sale();
    params["prefer_uniswapx"] = json!(false);
    params
}

#[test]
fn another_process_trades_by_the_api() {
    let fixture = Fixture::new();
    let api = fixture.services();
    let (quoted, code) = fixture.call("uniswap_get_quote", &sale(), &api, &[]);
    assert_eq!((&quoted["status"], code), (&json!("success"), 0), "{quoted}");
    let hints = &quoted["decision_hints"];
    assert_eq!(hints["source"], "the Uniswap Trading API");
    let compared = &hints["source_compared"];
    assert_eq!(compared["own_router_raw"], hints["amount_out_raw"]);
    assert_eq!(compared["ahead_of_own_router_bps"], 0);
    assert!(quoted["explanation"].as_str().unwrap().contains("The route is the Uniswap Trading API's"), "{quoted}");
    // The permit in the answer is reported as parsed: for the router on the devnet's own list.
    let permit = &quoted["data"]["permit_data"];
    let contracts = &fixture.devnet.described["chains"][0]["contracts"];
    let same = |one: &Value, other: &Value| {
        assert_eq!(one.as_str().unwrap().to_lowercase(), other.as_str().unwrap().to_lowercase());
    };
    same(&permit["values"]["spender"], &contracts["universalRouterV2_1_0"]);
    same(&permit["domain"]["verifyingContract"], &contracts["permit2"]);
    assert_eq!(permit["values"]["details"]["amount"], "100000000000000000");
    // Domain, types and values that a signer of typed data needs, copied from Permit2's own source.
    assert_eq!(
        permit["types"],
        json!({
            "PermitSingle": [
                {"name": "details", "type": "PermitDetails"},
                {"name": "spender", "type": "address"},
                {"name": "sigDeadline", "type": "uint256"},
            ],
            "PermitDetails": [
                {"name": "token", "type": "address"},
                {"name": "amount", "type": "uint160"},
                {"name": "expiration", "type": "uint48"},
                {"name": "nonce", "type": "uint48"},
            ],
        })
    );

    let (allowed, _) =
        fixture.call("uniswap_check_allowance", &json!({"token": "WETH", "chain": "ethereum"}), &api, &[]);
    assert_eq!(allowed["decision_hints"]["quote_source"]["agrees_with_chain"], true, "{allowed}");

    let before = fixture.sent();
    let (done, code) = fixture.call("uniswap_execute_swap", &swap(), &api, &[]);
    assert_eq!((&done["status"], code), (&json!("success"), 0), "{done}");
    assert_eq!(done["decision_hints"]["source"]["name"], "the Uniswap Trading API");
    assert_ne!(fixture.sent(), before);

    // The native token as input and as output: its call wraps and unwraps as Bardo's does, and no other would pass.
    for (token_in, token_out, amount) in [("ETH", "USDC", "0.1"), ("USDC", "ETH", "200")] {
        let asked = json!({
            "token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum", "prefer_uniswapx": false,
        });
        let liar = Liar::start(&api, "/nothing", Lie::Silence(std::time::Duration::ZERO));
        let before = fixture.sent();
        let (done, code) = fixture.call("uniswap_execute_swap", &asked, &liar.url(), &[]);
        assert_eq!((&done["status"], code), (&json!("success"), 0), "{done}");
        assert_eq!(done["decision_hints"]["source"]["name"], "the Uniswap Trading API");
        assert_ne!(fixture.sent(), before);
        // The zero address is the native token in the service's terms; both requests were made.
        let heard = liar.heard();
        let side = if token_in == "ETH" { "tokenIn" } else { "tokenOut" };
        let coin = format!("\"{side}\":\"0x0000000000000000000000000000000000000000\"");
        assert!(heard.iter().any(|said| said.starts_with("POST /quote") && said.contains(&coin)), "{heard:?}");
        let swaps: Vec<_> = heard.iter().filter(|said| said.starts_with("POST /swap")).collect();
        assert!(!swaps.is_empty(), "{heard:?}");
        assert!(swaps.iter().all(|said| said.contains("x-universal-router-version: 2.0\r\n")), "{swaps:?}");
    }

    // Requested by name but absent, and another source named instead.
    for (more, says) in [
        ([("BARDO_QUOTE_SOURCE", "trading-api"), ("BARDO_UNISWAP_API_KEY", "")], "BARDO_UNISWAP_API_KEY"),
        ([("BARDO_QUOTE_SOURCE", "sidecar"), ("BARDO_UNISWAP_API_URL", "")], "BARDO_SIDECAR_SOCKET"),
        ([("BARDO_SIDECAR_SOCKET", "/nowhere/at/all.sock"), ("BARDO_QUOTE_SOURCE", "sidecar")], "cannot be reached"),
    ] {
        let (envelope, code) = fixture.call("uniswap_get_quote", &sale(), &api, &more);
        assert_eq!((&envelope["error"]["code"], code), (&json!("SDK_FALLBACK_UNAVAILABLE"), 1), "{envelope}");
        assert!(envelope["error"]["message"].as_str().unwrap().contains(says), "{says}: {envelope}");
    }
    let (own, _) = fixture.call("uniswap_get_quote", &sale(), &api, &[("BARDO_QUOTE_SOURCE", "own")]);
    assert_eq!(own["decision_hints"]["source"], "Bardo's own router over on-chain pools", "{own}");
    assert_eq!(own["decision_hints"]["source_compared"], json!({"name": "Bardo's own router over on-chain pools"}));
}

#[test]
fn nothing_is_signed_on_a_false_answer() {
    let fixture = Fixture::new();
    let stranger = "0x7777777777777777777777777777777777777777";
    let raw = |status: &str, body: &str| Lie::Raw(with_body(status, body.as_bytes()));
    let changed = |pointer: &'static str, to: Value| {
        Lie::Changed(Box::new(move |value| *value.pointer_mut(pointer).unwrap() = to.clone()))
    };
    let before = fixture.sent();
    for (path, lie, code, says) in [
        ("/quote", raw("HTTP/1.1 200 OK", "not now"), "SDK_FALLBACK_UNAVAILABLE", "not JSON"),
        ("/quote", raw("HTTP/1.1 401 No", "{\"errorCode\":\"UnauthorizedError\"}"), "SDK_FALLBACK_UNAVAILABLE", "401"),
        ("/quote", raw("HTTP/1.1 429 Many", "{}"), "SDK_FALLBACK_UNAVAILABLE", "wait 1 s"),
        ("/quote", raw("HTTP/1.1 503 Down", "{}"), "SDK_FALLBACK_UNAVAILABLE", "503"),
        (
            "/quote",
            raw("HTTP/1.1 404 No", "{\"errorCode\":\"ResourceNotFound\",\"detail\":\"No quotes\\u001b[2J available\"}"),
            "ROUTING_NO_ROUTE",
            "404 ResourceNotFound No quotes",
        ),
        (
            "/quote",
            raw("HTTP/1.1 404 No", "{\"errorCode\":\"QuoteAmountTooLowError\",\"detail\":\"more, please\"}"),
            "VALIDATION_FAILED",
            "more, please",
        ),
        (
            "/quote",
            raw("HTTP/1.1 400 Bad", "{\"errorCode\":\"RequestValidationError\",\"detail\":\"\\\"amount\\\" is odd\"}"),
            "VALIDATION_FAILED",
            "\"amount\" is odd",
        ),
        ("/quote", raw("HTTP/1.1 404 No", "<html>no such page</html>"), "SDK_FALLBACK_UNAVAILABLE", "404"),
        ("/quote", changed("/quote/output/token", json!(stranger)), "ROUTING_QUOTE_REFUSED", "output.token"),
        ("/quote", changed("/quote/swapper", json!(stranger)), "ROUTING_QUOTE_REFUSED", "swapper"),
        ("/quote", changed("/quote/chainId", json!(1)), "ROUTING_QUOTE_REFUSED", "chainId"),
        ("/quote", changed("/quote/output/amount", json!("999999999999")), "ROUTING_QUOTE_REFUSED", "it claims"),
        ("/swap", changed("/swap/to", json!(stranger)), "ROUTING_QUOTE_REFUSED", "swap.to"),
        ("/swap", changed("/swap/value", json!("0x5")), "ROUTING_QUOTE_REFUSED", "wei, but ours sends"),
        ("/swap", raw("HTTP/1.1 500 Down", "{}"), "SDK_FALLBACK_UNAVAILABLE", "500"),
    ] {
        let liar = Liar::start(&fixture.services(), path, lie);
        let (envelope, exit) = fixture.call("uniswap_execute_swap", &swap(), &liar.url(), &[]);
        assert_eq!((&envelope["error"]["code"], exit), (&json!(code), 1), "{path} {says}: {envelope}");
        let error = &envelope["error"];
        assert!(error["message"].as_str().unwrap().contains(says), "{says}: {envelope}");
        assert!(error["suggestion"].as_str().unwrap().len() > 20);
        assert!(!error["message"].as_str().unwrap().contains('\u{1b}'), "{envelope}");
    }
    assert_eq!(fixture.sent(), before, "nothing was sent");

    // A lie about an allowance has no effect: the chain's answer counts, and the service's is reported as such.
    let liar = Liar::start(&fixture.services(), "/check_approval", changed("/approval", Value::Null));
    let asked = json!({"token": "WETH", "chain": "ethereum"});
    let (allowed, _) = fixture.call("uniswap_check_allowance", &asked, &liar.url(), &[]);
    assert_eq!(allowed["data"]["needs_approval"], true);
    assert_eq!(allowed["decision_hints"]["quote_source"]["agrees_with_chain"], false, "{allowed}");
}

#[test]
fn doctor_names_each_service_and_whether_it_responds() {
    let fixture = Fixture::new();
    let refusing = Liar::start(
        &fixture.services(),
        "/swaps",
        Lie::Raw(with_body("HTTP/1.1 401 No", b"{\"errorCode\":\"Unauthorized\"}")),
    );
    let doctor = |environment: &[(&str, &str)]| {
        let mut command = bardo(fixture.home.path());
        for (name, value) in environment {
            command.env(name, value);
        }
        let (out, _, _) = run(command.args(["doctor", "--json"]));
        assert!(!out.contains(KEY), "{out}");
        let told: Value = serde_json::from_str(&out).unwrap();
        let checks = told["checks"].as_array().unwrap();
        let quotes = checks.iter().find(|check| check["check"] == "quotes").unwrap();
        format!("{}: {}", quotes["status"].as_str().unwrap(), quotes["detail"].as_str().unwrap())
    };
    let key = ("BARDO_UNISWAP_API_KEY", KEY);
    assert_eq!(doctor(&[]), "ok: Bardo's own router, which quotes from on-chain pools");
    let served = doctor(&[key, ("BARDO_UNISWAP_API_URL", &fixture.services())]);
    assert!(
        served.starts_with("ok: a service with the Uniswap Trading API's format responds at http://127.0.0.1:"),
        "{served}"
    );
    let refused = doctor(&[key, ("BARDO_UNISWAP_API_URL", &refusing.url())]);
    assert!(refused.starts_with("fail: ") && refused.contains("401"), "{refused}");
    let wrong = doctor(&[key, ("BARDO_UNISWAP_API_URL", "http://example.com")]);
    assert!(wrong.starts_with("fail: not the address of a service"), "{wrong}");
    let silent = doctor(&[("BARDO_SIDECAR_SOCKET", "/nowhere/at/all.sock")]);
    assert!(silent.starts_with("fail: the smart-order-router sidecar at /nowhere/at/all.sock"), "{silent}");
    let missing = doctor(&[("BARDO_QUOTE_SOURCE", "trading-api")]);
    assert!(missing.starts_with("fail: ") && missing.contains("no key"), "{missing}");
}
