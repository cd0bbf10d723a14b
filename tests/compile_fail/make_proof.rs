//! Only a password check creates a proof that the operator decided.
//@ error[E0624]: associated function `issue` is private

use std::path::Path;

use bardo::safety::operator_proof::{Authorisation, Basis, OperatorProof};

fn forged() -> OperatorProof {
    OperatorProof::issue(Authorisation::ResetBreaker, Basis::NoKeys, Path::new(""), 0)
}

fn main() {}
