//! The provider stack: endpoints with timeouts, retry, failover, and chain health.
