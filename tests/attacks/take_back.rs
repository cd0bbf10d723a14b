//! Actions that pretend only to revoke, cancel or refund.
