//! PolicyCage off chain: an account's rules and standing as the contract has them, and the contract's
//! own judgement of a plan, made before anything is signed. The contract stays the last word.
//!
//! Where an account delegates, the contract judges each execution itself, by balances; a plain account
//! is held to its rules here alone.

use alloy::eips::BlockId;
use alloy::primitives::{Address, FixedBytes, U256};
use alloy::providers::bindings::IMulticall3;
use alloy::sol_types::SolCall;

use super::ground::Ground;
use super::value::Doubt;
use crate::abi::erc20::Erc20;
use crate::abi::feed::Aggregator;
use crate::abi::permit2::Permit2;
use crate::abi::policy_cage::PolicyCage;
use crate::abi::policy_cage::PolicyCage::{AssetRule, Rules};
use crate::base::error::Violation;
use crate::base::units::{BasisPoints, Rounding};
use crate::chain::multicall::Calls;
use crate::chain::network::Contract;
use crate::chain::token::TokenId;

/// The contract's price of 1e18 raw units has 18 decimals.
const UNIT: u64 = 1_000_000_000_000_000_000;

/// An account's rules with everything they are judged by, all of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cage {
    /// The contract.
    pub contract: Address,
    /// The delegation manager that it listens to.
    pub manager: Address,
    /// The account.
    pub owner: Address,
    /// What the owner allows.
    pub rules: Rules,
    /// The allowed assets, in the rules' order.
    pub assets: Vec<CagedAsset>,
    /// The highest value it has seen, in dollars with 18 decimals.
    pub highest: U256,
    /// When something last left that was no exit, in seconds since the Unix epoch; 0 for never.
    pub last_action: u64,
}

/// An allowed asset as it stands. Amounts in raw units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CagedAsset {
    /// Its rule.
    pub rule: AssetRule,
    /// What the account holds.
    pub balance: U256,
    /// What has left within the contract's day.
    pub left_in_day: U256,
    /// Dollars with 18 decimals for 1e18 raw units; `None` where the contract would not use the feed.
    pub price: Option<U256>,
}

/// What a plan would do, as the contract would see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan<'a> {
    /// The calls: target, wei sent along, calldata.
    pub calls: Vec<(Address, U256, &'a [u8])>,
    /// What leaves at most.
    pub out: Vec<(TokenId, U256)>,
    /// What comes in to the account: at least, and at most.
    pub into: Vec<(TokenId, U256, U256)>,
}

/// The token's address in the contract's rules: zero for the coin.
fn key(token: TokenId) -> Address {
    match token {
        TokenId::Native => Address::ZERO,
        TokenId::Erc20(address) => address,
    }
}

/// Reads the rules of `owner` at `block`, whose next block has the time `at`. `None` where there is no
/// such contract in the address book, or the account has set no rules.
///
/// # Errors
/// A [`Doubt`] for anything that should answer and does not.
pub async fn read(ground: &Ground, owner: Address, block: BlockId, at: u64) -> Result<Option<Cage>, Doubt> {
    let book = &ground.network().book;
    let Some(contract) = book.contract(Contract::PolicyCage) else { return Ok(None) };
    let unread = |what: &str| Doubt::because(format_args!("PolicyCage at {contract} does not tell {what}"));
    let multicall = book
        .contract(Contract::Multicall3)
        .ok_or_else(|| Doubt::because("PolicyCage cannot be read: the address book has no Multicall3"))?;
    // A plain account is held to its rules here alone: where several endpoints answer, one that says there are none is not
    // believed by itself.
    let provider = ground.client.witnessed().unwrap_or_else(|| ground.client.provider());

    let mut calls = Calls::default();
    let configured = calls.push(contract, &PolicyCage::configuredCall { owner });
    let manager = calls.push(contract, &PolicyCage::managerCall {});
    let standing = calls.push(contract, &PolicyCage::standingCall { owner });
    let rules = calls.push(contract, &PolicyCage::rulesOfCall { owner });
    let answers = calls.send(provider, multicall, block).await.map_err(Doubt::because)?;
    if !configured.take(&answers).ok_or_else(|| unread("whether the account has rules"))? {
        return Ok(None);
    }
    let manager = manager.take(&answers).ok_or_else(|| unread("its manager"))?;
    let standing = standing.take(&answers).ok_or_else(|| unread("how the account stands"))?;
    let rules = rules.take(&answers).ok_or_else(|| unread("the account's rules"))?;

    let mut calls = Calls::default();
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
    let answers = calls.send(provider, multicall, block).await.map_err(Doubt::because)?;
    let mut assets = Vec::with_capacity(asked.len());
    for (rule, held, decimals, wei, left, round, feed_decimals) in asked {
        let balance = match (held, wei) {
            (Some(held), _) => held.take(&answers),
            (None, Some(wei)) => wei.take(&answers),
            (None, None) => None,
        };
        let decimals = match decimals {
            Some(call) => call.take(&answers),
            None => Some(18),
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
        assets.push(CagedAsset {
            rule: rule.clone(),
            balance: balance.ok_or_else(|| unread("a balance of the account"))?,
            left_in_day: left.take(&answers).ok_or_else(|| unread("what left within a day"))?,
            price,
        });
    }
    Ok(Some(Cage {
        contract,
        manager,
        owner,
        rules,
        assets,
        highest: standing.highest,
        last_action: standing.lastAction,
    }))
}

impl Cage {
    /// Every rule that stands against `plan` in a block of the time `now`, in the contract's terms.
    pub fn judge(&self, plan: &Plan<'_>, now: u64) -> Vec<Violation> {
        let mut found = Vec::new();
        for (target, value, data) in &plan.calls {
            self.call(*target, *value, data, &mut found);
        }
        self.flows(plan, now, &mut found);
        found
    }

    fn asset(&self, token: Address) -> Option<&CagedAsset> {
        self.assets.iter().find(|asset| asset.rule.token == token)
    }

    fn call(&self, target: Address, value: U256, data: &[u8], found: &mut Vec<Violation>) {
        let selector = data.first_chunk::<4>().map(|selector| FixedBytes(*selector));
        let listed = |selector: FixedBytes<4>| {
            self.rules.calls.iter().any(|call| call.target == target && call.selector == selector)
        };
        let own = [self.contract, self.manager, self.owner].contains(&target);
        let allowed = match selector {
            Some(selector) => listed(selector),
            None => data.is_empty() && listed(FixedBytes::ZERO),
        };
        if own || !allowed {
            let selector = selector.map_or_else(|| "no function".to_owned(), |selector| selector.to_string());
            refuse(
                found,
                "calls",
                "the functions that the owner lists",
                format!("{selector} of {target}"),
                "a listed function",
            );
        }
        if !value.is_zero() && self.asset(Address::ZERO).is_none() {
            refuse(found, "assets", "the assets that the owner lists", "the chain's coin".to_owned(), "a listed asset");
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
            None => {
                refuse(found, "assets", "the assets that the owner lists", token.to_string(), "a listed asset");
            }
            Some(asset) if amount > U256::from(asset.rule.maxPerTransaction) => {
                let most = asset.rule.maxPerTransaction;
                let limit = format!("at most {most} of {token} approved");
                refuse(found, "maxPerTransaction", limit, amount.to_string(), format!("{most} or less"));
            }
            Some(_) => {}
        }
        if !self.rules.spenders.contains(&spender) {
            refuse(found, "spenders", "the spenders that the owner lists", spender.to_string(), "a listed spender");
        }
    }

    fn flows(&self, plan: &Plan<'_>, now: u64, found: &mut Vec<Violation>) {
        for token in plan.out.iter().map(|(token, _)| token).chain(plan.into.iter().map(|(token, _, _)| token)) {
            if self.asset(key(*token)).is_none() {
                let value = key(*token).to_string();
                refuse(found, "assets", "the assets that the owner lists", value, "a listed asset");
            }
        }
        let mut worth = Some(Worth::default());
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
            let limit = format!("feeds that answer, at most {} s old", self.rules.maxPriceAge);
            refuse(found, "maxPriceAge", limit, "a price cannot be told".to_owned(), "the same with live feeds");
            return;
        };
        self.value(&worth, exits, now, found);
    }

    fn limits(&self, asset: &CagedAsset, out: U256, into: U256, found: &mut Vec<Violation>) {
        let AssetRule { token, maxPerTransaction, maxPerDay, maxPosition, .. } = &asset.rule;
        let bound = |limit: u128| (limit != u128::MAX).then(|| U256::from(limit));
        if let Some(most) = bound(*maxPerTransaction).filter(|most| out > *most) {
            let limit = format!("at most {most} of {token} in one transaction");
            refuse(found, "maxPerTransaction", limit, out.to_string(), format!("{most} or less"));
        }
        let day = asset.left_in_day.saturating_add(out);
        if let Some(most) = bound(*maxPerDay).filter(|most| !out.is_zero() && day > *most) {
            let limit = format!("at most {most} of {token} in a day");
            refuse(
                found,
                "maxPerDay",
                limit,
                day.to_string(),
                format!("{} or less", most.saturating_sub(asset.left_in_day)),
            );
        }
        let after = asset.balance.saturating_sub(out).saturating_add(into);
        if let Some(most) = bound(*maxPosition).filter(|most| into > out && after > *most) {
            let limit = format!("at most {most} of {token} held");
            refuse(found, "maxPosition", limit, after.to_string(), "a smaller amount".to_owned());
        }
    }

    fn value(&self, worth: &Worth, exits: bool, now: u64, found: &mut Vec<Violation>) {
        let kept = U256::from(10_000_u64.saturating_sub(u64::from(self.rules.maxLossBps)));
        let least = worth.out.saturating_mul(kept);
        if worth.into.saturating_mul(U256::from(10_000)) < least {
            let limit = format!("at most {} bps of the value lost", self.rules.maxLossBps);
            let value = format!("{} for {}", dollars(worth.into), dollars(worth.out));
            refuse(found, "maxLossBps", limit, value, format!("{} or more", dollars(least / U256::from(10_000))));
        }
        if worth.out.is_zero() || exits && !worth.into.is_zero() {
            return;
        }
        let highest = self.highest.max(worth.before);
        let share = BasisPoints::new(10_000_u32.saturating_sub(u32::from(self.rules.maxDrawdownBps)));
        let floor = share.map_or(highest, |share| share.of(highest, Rounding::Down));
        if worth.after < floor {
            let limit = format!("at least {}, {} bps below the highest", dollars(floor), self.rules.maxDrawdownBps);
            refuse(found, "maxDrawdownBps", limit, dollars(worth.after), "an exit, until the owner resets the highest");
        }
        let next = self.last_action.saturating_add(u64::from(self.rules.minInterval));
        if self.last_action != 0 && now < next {
            let limit = format!("{} s between two executions", self.rules.minInterval);
            refuse(
                found,
                "minInterval",
                limit,
                format!("{} s too soon", next - now),
                format!("the same from {next} on"),
            );
        }
    }
}

/// Dollars with 18 decimals.
#[derive(Debug, Clone, Copy, Default)]
struct Worth {
    before: U256,
    after: U256,
    out: U256,
    into: U256,
}

impl Worth {
    /// With one asset more; `None` past what can be counted.
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
    rule: &str,
    limit: impl Into<String>,
    value: impl Into<String>,
    would_pass: impl Into<String>,
) {
    let rule = format!("policy_cage.{rule}");
    found.push(Violation { rule, limit: limit.into(), value: value.into(), would_pass: would_pass.into() });
}

/// Dollars with two decimals, for a person.
fn dollars(value: U256) -> String {
    let cents = value / U256::from(UNIT / 100);
    format!("${}.{:02}", cents / U256::from(100), (cents % U256::from(100)).to::<u64>())
}

#[cfg(test)]
mod tests;
