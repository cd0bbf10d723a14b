//! Calls of the V3 `NonfungiblePositionManager` in one closed form: what a plan does to one position, as calldata and back
//! from it. Anything but exactly these bytes is refused.

use alloy::primitives::aliases::{I24, U24};
use alloy::primitives::{Address, Bytes, U256};
use alloy::sol_types::SolCall;

use super::position::TickRange;
use bardo_abi::uniswap_v3::NonfungiblePositionManager as Manager;

/// Part of a position's liquidity that is withdrawn, in raw units of token0 and token1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withdrawal {
    /// Liquidity that is withdrawn.
    pub liquidity: u128,
    /// Minimum amounts, without fees.
    pub least: [U256; 2],
    /// Last second in which it may be included, since the Unix epoch.
    pub deadline: U256,
}

/// Amounts that are added to a position, in raw units of token0 and token1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deposit {
    /// Maximum amounts that may be used.
    pub most: [U256; 2],
    /// Minimum amounts that are used.
    pub least: [U256; 2],
    /// Last second in which it may be included, since the Unix epoch.
    pub deadline: U256,
}

/// Change of one position that may be signed. What comes out goes to the account that signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionPlan {
    /// Collects everything that the position is owed.
    Collect {
        /// Number of the position's token.
        token_id: U256,
    },
    /// Withdraws a part, and collects everything.
    Remove {
        /// Number of the position's token.
        token_id: U256,
        /// Part that is withdrawn.
        part: Withdrawal,
    },
    /// Withdraws everything, collects it, and burns the token.
    Close {
        /// Number of the position's token.
        token_id: U256,
        /// Withdrawal; `None` for a position without liquidity.
        part: Option<Withdrawal>,
    },
    /// Opens a position.
    Mint {
        /// Token with the lower address.
        token0: Address,
        /// Token with the higher address.
        token1: Address,
        /// Fee of the pool in hundredths of a basis point.
        fee: u32,
        /// Range of the position.
        range: TickRange,
        /// Amounts that are added.
        deposit: Deposit,
    },
    /// Adds to a position.
    Increase {
        /// Number of the position's token.
        token_id: U256,
        /// Amounts that are added.
        deposit: Deposit,
    },
    /// Collects everything that the position is owed, and adds a part of it.
    Compound {
        /// Number of the position's token.
        token_id: U256,
        /// Amounts that are added.
        deposit: Deposit,
    },
}

/// Reason why a call of the position manager is not one of the closed forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PositionCallError {
    /// A function, or a sequence of functions, that no plan has.
    #[error("unknown call of the position manager")]
    Unknown,
    /// Bytes that are not the encoding of what they decode to.
    #[error("a call of the position manager that is encoded differently")]
    Encoding,
    /// A recipient other than the account.
    #[error("it pays {0}, which is not the account")]
    Recipient(Address),
    /// Several positions in one call.
    #[error("it concerns position {0} and position {1}")]
    OtherPosition(U256, U256),
    /// A range that no position can have.
    #[error("its range is not valid")]
    Range,
}

/// One call inside a plan.
enum Step {
    Mint(Manager::MintParams),
    Increase(Manager::IncreaseLiquidityParams),
    Decrease(Manager::DecreaseLiquidityParams),
    Collect(Manager::CollectParams),
    Burn(U256),
}

impl Step {
    fn decode(data: &[u8]) -> Result<Self, PositionCallError> {
        let selector = data.get(..4).ok_or(PositionCallError::Unknown)?;
        let unreadable = |_| PositionCallError::Encoding;
        Ok(if selector == Manager::mintCall::SELECTOR {
            Self::Mint(Manager::mintCall::abi_decode_validate(data).map_err(unreadable)?.params)
        } else if selector == Manager::increaseLiquidityCall::SELECTOR {
            Self::Increase(Manager::increaseLiquidityCall::abi_decode_validate(data).map_err(unreadable)?.params)
        } else if selector == Manager::decreaseLiquidityCall::SELECTOR {
            Self::Decrease(Manager::decreaseLiquidityCall::abi_decode_validate(data).map_err(unreadable)?.params)
        } else if selector == Manager::collectCall::SELECTOR {
            Self::Collect(Manager::collectCall::abi_decode_validate(data).map_err(unreadable)?.params)
        } else if selector == Manager::burnCall::SELECTOR {
            Self::Burn(Manager::burnCall::abi_decode_validate(data).map_err(unreadable)?.tokenId)
        } else {
            return Err(PositionCallError::Unknown);
        })
    }

    fn token_id(&self) -> Option<U256> {
        match self {
            Self::Mint(_) => None,
            Self::Increase(params) => Some(params.tokenId),
            Self::Decrease(params) => Some(params.tokenId),
            Self::Collect(params) => Some(params.tokenId),
            Self::Burn(token_id) => Some(*token_id),
        }
    }

    fn recipient(&self) -> Option<Address> {
        match self {
            Self::Mint(params) => Some(params.recipient),
            Self::Collect(params) => Some(params.recipient),
            Self::Increase(_) | Self::Decrease(_) | Self::Burn(_) => None,
        }
    }
}

impl PositionPlan {
    /// Encodes the plan as one call of the manager by `account`.
    pub fn calldata(&self, account: Address) -> Bytes {
        let collect = |token_id| {
            let params = Manager::CollectParams {
                tokenId: token_id,
                recipient: account,
                amount0Max: u128::MAX,
                amount1Max: u128::MAX,
            };
            Bytes::from(Manager::collectCall { params }.abi_encode())
        };
        let decrease = |token_id, part: Withdrawal| {
            let Withdrawal { liquidity, least: [least0, least1], deadline } = part;
            let params = Manager::DecreaseLiquidityParams {
                tokenId: token_id,
                liquidity,
                amount0Min: least0,
                amount1Min: least1,
                deadline,
            };
            Bytes::from(Manager::decreaseLiquidityCall { params }.abi_encode())
        };
        let increase = |token_id, deposit: Deposit| {
            let ([most0, most1], [least0, least1]) = (deposit.most, deposit.least);
            let params = Manager::IncreaseLiquidityParams {
                tokenId: token_id,
                amount0Desired: most0,
                amount1Desired: most1,
                amount0Min: least0,
                amount1Min: least1,
                deadline: deposit.deadline,
            };
            Bytes::from(Manager::increaseLiquidityCall { params }.abi_encode())
        };
        let together = |data| Bytes::from(Manager::multicallCall { data }.abi_encode());
        match *self {
            Self::Collect { token_id } => collect(token_id),
            Self::Remove { token_id, part } => together(vec![decrease(token_id, part), collect(token_id)]),
            Self::Close { token_id, part } => {
                let withdrawn = part.map(|part| decrease(token_id, part));
                let burn = Bytes::from(Manager::burnCall { tokenId: token_id }.abi_encode());
                together(withdrawn.into_iter().chain([collect(token_id), burn]).collect())
            }
            Self::Mint { token0, token1, fee, range, deposit } => {
                let ([most0, most1], [least0, least1]) = (deposit.most, deposit.least);
                let params = Manager::MintParams {
                    token0,
                    token1,
                    fee: U24::saturating_from(fee),
                    // Ticks of a range fit 24 bits.
                    tickLower: I24::try_from(range.lower()).unwrap_or_default(),
                    tickUpper: I24::try_from(range.upper()).unwrap_or_default(),
                    amount0Desired: most0,
                    amount1Desired: most1,
                    amount0Min: least0,
                    amount1Min: least1,
                    recipient: account,
                    deadline: deposit.deadline,
                };
                Manager::mintCall { params }.abi_encode().into()
            }
            Self::Increase { token_id, deposit } => increase(token_id, deposit),
            Self::Compound { token_id, deposit } => together(vec![collect(token_id), increase(token_id, deposit)]),
        }
    }

    /// Decodes a call of the manager by `account`.
    ///
    /// # Errors
    /// [`PositionCallError`] for anything that [`PositionPlan::calldata`] would not make for the same account.
    pub fn decode(data: &[u8], account: Address) -> Result<Self, PositionCallError> {
        let steps = match Manager::multicallCall::abi_decode_validate(data) {
            Ok(call) => call.data.iter().map(|step| Step::decode(step)).collect::<Result<Vec<_>, _>>()?,
            Err(_) => vec![Step::decode(data)?],
        };
        if let Some(elsewhere) = steps.iter().filter_map(Step::recipient).find(|recipient| *recipient != account) {
            return Err(PositionCallError::Recipient(elsewhere));
        }
        let mut ids = steps.iter().filter_map(Step::token_id);
        if let Some(first) = ids.next()
            && let Some(other) = ids.find(|id| *id != first)
        {
            return Err(PositionCallError::OtherPosition(first, other));
        }
        let withdrawal = |params: &Manager::DecreaseLiquidityParams| Withdrawal {
            liquidity: params.liquidity,
            least: [params.amount0Min, params.amount1Min],
            deadline: params.deadline,
        };
        let added = |params: &Manager::IncreaseLiquidityParams| Deposit {
            most: [params.amount0Desired, params.amount1Desired],
            least: [params.amount0Min, params.amount1Min],
            deadline: params.deadline,
        };
        let plan = match steps.as_slice() {
            [Step::Collect(collect)] => Self::Collect { token_id: collect.tokenId },
            [Step::Decrease(part), Step::Collect(_)] => Self::Remove { token_id: part.tokenId, part: withdrawal(part) },
            [Step::Decrease(part), Step::Collect(_), Step::Burn(token_id)] => {
                Self::Close { token_id: *token_id, part: Some(withdrawal(part)) }
            }
            [Step::Collect(_), Step::Burn(token_id)] => Self::Close { token_id: *token_id, part: None },
            [Step::Mint(params)] => Self::Mint {
                token0: params.token0,
                token1: params.token1,
                fee: params.fee.to(),
                range: TickRange::new(params.tickLower.as_i32(), params.tickUpper.as_i32())
                    .map_err(|_| PositionCallError::Range)?,
                deposit: Deposit {
                    most: [params.amount0Desired, params.amount1Desired],
                    least: [params.amount0Min, params.amount1Min],
                    deadline: params.deadline,
                },
            },
            [Step::Increase(params)] => Self::Increase { token_id: params.tokenId, deposit: added(params) },
            [Step::Collect(_), Step::Increase(params)] => {
                Self::Compound { token_id: params.tokenId, deposit: added(params) }
            }
            _ => return Err(PositionCallError::Unknown),
        };
        // Maximum amounts of a collection, offsets, padding and trailing bytes: all of it must be what we would send.
        if plan.calldata(account).as_ref() != data {
            return Err(PositionCallError::Encoding);
        }
        Ok(plan)
    }

    /// Number of the position's token; `None` for one that is only opened.
    pub fn token_id(&self) -> Option<U256> {
        match self {
            Self::Collect { token_id }
            | Self::Remove { token_id, .. }
            | Self::Close { token_id, .. }
            | Self::Increase { token_id, .. }
            | Self::Compound { token_id, .. } => Some(*token_id),
            Self::Mint { .. } => None,
        }
    }

    /// Returns true if the plan only takes something out of a position.
    pub fn is_exit(&self) -> bool {
        match self {
            Self::Collect { .. } | Self::Remove { .. } | Self::Close { .. } => true,
            Self::Mint { .. } | Self::Increase { .. } | Self::Compound { .. } => false,
        }
    }

    /// Deposit of the plan, if it has one.
    pub fn deposit(&self) -> Option<Deposit> {
        match self {
            Self::Mint { deposit, .. } | Self::Increase { deposit, .. } | Self::Compound { deposit, .. } => {
                Some(*deposit)
            }
            Self::Collect { .. } | Self::Remove { .. } | Self::Close { .. } => None,
        }
    }

    /// Withdrawal of the plan, if it has one.
    pub fn withdrawal(&self) -> Option<Withdrawal> {
        match self {
            Self::Remove { part, .. } => Some(*part),
            Self::Close { part, .. } => *part,
            Self::Collect { .. } | Self::Mint { .. } | Self::Increase { .. } | Self::Compound { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::hex;

    use super::*;

    const ME: Address = Address::repeat_byte(0xa1);
    const OTHER: Address = Address::repeat_byte(0xa2);

    fn number(of: u64) -> U256 {
        U256::from(of)
    }

    fn part() -> Withdrawal {
        Withdrawal { liquidity: 5, least: [number(1), number(2)], deadline: number(99) }
    }

    fn deposit() -> Deposit {
        Deposit { most: [number(9), number(8)], least: [number(7), number(6)], deadline: number(99) }
    }

    fn plans() -> Vec<PositionPlan> {
        let token_id = number(3);
        let range = TickRange::new(-600, 1_200).unwrap();
        vec![
            PositionPlan::Collect { token_id },
            PositionPlan::Remove { token_id, part: part() },
            PositionPlan::Close { token_id, part: Some(part()) },
            PositionPlan::Close { token_id, part: None },
            PositionPlan::Mint { token0: ME, token1: OTHER, fee: 3_000, range, deposit: deposit() },
            PositionPlan::Increase { token_id, deposit: deposit() },
            PositionPlan::Compound { token_id, deposit: deposit() },
        ]
    }

    #[test]
    fn a_plan_is_read_back_from_its_bytes_and_from_no_others() {
        for plan in plans() {
            let data = plan.calldata(ME);
            assert_eq!(PositionPlan::decode(&data, ME), Ok(plan));
            let other = PositionPlan::decode(&data, OTHER);
            match plan {
                // The manager checks the owner of the token; nothing is paid to the caller.
                PositionPlan::Increase { .. } => assert_eq!(other, Ok(plan)),
                _ => assert_eq!(other, Err(PositionCallError::Recipient(ME)), "{plan:?}"),
            }
            let longer = [data.as_ref(), &[0]].concat();
            assert!(PositionPlan::decode(&longer, ME).is_err(), "trailing bytes of {plan:?}");
            assert!(PositionPlan::decode(&data[..data.len() - 1], ME).is_err());
        }
        assert_eq!(PositionPlan::decode(&[], ME), Err(PositionCallError::Unknown));
    }

    /// Bytes of `collect((7, 0xa1…, 2^128 − 1, 2^128 − 1))`: selector `0xfc6f7865` and four words, written by hand.
    #[test]
    fn a_collection_has_the_bytes_of_the_published_interface() {
        let mut words = [0_u8; 128];
        words[31] = 7;
        words[44..64].copy_from_slice(ME.as_slice());
        words[80..96].fill(0xff);
        words[112..128].fill(0xff);
        let data = [hex!("fc6f7865").as_slice(), &words].concat();
        assert_eq!(PositionPlan::Collect { token_id: number(7) }.calldata(ME).as_ref(), data);
    }

    #[test]
    fn a_multicall_holds_one_known_sequence_for_one_position() {
        let step = |plan: PositionPlan| plan.calldata(ME);
        let collect = |id| step(PositionPlan::Collect { token_id: number(id) });
        let increase = |id| step(PositionPlan::Increase { token_id: number(id), deposit: deposit() });
        let together = |data: Vec<Bytes>| Manager::multicallCall { data }.abi_encode();
        let decode = |data: Vec<Bytes>| PositionPlan::decode(&together(data), ME);
        assert_eq!(decode(vec![collect(3), collect(4)]), Err(PositionCallError::OtherPosition(number(3), number(4))));
        assert_eq!(decode(vec![increase(3), collect(3)]), Err(PositionCallError::Unknown));
        assert_eq!(decode(vec![collect(3), collect(3)]), Err(PositionCallError::Unknown));
        assert_eq!(decode(vec![]), Err(PositionCallError::Unknown));
        // A single call inside a multicall is the same action in other bytes.
        assert_eq!(decode(vec![collect(3)]), Err(PositionCallError::Encoding));
        let nested = Bytes::from(together(vec![collect(3)]));
        assert_eq!(decode(vec![nested]), Err(PositionCallError::Unknown));
        let sweep = Bytes::from(hex!("df2ab5bb").to_vec());
        let close = Manager::multicallCall::abi_decode(&step(plans()[2])).unwrap().data;
        assert_eq!(decode([close.clone(), vec![sweep]].concat()), Err(PositionCallError::Unknown));
        // A collection of less would leave something in a closed position.
        let mut some = Manager::collectCall::abi_decode(&collect(3)).unwrap();
        some.params.amount0Max = 1;
        assert_eq!(PositionPlan::decode(&some.abi_encode(), ME), Err(PositionCallError::Encoding));
    }
}
