//! Choices for a form field, so that a mouse suffices: tokens, chains, and fractions of a balance.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use super::super::form::FieldKind;
use super::super::{ScreenContext, ScreenRequest};
use super::Trade;
use crate::painter::{Painter, StyledText};
use crate::theme::{Role, Theme};
use bardo_base::text::{SafeText, width};
use bardo_base::units::TokenAmount;

/// Fields that name the chain on which an action starts.
pub(super) const CHAIN_FIELDS: [&str; 3] = ["chain", "chain_id", "source_chain"];

/// Tools whose paid or named token cannot be the native one: a market or an order takes it wrapped only, and it has no
/// allowances.
const TAKE_NO_NATIVE: [&str; 8] = [
    "lending_borrow",
    "lending_repay",
    "lending_supply",
    "lending_withdraw",
    "token_approve",
    "token_revoke",
    "uniswap_check_allowance",
    "uniswap_submit_uniswapx_order",
];

impl Trade {
    /// Line of the choices, between the fields and the help.
    pub(super) fn choices_line(fields: Rect, button: Rect) -> Rect {
        // A blank line first, if there is room for it.
        let blank = u16::from(fields.bottom() + 4 < button.y);
        let margin = fields.width.min(2);
        let height = u16::from(fields.bottom() + 2 < button.y);
        Rect { x: fields.x + margin, y: fields.bottom() + blank, width: fields.width - margin, height }
    }

    /// Area of the help text of the focused field, above the button.
    pub(super) fn help_place(fields: Rect, button: Rect, form: Rect) -> Rect {
        let roomy = fields.bottom() + 4 < button.y;
        let first = if roomy { fields.bottom() + 3 } else { button.y.saturating_sub(2).max(fields.y) };
        let height = if roomy { button.y - first - 1 } else { 2.min(form.height) };
        Rect { y: first, height, ..button }
    }

    /// Choices for the focused field. Each can also be typed.
    pub(super) fn choices(&self, known: &ScreenContext<'_>) -> Vec<String> {
        let Some(form) = self.form() else { return Vec::new() };
        let Some(field) = form.fields.get(form.at) else { return Vec::new() };
        let mut all: Vec<String> = Vec::new();
        let mut add = |text: &str| {
            if !text.is_empty() && !all.iter().any(|known| known == text) {
                all.push(text.to_owned());
            }
        };
        match field.name.as_str() {
            "token" | "token_in" | "token_out" => {
                let held =
                    known.snapshot.into_iter().flat_map(|snapshot| &snapshot.holdings).flat_map(|chain| &chain.rows);
                held.for_each(|row| add(row.symbol.as_str()));
                let listed = known.page.chains.iter().flat_map(|chain| &chain.tokens);
                listed.for_each(|token| add(token.symbol.as_str()));
                if field.name != "token_out" && TAKE_NO_NATIVE.contains(&form.tool.as_str()) {
                    let natives = known.feed.native_symbols.values();
                    let held = known.snapshot.into_iter().flat_map(|snapshot| &snapshot.holdings);
                    let held = held.filter_map(|chain| known.native_symbol(chain.chain_id));
                    let natives: Vec<&SafeText> = natives.chain(held).collect();
                    all.retain(|symbol| !natives.iter().any(|native| native.as_str() == symbol));
                }
            }
            "chain" | "chain_id" | "source_chain" | "destination_chain" => {
                let chains = known.page.network.iter().flat_map(|network| &network.chains);
                chains.for_each(|chain| add(chain.name.as_str()));
            }
            "amount" => {
                let pays = ["token_in", "token"].map(|name| form.value(name));
                let chain = CHAIN_FIELDS.map(|name| form.value(name));
                let held = known.snapshot.into_iter().flat_map(|snapshot| &snapshot.holdings);
                let held = held.filter(|one| chain.contains(&one.chain.as_str())).flat_map(|one| &one.rows);
                if let Some(row) = held.into_iter().find(|row| pays.contains(&row.symbol.as_str())) {
                    for part in [20_u64, 10, 4, 2] {
                        let raw = row.amount.raw() / alloy_primitives::U256::from(part);
                        let shown = TokenAmount::new(raw, row.amount.decimals()).map(|amount| amount.to_string());
                        // The exact fraction has more digits than useful, so three significant digits are kept.
                        shown.iter().for_each(|text| add(&rough(text)));
                    }
                    add("max");
                }
            }
            _ if field.kind == FieldKind::Switch => {
                add("yes");
                add("no");
            }
            _ => {}
        }
        all
    }

    /// Choices that fit the line, with their areas.
    pub(super) fn choice_places(&self, known: &ScreenContext<'_>, line: Rect) -> Vec<(Rect, String)> {
        let mut x = line.x;
        let mut places = Vec::new();
        for choice in self.choices(known) {
            let columns = u16::try_from(width(&choice) + 2).unwrap_or(u16::MAX);
            if line.height == 0 || x.saturating_add(columns) > line.right() {
                break;
            }
            places.push((Rect { x, width: columns, ..line }, choice));
            x = x.saturating_add(columns).saturating_add(1);
        }
        places
    }

    /// Puts a choice into the focused field, as if it had been typed.
    pub(super) fn choose_value(&mut self, value: &str, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let Some(form) = self.forms.get_mut(self.chosen) else { return Vec::new() };
        let at = form.at;
        if let Some(field) = form.fields.get_mut(at) {
            field.typed.replace(match (field.kind, value) {
                (FieldKind::Switch, "yes") => "true",
                (FieldKind::Switch, "no") => "false",
                (_, typed) => typed,
            });
        }
        self.typing = true;
        self.remark = None;
        self.forget_preview();
        self.start_over(known);
        self.follow(known).into_iter().collect()
    }
}

/// Line of the choices for the focused field.
pub(super) struct ChoiceLine<'a> {
    pub(super) theme: &'a Theme,
    pub(super) screen: &'a Trade,
    pub(super) known: &'a ScreenContext<'a>,
}

impl Widget for ChoiceLine<'_> {
    fn render(self, line: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        for (place, choice) in screen.choice_places(known, line) {
            let pieces: [StyledText; 3] =
                [("[".to_owned(), Role::TextDim), (choice, Role::Chart), ("]".to_owned(), Role::TextDim)];
            painter.pieces(place, &pieces);
        }
    }
}

/// Number rounded down to three significant digits; whole digits are always kept.
fn rough(numeral: &str) -> String {
    let (whole, fraction) = numeral.split_once('.').unwrap_or((numeral, ""));
    let places = match (whole.trim_start_matches('0').len(), fraction.len() - fraction.trim_start_matches('0').len()) {
        (0, zeros) => zeros + 3,
        (digits, _) => 3_usize.saturating_sub(digits),
    };
    let kept = fraction.get(..places).unwrap_or(fraction).trim_end_matches('0');
    if kept.is_empty() { whole.to_owned() } else { format!("{whole}.{kept}") }
}

#[cfg(test)]
mod tests {
    use super::rough;

    #[test]
    fn a_part_of_what_is_held_has_three_digits_that_say_something() {
        for (given, shown) in [
            ("0.1925", "0.192"),
            ("1250.5", "1250"),
            ("12.3456", "12.3"),
            ("0.0001234567", "0.000123"),
            ("5", "5"),
            ("0.5000", "0.5"),
        ] {
            assert_eq!(rough(given), shown, "{given}");
        }
    }
}
