//! Placeholders for signatures that do not exist yet, for the simulation of calldata that will carry them.
//!
//! The digest is known before it is signed. The payload is therefore simulated with [`PLACEHOLDER_SIGNATURE`] in place
//! of the signature. For exactly one digest with exactly the placeholder, `ecrecover` returns the future signer. Gas is
//! that of the precompile, and all other inputs are recovered as usual.
//!
//! The placeholder is never a valid signature elsewhere: its r is above the order of secp256k1, so `ecrecover` on a
//! real chain recovers no account from it.

use alloy::primitives::{Address, B256, Bytes, b256, hex};
use revm::context::Cfg;
use revm::context_interface::ContextTr;
use revm::handler::{EthPrecompiles, PrecompileProvider};
use revm::interpreter::{CallInputs, InterpreterResult};
use revm::primitives::{AddressSet, hardfork::SpecId};

/// Placeholder in calldata for a future signature: r, s, v. It has no zero byte, so its calldata costs at least as much
/// as any signature's. Its s is low and v is 27.
pub const PLACEHOLDER_SIGNATURE: [u8; 65] = hex!(
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "1111111111111111111111111111111111111111111111111111111111111111"
    "1b"
);

/// r and s of the placeholder, as `ecrecover` receives them.
const PLACEHOLDER_R: B256 = b256!("ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff");
const PLACEHOLDER_S: B256 = b256!("1111111111111111111111111111111111111111111111111111111111111111");
const PLACEHOLDER_V: B256 = b256!("000000000000000000000000000000000000000000000000000000000000001b");

const ECRECOVER: Address = revm::precompile::u64_to_address(1);

/// A future signature over `digest` by `signer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignaturePlaceholder {
    /// The digest that will be signed.
    pub digest: B256,
    /// The account that will sign it.
    pub signer: Address,
}

/// The precompiles of a hardfork, with placeholders in `ecrecover`.
#[derive(Clone)]
pub(crate) struct Precompiles {
    inner: EthPrecompiles,
    stand_ins: Vec<SignaturePlaceholder>,
}

impl Precompiles {
    pub(crate) fn new(spec: SpecId, stand_ins: &[SignaturePlaceholder]) -> Self {
        Self { inner: EthPrecompiles::new(spec), stand_ins: stand_ins.to_vec() }
    }

    /// Future signer of the placeholder in this input of `ecrecover`.
    fn signer(&self, input: &[u8]) -> Option<Address> {
        let (digest, rest) = input.split_first_chunk::<32>()?;
        let placeholder = [PLACEHOLDER_V, PLACEHOLDER_R, PLACEHOLDER_S].concat();
        // The precompile ignores bytes after the fourth word.
        if !rest.starts_with(&placeholder) {
            return None;
        }
        self.stand_ins.iter().find(|stand_in| stand_in.digest == *digest).map(|stand_in| stand_in.signer)
    }
}

impl<CTX: ContextTr<Cfg: Cfg<Spec = SpecId>>> PrecompileProvider<CTX> for Precompiles {
    type Output = InterpreterResult;

    fn set_spec(&mut self, spec: SpecId) -> bool {
        <EthPrecompiles as PrecompileProvider<CTX>>::set_spec(&mut self.inner, spec)
    }

    fn run(&mut self, context: &mut CTX, inputs: &CallInputs) -> Result<Option<InterpreterResult>, String> {
        let answer = self.inner.run(context, inputs)?;
        if self.stand_ins.is_empty() || inputs.bytecode_address != ECRECOVER {
            return Ok(answer);
        }
        let signer = self.signer(&inputs.input.as_bytes(context));
        Ok(answer.map(|mut answer| {
            if let (Some(signer), true) = (signer, answer.result.is_ok()) {
                answer.output = Bytes::copy_from_slice(signer.into_word().as_slice());
            }
            answer
        }))
    }

    fn warm_addresses(&self) -> &AddressSet {
        self.inner.warm_addresses()
    }
}
