//! Orders against the real reactors: what Bardo says an order takes and pays, or why it is refused, is what OrderQuoter
//! answers and what a fill moves, to the wei.

mod bare;
mod fills;
mod ground;
mod quoter;
mod random;
