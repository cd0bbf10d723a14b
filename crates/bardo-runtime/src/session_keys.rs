//! Session keys of the data folder, in all ledgers: drafted, granted by the owner's signature, found and revoked.
//!
//! Drafting and accepting need the chain and the key's password. Listing and revoking need neither: a revocation must
//! always be possible.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy::consensus::{TxEip1559, TxEip7702, TxEnvelope};
use alloy::primitives::{Address, B512, Bytes, TxKind, U256};
use alloy::providers::Provider as _;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::data::{ALL_MIGRATIONS, DataFolder, Ledger, binding};
use super::reauthentication;
use bardo_abi::delegation::Delegation;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::GolemId;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_safety::audit::{self, AuditKind, LogAnchor, LogEntry};
use bardo_safety::custody::delegated::{CallLimit, DelegationGrant, DelegationNotReady, GrantError, LimitsError};
use bardo_safety::custody::session_keys::{
    self, RevokedBy, RevokedDelegation, RevokedSessionKey, SessionKeyError, SessionKeyRecord, SessionKeyRequest,
    SessionKeyRevocation, SessionKeyState, StoredSessionKey,
};
use bardo_safety::custody::{KeyName, Keystore, LocalAccount, SecretKey, SessionKeyId, SessionRefusal};
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

/// Result of a revocation in all ledgers: what was revoked, and what could not be.
#[derive(Debug, Clone, Default)]
pub struct RevocationReport {
    /// Session keys that were revoked.
    pub revoked: Vec<RevokedSessionKey>,
    /// Reasons for which a ledger or a key file was left out.
    pub failures: Vec<ToolError>,
}

/// Returns every session key of the data folder.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the ledgers cannot be listed.
pub fn list(folder: &DataFolder) -> Result<Vec<FoundSessionKey>, ToolError> {
    let mut found = Vec::new();
    for database in folder.ledgers()? {
        let rows = match opened(&database) {
            Ok(Some(connection)) => session_keys::all(&connection),
            Ok(None) => continue,
            Err(error) => Err(SessionKeyError::Store(StoreError::Query(error.message().to_owned()))),
        };
        let named = |row| FoundSessionKey { ledger: ledger_name(&database), database: database.clone(), row };
        // A ledger that cannot be read is listed with its error.
        found.extend(rows.unwrap_or_else(|error| vec![Err(error)]).into_iter().map(named));
    }
    Ok(found)
}

/// Finds a session key in the ledgers of the data folder.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` if no ledger has it, `SESSION_KEY_UNVERIFIED` if its row is damaged, `STORE_UNAVAILABLE` if a
/// ledger cannot be read.
pub fn find(folder: &DataFolder, id: SessionKeyId) -> Result<(FoundSessionKey, SessionKeyRecord), ToolError> {
    let mut failed = None;
    for database in folder.ledgers()? {
        let connection = match opened(&database) {
            Ok(Some(connection)) => connection,
            Ok(None) => continue,
            // Another ledger may have it.
            Err(error) => {
                failed = Some(error);
                continue;
            }
        };
        if let Some(row) = session_keys::find(&connection, id).map_err(stored)? {
            let record = row.claims().clone();
            return Ok((FoundSessionKey { ledger: ledger_name(&database), database, row: Ok(row) }, record));
        }
    }
    Err(failed.unwrap_or_else(|| unknown(&id)))
}

/// Returns true if the owner of a session key has signed for it, by the signature in its row and by the audit log.
pub(super) fn is_signed(found: &FoundSessionKey) -> bool {
    let (Ok(row), Ok(Some(connection))) = (&found.row, opened(&found.database)) else { return false };
    let accepted = session_keys::acceptance_of(&connection, &row.claims().id.to_string());
    row.claims().state == SessionKeyState::Granted && row.is_signed_by_its_owner(accepted.ok().flatten())
}

/// Checks that a session key can be drafted from a request.
///
/// # Errors
/// As for [`draft`].
pub(super) fn check_request(network: &Network, request: &SessionKeyRequest) -> Result<(), ToolError> {
    let limits = (&request.limits, request.bounds);
    DelegationGrant::draft(network, request.owner, Address::ZERO, limits, U256::ZERO).map_err(not_drafted)?;
    Ok(())
}

/// Creates a session key with its encrypted key file, and its drafted record in the ledger. Returns the record and the
/// public key, as an uncompressed point without its prefix. It can sign nothing until
/// its owner's signature is accepted.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` if the key file cannot be created, `CHAIN_UNSUPPORTED` if the chain lacks the delegation
/// framework, `VALIDATION_FAILED` if the limits would let the key escape or do not bound what it could take, and
/// `STORE_UNAVAILABLE` if the record cannot be written.
pub async fn draft(
    folder: &DataFolder,
    (network, ledger): (&Network, &Ledger),
    request: SessionKeyRequest,
    password: &Password,
    clock: &dyn Clock,
) -> Result<(SessionKeyRecord, B512), ToolError> {
    let id = SessionKeyId::random();
    let manager = network.book.contract(KnownContract::DelegationManager).ok_or_else(|| {
        ToolError::new(ErrorCode::ChainUnsupported, format_args!("{network} has no delegation framework"))
    })?;
    // A draft that is refused leaves no key file.
    check_request(network, &request)?;
    let created = create_key(folder, id, password, ledger).await?;
    let key = created.queue_key_of(ledger.id(), request.owner).ok_or_else(|| custody("the key file is locked"))?;
    let public_key = created.public_key().ok_or_else(|| custody("the key file is locked"))?;
    let limits = (&request.limits, request.bounds);
    let (delegation, _) = DelegationGrant::draft(network, request.owner, created_address(&created), limits, id.salt())
        .map_err(not_drafted)?;
    let (mut expires_at, mut max_calls) = (0, None);
    for limit in request.limits.all() {
        match limit {
            CallLimit::Time { before, .. } => expires_at = *before,
            CallLimit::Calls(most) => max_calls = Some(*most),
            CallLimit::Targets(_)
            | CallLimit::Methods(_)
            | CallLimit::Shapes(_)
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
    Ok((record, public_key))
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
    let found = found.ok_or_else(|| unknown(&id))?;
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

/// Revokes session keys for good, in every ledger of the data folder: those with the stored ids `ids`, or all. Each is in
/// the audit log, and its key file moves out of the keystore. The delegation on chain stays valid until its owner
/// disables it. A ledger that cannot be read or written does not keep the others from it.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` for an id that no ledger has, if all could be read and before anything is revoked, and
/// `STORE_UNAVAILABLE` if the ledgers cannot be listed.
pub async fn revoke(
    folder: &DataFolder,
    ids: Option<&[String]>,
    by: (RevokedBy, &SafeText),
    golem_id: &GolemId,
    clock: &dyn Clock,
) -> Result<RevocationReport, ToolError> {
    revoke_among(folder, folder.ledgers()?, ids, by, golem_id, clock).await
}

/// Revokes session keys as [`revoke`] does, in the ledger of this name alone.
///
/// # Errors
/// As for [`revoke`].
pub(super) async fn revoke_within(
    folder: &DataFolder,
    ledger: &str,
    ids: Option<&[String]>,
    by: (RevokedBy, &SafeText),
    golem_id: &GolemId,
    clock: &dyn Clock,
) -> Result<RevocationReport, ToolError> {
    let own = folder.ledgers()?.into_iter().filter(|database| ledger_name(database) == ledger);
    revoke_among(folder, own.collect(), ids, by, golem_id, clock).await
}

async fn revoke_among(
    folder: &DataFolder,
    ledgers: Vec<PathBuf>,
    ids: Option<&[String]>,
    (by, reason): (RevokedBy, &SafeText),
    golem_id: &GolemId,
    clock: &dyn Clock,
) -> Result<RevocationReport, ToolError> {
    let mut report = RevocationReport::default();
    let mut here: Vec<(PathBuf, Option<Vec<String>>)> = Vec::new();
    for database in ledgers {
        match concerned(&database, ids) {
            Ok(Some(known)) => here.push((database, known)),
            Ok(None) => {}
            Err(error) => report.failures.push(error),
        }
    }
    for id in ids.unwrap_or_default() {
        if here.iter().any(|(_, known)| known.as_ref().is_some_and(|known| known.contains(id))) {
            continue;
        }
        let error = unknown(&SafeText::clean(id, 40));
        if report.failures.is_empty() {
            return Err(error);
        }
        report.failures.push(error);
    }
    for (database, known) in here {
        let path = database.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let store = Store::open(StoreConfig::at(path), ALL_MIGRATIONS)?;
            LogAnchor::begin(&store);
            Ok::<_, StoreError>(store)
        });
        let store = match opening.await.map_err(|_| StoreError::Interrupted).and_then(|opened| opened) {
            Ok(store) => store,
            Err(error) => {
                report.failures.push(in_ledger(&database, stored(error.into())));
                continue;
            }
        };
        match revoke_in(&store, known, (by, reason), golem_id, clock.now_millis()).await {
            Ok(revoked) => report.revoked.extend(revoked),
            Err(error) => report.failures.push(in_ledger(&database, error)),
        }
    }
    report.failures.extend(retire(folder));
    Ok(report)
}

/// Returns the ids of `ids` that a ledger has, or `None` in their place for all; `None` if it has nothing to revoke.
fn concerned(database: &Path, ids: Option<&[String]>) -> Result<Option<Option<Vec<String>>>, ToolError> {
    let Some(connection) = opened(database)? else { return Ok(None) };
    let failed = |error| in_ledger(database, stored(error));
    let Some(ids) = ids else {
        return Ok(session_keys::has_live(&connection).map_err(failed)?.then_some(None));
    };
    let mut known = Vec::new();
    for id in ids {
        if session_keys::exists(&connection, id).map_err(failed)? {
            known.push(id.clone());
        }
    }
    Ok((!known.is_empty()).then_some(Some(known)))
}

/// Revokes session keys in one open ledger: those with the stored ids `ids`, or all.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the ledger cannot be written; then nothing is revoked in it.
pub async fn revoke_in(
    store: &Store,
    ids: Option<Vec<String>>,
    (by, reason): (RevokedBy, &SafeText),
    golem_id: &GolemId,
    now: u64,
) -> Result<Vec<RevokedSessionKey>, ToolError> {
    let (revocation, golem_id) = (SessionKeyRevocation { at: now, by, reason: reason.clone() }, golem_id.clone());
    let written = store.write(move |transaction| {
        let mut ended = Vec::new();
        match ids {
            None => ended = session_keys::revoke(transaction, None, &revocation)?,
            Some(ids) => {
                for id in ids {
                    ended.extend(session_keys::revoke(transaction, Some(&id), &revocation)?);
                }
            }
        }
        let (mut revoked, mut head) = (Vec::new(), None);
        for key in ended {
            let delegation = RevokedDelegation::of(transaction, &key);
            let body = json!({
                "session_key": key.id, "by": revocation.by.as_str(), "reason": revocation.reason,
                "delegation": delegation.as_str(),
            });
            let entry = LogEntry { kind: AuditKind::KeysRevoked, call_id: None, golem_id: &golem_id, body: &body };
            let appended = audit::append(transaction, now, &entry);
            head = Some(appended.map_err(|error| SessionKeyError::Store(StoreError::Query(error.to_string())))?);
            revoked.push(RevokedSessionKey { id: SafeText::clean(&key.id, 40), delegation });
        }
        Ok::<_, SessionKeyError>((revoked, head))
    });
    let (revoked, head) = written.await.map_err(stored)?;
    // Without the anchor, an older copy of the ledger would bring the keys back.
    if let Some(head) = head
        && let Err(error) = LogAnchor::beside(store.path()).advance(head)
    {
        tracing::warn!("{error}");
    }
    Ok(revoked)
}

/// Moves the key files of revoked session keys out of the keystore, and returns what failed. They are not deleted, since
/// a session key may hold native tokens for gas. The audit log decides, so that a damaged row does not matter.
pub fn retire(folder: &DataFolder) -> Vec<ToolError> {
    let keystore = Keystore::at(folder.keys());
    let (Ok(listed), Ok(ledgers)) = (keystore.list(), folder.ledgers()) else { return Vec::new() };
    // What cannot be read is not revoked, which the caller has reported.
    let ledgers: Vec<Connection> = ledgers.iter().filter_map(|database| opened(database).ok().flatten()).collect();
    let is_revoked = |name: &KeyName| {
        SessionKeyId::of_key(name).map(|id| id.to_string()).is_some_and(|id| {
            ledgers.iter().any(|ledger| matches!(session_keys::revocation_of(ledger, &id), Ok(Some(_))))
        })
    };
    let revoked = listed.into_iter().map(|key| key.name).filter(is_revoked);
    revoked.filter_map(|name| keystore.retire(&name).err().map(custody)).collect()
}

/// Returns the key files of session keys that can sign nothing on real networks: those that were never accepted there,
/// and revoked ones. The audit log decides, whose end is anchored outside of the database.
pub(super) fn idle(folder: &DataFolder) -> Vec<KeyName> {
    let listed = Keystore::at(folder.keys()).list().unwrap_or_default();
    let Ok(ledgers) = folder.ledgers() else { return Vec::new() };
    let real = ledgers.into_iter().find(|database| ledger_name(database) == binding::REAL);
    let connection = match real.as_deref().map(opened) {
        None => None,
        Some(Ok(connection)) => connection,
        // Whatever cannot be read counts.
        Some(Err(_)) => return Vec::new(),
    };
    if let (Some(connection), Some(database)) = (&connection, &real)
        && session_keys::check_anchor(connection, database).is_err()
    {
        return Vec::new();
    }
    let is_idle = |name: &KeyName| {
        let Some(id) = SessionKeyId::of_key(name).map(|id| id.to_string()) else { return false };
        let Some(connection) = &connection else { return true };
        let never = matches!(session_keys::acceptance_of(connection, &id), Ok(None));
        never || matches!(session_keys::revocation_of(connection, &id), Ok(Some(_)))
    };
    listed.into_iter().map(|key| key.name).filter(is_idle).collect()
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
    Grant(#[from] GrantError),
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
        let implementation = implementation.ok_or_else(|| GrantError::NoFramework(network.to_string()))?;
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
    let (keystore, gate, now) = (Keystore::at(folder.keys()), reauthentication::of(folder), SystemClock.now_millis());
    let (name, ledger) = (id.key_name().map_err(custody)?, ledger.id().parse().map_err(custody)?);
    // Password attempts count towards the same limit as others.
    let opening = tokio::task::spawn_blocking(move || gate.counted(now, || keystore.open(&name, &password, &ledger)));
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

pub(super) fn ledger_name(database: &Path) -> String {
    let folder = database.parent().and_then(Path::file_name);
    folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn in_ledger(database: &Path, error: ToolError) -> ToolError {
    ToolError::new(error.code(), format_args!("{}: {}", database.display(), error.message()))
}

fn not_drafted(error: GrantError) -> ToolError {
    let code = match &error {
        GrantError::Limits(LimitsError::Escape { .. } | LimitsError::Unbounded(_)) => ErrorCode::ValidationFailed,
        GrantError::NoFramework(_)
        | GrantError::OtherSession { .. }
        | GrantError::Shape(_)
        | GrantError::Limits(_)
        | GrantError::Signature(_) => ErrorCode::ChainUnsupported,
    };
    ToolError::new(code, error)
}

fn unknown(id: &dyn std::fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::WalletNotConfigured, format_args!("no ledger of this data folder has session key {id}"))
        .suggest("`bardo keys session list` lists the session keys.")
}

fn custody(why: impl std::fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::WalletNotConfigured, why)
}

pub(super) fn refused(refusal: SessionRefusal) -> ToolError {
    ToolError::new(refusal.code(), refusal)
}

pub(super) fn stored(error: SessionKeyError) -> ToolError {
    match error {
        SessionKeyError::Refused(refusal) => refused(refusal),
        error @ SessionKeyError::Unknown(_) => ToolError::new(ErrorCode::WalletNotConfigured, error),
        error @ SessionKeyError::State { .. } => ToolError::new(ErrorCode::ValidationFailed, error),
        error @ SessionKeyError::Damaged { .. } => ToolError::new(ErrorCode::SessionKeyUnverified, error),
        error @ SessionKeyError::Store(_) => ToolError::new(ErrorCode::StoreUnavailable, error),
    }
}
