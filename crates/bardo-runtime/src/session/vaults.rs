//! Shares of vaults before holdings are sold: what the vaults let go is withdrawn, and what stays is reported.

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use serde_json::json;

use super::state::SessionState;
use bardo_base::error::ToolError;
use golem_protocols::erc4626::holding::{DepositorsTokens, VaultHolding};
use golem_tools::engine::{ConnectedChain, WriteTool};
use golem_tools::vault::holding;
use golem_tools::vault::vault_withdraw::VaultWithdraw;

impl SessionState {
    /// Withdraws all shares of known vaults that these let go. Returns sentences about what stays, and why.
    pub(super) async fn leave_vaults(&self, account: Address) -> Vec<String> {
        let mut stays = Vec::new();
        for chain in self.sources.world.chains() {
            let held = match self.shares(chain, account).await {
                Ok(held) => held,
                Err(words) => {
                    stays.push(words);
                    continue;
                }
            };
            let mut failures = Vec::new();
            // A vault that pays far less than its shares are worth is not left by itself: only the operator takes such a loss.
            for one in held.iter().filter(|one| one.pays.is_ok() && !one.is_short()) {
                let params = json!({
                    "vault_address": one.vault.to_string(),
                    "shares": "max",
                    "chain": chain.network().chain_id.to_string(),
                });
                let withdrawn = self.by_hand(VaultWithdraw::META.name, params).await;
                failures.extend(withdrawn.error.map(|error| format!("Vault {}: {}.", one.vault, error.message())));
            }
            if held.is_empty() {
                continue;
            }
            match self.shares(chain, account).await {
                Ok(left) => stays.extend(left.iter().map(|one| describe(chain, one))),
                Err(words) => stays.push(words),
            }
            stays.extend(failures);
        }
        stays
    }

    /// Sentences about the account's shares of known vaults, for its owner; empty without any.
    pub(super) async fn vaults_left(&self, account: Address) -> Vec<String> {
        let mut all = Vec::new();
        for chain in self.sources.world.chains() {
            match self.shares(chain, account).await {
                Ok(left) => all.extend(left.iter().map(|one| describe(chain, one))),
                Err(words) => all.push(words),
            }
        }
        all
    }

    /// Tokens on a chain of which the account holds some for the depositors of vaults that it manages, with a vault and the sum.
    /// No vault is simulated for it, so that none can keep a sale from its end.
    ///
    /// # Errors
    /// The provider's error. Nothing may be sold or paid then: nobody knows what belongs to others.
    pub(super) async fn held_for_others(
        &self,
        chain: &ConnectedChain,
        account: Address,
    ) -> Result<BTreeMap<Address, (Address, U256)>, ToolError> {
        Ok(by_token(holding::held_for_others(&self.sources.world, chain, account).await?))
    }

    /// Shares of known vaults on a chain.
    ///
    /// # Errors
    /// A sentence for the owner if they cannot be read.
    async fn shares(&self, chain: &ConnectedChain, account: Address) -> Result<Vec<VaultHolding>, String> {
        let read = holding::read(&self.sources.world, chain, account, BlockId::latest()).await;
        let place = &chain.network().name;
        read.map_err(|error| format!("Shares of vaults on {place} could not be read and stay: {}.", error.message()))
    }
}

/// Sums of what is owed, by token, with the last vault of each.
fn by_token(owed: Vec<DepositorsTokens>) -> BTreeMap<Address, (Address, U256)> {
    owed.into_iter().fold(BTreeMap::new(), |mut all, one| {
        let sum = all.get(&one.asset).map_or(U256::ZERO, |(_, sum)| *sum);
        all.insert(one.asset, (one.vault, sum.saturating_add(one.owed)));
        all
    })
}

/// Sentence about shares that stay.
fn describe(chain: &ConnectedChain, one: &VaultHolding) -> String {
    let (place, vault) = (&chain.network().name, one.vault);
    match &one.pays {
        Ok(_) if one.is_short() => format!(
            "On {place}, shares of the vault {vault} stay: it pays far less for them now than they are worth by its price."
        ),
        Ok(_) => format!("On {place}, shares of the vault {vault} stay."),
        Err(why) => format!("On {place}, shares of the vault {vault} stay, which cannot be redeemed: {why}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_summed_by_token() {
        let [asset, other] = [2, 3].map(Address::repeat_byte);
        let owed =
            |vault, asset, owed| DepositorsTokens { asset, vault: Address::repeat_byte(vault), owed: U256::from(owed) };
        let all = by_token(vec![owed(7, asset, 5), owed(8, other, 1), owed(9, asset, 6)]);
        let wanted =
            [(asset, (Address::repeat_byte(9), U256::from(11))), (other, (Address::repeat_byte(8), U256::ONE))];
        assert_eq!(all, wanted.into());
    }
}
