//! `wallet_get_gas_price`: fees of the next block, and the cost of usual actions.
//!
//! The fees are those that the sender would use. An action's cost is `gas · (base fee + tip)`, and on a rollup the fee
//! for its data on the base chain in addition.

use alloy::consensus::{SignableTransaction as _, TxEip1559};
use alloy::eips::BlockId;
use alloy::network::TransactionBuilder as _;
use alloy::primitives::{Address, Bytes, TxKind, U256, keccak256};
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply};
use crate::shared::{ChainNamed, chain_or_first};
use bardo_abi::gas_price_oracle::GasPriceOracle;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::dollars;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::network::{DataFees, KnownContract};
use golem_chain::price::PriceUnknown;
use golem_chain::provider::ProviderError;
use golem_chain::sender::{FeeQuote, FeeRules, SenderError, estimate_fees};

/// Definition of the `wallet_get_gas_price` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetGasPrice>();

/// Usual action, with round figures for its gas and for the length of its calldata. Only the gas of a plain transfer is
/// exact (21,000, by the protocol); the others depend on tokens and pools.
struct UsualAction {
    name: &'static str,
    gas: u64,
    data_bytes: usize,
}

/// Usual actions, the cheapest first.
const USUAL: [UsualAction; 4] = [
    UsualAction { name: "native_transfer", gas: 21_000, data_bytes: 0 },
    UsualAction { name: "token_transfer", gas: 65_000, data_bytes: 68 },
    UsualAction { name: SWAP, gas: 200_000, data_bytes: 900 },
    UsualAction { name: ADD_LIQUIDITY, gas: 450_000, data_bytes: 400 },
];
const SWAP: &str = "swap";
const ADD_LIQUIDITY: &str = "add_liquidity";

/// Parameters of `wallet_get_gas_price`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or id; defaults to the network's first chain.
    #[serde(default)]
    chain_id: Option<ChainNamed>,
}

/// Result of `wallet_get_gas_price`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// EIP-155 chain id.
    chain_id: u64,
    /// Estimated base fee of the next block in gwei, as a decimal.
    base_fee_gwei: String,
    /// Usual priority fee in gwei, as a decimal.
    priority_fee_gwei: String,
    /// Symbol of the native token, which pays the costs.
    native_symbol: &'static str,
    /// Price of the native token in dollars; absent without a price.
    native_price_usd: Option<String>,
    /// Fee of a rollup for the data of a transaction: `none`, `included` in the costs, or `unknown`.
    data_fee: &'static str,
    /// Cost of a swap in dollars; absent if it cannot be computed.
    estimated_swap_cost_usd: Option<String>,
    /// Cost of opening a liquidity position in dollars; absent if it cannot be computed.
    estimated_lp_cost_usd: Option<String>,
    /// Costs of usual actions, the cheapest first. The gas figures are round; a preview has the exact one.
    costs: Vec<ActionCost>,
    /// Reason why costs in dollars are absent; absent if they are known.
    no_cost: Option<String>,
}

/// Cost of one usual action.
#[derive(Debug, Serialize, JsonSchema)]
struct ActionCost {
    /// Name of the action.
    action: &'static str,
    /// Gas, in gas units; a round figure.
    gas: u64,
    /// Cost of the gas, in whole native tokens.
    gas_cost: String,
    /// Fee for the data on the base chain, in whole native tokens, as if no byte could be compressed; absent if the
    /// chain charges none or it is unknown.
    data_fee: Option<String>,
    /// Whole cost in dollars, rounded up; absent if a part of it is unknown.
    cost_usd: Option<String>,
    /// The same, for the explanation.
    #[serde(skip)]
    usd: Option<Usd>,
}

/// Implementation of `wallet_get_gas_price`; see [`TOOL_DEF`].
pub struct GetGasPrice;

impl ReadTool for GetGasPrice {
    const META: ToolMeta = ToolMeta {
        name: "wallet_get_gas_price",
        description: "Shows base fee and priority fee of the next block, and what usual actions cost in dollars, a \
                      rollup's data fee included. Changes nothing.",
        category: Category::Wallet,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Fetching gas oracle"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Fees of the next block and costs of usual actions in dollars.",
        prompt_guidelines: Guidelines {
            thriving: "Check before acting, and wait with what is not urgent while gas is expensive.",
            cautious: "Always check, and weigh the cost against the benefit.",
            declining: "Check before an exit.",
            terminal: "Check once before the last transactions.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain_id"],
        summary_fields: &["base_fee_gwei", "estimated_swap_cost_usd"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"chain_id": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = chain_or_first(context, params.chain_id.as_ref())?;
        context.step("Fetching gas oracle");
        let (quote, price, data_fees) =
            futures::join!(estimate_fees(&chain.client, FeeRules::default()), native_price(chain), data_fees(chain));
        let quote = quote.map_err(SenderError::from)?;
        let data_fees = data_fees?;
        let unknown = match (&price, &data_fees) {
            (_, DataFee::Unknown) => Some(format!(
                "it is not configured whether {} charges a data fee: set chains.{}.data_fee_oracle",
                chain.network(),
                chain.network().name
            )),
            (Err(reason), DataFee::None | DataFee::Of(_)) => Some(reason.to_string()),
            (Ok(_), DataFee::None | DataFee::Of(_)) => None,
        };
        let price = price.ok();
        let costs = USUAL.iter().enumerate().map(|(at, action)| cost(action, at, quote, &data_fees, price));
        let costs = costs.collect::<Result<Vec<_>, _>>()?;
        let of = |name: &str| costs.iter().find(|cost| cost.action == name).and_then(|cost| cost.cost_usd.clone());
        let (base_fee, tip) = (gwei(quote.base_fee)?, gwei(quote.tip)?);
        let mut said = format!("The next block on {} costs {base_fee} gwei, with {tip} gwei of tip", chain.network());
        match (&unknown, costs.iter().find(|cost| cost.action == SWAP).and_then(|cost| cost.usd)) {
            (None, Some(usd)) => said.push_str(&format!("; a swap costs about {}.", dollars(usd))),
            (Some(reason), _) => said.push_str(&format!("; costs in dollars are unknown: {reason}.")),
            (None, None) => said.push('.'),
        }
        let output = Output {
            chain: chain.network().name.clone(),
            chain_id: chain.network().chain_id,
            base_fee_gwei: base_fee,
            priority_fee_gwei: tip,
            native_symbol: chain.network().native_symbol,
            native_price_usd: price.map(|price| price.to_string()),
            data_fee: match data_fees {
                DataFee::None => "none",
                DataFee::Of(_) => "included",
                DataFee::Unknown => "unknown",
            },
            estimated_swap_cost_usd: of(SWAP),
            estimated_lp_cost_usd: of(ADD_LIQUIDITY),
            costs,
            no_cost: unknown,
        };
        Ok(ToolReply::new(output, said))
    }
}

/// Reason why the native token has no price.
#[derive(Debug, thiserror::Error)]
enum NoNativePrice {
    /// The address book does not name the token that wraps it.
    #[error("this chain's wrapped native token is unknown")]
    UnknownToken,
    /// No price source knows it.
    #[error(transparent)]
    Unpriced(#[from] PriceUnknown),
}

/// Price of the native token in dollars.
///
/// # Errors
/// [`NoNativePrice`] if there is none.
async fn native_price(chain: &ConnectedChain) -> Result<Usd, NoNativePrice> {
    let wrapped = chain.network().book.contract(KnownContract::WrappedNative);
    let wrapped = wrapped.ok_or(NoNativePrice::UnknownToken)?;
    Ok(chain.prices.price(wrapped).await?.usd)
}

/// Data fees of the usual actions, in their order.
enum DataFee {
    None,
    Of(Vec<U256>),
    Unknown,
}

/// Reads the data fee of each usual action, all in one block.
///
/// # Errors
/// The errors of the chain; `CHAIN_INCONSISTENT` if the oracle does not answer.
async fn data_fees(chain: &ConnectedChain) -> Result<DataFee, ToolError> {
    let oracle = match chain.data_fees {
        DataFees::None => return Ok(DataFee::None),
        DataFees::Unknown => return Ok(DataFee::Unknown),
        DataFees::Oracle(oracle) => oracle,
    };
    let (provider, block) = chain.client.newest().await?;
    let chain_id = chain.network().chain_id;
    let asked = USUAL.iter().map(|action| data_fee(provider, block, oracle, unsigned(chain_id, action)));
    Ok(DataFee::Of(futures::future::try_join_all(asked).await?))
}

async fn data_fee(provider: &DynProvider, block: BlockId, oracle: Address, data: Bytes) -> Result<U256, ToolError> {
    let input = GasPriceOracle::getL1FeeCall { data }.abi_encode();
    let request = TransactionRequest::default().with_to(oracle).with_input(input);
    let answer = provider.call(request).block(block).await.map_err(ProviderError::from)?;
    GasPriceOracle::getL1FeeCall::abi_decode_returns(&answer)
        .map_err(|error| ToolError::new(ErrorCode::ChainInconsistent, format_args!("the fee oracle: {error}")))
}

/// Transaction of this length, encoded without its signature. A rollup charges by the compressed size, so the calldata
/// does not compress.
fn unsigned(chain_id: u64, action: &UsualAction) -> Bytes {
    let words = (0_u64..).flat_map(|word| keccak256(word.to_be_bytes()).0);
    let transaction = TxEip1559 {
        chain_id,
        nonce: u64::MAX,
        gas_limit: action.gas,
        max_fee_per_gas: u128::from(u64::MAX),
        max_priority_fee_per_gas: u128::from(u64::MAX),
        to: TxKind::Call(Address::repeat_byte(0xa7)),
        value: U256::ZERO,
        access_list: Default::default(),
        input: words.take(action.data_bytes).collect::<Vec<_>>().into(),
    };
    transaction.encoded_for_signing().into()
}

fn cost(
    action: &UsualAction,
    at: usize,
    quote: FeeQuote,
    data_fees: &DataFee,
    price: Option<Usd>,
) -> Result<ActionCost, ToolError> {
    let too_much = || ToolError::new(ErrorCode::ChainInconsistent, "the claimed fees exceed every possible balance");
    let per_gas = U256::from(quote.base_fee).checked_add(U256::from(quote.tip)).ok_or_else(too_much)?;
    let gas_cost = U256::from(action.gas).checked_mul(per_gas).ok_or_else(too_much)?;
    let data_fee = match data_fees {
        DataFee::None => Some(U256::ZERO),
        DataFee::Of(fees) => fees.get(at).copied(),
        DataFee::Unknown => None,
    };
    let whole = data_fee.map(|fee| gas_cost.checked_add(fee).ok_or_else(too_much)).transpose()?;
    let value = whole.zip(price).map(|(whole, price)| Usd::value_of(TokenAmount::ether(whole), price, Rounding::Up));
    let usd = value.transpose().map_err(|error| ToolError::new(ErrorCode::PriceUnavailable, error))?;
    Ok(ActionCost {
        action: action.name,
        gas: action.gas,
        gas_cost: TokenAmount::ether(gas_cost).to_string(),
        data_fee: match data_fees {
            DataFee::Of(_) => data_fee.map(|fee| TokenAmount::ether(fee).to_string()),
            DataFee::None | DataFee::Unknown => None,
        },
        cost_usd: usd.map(|usd| usd.to_string()),
        usd,
    })
}

fn gwei(wei: u128) -> Result<String, ToolError> {
    Ok(TokenAmount::new(U256::from(wei), 9)?.to_string())
}
