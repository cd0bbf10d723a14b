//! Plain commands of the operator for the eight tools. A command is a tool's name and its parameters, as `name=value`
//! or unnamed in their usual order. Quotes keep words together.
//!
//! ```text
//! act swap token_in=WETH token_out=USDC amount=0.1 chain=ethereum      preview, then commit
//! preview_action swap token_in=WETH token_out=USDC amount=0.1 chain=ethereum why="too much of it"
//! query_state quote token_in=WETH token_out=USDC amount=1 chain=ethereum
//! update_directive section=Gas text="wait below 20 gwei" reason="it was dear"
//! emergency_halt the feed looks wrong
//! ```

use std::convert::Infallible;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::agent_api::{ACTION_KINDS, AGENT_TOOLS, ActionKind, AgentSession, AgentTool, QUERIES, QueryKind};
use crate::life::EventOutput;
use crate::scenario::ACT;
use bardo_base::fabric::{EventKind, GolemState, GolemThought};
use bardo_base::text::{SafeText, nearest};
use bardo_session::handle::{CommandKind, PromptCommand};
use golem_tools::engine::{CallStatus, ToolResponse};

/// Maximum length of quoted input that was not understood, in characters.
const MAX_QUOTED: usize = 60;

/// Maximum length of an answer to a command, in characters.
const SAID: usize = 400;

/// Request of the operator in plain words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OperatorRequest {
    /// Call of one of the eight tools, or `act`.
    Tool(&'static str, Value),
    /// Query for the recent playbook changes.
    Changes,
    /// Reversal of a playbook change, with its number as typed.
    Undo(String),
}

impl OperatorRequest {
    /// Parses a request; `None` if the text is not a command.
    pub(crate) fn of(said: &str, agent: &AgentSession) -> Option<Self> {
        match said.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["playbook", "changes"] => return Some(Self::Changes),
            ["playbook", "undo", number] => return Some(Self::Undo((*number).to_owned())),
            _ => {}
        }
        let plain = command(said, |tool| agent.schema_of(tool)).or_else(|| short(said));
        plain.map(|(tool, params)| Self::Tool(tool, params))
    }

    /// Parses a request beside a brain. Text that begins like advice belongs to the brain and returns `None`.
    pub(crate) fn parse_beside_brain(said: &str, agent: &AgentSession) -> Option<Self> {
        let first = said.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        Self::of(said, agent).filter(|wish| match wish {
            // With more words behind it, `halt` may be advice about one thing, so it must not halt everything.
            Self::Tool(..) if first == "halt" => said.split_whitespace().count() == 1,
            Self::Tool(..) => !matches!(first.as_str(), "remember" | "playbook"),
            Self::Changes | Self::Undo(_) => true,
        })
    }

    /// Returns true if the request may end in a decision or a signature.
    pub(crate) fn is_action(&self) -> bool {
        match self {
            Self::Tool(tool, _) => matches!(*tool, ACT | "preview_action" | "commit_action"),
            Self::Changes | Self::Undo(_) => false,
        }
    }

    /// Carries out the request and returns its outcome as a sentence.
    pub(crate) async fn carry_out(self, said: &SafeText, agent: &AgentSession, voice: &EventOutput) -> String {
        let (tool, params) = match self {
            Self::Changes => return changes(agent),
            Self::Undo(number) => return undo(agent, &number).await,
            Self::Tool(tool, params) => (tool, params),
        };
        let agent = &agent.for_operator();
        // The call now comes from the operator, so its delegation replaces that of the last scenario step.
        let kind = places(tool).first().and_then(|place| params.get(*place)?.as_str()).unwrap_or_default();
        let delegation = concrete(tool, kind).map(|acts| agent.delegation(acts)).unwrap_or_default();
        let now = SafeText::clean(&format!("Doing what you asked: {said}"), SAID);
        let now = GolemState { now, next: SafeText::clean("", 1), step: None, delegation };
        voice.emit(EventKind::GolemNow(now));
        let response = if tool == ACT { act(agent, params).await.0 } else { agent.call(tool, params).await };
        // The call has ended, with its result below.
        let now = SafeText::clean(&format!("Answered you: {said}"), SAID);
        voice.emit(EventKind::GolemNow(GolemState {
            now,
            next: SafeText::clean("", 1),
            step: None,
            delegation: Vec::new(),
        }));
        let failed = response.error.as_ref().map(|error| format!("Not done: {}", error.message()));
        let told = failed.or(response.explanation);
        format!("You said: {said}. {}", told.unwrap_or_else(|| "Done.".to_owned()))
    }
}

/// Short commands by their first word, with the form that is shown to the operator.
const SHORT: [(&str, &str); 8] = [
    ("swap", "swap AMOUNT TOKEN TOKEN [on CHAIN]"),
    ("quote", "quote AMOUNT TOKEN TOKEN [on CHAIN]"),
    ("balances", "balances"),
    ("price", "price TOKEN [on CHAIN]"),
    ("remember", "remember WORDS"),
    ("playbook", "playbook WORDS, playbook changes, playbook undo NUMBER"),
    ("halt", "halt [WHY]"),
    ("act", "act KIND NAME=VALUE …"),
];

/// Returns the answer to text that is not a command, with the known forms.
pub(crate) fn not_understood(said: &str) -> String {
    let first = said.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let known = SHORT.iter().map(|(name, _)| *name).chain(AGENT_TOOLS.iter().map(|tool| tool.name));
    let said = SafeText::clean(said, MAX_QUOTED);
    // If the first word is known, its own form is more helpful than the whole list.
    let meant = SHORT.iter().find(|(name, _)| *name == first).or_else(|| {
        let near = nearest(&first, known)?;
        SHORT.iter().find(|(name, _)| *name == near)
    });
    if let Some((_, form)) = meant {
        return format!("I did not understand \"{said}\" and did nothing. Did you mean: {form}?");
    }
    let forms: Vec<&str> = SHORT.iter().map(|(_, form)| *form).collect();
    format!("I did not understand \"{said}\" and did nothing. I can: {}.", forms.join("; "))
}

/// Previews an action, and commits it if the preview succeeds. Returns the response, and whether it comes from the
/// commit.
pub(crate) async fn act(agent: &AgentSession, params: Value) -> (ToolResponse, bool) {
    let previewed = agent.call("preview_action", params).await;
    let (CallStatus::Simulated, Some(data)) = (previewed.status, &previewed.data) else { return (previewed, false) };
    let permit = json!({"permit_id": data["permit_id"], "simulation_hash": data["simulation_hash"]});
    let response = agent.call("commit_action", permit).await;
    (response, true)
}

/// Receiver of the operator's messages beside a brain. Commands run at once and concurrently, independent of the brain;
/// all other messages go to the brain.
pub(crate) struct OperatorInbox {
    words: mpsc::Receiver<SafeText>,
    agent: AgentSession,
    under_way: RunningCommands,
}

/// Running commands, each of which resolves to a sentence about its outcome. They outlive the brain.
pub(crate) struct RunningCommands {
    running: FuturesUnordered<BoxFuture<'static, String>>,
    voice: EventOutput,
}

impl RunningCommands {
    /// Creates an empty set.
    pub(crate) fn none(voice: &EventOutput) -> Self {
        Self { running: FuturesUnordered::new(), voice: voice.clone() }
    }

    /// Drives the commands and reports their outcomes until none is left. Cancel-safe.
    pub(crate) async fn report_ends(&mut self) {
        while let Some(told) = self.running.next().await {
            self.think(&told);
        }
    }

    fn think(&self, text: &str) {
        let text = SafeText::clean(text, SAID);
        self.voice.emit(EventKind::GolemThought(GolemThought { thought: 0, text, more: false, report: false }));
    }
}

impl OperatorInbox {
    /// Creates a receiver for these messages. Offers opened by the operator's commands belong to the operator, not to
    /// the brain.
    pub(crate) fn of(words: mpsc::Receiver<SafeText>, agent: &AgentSession, voice: &EventOutput) -> Self {
        Self { words, agent: agent.for_operator(), under_way: RunningCommands::none(voice) }
    }

    /// Receives messages forever.
    pub(crate) async fn receive(&mut self, brain: mpsc::Sender<SafeText>) -> Infallible {
        let Self { words, agent, under_way } = self;
        loop {
            tokio::select! {
                said = words.recv(), if !words.is_closed() || !words.is_empty() => {
                    let Some(said) = said else { continue };
                    match OperatorRequest::parse_beside_brain(said.as_str(), agent) {
                        Some(wish) => {
                            let (agent, voice) = (agent.clone(), under_way.voice.clone());
                            let doing = async move { wish.carry_out(&said, &agent, &voice).await };
                            under_way.running.push(Box::pin(doing));
                        }
                        None if brain.try_send(said).is_err() => {
                            under_way.think("I cannot take more messages right now. Try again later.");
                        }
                        None => {}
                    }
                }
                Some(told) = under_way.running.next(), if !under_way.running.is_empty() => under_way.think(&told),
                // No sender is left.
                else => std::future::pending().await,
            }
        }
    }

    /// Returns the message channel and the running commands.
    pub(crate) fn end(self) -> (mpsc::Receiver<SafeText>, RunningCommands) {
        (self.words, self.under_way)
    }
}

fn changes(agent: &AgentSession) -> String {
    let told = match agent.documents().deltas(agent.memory()) {
        Err(error) => return format!("I cannot read the changes: {error}."),
        Ok(deltas) => deltas.into_iter().take(5).map(|one| {
            let undone = if one.undone { ", undone" } else { "" };
            format!("{} in \"{}\" because {}{undone}", one.delta, one.section, one.reason)
        }),
    };
    let told: Vec<String> = told.collect();
    if told.is_empty() { "I have changed nothing.".to_owned() } else { told.join("; ") }
}

async fn undo(agent: &AgentSession, number: &str) -> String {
    match number.parse() {
        Err(_) => format!("`{number}` is not the number of a change."),
        Ok(delta) => match agent.undo_directive(delta).await {
            Ok(undone) => format!("Change {delta} of \"{}\" was undone.", undone.section),
            Err(error) => format!("Change {delta} was not undone: {}.", error.message()),
        },
    }
}

/// Lists a command's unnamed parameters in their order; the last one takes all remaining words.
pub fn places(tool: &str) -> &'static [&'static str] {
    match tool {
        "preview_action" | ACT => &["kind"],
        "commit_action" => &["permit_id", "simulation_hash"],
        "cancel_action" => &["permit_id"],
        "query_state" | "search_context" | "query_grimoire" => &["query"],
        "update_directive" => &["section", "text", "reason"],
        "emergency_halt" => &["reason"],
        _ => &[],
    }
}

/// Lists the commands for the completion of the console prompt.
pub fn commands() -> Vec<PromptCommand> {
    let text = |words: &str| SafeText::clean(words, 400);
    let kind = |name: &str, tool: &str| CommandKind { name: text(name), tool: text(tool) };
    let actions = || ACTION_KINDS.iter().map(|one| kind(one.name, one.acts)).collect();
    let command = |name: &str, description: &str, schema: Value| PromptCommand {
        name: text(name),
        description: text(description),
        schema,
        in_order: places(name).iter().map(|place| text(place)).collect(),
        kinds: match name {
            "preview_action" | ACT => actions(),
            "query_state" => QUERIES.iter().map(|query| kind(query.name, query.tool)).collect(),
            _ => Vec::new(),
        },
    };
    let eight = AGENT_TOOLS.iter().map(|tool| command(tool.name, tool.description, tool.schema()));
    let preview = AGENT_TOOLS.iter().find(|tool| tool.name == "preview_action");
    let act = command(
        ACT,
        "preview an action and commit it if nothing blocks it",
        preview.map_or(Value::Null, AgentTool::schema),
    );
    eight.chain([act]).collect()
}

/// Returns the concrete tool behind a command's kind, whose parameters the command accepts; `None` without one.
pub fn concrete(tool: &str, kind: &str) -> Option<&'static str> {
    match tool {
        "preview_action" | ACT => ActionKind::named(kind).map(|kind| kind.acts),
        "query_state" => QueryKind::named(kind).map(|query| query.tool),
        _ => None,
    }
}

/// Parses a command into a call of one of the eight tools or `act`; `None` if it names none of them. `schema_of`
/// returns the schema of a concrete tool, which decides whether a value is a number or text.
pub fn command(said: &str, schema_of: impl Fn(&str) -> Value) -> Option<(&'static str, Value)> {
    let mut words = command_words(said).into_iter();
    let first = words.next()?;
    let name = AGENT_TOOLS.iter().map(|tool| tool.name).chain([ACT]).find(|name| *name == first.text)?;
    let own = match AGENT_TOOLS.iter().find(|tool| tool.name == name).or(AGENT_TOOLS.first()) {
        Some(tool) => tool.schema(),
        None => Value::Null,
    };
    let places = places(name);
    let mut given: Map<String, Value> = Map::new();
    let mut other: Vec<(String, String)> = Vec::new();
    let mut unnamed = Vec::new();
    for word in words {
        match word.name {
            Some(key) if own["properties"].get(&key).is_some() && key != "params" => {
                given.insert(key.clone(), typed(&own, &key, &word.text));
            }
            Some(key) if matches!(name, "preview_action" | "query_state" | ACT) => other.push((key, word.text)),
            // A tool that takes no such parameter rejects it by name.
            Some(key) => drop(given.insert(key, Value::from(word.text))),
            None => unnamed.push(word.text),
        }
    }
    let free: Vec<&&str> = places.iter().filter(|place| !given.contains_key(**place)).collect();
    let last = free.len().saturating_sub(1);
    let mut rest = unnamed.into_iter();
    let mut filled = Vec::new();
    for (at, place) in free.iter().enumerate() {
        let text =
            if at == last { rest.by_ref().collect::<Vec<_>>().join(" ") } else { rest.next().unwrap_or_default() };
        if !text.is_empty() {
            filled.push(((**place).to_owned(), Value::from(text)));
        }
    }
    given.extend(filled);
    if !other.is_empty() {
        let kind = given.get(places.first().copied().unwrap_or_default()).and_then(Value::as_str).unwrap_or_default();
        let schema = concrete(name, kind).map(&schema_of).unwrap_or_default();
        let params: Map<String, Value> =
            other.into_iter().map(|(key, text)| (key.clone(), typed(&schema, &key, &text))).collect();
        given.insert("params".to_owned(), Value::Object(params));
    }
    Some((name, Value::Object(given)))
}

/// Filler words allowed between the two tokens. With any other word the sentence may mean something else, even the
/// opposite, so it is not a command.
const FOR: [&str; 4] = ["for", "to", "into", "→"];

/// True if nothing or one of [`FOR`] is between two tokens.
fn is_filler(between: &[String]) -> bool {
    match between {
        [] => true,
        [word] => FOR.iter().any(|known| word.eq_ignore_ascii_case(known)),
        _ => false,
    }
}

/// Parses a short command into a call of one of the eight tools or `act`: `swap 0.1 WETH USDC on base`, `swap 0.1 WETH
/// to USDC`, `quote …`, `balances`, `price UNI`, `remember words`, `playbook words`, `halt why`.
fn short(said: &str) -> Option<(&'static str, Value)> {
    let mut words = said.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let chain = match words.iter().rposition(|word| word.eq_ignore_ascii_case("on")) {
        Some(at) if at + 2 == words.len() => {
            let chain = words.pop();
            words.pop();
            chain
        }
        _ => None,
    };
    let chain = chain.unwrap_or_else(|| "ethereum".to_owned());
    let rest = || words.iter().skip(1).cloned().collect::<Vec<_>>().join(" ");
    let first = words.first()?.to_ascii_lowercase();
    match (first.as_str(), words.get(1..)?) {
        ("swap" | "sell", [amount, from, filler @ .., to]) if is_filler(filler) => {
            let params = json!({"token_in": from, "token_out": to, "amount": amount, "chain": chain});
            Some((ACT, json!({"kind": "swap", "params": params, "why": "the operator said so"})))
        }
        ("quote", [amount, from, filler @ .., to]) if is_filler(filler) => {
            let params = json!({"token_in": from, "token_out": to, "amount": amount, "chain": chain});
            Some(("query_state", json!({"query": "quote", "params": params})))
        }
        ("balances", []) => Some(("query_state", json!({"query": "balances"}))),
        ("price", [token]) => {
            Some(("query_state", json!({"query": "price", "params": {"token": token, "chain": chain}})))
        }
        ("remember", [_, ..]) => Some(("query_grimoire", json!({"query": rest()}))),
        ("playbook", [_, ..]) => Some(("search_context", json!({"query": rest()}))),
        ("halt", _) => Some(("emergency_halt", json!({"reason": format!("the operator said: {}", rest())}))),
        _ => None,
    }
}

/// Word of a command, with its parameter name if it has one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct CommandWord {
    name: Option<String>,
    text: String,
}

fn command_words(said: &str) -> Vec<CommandWord> {
    let mut all = Vec::new();
    let mut word: Option<CommandWord> = None;
    let mut quote = None;
    for letter in said.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => all.extend(word.take()),
            (None, '=') if word.as_ref().is_some_and(|word| word.name.is_none() && is_name(&word.text)) => {
                let word = word.get_or_insert_default();
                word.name = Some(std::mem::take(&mut word.text));
            }
            _ => word.get_or_insert_default().text.push(letter),
        }
    }
    all.extend(word);
    all
}

fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && text.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

/// Converts a value to the type of its schema: a number or boolean where the schema wants one, otherwise text.
fn typed(schema: &Value, name: &str, text: &str) -> Value {
    let property = &schema["properties"][name];
    let wants = |wanted: &str| match &property["type"] {
        Value::String(one) => one == wanted,
        Value::Array(all) => all.iter().any(|one| one == wanted),
        _ => false,
    };
    if (wants("integer") || wants("number"))
        && let Ok(number) = text.parse::<u64>()
    {
        return json!(number);
    }
    match text {
        "true" if wants("boolean") => json!(true),
        "false" if wants("boolean") => json!(false),
        _ => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_lists_every_command_and_every_kind() {
        let told = commands();
        let names: Vec<&str> = told.iter().map(|command| command.name.as_str()).collect();
        assert_eq!(names, AGENT_TOOLS.iter().map(|tool| tool.name).chain([ACT]).collect::<Vec<_>>());
        for command in &told {
            for kind in &command.kinds {
                let tool = concrete(command.name.as_str(), kind.name.as_str());
                assert_eq!(tool, Some(kind.tool.as_str()), "{} {}", command.name, kind.name);
            }
        }
        assert!(told.iter().all(|command| command.schema["properties"].is_object()));
    }

    #[test]
    fn plain_commands_become_calls_of_the_eight() {
        let schema_of = |tool: &str| {
            assert!(tool == "uniswap_execute_swap" || tool == "uniswap_get_quote", "{tool}");
            json!({"properties": {"amount": {"type": "string"}, "slippage_bps": {"type": ["integer", "null"]},
                "prefer_uniswapx": {"type": "boolean"}}})
        };
        let of = |said: &str| command(said, schema_of);
        let params = json!({"token_in": "WETH", "amount": "1", "slippage_bps": 40, "prefer_uniswapx": false});
        let line = "preview_action swap token_in=WETH amount=1 slippage_bps=40 prefer_uniswapx=false why=\"too much\"";
        let wanted = json!({"kind": "swap", "params": params, "why": "too much"});
        assert_eq!(of(line), Some(("preview_action", wanted)));
        assert_eq!(of("act kind=swap"), Some(("act", json!({"kind": "swap"}))));
        assert_eq!(
            of("query_state quote amount=2"),
            Some(("query_state", json!({"query": "quote", "params": {"amount": "2"}})))
        );
        assert_eq!(
            of("commit_action 01AB 0xff"),
            Some(("commit_action", json!({"permit_id": "01AB", "simulation_hash": "0xff"})))
        );
        assert_eq!(
            of("search_context gas at night limit=5"),
            Some(("search_context", json!({"query": "gas at night", "limit": 5})))
        );
        assert_eq!(
            of("update_directive Gas \"wait below 20\" it was dear"),
            Some(("update_directive", json!({"section": "Gas", "text": "wait below 20", "reason": "it was dear"})))
        );
        assert_eq!(of("emergency_halt why=x feed"), Some(("emergency_halt", json!({"why": "x", "reason": "feed"}))));
        assert_eq!(of("swap 1 WETH USDC"), None);
        assert_eq!(of("uniswap_execute_swap amount=1"), None);
    }

    #[test]
    fn an_unknown_command_is_answered_with_valid_ones() {
        let answer = not_understood("make me rich");
        assert!(
            answer.starts_with("I did not understand \"make me rich\" and did nothing. I can: swap AMOUNT"),
            "{answer}"
        );
        for form in ["quote ", "balances", "price TOKEN", "remember ", "playbook undo NUMBER", "halt [WHY]", "act KIND"]
        {
            assert!(answer.contains(form), "{form}: {answer}");
        }
        assert!(answer.len() < SAID, "it is said whole: {answer}");
        for (said, form) in [
            ("sawp 1 WETH USDC", "swap AMOUNT TOKEN TOKEN [on CHAIN]"),
            ("quote 1 WETH against USDC", "quote AMOUNT TOKEN TOKEN [on CHAIN]"),
            ("price", "price TOKEN [on CHAIN]"),
        ] {
            let answer = not_understood(said);
            assert_eq!(answer, format!("I did not understand \"{said}\" and did nothing. Did you mean: {form}?"));
        }
        // Every documented form is a valid command.
        for (name, form) in SHORT.iter().filter(|(name, _)| *name != ACT) {
            let said = form.split(',').next().unwrap().replace("AMOUNT", "1").replace("[on CHAIN]", "on base");
            let said = said.replace("TOKEN", "UNI").replace("[WHY]", "odd prices").replace("WORDS", "gas");
            assert!(short(&said).is_some(), "{name}: {said}");
        }
    }

    #[test]
    fn an_ambiguous_sentence_starts_no_trade() {
        let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "1", "chain": "base"});
        let swap = Some((ACT, json!({"kind": "swap", "params": params, "why": "the operator said so"})));
        for said in [
            "swap 1 WETH USDC on base",
            "sell 1 WETH for USDC on base",
            "swap 1 WETH to USDC on base",
            "swap 1 WETH INTO USDC on base",
            "swap 1 WETH → USDC on base",
        ] {
            assert_eq!(short(said), swap, "{said}");
        }
        for said in [
            "sell 500 USDC of WETH",
            "sell 10 UNI before LINK",
            "swap 1 WETH not USDC",
            "quote 1 WETH against USDC",
            "swap 1 WETH for to USDC",
            "sell 1 WETH never for USDC",
        ] {
            assert_eq!(short(said), None, "{said}");
        }
    }
}
