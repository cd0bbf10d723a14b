//! Automatic quote that follows the typing.

use serde_json::{Map, Value};

use super::{Purpose, QUOTE_EVERY_MILLIS, QUOTE_TOOL, SWAP_TOOL, Trade};
use crate::screens::{ScreenContext, ScreenRequest};
use crate::widgets::quote::QuoteModel;

/// Returns true for a complete amount above zero or `max`, so that no quote is requested for a half-typed number.
pub(super) fn is_positive_amount(amount: Option<&Value>) -> bool {
    let Some(amount) = amount.and_then(Value::as_str) else { return false };
    let digits = |text: &str| text.chars().all(|one| one.is_ascii_digit());
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, "0"));
    let numeral = digits(whole) && digits(fraction) && !whole.is_empty() && !fraction.is_empty();
    amount == "max" || numeral && amount.chars().any(|one| matches!(one, '1'..='9'))
}

impl Trade {
    /// Returns true if the quote tool answers for the form's tool: for a swap and for the quote itself. Auctions and
    /// bridge orders are settled at other prices.
    pub(super) fn is_quoted(&self) -> bool {
        self.form().is_some_and(|form| matches!(form.tool.as_str(), QUOTE_TOOL | SWAP_TOOL))
    }

    /// Parameters for a quote of the current form; `None` if a field is empty or the tool has no quote.
    pub(super) fn quote_params(&self) -> Option<Value> {
        let form = self.form().filter(|_| self.is_quoted())?;
        let mut params = Map::new();
        for name in ["token_in", "token_out", "amount", "chain"] {
            let value = form.value(name);
            if value.is_empty() {
                return None;
            }
            params.insert(name.to_owned(), Value::from(value));
        }
        for name in ["slippage_bps", "exact_output"] {
            let typed = form.value(name);
            if let Ok(value) = serde_json::from_str::<Value>(typed) {
                params.insert(name.to_owned(), value);
            }
        }
        Some(Value::Object(params))
    }

    /// Returns true if the displayed quote is for the current parameters.
    pub(super) fn quote_fits(&self) -> bool {
        self.quote_params().is_some_and(|params| params == self.quoted)
    }

    /// Requests a quote if the parameters have changed, no quote is pending, and the minimum interval has passed.
    pub(super) fn follow(&mut self, known: &ScreenContext<'_>) -> Option<ScreenRequest> {
        let params = self.quote_params().filter(|params| is_positive_amount(params.get("amount")))?;
        let soon = known.machine_millis < self.last_quote_millis.saturating_add(QUOTE_EVERY_MILLIS);
        if self.asking_quote || params == self.quoted || soon {
            return None;
        }
        self.asking_quote = true;
        self.last_quote_millis = known.machine_millis;
        self.quoted = params.clone();
        self.quote = Some(QuoteModel::asked(known.now_millis, QUOTE_TOOL, params.clone()));
        Some(self.call(Purpose::Quote, QUOTE_TOOL, params))
    }
}
