//! Only the pipeline creates a capability.
//@ error[E0624]: associated function `new` is private

use bardo::safety::pipeline::{Capability, Transaction};
use bardo::safety::{FeeBound, SigningPayload};

fn by_its_constructor(payload: SigningPayload, fees: FeeBound) -> Option<Capability> {
    Capability::<Transaction>::new(payload, 0, 0, fees)
}

fn main() {}
