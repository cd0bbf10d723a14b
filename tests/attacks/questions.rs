//! Rows that an attacker writes into the shared approval queue, and approvals that skip what must be typed.
