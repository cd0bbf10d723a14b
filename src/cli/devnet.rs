//! The `bardo devnet` command: both chains of the devnet on loopback ports, for other programs.

use std::{
    io::IsTerminal as _,
    net::{Ipv4Addr, TcpListener},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{CliExit, CommandFailure, args::DevnetArguments, load, logs, print, rehearsal};
use bardo_base::{
    clock::{Clock, SystemClock},
    config::{ConfigFlags, Environment},
};
use bardo_runtime::data::DataFolder;
use bardo_sandbox::{
    BlockPace, MarketMode, Sandbox, SandboxConfig,
    services::{self, ServiceServer},
};
use golem_chain::devnet::server::{RpcServer, ServeError, serve};
use golem_chain::network::NetworkDescription;

/// Minimum block interval. With shorter ones a chain's time, which advances by whole seconds, would run ahead of the
/// clock without limit.
const SHORTEST_BLOCK: Duration = Duration::from_millis(100);
/// Maximum block interval. With longer ones the chain would seem to hang.
const LONGEST_BLOCK: Duration = Duration::from_secs(3_600);

/// Error of an invalid block time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BlockTimeError {
    /// No number with a unit.
    #[error("write it as 1s, 500ms, or 0 for one block per transaction")]
    Form,
    /// Below [`SHORTEST_BLOCK`] or above [`LONGEST_BLOCK`].
    #[error("between 100ms and 3600s; {}", Self::Form)]
    Range,
}

/// Parses a block time: a number with `ms` or `s`, or 0 for one block per transaction.
pub(super) fn block_time(text: &str) -> Result<BlockPace, BlockTimeError> {
    if text == "0" {
        return Ok(BlockPace::OnTransaction);
    }
    let (digits, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, 1),
        (None, Some(digits)) => (digits, 1_000),
        (None, None) => return Err(BlockTimeError::Form),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BlockTimeError::Form);
    }
    let interval = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit)).map(Duration::from_millis);
    match interval.filter(|interval| (SHORTEST_BLOCK..=LONGEST_BLOCK).contains(interval)) {
        Some(interval) => Ok(BlockPace::Every(interval)),
        None => Err(BlockTimeError::Range),
    }
}

/// Returns the configuration of the devnet for `seed`, starting at the machine's time.
pub(super) fn sandbox(seed: u64, pace: BlockPace, market: MarketMode) -> SandboxConfig {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    SandboxConfig { seed, start_time: clock.now_seconds(), pace, clock: Some(clock), market, keeper: true }
}

pub(super) fn run(
    arguments: &DevnetArguments,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let mut config = load(environment, flags)?;
    let _logs = logs::start(&config)?;
    if let Some(name) = &arguments.data {
        super::kept_devnets::resume_fork(&mut config, name);
        config.kept_devnet = Some(name.to_string());
    }
    if let Some(fork) = config.fork.clone() {
        return rehearsal::serve(&config, &fork, arguments, json);
    }
    let ports = ports(arguments.port)?;
    // The port after the chains' ports if there is one, otherwise any free port.
    let services_port = match ports {
        [_, 0] => 0,
        [_, second] => second.checked_add(1).unwrap_or(0),
    };
    // Checked before anything is built, so that a taken port is reported at once.
    for port in ports.into_iter().chain([services_port]).filter(|port| *port != 0) {
        if let Err(error) = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            && error.kind() == std::io::ErrorKind::AddrInUse
        {
            return Err(ServeError::PortTaken(port).into());
        }
    }

    let started = Instant::now();
    let pace = arguments.block_time.unwrap_or(BlockPace::Live);
    let wanted = sandbox(arguments.seed, pace, MarketMode::On);
    let sandbox = match &arguments.data {
        None => {
            eprintln!(
                "bardo: building two chains with their history; they are discarded at exit (--data NAME keeps a \
                 devnet)…"
            );
            Sandbox::boot(&wanted, &|_| {})?
        }
        Some(name) => {
            let folder = DataFolder::of(&config).keep_devnet(name)?;
            let known = if folder.record()?.is_some() { "resuming" } else { "creating" };
            eprintln!("bardo: {known} the devnet {name}, kept in {}…", folder.path().display());
            Sandbox::boot_kept(&wanted, &folder, &|_| {})?
        }
    };
    let runtime = bardo_base::runtime::multi_threaded(Some(2))?;
    runtime.block_on(async {
        // Signals are caught from here on, so that an interrupt after the first line of output ends it cleanly.
        let interrupted = interruption()?;
        let services = services::serve(&sandbox, services_port).await?;
        let servers = serve_all(&sandbox, ports, &services, json).await?;
        eprintln!("bardo: ready after {} ms; press Ctrl-C to stop", started.elapsed().as_millis());
        tokio::select! {
            () = interrupted => {}
            chain = chain_stopped(&sandbox) => {
                let words = format!("the chain {chain} stopped because its state could not be saved; see the log for \
                                     the reason");
                return Err(words.into());
            }
        }
        for server in servers {
            server.stop().await;
        }
        Ok(CliExit::Success)
    })
}

/// Returns the name of the first chain that stops by itself, which happens when its state cannot be stored.
async fn chain_stopped(sandbox: &Sandbox) -> &'static str {
    let ends = sandbox.chains().iter().map(|chain| {
        let (mut head, name) = (chain.devnet.head(), chain.deployment.plan.name);
        Box::pin(async move {
            while head.changed().await.is_ok() {}
            name
        })
    });
    futures::future::select_all(ends).await.0
}

/// Returns a port for each chain: `first` and the next one, or any two for 0.
fn ports(first: u16) -> Result<[u16; 2], CommandFailure> {
    match first.checked_add(1) {
        Some(_) if first == 0 => Ok([0, 0]),
        Some(second) => Ok([first, second]),
        None => Err(CommandFailure {
            exit: CliExit::Usage,
            error: format!("--port {first} leaves no port for the second chain: choose one below it").into(),
        }),
    }
}

/// Serves every chain, gives each chain the description with all addresses, and prints the description.
async fn serve_all(
    sandbox: &Sandbox,
    ports: [u16; 2],
    services: &ServiceServer,
    json: bool,
) -> Result<Vec<RpcServer>, CommandFailure> {
    let mut description = sandbox.description();
    description.order_service = Some(services.url());
    description.intent_service = Some(services.url());
    let mut servers = Vec::with_capacity(ports.len());
    for ((chain, described), port) in sandbox.chains().iter().zip(&mut description.chains).zip(ports) {
        let server = serve(chain.devnet.clone(), port).await?;
        described.rpc = server.url();
        servers.push(server);
    }
    let said = serde_json::to_value(&description)?;
    for chain in sandbox.chains() {
        chain.devnet.set_description(said.clone()).await?;
    }
    print_description(&description, json)?;
    Ok(servers)
}

/// Prints a description as one line of JSON for other programs, or as a summary on a terminal.
pub(super) fn print_description(description: &NetworkDescription, json: bool) -> Result<(), CommandFailure> {
    if json || !std::io::stdout().is_terminal() {
        print(&format!("{}\n", serde_json::to_string(description)?))
    } else {
        print(&summary(description))
    }
}

/// Chains, services and accounts of a description, one per line.
fn summary(description: &NetworkDescription) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    for chain in &description.chains {
        rows.push((&chain.name, format!("{}  chain id {}", chain.rpc, chain.chain_id)));
    }
    let services = [("orders", &description.order_service), ("intents", &description.intent_service)];
    rows.extend(services.into_iter().filter_map(|(name, url)| Some((name, url.clone()?))));
    if let Some(first) = description.chains.first() {
        let more = match first.accounts.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if let Some(account) = first.accounts.first() {
            rows.push(("accounts", format!("{account}{more}, all of the development mnemonic: play money")));
        }
    }
    rows.push(("addresses", "`bardo devnet --json` prints every contract, token and price feed".to_owned()));
    let longest = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:longest$}  {value}\n")).collect()
}

/// Completes when the process is asked to end: by Ctrl-C, SIGTERM or SIGHUP.
pub(super) fn interruption() -> Result<impl Future<Output = ()>, CommandFailure> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        Ok(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    {
        Ok(async {
            // If the signal cannot be caught, it ends the process, as requested.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use alloy::primitives::Address;
    use golem_chain::network::{ChainDescription, NetworkDescription};

    use super::{BlockPace, block_time, summary};

    #[test]
    fn a_summary_names_chains_services_and_accounts_and_nothing_longer() {
        let chain = |name: &str, chain_id, port| ChainDescription {
            name: name.to_owned(),
            chain_id,
            rpc: format!("http://127.0.0.1:{port}"),
            contracts: [("permit2".to_owned(), Address::repeat_byte(9))].into(),
            accounts: vec![Address::repeat_byte(1), Address::repeat_byte(2), Address::repeat_byte(3)],
            ..ChainDescription::default()
        };
        let mut description = NetworkDescription {
            chains: vec![chain("ethereum", 31_337, 8545), chain("base", 31_338, 8546)],
            order_service: Some("http://127.0.0.1:8547".to_owned()),
            ..NetworkDescription::default()
        };
        assert_eq!(
            summary(&description),
            "ethereum   http://127.0.0.1:8545  chain id 31337\n\
             base       http://127.0.0.1:8546  chain id 31338\n\
             orders     http://127.0.0.1:8547\n\
             accounts   0x0101010101010101010101010101010101010101 and 2 more, all of the development mnemonic: play \
             money\n\
             addresses  `bardo devnet --json` prints every contract, token and price feed\n"
        );
        description.chains.clear();
        assert!(!summary(&description).contains("accounts"));
    }

    #[test]
    fn block_times_are_read_with_their_unit() {
        assert_eq!(block_time("1s"), Ok(BlockPace::Every(Duration::from_secs(1))));
        assert_eq!(block_time("500ms"), Ok(BlockPace::Every(Duration::from_millis(500))));
        assert_eq!(block_time("0"), Ok(BlockPace::OnTransaction));
        for wrong in
            ["", "1", "s", "ms", "-1s", "1.5s", "1m", "99ms", "3601s", "99999999999999999999s", "18446744073709551615s"]
        {
            assert!(block_time(wrong).unwrap_err().to_string().contains("1s, 500ms"), "{wrong}");
        }
    }
}
