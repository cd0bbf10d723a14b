//! Tests of the chain's rules, compared with the EIPs and with direct calculation.

use alloy::consensus::{SignableTransaction, TxEip1559, TxEip7702, TxEnvelope, TxLegacy};
use alloy::eips::eip7702::Authorization;
use alloy::eips::{BlockId, Encodable2718};
use alloy::primitives::{Address, B256, Bloom, BloomInput, Bytes, TxKind, U256, address, bytes, keccak256};
use alloy::rpc::types::{TransactionInput, TransactionRequest};
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;

use super::block::{ChainTransaction, ExecutionFailure};
use super::chain::{Chain, ChainConfig};
use super::error::{BlockError, CallError, SubmitError};
use super::events::ChainEvent;

const GWEI: u128 = 1_000_000_000;
const ETHER: u128 = 1_000_000_000_000_000_000;
const BOB: Address = Address::repeat_byte(0xb0);
const COINBASE: Address = Address::repeat_byte(0xc0);

fn alice() -> PrivateKeySigner {
    // The first account of the development mnemonic.
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80".parse().expect("a key")
}

fn chain() -> Chain {
    let config = ChainConfig {
        balances: vec![(alice().address(), U256::from(100 * ETHER))],
        coinbase: COINBASE,
        ..Default::default()
    };
    Chain::new(config).expect("a sound genesis")
}

fn transfer(nonce: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id: 31_337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 10 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to: TxKind::Call(BOB),
        value: U256::from(5),
        ..Default::default()
    }
}

fn sign<T: SignableTransaction<alloy::primitives::Signature>>(signer: &PrivateKeySigner, tx: T) -> ChainTransaction
where
    TxEnvelope: From<alloy::consensus::Signed<T>>,
{
    let signature = signer.sign_hash_sync(&tx.signature_hash()).expect("signs");
    ChainTransaction::signed(tx.into_signed(signature).into()).expect("recovers")
}

fn create(chain: &mut Chain, code: &Bytes) -> Address {
    // Init code that returns the code after it: PUSH2 len, DUP1, PUSH1 11, PUSH0, CODECOPY, ...
    let [high, low] = u16::try_from(code.len()).expect("short").to_be_bytes();
    let mut init = vec![0x61, high, low, 0x80, 0x60, 0x0b, 0x5f, 0x39, 0x5f, 0xf3, 0x00];
    init.extend_from_slice(code);
    let nonce = chain.pending_nonce(alice().address());
    let tx = TxEip1559 {
        to: TxKind::Create,
        input: init.into(),
        gas_limit: 1_000_000,
        value: U256::ZERO,
        ..transfer(nonce)
    };
    chain.submit(sign(&alice(), tx)).expect("taken");
    let block = chain.mine();
    assert!(block.receipts[0].is_success(), "{:?}", block.receipts[0]);
    block.receipts[0].contract_address.expect("an address")
}

fn request(to: Address, input: impl Into<Bytes>) -> TransactionRequest {
    TransactionRequest {
        from: Some(alice().address()),
        to: Some(TxKind::Call(to)),
        input: TransactionInput::new(input.into()),
        ..Default::default()
    }
}

#[test]
fn a_transfer_moves_value_and_pays_base_fee_and_tip() {
    let mut chain = chain();
    let hash = chain.submit(sign(&alice(), transfer(0))).expect("taken");
    let block = chain.mine();
    assert_eq!((block.number(), block.transactions[0].hash), (1, hash));
    assert_eq!(block.receipts[0].gas_used, 21_000);
    assert_eq!(block.receipts[0].effective_gas_price, 2 * GWEI);
    assert_eq!(chain.state().balance(BOB), U256::from(5));
    assert_eq!(chain.state().balance(COINBASE), U256::from(21_000 * GWEI));
    assert_eq!(chain.state().balance(alice().address()), U256::from(100 * ETHER - 5 - 21_000 * 2 * GWEI));
    assert_eq!(chain.state().nonce(alice().address()), 1);
    // EIP-1559: 21,000 gas with a target of 15,000,000 lowers the fee by nearly an eighth.
    let fall = 1_000_000_000_u64 * (15_000_000 - 21_000) / 15_000_000 / 8;
    assert_eq!(chain.next_base_fee(), 1_000_000_000 - fall);
    assert_eq!(chain.transaction(hash).expect("found").block.hash, block.hash);
}

#[test]
fn the_pool_refuses_what_a_node_refuses() {
    let mut chain = chain();
    let me = alice().address();
    let mut refuse = |tx: TxEip1559| chain.submit(sign(&alice(), tx)).expect_err("refused");
    assert_eq!(refuse(TxEip1559 { chain_id: 1, ..transfer(0) }), SubmitError::WrongChain { have: 1, want: 31_337 });
    assert_eq!(
        refuse(TxEip1559 { gas_limit: 20_999, ..transfer(0) }),
        SubmitError::IntrinsicGasTooLow { gas: 20_999, minimum: 21_000 }
    );
    // 1000 nonzero bytes at 16 gas each cost 37,000; the floor of EIP-7623 is 21,000 + 40 each.
    assert_eq!(
        refuse(TxEip1559 { gas_limit: 40_000, input: vec![1; 1_000].into(), ..transfer(0) }),
        SubmitError::FloorGasTooLow { gas: 40_000, minimum: 61_000 }
    );
    assert_eq!(
        refuse(TxEip1559 { gas_limit: 16_777_217, ..transfer(0) }),
        SubmitError::ExceedsTransactionGasCap { gas: 16_777_217, cap: 16_777_216 }
    );
    assert_eq!(
        refuse(TxEip1559 { gas_limit: 30_000_001, ..transfer(0) }),
        SubmitError::ExceedsBlockGasLimit { gas: 30_000_001, limit: 30_000_000 }
    );
    assert_eq!(
        refuse(TxEip1559 { max_fee_per_gas: 1, max_priority_fee_per_gas: 0, ..transfer(0) }),
        SubmitError::FeeCapTooLow { fee_cap: 1, base_fee: 1_000_000_000 }
    );
    assert_eq!(
        refuse(TxEip1559 { max_fee_per_gas: 2 * GWEI, max_priority_fee_per_gas: 3 * GWEI, ..transfer(0) }),
        SubmitError::TipAboveFeeCap { tip: 3 * GWEI, fee_cap: 2 * GWEI }
    );
    let want = U256::from(100 * ETHER + 1) + U256::from(21_000 * 10 * GWEI);
    assert_eq!(
        refuse(TxEip1559 { value: U256::from(100 * ETHER + 1), ..transfer(0) }),
        SubmitError::InsufficientFunds { address: me, have: U256::from(100 * ETHER), want }
    );
    chain.submit(sign(&alice(), transfer(0))).expect("taken");
    assert_eq!(chain.submit(sign(&alice(), transfer(0))), Err(SubmitError::AlreadyKnown));
    chain.mine();
    assert_eq!(chain.submit(sign(&alice(), transfer(0))), Err(SubmitError::AlreadyKnown));
    let other = TxEip1559 { value: U256::from(6), ..transfer(0) };
    assert_eq!(chain.submit(sign(&alice(), other)), Err(SubmitError::NonceTooLow { next: 1, nonce: 0 }));
    assert_eq!(chain.submit_raw(&[0x02, 0xc0]), Err(SubmitError::Malformed));
    let mut trailing = sign(&alice(), transfer(1)).envelope.encoded_2718();
    trailing.push(0);
    assert_eq!(chain.submit_raw(&trailing), Err(SubmitError::Malformed));
    assert_eq!(chain.number(), 1);
}

#[test]
fn a_replacement_must_pay_a_tenth_more() {
    let mut chain = chain();
    chain.submit(sign(&alice(), transfer(0))).expect("taken");
    let bump = |cap: u128, tip: u128| TxEip1559 {
        max_fee_per_gas: cap,
        max_priority_fee_per_gas: tip,
        value: U256::from(7),
        ..transfer(0)
    };
    let cheap = sign(&alice(), bump(11 * GWEI, GWEI + GWEI / 10 - 1));
    assert_eq!(chain.submit(cheap), Err(SubmitError::ReplacementUnderpriced));
    chain.submit(sign(&alice(), bump(11 * GWEI, GWEI + GWEI / 10))).expect("taken");
    assert_eq!(chain.pool().len(), 1);
    chain.mine();
    assert_eq!(chain.state().balance(BOB), U256::from(7));
}

#[test]
fn nonces_wait_for_their_turn_and_tips_decide_the_order() {
    let mut chain = chain();
    let carol = PrivateKeySigner::from_slice(&[7; 32]).expect("a key");
    chain.set_balance(carol.address(), U256::from(ETHER));
    chain.submit(sign(&alice(), transfer(1))).expect("waits");
    assert!(!chain.has_ready());
    assert_eq!(chain.pending_nonce(alice().address()), 0);
    assert!(chain.mine().transactions.is_empty());
    chain.submit(sign(&alice(), transfer(0))).expect("taken");
    assert_eq!(chain.pending_nonce(alice().address()), 2);
    chain.submit(sign(&carol, TxEip1559 { max_priority_fee_per_gas: 2 * GWEI, ..transfer(0) })).expect("taken");
    let senders: Vec<Address> = chain.mine().transactions.iter().map(|transaction| transaction.sender).collect();
    assert_eq!(senders, [carol.address(), alice().address(), alice().address()]);
    assert!(chain.pool().is_empty());
}

#[test]
fn a_reverted_transaction_costs_gas_and_its_nonce_and_logs_nothing() {
    let mut chain = chain();
    // LOG0 with no data, then REVERT with one word, 7.
    let reverter = create(&mut chain, &bytes!("5f5fa060075f5260205ffd"));
    let before = chain.state().balance(alice().address());
    let tx = TxEip1559 { to: TxKind::Call(reverter), gas_limit: 100_000, ..transfer(1) };
    chain.submit(sign(&alice(), tx)).expect("taken");
    let block = chain.mine();
    let receipt = &block.receipts[0];
    let seven = Bytes::from(B256::with_last_byte(7));
    assert_eq!(receipt.failure, Some(ExecutionFailure::Reverted(seven.clone())));
    assert!(receipt.logs().is_empty());
    assert!(receipt.gas_used > 21_000 && receipt.gas_used < 100_000);
    let fee = U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price);
    assert_eq!(chain.state().balance(alice().address()), before - fee);
    assert_eq!(chain.state().nonce(alice().address()), 2);
    let call = chain.call(&request(reverter, Bytes::new()), BlockId::latest(), None, None);
    assert_eq!(call, Err(CallError::Reverted(seven)));
}

#[test]
fn logs_go_into_the_bloom_and_are_numbered_across_the_block() {
    let mut chain = chain();
    // LOG1 with no data and topic 0x2a.
    let logger = create(&mut chain, &bytes!("602a5f5fa100"));
    for nonce in 1..=2 {
        let tx = TxEip1559 { to: TxKind::Call(logger), gas_limit: 100_000, ..transfer(nonce) };
        chain.submit(sign(&alice(), tx)).expect("taken");
    }
    let block = chain.mine();
    let topic = B256::with_last_byte(0x2a);
    assert_eq!(block.receipts.iter().map(|receipt| receipt.first_log_index).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(block.receipts[1].logs()[0].topics(), [topic]);
    let mut bloom = Bloom::default();
    bloom.accrue(BloomInput::Raw(logger.as_slice()));
    bloom.accrue(BloomInput::Raw(topic.as_slice()));
    assert_eq!(block.header.logs_bloom, bloom);
    assert_eq!(block.header.gas_used, block.receipts.iter().map(|receipt| receipt.gas_used).sum::<u64>());
}

#[test]
fn contracts_land_where_the_sender_and_nonce_put_them() {
    let mut chain = chain();
    let at = create(&mut chain, &bytes!("00"));
    // keccak(rlp([sender, 0]))[12..], the well-known first contract address of the development mnemonic.
    assert_eq!(at, address!("5FbDB2315678afecb367f032d93F642f64180aa3"));
    assert_eq!(chain.state().code(at), bytes!("00"));
    assert_eq!(chain.state().nonce(at), 1);
}

#[test]
fn a_delegation_is_written_as_eip_7702_says() {
    let mut chain = chain();
    let target = create(&mut chain, &bytes!("602a5f5260205ff3"));
    let owner = PrivateKeySigner::from_slice(&[9; 32]).expect("a key");
    let authorization = Authorization { chain_id: U256::from(31_337), address: target, nonce: 0 };
    let signature = owner.sign_hash_sync(&authorization.signature_hash()).expect("signs");
    let tx = TxEip7702 {
        chain_id: 31_337,
        nonce: 1,
        gas_limit: 200_000,
        max_fee_per_gas: 10 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to: owner.address(),
        authorization_list: vec![authorization.into_signed(signature)],
        ..Default::default()
    };
    let empty = TxEip7702 { authorization_list: Vec::new(), ..tx.clone() };
    assert_eq!(chain.submit(sign(&alice(), empty)), Err(SubmitError::EmptyAuthorizationList));
    chain.submit(sign(&alice(), tx)).expect("taken");
    assert!(chain.mine().receipts[0].is_success());
    let designator = [&[0xef, 0x01, 0x00], target.as_slice()].concat();
    assert_eq!(chain.state().code(owner.address()), Bytes::from(designator));
    assert_eq!(chain.state().nonce(owner.address()), 1);
    let answer = chain.call(&request(owner.address(), Bytes::new()), BlockId::latest(), None, None).expect("runs");
    assert_eq!(answer.output, Bytes::from(B256::with_last_byte(0x2a)));
    // An account with a delegation may still send; a contract may not.
    chain.set_balance(owner.address(), U256::from(ETHER));
    chain.submit(sign(&owner, transfer(1))).expect("an account with a delegation may send");
    chain.set_code(owner.address(), bytes!("00")).expect("plain code");
    chain.drop_transaction(sign(&owner, transfer(1)).hash);
    assert_eq!(chain.submit(sign(&owner, transfer(1))), Err(SubmitError::SenderHasCode(owner.address())));
}

#[test]
fn old_transactions_without_a_chain_id_are_taken() {
    let mut chain = chain();
    let tx = TxLegacy {
        gas_price: 2 * GWEI,
        gas_limit: 21_000,
        to: TxKind::Call(BOB),
        value: U256::from(1),
        ..Default::default()
    };
    chain.submit(sign(&alice(), tx)).expect("taken");
    assert!(chain.mine().receipts[0].is_success());
}

#[test]
fn contracts_see_block_hashes_by_opcode_and_by_eip_2935() {
    let mut chain = chain();
    let first = chain.mine().hash;
    // Returns BLOCKHASH(1).
    let opcode = create(&mut chain, &bytes!("6001405f5260205ff3"));
    let answer = chain.call(&request(opcode, Bytes::new()), BlockId::latest(), None, None).expect("runs");
    assert_eq!(answer.output, Bytes::from(first));
    let history = address!("0000F90827F1C53a10cb7A02335B175320002935");
    let question = Bytes::from(B256::with_last_byte(1));
    let answer = chain.call(&request(history, question), BlockId::latest(), None, None).expect("runs");
    assert_eq!(answer.output, Bytes::from(first));
}

#[test]
fn a_call_that_sets_storage_changes_nothing_else() {
    let mut chain = chain();
    // PUSH1 7 CALLER SSTORE, then the input's first byte: a log without topics if it is zero, else a revert.
    let code = bytes!("600733555f355f1a600f575f5fa0005b5f5ffd");
    let contract = create(&mut chain, &code);
    let sender = alice().address();
    let slot = U256::from_be_slice(sender.as_slice());
    let before = (chain.head().hash, chain.state().nonce(sender), chain.state().balance(sender));

    chain.set_storage_by_call(&request(contract, bytes!("01"))).expect_err("it reverts");
    assert_eq!(chain.state().storage_at(contract, slot), U256::ZERO);
    chain.set_storage_by_call(&request(contract, Bytes::new())).expect("it stores");
    assert_eq!(chain.state().storage_at(contract, slot), U256::from(7));
    assert_eq!((chain.head().hash, chain.state().nonce(sender), chain.state().balance(sender)), before);
    assert!(chain.pool().is_empty());
    // The newest block and the next one both show it.
    assert_eq!(chain.view(BlockId::latest()).expect("kept").state.storage_at(contract, slot), U256::from(7));
    let next = chain.mine();
    assert!(next.transactions.is_empty());
    assert_eq!(chain.state().storage_at(contract, slot), U256::from(7));
}

#[test]
fn recent_states_stay_readable_and_old_ones_say_so() {
    let mut config = ChainConfig { balances: vec![(alice().address(), U256::from(100 * ETHER))], ..Default::default() };
    config.history.states = 3;
    let mut chain = Chain::new(config).expect("a sound genesis");
    for nonce in 0..5 {
        chain.submit(sign(&alice(), transfer(nonce))).expect("taken");
        chain.mine();
    }
    assert_eq!(chain.view(BlockId::number(4)).expect("kept").state.balance(BOB), U256::from(20));
    assert_eq!(
        chain.view(BlockId::number(2)).expect_err("gone"),
        BlockError::StatePruned { number: 2, oldest: 3, head: 5 }
    );
    assert_eq!(
        chain.view(BlockId::number(6)).expect_err("not yet"),
        BlockError::NotFound { asked: BlockId::number(6), head: 5 }
    );
}

#[test]
fn the_pending_state_includes_pooled_transactions() {
    let mut chain = chain();
    chain.submit(sign(&alice(), transfer(0))).expect("taken");
    let pending = chain.view(BlockId::pending()).expect("there");
    assert_eq!(pending.state.balance(BOB), U256::from(5));
    assert_eq!(pending.context.number, 1);
    assert_eq!(chain.state().balance(BOB), U256::ZERO);
    // The mined block has the predicted context.
    assert_eq!(chain.mine().context(), pending.context);
}

#[test]
fn a_snapshot_restores_everything() {
    let mut chain = chain();
    chain.submit(sign(&alice(), transfer(0))).expect("taken");
    chain.mine();
    let id = chain.save();
    let (hash, base_fee) = (chain.head().hash, chain.next_base_fee());
    let events = chain.journal().end();
    chain.submit(sign(&alice(), transfer(1))).expect("taken");
    let gone = chain.mine();
    chain.set_balance(BOB, U256::from(1_000));
    assert!(chain.revert(id));
    assert!(!chain.revert(id), "a snapshot serves once");
    assert_eq!((chain.head().hash, chain.next_base_fee()), (hash, base_fee));
    assert_eq!(chain.state().balance(BOB), U256::from(5));
    assert!(chain.transaction(gone.transactions[0].hash).is_none());
    let told: Vec<_> = chain.journal().since(events).expect("kept").skip(2).collect();
    assert!(matches!(told.as_slice(), [ChainEvent::Removed(block)] if block.hash == gone.hash));
    chain.submit(sign(&alice(), transfer(1))).expect("taken again");
    assert_eq!(chain.mine().hash, gone.hash, "the same past has the same future");
}

#[test]
fn a_reorganisation_replaces_blocks_and_returns_what_it_dropped() {
    let mut chain = chain();
    for nonce in 0..3 {
        chain.submit(sign(&alice(), transfer(nonce))).expect("taken");
        chain.mine();
    }
    let old: Vec<B256> = chain.blocks(1, 3).map(|block| block.hash).collect();
    let other = sign(&alice(), TxEip1559 { value: U256::from(50), ..transfer(1) });
    let other_hash = other.hash;
    let events = chain.journal().end();
    let reorg = chain.reorg(2, vec![(other, 1)]).expect("two blocks");
    assert_eq!(chain.number(), 3);
    assert_eq!(chain.state().balance(BOB), U256::from(55));
    assert_eq!(chain.block(BlockId::number(1)).expect("kept").hash, old[0]);
    assert!(chain.block(BlockId::hash(old[1])).is_none() && chain.block(BlockId::hash(old[2])).is_none());
    assert_eq!(reorg.removed.iter().map(|block| block.hash).collect::<Vec<_>>(), old[1..]);
    assert_eq!(reorg.dropped.len(), 2);
    assert!(reorg.dropped.iter().all(|transaction| chain.transaction(transaction.hash).is_none()));
    assert_eq!(chain.transaction(other_hash).expect("mined").block.number(), 3);
    let told: Vec<&ChainEvent> = chain.journal().since(events).expect("kept").collect();
    let numbers: Vec<(bool, u64)> = told
        .iter()
        .filter_map(|event| match event {
            ChainEvent::Removed(block) => Some((true, block.number())),
            ChainEvent::Added(block) => Some((false, block.number())),
            ChainEvent::Pending(_) | ChainEvent::Missed(_) => None,
        })
        .collect();
    assert_eq!(numbers, [(true, 3), (true, 2), (false, 2), (false, 3)]);
    for pair in chain.blocks(0, 3).collect::<Vec<_>>().windows(2) {
        assert_eq!(pair[1].header.parent_hash, pair[0].hash);
        assert!(pair[1].header.timestamp > pair[0].header.timestamp);
    }
    // An empty block that replaces an empty one has another hash.
    let empty = chain.mine().hash;
    chain.reorg(1, Vec::new()).expect("one block");
    assert_ne!(chain.head().hash, empty);
    let head = chain.head().hash;
    let bad = sign(&alice(), TxEip1559 { nonce: 0, value: U256::from(1), ..transfer(0) });
    chain.reorg(1, vec![(bad, 0)]).expect_err("nonce 0 was used before");
    assert_eq!(chain.head().hash, head, "what failed changed nothing");
}

#[test]
fn estimates_suffice_and_are_close() {
    let mut chain = chain();
    assert_eq!(chain.estimate_gas(&request(BOB, Bytes::new()), BlockId::latest(), None, None), Ok(21_000));
    // Writes 1 to slot 0, then clears it: because of the refund, less gas is charged than is needed.
    let refunder = create(&mut chain, &bytes!("60015f555f5f5500"));
    // Calls that contract with all gas, and reverts if it fails: the estimate must cover the 63/64 rule.
    let mut code = bytes!("5f5f5f5f5f73").to_vec();
    code.extend_from_slice(refunder.as_slice());
    code.extend_from_slice(&bytes!("5af1601e5760006000fd5b00")[..]);
    // Jump target: the JUMPDEST at offset 36 of the 6 + 20 + 12 bytes.
    let at = code.len() - 2;
    let jump = code.len() - 9;
    code[jump] = u8::try_from(at).expect("short");
    let caller = create(&mut chain, &code.into());
    for target in [refunder, caller] {
        let request = request(target, Bytes::new());
        let estimate = chain.estimate_gas(&request, BlockId::latest(), None, None).expect("runs");
        let with = |gas: u64| {
            chain.call(&TransactionRequest { gas: Some(gas), ..request.clone() }, BlockId::latest(), None, None)
        };
        with(estimate).expect("the estimate suffices");
        with(estimate * 96 / 100).expect_err("it is not far too much");
    }
    let reverter = create(&mut chain, &bytes!("5f5ffd"));
    let bad = chain.estimate_gas(&request(reverter, Bytes::new()), BlockId::latest(), None, None);
    assert!(matches!(bad, Err(CallError::Reverted(_))), "{bad:?}");
    // An endless loop.
    let endless = create(&mut chain, &bytes!("5b5f56"));
    let bad = chain.estimate_gas(&request(endless, Bytes::new()), BlockId::latest(), None, None);
    assert_eq!(bad, Err(CallError::GasExceedsAllowance(16_777_216)));
}

#[test]
fn access_lists_contain_cold_accounts_and_slots() {
    let mut chain = chain();
    let other = create(&mut chain, &bytes!("5f5460015500"));
    // Reads slot 3 and calls `other`.
    let mut code = bytes!("600354505f5f5f5f5f73").to_vec();
    code.extend_from_slice(other.as_slice());
    code.extend_from_slice(&[0x5a, 0xf1, 0x00]);
    let caller = create(&mut chain, &code.into());
    let found = chain.create_access_list(&request(caller, Bytes::new()), BlockId::latest(), None).expect("runs");
    let slot = B256::with_last_byte;
    let mut expected = vec![(caller, vec![slot(3)]), (other, vec![slot(0), slot(1)])];
    expected.sort();
    let items: Vec<_> = found.access_list.0.into_iter().map(|item| (item.address, item.storage_keys)).collect();
    assert_eq!(items, expected);
    assert_eq!(found.failure, None);
}

#[test]
fn unsigned_sends_need_impersonation_and_get_their_gaps_filled() {
    let mut chain = chain();
    let whale = Address::repeat_byte(0x77);
    chain.set_balance(whale, U256::from(ETHER));
    chain.set_code(whale, bytes!("00")).expect("plain code");
    let send = TransactionRequest {
        from: Some(whale),
        to: Some(TxKind::Call(BOB)),
        value: Some(U256::from(9)),
        ..Default::default()
    };
    assert_eq!(chain.send(send.clone()), Err(SubmitError::NotImpersonated(whale)));
    chain.set_impersonated(whale, true);
    let hash = chain.send(send).expect("taken");
    let block = chain.mine();
    assert_eq!(block.transactions[0].hash, hash);
    assert!(block.receipts[0].is_success());
    assert_eq!(chain.state().balance(BOB), U256::from(9));
}

#[test]
fn an_idle_chain_keeps_its_minimum_base_fee() {
    let config = ChainConfig { least_base_fee: 900_000_000, ..Default::default() };
    let mut chain = Chain::new(config).expect("a sound genesis");
    let fees: Vec<u64> = (0..3).map(|_| chain.mine().context().base_fee).collect();
    assert_eq!(fees, [1_000_000_000, 900_000_000, 900_000_000]);
}

#[test]
fn endless_calls_end() {
    let mut chain = chain();
    let endless = create(&mut chain, &bytes!("5b5f56"));
    let greedy = TransactionRequest { gas: Some(u64::MAX), ..request(endless, Bytes::new()) };
    let answer = chain.call(&greedy, BlockId::latest(), None, None);
    assert!(matches!(answer, Err(CallError::Halted(_))), "{answer:?}");
}

#[test]
fn fee_history_ends_with_the_next_base_fee() {
    let mut chain = chain();
    chain.submit(sign(&alice(), transfer(0))).expect("taken");
    chain.mine();
    let history = chain.fee_history(10, BlockId::latest(), &[50.0]).expect("there");
    assert_eq!(history.oldest_block, 0);
    let fees: Vec<u128> = vec![GWEI, GWEI, u128::from(chain.next_base_fee())];
    assert_eq!(history.base_fee_per_gas, fees);
    assert_eq!(history.gas_used_ratio, [0.0, 21_000.0 / 30_000_000.0]);
    assert_eq!(history.reward, Some(vec![vec![0], vec![GWEI]]));
}

#[test]
fn two_chains_of_the_same_history_are_the_same() {
    let play = || {
        let mut chain = chain();
        create(&mut chain, &bytes!("5f5460015500"));
        chain.submit(sign(&alice(), transfer(1))).expect("taken");
        chain.increase_time(3_600);
        chain.mine().hash
    };
    assert_eq!(play(), play());
}

#[test]
fn transaction_hashes_are_of_the_signed_bytes() {
    let transaction = sign(&alice(), transfer(0));
    assert_eq!(transaction.hash, keccak256(transaction.envelope.encoded_2718()));
    assert_eq!(transaction.sender, alice().address());
}
