//! Signing takes a capability, not a signing payload.
//@ error[E0308]: mismatched types

use bardo::safety::{Account, SigningPayload};

fn sign(account: &dyn Account, framed: SigningPayload) {
    let _signed = account.sign(framed);
}

fn main() {}
