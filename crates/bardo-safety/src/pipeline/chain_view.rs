//! Chain state for one decision, all read on one block, with the simulation on it. It is kept with the permit: if the
//! commit finds the same block and the same next block, nothing is read again. Stop, phase, rules, caps, orders and
//! time are always read again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;

use super::hook_gate;
use super::{Pipeline, PipelineRefusal};
use crate::chain_snapshot::{SnapshotReadError, SnapshotReader};
use crate::grants;
use crate::lending_equity;
use crate::onchain_policy::{self, OnchainPolicy};
use crate::position_calls::{self, PositionManagers};
use crate::signing_payload::SigningPayload;
use crate::simulate::{self, DeclarationFault, JudgeContext};
use crate::value::{PriceSpreads, UnknownValue, ValuedAmount};
use crate::vault_calls::{self, VaultGround};
use crate::vault_equity;
use crate::vault_management::{self, ManageGround};
use bardo_base::text::SafeText;
use golem_chain::evm::BlockContext;
use golem_chain::fork::{Fork, ForkError, PinnedBlock, Simulation};
use golem_chain::provider::ProviderError;
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::aave::market::MarketState;
use golem_protocols::erc4626::holding::VaultHolding;
use golem_protocols::uniswap::hook::HookReport;
use golem_protocols::uniswap::positions::{
    AccountPositions, PoolState, PositionChange, PositionContracts, PositionState, PricedToken, token_of,
};
use golem_protocols::uniswap::v3::manager::PositionPlan;
use golem_protocols::uniswap::v4::manager::KeyedChange;

/// Maximum age of reused chain state. It limits how long a wrong endpoint is believed.
const SERVES: Duration = Duration::from_secs(2);

/// Chain state read on one block for the transactions of a payload from index `from`.
#[derive(Debug, Clone)]
pub(super) struct ChainView {
    payload: SigningPayload,
    pinned: PinnedBlock,
    next: BlockContext,
    from: usize,
    at: Instant,
    /// Next nonce of the signer on that block.
    pub nonce: u64,
    pub tokens: Result<BTreeMap<TokenId, TokenInfo>, UnknownValue>,
    /// Value that a bridge order delivers on another chain.
    pub arrival: Result<Option<ValuedAmount>, UnknownValue>,
    /// Keccak-256 hash of the code that settles the order; `None` without an order or without code.
    pub settling: Option<B256>,
    /// Faults of spenders whose code does not match the address book file.
    pub hollow: Vec<DeclarationFault>,
    /// Position that the payload changes; `None` if it changes none, or one that does not exist.
    pub position: Option<PositionState>,
    /// Pool in which the payload opens a position; `None` if it opens none, or the pool has no price.
    pub pool: Option<PoolState>,
    /// Contract that a deposit into a position pays; `None` without a deposit.
    pub deposit_pool: Option<Address>,
    /// The account's supplies and debts in the lending market; `None` without any, unless the payload changes them.
    pub market: Result<Option<MarketState>, UnknownValue>,
    /// Vault that the payload deposits to or withdraws from; `None` for any other action.
    pub vault: Result<Option<VaultGround>, UnknownValue>,
    /// Vault of the account's own that the payload values or settles; `None` for any other action.
    pub managed: Result<Option<ManageGround>, UnknownValue>,
    /// Shares of known vaults that the account holds, with what they pay out.
    pub shares: Result<Vec<VaultHolding>, UnknownValue>,
    /// Payment for the shares of a deposit in the same simulation; `None` for any other action, before the simulation, and
    /// if that failed.
    pub way_back: Option<Result<U256, SafeText>>,
    /// Evaluation of the hook of the pool that the payload deposits in; `None` for any other action, and without a hook.
    pub hook: Option<Result<HookReport, UnknownValue>>,
    pub spreads: PriceSpreads,
    pub data_fee: Result<U256, UnknownValue>,
    pub balances: Result<BTreeMap<TokenId, (TokenInfo, U256)>, UnknownValue>,
    /// Liquidity positions of the account, which are a part of its holdings.
    pub positions: Result<AccountPositions, UnknownValue>,
    pub cage: Result<Option<OnchainPolicy>, UnknownValue>,
    /// Chain description that cannot be right, if one was found.
    pub impossible: Option<ImpossibleChain>,
    ran: Option<(JudgeContext, Simulation)>,
}

/// Description of the chain by its endpoints that cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImpossibleChain {
    /// It contradicts the address book: a listed token is not a token, or Multicall3 does not answer.
    AgainstBook,
    /// An unlisted address that the payload names is not a token.
    NoToken,
}

impl ChainView {
    /// Returns true if this state can be reused for `fork`. It is read again if anything failed to answer, or if
    /// another chain is involved, which this block does not cover. On real chains equal block hashes mean equal state;
    /// only a test network's cheat calls can break that.
    fn holds(&self, payload: &SigningPayload, fork: &Fork, from: usize) -> bool {
        let whole = self.tokens.is_ok()
            && matches!(self.arrival, Ok(None))
            && self.data_fee.is_ok()
            && self.balances.is_ok()
            && self.positions.is_ok()
            && self.market.is_ok()
            && self.vault.is_ok()
            && self.managed.is_ok()
            && self.shares.is_ok()
            && self.hook.as_ref().is_none_or(Result::is_ok)
            && self.cage.is_ok();
        whole
            && self.payload == *payload
            && (self.pinned, self.next, self.from) == (fork.pinned(), fork.next_block(), from)
            && self.at.elapsed() < SERVES
    }

    /// Prices of two tokens by their feeds, where the zero address is the native token; `None` if one has no live feed, or does
    /// not answer as a token.
    pub(super) fn fed(&self, tokens: [Address; 2]) -> Option<[PricedToken; 2]> {
        let described = self.tokens.as_ref().ok()?;
        let priced = |address: Address| {
            let id = token_of(address);
            Some(PricedToken { usd: self.spreads.get(id).ok()?.feed?, decimals: described.get(&id)?.decimals })
        };
        let [first, second] = tokens;
        Some([priced(first)?, priced(second)?])
    }

    /// Simulates the transactions on `fork`, the fork that this state was read on. Returns the earlier result for equal
    /// surroundings.
    ///
    /// # Errors
    /// [`ForkError`] if the simulation cannot be run; then nothing is known of what the transactions do.
    pub(super) async fn run(
        &mut self,
        fork: &Fork,
        payload: &SigningPayload,
        around: &JudgeContext,
    ) -> Result<Simulation, ForkError> {
        if let Some((_, simulation)) = self.ran.as_ref().filter(|(ran_in, _)| ran_in == around) {
            return Ok(simulation.clone());
        }
        let simulation = simulate::run(fork, payload, self.from, self.nonce, around).await?;
        self.way_back = match simulation.succeeded() {
            true => vault_calls::way_back(fork, payload, (self.from, self.nonce), around).await?,
            false => None,
        };
        self.ran = Some((around.clone(), simulation.clone()));
        Ok(simulation)
    }
}

impl Pipeline {
    /// Reads the chain for the transactions of `payload` from index `from`, or reuses `earlier` with new prices if it
    /// is still valid.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the chain cannot be read at all.
    pub(super) async fn read_chain(
        &self,
        reader: &SnapshotReader,
        payload: &SigningPayload,
        from: usize,
        fork: &Fork,
        earlier: Option<&ChainView>,
    ) -> Result<ChainView, PipelineRefusal> {
        if let Some(view) = earlier.filter(|view| view.holds(payload, fork, from)) {
            // Prices are read again: they have a maximum age of their own.
            let spreads = spreads(reader, payload, fork, &view.tokens).await;
            return Ok(ChainView { spreads, ..view.clone() });
        }
        let at = Instant::now();
        let block = BlockId::hash(fork.pinned().hash);
        let provider = reader.client.agreed();
        let nonce = async {
            provider.get_transaction_count(payload.signer()).block_id(block).await.map_err(ProviderError::from)
        };
        let (tokens, nonce, arrival, settling, hollow, position, market, vault, managed) = futures::join!(
            reader.tokens(payload, block),
            nonce,
            self.arrival(payload),
            self.settling_code(reader, payload, block),
            hollow_spenders(reader, payload, block),
            position(reader, payload, block),
            lending_equity::market(reader, payload, block),
            vault_calls::ground(reader, payload, (fork.pinned().number, block)),
            vault_management::ground(reader, payload, block)
        );
        let (settling, hollow, (position, pool)) = (settling?, hollow?, position?);
        let place = pool.map(|pool| pool.pool).or(position.map(|position| position.key.pool));
        let deposit_pool = place.and_then(|pool| PositionContracts::of(reader.network()).ok()?.holder(&pool));
        let managers = PositionManagers::of(&reader.network().book);
        let deposits = position_calls::plan(payload.proposal(), managers).is_some_and(|plan| !plan.is_exit());
        let hook = hook_gate::evaluated(reader, fork, place.filter(|_| deposits)).await;
        let nonce = nonce?;
        let impossible = tokens.as_ref().err().and_then(is_impossible);
        let tokens = match tokens {
            Ok(tokens) => Ok(tokens),
            Err(SnapshotReadError::Chain(error)) => return Err(error.into()),
            Err(read_error) => Err(UnknownValue::from(read_error)),
        };
        let nothing = BTreeMap::new();
        let described = tokens.as_ref().unwrap_or(&nothing);
        let next = fork.next_block();
        let mut vaults = self.inner.rules.named_vaults(payload.proposal().chain_id);
        vaults.extend(vault_calls::in_book(&reader.network().book));
        let (spreads, data_fee, balances, positions, cage, shares) = futures::join!(
            spreads(reader, payload, fork, &tokens),
            reader.data_fee(payload, from, block),
            reader.balances(payload.account(), described, block),
            reader.positions(payload.account(), block),
            onchain_policy::read(reader, payload.account(), block, next.timestamp),
            vault_equity::held(reader, fork, payload.account(), &vaults)
        );
        let impossible = impossible.or(balances.as_ref().err().and_then(is_impossible));
        let balances = balances.map_err(UnknownValue::from);
        let positions = positions.map_err(UnknownValue::from);
        let pinned = fork.pinned();
        Ok(ChainView {
            payload: payload.clone(),
            pinned,
            next,
            from,
            at,
            nonce,
            tokens,
            arrival,
            settling,
            hollow,
            position,
            pool,
            deposit_pool,
            market,
            vault,
            managed,
            shares,
            way_back: None,
            hook,
            spreads,
            data_fee,
            balances,
            positions,
            cage,
            impossible,
            ran: None,
        })
    }
}

/// Checks spenders that only an address book file vouches for: each must be a contract with the code hash that the file
/// gives. An address with an EIP-7702 delegation still belongs to its key, so it is not one.
async fn hollow_spenders(
    reader: &SnapshotReader,
    payload: &SigningPayload,
    block: BlockId,
) -> Result<Vec<DeclarationFault>, PipelineRefusal> {
    let mut faults = Vec::new();
    for (spender, hashes) in grants::described(payload, reader.network()) {
        let code = reader.client.agreed().get_code_at(spender).block_id(block).await.map_err(ProviderError::from);
        let code = code?;
        faults.extend(simulate::spender_fault(spender, &hashes, &code));
    }
    Ok(faults)
}

/// Reads the position that the payload changes, or the pool in which it opens one, by the answers that the endpoints agree
/// on.
async fn position(
    reader: &SnapshotReader,
    payload: &SigningPayload,
    block: BlockId,
) -> Result<(Option<PositionState>, Option<PoolState>), PipelineRefusal> {
    let network = reader.network();
    let plan = position_calls::plan(payload.proposal(), PositionManagers::of(&network.book));
    let (Some(plan), Ok(contracts)) = (plan, PositionContracts::of(network)) else { return Ok((None, None)) };
    let provider = reader.client.agreed();
    let Some(id) = plan.id() else {
        let pool = match plan {
            PositionChange::V3(PositionPlan::Mint { token0, token1, fee, .. }) => {
                contracts.pool_state(provider, [token0, token1], fee, block).await?
            }
            PositionChange::V4(plan) => match plan.change {
                KeyedChange::Mint { key, .. } => contracts.keyed_pool_state(provider, key, block).await?,
                KeyedChange::Collect { .. }
                | KeyedChange::Remove { .. }
                | KeyedChange::Close { .. }
                | KeyedChange::Increase { .. }
                | KeyedChange::Compound { .. } => None,
            },
            PositionChange::V3(_) => None,
        };
        return Ok((None, pool));
    };
    let keys = contracts.keys(provider, &[id], block).await?;
    let keys: Vec<_> = keys.into_iter().flatten().collect();
    Ok((contracts.states(provider, &keys, block).await?.into_iter().flatten().next(), None))
}

fn is_impossible(read_error: &SnapshotReadError) -> Option<ImpossibleChain> {
    match read_error {
        SnapshotReadError::AgainstBook(_) => Some(ImpossibleChain::AgainstBook),
        SnapshotReadError::NoToken(_) => Some(ImpossibleChain::NoToken),
        SnapshotReadError::Chain(_) | SnapshotReadError::Doubt(_) => None,
    }
}

/// Returns prices of the tokens that the payload names and of every listed token. All holdings must be valued: an
/// equity without some of them would look like a loss.
async fn spreads(
    reader: &SnapshotReader,
    payload: &SigningPayload,
    fork: &Fork,
    described: &Result<BTreeMap<TokenId, TokenInfo>, UnknownValue>,
) -> PriceSpreads {
    let listed = reader.network().book.tokens().iter().map(|token| TokenId::Erc20(token.address));
    let described = described.iter().flat_map(BTreeMap::keys).copied();
    let named: BTreeSet<TokenId> = described.chain(listed).collect();
    let named: Vec<TokenId> = named.into_iter().collect();
    let traded = payload.proposal().trade.as_ref().map_or(&[][..], |trade| trade.pools.as_slice());
    reader.spreads_on(fork.pinned().hash, &named, traded).await
}
