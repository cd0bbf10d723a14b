//! Location of an agent's file outside the chain: content in IPFS, which its identifier proves, or an https address.
//!
//! Formats: [CID](https://github.com/multiformats/cid), [DAG-PB](https://ipld.io/specs/codecs/dag-pb/spec/),
//! [UnixFS](https://specs.ipfs.tech/unixfs/). Not here: fetching; see [`super::files`].

use std::fmt;

use data_encoding::BASE32_NOPAD;
use sha2::{Digest as _, Sha256};
use url::Url;

use bardo_base::text::SafeText;

/// Largest address that is parsed, in bytes.
const MAX_ADDRESS: usize = 2_048;
/// Maximum number of folders on the way to a file.
const MAX_DEPTH: usize = 8;
/// Multicodec of SHA-256.
const SHA2_256: u64 = 0x12;
/// Multicodec of uninterpreted bytes.
const RAW: u64 = 0x55;
/// Multicodec of a node of a graph, as files and folders are stored.
const DAG_PB: u64 = 0x70;

/// Reason why a file cannot be located, or why a block is not what its identifier names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The address has another scheme.
    #[error("files are read from data:, ipfs:// and https:// addresses, not from {0}")]
    Scheme(SafeText),
    /// The address is malformed.
    #[error("the address is not valid: {0}")]
    Address(&'static str),
    /// The identifier of the content is malformed, or of a kind that is not read.
    #[error("the content identifier is not valid: {0}")]
    Identifier(&'static str),
    /// A block has another hash than its identifier names.
    #[error("the content does not have the hash that its identifier names")]
    Hash,
    /// A block is not a readable node.
    #[error("the content is not a file of IPFS: {0}")]
    Node(&'static str),
    /// The path names nothing in the folder.
    #[error("the folder has no file of that name")]
    NotInFolder,
    /// The file is split into several blocks.
    #[error("the file is larger than one block; registration files have at most 256 KiB")]
    SeveralBlocks,
}

/// Location of a file outside the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileLocation {
    /// Content in IPFS.
    Ipfs(IpfsPath),
    /// Address of a server, which may return anything at any time.
    Https(Url),
}

/// Content in IPFS: an identifier, and the path below it if that is a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpfsPath {
    /// Identifier of the first block.
    pub cid: Cid,
    /// Names of folders and file below it.
    pub path: Vec<String>,
}

/// Identifier of a block: the SHA-256 of its bytes, and how to interpret them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cid {
    digest: [u8; 32],
    is_node: bool,
}

impl FileLocation {
    /// Parses the address of a file. The address of a public gateway, such as `https://ipfs.io/ipfs/Qm…`, is read as
    /// the content that it names, so that the gateway need not be trusted.
    ///
    /// # Errors
    /// [`LocationError`] for another scheme, for a malformed address, and for content that SHA-256 does not identify.
    pub fn parse(address: &str) -> Result<Self, LocationError> {
        if address.len() > MAX_ADDRESS {
            return Err(LocationError::Address("it is longer than 2,048 characters"));
        }
        if let Some(path) = address.strip_prefix("ipfs://") {
            return IpfsPath::parse(path.strip_prefix("ipfs/").unwrap_or(path)).map(Self::Ipfs);
        }
        if address.starts_with("data:") {
            return Err(LocationError::Address("a data: address must have the media type application/json"));
        }
        let url = Url::parse(address).map_err(|_| LocationError::Address("it is not a URL"))?;
        if url.scheme() != "https" {
            return Err(LocationError::Scheme(SafeText::clean(url.scheme(), 40)));
        }
        if url.host().is_none() || !url.username().is_empty() || url.password().is_some() {
            return Err(LocationError::Address("it must name a host, and no user"));
        }
        let content = url.path().strip_prefix("/ipfs/").and_then(|path| IpfsPath::parse(path).ok());
        Ok(content.map_or(Self::Https(url), Self::Ipfs))
    }
}

impl IpfsPath {
    fn parse(text: &str) -> Result<Self, LocationError> {
        let mut parts = text.split(['?', '#']).next().unwrap_or_default().split('/').filter(|part| !part.is_empty());
        let cid = Cid::parse(parts.next().unwrap_or_default())?;
        let path: Vec<String> = parts.map(str::to_owned).collect();
        if path.len() > MAX_DEPTH {
            return Err(LocationError::Address("it leads through more than eight folders"));
        }
        Ok(Self { cid, path })
    }

    /// Reads one block on the way to the file. `bytes` must be the block of [`Self::cid`].
    ///
    /// # Errors
    /// [`LocationError`] if the bytes are not that block, or do not lead to a file of one block.
    pub fn step(&self, bytes: &[u8]) -> Result<FileStep, LocationError> {
        self.cid.verify(bytes)?;
        let name = self.path.split_first();
        if !self.cid.is_node {
            return if name.is_none() {
                Ok(FileStep::Content(bytes.to_vec()))
            } else {
                Err(LocationError::NotInFolder)
            };
        }
        let node = Node::parse(bytes)?;
        match (node.kind, name) {
            (NodeKind::Folder, Some((name, rest))) => {
                let link = node.links.iter().find(|link| link.name == name.as_bytes());
                let cid = link.ok_or(LocationError::NotInFolder)?.cid;
                Ok(FileStep::Below(Self { cid, path: rest.to_vec() }))
            }
            (NodeKind::Folder, None) => Err(LocationError::Node("it is a folder")),
            (NodeKind::File, Some(_)) => Err(LocationError::NotInFolder),
            (NodeKind::File, None) if node.links.is_empty() => Ok(FileStep::Content(node.content)),
            (NodeKind::File, None) => Err(LocationError::SeveralBlocks),
        }
    }
}

/// Result of reading one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileStep {
    /// The whole file.
    Content(Vec<u8>),
    /// The block was a folder: the way on.
    Below(IpfsPath),
}

impl Cid {
    /// Identifier of these bytes as one raw block.
    pub fn of_raw(bytes: &[u8]) -> Self {
        Self { digest: Sha256::digest(bytes).into(), is_node: false }
    }

    /// Parses version 0 (base 58) and version 1 (base 32 or base 58).
    ///
    /// # Errors
    /// [`LocationError::Identifier`] for any other text.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        let base58 = |text: &str| {
            // Decoding takes quadratic time.
            let short = Some(text).filter(|text| text.len() <= 128);
            short.and_then(|text| bs58::decode(text).into_vec().ok()).ok_or(LocationError::Identifier("not base 58"))
        };
        if text.len() == 46 && text.starts_with("Qm") {
            return Self::of_multihash(&base58(text)?, true);
        }
        let bytes = match text.split_at_checked(1) {
            Some(("b", rest)) => BASE32_NOPAD
                .decode(rest.to_ascii_uppercase().as_bytes())
                .map_err(|_| LocationError::Identifier("not base 32"))?,
            Some(("z", rest)) => base58(rest)?,
            Some(_) | None => return Err(LocationError::Identifier("expected Qm…, b… or z…")),
        };
        Self::of_bytes(&bytes)
    }

    /// Parses the binary form, as links contain it.
    fn of_bytes(bytes: &[u8]) -> Result<Self, LocationError> {
        if bytes.len() == 34 && bytes.starts_with(&[0x12, 0x20]) {
            return Self::of_multihash(bytes, true);
        }
        let mut reader = Reader(bytes);
        let invalid = LocationError::Identifier("not a version 1");
        if reader.varint().ok_or(invalid.clone())? != 1 {
            return Err(invalid);
        }
        match reader.varint().ok_or(invalid)? {
            RAW => Self::of_multihash(reader.0, false),
            DAG_PB => Self::of_multihash(reader.0, true),
            _ => Err(LocationError::Identifier("neither bytes nor a file")),
        }
    }

    fn of_multihash(bytes: &[u8], is_node: bool) -> Result<Self, LocationError> {
        let mut reader = Reader(bytes);
        let hash = reader.varint().zip(reader.varint());
        let digest = <[u8; 32]>::try_from(reader.0).ok().filter(|_| hash == Some((SHA2_256, 32)));
        Ok(Self { digest: digest.ok_or(LocationError::Identifier("its hash is not SHA-256"))?, is_node })
    }

    /// Checks that these bytes are the block that it names.
    ///
    /// # Errors
    /// [`LocationError::Hash`] if not.
    pub fn verify(self, bytes: &[u8]) -> Result<(), LocationError> {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        if digest == self.digest { Ok(()) } else { Err(LocationError::Hash) }
    }
}

impl fmt::Display for Cid {
    /// Version 1 in base 32, whatever was parsed: gateways read it in every form of their addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codec = if self.is_node { DAG_PB } else { RAW };
        // All of these numbers are below 128, and so their own varint.
        let head = [1, codec as u8, SHA2_256 as u8, 32];
        let bytes: Vec<u8> = head.iter().chain(&self.digest).copied().collect();
        write!(f, "b{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    File,
    Folder,
}

/// A block that is a file or a folder.
struct Node {
    kind: NodeKind,
    links: Vec<Link>,
    content: Vec<u8>,
}

struct Link {
    name: Vec<u8>,
    cid: Cid,
}

impl Node {
    fn parse(bytes: &[u8]) -> Result<Self, LocationError> {
        let broken = || LocationError::Node("its encoding is broken");
        let (mut links, mut data) = (Vec::new(), None);
        let mut reader = Reader(bytes);
        while let Some(field) = reader.field() {
            match field.ok_or_else(broken)? {
                (1, Field::Bytes(bytes)) => data = Some(bytes),
                (2, Field::Bytes(bytes)) => links.push(Link::parse(bytes)?),
                (_, Field::Bytes(_) | Field::Number(_)) => return Err(broken()),
            }
        }
        let mut reader = Reader(data.ok_or_else(broken)?);
        let (mut kind, mut content) = (None, Vec::new());
        while let Some(field) = reader.field() {
            match field.ok_or_else(broken)? {
                (1, Field::Number(number)) => kind = Some(number),
                (2, Field::Bytes(bytes)) => content = bytes.to_vec(),
                // Sizes, mode and time.
                (_, Field::Bytes(_) | Field::Number(_)) => {}
            }
        }
        let kind = match kind {
            Some(0 | 2) => NodeKind::File,
            Some(1) => NodeKind::Folder,
            Some(_) => return Err(LocationError::Node("neither a file nor a plain folder")),
            None => return Err(broken()),
        };
        Ok(Self { kind, links, content })
    }
}

impl Link {
    fn parse(bytes: &[u8]) -> Result<Self, LocationError> {
        let broken = || LocationError::Node("a link's encoding is broken");
        let (mut name, mut cid) = (Vec::new(), None);
        let mut reader = Reader(bytes);
        while let Some(field) = reader.field() {
            match field.ok_or_else(broken)? {
                (1, Field::Bytes(bytes)) => cid = Some(Cid::of_bytes(bytes)?),
                (2, Field::Bytes(bytes)) => name = bytes.to_vec(),
                (_, Field::Bytes(_) | Field::Number(_)) => {}
            }
        }
        Ok(Self { name, cid: cid.ok_or_else(broken)? })
    }
}

/// Reader of [Protocol Buffers](https://protobuf.dev/programming-guides/encoding/): the two kinds of fields that nodes
/// have.
struct Reader<'a>(&'a [u8]);

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Reader<'a> {
    /// Reads a number of at most nine bytes, of seven bits each.
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..9 {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads the next field; `None` at the end, `Some(None)` if it is broken.
    fn field(&mut self) -> Option<Option<(u64, Field<'a>)>> {
        (!self.0.is_empty()).then(|| self.next())
    }

    fn next(&mut self) -> Option<(u64, Field<'a>)> {
        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Number(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Field::Bytes(bytes)
            }
            _ => return None,
        };
        Some((tag >> 3, field))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ipfs(address: &str) -> IpfsPath {
        match FileLocation::parse(address).unwrap() {
            FileLocation::Ipfs(path) => path,
            FileLocation::Https(url) => panic!("{url}"),
        }
    }

    /// The empty folder and "hello world\n" as `ipfs add` stores it: published identifiers and their blocks.
    #[test]
    fn published_identifiers_name_their_blocks() {
        let folder = [0x0a, 0x02, 0x08, 0x01];
        let empty = ipfs("ipfs://QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn");
        assert_eq!(empty.cid.to_string(), "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354");
        assert_eq!(empty.step(&folder), Err(LocationError::Node("it is a folder")));
        let below = IpfsPath { path: vec!["agent.json".to_owned()], ..empty };
        assert_eq!(below.step(&folder), Err(LocationError::NotInFolder));
        // PBNode { Data: UnixFS { Type: File, Data: "hello world\n", filesize: 12 } }
        let hello = [&[0x0a, 0x12, 0x08, 0x02, 0x12, 0x0c][..], b"hello world\n", &[0x18, 0x0c]].concat();
        let file = ipfs("https://gateway.example/ipfs/QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o");
        assert_eq!(file.step(&hello), Ok(FileStep::Content(b"hello world\n".to_vec())));
        let mut altered = hello.clone();
        altered[8] ^= 1;
        assert_eq!(file.step(&altered), Err(LocationError::Hash));
        // The same bytes as one raw block.
        let raw = ipfs("ipfs://bafkreifjjcie6lypi6ny7amxnfftagclbuxndqonfipmb64f2km2devei4");
        assert_eq!(raw.step(b"hello world\n"), Ok(FileStep::Content(b"hello world\n".to_vec())));
        assert_eq!(raw.step(b"hello world"), Err(LocationError::Hash));
        assert_eq!(raw.cid, Cid::parse(&raw.cid.to_string()).unwrap());
        assert_eq!(raw.cid, Cid::of_raw(b"hello world\n"));
    }

    #[test]
    fn a_folder_leads_to_its_file() {
        let content = b"{}";
        let file = Cid { digest: Sha256::digest(content).into(), is_node: false };
        let link_cid = [&[1, 0x55, 0x12, 0x20][..], &file.digest].concat();
        let link = [&[0x0a, 36][..], &link_cid, &[0x12, 1, b'a', 0x18, 2]].concat();
        let folder = [&[0x12, u8::try_from(link.len()).unwrap()][..], &link, &[0x0a, 2, 0x08, 1]].concat();
        let cid = Cid { digest: Sha256::digest(&folder).into(), is_node: true };
        let path = IpfsPath { cid, path: vec!["a".to_owned()] };
        let Ok(FileStep::Below(below)) = path.step(&folder) else { panic!("{:?}", path.step(&folder)) };
        assert_eq!(below, IpfsPath { cid: file, path: vec![] });
        assert_eq!(below.step(content), Ok(FileStep::Content(content.to_vec())));
        let other = IpfsPath { path: vec!["b".to_owned()], ..path };
        assert_eq!(other.step(&folder), Err(LocationError::NotInFolder));
    }

    #[test]
    fn only_addresses_that_can_be_read_safely_are_taken() {
        for address in [
            "http://a.example/agent.json",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/plain,%7B%7D",
            "https://user:word@a.example/",
            "https://",
            "ipfs://",
            "ipfs://Qm",
            "ipfs://bafk",
            // SHA2-512.
            "ipfs://bafkrgqg4pvsoqxdszvxgbmlpqaxjqxxxxx",
            "ipfs://QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn/a/b/c/d/e/f/g/h/i",
        ] {
            assert!(FileLocation::parse(address).is_err(), "{address}");
        }
        let url = FileLocation::parse("https://a.example/agent.json?x=1").unwrap();
        assert_eq!(url, FileLocation::Https("https://a.example/agent.json?x=1".parse().unwrap()));
        assert!(FileLocation::parse(&format!("https://a.example/{}", "x".repeat(3_000))).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_or_text_make_it_panic(bytes: Vec<u8>, text: String) {
            let _parsed = Node::parse(&bytes);
            let _parsed = Cid::of_bytes(&bytes);
            let _parsed = FileLocation::parse(&text);
            let _parsed = FileLocation::parse(&format!("ipfs://b{text}"));
            let _parsed = FileLocation::parse(&format!("ipfs://z{text}"));
        }
    }
}
