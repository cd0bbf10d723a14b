//! A capability is used up by reading what is to be signed.

use bardo::safety::Capability;

fn twice(capability: Capability) {
    let _first = capability.into_parts();
    let _second = capability.into_parts();
}

fn main() {}
