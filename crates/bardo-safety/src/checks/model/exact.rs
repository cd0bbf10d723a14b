//! Exact refusals: one case per rule that violates only this rule, with its limit, value and passing value computed by
//! hand.

use super::case::{FRIEND, LISTED, ME, ModelCase, ModelTrade, OTHER, PERMIT2, PhaseFigures, ROUTER, STRANGER};
use bardo_base::error::ErrorCode;
use bardo_base::model::{ActionClass, Phase, StopLevel};

/// A swap of 100 dollars for at least 99, with 2 dollars of gas at 20 gwei, on a Friday at 08:00. The account holds 50
/// dollars of the bought token, and 1,000 in total. No check blocks it.
fn plain() -> ModelCase {
    ModelCase {
        single: None,
        per_transaction: None,
        hour: None,
        day: None,
        month: None,
        token_once: None,
        token_day: None,
        position: None,
        unfed_most: None,
        gas_most: None,
        gwei_most: None,
        allowance_most: None,
        unlimited_allowed: false,
        allowance_seconds: 600,
        tokens: "bundled",
        tool_listed: true,
        chain_listed: true,
        intent_listed: true,
        protocol_listed: true,
        wallet_listed: true,
        recipients: "self",
        contracts: "book",
        spenders: "book",
        trades_most: 10,
        calls_most: 10,
        cooldown: 60,
        stop_loss: 10,
        hours: None,
        slippage_most: 100,
        impact_most: 100,
        loss_most: 200,
        quote_most: 30,
        figures: None,
        spent: [0; 3],
        token_spent: 0,
        token_moved: 0,
        coming: 0,
        trades: 3,
        revocations: 0,
        revocations_most: 10,
        revocations_day: 0,
        exits_day: 0,
        by_hand: true,
        calls: 1,
        last_trade_ago: None,
        breaker: 3,
        high_water: 1_000,
        ledger: true,
        planned: false,
        minute: 0,
        trade: Some(traded()),
        received: 99,
        present: None,
        leaves: false,
        phase: Phase::Thriving,
        stop: None,
        class: ActionClass::NewPosition,
        reduce_only: false,
        only_revokes: false,
        token_out_listed: true,
        out: Some(100),
        gas: 2,
        gwei: 20,
        left_over: 0,
        allowance: 9,
        recipient_is_me: true,
        target: 7,
        equity: Some(1_000),
        held: 50,
        sold_percent: 10,
        unfed: false,
        by_pools: 0,
    }
}

/// A trade of 1,000 for a quoted 10,000 and at least 9,950.
fn traded() -> ModelTrade {
    ModelTrade {
        slippage: 50,
        impact: 40,
        reached: 40,
        age: 1_000,
        deadline: 30,
        exact: false,
        more: 0,
        nothing_in: false,
        nothing_out: false,
    }
}

/// Compares the violations of the changed case with `expected`, each as `rule | limit | value | what would pass`.
fn refused(change: impl FnOnce(&mut ModelCase), code: ErrorCode, expected: &[&str]) {
    let mut case = plain();
    change(&mut case);
    let verdicts = case.decide(&case.policy().unwrap());
    let told: Vec<String> = verdicts
        .iter()
        .flat_map(|verdict| verdict.violations())
        .map(|one| format!("{} | {} | {} | {}", one.rule, one.limit, one.value, one.would_pass))
        .collect();
    assert_eq!(told, expected, "{case:#?}");
    let codes: Vec<_> = verdicts.iter().filter_map(|verdict| verdict.code).collect();
    assert_eq!(codes.first(), Some(&code), "{told:?}");
}

/// Like [`refused`], for a changed trade.
fn traded_badly(change: impl FnOnce(&mut ModelTrade), expected: &str) {
    refused(|case| change(case.trade.as_mut().unwrap()), ErrorCode::SafetySlippage, &[expected]);
}

#[test]
fn the_plain_case_passes() {
    assert_eq!(plain().broken(), []);
    let verdicts = plain().decide(&plain().policy().unwrap());
    assert!(verdicts.iter().all(|verdict| verdict.violations().is_empty()), "{verdicts:#?}");
}

#[test]
fn a_stop_tells_what_it_lets_through() {
    let code = ErrorCode::Halted;
    refused(
        |case| case.stop = Some(StopLevel::ExitOnly),
        code,
        &["stop | exit-only: only exits, revocations, cancellations and refunds are signed | new-position | an \
           exit to an exit asset, a revocation or a cancellation"],
    );
    refused(
        |case| {
            case.stop = Some(StopLevel::Halt);
            (case.class, case.reduce_only) = (ActionClass::ClosePosition, true);
        },
        code,
        &[
            "stop | halt: only revocations, cancellations and refunds are signed | close-position, an exit | revocations, \
           cancellations and refunds; everything else after the operator resumes",
        ],
    );
}

#[test]
fn a_phase_tells_its_classes_and_its_share() {
    let code = ErrorCode::SafetyPhaseBlocked;
    refused(
        |case| case.phase = Phase::Defensive,
        code,
        &[
            "phase Defensive | rebalance, decrease-position, close-position, read-only | new-position | an action of \
             one of these classes, or the same in a better phase",
            "phases.defensive.exit_only | exits only: to an exit asset, to the wallet itself, at a fair price, leaving \
             no allowance | new-position | a sale of holdings for a stablecoin or the native token",
        ],
    );
    // A quarter of 100 is 25. Ten units are worth 100 dollars, so the 400 dollars that left are 40 units: a quarter of
    // 140 is 35.
    let sells = |case: &mut ModelCase, percent| {
        (case.class, case.reduce_only) = (ActionClass::DecreasePosition, true);
        (case.phase, case.sold_percent) = (Phase::Survival, percent);
    };
    refused(
        |case| sells(case, 26),
        code,
        &["phases.survival.max_position_share_bps | 25 % of a position in one trade | 0.000000000000000026 GOOD \
           (0x0000000000000000000000000000000000000201) of 0.0000000000000001 GOOD \
           (0x0000000000000000000000000000000000000201) | at most 0.000000000000000025 GOOD \
           (0x0000000000000000000000000000000000000201) now, and the rest in another trade"],
    );
    refused(
        |case| {
            sells(case, 36);
            case.token_moved = 400;
        },
        code,
        &["phases.survival.max_position_share_bps | 25 % of a position in one trade | 0.000000000000000036 GOOD \
           (0x0000000000000000000000000000000000000201) of 0.00000000000000014 GOOD \
           (0x0000000000000000000000000000000000000201) | at most 0.000000000000000035 GOOD \
           (0x0000000000000000000000000000000000000201) now, and the rest in another trade"],
    );
}

#[test]
fn a_list_tells_what_is_on_it_and_what_is_not() {
    let unlisted = |change: &dyn Fn(&mut ModelCase), expected: &str| {
        refused(|case| change(case), ErrorCode::SafetyNotAllowed, &[expected]);
    };
    unlisted(&|case| case.tool_listed = false, "allowed_tools | nothing | uniswap_execute_swap | an allowed tool");
    unlisted(&|case| case.intent_listed = false, "allowed_intent_types | nothing | swap | an allowed kind of action");
    unlisted(
        &|case| case.chain_listed = false,
        "allowed_chains | ethereum | devnet-ethereum | the same on an allowed chain",
    );
    unlisted(
        &|case| case.wallet_listed = false,
        &format!("allowed_execution_wallets | {STRANGER} | {ME} | the same with an allowed wallet"),
    );
    unlisted(&|case| case.protocol_listed = false, "allowed_protocols | nothing | uniswap | an allowed protocol");
    unlisted(
        &|case| case.recipient_is_me = false,
        &format!("allowed_recipients | self | {FRIEND} | an allowed recipient"),
    );
    unlisted(
        &|case| case.target = 1,
        &format!("allowed_contracts | book | devnet-ethereum:{ROUTER}:0xdeadbeef | an allowed contract and function"),
    );
    unlisted(
        &|case| case.target = 3,
        &format!(
            "allowed_contracts | a known function | a call without a function to {ROUTER} | a call that names its \
             function"
        ),
    );
    unlisted(&|case| case.allowance = 1, &format!("allowed_spenders | book | {STRANGER} | an allowed spender"));
    refused(
        |case| case.token_out_listed = false,
        ErrorCode::SafetyTokenNotAllowed,
        &[&format!("allowed_tokens | bundled | devnet-ethereum:{OTHER} (calls itself ODD) | an allowed token")],
    );
}

#[test]
fn a_cap_tells_what_is_left_of_it() {
    let over = |change: &dyn Fn(&mut ModelCase), expected: &str| {
        refused(|case| change(case), ErrorCode::SafetySpendingLimitExceeded, &[expected]);
    };
    // 100, and 2 of gas, which a smaller amount does not reduce.
    over(
        &|case| case.single = Some(100),
        "max_single_trade_usd | $100.00 in one action | $102.00 | at most $98.00 besides gas of at most $2.00",
    );
    over(
        &|case| case.per_transaction = Some(101),
        "spending_limits.per_transaction | $101.00 in one action | $102.00 | at most $99.00 besides gas of at most $2.00",
    );
    // Two limits on one action give one violation, of the lower limit.
    over(
        &|case| (case.single, case.per_transaction) = (Some(100), Some(100)),
        "max_single_trade_usd | $100.00 in one action | $102.00 | at most $98.00 besides gas of at most $2.00",
    );
    over(
        &|case| (case.single, case.per_transaction) = (Some(101), Some(100)),
        "spending_limits.per_transaction | $100.00 in one action | $102.00 | at most $98.00 besides gas of at most $2.00",
    );
    // Half of 202 is 101, and 2 of it are gas.
    over(
        &|case| {
            case.single = Some(202);
            case.figures =
                Some(PhaseFigures { size: 5_000, slippage: 10_000, impact: 10_000, exits_only: false, share: 10_000 });
        },
        "max_single_trade_usd | $101.00 in one action (50 % of the policy's figure) | $102.00 | at most $99.00 besides gas of at most $2.00",
    );
    // 300 − 250, 600 − 550 and 1,500 − 1,450 are 50, and 2 of it are gas.
    over(
        &|case| (case.hour, case.spent) = (Some(300), [250, 550, 1_450]),
        "max_hourly_spend_usd | $300.00 in any 60 minutes | $102.00 on top of $250.00 already spent or reserved | at \
         most $48.00 now besides gas of at most $2.00",
    );
    over(
        &|case| (case.day, case.spent) = (Some(600), [250, 550, 1_450]),
        "max_daily_spend_usd | $600.00 in any 24 hours | $102.00 on top of $550.00 already spent or reserved | at \
         most $48.00 now besides gas of at most $2.00",
    );
    over(
        &|case| (case.month, case.spent) = (Some(1_500), [250, 550, 1_450]),
        "max_monthly_spend_usd | $1,500.00 in any 30 days | $102.00 on top of $1,450.00 already spent or reserved | at \
         most $48.00 now besides gas of at most $2.00",
    );
    // Gas counts against another token's cap.
    over(
        &|case| case.token_once = Some(60),
        &format!(
            "token_caps.31337:{LISTED} | $60.00 in one action | $100.00 on top of $0.00 | at most $60.00 of this token now"
        ),
    );
    over(
        &|case| (case.token_day, case.token_spent) = (Some(200), 150),
        &format!(
            "token_caps.31337:{LISTED} | $200.00 in any 24 hours | $100.00 on top of $150.00 | at most $50.00 of this token now"
        ),
    );
    // 50 held, 40 in open orders, and 100 from this action.
    over(
        &|case| (case.position, case.coming) = (Some(189), 40),
        "max_position_size_usd | $189.00 | $190.00 of GOOD held afterwards | at most $189.00",
    );
    // Also for a token that only pools price; a token with a feed has no such limit.
    over(
        &|case| (case.unfed, case.unfed_most, case.coming) = (true, Some(189), 40),
        "max_unfed_usd | $189.00 | $190.00 of GOOD held afterwards | at most $189.00",
    );
    over(&|case| case.gas_most = Some(1), "max_gas_usd | $1.00 | $2.00 of gas at most | at most $1.00");
    over(
        &|case| case.gwei_most = Some(19),
        "max_fee_per_gas_gwei | 19000000000 wei per unit of gas | 20000000000 wei | the same when gas is cheaper",
    );
    over(
        &|case| (case.allowance_most, case.left_over) = (Some(5), 7),
        "max_allowance_usd | $5.00 | $7.00 of GOOD left as an allowance | at most $5.00",
    );
    over(
        &|case| case.allowance = 2,
        &format!(
            "allow_unlimited_allowance | exact amounts | an unlimited allowance of GOOD for {PERMIT2} | the exact \
             amount the action needs"
        ),
    );
    over(
        &|case| case.allowance = 3,
        "max_allowance_seconds | 10 min | 10 min 1 s | an allowance that ends within 10 min",
    );
}

#[test]
fn each_check_reports_the_unknown_value_it_needs() {
    refused(
        |case| case.out = None,
        ErrorCode::SafetyPriceUnknown,
        &[
            "price | every value must be known to check a limit | no price | the same when every price is known",
            "stop_loss_pct | the account's value must be known | no price | the same when it is known, or an exit now",
            "max_loss_bps | at most 200 bps lost | no price | the same when every price is known",
        ],
    );
    let ledger = "ledger | past spending must be known | the disk is gone | the same when the ledger can be read";
    refused(|case| case.ledger = false, ErrorCode::StoreUnavailable, &[ledger; 3]);
}

#[test]
fn a_rate_tells_when_it_would_pass() {
    let often = |change: &dyn Fn(&mut ModelCase), expected: &str| {
        refused(|case| change(case), ErrorCode::SafetyRateLimited, &[expected]);
    };
    // The oldest trade leaves the window in an hour.
    often(
        &|case| case.trades = 10,
        "max_trades_per_hour | 10 in any 60 minutes | 10 were made | the next one in 1 h, or an exit now",
    );
    often(
        &|case| (case.trades, case.trades_most) = (0, 0),
        "max_trades_per_hour | 0 in any 60 minutes | 0 were made | exits only: the policy allows no other trade",
    );
    often(
        &|case| case.calls = 11,
        "max_tool_calls_per_minute | 10 in any 60 seconds | 11, with this one | the same call within a minute",
    );
    // 60 − 45.
    often(
        &|case| case.last_trade_ago = Some(45),
        "cooldown_seconds | 1 min between trades | 45 s after the last one | the same in 15 s, or an exit now",
    );
    // From Friday 08:00 to Monday 09:00: three days and an hour, 73 · 3,600 s; half an hour later, 1,800 s less.
    often(
        &|case| case.hours = Some((0, 0, 9, 10)),
        "active_hours | Mon 09:00-10:00 UTC | now | the same in 3 days 1 h",
    );
    often(
        &|case| (case.hours, case.minute) = (Some((0, 0, 9, 10)), 30),
        "active_hours | Mon 09:00-10:00 UTC | now | the same in 3 days 1 h",
    );
}

#[test]
fn a_loss_tells_where_it_stops() {
    let lost = |change: &dyn Fn(&mut ModelCase), expected: &str| {
        refused(|case| change(case), ErrorCode::SafetyBalanceBreaker, &[expected]);
    };
    // A tenth below 1,000 is 900.
    lost(
        &|case| case.equity = Some(900),
        "stop_loss_pct | 10 % below the highest, $1,000.00: stops at $900.00 | $900.00 | exits, until the portfolio has \
         recovered or the operator sets a new mark",
    );
    // Holdings that only pools price count up to their limit: of 200 beside 800, half.
    lost(
        &|case| (case.equity, case.by_pools, case.unfed_most) = (Some(800), 200, Some(100)),
        "stop_loss_pct | 10 % below the highest, $1,000.00: stops at $900.00 | $900.00 | exits, until the portfolio has \
         recovered or the operator sets a new mark",
    );
    // The cool-off ends in a millisecond, rounded up to a second.
    lost(
        &|case| case.breaker = 0,
        "max_consecutive_failures | 3 in a row | 3 in a row | one trial in 1 s, or an exit now",
    );
    lost(
        &|case| case.breaker = 1,
        "max_consecutive_failures | one trial trade at a time after the cool-off | a trial trade is in progress | the \
         same after the trial trade succeeds, or an exit now",
    );
}

#[test]
fn a_trade_tells_what_would_be_enough() {
    // A slippage above its limit alone: the loss limit here allows the same loss.
    traded_badly(|trade| trade.slippage = 101, "max_slippage_bps | at most 100 bps | 101 bps | 100 bps or less");
    traded_badly(
        |trade| trade.impact = 101,
        "max_price_impact_bps | at most 100 bps | 101 bps | a smaller amount, or a deeper market",
    );
    refused(
        |case| {
            case.phase = Phase::Cautious;
            case.trade = Some(ModelTrade { slippage: 30, impact: 100, reached: 100, ..traded() });
        },
        ErrorCode::SafetySlippage,
        &["max_price_impact_bps | below 100 bps in this phase | 100 bps | a smaller amount, or a deeper market"],
    );
    refused(
        |case| {
            case.phase = Phase::Cautious;
            case.trade = Some(ModelTrade { slippage: 31, ..traded() });
        },
        ErrorCode::SafetySlippage,
        &["max_slippage_bps | at most 30 bps | 31 bps | 30 bps or less"],
    );
    traded_badly(
        |trade| trade.nothing_in = true,
        "min_out | amounts in and out above zero | 0 GOOD (0x0000000000000000000000000000000000000201) in, at least \
         0.00000000000000995 GOOD (0x0000000000000000000000000000000000000202) out | a trade with a minimum output \
         above zero",
    );
    // 10,000 less 50 basis points is 9,950.
    traded_badly(
        |trade| trade.more = -1,
        "min_out | at least 0.00000000000000995 GOOD (0x0000000000000000000000000000000000000202), the quote less 50 \
         bps | 0.000000000000009949 GOOD (0x0000000000000000000000000000000000000202) | a minimum output of \
         0.00000000000000995 GOOD (0x0000000000000000000000000000000000000202)",
    );
    traded_badly(|trade| trade.age = 31_000, "max_quote_age_seconds | at most 30 s | 31 s old | a new quote");
    traded_badly(
        |trade| trade.age = -5_001,
        "max_quote_age_seconds | at most 30 s | in the future, by this machine's clock | a new quote",
    );
    traded_badly(
        |trade| trade.deadline = -3,
        "deadline | a time in the future | 3 s ago by the chain's time | a new quote",
    );
    // 98 of 100 must be guaranteed.
    refused(
        |case| case.received = 97,
        ErrorCode::SafetySlippage,
        &["max_loss_bps | at most 200 bps of $100.00 lost | only $97.00 guaranteed to come in | at least $98.00 \
           guaranteed"],
    );
}
