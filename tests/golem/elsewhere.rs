//! A Golem on a network that is not inside this process: no scenario is played, with any kind of money.

use std::time::Duration;

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::id::GolemId;
use bardo::fabric::EventKind;
use bardo::runtime::session::{Session, SessionOptions};
use bardo::session::handle::{AddressedCommand, LeaveMode, SessionCommand, SessionHandle, SessionNews};

use bardo_testkit::devnet::Devnet;

/// Number of awaited heartbeats: by the third, two seconds each, a scenario's first event would have happened.
const HEARTBEATS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_an_external_network_no_scenario_is_played_and_the_lifespan_counts() {
    let devnet = tokio::task::spawn_blocking(|| Devnet::start("0", 3)).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), "[golem]\nlifespan_minutes = 90\n").unwrap();
    let environment: Environment = [("BARDO_HOME", home.path().to_str().unwrap())].into_iter().collect();
    let flags = ConfigFlags { rpc: vec![format!("ethereum={}", devnet.url(0))], ..ConfigFlags::default() };
    let config = Config::load(&environment, &flags).unwrap();
    let SessionHandle { commands, mut news } = Session::open(config, SessionOptions::default());
    let (mut thoughts, mut lifespans, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    let listen = async {
        while lifespans.len() < HEARTBEATS {
            let SessionNews::Events(events) = news.recv().await.expect("the session goes on") else { continue };
            for event in events.iter().filter(|event| event.golem_id.as_str() == "ada") {
                match &event.kind {
                    EventKind::GolemThought(thought) => thoughts.push(thought.text.to_string()),
                    EventKind::Vitals(vitals) => lifespans.push(vitals.lifespan_seconds),
                    // It says that it waits.
                    EventKind::GolemNow(now)
                        if now.now.as_str() == "Waiting for your commands." && now.step.is_none() => {}
                    EventKind::Caption(_) | EventKind::GolemNow(_) | EventKind::ToolStart(_) => {
                        shown.push(event.kind.clone());
                    }
                    _ => {}
                }
            }
        }
    };
    let lived = tokio::time::timeout(Duration::from_secs(240), listen).await;
    assert!(lived.is_ok(), "it does not live: {thoughts:?}");
    assert!(shown.is_empty(), "it plays something: {shown:#?}");
    assert!(thoughts.iter().any(|text| text.contains("Scenarios run only on")), "{thoughts:?}");
    assert!(lifespans.iter().all(|given| *given == Some(90 * 60)), "{lifespans:?}");
    let leave = SessionCommand::Leave(LeaveMode::Now);
    commands.send(AddressedCommand { golem_id: GolemId::operator(), command: leave }).await.unwrap();
}
