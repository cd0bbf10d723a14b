//! Comparison of a question's action with the same action after it was simulated again: only a change for the worse
//! makes the operator read and pick again.
//!
//! It is decided from typed values alone. Amounts, receivers, spenders, allowances, messages, checks and reasons are
//! compared one by one; nonces, and deadlines that move on with the clock, are not. Whatever cannot be compared counts
//! as worse.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use alloy::primitives::{Address, U256};

use super::Reason;
use super::reason::RISEN_BPS;
use crate::pipeline::Preview;
use crate::proposal::{AllowanceBound, AllowanceKind, Arrival, Purpose};
use crate::typed::{Takes, TypedMessage};
use crate::value::is_unlimited;
use crate::verdict::Verdict;
use bardo_base::fabric::CheckOutcome;
use bardo_base::format::age;
use bardo_base::model::Check;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token::{Token, TokenId};

/// How much longer a signature or an allowance may be usable after a new simulation, in seconds. Deadlines follow the
/// block's time, and a block may come that much after the clock.
const LATER_SECONDS: u64 = 60;
/// Digits after the point of dollars that are compared: the ledger counts millionths.
const DOLLAR_DIGITS: u8 = 6;
/// Bytes of a function's selector.
const SELECTOR: usize = 4;
/// Characters kept of one line.
const LINE: usize = 400;

/// A change for the worse, with its figures.
#[derive(Debug, Clone, PartialEq)]
pub enum Worsening {
    /// More of a token may leave the account. Raw units.
    MoreLeaves {
        /// Token that leaves.
        token: Token,
        /// Most that could leave before.
        before: U256,
        /// Most that can leave now.
        now: U256,
    },
    /// Less of a token is certain to come in. Raw units.
    LessComesIn {
        /// Token that comes in.
        token: Token,
        /// Least that had to come before.
        before: U256,
        /// Least that has to come now.
        now: U256,
    },
    /// Less of a token is expected to come in, though as much is certain. Raw units.
    LessExpected {
        /// Token that comes in.
        token: Token,
        /// Expected before.
        before: U256,
        /// Expected now.
        now: U256,
    },
    /// It counts for more dollars than a price moves while somebody reads.
    CountsForMore {
        /// Dollars before.
        before: Usd,
        /// Dollars now.
        now: Usd,
    },
    /// An account or contract receives something that received nothing before.
    Receiver(Address),
    /// A contract or account is called, or a function of it, that was not called before.
    Calls(Address),
    /// An account or contract may take more of a token than before. Raw units.
    MayTakeMore {
        /// Account or contract that may take it.
        spender: Address,
        /// Token that it may take.
        token: Token,
        /// Most it could take before.
        before: U256,
        /// Most it can take now.
        now: U256,
    },
    /// An account or contract may take something for longer than before.
    MayTakeLonger {
        /// Account or contract that may take it.
        spender: Address,
        /// How much longer, in seconds.
        seconds: u64,
    },
    /// A message is signed that is not the one shown before, apart from its nonce, its times and better amounts.
    Signs {
        /// Name of the type that is signed.
        kind: &'static str,
    },
    /// A check found something that it did not find before.
    Check {
        /// Check that decides otherwise.
        check: Check,
        /// Its finding.
        detail: SafeText,
    },
    /// The operator is asked for a reason that was not there before.
    Asks(SafeText),
    /// The simulation no longer sees everything that may move.
    Unseen,
    /// It no longer only leaves a position or takes something back.
    Class,
    /// The policy is another one.
    Policy,
    /// It was simulated more often than can be compared.
    TooOften,
    /// It is another action: another account, signer, chain, tool or intent.
    Another,
}

impl Worsening {
    /// Whether an amount of a token is what is worse.
    const fn is_an_amount(&self) -> bool {
        match self {
            Self::MoreLeaves { .. } | Self::LessComesIn { .. } | Self::MayTakeMore { .. } => true,
            Self::LessExpected { .. }
            | Self::CountsForMore { .. }
            | Self::Receiver(_)
            | Self::Calls(_)
            | Self::MayTakeLonger { .. }
            | Self::Signs { .. }
            | Self::Check { .. }
            | Self::Asks(_)
            | Self::Unseen
            | Self::Class
            | Self::Policy
            | Self::TooOften
            | Self::Another => false,
        }
    }

    /// The change in a line.
    pub fn words(&self) -> SafeText {
        SafeText::clean(&self.to_string(), LINE)
    }
}

impl fmt::Display for Worsening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |token: &Token, raw: U256| match is_unlimited(raw) {
            true => "without limit".to_owned(),
            false => TokenAmount::new(raw, token.decimals).map_or_else(|_| raw.to_string(), |whole| whole.to_string()),
        };
        let cents = |usd: &Usd| format!("${}", bardo_base::format::grouped(&usd.to_fixed(2, Rounding::Up)));
        match self {
            Self::MoreLeaves { token, before, now } => {
                write!(f, "most {} out: {} → {}", token.symbol, amount(token, *before), amount(token, *now))
            }
            Self::LessComesIn { token, before, now } => {
                write!(f, "least {} in: {} → {}", token.symbol, amount(token, *before), amount(token, *now))
            }
            Self::LessExpected { token, before, now } => {
                write!(f, "expected {} in: {} → {}", token.symbol, amount(token, *before), amount(token, *now))
            }
            Self::CountsForMore { before, now } => write!(f, "counted as spent: {} → {}", cents(before), cents(now)),
            Self::Receiver(who) => write!(f, "another receiver: {who}"),
            Self::Calls(to) => write!(f, "another call: {to}"),
            Self::MayTakeMore { spender, token, before, now } => {
                let (before, now) = (amount(token, *before), amount(token, *now));
                write!(f, "{spender} may take of {}: {before} → {now}", token.symbol)
            }
            Self::MayTakeLonger { spender, seconds } => {
                write!(f, "{spender} may take it {} longer", age(*seconds))
            }
            Self::Signs { kind } => write!(f, "another message to sign: {kind}"),
            Self::Check { check, detail } => write!(f, "{check}: {detail}"),
            Self::Asks(why) => write!(f, "also asked because {why}"),
            Self::Unseen => f.write_str("the simulation no longer sees every change"),
            Self::Class => f.write_str("it no longer only leaves a position or takes something back"),
            Self::Policy => f.write_str("the policy has changed since"),
            Self::TooOften => f.write_str("it was simulated again too often to compare: read it again"),
            Self::Another => f.write_str("it is another action than the one you were asked about"),
        }
    }
}

/// Everything that is worse in `now` than in `before`, each once.
pub(super) fn worsenings(before: &Preview, now: &Preview) -> Vec<Worsening> {
    let mut found = Vec::new();
    if identity(before) != identity(now) {
        found.push(Worsening::Another);
    }
    if before.policy != now.policy {
        found.push(Worsening::Policy);
    }
    money(before, now, &mut found);
    parties(before, now, &mut found);
    allowances(before, now, &mut found);
    messages(before, now, &mut found);
    checks(before, now, &mut found);
    let mut each: Vec<Worsening> = Vec::new();
    for one in found {
        if !each.contains(&one) {
            each.push(one);
        }
    }
    each
}

/// What makes two previews the same action, whatever their amounts.
fn identity(preview: &Preview) -> impl PartialEq {
    let (framed, proposal) = (&preview.framed, preview.framed.proposal());
    let trade = proposal.trade.as_ref().map(|trade| (trade.token_in.id, trade.token_out.id, trade.exact_output));
    (
        (proposal.chain_id, framed.account(), framed.signer(), framed.payer(), framed.kind()),
        (proposal.tool.name, proposal.tool.capability, proposal.intent, proposal.golem_id.clone()),
        (preview.network, trade, proposal.order.is_some()),
    )
}

/// An amount of each token, all its flows together.
type Sums = BTreeMap<TokenId, (Token, U256)>;

fn sum(flows: impl Iterator<Item = (Token, U256)>) -> Sums {
    let mut sums = Sums::new();
    for (token, amount) in flows {
        let (_, sum) = sums.entry(token.id).or_insert((token, U256::ZERO));
        *sum = sum.saturating_add(amount);
    }
    sums
}

/// Amounts of `these` that are below those of `those`, each with what it is in both.
fn below(those: &Sums, these: &Sums) -> Vec<(Token, U256, U256)> {
    let held = |id: &TokenId| these.get(id).map_or(U256::ZERO, |(_, amount)| *amount);
    let pairs = those.iter().map(|(id, (token, amount))| (token.clone(), *amount, held(id)));
    pairs.filter(|(_, amount, held)| held < amount).collect()
}

fn money(before: &Preview, now: &Preview, found: &mut Vec<Worsening>) {
    let out =
        |preview: &Preview| sum(preview.permit.bounds.outflows.iter().map(|flow| (flow.token.clone(), flow.amount)));
    for (token, now, before) in below(&out(now), &out(before)) {
        found.push(Worsening::MoreLeaves { token, before, now });
    }
    // A receiver that gets less of it is none that another gets instead.
    let receivers: BTreeSet<Address> = before.permit.bounds.inflows.iter().map(|inflow| inflow.recipient).collect();
    for who in receivers {
        let comes = |preview: &Preview, certain: bool| {
            let inflows = preview.permit.bounds.inflows.iter().filter(|inflow| inflow.recipient == who);
            sum(inflows.map(|flow| (flow.token.clone(), if certain { flow.at_least } else { flow.expected })))
        };
        let certain = below(&comes(before, true), &comes(now, true));
        let known: BTreeSet<TokenId> = certain.iter().map(|(token, ..)| token.id).collect();
        found.extend(certain.into_iter().map(|(token, before, now)| Worsening::LessComesIn { token, before, now }));
        let expected = below(&comes(before, false), &comes(now, false));
        let others = expected.into_iter().filter(|(token, ..)| !known.contains(&token.id));
        found.extend(others.map(|(token, before, now)| Worsening::LessExpected { token, before, now }));
    }
    arrivals(before, now, found);
    if rises(before.values.spent, now.values.spent) {
        found.push(Worsening::CountsForMore { before: before.values.spent, now: now.values.spent });
    }
    let simulated = (&before.simulated, &now.simulated);
    if (simulated.0.takes_back && !simulated.1.takes_back) || (simulated.0.leaves && !simulated.1.leaves) {
        found.push(Worsening::Class);
    }
}

/// Whether a value rose by more than a price moves while somebody reads. One too large to be compared has.
fn rises(before: Usd, now: Usd) -> bool {
    let (Some(was), Some(is)) = (before.scaled(DOLLAR_DIGITS, Rounding::Down), now.scaled(DOLLAR_DIGITS, Rounding::Up))
    else {
        return true;
    };
    match (is.checked_mul(10_000), was.checked_mul(10_000 + RISEN_BPS)) {
        (Some(is), Some(most)) => is > most,
        _ => true,
    }
}

fn arrivals(before: &Preview, now: &Preview, found: &mut Vec<Worsening>) {
    let arrival = |preview: &Preview| -> Option<Arrival> {
        preview.framed.proposal().order.as_ref().and_then(|order| order.arrival.clone())
    };
    match (arrival(before), arrival(now)) {
        (None, None) => {}
        (Some(was), Some(is)) if (was.chain_id, was.token.id) == (is.chain_id, is.token.id) => {
            let token = is.token;
            if is.at_least < was.at_least {
                found.push(Worsening::LessComesIn { token, before: was.at_least, now: is.at_least });
            } else if is.expected < was.expected {
                found.push(Worsening::LessExpected { token, before: was.expected, now: is.expected });
            }
        }
        (Some(_), None) | (None, Some(_)) | (Some(_), Some(_)) => found.push(Worsening::Another),
    }
}

fn parties(before: &Preview, now: &Preview, found: &mut Vec<Worsening>) {
    let receivers = |preview: &Preview| -> BTreeSet<Address> {
        let inflows = preview.permit.bounds.inflows.iter().map(|inflow| inflow.recipient);
        preview.framed.proposal().recipients.iter().copied().chain(inflows).collect()
    };
    let paid = |preview: &Preview| -> BTreeSet<Address> { preview.simulated.paid.iter().copied().collect() };
    found.extend(receivers(now).difference(&receivers(before)).map(|who| Worsening::Receiver(*who)));
    // Pools and fillers have more of something after every trade, and a better route goes through others.
    if now.framed.proposal().trade.is_none() && now.framed.proposal().order.is_none() {
        found.extend(paid(now).difference(&paid(before)).map(|who| Worsening::Receiver(*who)));
    }
    let calls = |preview: &Preview| -> BTreeSet<(Address, Purpose, Option<[u8; SELECTOR]>)> {
        let legs = preview.framed.legs().iter();
        legs.map(|leg| (leg.to, leg.purpose, leg.data.first_chunk::<SELECTOR>().copied())).collect()
    };
    found.extend(calls(now).difference(&calls(before)).map(|(to, ..)| Worsening::Calls(*to)));
}

fn allowances(before: &Preview, now: &Preview, found: &mut Vec<Worsening>) {
    let inside = |bound: &AllowanceBound| matches!(bound.kind, AllowanceKind::Permit2 { .. });
    for bound in &now.permit.bounds.allowances {
        let same = |known: &&AllowanceBound| {
            (known.token.id, known.spender, inside(known)) == (bound.token.id, bound.spender, inside(bound))
        };
        let known = before.permit.bounds.allowances.iter().find(same);
        let most = known.map_or(U256::ZERO, |known| known.at_most);
        if bound.at_most > most {
            let (spender, token) = (bound.spender, bound.token.clone());
            found.push(Worsening::MayTakeMore { spender, token, before: most, now: bound.at_most });
        }
        if let (Some(AllowanceKind::Permit2 { expires_at: was }), AllowanceKind::Permit2 { expires_at: is }) =
            (known.map(|known| known.kind), bound.kind)
        {
            later(bound.spender, (was, before), (is, now), found);
        }
    }
    let takeable =
        |preview: &Preview| sum(preview.values.takeable.iter().map(|valued| (valued.token.clone(), valued.amount)));
    // Said by its spender already where an allowance is the cause.
    if !below(&takeable(now), &takeable(before)).is_empty()
        && !found.iter().any(|one| matches!(one, Worsening::MayTakeMore { .. }))
    {
        for (token, is, was) in below(&takeable(now), &takeable(before)) {
            found.push(Worsening::MoreLeaves { token, before: was, now: is });
        }
    }
}

/// Notes that something can be taken for longer than before, counted from each simulation.
fn later(spender: Address, (was, before): (u64, &Preview), (is, now): (u64, &Preview), found: &mut Vec<Worsening>) {
    let left = |until: u64, preview: &Preview| until.saturating_sub(preview.permit.issued_at / 1_000);
    let longer = left(is, now).saturating_sub(left(was, before));
    if longer > LATER_SECONDS {
        found.push(Worsening::MayTakeLonger { spender, seconds: longer });
    }
}

/// Every message that is signed, and by whose key.
fn signed(preview: &Preview) -> Vec<(&TypedMessage, Address)> {
    let slots = preview.framed.legs().iter().flat_map(|leg| &leg.slots).map(|slot| (&slot.message, slot.signer));
    slots.chain(preview.framed.order().map(|order| (&order.message, order.signer))).collect()
}

fn messages(before: &Preview, now: &Preview, found: &mut Vec<Worsening>) {
    let mut known = signed(before);
    for (message, signer) in signed(now) {
        let terms = |of: Terms| known.iter().position(|(was, by)| *by == signer && compare(was, message) == of);
        // Where only its amounts are worse, what leaves, comes in or may be taken says so already.
        let told = || found.iter().any(Worsening::is_an_amount);
        let at = match terms(Terms::NoWorse) {
            None if told() => terms(Terms::WorseAmounts),
            at => at,
        };
        let Some(at) = at else {
            found.push(Worsening::Signs { kind: message.kind() });
            continue;
        };
        let (was, _) = known.swap_remove(at);
        for (was, is) in was.takes().into_iter().zip(message.takes()) {
            let until = |takes: &Takes| takes.usable_until.max(takes.holds_until);
            later(is.spender, (until(&was), before), (until(&is), now), found);
        }
    }
}

/// A message beside the one that was shown before, apart from its times, which are compared elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Terms {
    /// It gives nobody more, and asks for no less.
    NoWorse,
    /// Its amounts are worse, and nothing else.
    WorseAmounts,
    /// It is another message.
    Other,
}

impl Terms {
    const fn of(same: bool, no_worse: bool) -> Self {
        match (same, no_worse) {
            (true, true) => Self::NoWorse,
            (true, false) => Self::WorseAmounts,
            (false, _) => Self::Other,
        }
    }
}

fn compare(was: &TypedMessage, is: &TypedMessage) -> Terms {
    match (was, is) {
        (
            TypedMessage::Permit2Allowance { permit2: first, permit: was },
            TypedMessage::Permit2Allowance { permit2, permit: is },
        ) => Terms::of(
            (first, was.spender, was.details.token) == (permit2, is.spender, is.details.token),
            is.details.amount <= was.details.amount,
        ),
        (
            TypedMessage::Permit2Transfer { permit2: first, permit: was },
            TypedMessage::Permit2Transfer { permit2, permit: is },
        ) => Terms::of(
            (first, was.spender, was.permitted.token) == (permit2, is.spender, is.permitted.token),
            is.permitted.amount <= was.permitted.amount,
        ),
        (
            TypedMessage::UniswapxOrder { permit2: first, order: was },
            TypedMessage::UniswapxOrder { permit2, order: is },
        ) => {
            let (old, new) = (was.info(), is.info());
            let (least, now) = (was.bounds(), is.bounds());
            let outputs = || least.least_out.iter().zip(&now.least_out);
            let same = (first, was.kind(), was.cosigner()) == (permit2, is.kind(), is.cosigner())
                && (old.reactor, old.swapper) == (new.reactor, new.swapper)
                && (old.additionalValidationContract, &old.additionalValidationData)
                    == (new.additionalValidationContract, &new.additionalValidationData)
                && least.token_in == now.token_in
                && least.least_out.len() == now.least_out.len()
                && outputs().all(|(was, is)| (was.token, was.recipient) == (is.token, is.recipient));
            Terms::of(same, now.most_in <= least.most_in && outputs().all(|(was, is)| is.amount >= was.amount))
        }
        (
            TypedMessage::CrossChainOrder { permit2: first, intent: was },
            TypedMessage::CrossChainOrder { permit2, intent: is },
        ) => {
            let (old, new) = (&was.data, &is.data);
            let same = (first, was.origin_settler, was.user, was.origin_chain_id)
                == (permit2, is.origin_settler, is.user, is.origin_chain_id)
                && (old.inputToken, old.outputToken, old.destinationChainId, old.recipient)
                    == (new.inputToken, new.outputToken, new.destinationChainId, new.recipient)
                && (old.exclusiveRelayer, old.exclusivityPeriod, &old.message)
                    == (new.exclusiveRelayer, new.exclusivityPeriod, &new.message);
            Terms::of(same, new.inputAmount <= old.inputAmount && new.outputAmount >= old.outputAmount)
        }
        (
            TypedMessage::Permit2Allowance { .. }
            | TypedMessage::Permit2Transfer { .. }
            | TypedMessage::UniswapxOrder { .. }
            | TypedMessage::CrossChainOrder { .. },
            _,
        ) => Terms::Other,
    }
}

/// How bad an outcome is.
const fn rank(outcome: CheckOutcome) -> u8 {
    match outcome {
        CheckOutcome::Passed => 0,
        CheckOutcome::Warned => 1,
        CheckOutcome::Blocked => 2,
    }
}

fn checks(before: &Preview, now: &Preview, found: &mut Vec<Worsening>) {
    for verdict in &now.verdicts {
        let known: Vec<&Verdict> = before.verdicts.iter().filter(|known| known.check == verdict.check).collect();
        let was = known.iter().map(|known| rank(known.outcome)).max();
        // A check that did not decide before is not one that passed.
        if was.map_or(rank(verdict.outcome) > 0, |was| rank(verdict.outcome) > was) {
            found.push(Worsening::Check { check: verdict.check, detail: verdict.detail() });
        }
        for why in verdict.asks.iter().filter(|why| !known.iter().any(|known| known.asks.contains(why))) {
            found.push(Worsening::Asks(why.clone()));
        }
    }
    // A check that passed and does not decide any more protects nobody.
    let gone = |known: &&Verdict| !now.verdicts.iter().any(|verdict| verdict.check == known.check);
    for known in before.verdicts.iter().filter(gone) {
        let detail = SafeText::clean("it is no longer checked", LINE);
        found.push(Worsening::Check { check: known.check, detail });
    }
    if !before.needs.covers(&now.needs) {
        let (known, needed) = (before.needs.reasons(), now.needs.reasons());
        let counts_for_more = found.iter().any(|one| matches!(one, Worsening::CountsForMore { .. }));
        let new: Vec<&Reason> = needed.iter().filter(|why| !known.iter().any(|known| known.covers(why))).collect();
        if new.is_empty() {
            // A wait became longer, or a question.
            found.push(Worsening::Asks(SafeText::clean("it takes more consent than before", LINE)));
        }
        // The same limit with a higher value: what it counts for says so already.
        let new = new.into_iter().filter(|why| !(counts_for_more && known.iter().any(|known| known.is_limit_of(why))));
        found.extend(new.map(|why| Worsening::Asks(why.words())));
    }
    let new = now.parties.iter().filter(|why| !before.parties.contains(why));
    found.extend(new.map(|why| Worsening::Asks(why.words())));
    let seen = |preview: &Preview| preview.simulated.simulation.changes.complete();
    if seen(before) && !seen(now) {
        found.push(Worsening::Unseen);
    }
    let agreed = |preview: &Preview| preview.opinion.as_ref().is_some_and(|opinion| opinion.agrees);
    if agreed(before) && !agreed(now) {
        let words = SafeText::clean("the safety-guardian no longer agrees", LINE);
        found.push(Worsening::Asks(words));
    }
}

#[cfg(test)]
mod tests;
