//! Tokens that do not behave: fees, rebasing, callbacks, false returns, upgrades between preview and commit.
//!
//! A token is upgraded by exchanging its code on the devnet, as the owner of a proxy can at any moment. What happened is
//! read from the chain. `tests/cli/bad_tokens.rs` trades tokens that are odd from the start.

use alloy::primitives::{Address, Bytes, U256};
use alloy::providers::Provider as _;
use bardo::engine::{Status, ToolResponse};
use bardo::golem::pi::PiSession;
use bardo::sandbox::plan::Token;
use serde_json::json;

use crate::golem_world::{House, permit, swap};

/// `PUSH1 1 PUSH0 MSTORE PUSH1 32 PUSH0 RETURN`: whatever is called answers one, or true, and nothing moves.
const SAYS_TRUE: &str = "0x60015f5260205ff3";

/// `PUSH1 32 PUSH0 RETURN`: whatever is called answers zero, or false, and nothing moves.
const SAYS_FALSE: &str = "0x60205ff3";

/// `PUSH0 PUSH0 REVERT`.
const REVERTS: &str = "0x5f5ffd";

async fn house() -> (House, PiSession) {
    let house = House::with_policy("preset = \"demo\"\n").await;
    house.give(Token::Uni, U256::from(20) * U256::from(10).pow(U256::from(18))).await;
    let golem = house.golem("ada", "trade-executor");
    (house, golem)
}

async fn upgrade(house: &House, token: Token, code: Bytes) {
    let (provider, at): (_, Address) = (house.world.chains()[0].client.provider(), house.address(token));
    let done: serde_json::Value = provider.raw_request("anvil_setCode".into(), json!([at, code])).await.unwrap();
    assert!(done.is_null(), "{done}");
    // On a chain code changes in a block; without a new one a commit rightly takes what was read of this one.
    let _mined: serde_json::Value = provider.raw_request("evm_mine".into(), json!([])).await.unwrap();
}

async fn code_of(house: &House, token: Token) -> Bytes {
    house.world.chains()[0].client.provider().get_code_at(house.address(token)).await.unwrap()
}

/// Previews the sale of UNI, exchanges its code, and commits what was previewed.
async fn sold_after_an_upgrade(house: &House, golem: &PiSession, code: Bytes) -> ToolResponse {
    let previewed = golem.call("preview_action", swap("UNI", "USDC", "2")).await;
    assert_eq!(previewed.status, Status::Simulated, "{previewed:#?}");
    upgrade(house, Token::Uni, code).await;
    golem.call("commit_action", permit(&previewed)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_upgraded_between_preview_and_commit_is_not_sold() {
    let (house, golem) = house().await;
    let (honest, fee) = (code_of(&house, Token::Uni).await, code_of(&house, Token::FeeOnTransfer).await);
    let sent = house.sent().await;
    for (what, code) in [
        ("takes a fee of one percent", fee),
        ("moves nothing and says true", SAYS_TRUE.parse().unwrap()),
        ("moves nothing and says false", SAYS_FALSE.parse().unwrap()),
        ("reverts", REVERTS.parse().unwrap()),
    ] {
        let answer = sold_after_an_upgrade(&house, &golem, code).await;
        assert_ne!(answer.status, Status::Success, "{what}: {answer:#?}");
        assert_eq!(house.sent().await, sent, "{what}: something was signed: {answer:#?}");
        upgrade(&house, Token::Uni, honest.clone()).await;
    }
    let answer = sold_after_an_upgrade(&house, &golem, honest).await;
    assert_eq!(answer.status, Status::Success, "the token itself is sold: {answer:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_moves_nothing_is_neither_bought_nor_sold() {
    let (house, golem) = house().await;
    let sent = house.sent().await;
    for code in [SAYS_TRUE, SAYS_FALSE, REVERTS] {
        upgrade(&house, Token::Uni, code.parse().unwrap()).await;
        for action in [swap("UNI", "USDC", "0.000000000000000001"), swap("USDC", "UNI", "20")] {
            let answer = golem.call("preview_action", action).await;
            assert_ne!(answer.status, Status::Simulated, "{code}: {answer:#?}");
        }
    }
    assert_eq!(house.sent().await, sent);
}
