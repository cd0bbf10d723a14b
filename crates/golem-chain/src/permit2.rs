//! Permit2's typed data: permits for allowances and transfers, their hashes, the calldata that carries the signature,
//! and the nonces that make a permit valid once.
//!
//! The EIP-712 domain has a name, a chain and a contract, but no version. `AllowanceTransfer` increments its nonces per
//! owner, token and spender. `SignatureTransfer` accepts any nonce once and keeps a bitmap per owner. Formulas:
//! <https://github.com/Uniswap/permit2>, `src/libraries/PermitHash.sol`.
//!
//! Not here: signing policy (see `safety`), signing (see `custody`), batched on-chain reads (see `chain::multicall`).

use std::borrow::Cow;

use alloy::dyn_abi::TypedData;
use alloy::dyn_abi::eip712::Resolver;
use alloy::primitives::aliases::U160;
use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::sol_types::{Eip712Domain, SolCall, SolStruct, SolValue};
use serde_json::{Map, Value, json};

use super::typed_data::{content_in, content_of};
use bardo_abi::permit2::Permit2;
pub use bardo_abi::permit2::Permit2::{
    PermitBatch, PermitBatchTransferFrom, PermitDetails, PermitSingle, PermitTransferFrom, SignatureTransferDetails,
    TokenPermissions,
};

/// Type definition of `TokenPermissions`, which every transfer type refers to.
const TOKEN_PERMISSIONS: &str = "TokenPermissions(address token,uint256 amount)";

/// Allowance that Permit2 never decreases: the spender may take any amount until it expires.
pub const UNLIMITED: U160 = U160::MAX;

/// A Permit2 contract on a chain; signatures are valid for this pair only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permit2Domain {
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Address of the Permit2 contract.
    pub permit2: Address,
}

impl Permit2Domain {
    /// The EIP-712 domain: name, chain and contract, without version and salt.
    pub fn eip712(&self) -> Eip712Domain {
        Eip712Domain {
            name: Some(Cow::Borrowed("Permit2")),
            version: None,
            chain_id: Some(U256::from(self.chain_id)),
            verifying_contract: Some(self.permit2),
            salt: None,
        }
    }

    /// Hash of the domain, which the contract returns from `DOMAIN_SEPARATOR()`.
    pub fn separator(&self) -> B256 {
        self.eip712().hash_struct()
    }
}

/// Extra data that a signed transfer commits to, such as an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitWitness {
    /// `hashStruct` of the witness.
    hash: B256,
    /// Part of the type string that follows `uint256 deadline,`: the witness member, then all referenced structs in
    /// alphabetical order, including `TokenPermissions`.
    type_string: String,
    /// ABI encoding of the struct; `None` if only its hash is known.
    encoded: Option<Bytes>,
}

impl PermitWitness {
    /// Creates a witness of the struct `name`. `definitions` are those of the struct itself and of all structs it
    /// refers to, such as `Order(address maker)`, in any order.
    pub fn new<'a>(name: &str, definitions: impl IntoIterator<Item = &'a str>, hash: B256) -> Self {
        let mut definitions: Vec<&str> = definitions.into_iter().chain([TOKEN_PERMISSIONS]).collect();
        definitions.sort_by_key(|definition| name_of(definition));
        definitions.dedup();
        Self { hash, type_string: format!("{name} witness){}", definitions.concat()), encoded: None }
    }

    /// Creates the witness of a Solidity struct.
    pub fn of<T: SolStruct + SolValue>(value: &T) -> Self {
        let (root, components) = (T::eip712_root_type(), T::eip712_components());
        let definitions = components.iter().chain([&root]).map(AsRef::as_ref);
        let witness = Self::new(T::NAME, definitions, value.eip712_hash_struct());
        Self { encoded: Some(value.abi_encode().into()), ..witness }
    }

    /// `hashStruct` of the witness.
    pub fn hash(&self) -> B256 {
        self.hash
    }

    /// The `witnessTypeString` argument of the contract call.
    pub fn type_string(&self) -> &str {
        &self.type_string
    }
}

/// Name of the struct that a type definition defines.
fn name_of(definition: &str) -> &str {
    definition.split('(').next().unwrap_or_default()
}

/// A message that Permit2 accepts a signature over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit2Message {
    /// An allowance for one token.
    Allowance(PermitSingle),
    /// Allowances for several tokens and one spender.
    AllowanceBatch(PermitBatch),
    /// A single transfer.
    Transfer {
        /// Token, maximum amount, nonce and deadline.
        permit: PermitTransferFrom,
        /// Account that may execute the transfer.
        spender: Address,
        /// Extra data that the signature commits to.
        witness: Option<PermitWitness>,
    },
    /// One transfer of several tokens.
    TransferBatch {
        /// Tokens with the maximum amount of each, nonce and deadline.
        permit: PermitBatchTransferFrom,
        /// Account that may execute the transfer.
        spender: Address,
        /// Extra data that the signature commits to.
        witness: Option<PermitWitness>,
    },
}

/// Error for a number of transfers that differs from the permit's number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the permit is for {permitted} transfers, but {given} were given: give one for each token, none for an allowance"
)]
pub struct DetailsMismatch {
    /// Number of transfers that the permit needs.
    pub permitted: usize,
    /// Number of transfers in the call.
    pub given: usize,
}

impl Permit2Message {
    /// Account that the permit authorises.
    pub fn spender(&self) -> Address {
        match self {
            Self::Allowance(permit) => permit.spender,
            Self::AllowanceBatch(permit) => permit.spender,
            Self::Transfer { spender, .. } | Self::TransferBatch { spender, .. } => *spender,
        }
    }

    /// Time until which the signature is accepted, in seconds since the Unix epoch. The allowance it grants may last
    /// longer.
    pub fn deadline(&self) -> U256 {
        match self {
            Self::Allowance(permit) => permit.sigDeadline,
            Self::AllowanceBatch(permit) => permit.sigDeadline,
            Self::Transfer { permit, .. } => permit.deadline,
            Self::TransferBatch { permit, .. } => permit.deadline,
        }
    }

    /// Type string of the permit in the encoding of EIP-712 (`encodeType`).
    pub fn type_string(&self) -> String {
        let transfer = |name: &str, permitted: &str, witness: &Option<PermitWitness>| {
            let (kind, rest) = match witness {
                None => ("", format!("){TOKEN_PERMISSIONS}")),
                Some(witness) => ("Witness", format!(",{}", witness.type_string)),
            };
            format!(
                "Permit{name}{kind}TransferFrom({permitted} permitted,address spender,uint256 nonce,uint256 deadline{rest}"
            )
        };
        match self {
            Self::Allowance(_) => PermitSingle::eip712_encode_type().into_owned(),
            Self::AllowanceBatch(_) => PermitBatch::eip712_encode_type().into_owned(),
            Self::Transfer { witness, .. } => transfer("", "TokenPermissions", witness),
            Self::TransferBatch { witness, .. } => transfer("Batch", "TokenPermissions[]", witness),
        }
    }

    /// EIP-712 `typeHash` of the permit.
    pub fn type_hash(&self) -> B256 {
        keccak256(self.type_string())
    }

    /// EIP-712 `hashStruct` of the permit.
    pub fn struct_hash(&self) -> B256 {
        let transfer =
            |permitted: B256, spender: Address, nonce: U256, deadline: U256, witness: &Option<PermitWitness>| {
                let fixed = (self.type_hash(), permitted, spender, nonce, deadline).abi_encode();
                match witness {
                    None => keccak256(fixed),
                    Some(witness) => keccak256([fixed.as_slice(), witness.hash.as_slice()].concat()),
                }
            };
        match self {
            Self::Allowance(permit) => permit.eip712_hash_struct(),
            Self::AllowanceBatch(permit) => permit.eip712_hash_struct(),
            Self::Transfer { permit, spender, witness } => {
                transfer(permit.permitted.eip712_hash_struct(), *spender, permit.nonce, permit.deadline, witness)
            }
            Self::TransferBatch { permit, spender, witness } => {
                let each: Vec<B256> = permit.permitted.iter().map(SolStruct::eip712_hash_struct).collect();
                transfer(keccak256(each.concat()), *spender, permit.nonce, permit.deadline, witness)
            }
        }
    }

    /// EIP-712 digest to sign.
    pub fn digest(&self, domain: &Permit2Domain) -> B256 {
        keccak256([&[0x19, 0x01], domain.separator().as_slice(), self.struct_hash().as_slice()].concat())
    }

    /// The permit as typed data in JSON, as wallets and signing services take it (`eth_signTypedData_v4`,
    /// [EIP-712](https://eips.ethereum.org/EIPS/eip-712)). Its hash is [`Self::digest`]; `None` if it is not, and for a
    /// witness of which only the hash is known.
    pub fn typed_data(&self, domain: &Permit2Domain) -> Option<TypedData> {
        let type_string = self.type_string();
        let mut resolver = Resolver::default();
        resolver.ingest_string(&type_string).ok()?;
        resolver.ingest_string(domain.eip712().encode_type()).ok()?;
        let transfer = |permitted: Value, (spender, nonce, deadline): (&Address, U256, U256), witness: &Option<_>| {
            let mut message = Map::new();
            message.insert("permitted".to_owned(), permitted);
            message.insert("spender".to_owned(), json!(spender.to_string()));
            message.insert("nonce".to_owned(), json!(nonce.to_string()));
            message.insert("deadline".to_owned(), json!(deadline.to_string()));
            if let Some(PermitWitness { type_string, encoded, .. }) = witness {
                let (name, _) = type_string.split_once(' ')?;
                let content = resolver.resolve(name).ok()?.abi_decode(encoded.as_ref()?).ok()?;
                message.insert("witness".to_owned(), content_of(&content));
            }
            Some(Value::Object(message))
        };
        let message = match self {
            Self::Allowance(permit) => content_in(&resolver, permit)?,
            Self::AllowanceBatch(permit) => content_in(&resolver, permit)?,
            Self::Transfer { permit, spender, witness } => {
                transfer(content_in(&resolver, &permit.permitted)?, (spender, permit.nonce, permit.deadline), witness)?
            }
            Self::TransferBatch { permit, spender, witness } => {
                let each: Option<Vec<Value>> = permit.permitted.iter().map(|one| content_in(&resolver, one)).collect();
                transfer(Value::Array(each?), (spender, permit.nonce, permit.deadline), witness)?
            }
        };
        let primary_type = name_of(&type_string).to_owned();
        let data = TypedData { domain: domain.eip712(), resolver, primary_type, message };
        (data.eip712_signing_hash().ok()? == self.digest(domain)).then_some(data)
    }

    /// Calldata of the Permit2 call that uses `owner`'s `signature`. `transfers` names recipient and amount for each
    /// token of a transfer; it is empty for an allowance.
    ///
    /// # Errors
    /// [`DetailsMismatch`] if the number of `transfers` differs from the number of tokens that the permit transfers.
    pub fn calldata(
        &self,
        owner: Address,
        transfers: &[SignatureTransferDetails],
        signature: Bytes,
    ) -> Result<Bytes, DetailsMismatch> {
        let permitted = match self {
            Self::Allowance(_) | Self::AllowanceBatch(_) => 0,
            Self::Transfer { .. } => 1,
            Self::TransferBatch { permit, .. } => permit.permitted.len(),
        };
        let mismatch = DetailsMismatch { permitted, given: transfers.len() };
        if mismatch.permitted != mismatch.given {
            return Err(mismatch);
        }
        let one = || transfers.first().cloned().ok_or(mismatch);
        let calldata = match self.clone() {
            Self::Allowance(permit) => Permit2::permit_0Call { owner, permitSingle: permit, signature }.abi_encode(),
            Self::AllowanceBatch(permit) => {
                Permit2::permit_1Call { owner, permitBatch: permit, signature }.abi_encode()
            }
            Self::Transfer { permit, witness: None, .. } => {
                Permit2::permitTransferFrom_0Call { permit, transferDetails: one()?, owner, signature }.abi_encode()
            }
            Self::Transfer { permit, witness: Some(witness), .. } => Permit2::permitWitnessTransferFrom_0Call {
                permit,
                transferDetails: one()?,
                owner,
                witness: witness.hash,
                witnessTypeString: witness.type_string,
                signature,
            }
            .abi_encode(),
            Self::TransferBatch { permit, witness: None, .. } => {
                Permit2::permitTransferFrom_1Call { permit, transferDetails: transfers.to_vec(), owner, signature }
                    .abi_encode()
            }
            Self::TransferBatch { permit, witness: Some(witness), .. } => Permit2::permitWitnessTransferFrom_1Call {
                permit,
                transferDetails: transfers.to_vec(),
                owner,
                witness: witness.hash,
                witnessTypeString: witness.type_string,
                signature,
            }
            .abi_encode(),
        };
        Ok(calldata.into())
    }
}

/// Position of a transfer's nonce in the owner's bitmap: the word index for `nonceBitmap`, and the bit in that word.
pub fn nonce_position(nonce: U256) -> (U256, usize) {
    // The low byte is below 256.
    (nonce >> 8, usize::from(nonce.byte(0)))
}

/// Returns true if `nonce` is used, given the `bits` that `nonceBitmap` returns for its word.
pub fn nonce_used(nonce: U256, bits: U256) -> bool {
    bits.bit(nonce_position(nonce).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_are_bits_of_words() {
        assert_eq!(nonce_position(U256::ZERO), (U256::ZERO, 0));
        assert_eq!(nonce_position(U256::from(256 * 7 + 255)), (U256::from(7), 255));
        assert_eq!(nonce_position(U256::MAX), (U256::MAX >> 8, 255));
        assert!(nonce_used(U256::from(258), U256::from(0b100)));
        assert!(!nonce_used(U256::from(257), U256::from(0b100)));
    }

    #[test]
    fn calldata_refuses_another_number_of_transfers() {
        let permit = Permit2Message::Transfer {
            permit: PermitTransferFrom {
                permitted: TokenPermissions { token: Address::ZERO, amount: U256::from(1) },
                nonce: U256::ZERO,
                deadline: U256::ZERO,
            },
            spender: Address::ZERO,
            witness: None,
        };
        let refused = permit.calldata(Address::ZERO, &[], Bytes::new());
        assert_eq!(refused, Err(DetailsMismatch { permitted: 1, given: 0 }));
    }
}
