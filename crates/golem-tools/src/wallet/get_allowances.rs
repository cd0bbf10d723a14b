//! `get_allowances`: every allowance that an account has granted, found in the chain's logs, with what it could cost.
//!
//! Logs only say where to look: every amount is read from the token's and Permit2's state. Anyone can make a token of
//! their own that claims an approval by the account; such tokens have no price and come last.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use alloy::providers::bindings::IMulticall3;
use alloy::rpc::types::{Filter, Log};
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply};
use crate::shared::invalid;
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::{counted, dollars};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_chain::provider::ProviderError;
use golem_chain::token::{self, TokenInfo};

/// Definition of the `get_allowances` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetAllowances>();

/// Maximum number of pairs of token and spender that are read. Spam tokens can claim any number of approvals.
const MOST_PAIRS: usize = 400;
/// Pairs of contracts outside the address book that are read in one request, and the number of failed requests after
/// which the rest of them is left unread.
const PAIRS_OF_STRANGERS: usize = 25;
const MOST_FAILED: usize = 40;

/// Blocks per request and maximum number of requests, for an endpoint that does not search the whole chain at once.
const BLOCKS_AT_ONCE: u64 = 10_000;
const MOST_REQUESTS: u64 = 20;

/// Bit length from which an allowance is unlimited in practice: no token has that many units.
const UNLIMITED_BITS: usize = 160;

/// Parameters of `get_allowances`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id.
    chain: String,
    /// Owner of the tokens, as a 0x address; defaults to the wallet's account.
    #[serde(default)]
    account: Option<String>,
    /// First block to search; defaults to the chain's first one, or as far back as the endpoint answers.
    #[serde(default)]
    from_block: Option<u64>,
}

/// Result of `get_allowances`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Address of the owner.
    account: String,
    /// First block that was searched for approvals.
    searched_from_block: u64,
    /// Last block that was searched for approvals.
    searched_to_block: u64,
    /// True if the whole requested range was searched and every allowance of a listed token in it could be read.
    complete: bool,
    /// Number of approvals that could not be read, claimed by contracts outside the address book: such a contract may be
    /// no token, or answer nothing on purpose.
    unread_of_strangers: usize,
    /// Dollars that spenders could take now, counting each token's balance once; tokens without a price are left out.
    value_at_risk_usd: String,
    /// Allowances above zero that have not expired, largest value at risk first.
    allowances: Vec<AllowanceRow>,
}

/// Allowance that is in force, with what it could cost now.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct AllowanceRow {
    /// Symbol of a listed token; otherwise its address.
    token: String,
    /// Address of the token.
    token_address: String,
    /// Address of the spender.
    spender: String,
    /// Name of the spender in the address book; absent for an unknown contract.
    spender_label: Option<String>,
    /// Contract that keeps the allowance: `token` or `permit2`.
    kept_by: &'static str,
    /// Allowed amount in whole tokens.
    allowance: String,
    /// True if the allowance exceeds any possible balance.
    unlimited: bool,
    /// Expiry in seconds since the Unix epoch; absent for an allowance of the token itself, which never expires.
    expires_at: Option<u64>,
    /// Amount that the spender could take now, in whole tokens.
    at_risk: String,
    /// Value of that amount in dollars; absent without a price.
    at_risk_usd: Option<String>,
}

/// Implementation of `get_allowances`; see [`TOOL_DEF`].
pub struct GetAllowances;

impl ReadTool for GetAllowances {
    const META: ToolMeta = ToolMeta {
        name: "get_allowances",
        description: "Lists every ERC-20 and Permit2 allowance that the wallet or another account has granted, found in \
                      the chain's logs and read from its state: token, spender, amount, expiry, and what the spender \
                      could take now, in dollars.",
        category: Category::Wallet,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Searching logs", "Reading allowances", "Reading prices"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "All allowances of the wallet with the value at risk. Revoke with token_revoke what no planned \
                         action needs.",
        prompt_guidelines: Guidelines {
            thriving: "Check now and then, and revoke with token_revoke what is left over.",
            cautious: "Check daily, and revoke with token_revoke every unlimited allowance.",
            declining: "Check, and revoke with token_revoke everything that no exit needs.",
            terminal: "Check after the last exit, and revoke everything with token_revoke.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain", "account"],
        summary_fields: &["value_at_risk_usd", "complete"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let owner = context.world.account(params.account.as_deref())?;
        context.step("Searching logs");
        let found = search(chain, owner, params.from_block).await?;
        context.step("Reading allowances");
        let (granted, unread) = read(chain, owner, &found).await?;
        context.step("Reading prices");
        let (rows, total) = valued(chain, &granted).await?;
        let complete = found.complete && !unread.listed;
        let mut explanation = match rows.len() {
            0 => "No allowances were found.".to_owned(),
            1 => format!("1 allowance puts {} at risk.", dollars(total)),
            count => format!("{count} allowances put {} at risk.", dollars(total)),
        };
        if !complete {
            explanation.push_str(&format!(
                " The list may be incomplete: blocks {} to {} were searched.",
                found.from_block, found.to_block
            ));
        }
        if unread.others > 0 {
            explanation.push_str(&format!(
                " {} that contracts outside the address book claim could not be read.",
                counted(unread.others as u64, "approval", "approvals")
            ));
        }
        let output = Output {
            chain: chain.network().name.clone(),
            account: owner.to_string(),
            searched_from_block: found.from_block,
            searched_to_block: found.to_block,
            complete,
            unread_of_strangers: unread.others,
            value_at_risk_usd: total.to_string(),
            allowances: rows,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Pairs of token and spender that logs name, and the range of blocks that was searched.
struct FoundApprovals {
    of_token: BTreeSet<(Address, Address)>,
    of_permit2: BTreeSet<(Address, Address)>,
    from_block: u64,
    to_block: u64,
    complete: bool,
}

/// Searches the logs for approvals by `owner`, backwards from the newest block. If the endpoint refuses the whole range,
/// the search goes on in smaller parts until their limit.
///
/// # Errors
/// `VALIDATION_FAILED` for a first block after the newest one, and the errors of the chain.
async fn search(chain: &ConnectedChain, owner: Address, from: Option<u64>) -> Result<FoundApprovals, ToolError> {
    let provider = chain.client.agreed();
    let newest = provider.get_block_number().await.map_err(ProviderError::from)?;
    let first = from.unwrap_or(0);
    if first > newest {
        let what = format_args!("{first} is after the newest block; use at most {newest}");
        return Err(invalid("from_block", &what));
    }
    let mut found = FoundApprovals {
        of_token: BTreeSet::new(),
        of_permit2: BTreeSet::new(),
        from_block: first,
        to_block: newest,
        complete: true,
    };
    match logs(chain, owner, (first, newest)).await {
        Ok(logs) => collect(chain, owner, logs, &mut found),
        // Endpoints limit the range of blocks with this error; any other cause comes again below.
        Err(ProviderError::Rpc { .. }) if newest - first >= BLOCKS_AT_ONCE => {
            let mut end = newest;
            found.from_block = newest;
            for _ in 0..MOST_REQUESTS {
                let begin = end.saturating_sub(BLOCKS_AT_ONCE - 1).max(first);
                let part = logs(chain, owner, (begin, end)).await?;
                collect(chain, owner, part, &mut found);
                found.from_block = begin;
                if begin == first {
                    break;
                }
                end = begin - 1;
            }
            found.complete = found.from_block == first;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(found)
}

/// Approval events by `owner` within a range of blocks: of any token, and of Permit2.
async fn logs(chain: &ConnectedChain, owner: Address, (first, last): (u64, u64)) -> Result<Vec<Log>, ProviderError> {
    let events: Vec<B256> =
        vec![Erc20::Approval::SIGNATURE_HASH, Permit2::Approval::SIGNATURE_HASH, Permit2::Permit::SIGNATURE_HASH];
    let filter = Filter::new().from_block(first).to_block(last).event_signature(events).topic1(owner.into_word());
    chain.client.agreed().get_logs(&filter).await.map_err(ProviderError::from)
}

fn collect(chain: &ConnectedChain, owner: Address, logs: Vec<Log>, found: &mut FoundApprovals) {
    let permit2 = chain.network().book.contract(KnownContract::Permit2);
    for log in logs {
        if Some(log.address()) == permit2 {
            let pair = match Permit2::Approval::decode_log(&log.inner) {
                Ok(event) => Some((event.data.owner, event.data.token, event.data.spender)),
                Err(_) => Permit2::Permit::decode_log(&log.inner)
                    .ok()
                    .map(|event| (event.data.owner, event.data.token, event.data.spender)),
            };
            if let Some((_, token, spender)) = pair.filter(|(of, _, _)| *of == owner) {
                found.of_permit2.insert((token, spender));
            }
        // An approval of an NFT has one more topic, and does not decode.
        } else if let Ok(event) = Erc20::Approval::decode_log(&log.inner)
            && event.data.owner == owner
        {
            found.of_token.insert((log.address(), event.data.spender));
        }
    }
}

/// Allowance that is in force.
struct GrantedAllowance {
    token: Address,
    spender: Address,
    amount: U256,
    /// Expiry of a Permit2 allowance.
    expires_at: Option<u64>,
    /// Amount that the spender could take now.
    at_risk: U256,
}

/// Allowances in force, with the owner's balance of each token.
struct Granted {
    allowances: Vec<GrantedAllowance>,
    balances: BTreeMap<Address, U256>,
}

/// Pair of token and spender, and the contract that keeps its allowance.
#[derive(Debug, Clone, Copy)]
struct Pair {
    token: Address,
    spender: Address,
    in_permit2: bool,
}

/// State of a pair: the owner's balance, the allowance, its expiry, and what the token lets Permit2 take.
struct PairState {
    balance: U256,
    amount: U256,
    expires_at: Option<u64>,
    ceiling: U256,
}

/// Reads the allowances of the pairs, and drops those of zero and the expired ones. Returns them with the number of
/// pairs that could not be read, and whether one of a listed token is among those.
///
/// Anyone can claim an approval by the account, in a contract that uses up the gas of a whole request or returns
/// megabytes. Listed tokens are therefore read in a request of their own, and of the others only single contracts fail.
async fn read(chain: &ConnectedChain, owner: Address, found: &FoundApprovals) -> Result<(Granted, Unread), ToolError> {
    let book = &chain.network().book;
    let listed = |pair: &Pair| book.tokens().iter().any(|known| known.address == pair.token);
    let of = |pairs: &BTreeSet<(Address, Address)>, in_permit2: bool| {
        pairs.iter().map(|(token, spender)| Pair { token: *token, spender: *spender, in_permit2 }).collect::<Vec<_>>()
    };
    let all = [of(&found.of_token, false), of(&found.of_permit2, true)].concat();
    let (known, mut other): (Vec<_>, Vec<_>) = all.into_iter().partition(listed);
    let mut unread = Unread { listed: known.len() > MOST_PAIRS, others: 0 };
    let known = known.get(..MOST_PAIRS).unwrap_or(&known);
    unread.others = other.len().saturating_sub(MOST_PAIRS);
    other.truncate(MOST_PAIRS);

    let (now, states) = read_states(chain, owner, known).await?;
    let mut granted = Granted { allowances: Vec::new(), balances: BTreeMap::new() };
    for (pair, state) in known.iter().zip(states) {
        match state {
            Some(state) => granted.add(pair, &state, now),
            None => unread.listed = true,
        }
    }
    let mut waiting: Vec<&[Pair]> = other.chunks(PAIRS_OF_STRANGERS).rev().collect();
    let mut failed = 0;
    while let Some(group) = waiting.pop() {
        let states = match read_states(chain, owner, group).await {
            Ok((_, states)) => states,
            // A contract spoils the request for its neighbours: they are read apart.
            Err(_) if group.len() > 1 => {
                failed += 1;
                let (first, second) = group.split_at(group.len() / 2);
                waiting.extend([second, first]);
                continue;
            }
            Err(_) => {
                failed += 1;
                vec![None]
            }
        };
        for (pair, state) in group.iter().zip(states) {
            match state {
                Some(state) => granted.add(pair, &state, now),
                None => unread.others += 1,
            }
        }
        if failed == MOST_FAILED {
            unread.others += waiting.drain(..).map(<[Pair]>::len).sum::<usize>();
        }
    }
    Ok((granted, unread))
}

/// Pairs that were not read.
struct Unread {
    /// True if one of a listed token is among them.
    listed: bool,
    /// Number of those of other contracts.
    others: usize,
}

impl Granted {
    fn add(&mut self, pair: &Pair, state: &PairState, now: u64) {
        self.balances.insert(pair.token, state.balance);
        let in_force = state.expires_at.is_none_or(|expires| expires > now);
        if !state.amount.is_zero() && in_force {
            let at_risk = state.amount.min(state.ceiling).min(state.balance);
            let (token, spender, amount) = (pair.token, pair.spender, state.amount);
            self.allowances.push(GrantedAllowance { token, spender, amount, expires_at: state.expires_at, at_risk });
        }
    }
}

/// Reads pairs in one request; `None` for a pair whose contracts do not answer. Also returns the chain's time, in seconds
/// since the Unix epoch.
async fn read_states(
    chain: &ConnectedChain,
    owner: Address,
    pairs: &[Pair],
) -> Result<(u64, Vec<Option<PairState>>), ToolError> {
    let permit2 = chain.network().book.contract(KnownContract::Permit2);
    let mut calls = CallBatch::default();
    let time = calls.push(chain.contract(KnownContract::Multicall3)?, &IMulticall3::getCurrentBlockTimestampCall {});
    let asked: Vec<_> = pairs
        .iter()
        .map(|pair| {
            let balance = calls.push(pair.token, &Erc20::balanceOfCall { owner });
            let spender = if pair.in_permit2 { permit2.unwrap_or_default() } else { pair.spender };
            let direct = calls.push(pair.token, &Erc20::allowanceCall { owner, spender });
            let inside = permit2.filter(|_| pair.in_permit2).map(|permit2| {
                calls.push(permit2, &Permit2::allowanceCall { owner, token: pair.token, spender: pair.spender })
            });
            (balance, direct, inside)
        })
        .collect();
    let answers = chain.ask(calls).await?;
    let now: u64 = time.take(&answers).map(|time| time.saturating_to()).ok_or_else(|| {
        ToolError::new(ErrorCode::ChainInconsistent, format_args!("{} does not return its time", chain.network()))
    })?;
    let states = asked.into_iter().map(|(balance, direct, inside)| {
        let (balance, ceiling) = (balance.take(&answers)?, direct.take(&answers)?);
        Some(match inside {
            Some(inside) => {
                let granted = inside.take(&answers)?;
                let expires_at = Some(granted.expiration.to::<u64>());
                PairState { balance, amount: U256::from(granted.amount), expires_at, ceiling }
            }
            None => PairState { balance, amount: ceiling, expires_at: None, ceiling },
        })
    });
    Ok((now, states.collect()))
}

/// Rows with dollar values, and the total at risk.
async fn valued(chain: &ConnectedChain, granted: &Granted) -> Result<(Vec<AllowanceRow>, Usd), ToolError> {
    let network = chain.network();
    let tokens: Vec<Address> =
        granted.allowances.iter().map(|one| one.token).collect::<BTreeSet<_>>().into_iter().collect();
    if tokens.is_empty() {
        return Ok((Vec::new(), Usd::ZERO));
    }
    let (infos, reports) =
        futures::join!(token::read(&tokens, network, chain.client.agreed()), chain.prices.prices(&tokens));
    let infos: BTreeMap<Address, TokenInfo> =
        tokens.iter().copied().zip(infos?).filter_map(|(token, info)| Some((token, info.ok()?))).collect();
    let prices: BTreeMap<Address, Usd> = tokens
        .iter()
        .copied()
        .zip(reports.iter())
        .filter_map(|(token, report)| Some((token, report.price.as_ref()?.usd)))
        .collect();
    let worth = |token: &Address, raw: U256| {
        let amount = TokenAmount::new(raw, infos.get(token)?.decimals).ok()?;
        Usd::value_of(amount, *prices.get(token)?, Rounding::Up).ok()
    };
    let mut rows: Vec<(Option<Usd>, AllowanceRow)> = granted
        .allowances
        .iter()
        .map(|one| {
            let info = infos.get(&one.token);
            let whole = |raw: U256| {
                let amount = info.and_then(|info| TokenAmount::new(raw, info.decimals).ok());
                amount.map_or_else(|| raw.to_string(), |amount| amount.to_string())
            };
            let value = worth(&one.token, one.at_risk);
            let symbol = info.filter(|info| info.listed).map(|info| info.symbol.to_string());
            let row = AllowanceRow {
                token: symbol.unwrap_or_else(|| one.token.to_string()),
                token_address: one.token.to_string(),
                spender: one.spender.to_string(),
                spender_label: network.book.name_of(one.spender),
                kept_by: if one.expires_at.is_some() { "permit2" } else { "token" },
                allowance: whole(one.amount),
                unlimited: one.amount.bit_len() >= UNLIMITED_BITS,
                expires_at: one.expires_at,
                at_risk: whole(one.at_risk),
                at_risk_usd: value.map(|value| value.to_string()),
            };
            (value, row)
        })
        .collect();
    rows.sort_by(|(left, one), (right, other)| right.cmp(left).then_with(|| one.token.cmp(&other.token)));
    // What Permit2 lets others take is part of what the token lets Permit2 take, so only the token's own count.
    let mut taken: BTreeMap<Address, U256> = BTreeMap::new();
    for one in granted.allowances.iter().filter(|one| one.expires_at.is_none()) {
        let sum = taken.entry(one.token).or_default();
        *sum = sum.saturating_add(one.at_risk);
    }
    let mut total = Usd::ZERO;
    for (token, sum) in taken {
        let most = sum.min(granted.balances.get(&token).copied().unwrap_or_default());
        if let Some(value) = worth(&token, most) {
            total = total.checked_add(value).map_err(|error| ToolError::new(ErrorCode::PriceUnavailable, error))?;
        }
    }
    Ok((rows.into_iter().map(|(_, row)| row).collect(), total))
}
