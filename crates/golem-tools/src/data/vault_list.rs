//! `vault_list`: the vaults that the address book and the policy name on a chain, with what an account has to do with each.

use futures::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::vault::Vault;
use bardo_abi::erc7540::LagoonVault;
use bardo_base::error::ToolError;
use bardo_base::format::counted;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::vault_calls;
use golem_chain::multicall::CallBatch;
use golem_protocols::erc7540::requests::{Asynchrony, SettlerQuestions};

/// Definition of the `vault_list` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<VaultList>();

/// Maximum number of vaults that are read.
const MOST_VAULTS: usize = 32;

/// Parameters of `vault_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id.
    chain: String,
    /// Account, as a 0x address; defaults to the wallet's account.
    #[serde(default)]
    account: Option<String>,
}

/// Result of `vault_list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Address of the account.
    account: String,
    /// Vaults that answer.
    vaults: Vec<ListedVault>,
    /// Addresses of vaults that do not answer.
    not_read: Vec<String>,
    /// Number of named vaults beyond those that are read.
    unread_count: usize,
}

/// Vault with what the account has to do with it.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedVault {
    /// Address of the vault.
    vault_address: String,
    /// Symbol of its token, as listed; otherwise its address.
    asset: String,
    /// Tokens that the vault says it has, in whole tokens.
    total_assets: String,
    /// Shares of the account, in whole shares.
    shares: String,
    /// True if deposits or withdrawals are requests (ERC-7540).
    is_asynchronous: bool,
    /// True if requests of the account wait, or can be claimed.
    has_requests: bool,
    /// True if the account is the vault's owner, valuation manager and Safe, by the vault's own answer.
    is_managed: bool,
    /// True if the vault says that it is paused.
    is_paused: bool,
}

/// Implementation of `vault_list`; see [`TOOL_DEF`].
pub struct VaultList;

impl ReadTool for VaultList {
    const META: ToolMeta = ToolMeta {
        name: "vault_list",
        description: "Lists the vaults that the address book and the policy's allowed_vaults name on a chain: token, size, an \
                      account's shares, whether requests of it wait, and whether it manages the vault. get_vault_state shows one.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading vaults"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "The vaults that may be used, and yours among them.",
        prompt_guidelines: Guidelines {
            thriving: "Start here before get_vault_state.",
            cautious: "Claim what is settled in the vaults listed here.",
            declining: "Use it to see which vaults still hold something of yours.",
            terminal: "Use it to see which vaults still hold something of yours.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain"],
        summary_fields: &["chain"],
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
        let account = context.world.account(params.account.as_deref())?;
        context.step("Reading vaults");
        let network = chain.network();
        let policy = context.world.policy();
        let named = vault_calls::known(network.chain_id, policy.as_ref().map(|policy| policy.rules()), &network.book);
        let unread_count = named.len().saturating_sub(MOST_VAULTS);
        let reads = named.iter().take(MOST_VAULTS).map(async |vault| {
            let vault = Vault::read(chain, Some(&vault.to_string())).await?;
            let held = vault.account(chain, account).await?;
            let mut calls = CallBatch::default();
            let settlers = SettlerQuestions::push(&mut calls, vault.address);
            let owner = calls.push(vault.address, &LagoonVault::ownerCall {});
            let answers = chain.ask_at(calls, vault.head.hash).await?;
            let settles = settlers.take(&answers).is_some_and(|one| [one.safe, one.valuation_manager] == [account; 2]);
            Ok::<_, ToolError>(ListedVault {
                vault_address: vault.address.to_string(),
                asset: vault.asset_name(),
                total_assets: vault.tokens(vault.total_assets)?,
                shares: vault.shares(held.shares)?,
                is_asynchronous: vault.asynchrony != Asynchrony::default(),
                has_requests: !held.requests.is_empty(),
                is_managed: settles && owner.take(&answers) == Some(account),
                is_paused: vault.is_paused,
            })
        });
        let (mut vaults, mut not_read) = (Vec::new(), Vec::new());
        for (read, vault) in join_all(reads).await.into_iter().zip(&named) {
            match read {
                Ok(vault) => vaults.push(vault),
                Err(_) => not_read.push(vault.to_string()),
            }
        }
        let own = vaults.iter().filter(|one| one.shares != "0" || one.has_requests || one.is_managed).count();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let explanation = format!(
            "{} are known; the account has to do with {}.",
            counted(count(vaults.len()), "vault", "vaults"),
            counted(count(own), "of them", "of them")
        );
        let output =
            Output { chain: network.name.clone(), account: account.to_string(), vaults, not_read, unread_count };
        Ok(ToolReply::new(output, explanation))
    }
}
