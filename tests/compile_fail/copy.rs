//! A capability cannot be copied.
//@ `Capability` does not implement `Clone`

use bardo::safety::Capability;

fn copy(capability: &Capability) -> Capability {
    capability.clone()
}

fn main() {}
