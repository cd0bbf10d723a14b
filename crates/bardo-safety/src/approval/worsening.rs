//! Comparison of an action's preview with its preview after another simulation. Only a change for the worse makes the
//! operator view and select again.
//!
//! The comparison uses typed values only. It covers amounts, recipients, spenders, allowances, messages, checks and
//! reasons. It ignores nonces, and deadlines that move with the clock. Anything that cannot be compared counts as
//! worse.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use alloy::primitives::{Address, U256};

use super::ApprovalReason;
use super::reason::RISEN_BPS;
use crate::pipeline::Preview;
use crate::proposal::{AllowanceBound, AllowanceKind, BridgeArrival, LegPurpose};
use crate::typed::{TakeableAmount, TypedMessage};
use crate::value::is_unlimited;
use crate::verdict::Verdict;
use bardo_base::display::{check_word, found as found_words};
use bardo_base::fabric::{CheckOutcome, health_factor};
use bardo_base::format::age;
use bardo_base::model::Check;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::erc7540::manage::ManageCall;

/// Tolerated extension of a signature's or allowance's lifetime after another simulation, in seconds. Deadlines follow
/// the block's timestamp, which may be ahead of the clock by this much.
const LATER_SECONDS: u64 = 60;
/// Decimal places of compared dollar values; the ledger counts millionths.
const DOLLAR_DIGITS: u8 = 6;
/// Length of a function selector, in bytes.
const SELECTOR: usize = 4;
/// Length limit of a line, in characters.
const LINE: usize = 400;

/// A change for the worse, with its figures.
#[derive(Debug, Clone, PartialEq)]
pub enum Worsening {
    /// More of a token may leave the account. Amounts in raw units.
    MoreLeaves {
        /// Token that leaves.
        token: TokenInfo,
        /// Maximum outflow before.
        before: U256,
        /// Maximum outflow now.
        now: U256,
    },
    /// Less of a token is guaranteed to arrive. Amounts in raw units.
    LessComesIn {
        /// Token that arrives.
        token: TokenInfo,
        /// Guaranteed minimum before.
        before: U256,
        /// Guaranteed minimum now.
        now: U256,
    },
    /// Less of a token is expected to arrive, with the same or a higher guaranteed minimum. Amounts in raw units.
    LessExpected {
        /// Token that arrives.
        token: TokenInfo,
        /// Expected amount before.
        before: U256,
        /// Expected amount now.
        now: U256,
    },
    /// The action's value rose by more than the tolerance for price moves while the operator reads.
    CountsForMore {
        /// Value before, in dollars.
        before: Usd,
        /// Value now, in dollars.
        now: Usd,
    },
    /// The health factor after the action is lower than before by more than the tolerance for price moves. In hundredths.
    LowerHealth {
        /// Health factor before; `None` without a debt.
        before: Option<u64>,
        /// Health factor now.
        now: Option<u64>,
    },
    /// An address receives something that received nothing before.
    Receiver(Address),
    /// The action calls an address, or a function of it, that it did not call before.
    Calls(Address),
    /// A managed vault would be valued or settled at another worth, whatever the direction: its depositors, or the account, lose.
    Valuation(Address),
    /// A spender may take more of a token than before. Amounts in raw units.
    MayTakeMore {
        /// Spender of the allowance or signature.
        spender: Address,
        /// Token that it may take.
        token: TokenInfo,
        /// Maximum that the spender could take before.
        before: U256,
        /// Maximum that the spender can take now.
        now: U256,
    },
    /// A spender may take something for longer than before.
    MayTakeLonger {
        /// Spender of the allowance or signature.
        spender: Address,
        /// Extension in seconds.
        seconds: u64,
    },
    /// The message to sign differs from the earlier one in more than its nonce, its times and better amounts.
    Signs {
        /// Name of the message's type.
        kind: &'static str,
    },
    /// A check has a worse result than before.
    Check {
        /// Check with the worse result.
        check: Check,
        /// Explanation of the check.
        detail: SafeText,
    },
    /// There is a new reason to ask the operator.
    Asks(SafeText),
    /// The simulation no longer sees every change.
    Unseen,
    /// The action no longer only leaves a position, or no longer only revokes, cancels or refunds.
    Class,
    /// The policy has changed.
    Policy,
    /// The action was simulated more often than the comparison supports.
    TooOften,
    /// The action is a different one, for example with another account, signer, chain, tool or intent.
    Another,
}

impl Worsening {
    /// Returns true if the change is a worse amount of a token.
    const fn is_an_amount(&self) -> bool {
        match self {
            Self::MoreLeaves { .. } | Self::LessComesIn { .. } | Self::MayTakeMore { .. } => true,
            Self::LessExpected { .. }
            | Self::CountsForMore { .. }
            | Self::LowerHealth { .. }
            | Self::Receiver(_)
            | Self::Calls(_)
            | Self::Valuation(_)
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

    /// Returns the change as one line of text.
    pub fn describe(&self) -> SafeText {
        SafeText::clean(&self.to_string(), LINE)
    }
}

impl fmt::Display for Worsening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |token: &TokenInfo, raw: U256| match is_unlimited(raw) {
            true => "without limit".to_owned(),
            false => TokenAmount::new(raw, token.decimals).map_or_else(|_| raw.to_string(), |whole| whole.to_string()),
        };
        let cents = |usd: &Usd| format!("${}", bardo_base::format::grouped(&usd.to_fixed(2, Rounding::Up)));
        match self {
            Self::MoreLeaves { token, before, now } => {
                write!(f, "maximum {} out: {} → {}", token.symbol, amount(token, *before), amount(token, *now))
            }
            Self::LessComesIn { token, before, now } => {
                write!(f, "minimum {} in: {} → {}", token.symbol, amount(token, *before), amount(token, *now))
            }
            Self::LessExpected { token, before, now } => {
                write!(f, "expected {} in: {} → {}", token.symbol, amount(token, *before), amount(token, *now))
            }
            Self::CountsForMore { before, now } => {
                write!(f, "counts against the limits: {} → {}", cents(before), cents(now))
            }
            Self::LowerHealth { before, now } => {
                write!(f, "health factor after it: {} → {}", health_factor(*before), health_factor(*now))
            }
            Self::Receiver(who) => write!(f, "another receiver: {who}"),
            Self::Calls(to) => write!(f, "another call: {to}"),
            Self::Valuation(vault) => write!(f, "another valuation of the vault {vault}"),
            Self::MayTakeMore { spender, token, before, now } => {
                let (before, now) = (amount(token, *before), amount(token, *now));
                write!(f, "{spender} may take of {}: {before} → {now}", token.symbol)
            }
            Self::MayTakeLonger { spender, seconds } => {
                write!(f, "{spender} may take it {} longer", age(*seconds))
            }
            Self::Signs { kind } => write!(f, "another message to sign: {kind}"),
            Self::Check { check, detail } => write!(f, "{}: {detail}", check_word(*check)),
            Self::Asks(why) => write!(f, "also needs approval because {why}"),
            Self::Unseen => f.write_str("the simulation no longer sees every change"),
            Self::Class => f.write_str("it no longer only exits a position or revokes"),
            Self::Policy => f.write_str("the policy has changed since"),
            Self::TooOften => f.write_str("it was re-simulated too often to compare: review it again"),
            Self::Another => f.write_str("it differs from the action you were asked about"),
        }
    }
}

/// Returns every change for the worse from `before` to `now`, each once.
pub(crate) fn worsenings(before: &Preview, now: &Preview) -> Vec<Worsening> {
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

/// Properties in which two previews of the same action are equal, whatever their amounts.
fn identity(preview: &Preview) -> impl PartialEq {
    let (payload, proposal) = (&preview.payload, preview.payload.proposal());
    let trade = proposal.trade.as_ref().map(|trade| (trade.token_in.id, trade.token_out.id, trade.exact_output));
    (
        (proposal.chain_id, payload.account(), payload.signer(), payload.payer(), payload.kind()),
        (proposal.tool.name, proposal.tool.capability, proposal.intent, proposal.golem_id.clone()),
        (preview.network, trade, proposal.order.is_some()),
    )
}

/// Total amount of each token over all its flows.
type TokenTotals = BTreeMap<TokenId, (TokenInfo, U256)>;

fn sum(flows: impl Iterator<Item = (TokenInfo, U256)>) -> TokenTotals {
    let mut sums = TokenTotals::new();
    for (token, amount) in flows {
        let (_, sum) = sums.entry(token.id).or_insert((token, U256::ZERO));
        *sum = sum.saturating_add(amount);
    }
    sums
}

/// Tokens of which `these` contains less than `those`: token, amount in `those`, amount in `these`.
fn below(those: &TokenTotals, these: &TokenTotals) -> Vec<(TokenInfo, U256, U256)> {
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
    // Compare per recipient, so that one recipient's gain does not hide another's loss.
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
    let health =
        |preview: &Preview| preview.simulated.lending.as_ref().map(|effects| effects.after.health_hundredths());
    if let (Some(was), Some(is)) = (health(before), health(now))
        && is_lower(was, is)
    {
        found.push(Worsening::LowerHealth { before: was, now: is });
    }
    let simulated = (&before.simulated, &now.simulated);
    if (simulated.0.only_revokes && !simulated.1.only_revokes) || (simulated.0.leaves && !simulated.1.leaves) {
        found.push(Worsening::Class);
    }
}

/// Returns true if a value rose by more than [`RISEN_BPS`]. A value too large to compare counts as risen.
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

/// Returns true if a health factor fell by more than [`RISEN_BPS`]. None stands for no debt, which nothing is above.
fn is_lower(before: Option<u64>, now: Option<u64>) -> bool {
    match (before, now) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(now)) => {
            u128::from(now) * 10_000 < u128::from(before) * 10_000_u128.saturating_sub(RISEN_BPS)
        }
    }
}

fn arrivals(before: &Preview, now: &Preview, found: &mut Vec<Worsening>) {
    let arrival = |preview: &Preview| -> Option<BridgeArrival> { preview.payload.proposal().bridged().cloned() };
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
        preview.payload.proposal().recipients.iter().copied().chain(inflows).collect()
    };
    let paid = |preview: &Preview| -> BTreeSet<Address> { preview.simulated.paid.iter().copied().collect() };
    found.extend(receivers(now).difference(&receivers(before)).map(|who| Worsening::Receiver(*who)));
    // A trade credits pools and fillers, and a better route uses other ones.
    if now.payload.proposal().trade.is_none() && now.payload.proposal().order.is_none() {
        found.extend(paid(now).difference(&paid(before)).map(|who| Worsening::Receiver(*who)));
    }
    let calls = |preview: &Preview| -> BTreeSet<(Address, LegPurpose, Option<[u8; SELECTOR]>)> {
        let legs = preview.payload.legs().iter().map(|leg| (leg.purpose, leg.call(preview.payload.account())));
        legs.map(|(purpose, call)| (call.to, purpose, call.data.first_chunk::<SELECTOR>().copied())).collect()
    };
    found.extend(calls(now).difference(&calls(before)).map(|(to, ..)| Worsening::Calls(*to)));
    let (was, is) = (valuations(before), valuations(now));
    found.extend(
        is.into_iter()
            .filter(|(vault, worth)| was.get(vault).is_none_or(|was| !is_about(*was, *worth)))
            .map(|(vault, _)| Worsening::Valuation(vault)),
    );
}

/// Worth at which the action values or settles managed vaults, in raw units of their tokens. No declared flow bounds it.
fn valuations(preview: &Preview) -> BTreeMap<Address, U256> {
    let account = preview.payload.account();
    let calls = preview.payload.legs().iter().map(|leg| leg.call(account));
    calls.filter_map(|call| Some((call.to, ManageCall::decode(&call.data, account).ok()?.total()?))).collect()
}

/// Returns true if two worths differ by at most a basis point, which a supply earns meanwhile.
fn is_about(was: U256, is: U256) -> bool {
    was.abs_diff(is).saturating_mul(U256::from(10_000)) <= was
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
    // An added allowance already accounts for it, with its spender.
    if !below(&takeable(now), &takeable(before)).is_empty()
        && !found.iter().any(|one| matches!(one, Worsening::MayTakeMore { .. }))
    {
        for (token, is, was) in below(&takeable(now), &takeable(before)) {
            found.push(Worsening::MoreLeaves { token, before: was, now: is });
        }
    }
}

/// Records an extension of the time in which `spender` can take something, measured from each simulation.
fn later(spender: Address, (was, before): (u64, &Preview), (is, now): (u64, &Preview), found: &mut Vec<Worsening>) {
    let left = |until: u64, preview: &Preview| until.saturating_sub(preview.permit.issued_at / 1_000);
    let longer = left(is, now).saturating_sub(left(was, before));
    if longer > LATER_SECONDS {
        found.push(Worsening::MayTakeLonger { spender, seconds: longer });
    }
}

/// Every message to sign, with its signer.
fn signed(preview: &Preview) -> Vec<(&TypedMessage, Address)> {
    let slots = preview.payload.legs().iter().flat_map(|leg| &leg.slots).map(|slot| (&slot.message, slot.signer));
    slots.chain(preview.payload.order().map(|order| (&order.message, order.signer))).collect()
}

fn messages(before: &Preview, now: &Preview, found: &mut Vec<Worsening>) {
    let mut known = signed(before);
    for (message, signer) in signed(now) {
        let terms =
            |of: MessageComparison| known.iter().position(|(was, by)| *by == signer && compare(was, message) == of);
        // A message that is worse in its amounts alone is reported already by the flows or allowances.
        let told = || found.iter().any(Worsening::is_an_amount);
        let at = match terms(MessageComparison::NoWorse) {
            None if told() => terms(MessageComparison::WorseAmounts),
            at => at,
        };
        let Some(at) = at else {
            found.push(Worsening::Signs { kind: message.kind() });
            continue;
        };
        let (was, _) = known.swap_remove(at);
        for (was, is) in was.takes().into_iter().zip(message.takes()) {
            let until = |takes: &TakeableAmount| takes.usable_until.max(takes.holds_until);
            later(is.spender, (until(&was), before), (until(&is), now), found);
        }
    }
}

/// Relation of a message to the earlier one. Times are compared separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageComparison {
    /// No amount is worse, and everything else is equal.
    NoWorse,
    /// Only amounts are worse.
    WorseAmounts,
    /// A different message altogether.
    Other,
}

impl MessageComparison {
    const fn of(same: bool, no_worse: bool) -> Self {
        match (same, no_worse) {
            (true, true) => Self::NoWorse,
            (true, false) => Self::WorseAmounts,
            (false, _) => Self::Other,
        }
    }
}

fn compare(was: &TypedMessage, is: &TypedMessage) -> MessageComparison {
    match (was, is) {
        (
            TypedMessage::Permit2Allowance { permit2: first, permit: was },
            TypedMessage::Permit2Allowance { permit2, permit: is },
        ) => MessageComparison::of(
            (first, was.spender, was.details.token) == (permit2, is.spender, is.details.token),
            is.details.amount <= was.details.amount,
        ),
        (
            TypedMessage::Permit2Transfer { permit2: first, permit: was },
            TypedMessage::Permit2Transfer { permit2, permit: is },
        ) => MessageComparison::of(
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
            MessageComparison::of(
                same,
                now.most_in <= least.most_in && outputs().all(|(was, is)| is.amount >= was.amount),
            )
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
            MessageComparison::of(same, new.inputAmount <= old.inputAmount && new.outputAmount >= old.outputAmount)
        }
        (
            TypedMessage::Permit2Allowance { .. }
            | TypedMessage::Permit2Transfer { .. }
            | TypedMessage::UniswapxOrder { .. }
            | TypedMessage::CrossChainOrder { .. },
            _,
        ) => MessageComparison::Other,
    }
}

/// Severity of a check's outcome.
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
        // A check without an earlier verdict does not count as passed.
        if was.map_or(rank(verdict.outcome) > 0, |was| rank(verdict.outcome) > was) {
            let detail = SafeText::clean(&found_words(&verdict.finding), LINE);
            found.push(Worsening::Check { check: verdict.check, detail });
        }
        for why in verdict.asks.iter().filter(|why| !known.iter().any(|known| known.asks.contains(why))) {
            found.push(Worsening::Asks(SafeText::clean(&why.to_string(), LINE)));
        }
    }
    // A check that is missing now no longer protects the account.
    let gone = |known: &&Verdict| !now.verdicts.iter().any(|verdict| verdict.check == known.check);
    for known in before.verdicts.iter().filter(gone) {
        let detail = SafeText::clean("it is no longer checked", LINE);
        found.push(Worsening::Check { check: known.check, detail });
    }
    if !before.needs.covers(&now.needs) {
        let (known, needed) = (before.needs.reasons(), now.needs.reasons());
        let counts_for_more = found.iter().any(|one| matches!(one, Worsening::CountsForMore { .. }));
        let new: Vec<&ApprovalReason> =
            needed.iter().filter(|why| !known.iter().any(|known| known.covers(why))).collect();
        if new.is_empty() {
            // A delay became longer, or a delay became an approval.
            found.push(Worsening::Asks(SafeText::clean("it needs more consent than before", LINE)));
        }
        // For the same limit with a higher value, the risen value is reported already.
        let new = new.into_iter().filter(|why| !(counts_for_more && known.iter().any(|known| known.is_limit_of(why))));
        found.extend(new.map(|why| Worsening::Asks(why.describe())));
    }
    let new = now.parties.iter().filter(|why| !before.parties.contains(why));
    found.extend(new.map(|why| Worsening::Asks(why.describe())));
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
