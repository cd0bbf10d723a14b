//! Effects that a proposal's calls guarantee, decoded from their calldata. A simulation shows what a call does on the
//! current chain state. Only the calldata shows what it can do after the market has moved, or behind another
//! transaction. The minimum inflows and maximum outflows are therefore decoded, and a call that cannot be decoded is
//! not signed.

use bardo_base::model::RuleName;
use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall as _;

use super::across_calls::{self, DepositRuleError};
use super::fee_calls::{self, FeeRuleError};
use super::hook_calls::{self, HookRuleError};
use super::lending_calls::{self, LendingRuleError};
use super::position_calls::{self, PositionManagers, PositionRuleError};
use super::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use super::registry_calls::{self, RegistryCallError};
use super::simulate::{DeclarationFault, figure, when};
use super::typed::TypedMessage;
use super::vault_calls::{self, VaultRuleError};
use super::vault_management::{self, ManageRuleError};
use bardo_abi::erc20::{Erc20, Weth9};
use bardo_abi::erc7683::OriginSettler;
use bardo_abi::permit2::Permit2;
use bardo_abi::policy_cage::PolicyCage;
use bardo_base::id::GolemId;
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::token::TokenId;
use golem_protocols::aave::call::LendingCall;
use golem_protocols::uniswap::address::{V2_PAIR_INIT_CODE_HASH, v2_pair};
use golem_protocols::uniswap::router::{
    CALLER, RouterCommand, RouterDecodeError, RouterExecution, RouterVersion, SwapAmounts, SwapCommand, SwapPath,
    THE_ROUTER,
};

/// Effects that a call's calldata guarantees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct GuaranteedFlows {
    /// Maximum that the account pays of each token, in raw units.
    out: BTreeMap<TokenId, U256>,
    /// Minimum that the account receives of each token, in raw units.
    into: BTreeMap<TokenId, U256>,
    /// Deadline of the call, in seconds since the Unix epoch; `None` without one.
    until: Option<U256>,
    /// Tokens of which the called contract decides how much comes in: shares of a deposit, what shares pay out, or released fees.
    /// The simulation before each signature bounds it, see `vault_calls` and `fee_calls`.
    decided: BTreeSet<TokenId>,
    /// True for a collection of what the account is owed: the contract knows the amount, and takes nothing.
    is_owed: bool,
}

/// Error: a call cannot be decoded, or is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum CallError {
    #[error(transparent)]
    Router(#[from] RouterDecodeError),
    #[error("it pays {0}, which is not a declared recipient")]
    UnnamedRecipient(Address),
    #[error("unknown Permit2 call")]
    Permit2,
    #[error("unsupported settler call")]
    Settler,
    #[error("it calls a contract that is not one of the declared tokens")]
    NoToken,
    #[error("unknown call")]
    Unknown,
    #[error("PolicyCage rules can only be changed by a separate action")]
    PolicyCageBeside,
    #[error("only the operator can change the PolicyCage rules")]
    PolicyCageCaller,
    #[error("it neither sets nor clears the PolicyCage rules")]
    PolicyCageCall,
    #[error(transparent)]
    Lending(#[from] LendingRuleError),
    #[error(transparent)]
    Position(#[from] PositionRuleError),
    #[error(transparent)]
    Vault(#[from] VaultRuleError),
    #[error(transparent)]
    Manage(#[from] ManageRuleError),
    #[error(transparent)]
    Fees(#[from] FeeRuleError),
    #[error(transparent)]
    Hook(#[from] HookRuleError),
    #[error(transparent)]
    Deposit(#[from] DepositRuleError),
    #[error(transparent)]
    Registry(#[from] RegistryCallError),
    #[error("a swap without a path")]
    NoPath,
    #[error("it pays {0}")]
    Recipient(Address),
    #[error("its permit differs from the one to be signed")]
    OtherPermit,
    #[error("it does not contain the signature to be made")]
    UnusedPermit,
}

/// Returns every fault in the calls of `proposal`: unknown calls, and declared bounds that the calldata does not
/// guarantee.
pub fn read(proposal: &Proposal, book: &AddressBook) -> Vec<DeclarationFault> {
    let mut faults = Vec::new();
    if across_calls::claims_arrival(proposal, book) {
        faults.push(DeclarationFault::new(
            RuleName::Calldata,
            "an arrival on another chain that a deposit in the calldata asks for",
            "no such deposit",
        ));
    }
    // They are shown as what a call publishes, and stored afterwards. Each call of a registry is asked for its own.
    if !proposal.files.is_empty() && proposal.intent != ProposalIntent::Identity {
        faults.push(DeclarationFault::new(
            RuleName::Calldata,
            "no files beside calls that publish none",
            format!("{} of them", proposal.files.len()),
        ));
    }
    for (at, leg) in proposal.legs.iter().enumerate() {
        match bound_by(leg, proposal, book) {
            Ok(binding) if leg.purpose == LegPurpose::Main => check_declared(proposal, &binding, &mut faults),
            Ok(_) => {}
            Err(why) => faults.push(DeclarationFault::new(
                RuleName::Calldata,
                "a call that can be decoded",
                format!("transaction {} to {}: {why}", at + 1, leg.to),
            )),
        }
    }
    faults
}

/// Decodes the effects that a call guarantees. Calldata without a guaranteed inflow is not a trade, whatever the call
/// does today: the called contract could act differently later.
fn bound_by(leg: &PlanLeg, proposal: &Proposal, book: &AddressBook) -> Result<GuaranteedFlows, CallError> {
    let router = book.contracts().find(|(_, address)| *address == leg.to).and_then(|(role, _)| RouterVersion::of(role));
    if let Some(version) = router {
        let execution = RouterExecution::decode(&leg.data, version)?;
        return routed(&execution, leg, proposal, book);
    }
    let managers = PositionManagers::of(book);
    if position_calls::concerns(leg, proposal, managers) {
        return position(leg, proposal, managers);
    }
    let pool = lending_calls::pool(book);
    if lending_calls::concerns(leg, proposal, pool) {
        return lending(leg, proposal, pool);
    }
    if vault_management::concerns(leg, proposal, book) {
        vault_management::decode(leg, proposal, book)?;
        // A settlement takes no more than its allowance, which is at most the one declared payment, and what it brings more than that
        // the vault decides.
        let out = proposal.outflows.iter().map(|payment| (payment.token.id, payment.amount)).collect();
        let decided = proposal.inflows.iter().map(|inflow| inflow.token.id).collect();
        return Ok(GuaranteedFlows { out, decided, ..GuaranteedFlows::default() });
    }
    if vault_calls::concerns(leg, proposal, book) {
        return vault(leg, proposal);
    }
    if fee_calls::concerns(leg, proposal, book) {
        fee_calls::decode(leg, proposal, book)?;
        // A release takes no more than its allowance, which is exactly the one declared payment, and brings what the jar holds.
        let out = proposal.outflows.iter().map(|payment| (payment.token.id, payment.amount)).collect();
        let decided = proposal.inflows.iter().map(|inflow| inflow.token.id).collect();
        return Ok(GuaranteedFlows { out, decided, ..GuaranteedFlows::default() });
    }
    if hook_calls::concerns(leg, proposal) {
        hook_calls::decode(leg, proposal, book)?;
        return Ok(GuaranteedFlows::default());
    }
    if across_calls::concerns(leg, book) {
        let plan = across_calls::decode(leg, proposal, book)?;
        let out = BTreeMap::from([(TokenId::Erc20(plan.call.input_token), plan.call.input_amount)]);
        return Ok(GuaranteedFlows { out, ..GuaranteedFlows::default() });
    }
    let registries = registry_calls::registries(book);
    if registries.contains_key(&leg.to) || proposal.intent == ProposalIntent::Identity {
        registry_calls::decode(leg, proposal, &registries)?;
        return Ok(GuaranteedFlows::default());
    }
    plain(leg, proposal, book)
}

/// Decodes the effects of a call that moves or wraps a token, or changes an allowance, and no more.
fn plain(leg: &PlanLeg, proposal: &Proposal, book: &AddressBook) -> Result<GuaranteedFlows, CallError> {
    let data = &leg.data;
    let exact = |encoded: Vec<u8>| encoded == data.as_ref();
    let mut binding = GuaranteedFlows::default();
    if !leg.value.is_zero() {
        binding.out.insert(TokenId::Native, leg.value);
    }
    let named = |to: Address| match proposal.recipients.contains(&to) {
        true => Ok(()),
        false => Err(CallError::UnnamedRecipient(to)),
    };
    if data.is_empty() {
        // A plain transfer of the native token.
        named(leg.to)?;
        return Ok(binding);
    }
    if book.contract(KnownContract::Permit2) == Some(leg.to) {
        let known = Permit2::approveCall::abi_decode(data).is_ok_and(|call| exact(call.abi_encode()))
            || Permit2::lockdownCall::abi_decode(data).is_ok_and(|call| exact(call.abi_encode()))
            || Permit2::invalidateUnorderedNoncesCall::abi_decode(data).is_ok_and(|call| exact(call.abi_encode()));
        return if known { Ok(binding) } else { Err(CallError::Permit2) };
    }
    if book.contract(KnownContract::OriginSettler) == Some(leg.to) {
        let known = OriginSettler::refundCall::abi_decode(data).is_ok_and(|call| exact(call.abi_encode()));
        return if known { Ok(binding) } else { Err(CallError::Settler) };
    }
    let cage = book.contract(KnownContract::PolicyCage) == Some(leg.to);
    if cage || proposal.intent == ProposalIntent::PolicyCage {
        return policy_cage(leg, proposal, cage).map(|()| binding);
    }
    let token = TokenId::Erc20(leg.to);
    if book.contract(KnownContract::WrappedNative) == Some(leg.to) {
        if Weth9::depositCall::abi_decode(data).is_ok_and(|call| exact(call.abi_encode())) {
            binding.into.insert(token, leg.value);
            return Ok(binding);
        }
        if let Ok(call) = Weth9::withdrawCall::abi_decode(data)
            && exact(call.abi_encode())
        {
            binding.out.insert(token, call.wad);
            binding.into.insert(TokenId::Native, call.wad);
            return Ok(binding);
        }
    }
    let outflows = proposal.outflows.iter().map(|flow| flow.token.id);
    let mut tokens = outflows.chain(proposal.allowances.iter().map(|bound| bound.token.id));
    if !tokens.any(|id| id == token) {
        return Err(CallError::NoToken);
    }
    if Erc20::approveCall::abi_decode(data).is_ok_and(|call| exact(call.abi_encode())) {
        return Ok(binding);
    }
    match Erc20::transferCall::abi_decode(data) {
        Ok(call) if exact(call.abi_encode()) => {
            named(call.to)?;
            binding.out.insert(token, call.value);
            Ok(binding)
        }
        _ => Err(CallError::Unknown),
    }
}

/// Decodes the effects that a change of a position guarantees: the minimums of a withdrawal, of which fees are no part, or
/// the maximums of a deposit.
fn position(leg: &PlanLeg, proposal: &Proposal, managers: PositionManagers) -> Result<GuaranteedFlows, CallError> {
    let plan = position_calls::decode(leg, proposal, managers)?;
    let bound = GuaranteedFlows { until: plan.deadline(), ..GuaranteedFlows::default() };
    if let Some(most) = plan.most() {
        let tokens = position_calls::given_tokens(proposal).ok_or(PositionRuleError::Outflows)?;
        let out = tokens.into_iter().map(currency).zip(most).collect();
        return Ok(GuaranteedFlows { out, ..bound });
    }
    let Some(least) = plan.least() else {
        return Ok(GuaranteedFlows { is_owed: true, ..bound });
    };
    // Which tokens these are follows from the position's state, which is compared with the same declaration.
    let tokens = position_calls::tokens(proposal).ok_or(PositionRuleError::Inflows)?;
    let into = tokens.into_iter().map(currency).zip(least).collect();
    Ok(GuaranteedFlows { into, ..bound })
}

/// Decodes the effects that a lending action guarantees: the pool takes or pays exactly the amount, or at most it for a
/// repayment, and pays out a whole supply, whose amount it knows.
fn lending(leg: &PlanLeg, proposal: &Proposal, pool: Option<Address>) -> Result<GuaranteedFlows, CallError> {
    let call = lending_calls::decode(leg, proposal, pool)?;
    let flow = BTreeMap::from([(TokenId::Erc20(call.asset()), call.amount())]);
    Ok(match call {
        LendingCall::Supply { .. } | LendingCall::Repay { .. } => GuaranteedFlows { out: flow, ..Default::default() },
        LendingCall::Withdraw { .. } if call.withdraws_all() => {
            GuaranteedFlows { is_owed: true, ..GuaranteedFlows::default() }
        }
        LendingCall::Withdraw { .. } | LendingCall::Borrow { .. } => {
            GuaranteedFlows { into: flow, ..GuaranteedFlows::default() }
        }
    })
}

/// Decodes the effects that a vault action guarantees: exactly the amount of the deposit leaves, or exactly this number of shares.
/// A claim takes nothing.
fn vault(leg: &PlanLeg, proposal: &Proposal) -> Result<GuaranteedFlows, CallError> {
    let plan = vault_calls::decode(leg, proposal)?;
    let out = plan.given().map(|token| (token, plan.call.amount())).into_iter().collect();
    Ok(GuaranteedFlows { out, decided: plan.received().into_iter().collect(), ..GuaranteedFlows::default() })
}

/// Checks that a call only changes the account's rules in PolicyCage, and that the operator proposed it.
fn policy_cage(leg: &PlanLeg, proposal: &Proposal, cage: bool) -> Result<(), CallError> {
    if !cage || proposal.intent != ProposalIntent::PolicyCage {
        return Err(CallError::PolicyCageBeside);
    }
    if proposal.golem_id != GolemId::operator() {
        return Err(CallError::PolicyCageCaller);
    }
    let exact = |encoded: Vec<u8>| encoded == leg.data.as_ref();
    let known = PolicyCage::configureCall::abi_decode_validate(&leg.data).is_ok_and(|call| exact(call.abi_encode()))
        || PolicyCage::clearCall::abi_decode_validate(&leg.data).is_ok_and(|call| exact(call.abi_encode()));
    if !known || !leg.value.is_zero() || !leg.slots.is_empty() {
        return Err(CallError::PolicyCageCall);
    }
    Ok(())
}

/// Decodes the effects that a call of the router guarantees for the account.
fn routed(
    execution: &RouterExecution,
    leg: &PlanLeg,
    proposal: &Proposal,
    book: &AddressBook,
) -> Result<GuaranteedFlows, CallError> {
    let account = proposal.account;
    let mut binding = GuaranteedFlows { until: execution.deadline, ..GuaranteedFlows::default() };
    let add = |to: &mut BTreeMap<TokenId, U256>, token: TokenId, amount: U256| {
        let sum = to.entry(token).or_default();
        *sum = sum.saturating_add(amount);
    };
    if !leg.value.is_zero() {
        add(&mut binding.out, TokenId::Native, leg.value);
    }
    let mine = |recipient: Address| recipient == account || recipient == CALLER;
    let mut permits = leg.slots.iter().map(|slot| &slot.message);
    for (at, command) in execution.commands.iter().enumerate() {
        match command {
            RouterCommand::Swap(SwapCommand { path, exact, recipient, payer_is_user, .. }) => {
                let (first, last) = ends(path).ok_or(CallError::NoPath)?;
                let (most, least) = match *exact {
                    SwapAmounts::In { amount, out_min } => (amount, out_min),
                    SwapAmounts::Out { amount, in_max } => (in_max, amount),
                };
                // V4 settles the native token from the router's balance, which is the call's value, not from a payer.
                if *payer_is_user && !first.is_zero() {
                    add(&mut binding.out, TokenId::Erc20(first), most);
                }
                if mine(*recipient) {
                    add(&mut binding.into, currency(last), least);
                } else if *recipient != THE_ROUTER && !sold_next(execution.commands.get(at + 1), last, *recipient, book)
                {
                    return Err(CallError::Recipient(*recipient));
                }
            }
            RouterCommand::Permit2Permit { permit, .. } => match permits.next() {
                Some(TypedMessage::Permit2Allowance { permit: signed, .. }) if signed == permit => {}
                _ => return Err(CallError::OtherPermit),
            },
            RouterCommand::WrapEth { recipient, .. } if mine(*recipient) || *recipient == THE_ROUTER => {}
            RouterCommand::UnwrapWeth { recipient, amount_min } if mine(*recipient) => {
                add(&mut binding.into, TokenId::Native, *amount_min);
            }
            // Native tokens that are unwrapped into the router must be swept from there.
            RouterCommand::UnwrapWeth { recipient, .. } if *recipient == THE_ROUTER => {}
            RouterCommand::Sweep { token, recipient, amount_min } if mine(*recipient) => {
                add(&mut binding.into, currency(*token), *amount_min);
            }
            RouterCommand::WrapEth { recipient, .. }
            | RouterCommand::UnwrapWeth { recipient, .. }
            | RouterCommand::Sweep { recipient, .. }
            | RouterCommand::PayPortion { recipient, .. } => return Err(CallError::Recipient(*recipient)),
        }
    }
    if permits.next().is_some() {
        return Err(CallError::UnusedPermit);
    }
    Ok(binding)
}

/// Returns the token of an address, where the zero address is the native token.
fn currency(address: Address) -> TokenId {
    if address.is_zero() { TokenId::Native } else { TokenId::Erc20(address) }
}

/// Returns true if `pair` is the V2 pair in which the next command sells `token`. The router pays that pair before the
/// swap. The next swap's output is checked like any other.
fn sold_next(next: Option<&RouterCommand>, token: Address, pair: Address, book: &AddressBook) -> bool {
    let Some(RouterCommand::Swap(SwapCommand {
        path: SwapPath::V2(tokens),
        exact: SwapAmounts::In { .. },
        payer_is_user: false,
        ..
    })) = next
    else {
        return false;
    };
    let Some(factory) = book.contract(KnownContract::V2Factory) else { return false };
    match tokens.as_slice() {
        [first, second, ..] => *first == token && v2_pair(factory, *first, *second, V2_PAIR_INIT_CODE_HASH) == pair,
        _ => false,
    }
}

/// Returns every token contract on the paths of the router calls, by their calldata.
pub fn passed_through(proposal: &Proposal, book: &AddressBook) -> BTreeSet<Address> {
    let routers = proposal.legs.iter().filter_map(|leg| {
        let (role, _) = book.contracts().find(|(_, address)| *address == leg.to)?;
        RouterExecution::decode(&leg.data, RouterVersion::of(role)?).ok()
    });
    let mut tokens = BTreeSet::new();
    for command in routers.flat_map(|execution| execution.commands) {
        match command {
            RouterCommand::Swap(SwapCommand { path: SwapPath::V2(path), .. }) => tokens.extend(path),
            RouterCommand::Swap(SwapCommand { path: SwapPath::V3(path), .. }) => {
                tokens.insert(path.first());
                tokens.extend(path.steps().iter().map(|(_, token)| *token));
            }
            RouterCommand::Swap(SwapCommand { path: SwapPath::V4(path), .. }) => {
                tokens.extend(path.currencies().filter(|currency| !currency.is_zero()));
            }
            RouterCommand::Permit2Permit { .. }
            | RouterCommand::WrapEth { .. }
            | RouterCommand::UnwrapWeth { .. }
            | RouterCommand::Sweep { .. }
            | RouterCommand::PayPortion { .. } => {}
        }
    }
    tokens
}

/// Returns the input and the output of a path. On a V4 path, the zero address is the native token.
fn ends(path: &SwapPath) -> Option<(Address, Address)> {
    match path {
        SwapPath::V2(tokens) => Some((*tokens.first()?, *tokens.last()?)),
        SwapPath::V3(path) => Some((path.first(), path.steps().last().map(|(_, token)| *token)?)),
        SwapPath::V4(path) => Some((path.first(), path.last())),
    }
}

fn check_declared(proposal: &Proposal, binding: &GuaranteedFlows, faults: &mut Vec<DeclarationFault>) {
    for (token, most) in &binding.out {
        let flows = proposal.outflows.iter().filter(|flow| flow.token.id == *token);
        let declared = flows.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount));
        if *most > declared {
            let (declared, most) = (figure(proposal, *token, declared), figure(proposal, *token, *most));
            faults.push(DeclarationFault::new(
                RuleName::Calldata,
                format!("at most {declared} out"),
                format!("{most} may leave"),
            ));
        }
    }
    // A refund's calldata names the order, and its settler knows the amount. It takes nothing, so only the simulation
    // checks what it brings.
    let gives_back = (proposal.intent == ProposalIntent::Refund || binding.is_owed)
        && proposal.outflows.is_empty()
        && binding.out.is_empty();
    // Inflows of one token add up to one guaranteed amount.
    let mut least: BTreeMap<TokenId, U256> = BTreeMap::new();
    for inflow in proposal.inflows.iter().filter(|inflow| inflow.recipient == proposal.account && !gives_back) {
        let sum = least.entry(inflow.token.id).or_default();
        *sum = sum.saturating_add(inflow.at_least);
    }
    for (token, at_least) in least.into_iter().filter(|(token, _)| !binding.decided.contains(token)) {
        let certain = binding.into.get(&token).copied().unwrap_or_default();
        if certain < at_least {
            let declared = format!("at least {} in, guaranteed", figure(proposal, token, at_least));
            let found = format!("only {} guaranteed by the calldata", figure(proposal, token, certain));
            faults.push(DeclarationFault::new(RuleName::Calldata, declared, found));
        }
    }
    if let Some(trade) = &proposal.trade
        && binding.until.is_none_or(|until| until > U256::from(trade.deadline))
    {
        let never = || "it never expires".to_owned();
        let found = binding.until.map_or_else(never, |until| format!("expires after {}", when(until.saturating_to())));
        faults.push(DeclarationFault::new(
            RuleName::Calldata,
            format!("expires after {}", when(trade.deadline)),
            found,
        ));
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Address, Bytes};

    use super::*;
    use crate::sample;

    const ME: Address = Address::repeat_byte(0x11);

    /// A decision shows a file as what a call publishes, and it is stored afterwards: only calls of registries have any, each of
    /// which is asked for its own.
    #[test]
    fn files_go_with_nothing_but_calls_of_registries() {
        let others = [
            ProposalIntent::Swap,
            ProposalIntent::Approve,
            ProposalIntent::Transfer,
            ProposalIntent::PlaceOrder,
            ProposalIntent::Bridge,
            ProposalIntent::Liquidity,
            ProposalIntent::Lending,
            ProposalIntent::Vault,
            ProposalIntent::ProtocolFees,
            ProposalIntent::Hook,
        ];
        for intent in others.into_iter().chain([ProposalIntent::Identity]) {
            let plain = sample::proposal(ME, intent, sample::leg(ME, Bytes::new()));
            let published = Proposal { files: vec![Bytes::from_static(b"{}")], ..plain.clone() };
            let [without, with] = [&plain, &published].map(|one| read(one, &AddressBook::default()));
            let added = usize::from(intent != ProposalIntent::Identity);
            assert_eq!(with.len(), without.len() + added, "{intent:?}: {with:?}");
        }
    }
}
