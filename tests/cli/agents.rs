//! Registration files of agents outside the chain, read by the program from gateways as `[agents]` names them.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy::hex;
use alloy::sol_types::SolCall as _;
use bardo::abi::erc8004::IdentityRegistry;
use serde_json::{Value, json};

use crate::fixture::Fixture;

const FILE: &str = "{\"type\":\"https://eips.ethereum.org/EIPS/eip-8004#registration-v1\",\"name\":\"Far away\",\
                    \"description\":\"A file in IPFS\",\"image\":\"\",\"services\":[{\"name\":\"MCP\",\"endpoint\":\
                    \"https://far.example/mcp\"}],\"active\":true,\"registrations\":[],\"supportedTrust\":[\"reputation\"]}";
/// The file as one raw block, by the SHA-256 of its bytes.
const CONTENT: &str = "bafkreihbuzaly3u3rwsl3fq6ma66lawpx7lsqglxpffb5wqz2emsptdypy";
/// A folder with the file as `agent.json`, encoded by hand after the specifications of DAG-PB and UnixFS.
const FOLDER: &str = "bafybeid4sn4noadmbk7fiookummpns6zwxofi7xsmv7rqzvaejdz6lxo4i";
const FOLDER_BLOCK: &str = "12350a2401551220e1a640bc6e9b8da4bd961e603de582cfbfd7281977794a1eda19d11927cc787e120a6167656e\
                            742e6a736f6e1880020a020801";

/// A gateway that knows both blocks, or one that returns others in their place. Returns its URL and its requests.
fn gateway(honest: bool) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut request = [0; 4_096];
            let read = socket.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            counted.fetch_add(1, Ordering::SeqCst);
            let mut body = if request.starts_with(&format!("GET /ipfs/{FOLDER}?format=raw ")) {
                hex::decode(FOLDER_BLOCK).unwrap()
            } else if request.starts_with(&format!("GET /ipfs/{CONTENT}?format=raw ")) {
                FILE.as_bytes().to_vec()
            } else {
                panic!("{request}");
            };
            if !honest {
                let last = body.len() - 1;
                body[last] ^= 1;
            }
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            // The program may have the answer of another gateway by now.
            let _gone = socket.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    (url, requests)
}

/// Registers an agent whose file is at `address`, from an account that is not the operator's; returns its profile.
fn profile(fixture: &Fixture, address: &str) -> Value {
    let from = fixture.devnet.described["chains"][0]["accounts"][3].as_str().unwrap();
    let register = IdentityRegistry::register_1Call { agentURI: address.to_owned() };
    let call = json!([{"from": from, "to": fixture.contract("identityRegistry"),
                       "data": hex::encode_prefixed(register.abi_encode())}]);
    let hash = fixture.ask("eth_sendTransaction", call);
    let receipt = fixture.ask("eth_getTransactionReceipt", json!([hash]));
    // The token's transfer from nobody has its number.
    let number = u64::from_str_radix(&receipt["logs"][0]["topics"][3].as_str().unwrap()[2..], 16).unwrap();
    let asked = json!({"agent_id": format!("31337:{number}")});
    let (answer, exit) = fixture.call("identity_get_agent_profile", &asked, &[]);
    assert_eq!(exit, 0, "{answer}");
    answer["data"].clone()
}

#[test]
fn an_agents_file_in_ipfs_is_read_if_it_has_the_named_hash() {
    let fixture = Fixture::new();
    let problem = |profile: &Value, words: &str| {
        assert_eq!((&profile["file_status"], &profile["name"]), (&json!("elsewhere"), &Value::Null), "{profile}");
        assert!(profile["file_problem"].as_str().unwrap().contains(words), "{profile}");
    };
    let at_folder = format!("ipfs://{FOLDER}/agent.json");
    // On a devnet nothing is asked unless the operator names a gateway.
    problem(&profile(&fixture, &at_folder), "[agents]");

    let ((honest, requests), (lying, _)) = (gateway(true), gateway(false));
    fixture.configure(&format!("[agents]\ngateways = [\"{lying}\", \"{honest}\"]\n"));
    let found = profile(&fixture, &at_folder);
    assert_eq!((&found["file_status"], &found["name"]), (&json!("read"), &json!("Far away")), "{found}");
    assert_eq!(found["file_source"], format!("ipfs://{FOLDER}"));
    assert_eq!(found["file_location"], at_folder);
    assert_eq!(found["registration"]["tool_endpoint"], "https://far.example/mcp");
    assert_eq!(requests.load(Ordering::SeqCst), 2, "the folder, and the file in it");
    // The address of a public gateway names the same content, which is asked of the configured ones.
    let found = profile(&fixture, &format!("https://ipfs.io/ipfs/{CONTENT}"));
    assert_eq!((&found["file_status"], &found["file_source"]), (&json!("read"), &json!(format!("ipfs://{CONTENT}"))));
    problem(&profile(&fixture, "http://agents.example/agent.json"), "not from http");
    problem(&profile(&fixture, "https://agents.example/agent.json"), "https servers are not read");

    fixture.configure(&format!("[agents]\ngateways = [\"{lying}\"]\nhttps = true\n"));
    problem(&profile(&fixture, &at_folder), "does not have the hash");
    // A name of this machine, at a port where something listens.
    let (inside, requests) = gateway(true);
    problem(&profile(&fixture, &inside.replace("http://127.0.0.1", "https://localhost")), "no public address");
    problem(&profile(&fixture, &inside.replace("http://", "https://")), "private network");
    assert_eq!(requests.load(Ordering::SeqCst), 0);
}
