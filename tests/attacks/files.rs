//! Files, folders, recordings and address books that an attacker wrote.
