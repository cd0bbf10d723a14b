//! Orders with the real reactors, and intents with Bardo's settlers on two chains. Bardo's amounts of an order, or its
//! reason for rejecting it, equal OrderQuoter's answer and the flows of a fill, exactly.

mod bare;
mod bridge;
mod fills;
mod fixture;
mod fuzz;
mod quoter;
mod random;
