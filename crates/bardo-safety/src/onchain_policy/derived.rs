//! PolicyCage rules derived from the operator's policy on one chain. Pure functions.
//!
//! | contract rule | source in the policy |
//! |---|---|
//! | `assets` | `allowed_tokens` with a price feed in the address book |
//! | `maxPerTransaction` of a stablecoin | the lowest limit per action: `max_single_trade_usd`, `spending_limits.per_transaction`, `token_caps` |
//! | `maxPerDay` of a stablecoin | the lowest limit per day: `max_daily_spend_usd`, `spending_limits.per_day`, `token_caps` |
//! | `calls` | `allowed_contracts`, by the functions that Bardo calls; plain sends to the listed `allowed_recipients`, or to anybody |
//! | `spenders` | `allowed_spenders` |
//! | `maxDrawdownBps`, `maxLossBps` | `stop_loss_pct`, `max_loss_bps`; unbounded if transfers or bridges are allowed |
//! | `minInterval` | `cooldown_seconds` |
//! | `maxPriceAge` | the longest age that Bardo itself accepts for one of these feeds |
//!
//! The contract limits raw amounts and cannot tell an exit from a purchase. Only stablecoins are limited: their amount
//! is their value, and their sale is never an exit. A limit on any other token would follow no price and could block an
//! exit.

use std::collections::BTreeSet;

use alloy::primitives::{Address, FixedBytes, U256};
use serde::Serialize;

use super::COIN_DECIMALS;
use crate::chain_snapshot::stables;
use crate::checks::token_allowlist::{book_functions, token_functions};
use crate::ledger::{CapPeriod, MicroUsd};
use crate::policy::{ChainId, ContractRef, ItemName, Policy, Recipient, Spender, TokenRef};
use crate::proposal::ProposalIntent;
use bardo_abi::policy_cage::PolicyCage::{AssetRule, CallRule, Rules};
use bardo_base::model::Phase;
use bardo_base::units::TokenAmount;
use golem_chain::network::{BookSpender, KnownContract, Network};
use golem_chain::price::feed_specs;
use golem_chain::token::TokenId;

/// Maximum number of assets that the contract stores rules for.
const MAX_ASSETS: usize = 32;
/// Decimals of [`MicroUsd`].
const MICRO_DECIMALS: u8 = 6;
/// Unlimited share, in basis points.
const UNBOUNDED_BPS: u16 = 10_000;

/// Rules derived from a policy for one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedRules {
    /// Rules in the contract's format.
    pub rules: Rules,
    /// Parts of the policy that the contract cannot enforce.
    pub gaps: Vec<UnenforcedRule>,
}

/// Part of the policy that the contract cannot enforce as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UnenforcedRule {
    /// The policy allows these tokens; the contract rejects them, since no feed prices them.
    Unpriced {
        /// Symbols of listed tokens, addresses of others.
        tokens: Vec<String>,
    },
    /// These fields of the policy allow anything; the contract rejects what its rules do not list.
    Unlisted {
        /// Names of the fields.
        fields: Vec<&'static str>,
    },
    /// The contract would count a transfer or a bridge as a loss, so it bounds neither loss nor drawdown.
    ValueMayLeave,
}

impl UnenforcedRule {
    /// Returns true if the contract rejects something that the policy allows.
    pub fn rejects_allowed(&self) -> bool {
        match self {
            Self::Unpriced { .. } | Self::Unlisted { .. } => true,
            Self::ValueMayLeave => false,
        }
    }
}

/// Reason why no rules can be derived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeriveError {
    /// The policy allows no token that has a feed.
    #[error(
        "no rules can be derived for {chain}: the policy allows no token with a price feed in the address book. Allow \
         one in allowed_tokens, or add its feed to the book"
    )]
    NoAsset {
        /// Name of the chain.
        chain: String,
    },
    /// The policy allows more tokens than the contract can store.
    #[error(
        "no rules can be derived for {chain}: the policy allows {found} tokens with a price feed, and the contract \
         takes {MAX_ASSETS}. List only the needed tokens in allowed_tokens"
    )]
    TooManyAssets {
        /// Name of the chain.
        chain: String,
        /// Number of allowed tokens with a feed.
        found: usize,
    },
}

/// Derives the contract's rules for the account `owner` from `policy`, on the chain of `network`.
///
/// # Errors
/// [`DeriveError`] if the policy allows no token with a feed on this chain, or more than the contract can store.
pub fn derive(policy: &Policy, network: &Network, owner: Address) -> Result<DerivedRules, DeriveError> {
    let mut gaps = Vec::new();
    let (assets, max_price_age) = assets(policy, network, &mut gaps)?;
    let (calls, spenders) = (calls(policy, network, owner, &assets), spenders(policy, network));
    let written = policy.rules();
    let fields = [
        ("allowed_tokens", written.allowed_tokens.is_all()),
        ("allowed_contracts", written.allowed_contracts.is_all()),
        ("allowed_spenders", written.allowed_spenders.is_all()),
    ];
    let fields: Vec<&str> = fields.into_iter().filter_map(|(field, all)| all.then_some(field)).collect();
    if !fields.is_empty() {
        gaps.push(UnenforcedRule::Unlisted { fields });
    }
    let allows = |intent: ProposalIntent| {
        written.allowed_intent_types.allows_by(false, |listed| listed.contains(&ItemName(intent.as_str().to_owned())))
    };
    let leaves = allows(ProposalIntent::Transfer) || allows(ProposalIntent::Bridge);
    if leaves {
        gaps.push(UnenforcedRule::ValueMayLeave);
    }
    let bounded = |points: u32| match leaves {
        true => UNBOUNDED_BPS,
        false => u16::try_from(points).unwrap_or(UNBOUNDED_BPS).min(UNBOUNDED_BPS),
    };
    let rules = Rules {
        assets,
        calls,
        spenders,
        maxDrawdownBps: bounded(written.stop_loss_pct.0.get()),
        maxLossBps: bounded(written.max_loss_bps.0.get()),
        minInterval: u32::try_from(written.cooldown_seconds.0).unwrap_or(u32::MAX),
        maxPriceAge: max_price_age,
    };
    Ok(DerivedRules { rules, gaps })
}

/// Returns the rules of the allowed tokens, the native token first, and the maximum price age in seconds.
fn assets(
    policy: &Policy,
    network: &Network,
    gaps: &mut Vec<UnenforcedRule>,
) -> Result<(Vec<AssetRule>, u32), DeriveError> {
    let (chain, book) = (ChainId(network.chain_id), &network.book);
    let allowed = &policy.rules().allowed_tokens;
    let (specs, stables) = (feed_specs(network), stables(network));
    let wrapped = book.contract(KnownContract::WrappedNative);
    let mut tokens: Vec<(Address, u8, String)> = vec![(Address::ZERO, COIN_DECIMALS, network.native_symbol.to_owned())];
    tokens.extend(book.tokens().iter().map(|token| (token.address, token.decimals, token.symbol.clone())));
    if let Some(wrapped) = wrapped.filter(|wrapped| tokens.iter().all(|(token, _, _)| token != wrapped)) {
        tokens.push((wrapped, COIN_DECIMALS, format!("W{}", network.native_symbol)));
    }
    let listed: Vec<Address> = tokens.iter().map(|(token, _, _)| *token).collect();
    let (mut rules, mut unpriced, mut age) = (Vec::new(), Vec::new(), 0);
    for (token, decimals, symbol) in tokens {
        let id = if token.is_zero() { TokenId::Native } else { TokenId::Erc20(token) };
        if !allowed.allows(&TokenRef { chain, token: id }, true) {
            continue;
        }
        // The native token has the feed of its wrapping token.
        let priced = if token.is_zero() { wrapped } else { Some(token) };
        let Some(spec) = specs.iter().find(|spec| Some(spec.token) == priced) else {
            unpriced.push(symbol);
            continue;
        };
        age = age.max(spec.max_age().as_secs());
        let stable = stables.contains(&token);
        let (once, day) = if stable { limits(policy, chain, id) } else { (None, None) };
        let raw = |limit: Option<MicroUsd>| limit.map_or(u128::MAX, |limit| raw(limit, decimals));
        rules.push(AssetRule {
            token,
            feed: spec.address,
            exit: stable || token.is_zero() || Some(token) == wrapped,
            maxPerTransaction: raw(once),
            maxPerDay: raw(day),
            maxPosition: u128::MAX,
        });
    }
    let named = allowed.listed.iter().flatten().filter(|one| one.chain == chain);
    unpriced.extend(named.filter_map(|one| match one.token {
        TokenId::Erc20(address) if !listed.contains(&address) => Some(address.to_string()),
        TokenId::Erc20(_) | TokenId::Native => None,
    }));
    if !unpriced.is_empty() {
        gaps.push(UnenforcedRule::Unpriced { tokens: unpriced });
    }
    match rules.len() {
        0 => Err(DeriveError::NoAsset { chain: network.name.clone() }),
        found if found > MAX_ASSETS => Err(DeriveError::TooManyAssets { chain: network.name.clone(), found }),
        _ => Ok((rules, u32::try_from(age).unwrap_or(u32::MAX))),
    }
}

/// Returns a token's lowest limits per action and per day, without the reduction by a phase.
fn limits(policy: &Policy, chain: ChainId, token: TokenId) -> (Option<MicroUsd>, Option<MicroUsd>) {
    let caps = policy.caps(Phase::Thriving, true);
    let of_token = caps.tokens.get(&(chain.0, token)).copied();
    let of_all = |span: CapPeriod| caps.spend.iter().filter(move |cap| cap.span == span).map(|cap| cap.limit);
    let once = of_all(CapPeriod::Once).chain(of_token.and_then(|caps| caps.once)).min();
    let day = of_all(CapPeriod::Day).chain(of_token.and_then(|caps| caps.day)).min();
    (once, day)
}

/// Converts dollars into raw units of a stablecoin, rounded down. The result is below `u128::MAX`, which means no
/// limit.
fn raw(limit: MicroUsd, decimals: u8) -> u128 {
    let scale = |places: u8| U256::from(10).checked_pow(U256::from(places));
    let raw = scale(decimals).and_then(|scale| U256::from(limit.get()).checked_mul(scale));
    let raw = raw.zip(scale(MICRO_DECIMALS)).map(|(raw, micros)| raw / micros);
    raw.and_then(|raw| u128::try_from(raw).ok()).unwrap_or(u128::MAX).min(u128::MAX - 1)
}

/// Returns the functions that may be called, without duplicates.
fn calls(policy: &Policy, network: &Network, owner: Address, assets: &[AssetRule]) -> Vec<CallRule> {
    let (chain, book, written) = (ChainId(network.chain_id), &network.book, policy.rules());
    let tokens = assets.iter().map(|asset| asset.token).filter(|token| !token.is_zero());
    let of_tokens = tokens.flat_map(|token| token_functions().iter().map(move |selector| (token, *selector)));
    let known = book_functions(book).chain(of_tokens).filter(|(address, selector)| {
        let called = ContractRef { chain, address: *address, selector: Some(*selector) };
        let whole = ContractRef { selector: None, ..called };
        let listed = |listed: &BTreeSet<ContractRef>| listed.contains(&called) || listed.contains(&whole);
        written.allowed_contracts.allows_by(true, listed)
    });
    let named = written.allowed_contracts.listed.iter().flatten().filter(|one| one.chain == chain);
    // The zero selector means a plain send in the contract's rules, and no function.
    let named = named.filter_map(|one| Some((one.address, one.selector.filter(|selector| !selector.is_zero())?)));
    // The zero address stands for anybody.
    let anybody = written.allowed_recipients.is_all().then_some(Address::ZERO);
    let recipients = written.allowed_recipients.listed.iter().flatten().map(|one: &Recipient| one.0);
    let recipients: Vec<Address> = recipients.filter(|recipient| !recipient.is_zero()).chain(anybody).collect();
    let transfers = written
        .allowed_intent_types
        .allows_by(false, |listed| listed.contains(&ItemName(ProposalIntent::Transfer.as_str().to_owned())));
    let sends = recipients.into_iter().filter(|_| transfers).map(|recipient| (recipient, FixedBytes::ZERO));
    // The contract rejects a rule that would let a delegate change the rules, pass on the delegation, or call the
    // account itself.
    let [cage, manager] =
        [KnownContract::PolicyCage, KnownContract::DelegationManager].map(|contract| book.contract(contract));
    let never = [cage, manager, Some(owner)];
    let all: BTreeSet<(Address, FixedBytes<4>)> =
        known.chain(named).chain(sends).filter(|(target, _)| !never.contains(&Some(*target))).collect();
    all.into_iter().map(|(target, selector)| CallRule { target, selector }).collect()
}

/// Returns the spenders that may be approved.
fn spenders(policy: &Policy, network: &Network) -> Vec<Address> {
    let (book, allowed) = (&network.book, &policy.rules().allowed_spenders);
    let known = book.contracts().map(|(_, address)| address);
    let known = known.filter(|address| matches!(book.spender(*address), BookSpender::Takes(_)));
    let known = known.filter(|address| allowed.allows(&Spender(*address), true));
    let all: BTreeSet<Address> = known.chain(allowed.listed.iter().flatten().map(|one| one.0)).collect();
    all.into_iter().collect()
}

/// Difference between the rules on chain and the rules derived from the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleDifference {
    /// Name of the rule in the contract.
    pub rule: &'static str,
    /// Subject: a token, a function or a spender; `None` for a rule of the whole account.
    pub of: Option<String>,
    /// Value on chain; `None` if the rule does not exist there.
    pub on_chain: Option<String>,
    /// Value by the policy; `None` if the policy has no such rule.
    pub by_policy: Option<String>,
}

/// Returns every rule in which `on_chain` differs from `by_policy`. Their order does not matter.
pub fn differences(network: &Network, on_chain: &Rules, by_policy: &Rules) -> Vec<RuleDifference> {
    let mut found = Vec::new();
    let mut differs = |rule, of: Option<String>, on_chain: Option<String>, by_policy: Option<String>| {
        if on_chain != by_policy {
            found.push(RuleDifference { rule, of, on_chain, by_policy });
        }
    };
    let find = |rules: &Rules, token: Address| rules.assets.iter().find(|asset| asset.token == token).cloned();
    let tokens: BTreeSet<Address> = on_chain.assets.iter().chain(&by_policy.assets).map(|asset| asset.token).collect();
    for token in tokens {
        let (chain, policy) = (find(on_chain, token), find(by_policy, token));
        let of = Some(symbol(network, token));
        let Some((chain, policy)) = chain.clone().zip(policy.clone()) else {
            let has = |asset: Option<AssetRule>| asset.map(|_| "allowed".to_owned());
            differs("assets", of, has(chain), has(policy));
            continue;
        };
        let each = |asset: &AssetRule| {
            [
                ("feed", asset.feed.to_string()),
                ("exit", asset.exit.to_string()),
                ("maxPerTransaction", amount(network, token, asset.maxPerTransaction)),
                ("maxPerDay", amount(network, token, asset.maxPerDay)),
                ("maxPosition", amount(network, token, asset.maxPosition)),
            ]
        };
        for ((rule, chain), (_, policy)) in each(&chain).into_iter().zip(each(&policy)) {
            differs(rule, of.clone(), Some(chain), Some(policy));
        }
    }
    let calls = |rules: &Rules| rules.calls.iter().map(|call| (call.target, call.selector)).collect::<BTreeSet<_>>();
    let (chain, policy) = (calls(on_chain), calls(by_policy));
    for (target, selector) in chain.symmetric_difference(&policy) {
        let name = network.book.name_of(*target).map_or_else(|| target.to_string(), |name| format!("{name} {target}"));
        let what = match (selector.is_zero(), target.is_zero()) {
            (true, true) => "plain transfers to any address".to_owned(),
            (true, false) => format!("plain transfers to {name}"),
            (false, _) => format!("{selector} of {name}"),
        };
        let has = |set: &BTreeSet<_>| set.contains(&(*target, *selector)).then(|| "allowed".to_owned());
        differs("calls", Some(what), has(&chain), has(&policy));
    }
    let spenders = |rules: &Rules| rules.spenders.iter().copied().collect::<BTreeSet<Address>>();
    let (chain, policy) = (spenders(on_chain), spenders(by_policy));
    for spender in chain.symmetric_difference(&policy) {
        let name =
            network.book.name_of(*spender).map_or_else(|| spender.to_string(), |name| format!("{name} {spender}"));
        let has = |set: &BTreeSet<Address>| set.contains(spender).then(|| "allowed".to_owned());
        differs("spenders", Some(name), has(&chain), has(&policy));
    }
    for (rule, chain, policy, unit) in [
        ("maxDrawdownBps", u32::from(on_chain.maxDrawdownBps), u32::from(by_policy.maxDrawdownBps), "bps"),
        ("maxLossBps", u32::from(on_chain.maxLossBps), u32::from(by_policy.maxLossBps), "bps"),
        ("minInterval", on_chain.minInterval, by_policy.minInterval, "s"),
        ("maxPriceAge", on_chain.maxPriceAge, by_policy.maxPriceAge, "s"),
    ] {
        differs(rule, None, Some(format!("{chain} {unit}")), Some(format!("{policy} {unit}")));
    }
    found
}

fn symbol(network: &Network, token: Address) -> String {
    super::symbol(network, token).map_or_else(|| token.to_string(), |symbol| symbol.to_string())
}

/// Formats a limit in whole tokens.
pub fn amount(network: &Network, token: Address, raw: u128) -> String {
    if raw == u128::MAX {
        return "no limit".to_owned();
    }
    let listed = network.book.token_at(token).map(|listed| listed.decimals);
    let decimals = if token.is_zero() { Some(COIN_DECIMALS) } else { listed };
    match decimals.and_then(|decimals| TokenAmount::new(U256::from(raw), decimals).ok()) {
        Some(amount) => format!("{amount} {}", symbol(network, token)),
        None => format!("{raw} smallest units"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use alloy::primitives::{address, fixed_bytes};

    use super::*;
    use crate::policy::parse;
    use golem_chain::network::by_id;

    /// Circle's USDC and the canonical WETH on Ethereum.
    const USDC: Address = address!("A0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48");
    const WETH: Address = address!("C02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2");
    /// Account that the rules are for.
    const OWNER: Address = Address::repeat_byte(0x0e);
    /// A possible recipient, and a token without a feed.
    const FRIEND: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
    const UNFED: Address = address!("3C44CdDdB6a900fa2b585dd299e03d12FA4293BC");

    fn derived(lines: &str) -> Result<DerivedRules, DeriveError> {
        let text = format!("preset = \"defi-trading\"\nallowed_chains = [\"ethereum\"]\n{lines}");
        let policy = parse(&text, Path::new("policy.toml")).unwrap();
        derive(&policy, by_id(1).unwrap(), OWNER)
    }

    fn tokens(all: &[&str]) -> String {
        let all: Vec<String> = all.iter().map(|one| format!("\"ethereum:{one}\"")).collect();
        format!("allowed_tokens = [{}]\n", all.join(", "))
    }

    #[test]
    fn each_rule_follows_from_its_field() {
        let traded = tokens(&["native", &USDC.to_string(), &WETH.to_string()]);
        let DerivedRules { rules, gaps } = derived(&format!(
            "{traded}allowed_intent_types = [\"swap\", \"approve\", \"revoke\"]\nmax_single_trade_usd = \"2000\"\n\
             stop_loss_pct = \"5\"\nmax_loss_bps = 150\ncooldown_seconds = 60\n\
             token_caps = {{ \"ethereum:{USDC}\" = {{ max_single_usd = \"250.5\" }} }}\n"
        ))
        .unwrap();
        let shares = (rules.maxDrawdownBps, rules.maxLossBps, rules.minInterval);
        assert_eq!((shares, gaps), ((500, 150, 60), vec![]));
        let of = |token: Address| rules.assets.iter().find(|asset| asset.token == token).unwrap();
        // The lower of 2,000 and 250.50 dollars per action, and the preset's 50,000 per day, with six decimals.
        let usdc = of(USDC);
        assert_eq!((usdc.maxPerTransaction, usdc.maxPerDay, usdc.exit), (250_500_000, 50_000_000_000, true));
        // A token whose sale could be an exit has no limit.
        for token in [Address::ZERO, WETH] {
            let asset = of(token);
            let limits = [asset.maxPerTransaction, asset.maxPerDay, asset.maxPosition];
            assert_eq!((limits, asset.exit, asset.feed), ([u128::MAX; 3], true, of(WETH).feed), "{token}");
        }
        assert_eq!(rules.assets.len(), 3);
        // `approve(address,uint256)` of each allowed token; no other token and no plain send.
        let approve = fixed_bytes!("095ea7b3");
        let approved: Vec<Address> =
            rules.calls.iter().filter(|call| call.selector == approve).map(|call| call.target).collect();
        assert_eq!(approved, [USDC, WETH]);
        assert!(rules.calls.iter().all(|call| !call.selector.is_zero()));
    }

    #[test]
    fn rules_the_contract_cannot_enforce_are_reported() {
        let traded = tokens(&["native", &USDC.to_string(), &UNFED.to_string()]);
        let DerivedRules { rules, gaps } = derived(&format!("{traded}allowed_recipients = \"all\"\n")).unwrap();
        let unpriced = UnenforcedRule::Unpriced { tokens: vec![UNFED.to_string()] };
        assert_eq!(gaps, [unpriced.clone(), UnenforcedRule::ValueMayLeave]);
        assert_eq!((rules.maxDrawdownBps, rules.maxLossBps), (10_000, 10_000));
        assert!(gaps[0].rejects_allowed() && !gaps[1].rejects_allowed());
        assert_eq!(derived(&tokens(&[&UNFED.to_string()])), Err(DeriveError::NoAsset { chain: "ethereum".to_owned() }));
        // A field that allows anything names no entries.
        let any =
            derived("allowed_tokens = \"all\"\nallowed_contracts = \"all\"\nallowed_spenders = \"all\"\n").unwrap();
        let unlisted =
            UnenforcedRule::Unlisted { fields: vec!["allowed_tokens", "allowed_contracts", "allowed_spenders"] };
        assert!(any.gaps.contains(&unlisted) && unlisted.rejects_allowed(), "{:?}", any.gaps);
    }

    /// The native token can be sent to named recipients, to anybody, or to nobody, as the policy says.
    #[test]
    fn plain_sends_follow_the_recipients() {
        let traded = tokens(&["native", &USDC.to_string()]);
        let sends = |lines: &str| -> Vec<Address> {
            let rules = derived(&format!("{traded}{lines}")).unwrap().rules;
            rules.calls.iter().filter(|call| call.selector.is_zero()).map(|call| call.target).collect()
        };
        let (zero, anybody) = (Address::ZERO, "allowed_recipients = \"all\"\n");
        // The contract takes no rule for the account itself.
        assert_eq!(sends(&format!("allowed_recipients = [\"{FRIEND}\", \"{OWNER}\"]\n")), [FRIEND]);
        // A recipient that is named as the zero address is not everybody.
        assert_eq!(sends(&format!("allowed_recipients = [\"{FRIEND}\", \"{zero}\"]\n")), [FRIEND]);
        assert_eq!(sends(anybody), [zero]);
        assert_eq!(sends(""), [] as [Address; 0]);
        assert_eq!(sends(&format!("{anybody}allowed_intent_types = [\"swap\"]\n")), [] as [Address; 0]);
        // Nor is a function whose selector is zero a plain send.
        assert_eq!(sends(&format!("allowed_contracts = [\"ethereum:{zero}:0x00000000\"]\n")), [] as [Address; 0]);
    }

    #[test]
    fn rules_agree_in_any_order_and_differ_by_name() {
        let network = by_id(1).unwrap();
        let traded = tokens(&["native", &USDC.to_string(), &WETH.to_string()]);
        let set = derived(&traded).unwrap().rules;
        let mut other = set.clone();
        other.assets.reverse();
        other.calls.reverse();
        other.spenders.reverse();
        assert_eq!(differences(network, &other, &set), []);
        other.minInterval += 1;
        other.spenders.pop();
        other.assets.retain(|asset| asset.token != WETH);
        let differ: Vec<_> = differences(network, &other, &set).into_iter().map(|one| (one.rule, one.of)).collect();
        assert_eq!(differ.len(), 3);
        assert_eq!(differ[0], ("assets", Some("WETH".to_owned())));
        assert_eq!((differ[1].0, differ[2].0), ("spenders", "minInterval"));
    }
}
