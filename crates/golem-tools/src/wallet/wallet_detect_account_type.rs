//! `wallet_detect_account_type`: account of a key, account that has delegated, or contract, by the code on the chain.

use alloy::primitives::{Address, keccak256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::account_code::{AccountKindByCode, code_and_nonce};
use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply, address};
use crate::shared::{ChainNamed, chain_or_first};
use bardo_abi::smart_account::{EntryPointAccount, SafeOwners};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;

/// Definition of the `wallet_detect_account_type` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<DetectAccountType>();

/// Parameters of `wallet_detect_account_type`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address to examine.
    address: String,
    /// Chain name, alias or id; defaults to the network's first chain.
    #[serde(default)]
    chain_id: Option<ChainNamed>,
}

/// Result of `wallet_detect_account_type`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// EIP-155 chain id.
    chain_id: u64,
    /// Address that was examined.
    address: String,
    /// `eoa` without code, `eip7702` for an account of a key that runs a contract's code, or `contract`.
    account_type: &'static str,
    /// True if the address has code, a delegation included.
    has_code: bool,
    /// Length of the code, in bytes.
    code_size: u64,
    /// keccak256 of the code; absent without code.
    code_hash: Option<String>,
    /// Name of the address in the address book; absent for an unknown one.
    label: Option<String>,
    /// Number of transactions that the address has sent; of a contract, of contracts that it has created.
    nonce: u64,
    /// Contract whose code the account runs (EIP-7702); absent without a delegation.
    delegate: Option<Delegate>,
    /// Kinds of smart account as which the address describes itself. Any contract can claim to be one.
    claims: Vec<Claim>,
}

/// Contract whose code an account runs.
#[derive(Debug, Serialize, JsonSchema)]
struct Delegate {
    /// Address of the contract.
    address: String,
    /// Its name in the address book; absent for an unknown contract.
    label: Option<String>,
}

/// Kind of smart account that an address claims to be.
#[derive(Debug, Serialize, JsonSchema)]
struct Claim {
    /// Kind: `safe` or `erc4337`.
    kind: &'static str,
    /// Answer of the address, in words.
    answer: String,
}

/// Implementation of `wallet_detect_account_type`; see [`TOOL_DEF`].
pub struct DetectAccountType;

impl ReadTool for DetectAccountType {
    const META: ToolMeta = ToolMeta {
        name: "wallet_detect_account_type",
        description: "Tells an account of a key from a contract by the code on the chain, with the contract that an \
                      account has delegated to (EIP-7702), and the kinds of smart account (Safe, ERC-4337) that the \
                      address claims to be. Changes nothing.",
        category: Category::Wallet,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Checking bytecode"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Account of a key, delegated account or contract. Check it before paying an unknown address.",
        prompt_guidelines: Guidelines {
            thriving: "Check an unknown address before any payment to it.",
            cautious: "Always check; a contract may keep what it receives.",
            declining: "Check the destination of each transfer.",
            terminal: "Check the last destination once.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["address", "chain_id"],
        summary_fields: &["account_type", "code_size"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = chain_or_first(context, params.chain_id.as_ref())?;
        let asked = address(&params.address, "address")?;
        context.step("Checking bytecode");
        let (code, nonce) = code_and_nonce(chain, asked).await?;
        let kind = AccountKindByCode::of(&code);
        let claims = if code.is_empty() { Vec::new() } else { claims(chain, asked).await? };
        let network = chain.network();
        let label = |of: Address| network.book.name_of(of);
        let said = match kind {
            AccountKindByCode::Plain if nonce == 0 => {
                format!("{asked} has no code and has sent nothing on {network}: check that somebody holds its key.")
            }
            AccountKindByCode::Plain => format!("{asked} is an account of a key on {network}."),
            AccountKindByCode::Delegated(delegate) => {
                let name = label(delegate).unwrap_or_else(|| "an unknown contract".to_owned());
                format!("{asked} is an account of a key that runs the code of {name} ({delegate}) on {network}.")
            }
            AccountKindByCode::Contract => {
                let name = label(asked).map(|name| format!(", {name}")).unwrap_or_default();
                format!("{asked} is a contract on {network}{name}.")
            }
        };
        let output = Output {
            chain: network.name.clone(),
            chain_id: network.chain_id,
            address: asked.to_string(),
            account_type: kind.word(),
            has_code: !code.is_empty(),
            code_size: code.len() as u64,
            code_hash: (!code.is_empty()).then(|| keccak256(&code).to_string()),
            label: label(asked),
            nonce,
            delegate: kind
                .delegate()
                .map(|delegate| Delegate { address: delegate.to_string(), label: label(delegate) }),
            claims,
        };
        Ok(ToolReply::new(output, said))
    }
}

/// Asks an address with code for the views of a Safe and of an ERC-4337 account.
async fn claims(chain: &ConnectedChain, of: Address) -> Result<Vec<Claim>, ToolError> {
    let book = &chain.network().book;
    // Without Multicall3 nothing can be asked in one block; the type follows from the code alone.
    if book.contract(KnownContract::Multicall3).is_none() {
        return Ok(Vec::new());
    }
    let mut calls = CallBatch::default();
    let owners = calls.push(of, &SafeOwners::getOwnersCall {});
    let threshold = calls.push(of, &SafeOwners::getThresholdCall {});
    let entry_point = calls.push(of, &EntryPointAccount::entryPointCall {});
    let answers = chain.ask(calls).await?;
    let mut claims = Vec::new();
    if let (Some(owners), Some(threshold)) = (owners.take(&answers), threshold.take(&answers))
        && !threshold.is_zero()
        && usize::try_from(threshold).is_ok_and(|threshold| threshold <= owners.len())
    {
        claims.push(Claim { kind: "safe", answer: format!("{threshold} of {} owners must sign", owners.len()) });
    }
    if let Some(entry_point) = entry_point.take(&answers).filter(|entry_point| !entry_point.is_zero()) {
        let name = book.name_of(entry_point).unwrap_or_else(|| "an unknown contract".to_owned());
        claims.push(Claim { kind: "erc4337", answer: format!("its entry point is {name} ({entry_point})") });
    }
    Ok(claims)
}
