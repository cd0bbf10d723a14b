//! Directory of a chain's agents, folded from the registries' logs.
//!
//! The directory is a pure function of the logs in their order, so that it can be discarded and folded again after a
//! reorganisation. Logs of any other contract, and logs that do not decode, change nothing.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, B256, Log, U256};
use alloy::sol_types::{SolEvent, SolEventInterface};

use super::file::{FileError, ReadRegistration, Review};
use super::kept::KeptBlocks;
use super::location::{FileLocation, IpfsPath};
use super::reputation::AuditedFeedback;
use super::search::SearchText;
use super::trust::{IdentityFacts, UnreadFile, Validation};
use super::{AgentRegistry, RegistryEvent, RegistryKind};
use bardo_abi::erc8004::IdentityRegistry::IdentityRegistryEvents;
use bardo_abi::erc8004::ReputationRegistry;
use bardo_abi::nft::Erc721;
use bardo_base::text::SafeText;

/// Metadata key of an agent's wallet.
const WALLET_KEY: &str = "agentWallet";
/// Maximum length of the address of a file, in characters.
const MAX_URI_CHARS: usize = 2_048;

/// Registries of one chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistrySet {
    /// Identity registry, with its chain.
    pub identity: AgentRegistry,
    /// Address of the reputation registry.
    pub reputation: Address,
    /// Address of the validation registry; `None` on networks that have none.
    pub validation: Option<Address>,
}

impl RegistrySet {
    /// Returns the kind of the registry at `address`; `None` for any other contract.
    pub fn kind_of(&self, address: Address) -> Option<RegistryKind> {
        if address == self.identity.address {
            Some(RegistryKind::Identity)
        } else if address == self.reputation {
            Some(RegistryKind::Reputation)
        } else if Some(address) == self.validation {
            Some(RegistryKind::Validation)
        } else {
            None
        }
    }

    /// Addresses of all registries.
    pub fn addresses(&self) -> Vec<Address> {
        [self.identity.address, self.reputation].into_iter().chain(self.validation).collect()
    }
}

/// Registration file of an agent, as far as the chain has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentFile {
    /// The agent names no file.
    Absent,
    /// The file is elsewhere and is not read here.
    Elsewhere,
    /// The file in the agent's data URI.
    Read(Box<ReadRegistration>),
    /// The data URI contains no registration file.
    Invalid(FileError),
}

impl AgentFile {
    /// Reads what the address of a registration file contains.
    pub fn of(uri: &str) -> Self {
        if uri.is_empty() {
            return Self::Absent;
        }
        match ReadRegistration::read_data_uri(uri) {
            Ok(file) => Self::Read(Box::new(file)),
            Err(FileError::NotData) => Self::Elsewhere,
            Err(error) => Self::Invalid(error),
        }
    }

    /// Returns the file if it could be read.
    pub fn read(&self) -> Option<&ReadRegistration> {
        match self {
            Self::Read(file) => Some(file),
            Self::Absent | Self::Elsewhere | Self::Invalid(_) => None,
        }
    }
}

/// Feedback on an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedbackRecord {
    /// Author of the feedback.
    pub client: Address,
    /// Index of the client's feedback on this agent, counted from one.
    pub index: u64,
    /// Value in units of 10^-`decimals`.
    pub value: i128,
    /// Number of decimals of the value.
    pub decimals: u8,
    /// Tags that classify the feedback.
    pub tags: [SafeText; 2],
    /// Time of its block, in seconds since the Unix epoch.
    pub time: u64,
    /// True if the client revoked it.
    pub is_revoked: bool,
    /// Review in words.
    pub review: Review,
}

/// Validation of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationRecord {
    /// Hash of the request.
    pub request: B256,
    /// Address of the validator.
    pub validator: Address,
    /// Time of the request, in seconds since the Unix epoch.
    pub requested: u64,
    /// Newest response of the validator; `None` before one.
    pub response: Option<ValidatorResponse>,
}

/// Response of a validator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatorResponse {
    /// Response from 0 to 100.
    pub response: u8,
    /// Tag that classifies the response, usually the method.
    pub tag: SafeText,
    /// Time of its block, in seconds since the Unix epoch.
    pub time: u64,
}

/// An agent, as its events describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRecord {
    /// Account that owns it now.
    pub owner: Address,
    /// Current wallet; `None` if it was unset.
    pub wallet: Option<Address>,
    /// Time of the registration, in seconds since the Unix epoch.
    pub registered: u64,
    /// Time of the last transfer to another owner, in seconds since the Unix epoch.
    pub transferred: Option<u64>,
    /// Address of the registration file, cleaned and cut.
    pub uri: SafeText,
    /// Registration file at the last known address. Content in IPFS is filled in by [`AgentDirectory::fill`].
    pub file: AgentFile,
    /// Location of the file outside the chain; `None` for a file on it, and for an address from which none is read.
    pub location: Option<Box<FileLocation>>,
    /// Feedback in the order of the chain, revoked and related included.
    pub feedback: Vec<FeedbackRecord>,
    /// Validation requests in the order of the chain.
    pub validations: Vec<ValidationRecord>,
    /// Time of its last event, in seconds since the Unix epoch.
    pub last_event: u64,
    /// Texts of the file as a search compares them; `None` without a file that could be read.
    pub(super) words: Option<SearchText>,
    /// Every present and past owner.
    owners: BTreeSet<Address>,
    /// Every present and past wallet and approved account.
    others: BTreeSet<Address>,
}

impl AgentRecord {
    /// Content in IPFS of a registration file that was not read; `None` for any other file.
    pub fn unread_content(&self) -> Option<&IpfsPath> {
        match (&self.file, self.location.as_deref()) {
            (AgentFile::Elsewhere, Some(FileLocation::Ipfs(path))) => Some(path),
            _ => None,
        }
    }

    /// Kind of the registration file's place, if the file was not read; `None` for an address from which none is read.
    pub fn unread(&self) -> Option<UnreadFile> {
        match (&self.file, self.location.as_deref()) {
            (AgentFile::Elsewhere, Some(FileLocation::Ipfs(_))) => Some(UnreadFile::Content),
            (AgentFile::Elsewhere, Some(FileLocation::Https(_))) => Some(UnreadFile::Server),
            _ => None,
        }
    }
}

/// Agents of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDirectory {
    registries: RegistrySet,
    agents: BTreeMap<U256, AgentRecord>,
    /// Agents that each client has rated.
    rated: BTreeMap<Address, BTreeSet<U256>>,
    /// Present and past operators of each owner, for all of its agents.
    operators: BTreeMap<Address, BTreeSet<Address>>,
}

impl AgentDirectory {
    /// Creates the directory of a chain without logs.
    pub fn new(registries: RegistrySet) -> Self {
        Self { registries, agents: BTreeMap::new(), rated: BTreeMap::new(), operators: BTreeMap::new() }
    }

    /// Registries whose logs count.
    pub fn registries(&self) -> &RegistrySet {
        &self.registries
    }

    /// Returns an agent by its token id.
    pub fn agent(&self, id: U256) -> Option<&AgentRecord> {
        self.agents.get(&id)
    }

    /// Iterates over all agents in the order of their ids.
    pub fn agents(&self) -> impl Iterator<Item = (U256, &AgentRecord)> {
        self.agents.iter().map(|(id, agent)| (*id, agent))
    }

    /// Number of agents.
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// True without agents.
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    /// Number of agents whose file is outside the chain and was not read, so that no search finds them by words.
    pub fn unread(&self) -> usize {
        self.agents.values().filter(|agent| agent.unread().is_some()).count()
    }

    /// Registration files in `kept` that agents name and the directory does not have yet.
    pub fn fillable(&self, kept: &KeptBlocks) -> Vec<(U256, AgentFile)> {
        if kept.is_empty() {
            return Vec::new();
        }
        let file = |(id, agent): (&U256, &AgentRecord)| {
            let read = match kept.content(agent.unread_content()?) {
                Ok(bytes) => ReadRegistration::read(&bytes?),
                // Only files are kept, each by the way that an agent named.
                Err(_) => return None,
            };
            Some((*id, read.map_or_else(AgentFile::Invalid, |file| AgentFile::Read(Box::new(file)))))
        };
        self.agents.iter().filter_map(file).collect()
    }

    /// Fills in registration files of [`Self::fillable`]. Later logs may replace them.
    pub fn fill(&mut self, files: Vec<(U256, AgentFile)>) {
        for (id, file) in files {
            if let Some(agent) = self.agents.get_mut(&id) {
                agent.words = file.read().map(SearchText::of);
                agent.file = file;
            }
        }
    }

    /// Returns true if the account is or was the agent's owner, its wallet, or an operator. Such an account's opinion of
    /// the agent counts for nothing.
    pub fn is_related(&self, agent: &AgentRecord, account: Address) -> bool {
        let operates = |owner: &Address| self.operators.get(owner).is_some_and(|known| known.contains(&account));
        agent.owners.contains(&account) || agent.others.contains(&account) || agent.owners.iter().any(operates)
    }

    /// Feedback on an agent with the facts that its weight depends on.
    pub fn audited(&self, agent: &AgentRecord) -> Vec<AuditedFeedback> {
        let audited = |given: &FeedbackRecord| AuditedFeedback {
            client: given.client,
            value: given.value,
            decimals: given.decimals,
            time: given.time,
            is_revoked: given.is_revoked,
            is_related: self.is_related(agent, given.client),
            rated_others: self.rated.get(&given.client).is_some_and(|rated| self.rates_elsewhere(agent, rated)),
        };
        agent.feedback.iter().map(audited).collect()
    }

    /// Returns true if one of the rated agents never had an owner in common with `agent`: an owner can register any
    /// number of agents for its own accounts to rate.
    fn rates_elsewhere(&self, agent: &AgentRecord, rated: &BTreeSet<U256>) -> bool {
        let others = rated.iter().filter_map(|id| self.agents.get(id));
        others.into_iter().any(|other| other.owners.is_disjoint(&agent.owners))
    }

    /// Newest response of each validator that is not related to the agent.
    pub fn validations(&self, agent: &AgentRecord) -> Vec<Validation> {
        let mut newest: BTreeMap<Address, Validation> = BTreeMap::new();
        for record in &agent.validations {
            let Some(given) = &record.response else { continue };
            if self.is_related(agent, record.validator) {
                continue;
            }
            let validation = Validation { response: given.response, time: given.time };
            let known = newest.entry(record.validator).or_insert(validation);
            if validation.time >= known.time {
                *known = validation;
            }
        }
        newest.into_values().collect()
    }

    /// Facts about the identity of agent `id`.
    pub fn identity_facts(&self, id: U256, agent: &AgentRecord) -> IdentityFacts {
        let file = agent.file.read();
        let is_named = |file: &ReadRegistration| {
            let own = self.registries.identity;
            file.registrations.iter().any(|(number, registry)| U256::from(*number) == id && *registry == own)
        };
        let has_endpoint = |file: &ReadRegistration| {
            file.services.iter().any(|service| service.endpoint.as_str().starts_with("https://"))
        };
        IdentityFacts {
            registered: agent.registered,
            transferred: agent.transferred,
            has_file: file.is_some(),
            unread: agent.unread(),
            is_named_by_file: file.is_some_and(is_named),
            has_endpoint: file.is_some_and(has_endpoint),
            is_active: file.is_some_and(|file| file.active),
            has_wallet: agent.wallet.is_some(),
            has_hostile_text: agent.uri.altered() && file.is_none() || file.is_some_and(|file| file.has_altered_text()),
        }
    }

    /// Applies the next log. `time` is that of its block, in seconds since the Unix epoch.
    pub fn apply(&mut self, log: &Log, time: u64) {
        match self.registries.kind_of(log.address) {
            Some(RegistryKind::Identity) => self.apply_identity(log, time),
            Some(RegistryKind::Reputation) => self.apply_reputation(log, time),
            Some(RegistryKind::Validation) => self.apply_validation(log, time),
            None => {}
        }
    }

    fn apply_identity(&mut self, log: &Log, time: u64) {
        if let Ok(approval) = Erc721::ApprovalForAll::decode_log(log) {
            if approval.approved {
                self.operators.entry(approval.owner).or_default().insert(approval.operator);
            }
            return;
        }
        if let Ok(approval) = Erc721::Approval::decode_log(log) {
            if let (Some(agent), false) = (self.agents.get_mut(&approval.tokenId), approval.approved.is_zero()) {
                agent.others.insert(approval.approved);
            }
            return;
        }
        let Ok(event) = IdentityRegistryEvents::decode_log(log) else { return };
        match event.data {
            IdentityRegistryEvents::Transfer(moved) => self.moved(moved.tokenId, moved.from, moved.to, time),
            IdentityRegistryEvents::Registered(event) => self.set_uri(event.agentId, &event.agentURI, time),
            IdentityRegistryEvents::URIUpdated(event) => self.set_uri(event.agentId, &event.newURI, time),
            IdentityRegistryEvents::MetadataSet(event) => {
                let Some(agent) = self.agents.get_mut(&event.agentId) else { return };
                agent.last_event = time;
                if event.metadataKey == WALLET_KEY {
                    let wallet = <[u8; 20]>::try_from(event.metadataValue.as_ref()).ok().map(Address::from);
                    agent.wallet = wallet.filter(|wallet| !wallet.is_zero());
                    agent.others.extend(agent.wallet);
                }
            }
        }
    }

    fn moved(&mut self, id: U256, from: Address, to: Address, time: u64) {
        let new = || AgentRecord {
            owner: to,
            wallet: None,
            registered: time,
            transferred: None,
            uri: SafeText::default(),
            file: AgentFile::Absent,
            location: None,
            feedback: Vec::new(),
            validations: Vec::new(),
            last_event: time,
            words: None,
            owners: BTreeSet::new(),
            others: BTreeSet::new(),
        };
        let agent = self.agents.entry(id).or_insert_with(new);
        agent.owner = to;
        agent.owners.insert(to);
        agent.last_event = time;
        if !from.is_zero() && from != to {
            agent.transferred = Some(time);
        }
    }

    fn set_uri(&mut self, id: U256, uri: &str, time: u64) {
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.uri = SafeText::clean(uri, MAX_URI_CHARS);
            agent.file = AgentFile::of(uri);
            let is_elsewhere = matches!(agent.file, AgentFile::Elsewhere) && !agent.uri.altered();
            agent.location = is_elsewhere.then(|| FileLocation::parse(uri).ok()).flatten().map(Box::new);
            agent.words = agent.file.read().map(SearchText::of);
            agent.last_event = time;
        }
    }

    fn apply_reputation(&mut self, log: &Log, time: u64) {
        match RegistryEvent::decode(log) {
            Ok(RegistryEvent::Feedback { agent: id, client, index, value, decimals, tags, uri, hash, .. }) => {
                let Some(agent) = self.agents.get_mut(&id) else { return };
                agent.last_event = time;
                // The event's text is cut, and the file in a data URI may be longer.
                let whole = || ReputationRegistry::NewFeedback::decode_log(log).ok();
                let review = match uri.is_empty() {
                    true => Review::Absent,
                    false => whole().map_or(Review::Absent, |event| Review::of(&event.feedbackURI, hash)),
                };
                let given = FeedbackRecord { client, index, value, decimals, tags, time, is_revoked: false, review };
                agent.feedback.push(given);
                self.rated.entry(client).or_default().insert(id);
            }
            Ok(RegistryEvent::FeedbackRevoked { agent: id, client, index }) => {
                let Some(agent) = self.agents.get_mut(&id) else { return };
                let mut given = agent.feedback.iter_mut();
                if let Some(revoked) = given.find(|given| given.client == client && given.index == index) {
                    revoked.is_revoked = true;
                }
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn apply_validation(&mut self, log: &Log, time: u64) {
        match RegistryEvent::decode(log) {
            Ok(RegistryEvent::ValidationRequested { validator, agent: id, request, .. }) => {
                if let Some(agent) = self.agents.get_mut(&id) {
                    agent.last_event = time;
                    let record = ValidationRecord { request, validator, requested: time, response: None };
                    agent.validations.push(record);
                }
            }
            Ok(RegistryEvent::ValidationAnswered { validator, agent: id, request, response, tag }) => {
                let Some(agent) = self.agents.get_mut(&id) else { return };
                let mut known = agent.validations.iter_mut();
                if let Some(asked) = known.find(|asked| asked.request == request && asked.validator == validator) {
                    // The registry refuses more than 100.
                    asked.response = Some(ValidatorResponse { response: response.min(100), tag, time });
                }
            }
            Ok(_) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Bytes, address};

    use super::*;
    use crate::erc8004::location::Cid;
    use crate::erc8004::reputation::reputation;
    use crate::erc8004::search::AgentQuery;
    use bardo_abi::erc8004::{IdentityRegistry, ValidationRegistry};

    const IDENTITY: Address = address!("0x0000000000000000000000000000000000008001");
    const REPUTATION: Address = address!("0x0000000000000000000000000000000000008002");
    const VALIDATION: Address = address!("0x0000000000000000000000000000000000008003");
    const OWNER: Address = address!("0x00000000000000000000000000000000000000a1");
    const BUYER: Address = address!("0x00000000000000000000000000000000000000a2");
    const OPERATOR: Address = address!("0x00000000000000000000000000000000000000a3");
    const WALLET: Address = address!("0x00000000000000000000000000000000000000a4");
    const CLIENT: Address = address!("0x00000000000000000000000000000000000000c1");

    fn directory() -> AgentDirectory {
        AgentDirectory::new(RegistrySet {
            identity: AgentRegistry { chain_id: 1, address: IDENTITY },
            reputation: REPUTATION,
            validation: Some(VALIDATION),
        })
    }

    fn log(address: Address, event: &impl SolEvent) -> Log {
        Log { address, data: event.encode_log_data() }
    }

    fn registered(directory: &mut AgentDirectory, id: u64, owner: Address) {
        let id_word = U256::from(id);
        let minted = IdentityRegistry::Transfer { from: Address::ZERO, to: owner, tokenId: id_word };
        directory.apply(&log(IDENTITY, &minted), 100);
        let event = IdentityRegistry::Registered { agentId: id_word, agentURI: String::new(), owner };
        directory.apply(&log(IDENTITY, &event), 100);
        wallet(directory, id, owner.as_slice());
    }

    fn wallet(directory: &mut AgentDirectory, id: u64, wallet: &[u8]) {
        let event = IdentityRegistry::MetadataSet {
            agentId: U256::from(id),
            indexedMetadataKey: alloy::primitives::keccak256("agentWallet"),
            metadataKey: "agentWallet".to_owned(),
            metadataValue: Bytes::copy_from_slice(wallet),
        };
        directory.apply(&log(IDENTITY, &event), 100);
    }

    fn rating(id: u64, client: Address) -> Log {
        let event = ReputationRegistry::NewFeedback {
            agentId: U256::from(id),
            clientAddress: client,
            feedbackIndex: 1,
            value: 90,
            valueDecimals: 0,
            indexedTag1: B256::ZERO,
            tag1: String::new(),
            tag2: String::new(),
            endpoint: String::new(),
            feedbackURI: String::new(),
            feedbackHash: B256::ZERO,
        };
        log(REPUTATION, &event)
    }

    #[test]
    fn an_agent_has_the_owner_and_wallet_of_its_last_events() {
        let mut directory = directory();
        registered(&mut directory, 0, OWNER);
        wallet(&mut directory, 0, WALLET.as_slice());
        let agent = directory.agent(U256::ZERO).unwrap();
        assert_eq!((agent.owner, agent.wallet, agent.transferred), (OWNER, Some(WALLET), None));
        let moved = IdentityRegistry::Transfer { from: OWNER, to: BUYER, tokenId: U256::ZERO };
        directory.apply(&log(IDENTITY, &moved), 500);
        wallet(&mut directory, 0, &[]);
        let agent = directory.agent(U256::ZERO).unwrap();
        assert_eq!((agent.owner, agent.wallet, agent.transferred), (BUYER, None, Some(500)));
    }

    #[test]
    fn nobody_who_controls_or_controlled_an_agent_counts_in_its_reputation() {
        let mut directory = directory();
        registered(&mut directory, 0, OWNER);
        wallet(&mut directory, 0, WALLET.as_slice());
        let everything = Erc721::ApprovalForAll { owner: OWNER, operator: OPERATOR, approved: true };
        directory.apply(&log(IDENTITY, &everything), 100);
        let nothing = Erc721::ApprovalForAll { owner: OWNER, operator: OPERATOR, approved: false };
        directory.apply(&log(IDENTITY, &nothing), 101);
        let one = Erc721::Approval { owner: OWNER, approved: BUYER, tokenId: U256::ZERO };
        directory.apply(&log(IDENTITY, &one), 102);
        for client in [OWNER, WALLET, OPERATOR, BUYER, CLIENT] {
            directory.apply(&rating(0, client), 200);
        }
        let agent = directory.agent(U256::ZERO).unwrap();
        assert_eq!(agent.feedback.len(), 5, "all of it is kept");
        let counted: Vec<_> =
            directory.audited(agent).iter().filter(|given| !given.is_related).map(|given| given.client).collect();
        assert_eq!(counted, [CLIENT]);
        assert_eq!(reputation(&directory.audited(agent), 200).ratings, 1);
    }

    #[test]
    fn a_client_is_narrow_until_it_has_rated_an_agent_of_another_owner() {
        let mut directory = directory();
        registered(&mut directory, 0, OWNER);
        registered(&mut directory, 1, OWNER);
        registered(&mut directory, 2, BUYER);
        directory.apply(&rating(0, CLIENT), 200);
        let narrow = |directory: &AgentDirectory| {
            let audited = directory.audited(directory.agent(U256::ZERO).unwrap());
            !audited.first().unwrap().rated_others
        };
        assert!(narrow(&directory));
        directory.apply(&rating(1, CLIENT), 300);
        assert!(narrow(&directory), "the same owner can register any number of agents");
        directory.apply(&rating(2, CLIENT), 400);
        assert!(!narrow(&directory));
    }

    #[test]
    fn logs_of_another_contract_or_another_registry_change_nothing() {
        let mut directory = directory();
        registered(&mut directory, 0, OWNER);
        let before = directory.clone();
        let forged = IdentityRegistry::Transfer { from: OWNER, to: BUYER, tokenId: U256::ZERO };
        directory.apply(&log(REPUTATION, &forged), 500);
        directory.apply(&log(CLIENT, &forged), 500);
        directory.apply(&Log { address: IDENTITY, ..rating(0, CLIENT) }, 500);
        directory.apply(&rating(7, CLIENT), 500);
        assert_eq!(directory, before);
    }

    #[test]
    fn a_validation_is_the_newest_response_of_each_unrelated_validator() {
        let mut directory = directory();
        registered(&mut directory, 0, OWNER);
        let request = |validator: Address, hash: u8| ValidationRegistry::ValidationRequest {
            validatorAddress: validator,
            agentId: U256::ZERO,
            requestURI: String::new(),
            requestHash: B256::repeat_byte(hash),
        };
        let response = |validator: Address, hash: u8, response: u8| ValidationRegistry::ValidationResponse {
            validatorAddress: validator,
            agentId: U256::ZERO,
            requestHash: B256::repeat_byte(hash),
            response,
            responseURI: String::new(),
            responseHash: B256::ZERO,
            tag: "zkml".to_owned(),
        };
        for (validator, hash, given, time) in [(CLIENT, 1, 40, 10), (CLIENT, 2, 90, 20), (OWNER, 3, 100, 30)] {
            directory.apply(&log(VALIDATION, &request(validator, hash)), time);
            directory.apply(&log(VALIDATION, &response(validator, hash, given)), time);
        }
        let agent = directory.agent(U256::ZERO).unwrap();
        assert_eq!(directory.validations(agent), [Validation { response: 90, time: 20 }]);
    }

    fn renamed(directory: &mut AgentDirectory, id: u64, uri: &str) {
        let event = IdentityRegistry::URIUpdated { agentId: U256::from(id), newURI: uri.to_owned(), updatedBy: OWNER };
        directory.apply(&log(IDENTITY, &event), 200);
    }

    #[test]
    fn files_in_ipfs_are_filled_in_from_kept_blocks_until_the_address_changes() {
        let mut directory = directory();
        for id in 0..3 {
            registered(&mut directory, id, OWNER);
        }
        let file = format!("{{\"type\":\"{}\",\"name\":\"Far away\"}}", super::super::file::TYPE).into_bytes();
        let cid = Cid::of_raw(&file);
        renamed(&mut directory, 0, &format!("ipfs://{cid}"));
        renamed(&mut directory, 1, "https://agents.example/agent.json");
        renamed(&mut directory, 2, "http://agents.example/agent.json");
        let unread = |directory: &AgentDirectory, id: u64| directory.agent(U256::from(id)).unwrap().unread();
        assert_eq!(
            [0, 1, 2].map(|id| unread(&directory, id)),
            [Some(UnreadFile::Content), Some(UnreadFile::Server), None]
        );
        assert_eq!(directory.unread(), 2);
        let query = AgentQuery::new("FAR", None, None, None);
        assert_eq!(query.search(&directory, 300), []);
        let mut kept = KeptBlocks::default();
        assert_eq!(directory.fillable(&kept), []);
        assert!(kept.keep(cid, &file));
        let files = directory.fillable(&kept);
        assert_eq!(files.len(), 1);
        directory.fill(files);
        assert_eq!(query.search(&directory, 300).len(), 1);
        let facts = directory.identity_facts(U256::ZERO, directory.agent(U256::ZERO).unwrap());
        assert!(facts.has_file && facts.unread.is_none());
        assert!(directory.fillable(&kept).is_empty(), "it is filled in once");
        // A new address is another file, of which nothing is known.
        renamed(&mut directory, 0, &format!("ipfs://{}", Cid::of_raw(b"other")));
        assert_eq!((query.search(&directory, 300), unread(&directory, 0)), (vec![], Some(UnreadFile::Content)));
        assert!(directory.fillable(&kept).is_empty());
    }

    #[test]
    fn a_review_in_the_feedback_is_read_and_another_is_located() {
        let mut directory = directory();
        registered(&mut directory, 0, OWNER);
        let rated = |index: u64, uri: &str| ReputationRegistry::NewFeedback {
            agentId: U256::ZERO,
            clientAddress: CLIENT,
            feedbackIndex: index,
            value: 90,
            valueDecimals: 0,
            indexedTag1: B256::ZERO,
            tag1: String::new(),
            tag2: String::new(),
            endpoint: String::new(),
            feedbackURI: uri.to_owned(),
            feedbackHash: B256::repeat_byte(7),
        };
        // Longer than the text of an event is kept.
        let long = format!("data:application/json,{{\"text\":\"{}\"}}", "as quoted ".repeat(90));
        for (index, uri) in (1..).zip(["", long.as_str(), "ipfs://bafk", "data:application/json,{}"]) {
            directory.apply(&log(REPUTATION, &rated(index, uri)), 10);
        }
        let reviews: Vec<_> = directory.agent(U256::ZERO).unwrap().feedback.iter().map(|one| &one.review).collect();
        let [Review::Absent, Review::Read(words), Review::Elsewhere { uri, hash }, Review::Absent] = &reviews[..]
        else {
            panic!("{reviews:?}");
        };
        assert!(words.as_str().ends_with("as quoted") && words.as_str().len() == 899, "{words}");
        assert_eq!((uri.as_str(), *hash), ("ipfs://bafk", B256::repeat_byte(7)));
    }
}
