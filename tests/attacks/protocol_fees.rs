//! Releases of protocol fees that a competitor spoils or a hostile tool bends: each is refused before it is signed.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::chain::network::KnownContract;
use bardo::chain::token::{self, TokenInfo};
use bardo::safety::approval::Consent;
use bardo::safety::proposal::{AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, Proposal, ProposalIntent};

use bardo_testkit::harness::{TestHarness, leg};

const STRANGER: Address = Address::repeat_byte(0x5a);

alloy::sol! {
    /// Written here from the published interface, apart from the code under test.
    interface Published {
        function threshold() external view returns (uint256);
        function nonce() external view returns (uint256);
        function release(uint256 nonce, address[] assets, address recipient) external;
    }
}

/// The tests share the jar, so that only one of them may run.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

struct Burner {
    world: TestHarness,
    uni: TokenInfo,
    dai: TokenInfo,
    releaser: Address,
    threshold: U256,
    in_jar: U256,
}

impl Burner {
    /// Account with enough UNI for two releases, before a jar with 300 DAI or more.
    async fn new(account: usize) -> Self {
        let world = TestHarness::new(account).await;
        let listed = |symbol: &str| {
            let tokens = world.client.network().book.tokens();
            tokens.iter().find(|token| token.symbol == symbol).unwrap().address
        };
        let both = [listed("UNI"), listed("DAI")];
        let read = token::read(&both, world.client.network(), world.client.agreed()).await.unwrap();
        let [uni, dai]: [TokenInfo; 2] = read.into_iter().map(Result::unwrap).collect::<Vec<_>>().try_into().unwrap();
        let [jar, releaser] = [KnownContract::TokenJar, KnownContract::FeeReleaser].map(|one| world.contract(one));
        let threshold = world.ask(releaser, Published::thresholdCall {}).await;
        let me = world.account();
        world.send(both[0], OpenMint::mintCall { to: me, value: threshold * U256::from(2) }).await;
        let value = U256::from(300) * U256::from(10).pow(U256::from(18));
        world.send(both[1], OpenMint::mintCall { to: jar, value }).await;
        let in_jar = world.ask(both[1], Erc20::balanceOfCall { owner: jar }).await;
        Self { world, uni, dai, releaser, threshold, in_jar }
    }

    fn address(&self, token: &TokenInfo) -> Address {
        self.world.contract_of(token)
    }

    async fn release(&self, allowed: U256, recipient: Address) -> Proposal {
        let nonce = self.world.ask(self.releaser, Published::nonceCall {}).await;
        let (me, spender) = (self.world.account(), self.releaser);
        let data = Published::releaseCall { nonce, assets: vec![self.address(&self.dai)], recipient }.abi_encode();
        let approve = Erc20::approveCall { spender, value: allowed }.abi_encode();
        let legs = vec![
            leg(LegPurpose::Approve, self.address(&self.uni), approve.into()),
            leg(LegPurpose::Main, spender, data.into()),
        ];
        let (token, kind, at_most) = (self.uni.clone(), AllowanceKind::Erc20, U256::ZERO);
        Proposal {
            outflows: vec![Outflow { token: self.uni.clone(), amount: self.threshold }],
            inflows: vec![Inflow {
                token: self.dai.clone(),
                at_least: self.in_jar,
                expected: self.in_jar,
                recipient: me,
            }],
            allowances: vec![AllowanceBound { token, spender, kind, at_most }],
            ..self.world.proposal(ProposalIntent::ProtocolFees, legs)
        }
    }
}

/// Somebody else releases first: the calldata's number is used up, and nothing is signed.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_somebody_else_was_first_with_signs_nothing() {
    let _alone = ALONE.lock().await;
    let burner = Burner::new(5).await;
    let proposal = burner.release(burner.threshold, burner.world.account()).await;
    let preview = burner.world.preview(proposal).await.unwrap();
    let (uni, releaser) = (burner.address(&burner.uni), burner.releaser);
    burner.world.send(uni, Erc20::approveCall { spender: releaser, value: burner.threshold }).await;
    let nonce = burner.world.ask(releaser, Published::nonceCall {}).await;
    let assets = vec![burner.address(&burner.dai)];
    burner.world.send(releaser, Published::releaseCall { nonce, assets, recipient: STRANGER }).await;
    let before = burner.world.balance(&burner.uni).await;
    let refused = burner.world.pipeline.commit(preview.permit.permit_id, Consent::Always).await.map(|_| ());
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(burner.world.balance(&burner.uni).await, before);
    let allowance = Erc20::allowanceCall { owner: burner.world.account(), spender: releaser };
    assert_eq!(burner.world.ask(uni, allowance).await, U256::ZERO);
}

/// A larger allowance, which a changed threshold would use, and assets for somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_takes_exactly_its_payment_and_pays_nobody_else() {
    let _alone = ALONE.lock().await;
    let burner = Burner::new(6).await;
    let me = burner.world.account();
    let more = burner.release(burner.threshold + U256::ONE, me).await;
    assert!(burner.world.refused(more).await.1.contains("calldata"));
    let elsewhere = burner.release(burner.threshold, STRANGER).await;
    assert!(burner.world.refused(elsewhere).await.1.contains("calldata"));
    let mut swap = burner.release(burner.threshold, me).await;
    swap.intent = ProposalIntent::Swap;
    assert!(burner.world.refused(swap).await.1.contains("calldata"));
    let honest = burner.release(burner.threshold, me).await;
    let previewed = burner.world.preview(honest).await;
    assert!(previewed.is_ok(), "{previewed:?}");
}
