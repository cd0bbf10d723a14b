//! Signing takes a capability, not a signing payload.
//@ error[E0308]: mismatched types

use bardo::safety::{Account, Framed};

fn sign(account: &dyn Account, framed: Framed) {
    let _signed = account.sign(framed);
}

fn main() {}
