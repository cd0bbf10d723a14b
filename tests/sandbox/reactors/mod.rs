//! Orders against the real reactors, and intents against our settlers on two chains. What Bardo says an order takes
//! and pays, or why it is refused, is what OrderQuoter answers and what a fill moves, to the wei.

mod bare;
mod bridge;
mod fills;
mod fuzz;
mod ground;
mod quoter;
mod random;
