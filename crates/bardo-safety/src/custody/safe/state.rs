//! State of a Safe, read from the chain: code, owners, threshold, modules, guard and fallback handler. Its fingerprint is
//! what the operator binds.
//!
//! The answers can be trusted as far as the code that gives them: the proxy's code is compared first, then which
//! contract it runs, as the proxy itself says it, then that contract's code.

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, FixedBytes, U256, address, b256, keccak256};
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::{SolCall, SolValue as _};

use super::SafeRefusal;
use bardo_abi::safe::Safe;
use golem_chain::provider::{ChainClient, ProviderError};

/// Hash of the proxy's code, of Safe 1.4.1's factory.
const PROXY_CODE: B256 = b256!("0xd7d408ebcd99b2b70be43e20253d6d92a8ea8fab29bd3be7f55b10032331fb4c");

/// Published contracts of Safe 1.4.1 that a proxy may run, with the hash of their code.
const SINGLETONS: [(Address, B256, &str); 2] = [
    (
        address!("0x41675C099F32341bf84BFc5382aF534df5C7461a"),
        b256!("0x1fe2df852ba3299d6534ef416eefa406e56ced995bca886ab7a553e6d0c5e1c4"),
        "1.4.1",
    ),
    (
        address!("0x29fcB43b46531BcA003ddC8FCB67FFE91900C762"),
        b256!("0xb1f926978a0f44a2c0ec8fe822418ae969bd8c3f18d61e5103100339894f81ff"),
        "1.4.1+L2",
    ),
];

/// Safe 1.4.1's published fallback handler: it answers questions and takes in tokens, and makes no call of the Safe.
const COMPATIBILITY_FALLBACK_HANDLER: Address = address!("0xfd0732Dc9E303f09fCEf3a7388Ad10A83459Ec99");

/// Storage slot of the guard: the hash of `guard_manager.guard.address`.
const GUARD_SLOT: B256 = b256!("0x4a204f620c8c5ccdca3fd54d003badd85ba500436a431f0cbda4f558c93c34c8");

/// Storage slot of the fallback handler: the hash of `fallback_manager.handler.address`.
const HANDLER_SLOT: B256 = b256!("0x6c9a6c4a39284e37ed1cf53d337577d14212a4870fb976a4366c693b939918d5");

/// Start and end of the contract's list of modules.
const SENTINEL: Address = address!("0x0000000000000000000000000000000000000001");

/// Maximum number of modules that are read.
const MOST_MODULES: u64 = 50;

/// Fingerprint of everything that decides who may act for a Safe.
pub type SafeFingerprint = FixedBytes<16>;

/// A Safe as the chain has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeState {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Address of the Safe.
    pub address: Address,
    /// Version, by the contract that it runs.
    pub version: &'static str,
    /// Contract whose code it runs.
    pub singleton: Address,
    /// Owners, in the order of the contract's list.
    pub owners: Vec<Address>,
    /// Number of owners that must agree.
    pub threshold: U256,
    /// Number of the next transaction.
    pub nonce: U256,
    /// Modules, which may act without any owner.
    pub modules: Vec<Address>,
    /// Guard, which can refuse transactions; zero for none.
    pub guard: Address,
    /// Handler of calls that the Safe does not know; zero for none.
    pub handler: Address,
}

impl SafeState {
    /// Reads a Safe at the newest block that the endpoints agree on.
    ///
    /// # Errors
    /// [`SafeRefusal::NotSafe`] for an account that is not a Safe 1.4.1 of the published code, and
    /// [`SafeRefusal::Unread`] if the chain does not answer.
    pub async fn read(client: &ChainClient, safe: Address) -> Result<Self, SafeRefusal> {
        let (provider, block) = client.newest().await?;
        let chain = Reader { provider, block };
        let not_safe = |why| SafeRefusal::NotSafe { safe, why };
        if chain.code_hash(safe).await? != PROXY_CODE {
            return Err(not_safe("its code is not the proxy of Safe 1.4.1"));
        }
        // With that code, the proxy itself answers.
        let singleton = chain.ask(safe, Safe::masterCopyCall {}).await?;
        let known = SINGLETONS.iter().find(|(address, ..)| *address == singleton);
        let (_, code, version) = known.ok_or_else(|| not_safe("the contract that it runs is not Safe 1.4.1"))?;
        if chain.code_hash(singleton).await? != *code {
            return Err(not_safe("the contract that it runs has other code than Safe 1.4.1"));
        }
        let modules = Safe::getModulesPaginatedCall { start: SENTINEL, pageSize: U256::from(MOST_MODULES) };
        let modules = chain.ask(safe, modules).await?;
        if modules.next != SENTINEL {
            return Err(not_safe("it has more modules than Bardo reads"));
        }
        Ok(Self {
            chain_id: client.chain_id(),
            address: safe,
            version,
            singleton,
            owners: chain.ask(safe, Safe::getOwnersCall {}).await?,
            threshold: chain.ask(safe, Safe::getThresholdCall {}).await?,
            nonce: chain.ask(safe, Safe::nonceCall {}).await?,
            modules: modules.array,
            guard: chain.stored(safe, GUARD_SLOT).await?,
            handler: chain.stored(safe, HANDLER_SLOT).await?,
        })
    }

    /// Returns the fingerprint of everything but the nonce.
    pub fn fingerprint(&self) -> SafeFingerprint {
        let sorted = |list: &[Address]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        let parts = (
            self.chain_id,
            self.address,
            self.singleton,
            sorted(&self.owners),
            self.threshold,
            sorted(&self.modules),
            self.guard,
            self.handler,
        );
        let mut short = SafeFingerprint::ZERO;
        short.copy_from_slice(keccak256(parts.abi_encode()).split_at(SafeFingerprint::len_bytes()).0);
        short
    }

    /// Checks that `owner` is an owner of the Safe.
    ///
    /// # Errors
    /// [`SafeRefusal::NotOwner`].
    pub fn check_owner(&self, owner: Address) -> Result<(), SafeRefusal> {
        match self.owners.contains(&owner) {
            true => Ok(()),
            false => Err(SafeRefusal::NotOwner { safe: self.address, owner }),
        }
    }

    /// Returns true if more than one owner must agree.
    pub fn needs_several(&self) -> bool {
        self.threshold > U256::ONE
    }

    /// Reads whether `owner` has agreed on chain to the transaction with this hash (`approveHash`).
    ///
    /// # Errors
    /// [`SafeRefusal::Unread`] if the chain does not answer.
    pub async fn has_approved(
        client: &ChainClient,
        safe: Address,
        owner: Address,
        hash: B256,
    ) -> Result<bool, SafeRefusal> {
        let (provider, block) = client.newest().await?;
        let approved = Reader { provider, block }.ask(safe, Safe::approvedHashesCall { owner, hash }).await?;
        Ok(!approved.is_zero())
    }

    /// Returns true if something besides the owners takes part: a module acts without them, a guard can refuse, and a fallback
    /// handler is called by the Safe with whatever anybody sends, so that a token there gives all of it away. Safe's published
    /// handler only answers questions and takes in tokens.
    pub fn has_others(&self) -> bool {
        let plain = [Address::ZERO, COMPATIBILITY_FALLBACK_HANDLER];
        !self.modules.is_empty() || !self.guard.is_zero() || !plain.contains(&self.handler)
    }

    /// Describes the state in one line.
    pub fn describe(&self) -> String {
        let list = |list: &[Address]| match list.is_empty() {
            true => "none".to_owned(),
            false => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        let one = |address: Address| if address.is_zero() { "none".to_owned() } else { address.to_string() };
        format!(
            "version {}, {} of {} owners ({}), modules: {}, guard: {}, fallback handler: {}",
            self.version,
            self.threshold,
            self.owners.len(),
            list(&self.owners),
            list(&self.modules),
            one(self.guard),
            one(self.handler)
        )
    }
}

/// Chain at one block.
struct Reader<'a> {
    provider: &'a DynProvider,
    block: BlockId,
}

impl Reader<'_> {
    async fn code_hash(&self, at: Address) -> Result<B256, SafeRefusal> {
        let code = self.provider.get_code_at(at).block_id(self.block).await.map_err(ProviderError::from)?;
        Ok(keccak256(&code))
    }

    async fn ask<C: SolCall>(&self, to: Address, call: C) -> Result<C::Return, SafeRefusal> {
        let request = TransactionRequest { to: Some(to.into()), ..Default::default() }.input(call.abi_encode().into());
        let answer = self.provider.call(request).block(self.block).await.map_err(ProviderError::from)?;
        C::abi_decode_returns(&answer).map_err(|_| SafeRefusal::Unread("its answer is malformed".to_owned()))
    }

    /// Reads an address from the Safe's storage.
    async fn stored(&self, safe: Address, slot: B256) -> Result<Address, SafeRefusal> {
        let words = self.ask(safe, Safe::getStorageAtCall { offset: slot.into(), length: U256::ONE }).await?;
        let word = B256::try_from(words.as_ref()).map_err(|_| SafeRefusal::Unread("its answer is malformed".into()))?;
        Ok(Address::from_word(word))
    }
}
