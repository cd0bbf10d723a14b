//! Bardo's cards in another ratatui program: a quote and an auction order, drawn with `frame.render_widget` from plain
//! view models.
//!
//! `cargo run --example widgets` draws until a key is pressed. Without a terminal, it prints one frame.

use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::time::{SystemTime, UNIX_EPOCH};

use alloy::primitives::{Address, B256};
use bardo::base::text::SafeText;
use bardo::console::theme::{Depth, Theme};
use bardo::console::widgets::call::CallModel;
use bardo::console::widgets::order::OrderModel;
use bardo::console::widgets::quote::{Hop, Quote, QuoteModel};
use bardo::console::widgets::status::CardStatus;
use bardo::console::widgets::{Moment, OrderCard, QuoteCard};
use bardo::fabric::{CardToken, DecayCurve, DecayUnit, OrderStatus, OrderUpdate};
use ratatui::layout::{Constraint, Layout};
use ratatui::widgets::Block;
use ratatui::{Frame, Terminal, TerminalOptions};

/// State of the program: what it shows, and how.
struct Dashboard {
    quote: QuoteModel,
    order: OrderModel,
    theme: Theme,
}

impl Dashboard {
    /// Draws both cards side by side below a title.
    fn draw(&self, frame: &mut Frame<'_>) {
        let now = Moment { millis: now_millis(), motion: true };
        let block = Block::bordered().title(" My dashboard · any key quits ");
        let inner = block.inner(frame.area());
        frame.render_widget(block, frame.area());
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(inner);
        frame.render_widget(QuoteCard::new(&self.quote, &self.theme, now), left);
        frame.render_widget(OrderCard::new(&self.order, &self.theme, now), right);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (theme, _) = Theme::load("dark", None)?;
    let theme = theme.at_depth(Depth::detect(|name| std::env::var(name).ok()));
    let dashboard = Dashboard { quote: quote()?, order: order(), theme };
    if !io::stdout().is_terminal() {
        let backend = ratatui::backend::TestBackend::new(120, 24);
        let mut terminal = Terminal::with_options(backend, TerminalOptions::default())?;
        terminal.draw(|frame| dashboard.draw(frame))?;
        println!("{}", terminal.backend());
        return Ok(());
    }
    let mut terminal = ratatui::init();
    let result = loop {
        if let Err(error) = terminal.draw(|frame| dashboard.draw(frame)) {
            break Err(error);
        }
        match crossterm::event::poll(std::time::Duration::from_millis(250)) {
            Ok(false) => {}
            Ok(true) if matches!(crossterm::event::read(), Ok(crossterm::event::Event::Resize(..))) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    ratatui::restore();
    Ok(result?)
}

/// Quote of a swap through two pools.
fn quote() -> Result<QuoteModel, Box<dyn Error>> {
    let hop = |version: &str, fee_tier: u32, leg: u64, share_bps: u32| Hop {
        token_in: text("WETH"),
        token_out: text("USDC"),
        version: text(version),
        fee_tier,
        leg,
        share_bps,
    };
    let quote = Quote {
        amount_in: text("0.25"),
        amount_out: text("852.54"),
        minimum_out: Some(text("848.28")),
        token_in: text("WETH"),
        token_out: text("USDC"),
        usd_in: Some("853.14".parse()?),
        usd_out: Some("852.54".parse()?),
        out_per_in: Some("3410.16".parse()?),
        in_per_out: Some("0.00029324".parse()?),
        impact: Some("0.02".parse()?),
        hops: vec![hop("V3", 500, 1, 7_000), hop("V2", 3_000, 2, 3_000)],
        route_type: text("CLASSIC"),
        gas_usd: Some("0.53".parse()?),
        slippage_bps: Some(50),
        deadline: now_millis() / 1_000 + 60,
        ..Quote::default()
    };
    let call = CallModel { at: now_millis(), status: CardStatus::Done, ..CallModel::default() };
    Ok(QuoteModel { call, quote: Some(quote), answered_at: Some(now_millis()) })
}

/// Open Dutch auction, seven seconds after its start.
fn order() -> OrderModel {
    let now = now_millis() / 1_000;
    let asset =
        |symbol: &str, decimals: u8| CardToken { symbol: text(symbol), address: Address::repeat_byte(1), decimals };
    let points = vec![(now - 7, "1707.12".to_owned()), (now + 113, "1689.21".to_owned())];
    let update = OrderUpdate {
        order_hash: B256::repeat_byte(0x4b),
        order_type: text("DUTCH_V2"),
        chain_id: 1,
        status: OrderStatus::Open,
        token_in: asset("WETH", 18),
        token_out: asset("USDC", 6),
        amount_in: "0.5".to_owned(),
        quoted_out: "1706.28".to_owned(),
        start_amount: "1707.12".to_owned(),
        end_amount: "1689.21".to_owned(),
        curve: DecayCurve { unit: DecayUnit::Seconds, points },
        position: now,
        current_amount: "1706.08".to_owned(),
        exclusivity: None,
        best_bid: None,
        signed_at: None,
        deadline: now + 113,
        fill: None,
        cancelled_by: None,
        money: text("in your wallet; 0.5 WETH counted as spent"),
        remark: SafeText::default(),
    };
    OrderModel::known(now_millis(), &update)
}

/// Text from outside, cleaned so that it cannot act on the terminal.
fn text(words: &str) -> SafeText {
    SafeText::clean(words, 80)
}

fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
