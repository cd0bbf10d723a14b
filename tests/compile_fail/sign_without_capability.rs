//! Signing takes a capability, not a signing payload.
//@ error[E0308]: mismatched types

use bardo::safety::{Account, SigningPayload};

fn sign(account: &dyn Account, payload: SigningPayload) {
    let _signed = account.sign(payload);
}

fn main() {}
