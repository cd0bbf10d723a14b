//! Liquidation: what an account holds beside dollar coins and the chains' own coins is sold, in parts that each fit what
//! the policy leaves for one sale. The plan is on record first, so that a part counts as closing the position; each part
//! goes the way of every write. Where a sliding window is full, selling waits until it frees. What is left in the end is
//! told, with the reason.
//!
//! About the whole the operator has decided: by `on_death`, by a yes, or by raising the ladder to flatten. So a part is
//! kept small enough to need no question of its own, wherever that does not make the parts too many. None of this loosens
//! a limit: parts are only ever smaller than the policy asks for.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256, U512};
use serde_json::{Value, json};

use super::asking::Own;
use super::stage::Stage;
use crate::abi::erc20::Erc20;
use crate::base::error::{ErrorCode, ToolError};
use crate::base::id::GolemId;
use crate::base::model::StopLevel;
use crate::base::text::SafeText;
use crate::base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use crate::chain::multicall::Calls;
use crate::chain::network::Contract;
use crate::chain::token::Token;
use crate::engine::{Call, Input, ToolResponse, WorldChain, WriteTool};
use crate::runtime::market::model::{Money, Network};
use crate::safety::ledger::{self, LedgerError, Micros, Span};
use crate::safety::stop::{InForce, MOST_NAME, StopError};
use crate::store::HoldError;
use crate::tools::trading::uniswap_execute_swap::ExecuteSwap;

/// What holdings are sold for.
const EXIT: &str = "USDC";

/// What needs no selling.
const EXITS: [&str; 3] = ["USDC", "USDT", "DAI"];

/// Of what a limit leaves, a part takes so much, in basis points: a check counts at the highest of all witnesses, and the
/// gas beside it.
const OF_THE_ROOM: u32 = 9_000;

/// A part that was too large is tried again at three quarters, so often: the last is a fortieth of the first.
const MOST_CUTS: u32 = 13;

/// More parts than these are not made only to spare the operator a question.
const MOST_UNASKED: u64 = 24;

/// More sales of one holding than these are none that this is meant for.
const MOST_SALES: u32 = 500;

/// How often a sale is tried again that only came too early, and the time between.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_secs(15);

/// A window that frees later than this is not waited for.
const PATIENCE_MILLIS: u64 = 3_700_000;

/// How often whoever waits looks around.
const LOOK: Duration = Duration::from_secs(1);

/// What a limit leaves is too little below a twentieth of it, and in any case not above ten dollars: most of a part would
/// be its gas. In basis points, and in millionths of a dollar.
const TOO_LITTLE: u32 = 500;
const NEVER_TOO_LITTLE: u64 = 10_000_000;

/// Why everything is sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The Golem has died.
    Death,
    /// The stop ladder stands at flatten; sold is while it does.
    Flatten,
}

impl Cause {
    const fn words(self) -> &'static str {
        match self {
            Self::Death => "the Golem's death",
            Self::Flatten => "the stop ladder",
        }
    }
}

/// A holding that is to be sold whole.
struct Holding<'a> {
    chain: &'a WorldChain,
    token: Token,
    address: Address,
}

/// What the policy leaves for a sale now.
enum Room {
    /// So many dollars.
    Now(Micros),
    /// Too little, until a window frees.
    Later {
        /// When, in milliseconds.
        at: u64,
        /// Which limit it is.
        limit: String,
    },
    /// Too little, however long one waits.
    Never(String),
}

/// What a refused sale asks for.
enum Next {
    /// A smaller one.
    Smaller,
    /// The same, a little later.
    Later,
    /// Nothing more.
    End,
}

/// Positions are left as soon as the stop ladder says so, once for each stop.
pub(super) async fn follow(stage: Arc<Stage>) {
    if stage.watch_only || stage.world.account.is_none() {
        return;
    }
    // From the beginning on: at which moment of a show it begins does not depend on how fast the machine is.
    let _attendance = stage.clock.attend();
    let halts_as = halts_as(&stage.golem_id, &stage.network);
    let mut known = None;
    loop {
        let (found, wanted) = {
            let decided = stage.decided();
            let found = stage.brake.file.read();
            let wanted = wanted(&found, &halts_as, decided.as_ref(), stage.money());
            (found, wanted)
        };
        if let InForce::Stop(stop) = found
            && known.as_ref() != Some(&stop.id)
        {
            known = Some(stop.id);
            match wanted {
                Wanted::Nothing => {}
                Wanted::Sell => {
                    stage.running.fetch_add(1, Ordering::SeqCst);
                    stage.flatten().await;
                    stage.running.fetch_sub(1, Ordering::SeqCst);
                }
                Wanted::Ask(own) => stage.own.ask(own, stage.clock.now_millis()),
            }
        }
        stage.clock.pause(LOOK).await;
    }
}

/// The name under which this session's Golem halts. All networks of a data folder share the stop file, and on each may
/// live a Golem of the same name; whether to sell is asked only where the one lives that has halted.
pub(super) fn halts_as(golem_id: &GolemId, network: &Network) -> SafeText {
    let chains: Vec<_> = network.chains.iter().map(|chain| chain.name.as_str()).collect();
    let place = match network.money {
        Money::Play => "devnet".to_owned(),
        Money::Test | Money::Real | Money::Paper | Money::Replay => chains.join(", "),
    };
    SafeText::clean(&format!("{golem_id} on {place}"), MOST_NAME)
}

/// What is done about holdings under a stop.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// Nothing.
    Nothing,
    /// They are sold.
    Sell,
    /// It is asked whether they are.
    Ask(Own),
}

/// What a stop asks for. `decided`: the one that the operator has laid down by a yes to selling.
fn wanted(found: &InForce, halts_as: &SafeText, decided: Option<&SafeText>, money: Money) -> Wanted {
    let InForce::Stop(stop) = found else { return Wanted::Nothing };
    match stop.level {
        StopLevel::Flatten if decided == Some(&stop.id) => Wanted::Sell,
        // On play money the operator's word is enough; elsewhere the file alone is no decision about money, since any
        // program of this user can write it.
        StopLevel::Flatten if stop.by.as_str() == "operator" && money == Money::Play => Wanted::Sell,
        StopLevel::Flatten => Wanted::Ask(Own::SellUnderFlatten { from: found.clone() }),
        // Its emergency halt: under it nothing can be sold, and whether to sell is not the Golem's to say.
        StopLevel::Halt if stop.by == *halts_as => Wanted::Ask(Own::SellUnderHalt { from: found.clone() }),
        StopLevel::Pause | StopLevel::ExitOnly | StopLevel::Halt | StopLevel::Revoke => Wanted::Nothing,
    }
}

/// What a refusal asks for, by the rules that stand against the sale.
fn next(error: &ToolError) -> Next {
    let violations = error.details().get("violations").and_then(Value::as_array);
    let mut rules = violations.into_iter().flatten().filter_map(|one| one.get("rule").and_then(Value::as_str));
    match error.code() {
        ErrorCode::SafetySpendingLimitExceeded | ErrorCode::RoutingInsufficientLiquidity => Next::Smaller,
        ErrorCode::SafetySlippage | ErrorCode::SafetyPhaseBlocked
            if rules.any(|rule| rule == "max_price_impact_bps" || rule.ends_with("max_position_share_bps")) =>
        {
            Next::Smaller
        }
        // Right after a fall no price is agreed on yet, and the chain moves under a preview.
        ErrorCode::SafetySlippage
        | ErrorCode::SafetyPhaseBlocked
        | ErrorCode::SafetyPriceUnknown
        | ErrorCode::SafetySimulationFailed
        | ErrorCode::SafetyRateLimited
        | ErrorCode::PermitMismatch
        | ErrorCode::PermitExpired
        | ErrorCode::CallInProgress => Next::Later,
        _ => Next::End,
    }
}

/// How much of `held` is sold at once: `room` dollars' worth, no more than `share` of the position as it was at first, cut
/// by a quarter so many times.
fn part_of(held: U256, position: U256, value: Micros, room: Micros, share: BasisPoints, cuts: u32) -> U256 {
    let by_value = match value {
        Micros::ZERO => held,
        value => {
            let part = U512::from(held) * U512::from(room.get()) / U512::from(value.get());
            if part >= U512::from(held) { held } else { U256::from(part) }
        }
    };
    let part = by_value.min(share.of(position, Rounding::Down));
    (0..cuts).fold(part, |part, _| part / U256::from(4) * U256::from(3))
}

impl Stage {
    /// The stop that the operator has laid down by a yes to selling. Nothing panics while it holds this lock.
    fn decided(&self) -> MutexGuard<'_, Option<SafeText>> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lowers the Golem's own halt to flatten by the operator's yes; holdings are sold under it.
    pub(super) fn sell_under_halt(&self, halt: &InForce) -> Result<String, StopError> {
        // Held over both, so that nobody finds the lower stop before it is known to be decided.
        let mut decided = self.decided();
        let (reason, now) = ("the operator has what is held sold", self.clock.now_millis());
        let lowered = self.brake.file.lower(halt, Some(StopLevel::Flatten), reason, "operator", now);
        if let InForce::Stop(stop) = lowered? {
            *decided = Some(stop.id);
        }
        Ok("open orders are cancelled, and what is held is sold as far as the policy lets it; nothing else passes"
            .to_owned())
    }

    /// Cancels the account's orders and sells what it holds, because the stop ladder says so.
    pub(super) async fn flatten(&self) {
        let left = self.take_orders_back(None).await;
        if left.open > 0 {
            let words = format!("{} of the open orders could not be cancelled and can still fill.", left.open);
            self.tally().remark(&words);
            self.tell_last(&words);
        }
        for words in &left.locked {
            self.tell_last(words);
        }
        self.sell_all(Cause::Flatten).await;
    }

    /// Sells what is neither a dollar nor the chain's own coin, as far as the policy lets it, and says what is left.
    pub(super) async fn sell_all(&self, cause: Cause) {
        let (Some(account), Some(rules)) = (self.world.account, &self.rules) else { return };
        // Whoever sells already sells everything.
        while self.selling.swap(true, Ordering::SeqCst) {
            if *self.leaving.borrow() {
                return;
            }
            self.clock.pause(LOOK).await;
        }
        // So does another program on this ledger, and where one does its plan is not ended by somebody else's start.
        let _alone = loop {
            let why = match rules.alone_liquidating(account, LOOK).await {
                Ok(alone) => break alone,
                Err(HoldError::Busy(_)) => self.must_end(cause).map(ToOwned::to_owned),
                Err(HoldError::Store(error)) => Some(error.to_string()),
            };
            if let Some(why) = why {
                let words = format!("Nothing was sold: {why}.");
                self.tally().remark(&words);
                self.tell_last(&words);
                self.selling.store(false, Ordering::SeqCst);
                return;
            }
        };
        let holdings = self.to_be_sold(account).await;
        let keys = holdings.iter().map(|one| (one.chain.network().chain_id, one.token.id)).collect();
        match rules.plan_liquidation(account, keys, cause.words(), self.clock.now_millis()).await {
            Ok(()) => {
                for holding in &holdings {
                    let told = self.sell(holding, account, cause).await;
                    self.tally().remark(&told);
                    self.tell_last(&told);
                    let key = (holding.chain.network().chain_id, holding.token.id);
                    if let Err(error) = rules.end_liquidation(account, key, &told, self.clock.now_millis()).await {
                        tracing::warn!(%error, "that a holding was dealt with is not on record");
                    }
                }
            }
            // Without the plan the parts would be refused one by one.
            Err(error) => {
                let words = format!("Nothing was sold: the plan could not be put on record ({error}).");
                self.tally().remark(&words);
                self.tell_last(&words);
            }
        }
        self.selling.store(false, Ordering::SeqCst);
    }

    /// Every listed token that is held and no exit, the chain's wrapped coin last: what is riskier has the day's limit
    /// first.
    async fn to_be_sold(&self, account: Address) -> Vec<Holding<'_>> {
        let mut found = Vec::new();
        for chain in self.world.chains() {
            match self.held_on(chain, account).await {
                Ok(held) => found.extend(held),
                Err(error) => {
                    let words =
                        format!("What is held on {} could not be read, and is not sold: {error}", chain.network());
                    self.tally().remark(&words);
                    self.tell_last(&words);
                }
            }
        }
        found.sort_by_key(|one| one.chain.network().book.contract(Contract::WrappedNative) == Some(one.address));
        found
    }

    async fn held_on<'a>(&self, chain: &'a WorldChain, account: Address) -> Result<Vec<Holding<'a>>, String> {
        let listed = chain.network().book.tokens().iter().filter(|token| !EXITS.contains(&token.symbol.as_str()));
        let mut calls = Calls::default();
        let asked: Vec<_> = listed
            .map(|token| (token.address, calls.push(token.address, &Erc20::balanceOfCall { owner: account })))
            .collect();
        let answers = chain.ask(calls, BlockId::latest()).await.map_err(|error| error.message().to_owned())?;
        let mut held = Vec::new();
        for (address, call) in asked {
            match call.take(&answers) {
                Some(amount) if amount.is_zero() => continue,
                Some(_) => {}
                // Where a listed token has no contract, nothing is held.
                None if call.is_void(&answers) => continue,
                None => {
                    let words = format!("Whether any of {address} is held could not be read, and none of it is sold.");
                    self.tally().remark(&words);
                    self.tell_last(&words);
                    continue;
                }
            }
            let token = chain.token(&address.to_string()).await.map_err(|error| error.message().to_owned())?;
            held.push(Holding { chain, token, address });
        }
        Ok(held)
    }

    /// Why selling ends now, whatever is left.
    fn must_end(&self, cause: Cause) -> Option<&'static str> {
        let flattens = self.brake.file.read().level() == Some(StopLevel::Flatten);
        match cause {
            _ if *self.leaving.borrow() => Some("the session ends"),
            Cause::Flatten if !flattens => Some("the stop ladder does not say so any more"),
            Cause::Flatten | Cause::Death => None,
        }
    }

    /// Waits until a moment of the ledger's clock; false where selling must end before.
    async fn wait_until(&self, at: u64, cause: Cause) -> bool {
        while let Some(left) = at.checked_sub(self.clock.now_millis()).filter(|left| *left > 0) {
            if self.must_end(cause).is_some() {
                return false;
            }
            self.clock.pause(Duration::from_millis(left).min(LOOK)).await;
        }
        self.must_end(cause).is_none()
    }

    /// Sells one holding part by part; what became of it.
    async fn sell(&self, holding: &Holding<'_>, account: Address, cause: Cause) -> String {
        let (mut sales, mut cuts, mut tries) = (0_u32, 0_u32, 0_u32);
        let mut position = None;
        let why = loop {
            let (held, value) = match self.worth(holding, account).await {
                Ok(found) => found,
                Err(error) => break error.message().to_owned(),
            };
            if held.raw().is_zero() {
                let sold = format!("Sold all {} on {}.", holding.token.symbol, holding.chain.network().name);
                return if sales > 1 { format!("{sold} It took {sales} sales.") } else { sold };
            }
            if let Some(why) = self.must_end(cause) {
                break why.to_owned();
            }
            if sales >= MOST_SALES {
                break format!("{MOST_SALES} sales were made of it");
            }
            let room = match self.room(holding, account) {
                Err(why) => break why,
                Ok(Room::Never(why)) => break why,
                Ok(Room::Later { at, limit }) => {
                    let seconds = at.saturating_sub(self.clock.now_millis()).div_ceil(1_000);
                    if seconds.saturating_mul(1_000) > PATIENCE_MILLIS {
                        break format!("{limit} are used up, and begin to free in {seconds} s");
                    }
                    if !self.wait_until(at.saturating_add(1), cause).await {
                        break self.must_end(cause).unwrap_or("selling was ended").to_owned();
                    }
                    continue;
                }
                Ok(Room::Now(room)) => room,
            };
            let position = *position.get_or_insert(held.raw());
            let part = self.part(held.raw(), position, value, room, cuts);
            let whole = part >= held.raw();
            let amount = match TokenAmount::new(part, held.decimals()) {
                Ok(_) if whole => "max".to_owned(),
                Ok(part) if !part.raw().is_zero() => part.to_string(),
                Ok(_) | Err(_) => break "the parts that the policy leaves are too small to be sold".to_owned(),
            };
            let response = self.sell_part(holding, &amount).await;
            let Some(error) = response.error else {
                // What was too large by a witness that lags may fit by now.
                (sales, tries, cuts) = (sales.saturating_add(1), 0, cuts.saturating_sub(1));
                continue;
            };
            match next(&error) {
                Next::Smaller if cuts < MOST_CUTS => cuts += 1,
                Next::Later if tries < TRIES => {
                    tries += 1;
                    let due = self.clock.now_millis().saturating_add(BETWEEN_TRIES.as_millis() as u64);
                    if !self.wait_until(due, cause).await {
                        break self.must_end(cause).unwrap_or("selling was ended").to_owned();
                    }
                }
                Next::Smaller | Next::Later | Next::End => break error.message().to_owned(),
            }
        };
        let left = match self.worth(holding, account).await {
            Ok((held, _)) => held.to_string(),
            Err(_) => "what was not sold".to_owned(),
        };
        let (symbol, chain) = (&holding.token.symbol, &holding.chain.network().name);
        match sales {
            0 => format!("{symbol} on {chain} was not sold: {why}"),
            1 => format!("{symbol} on {chain}: one sale, {left} left: {why}"),
            sales => format!("{symbol} on {chain}: {sales} sales, {left} left: {why}"),
        }
    }

    async fn sell_part(&self, holding: &Holding<'_>, amount: &str) -> ToolResponse {
        let params = json!({
            "token_in": holding.address.to_string(), "token_out": EXIT, "amount": amount,
            "chain": holding.chain.network().chain_id.to_string(), "prefer_uniswapx": false,
        });
        self.operator.call(Call::new(ExecuteSwap::META.name, Input::Json(params))).await
    }

    /// What is held, and what that is worth; no dollars where there is no price, and then the sale itself says so.
    async fn worth(&self, holding: &Holding<'_>, account: Address) -> Result<(TokenAmount, Option<Usd>), ToolError> {
        let mut calls = Calls::default();
        let balance = calls.push(holding.address, &Erc20::balanceOfCall { owner: account });
        let answers = holding.chain.ask(calls, BlockId::latest()).await?;
        let silent = || ToolError::new(ErrorCode::TokenInvalid, "the token does not answer balanceOf");
        let held = TokenAmount::new(balance.take(&answers).ok_or_else(silent)?, holding.token.decimals)?;
        let reports = holding.chain.prices.prices(&[holding.address]).await;
        let price = reports.first().and_then(|report| report.price.as_ref()).map(|price| price.usd);
        Ok((held, price.and_then(|price| Usd::value_of(held, price, Rounding::Up).ok())))
    }

    /// The least that any limit on spending leaves now. An exit is not made smaller by its phase.
    fn room(&self, holding: &Holding<'_>, account: Address) -> Result<Room, String> {
        let keeper = self.keeper.as_ref().ok_or("no policy is followed here")?;
        let caps = keeper.current().policy.caps(*self.phase_now.borrow(), true);
        let (now, chain_id) = (self.clock.now_millis(), holding.chain.network().chain_id);
        let key = (chain_id, holding.token.id);
        let read = self
            .ledger
            .store
            .read(|connection| ledger::usage(connection, now, chain_id, account, [&key], caps.cool_off));
        let usage = read.map_err(|error: LedgerError| error.to_string())?;
        if usage.trades_hour >= caps.trades_per_hour {
            let limit = format!("{} trades in any 60 minutes", caps.trades_per_hour);
            return Ok(match usage.trade_frees_at.filter(|_| caps.trades_per_hour > 0) {
                Some(at) => Room::Later { at, limit },
                None => Room::Never(format!("the policy allows {limit}")),
            });
        }
        let enough = Micros::new(NEVER_TOO_LITTLE).map_err(|error| error.to_string())?;
        let twentieth = BasisPoints::new(TOO_LITTLE).unwrap_or(BasisPoints::ZERO);
        let token_day = usage.tokens.get(&key).copied().unwrap_or_default();
        let of_token = caps.tokens.get(&key).copied().unwrap_or_default();
        let general = caps.spend.iter().map(|cap| (cap.limit, cap.span, usage.spent(cap.span)));
        let once = of_token.once.map(|limit| (limit, Span::Once, Micros::ZERO));
        let day = of_token.day.map(|limit| (limit, Span::Day, token_day));
        let mut room = Micros::MAX;
        for (limit, span, spent) in general.chain(once).chain(day) {
            let left = limit.less(spent);
            if left < limit.share(twentieth).min(enough) || left == Micros::ZERO {
                let words = format!("{limit} {}", span.words());
                return Ok(match usage.window(span).frees_at.filter(|_| limit > Micros::ZERO) {
                    Some(at) => Room::Later { at, limit: words },
                    None => Room::Never(format!("the policy lets no more than {words} be spent")),
                });
            }
            room = room.min(left);
        }
        Ok(Room::Now(room))
    }

    /// How much of a holding is offered next, in raw units.
    fn part(&self, held: U256, position: U256, value: Option<Usd>, room: Micros, cuts: u32) -> U256 {
        let Some(policy) = self.keeper.as_ref().map(|keeper| keeper.current().policy) else { return U256::ZERO };
        let rules = policy.rules();
        let share = rules.phases.of(*self.phase_now.borrow()).max_position_share_bps.0;
        let down = |usd: Usd| Micros::of(usd, Rounding::Down).ok();
        // Without a price only the whole can be tried; no check lets it pass.
        let Some(value) = value.and_then(|value| Micros::of(value, Rounding::Up).ok()) else { return held };
        let own = rules.tools.0.get(ExecuteSwap::META.name).map(|rule| rule.requires_approval_above_usd);
        let asked = [Some(rules.require_human_approval_above_usd), Some(rules.spending_limits.hot_lane), own];
        let unasked = asked.into_iter().flatten().filter_map(|most| down(most.0?)).min();
        let few = |unasked: &Micros| value.get() / unasked.get().max(1) < MOST_UNASKED;
        let room = unasked.filter(few).map_or(room, |unasked| room.min(unasked));
        let most = room.share(BasisPoints::new(OF_THE_ROOM).unwrap_or(BasisPoints::ZERO));
        part_of(held, position, value, if value <= most { value } else { most }, share, cuts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::market::model::ChainIdentity;

    fn micros(dollars: u64) -> Micros {
        Micros::new(dollars * 1_000_000).unwrap()
    }

    #[test]
    fn a_part_fits_the_room_and_the_share_and_is_cut_by_quarters() {
        let whole = BasisPoints::new(10_000).unwrap();
        let quarter = BasisPoints::new(2_500).unwrap();
        let part = |held: u64, position: u64, room: u64, share, cuts| {
            part_of(U256::from(held), U256::from(position), micros(1_000), micros(room), share, cuts)
        };
        // 800 units are worth 1,000 dollars: 250 dollars are 200 of them.
        assert_eq!(part(800, 800, 250, whole, 0), U256::from(200));
        assert_eq!(part(800, 800, 1_000, whole, 0), U256::from(800));
        assert_eq!(part(800, 800, 2_000, whole, 0), U256::from(800), "no more than there is");
        // A quarter of what the position was at first, however little of it is left.
        assert_eq!(part(800, 1_600, 1_000, quarter, 0), U256::from(400));
        assert_eq!(part(800, 800, 1_000, quarter, 0), U256::from(200));
        // Three quarters, and three quarters of that.
        assert_eq!(part(800, 800, 1_000, whole, 1), U256::from(600));
        assert_eq!(part(800, 800, 1_000, whole, 2), U256::from(450));
    }

    #[test]
    fn a_refusal_says_whether_less_or_later_may_pass() {
        let refused = |code, rule: &str| {
            let violation = crate::base::error::Violation {
                rule: rule.to_owned(),
                limit: String::new(),
                value: String::new(),
                would_pass: String::new(),
            };
            match next(&ToolError::new(code, "no").violating(&[violation])) {
                Next::Smaller => "smaller",
                Next::Later => "later",
                Next::End => "end",
            }
        };
        for (code, rule, wanted) in [
            (ErrorCode::SafetySpendingLimitExceeded, "max_single_trade_usd", "smaller"),
            (ErrorCode::SafetySlippage, "max_price_impact_bps", "smaller"),
            (ErrorCode::SafetySlippage, "max_loss_bps", "later"),
            (ErrorCode::SafetyPhaseBlocked, "phases.defensive.max_position_share_bps", "smaller"),
            (ErrorCode::SafetyPhaseBlocked, "phase Terminal", "later"),
            (ErrorCode::Halted, "stop", "end"),
            (ErrorCode::ApprovalRefused, "", "end"),
            (ErrorCode::SafetyTokenNotAllowed, "allowed_tokens", "end"),
        ] {
            assert_eq!(refused(code, rule), wanted, "{code} {rule}");
        }
    }

    #[test]
    fn only_the_operators_yes_sells_what_is_held_under_a_golems_own_halt() {
        let folder = tempfile::tempdir().unwrap();
        let file = crate::safety::stop::StopFile::in_folder(folder.path());
        let golem = SafeText::clean("ada", 20);
        let none = Wanted::Nothing;
        assert_eq!(wanted(&InForce::None, &golem, None, Money::Play), none);
        let halt = file.raise(StopLevel::Halt, "the feed looks wrong", "ada", 1).unwrap();
        for money in [Money::Play, Money::Test, Money::Real] {
            let asked = Wanted::Ask(Own::SellUnderHalt { from: halt.clone() });
            assert_eq!(wanted(&halt, &golem, None, money), asked, "{money:?}");
        }
        let by_another =
            file.lower(&halt, None, "", "operator", 2).and_then(|_| file.raise(StopLevel::Halt, "", "operator", 3));
        assert_eq!(wanted(&by_another.unwrap(), &golem, None, Money::Play), none, "the operator's halt asks nothing");
        let lowered = file.lower(&file.read(), Some(StopLevel::Flatten), "", "operator", 4).unwrap();
        let InForce::Stop(stop) = &lowered else { panic!("{lowered:?}") };
        let asked = Wanted::Ask(Own::SellUnderFlatten { from: lowered.clone() });
        assert_eq!(wanted(&lowered, &golem, None, Money::Real), asked, "the file alone is no decision");
        assert_eq!(wanted(&lowered, &golem, Some(&SafeText::clean("another", 20)), Money::Real), asked);
        assert_eq!(wanted(&lowered, &golem, Some(&stop.id), Money::Real), Wanted::Sell, "a yes to this stop is one");
        assert_eq!(wanted(&lowered, &golem, None, Money::Play), Wanted::Sell);
    }

    #[test]
    fn a_halt_is_asked_about_only_on_the_network_of_the_golem_that_set_it() {
        let golem: GolemId = "ada".parse().unwrap();
        let on = |money, names: &[&str]| {
            let chain = |name: &&str| ChainIdentity { name: SafeText::clean(name, 20), id: 1, interval_millis: None };
            let chains = names.iter().map(chain).collect();
            let network = Network { name: SafeText::clean("a network", 20), money, chains, wallet: Address::ZERO };
            (halts_as(&golem, &network), money)
        };
        let all = [
            on(Money::Play, &["ethereum", "base"]),
            on(Money::Real, &["ethereum"]),
            on(Money::Real, &["ethereum", "base"]),
            on(Money::Real, &["arbitrum"]),
            on(Money::Test, &["sepolia"]),
        ];
        for (setter, (by, _)) in all.iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let file = crate::safety::stop::StopFile::in_folder(folder.path());
            let halt = file.raise(StopLevel::Halt, "the feed looks wrong", by.as_str(), 1).unwrap();
            for (asked, (own, money)) in all.iter().enumerate() {
                let wanted = wanted(&halt, own, None, *money);
                assert_eq!(wanted != Wanted::Nothing, asked == setter, "{own} under a halt by {by}");
            }
        }
    }
}
