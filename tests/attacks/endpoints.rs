//! One RPC endpoint of several that lies.
