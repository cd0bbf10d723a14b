//! Vocabulary that all crates share: phases, action classes, tiers, budgets, categories, and the fixed facts about a
//! tool. Plain data: the safety crate decides what a phase permits or a tier requires.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::SafeText;

/// Error for a word that a closed list does not contain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a valid {what}; known: {known}")]
pub struct UnknownName {
    /// Expected kind of word, such as "phase".
    pub what: &'static str,
    /// Given word, cleaned.
    pub given: SafeText,
    /// All known words.
    pub known: String,
}

/// Declares an enum whose variants have one written form each, parsed case-insensitively. Words after `also` are parsed
/// too but never written.
macro_rules! named {
    (
        $(#[$about:meta])*
        $name:ident ($what:literal) {
            $( $(#[$each:meta])* $variant:ident = $text:literal $(also $($alias:literal)|+)? ),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[$each])* $variant, )+
        }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Written form, as in JSON and logs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(given: &str) -> Result<Self, UnknownName> {
                let given = given.trim();
                $(
                    if given.eq_ignore_ascii_case($text) $($(|| given.eq_ignore_ascii_case($alias))+)? {
                        return Ok(Self::$variant);
                    }
                )+
                Err(UnknownName {
                    what: $what,
                    given: SafeText::clean(given, 40),
                    known: Self::ALL.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

mod rule;

pub use rule::{Rule, RuleName};

named! {
    /// Health of a Golem; each phase permits less than the one before it.
    Phase ("phase") {
        /// Everything that the policy permits.
        Thriving = "Thriving",
        /// Smaller and tighter limits.
        Cautious = "Cautious" also "Stable",
        /// Only exits are permitted.
        Defensive = "Defensive" also "Conservation",
        /// Only smaller exits are permitted.
        Survival = "Survival" also "Desperate",
        /// Winding down; this phase is irreversible.
        Terminal = "Terminal",
    }
}

impl Phase {
    /// Key of the guidelines for this phase.
    pub const fn guideline(self) -> GuidelineKey {
        match self {
            Self::Thriving => GuidelineKey::Thriving,
            Self::Cautious => GuidelineKey::Cautious,
            Self::Defensive | Self::Survival => GuidelineKey::Declining,
            Self::Terminal => GuidelineKey::Terminal,
        }
    }
}

named! {
    /// Treatment of a Golem's holdings when it dies.
    OnDeath ("answer to death") {
        /// The operator is asked.
        Ask = "ask",
        /// The holdings are sold on devnets; elsewhere the operator is asked.
        Sell = "sell",
        /// The holdings stay.
        Keep = "keep",
    }
}

named! {
    /// Key of a tool's guidelines, of which there are four for the five phases.
    GuidelineKey ("guideline key") {
        /// For [`Phase::Thriving`].
        Thriving = "thriving",
        /// For [`Phase::Cautious`].
        Cautious = "cautious",
        /// For [`Phase::Defensive`] and [`Phase::Survival`].
        Declining = "declining",
        /// For [`Phase::Terminal`].
        Terminal = "terminal",
    }
}

named! {
    /// Effect of an action on the positions held, from the riskiest to the harmless.
    ActionClass ("action class") {
        /// Opens a position that was not held before.
        NewPosition = "new-position",
        /// Adds to a position.
        IncreasePosition = "increase-position",
        /// Moves value between risky positions.
        Rebalance = "rebalance",
        /// Sells part of a position.
        DecreasePosition = "decrease-position",
        /// Sells all of a position.
        ClosePosition = "close-position",
        /// Leaves positions unchanged.
        ReadOnly = "read-only",
    }
}

named! {
    /// Capability of a tool.
    CapabilityTier ("capability") {
        /// Reads; needs no signature.
        Read = "Read",
        /// Signs within the policy.
        Write = "Write",
        /// Changes who holds authority; always needs the operator's approval.
        Privileged = "Privileged",
    }
}

named! {
    /// Possible extent of a mistake.
    RiskTier ("risk tier") {
        /// Tools that only read.
        Layer1 = "Layer1",
        /// Writes with a natural bound, such as an order that can expire.
        Layer2 = "Layer2",
        /// Writes without a natural bound; they pass the whole permit pipeline.
        Layer3 = "Layer3",
    }
}

named! {
    /// Latency budget of a call.
    TickBudget ("tick budget") {
        /// Less than a second.
        Fast = "Fast",
        /// One to five seconds.
        Medium = "Medium",
        /// Five to fifteen seconds.
        Slow = "Slow",
    }
}

impl TickBudget {
    /// Latency budget in milliseconds.
    pub const fn limit_millis(self) -> u64 {
        match self {
            Self::Fast => 1_000,
            Self::Medium => 5_000,
            Self::Slow => 15_000,
        }
    }

    /// Latency budget as a duration.
    pub const fn limit(self) -> Duration {
        Duration::from_millis(self.limit_millis())
    }

    /// Timeout of a read: three times the latency budget.
    pub const fn cancel_after(self) -> Duration {
        Duration::from_millis(self.limit_millis() * 3)
    }
}

named! {
    /// Sprite state while a tool runs.
    SpriteTrigger ("sprite trigger") {
        /// Thinking, for reads.
        Thinking = "Thinking",
        /// Executing, for writes.
        Executing = "Executing",
    }
}

named! {
    /// Area of a tool; profiles are made of these.
    Category ("category") {
        /// Chains, tokens, balances, prices, pools.
        Data = "data",
        /// Quotes, swaps, orders, allowances.
        Trading = "trading",
        /// Liquidity positions of Uniswap.
        Lp = "lp",
        /// Vaults of pooled funds.
        Vault = "vault",
        /// Simulation and the state of the safety checks.
        Safety = "safety",
        /// On-chain identity and reputation.
        Identity = "identity",
        /// Memory of the Golem.
        Memory = "memory",
        /// Subscriptions to streams of events.
        Streaming = "streaming",
        /// Analysis of markets and portfolios.
        Intelligence = "intelligence",
        /// Protocol fees of Uniswap.
        Fees = "fees",
        /// Learning from outcomes.
        SelfImprovement = "self_improvement",
        /// Hooks of Uniswap pools.
        Hook = "hook",
        /// Local test networks.
        Testnet = "testnet",
        /// The wallet and its session keys.
        Wallet = "wallet",
    }
}

named! {
    /// A named set of categories.
    Profile ("profile") {
        /// Tools that read chain data.
        Data = "data",
        /// Tools for swapping.
        Trader = "trader",
        /// Tools for providing liquidity.
        Lp = "lp",
        /// Tools for running a vault.
        Vault = "vault",
        /// Tools for protocol fees.
        Fees = "fees",
        /// Tools for on-chain identity (ERC-8004).
        Erc8004 = "erc8004",
        /// Tools for analysis.
        Intelligence = "intelligence",
        /// Tools for watching without acting.
        Observatory = "observatory",
        /// Tools for learning from outcomes.
        Learning = "learning",
        /// Tools that a dashboard needs.
        Dashboard = "dashboard",
        /// All tools except those for test networks.
        Full = "full",
        /// All tools, including those for test networks.
        Dev = "dev",
    }
}

named! {
    /// A check of the safety pipeline, in the order in which a write passes them.
    Check ("check") {
        /// Rejects actions that a stop in force does not permit.
        Halt = "halt",
        /// Rejects classes of action that the phase does not permit.
        PhaseGate = "phase_gate",
        /// Rejects tokens, contracts, recipients and the like that are not on their allowlists.
        TokenAllowlist = "token_allowlist",
        /// Rejects actions above a spending limit.
        SpendingLimit = "spending_limit",
        /// Rejects actions that come too often.
        RateLimit = "rate_limit",
        /// Rejects risk after too large a loss or too many failures.
        BalanceBreaker = "balance_circuit_breaker",
        /// Rejects trades whose minimum output is too low.
        SlippageGuard = "slippage_guard",
        /// Rejects actions that the on-chain policy contract would reject.
        PolicyCage = "policy_cage",
        /// Rejects actions whose simulation on a fork of the present chain differs from their declaration.
        Simulation = "simulation",
        /// Reports contradictions between a chain's endpoints; during one only exits and revocations pass.
        ChainHealth = "chain_health",
    }
}

named! {
    /// Extent of a stop, from the least to the most; each level includes those before it.
    StopLevel ("stop level") {
        /// No new action begins.
        Pause = "pause",
        /// Only exits from positions are signed.
        ExitOnly = "exit-only",
        /// Positions are to be closed, as the operator decides.
        Flatten = "flatten",
        /// Only revocations, cancellations and refunds are signed.
        Halt = "halt",
        /// The session keys themselves are removed.
        Revoke = "revoke",
    }
}

named! {
    /// Widget that draws a tool's result.
    CardKind ("card") {
        /// A quote with its route.
        Quote = "QuoteCard",
        /// Progress of a swap, step by step.
        Swap = "SwapProgress",
        /// An auction order with its decay.
        Order = "OrderCard",
        /// A bridge order between two chains.
        CrossChain = "CrossChainProgress",
        /// An allowance as a single chip.
        Allowance = "AllowanceChip",
        /// An action in a lending market, with the health factor before and after it.
        Lending = "LendingCard",
    }
}

/// Guidance for the model about a tool, by phase. JSON has one sentence under the name of each of the five phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guidelines {
    /// Guidance in the phase Thriving.
    pub thriving: &'static str,
    /// Guidance in the phase Cautious.
    pub cautious: &'static str,
    /// Guidance while only exits are permitted.
    pub declining: &'static str,
    /// Guidance while winding down.
    pub terminal: &'static str,
    /// Additional guidance if the tool set includes memory.
    pub memory: Option<&'static str>,
}

impl Guidelines {
    /// Guidance for this phase.
    pub const fn for_phase(&self, phase: Phase) -> &'static str {
        match phase.guideline() {
            GuidelineKey::Thriving => self.thriving,
            GuidelineKey::Cautious => self.cautious,
            GuidelineKey::Declining => self.declining,
            GuidelineKey::Terminal => self.terminal,
        }
    }

    /// Guidance for each phase under the phase's name, and the guidance about memory.
    pub fn each(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let memory = self.memory.map(|memory| ("memory", memory));
        Phase::ALL.iter().map(move |phase| (phase.as_str(), self.for_phase(*phase))).chain(memory)
    }
}

impl Serialize for Guidelines {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.each())
    }
}

/// Facts about a tool that are fixed at compile time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ToolMeta {
    /// Name of the tool: lower-case letters, digits and underscores.
    pub name: &'static str,
    /// Purpose of the tool, for a person or a model that chooses among tools.
    pub description: &'static str,
    /// Area of the tool.
    pub category: Category,
    /// Capability of the tool.
    pub capability: CapabilityTier,
    /// Possible extent of a mistake.
    pub risk_tier: RiskTier,
    /// Latency budget of a call.
    pub tick_budget: TickBudget,
    /// Names of its steps, in the order in which the documents list them.
    pub progress_steps: &'static [&'static str],
    /// Sprite state while the tool runs.
    pub sprite_trigger: SpriteTrigger,
    /// Line about the tool in the model's prompt.
    pub prompt_snippet: &'static str,
    /// Guidance for each phase.
    pub prompt_guidelines: Guidelines,
    /// True if a repeated call with the same parameters has no further effect.
    pub idempotent: bool,
    /// Declared class of its actions. A write's effective class is derived from the simulated changes, and the
    /// declaration can only be stricter.
    pub action_class: ActionClass,
    /// Checks that apply to the tool. More can be added elsewhere, none removed.
    pub checks: &'static [Check],
    /// Parameters that `tool:start` shows; empty means all.
    pub event_params: &'static [&'static str],
    /// Result fields that `tool:end` shows as its summary.
    pub summary_fields: &'static [&'static str],
    /// Widget that draws its result, if any.
    pub card: Option<CardKind>,
    /// Roles that may receive an allowance for this tool, besides those that every tool may grant allowances to
    /// ([`SpenderRole::for_every_tool`]).
    pub spenders: &'static [SpenderRole],
}

impl ToolMeta {
    /// True if the tool can end in a signature. A tool that may write and is read-only towards the chain changes records of
    /// this machine, or asks a service, and signs nothing.
    pub const fn signs(&self) -> bool {
        !matches!(self.capability, CapabilityTier::Read) && !matches!(self.action_class, ActionClass::ReadOnly)
    }

    /// True if the tool may grant an allowance to a contract of this role.
    pub fn may_allow(&self, role: SpenderRole) -> bool {
        role.for_every_tool() || self.spenders.contains(&role)
    }
}

/// Use that a contract of an address book makes of an allowance. Contracts without such a role never receive an
/// allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpenderRole {
    /// Permit2: takes tokens only for spenders with an allowance inside it, or with a signature.
    Permit2,
    /// Router: takes tokens only from its caller, for that caller's trade.
    Router,
    /// Position manager: takes tokens only from its caller, for that caller's position.
    PositionManager,
    /// Lending pool: takes tokens only from its caller, for that caller's supply or debt.
    LendingPool,
    /// Vault: takes tokens only from its caller, for that caller's shares.
    Vault,
    /// Releaser of protocol fees: takes the threshold of UNI from its caller.
    FeeReleaser,
    /// Reactor that settles orders signed for it.
    OrderReactor,
    /// Settler that locks the input of a signed cross-chain intent.
    IntentSettler,
    /// Bridge's pool: takes tokens only from its caller, for that caller's deposit.
    BridgePool,
}

impl SpenderRole {
    /// True if every tool may grant this role an allowance. A tool that needs another role declares it.
    pub const fn for_every_tool(self) -> bool {
        match self {
            Self::Permit2
            | Self::Router
            | Self::PositionManager
            | Self::LendingPool
            | Self::Vault
            | Self::FeeReleaser => true,
            Self::OrderReactor | Self::IntentSettler | Self::BridgePool => false,
        }
    }

    /// True if the role takes tokens only with a message signed for it, never with an allowance alone.
    pub const fn by_signature_only(self) -> bool {
        match self {
            Self::OrderReactor | Self::IntentSettler => true,
            Self::Permit2
            | Self::Router
            | Self::PositionManager
            | Self::LendingPool
            | Self::Vault
            | Self::FeeReleaser
            | Self::BridgePool => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_read_their_other_names() {
        for (given, phase) in [
            ("Thriving", Phase::Thriving),
            ("stable", Phase::Cautious),
            ("CAUTIOUS", Phase::Cautious),
            ("Conservation", Phase::Defensive),
            (" defensive ", Phase::Defensive),
            ("desperate", Phase::Survival),
            ("Survival", Phase::Survival),
            ("terminal", Phase::Terminal),
        ] {
            assert_eq!(given.parse::<Phase>(), Ok(phase), "{given}");
        }
        let error = "zombie\u{1b}[31m".parse::<Phase>().unwrap_err().to_string();
        assert!(error.contains("Thriving, Cautious, Defensive, Survival, Terminal"), "{error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }

    #[test]
    fn two_phases_use_the_declining_guideline() {
        let keys: Vec<_> = Phase::ALL.iter().map(|phase| phase.guideline().as_str()).collect();
        assert_eq!(keys, ["thriving", "cautious", "declining", "declining", "terminal"]);
    }

    #[test]
    fn every_word_reads_back_as_itself() {
        fn walk<T: Copy + PartialEq + fmt::Debug + fmt::Display + FromStr<Err = UnknownName> + Serialize>(all: &[T]) {
            for one in all {
                assert_eq!(one.to_string().parse::<T>().as_ref(), Ok(one));
                assert_eq!(serde_json::to_value(one).unwrap(), serde_json::Value::String(one.to_string()));
            }
        }
        walk(Phase::ALL);
        walk(ActionClass::ALL);
        walk(CapabilityTier::ALL);
        walk(RiskTier::ALL);
        walk(TickBudget::ALL);
        walk(SpriteTrigger::ALL);
        walk(Category::ALL);
        walk(Profile::ALL);
        walk(Check::ALL);
        walk(StopLevel::ALL);
        walk(CardKind::ALL);
    }

    #[test]
    fn the_words_are_those_of_the_documents() {
        let classes: Vec<_> = ActionClass::ALL.iter().map(|class| class.as_str()).collect();
        assert_eq!(
            classes,
            ["new-position", "increase-position", "rebalance", "decrease-position", "close-position", "read-only"]
        );
        let categories: Vec<_> = Category::ALL.iter().map(|category| category.as_str()).collect();
        assert_eq!(
            categories,
            [
                "data",
                "trading",
                "lp",
                "vault",
                "safety",
                "identity",
                "memory",
                "streaming",
                "intelligence",
                "fees",
                "self_improvement",
                "hook",
                "testnet",
                "wallet"
            ]
        );
    }

    #[test]
    fn budgets_are_those_of_the_specification() {
        let limits: Vec<_> = TickBudget::ALL.iter().map(|budget| budget.limit_millis()).collect();
        assert_eq!(limits, [1_000, 5_000, 15_000]);
        assert_eq!(TickBudget::Fast.cancel_after(), Duration::from_secs(3));
    }
}
