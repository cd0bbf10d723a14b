//! View model of an approval request. Everything is taken from the signing payload and its simulation; only the Golem's
//! words and roles come from elsewhere and are marked so.

use alloy::primitives::{Address, U256, U512};

use super::answering::AnswerRefused;
use crate::labels::AddressNames;
use bardo_base::fabric::SimulatedChange;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_safety::AccountKind;
use bardo_safety::approval::{ApprovalQueue, ApprovalRequest, AskedBy, GrantScope, INCOMPLETE, receivers};
use bardo_safety::content;
use bardo_safety::custody::InnerCall;
use bardo_safety::lending_calls::LendingEffects;
use bardo_safety::permit::PermitBounds;
use bardo_safety::pipeline::Preview;
use bardo_safety::policy::{ChainId, ContractRef, Rules};
use bardo_safety::proposal::{BridgeArrival, ProposalIntent};
use bardo_safety::value::is_unlimited;
use bardo_safety::verdict::Verdict;
use bardo_session::content::{SignedCall, SignedContent, SignedMessage};
use bardo_session::market::MoneyKind;
use bardo_session::questions::{
    ActionAddress, ActionCosts, ActionRequest, AddressPart, AllowanceAfter, AnswerKind, AnswerOption, ArrivalDetails,
    BoundContent, LendingChange, OpinionDetails, OrderDetails, Question, QuestionKey, RawCall, RequestSubject,
    SecondApprovalGiven, SecondApprovalRequest, SimilarScope, TokenChange,
};
use golem_chain::network::{KnownContract, Network, NetworkKind};
use golem_chain::token::TokenId;

/// Maximum length of a line, in characters.
const LINE: usize = 400;
/// Decimals of dollar figures in share calculations.
const DOLLAR_DIGITS: u8 = 8;

/// Known facts about the requesting agent, besides the request itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// Roles that the call passes through.
    pub asked_by: Vec<SafeText>,
    /// Agent's reason for this action.
    pub words: Option<SafeText>,
    /// Addresses that the policy in force lists.
    pub listed: ListedAddresses,
    /// Names of own accounts and labels, shown beside the whole addresses.
    pub names: AddressNames,
}

/// Addresses that a policy lists explicitly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedAddresses {
    contracts: Vec<ContractRef>,
    spenders: Vec<Address>,
    recipients: Vec<Address>,
}

impl ListedAddresses {
    /// Addresses that these rules list.
    pub fn of(rules: &Rules) -> Self {
        Self {
            contracts: rules.allowed_contracts.listed.iter().flatten().copied().collect(),
            spenders: rules.allowed_spenders.listed.iter().flatten().map(|one| one.0).collect(),
            recipients: rules.allowed_recipients.listed.iter().flatten().map(|one| one.0).collect(),
        }
    }

    /// True if an address is listed for its role. A contract with only some functions listed does not count.
    fn has(&self, part: AddressPart, chain_id: u64, address: Address) -> bool {
        match part {
            AddressPart::From | AddressPart::Signer => false,
            AddressPart::Calls => {
                let wanted = ContractRef { chain: ChainId(chain_id), address, selector: None };
                self.contracts.contains(&wanted)
            }
            AddressPart::Spender => self.spenders.contains(&address),
            AddressPart::Receiver => self.recipients.contains(&address),
        }
    }
}

/// View model of an approval request.
pub fn view_model(
    request: &ApprovalRequest,
    network: Option<&Network>,
    number: u64,
    paper: bool,
    context: RequestContext,
) -> Question {
    let preview = &*request.preview;
    let proposal = preview.payload.proposal();
    let (golem_id, context) = match request.asked_by.origin() {
        // The operator's own requests have no roles or words of an agent.
        AskedBy::Operator | AskedBy::Sale { .. } => {
            (GolemId::operator(), RequestContext { asked_by: Vec::new(), words: None, ..context })
        }
        // An origin is no step.
        AskedBy::Step { .. } => (proposal.golem_id.clone(), RequestContext { words: None, ..context }),
        AskedBy::Agent { why } => (proposal.golem_id.clone(), RequestContext { words: why.clone(), ..context }),
    };
    let money = match (paper || preview.paper, preview.network) {
        (true, _) => MoneyKind::Paper,
        (false, NetworkKind::Devnet) if network.is_some_and(|network| network.rehearses.is_some()) => {
            MoneyKind::Rehearsal
        }
        (false, NetworkKind::Devnet) => MoneyKind::Play,
        (false, NetworkKind::Test) => MoneyKind::Test,
        (false, NetworkKind::Real) => MoneyKind::Real,
    };
    Question {
        key: QuestionKey::Action(preview.permit.permit_id),
        number,
        golem_id,
        call_id: Some(proposal.call_id),
        place: request.place,
        of: request.of,
        title: proposal.expected_outcome.clone(),
        value: preview.values.leaves(),
        money,
        asked_at: request.asked_at,
        ends_at: Some(request.ends_at),
        passes_by_itself: request.passes_by_itself,
        needs_password: false,
        reasons: request.reasons.clone(),
        changed: request.changed.clone(),
        revision: request.revision,
        second: second(request),
        to_read: request.requirement.to_read.clone(),
        confirm: request.requirement.confirm.clone(),
        answers: answers(request),
        about: RequestSubject::Action(Box::new(action(preview, network, context))),
    }
}

fn action(preview: &Preview, network: Option<&Network>, context: RequestContext) -> ActionRequest {
    let proposal = preview.payload.proposal();
    let content = content::signed(&preview.payload, &preview.permit.bounds);
    let rest = preview.payload.binding_rest(preview.policy, &preview.permit.bounds);
    let label = |address: Address| context.names.describe(network, address);
    ActionRequest {
        tool: text(proposal.tool.name),
        intent: text(proposal.intent.as_str()),
        chain: network
            .map_or_else(|| text(&proposal.chain_id.to_string()), |network| SafeText::clean(&network.name, 40)),
        chain_id: proposal.chain_id,
        valid_until: preview.permit.expires_at,
        valid_since: preview.permit.issued_at,
        asked_by: context.asked_by.clone(),
        opinion: preview.opinion.as_ref().map(|one| OpinionDetails { agrees: one.agrees, why: one.why.clone() }),
        words: context.words.clone(),
        quoted_at: proposal.trade.as_ref().map(|trade| trade.quoted_at).filter(|at| *at > 0),
        block: preview.simulated.pinned.number,
        changes: changes(preview, network),
        lending: preview.simulated.lending.as_ref().map(lending).map(Box::new),
        arrival: proposal.bridged().map(arrival),
        order: content.order.as_ref().map(signed_order),
        publishes: publishes(&content),
        allowances: allowances(
            preview,
            &content,
            &label,
            network.and_then(|network| network.book.contract(KnownContract::Permit2)),
        ),
        nothing_else: nothing_else(preview),
        costs: costs(preview),
        places: places(preview, network, &label, &context.listed),
        checks: preview.verdicts.iter().map(Verdict::event).collect(),
        permit: preview.permit.permit_id,
        hash: preview.permit.simulation_hash,
        raw: raw(&content),
        bound: Some(Box::new(BoundContent { content, rest })),
        amount: smaller(preview),
        similar: ApprovalQueue::why_no_grant(preview).is_none().then(|| similar(preview)),
    }
}

fn lending(effects: &LendingEffects) -> LendingChange {
    LendingChange {
        symbol: effects.symbol.clone(),
        supply: effects.supply.map(|raw| amount(raw, effects.decimals)),
        debt: effects.debt.map(|raw| amount(raw, effects.decimals)),
        health: [effects.before, effects.after].map(|sums| sums.health_hundredths()),
        moves: effects.falls.clone(),
    }
}

/// Scope of a standing approval for this action.
fn similar(preview: &Preview) -> SimilarScope {
    let (scope, bounds) = (GrantScope::of(preview), &preview.permit.bounds);
    let arrival = preview.payload.proposal().bridged();
    let gets = bounds.inflows.iter().map(|inflow| content::shown(&inflow.token));
    SimilarScope {
        golem_id: scope.golem_id,
        tool: text(scope.tool),
        gives: bounds.outflows.iter().map(|flow| content::shown(&flow.token)).collect(),
        gets: gets.chain(arrival.map(|arrival| content::shown(&arrival.token))).collect(),
        receivers: scope.recipients.into_iter().collect(),
        arrives_on: scope.arrival.map(|(chain_id, _)| chain_id),
        slippage: Some(scope.slippage),
        each_up_to: preview.largest_granted,
    }
}

fn arrival(arrival: &BridgeArrival) -> ArrivalDetails {
    let decimals = arrival.token.decimals;
    ArrivalDetails {
        chain_id: arrival.chain_id,
        symbol: content::shown(&arrival.token),
        address: match arrival.token.id {
            TokenId::Native => None,
            TokenId::Erc20(address) => Some(address),
        },
        expected: amount(arrival.expected, decimals),
        least: amount(arrival.at_least, decimals),
        decimals: Some(decimals),
    }
}

fn signed_order(message: &SignedMessage) -> OrderDetails {
    OrderDetails { kind: message.kind.clone(), usable_until: message.usable_until, fields: message.fields.clone() }
}

/// Content that the calls publish.
fn publishes(content: &SignedContent) -> Vec<(SafeText, SafeText)> {
    content.calls.iter().flat_map(|call| &call.publishes).cloned().collect()
}

/// True if the hash matches the content, and everything displayed of the content is derived from it.
pub(super) fn is_bound(title: &SafeText, action: &ActionRequest) -> bool {
    let Some(BoundContent { content, rest }) = action.bound.as_deref() else { return false };
    let places = |part: AddressPart| {
        let of_part = action.places.iter().filter(move |place| place.part == part);
        of_part.map(|place| place.address).collect::<std::collections::BTreeSet<_>>()
    };
    let messages = || content.calls.iter().flat_map(|call| &call.messages).chain(&content.order);
    let spenders = content.allowances.iter().map(|one| one.spender);
    let spenders = spenders.chain(messages().flat_map(|message| message.spenders.iter().copied())).collect();
    let inside = |call: &SignedCall| InnerCall::of_account(content.account, call.to, call.value, &call.data);
    let called = content.calls.iter().flat_map(|call| [call.to, inside(call).to]).collect();
    let receivers = places(AddressPart::Receiver);
    // Display-only fields of an allowance: its label, and the values before and around it.
    let bare = |one: &AllowanceAfter| AllowanceAfter {
        label: None,
        before: None,
        before_unlimited: false,
        for_open_orders: None,
        until_settled: None,
        ..one.clone()
    };
    content::bind(content, *rest) == action.hash
        && content.expected_outcome == *title
        && content.chain_id == action.chain_id
        && content.calls.iter().all(|call| content::published(&inside(call).data, &content.files) == call.publishes)
        && publishes(content) == action.publishes
        && raw(content) == action.raw
        && content.order.as_ref().map(signed_order) == action.order
        && bounds(content) == action.allowances.iter().map(bare).collect::<Vec<_>>()
        && places(AddressPart::From) == [content.account].into()
        && places(AddressPart::Calls) == called
        && places(AddressPart::Spender) == spenders
        && content.least_in.iter().filter_map(|flow| flow.recipient).all(|who| receivers.contains(&who))
}

/// Label of a Safe or of its owner, with the name that it has.
fn of_safe(what: &str, name: Option<SafeText>) -> Option<SafeText> {
    Some(name.map_or_else(|| SafeText::clean(what, 60), |name| SafeText::clean(&format!("{what}, {name}"), 120)))
}

/// Allowances that may exist after the action.
fn bounds(content: &SignedContent) -> Vec<AllowanceAfter> {
    let after = content.allowances.iter().map(|one| AllowanceAfter {
        symbol: one.symbol.clone(),
        spender: one.spender,
        label: None,
        amount: amount(one.at_most, one.decimals),
        unlimited: is_unlimited(one.at_most),
        through_permit2: one.permit2_expires_at.is_some(),
        expires_at: one.permit2_expires_at,
        before: None,
        before_unlimited: false,
        for_open_orders: None,
        until_settled: None,
    });
    after.collect()
}

/// Amount that can be reduced, in whole tokens, and its token.
fn smaller(preview: &Preview) -> Option<(String, SafeText)> {
    let (token, amount) = preview.payload.proposal().reducible_amount()?;
    let amount = TokenAmount::new(amount, token.decimals).ok()?;
    Some((amount.to_string(), content::shown(token)))
}

/// Second approval that the action needs, and whether it was given.
fn second(request: &ApprovalRequest) -> Option<SecondApprovalRequest> {
    let needed = request.preview.second.as_ref()?;
    let given = request.second.as_ref().map(|given| SecondApprovalGiven { by: given.by(), at: given.at() });
    let approvers = needed.approvers.iter().copied().collect();
    Some(SecondApprovalRequest { approvers, policy: request.preview.policy, entry: None, given })
}

fn answers(request: &ApprovalRequest) -> Vec<AnswerOption> {
    let preview = &*request.preview;
    let second = second(request);
    AnswerKind::ALL
        .into_iter()
        .map(|kind| {
            let why_not = match kind {
                AnswerKind::Similar => ApprovalQueue::why_no_grant(preview).map(text),
                AnswerKind::Smaller => smaller(preview).is_none().then(|| text(&AnswerRefused::NoAmount.to_string())),
                AnswerKind::Once => second.as_ref().and_then(SecondApprovalRequest::why_not),
                AnswerKind::Refuse | AnswerKind::RefuseAndStop => None,
            };
            AnswerOption { kind, why_not }
        })
        .collect()
}

/// Checks that the simulation observed every change; otherwise returns a message for the operator.
fn nothing_else(preview: &Preview) -> Result<(), SafeText> {
    match preview.simulated.simulation.changes.complete() {
        true => Ok(()),
        false => Err(text(INCOMPLETE)),
    }
}

fn places(
    preview: &Preview,
    network: Option<&Network>,
    label: &impl Fn(Address) -> Option<SafeText>,
    listed: &ListedAddresses,
) -> Vec<ActionAddress> {
    let payload = &preview.payload;
    let account = payload.account();
    let mut places: Vec<ActionAddress> = Vec::new();
    let mut add = |part: AddressPart, address: Address, first_seen: bool| {
        let is_from = address == account && part != AddressPart::From;
        let listed = listed.has(part, payload.proposal().chain_id, address);
        let in_book = network.is_some_and(|network| network.book.name_of(address).is_some());
        let label = match (payload.kind(), part) {
            (AccountKind::Safe, AddressPart::From) => of_safe("Safe", label(address)),
            (AccountKind::Safe, AddressPart::Signer) => of_safe("owner of the Safe", label(address)),
            _ => label(address),
        };
        let place = ActionAddress { part, address, label, listed, in_book, is_from, first_seen };
        if !places.iter().any(|known| known.part == part && known.address == address) {
            places.push(place);
        }
    };
    add(AddressPart::From, account, false);
    if payload.signer() != account {
        add(AddressPart::Signer, payload.signer(), false);
    }
    for leg in payload.legs() {
        add(AddressPart::Calls, leg.to, false);
        add(AddressPart::Calls, leg.call(account).to, false);
    }
    for bound in &preview.permit.bounds.allowances {
        add(AddressPart::Spender, bound.spender, false);
    }
    for leg in payload.legs() {
        for slot in &leg.slots {
            for take in slot.message.takes() {
                add(AddressPart::Spender, take.spender, false);
            }
        }
    }
    if let Some(order) = &payload.proposal().order {
        for take in order.message.takes() {
            add(AddressPart::Spender, take.spender, false);
        }
        for address in &payload.proposal().recipients {
            add(AddressPart::Receiver, *address, preview.first_seen && *address != account);
        }
    }
    for inflow in &preview.permit.bounds.inflows {
        add(AddressPart::Receiver, inflow.recipient, preview.first_seen && inflow.recipient != account);
    }
    // What a bridge's pool pays on the other chain is the account's as well: the calldata names nobody else.
    if payload.proposal().arrival.is_some() {
        add(AddressPart::Receiver, account, false);
    }
    // A new liquidity position does not come in as a token, but has an owner as well.
    if payload.proposal().intent == ProposalIntent::Liquidity {
        for address in &payload.proposal().recipients {
            add(AddressPart::Receiver, *address, preview.first_seen && *address != account);
        }
    }
    for address in receivers(preview) {
        add(AddressPart::Receiver, address, preview.first_seen);
    }
    places
}

fn allowances(
    preview: &Preview,
    content: &SignedContent,
    label: &impl Fn(Address) -> Option<SafeText>,
    permit2: Option<Address>,
) -> Vec<AllowanceAfter> {
    let changes = &preview.simulated.simulation.changes;
    let account = preview.payload.account();
    let is_permit2 = |spender: Address| permit2.is_some_and(|known| known == spender);
    let rows = bounds(content).into_iter().zip(&content.allowances).map(|(row, bound)| {
        let before = bound.token.and_then(|token| match bound.permit2_expires_at {
            None => changes.allowance(token, account, bound.spender).map(|change| change.before),
            Some(_) => {
                let mut of_permit2 = changes.permit2_allowances.iter();
                let change = of_permit2
                    .find(|change| change.owner == account && change.token == token && change.spender == bound.spender);
                change.map(|change| change.allowance.before.amount)
            }
        });
        let before_unlimited = before.is_some_and(is_unlimited);
        let before = before.map(|raw| amount(raw, bound.decimals));
        // Permit2's own allowances name the spender; orders take tokens through the token's allowance to Permit2.
        let promised = bound.token.filter(|_| bound.permit2_expires_at.is_none() && is_permit2(bound.spender));
        let promised = promised.and_then(|token| preview.values.promised.get(&TokenId::Erc20(token)).copied());
        let promised = promised.map(|raw| raw.min(bound.at_most)).filter(|raw| !raw.is_zero());
        let for_open_orders = promised.map(|raw| amount(raw, bound.decimals));
        // The simulation settles the order. Until it is settled on chain, its input can be taken in addition.
        let orders = preview.payload.proposal().order.iter().filter(|_| bound.permit2_expires_at.is_none());
        let takes = orders.filter(|_| is_permit2(bound.spender)).flat_map(|order| order.message.takes());
        let takes = takes.filter(|take| bound.token == Some(take.token)).map(|take| take.amount);
        let takes = takes.fold(U256::ZERO, U256::saturating_add);
        let until_settled = (!takes.is_zero()).then(|| amount(bound.at_most.saturating_add(takes), bound.decimals));
        AllowanceAfter { label: label(bound.spender), before, before_unlimited, for_open_orders, until_settled, ..row }
    });
    rows.collect()
}

fn changes(preview: &Preview, network: Option<&Network>) -> Vec<TokenChange> {
    let PermitBounds { outflows, inflows, .. } = &preview.permit.bounds;
    let known = outflows.iter().map(|flow| &flow.token).chain(inflows.iter().map(|inflow| &inflow.token));
    let coin = network.map_or("ETH", |network| network.native_symbol);
    let mut moves = preview.simulated.moves.iter();
    let context = preview.simulated.balance_changes(&preview.payload, known.clone(), coin);
    let row = |context: SimulatedChange| {
        let moved = moves.next().filter(|_| !context.gas);
        let (dollars, worst) = match moved {
            Some(moved) => {
                let decimals = known.clone().find(|token| token.id == moved.token).map_or(18, |token| token.decimals);
                let least = inflows.iter().filter(|inflow| inflow.token.id == moved.token);
                let least = least.fold(U256::ZERO, |sum, inflow| sum.saturating_add(inflow.at_least));
                let most = outflows.iter().filter(|flow| flow.token.id == moved.token);
                let most = most.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount));
                let comes = moved.after >= moved.before;
                let delta = moved.after.abs_diff(moved.before);
                let worst = if comes { least } else { most };
                let dollars = dollars(preview, moved.token, delta, comes).map(|usd| signed(comes, &cents(usd)));
                // An order is simulated with its worst fill, so its figure is already the worst case.
                let is_worst = comes && preview.payload.proposal().order.is_some();
                let context = !worst.is_zero() && (is_worst || worst != delta);
                (dollars, context.then(|| signed(comes, &amount(worst, decimals))))
            }
            None => {
                let gas = share(preview.values.gas, preview.simulated.gas_cost, preview.payload.worst_gas());
                let worst = signed(false, &amount(preview.payload.worst_gas(), 18));
                (gas.map(|usd| signed(false, &cents(usd))), Some(worst))
            }
        };
        TokenChange {
            symbol: context.symbol,
            address: context.address,
            expected: context.change.to_string(),
            dollars,
            before: context.before.to_string(),
            after: context.after.to_string(),
            worst,
            gas: context.gas,
        }
    };
    context.into_iter().map(row).collect()
}

/// Dollar value of a part of a valued amount, at the price of its valuation.
fn dollars(preview: &Preview, token: TokenId, raw: U256, comes: bool) -> Option<Usd> {
    let valued = if comes { &preview.values.inflows } else { &preview.values.outflows };
    let valued = valued.iter().chain(&preview.values.shown).find(|valued| valued.token.id == token)?;
    share(valued.usd, raw, valued.amount)
}

/// Computes `usd · part / whole`.
fn share(usd: Usd, part: U256, whole: U256) -> Option<Usd> {
    let scaled = U512::from(usd.scaled(DOLLAR_DIGITS, Rounding::Down)?);
    let product = scaled.checked_mul(U512::from(part))?.checked_div(U512::from(whole))?;
    Usd::from_scaled(U256::from(u128::try_from(product).ok()?), DOLLAR_DIGITS).ok()
}

fn costs(preview: &Preview) -> ActionCosts {
    let values = &preview.values;
    let out = values.outflows.iter().try_fold(Usd::ZERO, |sum, one| sum.checked_add(one.usd).ok());
    let expected = preview.permit.bounds.inflows.iter().try_fold(Usd::ZERO, |sum, inflow| {
        sum.checked_add(dollars(preview, inflow.token.id, inflow.expected, true)?).ok()
    });
    // A bridge order's output arrives on another chain, so the plan's inflows lack it.
    let arrival = preview.payload.proposal().bridged();
    let expected = match arrival {
        Some(arrival) => {
            expected.and_then(|sum| sum.checked_add(dollars(preview, arrival.token.id, arrival.expected, true)?).ok())
        }
        None => expected,
    };
    let below = |came: Usd, went: Usd| {
        let lost = went.checked_sub(came).unwrap_or(Usd::ZERO);
        let (lost_scaled, went_scaled) =
            (lost.scaled(DOLLAR_DIGITS, Rounding::Up)?, went.scaled(DOLLAR_DIGITS, Rounding::Down)?);
        // A loss is never shown as smaller than it is.
        let bps =
            lost_scaled.checked_mul(10_000)?.checked_add(went_scaled.checked_sub(1)?)?.checked_div(went_scaled)?;
        Some((lost, u64::try_from(bps).ok()?))
    };
    let trades = preview.payload.proposal().trade.is_some() || arrival.is_some();
    ActionCosts {
        spent: values.spent,
        counted: Some(preview.counted),
        received: values.received,
        gas: values.gas,
        worst_loss_bps: out.filter(|_| trades).and_then(|out| below(values.received, out)).map(|(_, bps)| bps),
        expected_loss: out.zip(expected).filter(|_| trades).and_then(|(out, expected)| below(expected, out)),
    }
}

fn raw(content: &SignedContent) -> Vec<RawCall> {
    let calls = content.calls.iter().map(|call| RawCall {
        purpose: call.purpose.clone(),
        to: call.to,
        value_wei: call.value.to_string(),
        gas_limit: call.gas_limit,
        data: call.data.to_string(),
        signs: call.messages.iter().flat_map(signs).collect(),
    });
    calls.collect()
}

/// Fields of a message, one per line.
fn signs(message: &SignedMessage) -> Vec<SafeText> {
    let mut lines = vec![text(&format!("{}, verified by {}", message.kind, message.verifier))];
    lines.extend(message.fields.iter().map(|(name, value)| text(&format!("{name}: {value}"))));
    lines
}

fn amount(raw: U256, decimals: u8) -> String {
    TokenAmount::new(raw, decimals).map_or_else(|_| raw.to_string(), |amount| amount.to_string())
}

fn signed(comes: bool, figure: &str) -> String {
    format!("{}{figure}", if comes { "+" } else { "−" })
}

fn cents(usd: Usd) -> String {
    format!("${}", bardo_base::format::grouped(&bardo_base::format::nearest_cent(usd)))
}

fn text(words: &str) -> SafeText {
    SafeText::clean(words, LINE)
}
