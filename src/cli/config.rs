//! The `bardo config` command: path, settings and template of the configuration.

use std::{io::Write, path::Path};

use serde::Serialize;

use super::{CliExit, CommandFailure, args::ConfigAction, load, print, print_json};
use bardo_base::{
    config::{Config, ConfigFlags, ConfigPaths, Environment, RpcUrl, TEMPLATE},
    private,
    text::{SafeText, width},
};

/// A displayed setting with its origin.
#[derive(Debug, Serialize)]
struct ShownSetting {
    key: String,
    value: String,
    origin: String,
}

pub(super) fn run(
    action: &ConfigAction,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    match action {
        // Both must work without a readable configuration, since they help to find and replace a broken one.
        ConfigAction::Path => path(&ConfigPaths::find(environment)?.config_file, json),
        ConfigAction::Init => init(&ConfigPaths::find(environment)?.config_file, json),
        ConfigAction::Show => show(&load(environment, flags)?, json),
    }
}

fn path(file: &Path, json: bool) -> Result<CliExit, CommandFailure> {
    if json {
        print_json(&serde_json::json!({ "config_file": file, "exists": file.exists() }))?;
    } else {
        print(&format!("{}\n", file.display()))?;
    }
    Ok(CliExit::Success)
}

fn init(file: &Path, json: bool) -> Result<CliExit, CommandFailure> {
    let failed = |error: std::io::Error| -> CommandFailure {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            format!("{} already exists and was not changed; edit it, or move it away first", file.display()).into()
        } else {
            format!("cannot write {}: {error}", file.display()).into()
        }
    };
    if let Some(folder) = file.parent() {
        private::make(folder).map_err(failed)?;
    }
    private::file()
        .write(true)
        .create_new(true)
        .open(file)
        .and_then(|mut opened| opened.write_all(TEMPLATE.as_bytes()))
        .map_err(failed)?;
    if json {
        return path(file, json);
    }
    print(&format!("wrote {}; edit network, account and [chains.NAME] in it\n", file.display()))?;
    Ok(CliExit::Success)
}

fn show(config: &Config, json: bool) -> Result<CliExit, CommandFailure> {
    let settings = settings(config);
    if json {
        print_json(&serde_json::json!({
            "config_file": config.file,
            "exists": config.file_exists,
            "settings": settings,
        }))?;
        return Ok(CliExit::Success);
    }
    let there = if config.file_exists { "" } else { " (missing: `bardo config init` creates it)" };
    let mut text = format!("{}{there}\n\n", config.file.display());
    let column = |of: fn(&ShownSetting) -> &str| settings.iter().map(|shown| width(of(shown))).max().unwrap_or(0);
    let (keys, values) = (column(|shown| &shown.key), column(|shown| &shown.value));
    for ShownSetting { key, value, origin } in &settings {
        text.push_str(&format!("{key:keys$}  {value:values$}  {origin}\n"));
    }
    print(&text)?;
    Ok(CliExit::Success)
}

/// Returns every setting that has a value, with endpoints redacted.
fn settings(config: &Config) -> Vec<ShownSetting> {
    let mut shown = Vec::new();
    let mut add = |key: String, value: String, origin: String| {
        // The values come from files and the environment and go to a terminal.
        let [key, value, origin] = [key, value, origin].map(|text| SafeText::clean(&text, 400).to_string());
        shown.push(ShownSetting { key, value, origin });
    };
    add("network".into(), config.network.value.clone(), config.network.origin.to_string());
    if let Some(book) = &config.book {
        add("book".into(), book.value.display().to_string(), book.origin.to_string());
    }
    for entry in &config.trusted_entries {
        add("trusted_entries".into(), entry.value.clone(), entry.origin.to_string());
    }
    add("data_dir".into(), config.data_dir.value.display().to_string(), config.data_dir.origin.to_string());
    add("log".into(), config.log.value.clone(), config.log.origin.to_string());
    add("log_format".into(), config.log_format.value.to_string(), config.log_format.origin.to_string());
    if let Some(account) = &config.account {
        add("account".into(), account.value.clone(), account.origin.to_string());
    }
    add("on_death".into(), config.on_death.value.to_string(), config.on_death.origin.to_string());
    for (key, setting) in config.safety.seconds() {
        add(format!("safety.{key}"), setting.value.to_string(), setting.origin.to_string());
    }
    let depth = &config.safety.minimum_pool_depth_usd;
    add("safety.minimum_pool_depth_usd".into(), depth.value.to_string(), depth.origin.to_string());
    for (key, value, origin) in config.golem.shown() {
        add(format!("golem.{key}"), value, origin.to_string());
    }
    for (key, value, origin) in config.agents.shown() {
        add(format!("agents.{key}"), value, origin);
    }
    for (key, value, origin) in config.alerts.shown() {
        add(format!("alerts.{key}"), value, origin.to_string());
    }
    for (chain, settings) in &config.chains {
        for endpoint in &settings.rpc.value {
            add(format!("chains.{chain}.rpc"), endpoint.to_string(), settings.rpc.origin.to_string());
        }
        for (key, relay) in [("relay", &settings.relay), ("relay_status", &settings.relay_status)] {
            if let Some(relay) = relay {
                add(format!("chains.{chain}.{key}"), relay.value.to_string(), relay.origin.to_string());
            }
        }
        if let Some(oracle) = &settings.data_fee_oracle {
            let shown = oracle.value.map_or("none".to_owned(), |address| address.to_string());
            add(format!("chains.{chain}.data_fee_oracle"), shown, oracle.origin.to_string());
        }
        if let Some(blocks) = &settings.confirmations {
            add(format!("chains.{chain}.confirmations"), blocks.value.to_string(), blocks.origin.to_string());
        }
        if let Some(id) = &settings.chain_id {
            add(format!("chains.{chain}.chain_id"), id.value.to_string(), id.origin.to_string());
        }
    }
    if let Some(attention) = &config.attention {
        add("console.attention".into(), attention.value.clone(), attention.origin.to_string());
    }
    for (name, keys) in &config.keys {
        add(format!("keys.{name}"), keys.value.clone(), keys.origin.to_string());
    }
    for (chain, kind) in &config.order_types {
        add(format!("order_type.{chain}"), kind.value.clone(), kind.origin.to_string());
    }
    let margin = &config.intent_margin;
    add("intents.margin_bps".into(), margin.value.get().to_string(), margin.origin.to_string());
    let size = &config.rehearsal_size;
    add("rehearsal.size".into(), size.value.clone(), size.origin.to_string());
    let quotes = &config.quotes;
    let origin = quotes.source.as_ref().map_or_else(|| "default".to_owned(), |source| source.origin.to_string());
    add("quotes.source".into(), quotes.choice().word().into(), origin);
    if let Some(url) = &quotes.api_url {
        // A URL may contain a credential, which its display form hides.
        let shown = RpcUrl::parse(&url.value).map_or_else(|error| error.to_string(), |url| url.to_string());
        add("quotes.api_url".into(), shown, url.origin.to_string());
    }
    if let Some(key) = &quotes.api_key {
        add("quotes.api_key".into(), "set, hidden".into(), key.origin.to_string());
    }
    if let Some(socket) = &quotes.sidecar_socket {
        add("quotes.sidecar_socket".into(), socket.value.display().to_string(), socket.origin.to_string());
    }
    for (chain, prices) in &config.prices {
        for (symbol, price) in &prices.value {
            add(format!("prices.{chain}.{symbol}"), price.to_string(), prices.origin.to_string());
        }
    }
    shown
}
