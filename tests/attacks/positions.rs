//! Deposits into liquidity positions and withdrawals from them that a hostile tool or agent bends: the pipeline refuses each
//! before it is signed.

use std::sync::LazyLock;

use alloy::primitives::aliases::{I24, U24};
use alloy::primitives::{Address, Bytes, U256, hex};
use alloy::providers::Provider as _;
use alloy::sol_types::SolCall;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::uniswap_v3::{NonfungiblePositionManager as Manager, SwapRouter02, UniswapV3Factory, UniswapV3Pool};
use bardo::base::error::ErrorCode;
use bardo::base::units::BasisPoints;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::SenderRules;
use bardo::chain::token::{self, TokenInfo};
use bardo::safety::approval::Consent;
use bardo::safety::proposal::{Inflow, LegPurpose, Outflow, Proposal, ProposalIntent};
use bardo::sandbox::Sandbox;
use bardo::uniswap::v3::manager::{Deposit, PositionPlan};
use bardo::uniswap::v3::position::TickRange;
use bardo::uniswap::v3::tick_math::sqrt_price_at_tick;

use bardo_testkit::harness::{TestHarness, leg, sandbox};

const FEE: u32 = 100;
const STRANGER: Address = Address::repeat_byte(0x5a);

/// Account with a position in the pool of two stablecoins.
struct Holder {
    world: TestHarness,
    manager: Address,
    tokens: Vec<TokenInfo>,
    token_id: U256,
    liquidity: u128,
    /// Amounts that a withdrawal of all of it pays now.
    worth: [U256; 2],
    /// Time of the newest block.
    now: u64,
}

impl Holder {
    async fn new(account: usize) -> Self {
        Self::over(TestHarness::new(account).await).await
    }

    async fn over(world: TestHarness) -> Self {
        let manager = world.contract(KnownContract::V3PositionManager);
        let book = &world.client.network().book;
        let listed = |symbol: &str| book.tokens().iter().find(|token| token.symbol == symbol).unwrap().address;
        let mut addresses = [listed("USDC"), listed("DAI")];
        addresses.sort_unstable();
        let read = token::read(&addresses, world.client.network(), world.client.agreed()).await.unwrap();
        let tokens: Vec<TokenInfo> = read.into_iter().map(Result::unwrap).collect();
        let whole = |at: usize, amount: u64| U256::from(amount) * U256::from(10).pow(U256::from(tokens[at].decimals));
        for at in [0, 1] {
            world.send(addresses[at], OpenMint::mintCall { to: world.account(), value: whole(at, 2_000) }).await;
            world.send(addresses[at], Erc20::approveCall { spender: manager, value: U256::MAX }).await;
        }
        let (first, second) = (tokens[0].decimals, tokens[1].decimals);
        let middle = if first == second { 0 } else { 276_324 * (i32::from(second > first) * 2 - 1) };
        let params = Manager::MintParams {
            token0: addresses[0],
            token1: addresses[1],
            fee: U24::from(FEE),
            tickLower: I24::try_from(middle - 1_000).unwrap(),
            tickUpper: I24::try_from(middle + 1_000).unwrap(),
            amount0Desired: whole(0, 1_000),
            amount1Desired: whole(1, 1_000),
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient: world.account(),
            deadline: U256::MAX,
        };
        let before = [0, 1].map(|at| tokens[at].clone());
        let held = [world.balance(&before[0]).await, world.balance(&before[1]).await];
        world.send(manager, Manager::mintCall { params }).await;
        let left = [world.balance(&before[0]).await, world.balance(&before[1]).await];
        let owner = world.account();
        let count = world.ask(manager, Manager::balanceOfCall { owner }).await;
        let index = count - U256::ONE;
        let token_id = world.ask(manager, Manager::tokenOfOwnerByIndexCall { owner, index }).await;
        let liquidity = world.ask(manager, Manager::positionsCall { tokenId: token_id }).await.liquidity;
        let head = world.client.provider().get_block(alloy::eips::BlockId::latest()).await.unwrap().unwrap();
        let worth = [held[0] - left[0], held[1] - left[1]];
        Self { world, manager, tokens, token_id, liquidity, worth, now: head.header.timestamp }
    }

    fn collect(&self, token_id: U256, recipient: Address) -> Bytes {
        let params =
            Manager::CollectParams { tokenId: token_id, recipient, amount0Max: u128::MAX, amount1Max: u128::MAX };
        Manager::collectCall { params }.abi_encode().into()
    }

    fn decrease(&self, token_id: U256, liquidity: u128, least: [U256; 2], deadline: U256) -> Bytes {
        let params = Manager::DecreaseLiquidityParams {
            tokenId: token_id,
            liquidity,
            amount0Min: least[0],
            amount1Min: least[1],
            deadline,
        };
        Manager::decreaseLiquidityCall { params }.abi_encode().into()
    }

    fn burn(&self) -> Bytes {
        Manager::burnCall { tokenId: self.token_id }.abi_encode().into()
    }

    fn soon(&self) -> U256 {
        U256::from(self.now + 600)
    }

    /// Amounts a little below what comes out: far above what the slippage of the rules allows at this width.
    fn least(&self) -> [U256; 2] {
        self.worth.map(|worth| worth * U256::from(999) / U256::from(1_000))
    }

    fn together(&self, data: Vec<Bytes>) -> Bytes {
        Manager::multicallCall { data }.abi_encode().into()
    }

    fn close(&self, least: [U256; 2], deadline: U256) -> Bytes {
        let decrease = self.decrease(self.token_id, self.liquidity, least, deadline);
        self.together(vec![decrease, self.collect(self.token_id, self.world.account()), self.burn()])
    }

    /// Proposal of a call to the manager that declares these minimums.
    fn proposal(&self, data: Bytes, least: [U256; 2]) -> Proposal {
        let account = self.world.account();
        let inflow = |at: usize| Inflow {
            token: self.tokens[at].clone(),
            at_least: least[at],
            expected: self.worth[at],
            recipient: account,
        };
        let mut main = leg(LegPurpose::Main, self.manager, data);
        main.gas_limit = 600_000;
        Proposal {
            inflows: vec![inflow(0), inflow(1)],
            recipients: vec![account],
            ..self.world.proposal(ProposalIntent::Liquidity, vec![main])
        }
    }

    /// Rules that a proposal breaks.
    async fn broken(&self, proposal: Proposal) -> Vec<String> {
        self.world.refused(proposal).await.1.into_iter().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_pays_nobody_but_the_account() {
    let holder = Holder::new(7).await;
    // The honest form passes, so each refusal below has its one reason.
    let (least, soon) = (holder.least(), holder.soon());
    assert!(holder.world.preview(holder.proposal(holder.close(least, soon), least)).await.is_ok());
    for elsewhere in [STRANGER, Address::ZERO, holder.manager] {
        let alone = holder.collect(holder.token_id, elsewhere);
        let decrease = holder.decrease(holder.token_id, holder.liquidity, least, soon);
        let inside = holder.together(vec![decrease, alone.clone(), holder.burn()]);
        for data in [alone, inside] {
            assert!(holder.broken(holder.proposal(data, [U256::ZERO; 2])).await.contains(&"calldata".to_owned()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn minimums_below_the_policys_slippage_are_refused() {
    let holder = Holder::new(8).await;
    let (least, soon) = (holder.least(), holder.soon());
    for (first, second) in [(U256::ZERO, U256::ZERO), (least[0], U256::ZERO), (U256::ZERO, least[1])] {
        // The range is ten percent wide on each side: at the slippage of the rules, two percent, some of both must come out.
        let given = [first, second];
        let rules = holder.broken(holder.proposal(holder.close(given, soon), given)).await;
        assert_eq!(rules, ["min_out"], "{given:?}");
    }
    // Nor does a declared minimum above the calldata's count.
    let rules = holder.broken(holder.proposal(holder.close([U256::ZERO; 2], soon), least)).await;
    assert!(rules.contains(&"calldata".to_owned()) && rules.contains(&"min_out".to_owned()), "{rules:?}");
    for deadline in [U256::MAX, U256::from(holder.now + 86_400), U256::from(holder.now - 1)] {
        let rules = holder.broken(holder.proposal(holder.close(least, deadline), least)).await;
        assert!(rules.contains(&"deadline".to_owned()), "{deadline}: {rules:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_position_of_another_account_is_refused() {
    let holder = Holder::new(9).await;
    // A position of the devnet's treasury.
    let other = U256::from(1);
    let rules = holder.broken(holder.proposal(holder.collect(other, holder.world.account()), [U256::ZERO; 2])).await;
    assert!(rules.contains(&"nft".to_owned()), "{rules:?}");
    // Its own and the other one in one call.
    let both = [holder.token_id, other].map(|id| holder.collect(id, holder.world.account()));
    let rules = holder.broken(holder.proposal(holder.together(both.to_vec()), [U256::ZERO; 2])).await;
    assert!(rules.contains(&"calldata".to_owned()), "{rules:?}");
    // Other tokens than the position's.
    let mut mixed = holder.proposal(holder.close(holder.least(), holder.soon()), [U256::ZERO; 2]);
    mixed.inflows[0].token = holder.world.weth.clone();
    let rules = holder.broken(mixed).await;
    assert!(!rules.is_empty(), "another token is declared");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_beside_the_withdrawal_is_refused() {
    let holder = Holder::new(3).await;
    let (least, soon, me) = (holder.least(), holder.soon(), holder.world.account());
    let steps = [
        holder.decrease(holder.token_id, holder.liquidity, least, soon),
        holder.collect(holder.token_id, me),
        holder.burn(),
    ];
    // transferFrom, approve, setApprovalForAll, sweepToken, unwrapWETH9 and selfPermit of the manager, by selector.
    let selectors = ["23b872dd", "095ea7b3", "a22cb465", "df2ab5bb", "49404b7c", "f3995c67"];
    for selector in selectors {
        let mut call = hex::decode(selector).unwrap();
        call.extend([0; 192]);
        let call = Bytes::from(call);
        let with = holder.together([steps.as_slice(), std::slice::from_ref(&call)].concat());
        for data in [with, call] {
            let rules = holder.broken(holder.proposal(data, least)).await;
            assert!(rules.contains(&"calldata".to_owned()), "{selector}: {rules:?}");
        }
    }
    // The same calls under another intent, with ether, or with an allowance.
    let honest = || holder.proposal(holder.close(least, soon), least);
    for intent in [ProposalIntent::Swap, ProposalIntent::Refund, ProposalIntent::Revoke] {
        let rules = holder.broken(Proposal { intent, ..honest() }).await;
        assert!(rules.contains(&"calldata".to_owned()), "{intent:?}: {rules:?}");
    }
    let mut paying = honest();
    paying.legs[0].value = U256::ONE;
    assert!(holder.broken(paying).await.contains(&"calldata".to_owned()));
    let mut elsewhere = honest();
    elsewhere.legs[0].to = STRANGER;
    assert!(!holder.broken(elsewhere).await.is_empty());
}

/// Devnet of deposits, and that of deposits into a pool that an attacker moves.
static STILL: LazyLock<Sandbox> = LazyLock::new(|| sandbox(27));
static MOVED: LazyLock<Sandbox> = LazyLock::new(|| sandbox(28));

impl Holder {
    async fn on(devnet: &'static Sandbox, account: usize) -> Self {
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        let holder = Self::over(TestHarness::over(devnet, account, rules).await).await;
        for token in &holder.tokens {
            let token = holder.world.contract_of(token);
            let spender = holder.world.contract(KnownContract::SwapRouter02);
            holder.world.send(token, Erc20::approveCall { spender, value: U256::MAX }).await;
        }
        holder
    }

    /// Square root of the pool's price, times 2^96.
    async fn price(&self) -> U256 {
        let [token0, token1] = [0, 1].map(|at| self.world.contract_of(&self.tokens[at]));
        let factory = self.world.contract(KnownContract::V3Factory);
        let call = UniswapV3Factory::getPoolCall { tokenA: token0, tokenB: token1, fee: U24::from(FEE) };
        let pool = self.world.ask(factory, call).await;
        self.world.ask(pool, UniswapV3Pool::slot0Call {}).await.sqrtPriceX96.to()
    }

    /// Sells new units of the pool's first token until the price is a tenth lower.
    async fn push_down(&self) {
        let [token_in, token_out] = [0, 1].map(|at| self.world.contract_of(&self.tokens[at]));
        let value = self.whole(0, 30_000_000);
        self.world.send(token_in, OpenMint::mintCall { to: self.world.account(), value }).await;
        let params = SwapRouter02::ExactInputSingleParams {
            tokenIn: token_in,
            tokenOut: token_out,
            fee: U24::from(FEE),
            recipient: self.world.account(),
            amountIn: value,
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: sqrt_price_at_tick(self.range().lower() - 500).unwrap().to(),
        };
        let router = self.world.contract(KnownContract::SwapRouter02);
        self.world.send(router, SwapRouter02::exactInputSingleCall { params }).await;
    }

    fn whole(&self, at: usize, amount: u64) -> U256 {
        U256::from(amount) * U256::from(10).pow(U256::from(self.tokens[at].decimals))
    }

    fn range(&self) -> TickRange {
        let [first, second] = [0, 1].map(|at| self.tokens[at].decimals);
        let middle = if first == second { 0 } else { 276_324 * (i32::from(second > first) * 2 - 1) };
        TickRange::new(middle - 500, middle + 500).unwrap()
    }

    /// Deposit of a hundred of each token at the pool's price.
    async fn deposit(&self) -> Deposit {
        let most = [self.whole(0, 100), self.whole(1, 100)];
        let least = self.range().least_deposit(self.price().await, most, BasisPoints::new(50).unwrap()).unwrap();
        Deposit { most, least, deadline: self.soon() }
    }

    fn mint(&self, fee: u32, deposit: Deposit) -> PositionPlan {
        let [token0, token1] = [0, 1].map(|at| self.world.contract_of(&self.tokens[at]));
        PositionPlan::Mint { token0, token1, fee, range: self.range(), deposit }
    }

    /// Proposal of a deposit. Its allowances are already there, or are set and revoked beside it.
    fn depositing(&self, data: Bytes, most: [U256; 2]) -> Proposal {
        let mut main = leg(LegPurpose::Main, self.manager, data);
        main.gas_limit = 700_000;
        let outflow = |at: usize| Outflow { token: self.tokens[at].clone(), amount: most[at] };
        Proposal {
            outflows: vec![outflow(0), outflow(1)],
            recipients: vec![self.world.account()],
            ..self.world.proposal(ProposalIntent::Liquidity, vec![main])
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_goes_to_a_position_of_the_account_and_nowhere_else() {
    let holder = Holder::on(&STILL, 4).await;
    let (deposit, me) = (holder.deposit().await, holder.world.account());
    let honest = || holder.depositing(holder.mint(FEE, deposit).calldata(me), deposit.most);
    assert!(holder.world.preview(honest()).await.is_ok());
    let own = PositionPlan::Increase { token_id: holder.token_id, deposit };
    assert!(holder.world.preview(holder.depositing(own.calldata(me), deposit.most)).await.is_ok());
    // A position that somebody else would get, and one that somebody else has.
    let given = holder.depositing(holder.mint(FEE, deposit).calldata(STRANGER), deposit.most);
    assert!(holder.broken(given).await.contains(&"calldata".to_owned()));
    let others = PositionPlan::Increase { token_id: U256::from(1), deposit };
    let rules = holder.broken(holder.depositing(others.calldata(me), deposit.most)).await;
    assert!(rules.contains(&"nft".to_owned()), "{rules:?}");
    // More than is declared, and two deposits in one call.
    let less = deposit.most.map(|most| most - U256::ONE);
    assert!(
        holder
            .broken(holder.depositing(holder.mint(FEE, deposit).calldata(me), less))
            .await
            .contains(&"calldata".to_owned())
    );
    let twice = holder.together(vec![holder.mint(FEE, deposit).calldata(me), own.calldata(me)]);
    assert!(holder.broken(holder.depositing(twice, deposit.most)).await.contains(&"calldata".to_owned()));
    // Allowances for somebody else, of more than the deposit, or without their end.
    let token = holder.world.contract_of(&holder.tokens[0]);
    let allow = |purpose, spender, value| {
        let call = Erc20::approveCall { spender, value };
        leg(purpose, token, call.abi_encode().into())
    };
    for first in [
        allow(LegPurpose::Approve, STRANGER, deposit.most[0]),
        allow(LegPurpose::Approve, holder.manager, U256::MAX),
        allow(LegPurpose::Approve, holder.manager, deposit.most[0] + U256::ONE),
    ] {
        let mut proposal = honest();
        proposal.legs.insert(0, first);
        assert!(holder.broken(proposal).await.contains(&"calldata".to_owned()));
    }
    let mut left = honest();
    left.legs.push(allow(LegPurpose::CleanUp, holder.manager, U256::ONE));
    assert!(holder.broken(left).await.contains(&"calldata".to_owned()));
}

/// Minimums that let a moved price through, a late deadline, and a pool that does not exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_without_bounds_is_refused() {
    let holder = Holder::on(&STILL, 5).await;
    let (deposit, me) = (holder.deposit().await, holder.world.account());
    let broken = async |fee: u32, deposit: Deposit| {
        holder.broken(holder.depositing(holder.mint(fee, deposit).calldata(me), deposit.most)).await
    };
    for least in [[U256::ZERO; 2], [deposit.least[0], U256::ZERO], [U256::ZERO, deposit.least[1]]] {
        assert_eq!(broken(FEE, Deposit { least, ..deposit }).await, ["min_out"]);
    }
    for deadline in [U256::MAX, U256::from(holder.now + 86_400)] {
        assert_eq!(broken(FEE, Deposit { deadline, ..deposit }).await, ["deadline"]);
    }
    // No such pool: the simulation fails as well.
    assert!(broken(10_000, deposit).await.contains(&"calldata".to_owned()));
}

/// The attacker moves the pool, lets the deposit be taken, and would move it back: before the preview, and between the
/// preview and the signature.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_into_a_moved_pool_is_refused() {
    let holder = Holder::on(&MOVED, 6).await;
    let me = holder.world.account();
    let deposit = holder.deposit().await;
    let proposal = holder.depositing(holder.mint(FEE, deposit).calldata(me), deposit.most);
    let preview = holder.world.preview(proposal.clone()).await.unwrap();
    let before = holder.price().await;
    holder.push_down().await;
    let after = holder.price().await;
    assert!(after < before - before / U256::from(50), "four percent of the price: {before} {after}");
    let nonce = holder.world.client.provider().get_transaction_count(me).await.unwrap();
    let refused = holder.world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::PermitMismatch, "{refused:?}");
    assert_eq!(holder.world.client.provider().get_transaction_count(me).await.unwrap(), nonce, "nothing was sent");
    // A tool that asks for the moved price itself.
    let moved = holder.deposit().await;
    let rules = holder.broken(holder.depositing(holder.mint(FEE, moved).calldata(me), moved.most)).await;
    assert!(rules.contains(&"price".to_owned()), "{rules:?}");
    let own = PositionPlan::Increase { token_id: holder.token_id, deposit: moved };
    let rules = holder.broken(holder.depositing(own.calldata(me), moved.most)).await;
    assert!(rules.contains(&"price".to_owned()), "{rules:?}");
}
