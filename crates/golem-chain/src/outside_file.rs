//! Downloads of small files from servers that outsiders name: bounded in size and time, without redirects, cookies,
//! credentials or proxies, and never from a private, local or reserved address. A public address of this machine itself is not
//! recognised; TLS must then succeed there for the agent's name.
//!
//! An agent's owner chooses the address of its file. Without these bounds, reading a profile would make requests inside
//! the operator's network in the owner's name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use alloy::transports::http::reqwest::{Client, RequestBuilder, dns, header, redirect, retry};
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use url::{Host, Url};

/// Total timeout of a download.
const TIMEOUT: Duration = Duration::from_secs(8);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
const MAX_TEXT: usize = 300;

/// Client for downloads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FileClient {
    client: Client,
    public_only: bool,
}

/// Variables that name the system's proxy for https.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Returns true if `variable` names a proxy for https. A client for outsiders' addresses connects directly, past it,
/// because a proxy would resolve names by itself.
pub fn names_a_proxy(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> bool {
    PROXIES.iter().any(|name| variable(name).is_some_and(|value| !value.is_empty()))
}

impl FileClient {
    /// Creates a client for addresses that outsiders chose: https on public addresses only.
    ///
    /// # Errors
    /// [`ServiceError::Unreachable`] if the system provides no TLS.
    pub fn of_outsiders() -> Result<Self, ServiceError> {
        let builder = builder().no_proxy().redirect(redirect::Policy::none()).https_only(true);
        let client = builder.dns_resolver(Arc::new(PublicResolver)).build();
        Ok(Self { client: client.map_err(|error| unreachable(&error))?, public_only: true })
    }

    /// Creates a client for a server that the operator chose, through the system's proxy unless it is on this machine. It
    /// follows one redirect, to a subdomain of that server: gateways of IPFS give each content an origin of its own.
    ///
    /// # Errors
    /// [`ServiceError::Unreachable`] if the system provides no TLS.
    pub fn of_operator(is_local: bool) -> Result<Self, ServiceError> {
        let to_subdomain = redirect::Policy::custom(|attempt| {
            let first = attempt.previous().first().and_then(|url| url.host_str().map(str::to_owned));
            let below = |host: &str| first.is_some_and(|first| host.ends_with(&format!(".{first}")));
            let allowed = attempt.previous().len() == 1
                && attempt.url().scheme() == "https"
                && attempt.url().host_str().is_some_and(below);
            if allowed { attempt.follow() } else { attempt.stop() }
        });
        let builder = if is_local { builder().no_proxy() } else { builder() };
        let client = builder.redirect(to_subdomain).build();
        Ok(Self { client: client.map_err(|error| unreachable(&error))?, public_only: false })
    }

    /// Downloads at most `most` bytes.
    ///
    /// # Errors
    /// A [`ServiceError`], never [`ServiceError::Unclear`].
    pub async fn get(&self, url: Url, accept: &'static str, most: usize) -> Result<Vec<u8>, ServiceError> {
        if self.public_only {
            let address = match url.host() {
                Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
                Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
                Some(Host::Domain(_)) => None,
                None => return Err(invalid("an address without a host")),
            };
            // Literal addresses are not resolved.
            if address.is_some_and(|address| !is_public(address)) {
                return Err(invalid("an address of a private network"));
            }
        }
        self.answer(self.client.get(url).header(header::ACCEPT, accept), most).await
    }

    /// Sends `body` to a server that the operator chose, and reads an answer of at most `most` bytes.
    ///
    /// # Errors
    /// A [`ServiceError`]. Whether a server that cannot be reached has taken the body is unknown.
    pub async fn post(
        &self,
        url: Url,
        content_type: &str,
        body: Vec<u8>,
        most: usize,
    ) -> Result<Vec<u8>, ServiceError> {
        self.answer(self.client.post(url).header(header::CONTENT_TYPE, content_type).body(body), most).await
    }

    async fn answer(&self, request: RequestBuilder, most: usize) -> Result<Vec<u8>, ServiceError> {
        let mut answer = request.send().await.map_err(|error| unreachable(&error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(ServiceError::Unreachable(text(&format_args!("status {}", status.as_u16()))));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| unreachable(&error))? {
            if body.len() + chunk.len() > most {
                return Err(invalid(&format!("a file of more than {} KiB", most / 1_024)));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn builder() -> alloy::transports::http::reqwest::ClientBuilder {
    Client::builder()
        .timeout(TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .retry(retry::never())
        .referer(false)
        .pool_max_idle_per_host(0)
}

fn unreachable(error: &alloy::transports::http::reqwest::Error) -> ServiceError {
    // The innermost cause says what happened; the outer ones repeat the address.
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    ServiceError::Unreachable(text(&cause))
}

fn invalid(what: &str) -> ServiceError {
    ServiceError::InvalidResponse(text(&what))
}

fn text(what: &dyn std::fmt::Display) -> SafeText {
    SafeText::clean(&what.to_string(), MAX_TEXT)
}

/// Resolver that returns public addresses only. The connection goes to one of them, so that a name cannot point
/// elsewhere between check and use.
#[derive(Debug)]
struct PublicResolver;

impl dns::Resolve for PublicResolver {
    fn resolve(&self, name: dns::Name) -> dns::Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let public: Vec<SocketAddr> = found.into_iter().filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err("the name leads to no public address".into());
            }
            Ok(Box::new(public.into_iter()) as dns::Addrs)
        })
    }
}

/// Returns true for an address of the public internet, by the
/// [IPv4](https://www.iana.org/assignments/iana-ipv4-special-registry) and
/// [IPv6](https://www.iana.org/assignments/iana-ipv6-special-registry) registries of special addresses.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match (a, b, c) {
        // This network, shared addresses of providers, benchmarks, reserved and multicast.
        (0, ..) | (100, 64..=127, _) | (198, 18..=19, _) | (224.., ..) => true,
        // Protocol assignments, and relays of IPv6.
        (192, 0, 0) | (192, 88, 99) => true,
        _ => false,
    };
    !(special
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_broadcast())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high, low].map(u16::to_be_bytes);
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b) {
        // IPv4 behind a translator, or in a tunnel.
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => embedded(g, h),
        (0x2002, high) => embedded(high, c),
        // Teredo, benchmarks, documentation and other protocol assignments.
        (0x2001, 0..=0x01ff | 0x0db8) | (0x3fff, 0..=0x0fff) => false,
        // All other global addresses; neither mapped, local nor multicast ones are among them.
        (0x2000..=0x3fff, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_proxy_is_named_by_any_of_four_variables() {
        let set =
            |named: &'static str, value: &'static str| names_a_proxy(move |name| (name == named).then(|| value.into()));
        for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            assert!(set(name, "socks5://127.0.0.1:9050") && !set(name, ""), "{name}");
        }
        assert!(!set("HTTP_PROXY", "http://127.0.0.1:3128"), "agents' files are read over https alone");
    }

    #[test]
    fn addresses_of_this_machine_and_its_networks_are_not_public() {
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.5",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
            "100::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in
            ["1.1.1.1", "8.8.8.8", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::808:808", "2a00:1450::1"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[tokio::test]
    async fn an_outsiders_address_never_leads_into_this_network() {
        let client = FileClient::of_outsiders().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for address in [
            format!("https://127.0.0.1:{port}/"),
            format!("https://localhost:{port}/"),
            format!("https://[::1]:{port}/"),
            format!("https://[::ffff:127.0.0.1]:{port}/"),
            // Other notations of the same address.
            format!("https://2130706433:{port}/"),
            format!("https://0x7f.1:{port}/"),
            format!("http://1.1.1.1:{port}/"),
        ] {
            let error = client.get(address.parse().unwrap(), "*/*", 100).await.unwrap_err();
            assert!(!error.to_string().is_empty(), "{address}");
        }
        let accepted = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(accepted.is_err(), "no request may reach it");
    }

    /// A server that answers each request with these bytes.
    async fn server(answer: String) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/file", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = [0; 2_048];
                let _read = socket.read(&mut request).await.unwrap();
                // The client may have read enough and left.
                let _gone = socket.write_all(answer.as_bytes()).await;
            }
        });
        url
    }

    #[tokio::test]
    async fn an_answer_is_bounded_and_redirects_are_not_followed() {
        let client = FileClient::of_operator(true).unwrap();
        let good = server("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".into()).await;
        assert_eq!(client.get(good.clone(), "*/*", 5).await.unwrap(), b"hello");
        let error = client.get(good.clone(), "*/*", 4).await.unwrap_err();
        assert!(error.to_string().contains("more than 0 KiB"), "{error}");
        // It claims a gigabyte, and sends without an end.
        let endless = server(format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1 << 20))).await;
        assert!(client.get(endless, "*/*", 1_024).await.is_err());
        let away = server(format!("HTTP/1.1 302 Found\r\nlocation: {good}\r\ncontent-length: 0\r\n\r\n")).await;
        let error = client.get(away, "*/*", 100).await.unwrap_err();
        assert!(error.to_string().contains("302"), "{error}");
    }
}
