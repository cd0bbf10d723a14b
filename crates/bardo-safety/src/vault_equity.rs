//! Shares of vaults as a part of an account's equity, at what a simulated redemption pays out. Without them a deposit would look
//! like a loss; by the vaults' own words a vault could make any equity up. What the account holds for the depositors of a vault
//! that it manages is subtracted: it is not the operator's.

use std::collections::BTreeSet;

use alloy::primitives::Address;

use crate::chain_snapshot::SnapshotReader;
use crate::check_inputs::Portfolio;
use crate::value::{PriceSpreads, UnknownValue};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::fork::Fork;
use golem_chain::network::AddressBook;
use golem_chain::token::TokenId;
use golem_protocols::erc4626::holding::{self, HoldingSources, VaultHolding};

/// Reads the account's shares of these vaults on the block of `fork`, with what redeeming them pays out.
///
/// # Errors
/// [`UnknownValue`] if the chain does not answer, or nothing can be simulated.
pub async fn held(
    reader: &SnapshotReader,
    fork: &Fork,
    account: Address,
    vaults: &BTreeSet<Address>,
) -> Result<Vec<VaultHolding>, UnknownValue> {
    let sources = HoldingSources::of(reader.client.agreed(), &reader.network().book);
    let Some(sources) = sources else { return Ok(Vec::new()) };
    holding::held(sources, fork, account, vaults).await.map_err(UnknownValue::because)
}

/// Adds shares to a portfolio, at the price of what redeeming them pays out. Shares that cannot be redeemed, and those of a vault
/// whose token is not listed or has no price, count as nothing. What the account owes as a vault's Safe is subtracted, from what
/// feeds price first; the equity is zero where that is more than everything else.
///
/// # Errors
/// [`UnknownValue`] if the shares could not be read, what is owed has no price, or a sum is out of range.
pub fn with(
    mut portfolio: Portfolio,
    vaults: &Result<Vec<VaultHolding>, UnknownValue>,
    spreads: &PriceSpreads,
    book: &AddressBook,
) -> Result<Portfolio, UnknownValue> {
    let mut owed = Usd::ZERO;
    for one in vaults.as_ref().map_err(Clone::clone)? {
        owed = owed.checked_add(owes(one, spreads, book)?).map_err(UnknownValue::because)?;
        // Counted here alone, also where a pool has a price of the share.
        let own = portfolio.holdings.iter().position(|held| held.token.id == TokenId::Erc20(one.vault));
        if let Some(own) = own.map(|at| portfolio.holdings.remove(at)) {
            let fed = spreads.get(own.token.id).is_ok_and(|spread| spread.feed.is_some());
            let sum = if fed { &mut portfolio.equity } else { &mut portfolio.by_pools };
            *sum = sum.checked_sub(own.value).map_err(UnknownValue::because)?;
        }
        let listed = book.token_at(one.asset).zip(spreads.get(TokenId::Erc20(one.asset)).ok());
        let (Ok(pays), Some((token, spread))) = (&one.pays, listed) else { continue };
        let amount = TokenAmount::new(*pays, token.decimals).map_err(UnknownValue::because)?;
        let value = |price, rounding| Usd::value_of(amount, price, rounding).map_err(UnknownValue::because);
        let sum = if spread.feed.is_some() { &mut portfolio.equity } else { &mut portfolio.by_pools };
        *sum = sum.checked_add(value(spread.held(), Rounding::Down)?).map_err(UnknownValue::because)?;
        // A limit on one holding counts the shares, and the token that they stand for.
        let most = value(spread.all.highest, Rounding::Up)?;
        for held in [one.vault, one.asset] {
            let sum = portfolio.in_positions.entry(TokenId::Erc20(held)).or_default();
            *sum = sum.checked_add(most).map_err(UnknownValue::because)?;
        }
    }
    // What pools price does not add to the equity where a feed's price is needed, so the rest is subtracted there.
    let rest = owed.checked_sub(portfolio.equity).unwrap_or(Usd::ZERO);
    portfolio.equity = portfolio.equity.checked_sub(owed).unwrap_or(Usd::ZERO);
    portfolio.by_pools = portfolio.by_pools.checked_sub(rest).unwrap_or(Usd::ZERO);
    Ok(portfolio)
}

/// Value of what the account holds for a vault that it manages.
fn owes(one: &VaultHolding, spreads: &PriceSpreads, book: &AddressBook) -> Result<Usd, UnknownValue> {
    if one.owed.is_zero() {
        return Ok(Usd::ZERO);
    }
    let unlisted =
        || UnknownValue::because(format_args!("what the vault {} is owed is not in a listed token", one.vault));
    let token = book.token_at(one.asset).ok_or_else(unlisted)?;
    let spread = spreads.get(TokenId::Erc20(one.asset))?;
    let amount = TokenAmount::new(one.owed, token.decimals).map_err(UnknownValue::because)?;
    Usd::value_of(amount, spread.held(), Rounding::Up).map_err(UnknownValue::because)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::U256;

    use super::*;
    use crate::check_inputs::PortfolioHolding;
    use crate::sample;
    use crate::value::{PriceBand, PriceSpread};
    use bardo_base::text::SafeText;
    use golem_chain::network::BookToken;

    const VAULT: Address = Address::repeat_byte(1);
    const ASSET: Address = Address::repeat_byte(2);

    fn book() -> AddressBook {
        let mut book = AddressBook::default();
        let (symbol, name) = ("T".to_owned(), "T".to_owned());
        book.set_token(BookToken { symbol, name, decimals: 6, address: ASSET });
        book
    }

    fn shares(pays: Option<u64>, asset: Address) -> VaultHolding {
        let pays = pays.map(U256::from).ok_or_else(|| SafeText::clean("locked", 20));
        VaultHolding {
            vault: VAULT,
            asset,
            shares: U256::from(7),
            decimals: Some(6),
            pays,
            is_partial: false,
            worth: U256::ZERO,
            requests: None,
            owed: U256::ZERO,
            only_claims: false,
        }
    }

    fn equity(holding: VaultHolding, prices: &[(Address, PriceSpread)]) -> Portfolio {
        let of = prices.iter().map(|(token, spread)| (*token, Ok(*spread))).collect();
        let held = Portfolio { equity: "100".parse().unwrap(), ..Portfolio::default() };
        with(held, &Ok(vec![holding]), &PriceSpreads { of, wrapped: None }, &book()).unwrap()
    }

    /// By hand: a redemption pays 50 tokens at $2, so $100 are $200.
    #[test]
    fn shares_count_what_they_pay_out_and_nothing_where_they_do_not() {
        let usd = |text: &str| text.parse::<Usd>().unwrap();
        let priced = [(ASSET, PriceSpread::fed(usd("2")))];
        let found = equity(shares(Some(50_000_000), ASSET), &priced);
        assert_eq!((found.equity, found.by_pools), (usd("200"), Usd::ZERO));
        assert_eq!(found.in_positions[&TokenId::Erc20(VAULT)], usd("100"));
        assert_eq!(found.in_positions[&TokenId::Erc20(ASSET)], usd("100"));
        assert_eq!(equity(shares(None, ASSET), &priced).equity, usd("100"), "locked");
        assert_eq!(equity(shares(Some(50_000_000), ASSET), &[]).equity, usd("100"), "no price");
        let other = Address::repeat_byte(9);
        let gift = equity(shares(Some(50_000_000), other), &[(other, PriceSpread::fed(usd("2")))]);
        assert_eq!(gift.equity, usd("100"), "a token that is not listed");
        let pools = PriceSpread::lagging(PriceBand::of(usd("2"), None));
        let found = equity(shares(Some(50_000_000), ASSET), &[(ASSET, pools)]);
        assert_eq!((found.equity, found.by_pools), (usd("100"), usd("100")), "only pools price the token");
        let unread = Err(UnknownValue::because("silence"));
        assert!(with(Portfolio::default(), &unread, &PriceSpreads::default(), &book()).is_err());
    }

    /// By hand: $100 are held, 30 tokens at $2 are the depositors', and own shares are 10 of these tokens.
    #[test]
    fn what_is_owed_to_depositors_is_not_the_operators() {
        let usd = |text: &str| text.parse::<Usd>().unwrap();
        let priced = [(ASSET, PriceSpread::fed(usd("2")))];
        let managed = |pays, owed: u64| VaultHolding { owed: U256::from(owed), ..shares(pays, ASSET) };
        assert_eq!(equity(managed(None, 30_000_000), &priced).equity, usd("40"));
        assert_eq!(equity(managed(Some(10_000_000), 30_000_000), &priced).equity, usd("60"));
        assert_eq!(equity(managed(None, 50_000_001), &priced).equity, Usd::ZERO, "more than is held");
        let unknown = with(Portfolio::default(), &Ok(vec![managed(None, 1)]), &PriceSpreads::default(), &book());
        assert!(unknown.is_err(), "without a price nobody knows what is left");
    }

    #[test]
    fn a_share_with_a_price_of_its_own_counts_once() {
        let usd = |text: &str| text.parse::<Usd>().unwrap();
        let token = sample::token(VAULT, "S", 6);
        let (amount, value) = (U256::from(7), usd("900"));
        let own = PortfolioHolding { token, amount, value, highest: value };
        let held = Portfolio { equity: usd("1000"), holdings: vec![own], ..Portfolio::default() };
        let of = [(ASSET, Ok(PriceSpread::fed(usd("2")))), (VAULT, Ok(PriceSpread::fed(usd("1"))))].into();
        let spreads = PriceSpreads { of, wrapped: None };
        let found = with(held, &Ok(vec![shares(Some(50_000_000), ASSET)]), &spreads, &book()).unwrap();
        assert_eq!(found.equity, usd("200"), "$1000 less $900, and $100 for 50 tokens");
    }
}
