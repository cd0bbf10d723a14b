//! A wallet server on this machine that has a key and speaks the published shape of Privy's wallet API
//! (<https://docs.privy.io/api-reference/wallets>): it enforces a policy of its own, and fails or lies on demand.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy::consensus::{SignableTransaction as _, TxEip1559, TxEnvelope};
use alloy::dyn_abi::TypedData;
use alloy::eips::eip2718::Encodable2718 as _;
use alloy::primitives::{Address, B256, Bytes, Signature, TxKind, U256, hex};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Id of the application that the server knows.
pub const APP_ID: &str = "app-of-the-test";

/// Id of the wallet that the server has.
pub const WALLET_ID: &str = "wallet-of-the-test";

/// Secret of the application.
pub const SECRET: &str = "canary/7f3+secret=of.the.wallet-server";

/// Behaviour of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerMode {
    /// Signs what it is asked, within its policy.
    Honest,
    /// Signs with another key.
    OtherKey,
    /// Describes the wallet with another address.
    OtherAddress,
    /// Sends the transaction's value to itself.
    OtherTarget,
    /// Adds a wei to the value.
    OtherValue,
    /// Signs for the next nonce.
    OtherNonce,
    /// Signs for mainnet.
    OtherChain,
    /// Doubles the fees.
    OtherFees,
    /// Changes the last byte of the calldata.
    OtherCalldata,
    /// Grants an access list, which was not asked for.
    AccessList,
    /// Signs the message with twice the amount.
    OtherMessage,
    /// Returns the signature of the upper half.
    HighS,
    /// Answers with the name of another method.
    OtherMethod,
    /// Answers with no JSON.
    Garbage,
    /// Answers with more than a client should read.
    Endless,
    /// Answers with a redirect.
    Redirect,
    /// Answers that it is overloaded.
    Overloaded,
    /// Answers with an error of its own.
    Broken,
    /// Repeats the credential in a refusal.
    Echo,
    /// Closes the connection after the request.
    HangUp,
    /// Returns its old wallet when it is asked for a new one.
    SameWallet,
    /// Returns the key of the newest wallet under a new id when it is asked for a new one.
    KnownKey,
    /// Creates a wallet without the policies that it was asked for.
    NoPolicies,
}

/// Policy of the server.
#[derive(Debug, Clone, Default)]
pub struct ServerPolicy {
    /// Targets of transactions that it signs; all if empty.
    pub targets: Vec<Address>,
    /// Contracts for which it signs messages; all if empty.
    pub verifiers: Vec<Address>,
}

/// A running wallet server.
#[derive(Debug)]
pub struct LocalWalletServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    signer: PrivateKeySigner,
    other: PrivateKeySigner,
    mode: ServerMode,
    policy: ServerPolicy,
    /// Wallets that were created: id, key and policies.
    created: Vec<(String, PrivateKeySigner, Value)>,
    /// Methods that were asked.
    asked: Vec<String>,
    /// Number of signatures that were made.
    signed: usize,
}

impl LocalWalletServer {
    /// Starts a server that has this key. It ends with the process.
    pub fn start(signer: PrivateKeySigner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, policy) = (ServerMode::Honest, ServerPolicy::default());
        let other = PrivateKeySigner::random();
        let state = State { signer, other, mode, policy, created: Vec::new(), asked: Vec::new(), signed: 0 };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, state }
    }

    /// Base URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes its behaviour.
    pub fn behave(&self, mode: ServerMode) {
        self.state.lock().unwrap().mode = mode;
    }

    /// Changes its policy.
    pub fn enforce(&self, policy: ServerPolicy) {
        self.state.lock().unwrap().policy = policy;
    }

    /// Methods that were asked since the last call.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }

    /// Ids and addresses of the wallets that were created.
    pub fn created(&self) -> Vec<(String, Address)> {
        let state = self.state.lock().unwrap();
        state.created.iter().map(|(id, signer, _)| (id.clone(), signer.address())).collect()
    }

    /// Number of signatures that were made.
    pub fn signed(&self) -> usize {
        self.state.lock().unwrap().signed
    }
}

/// Answers one request; a connection has one.
fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut authorization, mut app, mut length) = (String::new(), None, None, 0);
    reader.read_line(&mut first).unwrap_or_default();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        let value = value.trim().to_owned();
        match name.to_ascii_lowercase().as_str() {
            "authorization" => authorization = Some(value),
            "privy-app-id" => app = Some(value),
            "content-length" => length = value.parse().unwrap_or_default(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let login = format!("Basic {}", STANDARD.encode(format!("{APP_ID}:{SECRET}")));
    if authorization.as_deref() != Some(login.as_str()) || app.as_deref() != Some(APP_ID) {
        return answer(&mut stream, 401, &json!({ "error": "Invalid app ID or app secret." }).to_string());
    }
    let mut state = state.lock().unwrap();
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let below = path.strip_prefix("/v1/wallets").unwrap_or("/").trim_start_matches('/');
    let (id, end) = below.split_once('/').unwrap_or((below, ""));
    if (method, path) == ("POST", "/v1/wallets") {
        return create(&mut stream, &mut state, &serde_json::from_slice(&body).unwrap_or_default());
    }
    let created = state.created.iter().find(|(own, ..)| own == id).cloned();
    let wallet = match (id == WALLET_ID, created) {
        (true, _) => {
            let policies = if state.policy.targets.is_empty() { json!([]) } else { json!(["policy-of-the-test"]) };
            Some((state.signer.clone(), policies))
        }
        (false, found) => found.map(|(_, signer, policies)| (signer, policies)),
    };
    match (method, wallet, end) {
        ("GET", Some((signer, policies)), "") => {
            let address = match state.mode {
                ServerMode::OtherAddress => state.other.address(),
                _ => signer.address(),
            };
            answer(&mut stream, 200, &described(id, address, &policies));
        }
        ("POST", Some((signer, _)), "rpc") => {
            let request: Value = serde_json::from_slice(&body).unwrap_or_default();
            state.asked.push(request["method"].as_str().unwrap_or_default().to_owned());
            sign(&mut stream, &mut state, signer, &request);
        }
        _ => answer(&mut stream, 404, &json!({ "error": "Wallet not found" }).to_string()),
    }
}

fn described(id: &str, address: Address, policies: &Value) -> String {
    let described = json!({
        "id": id, "address": address, "chain_type": "ethereum", "policy_ids": policies,
        "additional_signers": [], "owner_id": null, "created_at": 1_741_834_854_578_u64,
        "exported_at": null, "imported_at": null,
    });
    described.to_string()
}

fn create(stream: &mut TcpStream, state: &mut State, request: &Value) {
    state.asked.push("create".to_owned());
    if request["chain_type"] != "ethereum" || !request["policy_ids"].is_array() {
        return answer(stream, 400, &json!({ "error": "Invalid wallet", "code": "invalid_data" }).to_string());
    }
    match state.mode {
        ServerMode::SameWallet => {
            return answer(stream, 200, &described(WALLET_ID, state.signer.address(), &request["policy_ids"]));
        }
        ServerMode::Garbage => return answer(stream, 200, "<html>created</html>"),
        ServerMode::Overloaded => return answer(stream, 429, &json!({ "error": "Too many requests" }).to_string()),
        _ => {}
    }
    let policies = if state.mode == ServerMode::NoPolicies { json!([]) } else { request["policy_ids"].clone() };
    let known =
        state.created.last().map(|(_, signer, _)| signer.clone()).filter(|_| state.mode == ServerMode::KnownKey);
    let signer = known.unwrap_or_else(PrivateKeySigner::random);
    let id = format!("wallet-{}-of-the-test", state.created.len() + 2);
    let answered = described(&id, signer.address(), &policies);
    state.created.push((id, signer, policies));
    answer(stream, 200, &answered);
}

fn sign(stream: &mut TcpStream, state: &mut State, own: PrivateKeySigner, request: &Value) {
    let mode = state.mode;
    match mode {
        ServerMode::Garbage => return answer(stream, 200, "<html>signed</html>"),
        ServerMode::Endless => return answer(stream, 200, &format!("\"{}\"", "a".repeat(3 << 20))),
        ServerMode::Redirect => return answer(stream, 307, ""),
        ServerMode::Overloaded => return answer(stream, 429, &json!({ "error": "Too many requests" }).to_string()),
        ServerMode::Broken => return answer(stream, 500, &json!({ "error": "Internal error" }).to_string()),
        ServerMode::Echo => {
            let said = format!("credential {SECRET} ({}) may not", STANDARD.encode(format!("{APP_ID}:{SECRET}")));
            return answer(stream, 400, &json!({ "error": said, "code": "policy_violation" }).to_string());
        }
        ServerMode::HangUp => return,
        _ => {}
    }
    let signer = if mode == ServerMode::OtherKey { state.other.clone() } else { own };
    let denied = json!({ "error": "RPC request denied due to policy violation", "code": "policy_violation" });
    let method = request["method"].as_str().unwrap_or_default();
    let data = match method {
        "eth_signTypedData_v4" => {
            let mut given = request["params"]["typed_data"].clone();
            if mode == ServerMode::OtherMessage {
                double_amounts(&mut given["message"]);
            }
            // The standard's name of the member; the API has another.
            given["primaryType"] = given["primary_type"].clone();
            let Ok(typed) = serde_json::from_value::<TypedData>(given) else {
                return answer(
                    stream,
                    400,
                    &json!({ "error": "Invalid typed data", "code": "invalid_data" }).to_string(),
                );
            };
            let verifier = typed.domain.verifying_contract.unwrap_or_default();
            if !state.policy.verifiers.is_empty() && !state.policy.verifiers.contains(&verifier) {
                return answer(stream, 400, &denied.to_string());
            }
            let signature = sign_hash(&signer, typed.eip712_signing_hash().unwrap(), mode);
            json!({ "signature": hex::encode_prefixed(signature.as_bytes()), "encoding": "hex" })
        }
        "eth_signTransaction" => {
            let Some(mut transaction) = transaction(&request["params"]["transaction"]) else {
                return answer(stream, 400, &json!({ "error": "Invalid transaction" }).to_string());
            };
            let to = transaction.to.to().copied().unwrap_or_default();
            if !state.policy.targets.is_empty() && !state.policy.targets.contains(&to) {
                return answer(stream, 400, &denied.to_string());
            }
            change(&mut transaction, mode, state.other.address());
            let signature = sign_hash(&signer, transaction.signature_hash(), mode);
            let signed = TxEnvelope::from(transaction.into_signed(signature));
            json!({ "signed_transaction": hex::encode_prefixed(signed.encoded_2718()), "encoding": "rlp" })
        }
        _ => return answer(stream, 400, &json!({ "error": "Unsupported method" }).to_string()),
    };
    state.signed += 1;
    let method = if mode == ServerMode::OtherMethod { "personal_sign" } else { method };
    answer(stream, 200, &json!({ "method": method, "data": data }).to_string());
}

fn sign_hash(signer: &PrivateKeySigner, hash: B256, mode: ServerMode) -> Signature {
    let signature = signer.sign_hash_sync(&hash).unwrap();
    if mode != ServerMode::HighS {
        return signature;
    }
    // The mirrored signature recovers to the same key. The order of the group is from SEC 2, section 2.4.1.
    let order: U256 = "0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141".parse().unwrap();
    Signature::new(signature.r(), order - signature.s(), !signature.v())
}

/// Reads a transaction in the API's shape.
fn transaction(given: &Value) -> Option<TxEip1559> {
    let quantity = |key: &str| -> Option<U256> { given[key].as_str()?.parse().ok() };
    Some(TxEip1559 {
        chain_id: given["chain_id"].as_u64()?,
        nonce: given["nonce"].as_u64()?,
        gas_limit: quantity("gas_limit")?.try_into().ok()?,
        max_fee_per_gas: quantity("max_fee_per_gas")?.try_into().ok()?,
        max_priority_fee_per_gas: quantity("max_priority_fee_per_gas")?.try_into().ok()?,
        to: TxKind::Call(given["to"].as_str()?.parse().ok()?),
        value: quantity("value")?,
        access_list: Default::default(),
        input: given["data"].as_str()?.parse::<Bytes>().ok()?,
    })
}

fn change(transaction: &mut TxEip1559, mode: ServerMode, own: Address) {
    match mode {
        ServerMode::OtherTarget => transaction.to = TxKind::Call(own),
        ServerMode::OtherValue => transaction.value += U256::from(1),
        ServerMode::OtherNonce => transaction.nonce += 1,
        ServerMode::OtherChain => transaction.chain_id = 1,
        ServerMode::OtherFees => transaction.max_fee_per_gas *= 2,
        ServerMode::OtherCalldata => {
            let mut input = transaction.input.to_vec();
            if let Some(last) = input.last_mut() {
                *last ^= 1;
            }
            transaction.input = input.into();
        }
        ServerMode::AccessList => {
            let item = alloy::eips::eip2930::AccessListItem { address: own, storage_keys: Vec::new() };
            transaction.access_list = vec![item].into();
        }
        _ => {}
    }
}

/// Doubles every member called `amount`.
fn double_amounts(message: &mut Value) {
    let Some(members) = message.as_object_mut() else { return };
    for (name, value) in members {
        match value.as_str().and_then(|digits| digits.parse::<U256>().ok()).filter(|_| name == "amount") {
            Some(amount) => *value = json!((amount * U256::from(2)).to_string()),
            None => double_amounts(value),
        }
    }
}

fn answer(stream: &mut TcpStream, status: u16, body: &str) {
    let location = if status == 307 { "location: http://127.0.0.1:9/\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{location}connection: close\r\n\r\n",
        body.len()
    );
    // The client may have gone.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}
