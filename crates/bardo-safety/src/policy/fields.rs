//! Fields of a policy: type, description and enforcement. The file parser, the display, the hash and the comparison are
//! all generated from this table, so that no field can be missing from one of them. The fields' doc comments are shown
//! to the user.

use serde::Deserialize;

use super::hours::TradingHours;
use super::items::{AllowedItems, Approvers, ChainId, ContractRef, ItemName, Recipient, Spender, TokenRef, Wallet};
use super::preset::PolicyPreset;
use super::rules::{
    MaxBps, MaxCount, MaxGwei, MaxPercent, MaxSeconds, MaxUsd, MinFactor, MinSeconds, MinUsd, Permission, PolicyValue,
    Require, TokenRules, ToolRules,
};
use bardo_base::model::Check;

/// Component that enforces a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnforcedBy {
    /// A check of the pipeline.
    By(Check),
    /// The step that requests the operator's approval.
    Approval,
    /// The sender, which chooses the route of a transaction.
    Sending,
    /// The trading tools, which choose between pools and an auction.
    Routing,
    /// The file parser, which rejects any other value.
    Load,
    /// The tools of these names, which alone could violate it.
    Tools(&'static [&'static str]),
}

/// One field of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyField {
    /// Name of the field, with its table.
    pub name: String,
    /// Value in the syntax of the file.
    pub value: String,
    /// Description of the field.
    pub about: String,
    /// Component that enforces the field.
    pub enforced: EnforcedBy,
}

/// Declares a table of the policy: the struct, the struct of a file's settings, and the functions over both.
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

        /// Settings of a file.
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $file {
            $( $( #[serde(default)] pub $extra: Option<$etype>, )* )?
            $( #[serde(default)] pub $field: Option<$type>, )*
            $( #[serde(default)] pub $section: $sfile, )*
        }

        impl $name {
            /// Applies the settings of a file over these values.
            pub(super) fn under(self, file: $file) -> Self {
                Self {
                    $( $field: file.$field.unwrap_or(self.$field), )*
                    $( $section: self.$section.under(file.$section), )*
                }
            }

            /// Combines two tables, taking the stricter value of each field.
            pub(super) fn stricter_fields(&self, other: &Self) -> Self {
                Self {
                    $( $field: self.$field.stricter(&other.$field), )*
                    $( $section: self.$section.stricter_fields(&other.$section), )*
                }
            }

            /// Calls `see` for every field, in the order of the table.
            pub(super) fn walk(&self, within: &str, see: &mut dyn FnMut(PolicyField)) {
                $( see(PolicyField {
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

const SPENDING: EnforcedBy = EnforcedBy::By(Check::SpendingLimit);
const ALLOWLIST: EnforcedBy = EnforcedBy::By(Check::TokenAllowlist);
const RATE: EnforcedBy = EnforcedBy::By(Check::RateLimit);
const BREAKER: EnforcedBy = EnforcedBy::By(Check::BalanceBreaker);
const SLIPPAGE: EnforcedBy = EnforcedBy::By(Check::SlippageGuard);
const PHASE: EnforcedBy = EnforcedBy::By(Check::PhaseGate);
const MOVES: EnforcedBy = EnforcedBy::Tools(&["rebalance_position", "migrate_position"]);

table! {
    /// Limits on what an agent may do. Every field always has a value; a file overrides values of a preset.
    Rules / RulesFile {
        extra { preset: PolicyPreset }
        fields {
            /// Dollars in one action, including gas and remaining allowances. A sale into an exit asset at a fair price
            /// counts with its possible loss.
            max_single_trade_usd: MaxUsd = SPENDING;
            /// Dollars in any 60 minutes.
            max_hourly_spend_usd: MaxUsd = SPENDING;
            /// Dollars in any 24 hours (sliding window). A Golem's exits that sell more than this in full, in any 24
            /// hours, need approval.
            max_daily_spend_usd: MaxUsd = SPENDING;
            /// Dollars in any 30 days.
            max_monthly_spend_usd: MaxUsd = SPENDING;
            /// Dollars that may be owed to a lending market after a borrowing, as its pool counts them; "none" for no limit
            /// of its own. One borrowing is also bounded by max_single_trade_usd.
            max_borrow_usd: MaxUsd = SPENDING;
            /// Health factor that a debt must keep after a borrowing, or after a withdrawal of what secures it: the
            /// collateral, weighted by its liquidation thresholds, over the debt. Below 1, anyone may liquidate it.
            min_health_factor: MinFactor = SPENDING;
            /// Dollars that one holding may be worth after an action that adds to it.
            max_position_size_usd: MaxUsd = SPENDING;
            /// Dollars that a holding without a price feed may be worth after an action that adds to it. Such an action
            /// always needs approval, and such holdings count as equity up to this value.
            max_unfed_usd: MaxUsd = SPENDING;
            /// Maximum gas price in gwei per unit of gas.
            max_fee_per_gas_gwei: MaxGwei = SPENDING;
            /// Dollars of gas in one action, and a fifth of what an account's revocations may cost in any 24 hours.
            max_gas_usd: MaxUsd = SPENDING;
            /// Dollars that an allowance may still let others take after the action.
            max_allowance_usd: MaxUsd = SPENDING;
            /// Permits unlimited allowances.
            allow_unlimited_allowance: Permission = SPENDING;
            /// Maximum lifetime of an allowance with an expiry, in seconds.
            max_allowance_seconds: MaxSeconds = SPENDING;

            /// Tools that may be called, reads included.
            allowed_tools: AllowedItems<ItemName> = ALLOWLIST;
            /// Chains that may be read and acted on, by name or id; the devnet's are devnet-ethereum and devnet-base.
            allowed_chains: AllowedItems<ChainId> = ALLOWLIST;
            /// Protocols that may be used: uniswap, uniswapx, permit2, erc20, erc7683, erc8004, delegation,
            /// aave, erc4626, across.
            allowed_protocols: AllowedItems<ItemName> = ALLOWLIST;
            /// Tokens that may move, as CHAIN:0x… or CHAIN:native; "bundled" means the network's own list.
            allowed_tokens: AllowedItems<TokenRef> = ALLOWLIST;
            /// Kinds of action: swap, approve, revoke, transfer, place_order, cancel_order, bridge, refund, identity,
            /// policy_cage, wrap, liquidity, lending, vault, protocol_fees, hook.
            allowed_intent_types: AllowedItems<ItemName> = ALLOWLIST;
            /// Wallets that may act.
            allowed_execution_wallets: AllowedItems<Wallet> = ALLOWLIST;
            /// Wallets that are contracts, such as a Safe or a delegating account, and may act.
            safe_addresses: AllowedItems<Wallet> = ALLOWLIST;
            /// Addresses that may receive; "self" means the acting wallet only.
            allowed_recipients: AllowedItems<Recipient> = ALLOWLIST;
            /// Contracts that may be called, as CHAIN:0x… or CHAIN:0x…:0xSELECTOR; "book" means the address book's
            /// contracts, by the functions that Bardo knows, and the tokens allowed above.
            allowed_contracts: AllowedItems<ContractRef> = ALLOWLIST;
            /// Vaults that may be deposited to, as CHAIN:0x…; "book" means the address book's vault. A named vault may be
            /// called, gets the allowance of its deposits, and its shares may move and count in the equity. Withdrawals from
            /// other vaults need approval.
            allowed_vaults: AllowedItems<ContractRef> = ALLOWLIST;
            /// Addresses that may get an allowance; "book" means the address book's contracts.
            allowed_spenders: AllowedItems<Spender> = ALLOWLIST;

            /// Dollars above which an action needs the operator's approval.
            require_human_approval_above_usd: MaxUsd = EnforcedBy::Approval;
            /// Dollars above which an action waits for a while and can be cancelled.
            delay_above_usd: MaxUsd = EnforcedBy::Approval;
            /// Delay of such an action, in seconds.
            delay_seconds: MinSeconds = EnforcedBy::Approval;
            /// Dollars above which the operator is notified.
            notify_above_usd: MaxUsd = EnforcedBy::Approval;
            /// Requires approval of recipients and spenders that were never used before; one whose address resembles a
            /// known one always needs approval.
            approve_first_seen: Require = EnforcedBy::Approval;
            /// Tools that a standing approval (`--approve always`) covers, up to the hot lane; on the devnet above it
            /// too.
            always_approve: AllowedItems<ItemName> = EnforcedBy::Approval;
            /// Simulation before every signature. It cannot be switched off.
            require_simulation_before_execution: Require = EnforcedBy::Load;

            /// Trades in any 60 minutes, across all processes; above it an agent's exits need approval, and the
            /// operator's own pass.
            max_trades_per_hour: MaxCount = RATE;
            /// Revocations, cancellations and refunds of one account in any 60 minutes; above it the operator's own
            /// need approval.
            max_revocations_per_hour: MaxCount = RATE;
            /// Tool calls in any 60 seconds, counted separately for each Golem and for the operator.
            max_tool_calls_per_minute: MaxCount = RATE;
            /// Seconds between one trade and the next; exits do not wait.
            cooldown_seconds: MinSeconds = RATE;
            /// Times at which an agent may act, in UTC, such as "Mon-Fri 08:00-18:00"; "always" for no limit.
            active_hours: TradingHours = RATE;

            /// Percent that the portfolio may fall below its high-water mark; from there on only exits pass.
            stop_loss_pct: MaxPercent = BREAKER;
            /// Consecutive failures after which only exits pass.
            max_consecutive_failures: MaxCount = BREAKER;
            /// Seconds after such failures until one trial action may pass.
            breaker_cool_off_seconds: MinSeconds = BREAKER;

            /// Maximum slippage tolerance of a trade, in hundredths of a percent.
            max_slippage_bps: MaxBps = SLIPPAGE;
            /// Maximum price impact of a trade, in hundredths of a percent.
            max_price_impact_bps: MaxBps = SLIPPAGE;
            /// Maximum loss of value of a trade, in hundredths of a percent: from the input at the highest price to the
            /// least output at the lowest.
            max_loss_bps: MaxBps = SLIPPAGE;
            /// Maximum age of a quote, in seconds.
            max_quote_age_seconds: MaxSeconds = SLIPPAGE;

            /// Dollars above which a transaction on a public main network goes to a private endpoint only.
            private_rpc_above_usd: MaxUsd = EnforcedBy::Sending;
            /// Dollars from which a swap that prefers UniswapX becomes an auction; "none" for never. Below it, a
            /// filler's gas cost outweighs the protection.
            uniswapx_from_usd: MaxUsd = EnforcedBy::Routing;

            /// Minimum benefit of moving a liquidity position, in dollars: the fees that its new range is expected to earn,
            /// less the loss to arbitrage, the swap and the gas. A position that is closed and opened by two calls is not moved.
            min_rebalance_benefit_usd: MinUsd = MOVES;
            /// Requires that the benefit is known before a liquidity position is moved. Without it, too little data or a
            /// missing price does not keep a position from being moved; a known benefit must reach the minimum in any case.
            require_rebalance_check: Require = MOVES;

            /// Dollars above which a single tool needs approval: TOOL = { requires_approval_above_usd = "…" }.
            tools: ToolRules = EnforcedBy::Approval;
            /// Limits on single tokens: "CHAIN:0x…" = { max_single_usd = "…", max_daily_usd = "…" }.
            token_caps: TokenRules = SPENDING;
        }
        tables {
            /// Limits per transaction, per day, and without the safety-guardian.
            spending_limits: SpendingLimits / SpendingLimitsFile;
            /// Approval of a second operator, with a key of their own.
            second_approval: SecondApprovalRules / SecondApprovalRulesFile;
            /// Limits of each phase.
            phases: Phases / PhasesFile;
        }
    }
}

table! {
    /// Limits per transaction, per day, and without the safety-guardian. The lower of a limit here and a general limit
    /// applies.
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
    /// Approval of a second operator, with a key of their own.
    SecondApprovalRules / SecondApprovalRulesFile {
        fields {
            /// Dollars above which an action needs a second operator's approval, beside the operator's. Changes of
            /// authority, and looser policies, need one at any value; revocations, cancellations and refunds need none.
            above_usd: MaxUsd = EnforcedBy::Approval;
            /// Addresses whose keys can give it (`bardo approve`), one of which is enough; "none" without above_usd. The
            /// acting account is never one of them.
            approvers: Approvers = EnforcedBy::Approval;
        }
        tables {}
    }
}

table! {
    /// Limits of each phase. The classes of action that a phase allows are fixed; these limits only narrow them.
    Phases / PhasesFile {
        fields {}
        tables {
            /// Phase without restrictions.
            thriving: PhaseRules / PhaseRulesFile;
            /// Phase with smaller and tighter limits.
            cautious: PhaseRules / PhaseRulesFile;
            /// Phase in which only exits pass.
            defensive: PhaseRules / PhaseRulesFile;
            /// Phase in which only smaller exits pass.
            survival: PhaseRules / PhaseRulesFile;
            /// Phase of winding down: only exits pass.
            terminal: PhaseRules / PhaseRulesFile;
        }
    }
}

table! {
    /// Limits of one phase.
    PhaseRules / PhaseRulesFile {
        fields {
            /// Share of the limits per action that remains, in hundredths of a percent; exits are not reduced.
            size_factor_bps: MaxBps = PHASE;
            /// Maximum slippage tolerance of a trade, in hundredths of a percent.
            max_slippage_bps: MaxBps = SLIPPAGE;
            /// Exclusive upper bound on the price impact of a trade, in hundredths of a percent; 10000 adds no bound.
            max_price_impact_bps: MaxBps = SLIPPAGE;
            /// Lets only exits pass.
            exit_only: Require = PHASE;
            /// Maximum share of a position that one trade may sell, in hundredths of a percent: of the holding plus
            /// what left it within a day.
            max_position_share_bps: MaxBps = PHASE;
        }
        tables {}
    }
}
