//! Names that are shown, and on a devnet those that lead back to their address.

use alloy::primitives::{B256, U256, address, keccak256};
use alloy::rpc::types::TransactionReceipt;

use super::*;
use bardo_base::clock::SystemClock;
use bardo_sandbox::contracts::BundledContract;
use golem_chain::devnet::{ChainConfig, Devnet, DevnetConfig, MiningMode, RunningConfig};
use golem_chain::network::{AddressBook, Network};

alloy::sol! {
    interface Names {
        function setSubnodeOwner(bytes32 node, bytes32 label, address owner) external returns (bytes32);
        function setResolver(bytes32 node, address resolver) external;
        function setAddr(bytes32 node, address a) external;
        function setName(string name) external returns (bytes32);
    }
}

#[test]
fn only_plain_names_are_shown() {
    for name in ["alice.eth", "a.b-c.eth", "_dmarc.alice.eth", "1inch.eth", "x--y.eth"] {
        assert!(is_plain(name), "{name}");
    }
    for name in [
        "",
        "alice",
        "alice.",
        ".eth",
        "a..eth",
        "Alice.eth",
        "alice .eth",
        "al\u{200b}ice.eth",
        "\u{430}lice.eth",
        "ali_ce.eth",
        "xn--abc.eth",
        "\u{1f98a}.eth",
        "0x90f7.eth",
        "90f79bf6eb2c4f870365e785982e1f101e93b906.eth",
        &format!("{}.eth", "a".repeat(60)),
    ] {
        assert!(!is_plain(name), "{name:?}");
    }
}

/// Account that owns the names `eth` and `reverse`; it also claims names of its own.
const ALICE: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const BOB: Address = address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65");

/// Devnet with the service's contracts, and `alice.eth` as ALICE's.
struct NamesWorld {
    devnet: Devnet,
    resolver: Address,
    registrar: Address,
    registry: Address,
}

impl NamesWorld {
    async fn new() -> Self {
        let rich = U256::from(10).pow(U256::from(20));
        let chain = ChainConfig { balances: vec![(ALICE, rich), (BOB, rich)], ..ChainConfig::default() };
        let running = RunningConfig { mining: MiningMode::OnTransaction, clock: None, hook: None };
        let devnet = Devnet::spawn(DevnetConfig { chain, running }).unwrap();
        let create = async |contract: BundledContract, arguments: &[u8]| {
            let code = contract.creation(arguments).unwrap();
            let sent = TransactionRequest::default().from(ALICE).with_deploy_code(code);
            transact(&devnet, sent).await.contract_address.unwrap()
        };
        let registry = create(BundledContract::EnsRegistry, &[]).await;
        let resolver = create(BundledContract::EnsResolver, registry.into_word().as_slice()).await;
        let arguments = [registry.into_word(), resolver.into_word()].concat();
        let registrar = create(BundledContract::EnsReverseRegistrar, &arguments).await;
        let world = Self { devnet, resolver, registrar, registry };
        world.own(B256::ZERO, "reverse", ALICE).await;
        world.own(namehash("reverse"), "addr", registrar).await;
        world.own(B256::ZERO, "eth", ALICE).await;
        world.name("alice", ALICE).await;
        world
    }

    async fn call(&self, from: Address, to: Address, call: impl SolCall) {
        let sent = TransactionRequest::default().from(from).with_to(to).with_input(call.abi_encode());
        assert!(transact(&self.devnet, sent).await.status());
    }

    async fn own(&self, node: B256, label: &str, owner: Address) {
        let call = Names::setSubnodeOwnerCall { node, label: keccak256(label), owner };
        self.call(ALICE, self.registry, call).await;
    }

    /// Lets `label.eth` resolve to an address.
    async fn name(&self, label: &str, a: Address) {
        self.own(namehash("eth"), label, ALICE).await;
        let node = namehash(&format!("{label}.eth"));
        self.call(ALICE, self.registry, Names::setResolverCall { node, resolver: self.resolver }).await;
        self.call(ALICE, self.resolver, Names::setAddrCall { node, a }).await;
    }

    /// Lets an account claim a name.
    async fn claim(&self, by: Address, name: &str) {
        self.call(by, self.registrar, Names::setNameCall { name: name.to_owned() }).await;
    }

    async fn name_of(&self, address: Address) -> Option<String> {
        let network = Network::devnet("names", 31_337, AddressBook::default());
        let client = ChainClient::devnet(network, self.devnet.clone(), Arc::new(SystemClock)).unwrap();
        let reader = EnsReader::with_registry(&client, self.registry);
        reader.name_of(address).await.unwrap().map(|name| name.to_string())
    }
}

async fn transact(devnet: &Devnet, sent: TransactionRequest) -> TransactionReceipt {
    let provider = devnet.provider();
    let from = sent.from.unwrap();
    let _: serde_json::Value = provider.raw_request("anvil_impersonateAccount".into(), (from,)).await.unwrap();
    let sent = sent.with_gas_limit(3_000_000);
    let hash: B256 = provider.raw_request("eth_sendTransaction".into(), (sent,)).await.unwrap();
    provider.get_transaction_receipt(hash).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_counts_if_it_leads_back_to_its_address() {
    let world = NamesWorld::new().await;
    assert_eq!(world.name_of(ALICE).await, None, "nothing is claimed yet");
    world.claim(ALICE, "alice.eth").await;
    assert_eq!(world.name_of(ALICE).await.as_deref(), Some("alice.eth"));
    // Anybody can claim any name; it does not lead back.
    world.claim(BOB, "alice.eth").await;
    assert_eq!(world.name_of(BOB).await, None);
    // A name that nobody set up, and names that are not normalised.
    for name in ["bob.eth", "Alice.eth", "\u{430}lice.eth", "alice.eth\u{202e}", ""] {
        world.claim(BOB, name).await;
        assert_eq!(world.name_of(BOB).await, None, "{name:?}");
    }
    // Not even if it resolves to the account: other programs might read it as another name.
    world.name("Bob", BOB).await;
    world.claim(BOB, "Bob.eth").await;
    assert_eq!(world.name_of(BOB).await, None);
    // The name is sold: from then on it is nobody's here.
    world.name("alice", BOB).await;
    assert_eq!(world.name_of(ALICE).await, None);
    // A chain without the service has no names.
    let none = NamesWorld { registry: Address::repeat_byte(9), ..world };
    assert_eq!(none.name_of(ALICE).await, None);
}
