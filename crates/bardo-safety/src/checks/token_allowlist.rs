//! Allowlist check: tokens, chain, tool, protocol, kind of action, wallet, contracts and their functions, spenders,
//! recipients.
//!
//! Revocations, cancellations and refunds are checked by tool, chain, kind and wallet only, so that an allowance on an
//! unlisted token can be revoked.

use bardo_base::fabric::{CheckReason, Finding};
use std::collections::BTreeMap;
use std::sync::LazyLock;

use alloy::primitives::{Address, FixedBytes, keccak256};

use super::policy_context::PolicyContext;
use crate::account::AccountKind;
use crate::calldata;
use crate::check_inputs::CheckInputs;
use crate::custody::safe;
use crate::grants;
use crate::hook_calls::{self, DEPLOYMENT_PROXY, SALT_TAG};
use crate::policy::{AllowedItems, ChainId, ContractRef, ItemName, Recipient, Rules, Spender, TokenRef, Wallet};
use crate::proposal::{LegPurpose, PlanLeg, ProposalIntent};
use crate::signing_payload::{PayloadLeg, SigningPayload};
use crate::simulate::settler;
use crate::vault_calls::{self, VaultPlan};
use crate::vault_management;
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::model::{Check, RuleName};
use golem_chain::network::{AddressBook, KnownContract, Network};
use golem_chain::token::TokenId;

/// Functions of the address book's contracts that the scope "book" allows.
const FUNCTIONS: &[(KnownContract, &[&str])] = &[
    (KnownContract::UniversalRouter, &["execute(bytes,bytes[])", "execute(bytes,bytes[],uint256)"]),
    (KnownContract::UniversalRouterV210, &["execute(bytes,bytes[])", "execute(bytes,bytes[],uint256)"]),
    (KnownContract::UniversalRouterV211, &["execute(bytes,bytes[])", "execute(bytes,bytes[],uint256)"]),
    (KnownContract::UniversalRouterV212, &["execute(bytes,bytes[])", "execute(bytes,bytes[],uint256)"]),
    (KnownContract::UniversalRouterV220, &["execute(bytes,bytes[])", "execute(bytes,bytes[],uint256)"]),
    (
        KnownContract::Permit2,
        &[
            "approve(address,address,uint160,uint48)",
            "lockdown((address,address)[])",
            "invalidateNonces(address,address,uint48)",
            "invalidateUnorderedNonces(uint256,uint256)",
        ],
    ),
    (KnownContract::OriginSettler, &["refund(bytes32)"]),
    // Allowed only with the liquidity intent, and as a whole in the closed forms that `position_calls` decodes.
    (
        KnownContract::V3PositionManager,
        &[
            "multicall(bytes[])",
            "collect((uint256,address,uint128,uint128))",
            "mint((address,address,uint24,int24,int24,uint256,uint256,uint256,uint256,address,uint256))",
            "increaseLiquidity((uint256,uint256,uint256,uint256,uint256,uint256))",
        ],
    ),
    // The same, of V4.
    (KnownContract::V4PositionManager, &["modifyLiquidities(bytes,uint256)"]),
    // Allowed only with the lending intent, and in the closed forms that `lending_calls` decodes.
    (
        KnownContract::AavePool,
        &[
            "supply(address,uint256,address,uint16)",
            "withdraw(address,uint256,address)",
            "borrow(address,uint256,uint256,uint16,address)",
            "repay(address,uint256,uint256,address)",
        ],
    ),
    // Allowed only with the bridge intent, and in the closed form that `across_calls` decodes.
    (
        KnownContract::AcrossSpokePool,
        &["depositV3(address,address,address,address,uint256,uint256,uint256,address,uint32,uint32,uint32,bytes)"],
    ),
    // Allowed only with the vault intent, and in the closed forms that `vault_calls` decodes.
    (KnownContract::Vault, &["deposit(uint256,address)", "redeem(uint256,address,address)"]),
    (
        KnownContract::AsyncVault,
        &[
            "requestDeposit(uint256,address,address)",
            "requestRedeem(uint256,address,address)",
            "deposit(uint256,address,address)",
            "redeem(uint256,address,address)",
            "cancelRequestDeposit()",
        ],
    ),
    // Allowed only with the intent of vault management, and in the closed form that `vault_management` decodes.
    (
        KnownContract::AsyncVaultFactory,
        &[
            "createVaultProxy(address,address,uint256,(address,string,string,address,address,address,address,address,uint16,uint16,bool,uint256),bytes32)",
        ],
    ),
    // Allowed only with the intent of protocol fees, and in the closed forms that `fee_calls` decodes.
    (KnownContract::FeeReleaser, &["release(uint256,address[],address)"]),
    (KnownContract::V3FeeAdapter, &["collect((address,uint128,uint128)[])"]),
    // Allowed only with the PolicyCage intent, which `calldata` requires and no tool has.
    (
        KnownContract::PolicyCage,
        &[
            "configure(((address,address,bool,uint128,uint128,uint128)[],(address,bytes4)[],address[],uint16,uint16,uint32,uint32))",
            "clear()",
        ],
    ),
    // Allowed only with the identity intent, which `calldata` requires; a transfer also needs a privileged tool.
    (
        KnownContract::IdentityRegistry,
        &[
            "register()",
            "register(string)",
            "register(string,(string,bytes)[])",
            "setAgentURI(uint256,string)",
            "setMetadata(uint256,string,bytes)",
            "safeTransferFrom(address,address,uint256)",
        ],
    ),
    (
        KnownContract::ReputationRegistry,
        &["giveFeedback(uint256,int128,uint8,string,string,string,string,bytes32)", "revokeFeedback(uint256,uint64)"],
    ),
    (
        KnownContract::ValidationRegistry,
        &[
            "validationRequest(address,uint256,string,bytes32)",
            "validationResponse(bytes32,uint8,string,bytes32,string)",
        ],
    ),
    (
        KnownContract::WrappedNative,
        &["deposit()", "withdraw(uint256)", "approve(address,uint256)", "transfer(address,uint256)"],
    ),
];

/// Functions of an allowed token contract.
const TOKEN_FUNCTIONS: &[&str] = &["approve(address,uint256)", "transfer(address,uint256)"];

static SELECTORS: LazyLock<BTreeMap<KnownContract, Vec<FixedBytes<4>>>> =
    LazyLock::new(|| FUNCTIONS.iter().map(|(contract, all)| (*contract, selectors(all))).collect());
static TOKEN_SELECTORS: LazyLock<Vec<FixedBytes<4>>> = LazyLock::new(|| selectors(TOKEN_FUNCTIONS));

/// Returns the functions that the scope "book" allows on contracts of `book`, with the contract's address.
pub(crate) fn book_functions(book: &AddressBook) -> impl Iterator<Item = (Address, FixedBytes<4>)> + '_ {
    let known = book.contracts().filter_map(|(contract, address)| Some((address, SELECTORS.get(&contract)?)));
    let known = known.flat_map(|(address, selectors)| selectors.iter().map(move |selector| (address, *selector)));
    // The calldata of a deployment begins with its salt, and that with a tag: `hook_calls` takes no other.
    let deploys = book.contract(KnownContract::V4PoolManager).map(|_| (DEPLOYMENT_PROXY, SALT_TAG.into()));
    known.chain(deploys)
}

/// Returns the selectors of an allowed token's functions.
pub(crate) fn token_functions() -> &'static [FixedBytes<4>] {
    &TOKEN_SELECTORS
}

fn selectors(signatures: &[&str]) -> Vec<FixedBytes<4>> {
    // `get` cannot fail: the hash has 32 bytes.
    signatures.iter().map(|text| FixedBytes::from_slice(keccak256(text).get(..4).unwrap_or(&[0; 4]))).collect()
}

/// Protocol of vaults, as policies name it.
const VAULTS: &str = "erc4626";

/// Returns the protocol of a contract, as policies name it.
const fn protocol(contract: KnownContract) -> &'static str {
    use KnownContract as C;
    match contract {
        C::UniversalRouter
        | C::UniversalRouterV210
        | C::UniversalRouterV211
        | C::UniversalRouterV212
        | C::UniversalRouterV220
        | C::SwapRouter02
        | C::V2Factory
        | C::V2Router
        | C::V3Factory
        | C::V3PositionManager
        | C::QuoterV2
        | C::TickLens
        | C::V4PoolManager
        | C::V4PositionManager
        | C::V4StateView
        | C::V4Quoter
        | C::UniswapMulticall => "uniswap",
        C::DutchReactor
        | C::V2DutchReactor
        | C::V3DutchReactor
        | C::PriorityReactor
        | C::OrderQuoter
        | C::OrderCosigner => "uniswapx",
        C::Permit2 => "permit2",
        C::WrappedNative => "erc20",
        C::IdentityRegistry | C::ReputationRegistry | C::ValidationRegistry => "erc8004",
        C::DelegationManager | C::Eip7702Delegator | C::PolicyCage => "delegation",
        C::EntryPoint => "erc4337",
        C::AavePool | C::AaveAddressesProvider => "aave",
        C::Vault
        | C::AsyncVault
        | C::CappedAsyncVault
        | C::StuckAsyncVault
        | C::PausedAsyncVault
        | C::AsyncVaultFactory => VAULTS,
        C::TokenJar | C::FeeReleaser | C::V3FeeAdapter => "uniswap",
        C::Multicall3 => "multicall",
        C::OriginSettler | C::DestinationSettler => "erc7683",
        C::AcrossSpokePool => "across",
    }
}

/// Violations found so far, and whether one of them concerns a token.
struct Violations {
    violations: Vec<Violation>,
    tokens: bool,
}

impl Violations {
    fn add(&mut self, rule: RuleName, allowed: String, value: impl ToString, would_pass: &str) {
        self.violations.push(Violation::new(rule, allowed, value.to_string(), would_pass.to_owned()));
    }
}

/// Checks everything that the action touches against the policy's allowlists.
pub fn check(payload: &SigningPayload, inputs: &CheckInputs, context: &PolicyContext<'_>) -> Verdict {
    let rules = context.policy.rules();
    let mut found = Violations { violations: Vec::new(), tokens: false };
    who_and_what(payload, rules, &mut found);
    if let Some(network) = context.network {
        found.violations.extend(grants::violations(payload, network));
    }
    let mut asks = None;
    if !inputs.only_revokes() {
        // One list decides about a vault, its functions, its allowance and its shares. What the account holds in another one
        // must come out.
        let vault = vault_calls::plan(payload.proposal());
        let (chain_id, book) = (payload.proposal().chain_id, context.network.map(|network| &network.book));
        if let Some(plan) = vault.filter(|plan| !plan.is_allowed(chain_id, rules, book)) {
            if plan.is_exit() {
                asks = Some(CheckReason::VaultUnlisted);
            } else {
                let named = vault_calls::vault_ref(chain_id, plan.vault);
                found.add(RuleName::AllowedVaults, rules.allowed_vaults.describe(), named, "an allowed vault");
            }
        }
        let managed = book.and_then(|book| Some((vault_management::plan(payload.proposal(), book)?, book)));
        if let Some((plan, _)) = managed.as_ref().filter(|(plan, book)| !plan.is_listed(chain_id, rules, book)) {
            if plan.needs_listing() {
                let named = vault_calls::vault_ref(chain_id, plan.target);
                let would_pass =
                    "a vault that allowed_vaults names, so that the equity leaves out what is its depositors'";
                found.add(RuleName::AllowedVaults, rules.allowed_vaults.describe(), named, would_pass);
            } else {
                asks = Some(CheckReason::ManagedVaultUnlisted);
            }
        }
        let manages = managed.map(|(plan, _)| plan.target);
        tokens(payload, inputs, context, vault, &mut found);
        hops(payload, context, &mut found);
        contracts(payload, inputs, context, (vault, manages), &mut found);
        parties(payload, context, (vault, manages), &mut found);
    }
    let Violations { violations, tokens } = found;
    if violations.is_empty() {
        let passed = Verdict::passed(Check::TokenAllowlist, Finding::Listed);
        return asks.into_iter().fold(passed, Verdict::asking);
    }
    let code = if tokens { ErrorCode::SafetyTokenNotAllowed } else { ErrorCode::SafetyNotAllowed };
    Verdict::broken(Check::TokenAllowlist, code, violations)
}

fn who_and_what(payload: &SigningPayload, rules: &Rules, found: &mut Violations) {
    let proposal = payload.proposal();
    let mut word = |rule: RuleName, scope: &AllowedItems<ItemName>, name: &str, would_pass: &str| {
        if !scope.allows_by(false, |listed| listed.iter().any(|word| word.0 == name)) {
            found.add(rule, scope.describe(), name, would_pass);
        }
    };
    word(RuleName::AllowedTools, &rules.allowed_tools, proposal.tool.name, "an allowed tool");
    word(
        RuleName::AllowedIntentTypes,
        &rules.allowed_intent_types,
        proposal.intent.as_str(),
        "an allowed kind of action",
    );
    let chain = ChainId(proposal.chain_id);
    if !rules.allowed_chains.allows(&chain, false) {
        found.add(RuleName::AllowedChains, rules.allowed_chains.describe(), chain, "the same on an allowed chain");
    }
    if let Some(arrival) = proposal.bridged() {
        let chain = ChainId(arrival.chain_id);
        if !rules.allowed_chains.allows(&chain, false) {
            found.add(RuleName::AllowedChains, rules.allowed_chains.describe(), chain, "the same to an allowed chain");
        }
        let token = TokenRef { chain, token: arrival.token.id };
        // If the token were not listed on that chain as claimed, its value would be unknown.
        if !rules.allowed_tokens.allows(&token, arrival.token.listed) {
            found.tokens = true;
            found.add(RuleName::AllowedTokens, rules.allowed_tokens.describe(), token, "an allowed token");
        }
    }
    let wallet = Wallet(payload.account());
    if !rules.allowed_execution_wallets.allows(&wallet, false) {
        let allowed = rules.allowed_execution_wallets.describe();
        found.add(RuleName::AllowedExecutionWallets, allowed, wallet, "the same with an allowed wallet");
    }
    match payload.kind() {
        AccountKind::LocalKey | AccountKind::DevelopmentKey | AccountKind::Embedded => {}
        AccountKind::Delegated | AccountKind::Safe if rules.safe_addresses.allows(&wallet, false) => {}
        AccountKind::Delegated | AccountKind::Safe => {
            found.add(
                RuleName::SafeAddresses,
                rules.safe_addresses.describe(),
                wallet,
                "the same with an allowed wallet",
            );
        }
    }
}

/// Returns whether a token is in the address book; `None` for a token that the action does not name. A repetition names
/// none, since its content is the signed bytes, so the book itself is asked.
fn listed(payload: &SigningPayload, inputs: &CheckInputs, context: &PolicyContext<'_>, id: TokenId) -> Option<bool> {
    let named = inputs.tokens.get(&id).map(|token| token.listed);
    let repeats = payload.proposal().intent == ProposalIntent::SpeedUp;
    let in_book = |network: &Network| network.book.tokens().iter().any(|token| TokenId::Erc20(token.address) == id);
    named.or_else(|| repeats.then(|| context.network.is_some_and(in_book)))
}

fn tokens(
    payload: &SigningPayload,
    inputs: &CheckInputs,
    context: &PolicyContext<'_>,
    vault: Option<VaultPlan>,
    found: &mut Violations,
) {
    let (proposal, rules) = (payload.proposal(), context.policy.rules());
    let flows = proposal.outflows.iter().map(|one| one.token.id);
    let inflows = proposal.inflows.iter().map(|one| one.token.id);
    let allowances = proposal.allowances.iter().map(|one| one.token.id);
    let traded = proposal.trade.iter().flat_map(|trade| [trade.token_in.id, trade.token_out.id]);
    let mut all: Vec<TokenId> = flows.chain(inflows).chain(allowances).chain(traded).collect();
    // Tokens that really move, whatever was declared.
    all.extend(inputs.simulation.iter().flat_map(|simulated| simulated.moves.iter().map(|one| one.token)));
    all.extend(inputs.tokens.keys());
    all.sort_unstable();
    all.dedup();
    // Whose shares may move, the list of vaults says.
    let share = vault.map(|plan| plan.share());
    for id in all.into_iter().filter(|id| share != Some(*id)) {
        let known = id == TokenId::Native || listed(payload, inputs, context, id) == Some(true);
        let token = TokenRef { chain: ChainId(proposal.chain_id), token: id };
        if !rules.allowed_tokens.allows(&token, known) {
            let symbol =
                inputs.tokens.get(&id).map(|token| format!(" (calls itself {})", token.symbol)).unwrap_or_default();
            found.tokens = true;
            let value = format!("{token}{symbol}");
            found.add(RuleName::AllowedTokens, rules.allowed_tokens.describe(), value, "an allowed token");
        }
    }
}

/// Checks the intermediate tokens of a trade. They leave no trace in the account, but their issuer decides whether
/// anything comes out of the trade. The quote's source chose them, so they must be known here.
fn hops(payload: &SigningPayload, context: &PolicyContext<'_>, found: &mut Violations) {
    let (Some(network), proposal) = (context.network, payload.proposal()) else { return };
    let allowed = &context.policy.rules().allowed_tokens;
    for address in calldata::passed_through(proposal, &network.book) {
        let listed = network.book.tokens().iter().any(|token| token.address == address);
        let wraps = network.book.contract(KnownContract::WrappedNative) == Some(address);
        let token = TokenRef { chain: ChainId(proposal.chain_id), token: TokenId::Erc20(address) };
        if !listed && !wraps && !allowed.allows(&token, false) {
            found.tokens = true;
            let value = format!("{token}, on the route");
            found.add(RuleName::AllowedTokens, allowed.describe(), value, "a route through known tokens");
        }
    }
}

/// Returns true if what is called in place of the proposed call is the contract that unwraps it: the delegation manager, or
/// the account itself where that is a Safe.
fn is_known_wrapper(
    payload: &SigningPayload,
    (sent, proposed): (&PayloadLeg, &PlanLeg),
    role: Option<KnownContract>,
) -> bool {
    match payload.kind() {
        AccountKind::Safe => safe::carries(sent, proposed, payload.account()),
        AccountKind::Delegated | AccountKind::LocalKey | AccountKind::DevelopmentKey | AccountKind::Embedded => {
            matches!(role, Some(KnownContract::DelegationManager | KnownContract::Eip7702Delegator))
        }
    }
}

fn contracts(
    payload: &SigningPayload,
    inputs: &CheckInputs,
    context: &PolicyContext<'_>,
    (vault, manages): (Option<VaultPlan>, Option<Address>),
    found: &mut Violations,
) {
    let rules = context.policy.rules();
    let proposal = payload.proposal();
    // The code of a deployment was compared byte by byte.
    let deploys = context.network.is_some_and(|network| hook_calls::plan(proposal, &network.book).is_some());
    let role = |address: Address| {
        let network = context.network?;
        network.book.contracts().find(|(_, at)| *at == address).map(|(contract, _)| contract)
    };
    if let Some((contract, at)) = payload.order().and_then(|order| settler(&order.message)) {
        let name = protocol(contract);
        if !rules.allowed_protocols.allows_by(false, |listed| listed.iter().any(|word| word.0 == name)) {
            found.add(RuleName::AllowedProtocols, rules.allowed_protocols.describe(), name, "an allowed protocol");
        }
        let settles = ContractRef { chain: ChainId(proposal.chain_id), address: at, selector: None };
        let listed = |listed: &std::collections::BTreeSet<ContractRef>| listed.contains(&settles);
        if !rules.allowed_contracts.allows_by(role(at) == Some(contract), listed) {
            found.add(RuleName::AllowedContracts, rules.allowed_contracts.describe(), settles, "an allowed contract");
        }
    }
    for (leg, sent) in proposal.legs.iter().zip(payload.legs()) {
        // A wrapped call goes to the contract that unwraps it; the simulation shows its effects.
        let wrapped = sent.to != leg.to;
        if wrapped && !is_known_wrapper(payload, (sent, leg), role(sent.to)) {
            found.add(
                RuleName::AllowedContracts,
                "a known wrapper around the call: the delegation manager, or the Safe itself".to_owned(),
                sent.to,
                "a known wrapper",
            );
        }
        let is_token = listed(payload, inputs, context, TokenId::Erc20(leg.to)).is_some_and(|listed| {
            let id = TokenRef { chain: ChainId(proposal.chain_id), token: TokenId::Erc20(leg.to) };
            rules.allowed_tokens.allows(&id, listed)
        });
        if leg.purpose == LegPurpose::Main {
            let is_vault = vault.map(|plan| plan.vault).or(manages) == Some(leg.to);
            let unlisted = || if is_vault { Some(VAULTS) } else { is_token.then_some("erc20") };
            let name = if deploys { Some("uniswap") } else { role(leg.to).map(protocol).or_else(unlisted) };
            let name = name.unwrap_or("unknown");
            if !rules.allowed_protocols.allows_by(false, |listed| listed.iter().any(|word| word.0 == name)) {
                found.add(RuleName::AllowedProtocols, rules.allowed_protocols.describe(), name, "an allowed protocol");
            }
        }
        if leg.data.is_empty() {
            // Only the native token moves, and its recipient is checked against the allowed recipients, at a repetition
            // when the original was signed.
            if !matches!(proposal.intent, ProposalIntent::Transfer | ProposalIntent::SpeedUp) {
                let value = format!("a call without a function to {}", leg.to);
                found.add(
                    RuleName::AllowedContracts,
                    "a known function".to_owned(),
                    value,
                    "a call that names its function",
                );
            }
            continue;
        }
        let selector = leg.data.get(..4).map(FixedBytes::<4>::from_slice);
        let called = ContractRef { chain: ChainId(proposal.chain_id), address: leg.to, selector };
        let has = |all: &[FixedBytes<4>]| selector.is_some_and(|selector| all.contains(&selector));
        // The form of a vault's call was decoded, and `check` says whether the vault is known.
        let known = role(leg.to).and_then(|role| SELECTORS.get(&role)).is_some_and(|all| has(all))
            || is_token && has(&TOKEN_SELECTORS)
            || leg.purpose == LegPurpose::Main && vault.map(|plan| plan.vault).or(manages) == Some(leg.to)
            || deploys;
        let whole = ContractRef { selector: None, ..called };
        let listed =
            |listed: &std::collections::BTreeSet<ContractRef>| listed.contains(&called) || listed.contains(&whole);
        if selector.is_none() || !rules.allowed_contracts.allows_by(known, listed) {
            found.add(
                RuleName::AllowedContracts,
                rules.allowed_contracts.describe(),
                called,
                "an allowed contract and function",
            );
        }
    }
}

fn parties(
    payload: &SigningPayload,
    context: &PolicyContext<'_>,
    (vault, manages): (Option<VaultPlan>, Option<Address>),
    found: &mut Violations,
) {
    let rules = context.policy.rules();
    let proposal = payload.proposal();
    let mut recipients: Vec<Address> = proposal.recipients.clone();
    recipients.extend(proposal.inflows.iter().map(|inflow| inflow.recipient));
    recipients.sort_unstable();
    recipients.dedup();
    for recipient in recipients.into_iter().map(Recipient) {
        if !rules.allowed_recipients.allows(&recipient, recipient.0 == payload.account()) {
            found.add(
                RuleName::AllowedRecipients,
                rules.allowed_recipients.describe(),
                recipient,
                "an allowed recipient",
            );
        }
    }
    for spender in grants::spenders(payload) {
        let known = context.network.is_some_and(|network| grants::known_spender(payload, &network.book, spender))
            || vault.map(|plan| plan.vault).or(manages) == Some(spender);
        let spender = Spender(spender);
        if !rules.allowed_spenders.allows(&spender, known) {
            found.add(RuleName::AllowedSpenders, rules.allowed_spenders.describe(), spender, "an allowed spender");
        }
    }
}

#[cfg(test)]
mod tests;
