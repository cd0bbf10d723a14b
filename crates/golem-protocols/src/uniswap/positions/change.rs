//! Change of one position of either version, for what does not depend on the version.

use alloy::primitives::{Address, Bytes, U256};

use super::PositionId;
use crate::uniswap::v3::manager::{PositionCallError, PositionPlan};
use crate::uniswap::v4::manager::{KeyedChange, KeyedPlan};

/// Change of one position that may be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionChange {
    /// Change of a V3 position.
    V3(PositionPlan),
    /// Change of a V4 position.
    V4(KeyedPlan),
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Collects what the position is owed.
    Collect,
    /// Withdraws a part, and collects.
    Remove,
    /// Withdraws everything, collects, and burns the token.
    Close,
    /// Opens a position.
    Mint,
    /// Adds to a position.
    Increase,
    /// Adds what the position is owed to it.
    Compound,
}

impl ChangeKind {
    /// Returns true if it only takes something out of a position.
    pub fn is_exit(self) -> bool {
        match self {
            Self::Collect | Self::Remove | Self::Close => true,
            Self::Mint | Self::Increase | Self::Compound => false,
        }
    }
}

impl PositionChange {
    /// Encodes the change as one call of its version's manager by `account`.
    pub fn calldata(&self, account: Address) -> Bytes {
        match self {
            Self::V3(plan) => plan.calldata(account),
            Self::V4(plan) => plan.calldata(account),
        }
    }

    /// Decodes a call of the V3 manager by `account`.
    ///
    /// # Errors
    /// As [`PositionPlan::decode`].
    pub fn decode_v3(data: &[u8], account: Address) -> Result<Self, PositionCallError> {
        PositionPlan::decode(data, account).map(Self::V3)
    }

    /// Decodes a call of the V4 manager by `account`.
    ///
    /// # Errors
    /// As [`KeyedPlan::decode`].
    pub fn decode_v4(data: &[u8], account: Address) -> Result<Self, PositionCallError> {
        KeyedPlan::decode(data, account).map(Self::V4)
    }

    /// Kind of this change.
    pub fn kind(&self) -> ChangeKind {
        match self {
            Self::V3(plan) => match plan {
                PositionPlan::Collect { .. } => ChangeKind::Collect,
                PositionPlan::Remove { .. } => ChangeKind::Remove,
                PositionPlan::Close { .. } => ChangeKind::Close,
                PositionPlan::Mint { .. } => ChangeKind::Mint,
                PositionPlan::Increase { .. } => ChangeKind::Increase,
                PositionPlan::Compound { .. } => ChangeKind::Compound,
            },
            Self::V4(plan) => match plan.change {
                KeyedChange::Collect { .. } => ChangeKind::Collect,
                KeyedChange::Remove { .. } => ChangeKind::Remove,
                KeyedChange::Close { .. } => ChangeKind::Close,
                KeyedChange::Mint { .. } => ChangeKind::Mint,
                KeyedChange::Increase { .. } => ChangeKind::Increase,
                KeyedChange::Compound { .. } => ChangeKind::Compound,
            },
        }
    }

    /// Returns true if the change only takes something out of a position.
    pub fn is_exit(&self) -> bool {
        self.kind().is_exit()
    }

    /// Position that is changed; `None` for one that is only opened.
    pub fn id(&self) -> Option<PositionId> {
        match self {
            Self::V3(plan) => plan.token_id().map(PositionId::V3),
            Self::V4(plan) => plan.token_id().map(PositionId::V4),
        }
    }

    /// Maximum amounts of a deposit, in raw units; `None` if it has none.
    pub fn most(&self) -> Option<[U256; 2]> {
        match self {
            Self::V3(plan) => plan.deposit().map(|deposit| deposit.most),
            Self::V4(plan) => plan.deposit().map(|deposit| deposit.most.map(U256::from)),
        }
    }

    /// Minimum amounts of a withdrawal without fees, in raw units; `None` if it has none.
    pub fn least(&self) -> Option<[U256; 2]> {
        match self {
            Self::V3(plan) => plan.withdrawal().map(|part| part.least),
            Self::V4(plan) => plan.least().map(|least| least.map(U256::from)),
        }
    }

    /// Liquidity that a withdrawal takes out of a position that has `whole`; zero without one.
    pub fn withdrawn(&self, whole: u128) -> u128 {
        match self {
            Self::V3(plan) => plan.withdrawal().map_or(0, |part| part.liquidity),
            Self::V4(plan) => match plan.change {
                KeyedChange::Remove { liquidity, .. } => liquidity,
                KeyedChange::Close { .. } => whole,
                KeyedChange::Collect { .. }
                | KeyedChange::Mint { .. }
                | KeyedChange::Increase { .. }
                | KeyedChange::Compound { .. } => 0,
            },
        }
    }

    /// Last second in which the change may be included, since the Unix epoch; `None` if it never expires, as a collection
    /// and the end of an empty position in V3.
    pub fn deadline(&self) -> Option<U256> {
        match self {
            Self::V3(plan) => {
                let of_deposit = plan.deposit().map(|deposit| deposit.deadline);
                of_deposit.or_else(|| plan.withdrawal().map(|part| part.deadline))
            }
            Self::V4(plan) => Some(plan.deadline),
        }
    }

    /// Amount of the native token that the call brings, in wei.
    pub fn value(&self) -> U256 {
        match self {
            Self::V3(_) => U256::ZERO,
            Self::V4(plan) => plan.value(),
        }
    }
}
