//! Small GraphQL executor over JSON entities: what clients of a subgraph send, with the filters of
//! [The Graph's API](https://thegraph.com/docs/en/subgraphs/querying/graphql-api/). One operation, without fragments and
//! directives.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Maximum nesting of selections and of values.
const MAX_DEPTH: usize = 16;
/// Maximum number of fields of a query.
const MAX_FIELDS: usize = 2_000;
/// Number of entities without `first`, and its maximum.
const USUAL_FIRST: u64 = 100;
const MAX_FIRST: u64 = 1_000;
/// Maximum of `skip`.
const MAX_SKIP: u64 = 5_000;

/// Error of a query, as the client reads it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct QueryError(String);

fn error<T>(what: impl Into<String>) -> Result<T, QueryError> {
    Err(QueryError(what.into()))
}

/// Entities by the name of their collection, such as `agents`. Each has an `id`, and every field of its type.
pub(super) type Entities = BTreeMap<&'static str, Vec<Value>>;

/// Answers a query: collections with filters, single entities by `id`, and `_meta`.
///
/// # Errors
/// A [`QueryError`] for a malformed query, an unknown field, and an argument beyond its limit.
pub(super) fn answer(query: &str, variables: &Value, entities: &Entities, meta: &Value) -> Result<Value, QueryError> {
    let fields = Parser::new(query, variables)?.document()?;
    let mut data = Map::new();
    for field in fields {
        let value = if field.name == "_meta" {
            select(meta, &field, "_Meta_")?
        } else if let Some(all) = entities.get(field.name.as_str()) {
            let chosen = collection(all, &field)?;
            let selected = chosen.into_iter().map(|entity| select(entity, &field, &field.name));
            Value::Array(selected.collect::<Result<_, _>>()?)
        } else if let Some(all) = entities.get(format!("{}s", field.name).as_str()) {
            let id = field.arguments.get("id").and_then(Value::as_str).unwrap_or_default();
            match all.iter().find(|entity| entity.get("id").and_then(Value::as_str) == Some(id)) {
                Some(entity) => select(entity, &field, &field.name)?,
                None => Value::Null,
            }
        } else {
            return error(format!("Type `Query` has no field `{}`", field.name));
        };
        data.insert(field.key, value);
    }
    Ok(Value::Object(data))
}

fn collection<'a>(all: &'a [Value], field: &Field) -> Result<Vec<&'a Value>, QueryError> {
    let number = |name: &str, usual: u64, most: u64| match field.arguments.get(name) {
        None | Some(Value::Null) => Ok(usual),
        Some(value) => match value.as_u64().filter(|number| *number <= most) {
            Some(number) => Ok(number),
            None => error(format!("The value of `{name}` must be between 0 and {most}")),
        },
    };
    let first = number("first", USUAL_FIRST, MAX_FIRST)?;
    let skip = number("skip", 0, MAX_SKIP)?;
    let condition = field.arguments.get("where").unwrap_or(&Value::Null);
    let mut chosen = Vec::new();
    for entity in all {
        if holds(entity, condition, 0)? {
            chosen.push(entity);
        }
    }
    let by = field.arguments.get("orderBy").and_then(Value::as_str).unwrap_or("id");
    let descending = field.arguments.get("orderDirection").and_then(Value::as_str) == Some("desc");
    let id = |entity: &Value| entity.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    chosen.sort_by(|one, other| {
        let order = compare(one.get(by).unwrap_or(&Value::Null), other.get(by).unwrap_or(&Value::Null));
        let order = if descending { order.reverse() } else { order };
        order.then_with(|| id(one).cmp(&id(other)))
    });
    let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(chosen.into_iter().skip(place(skip)).take(place(first)).collect())
}

/// Selects fields of a value. Objects need a selection, and have every field of their type.
fn select(value: &Value, field: &Field, of: &str) -> Result<Value, QueryError> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::Array(items) => {
            Ok(Value::Array(items.iter().map(|item| select(item, field, of)).collect::<Result<_, _>>()?))
        }
        Value::Object(object) => {
            if field.selection.is_empty() {
                return error(format!("Field `{of}` must have a selection of subfields"));
            }
            let mut selected = Map::new();
            for inner in &field.selection {
                let Some(value) = object.get(&inner.name) else {
                    return error(format!("Type `{of}` has no field `{}`", inner.name));
                };
                selected.insert(inner.key.clone(), select(value, inner, &inner.name)?);
            }
            Ok(Value::Object(selected))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(value.clone()),
    }
}

/// Operators of filters; longer ones first, so that `not_in` is not read as `in`.
const OPERATORS: [&str; 13] = [
    "_not_contains_nocase",
    "_contains_nocase",
    "_starts_with_nocase",
    "_not_contains",
    "_starts_with",
    "_contains",
    "_not_in",
    "_gte",
    "_lte",
    "_not",
    "_in",
    "_gt",
    "_lt",
];

/// True if an entity meets a filter.
fn holds(entity: &Value, condition: &Value, depth: usize) -> Result<bool, QueryError> {
    if depth > MAX_DEPTH {
        return error("the filter is nested too deeply");
    }
    let Some(condition) = condition.as_object() else { return Ok(true) };
    for (key, wanted) in condition {
        let met = match key.as_str() {
            "and" | "or" => {
                let all = wanted.as_array().cloned().unwrap_or_default();
                let met = all.iter().map(|one| holds(entity, one, depth + 1)).collect::<Result<Vec<_>, _>>()?;
                if key == "and" { met.iter().all(|met| *met) } else { met.iter().any(|met| *met) }
            }
            nested if nested.ends_with('_') && wanted.is_object() => {
                let inner = present(entity, nested.trim_end_matches('_'))?;
                inner.is_object() && holds(inner, wanted, depth + 1)?
            }
            name if entity.get(name).is_some() => equal(present(entity, name)?, wanted),
            name => {
                let split = OPERATORS.iter().find_map(|operator| Some((name.strip_suffix(operator)?, *operator)));
                let Some((name, operator)) = split else {
                    return error(format!("the filter has no field `{name}`"));
                };
                compared(present(entity, name)?, operator, wanted)
            }
        };
        if !met {
            return Ok(false);
        }
    }
    Ok(true)
}

fn present<'a>(entity: &'a Value, name: &str) -> Result<&'a Value, QueryError> {
    entity.get(name).map_or_else(|| error(format!("the filter has no field `{name}`")), Ok)
}

fn compared(value: &Value, operator: &str, wanted: &Value) -> bool {
    let among = || wanted.as_array().is_some_and(|list| list.iter().any(|one| equal(value, one)));
    let contains = |fold: bool| match (value, wanted) {
        (Value::String(text), Value::String(part)) if fold => text.to_lowercase().contains(&part.to_lowercase()),
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(list), Value::Array(parts)) => parts.iter().all(|part| list.iter().any(|one| equal(one, part))),
        _ => false,
    };
    let starts = |fold: bool| match (value.as_str(), wanted.as_str()) {
        (Some(text), Some(part)) if fold => text.to_lowercase().starts_with(&part.to_lowercase()),
        (Some(text), Some(part)) => text.starts_with(part),
        _ => false,
    };
    match operator {
        "_not" => !equal(value, wanted),
        "_in" => among(),
        "_not_in" => !among(),
        "_gt" => compare(value, wanted) == Ordering::Greater,
        "_gte" => compare(value, wanted) != Ordering::Less,
        "_lt" => compare(value, wanted) == Ordering::Less,
        "_lte" => compare(value, wanted) != Ordering::Greater,
        "_contains" => contains(false),
        "_not_contains" => !contains(false),
        "_contains_nocase" => contains(true),
        "_not_contains_nocase" => !contains(true),
        "_starts_with" => starts(false),
        _ => starts(true),
    }
}

/// True for equal values. An entity equals its id, and numbers are equal in every notation.
fn equal(value: &Value, wanted: &Value) -> bool {
    if let (Some(id), Value::String(wanted)) = (value.get("id").and_then(Value::as_str), wanted) {
        return id == wanted;
    }
    value == wanted || (number(value).is_some() && number(value) == number(wanted))
}

fn compare(one: &Value, other: &Value) -> Ordering {
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        _ => one.as_str().unwrap_or_default().cmp(other.as_str().unwrap_or_default()),
    }
}

/// Number in a value: large numbers are texts in GraphQL. They are ordered and compared here, and never added.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Field of a query.
#[derive(Debug)]
struct Field {
    /// Name in the answer: the alias, or the field's own name.
    key: String,
    name: String,
    arguments: BTreeMap<String, Value>,
    selection: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Sign(char),
    Name(String),
    Text(String),
    Number(String),
}

struct Parser<'a> {
    tokens: std::vec::IntoIter<Token>,
    next: Option<Token>,
    variables: &'a Value,
    fields: usize,
}

impl<'a> Parser<'a> {
    fn new(query: &str, variables: &'a Value) -> Result<Self, QueryError> {
        let mut tokens = tokens(query)?.into_iter();
        let next = tokens.next();
        Ok(Self { tokens, next, variables, fields: 0 })
    }

    fn take(&mut self) -> Option<Token> {
        std::mem::replace(&mut self.next, self.tokens.next())
    }

    fn is(&self, sign: char) -> bool {
        self.next == Some(Token::Sign(sign))
    }

    fn accept(&mut self, sign: char) -> bool {
        let is = self.is(sign);
        if is {
            self.take();
        }
        is
    }

    fn expect(&mut self, sign: char) -> Result<(), QueryError> {
        if self.accept(sign) { Ok(()) } else { error(format!("expected `{sign}`, found {:?}", self.next)) }
    }

    fn name(&mut self) -> Result<String, QueryError> {
        match self.take() {
            Some(Token::Name(name)) => Ok(name),
            other => error(format!("expected a name, found {other:?}")),
        }
    }

    fn document(mut self) -> Result<Vec<Field>, QueryError> {
        if let Some(Token::Name(kind)) = self.next.clone() {
            if kind != "query" {
                return error(format!("`{kind}` is not supported here"));
            }
            self.take();
            if matches!(self.next, Some(Token::Name(_))) {
                self.take();
            }
            if self.accept('(') {
                // Types of variables are not checked: a wrong value fails where it is used.
                let mut depth = 1_usize;
                while depth > 0 {
                    match self.take() {
                        Some(Token::Sign('(')) => depth = depth.saturating_add(1),
                        Some(Token::Sign(')')) => depth = depth.saturating_sub(1),
                        Some(_) => {}
                        None => return error("the variables have no end"),
                    }
                }
            }
        }
        let fields = self.selection(0)?;
        match self.next {
            None => Ok(fields),
            Some(_) => error("only one operation is supported here"),
        }
    }

    fn selection(&mut self, depth: usize) -> Result<Vec<Field>, QueryError> {
        if depth > MAX_DEPTH {
            return error("the query is nested too deeply");
        }
        self.expect('{')?;
        let mut fields = Vec::new();
        while !self.accept('}') {
            self.fields = self.fields.saturating_add(1);
            if self.fields > MAX_FIELDS {
                return error("the query has too many fields");
            }
            let mut name = self.name()?;
            let key = name.clone();
            if self.accept(':') {
                name = self.name()?;
            }
            let mut arguments = BTreeMap::new();
            if self.accept('(') {
                while !self.accept(')') {
                    let name = self.name()?;
                    self.expect(':')?;
                    arguments.insert(name, self.value(0)?);
                }
            }
            let selection = if self.is('{') { self.selection(depth + 1)? } else { Vec::new() };
            fields.push(Field { key, name, arguments, selection });
        }
        Ok(fields)
    }

    fn value(&mut self, depth: usize) -> Result<Value, QueryError> {
        if depth > MAX_DEPTH {
            return error("a value is nested too deeply");
        }
        match self.take() {
            Some(Token::Sign('$')) => {
                let name = self.name()?;
                Ok(self.variables.get(&name).cloned().unwrap_or_default())
            }
            Some(Token::Sign('[')) => {
                let mut list = Vec::new();
                while !self.accept(']') {
                    list.push(self.value(depth + 1)?);
                }
                Ok(Value::Array(list))
            }
            Some(Token::Sign('{')) => {
                let mut object = Map::new();
                while !self.accept('}') {
                    let name = self.name()?;
                    self.expect(':')?;
                    object.insert(name, self.value(depth + 1)?);
                }
                Ok(Value::Object(object))
            }
            Some(Token::Text(text)) => Ok(Value::String(text)),
            Some(Token::Number(number)) => {
                serde_json::from_str(&number).or_else(|_| error(format!("`{number}` is not a number")))
            }
            Some(Token::Name(name)) => Ok(match name.as_str() {
                "true" => json!(true),
                "false" => json!(false),
                "null" => Value::Null,
                _ => Value::String(name),
            }),
            other => error(format!("expected a value, found {other:?}")),
        }
    }
}

fn tokens(query: &str) -> Result<Vec<Token>, QueryError> {
    let mut tokens = Vec::new();
    let mut rest = query.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            // Commas are white space.
            ' ' | '\t' | '\n' | '\r' | ',' | '\u{feff}' => {}
            '#' => while rest.next_if(|next| *next != '\n').is_some() {},
            '"' => {
                let mut text = String::from('"');
                loop {
                    match rest.next() {
                        Some('"') => break,
                        Some('\\') => {
                            text.push('\\');
                            text.extend(rest.next());
                        }
                        Some('\n') | None => return error("a text has no end"),
                        Some(other) => text.push(other),
                    }
                }
                text.push('"');
                // The escapes of GraphQL's texts are those of JSON's.
                tokens.push(Token::Text(serde_json::from_str(&text).or_else(|_| error("a text is malformed"))?));
            }
            '-' | '0'..='9' => {
                let mut number = String::from(character);
                while let Some(next) =
                    rest.next_if(|next| next.is_ascii_digit() || matches!(next, '.' | 'e' | 'E' | '+' | '-'))
                {
                    number.push(next);
                }
                tokens.push(Token::Number(number));
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                let mut name = String::from(character);
                while let Some(next) = rest.next_if(|next| next.is_ascii_alphanumeric() || *next == '_') {
                    name.push(next);
                }
                tokens.push(Token::Name(name));
            }
            '{' | '}' | '(' | ')' | '[' | ']' | ':' | '$' | '!' | '=' => tokens.push(Token::Sign(character)),
            other => return error(format!("`{other}` is not supported here")),
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entities() -> Entities {
        let agent = |id: &str, number: u32, name: &str, tags: Value| json!({"id": id, "number": number, "name": name, "tags": tags, "file": {"id": id, "active": number > 1}});
        let agents = vec![
            agent("1:1", 1, "Router", json!(["a"])),
            agent("1:2", 2, "router two", json!(["a", "b"])),
            agent("1:10", 10, "Lender", json!([])),
        ];
        let notes = vec![json!({"id": "n", "agent": {"id": "1:2"}, "value": "85.5"})];
        [("agents", agents), ("notes", notes)].into()
    }

    fn ids(query: &str) -> Vec<String> {
        let data = answer(query, &json!({"n": 2, "who": "1:10"}), &entities(), &Value::Null).unwrap();
        let all = data.as_object().unwrap().values().next().unwrap();
        all.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn filters_and_orders_are_those_of_the_graph() {
        for (arguments, wanted) in [
            ("", vec!["1:1", "1:10", "1:2"]),
            ("(orderBy: number, orderDirection: desc, first: 2)", vec!["1:10", "1:2"]),
            ("(orderBy: number skip: 1 first: $n)", vec!["1:2", "1:10"]),
            ("(where: {number_gte: $n, number_lt: 10})", vec!["1:2"]),
            ("(where: {name_contains_nocase: \"ROUTER\"})", vec!["1:1", "1:2"]),
            ("(where: {tags_contains: [\"a\", \"b\"]})", vec!["1:2"]),
            ("(where: {id_in: [\"1:1\", $who]})", vec!["1:1", "1:10"]),
            ("(where: {or: [{number: 1}, {and: [{number: \"10\"}, {name: \"Lender\"}]}]})", vec!["1:1", "1:10"]),
            ("(where: {file_: {active: true}, id_not: \"1:2\"})", vec!["1:10"]),
        ] {
            assert_eq!(
                ids(&format!("query Q($n: Int!, $who: String) {{ agents{arguments} {{ id }} }}")),
                wanted,
                "{arguments}"
            );
        }
        assert_eq!(ids("{ notes(where: {agent: \"1:2\", value_gt: 85}) { id } } # a comment"), ["n"]);
        let data = answer(
            "{ agent(id: \"1:2\") { called: name file { active } } other: agent(id: \"x\") { id } }",
            &Value::Null,
            &entities(),
            &Value::Null,
        );
        assert_eq!(data.unwrap(), json!({"agent": {"called": "router two", "file": {"active": true}}, "other": null}));
    }

    #[test]
    fn what_is_not_in_the_schema_is_an_error() {
        for (query, said) in [
            ("{ agents { id nothing } }", "has no field `nothing`"),
            ("{ nothing { id } }", "has no field `nothing`"),
            ("{ agents(where: {nothing: 1}) { id } }", "no field `nothing`"),
            ("{ agents(where: {nothing_gt: 1}) { id } }", "no field `nothing`"),
            ("{ agents(first: 1001) { id } }", "between 0 and 1000"),
            ("{ agents(first: -1) { id } }", "between 0 and 1000"),
            ("{ agents { id } } { agents { id } }", "only one operation"),
            ("mutation { agents { id } }", "not supported"),
            ("{ agents { file } }", "selection of subfields"),
            ("{ agents { id }", "expected a name"),
            ("{ agents(where: {name: \"x) { id } }", "no end"),
            ("{ ...on }", "not supported"),
        ] {
            let error = answer(query, &Value::Null, &entities(), &Value::Null).unwrap_err().to_string();
            assert!(error.contains(said), "{query}: {error}");
        }
        let deep = format!("{{ agents(where: {}{}) {{ id }} }}", "{and: [".repeat(40), "]}".repeat(40));
        assert!(answer(&deep, &Value::Null, &entities(), &Value::Null).is_err());
        assert!(answer(&"{a".repeat(100), &Value::Null, &entities(), &Value::Null).is_err());
    }
}
