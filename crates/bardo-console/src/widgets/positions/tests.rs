use super::*;
use crate::widgets::samples::positions as samples;
use bardo_base::text::corpus;

fn safe(words: &str) -> SafeText {
    SafeText::clean(words, 40)
}

fn liquidity(id: &str, now: i32, exit: &str) -> LiquidityPosition {
    LiquidityPosition::from_entry(&safe("ethereum"), &samples::position("WETH", id, now, exit)).unwrap()
}

fn drawn(position: PositionView<'_>, width: u16, height: u16) -> String {
    let (theme, area) = (Theme::load("dark", None).unwrap().0, Rect::new(0, 0, width, height));
    let mut buffer = Buffer::empty(area);
    let age = ("read 12 s ago".to_owned(), Role::TextDim);
    PositionCard::new(position, &theme).age(&age).below("Enter acts").render(area, &mut buffer);
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>();
    buffer.content.chunks(width.into()).map(|row| line(row).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn pictured(name: &str, position: PositionView<'_>) {
    for (width, height) in [(120, 22), (80, 22), (40, 30), (14, 5)] {
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), drawn(position, width, height));
    }
}

#[test]
fn liquidity_in_every_state() {
    for (name, position) in [
        ("in_range", liquidity("42", -196_000, "open")),
        ("below_range", liquidity("42", -200_001, "open")),
        ("above_range", liquidity("v4:7", -194_000, "open")),
        ("locked", liquidity("v4:8", -196_000, "locked")),
        ("untried", liquidity("v4:9", -196_000, "untried")),
    ] {
        pictured(&format!("liquidity_{name}"), PositionView::Liquidity(&position));
    }
    let mut entry = samples::position("WETH", "3", -196_000, "open");
    entry["liquidity"] = serde_json::json!("0");
    entry["unreadable_tokens"] = serde_json::json!(["0x88e6A0c2dDD26FEEb64F039a2c41296FcB3f5640"]);
    entry["value_usd"] = Value::Null;
    let withdrawn = LiquidityPosition::from_entry(&safe("base"), &entry).unwrap();
    pictured("liquidity_withdrawn", PositionView::Liquidity(&withdrawn));
}

/// A state that is not understood counts as nothing, and the position is never shown as free.
#[test]
fn an_unknown_state_or_a_reply_without_ticks_is_no_open_position() {
    let state = |change: &dyn Fn(&mut Value)| {
        let mut entry = samples::position("WETH", "3", -196_000, "open");
        change(&mut entry);
        let position = LiquidityPosition::from_entry(&safe("ethereum"), &entry).unwrap();
        (position.state().1, position.value_words().0)
    };
    assert_eq!(state(&|_| {}), ("in range", "$1,708.41".to_owned()));
    assert_eq!(state(&|entry| entry["exit"] = serde_json::json!("free")), ("exit not tried", "not counted".to_owned()));
    assert_eq!(state(&|entry| entry["exit"] = Value::Null), ("exit not tried", "not counted".to_owned()));
    assert_eq!(state(&|entry| entry["tick"] = Value::Null).0, "range unknown");
    assert_eq!(state(&|entry| entry["tick"] = serde_json::json!(1_u64 << 40)).0, "range unknown");
    // The reply's own word does not matter where its ticks say otherwise.
    assert_eq!(state(&|entry| entry["tick"] = serde_json::json!(-194_000)).0, "above range");
    // A locked one is worth nothing, whatever the reply says.
    let mut entry = samples::position("WETH", "3", -196_000, "locked");
    entry["value_usd"] = serde_json::json!("1000000");
    let locked = LiquidityPosition::from_entry(&safe("ethereum"), &entry).unwrap();
    assert_eq!(locked.value_words().0, "$0.00");
    assert!(LiquidityPosition::from_entry(&safe("ethereum"), &Value::Null).is_none());
}

#[test]
fn lending_in_every_state() {
    for (name, health) in
        [("owing", Some("1.563911")), ("near", Some("1.04")), ("liquidable", Some("0.999999999")), ("supplied", None)]
    {
        let account = LendingAccount::from_data(&safe("ethereum"), &samples::lending_reply("WETH", health)).unwrap();
        pictured(&format!("lending_{name}"), PositionView::Lending(&account, Some(&account.tokens[0].token)));
    }
}

#[test]
fn a_health_factor_is_rounded_down_and_an_absent_one_with_debt_is_unknown() {
    let state = |health: &str| {
        let account =
            LendingAccount::from_data(&safe("ethereum"), &samples::lending_reply("WETH", Some(health))).unwrap();
        (account.state().0, account.state().1)
    };
    assert_eq!(state("1.5699999"), ("●", "health 1.56".to_owned()));
    assert_eq!(state("1.4999999"), ("!", "health 1.49".to_owned()));
    assert_eq!(state("0.999999999999999999"), ("✕", "health 0.99, can be liquidated".to_owned()));
    assert_eq!(state("much"), ("?", "health unknown".to_owned()));
    let account = LendingAccount::from_data(&safe("ethereum"), &samples::lending_reply("WETH", Some("1.5"))).unwrap();
    // 1,706.275 − 900.13.
    assert_eq!(account.value_words().0, "$806.15");
    let nearest = account.nearest().unwrap().liquidation_words();
    assert_eq!(nearest.as_deref(), Some("liquidated if WETH falls 22.92 % to $2,630.40"));
    let mut reply = samples::lending_reply("WETH", Some("0.5"));
    reply["collateral_usd"] = serde_json::json!("100");
    let under = LendingAccount::from_data(&safe("ethereum"), &reply).unwrap();
    assert_eq!(under.value_words().0, "−$800.13");
}

#[test]
fn shares_in_every_state() {
    let mut vault = VaultShares::from_data(&safe("ethereum"), &samples::vault_reply("USDC", "476.190476")).unwrap();
    pictured("vault_unsimulated", PositionView::Shares(&vault));
    let price = "1.0001".parse().ok();
    vault.redemption = Some(shares::Redemption::from_data(&samples::redemption_reply(Some("499.999999")), price));
    pictured("vault_redeemable", PositionView::Shares(&vault));
    vault.redemption = Some(shares::Redemption::from_data(&samples::redemption_reply(None), price));
    pictured("vault_locked", PositionView::Shares(&vault));
    let none = VaultShares::from_data(&safe("ethereum"), &samples::vault_reply("USDC", "0")).unwrap();
    assert!(!none.has_shares());
    pictured("vault_without_shares", PositionView::Shares(&none));
}

#[test]
fn shares_are_worth_what_arrives_and_not_what_the_vault_says() {
    let found = |received: Option<&str>, price: Option<&str>| {
        let price = price.map(|price| price.parse().unwrap());
        let mut vault = VaultShares::from_data(&safe("ethereum"), &samples::vault_reply("USDC", "476.190476")).unwrap();
        vault.redemption = Some(shares::Redemption::from_data(&samples::redemption_reply(received), price));
        vault.value_words().0
    };
    // 250.5 · 1.0002 = 250.5501.
    assert_eq!(found(Some("250.5"), Some("1.0002")), "$250.55");
    assert_eq!(found(Some("250.5"), None), "no price");
    assert_eq!(found(Some("a lot"), Some("1")), "no price");
    assert_eq!(found(None, Some("1")), "$0.00");
}

#[test]
fn hostile_text_in_every_place_of_a_reply_is_only_text() {
    fn poisoned(value: &mut Value, word: &str) {
        match value {
            Value::String(text) => word.clone_into(text),
            Value::Array(all) => all.iter_mut().for_each(|one| poisoned(one, word)),
            Value::Object(fields) => fields.values_mut().for_each(|one| poisoned(one, word)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    for word in corpus::all() {
        let chain = safe("ethereum");
        let of = |mut value: Value| {
            poisoned(&mut value, &word);
            value
        };
        let position = LiquidityPosition::from_entry(&chain, &of(samples::position("WETH", "1", 0, "open")));
        let account = LendingAccount::from_data(&chain, &of(samples::lending_reply("WETH", Some("1.5"))));
        let vault = VaultShares::from_data(&chain, &of(samples::vault_reply("USDC", "1")));
        let views = [
            position.as_ref().map(PositionView::Liquidity),
            account.as_ref().map(|account| PositionView::Lending(account, None)),
            vault.as_ref().map(PositionView::Shares),
        ];
        for view in views.into_iter().flatten() {
            assert!(!drawn(view, 100, 40).replace('\n', "").chars().any(char::is_control), "{word:?}");
        }
    }
}
