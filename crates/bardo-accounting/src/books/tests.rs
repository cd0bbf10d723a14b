//! Lots by hand-computed cases, and the sums by any sequence of entries.

use alloy_primitives::{B256, address};
use proptest::prelude::*;

use super::*;
use crate::entry::Flow;
use bardo_base::text::SafeText;

const ACCOUNT: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const USDC: Token = Some(address!("A0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"));
const WETH: Token = Some(address!("C02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2"));
const UNI: Token = Some(address!("1f9840a85d5aF5bf1D1762F925BDADdC4201F984"));
const ETH: Token = None;

/// Prices that hold at every time.
#[derive(Default)]
struct Fixed(BTreeMap<Token, Usd>);

impl WitnessedPrices for Fixed {
    fn at(&self, _: u64, token: Token, _: u64, _: Option<CallId>) -> Option<Usd> {
        self.0.get(&token).copied()
    }
}

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

fn prices(of: &[(Token, &str)]) -> Fixed {
    Fixed(of.iter().map(|(token, price)| (*token, usd(price))).collect())
}

fn tokens() -> TokenBook {
    let facts = |symbol: &str, decimals, is_dollar, wraps_native| TokenFacts {
        symbol: SafeText::clean(symbol, 20),
        decimals,
        listed: true,
        is_dollar,
        wraps_native,
    };
    [
        (ETH, facts("ETH", 18, false, false)),
        (WETH, facts("WETH", 18, false, true)),
        (USDC, facts("USDC", 6, true, false)),
        (UNI, facts("UNI", 18, false, false)),
    ]
    .into_iter()
    .map(|(token, facts)| ((1, token), facts))
    .collect()
}

fn units(text: &str, decimals: u8) -> U256 {
    TokenAmount::parse(text, decimals).unwrap().raw()
}

fn asset(token: Token) -> Asset {
    Asset { chain_id: 1, account: ACCOUNT, token }
}

fn entry(at: u64, origin: Origin, flows: &[(Token, U256, U256)], gas: U256) -> Entry {
    Entry {
        chain_id: 1,
        account: ACCOUNT,
        block: (at, B256::ZERO),
        position: 0,
        at,
        tx: Some(B256::with_last_byte(1)),
        origin,
        action: None,
        flows: flows
            .iter()
            .map(|(token, received, given)| (*token, Flow { received: *received, given: *given }))
            .collect(),
        gas,
        note: None,
    }
}

const NONE: U256 = U256::ZERO;

/// Two purchases at 2,000 and 3,000 dollars, and a sale of one and a half ether at 4,000: the first ether cost 2,000
/// and half of the second 1,500, so 6,000 − 3,500 = 2,500 is the gain, and half an ether at 1,500 is left.
#[test]
fn the_first_bought_is_the_first_sold() {
    let mut books = Books::default();
    let tokens = tokens();
    let buy = |at, eth: &str, dollars: &str| {
        entry(at, Origin::Transaction, &[(USDC, NONE, units(dollars, 6)), (WETH, units(eth, 18), NONE)], NONE)
    };
    let open = entry(1, Origin::Opening, &[(USDC, units("5000", 6), NONE)], NONE);
    let market = prices(&[(USDC, "1"), (ETH, "9999")]);
    assert_eq!(books.post(&open, &market, &tokens).unwrap().kind, PostingKind::Opening);
    for (at, dollars) in [(2, "2000"), (3, "3000")] {
        let posting = books.post(&buy(at, "1", dollars), &market, &tokens).unwrap();
        assert_eq!(posting.kind, PostingKind::Trade);
        // The dollar side values the trade, not the price of ether.
        assert_eq!(posting.received[0].cost, Some(usd(dollars)));
        assert_eq!(posting.realised().unwrap(), SignedUsd::ZERO, "a dollar for a dollar");
    }
    let sale = entry(4, Origin::Transaction, &[(ETH, NONE, units("1.5", 18)), (USDC, units("6000", 6), NONE)], NONE);
    let posting = books.post(&sale, &market, &tokens).unwrap();
    assert_eq!(posting.realised().unwrap().to_string(), "2500");
    let left: Vec<Lot> = books.lots.get(&asset(ETH)).unwrap().iter().copied().collect();
    assert_eq!(left, [Lot { at: 3, amount: units("0.5", 18), cost: Some(usd("1500")) }]);
    assert_eq!(books.held(&asset(USDC)), units("6000", 6));
}

#[test]
fn a_loss_is_a_loss_and_gas_is_a_cost_of_its_own() {
    let mut books = Books::default();
    let (tokens, market) = (tokens(), prices(&[(USDC, "1"), (ETH, "2000"), (UNI, "8")]));
    for open in [
        entry(1, Origin::Opening, &[(ETH, units("1", 18), NONE), (UNI, units("100", 18), NONE)], NONE),
        entry(2, Origin::Outside, &[(UNI, units("10", 18), NONE)], NONE),
    ] {
        books.post(&open, &market, &tokens).unwrap();
    }
    // Ether now costs 2,500: 0.01 of it as gas is worth 25, and cost 20.
    let later = prices(&[(USDC, "1"), (ETH, "2500"), (UNI, "7")]);
    let gas = units("0.01", 18);
    let sale = entry(3, Origin::Transaction, &[(UNI, NONE, units("100", 18)), (USDC, units("690", 6), NONE)], gas);
    let posting = books.post(&sale, &later, &tokens).unwrap();
    assert_eq!(posting.given[0].realised.to_string(), "-110", "690 for what cost 800");
    let paid = posting.gas.clone().unwrap();
    assert_eq!((paid.value, paid.cost, paid.realised.to_string()), (Some(usd("25")), Some(usd("20")), "5".to_owned()));
    assert_eq!(posting.realised().unwrap().to_string(), "-105");
    assert_eq!(books.held(&asset(ETH)), units("0.99", 18));
}

#[test]
fn wrapping_is_no_sale_and_keeps_the_lot() {
    let mut books = Books::default();
    let (tokens, market) = (tokens(), prices(&[(ETH, "2000")]));
    books.post(&entry(1, Origin::Opening, &[(ETH, units("2", 18), NONE)], NONE), &market, &tokens).unwrap();
    let before = books.lots.clone();
    let one = units("1", 18);
    let wrap = entry(2, Origin::Transaction, &[(ETH, NONE, one), (WETH, one, NONE)], NONE);
    let posting = books.post(&wrap, &prices(&[(ETH, "3000")]), &tokens).unwrap();
    assert_eq!(posting.kind, PostingKind::Gas);
    assert_eq!(books.lots, before);
}

#[test]
fn what_bardo_did_not_do_is_named_and_realises_nothing() {
    let mut books = Books::default();
    let (tokens, market) = (tokens(), prices(&[(ETH, "2000")]));
    let one = units("1", 18);
    let deposit = books.post(&entry(1, Origin::Outside, &[(ETH, one, NONE)], NONE), &market, &tokens).unwrap();
    assert_eq!((deposit.kind, deposit.received[0].cost), (PostingKind::Deposit, Some(usd("2000"))));
    let gone = books.post(&entry(2, Origin::Outside, &[(ETH, NONE, one)], NONE), &prices(&[(ETH, "9")]), &tokens);
    let gone = gone.unwrap();
    assert_eq!((gone.kind, gone.realised().unwrap()), (PostingKind::Withdrawal, SignedUsd::ZERO));
    assert_eq!(books.flow().transferred, usd("2000"), "it leaves at its cost");
    let sent = entry(3, Origin::Transaction, &[(UNI, NONE, one)], NONE);
    assert_eq!(books.post(&sent, &market, &tokens).unwrap().kind, PostingKind::Sent);
}

#[test]
fn an_unknown_cost_is_never_invented() {
    let mut books = Books::default();
    let (tokens, nothing) = (tokens(), Fixed::default());
    let ten = units("10", 18);
    let arrived = books.post(&entry(1, Origin::Outside, &[(UNI, ten, NONE)], NONE), &nothing, &tokens).unwrap();
    assert_eq!(arrived.received[0].cost, None);
    assert!(arrived.is_incomplete());
    let market = prices(&[(USDC, "1"), (UNI, "7")]);
    books.post(&entry(2, Origin::Outside, &[(UNI, ten, NONE)], NONE), &market, &tokens).unwrap();
    // 15 for 150 dollars: 10 of unknown cost brought 100, and 5 that cost 35 brought 50.
    let sale = entry(3, Origin::Transaction, &[(UNI, NONE, units("15", 18)), (USDC, units("150", 6), NONE)], NONE);
    let posting = books.post(&sale, &market, &tokens).unwrap();
    let leg = &posting.given[0];
    assert_eq!((leg.uncosted, leg.uncosted_value, leg.cost), (ten, usd("100"), Some(usd("35"))));
    assert_eq!(leg.realised.to_string(), "15");
    assert!(posting.is_incomplete());
}

#[test]
fn more_than_is_held_has_an_unknown_cost_or_was_held_before() {
    let (tokens, market) = (tokens(), prices(&[(USDC, "1"), (UNI, "7")]));
    let sale = entry(1, Origin::Transaction, &[(UNI, NONE, units("10", 18)), (USDC, units("80", 6), NONE)], NONE);
    let mut strict = Books::default();
    let posting = strict.post(&sale, &market, &tokens).unwrap();
    assert_eq!((posting.given[0].uncosted, posting.realised().unwrap()), (units("10", 18), SignedUsd::ZERO));
    let mut paper = Books::new(Shortage::HeldBefore);
    let posting = paper.post(&sale, &market, &tokens).unwrap();
    assert_eq!(posting.given[0].uncosted, NONE);
    assert_eq!(posting.realised().unwrap().to_string(), "10", "80 for what was worth 70");
}

#[test]
fn several_tokens_share_a_value_by_their_own() {
    let (tokens, market) = (tokens(), prices(&[(USDC, "1"), (UNI, "10"), (ETH, "2000")]));
    let mut books = Books::default();
    let both = entry(
        1,
        Origin::Transaction,
        &[(USDC, NONE, units("2000", 6)), (UNI, units("100", 18), NONE), (ETH, units("0.25", 18), NONE)],
        NONE,
    );
    let posting = books.post(&both, &market, &tokens).unwrap();
    // By themselves they are worth 500 and 1,000: a third and two thirds of the 2,000 that were paid.
    let costs: Vec<_> = posting.received.iter().map(|leg| leg.cost.unwrap().to_string()).collect();
    assert_eq!(costs, ["666.666666666666", "1333.333333333334"]);
}

/// A sale for several tokens, of which one has no price: the dollars keep their value, and the rest is worth nothing more
/// than what is left.
#[test]
fn a_token_without_a_price_does_not_hide_the_value_of_dollars() {
    let (tokens, market) = (tokens(), prices(&[(USDC, "1"), (ETH, "2000")]));
    let mut books = Books::default();
    books.post(&entry(1, Origin::Opening, &[(ETH, units("1", 18), NONE)], NONE), &market, &tokens).unwrap();
    // 0.05 ether at 2,000 are 100 dollars; a filler adds 3 UNI of dust.
    let flows = [(ETH, NONE, units("0.05", 18)), (USDC, units("99.9", 6), NONE), (UNI, units("3", 18), NONE)];
    let posting = books.post(&entry(2, Origin::Order, &flows, NONE), &market, &tokens).unwrap();
    let costs: Vec<_> = posting.received.iter().map(|leg| (leg.asset.token, leg.cost)).collect();
    assert_eq!(costs, [(UNI, Some(usd("0.1"))), (USDC, Some(usd("99.9")))]);
}

/// Two tokens without prices for 100 dollars: the dollars are proceeds of neither alone, and must be named.
#[test]
fn proceeds_that_cannot_be_assigned_are_listed() {
    let (tokens, market) = (tokens(), prices(&[(USDC, "1"), (UNI, "6")]));
    let mut books = Books::default();
    books.post(&entry(1, Origin::Opening, &[(UNI, units("10", 18), NONE)], NONE), &market, &tokens).unwrap();
    let flows = [(ETH, NONE, units("1", 18)), (UNI, NONE, units("10", 18)), (USDC, units("100", 6), NONE)];
    let posting = books.post(&entry(2, Origin::Order, &flows, NONE), &prices(&[(USDC, "1")]), &tokens).unwrap();
    assert_eq!((posting.unassigned, posting.untracked), (usd("100"), usd("60")), "ten UNI cost 6 each");
    assert_eq!(posting.realised().unwrap(), SignedUsd::ZERO);
}

/// A token whose transfers exceed 256 bits is left out; all others go on.
#[test]
fn a_token_with_impossible_amounts_is_left_out_alone() {
    let (tokens, market) = (tokens(), prices(&[(USDC, "1"), (UNI, "7")]));
    let mut books = Books::default();
    for at in 1..=3 {
        let flows = [(UNI, U256::MAX, NONE), (USDC, units("5", 6), NONE)];
        books.post(&entry(at, Origin::Outside, &flows, NONE), &market, &tokens).unwrap();
    }
    assert_eq!(books.overflowed().iter().copied().collect::<Vec<_>>(), [asset(UNI)]);
    assert_eq!((books.held(&asset(UNI)), books.held(&asset(USDC))), (NONE, units("15", 6)));
}

/// A price that would make one amount worth more than all money is none.
#[test]
fn an_impossible_value_is_unknown_and_adds_to_nothing() {
    let tokens = tokens();
    let mut books = Books::default();
    for at in 1..=3 {
        let flows = [(UNI, units("1000000", 18), NONE)];
        let posting = books.post(&entry(at, Origin::Outside, &flows, NONE), &prices(&[(UNI, "50000000000")]), &tokens);
        assert_eq!(posting.unwrap().received[0].cost, None);
    }
    assert_eq!(books.flow().opened, Usd::ZERO);
}

/// Three units bought at 1,000 and one at 2,000 move to another account: they arrive with their costs and times.
#[test]
fn lots_move_to_an_own_account_at_their_cost() {
    const OTHER: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
    let tokens = tokens();
    let moved = B256::with_last_byte(9);
    let mut books = Books::default().with_own_transfers(BTreeSet::from([(1, moved)]));
    for (at, amount, price) in [(1, "3", "1000"), (2, "2", "2000")] {
        let bought = entry(at, Origin::Outside, &[(UNI, units(amount, 18), NONE)], NONE);
        books.post(&bought, &prices(&[(UNI, price)]), &tokens).unwrap();
    }
    let four = units("4", 18);
    let now = prices(&[(UNI, "9999")]);
    let left = Entry { tx: Some(moved), ..entry(3, Origin::Transaction, &[(UNI, NONE, four)], NONE) };
    assert_eq!(books.post(&left, &now, &tokens).unwrap().kind, PostingKind::OwnOut);
    let came = Entry { tx: Some(moved), account: OTHER, ..entry(3, Origin::Outside, &[(UNI, four, NONE)], NONE) };
    let posting = books.post(&came, &now, &tokens).unwrap();
    assert_eq!((posting.kind, posting.received[0].cost), (PostingKind::OwnIn, Some(usd("5000"))));
    let lots: Vec<Lot> = books.lots.get(&Asset { account: OTHER, ..asset(UNI) }).unwrap().iter().copied().collect();
    let lot = |at, amount, cost| Lot { at, amount: units(amount, 18), cost: Some(usd(cost)) };
    assert_eq!(lots, [lot(1, "3", "3000"), lot(2, "1", "2000")]);
    assert_eq!(books.flow().transferred, Usd::ZERO);
}

/// A difference that nothing explains is named, opens or closes lots, and realises nothing.
#[test]
fn an_unexplained_difference_keeps_lots_and_balances_together() {
    let (tokens, market) = (tokens(), prices(&[(USDC, "1"), (UNI, "7")]));
    let mut books = Books::default();
    let opened = entry(1, Origin::Opening, &[(UNI, units("10", 18), NONE)], NONE);
    books.post(&opened, &market, &tokens).unwrap();
    let flows = [(UNI, NONE, units("1", 18)), (USDC, units("2", 6), NONE)];
    let posting = books.post(&entry(2, Origin::Unexplained, &flows, NONE), &market, &tokens).unwrap();
    assert_eq!((posting.kind, posting.realised().unwrap()), (PostingKind::Unexplained, SignedUsd::ZERO));
    assert_eq!((books.held(&asset(UNI)), books.held(&asset(USDC))), (units("9", 18), units("2", 6)));
    assert_eq!(books.flow().transferred, usd("7"));
}

/// One entry of a random sequence: token, amounts, origin, gas, and the price of everything then.
fn any_entry() -> impl Strategy<Value = (u8, u8, u64, u64, u64, Option<u64>)> {
    (0..6_u8, 0..6_u8, 1..5_000_u64, 1..5_000_u64, 0..50_u64, proptest::option::weighted(0.8, 1..100_000_u64))
}

/// Choices of both tokens, amounts in and out, gas, and the price of everything.
type GeneratedEntry = (u8, u8, u64, u64, u64, Option<u64>);

fn posted(sequence: &[GeneratedEntry]) -> (Books, BTreeMap<Asset, i128>, Vec<Posting>) {
    let tokens = tokens();
    let (mut books, mut held, mut postings) = (Books::default(), BTreeMap::new(), Vec::new());
    for (at, (first, second, more, less, gas, price)) in (1..).zip(sequence) {
        let of = [ETH, USDC, UNI];
        let (into, from) = (of[usize::from(first % 3)], of[usize::from(second % 3)]);
        let (bought, sold) = (U256::from(*more), U256::from(*less));
        let origin = [Origin::Transaction, Origin::Outside, Origin::Order, Origin::Bridge][usize::from(*first) % 4];
        let flows: Vec<_> = match (first % 2, second % 3) {
            (0, 0) => vec![(into, bought, NONE)],
            (0, 1) => vec![(from, NONE, sold)],
            _ if into == from => vec![(into, bought, sold)],
            _ => vec![(into, bought, NONE), (from, NONE, sold)],
        };
        let market: Vec<(Token, Usd)> = match price {
            Some(price) => of
                .iter()
                // A price a unit, whatever the decimals.
                .map(|token| {
                    (*token, Usd::from_scaled(U256::from(*price) * U256::from(10).pow(U256::from(13)), 2).unwrap())
                })
                .collect(),
            None => Vec::new(),
        };
        let entry = entry(at, origin, &flows, U256::from(*gas));
        for (token, received, given) in &flows {
            *held.entry(asset(*token)).or_insert(0_i128) +=
                i128::try_from(*received).unwrap() - i128::try_from(*given).unwrap();
        }
        *held.entry(asset(ETH)).or_insert(0) -= i128::from(*gas);
        postings.push(books.post(&entry, &Fixed(market.into_iter().collect()), &tokens).unwrap());
    }
    (books, held, postings)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Lots hold the balance to the last unit, as long as nothing left that had not come.
    #[test]
    fn lots_add_up_to_the_balance(mut sequence in proptest::collection::vec(any_entry(), 1..40)) {
        // Enough of everything first.
        for first in [0, 2, 4] {
            sequence.insert(0, (first, 0, 4_000_000, 1, 0, Some(7)));
        }
        let (books, held, _) = posted(&sequence);
        for (asset, amount) in held {
            prop_assert_eq!(i128::try_from(books.held(&asset)).unwrap(), amount);
        }
    }

    /// Every dollar of cost is somewhere, to the last of the twelve decimals, in any sequence: what came in and was
    /// gained is in the lots, was transferred, bridged, paid as gas, or lost sight of.
    #[test]
    fn realised_and_cost_account_for_every_dollar(sequence in proptest::collection::vec(any_entry(), 1..60)) {
        let (books, _, postings) = posted(&sequence);
        let flow = books.flow();
        let lots = books.lots().flat_map(|(_, lots)| lots).filter_map(|lot| lot.cost);
        let cost = lots.into_iter().try_fold(Usd::ZERO, Usd::checked_add).unwrap();
        let sum = |of: &[Usd]| of.iter().try_fold(Usd::ZERO, |sum, one| sum.checked_add(*one)).unwrap();
        let came = SignedUsd::gain(sum(&[flow.opened, flow.uncosted_proceeds])).checked_add(flow.realised).unwrap();
        let is = SignedUsd::gain(sum(&[cost, flow.transferred, flow.bridged, flow.gas, flow.untracked]));
        prop_assert_eq!(came, is);
        let realised = postings.iter().map(|one| one.realised().unwrap());
        let realised = realised.into_iter().try_fold(SignedUsd::ZERO, SignedUsd::checked_add).unwrap();
        prop_assert_eq!(realised, flow.realised);
    }
}
