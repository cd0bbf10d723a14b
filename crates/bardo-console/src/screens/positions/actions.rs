//! Actions on a position: the tools that can be used on it, with the parameters that are known.

use serde_json::{Value, json};

use crate::screens::screen_dialog::DialogOption;
use crate::screens::{ScreenContext, ScreenRequest};
use crate::widgets::positions::PositionView;
use crate::widgets::positions::liquidity::{ExitState, LiquidityPosition};
use crate::widgets::positions::shares::VaultShares;
use bardo_base::text::SafeText;

/// Tools that change a position. After one of them has ended, what was read before is outdated.
const CHANGES: [&str; 22] = [
    "add_liquidity",
    "close_position",
    "collect_fees",
    "compound_fees",
    "increase_liquidity",
    "lending_borrow",
    "lending_repay",
    "lending_supply",
    "lending_withdraw",
    "migrate_position",
    "rebalance_position",
    "remove_liquidity",
    "vault_cancel_request",
    "vault_claim",
    "vault_deploy",
    "vault_deposit",
    "vault_harvest",
    "vault_pause",
    "vault_rebalance",
    "vault_settle",
    "vault_teardown",
    "vault_withdraw",
];

/// Returns true if a tool changes positions.
pub(super) fn changes_positions(tool: &str) -> bool {
    CHANGES.contains(&tool)
}

/// Letter, words and tool of an action.
type Way = (char, &'static str, &'static str, Value);

/// Title of the dialog, and the actions that are possible on a position with the tools of this session.
pub(super) fn of(position: PositionView<'_>, known: &ScreenContext<'_>) -> (String, Vec<DialogOption>) {
    let (title, ways) = match position {
        PositionView::Liquidity(position) => (position.name(), liquidity(position)),
        PositionView::Lending(account, chosen) => {
            let token = chosen.and_then(|name| account.tokens.iter().find(|token| token.token == *name));
            let chain = account.chain.as_str();
            let title = chosen.map_or_else(|| format!("Aave on {chain}"), |name| format!("{name} in Aave on {chain}"));
            let owed = token.is_some_and(|token| token.is_owed()) || token.is_none() && account.owes();
            let supplied = token.is_none_or(|token| token.is_supplied());
            (title, lending(account.chain.as_str(), chosen, owed, supplied))
        }
        PositionView::Shares(shares) => {
            let known = |more: Value| {
                with(json!({ "chain": shares.chain.as_str(), "vault_address": shares.vault.as_str() }), &more)
            };
            (format!("Vault on {}", shares.chain), vault(shares, &known))
        }
    };
    let tools = known.ready.map(|ready| ready.tools.as_slice()).unwrap_or_default();
    let has = |name: &str| tools.iter().any(|tool| tool.name.as_str() == name);
    let option = |(letter, words, tool, params): Way| DialogOption {
        letter,
        words: words.to_owned(),
        then: vec![ScreenRequest::OpenForm { tool: tool.to_owned(), params }],
    };
    (format!("What to do with {title}?"), ways.into_iter().filter(|way| has(way.2)).map(option).collect())
}

/// Actions on a vault: what can be claimed first, then what the account can do as a depositor, then as the manager.
fn vault(shares: &VaultShares, params: &dyn Fn(Value) -> Value) -> Vec<Way> {
    let mut all: Vec<Way> = Vec::new();
    if let Some(requests) = &shares.requests {
        if requests.has_claimable_deposit() {
            all.push(('c', "claim the shares…", "vault_claim", params(json!({ "request": "deposit" }))));
        }
        if requests.has_claimable_withdrawal() {
            all.push(('k', "claim the tokens…", "vault_claim", params(json!({ "request": "withdrawal" }))));
        }
        if requests.cancellable == Some(true) {
            all.push(('x', "cancel the request to deposit…", "vault_cancel_request", params(json!({}))));
        }
    }
    if shares.has_shares() {
        let words = if shares.is_asynchronous { "request a withdrawal…" } else { "withdraw…" };
        all.push(('w', words, "vault_withdraw", params(json!({ "shares": "max" }))));
    }
    all.push(('d', "deposit more…", "vault_deposit", params(json!({}))));
    if shares.has_shares() {
        all.push(('s', "simulate a withdrawal", "vault_simulate_withdraw", params(json!({ "shares": "max" }))));
    }
    if shares.is_managed {
        all.push(('v', "value it and settle its requests…", "vault_settle", params(json!({}))));
        all.push(('r', "invest or withdraw its tokens…", "vault_rebalance", params(json!({}))));
        all.push(('h', "harvest its interest…", "vault_harvest", params(json!({}))));
        match shares.is_paused {
            true => all.push(('u', "resume it…", "vault_resume", params(json!({})))),
            false => all.push(('p', "pause it…", "vault_pause", params(json!({})))),
        }
        all.push(('m', "set its cap…", "vault_set_cap", params(json!({}))));
        all.push(('e', "end it…", "vault_teardown", params(json!({}))));
    }
    all
}

/// Parameters with others added.
fn with(mut params: Value, more: &Value) -> Value {
    if let (Some(params), Some(more)) = (params.as_object_mut(), more.as_object()) {
        params.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    params
}

/// Actions on liquidity. What is locked can only be tried to be closed; its preview simulates it again.
fn liquidity(position: &LiquidityPosition) -> Vec<Way> {
    let params = || json!({ "chain": position.chain.as_str(), "position_id": position.id.as_str() });
    if position.exit == ExitState::Locked {
        return vec![('x', "try to close it: the last simulated withdrawal failed", "close_position", params())];
    }
    let mut all: Vec<Way> = Vec::new();
    if position.is_owed() {
        all.push(('c', "collect its fees…", "collect_fees", params()));
        all.push(('k', "compound its fees…", "compound_fees", params()));
    }
    if position.has_liquidity() {
        all.push(('r', "remove a part…", "remove_liquidity", params()));
    }
    all.push(('x', "close it…", "close_position", params()));
    all.push(('i', "add to it…", "increase_liquidity", params()));
    if position.has_liquidity() {
        all.push(('b', "check what another range is expected to bring", "compute_rebalance_candidate", params()));
        all.push(('m', "move it to another range…", "rebalance_position", params()));
        all.push(('p', "move it to another pool of its tokens…", "migrate_position", params()));
    }
    all
}

/// Actions in a lending market, for one token or for any.
fn lending(chain: &str, token: Option<&SafeText>, owed: bool, supplied: bool) -> Vec<Way> {
    let params = |more: Value| {
        let params = with(json!({ "chain": chain }), &more);
        match token {
            Some(token) => with(params, &json!({ "token": token.as_str() })),
            None => params,
        }
    };
    let mut all: Vec<Way> = Vec::new();
    if owed {
        all.push(('r', "repay…", "lending_repay", params(json!({ "amount": "max" }))));
    }
    if supplied {
        all.push(('w', "withdraw…", "lending_withdraw", params(json!({}))));
    }
    all.push(('s', "supply…", "lending_supply", params(json!({}))));
    all.push(('b', "borrow…", "lending_borrow", params(json!({}))));
    all
}
