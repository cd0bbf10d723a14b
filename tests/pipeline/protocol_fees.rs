//! Protocol fees through executor and pipeline on the devnet: what is claimed equals the contracts' own views and the tokens' balances.

use std::sync::LazyLock;

use alloy::primitives::aliases::{U24, U160};
use alloy::primitives::{Address, U256, address};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::uniswap_v3::{SwapRouter02, UniswapV3Factory};
use bardo::base::units::TokenAmount;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::SenderRules;
use bardo::engine::CallStatus;
use bardo::sandbox::Sandbox;
use serde_json::{Value, json};

use super::liquidity::Fixture;
use bardo_testkit::harness::{TestHarness, sandbox};

/// A devnet for each test, since they share the jar.
static PAYING: LazyLock<Sandbox> = LazyLock::new(|| sandbox(43));
static LOSING: LazyLock<Sandbox> = LazyLock::new(|| sandbox(44));

alloy::sol! {
    /// Written here from the published interface, apart from the code under test.
    interface Published {
        function threshold() external view returns (uint256);
        function nonce() external view returns (uint256);
        function protocolFees() external view returns (uint128 token0, uint128 token1);
        function release(uint256 nonce, address[] assets, address recipient) external;
    }
}

/// Address that burnt UNI goes to.
const DEAD: Address = address!("0x000000000000000000000000000000000000dEaD");

impl Fixture {
    async fn with_fees(devnet: &'static Sandbox, account: usize) -> Self {
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        Self::over(TestHarness::over(devnet, account, rules).await, "DAI").await
    }

    fn listed(&self, symbol: &str) -> Address {
        let tokens = self.world.client.network().book.tokens();
        tokens.iter().find(|token| token.symbol == symbol).unwrap().address
    }

    async fn of(&self, token: Address, owner: Address) -> U256 {
        self.world.ask(token, Erc20::balanceOfCall { owner }).await
    }

    async fn mint(&self, token: Address, to: Address, value: U256) {
        self.world.send(token, OpenMint::mintCall { to, value }).await;
    }
}

fn dai(whole: u64) -> U256 {
    U256::from(whole) * U256::from(10).pow(U256::from(18))
}

fn raw(text: &Value) -> U256 {
    TokenAmount::parse(text.as_str().unwrap(), 18).unwrap().raw()
}

/// By hand: of a swap of 10,000 DAI at 0.3 % the fee is 30 DAI, of which a fourth is the protocol's: 7.5 DAI. A collection leaves one
/// raw unit in the pool.
#[tokio::test(flavor = "multi_thread")]
async fn fees_are_collected_into_the_jar_and_released_for_burnt_uni() {
    let fixture = Fixture::with_fees(&PAYING, 5).await;
    let [jar, releaser] = [KnownContract::TokenJar, KnownContract::FeeReleaser].map(|one| fixture.world.contract(one));
    let (token, weth, uni) = (fixture.listed("DAI"), fixture.listed("WETH"), fixture.listed("UNI"));
    let me = fixture.world.account();
    let factory = fixture.world.contract(KnownContract::V3Factory);
    let of_pool = UniswapV3Factory::getPoolCall { tokenA: token, tokenB: weth, fee: U24::from(3_000) };
    let pool = fixture.world.ask(factory, of_pool).await;
    let owed = async || {
        let fees = fixture.world.ask(pool, Published::protocolFeesCall {}).await;
        U256::from(if token < weth { fees.token0 } else { fees.token1 })
    };
    let before = owed().await;
    let params = SwapRouter02::ExactInputSingleParams {
        tokenIn: token,
        tokenOut: weth,
        fee: U24::from(3_000),
        recipient: me,
        amountIn: dai(10_000),
        amountOutMinimum: U256::ZERO,
        sqrtPriceLimitX96: U160::ZERO,
    };
    let router = fixture.world.contract(KnownContract::SwapRouter02);
    fixture.world.send(router, SwapRouter02::exactInputSingleCall { params }).await;
    // Each step of the swap rounds its part down.
    let earned = owed().await - before;
    let expected = dai(15) / U256::from(2);
    assert!(expected - earned <= U256::from(100), "{earned}");

    let shown = fixture.data("get_tokenjar_balances", json!({"chain": "ethereum"})).await;
    let row = shown["collectable"].as_array().unwrap().iter().find(|row| row["pool"] == pool.to_string()).unwrap();
    let side = row["owes"].as_array().unwrap().iter().find(|side| side["symbol"] == "DAI").unwrap();
    assert_eq!(raw(&side["amount"]), owed().await - U256::ONE);
    let threshold = fixture.world.ask(releaser, Published::thresholdCall {}).await;
    assert_eq!((raw(&shown["threshold"]), &shown["threshold_token"]), (threshold, &json!("UNI")));

    // More than the release costs, so that it pays.
    fixture.mint(token, jar, dai(200)).await;
    fixture.mint(uni, me, threshold).await;
    let (held, left) = (fixture.of(token, jar).await, owed().await);
    let claimed = fixture.data("claim_fees", json!({"pools": [pool], "chain": "ethereum"})).await;
    assert_eq!((owed().await, fixture.of(token, jar).await), (U256::ONE, held + left - U256::ONE));
    let row = &claimed["collected"][0];
    let at = row["tokens"].as_array().unwrap().iter().position(|symbol| symbol == "DAI").unwrap();
    assert_eq!(raw(&row["amounts"][at]), left - U256::ONE);

    let (in_jar, mine, burnt) =
        (fixture.of(token, jar).await, fixture.of(token, me).await, fixture.of(uni, DEAD).await);
    let nonce = fixture.world.ask(releaser, Published::nonceCall {}).await;
    let burned = fixture.data("execute_burn", json!({"assets": ["DAI"], "chain": "ethereum"})).await;
    assert_eq!((raw(&burned["paid"]), raw(&burned["received"][0]["amount"])), (threshold, in_jar));
    assert_eq!((fixture.of(token, me).await, fixture.of(uni, DEAD).await), (mine + in_jar, burnt + threshold));
    assert_eq!(fixture.world.ask(releaser, Published::nonceCall {}).await, nonce + U256::ONE);
    let allowance = Erc20::allowanceCall { owner: me, spender: releaser };
    assert_eq!(fixture.world.ask(uni, allowance).await, U256::ZERO);
}

/// A release that is worth far less than it costs is refused, and one without the UNI says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_loses_is_refused() {
    let fixture = Fixture::with_fees(&LOSING, 6).await;
    let jar = fixture.world.contract(KnownContract::TokenJar);
    let (token, uni) = (fixture.listed("DAI"), fixture.listed("UNI"));
    fixture.mint(token, jar, dai(1)).await;
    let params = json!({"assets": ["DAI"], "chain": "ethereum"});
    let poor = fixture.call("execute_burn", params.clone()).await;
    assert!(format!("{poor:?}").contains("InsufficientBalance"), "{poor:#?}");
    fixture.mint(uni, fixture.world.account(), dai(2)).await;
    let refused = fixture.call("execute_burn", params).await;
    assert_eq!(refused.status, CallStatus::Blocked, "{refused:#?}");
    assert!(format!("{refused:?}").contains("max_loss_bps"), "{refused:#?}");
}
