//! Endpoint URLs. They often carry a credential and are therefore never shown in full.

use std::fmt;

use url::Url;

/// A JSON-RPC endpoint. Its `Display` and `Debug` show scheme, host and port only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RpcUrl(Url);

/// Errors of parsing an endpoint URL. The text itself is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RpcUrlError {
    /// The text is not a URL.
    #[error("not a URL: write one such as http://127.0.0.1:8545")]
    NotAUrl,
    /// The scheme is not supported.
    #[error("unknown scheme: an endpoint starts with http://, https://, ws:// or wss://")]
    Scheme,
    /// The URL has no host.
    #[error("the URL names no host: write one such as http://127.0.0.1:8545")]
    NoHost,
}

impl RpcUrl {
    /// Parses an `http`, `https`, `ws` or `wss` URL.
    ///
    /// # Errors
    /// An [`RpcUrlError`] with an example of a valid URL.
    pub fn parse(text: &str) -> Result<Self, RpcUrlError> {
        let url = Url::parse(text.trim()).map_err(|_| RpcUrlError::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            return Err(RpcUrlError::Scheme);
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(RpcUrlError::NoHost);
        }
        Ok(Self(url))
    }

    /// The full URL including its credential: for connecting, not for display.
    pub fn expose(&self) -> &Url {
        &self.0
    }

    /// True if the URL points to this machine.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            // Some systems resolve names below `localhost` elsewhere.
            Some(url::Host::Domain(name)) => name == "localhost",
            None => false,
        }
    }
}

impl RpcUrl {
    /// True if anyone on the network path can read and alter the traffic: neither encrypted nor on this machine.
    pub fn is_insecure(&self) -> bool {
        matches!(self.0.scheme(), "http" | "ws") && !self.is_loopback()
    }
}

impl fmt::Display for RpcUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.0.scheme())?;
        if !self.0.username().is_empty() || self.0.password().is_some() {
            f.write_str("…@")?;
        }
        f.write_str(self.0.host_str().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        // Providers put their keys into the path as often as into the query.
        if !matches!(self.0.path(), "" | "/") || self.0.query().is_some() || self.0.fragment().is_some() {
            f.write_str("/…")?;
        }
        Ok(())
    }
}

impl fmt::Debug for RpcUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RpcUrl({self})")
    }
}
