//! Selection of a live network to rehearse on, as given with `--fork`.

use std::fmt;
use std::str::FromStr;

use super::{RpcUrl, RpcUrlError};
use crate::text::SafeText;

/// A live network at a block: `NAME[=URL][@BLOCK]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkSettings {
    /// Name of the network, not yet looked up.
    pub network: String,
    /// Endpoint; `None` for the configured ones.
    pub url: Option<RpcUrl>,
    /// Number or hash of the block, `latest` or `finalized`; `None` if not given.
    pub block: Option<String>,
    /// Address or key whose holdings the stand-in account gets; `None` for the configured key.
    pub holder: Option<String>,
    /// True to let the devnet's traders and fillers act there.
    pub residents: bool,
}

/// Error for a text that selects no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// The text has another form.
    #[error("`{0}` does not name a network: write NAME, NAME@BLOCK or NAME=URL@BLOCK, such as ethereum@21000000")]
    Form(SafeText),
    /// The URL cannot be used.
    #[error("{0}")]
    Url(#[from] RpcUrlError),
}

impl FromStr for ForkSettings {
    type Err = ForkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A URL can contain `@` before its host, so only a block may follow the last one.
        let (rest, block) = match text.rsplit_once('@') {
            Some((rest, block)) if is_block(block) => (rest, Some(block.to_owned())),
            Some(_) | None => (text, None),
        };
        let (network, url) = match rest.split_once('=') {
            Some((network, url)) => (network, Some(RpcUrl::parse(url)?)),
            None => (rest, None),
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if network.is_empty() || !network.bytes().all(plain) {
            return Err(ForkError::Form(SafeText::clean(text, 80)));
        }
        Ok(Self { network: network.to_lowercase(), url, block, holder: None, residents: false })
    }
}

impl fmt::Display for ForkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.network)?;
        match &self.block {
            Some(block) => write!(f, "@{block}"),
            None => Ok(()),
        }
    }
}

fn is_block(text: &str) -> bool {
    let is_hash = text.len() == 66 && text.starts_with("0x") && text.bytes().skip(2).all(|b| b.is_ascii_hexdigit());
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_hash || is_number || matches!(text, "latest" | "finalized")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_endpoint_and_block_are_separated() {
        let read = |text: &str| {
            let fork: ForkSettings = text.parse().unwrap();
            (fork.network, fork.url.map(|url| url.expose().to_string()), fork.block)
        };
        let url = |text: &str| Some(text.to_owned());
        let hash = format!("0x{}", "ab".repeat(32));
        assert_eq!(read("Ethereum"), ("ethereum".into(), None, None));
        assert_eq!(read("base@21000000"), ("base".into(), None, Some("21000000".into())));
        assert_eq!(read(&format!("base@{hash}")), ("base".into(), None, Some(hash)));
        assert_eq!(read("sepolia@finalized"), ("sepolia".into(), None, Some("finalized".into())));
        let local = "http://127.0.0.1:8545";
        assert_eq!(read(&format!("base={local}")), ("base".into(), url("http://127.0.0.1:8545/"), None));
        assert_eq!(read(&format!("base={local}@7")), ("base".into(), url("http://127.0.0.1:8545/"), Some("7".into())));
        assert_eq!(
            read("base=https://me:secret@rpc.example/a=b@latest"),
            ("base".into(), url("https://me:secret@rpc.example/a=b"), Some("latest".into()))
        );
        for wrong in ["", "@5", "=http://127.0.0.1:1", "base@soon", "base=ftp", "a b", "../x"] {
            assert!(wrong.parse::<ForkSettings>().is_err(), "{wrong}");
        }
    }
}
