//! Commands of the Universal Router. Their inputs are ABI-encoded tuples; only a V3 path within them is packed, and
//! reversed for an exact output. The input of V4_SWAP is a program of actions (see `v4_swap`).
//!
//! Formats: <https://github.com/Uniswap/universal-router>, `contracts/base/Dispatcher.sol`.

use alloy::primitives::{Address, Bytes, U256, hex};
use alloy::sol_types::SolValue;

use super::RouterVersion;
use super::v4_swap::{self, V4Path};
use golem_chain::permit2::PermitSingle;

/// Length of a fee in a packed V3 path, in bytes.
const FEE_BYTES: usize = 3;
/// Length of a token and its fee in a packed V3 path, in bytes.
const STEP_BYTES: usize = Address::len_bytes() + FEE_BYTES;
/// Maximum fee, which has 24 bits.
const MAX_FEE: u32 = (1 << 24) - 1;

/// Supported command of the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouterCommand {
    /// Swap through pools of one version.
    Swap(SwapCommand),
    /// Submits a signed allowance to Permit2.
    Permit2Permit {
        /// Permit that was signed.
        permit: PermitSingle,
        /// Signature of the permit.
        signature: Bytes,
    },
    /// Wraps native tokens that the router holds.
    WrapEth {
        /// Recipient of the wrapped tokens.
        recipient: Address,
        /// Amount in wei, or [`WHOLE_BALANCE`](super::WHOLE_BALANCE).
        amount: U256,
    },
    /// Unwraps all wrapped native tokens that the router holds.
    UnwrapWeth {
        /// Recipient of the native tokens.
        recipient: Address,
        /// Minimum amount in wei; a smaller one reverts.
        amount_min: U256,
    },
    /// Sends the router's whole balance of a token.
    Sweep {
        /// Token; the zero address is the native token.
        token: Address,
        /// Recipient of the tokens.
        recipient: Address,
        /// Minimum amount in raw units; a smaller one reverts.
        amount_min: U256,
    },
    /// Sends a share of the router's balance of a token.
    PayPortion {
        /// Token; the zero address is the native token.
        token: Address,
        /// Recipient of the tokens.
        recipient: Address,
        /// Share of the balance, in basis points.
        bips: U256,
    },
}

/// Swap command of the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapCommand {
    /// Path through the pools.
    pub path: SwapPath,
    /// Fixed amount, and the bound of the other one.
    pub exact: SwapAmounts,
    /// Recipient of the output.
    pub recipient: Address,
    /// True if the caller pays through Permit2; false if the router pays from its balance.
    pub payer_is_user: bool,
    /// Minimum price per hop, times 10^36, for routers from 2.1.1 on; empty for no bound.
    pub min_hop_prices: Vec<U256>,
}

/// Fixed amount of a swap and the bound of the other one, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapAmounts {
    /// Exact input amount.
    In {
        /// Input amount in raw units.
        amount: U256,
        /// Minimum output; a smaller one reverts.
        out_min: U256,
    },
    /// Exact output amount.
    Out {
        /// Output amount in raw units.
        amount: U256,
        /// Maximum input; a larger one reverts.
        in_max: U256,
    },
}

/// Path of a swap command, in trading order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwapPath {
    /// Tokens of a V2 path; each adjacent two identify a pair.
    V2(Vec<Address>),
    /// Tokens of a V3 path with the fees between them.
    V3(V3Path),
    /// Currencies of a V4 path with the pools between them.
    V4(V4Path),
}

/// Path through V3 pools, in trading order for exact input and exact output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V3Path {
    first: Address,
    /// Fee in hundredths of a basis point, and output token of each pool.
    steps: Vec<(u32, Address)>,
}

/// Error for a command that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Command of the contract that Bardo does not use.
    #[error("{name} (0x{code:02x}) is not used by Bardo")]
    Refused {
        /// Command byte, including flags.
        code: u8,
        /// Name in the contract.
        name: &'static str,
    },
    /// Command whose failure would be ignored.
    #[error("0x{code:02x} may fail without undoing the rest, which Bardo never allows")]
    MayFail {
        /// Command byte, including flags.
        code: u8,
    },
    /// Invalid command input.
    #[error("the input of 0x{code:02x} is invalid: {input}")]
    Malformed {
        /// Byte of the command.
        code: u8,
        /// Start of the input, as hexadecimal digits.
        input: String,
    },
}

impl V3Path {
    /// Creates a path from `first` through pools of the given fees to their output tokens. `None` for a path without
    /// pools, or a fee above 24 bits.
    pub fn new(first: Address, steps: Vec<(u32, Address)>) -> Option<Self> {
        (!steps.is_empty() && steps.iter().all(|(fee, _)| *fee <= MAX_FEE)).then_some(Self { first, steps })
    }

    /// Returns the input token.
    pub fn first(&self) -> Address {
        self.first
    }

    /// Returns fee and output token of each hop.
    pub fn steps(&self) -> &[(u32, Address)] {
        &self.steps
    }

    /// Packs tokens and fees for the router; from the last token to the first for an exact output.
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

    /// Parses a packed path; `None` if its length or a fee is invalid.
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

impl RouterCommand {
    /// Returns the command byte.
    pub fn code(&self) -> u8 {
        match self {
            Self::Swap(SwapCommand { path: SwapPath::V3(_), exact: SwapAmounts::In { .. }, .. }) => 0x00,
            Self::Swap(SwapCommand { path: SwapPath::V3(_), exact: SwapAmounts::Out { .. }, .. }) => 0x01,
            Self::Sweep { .. } => 0x04,
            Self::PayPortion { .. } => 0x06,
            Self::Swap(SwapCommand { path: SwapPath::V2(_), exact: SwapAmounts::In { .. }, .. }) => 0x08,
            Self::Swap(SwapCommand { path: SwapPath::V2(_), exact: SwapAmounts::Out { .. }, .. }) => 0x09,
            Self::Permit2Permit { .. } => 0x0a,
            Self::WrapEth { .. } => 0x0b,
            Self::UnwrapWeth { .. } => 0x0c,
            Self::Swap(SwapCommand { path: SwapPath::V4(_), .. }) => 0x10,
        }
    }

    /// Returns the ABI-encoded input for a router of this version.
    pub fn input(&self, version: RouterVersion) -> Bytes {
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

    /// Decodes one command.
    ///
    /// # Errors
    /// Returns a [`CommandError`] for an unsupported command, one that may fail, or an invalid input.
    pub fn decode(code: u8, input: &[u8], version: RouterVersion) -> Result<Self, CommandError> {
        if code & 0x80 != 0 {
            return Err(CommandError::MayFail { code });
        }
        let shown = hex::encode_prefixed(input.get(..32).unwrap_or(input));
        let malformed = || CommandError::Malformed { code, input: shown.clone() };
        let command = match code {
            0x00 | 0x01 | 0x08 | 0x09 => SwapCommand::decode(code, input, version).map(Self::Swap),
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
            0x10 => v4_swap::decode(input, version).map(Self::Swap),
            _ => return Err(CommandError::Refused { code, name: refused_name(code) }),
        };
        command.ok_or_else(malformed)
    }
}

impl SwapCommand {
    pub(super) fn input(&self, version: RouterVersion) -> Vec<u8> {
        let (amount, bound, exact_output) = match self.exact {
            SwapAmounts::In { amount, out_min } => (amount, out_min, false),
            SwapAmounts::Out { amount, in_max } => (amount, in_max, true),
        };
        let (to, user, prices) = (self.recipient, self.payer_is_user, self.min_hop_prices.clone());
        match (&self.path, version) {
            (SwapPath::V2(path), RouterVersion::V2_0 | RouterVersion::V2_1_0) => {
                (to, amount, bound, path.clone(), user).abi_encode_params()
            }
            (SwapPath::V2(path), RouterVersion::V2_1_1) => {
                (to, amount, bound, path.clone(), user, prices).abi_encode_params()
            }
            (SwapPath::V3(path), RouterVersion::V2_0 | RouterVersion::V2_1_0) => {
                (to, amount, bound, path.pack(exact_output), user).abi_encode_params()
            }
            (SwapPath::V3(path), RouterVersion::V2_1_1) => {
                (to, amount, bound, path.pack(exact_output), user, prices).abi_encode_params()
            }
            (SwapPath::V4(path), _) => v4_swap::input(self, path, version),
        }
    }

    fn decode(code: u8, input: &[u8], version: RouterVersion) -> Option<Self> {
        let exact_output = code & 1 == 1;
        let v2 = code & 8 == 8;
        let (recipient, amount, bound, path, payer_is_user, min_hop_prices) = match (v2, version) {
            (true, RouterVersion::V2_0 | RouterVersion::V2_1_0) => {
                type Input = (Address, U256, U256, Vec<Address>, bool);
                let (to, amount, bound, path, user) = Input::abi_decode_params_validate(input).ok()?;
                (to, amount, bound, SwapPath::V2(path), user, Vec::new())
            }
            (true, RouterVersion::V2_1_1) => {
                type Input = (Address, U256, U256, Vec<Address>, bool, Vec<U256>);
                let (to, amount, bound, path, user, prices) = Input::abi_decode_params_validate(input).ok()?;
                (to, amount, bound, SwapPath::V2(path), user, prices)
            }
            (false, RouterVersion::V2_0 | RouterVersion::V2_1_0) => {
                type Input = (Address, U256, U256, Bytes, bool);
                let (to, amount, bound, path, user) = Input::abi_decode_params_validate(input).ok()?;
                (to, amount, bound, SwapPath::V3(V3Path::unpack(&path, exact_output)?), user, Vec::new())
            }
            (false, RouterVersion::V2_1_1) => {
                type Input = (Address, U256, U256, Bytes, bool, Vec<U256>);
                let (to, amount, bound, path, user, prices) = Input::abi_decode_params_validate(input).ok()?;
                (to, amount, bound, SwapPath::V3(V3Path::unpack(&path, exact_output)?), user, prices)
            }
        };
        let exact = if exact_output {
            SwapAmounts::Out { amount, in_max: bound }
        } else {
            SwapAmounts::In { amount, out_min: bound }
        };
        Some(Self { path, exact, recipient, payer_is_user, min_hop_prices })
    }
}

/// Returns the contract's name of a command that Bardo does not use.
fn refused_name(code: u8) -> &'static str {
    match code {
        0x02 => "PERMIT2_TRANSFER_FROM",
        0x03 => "PERMIT2_PERMIT_BATCH",
        0x05 => "TRANSFER",
        0x07 => "PAY_PORTION_FULL_PRECISION",
        0x0d => "PERMIT2_TRANSFER_FROM_BATCH",
        0x0e => "BALANCE_CHECK_ERC20",
        0x11 => "V3_POSITION_MANAGER_PERMIT",
        0x12 => "V3_POSITION_MANAGER_CALL",
        0x13 => "V4_INITIALIZE_POOL",
        0x14 => "V4_POSITION_MANAGER_CALL",
        0x21 => "EXECUTE_SUB_PLAN",
        0x40 => "ACROSS_V4_DEPOSIT_V3",
        _ => "an unknown command",
    }
}
