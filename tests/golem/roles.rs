//! A session whose Golem has another archetype: it sees that archetype's tools, and no others.

use std::collections::BTreeSet;
use std::time::Duration;

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::error::ErrorCode;
use bardo::base::id::GolemId;
use bardo::engine::{Catalog, ToolCall, ToolInput};
use bardo::golem::archetype::Archetypes;
use bardo::runtime::actor::{Actor, ActorContext};
use bardo::runtime::session::{Session, SessionOptions};
use bardo::session::handle::{AddressedCommand, LeaveMode, SessionCommand, SessionHandle, SessionNews};
use bardo::tools::ALL_TOOL_DEFS;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::oneshot;

/// Contents of a seat, as an actor finds them.
struct Found {
    role: String,
    tools: BTreeSet<&'static str>,
    /// Result of a swap that is tried anyway.
    swap: Option<ErrorCode>,
}

/// Actor that reports its seat and stays.
struct Looking(oneshot::Sender<Found>);

impl Actor for Looking {
    fn live(self: Box<Self>, mut seat: ActorContext) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.01", "chain": "ethereum"});
            let swap = seat.executor.call(ToolCall::new("uniswap_execute_swap", ToolInput::Json(params))).await;
            let tools = seat.executor.catalog().iter().map(|entry| entry.def.meta.name).collect();
            let swap = swap.error.map(|error| error.code());
            let _heard = self.0.send(Found { role: seat.role.to_string(), tools, swap });
            let _left = seat.leaving.wait_for(|leaving| *leaving).await;
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_gives_its_golem_the_tools_of_its_role_and_no_others() {
    let home = tempfile::tempdir().unwrap();
    let environment = Environment::from_iter([("BARDO_HOME", home.path().to_str().unwrap())]);
    let flags = ConfigFlags { archetype: Some("pool-researcher".to_owned()), ..ConfigFlags::default() };
    let config = Config::load(&environment, &flags).unwrap();
    let (tell, told) = oneshot::channel();
    let SessionHandle { commands, mut news } =
        Session::open_with(config, SessionOptions::default(), Box::new(Looking(tell)));
    let ready = async {
        loop {
            if let SessionNews::Ready(ready) = news.recv().await.expect("the session goes on") {
                return ready;
            }
        }
    };
    let ready = tokio::time::timeout(Duration::from_secs(240), ready).await.unwrap();
    assert_eq!(ready.role.as_str(), "pool-researcher");
    // Messages are still read, so that no sender blocks.
    let reading = tokio::spawn(async move { while news.recv().await.is_some() {} });
    let found = tokio::time::timeout(Duration::from_secs(240), told).await.unwrap().unwrap();
    let (all, roles) = (Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(), Archetypes::load(None).unwrap());
    let own = roles.get("pool-researcher").unwrap().tools(&all).unwrap();
    assert_eq!(found.tools, own.iter().map(|entry| entry.def.meta.name).collect());
    assert!(found.tools.len() > 2 && !found.tools.contains("uniswap_execute_swap"));
    assert_eq!((found.role.as_str(), found.swap), ("pool-researcher", Some(ErrorCode::ToolUnknown)));
    commands
        .send(AddressedCommand { golem_id: GolemId::operator(), command: SessionCommand::Leave(LeaveMode::Now) })
        .await
        .unwrap();
    reading.await.unwrap();
}
