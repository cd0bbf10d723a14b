//! Reads and stores agents' files outside the chain. Content in IPFS is asked of several gateways at once; the first bytes that have
//! the content's hash count. A file of an https server is what that server says at the moment.

use super::file::MAX_BYTES;
use super::location::{Cid, FileLocation, FileStep, IpfsPath, LocationError};
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
    /// Blocks in IPFS that prove the bytes, from the first one to the file's; empty for the file of a server, which may
    /// be another one at the next reading.
    pub blocks: Vec<(Cid, Vec<u8>)>,
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
                let (bytes, blocks) = self.content(path).await?;
                Ok(OutsideFile { bytes, source, blocks })
            }
            FileLocation::Https(url) => {
                let client =
                    self.by_server.as_ref().ok_or(FileFetchError::Off("files of https servers are not read"))?;
                let source = SafeText::clean(&format!("https://{}", url.host_str().unwrap_or_default()), 200);
                let bytes = client.get(url, "application/json", MAX_BYTES).await.map_err(FileFetchError::Server)?;
                Ok(OutsideFile { bytes, source, blocks: Vec::new() })
            }
        }
    }

    /// Content of a file, and the blocks on the way to it.
    async fn content(&self, mut path: IpfsPath) -> Result<(Vec<u8>, Vec<(Cid, Vec<u8>)>), FileFetchError> {
        let mut blocks = Vec::new();
        loop {
            let (block, step) = self.block(&path).await?;
            blocks.push((path.cid, block));
            // Each step shortens the path, which is bounded.
            path = match step {
                FileStep::Content(bytes) => return Ok((bytes, blocks)),
                FileStep::Below(below) => below,
            };
        }
    }

    /// Asks all gateways for one block; the first answer that is that block counts.
    async fn block(&self, path: &IpfsPath) -> Result<(Vec<u8>, FileStep), FileFetchError> {
        let asked = self.gateways.iter().map(|(gateway, client)| ask(gateway, client, path));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let mut reasons = Vec::new();
        while let Some((gateway, answer)) = asked.next().await {
            let said = match answer {
                Ok(bytes) => match path.step(&bytes) {
                    Ok(step) => return Ok((bytes, step)),
                    Err(error @ LocationError::Hash) => error.to_string(),
                    // The bytes are those that the identifier names, so that no other gateway can have better ones.
                    Err(error) => return Err(error.into()),
                },
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

/// Largest answer of an IPFS node to an upload, in bytes.
const MAX_ANSWER: usize = 4_096;
/// Delimiter of an upload's only part: 128 random bits, fixed. Files that contain it are not uploaded.
const BOUNDARY: &str = "bardo-7d1f0c5be0934f2aa94d6d1c0b6a2e93";

/// Reason why a file was not stored in IPFS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UploadError {
    /// The file does not fit into one block.
    #[error("{0} bytes are too long for a file in IPFS: at most {MAX_BYTES} are stored")]
    TooLong(usize),
    /// The node did not take the file, or did not say so.
    #[error("the IPFS node has not stored it: {0}")]
    Node(#[from] ServiceError),
    /// The node names other content than it was given.
    #[error("the IPFS node has stored something else: it answers {0}")]
    Differs(SafeText),
}

/// RPC API of an IPFS node that the operator chose (<https://docs.ipfs.tech/reference/kubo/rpc/>).
#[derive(Debug, Clone)]
pub struct IpfsNode {
    api: RpcUrl,
    client: FileClient,
}

impl IpfsNode {
    /// Creates a client of the node whose API is at `api`, such as `http://127.0.0.1:5001`.
    ///
    /// # Errors
    /// [`ServiceError::Unreachable`] if the system provides no TLS.
    pub fn new(api: RpcUrl) -> Result<Self, ServiceError> {
        let client = FileClient::of_operator(api.is_loopback())?;
        Ok(Self { api, client })
    }

    /// Checks that the node answers. Nothing is stored.
    ///
    /// # Errors
    /// The node's [`ServiceError`].
    pub async fn answers(&self) -> Result<(), ServiceError> {
        let mut url = self.api.expose().clone();
        url.set_path(&format!("{}/api/v0/version", url.path().trim_end_matches('/')));
        self.client.post(url, "application/json", Vec::new(), MAX_ANSWER).await.map(drop)
    }

    /// Stores and pins the bytes as one raw block, and compares the identifier that the node answers with the one that is
    /// computed here. A node that answers rightly can still lose the file.
    ///
    /// # Errors
    /// [`UploadError`] if the node has not confirmed exactly this content.
    pub async fn store(&self, bytes: &[u8]) -> Result<Cid, UploadError> {
        let contains_boundary = bytes.windows(BOUNDARY.len()).any(|part| part == BOUNDARY.as_bytes());
        if bytes.len() > MAX_BYTES || contains_boundary {
            return Err(UploadError::TooLong(bytes.len()));
        }
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"agent.json\"\r\n\
             Content-Type: application/json\r\n\r\n"
        );
        let body = [head.as_bytes(), bytes, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat();
        let mut url = self.api.expose().clone();
        url.set_path(&format!("{}/api/v0/add", url.path().trim_end_matches('/')));
        url.set_query(Some("cid-version=1&raw-leaves=true&hash=sha2-256&pin=true&quieter=true"));
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let answer = self.client.post(url, &kind, body, MAX_ANSWER).await?;
        let wanted = Cid::of_raw(bytes);
        let value: serde_json::Value = serde_json::from_slice(&answer).unwrap_or_default();
        let named = value.get("Hash").and_then(serde_json::Value::as_str).unwrap_or_default();
        if Cid::parse(named) == Ok(wanted) {
            return Ok(wanted);
        }
        let said = if named.is_empty() { "no identifier" } else { named };
        Err(UploadError::Differs(SafeText::clean(said, 120)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
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

    /// A server that answers every request with this head, and then with zeros until the client leaves or a gigabyte is
    /// sent. Counts the bytes that it could send.
    async fn endless(head: &'static str) -> (RpcUrl, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = RpcUrl::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let counted = Arc::clone(&counted);
                tokio::spawn(async move {
                    let mut request = [0; 2_048];
                    let _read = socket.read(&mut request).await;
                    let mut left = 1_usize << 30;
                    let piece = vec![b'0'; 64 * 1_024];
                    if socket.write_all(head.as_bytes()).await.is_err() {
                        return;
                    }
                    while left > 0 && socket.write_all(&piece).await.is_ok() {
                        left = left.saturating_sub(piece.len());
                        counted.fetch_add(piece.len(), Ordering::SeqCst);
                    }
                });
            }
        });
        (url, sent)
    }

    #[tokio::test]
    async fn a_gigabyte_is_not_downloaded_whether_it_is_announced_or_not() {
        let address = format!("ipfs://{HELLO}");
        for head in [
            "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/vnd.ipld.raw\r\n\r\n",
        ] {
            let (url, sent) = endless(head).await;
            let error = AgentFiles::new(vec![url], false).unwrap().read(&address).await.unwrap_err();
            assert!(error.to_string().contains("a file of more than 257 KiB"), "{error}");
            // What the sockets' buffers take, and no more.
            let sent = sent.load(Ordering::SeqCst);
            assert!(sent < 32 << 20, "{head}: {sent} bytes were sent");
        }
    }

    /// A gateway that never answers, and one that sends a byte a second, cost their time limit and no more.
    #[tokio::test]
    async fn gateways_that_stall_or_trickle_end_at_the_time_limit() {
        let silent = gateway(None, Duration::from_secs(3_600)).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let trickles = RpcUrl::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 2_048];
            let _read = socket.read(&mut request).await;
            let _gone = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n").await;
            for byte in b"hello world\n" {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if socket.write_all(&[*byte]).await.is_err() {
                    return;
                }
            }
        });
        let files = AgentFiles::new(vec![silent, trickles], false).unwrap();
        let begun = std::time::Instant::now();
        let error = files.read(&format!("ipfs://{HELLO}")).await.unwrap_err();
        let FileFetchError::NoGateway { reasons } = &error else { panic!("{error}") };
        assert_eq!(reasons.len(), 2, "{error}");
        // Twelve bytes would have taken twelve seconds.
        assert!(begun.elapsed() < Duration::from_secs(11), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_gateways_redirect_leads_nowhere_else() {
        let right = gateway(Some(b"hello world\n".to_vec()), Duration::ZERO).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let away = RpcUrl::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let target = format!("{}ipfs/{HELLO}?format=raw", right.expose());
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = [0; 2_048];
                let _read = socket.read(&mut request).await;
                let head = format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
                let _gone = socket.write_all(head.as_bytes()).await;
            }
        });
        let address = format!("ipfs://{HELLO}");
        let error = AgentFiles::new(vec![away.clone()], false).unwrap().read(&address).await.unwrap_err();
        assert!(error.to_string().contains("302"), "{error}");
        let found = AgentFiles::new(vec![away, right], false).unwrap().read(&address).await.unwrap();
        assert_eq!(found.bytes, b"hello world\n");
    }

    /// A node that answers an upload with this text; returns its address and the last request.
    async fn node(answer: &'static str) -> (RpcUrl, Arc<parking_lot::Mutex<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = RpcUrl::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                let end = format!("--{BOUNDARY}--\r\n");
                while !request.ends_with(end.as_bytes()) {
                    let mut piece = [0; 4_096];
                    match socket.read(&mut piece).await {
                        Ok(0) | Err(_) => break,
                        Ok(read) => request.extend_from_slice(&piece[..read]),
                    }
                }
                *kept.lock() = request;
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
                let _gone = socket.write_all(head.as_bytes()).await;
            }
        });
        (url, seen)
    }

    #[tokio::test]
    async fn a_file_is_stored_if_the_node_answers_with_its_identifier() {
        let answer = "{\"Name\":\"agent.json\",\"Hash\":\"bafkreifjjcie6lypi6ny7amxnfftagclbuxndqonfipmb64f2km2devei4\",\
                      \"Size\":\"12\"}\n";
        let (url, seen) = node(answer).await;
        let stored = IpfsNode::new(url).unwrap().store(b"hello world\n").await.unwrap();
        assert_eq!(stored.to_string(), HELLO);
        let request = String::from_utf8(seen.lock().clone()).unwrap();
        assert!(request.starts_with("POST /api/v0/add?cid-version=1&raw-leaves=true"), "{request}");
        assert!(request.contains("\r\n\r\nhello world\n\r\n--"), "{request}");
        for lies in ["{\"Hash\":\"QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o\"}", "{}", "nothing", ""] {
            let (url, _) = node(lies).await;
            let error = IpfsNode::new(url).unwrap().store(b"hello world\n").await.unwrap_err();
            assert!(matches!(error, UploadError::Differs(_)), "{lies}: {error}");
        }
        let (url, _) = node(answer).await;
        let long = IpfsNode::new(url).unwrap().store(&vec![0; MAX_BYTES + 1]).await;
        assert_eq!(long, Err(UploadError::TooLong(MAX_BYTES + 1)));
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
