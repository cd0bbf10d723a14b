//! Reading the payload consumes the capability.
//@ error[E0382]: use of moved value: `capability`

use bardo::safety::Capability;

fn twice(capability: Capability) {
    let _first = capability.into_parts();
    let _second = capability.into_parts();
}

fn main() {}
