//! Agents of a large network: discovery over 10,000 of them (goal: under 20 ms), evaluation of trust, and building the
//! directory per 1,000 logs.

use std::hint::black_box;

use alloy::primitives::{Address, B256, Bytes, Log, U256, keccak256};
use alloy::sol_types::SolEvent;
use bardo::abi::erc8004::{IdentityRegistry, ReputationRegistry};
use bardo::erc8004::AgentRegistry;
use bardo::erc8004::directory::{AgentDirectory, RegistrySet};
use bardo::erc8004::file::{AgentService, RegistrationFile, RegistryEntry, TYPE};
use bardo::erc8004::reputation::reputation;
use bardo::erc8004::search::{AgentOrder, AgentQuery};
use bardo::erc8004::trust;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const AGENTS: u64 = 10_000;
/// Ratings of each agent, by clients that rate many.
const RATINGS: u64 = 3;
/// Ratings of the first agent in addition.
const POPULAR: u64 = 1_000;
const NOW: u64 = 1_800_000_000;
const IDENTITY: Address = Address::repeat_byte(0x81);
const REPUTATION: Address = Address::repeat_byte(0x82);

fn registries() -> RegistrySet {
    let identity = AgentRegistry { chain_id: 1, address: IDENTITY };
    RegistrySet { identity, reputation: REPUTATION, validation: None }
}

fn log(address: Address, event: &impl SolEvent) -> Log {
    Log { address, data: event.encode_log_data() }
}

fn account(seed: u64) -> Address {
    Address::from_word(keccak256(seed.to_be_bytes()))
}

/// The three logs of a registration, with a file of a usual size.
fn registration(id: u64) -> [Log; 3] {
    let owner = account(id);
    let service =
        |name: &str, endpoint: String| AgentService { name: name.to_owned(), endpoint, ..AgentService::default() };
    let subject = ["swaps", "lending", "bridges", "prices", "research"][usize::try_from(id % 5).unwrap_or_default()];
    let file = RegistrationFile {
        kind: TYPE.to_owned(),
        name: format!("Agent {id} for {subject}"),
        description: format!(
            "Number {id} quotes, compares and explains {subject} for other agents, day and night, in small steps."
        ),
        image: format!("https://agent{id}.example/logo.png"),
        services: vec![
            AgentService {
                mcp_tools: ["quote", "compare", "explain", "history"].map(|tool| format!("{tool}_{subject}")).to_vec(),
                ..service("MCP", format!("https://agent{id}.example/mcp"))
            },
            AgentService {
                a2a_skills: vec![format!("{subject}-analysis")],
                ..service("A2A", format!("https://agent{id}.example/card.json"))
            },
        ],
        x402_support: false,
        active: true,
        registrations: vec![RegistryEntry { agent_id: id, agent_registry: registries().identity.to_string() }],
        supported_trust: vec!["reputation".to_owned()],
    };
    let agent = U256::from(id);
    let uri = file.data_uri().expect("a file is JSON");
    [
        log(IDENTITY, &IdentityRegistry::Transfer { from: Address::ZERO, to: owner, tokenId: agent }),
        log(IDENTITY, &IdentityRegistry::Registered { agentId: agent, agentURI: uri, owner }),
        log(
            IDENTITY,
            &IdentityRegistry::MetadataSet {
                agentId: agent,
                indexedMetadataKey: keccak256("agentWallet"),
                metadataKey: "agentWallet".to_owned(),
                metadataValue: Bytes::copy_from_slice(owner.as_slice()),
            },
        ),
    ]
}

fn rating(id: u64, at: u64) -> Log {
    let event = ReputationRegistry::NewFeedback {
        agentId: U256::from(id),
        clientAddress: account(1_000_000 + (id + at) % 500),
        feedbackIndex: at + 1,
        value: i128::from(50 + (id + at) % 51),
        valueDecimals: 0,
        indexedTag1: keccak256("reliable"),
        tag1: "reliable".to_owned(),
        tag2: String::new(),
        endpoint: String::new(),
        feedbackURI: String::new(),
        feedbackHash: B256::ZERO,
    };
    log(REPUTATION, &event)
}

fn all_logs() -> Vec<Log> {
    let mut logs: Vec<Log> = (0..AGENTS).flat_map(registration).collect();
    logs.extend((0..AGENTS).flat_map(|id| (0..RATINGS).map(move |at| rating(id, at))));
    logs.extend((0..POPULAR).map(|at| rating(0, RATINGS + at)));
    logs
}

fn folded(logs: &[Log]) -> AgentDirectory {
    let mut directory = AgentDirectory::new(registries());
    for (log, at) in logs.iter().zip(0..) {
        directory.apply(log, NOW - 8_640_000 + at);
    }
    directory
}

fn identity(criterion: &mut Criterion) {
    let logs = all_logs();
    let directory = folded(&logs);
    assert_eq!(directory.len(), 10_000);

    let by = |order| Some(order);
    for (name, query, found) in [
        ("words", AgentQuery::new("lending analysis", None, None, None), 10_000),
        ("a rare word", AgentQuery::new("4711", None, None, None), 1),
        ("newest of a protocol", AgentQuery::new("", Some("a2a"), None, by(AgentOrder::Activity)), 10_000),
        ("best rated", AgentQuery::new("", None, Some(400), by(AgentOrder::Reputation)), 0),
    ] {
        let count = query.search(&directory, NOW).len();
        assert!(found == 0 || count == found, "{name}: {count}");
        criterion.bench_function(&format!("discovery over 10,000 agents, {name}"), |bencher| {
            bencher.iter(|| query.search(black_box(&directory), NOW));
        });
    }

    for (name, id) in [("3 ratings", 7), ("1,003 ratings", 0)] {
        let id = U256::from(id);
        let agent = directory.agent(id).expect("it is registered");
        let evaluate = || {
            let rated = reputation(&directory.audited(agent), NOW);
            let facts = directory.identity_facts(id, agent);
            trust::evaluate(&facts, &rated, &directory.validations(agent), NOW)
        };
        // File 30, named 20, wallet 15, endpoint 15, active 10, a hundred days old 10.
        assert_eq!(evaluate().identity, 100);
        criterion
            .bench_function(&format!("trust evaluation, {name}"), |bencher| bencher.iter(|| black_box(evaluate())));
    }

    let (registrations, ratings) = (&logs[..999], &logs[30_000..31_000]);
    let mut group = criterion.benchmark_group("directory");
    group.throughput(Throughput::Elements(1_000));
    group.bench_function("index build, 333 registrations of 3 logs", |bencher| {
        bencher.iter(|| folded(black_box(registrations)));
    });
    let known = folded(&logs[..30_000]);
    group.bench_function("index build, 1,000 ratings", |bencher| {
        let extended = |mut directory: AgentDirectory| {
            ratings.iter().for_each(|log| directory.apply(log, NOW));
            directory
        };
        bencher.iter_batched(|| known.clone(), extended, criterion::BatchSize::LargeInput);
    });
    group.finish();
}

criterion_group!(benches, identity);
criterion_main!(benches);
