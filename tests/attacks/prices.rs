//! Pools and feeds that an attacker moves.
