//! Token amounts, dollars and basis points: exact, checked, never floating point.
