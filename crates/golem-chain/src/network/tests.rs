//! Tests of the networks. Expected addresses and ids come from the chains' own documentation, not from the bundled
//! file.

use alloy::primitives::{Address, address};

use super::{
    AddressBook, ChainPlan, DEVNET_BASE, DEVNET_ETHEREUM, DescriptionError, KnownContract, Network, NetworkDescription,
    NetworkKind, NetworkPlan, NetworkPlanError, UniswapVersion, UnknownChain, by_id, named, resolve,
};
use bardo_base::config::{Config, ConfigFlags, Environment};

#[test]
fn the_named_networks_are_the_eight_with_their_ids() {
    let table: Vec<(&str, u64, NetworkKind)> =
        named().iter().map(|network| (network.name.as_str(), network.chain_id, network.kind)).collect();
    use NetworkKind::{Real, Test};
    assert_eq!(
        table,
        [
            ("ethereum", 1, Real),
            ("base", 8453, Real),
            ("arbitrum", 42_161, Real),
            ("optimism", 10, Real),
            ("polygon", 137, Real),
            ("unichain", 130, Real),
            ("sepolia", 11_155_111, Test),
            ("base-sepolia", 84_532, Test),
        ]
    );
    assert!(by_id(DEVNET_ETHEREUM).is_none() && by_id(DEVNET_BASE).is_none());
}

#[test]
fn every_network_has_what_a_swap_needs() {
    for network in named() {
        let book = &network.book;
        for contract in [
            KnownContract::Permit2,
            KnownContract::Multicall3,
            KnownContract::WrappedNative,
            KnownContract::UniversalRouter,
            KnownContract::SwapRouter02,
            KnownContract::V2Factory,
            KnownContract::V2Router,
            KnownContract::V3Factory,
            KnownContract::V3PositionManager,
            KnownContract::QuoterV2,
        ] {
            assert!(book.contract(contract).is_some_and(|at| !at.is_zero()), "{network}: {contract:?}");
        }
        assert_eq!(
            network.uniswap_versions(),
            [UniswapVersion::V2, UniswapVersion::V3, UniswapVersion::V4],
            "{network}"
        );
        assert_eq!(book.contract(KnownContract::Permit2), Some(address!("000000000022D473030F116dDEE9F6B43aC78BA3")));
        let wrapped = book.contract(KnownContract::WrappedNative).unwrap();
        let token = book.tokens().iter().find(|token| token.address == wrapped).unwrap();
        assert_eq!(token.symbol, format!("W{}", network.native_symbol), "{network}");
        assert!(book.tokens().iter().any(|token| token.symbol == "USDC" && token.decimals == 6), "{network}");
        let mut symbols: Vec<&str> = book.tokens().iter().map(|token| token.symbol.as_str()).collect();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), book.tokens().len(), "{network}: a symbol twice");
        for feed in book.feeds() {
            assert!(feed.pair.ends_with(" / USD") && feed.decimals == 8, "{network}: {feed:?}");
        }
    }
}

#[test]
fn known_addresses_are_right() {
    let at = |id: u64, contract| by_id(id).unwrap().book.contract(contract).unwrap();
    // The first Quoter (0xb27308f9…) is deployed on these chains too and must not be listed.
    for id in [1, 42_161, 10, 137] {
        assert_eq!(at(id, KnownContract::QuoterV2), address!("61fFE014bA17989E743c5F6cB21bF9697530B21e"));
    }
    assert_eq!(at(130, KnownContract::QuoterV2), address!("385A5cf5F83e99f7BB2852b6A19C3538b9FA7658"));
    assert_eq!(at(8453, KnownContract::V3Factory), address!("33128a8fC17869897dcE68Ed026d694621f6FDfD"));
    assert_eq!(at(1, KnownContract::UniversalRouter), address!("66a9893cC07D91D95644AEDD05D03f95e1dBA8Af"));
    // Polygon's WETH is bridged ether; its native token has another wrapper contract.
    let polygon = by_id(137).unwrap();
    assert_eq!(at(137, KnownContract::WrappedNative), address!("0d500B1d8E8eF31E21C99d1Db9A6444d3ADf1270"));
    let weth = polygon.book.tokens().iter().find(|token| token.symbol == "WETH").unwrap();
    assert_eq!(weth.address, address!("7ceB23fD6bC0adD59E62ac25578270cFf1b9f619"));
    let usdc = |id: u64| by_id(id).unwrap().book.tokens().iter().find(|token| token.symbol == "USDC").unwrap().address;
    assert_eq!(usdc(1), address!("A0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"));
    assert_eq!(usdc(8453), address!("833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"));
    // UniswapX orders per chain: V2 Dutch on mainnet, Priority on Base, V3 Dutch on Arbitrum.
    let has = |id: u64, contract| by_id(id).unwrap().book.contract(contract).is_some();
    assert!(has(1, KnownContract::V2DutchReactor) && !has(1, KnownContract::PriorityReactor));
    assert!(has(8453, KnownContract::PriorityReactor) && !has(8453, KnownContract::V2DutchReactor));
    assert!(has(42_161, KnownContract::V3DutchReactor));
    let feed = |id: u64, pair: &str| by_id(id).unwrap().book.feed(pair).unwrap().address;
    assert_eq!(feed(1, "ETH / USD"), address!("5f4eC3Df9cbd43714FE2740f5E3616155c5b8419"));
    assert_eq!(feed(8453, "ETH / USD"), address!("71041dddad3595F9CEd3DcCFBe3D1F4b0a16Bb70"));
}

#[test]
fn contract_keys_round_trip() {
    for network in named() {
        for (contract, at) in network.book.contracts() {
            assert_eq!(KnownContract::from_key(&contract.key()), Some(contract));
            assert!(network.book.label(at).is_some());
        }
    }
    assert_eq!(KnownContract::QuoterV2.key(), "quoterV2");
    assert_eq!(KnownContract::from_key("quoter"), None);
}

#[test]
fn a_chain_is_found_by_name_alias_and_id() {
    for (asked, id) in [
        ("ethereum", 1),
        ("ETH", 1),
        ("mainnet", 1),
        (" base ", 8453),
        ("10", 10),
        ("Arb", 42_161),
        ("11155111", 11_155_111),
    ] {
        assert_eq!(resolve(asked, named()).map(|network| network.chain_id), Ok(id), "{asked}");
    }
    let message = |asked: &str| resolve(asked, named()).unwrap_err().to_string();
    assert!(
        message("etherium").starts_with("unknown chain 'etherium' (did you mean 'ethereum'?); known: ethereum, base")
    );
    assert!(message("solana").starts_with("unknown chain 'solana'; known: ethereum"));
    assert!(message("5").starts_with("no chain with id 5; known: ethereum (1), base (8453)"));
    for asked in ["0x1", "1e3", "1.0", "01", "99999999999999999999999"] {
        assert!(matches!(resolve(asked, named()), Err(UnknownChain::NotDecimal { .. })), "{asked}");
    }
    assert!(!message("eth\u{1b}[2J").contains('\u{1b}'));
    assert!(matches!(resolve("", named()), Err(UnknownChain::Name { .. })));
}

/// A description in the format that `bardo devnet` prints.
const DEVNET: &str = r#"{"chains":[
  {"name":"ethereum","chain_id":31337,"rpc":"http://127.0.0.1:8545",
   "contracts":{"permit2":"0x000000000022D473030F116dDEE9F6B43aC78BA3","quoterV2":"0x1111111111111111111111111111111111111111",
                "v3Factory":"0x2222222222222222222222222222222222222222","allowedMethodsEnforcer":"0x3333333333333333333333333333333333333333"},
   "tokens":{"USDC":{"address":"0x4444444444444444444444444444444444444444","decimals":6,"name":"USD Coin"}},
   "feeds":{"ETH / USD":{"address":"0x5555555555555555555555555555555555555555","decimals":8}},
   "accounts":["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"]},
  {"name":"base","chain_id":31338,"rpc":"http://127.0.0.1:8546","contracts":{},"tokens":{},"accounts":[]}],
 "order_service":null,"intent_service":null}"#;

#[test]
fn a_description_becomes_networks_and_back() {
    let description = NetworkDescription::parse(DEVNET).unwrap();
    let again = serde_json::to_string(&description).unwrap();
    assert_eq!(NetworkDescription::parse(&again).unwrap(), description);

    let networks = description.networks();
    let ethereum = resolve("ethereum", &networks).unwrap();
    assert_eq!((ethereum.chain_id, ethereum.kind), (DEVNET_ETHEREUM, NetworkKind::Devnet));
    assert_eq!(ethereum.book.contract(KnownContract::QuoterV2), Some(Address::repeat_byte(0x11)));
    assert_eq!(ethereum.uniswap_versions(), [UniswapVersion::V3]);
    assert_eq!(ethereum.book.others().collect::<Vec<_>>(), [("allowedMethodsEnforcer", Address::repeat_byte(0x33))]);
    assert_eq!(ethereum.book.label(Address::repeat_byte(0x33)).as_deref(), Some("allowedMethodsEnforcer"));
    assert_eq!(ethereum.book.tokens()[0].symbol, "USDC");
    assert_eq!(ethereum.book.feed("ETH / USD").unwrap().address, Address::repeat_byte(0x55));
    assert_eq!(resolve("31338", &networks).unwrap().name, "base");
}

#[test]
fn a_bad_description_is_refused_whole() {
    use DescriptionError as E;
    let parse = |from: &str, to: &str| NetworkDescription::parse(&DEVNET.replacen(from, to, 1)).unwrap_err();
    assert!(matches!(NetworkDescription::parse("{}"), Err(E::Json(_))));
    assert!(matches!(NetworkDescription::parse("[1,2"), Err(E::Json(_))));
    assert_eq!(NetworkDescription::parse(r#"{"chains":[]}"#), Err(E::Empty));
    assert!(matches!(parse("0x1111111111111111111111111111111111111111", "0x11"), E::Json(_)));
    assert!(matches!(
        parse("0x1111111111111111111111111111111111111111", "0x0000000000000000000000000000000000000000"),
        E::ZeroAddress { .. }
    ));
    assert!(matches!(parse("\"name\":\"ethereum\"", "\"name\":\"Eth ereum\""), E::Name(_)));
    assert!(matches!(parse("\"name\":\"ethereum\"", "\"name\":\"31337\""), E::Name(_)));
    assert!(matches!(parse("31338", "31337"), E::Twice(_)));
    assert!(matches!(parse("31338", "0"), E::NoId(_)));
    assert!(matches!(parse("\"USDC\"", "\"US\\u200bDC\""), E::Symbol { .. }));
    assert!(matches!(parse("\"decimals\":6", "\"decimals\":78"), E::Decimals { decimals: 78, .. }));
}

#[test]
fn an_endpoint_may_describe_nothing_but_a_devnet() {
    let described = NetworkDescription::parse(&DEVNET.replace("31337", "1")).unwrap();
    assert!(matches!(described.trust_as_devnet(), Err(DescriptionError::NotADevnet { chain_id: 1, .. })));
    let plan = ChainPlan { name: "ethereum".into(), network: by_id(1).cloned(), chain_id: None, endpoints: vec![] };
    // The endpoint's operator must not be able to choose the router.
    assert_eq!(plan.settle(1, Some(&described)).unwrap(), by_id(1).cloned().unwrap());
    let stranger = ChainPlan { network: None, name: "mine".into(), ..plan };
    assert_eq!(stranger.settle(1, Some(&described)).unwrap().book, by_id(1).unwrap().book);
}

fn config(file: &str, env: &[(&str, &str)], flags: &ConfigFlags) -> Config {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.toml"), file).unwrap();
    let home = dir.path().to_str().unwrap().to_owned();
    let environment: Environment = env.iter().copied().chain([("BARDO_HOME", home.as_str())]).collect();
    Config::load(&environment, flags).unwrap()
}

fn rpc(pairs: &[&str]) -> ConfigFlags {
    ConfigFlags { rpc: pairs.iter().map(|pair| (*pair).to_owned()).collect(), ..ConfigFlags::default() }
}

fn network(name: &str) -> ConfigFlags {
    ConfigFlags { network: Some(name.to_owned()), ..ConfigFlags::default() }
}

#[test]
fn the_devnet_is_the_default() {
    assert_eq!(NetworkPlan::from_config(&config("", &[], &ConfigFlags::default())), Ok(NetworkPlan::Devnet));
    let idle = config("[chains.sepolia]\nrpc = [\"https://a.example\"]", &[], &ConfigFlags::default());
    assert_eq!(NetworkPlan::from_config(&idle), Ok(NetworkPlan::Devnet));
}

#[test]
fn a_named_network_needs_an_endpoint() {
    let error = NetworkPlan::from_config(&config("", &[], &network("base-sepolia"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no endpoint for base-sepolia: set BARDO_RPC_BASE_SEPOLIA, `rpc` in [chains.base-sepolia] of the config file, \
         or --rpc base-sepolia=URL"
    );
    let with = config("", &[("BARDO_RPC_BASE_SEPOLIA", "https://a.example")], &network("84532"));
    let Ok(NetworkPlan::Endpoints(chains)) = NetworkPlan::from_config(&with) else { panic!() };
    assert_eq!((chains[0].name.as_str(), chains[0].endpoints.len()), ("base-sepolia", 1));
}

#[test]
fn an_unknown_chain_is_refused_wherever_it_is_named() {
    let message = |config: &Config| NetworkPlan::from_config(config).unwrap_err().to_string();
    assert!(
        message(&config("", &[], &network("sepolai")))
            .starts_with("network (--network): unknown chain 'sepolai' (did you mean 'sepolia'?)")
    );
    assert!(message(&config("", &[], &network("devnte"))).contains("did you mean 'devnet'?"));
    let typo = config("[chains.sepolai]\nrpc = [\"https://a.example\"]", &[], &ConfigFlags::default());
    assert!(message(&typo).starts_with("endpoints (file, line 2): unknown chain 'sepolai'"), "{}", message(&typo));
    let typo = config("", &[("BARDO_RPC_SEPOLAI", "https://a.example")], &ConfigFlags::default());
    assert!(message(&typo).starts_with("endpoints (BARDO_RPC_SEPOLAI): unknown chain 'sepolai'"));
}

#[test]
fn one_chain_under_two_names_is_refused() {
    let file = "[chains.eth]\nrpc = [\"https://a.example\"]\n[chains.mainnet]\nrpc = [\"https://b.example\"]";
    assert!(matches!(
        NetworkPlan::from_config(&config(file, &[], &ConfigFlags::default())),
        Err(NetworkPlanError::Twice { .. })
    ));
}

#[test]
fn an_id_that_is_not_the_chains_is_refused() {
    let file = "[chains.sepolia]\nrpc = [\"https://a.example\"]\nchain_id = 1";
    let error = NetworkPlan::from_config(&config(file, &[], &ConfigFlags::default())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "file, line 3: chain_id = 1, but sepolia has id 11155111; correct it, or choose another name for your chain"
    );
}

#[test]
fn the_chain_id_of_an_endpoint_must_match_the_configured_one() {
    let settle = |config: &Config, found: u64| {
        let NetworkPlan::Endpoints(chains) = NetworkPlan::from_config(config).unwrap() else { panic!() };
        chains[0].settle(found, None).map(|network| (network.name, network.chain_id, network.kind))
    };
    let named = config("", &[], &rpc(&["base=http://127.0.0.1:1"]));
    assert_eq!(settle(&named, 8453), Ok(("base".into(), 8453, NetworkKind::Real)));
    assert_eq!(settle(&named, DEVNET_BASE), Ok(("base".into(), DEVNET_BASE, NetworkKind::Devnet)));
    let wrong = settle(&named, 1).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "the endpoint of base returns chain id 1, but base is 8453 (or 31338 on a devnet); check the URL, or give your \
         own chain another name"
    );
    // An unknown name accepts any id, unless the file sets one.
    let own = config("", &[], &rpc(&["mine=http://127.0.0.1:1"]));
    assert_eq!(settle(&own, 77), Ok(("mine".into(), 77, NetworkKind::Real)));
    assert_eq!(settle(&own, 11_155_111), Ok(("mine".into(), 11_155_111, NetworkKind::Test)));
    let fixed = config("[chains.mine]\nchain_id = 77", &[], &rpc(&["mine=http://127.0.0.1:1"]));
    assert_eq!(settle(&fixed, 77).map(|found| found.1), Ok(77));
    assert_eq!(settle(&fixed, 78).unwrap_err().expected, "77");
}

#[test]
fn an_external_devnet_is_known_by_its_description() {
    let plan = NetworkPlan::from_config(&config("", &[], &rpc(&["ethereum=http://127.0.0.1:8545"]))).unwrap();
    let NetworkPlan::Endpoints(chains) = plan else { panic!() };
    let description = NetworkDescription::parse(DEVNET).unwrap();
    let network = chains[0].settle(DEVNET_ETHEREUM, Some(&description)).unwrap();
    assert_eq!(network.book.contract(KnownContract::QuoterV2), Some(Address::repeat_byte(0x11)));
}

#[test]
fn a_book_file_is_read_and_a_bad_one_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("book.json");
    std::fs::write(&path, DEVNET).unwrap();
    let flags = ConfigFlags { book: Some(path.clone()), ..rpc(&["ethereum=http://127.0.0.1:8545"]) };
    let NetworkPlan::Endpoints(chains) = NetworkPlan::from_config(&config("", &[], &flags)).unwrap() else { panic!() };
    assert_eq!(chains[0].settle(DEVNET_ETHEREUM, None).unwrap().book.tokens().len(), 1);

    std::fs::write(&path, "{").unwrap();
    let error = NetworkPlan::from_config(&config("", &[], &flags)).unwrap_err().to_string();
    assert!(error.contains("book.json: not an address book"), "{error}");
    let missing = ConfigFlags { book: Some(dir.path().join("none.json")), ..ConfigFlags::default() };
    assert!(matches!(
        NetworkPlan::from_config(&config("", &[], &missing)),
        Err(NetworkPlanError::BookUnreadable { .. })
    ));
}

#[test]
fn unknown_chains_use_the_older_hardfork() {
    use crate::evm::SpecId;
    let fork = |id| by_id(id).map(|network| network.hardfork);
    assert_eq!(fork(1), Some(SpecId::OSAKA));
    assert_eq!(fork(8_453), Some(SpecId::PRAGUE));
    assert_eq!(Network::unknown("somewhere", 777).hardfork, SpecId::PRAGUE);
    assert_eq!(Network::devnet("ethereum", DEVNET_ETHEREUM, AddressBook::default()).hardfork, SpecId::OSAKA);
}
