//! A capability cannot be assembled from its parts.
//@ error[E0451]: fields `to_sign` and `action` of struct `Capability` are private

use std::marker::PhantomData;

use bardo::safety::pipeline::{Capability, ToSign};

fn by_hand(to_sign: ToSign) -> Capability {
    Capability { to_sign, action: PhantomData }
}

fn main() {}
