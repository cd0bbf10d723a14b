//! Expected violations of a case: plain comparisons of whole figures, written from the descriptions of the rules. It
//! shares no code with the checks.

use super::case::{LISTED, ModelCase, PhaseFigures};
use bardo_base::model::{ActionClass, Check, Phase, StopLevel};

/// Number of rules that cases can violate: the stop; three phases by their matrix, five by `exit_only` and five by
/// position share; nine lists; price and ledger; six caps in dollars (one of them a token's), two on a position, two on
/// gas and three on allowances; five on rates; two on losses; six on trades.
pub(super) const RULES: usize = 1 + 3 + 5 + 5 + 9 + 2 + 6 + 2 + 2 + 3 + 5 + 2 + 6;

impl ModelCase {
    /// Returns every expected violation, with repetitions.
    pub(super) fn broken(&self) -> Vec<(Check, String)> {
        let mut broken = Vec::new();
        self.halt(&mut broken);
        self.phase(&mut broken);
        self.lists(&mut broken);
        self.spending(&mut broken);
        self.rate(&mut broken);
        self.losses(&mut broken);
        self.trading(&mut broken);
        broken
    }

    fn halt(&self, broken: &mut Vec<(Check, String)>) {
        let stopped = self.stop.is_some_and(|level| match level {
            StopLevel::ExitOnly | StopLevel::Flatten => !(self.reduce_only && self.sells()),
            StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke => true,
        });
        add(broken, Check::Halt, "stop", stopped && !self.only_revokes);
    }

    fn sells(&self) -> bool {
        matches!(self.class, ActionClass::DecreasePosition | ActionClass::ClosePosition)
    }

    fn phase(&self, broken: &mut Vec<(Check, String)>) {
        if self.only_revokes {
            return;
        }
        // The matrix, as the number of phases that let a class pass. A sale under a recorded plan counts as closing.
        let part = self.planned && self.ledger && self.reduce_only && self.sold_percent > 0;
        let phases = match self.class {
            ActionClass::DecreasePosition if part => 5,
            ActionClass::NewPosition | ActionClass::IncreasePosition => 2,
            ActionClass::Rebalance => 3,
            ActionClass::DecreasePosition => 4,
            ActionClass::ClosePosition | ActionClass::ReadOnly => 5,
        };
        let (number, name) = (self.number(), self.phase.as_str());
        let table = name.to_ascii_lowercase();
        add(broken, Check::PhaseGate, &format!("phase {name}"), number >= phases);

        let figures = self.figures();
        let exits_only = figures.exits_only && !self.reduce_only && self.class != ActionClass::ReadOnly;
        add(broken, Check::PhaseGate, &format!("phases.{table}.exit_only"), exits_only);

        // A hundred units were held. Units that left within the day count to the position: ten units are worth `out`.
        let gone = match (self.out, self.ledger) {
            (Some(out), true) if out > 0 => 10 * self.token_moved / out,
            _ => 0,
        };
        let too_much = self.sells() && self.sold_percent * 10_000 > (100 + gone) * figures.share;
        add(broken, Check::PhaseGate, &format!("phases.{table}.max_position_share_bps"), too_much);
    }

    fn number(&self) -> usize {
        Phase::ALL.iter().position(|phase| *phase == self.phase).unwrap()
    }

    /// Figures of the phase: the policy's own, or the defaults.
    fn figures(&self) -> PhaseFigures {
        let all = PhaseFigures { size: 10_000, slippage: 10_000, impact: 10_000, exits_only: false, share: 10_000 };
        self.figures.unwrap_or(match self.number() {
            0 => all,
            1 => PhaseFigures { size: 5_000, slippage: 30, impact: 100, ..all },
            2 | 3 => PhaseFigures { size: 5_000, exits_only: true, share: 2_500, ..all },
            _ => PhaseFigures { exits_only: true, slippage: 200, ..all },
        })
    }

    fn lists(&self, broken: &mut Vec<(Check, String)>) {
        let mut unlisted = |rule: &str, when: bool| add(broken, Check::TokenAllowlist, rule, when);
        unlisted("allowed_tools", !self.tool_listed);
        unlisted("allowed_intent_types", !self.intent_listed);
        unlisted("allowed_chains", !self.chain_listed);
        unlisted("allowed_execution_wallets", !self.wallet_listed);
        if self.only_revokes {
            return;
        }
        let bought = match self.tokens {
            "all" => true,
            "bundled" => self.token_out_listed,
            _ => false,
        };
        unlisted("allowed_tokens", !bought);
        let recipient = match self.recipients {
            "all" => true,
            "self" => self.recipient_is_me,
            _ => !self.recipient_is_me,
        };
        unlisted("allowed_recipients", !recipient);
        // Targets: from 4, the router's `execute`; 1 is another of its functions, 2 half a selector, 3 no function, and
        // 0 an unknown contract.
        let called = match (self.target, self.contracts) {
            (2 | 3, _) => false,
            (_, "all") => true,
            (target, "book" | "function") => target >= 4,
            (target, "another") => target == 1,
            (target, _) => target == 0,
        };
        unlisted("allowed_contracts", !called);
        unlisted("allowed_protocols", !self.protocol_listed || self.target == 0);
        let spender = match (self.allowance, self.spenders) {
            (5.., _) | (_, "all") => true,
            (which, "book") => which != 1,
            (which, _) => which == 1,
        };
        unlisted("allowed_spenders", !spender);
    }

    fn exempt(&self) -> bool {
        self.reduce_only || self.only_revokes
    }

    /// True if the case's demands on the limits are not known.
    fn has_unknown(&self) -> bool {
        self.out.is_none() || (self.equity.is_none() && !self.exempt())
    }

    fn spending(&self, broken: &mut Vec<(Check, String)>) {
        let mut over = |rule: &str, when: bool| add(broken, Check::SpendingLimit, rule, when);
        let (Some(out), false) = (self.out, self.has_unknown()) else { return over("price", true) };
        if !self.ledger {
            return over("ledger", true);
        }
        let above = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value > limit);
        over("max_gas_usd", above(self.gas_most, self.gas));
        over("max_fee_per_gas_gwei", above(self.gwei_most, self.gwei));
        if self.only_revokes {
            return;
        }
        if !self.reduce_only {
            self.caps(out).into_iter().for_each(|rule| over(&rule, true));
        }
        let adds =
            matches!(self.class, ActionClass::NewPosition | ActionClass::IncreasePosition | ActionClass::Rebalance);
        let mut held = |rule: &str, most: Option<u64>| {
            let too_much = self.equity.is_none() || above(most, self.held + self.coming + out);
            over(rule, adds && most.is_some() && self.recipient_is_me && too_much);
        };
        held("max_position_size_usd", self.position);
        held("max_unfed_usd", self.unfed_most.filter(|_| self.unfed));
        over("max_allowance_usd", above(self.allowance_most, self.left_over));
        over("allow_unlimited_allowance", self.allowance == 2 && !self.unlimited_allowed);
        over("max_allowance_seconds", self.allowance == 3);
    }

    /// Returns the caps in dollars that the case exceeds. An exit counts with its possible loss, gas and allowances.
    fn caps(&self, out: u64) -> Vec<String> {
        let above = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value > limit);
        // The phase reduces the limits of one action, except for exits.
        let size = if self.reduce_only { 10_000 } else { self.figures().size };
        let once = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value * 10_000 > limit * size);
        let counted = if self.reduce_only { self.counted(out) } else { out };
        let spend = counted + self.gas + self.left_over;
        // Gas counts against another token's cap.
        let of_it = counted + self.left_over;
        let token = format!("token_caps.31337:{LISTED}");
        // Only the lower of two limits on one action is reported.
        let lower = self.per_transaction.is_some_and(|most| self.single.is_none_or(|single| most < single));
        let caps = [
            ("max_single_trade_usd", !lower && once(self.single, spend)),
            ("spending_limits.per_transaction", lower && once(self.per_transaction, spend)),
            ("max_hourly_spend_usd", above(self.hour, self.spent[0] + spend)),
            ("max_daily_spend_usd", above(self.day, self.spent[1] + spend)),
            ("max_monthly_spend_usd", above(self.month, self.spent[2] + spend)),
            (&token, of_it > 0 && once(self.token_once, of_it)),
            (&token, of_it > 0 && above(self.token_day, self.token_spent + of_it)),
        ];
        caps.iter().filter(|(_, exceeded)| *exceeded).map(|(rule, _)| (*rule).to_owned()).collect()
    }

    /// Possible loss of an exit, in dollars.
    fn counted(&self, out: u64) -> u64 {
        match self.present {
            None => out.saturating_sub(self.received),
            Some((given, received)) => out.saturating_sub(self.received).min(given.saturating_sub(received)),
        }
    }

    fn rate(&self, broken: &mut Vec<(Check, String)>) {
        let mut over = |rule: &str, when: bool| add(broken, Check::RateLimit, rule, when);
        if !self.ledger {
            return over("ledger", true);
        }
        over("max_trades_per_hour", self.too_many_trades() && !self.reduce_only);
        over("max_revocations_per_hour", self.too_many_revocations() && !self.by_hand);
        over("max_gas_usd", self.too_much_revoked() && !self.by_hand);
        over("max_tool_calls_per_minute", self.calls > self.calls_most);
        over("cooldown_seconds", !self.exempt() && self.last_trade_ago.is_some_and(|ago| ago < self.cooldown));
        // Hours count from Friday, 08:00, the 104th hour of a week.
        let hour = (4 * 24 + 8 + self.minute / 60) % (7 * 24);
        let closed = self.hours.is_some_and(|(first, last, from, to)| {
            !((first..=last).contains(&(hour / 24)) && (from..to).contains(&(hour % 24)))
        });
        over("active_hours", !self.only_revokes && closed);
    }

    fn too_many_trades(&self) -> bool {
        !self.only_revokes && self.trades >= self.trades_most
    }

    fn too_many_revocations(&self) -> bool {
        self.only_revokes && self.revocations >= self.revocations_most
    }

    /// True if a day's revocations, with this one, cost more than five times the gas limit of one action. Unknown
    /// values are blocked elsewhere.
    fn too_much_revoked(&self) -> bool {
        let cost = |out: u64| self.revocations_day + out + self.left_over + self.gas;
        self.only_revokes
            && !self.has_unknown()
            && self.gas_most.zip(self.out).is_some_and(|(most, out)| {
                let counted = if self.reduce_only { self.counted(out) } else { out };
                cost(counted) > 5 * most
            })
    }

    /// True if an agent's exits of a day, with this one, sell more than the daily spending limit.
    fn too_much_sold(&self) -> bool {
        let most = self.day;
        self.reduce_only
            && !self.by_hand
            && !self.planned
            && self.out.zip(most).is_some_and(|(out, most)| out > 0 && self.exits_day + out > most)
    }

    fn losses(&self, broken: &mut Vec<(Check, String)>) {
        let mut over = |rule: &str, when: bool| add(broken, Check::BalanceBreaker, rule, when);
        if self.exempt() {
            return;
        }
        if !self.ledger {
            return over("ledger", true);
        }
        let (Some(fed), false) = (self.equity, self.has_unknown()) else { return over("stop_loss_pct", true) };
        let equity = fed + self.unfed_most.map_or(self.by_pools, |most| self.by_pools.min(most));
        let highest = equity.max(self.high_water);
        let fallen = highest - equity;
        over("stop_loss_pct", fallen > 0 && fallen * 100 >= highest * u64::from(self.stop_loss));
        over("max_consecutive_failures", self.breaker < 2);
    }

    fn trading(&self, broken: &mut Vec<(Check, String)>) {
        let mut over = |rule: &str, when: bool| add(broken, Check::SlippageGuard, rule, when);
        if let Some(trade) = &self.trade {
            let figures = self.figures();
            over("max_slippage_bps", trade.slippage > self.slippage_most.min(figures.slippage));
            let too_far_here = figures.impact < 10_000 && trade.reached >= figures.impact;
            over("max_price_impact_bps", trade.impact > self.impact_most || too_far_here);
            over("min_out", trade.nothing_in || trade.nothing_out);
            over("min_out", trade.more < 0 || trade.nothing_out);
            let old = trade.age > i64::try_from(self.quote_most).unwrap() * 1_000;
            over("max_quote_age_seconds", old || trade.age < -5_000);
            over("deadline", trade.deadline <= 0);
        }
        over("max_loss_bps", self.exchanges() && (self.out.is_none() || !self.fair() && !self.fair_by_now()));
    }

    /// True if tokens are exchanged.
    fn exchanges(&self) -> bool {
        self.trade.is_some() || self.recipient_is_me
    }

    /// True if the loss is within the limit at every price.
    fn fair(&self) -> bool {
        let kept = 10_000 - u64::from(self.loss_most);
        self.out.is_some_and(|out| self.received * 10_000 >= out * kept)
    }

    /// True if the case is an exit and its loss is within the limit by the prices that do not lag.
    fn fair_by_now(&self) -> bool {
        let kept = 10_000 - u64::from(self.loss_most);
        self.leaves && self.present.is_some_and(|(given, received)| received * 10_000 >= given * kept)
    }

    /// True if the operator must approve, because a check that does not block asks for it: an exit at a fair current
    /// price more than a quarter below the mean; an exit above the caps, or an agent's exit above the rate of trades;
    /// the operator's own revocations above the policy's rate.
    pub(super) fn asks(&self) -> bool {
        let steep = self.out.is_some_and(|out| self.received * 4 < out * 3);
        let below = self.exchanges() && !self.fair() && steep;
        let exceeds = self.reduce_only && self.out.is_some_and(|out| !self.caps(out).is_empty());
        let exceeds = exceeds || self.too_much_sold();
        let many = self.reduce_only && !self.by_hand && self.too_many_trades();
        let often = many || self.by_hand && (self.too_many_revocations() || self.too_much_revoked());
        let alone = |check: fn(&Self, &mut Vec<(Check, String)>)| {
            let mut against = Vec::new();
            check(self, &mut against);
            against.is_empty()
        };
        (below && alone(Self::trading)) || (exceeds && alone(Self::spending)) || (often && alone(Self::rate))
    }
}

fn add(broken: &mut Vec<(Check, String)>, check: Check, rule: &str, when: bool) {
    if when {
        broken.push((check, rule.to_owned()));
    }
}
