//! Feedback, its revocation, responses and summaries.

use alloy::primitives::{B256, keccak256};
use alloy::sol_types::SolEvent;

use super::*;
use bardo_abi::erc8004::ReputationRegistry::{
    self, FeedbackRevoked, NewFeedback, ResponseAppended, appendResponseCall, getSummaryReturn, giveFeedbackCall,
    readAllFeedbackCall, revokeFeedbackCall,
};

const OWN_AGENT: &str = "the agent's owner and operators may not rate it";
const NO_FEEDBACK: &str = "the client gave no feedback of this index";

fn feedback(agent: U256, value: i128, decimals: u8, tags: [&str; 2]) -> giveFeedbackCall {
    giveFeedbackCall {
        agentId: agent,
        value,
        valueDecimals: decimals,
        tag1: tags[0].to_owned(),
        tag2: tags[1].to_owned(),
        endpoint: "https://mcp.example/".to_owned(),
        feedbackURI: "ipfs://feedback".to_owned(),
        feedbackHash: keccak256("feedback"),
    }
}

fn plain(agent: U256, value: i128, decimals: u8) -> giveFeedbackCall {
    feedback(agent, value, decimals, ["", ""])
}

/// Count, value and decimals.
fn summary(field: &Field, agent: U256, clients: &[Address], tags: [&str; 2]) -> (u64, i128, u8) {
    let call = ReputationRegistry::getSummaryCall {
        agentId: agent,
        clientAddresses: clients.to_vec(),
        tag1: tags[0].to_owned(),
        tag2: tags[1].to_owned(),
    };
    let getSummaryReturn { count, summaryValue, summaryValueDecimals } = field.read(field.reputation, call).unwrap();
    (count, summaryValue, summaryValueDecimals)
}

#[test]
fn feedback_is_numbered_per_client_from_one_and_emitted_whole() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let logs = field.reputation(CLIENT, feedback(agent, -32, 1, ["yield", "week"])).unwrap();
    assert_eq!((logs.len(), logs[0].address), (1, field.reputation));
    let new = NewFeedback::decode_log(&logs[0]).unwrap();
    assert_eq!((new.agentId, new.clientAddress, new.feedbackIndex), (agent, CLIENT, 1));
    assert_eq!((new.value, new.valueDecimals, new.indexedTag1), (-32, 1, keccak256("yield")));
    assert_eq!((new.tag1.as_str(), new.tag2.as_str()), ("yield", "week"));
    assert_eq!((new.endpoint.as_str(), new.feedbackURI.as_str()), ("https://mcp.example/", "ipfs://feedback"));
    assert_eq!(new.feedbackHash, keccak256("feedback"));

    field.reputation(CLIENT, plain(agent, 87, 0)).unwrap();
    field.reputation(OTHER, plain(agent, 5, 0)).unwrap();
    let last = |client| {
        field.read(field.reputation, ReputationRegistry::getLastIndexCall { agentId: agent, clientAddress: client })
    };
    assert_eq!((last(CLIENT), last(OTHER), last(THIRD)), (Ok(2), Ok(1), Ok(0)));
    let clients = field.read(field.reputation, ReputationRegistry::getClientsCall { agentId: agent }).unwrap();
    assert_eq!(clients, [CLIENT, OTHER]);
    let one = ReputationRegistry::readFeedbackCall { agentId: agent, clientAddress: CLIENT, feedbackIndex: 1 };
    let one = field.read(field.reputation, one).unwrap();
    assert_eq!((one.value, one.valueDecimals, one.isRevoked), (-32, 1, false));
    assert_eq!((one.tag1.as_str(), one.tag2.as_str()), ("yield", "week"));
    for index in [0, 3, u64::MAX] {
        let read = ReputationRegistry::readFeedbackCall { agentId: agent, clientAddress: CLIENT, feedbackIndex: index };
        rejected(field.read(field.reputation, read).map(|_| ()), NO_FEEDBACK);
    }
}

#[test]
fn values_beyond_the_bounds_are_rejected() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let most = 10_i128.pow(38);
    field.reputation(CLIENT, plain(agent, most, 18)).unwrap();
    field.reputation(CLIENT, plain(agent, -most, 0)).unwrap();
    for value in [most + 1, -most - 1, i128::MAX, i128::MIN] {
        rejected(field.reputation(CLIENT, plain(agent, value, 0)), "the value is beyond 10^38");
    }
    rejected(field.reputation(CLIENT, plain(agent, 1, 19)), "the value has more than 18 decimals");
    rejected(field.reputation(CLIENT, plain(agent, 1, 255)), "the value has more than 18 decimals");
}

#[test]
fn nobody_rates_an_agent_that_it_owns_or_operates() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    rejected(field.reputation(OWNER, plain(agent, 100, 0)), OWN_AGENT);
    field.approve(OWNER, CLIENT, agent);
    rejected(field.reputation(CLIENT, plain(agent, 100, 0)), OWN_AGENT);
    field.set_operator(OWNER, OTHER, true);
    rejected(field.reputation(OTHER, plain(agent, 100, 0)), OWN_AGENT);
    let missing = U256::from(1_000);
    failed(field.reputation(CLIENT, plain(missing, 1, 0)), Errors::ERC721NonexistentToken { tokenId: missing });

    // The bar goes with the agent: the seller may rate it from then on, the buyer no longer.
    field.transfer(OWNER, THIRD, agent).unwrap();
    rejected(field.reputation(THIRD, plain(agent, 100, 0)), OWN_AGENT);
    field.reputation(OWNER, plain(agent, 1, 0)).unwrap();
    field.reputation(CLIENT, plain(agent, 1, 0)).unwrap();
    field.reputation(OTHER, plain(agent, 1, 0)).unwrap();
}

/// ERC-8004 bars the owner and operators only, so a reader must leave out the wallet's praise by itself.
#[test]
fn the_registry_lets_an_agents_wallet_rate_it() {
    let mut field = Field::new();
    let wallet = crate::keys::DevnetAccount::agent("meridian wallet").unwrap().address();
    assert_eq!(field.wallet(U256::ZERO), wallet);
    field.chain.set_balance(wallet, U256::from(10).pow(U256::from(20)));
    field.reputation(wallet, plain(U256::ZERO, 100, 0)).unwrap();
    let call = golem_protocols::erc8004::RegistryCall::GiveFeedback {
        agent: U256::ZERO,
        value: 100,
        decimals: 0,
        tags: [String::new(), String::new()],
        endpoint: String::new(),
        uri: String::new(),
        hash: B256::ZERO,
    };
    let controllers = [field.owner(U256::ZERO), field.wallet(U256::ZERO)];
    assert!(call.check(wallet, &controllers).is_err());
}

#[test]
fn a_client_revokes_its_own_feedback_once() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let revoke = |index| revokeFeedbackCall { agentId: agent, feedbackIndex: index };
    field.reputation(CLIENT, plain(agent, 10, 0)).unwrap();
    field.reputation(CLIENT, plain(agent, 20, 0)).unwrap();
    for index in [0, 3] {
        rejected(field.reputation(CLIENT, revoke(index)), NO_FEEDBACK);
    }
    for stranger in [OTHER, OWNER] {
        rejected(field.reputation(stranger, revoke(1)), NO_FEEDBACK);
    }
    let logs = field.reputation(CLIENT, revoke(1)).unwrap();
    let revoked = FeedbackRevoked::decode_log(&logs[0]).unwrap();
    assert_eq!((revoked.agentId, revoked.clientAddress, revoked.feedbackIndex), (agent, CLIENT, 1));
    rejected(field.reputation(CLIENT, revoke(1)), "the feedback is already revoked");
    assert_eq!(summary(&field, agent, &[CLIENT], ["", ""]), (1, 20, 0));
    let read = ReputationRegistry::readFeedbackCall { agentId: agent, clientAddress: CLIENT, feedbackIndex: 1 };
    let read = field.read(field.reputation, read).unwrap();
    assert_eq!((read.value, read.isRevoked), (10, true));
    // Numbers go on.
    let logs = field.reputation(CLIENT, plain(agent, 30, 0)).unwrap();
    assert_eq!(NewFeedback::decode_log(&logs[0]).unwrap().feedbackIndex, 3);
}

#[test]
fn anyone_responds_and_responses_are_counted_by_filter() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let respond = |client, index, uri: &str| appendResponseCall {
        agentId: agent,
        clientAddress: client,
        feedbackIndex: index,
        responseURI: uri.to_owned(),
        responseHash: keccak256(uri),
    };
    field.reputation(CLIENT, plain(agent, 10, 0)).unwrap();
    field.reputation(CLIENT, plain(agent, 20, 0)).unwrap();
    field.reputation(OTHER, plain(agent, 30, 0)).unwrap();
    rejected(field.reputation(OWNER, respond(CLIENT, 1, "")), "the response has no URI");
    rejected(field.reputation(OWNER, respond(CLIENT, 0, "x")), NO_FEEDBACK);
    rejected(field.reputation(OWNER, respond(CLIENT, 3, "x")), NO_FEEDBACK);
    rejected(field.reputation(OWNER, respond(THIRD, 1, "x")), NO_FEEDBACK);
    let logs = field.reputation(OWNER, respond(CLIENT, 1, "ipfs://refund")).unwrap();
    let new = ResponseAppended::decode_log(&logs[0]).unwrap();
    assert_eq!((new.agentId, new.clientAddress, new.feedbackIndex, new.responder), (agent, CLIENT, 1, OWNER));
    assert_eq!((new.responseURI.as_str(), new.responseHash), ("ipfs://refund", keccak256("ipfs://refund")));
    field.reputation(OWNER, respond(CLIENT, 1, "ipfs://again")).unwrap();
    field.reputation(THIRD, respond(CLIENT, 1, "ipfs://spam")).unwrap();
    field.reputation(THIRD, respond(CLIENT, 2, "ipfs://spam")).unwrap();
    field.reputation(THIRD, respond(OTHER, 1, "ipfs://spam")).unwrap();
    let count = |client, index, responders: &[Address]| {
        let call = ReputationRegistry::getResponseCountCall {
            agentId: agent,
            clientAddress: client,
            feedbackIndex: index,
            responders: responders.to_vec(),
        };
        field.read(field.reputation, call).unwrap()
    };
    assert_eq!(count(CLIENT, 1, &[]), 3);
    assert_eq!(count(CLIENT, 1, &[OWNER]), 2);
    assert_eq!(count(CLIENT, 0, &[]), 4);
    assert_eq!(count(Address::ZERO, 0, &[]), 5);
    assert_eq!(count(Address::ZERO, 0, &[THIRD]), 3);
    assert_eq!(count(CLIENT, 9, &[]), 0);
    assert_eq!(count(THIRD, 0, &[]), 0);
}

#[test]
fn a_summary_is_the_average_in_the_most_frequent_decimals() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let clients = [CLIENT, OTHER, THIRD];
    assert_eq!(summary(&field, agent, &clients, ["", ""]), (0, 0, 0));
    let nobody = ReputationRegistry::getSummaryCall {
        agentId: agent,
        clientAddresses: Vec::new(),
        tag1: String::new(),
        tag2: String::new(),
    };
    rejected(field.read(field.reputation, nobody).map(|_| ()), "name the clients whose feedback counts");

    field.reputation(CLIENT, feedback(agent, 80, 0, ["fast", "swap"])).unwrap();
    field.reputation(OTHER, feedback(agent, 9_977, 2, ["fast", "bridge"])).unwrap();
    // (80 + 99.77) / 2 = 89.885; as often 0 as 2 decimals, so the fewer.
    assert_eq!(summary(&field, agent, &clients, ["", ""]), (2, 89, 0));
    field.reputation(THIRD, feedback(agent, -1_001, 2, ["slow", "swap"])).unwrap();
    // (80 + 99.77 - 10.01) / 3 = 56.58666…
    assert_eq!(summary(&field, agent, &clients, ["", ""]), (3, 5_658, 2));
    assert_eq!(summary(&field, agent, &[THIRD], ["", ""]), (1, -1_001, 2));
    // Rounding is towards zero: (-10.01 + -10.00) / 2 = -10.005.
    field.reputation(THIRD, feedback(agent, -1_000, 2, ["slow", ""])).unwrap();
    assert_eq!(summary(&field, agent, &[THIRD], ["slow", ""]), (2, -1_000, 2));
    assert_eq!(summary(&field, agent, &clients, ["fast", ""]), (2, 89, 0));
    assert_eq!(summary(&field, agent, &clients, ["fast", "bridge"]), (1, 9_977, 2));
    assert_eq!(summary(&field, agent, &clients, ["", "swap"]), (2, 34, 0));
    assert_eq!(summary(&field, agent, &clients, ["FAST", ""]), (0, 0, 0));
    assert_eq!(summary(&field, agent, &[OTHER], ["slow", ""]), (0, 0, 0));
}

#[test]
fn a_summary_that_does_not_fit_its_decimals_has_fewer() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let most = 10_i128.pow(38);
    field.reputation(CLIENT, plain(agent, most, 0)).unwrap();
    field.reputation(CLIENT, plain(agent, 1, 18)).unwrap();
    field.reputation(CLIENT, plain(agent, 1, 18)).unwrap();
    // A third of 10^38 fits 128 bits without decimals, and not with one: 3.33 × 10^38 is beyond 1.7 × 10^38.
    assert_eq!(summary(&field, agent, &[CLIENT], ["", ""]), (3, most / 3, 0));
}

#[test]
fn all_feedback_is_read_by_filter() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    field.reputation(CLIENT, feedback(agent, 1, 0, ["a", "x"])).unwrap();
    field.reputation(OTHER, feedback(agent, 2, 0, ["a", "y"])).unwrap();
    field.reputation(CLIENT, feedback(agent, 3, 2, ["b", "y"])).unwrap();
    field.reputation(CLIENT, revokeFeedbackCall { agentId: agent, feedbackIndex: 1 }).unwrap();
    let read = |clients: &[Address], tags: [&str; 2], revoked| {
        let call = readAllFeedbackCall {
            agentId: agent,
            clientAddresses: clients.to_vec(),
            tag1: tags[0].to_owned(),
            tag2: tags[1].to_owned(),
            includeRevoked: revoked,
        };
        field.read(field.reputation, call).unwrap()
    };
    let all = read(&[], ["", ""], true);
    assert_eq!(all.clients, [CLIENT, CLIENT, OTHER]);
    assert_eq!(all.feedbackIndexes, [1, 2, 1]);
    assert_eq!(all.values, [1, 3, 2]);
    assert_eq!(all.valueDecimals, [0, 2, 0]);
    assert_eq!(
        (all.tag1s, all.tag2s),
        (vec!["a".into(), "b".into(), "a".into()], vec!["x".into(), "y".into(), "y".into()])
    );
    assert_eq!(all.revokedStatuses, [true, false, false]);
    assert_eq!(read(&[], ["", ""], false).values, [3, 2]);
    assert_eq!(read(&[OTHER], ["", ""], true).values, [2]);
    assert_eq!(read(&[], ["a", ""], true).values, [1, 2]);
    assert_eq!(read(&[], ["", "y"], false).values, [3, 2]);
    assert!(read(&[THIRD], ["", ""], true).values.is_empty());
}
