//! Spending caps, breakers and high-water marks that an attacker moves.
