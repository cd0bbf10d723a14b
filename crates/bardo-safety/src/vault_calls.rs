//! Calls of a proposal to a vault of the ERC-4626 standard, or an asynchronous one of ERC-7540: their rules, what the simulation
//! must show of them, and the events that prove them.
//!
//! Rules follow from the calldata alone: an exact amount goes in, or an exact number of shares, and both ways nobody but the
//! account receives. The standard has no minimum in its calls, so the shares of a deposit and the tokens of a redemption are
//! bounded by the simulation before each signature. Three rules make that enough: the vault is one of the address book or of the
//! policy, it has enough shares that nobody can take a deposit by rounding between simulation and inclusion, and the shares of a
//! deposit must pay it out again in the same simulation. A request to deposit gives tokens for shares whose number its manager
//! settles later, so nothing bounds them; it must be possible to cancel it at once, for all of it. What a request gave waits in
//! the vault, or in the contract that the vault made for that.

use std::collections::BTreeSet;

use alloy::eips::BlockId;
use alloy::primitives::{Address, Log, U256, U512};
use alloy::providers::DynProvider;
use alloy::sol_types::{SolCall as _, SolEvent as _};

use crate::chain_snapshot::SnapshotReader;
use crate::policy::{ChainId, ContractRef, Rules};
use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use crate::signing_payload::SigningPayload;
use crate::simulate::{DeclarationFault, JudgeContext, agreeing, figure, transactions};
use crate::value::UnknownValue;
use bardo_abi::erc20::Erc20;
use bardo_abi::erc4626::Erc4626;
use bardo_abi::erc7540::{Erc7540, LagoonVault};
use bardo_base::fabric::CheckReason;
use bardo_base::model::RuleName;
use bardo_base::text::SafeText;
use bardo_base::units::BasisPoints;
use golem_chain::fork::{Fork, ForkError, SimulationOptions};
use golem_chain::multicall::CallBatch;
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::token::TokenId;
use golem_protocols::erc4626::call::{VaultCall, VaultCallError, VaultSide};
use golem_protocols::erc4626::holding::{
    PAST_BLOCKS, SharePrice, ask_price, cancelled_after, lacks, past_prices, redeemed_after,
};
use golem_protocols::erc7540::requests::{Asynchrony, AsynchronyQuestions, SettlerQuestions};

/// Least supply of shares, in raw units, of a vault that is deposited to. Rounding takes at most one unit from a deposit; to
/// make that unit worth as much as the deposit, somebody would have to donate this many times as much.
pub const LEAST_SUPPLY: u64 = 1_000_000;

/// Rise of the share price within the last 100 blocks from which on the operator decides, in basis points. Earnings of 100 blocks
/// are a fraction of one.
const SUDDEN_RISE: u32 = 100;

/// Reason why a call to a vault is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultRuleError {
    /// The vault of the address book is called by another kind of action.
    #[error("a vault can only be called by a vault tool")]
    Beside,
    /// The plan does more than one call of the vault with its allowance.
    #[error(
        "a vault action sends no value, signs no message, and makes one call of the vault beside the allowance for it"
    )]
    DoesMore,
    /// The flows differ from the calldata.
    #[error(
        "a deposit declares its token as the one outflow and shares as the one inflow, a withdrawal the reverse, a request only \
         what it gives and a claim only what it brings, with a minimum above zero, all of it for the account"
    )]
    Flows,
    /// An allowance other than for the vault would be left.
    #[error("a vault action leaves no allowance")]
    Allowance,
    /// The calldata is none of the closed forms.
    #[error(transparent)]
    Call(#[from] VaultCallError),
}

/// Vault action that a proposal consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VaultPlan {
    /// Address of the vault, and of its shares.
    pub vault: Address,
    /// Token that is deposited, or comes back; `None` if only shares move.
    pub asset: Option<Address>,
    /// The call of the vault.
    pub call: VaultCall,
    /// Least shares of a deposit, or least tokens of a redemption, as declared; raw units. Zero for a request.
    pub at_least: U256,
}

impl VaultPlan {
    /// Returns true for a withdrawal, for a request of one, and for what only brings back the account's own.
    pub fn is_exit(&self) -> bool {
        !self.call.is_deposit()
    }

    /// Returns true for a claim or a cancellation, which take nothing from the account.
    pub fn is_claim(&self) -> bool {
        self.call.gives().is_none()
    }

    /// Shares as a token.
    pub fn share(&self) -> TokenId {
        TokenId::Erc20(self.vault)
    }

    /// Token of this side; `None` if the action does not move it.
    fn token(&self, side: Option<VaultSide>) -> Option<TokenId> {
        match side? {
            VaultSide::Asset => self.asset.map(TokenId::Erc20),
            VaultSide::Share => Some(self.share()),
        }
    }

    /// Token that leaves the account.
    pub fn given(&self) -> Option<TokenId> {
        self.token(self.call.gives())
    }

    /// Token that comes to the account, whose amount the vault decides.
    pub fn received(&self) -> Option<TokenId> {
        self.token(self.call.receives())
    }

    /// Returns true for an address that keeps what a request gives until it is settled: the vault, or the first contract that
    /// it made, which is the silo of Lagoon's vaults.
    fn keeps(&self, one: Address) -> bool {
        let requests = matches!(self.call, VaultCall::RequestDeposit { .. } | VaultCall::RequestRedeem { .. });
        requests && (one == self.vault || one == self.vault.create(1))
    }

    /// Returns true if the policy lets deposits go to the vault.
    pub fn is_allowed(&self, chain_id: u64, rules: &Rules, book: Option<&AddressBook>) -> bool {
        let known = book.is_some_and(|book| in_book(book).any(|vault| vault == self.vault));
        rules.allowed_vaults.allows(&vault_ref(chain_id, self.vault), known)
    }
}

/// Item of a policy's list for a vault.
pub fn vault_ref(chain_id: u64, vault: Address) -> ContractRef {
    ContractRef { chain: ChainId(chain_id), address: vault, selector: None }
}

/// Vaults that the policy names on a chain. Beside that of the address book, only their shares count in the equity: anybody can
/// give an account shares of a vault of their own making.
pub fn named(chain_id: u64, rules: &Rules) -> BTreeSet<Address> {
    let named = rules.allowed_vaults.listed.iter().flatten().filter(|one| one.chain == ChainId(chain_id));
    named.map(|one| one.address).collect()
}

/// Vaults of the address book.
pub fn in_book(book: &AddressBook) -> impl Iterator<Item = Address> + '_ {
    [KnownContract::Vault, KnownContract::AsyncVault].into_iter().filter_map(|role| book.contract(role))
}

/// Vaults whose shares count: those of the address book, and those that the policy names on the chain.
pub fn known(chain_id: u64, rules: Option<&Rules>, book: &AddressBook) -> BTreeSet<Address> {
    let named = rules.map(|rules| named(chain_id, rules)).unwrap_or_default();
    named.into_iter().chain(in_book(book)).collect()
}

/// Returns true for an address that keeps what the request of a proposal gives.
pub fn keeps(one: Address, proposal: &Proposal) -> bool {
    plan(proposal).is_some_and(|plan| plan.keeps(one))
}

/// Returns true for a vault that keeps a request of the account: it notes that under the account's name, in a form that no standard
/// has a question for. What of its shares moves or is allowed is compared as that of any token.
pub fn notes(contract: Address, proposal: &Proposal) -> bool {
    plan(proposal).is_some_and(|plan| plan.vault == contract && plan.call.is_asynchronous())
}

/// Returns true for a call that only this module may judge: the main call of a vault action, or any call of one of the
/// address book's vaults.
pub fn concerns(leg: &PlanLeg, proposal: &Proposal, book: &AddressBook) -> bool {
    proposal.intent == ProposalIntent::Vault && leg.purpose == LegPurpose::Main
        || in_book(book).any(|vault| vault == leg.to)
}

/// Decodes a call of a proposal to a vault.
///
/// # Errors
/// [`VaultRuleError`] if the call must not be signed.
pub fn decode(leg: &PlanLeg, proposal: &Proposal) -> Result<VaultPlan, VaultRuleError> {
    if proposal.intent != ProposalIntent::Vault {
        return Err(VaultRuleError::Beside);
    }
    let call = VaultCall::decode(&leg.data, proposal.account)?;
    // Without shares that leave, the same bytes claim; that they take none, the simulation shows.
    let call = if proposal.outflows.is_empty() { call.claiming() } else { call };
    let mains = proposal.legs.iter().filter(|leg| leg.purpose == LegPurpose::Main).count();
    let does_more = mains != 1
        || leg.purpose != LegPurpose::Main
        || proposal.legs.iter().any(|leg| !leg.value.is_zero() || !leg.slots.is_empty())
        || proposal.trade.is_some()
        || proposal.order.is_some()
        || proposal.replaces.is_some();
    if does_more {
        return Err(VaultRuleError::DoesMore);
    }
    let plan = flows(leg.to, call, proposal).ok_or(VaultRuleError::Flows)?;
    // Only the vault may be allowed to take the token of a deposit, no more than the deposit, and only while the plan runs.
    let given = plan.asset.filter(|_| plan.call.is_deposit());
    let allowed = proposal.allowances.iter().all(|bound| {
        given.map(TokenId::Erc20) == Some(bound.token.id) && bound.spender == plan.vault && bound.at_most.is_zero()
    });
    let approvals = proposal.legs.iter().filter(|leg| leg.purpose != LegPurpose::Main).all(|leg| {
        let call = Erc20::approveCall::abi_decode(&leg.data).ok();
        let exact = call.is_some_and(|one| one.spender == plan.vault && one.value <= plan.call.amount());
        given == Some(leg.to) && exact
    });
    if allowed && approvals { Ok(plan) } else { Err(VaultRuleError::Allowance) }
}

/// Compares the declared flows with what the call moves: at most one token leaves, exactly the amount in the calldata, and at
/// most one comes in, to the account. Returns the action; `None` if they differ.
fn flows(vault: Address, call: VaultCall, proposal: &Proposal) -> Option<VaultPlan> {
    let one = |side: VaultSide, token: TokenId| match side {
        VaultSide::Share => (token == TokenId::Erc20(vault)).then_some(None),
        VaultSide::Asset => match token {
            TokenId::Erc20(asset) if asset != vault => Some(Some(asset)),
            TokenId::Erc20(_) | TokenId::Native => None,
        },
    };
    let mut asset = None;
    match (call.gives(), proposal.outflows.as_slice()) {
        (Some(side), [out]) if out.amount == call.amount() => asset = one(side, out.token.id)?,
        (None, []) => {}
        (Some(_) | None, _) => return None,
    }
    let mut at_least = U256::ZERO;
    match (call.receives(), proposal.inflows.as_slice()) {
        (Some(side), [into]) if !into.at_least.is_zero() && into.recipient == proposal.account => {
            asset = asset.or(one(side, into.token.id)?);
            at_least = into.at_least;
        }
        (None, []) => {}
        (Some(_) | None, _) => return None,
    }
    let own = proposal.recipients.iter().all(|one| *one == proposal.account);
    own.then_some(VaultPlan { vault, asset, call, at_least })
}

/// Returns the vault action that a proposal consists of; `None` for any other action, and for a call that must not be signed.
pub fn plan(proposal: &Proposal) -> Option<VaultPlan> {
    if proposal.intent != ProposalIntent::Vault {
        return None;
    }
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?;
    decode(main, proposal).ok()
}

/// Returns the shares that a vault action is about, also where its call must not be signed: then that is what blocks it, and not
/// that shares have no price. `None` for any other action.
pub fn share(proposal: &Proposal) -> Option<TokenId> {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?;
    (proposal.intent == ProposalIntent::Vault).then_some(TokenId::Erc20(main.to))
}

/// A vault some blocks ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastVault {
    /// Actions of it that were requests, by its own answer.
    pub asynchrony: Asynchrony,
    /// Price of its shares; `None` if it did not answer.
    pub price: Option<U256>,
}

/// A vault on the pinned block, as an action needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VaultGround {
    /// Token that the vault holds; `None` if it does not answer.
    pub asset: Option<Address>,
    /// All shares, in raw units; `None` if it does not answer.
    pub supply: Option<U256>,
    /// True if the share price rose suddenly: see [`CheckReason::SharePriceRose`].
    pub jumped: bool,
    /// Price of the shares.
    pub price: SharePrice,
    /// Actions of it that are requests, by its own answer.
    pub asynchrony: Asynchrony,
    /// Its state [`PAST_BLOCKS`] blocks ago, as a request to redeem needs it; `None` if that is not known.
    pub past: Option<PastVault>,
    /// True if it names the accounts that value and settle it.
    pub has_settlers: bool,
}

impl VaultGround {
    /// Reason for which the operator decides about an action, beside the operator's own limits; `None` without one. `most` is
    /// the largest part that a withdrawal may lose against the price of the shares.
    pub fn asks(&self, plan: &VaultPlan, most: BasisPoints) -> Option<CheckReason> {
        match plan.call {
            VaultCall::Deposit { .. } | VaultCall::RequestDeposit { .. } => {
                self.jumped.then_some(CheckReason::SharePriceRose)
            }
            // Never refused: the shares may be worth no more. Two units are rounding.
            VaultCall::Redeem { shares } => {
                let sure = plan.at_least.saturating_add(U256::from(2));
                lacks(sure, self.price.worth(shares), most.get()).then_some(CheckReason::PaysBelowSharePrice)
            }
            // What they bring was settled already, or will be: refusing it helps nobody.
            VaultCall::ClaimShares { .. } | VaultCall::ClaimAssets { .. } | VaultCall::CancelDeposit => None,
            VaultCall::RequestRedeem { shares } => self.asks_request(shares, most),
        }
    }

    /// Reason for which the operator decides about a request to redeem. Its price is set after the shares are gone: the vault must
    /// have worked like that before, by a manager that it names, at a price that did not just fall.
    fn asks_request(&self, shares: U256, most: BasisPoints) -> Option<CheckReason> {
        let Some(before) = self.past.filter(|past| past.asynchrony.redemptions) else {
            return Some(CheckReason::NewlyAsynchronous);
        };
        let (Some(now), Some(past)) = (self.price.now, before.price) else {
            return Some(CheckReason::RequestUnbounded);
        };
        if !self.has_settlers || now.is_zero() {
            return Some(CheckReason::RequestUnbounded);
        }
        let alone = |price| SharePrice { now: Some(price), past: None }.worth(shares);
        lacks(alone(now).saturating_add(U256::from(2)), alone(past), most.get()).then_some(CheckReason::SharePriceFell)
    }
}

/// Reads the vault of a payload on a block; `None` for any other action.
///
/// # Errors
/// [`UnknownValue`] if the chain does not answer.
pub async fn ground(
    reader: &SnapshotReader,
    payload: &SigningPayload,
    (number, block): (u64, BlockId),
) -> Result<Option<VaultGround>, UnknownValue> {
    let Some(plan) = plan(payload.proposal()) else { return Ok(None) };
    let no_multicall = || UnknownValue::because("a vault cannot be read: the address book has no Multicall3");
    let multicall = reader.network().book.contract(KnownContract::Multicall3).ok_or_else(no_multicall)?;
    let provider = reader.client.agreed();
    let mut calls = CallBatch::default();
    let asset = calls.push(plan.vault, &Erc4626::assetCall {});
    let supply = calls.push(plan.vault, &Erc4626::totalSupplyCall {});
    let now = ask_price(&mut calls, plan.vault);
    let asynchrony = AsynchronyQuestions::push(&mut calls, plan.vault);
    let settlers = SettlerQuestions::push(&mut calls, plan.vault);
    let answers = calls.send(provider, multicall, block).await.map_err(UnknownValue::because)?;
    // Where nothing is known of the past, nobody is alarmed.
    let past = past_prices((provider, multicall), [plan.vault], number).await.remove(&plan.vault);
    let before = before((provider, multicall), plan.vault, number).await;
    let has_settlers = settlers.take(&answers).is_some();
    let price = SharePrice { now: now.take(&answers), past };
    let jumped = price.now.zip(price.past).is_some_and(|(now, past)| {
        let most = U512::from(past) * U512::from(10_000 + SUDDEN_RISE);
        !past.is_zero() && U512::from(now) * U512::from(10_000) > most
    });
    let (asset, supply, asynchrony) = (asset.take(&answers), supply.take(&answers), asynchrony.take(&answers));
    Ok(Some(VaultGround { asset, supply, jumped, price, asynchrony, past: before, has_settlers }))
}

/// A vault [`PAST_BLOCKS`] blocks before block `number`, or on the chain's first block; `None` without the state of that block.
async fn before((provider, multicall): (&DynProvider, Address), vault: Address, number: u64) -> Option<PastVault> {
    let mut calls = CallBatch::default();
    let asked = AsynchronyQuestions::push(&mut calls, vault);
    let price = ask_price(&mut calls, vault);
    let past = BlockId::number(number.saturating_sub(PAST_BLOCKS));
    let answers = calls.send(provider, multicall, past).await.ok()?;
    Some(PastVault { asynchrony: asked.take(&answers), price: price.take(&answers) })
}

/// Simulates a deposit, and then the redemption of its least shares; or a request to deposit, and then its cancellation. Returns
/// what that pays, in raw units of the token, or the reason why it pays nothing; `None` for any other action, or if its main transaction is not among those from
/// `from`.
///
/// # Errors
/// [`ForkError`] if nothing can be simulated.
pub async fn way_back(
    fork: &Fork,
    payload: &SigningPayload,
    (from, nonce): (usize, u64),
    around: &JudgeContext,
) -> Result<Option<Result<U256, SafeText>>, ForkError> {
    let proposal = payload.proposal();
    let to_come = payload.legs().iter().skip(from).any(|leg| leg.purpose == LegPurpose::Main);
    let Some(plan) = plan(proposal).filter(|plan| to_come && !plan.is_exit()) else { return Ok(None) };
    let calls = transactions(payload, from, nonce);
    let (shifts, slots) = (around.shifts.clone(), agreeing(payload));
    let options = SimulationOptions { shifts, slots, ..SimulationOptions::default() };
    let Some(asset) = plan.asset else { return Ok(None) };
    let (vault, account) = (plan.vault, proposal.account);
    let paid = match plan.call {
        VaultCall::RequestDeposit { .. } => {
            // A cancellation pays an earlier request back as well, which says nothing of this one.
            let of = (vault, asset, account);
            let earlier = cancelled_after(fork, &[], &options, of).await?.unwrap_or_default();
            let paid = cancelled_after(fork, &calls, &options, of).await?;
            Ok(paid.map(|paid| paid.saturating_sub(earlier)))
        }
        VaultCall::Deposit { .. }
        | VaultCall::Redeem { .. }
        | VaultCall::RequestRedeem { .. }
        | VaultCall::ClaimShares { .. }
        | VaultCall::ClaimAssets { .. }
        | VaultCall::CancelDeposit => {
            redeemed_after(fork, &calls, &options, (vault, asset, account, plan.at_least)).await
        }
    };
    paid.map(Some)
}

/// Returns the faults of a vault action against the vault's state, and against the way back that was simulated. `most` is the
/// largest part of a deposit that may be lost by depositing and withdrawing it at once.
pub fn faults(
    proposal: &Proposal,
    ground: Option<&VaultGround>,
    back: Option<&Result<U256, SafeText>>,
    most: BasisPoints,
) -> Vec<DeclarationFault> {
    // Calldata without a closed form is a fault already.
    let Some(plan) = plan(proposal) else { return Vec::new() };
    let mut faults = Vec::new();
    let mut fault = |rule, declared: String, found: String, would_pass: &str| {
        faults.push(DeclarationFault::new(rule, declared, found).passing(would_pass));
    };
    let asset = ground.and_then(|ground| ground.asset);
    if asset.is_none() || plan.asset.is_some_and(|declared| asset != Some(declared)) {
        let declared = plan.asset.map_or_else(|| "a vault".to_owned(), |asset| format!("a vault of {asset}"));
        let found = asset.map_or_else(|| "it does not answer".to_owned(), |asset| format!("it holds {asset}"));
        fault(RuleName::Calldata, declared, found, "a vault of the declared token");
    }
    if ground.is_some_and(|ground| !ground.asynchrony.fits(&plan.call)) {
        let kind = |requests: bool| if requests { "a vault that takes requests" } else { "a vault without requests" };
        let declared = kind(plan.call.is_asynchronous());
        let found = format!("it says that it is {}", kind(!plan.call.is_asynchronous()));
        fault(RuleName::Calldata, declared.to_owned(), found, "the form of call that the vault knows");
    }
    let (assets, requests) = match plan.call {
        VaultCall::Deposit { assets } => (assets, false),
        VaultCall::RequestDeposit { assets } => (assets, true),
        VaultCall::Redeem { .. }
        | VaultCall::RequestRedeem { .. }
        | VaultCall::ClaimShares { .. }
        | VaultCall::ClaimAssets { .. }
        | VaultCall::CancelDeposit => return faults,
    };
    let least = U256::from(LEAST_SUPPLY);
    let supply = ground.and_then(|ground| ground.supply).unwrap_or_default();
    // A donation moves no price that a manager states.
    if !requests && supply < least {
        fault(
            RuleName::VaultSupply,
            format!("at least {least} raw units of shares before the deposit"),
            format!("{supply} raw units, so that a donation can take the deposit"),
            "a vault with more deposits",
        );
    }
    if let (Some(back), Some(asset)) = (back, plan.asset) {
        let shown = |raw| figure(proposal, TokenId::Erc20(asset), raw);
        faults.extend(way_back_fault(back, (assets, requests), most, &shown));
    }
    faults
}

/// Returns the fault of a deposit or of a request to deposit by what its way back pays. Without a way back, the main transaction
/// is done, or the simulation itself failed, which blocks with its own reason.
fn way_back_fault(
    back: &Result<U256, SafeText>,
    (assets, requests): (U256, bool),
    most: BasisPoints,
    shown: &dyn Fn(U256) -> String,
) -> Option<DeclarationFault> {
    let [way, who, exit, fails, would_pass] = match requests {
        true => [
            "by cancelling at once",
            "cancelling it pays",
            "a request that can be cancelled at once",
            "the cancellation fails",
            "a vault whose requests can be cancelled",
        ],
        false => [
            "by withdrawing at once",
            "its shares pay",
            "a deposit whose shares can be redeemed at once",
            "the redemption fails",
            "a vault that pays out",
        ],
    };
    match back {
        Ok(back) => {
            let kept = U512::from(assets) * U512::from(10_000_u32.saturating_sub(most.get()));
            (U512::from(*back) * U512::from(10_000) < kept).then(|| {
                let declared = format!("at most {most} of {} lost {way}", shown(assets));
                let fault = DeclarationFault::new(RuleName::MaxLossBps, declared, format!("{who} {}", shown(*back)));
                fault.passing("a vault without such a fee, or another time")
            })
        }
        Err(why) => {
            let fault = DeclarationFault::new(RuleName::VaultExit, exit.to_owned(), format!("{fails}: {why}"));
            Some(fault.passing(would_pass))
        }
    }
}

/// Returns the event that the receipts of a vault action should contain and do not; `None` if it is proven. The vault's own
/// event counts only together with the token's transfer, which the vault cannot make up.
pub fn unproven(proposal: &Proposal, logs: &[&Log]) -> Option<&'static str> {
    let plan = plan(proposal)?;
    let me = proposal.account;
    let own = || logs.iter().filter(|log| log.address == plan.vault);
    // A transfer of this much to or from the account, by the token's own event.
    let moved = |token: Option<Address>, least: U256, comes: bool| {
        let of_token = logs.iter().filter(|log| Some(log.address) == token);
        let mut all = of_token.filter_map(|log| Erc20::Transfer::decode_log(log).ok());
        all.any(|one| if comes { one.to == me && one.value >= least } else { one.from == me && one.value == least })
    };
    let (asset, share) = (plan.asset, Some(plan.vault));
    let (event, seen) = match plan.call {
        VaultCall::Deposit { assets } | VaultCall::ClaimShares { assets } => {
            let mut all = own().filter_map(|log| Erc4626::Deposit::decode_log(log).ok());
            let told =
                all.any(|one| (one.sender, one.owner, one.assets) == (me, me, assets) && one.shares >= plan.at_least);
            let paid = match plan.is_claim() {
                true => moved(share, plan.at_least, true),
                false => moved(asset, assets, false),
            };
            ("Deposit", told && paid)
        }
        VaultCall::Redeem { shares } | VaultCall::ClaimAssets { shares } => {
            let mut all = own().filter_map(|log| Erc4626::Withdraw::decode_log(log).ok());
            let told = all.any(|one| {
                (one.sender, one.receiver, one.owner, one.shares) == (me, me, me, shares) && one.assets >= plan.at_least
            });
            ("Withdraw", told && moved(asset, plan.at_least, true))
        }
        VaultCall::RequestDeposit { assets } => {
            let mut all = own().filter_map(|log| Erc7540::DepositRequest::decode_log(log).ok());
            let told = all.any(|one| (one.controller, one.owner, one.sender, one.assets) == (me, me, me, assets));
            ("DepositRequest", told && moved(asset, assets, false))
        }
        VaultCall::RequestRedeem { shares } => {
            let mut all = own().filter_map(|log| Erc7540::RedeemRequest::decode_log(log).ok());
            let told = all.any(|one| (one.controller, one.owner, one.sender, one.shares) == (me, me, me, shares));
            ("RedeemRequest", told && moved(share, shares, false))
        }
        VaultCall::CancelDeposit => {
            let mut all = own().filter_map(|log| LagoonVault::DepositRequestCanceled::decode_log(log).ok());
            let told = all.any(|one| one.controller == me);
            ("DepositRequestCanceled", told && moved(asset, plan.at_least, true))
        }
    };
    (!seen).then_some(event)
}

#[cfg(test)]
mod tests;
