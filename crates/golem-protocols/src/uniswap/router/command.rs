//! Single commands of the Universal Router. Their inputs are ABI-encoded tuples, never packed; only
//! the V3 path inside one is packed, and reversed where the output is exact.
//!
//! Formats: <https://github.com/Uniswap/universal-router>, `contracts/base/Dispatcher.sol`.

use alloy::primitives::{Address, Bytes, U256, hex};
use alloy::sol_types::SolValue;

use super::Version;
use golem_chain::permit2::PermitSingle;

/// Bytes of a fee in a packed V3 path.
const FEE_BYTES: usize = 3;
/// Bytes of a token and the fee after it.
const STEP_BYTES: usize = Address::len_bytes() + FEE_BYTES;
/// A fee has 24 bits.
const MAX_FEE: u32 = (1 << 24) - 1;

/// What the router can be told to do, as far as Bardo tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A swap through pools of one version.
    Swap(Swap),
    /// Hands a signed allowance to Permit2.
    Permit2Permit {
        /// What was signed.
        permit: PermitSingle,
        /// The signature.
        signature: Bytes,
    },
    /// Wraps the chain's coin that the router holds.
    WrapEth {
        /// Who gets the wrapped coin.
        recipient: Address,
        /// Wei, or [`WHOLE_BALANCE`](super::WHOLE_BALANCE).
        amount: U256,
    },
    /// Unwraps all the wrapped coin that the router holds.
    UnwrapWeth {
        /// Who gets the coin.
        recipient: Address,
        /// Least wei; less reverts.
        amount_min: U256,
    },
    /// Sends on all the router holds of a token.
    Sweep {
        /// The token; the zero address is the chain's coin.
        token: Address,
        /// Who gets it.
        recipient: Address,
        /// Least amount; less reverts.
        amount_min: U256,
    },
    /// Sends on a share of what the router holds of a token.
    PayPortion {
        /// The token; the zero address is the chain's coin.
        token: Address,
        /// Who gets it.
        recipient: Address,
        /// Share in basis points.
        bips: U256,
    },
}

/// A swap command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// Through which pools.
    pub path: Path,
    /// Amount and bound.
    pub exact: Exactness,
    /// Who gets the output.
    pub recipient: Address,
    /// Whether the caller pays through Permit2, or the router from what it holds.
    pub payer_is_user: bool,
    /// Lowest price per hop, times 10^36, for routers from 2.1.1 on; empty for no bound.
    pub min_hop_prices: Vec<U256>,
}

/// The fixed side of a swap and the bound on the other, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exactness {
    /// Exactly this much is paid.
    In {
        /// Paid.
        amount: U256,
        /// Least received; less reverts.
        out_min: U256,
    },
    /// Exactly this much is received.
    Out {
        /// Received.
        amount: U256,
        /// Most paid; more reverts.
        in_max: U256,
    },
}

/// The pools of a swap command, in the order of the trade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// Tokens; each neighbouring two name a pair.
    V2(Vec<Address>),
    /// Tokens and the fees between them.
    V3(V3Path),
}

/// A path through V3 pools, in the order of the trade whichever side is exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V3Path {
    first: Address,
    /// Fee in hundredths of a basis point, and the token behind that pool.
    steps: Vec<(u32, Address)>,
}

/// Why a command is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The contract has it and Bardo does not.
    #[error("{name} (0x{code:02x}) is not used by Bardo")]
    Refused {
        /// Its byte, flags included.
        code: u8,
        /// Its name in the contract.
        name: &'static str,
    },
    /// Its failure would be passed over.
    #[error("0x{code:02x} may fail without undoing the rest, which Bardo never allows")]
    MayFail {
        /// Its byte, flags included.
        code: u8,
    },
    /// Its input is not what such a command takes.
    #[error("the input of 0x{code:02x} is invalid: {input}")]
    Malformed {
        /// Its byte.
        code: u8,
        /// The input, shortened.
        input: String,
    },
}

impl V3Path {
    /// A path from `first` through pools of the given fees to the tokens behind them. Nothing for a path
    /// without a pool or a fee of more than 24 bits.
    pub fn new(first: Address, steps: Vec<(u32, Address)>) -> Option<Self> {
        (!steps.is_empty() && steps.iter().all(|(fee, _)| *fee <= MAX_FEE)).then_some(Self { first, steps })
    }

    /// The token paid.
    pub fn first(&self) -> Address {
        self.first
    }

    /// Fee and token of each hop.
    pub fn steps(&self) -> &[(u32, Address)] {
        &self.steps
    }

    /// The path as the router takes it: tokens and fees packed, from the last token to the first where
    /// the output is exact.
    pub fn pack(&self, exact_output: bool) -> Bytes {
        let path = if exact_output { self.reversed() } else { self.clone() };
        let mut packed = path.first.to_vec();
        for (fee, token) in path.steps {
            let [_, fee @ ..] = fee.to_be_bytes();
            packed.extend_from_slice(&fee);
            packed.extend_from_slice(token.as_slice());
        }
        packed.into()
    }

    /// Reads a packed path.
    pub fn unpack(packed: &[u8], exact_output: bool) -> Option<Self> {
        let (first, rest) = packed.split_first_chunk::<{ Address::len_bytes() }>()?;
        if rest.len() % STEP_BYTES != 0 {
            return None;
        }
        let steps = rest.chunks_exact(STEP_BYTES).filter_map(|step| {
            let (fee, token) = step.split_first_chunk::<FEE_BYTES>()?;
            let [high, middle, low] = *fee;
            Some((u32::from_be_bytes([0, high, middle, low]), Address::from_slice(token)))
        });
        let path = Self::new(first.into(), steps.collect())?;
        Some(if exact_output { path.reversed() } else { path })
    }

    fn reversed(&self) -> Self {
        let tokens = std::iter::once(self.first).chain(self.steps.iter().map(|(_, token)| *token));
        let mut tokens: Vec<Address> = tokens.collect();
        tokens.reverse();
        let fees = self.steps.iter().rev().map(|(fee, _)| *fee);
        Self {
            first: tokens.first().copied().unwrap_or(self.first),
            steps: fees.zip(tokens.iter().skip(1).copied()).collect(),
        }
    }
}

impl Command {
    /// The byte that names it.
    pub fn code(&self) -> u8 {
        match self {
            Self::Swap(Swap { path: Path::V3(_), exact: Exactness::In { .. }, .. }) => 0x00,
            Self::Swap(Swap { path: Path::V3(_), exact: Exactness::Out { .. }, .. }) => 0x01,
            Self::Sweep { .. } => 0x04,
            Self::PayPortion { .. } => 0x06,
            Self::Swap(Swap { path: Path::V2(_), exact: Exactness::In { .. }, .. }) => 0x08,
            Self::Swap(Swap { path: Path::V2(_), exact: Exactness::Out { .. }, .. }) => 0x09,
            Self::Permit2Permit { .. } => 0x0a,
            Self::WrapEth { .. } => 0x0b,
            Self::UnwrapWeth { .. } => 0x0c,
        }
    }

    /// Its input, for a router of this version.
    pub fn input(&self, version: Version) -> Bytes {
        match self {
            Self::Swap(swap) => swap.input(version),
            Self::Sweep { token, recipient, amount_min } => (*token, *recipient, *amount_min).abi_encode_params(),
            Self::PayPortion { token, recipient, bips } => (*token, *recipient, *bips).abi_encode_params(),
            Self::Permit2Permit { permit, signature } => (permit.clone(), signature.clone()).abi_encode_params(),
            Self::WrapEth { recipient, amount } => (*recipient, *amount).abi_encode_params(),
            Self::UnwrapWeth { recipient, amount_min } => (*recipient, *amount_min).abi_encode_params(),
        }
        .into()
    }

    /// Reads one command.
    ///
    /// # Errors
    /// A [`CommandError`] for a command that is not one of these, may fail, or has a broken input.
    pub fn decode(code: u8, input: &[u8], version: Version) -> Result<Self, CommandError> {
        if code & 0x80 != 0 {
            return Err(CommandError::MayFail { code });
        }
        let shown = hex::encode_prefixed(input.get(..32).unwrap_or(input));
        let malformed = || CommandError::Malformed { code, input: shown.clone() };
        let command = match code {
            0x00 | 0x01 | 0x08 | 0x09 => Swap::decode(code, input, version).map(Self::Swap),
            0x04 => <(Address, Address, U256)>::abi_decode_params_validate(input)
                .ok()
                .map(|(token, recipient, amount_min)| Self::Sweep { token, recipient, amount_min }),
            0x06 => <(Address, Address, U256)>::abi_decode_params_validate(input)
                .ok()
                .map(|(token, recipient, bips)| Self::PayPortion { token, recipient, bips }),
            0x0a => <(PermitSingle, Bytes)>::abi_decode_params_validate(input)
                .ok()
                .map(|(permit, signature)| Self::Permit2Permit { permit, signature }),
            0x0b => <(Address, U256)>::abi_decode_params_validate(input)
                .ok()
                .map(|(recipient, amount)| Self::WrapEth { recipient, amount }),
            0x0c => <(Address, U256)>::abi_decode_params_validate(input)
                .ok()
                .map(|(recipient, amount_min)| Self::UnwrapWeth { recipient, amount_min }),
            _ => return Err(CommandError::Refused { code, name: refused_name(code) }),
        };
        command.ok_or_else(malformed)
    }
}

impl Swap {
    fn input(&self, version: Version) -> Vec<u8> {
        let (amount, bound, exact_output) = match self.exact {
            Exactness::In { amount, out_min } => (amount, out_min, false),
            Exactness::Out { amount, in_max } => (amount, in_max, true),
        };
        let (to, user, prices) = (self.recipient, self.payer_is_user, self.min_hop_prices.clone());
        match (&self.path, version) {
            (Path::V2(path), Version::V2_0) => (to, amount, bound, path.clone(), user).abi_encode_params(),
            (Path::V2(path), Version::V2_1_1) => (to, amount, bound, path.clone(), user, prices).abi_encode_params(),
            (Path::V3(path), Version::V2_0) => (to, amount, bound, path.pack(exact_output), user).abi_encode_params(),
            (Path::V3(path), Version::V2_1_1) => {
                (to, amount, bound, path.pack(exact_output), user, prices).abi_encode_params()
            }
        }
    }

    fn decode(code: u8, input: &[u8], version: Version) -> Option<Self> {
        let exact_output = code & 1 == 1;
        let v2 = code & 8 == 8;
        let (recipient, amount, bound, path, payer_is_user, min_hop_prices) = match (v2, version) {
            (true, Version::V2_0) => {
                type Input = (Address, U256, U256, Vec<Address>, bool);
                let (to, amount, bound, path, user) = Input::abi_decode_params_validate(input).ok()?;
                (to, amount, bound, Path::V2(path), user, Vec::new())
            }
            (true, Version::V2_1_1) => {
                type Input = (Address, U256, U256, Vec<Address>, bool, Vec<U256>);
                let (to, amount, bound, path, user, prices) = Input::abi_decode_params_validate(input).ok()?;
                (to, amount, bound, Path::V2(path), user, prices)
            }
            (false, Version::V2_0) => {
                type Input = (Address, U256, U256, Bytes, bool);
                let (to, amount, bound, path, user) = Input::abi_decode_params_validate(input).ok()?;
                (to, amount, bound, Path::V3(V3Path::unpack(&path, exact_output)?), user, Vec::new())
            }
            (false, Version::V2_1_1) => {
                type Input = (Address, U256, U256, Bytes, bool, Vec<U256>);
                let (to, amount, bound, path, user, prices) = Input::abi_decode_params_validate(input).ok()?;
                (to, amount, bound, Path::V3(V3Path::unpack(&path, exact_output)?), user, prices)
            }
        };
        let exact = if exact_output {
            Exactness::Out { amount, in_max: bound }
        } else {
            Exactness::In { amount, out_min: bound }
        };
        Some(Self { path, exact, recipient, payer_is_user, min_hop_prices })
    }
}

/// What the contract calls a command that Bardo does not use.
fn refused_name(code: u8) -> &'static str {
    match code {
        0x02 => "PERMIT2_TRANSFER_FROM",
        0x03 => "PERMIT2_PERMIT_BATCH",
        0x05 => "TRANSFER",
        0x07 => "PAY_PORTION_FULL_PRECISION",
        0x0d => "PERMIT2_TRANSFER_FROM_BATCH",
        0x0e => "BALANCE_CHECK_ERC20",
        0x10 => "V4_SWAP",
        0x11 => "V3_POSITION_MANAGER_PERMIT",
        0x12 => "V3_POSITION_MANAGER_CALL",
        0x13 => "V4_INITIALIZE_POOL",
        0x14 => "V4_POSITION_MANAGER_CALL",
        0x21 => "EXECUTE_SUB_PLAN",
        0x40 => "ACROSS_V4_DEPOSIT_V3",
        _ => "an unknown command",
    }
}
