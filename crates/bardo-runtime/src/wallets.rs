//! Wallets that the operator creates with `wallet_provision`, and the policy file that `wallet_configure_policy` writes.
//! Both have the operator's decision before anything happens: the password of the new key file, or a typed confirmation of
//! every changed line.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use alloy::primitives::{Address, B128};
use futures::future::BoxFuture;
use serde_json::json;

use super::data::{DataFolder, Ledger, LedgerKind};
use super::policy::{self, PolicyRewrite};
use super::reauthentication;
use super::session_keyring::NewKeyPassword;
use super::wallet_server::WalletServerClient;
use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::Config;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::GolemId;
use bardo_base::secret::Password;
use bardo_base::text::SafeText;
use bardo_safety::audit::{self, AuditError, AuditKind, LogEntry};
use bardo_safety::custody::{
    KeyEntry, KeyName, Keystore, KeystoreError, LedgerId, SecretKey, ServerContent, ServerEnrolment, ServerFault,
    ServerWallet, SessionKeyId, WalletServer as _,
};
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::policy::FieldChange;
use golem_chain::network::{Network, NetworkKind};
use golem_tools::engine::{NewWallet, PolicyDraft, ProvisionedWallet, WalletAdministration, WrittenPolicy};

/// Maximum number of wallets in any hour.
const MOST_AN_HOUR: u64 = 5;

/// An hour, in milliseconds.
const HOUR: u64 = 3_600_000;

/// Asks the operator for the password of an existing key file, with the description of what they decide about and the
/// name of the key.
pub type KeyPassword = Arc<dyn Fn(&[String], &str) -> Result<Password, ToolError> + Send + Sync>;

/// Shows lines, and asks the operator to type a word; false if they typed anything else.
pub type TypedConfirmation = Arc<dyn Fn(&[String], &str) -> Result<bool, ToolError> + Send + Sync>;

/// Questions to the operator. Each blocks until they answer, and fails where nobody can be asked.
#[derive(Clone)]
pub struct OperatorPrompts {
    /// Password of a new key file.
    pub new_password: NewKeyPassword,
    /// Password of an existing key file.
    pub password: KeyPassword,
    /// Confirmation of a change.
    pub confirm: TypedConfirmation,
}

/// Wallets and policy file of a data folder and its configuration.
pub struct FolderWallets {
    config: Config,
    ledger: Ledger,
    rules: Arc<OperatorPolicyEngine>,
    /// True if the policy file is that of devnets.
    devnet: bool,
    clock: Arc<dyn Clock>,
    prompts: OperatorPrompts,
}

impl fmt::Debug for FolderWallets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderWallets").field("devnet", &self.devnet).finish_non_exhaustive()
    }
}

impl FolderWallets {
    /// Access to the wallets of the configured data folder in this ledger, and to the policy file of its networks.
    pub fn new(
        config: &Config,
        (ledger, rules): (Ledger, Arc<OperatorPolicyEngine>),
        devnet: bool,
        clock: Arc<dyn Clock>,
        prompts: OperatorPrompts,
    ) -> Self {
        Self { config: config.clone(), ledger, rules, devnet, clock, prompts }
    }

    fn keystore(&self) -> Keystore {
        Keystore::at(DataFolder::of(&self.config).keys())
    }

    /// Entry of the configured account if its key is on a wallet server.
    fn server_account(&self) -> Result<Option<KeyEntry>, ToolError> {
        let Some(asked) = &self.config.account else { return Ok(None) };
        // Session keys and accounts of the development mnemonic have names that no key file has.
        let Ok(name) = asked.value.parse::<KeyName>() else { return Ok(None) };
        let entry = self.keystore().entry(&name).map_err(custody)?;
        Ok(Some(entry).filter(|entry| entry.server.is_some()))
    }

    /// Name of the new key file.
    fn free_name(&self, label: Option<&str>) -> Result<KeyName, ToolError> {
        let keystore = self.keystore();
        let used: BTreeSet<KeyName> = keystore.list().map_err(custody)?.into_iter().map(|listed| listed.name).collect();
        let invalid = |what: &dyn fmt::Display| {
            let what = format_args!("parameter `label`: {what}");
            ToolError::new(ErrorCode::ValidationFailed, what).detail("parameter", "label")
        };
        let Some(label) = label else {
            let mut names = (1_u32..).filter_map(|number| format!("wallet-{number}").parse::<KeyName>().ok());
            let free = names.find(|name| !used.contains(name));
            return free.ok_or_else(|| invalid(&"no name is free"));
        };
        let name: KeyName = label.parse().map_err(|error: KeystoreError| invalid(&error))?;
        if SessionKeyId::of_key(&name).is_some() {
            return Err(invalid(&"names of this form belong to session keys"));
        }
        if used.contains(&name) {
            return Err(invalid(&format_args!("the key {name} exists already, and was not changed")));
        }
        Ok(name)
    }

    /// Counts a wallet that is about to be created against the limit, in the ledger, so that other processes count it too.
    /// It counts whatever becomes of it.
    async fn reserve(&self, name: &KeyName, provider: &'static str) -> Result<(), ToolError> {
        let (wallet, now) = (name.to_string(), self.clock.now_millis());
        let reserved = self.ledger.store.write(move |transaction| -> Result<bool, AuditError> {
            // A clock that went back frees nothing.
            let now = now.max(audit::newest_time(transaction)?);
            let since = now.saturating_sub(HOUR);
            let begun =
                audit::count_since(transaction, AuditKind::WalletCreation, since, |body| body["address"].is_null())?;
            if begun >= MOST_AN_HOUR {
                return Ok(false);
            }
            let body = json!({ "wallet": wallet, "provider": provider });
            let golem_id = GolemId::operator();
            let entry = LogEntry { kind: AuditKind::WalletCreation, call_id: None, golem_id: &golem_id, body: &body };
            audit::append(transaction, now, &entry)?;
            Ok(true)
        });
        match reserved.await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let what = format_args!("{MOST_AN_HOUR} wallets were created within an hour, which is the limit");
                Err(ToolError::new(ErrorCode::SafetyRateLimited, what)
                    .detail("limit", MOST_AN_HOUR)
                    .suggest("Try again an hour after the first of them."))
            }
            Err(error) => Err(ToolError::new(ErrorCode::StoreUnavailable, error)),
        }
    }

    /// Records the address of a wallet that was created.
    async fn record(&self, entry: &KeyEntry, provider: &'static str) {
        let body =
            json!({ "wallet": entry.name.to_string(), "provider": provider, "address": entry.address.to_string() });
        let now = self.clock.now_millis();
        let written = self.ledger.store.write(move |transaction| -> Result<(), AuditError> {
            let golem_id = GolemId::operator();
            let entry = LogEntry { kind: AuditKind::WalletCreation, call_id: None, golem_id: &golem_id, body: &body };
            audit::append(transaction, now.max(audit::newest_time(transaction)?), &entry).map(drop)
        });
        if let Err(error) = written.await {
            tracing::warn!(%error, "the address of a new wallet is not in the audit log");
        }
    }

    /// Creates a key in a new file, and opens the file once.
    async fn create_local(&self, name: KeyName, network: &Network) -> Result<ProvisionedWallet, ToolError> {
        let shown = format!(
            "A new key file {name} for {network} and every other real network: its key never leaves this machine."
        );
        let ask = Arc::clone(&self.prompts.new_password);
        let asked = tokio::task::spawn_blocking(move || ask(&shown)).await;
        let password = asked.map_err(|_| prompt_failed())??.ok_or_else(no_password)?;
        self.reserve(&name, "local").await?;
        let (keystore, ledger) = (self.keystore(), self.ledger_id()?);
        let making = tokio::task::spawn_blocking(move || {
            let entry = keystore.create(&name, &SecretKey::generate()?, &password, &ledger)?;
            // Read back, so that a file that cannot be opened is noticed before anything is sent to its address.
            let found = keystore.verify(&name, &password)?;
            Ok::<_, KeystoreError>((entry, found))
        });
        let made = making.await.map_err(|_| custody("cannot create the key file"))?;
        let (entry, found) = made.map_err(custody)?;
        if found != entry.address {
            return Err(custody(format_args!("{} has another key than was written", entry.path.display())));
        }
        self.record(&entry, "local").await;
        Ok(ProvisionedWallet { name: entry.name.to_string(), address: entry.address, server_policies: None })
    }

    /// Creates a wallet on the server of the configured account, with the policies of its wallet there.
    async fn create_on_server(&self, name: KeyName) -> Result<ProvisionedWallet, ToolError> {
        let through = self.server_account()?.ok_or_else(|| {
            custody("a wallet on a wallet server is created through one: the configured account is not on a server")
                .suggest("Add a wallet with `bardo keys server`, and select it with --key NAME.")
        })?;
        let Some(server) = through.server.as_deref() else { return Err(custody("the key file names no server")) };
        let shown = vec![
            format!("A new wallet on the wallet server {}, of the application {}.", server.url, server.app_id),
            format!("It gets the policies of the wallet {} there, and the key file {name} here.", server.wallet_id),
            format!("The password of {} opens the credential, and becomes that of the new file.", through.name),
        ];
        let (ask, asked_for) = (Arc::clone(&self.prompts.password), through.name.to_string());
        let asked = tokio::task::spawn_blocking(move || ask(&shown, &asked_for)).await;
        let password = asked.map_err(|_| prompt_failed())??;
        let (keystore, ledger) = (self.keystore(), self.ledger_id()?);
        let gate = reauthentication::of(&DataFolder::of(&self.config));
        let (opening, own, given) = (keystore.clone(), through.name.clone(), password.clone());
        let (of, now) = (ledger.clone(), SystemClock.now_millis());
        let opened = tokio::task::spawn_blocking(move || gate.counted(now, || opening.open_server(&own, &given, &of)));
        let key = opened.await.map_err(|_| custody("cannot open the key file"))?.map_err(custody)?;
        let old = WalletServerClient::new(key.wallet(), key.credential()).map_err(not_created)?;
        let described = old.describe().await.map_err(not_created)?;
        if described.address != through.address {
            let what = format_args!("the server's wallet {} has another address now", server.wallet_id);
            return Err(ToolError::new(ErrorCode::WalletServerRefused, what));
        }
        self.reserve(&name, "privy").await?;
        let created = old.create(&described.policies, B128::from(rand::random::<[u8; 16]>())).await;
        let created = created.map_err(not_created)?;
        // A wallet exists by now: an error names it.
        let exists = |error: ToolError| {
            let id = SafeText::clean(&created.id, MOST_SHOWN);
            error.detail("wallet_id", id.to_string()).suggest(format_args!(
                "The wallet {id} exists on the server: add it with `bardo keys server`, or delete it there."
            ))
        };
        let refused = |what: &dyn fmt::Display| ToolError::new(ErrorCode::WalletServerRefused, what);
        // Another file for an account would open it with this password.
        let listed = keystore.list().map_err(|error| exists(custody(error)))?;
        let is_known = listed.iter().any(|one| one.entry.as_ref().is_ok_and(|entry| entry.address == created.address));
        if is_known || created.address == through.address || created.address == Address::ZERO {
            return Err(exists(refused(&"the new wallet has the address of an account that is here already, or none")));
        }
        let wallet = ServerWallet::parse(server.url.expose().as_str(), &server.app_id, &created.id);
        let wallet = wallet.map_err(|error| exists(refused(&error)))?;
        let new = WalletServerClient::new(&wallet, key.credential()).map_err(|fault| exists(not_created(fault)))?;
        // The wallet itself signs that the file is its own, which shows that the server has its key.
        let enrolment = ServerEnrolment::new(created.address, ledger).map_err(|error| exists(refused(&error)))?;
        let statement = enrolment.statement().map_err(|error| exists(refused(&error)))?;
        let signature = new.sign(ServerContent::Typed(&statement)).await.map_err(|fault| exists(not_created(fault)))?;
        let enrolment = enrolment.signed(&signature).map_err(|error| exists(refused(&error)))?;
        let storing = tokio::task::spawn_blocking(move || {
            keystore.create_server(&name, (wallet, key.credential()), enrolment, &password)
        });
        let stored = storing.await.map_err(|_| exists(custody("cannot create the key file")))?;
        let entry = stored.map_err(|error| exists(custody(error)))?;
        self.record(&entry, "privy").await;
        let policies = Some(described.policies.len());
        Ok(ProvisionedWallet { name: entry.name.to_string(), address: entry.address, server_policies: policies })
    }

    fn ledger_id(&self) -> Result<LedgerId, ToolError> {
        self.ledger.id().parse().map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))
    }

    async fn write(&self, draft: PolicyDraft) -> Result<WrittenPolicy, ToolError> {
        let before = self.rules.policy();
        let changes = before.changes(&draft.policy);
        let (path, absent) = policy::place(&self.config, self.devnet);
        let rewrite = PolicyRewrite::new(path, absent, draft.text).map_err(unwritten)?;
        let mut shown = vec![format!("wallet_configure_policy ({}) writes {}:", draft.title, rewrite.path().display())];
        shown.extend(rewrite.lines());
        shown.extend(described(&changes));
        let word = if changes.iter().all(|change| change.tighter) { "write" } else { "loosen" };
        let confirm = Arc::clone(&self.prompts.confirm);
        let asked = tokio::task::spawn_blocking(move || confirm(&shown, word)).await;
        if !asked.map_err(|_| prompt_failed())?? {
            let what = "the operator did not confirm: the policy file was not changed";
            return Err(ToolError::new(ErrorCode::ApprovalRefused, what));
        }
        let file = rewrite.path().to_owned();
        let previous = tokio::task::spawn_blocking(move || rewrite.write()).await;
        let previous = previous.map_err(|_| unwritten("the file was not written"))?.map_err(unwritten)?;
        // The rules follow the file: what is tighter is in force from here on.
        self.rules.policy();
        let waiting = self.rules.pending().map(|pending| pending.changes).unwrap_or_default();
        Ok(WrittenPolicy { file, previous, changes, waiting })
    }
}

/// Maximum length of a text of a server or a file for display, in characters.
const MOST_SHOWN: usize = 200;

/// Lines that describe changes of the policy.
pub fn described(changes: &[FieldChange]) -> Vec<String> {
    if changes.is_empty() {
        return vec!["It changes no rule.".to_owned()];
    }
    let each = changes.iter().map(|change| {
        let mark = if change.tighter { "tighter" } else { "LOOSER " };
        format!("  {mark}  {}: {} → {}", change.field, change.from, change.to)
    });
    std::iter::once("It changes these rules:".to_owned()).chain(each).collect()
}

impl WalletAdministration for FolderWallets {
    fn usual(&self) -> Result<NewWallet, ToolError> {
        Ok(if self.server_account()?.is_some() { NewWallet::Server } else { NewWallet::Local })
    }

    fn provision<'a>(
        &'a self,
        network: &'a Network,
        kind: NewWallet,
        label: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ProvisionedWallet, ToolError>> {
        Box::pin(async move {
            if network.kind == NetworkKind::Devnet || self.ledger.kind != LedgerKind::Real {
                let what = format_args!("{network} is a devnet, where keys never sign: no wallet was created");
                return Err(ToolError::new(ErrorCode::ChainUnsupported, what).suggest(
                    "Name a real network or a test network with --network or --rpc. On devnets, the accounts of the \
                     development mnemonic act, such as --key development:1.",
                ));
            }
            let name = self.free_name(label)?;
            match kind {
                NewWallet::Local => self.create_local(name, network).await,
                NewWallet::Server => self.create_on_server(name).await,
            }
        })
    }

    fn write_policy(&self, draft: PolicyDraft) -> BoxFuture<'_, Result<WrittenPolicy, ToolError>> {
        Box::pin(self.write(draft))
    }
}

fn prompt_failed() -> ToolError {
    ToolError::new(ErrorCode::ApprovalRefused, "the prompt failed: nothing was changed")
}

fn no_password() -> ToolError {
    ToolError::new(ErrorCode::ApprovalRefused, "the operator gave no password: no wallet was created")
}

fn unwritten(why: impl fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::StoreUnavailable, format_args!("the policy file: {why}"))
}

fn custody(why: impl fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::WalletNotConfigured, why)
}

/// Error of a wallet server that was to create a wallet.
fn not_created(fault: ServerFault) -> ToolError {
    let code = match &fault {
        ServerFault::Refused(_) => ErrorCode::WalletServerRefused,
        ServerFault::Unavailable(_) => ErrorCode::WalletServerUnavailable,
        ServerFault::Unclear(_) => {
            let what = format_args!("the wallet server: {fault}; a wallet may exist there now");
            return ToolError::new(ErrorCode::WalletServerUnclear, what)
                .suggest("List the wallets on the server before you create another; `bardo keys server` adds one.");
        }
    };
    ToolError::new(code, format_args!("the wallet server: {fault}"))
}
