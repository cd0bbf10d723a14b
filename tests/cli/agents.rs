//! Agents' files outside the chain, read and stored by the program as `[agents]` says, and subgraphs of their registries.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use alloy::hex;
use alloy::primitives::U256;
use alloy::sol_types::SolCall as _;
use bardo::abi::erc8004::IdentityRegistry;
use bardo::erc8004::location::Cid;
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

    // What was read is kept, whatever a gateway says now. Another folder has nothing.
    fixture.configure(&format!("[agents]\ngateways = [\"{lying}\"]\nhttps = true\n"));
    assert_eq!(profile(&fixture, &at_folder)["name"], "Far away");
    let fixture = Fixture::new();
    fixture.configure(&format!("[agents]\ngateways = [\"{lying}\"]\nhttps = true\n"));
    problem(&profile(&fixture, &at_folder), "does not have the hash");
    // A name of this machine, at a port where something listens.
    let (inside, requests) = gateway(true);
    problem(&profile(&fixture, &inside.replace("http://127.0.0.1", "https://localhost")), "no public address");
    problem(&profile(&fixture, &inside.replace("http://", "https://")), "private network");
    assert_eq!(requests.load(Ordering::SeqCst), 0);
}

#[test]
fn agents_with_files_in_ipfs_are_found_once_their_content_was_read_and_ones_on_servers_are_counted() {
    let fixture = Fixture::new();
    let unread = profile(&fixture, &format!("ipfs://{FOLDER}/agent.json"));
    let id = unread["agent_id"].clone();
    let on_server = profile(&fixture, "https://agents.example/agent.json");
    let search = |fixture: &Fixture| {
        let (answer, exit) = fixture.call("identity_discover_agents", &json!({"query": "far away"}), &[]);
        assert_eq!(exit, 0, "{answer}");
        answer
    };
    let trust = |fixture: &Fixture, id: &Value| {
        let (answer, exit) = fixture.call("identity_evaluate_agent_trust", &json!({"agent_id": id}), &[]);
        assert_eq!(exit, 0, "{answer}");
        (answer["data"]["breakdown"]["identity_score"].clone(), answer["data"]["flags"][0].clone())
    };
    let ids = |found: &Value| -> Vec<Value> {
        found["data"]["agents"].as_array().unwrap().iter().map(|agent| agent["agent_id"].clone()).collect()
    };
    // Nothing reads them, and the answer says so. The wallet gives 15.
    let found = search(&fixture);
    assert!(!ids(&found).contains(&id), "{found}");
    // The devnet's lookalike has a file on a server too.
    assert_eq!(found["data"]["sources"][0]["files_not_searched"], 3, "{found}");
    assert!(found["explanation"].as_str().unwrap().contains("agents outside the chain were not searched"), "{found}");
    assert_eq!(trust(&fixture, &id), (json!(15), json!("file_not_read")));
    assert_eq!(trust(&fixture, &on_server["agent_id"]), (json!(15), json!("file_not_fixed")));
    // A gateway that lies changes nothing.
    let ((honest, requests), (lying, _)) = (gateway(true), gateway(false));
    fixture.configure(&format!("[agents]\ngateways = [\"{lying}\"]\n"));
    let found = search(&fixture);
    assert!(!ids(&found).contains(&id), "{found}");
    // An honest one is asked once: the search reads what was not read, and the next process has it in the database.
    fixture.configure(&format!("[agents]\ngateways = [\"{lying}\", \"{honest}\"]\n"));
    let found = search(&fixture);
    assert_eq!(ids(&found)[0], id, "{found}");
    assert_eq!(found["data"]["sources"][0]["files_not_searched"], 2, "the servers': {found}");
    assert_eq!(requests.load(Ordering::SeqCst), 2, "the folder, and the file in it");
    fixture.configure("");
    let found = search(&fixture);
    assert_eq!((&ids(&found)[0], &found["data"]["agents"][0]["protocols"]), (&id, &json!(["mcp"])), "{found}");
    // File 30, wallet 15, endpoint 15, active 10; it does not name the agent.
    assert_eq!(trust(&fixture, &id), (json!(70), json!("mismatched_registration")));
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

/// Files of a node by their identifiers.
type StoredFiles = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// An IPFS node that stores what it gets and serves it as a gateway; returns its URL and its store. One that lies names
/// other content than it was given.
fn node(honest: bool) -> (String, StoredFiles) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let store: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
    let kept = Arc::clone(&store);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let request = whole_request(&mut socket);
            let head = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
            let body = if head.starts_with("POST /api/v0/version ") {
                b"{\"Version\":\"0.32.1\"}".to_vec()
            } else if head.starts_with("POST /api/v0/add?") {
                let file = part(&request);
                let cid = if honest { Cid::of_raw(&file) } else { Cid::of_raw(b"something else") }.to_string();
                kept.lock().unwrap().insert(cid.clone(), file);
                json!({"Name": "agent.json", "Hash": cid, "Size": "1"}).to_string().into_bytes()
            } else if let Some(cid) = head.strip_prefix("GET /ipfs/").and_then(|rest| rest.split('?').next()) {
                kept.lock().unwrap().get(cid).cloned().unwrap_or_default()
            } else {
                panic!("{head}");
            };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _gone = socket.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    (url, store)
}

/// A request with its body.
fn whole_request(socket: &mut std::net::TcpStream) -> Vec<u8> {
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4_096];
        let read = socket.read(&mut piece).unwrap();
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request);
        let Some(end) = text.find("\r\n\r\n") else { continue };
        let length = text.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if read == 0 || request.len() >= end + 4 + length.unwrap_or(0_usize) {
            return request;
        }
    }
}

/// Content of the only part of an upload.
fn part(request: &[u8]) -> Vec<u8> {
    let find = |from: usize, wanted: &[u8]| {
        from + request[from..].windows(wanted.len()).position(|window| window == wanted).unwrap()
    };
    let head = find(0, b"\r\n\r\n") + 4;
    let begin = find(head, b"\r\n\r\n") + 4;
    request[begin..find(begin, b"\r\n--")].to_vec()
}

#[test]
fn files_are_stored_in_ipfs_after_the_decision_and_the_chain_names_their_content() {
    let fixture = Fixture::new();
    let (url, store) = node(true);
    let stored = || store.lock().unwrap().len();
    fixture.configure(&format!("[agents]\ngateways = [\"{url}\"]\nupload = \"{url}\"\n"));
    let registration = json!({
        "name": "Careful Golem", "description": "Swaps in small steps.", "chain_id": "ethereum",
        "registration": {"tool_endpoint": "https://golem.example/mcp", "prompts": ["explain"], "resources": ["fills"],
                         "ens": "careful.eth", "did": "did:web:golem.example"},
    });
    // Without a decision nothing leaves this machine, and neither does a dry run's file.
    let (refused, _) = fixture.call("identity_register_agent", &registration, &["--approve", "never"]);
    assert_eq!(refused["error"]["code"], "APPROVAL_REQUIRED", "{refused}");
    let (rehearsed, exit) = fixture.call("identity_register_agent", &registration, &["--dry-run"]);
    assert_eq!((exit, stored()), (0, 0), "{rehearsed}");

    let (answer, exit) = fixture.call("identity_register_agent", &registration, &["--approve", "always"]);
    assert_eq!((exit, stored()), (0, 1), "{answer}");
    let data = &answer["data"];
    assert_eq!((&data["agent_id"], &data["file_problem"]), (&json!("31337:13"), &Value::Null), "{data}");
    let location = data["file_location"].as_str().unwrap();
    let call = IdentityRegistry::tokenURICall { tokenId: U256::from(13) };
    let asked = json!([{"to": fixture.contract("identityRegistry"), "data": hex::encode_prefixed(call.abi_encode())}, "latest"]);
    let named = fixture.ask("eth_call", asked);
    let named = hex::decode(named.as_str().unwrap()).unwrap();
    assert_eq!(IdentityRegistry::tokenURICall::abi_decode_returns(&named).unwrap(), location, "as the chain has it");

    let profile = |fixture: &Fixture| {
        let (answer, _) = fixture.call("identity_get_agent_profile", &json!({"agent_id": "31337:13"}), &[]);
        answer["data"].clone()
    };
    let read = profile(&fixture);
    assert_eq!((&read["file_status"], &read["name"]), (&json!("read"), &json!("Careful Golem")), "{read}");
    // Its words and services find it at once, without any gateway, and its file counts.
    fixture.configure("");
    let discover = |fixture: &Fixture, params: Value| {
        let (answer, exit) = fixture.call("identity_discover_agents", &params, &[]);
        assert_eq!(exit, 0, "{answer}");
        answer["data"].clone()
    };
    for params in [json!({"query": "careful"}), json!({"protocol": "mcp", "query": "golem"})] {
        let found = discover(&fixture, params);
        assert_eq!(found["agents"][0]["agent_id"], "31337:13", "{found}");
        assert_eq!(
            found["sources"][0]["files_not_searched"], 1,
            "the devnet's lookalike has a file on a server: {found}"
        );
    }
    let (trust, _) = fixture.call("identity_evaluate_agent_trust", &json!({"agent_id": "31337:13"}), &[]);
    // File 30, named 20, wallet 15, endpoint 15, active 10.
    assert_eq!(trust["data"]["breakdown"]["identity_score"], 90, "{trust}");
    assert_eq!(trust["data"]["flags"], json!(["no_ratings", "no_validation"]), "{trust}");
    fixture.configure(&format!("[agents]\ngateways = [\"{url}\"]\nupload = \"{url}\"\n"));
    let registered = &read["registration"];
    assert_eq!((&registered["prompts"], &registered["resources"]), (&json!(["explain"]), &json!(["fills"])));
    assert_eq!((&registered["ens"], &registered["did"]), (&json!("careful.eth"), &json!("did:web:golem.example")));

    // An update starts from the stored file, whose hash is compared, and keeps what it does not change.
    let update = json!({"agent_id": "31337:13", "updates": {"active": false}});
    let (answer, exit) = fixture.call("identity_update_metadata", &update, &["--approve", "always"]);
    assert_eq!((exit, stored()), (0, 2), "{answer}");
    let read = profile(&fixture);
    assert_eq!((&read["active"], &read["registration"]["ens"]), (&json!(false), &json!("careful.eth")), "{read}");
    let review = json!({"agent_id": "31337:0", "score": 400, "review": "As quoted."});
    let (answer, exit) = fixture.call("identity_submit_feedback", &review, &["--approve", "always"]);
    assert_eq!((exit, stored()), (0, 3), "{answer}");
    assert!(store.lock().unwrap().values().any(|file| String::from_utf8_lossy(file).contains("As quoted.")));
    let asked = json!({"agent_id": "31337:0", "include_feedback": true});
    let (rated, _) = fixture.call("identity_get_agent_profile", &asked, &[]);
    assert_eq!(rated["data"]["feedback_history"][0]["review"], "As quoted.", "{rated}");

    // A node that stores something else is reported; one that does not answer stops the call before it is asked about.
    let (lies, _) = node(false);
    fixture.configure(&format!("[agents]\ngateways = [\"{url}\"]\nupload = \"{lies}\"\n"));
    let update = json!({"agent_id": "31337:13", "updates": {"active": true}});
    let (answer, _) = fixture.call("identity_update_metadata", &update, &["--approve", "always"]);
    let problem = answer["data"]["file_problem"].as_str().unwrap();
    assert!(problem.contains("has stored something else"), "{answer}");
    fixture.configure("[agents]\nupload = \"http://127.0.0.1:1\"\n");
    let (answer, _) = fixture.call("identity_register_agent", &registration, &["--approve", "always"]);
    assert_eq!(answer["error"]["code"], "NOT_YET", "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("does not answer"), "{answer}");
}

#[test]
fn an_a2a_card_is_read_and_one_that_lies_about_its_content_is_not() {
    let fixture = Fixture::new();
    let card = json!({
        "protocolVersion": "0.3.0", "name": "Card\u{202e} Name", "description": "Routes.", "url": "https://golem.example/a2a",
        "skills": [{"id": "route", "name": "Find a route"}],
    });
    let card = card.to_string().into_bytes();
    let cid = Cid::of_raw(&card).to_string();
    let (url, store) = node(true);
    store.lock().unwrap().insert(cid.clone(), card);
    let registration = json!({
        "name": "Careful Golem", "chain_id": "ethereum",
        "registration": {"a2a_endpoint": format!("https://ipfs.io/ipfs/{cid}"), "a2a_skills": ["claimed"]},
    });
    let (answer, exit) = fixture.call("identity_register_agent", &registration, &["--approve", "always"]);
    assert_eq!(exit, 0, "{answer}");
    let discover = |fixture: &Fixture| {
        let (answer, _) = fixture.call("identity_discover_agents", &json!({"query": "careful"}), &[]);
        answer["data"]["agents"][0].clone()
    };
    // Without a gateway, the card is what the registration file says of it.
    let found = discover(&fixture);
    assert_eq!(found["is_own"], true);
    assert_eq!(
        (&found["agent_card"]["resolved"], &found["agent_card"]["skills"]),
        (&json!(false), &json!(["claimed"]))
    );
    fixture.configure(&format!("[agents]\ngateways = [\"{url}\"]\n"));
    let card = discover(&fixture)["agent_card"].clone();
    assert_eq!((&card["resolved"], &card["skills"]), (&json!(true), &json!(["Find a route"])), "{card}");
    assert_eq!((&card["endpoint"], &card["version"]), (&json!("https://golem.example/a2a"), &json!("0.3.0")));
    assert!(!card.to_string().contains('\u{202e}'), "{card}");
    store.lock().unwrap().insert(cid, b"{\"name\":\"forged\",\"skills\":[]}".to_vec());
    let card = discover(&fixture)["agent_card"].clone();
    assert_eq!((&card["resolved"], &card["name"]), (&json!(false), &Value::Null), "{card}");
    assert!(card["problem"].as_str().unwrap().contains("does not have the hash"), "{card}");
}

/// A subgraph that answers every query with this, whatever is asked.
fn subgraph(answer: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let request = whole_request(&mut socket);
            assert!(request.starts_with(b"POST / "), "{}", String::from_utf8_lossy(&request));
            let body = answer.to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _gone = socket.write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

#[test]
fn a_subgraph_finds_agents_and_the_registries_decide_what_is_shown() {
    let fixture = Fixture::new();
    let discover = |url: Option<&str>, params: Value| {
        let config = url.map(|url| format!("[agents.subgraphs]\nethereum = \"{url}\"\n"));
        fixture.configure(&config.unwrap_or_default());
        let (answer, exit) = fixture.call("identity_discover_agents", &params, &[]);
        assert_eq!(exit, 0, "{answer}");
        answer["data"].clone()
    };
    let ids = |found: &Value| -> Vec<String> {
        found["agents"].as_array().unwrap().iter().map(|agent| agent["agent_id"].as_str().unwrap().to_owned()).collect()
    };
    let swaps = || json!({"query": "swap", "chain": "ethereum"});
    let by_logs = discover(None, swaps());
    assert_eq!(by_logs["sources"][0]["looked_up_in"], "registries");
    // The devnet's own subgraph finds the same agents, with the same figures.
    let served = fixture.devnet.described["order_service"].as_str().unwrap();
    let served = format!("{served}/subgraphs/ethereum");
    let by_graph = discover(Some(&served), swaps());
    let source = &by_graph["sources"][0];
    assert_eq!((&source["looked_up_in"], &source["not_confirmed"]), (&json!("subgraph"), &json!(0)), "{source}");
    let sorted = |found: &Value| {
        let mut agents = found["agents"].as_array().unwrap().clone();
        agents.sort_by_key(|agent| agent["agent_id"].to_string());
        agents
    };
    assert_eq!(sorted(&by_logs), sorted(&by_graph));
    // Ratings decide here, so that the registries' logs are read.
    let rated = discover(Some(&served), json!({"min_reputation": 450, "chain": "ethereum"}));
    assert_eq!(rated["sources"][0]["looked_up_in"], "registries");
    let trust = fixture.call("identity_evaluate_agent_trust", &json!({"agent_id": "31337:0"}), &[]).0;

    // Behind by a few blocks: the new agent is missing, and the source says by how much. Far behind: not used.
    let registration = json!({"name": "Swap newcomer", "registration": {}, "chain_id": "ethereum"});
    fixture.configure("");
    let (answer, exit) = fixture.call("identity_register_agent", &registration, &["--approve", "always"]);
    assert_eq!(exit, 0, "{answer}");
    let now = discover(Some(&served), swaps());
    assert!(ids(&now).contains(&"31337:13".to_owned()), "{now}");
    let late = discover(Some(&format!("{served}?behind=20")), swaps());
    assert_eq!(late["sources"][0]["blocks_behind"], 20, "{late}");
    assert!(!ids(&late).contains(&"31337:13".to_owned()), "{late}");
    let older = discover(Some(&format!("{served}?behind=20000")), swaps());
    let source = &older["sources"][0];
    assert_eq!(source["looked_up_in"], "registries", "{source}");
    assert!(source["subgraph_problem"].as_str().unwrap().contains("behind the chain"), "{source}");
    assert!(ids(&older).contains(&"31337:13".to_owned()), "{older}");

    // One that lies: an agent that does not exist, and texts that agent 1 does not have.
    let block = fixture.ask("eth_getBlockByNumber", json!(["latest", false]));
    let number = u64::from_str_radix(&block["number"].as_str().unwrap()[2..], 16).unwrap();
    let agent = |id: u32, chain: u32, name: &str| {
        json!({"chainId": chain, "agentId": id.to_string(), "lastActivity": "1", "registrationFile": {
            "name": name, "description": "", "active": true, "mcpEndpoint": null, "a2aEndpoint": null,
            "supportedTrusts": [], "mcpTools": [], "mcpPrompts": [], "mcpResources": [], "a2aSkills": []}})
    };
    let graph = |hash: Value, number: u64, agents: Vec<Value>| {
        let meta = json!({"block": {"number": number, "hash": hash}, "hasIndexingErrors": false});
        subgraph(json!({"data": {"_meta": meta, "agents": agents}}))
    };
    let lies = vec![agent(0, 31_337, "Swap king"), agent(1, 31_337, "Swap king"), agent(999, 31_337, "Swap king")];
    let found =
        discover(Some(&graph(block["hash"].clone(), number, lies)), json!({"query": "swap king", "chain": "ethereum"}));
    assert_eq!(ids(&found), ["31337:0"], "the only one whose file speaks of swaps: {found}");
    assert_eq!(
        (&found["agents"][0]["name"], &found["sources"][0]["not_confirmed"]),
        (&json!("Meridian Router"), &json!(2))
    );
    // One with more agents than are read: the result says that some are missing.
    let many: Vec<Value> = (0..500).map(|_| agent(0, 31_337, "Swap king")).collect();
    let url = graph(block["hash"].clone(), number, many);
    fixture.configure(&format!("[agents.subgraphs]\nethereum = \"{url}\"\n"));
    let (cut, _) = fixture.call("identity_discover_agents", &swaps(), &[]);
    assert_eq!(cut["data"]["sources"][0]["subgraph_is_cut"], true, "{cut}");
    assert!(cut["explanation"].as_str().unwrap().contains("more agents than were read"), "{cut}");
    assert_eq!(found["sources"][0]["subgraph_is_cut"], false);
    // Of another chain, at a block that is not on this one, and no subgraph at all: the registries answer.
    for (url, said) in [
        (graph(block["hash"].clone(), number, vec![agent(0, 1, "Swap king")]), "of the chain 1"),
        (graph(json!(format!("0x{}", "12".repeat(32))), number, vec![]), "is not on the chain"),
        (graph(block["hash"].clone(), number + 50_000, vec![]), "is not on the chain"),
        (subgraph(json!({"errors": [{"message": "no such subgraph"}]})), "no such subgraph"),
        ("http://127.0.0.1:1".to_owned(), "does not answer"),
    ] {
        let found = discover(Some(&url), swaps());
        let source = &found["sources"][0];
        assert_eq!(source["looked_up_in"], "registries", "{source}");
        assert!(source["subgraph_problem"].as_str().unwrap().contains(said), "{said}: {source}");
        assert!(ids(&found).contains(&"31337:0".to_owned()));
    }
    // Trust is the same whatever a subgraph says.
    let lies = graph(block["hash"].clone(), number, vec![agent(0, 31_337, "Swap king")]);
    fixture.configure(&format!("[agents.subgraphs]\nethereum = \"{lies}\"\n"));
    let again = fixture.call("identity_evaluate_agent_trust", &json!({"agent_id": "31337:0"}), &[]).0;
    for field in ["trust_score", "breakdown", "flags", "recommendation"] {
        assert_eq!(again["data"][field], trust["data"][field], "{field}");
    }
}
