//! An actor without a mind of its own: it follows a short script on the devnet, again and again, so that everything a
//! console shows has something real behind it. It says so itself. The Golem takes its place once there is one.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Actor, Seat};
use crate::base::text::SafeText;
use crate::base::units::Usd;
use crate::engine::{Call, Input, Status, ToolResponse};
use crate::fabric::{EventKind, GolemNow, GolemThought, SpriteChanged, SpriteState, Vitals};

/// What one trade pays, small enough to pass without a question.
const SMALL: &str = "0.05";
/// What the trade pays that the operator is asked about: above the demo policy's threshold, below its hot lane.
const LARGE: &str = "0.36";
/// Pause between two beats of the script.
const BEAT: Duration = Duration::from_secs(4);
/// Pause between two rounds.
const ROUND: Duration = Duration::from_secs(25);
/// Trades come every so many rounds, so that a day's caps hold a day.
const ROUNDS_PER_TRADE: u64 = 12;

/// See the module.
#[derive(Debug, Default)]
pub struct Scripted;

impl Actor for Scripted {
    fn live(self: Box<Self>, seat: Seat) -> BoxFuture<'static, ()> {
        Box::pin(Life::new(seat).run())
    }
}

struct Life {
    seat: Seat,
    body: SpriteState,
    thought: u64,
    born: u64,
    high_water: Option<Usd>,
    failures: u32,
}

impl Life {
    fn new(seat: Seat) -> Self {
        let born = seat.clock.now_millis();
        Self { seat, body: SpriteState::Idle, thought: 0, born, high_water: None, failures: 0 }
    }

    async fn run(mut self) {
        self.think("I follow a script until a Golem lives here. I quote, look at allowances, and trade small.");
        self.look().await;
        let mut round: u64 = 0;
        while !*self.seat.leaving.borrow() {
            if self.seat.stop.borrow().is_some() {
                self.show(SpriteState::Halted);
                self.now("Holding still: a stop is in force.", "", None);
                self.pause(Duration::from_millis(500)).await;
                continue;
            }
            match round {
                0 => self.first_round().await,
                round if round % ROUNDS_PER_TRADE == 0 => self.trade(round).await,
                _ => self.watch(round).await,
            }
            round += 1;
            self.show(SpriteState::Idle);
            self.pause(ROUND).await;
        }
        self.now("Leaving: nothing new begins.", "", None);
    }

    /// A quote, an allowance, a small swap, and a trade that needs the operator.
    async fn first_round(&mut self) {
        self.now("Asking what 0.05 WETH would bring in USDC.", "Look at the allowance, then sell them.", Some((1, 4)));
        self.call("uniswap_get_quote", swap("WETH", "USDC", SMALL)).await;
        self.pause(BEAT).await;
        self.now("Looking at what may be taken of WETH.", "Sell 0.05 WETH for USDC.", Some((2, 4)));
        self.call("uniswap_check_allowance", json!({"token": "WETH", "chain": "ethereum"})).await;
        self.pause(BEAT).await;
        self.now("Selling 0.05 WETH for USDC.", "Buy UNI, which the operator must agree to.", Some((3, 4)));
        self.write("uniswap_execute_swap", pools("WETH", "USDC", SMALL)).await;
        self.look().await;
        self.pause(BEAT).await;
        self.think("WETH is more than half of what I hold. I want some UNI for 0.36 WETH, if you agree.");
        self.now("Buying UNI for 0.36 WETH: above the limit, so it waits for you.", "Watch the market.", Some((4, 4)));
        self.call("uniswap_get_quote", swap("WETH", "UNI", LARGE)).await;
        let answer = self.write("uniswap_execute_swap", pools("WETH", "UNI", LARGE)).await;
        self.answered(answer.as_ref());
        self.look().await;
    }

    /// A quote, and a word on it.
    async fn watch(&mut self, round: u64) {
        let (token, amount) = match round % 3 {
            0 => ("UNI", "0.2"),
            1 => ("LINK", "0.1"),
            _ => ("WBTC", "0.3"),
        };
        self.now(&format!("Watching what {amount} WETH would bring in {token}."), "Wait for a better moment.", None);
        if let Some(answer) = self.call("uniswap_get_quote", swap("WETH", token, amount)).await {
            let figure = |key: &str| answer.data.as_ref().and_then(|data| data.get(key)).and_then(Value::as_str);
            if let Some(out) = figure("amount_out") {
                self.think(&format!("{amount} WETH would bring {out} {token} now. I wait."));
            }
        }
        self.look().await;
    }

    /// A small trade, back and forth, so that nothing runs out.
    async fn trade(&mut self, round: u64) {
        let (from, to, amount) =
            if (round / ROUNDS_PER_TRADE) % 2 == 0 { ("WETH", "USDC", SMALL) } else { ("USDC", "WETH", "150") };
        self.now(&format!("Selling {amount} {from} for {to}."), "Watch the market.", None);
        self.call("uniswap_get_quote", swap(from, to, amount)).await;
        self.write("uniswap_execute_swap", pools(from, to, amount)).await;
        self.look().await;
    }

    /// What became of a question, in the actor's words.
    fn answered(&mut self, answer: Option<&ToolResponse>) {
        let words = match answer {
            Some(answer) => match answer.status {
                Status::Success | Status::Partial => "You agreed. It is done, or on its way.".to_owned(),
                Status::Simulated => "It was only rehearsed: nothing is signed in paper mode.".to_owned(),
                Status::Rejected | Status::Blocked | Status::Error => {
                    let why = answer.error.as_ref().map(|error| error.message().to_owned()).unwrap_or_default();
                    format!("It was not done: {why}")
                }
            },
            None => "I let it be: a stop is in force.".to_owned(),
        };
        self.think(&words);
    }

    /// What everything is worth, said as vitals.
    async fn look(&mut self) {
        let Some(answer) = self.call("get_balances", json!({})).await else { return };
        let total = answer.data.as_ref().and_then(|data| data.get("total_usd")).and_then(Value::as_str);
        let equity: Option<Usd> = total.and_then(|total| total.parse().ok());
        if let Some(equity) = equity {
            self.high_water = Some(self.high_water.map_or(equity, |high| high.max(equity)));
        }
        let drawdown = equity.zip(self.high_water).and_then(|(equity, high)| {
            let lost = high.checked_sub(equity).ok()?.scaled(8, crate::base::units::Rounding::Up)?;
            let whole = high.scaled(8, crate::base::units::Rounding::Down)?;
            u64::try_from(lost.checked_mul(10_000)?.checked_div(whole)?).ok()
        });
        let phase = *self.seat.phase.borrow();
        let age = self.seat.clock.now_millis().saturating_sub(self.born) / 1_000;
        self.seat.say(EventKind::Vitals(Box::new(Vitals {
            phase,
            why: words("nothing is wrong"),
            equity,
            high_water: self.high_water,
            drawdown_bps: drawdown,
            stop_loss_bps: 1_000,
            gas_runway_seconds: None,
            gas_wei: None,
            failures: self.failures,
            failures_limit: 3,
            age_seconds: age,
            lifespan_seconds: None,
        })));
    }

    async fn write(&mut self, tool: &str, params: Value) -> Option<ToolResponse> {
        self.show(SpriteState::Executing);
        let answer = self.call(tool, params).await;
        match answer.as_ref().map(|answer| answer.status) {
            Some(Status::Success | Status::Partial | Status::Simulated) => {
                self.failures = 0;
                self.show(SpriteState::Success);
            }
            Some(Status::Error) => {
                self.failures = self.failures.saturating_add(1);
                self.show(SpriteState::Failure);
            }
            Some(Status::Blocked | Status::Rejected) | None => self.show(SpriteState::Idle),
        }
        answer
    }

    /// A call, unless a stop is in force.
    async fn call(&mut self, tool: &str, params: Value) -> Option<ToolResponse> {
        if self.seat.held() {
            return None;
        }
        if self.body == SpriteState::Idle {
            self.show(SpriteState::Thinking);
        }
        Some(self.seat.executor.call(Call::new(tool, Input::Json(params))).await)
    }

    fn show(&mut self, to: SpriteState) {
        let from = std::mem::replace(&mut self.body, to);
        if from != to {
            self.seat.say(EventKind::SpriteChanged(SpriteChanged { from, to }));
        }
    }

    fn think(&mut self, text: &str) {
        self.thought += 1;
        let thought = GolemThought { thought: self.thought, text: words(text), more: false };
        self.seat.say(EventKind::GolemThought(thought));
    }

    fn now(&self, now: &str, next: &str, step: Option<(u32, u32)>) {
        let delegation = vec![words("trade-executor")];
        self.seat.say(EventKind::GolemNow(GolemNow { now: words(now), next: words(next), step, delegation }));
    }

    /// Waits, listening to the operator, and ends early when the session does.
    async fn pause(&mut self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            tokio::select! {
                () = sleep(left) => return,
                changed = self.seat.leaving.changed() => {
                    if changed.is_err() || *self.seat.leaving.borrow() {
                        return;
                    }
                }
                said = self.seat.words.recv() => match said {
                    Some(said) => self.think(&format!("You said: {said} — I only follow a script and cannot act on it.")),
                    None => return sleep(left).await,
                },
            }
        }
    }
}

fn swap(from: &str, to: &str, amount: &str) -> Value {
    json!({"token_in": from, "token_out": to, "amount": amount, "chain": "ethereum"})
}

/// The same through pools: the scripted actor waits for no auction.
fn pools(from: &str, to: &str, amount: &str) -> Value {
    json!({"token_in": from, "token_out": to, "amount": amount, "chain": "ethereum", "prefer_uniswapx": false})
}

fn words(text: &str) -> SafeText {
    SafeText::clean(text, 400)
}
