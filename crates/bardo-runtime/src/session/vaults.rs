//! Shares of vaults before holdings are sold: what the vaults let go is withdrawn, and what stays is reported.

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::primitives::Address;
use serde_json::json;

use super::state::SessionState;
use golem_protocols::erc4626::holding::VaultHolding;
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

    /// Tokens on a chain of which the account holds some for the depositors of a vault that it manages, with the vault. Where that
    /// cannot be read, [`Self::leave_vaults`] says so, and nothing is held back: no vault may keep a sale from its end.
    pub(super) async fn held_for_others(&self, chain: &ConnectedChain, account: Address) -> BTreeMap<Address, Address> {
        for_others(&self.shares(chain, account).await.unwrap_or_default())
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

/// Tokens of vaults to whose depositors the account owes some, with the vault. What only the vault itself says holds nothing back.
fn for_others(held: &[VaultHolding]) -> BTreeMap<Address, Address> {
    let owing = held.iter().filter(|one| !one.owed.is_zero() && !one.only_claims);
    owing.map(|one| (one.asset, one.vault)).collect()
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
    use alloy::primitives::U256;

    use super::*;

    #[test]
    fn tokens_of_depositors_are_those_of_vaults_that_the_factory_made() {
        let asset = Address::repeat_byte(2);
        let of = |owed: u64, only_claims| {
            let held = VaultHolding {
                vault: Address::repeat_byte(1),
                asset,
                shares: U256::ZERO,
                decimals: Some(18),
                pays: Ok(U256::ZERO),
                is_partial: false,
                worth: U256::ZERO,
                requests: None,
                owed: U256::from(owed),
                only_claims,
            };
            for_others(&[held])
        };
        assert_eq!(of(1, false), [(asset, Address::repeat_byte(1))].into());
        assert_eq!((of(0, false), of(1, true)), (BTreeMap::new(), BTreeMap::new()));
    }
}
