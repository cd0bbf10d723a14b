//! A Safe on the test chain, of a key of its own and of the fixture's account, which changes it from outside.

use std::sync::Arc;

use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::SolCall;
use bardo_abi::erc20::OpenMint;
use bardo_abi::safe::Safe;
use bardo_base::secret::Password;
use bardo_safety::custody::{
    DevelopmentAccount, KeyName, Keystore, LedgerId, LocalAccount, SafeAccount, SafeOwnerKey, SafeState, SecretKey,
};
use bardo_sandbox::contracts;
use bardo_sandbox::safes::DevnetSafe;
use golem_chain::devnet::Chain;

use crate::harness::TestHarness;

/// USDC of a Safe at the start, in raw units: 10,000.
const USDC: u64 = 10_000_000_000;

/// A Safe with 10,000 USDC and ten native tokens, whose acting owner has native tokens for gas.
pub struct TestSafe {
    /// Address of the Safe.
    pub address: Address,
    /// Owner that acts.
    pub owner: Address,
    keys: Keystore,
    name: KeyName,
    ledger: LedgerId,
    password: Password,
    _folder: tempfile::TempDir,
}

impl TestSafe {
    /// Makes a Safe that needs one of two owners: a new key, and the fixture's account.
    pub async fn new(world: &TestHarness) -> Self {
        Self::needing(world, 1).await
    }

    /// Makes a Safe of these two owners with this threshold.
    pub async fn needing(world: &TestHarness, threshold: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keystore::at(folder.path().join("keys"));
        let (name, ledger): (KeyName, LedgerId) = ("owner".parse().unwrap(), "test".parse().unwrap());
        let password = Password::new("battery staple".to_owned());
        let owner = keys.create(&name, &SecretKey::generate().unwrap(), &password, &ledger).unwrap().address;
        let safe = DevnetSafe::of(vec![owner, world.account()], threshold).unwrap();
        let address = safe.address;
        world.send(contracts::SAFE_FACTORY, safe.creation()).await;
        world.send(world.contract_of(&world.usdc), OpenMint::mintCall { to: address, value: U256::from(USDC) }).await;
        let coins = U256::from(10).pow(U256::from(19));
        let fund = move |chain: &mut Chain| [address, owner].into_iter().for_each(|one| chain.set_balance(one, coins));
        world.run(fund).await;
        Self { address, owner, keys, name, ledger, password, _folder: folder }
    }

    /// Key of the owner that acts.
    pub fn key(&self) -> LocalAccount {
        self.keys.open(&self.name, &self.password, &self.ledger).unwrap()
    }

    /// The account, bound as the Safe is now.
    pub async fn account(&self, world: &TestHarness) -> Arc<SafeAccount> {
        let bound = SafeState::read(&world.client, self.address).await.unwrap().fingerprint();
        Arc::new(SafeAccount::new(self.address, bound, SafeOwnerKey::Local(self.key()), world.client.clone()))
    }

    /// The account by the other owner's key, which is the development account with this number.
    pub async fn account_of_other(&self, world: &TestHarness, number: usize) -> Arc<SafeAccount> {
        let bound = SafeState::read(&world.client, self.address).await.unwrap().fingerprint();
        let key = DevelopmentAccount::new(u32::try_from(number).unwrap(), [&world.client]).unwrap();
        Arc::new(SafeAccount::new(self.address, bound, SafeOwnerKey::Development(key), world.client.clone()))
    }

    /// Makes the Safe call itself, as its other owner can.
    pub async fn change(&self, world: &TestHarness, call: impl SolCall) {
        world.send(self.address, self.execution(world.account(), self.address, call)).await;
    }

    /// The call by which `owner` makes the Safe call a contract.
    pub fn execution(&self, owner: Address, to: Address, call: impl SolCall) -> Safe::execTransactionCall {
        Safe::execTransactionCall {
            to,
            value: U256::ZERO,
            data: call.abi_encode().into(),
            operation: 0,
            safeTxGas: U256::ZERO,
            baseGas: U256::ZERO,
            gasPrice: U256::ZERO,
            gasToken: Address::ZERO,
            refundReceiver: Address::ZERO,
            signatures: [owner.into_word(), B256::ZERO].concat().into_iter().chain([1]).collect::<Vec<u8>>().into(),
        }
    }

    /// Number of transactions that the acting owner has sent, and the Safe's own number.
    pub async fn numbers(&self, world: &TestHarness) -> (u64, U256) {
        let sent = world.client.provider().get_transaction_count(self.owner).await.unwrap();
        (sent, world.ask(self.address, Safe::nonceCall {}).await)
    }
}
