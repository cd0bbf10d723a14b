//! Reads of the screen of positions on each chain, and their results.

use serde_json::{Value, json};

use crate::screens::reading::{ReadPurpose, ReadValue, failure};
use crate::widgets::positions::lent::LendingAccount;
use crate::widgets::positions::liquidity::LiquidityPosition;
use crate::widgets::positions::shares::{Redemption, VaultShares};
use bardo_base::error::ErrorCode;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_session::envelope::ToolResponse;

/// Number of positions that one call lists, the most that the tool allows.
const PAGE: u64 = 100;
/// Maximum number of vaults of a chain that are listed.
const MOST_VAULTS: usize = 32;
/// Maximum number of positions of a chain that are read.
const MOST_POSITIONS: u64 = 500;

/// Read of this screen. Chains are named by their index in the network.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    /// Page of the liquidity positions, from an offset on.
    Liquidity { chain: usize, name: SafeText, offset: u64 },
    /// Account in the lending market.
    Lending { chain: usize, name: SafeText },
    /// Vaults that the address book and the policy name.
    Vaults { chain: usize, name: SafeText },
    /// One of them.
    Vault { chain: usize, name: SafeText, vault: SafeText },
    /// Simulated redemption of all of these shares.
    Redemption { chain: usize, name: SafeText, vault: SafeText },
}

impl Purpose {
    /// Index of the chain.
    pub(super) const fn chain(&self) -> usize {
        match self {
            Self::Liquidity { chain, .. }
            | Self::Lending { chain, .. }
            | Self::Vaults { chain, .. }
            | Self::Vault { chain, .. }
            | Self::Redemption { chain, .. } => *chain,
        }
    }
}

impl ReadPurpose for Purpose {
    fn call(&self) -> (&'static str, Value) {
        match self {
            Self::Liquidity { name, offset, .. } => {
                ("list_positions", json!({ "chain": name.as_str(), "offset": offset, "limit": PAGE }))
            }
            Self::Lending { name, .. } => ("get_lending_position", json!({ "chain": name.as_str() })),
            Self::Vaults { name, .. } => ("vault_list", json!({ "chain": name.as_str() })),
            Self::Vault { name, vault, .. } => {
                ("get_vault_state", json!({ "chain": name.as_str(), "vault_address": vault.as_str() }))
            }
            Self::Redemption { name, vault, .. } => (
                "vault_simulate_withdraw",
                json!({ "chain": name.as_str(), "vault_address": vault.as_str(), "shares": "max" }),
            ),
        }
    }
}

/// Liquidity positions of a chain.
#[derive(Debug, Clone, Default)]
pub(super) struct LiquidityList {
    /// Positions, at most [`MOST_POSITIONS`].
    pub(super) positions: Vec<LiquidityPosition>,
    /// Number of positions that are not listed, because the endpoint did not return them or there are too many.
    pub(super) missing: u64,
}

/// Positions on one chain, as far as they were read.
#[derive(Debug, Clone, Default)]
pub(super) struct ChainPositions {
    pub(super) name: SafeText,
    pub(super) liquidity: ReadValue<LiquidityList>,
    /// `None` inside if the chain has no such market, or the account has nothing there.
    pub(super) lending: ReadValue<Option<LendingAccount>>,
    /// Vaults of which the account has shares or requests, or which it manages.
    pub(super) vaults: ReadValue<Vec<VaultShares>>,
    /// Pages of a reading under way.
    pages: Vec<LiquidityPosition>,
}

impl ChainPositions {
    pub(super) fn new(name: SafeText) -> Self {
        Self { name, ..Self::default() }
    }

    /// Positions to list: the newest complete reading, or the pages so far of the first one.
    pub(super) fn positions(&self) -> &[LiquidityPosition] {
        self.liquidity.value.as_ref().map_or(&self.pages, |list| &list.positions)
    }

    /// Returns true if a part was not read since `old` milliseconds of the machine's clock.
    pub(super) fn is_older_than(&self, at: u64) -> bool {
        let reads = [self.liquidity.read_at(), self.lending.read_at(), self.vaults.read_at()];
        reads.into_iter().any(|read| read.is_none_or(|read| read < at))
    }

    /// Names of the parts whose newest reading failed, with the reason.
    pub(super) fn faults(&self) -> impl Iterator<Item = (&'static str, &SafeText)> {
        let parts = [
            ("liquidity", self.liquidity.fault.as_ref()),
            ("lending", self.lending.fault.as_ref()),
            ("vault", self.vaults.fault.as_ref()),
        ];
        parts.into_iter().filter_map(|(part, fault)| Some((part, fault?)))
    }

    /// Records that a read brought nothing.
    pub(super) fn fail(&mut self, purpose: &Purpose, why: &str) {
        match purpose {
            Purpose::Liquidity { .. } => self.liquidity.fail(why),
            Purpose::Lending { .. } => self.lending.fail(why),
            Purpose::Vaults { .. } | Purpose::Vault { .. } | Purpose::Redemption { .. } => self.vaults.fail(why),
        }
    }

    /// Stores a reply. `price` finds the price of a token by its address. Returns the reads that follow from it.
    pub(super) fn receive(
        &mut self,
        purpose: &Purpose,
        response: &ToolResponse,
        now: u64,
        price: impl Fn(&SafeText) -> Option<Usd>,
    ) -> Vec<Purpose> {
        // A chain whose address book lacks the contracts has no such positions.
        let absent = response.error.as_ref().is_some_and(|error| error.code() == ErrorCode::ChainUnsupported);
        let data = response.data.as_ref().filter(|_| response.error.is_none());
        match (purpose, data) {
            (Purpose::Liquidity { .. }, None) if absent => self.liquidity.set(LiquidityList::default(), now),
            (Purpose::Lending { .. }, None) if absent => self.lending.set(None, now),
            (Purpose::Vaults { .. }, None) if absent => self.vaults.set(Vec::new(), now),
            (_, None) => self.fail(purpose, failure(response)),
            (Purpose::Liquidity { chain, name, offset }, Some(data)) => {
                return self.receive_page(*chain, name, *offset, data, now).into_iter().collect();
            }
            (Purpose::Lending { name, .. }, Some(data)) => match LendingAccount::from_data(name, data) {
                Some(account) if account.tokens.is_empty() => self.lending.set(None, now),
                Some(account) => self.lending.set(Some(account), now),
                None => self.lending.fail("the reply names no account"),
            },
            (Purpose::Vaults { chain, name }, Some(data)) => {
                let listed = data.get("vaults").and_then(Value::as_array).into_iter().flatten().take(MOST_VAULTS);
                let own: Vec<VaultShares> = listed
                    .filter_map(|entry| VaultShares::from_entry(name, entry))
                    .filter(VaultShares::concerns)
                    .collect();
                // Until they are read again, the earlier figures stay in view.
                let mut before = self.vaults.value.take().unwrap_or_default();
                let all: Vec<VaultShares> = own
                    .into_iter()
                    .map(|one| match before.iter().position(|known| known.vault == one.vault) {
                        Some(at) => before.swap_remove(at).as_listed(one),
                        None => one,
                    })
                    .collect();
                let reads = all.iter().map(|one| Purpose::Vault {
                    chain: *chain,
                    name: name.clone(),
                    vault: one.vault.clone(),
                });
                let reads = reads.collect();
                self.vaults.set(all, now);
                return reads;
            }
            (Purpose::Vault { chain, name, vault }, Some(data)) => {
                let known = self.vaults.value.as_mut().and_then(|all| all.iter_mut().find(|one| one.vault == *vault));
                let Some(known) = known else { return Vec::new() };
                let read = VaultShares::from_data(name, data).filter(|read| read.vault == *vault);
                let Some(mut read) = read else {
                    self.vaults.fail("the reply names another vault");
                    return Vec::new();
                };
                // Until the shares are redeemed in a new simulation, the earlier one stays in view.
                (read.is_managed, read.is_paused) = (known.is_managed, known.is_paused);
                read.redemption = known.redemption.take().filter(|_| known.shares == read.shares);
                let redeems = read.has_shares() && !read.is_asynchronous;
                *known = read;
                if redeems {
                    return vec![Purpose::Redemption { chain: *chain, name: name.clone(), vault: vault.clone() }];
                }
            }
            (Purpose::Redemption { vault, .. }, Some(data)) => {
                let found = self.vaults.value.as_mut().and_then(|all| all.iter_mut().find(|one| one.vault == *vault));
                if let Some(shares) = found {
                    shares.redemption = Some(Redemption::from_data(data, price(&shares.asset_address)));
                }
            }
        }
        Vec::new()
    }

    fn receive_page(&mut self, chain: usize, name: &SafeText, offset: u64, data: &Value, now: u64) -> Option<Purpose> {
        if offset == 0 {
            self.pages.clear();
        }
        let most = usize::try_from(PAGE).unwrap_or(usize::MAX);
        let entries = data.get("positions").and_then(Value::as_array).into_iter().flatten().take(most);
        self.pages.extend(entries.filter_map(|entry| LiquidityPosition::from_entry(name, entry)));
        let number = |field: &str| data.get(field).and_then(Value::as_u64);
        match number("next_offset") {
            Some(next) if next > offset && next < MOST_POSITIONS => {
                return Some(Purpose::Liquidity { chain, name: name.clone(), offset: next });
            }
            next => {
                let beyond = next.map_or(0, |next| number("position_count").unwrap_or_default().saturating_sub(next));
                let missing = beyond.saturating_add(number("unread_count").unwrap_or_default());
                self.liquidity.set(LiquidityList { positions: std::mem::take(&mut self.pages), missing }, now);
            }
        }
        None
    }
}
