//! Reports of a small history: two days, two Golems, a bridge order.

use alloy_primitives::{B256, address};

use super::*;
use crate::csv::{self, BooksMoney};
use crate::entry::{Action, Flow, Origin, TokenFacts};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;

const ACCOUNT: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const USDC: Token = Some(address!("A0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"));
/// 2026-11-26 00:00:00 UTC.
const MIDNIGHT: u64 = 1_795_651_200;

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

fn units(text: &str, decimals: u8) -> U256 {
    TokenAmount::parse(text, decimals).unwrap().raw()
}

fn tokens() -> TokenBook {
    let facts = |symbol: &str, decimals, is_dollar| TokenFacts {
        symbol: SafeText::clean(symbol, 20),
        decimals,
        listed: true,
        is_dollar,
        wraps_native: false,
    };
    let mut all = TokenBook::new();
    for chain_id in [1, 10] {
        all.insert((chain_id, None), facts("ETH", 18, false));
        all.insert((chain_id, USDC), facts("USDC", 6, true));
    }
    all
}

fn by(call: u64, golem: &str, tool: &str) -> Option<Action> {
    Some(Action {
        call_id: CallId::new(call),
        golem_id: GolemId::stored(golem).unwrap(),
        tool: SafeText::clean(tool, 40),
    })
}

fn entry(chain_id: u64, at: u64, origin: Origin, action: Option<Action>, flows: &[(Token, U256, U256)]) -> Entry {
    Entry {
        chain_id,
        account: ACCOUNT,
        block: (at, B256::ZERO),
        position: 0,
        at,
        tx: Some(B256::with_last_byte(u8::try_from(at % 251).unwrap())),
        origin,
        action,
        flows: flows
            .iter()
            .map(|(token, received, given)| (*token, Flow { received: *received, given: *given }))
            .collect(),
        gas: U256::ZERO,
        note: None,
    }
}

/// One ether bought for 2,000 on the first day and sold for 2,600 on the second, with 0.001 ether of gas at 2,500; then
/// 500 USDC bridged, of which 499 arrive.
fn history() -> (Vec<Entry>, PriceHistory) {
    let mut prices = PriceHistory::default();
    for chain_id in [1, 10] {
        for (at, ether) in [(MIDNIGHT, "2000"), (MIDNIGHT + 80_000, "2200"), (MIDNIGHT + 90_000, "2500")] {
            prices.add(chain_id, None, at, None, usd(ether));
            prices.add(chain_id, USDC, at, None, usd("1"));
        }
    }
    let none = U256::ZERO;
    let one = units("1", 18);
    let bridge = by(3, "ada", "bridge");
    let sale = entry(
        1,
        MIDNIGHT + 90_000,
        Origin::Transaction,
        by(2, "ben", "uniswap_execute_swap"),
        &[(None, none, one), (USDC, units("2600", 6), none)],
    );
    let all = vec![
        entry(1, MIDNIGHT, Origin::Opening, None, &[(USDC, units("3000", 6), none), (None, one, none)]),
        entry(
            1,
            MIDNIGHT + 60,
            Origin::Order,
            by(1, "ada", "uniswap_submit_order"),
            &[(USDC, none, units("2000", 6)), (None, one, none)],
        ),
        Entry { gas: units("0.001", 18), ..sale },
        entry(1, MIDNIGHT + 90_100, Origin::Bridge, bridge.clone(), &[(USDC, none, units("500", 6))]),
        entry(10, MIDNIGHT + 90_200, Origin::Bridge, bridge, &[(USDC, units("499", 6), none)]),
    ];
    (all, prices)
}

fn report(period: Period) -> Report {
    let (entries, prices) = history();
    build(entries, &prices, tokens(), period, Shortage::UnknownCost).unwrap()
}

#[test]
fn the_sums_are_those_of_a_calculation_by_hand() {
    let report = report(Period::default());
    // The first ether, held since the opening, cost 2,000: gas of 0.001 of it cost 2 and is worth 2.50; the rest of it
    // (0.999) cost 1,998 and 0.001 of the second 2, which is 2,000 for the sale at 2,600.
    assert_eq!(report.totals.realised.to_string(), "600.5");
    assert_eq!(
        (report.totals.gas, report.totals.fees, report.totals.trades),
        (usd("2.5"), SignedUsd::gain(usd("1")), 3)
    );
    assert_eq!(report.totals.net().unwrap().to_string(), "597");
    assert_eq!(report.totals.incomplete, 0);
    let ether = report.holdings.iter().find(|held| held.asset.token.is_none()).unwrap();
    assert_eq!((ether.amount, ether.cost, ether.value), (units("0.999", 18), usd("1998"), Some(usd("2497.5"))));
    assert_eq!(ether.unrealised.unwrap().to_string(), "499.5");
    // Realised and unrealised are what everything is worth now, less what it was worth at the opening: 3,000 in
    // dollars, and an ether at 2,000.
    let value = report.holdings.iter().map(|held| held.value.unwrap());
    let value = value.into_iter().try_fold(Usd::ZERO, Usd::checked_add).unwrap();
    assert_eq!(value.to_string(), "6096.5", "0.999 ether, 3,100 USDC, and 499 on the other chain");
    let gained = report.totals.net().unwrap().checked_add(report.unrealised().unwrap().unwrap()).unwrap();
    assert_eq!(gained, SignedUsd::difference(value, usd("5000")).unwrap());
}

#[test]
fn days_tokens_strategies_and_golems_add_up_to_the_whole() {
    // The last entry has two tokens on one side, and gas without a price.
    let (mut entries, prices) = history();
    let both = entry(
        1,
        MIDNIGHT + 200_000,
        Origin::Order,
        by(4, "ada", "x"),
        &[(None, U256::ZERO, units("0.1", 18)), (USDC, U256::ZERO, units("1", 6))],
    );
    entries.push(Entry { gas: units("0.001", 18), ..both });
    let whole = build(entries, &prices, tokens(), Period::default(), Shortage::UnknownCost).unwrap();
    assert_eq!((whole.totals.incomplete, whole.totals.unpriced_gas), (1, 1));
    add_up(&whole);
    let report = report(Period::default());
    add_up(&report);
    let names = |grouping| report.by(grouping).unwrap().into_iter().map(|group| group.name).collect::<Vec<_>>();
    assert_eq!(names(Grouping::Day), ["2026-11-26", "2026-11-27"]);
    assert_eq!(names(Grouping::Golem), ["", "ada", "ben"]);
    assert_eq!(names(Grouping::Strategy), ["", "bridge", "uniswap_execute_swap", "uniswap_submit_order"]);
    let [first, second] = report.days.as_slice() else { panic!("two days") };
    assert_eq!((first.totals.net().unwrap().to_string(), first.net_so_far.to_string()), ("0".into(), "0".into()));
    assert_eq!(first.unrealised.unwrap().to_string(), "400", "two ether at 2,200 that cost 2,000 each");
    assert_eq!(second.net_so_far.to_string(), "597");
}

fn add_up(report: &Report) {
    for grouping in [Grouping::Trade, Grouping::Day, Grouping::Token, Grouping::Strategy, Grouping::Golem] {
        let groups = report.by(grouping).unwrap();
        let net = groups.iter().map(|group| group.totals.net().unwrap());
        let net = net.into_iter().try_fold(SignedUsd::ZERO, SignedUsd::checked_add).unwrap();
        assert_eq!(net, report.totals.net().unwrap(), "{grouping:?}");
        let counts = |of: fn(&Totals) -> u64| groups.iter().map(|group| of(&group.totals)).sum::<u64>();
        let of: [fn(&Totals) -> u64; 3] = [|one| one.trades, |one| one.incomplete, |one| one.unpriced_gas];
        assert_eq!(of.map(counts), of.map(|of| of(&report.totals)), "{grouping:?}");
    }
}

#[test]
fn a_period_counts_its_own_entries_over_the_lots_of_all() {
    let second = report(Period { from: MIDNIGHT + DAY, to: u64::MAX });
    assert_eq!(second.totals.realised.to_string(), "600.5", "the cost is that of the day before");
    assert_eq!(second.posted.len(), 3);
    let first = report(Period { from: 0, to: MIDNIGHT + DAY });
    assert_eq!((first.totals.realised, first.holdings.len()), (SignedUsd::ZERO, 2));
    assert_eq!(first.unrealised().unwrap().unwrap().to_string(), "400", "at that day's last price");
}

#[test]
fn the_order_of_import_changes_nothing() {
    let (entries, prices) = history();
    let forward = build(entries.clone(), &prices, tokens(), Period::default(), Shortage::UnknownCost).unwrap();
    for turn in 0..entries.len() {
        let mut mixed = entries.clone();
        mixed.rotate_left(turn);
        mixed.reverse();
        let other = build(mixed, &prices, tokens(), Period::default(), Shortage::UnknownCost).unwrap();
        assert_eq!(other, forward);
    }
}

#[test]
fn balances_follow_from_the_entries_to_the_last_unit() {
    let (entries, _) = history();
    let on = |chain_id| balances(entries.iter().filter(|entry| entry.chain_id == chain_id));
    let held = |all: BTreeMap<Token, Option<Balance>>, token| all[&token].unwrap().held();
    assert_eq!(held(on(1), None), Some(units("0.999", 18)));
    assert_eq!(held(on(1), USDC), Some(units("3100", 6)));
    assert_eq!(held(on(10), USDC), Some(units("499", 6)));
    assert_eq!(held(balances(&entries[1..2]), USDC), None, "more left than came");
    let much = entry(1, 1, Origin::Outside, None, &[(USDC, U256::MAX, U256::ZERO)]);
    assert_eq!(balances([&much, &much])[&USDC], None, "too much for 256 bits");
}

#[test]
fn a_csv_line_has_what_a_tax_program_reads() {
    let text = csv::write(&report(Period::default()), BooksMoney::Real).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "Date,Type,Sent Amount,Sent Currency,Received Amount,Received Currency,Fee Amount,Fee Currency,Net Worth \
         Amount,Net Worth Currency,Label,Description,TxHash,Account,Chain"
    );
    let call = CallId::new(2);
    let tx = history().0[2].tx.unwrap();
    let sale = lines.iter().find(|line| line.contains("2600")).unwrap();
    let fields: Vec<&str> = sale.split(',').collect();
    assert_eq!(
        fields[..11],
        ["2026-11-27 01:00:00 UTC", "trade", "1", "ETH", "2600", "USDC", "0.001", "ETH", "2600", "USD", ""]
    );
    assert!(fields[11].contains("Trade on ethereum; uniswap_execute_swap"), "{sale}");
    // An id has random digits; its time is what matters here.
    assert!(fields[11].contains(&call.to_string()[..10]), "{sale}");
    assert_eq!(fields[12..], [tx.to_string(), ACCOUNT.to_string(), "ethereum".to_owned()]);
    // The opening has two tokens, and so two lines.
    assert_eq!(lines.len(), 1 + 6);
    assert!(
        csv::write(&report(Period::default()), BooksMoney::Paper)
            .unwrap()
            .lines()
            .skip(1)
            .all(|line| line.contains("PAPER: "))
    );
}

/// An unlisted token that calls itself USDC is not the stablecoin, in no group and no file.
#[test]
fn tokens_with_one_symbol_are_kept_apart() {
    let (mut entries, prices) = history();
    let other = address!("1111111111111111111111111111111111111111");
    let mut tokens = tokens();
    let copy = TokenFacts { is_dollar: false, listed: false, ..tokens.get(&(1, USDC)).unwrap().clone() };
    tokens.insert((1, Some(other)), copy);
    let got = [(Some(other), units("7", 6), U256::ZERO)];
    entries.push(entry(1, MIDNIGHT + 90_300, Origin::Outside, None, &got));
    let report = build(entries, &prices, tokens, Period::default(), Shortage::UnknownCost).unwrap();
    assert_eq!(report.symbol(1, USDC), "USDC");
    assert_eq!(report.symbol(1, Some(other)), format!("USDC-{other}"));
    let names: Vec<String> = report.by(Grouping::Token).unwrap().into_iter().map(|group| group.name).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("USDC")).count(), 3, "{names:?}");
    assert!(
        csv::write(&report, BooksMoney::Real).unwrap().contains(&format!(",7,USDC-{other},")),
        "{}",
        csv::write(&report, BooksMoney::Real).unwrap()
    );
}

/// A token that joins the books without a balance is no line of a tax file.
#[test]
fn an_opening_of_zero_has_no_line() {
    let entries = vec![entry(1, MIDNIGHT, Origin::Opening, None, &[(USDC, U256::ZERO, U256::ZERO)])];
    let prices = PriceHistory::default();
    let report = build(entries, &prices, tokens(), Period::default(), Shortage::UnknownCost).unwrap();
    assert_eq!(csv::write(&report, BooksMoney::Real).unwrap(), format!("{}\n", csv::HEADER));
}

/// 2,000 USDC for UNI and DAI that are worth a third and two thirds of it: the columns of the file add up to the trade.
#[test]
fn several_tokens_of_one_trade_divide_the_other_side_in_the_file() {
    let uni = Some(address!("1f9840a85d5aF5bf1D1762F925BDADdC4201F984"));
    let mut tokens = tokens();
    let facts = TokenFacts { symbol: SafeText::clean("UNI", 9), is_dollar: false, ..tokens[&(1, None)].clone() };
    tokens.insert((1, uni), facts);
    let mut prices = PriceHistory::default();
    for (token, price) in [(USDC, "1"), (uni, "10"), (None, "2000")] {
        prices.add(1, token, MIDNIGHT, None, usd(price));
    }
    let flows =
        [(USDC, U256::ZERO, units("2000", 6)), (uni, units("100", 18), U256::ZERO), (None, units("1", 18), U256::ZERO)];
    let bought = entry(1, MIDNIGHT, Origin::Order, None, &flows);
    let report = build(vec![bought], &prices, tokens, Period::default(), Shortage::UnknownCost).unwrap();
    let text = csv::write(&report, BooksMoney::Real).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    // 100 UNI at 10 are 1,000 and an ether 2,000: one third and two thirds of 2,000.
    let line = |index: usize| lines[index][2..6].to_vec();
    assert_eq!(line(0), ["1333.333333", "USDC", "1", "ETH"]);
    assert_eq!(line(1), ["666.666667", "USDC", "100", "UNI"]);
    let sum = |column: usize| lines.iter().map(|line| usd(line[column])).try_fold(Usd::ZERO, Usd::checked_add).unwrap();
    assert_eq!((sum(2), sum(8)), (usd("2000"), usd("2000")));
}

/// Test networks and other accounts are in no sum of the account's real money.
#[test]
fn a_selection_counts_neither_other_accounts_nor_other_money() {
    const OTHER: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
    let (mut entries, prices) = history();
    let own = entries.len() as u64;
    let gift = entry(1, MIDNIGHT + 5, Origin::Outside, None, &[(USDC, units("7", 6), U256::ZERO)]);
    entries.push(Entry { account: OTHER, ..gift.clone() });
    entries.push(Entry { chain_id: 11_155_111, ..gift });
    let of = |account, chains| {
        let selection = Selection { period: Period::default(), account, chains };
        build(entries.clone(), &prices, tokens(), selection, Shortage::UnknownCost).unwrap()
    };
    let selected = of(Some(ACCOUNT), Some(BTreeSet::from([1, 10])));
    assert_eq!((selected.posted.len() as u64, selected.elsewhere), (own, 2));
    assert!(selected.holdings.iter().all(|held| held.asset.account == ACCOUNT && held.asset.chain_id != 11_155_111));
    assert_eq!(selected.totals, report(Period::default()).totals);
    assert_eq!(of(None, None).posted.len() as u64, own + 2);
    // A transfer between both moves the lot, whichever of them the report is about.
    let tx = Some(B256::with_last_byte(77));
    let hundred = units("100", 6);
    let sent = entry(1, MIDNIGHT + 95_000, Origin::Transaction, None, &[(USDC, U256::ZERO, hundred)]);
    let came = entry(1, MIDNIGHT + 95_000, Origin::Outside, None, &[(USDC, hundred, U256::ZERO)]);
    entries.push(Entry { account: OTHER, tx, ..came });
    entries.push(Entry { tx, ..sent });
    let selection = Selection { account: Some(OTHER), ..Selection::default() };
    let other = build(entries, &prices, tokens(), selection, Shortage::UnknownCost).unwrap();
    let kinds: Vec<PostingKind> = other.posted.iter().map(|posted| posted.posting.kind).collect();
    assert_eq!(kinds, [PostingKind::Deposit, PostingKind::OwnIn]);
    assert_eq!(other.holdings[0].cost, usd("107"));
}

/// 500 leave and come back: no trade, and the sums are those of the prices alone.
#[test]
fn a_refund_of_a_bridge_order_is_no_trade() {
    let (mut entries, prices) = history();
    let back = entries.pop().unwrap();
    entries.push(Entry { chain_id: 1, ..back });
    let report = build(entries, &prices, tokens(), Period::default(), Shortage::UnknownCost).unwrap();
    assert_eq!(report.posted.last().unwrap().posting.kind, PostingKind::BridgeRefund);
    assert_eq!((report.totals.trades, report.totals.fees.to_string()), (2, "1".to_owned()), "499 of 500 came back");
}

/// Two chains have two prices, so the arrival may be worth more than the departure: then the fee is a gain, so that
/// net and unrealised remain the change of worth.
/// A token that was sold whole has no unrealised gain: nothing of it can gain or lose any more.
#[test]
fn what_is_not_held_any_more_has_gained_nothing() {
    let (_, prices) = history();
    let none = U256::ZERO;
    let one = units("1", 18);
    let opening = entry(1, MIDNIGHT, Origin::Opening, None, &[(None, one, none)]);
    let sale = entry(
        1,
        MIDNIGHT + 60,
        Origin::Transaction,
        by(1, "ada", "uniswap_execute_swap"),
        &[(None, none, one), (USDC, units("2000", 6), none)],
    );
    let report = build(vec![opening, sale], &prices, tokens(), Period::default(), Shortage::UnknownCost).unwrap();
    let all = report.tokens_with_results().unwrap();
    assert_eq!(all.get(&(1, None)), Some(&Some(SignedUsd::ZERO)));
}

#[test]
fn a_bridge_fee_may_be_a_gain() {
    let (mut entries, mut prices) = history();
    let arrived = entries.pop().unwrap();
    let flows = BTreeMap::from([(USDC, Flow { received: units("502", 6), given: U256::ZERO })]);
    entries.push(Entry { flows, ..arrived });
    prices.add(10, USDC, MIDNIGHT + 90_200, None, usd("1"));
    let report = build(entries, &prices, tokens(), Period::default(), Shortage::UnknownCost).unwrap();
    assert_eq!(report.totals.fees.to_string(), "-2");
    assert_eq!(report.totals.net().unwrap().to_string(), "600", "600.5 less 2.5 of gas, and 2 gained");
}

/// On a day without a price, or with the price of half of the holdings, the curve has no point; on a day without entries
/// it has one if all prices are known.
#[test]
fn a_day_without_all_prices_has_no_unrealised_gain() {
    let open = [(USDC, units("3000", 6), U256::ZERO), (None, units("1", 18), U256::ZERO)];
    let day = |days: u64| MIDNIGHT + days * DAY;
    let gas = |at| Entry { gas: U256::from(1), ..entry(1, at, Origin::Transaction, None, &[]) };
    let entries = vec![entry(1, day(0), Origin::Opening, None, &open), gas(day(2)), gas(day(5))];
    let mut prices = PriceHistory::default();
    for (at, token, price) in [
        (day(0), None, "2000"),
        (day(0), USDC, "1"),
        (day(1) + DAY / 2, None, "2100"),
        (day(1) + DAY / 2, USDC, "1"),
        // Only one of two on the third day, and none on the fourth and fifth.
        (day(2) + DAY - 1, USDC, "1"),
        (day(5), None, "2300"),
        (day(5), USDC, "1"),
    ] {
        prices.add(1, token, at, None, usd(price));
    }
    let report = build(entries, &prices, tokens(), Period::default(), Shortage::UnknownCost).unwrap();
    let known: Vec<_> = report
        .days
        .iter()
        .map(|day| {
            ((day.begins - MIDNIGHT) / DAY, day.entries, day.unrealised.map(|gain| format::nearest_cent(gain.amount())))
        })
        .collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(report.by(Grouping::Day).unwrap().len(), 3, "a day without entries is only in the curve");
    assert_eq!(known, [(0, 1, some("0.00")), (1, 0, some("100.00")), (2, 1, None), (5, 1, some("300.00"))]);
}
