//! Decoding of revert reasons: `Error(string)`, `Panic(uint256)`, custom errors of known protocols, and raw bytes for
//! the rest. `words` explains known reasons.
//!
//! Text from a contract is untrusted and becomes [`SafeText`].

mod words;

use std::{collections::HashMap, fmt, sync::LazyLock};

use alloy::{
    dyn_abi::{DynSolValue, ErrorExt as _},
    json_abi::{Error, JsonAbi},
    primitives::{Bytes, FixedBytes, U256, hex},
    sol_types::{Panic, PanicKind, Revert, SolError},
};

use bardo_base::text::SafeText;

pub use words::RevertMeaning;

/// Maximum length of a revert message, in characters.
const MAX_TEXT: usize = 512;
/// Maximum length of a custom error's argument, in characters.
const MAX_ARGUMENT: usize = 256;
/// Maximum depth of reverts inside custom errors, which can carry an inner call's revert.
const MAX_NESTING: usize = 4;

/// Reason of a revert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevertReason {
    /// The revert carries no data.
    Empty,
    /// `Error(string)`, from `require` with a message.
    Message(SafeText),
    /// `Panic(uint256)`, from the compiler's own checks.
    Panic {
        /// Solidity's panic code.
        code: U256,
        /// Meaning of the code.
        meaning: &'static str,
    },
    /// A custom error that a known contract declares.
    Custom {
        /// Name of the error.
        name: SafeText,
        /// Its arguments as `name: value` (or the value alone), in order.
        arguments: Vec<SafeText>,
        /// Revert of an inner call that it passes on.
        inner: Option<Box<RevertReason>>,
    },
    /// Unknown revert data.
    Raw(Bytes),
}

/// Known custom errors by selector. For errors with the same selector, the first that fits the data is used.
#[derive(Debug, Clone, Default)]
pub struct KnownErrors {
    by_selector: HashMap<FixedBytes<4>, Vec<Error>>,
}

impl RevertReason {
    /// Decodes revert data with the built-in error table.
    pub fn decode(data: &Bytes) -> Self {
        KnownErrors::known().decode(data)
    }

    /// Explanation of the reason, from the innermost known call; `None` if it is unknown.
    pub fn meaning(&self) -> Option<RevertMeaning> {
        match self {
            Self::Message(message) => words::meaning(message.as_str()),
            Self::Custom { name, inner, .. } => {
                inner.as_ref().and_then(|inner| inner.meaning()).or_else(|| words::meaning(name.as_str()))
            }
            Self::Panic { code, .. } => {
                (*code == U256::from(PanicKind::UnderOverflow as u32)).then_some(words::OVERFLOW)
            }
            Self::Empty | Self::Raw(_) => None,
        }
    }
}

impl KnownErrors {
    /// Errors of the supported protocols.
    pub fn known() -> &'static Self {
        static KNOWN: LazyLock<KnownErrors> = LazyLock::new(|| {
            let mut errors = KnownErrors::default();
            for declaration in KNOWN_ERRORS {
                // A test parses the whole table; an invalid declaration would only leave its revert undecoded.
                if let Ok(error) = Error::parse(declaration) {
                    errors.insert(error);
                }
            }
            errors
        });
        &KNOWN
    }

    /// Adds all errors of a contract's JSON ABI.
    pub fn add(&mut self, abi: &JsonAbi) {
        abi.errors().cloned().for_each(|error| self.insert(error));
    }

    /// Decodes revert data.
    pub fn decode(&self, data: &Bytes) -> RevertReason {
        self.decode_nested(data, 0)
    }

    fn insert(&mut self, error: Error) {
        let same_selector = self.by_selector.entry(error.selector()).or_default();
        if !same_selector.contains(&error) {
            same_selector.push(error);
        }
    }

    fn decode_nested(&self, data: &Bytes, depth: usize) -> RevertReason {
        if data.is_empty() {
            return RevertReason::Empty;
        }
        if let Ok(Revert { reason }) = Revert::abi_decode(data) {
            return RevertReason::Message(SafeText::clean(&reason, MAX_TEXT));
        }
        if let Ok(Panic { code }) = Panic::abi_decode(data) {
            return RevertReason::Panic { code, meaning: panic_meaning(code) };
        }
        data.get(..4)
            .and_then(|selector| self.by_selector.get(selector))
            .into_iter()
            .flatten()
            .find_map(|error| self.decode_custom(error, data, depth))
            .unwrap_or_else(|| RevertReason::Raw(data.clone()))
    }

    fn decode_custom(&self, error: &Error, data: &Bytes, depth: usize) -> Option<RevertReason> {
        let decoded = error.decode_error(data).ok()?;
        let mut inner = None;
        let mut arguments = Vec::with_capacity(decoded.body.len());
        for (parameter, value) in error.inputs.iter().zip(&decoded.body) {
            let mut passed_on = false;
            if let DynSolValue::Bytes(bytes) = value
                && depth < MAX_NESTING
            {
                match self.decode_nested(&Bytes::copy_from_slice(bytes), depth + 1) {
                    RevertReason::Raw(_) => {}
                    reason => {
                        inner = Some(Box::new(reason));
                        passed_on = true;
                    }
                }
            }
            let mut text = String::new();
            if !parameter.name.is_empty() {
                text.push_str(&parameter.name);
                text.push_str(": ");
            }
            match passed_on {
                // The decoded inner revert follows the error; its bytes would only displace it from a short line.
                true => text.push('…'),
                false => print(value, &mut text),
            }
            arguments.push(SafeText::clean(&text, MAX_ARGUMENT));
        }
        Some(RevertReason::Custom { name: SafeText::clean(&error.name, MAX_ARGUMENT), arguments, inner })
    }
}

/// Meaning of a panic code (Solidity documentation, "Panic via assert and Error via require").
fn panic_meaning(code: U256) -> &'static str {
    match u32::try_from(code).ok().and_then(PanicKind::from_number) {
        Some(PanicKind::Generic) => "compiler-made panic",
        Some(PanicKind::Assert) => "an assertion failed",
        Some(PanicKind::UnderOverflow) => "arithmetic overflow or underflow",
        Some(PanicKind::DivisionByZero) => "division by zero",
        Some(PanicKind::EnumConversionError) => "a number that is not a value of the enum",
        Some(PanicKind::StorageEncodingError) => "a wrongly encoded storage byte array",
        Some(PanicKind::EmptyArrayPop) => "pop from an empty array",
        Some(PanicKind::ArrayOutOfBounds) => "array index out of bounds",
        Some(PanicKind::ResourceError) => "too much memory requested",
        Some(PanicKind::InvalidInternalFunction) => "call of an uninitialised function",
        _ => "unknown panic code",
    }
}

fn print(value: &DynSolValue, text: &mut String) {
    use fmt::Write as _;
    // Writing to a String cannot fail.
    let _ = match value {
        DynSolValue::Address(address) => write!(text, "{address}"),
        DynSolValue::Uint(number, _) => write!(text, "{number}"),
        DynSolValue::Int(number, _) => write!(text, "{number}"),
        DynSolValue::Bool(truth) => write!(text, "{truth}"),
        DynSolValue::String(string) => write!(text, "{string}"),
        DynSolValue::Bytes(bytes) => write!(text, "{}", hex::encode_prefixed(bytes)),
        DynSolValue::FixedBytes(word, size) => {
            write!(text, "{}", hex::encode_prefixed(word.get(..*size).unwrap_or_default()))
        }
        DynSolValue::Function(function) => write!(text, "{function}"),
        DynSolValue::Array(values)
        | DynSolValue::FixedArray(values)
        | DynSolValue::Tuple(values)
        | DynSolValue::CustomStruct { tuple: values, .. } => {
            text.push('(');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                print(value, text);
            }
            text.push(')');
            Ok(())
        }
    };
}

/// Shows the explanation if there is one, and always the contract's own reason.
impl fmt::Display for RevertReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => {
                write!(f, "{}; by the contract: ", meaning.happened)?;
                self.raw(f)
            }
            None => self.raw(f),
        }
    }
}

impl RevertReason {
    /// Writes the contract's own reason.
    fn raw(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the contract gives no reason"),
            Self::Message(message) => write!(f, "{message}"),
            Self::Panic { code, meaning } => write!(f, "panic {code:#04x}: {meaning}"),
            Self::Custom { name, arguments, inner } => {
                write!(f, "{name}(")?;
                for (index, argument) in arguments.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{argument}")?;
                }
                f.write_str(")")?;
                match inner {
                    Some(inner) => {
                        f.write_str(": ")?;
                        inner.raw(f)
                    }
                    None => Ok(()),
                }
            }
            Self::Raw(data) => {
                let shown = data.get(..data.len().min(68)).unwrap_or_default();
                let rest = if shown.len() < data.len() { "…" } else { "" };
                write!(f, "unknown revert data {}{rest} ({} bytes)", hex::encode_prefixed(shown), data.len())
            }
        }
    }
}

/// Errors of the contracts that Bardo calls: tokens and access control (OpenZeppelin 5), Permit2, PolicyCage, Universal
/// Router, V4-style routers, UniswapX reactors, ERC-4337 EntryPoint, delegation framework.
const KNOWN_ERRORS: &[&str] = &[
    // Lagoon's asynchronous vaults
    "error CantDepositNativeToken()",
    "error ERC7540InvalidOperator()",
    "error ERC7540PreviewDepositDisabled()",
    "error ERC7540PreviewRedeemDisabled()",
    "error MaxCapReached()",
    "error NewTotalAssetsMissing()",
    "error OnlyOneRequestAllowed()",
    "error OnlySafe(address safe)",
    "error OnlyValuationManager(address valuationManager)",
    "error RequestIdNotClaimable()",
    "error RequestNotCancelable(uint256 requestId)",
    "error WrongNewTotalAssets()",
    // OpenZeppelin, ERC-6093
    "error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed)",
    "error ERC20InvalidSender(address sender)",
    "error ERC20InvalidReceiver(address receiver)",
    "error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed)",
    "error ERC20InvalidApprover(address approver)",
    "error ERC20InvalidSpender(address spender)",
    "error ERC721InvalidOwner(address owner)",
    "error ERC721NonexistentToken(uint256 tokenId)",
    "error ERC721IncorrectOwner(address sender, uint256 tokenId, address owner)",
    "error ERC721InvalidSender(address sender)",
    "error ERC721InvalidReceiver(address receiver)",
    "error ERC721InsufficientApproval(address operator, uint256 tokenId)",
    "error ERC721InvalidApprover(address approver)",
    "error ERC721InvalidOperator(address operator)",
    "error ERC1155InsufficientBalance(address sender, uint256 balance, uint256 needed, uint256 tokenId)",
    "error ERC1155InvalidSender(address sender)",
    "error ERC1155InvalidReceiver(address receiver)",
    "error ERC1155MissingApprovalForAll(address operator, address owner)",
    "error ERC1155InvalidApprover(address approver)",
    "error ERC1155InvalidOperator(address operator)",
    "error ERC1155InvalidArrayLength(uint256 idsLength, uint256 valuesLength)",
    "error ERC2612ExpiredSignature(uint256 deadline)",
    "error ERC2612InvalidSigner(address signer, address owner)",
    "error OwnableUnauthorizedAccount(address account)",
    "error OwnableInvalidOwner(address owner)",
    "error AccessControlUnauthorizedAccount(address account, bytes32 neededRole)",
    "error EnforcedPause()",
    "error ExpectedPause()",
    "error ReentrancyGuardReentrantCall()",
    "error SafeERC20FailedOperation(address token)",
    "error AddressEmptyCode(address target)",
    "error AddressInsufficientBalance(address account)",
    "error FailedInnerCall()",
    "error FailedCall()",
    "error InsufficientBalance(uint256 balance, uint256 needed)",
    "error InvalidInitialization()",
    "error NotInitializing()",
    "error InvalidAccountNonce(address account, uint256 currentNonce)",
    "error ECDSAInvalidSignature()",
    "error ECDSAInvalidSignatureLength(uint256 length)",
    "error ECDSAInvalidSignatureS(bytes32 s)",
    // Permit2
    "error AllowanceExpired(uint256 deadline)",
    "error InsufficientAllowance(uint256 amount)",
    "error ExcessiveInvalidation()",
    "error InvalidAmount(uint256 maxAmount)",
    "error LengthMismatch()",
    "error SignatureExpired(uint256 signatureDeadline)",
    "error InvalidNonce()",
    "error InvalidSignature()",
    "error InvalidSignatureLength()",
    "error InvalidSigner()",
    "error InvalidContractSignature()",
    // PolicyCage
    "error NotManager(address sender)",
    "error NoRules(address owner)",
    "error BadRules(string what)",
    "error OnlySingleCalls()",
    "error CallNotAllowed(address target, bytes4 selector)",
    "error SpenderNotAllowed(address spender)",
    "error AssetNotAllowed(address token)",
    "error OverPerTransaction(address token, uint256 amount, uint256 limit)",
    "error OverPerDay(address token, uint256 amount, uint256 limit)",
    "error OverPosition(address token, uint256 amount, uint256 limit)",
    "error LossTooLarge(uint256 valueOut, uint256 valueIn, uint256 maxLossBps)",
    "error DrawdownReached(uint256 value, uint256 floor)",
    "error TooSoon(uint256 nextAt)",
    "error PriceUnusable(address feed)",
    "error Nested()",
    // Universal Router
    "error ExecutionFailed(uint256 commandIndex, bytes message)",
    "error ETHNotAccepted()",
    "error TransactionDeadlinePassed()",
    "error InvalidEthSender()",
    "error InvalidCommandType(uint256 commandType)",
    "error InvalidReserves()",
    "error InvalidPath()",
    "error InvalidBips()",
    "error InvalidSpender()",
    "error InsufficientToken()",
    "error InsufficientETH()",
    "error BalanceTooLow()",
    "error UnsafeCast()",
    "error FromAddressIsNotOwner()",
    "error ContractLocked()",
    "error SliceOutOfBounds()",
    "error V2TooLittleReceived()",
    "error V2TooMuchRequested()",
    "error V2InvalidPath()",
    "error V3InvalidSwap()",
    "error V3TooLittleReceived()",
    "error V3TooMuchRequested()",
    "error V3InvalidAmountOut()",
    "error V3InvalidCaller()",
    "error V4TooLittleReceived(uint256 minAmountOutReceived, uint256 amountReceived)",
    "error V4TooMuchRequested(uint256 maxAmountInRequested, uint256 amountRequested)",
    "error DeltaNotPositive(address currency)",
    "error DeltaNotNegative(address currency)",
    "error InvalidAction(bytes4 action)",
    "error OnlyMintAllowed()",
    "error NotAuthorizedForToken(uint256 tokenId)",
    // UniswapX reactors
    "error DeadlinePassed()",
    "error DeadlineBeforeEndTime()",
    "error EndTimeBeforeStartTime()",
    "error OrderEndTimeBeforeStartTime()",
    "error InputAndOutputDecay()",
    "error InputAndOutputFees()",
    "error InputOutputScaling()",
    "error IncorrectAmounts()",
    "error InvalidCosignature()",
    "error InvalidCosignerInput()",
    "error InvalidCosignerOutput()",
    "error InvalidCosignerNonce()",
    "error CosignerExpired()",
    "error InvalidDecayCurve()",
    "error InvalidGasPrice()",
    "error OrderNotFillable()",
    "error InvalidReactor()",
    "error NoExclusiveOverride()",
    "error ValidationFailed()",
    "error InsufficientOutput(uint256 actualOutput, uint256 minOutput)",
    "error NativeTransferFailed()",
    "error UnsupportedAction()",
    "error DuplicateFeeOutput(address duplicateToken)",
    "error FeeTooLarge(address token, uint256 amount, address recipient)",
    "error InvalidFeeToken(address feeToken)",
    // ERC-4337 EntryPoint 0.7
    "error FailedOp(uint256 opIndex, string reason)",
    "error FailedOpWithRevert(uint256 opIndex, string reason, bytes inner)",
    "error PostOpReverted(bytes returnData)",
    "error SignatureValidationFailed(address aggregator)",
    "error SenderAddressResult(address sender)",
    "error DelegateAndRevert(bool success, bytes ret)",
    // Delegation framework
    "error InvalidDelegation()",
    "error InvalidDelegate()",
    "error InvalidDelegator()",
    "error InvalidAuthority()",
    "error InvalidEOASignature()",
    "error InvalidERC1271Signature()",
    "error EmptySignature()",
    "error CannotUseADisabledDelegation()",
    "error AlreadyDisabled()",
    "error AlreadyEnabled()",
    "error BatchDataLengthMismatch()",
    "error NotDelegationManager()",
    "error NotEntryPointOrSelf()",
    "error NotSelf()",
    "error UnsupportedCallType(bytes1 callType)",
    "error UnsupportedExecType(bytes1 execType)",
    "error ExecutionFailed()",
];

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::{primitives::address, sol, sol_types::SolValue};

    sol! {
        error ExecutionFailed(uint256 commandIndex, bytes message);
        error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
        error NobodyKnowsThis(uint256 a);
    }

    fn decode(data: Vec<u8>) -> RevertReason {
        RevertReason::decode(&data.into())
    }

    #[test]
    fn every_declaration_in_the_table_parses() {
        for declaration in KNOWN_ERRORS {
            let error = Error::parse(declaration).unwrap_or_else(|why| panic!("{declaration}: {why}"));
            assert!(KnownErrors::known().by_selector.contains_key(&error.selector()), "{declaration}");
        }
    }

    #[test]
    fn a_message_is_cleaned() {
        // 0x08c379a0 is keccak("Error(string)")[..4].
        let mut data = vec![0x08, 0xc3, 0x79, 0xa0];
        data.extend(("too \u{1b}[31mlittle".to_string(),).abi_encode_params());
        let RevertReason::Message(text) = decode(data) else { panic!("a message") };
        assert!(text.altered());
        assert!(!text.as_str().contains('\u{1b}'));
        assert!(text.as_str().starts_with("too "));
    }

    #[test]
    fn a_panic_is_named() {
        // 0x4e487b71 is keccak("Panic(uint256)")[..4]; 0x11 is arithmetic overflow.
        let mut data = vec![0x4e, 0x48, 0x7b, 0x71];
        data.extend(U256::from(0x11).to_be_bytes::<32>());
        let reason = decode(data.clone());
        assert_eq!(reason, RevertReason::Panic { code: U256::from(0x11), meaning: "arithmetic overflow or underflow" });
        assert_eq!(
            reason.to_string(),
            "arithmetic overflow; for a token, the balance or allowance is below the amount; by the contract: panic \
             0x11: arithmetic overflow or underflow"
        );
        // 0x12 is a division by zero, which has no further explanation.
        data[35] = 0x12;
        assert_eq!(decode(data).to_string(), "panic 0x12: division by zero");
    }

    #[test]
    fn a_custom_error_shows_its_values_and_what_it_passes_on() {
        let inner = ERC20InsufficientBalance {
            sender: address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
            balance: U256::from(5),
            needed: U256::from(7),
        };
        let outer = ExecutionFailed { commandIndex: U256::from(2), message: inner.abi_encode().into() };
        let text = decode(outer.abi_encode()).to_string();
        assert_eq!(
            text,
            "the balance is below the amount; by the contract: ExecutionFailed(commandIndex: 2, message: …): \
             ERC20InsufficientBalance(sender: 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266, balance: 5, needed: 7)"
        );
        // An unknown inner revert stays as raw bytes.
        let outer = ExecutionFailed { commandIndex: U256::from(2), message: vec![0xab; 3].into() };
        assert_eq!(decode(outer.abi_encode()).to_string(), "ExecutionFailed(commandIndex: 2, message: 0xababab)");
    }

    #[test]
    fn an_undeclared_error_stays_raw() {
        let data = NobodyKnowsThis { a: U256::from(1) }.abi_encode();
        assert_eq!(decode(data.clone()), RevertReason::Raw(data.into()));
        assert_eq!(decode(Vec::new()), RevertReason::Empty);
        // A known selector with data that does not fit it.
        let mut cut = ERC20InsufficientBalance::SELECTOR.to_vec();
        cut.push(1);
        assert_eq!(decode(cut.clone()), RevertReason::Raw(cut.into()));
    }

    #[test]
    fn an_abi_can_be_added() {
        let abi: JsonAbi = serde_json::from_str(
            r#"[{"type":"error","name":"NobodyKnowsThis","inputs":[{"name":"a","type":"uint256"}]}]"#,
        )
        .expect("a JSON ABI");
        let mut errors = KnownErrors::default();
        errors.add(&abi);
        let data = NobodyKnowsThis { a: U256::from(1) }.abi_encode().into();
        assert_eq!(errors.decode(&data).to_string(), "NobodyKnowsThis(a: 1)");
    }
}
