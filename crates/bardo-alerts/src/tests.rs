//! Channels against local servers of their documented shape, honest and hostile; rules and delivery.

mod delivery;
mod email;
mod http;
mod rules;
mod service;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::alert::{Alert, AlertMessage};
use bardo_base::config::{AlertDetail, AlertRule, AlertSettings, Config, ConfigFlags, Environment};
use bardo_base::text::SafeText;

/// Secrets of the channels in these tests, which must appear nowhere else.
const WEBHOOK: &str = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5";
const TOKEN: &str = "7001:CANARY-token_of-a-bot";
const PASSWORD: &str = "canary-password";

/// Settings as a configuration file gives them.
fn settings(home: &Path, alerts: &str) -> AlertSettings {
    let text = format!("[alerts]\n{alerts}\n");
    std::fs::write(home.join("config.toml"), text).unwrap();
    let environment: Environment = [("BARDO_HOME", home.to_str().unwrap())].into_iter().collect();
    Config::load(&environment, &ConfigFlags::default()).unwrap().alerts
}

/// A file with a secret that only its owner may read.
fn secret(home: &Path, name: &str, text: &str) -> PathBuf {
    let path = home.join(name);
    let mut file = bardo_base::private::file().write(true).create(true).truncate(true).open(&path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    path
}

fn alert() -> Alert {
    let place = SafeText::clean("devnet (PLAY MONEY), ethereum", 100);
    let alert = Alert::new(AlertRule::DecisionWaits, "1".to_owned(), 0, "A decision waits for your answer.", place);
    alert.lapsing(Some(1_700_000_000_000), false).detailed(["Swap 1 WETH to USDC".to_owned()])
}

fn brief(alert: &Alert) -> AlertMessage<'_> {
    AlertMessage { alert, detail: AlertDetail::Brief, held_back: 0 }
}

#[test]
fn a_brief_message_names_event_place_and_end_and_a_full_one_the_details() {
    let alert = Alert { repeated: 2, ..alert() };
    let text = AlertMessage { held_back: 3, ..brief(&alert) }.text();
    assert_eq!(
        text,
        "Bardo: A decision waits for your answer.\n\
         Where: devnet (PLAY MONEY), ethereum\n\
         At: Thu, 01 Jan 1970 00:00:00 GMT\n\
         It lapses at Tue, 14 Nov 2023 22:13:20 GMT; nothing is signed without an answer in Bardo.\n\
         The same happened 2 more times since the last alert.\n\
         Held back since the last message, because there were too many: 3.\n\
         Answer and act in Bardo. Nothing can be approved through this message, and replies are not read."
    );
    let full = AlertMessage { detail: AlertDetail::Full, ..brief(&alert) }.text();
    assert!(full.contains("\nSwap 1 WETH to USDC\n"), "{full}");
    assert!(!text.contains("WETH"));
    let passing = Alert { passes_by_itself: true, ..alert };
    assert!(brief(&passing).text().contains("It goes ahead at Tue, 14 Nov 2023 22:13:20 GMT, unless you reject it"));
}
