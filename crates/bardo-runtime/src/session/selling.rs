//! Liquidation: sells an account's holdings other than dollar coins and native tokens, in parts that each fit the
//! policy's limits for one sale. Supplies and debts in lending markets are unwound before.
//!
//! The plan is recorded first, so that each part counts as closing the position; each part passes the whole write
//! pipeline. When the operator's rate of calls is exhausted, selling waits. Unsold remains are reported with the
//! reason.
//!
//! The operator has approved the liquidation as a whole: by `on_death`, by an approval, or by raising the stop level to
//! flatten. So parts are kept small enough to need no approval of their own, unless that makes them too many. This
//! loosens no limit: parts are only ever smaller than the policy requires.

mod parts;

pub(super) use parts::name_of;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::Address;
use parking_lot::MutexGuard;

use super::prompts::PromptSubject;
use super::state::SessionState;
use bardo_base::error::ToolError;
use bardo_base::fabric::{EventKind, GolemState, HoldingsSale};
use bardo_base::format::{counted, time_of_day};
use bardo_base::id::GolemId;
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use bardo_safety::approval::AskedBy;
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::operator_proof::OperatorProof;
use bardo_safety::stop::{ActiveStop, MOST_NAME, StopError};
use bardo_session::market::{MoneyKind, NetworkIdentity};
use bardo_session::questions::SalePlan;
use bardo_store::FileLockError;
use golem_chain::network::KnownContract;
use golem_chain::token::{TokenId, TokenInfo};
use golem_tools::engine::{ConnectedChain, TokenHolding};

/// Polling interval of waiting loops.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Answer to the approval of a sale. It says what has happened, and stays true when a stop ends the sale.
pub(super) const SALE_BEGAN: &str =
    "the sale of holdings has begun, as far as the policy allows: the activity shows each step";

/// Cause of a liquidation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SaleCause {
    /// The Golem has died.
    Death,
    /// The stop level is flatten; selling lasts as long as it is.
    Flatten,
}

impl SaleCause {
    const fn describe(self) -> &'static str {
        match self {
            Self::Death => "the Golem's death",
            Self::Flatten => "the stop ladder",
        }
    }

    /// Requester of a step of the sale, before `more` other holdings; `None` for a step that sells none.
    pub(super) const fn asks(self, more: Option<u32>) -> AskedBy {
        let sale = match self {
            Self::Death => HoldingsSale::Death,
            Self::Flatten => HoldingsSale::Flatten,
        };
        AskedBy::Sale { sale, more }
    }
}

/// A holding that is to be sold completely.
struct HoldingToSell<'a> {
    chain: &'a ConnectedChain,
    token: TokenInfo,
    address: Address,
}

/// Sells positions when the stop level requires it, once for each stop.
pub(super) async fn follow(state: Arc<SessionState>) {
    if state.watch_only || state.sources.world.account.is_none() {
        return;
    }
    // Registered from the beginning, so that the time of its reaction in a scenario does not depend on the speed of the
    // machine.
    let _attendance = state.sources.clock.attend();
    let halts_as = halts_as(&state.golem_id, &state.sources.network);
    let mut known = None;
    loop {
        let (found, wanted) = {
            let decided = state.decided();
            let file = &state.control.stop_watch.file;
            let found = file.read();
            // A stop of the whole data folder cannot be lowered from a session beneath it, so it asks for nothing there.
            let is_outer = file.outer_level().is_some_and(|outer| Some(outer) >= found.level());
            let wanted = match required_sale(&found, &halts_as, decided.as_ref(), state.money()) {
                RequiredSale::Ask(PromptSubject::SellUnderHalt { .. }) if is_outer => RequiredSale::Nothing,
                wanted => wanted,
            };
            (found, wanted)
        };
        if state.control.stop_watch.flatten_again.swap(false, Ordering::SeqCst) {
            known = None;
        }
        if let ActiveStop::Stop(stop) = &found
            && known.as_ref() != Some(&stop.id)
        {
            known = Some(stop.id.clone());
            match wanted {
                RequiredSale::Nothing => {}
                RequiredSale::Sell => {
                    let _task = state.control.running.begin();
                    state.flatten(found).await;
                }
                RequiredSale::Ask(own) => state.control.own.ask(own, state.sources.clock.now_millis()),
            }
        }
        state.sources.clock.pause(POLL_INTERVAL).await;
    }
}

/// Name under which this session's Golem sets a halt. All networks of a data directory share the stop file, and Golems
/// of the same name may live on each; the sale is offered only on the network of the one that halted.
pub(super) fn halts_as(golem_id: &GolemId, network: &NetworkIdentity) -> SafeText {
    let chains: Vec<_> = network.chains.iter().map(|chain| chain.name.as_str()).collect();
    let place = match network.money {
        MoneyKind::Play => "devnet".to_owned(),
        MoneyKind::Rehearsal => format!("the rehearsal of {}", chains.join(", ")),
        MoneyKind::Test | MoneyKind::Real | MoneyKind::Paper | MoneyKind::Replay => chains.join(", "),
    };
    SafeText::clean(&format!("{golem_id} on {place}"), MOST_NAME)
}

/// Treatment of holdings under a stop.
#[derive(Debug, PartialEq, Eq)]
enum RequiredSale {
    /// Holdings stay untouched.
    Nothing,
    /// Holdings are sold.
    Sell,
    /// The operator is asked whether to sell.
    Ask(PromptSubject),
}

/// Treatment of holdings that a stop requires. `decided`: id of the stop that the operator set by approving a sale.
fn required_sale(
    found: &ActiveStop,
    halts_as: &SafeText,
    decided: Option<&SafeText>,
    money: MoneyKind,
) -> RequiredSale {
    let ActiveStop::Stop(stop) = found else { return RequiredSale::Nothing };
    match stop.level {
        StopLevel::Flatten if decided == Some(&stop.id) => RequiredSale::Sell,
        // For play money the operator's name in the file suffices. Elsewhere the file alone is not a decision about
        // money, since any process of this user can write it.
        StopLevel::Flatten if stop.by.as_str() == "operator" && money == MoneyKind::Play => RequiredSale::Sell,
        StopLevel::Flatten => RequiredSale::Ask(PromptSubject::SellUnderFlatten { from: found.clone(), unsold: 0 }),
        // The Golem's emergency halt: nothing can be sold under it, and the Golem must not decide about selling.
        StopLevel::Halt if stop.by == *halts_as => {
            RequiredSale::Ask(PromptSubject::SellUnderHalt { from: found.clone() })
        }
        StopLevel::Pause | StopLevel::ExitOnly | StopLevel::Halt | StopLevel::Revoke => RequiredSale::Nothing,
    }
}

impl SessionState {
    /// Locks the id of the stop under which the operator approved the sale of holdings; `None` if there is none.
    fn decided(&self) -> MutexGuard<'_, Option<SafeText>> {
        self.control.decided.lock()
    }

    /// Lowers the Golem's own halt to flatten with the operator's approval; holdings are sold under it.
    pub(super) fn sell_under_halt(&self, halt: &ActiveStop, proof: OperatorProof) -> Result<String, StopError> {
        // Locked across both steps, so that nobody sees the lower stop before the decision is recorded.
        let mut decided = self.decided();
        let (reason, now) = ("the operator sells all holdings", self.sources.clock.now_millis());
        let lowered =
            self.control.stop_watch.file.lower(halt, Some(StopLevel::Flatten), reason, "operator", now, proof);
        if let ActiveStop::Stop(stop) = lowered? {
            *decided = Some(stop.id);
        }
        Ok(format!("{SALE_BEGAN}; nothing else passes"))
    }

    /// Plan of a sale of all holdings: sales, steps before them, and the rest, by the newest blocks that were read.
    pub(super) fn sale_plan(&self) -> SalePlan {
        let transactions = self.links.transactions.borrow();
        let orders = transactions.as_ref().filter(|read| read.fault.is_none());
        let orders = orders.and_then(|read| u64::try_from(read.orders.len()).ok());
        let mut plan = SalePlan { orders, ..SalePlan::default() };
        let holdings = self.links.holdings.borrow();
        for chain in self.sources.world.chains() {
            let network = chain.network();
            let is_kept = |symbol: &SafeText| {
                // A token that has its symbol from another one counts as sold, as it is.
                let mut named = network.book.tokens().iter().filter(|token| token.symbol == symbol.as_str()).peekable();
                let is_listed = named.peek().is_some();
                let native = symbol.as_str() == network.native_symbol;
                if is_listed { named.all(|token| network.book.is_stablecoin(token.address)) } else { native }
            };
            match holdings.iter().find(|held| held.chain_id == network.chain_id) {
                Some(held) => plan.add(held, is_kept),
                None => plan.unread.push(SafeText::clean(&network.name, 40)),
            }
        }
        plan
    }

    /// Cancels every open order of the account, whichever Golem placed it: each may block a sale.
    async fn cancel_before_selling(&self) {
        let left = self.unwind_orders(None).await;
        if left.open > 0 {
            let words = format!("{} of the open orders could not be cancelled and can still fill.", left.open);
            self.report_sale(&words);
        }
        for words in &left.locked {
            self.report(words);
        }
    }

    /// Reports a step of a sale, which is the program's and not the Golem's.
    pub(super) fn report_sale(&self, words: &str) {
        // The summary is read at the end of the session, perhaps long after the sale.
        let at = time_of_day(self.sources.clock.now_millis() / 1_000);
        self.stats().remark(&format!("{at} {words}"));
        self.report(words);
    }

    /// Shows the present step of a sale, with its place among those of the same kind, in the place of what the Golem does.
    fn show_sale(&self, words: &str, step: Option<(u32, u32)>) {
        let (now, next) = (SafeText::clean(words, 200), SafeText::default());
        self.emit(None, EventKind::GolemNow(GolemState { now, next, step, delegation: Vec::new() }));
    }

    /// Sells everything under the flatten stop `from`. If something is left while it is in force, the operator is asked
    /// whether to try again: a flatten that is not complete must not look like one that is.
    pub(super) async fn flatten(&self, from: ActiveStop) {
        let unsold = self.sell_all(SaleCause::Flatten).await;
        if unsold > 0 && self.must_end(SaleCause::Flatten).is_none() {
            let again = PromptSubject::SellUnderFlatten { from, unsold };
            self.control.own.ask(again, self.sources.clock.now_millis());
        }
    }

    /// Cancels the account's orders, unwinds its supplies and debts in lending markets, sells holdings other than dollar coins
    /// and native tokens as far as the policy permits, and reports the rest. Returns the number of holdings, chains and
    /// lending positions of which something was left.
    pub(super) async fn sell_all(&self, cause: SaleCause) -> usize {
        self.cancel_before_selling().await;
        let (Some(account), Some(rules)) = (self.sources.world.account, &self.sources.rules) else { return 0 };
        // Another task of this session already sells everything.
        while self.control.selling.swap(true, Ordering::SeqCst) {
            if *self.control.leaving.borrow() {
                return 0;
            }
            self.sources.clock.pause(POLL_INTERVAL).await;
        }
        // Another process on this ledger may be selling; its plan must not be ended by a start elsewhere.
        let _alone = loop {
            let why = match rules.lock_liquidation(account, POLL_INTERVAL).await {
                Ok(alone) => break alone,
                Err(FileLockError::Busy(_)) => self.must_end(cause).map(ToOwned::to_owned),
                Err(FileLockError::Store(error)) => Some(error.to_string()),
            };
            if let Some(why) = why {
                self.report_sale(&format!("Nothing was sold: {why}."));
                self.control.selling.store(false, Ordering::SeqCst);
                return 1;
            }
        };
        self.show_sale("Selling everything: vaults, debts and supplies first.", None);
        // What vaults pay out may repay a debt.
        let in_vaults = self.leave_vaults(account).await;
        let unwound = self.unwind_lending(account, cause).await;
        let mut unsold = self.sell_holdings(account, cause, rules).await;
        // What was sold may repay what was still owed, and so set its security free.
        let unwound = match unwound.owes && self.must_end(cause).is_none() {
            true => {
                let again = self.unwind_lending(account, cause).await;
                if again.withdrew {
                    unsold = self.sell_holdings(account, cause, rules).await;
                }
                again
            }
            false => unwound,
        };
        for words in in_vaults.iter().chain(&unwound.stays) {
            self.report_sale(words);
        }
        self.control.selling.store(false, Ordering::SeqCst);
        let left = unsold + in_vaults.len() + unwound.stays.len();
        match u64::try_from(left).unwrap_or(u64::MAX) {
            0 => self.show_sale("The sale has ended: nothing is left to sell.", None),
            left => {
                let left = counted(left, "holding stays", "holdings stay");
                self.show_sale(&format!("The sale has ended: {left}, as Logs says."), None);
            }
        }
        left
    }

    /// Sells what is held, by a plan that is recorded first. Returns the number of holdings and chains of which something was
    /// left.
    async fn sell_holdings(&self, account: Address, cause: SaleCause, rules: &OperatorPolicyEngine) -> usize {
        let (holdings, mut unsold) = self.to_be_sold(account).await;
        let keys = holdings.iter().map(|one| (one.chain.network().chain_id, one.token.id)).collect();
        match rules.plan_liquidation(account, keys, cause.describe(), self.sources.clock.now_millis()).await {
            Ok(()) => {
                for (at, holding) in holdings.iter().enumerate() {
                    let step = u32::try_from(at + 1).ok().zip(u32::try_from(holdings.len()).ok());
                    let chain = &holding.chain.network().name;
                    self.show_sale(&format!("Selling everything: {} on {chain}.", holding.token.symbol), step);
                    let more = u32::try_from(holdings.len() - at - 1).ok();
                    let (sale, is_complete) = self.sell(holding, account, (cause, more)).await;
                    unsold += usize::from(!is_complete);
                    self.report_sale(&sale);
                    let key = (holding.chain.network().chain_id, holding.token.id);
                    if let Err(error) =
                        rules.end_liquidation(account, key, &sale, self.sources.clock.now_millis()).await
                    {
                        tracing::warn!(%error, "cannot record the outcome of a sale of holdings");
                    }
                }
            }
            // Without the plan the parts would be refused one by one.
            Err(error) => {
                self.report_sale(&format!("Nothing was sold: cannot record the plan ({error})."));
                unsold += holdings.len();
            }
        }
        unsold
    }

    /// Listed tokens that are held and must be sold. The wrapped native token is last, so that riskier tokens use the
    /// day's limit first. The number is that of the balances and chains that could not be read.
    async fn to_be_sold(&self, account: Address) -> (Vec<HoldingToSell<'_>>, usize) {
        let (mut found, mut unread) = (Vec::new(), 0);
        for chain in self.sources.world.chains() {
            match self.held_on(chain, account).await {
                Ok((held, unknown)) => {
                    found.extend(held);
                    unread += unknown;
                }
                Err(error) => {
                    unread += 1;
                    let words = format!(
                        "Holdings on {} could not be read and are not sold: {}",
                        chain.network(),
                        error.message()
                    );
                    self.report_sale(&words);
                }
            }
        }
        found.sort_by_key(|one| one.chain.network().book.contract(KnownContract::WrappedNative) == Some(one.address));
        (found, unread)
    }

    async fn held_on<'a>(
        &self,
        chain: &'a ConnectedChain,
        account: Address,
    ) -> Result<(Vec<HoldingToSell<'a>>, usize), ToolError> {
        let book = &chain.network().book;
        let listed = book.tokens().iter().map(|token| token.address);
        let listed: Vec<Address> = listed.filter(|token| !book.is_stablecoin(*token)).collect();
        let found = chain.held(account, &listed).await?;
        let of_others = self.held_for_others(chain, account).await?;
        let (mut held, mut unread) = (Vec::new(), 0);
        for (address, found) in listed.into_iter().zip(found) {
            match found {
                TokenHolding::Amount(amount) => {
                    let token = TokenId::Erc20(address);
                    let held = self.sources.world.balance(chain.network().chain_id, account, token, amount);
                    if held?.is_zero() {
                        continue;
                    }
                    // A sale would spend what belongs to others: only the operator takes it apart.
                    if let Some((vault, _)) = of_others.get(&address) {
                        let token = book.symbol_at(address);
                        let words = format!(
                            "{token} on {} stays: some of it belongs to the depositors of the vault {vault}. Settle the vault, and \
                             sell what is yours.",
                            chain.network()
                        );
                        self.report_sale(&words);
                        unread += 1;
                        continue;
                    }
                }
                // A listed token without a contract has no balance.
                TokenHolding::NoContract => continue,
                TokenHolding::Unreadable => {
                    let token = book.symbol_at(address);
                    let words =
                        format!("The balance of {token} on {} could not be read; none of it is sold.", chain.network());
                    self.report_sale(&words);
                    unread += 1;
                    continue;
                }
            }
            let token = chain.token(&address.to_string()).await?;
            held.push(HoldingToSell { chain, token, address });
        }
        Ok((held, unread))
    }

    /// Reason that selling must end now, if there is one.
    fn must_end(&self, cause: SaleCause) -> Option<&'static str> {
        let flattens = self.control.stop_watch.file.read().level() == Some(StopLevel::Flatten);
        match cause {
            _ if *self.control.leaving.borrow() => Some("the session is ending"),
            SaleCause::Flatten if !flattens => Some("the stop ladder is no longer at flatten"),
            SaleCause::Flatten | SaleCause::Death => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::lowering::lower;
    use bardo_session::market::ChainIdentity;

    #[test]
    fn only_the_operators_approval_sells_holdings_under_a_golems_own_halt() {
        let folder = tempfile::tempdir().unwrap();
        let file = bardo_safety::stop::StopFile::in_folder(folder.path());
        let golem = SafeText::clean("ada", 20);
        let none = RequiredSale::Nothing;
        assert_eq!(required_sale(&ActiveStop::None, &golem, None, MoneyKind::Play), none);
        let halt = file.raise(StopLevel::Halt, "the feed looks wrong", "ada", 1).unwrap();
        for money in [MoneyKind::Play, MoneyKind::Test, MoneyKind::Real] {
            let asked = RequiredSale::Ask(PromptSubject::SellUnderHalt { from: halt.clone() });
            assert_eq!(required_sale(&halt, &golem, None, money), asked, "{money:?}");
        }
        lower(folder.path(), None, 2);
        let by_another = file.raise(StopLevel::Halt, "", "operator", 3);
        assert_eq!(
            required_sale(&by_another.unwrap(), &golem, None, MoneyKind::Play),
            none,
            "the operator's halt asks nothing"
        );
        let lowered = lower(folder.path(), Some(StopLevel::Flatten), 4);
        let ActiveStop::Stop(stop) = &lowered else { panic!("{lowered:?}") };
        let asked = RequiredSale::Ask(PromptSubject::SellUnderFlatten { from: lowered.clone(), unsold: 0 });
        assert_eq!(required_sale(&lowered, &golem, None, MoneyKind::Real), asked, "the file alone is no decision");
        assert_eq!(required_sale(&lowered, &golem, Some(&SafeText::clean("another", 20)), MoneyKind::Real), asked);
        assert_eq!(
            required_sale(&lowered, &golem, Some(&stop.id), MoneyKind::Real),
            RequiredSale::Sell,
            "a yes to this stop is one"
        );
        assert_eq!(required_sale(&lowered, &golem, None, MoneyKind::Play), RequiredSale::Sell);
    }

    #[test]
    fn a_halt_is_asked_about_only_on_the_network_of_the_golem_that_set_it() {
        let golem: GolemId = "ada".parse().unwrap();
        let on = |money, names: &[&str]| {
            let chain = |name: &&str| ChainIdentity { name: SafeText::clean(name, 20), id: 1, interval_millis: None };
            let chains = names.iter().map(chain).collect();
            let network =
                NetworkIdentity { name: SafeText::clean("a network", 20), money, chains, wallet: Address::ZERO };
            (halts_as(&golem, &network), money)
        };
        let all = [
            on(MoneyKind::Play, &["ethereum", "base"]),
            on(MoneyKind::Real, &["ethereum"]),
            on(MoneyKind::Real, &["ethereum", "base"]),
            on(MoneyKind::Real, &["arbitrum"]),
            on(MoneyKind::Test, &["sepolia"]),
        ];
        for (setter, (by, _)) in all.iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let file = bardo_safety::stop::StopFile::in_folder(folder.path());
            let halt = file.raise(StopLevel::Halt, "the feed looks wrong", by.as_str(), 1).unwrap();
            for (asked, (own, money)) in all.iter().enumerate() {
                let wanted = required_sale(&halt, own, None, *money);
                assert_eq!(wanted != RequiredSale::Nothing, asked == setter, "{own} under a halt by {by}");
            }
        }
    }
}
