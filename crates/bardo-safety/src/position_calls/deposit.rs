//! Deposits into liquidity positions: new positions, and additions to own ones.
//!
//! A deposit gives tokens for a position, whose value follows from the pool's price. Anybody can move that price, in a thin
//! pool for little, let a deposit be taken at it, and move it back: the position is then worth less than what it took. So
//! both tokens need a price feed, the pool's price must be near the feeds' ([`MAX_DEVIATION`]), and the position at the
//! feeds' price must be worth what is taken but for the policy's loss limit: at the pool's price now, and at both ends of
//! what the call's minimums let through.

use alloy::primitives::{Address, Log, U256};
use alloy::sol_types::{SolCall as _, SolEvent as _};

use super::{PositionManagers, PositionRuleError, drifted, expires_soon, given_tokens, may_name, tokens};
use crate::checks::slippage::at_least;
use crate::proposal::{AllowanceBound, AllowanceKind, LegPurpose, PlanLeg, Proposal};
use crate::simulate::{DeclarationFault, figure};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_abi::uniswap_v3::NonfungiblePositionManager as Manager;
use bardo_base::model::RuleName;
use bardo_base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use golem_chain::token::TokenId;
use golem_protocols::uniswap::positions::{
    ChangeKind, MOST_COUNTED, PositionChange, PositionPool, PricedToken, fair_sqrt_price, token_of,
};
use golem_protocols::uniswap::v3::manager::{Deposit, PositionPlan};
use golem_protocols::uniswap::v3::math::MathError;
use golem_protocols::uniswap::v3::position::{TickRange, price_of, sqrt_prices_around};
use golem_protocols::uniswap::v4::liquidity_fault;
use golem_protocols::uniswap::v4::manager::KeyedDeposit;

/// Maximum distance of a pool's price from the one that the feeds imply, in basis points. Wider than the thresholds at
/// which two feeds of main pairs are updated (0.5 to 1 % each), and small enough that the loss of a deposit at such a
/// price stays a small part of it.
pub const MAX_DEVIATION: u32 = 200;

/// State on the pinned block that a deposit is compared with.
#[derive(Debug, Clone, Copy)]
pub struct DepositGround<'a> {
    /// Pool that the deposit goes to.
    pub pool: PositionPool,
    /// Range of the position.
    pub range: TickRange,
    /// Square root of the pool's price, times 2^96.
    pub sqrt_price_x96: U256,
    /// Amounts of token0 and token1 that the position is owed, in raw units; `None` for a new one.
    pub owed: Option<[U256; 2]>,
    /// True if the position is, or will be, among those that count in the account's value.
    pub is_counted: bool,
    /// Prices of both tokens by their feeds; `None` if one has no live feed.
    pub prices: Option<&'a [PricedToken; 2]>,
    /// Time of the next block, in seconds since the Unix epoch.
    pub now: u64,
    /// Maximum slippage of the policy.
    pub max_slippage: BasisPoints,
    /// Maximum loss of the policy.
    pub max_loss: BasisPoints,
}

/// Checks that a plan does nothing but this deposit: the closed form of the call, its two tokens with their maximums, and
/// beside it only allowances of these tokens for the position manager, each exact and revoked at the end.
///
/// # Errors
/// [`PositionRuleError`] with the reason.
pub(super) fn check(
    plan: &PositionChange,
    most: [U256; 2],
    main: &PlanLeg,
    proposal: &Proposal,
    managers: PositionManagers,
) -> Result<(), PositionRuleError> {
    let moves_more = main.value != plan.value()
        || !main.slots.is_empty()
        || main.purpose != LegPurpose::Main
        || !brings_only_the_rest(plan, proposal)
        || proposal.recipients.iter().any(|one| *one != proposal.account)
        || proposal.trade.is_some()
        || proposal.order.is_some()
        || proposal.replaces.is_some();
    if moves_more {
        return Err(PositionRuleError::DepositMovesMore);
    }
    let tokens = given_tokens(proposal).ok_or(PositionRuleError::Outflows)?;
    let declared = proposal.outflows.iter().map(|flow| flow.amount);
    if !may_name(plan, tokens) || !declared.eq(most) {
        return Err(PositionRuleError::Outflows);
    }
    let allowances = Allowances { plan, manager: main.to, permit2: managers.permit2, tokens, most };
    if proposal.allowances.iter().any(|bound| !bound.at_most.is_zero() || !allowances.may_bound(bound)) {
        return Err(PositionRuleError::DepositMovesMore);
    }
    let (mut is_done, mut mains) = (false, 0);
    for leg in &proposal.legs {
        if leg == main {
            (is_done, mains) = (true, mains + 1);
        } else if !leg.value.is_zero() || !leg.slots.is_empty() || !allowances.are_set_by(leg, is_done) {
            return Err(PositionRuleError::BesideDeposit);
        }
    }
    if mains == 1 { Ok(()) } else { Err(PositionRuleError::BesideDeposit) }
}

/// Allowances that a deposit may set. The manager of V3 takes tokens by an allowance of its own. That of V4 takes them
/// through Permit2: the token allows Permit2, and Permit2 the manager until the deadline of the call.
struct Allowances<'a> {
    plan: &'a PositionChange,
    manager: Address,
    permit2: Option<Address>,
    tokens: [Address; 2],
    most: [U256; 2],
}

impl Allowances<'_> {
    /// Deadline of a V4 plan, in seconds since the Unix epoch; `None` for V3.
    fn until(&self) -> Option<U256> {
        match self.plan {
            PositionChange::V3(_) => None,
            PositionChange::V4(plan) => Some(plan.deadline),
        }
    }

    /// Spender that the tokens themselves allow.
    fn spender(&self) -> Option<Address> {
        match self.plan {
            PositionChange::V3(_) => Some(self.manager),
            PositionChange::V4(_) => self.permit2,
        }
    }

    /// Maximum of a token of the deposit; `None` for any other token.
    fn most_of(&self, token: Address) -> Option<U256> {
        let mut all = self.tokens.into_iter().zip(self.most).filter(|(token, _)| !token.is_zero());
        all.find(|(one, _)| *one == token).map(|(_, most)| most)
    }

    /// Returns true if a declared bound is one of this deposit's.
    fn may_bound(&self, bound: &AllowanceBound) -> bool {
        let ours = match bound.token.id {
            TokenId::Erc20(token) => self.most_of(token).is_some(),
            TokenId::Native => false,
        };
        let kind = match bound.kind {
            AllowanceKind::Erc20 => Some(bound.spender) == self.spender(),
            AllowanceKind::Permit2 { expires_at } => {
                bound.spender == self.manager && self.until() == Some(U256::from(expires_at))
            }
        };
        ours && kind
    }

    /// Returns true if a call sets an allowance to exactly what the deposit needs, or to nothing: that after the deposit, and
    /// before it where a token needs it.
    fn are_set_by(&self, leg: &PlanLeg, is_done: bool) -> bool {
        let is_set = |value: U256, most: U256| match leg.purpose {
            // Some tokens need an allowance of zero before they take another one.
            LegPurpose::Approve => !is_done && (value == most || value.is_zero()),
            LegPurpose::CleanUp => is_done && value.is_zero(),
            LegPurpose::Main => false,
        };
        let exact = |encoded: Vec<u8>| encoded == leg.data.as_ref();
        if let Some(until) = self.until()
            && self.permit2 == Some(leg.to)
        {
            if let Ok(call) = Permit2::approveCall::abi_decode(&leg.data) {
                let most = self.most_of(call.token);
                return exact(call.abi_encode())
                    && call.spender == self.manager
                    && U256::from(call.expiration) == until
                    && most.is_some_and(|most| is_set(U256::from(call.amount), most));
            }
            let Ok(call) = Permit2::lockdownCall::abi_decode(&leg.data) else { return false };
            let ends =
                |pair: &Permit2::TokenSpenderPair| pair.spender == self.manager && self.most_of(pair.token).is_some();
            return exact(call.abi_encode())
                && is_done
                && leg.purpose == LegPurpose::CleanUp
                && call.approvals.iter().all(ends);
        }
        let Ok(call) = Erc20::approveCall::abi_decode(&leg.data) else { return false };
        exact(call.abi_encode())
            && Some(call.spender) == self.spender()
            && self.most_of(leg.to).is_some_and(|most| is_set(call.value, most))
    }
}

/// Returns true if the declared inflows are those of the plan: none, or what is left of both tokens, however little. That
/// is the rest of compounded fees, and in V4 that of the fees which an addition collects as well.
fn brings_only_the_rest(plan: &PositionChange, proposal: &Proposal) -> bool {
    let collects = match (plan, plan.kind()) {
        (_, ChangeKind::Compound) | (PositionChange::V4(_), ChangeKind::Increase) => true,
        (_, ChangeKind::Collect | ChangeKind::Remove | ChangeKind::Close | ChangeKind::Mint)
        | (PositionChange::V3(_), ChangeKind::Increase) => false,
    };
    if !collects {
        return proposal.inflows.is_empty();
    }
    let given = given_tokens(proposal);
    given.is_some() && tokens(proposal) == given && proposal.inflows.iter().all(|inflow| inflow.at_least.is_zero())
}

/// Returns the faults of a deposit against the state on the pinned block. `ground` is `None` if its pool does not exist or
/// was never given a price.
pub fn deposit_faults(
    proposal: &Proposal,
    plan: &PositionChange,
    ground: Option<&DepositGround<'_>>,
) -> Vec<DeclarationFault> {
    let (Some(most), Some(deadline)) = (plan.most(), plan.deadline()) else { return Vec::new() };
    let mut found = Vec::new();
    let Some(ground) = ground else {
        let (declared, is) = ("a pool with a price", "there is no such pool, or it was never given a price");
        return vec![DeclarationFault::new(RuleName::Calldata, declared, is).passing("a pool that others trade in")];
    };
    if !ground.is_counted {
        // Anybody can give an account positions. A deposit beyond those that are read would look like a loss of all of it.
        let declared = format!("a position among the {MOST_COUNTED} of the account that count in its value");
        let fault = DeclarationFault::new(RuleName::Calldata, declared, "the account has too many");
        found.push(fault.passing("an account with fewer positions"));
    }
    if let PositionPool::Keyed(key) = ground.pool
        && let Some(what) = liquidity_fault(&key)
    {
        let declared = "a key that a pool can have";
        found.push(DeclarationFault::new(RuleName::Calldata, declared, what).passing("another pool"));
    }
    expires_soon(deadline, ground.now, &mut found);
    if most == [U256::ZERO; 2] {
        found.push(DeclarationFault::new(RuleName::Calldata, "a deposit of something", "nothing"));
        return found;
    }
    let takes = match plan {
        PositionChange::V3(plan) => plan.deposit().map(Takes::AtMost),
        PositionChange::V4(plan) => plan.deposit().map(Takes::For),
    };
    let Some(takes) = takes else { return found };
    takes.bounds(proposal, ground, &mut found);
    if plan.kind() == ChangeKind::Compound {
        // What is added comes from the fees, so that the wallet gives nothing.
        let owed = ground.owed.unwrap_or_default();
        let tokens = given_tokens(proposal).into_iter().flatten().map(token_of);
        for ((token, most), owed) in tokens.zip(most).zip(owed) {
            if most > owed {
                let declared = format!("at most {}, what the position is owed", figure(proposal, token, owed));
                let fault = DeclarationFault::new(RuleName::Outflow, declared, figure(proposal, token, most));
                found.push(fault.passing("a new preview"));
            }
        }
    }
    let Some(prices) = ground.prices else {
        let fault = DeclarationFault::new(RuleName::Price, "a live price feed of both tokens", "one has none");
        found.push(fault.passing("a pool of two tokens with price feeds"));
        return found;
    };
    let Some(fair) = fair_sqrt_price(*prices) else {
        found.push(DeclarationFault::new(RuleName::Price, "a price that a pool can have", "the feeds imply none"));
        return found;
    };
    let bound = BasisPoints::new(MAX_DEVIATION).unwrap_or(ground.max_slippage);
    let [low, high] = sqrt_prices_around(fair, bound);
    if !(low..=high).contains(&ground.sqrt_price_x96) {
        let part = price_of(ground.sqrt_price_x96).zip(price_of(fair)).and_then(|(pool, fair)| pool.over(&fair));
        let is = part.map_or_else(|| "it is not".to_owned(), |part| format!("it is {} % of it", part.to_percent(2)));
        let fault = DeclarationFault::new(RuleName::Price, format!("a pool price within {bound} of the feeds'"), is);
        found.push(fault.passing("a pool whose price agrees with the feeds, or the same when it does"));
        return found;
    }
    value(&takes, ground, (fair, prices), &mut found);
    found
}

/// Terms of a deposit: amounts, of which the liquidity follows, or liquidity, of which the amounts follow.
enum Takes {
    /// As much as both maximums pay for.
    AtMost(Deposit),
    /// A liquidity, for no more than both maximums.
    For(KeyedDeposit),
}

impl Takes {
    /// Liquidity and amounts at a price; a liquidity of zero where the call reverts.
    fn at(&self, range: TickRange, sqrt_price_x96: U256) -> Result<(u128, [U256; 2]), MathError> {
        match self {
            Self::AtMost(deposit) => range.deposit(sqrt_price_x96, deposit.most),
            Self::For(deposit) => {
                let taken = range.amounts(sqrt_price_x96, deposit.liquidity, true)?;
                let reverts = taken.iter().zip(deposit.most).any(|(taken, most)| *taken > U256::from(most));
                Ok(if reverts { (0, [U256::ZERO; 2]) } else { (deposit.liquidity, taken) })
            }
        }
    }

    /// Adds a fault for each bound that lets the price move farther than the policy's slippage.
    fn bounds(&self, proposal: &Proposal, ground: &DepositGround<'_>, found: &mut Vec<DeclarationFault>) {
        match self {
            Self::AtMost(deposit) => least(proposal, *deposit, ground, found),
            Self::For(deposit) => most(proposal, *deposit, ground, found),
        }
    }
}

/// Adds a fault for each maximum above what the liquidity takes within the policy's slippage.
fn most(proposal: &Proposal, deposit: KeyedDeposit, ground: &DepositGround<'_>, found: &mut Vec<DeclarationFault>) {
    let bound = drifted(ground.max_slippage);
    let [low, high] = sqrt_prices_around(ground.sqrt_price_x96, bound);
    // At the lowest price the most of token0 is taken, at the highest the most of token1.
    let taken = ground.range.amounts(low, deposit.liquidity, true).and_then(|[most0, _]| {
        let [_, most1] = ground.range.amounts(high, deposit.liquidity, true)?;
        Ok([most0, most1])
    });
    let Ok(taken) = taken else {
        found.push(DeclarationFault::new(RuleName::Outflow, "amounts that a pool can take", "more than 256 bits"));
        return;
    };
    let Some(tokens) = given_tokens(proposal) else { return };
    for ((token, most), given) in tokens.into_iter().map(token_of).zip(taken).zip(deposit.most.map(U256::from)) {
        if given > most {
            let declared = format!("at most {}, what is taken at a price {bound} away", figure(proposal, token, most));
            let fault = DeclarationFault::new(RuleName::Outflow, declared, figure(proposal, token, given));
            found.push(fault.passing("a new preview with a slippage within the policy"));
        }
    }
}

/// Adds a fault for each minimum below what the policy's slippage allows.
fn least(proposal: &Proposal, deposit: Deposit, ground: &DepositGround<'_>, found: &mut Vec<DeclarationFault>) {
    let bound = drifted(ground.max_slippage);
    let Ok(least) = ground.range.least_deposit(ground.sqrt_price_x96, deposit.most, bound) else {
        found.push(DeclarationFault::new(RuleName::MinOut, "a liquidity that a pool can have", "more than 128 bits"));
        return;
    };
    let Some(tokens) = given_tokens(proposal) else { return };
    for ((token, least), given) in tokens.into_iter().map(token_of).zip(least).zip(deposit.least) {
        if given < least {
            let declared =
                format!("at least {}, what is taken at a price {bound} away", figure(proposal, token, least));
            let fault = DeclarationFault::new(RuleName::MinOut, declared, figure(proposal, token, given));
            found.push(fault.passing("a new preview with a slippage within the policy"));
        }
    }
}

/// Adds a fault if the position would be worth too much less than what it takes, at the feeds' prices.
fn value(
    takes: &Takes,
    ground: &DepositGround<'_>,
    (fair, prices): (U256, &[PricedToken; 2]),
    found: &mut Vec<DeclarationFault>,
) {
    let [low, high] = sqrt_prices_around(ground.sqrt_price_x96, drifted(ground.max_slippage));
    for at in [ground.sqrt_price_x96, low, high] {
        let worth = || {
            let (liquidity, taken) = takes.at(ground.range, at).ok()?;
            let back = ground.range.amounts(fair, liquidity, false).ok()?;
            Some((liquidity, dollars(taken, prices, Rounding::Up)?, dollars(back, prices, Rounding::Down)?))
        };
        let Some((liquidity, given, back)) = worth() else {
            found.push(DeclarationFault::new(RuleName::MaxLossBps, "a value that is known", "it cannot be computed"));
            return;
        };
        if liquidity == 0 {
            // The contract takes nothing there and reverts; at the present price that blocks.
            if at == ground.sqrt_price_x96 {
                let is = "they are too little for this range and price";
                found.push(DeclarationFault::new(RuleName::Calldata, "amounts that make a position", is));
                return;
            }
            continue;
        }
        let kept = at_least(given, ground.max_loss);
        if kept.is_err() || kept.is_ok_and(|kept| back < kept) {
            let declared = format!("at most {} of ${} lost", ground.max_loss, given.to_fixed(2, Rounding::Up));
            let is = format!("at the feeds' price the position is worth ${}", back.to_fixed(2, Rounding::Down));
            let fault = DeclarationFault::new(RuleName::MaxLossBps, declared, is);
            found.push(fault.passing("a wider range, a smaller slippage, or the same when pool and feeds agree"));
            return;
        }
    }
}

fn dollars(amounts: [U256; 2], prices: &[PricedToken; 2], rounding: Rounding) -> Option<Usd> {
    amounts.into_iter().zip(prices).try_fold(Usd::ZERO, |sum, (raw, token)| {
        let amount = TokenAmount::new(raw, token.decimals).ok()?;
        sum.checked_add(Usd::value_of(amount, token.usd, rounding).ok()?).ok()
    })
}

/// Returns the event that the receipts of a deposit should contain and do not; `None` if it is proven: the liquidity was
/// added to the right position within the amounts of the call, and a new position's token went to the account.
pub(super) fn unproven(
    plan: &PositionPlan,
    deposit: Deposit,
    account: Address,
    manager: Option<Address>,
    logs: &[&Log],
) -> Option<&'static str> {
    let own = || logs.iter().filter(|log| Some(log.address) == manager);
    let within = |taken: [U256; 2]| {
        let bounds = deposit.least.into_iter().zip(deposit.most);
        taken.into_iter().zip(bounds).all(|(taken, (least, most))| (least..=most).contains(&taken))
    };
    let mut added = own().filter_map(|log| Manager::IncreaseLiquidity::decode_log(log).ok());
    let added = added.find(|event| {
        plan.token_id().is_none_or(|token_id| token_id == event.tokenId)
            && event.liquidity > 0
            && within([event.amount0, event.amount1])
    });
    let Some(added) = added else { return Some("IncreaseLiquidity") };
    let collected = || {
        let events = own().filter_map(|log| Manager::Collect::decode_log(log).ok());
        events.into_iter().any(|event| (event.tokenId, event.recipient) == (added.tokenId, account))
    };
    if matches!(plan, PositionPlan::Compound { .. }) && !collected() {
        return Some("Collect");
    }
    let is_new = matches!(plan, PositionPlan::Mint { .. });
    let minted = own()
        .filter_map(|log| Manager::Transfer::decode_log(log).ok())
        .any(|event| (event.from, event.to, event.tokenId) == (Address::ZERO, account, added.tokenId));
    (is_new && !minted).then_some("Transfer")
}

#[cfg(test)]
mod tests;
