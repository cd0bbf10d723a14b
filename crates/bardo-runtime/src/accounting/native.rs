//! Movements of the native token. Its transfers leave no event, so they follow from balances: what the account's own
//! transactions do not explain came or went without Bardo, and the block in which it did is found by halving.

use std::collections::BTreeMap;

use alloy::primitives::{B256, U256};
use alloy::providers::Provider as _;

use super::import::{BlockFacts, ImportError, Importer, is_state_missing};
use bardo_accounting::entry::Flow;
use golem_chain::provider::ProviderError;

/// Most blocks in which movements without Bardo are looked for in one range; what is left is found together.
const MOST_FOUND: usize = 64;

/// Native tokens that a transaction of the account moved.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnNative {
    pub block: u64,
    /// Amount that it sent.
    pub value: U256,
    /// Gas that the account paid.
    pub gas: U256,
    /// Most that it can have brought back: what it sent, and what was unwrapped in it.
    pub may_return: U256,
}

/// Movement of the native token without gas: of a transaction, or of none that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NativeFinding {
    pub block: BlockFacts,
    pub tx: Option<B256>,
    pub flow: Flow,
    /// True if what came may include a deposit: less came, or nobody knows how much could have.
    pub uncertain: bool,
}

/// Difference between the balances and what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Residual {
    None,
    Came(U256),
    Went(U256),
}

pub(super) struct NativeReader<'a, 'b> {
    pub importer: &'a Importer<'b>,
    pub own: &'a BTreeMap<B256, OwnNative>,
    /// Balance by the books before the range.
    pub stored: Option<U256>,
}

impl NativeReader<'_, '_> {
    /// Finds every movement above `from` up to `to`. Together with gas they account for the whole difference between the
    /// two balances.
    pub(super) async fn find(&self, from: BlockFacts, to: BlockFacts) -> Result<Vec<NativeFinding>, ImportError> {
        // Some nodes drop the state of the older block: then the books' own balance counts.
        let before = self.known_balance(from.number).await?.or(self.stored);
        let after = self.balance(to.number).await?;
        let mut found: BTreeMap<B256, NativeFinding> = BTreeMap::new();
        for (tx, own) in self.own {
            if own.value.is_zero() {
                continue;
            }
            let block = self.block(own.block).await?;
            found.insert(
                *tx,
                NativeFinding {
                    block,
                    tx: Some(*tx),
                    flow: Flow { received: U256::ZERO, given: own.value },
                    uncertain: false,
                },
            );
        }
        let mut outside = Vec::new();
        if let Some(before) = before {
            let mut segments = vec![((from.number, before), (to.number, after))];
            while let Some((low, high)) = segments.pop() {
                let residual = self.residual(low, high)?;
                if residual == Residual::None {
                    continue;
                }
                let middle = low.0 + (high.0 - low.0) / 2;
                let halves = high.0 - low.0 > 1 && found.len() + outside.len() < MOST_FOUND;
                match if halves { self.known_balance(middle).await? } else { None } {
                    Some(balance) => {
                        segments.push(((middle, balance), high));
                        segments.push((low, (middle, balance)));
                    }
                    None => self.assign(residual, low.0, self.block(high.0).await?, &mut found, &mut outside).await?,
                }
            }
        }
        Ok(found.into_values().chain(outside).collect())
    }

    /// Assigns a difference to the transactions of these blocks that can have caused it, and the rest to none.
    async fn assign(
        &self,
        residual: Residual,
        above: u64,
        last: BlockFacts,
        found: &mut BTreeMap<B256, NativeFinding>,
        outside: &mut Vec<NativeFinding>,
    ) -> Result<(), ImportError> {
        let mut left = match residual {
            Residual::None => return Ok(()),
            Residual::Went(amount) => {
                let flow = Flow { received: U256::ZERO, given: amount };
                outside.push(NativeFinding { block: last, tx: None, flow, uncertain: false });
                return Ok(());
            }
            Residual::Came(amount) => amount,
        };
        for (tx, own) in self.own.iter().filter(|(_, own)| own.block > above && own.block <= last.number) {
            let part = left.min(own.may_return);
            if part.is_zero() {
                continue;
            }
            let block = self.block(own.block).await?;
            let finding = found.entry(*tx).or_insert(NativeFinding {
                block,
                tx: Some(*tx),
                flow: Flow::default(),
                uncertain: false,
            });
            finding.uncertain = part != own.may_return;
            finding.flow.received = finding.flow.received.saturating_add(part);
            left = left.saturating_sub(part);
        }
        if !left.is_zero() {
            let flow = Flow { received: left, given: U256::ZERO };
            outside.push(NativeFinding { block: last, tx: None, flow, uncertain: false });
        }
        Ok(())
    }

    fn residual(&self, low: (u64, U256), high: (u64, U256)) -> Result<Residual, ImportError> {
        let too_much = ImportError::Invalid("a balance exceeds 256 bits");
        let mut spent = high.1;
        for own in self.own.values().filter(|own| own.block > low.0 && own.block <= high.0) {
            let cost = own.value.checked_add(own.gas);
            match cost.and_then(|cost| spent.checked_add(cost)) {
                Some(sum) => spent = sum,
                None => return Err(too_much),
            }
        }
        Ok(match (spent.checked_sub(low.1), low.1.checked_sub(spent)) {
            (Some(came), _) if !came.is_zero() => Residual::Came(came),
            (None, Some(went)) => Residual::Went(went),
            _ => Residual::None,
        })
    }

    /// Balance after a block; `None` if the endpoints have dropped so old a state.
    async fn known_balance(&self, number: u64) -> Result<Option<U256>, ImportError> {
        match self.balance(number).await {
            Ok(balance) => Ok(Some(balance)),
            Err(error) if is_state_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn balance(&self, number: u64) -> Result<U256, ImportError> {
        let client = &self.importer.reader.client;
        let balance = client.agreed().get_balance(self.importer.account).number(number).await;
        Ok(balance.map_err(ProviderError::from)?)
    }

    async fn block(&self, number: u64) -> Result<BlockFacts, ImportError> {
        self.importer.block(number).await?.ok_or(ImportError::Invalid("a block is missing"))
    }
}
