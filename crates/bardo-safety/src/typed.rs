//! Typed data that can be signed: a closed list. No function takes a bare hash, so no other kind can be signed.

use alloy::{
    dyn_abi::TypedData,
    primitives::{Address, B256, U256},
    sol_types::{Eip712Domain, SolStruct, eip712_domain},
};

use bardo_abi::permit2::typed::{PermitSingle, PermitTransferFrom};
use golem_chain::permit2::{self, Permit2Domain, Permit2Message};
use golem_protocols::intents::CrossChainIntent;
use golem_protocols::uniswap::order::UniswapXOrder;

/// Decoded typed data of a known kind ([EIP-712](https://eips.ethereum.org/EIPS/eip-712)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypedMessage {
    /// Permit2 AllowanceTransfer: an allowance inside Permit2 for one token.
    Permit2Allowance {
        /// Address of the Permit2 contract.
        permit2: Address,
        /// Typed permit to sign.
        permit: PermitSingle,
    },
    /// Permit2 SignatureTransfer: a single transfer, without a witness.
    Permit2Transfer {
        /// Address of the Permit2 contract.
        permit2: Address,
        /// Typed permit to sign.
        permit: PermitTransferFrom,
    },
    /// UniswapX order: a single Permit2 transfer for the order's reactor, with the order as its witness. The cosigner's
    /// data is not part of the signed message.
    UniswapxOrder {
        /// Address of the Permit2 contract.
        permit2: Address,
        /// UniswapX order to sign.
        order: Box<UniswapXOrder>,
    },
    /// ERC-7683 order: a single Permit2 transfer for the origin settler, with the order as its witness.
    CrossChainOrder {
        /// Address of the Permit2 contract.
        permit2: Address,
        /// Cross-chain order to sign.
        intent: Box<CrossChainIntent>,
    },
}

/// Amount that a signature lets its holder take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeableAmount {
    /// Contract of the token.
    pub token: Address,
    /// Address that may take it.
    pub spender: Address,
    /// Maximum amount, in raw units.
    pub amount: U256,
    /// Deadline for submitting the signature, in seconds since the Unix epoch.
    pub usable_until: u64,
    /// Expiry of the granted permission, in seconds since the Unix epoch.
    pub holds_until: u64,
    /// True for an allowance with sequential nonces, false for a transfer with unordered nonces.
    pub ordered: bool,
}

impl TypedMessage {
    /// Returns the EIP-712 signing hash on the chain with this id.
    pub fn digest(&self, chain_id: u64) -> B256 {
        match self {
            Self::Permit2Allowance { permit2, permit } => {
                permit.eip712_signing_hash(&permit2_domain(*permit2, chain_id))
            }
            Self::Permit2Transfer { permit2, permit } => {
                permit.eip712_signing_hash(&permit2_domain(*permit2, chain_id))
            }
            Self::UniswapxOrder { permit2, order } => {
                order.permit().digest(&Permit2Domain { chain_id, permit2: *permit2 })
            }
            Self::CrossChainOrder { permit2, intent } => {
                intent.permit().digest(&Permit2Domain { chain_id, permit2: *permit2 })
            }
        }
    }

    /// Returns the message as typed data in JSON, for a signer elsewhere. Its hash is [`Self::digest`]; `None` if that is
    /// not so.
    pub fn typed_data(&self, chain_id: u64) -> Option<TypedData> {
        let permit = match self {
            Self::Permit2Allowance { permit, .. } => Permit2Message::Allowance(permit.clone()),
            Self::Permit2Transfer { permit, .. } => Permit2Message::Transfer {
                permit: permit2::PermitTransferFrom {
                    permitted: permit2::TokenPermissions {
                        token: permit.permitted.token,
                        amount: permit.permitted.amount,
                    },
                    nonce: permit.nonce,
                    deadline: permit.deadline,
                },
                spender: permit.spender,
                witness: None,
            },
            Self::UniswapxOrder { order, .. } => order.permit(),
            Self::CrossChainOrder { intent, .. } => intent.permit(),
        };
        let data = permit.typed_data(&Permit2Domain { chain_id, permit2: self.verifier() })?;
        (data.eip712_signing_hash().ok()? == self.digest(chain_id)).then_some(data)
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

    /// Returns what the signature lets others take. Times beyond 64 bits are cut to the maximum.
    pub fn takes(&self) -> Vec<TakeableAmount> {
        let takes = match self {
            Self::Permit2Allowance { permit, .. } => TakeableAmount {
                token: permit.details.token,
                spender: permit.spender,
                amount: U256::from(permit.details.amount),
                usable_until: permit.sigDeadline.saturating_to(),
                holds_until: permit.details.expiration.to::<u64>(),
                ordered: true,
            },
            Self::Permit2Transfer { permit, .. } => TakeableAmount {
                token: permit.permitted.token,
                spender: permit.spender,
                amount: permit.permitted.amount,
                usable_until: permit.deadline.saturating_to(),
                holds_until: permit.deadline.saturating_to(),
                ordered: false,
            },
            Self::UniswapxOrder { order, .. } => TakeableAmount {
                token: order.token_in(),
                spender: order.info().reactor,
                amount: order.most_in(),
                usable_until: order.info().deadline.saturating_to(),
                holds_until: order.info().deadline.saturating_to(),
                ordered: false,
            },
            Self::CrossChainOrder { intent, .. } => TakeableAmount {
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

    /// Returns the nonce in Permit2's bitmap that the signature uses; `None` for an allowance, which has sequential
    /// nonces.
    pub fn unordered_nonce(&self) -> Option<U256> {
        match self {
            Self::Permit2Allowance { .. } => None,
            Self::Permit2Transfer { permit, .. } => Some(permit.nonce),
            Self::UniswapxOrder { order, .. } => Some(order.info().nonce),
            Self::CrossChainOrder { intent, .. } => Some(intent.nonce),
        }
    }

    /// Returns the display name of the signed type.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Permit2Allowance { .. } => "Permit2 PermitSingle",
            Self::Permit2Transfer { .. } => "Permit2 PermitTransferFrom",
            Self::UniswapxOrder { .. } => "UniswapX order (Permit2 PermitWitnessTransferFrom)",
            Self::CrossChainOrder { .. } => "ERC-7683 GaslessCrossChainOrder (Permit2 PermitWitnessTransferFrom)",
        }
    }

    /// Returns the fields with their values, in signing order, for display.
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
                    ("maximum input", bounds.most_in.to_string()),
                ];
                for output in bounds.least_out {
                    fields.push(("output token", output.token.to_string()));
                    fields.push(("minimum output", output.amount.to_string()));
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
