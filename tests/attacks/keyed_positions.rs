//! Changes of V4 positions that a hostile tool or agent bends: the pipeline refuses each before it is signed.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy::primitives::aliases::{I24, U24, U48, U160};
use alloy::primitives::{Address, Bytes, U256, address, hex, keccak256};
use alloy::sol_types::{SolCall, SolValue};
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::abi::permit2::Permit2;
use bardo::abi::uniswap_v4::{PoolKey, PoolManager, PositionManager, StateView};
use bardo::base::units::BasisPoints;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::SenderRules;
use bardo::chain::token::{self, TokenInfo};
use bardo::safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent,
};
use bardo::sandbox::Sandbox;
use bardo::uniswap::v3::position::{TickRange, sqrt_prices_around};
use bardo::uniswap::v4::manager::{KeyedChange, KeyedDeposit, KeyedPlan};

use serde_json::{Value, json};

use crate::endpoints::Attack;
use bardo_testkit::harness::{TestHarness, leg, sandbox};
use bardo_testkit::lying_rpc::Lie;

static DEVNET: LazyLock<Sandbox> = LazyLock::new(|| sandbox(31));

static OPENING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

const STRANGER: Address = Address::repeat_byte(0x5a);
/// Hook without code whose address has the flag of `beforeAddLiquidity` (bit 11) alone.
const ADDING_HOOK: Address = address!("0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a0800");
/// The same of `afterRemoveLiquidity` (bit 8), which is only called on the way out.
const REMOVING_HOOK: Address = address!("0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a0100");
const LIQUIDITY: u128 = 1_000_000_000;

/// Account with a V4 position in the pool of two stablecoins of six decimals.
struct Holder {
    world: TestHarness,
    manager: Address,
    permit2: Address,
    tokens: Vec<TokenInfo>,
    token_id: U256,
    deadline: U256,
}

fn range() -> TickRange {
    TickRange::new(-1_000, 1_000).unwrap()
}

impl Holder {
    async fn new(account: usize) -> Self {
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        let world = TestHarness::over(&DEVNET, account, rules).await;
        let (manager, permit2) =
            (world.contract(KnownContract::V4PositionManager), world.contract(KnownContract::Permit2));
        let book = &world.client.network().book;
        let listed = |symbol: &str| book.tokens().iter().find(|token| token.symbol == symbol).unwrap().address;
        let mut addresses = [listed("USDC"), listed("USDT")];
        addresses.sort_unstable();
        let read = token::read(&addresses, world.client.network(), world.client.agreed()).await.unwrap();
        let tokens: Vec<TokenInfo> = read.into_iter().map(Result::unwrap).collect();
        for token in addresses {
            let value = U256::from(1_000_000_000_000_u64);
            world.send(token, OpenMint::mintCall { to: world.account(), value }).await;
            world.send(token, Erc20::approveCall { spender: permit2, value: U256::MAX }).await;
            let (amount, expiration) = (U160::MAX, U48::MAX);
            world.send(permit2, Permit2::approveCall { token, spender: manager, amount, expiration }).await;
        }
        let head = alloy::providers::Provider::get_block(world.client.provider(), alloy::eips::BlockId::latest());
        let now = head.await.unwrap().unwrap().header.timestamp;
        // The numbers of positions are given in turn.
        let _alone = OPENING.lock().await;
        let token_id = world.ask(manager, PositionManager::nextTokenIdCall {}).await;
        let holder = Self { world, manager, permit2, tokens, token_id, deadline: U256::from(now + 900) };
        holder.send(holder.mint(Address::ZERO, [u128::MAX >> 1; 2])).await;
        holder
    }

    fn key(&self, hooks: Address) -> PoolKey {
        let [currency0, currency1] = self.currencies();
        PoolKey { currency0, currency1, fee: U24::from(100), tickSpacing: I24::try_from(1).unwrap(), hooks }
    }

    fn currencies(&self) -> [Address; 2] {
        [0, 1].map(|at| self.world.contract_of(&self.tokens[at]))
    }

    fn plan(&self, change: KeyedChange) -> KeyedPlan {
        KeyedPlan { currencies: self.currencies(), change, deadline: self.deadline }
    }

    fn mint(&self, hooks: Address, most: [u128; 2]) -> KeyedPlan {
        let deposit = KeyedDeposit { liquidity: LIQUIDITY, most };
        self.plan(KeyedChange::Mint { key: self.key(hooks), range: range(), deposit })
    }

    /// Carries out a plan outside of Bardo.
    async fn send(&self, plan: KeyedPlan) {
        let data = plan.calldata(self.world.account());
        let call = PositionManager::modifyLiquiditiesCall::abi_decode(&data).unwrap();
        self.world.send(self.manager, call).await;
    }

    async fn price(&self) -> U256 {
        let pool = keccak256(self.key(Address::ZERO).abi_encode());
        let view = self.world.contract(KnownContract::V4StateView);
        self.world.ask(view, StateView::getSlot0Call { poolId: pool }).await.sqrtPriceX96.to()
    }

    /// Amounts of the whole position at prices half a percent away: within the slippage of the rules.
    async fn bounds(&self) -> ([u128; 2], [u128; 2]) {
        let [low, high] = sqrt_prices_around(self.price().await, BasisPoints::new(50).unwrap());
        let at = |price, up| range().amounts(price, LIQUIDITY, up).unwrap().map(|amount| amount.to::<u128>());
        let least = [at(high, false)[0], at(low, false)[1]];
        (least, [at(low, true)[0], at(high, true)[1]])
    }

    /// Proposal of a withdrawal that declares these minimums.
    fn withdrawal(&self, data: Bytes, least: [u128; 2]) -> Proposal {
        let account = self.world.account();
        let inflow = |at: usize| Inflow {
            token: self.tokens[at].clone(),
            at_least: U256::from(least[at]),
            expected: U256::from(least[at]),
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

    /// Proposal of a deposit, whose allowances are already there.
    fn deposit(&self, data: Bytes, most: [u128; 2]) -> Proposal {
        let mut main = leg(LegPurpose::Main, self.manager, data);
        main.gas_limit = 700_000;
        let outflow = |at: usize| Outflow { token: self.tokens[at].clone(), amount: U256::from(most[at]) };
        Proposal {
            outflows: vec![outflow(0), outflow(1)],
            recipients: vec![self.world.account()],
            ..self.world.proposal(ProposalIntent::Liquidity, vec![main])
        }
    }

    /// Rules that a proposal breaks.
    async fn broken(&self, proposal: Proposal) -> Vec<String> {
        self.world.refused(proposal).await.1.into_iter().collect()
    }

    async fn assert_breaks(&self, proposal: Proposal, rule: &str, what: &str) {
        let rules = self.broken(proposal).await;
        assert!(rules.contains(&rule.to_owned()), "{what}: {rules:?}");
    }
}

/// Actions and inputs of a call, changed, and the call of them.
fn bent(data: &Bytes, change: impl FnOnce(&mut Vec<u8>, &mut Vec<Bytes>)) -> Bytes {
    let call = PositionManager::modifyLiquiditiesCall::abi_decode(data).unwrap();
    let (actions, mut inputs) = <(Bytes, Vec<Bytes>)>::abi_decode_params(&call.unlockData).unwrap();
    let mut actions = actions.to_vec();
    change(&mut actions, &mut inputs);
    let unlock = (Bytes::from(actions), inputs).abi_encode_params();
    PositionManager::modifyLiquiditiesCall { unlockData: unlock.into(), ..call }.abi_encode().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_v4_withdrawal_pays_nobody_but_the_account_and_does_nothing_else() {
    let holder = Holder::new(4).await;
    let (me, token_id) = (holder.world.account(), holder.token_id);
    let (least, _) = holder.bounds().await;
    let close = holder.plan(KeyedChange::Close { token_id, least });
    let honest = || holder.withdrawal(close.calldata(me), least);
    assert!(holder.world.preview(honest()).await.is_ok(), "each refusal below has its one reason");
    let [first, second] = holder.currencies();
    let nothing = || (first, U256::ZERO, STRANGER);
    for (elsewhere, what) in [(STRANGER, "a stranger"), (Address::ZERO, "nobody"), (holder.manager, "the manager")] {
        let to: Bytes = (first, second, elsewhere).abi_encode_params().into();
        let data = bent(&close.calldata(me), |_, inputs| inputs[1] = to);
        holder.assert_breaks(holder.withdrawal(data, [0, 0]), "calldata", what).await;
    }
    // TAKE to a stranger, SWEEP, CLEAR_OR_TAKE, a second burn, and a position that is opened beside it.
    let take: Bytes = nothing().abi_encode_params().into();
    let sweep: Bytes = (first, STRANGER).abi_encode_params().into();
    let clear: Bytes = (first, U256::MAX).abi_encode_params().into();
    let burn: Bytes = (U256::ONE, 0_u128, 0_u128, Bytes::new()).abi_encode_params().into();
    for (action, input) in [(0x0e, take), (0x14, sweep), (0x13, clear), (0x03, burn)] {
        for at in [0, 1, 2] {
            let data = bent(&close.calldata(me), |actions, inputs| {
                actions.insert(at, action);
                inputs.insert(at, input.clone());
            });
            holder.assert_breaks(holder.withdrawal(data, [0, 0]), "calldata", "one action more").await;
        }
    }
    // The manager's other functions: a multicall around it, the same without unlocking, and a transfer of the token.
    let other = [
        hex::decode("ac9650d8").unwrap(),
        hex::decode("4afe393c").unwrap(),
        hex::decode("23b872dd").unwrap(),
        hex::decode("a22cb465").unwrap(),
    ];
    for selector in other {
        let data = [selector, vec![0; 192]].concat();
        holder.assert_breaks(holder.withdrawal(data.into(), [0, 0]), "calldata", "another function").await;
    }
    for intent in [ProposalIntent::Swap, ProposalIntent::Refund, ProposalIntent::Revoke] {
        holder.assert_breaks(Proposal { intent, ..honest() }, "calldata", "another intent").await;
    }
    let mut paying = honest();
    paying.legs[0].value = U256::ONE;
    holder.assert_breaks(paying, "calldata", "with ether").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v4_minimums_owner_tokens_and_deadline_are_the_chains() {
    let holder = Holder::new(5).await;
    let (me, token_id) = (holder.world.account(), holder.token_id);
    let (least, _) = holder.bounds().await;
    for given in [[0, 0], [least[0], 0], [0, least[1]]] {
        for change in [
            KeyedChange::Close { token_id, least: given },
            KeyedChange::Remove { token_id, liquidity: LIQUIDITY, least: given },
        ] {
            let data = holder.plan(change).calldata(me);
            assert_eq!(holder.broken(holder.withdrawal(data, given)).await, ["min_out"], "{change:?}");
        }
    }
    // A declared minimum above the calldata's.
    let free = holder.plan(KeyedChange::Close { token_id, least: [0, 0] }).calldata(me);
    holder.assert_breaks(holder.withdrawal(free, least), "calldata", "declared alone").await;
    // More than there is.
    let more = KeyedChange::Remove { token_id, liquidity: LIQUIDITY + 1, least };
    holder.assert_breaks(holder.withdrawal(holder.plan(more).calldata(me), least), "calldata", "too much").await;
    // The treasury's position.
    for change in [KeyedChange::Collect { token_id: U256::ONE }, KeyedChange::Close { token_id: U256::ONE, least }] {
        let data = holder.plan(change).calldata(me);
        holder.assert_breaks(holder.withdrawal(data, [0, 0]), "nft", "not the account's").await;
    }
    // Currencies of another pool, in the call and in the declaration.
    let mut mixed = holder.plan(KeyedChange::Collect { token_id });
    mixed.currencies[0] = Address::ZERO;
    let mut proposal = holder.withdrawal(mixed.calldata(me), [0, 0]);
    holder.assert_breaks(proposal.clone(), "calldata", "declared otherwise").await;
    proposal.inflows[0].token = TokenInfo::native(holder.world.client.network());
    holder.assert_breaks(proposal, "inflow", "not the position's").await;
    for deadline in [U256::MAX, holder.deadline + U256::from(86_400), U256::ONE] {
        for change in [KeyedChange::Collect { token_id }, KeyedChange::Close { token_id, least }] {
            let data = KeyedPlan { deadline, ..holder.plan(change) }.calldata(me);
            let given = if matches!(change, KeyedChange::Collect { .. }) { [0, 0] } else { least };
            holder.assert_breaks(holder.withdrawal(data, given), "deadline", "late").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_v4_deposit_is_bounded_and_for_the_account() {
    let holder = Holder::new(6).await;
    let (me, token_id) = (holder.world.account(), holder.token_id);
    let (_, most) = holder.bounds().await;
    let mint = holder.mint(Address::ZERO, most);
    let honest = || holder.deposit(mint.calldata(me), most);
    assert!(holder.world.preview(honest()).await.is_ok());
    let given = holder.deposit(mint.calldata(STRANGER), most);
    holder.assert_breaks(given, "calldata", "for somebody else").await;
    let deposit = KeyedDeposit { liquidity: LIQUIDITY, most };
    let increase = |token_id| holder.plan(KeyedChange::Increase { token_id, deposit });
    let with_rest = |data: Bytes| {
        let rest = holder.withdrawal(data.clone(), [0, 0]).inflows;
        Proposal { inflows: rest, ..holder.deposit(data, most) }
    };
    assert!(holder.world.preview(with_rest(increase(token_id).calldata(me))).await.is_ok());
    holder.assert_breaks(with_rest(increase(U256::ONE).calldata(me)), "nft", "another's position").await;
    // Maximums beyond the slippage, of both tokens and of one.
    for at in [0, 1] {
        let mut loose = most;
        loose[at] *= 2;
        let data = holder.mint(Address::ZERO, loose).calldata(me);
        assert_eq!(holder.broken(holder.deposit(data, loose)).await, ["outflow"], "{at}");
    }
    // More than is declared, and liquidity for nothing.
    let less = [most[0] - 1, most[1]];
    holder.assert_breaks(holder.deposit(mint.calldata(me), less), "calldata", "more than declared").await;
    let late = KeyedPlan { deadline: U256::MAX, ..mint };
    holder.assert_breaks(holder.deposit(late.calldata(me), most), "deadline", "for ever").await;
    // A compounding that nothing is owed for.
    let compound = holder.plan(KeyedChange::Compound { token_id, deposit }).calldata(me);
    holder.assert_breaks(with_rest(compound), "outflow", "nothing is owed").await;
    // Another pool than the declared tokens', and one that was never given a price.
    let mut other = mint;
    if let KeyedChange::Mint { key, .. } = &mut other.change {
        key.fee = U24::from(77);
    }
    holder.assert_breaks(holder.deposit(other.calldata(me), most), "calldata", "no such pool").await;
    let native = KeyedPlan { currencies: [Address::ZERO, holder.currencies()[1]], ..increase(token_id) };
    let mut bringing = holder.deposit(native.calldata(me), most);
    bringing.legs[0].value = native.value();
    holder.assert_breaks(bringing, "calldata", "currencies that are not declared").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_deposited_where_a_hook_lets_nothing_in_or_out() {
    let holder = Holder::new(7).await;
    let (me, (_, most)) = (holder.world.account(), holder.bounds().await);
    let price = holder.price().await.to();
    let pools = holder.world.contract(KnownContract::V4PoolManager);
    for hooks in [ADDING_HOOK, REMOVING_HOOK] {
        holder.world.send(pools, PoolManager::initializeCall { key: holder.key(hooks), sqrtPriceX96: price }).await;
    }
    let data = holder.mint(ADDING_HOOK, most).calldata(me);
    holder.assert_breaks(holder.deposit(data, most), "simulation", "a hook that lets nothing in").await;
    // Without any code the second one lets the deposit in: nothing but the simulated withdrawal forbids it.
    let data = holder.mint(REMOVING_HOOK, most).calldata(me);
    assert_eq!(holder.broken(holder.deposit(data, most)).await, ["pool_hook"]);
}

/// Allowances beside a deposit: each exact, through Permit2, until the deadline, and revoked.
#[tokio::test(flavor = "multi_thread")]
async fn allowances_beside_a_v4_deposit_are_exact_and_end() {
    let holder = Holder::new(8).await;
    for token in holder.currencies() {
        holder.world.send(token, Erc20::approveCall { spender: holder.permit2, value: U256::ZERO }).await;
        let pair = Permit2::TokenSpenderPair { token, spender: holder.manager };
        holder.world.send(holder.permit2, Permit2::lockdownCall { approvals: vec![pair] }).await;
    }
    let (me, (_, most)) = (holder.world.account(), holder.bounds().await);
    let until: u64 = holder.deadline.to();
    let currencies = holder.currencies();
    let token = |purpose, at: usize, spender, value: U256| {
        leg(purpose, currencies[at], Erc20::approveCall { spender, value }.abi_encode().into())
    };
    let inside = |at: usize, spender, amount: u128, until: u64| {
        let (amount, expiration) = (U160::from(amount), U48::from(until));
        let call = Permit2::approveCall { token: currencies[at], spender, amount, expiration };
        leg(LegPurpose::Approve, holder.permit2, call.abi_encode().into())
    };
    let ended = |spender| {
        let pair = |at: usize| Permit2::TokenSpenderPair { token: currencies[at], spender };
        let call = Permit2::lockdownCall { approvals: vec![pair(0), pair(1)] };
        leg(LegPurpose::CleanUp, holder.permit2, call.abi_encode().into())
    };
    let bound = |at: usize, spender, kind, at_most: u64| AllowanceBound {
        token: holder.tokens[at].clone(),
        spender,
        kind,
        at_most: U256::from(at_most),
    };
    let honest = || {
        let mut proposal = holder.deposit(holder.mint(Address::ZERO, most).calldata(me), most);
        let main = proposal.legs.remove(0);
        proposal.legs = vec![
            token(LegPurpose::Approve, 0, holder.permit2, U256::from(most[0])),
            inside(0, holder.manager, most[0], until),
            token(LegPurpose::Approve, 1, holder.permit2, U256::from(most[1])),
            inside(1, holder.manager, most[1], until),
            main,
            ended(holder.manager),
            token(LegPurpose::CleanUp, 0, holder.permit2, U256::ZERO),
            token(LegPurpose::CleanUp, 1, holder.permit2, U256::ZERO),
        ];
        let kind = AllowanceKind::Permit2 { expires_at: until };
        proposal.allowances = [0, 1]
            .into_iter()
            .flat_map(|at| [bound(at, holder.permit2, AllowanceKind::Erc20, 0), bound(at, holder.manager, kind, 0)])
            .collect();
        proposal
    };
    let preview = holder.world.preview(honest()).await;
    assert!(preview.is_ok(), "{preview:?}");
    let changes: Vec<(&str, usize, PlanLeg)> = vec![
        ("more for Permit2", 0, token(LegPurpose::Approve, 0, holder.permit2, U256::MAX)),
        ("for the manager itself", 0, token(LegPurpose::Approve, 0, holder.manager, U256::from(most[0]))),
        ("for a stranger", 0, token(LegPurpose::Approve, 0, STRANGER, U256::from(most[0]))),
        ("more inside", 1, inside(0, holder.manager, most[0] + 1, until)),
        ("a stranger inside", 1, inside(0, STRANGER, most[0], until)),
        ("later than the call", 1, inside(0, holder.manager, most[0], until + 1)),
        ("for ever", 1, inside(0, holder.manager, most[0], (1 << 48) - 1)),
        ("the end of another's", 5, ended(STRANGER)),
        ("a unit left", 6, token(LegPurpose::CleanUp, 0, holder.permit2, U256::ONE)),
    ];
    for (what, at, other) in changes {
        let mut proposal = honest();
        proposal.legs[at] = other;
        holder.assert_breaks(proposal, "calldata", what).await;
    }
    let mut left = honest();
    left.allowances[0].at_most = U256::ONE;
    holder.assert_breaks(left, "calldata", "a declared rest").await;
}

/// An endpoint that hides the events of an account's V4 positions hides no position: their number says that they are missing.
/// One that does not answer for all blocks at once is asked for fewer.
#[test]
fn positions_whose_events_are_hidden_are_missed() {
    let list = |lie: Lie| {
        let attack = Attack::new(1, 0, lie);
        // The genesis liquidity of the devnet.
        let treasury = attack.call("get_position", &json!({"chain": "ethereum", "position_id": "v4:1"}));
        let owner = treasury["data"]["positions"][0]["owner"].clone();
        let (mut of_v4, mut from, mut last) = (0, json!(0), Value::Null);
        while !from.is_null() {
            last = attack.call("list_positions", &json!({"chain": "ethereum", "account": owner, "offset": from}));
            assert_eq!(last["status"], "success", "{last}");
            let rows = last["data"]["positions"].as_array().unwrap();
            of_v4 += rows.iter().filter(|row| row["version"] == "V4").count();
            from = last["data"]["next_offset"].clone();
        }
        let number = |field: &str| usize::try_from(last["data"][field].as_u64().unwrap()).unwrap();
        let says_so = last["explanation"].as_str().unwrap().contains("could not be read");
        assert_eq!(says_so, number("unread_count") > 0, "{last}");
        (of_v4, number("unread_count"), number("position_count"))
    };
    let is_logs = |asked: &Value| asked["method"] == "eth_getLogs";
    let (honest, unread, all) = list(Box::new(|_, _| {}));
    assert!(honest > 0 && unread == 0, "{honest} {unread}");
    let hidden = list(Box::new(move |asked, answer| {
        if is_logs(asked) {
            answer["result"] = json!([]);
        }
    }));
    assert_eq!((hidden.0, hidden.2), (0, all));
    assert!(hidden.1 >= honest, "{hidden:?} {honest}");
    let refused = AtomicUsize::new(0);
    let narrow = list(Box::new(move |asked, answer| {
        if is_logs(asked) && refused.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            answer.as_object_mut().unwrap().remove("result");
            answer["error"] = json!({"code": -32005, "message": "query returned more than 10000 results"});
        }
    }));
    assert_eq!(narrow, (honest, 0, all));
    // Many endpoints answer for less than ten thousand blocks.
    let short = list(Box::new(move |asked, answer| {
        let block = |field: &str| {
            let text = asked["params"][0][field].as_str()?;
            u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
        };
        if is_logs(asked) && block("toBlock").unwrap() - block("fromBlock").unwrap() >= 100 {
            answer.as_object_mut().unwrap().remove("result");
            answer["error"] = json!({"code": -32602, "message": "block range is too large: at most 100"});
        }
    }));
    assert_eq!(short, (honest, 0, all));
}
