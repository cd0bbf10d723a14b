//! Explanations of reverts for traders: what happened, and what would succeed.
//!
//! Names and messages are those of routers, pools, tokens, Permit2, reactors and the policy contract. Any contract can
//! use them, so the explanation is shown in addition to the contract's own reason.

/// Explanation of a revert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// Description of the failure.
    pub happened: &'static str,
    /// Description of a transaction that would succeed.
    pub would_pass: &'static str,
}

/// Names and messages with the same explanation.
type Row = (&'static [&'static str], Meaning);

const fn means(happened: &'static str, would_pass: &'static str) -> Meaning {
    Meaning { happened, would_pass }
}

/// Solidity's checked arithmetic, with which tokens and pools without named errors refuse excessive amounts.
pub(super) const OVERFLOW: Meaning = means(
    "a sum went below zero or beyond its bounds; with a token, less is held or allowed than is to go out",
    "an amount that is held and allowed",
);

/// Explanation of an error name or message; `None` if it is unknown.
pub(super) fn meaning(word: &str) -> Option<Meaning> {
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
            "the price moved: less than the least you accept would come out",
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
            "the price moved: more than the most you give would go in",
            "the same with a new quote, or with more slippage",
        ),
    ),
    (
        &["InsufficientToken"],
        means(
            "the router has less of the token than the least that it is to pay out",
            "the same with a new quote, or with more slippage",
        ),
    ),
    (
        &["InsufficientETH"],
        means(
            "the router has less of the chain's coin than it is to pay out or to wrap",
            "the same with a new quote, or with more slippage",
        ),
    ),
    (
        &["TransactionDeadlinePassed", "DeadlinePassed", "Transaction too old", "UniswapV2Router: EXPIRED"],
        means("its time is over", "the same with a new quote"),
    ),
    (
        &["V3InvalidAmountOut"],
        means("the pool cannot give the whole amount that was asked for", "a smaller amount, or another pool"),
    ),
    (
        &["V3InvalidSwap", "UniswapV2: INSUFFICIENT_LIQUIDITY", "UniswapV2Library: INSUFFICIENT_LIQUIDITY"],
        means("the pool is too shallow for this amount", "a smaller amount, or another pool"),
    ),
    (&["V3InvalidCaller"], means("a contract that is no pool of this route called back", "another route")),
    (
        &[
            "ETHNotAccepted",
            "InvalidEthSender",
            "InvalidCommandType",
            "InvalidPath",
            "V2InvalidPath",
            "SliceOutOfBounds",
        ],
        means("the router cannot read the call, or does not take the coin sent with it", "another route"),
    ),
    // Pools.
    (
        &["IIA", "UniswapV2: K", "UniswapV2: INSUFFICIENT_INPUT_AMOUNT"],
        means(
            "the pool got less than it was promised: the token keeps a part of what is sent",
            "another token, or an amount that leaves room for what this one keeps",
        ),
    ),
    (
        &["LOK", "UniswapV2: LOCKED", "ContractLocked", "ReentrancyGuardReentrantCall"],
        means("the contract is in the middle of another call", "the same without a call inside a call"),
    ),
    (&["SPL"], means("the price is past the limit of this trade", "the same with a new quote")),
    (&["AS"], means("the amount to trade is zero", "an amount above zero")),
    // Tokens and transfer helpers.
    (
        &["ERC20InsufficientBalance", "ERC20: transfer amount exceeds balance", "InsufficientBalance"],
        means("less is held than is to go out", "an amount that is held"),
    ),
    (
        &["ERC20InsufficientAllowance", "ERC20: insufficient allowance", "ERC20: transfer amount exceeds allowance"],
        means("less of the token may be taken than is to go out", "the same after an allowance of the whole amount"),
    ),
    (
        &[
            "TRANSFER_FROM_FAILED",
            "TransferHelper: TRANSFER_FROM_FAILED",
            "TransferHelper::transferFrom: transferFrom failed",
            "STF",
        ],
        means(
            "the token could not be taken: too little is held or allowed, or the token itself refuses",
            "an amount that is held and allowed, of a token that can be moved",
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
        means("the token could not be paid out: it refuses, or too little of it is there", "another token"),
    ),
    (
        &["APPROVE_FAILED", "SA"],
        means("the token refuses the allowance", "the same after the old allowance is taken back, or another token"),
    ),
    (
        &["ETH_TRANSFER_FAILED", "NativeTransferFailed", "STE", "TransferHelper: ETH_TRANSFER_FAILED"],
        means("whoever was to get the chain's coin refuses it", "another recipient"),
    ),
    (
        &["ERC20InvalidReceiver", "ERC20InvalidSpender"],
        means("the token refuses this address", "another recipient or spender"),
    ),
    (
        &["EnforcedPause", "Pausable: paused"],
        means("the contract is paused", "the same once whoever keeps the contract ends the pause"),
    ),
    // Permit2 and permits.
    (&["AllowanceExpired"], means("the allowance in Permit2 is past its time", "the same with a new allowance")),
    (
        &["InsufficientAllowance"],
        means(
            "the allowance in Permit2 is smaller than what is to be taken",
            "the same with an allowance of the whole amount",
        ),
    ),
    (
        &["SignatureExpired", "ERC2612ExpiredSignature"],
        means("the signature is past its time", "the same with a new signature"),
    ),
    (&["InvalidNonce"], means("the signature was used before, or was made void", "the same with a new signature")),
    (
        &[
            "InvalidSignature",
            "InvalidSigner",
            "InvalidSignatureLength",
            "InvalidContractSignature",
            "ERC2612InvalidSigner",
        ],
        means("the signature is not that of the owner over this", "the same signed by the owner as it stands"),
    ),
    (&["InvalidAmount"], means("more is to be taken than the signature allows", "an amount that the signature allows")),
    // Reactors.
    (
        &["InsufficientOutput"],
        means("the filler brings less than the order's least", "a filler that brings the order's least"),
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
        means("the cosigner's word does not fit the order", "an order with the cosigner's own word"),
    ),
    (
        &["NoExclusiveOverride"],
        means("the order is still one filler's alone", "the same once that filler's time is over"),
    ),
    (
        &["DeadlineBeforeEndTime", "EndTimeBeforeStartTime", "OrderEndTimeBeforeStartTime", "InvalidDecayCurve"],
        means("the order's times do not follow on each other", "an order that ends after it has begun"),
    ),
    // The owner's policy contract.
    (&["NoRules"], means("the account has set no rules in its policy contract", "the same once the owner sets rules")),
    (
        &["CallNotAllowed", "OnlySingleCalls", "SpenderNotAllowed", "AssetNotAllowed", "Nested"],
        means("the owner's policy contract does not list it", "what the owner lists"),
    ),
    (
        &["OverPerTransaction", "OverPerDay", "OverPosition"],
        means("it is above a limit of the owner's policy contract", "a smaller amount"),
    ),
    (
        &["LossTooLarge"],
        means("more value would be lost than the owner's policy contract lets", "the same at a better price"),
    ),
    (
        &["DrawdownReached"],
        means("too much has been lost by the owner's policy contract", "an exit, or the same once the owner resets it"),
    ),
    (
        &["TooSoon"],
        means("it comes too soon after the last one by the owner's policy contract", "the same later, or an exit now"),
    ),
    (&["PriceUnusable"], means("the owner's policy contract has no usable price", "the same with live feeds")),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_word_has_one_meaning() {
        let words: Vec<&str> = MEANINGS.iter().flat_map(|(words, _)| words.iter().copied()).collect();
        let distinct: BTreeSet<&str> = words.iter().copied().collect();
        assert_eq!(distinct.len(), words.len());
    }

    /// A name that is missing in the error table would never be decoded, so its explanation would be unreachable.
    #[test]
    fn every_name_is_one_that_is_decoded() {
        let message = |word: &str| word.contains([' ', ':', '_']) || word.chars().all(|one| one.is_ascii_uppercase());
        for (words, _) in MEANINGS {
            for word in words.iter().filter(|word| !message(word)) {
                let declared = format!("error {word}(");
                assert!(super::super::KNOWN_ERRORS.iter().any(|error| error.starts_with(&declared)), "{word}");
            }
        }
    }
}
