//! Signatures of the custody module compared with reference signatures, and the cases it rejects.

use std::sync::Arc;
use std::time::Duration;

use alloy::consensus::Transaction as _;
use alloy::dyn_abi::TypedData;
use alloy::primitives::aliases::{U48, U160};
use alloy::primitives::{Address, Bytes, U256, hex};
use alloy_signer::SignerSync as _;
use alloy_signer_local::PrivateKeySigner;
use futures::future::BoxFuture;
use serde_json::Value;

use super::development::{DevelopmentAccount, NotDevelopmentChain};
use super::embedded::{EmbeddedAccount, ServerContent, ServerFault, ServerKey, WalletServer};
use super::keystore::{ServerCredential, ServerWallet};
use super::local::{LocalAccount, with_margin};
use super::secret::{Password, SecretKey};
use super::signing::SigningKey;
use crate::pipeline::{OrderToSign, ToSign};
use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent, SignatureSlot, SignedOrder};
use crate::typed::TypedMessage;
use crate::{Account, FeeBound, PayloadContext, PayloadError, SignError, SigningPayload};
use bardo_abi::permit2::typed::{PermitDetails, PermitSingle, PermitTransferFrom, TokenPermissions};
use bardo_base::clock::SystemClock;
use bardo_base::config::RpcUrl;
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use golem_chain::devnet::{ChainConfig, Devnet, DevnetConfig, RunningConfig, server};
use golem_chain::evm::ChainRules;
use golem_chain::network::{AddressBook, ChainPlan, Network};
use golem_chain::provider::{ChainClient, ConnectRules, HttpLimits};

pub(super) const FEES: FeeBound = FeeBound { max_fee_per_gas: 20_000_000_000, max_priority_fee_per_gas: 1_000_000_000 };

pub(super) const TOOL: ToolMeta = ToolMeta {
    name: "custody_test",
    description: "",
    category: Category::Trading,
    capability: CapabilityTier::Write,
    risk_tier: RiskTier::Layer2,
    tick_budget: TickBudget::Medium,
    progress_steps: &[],
    sprite_trigger: SpriteTrigger::Executing,
    prompt_snippet: "",
    prompt_guidelines: Guidelines { thriving: "", cautious: "", declining: "", terminal: "", memory: None },
    idempotent: false,
    action_class: ActionClass::NewPosition,
    checks: &[],
    event_params: &[],
    summary_fields: &[],
    card: None,
    spenders: &[],
};

pub(super) fn proposal(account: Address, chain_id: u64, legs: Vec<PlanLeg>) -> Proposal {
    Proposal {
        chain_id,
        tool: TOOL,
        call_id: CallId::new(1),
        golem_id: GolemId::operator(),
        account,
        intent: ProposalIntent::Transfer,
        legs,
        outflows: Vec::new(),
        inflows: Vec::new(),
        allowances: Vec::new(),
        trade: None,
        recipients: Vec::new(),
        order: None,
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: SafeText::default(),
    }
}

pub(super) fn leg(to: Address, value: U256, data: Bytes, gas_limit: u64) -> PlanLeg {
    PlanLeg { purpose: LegPurpose::Main, to, value, data, gas_limit, slots: Vec::new() }
}

/// Signing input of the pipeline for a payload with a single transaction.
pub(super) fn to_sign(payload: SigningPayload, nonce: u64) -> ToSign {
    let transaction = payload.legs()[0].clone();
    let chain_id = payload.proposal().chain_id;
    ToSign { payload, leg: 0, transaction, chain_id, nonce, fees: FEES }
}

fn context(chain_id: u64) -> PayloadContext {
    PayloadContext { chain_id, fees: FEES }
}

fn vectors() -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../../../../tests/vectors/permit2.json")).unwrap();
    file["vectors"].as_array().unwrap().clone()
}

/// Test vectors of the message types that can be signed, with the message.
fn signable() -> Vec<(Value, TypedMessage)> {
    let number = |value: &Value| value.as_str().unwrap().parse::<U256>().unwrap();
    let address = |value: &Value| value.as_str().unwrap().parse::<Address>().unwrap();
    let mut found = Vec::new();
    for vector in vectors() {
        let (permit2, permit) = (address(&vector["permit2"]), &vector["permit"]);
        let message = match vector["primaryType"].as_str().unwrap() {
            "PermitSingle" => TypedMessage::Permit2Allowance {
                permit2,
                permit: PermitSingle {
                    details: PermitDetails {
                        token: address(&permit["details"]["token"]),
                        amount: number(&permit["details"]["amount"]).to::<U160>(),
                        expiration: number(&permit["details"]["expiration"]).to::<U48>(),
                        nonce: number(&permit["details"]["nonce"]).to::<U48>(),
                    },
                    spender: address(&permit["spender"]),
                    sigDeadline: number(&permit["sigDeadline"]),
                },
            },
            "PermitTransferFrom" => TypedMessage::Permit2Transfer {
                permit2,
                permit: PermitTransferFrom {
                    permitted: TokenPermissions {
                        token: address(&permit["permitted"]["token"]),
                        amount: number(&permit["permitted"]["amount"]),
                    },
                    spender: address(&permit["spender"]),
                    nonce: number(&permit["nonce"]),
                    deadline: number(&permit["deadline"]),
                },
            },
            _ => continue,
        };
        found.push((vector, message));
    }
    assert_eq!(found.len(), 3);
    found
}

#[test]
fn signatures_fill_their_places_as_the_official_contract_accepted_them() {
    for (vector, message) in signable() {
        let text = |name: &str| vector[name].as_str().unwrap().to_owned();
        let chain_id = vector["chainId"].as_u64().unwrap();
        assert_eq!(message.digest(chain_id).to_string(), text("digest"), "{}", text("id"));
        let key = SigningKey::new(&SecretKey::from_hex(&text("signerPrivateKey")).unwrap()).unwrap();
        // Calldata that Permit2's own bytecode accepted, with the signature blanked.
        let whole = hex::decode(text("contractCalldata")).unwrap();
        let signature = hex::decode(text("signature")).unwrap();
        let offset = whole.windows(65).position(|window| window == signature).unwrap();
        let mut blank = whole.clone();
        blank[offset..offset + 65].fill(0);

        let mut leg = leg(Address::repeat_byte(7), U256::from(5), blank.into(), 100_000);
        leg.slots = vec![SignatureSlot { offset, message: message.clone() }];
        let account = LocalAccount::locked(key.address());
        let payload =
            account.prepare_payload(proposal(key.address(), chain_id, vec![leg]), &context(chain_id)).unwrap();
        let signed = key.sign(&to_sign(payload, 9)).unwrap();
        let transaction = signed.transaction();
        assert_eq!(transaction.input().as_ref(), whole, "{}", text("id"));
        assert_eq!((signed.from(), signed.chain_id(), signed.nonce()), (key.address(), chain_id, 9));
        assert_eq!((transaction.to(), transaction.value()), (Some(Address::repeat_byte(7)), U256::from(5)));
        assert_eq!((transaction.gas_limit(), transaction.max_fee_per_gas()), (110_000, FEES.max_fee_per_gas));
        assert_eq!(transaction.max_priority_fee_per_gas(), Some(FEES.max_priority_fee_per_gas));
        assert!(transaction.is_dynamic_fee() && transaction.access_list().is_none_or(|list| list.is_empty()));
    }
}

#[test]
fn a_key_rejects_payloads_it_must_not_sign() {
    let (vector, message) = signable().remove(0);
    let key = SigningKey::new(&SecretKey::from_hex(vector["signerPrivateKey"].as_str().unwrap()).unwrap()).unwrap();
    let mut leg = leg(Address::repeat_byte(7), U256::ZERO, vec![0; 200].into(), 100_000);
    leg.slots = vec![SignatureSlot { offset: 100, message }];
    let account = LocalAccount::locked(key.address());
    let payload = account.prepare_payload(proposal(key.address(), 1, vec![leg]), &context(1)).unwrap();
    let good = to_sign(payload, 0);
    assert!(key.sign(&good).is_ok());
    type Change = fn(&mut ToSign);
    let changes: [Change; 6] = [
        |parts| parts.transaction.from = Address::repeat_byte(1),
        |parts| parts.transaction.slots[0].signer = Address::repeat_byte(1),
        |parts| parts.transaction.slots[0].offset = 136,
        |parts| parts.transaction.slots[0].offset = usize::MAX,
        |parts| parts.chain_id = 0,
        |parts| parts.chain_id = 2,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut parts = good.clone();
        change(&mut parts);
        assert!(matches!(key.sign(&parts), Err(SignError::Refused(_))), "change {at}");
    }
}

#[test]
fn a_frame_is_this_accounts_and_this_chains() {
    let own = Address::repeat_byte(3);
    let account = LocalAccount::locked(own);
    let leg = leg(Address::repeat_byte(7), U256::ZERO, Bytes::new(), 21_000);
    let payload = account.prepare_payload(proposal(own, 5, vec![leg.clone()]), &context(5)).unwrap();
    assert_eq!((payload.signer(), payload.payer(), payload.account()), (own, own, own));
    assert_eq!((payload.legs()[0].from, payload.legs()[0].gas_limit), (own, 23_100));
    let other = account.prepare_payload(proposal(Address::ZERO, 5, vec![leg.clone()]), &context(5)).unwrap_err();
    assert!(matches!(other, PayloadError::WrongAccount { .. }), "{other}");
    let elsewhere = account.prepare_payload(proposal(own, 6, vec![leg]), &context(5)).unwrap_err();
    assert!(matches!(elsewhere, PayloadError::WrongChain { chain_id: 6, .. }), "{elsewhere}");
    assert!(account.prepare_payload(proposal(own, 5, Vec::new()), &context(5)).is_err());
    // Cap of one transaction: 2^24 (EIP-7825).
    assert_eq!(
        (with_margin(16_000_000), with_margin(20_000_000), with_margin(u64::MAX)),
        (16_777_216, 20_000_000, u64::MAX)
    );
}

fn chain(chain_id: u64) -> Devnet {
    let chain = ChainConfig { rules: ChainRules::osaka(chain_id), ..ChainConfig::default() };
    Devnet::spawn(DevnetConfig { chain, running: RunningConfig::default() }).unwrap()
}

fn client(network: Network) -> ChainClient {
    let devnet = chain(network.chain_id);
    ChainClient::devnet(network, devnet, Arc::new(SystemClock)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_development_key_is_for_devnets_of_this_machine() {
    let devnets: Vec<ChainClient> =
        [31_337, 31_338].map(|id| client(Network::devnet("ethereum", id, AddressBook::default()))).into();
    let account = DevelopmentAccount::new(0, &devnets).unwrap();
    // First account of the public development mnemonic.
    assert_eq!(account.address().to_string(), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    assert_eq!(DevelopmentAccount::new(0, []).unwrap_err(), NotDevelopmentChain::NoChain);

    let real = client(Network::unknown("mine", 1));
    let claimed = client(Network::unknown("mine", 31_337));
    let disguised = client(Network::devnet("ethereum", 1, AddressBook::default()));
    for refused in [&real, &claimed, &disguised] {
        let error = DevelopmentAccount::new(0, [&devnets[0], refused]).unwrap_err();
        assert!(matches!(error, NotDevelopmentChain::Chain { .. }), "{error}");
    }

    // The same chain over loopback, and again with a second endpoint on another machine (an unused address of RFC
    // 5737).
    let served = server::serve(chain(31_337), 0).await.unwrap();
    let network = Network::devnet("ethereum", 31_337, AddressBook::default());
    let connect = |urls: &[&str]| {
        let plan = ChainPlan {
            name: "ethereum".into(),
            network: Some(network.clone()),
            chain_id: Some(31_337),
            endpoints: urls.iter().map(|url| RpcUrl::parse(url).unwrap()).collect(),
        };
        let quick = Duration::from_millis(300);
        let rules = ConnectRules {
            limits: HttpLimits { connect_timeout: quick, ..HttpLimits::default() },
            ..ConnectRules::default()
        };
        async move { ChainClient::connect(&plan, rules, Arc::new(SystemClock)).await.unwrap() }
    };
    assert!(DevelopmentAccount::new(0, [&connect(&[&served.url()]).await]).is_ok());
    let elsewhere = connect(&[&served.url(), "http://192.0.2.1:8545"]).await;
    let error = DevelopmentAccount::new(0, [&elsewhere]).unwrap_err();
    assert!(matches!(error, NotDevelopmentChain::Elsewhere { .. }), "{error}");
}

#[test]
fn the_development_key_neither_frames_nor_signs_for_another_chain() {
    let devnet = client_outside_runtime();
    let account = DevelopmentAccount::new(0, [&devnet]).unwrap();
    let own = account.address();
    for chain_id in [0, 1, 10, 8_453, 31_336, 31_339, u64::MAX] {
        let leg = leg(Address::repeat_byte(7), U256::ZERO, Bytes::new(), 21_000);
        let refused =
            account.prepare_payload(proposal(own, chain_id, vec![leg.clone()]), &context(chain_id)).unwrap_err();
        assert!(matches!(refused, PayloadError::WrongChain { .. }), "{chain_id}: {refused}");
        // Even with a payload that was prepared by another account, the key itself refuses.
        let payload =
            LocalAccount::locked(own).prepare_payload(proposal(own, chain_id, vec![leg]), &context(chain_id)).unwrap();
        let refused = account.sign_parts(&to_sign(payload, 0)).unwrap_err();
        assert!(matches!(refused, SignError::Refused(_)), "{chain_id}: {refused}");
    }
    for chain_id in [31_337, 31_338] {
        let leg = leg(Address::repeat_byte(7), U256::ZERO, Bytes::new(), 21_000);
        let payload = account.prepare_payload(proposal(own, chain_id, vec![leg]), &context(chain_id)).unwrap();
        assert_eq!(account.sign_parts(&to_sign(payload, 0)).unwrap().from(), own);
    }
}

/// Signing input of the pipeline for the order of a payload.
fn order_to_sign(signer: Address, chain_id: u64) -> OrderToSign {
    let (_, message) = signable().remove(0);
    let order = SignedOrder { message: message.clone(), holder: Address::repeat_byte(8), arrival: None };
    let proposal = Proposal { order: Some(Box::new(order)), ..proposal(signer, chain_id, Vec::new()) };
    let payload = LocalAccount::locked(signer).prepare_payload(proposal, &context(chain_id)).unwrap();
    OrderToSign { payload, message, signer, chain_id }
}

#[test]
fn an_order_is_signed_by_whose_it_is_and_for_the_chain_that_was_checked() {
    let (vector, _) = signable().remove(0);
    let key = SigningKey::new(&SecretKey::from_hex(vector["signerPrivateKey"].as_str().unwrap()).unwrap()).unwrap();
    let good = order_to_sign(key.address(), vector["chainId"].as_u64().unwrap());
    // Signature that the official contract accepted.
    assert_eq!(key.sign_order(&good).unwrap().to_string(), vector["signature"].as_str().unwrap());
    type Change = fn(&mut OrderToSign);
    let changes: [Change; 3] =
        [|parts| parts.signer = Address::repeat_byte(1), |parts| parts.chain_id = 0, |parts| parts.chain_id += 1];
    for (at, change) in changes.into_iter().enumerate() {
        let mut parts = good.clone();
        change(&mut parts);
        assert!(matches!(key.sign_order(&parts), Err(SignError::Refused(_))), "change {at}");
    }
    let nowhere = order_to_sign(key.address(), 0);
    assert!(matches!(key.sign_order(&nowhere), Err(SignError::Refused(_))), "there is no chain 0");
}

/// A wallet server in this process: it signs typed data by its own reading of the JSON, with this key.
#[derive(Debug)]
struct TypedDataSigner {
    key: PrivateKeySigner,
    /// Shifts the hash that is signed, as a server does that changes the message.
    changes: bool,
}

impl WalletServer for TypedDataSigner {
    fn sign<'a>(&'a self, content: ServerContent<'a>) -> BoxFuture<'a, Result<Bytes, ServerFault>> {
        let ServerContent::Typed(typed) = content else { panic!("an order is a message") };
        let read: TypedData = serde_json::from_str(&serde_json::to_string(typed).unwrap()).unwrap();
        let mut hash = read.eip712_signing_hash().unwrap();
        hash.0[31] ^= u8::from(self.changes);
        let signature = self.key.sign_hash_sync(&hash).unwrap();
        Box::pin(async move { Ok(signature.as_bytes().into()) })
    }
}

#[tokio::test]
async fn a_wallet_servers_order_is_the_signature_of_the_account_over_the_checked_message() {
    for (vector, message) in signable() {
        let (chain_id, key) = (vector["chainId"].as_u64().unwrap(), vector["signerPrivateKey"].as_str().unwrap());
        let key: PrivateKeySigner = key.parse().unwrap();
        let address = key.address();
        let mut order = order_to_sign(address, chain_id);
        order.message = message;
        let signed = async |key: PrivateKeySigner, changes: bool| {
            let wallet = ServerWallet::parse("https://wallets.example", "app", "wallet").unwrap().of(address);
            let credential = ServerCredential::new(Password::new("secret".into())).unwrap();
            let opened = ServerKey::new(wallet, credential, SecretKey::generate().unwrap());
            let account = EmbeddedAccount::connected(Arc::new(opened), Arc::new(TypedDataSigner { key, changes }));
            account.sign_order_parts(&order).await
        };
        // Signature that the official contract accepted.
        let honest = signed(key.clone(), false).await.unwrap();
        assert_eq!(honest.to_string(), vector["signature"].as_str().unwrap());
        for (key, changes) in [(key, true), (PrivateKeySigner::random(), false)] {
            let refused = signed(key, changes).await.unwrap_err();
            assert!(matches!(refused, SignError::Unclear(_)), "{refused}");
        }
        let locked = EmbeddedAccount::locked(address).sign_order_parts(&order).await.unwrap_err();
        assert!(matches!(locked, SignError::Locked(_)), "{locked}");
        let another = EmbeddedAccount::locked(address).sign_order_parts(&order_to_sign(Address::ZERO, 1)).await;
        assert!(another.is_err());
    }
}

#[test]
fn the_development_key_signs_no_order_for_another_chain() {
    let account = DevelopmentAccount::new(0, [&client_outside_runtime()]).unwrap();
    for chain_id in [1, 10, 8_453, 31_336, 31_339, u64::MAX] {
        let refused = account.sign_order_parts(&order_to_sign(account.address(), chain_id)).unwrap_err();
        assert!(matches!(refused, SignError::Refused(_)), "{chain_id}: {refused}");
    }
    for chain_id in [31_337, 31_338] {
        assert!(account.sign_order_parts(&order_to_sign(account.address(), chain_id)).is_ok(), "{chain_id}");
    }
}

/// The client of a devnet needs a runtime for its watcher; the account does not.
fn client_outside_runtime() -> ChainClient {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    client(Network::devnet("ethereum", 31_337, AddressBook::default()))
}

#[test]
fn accounts_print_no_secret() {
    let text = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    let key = SigningKey::new(&SecretKey::from_hex(text).unwrap()).unwrap();
    let printed =
        format!("{key:?} {:?}", LocalAccount::open(SigningKey::new(&SecretKey::from_hex(text).unwrap()).unwrap()));
    assert!(!printed.contains(text) && !printed.contains(&text[..16]), "{printed}");
}
