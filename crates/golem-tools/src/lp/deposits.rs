//! Shared parts of `add_liquidity`, `increase_liquidity` and `compound_fees`.

use alloy::primitives::aliases::{U48, U160};
use alloy::primitives::{Address, B256, U256};
use alloy::sol_types::{SolCall as _, SolEvent as _};
use schemars::JsonSchema;
use serde::Serialize;

use super::exits::narrow;
use crate::allowances;
use crate::data::get_position::not_found;
use crate::engine::{CallContext, ConnectedChain, ToolReply};
use crate::positions::{self, impossible};
use crate::shared::{PlanReceipt, explorer_url, insufficient, invalid, per_whole, whole};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_abi::uniswap_v3::NonfungiblePositionManager as Manager;
use bardo_abi::uniswap_v4::{PoolKey, PoolManager, PositionManager as KeyedManager};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::TxState;
use bardo_base::format::fee;
use bardo_base::units::{BasisPoints, TokenAmount};
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent,
};
use golem_chain::network::KnownContract;
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::positions::{PositionChange, PositionId, PositionPool, PositionState};
use golem_protocols::uniswap::v3::manager::{Deposit, PositionPlan};
use golem_protocols::uniswap::v3::math::MathError;
use golem_protocols::uniswap::v3::position::{TickRange, price_of, sqrt_prices_around};
use golem_protocols::uniswap::v4::liquidity_fault;
use golem_protocols::uniswap::v4::manager::{KeyedChange, KeyedDeposit, KeyedPlan};

/// Checks of the tools.
pub(super) use crate::shared::CHECKS;

/// Time until a deposit expires, in seconds. Allowances come before it, each in a block of its own.
const EXPIRES_IN: u64 = 900;

/// Gas limit of a deposit. A new position in plain tokens uses about 450,000 where it is the first at both of its ticks;
/// tokens with more code need more.
const DEPOSIT_GAS: u64 = 700_000;

/// Highest fee that a pool can have by itself, in hundredths of a basis point: all of the input.
const MAX_FEE: u32 = 1_000_000;

/// Part of a named amount from which on its unused rest is mentioned: a thousandth.
const REST_FROM: u64 = 1_000;

/// Result of a deposit into a position.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the transaction that made the deposit; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Identity of the position: the number of its token, of V4 with `v4:` before it; absent before a new one exists.
    position_id: Option<String>,
    /// Symbol of the pool's first token, as listed; otherwise its address.
    token0: String,
    /// Symbol of the pool's second token, as listed; otherwise its address.
    token1: String,
    /// Amount of token0 deposited, in whole tokens, by the receipt; the simulated amount, or of fees the maximum, before
    /// inclusion. An addition in V4 pays out what the position was owed as well, and its events do not tell the amounts
    /// apart: what the wallet gave counts, and of compounded fees the maximum.
    amount0: String,
    /// Amount of token1 deposited, like `amount0`.
    amount1: String,
    /// Liquidity that was added, in the pool's units; absent before inclusion.
    liquidity_added: Option<String>,
    /// Lower tick of the range, rounded outward to the pool's spacing.
    tick_lower: i32,
    /// Upper tick of the range, rounded outward to the pool's spacing.
    tick_upper: i32,
    /// Price of one whole token0 in whole tokens of token1 at the lower tick.
    price_lower: String,
    /// Price at the upper tick.
    price_upper: String,
    /// Price of the pool when the deposit was prepared.
    price: String,
    /// Gas used by all transactions, or the simulated gas, in gas units.
    gas_used: u64,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Values kept from preparation for the result.
pub struct DepositPlan {
    id: Option<PositionId>,
    range: TickRange,
    /// True if the tokens are the position's fees.
    compounds: bool,
    /// Contract that holds the pool's tokens.
    holder: Address,
    /// True for a pool of V4.
    is_keyed: bool,
    /// Fee of the pool in hundredths of a basis point.
    fee: u32,
    tokens: [TokenInfo; 2],
    symbols: [String; 2],
    prices: [String; 3],
    /// Amounts that the call named, as maximums; `None` for one that it left open.
    named: [Option<U256>; 2],
    slippage: BasisPoints,
}

impl DepositPlan {
    /// Takes what the result needs from a target. `compounds` is true if the tokens are the position's fees, `named` are
    /// the amounts of the call.
    fn of(
        target: &Target,
        states: &[TokenState; 2],
        holder: Address,
        (compounds, named): (bool, [Option<U256>; 2]),
        slippage: BasisPoints,
    ) -> Result<Self, ToolError> {
        let [low, high] = target.range.sqrt_prices().map_err(impossible)?;
        let [of0, of1] = [&states[0].token, &states[1].token];
        let price =
            |sqrt: U256| per_whole(price_of(sqrt), of0, of1).ok_or_else(|| impossible(MathError::PriceOutOfRange));
        let symbol = |state: &TokenState| match state.token.listed {
            true => state.token.symbol.to_string(),
            false => state.contract.to_string(),
        };
        Ok(Self {
            id: target.id,
            range: target.range,
            compounds,
            holder,
            is_keyed: target.pool.id().contract().is_none(),
            fee: target.fee,
            symbols: [symbol(&states[0]), symbol(&states[1])],
            prices: [price(low)?, price(high)?, price(target.sqrt_price_x96)?],
            tokens: [of0.clone(), of1.clone()],
            named,
            slippage,
        })
    }

    /// Says where less is used than the call named, and why; empty where nothing worth mentioning stays.
    fn rest(&self, used: &[TokenAmount; 2]) -> String {
        let parts = used.iter().zip(self.named).zip(&self.symbols).filter_map(|((used, named), symbol)| {
            let named = TokenAmount::new(named?, used.decimals()).ok()?;
            // Rounding to the pool's units is not worth a word.
            let is_less = used.raw().saturating_add(named.raw() / U256::from(REST_FROM)) < named.raw();
            is_less.then(|| format!("{} of at most {} {symbol}", whole(used), whole(&named)))
        });
        let parts: Vec<String> = parts.collect();
        if parts.is_empty() {
            return String::new();
        }
        let why = match self.is_keyed {
            true => format!(
                "V4 adds a fixed liquidity, chosen so that the maximum is kept if the price moves by the slippage of {}",
                self.slippage
            ),
            false => "the range takes both tokens in one proportion at this price".to_owned(),
        };
        format!("; this uses {}, because {why}", parts.join(" and "))
    }

    /// Pool of the position, such as `WETH/USDC in V4, fee 0.3 %`.
    fn pool(&self) -> String {
        let (version, [symbol0, symbol1]) = (if self.is_keyed { "V4" } else { "V3" }, &self.symbols);
        // A hook sets the fee of such a pool with each swap.
        let fee = if self.fee > MAX_FEE { "set by its hook".to_owned() } else { fee(self.fee) };
        format!("{symbol0}/{symbol1} in {version}, fee {fee}")
    }

    fn sentence(&self, amounts: &[TokenAmount; 2], is_done: bool) -> String {
        let ([symbol0, symbol1], [low, high, price]) = (&self.symbols, &self.prices);
        let [amount0, amount1] = amounts.each_ref().map(whole);
        let both = format!("{amount0} {symbol0} and {amount1} {symbol1}");
        let (lower, upper) = (self.range.lower(), self.range.upper());
        let rest = self.rest(amounts);
        let range = format!("price now {price}, range {low} to {high} (ticks {lower} to {upper}){rest}");
        let verb = |now: &'static str, past: &'static str| if is_done { past } else { now };
        match self.id {
            None => {
                let open = verb("Open a new position for your account", "Opened a new position for your account");
                format!("{open}: {}, with {both}; {range}", self.pool())
            }
            Some(id) if self.compounds => {
                let (collect, add) = (verb("Collect", "Collected"), verb("add", "added"));
                // Events of V4 tell the liquidity, and not what it took of the fees: the rest went to the wallet.
                let most = if self.is_keyed { "at most " } else { "" };
                format!("{collect} the fees of position {id} and {add} {most}{both} of them")
            }
            Some(id) => format!("{} {both} to position {id}, {}; {range}", verb("Add", "Added"), self.pool()),
        }
    }
}

/// Place of a deposit.
pub(super) struct Target {
    /// Position that is added to; `None` for a new one.
    pub(super) id: Option<PositionId>,
    /// Pool of the position.
    pub(super) pool: PositionPool,
    /// Fee of the pool in hundredths of a basis point.
    pub(super) fee: u32,
    /// Range of the position.
    pub(super) range: TickRange,
    /// Square root of the pool's price, times 2^96.
    pub(super) sqrt_price_x96: U256,
    /// Time of the block that it was read in, in seconds since the Unix epoch.
    pub(super) head_time: u64,
}

/// Source of a deposit's tokens.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// The wallet: amounts of token0 and token1 as a call names them, and the names of these parameters.
    Wallet([Option<&'a str>; 2], [&'static str; 2]),
    /// Fees of the position, in raw units.
    Fees([U256; 2]),
}

/// Refuses paper mode, which keeps no positions.
///
/// # Errors
/// `VALIDATION_FAILED` in paper mode.
pub(super) fn refuse_paper(context: &CallContext) -> Result<(), ToolError> {
    let what = "liquidity positions are not kept in paper mode, so nothing can be deposited there";
    context.world.paper().map_or(Ok(()), |_| Err(ToolError::new(ErrorCode::ValidationFailed, what)))
}

/// Contract of a token of a V3 pool.
///
/// # Errors
/// `VALIDATION_FAILED` for the native token.
pub(super) fn contract(token: &TokenInfo, parameter: &str) -> Result<Address, ToolError> {
    match token.id {
        TokenId::Erc20(address) => Ok(address),
        TokenId::Native => {
            let what = format_args!(
                "V3 pools hold the wrapped token: use W{0}, and wrap_native to get it, or V4",
                token.symbol
            );
            Err(invalid(parameter, &what))
        }
    }
}

/// Balance and allowance of one token of a deposit.
struct TokenState {
    token: TokenInfo,
    /// Contract of the token; the zero address for the native one, which needs no allowance.
    contract: Address,
    allowed: U256,
    /// Balance, and what signed orders may still take of it.
    held: [U256; 2],
}

async fn token_state(
    context: &CallContext,
    chain: &ConnectedChain,
    (token, contract): (&TokenInfo, Address),
    (account, spender): (Address, Address),
) -> Result<TokenState, ToolError> {
    if token.id == TokenId::Native {
        let held = [chain.native_balance(account).await?, U256::ZERO];
        return Ok(TokenState { token: token.clone(), contract, allowed: U256::MAX, held });
    }
    let (now, _) = allowances::read(chain, contract, account, spender, &[]).await?;
    let promised = context.world.promised(chain.network().chain_id, account, contract)?;
    Ok(TokenState { token: token.clone(), contract, allowed: now.of_token, held: [now.balance, promised] })
}

/// Amounts of token0 and token1 that a call names, in raw units. `parameters` are the names of the amounts in the order of
/// the tokens.
fn wished(
    texts: [Option<&str>; 2],
    parameters: [&'static str; 2],
    states: &[TokenState; 2],
) -> Result<[Option<U256>; 2], ToolError> {
    let parse = |at: usize| {
        let (Some(text), Some(state), Some(parameter)) = (texts.get(at), states.get(at), parameters.get(at)) else {
            return Ok(None);
        };
        let Some(text) = text else { return Ok(None) };
        let [held, promised] = state.held;
        let raw = match text.trim().eq_ignore_ascii_case("max") {
            true if state.token.id == TokenId::Native => {
                return Err(invalid(parameter, &"name an amount: gas is paid in this token, too"));
            }
            true => held.saturating_sub(promised),
            false => TokenAmount::parse(text, state.token.decimals).map_err(|error| invalid(parameter, &error))?.raw(),
        };
        Ok::<_, ToolError>(Some(raw))
    };
    match [parse(0)?, parse(1)?] {
        [None, None] => Err(invalid(parameters[0], &"name an amount of one token or of both")),
        wish => Ok(wish),
    }
}

/// Errors of a deposit beside one token alone.
fn one_sided(parameter: &'static str) -> impl Fn(MathError) -> ToolError {
    move |error| match error {
        MathError::PriceOutOfRange => invalid(parameter, &"at the pool's price this range takes only the other token"),
        other => invalid(parameter, &format_args!("the position cannot hold that much: {other}")),
    }
}

/// Amounts that a deposit into a V3 position takes at most, in raw units: both as named, or the other one as it follows by
/// the range and the price.
fn offered(wish: [Option<U256>; 2], parameters: [&'static str; 2], target: &Target) -> Result<[U256; 2], ToolError> {
    let (range, price) = (target.range, target.sqrt_price_x96);
    let alone = |error: MathError| invalid(parameters[0], &format_args!("the position cannot hold that much: {error}"));
    let [name0, name1] = parameters;
    let most = match wish {
        [None, None] => [U256::ZERO; 2],
        [Some(first), Some(second)] => [first, second],
        // As much of the other token as the first one's liquidity needs.
        [Some(first), None] => [first, range.beside_first(price, first).map_err(one_sided(name0))?],
        [None, Some(second)] => [range.beside_second(price, second).map_err(one_sided(name1))?, second],
    };
    let (liquidity, taken) = range.deposit(price, most).map_err(alone)?;
    if liquidity == 0 {
        return Err(invalid(parameters[0], &"too little for this range at the pool's price"));
    }
    Ok(taken)
}

/// Liquidity of a deposit into a V4 position, and what it takes at most while the price is within the slippage: no more than
/// the named amounts. The lower the price, the more of token0 is taken, and the higher, the more of token1.
fn offered_for_liquidity(
    wish: [Option<U256>; 2],
    parameters: [&'static str; 2],
    target: &Target,
    slippage: BasisPoints,
) -> Result<KeyedDeposit, ToolError> {
    let (range, price) = (target.range, target.sqrt_price_x96);
    let [low, high] = sqrt_prices_around(price, slippage);
    let [name0, name1] = parameters;
    let alone = |error: MathError| invalid(name0, &format_args!("the position cannot hold that much: {error}"));
    let liquidity = match wish {
        [None, None] => 0,
        [Some(first), Some(second)] => {
            let at = |price| range.liquidity_for(price, [first, second]).map_err(alone);
            at(low)?.min(at(high)?)
        }
        [Some(first), None] => {
            range.liquidity_for_first(price, first).map_err(one_sided(name0))?;
            range.liquidity_for_first(low, first).map_err(one_sided(name0))?
        }
        [None, Some(second)] => {
            range.liquidity_for_second(price, second).map_err(one_sided(name1))?;
            range.liquidity_for_second(high, second).map_err(one_sided(name1))?
        }
    };
    if liquidity == 0 {
        return Err(invalid(name0, &"too little for this range within the slippage of the pool's price"));
    }
    let at = |price| range.amounts(price, liquidity, true).map_err(alone);
    let ([most0, _], [_, most1]) = (at(low)?, at(high)?);
    Ok(KeyedDeposit { liquidity, most: narrow([most0, most1])? })
}

/// Prepares a deposit into a position of the wallet, from the source that `from` names by the position's state.
///
/// # Errors
/// `POSITION_NOT_FOUND` without such a position; `VALIDATION_FAILED` for one of another account; those of [`prepare`].
pub(super) async fn into_position<'a>(
    context: &CallContext,
    (position, chain): (&str, &str),
    from: impl FnOnce(&PositionState) -> Source<'a>,
    slippage: BasisPoints,
) -> Result<(Proposal, DepositPlan), ToolError> {
    let chain = context.world.chain(chain)?;
    let account = context.world.account(None)?;
    refuse_paper(context)?;
    let id: PositionId = position.parse().map_err(|error| invalid("position_id", &error))?;
    context.step("Reading position");
    let (head, read) = positions::read(chain, &[id]).await?;
    let Some(state) = read.states.first().copied().flatten() else { return Err(not_found(chain.network(), id)) };
    if state.owner != account {
        return Err(invalid("position_id", &format_args!("position {id} belongs to {}", state.owner)));
    }
    let key = state.key;
    if let PositionPool::Keyed(pool) = key.pool
        && let Some(what) = liquidity_fault(&pool)
    {
        return Err(invalid("position_id", &format_args!("nothing is added to this pool: {what}")));
    }
    let token = |address| Ok::<_, ToolError>((read.token(address)?.clone(), address));
    let target = Target {
        id: Some(id),
        pool: key.pool,
        fee: key.fee,
        range: key.range,
        sqrt_price_x96: state.sqrt_price_x96,
        head_time: head.time,
    };
    prepare(context, chain, target, [token(key.token0)?, token(key.token1)?], from(&state), slippage).await
}

/// Prepares a deposit of at most the wished amounts.
///
/// # Errors
/// `VALIDATION_FAILED` for amounts that make no position, `INSUFFICIENT_BALANCE`, and the errors of the chain.
pub(super) async fn prepare(
    context: &CallContext,
    chain: &ConnectedChain,
    target: Target,
    tokens: [(TokenInfo, Address); 2],
    source: Source<'_>,
    slippage: BasisPoints,
) -> Result<(Proposal, DepositPlan), ToolError> {
    let account = context.world.account(None)?;
    let contracts = positions::contracts(chain)?;
    let no_v4 = || {
        let what = format_args!("the address book of {} has no contracts of V4", chain.network());
        ToolError::new(ErrorCode::ChainUnsupported, what)
    };
    let (manager, spender) = match target.pool {
        PositionPool::Contract(_) => (contracts.manager, contracts.manager),
        // The manager of V4 takes tokens through Permit2.
        PositionPool::Keyed(_) => (contracts.v4.ok_or_else(no_v4)?.manager, chain.contract(KnownContract::Permit2)?),
    };
    let holder = contracts.holder(&target.pool).ok_or_else(no_v4)?;
    let [first, second] = &tokens;
    let state = |one: &(TokenInfo, Address)| {
        let one = one.clone();
        async move { token_state(context, chain, (&one.0, one.1), (account, spender)).await }
    };
    let (first, second) = futures::try_join!(state(first), state(second))?;
    let states = [first, second];
    let (wish, parameters, compounds) = match source {
        Source::Wallet(texts, parameters) => (wished(texts, parameters, &states)?, parameters, false),
        Source::Fees(owed) => (owed.map(Some), ["position_id", "position_id"], true),
    };
    let deadline = chain.deadline_time(&*context.world.clock, target.head_time).saturating_add(EXPIRES_IN);
    let (plan, most, expected) = match target.pool {
        PositionPool::Contract(_) => {
            let (plan, most) = in_v3(&target, (wish, parameters, compounds), &states, slippage, deadline)?;
            (plan, most, most)
        }
        PositionPool::Keyed(key) => in_v4(&target, key, (wish, parameters, compounds), slippage, deadline)?,
    };
    for (state, needed) in states.iter().zip(most).filter(|_| !compounds) {
        let [held, promised] = state.held;
        if needed > held.saturating_sub(promised) {
            return Err(insufficient(&state.token, [needed, held, promised])?);
        }
    }
    let main = PlanLeg {
        purpose: LegPurpose::Main,
        to: manager,
        value: plan.value(),
        data: plan.calldata(account),
        gas_limit: DEPOSIT_GAS,
        slots: Vec::new(),
    };
    let is_keyed = target.pool.id().contract().is_none();
    let (legs, bounds) = match is_keyed {
        false => allowed_directly(chain, &states, most, (account, manager), main).await?,
        // The fees pay for all of it.
        true if compounds => (vec![main], Vec::new()),
        true => allowed_through_permit2(chain, &states, most, (account, spender, deadline), main).await?,
    };
    let named = if compounds { [None; 2] } else { wish };
    let kept = DepositPlan::of(&target, &states, holder, (compounds, named), slippage)?;
    let [of0, of1] = [&states[0].token, &states[1].token];
    let expected_whole = [TokenAmount::new(expected[0], of0.decimals)?, TokenAmount::new(expected[1], of1.decimals)?];
    let outflow = |token: &TokenInfo, amount| Outflow { token: token.clone(), amount };
    let rest = |state: &TokenState| Inflow {
        token: state.token.clone(),
        at_least: U256::ZERO,
        expected: U256::ZERO,
        recipient: account,
    };
    let proposal = Proposal {
        legs,
        outflows: vec![outflow(of0, most[0]), outflow(of1, most[1])],
        // What the fees leave, however little. An addition in V4 collects them, too.
        inflows: states.iter().filter(|_| compounds || is_keyed && target.id.is_some()).map(rest).collect(),
        allowances: bounds,
        ..context.proposal(
            chain.network().chain_id,
            account,
            ProposalIntent::Liquidity,
            &kept.sentence(&expected_whole, false),
        )
    };
    Ok((proposal, kept))
}

/// Deposit into a V4 position, what it takes at most, and what is expected of it.
fn in_v4(
    target: &Target,
    key: PoolKey,
    (wish, parameters, compounds): ([Option<U256>; 2], [&'static str; 2], bool),
    slippage: BasisPoints,
    deadline: u64,
) -> Result<(PositionChange, [U256; 2], [U256; 2]), ToolError> {
    let deposit = offered_for_liquidity(wish, parameters, target, slippage)?;
    let change = match target.id.map(PositionId::token) {
        Some(token_id) if compounds => KeyedChange::Compound { token_id, deposit },
        Some(token_id) => KeyedChange::Increase { token_id, deposit },
        None => KeyedChange::Mint { key, range: target.range, deposit },
    };
    let currencies = [key.currency0, key.currency1];
    let plan = KeyedPlan { currencies, change, deadline: U256::from(deadline) };
    let expected = target.range.amounts(target.sqrt_price_x96, deposit.liquidity, true).map_err(impossible)?;
    Ok((PositionChange::V4(plan), deposit.most.map(U256::from), expected))
}

/// Deposit into a V3 position, and what it takes at most.
fn in_v3(
    target: &Target,
    (wish, parameters, compounds): ([Option<U256>; 2], [&'static str; 2], bool),
    states: &[TokenState; 2],
    slippage: BasisPoints,
    deadline: u64,
) -> Result<(PositionChange, [U256; 2]), ToolError> {
    let most = if compounds {
        let owed = wish.map(Option::unwrap_or_default);
        let (liquidity, taken) = target.range.deposit(target.sqrt_price_x96, owed).map_err(impossible)?;
        if liquidity == 0 {
            let what = "the fees owed add no liquidity at the pool's price; collect_fees collects them";
            return Err(invalid("position_id", &what));
        }
        taken
    } else {
        offered(wish, parameters, target)?
    };
    let least = target.range.least_deposit(target.sqrt_price_x96, most, slippage).map_err(impossible)?;
    let deposit = Deposit { most, least, deadline: U256::from(deadline) };
    let [token0, token1] = [states[0].contract, states[1].contract];
    let plan = match target.id.map(PositionId::token) {
        Some(token_id) if compounds => PositionPlan::Compound { token_id, deposit },
        Some(token_id) => PositionPlan::Increase { token_id, deposit },
        None => PositionPlan::Mint { token0, token1, fee: target.fee, range: target.range, deposit },
    };
    Ok((PositionChange::V3(plan), most))
}

/// The main call between the allowances for its manager that are missing, each exact, and their end.
async fn allowed_directly(
    chain: &ConnectedChain,
    states: &[TokenState; 2],
    most: [U256; 2],
    (account, manager): (Address, Address),
    main: PlanLeg,
) -> Result<(Vec<PlanLeg>, Vec<AllowanceBound>), ToolError> {
    let (mut legs, mut clean_up, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
    for (state, most) in states.iter().zip(most).filter(|(state, most)| state.allowed < *most) {
        allow(chain, state, most, (account, manager), (&mut legs, &mut clean_up, &mut bounds)).await?;
    }
    legs.push(main);
    legs.extend(clean_up);
    Ok((legs, bounds))
}

/// Adds the allowance of a token for a spender, what must come before it, its end, and its bound.
async fn allow(
    chain: &ConnectedChain,
    state: &TokenState,
    most: U256,
    (account, spender): (Address, Address),
    (legs, clean_up, bounds): (&mut Vec<PlanLeg>, &mut Vec<PlanLeg>, &mut Vec<AllowanceBound>),
) -> Result<(), ToolError> {
    let contract = state.contract;
    let is_set = !state.allowed.is_zero();
    if is_set && allowances::needs_zero_first(chain, contract, account, spender, most).await? {
        legs.push(allowances::approve(LegPurpose::Approve, contract, spender, U256::ZERO));
    }
    legs.push(allowances::approve(LegPurpose::Approve, contract, spender, most));
    clean_up.push(allowances::approve(LegPurpose::CleanUp, contract, spender, U256::ZERO));
    let (token, kind) = (state.token.clone(), AllowanceKind::Erc20);
    bounds.push(AllowanceBound { token, spender, kind, at_most: U256::ZERO });
    Ok(())
}

/// The main call between the allowances through Permit2 for its manager, each exact and until its deadline, and their end.
///
/// # Errors
/// `VALIDATION_FAILED` for a token whose allowance for Permit2 signed orders need.
async fn allowed_through_permit2(
    chain: &ConnectedChain,
    states: &[TokenState; 2],
    most: [U256; 2],
    (account, permit2, deadline): (Address, Address, u64),
    main: PlanLeg,
) -> Result<(Vec<PlanLeg>, Vec<AllowanceBound>), ToolError> {
    let (mut legs, mut clean_up, mut bounds, mut ended) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let manager = main.to;
    let is_given = |(state, most): &(&TokenState, U256)| state.token.id != TokenId::Native && !most.is_zero();
    for (state, most) in states.iter().zip(most).filter(is_given) {
        let [_, promised] = state.held;
        if state.allowed < promised.saturating_add(most) {
            if !promised.is_zero() {
                let what = format_args!(
                    "open orders may take {0} through the allowance that this deposit would change; deposit once they \
                     have ended",
                    state.token.symbol
                );
                return Err(ToolError::new(ErrorCode::ValidationFailed, what));
            }
            allow(chain, state, most, (account, permit2), (&mut legs, &mut clean_up, &mut bounds)).await?;
        }
        let call = Permit2::approveCall {
            token: state.contract,
            spender: manager,
            amount: U160::saturating_from(most),
            expiration: U48::saturating_from(deadline),
        };
        legs.push(permit2_leg(LegPurpose::Approve, permit2, call.abi_encode()));
        ended.push(Permit2::TokenSpenderPair { token: state.contract, spender: manager });
        let (token, kind) = (state.token.clone(), AllowanceKind::Permit2 { expires_at: deadline });
        bounds.push(AllowanceBound { token, spender: manager, kind, at_most: U256::ZERO });
    }
    legs.push(main);
    if !ended.is_empty() {
        let call = Permit2::lockdownCall { approvals: ended };
        legs.push(permit2_leg(LegPurpose::CleanUp, permit2, call.abi_encode()));
    }
    legs.extend(clean_up);
    Ok((legs, bounds))
}

fn permit2_leg(purpose: LegPurpose, permit2: Address, data: Vec<u8>) -> PlanLeg {
    let gas_limit = allowances::APPROVAL_GAS;
    PlanLeg { purpose, to: permit2, value: U256::ZERO, data: data.into(), gas_limit, slots: Vec::new() }
}

/// Deposit as its events tell it.
struct Added {
    id: PositionId,
    liquidity: String,
    /// Amounts of token0 and token1; `None` if the events do not tell them.
    amounts: Option<[U256; 2]>,
}

/// Events of the deposit in the included main transaction; `None` before inclusion.
fn added(plan: &DepositPlan, committed: &CommitOutcome) -> Option<Added> {
    let main = committed.legs.iter().find(|leg| leg.purpose == LegPurpose::Main && leg.state == TxState::Confirmed)?;
    let proposal = committed.payload.proposal();
    let manager = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?.to;
    let mut own = main.logs.iter().filter(|log| log.address == manager);
    if !plan.is_keyed {
        return own.find_map(|log| {
            let event = Manager::IncreaseLiquidity::decode_log(log).ok()?.data;
            plan.id.is_none_or(|id| id.token() == event.tokenId).then(|| Added {
                id: PositionId::V3(event.tokenId),
                liquidity: event.liquidity.to_string(),
                amounts: Some([event.amount0, event.amount1]),
            })
        });
    }
    let account = proposal.account;
    let token_id = match plan.id {
        Some(id) => id.token(),
        None => {
            let made = own.filter_map(|log| KeyedManager::Transfer::decode_log(log).ok());
            made.into_iter().find(|event| (event.from, event.to) == (Address::ZERO, account))?.id
        }
    };
    let changes = main.logs.iter().filter(|log| log.address == plan.holder);
    let mut changes = changes.filter_map(|log| PoolManager::ModifyLiquidity::decode_log(log).ok());
    let change = changes.find(|event| event.sender == manager && event.salt == B256::from(token_id))?;
    let given = |token: TokenId| match token {
        TokenId::Erc20(token) => {
            let logs = main.logs.iter().filter(|log| log.address == token);
            let transfers = logs.filter_map(|log| Erc20::Transfer::decode_log(log).ok());
            let mut given =
                transfers.filter(|one| (one.from, one.to) == (account, plan.holder)).map(|one| one.data.value);
            given.try_fold(U256::ZERO, U256::checked_add)
        }
        // No event tells of the native token: the balance on the chain counts, without gas.
        TokenId::Native => {
            let moves = &committed.truth.as_ref()?.moves;
            let moved = moves.iter().find(|moved| moved.token == TokenId::Native);
            Some(moved.map_or(U256::ZERO, |moved| moved.before.saturating_sub(moved.after)))
        }
    };
    let [first, second] = &plan.tokens;
    let amounts = given(first.id).zip(given(second.id)).filter(|_| !plan.compounds);
    Some(Added {
        id: PositionId::V4(token_id),
        liquidity: change.liquidityDelta.to_string(),
        amounts: amounts.map(|(first, second)| [first, second]),
    })
}

pub(super) fn output(
    context: &CallContext,
    plan: DepositPlan,
    committed: &CommitOutcome,
) -> Result<ToolReply<Output>, ToolError> {
    let sent = PlanReceipt::of(context, committed)?;
    let network = context.world.chain(&committed.payload.proposal().chain_id.to_string())?.network();
    // The last transaction of the plan only revokes.
    let main = committed.legs.iter().find(|leg| leg.purpose == LegPurpose::Main);
    let event = added(&plan, committed);
    let simulated = |token: TokenId| {
        let moved = committed.simulated.moves.iter().find(|moved| moved.token == token);
        moved.map_or(U256::ZERO, |moved| moved.before.saturating_sub(moved.after))
    };
    let flows = &committed.payload.proposal().outflows;
    let declared =
        |token: TokenId| flows.iter().find(|flow| flow.token.id == token).map_or(U256::ZERO, |flow| flow.amount);
    let [first, second] = &plan.tokens;
    let taken = match event.as_ref().and_then(|event| event.amounts) {
        Some(amounts) => amounts,
        // The wallet's balances do not show what goes from the fees back into the position.
        None if plan.compounds => [declared(first.id), declared(second.id)],
        None => [simulated(first.id), simulated(second.id)],
    };
    let amounts = [TokenAmount::new(taken[0], first.decimals)?, TokenAmount::new(taken[1], second.decimals)?];
    let id = plan.id.or_else(|| event.as_ref().map(|event| event.id));
    let mut explanation = sent.explain(&plan.sentence(&amounts, committed.state == CommitState::Done));
    if let (None, Some(id)) = (plan.id, id) {
        explanation.push_str(&format!(" It is position {id}."));
    }
    let [amount0, amount1] = amounts.map(|amount| amount.to_string());
    let DepositPlan { range, symbols: [token0, token1], prices: [price_lower, price_upper, price], .. } = plan;
    let output = Output {
        tx_hash: main.map(|leg| leg.hash.to_string()),
        block_number: main.and_then(|leg| leg.block),
        position_id: id.map(|id| id.to_string()),
        token0,
        token1,
        amount0,
        amount1,
        liquidity_added: event.map(|event| event.liquidity),
        tick_lower: range.lower(),
        tick_upper: range.upper(),
        price_lower,
        price_upper,
        price,
        gas_used: sent.gas_used,
        explorer_url: main.map(|leg| explorer_url(network, &leg.hash)),
    };
    Ok(ToolReply::new(output, explanation))
}
