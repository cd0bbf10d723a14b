//! Files outside the chain that a page of agents needs: registration files and A2A agent cards, read at once and within a
//! time limit.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy::primitives::{B256, U256};
use futures::StreamExt as _;
use futures::stream;

use super::index::AgentView;
use crate::engine::{CallContext, ConnectedChain};
use bardo_base::text::SafeText;
use golem_protocols::erc8004::card::{AgentCard, CardError, MAX_CARD};
use golem_protocols::erc8004::file::{FileError, ReadRegistration, Review};
use golem_protocols::erc8004::files::{AgentFiles, FileFetchError, OutsideFile};

/// Time in which a page's files or cards must arrive. Later ones are left out.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// Time in which the one file of a profile must arrive, which leaves a fifth of the tool's budget to the chain.
const PROFILE_LIMIT: Duration = Duration::from_secs(4);
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
    /// The file did not arrive within [`PROFILE_LIMIT`].
    #[error("it did not arrive within {} s", PROFILE_LIMIT.as_secs())]
    Late,
}

/// Outcome of reading one file.
pub(super) type OutsideRead<T> = Result<T, OutsideReadError>;

/// Reads registration files, by agent. Agents whose files do not arrive in time are not in the result.
pub(super) async fn registrations(
    context: &CallContext,
    chain: &ConnectedChain,
    wanted: &[(U256, SafeText)],
) -> BTreeMap<U256, OutsideRead<ReadRegistration>> {
    let files = read_all(context, chain, wanted, |file| {
        let read = ReadRegistration::read(&file.bytes)?;
        Ok((read, file.blocks))
    })
    .await;
    let mut found = BTreeMap::new();
    for (id, read) in files {
        let read = match read {
            Ok((read, blocks)) => {
                chain.agents.keep(&blocks).await;
                Ok(read)
            }
            Err(why) => Err(why),
        };
        found.insert(id, read);
    }
    found
}

/// Registration file of one agent, with the origin of its bytes. One in IPFS is kept, so that it counts from then on.
///
/// # Errors
/// [`OutsideReadError`] if it cannot be read in time, or is not a registration file.
pub(super) async fn registration(
    files: &AgentFiles,
    chain: &ConnectedChain,
    address: &SafeText,
) -> OutsideRead<(ReadRegistration, SafeText)> {
    if address.altered() {
        return Err(OutsideReadError::Address);
    }
    let reading = tokio::time::timeout(PROFILE_LIMIT, files.read(address.as_str()));
    let file = reading.await.map_err(|_| OutsideReadError::Late)??;
    let read = ReadRegistration::read(&file.bytes)?;
    chain.agents.keep(&file.blocks).await;
    Ok((read, file.source))
}

/// Reads files in IPFS that agents name and that were not read before, so that a search finds these agents: the last
/// active first, a page of them at most. Returns true if one was read.
pub(super) async fn unread_contents(context: &CallContext, chain: &ConnectedChain, view: &AgentView) -> bool {
    if context.world.agent_files(chain.network()).is_none() {
        return false;
    }
    let mut unread: Vec<_> = view
        .directory
        .agents()
        .filter_map(|(id, agent)| Some((id, agent.unread_content()?, agent.last_event)))
        .collect();
    unread.sort_by_key(|(id, _, last_event)| (std::cmp::Reverse(*last_event), *id));
    let paths = unread.into_iter().map(|(id, path, _)| (id, path)).collect();
    let mut wanted = Vec::new();
    for id in chain.agents.not_missed(paths).into_iter().take(MOST) {
        wanted.extend(view.directory.agent(id).map(|agent| (id, agent.uri.clone())));
    }
    let read = registrations(context, chain, &wanted).await;
    for (id, _) in &wanted {
        let path = view.directory.agent(*id).and_then(|agent| agent.unread_content());
        if let (Some(path), None | Some(Err(_))) = (path, read.get(id)) {
            chain.agents.miss(path);
        }
    }
    read.values().any(Result::is_ok)
}

/// Reviews of feedback whose files are outside the chain, by their places in `wanted`.
pub(super) async fn reviews(
    context: &CallContext,
    chain: &ConnectedChain,
    wanted: &[(U256, SafeText, B256)],
) -> BTreeMap<U256, SafeText> {
    let addresses: Vec<(U256, SafeText)> = wanted.iter().map(|(at, address, _)| (*at, address.clone())).collect();
    let files = read_all(context, chain, &addresses, |file| Ok((file.bytes, !file.blocks.is_empty()))).await;
    let words = wanted.iter().filter_map(|(at, _, hash)| match files.get(at) {
        Some(Ok((bytes, is_content))) => Some((*at, Review::proven_words(bytes, *hash, *is_content)?)),
        Some(Err(_)) | None => None,
    });
    words.collect()
}

/// Reads A2A agent cards, by agent. Agents whose cards do not arrive in time are not in the result.
pub(super) async fn cards(
    context: &CallContext,
    chain: &ConnectedChain,
    wanted: &[(U256, SafeText)],
) -> BTreeMap<U256, OutsideRead<AgentCard>> {
    let parsed = |file: OutsideFile| match file.bytes.len() {
        length if length > MAX_CARD => Err(OutsideReadError::CardTooLong(length)),
        _ => Ok(AgentCard::read(&file.bytes)?),
    };
    read_all(context, chain, wanted, parsed).await
}

async fn read_all<T>(
    context: &CallContext,
    chain: &ConnectedChain,
    wanted: &[(U256, SafeText)],
    parsed: impl Fn(OutsideFile) -> OutsideRead<T>,
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
                found.insert(id, read.and_then(&parsed));
            }
        }
    }
}
