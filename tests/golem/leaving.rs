//! Leaving a session with an open order, in the mode that cancels open orders.

use std::collections::BTreeMap;
use std::time::Duration;

use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::id::GolemId;
use bardo::engine::CallStatus;
use bardo::fabric::EventKind;
use bardo::runtime::actor::{Actor, ActorContext};
use bardo::runtime::session::{Session, SessionOptions};
use bardo::session::handle::{AddressedCommand, LeaveMode, SessionCommand, SessionHandle, SessionNews, SessionSummary};
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Actor that does nothing.
struct Nobody;

impl Actor for Nobody {
    fn live(self: Box<Self>, mut seat: ActorContext) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // An ended session counts as leaving, too.
            let _left = seat.leaving.wait_for(|leaving| *leaving).await;
        })
    }
}

async fn next(news: &mut mpsc::Receiver<SessionNews>) -> SessionNews {
    timeout(Duration::from_secs(120), news.recv()).await.expect("a stall").expect("the session goes on")
}

/// Tools of the successful calls, and the session summary.
async fn to_the_end(news: &mut mpsc::Receiver<SessionNews>) -> (Vec<String>, SessionSummary) {
    let (mut begun, mut done) = (BTreeMap::new(), Vec::new());
    loop {
        match next(news).await {
            SessionNews::Events(events) => {
                for event in events {
                    match &event.kind {
                        EventKind::ToolStart(start) => drop(begun.insert(event.call_id, start.tool_name.to_string())),
                        EventKind::ToolEnd(end) if end.success => done.extend(begun.remove(&event.call_id)),
                        _ => {}
                    }
                }
            }
            SessionNews::Left(session_summary) => return (done, *session_summary),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaving_cancels_open_orders_if_requested() {
    let home = tempfile::tempdir().unwrap();
    let variables = [("BARDO_HOME".to_owned(), home.path().to_str().unwrap().to_owned())];
    let config = Config::load(&Environment::from_iter(variables), &ConfigFlags::default()).unwrap();
    let SessionHandle { commands, mut news } = Session::open_with(config, SessionOptions::default(), Box::new(Nobody));
    let send =
        async |command| commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    while !matches!(next(&mut news).await, SessionNews::Ready(_)) {}

    // For half an hour it asks for more than anyone pays.
    let params = json!({
        "token_in": "WETH", "token_out": "USDC", "amount": "0.05", "chain": "ethereum",
        "decay_end_time": 3_000,
    });
    let tool = "uniswap_submit_uniswapx_order".to_owned();
    send(SessionCommand::Call { ticket: 1, tool, params, dry_run: false, idempotency_key: None, unasked: false }).await;
    loop {
        if let SessionNews::Reply { response, .. } = next(&mut news).await {
            assert_eq!(response.status, CallStatus::Partial, "{response:?}");
            break;
        }
    }

    send(SessionCommand::Leave(LeaveMode::CancelOrders)).await;
    let (done, session_summary) = to_the_end(&mut news).await;
    // The order is gone; the allowance that it was placed under is not, and the summary says what ends it.
    let remarks: Vec<&str> = session_summary.remarks.iter().map(|remark| remark.as_str()).collect();
    let [remark] = remarks[..] else { panic!("{remarks:?}") };
    assert!(remark.contains(" may still take 0.05 WETH on ethereum: `bardo call token_revoke token=WETH"), "{remark}");
    assert_eq!(done, ["uniswapx_cancel_order"]);
}
