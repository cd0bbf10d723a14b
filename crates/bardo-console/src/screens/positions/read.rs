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
/// Maximum number of positions of a chain that are read.
const MOST_POSITIONS: u64 = 500;

/// Read of this screen. Chains are named by their index in the network.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    /// Page of the liquidity positions, from an offset on.
    Liquidity { chain: usize, name: SafeText, offset: u64 },
    /// Account in the lending market.
    Lending { chain: usize, name: SafeText },
    /// Shares of the address book's vault.
    Vault { chain: usize, name: SafeText },
    /// Simulated redemption of all of these shares.
    Redemption { chain: usize, name: SafeText, vault: SafeText },
}

impl Purpose {
    /// Index of the chain.
    pub(super) const fn chain(&self) -> usize {
        match self {
            Self::Liquidity { chain, .. }
            | Self::Lending { chain, .. }
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
            Self::Vault { name, .. } => ("get_vault_state", json!({ "chain": name.as_str() })),
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
    /// `None` inside if the address book names no vault, or the account has no shares.
    pub(super) vault: ReadValue<Option<VaultShares>>,
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
        let reads = [self.liquidity.read_at(), self.lending.read_at(), self.vault.read_at()];
        reads.into_iter().any(|read| read.is_none_or(|read| read < at))
    }

    /// Names of the parts whose newest reading failed, with the reason.
    pub(super) fn faults(&self) -> impl Iterator<Item = (&'static str, &SafeText)> {
        let parts = [
            ("liquidity", self.liquidity.fault.as_ref()),
            ("lending", self.lending.fault.as_ref()),
            ("vault", self.vault.fault.as_ref()),
        ];
        parts.into_iter().filter_map(|(part, fault)| Some((part, fault?)))
    }

    /// Records that a read brought nothing.
    pub(super) fn fail(&mut self, purpose: &Purpose, why: &str) {
        match purpose {
            Purpose::Liquidity { .. } => self.liquidity.fail(why),
            Purpose::Lending { .. } => self.lending.fail(why),
            Purpose::Vault { .. } | Purpose::Redemption { .. } => self.vault.fail(why),
        }
    }

    /// Stores a reply. `price` finds the price of a token by its address. Returns the read that follows from it.
    pub(super) fn receive(
        &mut self,
        purpose: &Purpose,
        response: &ToolResponse,
        now: u64,
        price: impl Fn(&SafeText) -> Option<Usd>,
    ) -> Option<Purpose> {
        // A chain whose address book lacks the contracts has no such positions.
        let absent = response.error.as_ref().is_some_and(|error| error.code() == ErrorCode::ChainUnsupported);
        let data = response.data.as_ref().filter(|_| response.error.is_none());
        match (purpose, data) {
            (Purpose::Liquidity { .. }, None) if absent => self.liquidity.set(LiquidityList::default(), now),
            (Purpose::Lending { .. }, None) if absent => self.lending.set(None, now),
            (Purpose::Vault { .. }, None) if absent => self.vault.set(None, now),
            (_, None) => self.fail(purpose, failure(response)),
            (Purpose::Liquidity { chain, name, offset }, Some(data)) => {
                return self.receive_page(*chain, name, *offset, data, now);
            }
            (Purpose::Lending { name, .. }, Some(data)) => match LendingAccount::from_data(name, data) {
                Some(account) if account.tokens.is_empty() => self.lending.set(None, now),
                Some(account) => self.lending.set(Some(account), now),
                None => self.lending.fail("the reply names no account"),
            },
            (Purpose::Vault { chain, name }, Some(data)) => match VaultShares::from_data(name, data) {
                Some(mut shares) if shares.has_shares() => {
                    // Until the shares are redeemed in a new simulation, the earlier one stays in view.
                    let before = self.vault.value.take().flatten();
                    shares.redemption =
                        before.filter(|before| before.shares == shares.shares).and_then(|before| before.redemption);
                    let vault = shares.vault.clone();
                    self.vault.set(Some(shares), now);
                    return Some(Purpose::Redemption { chain: *chain, name: name.clone(), vault });
                }
                Some(_) => self.vault.set(None, now),
                None => self.vault.fail("the reply names no vault"),
            },
            (Purpose::Redemption { vault, .. }, Some(data)) => {
                let found = self.vault.value.as_mut().and_then(Option::as_mut).filter(|shares| shares.vault == *vault);
                if let Some(shares) = found {
                    shares.redemption = Some(Redemption::from_data(data, price(&shares.asset_address)));
                }
            }
        }
        None
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
