//! Session keys of the data folder, in all ledgers: drafted, granted by the owner's signature, found and revoked.
//!
//! Drafting and accepting need the chain and the key's password. Listing and revoking need neither: a revocation must
//! always be possible.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy::consensus::{TxEip1559, TxEip7702, TxEnvelope};
use alloy::primitives::{Address, Bytes, TxKind, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::SolCall as _;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::data::{ALL_MIGRATIONS, DataFolder, Ledger};
use bardo_abi::delegation::{Delegation, DelegationManager};
use bardo_base::clock::Clock;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::GolemId;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_safety::audit::{self, AuditKind, LogAnchor, LogEntry};
use bardo_safety::custody::delegated::{CallLimit, DelegationGrant, DelegationLimits, DelegationNotReady};
use bardo_safety::custody::session_keys::{
    self, RevokedBy, SessionKeyError, SessionKeyRecord, SessionKeyRevocation, SessionKeyState, StoredSessionKey,
};
use bardo_safety::custody::{Keystore, LocalAccount, SecretKey, SessionKeyId, SessionRefusal};
use bardo_safety::queue_key::QueueKey;
use bardo_sandbox::keys::{self, DevnetAccount, KeyError};
use bardo_store::{Store, StoreConfig, StoreError};
use golem_chain::network::{KnownContract, Network, NetworkKind};
use golem_chain::provider::{ChainClient, ProviderError};

/// Longest lifetime of a session key, in seconds: 30 days.
pub const LONGEST_LIFETIME: u64 = 30 * 86_400;

/// Native tokens that the devnet's owner gives a session key for gas, in wei: 0.1.
const GAS_MONEY: u64 = 100_000_000_000_000_000;

/// Gas limit of the transaction that makes the devnet's owner a delegator.
const CODE_GAS: u64 = 200_000;

/// Session key as a ledger of the data folder has it.
#[derive(Debug, Clone)]
pub struct FoundSessionKey {
    /// Name of the ledger's folder, such as `real`.
    pub ledger: String,
    /// Path of the ledger's database.
    pub database: PathBuf,
    /// Row, whose tag is not checked.
    pub row: Result<StoredSessionKey, SessionKeyError>,
}

/// Request for a new session key: its owner and its limits.
#[derive(Debug, Clone)]
pub struct SessionKeyRequest {
    /// Owner of the account.
    pub owner: Address,
    /// Limits, with targets and an end.
    pub limits: DelegationLimits,
    /// Label for people.
    pub label: SafeText,
}

/// Session key that a revocation ended.
#[derive(Debug, Clone)]
pub struct RevokedSessionKey {
    /// Id of the key.
    pub id: SessionKeyId,
    /// Call with which the owner disables the delegation on chain; `None` if the owner never signed one, or if the row
    /// was damaged.
    pub owners_call: Option<OwnersCall>,
}

/// Call of the owner's own account that disables a delegation on chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnersCall {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Owner, who sends it.
    pub from: Address,
    /// Address of the delegation manager.
    pub to: Address,
    /// Calldata of the call.
    pub data: Bytes,
}

impl OwnersCall {
    fn of(record: &SessionKeyRecord) -> Self {
        // The manager disables by hash, which does not cover the signature.
        let delegation = Delegation { signature: Bytes::new(), ..record.delegation.clone() };
        let data = DelegationManager::disableDelegationCall { delegation }.abi_encode().into();
        Self { chain_id: record.chain_id, from: record.owner, to: record.manager, data }
    }
}

/// Returns every session key of the data folder.
///
/// # Errors
/// `STORE_UNAVAILABLE` if a ledger cannot be read.
pub fn list(folder: &DataFolder) -> Result<Vec<FoundSessionKey>, ToolError> {
    let mut found = Vec::new();
    for database in folder.ledgers()? {
        let Some(connection) = opened(&database)? else { continue };
        for row in session_keys::all(&connection).map_err(stored)? {
            found.push(FoundSessionKey { ledger: ledger_name(&database), database: database.clone(), row });
        }
    }
    Ok(found)
}

/// Finds a session key in the ledgers of the data folder.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` if no ledger has it, `SESSION_KEY_UNVERIFIED` if its row is damaged, `STORE_UNAVAILABLE` if a
/// ledger cannot be read.
pub fn find(folder: &DataFolder, id: SessionKeyId) -> Result<(FoundSessionKey, SessionKeyRecord), ToolError> {
    for database in folder.ledgers()? {
        let Some(connection) = opened(&database)? else { continue };
        if let Some(row) = session_keys::find(&connection, id).map_err(stored)? {
            let record = row.claims().clone();
            return Ok((FoundSessionKey { ledger: ledger_name(&database), database, row: Ok(row) }, record));
        }
    }
    Err(unknown(id))
}

/// Creates a session key with its encrypted key file, and its drafted record in the ledger. It can sign nothing until
/// its owner's signature is accepted.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` if the key file cannot be created, `CHAIN_UNSUPPORTED` if the chain lacks the delegation
/// framework, `STORE_UNAVAILABLE` if the record cannot be written.
pub async fn draft(
    folder: &DataFolder,
    (network, ledger): (&Network, &Ledger),
    request: SessionKeyRequest,
    password: &Password,
    clock: &dyn Clock,
) -> Result<SessionKeyRecord, ToolError> {
    let id = SessionKeyId::random();
    let manager = network.book.contract(KnownContract::DelegationManager).ok_or_else(|| {
        ToolError::new(ErrorCode::ChainUnsupported, format_args!("{network} has no delegation framework"))
    })?;
    let created = create_key(folder, id, password, ledger).await?;
    let key = created.queue_key_of(ledger.id(), request.owner).ok_or_else(|| custody("the key file is locked"))?;
    let salt = U256::from_str_radix(&id.to_string(), 16).map_err(custody)?;
    let (delegation, _) =
        DelegationGrant::draft(network, request.owner, created_address(&created), &request.limits, salt)
            .map_err(|error| ToolError::new(ErrorCode::ChainUnsupported, error))?;
    let (mut expires_at, mut max_calls) = (0, None);
    for limit in request.limits.all() {
        match limit {
            CallLimit::Time { before, .. } => expires_at = *before,
            CallLimit::Calls(most) => max_calls = Some(*most),
            CallLimit::Targets(_)
            | CallLimit::Methods(_)
            | CallLimit::Value(_)
            | CallLimit::TokenLoss { .. }
            | CallLimit::PolicyCage => {}
        }
    }
    let record = SessionKeyRecord {
        id,
        label: request.label,
        address: created_address(&created),
        owner: request.owner,
        chain_id: network.chain_id,
        manager,
        delegation,
        created_at: clock.now_millis(),
        expires_at,
        max_calls,
        uses: 0,
        last_used: None,
        state: SessionKeyState::Drafted,
    };
    let inserted = record.clone();
    let written = ledger.store.write(move |transaction| session_keys::insert(transaction, &inserted, &key));
    written.await.map_err(stored)?;
    Ok(record)
}

/// Accepts the owner's signature, after which the session key can act. The change is in the audit log.
///
/// # Errors
/// `VALIDATION_FAILED` if the signature is not the owner's or the delegation is not accepted, and the refusals of a
/// record that is not genuine or not drafted.
pub async fn accept(
    folder: &DataFolder,
    (network, ledger): (&Network, &Ledger),
    id: SessionKeyId,
    signature: Bytes,
    password: Password,
    clock: Arc<dyn Clock>,
) -> Result<SessionKeyRecord, ToolError> {
    let found = ledger.store.read(|connection| session_keys::find(connection, id)).map_err(stored)?;
    let found = found.ok_or_else(|| unknown(id))?;
    let claims = found.claims();
    if claims.chain_id != network.chain_id {
        let why = format_args!("session key {id} is for chain {}, not for {network}", claims.chain_id);
        return Err(ToolError::new(ErrorCode::ValidationFailed, why));
    }
    let key = open_key(folder, id, password, ledger).await?;
    let queue_key = queue_key_of(&key, ledger, claims)?;
    found.verified(&queue_key).map_err(refused)?;
    let delegation = Delegation { signature: signature.clone(), ..claims.delegation.clone() };
    DelegationGrant::read(network, delegation).map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error))?;
    let written = ledger.store.write(move |transaction| {
        let record = session_keys::grant(transaction, id, &signature, &queue_key)?;
        let body = json!({
            "session_key": id.to_string(), "address": record.address, "owner": record.owner,
            "chain_id": record.chain_id, "expires_at": record.expires_at, "max_calls": record.max_calls,
        });
        let golem_id = GolemId::operator();
        let entry = LogEntry { kind: AuditKind::KeysGranted, call_id: None, golem_id: &golem_id, body: &body };
        audit::append(transaction, clock.now_millis(), &entry)
            .map_err(|error| SessionKeyError::Store(StoreError::Query(error.to_string())))?;
        Ok(record)
    });
    written.await.map_err(stored)
}

/// Revokes session keys for good, in every ledger of the data folder: those of `ids`, or all that are not revoked. Each
/// is in the audit log. The delegation on chain stays valid until its owner disables it.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` for an id that no ledger has, before anything is revoked; `STORE_UNAVAILABLE` if a ledger
/// cannot be written.
pub async fn revoke(
    folder: &DataFolder,
    ids: Option<&[SessionKeyId]>,
    (by, reason): (RevokedBy, &SafeText),
    clock: &dyn Clock,
) -> Result<Vec<RevokedSessionKey>, ToolError> {
    let mut here = Vec::new();
    for database in folder.ledgers()? {
        let Some(connection) = opened(&database)? else { continue };
        let live = session_keys::live(&connection).map_err(stored)?;
        let known: Vec<SessionKeyId> = match ids {
            None => live,
            Some(ids) => ids.iter().copied().filter(|id| is_listed(&connection, *id)).collect(),
        };
        if !known.is_empty() {
            here.push((database, known));
        }
    }
    for id in ids.unwrap_or_default() {
        if !here.iter().any(|(_, known)| known.contains(id)) {
            return Err(unknown(*id));
        }
    }
    let mut revoked = Vec::new();
    for (database, known) in here {
        let opening = tokio::task::spawn_blocking(move || {
            let store = Store::open(StoreConfig::at(database), ALL_MIGRATIONS)?;
            LogAnchor::begin(&store);
            Ok::<_, StoreError>(store)
        });
        let store = opening.await.map_err(|_| StoreError::Interrupted).and_then(|opened| opened);
        let store = store.map_err(|error| stored(error.into()))?;
        revoked.extend(revoke_in(&store, Some(known), (by, reason), &GolemId::operator(), clock.now_millis()).await?);
    }
    Ok(revoked)
}

/// Revokes session keys in one open ledger: those of `ids`, or all that are not revoked.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the ledger cannot be written; then nothing is revoked.
pub async fn revoke_in(
    store: &Store,
    ids: Option<Vec<SessionKeyId>>,
    (by, reason): (RevokedBy, &SafeText),
    golem_id: &GolemId,
    now: u64,
) -> Result<Vec<RevokedSessionKey>, ToolError> {
    let (revocation, golem_id) = (SessionKeyRevocation { at: now, by, reason: reason.clone() }, golem_id.clone());
    let written = store.write(move |transaction| {
        let ids = match ids {
            Some(ids) => ids,
            None => session_keys::live(transaction)?,
        };
        let mut revoked = Vec::new();
        for id in ids {
            // A damaged row is revoked too.
            let before = session_keys::find(transaction, id).ok().flatten();
            if !session_keys::revoke(transaction, id, &revocation)? {
                continue;
            }
            let granted = before.filter(|row| row.claims().state == SessionKeyState::Granted);
            let owners_call = granted.map(|row| OwnersCall::of(row.claims()));
            let body = json!({
                "session_key": id.to_string(), "by": revocation.by.as_str(), "reason": revocation.reason,
                "delegation": if owners_call.is_some() { "stands until its owner disables it" } else { "none" },
            });
            let entry = LogEntry { kind: AuditKind::KeysRevoked, call_id: None, golem_id: &golem_id, body: &body };
            audit::append(transaction, now, &entry)
                .map_err(|error| SessionKeyError::Store(StoreError::Query(error.to_string())))?;
            revoked.push(RevokedSessionKey { id, owners_call });
        }
        Ok::<_, SessionKeyError>(revoked)
    });
    written.await.map_err(stored)
}

/// Reason for which the devnet's owner could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum DevnetOwnerError {
    /// The owner is not an account of the development mnemonic.
    #[error("{0} is not an account of the development mnemonic: sign with the owner's own wallet")]
    Unknown(Address),
    /// The chain is not a devnet.
    #[error("accounts of the development mnemonic are public: they own nothing on {0}")]
    Network(String),
    /// The key refused.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The chain did not answer.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The delegation framework is missing, or the account is not ready.
    #[error(transparent)]
    Grant(#[from] bardo_safety::custody::delegated::GrantError),
    /// A transaction was not included.
    #[error("the devnet did not include {0}")]
    NotIncluded(&'static str),
}

/// Account of the development mnemonic that owns on a devnet.
#[derive(Debug)]
pub struct DevnetOwner(DevnetAccount);

impl DevnetOwner {
    /// Returns the owner with this address, for a devnet.
    ///
    /// # Errors
    /// [`DevnetOwnerError`] for another network, or another address.
    pub fn of(network: &Network, owner: Address) -> Result<Self, DevnetOwnerError> {
        if network.kind != NetworkKind::Devnet {
            return Err(DevnetOwnerError::Network(network.to_string()));
        }
        let accounts = DevnetAccount::development_accounts()?;
        let found = accounts.into_iter().find(|account| account.address() == owner);
        found.map(Self).ok_or(DevnetOwnerError::Unknown(owner))
    }

    /// Signs a delegation as its owner's wallet would.
    ///
    /// # Errors
    /// [`DevnetOwnerError`] if the chain lacks the framework, or is not a devnet.
    pub fn sign(&self, network: &Network, delegation: &Delegation) -> Result<Bytes, DevnetOwnerError> {
        Ok(self.0.sign_digest(network.chain_id, DelegationGrant::digest(network, delegation)?)?)
    }

    /// Gives the owner's account the framework's code where it has none (EIP-7702), and the session key native tokens
    /// for gas where it has none. Both are transactions of the owner outside the ledger.
    ///
    /// # Errors
    /// [`DevnetOwnerError`] if the chain refuses one.
    pub async fn prepare(&self, client: &ChainClient, session: Address) -> Result<(), DevnetOwnerError> {
        let (network, owner, provider) = (client.network(), self.0.address(), client.provider());
        let chain_id = network.chain_id;
        let implementation = network.book.contract(KnownContract::Eip7702Delegator);
        let implementation = implementation
            .ok_or_else(|| bardo_safety::custody::delegated::GrantError::NoFramework(network.to_string()))?;
        let fees = provider.estimate_eip1559_fees().await.map_err(ProviderError::from)?;
        let code = provider.get_code_at(owner).await.map_err(ProviderError::from)?;
        if code.get(3..) != Some(implementation.as_slice()) {
            let nonce = provider.get_transaction_count(owner).pending().await.map_err(ProviderError::from)?;
            let transaction = TxEip7702 {
                chain_id,
                nonce,
                gas_limit: CODE_GAS,
                max_fee_per_gas: fees.max_fee_per_gas,
                max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
                to: owner,
                value: U256::ZERO,
                ..TxEip7702::default()
            };
            let signed = self.0.sign_with_code(transaction, implementation)?;
            send(client, &signed, "the owner's code").await?;
        }
        if provider.get_balance(session).await.map_err(ProviderError::from)?.is_zero() {
            let nonce = provider.get_transaction_count(owner).pending().await.map_err(ProviderError::from)?;
            let transaction = TxEip1559 {
                chain_id,
                nonce,
                gas_limit: 21_000,
                max_fee_per_gas: fees.max_fee_per_gas,
                max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
                to: TxKind::Call(session),
                value: U256::from(GAS_MONEY),
                ..TxEip1559::default()
            };
            let signed = self.0.sign(transaction)?;
            send(client, &signed, "the session key's gas").await?;
        }
        Ok(())
    }
}

async fn send(client: &ChainClient, signed: &TxEnvelope, what: &'static str) -> Result<(), DevnetOwnerError> {
    if keys::send(client, signed).await? { Ok(()) } else { Err(DevnetOwnerError::NotIncluded(what)) }
}

/// Checks that the chain's state lets a granted key act. The error says what its owner has to do.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` if the owner's account is not ready, `SESSION_KEY_REVOKED` if the owner disabled the
/// delegation on chain, or the failure of the chain.
pub(super) async fn ready(grant: &DelegationGrant, client: &ChainClient) -> Result<(), ToolError> {
    grant.check(client).await.map_err(|error| match error {
        DelegationNotReady::Provider(reason) => reason.into(),
        error @ DelegationNotReady::Revoked => ToolError::new(ErrorCode::SessionKeyRevoked, error),
        error @ (DelegationNotReady::NoDelegator { .. }
        | DelegationNotReady::OtherManager { .. }
        | DelegationNotReady::Paused) => ToolError::new(ErrorCode::WalletNotConfigured, error)
            .suggest("The owner's wallet must delegate its account to this contract (EIP-7702) on this chain first."),
    })
}

/// Returns whether the chain's state lets a granted key act.
///
/// # Errors
/// As for a session key that is opened: what its owner has to do.
pub async fn check(record: &SessionKeyRecord, client: &ChainClient) -> Result<(), ToolError> {
    let grant = DelegationGrant::read(client.network(), record.delegation.clone());
    ready(&grant.map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error))?, client).await
}

async fn create_key(
    folder: &DataFolder,
    id: SessionKeyId,
    password: &Password,
    ledger: &Ledger,
) -> Result<LocalAccount, ToolError> {
    let (keystore, password) = (Keystore::at(folder.keys()), password.clone());
    let (name, ledger) = (id.key_name().map_err(custody)?, ledger.id().parse().map_err(custody)?);
    let making = tokio::task::spawn_blocking(move || {
        keystore.create(&name, &SecretKey::generate()?, &password, &ledger)?;
        keystore.open(&name, &password, &ledger)
    });
    making.await.map_err(|_| custody("cannot create the key file"))?.map_err(custody)
}

async fn open_key(
    folder: &DataFolder,
    id: SessionKeyId,
    password: Password,
    ledger: &Ledger,
) -> Result<LocalAccount, ToolError> {
    let keystore = Keystore::at(folder.keys());
    let (name, ledger) = (id.key_name().map_err(custody)?, ledger.id().parse().map_err(custody)?);
    let opening = tokio::task::spawn_blocking(move || keystore.open(&name, &password, &ledger));
    opening.await.map_err(|_| custody("cannot open the key file"))?.map_err(custody)
}

fn queue_key_of(key: &LocalAccount, ledger: &Ledger, claims: &SessionKeyRecord) -> Result<QueueKey, ToolError> {
    if created_address(key) != claims.address {
        return Err(refused(SessionRefusal::Unverified("its key file has another key")));
    }
    key.queue_key_of(ledger.id(), claims.owner).ok_or_else(|| custody("the key file is locked"))
}

fn created_address(account: &LocalAccount) -> Address {
    bardo_safety::Account::address(account)
}

/// Opens a ledger for reading; `None` if it is older than session keys.
fn opened(database: &Path) -> Result<Option<Connection>, ToolError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = || -> Result<Option<Connection>, rusqlite::Error> {
        let connection = Connection::open_with_flags(database, flags)?;
        let exists = "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'safety_session_key'";
        let exists: i64 = connection.query_row(exists, [], |row| row.get(0))?;
        Ok((exists > 0).then_some(connection))
    };
    let unread = |error| ToolError::new(ErrorCode::StoreUnavailable, format_args!("{}: {error}", database.display()));
    read().map_err(unread)
}

fn is_listed(connection: &Connection, id: SessionKeyId) -> bool {
    // A damaged row is listed too, so that it can be revoked.
    !matches!(session_keys::find(connection, id), Ok(None))
}

fn ledger_name(database: &Path) -> String {
    let folder = database.parent().and_then(Path::file_name);
    folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn unknown(id: SessionKeyId) -> ToolError {
    ToolError::new(ErrorCode::WalletNotConfigured, format_args!("no ledger of this data folder has session key {id}"))
        .suggest("`bardo keys session list` lists the session keys.")
}

fn custody(why: impl std::fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::WalletNotConfigured, why)
}

pub(super) fn refused(refusal: SessionRefusal) -> ToolError {
    ToolError::new(refusal.code(), refusal)
}

fn stored(error: SessionKeyError) -> ToolError {
    match error {
        SessionKeyError::Refused(refusal) => refused(refusal),
        error @ SessionKeyError::Unknown(_) => ToolError::new(ErrorCode::WalletNotConfigured, error),
        error @ SessionKeyError::State { .. } => ToolError::new(ErrorCode::ValidationFailed, error),
        error @ SessionKeyError::Damaged { .. } => ToolError::new(ErrorCode::SessionKeyUnverified, error),
        error @ SessionKeyError::Store(_) => ToolError::new(ErrorCode::StoreUnavailable, error),
    }
}
