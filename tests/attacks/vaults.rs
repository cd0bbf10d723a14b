//! Vaults that cheat, and vault actions that a hostile tool bends: each is refused before it is signed. The rules here let every
//! vault be called, as if the operator had named it.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::{SolCall as _, SolValue as _};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::base::error::ErrorCode;
use bardo::base::fabric::CheckReason;
use bardo::base::model::RuleName;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::SenderRules;
use bardo::chain::token::{self, TokenInfo};
use bardo::safety::approval::Consent;
use bardo::safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent,
};
use bardo::sandbox::Sandbox;
use bardo::sandbox::contracts::BundledContract;

use bardo_testkit::harness::{Hook, TestHarness, leg, sandbox};

const STRANGER: Address = Address::repeat_byte(0x5a);

alloy::sol! {
    /// Written here from the standard, apart from the code under test.
    interface Standard {
        function deposit(uint256 assets, address receiver) external returns (uint256 shares);
        function mint(uint256 shares, address receiver) external returns (uint256 assets);
        function withdraw(uint256 assets, address receiver, address owner) external returns (uint256 shares);
        function redeem(uint256 shares, address receiver, address owner) external returns (uint256 assets);
        function set(uint8 mode) external;
    }
}

/// Devnet whose state changes behind a signature.
static STINGY: LazyLock<Sandbox> = LazyLock::new(|| sandbox(46));
/// Storage slot of the stingy vault's mode, after the five of an ERC-20 token.
const MODE: u64 = 5;

fn usdc(whole: u64) -> U256 {
    U256::from(whole) * U256::from(1_000_000)
}

struct Depositor {
    world: TestHarness,
    token: Address,
    vault: Address,
    share: TokenInfo,
}

impl Depositor {
    /// Account before a vault of USDC in which a stranger has this many.
    async fn before(account: usize, contract: BundledContract, more: &[u8], strangers: U256) -> Self {
        let world = TestHarness::new(account).await;
        let token = world.contract_of(&world.usdc);
        let vault = world.deploy(contract.creation(&[token.abi_encode().as_slice(), more].concat()).unwrap()).await;
        Self::at(world, vault, strangers).await
    }

    /// The same before OpenZeppelin's own.
    async fn before_plain(account: usize, strangers: U256) -> Self {
        let world = TestHarness::new(account).await;
        let token = world.contract_of(&world.usdc);
        let arguments = (token, "Plain".to_owned(), "pV".to_owned()).abi_encode_params();
        let vault = world.deploy(BundledContract::PlainVault.creation(&arguments).unwrap()).await;
        Self::at(world, vault, strangers).await
    }

    async fn at(world: TestHarness, vault: Address, strangers: U256) -> Self {
        let token = world.contract_of(&world.usdc);
        let share = token::read(&[vault], world.client.network(), world.client.agreed()).await.unwrap();
        let share = share.into_iter().next().unwrap().unwrap();
        let depositor = Self { world, token, vault, share };
        if !strangers.is_zero() {
            depositor.put(strangers, STRANGER).await;
        }
        depositor
    }

    async fn put(&self, assets: U256, receiver: Address) {
        self.world.send(self.token, OpenMint::mintCall { to: self.world.account(), value: assets }).await;
        self.world.send(self.token, Erc20::approveCall { spender: self.vault, value: assets }).await;
        self.world.send(self.vault, Standard::depositCall { assets, receiver }).await;
    }

    async fn donate(&self, value: U256) {
        self.world.send(self.token, OpenMint::mintCall { to: self.vault, value }).await;
    }

    fn main(&self, data: impl Into<Bytes>) -> PlanLeg {
        leg(LegPurpose::Main, self.vault, data.into())
    }

    /// Deposit of an amount for at least this number of shares, by this calldata and an allowance of this amount.
    fn depositing(&self, assets: U256, at_least: U256, data: Bytes, (spender, allowed): (Address, U256)) -> Proposal {
        let (token, recipient) = (self.world.usdc.clone(), self.world.account());
        let approve =
            leg(LegPurpose::Approve, self.token, Erc20::approveCall { spender, value: allowed }.abi_encode().into());
        let bound = AllowanceBound { token: token.clone(), spender, kind: AllowanceKind::Erc20, at_most: U256::ZERO };
        Proposal {
            outflows: vec![Outflow { token, amount: assets }],
            inflows: vec![Inflow { token: self.share.clone(), at_least, expected: at_least, recipient }],
            allowances: vec![bound],
            recipients: vec![recipient],
            ..self.world.proposal(ProposalIntent::Vault, vec![approve, self.main(data)])
        }
    }

    /// The honest deposit.
    fn deposit(&self, assets: U256, at_least: U256) -> Proposal {
        let call = Standard::depositCall { assets, receiver: self.world.account() };
        self.depositing(assets, at_least, call.abi_encode().into(), (self.vault, assets))
    }

    /// Redemption of shares for at least this amount, by this calldata.
    fn redeeming(&self, shares: U256, at_least: U256, data: Bytes) -> Proposal {
        let recipient = self.world.account();
        Proposal {
            outflows: vec![Outflow { token: self.share.clone(), amount: shares }],
            inflows: vec![Inflow { token: self.world.usdc.clone(), at_least, expected: at_least, recipient }],
            recipients: vec![recipient],
            ..self.world.proposal(ProposalIntent::Vault, vec![self.main(data)])
        }
    }

    fn redeem(&self, shares: U256, receiver: Address, owner: Address) -> Bytes {
        Standard::redeemCall { shares, receiver, owner }.abi_encode().into()
    }

    async fn broken(&self, proposal: Proposal) -> Vec<String> {
        self.world.refused(proposal).await.1.into_iter().collect()
    }
}

/// Deposits and redemptions for somebody else, of more than is declared, with an allowance that stays, by the functions that take
/// or burn whatever is there, or with another intent.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_action_is_the_declared_one_and_for_nobody_but_the_account() {
    let depositor = Depositor::before_plain(7, usdc(1_000)).await;
    let (me, hundred) = (depositor.world.account(), usdc(100));
    depositor.put(hundred, me).await;
    // The honest forms pass, so each refusal below has its one reason.
    let honest =
        [depositor.deposit(hundred, hundred), depositor.redeeming(hundred, hundred, depositor.redeem(hundred, me, me))];
    for proposal in honest {
        let previewed = depositor.world.preview(proposal).await;
        assert!(previewed.is_ok(), "{previewed:?}");
    }
    let by = |call: Vec<u8>| depositor.depositing(hundred, hundred, call.into(), (depositor.vault, hundred));
    let more = hundred + U256::ONE;
    let bent = [
        by(Standard::depositCall { assets: hundred, receiver: STRANGER }.abi_encode()),
        by(Standard::depositCall { assets: more, receiver: me }.abi_encode()),
        by(Standard::mintCall { shares: hundred, receiver: me }.abi_encode()),
        depositor.depositing(
            hundred,
            hundred,
            Standard::depositCall { assets: hundred, receiver: me }.abi_encode().into(),
            (STRANGER, hundred),
        ),
        depositor.depositing(
            hundred,
            hundred,
            Standard::depositCall { assets: hundred, receiver: me }.abi_encode().into(),
            (depositor.vault, more),
        ),
        depositor.redeeming(hundred, hundred, depositor.redeem(hundred, STRANGER, me)),
        depositor.redeeming(hundred, hundred, depositor.redeem(hundred, me, STRANGER)),
        depositor.redeeming(hundred - U256::ONE, U256::ONE, depositor.redeem(hundred, me, me)),
        depositor.redeeming(
            hundred,
            hundred,
            Standard::withdrawCall { assets: hundred, receiver: me, owner: me }.abi_encode().into(),
        ),
    ];
    for (at, proposal) in bent.into_iter().enumerate() {
        let rules = depositor.broken(proposal).await;
        assert!(rules.contains(&"calldata".to_owned()), "{at}: {rules:?}");
    }
    // The address book's vault is called by nothing but vault actions, and no other intent may declare shares.
    let known = depositor.world.contract(KnownContract::Vault);
    for intent in [ProposalIntent::Swap, ProposalIntent::Lending, ProposalIntent::Liquidity] {
        let honest = Proposal { intent, ..depositor.deposit(hundred, hundred) };
        assert_eq!(depositor.world.refused(honest.clone()).await.0, ErrorCode::SafetyPriceUnknown, "{intent:?}");
        let mut silent = Proposal { inflows: vec![], ..honest };
        silent.legs[1].to = known;
        let rules = depositor.broken(silent).await;
        assert!(rules.contains(&"calldata".to_owned()), "{intent:?}: {rules:?}");
    }
}

/// Five percent of the shares go to a collector, and the vault's preview says nothing of it. Three percent are within the rules'
/// four.
#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_fee_on_entry_is_refused() {
    let fee = |points: u32| (STRANGER, U256::from(points)).abi_encode_params();
    let depositor = Depositor::before(8, BundledContract::HiddenFeeVault, &fee(500), usdc(1_000)).await;
    // By hand: 400 less a twentieth; the preview promises 400.
    assert_eq!(depositor.broken(depositor.deposit(usdc(400), usdc(380))).await, ["max_loss_bps"]);
    let rules = depositor.broken(depositor.deposit(usdc(400), usdc(400))).await;
    assert!(rules.contains(&"inflow".to_owned()), "as the preview promises: {rules:?}");
    drop(depositor);
    let depositor = Depositor::before(8, BundledContract::HiddenFeeVault, &fee(300), usdc(1_000)).await;
    let previewed = depositor.world.preview(depositor.deposit(usdc(400), usdc(388))).await;
    assert!(previewed.is_ok(), "{previewed:?}");
}

/// The first depositor holds a fraction of a share and donates, so that the next one gets too little or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_inflated_vault_takes_no_deposit() {
    let depositor = Depositor::before_plain(9, U256::ONE).await;
    depositor.donate(usdc(10)).await;
    // By OpenZeppelin's formula: 100e6 · (1 + 1) / (10e6 + 1 + 1) = 19 units, of which each is worth 5 USDC.
    let rules = depositor.broken(depositor.deposit(usdc(100), U256::from(19))).await;
    assert!(rules.contains(&"vault_supply".to_owned()), "{rules:?}");
    // Without the donation too: it may come between simulation and inclusion.
    drop(depositor);
    let depositor = Depositor::before_plain(9, U256::from(999_999)).await;
    assert_eq!(depositor.broken(depositor.deposit(usdc(100), usdc(99))).await, ["vault_supply"]);
    depositor.put(U256::ONE, STRANGER).await;
    let previewed = depositor.world.preview(depositor.deposit(usdc(100), usdc(99))).await;
    assert!(previewed.is_ok(), "{previewed:?}");
}

/// The price of the shares doubles between preview and commit, so that the deposit would give half of what was declared.
#[tokio::test(flavor = "multi_thread")]
async fn a_donation_between_preview_and_commit_signs_no_deposit() {
    let depositor = Depositor::before_plain(5, usdc(1_000)).await;
    let preview = depositor.world.preview(depositor.deposit(usdc(100), usdc(99))).await.unwrap();
    depositor.donate(usdc(1_000)).await;
    let before = depositor.world.balance(&depositor.world.usdc).await;
    let refused = depositor.world.pipeline.commit(preview.permit.permit_id, Consent::Always).await.map(|_| ());
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, ErrorCode::PermitMismatch, "{refused:?}");
    assert!(refused.violations.iter().any(|one| one.rule.is(RuleName::Inflow)), "{refused:?}");
    assert_eq!(depositor.world.balance(&depositor.world.usdc).await, before);
    let allowance = Erc20::allowanceCall { owner: depositor.world.account(), spender: depositor.vault };
    assert_eq!(depositor.world.ask(depositor.token, allowance).await, U256::ZERO);
}

/// A vault that turns pays a millionth of a USDC for a hundred: nobody but the operator takes that loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_for_less_than_the_shares_are_worth_is_not_signed_unasked() {
    let depositor = Depositor::before(5, BundledContract::StingyVault, &[], usdc(1_000)).await;
    let (me, hundred) = (depositor.world.account(), usdc(100));
    depositor.put(hundred, me).await;
    let asks = async |at_least: U256| {
        let redeem = depositor.redeeming(hundred, at_least, depositor.redeem(hundred, me, me));
        let preview = depositor.world.preview(redeem).await.unwrap();
        preview.verdicts.iter().any(|verdict| verdict.asks.contains(&CheckReason::PaysBelowSharePrice))
    };
    assert!(!asks(hundred).await, "the honest withdrawal");
    // Four percent may be lost, by the rules here.
    assert!(!asks(usdc(96)).await);
    assert!(asks(usdc(95)).await, "the vault could keep the rest between simulation and inclusion");
    depositor.world.send(depositor.vault, Standard::setCall { mode: 1 }).await;
    assert!(asks(U256::ONE).await);
}

/// The vault turns behind the signature of a deposit: it makes the shares and takes nothing, and would take it later.
#[tokio::test(flavor = "multi_thread")]
async fn an_allowance_that_a_deposit_does_not_use_does_not_stay() {
    let world = TestHarness::over(&STINGY, 3, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await;
    let token = world.contract_of(&world.usdc).abi_encode();
    let vault = world.deploy(BundledContract::StingyVault.creation(&token).unwrap()).await;
    let depositor = Depositor::at(world, vault, usdc(1_000)).await;
    let world = &depositor.world;
    world.send(depositor.token, OpenMint::mintCall { to: world.account(), value: usdc(100) }).await;
    let preview = world.preview(depositor.deposit(usdc(100), usdc(99))).await.unwrap();
    let signed = AtomicUsize::new(0);
    *world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        // The second signature is the deposit's.
        if signed.fetch_add(1, Ordering::SeqCst) == 1 {
            let devnet = STINGY.chains()[0].devnet.clone();
            let turn = devnet.run(move |chain| chain.set_storage_at(vault, U256::from(MODE), U256::from(4)));
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(turn)).unwrap();
        }
    })
    .into_inner()
    .unwrap();
    let committed = world.pipeline.commit(preview.permit.permit_id, Consent::Always).await.unwrap();
    assert!(!committed.truth.as_ref().unwrap().mismatches.is_empty(), "{committed:#?}");
    assert_eq!(
        world.ask(vault, Erc20::balanceOfCall { owner: world.account() }).await,
        usdc(100),
        "it made the shares"
    );
    let allowance = Erc20::allowanceCall { owner: world.account(), spender: vault };
    assert_eq!(world.ask(depositor.token, allowance).await, U256::ZERO, "{committed:#?}");
}

/// A vault whose views promise withdrawals that its code refuses, and one that takes nothing: full, or paused.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_without_a_way_out_or_in_takes_no_deposit() {
    let depositor = Depositor::before(4, BundledContract::LockedVault, &[], usdc(1_000)).await;
    assert_eq!(depositor.broken(depositor.deposit(usdc(50), usdc(50))).await, ["vault_exit"]);
    drop(depositor);
    let cap = usdc(1_000).abi_encode();
    let depositor = Depositor::before(4, BundledContract::CappedVault, &cap, usdc(900)).await;
    let rules = depositor.broken(depositor.deposit(usdc(101), usdc(101))).await;
    assert!(rules.contains(&"simulation".to_owned()), "{rules:?}");
    let previewed = depositor.world.preview(depositor.deposit(usdc(100), usdc(100))).await;
    assert!(previewed.is_ok(), "{previewed:?}");
    drop(depositor);
    let paused = Depositor::before(4, BundledContract::CappedVault, &U256::ZERO.abi_encode(), U256::ZERO).await;
    let rules = paused.broken(paused.deposit(usdc(1), usdc(1))).await;
    assert!(rules.contains(&"simulation".to_owned()), "{rules:?}");
}
