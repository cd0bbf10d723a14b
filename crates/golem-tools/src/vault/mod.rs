//! Tools that deposit to and withdraw from vaults of the ERC-4626 standard and asynchronous ones of ERC-7540, or only try to, and
//! the shared parts of all vault tools: a vault's state at one block, and its share price at past blocks.

mod actions;
mod earnings;
pub(crate) mod finding;
pub mod holding;
mod manage;
mod requests;
mod trial;
pub mod vault_cancel_request;
pub mod vault_claim;
pub mod vault_deploy;
pub mod vault_deposit;
pub mod vault_harvest;
pub mod vault_pause;
pub mod vault_rebalance;
pub mod vault_resume;
pub mod vault_set_cap;
pub mod vault_settle;
pub mod vault_simulate_deposit;
pub mod vault_simulate_withdraw;
pub mod vault_teardown;
pub mod vault_withdraw;

use alloy::primitives::{Address, U256};
use futures::future::join_all;
use schemars::JsonSchema;
use serde::Serialize;

use crate::blocks::{self, BlockPoint};
use crate::engine::{ConnectedChain, address};
use crate::shared::invalid;
use bardo_abi::erc4626::Erc4626;
use bardo_abi::erc7540::LagoonVault;
use bardo_base::contracts::KnownContract;
use bardo_base::error::ToolError;
use bardo_base::units::TokenAmount;
use finding::{VaultFinding, share, share_pct};
use golem_chain::multicall::CallBatch;
use golem_chain::token::TokenInfo;
use golem_protocols::erc7540::requests::{Asynchrony, AsynchronyQuestions, RequestQuestions, Requests};

/// Distances of past blocks whose share price is read, each with the largest rise since then that earnings may explain, in
/// basis points. With a block every twelve seconds they are the last block, an hour, a day and a week.
const PAST: [(u64, u32); 4] = [(1, 100), (300, 500), (7_200, 1_000), (50_400, 2_000)];

/// Fall of the share price that is reported, in basis points. Less can be rounding.
const REPORTED_FALL: u32 = 10;

/// Vault at one block.
#[derive(Debug)]
pub(crate) struct Vault {
    pub(crate) head: BlockPoint,
    pub(crate) address: Address,
    pub(crate) asset: TokenInfo,
    pub(crate) asset_address: Address,
    /// Decimals of the shares.
    pub(crate) decimals: u8,
    pub(crate) total_assets: U256,
    pub(crate) total_shares: U256,
    /// Worth of one whole share in raw units of the asset, by the vault's own conversion.
    pub(crate) unit_worth: U256,
    /// Actions of it that are requests, by its own answer.
    pub(crate) asynchrony: Asynchrony,
    /// True if the vault says that it is paused; false for one that cannot be.
    pub(crate) is_paused: bool,
    /// Most that the vault takes in all; `None` without a cap.
    pub(crate) cap: Option<U256>,
}

/// Position of an account in a vault, with the vault's limits for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VaultAccount {
    pub(crate) shares: U256,
    /// Tokens that redeeming all shares pays, by the vault's preview; `None` if that reverts.
    pub(crate) redeems_for: Option<U256>,
    pub(crate) max_deposit: Option<U256>,
    pub(crate) max_redeem: Option<U256>,
    /// Requests in an asynchronous vault; none in any other.
    pub(crate) requests: Requests,
}

/// Share price at a past block.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PastPrice {
    /// Number of the block.
    pub(crate) block_number: u64,
    /// Tokens for one whole share, by the vault's own conversion.
    pub(crate) share_price: String,
    #[serde(skip)]
    worth: U256,
    #[serde(skip)]
    allowed_rise: u32,
}

/// Raw units of one whole share.
fn unit(decimals: u8) -> Result<U256, ToolError> {
    TokenAmount::new(U256::ZERO, decimals)?;
    let unit = U256::from(10).checked_pow(U256::from(decimals));
    unit.ok_or_else(|| invalid("vault_address", &"its shares have impossible decimals"))
}

impl Vault {
    /// Reads a vault at the newest block on which the endpoints agree: the named one, or that of the address book.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` if no vault answers at the address, or if none is named and the address book has none; the errors
    /// of its token, and the provider's.
    pub(crate) async fn read(chain: &ConnectedChain, named: Option<&str>) -> Result<Self, ToolError> {
        let vault = match named {
            Some(named) => address(named, "vault_address")?,
            None => chain.network().book.contract(KnownContract::Vault).ok_or_else(|| {
                invalid(
                    "vault_address",
                    &format_args!("name a vault: the address book of {} has none", chain.network()),
                )
            })?,
        };
        let head = blocks::newest(chain).await?;
        let mut calls = CallBatch::default();
        let asset = calls.push(vault, &Erc4626::assetCall {});
        let decimals = calls.push(vault, &Erc4626::decimalsCall {});
        let assets = calls.push(vault, &Erc4626::totalAssetsCall {});
        let shares = calls.push(vault, &Erc4626::totalSupplyCall {});
        let asynchrony = AsynchronyQuestions::push(&mut calls, vault);
        let paused = calls.push(vault, &LagoonVault::pausedCall {});
        let cap = calls.push(vault, &LagoonVault::maxCapCall {});
        let answers = chain.ask_at(calls, head.hash).await?;
        let silent = || invalid("vault_address", &"no ERC-4626 vault answers at this address");
        let asset_address = asset.take(&answers).ok_or_else(silent)?;
        let decimals = decimals.take(&answers).ok_or_else(silent)?;
        let total_assets = assets.take(&answers).ok_or_else(silent)?;
        let total_shares = shares.take(&answers).ok_or_else(silent)?;
        let asynchrony = asynchrony.take(&answers);
        let is_paused = paused.take(&answers).unwrap_or_default();
        let cap = cap.take(&answers).filter(|cap| cap.bit_len() < 128);
        let mut calls = CallBatch::default();
        let worth = calls.push(vault, &Erc4626::convertToAssetsCall { shares: unit(decimals)? });
        let named = asset_address.to_string();
        let (answers, asset) = futures::join!(chain.ask_at(calls, head.hash), chain.token(&named));
        let unit_worth = worth.take(&answers?).ok_or_else(silent)?;
        let asset = asset?;
        Ok(Self {
            head,
            address: vault,
            asset,
            asset_address,
            decimals,
            total_assets,
            total_shares,
            unit_worth,
            asynchrony,
            is_paused,
            cap,
        })
    }

    /// Reads the position of an account at the vault's block.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` if the vault does not know balances, and the provider's errors.
    pub(crate) async fn account(&self, chain: &ConnectedChain, account: Address) -> Result<VaultAccount, ToolError> {
        let mut calls = CallBatch::default();
        let shares = calls.push(self.address, &Erc4626::balanceOfCall { owner: account });
        let deposit = calls.push(self.address, &Erc4626::maxDepositCall { receiver: account });
        let redeem = calls.push(self.address, &Erc4626::maxRedeemCall { owner: account });
        let requests = RequestQuestions::push(&mut calls, self.address, account);
        let answers = chain.ask_at(calls, self.head.hash).await?;
        let silent = || invalid("vault_address", &"the vault does not answer for an account's shares");
        let shares = shares.take(&answers).ok_or_else(silent)?;
        let (max_deposit, max_redeem) = (deposit.take(&answers), redeem.take(&answers));
        let is_asynchronous = self.asynchrony != Asynchrony::default();
        let requests = if is_asynchronous { requests.take(&answers) } else { Requests::default() };
        let mut calls = CallBatch::default();
        let redeems = calls.push(self.address, &Erc4626::previewRedeemCall { shares });
        let redeems_for = redeems.take(&chain.ask_at(calls, self.head.hash).await?);
        Ok(VaultAccount { shares, redeems_for, max_deposit, max_redeem, requests })
    }

    /// Share prices at past blocks, the newest first; without the blocks whose state no endpoint gives.
    pub(crate) async fn past(&self, chain: &ConnectedChain) -> Vec<PastPrice> {
        let read = PAST.iter().filter_map(|(distance, allowed_rise)| {
            let number = self.head.number.checked_sub(*distance)?;
            Some(self.at(chain, number, *allowed_rise))
        });
        join_all(read).await.into_iter().flatten().collect()
    }

    async fn at(&self, chain: &ConnectedChain, block_number: u64, allowed_rise: u32) -> Option<PastPrice> {
        let block = blocks::block(chain, block_number.into()).await.ok()??;
        let mut calls = CallBatch::default();
        let worth = calls.push(self.address, &Erc4626::convertToAssetsCall { shares: unit(self.decimals).ok()? });
        let worth = worth.take(&chain.ask_at(calls, block.hash).await.ok()?)?;
        let share_price = self.tokens(worth).ok()?;
        Some(PastPrice { block_number, share_price, worth, allowed_rise })
    }

    /// Findings about the vault itself.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for amounts that no token has.
    pub(crate) fn findings(&self, past: &[PastPrice]) -> Result<Vec<VaultFinding>, ToolError> {
        let mut found = Vec::new();
        if self.is_paused {
            found.push(VaultFinding::Paused);
        }
        // A conversion of an empty vault is only its starting price.
        if self.total_shares.is_zero() {
            return Ok(found);
        }
        let jump =
            past.iter().find(|one| share(self.unit_worth.saturating_sub(one.worth), one.worth) > one.allowed_rise);
        if let Some(one) = jump {
            let rise_pct = share_pct(self.unit_worth.saturating_sub(one.worth), one.worth);
            found.push(VaultFinding::PriceJump { since_block: one.block_number, rise_pct });
        }
        let fall = past.iter().find(|one| share(one.worth.saturating_sub(self.unit_worth), one.worth) > REPORTED_FALL);
        if let Some(one) = fall {
            let fall_pct = share_pct(one.worth.saturating_sub(self.unit_worth), one.worth);
            found.push(VaultFinding::PriceFall { since_block: one.block_number, fall_pct });
        }
        if self.total_shares < unit(self.decimals)? / U256::from(1_000) {
            found.push(VaultFinding::FewShares { shares: self.shares(self.total_shares)? });
        }
        Ok(found)
    }

    /// Amount of the asset in whole tokens.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for impossible decimals.
    pub(crate) fn tokens(&self, raw: U256) -> Result<String, ToolError> {
        Ok(TokenAmount::new(raw, self.asset.decimals)?.to_string())
    }

    /// Amount of shares in whole shares.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for impossible decimals.
    pub(crate) fn shares(&self, raw: U256) -> Result<String, ToolError> {
        Ok(TokenAmount::new(raw, self.decimals)?.to_string())
    }

    /// Symbol of the asset, as listed; otherwise its address.
    pub(crate) fn asset_name(&self) -> String {
        if self.asset.listed { self.asset.symbol.to_string() } else { self.asset_address.to_string() }
    }
}

/// Limit in whole units; `None` for one that no amount reaches, by which vaults say that they have none.
pub(crate) fn limit(
    raw: Option<U256>,
    whole: impl Fn(U256) -> Result<String, ToolError>,
) -> Result<Option<String>, ToolError> {
    raw.filter(|raw| raw.bit_len() < 128).map(whole).transpose()
}
