//! Signatures of new wallets.

use alloy::primitives::{B256, Bytes};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;

use super::*;
use golem_protocols::erc8004::{AgentRegistry, WalletChange};

const UNSIGNED: &str = "the new wallet has not signed this change";

struct Case {
    field: Field,
    agent: U256,
    signer: PrivateKeySigner,
}

impl Case {
    fn new() -> Self {
        let mut field = Field::new();
        let agent = field.register(OWNER, "ipfs://a");
        let signer = PrivateKeySigner::from_bytes(&B256::repeat_byte(0x77)).unwrap();
        Self { field, agent, signer }
    }

    /// The change to the signer's account, with a deadline of `seconds` after the next block.
    fn change(&self, seconds: i64) -> WalletChange {
        WalletChange {
            registry: AgentRegistry { chain_id: 31_337, address: self.field.identity },
            agent: self.agent,
            new_wallet: self.signer.address(),
            owner: OWNER,
            deadline: self.field.next_time().saturating_add_signed(seconds),
        }
    }

    fn sign(&self, change: &WalletChange) -> Bytes {
        self.signer.sign_hash_sync(&change.digest()).unwrap().as_bytes().into()
    }

    /// Sends what `sent` says, with a signature of what `signed` says.
    fn submit(&mut self, sender: Address, sent: &WalletChange, signed: &WalletChange) -> Outcome {
        let signature = self.sign(signed);
        self.field.send(sender, self.field.identity, sent.calldata(signature))
    }
}

#[test]
fn a_wallet_is_set_by_its_own_signature() {
    let mut case = Case::new();
    let change = case.change(300);
    let logs = case.submit(OWNER, &change, &change).unwrap();
    assert_eq!(logs.len(), 1);
    assert_eq!(case.field.wallet(case.agent), change.new_wallet);
    let call = IdentityRegistry::getMetadataCall { agentId: case.agent, metadataKey: "agentWallet".to_owned() };
    let stored = case.field.read(case.field.identity, call).unwrap();
    assert_eq!(stored[..], change.new_wallet[..]);
    // The last moment of the deadline counts, and an operator may send it.
    case.field.set_operator(OWNER, CLIENT, true);
    let change = case.change(0);
    case.submit(CLIENT, &change, &change).unwrap();
}

#[test]
fn a_signature_counts_only_in_its_time() {
    let mut case = Case::new();
    let late = case.change(-1);
    rejected(case.submit(OWNER, &late, &late), "the signature's deadline has passed");
    let early = case.change(301);
    rejected(case.submit(OWNER, &early, &early), "the signature's deadline is too far ahead");
    let change = case.change(120);
    case.field.chain.increase_time(121);
    rejected(case.submit(OWNER, &change, &change), "the signature's deadline has passed");
    assert_eq!(case.field.wallet(case.agent), OWNER);
}

#[test]
fn a_signature_for_anything_else_is_rejected() {
    let mut case = Case::new();
    let other_agent = case.field.register(OWNER, "ipfs://b");
    let sent = case.change(200);
    let elsewhere = AgentRegistry { address: case.field.reputation, ..sent.registry };
    let other_chain = AgentRegistry { chain_id: 31_338, ..sent.registry };
    for signed in [
        WalletChange { agent: other_agent, ..sent },
        WalletChange { owner: CLIENT, ..sent },
        WalletChange { deadline: sent.deadline + 1, ..sent },
        WalletChange { new_wallet: CLIENT, ..sent },
        WalletChange { registry: elsewhere, ..sent },
        WalletChange { registry: other_chain, ..sent },
    ] {
        rejected(case.submit(OWNER, &sent, &signed), UNSIGNED);
    }
    // The owner's or a stranger's signature is not the wallet's.
    let stranger = WalletChange { new_wallet: CLIENT, ..sent };
    rejected(case.submit(OWNER, &stranger, &stranger), UNSIGNED);
    let nobody = WalletChange { new_wallet: Address::ZERO, ..sent };
    rejected(case.submit(OWNER, &nobody, &nobody), "the new wallet is the zero address");
    // The wallet itself may not send its own signature.
    rejected(case.submit(CLIENT, &sent, &sent), "the caller is neither the agent's owner nor an operator");
    assert_eq!(case.field.wallet(case.agent), OWNER);
}

#[test]
fn a_signature_ends_with_the_owner_it_was_made_for() {
    let mut case = Case::new();
    let change = case.change(250);
    case.submit(OWNER, &change, &change).unwrap();
    case.field.transfer(OWNER, CLIENT, case.agent).unwrap();
    assert_eq!(case.field.wallet(case.agent), Address::ZERO);
    rejected(case.submit(CLIENT, &change, &change), UNSIGNED);
    rejected(case.submit(OWNER, &change, &change), "the caller is neither the agent's owner nor an operator");
    let renewed = WalletChange { owner: CLIENT, ..change };
    case.submit(CLIENT, &renewed, &renewed).unwrap();
    assert_eq!(case.field.wallet(case.agent), change.new_wallet);
}

#[test]
fn malformed_signatures_have_their_own_errors() {
    let mut case = Case::new();
    let change = case.change(250);
    let good = case.sign(&change);
    let send = |case: &mut Case, signature: Vec<u8>| {
        case.field.send(OWNER, case.field.identity, change.calldata(signature.into()))
    };
    for length in [0_usize, 64, 66] {
        let mut cut = good.to_vec();
        cut.resize(length, 0);
        failed(send(&mut case, cut), Errors::ECDSAInvalidSignatureLength { length: U256::from(length) });
    }
    let mut wrong_v = good.to_vec();
    wrong_v[64] = 29;
    failed(send(&mut case, wrong_v), Errors::ECDSAInvalidSignature {});
    // The other solution of the same curve point: s is n - s, and v is flipped.
    let order = U256::from_str_radix("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16).unwrap();
    let mirrored = order - U256::from_be_slice(&good[32..64]);
    let flipped = 55 - good[64];
    let malleable = [&good[..32], &mirrored.to_be_bytes::<32>(), &[flipped]].concat();
    failed(send(&mut case, malleable), Errors::ECDSAInvalidSignatureS { s: mirrored.into() });
    assert_eq!(case.field.wallet(case.agent), OWNER);
}

#[test]
fn a_contract_decides_by_erc_1271() {
    // Returns a word: its argument is the word's first four bytes.
    let answering = |word: [u8; 4]| {
        let mut code = vec![0x63];
        code.extend(word);
        code.extend([0x60, 0xe0, 0x1b, 0x5f, 0x52, 0x60, 0x20, 0x5f, 0xf3]);
        Bytes::from(code)
    };
    let mut case = Case::new();
    let wallet = Address::repeat_byte(0xc8);
    let mut change = case.change(250);
    change.new_wallet = wallet;
    let mut submit = |code: Bytes| {
        case.field.chain.set_code(wallet, code).unwrap();
        case.field.send(OWNER, case.field.identity, change.calldata(Bytes::from_static(b"anything")))
    };
    rejected(submit(answering([0xff, 0xff, 0xff, 0xff])), UNSIGNED);
    rejected(submit(Bytes::from_static(&[0x5f, 0x5f, 0xfd])), UNSIGNED); // reverts
    rejected(submit(Bytes::from_static(&[0x00])), UNSIGNED); // answers nothing
    rejected(
        submit(Bytes::from_static(&[0x63, 0x16, 0x26, 0xba, 0x7e, 0x5f, 0x52, 0x60, 4, 0x60, 28, 0xf3])),
        UNSIGNED,
    );
    // It may not change anything while it decides.
    rejected(
        submit(Bytes::from_static(&[
            0x60, 1, 0x5f, 0x55, 0x63, 0x16, 0x26, 0xba, 0x7e, 0x60, 0xe0, 0x1b, 0x5f, 0x52, 0x60, 0x20, 0x5f, 0xf3,
        ])),
        UNSIGNED,
    );
    submit(answering([0x16, 0x26, 0xba, 0x7e])).unwrap();
    assert_eq!(case.field.wallet(case.agent), wallet);
}

#[test]
fn a_delegated_account_signs_with_its_key() {
    let mut case = Case::new();
    let delegation = [&[0xef, 0x01, 0x00][..], Address::repeat_byte(0xdd).as_slice()].concat();
    case.field.chain.set_code(case.signer.address(), delegation.into()).unwrap();
    let change = case.change(250);
    let other = WalletChange { owner: OTHER, ..change };
    rejected(case.submit(OWNER, &change, &other), UNSIGNED);
    case.submit(OWNER, &change, &change).unwrap();
    assert_eq!(case.field.wallet(case.agent), change.new_wallet);
}
