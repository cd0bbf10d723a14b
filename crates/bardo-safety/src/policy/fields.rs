//! The fields of a policy: each with its type, what it means, and who enforces it. This table is
//! what the file's reader, the display, the hash and the comparison are made from; a field cannot be
//! in one of them and not in another.

use serde::Deserialize;

use super::hours::Hours;
use super::items::{ChainId, ContractRef, Recipient, Scope, Spender, TokenRef, Wallet, Word};
use super::preset::Preset;
use super::rules::{
    Leave, MaxBps, MaxCount, MaxGwei, MaxPercent, MaxSeconds, MaxUsd, MinSeconds, MinUsd, Require, Rule, TokenRules,
    ToolRules,
};
use bardo_base::model::{Category, Check};

/// Who sees to it that a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforced {
    /// A check of the pipeline.
    By(Check),
    /// The step that asks the operator.
    Approval,
    /// The sender, when it chooses where a transaction goes.
    Sending,
    /// The trading tools, when they choose between pools and an auction.
    Routing,
    /// The reader of the file: another value is refused.
    Load,
    /// Only tools of this category could break it.
    ToolsOf(Category),
}

/// A field as it stands in a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name, with the table it stands in.
    pub name: String,
    /// Its value, as the file would write it.
    pub value: String,
    /// What it means.
    pub about: String,
    /// Who enforces it.
    pub enforced: Enforced,
}

/// Declares a table of the policy: the struct, the struct of what a file may say, and how to go
/// through both.
macro_rules! table {
    (
        $(#[$about:meta])*
        $name:ident / $file:ident {
            $( extra { $( $extra:ident : $etype:ty ),* $(,)? } )?
            fields { $( $(#[doc = $doc:literal])+ $field:ident : $type:ty = $enforced:expr; )* }
            tables { $( $(#[doc = $sdoc:literal])+ $section:ident : $stype:ident / $sfile:ident; )* }
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )*
            $( $(#[doc = $sdoc])+ pub $section: $stype, )*
        }

        /// What a file says of it.
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $file {
            $( $( #[serde(default)] pub $extra: Option<$etype>, )* )?
            $( #[serde(default)] pub $field: Option<$type>, )*
            $( #[serde(default)] pub $section: $sfile, )*
        }

        impl $name {
            /// This, with what a file says laid over it.
            pub(super) fn under(self, file: $file) -> Self {
                Self {
                    $( $field: file.$field.unwrap_or(self.$field), )*
                    $( $section: self.$section.under(file.$section), )*
                }
            }

            /// Field by field the stricter of the two.
            pub(super) fn stricter_fields(&self, other: &Self) -> Self {
                Self {
                    $( $field: self.$field.stricter(&other.$field), )*
                    $( $section: self.$section.stricter_fields(&other.$section), )*
                }
            }

            /// Shows every field, in the order of the table.
            pub(super) fn walk(&self, within: &str, see: &mut dyn FnMut(Field)) {
                $( see(Field {
                    name: format!("{within}{}", stringify!($field)),
                    value: self.$field.shown(),
                    about: concat!($($doc),+).trim().to_owned(),
                    enforced: $enforced,
                }); )*
                $( self.$section.walk(&format!("{within}{}.", stringify!($section)), see); )*
            }
        }
    };
}

const SPENDING: Enforced = Enforced::By(Check::SpendingLimit);
const ALLOWLIST: Enforced = Enforced::By(Check::TokenAllowlist);
const RATE: Enforced = Enforced::By(Check::RateLimit);
const BREAKER: Enforced = Enforced::By(Check::BalanceBreaker);
const SLIPPAGE: Enforced = Enforced::By(Check::SlippageGuard);
const PHASE: Enforced = Enforced::By(Check::PhaseGate);

table! {
    /// What an agent may do. Every field always has a value; a file says where it differs from a
    /// preset.
    Rules / RulesFile {
        extra { preset: Preset }
        fields {
            /// Dollars in one action, gas and allowances left over included.
            max_single_trade_usd: MaxUsd = SPENDING;
            /// Dollars in any 60 minutes.
            max_hourly_spend_usd: MaxUsd = SPENDING;
            /// Dollars in any 24 hours; the window slides, midnight means nothing. A Golem's exits that sell more than this in full, in any 24 hours, ask the operator.
            max_daily_spend_usd: MaxUsd = SPENDING;
            /// Dollars in any 30 days.
            max_monthly_spend_usd: MaxUsd = SPENDING;
            /// Dollars that one holding may be worth after an action that adds to it.
            max_position_size_usd: MaxUsd = SPENDING;
            /// Dollars that a holding without a price feed may be worth after an action that adds to it; such an action always asks the operator, and such holdings count as equity up to this.
            max_unfed_usd: MaxUsd = SPENDING;
            /// Gwei that a unit of gas may cost.
            max_fee_per_gas_gwei: MaxGwei = SPENDING;
            /// Dollars of gas in one action, and a fifth of what an account's revocations may cost in any 24 hours.
            max_gas_usd: MaxUsd = SPENDING;
            /// Dollars that an allowance may still let others take after the action.
            max_allowance_usd: MaxUsd = SPENDING;
            /// Whether an allowance may be without limit.
            allow_unlimited_allowance: Leave = SPENDING;
            /// Seconds that an allowance with an expiry may stand.
            max_allowance_seconds: MaxSeconds = SPENDING;

            /// Tools that may be called, reads included.
            allowed_tools: Scope<Word> = ALLOWLIST;
            /// Chains that may be read and acted on, by name or id; the devnet's are devnet-ethereum and devnet-base.
            allowed_chains: Scope<ChainId> = ALLOWLIST;
            /// Protocols that may be used: uniswap, uniswapx, permit2, erc20, erc7683, erc8004, delegation.
            allowed_protocols: Scope<Word> = ALLOWLIST;
            /// Tokens that may move, as CHAIN:0x… or CHAIN:native; "bundled" means the network's own list.
            allowed_tokens: Scope<TokenRef> = ALLOWLIST;
            /// Kinds of action: swap, approve, revoke, transfer, place_order, cancel_order, bridge, refund, identity, policy_cage.
            allowed_intent_types: Scope<Word> = ALLOWLIST;
            /// Wallets that may act.
            allowed_execution_wallets: Scope<Wallet> = ALLOWLIST;
            /// Wallets that are contracts, such as a Safe or a delegating account, and may act.
            safe_addresses: Scope<Wallet> = ALLOWLIST;
            /// Who may receive; "self" means the acting wallet alone.
            allowed_recipients: Scope<Recipient> = ALLOWLIST;
            /// Contracts that may be called, as CHAIN:0x… or CHAIN:0x…:0xSELECTOR; "book" means the address book's, by the functions Bardo knows, and the tokens allowed above.
            allowed_contracts: Scope<ContractRef> = ALLOWLIST;
            /// Who may be given an allowance; "book" means the address book's contracts.
            allowed_spenders: Scope<Spender> = ALLOWLIST;

            /// Dollars above which the operator is asked.
            require_human_approval_above_usd: MaxUsd = Enforced::Approval;
            /// Dollars above which an action waits for a while and can be cancelled.
            delay_above_usd: MaxUsd = Enforced::Approval;
            /// How many seconds such an action waits.
            delay_seconds: MinSeconds = Enforced::Approval;
            /// Dollars above which the operator is told.
            notify_above_usd: MaxUsd = Enforced::Approval;
            /// Whether the operator is asked about a recipient or spender that was never used before; one whose address looks like a known one is asked about in any case.
            approve_first_seen: Require = Enforced::Approval;
            /// Tools that a standing yes (`--approve always`) covers, up to the hot lane; on the devnet above it too.
            always_approve: Scope<Word> = Enforced::Approval;
            /// Simulation before every signature. It cannot be switched off.
            require_simulation_before_execution: Require = Enforced::Load;

            /// Trades in any 60 minutes, by all processes together; above it an agent's exits are asked about, and the operator's own pass.
            max_trades_per_hour: MaxCount = RATE;
            /// Revocations, cancellations and refunds of one account in any 60 minutes; the operator's own hand is asked about more.
            max_revocations_per_hour: MaxCount = RATE;
            /// Calls of tools in any 60 seconds, of each Golem and of the operator apart.
            max_tool_calls_per_minute: MaxCount = RATE;
            /// Seconds between one trade and the next; exits do not wait.
            cooldown_seconds: MinSeconds = RATE;
            /// When it may act, in UTC, such as "Mon-Fri 08:00-18:00"; "always" for no such limit.
            active_hours: Hours = RATE;

            /// Percent that the portfolio may fall below its highest; from there on only exits pass.
            stop_loss_pct: MaxPercent = BREAKER;
            /// Failures in a row after which only exits pass.
            max_consecutive_failures: MaxCount = BREAKER;
            /// Seconds until one trial after such a row.
            breaker_cool_off_seconds: MinSeconds = BREAKER;

            /// Slippage a trade may ask for, in hundredths of a percent.
            max_slippage_bps: MaxBps = SLIPPAGE;
            /// How far a trade may move the price, in hundredths of a percent.
            max_price_impact_bps: MaxBps = SLIPPAGE;
            /// What a trade may lose of its value, from what goes out at the highest price to the least that comes in at the lowest, in hundredths of a percent.
            max_loss_bps: MaxBps = SLIPPAGE;
            /// Seconds that a quote may be old.
            max_quote_age_seconds: MaxSeconds = SLIPPAGE;

            /// Dollars above which a transaction on a public main network goes to a private endpoint only.
            private_rpc_above_usd: MaxUsd = Enforced::Sending;
            /// Dollars from which a swap that prefers UniswapX becomes an auction; "none" for never. Below, what a filler earns for its gas outweighs the protection.
            uniswapx_from_usd: MaxUsd = Enforced::Routing;

            /// Dollars that moving a liquidity position must bring.
            min_rebalance_benefit_usd: MinUsd = Enforced::ToolsOf(Category::Lp);
            /// Whether the worth of moving a liquidity position is looked at first.
            require_rebalance_check: Require = Enforced::ToolsOf(Category::Lp);

            /// Dollars above which a single tool asks the operator: TOOL = { requires_approval_above_usd = "…" }.
            tools: ToolRules = Enforced::Approval;
            /// Limits on single tokens: "CHAIN:0x…" = { max_single_usd = "…", max_daily_usd = "…" }.
            token_caps: TokenRules = SPENDING;
        }
        tables {
            /// Limits per transaction, per day, and without the safety-guardian.
            spending_limits: SpendingLimits / SpendingLimitsFile;
            /// What each phase leaves of it all.
            phases: Phases / PhasesFile;
        }
    }
}

table! {
    /// Limits per transaction, per day, and without the safety-guardian. Where a general limit says
    /// less, the lesser holds.
    SpendingLimits / SpendingLimitsFile {
        fields {
            /// Dollars in one transaction plan.
            per_transaction: MaxUsd = SPENDING;
            /// Dollars in any 24 hours.
            per_day: MaxUsd = SPENDING;
            /// Dollars above which the safety-guardian must agree and the operator approve.
            hot_lane: MaxUsd = SPENDING;
        }
        tables {}
    }
}

table! {
    /// The figures of each phase. Which classes of action a phase allows at all is fixed; these
    /// figures only narrow it.
    Phases / PhasesFile {
        fields {}
        tables {
            /// All is well.
            thriving: PhaseRules / PhaseRulesFile;
            /// Smaller and tighter.
            cautious: PhaseRules / PhaseRulesFile;
            /// Exits only.
            defensive: PhaseRules / PhaseRulesFile;
            /// Smaller exits only.
            survival: PhaseRules / PhaseRulesFile;
            /// Winding down.
            terminal: PhaseRules / PhaseRulesFile;
        }
    }
}

table! {
    /// The figures of one phase.
    PhaseRules / PhaseRulesFile {
        fields {
            /// What share of the limits per action is left, in hundredths of a percent; exits are not made smaller by it.
            size_factor_bps: MaxBps = PHASE;
            /// Slippage a trade may ask for, in hundredths of a percent.
            max_slippage_bps: MaxBps = SLIPPAGE;
            /// What a trade must move the price by less than, in hundredths of a percent; 10000 adds nothing.
            max_price_impact_bps: MaxBps = SLIPPAGE;
            /// Whether only exits pass.
            exit_only: Require = PHASE;
            /// What share of a position one trade may sell, in hundredths of a percent: of what is held and what has gone
            /// out of it within a day.
            max_position_share_bps: MaxBps = PHASE;
        }
        tables {}
    }
}
