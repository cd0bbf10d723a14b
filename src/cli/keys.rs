//! The `bardo keys` command: creates, imports and lists encrypted key files, also those with the credential of a wallet
//! server that has the key. Secrets come from a hidden prompt or a
//! file descriptor, never from an argument or the environment, where others could read them.

use std::path::Path;

use serde::Serialize;

use super::{CliExit, CommandFailure, args::KeysAction, load, print, print_json, safe, secret, session_keys};
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::config::{ConfigFlags, Environment};
use bardo_base::secret::Password;
use bardo_base::text::{SafeText, width};
use bardo_runtime::data::DataFolder;
use bardo_runtime::labels::Labels;
use bardo_runtime::wallet_server::WalletServerClient;
use bardo_safety::custody::{
    KeyEntry, KeyName, Keystore, KeystoreError, LedgerId, ListedKey, SecretKey, ServerContent, ServerCredential,
    ServerEnrolment, ServerWallet, WalletServer as _,
};

/// A displayed key with its file.
#[derive(Debug, Serialize)]
struct ShownKey {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Wallet server that has the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl From<KeyEntry> for ShownKey {
    fn from(entry: KeyEntry) -> Self {
        Self {
            name: entry.name.to_string(),
            // With the checksum, as people compare it.
            address: Some(entry.address.to_string()),
            ledger: Some(entry.ledger.to_string()),
            file: Some(entry.path.display().to_string()),
            server: entry.server.map(|wallet| wallet.url.to_string()),
            problem: None,
        }
    }
}

pub(super) fn run(
    action: &KeysAction,
    environment: &Environment,
    flags: &ConfigFlags,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let config = load(environment, flags)?;
    let folder = DataFolder::of(&config);
    let keystore = Keystore::at(folder.keys());
    match action {
        KeysAction::New { name, password_fd } => {
            let name = free_name(&keystore, name)?;
            let password = secret::new_password(*password_fd, "password for the new key")?;
            let key = SecretKey::generate()?;
            create(&folder, &keystore, &name, &key, &password, json)
        }
        KeysAction::Import { name, mnemonic, index, keystore: file, secret_fd, password_fd } => {
            two_descriptors(*secret_fd, *password_fd)?;
            let name = free_name(&keystore, name)?;
            let key = match file {
                Some(file) => from_file(file, *secret_fd)?,
                None if *mnemonic => SecretKey::from_mnemonic(&secret::read(*secret_fd, "mnemonic")?, *index)?,
                None => SecretKey::from_hex(&secret::read(*secret_fd, "private key")?)?,
            };
            let password = secret::new_password(*password_fd, "password for the key file")?;
            create(&folder, &keystore, &name, &key, &password, json)
        }
        KeysAction::Server { name, url, app_id, wallet_id, secret_fd, password_fd } => {
            two_descriptors(*secret_fd, *password_fd)?;
            let name = free_name(&keystore, name)?;
            let wallet = ServerWallet::parse(url, app_id, wallet_id);
            let wallet = wallet.map_err(|error| CommandFailure::usage(error.to_string()))?;
            let credential = secret::password(&secret::read(*secret_fd, "secret of the application at the server")?);
            let credential = ServerCredential::new(credential)?;
            let password = secret::new_password(*password_fd, "password for the new file")?;
            add_server(&folder, &keystore, (name, wallet, credential), &password, json)
        }
        KeysAction::List => list(&keystore, json),
        KeysAction::Safe { address, owner, chain, accept } => {
            safe::run(&config, *address, (owner, chain.as_deref()), *accept, json)
        }
        KeysAction::Session { action } => session_keys::run(action, &config, json),
    }
}

/// Checks that each secret has a descriptor of its own.
fn two_descriptors(secret: Option<u32>, password: Option<u32>) -> Result<(), CommandFailure> {
    if secret.is_some() && secret == password {
        let why = "--secret-fd and --password-fd must be two different descriptors, each with one secret";
        return Err(CommandFailure::usage(why.into()));
    }
    Ok(())
}

/// Asks the wallet server for the wallet, and stores its credential.
fn add_server(
    folder: &DataFolder,
    keystore: &Keystore,
    (name, wallet, credential): (KeyName, ServerWallet, ServerCredential),
    password: &Password,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = WalletServerClient::new(&wallet, &credential)?;
    let found = runtime.block_on(server.describe())?;
    let ledger = runtime.block_on(folder.open_real_ledger(SystemClock.now_millis()))?;
    let ledger: LedgerId = ledger.id().parse()?;
    let enrolment = ServerEnrolment::new(found.address, ledger)?;
    let statement = enrolment.statement()?;
    let signature = runtime.block_on(server.sign(ServerContent::Typed(&statement)))?;
    let enrolment = enrolment.signed(&signature)?;
    let url = wallet.url.clone();
    let entry = keystore.create_server(&name, (wallet, &credential), enrolment, password)?;
    if found.policies.is_empty() {
        eprintln!(
            "bardo: the server enforces no policy on this wallet: its credential alone is enough to do anything with it"
        );
    }
    eprintln!("The key stays on {url}; this file has the credential. Compare the address with the server's.");
    show_new(folder, entry, json)
}

/// Checks that the name is free before any prompt, so that no secret is typed in vain.
fn free_name(keystore: &Keystore, name: &str) -> Result<KeyName, CommandFailure> {
    let name: KeyName = name.parse().map_err(|error: KeystoreError| CommandFailure::usage(error.to_string()))?;
    match keystore.entry(&name) {
        Err(KeystoreError::NotFound { .. }) => Ok(name),
        Ok(KeyEntry { path, .. }) => Err(KeystoreError::Exists { name, path }.into()),
        // An unusable file exists, and it must not be overwritten either.
        Err(error) => Err(error.into()),
    }
}

fn from_file(file: &Path, secret_fd: Option<u32>) -> Result<SecretKey, CommandFailure> {
    let password = Password::new(secret::read(secret_fd, "password of that file")?.as_str().to_owned());
    Ok(Keystore::read_foreign(file, &password)?)
}

fn create(
    folder: &DataFolder,
    keystore: &Keystore,
    name: &KeyName,
    key: &SecretKey,
    password: &Password,
    json: bool,
) -> Result<CliExit, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ledger = runtime.block_on(folder.open_real_ledger(SystemClock.now_millis()))?;
    let ledger: LedgerId = ledger.id().parse()?;
    let entry = keystore.create(name, key, password, &ledger)?;
    eprintln!("Back up {} and its password in separate places: without both, the key is lost.", entry.path.display());
    show_new(folder, entry, json)
}

/// Prints a new entry, and whether a label can be confused with it.
fn show_new(folder: &DataFolder, entry: KeyEntry, json: bool) -> Result<CliExit, CommandFailure> {
    match Labels::of(folder).confusable_with_key(&entry.name.to_string(), entry.address) {
        Ok(Some(why)) => eprintln!("bardo: the key was stored, but {why}"),
        Ok(None) => {}
        Err(error) => eprintln!("bardo: the key was not compared with the labels: {error}"),
    }
    let shown = ShownKey::from(entry);
    if json {
        print_json(&shown)?;
    } else {
        print(&table(&[shown]))?;
    }
    Ok(CliExit::Success)
}

fn list(keystore: &Keystore, json: bool) -> Result<CliExit, CommandFailure> {
    let mut shown = Vec::new();
    for ListedKey { name, entry } in keystore.list()? {
        shown.push(match entry {
            Ok(entry) => entry.into(),
            Err(error) => {
                let problem = Some(SafeText::clean(&error.to_string(), 400).to_string());
                ShownKey { name: name.to_string(), address: None, ledger: None, file: None, server: None, problem }
            }
        });
    }
    if json {
        print_json(&shown)?;
    } else if shown.is_empty() {
        print("no keys yet: `bardo keys new NAME` creates one, `bardo keys import NAME` imports one\n")?;
    } else {
        print(&table(&shown))?;
    }
    Ok(CliExit::Success)
}

/// Formats the keys in columns: name, full address and ledger, or the problem instead.
fn table(shown: &[ShownKey]) -> String {
    let names = shown.iter().map(|one| width(&one.name)).chain([NAME.len()]).max().unwrap_or(0);
    // The ledger that the key signs for; a key of another one is refused.
    let head = format!("{NAME:names$}  {:ADDRESS_COLUMNS$}  ledger\n", "address");
    let rows = shown.iter().map(|ShownKey { name, address, ledger, server, problem, .. }| match (address, problem) {
        (Some(address), None) => {
            let server = server.as_ref().map(|server| format!("  key on {server}")).unwrap_or_default();
            format!("{name:names$}  {address}  {}{server}\n", ledger.as_deref().unwrap_or_default())
        }
        (_, problem) => format!("{name:names$}  {}\n", problem.as_deref().unwrap_or_default()),
    });
    std::iter::once(head).chain(rows).collect()
}

/// Heading of the names.
const NAME: &str = "name";

/// Columns of a whole address with its prefix.
const ADDRESS_COLUMNS: usize = 42;
