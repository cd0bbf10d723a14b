//! What is read of the chain for one decision, all on one block, and what the legs do there. It is kept with the permit:
//! where the commit finds the chain on the same block, with the same block to come, the same questions have the same
//! answers, and are not asked again. Everything that is ours (stop, phase, rules, caps, orders, the time) is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use alloy::eips::BlockId;
use alloy::primitives::{B256, U256};
use alloy::providers::Provider as _;

use super::{Pipeline, Refusal};
use crate::cage::{self, Cage};
use crate::framed::Framed;
use crate::grants;
use crate::ground::{Ground, Untold};
use crate::simulate::{self, Fault, Surroundings};
use crate::value::{Doubt, Spreads, Valued};
use bardo_base::error::ErrorCode;
use golem_chain::evm::BlockContext;
use golem_chain::fork::{Fork, ForkError, Pinned, Simulation};
use golem_chain::provider::ProviderError;
use golem_chain::token::{Token, TokenId};

/// So long a look serves: an endpoint that was wrong is not believed for longer.
const SERVES: Duration = Duration::from_secs(2);

/// What was read on one block for the legs of a frame from one of them on.
#[derive(Debug, Clone)]
pub(super) struct Look {
    framed: Framed,
    pinned: Pinned,
    next: BlockContext,
    from: usize,
    at: Instant,
    /// The signer's.
    pub nonce: u64,
    pub tokens: Result<BTreeMap<TokenId, Token>, Doubt>,
    /// What arrives on another chain.
    pub arrival: Result<Option<Valued>, Doubt>,
    /// The hash of the code that settles the order.
    pub settling: Option<B256>,
    /// Spenders that are not the contracts that the address book file calls them.
    pub hollow: Vec<Fault>,
    pub spreads: Spreads,
    pub data_fee: Result<U256, Doubt>,
    pub balances: Result<BTreeMap<TokenId, (Token, U256)>, Doubt>,
    pub cage: Result<Option<Cage>, Doubt>,
    /// A description of the chain that cannot be right.
    pub impossible: Option<Impossible>,
    ran: Option<(Surroundings, Simulation)>,
}

/// A description of the chain by its endpoints that cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Impossible {
    /// It contradicts the address book: a listed token is none, or Multicall3 does not answer.
    AgainstBook,
    /// An address off the list is no token.
    NoToken,
}

impl Look {
    /// Whether the same look at `fork` would find the same. What was not answered is asked again, and so is another
    /// chain: this block says nothing of it. Only a test network's cheats change a block's state and not its hash.
    fn holds(&self, framed: &Framed, fork: &Fork, from: usize) -> bool {
        let whole = self.tokens.is_ok()
            && matches!(self.arrival, Ok(None))
            && self.data_fee.is_ok()
            && self.balances.is_ok()
            && self.cage.is_ok();
        whole
            && self.framed == *framed
            && (self.pinned, self.next, self.from) == (fork.pinned(), fork.next_block(), from)
            && self.at.elapsed() < SERVES
    }

    /// What the legs do on `fork`, on which this look was taken.
    ///
    /// # Errors
    /// [`ForkError`].
    pub(super) async fn run(
        &mut self,
        fork: &Fork,
        framed: &Framed,
        around: &Surroundings,
    ) -> Result<Simulation, ForkError> {
        if let Some((_, simulation)) = self.ran.as_ref().filter(|(ran_in, _)| ran_in == around) {
            return Ok(simulation.clone());
        }
        let simulation = simulate::run(fork, framed, self.from, self.nonce, around).await?;
        self.ran = Some((around.clone(), simulation.clone()));
        Ok(simulation)
    }
}

impl Pipeline {
    /// Looks at the chain for the legs of `framed` from number `from` on; or answers `earlier` where that holds.
    ///
    /// # Errors
    /// [`Refusal`] if the chain cannot be read at all.
    pub(super) async fn look(
        &self,
        ground: &Ground,
        framed: &Framed,
        from: usize,
        fork: &Fork,
        earlier: Option<&Look>,
    ) -> Result<Look, Refusal> {
        if let Some(look) = earlier.filter(|look| look.holds(framed, fork, from)) {
            // Prices have an age of their own.
            let spreads = spreads(ground, framed, fork, &look.tokens).await;
            return Ok(Look { spreads, ..look.clone() });
        }
        let at = Instant::now();
        let unread = |error: &dyn std::fmt::Display| Refusal::new(ErrorCode::ChainUnreachable, error);
        let block = BlockId::hash(fork.pinned().hash);
        let provider = ground.client.agreed();
        let nonce = async {
            provider.get_transaction_count(framed.signer()).block_id(block).await.map_err(ProviderError::from)
        };
        let (tokens, nonce, arrival, settling, hollow) = futures::join!(
            ground.tokens(framed, block),
            nonce,
            self.arrival(framed),
            self.settling_code(ground, framed, block),
            hollow_spenders(ground, framed, block)
        );
        let (settling, hollow) = (settling?, hollow?);
        let nonce = nonce.map_err(|error| unread(&error))?;
        let impossible = tokens.as_ref().err().and_then(is_impossible);
        let tokens = match tokens {
            Ok(tokens) => Ok(tokens),
            Err(Untold::Chain(error)) => return Err(unread(&error)),
            Err(untold) => Err(Doubt::from(untold)),
        };
        let nothing = BTreeMap::new();
        let described = tokens.as_ref().unwrap_or(&nothing);
        let next = fork.next_block();
        let (spreads, data_fee, balances, cage) = futures::join!(
            spreads(ground, framed, fork, &tokens),
            ground.data_fee(framed, from, block),
            ground.balances(framed.account(), described, block),
            cage::read(ground, framed.account(), block, next.timestamp)
        );
        let impossible = impossible.or(balances.as_ref().err().and_then(is_impossible));
        let balances = balances.map_err(Doubt::from);
        let pinned = fork.pinned();
        Ok(Look {
            framed: framed.clone(),
            pinned,
            next,
            from,
            at,
            nonce,
            tokens,
            arrival,
            settling,
            hollow,
            spreads,
            data_fee,
            balances,
            cage,
            impossible,
            ran: None,
        })
    }
}

/// What stands against spenders that only an address book file vouches for: each must be a contract, with the code whose
/// hash the file gives. Under a delegation (EIP-7702) an address stays its key's.
async fn hollow_spenders(ground: &Ground, framed: &Framed, block: BlockId) -> Result<Vec<Fault>, Refusal> {
    let mut faults = Vec::new();
    for (spender, hashes) in grants::described(framed, ground.network()) {
        let code = ground.client.agreed().get_code_at(spender).block_id(block).await.map_err(ProviderError::from);
        let code = code.map_err(|error| Refusal::new(ErrorCode::ChainUnreachable, error))?;
        faults.extend(simulate::spender_fault(spender, &hashes, &code));
    }
    Ok(faults)
}

fn is_impossible(untold: &Untold) -> Option<Impossible> {
    match untold {
        Untold::AgainstBook(_) => Some(Impossible::AgainstBook),
        Untold::NoToken(_) => Some(Impossible::NoToken),
        Untold::Chain(_) | Untold::Doubt(_) => None,
    }
}

/// Prices of what the frame names, and of all that the network's book lists: what is held is valued whatever is traded,
/// for an equity that leaves holdings out looks like a loss.
async fn spreads(
    ground: &Ground,
    framed: &Framed,
    fork: &Fork,
    described: &Result<BTreeMap<TokenId, Token>, Doubt>,
) -> Spreads {
    let listed = ground.network().book.tokens().iter().map(|token| TokenId::Erc20(token.address));
    let described = described.iter().flat_map(BTreeMap::keys).copied();
    let named: BTreeSet<TokenId> = described.chain(listed).collect();
    let named: Vec<TokenId> = named.into_iter().collect();
    let traded = framed.proposal().trade.as_ref().map_or(&[][..], |trade| trade.pools.as_slice());
    ground.spreads_on(fork.pinned().hash, &named, traded).await
}
