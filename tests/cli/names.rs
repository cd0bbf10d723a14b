//! `bardo labels list` with names of the Ethereum Name Service: on a chain with the id of Ethereum and the service's own
//! contracts at its address.

use alloy::network::TransactionBuilder as _;
use alloy::primitives::{Address, B256, U256, address, keccak256};
use alloy::providers::Provider as _;
use alloy::rpc::types::{TransactionReceipt, TransactionRequest};
use alloy::sol_types::SolCall;
use bardo::chain::devnet::server::{RpcServer, serve};
use bardo::chain::devnet::{ChainConfig, Devnet, DevnetConfig, MiningMode, RunningConfig};
use bardo::chain::evm::ChainRules;
use bardo::sandbox::contracts::BundledContract;
use serde_json::{Value, json};

use crate::{bardo, run};

alloy::sol! {
    interface Service {
        function setSubnodeOwner(bytes32 node, bytes32 label, address owner) external returns (bytes32);
        function setResolver(bytes32 node, address resolver) external;
        function setAddr(bytes32 node, address a) external;
        function setName(string name) external returns (bytes32);
    }
}

const ALICE: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const BOB: Address = address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65");
/// Address of the registry on Ethereum, as <https://docs.ens.domains/learn/deployments> lists it.
const REGISTRY: Address = address!("00000000000C2E074eC69A0dFb2997BA6C7d2e1e");

/// Hash of a name by [EIP-137](https://eips.ethereum.org/EIPS/eip-137).
fn namehash(name: &str) -> B256 {
    let labels = name.split('.').rev().filter(|label| !label.is_empty());
    labels.fold(B256::ZERO, |node, label| keccak256([node, keccak256(label)].concat()))
}

async fn transact(devnet: &Devnet, from: Address, sent: TransactionRequest) -> TransactionReceipt {
    let provider = devnet.provider();
    let _: Value = provider.raw_request("anvil_impersonateAccount".into(), (from,)).await.unwrap();
    let sent = sent.from(from).with_gas_limit(3_000_000);
    let hash: B256 = provider.raw_request("eth_sendTransaction".into(), (sent,)).await.unwrap();
    let receipt = provider.get_transaction_receipt(hash).await.unwrap().unwrap();
    assert!(receipt.status());
    receipt
}

async fn call(devnet: &Devnet, from: Address, to: Address, call: impl SolCall) {
    transact(devnet, from, TransactionRequest::default().with_to(to).with_input(call.abi_encode())).await;
}

/// Chain 1 with the service, in which ALICE owns `eth`, and `alice.eth` and ALICE lead to each other; with the addresses of
/// resolver and registrar.
async fn chain() -> (Devnet, [Address; 2], RpcServer) {
    let rich = U256::from(10).pow(U256::from(20));
    let balances = vec![(ALICE, rich), (BOB, rich)];
    let chain = ChainConfig { rules: ChainRules::osaka(1), balances, ..ChainConfig::default() };
    let running = RunningConfig { mining: MiningMode::OnTransaction, clock: None, hook: None };
    let devnet = Devnet::spawn(DevnetConfig { chain, running }).unwrap();
    let create = async |contract: BundledContract, arguments: &[u8]| {
        let code = contract.creation(arguments).unwrap();
        let receipt = transact(&devnet, ALICE, TransactionRequest::default().with_deploy_code(code)).await;
        receipt.contract_address.unwrap()
    };
    let made = create(BundledContract::EnsRegistry, &[]).await;
    let moved = move |chain: &mut bardo::chain::devnet::Chain| {
        let slots: Vec<(U256, U256)> = chain.state().storage(made).collect();
        let code = chain.state().code(made);
        chain.set_code(REGISTRY, code).unwrap();
        slots.into_iter().for_each(|(slot, value)| chain.set_storage_at(REGISTRY, slot, value));
    };
    devnet.run(moved).await.unwrap();
    let resolver = create(BundledContract::EnsResolver, REGISTRY.into_word().as_slice()).await;
    let arguments = [REGISTRY.into_word(), resolver.into_word()].concat();
    let registrar = create(BundledContract::EnsReverseRegistrar, &arguments).await;
    for (node, label, owner) in [("", "reverse", ALICE), ("reverse", "addr", registrar), ("", "eth", ALICE)] {
        own(&devnet, node, label, owner).await;
    }
    name(&devnet, resolver, "alice", ALICE).await;
    call(&devnet, ALICE, registrar, Service::setNameCall { name: "alice.eth".to_owned() }).await;
    // Nobody but ALICE has that name, whatever BOB claims.
    call(&devnet, BOB, registrar, Service::setNameCall { name: "alice.eth".to_owned() }).await;
    let server = serve(devnet.clone(), 0).await.unwrap();
    (devnet, [resolver, registrar], server)
}

async fn own(devnet: &Devnet, node: &str, label: &str, owner: Address) {
    let call_data = Service::setSubnodeOwnerCall { node: namehash(node), label: keccak256(label), owner };
    call(devnet, ALICE, REGISTRY, call_data).await;
}

/// Lets `label.eth` resolve to an address.
async fn name(devnet: &Devnet, resolver: Address, label: &str, a: Address) {
    own(devnet, "eth", label, ALICE).await;
    let node = namehash(&format!("{label}.eth"));
    call(devnet, ALICE, REGISTRY, Service::setResolverCall { node, resolver }).await;
    call(devnet, ALICE, resolver, Service::setAddrCall { node, a }).await;
}

#[test]
fn labels_are_listed_with_the_names_that_lead_back() {
    let runtime = bardo::base::runtime::multi_threaded(Some(2)).unwrap();
    let (devnet, [resolver, registrar], server) = runtime.block_on(chain());
    let home = tempfile::tempdir().unwrap();
    for (address, name) in [(ALICE, "Treasurer"), (BOB, "Savings")] {
        let (_, err, code) = run(bardo(home.path()).args(["labels", "add", &address.to_string(), name]));
        assert_eq!(code, 0, "{err}");
    }
    let rpc = format!("ethereum={}", server.url());
    let listed = |more: &[&str]| run(bardo(home.path()).args(["labels", "list", "--rpc", &rpc]).args(more));
    let line = |text: &str, of: Address| text.lines().find(|line| line.contains(&of.to_string())).unwrap().to_owned();
    let (out, err, code) = listed(&[]);
    assert_eq!(code, 0, "{err}");
    assert!(line(&out, ALICE).contains("Treasurer") && line(&out, ALICE).ends_with("ENS “alice.eth”"), "{out}");
    assert!(!line(&out, BOB).contains("ENS"), "{out}");
    let (out, _, _) = listed(&["--json"]);
    let out: Value = serde_json::from_str(&out).unwrap();
    let found =
        json!([{"address": ALICE.to_string().to_lowercase(), "name": "alice.eth", "described": "ENS “alice.eth”"}]);
    assert_eq!(out["ens"].to_string().to_lowercase(), found.to_string().to_lowercase());

    // A name like the label of another address says so.
    runtime.block_on(async {
        name(&devnet, resolver, "savings", ALICE).await;
        call(&devnet, ALICE, registrar, Service::setNameCall { name: "savings.eth".to_owned() }).await;
    });
    let (out, _, _) = listed(&[]);
    assert!(line(&out, ALICE).ends_with("ENS “savings.eth”, like the name of ANOTHER address"), "{out}");

    // Without an answer, the list is what it is without the service, and says why.
    drop(server);
    let (out, err, code) = listed(&[]);
    assert_eq!(code, 0, "{err}");
    assert!(
        !out.contains("ENS") && out.contains("Treasurer") && err.contains("names of ENS were not read"),
        "{out}{err}"
    );
}
