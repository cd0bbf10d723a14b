//! Routing over a set of pools: direct and up to three hops, whole and split, exact input and
//! exact output, best after gas.

mod impact;

pub use impact::price_impact_with_fee;
