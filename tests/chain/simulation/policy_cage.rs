//! PolicyCage rule by rule: the manager's hooks around executions of an owner's account, on the devnet's EVM. Its
//! refusals are compared with its own errors and with independent arithmetic.

use alloy::primitives::aliases::I192;
use alloy::primitives::{Address, B256, Bytes, FixedBytes, U256};
use alloy::sol_types::{SolCall, SolInterface, SolValue};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::feed::PriceFeed;
use bardo::abi::permit2::Permit2;
use bardo::abi::policy_cage::PolicyCage;
use bardo::abi::policy_cage::PolicyCage::{AssetRule, CallRule, PolicyCageErrors as Refused, Rules};
use bardo::sandbox::contracts::BundledContract;

use crate::simulation::world::{ALICE, BOB, CAROL, TestHarness};

/// Address of the delegation manager.
const MANAGER: Address = CAROL;
/// Owner of the account.
const OWNER: Address = ALICE;
/// Recipient outside the account.
const OUTSIDE: Address = BOB;
const ROUTER: Address = Address::repeat_byte(0x70);
const PERMIT2: Address = Address::repeat_byte(0x22);
const ANY: u128 = u128::MAX;
const HOUR: u64 = 3_600;

/// Permitted function of the router.
const SWAP: FixedBytes<4> = FixedBytes([0x35, 0x93, 0x56, 0x4c]);

struct Cage {
    world: TestHarness,
    cage: Address,
    /// Token with six decimals, at one dollar; an exit.
    usdc: Address,
    /// Token with eighteen decimals, at 2,000 dollars.
    weth: Address,
    feeds: [Address; 2],
}

fn usdc(dollars: u64) -> U256 {
    U256::from(dollars) * U256::from(1_000_000)
}

/// Hundredths of a WETH: 20 dollars each.
fn weth(hundredths: u64) -> U256 {
    U256::from(hundredths) * U256::from(10).pow(U256::from(16))
}

fn raw(amount: U256) -> u128 {
    amount.to()
}

impl Cage {
    /// Owner with 10,000 USDC and 5 WETH (20,000 dollars), and the rules of [`Cage::rules`].
    fn new() -> Self {
        let mut cage = Self::without_rules();
        cage.configure(cage.rules());
        cage
    }

    fn without_rules() -> Self {
        let mut world = TestHarness::new();
        let code = |contract: BundledContract, arguments: Vec<u8>| contract.creation(&arguments).expect("bundled");
        let cage = world.deploy(code(BundledContract::PolicyCage, (MANAGER,).abi_encode_params()));
        let token = |world: &mut TestHarness, name: &str, decimals: u8| {
            let arguments = (name.to_owned(), name.to_owned(), U256::from(decimals)).abi_encode_params();
            world.deploy(code(BundledContract::MockERC20, arguments))
        };
        let (usdc_at, weth_at) = (token(&mut world, "USDC", 6), token(&mut world, "WETH", 18));
        let feeds = ["USDC / USD", "WETH / USD"].map(|name| {
            let arguments = (name.to_owned(), U256::from(8), ALICE).abi_encode_params();
            world.deploy(code(BundledContract::PriceFeed, arguments))
        });
        let mut made = Self { world, cage, usdc: usdc_at, weth: weth_at, feeds };
        made.price(1, 2_000);
        made.mint(usdc_at, OWNER, usdc(10_000));
        made.mint(weth_at, OWNER, weth(500));
        made
    }

    fn rules(&self) -> Rules {
        let [usdc_feed, weth_feed] = self.feeds;
        Rules {
            assets: vec![
                AssetRule {
                    token: self.usdc,
                    feed: usdc_feed,
                    exit: true,
                    maxPerTransaction: raw(usdc(1_000)),
                    maxPerDay: raw(usdc(2_500)),
                    maxPosition: ANY,
                },
                AssetRule {
                    token: self.weth,
                    feed: weth_feed,
                    exit: false,
                    maxPerTransaction: ANY,
                    maxPerDay: ANY,
                    maxPosition: raw(weth(600)),
                },
            ],
            calls: vec![
                CallRule { target: ROUTER, selector: SWAP },
                CallRule { target: self.usdc, selector: Erc20::approveCall::SELECTOR.into() },
                CallRule { target: PERMIT2, selector: Permit2::approveCall::SELECTOR.into() },
            ],
            spenders: vec![PERMIT2, ROUTER],
            maxDrawdownBps: 1_000,
            maxLossBps: 200,
            minInterval: 0,
            maxPriceAge: 3_600,
        }
    }

    fn configure(&mut self, set: Rules) {
        self.world.send(OWNER, self.cage, PolicyCage::configureCall { set });
    }

    fn changed(&mut self, change: impl Fn(&mut Rules)) {
        let mut rules = self.rules();
        change(&mut rules);
        self.configure(rules);
    }

    /// Updates both feeds now, with whole-dollar prices.
    fn price(&mut self, usdc_dollars: u64, weth_dollars: u64) {
        for (feed, dollars) in self.feeds.into_iter().zip([usdc_dollars, weth_dollars]) {
            let answer = I192::try_from(dollars * 100_000_000).expect("a price");
            self.world.send(ALICE, feed, PriceFeed::pushCall { answer });
        }
    }

    fn mint(&mut self, token: Address, to: Address, value: U256) {
        self.world.send(to, token, OpenMint::mintCall { to, value });
    }

    fn pass(&mut self, seconds: u64) {
        self.world.block.timestamp += seconds;
        self.world.block.number += 1;
    }

    fn before(&mut self, target: Address, value: U256, data: &[u8]) -> Result<Bytes, Refused> {
        let execution: Bytes = [target.as_slice(), &value.to_be_bytes::<32>(), data].concat().into();
        self.hook(MANAGER, B256::ZERO, &execution).map(|()| execution)
    }

    fn hook(&mut self, caller: Address, mode: B256, execution: &Bytes) -> Result<(), Refused> {
        let call = PolicyCage::beforeHookCall {
            terms: Bytes::new(),
            args: Bytes::new(),
            mode,
            execution: execution.clone(),
            delegation: B256::ZERO,
            owner: OWNER,
            redeemer: OUTSIDE,
        };
        refusal(self.world.try_send(caller, self.cage, call))
    }

    fn after(&mut self, execution: Bytes) -> Result<(), Refused> {
        let call = PolicyCage::afterHookCall {
            terms: Bytes::new(),
            args: Bytes::new(),
            mode: B256::ZERO,
            execution,
            delegation: B256::ZERO,
            owner: OWNER,
            redeemer: OUTSIDE,
        };
        refusal(self.world.try_send(MANAGER, self.cage, call))
    }

    /// A swap in which `out` leaves and `into` arrives. A refusal reverts it, as the manager would.
    fn swap(&mut self, out: (Address, U256), into: (Address, U256)) -> Result<(), Refused> {
        let kept = self.world.state.clone();
        let done = self.before(ROUTER, U256::ZERO, SWAP.as_slice()).and_then(|execution| {
            self.world.send(OWNER, out.0, Erc20::transferCall { to: OUTSIDE, value: out.1 });
            self.mint(into.0, OWNER, into.1);
            self.after(execution)
        });
        if done.is_err() {
            self.world.state = kept;
        }
        done
    }

    fn buy(&mut self, dollars: u64) -> Result<(), Refused> {
        self.swap((self.usdc, usdc(dollars)), (self.weth, weth(dollars / 20)))
    }

    fn sell(&mut self, hundredths: u64, dollars: u64) -> Result<(), Refused> {
        self.swap((self.weth, weth(hundredths)), (self.usdc, usdc(dollars)))
    }

    fn call(&mut self, target: Address, data: &[u8]) -> Result<(), Refused> {
        let execution = self.before(target, U256::ZERO, data)?;
        self.after(execution)
    }
}

fn refusal(result: Result<(), Bytes>) -> Result<(), Refused> {
    result.map_err(|data| Refused::abi_decode(&data).expect("one of its errors"))
}

macro_rules! refuses {
    ($done:expr, $pattern:pat $(if $guard:expr)?) => {
        match $done {
            Err($pattern) $(if $guard)? => {}
            other => panic!("expected {}, got {:?}", stringify!($pattern), other.map(|_| "success").map_err(|e| e.abi_encode())),
        }
    };
}

#[test]
fn an_account_without_rules_allows_nothing() {
    let mut cage = Cage::without_rules();
    refuses!(cage.buy(100), Refused::NoRules(error) if error.owner == OWNER);
    cage.configure(cage.rules());
    assert!(cage.buy(100).is_ok());
    cage.world.send(OWNER, cage.cage, PolicyCage::clearCall {});
    refuses!(cage.buy(100), Refused::NoRules(_));
    // Rules of one account do not apply to another.
    let set = cage.rules();
    cage.world.send(OUTSIDE, cage.cage, PolicyCage::configureCall { set });
    refuses!(cage.buy(100), Refused::NoRules(_));
}

#[test]
fn only_the_manager_calls_its_hooks_and_only_for_single_calls() {
    let mut cage = Cage::new();
    let execution: Bytes = [ROUTER.as_slice(), &[0; 32], SWAP.as_slice()].concat().into();
    refuses!(cage.hook(OWNER, B256::ZERO, &execution), Refused::NotManager(error) if error.sender == OWNER);
    // ERC-7579 modes: a batch, and a call that may fail.
    for (at, byte) in [(0, 1), (1, 1)] {
        let mut mode = B256::ZERO;
        mode[at] = byte;
        refuses!(cage.hook(MANAGER, mode, &execution), Refused::OnlySingleCalls(_));
    }
    refuses!(cage.hook(MANAGER, B256::ZERO, &execution.slice(..51)), Refused::OnlySingleCalls(_));
    assert!(cage.hook(MANAGER, B256::ZERO, &execution).is_ok());
    // During an execution there can be no other, and the rules cannot change.
    refuses!(cage.hook(MANAGER, B256::ZERO, &execution), Refused::Nested(_));
    let set = cage.rules();
    let changed = cage.world.try_send(OWNER, cage.cage, PolicyCage::configureCall { set });
    refuses!(refusal(changed), Refused::Nested(_));
    refuses!(cage.after(Bytes::new()), Refused::Nested(_));
    assert!(cage.after(execution).is_ok());
}

#[test]
fn only_listed_calls_pass() {
    let mut cage = Cage::new();
    let transfer = Erc20::transferCall { to: OUTSIDE, value: U256::from(1) }.abi_encode();
    let own = PolicyCage::clearCall {}.abi_encode();
    for (target, data) in [
        (ROUTER, vec![1, 2, 3, 4]),
        (ROUTER, vec![]),
        (ROUTER, vec![0x35]),
        (cage.usdc, transfer),
        (cage.cage, own),
        (OWNER, SWAP.to_vec()),
        (MANAGER, SWAP.to_vec()),
    ] {
        refuses!(cage.call(target, &data), Refused::CallNotAllowed(error) if error.target == target);
    }
    // Not even the owner can list a call of the cage, the manager or the account.
    for target in [cage.cage, MANAGER, OWNER] {
        let mut set = cage.rules();
        set.calls.push(CallRule { target, selector: SWAP });
        let refused = cage.world.try_send(OWNER, cage.cage, PolicyCage::configureCall { set });
        refuses!(refusal(refused), Refused::BadRules(_));
    }
}

/// Rule for plain sends to this address; with the zero address, to anybody.
fn sends_to(target: Address) -> CallRule {
    CallRule { target, selector: FixedBytes::ZERO }
}

#[test]
fn plain_sends_go_to_listed_recipients_or_to_anybody() {
    let mut cage = Cage::new();
    let listed = |cage: &mut Cage, more: &[CallRule]| cage.changed(|rules| rules.calls.extend_from_slice(more));
    refuses!(cage.call(OUTSIDE, &[]), Refused::CallNotAllowed(error) if error.target == OUTSIDE);
    listed(&mut cage, &[sends_to(OUTSIDE)]);
    assert!(cage.call(OUTSIDE, &[]).is_ok());
    refuses!(cage.call(ROUTER, &[]), Refused::CallNotAllowed(error) if error.target == ROUTER);

    listed(&mut cage, &[sends_to(Address::ZERO)]);
    for anybody in [OUTSIDE, ROUTER, cage.usdc, Address::ZERO, Address::repeat_byte(0x99)] {
        assert!(cage.call(anybody, &[]).is_ok(), "{anybody}");
    }
    // Anybody else's functions stay closed, whatever their name, and so do these three addresses.
    for data in [vec![0; 4], vec![0; 36], vec![0], vec![1, 2, 3, 4], SWAP.to_vec()] {
        refuses!(cage.call(OUTSIDE, &data), Refused::CallNotAllowed(error) if error.target == OUTSIDE);
    }
    for own in [cage.cage, MANAGER, OWNER] {
        refuses!(cage.call(own, &[]), Refused::CallNotAllowed(error) if error.target == own);
    }
    // A rule for a function of the zero address allows nobody else.
    listed(&mut cage, &[CallRule { target: Address::ZERO, selector: FixedBytes([1, 2, 3, 4]) }]);
    refuses!(cage.call(OUTSIDE, &[1, 2, 3, 4]), Refused::CallNotAllowed(_));
    refuses!(cage.call(OUTSIDE, &[]), Refused::CallNotAllowed(_));
    // What is sent must be an allowed asset.
    listed(&mut cage, &[sends_to(Address::ZERO)]);
    refuses!(cage.before(OUTSIDE, U256::from(1), &[]), Refused::AssetNotAllowed(error) if error.token.is_zero());
}

#[test]
fn approvals_are_bounded_in_amount_and_spender() {
    let mut cage = Cage::new();
    let approve = |spender, value| Erc20::approveCall { spender, value }.abi_encode();
    let permit2 = |token, spender, amount: U256| {
        Permit2::approveCall { token, spender, amount: amount.to(), expiration: Default::default() }.abi_encode()
    };
    assert!(cage.call(cage.usdc, &approve(PERMIT2, usdc(1_000))).is_ok());
    assert!(cage.call(PERMIT2, &permit2(cage.usdc, ROUTER, usdc(1_000))).is_ok());
    let limit = usdc(1_000);
    let above = limit + U256::from(1);
    for (target, data) in [(cage.usdc, approve(PERMIT2, above)), (PERMIT2, permit2(cage.usdc, ROUTER, above))] {
        refuses!(cage.call(target, &data), Refused::OverPerTransaction(error) if (error.amount, error.limit) == (above, limit));
    }
    for (target, data) in
        [(cage.usdc, approve(OUTSIDE, U256::from(1))), (PERMIT2, permit2(cage.usdc, OUTSIDE, U256::from(1)))]
    {
        refuses!(cage.call(target, &data), Refused::SpenderNotAllowed(error) if error.spender == OUTSIDE);
    }
    refuses!(cage.call(PERMIT2, &permit2(OUTSIDE, ROUTER, U256::from(1))), Refused::AssetNotAllowed(error) if error.token == OUTSIDE);
    // Revoking an allowance is always permitted.
    assert!(cage.call(cage.usdc, &approve(OUTSIDE, U256::ZERO)).is_ok());
    refuses!({ let value = U256::from(1); cage.before(ROUTER, value, SWAP.as_slice()) }, Refused::AssetNotAllowed(error) if error.token.is_zero());
}

#[test]
fn outflow_is_counted_by_balances() {
    let mut cage = Cage::new();
    cage.changed(|rules| rules.assets[1].maxPosition = ANY);
    assert!(cage.buy(1_000).is_ok());
    refuses!(cage.buy(1_020), Refused::OverPerTransaction(error) if (error.amount, error.limit) == (usdc(1_020), usdc(1_000)));
    assert!(cage.buy(1_000).is_ok());
    refuses!(cage.buy(600), Refused::OverPerDay(error) if (error.amount, error.limit) == (usdc(2_600), usdc(2_500)));
    assert!(cage.buy(500).is_ok());
    refuses!(cage.buy(20), Refused::OverPerDay(_));
    // Midnight has no effect; a day later, plus at most four hours, the window is over.
    cage.pass(23 * HOUR);
    cage.price(1, 2_000);
    refuses!(cage.buy(20), Refused::OverPerDay(_));
    cage.pass(5 * HOUR);
    cage.price(1, 2_000);
    assert!(cage.buy(1_000).is_ok());
}

#[test]
fn positions_are_bounded_when_they_grow() {
    let mut cage = Cage::new();
    assert!(cage.buy(1_000).is_ok());
    assert!(cage.buy(1_000).is_ok());
    // 5 WETH and 1 more are 6; the next hundredth exceeds the limit.
    refuses!(cage.buy(20), Refused::OverPosition(error) if (error.amount, error.limit) == (weth(601), weth(600)));
    // A position that is already above its limit may shrink.
    cage.changed(|rules| rules.assets[1].maxPosition = 1);
    assert!(cage.sell(50, 1_000).is_ok());
}

#[test]
fn value_may_be_lost_up_to_the_bound() {
    let mut cage = Cage::new();
    assert!(cage.sell(50, 980).is_ok());
    refuses!(cage.sell(50, 979), Refused::LossTooLarge(error) if error.maxLossBps == U256::from(200));
    // A plain transfer to a stranger loses everything, whichever call did it.
    refuses!(cage.swap((cage.weth, weth(1)), (cage.usdc, U256::ZERO)), Refused::LossTooLarge(_));
    // Bought a token that is not an allowed asset: no allowed inflow.
    let arguments = ("X".to_owned(), "X".to_owned(), U256::from(18)).abi_encode_params();
    let other = cage.world.deploy(BundledContract::MockERC20.creation(&arguments).expect("bundled"));
    refuses!(cage.swap((cage.usdc, usdc(100)), (other, weth(500))), Refused::LossTooLarge(_));
}

#[test]
fn below_the_floor_only_exits_go_on() {
    let mut cage = Cage::new();
    assert!(cage.buy(20).is_ok());
    // 9,980 USDC and 5.01 WETH at 1,600 are 17,996 dollars, below 90 % of 20,000.
    cage.price(1, 1_600);
    let value = U256::from(17_996) * U256::from(10).pow(U256::from(18));
    let floor = U256::from(18_000) * U256::from(10).pow(U256::from(18));
    refuses!(cage.swap((cage.usdc, usdc(16)), (cage.weth, weth(1))), Refused::DrawdownReached(error) if (error.value, error.floor) == (value, floor));
    assert!(cage.sell(100, 1_600).is_ok());
    // The owner resets the high-water mark.
    cage.world.send(OWNER, cage.cage, PolicyCage::resetHighestCall {});
    assert!(cage.swap((cage.usdc, usdc(16)), (cage.weth, weth(1))).is_ok());
}

#[test]
fn executions_are_spaced_and_exits_need_not_be() {
    let mut cage = Cage::new();
    cage.changed(|rules| rules.minInterval = 600);
    assert!(cage.buy(100).is_ok());
    let at = cage.world.block.timestamp;
    cage.pass(599);
    refuses!(cage.buy(100), Refused::TooSoon(error) if error.nextAt == U256::from(at + 600));
    assert!(cage.sell(5, 100).is_ok());
    cage.pass(1);
    assert!(cage.buy(100).is_ok());
}

#[test]
fn an_unknown_price_rejects() {
    let mut cage = Cage::new();
    cage.pass(3_600);
    assert!(cage.buy(100).is_ok());
    cage.pass(1);
    refuses!(cage.buy(100), Refused::PriceUnusable(error) if error.feed == cage.feeds[0]);
    refuses!(cage.sell(5, 100), Refused::PriceUnusable(_));
    cage.price(1, 0);
    refuses!(cage.buy(100), Refused::PriceUnusable(error) if error.feed == cage.feeds[1]);
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let mut cage = Cage::new();
    let wrong: [fn(&mut Rules); 6] = [
        |rules| rules.assets.clear(),
        |rules| rules.assets[1].token = rules.assets[0].token,
        |rules| rules.assets[0].feed = Address::ZERO,
        |rules| rules.maxDrawdownBps = 10_001,
        |rules| rules.maxLossBps = 10_001,
        |rules| rules.maxPriceAge = 0,
    ];
    for change in wrong {
        let mut set = cage.rules();
        change(&mut set);
        let refused = cage.world.try_send(OWNER, cage.cage, PolicyCage::configureCall { set });
        refuses!(refusal(refused), Refused::BadRules(_));
    }
}

/// The contract and the off-chain check give the same verdict on random plans.
#[test]
fn the_off_chain_check_agrees_with_the_contract_on_plans() {
    use rand::{Rng, SeedableRng};
    let seed = crate::simulation::execution::seed(11);
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let (mut passed, mut refused) = (0, 0);
    for round in 0..400 {
        let mut cage = Cage::new();
        let anybody = random.random_bool(0.5);
        cage.changed(|rules| {
            rules.minInterval = 600;
            rules.assets[0].maxPosition = raw(usdc(11_000));
            rules.calls.extend(anybody.then_some(sends_to(Address::ZERO)));
        });
        if random.random_bool(0.5) {
            assert!(cage.buy(random.random_range(1..=50) * 20).is_ok());
        }
        if random.random_bool(0.5) {
            cage.pass(random.random_range(1..40) * HOUR / 2);
        }
        if random.random_bool(0.9) {
            cage.price(1, random.random_range(1_500..2_300));
        }
        let other = cage.feeds[0];
        let targets = [ROUTER, ROUTER, ROUTER, ROUTER, cage.usdc, PERMIT2, cage.cage, OWNER, other];
        let target = targets[random.random_range(0..targets.len())];
        let spender = [PERMIT2, ROUTER, OUTSIDE][random.random_range(0..3)];
        let value = usdc(random.random_range(0..2_000));
        let token = [cage.usdc, cage.weth, other][random.random_range(0..3)];
        let permit2 =
            Permit2::approveCall { token, spender, amount: value.to(), expiration: Default::default() }.abi_encode();
        let data = match random.random_range(0..8) {
            0..=4 => SWAP.to_vec(),
            5 => Erc20::approveCall { spender, value }.abi_encode(),
            6 => permit2,
            _ => Vec::new(),
        };
        // Actual flows, in both directions, near every limit.
        let buys = random.random_bool(0.5);
        let dollars = random.random_range(1..1_100_u64);
        let hundredths = dollars * random.random_range(80..120_u64) / 2_000;
        let (out, into) = if target != ROUTER || data.as_slice() != SWAP.as_slice() {
            ((cage.usdc, U256::ZERO), (cage.weth, U256::ZERO))
        } else if buys {
            ((cage.usdc, usdc(dollars)), (cage.weth, weth(hundredths)))
        } else {
            ((cage.weth, weth(hundredths.max(1))), (cage.usdc, usdc(dollars)))
        };
        let judged = cage.off_chain(target, &data, U256::ZERO, out, into);
        let kept = cage.world.state.clone();
        let done = cage.before(target, U256::ZERO, &data).and_then(|execution| {
            cage.world.send(OWNER, out.0, Erc20::transferCall { to: OUTSIDE, value: out.1 });
            cage.mint(into.0, OWNER, into.1);
            cage.after(execution)
        });
        cage.world.state = kept;
        let on_chain = done.map_err(|error| error.abi_encode());
        assert_eq!(on_chain.is_ok(), judged.is_empty(), "round {round}, seed {seed}: {on_chain:?} {judged:?}");
        if on_chain.is_ok() { passed += 1 } else { refused += 1 }
    }
    assert!(passed > 40 && refused > 40, "{passed} passed, {refused} refused: the plans are too much alike");
}

/// The contract and the off-chain check give the same verdict on random sends of the native token.
#[test]
fn the_off_chain_check_agrees_with_the_contract_on_sends() {
    use rand::{Rng, SeedableRng};
    let seed = crate::simulation::execution::seed(12);
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let (mut passed, mut refused) = (0, 0);
    for round in 0..400 {
        let mut cage = Cage::new();
        let chance = |random: &mut rand_chacha::ChaCha8Rng| random.random_bool(0.5);
        let sends = [OUTSIDE, Address::ZERO].map(|target| chance(&mut random).then_some(sends_to(target)));
        let (is_asset, may_leave) = (random.random_bool(0.9), random.random_bool(0.9));
        let most = [u128::MAX, raw(weth(50))][random.random_range(0..2)];
        let feed = cage.feeds[1];
        cage.changed(|rules| {
            let native = AssetRule { token: Address::ZERO, feed, maxPerTransaction: most, ..rules.assets[1].clone() };
            rules.assets.extend(is_asset.then_some(AssetRule { maxPosition: ANY, ..native }));
            rules.calls.extend(sends.iter().flatten().cloned());
            if may_leave {
                (rules.maxLossBps, rules.maxDrawdownBps) = (10_000, 10_000);
            }
        });
        let targets = [OUTSIDE, OUTSIDE, Address::repeat_byte(0x99), ROUTER, Address::ZERO, cage.cage, MANAGER, OWNER];
        let target = targets[random.random_range(0..targets.len())];
        let data = [&[] as &[u8], &[], &[], &[], &[0; 4], &[0; 3], &SWAP.0][random.random_range(0..7)];
        let value = weth(random.random_range(0..100));
        let judged = cage.off_chain(target, data, value, (Address::ZERO, value), (cage.usdc, U256::ZERO));
        let done = cage.before(target, value, data).and_then(|execution| {
            let left = cage.world.state.balance(OWNER) - value;
            cage.world.state.set_balance(OWNER, left);
            cage.after(execution)
        });
        let on_chain = done.map_err(|error| error.abi_encode());
        assert_eq!(on_chain.is_ok(), judged.is_empty(), "round {round}, seed {seed}: {on_chain:?} {judged:?}");
        if on_chain.is_ok() { passed += 1 } else { refused += 1 }
    }
    assert!(passed > 40 && refused > 40, "{passed} passed, {refused} refused: the sends are too much alike");
}

impl Cage {
    /// Off-chain verdict on a plan with these flows, in the present state.
    fn off_chain(
        &self,
        target: Address,
        data: &[u8],
        value: U256,
        out: (Address, U256),
        into: (Address, U256),
    ) -> Vec<bardo::base::error::Violation> {
        use bardo::chain::token::TokenId;
        use bardo::safety::onchain_policy::{OnchainAsset, OnchainPolicy as Judge, PlanEffects};
        let id = |token: Address| if token.is_zero() { TokenId::Native } else { TokenId::Erc20(token) };
        let rules: Rules = self.ask(self.cage, PolicyCage::rulesOfCall { owner: OWNER });
        let status = self.ask(self.cage, PolicyCage::standingCall { owner: OWNER });
        let assets = rules.assets.iter().map(|rule| {
            let round = self.ask(rule.feed, bardo::abi::feed::Aggregator::latestRoundDataCall {});
            let fresh = U256::from(self.world.block.timestamp) - round.updatedAt <= U256::from(rules.maxPriceAge);
            // 8 decimals of the feed plus those of the token, scaled to 18.
            let (decimals, balance) = match rule.token.is_zero() {
                true => (18, self.world.state.balance(OWNER)),
                false => {
                    let decimals: u8 = self.ask(rule.token, Erc20::decimalsCall {});
                    (decimals, self.ask(rule.token, Erc20::balanceOfCall { owner: OWNER }))
                }
            };
            let answer = U256::try_from(round.answer).expect("above zero");
            let price = answer * U256::from(10).pow(U256::from(36 - 8 - decimals));
            OnchainAsset {
                rule: rule.clone(),
                symbol: None,
                decimals: Some(decimals),
                balance,
                left_in_day: self.ask(self.cage, PolicyCage::leftInDayCall { owner: OWNER, token: rule.token }),
                price: fresh.then_some(price),
            }
        });
        let judge = Judge {
            contract: self.cage,
            manager: MANAGER,
            owner: OWNER,
            assets: assets.collect(),
            highest: status.highest,
            last_action: status.lastAction,
            rules,
        };
        let some = |(_, amount): &(Address, U256)| !amount.is_zero();
        let plan = PlanEffects {
            calls: vec![(target, value, data)],
            out: Some(out).filter(some).map(|(token, amount)| (id(token), amount)).into_iter().collect(),
            into: Some(into).filter(some).map(|(token, amount)| (id(token), amount, amount)).into_iter().collect(),
        };
        judge.judge(&plan, self.world.block.timestamp)
    }

    fn ask<C: SolCall>(&self, to: Address, call: C) -> C::Return {
        let simulation = self.world.simulate(&[bardo::chain::fork::ForkCall::new(BOB, to, call.abi_encode())]);
        C::abi_decode_returns(&simulation.outcomes[0].output).expect("an answer")
    }
}
