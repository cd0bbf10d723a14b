//! Facts about a tool that are needed to draw its calls.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::model::{CardKind, ToolMeta};

/// Facts about a tool, carried by the event that begins its call, so that programs without the tool registry can draw
/// the call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFacts {
    /// Widget of its card; without one, the call is drawn as a plain line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<CardKind>,
    /// True if the tool signs.
    #[serde(default)]
    pub signs: bool,
    /// Steps in order, if its card shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Cow<'static, str>>,
}

/// Steps of `uniswap_execute_swap` before version 2 of the journal.
const SWAP_STEPS: &[&str] = &[
    "Simulating via Revm",
    "Approving token",
    "Building calldata",
    "Signing transaction",
    "Broadcasting",
    "Confirming receipt",
];

/// Tools that had a card or signed before recordings carried these facts.
const EARLIER: &[(&str, Option<CardKind>, bool)] = &[
    ("uniswap_get_quote", Some(CardKind::Quote), false),
    ("uniswap_execute_swap", Some(CardKind::Swap), true),
    ("uniswap_check_allowance", Some(CardKind::Allowance), false),
    ("token_approve", Some(CardKind::Allowance), true),
    ("token_revoke", Some(CardKind::Allowance), true),
    ("uniswap_submit_uniswapx_order", Some(CardKind::Order), true),
    ("uniswap_get_uniswapx_order_status", Some(CardKind::Order), false),
    ("uniswapx_cancel_order", Some(CardKind::Order), true),
    ("uniswap_submit_cross_chain_intent", Some(CardKind::CrossChain), true),
    ("intent_refund", Some(CardKind::CrossChain), true),
    ("wallet_transfer_token", None, true),
];

impl ToolFacts {
    /// Facts of a registered tool.
    pub fn of(meta: &ToolMeta) -> Self {
        let steps = match meta.card {
            Some(CardKind::Swap) => meta.progress_steps.iter().map(|step| Cow::Borrowed(*step)).collect(),
            Some(
                CardKind::Quote | CardKind::Order | CardKind::CrossChain | CardKind::Allowance | CardKind::Lending,
            )
            | None => Vec::new(),
        };
        Self { card: meta.card, signs: meta.signs(), steps }
    }

    /// Facts of a tool by its name, as they were before recordings carried them.
    pub fn of_earlier_versions(tool: &str) -> Self {
        let Some((_, card, signs)) = EARLIER.iter().find(|(name, _, _)| *name == tool) else { return Self::default() };
        let steps = match card {
            Some(CardKind::Swap) => SWAP_STEPS.iter().map(|step| Cow::Borrowed(*step)).collect(),
            Some(
                CardKind::Quote | CardKind::Order | CardKind::CrossChain | CardKind::Allowance | CardKind::Lending,
            )
            | None => Vec::new(),
        };
        Self { card: *card, signs: *signs, steps }
    }
}
