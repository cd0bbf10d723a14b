//! Control case that compiles: custody reads a capability once.
//@ compiles

use bardo::safety::Capability;
use bardo::safety::pipeline::ToSign;

fn once(capability: Capability) -> ToSign {
    capability.into_parts()
}

fn main() {}
