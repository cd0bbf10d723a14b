//! Explanations of reverts for traders: what happened, and what would succeed.
//!
//! Names and messages are those of routers, pools, tokens, Permit2, reactors and the policy contract. Any contract can
//! use them, so the explanation is shown in addition to the contract's own reason.

/// Explanation of a revert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevertMeaning {
    /// Description of the failure.
    pub happened: &'static str,
    /// Description of a transaction that would succeed.
    pub would_pass: &'static str,
}

/// Names and messages with the same explanation.
type Row = (&'static [&'static str], RevertMeaning);

const fn means(happened: &'static str, would_pass: &'static str) -> RevertMeaning {
    RevertMeaning { happened, would_pass }
}

/// Solidity's checked arithmetic, with which tokens and pools without named errors refuse excessive amounts.
pub(super) const OVERFLOW: RevertMeaning = means(
    "arithmetic overflow; for a token, the balance or allowance is below the amount",
    "an amount within balance and allowance",
);

/// Explanation of an error name or message; `None` if it is unknown.
pub(super) fn meaning(word: &str) -> Option<RevertMeaning> {
    MEANINGS.iter().find(|(words, _)| words.contains(&word)).map(|(_, meaning)| *meaning)
}

const MEANINGS: &[Row] = &[
    // Routers, by error name and by the messages of older ones.
    (
        &[
            "V2TooLittleReceived",
            "V3TooLittleReceived",
            "V4TooLittleReceived",
            "Too little received",
            "UniswapV2Router: INSUFFICIENT_OUTPUT_AMOUNT",
        ],
        means(
            "the price moved: the output would be below the minimum",
            "the same with a new quote, or with more slippage",
        ),
    ),
    (
        &[
            "V2TooMuchRequested",
            "V3TooMuchRequested",
            "V4TooMuchRequested",
            "Too much requested",
            "UniswapV2Router: EXCESSIVE_INPUT_AMOUNT",
        ],
        means(
            "the price moved: the input would exceed the maximum",
            "the same with a new quote, or with more slippage",
        ),
    ),
    (
        &["InsufficientToken"],
        means(
            "the router has less of the token than the minimum to pay out",
            "the same with a new quote, or with more slippage",
        ),
    ),
    (
        &["InsufficientETH"],
        means(
            "the router has less of the native token than it must pay out or wrap",
            "the same with a new quote, or with more slippage",
        ),
    ),
    (
        &["TransactionDeadlinePassed", "DeadlinePassed", "Transaction too old", "UniswapV2Router: EXPIRED"],
        means("its deadline has passed", "the same with a new quote"),
    ),
    (&["V3InvalidAmountOut"], means("the pool cannot pay the full amount", "a smaller amount, or another pool")),
    (
        &["V3InvalidSwap", "UniswapV2: INSUFFICIENT_LIQUIDITY", "UniswapV2Library: INSUFFICIENT_LIQUIDITY"],
        means("the pool is too shallow for this amount", "a smaller amount, or another pool"),
    ),
    (&["V3InvalidCaller"], means("a contract that is not a pool of this route called back", "another route")),
    (
        &[
            "ETHNotAccepted",
            "InvalidEthSender",
            "InvalidCommandType",
            "InvalidPath",
            "V2InvalidPath",
            "SliceOutOfBounds",
        ],
        means("the router cannot decode the call, or rejects the native token sent with it", "another route"),
    ),
    // Pools.
    (
        &["IIA", "UniswapV2: K", "UniswapV2: INSUFFICIENT_INPUT_AMOUNT"],
        means(
            "the pool received less than expected: the token keeps part of each transfer",
            "another token, or an amount that allows for this token's fee",
        ),
    ),
    (
        &["LOK", "UniswapV2: LOCKED", "ContractLocked", "ReentrancyGuardReentrantCall"],
        means("the contract is executing another call (reentrancy lock)", "the same without a nested call"),
    ),
    (&["SPL"], means("the price is beyond this trade's limit", "the same with a new quote")),
    (&["AS"], means("the amount to trade is zero", "an amount above zero")),
    // Tokens and transfer helpers.
    (
        &["ERC20InsufficientBalance", "ERC20: transfer amount exceeds balance", "InsufficientBalance"],
        means("the balance is below the amount", "an amount within the balance"),
    ),
    (
        &["ERC20InsufficientAllowance", "ERC20: insufficient allowance", "ERC20: transfer amount exceeds allowance"],
        means("the allowance is below the amount", "the same after an allowance for the full amount"),
    ),
    (
        &[
            "TRANSFER_FROM_FAILED",
            "TransferHelper: TRANSFER_FROM_FAILED",
            "TransferHelper::transferFrom: transferFrom failed",
            "STF",
        ],
        means(
            "the token could not be taken: balance or allowance too low, or the token refuses",
            "an amount within balance and allowance, of a transferable token",
        ),
    ),
    (
        &[
            "TRANSFER_FAILED",
            "TransferHelper: TRANSFER_FAILED",
            "UniswapV2: TRANSFER_FAILED",
            "TF",
            "ST",
            "SafeERC20FailedOperation",
        ],
        means("the token could not be paid out: it refuses, or its balance is too low", "another token"),
    ),
    (
        &["APPROVE_FAILED", "SA"],
        means("the token refuses the allowance", "the same after the old allowance is revoked, or another token"),
    ),
    (
        &["ETH_TRANSFER_FAILED", "NativeTransferFailed", "STE", "TransferHelper: ETH_TRANSFER_FAILED"],
        means("the recipient rejects the native token", "another recipient"),
    ),
    (
        &["ERC20InvalidReceiver", "ERC20InvalidSpender"],
        means("the token refuses this address", "another recipient or spender"),
    ),
    (
        &["EnforcedPause", "Pausable: paused"],
        means("the contract is paused", "the same when the contract is no longer paused"),
    ),
    // Permit2 and permits.
    (&["AllowanceExpired"], means("the Permit2 allowance has expired", "the same with a new allowance")),
    (
        &["InsufficientAllowance"],
        means("the Permit2 allowance is below the amount", "the same with an allowance for the full amount"),
    ),
    (
        &["SignatureExpired", "ERC2612ExpiredSignature"],
        means("the signature has expired", "the same with a new signature"),
    ),
    (&["InvalidNonce"], means("the signature was already used, or was cancelled", "the same with a new signature")),
    (
        &[
            "InvalidSignature",
            "InvalidSigner",
            "InvalidSignatureLength",
            "InvalidContractSignature",
            "ERC2612InvalidSigner",
        ],
        means(
            "the signature is not the owner's over this message",
            "the same with the owner's signature over this message",
        ),
    ),
    (&["InvalidAmount"], means("the amount exceeds the signature's limit", "an amount within the signature's limit")),
    // Reactors.
    (
        &["InsufficientOutput"],
        means("the filler delivers less than the order's minimum", "a filler that delivers the order's minimum"),
    ),
    (
        &["OrderNotFillable"],
        means("the order may not be filled in this block yet", "the same from the order's block on"),
    ),
    (&["InvalidReactor"], means("the order is for another reactor", "an order for this reactor")),
    (
        &[
            "InvalidCosignature",
            "InvalidCosignerInput",
            "InvalidCosignerOutput",
            "InvalidCosignerNonce",
            "CosignerExpired",
        ],
        means("the cosigner's data does not match the order", "an order with the cosigner's own data"),
    ),
    (
        &["NoExclusiveOverride"],
        means("the order is still exclusive to one filler", "the same after that filler's exclusivity ends"),
    ),
    (
        &["DeadlineBeforeEndTime", "EndTimeBeforeStartTime", "OrderEndTimeBeforeStartTime", "InvalidDecayCurve"],
        means("the order's times are not in sequence", "an order that ends after it starts"),
    ),
    // The owner's policy contract.
    (&["NoRules"], means("the account has set no rules in its policy contract", "the same after the owner sets rules")),
    (
        &["CallNotAllowed", "OnlySingleCalls", "SpenderNotAllowed", "AssetNotAllowed", "Nested"],
        means("the owner's policy contract does not list it", "a call that the owner lists"),
    ),
    (
        &["OverPerTransaction", "OverPerDay", "OverPosition"],
        means("it exceeds a limit of the owner's policy contract", "a smaller amount"),
    ),
    (
        &["LossTooLarge"],
        means("the loss would exceed the owner's policy contract's limit", "the same at a better price"),
    ),
    (
        &["DrawdownReached"],
        means(
            "the drawdown limit of the owner's policy contract is reached",
            "an exit, or the same after the owner resets it",
        ),
    ),
    (
        &["TooSoon"],
        means("it is too soon after the last one for the owner's policy contract", "the same later, or an exit now"),
    ),
    (&["PriceUnusable"], means("the owner's policy contract has no usable price", "the same with live feeds")),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_revert_word_has_one_explanation() {
        let words: Vec<&str> = MEANINGS.iter().flat_map(|(words, _)| words.iter().copied()).collect();
        let distinct: BTreeSet<&str> = words.iter().copied().collect();
        assert_eq!(distinct.len(), words.len());
    }

    /// A name that is missing in the error table would never be decoded, so its explanation would be unreachable.
    #[test]
    fn every_explained_error_name_is_a_known_error() {
        let message = |word: &str| word.contains([' ', ':', '_']) || word.chars().all(|one| one.is_ascii_uppercase());
        for (words, _) in MEANINGS {
            for word in words.iter().filter(|word| !message(word)) {
                let declared = format!("error {word}(");
                assert!(super::super::KNOWN_ERRORS.iter().any(|error| error.starts_with(&declared)), "{word}");
            }
        }
    }
}
