//! Off-chain client of PolicyCage: an account's rules and state as the contract has them, and the contract's decision
//! on a plan, computed before anything is signed. The contract has the final decision.
//!
//! If an account delegates, the contract itself checks each execution by balances. A plain account's rules are enforced
//! only here.

mod derived;

use alloy::eips::BlockId;
use alloy::primitives::aliases::U160;
use alloy::primitives::{Address, FixedBytes, U256};
use alloy::providers::bindings::IMulticall3;
use alloy::sol_types::SolCall;
use bardo_base::model::RuleName;

use super::chain_snapshot::SnapshotReader;
use super::value::UnknownValue;
use bardo_abi::erc20::Erc20;
use bardo_abi::feed::Aggregator;
use bardo_abi::permit2::Permit2;
use bardo_abi::policy_cage::PolicyCage;
use bardo_abi::policy_cage::PolicyCage::{AssetRule, Rules};
use bardo_base::error::{FigureUnit, RuleFigures, Violation};
use bardo_base::format::grouped;
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Rounding, TokenAmount};
use golem_chain::multicall::CallBatch;
use golem_chain::network::{KnownContract, Network};
use golem_chain::token::{self, TokenId};

pub use derived::{DeriveError, DerivedRules, RuleDifference, UnenforcedRule, amount, derive, differences};

/// Scale of the contract's prices: dollars with 18 decimals, for 1e18 raw units.
const UNIT: u64 = 1_000_000_000_000_000_000;

/// Decimals of every chain's native token.
const COIN_DECIMALS: u8 = 18;

/// An account's rules and the state that they are checked with, all read at one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnchainPolicy {
    /// Address of the PolicyCage contract.
    pub contract: Address,
    /// Delegation manager that the contract accepts calls from.
    pub manager: Address,
    /// Account that the rules belong to.
    pub owner: Address,
    /// Rules that the owner configured.
    pub rules: Rules,
    /// Allowed assets, in the order of the rules.
    pub assets: Vec<OnchainAsset>,
    /// High-water mark of the account, in dollars with 18 decimals.
    pub highest: U256,
    /// Time of the last action that was not an exit, in seconds since the Unix epoch; 0 for none.
    pub last_action: u64,
}

/// State of an allowed asset. Amounts are in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnchainAsset {
    /// Rule of the asset.
    pub rule: AssetRule,
    /// Symbol in the address book; `None` if the asset is not listed.
    pub symbol: Option<SafeText>,
    /// Decimals of the token; `None` if the token does not report them.
    pub decimals: Option<u8>,
    /// Balance of the account.
    pub balance: U256,
    /// Amount that left within the contract's day.
    pub left_in_day: U256,
    /// Price in dollars with 18 decimals, for 1e18 raw units; `None` if the contract would reject the feed's answer.
    pub price: Option<U256>,
}

/// Effects of a plan as the contract counts them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanEffects<'a> {
    /// Calls: target, wei sent along, calldata.
    pub calls: Vec<(Address, U256, &'a [u8])>,
    /// Maximum outflows, in raw units.
    pub out: Vec<(TokenId, U256)>,
    /// Inflows to the account: minimum and maximum, in raw units.
    pub into: Vec<(TokenId, U256, U256)>,
}

/// Token address in the contract's rules; zero for the native token.
fn key(token: TokenId) -> Address {
    match token {
        TokenId::Native => Address::ZERO,
        TokenId::Erc20(address) => address,
    }
}

/// Returns the symbol of an asset of the rules, from the address book.
fn symbol(network: &Network, token: Address) -> Option<SafeText> {
    if token.is_zero() {
        return Some(SafeText::clean(network.native_symbol, token::MAX_SYMBOL));
    }
    let listed = network.book.token_at(token);
    listed.map(|listed| SafeText::clean(&listed.symbol, token::MAX_SYMBOL))
}

/// Reads the rules of `owner` at `block`; `at` is the next block's time. `None` if the address book has no PolicyCage,
/// or if the account has set no rules.
///
/// # Errors
/// [`UnknownValue`] if the contract, a token or Multicall3 does not answer as it should.
pub async fn read(
    reader: &SnapshotReader,
    owner: Address,
    block: BlockId,
    at: u64,
) -> Result<Option<OnchainPolicy>, UnknownValue> {
    let book = &reader.network().book;
    let Some(contract) = book.contract(KnownContract::PolicyCage) else { return Ok(None) };
    let unread = |what: &str| UnknownValue::because(format_args!("PolicyCage at {contract} does not return {what}"));
    let multicall = book
        .contract(KnownContract::Multicall3)
        .ok_or_else(|| UnknownValue::because("PolicyCage cannot be read: the address book has no Multicall3"))?;
    // A plain account's rules are enforced only here. One endpoint of several is not believed if it alone reports that
    // there are none.
    let provider = reader.client.agreed();

    let mut calls = CallBatch::default();
    let configured = calls.push(contract, &PolicyCage::configuredCall { owner });
    let manager = calls.push(contract, &PolicyCage::managerCall {});
    let standing = calls.push(contract, &PolicyCage::standingCall { owner });
    let rules = calls.push(contract, &PolicyCage::rulesOfCall { owner });
    let answers = calls.send(provider, multicall, block).await.map_err(UnknownValue::because)?;
    if !configured.take(&answers).ok_or_else(|| unread("whether the account has rules"))? {
        return Ok(None);
    }
    let manager = manager.take(&answers).ok_or_else(|| unread("its manager"))?;
    let standing = standing.take(&answers).ok_or_else(|| unread("the account's state"))?;
    let rules = rules.take(&answers).ok_or_else(|| unread("the account's rules"))?;

    let mut calls = CallBatch::default();
    let asked: Vec<_> = rules
        .assets
        .iter()
        .map(|rule| {
            let token = rule.token;
            let coin = token.is_zero();
            let held = (!coin).then(|| calls.push(token, &Erc20::balanceOfCall { owner }));
            let decimals = (!coin).then(|| calls.push(token, &Erc20::decimalsCall {}));
            let wei = coin.then(|| calls.push(multicall, &IMulticall3::getEthBalanceCall { addr: owner }));
            let left = calls.push(contract, &PolicyCage::leftInDayCall { owner, token });
            let round = calls.push(rule.feed, &Aggregator::latestRoundDataCall {});
            let feed_decimals = calls.push(rule.feed, &Aggregator::decimalsCall {});
            (rule, held, decimals, wei, left, round, feed_decimals)
        })
        .collect();
    let answers = calls.send(provider, multicall, block).await.map_err(UnknownValue::because)?;
    let mut assets = Vec::with_capacity(asked.len());
    for (rule, held, decimals, wei, left, round, feed_decimals) in asked {
        let balance = match (held, wei) {
            (Some(held), _) => held.take(&answers),
            (None, Some(wei)) => wei.take(&answers),
            (None, None) => None,
        };
        let decimals = match decimals {
            Some(call) => call.take(&answers),
            None => Some(COIN_DECIMALS),
        };
        let price = round.take(&answers).zip(feed_decimals.take(&answers)).zip(decimals).and_then(
            |((round, feed_decimals), decimals)| {
                let updated: u64 = round.updatedAt.try_into().ok()?;
                let fresh = at.checked_sub(updated)? <= u64::from(rules.maxPriceAge);
                let answer = U256::try_from(round.answer).ok().filter(|answer| fresh && !answer.is_zero())?;
                let scale = U256::from(10).checked_pow(U256::from(u32::from(feed_decimals) + u32::from(decimals)))?;
                answer.checked_mul(U256::from(UNIT).checked_mul(U256::from(UNIT))?)?.checked_div(scale)
            },
        );
        assets.push(OnchainAsset {
            rule: rule.clone(),
            symbol: symbol(reader.network(), rule.token),
            decimals,
            balance: balance.ok_or_else(|| unread("a balance of the account"))?,
            left_in_day: left.take(&answers).ok_or_else(|| unread("the outflow within a day"))?,
            price,
        });
    }
    Ok(Some(OnchainPolicy {
        contract,
        manager,
        owner,
        rules,
        assets,
        highest: standing.highest,
        last_action: standing.lastAction,
    }))
}

impl OnchainAsset {
    /// Symbol and contract of the asset, as far as known.
    fn name(&self) -> String {
        let token = self.rule.token;
        match &self.symbol {
            Some(symbol) if token.is_zero() => symbol.to_string(),
            Some(symbol) => format!("{symbol} ({token})"),
            None if token.is_zero() => "the native token".to_owned(),
            None => token.to_string(),
        }
    }

    /// Formats an amount of the asset for display.
    fn figure(&self, raw: U256) -> String {
        if raw == U256::MAX || raw == U256::from(U160::MAX) {
            return format!("an unlimited amount of {}", self.name());
        }
        match self.decimals.and_then(|decimals| TokenAmount::new(raw, decimals).ok()) {
            Some(amount) => format!("{amount} {}", self.name()),
            None => format!("{raw} smallest units of {}", self.name()),
        }
    }
}

impl OnchainPolicy {
    /// Returns every rule that `plan` violates in a block with the time `now`, in the contract's terms.
    pub fn judge(&self, plan: &PlanEffects<'_>, now: u64) -> Vec<Violation> {
        let mut found = Vec::new();
        for (target, value, data) in &plan.calls {
            self.call(*target, *value, data, &mut found);
        }
        self.flows(plan, now, &mut found);
        found
    }

    fn asset(&self, token: Address) -> Option<&OnchainAsset> {
        self.assets.iter().find(|asset| asset.rule.token == token)
    }

    fn call(&self, target: Address, value: U256, data: &[u8], found: &mut Vec<Violation>) {
        let selector = data.first_chunk::<4>().map(|selector| FixedBytes(*selector));
        let listed = |target: Address, selector: FixedBytes<4>| {
            self.rules.calls.iter().any(|call| call.target == target && call.selector == selector)
        };
        let allowed = match selector {
            // The zero selector stands for no data, never for a function of that name.
            Some(selector) => !selector.is_zero() && listed(target, selector),
            // With the zero address, a rule allows plain sends to anybody.
            None => data.is_empty() && [target, Address::ZERO].iter().any(|target| listed(*target, FixedBytes::ZERO)),
        };
        let named = || match selector {
            Some(selector) => format!("function {selector} of {target}"),
            None => format!("a call of {target} without a function"),
        };
        if [self.contract, self.manager, self.owner].contains(&target) {
            let limit = "no call of the policy contract, of its delegation manager or of the account itself";
            refuse(found, RuleName::CageCalls, limit, named(), "the action without this call");
        } else if !allowed {
            let would_pass = "a listed function, or the same after the owner lists this one";
            refuse(found, RuleName::CageCalls, "the functions that the owner lists", named(), would_pass);
        }
        if !value.is_zero() && self.asset(Address::ZERO).is_none() {
            unlisted(found, "the native token".to_owned());
        }
        if let Ok(approval) = Erc20::approveCall::abi_decode_validate(data) {
            self.approval(target, approval.spender, approval.value, found);
        } else if let Ok(approval) = Permit2::approveCall::abi_decode_validate(data) {
            self.approval(approval.token, approval.spender, U256::from(approval.amount), found);
        }
    }

    fn approval(&self, token: Address, spender: Address, amount: U256, found: &mut Vec<Violation>) {
        if amount.is_zero() {
            return;
        }
        match self.asset(token) {
            None => unlisted(found, token.to_string()),
            Some(asset) if amount > U256::from(asset.rule.maxPerTransaction) => {
                let most = U256::from(asset.rule.maxPerTransaction);
                let figures = RuleFigures::new(FigureUnit::RawUnits, most, amount).leaving(most);
                let most = asset.figure(most);
                let limit = format!("at most {most} allowed at once");
                let would_pass = format!("{most} or less");
                refuse_with(
                    found,
                    RuleName::CageMaxPerTransaction,
                    limit,
                    asset.figure(amount),
                    would_pass,
                    Some(figures),
                );
            }
            Some(_) => {}
        }
        if !self.rules.spenders.contains(&spender) {
            let would_pass = "a listed spender, or the same after the owner lists this one";
            refuse(found, RuleName::CageSpenders, "the spenders that the owner lists", spender.to_string(), would_pass);
        }
    }

    fn flows(&self, plan: &PlanEffects<'_>, now: u64, found: &mut Vec<Violation>) {
        for token in plan.out.iter().map(|(token, _)| token).chain(plan.into.iter().map(|(token, _, _)| token)) {
            if self.asset(key(*token)).is_none() {
                let value = match token {
                    TokenId::Native => "the native token".to_owned(),
                    TokenId::Erc20(address) => address.to_string(),
                };
                unlisted(found, value);
            }
        }
        let mut worth = Some(DollarSums::default());
        let mut exits = true;
        for asset in &self.assets {
            let of = |token: &TokenId| key(*token) == asset.rule.token;
            let out =
                plan.out.iter().filter(|(token, _)| of(token)).fold(U256::ZERO, |sum, one| sum.saturating_add(one.1));
            let coming = plan.into.iter().filter(|(token, _, _)| of(token));
            let (least, most) = coming.fold((U256::ZERO, U256::ZERO), |(least, most), one| {
                (least.saturating_add(one.1), most.saturating_add(one.2))
            });
            self.limits(asset, out, most, found);
            if !most.is_zero() && !asset.rule.exit {
                exits = false;
            }
            worth = worth.zip(asset.price).and_then(|(worth, price)| worth.with(asset.balance, out, least, price));
        }
        let Some(worth) = worth else {
            let limit = format!("a price of every asset, at most {} s old", self.rules.maxPriceAge);
            let silent = self.assets.iter().filter(|asset| asset.price.is_none());
            let silent: Vec<_> = silent.map(|one| format!("{} by the feed {}", one.name(), one.rule.feed)).collect();
            let value = match silent.as_slice() {
                [] => "sums too large to calculate".to_owned(),
                silent => format!("no price for {}", silent.join(", ")),
            };
            refuse(
                found,
                RuleName::CageMaxPriceAge,
                limit,
                value,
                "the same when every feed of the rules is up to date",
            );
            return;
        };
        self.value(&worth, exits, now, found);
    }

    fn limits(&self, asset: &OnchainAsset, out: U256, into: U256, found: &mut Vec<Violation>) {
        let AssetRule { maxPerTransaction, maxPerDay, maxPosition, .. } = &asset.rule;
        let bound = |limit: u128| (limit != u128::MAX).then(|| U256::from(limit));
        if let Some(most) = bound(*maxPerTransaction).filter(|most| out > *most) {
            let figures = RuleFigures::new(FigureUnit::RawUnits, most, out).leaving(most);
            let most = asset.figure(most);
            let limit = format!("at most {most} in one transaction");
            let would_pass = format!("{most} or less");
            refuse_with(found, RuleName::CageMaxPerTransaction, limit, asset.figure(out), would_pass, Some(figures));
        }
        let day = asset.left_in_day.saturating_add(out);
        if let Some(most) = bound(*maxPerDay).filter(|most| !out.is_zero() && day > *most) {
            let limit = format!("at most {} in a day, which ends after 24 to 28 hours", asset.figure(most));
            let value = format!("{} on top of {}", asset.figure(out), asset.figure(asset.left_in_day));
            let would_pass = format!("{} or less now", asset.figure(most.saturating_sub(asset.left_in_day)));
            let figures =
                RuleFigures::new(FigureUnit::RawUnits, most, day).leaving(most.saturating_sub(asset.left_in_day));
            refuse_with(found, RuleName::CageMaxPerDay, limit, value, would_pass, Some(figures));
        }
        let kept = asset.balance.saturating_sub(out);
        let after = kept.saturating_add(into);
        if let Some(most) = bound(*maxPosition).filter(|most| into > out && after > *most) {
            let limit = format!("at most {} held", asset.figure(most));
            let would_pass = match most.checked_sub(kept).filter(|room| !room.is_zero()) {
                Some(room) => format!("at most {} incoming", asset.figure(room)),
                None => "no more of it; sales are always allowed".to_owned(),
            };
            let figures = RuleFigures::new(FigureUnit::RawUnits, most, after).leaving(most.saturating_sub(kept));
            let value = format!("{} held afterwards", asset.figure(after));
            refuse_with(found, RuleName::CageMaxPosition, limit, value, would_pass, Some(figures));
        }
    }

    fn value(&self, worth: &DollarSums, exits: bool, now: u64, found: &mut Vec<Violation>) {
        let kept = U256::from(10_000_u64.saturating_sub(u64::from(self.rules.maxLossBps)));
        let least = worth.out.saturating_mul(kept);
        if worth.into.saturating_mul(U256::from(10_000)) < least {
            let limit = format!("at most {} bps of the value lost", self.rules.maxLossBps);
            let (into, out) = (dollars(worth.into, Rounding::Down), dollars(worth.out, Rounding::Up));
            let least = dollars(least.div_ceil(U256::from(10_000)), Rounding::Up);
            let value = format!("at least {into} for {out} by the owner's feeds");
            refuse(found, RuleName::CageMaxLossBps, limit, value, format!("at least {least} guaranteed"));
        }
        if worth.out.is_zero() || exits && !worth.into.is_zero() {
            return;
        }
        let highest = self.highest.max(worth.before);
        let share = BasisPoints::new(10_000_u32.saturating_sub(u32::from(self.rules.maxDrawdownBps)));
        let floor = share.map_or(highest, |share| share.of(highest, Rounding::Down));
        if worth.after < floor {
            let (floor, highest) = (dollars(floor, Rounding::Up), dollars(highest, Rounding::Down));
            let limit = format!("at least {floor}, {} bps below the highest, {highest}", self.rules.maxDrawdownBps);
            let value = format!("{} afterwards", dollars(worth.after, Rounding::Down));
            refuse(
                found,
                RuleName::CageMaxDrawdownBps,
                limit,
                value,
                "an exit, until the owner resets the highest value",
            );
        }
        let next = self.last_action.saturating_add(u64::from(self.rules.minInterval));
        if self.last_action != 0 && now < next {
            let limit = format!("{} s between two executions", self.rules.minInterval);
            refuse(
                found,
                RuleName::CageMinInterval,
                limit,
                format!("{} s after the last one", now.saturating_sub(self.last_action)),
                format!("the same in {} s, or an exit now", next.saturating_sub(now)),
            );
        }
    }
}

/// Sums in dollars with 18 decimals.
#[derive(Debug, Clone, Copy, Default)]
struct DollarSums {
    before: U256,
    after: U256,
    out: U256,
    into: U256,
}

impl DollarSums {
    /// Adds one asset; `None` on overflow.
    fn with(self, balance: U256, out: U256, into: U256, price: U256) -> Option<Self> {
        let value = |amount: U256| amount.checked_mul(price).map(|value| value / U256::from(UNIT));
        let after = balance.saturating_sub(out).checked_add(into)?;
        let (lost, gained) = (out.saturating_sub(into), into.saturating_sub(out));
        Some(Self {
            before: self.before.checked_add(value(balance)?)?,
            after: self.after.checked_add(value(after)?)?,
            out: self.out.checked_add(value(lost)?)?,
            into: self.into.checked_add(value(gained)?)?,
        })
    }
}

fn refuse(
    found: &mut Vec<Violation>,
    rule: RuleName,
    limit: impl Into<String>,
    value: impl Into<String>,
    would_pass: impl Into<String>,
) {
    refuse_with(found, rule, limit, value, would_pass, None);
}

fn refuse_with(
    found: &mut Vec<Violation>,
    rule: RuleName,
    limit: impl Into<String>,
    value: impl Into<String>,
    would_pass: impl Into<String>,
    figures: Option<RuleFigures>,
) {
    let violation = Violation::new(rule, limit.into(), value.into(), would_pass.into()).with(figures);
    // Several calls of a plan can violate the same rule by the same value; one line says all of it.
    if !found.contains(&violation) {
        found.push(violation);
    }
}

fn unlisted(found: &mut Vec<Violation>, asset: String) {
    let would_pass = "a listed asset, or the same after the owner lists this one";
    refuse(found, RuleName::CageAssets, "the assets that the owner lists", asset, would_pass);
}

/// Formats dollars with two decimals. Requirements are rounded up and holdings down, so that a reported figure would
/// really pass.
fn dollars(value: U256, rounding: Rounding) -> String {
    let cent = U256::from(UNIT / 100);
    let cents = match rounding {
        Rounding::Down => value / cent,
        Rounding::Up => value.div_ceil(cent),
    };
    let (whole, cents) = cents.div_rem(U256::from(100));
    format!("${}.{cents:0>2}", grouped(&whole.to_string()))
}

#[cfg(test)]
mod tests;
