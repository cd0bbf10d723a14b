//! Files outside the chain that a page of agents needs: registration files and A2A agent cards, read at once and within a
//! time limit.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy::primitives::U256;
use futures::StreamExt as _;
use futures::stream;

use crate::engine::{CallContext, ConnectedChain};
use bardo_base::text::SafeText;
use golem_protocols::erc8004::card::{AgentCard, CardError, MAX_CARD};
use golem_protocols::erc8004::file::{FileError, ReadRegistration};
use golem_protocols::erc8004::files::FileFetchError;

/// Time in which a page's files or cards must arrive. Later ones are left out.
const TIME_LIMIT: Duration = Duration::from_millis(2_500);
/// Maximum number of files or cards that are requested for a page: each request goes to a server that a stranger chose.
const MOST: usize = 20;
/// Number of requests at once.
const AT_ONCE: usize = 10;

/// Reason why one file could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutsideReadError {
    /// The file's address has characters that the sanitiser changed.
    #[error("its address contains characters that no address has")]
    Address,
    /// The file did not arrive, or is not what its address promises.
    #[error(transparent)]
    Fetch(#[from] FileFetchError),
    /// The bytes are not a registration file.
    #[error(transparent)]
    Registration(#[from] FileError),
    /// The agent card is longer than [`MAX_CARD`].
    #[error("{0} bytes are too long for an agent card")]
    CardTooLong(usize),
    /// The bytes are not an agent card.
    #[error(transparent)]
    Card(#[from] CardError),
}

/// Outcome of reading one file.
pub(super) type OutsideRead<T> = Result<T, OutsideReadError>;

/// Reads registration files, by agent. Agents whose files do not arrive in time are not in the result.
pub(super) async fn registrations(
    context: &CallContext,
    chain: &ConnectedChain,
    wanted: &[(U256, SafeText)],
) -> BTreeMap<U256, OutsideRead<ReadRegistration>> {
    read_all(context, chain, wanted, |bytes| Ok(ReadRegistration::read(bytes)?)).await
}

/// Reads A2A agent cards, by agent. Agents whose cards do not arrive in time are not in the result.
pub(super) async fn cards(
    context: &CallContext,
    chain: &ConnectedChain,
    wanted: &[(U256, SafeText)],
) -> BTreeMap<U256, OutsideRead<AgentCard>> {
    let parsed = |bytes: &[u8]| match bytes.len() {
        length if length > MAX_CARD => Err(OutsideReadError::CardTooLong(length)),
        _ => Ok(AgentCard::read(bytes)?),
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
            return (id, Err(OutsideReadError::Address));
        }
        (id, files.read(address.as_str()).await.map_err(OutsideReadError::from))
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
