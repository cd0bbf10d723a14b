//! Prices in dollars, each with its source and age. No price is an answer; zero is not.
