//! Safety-guardian: an independent review of actions above the hot lane. It runs the prepared bytes on its own fork,
//! reads prices itself, and reads the policy file itself. It receives the pipeline's figures but relies on none: it
//! agrees only if its own figures do.
//!
//! The guardian can only add objections. Whatever it cannot verify is an objection.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256, U512};
use alloy::providers::Provider as _;
use futures::future::BoxFuture;

use bardo_base::format::{self, dollars};
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use bardo_safety::chain_snapshot::stables;
use bardo_safety::guardian::{Guardian, GuardianError, GuardianOpinion, ReviewCase};
use bardo_safety::lending_calls::{self, LendingContext};
use bardo_safety::policy::{self, Policy, PolicyPreset, TokenRef};
use bardo_safety::position_calls::{self, PositionManagers};
use bardo_safety::proposal::{BridgeArrival, Inflow, ProposalIntent};
use bardo_safety::registry_calls;
use bardo_safety::signing_payload::SigningPayload;
use bardo_safety::simulate::{self, JudgeContext};
use bardo_safety::vault_calls::{self, VaultPlan};
use bardo_safety::wrapping::only_wraps;
use golem_chain::fork::{BalanceDelta, Fork, ForkSource, NextBlock, Simulation};
use golem_chain::network::{KnownContract, Network};
use golem_chain::price::PriceChain;
use golem_chain::provider::ChainClient;
use golem_chain::token::{self, TokenId, TokenInfo};
use golem_protocols::aave::call::LendingCall;
use golem_protocols::aave::market::MarketContracts;

/// Tolerance between the guardian's and the pipeline's figures, in basis points. The pipeline values outflows at the
/// highest of several prices.
const TOLERANCE_BPS: u32 = 300;

/// Chain as the guardian reads it.
#[derive(Debug, Clone)]
struct GuardianChain {
    client: ChainClient,
    source: ForkSource,
    prices: PriceChain,
}

/// Independent reviewer of large actions; see the module documentation.
#[derive(Debug)]
pub struct SafetyGuardian {
    chains: Vec<GuardianChain>,
    policy: PathBuf,
    absent: PolicyPreset,
}

impl SafetyGuardian {
    /// Creates a guardian over these chains and price feeds. It reads the policy file at `policy`, and uses the preset
    /// `absent` if there is no file.
    pub fn new(
        chains: impl IntoIterator<Item = (ChainClient, PriceChain)>,
        policy: PathBuf,
        absent: PolicyPreset,
    ) -> Self {
        let watch = |(client, prices): (ChainClient, PriceChain)| GuardianChain {
            source: ForkSource::of(&client),
            client,
            prices,
        };
        Self { chains: chains.into_iter().map(watch).collect(), policy, absent }
    }

    async fn review_case(&self, case: ReviewCase<'_>) -> Result<GuardianOpinion, GuardianError> {
        let payload = case.payload;
        let counted = case.values.spent.checked_add(case.values.exposed);
        let counted = counted.map_err(|error| GuardianError(error.to_string()))?;
        let chain_id = payload.proposal().chain_id;
        let chain = self.chains.iter().find(|chain| chain.client.chain_id() == chain_id);
        let chain = chain.ok_or_else(|| GuardianError(format!("it has no access to chain {chain_id}")))?;
        let path = self.policy.clone();
        let read = tokio::task::spawn_blocking(move || policy::read(&path)).await;
        let read = read.map_err(|_| GuardianError("reading the policy failed".to_owned()))?;
        let policy = read.map_err(|error| GuardianError(error.to_string()))?;
        let policy = policy.unwrap_or_else(|| Policy::preset(self.absent));
        let (simulation, around, way_back) = chain.run(payload, case.shifts).await?;
        let mut objections = effect_objections(payload, &simulation, &around);
        objections.extend(vault_objection(payload, way_back.as_ref(), policy.max_loss()));
        objections.extend(list_objections(payload, &policy, chain.client.network()));
        let leaves =
            simulate::declares_exit(payload.proposal(), &chain.judge_context()) && !allows_more(payload, &simulation);
        let (mut own, mut words) = chain.value(payload).await?;
        if let Some(arrival) = payload.proposal().bridged() {
            let there = self.chains.iter().find(|one| one.client.chain_id() == arrival.chain_id);
            let there =
                there.ok_or_else(|| GuardianError(format!("it has no access to chain {}", arrival.chain_id)))?;
            let (usd, said) = there.arriving(arrival).await?;
            own.least_in = own.least_in.checked_add(usd).map_err(|error| GuardianError(error.to_string()))?;
            words = format!("{words}, {said}");
            objections.extend(off_list(&arrival.token, &policy, there.client.network()));
        }
        // A repayment gives nothing away, and a borrowing weighs like spending what it brings.
        match lending_calls::plan_in(payload.proposal(), &around) {
            Some(LendingCall::Repay { .. }) => own.out = Usd::ZERO,
            Some(LendingCall::Borrow { .. }) => own.out = own.least_in,
            Some(LendingCall::Supply { .. } | LendingCall::Withdraw { .. }) | None => {}
        }
        objections.extend(value_objections(payload, &policy, &own, counted));
        // What a wrapping gives comes in again, in another form.
        let wraps = only_wraps(payload.proposal(), chain.judge_context().wrapped).is_some();
        let too_large = too_large(&policy, &own, leaves || wraps);
        let left_to_operator = objections.is_empty() && too_large.is_some();
        objections.extend(too_large);
        let agrees = objections.is_empty();
        let said = if agrees { words } else { objections.join("; ") };
        Ok(GuardianOpinion { agrees, why: SafeText::clean(&said, 400), left_to_operator })
    }
}

impl Guardian for SafetyGuardian {
    fn review<'a>(&'a self, case: ReviewCase<'a>) -> BoxFuture<'a, Result<GuardianOpinion, GuardianError>> {
        Box::pin(self.review_case(case))
    }
}

/// Values computed from the guardian's own prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GuardianValues {
    out: Usd,
    least_in: Usd,
    gas: Usd,
}

impl GuardianChain {
    /// Returns the chain's known contracts and stable tokens, from the guardian's own address book.
    fn judge_context(&self) -> JudgeContext {
        let network = self.client.network();
        JudgeContext {
            permit2: network.book.contract(KnownContract::Permit2),
            wrapped: network.book.contract(KnownContract::WrappedNative),
            stables: stables(network),
            registries: registry_calls::registries(&network.book),
            position_managers: PositionManagers::of(&network.book),
            ..JudgeContext::default()
        }
    }

    /// Runs the transactions that would be signed on the guardian's own fork. Returns the result with its surroundings, and
    /// what the shares of a deposit to a vault pay out then.
    async fn run(
        &self,
        payload: &SigningPayload,
        shifts: &[BalanceDelta],
    ) -> Result<(Simulation, JudgeContext, Option<WayBack>), GuardianError> {
        let failed = |error: &dyn std::fmt::Display| GuardianError(error.to_string());
        let fork =
            Fork::pin(&self.source, BlockId::latest(), NextBlock::default()).await.map_err(|error| failed(&error))?;
        let block = BlockId::hash(fork.pinned().hash);
        let count = self.client.agreed().get_transaction_count(payload.signer()).block_id(block);
        let nonce = count.await.map_err(|error| failed(&error))?;
        let (producer, shifts) = (Some(fork.next_block().coinbase), shifts.to_vec());
        let network = self.client.network();
        let market = match MarketContracts::of(network) {
            Ok(market) if payload.proposal().intent == ProposalIntent::Lending => {
                let state = market.state(self.client.agreed(), payload.account(), block).await;
                Some(state.map_err(|error| failed(&error))?)
            }
            Ok(_) | Err(_) => None,
        };
        let lending = LendingContext::of(&network.book, market);
        let judge_context = JudgeContext { producer, shifts, lending, ..self.judge_context() };
        let simulation = simulate::run(&fork, payload, 0, nonce, &judge_context).await;
        let simulation = simulation.map_err(|error| failed(&error))?;
        let way_back = vault_calls::way_back(&fork, payload, (0, nonce), &judge_context).await;
        Ok((simulation, judge_context, way_back.map_err(|error| failed(&error))?))
    }

    /// Values outflows, minimum inflows and maximum gas at current prices. Returns them with a sentence about the
    /// prices.
    async fn value(&self, payload: &SigningPayload) -> Result<(GuardianValues, String), GuardianError> {
        let proposal = payload.proposal();
        let wrapped = self.client.network().book.contract(KnownContract::WrappedNative);
        let contract = |token: &TokenInfo| match token.id {
            TokenId::Native => wrapped,
            TokenId::Erc20(address) => Some(address),
        };
        let mut words = Vec::new();
        let mut described: BTreeSet<TokenId> = BTreeSet::new();
        let mut value = async |token: &TokenInfo, amount: U256, rounding: Rounding| {
            let unknown = || GuardianError(format!("it has no price of its own for {}", token.symbol));
            let price = self.prices.price(contract(token).ok_or_else(unknown)?).await;
            let price = price.map_err(|error| GuardianError(error.to_string()))?;
            if described.insert(token.id) {
                words.push(format!("own {} price {}", token.symbol, format::price(price.usd)));
            }
            let amount = TokenAmount::new(amount, token.decimals).map_err(|error| GuardianError(error.to_string()))?;
            Usd::value_of(amount, price.usd, rounding).map_err(|error| GuardianError(error.to_string()))
        };
        let sum = |one: Usd, other: Usd| one.checked_add(other).map_err(|error| GuardianError(error.to_string()));
        // Shares of a vault have no price: what they pay out was compared with the deposit.
        let share = vault_calls::plan(proposal).map(|plan| plan.share());
        let mut out = Usd::ZERO;
        for flow in proposal.outflows.iter().filter(|flow| share != Some(flow.token.id)) {
            out = sum(out, value(&flow.token, flow.amount, Rounding::Up).await?)?;
        }
        let mut least_in = Usd::ZERO;
        let own = |inflow: &&Inflow| inflow.recipient == payload.account() && share != Some(inflow.token.id);
        for inflow in proposal.inflows.iter().filter(own) {
            least_in = sum(least_in, value(&inflow.token, inflow.at_least, Rounding::Down).await?)?;
        }
        let gas = value(&TokenInfo::native(self.client.network()), payload.worst_gas(), Rounding::Up).await?;
        Ok((GuardianValues { out, least_in, gas }, words.join(", ")))
    }

    /// Values the minimum that must arrive on this chain from another chain, at current prices.
    async fn arriving(&self, arrival: &BridgeArrival) -> Result<(Usd, String), GuardianError> {
        let token = &arrival.token;
        let failed = |error: &dyn std::fmt::Display| GuardianError(error.to_string());
        let TokenId::Erc20(contract) = token.id else {
            return Err(GuardianError("an order cannot deliver the native token of another chain".to_owned()));
        };
        // The value depends on the decimals: they are read from the destination chain, not taken from the proposal.
        let read = token::read(&[contract], self.client.network(), self.client.agreed()).await;
        let real = read.map_err(|error| failed(&error))?.into_iter().next();
        let real = real.ok_or_else(|| GuardianError(format!("it cannot read {contract}")))?;
        let real = real.map_err(|error| failed(&error))?;
        let price = self.prices.price(contract).await.map_err(|error| failed(&error))?;
        let amount = TokenAmount::new(arrival.at_least, real.decimals).map_err(|error| failed(&error))?;
        let usd = Usd::value_of(amount, price.usd, Rounding::Down).map_err(|error| failed(&error))?;
        let said = format!("own {} price on the other chain {}", real.symbol, format::price(price.usd));
        Ok((usd, said))
    }
}

/// Payment for the shares of a deposit, in raw units of the token, or the reason why they cannot be redeemed.
type WayBack = Result<U256, SafeText>;

/// Returns the objection to a deposit whose shares do not pay it out again, but for the largest part that the policy lets be
/// lost.
fn vault_objection(payload: &SigningPayload, way_back: Option<&WayBack>, most: BasisPoints) -> Option<String> {
    let plan = vault_calls::plan(payload.proposal())?;
    match way_back? {
        Err(why) => Some(format!("the shares of the deposit cannot be redeemed: {why}")),
        Ok(back) => {
            let kept = U512::from(plan.call.amount()) * U512::from(10_000_u32.saturating_sub(most.get()));
            let is_less = U512::from(*back) * U512::from(10_000) < kept;
            is_less.then(|| "the shares of the deposit pay too little of it out again".to_owned())
        }
    }
}

/// Returns objections to undeclared effects of the simulated transactions.
fn effect_objections(payload: &SigningPayload, simulation: &Simulation, around: &JudgeContext) -> Vec<String> {
    let (proposal, account) = (payload.proposal(), payload.account());
    // The lending pool and its debts have no allowances to answer for, and its records are compared as such.
    let mut changes = simulation.changes.clone();
    changes.unreadable.retain(|silent| !lending_calls::writes(silent.contract, proposal, around));
    // Nor have the position managers; that single tokens move as declared is compared below.
    let changes_position = position_calls::plan(proposal, around.position_managers).is_some();
    let is_manager = |contract| around.position_managers.contains(contract);
    changes.unreadable.retain(|silent| !(changes_position && is_manager(silent.contract)));
    // Nor has an asynchronous vault an answer for what it notes of a request, which looks like a balance of several tokens.
    changes.unreadable.retain(|silent| !vault_calls::notes(silent.contract, proposal));
    changes.balances.retain(|change| !lending_calls::is_record(change.token, proposal, around));
    let mut objections = Vec::new();
    if !simulation.succeeded() {
        objections.push("it fails on the guardian's fork".to_owned());
    }
    let faults = lending_calls::faults(proposal, around, simulation, simulation.succeeded());
    objections.extend(faults.into_iter().map(|fault| format!("{}, but {}", fault.declared, fault.found)));
    if !changes.complete() {
        objections.push("the guardian cannot see all of its changes".to_owned());
    }
    let declared = |token: TokenId| {
        let flows = proposal.outflows.iter().filter(|flow| flow.token.id == token).map(|flow| flow.amount);
        flows.fold(U256::ZERO, U256::saturating_add)
    };
    for change in changes.balances.iter().filter(|change| change.holder == account) {
        let lost = change.balance.before.saturating_sub(change.balance.after);
        if lost > declared(TokenId::Erc20(change.token)) {
            objections.push(format!("more of {} leaves than declared", change.token));
        }
    }
    if let Some(change) = changes.account(account) {
        let lost = change.balance.before.saturating_sub(change.balance.after);
        let most = declared(TokenId::Native).saturating_add(payload.worst_gas());
        if lost > most {
            objections.push("more of the native token leaves than declared".to_owned());
        }
        if change.delegation.moved() || change.code_hash.moved() {
            objections.push("it changes the account's code or delegation".to_owned());
        }
    }
    for inflow in proposal.inflows.iter().filter(|inflow| inflow.recipient == account) {
        let received = match inflow.token.id {
            TokenId::Erc20(token) => {
                let received = changes.balance(token, account);
                received.map_or(U256::ZERO, |change| change.after.saturating_sub(change.before))
            }
            // Outflows and gas have already reduced the native balance, so they are added back.
            TokenId::Native => changes.account(account).map_or(U256::ZERO, |change| {
                let spent = declared(TokenId::Native).saturating_add(payload.worst_gas());
                change.balance.after.saturating_add(spent).saturating_sub(change.balance.before)
            }),
        };
        if received < inflow.at_least {
            objections.push(format!("less {} arrives than the declared minimum", inflow.token.symbol));
        }
    }
    for change in changes.allowances.iter().filter(|change| change.owner == account) {
        if change.allowance.after > change.allowance.before
            && !allowed(payload, change.token, change.spender, change.allowance.after)
        {
            objections.push(format!("{} may take more of {} than declared", change.spender, change.token));
        }
    }
    let of_ours = |owner: Address| payload.exposed().contains(&owner);
    for change in changes.permit2_allowances.iter().filter(|change| of_ours(change.owner)) {
        let (before, after) = (change.allowance.before.amount, change.allowance.after.amount);
        if after > before && !allowed(payload, change.token, change.spender, after) {
            objections
                .push(format!("{} may take more of {} through Permit2 than declared", change.spender, change.token));
        }
    }
    for change in changes.operators.iter().filter(|change| of_ours(change.owner)) {
        if change.approved.after && !change.approved.before {
            objections.push(format!("{} may take everything of {}", change.operator, change.collection));
        }
    }
    for change in changes.nft_owners.iter().filter(|change| of_ours(change.who.before) && change.who.moved()) {
        let is_declared = position_calls::declares(proposal, around.position_managers, change)
            || registry_calls::declares(proposal, &around.registries, change);
        if !is_declared {
            objections.push(format!("token {} of {} leaves and is not declared", change.id, change.collection));
        }
    }
    objections
}

fn allowed(payload: &SigningPayload, token: Address, spender: Address, amount: U256) -> bool {
    let bounds = payload.proposal().allowances.iter();
    bounds
        .filter(|bound| bound.token.id == TokenId::Erc20(token) && bound.spender == spender)
        .any(|bound| amount <= bound.at_most)
}

/// Returns objections to tokens that the guardian's own reading of the policy does not allow.
fn list_objections(payload: &SigningPayload, policy: &Policy, network: &Network) -> Vec<String> {
    let proposal = payload.proposal();
    let flows = proposal.outflows.iter().map(|flow| &flow.token);
    let tokens = flows.chain(proposal.inflows.iter().map(|inflow| &inflow.token));
    let vault = vault_calls::plan(proposal);
    let off_list = tokens
        .filter(|token| vault.is_none_or(|plan| plan.share() != token.id))
        .filter_map(|token| off_list(token, policy, network));
    let is_allowed =
        |plan: VaultPlan| plan.is_exit() || plan.is_allowed(proposal.chain_id, policy.rules(), Some(&network.book));
    let unlisted = vault.filter(|plan| !is_allowed(*plan));
    let unlisted = unlisted.map(|plan| format!("the vault {} is not on the policy's list", plan.vault));
    off_list.chain(unlisted).collect()
}

/// Returns the objection to a token of a network, if the guardian's own reading of the policy does not allow it.
fn off_list(token: &TokenInfo, policy: &Policy, network: &Network) -> Option<String> {
    let bundled = match token.id {
        TokenId::Native => true,
        TokenId::Erc20(address) => network.book.tokens().iter().any(|one| one.address == address),
    };
    let asked = TokenRef { chain: policy::ChainId(network.chain_id), token: token.id };
    let allowed = policy.rules().allowed_tokens.allows(&asked, bundled);
    (!allowed).then(|| format!("{} is not on the policy's list", token.symbol))
}

/// True if any allowance of the account increases. Such an action is not an exit, whatever comes in.
fn allows_more(payload: &SigningPayload, simulation: &Simulation) -> bool {
    let ours = |owner: Address| owner == payload.account() || payload.exposed().contains(&owner);
    let changes = &simulation.changes;
    let rises = |owner: Address, rose: bool| ours(owner) && rose;
    changes.allowances.iter().any(|one| rises(one.owner, one.allowance.after > one.allowance.before))
        || changes
            .permit2_allowances
            .iter()
            .any(|one| rises(one.owner, one.allowance.after.amount > one.allowance.before.amount))
        || changes.operators.iter().any(|one| rises(one.owner, one.approved.after && !one.approved.before))
}

/// Returns the objection to the size by the guardian's own figures. An exit counts with its possible loss and its gas,
/// as in the caps: a limit on purchases must not lock in a position.
fn too_large(policy: &Policy, own: &GuardianValues, leaves: bool) -> Option<String> {
    let most = policy.rules().max_single_trade_usd.0?;
    let lost = match leaves {
        true if own.least_in >= own.out => Ok(Usd::ZERO),
        true => own.out.checked_sub(own.least_in),
        false => Ok(own.out),
    };
    if lost.and_then(|lost| lost.checked_add(own.gas)).is_ok_and(|size| size <= most) {
        return None;
    }
    let (out, least_in) = (own.out, own.least_in);
    Some(match leaves {
        true => {
            format!(
                "at its own prices, {} for at least {} may lose more than the limit for one trade",
                dollars(out),
                dollars(least_in)
            )
        }
        false => format!("at its own prices, {} is above the limit for one trade", dollars(out)),
    })
}

/// Returns objections to the price, and to differences from the pipeline's figures.
fn value_objections(payload: &SigningPayload, policy: &Policy, own: &GuardianValues, counted: Usd) -> Vec<String> {
    let mut objections = Vec::new();
    let less = |whole: Usd, points: BasisPoints| share(whole, 10_000_u32.saturating_sub(points.get()));
    // Exchanges are trades, and orders that others settle on this or another chain.
    let exchanges = payload.proposal().trade.is_some() || payload.order().is_some();
    if exchanges && less(own.out, policy.max_loss()).is_none_or(|floor| own.least_in < floor) {
        objections.push(format!(
            "at its own prices, {} is paid for at least {}",
            dollars(own.out),
            dollars(own.least_in)
        ));
    }
    let size = own.out.checked_add(own.gas);
    let most = share(counted, 10_000 + TOLERANCE_BPS);
    if size.is_err() || most.is_none_or(|most| size.is_ok_and(|size| size > most)) {
        objections.push(format!(
            "it values the payment at {}, but the pipeline at {}",
            dollars(own.out),
            dollars(counted)
        ));
    }
    objections
}

/// Returns `parts` ten-thousandths of an amount.
fn share(whole: Usd, parts: u32) -> Option<Usd> {
    let scaled = whole.scaled(8, Rounding::Down)?.checked_mul(u128::from(parts))?.checked_div(10_000)?;
    Usd::from_scaled(U256::from(scaled), 8).ok()
}

/// Wraps a guardian as a trait object.
pub fn shared(guardian: SafetyGuardian) -> Arc<dyn Guardian> {
    Arc::new(guardian)
}
