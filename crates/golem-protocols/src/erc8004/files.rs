//! Reads agents' files outside the chain. Content in IPFS is asked of several gateways at once; the first bytes that have
//! the content's hash count. A file of an https server is what that server says at the moment.

use super::file::MAX_BYTES;
use super::location::{FileLocation, FileStep, IpfsPath, LocationError};
use bardo_base::config::RpcUrl;
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use golem_chain::outside_file::FileClient;

/// Form of a gateway's answer: one block, which its identifier proves
/// (<https://specs.ipfs.tech/http-gateways/trustless-gateway/>).
const BLOCK: &str = "application/vnd.ipld.raw";
/// Largest block, in bytes: a file, and its node around it.
const MAX_BLOCK: usize = MAX_BYTES + 1_024;

/// Reason why a file was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileFetchError {
    /// The address names no readable file, or the content is not what it names.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// Files outside the chain are not read, by configuration or on this network.
    #[error("{0}")]
    Off(&'static str),
    /// No gateway returned the content.
    #[error("no gateway has returned it: {}", reasons.join("; "))]
    NoGateway {
        /// Reason of each gateway.
        reasons: Vec<String>,
    },
    /// The server did not return the file.
    #[error("its server has not returned it: {0}")]
    Server(ServiceError),
}

/// Gateways and servers from which agents' files are read.
#[derive(Debug, Clone)]
pub struct AgentFiles {
    gateways: Vec<(RpcUrl, FileClient)>,
    by_server: Option<FileClient>,
}

/// File outside the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideFile {
    /// Bytes of the file.
    pub bytes: Vec<u8>,
    /// Origin of the bytes: the content's identifier, or the server's host.
    pub source: SafeText,
}

impl AgentFiles {
    /// Creates a reader that asks these gateways for content in IPFS, and https servers if `https` is true.
    ///
    /// # Errors
    /// [`ServiceError::Unreachable`] if the system provides no TLS.
    pub fn new(gateways: Vec<RpcUrl>, https: bool) -> Result<Self, ServiceError> {
        let by_server = https.then(FileClient::of_outsiders).transpose()?;
        let with_client = |gateway: RpcUrl| Ok((gateway.clone(), FileClient::of_operator(gateway.is_loopback())?));
        Ok(Self { gateways: gateways.into_iter().map(with_client).collect::<Result<_, ServiceError>>()?, by_server })
    }

    /// Reads the file at `address`.
    ///
    /// # Errors
    /// [`FileFetchError`] if it cannot be read, or is not what its address names.
    pub async fn read(&self, address: &str) -> Result<OutsideFile, FileFetchError> {
        match FileLocation::parse(address)? {
            FileLocation::Ipfs(path) => {
                let source = SafeText::clean(&format!("ipfs://{}", path.cid), 200);
                Ok(OutsideFile { bytes: self.content(path).await?, source })
            }
            FileLocation::Https(url) => {
                let client =
                    self.by_server.as_ref().ok_or(FileFetchError::Off("files of https servers are not read"))?;
                let source = SafeText::clean(&format!("https://{}", url.host_str().unwrap_or_default()), 200);
                let bytes = client.get(url, "application/json", MAX_BYTES).await.map_err(FileFetchError::Server)?;
                Ok(OutsideFile { bytes, source })
            }
        }
    }

    async fn content(&self, mut path: IpfsPath) -> Result<Vec<u8>, FileFetchError> {
        loop {
            // Each step shortens the path, which is bounded.
            path = match self.block(&path).await? {
                FileStep::Content(bytes) => return Ok(bytes),
                FileStep::Below(below) => below,
            };
        }
    }

    /// Asks all gateways for one block; the first answer that is that block counts.
    async fn block(&self, path: &IpfsPath) -> Result<FileStep, FileFetchError> {
        let asked = self.gateways.iter().map(|(gateway, client)| ask(gateway, client, path));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let mut reasons = Vec::new();
        while let Some((gateway, answer)) = asked.next().await {
            let said = match answer.map(|bytes| path.step(&bytes)) {
                Ok(Ok(step)) => return Ok(step),
                Ok(Err(error @ LocationError::Hash)) => error.to_string(),
                // The bytes are those that the identifier names, so that no other gateway can have better ones.
                Ok(Err(error)) => return Err(error.into()),
                Err(error) => error.to_string(),
            };
            reasons.push(format!("{gateway}: {said}"));
        }
        if reasons.is_empty() {
            return Err(FileFetchError::Off("no gateway to IPFS is configured"));
        }
        Err(FileFetchError::NoGateway { reasons })
    }
}

/// Asks one gateway for the block of `path`. A block is the whole answer, so that its hash can be compared.
async fn ask<'a>(
    gateway: &'a RpcUrl,
    client: &FileClient,
    path: &IpfsPath,
) -> (&'a RpcUrl, Result<Vec<u8>, ServiceError>) {
    let mut url = gateway.expose().clone();
    url.set_path(&format!("{}/ipfs/{}", url.path().trim_end_matches('/'), path.cid));
    url.set_query(Some("format=raw"));
    (gateway, client.get(url, BLOCK, MAX_BLOCK).await)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// "hello world\n" as one raw block.
    const HELLO: &str = "bafkreifjjcie6lypi6ny7amxnfftagclbuxndqonfipmb64f2km2devei4";

    /// A gateway that answers after a time, or never.
    async fn gateway(answer: Option<Vec<u8>>, after: Duration) -> RpcUrl {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = RpcUrl::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = [0; 2_048];
                let read = socket.read(&mut request).await.unwrap();
                let asked = String::from_utf8_lossy(&request[..read]).into_owned();
                assert!(asked.starts_with(&format!("GET /ipfs/{HELLO}?format=raw ")), "{asked}");
                tokio::time::sleep(after).await;
                let Some(body) = &answer else { continue };
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                // The client may have another answer by now.
                let _gone = socket.write_all(&[head.as_bytes(), body].concat()).await;
            }
        });
        url
    }

    #[tokio::test]
    async fn the_first_gateway_with_the_right_bytes_counts() {
        let none = Duration::ZERO;
        let lies = gateway(Some(b"hello world!".to_vec()), none).await;
        let closes = gateway(None, none).await;
        let floods = gateway(Some(vec![0; MAX_BLOCK + 1]), none).await;
        let silent = gateway(Some(b"hello world\n".to_vec()), Duration::from_secs(3_600)).await;
        let right = gateway(Some(b"hello world\n".to_vec()), Duration::from_millis(20)).await;
        let bad = vec![lies, closes, floods];
        let files = AgentFiles::new([bad.clone(), vec![silent, right]].concat(), true).unwrap();
        let address = format!("ipfs://{HELLO}");
        let found = files.read(&address).await.unwrap();
        assert_eq!((found.bytes, found.source.to_string()), (b"hello world\n".to_vec(), address.clone()));
        // A file below content that is not a folder, whatever a gateway says.
        let below = files.read(&format!("{address}/agent.json")).await;
        assert_eq!(below, Err(FileFetchError::Location(LocationError::NotInFolder)));
        let error = AgentFiles::new(bad, true).unwrap().read(&address).await.unwrap_err();
        let FileFetchError::NoGateway { reasons } = &error else { panic!("{error}") };
        assert_eq!(reasons.len(), 3, "{error}");
        assert!(error.to_string().contains("does not have the hash"), "{error}");
    }

    #[tokio::test]
    async fn nothing_is_asked_where_files_are_off() {
        let files = AgentFiles::new(vec![], false).unwrap();
        assert!(matches!(files.read("https://a.example/agent.json").await, Err(FileFetchError::Off(_))));
        assert!(matches!(files.read(&format!("ipfs://{HELLO}")).await, Err(FileFetchError::Off(_))));
        let inside = AgentFiles::new(vec![], true).unwrap().read("https://127.0.0.1/agent.json").await;
        assert!(matches!(inside, Err(FileFetchError::Server(_))), "{inside:?}");
    }
}
