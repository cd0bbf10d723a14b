//! The capability to sign an order does not permit signing a transaction.
//@ error[E0308]: mismatched types

use bardo::safety::Account;
use bardo::safety::pipeline::{Capability, Order};

fn sign(account: &dyn Account, capability: Capability<Order>) {
    let _signed = account.sign(capability);
}

fn main() {}
