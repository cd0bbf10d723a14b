//! The words every room shares: phases, action classes, tiers, budgets, categories, and what is
//! fixed about one tool. Plain data: what a phase allows or a tier demands is decided in `safety`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::SafeText;

/// A word that is none of those a closed list knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a valid {what}; known: {known}")]
pub struct UnknownName {
    /// What kind of word was expected, such as "phase".
    pub what: &'static str,
    /// The word that was given, cleaned.
    pub given: SafeText,
    /// Every word that would have been understood.
    pub known: String,
}

/// Declares an enum whose variants have one written form each, read without regard to case.
/// Words after `also` are read too, and never written.
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

            /// The written form, as in JSON and logs.
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
    /// How well a Golem is doing; each phase allows less than the one before it.
    Phase ("phase") {
        /// All is well: everything its policy allows.
        Thriving = "Thriving",
        /// Smaller and tighter.
        Cautious = "Cautious" also "Stable",
        /// Exits only.
        Defensive = "Defensive" also "Conservation",
        /// Smaller exits only.
        Survival = "Survival" also "Desperate",
        /// Winding down; there is no way back.
        Terminal = "Terminal",
    }
}

impl Phase {
    /// Which of the four sets of guidelines speaks to this phase.
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
    /// What becomes of what a Golem holds when it dies.
    OnDeath ("answer to death") {
        /// The operator is asked.
        Ask = "ask",
        /// It is sold, where the money is for play; elsewhere the operator is asked.
        Sell = "sell",
        /// It stays.
        Keep = "keep",
    }
}

named! {
    /// The keys under which a tool's guidelines are written.
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
    /// What an action does to the positions held, from the riskiest to the harmless.
    ActionClass ("action class") {
        /// Opens something not held before.
        NewPosition = "new-position",
        /// Adds to something held.
        IncreasePosition = "increase-position",
        /// Moves value between risky things.
        Rebalance = "rebalance",
        /// Sells part of something held.
        DecreasePosition = "decrease-position",
        /// Sells all of something held.
        ClosePosition = "close-position",
        /// Changes nothing.
        ReadOnly = "read-only",
    }
}

named! {
    /// What a tool may do at all.
    CapabilityTier ("capability") {
        /// Reads; needs no signature.
        Read = "Read",
        /// Signs, inside the policy.
        Write = "Write",
        /// Changes who holds authority; always asks the operator.
        Privileged = "Privileged",
    }
}

named! {
    /// How far a mistake could reach.
    RiskTier ("risk tier") {
        /// Reads.
        Layer1 = "Layer1",
        /// Writes with a natural bound, such as an order that can expire.
        Layer2 = "Layer2",
        /// Writes without one; the whole permit pipeline.
        Layer3 = "Layer3",
    }
}

named! {
    /// How long a call may take before it is said to have overrun.
    TickBudget ("tick budget") {
        /// Under a second.
        Fast = "Fast",
        /// One to five seconds.
        Medium = "Medium",
        /// Five to fifteen seconds.
        Slow = "Slow",
    }
}

impl TickBudget {
    /// The longest a call may take without overrunning, in milliseconds.
    pub const fn limit_millis(self) -> u64 {
        match self {
            Self::Fast => 1_000,
            Self::Medium => 5_000,
            Self::Slow => 15_000,
        }
    }

    /// The longest a call may take without overrunning.
    pub const fn limit(self) -> Duration {
        Duration::from_millis(self.limit_millis())
    }

    /// When a read is cancelled: three times the budget.
    pub const fn cancel_after(self) -> Duration {
        Duration::from_millis(self.limit_millis() * 3)
    }
}

named! {
    /// What the sprite does while a tool runs.
    SpriteTrigger ("sprite trigger") {
        /// It thinks: a read.
        Thinking = "Thinking",
        /// It acts: a write.
        Executing = "Executing",
    }
}

named! {
    /// The area a tool belongs to; tool sets are made of these.
    Category ("category") {
        /// Chains, tokens, balances, prices, pools.
        Data = "data",
        /// Quotes, swaps, orders, allowances.
        Trading = "trading",
        /// Liquidity positions.
        Lp = "lp",
        /// Vaults.
        Vault = "vault",
        /// Simulation and the state of the safety checks.
        Safety = "safety",
        /// On-chain identity and reputation.
        Identity = "identity",
        /// What the Golem remembers.
        Memory = "memory",
        /// Subscriptions.
        Streaming = "streaming",
        /// Analysis.
        Intelligence = "intelligence",
        /// Protocol fees.
        Fees = "fees",
        /// Learning from outcomes.
        SelfImprovement = "self_improvement",
        /// Pool hooks.
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
        /// Reading.
        Data = "data",
        /// Swapping.
        Trader = "trader",
        /// Providing liquidity.
        Lp = "lp",
        /// Running a vault.
        Vault = "vault",
        /// Protocol fees.
        Fees = "fees",
        /// On-chain identity.
        Erc8004 = "erc8004",
        /// Analysis.
        Intelligence = "intelligence",
        /// Watching without acting.
        Observatory = "observatory",
        /// Learning from outcomes.
        Learning = "learning",
        /// What a screen needs.
        Dashboard = "dashboard",
        /// Everything but test networks.
        Full = "full",
        /// Everything.
        Dev = "dev",
    }
}

named! {
    /// A check of the safety pipeline, in the order in which a write meets them.
    Check ("check") {
        /// Is a stop in force?
        Halt = "halt",
        /// Does the phase allow this class of action?
        PhaseGate = "phase_gate",
        /// Are all tokens on the list?
        TokenAllowlist = "token_allowlist",
        /// Is it inside every cap?
        SpendingLimit = "spending_limit",
        /// Not too often?
        RateLimit = "rate_limit",
        /// Has too much been lost already?
        BalanceBreaker = "balance_circuit_breaker",
        /// Is the least that can come in enough?
        SlippageGuard = "slippage_guard",
        /// Would the on-chain policy contract let it pass?
        PolicyCage = "policy_cage",
        /// Does it do what it says, on a fork of the chain as it is?
        Simulation = "simulation",
        /// Is the other chain well?
        ChainHealth = "chain_health",
    }
}

named! {
    /// How much is stopped, from the least to the most; each step includes those before it.
    StopLevel ("stop level") {
        /// Nothing new begins.
        Pause = "pause",
        /// Only what leaves a position is signed.
        ExitOnly = "exit-only",
        /// Positions are to be left, as the operator decides.
        Flatten = "flatten",
        /// Nothing is signed but revocations and cancellations.
        Halt = "halt",
        /// The keys themselves are to be taken away.
        Revoke = "revoke",
    }
}

named! {
    /// The widget that draws a tool's result.
    CardKind ("card") {
        /// A price with its route.
        Quote = "QuoteCard",
        /// A swap, step by step.
        Swap = "SwapProgress",
        /// An auction order with its decay.
        Order = "OrderCard",
        /// A bridge order over two chains.
        CrossChain = "CrossChainProgress",
        /// An allowance in one chip.
        Allowance = "AllowanceChip",
    }
}

/// Guidance for the model about a tool, by phase. In JSON there is one sentence under the name of each of the five phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guidelines {
    /// While all is well.
    pub thriving: &'static str,
    /// While it should take care.
    pub cautious: &'static str,
    /// While only exits are allowed.
    pub declining: &'static str,
    /// While winding down.
    pub terminal: &'static str,
    /// Where the tool set includes memory.
    pub memory: Option<&'static str>,
}

impl Guidelines {
    /// The sentence that speaks to `phase`.
    pub const fn for_phase(&self, phase: Phase) -> &'static str {
        match phase.guideline() {
            GuidelineKey::Thriving => self.thriving,
            GuidelineKey::Cautious => self.cautious,
            GuidelineKey::Declining => self.declining,
            GuidelineKey::Terminal => self.terminal,
        }
    }

    /// The sentence for each phase under the phase's name, and the one about memory.
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

/// Everything about a tool that is fixed when the program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ToolMeta {
    /// The name it is called by: lower case, digits and underscores.
    pub name: &'static str,
    /// What it does, for a person or a model choosing among tools.
    pub description: &'static str,
    /// The area it belongs to.
    pub category: Category,
    /// What it may do at all.
    pub capability: CapabilityTier,
    /// How far a mistake could reach.
    pub risk_tier: RiskTier,
    /// How long it may take.
    pub tick_budget: TickBudget,
    /// Names of its steps, in the order in which the documents list them.
    pub progress_steps: &'static [&'static str],
    /// What the sprite does meanwhile.
    pub sprite_trigger: SpriteTrigger,
    /// The line about it in the model's prompt.
    pub prompt_snippet: &'static str,
    /// How to use it in each phase.
    pub prompt_guidelines: Guidelines,
    /// Whether calling it again with the same parameters changes nothing further.
    pub idempotent: bool,
    /// The class it claims; a write's real class is derived from the simulated changes, and a claim
    /// can only be stricter.
    pub action_class: ActionClass,
    /// The checks it runs under. More can be added elsewhere, none removed.
    pub checks: &'static [Check],
    /// Parameters that `tool:start` shows; empty means all.
    pub event_params: &'static [&'static str],
    /// Result fields that `tool:end` shows as its summary.
    pub summary_fields: &'static [&'static str],
    /// The widget that draws its result, where there is one.
    pub card: Option<CardKind>,
    /// Roles that may take tokens for this tool, beside those that every tool may grant allowances to
    /// ([`SpenderRole::for_every_tool`]).
    pub spenders: &'static [SpenderRole],
}

impl ToolMeta {
    /// Whether the tool may grant an allowance to a contract of this role.
    pub fn may_allow(&self, role: SpenderRole) -> bool {
        role.for_every_tool() || self.spenders.contains(&role)
    }
}

/// What a contract of an address book does with an allowance. Contracts without such a role are never allowed to take
/// tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpenderRole {
    /// Permit2: takes only for spenders that have an allowance inside it, or a signature.
    Permit2,
    /// A router: takes only from its caller, for that caller's trade.
    Router,
    /// A position manager: takes only from its caller, for that caller's position.
    PositionManager,
    /// Settles orders that were signed for it.
    OrderReactor,
    /// Locks what a signed cross-chain intent gives.
    IntentSettler,
}

impl SpenderRole {
    /// Whether every tool may grant an allowance to it. A tool that needs another role declares it.
    pub const fn for_every_tool(self) -> bool {
        match self {
            Self::Permit2 | Self::Router | Self::PositionManager => true,
            Self::OrderReactor | Self::IntentSettler => false,
        }
    }

    /// Whether it takes only by a message that was signed for it, and never by an allowance.
    pub const fn by_signature_only(self) -> bool {
        match self {
            Self::OrderReactor | Self::IntentSettler => true,
            Self::Permit2 | Self::Router | Self::PositionManager => false,
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
    fn declining_speaks_to_two_phases() {
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
