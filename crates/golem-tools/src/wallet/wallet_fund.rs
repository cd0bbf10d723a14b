//! `wallet_fund`: play money from the faucet of a devnet in this process.
//!
//! On every other network an owner funds the wallet: by a transfer from an own wallet, or from another chain of this one
//! with `uniswap_submit_cross_chain_intent`. No program can prove that another address is the owner's.

use std::time::Duration;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use alloy::rpc::types::TransactionReceipt;
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::engine::{CallContext, ConnectedChain, RecordTool, ToolDef, ToolReply};
use crate::shared::{ChainNamed, chain_or_first, invalid};
use bardo_abi::erc20::Erc20;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::dollars;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_chain::provider::ProviderError;
use golem_chain::token::{TokenId, TokenInfo};

/// Definition of the `wallet_fund` tool.
pub static TOOL_DEF: ToolDef = ToolDef::record::<WalletFund>();

/// Amount if none is given, for the native token: enough for many transactions.
const GAS_MONEY: &str = "0.1";

/// Maximum value of one call in dollars: a gift is to help a rehearsal, not to drown its figures.
const MAX_VALUE_USD: u32 = 10_000;

/// Timeout for the faucet's transaction. A devnet that is paused makes no block.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(12);

/// Poll interval while waiting for it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Origin of the funds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FundingSource {
    /// Faucet of a devnet in this process.
    Faucet,
    /// Bridge from another chain.
    Bridge,
    /// Transfer from another wallet of the owner.
    Transfer,
}

/// Parameters of `wallet_fund`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// "faucet". For "bridge" and "transfer" the error names what does that.
    source: FundingSource,
    /// Token: symbol or 0x address; defaults to the native token.
    #[serde(default)]
    token: Option<String>,
    /// Amount in whole tokens, worth at most $10,000; defaults to 0.1 for the native token.
    #[serde(default)]
    amount: Option<String>,
    /// Chain name, alias or id; defaults to the network's first chain.
    #[serde(default)]
    chain_id: Option<ChainNamed>,
}

/// Result of `wallet_fund`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the faucet's transaction.
    tx_hash: String,
    /// Amount that arrived, in whole tokens: by the token's own events in the receipt, or by the value of a successful
    /// transfer of the native token. Absent while the transaction waits for a block.
    amount_funded: Option<String>,
    /// Symbol of the token.
    token: String,
    /// Origin of the funds.
    source: FundingSource,
    /// Balance in the block before, in whole tokens; absent while the transaction waits.
    balance_before: Option<String>,
    /// Balance in the transaction's block, in whole tokens; absent while the transaction waits.
    balance_after: Option<String>,
}

/// Implementation of `wallet_fund`; see [`TOOL_DEF`].
pub struct WalletFund;

impl RecordTool for WalletFund {
    const META: ToolMeta = ToolMeta {
        name: "wallet_fund",
        description: "Funds the wallet with play money from the faucet of the built-in devnet, up to $10,000 a call. On \
                      other networks the owner funds it: by a transfer from an own wallet, or from another chain by \
                      uniswap_submit_cross_chain_intent.",
        category: Category::Wallet,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Requesting funds", "Awaiting confirmation"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Funds the wallet from the devnet's faucet; the owner does it on other networks.",
        prompt_guidelines: Guidelines {
            thriving: "Ask for native tokens when the wallet holds less than 0.01 on a chain in use.",
            cautious: "Keep enough native tokens to pay for the exits.",
            declining: "Only as much as the planned exits cost.",
            terminal: "Only if the last exits lack gas.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::Halt, Check::RateLimit],
        event_params: &["source", "token", "amount", "chain_id"],
        summary_fields: &["tx_hash", "amount_funded", "token"],
        card: None,
        spenders: &[],
    };
    const ALWAYS_RUNS: bool = false;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"source": "faucet", "token": "USDC", "amount": "100", "chain_id": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        match params.source {
            FundingSource::Faucet => {}
            FundingSource::Bridge => {
                let what = "a bridge moves the wallet's own money: uniswap_submit_cross_chain_intent does that";
                return Err(invalid("source", &what));
            }
            FundingSource::Transfer => {
                let account = context.world.account(None)?;
                let what = format_args!("a transfer begins in the owner's own wallet: send to {account} from there");
                return Err(invalid("source", &what));
            }
        }
        let account = context.world.account(None)?;
        let chain = chain_or_first(context, params.chain_id.as_ref())?;
        let network = chain.network();
        let faucet = context.world.faucet.as_ref().ok_or_else(|| {
            let what = format_args!("{network} has no faucet here: only a devnet inside this process has one");
            ToolError::new(ErrorCode::ChainUnsupported, what)
                .suggest("Send funds to the wallet's address from a wallet of its owner.")
        })?;
        let token = chain.token(params.token.as_deref().unwrap_or(network.native_symbol)).await?;
        let amount = match (&params.amount, token.id) {
            (Some(amount), _) => amount.as_str(),
            (None, TokenId::Native) => GAS_MONEY,
            (None, TokenId::Erc20(_)) => return Err(invalid("amount", &"an amount of this token is needed")),
        };
        let amount = TokenAmount::parse(amount, token.decimals).map_err(|error| invalid("amount", &error))?;
        if amount.raw().is_zero() {
            return Err(invalid("amount", &"it is zero"));
        }
        within_limit(chain, &token, amount).await?;
        context.step("Requesting funds");
        let hash = faucet.send(network, token.id, account, amount.raw()).await?;
        context.step("Awaiting confirmation");
        let Some(receipt) = confirmed(chain, hash).await? else {
            let said = format!("The faucet's transaction {hash} waits for a block.");
            return Ok(ToolReply::new(output(&token, hash), said).hint(json!({"state": "pending"})));
        };
        if !receipt.status() {
            let what = format_args!("the faucet's transaction {hash} reverted: nothing arrived");
            return Err(ToolError::new(ErrorCode::ExecutionTxReverted, what).detail("tx_hash", hash.to_string()));
        }
        let arrived = match token.id {
            TokenId::Native => amount.raw(),
            TokenId::Erc20(address) => transferred(&receipt, address, account),
        };
        let block = receipt.block_number.unwrap_or_default();
        let shown = |raw: U256| match TokenAmount::new(raw, token.decimals) {
            Ok(amount) => Ok(amount.to_string()),
            Err(error) => Err(ToolError::new(ErrorCode::ChainInconsistent, error)),
        };
        let before = balance_at(chain, token.id, account, block.saturating_sub(1)).await?;
        let after = balance_at(chain, token.id, account, block).await?;
        let output = Output {
            amount_funded: Some(shown(arrived)?),
            balance_before: Some(shown(before)?),
            balance_after: Some(shown(after)?),
            ..output(&token, hash)
        };
        let said = format!("{} {} arrived on {network}.", shown(arrived)?, token.symbol);
        Ok(ToolReply::new(output, said).hint(json!({"state": "done"})))
    }
}

fn output(token: &TokenInfo, hash: B256) -> Output {
    Output {
        tx_hash: hash.to_string(),
        amount_funded: None,
        token: token.symbol.to_string(),
        source: FundingSource::Faucet,
        balance_before: None,
        balance_after: None,
    }
}

/// Checks that a gift is worth no more than [`MAX_VALUE_USD`].
///
/// # Errors
/// `VALIDATION_FAILED` above it, and `PRICE_UNAVAILABLE` for a token without a price.
async fn within_limit(chain: &ConnectedChain, token: &TokenInfo, amount: TokenAmount) -> Result<(), ToolError> {
    let contract = match token.contract(chain.network()) {
        Some(contract) => contract,
        None => chain.contract(KnownContract::WrappedNative)?,
    };
    let unpriced = |error| ToolError::new(ErrorCode::PriceUnavailable, error);
    let price = chain.prices.price(contract).await.map_err(unpriced)?;
    let too_large = |error: &dyn std::fmt::Display| invalid("amount", error);
    let value = Usd::value_of(amount, price.usd, Rounding::Up).map_err(|error| too_large(&error))?;
    let most = Usd::whole(MAX_VALUE_USD);
    match value > most {
        true => Err(too_large(&format_args!("{} is above the faucet's {} a call", dollars(value), dollars(most)))),
        false => Ok(()),
    }
}

/// Receipt of the faucet's transaction; `None` if it got into no block in time.
async fn confirmed(chain: &ConnectedChain, hash: B256) -> Result<Option<TransactionReceipt>, ToolError> {
    let deadline = Instant::now() + CONFIRMATION_TIMEOUT;
    loop {
        let receipt = chain.client.agreed().get_transaction_receipt(hash).await.map_err(ProviderError::from)?;
        if receipt.is_some() || Instant::now() >= deadline {
            return Ok(receipt);
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Sum of the token's transfers to `account` in a receipt, in raw units.
fn transferred(receipt: &TransactionReceipt, token: Address, account: Address) -> U256 {
    let logs = receipt.logs().iter().filter(|log| log.address() == token);
    let transfers = logs.filter_map(|log| Erc20::Transfer::decode_log(&log.inner).ok());
    transfers.filter(|transfer| transfer.to == account).fold(U256::ZERO, |sum, one| sum.saturating_add(one.value))
}

async fn balance_at(chain: &ConnectedChain, token: TokenId, owner: Address, block: u64) -> Result<U256, ToolError> {
    let provider = chain.client.agreed();
    match token {
        TokenId::Native => {
            Ok(provider.get_balance(owner).block_id(BlockId::number(block)).await.map_err(ProviderError::from)?)
        }
        TokenId::Erc20(address) => {
            let mut calls = CallBatch::default();
            let asked = calls.push(address, &Erc20::balanceOfCall { owner });
            let header = provider.get_block(BlockId::number(block)).await.map_err(ProviderError::from)?;
            let header = header.ok_or_else(|| ToolError::new(ErrorCode::ChainInconsistent, "a block is missing"))?;
            let answers = chain.ask_at(calls, header.header.hash).await?;
            let unread = || ToolError::new(ErrorCode::ChainInconsistent, "the token does not answer");
            asked.take(&answers).ok_or_else(unread)
        }
    }
}
