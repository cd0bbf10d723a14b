//! Assessment of an action on one block: check inputs, verdicts and simulation. The preview and every transaction of a
//! commit use it.

use std::collections::{BTreeMap, BTreeSet};

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use tracing::{Instrument as _, debug_span};

use super::chain_view::ChainView;
use super::hook_gate;
use super::recover::allowed_before;
use super::{Pipeline, PipelineRefusal};
use crate::across_calls;
use crate::calldata;
use crate::chain_snapshot::{SnapshotReader, portfolio};
use crate::check_inputs::CheckInputs;
use crate::checks::slippage::SlippageLimits;
use crate::checks::{clocks, policy_cage, slippage};
use crate::lending_calls::{self, LendingContext};
use crate::lending_equity;
use crate::orders::record;
use crate::parties::{ActionParty, PartyRole};
use crate::position_calls::{self, DepositGround, PositionManagers};
use crate::proposal::{LegPurpose, Proposal, ProposalIntent};
use crate::registry_calls;
use crate::signing_payload::SigningPayload;
use crate::simulate::{self, DeclarationFault, JudgeContext, SimulatedEffects};
use crate::value::{ActionValues, PriceSpreads, UnknownValue, UnpricedRule, values};
use crate::vault_calls;
use crate::vault_equity;
use crate::vault_management;
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::{CheckReason, EventKind, Finding};
use bardo_base::id::GolemId;
use bardo_base::model::{Check, Phase, RuleName};
use bardo_base::units::{Rounding, Usd};
use golem_chain::fork::{BalanceDelta, Fork, NextBlock};
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::positions::{ChangeKind, MOST_COUNTED, PositionChange};
use golem_protocols::uniswap::v3::manager::PositionPlan;
use golem_protocols::uniswap::v4::manager::KeyedChange;

/// Findings about a signing payload on one block.
#[derive(Debug, Clone)]
pub(super) struct Assessment {
    pub inputs: CheckInputs,
    /// One verdict per check, in the order of [`Check::ALL`].
    pub verdicts: Vec<Verdict>,
    /// Differences between the simulation, calldata or order and the declaration.
    pub faults: Vec<DeclarationFault>,
    /// Chain state that the assessment read.
    pub view: ChainView,
}

impl Assessment {
    pub(super) fn blocks(&self) -> bool {
        self.verdicts.iter().any(Verdict::blocks)
    }
}

impl Pipeline {
    /// Assesses the transactions of `payload` from index `from`, on the latest block of `reader`. The endpoints of
    /// `reader` must agree on that block; [`Self::assess`] decides what happens if they do not.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the chain cannot be read at all. Anything that blocks the payload is in the verdicts.
    pub(super) async fn assess_on(
        &self,
        reader: &SnapshotReader,
        payload: &SigningPayload,
        from: usize,
        phase: Phase,
        earlier: Option<&ChainView>,
    ) -> Result<Assessment, PipelineRefusal> {
        let fork = Fork::pin(&reader.source, BlockId::latest(), NextBlock::default()).await?;
        let mut view = self.read_chain(reader, payload, from, &fork, earlier).await?;
        let around = self.judge_context(reader, payload, &view, fork.next_block().coinbase)?;
        let ran = view.run(&fork, payload, &around).instrument(debug_span!("simulate")).await;
        let balances = view.balances.clone().map(|held| shifted(held, &around.shifts));
        let weighed = |incoming: UnpricedRule| {
            let tokens = view.tokens.as_ref().map_err(UnknownValue::clone)?;
            let balances = amounts(balances.as_ref().map_err(UnknownValue::clone)?);
            let reported = values(payload, tokens, &view.spreads, &balances, &around, incoming)?;
            let reported = reported.arriving(view.arrival.clone()?)?;
            let fee = view.data_fee.clone()?;
            // No gas limit bounds the data fee. Without a price it may be ignored only up to the payload's worst gas
            // cost.
            let unpriced = if fee > payload.worst_gas() { UnpricedRule::Doubt } else { incoming };
            with_data_fee(reported, fee, &view.spreads, unpriced)
        };
        let reported = weighed(UnpricedRule::Doubt);
        let (book, next) = (&reader.network().book, fork.next_block().timestamp);
        let limits = self.inner.rules.slippage(phase);
        let proposal = payload.proposal();
        let repeats = repeats(proposal);
        let has_main = payload.legs().iter().skip(from).any(|leg| leg.purpose == LegPurpose::Main);
        let mut faults = faults_of_bytes(payload, &view, &around, (book, next));
        if has_main {
            faults.extend(faults_of_ground(proposal, &view, around.position_managers, (book, next), &limits));
        }
        let withdraws =
            matches!(proposal.intent, ProposalIntent::Liquidity | ProposalIntent::Lending | ProposalIntent::Vault);
        let simulated = match ran {
            Ok(simulation) => {
                let (mut simulated, found) =
                    simulate::judge(payload, from, simulation, fork.next_block().base_fee, &around);
                faults.extend(found);
                if repeats {
                    faults.retain(|fault| fault.rule == RuleName::Simulation);
                    simulated.leaves = false;
                }
                simulated.lending =
                    lending_calls::effects(payload, from, &simulated.simulation, &around, &view.spreads);
                // A withdrawal from a position gives nothing for what it brings, whatever that is worth.
                let fair = withdraws
                    || reported.as_ref().is_ok_and(|values| slippage::fair(values, true, limits.max_loss).is_ok());
                simulated.reduce_only = simulated.leaves && faults.is_empty() && fair;
                Ok(simulated)
            }
            Err(error) => Err(error),
        };
        // A silent price feed must not block a revocation or a withdrawal from a position, so an inflow without a price
        // counts as nothing there.
        let gives_nothing = |simulated: &SimulatedEffects| simulated.only_revokes || simulated.reduce_only && withdraws;
        let reported = match (reported, &simulated) {
            (Err(doubt), Ok(simulated)) if gives_nothing(simulated) => {
                weighed(UnpricedRule::Nothing).map_err(|_| doubt)
            }
            (reported, _) => reported,
        };
        let positions = view.positions.as_ref().map_err(UnknownValue::clone);
        let held = balances.as_ref().map_err(UnknownValue::clone);
        let held = held.and_then(|held| portfolio(held, positions?, &view.spreads));
        let held = held.and_then(|held| lending_equity::with(held, &view.market, &view.spreads));
        let held = held.and_then(|held| vault_equity::with(held, &view.shares, &view.spreads, book));
        let (simulation, failed) = match simulated {
            Ok(simulated) => (Some(simulated), None),
            Err(error) => (None, Some(error)),
        };
        let mut inputs = CheckInputs {
            asked: false,
            now_millis: self.inner.clock.now_millis(),
            block_time: next,
            phase,
            stop: self.inner.rules.stop(),
            tokens: view.tokens.clone().unwrap_or_default(),
            values: reported,
            portfolio: held,
            simulation,
        };
        let mut verdicts = self.inner.rules.check(payload, &inputs);
        verdicts.push(slippage::check(payload, &inputs, &self.inner.rules.slippage(phase)));
        verdicts.push(policy_cage::check(payload, &inputs, &view.cage));
        let counting = [Check::SpendingLimit, Check::RateLimit];
        inputs.asked = verdicts.iter().any(|verdict| counting.contains(&verdict.check) && !verdict.asks.is_empty());
        let place = |verdict: &Verdict| Check::ALL.iter().position(|check| *check == verdict.check);
        verdicts.sort_by_key(place);
        // First, so that it names the error: limits and prices rest on the time.
        verdicts.splice(0..0, clocks::check(payload, &inputs, reader.network()));
        if !verdicts.iter().any(Verdict::blocks) {
            let passed = simulation_verdict(inputs.simulation.as_ref(), &faults, failed.as_ref());
            let asks =
                if passed.blocks() { Vec::new() } else { asks_of_ground(proposal, &view, book, has_main, &limits) };
            verdicts.push(asks.into_iter().fold(passed, Verdict::asking));
        }
        Ok(Assessment { inputs, verdicts, faults, view })
    }

    /// Collects what the simulation of a payload is judged by.
    fn judge_context(
        &self,
        reader: &SnapshotReader,
        payload: &SigningPayload,
        view: &ChainView,
        producer: Address,
    ) -> Result<JudgeContext, PipelineRefusal> {
        let book = &reader.network().book;
        Ok(JudgeContext {
            permit2: book.contract(KnownContract::Permit2),
            wrapped: book.contract(KnownContract::WrappedNative),
            stables: reader.stables(),
            producer: Some(producer),
            promised: self.promised(payload)?,
            settler: book.contract(KnownContract::OriginSettler),
            known_tokens: self.known_tokens(reader, payload)?,
            registries: registry_calls::registries(book),
            position_managers: PositionManagers::of(book),
            deposit_pool: view.deposit_pool,
            lending: LendingContext::of(book, view.market.clone().ok().flatten()),
            shifts: self.shifts(payload)?,
        })
    }

    /// Returns the amounts that signed orders of the account may still take, by token, in raw units.
    pub(super) fn promised(&self, payload: &SigningPayload) -> Result<BTreeMap<Address, U256>, PipelineRefusal> {
        let (chain_id, account) = (payload.proposal().chain_id, payload.account());
        let promised = self.history().read(|connection| record::promised(connection, chain_id, account));
        promised.map_err(|error| PipelineRefusal::new(ErrorCode::StoreUnavailable, error))
    }

    /// Returns the tokens whose `approve` sets an allowance, for [`crate::revocation`].
    fn known_tokens(
        &self,
        reader: &SnapshotReader,
        payload: &SigningPayload,
    ) -> Result<BTreeSet<Address>, PipelineRefusal> {
        let (chain_id, account) = (payload.proposal().chain_id, payload.account());
        let book = &reader.network().book;
        // A contract that the operator calls directly counts as a token: no agent can repeat that call.
        let by_hand = payload.proposal().golem_id == GolemId::operator();
        let mut known: BTreeSet<Address> = book.tokens().iter().map(|token| token.address).collect();
        known.extend(book.contract(KnownContract::WrappedNative));
        for leg in &payload.proposal().legs {
            if !known.contains(&leg.to) && book.contracts().any(|(_, address)| address == leg.to) {
                continue;
            }
            let unavailable = |error: &dyn std::fmt::Display| PipelineRefusal::new(ErrorCode::StoreUnavailable, error);
            let token = ActionParty { role: PartyRole::Token, chain_id, address: leg.to, account };
            let noted = |connection: &_| self.inner.known.knows(connection, token);
            // Transactions that the account signed before such records existed.
            let signed = |connection: &_| allowed_before(connection, chain_id, account, leg.to);
            let ours = known.contains(&leg.to)
                || by_hand
                || self.inner.rules.names_token(chain_id, leg.to)
                || self.history().read(noted).map_err(|error| unavailable(&error))?
                || self.history().read(signed).map_err(|error| unavailable(&error))?;
            if ours {
                known.insert(leg.to);
            }
        }
        Ok(known)
    }

    /// Emits one event per verdict.
    pub(super) fn emit_verdicts(&self, payload: &SigningPayload, verdicts: &[Verdict]) {
        for verdict in verdicts {
            self.emit(payload, EventKind::SafetyCheck(verdict.event()));
        }
    }
}

/// Returns the faults of a change of a liquidity position against the state on the pinned block. `next` is the time of the
/// next block, in seconds since the Unix epoch.
fn position_faults(
    proposal: &Proposal,
    view: &ChainView,
    (managers, next): (PositionManagers, u64),
    limits: &SlippageLimits,
) -> Vec<DeclarationFault> {
    let (position, most) = (view.position.as_ref(), limits.max_slippage);
    let mut faults = position_calls::faults(proposal, managers, position, next, most);
    let Some(plan) = position_calls::plan(proposal, managers).filter(|plan| !plan.is_exit()) else { return faults };
    let opened = match plan {
        PositionChange::V3(PositionPlan::Mint { range, .. }) => Some(range),
        PositionChange::V4(plan) => match plan.change {
            KeyedChange::Mint { range, .. } => Some(range),
            KeyedChange::Collect { .. }
            | KeyedChange::Remove { .. }
            | KeyedChange::Close { .. }
            | KeyedChange::Increase { .. }
            | KeyedChange::Compound { .. } => None,
        },
        PositionChange::V3(
            PositionPlan::Collect { .. }
            | PositionPlan::Remove { .. }
            | PositionPlan::Close { .. }
            | PositionPlan::Increase { .. }
            | PositionPlan::Compound { .. },
        ) => None,
    };
    let place = match opened {
        Some(range) => view.pool.map(|pool| (pool.pool, range, pool.sqrt_price_x96)),
        None => position.map(|state| (state.key.pool, state.key.range, state.sqrt_price_x96)),
    };
    let is_counted = view.positions.as_ref().is_ok_and(|all| match plan.kind() {
        ChangeKind::Mint => all.unread == 0 && all.states.len() < MOST_COUNTED,
        ChangeKind::Increase | ChangeKind::Compound => {
            position.is_some_and(|own| all.states.iter().any(|one| one.key.id == own.key.id))
        }
        ChangeKind::Collect | ChangeKind::Remove | ChangeKind::Close => true,
    });
    let prices = position_calls::given_tokens(proposal).and_then(|tokens| view.fed(tokens));
    let ground = place.map(|(pool, range, sqrt_price_x96)| DepositGround {
        pool,
        range,
        sqrt_price_x96,
        owed: position.map(|state| state.owed.map(U256::from)),
        is_counted,
        prices: prices.as_ref(),
        now: next,
        max_slippage: most,
        max_loss: limits.max_loss,
    });
    faults.extend(position_calls::deposit_faults(proposal, &plan, ground.as_ref()));
    faults
}

/// Adds a rollup's data fee, in wei, to the values.
fn with_data_fee(
    values: ActionValues,
    fee: U256,
    spreads: &PriceSpreads,
    unpriced: UnpricedRule,
) -> Result<ActionValues, UnknownValue> {
    if fee.is_zero() {
        return Ok(values);
    }
    let gas_wei = values.gas_wei.saturating_add(fee);
    let fee = match (gas_usd(spreads, fee), unpriced) {
        (Some(fee), _) => fee,
        (None, UnpricedRule::Nothing) => Usd::ZERO,
        (None, UnpricedRule::Doubt) => {
            return Err(UnknownValue::because("the value of the rollup's L1 data fee is unknown"));
        }
    };
    let gas = values.gas.checked_add(fee).map_err(UnknownValue::because)?;
    let spent = values.spent.checked_add(fee).map_err(UnknownValue::because)?;
    Ok(ActionValues { gas, gas_wei, spent, ..values })
}

/// Applies the paper ledger's balance shifts.
fn shifted(
    mut balances: BTreeMap<TokenId, (TokenInfo, U256)>,
    shifts: &[BalanceDelta],
) -> BTreeMap<TokenId, (TokenInfo, U256)> {
    for shift in shifts {
        if let Some((_, held)) = balances.get_mut(&shift.token.map_or(TokenId::Native, TokenId::Erc20)) {
            *held = shift.apply(*held);
        }
    }
    balances
}

fn amounts(balances: &BTreeMap<TokenId, (TokenInfo, U256)>) -> BTreeMap<TokenId, U256> {
    balances.iter().map(|(id, (_, amount))| (*id, *amount)).collect()
}

fn simulation_verdict(
    simulated: Option<&SimulatedEffects>,
    faults: &[DeclarationFault],
    failed: Option<&golem_chain::fork::ForkError>,
) -> Verdict {
    let check = Check::Simulation;
    if let Some(error) = failed {
        let violation = unsimulated(error, "the same when the chain's state can be read and simulated");
        let fault = format!("it could not be simulated: {error}");
        return Verdict::because(check, ErrorCode::SafetySimulationFailed, fault, vec![violation]);
    }
    if !faults.is_empty() {
        let violations = faults.iter().map(DeclarationFault::violation).collect();
        return Verdict::broken(check, ErrorCode::SafetySimulationFailed, violations);
    }
    match simulated {
        Some(simulated) => {
            let (block, gas) = (simulated.pinned.number, simulated.gas_used);
            let found = match &simulated.lending {
                Some(lending) => Finding::SimulatedDebt {
                    block,
                    gas,
                    before: lending.before.health_hundredths(),
                    after: lending.after.health_hundredths(),
                    falls: lending.falls.clone(),
                },
                None => Finding::Simulated { block, gas, balances: simulated.moves.len() },
            };
            Verdict::passed(check, found)
        }
        None => {
            let none = "there is no simulation";
            let violation = unsimulated(&none, "the same after a simulation");
            Verdict::because(check, ErrorCode::SafetySimulationFailed, none, vec![violation])
        }
    }
}

/// Violation of the simulation rule, the one rule that no policy can switch off.
fn unsimulated(found: &dyn std::fmt::Display, would_pass: &str) -> Violation {
    Violation::new(
        RuleName::RequireSimulation,
        "simulated on the latest block before signing",
        found.to_string(),
        would_pass.to_owned(),
    )
}

/// Dollar value of `wei` at the native token's highest price, rounded up; `None` without a price.
pub(super) fn gas_usd(spreads: &PriceSpreads, wei: U256) -> Option<Usd> {
    let price = spreads.get(TokenId::Native).ok()?.all.highest;
    Usd::value_of(bardo_base::units::TokenAmount::ether(wei), price, Rounding::Up).ok()
}

/// Returns true for a repetition of signed bytes. It declares nothing: its effects were judged when they were signed, and may
/// happen in any case. It must still succeed.
fn repeats(proposal: &Proposal) -> bool {
    proposal.intent == ProposalIntent::SpeedUp
}

/// Differences between the bytes to be signed and the declaration, without a simulation. `next` is the timestamp of the next
/// block.
fn faults_of_bytes(
    payload: &SigningPayload,
    view: &ChainView,
    around: &JudgeContext,
    (book, next): (&AddressBook, u64),
) -> Vec<DeclarationFault> {
    let mut faults = Vec::new();
    if !repeats(payload.proposal()) {
        faults.extend(simulate::declared(payload, around));
        faults.extend(calldata::read(payload.proposal(), book));
    }
    faults.extend(simulate::order_faults(payload, book, next, view.settling));
    faults.extend(view.hollow.iter().cloned());
    faults
}

/// Differences between what an action relies on, such as a pool, a vault or a hook, and what the chain says about it. What is
/// left of a plan after its main transaction only revokes, whatever the pool does then, and needs none of it.
fn faults_of_ground(
    proposal: &Proposal,
    view: &ChainView,
    managers: PositionManagers,
    (book, next): (&AddressBook, u64),
    limits: &SlippageLimits,
) -> Vec<DeclarationFault> {
    let mut faults = Vec::new();
    faults.extend(position_faults(proposal, view, (managers, next), limits));
    let ground = view.vault.as_ref().ok().and_then(Option::as_ref);
    faults.extend(vault_calls::faults(proposal, ground, view.way_back.as_ref(), limits.max_loss));
    let managed = view.managed.as_ref().ok().and_then(Option::as_ref);
    faults.extend(vault_management::faults(proposal, book, managed, view.shares.as_deref().ok()));
    faults.extend(hook_gate::faults(view.hook.as_ref()));
    faults.extend(across_calls::faults(proposal, book, next));
    faults
}

/// Reasons to ask the operator that lie in what an action relies on. A hook matters for the main transaction alone.
fn asks_of_ground(
    proposal: &Proposal,
    view: &ChainView,
    book: &AddressBook,
    has_main: bool,
    limits: &SlippageLimits,
) -> Vec<CheckReason> {
    let ground = view.vault.as_ref().ok().and_then(Option::as_ref);
    let of_vault =
        ground.zip(vault_calls::plan(proposal)).and_then(|(ground, plan)| ground.asks(&plan, limits.max_loss));
    let managed = view.managed.as_ref().ok().and_then(Option::as_ref);
    let of_managed = managed.zip(vault_management::plan(proposal, book)).and_then(|(ground, plan)| ground.asks(&plan));
    let of_hook = has_main.then(|| hook_gate::asks(view.hook.as_ref())).flatten();
    of_vault.or(of_managed).into_iter().chain(of_hook).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use golem_chain::fork::ForkError;

    #[test]
    fn a_missing_simulation_is_rejected_with_rule_and_figures() {
        let failed = ForkError::Malformed { what: "a block without a number".to_owned() };
        for (verdict, value, would_pass) in [
            (simulation_verdict(None, &[], Some(&failed)), failed.to_string(), "can be read and simulated"),
            (simulation_verdict(None, &[], None), "there is no simulation".to_owned(), "after a simulation"),
        ] {
            assert_eq!((verdict.blocks(), verdict.code), (true, Some(ErrorCode::SafetySimulationFailed)));
            let [one] = verdict.violations() else { panic!("{verdict:?}") };
            assert_eq!(one.rule, "require_simulation_before_execution");
            assert_eq!(one.limit, "simulated on the latest block before signing");
            assert_eq!(one.value, value);
            assert!(one.would_pass.as_str().contains(would_pass), "{one:?}");
        }
    }
}
