//! Tokens by symbol or address, with metadata read from the chain and sanitised.
