//! Typed data that can be signed: a closed list. Other types cannot be signed, since no function accepts a bare hash.

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::{Eip712Domain, SolStruct, eip712_domain},
};

use bardo_abi::permit2::typed::{PermitSingle, PermitTransferFrom};
use golem_chain::permit2::Domain;
use golem_protocols::intents::Intent;
use golem_protocols::uniswap::order::Order;

/// Typed data of a known type ([EIP-712](https://eips.ethereum.org/EIPS/eip-712)), decoded and never opaque.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypedMessage {
    /// Allowance inside Permit2 for one token (AllowanceTransfer).
    Permit2Allowance {
        /// Address of the Permit2 contract.
        permit2: Address,
        /// Typed data to sign.
        permit: PermitSingle,
    },
    /// Single transfer by Permit2 (SignatureTransfer), without a witness.
    Permit2Transfer {
        /// Address of the Permit2 contract.
        permit2: Address,
        /// Typed data to sign.
        permit: PermitTransferFrom,
    },
    /// UniswapX order: a single transfer by Permit2 for the reactor, with the order as its witness. The cosigner's data
    /// is not part of the signature.
    UniswapxOrder {
        /// Address of the Permit2 contract.
        permit2: Address,
        /// Order that the signature binds.
        order: Box<Order>,
    },
    /// ERC-7683 order: a single transfer by Permit2 for the origin's settler, with the order as its witness.
    CrossChainOrder {
        /// Address of the Permit2 contract.
        permit2: Address,
        /// Order that the signature binds.
        intent: Box<Intent>,
    },
}

/// Amount that a signature permits a spender to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takes {
    /// Address of the token's contract.
    pub token: Address,
    /// Address that may take the token.
    pub spender: Address,
    /// Maximum amount, in raw units.
    pub amount: U256,
    /// Last second in which the signature can be used, since the Unix epoch.
    pub usable_until: u64,
    /// Last second in which the permission is valid, since the Unix epoch.
    pub holds_until: u64,
    /// True if the nonce must be the next in sequence (allowance); false if any unused one is valid (transfer).
    pub ordered: bool,
}

impl TypedMessage {
    /// Returns the hash to sign, on the chain with this id.
    pub fn digest(&self, chain_id: u64) -> B256 {
        match self {
            Self::Permit2Allowance { permit2, permit } => {
                permit.eip712_signing_hash(&permit2_domain(*permit2, chain_id))
            }
            Self::Permit2Transfer { permit2, permit } => {
                permit.eip712_signing_hash(&permit2_domain(*permit2, chain_id))
            }
            Self::UniswapxOrder { permit2, order } => order.permit().digest(&Domain { chain_id, permit2: *permit2 }),
            Self::CrossChainOrder { permit2, intent } => {
                intent.permit().digest(&Domain { chain_id, permit2: *permit2 })
            }
        }
    }

    /// Returns the contract that verifies the signature.
    pub fn verifier(&self) -> Address {
        match self {
            Self::Permit2Allowance { permit2, .. }
            | Self::Permit2Transfer { permit2, .. }
            | Self::UniswapxOrder { permit2, .. }
            | Self::CrossChainOrder { permit2, .. } => *permit2,
        }
    }

    /// Returns the amounts that the signature permits others to take. Times beyond 64 bits are cut to the maximum.
    pub fn takes(&self) -> Vec<Takes> {
        let takes = match self {
            Self::Permit2Allowance { permit, .. } => Takes {
                token: permit.details.token,
                spender: permit.spender,
                amount: U256::from(permit.details.amount),
                usable_until: permit.sigDeadline.saturating_to(),
                holds_until: permit.details.expiration.to::<u64>(),
                ordered: true,
            },
            Self::Permit2Transfer { permit, .. } => Takes {
                token: permit.permitted.token,
                spender: permit.spender,
                amount: permit.permitted.amount,
                usable_until: permit.deadline.saturating_to(),
                holds_until: permit.deadline.saturating_to(),
                ordered: false,
            },
            Self::UniswapxOrder { order, .. } => Takes {
                token: order.token_in(),
                spender: order.info().reactor,
                amount: order.most_in(),
                usable_until: order.info().deadline.saturating_to(),
                holds_until: order.info().deadline.saturating_to(),
                ordered: false,
            },
            Self::CrossChainOrder { intent, .. } => Takes {
                token: intent.data.inputToken,
                spender: intent.origin_settler,
                amount: intent.data.inputAmount,
                usable_until: intent.open_deadline.into(),
                holds_until: intent.open_deadline.into(),
                ordered: false,
            },
        };
        vec![takes]
    }

    /// Returns the nonce in Permit2's bitmap; `None` for a type with sequential nonces.
    pub fn unordered_nonce(&self) -> Option<U256> {
        match self {
            Self::Permit2Allowance { .. } => None,
            Self::Permit2Transfer { permit, .. } => Some(permit.nonce),
            Self::UniswapxOrder { order, .. } => Some(order.info().nonce),
            Self::CrossChainOrder { intent, .. } => Some(intent.nonce),
        }
    }

    /// Returns the name of the signed type, for display.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Permit2Allowance { .. } => "Permit2 PermitSingle",
            Self::Permit2Transfer { .. } => "Permit2 PermitTransferFrom",
            Self::UniswapxOrder { .. } => "UniswapX order (Permit2 PermitWitnessTransferFrom)",
            Self::CrossChainOrder { .. } => "ERC-7683 GaslessCrossChainOrder (Permit2 PermitWitnessTransferFrom)",
        }
    }

    /// Returns the fields with their values in the order of signing, for display.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Permit2Allowance { permit, .. } => vec![
                ("token", permit.details.token.to_string()),
                ("amount", permit.details.amount.to_string()),
                ("expiration", permit.details.expiration.to_string()),
                ("nonce", permit.details.nonce.to_string()),
                ("spender", permit.spender.to_string()),
                ("sigDeadline", permit.sigDeadline.to_string()),
            ],
            Self::Permit2Transfer { permit, .. } => vec![
                ("token", permit.permitted.token.to_string()),
                ("amount", permit.permitted.amount.to_string()),
                ("spender", permit.spender.to_string()),
                ("nonce", permit.nonce.to_string()),
                ("deadline", permit.deadline.to_string()),
            ],
            Self::UniswapxOrder { order, .. } => {
                let bounds = order.bounds();
                let mut fields = vec![
                    ("type", order.kind().to_string()),
                    ("reactor", order.info().reactor.to_string()),
                    ("swapper", order.info().swapper.to_string()),
                    ("nonce", order.info().nonce.to_string()),
                    ("deadline", order.info().deadline.to_string()),
                    ("cosigner", order.cosigner().unwrap_or_default().to_string()),
                    ("input token", bounds.token_in.to_string()),
                    ("most input", bounds.most_in.to_string()),
                ];
                for output in bounds.least_out {
                    fields.push(("output token", output.token.to_string()));
                    fields.push(("least output", output.amount.to_string()));
                    fields.push(("recipient", output.recipient.to_string()));
                }
                fields
            }
            Self::CrossChainOrder { intent, .. } => vec![
                ("originSettler", intent.origin_settler.to_string()),
                ("user", intent.user.to_string()),
                ("nonce", intent.nonce.to_string()),
                ("originChainId", intent.origin_chain_id.to_string()),
                ("openDeadline", intent.open_deadline.to_string()),
                ("fillDeadline", intent.fill_deadline.to_string()),
                ("inputToken", intent.data.inputToken.to_string()),
                ("inputAmount", intent.data.inputAmount.to_string()),
                ("outputToken", intent.data.outputToken.to_string()),
                ("outputAmount", intent.data.outputAmount.to_string()),
                ("destinationChainId", intent.data.destinationChainId.to_string()),
                ("recipient", intent.data.recipient.to_string()),
            ],
        }
    }
}

/// EIP-712 domain of Permit2, which has no version
/// ([EIP712.sol](https://github.com/Uniswap/permit2/blob/main/src/EIP712.sol)).
fn permit2_domain(permit2: Address, chain_id: u64) -> Eip712Domain {
    eip712_domain! {
        name: "Permit2",
        chain_id: chain_id,
        verifying_contract: permit2,
    }
}
