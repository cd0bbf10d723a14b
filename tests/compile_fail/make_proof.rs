//! Only a password check creates a proof that the operator decided.
//@ error[E0624]: associated function `issue` is private

use std::path::Path;

use bardo::safety::operator_proof::{Authorisation, ProofBasis, OperatorProof};

fn forged() -> OperatorProof {
    OperatorProof::issue(Authorisation::ResetBreaker, ProofBasis::NoKeys, Path::new(""), 0)
}

fn main() {}
