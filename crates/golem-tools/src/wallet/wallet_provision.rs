//! `wallet_provision`: creates a wallet of the operator's, as a key file of this machine or on a wallet server. No secret
//! is in its parameters, its result, its events or its errors.

use alloy::providers::Provider as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::account_code::{AccountKindByCode, code_and_nonce};
use super::administration::{SCOPE, administration};
use crate::engine::{CallContext, NewWallet, RecordTool, ToolDef, ToolReply};
use crate::shared::{ChainNamed, chain_or_first};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use golem_chain::provider::ProviderError;

/// Definition of the `wallet_provision` tool.
pub static TOOL_DEF: ToolDef = ToolDef::record::<ProvisionWallet>();

/// Provider of a wallet, by its name in the tool's document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WalletProvider {
    /// Wallet server that speaks Privy's wallet API.
    Privy,
    /// Encrypted key file of this machine.
    Local,
    /// Safe smart account.
    Safe,
    /// Smart account of ERC-4337.
    Zerodev,
}

/// Parameters of `wallet_provision`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// "local" or "privy"; defaults to the configured account's kind. "safe" and "zerodev" are refused with the reason.
    #[serde(default)]
    provider: Option<WalletProvider>,
    /// Chain name, alias or id on which the new address is checked; defaults to the network's first chain.
    #[serde(default)]
    chain_id: Option<ChainNamed>,
    /// Name of its key file: 1 to 40 letters, digits, - or _; defaults to the next free wallet-N.
    #[serde(default)]
    label: Option<String>,
}

/// Result of `wallet_provision`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Address of the new wallet.
    address: String,
    /// Provider that has its key.
    provider: WalletProvider,
    /// EIP-155 id of the chain on which the address was checked.
    chain_id: u64,
    /// "eoa": the address has no code there.
    account_type: &'static str,
    /// Name of its key file, which `--key` selects.
    label: String,
    /// Balance of the native token, in whole tokens.
    native_balance: String,
    /// Number of policies that the wallet server enforces on it; absent for a key file.
    server_policies: Option<usize>,
}

/// Implementation of `wallet_provision`; see [`TOOL_DEF`].
pub struct ProvisionWallet;

impl RecordTool for ProvisionWallet {
    const META: ToolMeta = ToolMeta {
        name: "wallet_provision",
        description: "Creates a wallet: an encrypted key file, or a wallet on the configured wallet server. Only the \
                      operator's own command may, who gives the password of the new file. At most 5 in an hour. It \
                      holds nothing, and signs nothing before it is selected.",
        category: Category::Wallet,
        capability: CapabilityTier::Privileged,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Creating wallet", "Verifying"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Creates a wallet. Needs the scope admin:wallet, which the operator alone has; 5 in an hour.",
        prompt_guidelines: Guidelines {
            thriving: "Only while the agent is set up; ask the operator to run it.",
            cautious: "As when thriving.",
            declining: "Not of use.",
            terminal: "Not of use.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::Halt, Check::RateLimit],
        event_params: &["provider", "chain_id", "label"],
        summary_fields: &["address", "provider", "label"],
        card: None,
        spenders: &[],
    };
    const ALWAYS_RUNS: bool = false;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"provider": "local", "chain_id": "ethereum", "label": "treasury"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let administration = administration(context)?;
        let kind = match params.provider {
            None => administration.usual()?,
            Some(WalletProvider::Local) => NewWallet::Local,
            Some(WalletProvider::Privy) => NewWallet::Server,
            Some(WalletProvider::Safe) => return Err(unsupported("Safe")),
            Some(WalletProvider::Zerodev) => return Err(unsupported("smart account of ERC-4337")),
        };
        let chain = chain_or_first(context, params.chain_id.as_ref())?;
        let network = chain.network();
        context.step("Creating wallet");
        let created = administration.provision(network, kind, params.label.as_deref()).await?;
        context.step("Verifying");
        let (name, address) = (&created.name, created.address);
        // The wallet exists by now: an error says where.
        let exists = |error: ToolError| {
            error
                .detail("address", address.to_string())
                .detail("label", name.clone())
                .suggest(format_args!("The wallet {name} ({address}) exists nevertheless: `bardo keys list` shows it."))
        };
        let (code, _) = code_and_nonce(chain, address).await.map_err(exists)?;
        let kind_by_code = AccountKindByCode::of(&code);
        if kind_by_code != AccountKindByCode::Plain {
            let what = format_args!("the new address {address} already has code on {network}: do not use it");
            return Err(exists(ToolError::new(ErrorCode::ChainInconsistent, what)));
        }
        let balance = chain.client.agreed().get_balance(address).await.map_err(ProviderError::from);
        let balance = balance.map_err(|error| exists(error.into()))?;
        // The native token of every supported chain has 18 decimals.
        let balance = TokenAmount::new(balance, 18)
            .map_err(|error| exists(ToolError::new(ErrorCode::ChainInconsistent, error)))?;
        let output = Output {
            address: address.to_string(),
            provider: match kind {
                NewWallet::Local => WalletProvider::Local,
                NewWallet::Server => WalletProvider::Privy,
            },
            chain_id: network.chain_id,
            account_type: kind_by_code.word(),
            label: name.clone(),
            native_balance: balance.to_string(),
            server_policies: created.server_policies,
        };
        let said = format!(
            "The wallet {name} was created: {address}. Select it with --key {name}. Back up its key file and password in \
             separate places."
        );
        Ok(ToolReply::new(output, said).hint(json!({ "scope": SCOPE })))
    }
}

/// Error for a kind of account that Bardo does not create.
fn unsupported(what: &str) -> ToolError {
    let why = format_args!("parameter `provider`: Bardo creates no {what}");
    ToolError::new(ErrorCode::ValidationFailed, why).detail("parameter", "provider").suggest(
        "Use \"local\" or \"privy\", or session_provision_key for a key that acts for an account of the owner's.",
    )
}
