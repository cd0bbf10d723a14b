//! Selection of the acting account: on devnets an account of the development mnemonic, elsewhere the key that the
//! operator has named, here or on a wallet server, and on both a session key that acts for an owner or a Safe that acts
//! through the key of an owner. Without a named key no account acts on networks
//! that are no devnet.

use alloy::primitives::Address;
use std::sync::Arc;

use super::OpenEnvironment;
use super::data::{DataFolder, Ledger, LedgerKind, binding, queue_secret};
use super::wallet_server::WalletServerClient;
use super::{reauthentication, session_keys};
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::config::{Config, Setting, SettingOrigin};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_safety::custody::delegated::DelegationGrant;
use bardo_safety::custody::safe::SafeFingerprint;
use bardo_safety::custody::session_keys::SessionKeyState;
use bardo_safety::custody::{
    DelegatedAccount, DevelopmentAccount, EmbeddedAccount, KeyEntry, KeyName, Keystore, KeystoreError, LedgerId,
    LocalAccount, SafeAccount, SafeOwnerKey, ServerFault, ServerKey, SessionKeeper, SessionKeyId, SessionRefusal,
};
use bardo_safety::queue_key::QueueKey;
use bardo_safety::{Account, AccountKind};
use bardo_sandbox::keys::DevnetAccount;
use golem_chain::network::{DEVNET_BASE, DEVNET_ETHEREUM, NetworkKind};
use golem_tools::engine::ToolEnvironment;

/// Prefix of an account of the development mnemonic. Names of keys cannot contain a colon.
const DEVELOPMENT: &str = "development:";

/// Prefix of a session key's id.
const SESSION: &str = "session:";

/// Prefix of a Safe.
const SAFE: &str = "safe:";

/// A selected account, as far as it is known without its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectedAccount {
    /// Account of the development mnemonic, on devnets.
    Development {
        /// Number of the account, from 0.
        index: u32,
        /// Address of the account.
        address: Address,
    },
    /// Key in the key directory.
    Key(KeyEntry),
    /// Session key that acts for an owner.
    Session(Box<SelectedSession>),
    /// Safe that acts through the key of an owner.
    Safe(Box<SelectedSafe>),
}

/// A selected Safe, written `safe:CHAIN:ADDRESS:FINGERPRINT:OWNER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedSafe {
    /// EIP-155 id of the chain that it is on.
    pub chain_id: u64,
    /// Address of the Safe.
    pub address: Address,
    /// Fingerprint of the state that the operator has bound.
    pub bound: SafeFingerprint,
    /// Owner that acts.
    pub owner: SafeOwner,
}

/// Owner of a Safe, by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SafeOwner {
    /// Account of the development mnemonic, on devnets.
    Development {
        /// Number of the account, from 0.
        index: u32,
        /// Address of the account.
        address: Address,
    },
    /// Key in the key directory, or on a wallet server.
    Key(KeyEntry),
}

impl SafeOwner {
    /// Returns the owner that is written as `asked`, for a chain.
    ///
    /// # Errors
    /// `WALLET_NOT_CONFIGURED` if there is no such key, or if it does not sign on this chain.
    pub fn find(config: &Config, chain_id: u64, asked: &str) -> Result<Self, ToolError> {
        if is_devnet(chain_id) {
            return match development(asked)? {
                Some((index, address)) => Ok(Self::Development { index, address }),
                None => Err(not_there(format_args!(
                    "{}: keys sign on real networks only: on a devnet the owner is an account of the development \
                     mnemonic, such as development:0",
                    SafeText::clean(asked, 80)
                ))),
            };
        }
        let name: KeyName = asked.parse().map_err(|error: KeystoreError| not_there(&error))?;
        if let Some(id) = SessionKeyId::of_key(&name) {
            return Err(not_there(format_args!(
                "{name} is the key file of session key {id}, which acts within its delegation"
            )));
        }
        let keystore = Keystore::at(DataFolder::of(config).keys());
        Ok(Self::Key(keystore.entry(&name).map_err(|error| not_there(&error))?))
    }

    /// Returns the owner's address. For a key file it is unverified until the file is opened.
    pub const fn address(&self) -> Address {
        match self {
            Self::Development { address, .. } => *address,
            Self::Key(entry) => entry.address,
        }
    }

    /// Returns the owner as the configuration names it.
    pub fn name(&self) -> String {
        match self {
            Self::Development { index, .. } => format!("{DEVELOPMENT}{index}"),
            Self::Key(entry) => entry.name.to_string(),
        }
    }
}

impl SelectedSafe {
    fn parse(config: &Config, asked: &str) -> Result<Self, ToolError> {
        let wrong = || {
            not_there(
                "a Safe is written safe:CHAIN:ADDRESS:FINGERPRINT:OWNER; `bardo keys safe ADDRESS --owner OWNER` prints it",
            )
        };
        let mut parts = asked.splitn(4, ':');
        let mut next = || parts.next().ok_or_else(wrong);
        let chain_id: u64 = next()?.parse().map_err(|_| wrong())?;
        let address: Address = next()?.parse().map_err(|_| wrong())?;
        let bound: SafeFingerprint = next()?.parse().map_err(|_| wrong())?;
        Ok(Self { chain_id, address, bound, owner: SafeOwner::find(config, chain_id, next()?)? })
    }

    /// Returns the Safe as the configuration names it.
    pub fn setting(&self) -> String {
        format!("{SAFE}{}:{}:{}:{}", self.chain_id, self.address, self.bound, self.owner.name())
    }
}

const fn is_devnet(chain_id: u64) -> bool {
    matches!(chain_id, DEVNET_ETHEREUM | DEVNET_BASE)
}

/// A selected session key. Everything but the key file's name is a claim of the ledger's row until it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedSession {
    /// Id of the session key.
    pub id: SessionKeyId,
    /// Its key file.
    pub key: KeyEntry,
    /// Owner of the account that it acts for.
    pub owner: Address,
    /// EIP-155 id of the chain that it acts on.
    pub chain_id: u64,
    /// Folder of the ledger that has it.
    pub ledger: String,
    /// State that the row claims.
    pub state: &'static str,
    /// True if its owner has signed for it, by the signature and by the audit log.
    pub is_signed: bool,
}

impl SelectedSession {
    /// Returns true if it acts on real networks and test networks, not on a devnet.
    pub fn is_real(&self) -> bool {
        self.ledger == binding::REAL
    }
}

impl SelectedAccount {
    /// Address of the account. For a key file it is unverified until the file is opened.
    pub fn address(&self) -> Address {
        match self {
            Self::Development { address, .. } => *address,
            Self::Key(entry) => entry.address,
            Self::Session(session) => session.owner,
            Self::Safe(safe) => safe.address,
        }
    }

    /// Address whose key signs the transactions and pays for gas.
    pub fn signer(&self) -> Address {
        match self {
            Self::Development { address, .. } => *address,
            Self::Key(entry) => entry.address,
            Self::Session(session) => session.key.address,
            Self::Safe(safe) => safe.owner.address(),
        }
    }

    /// Kind of the account.
    pub const fn kind(&self) -> AccountKind {
        match self {
            Self::Development { .. } => AccountKind::DevelopmentKey,
            Self::Key(KeyEntry { server: Some(_), .. }) => AccountKind::Embedded,
            Self::Key(KeyEntry { server: None, .. }) => AccountKind::LocalKey,
            Self::Session(_) => AccountKind::Delegated,
            Self::Safe(_) => AccountKind::Safe,
        }
    }

    /// Key that must be unlocked with its password before it signs.
    pub fn key(&self) -> Option<&KeyEntry> {
        match self {
            Self::Development { .. } => None,
            Self::Key(entry) => Some(entry),
            Self::Session(session) => Some(&session.key),
            Self::Safe(safe) => match &safe.owner {
                SafeOwner::Development { .. } => None,
                SafeOwner::Key(entry) => Some(entry),
            },
        }
    }
}

/// Returns the account that `config` selects for these chains; `None` without a selection and a default.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` if the account does not exist or does not fit this kind of network.
pub fn pick(config: &Config, world: &ToolEnvironment) -> Result<Option<SelectedAccount>, ToolError> {
    let chains = world.chains();
    if chains.is_empty() {
        return Ok(None);
    }
    let devnet = chains.iter().all(|chain| chain.network().kind == NetworkKind::Devnet);
    if let Some(session) = session_of(config)? {
        let by_flag = config.account.as_ref().is_some_and(|asked| matches!(asked.origin, SettingOrigin::Flag(_)));
        // A session key of real networks in the configuration file leaves devnets their default account, like a key.
        if session.is_real() != devnet || by_flag {
            return Ok(Some(SelectedAccount::Session(Box::new(session))));
        }
        if !devnet {
            let why = format_args!("session key {} belongs to {}, not to real networks", session.id, session.ledger);
            return Err(not_there(why));
        }
        return on_devnet(None);
    }
    if let Some(safe) = safe_of(config)? {
        let by_flag = config.account.as_ref().is_some_and(|asked| matches!(asked.origin, SettingOrigin::Flag(_)));
        // A Safe of a real network in the configuration file leaves devnets their default account, like a key.
        if is_devnet(safe.chain_id) == devnet || by_flag {
            return Ok(Some(SelectedAccount::Safe(Box::new(safe))));
        }
        if !devnet {
            return Err(not_there(format_args!("the Safe {} is on a devnet, not on a real network", safe.address)));
        }
        return on_devnet(None);
    }
    if devnet { on_devnet(config.account.as_ref()) } else { elsewhere(config) }
}

/// Returns the Safe that the configuration names; `None` if it names none.
fn safe_of(config: &Config) -> Result<Option<SelectedSafe>, ToolError> {
    let asked = config.account.as_ref().and_then(|asked| asked.value.strip_prefix(SAFE));
    asked.map(|asked| SelectedSafe::parse(config, asked)).transpose()
}

/// Returns the account of the development mnemonic that is written as `asked`; `None` if it is written otherwise.
fn development(asked: &str) -> Result<Option<(u32, Address)>, ToolError> {
    let Some(number) = asked.strip_prefix(DEVELOPMENT) else { return Ok(None) };
    let index: u32 = number.parse().map_err(|_| {
        not_there(format_args!("`{}` is not an account: write development: and a number", SafeText::clean(asked, 80)))
    })?;
    let accounts = DevnetAccount::development_accounts().map_err(|error| not_there(&error))?;
    let found = usize::try_from(index).ok().and_then(|at| accounts.get(at)).map(DevnetAccount::address);
    let found =
        found.ok_or_else(|| not_there(format_args!("the development mnemonic has {} accounts", accounts.len())));
    Ok(Some((index, found?)))
}

/// Returns the session key that the configuration names; `None` if it names none.
fn session_of(config: &Config) -> Result<Option<SelectedSession>, ToolError> {
    let Some(id) = config.account.as_ref().and_then(|asked| asked.value.strip_prefix(SESSION)) else {
        return Ok(None);
    };
    let id: SessionKeyId = id.parse().map_err(|error| not_there(&error))?;
    let folder = DataFolder::of(config);
    let (found, record) = session_keys::find(&folder, id)?;
    // Its key file is no longer in the keystore.
    if let SessionKeyState::Revoked(revocation) = &record.state {
        let (by, reason) = (revocation.by, revocation.reason.clone());
        return Err(session_keys::refused(SessionRefusal::Revoked { by, reason }));
    }
    let name = id.key_name().map_err(|error| not_there(&error))?;
    let key = Keystore::at(folder.keys()).entry(&name).map_err(|error| not_there(&error))?;
    let is_signed = session_keys::is_signed(&found) && key.address == record.address;
    let (owner, chain_id, state) = (record.owner, record.chain_id, record.state.as_str());
    Ok(Some(SelectedSession { id, key, owner, chain_id, ledger: found.ledger, state, is_signed }))
}

fn on_devnet(asked: Option<&Setting<String>>) -> Result<Option<SelectedAccount>, ToolError> {
    let index = match asked {
        None => 0,
        Some(asked) => match (asked.value.strip_prefix(DEVELOPMENT), &asked.origin) {
            (Some(number), _) => number.parse().map_err(|_| {
                not_there(format_args!(
                    "`{}` is not an account: write development: and a number, such as development:1",
                    asked.value
                ))
            })?,
            (None, SettingOrigin::Flag(flag)) => {
                return Err(not_there(format_args!(
                    "{flag} {}: keys sign on real networks only, never on a devnet. Omit the option, or name an \
                     account of the development mnemonic, such as development:1",
                    asked.value
                )));
            }
            // The setting is meant for networks that use keys.
            (None, SettingOrigin::Default | SettingOrigin::File { .. } | SettingOrigin::Environment(_)) => 0,
        },
    };
    let accounts = DevnetAccount::development_accounts().map_err(|error| not_there(&error))?;
    let party = usize::try_from(index).ok().and_then(|at| accounts.get(at)).ok_or_else(|| {
        not_there(format_args!("the development mnemonic has {} accounts here, numbered from 0", accounts.len()))
    })?;
    Ok(Some(SelectedAccount::Development { index, address: party.address() }))
}

fn elsewhere(config: &Config) -> Result<Option<SelectedAccount>, ToolError> {
    let Some(asked) = &config.account else { return Ok(None) };
    if asked.value.starts_with(DEVELOPMENT) {
        let why = "the development mnemonic is public, so it signs on devnets only";
        return Err(not_there(format_args!("{} ({}): {why}", asked.value, asked.origin)));
    }
    let name: KeyName = asked.value.parse().map_err(|error: KeystoreError| not_there(&error))?;
    // Opened as a key of its own, it would sign without the limits of its delegation, and after its revocation.
    if let Some(id) = SessionKeyId::of_key(&name) {
        return Err(not_there(format_args!("{name} is the key file of a session key: select it as session:{id}")));
    }
    let keystore = Keystore::at(DataFolder::of(config).keys());
    Ok(Some(SelectedAccount::Key(keystore.entry(&name).map_err(|error| not_there(&error))?)))
}

/// Returns the configured key or session key, so that its password can be requested before anything opens.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` if the key does not exist.
pub fn named(config: &Config) -> Result<Option<SelectedAccount>, ToolError> {
    match session_of(config)? {
        Some(session) => Ok(Some(SelectedAccount::Session(Box::new(session)))),
        None => match safe_of(config)? {
            Some(safe) => Ok(Some(SelectedAccount::Safe(Box::new(safe)))),
            None => elsewhere(config),
        },
    }
}

/// Account that can preview and rehearse. A development account on local chains can also sign.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` if the account does not belong to these chains or to this ledger.
pub fn locked(
    picked: &SelectedAccount,
    opened: &OpenEnvironment,
    ledger: &Ledger,
) -> Result<Arc<dyn Account>, ToolError> {
    match picked {
        SelectedAccount::Development { index, .. } => {
            let clients = opened.world.chains().iter().map(|chain| &chain.client);
            Ok(Arc::new(DevelopmentAccount::new(*index, clients).map_err(|error| not_there(&error))?))
        }
        SelectedAccount::Safe(safe) => {
            let owner = match &safe.owner {
                SafeOwner::Development { index, .. } => {
                    let clients = opened.world.chains().iter().map(|chain| &chain.client);
                    let account = DevelopmentAccount::new(*index, clients).map_err(|error| not_there(&error))?;
                    SafeOwnerKey::Development(account)
                }
                SafeOwner::Key(entry) => {
                    in_ledger(entry, ledger)?;
                    match &entry.server {
                        Some(_) => SafeOwnerKey::Embedded(EmbeddedAccount::locked(entry.address)),
                        None => SafeOwnerKey::Local(LocalAccount::locked(entry.address)),
                    }
                }
            };
            Ok(Arc::new(safe_account(safe, owner, opened)?))
        }
        SelectedAccount::Key(entry) => {
            in_ledger(entry, ledger)?;
            Ok(match &entry.server {
                Some(_) => Arc::new(EmbeddedAccount::locked(entry.address)),
                None => Arc::new(LocalAccount::locked(entry.address)),
            })
        }
        SelectedAccount::Session(session) => {
            Ok(Arc::new(delegated(session, LocalAccount::locked(session.key.address), opened, ledger)?))
        }
    }
}

/// Checks that a key belongs to this ledger.
fn in_ledger(entry: &KeyEntry, ledger: &Ledger) -> Result<(), ToolError> {
    let found = ledger_id(ledger)?;
    if entry.ledger == found {
        return Ok(());
    }
    let (name, own) = (entry.name.clone(), entry.ledger.clone());
    Err(not_there(&KeystoreError::OtherLedger { name, own, found }))
}

fn safe_account(safe: &SelectedSafe, owner: SafeOwnerKey, opened: &OpenEnvironment) -> Result<SafeAccount, ToolError> {
    let chain = opened.world.chain(&safe.chain_id.to_string())?;
    Ok(SafeAccount::new(safe.address, safe.bound, owner, chain.client.clone()))
}

/// Account of a session key's owner. What the ledger's row claims is checked against the owner's signature here, and
/// against the session key's tag as soon as it is open.
fn delegated(
    session: &SelectedSession,
    key: LocalAccount,
    opened: &OpenEnvironment,
    ledger: &Ledger,
) -> Result<DelegatedAccount, ToolError> {
    let id = session.id;
    let row = ledger.store.read(|connection| bardo_safety::custody::session_keys::find(connection, id));
    let row = row.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?.ok_or_else(|| {
        not_there(format_args!("session key {id} belongs to the ledger {}, not to this network's", session.ledger))
    })?;
    let record = row.claims();
    match &record.state {
        SessionKeyState::Granted => {}
        SessionKeyState::Drafted => {
            let why = SessionRefusal::Unverified("its owner has not signed the delegation");
            return Err(session_keys::refused(why));
        }
        SessionKeyState::Revoked(revocation) => {
            let (by, reason) = (revocation.by, revocation.reason.clone());
            return Err(session_keys::refused(SessionRefusal::Revoked { by, reason }));
        }
    }
    let chain = opened.world.chain(&record.chain_id.to_string())?;
    let grant = DelegationGrant::read(chain.network(), record.delegation.clone());
    let grant = grant.map_err(|error| ToolError::new(ErrorCode::SessionKeyUnverified, error))?;
    if grant.owner() != session.owner {
        return Err(session_keys::refused(SessionRefusal::Unverified("the delegation is another owner's")));
    }
    let (client, clock) = (chain.client.clone(), Arc::clone(&opened.world.clock));
    let keeper = SessionKeeper::new(id, ledger.id(), ledger.store.clone(), client, clock);
    DelegatedAccount::new(key, grant, keeper).map_err(|error| ToolError::new(ErrorCode::SessionKeyUnverified, error))
}

/// Unlocks the selected key for signing. Takes about half a second by design.
///
/// # Errors
/// `WALLET_NOT_CONFIGURED` with the fault of the file, the password or the ledger; for a session key also the reason for
/// which it signs nothing.
pub async fn unlock(
    config: &Config,
    picked: &SelectedAccount,
    password: Password,
    (opened, ledger): (&OpenEnvironment, &Ledger),
) -> Result<Arc<dyn Account>, ToolError> {
    match picked {
        SelectedAccount::Development { .. } => locked(picked, opened, ledger),
        SelectedAccount::Key(entry) if entry.server.is_some() => {
            Ok(Arc::new(connect(config, entry, password, ledger).await?))
        }
        SelectedAccount::Key(entry) => Ok(Arc::new(open_key(config, entry, password, ledger).await?)),
        SelectedAccount::Safe(safe) => {
            let owner = match &safe.owner {
                SafeOwner::Development { .. } => return locked(picked, opened, ledger),
                SafeOwner::Key(entry) if entry.server.is_some() => {
                    SafeOwnerKey::Embedded(connect(config, entry, password, ledger).await?)
                }
                SafeOwner::Key(entry) => SafeOwnerKey::Local(open_key(config, entry, password, ledger).await?),
            };
            let account = safe_account(safe, owner, opened)?;
            account.check().await.map_err(|refusal| ToolError::new(refusal.code(), refusal))?;
            Ok(Arc::new(account))
        }
        SelectedAccount::Session(session) => {
            let key = open_key(config, &session.key, password, ledger).await?;
            let account = delegated(session, key, opened, ledger)?;
            account.check(0).map_err(session_keys::refused)?;
            let chain = opened.world.chain(&session.chain_id.to_string())?;
            session_keys::ready(account.grant(), &chain.client).await?;
            Ok(Arc::new(account))
        }
    }
}

async fn open_key(
    config: &Config,
    entry: &KeyEntry,
    password: Password,
    ledger: &Ledger,
) -> Result<LocalAccount, ToolError> {
    let name = entry.name.clone();
    let open = move |keystore: &Keystore, ledger: &LedgerId| keystore.open(&name, &password, ledger);
    let account = opened(config, ledger, open).await?;
    // The file may have changed since it was selected; the displayed account must be the acting one.
    if account.address() != entry.address {
        return Err(not_there("the key file was replaced while it was being opened"));
    }
    Ok(account)
}

/// Opens the credential of a wallet server, and asks the server for the wallet.
async fn connect(
    config: &Config,
    entry: &KeyEntry,
    password: Password,
    ledger: &Ledger,
) -> Result<EmbeddedAccount, ToolError> {
    let name = entry.name.clone();
    let open = move |keystore: &Keystore, ledger: &LedgerId| keystore.open_server(&name, &password, ledger);
    let key: ServerKey = opened(config, ledger, open).await?;
    if Some(key.wallet()) != entry.server.as_deref() {
        return Err(not_there("the key file was replaced while it was being opened"));
    }
    let server = WalletServerClient::new(key.wallet(), key.credential()).map_err(of_server)?;
    let found = server.describe().await.map_err(of_server)?;
    if found.address != entry.address {
        let (wallet, own) = (&key.wallet().wallet_id, entry.address);
        let why = format_args!("the server's wallet {wallet} has the address {}, not {own}", found.address);
        return Err(ToolError::new(ErrorCode::WalletServerRefused, why));
    }
    Ok(EmbeddedAccount::connected(Arc::new(key), Arc::new(server)))
}

/// Error of a wallet server that signs nothing for now.
fn of_server(fault: ServerFault) -> ToolError {
    let code = match &fault {
        ServerFault::Refused(_) => ErrorCode::WalletServerRefused,
        // Nothing was asked to be signed.
        ServerFault::Unavailable(_) | ServerFault::Unclear(_) => ErrorCode::WalletServerUnavailable,
    };
    ToolError::new(code, format_args!("the wallet server: {fault}"))
}

/// Opens a key file. Password attempts at startup count towards the same limit as others.
async fn opened<T: Send + 'static>(
    config: &Config,
    ledger: &Ledger,
    open: impl Fn(&Keystore, &LedgerId) -> Result<T, KeystoreError> + Send + 'static,
) -> Result<T, ToolError> {
    let folder = DataFolder::of(config);
    let (keystore, gate, now) = (Keystore::at(folder.keys()), reauthentication::of(&folder), SystemClock.now_millis());
    let ledger = ledger_id(ledger)?;
    let opening = tokio::task::spawn_blocking(move || gate.counted(now, || open(&keystore, &ledger)));
    let opened = opening.await.map_err(|_| not_there("cannot open the key file"))?;
    opened.map_err(|error| not_there(&error))
}

/// Key that authenticates messages between the account's processes through the ledger.
///
/// It is derived from the account's key if that is unlocked. Keys of the development mnemonic are public, so a devnet
/// uses a random secret. The secret is in a private file of the data directory, or in memory if the devnet ends with
/// this process.
///
/// # Errors
/// `STORE_UNAVAILABLE` for a secret that others can read or that was modified.
pub fn queue_key(
    account: &dyn Account,
    config: &Config,
    opened: &OpenEnvironment,
    ledger: &Ledger,
) -> Result<Option<QueueKey>, ToolError> {
    match (account.kind(), ledger.kind) {
        // The owner of a devnet's Safe is an account of the development mnemonic.
        (AccountKind::DevelopmentKey | AccountKind::Safe, LedgerKind::Devnet) => {
            let secret = match &opened.sandbox {
                None if opened.rehearsal.as_ref().is_some_and(|rehearsal| !rehearsal.is_kept) => {
                    queue_secret::in_memory()
                }
                Some(sandbox) if !sandbox.is_kept() => queue_secret::in_memory(),
                Some(_) | None => queue_secret::of_instance(&DataFolder::of(config), ledger),
            };
            let secret = secret.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?;
            Ok(Some(QueueKey::derive(&secret, ledger.id(), account.address())))
        }
        (AccountKind::DevelopmentKey, LedgerKind::Real) => Ok(None),
        (AccountKind::LocalKey | AccountKind::Delegated | AccountKind::Embedded, _)
        | (AccountKind::Safe, LedgerKind::Real) => Ok(account.queue_key(ledger.id())),
    }
}

fn ledger_id(ledger: &Ledger) -> Result<LedgerId, ToolError> {
    ledger.id().parse().map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))
}

fn not_there(why: impl std::fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::WalletNotConfigured, why)
        .suggest("`bardo keys list` lists the keys; select one with --key NAME or `account` in the configuration.")
}
