//! Deposits with a bridge's pool that a hostile tool or agent bends: each is refused before it is signed, whatever was declared.

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::base::config::ConfigFlags;
use bardo::base::error::ErrorCode;
use bardo::base::id::{CallId, GolemId};
use bardo::base::model::Phase;
use bardo::base::text::SafeText;
use bardo::chain::token::TokenInfo;
use bardo::engine::WriteAccess;
use bardo::safety::pipeline::{PhaseRequest, PipelineRefusal, Preview};
use bardo::safety::proposal::{
    AllowanceBound, AllowanceKind, BridgeArrival, LegPurpose, Outflow, Proposal, ProposalIntent,
};
use bardo::tools::trading::across_deposit;

use bardo_testkit::engine::{Engine, still};
use bardo_testkit::harness::leg;

const STRANGER: Address = Address::repeat_byte(0x5a);
/// Sent and asked for: 500 USDC for 498.
const SENT: U256 = U256::from_limbs([500_000_000, 0, 0, 0]);
const ASKED: U256 = U256::from_limbs([498_000_000, 0, 0, 0]);

alloy::sol! {
    /// Written here from the published interface, apart from the code under test.
    interface Published {
        function depositV3(
            address depositor,
            address recipient,
            address inputToken,
            address outputToken,
            uint256 inputAmount,
            uint256 outputAmount,
            uint256 destinationChainId,
            address exclusiveRelayer,
            uint32 quoteTimestamp,
            uint32 fillDeadline,
            uint32 exclusivityDeadline,
            bytes calldata message
        ) external payable;
    }
}

struct Crossing {
    acting: WriteAccess,
    me: Address,
    pool: Address,
    tokens: [TokenInfo; 2],
    contracts: [Address; 2],
    now: u32,
    _home: tempfile::TempDir,
}

impl Crossing {
    async fn open() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("policy-devnet.toml"), "preset = \"demo\"\n").unwrap();
        let engine = Engine::open(home.path(), &ConfigFlags::default(), || still(21, false)).await;
        let sandbox = engine.sandbox.unwrap();
        let token = async |chain: &str| engine.world.chain(chain).unwrap().token("USDC").await.unwrap();
        let tokens = [token("ethereum").await, token("base").await];
        let contracts = ["ethereum", "base"].map(|name| {
            sandbox.chain(name).unwrap().deployment.token(bardo::sandbox::plan::SandboxToken::Usdc).unwrap()
        });
        let chain = sandbox.chain("ethereum").unwrap();
        let now =
            chain.devnet.run(|chain: &mut bardo::chain::devnet::Chain| chain.head().header.timestamp).await.unwrap();
        Self {
            acting: engine.acting,
            me: sandbox.accounts()[0],
            pool: chain.deployment.contracts["acrossSpokePool"],
            tokens,
            contracts,
            now: u32::try_from(now).unwrap(),
            _home: home,
        }
    }

    /// The honest deposit.
    fn honest(&self) -> Published::depositV3Call {
        Published::depositV3Call {
            depositor: self.me,
            recipient: self.me,
            inputToken: self.contracts[0],
            outputToken: self.contracts[1],
            inputAmount: SENT,
            outputAmount: ASKED,
            destinationChainId: U256::from(31_338),
            exclusiveRelayer: Address::ZERO,
            quoteTimestamp: self.now,
            fillDeadline: self.now + 3_600,
            exclusivityDeadline: 0,
            message: Bytes::new(),
        }
    }

    /// Declares 500 USDC for 498 there, by this call of the pool.
    fn by(&self, call: &Published::depositV3Call) -> Proposal {
        let [given, received] = self.tokens.clone();
        let approve = Erc20::approveCall { spender: self.pool, value: SENT }.abi_encode();
        let bound = AllowanceBound {
            token: given.clone(),
            spender: self.pool,
            kind: AllowanceKind::Erc20,
            at_most: U256::ZERO,
        };
        Proposal {
            chain_id: 31_337,
            tool: across_deposit::TOOL_DEF.meta,
            call_id: CallId::new(1),
            golem_id: GolemId::operator(),
            account: self.me,
            intent: ProposalIntent::Bridge,
            legs: vec![
                leg(LegPurpose::Approve, self.contracts[0], approve.into()),
                leg(LegPurpose::Main, self.pool, call.abi_encode().into()),
            ],
            outflows: vec![Outflow { token: given, amount: SENT }],
            inflows: vec![],
            allowances: vec![bound],
            trade: None,
            recipients: vec![self.me],
            order: None,
            files: Vec::new(),
            replaces: None,
            arrival: Some(Box::new(BridgeArrival {
                chain_id: 31_338,
                token: received,
                at_least: ASKED,
                expected: ASKED,
            })),
            expected_outcome: SafeText::clean("Deposit 500 USDC for 498 USDC on base", 100),
        }
    }

    async fn preview(&self, proposal: Proposal) -> Result<Preview, PipelineRefusal> {
        let asked = PhaseRequest { phase: Phase::Thriving, own: None };
        self.acting.pipeline.preview(proposal, self.acting.account.clone(), asked).await
    }

    async fn refused(&self, proposal: Proposal) -> (ErrorCode, Vec<String>) {
        let refusal = self.preview(proposal).await.expect_err("it is refused");
        (refusal.code, refusal.violations.iter().map(|one| one.rule.to_string()).collect())
    }
}

/// For somebody else, for one relayer alone, with a message, to another chain or token, for less than declared, of more than
/// declared, or open for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_is_the_declared_one_and_for_nobody_but_the_account() {
    let crossing = Crossing::open().await;
    let honest = crossing.preview(crossing.by(&crossing.honest())).await;
    assert!(honest.is_ok(), "{honest:?}");
    type Change = fn(&mut Published::depositV3Call);
    let bent: [(&str, Change); 12] = [
        ("recipient", |call| call.recipient = STRANGER),
        ("depositor", |call| call.depositor = STRANGER),
        ("relayer", |call| call.exclusiveRelayer = STRANGER),
        ("exclusivity", |call| call.exclusivityDeadline = 60),
        ("message", |call| call.message = Bytes::from_static(b"call me")),
        ("less output", |call| call.outputAmount = ASKED - U256::from(1)),
        ("no output", |call| call.outputAmount = U256::ZERO),
        ("other token", |call| call.outputToken = STRANGER),
        ("the pool's choice of token", |call| call.outputToken = Address::ZERO),
        ("other chain", |call| call.destinationChainId = U256::from(1)),
        ("more input", |call| call.inputAmount = SENT + U256::from(1)),
        ("past deadline", |call| call.fillDeadline = 1),
    ];
    for (name, bend) in bent {
        let mut call = crossing.honest();
        bend(&mut call);
        let (code, rules) = crossing.refused(crossing.by(&call)).await;
        assert!(rules.contains(&"calldata".to_owned()), "{name}: {code:?} {rules:?}");
    }
    // Another contract with the pool's functions, an allowance beyond the deposit, and one for somebody else.
    let mut elsewhere = crossing.by(&crossing.honest());
    elsewhere.legs[1].to = STRANGER;
    let mut wider = crossing.by(&crossing.honest());
    wider.legs[0].data = Erc20::approveCall { spender: crossing.pool, value: U256::MAX }.abi_encode().into();
    let mut other = crossing.by(&crossing.honest());
    other.legs[0].data = Erc20::approveCall { spender: STRANGER, value: SENT }.abi_encode().into();
    for bent in [elsewhere, wider, other] {
        let (code, rules) = crossing.refused(bent.clone()).await;
        assert!(!rules.is_empty(), "{code:?} {bent:#?}");
    }
}

/// A payment that claims to bring something on another chain would pass as an exchange of equal values.
#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_arrival_makes_no_exchange_of_a_payment() {
    let crossing = Crossing::open().await;
    let mut payment = crossing.by(&crossing.honest());
    payment.allowances.clear();
    let call = Erc20::transferCall { to: STRANGER, value: SENT };
    payment.legs = vec![leg(LegPurpose::Main, crossing.contracts[0], call.abi_encode().into())];
    payment.recipients = vec![crossing.me, STRANGER];
    let (code, rules) = crossing.refused(payment).await;
    assert!(rules.iter().any(|rule| rule == "calldata" || rule == "allowed_recipients"), "{code:?} {rules:?}");
    // To itself, no list of recipients stands in the way, and still nothing arrives.
    let mut payment = crossing.by(&crossing.honest());
    payment.allowances.clear();
    let call = Erc20::transferCall { to: crossing.me, value: SENT };
    payment.legs = vec![leg(LegPurpose::Main, crossing.contracts[0], call.abi_encode().into())];
    let (code, rules) = crossing.refused(payment).await;
    assert!(rules.contains(&"calldata".to_owned()), "{code:?} {rules:?}");
}

/// Declaration and calldata agree on a chain that the session does not read: nobody here could price what arrives, or see it arrive.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_to_a_chain_that_is_not_read_is_refused() {
    let crossing = Crossing::open().await;
    for chain_id in [1, 8_453, u64::MAX] {
        let call = Published::depositV3Call { destinationChainId: U256::from(chain_id), ..crossing.honest() };
        let mut far = crossing.by(&call);
        far.arrival.as_mut().unwrap().chain_id = chain_id;
        let (code, rules) = crossing.refused(far).await;
        let has = |rule: &str| rules.iter().any(|one| one == rule);
        assert!(has("price") && has("allowed_chains"), "{chain_id}: {code:?} {rules:?}");
    }
}

/// Declaration and calldata agree that 400 of 500 dollars arrive: a quote, a tool or an agent may say so, the loss limit does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposit_for_less_than_it_is_worth_is_refused() {
    let crossing = Crossing::open().await;
    let poor = U256::from(400_000_000);
    let mut proposal = crossing.by(&Published::depositV3Call { outputAmount: poor, ..crossing.honest() });
    let arrival = proposal.arrival.as_mut().unwrap();
    (arrival.at_least, arrival.expected) = (poor, poor);
    let (code, rules) = crossing.refused(proposal).await;
    assert_eq!((code, rules), (ErrorCode::SafetySlippage, vec!["max_loss_bps".to_owned()]));
}
