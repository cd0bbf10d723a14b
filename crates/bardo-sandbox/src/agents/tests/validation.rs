//! Requests for validation and their responses.

use alloy::primitives::{B256, keccak256};
use alloy::sol_types::SolEvent;

use super::*;
use bardo_abi::erc8004::ValidationRegistry::{
    self, ValidationRequest, ValidationResponse, getSummaryCall, validationRequestCall, validationResponseCall,
};

const NO_CONTROL: &str = "the caller is neither the agent's owner nor an operator";

fn request(validator: Address, agent: U256, hash: B256) -> validationRequestCall {
    validationRequestCall {
        validatorAddress: validator,
        agentId: agent,
        requestURI: "ipfs://request".to_owned(),
        requestHash: hash,
    }
}

fn answer(hash: B256, response: u8, tag: &str) -> validationResponseCall {
    validationResponseCall {
        requestHash: hash,
        response,
        responseURI: "ipfs://evidence".to_owned(),
        responseHash: keccak256("evidence"),
        tag: tag.to_owned(),
    }
}

#[test]
fn the_owner_and_operators_request_a_validation_of_one_validator() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let [first, second, third] = [1, 2, 3].map(B256::with_last_byte);
    rejected(field.validation(CLIENT, request(OTHER, agent, first)), NO_CONTROL);
    rejected(field.validation(OWNER, request(Address::ZERO, agent, first)), "the validator is the zero address");
    let missing = U256::from(1_000);
    failed(
        field.validation(OWNER, request(OTHER, missing, first)),
        Errors::ERC721NonexistentToken { tokenId: missing },
    );
    let logs = field.validation(OWNER, request(OTHER, agent, first)).unwrap();
    let requested = ValidationRequest::decode_log(&logs[0]).unwrap();
    assert_eq!((requested.validatorAddress, requested.agentId, requested.requestHash), (OTHER, agent, first));
    assert_eq!(requested.requestURI, "ipfs://request");
    rejected(field.validation(OWNER, request(THIRD, agent, first)), "the request exists already");
    field.approve(OWNER, CLIENT, agent);
    field.validation(CLIENT, request(OTHER, agent, second)).unwrap();
    field.set_operator(OWNER, THIRD, true);
    field.validation(THIRD, request(CLIENT, agent, third)).unwrap();
    let agents = ValidationRegistry::getAgentValidationsCall { agentId: agent };
    assert_eq!(field.read(field.validation, agents).unwrap(), [first, second, third]);
    let requests = ValidationRegistry::getValidatorRequestsCall { validatorAddress: OTHER };
    assert_eq!(field.read(field.validation, requests).unwrap(), [first, second]);
}

#[test]
fn only_the_validator_responds_and_may_respond_again() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let hash = keccak256("request");
    rejected(field.validation(OTHER, answer(hash, 1, "")), "there is no such request");
    let status =
        |field: &Field| field.read(field.validation, ValidationRegistry::getValidationStatusCall { requestHash: hash });
    rejected(status(&field).map(|_| ()), "there is no such request");
    let asked = field.next_time();
    field.validation(OWNER, request(OTHER, agent, hash)).unwrap();
    let pending = status(&field).unwrap();
    assert_eq!((pending.validatorAddress, pending.agentId, pending.response), (OTHER, agent, 0));
    assert_eq!((pending.responseHash, pending.tag.as_str(), pending.lastUpdate), (B256::ZERO, "", U256::from(asked)));
    for stranger in [OWNER, CLIENT] {
        rejected(field.validation(stranger, answer(hash, 100, "")), "the caller is not the request's validator");
    }
    rejected(field.validation(OTHER, answer(hash, 101, "")), "the response is above 100");
    for (response, tag) in [(40, "soft"), (100, "hard"), (0, "")] {
        let at = field.next_time();
        let logs = field.validation(OTHER, answer(hash, response, tag)).unwrap();
        let given = ValidationResponse::decode_log(&logs[0]).unwrap();
        assert_eq!((given.validatorAddress, given.agentId, given.requestHash), (OTHER, agent, hash));
        assert_eq!((given.response, given.tag.as_str()), (response, tag));
        assert_eq!((given.responseURI.as_str(), given.responseHash), ("ipfs://evidence", keccak256("evidence")));
        let now = status(&field).unwrap();
        assert_eq!((now.response, now.tag.as_str(), now.lastUpdate), (response, tag, U256::from(at)));
        assert_eq!(now.responseHash, keccak256("evidence"));
    }
    // The agent's transfer changes nothing about its validations.
    field.transfer(OWNER, CLIENT, agent).unwrap();
    rejected(field.validation(OWNER, request(OTHER, agent, keccak256("late"))), NO_CONTROL);
    field.validation(OTHER, answer(hash, 50, "")).unwrap();
}

#[test]
fn a_summary_averages_the_responses_by_filter() {
    let mut field = Field::new();
    let agent = field.register(OWNER, "ipfs://a");
    let summary = |field: &Field, validators: &[Address], tag: &str| {
        let call = getSummaryCall { agentId: agent, validatorAddresses: validators.to_vec(), tag: tag.to_owned() };
        let given = field.read(field.validation, call).unwrap();
        (given.count, given.avgResponse)
    };
    for (index, validator) in [CLIENT, OTHER, OTHER, THIRD].into_iter().enumerate() {
        let hash = B256::with_last_byte(index.try_into().unwrap());
        field.validation(OWNER, request(validator, agent, hash)).unwrap();
    }
    // Requests alone are no responses.
    assert_eq!(summary(&field, &[], ""), (0, 0));
    field.validation(CLIENT, answer(B256::with_last_byte(0), 100, "zkml")).unwrap();
    field.validation(OTHER, answer(B256::with_last_byte(1), 0, "zkml")).unwrap();
    field.validation(OTHER, answer(B256::with_last_byte(2), 91, "tee-attestation")).unwrap();
    // (100 + 0 + 91) / 3 = 63.67, rounded down.
    assert_eq!(summary(&field, &[], ""), (3, 63));
    assert_eq!(summary(&field, &[], "zkml"), (2, 50));
    assert_eq!(summary(&field, &[OTHER], ""), (2, 45));
    assert_eq!(summary(&field, &[OTHER, CLIENT], "zkml"), (2, 50));
    assert_eq!(summary(&field, &[THIRD], ""), (0, 0));
    assert_eq!(summary(&field, &[], "other"), (0, 0));
}
