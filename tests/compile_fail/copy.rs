//! A capability cannot be copied.

use bardo::safety::Capability;

fn copy(capability: &Capability) -> Capability {
    capability.clone()
}

fn main() {}
