//! A capability is read once: this is what custody does, and it compiles.
//@ compiles

use bardo::safety::Capability;
use bardo::safety::pipeline::ToSign;

fn once(capability: Capability) -> ToSign {
    capability.into_parts()
}

fn main() {}
