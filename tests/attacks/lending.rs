//! Lending actions that a hostile tool or agent bends: the pipeline refuses each before it is signed.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall as _;
use bardo::abi::aave::AavePool;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::chain::network::KnownContract;
use bardo::chain::token::{self, TokenInfo};
use bardo::safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent,
};

use alloy::sol_types::SolEvent as _;
use serde_json::{Value, json};

use super::endpoints::Attack;
use bardo_testkit::harness::{TestHarness, leg};

const STRANGER: Address = Address::repeat_byte(0x5a);

/// Account with $1,000 of USDC supplied and $100 of DAI owed, both in the pool itself.
struct Debtor {
    world: TestHarness,
    pool: Address,
    usdc: TokenInfo,
    dai: TokenInfo,
    addresses: [Address; 2],
}

impl Debtor {
    async fn new(account: usize) -> Self {
        let world = TestHarness::new(account).await;
        let pool = world.contract(KnownContract::AavePool);
        let book = &world.client.network().book;
        let addresses =
            ["USDC", "DAI"].map(|symbol| book.tokens().iter().find(|token| token.symbol == symbol).unwrap().address);
        let read = token::read(&addresses, world.client.network(), world.client.agreed()).await.unwrap();
        let [usdc, dai]: [TokenInfo; 2] = read.into_iter().map(Result::unwrap).collect::<Vec<_>>().try_into().unwrap();
        let debtor = Self { world, pool, usdc, dai, addresses };
        let (me, variable) = (debtor.world.account(), U256::from(2));
        for at in [0, 1] {
            debtor.world.send(addresses[at], OpenMint::mintCall { to: me, value: debtor.whole(at, 5_000) }).await;
        }
        let amount = debtor.whole(0, 1_000);
        debtor.world.send(addresses[0], Erc20::approveCall { spender: pool, value: amount }).await;
        let supply = AavePool::supplyCall { asset: addresses[0], amount, onBehalfOf: me, referralCode: 0 };
        debtor.world.send(pool, supply).await;
        let borrow = AavePool::borrowCall {
            asset: addresses[1],
            amount: debtor.whole(1, 100),
            interestRateMode: variable,
            referralCode: 0,
            onBehalfOf: me,
        };
        debtor.world.send(pool, borrow).await;
        debtor
    }

    fn whole(&self, at: usize, amount: u64) -> U256 {
        let decimals = [self.usdc.decimals, self.dai.decimals][at];
        U256::from(amount) * U256::from(10).pow(U256::from(decimals))
    }

    fn main(&self, data: impl Into<Bytes>) -> PlanLeg {
        let mut main = leg(LegPurpose::Main, self.pool, data.into());
        main.gas_limit = 900_000;
        main
    }

    fn approval(&self, spender: Address, amount: U256) -> PlanLeg {
        leg(LegPurpose::Approve, self.addresses[0], Erc20::approveCall { spender, value: amount }.abi_encode().into())
    }

    fn supply(&self, amount: U256, of: Address, referral: u16) -> Bytes {
        let asset = self.addresses[0];
        AavePool::supplyCall { asset, amount, onBehalfOf: of, referralCode: referral }.abi_encode().into()
    }

    fn withdraw(&self, amount: U256, to: Address) -> Bytes {
        AavePool::withdrawCall { asset: self.addresses[0], amount, to }.abi_encode().into()
    }

    fn borrow(&self, amount: U256, of: Address, mode: u64) -> Bytes {
        let (asset, interest) = (self.addresses[1], U256::from(mode));
        let call = AavePool::borrowCall { asset, amount, interestRateMode: interest, referralCode: 0, onBehalfOf: of };
        call.abi_encode().into()
    }

    /// Supply of $100 with this calldata and an allowance of this amount for `spender`.
    fn supplying(&self, data: Bytes, spender: Address, allowance: U256) -> Proposal {
        let token = self.usdc.clone();
        let bound = AllowanceBound { token: token.clone(), spender, kind: AllowanceKind::Erc20, at_most: U256::ZERO };
        Proposal {
            outflows: vec![Outflow { token, amount: self.whole(0, 100) }],
            allowances: vec![bound],
            recipients: vec![self.world.account()],
            ..self.world.proposal(ProposalIntent::Lending, vec![self.approval(spender, allowance), self.main(data)])
        }
    }

    /// Withdrawal or borrowing with this calldata that declares this inflow.
    fn taking(&self, data: Bytes, token: &TokenInfo, amount: U256) -> Proposal {
        let recipient = self.world.account();
        let inflow = Inflow { token: token.clone(), at_least: amount, expected: amount, recipient };
        Proposal {
            inflows: vec![inflow],
            recipients: vec![recipient],
            ..self.world.proposal(ProposalIntent::Lending, vec![self.main(data)])
        }
    }

    async fn broken(&self, proposal: Proposal) -> Vec<String> {
        self.world.refused(proposal).await.1.into_iter().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lending_action_is_for_nobody_but_the_account() {
    let debtor = Debtor::new(7).await;
    let me = debtor.world.account();
    let (hundred, dais) = (debtor.whole(0, 100), debtor.whole(1, 10));
    // The honest forms pass, so each refusal below has its one reason.
    let honest = [
        debtor.supplying(debtor.supply(hundred, me, 0), debtor.pool, hundred),
        debtor.taking(debtor.withdraw(hundred, me), &debtor.usdc, hundred),
        debtor.taking(debtor.borrow(dais, me, 2), &debtor.dai, dais),
    ];
    for proposal in honest {
        let previewed = debtor.world.preview(proposal).await;
        assert!(previewed.is_ok(), "{previewed:?}");
    }
    let bent = [
        debtor.supplying(debtor.supply(hundred, STRANGER, 0), debtor.pool, hundred),
        debtor.supplying(debtor.supply(hundred, me, 7), debtor.pool, hundred),
        debtor.taking(debtor.withdraw(hundred, STRANGER), &debtor.usdc, hundred),
        debtor.taking(debtor.borrow(dais, STRANGER, 2), &debtor.dai, dais),
        debtor.taking(debtor.borrow(dais, me, 1), &debtor.dai, dais),
    ];
    for proposal in bent {
        let rules = debtor.broken(proposal).await;
        assert!(rules.contains(&"calldata".to_owned()), "{rules:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lending_action_moves_what_it_declares_and_allows_no_more() {
    let debtor = Debtor::new(8).await;
    let me = debtor.world.account();
    let (hundred, dais) = (debtor.whole(0, 100), debtor.whole(1, 10));
    let supply = || debtor.supply(hundred, me, 0);
    let more = hundred + U256::ONE;
    let bent = [
        // More than is declared, and all that is allowed.
        debtor.supplying(debtor.supply(more, me, 0), debtor.pool, more),
        debtor.supplying(debtor.supply(U256::MAX, me, 0), debtor.pool, hundred),
        // For another spender.
        debtor.supplying(supply(), STRANGER, hundred),
        // Less than is declared comes out, or of another token.
        debtor.taking(debtor.withdraw(hundred, me), &debtor.usdc, more),
        debtor.taking(debtor.borrow(dais, me, 2), &debtor.usdc, dais),
    ];
    for proposal in bent {
        let rules = debtor.broken(proposal).await;
        assert!(rules.contains(&"calldata".to_owned()), "{rules:?}");
    }
    // An allowance above the amount is not left: the simulation shows it between the transactions and at the end.
    let rules = debtor.broken(debtor.supplying(supply(), debtor.pool, more)).await;
    assert!(rules.contains(&"allowance".to_owned()), "{rules:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_call_of_the_pool_or_beside_it_is_refused() {
    let debtor = Debtor::new(9).await;
    let me = debtor.world.account();
    let dais = debtor.whole(1, 10);
    let honest = || debtor.taking(debtor.borrow(dais, me, 2), &debtor.dai, dais);
    // setUserEMode, flashLoanSimple, setUserUseReserveAsCollateral, swapBorrowRateMode, repayWithATokens, liquidationCall
    // and mintToTreasury of the pool, by selector.
    for selector in ["28530a47", "42b0b77c", "5a3b74b9", "94ba89a2", "2dad97d4", "00a718a9", "9cd19996"] {
        let mut call = alloy::primitives::hex::decode(selector).unwrap();
        call.extend([0; 192]);
        let rules = debtor.broken(debtor.taking(call.into(), &debtor.dai, dais)).await;
        assert!(!rules.is_empty(), "{selector}");
    }
    for intent in [ProposalIntent::Swap, ProposalIntent::Refund, ProposalIntent::Revoke, ProposalIntent::Liquidity] {
        let rules = debtor.broken(Proposal { intent, ..honest() }).await;
        assert!(rules.contains(&"calldata".to_owned()), "{intent:?}: {rules:?}");
    }
    let mut paying = honest();
    paying.legs[0].value = U256::ONE;
    assert!(debtor.broken(paying).await.contains(&"calldata".to_owned()));
    let mut twice = honest();
    twice.legs.push(twice.legs[0].clone());
    assert!(debtor.broken(twice).await.contains(&"calldata".to_owned()));
    let mut elsewhere = honest();
    elsewhere.legs[0].to = STRANGER;
    assert!(!debtor.broken(elsewhere).await.is_empty());
}

/// Adds a liquidation of somebody else to the answer about those of the wallet.
fn of_a_stranger() -> impl Fn(&Value, &mut Value) + Send + Sync {
    |asked, answer| {
        let filter = &asked["params"][0];
        if asked["method"] != "eth_getLogs" || filter["topics"][3].is_null() {
            return;
        }
        let word = |address: Address| json!(address.into_word());
        let pool = filter["address"].as_array().map_or(&filter["address"], |all| &all[0]);
        let zeros = format!("0x{}", "0".repeat(4 * 64));
        let log = json!({
            "address": pool,
            "topics": [json!(AavePool::LiquidationCall::SIGNATURE_HASH), word(STRANGER), word(STRANGER), word(STRANGER)],
            "data": zeros,
            "blockNumber": filter["toBlock"],
            "blockHash": format!("0x{}", "11".repeat(32)),
            "transactionHash": format!("0x{}", "22".repeat(32)),
            "transactionIndex": "0x0",
            "logIndex": "0x0",
            "removed": false,
        });
        answer["result"].as_array_mut().expect("logs").push(log);
    }
}

/// A log that was not asked for means that the endpoint's answer is worth nothing, not that there was no liquidation.
#[test]
fn a_liquidation_of_another_account_is_not_told() {
    let attack = Attack::new(1, 0, Box::new(of_a_stranger()));
    let read = || attack.call("get_lending_position", &json!({"chain": "ethereum"}));
    let answer = read();
    assert_eq!(answer["status"], "success", "{answer:#}");
    assert_eq!(answer["data"]["liquidations"], Value::Null, "{answer:#}");
    assert!(!answer["explanation"].to_string().contains("Liquidated"), "{answer:#}");
    attack.lying(false);
    assert_eq!(read()["data"]["liquidations"], json!([]));
}
