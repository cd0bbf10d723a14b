//! The `bardo keys session` commands: a session key acts for an owner, within what the owner signs. A draft is a key and
//! the delegation to sign; accepting takes the owner's signature, from a wallet elsewhere.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use alloy::eips::BlockNumberOrTag;
use alloy::primitives::{Address, Bytes, U256, hex, keccak256};
use alloy::providers::Provider as _;
use serde_json::{Value, json};

use super::args::{DraftArguments, SessionKeyAction};
use super::{CliExit, CommandFailure, call, consent, print, print_json, print_named, secret};
use bardo_abi::delegation::Delegation;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::Config;
use bardo_base::format::utc;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_runtime::OpenEnvironment;
use bardo_runtime::data::{DataFolder, Ledger};
use bardo_runtime::session_keys::{self, DevnetOwner, FoundSessionKey, LONGEST_LIFETIME};
use bardo_safety::custody::SessionKeyId;
use bardo_safety::custody::delegated::{
    CallLimit, CallShape, DelegationGrant, DelegationLimits, DraftBounds, KeyExposure,
};
use bardo_safety::custody::session_keys::{
    LONGEST_LABEL, OwnersCall, RevokedBy, RevokedDelegation, RevokedSessionKey, SessionKeyRecord, SessionKeyRequest,
    SessionKeyState,
};
use bardo_sandbox::boot::bundled_description;
use bardo_sandbox::keys::DevnetAccount;
use golem_chain::network::{Network, NetworkKind, NetworkPlan, by_id};
use golem_chain::provider::ProviderError;
use golem_chain::token::TokenId;
use golem_tools::engine::ConnectedChain;
use golem_tools::wallet::wallet_get_delegation;

/// Word that lets the devnet's owner sign.
const CONFIRMATION_WORD: &str = "sign";

/// Prefix of an owner of the development mnemonic.
const DEVELOPMENT: &str = "development:";

pub(super) fn run(action: &SessionKeyAction, config: &Config, json: bool) -> Result<CliExit, CommandFailure> {
    let runtime = bardo_base::runtime::multi_threaded(None)?;
    match action {
        SessionKeyAction::Draft(arguments) => runtime.block_on(draft(config, arguments, json)),
        SessionKeyAction::Accept { id, signature, password_fd } => {
            runtime.block_on(accept(config, parse(id)?, signature.as_deref(), *password_fd, json))
        }
        SessionKeyAction::List => list(config, json),
        SessionKeyAction::Revoke { ids, reason, .. } => {
            // As stored: the id of a damaged row may be none.
            let ids: Vec<String> = ids.iter().map(|id| id.strip_prefix("session:").unwrap_or(id).to_owned()).collect();
            runtime.block_on(revoke(config, (!ids.is_empty()).then_some(&ids[..]), reason.as_deref(), json))
        }
    }
}

async fn draft(config: &Config, arguments: &DraftArguments, json: bool) -> Result<CliExit, CommandFailure> {
    let (opened, ledger) = connected(config).await?;
    let chain = match &arguments.chain {
        Some(asked) => opened.world.chain(asked)?,
        None => opened.world.chains().first().ok_or("no chain is connected")?,
    };
    let network = chain.network();
    let owner = owner(&arguments.owner)?;
    let limits = limits(chain, owner, arguments).await?;
    let bounds = if arguments.unbounded { DraftBounds::Waived } else { DraftBounds::Required };
    if let (DraftBounds::Required, Err(why)) = (bounds, limits.exposure(owner, &network.book)) {
        let error = format!(
            "a stolen session key could take everything: {why}. For swaps use --swap TOKEN=AMOUNT with --calls N; for other \
             calls add --cage, by which the owner's PolicyCage checks them; --unbounded accepts it"
        );
        return Err(CommandFailure::usage(error));
    }
    let stolen = stolen(chain, &limits, owner).await?;
    let label = SafeText::clean(arguments.label.as_deref().unwrap_or_default(), LONGEST_LABEL);
    let password = secret::new_password(arguments.password_fd, "password for the new session key")?;
    let request = SessionKeyRequest { owner, limits, bounds, label };
    let folder = DataFolder::of(config);
    let (record, _) = session_keys::draft(&folder, (network, &ledger), request, &password, &SystemClock).await?;
    let typed_data = DelegationGrant::typed_data(network, &record.delegation)?;
    if json {
        let mut shown = in_json(&record, ledger.id());
        shown["limits"] = json!(describe_limits(network, &record.delegation)?);
        shown["stolen"] = json!(stolen);
        shown["typed_data"] = typed_data;
        print_json(&shown)?;
        return Ok(CliExit::Success);
    }
    // The limits and the next step come last, where a terminal still shows them.
    let typed_data = serde_json::to_string_pretty(&typed_data)?;
    let mut text =
        format!("Typed data (EIP-712) for the owner's wallet to sign:\n\n{typed_data}\n\n{}\n", row(&record));
    for limit in describe_limits(network, &record.delegation)? {
        writeln!(text, "  {limit}")?;
    }
    writeln!(text, "\n{stolen}")?;
    writeln!(
        text,
        "\nIt can sign nothing until its owner has signed the typed data above. Then, with the same options for network and \
         endpoints:\n  bardo keys session accept {} SIGNATURE\nThe owner's account must have the code of the delegation \
         framework (EIP-7702), and {} needs {} for gas. On a devnet, `accept` without SIGNATURE does all of it.",
        record.id, record.address, network.native_symbol
    )?;
    print(&text)?;
    Ok(CliExit::Success)
}

async fn accept(
    config: &Config,
    id: SessionKeyId,
    signature: Option<&str>,
    password_fd: Option<u32>,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let (opened, ledger) = connected(config).await?;
    let folder = DataFolder::of(config);
    let (_, record) = session_keys::find(&folder, id)?;
    let chain = opened.world.chain(&record.chain_id.to_string())?;
    let network = chain.network();
    let own = match signature {
        Some(_) => None,
        None => Some(DevnetOwner::of(network, record.owner).map_err(|error| {
            CommandFailure::usage(format!("{error}; pass the signature: bardo keys session accept {id} SIGNATURE"))
        })?),
    };
    if own.is_some() {
        let mut said = format!("{} of this devnet would sign for session key {id}:\n", record.owner);
        for limit in describe_limits(network, &record.delegation)? {
            writeln!(said, "  {limit}")?;
        }
        let limits = DelegationGrant::limits_of(network, &record.delegation)?;
        writeln!(said, "{}", stolen(chain, &limits, record.owner).await?)?;
        if !consent::confirm(&said, CONFIRMATION_WORD)? {
            let error = "the owner signed nothing".into();
            return Err(CommandFailure { exit: CliExit::Rejected, error });
        }
    }
    let asked = format!("password of the session key {id}");
    let password = secret::password(&secret::read(password_fd, &asked)?);
    let signature = match (&own, signature) {
        (Some(owner), _) => owner.sign(network, &record.delegation)?,
        (None, signature) => hex::decode(signature.unwrap_or_default())
            .map(Bytes::from)
            .map_err(|error| CommandFailure::usage(format!("the signature is not hexadecimal: {error}")))?,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let record = session_keys::accept(&folder, (network, &ledger), id, signature, password, clock).await?;
    if let Some(owner) = own {
        owner.prepare(&chain.client, record.address).await?;
    }
    let waits = session_keys::check(&record, &chain.client).await.err();
    if json {
        let mut shown = in_json(&record, ledger.id());
        shown["not_ready"] = json!(waits.map(|why| why.message().to_owned()));
        print_json(&shown)?;
        return Ok(CliExit::Success);
    }
    print(&format!("{}\n", row(&record)))?;
    match waits {
        None => print(&format!("It acts for its owner with --key session:{id}, or account = \"session:{id}\"\n"))?,
        Some(why) => print(&format!("It cannot act yet: {}\n", why.message()))?,
    }
    Ok(CliExit::Success)
}

fn list(config: &Config, json: bool) -> Result<CliExit, CommandFailure> {
    let found = session_keys::list(&DataFolder::of(config))?;
    if json {
        let shown: Vec<Value> = found.iter().map(found_in_json).collect();
        print_json(&shown)?;
        return Ok(CliExit::Success);
    }
    if found.is_empty() {
        print("no session keys yet: `bardo keys session draft` creates one\n")?;
        return Ok(CliExit::Success);
    }
    let mut text = String::new();
    for FoundSessionKey { ledger, row: stored, .. } in &found {
        match stored {
            Ok(stored) => {
                writeln!(text, "{}  ledger {ledger}", row(stored.claims()))?;
                match scope(stored.claims()) {
                    Ok(scope) => scope.iter().try_for_each(|limit| writeln!(text, "  {limit}"))?,
                    Err(why) => writeln!(text, "  its limits cannot be shown: {}", why.error)?,
                }
            }
            Err(error) => writeln!(text, "{}  ledger {ledger}", SafeText::clean(&error.to_string(), 200))?,
        }
    }
    print_named(&text, &DataFolder::of(config))?;
    Ok(CliExit::Success)
}

async fn revoke(
    config: &Config,
    ids: Option<&[String]>,
    reason: Option<&str>,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let reason = SafeText::clean(reason.unwrap_or_default(), 200);
    let by = (RevokedBy::Operator, &reason);
    let report = session_keys::revoke(&DataFolder::of(config), ids, by, &GolemId::operator(), &SystemClock).await?;
    if json {
        print_json(&report.revoked.iter().map(revoked_in_json).collect::<Vec<_>>())?;
    } else if report.revoked.is_empty() && report.failures.is_empty() {
        print("nothing was revoked: every session key was revoked before\n")?;
    } else {
        print(&report.revoked.iter().map(said_of).collect::<String>())?;
    }
    for failure in &report.failures {
        eprintln!("bardo: {}", SafeText::clean(failure.message(), 300));
    }
    match report.failures.is_empty() {
        true => Ok(CliExit::Success),
        false => {
            let error = "not every session key may be revoked; `bardo keys session list` shows what is left".into();
            Err(CommandFailure { exit: CliExit::Error, error })
        }
    }
}

/// Says what a revocation ended here, and what remains on chain.
pub(super) fn said_of(revoked: &RevokedSessionKey) -> String {
    let id = &revoked.id;
    match &revoked.delegation {
        RevokedDelegation::NotAccepted => {
            format!("session key {id} was revoked; no signature of its owner was accepted here\n")
        }
        RevokedDelegation::Unknown => format!(
            "session key {id} was revoked: Bardo never signs with it again. Its record fits no signature of its owner, so \
             that its delegation may stand on chain: the owner must disable it there, or wait until it expires\n"
        ),
        RevokedDelegation::Signed(OwnersCall { chain_id, from, to, data }) => format!(
            "session key {id} was revoked. The call that disables its delegation on chain {chain_id}:\n  to    {to}\n  data  \
             {data}\nBardo never signs with session key {id} again. On chain {chain_id} its delegation stands until it expires \
             or {from} disables it, with the call above.\n"
        ),
    }
}

/// Opens the network and its ledger. A devnet inside this process would end with it, and its ledger too.
async fn connected(config: &Config) -> Result<(OpenEnvironment, Ledger), CommandFailure> {
    if NetworkPlan::from_config(config)? == NetworkPlan::Devnet || config.fork.is_some() {
        let error = "a devnet inside a process ends with it, and its session keys too: name a network with --network, or \
                     a running `bardo devnet` with --rpc";
        return Err(CommandFailure::usage(error.to_owned()));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = bardo_runtime::open(config, || call::one_call(Arc::new(SystemClock)), clock).await?;
    let ledger = DataFolder::of(config).open_ledger(&opened).await?;
    Ok((opened, ledger))
}

fn parse(id: &str) -> Result<SessionKeyId, CommandFailure> {
    let id = id.strip_prefix("session:").unwrap_or(id);
    id.parse().map_err(|error: bardo_base::id::IdError| CommandFailure::usage(error.to_string()))
}

fn owner(text: &str) -> Result<Address, CommandFailure> {
    let wrong = |why: &str| CommandFailure::usage(format!("--owner {}: {why}", SafeText::clean(text, 80)));
    let Some(number) = text.strip_prefix(DEVELOPMENT) else {
        return text.parse().map_err(|_| wrong("write the owner's address, or development:N on a devnet"));
    };
    let number: usize = number.parse().map_err(|_| wrong("write development: and a number"))?;
    let accounts = DevnetAccount::development_accounts()?;
    accounts.get(number).map(DevnetAccount::address).ok_or_else(|| wrong("the mnemonic has no such account here"))
}

/// Reads the limits of a draft from the command line.
async fn limits(
    chain: &ConnectedChain,
    owner: Address,
    arguments: &DraftArguments,
) -> Result<DelegationLimits, CommandFailure> {
    let before = end(chain, arguments.expires).await?;
    let mut limits = Vec::new();
    let mut targets = Vec::new();
    let mut shapes: Vec<CallShape> = Vec::new();
    let mut losses = Vec::new();
    for swap in &arguments.swap {
        let loss = loss(chain, "--swap", swap).await?;
        let calls = CallShape::swap(&chain.network().book, loss.0).ok_or_else(|| {
            CommandFailure::usage(format!("--swap: {} has no Universal Router with Permit2", chain.network()))
        })?;
        for shape in calls.into_iter().filter(|shape| !shapes.contains(shape)).collect::<Vec<_>>() {
            targets.extend(Some(shape.target).filter(|target| !targets.contains(target)));
            shapes.push(shape);
        }
        losses.push(loss);
    }
    for contract in &arguments.allow {
        let found = contract_of(chain.network(), contract).ok_or_else(|| {
            let contract = SafeText::clean(contract, 80);
            CommandFailure::usage(format!(
                "--allow {contract}: write an address, a token's symbol or a contract's name"
            ))
        })?;
        if !targets.contains(&found) {
            targets.push(found);
        }
    }
    limits.push(CallLimit::Targets(targets));
    if !shapes.is_empty() {
        limits.push(CallLimit::Shapes(shapes));
    }
    if !arguments.method.is_empty() {
        limits.push(CallLimit::Methods(arguments.method.iter().map(|text| method(text)).collect::<Result<_, _>>()?));
    }
    // Every supported chain's native token has 18 decimals.
    let most = TokenAmount::parse(&arguments.max_value, 18)
        .map_err(|error| CommandFailure::usage(format!("--max-value: {error}")))?;
    limits.push(CallLimit::Value(most.raw()));
    limits.push(CallLimit::Time { after: 0, before });
    if let Some(calls) = arguments.calls {
        limits.push(CallLimit::Calls(calls));
    }
    for asked in &arguments.max_loss {
        losses.push(loss(chain, "--max-loss", asked).await?);
    }
    limits.extend(losses.into_iter().map(|(token, amount)| CallLimit::TokenLoss { token, owner, amount }));
    if arguments.cage {
        limits.push(CallLimit::PolicyCage);
    }
    Ok(DelegationLimits::new(limits)?)
}

/// Reads a token and an amount of it, in raw units.
async fn loss(chain: &ConnectedChain, option: &str, text: &str) -> Result<(Address, U256), CommandFailure> {
    let wrong = |why: &str| CommandFailure::usage(format!("{option} {}: {why}", SafeText::clean(text, 80)));
    let (token, amount) = text.split_once('=').ok_or_else(|| wrong("write TOKEN=AMOUNT"))?;
    let token = chain.token(token).await?;
    let TokenId::Erc20(address) = token.id else { return Err(wrong("the native token has --max-value")) };
    let amount = TokenAmount::parse(amount, token.decimals).map_err(|error| wrong(&error.to_string()))?;
    Ok((address, amount.raw()))
}

/// End of a lifetime that begins with the chain's newest block, in seconds since the Unix epoch. The chain compares it with
/// its own time; a machine's clock that is ahead would let the key live longer than asked.
async fn end(chain: &ConnectedChain, lifetime: Duration) -> Result<u64, CommandFailure> {
    let network = chain.network();
    let head = chain.client.agreed().get_block_by_number(BlockNumberOrTag::Latest).await;
    let head = head.map_err(ProviderError::from)?.ok_or("the chain has no newest block")?;
    let (machine, block) = (SystemClock.now_seconds(), head.header.timestamp);
    let clock = |error: String| CommandFailure { exit: CliExit::Blocked, error: error.into() };
    let said = |seconds: u64| utc(seconds.saturating_mul(1_000));
    if network.kind != NetworkKind::Devnet && !network.times(machine, block).agree() {
        let (machine, block) = (said(machine), said(block));
        return Err(clock(format!(
            "this machine's clock says {machine}, and the newest block of {network} {block}: set the clock, or remove the \
             endpoint"
        )));
    }
    let end = block.checked_add(lifetime.as_secs()).ok_or("the time is too large")?;
    // Bardo counts by the later of the two; a devnet has a time of its own.
    if machine >= end {
        return Err(clock(format!("it would end at {}, and this machine's clock says {}", said(end), said(machine))));
    }
    Ok(end)
}

/// Loss that a stolen session key could cause, in words.
async fn stolen(chain: &ConnectedChain, limits: &DelegationLimits, owner: Address) -> Result<String, CommandFailure> {
    let network = chain.network();
    let (native, tokens, router) = match limits.exposure(owner, &network.book) {
        Err(why) => {
            return Ok(format!(
                "WARNING: nothing bounds what a thief of this key could take from {owner}: {why}. Whatever the contracts \
                 above let the owner give away can be gone, also later by an allowance."
            ));
        }
        Ok(KeyExposure::PolicyCage) => {
            return Ok(format!("If it is stolen: what the rules of {owner} in PolicyCage let pass, until it expires."));
        }
        Ok(KeyExposure::AtMost { native, tokens, router }) => (native, tokens, router),
    };
    let mut sums = Vec::new();
    for (token, amount) in tokens {
        let info = chain.token(&token.to_string()).await?;
        let amount = TokenAmount::new(amount, info.decimals).map_err(|error| error.to_string())?;
        sums.push(format!("{amount} {}", info.symbol));
    }
    if !native.is_zero() {
        let amount = TokenAmount::new(native, 18).map_err(|error| error.to_string())?;
        sums.push(format!("{amount} {}", network.native_symbol));
    }
    let sums = if sums.is_empty() { "nothing".to_owned() } else { sums.join(" and ") };
    let left = match router {
        true => " The router also takes other tokens for which the owner has left an allowance for it in Permit2.",
        false => "",
    };
    Ok(format!("If it is stolen: at most {sums} from {owner}, over all its calls.{left}"))
}

/// Finds a contract by its address, a listed token's symbol, or its name in the chain's address book.
fn contract_of(network: &Network, text: &str) -> Option<Address> {
    text.parse().ok().or_else(|| network.book.contract_named(text))
}

/// Reads a function: its signature, such as `approve(address,uint256)`, or its selector.
fn method(text: &str) -> Result<[u8; 4], CommandFailure> {
    if let Some(digits) = text.strip_prefix("0x") {
        let selector = hex::decode(digits).ok().and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        return selector.ok_or_else(|| CommandFailure::usage(format!("--method {text}: a selector has four bytes")));
    }
    let shape = text.split_once('(').is_some_and(|(name, rest)| !name.is_empty() && rest.ends_with(')'));
    if !shape || text.contains(char::is_whitespace) {
        let text = SafeText::clean(text, 80);
        return Err(CommandFailure::usage(format!("--method {text}: write it like approve(address,uint256)")));
    }
    let [first, second, third, fourth, ..] = keccak256(text).0;
    Ok([first, second, third, fourth])
}

/// Error for a lifetime of a session key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum LifetimeError {
    /// It is zero, or longer than [`LONGEST_LIFETIME`].
    #[error("a session key lives from a second to 30 days")]
    Length,
    /// It lacks a number or a unit.
    #[error("write a number and s, m, h or d, such as 24h")]
    Format,
}

/// Parses the lifetime of a session key, such as `90m`, `24h` or `7d`.
pub(super) fn lifetime(text: &str) -> Result<Duration, LifetimeError> {
    let units = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
    let unit = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, *seconds)));
    let seconds = unit
        .filter(|(digits, _)| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|(digits, seconds)| digits.parse::<u64>().ok()?.checked_mul(seconds));
    match seconds {
        Some(seconds @ 1..=LONGEST_LIFETIME) => Ok(Duration::from_secs(seconds)),
        Some(_) => Err(LifetimeError::Length),
        None => Err(LifetimeError::Format),
    }
}

/// Limits of a delegation in words, as its caveats encode them.
fn describe_limits(network: &Network, delegation: &Delegation) -> Result<Vec<String>, CommandFailure> {
    let limits = DelegationGrant::limits_of(network, delegation)?;
    Ok(limits.all().iter().map(|limit| wallet_get_delegation::describe_limit(limit, network)).collect())
}

/// Scope of a session key: its limits except its end and its number of signatures, which stand in its row.
fn scope(record: &SessionKeyRecord) -> Result<Vec<String>, CommandFailure> {
    let network = book_of(record.chain_id)?;
    let limits = DelegationGrant::limits_of(&network, &record.delegation)?;
    let in_row = |limit: &&CallLimit| matches!(limit, CallLimit::Time { after: 0, .. } | CallLimit::Calls(_));
    let others = limits.all().iter().filter(|limit| !in_row(limit));
    Ok(others.map(|limit| wallet_get_delegation::describe_limit(limit, &network)).collect())
}

/// Network of a session key, with its bundled address book. No endpoint is read, so that a list needs none.
fn book_of(chain_id: u64) -> Result<Network, CommandFailure> {
    if let Some(known) = by_id(chain_id) {
        return Ok(known.clone());
    }
    let devnet = bundled_description(chain_id)?;
    let devnet = devnet.map(|chain| chain.network());
    Ok(devnet.ok_or_else(|| format!("no address book of chain {chain_id} is bundled"))?)
}

fn row(record: &SessionKeyRecord) -> String {
    let SessionKeyRecord { id, address, owner, chain_id, expires_at, max_calls, uses, label, state, .. } = record;
    let most = max_calls.map(|most| format!(" of {most}")).unwrap_or_default();
    let label = if label.is_empty() { String::new() } else { format!("  {label}") };
    format!(
        "{id}  {}  {address} for {owner} on chain {chain_id}, until {}, {uses}{most} signatures{label}",
        state.as_str(),
        utc(expires_at.saturating_mul(1_000))
    )
}

fn in_json(record: &SessionKeyRecord, ledger: &str) -> Value {
    let revoked = match &record.state {
        SessionKeyState::Revoked(revocation) => json!({
            "at": revocation.at, "by": revocation.by.as_str(), "reason": revocation.reason,
        }),
        SessionKeyState::Drafted | SessionKeyState::Granted => Value::Null,
    };
    json!({
        "id": record.id.to_string(), "state": record.state.as_str(), "address": record.address,
        "owner": record.owner, "chain_id": record.chain_id, "ledger": ledger, "label": record.label,
        "created_at": record.created_at, "expires_at": record.expires_at, "max_calls": record.max_calls,
        "uses": record.uses, "last_used": record.last_used, "revoked": revoked, "scope": scope(record).ok(),
    })
}

fn found_in_json(found: &FoundSessionKey) -> Value {
    match &found.row {
        Ok(stored) => in_json(stored.claims(), &found.ledger),
        Err(error) => json!({ "ledger": found.ledger, "problem": SafeText::clean(&error.to_string(), 200) }),
    }
}

fn revoked_in_json(revoked: &RevokedSessionKey) -> Value {
    let (state, call) = match &revoked.delegation {
        RevokedDelegation::NotAccepted => ("not_accepted", None),
        RevokedDelegation::Unknown => ("unknown", None),
        RevokedDelegation::Signed(call) => ("signed", Some(call)),
    };
    let call =
        call.map(|call| json!({ "chain_id": call.chain_id, "from": call.from, "to": call.to, "data": call.data }));
    json!({ "id": revoked.id, "delegation": state, "owners_call": call })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_and_functions_are_read_exactly() {
        assert_eq!(lifetime("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(lifetime("30d"), Ok(Duration::from_secs(2_592_000)));
        for wrong in ["", "h", "24", "0s", "31d", "-1h", "1.5h", "99999999999999999999s"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
        // The selector that every ERC-20 contract has.
        assert_eq!(method("approve(address,uint256)").unwrap(), [0x09, 0x5e, 0xa7, 0xb3]);
        assert_eq!(method("0x095ea7b3").unwrap(), [0x09, 0x5e, 0xa7, 0xb3]);
        for wrong in ["approve", "(address)", "approve(address, uint256)", "0x095ea7"] {
            assert!(method(wrong).is_err(), "{wrong}");
        }
    }
}
