//! Table of error codes, and the error that every tool returns. Crates have error types of their own; callers outside
//! the engine see this one.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::fabric::{CheckOutcome, SafetyCheck};
use super::model::Rule;
use super::text::SafeText;
use super::units::AmountError;

/// Maximum length of a message, in characters.
const MESSAGE_CHARS: usize = 2_000;

/// Kind of a failure. It alone decides whether a retry can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCategory {
    /// The call itself is invalid and must be corrected.
    ValidationError,
    /// A rule blocks the call.
    RiskBlocked,
    /// The action would have failed on the chain in its present state.
    SimulationFailed,
    /// The call took too long, or comes too early.
    Timeout,
    /// A dependency did not answer.
    UpstreamUnavailable,
    /// The caller lacks the permission.
    PermissionDenied,
    /// The action was tried and failed, or its outcome is final.
    ExecutionFailed,
}

impl ErrorCategory {
    /// All categories, in order.
    pub const ALL: [Self; 7] = [
        Self::ValidationError,
        Self::RiskBlocked,
        Self::SimulationFailed,
        Self::Timeout,
        Self::UpstreamUnavailable,
        Self::PermissionDenied,
        Self::ExecutionFailed,
    ];

    /// True if the caller should retry after following the suggestion.
    pub const fn recoverable(self) -> bool {
        match self {
            Self::ValidationError | Self::SimulationFailed | Self::Timeout | Self::UpstreamUnavailable => true,
            Self::RiskBlocked | Self::PermissionDenied | Self::ExecutionFailed => false,
        }
    }
}

/// Area in which the failure arose; `details.group` in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorGroup {
    /// Tokens, prices and balances.
    Data,
    /// Search for a route between two tokens.
    Routing,
    /// The safety pipeline.
    Safety,
    /// Transactions that were submitted.
    Execution,
    /// Accounts and keys.
    Wallet,
    /// Chains and their endpoints.
    Chain,
    /// Orders that others fill.
    Order,
    /// Permits between preview and commit.
    Permit,
    /// Answers of the operator.
    Approval,
    /// The call and the engine that ran it.
    Call,
}

impl ErrorGroup {
    /// All groups, in order.
    pub const ALL: [Self; 10] = [
        Self::Data,
        Self::Routing,
        Self::Safety,
        Self::Execution,
        Self::Wallet,
        Self::Chain,
        Self::Order,
        Self::Permit,
        Self::Approval,
        Self::Call,
    ];
}

/// Declares the codes and their table together, so that no code lacks a row.
macro_rules! codes {
    ($( $(#[$about:meta])* $variant:ident, $text:literal, $category:ident, $group:ident, $suggestion:literal; )+) => {
        /// Error codes as callers see them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $( $(#[$about])* $variant, )+
        }

        impl ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Row of one code: written form, category, group, suggestion.
            const fn row(self) -> (&'static str, ErrorCategory, ErrorGroup, &'static str) {
                match self {
                    $( Self::$variant => ($text, ErrorCategory::$category, ErrorGroup::$group, $suggestion), )+
                }
            }
        }
    };
}

codes! {
    // code                        written form                        category             group      suggestion
    /// The token is unknown on this chain.
    TokenNotFound, "TOKEN_NOT_FOUND", ValidationError, Data,
        "Find the token with search_tokens, or use its 0x address on this chain.";
    /// The symbol matches several tokens.
    TokenAmbiguous, "TOKEN_AMBIGUOUS", ValidationError, Data,
        "Use the 0x address of the intended token; details list the candidates.";
    /// The symbol imitates that of a known token.
    TokenLookalike, "TOKEN_LOOKALIKE", RiskBlocked, Data,
        "Use the known token's symbol or address; the imitation is not traded.";
    /// The contract does not behave like a token.
    TokenInvalid, "TOKEN_INVALID", ValidationError, Data,
        "Check the address: the contract there does not behave like an ERC-20 token.";
    /// The wallet holds less than the requested amount.
    InsufficientBalance, "INSUFFICIENT_BALANCE", ValidationError, Data,
        "Reduce the amount to the balance that is not reserved for open orders; details show it.";
    /// No reliable price source covers the token.
    PriceUnavailable, "PRICE_UNAVAILABLE", UpstreamUnavailable, Data,
        "Try again after the next block; if the error persists, no live price source covers this token.";
    /// No pool on this chain matches the request.
    PoolNotFound, "POOL_NOT_FOUND", ValidationError, Data,
        "Try another fee tier or version, or name the pool by its address.";
    /// No liquidity position has this identity.
    PositionNotFound, "POSITION_NOT_FOUND", ValidationError, Data,
        "List the positions of the account; a closed position no longer exists.";
    /// No route exists between the two tokens.
    RoutingNoRoute, "ROUTING_NO_ROUTE", ValidationError, Routing,
        "Choose another pair: no route of pools connects these tokens on this chain.";
    /// The pools are too shallow for this amount.
    RoutingInsufficientLiquidity, "ROUTING_INSUFFICIENT_LIQUIDITY", ValidationError, Routing,
        "Reduce the amount, or split it over time.";
    /// The requested quote source is not available.
    SdkFallbackUnavailable, "SDK_FALLBACK_UNAVAILABLE", UpstreamUnavailable, Routing,
        "Configure the selected quote source, or use Bardo's own router.";
    /// The answer of a quote source contradicts the chain or the request.
    RoutingQuoteRefused, "ROUTING_QUOTE_REFUSED", UpstreamUnavailable, Routing,
        "Try again; if the error persists, quote from on-chain pools with BARDO_QUOTE_SOURCE=own.";
    /// A token is not on the allowlist.
    SafetyTokenNotAllowed, "SAFETY_TOKEN_NOT_ALLOWED", RiskBlocked, Safety,
        "Use a token on the allowlist, or ask the operator to add this one to the policy.";
    /// A tool, chain, contract, wallet, spender or recipient is not on its allowlist.
    SafetyNotAllowed, "SAFETY_NOT_ALLOWED", PermissionDenied, Safety,
        "Use only what the policy lists, or ask the operator to extend it; `bardo policy show` prints the lists.";
    /// The action exceeds a spending limit.
    SafetySpendingLimitExceeded, "SAFETY_SPENDING_LIMIT_EXCEEDED", RiskBlocked, Safety,
        "Reduce the amount to what the limit still allows; each violation says how much that is, and when it will be more.";
    /// The simulation reverted or had an undeclared effect.
    SafetySimulationFailed, "SAFETY_SIMULATION_FAILED", SimulationFailed, Safety,
        "Read the revert reason, request a new quote and try again with its figures.";
    /// Too many calls or trades within the time window.
    SafetyRateLimited, "SAFETY_RATE_LIMITED", Timeout, Safety,
        "Wait until the limit allows another call; details show when.";
    /// The phase does not permit this class of action.
    SafetyPhaseBlocked, "SAFETY_PHASE_BLOCKED", RiskBlocked, Safety,
        "Choose an action that this phase allows, such as an exit.";
    /// The loss is too large, or too many attempts failed.
    SafetyBalanceBreaker, "SAFETY_BALANCE_BREAKER", RiskBlocked, Safety,
        "Only exits pass until the breaker's cool-off is over or the operator resets it.";
    /// The minimum output is too low.
    SafetySlippage, "SAFETY_SLIPPAGE", RiskBlocked, Safety,
        "Reduce the amount, or tighten the slippage.";
    /// The debt would be too large for its collateral, or the lending market's prices are wrong.
    SafetyHealthFactor, "SAFETY_HEALTH_FACTOR", RiskBlocked, Safety,
        "Borrow or withdraw less, supply more collateral, or repay a part of the debt.";
    /// Moving a liquidity position is not expected to bring enough, or what it brings is not known.
    SafetyRebalanceBenefit, "SAFETY_REBALANCE_BENEFIT", RiskBlocked, Safety,
        "Leave the position, choose another range or a longer horizon, or close the position.";
    /// A value is unknown, so no limit could be checked.
    SafetyPriceUnknown, "SAFETY_PRICE_UNKNOWN", UpstreamUnavailable, Safety,
        "Wait until a live price exists; without a price, no limit can be checked.";
    /// The on-chain policy contract would reject the action.
    SafetyCageViolation, "SAFETY_CAGE_VIOLATION", RiskBlocked, Safety,
        "Stay within the policy contract's rules; no setting in Bardo can lift them.";
    /// The transaction reverted on chain.
    ExecutionTxReverted, "EXECUTION_TX_REVERTED", ExecutionFailed, Execution,
        "Read the revert reason and make a new plan; this transaction has ended and its gas is spent.";
    /// The transaction was not included in time.
    ExecutionTxTimeout, "EXECUTION_TX_TIMEOUT", ExecutionFailed, Execution,
        "Do not send it again: follow its hash until the chain settles it.";
    /// No signer is available for a write.
    WalletNotConfigured, "WALLET_NOT_CONFIGURED", PermissionDenied, Wallet,
        "Set up an account with `bardo keys new` or `bardo keys import`.";
    /// The wallet server refused to sign.
    WalletServerRefused, "WALLET_SERVER_REFUSED", PermissionDenied, Wallet,
        "Stay within the policies of the wallet server; only its owner can change them, there.";
    /// The wallet server does not serve now; nothing was signed.
    WalletServerUnavailable, "WALLET_SERVER_UNAVAILABLE", UpstreamUnavailable, Wallet,
        "Nothing was signed. Try again when the wallet server answers.";
    /// The wallet server may have signed, and its answer cannot be used.
    WalletServerUnclear, "WALLET_SERVER_UNCLEAR", ExecutionFailed, Wallet,
        "Compare the wallet server's own log with the account's transactions before anything else is signed.";
    /// The waiting transaction belongs to another Golem, or to the operator.
    TransactionNotOwn, "TRANSACTION_NOT_OWN", PermissionDenied, Wallet,
        "A Golem may replace only the transactions of its own calls; the operator may replace every one.";
    /// The account has sent transactions that are not in this ledger.
    AccountUsedOutside, "ACCOUNT_USED_OUTSIDE", PermissionDenied, Safety,
        "Only the operator goes on: `bardo reconcile` shows chain and ledger, and continues with their approval.";
    /// The session key's time is over.
    SessionKeyExpired, "SESSION_KEY_EXPIRED", PermissionDenied, Wallet,
        "Draft a new session key with `bardo keys session draft`, and let the owner sign it.";
    /// The session key was revoked.
    SessionKeyRevoked, "SESSION_KEY_REVOKED", PermissionDenied, Wallet,
        "A revoked session key signs nothing more. Draft a new one with `bardo keys session draft`.";
    /// The owner's delegation does not cover the call.
    SessionKeyOutOfScope, "SESSION_KEY_OUT_OF_SCOPE", PermissionDenied, Wallet,
        "Stay within what the owner delegated: `bardo keys session list` shows it. Only the owner can delegate more.";
    /// The session key has made all the calls that the owner delegated.
    SessionKeyUsedUp, "SESSION_KEY_USED_UP", PermissionDenied, Wallet,
        "Draft a new session key with `bardo keys session draft`, and let the owner sign it.";
    /// The record of the session key is missing, unsigned, or was not written by a holder of the key.
    SessionKeyUnverified, "SESSION_KEY_UNVERIFIED", PermissionDenied, Wallet,
        "Revoke it with `bardo keys session revoke`, find out what wrote to the ledger, and draft a new session key.";
    /// The Safe differs from what was bound, or may not do this.
    SafeRefused, "SAFE_REFUSED", PermissionDenied, Wallet,
        "`bardo keys safe` shows the Safe as it is and prints the setting that binds it so.";
    /// The chain is not configured.
    ChainUnknown, "CHAIN_UNKNOWN", ValidationError, Chain,
        "Name a configured chain, by name, alias or id; details list them.";
    /// No endpoint of the chain answers.
    ChainUnreachable, "CHAIN_UNREACHABLE", UpstreamUnavailable, Chain,
        "Check the endpoint with `bardo doctor`, or configure another one for this chain.";
    /// The endpoint serves another chain than configured, or returned an invalid answer.
    ChainInconsistent, "CHAIN_INCONSISTENT", UpstreamUnavailable, Chain,
        "Check which chain the endpoint serves; its response does not match the configuration.";
    /// The chain lacks something that the tool needs.
    ChainUnsupported, "CHAIN_UNSUPPORTED", ValidationError, Chain,
        "Choose a chain whose address book has the contracts that this needs.";
    /// The destination chain is degraded.
    CrossChainDestinationDegraded, "CROSS_CHAIN_DESTINATION_DEGRADED", UpstreamUnavailable, Chain,
        "Wait until get_chain_status shows the destination healthy, or choose another one.";
    /// The auction ended without a fill.
    UniswapxOrderExpired, "UNISWAPX_ORDER_EXPIRED", ExecutionFailed, Order,
        "The order took no tokens; an approval sent for it has cost its gas. Place a new order at the current price if it \
         is still wanted.";
    /// An earlier order for the same pair can still be filled.
    OrderStillOpen, "ORDER_STILL_OPEN", Timeout, Order,
        "Wait until the open order ends, or cancel it, then try again; details show the order and its latest end.";
    /// The action is possible later.
    NotYet, "NOT_YET", Timeout, Call,
        "Try again when the stated wait is over (`retry_after_seconds` in the details).";
    /// The permit has expired.
    PermitExpired, "PERMIT_EXPIRED", Timeout, Permit,
        "Preview the action again; the old permit is invalid.";
    /// The action differs from the permitted one.
    PermitMismatch, "PERMIT_MISMATCH", SimulationFailed, Permit,
        "Preview the action again and compare: the chain or the request has changed.";
    /// The permit was already used.
    PermitConsumed, "PERMIT_CONSUMED", RiskBlocked, Permit,
        "Read the result of the call that used it: a permit works once, and the action is in progress or done.";
    /// The action needs the operator's approval, and no operator can be asked.
    ApprovalRequired, "APPROVAL_REQUIRED", PermissionDenied, Approval,
        "Nobody was asked: `--approve ask` asks at the terminal, or in a console that is open on the same data folder and \
         the same chains (a call without --rpc or --network has a devnet of its own); without it, stay below the \
         approval limits.";
    /// The operator rejected the action.
    ApprovalRefused, "APPROVAL_REFUSED", PermissionDenied, Approval,
        "Read the operator's reason and propose something else.";
    /// The operator did not answer in time.
    ApprovalLapsed, "APPROVAL_LAPSED", Timeout, Approval,
        "This is not a rejection: request approval again when the operator is available.";
    /// A stop is in force.
    Halted, "HALTED", PermissionDenied, Safety,
        "The operator has stopped signing. Only the operator lifts it: `:resume` in the console, or `bardo resume`.";
    /// The parameters do not match the tool's schema or are contradictory.
    ValidationFailed, "VALIDATION_FAILED", ValidationError, Call,
        "Correct the parameter that the message names; `bardo tools NAME` shows the schema.";
    /// No tool has this name.
    ToolUnknown, "TOOL_UNKNOWN", ValidationError, Call,
        "List the tools with `bardo tools`.";
    /// A read took more than three times its budget.
    ToolTimeout, "TOOL_TIMEOUT", Timeout, Call,
        "Try again; if the error persists, check the endpoint's latency in get_chain_status.";
    /// The call was cancelled before it ended.
    ToolCancelled, "TOOL_CANCELLED", ExecutionFailed, Call,
        "Nothing needs to be done: it was stopped on request, before anything was signed.";
    /// The tool panicked.
    ToolPanicked, "TOOL_PANICKED", ExecutionFailed, Call,
        "This is a bug in Bardo: please report it with the call's id.";
    /// The idempotency key belongs to another call.
    IdempotencyConflict, "IDEMPOTENCY_CONFLICT", ValidationError, Call,
        "Use a new key: this one belongs to a call with other parameters.";
    /// A call with the same idempotency key is still running.
    CallInProgress, "CALL_IN_PROGRESS", Timeout, Call,
        "Wait for the first call with this key, then repeat the call to get its result.";
    /// The database reported an error.
    StoreUnavailable, "STORE_UNAVAILABLE", UpstreamUnavailable, Call,
        "Do what the message names, such as repairing the data folder; no action runs without its record.";
}

impl ErrorCode {
    /// Written form of the code, such as `TOKEN_NOT_FOUND`.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// Category of the failure.
    pub const fn category(self) -> ErrorCategory {
        self.row().1
    }

    /// Area in which the failure arose.
    pub const fn group(self) -> ErrorGroup {
        self.row().2
    }

    /// General advice, for errors without a more specific one.
    pub const fn suggestion(self) -> &'static str {
        self.row().3
    }

    /// True if the caller should retry after following the suggestion.
    pub const fn recoverable(self) -> bool {
        self.category().recoverable()
    }

    /// True for codes with which a rule or the permit blocks the call (status `blocked`). The category of some of them
    /// is recoverable, because they pass with time.
    pub const fn is_denial(self) -> bool {
        matches!(self.category(), ErrorCategory::RiskBlocked)
            || matches!(
                self,
                Self::SafetyNotAllowed
                    | Self::SafetyRateLimited
                    | Self::SafetyPriceUnknown
                    | Self::TransactionNotOwn
                    | Self::WalletServerRefused
                    | Self::SessionKeyExpired
                    | Self::SessionKeyRevoked
                    | Self::SessionKeyOutOfScope
                    | Self::SessionKeyUsedUp
                    | Self::SessionKeyUnverified
                    | Self::SafeRefused
                    | Self::PermitExpired
                    | Self::PermitMismatch
            )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::ALL.iter().copied().find(|code| code.as_str() == text).ok_or_else(|| {
            serde::de::Error::custom(format_args!("`{}` is not an error code", SafeText::clean(&text, 60)))
        })
    }
}

/// A rule that a call violates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The violated rule, named in JSON as in the policy.
    pub rule: Rule,
    /// Limit of the rule, in words.
    pub limit: SafeText,
    /// Value that violates it, in words.
    pub value: SafeText,
    /// A value that would pass, in words.
    pub would_pass: SafeText,
    /// Figures behind the words, for callers that calculate; `None` for a rule without figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Box<RuleFigures>>,
}

/// Figures of a rule that a call violates, as decimal strings in one unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleFigures {
    /// Unit of all amounts of this value.
    pub unit: FigureUnit,
    /// Limit of the rule.
    pub limit: String,
    /// Value that is compared with the limit: the call's own amount plus the earlier ones that count.
    pub value: String,
    /// Amount that the limit leaves now, beside the gas of the call where that counts as well; `None` where the rule leaves
    /// no amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// Seconds until the limit leaves more; `None` where time alone frees nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frees_in_seconds: Option<u64>,
}

/// Unit of a violated rule's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureUnit {
    /// US dollars, as a decimal.
    Usd,
    /// Basis points (0.01 %).
    Bps,
    /// Seconds of time.
    Seconds,
    /// Number of calls, trades, revocations or failures.
    Count,
    /// Wei per unit of gas.
    Wei,
    /// Raw units of the token that the rule is about.
    RawUnits,
}

impl FigureUnit {
    /// All units, in order.
    pub const ALL: [Self; 6] = [Self::Usd, Self::Bps, Self::Seconds, Self::Count, Self::Wei, Self::RawUnits];
}

impl RuleFigures {
    /// Figures of a rule that leaves no amount and that time alone does not satisfy.
    pub fn new(unit: FigureUnit, limit: impl fmt::Display, value: impl fmt::Display) -> Self {
        Self { unit, limit: limit.to_string(), value: value.to_string(), left: None, frees_in_seconds: None }
    }

    /// Adds the amount that the limit leaves now.
    #[must_use]
    pub fn leaving(self, left: impl fmt::Display) -> Self {
        Self { left: Some(left.to_string()), ..self }
    }

    /// Adds the seconds until the limit leaves more.
    #[must_use]
    pub fn freeing_in(self, seconds: Option<u64>) -> Self {
        Self { frees_in_seconds: seconds, ..self }
    }
}

impl Violation {
    /// Violation of a rule without figures. The words are cleaned, since they may quote a token or an endpoint.
    pub fn new(
        rule: impl Into<Rule>,
        limit: impl fmt::Display,
        value: impl fmt::Display,
        would_pass: impl fmt::Display,
    ) -> Self {
        let clean = |words: String| SafeText::clean(&words, MESSAGE_CHARS);
        Self {
            rule: rule.into(),
            limit: clean(limit.to_string()),
            value: clean(value.to_string()),
            would_pass: clean(would_pass.to_string()),
            figures: None,
        }
    }

    /// Adds the figures of the violation.
    #[must_use]
    pub fn with(self, figures: impl Into<Option<RuleFigures>>) -> Self {
        Self { figures: figures.into().map(Box::new), ..self }
    }
}

/// Error that a tool returns.
///
/// In JSON: `{code, category, message, recoverable, suggestion, details}`, `details.group` included.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    code: ErrorCode,
    message: String,
    suggestion: Option<String>,
    details: Map<String, Value>,
}

impl ToolError {
    /// Error with the code's general suggestion. The message is cleaned like external text, because it may quote some.
    pub fn new(code: ErrorCode, message: impl fmt::Display) -> Self {
        let message = SafeText::clean(&message.to_string(), MESSAGE_CHARS).to_string();
        Self { code, message, suggestion: None, details: Map::new() }
    }

    /// Replaces the code's general advice with a specific one.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl fmt::Display) -> Self {
        self.suggestion = Some(SafeText::clean(&suggestion.to_string(), MESSAGE_CHARS).to_string());
        self
    }

    /// Adds one machine-readable fact. In JSON, the code's group overwrites a fact named `group`.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Lists the violated rules as `details.violations`.
    #[must_use]
    pub fn violating(self, violations: &[Violation]) -> Self {
        self.detail("violations", serde_json::json!(violations))
    }

    /// Lists every check that was reached as `details.checks`.
    #[must_use]
    pub fn checked(self, checks: &[SafetyCheck]) -> Self {
        self.detail("checks", serde_json::json!(checks))
    }

    /// Checks of `details.checks` that block the call.
    pub fn blocked(&self) -> Vec<SafetyCheck> {
        let checks = self.details.get("checks").and_then(Value::as_array).into_iter().flatten();
        checks
            .filter_map(|check| SafetyCheck::deserialize(check).ok())
            .filter(|check| check.outcome == CheckOutcome::Blocked)
            .collect()
    }

    /// Violations of `details.violations`.
    pub fn violations(&self) -> Vec<Violation> {
        let found = self.details.get("violations").and_then(Value::as_array).into_iter().flatten();
        found.filter_map(|one| Violation::deserialize(one).ok()).collect()
    }

    /// Code of the error.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Message for a human reader.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Advice for the caller: the specific one, or else the code's.
    pub fn suggestion(&self) -> &str {
        self.suggestion.as_deref().unwrap_or(self.code.suggestion())
    }

    /// Machine-readable facts, without the group.
    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for ToolError {}

impl Serialize for ToolError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut details = self.details.clone();
        details.insert("group".to_owned(), serde_json::to_value(self.code.group()).map_err(serde::ser::Error::custom)?);
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("code", &self.code)?;
        map.serialize_entry("category", &self.code.category())?;
        map.serialize_entry("message", &self.message)?;
        map.serialize_entry("recoverable", &self.code.recoverable())?;
        map.serialize_entry("suggestion", self.suggestion())?;
        map.serialize_entry("details", &details)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ToolError {
    /// Reads the form that [`Serialize`] wrote. Category, group and recoverability come from the code, whatever the
    /// text claims.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct ErrorForm {
            code: ErrorCode,
            message: String,
            suggestion: String,
            #[serde(default)]
            details: Map<String, Value>,
        }
        let written = ErrorForm::deserialize(deserializer)?;
        let mut error = Self::new(written.code, written.message);
        if written.suggestion != error.suggestion() {
            error = error.suggest(written.suggestion);
        }
        error.details = written.details;
        error.details.remove("group");
        Ok(error)
    }
}

impl From<AmountError> for ToolError {
    fn from(error: AmountError) -> Self {
        Self::new(ErrorCode::ValidationFailed, format_args!("parameter `amount`: {error}"))
            .detail("parameter", "amount")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of error classes in `001`.
    const RECOVERABLE: [(&str, bool); 7] = [
        ("validation_error", true),
        ("risk_blocked", false),
        ("simulation_failed", true),
        ("timeout", true),
        ("upstream_unavailable", true),
        ("permission_denied", false),
        ("execution_failed", false),
    ];

    /// The table of error codes in `000`: code and group.
    const LISTED: [(&str, &str); 11] = [
        ("TOKEN_NOT_FOUND", "data"),
        ("ROUTING_NO_ROUTE", "routing"),
        ("ROUTING_INSUFFICIENT_LIQUIDITY", "routing"),
        ("SAFETY_TOKEN_NOT_ALLOWED", "safety"),
        ("SAFETY_SPENDING_LIMIT_EXCEEDED", "safety"),
        ("SAFETY_SIMULATION_FAILED", "safety"),
        ("EXECUTION_TX_REVERTED", "execution"),
        ("EXECUTION_TX_TIMEOUT", "execution"),
        ("WALLET_NOT_CONFIGURED", "wallet"),
        ("CROSS_CHAIN_DESTINATION_DEGRADED", "chain"),
        ("UNISWAPX_ORDER_EXPIRED", "order"),
    ];

    /// Further codes that `003` and the specification name.
    const NAMED: &str = "SDK_FALLBACK_UNAVAILABLE VALIDATION_FAILED SAFETY_RATE_LIMITED SAFETY_PHASE_BLOCKED \
        SAFETY_BALANCE_BREAKER SAFETY_SLIPPAGE SAFETY_PRICE_UNKNOWN SAFETY_CAGE_VIOLATION PERMIT_EXPIRED \
        PERMIT_MISMATCH PERMIT_CONSUMED APPROVAL_REQUIRED APPROVAL_REFUSED APPROVAL_LAPSED HALTED \
        CHAIN_UNREACHABLE CHAIN_UNKNOWN TOOL_TIMEOUT";

    fn written(code: ErrorCode) -> Value {
        serde_json::to_value(ToolError::new(code, "something")).unwrap()
    }

    #[test]
    fn recoverable_follows_the_category_in_every_row() {
        for code in ErrorCode::ALL {
            let json = written(*code);
            let category = json["category"].as_str().unwrap();
            let expected = RECOVERABLE.iter().find(|(name, _)| *name == category).unwrap().1;
            assert_eq!(json["recoverable"], expected, "{code}");
        }
    }

    /// Codes whose suggestion is to retry the same call, immediately or later.
    const AGAIN: [&str; 12] = [
        "PRICE_UNAVAILABLE",
        "SAFETY_RATE_LIMITED",
        "SAFETY_PRICE_UNKNOWN",
        "ORDER_STILL_OPEN",
        "NOT_YET",
        "PERMIT_EXPIRED",
        "PERMIT_MISMATCH",
        "APPROVAL_LAPSED",
        "TOOL_TIMEOUT",
        "CALL_IN_PROGRESS",
        "CROSS_CHAIN_DESTINATION_DEGRADED",
        "INSUFFICIENT_BALANCE",
    ];

    #[test]
    fn recoverable_agrees_with_the_suggestion() {
        for code in AGAIN {
            let found = ErrorCode::ALL.iter().find(|one| one.as_str() == code).unwrap();
            assert!(found.recoverable(), "{code}: {}", found.suggestion());
        }
        let again = ["again", "try", "wait", "ask when"];
        for code in ErrorCode::ALL.iter().filter(|code| !code.recoverable()) {
            let suggestion = code.suggestion().to_lowercase();
            let tells =
                again.iter().find(|word| suggestion.contains(*word) && !suggestion.contains("do not send it again"));
            assert!(tells.is_none(), "{code}: {suggestion}");
        }
    }

    #[test]
    fn every_code_is_written_once_and_says_what_to_do() {
        let mut seen = std::collections::BTreeSet::new();
        for code in ErrorCode::ALL {
            let text = code.as_str();
            assert!(seen.insert(text), "{text} is there twice");
            assert!(text.chars().all(|c| c.is_ascii_uppercase() || c == '_'), "{text}");
            assert!(code.suggestion().ends_with('.') && code.suggestion().len() > 20, "{text}");
        }
    }

    #[test]
    fn the_documents_codes_are_there() {
        let find = |text: &str| ErrorCode::ALL.iter().find(|code| code.as_str() == text).copied();
        for (text, group) in LISTED {
            let code = find(text).unwrap_or_else(|| panic!("{text} is missing"));
            assert_eq!(written(code)["details"]["group"], group, "{text}");
        }
        for text in NAMED.split_whitespace() {
            assert!(find(text).is_some(), "{text} is missing");
        }
    }

    #[test]
    fn an_error_reads_back_as_written() {
        let error = ToolError::new(ErrorCode::TokenAmbiguous, "two tokens are called USDC")
            .suggest("Choose one.")
            .detail("candidates", vec!["0x1", "0x2"])
            .detail("group", "forged");
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!(json["details"]["group"], "data");
        assert_eq!(json["suggestion"], "Choose one.");
        let back: ToolError = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&back).unwrap(), json);
    }

    #[test]
    fn messages_are_cleaned() {
        let error = ToolError::new(ErrorCode::TokenInvalid, "symbol \u{1b}[2J\u{7}here");
        assert!(!error.message().chars().any(char::is_control), "{error}");
    }
}
