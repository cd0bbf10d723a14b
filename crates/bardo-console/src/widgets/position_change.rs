//! Card of an action on a liquidity position, on shares of a vault or with a bridge's pool: what it moves by the simulation, and what moved by
//! the receipt.

use std::collections::BTreeMap;

use alloy_primitives::{B256, U256};
use serde_json::Value;

use super::call::CallModel;
use super::figure::{amount, paid, text};
use super::paint::{CardLine, Group, Row, Title};
use super::plain::{money_row, sent_group};
use super::status::CardStatus;
use super::{CardView, Moment};
use crate::format::short_address;
use crate::theme::Role;
use bardo_base::fabric::{EventKind, SimulatedChange, TxState};
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;

/// Kind of an action on a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PositionAction {
    /// Opens a position in a pool.
    Open,
    /// Adds to a position.
    Add,
    /// Collects what a position is owed.
    Collect,
    /// Deposits the fees of a position into it.
    Compound,
    /// Withdraws a part of a position.
    Remove,
    /// Withdraws all of a position.
    Close,
    /// Moves a position to another range.
    Move,
    /// Deposits to a vault.
    Deposit,
    /// Redeems shares of a vault.
    Redeem,
    /// Claims the settled result of a request to a vault.
    Claim,
    /// Cancels a request to deposit to a vault.
    CancelRequest,
    /// Deploys a vault that the account manages.
    DeployVault,
    /// Values a managed vault and settles its requests.
    SettleVault,
    /// Moves a managed vault's tokens between wallet and lending market.
    Invest,
    /// Settles and withdraws a managed vault's interest.
    Harvest,
    /// Pauses a managed vault.
    PauseVault,
    /// Ends the pause of a managed vault.
    ResumeVault,
    /// Sets the cap of a managed vault.
    SetCap,
    /// Ends a managed vault.
    EndVault,
    /// Deposits with the pool of a bridge.
    Bridge,
}

impl PositionAction {
    /// Action of a tool; `None` for a tool that changes no position.
    pub fn of(tool: &str) -> Option<Self> {
        Some(match tool {
            "add_liquidity" => Self::Open,
            "increase_liquidity" => Self::Add,
            "collect_fees" => Self::Collect,
            "compound_fees" => Self::Compound,
            "remove_liquidity" => Self::Remove,
            "close_position" => Self::Close,
            "rebalance_position" | "migrate_position" => Self::Move,
            "vault_deposit" => Self::Deposit,
            "vault_withdraw" => Self::Redeem,
            "vault_claim" => Self::Claim,
            "vault_cancel_request" => Self::CancelRequest,
            "vault_deploy" => Self::DeployVault,
            "vault_settle" => Self::SettleVault,
            "vault_rebalance" => Self::Invest,
            "vault_harvest" => Self::Harvest,
            "vault_pause" => Self::PauseVault,
            "vault_resume" => Self::ResumeVault,
            "vault_set_cap" => Self::SetCap,
            "vault_teardown" => Self::EndVault,
            "across_deposit" => Self::Bridge,
            _ => return None,
        })
    }

    /// Word for the action.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::Add => "Add",
            Self::Collect => "Collect",
            Self::Compound => "Compound",
            Self::Remove => "Remove",
            Self::Close => "Close",
            Self::Move => "Move",
            Self::Deposit => "Deposit",
            Self::Redeem => "Redeem",
            Self::Claim => "Claim",
            Self::CancelRequest => "Cancel",
            Self::DeployVault => "Deploy",
            Self::SettleVault => "Settle",
            Self::Invest => "Rebalance",
            Self::Harvest => "Harvest",
            Self::PauseVault => "Pause",
            Self::ResumeVault => "Resume",
            Self::SetCap => "Set cap",
            Self::EndVault => "End",
            Self::Bridge => "Deposit",
        }
    }

    /// Place of the money before the action is settled.
    const fn money(self) -> &'static str {
        match self {
            Self::Open | Self::Add | Self::Deposit => "in your wallet",
            Self::Collect | Self::Compound | Self::Remove | Self::Close => "in the pool until withdrawn",
            Self::Move => "in the pool until withdrawn, then in your wallet until deposited",
            Self::Redeem => "in the vault until redeemed",
            Self::Claim => "in the vault until claimed",
            Self::CancelRequest => "in the vault until cancelled",
            Self::SettleVault => "requests in the vault, the rest in your wallet",
            Self::Invest | Self::Harvest => "in your wallet and in Aave, for the depositors",
            Self::EndVault => "in your wallet and in Aave until settled",
            Self::Bridge => "in your wallet until deposited, then in the bridge's pool",
            Self::DeployVault | Self::PauseVault | Self::ResumeVault | Self::SetCap => "does not move",
        }
    }
}

/// Model of the card.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PositionChangeModel {
    /// Call that it came from.
    pub call: CallModel,
    /// Balances of the account that the simulation changes, without gas.
    pub moves: Vec<SimulatedChange>,
    /// Figures of the result, as their names and texts: by the receipt, once there is one.
    pub result: Vec<(&'static str, SafeText)>,
    /// State of its newest transaction, if it has one.
    pub sent: Option<TxState>,
    /// Gas cost of its transactions in wei, by their hash.
    pub gas: BTreeMap<B256, U256>,
    /// True if the chain agrees with what was declared; `None` before the comparison.
    pub matched: Option<bool>,
}

/// Fields of results, with their words on the card.
const FIGURES: [(&str, &str); 14] = [
    ("amount0", "first token"),
    ("amount1", "second token"),
    ("amount", "tokens"),
    ("shares", "shares"),
    ("position_id", "position"),
    ("state", "state"),
    ("vault_address", "vault"),
    ("total_assets", "worth"),
    ("deposits_settled", "deposits"),
    ("withdrawals_settled", "withdrawals"),
    ("harvested", "harvested"),
    ("deposit_id", "deposit"),
    ("amount_in", "deposited"),
    ("amount_out", "will arrive"),
];

impl PositionChangeModel {
    /// Creates the card of a requested call.
    pub fn asked(at: u64, tool: &str, params: Value) -> Self {
        Self { call: CallModel::asked(at, tool, params), ..Self::default() }
    }

    /// Applies an event of its call.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        self.call.fold(at, kind);
        match kind {
            EventKind::PermitIssued(permit) => {
                self.moves = permit.changes.iter().filter(|change| !change.gas).cloned().collect();
            }
            EventKind::TxUpdate(update) => {
                self.sent = Some(update.state);
                if let Some(cost) = update.gas_cost_wei {
                    self.gas.insert(update.hash, cost);
                }
            }
            EventKind::ToolVerified(verified) => self.matched = Some(verified.matched),
            EventKind::ToolEnd(end) => {
                let found = |(name, words): &(&str, &'static str)| Some((*words, text(&end.result_summary, name)?));
                self.result = FIGURES.iter().filter_map(found).collect();
            }
            _ => {}
        }
    }

    fn action(&self) -> Option<PositionAction> {
        PositionAction::of(self.call.tool.as_str())
    }

    fn kind(&self) -> &'static str {
        self.action().map_or("Position", PositionAction::word)
    }

    /// Subject of the action, as it was asked for.
    fn what(&self) -> String {
        let param = |name: &str| Some(self.call.param(name)).filter(|text| !text.is_empty());
        let id = || {
            param("position_id").map(|id| match id.as_str().strip_prefix("v4:") {
                Some(number) => format!("V4 #{number}"),
                None => format!("V3 #{id}"),
            })
        };
        let vault = || {
            let short = |text: SafeText| text.as_str().parse().map_or_else(|_| text.to_string(), short_address);
            param("vault_address").map_or_else(|| "the vault".to_owned(), |text| format!("vault {}", short(text)))
        };
        match self.action() {
            Some(PositionAction::Open) => {
                let tokens: Vec<String> = ["token0", "token1", "token_a", "token_b"]
                    .into_iter()
                    .filter_map(param)
                    .map(|token| token.to_string())
                    .collect();
                if tokens.is_empty() { "liquidity".to_owned() } else { tokens.join("/") }
            }
            Some(PositionAction::Remove) => {
                let share = param("share_pct").map_or(String::new(), |share| format!("{share} % of "));
                format!("{share}{}", id().unwrap_or_else(|| "no position".to_owned()))
            }
            Some(PositionAction::Deposit) => match param("amount") {
                Some(all) if all.as_str() == "max" => "all to the vault".to_owned(),
                Some(asked) => format!("{} to the vault", paid(asked.as_str())),
                None => "no amount".to_owned(),
            },
            Some(PositionAction::Redeem) => match param("shares") {
                Some(all) if all.as_str() == "max" => "all shares".to_owned(),
                Some(asked) => format!("{} shares", amount(asked.as_str())),
                None => "no shares".to_owned(),
            },
            Some(PositionAction::Claim) => {
                format!("the {} request to {}", param("request").unwrap_or_default(), vault())
            }
            Some(PositionAction::CancelRequest) => format!("the deposit request to {}", vault()),
            Some(PositionAction::DeployVault) => {
                let name = param("symbol").or_else(|| param("name")).unwrap_or_default();
                format!("vault {name} of {}", param("token").unwrap_or_default())
            }
            Some(PositionAction::SettleVault) => match param("new_total_assets") {
                Some(worth) => format!("{} at {}", vault(), amount(worth.as_str())),
                None => vault(),
            },
            Some(PositionAction::Invest) => {
                let asked = param("amount").map_or_else(|| "no amount".to_owned(), |asked| paid(asked.as_str()));
                let way = match param("direction") {
                    Some(way) if way.as_str() == "invest" => "to Aave",
                    Some(_) => "from Aave",
                    None => "nowhere",
                };
                format!("{asked} {way} for {}", vault())
            }
            Some(PositionAction::SetCap) => {
                let cap = param("cap").map_or_else(|| "no cap".to_owned(), |cap| amount(cap.as_str()));
                format!("{cap} for {}", vault())
            }
            Some(PositionAction::Bridge) => {
                let asked = param("amount").map_or_else(|| "no amount".to_owned(), |asked| paid(asked.as_str()));
                let end = |name: &str| param(name).map_or_else(|| "?".to_owned(), |chain| chain.to_string());
                let token = param("token_in").unwrap_or_default();
                format!("{asked} {token}  {} → {}", end("source_chain"), end("destination_chain"))
            }
            Some(
                PositionAction::Harvest
                | PositionAction::PauseVault
                | PositionAction::ResumeVault
                | PositionAction::EndVault,
            ) => vault(),
            Some(
                PositionAction::Add
                | PositionAction::Collect
                | PositionAction::Compound
                | PositionAction::Close
                | PositionAction::Move,
            )
            | None => id().unwrap_or_else(|| "no position".to_owned()),
        }
    }

    /// Change of a balance, rounded against the account: less comes in, more goes out.
    fn moved(change: &SimulatedChange) -> String {
        let unsigned = change.change.as_str().trim_start_matches(['+', '-', '−']);
        let symbol = change.symbol.as_str().parse().map_or_else(|_| change.symbol.to_string(), short_address);
        match change.change.as_str().starts_with('+') {
            true => format!("+{} {symbol}", amount(unsigned)),
            false => format!("−{} {symbol}", paid(unsigned)),
        }
    }

    fn move_rows(&self) -> Vec<Row> {
        let row = |change: &SimulatedChange| {
            let figure = |text: &SafeText| if text.is_empty() { "?".to_owned() } else { amount(text.as_str()) };
            Row::new(Self::moved(change), Role::TextStrong)
                .then(format!("   {} → {}", figure(&change.before), figure(&change.after)), Role::TextDim)
                .end("simulated", Role::TextDim)
        };
        self.moves.iter().map(row).collect()
    }

    fn result_rows(&self) -> Vec<Row> {
        // Without a comparison with the chain, these are figures of a simulation.
        let source = if self.matched == Some(true) { "by the receipt" } else { "not confirmed" };
        let row = |(words, value): &(&'static str, SafeText)| {
            Row::new(format!("{words:<14}"), Role::TextDim)
                .then(amount(value.as_str()), Role::TextStrong)
                .end(source, Role::TextDim)
        };
        self.result.iter().map(row).collect()
    }

    /// Row with the comparison with the chain, and with what the transactions cost.
    fn verified_row(&self) -> Option<Row> {
        let row = match self.matched? {
            true => Row::new("Chain agrees ✓", Role::StateGood),
            false => Row::new("Chain disagrees ✕", Role::StateBad).kept(),
        };
        let gas = self.gas.values().fold(U256::ZERO, |sum, cost| sum.saturating_add(*cost));
        Some(match gas.is_zero() {
            true => row,
            false => row.end(format!("gas {}", paid(&TokenAmount::ether(gas).to_string())), Role::TextDim),
        })
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = self.call.failure_rows();
        rows.extend(self.action().and_then(|action| money_row(&self.call, action.money(), self.sent)));
        rows.extend(if self.result.is_empty() { self.move_rows() } else { self.result_rows() });
        rows.extend(self.verified_row());
        rows
    }
}

impl CardView for PositionChangeModel {
    fn line(&self, now: Moment) -> CardLine {
        let status = self.call.status;
        let mut groups = vec![Group::new(0, self.what(), Role::Text)];
        let moves: Vec<String> = self.moves.iter().map(Self::moved).collect();
        if !moves.is_empty() {
            groups.push(Group::new(1, format!("  {}", moves.join(", ")), Role::TextDim));
        }
        if self.matched == Some(false) {
            groups.insert(0, Group::new(0, "Chain disagrees ✕  ".to_owned(), Role::StateBad));
        }
        groups.extend(sent_group(&self.call, self.sent));
        if let Some(why) = self.call.failure_words() {
            groups.push(Group::new(1, format!("  {why}"), status.role()));
        }
        let mark = if self.matched == Some(false) { ("✕", Role::StateBad) } else { status.sign() };
        CardLine { at: self.call.at, mark, kind: self.kind().to_owned(), groups, right: self.call.line_end(now) }
    }

    fn title(&self, now: Moment) -> Title {
        let left = vec![(format!("{} {}", self.kind(), self.what()), Role::Title)];
        let right = match self.matched {
            Some(false) => vec![("✕ CHAIN DISAGREES".to_owned(), Role::StateBad)],
            Some(true) | None => self.call.status_text(now),
        };
        Title { left, right }
    }

    fn short(&self, _now: Moment) -> Vec<Row> {
        let mut rows = self.rows();
        if rows.is_empty() {
            rows.push(Row::new(self.what(), Role::Text));
        }
        rows
    }

    fn full(&self, _now: Moment, _columns: usize) -> Vec<Row> {
        let mut rows = self.rows();
        let is_empty = self.moves.is_empty() && self.result.is_empty() && self.matched.is_none();
        if is_empty && self.call.failure.is_none() {
            rows.push(match self.call.status {
                CardStatus::Empty | CardStatus::Done => Row::new("Nothing is known of this action.", Role::TextDim),
                _ => self.call.pending_row("Reading the position and simulating…"),
            });
        }
        rows
    }

    fn edge(&self, _now: Moment) -> Role {
        if self.matched == Some(false) { Role::StateBad } else { self.call.status.edge() }
    }
}
