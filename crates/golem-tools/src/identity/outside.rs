//! Files outside the chain that a page of agents needs: registration files and A2A agent cards, read at once and within a
//! time limit.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy::primitives::U256;
use futures::StreamExt as _;
use futures::stream;

use crate::engine::{CallContext, ConnectedChain};
use bardo_base::text::SafeText;
use golem_protocols::erc8004::card::{AgentCard, MAX_CARD};
use golem_protocols::erc8004::file::ReadRegistration;

/// Time in which a page's files or cards must arrive. Later ones are left out.
const TIME_LIMIT: Duration = Duration::from_millis(2_500);
/// Maximum number of files or cards that are requested for a page: each request goes to a server that a stranger chose.
const MOST: usize = 20;
/// Number of requests at once.
const AT_ONCE: usize = 10;

/// Outcome of reading one file.
pub(super) type OutsideRead<T> = Result<T, String>;

/// Reads registration files, by agent. Agents whose files do not arrive in time are not in the result.
pub(super) async fn registrations(
    context: &CallContext,
    chain: &ConnectedChain,
    wanted: &[(U256, SafeText)],
) -> BTreeMap<U256, OutsideRead<ReadRegistration>> {
    read_all(context, chain, wanted, |bytes| ReadRegistration::read(bytes).map_err(|error| error.to_string())).await
}

/// Reads A2A agent cards, by agent. Agents whose cards do not arrive in time are not in the result.
pub(super) async fn cards(
    context: &CallContext,
    chain: &ConnectedChain,
    wanted: &[(U256, SafeText)],
) -> BTreeMap<U256, OutsideRead<AgentCard>> {
    let parsed = |bytes: &[u8]| match bytes.len() {
        length if length > MAX_CARD => Err(format!("{length} bytes are too long for an agent card")),
        _ => AgentCard::read(bytes).map_err(|error| error.to_string()),
    };
    read_all(context, chain, wanted, parsed).await
}

async fn read_all<T>(
    context: &CallContext,
    chain: &ConnectedChain,
    wanted: &[(U256, SafeText)],
    parsed: impl Fn(&[u8]) -> OutsideRead<T>,
) -> BTreeMap<U256, OutsideRead<T>> {
    let mut found = BTreeMap::new();
    let Some(files) = context.world.agent_files(chain.network()) else { return found };
    let wanted: Vec<(U256, SafeText)> = wanted.iter().take(MOST).cloned().collect();
    let requests = wanted.into_iter().map(|(id, address)| async move {
        if address.altered() {
            return (id, Err("its address contains characters that no address has".to_owned()));
        }
        (id, files.read(address.as_str()).await.map_err(|error| error.to_string()))
    });
    let mut arriving = stream::iter(requests).buffer_unordered(AT_ONCE);
    let limit = tokio::time::sleep(TIME_LIMIT);
    tokio::pin!(limit);
    loop {
        tokio::select! {
            () = &mut limit => return found,
            next = arriving.next() => {
                let Some((id, read)) = next else { return found };
                found.insert(id, read.and_then(|file| parsed(&file.bytes)));
            }
        }
    }
}
