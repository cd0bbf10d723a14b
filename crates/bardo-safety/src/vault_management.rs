//! Calls by which the account manages an asynchronous vault of its own: their rules, what the chain must say of them, and the
//! events that prove them.
//!
//! Each action is one call in a closed form, and nothing but a settlement moves tokens: what was requested as deposits comes to the
//! account, which is the vault's Safe, and what was requested as withdrawals leaves it, by an allowance of exactly that much. A
//! settlement happens at a valuation that the account states before. It is never above what the Safe holds, in its wallet and in
//! the lending market, without what it holds for other vaults: that would pay those who leave with the others' money.
//!
//! Only a settlement brings the money of others to the account. It needs a vault that the address book or the policy names: only of
//! these does the equity subtract what is owed to the depositors (`vault_equity`).

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, Log, U256, U512, keccak256};
use alloy::providers::Provider as _;
use alloy::sol_types::{SolCall as _, SolEvent as _};

use crate::chain_snapshot::SnapshotReader;
use crate::policy::Rules;
use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use crate::signing_payload::SigningPayload;
use crate::simulate::{DeclarationFault, SimulatedEffects, figure};
use crate::value::UnknownValue;
use crate::vault_calls::{in_book, known, vault_ref};
use bardo_abi::aave::{AaveBalance, AavePool};
use bardo_abi::erc20::Erc20;
use bardo_abi::erc4626::Erc4626;
use bardo_abi::erc7540::{LagoonFactory, LagoonVault};
use bardo_base::fabric::CheckReason;
use bardo_base::model::{ActionClass, CapabilityTier, RuleName};
use bardo_base::units::TokenAmount;
use golem_chain::multicall::CallBatch;
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::provider::ProviderError;
use golem_chain::token::TokenId;
use golem_protocols::aave::math::RAY;
use golem_protocols::erc4626::holding::{VaultHolding, earned_at_most};
use golem_protocols::erc7540::manage::{FACTORY_CODE, ManageCall, ManageCallError};
use golem_protocols::erc7540::requests::{SettlerQuestions, Settlers};

/// Rise of the valuation from which on the operator decides in any case, in basis points: a value that is too high pays those who
/// leave with the Safe's own money. What they are paid counts as spending in any case.
const ASKED_RISE: u32 = 100;

/// Part of the last valuation that may be missing as rounding. Any other fall is the operator's decision: it turns what the depositors
/// have into the operator's own. A thousand falls that pass take a thousandth.
const ROUNDING: u64 = 1_000_000;

/// Reason why a call that manages a vault is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManageRuleError {
    /// The factory is called by another kind of action, or by a tool without the privilege.
    #[error("a vault is deployed, paused, resumed and capped only by a privileged vault tool")]
    Beside,
    /// Another contract is called.
    #[error("a vault is deployed through the address book's factory, and the factory is called for nothing else")]
    Elsewhere,
    /// The plan does more than its one call.
    #[error("it sends value, signs a message, or does more than one call with the allowance for it")]
    DoesMore,
    /// Something but a settlement moves tokens, or a settlement other ones than its vault's.
    #[error(
        "only a settlement moves tokens: those that leave, and what more comes in, of one token and for the account"
    )]
    Flows,
    /// An allowance other than for a settlement would be set, or one would stay.
    #[error("only a settlement sets an allowance, for its vault and no more than what leaves, and leaves none")]
    Allowance,
    /// The calldata is none of the closed forms.
    #[error(transparent)]
    Call(#[from] ManageCallError),
}

/// Management that a proposal consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagePlan {
    /// Vault, or the factory of a new one.
    pub target: Address,
    /// Call to it, decoded.
    pub call: ManageCall,
}

impl ManagePlan {
    /// Returns true for a vault that the address book or the policy names, and for the factory.
    pub fn is_listed(&self, chain_id: u64, rules: &Rules, book: &AddressBook) -> bool {
        if matches!(self.call, ManageCall::Deploy(_)) {
            return true;
        }
        // A looser list that the operator has not accepted names it and does not allow it yet.
        let in_book = in_book(book).any(|vault| vault == self.target);
        let allowed = rules.allowed_vaults.allows(&vault_ref(chain_id, self.target), in_book);
        allowed && known(chain_id, Some(rules), book).contains(&self.target)
    }

    /// Returns true for a call that is blocked unless the vault [is listed](Self::is_listed): it brings the money of others.
    pub fn needs_listing(&self) -> bool {
        self.call.total().is_some()
    }

    /// Class of the action by its calldata.
    pub fn class(&self) -> ActionClass {
        match self.call {
            ManageCall::Pause | ManageCall::Value { .. } => ActionClass::ReadOnly,
            // It gives others what is theirs.
            ManageCall::Settle { .. } => ActionClass::ClosePosition,
            ManageCall::Deploy(_) | ManageCall::Resume | ManageCall::SetCap { .. } => ActionClass::NewPosition,
        }
    }
}

/// Returns true for a call that only this module may judge.
pub fn concerns(leg: &PlanLeg, proposal: &Proposal, book: &AddressBook) -> bool {
    proposal.intent == ProposalIntent::VaultManagement && leg.purpose == LegPurpose::Main
        || book.contract(KnownContract::AsyncVaultFactory) == Some(leg.to)
}

/// Decodes a call that manages a vault.
///
/// # Errors
/// [`ManageRuleError`] if the call must not be signed.
pub fn decode(leg: &PlanLeg, proposal: &Proposal, book: &AddressBook) -> Result<ManagePlan, ManageRuleError> {
    if proposal.intent != ProposalIntent::VaultManagement {
        return Err(ManageRuleError::Beside);
    }
    let call = ManageCall::decode(&leg.data, proposal.account)?;
    if call.is_privileged() && proposal.tool.capability != CapabilityTier::Privileged {
        return Err(ManageRuleError::Beside);
    }
    let is_factory = book.contract(KnownContract::AsyncVaultFactory) == Some(leg.to);
    if is_factory != matches!(call, ManageCall::Deploy(_)) {
        return Err(ManageRuleError::Elsewhere);
    }
    let mains = proposal.legs.iter().filter(|leg| leg.purpose == LegPurpose::Main).count();
    let does_more = mains != 1
        || leg.purpose != LegPurpose::Main
        || proposal.legs.iter().any(|leg| !leg.value.is_zero() || !leg.slots.is_empty())
        || proposal.trade.is_some()
        || proposal.order.is_some()
        || proposal.replaces.is_some()
        || proposal.recipients.iter().any(|one| *one != proposal.account);
    if does_more {
        return Err(ManageRuleError::DoesMore);
    }
    let plan = ManagePlan { target: leg.to, call };
    if matches!(plan.call, ManageCall::Settle { .. }) {
        settles(proposal, leg.to).map(|()| plan)
    } else if !proposal.outflows.is_empty() || !proposal.inflows.is_empty() {
        Err(ManageRuleError::Flows)
    } else if !proposal.allowances.is_empty() || proposal.legs.len() != 1 {
        Err(ManageRuleError::Allowance)
    } else {
        Ok(plan)
    }
}

/// Checks flows and allowances of a settlement.
fn settles(proposal: &Proposal, vault: Address) -> Result<(), ManageRuleError> {
    let (given, received) = match (proposal.outflows.as_slice(), proposal.inflows.as_slice()) {
        ([], []) => (None, None),
        ([out], []) => (Some(out), None),
        ([], [into]) => (None, Some(into)),
        ([out], [into]) => (Some(out), Some(into)),
        (_, _) => return Err(ManageRuleError::Flows),
    };
    let token = given.map(|out| out.token.id).or(received.map(|into| into.token.id));
    let own = received.is_none_or(|into| into.recipient == proposal.account && !into.at_least.is_zero());
    let one = received.is_none_or(|into| Some(into.token.id) == token);
    let is_plain = token.is_none_or(|token| token != TokenId::Native && token != TokenId::Erc20(vault));
    if !own || !one || !is_plain || given.is_some_and(|out| out.amount.is_zero()) {
        return Err(ManageRuleError::Flows);
    }
    let leaves = given.map(|out| (out.token.id, out.amount));
    let bounds = proposal.allowances.iter().all(|bound| {
        leaves.is_some_and(|(id, _)| id == bound.token.id) && bound.spender == vault && bound.at_most.is_zero()
    });
    let approvals = proposal.legs.iter().filter(|leg| leg.purpose != LegPurpose::Main).all(|leg| {
        let call = Erc20::approveCall::abi_decode(&leg.data).ok();
        let exact = call.filter(|one| one.abi_encode() == leg.data.as_ref() && one.spender == vault);
        let most = leaves.filter(|(id, _)| *id == TokenId::Erc20(leg.to)).map(|(_, amount)| amount);
        exact.zip(most).is_some_and(|(one, most)| one.value <= most)
    });
    if bounds && approvals { Ok(()) } else { Err(ManageRuleError::Allowance) }
}

/// Returns the management that a proposal consists of; `None` for any other action, and for a call that must not be signed.
pub fn plan(proposal: &Proposal, book: &AddressBook) -> Option<ManagePlan> {
    if proposal.intent != ProposalIntent::VaultManagement {
        return None;
    }
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?;
    decode(main, proposal, book).ok()
}

/// Returns the class that the intent and the calldata allow, and whether it is a settlement. The tool's privilege and the address of
/// the factory, which [`decode`] compares, make no class looser.
pub fn class(proposal: &Proposal) -> Option<ActionClass> {
    if proposal.intent != ProposalIntent::VaultManagement {
        return None;
    }
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?;
    let call = ManageCall::decode(&main.data, proposal.account).ok()?;
    Some(ManagePlan { target: main.to, call }.class())
}

/// Returns true for a pause of an own vault that moves nothing in the simulation. It only takes something away, like a revocation,
/// so that every stop lets it through.
pub fn only_pauses(proposal: &Proposal, simulated: Option<&SimulatedEffects>) -> bool {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main);
    let call = main.and_then(|leg| ManageCall::decode(&leg.data, proposal.account).ok());
    proposal.intent == ProposalIntent::VaultManagement
        && call == Some(ManageCall::Pause)
        && proposal.legs.len() == 1
        && simulated.is_some_and(|simulated| simulated.class == ActionClass::ReadOnly)
}

/// Returns true for the vault that a settlement pays those who leave from.
pub fn keeps(one: Address, proposal: &Proposal) -> bool {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main);
    proposal.intent == ProposalIntent::VaultManagement && main.is_some_and(|leg| leg.to == one)
}

/// State of the factory or of the vault that an action needs, on the pinned block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManageGround {
    /// Keccak-256 of the factory's code.
    Factory(B256),
    /// Vault that is valued or settled.
    Vault(ValuedVault),
}

/// Roles of a vault, as the chain has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VaultRoles {
    /// Account that settles, and holds what the vault is worth.
    pub safe: Address,
    /// Account that states what the vault is worth.
    pub valuation_manager: Address,
    /// True if the address book's factory made it, so that its code is the shipped one; `None` without a factory in the book.
    pub is_made: Option<bool>,
}

/// Vault that is valued or settled. Amounts are in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValuedVault {
    /// Token of the vault.
    pub asset: Address,
    /// Worth of the vault by its last valuation.
    pub last: U256,
    /// Tokens that the account holds, in its wallet and in the lending market.
    pub held: U256,
    /// Most that the vault can be worth after its last valuation if its shares never earned more than the lending market's
    /// interest. Many small rises end there.
    pub explained: U256,
    /// Accounts that may value and settle it, and whether the address book's factory made it.
    pub roles: VaultRoles,
}

impl ManageGround {
    /// Reason for which the operator decides, beside the operator's own limits; `None` without one.
    pub fn asks(&self, plan: &ManagePlan) -> Option<CheckReason> {
        let Self::Vault(vault) = self else { return None };
        let (total, last) = (plan.call.total()?, vault.last);
        let missing = last.saturating_sub(total);
        if missing > last / U256::from(ROUNDING) + U256::from(2) {
            return Some(CheckReason::ValuedLow);
        }
        let most = U512::from(last) * U512::from(10_000_u32.saturating_add(ASKED_RISE));
        let jumps = U512::from(total) * U512::from(10_000) > most;
        // By a unit, the market rounds otherwise.
        if jumps || total > vault.explained.saturating_add(U256::ONE) {
            return Some(CheckReason::ValuedHigh);
        }
        vault.roles.is_made.is_none().then_some(CheckReason::OnlyClaimed)
    }
}

/// Most that a vault can be worth whose shares have earned no more than the lending market's interest since its index was a ray, and
/// whose supply contains what was earned since the last valuation. `share` is the worth of one whole share by that valuation, and
/// `token` one whole token, which a new vault has for a share.
fn explained(last: U256, [share, token]: [U256; 2], supplied: U256, index: U256) -> U256 {
    let most = U512::from(last) * U512::from(index.min(U256::from(u128::MAX))) / U512::from(RAY);
    let most = most.checked_mul(U512::from(token)).and_then(|most| most.checked_div(U512::from(share)));
    let most = most.unwrap_or_default().saturating_to::<U256>();
    most.min(last.saturating_add(earned_at_most(supplied, index))).max(last)
}

/// Reads the ground of a deployment, a valuation or a settlement on a block; `None` for any other action.
///
/// # Errors
/// [`UnknownValue`] if the chain does not answer.
pub async fn ground(
    reader: &SnapshotReader,
    payload: &SigningPayload,
    block: BlockId,
) -> Result<Option<ManageGround>, UnknownValue> {
    let book = &reader.network().book;
    let Some(plan) = plan(payload.proposal(), book) else { return Ok(None) };
    if matches!(plan.call, ManageCall::Deploy(_)) {
        let code = reader.client.agreed().get_code_at(plan.target).block_id(block).await;
        let code = code.map_err(|error| UnknownValue::because(ProviderError::from(error)))?;
        return Ok(Some(ManageGround::Factory(keccak256(&code))));
    }
    if plan.call.total().is_none() {
        return Ok(None);
    }
    let silent = |what: &str| UnknownValue::because(format_args!("the vault {} does not report {what}", plan.target));
    let multicall = book.contract(KnownContract::Multicall3).ok_or_else(|| silent("anything without Multicall3"))?;
    let (provider, owner) = (reader.client.agreed(), payload.account());
    let mut calls = CallBatch::default();
    let asset = calls.push(plan.target, &Erc4626::assetCall {});
    let settlers = SettlerQuestions::push(&mut calls, plan.target);
    let factory = book.contract(KnownContract::AsyncVaultFactory);
    let made = factory.map(|factory| calls.push(factory, &LagoonFactory::isInstanceCall { vault: plan.target }));
    let decimals = calls.push(plan.target, &Erc4626::decimalsCall {});
    let answers = calls.send(provider, multicall, block).await.map_err(UnknownValue::because)?;
    let asset = asset.take(&answers).ok_or_else(|| silent("its token"))?;
    let settlers = settlers.take(&answers).ok_or_else(|| silent("its roles and its worth"))?;
    let Settlers { safe, valuation_manager, total_assets: last } = settlers;
    let is_made = made.map(|made| made.take(&answers) == Some(true));
    let roles = VaultRoles { safe, valuation_manager, is_made };
    let pool = book.contract(KnownContract::AavePool);
    let mut calls = CallBatch::default();
    let wallet = calls.push(asset, &Erc20::balanceOfCall { owner });
    let reserve = pool.map(|pool| calls.push(pool, &AavePool::getReserveDataCall { asset }));
    let index = pool.map(|pool| calls.push(pool, &AavePool::getReserveNormalizedIncomeCall { asset }));
    // What is a share, and what a token, of which a new vault gives one for the other.
    let whole = |decimals: u8| U256::from(10).checked_pow(U256::from(decimals));
    let share = decimals.take(&answers).and_then(whole);
    let share = share.map(|shares| calls.push(plan.target, &Erc4626::convertToAssetsCall { shares }));
    let token = calls.push(asset, &Erc4626::decimalsCall {});
    let answers = calls.send(provider, multicall, block).await.map_err(UnknownValue::because)?;
    let wallet = wallet.take(&answers).ok_or_else(|| silent("the balance of its token"))?;
    let receipt = reserve.and_then(|reserve| reserve.take(&answers)).map(|reserve| reserve.aTokenAddress);
    let mut supplied = U256::ZERO;
    if let Some(receipt) = receipt.filter(|receipt| !receipt.is_zero()) {
        let mut calls = CallBatch::default();
        let balance = calls.push(receipt, &AaveBalance::balanceOfCall { user: owner });
        let answers = calls.send(provider, multicall, block).await.map_err(UnknownValue::because)?;
        supplied = balance.take(&answers).ok_or_else(|| silent("the supply of its token"))?;
    }
    // A rise that nothing explains is asked about.
    let share = share.and_then(|share| share.take(&answers)).zip(token.take(&answers).and_then(whole));
    let index = index.and_then(|index| index.take(&answers)).filter(|_| receipt.is_some_and(|one| !one.is_zero()));
    let explained =
        share.zip(index).map_or(last, |((share, token), index)| explained(last, [share, token], supplied, index));
    let held = wallet.saturating_add(supplied);
    Ok(Some(ManageGround::Vault(ValuedVault { asset, last, held, explained, roles })))
}

/// Returns the faults of a deployment, a valuation or a settlement against what the chain says. `holdings` are the account's vaults,
/// with what it holds for the depositors of each; `None` if they could not be read.
pub fn faults(
    proposal: &Proposal,
    book: &AddressBook,
    ground: Option<&ManageGround>,
    holdings: Option<&[VaultHolding]>,
) -> Vec<DeclarationFault> {
    let plan = plan(proposal, book);
    if let Some(ManagePlan { call: ManageCall::Deploy(new), target }) = &plan {
        // It could never be settled, and its token may be called like another one.
        if book.token_at(new.asset).is_none() {
            let declared = "a vault of a listed token";
            let fault = DeclarationFault::new(RuleName::Calldata, declared, format!("a vault of {}", new.asset));
            return vec![fault.passing("a vault of a token of the address book")];
        }
        let code = ground.and_then(|ground| match ground {
            ManageGround::Factory(code) => Some(*code),
            ManageGround::Vault(_) => None,
        });
        if code == Some(FACTORY_CODE) {
            return Vec::new();
        }
        let found =
            code.map_or_else(|| "it does not answer".to_owned(), |code| format!("{target} has the code {code}"));
        let fault = DeclarationFault::new(RuleName::Calldata, format!("a factory with the code {FACTORY_CODE}"), found);
        return vec![fault.passing("the factory that Bardo ships")];
    }
    let Some(total) = plan.as_ref().and_then(|plan| plan.call.total()) else { return Vec::new() };
    let Some(ManageGround::Vault(ground)) = ground else {
        let declared = "a vault whose token and worth are known";
        return vec![DeclarationFault::new(RuleName::Calldata, declared, "it does not answer")];
    };
    let Some(holdings) = holdings else {
        let declared = "known holdings of the other vaults that the account manages";
        return vec![DeclarationFault::new(RuleName::Calldata, declared, "a vault does not answer")];
    };
    let mut faults = Vec::new();
    let (account, roles) = (proposal.account, &ground.roles);
    if roles.safe != account || roles.valuation_manager != account {
        let found = format!("its Safe is {}, and {} values it", roles.safe, roles.valuation_manager);
        let declared = "a vault that the account values and settles";
        faults.push(DeclarationFault::new(RuleName::Calldata, declared, found).passing("a vault of the account's own"));
    }
    // What a vault answers about its roles, only its code vouches for.
    if roles.is_made == Some(false) {
        let declared = "a vault that the address book's factory made";
        let fault = DeclarationFault::new(RuleName::Calldata, declared, "its code is not known");
        faults.push(fault.passing("a vault of vault_deploy"));
    }
    let flows = proposal.outflows.iter().map(|one| one.token.id);
    let mut moved = flows.chain(proposal.inflows.iter().map(|one| one.token.id));
    if moved.any(|id| id != TokenId::Erc20(ground.asset)) {
        let declared = "a settlement that moves the vault's token alone";
        faults.push(DeclarationFault::new(RuleName::Calldata, declared, format!("the vault holds {}", ground.asset)));
    }
    let target = plan.as_ref().map(|plan| plan.target);
    let others = holdings.iter().filter(|one| one.asset == ground.asset && Some(one.vault) != target);
    let others = others.fold(U256::ZERO, |sum, one| sum.saturating_add(one.owed));
    let held = ground.held.saturating_sub(others);
    if total > held {
        let token = book.token_at(ground.asset);
        let shown = |raw| match token.and_then(|token| Some((TokenAmount::new(raw, token.decimals).ok()?, token))) {
            Some((amount, token)) => format!("{amount} {}", token.symbol),
            None => figure(proposal, TokenId::Erc20(ground.asset), raw),
        };
        let declared = format!("a worth of at most {}, which its Safe holds for it", shown(held));
        let fault = DeclarationFault::new(RuleName::VaultValuation, declared, shown(total));
        faults.push(fault.passing("a valuation of what is there"));
    }
    faults
}

/// Returns the event that the receipts should contain and do not; `None` if the action is proven.
pub fn unproven(proposal: &Proposal, book: &AddressBook, logs: &[&Log]) -> Option<&'static str> {
    let plan = plan(proposal, book)?;
    let own: Vec<&&Log> = logs.iter().filter(|log| log.address == plan.target).collect();
    let me = proposal.account;
    let (event, seen) = match &plan.call {
        ManageCall::Deploy(_) => {
            let mut all = own.iter().filter_map(|log| LagoonFactory::ProxyDeployed::decode_log(log).ok());
            ("ProxyDeployed", all.any(|one| one.deployer == me))
        }
        ManageCall::Value { total } => {
            let mut all = own.iter().filter_map(|log| LagoonVault::NewTotalAssetsUpdated::decode_log(log).ok());
            ("NewTotalAssetsUpdated", all.any(|one| one.totalAssets == *total))
        }
        ManageCall::Settle { total } => {
            let mut all = own.iter().filter_map(|log| LagoonVault::TotalAssetsUpdated::decode_log(log).ok());
            ("TotalAssetsUpdated", all.any(|one| one.totalAssets == *total))
        }
        ManageCall::Pause => {
            let mut all = own.iter().filter_map(|log| LagoonVault::Paused::decode_log(log).ok());
            ("Paused", all.any(|one| one.account == me))
        }
        ManageCall::Resume => {
            let mut all = own.iter().filter_map(|log| LagoonVault::Unpaused::decode_log(log).ok());
            ("Unpaused", all.any(|one| one.account == me))
        }
        ManageCall::SetCap { cap } => {
            let mut all = own.iter().filter_map(|log| LagoonVault::MaxCapUpdated::decode_log(log).ok());
            ("MaxCapUpdated", all.any(|one| one.maxCap == *cap))
        }
    };
    (!seen).then_some(event)
}

#[cfg(test)]
mod tests;
