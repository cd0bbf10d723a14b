//! Only the pipeline creates the capability to sign an order.
//@ error[E0624]: associated function `of_order` is private

use bardo::safety::SigningPayload;
use bardo::safety::pipeline::{Capability, Order};

fn by_its_constructor(payload: SigningPayload) -> Option<Capability<Order>> {
    Capability::<Order>::of_order(payload)
}

fn main() {}
