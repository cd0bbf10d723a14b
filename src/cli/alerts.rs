//! The `bardo alerts` command: rules and channels, and a message to try them.

use std::sync::Arc;

use serde_json::json;

use super::args::AlertsAction;
use super::{CliExit, CommandFailure, load, print, print_json};
use bardo_alerts::{Alert, AlertMessage, Channel, ChannelName, StatusFile, channels};
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::config::{AlertRule, AlertSettings, Config, ConfigFlags, Environment};

/// Advice if no channel is configured.
const NONE: &str = "no channel is configured: set alerts.webhook_url, alerts.telegram_chat, alerts.email_server or \
                    alerts.desktop in the configuration file; `bardo config init` writes one with examples";

pub(super) fn run(
    action: &AlertsAction,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    match action {
        AlertsAction::List => list(&config, json),
        AlertsAction::Test { channel } => test(&config.alerts, *channel, json),
    }
}

/// Opens the configured channels before a session starts, so that an error is shown where it can be corrected.
pub(super) fn check(config: &Config) -> Result<(), CommandFailure> {
    channels(&config.alerts).map(drop).map_err(|error| CommandFailure::usage(error.to_string()))
}

/// Threshold of a rule in words; an error if the rule is off for lack of one.
fn threshold(rule: AlertRule, settings: &AlertSettings) -> Result<String, &'static str> {
    let minutes = settings.within_minutes.value;
    let moves = |percent: &Option<bardo_base::config::Setting<u64>>, unset| {
        percent.as_ref().map(|percent| format!("{} % within {minutes} min", percent.value)).ok_or(unset)
    };
    match rule {
        AlertRule::DecisionWaits => Ok(format!("after {} s", settings.decision_seconds.value)),
        AlertRule::Gas => match &settings.gas_below {
            Some(gas) => Ok(format!("below {} of the native token", gas.value)),
            None => Err("alerts.gas_below is not set"),
        },
        AlertRule::Balance => moves(&settings.balance_percent, "alerts.balance_percent is not set"),
        AlertRule::Price => moves(&settings.price_percent, "alerts.price_percent is not set"),
        AlertRule::DecisionLapsed | AlertRule::Phase | AlertRule::Breaker | AlertRule::Stop | AlertRule::Endpoint => {
            Ok("at once".to_owned())
        }
    }
}

fn list(config: &Config, json: bool) -> Result<CliExit, CommandFailure> {
    let settings = &config.alerts;
    let opened = channels(settings)?;
    let status = StatusFile::in_data(&config.data_dir.value).read();
    let rules = AlertRule::ALL.map(|rule| {
        let on = settings.rules.value.contains(&rule);
        (rule, if on { threshold(rule, settings) } else { Err("not in alerts.rules") })
    });
    if json {
        let rules: Vec<_> = rules
            .iter()
            .map(|(rule, when)| json!({ "rule": rule.as_str(), "on": when.is_ok(), "when": when.clone().unwrap_or_else(str::to_owned) }))
            .collect();
        let channels: Vec<_> = opened
            .iter()
            .map(|channel| {
                let name = channel.name().as_str();
                json!({ "channel": name, "destination": channel.destination(), "status": status.get(name) })
            })
            .collect();
        print_json(&json!({ "rules": rules, "channels": channels, "per_hour": settings.per_hour.value }))?;
        return Ok(CliExit::Success);
    }
    let mut text = String::from("Rules\n");
    for (rule, when) in &rules {
        let when = match when {
            Ok(when) => when.clone(),
            Err(why) => format!("off: {why}"),
        };
        text.push_str(&format!("  {:<16}  {when}\n", rule.as_str()));
    }
    text.push_str(&format!("\nChannels, each at most {} messages an hour\n", settings.per_hour.value));
    for channel in &opened {
        let name = channel.name().as_str();
        let state = match status.get(name) {
            Some(status) if status.failing_since.is_some() => format!("; fails: {}", status.why),
            Some(_) | None => String::new(),
        };
        text.push_str(&format!("  {name:<16}  {}{state}\n", channel.destination()));
    }
    if opened.is_empty() {
        text.push_str(&format!("  {NONE}\n"));
    }
    print(&text)?;
    Ok(CliExit::Success)
}

/// Sends one message through the channel, or through every configured one, and prints the servers' answers.
fn test(settings: &AlertSettings, only: Option<ChannelName>, json: bool) -> Result<CliExit, CommandFailure> {
    let mut opened = channels(settings)?;
    if let Some(only) = only {
        opened.retain(|channel| channel.name() == only);
    }
    if opened.is_empty() {
        let words = match only {
            Some(only) => format!("alerts by {only} are not configured: `bardo alerts list` shows the channels"),
            None => NONE.to_owned(),
        };
        return Err(CommandFailure::usage(words));
    }
    let runtime = bardo_base::runtime::multi_threaded(Some(2))?;
    let alert = Alert::test(SystemClock.now_millis());
    let message = AlertMessage { alert: &alert, detail: settings.detail.value, held_back: 0 };
    let mut answers = Vec::new();
    for channel in &opened {
        answers.push((channel, runtime.block_on(channel.send(&message))));
    }
    let failed = answers.iter().any(|(_, answer)| answer.is_err());
    if json {
        let answers: Vec<_> = answers
            .iter()
            .map(|(channel, answer)| match answer {
                Ok(answer) => json!({ "channel": channel.name().as_str(), "ok": true, "answer": answer.0 }),
                Err(error) => json!({ "channel": channel.name().as_str(), "ok": false, "error": error.why() }),
            })
            .collect();
        print_json(&json!({ "ok": !failed, "channels": answers }))?;
    } else {
        let line =
            |(channel, answer): &(&Arc<dyn Channel>, Result<bardo_alerts::Delivered, bardo_alerts::SendError>)| {
                let (word, said) = match answer {
                    Ok(answer) => ("sent", &answer.0),
                    Err(error) => ("FAIL", error.why()),
                };
                format!("{word}  {:<10}  {}  → {said}\n", channel.name().as_str(), channel.destination())
            };
        print(&answers.iter().map(line).collect::<String>())?;
    }
    Ok(if failed { CliExit::Error } else { CliExit::Success })
}
