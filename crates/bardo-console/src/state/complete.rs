//! Completion of a prompt line: commands, the Golem's eight tools, kinds of actions and queries, and their parameters.
//! Pure; Tab inserts the common prefix of all candidates.

use serde_json::Value;

use super::prompt;
use bardo_session::handle::PromptCommand;

/// Shorthand commands that the Golem understands besides its eight tools, with their usage.
const PLAIN: &[(&str, &str)] = &[
    ("swap", "swap AMOUNT FROM TO [on CHAIN]"),
    ("quote", "quote AMOUNT FROM TO [on CHAIN]"),
    ("balances", "balances of the wallet"),
    ("price", "price TOKEN [on CHAIN]"),
    ("remember", "remember WORDS: search the Golem's memory"),
    ("playbook", "playbook WORDS: search the playbook; playbook changes; playbook undo NUMBER"),
];

/// Completion candidate with a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Complete word that replaces the last word of the line.
    pub word: String,
    /// Description of the candidate.
    pub about: String,
}

/// Names that can be completed.
#[derive(Debug, Clone, Copy)]
pub struct CompletionNames<'a> {
    /// Commands that the agent understands.
    pub commands: &'a [PromptCommand],
    /// Names of the chains.
    pub chains: &'a [String],
    /// Names of the scenarios.
    pub shows: &'a [String],
}

/// Description and parameter schema of a tool; `None` if there is no such tool.
pub type ToolSchema<'a> = Option<(&'a str, &'a Value)>;

/// Candidates for the last word of `line`. `tool` looks up a tool by its name.
pub fn candidates<'a>(
    line: &str,
    tool: &dyn Fn(&str) -> ToolSchema<'a>,
    names: &CompletionNames<'_>,
) -> Vec<Candidate> {
    let (before, word) = split(line);
    let mut words = before.split_whitespace();
    let all = match (words.next(), words.clone().find(|word| !word.contains('='))) {
        (None, _) => first(names.commands),
        (Some(first), kind) => following(first, kind, word, tool, names),
    };
    let given = |candidate: &Candidate| {
        let name = candidate.word.strip_suffix('=');
        name.is_some_and(|_| words.clone().any(|word| word.starts_with(&candidate.word)))
    };
    let mut fitting: Vec<Candidate> =
        all.into_iter().filter(|one| one.word.starts_with(word) && one.word != word && !given(one)).collect();
    fitting.dedup_by(|one, other| one.word == other.word);
    fitting
}

/// Line with the common prefix of all candidates in place of its last word; `None` if that adds nothing.
pub fn completed(line: &str, candidates: &[Candidate]) -> Option<String> {
    let (before, word) = split(line);
    let first = candidates.first()?;
    let shared = candidates.iter().fold(first.word.as_str(), |shared, one| {
        let same = shared.char_indices().zip(one.word.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
        let end = same.unwrap_or_else(|| shared.len().min(one.word.len()));
        shared.get(..end).unwrap_or_default()
    });
    let alone = candidates.len() == 1 && !shared.ends_with('=');
    let ending = if alone { " " } else { "" };
    (shared.len() > word.len()).then(|| format!("{before}{shared}{ending}"))
}

/// Splits a line before its last word.
fn split(line: &str) -> (&str, &str) {
    let at = line.char_indices().rfind(|(_, one)| one.is_whitespace()).map_or(0, |(at, one)| at + one.len_utf8());
    line.split_at(at)
}

fn first(commands: &[PromptCommand]) -> Vec<Candidate> {
    let of = |(word, about): (&str, &str)| Candidate { word: word.to_owned(), about: about.to_owned() };
    let own = commands.iter().map(|command| of((command.name.as_str(), command.description.as_str())));
    own.chain(PLAIN.iter().copied().map(of)).chain(prompt::names().map(of)).collect()
}

fn following<'a>(
    tool: &str,
    kind: Option<&str>,
    word: &str,
    has: &dyn Fn(&str) -> ToolSchema<'a>,
    names: &CompletionNames<'_>,
) -> Vec<Candidate> {
    let chains = names.chains;
    let of = |word: &str, about: &str| Candidate { word: word.to_owned(), about: about.to_owned() };
    let mut all = Vec::new();
    let Some(command) = names.commands.iter().find(|command| command.name.as_str() == tool) else {
        if tool == "scenario" && kind.is_none() {
            all.extend(names.shows.iter().map(|show| of(show, "play this scenario")));
        }
        return all;
    };
    if kind.is_none() {
        let there = command.kinds.iter().filter_map(|kind| Some((kind.name.as_str(), has(kind.tool.as_str())?)));
        all.extend(there.map(|(name, (about, _))| of(name, about)));
    }
    let named = kind.and_then(|name| command.kinds.iter().find(|kind| kind.name.as_str() == name));
    let behind = named.and_then(|kind| has(kind.tool.as_str()));
    let schemas = [Some(&command.schema), behind.map(|(_, schema)| schema)];
    for (name, property) in
        schemas.into_iter().flatten().filter_map(|schema| schema["properties"].as_object()).flatten()
    {
        // Leaves out the positional parameter and the object that holds the parameters of the action.
        if name == "params" || kind.is_some() && command.in_order.first().is_some_and(|first| first.as_str() == name) {
            continue;
        }
        if let Some(begun) = word.split_once('=').filter(|(key, _)| key == name) {
            all.extend(values(name, property, chains).into_iter().map(|value| of(&format!("{}={value}", begun.0), "")));
        } else {
            all.push(of(&format!("{name}="), property["description"].as_str().unwrap_or_default()));
        }
    }
    all
}

/// Values of a parameter, if there are only few; else empty.
fn values(name: &str, property: &Value, chains: &[String]) -> Vec<String> {
    if name == "chain" || name.ends_with("_chain") {
        return chains.to_vec();
    }
    if let Some(listed) = property["enum"].as_array() {
        return listed.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    let yes_or_no = property["type"] == "boolean"
        || property["type"].as_array().is_some_and(|all| all.iter().any(|one| one == "boolean"));
    if yes_or_no { vec!["true".to_owned(), "false".to_owned()] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use bardo_base::text::SafeText;
    use bardo_session::handle::CommandKind;
    use serde_json::json;

    fn text(words: &str) -> SafeText {
        SafeText::clean(words, 80)
    }

    /// Agent commands with only the parts that completion uses.
    fn commands() -> Vec<PromptCommand> {
        let command = |name: &str, parameters: &[&str], in_order: &[&str], kinds: &[(&str, &str)]| PromptCommand {
            name: text(name),
            description: text("does something"),
            schema: json!({ "properties": parameters.iter().map(|name| (*name, json!({}))).collect::<HashMap<_, _>>() }),
            in_order: in_order.iter().map(|name| text(name)).collect(),
            kinds: kinds.iter().map(|(name, tool)| CommandKind { name: text(name), tool: text(tool) }).collect(),
        };
        let actions = [("swap", "uniswap_execute_swap"), ("vault-deposit", "vault_deposit")];
        vec![
            command("preview_action", &["kind", "params", "why"], &["kind"], &actions),
            command("query_state", &["query", "params"], &["query"], &[("quote", "uniswap_get_quote")]),
            command("emergency_halt", &["reason"], &["reason"], &[]),
            command("act", &["kind", "params", "why"], &["kind"], &actions),
        ]
    }

    fn words(line: &str) -> Vec<String> {
        let swap = json!({ "properties": {
            "token_in": {}, "token_out": {}, "amount": {}, "chain": {}, "prefer_uniswapx": { "type": "boolean" },
        }});
        let find = |name: &str| match name {
            "uniswap_execute_swap" | "uniswap_get_quote" => Some(("trades", &swap)),
            _ => None,
        };
        let chains = ["ethereum".to_owned(), "base".to_owned()];
        let shows = ["first-tour".to_owned(), "falling-price".to_owned()];
        let names = CompletionNames { commands: &commands(), chains: &chains, shows: &shows };
        candidates(line, &find, &names).into_iter().map(|one| one.word).collect()
    }

    fn tab(line: &str) -> Option<String> {
        let all: Vec<_> = words(line).into_iter().map(|word| Candidate { word, about: String::new() }).collect();
        completed(line, &all)
    }

    #[test]
    fn each_command_is_completed_with_all_it_takes() {
        for command in commands() {
            let name = command.name.as_str();
            assert!(words("").contains(&name.to_owned()));
            assert!(words(&name[..name.len() - 1]).contains(&name.to_owned()));
            for parameter in command.schema["properties"].as_object().unwrap().keys().filter(|name| *name != "params") {
                assert!(words(&format!("{name} ")).contains(&format!("{parameter}=")), "{name} {parameter}");
            }
        }
    }

    #[test]
    fn a_kind_brings_the_parameters_of_its_tool() {
        assert!(words("preview_action sw").contains(&"swap".to_owned()));
        // A kind without a tool is not offered.
        assert!(!words("preview_action ").contains(&"vault-deposit".to_owned()));
        let after = words("preview_action swap token_in=WETH ");
        assert!(after.contains(&"token_out=".to_owned()) && after.contains(&"why=".to_owned()), "{after:?}");
        assert!(!after.contains(&"token_in=".to_owned()) && !after.contains(&"params=".to_owned()), "{after:?}");
        assert_eq!(words("act swap chain=b"), ["chain=base"]);
        assert_eq!(words("act swap prefer_uniswapx="), ["prefer_uniswapx=true", "prefer_uniswapx=false"]);
        assert!(words("query_state quote ").contains(&"amount=".to_owned()));
        assert_eq!(words("tell me about "), Vec::<String>::new());
        assert_eq!(words("scenario f"), ["first-tour", "falling-price"]);
    }

    #[test]
    fn tab_takes_what_all_candidates_share() {
        assert_eq!(tab("prev"), Some("preview_action ".to_owned()));
        assert_eq!(tab("act swap token_o"), Some("act swap token_out=".to_owned()));
        assert_eq!(tab("act swap tok"), Some("act swap token_".to_owned()));
        assert_eq!(tab("act swap token_"), None);
        assert_eq!(tab("zzz"), None);
        assert_eq!(tab("act swap chain=b"), Some("act swap chain=base ".to_owned()));
    }
}
