//! Payments for shares of vaults, compared with the vaults' own contracts for random deposits, withdrawals and earnings.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolValue as _;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::chain::fork::{ForkCall, SimulationOptions};
use bardo::erc4626::call::VaultCall;
use bardo::erc4626::holding::redeemed_after;
use bardo::sandbox::contracts::BundledContract;
use bardo::sandbox::plan::CHAINS;
use bardo::sandbox::snapshot::furnished;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::world::{ALICE, BOB, CAROL, TestHarness, block_on};

const ROUNDS: u32 = 1_200;

alloy::sol! {
    /// Written here from the standard, apart from the code under test.
    interface Standard {
        function deposit(uint256 assets, address receiver) external returns (uint256 shares);
        function redeem(uint256 shares, address receiver, address owner) external returns (uint256 assets);
        function previewDeposit(uint256 assets) external view returns (uint256);
        function previewRedeem(uint256 shares) external view returns (uint256);
        function convertToAssets(uint256 shares) external view returns (uint256);
    }
}

struct Vaults {
    world: TestHarness,
    token: Address,
}

impl Vaults {
    fn new() -> Self {
        let mut world = TestHarness::new();
        let arguments = ("Token".to_owned(), "T".to_owned(), U256::from(6)).abi_encode_params();
        let token = world.deploy(BundledContract::MockERC20.creation(&arguments).unwrap());
        Self { world, token }
    }

    fn open(&mut self, contract: BundledContract, arguments: &[u8]) -> Address {
        let vault = self.world.deploy(contract.creation(arguments).unwrap());
        for to in [ALICE, BOB, CAROL] {
            self.world.send(to, self.token, OpenMint::mintCall { to, value: U256::from(1_u64 << 60) });
            self.world.send(to, self.token, Erc20::approveCall { spender: vault, value: U256::MAX });
        }
        vault
    }

    fn held(&self, token: Address, owner: Address) -> U256 {
        self.world.ask(owner, token, Erc20::balanceOfCall { owner })
    }

    /// Payment of a simulated redemption after a deposit of `assets`, or without one.
    fn pays(&self, vault: Address, account: Address, assets: Option<U256>, shares: U256) -> Option<U256> {
        let data = |assets| VaultCall::Deposit { assets }.calldata(account);
        let before: Vec<ForkCall> =
            assets.map(|assets| ForkCall::new(account, vault, data(assets))).into_iter().collect();
        let redeems = (vault, self.token, account, shares);
        block_on(redeemed_after(&self.world.fork(), &before, &SimulationOptions::default(), redeems)).unwrap().ok()
    }
}

/// The previews of OpenZeppelin's vault are exact in their block, so a simulation must find the same number, and so must the
/// transaction itself.
#[test]
fn a_simulated_redemption_pays_what_the_contracts_preview_and_then_what_they_pay() {
    let mut vaults = Vaults::new();
    let arguments = (vaults.token, "Vault".to_owned(), "V".to_owned()).abi_encode_params();
    let vault = vaults.open(BundledContract::PlainVault, &arguments);
    // A holder who never leaves, so that the shares keep a price that amounts can pay.
    let (assets, receiver) = (U256::from(1_u64 << 38), Address::repeat_byte(0x77));
    vaults.world.send(ALICE, vault, Standard::depositCall { assets, receiver });
    let mut random = ChaCha8Rng::seed_from_u64(4_626);
    let (mut redeemed, mut compared, mut empty) = (0, 0, 0);
    for round in 0..ROUNDS {
        let user = [ALICE, BOB, CAROL][random.random_range(0..3)];
        let size = random.random_range(1..40);
        let amount = U256::from(random.random_range(1..1_u64 << size));
        if random.random_bool(0.2) {
            // Earnings, which a donation looks like.
            vaults.world.send(user, vaults.token, OpenMint::mintCall { to: vault, value: amount });
        }
        let previewed = vaults.world.ask(user, vault, Standard::previewDepositCall { assets: amount });
        if previewed.is_zero() {
            empty += 1;
        } else {
            // The way back of the deposit, before it is made: what the contract previews once it was made.
            let simulated = vaults.pays(vault, user, Some(amount), previewed).unwrap();
            let before = vaults.held(vault, user);
            vaults.world.send(user, vault, Standard::depositCall { assets: amount, receiver: user });
            assert_eq!(vaults.held(vault, user) - before, previewed, "round {round}");
            let view = vaults.world.ask(user, vault, Standard::previewRedeemCall { shares: previewed });
            assert_eq!(simulated, view, "round {round}");
            assert!(simulated <= amount, "nobody gains by the way in and out: round {round}");
            compared += 1;
        }
        let shares = vaults.held(vault, user);
        if shares.is_zero() || random.random_bool(0.4) {
            continue;
        }
        let part =
            if random.random_bool(0.3) { shares } else { U256::from(random.random_range(1..=shares.to::<u64>())) };
        let view = vaults.world.ask(user, vault, Standard::previewRedeemCall { shares: part });
        let simulated = vaults.pays(vault, user, None, part).unwrap();
        let before = vaults.held(vaults.token, user);
        vaults.world.send(user, vault, Standard::redeemCall { shares: part, receiver: user, owner: user });
        let paid = vaults.held(vaults.token, user) - before;
        assert_eq!([simulated, view], [paid; 2], "round {round}");
        redeemed += 1;
        assert_eq!(vaults.pays(vault, user, None, shares + U256::ONE), None, "more than is there: round {round}");
    }
    println!("{ROUNDS} rounds: {compared} deposits, {empty} without shares, {redeemed} redemptions");
    assert!(compared + redeemed >= 1_000 && redeemed > 400, "{compared} {empty} {redeemed}");
}

/// By hand, with OpenZeppelin's virtual unit on both sides: 10⁶ · (2.1·10¹² + 1) / (2·10¹² + 1), rounded down.
#[test]
fn the_devnets_vault_has_earned() {
    for plan in CHAINS {
        let made = furnished(plan).unwrap();
        let mut world = TestHarness::new();
        world.state = made.chain.state().clone();
        let vault = made.deployment.contracts["vault"];
        let shares = U256::from(1_000_000);
        assert_eq!(world.ask(ALICE, vault, Standard::convertToAssetsCall { shares }), U256::from(1_049_999));
        let supply = world.ask(ALICE, vault, Erc20::totalSupplyCall {});
        assert_eq!(supply, U256::from(2_000_000_000_000_u64), "{}", plan.name);
    }
}

/// A vault's view of a share's worth changes nothing: ten times too much, and a withdrawal that never comes.
#[test]
fn words_of_a_vault_make_no_share_worth_more() {
    let mut vaults = Vaults::new();
    let asset = vaults.token.abi_encode();
    let lying = vaults.open(BundledContract::LyingVault, &asset);
    let locked = vaults.open(BundledContract::LockedVault, &asset);
    let assets = U256::from(5_000_000);
    for vault in [lying, locked] {
        vaults.world.send(ALICE, vault, Standard::depositCall { assets, receiver: ALICE });
    }
    let told = |vault| vaults.world.ask(ALICE, vault, Standard::convertToAssetsCall { shares: assets });
    assert_eq!([told(lying), told(locked)], [assets * U256::from(10), assets]);
    assert_eq!(vaults.pays(lying, ALICE, None, assets), Some(assets));
    assert_eq!(vaults.pays(locked, ALICE, None, assets), None);
}
