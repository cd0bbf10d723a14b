//! `get_portfolio`: what an account holds in tokens, liquidity positions and lending markets, which orders are open, and its
//! profit and loss since a time.

use alloy::primitives::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::get_balances::{AllBalances, ChainBalances, read_balances};
use crate::engine::{BooksSums, CallContext, ReadTool, ToolDef, ToolReply};
use crate::lending::holding::{HeldLending, held_lending};
use crate::lending::percent;
use crate::positions::{HeldPosition, held_positions};
use crate::vault::holding::{HeldVault, held_vaults};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::{dollars, signed_dollars};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{Rounding, TokenAmount, Usd, UsdError};
use bardo_safety::orders::OrderRecord;
use bardo_safety::typed::TypedMessage;
use golem_chain::network::KnownContract;

/// Definition of the `get_portfolio` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetPortfolio>();

/// Kinds of positions that the tool does not read.
const NOT_READ: [&str; 1] = ["shares of vaults that the address book and allowed_vaults do not name"];

/// Parameters of `get_portfolio`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id; without it, every configured chain. Profit and loss are those of all chains.
    #[serde(default)]
    chain: Option<String>,
    /// Account, as a 0x address; defaults to the wallet's account.
    #[serde(default)]
    account: Option<String>,
    /// Start of the profit and loss, in seconds since the Unix epoch; defaults to the first entry of the books.
    #[serde(default)]
    since: u64,
}

/// Result of `get_portfolio`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Address of the account.
    account: String,
    /// Value of all tokens, V3 liquidity positions, shares of known vaults and supplies in lending markets, less the debts there
    /// and what belongs to depositors of managed vaults, in dollars; zero where the debts are worth more. What has no price is not counted.
    total_usd: String,
    /// True if every non-zero balance, position, share, supply and debt has a price and is counted.
    all_priced: bool,
    /// Tokens per chain. What an open order may take is still among them.
    chains: Vec<ChainBalances>,
    /// V3 liquidity positions that hold something, as they were in the block of their chain's tokens.
    positions: Vec<HeldPosition>,
    /// Value of the positions in dollars, without those that have none.
    positions_usd: String,
    /// Number of positions that were not read, because the account has more than are read; they are not counted.
    positions_unread: u64,
    /// Supplies and debts in lending markets, of each chain that has any, as they were in the block of its tokens.
    lending: Vec<HeldLending>,
    /// Value of all supplies in dollars, without those that have none.
    supplied_usd: String,
    /// Value of all debts in dollars, without those that have none.
    debt_usd: String,
    /// Shares of the address book's vault and of those that the policy names, with what redeeming them paid in a simulation.
    vaults: Vec<HeldVault>,
    /// Value of what they paid in dollars, without those that have none.
    vaults_usd: String,
    /// Value of what the account holds for the depositors of vaults that it manages, in dollars, which is subtracted.
    vaults_owed_usd: String,
    /// Configured chains that could not be reached; their balances are not counted.
    not_reached: Vec<String>,
    /// Signed orders of the account that can still be filled; absent if no ledger of orders is open.
    open_orders: Option<Vec<OpenOrder>>,
    /// Profit and loss; absent where `no_pnl` says why.
    pnl: Option<ProfitAndLoss>,
    /// Reason why there is no profit and loss; absent otherwise.
    no_pnl: Option<String>,
    /// Kinds of positions that are not read, and are in no figure.
    not_read: Vec<&'static str>,
}

/// Order that can still be filled.
#[derive(Debug, Serialize, JsonSchema)]
struct OpenOrder {
    /// Hash of the order, or id of the bridge order.
    order_hash: String,
    /// Name of the chain.
    chain: String,
    /// Kind of the order, such as `DUTCH_V2` or `ERC7683`.
    kind: &'static str,
    /// Symbol of the token that the account gives.
    token_in: String,
    /// Symbol of the token that it receives.
    token_out: String,
    /// Outcome that was expected when the order was signed.
    expected_outcome: String,
    /// Last second in which it can be filled, since the Unix epoch.
    valid_until: u64,
    /// Least that an order of the order service pays, in whole tokens; absent for a bridge order.
    least_out: Option<String>,
    /// Rise of the price of token_in in token_out at which the market pays as much, in percent, by the price sources; with
    /// a minus sign where it pays more already. Absent without both prices, and for a bridge order.
    distance_pct: Option<String>,
}

/// Profit and loss by the books: first in, first out, fees and gas apart. In dollars, a loss with a minus sign.
#[derive(Debug, Serialize, JsonSchema)]
struct ProfitAndLoss {
    /// Start of the period, in seconds since the Unix epoch.
    since: u64,
    /// Number of trades since then.
    trade_count: u64,
    /// Gains and losses realised since then, without gas and fees.
    realised_usd: String,
    /// Value of the gas paid since then.
    gas_usd: String,
    /// Fees of bridge orders since then.
    fees_usd: String,
    /// Realised result after gas and fees.
    net_usd: String,
    /// Unrealised gain of everything that is held now, against its cost; absent if a price is missing.
    unrealised_usd: Option<String>,
    /// Number of entries without a known price or cost, which are in no sum.
    incomplete_entries: u64,
    /// Chains that could not be read now, with the reason.
    faults: Vec<String>,
}

/// Implementation of `get_portfolio`; see [`TOOL_DEF`].
pub struct GetPortfolio;

impl ReadTool for GetPortfolio {
    const META: ToolMeta = ToolMeta {
        name: "get_portfolio",
        description: "Shows what the wallet or another account holds in tokens, Uniswap V3 liquidity positions, vaults and Aave \
                      V3, in dollars, its open orders, and the wallet's profit and loss since a time: first in, first out, \
                      with fees and gas apart. A position counts with its amounts at the price of both tokens' feeds, \
                      and the fees owed; shares of known vaults count what a simulated redemption pays; supplies count, \
                      and debts are subtracted. Other positions and vaults are not read.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Resolving tokens",
            "Reading balances",
            "Reading prices",
            "Reading positions",
            "Reading lending market",
            "Reading vaults",
            "Reading the books",
        ],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Holdings in dollars, open orders, and profit and loss since a time.",
        prompt_guidelines: Guidelines {
            thriving: "Review it daily, and let losses lower the size of the next trades.",
            cautious: "Review it before each trade; do not trade to win a loss back.",
            declining: "Use it to list what must be exited.",
            terminal: "Use it once to see what is left.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain", "account", "since"],
        summary_fields: &["total_usd", "all_priced"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let world = &context.world;
        let account = world.account(params.account.as_deref())?;
        let read = read_balances(context, account, params.chain.as_deref(), None).await?;
        let AllBalances { total, all_priced, chains, not_reached } = read;
        context.step("Reading positions");
        let asked = chains.iter().map(async |balances| {
            let chain = world.chain(&balances.chain_id.to_string())?;
            held_positions(chain, account, balances.block_number).await
        });
        let read = futures::future::try_join_all(asked).await?;
        let positions_unread = read.iter().fold(0, |sum: u64, (_, unread)| sum.saturating_add(*unread));
        let positions: Vec<HeldPosition> = read.into_iter().flat_map(|(positions, _)| positions).collect();
        let mut in_positions = positions.iter().filter_map(HeldPosition::value);
        let in_positions = in_positions.try_fold(Usd::ZERO, Usd::checked_add).map_err(too_much)?;
        let total = total.checked_add(in_positions).map_err(too_much)?;
        context.step("Reading lending market");
        let asked = chains.iter().map(async |balances| {
            let chain = world.chain(&balances.chain_id.to_string())?;
            held_lending(chain, account, balances.block_number).await
        });
        let lending: Vec<HeldLending> = futures::future::try_join_all(asked).await?.into_iter().flatten().collect();
        let sum = |of: fn(&HeldLending) -> Usd| {
            lending.iter().map(of).try_fold(Usd::ZERO, Usd::checked_add).map_err(too_much)
        };
        let (supplied, owed) = (sum(|one| one.supplied)?, sum(|one| one.owed)?);
        context.step("Reading vaults");
        let asked = chains.iter().map(async |balances| {
            let chain = world.chain(&balances.chain_id.to_string())?;
            held_vaults(context, chain, account, balances.block_number).await
        });
        let vaults: Vec<HeldVault> = futures::future::try_join_all(asked).await?.into_iter().flatten().collect();
        let (in_vaults, to_depositors) = vault_sums(&vaults)?;
        let gross = total.checked_add(supplied).and_then(|sum| sum.checked_add(in_vaults)).map_err(too_much)?;
        let all_owed = owed.checked_add(to_depositors).map_err(too_much)?;
        let total = gross.checked_sub(all_owed).unwrap_or(Usd::ZERO);
        let all_priced = all_priced
            && positions_unread == 0
            && positions.iter().all(|one| one.value().is_some())
            && vaults.iter().all(HeldVault::is_counted)
            && lending.iter().all(|one| one.all_priced);
        context.step("Reading the books");
        let open_orders = open_orders(context, account, &chains).await?;
        let (sums, no_pnl) = match &world.books {
            _ if world.paper().is_some() => (None, Some("in paper mode, `bardo pnl --paper` shows it".to_owned())),
            None => (None, Some("no books are open for this call".to_owned())),
            Some(books) if books.account() != account => {
                (None, Some(format!("the books are those of {}", books.account())))
            }
            Some(books) => (Some(books.since(params.since).await?), None),
        };
        let worth = PortfolioWorth {
            total,
            in_positions,
            in_vaults,
            supplied,
            owed,
            to_depositors,
            exceeds_gross: all_owed > gross,
        };
        let mut explanation = worth.explained(&lending, all_priced);
        if let Some(sums) = &sums {
            explanation.push_str(&format!(" Realised after gas and fees: {}.", signed_dollars(sums.net)));
        }
        if world.paper().is_some() {
            explanation.push_str(" PAPER: includes paper trades.");
        }
        if !not_reached.is_empty() {
            explanation.push_str(&format!(" Not included, because unreachable: {}.", not_reached.join(", ")));
        }
        let output = Output {
            account: account.to_string(),
            total_usd: total.to_string(),
            all_priced,
            chains,
            positions,
            positions_usd: in_positions.to_string(),
            positions_unread,
            lending,
            supplied_usd: supplied.to_string(),
            debt_usd: owed.to_string(),
            vaults,
            vaults_usd: in_vaults.to_string(),
            vaults_owed_usd: to_depositors.to_string(),
            not_reached,
            open_orders,
            pnl: sums.map(|sums| pnl(sums, params.since)),
            no_pnl,
            not_read: NOT_READ.to_vec(),
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Value of all holdings, in dollars.
struct PortfolioWorth {
    /// Everything, after debts.
    total: Usd,
    in_positions: Usd,
    in_vaults: Usd,
    supplied: Usd,
    owed: Usd,
    /// Value of what is held for the depositors of vaults that the account manages.
    to_depositors: Usd,
    /// True if the debts are worth more than what is held.
    exceeds_gross: bool,
}

impl PortfolioWorth {
    fn explained(&self, lending: &[HeldLending], all_priced: bool) -> String {
        let mut explanation = format!("The account holds {}", dollars(self.total));
        if !self.in_positions.is_zero() {
            explanation.push_str(&format!(", of which {} in liquidity positions", dollars(self.in_positions)));
        }
        if !self.in_vaults.is_zero() {
            explanation.push_str(&format!(", of which {} in vaults", dollars(self.in_vaults)));
        }
        if !lending.is_empty() {
            explanation.push_str(&format!(", with {} supplied to Aave", dollars(self.supplied)));
        }
        if !self.owed.is_zero() {
            explanation.push_str(&format!(", after debts of {}", dollars(self.owed)));
        }
        explanation.push_str(if all_priced {
            "."
        } else {
            ", plus tokens, positions, shares or debts without a price."
        });
        if !self.to_depositors.is_zero() {
            explanation.push_str(&format!(
                " {} of what it holds belong to depositors of vaults it manages.",
                dollars(self.to_depositors)
            ));
        }
        if self.exceeds_gross {
            explanation.push_str(" The debts are worth more than everything that is held.");
        }
        for security in lending.iter().filter_map(HeldLending::security) {
            explanation.push_str(&format!(" {security}."));
        }
        explanation
    }
}

/// Error for a sum out of range.
fn too_much(error: UsdError) -> ToolError {
    ToolError::new(ErrorCode::PriceUnavailable, format_args!("{error}"))
}

/// Values of what vaults would pay, and of what the account holds for the depositors of those that it manages. A value that is not
/// known is in neither, and the total is said to lack it.
fn vault_sums(vaults: &[HeldVault]) -> Result<(Usd, Usd), ToolError> {
    let sum = |of: fn(&HeldVault) -> Option<Usd>| {
        vaults.iter().filter_map(of).try_fold(Usd::ZERO, Usd::checked_add).map_err(too_much)
    };
    Ok((sum(|one| one.value)?, sum(|one| one.owed_value)?))
}

fn pnl(sums: BooksSums, since: u64) -> ProfitAndLoss {
    ProfitAndLoss {
        since,
        trade_count: sums.trades,
        realised_usd: sums.realised.to_string(),
        gas_usd: sums.gas.to_string(),
        fees_usd: sums.fees.to_string(),
        net_usd: sums.net.to_string(),
        unrealised_usd: sums.unrealised.map(|gain| gain.to_string()),
        incomplete_entries: sums.incomplete,
        faults: sums.faults.iter().map(ToString::to_string).collect(),
    }
}

/// Orders of the account on these chains that have not ended; `None` without a ledger of orders.
async fn open_orders(
    context: &CallContext,
    account: Address,
    chains: &[ChainBalances],
) -> Result<Option<Vec<OpenOrder>>, ToolError> {
    let Some(orders) = &context.world.orders else { return Ok(None) };
    let live = orders.live()?.into_iter().filter(|order| order.account == account);
    let mut listed = Vec::new();
    for order in live {
        let Some(chain) = chains.iter().find(|chain| chain.chain_id == order.chain_id) else { continue };
        let (least_out, distance_pct) = distance(context, &order).await.unwrap_or_default();
        listed.push(OpenOrder {
            order_hash: order.hash.to_string(),
            chain: chain.chain.clone(),
            kind: order.kind(),
            token_in: order.figures.token_in.symbol.to_string(),
            token_out: order.figures.token_out.symbol.to_string(),
            expected_outcome: order.figures.expected_outcome.to_string(),
            valid_until: order.usable_until(),
            least_out,
            distance_pct,
        });
    }
    Ok(Some(listed))
}

/// Least output of an order in whole tokens, and its distance from the market in percent with two decimals, rounded down.
async fn distance(context: &CallContext, order: &OrderRecord) -> Option<(Option<String>, Option<String>)> {
    let TypedMessage::UniswapxOrder { order: signed, .. } = &order.message else { return None };
    let bounds = signed.bounds();
    let [least] = bounds.least_out.as_slice() else { return None };
    let figures = &order.figures;
    let paid = TokenAmount::new(bounds.most_in, figures.token_in.decimals).ok()?;
    let wanted = TokenAmount::new(least.amount, figures.token_out.decimals).ok()?;
    let chain = context.world.chain(&order.chain_id.to_string()).ok()?;
    let native = chain.contract(KnownContract::WrappedNative).ok();
    let priced = |token: Address| if token.is_zero() { native } else { Some(token) };
    let market = async {
        let tokens = [priced(bounds.token_in)?, priced(least.token)?];
        let reports = chain.prices.prices(&tokens).await;
        let [paid_at, wanted_at] = reports.as_slice() else { return None };
        let (paid_at, wanted_at) = (paid_at.price.as_ref()?.usd, wanted_at.price.as_ref()?.usd);
        let given = Usd::value_of(paid, paid_at, Rounding::Down).ok()?.scaled(8, Rounding::Down)?;
        let asked = Usd::value_of(wanted, wanted_at, Rounding::Up).ok()?.scaled(8, Rounding::Up)?;
        let points = asked.abs_diff(given).checked_mul(10_000)?.checked_div(given)?;
        let sign = if asked < given { "-" } else { "" };
        Some(format!("{sign}{}", percent(u32::try_from(points).ok()?)))
    };
    Some((Some(wanted.to_string()), market.await))
}
